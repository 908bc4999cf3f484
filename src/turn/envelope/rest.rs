//! The turn in which an actor that has panicked rests, and then gets its fresh state: before all
//! messages that wait, in the place of the one that panicked.
//!
//! It is a turn that waits for a timer. So a stop, or the end of the executor, cuts it, and leaves
//! the state as the panic has left it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::awaited::{Awaited, Resumed, Suspends};
use crate::cell::header::{Header, restart};
use crate::cell::owner::Owner;
use crate::cell::refs::Ref;
use crate::cell::resident::Env;
use crate::error::AskError;
use crate::mailbox::node::NodePtr;
use crate::panic;
use crate::time::Sleep;

/// Makes the state anew after so long, in place of the turn that has panicked, and is counted.
#[cold]
pub(crate) fn restart_after(owner: &mut Owner, backoff: Duration) {
    let (turn, _) = Awaited::of(Rest(owner.to_ref(), backoff));
    owner.header().announce_awaits();
    owner.put_first(NodePtr::new(Resumed(turn)));
}

struct Rest(Ref, Duration);

/// The actor, and what it waits for; nothing if that cannot be waited for.
struct Resting(Ref, Option<Sleep>);

impl Suspends for Rest {
    type Answer = ();
    type Payload = ();
    type Future = Resting;

    unsafe fn begin(self, _: *const Header) -> Resting {
        let Rest(cell, rest) = self;
        // The clock is the user's: one that panics costs the rest alone.
        let sleep = panic::catch(|| cell.header().config().service().sleep(rest));
        Resting(cell, sleep.map_err(panic::discard).ok())
    }

    fn payload(self) {}

    fn cut(resting: Pin<&mut Resting>, why: &AskError) {
        // Its timers have ended, and nothing else would end the rest.
        if matches!(why, AskError::Abandoned(_)) {
            resting.restart();
        }
    }
}

impl Resting {
    fn restart(&self) {
        let cell = self.0.cell();
        // SAFETY: it is polled, or cut, by the owner of this mailbox, in a turn (E1), with the state
        // in its cell (E5).
        unsafe { restart(cell, Env::of(cell).as_ptr()) }
    }
}

impl Future for Resting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.1 {
            let slept = panic::catch(|| Pin::new(sleep).poll(cx));
            ready!(slept.unwrap_or_else(|payload| {
                panic::discard(payload);
                Poll::Ready(())
            }));
        }
        self.restart();
        Poll::Ready(())
    }
}
