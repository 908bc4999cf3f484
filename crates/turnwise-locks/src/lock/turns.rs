//! A lock's [machine](super::machine) in its mailbox: what its turns do.
//!
//! A request is a turn that enters; a release is one that leaves. Nothing else happens in a lock's
//! turns but that waiters are woken, so they are short, and waiting for one is not waiting for the
//! lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use turnwise::time::{Timer, Timers};
use turnwise::{Promise, Reply, WeakActor};

use super::error::LockError;
use super::fast::{Asking, Available, FastPermit, Lender};
use super::hold_state::HoldState;
use super::machine::{Entered, Host, LetIn, Machine, Refusal, Request, Term, View};
use super::place::{LockPlace, tell_here};
use crate::estimate::Estimate;
use crate::limits::{Terms, TimeSource};
use crate::registry::KeySlot;
use crate::user_code::{catch, discard};

/// The parts that the locks of one registry share.
pub(super) struct Common {
    /// Leases and limits are measured on its clock.
    pub(super) time: TimeSource,
    /// Numbers requests, and holds: a hold's number is its fence.
    numbers: AtomicU64,
    /// Of a semaphore: what is taken without a turn, and its fences.
    pub(super) available: Option<Available>,
    /// Somebody looks: it is measured how long requests wait.
    watched: AtomicBool,
}

impl Common {
    pub(super) fn new(timers: Option<Timers>) -> Arc<Self> {
        Arc::new(Common::of(timers, 0, None))
    }

    /// Of a semaphore.
    pub(super) fn lending(timers: Option<Timers>) -> Arc<Self> {
        // A fence is the number of a permit that came without a request, so no request has it.
        Arc::new(Common::of(timers, 1 << 63, Some(Available::new())))
    }

    fn of(timers: Option<Timers>, numbers: u64, available: Option<Available>) -> Self {
        Common {
            time: TimeSource::new(timers),
            numbers: AtomicU64::new(numbers),
            available,
            watched: AtomicBool::new(false),
        }
    }

    /// From now on it is measured how long requests wait.
    pub(super) fn watch(&self) {
        // Ordering: Relaxed. Nothing is published by it, here and in the look.
        self.watched.store(true, Ordering::Relaxed);
    }

    fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn number(&self) -> u64 {
        // Ordering: Relaxed. The turns of a lock are ordered by its mailbox, so its fences increase
        // as the counter does; nothing else is published by a number.
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The fence of a hold that begins.
    pub(super) fn fence(&self) -> u64 {
        match &self.available {
            Some(available) => available.next_fence(),
            None => self.number(),
        }
    }

    /// The time.
    pub(super) fn now(&self) -> Duration {
        self.time.now()
    }
}

/// The state of a lock's mailbox.
pub(super) struct Core<K: Send + Sync + 'static> {
    machine: Machine<Ticket<K>, Arc<HoldState>>,
    /// Of a semaphore: none of its permits is in the word.
    away: bool,
    /// No more requests are let in. Leases go on.
    closed: bool,
    alarm: Option<DueAlarm<K>>,
}

/// Has a turn come when a lease, or the wait of the first in the queue, is over.
///
/// One timer for all of them. It is armed for a time that is not after the first of them
/// (MACHINE-7), so a lease that ends in time, or is renewed, costs it nothing: it rings, finds
/// nothing, and is armed anew if there is something left.
struct DueAlarm<K: Send + Sync + 'static> {
    actor: WeakActor<KeySlot<K, Core<K>>>,
    armed: Option<(Duration, Timer)>,
}

impl<K: Send + Sync + 'static> Drop for DueAlarm<K> {
    fn drop(&mut self) {
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
    }
}

/// A request, as it comes into its turn.
pub(super) struct Ask {
    pub(super) number: u64,
    pub(super) owner: Option<u64>,
    pub(super) weight: u64,
    pub(super) terms: Terms,
    pub(super) immediate: bool,
    /// Of how long holds last, from before.
    pub(super) known: Option<Estimate>,
    /// It was not decided in its own call.
    pub(super) end: Option<End>,
}

