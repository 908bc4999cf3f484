//! Holders and waiters: the rules of every lock object, without threads and without a clock.
//!
//! A lock is a capacity of one, a semaphore one of `n`; a reader takes one of very many, and a
//! writer takes them all. Requests wait in one queue. Its head is let in as soon as
//! there is room, and no other is: so the order is that of arrival, for large requests, too, and
//! readers that stand beside each other come in together.
//!
//! - MACHINE-1: `used` is the sum of what the holds weigh, and of `lent`. It is above the capacity
//!   only after that was reduced.
//! - MACHINE-2: no request is let in while another one waits before it, or there is no room.
//! - MACHINE-3: when a call returns, the head of the queue does not fit. So no room is left unused.
//! - MACHINE-4: fences increase strictly, in the order in which holds begin.
//! - MACHINE-5: a request ends once: let in, refused, or taken out of the queue.
//! - MACHINE-7: `dues` has a time for each hold that has a lease, which is not after the end of
//!   that; so nothing is overdue before the first of them. A hold whose lease comes to end earlier
//!   is [minded](Machine::mind).
//! - MACHINE-8: `owners` has those that hold, with the fence, and how many of their requests wait.
//! - MACHINE-9: no hold before the fence `unmeasured` is measured. New holds come after it, so each
//!   hold that is not measured is passed over once.
//! - MACHINE-6: no owner waits for itself: it has one hold at most, and none of its requests stands
//!   in the queue meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::estimate::Estimate;

/// The name of a hold, outside.
pub(crate) trait Term {
    /// One more entry. False: it is over.
    fn enter(&self) -> bool;
    /// An entry ends that has no guard.
    fn exit(&self);
    /// Is it over: was it given back, or has its lease ended? Then it is taken away by that, and
    /// the holder learns of it.
    fn expire(&self, now: Duration) -> bool;
    /// True if it is over; it looks at the clock only if there is a lease.
    fn is_over(&self, now: impl FnOnce() -> Duration) -> bool;
    /// It is taken away, and the holder learns of it. False: it was over before.
    fn lose(&self) -> bool;
    /// The end of its lease, if it has one.
    fn due(&self) -> Option<Duration>;
}

/// The source of requests.
pub(crate) trait Host<W, T> {
    fn now(&mut self) -> Duration;
    /// The next fence: larger than all before.
    fn fence(&mut self) -> u64;
    /// True if it still waits.
    fn waits(&self, ticket: &W) -> bool;
    /// Lets in one that waited, or learns that it has gone. `measured`: it has to be a hold.
    fn let_in(&mut self, request: &Request, ticket: W, fence: u64, measured: bool) -> LetIn<T>;
    /// Lets one into the hold that its owner has got meanwhile, or learns that it has gone (false).
    /// It has [entered](Term::enter).
    fn join(&mut self, request: &Request, ticket: W, fence: u64, term: &T) -> bool;
    /// Sends one away that waited, or learns that it has gone (false).
    fn refuse(&mut self, ticket: W, why: Refusal) -> bool;
}

/// The reason that a request is not let in.
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
    /// None is let in any more.
    Closed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Names this request.
    pub(crate) number: u64,
    /// Requests of one owner do not wait for each other.
    pub(crate) owner: Option<u64>,
    pub(crate) weight: u64,
    /// The end of its wait, if it has a limit.
    pub(crate) until: Option<Duration>,
    /// It is measured how long it waits and holds. One with a limit is.
    pub(crate) timed: bool,
    /// Now or not at all.
    pub(crate) immediate: bool,
    /// Refused if it would wait longer than this.
    pub(crate) patience: Option<Duration>,
}

/// The outcome of a request that waited.
#[derive(Debug)]
pub(crate) enum LetIn<T> {
    Holds(T),
    /// It was lent its room, and is no hold.
    Lent,
    Gone,
}

/// The answer to a request at once.
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
    /// Since when, if that is measured.
    since: Option<Duration>,
    ticket: W,
}

