//! SLOTS-1 to SLOTS-5 of the pools of slots, where ends, expiries, changes of size and withdrawals
//! meet. The shipped pools, their semaphore and their timers.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::super::limits::Limits;
use super::super::slots::{RunSlotError, Slot, SlotError, SlotPool};
use super::super::time::Timers;
use super::clock::{LIMIT, Steps};
use super::*;
use crate::sync::reached;

/// A pool on a clock, and the data that all users of its slots, and all clean-ups, write.
struct Setting {
    clock: Arc<Steps>,
    timers: Timers,
    pool: SlotPool<(), ()>,
    inside: Arc<Written>,
    cleaned: Arc<AtomicU32>,
}

impl Setting {
    fn new() -> Self {
        let clock = Arc::new(Steps::default());
        let timers = Timers::by_hand(clock.clone());
        let (inside, cleaned) = (Written::new(), Arc::<AtomicU32>::default());
        let (theirs, count) = (inside.clone(), cleaned.clone());
        let builder = SlotPool::builder(1).set_up(|_| Ok(())).clean_up(move |slot, _| {
            if slot.index() == 0 {
                theirs.write();
            }
            add(&count);
            Ok(())
        });
        let pool = builder.timers(timers.clone()).build().expect("it has a slot");
        Setting { clock, timers, pool, inside, cleaned }
    }

    /// Checks, after all threads have joined, and all slots are dropped, that this many slots can
    /// be acquired, and this many uses were cleaned up.
    fn finish(self, slots: usize, uses: u32) {
        assert_eq!(self.cleaned.load(Relaxed), uses, "a use was not cleaned up once");
        let all = (0..slots).map(|_| self.pool.try_acquire());
        let all = all.collect::<Result<Vec<_>, SlotError<()>>>().expect("they are free");
        assert!(all.iter().map(|slot| slot.id().index()).eq(0..slots));
        assert!(self.pool.try_acquire().is_err(), "a slot too many");
        drop(all);
        assert_eq!(self.timers.len(), 0, "a timer is left");
    }
}

/// SLOTS-2: a waiter gives up while the slot is released. Then the next one has it, clean: it finds
/// a number, and the writes of the clean-up.
pub(super) fn slots_handed_over_against_given_up() {
    let setting = Setting::new();
    let first = setting.pool.try_acquire().expect("it is free");
    let (second, third) = (setting.pool.acquire(Limits::NONE), setting.pool.acquire(Limits::NONE));
    let inside = setting.inside.clone();
    let ends = spawn(move || {
        inside.write();
        drop(first);
    });
    drop(second);
    let third = third.wait().expect("it comes");
    setting.inside.write();
    ends.join();
    drop(third);
    setting.finish(1, 2);
}

/// SLOTS-3: a guard ends while its lease does. The slot is cleaned up once, and released.
pub(super) fn slots_expiry_against_release() {
    let setting = Setting::new();
    let lease = Limits::NONE.lease(LIMIT);
    let first = setting.pool.acquire(lease).wait().expect("it is free");
    let (clock, timers) = (setting.clock.clone(), setting.timers.clone());
    let expires = spawn(move || {
        clock.tick();
        timers.run_due();
    });
    reached(if first.finish().is_ok() { "finished" } else { "lost" });
    expires.join();
    // It was cleaned up where that was decided: by now.
    let second = setting.pool.try_acquire().expect("it is free");
    setting.inside.write();
    drop(second);
    setting.finish(1, 2);
}

/// SLOTS-3: a holder finds its lease over while the timer does. One of them reclaims; and once it
/// is lost, it stays so.
pub(super) fn slots_expiry_against_asking() {
    let setting = Setting::new();
    let lease = Limits::NONE.lease(LIMIT);
    let first = setting.pool.acquire(lease).wait().expect("it is free");
    let (clock, timers) = (setting.clock.clone(), setting.timers.clone());
    let expires = spawn(move || {
        clock.tick();
        if timers.run_due() == 1 {
            reached("told");
        }
    });
    let lost = first.is_lost();
    if lost {
        reached("noticed");
    }
    let finished = first.finish();
    assert!(!lost || finished.is_err(), "it was lost");
    expires.join();
    setting.finish(1, 1);
}

