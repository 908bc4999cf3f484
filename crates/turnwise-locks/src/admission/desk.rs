//! The desk: what the turns of an admission do.
//!
//! A **pass** is a unit of work of the ledger. It begins with the first applicant who is to be
//! entered, takes in whoever comes before it ends, and ends when the mailbox's batch does, or when
//! it concerns as many as the group allows, or has lasted as long as it may. Then it is committed,
//! and only then are its applicants told.
//!
//! | an applicant, in the turn                       | is told                             |
//! |-------------------------------------------------|-------------------------------------|
//! | has gone (its claim fails)                      | nothing: it has told itself         |
//! | is late                                         | `TimedOut`, at once                 |
//! | finds the ledger in doubt, which stays so       | `Failed`, at once                   |
//! | finds it closed by rows that are committed      | `Closed`, at once                   |
//! | finds it full by rows of this pass              | `Closed`, after the commit          |
//! | is in by a row that is committed                | `Duplicate`, at once                |
//! | is in by a row of this pass                     | `Duplicate`, after the commit       |
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
//! - D1: nobody is told of a row that is not committed, nor of what follows from one.
//! - D2: `count` and `closed` speak of committed rows alone. `closed` is never lowered.
//! - D3: an applicant is told exactly once. Each round of deciding anew has told one at least, so
//!   it ends.
//! - D4: while `doubt` stands, nothing is begun. It is lowered by a `load` alone.
//! - D5: no panic of the ledger's, nor of an applicant's, leaves a turn.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use turnwise::{Context, Handler, Promise};

use super::apply::{Ticket, Told};
use super::error::{Fault, LimitError, Refused};
use super::ledger::{CommitError, Ledger, Loaded};
use super::{Admitted, Board};
use crate::registry::Time;
use crate::sync::Counted;
use crate::user_code::{Payload, catch, discard, ignore, text};

/// What an application's turn gets.
pub(super) struct Application<Id, R, E> {
    pub(super) ticket: Counted<Ticket>,
    pub(super) asks: Asks<Id, R, E>,
}

/// Who asks, and who is to be told.
pub(super) struct Asks<Id, R, E> {
    pub(super) id: Id,
    pub(super) promise: Promise<Told<R, E>>,
}

/// What a ledger's applicants are in here.
type AsksOf<Id, L> = Asks<Id, <L as Ledger<Id>>::Row, <L as Ledger<Id>>::Error>;
type PledgeOf<Id, L> = Pledge<Id, <L as Ledger<Id>>::Row, <L as Ledger<Id>>::Error>;

/// What is told when the pass is committed (D1).
enum Verdict<R> {
    In { place: u64, row: R },
    Closed,
    Duplicate { place: u64 },
}

struct Pledge<Id, R, E> {
    asks: Asks<Id, R, E>,
    verdict: Verdict<R>,
}

/// The unit of work that is under way.
struct Pass<Id, R, E> {
    /// The ledger has begun it.
    open: bool,
    /// Those entered.
    entered: u64,
    /// Whom to tell, in their order.
    pledges: Vec<Pledge<Id, R, E>>,
    /// It ends when it has so many pledges.
    most: usize,
    /// Since when it is open, if it ends by that.
    since: Option<Duration>,
    /// The clock is looked at when it has so many pledges: not for each of many quick ones.
    look_at: usize,
}

/// What the admission's mailbox owns.
pub(super) struct Desk<Id, L: Ledger<Id>> {
    ledger: L,
    /// Who is in, or entered in this pass, and in which place.
    seats: HashMap<Id, u64>,
    /// Rows that are committed (D2).
    count: u64,
    /// The place of the next.
    next: u64,
    limit: u64,
    closed: bool,
    doubt: bool,
    pass: Pass<Id, L::Row, L::Error>,
    group: usize,
    /// A pass that is open for so long ends, however few it concerns.
    longest: Duration,
    board: Counted<Board>,
    time: Time,
    /// Since when entries are measured, and how many came since: if somebody wants to know.
    since: Option<Duration>,
    turns: u32,
}