pub(crate) struct Hold<T> {
    fence: u64,
    owner: Option<u64>,
    /// The number and the weight of each entry; the hold weighs as much as the largest.
    entries: SmallVec<[(u64, u64); 1]>,
    /// Since when, if anybody wants to know.
    since: Option<Duration>,
    /// Its time in `dues` (MACHINE-7).
    due: Option<Duration>,
    term: T,
}

#[cfg(test)]
std::thread_local! {
    /// The number of holds that walks of this thread have come by.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a look at a hold, in tests.
fn looked() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}

/// Holds by their fences. One that is alone stands in no allocation of its own.
struct Holds<T> {
    alone: Option<Hold<T>>,
    more: BTreeMap<u64, Hold<T>>,
}

impl<T> Holds<T> {
    fn new() -> Self {
        Holds { alone: None, more: BTreeMap::new() }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        usize::from(self.alone.is_some()) + self.more.len()
    }

    fn insert(&mut self, hold: Hold<T>) {
        if self.is_empty() {
            self.alone = Some(hold);
        } else {
            self.more.insert(hold.fence, hold);
        }
    }

    fn get_mut(&mut self, fence: u64) -> Option<&mut Hold<T>> {
        match &mut self.alone {
            Some(hold) if hold.fence == fence => Some(hold),
            _ => self.more.get_mut(&fence),
        }
    }

    fn remove(&mut self, fence: u64) -> Option<Hold<T>> {
        self.alone.take_if(|hold| hold.fence == fence).or_else(|| self.more.remove(&fence))
    }

    fn iter(&self) -> impl Iterator<Item = &Hold<T>> {
        self.from(0)
    }

    /// Those from this fence on, the oldest first; `alone` is not always that, for what was lent is
    /// known late.
    fn from(&self, fence: u64) -> impl Iterator<Item = &Hold<T>> {
        let alone = self.alone.iter().filter(move |hold| hold.fence >= fence);
        let at = alone.clone().next().map_or(fence, |hold| hold.fence);
        let (before, after) = (self.more.range(fence..at), self.more.range(at..));
        let hold = |(_, hold)| hold;
        before.map(hold).chain(alone).chain(after.map(hold)).inspect(|_| looked())
    }
}

/// An owner that holds, or has requests in the queue.
#[derive(Default)]
struct OwnerState {
    fence: Option<u64>,
    waiting: usize,
}

impl<T> Hold<T> {
    fn new(
        (fence, owner): (u64, Option<u64>),
        entry: (u64, u64),
        since: Option<Duration>,
        term: T,
    ) -> Self {
        let mut entries = SmallVec::new();
        entries.push(entry);
        Hold { fence, owner, entries, since, due: None, term }
    }

    fn weight(&self) -> u64 {
        self.entries.iter().map(|&(_, weight)| weight).max().unwrap_or(0)
    }
}

/// A look at a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) holds: usize,
    pub(crate) waiting: usize,
    /// Since when the oldest request waits, if that is measured.
    pub(crate) oldest_wait: Option<Duration>,
}

pub(crate) struct Machine<W, T> {
    capacity: u64,
    used: u64,
    lent: u64,
    holds: Holds<T>,
    /// No hold before this fence is measured (MACHINE-9).
    unmeasured: u64,
    dues: BTreeSet<(Duration, u64)>,
    owners: HashMap<u64, OwnerState>,
    queue: VecDeque<Waiter<W>>,
    /// The number of those in the queue that said that they are gone, less those that were found
    /// gone before.
    gone: isize,
    /// Somebody wants to know how long a hold lasts: before that, no clock is looked at.
    measured: bool,
    /// The number of holds that are to end before room is lent again: what is lent is not measured.
    to_measure: u32,
    estimate: Estimate,
}

impl<W, T: Term + Clone> Machine<W, T> {
    /// The number of holds that are measured for a request that asked how long they last.
    const MEASURED: u32 = 64;

    pub(crate) fn new(capacity: u64) -> Self {
        Machine {
            capacity,
            used: 0,
            lent: 0,
            holds: Holds::new(),
            unmeasured: 0,
            dues: BTreeSet::new(),
            owners: HashMap::new(),
            queue: VecDeque::new(),
            gone: 0,
            measured: false,
            to_measure: 0,
            estimate: Estimate::default(),
        }
    }