/// SLOTS-1, SLOTS-5: a pool shrinks while a slot is released for which a request waits. That is
/// granted before, with a number that retires, or waits for the other slot.
pub(super) fn slots_resize_against_release() {
    let setting = Setting::new();
    setting.pool.resize(2).expect("a size");
    let zero = setting.pool.try_acquire().expect("it is free");
    let one = setting.pool.try_acquire().expect("it is free");
    let next = setting.pool.acquire(Limits::NONE);
    let ends = spawn(move || drop(one));
    setting.pool.resize(1).expect("a size");
    ends.join();
    let at_once = next.is_ready();
    let zero = if at_once {
        Some(zero)
    } else {
        setting.inside.write();
        drop(zero);
        None
    };
    let next = next.wait().expect("it comes");
    reached(if next.id().index() == 1 { "beyond" } else { "retired" });
    assert_eq!(next.id().index() == 1, at_once);
    drop::<(Option<Slot<_, _>>, Slot<_, _>)>((zero, next));
    setting.finish(1, 3);
}

/// SLOTS-5: of two sizes that are set at the same time one stays, for the numbers and for the
/// permits.
pub(super) fn slots_two_sizes() {
    let setting = Setting::new();
    let pool = setting.pool.clone();
    let grows = spawn(move || pool.resize(3).expect("a size"));
    setting.pool.resize(1).expect("a size");
    grows.join();
    let slots = setting.pool.view().slots;
    reached(if slots == 1 { "one" } else { "three" });
    setting.finish(slots, 0);
}

/// SLOTS-3: a lease is renewed as it ends: it has ended, and the holder knows; or it goes on.
pub(super) fn slots_renewed_against_the_end() {
    let setting = Setting::new();
    let lease = Limits::NONE.lease(LIMIT);
    let slot = setting.pool.acquire(lease).wait().expect("it is free");
    let (clock, timers) = (setting.clock.clone(), setting.timers.clone());
    let expires = spawn(move || {
        clock.tick();
        timers.run_due();
    });
    let renewed = slot.renew(Duration::MAX).wait().is_ok();
    expires.join();
    reached(if renewed { "renewed" } else { "lost" });
    assert_eq!(slot.is_lost(), !renewed);
    assert_eq!(setting.pool.try_acquire().is_ok(), !renewed);
    drop(slot);
    setting.finish(1, if renewed { 1 } else { 2 });
}

/// A value that a job holds: its end is the slot's, too.
struct Leaves(Arc<Written>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.write();
    }
}

fn poll<F: Future + Unpin>(run: &mut F) -> Poll<F::Output> {
    Pin::new(run).poll(&mut Context::from_waker(Waker::noop()))
}

/// JOB-1: the lease of a job is over while it is polled: for the last time, or once more. It is
/// done, or cut; either way its slot is cleaned up once, after its destructors.
fn cut_against_a_poll(ready: bool) {
    let setting = Setting::new();
    let leaves = Leaves(setting.inside.clone());
    let mut run = setting.pool.run_async(Limits::NONE.lease(LIMIT), async move |_| {
        let mut polls = 0;
        let work = poll_fn(|_| {
            leaves.0.write();
            polls += 1;
            if ready && polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        work.await;
        drop(leaves);
    });
    assert!(poll(&mut run).is_pending());
    let (clock, timers) = (setting.clock.clone(), setting.timers.clone());
    let expires = spawn(move || {
        clock.tick();
        timers.run_due();
    });
    let polled = poll(&mut run);
    expires.join();
    let outcome = match polled {
        Poll::Pending => poll(&mut run),
        polled => polled,
    };
    match outcome {
        Poll::Ready(Ok(())) => reached("done"),
        Poll::Ready(Err(RunSlotError::Lost { .. })) => reached("lost"),
        Poll::Ready(Err(RunSlotError::Cut)) => reached("cut"),
        outcome => panic!("{outcome:?}"),
    }
    setting.inside.write();
    drop(run);
    setting.finish(1, 1);
}

/// JOB-1, against its last poll.
pub(super) fn slots_cut_against_its_end() {
    cut_against_a_poll(true);
}

/// JOB-1, against one of many polls.
pub(super) fn slots_cut_against_a_poll() {
    cut_against_a_poll(false);
}

/// JOB-1: the user of a job is dropped while its lease ends.
pub(super) fn slots_cut_against_a_drop() {
    let setting = Setting::new();
    let leaves = Leaves(setting.inside.clone());
    let mut run = setting.pool.run_async(Limits::NONE.lease(LIMIT), async move |_| {
        let _leaves = leaves;
        std::future::pending::<()>().await;
    });
    assert!(poll(&mut run).is_pending());
    let (clock, timers) = (setting.clock.clone(), setting.timers.clone());
    let expires = spawn(move || {
        clock.tick();
        reached(if timers.run_due() == 1 { "expired" } else { "dropped" });
    });
    drop(run);
    expires.join();
    setting.inside.write();
    setting.finish(1, 1);
}
