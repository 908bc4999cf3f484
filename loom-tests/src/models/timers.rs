//! TIMERS-1 to TIMERS-4: a timer fires or is cancelled, never both, and the thread that waits is
//! woken.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::super::time::Timers;
use super::clock::{LIMIT, Steps};
use super::*;
use crate::sync::reached;

fn count() -> Arc<AtomicU32> {
    Arc::default()
}

fn counts(count: &Arc<AtomicU32>) -> impl FnOnce() + use<> {
    let (count, track) = (count.clone(), Track::new(()));
    move || {
        drop(track);
        add(&count);
    }
}

/// TIMERS-1: a due timer is cancelled while it fires. It has fired, or it was cancelled.
pub(super) fn t1_fire_or_cancel() {
    let timers = Timers::by_hand(Steps::default());
    let fired = count();
    let timer = timers.after(Duration::ZERO, counts(&fired));
    let theirs = timers.clone();
    let thread = spawn(move || _ = theirs.run_due());
    let cancelled = timer.cancel();
    reached(if cancelled { "cancelled" } else { "fired" });
    thread.join();
    assert_eq!(fired.load(Relaxed) + u32::from(cancelled), 1);
    assert!(!timer.is_armed() && timers.is_empty());
}

/// TIMERS-1: a due timer is moved while it fires, and cancelled by a third thread. It fires at most
/// once, and is nowhere afterwards.
pub(super) fn t1_fire_or_reset_or_cancel() {
    let timers = Timers::by_hand(Steps::default());
    let fired = count();
    let timer = Arc::new(timers.after(Duration::ZERO, counts(&fired)));
    let theirs = timers.clone();
    let runner = spawn(move || _ = theirs.run_due());
    let theirs = timer.clone();
    let resets = spawn(move || {
        if theirs.reset(LIMIT) {
            reached("moved");
        }
    });
    let cancelled = timer.cancel();
    runner.join();
    resets.join();
    let left = timers.len();
    assert_eq!(fired.load(Relaxed) + u32::from(cancelled), 1);
    assert_eq!(left, 0);
    reached(if cancelled { "cancelled" } else { "fired" });
}

/// TIMERS-3: a sooner timer is armed before, while or after the thread goes to sleep. It is woken:
/// loom reports a thread that is never woken.
pub(super) fn t3_sooner_while_it_lies_down() {
    let timers = Timers::new(Steps::default()).expect("loom has threads");
    let late = timers.after(LIMIT, || unreachable!());
    let main = crate::sync::thread::current();
    let fired = count();
    let theirs = fired.clone();
    let sooner = timers.after(Duration::ZERO, move || {
        add(&theirs);
        main.unpark();
    });
    crate::sync::thread::park();
    assert_eq!(fired.load(Relaxed), 1);
    assert!(!sooner.is_armed() && late.cancel());
}

/// TIMERS-3 and TIMERS-4: the last clone is dropped while the thread goes to sleep. The thread
/// ends, and nothing fires.
pub(super) fn t4_last_clone() {
    let timers = Timers::new(Steps::default()).expect("loom has threads");
    let fired = count();
    let timer = timers.after(LIMIT, counts(&fired));
    drop(timers);
    assert!(!timer.is_armed() && !timer.cancel());
    assert_eq!(fired.load(Relaxed), 0);
}