/// The end of a request, reported when this is dropped.
pub(super) struct End(pub(super) Arc<OnceLock<()>>);

impl Drop for End {
    fn drop(&mut self) {
        // Its answer is there. Nothing else sets it.
        let _ = self.0.set(());
    }
}

/// The lock that a request's turn is of.
pub(super) struct Here<'a, K: Send + Sync + 'static> {
    pub(super) common: &'a Arc<Common>,
    /// Of a semaphore.
    pub(super) lender: Option<&'a Arc<Lender<K>>>,
    /// Its mailbox.
    pub(super) actor: &'a dyn Fn() -> WeakActor<KeySlot<K, Core<K>>>,
}

/// A hold, as its guard has it.
pub(super) struct Grant {
    pub(super) fence: u64,
    pub(super) number: u64,
    pub(super) hold_state: Arc<HoldState>,
    pub(super) weight: u64,
}

impl Grant {
    fn of(request: &Request, fence: u64, hold_state: Arc<HoldState>) -> Self {
        let Request { number, weight, .. } = *request;
        Grant { fence, number, hold_state, weight }
    }

    /// Gives back what it stands for: from now on it is not lost, though its turn may come later.
    pub(super) fn end<K: Send + Sync + 'static>(&self, place: LockPlace<K>) {
        self.hold_state.let_go();
        place.leave(self.fence, self.number);
    }
}

/// A lock that a request has come to.
pub(super) enum Granted<K: Send + Sync + 'static> {
    Hold(Grant),
    /// Of a semaphore. Dropped, it is given back.
    Lent(FastPermit<K>),
}

impl<K: Send + Sync + 'static> Granted<K> {
    /// Gives it back.
    pub(super) fn end(self, place: LockPlace<K>) {
        if let Granted::Hold(grant) = self {
            grant.end(place);
        }
    }
}

/// The answer to a request that has waited.
pub(super) type LockOutcome<K> = Result<Granted<K>, LockError>;

/// The answer to a request in its turn.
pub(super) enum Step<K: Send + Sync + 'static> {
    Over(LockOutcome<K>),
    Waits(Reply<LockOutcome<K>>),
}

/// A request that waits.
struct Ticket<K: Send + Sync + 'static> {
    promise: Promise<LockOutcome<K>>,
    called: Duration,
    lease: Option<Duration>,
    /// It may be lent permits, and needs no hold.
    lender: Option<Arc<Lender<K>>>,
    /// Dropped after the promise is kept.
    _end: Option<End>,
}

/// The world around a machine: the clock, fences, and the promises of those that wait.
struct LockHost<'a>(&'a Arc<Common>);

impl LockHost<'_> {
    /// A hold whose lease begins; now, if that is known.
    fn hold(&self, lease: Option<Duration>, now: Option<Duration>) -> Arc<HoldState> {
        HoldState::until(lease.and_then(|lease| self.due(lease, now)))
    }

    /// The lease begins anew.
    fn begin(&self, lease: Option<Duration>, hold_state: &HoldState) {
        if let Some(lease) = lease {
            hold_state.end_at(self.due(lease, None));
        }
    }

    /// The end of a lease that begins now. With one too long for the clock, it never ends.
    fn due(&self, lease: Duration, now: Option<Duration>) -> Option<Duration> {
        now.unwrap_or_else(|| self.0.now()).checked_add(lease)
    }
}

impl<K: Send + Sync + 'static> Host<Ticket<K>, Arc<HoldState>> for LockHost<'_> {
    fn now(&mut self) -> Duration {
        self.0.now()
    }

    fn fence(&mut self) -> u64 {
        self.0.fence()
    }

    fn waits(&self, ticket: &Ticket<K>) -> bool {
        !ticket.promise.is_cancelled()
    }

