//! The decider: what the turns of an admission do.
//!
//! A **pass** is a unit of work of the ledger. It begins with the first applicant who is to be
//! entered, takes in all who come before it ends, and ends when the mailbox's batch does, or when
//! it concerns as many as the group allows, or has lasted as long as it may. Then it is committed,
//! and only then are its applicants answered. An applicant with none before it is decided in the
//! call that applies, and is a pass by itself: its answer is there on return, without a promise.
//!
//! | an applicant, in the turn                       | the answer                          |
//! |-------------------------------------------------|-------------------------------------|
//! | has gone (its promise cannot be claimed)        | nothing: it has told itself         |
//! | is late                                         | `TimedOut`, at once                 |
//! | finds the ledger in doubt, which stays so       | `Failed`, at once                   |
//! | is in by a row that is committed                | `Duplicate`, at once                |
//! | is in by a row of this pass                     | `Duplicate`, after the commit       |
//! | finds it closed by rows that are committed      | `Closed`, at once                   |
//! | finds it full by rows of this pass              | `Closed`, after the commit          |
//! | is entered                                      | the row, after the commit           |
//! | is not entered: an error                        | `Failed`, at once                   |
//! | is not entered: a panic                         | `Failed`, at once; the pass is undone, the others of it are decided anew |
//!
//! | the commit              | those entered               | those refused by rows of the pass |
//! |-------------------------|-----------------------------|-----------------------------------|
//! | succeeds                | the row                     | `Closed`, `Duplicate`             |
//! | fails, rolled back      | `CommitFailed`              | decided anew, in their order      |
//! | in doubt, `load` tells  | the row, or `CommitFailed`  | decided anew, in their order      |
//! | in doubt, `load` fails  | `Unknown`                   | `Failed`                          |
//!
//! - DECIDER-1: no answer tells of a row that is not committed, nor of a consequence of one.
//! - DECIDER-2: `count` and `closed` speak of committed rows alone. `closed` is never lowered.
//! - DECIDER-3: an applicant is answered exactly once. Each round of deciding anew answers one at
//!   least, so it ends.
//! - DECIDER-4: while `doubt` stands, nothing is begun. It is lowered by a `load` alone.
//! - DECIDER-5: no panic of the ledger's, nor of an applicant's, leaves a turn.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use turnwise::{Context, Handler, Promise};

use super::apply::Outcome;
use super::error::{Fault, Refused};
use super::ledger::{CommitError, Ledger};
use super::seats::Seats;
use super::{Admitted, Board};
use crate::limits::{TimeSource, Wait};
use crate::sync::Counted;
use crate::user_code::{Payload, catch, discard, ignore, text};

/// The input of an application's turn.
pub(super) struct Application<Id, R, E> {
    /// Its limit, if it has one: few have, and a message is small.
    pub(super) wait: Option<Box<Wait>>,
    pub(super) asks: Asks<Id, R, E>,
}

/// The applicant, and the promise of its answer.
pub(super) struct Asks<Id, R, E> {
    pub(super) id: Id,
    /// None: the one that is decided in its own call.
    pub(super) promise: Option<Promise<Outcome<R, E>>>,
}

/// A ledger's applicant, as it stands in here.
type AsksOf<Id, L> = Asks<Id, <L as Ledger<Id>>::Row, <L as Ledger<Id>>::Error>;
type PledgeOf<Id, L> = Pledge<Id, <L as Ledger<Id>>::Row, <L as Ledger<Id>>::Error>;

/// An answer for when the pass is committed (DECIDER-1).
enum Verdict<R> {
    In { place: u64, row: R },
    Closed,
    Duplicate { place: u64 },
}

struct Pledge<Id, R, E> {
    asks: Asks<Id, R, E>,
    hash: u64,
    verdict: Verdict<R>,
}

