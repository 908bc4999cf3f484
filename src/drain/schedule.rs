//! Getting a pending mailbox to another thread (R8).
//!
//! A mailbox has one [`Drain`] out at most: the SCHEDULED bit beside its word says so. Whoever
//! leaves it pending, or leaves a message in a pending one, raises SCHEDULED, and submits a drain
//! only if it was not raised. A drain that is run or dropped lowers SCHEDULED first and then tries
//! to take the mailbox over; if that is not pending, the drain is stale and does nothing.
//!
//! A drain goes to the actor's executor; to the fallback ([`crate::FALLBACK`]), if there is none or
//! it has refused [`ATTEMPTS`] times. So it always gets somewhere, and whoever submits it never
//! waits.
//!
//! - T1: from the step that left it pending until somebody takes it over, a mailbox is in a
//!   thread's list, or has SCHEDULED raised, or a thread is about to do one of the two.

#![forbid(unsafe_code)]

use super::context::Local;
use crate::FALLBACK;
use crate::cell::executor::Drain;
use crate::cell::header::Header;
use crate::cell::refs::Kept;
use crate::panic;
use crate::sync::thread;

/// How often an executor is asked before the fallback is.
const ATTEMPTS: u32 = 3;

/// Can another thread go on with this actor?
pub(crate) fn hands_off(header: &Header) -> bool {
    header.config().executor.is_some() || !FALLBACK.is_closed()
}

/// Is the executor that this actor depends on gone?
pub(crate) fn is_executor_gone(header: &Header) -> bool {
    let Some(executor) = header.config().executor.as_deref() else { return false };
    panic::catch(|| executor.is_closed()).unwrap_or_else(|payload| {
        panic::discard(payload);
        false
    })
}

/// Sees to it that a drain is out for a pending mailbox, which `kept` keeps meanwhile. On a thread
/// that is inside no turn, [`settle`](super::deferred::settle) follows.
pub(crate) fn schedule(local: &Local, kept: &impl Kept) {
    if kept.header().raise_scheduled() {
        let drain = kept.to_ref().into_drain();
        // Whatever the executor does in this call, nothing runs on top of it.
        local.work(|| submit(kept.header(), drain));
    }
}

/// Sends a pending mailbox to the fallback, because its executor is gone or runs everything in the
/// call.
pub(crate) fn schedule_elsewhere(local: &Local, kept: &impl Kept) {
    if kept.header().raise_scheduled() {
        let drain = kept.to_ref().into_drain();
        let submit = || panic::ignore(|| FALLBACK.execute(drain));
        local.about_to_block(false, || local.work(submit));
    }
}

/// Gives a drain to the first that takes it. An executor that panics has dropped it.
fn submit(header: &Header, mut drain: Drain) {
    if let Some(executor) = header.config().executor.as_deref() {
        for attempt in 1..=ATTEMPTS {
            drain = match panic::catch(|| executor.try_execute(drain)) {
                Ok(Err(refused)) => refused,
                Ok(Ok(())) => return,
                Err(payload) => return panic::discard(payload),
            };
            if attempt < ATTEMPTS {
                thread::yield_now();
            }
        }
    }
    panic::ignore(|| FALLBACK.execute(drain));
}
