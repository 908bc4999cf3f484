//! MAILBOX-4: a message in the frame of a caller that waits.

use std::cell::Cell;

use super::super::error::{AskError, Reason, StopCause};
use super::super::pool::current::{Current, Worker};
use super::super::pool::{PoolId, WouldBlock};
use super::scheduled::in_turn;
use super::*;
use crate::sync::reached;

impl Shared {
    /// Asks for the sum so far by a borrowed message, which adds one and writes to the caller's
    /// frame.
    fn with(&self) -> Result<u32, AskError> {
        let mut local = Track::new(0);
        let seen = self.actor.with(|log| {
            log.last[3] += 1;
            *local.get_mut() = log.last[3];
            log.last[3]
        });
        if let Ok(seen) = seen {
            assert_eq!(*local.get_ref(), seen, "the result came without what the turn did");
        }
        seen
    }
}

/// DELIVERY and SLEEPER: two callers wait for each other's turns; each sees the writes of its turn
/// to its frame.
pub(super) fn r4_borrowed() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| assert!(shared.with().is_ok()));
    assert!(shared.with().is_ok());
    thread.join();
    assert_eq!(shared.with(), Ok(3));
    shared.finish();
}

/// DELIVERY and SLEEPER among three threads, one of which only sends: a message in a frame stands
/// between others in a batch.
pub(super) fn r4_borrowed_among_sends() {
    let shared = Shared::new();
    let first = shared.spawn(|shared| assert!(shared.with().is_ok()));
    let second = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    shared.send::<OWN>(0, 1);
    first.join();
    second.join();
    shared.finish();
}

/// DELIVERY: another thread gives a borrowed message back; the frame is not touched after the
/// answer.
pub(super) fn r4_borrowed_given_back() {
    let shared = Shared::by_hand();
    let inside = shared.clone();
    assert!(shared.actor.posted().send(move |_| assert!(inside.actor.stop())).is_ok());
    let thread = shared.spawn(|shared| {
        shared.run_one();
    });
    let held = Track::new(());
    let told = shared.actor.with(|_| drop(held));
    if told == Err(AskError::from(Reason::Stopped(StopCause::Requested))) {
        reached("given back or refused");
    }
    thread.join();
    shared.finish();
}

/// A caller whose actor is stopped is answered, and keeps its closure.
pub(super) fn r4_borrowed_stopped() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        shared.actor.stop();
    });
    let held = Track::new(());
    let told = shared.actor.with(|log| {
        let _ = &held;
        log.last[3] += 1;
    });
    if let Err(error) = told {
        assert_eq!(error, AskError::from(Reason::Stopped(StopCause::Requested)));
    }
    thread.join();
    shared.finish();
}

/// A worker whose pool lets it wait, until it is about to.
#[derive(Default)]
struct Fickle {
    asked: Cell<bool>,
}

impl Worker for Fickle {
    fn reserve(&self) -> Result<bool, WouldBlock> {
        if self.asked.replace(true) { Err(WouldBlock) } else { Ok(false) }
    }
    fn cancel(&self) {}
    fn leave(&self) -> Option<u64> {
        None
    }
    fn come_back(&self, _: u64) {}
    fn share(&self) {}
    fn lingers(&self) -> bool {
        false
    }
    fn goes_on(&self) -> bool {
        false
    }
    fn has_lingered(&self, _: bool) {}
}

/// ENVELOPE-3: a caller inside a turn may not sleep after all, and takes its closure back. Or it
/// has begun: then its caller waits, and sees its writes to the frame.
pub(super) fn r4_lent() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    Current::set(PoolId::NONE, &Fickle::default(), || {
        in_turn(|| {
            let mut local = Track::new(0);
            // Messages before the closure are run on top of this turn.
            SENDING.with(|sending| sending.set(false));
            let lent = shared.actor.with(|_| *local.get_mut() += 1);
            SENDING.with(|sending| sending.set(true));
            let written = *local.get_ref();
            drop(local);
            match lent {
                Ok(()) => {
                    reached("run");
                    assert_eq!(written, 1);
                }
                Err(AskError::Refused(Reason::WouldBlock, _)) => {
                    reached("taken back");
                    assert_eq!(written, 0);
                }
                other => unreachable!("{other:?}"),
            }
        });
    });
    thread.join();
    shared.finish();
}