/// The unit of work that is under way.
struct Pass<Id, R, E> {
    /// The ledger has begun it.
    open: bool,
    /// Those entered.
    entered: u64,
    /// Applicants to be answered, in their order.
    pledges: Vec<Pledge<Id, R, E>>,
    /// It ends when it has this number of pledges.
    most: usize,
    /// Since when it is open, if it ends by that.
    since: Option<Duration>,
    /// The clock is looked at when it has this number of pledges: not for each of many quick ones.
    look_at: usize,
}

/// The state of the admission's mailbox.
pub(super) struct Decider<Id, L: Ledger<Id>> {
    ledger: L,
    /// Those who are in, or entered in this pass, and their places.
    seats: Seats<Id>,
    /// Rows that are committed (DECIDER-2).
    count: u64,
    /// The place of the next.
    next: u64,
    limit: u64,
    closed: bool,
    doubt: bool,
    pass: Pass<Id, L::Row, L::Error>,
    /// The answer to the one that is decided in its own call.
    here: Option<Outcome<L::Row, L::Error>>,
    /// Those to be decided anew, before all others. Empty between turns.
    again: VecDeque<AsksOf<Id, L>>,
    group: usize,
    /// A pass that is open for so long ends, however few it concerns.
    longest: Duration,
    board: Counted<Board>,
    time: TimeSource,
    /// Since when entries are measured, and how many came since: if somebody wants to know.
    since: Option<Duration>,
    turns: u32,
}