    // One that has gone meanwhile gets nothing: the next does, in this very turn.
    fn let_in(
        &mut self,
        request: &Request,
        ticket: Ticket<K>,
        fence: u64,
        measured: bool,
    ) -> LetIn<Arc<HoldState>> {
        let Ticket { promise, lease, lender, .. } = ticket;
        if let Some(lender) = lender.filter(|_| !measured) {
            let permit = FastPermit::new(lender, request.weight, fence);
            return match promise.try_keep(Ok(Granted::Lent(permit))) {
                Ok(()) => LetIn::Lent,
                Err(unwanted) => {
                    // The machine has not counted it.
                    if let Ok(Granted::Lent(mut permit)) = unwanted {
                        permit.disarm();
                    }
                    LetIn::Gone
                }
            };
        }
        // Wakers may have been called since the clock was looked at.
        let hold_state = self.hold(lease, None);
        let grant = Granted::Hold(Grant::of(request, fence, hold_state.clone()));
        let kept = promise.try_keep(Ok(grant));
        if kept.is_ok() { LetIn::Holds(hold_state) } else { LetIn::Gone }
    }

    fn join(
        &mut self,
        request: &Request,
        ticket: Ticket<K>,
        fence: u64,
        hold_state: &Arc<HoldState>,
    ) -> bool {
        let Ticket { promise, lease, .. } = ticket;
        self.begin(lease, hold_state);
        let grant = Granted::Hold(Grant::of(request, fence, hold_state.clone()));
        promise.try_keep(Ok(grant)).is_ok()
    }

    fn refuse(&mut self, ticket: Ticket<K>, why: Refusal) -> bool {
        let error = outcome(why, ticket.called);
        ticket.promise.try_keep(Err(error)).is_ok()
    }
}

/// On the thread of the timers: a turn of a lock runs nothing of the user's but wakers.
fn ring<K: Send + Sync + 'static>(actor: &WeakActor<KeySlot<K, Core<K>>>, common: Arc<Common>) {
    // A lock that is gone has nothing to expire.
    let Some(actor) = actor.upgrade() else { return };
    tell_here(&actor, move |slot| {
        if let Some(core) = &mut slot.state {
            core.rung(&common);
        }
    });
}

fn outcome(why: Refusal, called: Duration) -> LockError {
    // The request knows it.
    let key = None;
    match why {
        Refusal::Busy => LockError::Busy { key },
        Refusal::TimedOut { at } => LockError::TimedOut { waited: at.saturating_sub(called), key },
        Refusal::Expected(wait) => LockError::Expected { wait, key },
        Refusal::Deadlock => LockError::Deadlock { key },
        Refusal::TooLarge { capacity } => LockError::TooMany { permits: capacity },
        Refusal::Closed => LockError::Closed,
    }
}

