//! Who holds, and who waits: the rules of every lock object, without threads and without a clock.
//!
//! A lock is a capacity of one, a semaphore one of `n`; a reader takes one of very many, and a
//! writer takes them all. Requests wait in one queue. Whoever is at its head is let in as soon as
//! there is room, and nobody else is: so the order is that of arrival, for large requests, too, and
//! readers that stand beside each other come in together.
//!
//! - M1: `used` is the sum of what the holds weigh, and of what is lent. It is above the capacity only after that was
//!   reduced.
//! - M2: nobody is let in while somebody waits before them, or there is no room.
//! - M3: when a call returns, the head of the queue does not fit. So no room is left unused.
//! - M4: fences increase strictly, in the order in which holds begin.
//! - M5: a request ends once: let in, refused, or taken out of the queue.
//! - M6: no owner waits for itself: it has one hold at most, and none of its requests stands in the
//!   queue meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;

use crate::estimate::Estimate;

/// What a hold is known by, outside.
pub(crate) trait Term {
    /// One more entry. False: it is over.
    fn enter(&self) -> bool;
    /// An entry ends that nobody has got to know of.
    fn exit(&self);
    /// Is it over: was it given back, or has its lease ended? Then it is taken away by that, and
    /// the holder is told.
    fn expire(&self, now: Duration) -> bool;
    /// The same; it looks at the clock only if there is a lease.
    fn is_over(&self, now: impl FnOnce() -> Duration) -> bool;
    /// It is taken away, and the holder is told. False: it was over before.
    fn lose(&self) -> bool;
}

/// Where requests come from.
pub(crate) trait Host<W, T> {
    fn now(&mut self) -> Duration;
    /// The next fence: larger than all before.
    fn fence(&mut self) -> u64;
    /// Does it still wait?
    fn waits(&self, ticket: &W) -> bool;
    /// Lets in one that waited, or learns that it has gone.
    fn let_in(&mut self, ticket: W, fence: u64) -> Option<T>;
    /// Lets one into the hold that its owner has got meanwhile, or learns that it has gone (false).
    /// It has [entered](Term::enter).
    fn join(&mut self, ticket: W, fence: u64, term: &T) -> bool;
    /// Sends one away that waited, or learns that it has gone (false).
    fn refuse(&mut self, ticket: W, why: Refusal) -> bool;
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no room now, and it was not to wait.
    Busy,
    /// Its wait was over before there was room.
    TimedOut { at: Duration },
    /// It would have to wait so long, as far as is known.
    Expected(Duration),
    /// It waits for its own owner.
    Deadlock,
    /// There will never be so much room.
    TooLarge { capacity: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Names this request.
    pub(crate) number: u64,
    /// Requests of one owner do not wait for each other.
    pub(crate) owner: Option<u64>,
    pub(crate) weight: u64,
    /// When its wait is over, if ever.
    pub(crate) until: Option<Duration>,
    /// It has looked at the clock: so may its hold.
    pub(crate) timed: bool,
    /// Now or not at all.
    pub(crate) immediate: bool,
    /// Refused if it would wait longer than this.
    pub(crate) patience: Option<Duration>,
}

/// What comes of a request at once.
#[derive(Debug)]
pub(crate) enum Entered<T> {
    /// It holds.
    In {
        fence: u64,
        term: T,
    },
    /// It is in the queue.
    Waits,
    Refused(Refusal),
}

struct Waiter<W> {
    request: Request,
    since: Duration,
    ticket: W,
}

pub(crate) struct Hold<T> {
    fence: u64,
    owner: Option<u64>,
    /// What each of its entries asked for; the hold weighs as much as the largest.
    entries: SmallVec<[(u64, u64); 1]>,
    /// Since when, if anybody wants to know.
    since: Option<Duration>,
    term: T,
}

impl<T> Hold<T> {
    fn weight(&self) -> u64 {
        self.entries.iter().map(|&(_, weight)| weight).max().unwrap_or(0)
    }
}

/// What is known of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) holds: usize,
    pub(crate) waiting: usize,
    /// Since when the oldest request waits.
    pub(crate) oldest_wait: Option<Duration>,
}