impl<Id, L> Decider<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    /// Asks the ledger who is in.
    pub(super) fn open(
        ledger: L,
        limit: u64,
        (group, longest): (usize, Duration),
        (board, time): (Counted<Board>, TimeSource),
    ) -> Result<Self, Fault<L::Error>> {
        let pass = Pass {
            open: false,
            entered: 0,
            pledges: Vec::new(),
            most: group,
            since: None,
            look_at: 1,
        };
        let mut decider = Decider {
            ledger,
            seats: Seats::with_capacity(0),
            count: 0,
            next: 1,
            limit,
            closed: false,
            doubt: true,
            pass,
            here: None,
            again: VecDeque::new(),
            group,
            longest,
            board,
            time,
            since: None,
            turns: 0,
        };
        decider.load()?;
        Ok(decider)
    }

    /// A batch is over: commits the pass that is under way, and answers all of it.
    pub(super) fn batch_ends(&mut self) {
        self.settle();
        self.measure();
        (self.since, self.turns) = (None, 0);
    }

    /// A turn begins.
    fn count_turn(&mut self) {
        if self.since.is_none() && self.board.is_wanted() {
            (self.since, self.turns) = (Some(self.time.now()), 0);
        }
        self.turns += 1;
    }

    fn is_late(&self, wait: Option<&Wait>) -> Option<Duration> {
        wait.and_then(|wait| wait.over(self.time.now()))
    }

    /// The turns since the last look have taken so long.
    #[inline]
    fn measure(&mut self) -> Option<Duration> {
        self.since.map(|since| self.measure_since(since))
    }

    #[cold]
    fn measure_since(&mut self, since: Duration) -> Duration {
        let now = self.time.now();
        if let Some(each) = now.saturating_sub(since).checked_div(self.turns) {
            self.board.entry_took(each);
        }
        (self.since, self.turns) = (Some(now), 0);
        now
    }

    // Deciding.

    /// One applicant's turn.
    fn admit(&mut self, application: Application<Id, L::Row, L::Error>) {
        let Application { wait, mut asks } = application;
        // APPLY-1.
        if !asks.promise.as_mut().is_some_and(Promise::claim) {
            return ignore(|| drop(asks));
        }
        self.count_turn();
        match self.is_late(wait.as_deref()) {
            Some(waited) => self.tell(asks, Err(Refused::TimedOut { waited })),
            None => self.decide(asks),
        }
    }

    /// The turn of one who is the first to come: a pass of its own, and its answer. No other is
    /// there who could share the commit.
    pub(super) fn admit_here(&mut self, id: Id) -> Outcome<L::Row, L::Error> {
        self.count_turn();
        self.decide(Asks { id, promise: None });
        self.settle();
        // DECIDER-3.
        self.here.take().unwrap_or(Err(Refused::Taken))
    }

    /// Decides an applicant, and those that have to be decided anew before it is over.
    fn decide(&mut self, asks: AsksOf<Id, L>) {
        let mut next = Some(asks);
        while let Some(asks) = next {
            self.decide_one(asks);
            if self.pass.pledges.len() >= self.pass.most || self.is_long() {
                self.commit();
            }
            next = self.again.pop_front();
        }
    }

    /// Since when a pass is open that begins now: if it ends by that.
    fn began(&self) -> Option<Duration> {
        (self.longest != Duration::MAX).then(|| self.time.now())
    }

    /// True if the pass is open for as long as it may be.
    fn is_long(&mut self) -> bool {
        let pledges = self.pass.pledges.len();
        let Some(since) = self.pass.since.filter(|_| pledges >= self.pass.look_at) else {
            return false;
        };
        let lasted = self.time.now().saturating_sub(since);
        let is_quick = lasted < self.longest / 4;
        self.pass.look_at = if is_quick { 2 * pledges } else { pledges + 1 };
        lasted >= self.longest
    }

    /// Ends the pass, if there is one; and those that come of it.
    fn settle(&mut self) {
        while self.pass.open {
            self.commit();
            if let Some(asks) = self.again.pop_front() {
                self.decide(asks);
            }
        }
    }

    /// Decides one.
    fn decide_one(&mut self, asks: AsksOf<Id, L>) {
        let known = if self.doubt { self.load() } else { Ok(()) };
        if let Err(fault) = known {
            return self.tell(asks, Err(Refused::Failed(fault)));
        }
        let seats = &self.seats;
        let known = catch(|| {
            let hash = seats.hash(&asks.id);
            (hash, seats.place(hash, &asks.id))
        });
        match known {
            Ok((_, None)) if self.closed => {
                self.tell(asks, Err(Refused::Closed { limit: self.limit }));
            }
            // Beyond it, too: a limit that is passed is reached.
            Ok((hash, None)) if self.count + self.pass.entered >= self.limit => {
                let verdict = Verdict::Closed;
                self.pass.pledges.push(Pledge { asks, hash, verdict });
            }
            Ok((hash, None)) => self.enter(asks, hash),
            Ok((hash, Some(place))) if self.pass.entered > 0 && place >= self.first() => {
                let verdict = Verdict::Duplicate { place };
                self.pass.pledges.push(Pledge { asks, hash, verdict });
            }
            Ok((_, Some(place))) => self.tell(asks, Err(Refused::Duplicate { place })),
            Err(payload) => self.tell(asks, Err(Refused::Failed(panicked(payload)))),
        }
    }

    /// The first place of this pass.
    fn first(&self) -> u64 {
        self.next - self.pass.entered
    }

    fn enter(&mut self, asks: AsksOf<Id, L>, hash: u64) {
        if !self.pass.open {
            match attempt(|| self.ledger.begin()) {
                Ok(()) => {
                    let pass = &mut self.pass;
                    (pass.open, pass.look_at) = (true, 1);
                    // One that is decided in its own call is a pass by itself.
                    self.pass.since = if asks.promise.is_some() { self.began() } else { None };
                }
                Err(fault) => {
                    if let Fault::Panic(_) = fault {
                        self.roll_back();
                    }
                    return self.tell(asks, Err(Refused::Failed(fault)));
                }
            }
        }
        let place = self.next;
        let row = match attempt(|| self.ledger.enter(&asks.id, place)) {
            Ok(row) => row,
            Err(fault) => {
                if let Fault::Panic(_) = fault {
                    self.undo();
                }
                return self.tell(asks, Err(Refused::Failed(fault)));
            }
        };
        let seats = &mut self.seats;
        if let Err(payload) = catch(|| seats.insert(hash, asks.id.clone(), place)) {
            self.doubt = true;
            self.undo();
            ignore(|| drop(row));
            return self.tell(asks, Err(Refused::Failed(panicked(payload))));
        }
        self.next += 1;
        self.pass.entered += 1;
        self.pass.pledges.push(Pledge { asks, hash, verdict: Verdict::In { place, row } });
    }

    // The end of a pass.

    /// Undoes the pass: all of it are to be decided anew. Then the pass that they make ends with
    /// them, so that the next panic does not concern them again.
    fn undo(&mut self) {
        self.roll_back();
        let pledges = self.forget();
        if !pledges.is_empty() {
            self.pass.most = pledges.len().min(self.group);
        }
        let again = pledges.into_iter().map(|Pledge { asks, verdict, .. }| {
            ignore(|| drop(verdict));
            asks
        });
        put_first(&mut self.again, again.collect());
    }

    fn roll_back(&mut self) {
        if let Err(payload) = catch(|| self.ledger.roll_back()) {
            discard(payload);
            self.doubt = true;
        }
    }

    /// The pass is over: none of it is in.
    fn forget(&mut self) -> Vec<PledgeOf<Id, L>> {
        self.next = self.first();
        let pledges = self.end_pass();
        for pledge in &pledges {
            let Verdict::In { .. } = pledge.verdict else { continue };
            let seats = &mut self.seats;
            if let Err(payload) = catch(|| drop(seats.remove(pledge.hash, &pledge.asks.id))) {
                discard(payload);
                self.doubt = true;
            }
        }
        pledges
    }

    fn end_pass(&mut self) -> Vec<PledgeOf<Id, L>> {
        (self.pass.open, self.pass.entered, self.pass.most) = (false, 0, self.group);
        self.pass.since = None;
        std::mem::take(&mut self.pass.pledges)
    }

    /// Ends the pass, if there is one.
    fn commit(&mut self) {
        if !self.pass.open {
            return;
        }
        if self.pass.entered == 0 {
            // All that were to be entered have failed, and were answered.
            self.roll_back();
            self.end_pass();
            return;
        }
        let began = self.measure();
        let committed = catch(|| self.ledger.commit());
        if let Some(began) = began {
            let now = self.time.now();
            self.board.commit_took(now.saturating_sub(began));
            self.since = Some(now);
        }
        let (fault, certain) = match committed {
            Ok(Ok(())) => return self.keep(),
            Ok(Err(CommitError::RolledBack(error))) => (Fault::Error(Arc::new(error)), true),
            Ok(Err(CommitError::Unknown(error))) => (Fault::Error(Arc::new(error)), false),
            Err(payload) => (panicked(payload), false),
        };
        self.roll_back();
        if certain && !self.doubt {
            let pledges = self.forget();
            let fate = |_: &_| Err(Refused::CommitFailed(fault.clone()));
            let again = tell_all(&mut self.here, pledges, fate);
            return put_first(&mut self.again, again);
        }
        let pledges = self.forget();
        self.doubt = true;
        match self.load() {
            Ok(()) => {
                let seats = &self.seats;
                let again = tell_all(&mut self.here, pledges, |id| {
                    match catch(|| seats.place(seats.hash(id), id)) {
                        Ok(Some(place)) => Ok(place),
                        Ok(None) => Err(Refused::CommitFailed(fault.clone())),
                        Err(payload) => Err(Refused::Unknown(panicked(payload))),
                    }
                });
                put_first(&mut self.again, again);
            }
            Err(loading) => {
                let again = tell_all(&mut self.here, pledges, |_| {
                    Err(match certain {
                        true => Refused::CommitFailed(fault.clone()),
                        false => Refused::Unknown(fault.clone()),
                    })
                });
                // They would find the same.
                for asks in again {
                    self.tell(asks, Err(Refused::Failed(loading.clone())));
                }
            }
        }
    }

    /// The pass is committed: it counts, and then all of it are answered.
    fn keep(&mut self) {
        self.count += self.pass.entered;
        let mut pledges = self.end_pass();
        self.publish();
        for Pledge { asks, verdict, .. } in pledges.drain(..) {
            let outcome = match verdict {
                Verdict::In { place, row } => Ok(Admitted { row, place }),
                Verdict::Closed => Err(Refused::Closed { limit: self.limit }),
                Verdict::Duplicate { place } => Err(Refused::Duplicate { place }),
            };
            self.tell(asks, outcome);
        }
        // The next pass needs as much.
        self.pass.pledges = pledges;
    }

    /// Asks the ledger who is in. No pass is open.
    fn load(&mut self) -> Result<(), Fault<L::Error>> {
        let entries = attempt(|| self.ledger.load())?;
        let count = entries.len() as u64;
        let last = entries.iter().map(|&(_, place)| place).max().unwrap_or(0);
        let fill = || {
            assert!(last <= u64::MAX / 2, "place {last} of the ledger leaves too few after it");
            let mut seats = Seats::with_capacity(entries.len());
            for (id, place) in entries {
                seats.insert_first(id, place);
            }
            seats
        };
        let seats = catch(fill).map_err(panicked)?;
        let before = std::mem::replace(&mut self.seats, seats);
        ignore(|| drop(before));
        (self.count, self.next, self.doubt) = (count, last + 1, false);
        self.publish();
        Ok(())
    }

    /// Closes if it is full, and shows how things are.
    fn publish(&mut self) {
        self.closed |= self.count >= self.limit;
        self.board.show(self.count, self.limit, self.closed);
        // In doubt, the ledger says later who they are.
        if self.closed && !self.doubt {
            self.board.winners.get_or_init(|| self.seats.winners());
        }
    }

    fn tell(&mut self, asks: AsksOf<Id, L>, outcome: Outcome<L::Row, L::Error>) {
        tell(&mut self.here, asks, outcome);
    }

    /// Another limit, for all that come after this.
    pub(super) fn set_limit(&mut self, limit: u64) -> Result<(), Refused<L::Error>> {
        // Those before it are decided by the old one.
        self.settle();
        if self.closed {
            return Err(Refused::Closed { limit: self.limit });
        }
        self.limit = limit;
        self.publish();
        Ok(())
    }
}

