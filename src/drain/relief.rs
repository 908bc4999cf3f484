//! What a blocked turn has promised is run by somebody else, and so is what its worker had to do.
//!
//! A turn that sends to idle actors promises to run them when it is over (R9, [`super::local`]). If it blocks before, and what it waits for
//! depends on one of them, it would wait for ever. To run them on top of the blocked turn is no way out: a foreign message in one of them may
//! wait for an actor that waits for the very turn below it, and an order of waiting that the program keeps without a cycle gets one by the
//! stack. So a turn that is really about to sleep gives its promises to a thread made for them, which ends when they are kept.
//!
//! The worker of a pool has more to give away: the drains that wait behind the turn, one of which it may be waiting for. Its pool is its
//! [`Employer`], and is told: before the wait, so that a thread stands by (or the wait is refused), and after it.
//!
//! - P1: a promise is an entry of the list with its storage (F3). It is given whole, and listed on whatever thread drops it: the new one, or this
//!   one again, if no thread can be had.
//! - P2: an employer stays where it is until the thread has none.

use std::cell::Cell;
use std::ptr::NonNull;

use super::block::Core;
use super::local::{Local, with_local};
use super::turns::run_list;
use crate::sync::{thread, thread_plain};
use crate::wait::Deadline;

/// The wait is refused: nobody could take over this worker's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WouldBlock;

/// The pool that a thread works for.
pub(crate) trait Employer {
    /// Sees to it that a thread stands by. False: there is nothing to take over.
    fn stand_by(&self) -> Result<bool, WouldBlock>;
    /// The thread that stands by is not needed.
    fn never_mind(&self);
    /// This thread is about to sleep: the one that stands by takes over. The answer is for [`come_back`](Self::come_back); there is none if
    /// there is nothing to take over any more, and then the promises are dropped.
    fn leave(&self, promises: Promises) -> Option<u64>;
    /// This thread is awake again.
    fn come_back(&self, left: u64);
    /// This thread is about to sleep, and nobody takes over: others may take what they can.
    fn share(&self);
}

thread_plain! {
    static EMPLOYER: Cell<Option<NonNull<dyn Employer>>> = Cell::new(None);
}

/// Runs `f` with this thread in the employer's service.
pub(crate) fn employed<R>(employer: &(dyn Employer + 'static), f: impl FnOnce() -> R) -> R {
    struct Quits;
    impl Drop for Quits {
        fn drop(&mut self) {
            EMPLOYER.with(|at| at.set(None));
        }
    }
    EMPLOYER.with(|at| at.set(Some(NonNull::from(employer))));
    let _quits = Quits;
    f()
}

fn employer() -> Option<&'static dyn Employer> {
    // SAFETY: P2: borrowed during `employed`, which is below us on this thread's stack; what is made of it stays on the stack too.
    EMPLOYER.with(Cell::get).map(|employer| unsafe { employer.as_ref() })
}

/// Entries of a list, on their way to another thread.
pub(crate) struct Promises(Vec<*const Core>);

// SAFETY: P1: each is storage of an actor, which may be given up by any thread, and a hint that any thread may follow.
unsafe impl Send for Promises {}

impl Promises {
    /// Takes what this thread has promised.
    fn of(local: &Local) -> Self {
        Promises(std::iter::from_fn(|| local.unlist()).collect())
    }

    /// Runs them on this thread, which is not inside a turn.
    pub(crate) fn keep(self) {
        let promises = self;
        drop(promises);
        with_local(run_list);
    }
}

impl Drop for Promises {
    fn drop(&mut self) {
        with_local(|local| {
            for core in self.0.drain(..) {
                // A thread's list holds a mailbox once; the promises come from one list, and this one is empty.
                local.reserve(core);
                local.list(core);
            }
        });
    }
}

/// A thread stands by, if one is needed: this one may go to sleep.
#[must_use]
pub(crate) struct StandBy(Option<&'static dyn Employer>);

/// This thread sleeps, or is about to; until this is dropped.
#[must_use]
pub(crate) struct Away(Option<(&'static dyn Employer, u64)>);

/// Asks whether this thread may go to sleep. Needed where the wait cannot be given up later.
pub(crate) fn stand_by() -> Result<StandBy, WouldBlock> {
    let Some(employer) = employer() else { return Ok(StandBy(None)) };
    Ok(StandBy(employer.stand_by()?.then_some(employer)))
}

impl StandBy {
    /// Gives everything away: this thread is about to sleep.
    pub(crate) fn relieve(mut self, local: &Local) -> Away {
        let left = self.0.take().and_then(|employer| Some((employer, employer.leave(Promises::of(local))?)));
        if left.is_none() {
            give_away(local);
        }
        Away(left)
    }
}

impl Drop for StandBy {
    fn drop(&mut self) {
        if let Some(employer) = self.0.take() {
            employer.never_mind();
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some((employer, left)) = self.0.take() {
            employer.come_back(left);
        }
    }
}

/// Gives everything away: this thread is about to sleep, if it may.
pub(crate) fn relieve(local: &Local) -> Result<Away, WouldBlock> {
    Ok(stand_by()?.relieve(local))
}

/// The same for a sleep that this crate cannot refuse.
pub(crate) fn relieve_anyway(local: &Local) -> Away {
    relieve(local).unwrap_or_else(|WouldBlock| {
        if let Some(employer) = employer() {
            employer.share();
        }
        give_away(local);
        Away(None)
    })
}

/// Sleeps until woken, or until the time is over (false). May return true without cause.
pub(crate) fn park(deadline: Deadline<'_>) -> Result<bool, WouldBlock> {
    if deadline.is_over() {
        return Ok(false);
    }
    let _away = with_local(relieve)?;
    Ok(deadline.park())
}

/// Gives away what a turn on this thread has promised, if it has.
pub(crate) fn give_away(local: &Local) {
    if !local.owes() {
        return;
    }
    let promises = Promises::of(local);
    // Without a thread, they are kept when the turn is over.
    let _ = thread::spawn_detached(move || promises.keep());
}