impl<Id, L> Desk<Id, L>
where
    Id: Hash + Eq + Clone + Send + 'static,
    L: Ledger<Id>,
{
    /// Asks the ledger who is in.
    pub(super) fn open(
        ledger: L,
        limit: u64,
        (group, longest): (usize, Duration),
        (board, time): (Counted<Board>, Time),
    ) -> Result<Self, Fault<L::Error>> {
        let pass = Pass {
            open: false,
            entered: 0,
            pledges: Vec::new(),
            most: group,
            since: None,
            look_at: 1,
        };
        let mut desk = Desk {
            ledger,
            seats: HashMap::new(),
            count: 0,
            next: 1,
            limit,
            closed: false,
            doubt: true,
            pass,
            group,
            longest,
            board,
            time,
            since: None,
            turns: 0,
        };
        desk.load()?;
        Ok(desk)
    }

    // The hooks around a batch.

    pub(super) fn batch_starts(&mut self) {
        self.since = if self.board.is_wanted() { self.now() } else { None };
        self.turns = 0;
    }

    /// Commits what is under way, and tells all that are to be told.
    pub(super) fn batch_ends(&mut self) {
        self.settle();
        self.measure();
    }

    /// The clock is the user's: one that panics shows nothing.
    fn now(&self) -> Option<Duration> {
        catch(|| self.time.now()).map_err(discard).ok()
    }

    fn is_late(&self, ticket: &Ticket) -> Option<Duration> {
        ticket.wait.and_then(|wait| wait.over(self.now()?))
    }

    /// The turns since the last look have taken so long.
    fn measure(&mut self) -> Option<Duration> {
        let (since, now) = (self.since?, self.now()?);
        if let Some(each) = now.saturating_sub(since).checked_div(self.turns) {
            self.board.entry_took(each);
        }
        (self.since, self.turns) = (Some(now), 0);
        Some(now)
    }

    // Deciding.

    /// One applicant's turn.
    fn admit(&mut self, Application { ticket, asks }: Application<Id, L::Row, L::Error>) {
        if !ticket.claim() {
            return ignore(|| drop(asks));
        }
        self.turns += 1;
        match self.is_late(&ticket) {
            Some(waited) => tell(asks, Err(Refused::TimedOut { waited })),
            None => self.decide(asks),
        }
    }

    /// Decides an applicant, and those that have to be decided anew before it is over.
    fn decide(&mut self, asks: AsksOf<Id, L>) {
        let (mut next, mut queue) = (Some(asks), VecDeque::new());
        while let Some(asks) = next {
            let again = self.decide_one(asks);
            put_first(&mut queue, again);
            if self.pass.pledges.len() >= self.pass.most || self.is_long() {
                let again = self.commit();
                put_first(&mut queue, again);
            }
            next = queue.pop_front();
        }
    }

    /// Since when a pass is open that begins now: if it ends by that.
    fn began(&self) -> Option<Duration> {
        if self.longest == Duration::MAX { None } else { self.now() }
    }

    /// Is the pass open for as long as it may be?
    fn is_long(&mut self) -> bool {
        let pledges = self.pass.pledges.len();
        let Some(since) = self.pass.since.filter(|_| pledges >= self.pass.look_at) else {
            return false;
        };
        let lasted = self.now().map_or(Duration::ZERO, |now| now.saturating_sub(since));
        let is_quick = lasted < self.longest / 4;
        self.pass.look_at = if is_quick { 2 * pledges } else { pledges + 1 };
        lasted >= self.longest
    }

    /// Ends the pass, if there is one; and those that come of it.
    fn settle(&mut self) {
        while self.pass.open {
            self.commit().into_iter().for_each(|asks| self.decide(asks));
        }
    }

    /// Decides one. Those that come back are to be decided anew, before anybody else.
    fn decide_one(&mut self, asks: AsksOf<Id, L>) -> Vec<AsksOf<Id, L>> {
        let known = if self.doubt { self.load() } else { Ok(()) };
        if let Err(fault) = known {
            tell(asks, Err(Refused::Failed(fault)));
            return Vec::new();
        }
        if self.closed {
            tell(asks, Err(Refused::Closed { limit: self.limit }));
            return Vec::new();
        }
        // Beyond it, too: a limit that is passed is reached.
        if self.count + self.pass.entered >= self.limit {
            self.pass.pledges.push(Pledge { asks, verdict: Verdict::Closed });
            return Vec::new();
        }
        match catch(|| self.seats.get(&asks.id).copied()) {
            Ok(None) => self.enter(asks),
            Ok(Some(place)) if self.pass.entered > 0 && place >= self.first() => {
                let verdict = Verdict::Duplicate { place };
                self.pass.pledges.push(Pledge { asks, verdict });
                Vec::new()
            }
            Ok(Some(place)) => {
                tell(asks, Err(Refused::Duplicate { place }));
                Vec::new()
            }
            Err(payload) => {
                tell(asks, Err(Refused::Failed(panicked(payload))));
                Vec::new()
            }
        }
    }

    /// The first place of this pass.
    fn first(&self) -> u64 {
        self.next - self.pass.entered
    }

    fn enter(&mut self, asks: AsksOf<Id, L>) -> Vec<AsksOf<Id, L>> {
        if !self.pass.open {
            match attempt(|| self.ledger.begin()) {
                Ok(()) => {
                    let pass = &mut self.pass;
                    (pass.open, pass.look_at) = (true, 1);
                    self.pass.since = self.began();
                }
                Err(fault) => {
                    if let Fault::Panic(_) = fault {
                        self.roll_back();
                    }
                    tell(asks, Err(Refused::Failed(fault)));
                    return Vec::new();
                }
            }
        }
        let place = self.next;
        let row = match attempt(|| self.ledger.enter(&asks.id, place)) {
            Ok(row) => row,
            Err(fault) => {
                let again = match fault {
                    Fault::Error(_) => Vec::new(),
                    Fault::Panic(_) => self.undo(),
                };
                tell(asks, Err(Refused::Failed(fault)));
                return again;
            }
        };
        let seats = &mut self.seats;
        if let Err(payload) = catch(|| seats.insert(asks.id.clone(), place)) {
            self.doubt = true;
            let again = self.undo();
            ignore(|| drop(row));
            tell(asks, Err(Refused::Failed(panicked(payload))));
            return again;
        }
        self.next += 1;
        self.pass.entered += 1;
        self.pass.pledges.push(Pledge { asks, verdict: Verdict::In { place, row } });
        Vec::new()
    }

    // The end of a pass.

    /// Undoes the pass: all of it are to be decided anew. Then the pass that they make ends with
    /// them, so that the next panic does not concern them again.
    fn undo(&mut self) -> Vec<AsksOf<Id, L>> {
        self.roll_back();
        let pledges = self.forget();
        if !pledges.is_empty() {
            self.pass.most = pledges.len().min(self.group);
        }
        pledges
            .into_iter()
            .map(|Pledge { asks, verdict }| {
                ignore(|| drop(verdict));
                asks
            })
            .collect()
    }

    fn roll_back(&mut self) {
        if let Err(payload) = catch(|| self.ledger.roll_back()) {
            discard(payload);
            self.doubt = true;
        }
    }

    /// The pass is over: nobody of it is in.
    fn forget(&mut self) -> Vec<PledgeOf<Id, L>> {
        self.next = self.first();
        let pledges = self.end_pass();
        for pledge in &pledges {
            let Verdict::In { .. } = pledge.verdict else { continue };
            if let Err(payload) = catch(|| drop(self.seats.remove_entry(&pledge.asks.id))) {
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

    /// Ends the pass, if there is one. Those that come back are to be decided anew, before anybody
    /// else.
    fn commit(&mut self) -> Vec<AsksOf<Id, L>> {
        if !self.pass.open {
            return Vec::new();
        }
        if self.pass.entered == 0 {
            // All that were to be entered have failed, and were told.
            self.roll_back();
            self.end_pass();
            return Vec::new();
        }
        let began = self.measure();
        let committed = catch(|| self.ledger.commit());
        if let (Some(began), Some(now)) = (began, began.and_then(|_| self.now())) {
            self.board.commit_took(now.saturating_sub(began));
            self.since = Some(now);
        }
        let (fault, certain) = match committed {
            Ok(Ok(())) => {
                self.keep();
                return Vec::new();
            }
            Ok(Err(CommitError::RolledBack(error))) => (Fault::Error(Arc::new(error)), true),
            Ok(Err(CommitError::Unknown(error))) => (Fault::Error(Arc::new(error)), false),
            Err(payload) => (panicked(payload), false),
        };
        self.roll_back();
        if certain && !self.doubt {
            return tell_all(self.forget(), |_| Err(Refused::CommitFailed(fault.clone())));
        }
        let pledges = self.forget();
        self.doubt = true;
        match self.load() {
            Ok(()) => {
                let seats = &self.seats;
                tell_all(pledges, |id| match catch(|| seats.get(id).copied()) {
                    Ok(Some(place)) => Ok(place),
                    Ok(None) => Err(Refused::CommitFailed(fault.clone())),
                    Err(payload) => Err(Refused::Unknown(panicked(payload))),
                })
            }
            Err(loading) => {
                let again = tell_all(pledges, |_| {
                    Err(match certain {
                        true => Refused::CommitFailed(fault.clone()),
                        false => Refused::Unknown(fault.clone()),
                    })
                });
                // They would find the same.
                for asks in again {
                    tell(asks, Err(Refused::Failed(loading.clone())));
                }
                Vec::new()
            }
        }
    }

    /// The pass is committed: it counts, and then all of it are told.
    fn keep(&mut self) {
        self.count += self.pass.entered;
        let mut pledges = self.end_pass();
        self.publish();
        for Pledge { asks, verdict } in pledges.drain(..) {
            let told = match verdict {
                Verdict::In { place, row } => Ok(Admitted { row, place }),
                Verdict::Closed => Err(Refused::Closed { limit: self.limit }),
                Verdict::Duplicate { place } => Err(Refused::Duplicate { place }),
            };
            tell(asks, told);
        }
        // The next pass needs as much.
        self.pass.pledges = pledges;
    }

    /// Asks the ledger who is in. No pass is open.
    fn load(&mut self) -> Result<(), Fault<L::Error>> {
        let Loaded { entries } = attempt(|| self.ledger.load())?;
        let count = entries.len() as u64;
        let next = entries.iter().map(|(_, place)| place.saturating_add(1)).max().unwrap_or(1);
        // Two rows of one applicant are two rows. The first place is the applicant's.
        let fill = || {
            let mut seats = HashMap::with_capacity(entries.len());
            for (id, place) in entries {
                let seat = seats.entry(id).or_insert(place);
                *seat = place.min(*seat);
            }
            seats
        };
        let seats = catch(fill).map_err(panicked)?;
        let before = std::mem::replace(&mut self.seats, seats);
        ignore(|| drop(before));
        (self.count, self.next, self.doubt) = (count, next.max(1), false);
        self.publish();
        Ok(())
    }

    /// Closes if it is full, and shows how things are.
    fn publish(&mut self) {
        self.closed |= self.count >= self.limit;
        self.board.show(self.count, self.limit, self.closed);
    }

    /// Another limit, for all that come after this.
    pub(super) fn set_limit(&mut self, limit: u64) -> Result<(), LimitError> {
        // Those before it are decided by the old one.
        self.settle();
        if self.closed {
            return Err(LimitError::Closed { limit: self.limit });
        }
        self.limit = limit;
        self.publish();
        Ok(())
    }
}

impl<Id, L> Handler<Application<Id, L::Row, L::Error>> for Desk<Id, L>
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
fn tell<Id, R, E>(asks: Asks<Id, R, E>, told: Told<R, E>) {
    let Asks { id, promise } = asks;
    ignore(|| promise.keep(told));
    ignore(|| drop(id));
}

/// Tells those of a pass that is over who were entered: in, by the ledger's word, or why not. The
/// others are to be decided anew.
fn tell_all<Id, R, E>(
    pledges: Vec<Pledge<Id, R, E>>,
    fate: impl Fn(&Id) -> Result<u64, Refused<E>>,
) -> Vec<Asks<Id, R, E>> {
    let mut again = Vec::new();
    for Pledge { asks, verdict } in pledges {
        match verdict {
            Verdict::In { row, .. } => match fate(&asks.id) {
                Ok(place) => tell(asks, Ok(Admitted { row, place })),
                Err(why) => {
                    ignore(|| drop(row));
                    tell(asks, Err(why));
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
