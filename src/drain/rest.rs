//! An actor that rests before it is restarted.
//!
//! Its owner keeps the mailbox, as in a turn that takes that long, but is on no thread: it lies in
//! [`Rests`](crate::cell::restarts::Rests). So nobody runs the mailbox, senders leave their messages
//! as they do beside a turn, places are as they were, and a message that makes the state anew stands
//! before all others ([`Restart`](crate::envelope::restart::Restart)). When the time has come, the
//! actor's timers have the mailbox run where it is at home. Whoever stops the actor ends its rest.
//!
//! - L1: see [`crate::cell::restarts`].
//! - L2: an owner that lies down gets up: by its timer, by the drop of that timer's function if it
//!   never fires ([`Alarm`]), at once if the clock panics, or by a stop.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::context::{Local, with_local};
use super::deferred::{drain, settle};
use super::schedule::hand_over;
use super::waking::cut_stopped;
use crate::cell::header::STOP;
use crate::cell::owner::{Owner, Resting};
use crate::cell::refs::Ref;
use crate::envelope::restart::Restart;
use crate::mailbox::node::NodePtr;
use crate::panic;

/// Lets an owner rest, whose private list begins with the restart. On a thread that is inside no
/// turn, [`settle`] follows.
#[cold]
pub(crate) fn lie_down(local: &Local, mut owner: Owner, rest: Duration) {
    let cell = owner.to_ref();
    let header = cell.header();
    let rests = &header.ext_made().rests;
    // The clock is the user's: before anything is changed.
    let clock = |_: &mut Owner| {
        panic::catch(|| {
            let timers = header.config().service();
            let due = timers.now().saturating_add(rest);
            (timers, due)
        })
    };
    let timers = local.enter(&mut owner, clock);
    let number = rests.lie_down(owner.lie_down());
    match timers {
        Ok((timers, due)) => {
            let alarm = Alarm { cell: cell.clone(), number };
            // A service that only this timer keeps lives as long as it.
            let kept = timers.clone();
            let timer = timers.at(due, move || {
                drop(alarm);
                drop(kept);
            });
            if let Some(timer) = rests.keep_timer(number, timer) {
                timer.cancel();
            }
        }
        Err(payload) => {
            panic::discard(payload);
            get_up(local, &cell, Some(number), false);
        }
    }
    if header.has(STOP) {
        get_up(local, &cell, Some(number), false);
    }
}

/// Goes on after the first turn of a mailbox that was claimed, or rests before.
#[cold]
pub(crate) fn drain_or_rest(local: &Local, mut owner: Owner, rest: Option<Duration>) {
    match rest {
        // A hook after the turn may have stopped it.
        Some(rest) if !owner.is_stopped() => {
            // The turn that panicked is done, and not settled.
            owner.put_first(NodePtr::new(Restart));
            lie_down(local, owner, rest);
            settle(local);
        }
        _ => drain(local, owner),
    }
}

/// Whoever has stopped an actor ends its rest, or cuts its turn that waits: what waits is given back
/// here, if it may run here.
pub(crate) fn end_rest(local: &Local, cell: &Ref, here: bool) {
    // L1: its allocation is there before the lock in it is taken, on both sides; else the lock could
    // not say who was first.
    if cell.header().config().may_rest() {
        cell.header().ext_made();
        get_up(local, cell, None, here);
    }
    cut_stopped(local, cell, here);
}

fn get_up(local: &Local, cell: &Ref, number: Option<u64>, here: bool) {
    let Some(ext) = cell.header().ext() else { return };
    let Some((resting, timer)) = ext.rests.get_up(number) else { return };
    if let Some(timer) = timer {
        timer.cancel();
    }
    go_on(local, cell, resting, here);
}

/// An owner is there again, and leaves its mailbox to whoever is to run it.
fn go_on(local: &Local, cell: &Ref, resting: Resting, here: bool) {
    let owner = resting.get_up();
    if here && !local.in_turn() && !cell.header().has_executor() {
        drain(local, owner);
    } else {
        hand_over(local, owner);
    }
}

/// Ends a rest when it is dropped: with the function of the timer, whatever becomes of that.
struct Alarm {
    cell: Ref,
    number: u64,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        with_local(|local| {
            get_up(local, &self.cell, Some(self.number), false);
            settle(local);
        });
    }
}