pub(crate) struct Machine<W, T> {
    capacity: u64,
    used: u64,
    /// In the order of their fences.
    holds: SmallVec<[Hold<T>; 1]>,
    queue: VecDeque<Waiter<W>>,
    /// So many in the queue have said that they are gone; less those that were found gone before
    /// they said so.
    gone: isize,
    /// Somebody wants to know how long a hold lasts: before that, no clock is looked at.
    measured: bool,
    estimate: Estimate,
}

impl<W, T: Term + Clone> Machine<W, T> {
    pub(crate) fn new(capacity: u64) -> Self {
        Machine {
            capacity,
            used: 0,
            holds: SmallVec::new(),
            queue: VecDeque::new(),
            gone: 0,
            measured: false,
            estimate: Estimate::default(),
        }
    }

    /// With one hold.
    pub(crate) fn held(capacity: u64, (fence, number): (u64, u64), weight: u64, term: T) -> Self {
        let mut machine = Machine::new(capacity);
        machine.used = weight;
        let mut entries = SmallVec::new();
        entries.push((number, weight));
        machine.holds.push(Hold { fence, owner: None, entries, since: None, term });
        machine
    }

    /// So much of its room is used elsewhere no more: others come in.
    pub(crate) fn pay_back(&mut self, room: u64, host: &mut impl Host<W, T>) {
        self.take_back(room);
        self.let_in(host);
    }

    /// The same, before something is asked.
    pub(crate) fn take_back(&mut self, room: u64) {
        self.used -= room;
    }

    /// Lends all the room there is: from now on that counts as used, though no hold has it. None:
    /// it must not, for somebody waits or wants to know how long holds last, or too much is used.
    pub(crate) fn lend(&mut self) -> Option<u64> {
        if self.measured || !self.queue.is_empty() {
            return None;
        }
        let room = self.capacity.checked_sub(self.used)?;
        self.used = self.capacity;
        Some(room)
    }

    /// What was lent is a hold from now on, with its fence for a number.
    pub(crate) fn adopt(&mut self, fence: u64, weight: u64, term: T) {
        let Err(at) = self.holds.binary_search_by_key(&fence, |hold| hold.fence) else { return };
        let mut entries = SmallVec::new();
        entries.push((fence, weight));
        self.holds.insert(at, Hold { fence, owner: None, entries, since: None, term });
    }

    /// Asks for room. `term` describes the hold, if there is one at once; `ticket` stands for the
    /// request, if it waits.
    pub(crate) fn enter(
        &mut self,
        request: Request,
        host: &mut impl Host<W, T>,
        term: impl FnOnce() -> T,
        ticket: impl FnOnce() -> W,
    ) -> Entered<T> {
        if request.weight > self.capacity {
            return Entered::Refused(Refusal::TooLarge { capacity: self.capacity });
        }
        if let Some(entered) = self.again(&request, host) {
            return entered;
        }
        if !self.fits(request.weight) {
            self.expire(host);
            // The owner may have been let in for what was over.
            if let Some(entered) = self.again(&request, host) {
                return entered;
            }
        }
        if self.queue.is_empty() && self.fits(request.weight) {
            let fence = host.fence();
            let term = term();
            let since = (self.measured || request.timed).then(|| host.now());
            self.hold(&request, fence, term.clone(), since);
            return Entered::In { fence, term };
        }
        if request.immediate {
            return Entered::Refused(Refusal::Busy);
        }
        let now = host.now();
        if let Some(patience) = request.patience {
            self.measured = true;
            let expected = self.expected(now);
            if expected > patience {
                return Entered::Refused(Refusal::Expected(expected));
            }
        }
        self.queue.push_back(Waiter { request, since: now, ticket: ticket() });
        Entered::Waits
    }

    /// Entry of an owner who holds already.
    fn again(&mut self, request: &Request, host: &mut impl Host<W, T>) -> Option<Entered<T>> {
        let owner = request.owner?;
        loop {
            let hold = self.holds.iter_mut().find(|hold| hold.owner == Some(owner))?;
            // What is over, and was not taken away yet, is nobody's any more.
            if hold.term.is_over(|| host.now()) {
                self.expire(host);
            } else if hold.weight() < request.weight {
                return Some(Entered::Refused(Refusal::Deadlock));
            } else if hold.term.enter() {
                hold.entries.push((request.number, request.weight));
                return Some(Entered::In { fence: hold.fence, term: hold.term.clone() });
            }
        }
    }