impl<Id, L> Handler<Application<Id, L::Row, L::Error>> for Decider<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    type Reply = ();

    fn handle(
        &mut self,
        application: Application<Id, L::Row, L::Error>,
        _: &mut Context<'_, Self>,
    ) {
        self.admit(application);
    }
}

/// Tells an applicant. What is dropped here is the user's.
fn tell<Id, R, E>(here: &mut Option<Outcome<R, E>>, asks: Asks<Id, R, E>, outcome: Outcome<R, E>) {
    let Asks { id, promise } = asks;
    match promise {
        Some(promise) => ignore(|| promise.keep(outcome)),
        None => *here = Some(outcome),
    }
    ignore(|| drop(id));
}

/// Tells those of a pass that is over who were entered: in, by the ledger's word, or why not. The
/// others are to be decided anew.
fn tell_all<Id, R, E>(
    here: &mut Option<Outcome<R, E>>,
    pledges: Vec<Pledge<Id, R, E>>,
    fate: impl Fn(&Id) -> Result<u64, Refused<E>>,
) -> Vec<Asks<Id, R, E>> {
    let mut again = Vec::new();
    for Pledge { asks, verdict, .. } in pledges {
        match verdict {
            Verdict::In { row, .. } => match fate(&asks.id) {
                Ok(place) => tell(here, asks, Ok(Admitted { row, place })),
                Err(why) => {
                    ignore(|| drop(row));
                    tell(here, asks, Err(why));
                }
            },
            Verdict::Closed | Verdict::Duplicate { .. } => again.push(asks),
        }
    }
    again
}

fn put_first<T>(queue: &mut VecDeque<T>, again: Vec<T>) {
    again.into_iter().rev().for_each(|one| queue.push_front(one));
}

/// A call of the ledger's.
fn attempt<R, E>(f: impl FnOnce() -> Result<R, E>) -> Result<R, Fault<E>> {
    match catch(f) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Fault::Error(Arc::new(error))),
        Err(payload) => Err(panicked(payload)),
    }
}

/// The text of a panic.
fn panicked<E>(payload: Payload) -> Fault<E> {
    let text = text(&*payload);
    discard(payload);
    Fault::Panic(text)
}