    /// With one hold.
    pub(crate) fn held(capacity: u64, (fence, number): (u64, u64), weight: u64, term: T) -> Self {
        let mut machine = Machine::new(capacity);
        machine.used = weight;
        machine.put(Hold::new((fence, None), (number, weight), None, term));
        machine
    }

    /// Room that was lent comes back: others come in.
    pub(crate) fn pay_back(&mut self, room: u64, host: &mut impl Host<W, T>) {
        self.take_back(room);
        self.let_in(host);
    }

    /// Takes lent room back, before a request enters.
    pub(crate) fn take_back(&mut self, room: u64) {
        self.used -= room;
        self.lent -= room;
    }

    /// Lends all the room there is: from now on that counts as used, though no hold has it. None:
    /// it must not, for a request waits, or one has asked how long holds last, or too much is used.
    pub(crate) fn lend(&mut self) -> Option<u64> {
        if self.to_measure > 0 || !self.queue.is_empty() {
            return None;
        }
        let room = self.capacity.checked_sub(self.used)?;
        self.used = self.capacity;
        self.lent += room;
        Some(room)
    }

    #[cfg(test)]
    #[allow(dead_code, reason = "the search of all states looks at it, and the unit tests do not")]
    pub(crate) fn lent(&self) -> u64 {
        self.lent
    }

    /// The room that a request would get at once.
    pub(crate) fn spare(&self) -> u64 {
        match self.queue.is_empty() {
            true => self.capacity.saturating_sub(self.used),
            false => 0,
        }
    }

    /// A fast permit is a hold from now on, with its fence for a number.
    pub(crate) fn adopt(&mut self, fence: u64, weight: u64, term: T) {
        if self.holds.get_mut(fence).is_none() {
            self.lent -= weight;
            self.put(Hold::new((fence, None), (fence, weight), None, term));
        }
    }

    fn put(&mut self, mut hold: Hold<T>) {
        hold.due = hold.term.due();
        self.dues.extend(hold.due.map(|due| (due, hold.fence)));
        self.put_unleased(hold);
    }

    fn put_unleased(&mut self, hold: Hold<T>) {
        if let Some(owner) = hold.owner {
            self.owners.entry(owner).or_default().fence = Some(hold.fence);
        }
        if hold.since.is_some() {
            self.unmeasured = self.unmeasured.min(hold.fence);
        }
        self.holds.insert(hold);
    }

    /// Takes a hold out, and the room that it has.
    fn take_out(&mut self, fence: u64) -> Option<Hold<T>> {
        let hold = self.holds.remove(fence)?;
        self.used -= hold.weight();
        if let Some(due) = hold.due {
            self.dues.remove(&(due, fence));
        }
        self.about(hold.owner, |owner| owner.fence = None);
        Some(hold)
    }

    /// Changes what is known of an owner.
    fn about(&mut self, owner: Option<u64>, change: impl FnOnce(&mut OwnerState)) {
        let Some(number) = owner else { return };
        let owner = self.owners.entry(number).or_default();
        change(owner);
        if owner.fence.is_none() && owner.waiting == 0 {
            self.owners.remove(&number);
        }
    }

    /// The lease of a hold was set: it may end earlier than it did.
    pub(crate) fn mind(&mut self, fence: u64) {
        let Some(hold) = self.holds.get_mut(fence) else { return };
        let due = hold.term.due();
        let known = hold.due;
        if known.is_some_and(|known| due.is_none_or(|due| due >= known)) {
            return;
        }
        hold.due = due;
        self.dues.extend(due.map(|due| (due, fence)));
        if let Some(known) = known {
            self.dues.remove(&(known, fence));
        }
    }