    fn fits(&self, weight: u64) -> bool {
        self.capacity.checked_sub(self.used).is_some_and(|room| weight <= room)
    }

    fn hold(&mut self, request: &Request, fence: u64, term: T, since: Option<Duration>) {
        self.used += request.weight;
        let mut entries = SmallVec::new();
        entries.push((request.number, request.weight));
        self.holds.push(Hold { fence, owner: request.owner, entries, since, term });
    }

    /// How many wait: those in the queue that have not said that they are gone.
    fn waiting(&self) -> usize {
        self.queue.len() - self.gone.max(0).unsigned_abs().min(self.queue.len())
    }

    /// What was known before, of how long holds last. They are measured from now on.
    pub(crate) fn know(&mut self, estimate: Estimate) {
        if !std::mem::replace(&mut self.measured, true) {
            self.estimate = estimate;
        }
    }

    /// What is known of how long holds last, if that is measured.
    pub(crate) fn known(&self) -> Option<Estimate> {
        self.measured.then_some(self.estimate)
    }

    /// How long a request that came now would wait.
    pub(crate) fn expected(&self, now: Duration) -> Duration {
        if self.waiting() == 0 && self.used < self.capacity {
            return Duration::ZERO;
        }
        let running = self
            .holds
            .iter()
            .filter_map(|hold| hold.since)
            .map(|since| now.saturating_sub(since))
            .max();
        self.estimate.wait(self.waiting(), running.unwrap_or_default())
    }

    /// An entry of a hold ends, and others come in. False: it had expired, or was forced.
    pub(crate) fn leave(&mut self, fence: u64, number: u64, host: &mut impl Host<W, T>) -> bool {
        let left = self.end(fence, number, host);
        self.let_in(host);
        left
    }

    fn end(&mut self, fence: u64, number: u64, host: &mut impl Host<W, T>) -> bool {
        let Some((index, entry)) = self.find(fence, number) else { return false };
        let hold = &mut self.holds[index];
        let before = hold.weight();
        hold.entries.swap_remove(entry);
        self.used -= before - hold.weight();
        if hold.entries.is_empty() {
            let since = self.holds.remove(index).since;
            if let Some(since) = since.filter(|_| self.measured) {
                self.estimate.took(host.now().saturating_sub(since));
            }
        }
        true
    }

    fn find(&self, fence: u64, number: u64) -> Option<(usize, usize)> {
        let index = self.holds.binary_search_by_key(&fence, |hold| hold.fence).ok()?;
        let entry = self.holds[index].entries.iter().position(|entry| entry.0 == number)?;
        Some((index, entry))
    }

    /// One of those in the queue does not wait any more: it says so itself, once.
    pub(crate) fn give_up(&mut self, host: &mut impl Host<W, T>) {
        self.gone += 1;
        if self.gone > 16 && self.gone.unsigned_abs() > self.queue.len() / 2 {
            let before = self.queue.len();
            self.queue.retain(|waiter| host.waits(&waiter.ticket));
            self.gone -= (before - self.queue.len()) as isize;
        }
        self.let_in(host);
    }

    /// A request is withdrawn, whatever has come of it.
    pub(crate) fn withdraw(&mut self, number: u64, host: &mut impl Host<W, T>) {
        let entry = |hold: &&Hold<T>| hold.entries.iter().any(|entry| entry.0 == number);
        if let Some(hold) = self.holds.iter().find(entry) {
            // Nobody has got a guard for it.
            hold.term.exit();
            let fence = hold.fence;
            self.end(fence, number, host);
        } else {
            self.queue.retain(|waiter| waiter.request.number != number);
        }
        self.let_in(host);
    }

    /// An entry weighs less from now on. False: it had expired, or was forced.
    pub(crate) fn lighten(
        &mut self,
        (fence, number): (u64, u64),
        weight: u64,
        host: &mut impl Host<W, T>,
    ) -> bool {
        let Some((index, entry)) = self.find(fence, number) else { return false };
        let hold = &mut self.holds[index];
        let before = hold.weight();
        hold.entries[entry].1 = weight.min(hold.entries[entry].1);
        self.used -= before - hold.weight();
        self.let_in(host);
        true
    }