impl<K: Send + Sync + 'static> Core<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Core::with(Machine::new(capacity))
    }

    /// Of a lock that is held: the number of its request is its fence.
    pub(super) fn held(capacity: u64, fence: u64, weight: u64, hold_state: Arc<HoldState>) -> Self {
        let machine = Machine::held(capacity, (fence, fence), weight, hold_state);
        Core::with(machine)
    }

    fn with(machine: Machine<Ticket<K>, Arc<HoldState>>) -> Self {
        Core { machine, away: false, closed: false, alarm: None }
    }

    /// One that lends its permits.
    pub(super) fn lending(permits: u64, common: &Arc<Common>) -> Self {
        let mut core = Core::new(permits);
        core.away = true;
        core.settle(common);
        core
    }

    /// Takes the permits away, before something is decided; then a request is on its way no more.
    fn take_away(&mut self, _asking: Option<Asking>, common: &Common) {
        let Some(available) = common.available.as_ref().filter(|_| !self.away) else { return };
        self.away = true;
        self.machine.take_back(available.take_away());
    }

    /// The last thing of a turn: lends the room there is, if no request waits, and sets the alarm.
    fn settle(&mut self, common: &Arc<Common>) {
        self.lend(common);
        let Some(alarm) = &mut self.alarm else { return };
        let Some(next) = self.machine.wakes_at() else { return };
        if alarm.armed.as_ref().is_some_and(|&(at, _)| at <= next) {
            return;
        }
        let (actor, later) = (alarm.actor.clone(), common.clone());
        // The clock is the user's. If it panics, the next turn sees to it.
        let armed = catch(|| common.time.timers().at(next, move || ring(&actor, later)));
        let armed = armed.map_err(discard).ok().map(|timer| (next, timer));
        if let Some((_, timer)) = std::mem::replace(&mut alarm.armed, armed) {
            timer.cancel();
        }
    }

    /// From now on it has what the alarm needs.
    fn watch(&mut self, actor: impl FnOnce() -> WeakActor<KeySlot<K, Core<K>>>) {
        self.alarm.get_or_insert_with(|| DueAlarm { actor: actor(), armed: None });
    }

    /// The alarm has rung.
    fn rung(&mut self, common: &Arc<Common>) {
        if let Some(alarm) = &mut self.alarm {
            alarm.armed = None;
        }
        self.expire(common);
    }

    /// The lease of a hold was set, and may end earlier than it did.
    pub(super) fn mind(
        &mut self,
        fence: u64,
        actor: WeakActor<KeySlot<K, Core<K>>>,
        common: &Arc<Common>,
    ) {
        self.watch(|| actor);
        self.machine.mind(fence);
        self.expire(common);
    }

    fn lend(&mut self, common: &Common) {
        let Some(available) = &common.available else { return };
        if let Some(room) = self.machine.lend().filter(|&room| self.away || room > 0) {
            self.away = false;
            self.machine.take_back(room - available.lend(room));
        }
        available.show_rest(self.machine.spare());
    }

    /// A fast permit ends that the word did not take.
    pub(super) fn pay_back(&mut self, permits: u64, common: &Arc<Common>) {
        self.machine.pay_back(permits, &mut LockHost(common));
        self.settle(common);
    }

    /// A fast permit is a hold from now on.
    pub(super) fn adopt(&mut self, fence: u64, permits: u64, hold_state: Arc<HoldState>) {
        self.machine.adopt(fence, permits, hold_state);
    }

    pub(super) fn enter(&mut self, ask: Ask, asking: Option<Asking>, here: Here<'_, K>) -> Step<K> {
        if self.closed {
            return Step::Over(Err(LockError::Closed));
        }
        self.take_away(asking, here.common);
        let step = self.entered(ask, &here);
        self.settle(here.common);
        step
    }

    fn entered(&mut self, ask: Ask, here: &Here<'_, K>) -> Step<K> {
        let Ask { number, owner, weight, terms, immediate, known, mut end } = ask;
        let &Here { common, lender, actor } = here;
        if terms.are_limits() {
            self.watch(actor);
        }
        let lease = terms.lease;
        known.into_iter().for_each(|known| self.know(known));
        let patience = terms.wait.filter(|_| terms.early).map(|wait| wait.at - wait.called);
        let until = terms.wait.map(|wait| wait.at);
        let called = terms.wait.map_or(Duration::ZERO, |wait| wait.called);
        let timed = until.is_some() || lease.is_some() || common.is_watched();
        let request = Request { number, owner, weight, until, timed, immediate, patience };
        // The lease goes to the hold, or to the ticket; or it begins anew, for an owner that is in.
        let (lease, tickets) = (std::cell::Cell::new(lease), std::cell::Cell::new(None));
        let entered = self.machine.enter(
            request,
            &mut LockHost(common),
            |now| LockHost(common).hold(lease.take(), now),
            || {
                let (promise, reply) = common.time.promise();
                tickets.set(Some(reply));
                let (lease, lender) = (lease.take(), lender.filter(|_| terms.lease.is_none()));
                Ticket { promise, called, lease, lender: lender.cloned(), _end: end.take() }
            },
        );
        Step::Over(match entered {
            Entered::In { fence, term: hold_state } => {
                if let Some(lease) = lease.take() {
                    LockHost(common).begin(Some(lease), &hold_state);
                    self.machine.mind(fence);
                }
                Ok(Granted::Hold(Grant::of(&request, fence, hold_state)))
            }
            Entered::Refused(why) => Err(outcome(why, called)),
            Entered::Waits => match tickets.take() {
                Some(reply) => return Step::Waits(reply),
                None => unreachable!("what waits has a ticket"),
            },
        })
    }

    pub(super) fn leave(&mut self, fence: u64, number: u64, common: &Arc<Common>) {
        self.machine.leave(fence, number, &mut LockHost(common));
        self.settle(common);
    }

    pub(super) fn give_up(&mut self, common: &Arc<Common>) {
        self.machine.give_up(&mut LockHost(common));
        self.settle(common);
    }

    pub(super) fn withdraw(&mut self, number: u64, common: &Arc<Common>) {
        self.machine.withdraw(number, &mut LockHost(common));
        self.settle(common);
    }

    pub(super) fn lighten(&mut self, fence: u64, number: u64, weight: u64, common: &Arc<Common>) {
        self.machine.lighten((fence, number), weight, &mut LockHost(common));
        self.settle(common);
    }

    /// Makes a part of a hold a hold of its own, with this fence and state.
    pub(super) fn split(
        &mut self,
        hold: (u64, u64),
        weight: u64,
        part: (u64, Arc<HoldState>),
        common: &Arc<Common>,
    ) {
        let hold_state = part.1.clone();
        if !self.machine.split(hold, weight, part) {
            hold_state.end();
        }
        // It may be overdue, and have waited for this.
        self.expire(common);
    }

    /// Merges the hold `other` into another one; if that is lost, `other` ends.
    pub(super) fn merge(&mut self, hold: (u64, u64), other: (u64, u64), common: &Arc<Common>) {
        if !self.machine.merge(hold, other.0) {
            self.machine.leave(other.0, other.1, &mut LockHost(common));
        }
        self.settle(common);
    }

    /// Permits are gone for good: those of a hold, or of one that the machine does not know.
    pub(super) fn forget(&mut self, fence: Option<u64>, permits: u64, common: &Arc<Common>) {
        match fence {
            Some(fence) => self.machine.forget(fence, &mut LockHost(common)),
            None => self.machine.forget_lent(permits),
        }
        // Requests for more than are left are refused.
        self.resize(|permits| permits, common);
    }

    pub(super) fn expire(&mut self, common: &Arc<Common>) {
        self.machine.expire(&mut LockHost(common));
        self.settle(common);
    }

    /// No more requests are let in, and those that wait are sent away.
    pub(super) fn close(&mut self, common: &Arc<Common>) {
        self.closed = true;
        self.machine.close(&mut LockHost(common));
        self.settle(common);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn force(&mut self, common: &Arc<Common>) -> usize {
        let lost = self.machine.force(&mut LockHost(common));
        self.settle(common);
        lost
    }

    pub(super) fn resize(&mut self, capacity: impl FnOnce(u64) -> u64, common: &Arc<Common>) {
        self.take_away(None, common);
        let capacity = capacity(self.machine.view().capacity);
        self.machine.resize(capacity, &mut LockHost(common));
        self.settle(common);
    }

    /// Holds and waiters, after the holds whose lease is over were taken away.
    pub(super) fn view(&mut self, common: &Arc<Common>) -> View {
        self.expire(common);
        let mut view = self.machine.view();
        if let Some(available) = &common.available {
            view.used -= available.free();
        }
        view
    }

    /// The room that a request would get at once.
    pub(super) fn spare(&mut self, common: &Arc<Common>) -> u64 {
        self.expire(common);
        self.machine.spare()
    }

    /// True if it is held, or waited for.
    pub(super) fn is_used(&mut self, common: &Arc<Common>) -> bool {
        let view = self.view(common);
        view.holds > 0 || view.waiting > 0
    }

    /// Of the oldest hold: its fence, its entries, since when, until when.
    pub(super) fn oldest(&self) -> Option<(u64, usize, Option<Duration>, Option<Duration>)> {
        let (fence, entries, since, hold_state) = self.machine.oldest()?;
        Some((fence, entries, since, hold_state.due()))
    }

    /// Takes over an estimate of how long holds last.
    pub(super) fn know(&mut self, estimate: Estimate) {
        self.machine.know(estimate);
    }

    pub(super) fn known(&self) -> Option<Estimate> {
        self.machine.known()
    }

    pub(super) fn expected(&mut self, now: Duration) -> Duration {
        self.machine.expected(now)
    }
}