    /// The moment at which something is due without a request: a lease ends, or the wait of the
    /// first in the queue.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        let due = self.dues.first().map(|&(due, _)| due);
        let late = self.queue.front().and_then(|head| head.request.until);
        due.into_iter().chain(late).min()
    }

    /// Asks for room. `term` describes the hold, if there is one at once, with the time if that is
    /// measured; `ticket` stands for the request, if it waits.
    pub(crate) fn enter(
        &mut self,
        request: Request,
        host: &mut impl Host<W, T>,
        term: impl FnOnce(Option<Duration>) -> T,
        ticket: impl FnOnce() -> W,
    ) -> Entered<T> {
        if !self.may_come(request.weight) {
            return Entered::Refused(Refusal::TooLarge { capacity: self.capacity });
        }
        if self.queue.front().is_some_and(|head| head.request.until.is_some()) {
            // Those whose time is over are not in its way.
            self.let_in(host);
        }
        if let Some(entered) = self.again(&request, host) {
            return entered;
        }
        // What is overdue may be the room of others, who are before this request.
        if !self.dues.is_empty() && (!self.queue.is_empty() || !self.fits(request.weight)) {
            self.expire(host);
            // The owner may have been let in for what was over.
            if let Some(entered) = self.again(&request, host) {
                return entered;
            }
        }
        if self.queue.is_empty() && self.fits(request.weight) {
            let fence = host.fence();
            let since = self.look(&request, host);
            let term = term(since);
            self.hold(&request, fence, term.clone(), since);
            return Entered::In { fence, term };
        }
        if request.immediate {
            return Entered::Refused(Refusal::Busy);
        }
        if request.patience.is_some() {
            self.measured = true;
            self.to_measure = Self::MEASURED;
        }
        let since = self.look(&request, host);
        if let (Some(patience), Some(now)) = (request.patience, since) {
            let expected = self.expected(now);
            if expected > patience {
                return Entered::Refused(Refusal::Expected(expected));
            }
        }
        self.about(request.owner, |owner| owner.waiting += 1);
        self.queue.push_back(Waiter { request, since, ticket: ticket() });
        Entered::Waits
    }

    /// The time, if it is measured how long this request waits or holds.
    fn look(&self, request: &Request, host: &mut impl Host<W, T>) -> Option<Duration> {
        (self.measured || request.timed).then(|| host.now())
    }

    /// Entry of an owner who holds already.
    fn again(&mut self, request: &Request, host: &mut impl Host<W, T>) -> Option<Entered<T>> {
        let owner = request.owner?;
        loop {
            let fence = self.owners.get(&owner)?.fence?;
            let hold = self.holds.get_mut(fence)?;
            // A hold that is over, and was not taken away yet, has no holder any more.
            if hold.term.is_over(|| host.now()) {
                hold.term.expire(host.now());
                self.take_out(fence);
                self.let_in(host);
            } else if hold.weight() < request.weight {
                return Some(Entered::Refused(Refusal::Deadlock));
            } else if hold.term.enter() {
                hold.entries.push((request.number, request.weight));
                return Some(Entered::In { fence: hold.fence, term: hold.term.clone() });
            }
        }
    }

    /// True if there may be so much room one day. One may be added at any time.
    fn may_come(&self, weight: u64) -> bool {
        weight <= self.capacity.max(1)
    }

    fn fits(&self, weight: u64) -> bool {
        self.capacity.checked_sub(self.used).is_some_and(|room| weight <= room)
    }

    fn hold(&mut self, request: &Request, fence: u64, term: T, since: Option<Duration>) {
        self.used += request.weight;
        let entry = (request.number, request.weight);
        let hold = Hold::new((fence, request.owner), entry, since, term);
        // One with a lease is timed. A lease that is set from now on is minded.
        match request.timed {
            true => self.put(hold),
            false => self.put_unleased(hold),
        }
    }

    /// The number of waiters: those in the queue that have not said that they are gone.
    fn waiting(&self) -> usize {
        self.queue.len() - self.gone.max(0).unsigned_abs().min(self.queue.len())
    }

    /// Takes over an estimate of how long holds last. They are measured from now on.
    pub(crate) fn know(&mut self, estimate: Estimate) {
        if !std::mem::replace(&mut self.measured, true) {
            self.estimate = estimate;
        }
    }

    /// The estimate of how long holds last, if that is measured.
    pub(crate) fn known(&self) -> Option<Estimate> {
        self.measured.then_some(self.estimate)
    }

    /// The time that a request that came now would wait.
    pub(crate) fn expected(&mut self, now: Duration) -> Duration {
        if self.waiting() == 0 && self.used < self.capacity {
            return Duration::ZERO;
        }
        let running = self.oldest_measured().map(|since| now.saturating_sub(since));
        // As many holds end in the time of one. Each permit that is lent may be one.
        let lent = usize::try_from(self.lent).unwrap_or(usize::MAX);
        let at_once = self.holds.len().saturating_add(lent).max(1);
        self.estimate.wait(self.waiting() / at_once, running.unwrap_or_default())
    }

    /// The start of the oldest hold that is measured.
    fn oldest_measured(&mut self) -> Option<Duration> {
        for hold in self.holds.from(self.unmeasured) {
            if hold.since.is_some() {
                self.unmeasured = hold.fence;
                return hold.since;
            }
            self.unmeasured = hold.fence + 1;
        }
        None
    }

    /// An entry of a hold ends, and others come in. False: it had expired, or was forced.
    pub(crate) fn leave(&mut self, fence: u64, number: u64, host: &mut impl Host<W, T>) -> bool {
        let left = self.end(fence, number, host);
        self.let_in(host);
        left
    }

    fn end(&mut self, fence: u64, number: u64, host: &mut impl Host<W, T>) -> bool {
        let Some((hold, entry)) = self.find(fence, number) else { return false };
        if hold.entries.len() > 1 {
            let before = hold.weight();
            hold.entries.swap_remove(entry);
            let less = before - hold.weight();
            self.used -= less;
            return true;
        }
        let since = self.take_out(fence).and_then(|hold| hold.since);
        self.to_measure = self.to_measure.saturating_sub(1);
        if let Some(since) = since.filter(|_| self.measured) {
            self.estimate.took(host.now().saturating_sub(since));
        }
        true
    }

    /// A hold, and which of its entries has this number.
    fn find(&mut self, fence: u64, number: u64) -> Option<(&mut Hold<T>, usize)> {
        let hold = self.holds.get_mut(fence)?;
        let entry = hold.entries.iter().position(|entry| entry.0 == number)?;
        Some((hold, entry))
    }

    /// Leaves those in the queue of whom that is so.
    fn keep(&mut self, mut so: impl FnMut(&Waiter<W>) -> bool) {
        let owners = &mut self.owners;
        self.queue.retain(|waiter| {
            let stays = so(waiter);
            if let Some(number) = waiter.request.owner.filter(|_| !stays) {
                let owner = owners.entry(number).or_default();
                owner.waiting -= 1;
                if owner.fence.is_none() && owner.waiting == 0 {
                    owners.remove(&number);
                }
            }
            stays
        });
    }

    /// Takes one out of the queue.
    fn take_from_queue(&mut self, index: usize) -> Option<Waiter<W>> {
        let waiter = self.queue.remove(index)?;
        self.about(waiter.request.owner, |owner| owner.waiting -= 1);
        Some(waiter)
    }

    /// One of those in the queue does not wait any more: it says so itself, once.
    pub(crate) fn give_up(&mut self, host: &mut impl Host<W, T>) {
        self.gone += 1;
        if self.gone > 16 && self.gone.unsigned_abs() > self.queue.len() / 2 {
            let before = self.queue.len();
            self.keep(|waiter| host.waits(&waiter.ticket));
            self.gone -= (before - self.queue.len()) as isize;
        }
        self.let_in(host);
    }

    /// A request is withdrawn, whatever has come of it.
    pub(crate) fn withdraw(&mut self, number: u64, host: &mut impl Host<W, T>) {
        let entry = |hold: &&Hold<T>| hold.entries.iter().any(|entry| entry.0 == number);
        let fence = self.holds.iter().find(entry).map(|hold| {
            // There is no guard for it.
            hold.term.exit();
            hold.fence
        });
        if let Some(fence) = fence {
            self.end(fence, number, host);
        } else {
            self.keep(|waiter| waiter.request.number != number);
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
        let Some((hold, entry)) = self.find(fence, number) else { return false };
        let before = hold.weight();
        hold.entries[entry].1 = weight.min(hold.entries[entry].1);
        let less = before - hold.weight();
        self.used -= less;
        self.let_in(host);
        true
    }

    /// Makes a part of a hold a hold of its own, with this fence and name. False: the hold had
    /// expired, or was forced.
    pub(crate) fn split(
        &mut self,
        (fence, number): (u64, u64),
        weight: u64,
        part: (u64, T),
    ) -> bool {
        let Some((hold, entry)) = self.find(fence, number) else { return false };
        hold.entries[entry].1 -= weight;
        let since = hold.since;
        self.put(Hold::new((part.0, None), (part.0, weight), since, part.1));
        true
    }

    /// Merges the hold `other` into another one. False: one of the two had expired, or was forced,
    /// and nothing has changed.
    pub(crate) fn merge(&mut self, (fence, number): (u64, u64), other: u64) -> bool {
        let there = self.find(fence, number).is_some() && self.holds.get_mut(other).is_some();
        let Some(other) = there.then(|| self.take_out(other)).flatten() else { return false };
        other.term.exit();
        let weight = other.weight();
        self.used += weight;
        if let Some((hold, entry)) = self.find(fence, number) {
            hold.entries[entry].1 += weight;
        }
        true
    }

    /// Ends a hold, and its room is gone for good; if it was lost, the room stays.
    pub(crate) fn forget(&mut self, fence: u64, host: &mut impl Host<W, T>) {
        let Some(hold) = self.take_out(fence) else { return };
        if !hold.term.is_over(|| host.now()) {
            hold.term.exit();
            self.take_for_good(hold.weight());
        }
    }

    /// Room that is lent is gone for good.
    pub(crate) fn forget_lent(&mut self, weight: u64) {
        self.take_back(weight);
        self.take_for_good(weight);
    }

    /// There may be less than that: it was reduced since.
    fn take_for_good(&mut self, weight: u64) {
        self.capacity = self.capacity.saturating_sub(weight);
    }

    /// Takes away what has outlived its lease, and lets in who may.
    pub(crate) fn expire(&mut self, host: &mut impl Host<W, T>) {
        self.take_overdue(host);
        self.let_in(host);
    }

    fn take_overdue(&mut self, host: &mut impl Host<W, T>) {
        let Some(&(first, _)) = self.dues.first() else { return };
        let now = host.now();
        if now < first {
            return;
        }
        let later = self.dues.split_off(&(now, u64::MAX));
        for (_, fence) in std::mem::replace(&mut self.dues, later) {
            let Some(hold) = self.holds.get_mut(fence) else { continue };
            // It may have been renewed.
            let over = hold.term.expire(now);
            hold.due = hold.term.due().filter(|_| !over);
            self.dues.extend(hold.due.map(|due| (due, fence)));
            if over {
                self.take_out(fence);
            }
        }
    }

    /// Takes everything away from those who hold, and lets in who may. How many have lost theirs by
    /// that: one whose lease is over has lost it before.
    pub(crate) fn force(&mut self, host: &mut impl Host<W, T>) -> usize {
        self.take_overdue(host);
        let fences: Vec<_> = self.holds.iter().map(|hold| hold.fence).collect();
        let mut lost = 0;
        for fence in fences {
            let hold = self.take_out(fence);
            lost += usize::from(hold.is_some_and(|hold| hold.term.lose()));
        }
        self.let_in(host);
        lost
    }

    /// Changes how much room there is. Less takes effect as holds end; requests that can never be
    /// met are refused.
    pub(crate) fn resize(&mut self, capacity: u64, host: &mut impl Host<W, T>) {
        self.capacity = capacity;
        let mut index = 0;
        while let Some(waiter) = self.queue.get(index) {
            if self.may_come(waiter.request.weight) {
                index += 1;
            } else if let Some(waiter) = self.take_from_queue(index) {
                self.send_away(waiter.ticket, Refusal::TooLarge { capacity }, host);
            }
        }
        self.let_in(host);
    }

    /// Sends all away that wait.
    pub(crate) fn close(&mut self, host: &mut impl Host<W, T>) {
        while let Some(waiter) = self.take_from_queue(0) {
            self.send_away(waiter.ticket, Refusal::Closed, host);
        }
    }

    fn send_away(&mut self, ticket: W, why: Refusal, host: &mut impl Host<W, T>) {
        if !host.refuse(ticket, why) {
            self.gone -= 1;
        }
    }

    /// Lets in from the head of the queue, as long as there is room (MACHINE-2, MACHINE-3).
    fn let_in(&mut self, host: &mut impl Host<W, T>) {
        // The clock is looked at once, and only for those who want to know the time.
        let mut now = None;
        while let Some(head) = self.queue.front() {
            now = now.or_else(|| self.look(&head.request, host));
            let gone = !host.waits(&head.ticket);
            let late = head.request.until.filter(|&until| now >= Some(until));
            if !gone && late.is_none() && !self.fits(head.request.weight) {
                return;
            }
            let Some(Waiter { request, ticket, .. }) = self.queue.pop_front() else { return };
            self.about(request.owner, |owner| owner.waiting -= 1);
            if gone {
                self.gone -= 1;
            } else if let Some(at) = late.and(now) {
                self.send_away(ticket, Refusal::TimedOut { at }, host);
            } else {
                let fence = host.fence();
                match host.let_in(&request, ticket, fence, self.measured) {
                    LetIn::Holds(term) => {
                        let since = now.filter(|_| self.measured || request.timed);
                        self.hold(&request, fence, term, since);
                        self.join(&request, fence, &mut now, host);
                    }
                    LetIn::Lent => {
                        self.used += request.weight;
                        self.lent += request.weight;
                    }
                    LetIn::Gone => self.gone -= 1,
                }
            }
        }
    }

    /// Other requests of the owner who was let in just now do not wait for it (MACHINE-6).
    fn join(
        &mut self,
        of: &Request,
        fence: u64,
        now: &mut Option<Duration>,
        host: &mut impl Host<W, T>,
    ) {
        let Some(owner) = of.owner else { return };
        let mut index = 0;
        // Most owners have one request, and nothing to look for.
        while self.owners.get(&owner).is_some_and(|owner| owner.waiting > 0) {
            let Some(waiter) = self.queue.get(index) else { return };
            if waiter.request.owner != of.owner {
                index += 1;
                continue;
            }
            let Some(hold) = self.holds.get_mut(fence) else { return };
            *now = now.or_else(|| (self.measured || waiter.request.timed).then(|| host.now()));
            let late = waiter.request.until.filter(|&until| *now >= Some(until)).and(*now);
            // It may have been given back since: then they wait as before.
            if late.is_none() && !hold.term.enter() {
                return;
            }
            let (weight, term) = (hold.weight(), hold.term.clone());
            let Some(Waiter { request, ticket, .. }) = self.take_from_queue(index) else { return };
            let there = if let Some(at) = late {
                host.refuse(ticket, Refusal::TimedOut { at })
            } else if request.weight > weight {
                term.exit();
                host.refuse(ticket, Refusal::Deadlock)
            } else if host.join(&request, ticket, fence, &term) {
                if let Some(hold) = self.holds.get_mut(fence) {
                    hold.entries.push((request.number, request.weight));
                }
                self.mind(fence);
                true
            } else {
                term.exit();
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
            oldest_wait: self.queue.front().and_then(|waiter| waiter.since),
        }
    }

    /// Of the oldest hold: its fence, how many entries it has, since when, and its term.
    pub(crate) fn oldest(&self) -> Option<(u64, usize, Option<Duration>, &T)> {
        let hold = self.holds.iter().next()?;
        Some((hold.fence, hold.entries.len(), hold.since, &hold.term))
    }
}