    /// Takes away what has outlived its lease, and lets in who may.
    pub(crate) fn expire(&mut self, host: &mut impl Host<W, T>) {
        if self.holds.is_empty() {
            return;
        }
        let now = host.now();
        self.take_away(|hold| hold.term.expire(now));
        self.let_in(host);
    }

    /// Takes everything away from those who hold, and lets in who may. How many have lost theirs.
    pub(crate) fn force(&mut self, host: &mut impl Host<W, T>) -> usize {
        let mut lost = 0;
        self.take_away(|hold| {
            lost += usize::from(hold.term.lose());
            true
        });
        self.let_in(host);
        lost
    }

    fn take_away(&mut self, mut over: impl FnMut(&Hold<T>) -> bool) {
        let mut freed = 0;
        self.holds.retain(|hold| {
            let over = over(hold);
            if over {
                freed += hold.weight();
            }
            !over
        });
        self.used -= freed;
    }

    /// Changes how much room there is. Less takes effect as holds end; requests that can never be
    /// met are refused.
    pub(crate) fn resize(&mut self, capacity: u64, host: &mut impl Host<W, T>) {
        self.capacity = capacity;
        let mut index = 0;
        while let Some(waiter) = self.queue.get(index) {
            if waiter.request.weight <= capacity {
                index += 1;
            } else if let Some(waiter) = self.queue.remove(index) {
                self.send_away(waiter.ticket, Refusal::TooLarge { capacity }, host);
            }
        }
        self.let_in(host);
    }

    fn send_away(&mut self, ticket: W, why: Refusal, host: &mut impl Host<W, T>) {
        if !host.refuse(ticket, why) {
            self.gone -= 1;
        }
    }

    /// Lets in from the head of the queue, as long as there is room (M2, M3).
    fn let_in(&mut self, host: &mut impl Host<W, T>) {
        if self.queue.is_empty() {
            return;
        }
        let now = host.now();
        while let Some(head) = self.queue.front() {
            let gone = !host.waits(&head.ticket);
            let late = head.request.until.is_some_and(|until| now >= until);
            if !gone && !late && !self.fits(head.request.weight) {
                return;
            }
            let Some(Waiter { request, ticket, .. }) = self.queue.pop_front() else { return };
            if gone {
                self.gone -= 1;
            } else if late {
                self.send_away(ticket, Refusal::TimedOut { at: now }, host);
            } else {
                let fence = host.fence();
                match host.let_in(ticket, fence) {
                    Some(term) => {
                        self.hold(&request, fence, term, Some(now));
                        self.join(now, host);
                    }
                    None => self.gone -= 1,
                }
            }
        }
    }

    /// Other requests of the owner who was let in just now do not wait for it (M6).
    fn join(&mut self, now: Duration, host: &mut impl Host<W, T>) {
        let Some(hold) = self.holds.last_mut().filter(|hold| hold.owner.is_some()) else { return };
        let mut index = 0;
        while let Some(waiter) = self.queue.get(index) {
            if waiter.request.owner != hold.owner {
                index += 1;
                continue;
            }
            let late = waiter.request.until.is_some_and(|until| now >= until);
            // It may have been given back since: then they wait as before.
            if !late && !hold.term.enter() {
                return;
            }
            let Some(Waiter { request, ticket, .. }) = self.queue.remove(index) else { return };
            let there = if late {
                host.refuse(ticket, Refusal::TimedOut { at: now })
            } else if request.weight > hold.weight() {
                hold.term.exit();
                host.refuse(ticket, Refusal::Deadlock)
            } else if host.join(ticket, hold.fence, &hold.term) {
                hold.entries.push((request.number, request.weight));
                true
            } else {
                hold.term.exit();
                false
            };
            if !there {
                self.gone -= 1;
            }
        }
    }

    pub(crate) fn view(&self) -> View {
        View {
            capacity: self.capacity,
            used: self.used,
            holds: self.holds.len(),
            waiting: self.waiting(),
            oldest_wait: self.queue.front().map(|waiter| waiter.since),
        }
    }

    /// Of the oldest hold: its fence, how many entries it has, since when, and its term.
    pub(crate) fn oldest(&self) -> Option<(u64, usize, Option<Duration>, &T)> {
        let hold = self.holds.first()?;
        Some((hold.fence, hold.entries.len(), hold.since, &hold.term))
    }
}
