//! The time of a hold, and the notice of its end to its holder.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::machine::Term;
use crate::sync::Mutex;
use crate::user_code::ignore;

/// The part of a hold that its guards share. Its end is decided here: that it was lost, that it
/// was given back, and that it was renewed after that, exclude each other.
pub(crate) struct HoldState {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// It was taken away.
    lost: bool,
    /// The number of entries that have not let go. With none it is given back, and cannot be lost.
    entries: usize,
    /// The number of parts that turns to come take out of it. Until then it is not taken away.
    splits: usize,
    due: Option<Duration>,
    /// The number of futures so far.
    lookouts: u64,
    wakers: Vec<(u64, Waker)>,
}

impl State {
    /// It has ended, in one way or the other.
    fn is_over(&self) -> bool {
        self.lost || self.entries == 0
    }
}

impl HoldState {
    pub(crate) fn new() -> Arc<Self> {
        HoldState::until(None)
    }

    /// One whose lease ends then.
    pub(super) fn until(due: Option<Duration>) -> Arc<Self> {
        Arc::new(HoldState { state: Mutex::new(State { entries: 1, due, ..State::default() }) })
    }

    /// One of its entries lets go. False: it was lost before.
    pub(super) fn let_go(&self) -> bool {
        let mut state = self.state.lock();
        state.entries = state.entries.saturating_sub(1);
        !state.lost
    }

    /// True if it is lost. If its lease is over, it is from now on. The lock does not learn of it
    /// by this look: its own timer tells.
    pub(super) fn is_lost(&self, now: impl FnOnce() -> Duration) -> bool {
        let due = {
            let state = self.state.lock();
            match state.due {
                _ if state.lost => return true,
                None => return false,
                Some(due) => due,
            }
        };
        now() >= due && {
            self.lose_if(|state| state.due == Some(due));
            self.state.lock().lost
        }
    }

    /// The lease ends then, whatever was said before. Nothing, if it is over already; else when it
    /// was to end before.
    pub(super) fn end_at(&self, due: Option<Duration>) -> Option<Option<Duration>> {
        let mut state = self.state.lock();
        (!state.is_over()).then(|| std::mem::replace(&mut state.due, due))
    }

    /// Announces a turn that takes a part out of it, and calls [`was_split`](Self::was_split).
    /// Returns the end of its lease, or `None` if the hold is over.
    pub(super) fn split(&self) -> Option<Option<Duration>> {
        let mut state = self.state.lock();
        let splits = !state.is_over();
        state.splits += usize::from(splits);
        splits.then_some(state.due)
    }

    /// The turn that takes a part out of it is there.
    pub(super) fn was_split(&self) {
        self.state.lock().splits -= 1;
    }

    /// Ends it by the decision of its owner, and not by a lease.
    pub(crate) fn end(&self) {
        self.lose_if(|_| true);
    }

    fn lose_if(&self, over: impl FnOnce(&State) -> bool) -> bool {
        let wakers = {
            let mut state = self.state.lock();
            if state.is_over() || !over(&state) {
                return false;
            }
            state.lost = true;
            std::mem::take(&mut state.wakers)
        };
        // Wakers are the user's: outside of the lock, and each for itself.
        for (_, waker) in wakers {
            ignore(|| waker.wake());
        }
        true
    }
}

impl Term for Arc<HoldState> {
    fn enter(&self) -> bool {
        let mut state = self.state.lock();
        let enters = !state.is_over();
        state.entries += usize::from(enters);
        enters
    }

    fn exit(&self) {
        self.let_go();
    }

    fn expire(&self, now: Duration) -> bool {
        self.lose_if(|state| state.due.is_some_and(|due| now >= due));
        let state = self.state.lock();
        state.is_over() && state.splits == 0
    }

    fn is_over(&self, now: impl FnOnce() -> Duration) -> bool {
        self.is_lost(now) || self.state.lock().is_over()
    }

    fn lose(&self) -> bool {
        self.lose_if(|_| true)
    }

    fn due(&self) -> Option<Duration> {
        self.state.lock().due
    }
}

/// Ready when a hold was taken away before its release: its lease is over, or it was forced. Never
/// ready for one that is released. It does not keep the hold.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Lost {
    hold_state: Arc<HoldState>,
    number: Option<u64>,
}

impl Lost {
    pub(crate) fn of(hold_state: &Arc<HoldState>) -> Self {
        Lost { hold_state: hold_state.clone(), number: None }
    }
}

impl Future for Lost {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // The waker's clone and drop are user code: not under the lock.
        let waker = cx.waker().clone();
        let before = {
            let mut state = this.hold_state.state.lock();
            if state.lost {
                return Poll::Ready(());
            }
            let number = *this.number.get_or_insert_with(|| {
                state.lookouts += 1;
                state.lookouts
            });
            match state.wakers.iter_mut().find(|entry| entry.0 == number) {
                Some(entry) => Some(std::mem::replace(&mut entry.1, waker)),
                None => {
                    state.wakers.push((number, waker));
                    None
                }
            }
        };
        ignore(|| drop(before));
        Poll::Pending
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let waker = {
            let mut state = self.hold_state.state.lock();
            let index = state.wakers.iter().position(|entry| entry.0 == number);
            index.map(|index| state.wakers.swap_remove(index))
        };
        ignore(|| drop(waker));
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").field("lost", &self.hold_state.state.lock().lost).finish()
    }
}
