//! Locks by key: who holds, who waits, and what becomes of a hold.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use crate::common::{Wakes, must_end, poll, size, until};
use turnwise::time::Timers;
use turnwise::{Actor, Clock, Limit, VirtualClock};
use turnwise_locks::{
    Acquire, AcquireAll, Fence, Fenced, FencedError, Guard, Limits, LockError, Locks, Lost,
    Mutexes, Owner, Permit, ReadGuard, ReleaseError, RwGuard, RwLocks, SlotPool, WriteGuard,
};

const SECOND: Duration = Duration::from_secs(1);

fn by_hand() -> (VirtualClock, Timers, Locks<u32>) {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let locks = Locks::builder().timers(timers.clone()).build();
    (clock, timers, locks)
}

#[test]
fn guards_move_between_threads() {
    fn moves<T: Send + 'static>() {}
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Guard<String>>();
    is_shared::<ReadGuard<String>>();
    is_shared::<WriteGuard<String>>();
    is_shared::<Permit>();
    is_shared::<Lost>();
    moves::<Acquire<String, Guard<String>>>();
    moves::<AcquireAll<String>>();
    let locks = Locks::new();
    let guard = locks.lock(1).wait().unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(locks.is_empty());
}

#[test]
fn order_is_that_of_the_calls() {
    let locks = Locks::new();
    let first = locks.lock("a").wait().unwrap();
    let mut waiting: Vec<_> = (0..1_000).map(|_| Some(locks.lock("a"))).collect();
    // Half of them leave: from the front, from the back, and in between.
    for number in (0..1_000).filter(|number| number % 2 == 0) {
        waiting[number] = None;
    }
    assert_eq!(locks.info(&"a").wait().unwrap().unwrap().waiting, 500);
    let mut before = first.fence();
    drop(first);
    let mut left: Vec<_> = waiting.into_iter().flatten().collect();
    left.reverse();
    while let Some(next) = left.pop() {
        assert!(left.iter().all(|later| !later.is_ready()));
        assert!(next.is_ready());
        let guard = next.wait().unwrap();
        assert!(guard.fence() > before);
        before = guard.fence();
    }
    assert!(locks.is_empty());
}

#[test]
fn threads_get_it_in_the_order_of_the_calls() {
    let locks = Locks::new();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let first = locks.lock(7).wait().unwrap();
    let threads: Vec<_> = (0..64)
        .map(|number| {
            let (acquire, order) = (locks.lock(7), order.clone());
            thread::spawn(move || {
                let _guard = acquire.wait().unwrap();
                order.lock().unwrap().push(number);
            })
        })
        .collect();
    drop(first);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*order.lock().unwrap(), (0..64).collect::<Vec<_>>());
}

#[test]
fn one_release_wakes_exactly_one() {
    let locks = Locks::new();
    let mut holder = locks.lock(1).wait().unwrap();
    let mut waiting: Vec<_> = (0..1_000).map(|_| (locks.lock(1), Wakes::new())).collect();
    for (acquire, wakes) in &mut waiting {
        assert!(poll(acquire, &wakes.waker()).is_none());
    }
    let all: Vec<_> = waiting.iter().map(|(_, wakes)| wakes.clone()).collect();
    for (number, (mut acquire, wakes)) in waiting.into_iter().enumerate() {
        drop(holder);
        assert_eq!(wakes.count(), 1);
        assert_eq!(all.iter().map(Wakes::count).sum::<usize>(), number + 1);
        holder = poll(&mut acquire, &wakes.waker()).unwrap().unwrap();
    }
}

#[test]
fn dropped_anywhere_it_leaves_the_lock_free() {
    let locks = Locks::new();
    let noop = Waker::noop();
    for step in 0..6 {
        let holder = locks.lock(1).wait().unwrap();
        let mut acquire = locks.lock(1);
        let mut holder = Some(holder);
        if step >= 1 {
            assert!(poll(&mut acquire, noop).is_none());
        }
        if step >= 2 {
            holder = None;
        }
        match step {
            3 => assert!(poll(&mut acquire, noop).unwrap().is_ok()),
            4 => drop(acquire.wait_timeout(Duration::ZERO)),
            5 => std::mem::drop(thread::spawn(move || drop(acquire)).join()),
            _ => drop(acquire),
        }
        drop(holder);
        assert!(locks.try_lock(1).is_ok(), "step {step}");
        assert_eq!(locks.len(), 0, "step {step}");
    }
}

#[test]
fn try_overtakes_nobody() {
    let locks = Locks::new();
    let holder = locks.lock(1).wait().unwrap();
    assert!(matches!(locks.try_lock(1), Err(LockError::Busy { .. })));
    let waiting = locks.lock(1);
    drop(holder);
    // Granted, and not taken yet.
    assert!(matches!(locks.try_lock(1), Err(LockError::Busy { .. })));
    assert_eq!(
        locks.lock_within(1, Limits::wait(Duration::ZERO)).wait().unwrap_err(),
        LockError::Busy { key: None }
    );
    drop(waiting);
    assert!(locks.try_lock(1).is_ok());
}

#[test]
fn of_many_that_try_one_gets_it() {
    for _ in 0..200 {
        let locks = Locks::new();
        let tried: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| locks.try_lock(1))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(tried.iter().filter(|tried| tried.is_ok()).count(), 1);
        drop(tried);
        assert!(locks.is_empty());
    }
}

#[test]
fn what_timed_out_never_gets_it() {
    let (clock, _timers, locks) = by_hand();
    let holder = locks.lock(1).wait().unwrap();
    let late = locks.lock_within(1, Limits::wait(5 * SECOND));
    let waiter = thread::spawn(move || late.wait());
    clock.wait_for_sleepers(1);
    clock.advance(5 * SECOND);
    let error = waiter.join().unwrap().unwrap_err();
    assert_eq!(error, LockError::TimedOut { waited: 5 * SECOND, key: None });
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().waiting, 0);
    drop(holder);
    assert!(locks.is_empty());
}

#[test]
fn an_expired_wait_is_skipped_without_its_waiter() {
    let (clock, _timers, locks) = by_hand();
    let holder = locks.lock(1).wait().unwrap();
    let late = locks.lock_within(1, Limits::wait(SECOND));
    let next = locks.lock(1);
    clock.advance(2 * SECOND);
    drop(holder);
    assert!(next.wait().is_ok());
    assert_eq!(late.wait().unwrap_err(), LockError::TimedOut { waited: 2 * SECOND, key: None });
}

#[test]
fn a_future_is_woken_at_its_limit() {
    let (clock, timers, locks) = by_hand();
    let _holder = locks.lock(1).wait().unwrap();
    let mut late = locks.lock_within(1, Limits::wait(SECOND));
    let wakes = Wakes::new();
    assert!(poll(&mut late, &wakes.waker()).is_none());
    clock.advance(SECOND);
    timers.run_due();
    assert!(wakes.count() > 0);
    let error = poll(&mut late, &wakes.waker()).unwrap().unwrap_err();
    assert_eq!(error, LockError::TimedOut { waited: SECOND, key: None });
    let error = poll(&mut late, &wakes.waker()).unwrap().unwrap_err();
    assert_eq!(error, LockError::Taken);
    drop(late);
    assert!(timers.is_empty());
}

#[test]
fn one_that_waited_in_vain_is_refused_at_once() {
    let (clock, _timers, locks) = by_hand();
    let hasty = Limits::wait(5 * SECOND).refuse_early();
    let holder = locks.lock(1).wait().unwrap();
    // Nothing is known yet: it waits.
    let first = locks.lock_within(1, hasty);
    drop(holder);
    let first = first.wait().unwrap();
    let second = locks.lock_within(1, hasty);
    clock.advance(4 * SECOND);
    drop(first);
    let second = second.wait().unwrap();
    // A hold takes four seconds: there is time for one more, and not for two.
    let third = locks.lock_within(1, hasty);
    let refused = locks.lock_within(1, hasty).wait().unwrap_err();
    assert_eq!(refused, LockError::Expected { wait: 8 * SECOND, key: None });
    assert_eq!(refused.to_string(), "not granted: the expected wait of 8s exceeds the limit");
    let patient = locks.lock_within(1, Limits::wait(5 * SECOND));
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().waiting, 2);
    clock.advance(4 * SECOND);
    drop(second);
    assert!(third.is_ready() && !patient.is_ready());
}

#[test]
fn a_place_is_kept_while_one_looks() {
    let locks = Locks::new();
    let holder = locks.lock(1).wait().unwrap();
    let mut second = locks.lock(1);
    let third = locks.lock(1);
    for _ in 0..3 {
        assert!(second.wait_timeout(Duration::from_millis(1)).is_none());
    }
    drop(holder);
    assert!(!third.is_ready());
    let second = second.wait_timeout(SECOND).unwrap().unwrap();
    drop(second);
    assert!(third.wait().is_ok());
}

#[test]
fn after_its_lease_the_next_holds() {
    let (clock, timers, locks) = by_hand();
    let lease = Limits::NONE.lease(6 * SECOND);
    let old = locks.lock_within(1, lease).wait().unwrap();
    let waiting = locks.lock_within(1, lease);
    let mut lost = old.lost();
    let wakes = Wakes::new();
    assert!(poll(&mut lost, &wakes.waker()).is_none());

    clock.advance(6 * SECOND - Duration::from_nanos(1));
    assert_eq!(timers.run_due(), 0);
    assert!(!waiting.is_ready() && !old.is_lost());
    assert_eq!(old.remaining(), Some(Duration::from_nanos(1)));

    clock.advance(Duration::from_nanos(1));
    timers.run_due();
    let new = waiting.wait().unwrap();
    assert_eq!(wakes.count(), 1);
    assert!(poll(&mut lost, &wakes.waker()).is_some());
    assert!(new.fence() > old.fence());
    assert!(old.is_lost() && old.renew(SECOND).wait().is_err());
    let fence = old.fence();
    assert_eq!(old.release().wait(), Err(ReleaseError::Lost(fence)));
    // The late release has not touched the new holder.
    assert!(!new.is_lost());
    assert!(matches!(locks.try_lock(1), Err(LockError::Busy { .. })));
    assert!(new.release().wait().is_ok());
    assert!(locks.is_empty() && timers.is_empty());
}

#[test]
fn an_overdue_hold_is_gone_for_whoever_asks() {
    // The timers are not run.
    let (clock, timers, locks) = by_hand();
    let old = locks.lock_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
    clock.advance(SECOND);
    let new = locks.try_lock(1).unwrap();
    assert!(old.is_lost() && !new.is_lost());
    drop(old);
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().fence, Some(new.fence()));
    drop(new);
    assert_eq!(timers.run_due(), 0);
}

#[test]
fn a_renewed_lease_is_measured_anew() {
    let (clock, timers, locks) = by_hand();
    let guard = locks.lock_within(1, Limits::NONE.lease(2 * SECOND)).wait().unwrap();
    for _ in 0..10 {
        clock.advance(SECOND);
        timers.run_due();
        assert!(guard.renew(2 * SECOND).wait().is_ok());
        assert_eq!(timers.len(), 1);
    }
    assert_eq!(guard.remaining(), Some(2 * SECOND));
    // None that the clock could show: no lease any more.
    assert!(guard.renew(Duration::MAX).wait().is_ok());
    assert_eq!(guard.remaining(), None);
    clock.advance(2 * SECOND);
    timers.run_due();
    assert!(timers.is_empty() && !guard.is_lost());
    assert!(guard.renew(Duration::ZERO).wait().is_err());
    assert!(guard.is_lost());
}

#[test]
#[should_panic(expected = "a lease must not be zero")]
fn a_lease_of_zero_is_refused() {
    let _ = Limits::NONE.lease(Duration::ZERO);
}

#[test]
fn an_owner_holds_several_times() {
    let (clock, _, locks) = by_hand();
    let (me, other) = (Owner::new(), Owner::new());
    let mut guards: Vec<_> =
        (0..3).map(|_| locks.lock_as(&me, 1, Limits::NONE.lease(SECOND)).wait().unwrap()).collect();
    let info = locks.info(&1).wait().unwrap().unwrap();
    assert_eq!((info.holders, info.count), (1, 3));
    // On the very same thread.
    let busy = locks.lock_as(&other, 1, Limits::wait(Duration::ZERO)).wait();
    assert!(matches!(busy, Err(LockError::Busy { .. })));
    assert!(matches!(locks.try_lock(1), Err(LockError::Busy { .. })));
    for count in (1..3).rev() {
        assert!(guards.remove(0).release().wait().is_ok());
        assert_eq!(locks.info(&1).wait().unwrap().unwrap().count, count);
    }
    // The lease began with the last.
    clock.advance(Duration::from_millis(500));
    let again = locks.lock_as(&me, 1, Limits::NONE.lease(SECOND)).wait().unwrap();
    clock.advance(Duration::from_millis(700));
    assert!(!again.is_lost() && !guards[0].is_lost());
    drop(again);
    assert!(matches!(locks.try_lock(1), Err(LockError::Busy { .. })));
    drop(guards);
    assert!(locks.try_lock(1).is_ok());
}

#[test]
fn an_owner_does_not_wait_behind_itself() {
    let (locks, me) = (Locks::new(), Owner::new());
    let holder = locks.lock(1).wait().unwrap();
    let one = locks.lock_as(&me, 1, Limits::NONE);
    let mut other = locks.lock(1);
    let two = locks.lock_as(&me, 1, Limits::NONE);
    let gone = locks.lock_as(&me, 1, Limits::NONE);
    drop(gone);
    drop(holder);
    assert!(one.is_ready() && two.is_ready() && !other.is_ready());
    let (one, two) = (one.wait().unwrap(), two.wait().unwrap());
    assert_eq!(one.fence(), two.fence());
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().count, 2);
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().waiting, 1);
    drop(one);
    assert!(!other.is_ready());
    drop(two);
    assert!(poll(&mut other, Waker::noop()).unwrap().is_ok());
    assert!(locks.is_empty());
}

#[test]
fn an_owner_whose_lease_is_over_holds_anew() {
    // The timers are not run.
    let (clock, _timers, locks) = by_hand();
    let me = Owner::new();
    let old = locks.lock_as(&me, 1, Limits::NONE.lease(SECOND)).wait().unwrap();
    let other = locks.lock(1);
    clock.advance(SECOND);
    assert!(old.is_lost());
    let new = locks.lock_as(&me, 1, Limits::NONE);
    // It does not overtake.
    let other = other.wait().unwrap();
    assert!(!new.is_ready());
    drop(other);
    let new = new.wait().unwrap();
    assert!(!new.is_lost() && new.fence() > old.fence());
    assert!(old.release().wait().is_err());
    assert_eq!(locks.info(&1).wait().unwrap().unwrap().fence, Some(new.fence()));
}

#[test]
fn owners_of_other_locks_are_others() {
    let (one, two) = (Locks::new(), Locks::new());
    let me = Owner::new();
    let _here = one.lock_as(&me, 1, Limits::NONE).wait().unwrap();
    let _there = two.lock_as(&me, 1, Limits::NONE).wait().unwrap();
    assert!(one.lock_as(&Owner::new(), 1, Limits::wait(Duration::ZERO)).wait().is_err());
}

#[test]
fn force_frees_what_is_held_three_times() {
    let locks = Locks::new();
    let me = Owner::new();
    let held: Vec<_> =
        (0..3).map(|_| locks.lock_as(&me, 1, Limits::NONE).wait().unwrap()).collect();
    let mut waiting: Vec<_> = (0..3).map(|_| (locks.lock(1), Wakes::new())).collect();
    for (acquire, wakes) in &mut waiting {
        assert!(poll(acquire, &wakes.waker()).is_none());
    }
    assert!(locks.force_release(&1).wait().unwrap());
    assert!(!locks.force_release(&2).wait().unwrap());
    assert_eq!(waiting.iter().map(|(_, wakes)| wakes.count()).collect::<Vec<_>>(), [1, 0, 0]);
    for guard in held {
        assert!(guard.is_lost());
        assert!(guard.release().wait().is_err());
    }
    assert!(!waiting[1].0.is_ready());
}

#[test]
fn fences_increase_across_eviction() {
    let grants = size(50_000, 1_000_000);
    let locks = Locks::new();
    let newest: Vec<_> = (0..8).map(|_| AtomicU64::new(0)).collect();
    let granted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut number = 0;
                while granted.fetch_add(1, SeqCst) < grants {
                    number += 1;
                    let key = number % 8;
                    let guard = locks.lock(key).wait().unwrap();
                    let fence = guard.fence().number();
                    assert!(newest[key].swap(fence, SeqCst) < fence);
                }
            });
        }
    });
    assert!(locks.is_empty());
}

#[test]
fn a_fenced_resource_refuses_the_old() {
    let file = Fenced::new(vec![]);
    let (old, new) = (Fence::from_number(1), Fence::from_number(2));
    file.with(old, |file| file.push("old")).unwrap();
    file.with(old, |file| file.push("old")).unwrap();
    file.with(new, |file| file.push("new")).unwrap();
    let stale = file.with(old, |_| unreachable!());
    assert_eq!(stale, Err(FencedError::Stale { newest: new }));
    let inside = file.with(new, |_| file.clone().with(new, |_| ()));
    assert!(matches!(inside, Ok(Err(FencedError::Refused(_)))));
    assert_eq!(file.with(new, |file| file.len()), Ok(3));
}

#[test]
fn a_fenced_resource_outlives_a_panic() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new("a drop"));
        }
    }
    let file = Fenced::new(1);
    let (old, new) = (Fence::from_number(1), Fence::from_number(2));
    let panics = |call: &dyn Fn()| {
        let panicked = catch_unwind(AssertUnwindSafe(call));
        *panicked.unwrap_err().downcast::<&str>().unwrap()
    };
    let use_it = || _ = file.with(new, |_| resume_unwind(Box::new("a use")));
    assert_eq!(panics(&use_it), "a use");
    assert_eq!(file.newest(), Some(new));
    // The closure of one that is refused.
    let refuse = || {
        let bomb = Bomb;
        _ = file.with(old, move |_| _ = &bomb);
    };
    assert_eq!(panics(&refuse), "a drop");
    assert_eq!(file.with(new, |n| *n), Ok(1));
}

#[test]
fn all_or_none_of_several() {
    let locks = Locks::new();
    let third = locks.lock(3).wait().unwrap();
    let limits = Duration::from_millis(1);
    let refused = locks.lock_all([2, 3, 1], Limits::wait(limits)).wait().unwrap_err();
    assert!(matches!(refused, LockError::TimedOut { .. }));
    assert_eq!(locks.len(), 1);
    let refused = locks.lock_all([2, 3, 1], Limits::wait(Duration::ZERO)).wait().unwrap_err();
    assert_eq!(refused, LockError::Busy { key: None });
    let mut waiting = locks.lock_all([1, 2, 3], Limits::NONE);
    assert!(poll(&mut waiting, Waker::noop()).is_none());
    assert_eq!(locks.len(), 3);
    drop(waiting);
    assert_eq!(locks.len(), 1);
    drop(third);
    let all = locks.lock_all([1, 1, 3], Limits::NONE.lease(SECOND)).wait().unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!([1, 2, 3].map(|key| locks.try_lock(key).is_ok()), [false, true, false]);
    assert!(all.iter().all(|guard| guard.remaining().is_some()));
    assert!(!all.iter().any(Guard::is_lost));
    drop(all);
    assert!(locks.is_empty());
    assert_eq!(locks.lock_all([], Limits::NONE).wait().unwrap().len(), 0);
}

#[test]
fn several_are_waited_for_in_parts() {
    let (clock, _timers, locks) = by_hand();
    let third = locks.lock(3).wait().unwrap();
    let mut all = locks.lock_all([1, 2, 3], Limits::wait(SECOND));
    assert!(all.wait_timeout(Duration::ZERO).is_none());
    // What is held stays held, and the place of the next is kept.
    assert!(locks.is_locked(&2) && locks.info(&3).wait().unwrap().unwrap().waiting == 1);
    drop(third);
    let guards = all.wait_timeout(Duration::ZERO).unwrap().unwrap();
    assert_eq!(guards.len(), 3);
    assert!(matches!(all.wait_timeout(SECOND), Some(Err(LockError::Taken))));

    // The wait of the call is over before that of one look.
    let mut late = locks.lock_all([3, 4], Limits::wait(SECOND));
    clock.advance(SECOND);
    let refused = late.wait_timeout(SECOND).unwrap().unwrap_err();
    assert_eq!(refused, LockError::TimedOut { waited: SECOND, key: None });
    drop(guards);
    assert!(locks.is_empty());

    let lists = Mutexes::<_, Vec<u32>>::new();
    let held = lists.lock(1).wait().unwrap();
    let mut both = lists.lock_all([1, 2], Limit::Unlimited);
    assert!(both.wait_timeout(Duration::ZERO).is_none());
    drop(held);
    assert_eq!(both.wait_timeout(Limit::Unlimited).unwrap().unwrap().len(), 2);
}

#[test]
fn a_call_that_is_over_is_ready() {
    let locks = Locks::new();
    let guard = locks.lock(1).wait().unwrap();
    let mut release = guard.release();
    assert!(release.is_ready());
    assert_eq!(release.wait_timeout(Duration::ZERO), Some(Ok(())));
    assert!(!release.is_ready());
    let again = catch_unwind(AssertUnwindSafe(|| release.wait_timeout(Duration::ZERO)));
    assert!(again.is_err());
}

#[test]
fn a_hold_learns_what_it_is_asked_for() {
    let (clock, timers, locks) = by_hand();
    // No other has asked for it, and it had no lease.
    let guard = locks.lock(1).wait().unwrap();
    assert_eq!((guard.remaining(), timers.len()), (None, 0));
    assert!(!guard.is_lost() && locks.info(&1).wait().unwrap().unwrap().exclusive);
    guard.renew(SECOND).wait().unwrap();
    assert_eq!((guard.remaining(), timers.len()), (Some(SECOND), 1));
    clock.advance(SECOND);
    assert!(guard.is_lost());
    assert!(locks.try_lock(1).is_ok());
    assert!(guard.release().wait().is_err());
    assert!(locks.is_empty() && timers.is_empty());

    for ask in 0..4 {
        let guard = locks.lock(1).wait().unwrap();
        let mut lost = guard.lost();
        let wakes = Wakes::new();
        match ask {
            0 => {}
            1 => assert!(poll(&mut lost, &wakes.waker()).is_none()),
            2 => assert!(!guard.is_lost()),
            _ => assert_eq!(locks.info(&1).wait().unwrap().unwrap().fence, Some(guard.fence())),
        }
        let waiting = locks.lock(1);
        assert!(locks.force_release(&1).wait().unwrap());
        let next = waiting.wait().unwrap();
        assert!(next.fence() > guard.fence());
        assert_eq!(wakes.count(), usize::from(ask == 1));
        if ask % 2 == 0 {
            assert!(guard.release().wait().is_err());
        } else {
            drop(guard);
        }
        assert!(matches!(locks.try_lock(1), Err(LockError::Busy { .. })));
        assert!(next.release().wait().is_ok());
        assert!(locks.is_empty());
    }
}

/// The first `Eq` after a guard was put there ends it by this function.
struct Ends(u32, Arc<std::sync::Mutex<Option<Guard<Ends>>>>, fn(Guard<Ends>));

impl std::hash::Hash for Ends {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        0.hash(state);
    }
}

impl PartialEq for Ends {
    fn eq(&self, other: &Self) -> bool {
        let guard = self.1.lock().unwrap().take();
        guard.into_iter().for_each(self.2);
        self.0 == other.0
    }
}

impl Eq for Ends {}

fn ends_inside_an_eq(end: fn(Guard<Ends>)) {
    for asked in [false, true] {
        let kept = Arc::new(std::sync::Mutex::new(None));
        let key = |number| Ends(number, kept.clone(), end);
        let locks = Locks::new();
        let guard = locks.lock(key(1)).wait().unwrap();
        let waiting = asked.then(|| locks.lock(key(1)));
        *kept.lock().unwrap() = Some(guard);
        assert!(locks.lock(key(2)).wait().is_ok());
        assert!(waiting.is_none_or(|waiting| waiting.wait().is_ok()));
        // A pool lets go.
        until(|| locks.is_empty());
    }
}

#[test]
fn a_guard_may_be_dropped_inside_an_eq() {
    ends_inside_an_eq(drop);
}

#[test]
fn a_release_inside_an_eq_panics_and_gives_back() {
    ends_inside_an_eq(|guard| {
        let release = std::panic::AssertUnwindSafe(|| guard.release());
        assert!(std::panic::catch_unwind(release).is_err());
    });
}

#[test]
fn opposite_orders_do_not_deadlock() {
    let rounds = size(2_000, 100_000);
    must_end(move || {
        let locks = Locks::new();
        thread::scope(|scope| {
            for keys in [[1, 2], [2, 1]] {
                let locks = &locks;
                scope.spawn(move || {
                    for _ in 0..rounds {
                        drop(locks.lock_all(keys, Limits::NONE).wait().unwrap());
                    }
                });
            }
        });
        assert!(locks.is_empty());
    });
}

#[test]
fn leases_of_several_begin_together() {
    let (clock, _timers, locks) = by_hand();
    let second = locks.lock(2).wait().unwrap();
    let both = locks.lock_all([1, 2], Limits::NONE.lease(SECOND));
    clock.advance(10 * SECOND);
    drop(second);
    let both = both.wait().unwrap();
    assert!(!both.iter().any(Guard::is_lost));
    clock.advance(SECOND);
    assert!(both.iter().all(Guard::is_lost));
}

#[test]
fn inside_a_turn_it_is_given_back_at_once() {
    let locks = Locks::new();
    let actor = Actor::new(());
    let holder = locks.lock(1).wait().unwrap();
    let (waiting, passed) = (locks.lock(1), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = waiting.wait().unwrap();
            passed.store(true, SeqCst);
        });
        actor
            .with(|()| {
                let own = locks.lock(2).wait().unwrap();
                drop(holder);
                // The other thread has the lock before this turn is over.
                until(|| passed.load(SeqCst));
                drop(own);
                assert!(locks.try_lock(2).is_ok());
            })
            .unwrap();
    });
    assert!(locks.is_empty());
}

#[test]
fn closed_locks_tell_those_that_wait() {
    let locks = Locks::new();
    let guard = locks.lock(1).wait().unwrap();
    let (waiting, mut polled) = (locks.lock(1), locks.lock(1));
    let wakes = Wakes::new();
    assert!(poll(&mut polled, &wakes.waker()).is_none());
    let waiter = thread::spawn(move || waiting.wait());
    locks.close();
    assert_eq!(waiter.join().unwrap().unwrap_err(), LockError::Closed);
    until(|| wakes.count() > 0);
    assert_eq!(poll(&mut polled, &wakes.waker()).unwrap().unwrap_err(), LockError::Closed);
    assert_eq!(locks.lock(1).wait().unwrap_err(), LockError::Closed);
    assert_eq!(locks.lock(2).wait().unwrap_err(), LockError::Closed);
    assert!(!guard.is_lost() && guard.release().wait().is_ok());
}

/// Also one that had another request before the close.
#[test]
fn closed_locks_are_looked_at_and_forced() {
    let locks = Locks::new();
    let guards = [1, 2].map(|key| locks.lock(key).wait().unwrap());
    let waiting = locks.lock(2);
    locks.close();
    assert_eq!(waiting.wait().unwrap_err(), LockError::Closed);
    for (key, guard) in [1, 2].iter().zip(guards) {
        let info = locks.info(key).wait().unwrap().unwrap();
        assert_eq!((info.fence, info.waiting), (Some(guard.fence()), 0));
        assert_eq!(locks.force_release(key).wait(), Ok(true));
        assert!(guard.is_lost() && locks.info(key).wait().unwrap().is_none());
    }
    assert!(locks.is_empty());
}

#[test]
fn locks_that_are_dropped_still_work() {
    let locks = Locks::new();
    let guard = locks.lock(1).wait().unwrap();
    let waiting = locks.lock(1);
    drop(locks);
    drop(guard);
    assert!(waiting.wait().is_ok());
}

#[test]
fn what_is_forgotten_stays_held() {
    let locks = Locks::new();
    std::mem::forget(locks.lock(1).wait().unwrap());
    std::mem::forget(locks.lock(1));
    let next = locks.lock(1);
    assert!(locks.force_release(&1).wait().unwrap());
    // The second one was forgotten with its place; its hold is taken away, too.
    assert!(locks.force_release(&1).wait().unwrap());
    assert!(next.wait().is_ok());
}

#[test]
fn hostile_wakers_harm_nobody() {
    let locks = Arc::new(Locks::new());
    let holder = locks.lock(1).wait().unwrap();
    let inside = locks.clone();
    let asks = Wakes::calling(move || {
        // Inside the lock's own turn.
        assert!(inside.try_lock(1).is_err());
        drop(inside.lock(1));
        drop(inside.lock(2));
    });
    let panics = Wakes::calling(|| panic!("a waker"));
    let mut waiting = [(locks.lock(1), panics), (locks.lock(1), asks)];
    for (acquire, wakes) in &mut waiting {
        assert!(poll(acquire, &wakes.waker()).is_none());
    }
    drop(holder);
    for (mut acquire, wakes) in waiting {
        until(|| wakes.count() == 1);
        assert!(poll(&mut acquire, &wakes.waker()).unwrap().is_ok());
    }
    assert!(locks.is_empty());
}

#[test]
fn a_lost_hold_tells_hostile_wakers_each() {
    let locks = Locks::new();
    let guard = locks.lock(1).wait().unwrap();
    let wakes = [Wakes::calling(|| panic!("a waker")), Wakes::new(), Wakes::new()];
    let mut lost: Vec<_> = wakes.iter().map(|_| guard.lost()).collect();
    for (lost, wakes) in lost.iter_mut().zip(&wakes) {
        assert!(poll(lost, &wakes.waker()).is_none());
        assert!(poll(lost, &wakes.waker()).is_none());
    }
    drop(lost.pop());
    assert!(locks.force_release(&1).wait().unwrap());
    assert_eq!(wakes.each_ref().map(Wakes::count), [1, 1, 0]);
}

#[test]
fn a_clock_that_panics_harms_nobody() {
    #[derive(Debug)]
    struct Broken(AtomicBool);
    impl Clock for &'static Broken {
        fn now(&self) -> Duration {
            assert!(!self.0.load(SeqCst), "a clock");
            SECOND
        }
        fn park_until(&self, _: Duration) {
            thread::park();
        }
    }
    let clock: &'static Broken = Box::leak(Box::new(Broken(AtomicBool::new(false))));
    let locks = Locks::builder().timers(Timers::by_hand(clock)).build();
    let lease = Limits::NONE.lease(SECOND);
    let held = locks.lock_within(1, lease).wait().unwrap();
    let waiting = locks.lock_within(1, Limits::wait(SECOND).lease(SECOND));
    let next = locks.lock(1);
    clock.0.store(true, SeqCst);
    drop(held);
    // A waiter by the clock gets its panic, and gives the lock up with that.
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| drop(waiting.wait())));
    assert!(panicked.is_err());
    let held = next.wait().unwrap();
    assert!(locks.try_lock(1).is_err());
    let waiting = locks.lock_within(1, lease);
    drop(held);
    drop(waiting.wait().unwrap());
    // An entry of an owner that begins the lease anew.
    let me = Owner::new();
    let held = locks.lock_as(&me, 1, Limits::NONE).wait().unwrap();
    let next = locks.lock(1);
    drop(locks.lock_as(&me, 1, lease).wait().unwrap());
    drop(held);
    assert!(next.is_ready() && next.wait().is_ok());
    clock.0.store(false, SeqCst);
    assert!(locks.is_empty());
}

#[test]
fn a_lease_that_begins_as_the_clock_panics_has_its_time() {
    #[derive(Debug)]
    struct Broken(VirtualClock, Arc<AtomicBool>);
    impl Clock for Broken {
        fn now(&self) -> Duration {
            assert!(!self.1.load(SeqCst), "a clock");
            self.0.now()
        }
        fn park_until(&self, at: Duration) {
            self.0.park_until(at);
        }
    }
    let (clock, broken) = (VirtualClock::new(), Arc::new(AtomicBool::new(false)));
    clock.advance(100 * SECOND);
    let timers = Timers::by_hand(Broken(clock.clone(), broken.clone()));
    let locks = Locks::builder().timers(timers.clone()).build();
    let slots = SlotPool::builder(1).lease(SECOND).timers(timers.clone()).build().unwrap();
    let held = locks.lock(1).wait().unwrap();
    let lease = Limits::NONE.lease(SECOND);
    let waiting = locks.lock_within(1, lease);
    broken.store(true, SeqCst);
    let at_once = locks.lock_within(2, lease).wait().unwrap();
    let slot = slots.try_acquire().unwrap();
    held.renew(SECOND).wait().unwrap();
    drop(held);
    broken.store(false, SeqCst);
    timers.run_due();
    let handed_on = waiting.wait().unwrap();
    assert!(!at_once.is_lost() && !handed_on.is_lost() && !slot.is_lost());
    clock.advance(SECOND);
    assert!(at_once.is_lost() && handed_on.is_lost() && slot.is_lost());
}

#[test]
fn keys_whose_eq_panics_harm_nobody() {
    #[derive(Clone, Debug)]
    struct Key(u32, Arc<AtomicBool>);
    impl std::hash::Hash for Key {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            0.hash(state);
        }
    }
    impl PartialEq for Key {
        fn eq(&self, other: &Self) -> bool {
            assert!(!self.1.load(SeqCst), "an Eq");
            self.0 == other.0
        }
    }
    impl Eq for Key {}
    let broken = Arc::new(AtomicBool::new(false));
    let key = |number| Key(number, broken.clone());
    let locks = Locks::new();
    let guard = locks.lock(key(1)).wait().unwrap();
    broken.store(true, SeqCst);
    let tried = std::panic::catch_unwind(|| drop(locks.lock(key(2))));
    assert!(tried.is_err());
    drop(guard);
    broken.store(false, SeqCst);
    assert!(locks.try_lock(key(2)).is_ok());
    assert!(locks.is_empty());
}

#[test]
fn whatever_is_done_nobody_overlaps() {
    const KEYS: usize = 3;
    let rounds = size(3_000, 60_000);
    let locks: Locks<usize> = Locks::new();
    let inside: Vec<_> = (0..KEYS).map(|_| AtomicBool::new(false)).collect();
    let counts: [AtomicUsize; 4] = Default::default();
    let [asked, held, late, dropped] = &counts;
    thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let (locks, inside) = (&locks, &inside);
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..rounds {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let key = (random >> 8) as usize % KEYS;
                    asked.fetch_add(1, SeqCst);
                    let mut acquire = match random >> 32 & 3 {
                        0 => locks.lock_within(key, Limits::wait(Duration::ZERO)),
                        1 => locks.lock_within(
                            key,
                            Limits::wait(Duration::from_micros(random >> 40 & 31)),
                        ),
                        _ => locks.lock_within(key, Limits::NONE),
                    };
                    match random >> 48 & 7 {
                        0 => {
                            dropped.fetch_add(1, SeqCst);
                            continue;
                        }
                        1 if poll(&mut acquire, Waker::noop()).is_some() => {
                            dropped.fetch_add(1, SeqCst);
                            continue;
                        }
                        _ => {}
                    }
                    match acquire.wait() {
                        Ok(_guard) => {
                            assert!(!inside[key].swap(true, SeqCst));
                            held.fetch_add(1, SeqCst);
                            inside[key].store(false, SeqCst);
                        }
                        Err(LockError::TimedOut { .. } | LockError::Busy { .. }) => {
                            late.fetch_add(1, SeqCst);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let [asked, held, late, dropped] = counts.map(AtomicUsize::into_inner);
    assert_eq!(asked, held + late + dropped);
    assert!(locks.is_empty());
}

#[test]
fn leases_and_force_against_releases() {
    let rounds = size(2_000, 20_000) as u64;
    let locks = Locks::new();
    let file = Fenced::new(0);
    let (kept, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..rounds {
                    let lease = Limits::NONE.lease(Duration::from_micros(round % 50 + 1));
                    let guard = locks.lock_within(1, lease).wait().unwrap();
                    // A stale write is refused; a fresh one is alone.
                    let _ = file.with(guard.fence(), |n| *n += 1);
                    if round % 3 == 0 {
                        let _ = guard.renew(Duration::from_micros(20)).wait();
                    }
                    match guard.release().wait() {
                        Ok(()) => kept.fetch_add(1, SeqCst),
                        Err(_) => lost.fetch_add(1, SeqCst),
                    };
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..rounds {
                locks.force_release(&1).wait().unwrap();
                thread::yield_now();
            }
        });
    });
    assert_eq!(kept.into_inner() + lost.into_inner(), 3 * usize::try_from(rounds).unwrap());
    // What the timers had begun to say is said.
    until(|| locks.is_empty());
}

/// Of one hold, either its release says that it was held until then, or a force that it took it.
#[test]
fn released_or_forced_and_never_both() {
    let rounds = size(5_000, 50_000);
    let (locks, over) = (Locks::new(), AtomicUsize::new(0));
    let counts = [const { AtomicUsize::new(0) }; 3];
    let [kept, lost, forced] = &counts;
    let count = |released: Result<(), ReleaseError>| match released {
        Ok(()) => kept.fetch_add(1, SeqCst),
        Err(_) => lost.fetch_add(1, SeqCst),
    };
    thread::scope(|scope| {
        for me in 0..3 {
            let (locks, over) = (&locks, &over);
            scope.spawn(move || {
                for round in 0..rounds {
                    let owner = Owner::new();
                    match (me + round) % 3 {
                        0 => _ = count(locks.lock(1).wait().unwrap().release().wait()),
                        1 => {
                            let guard = locks.lock_as(&owner, 1, Limits::NONE).wait().unwrap();
                            count(guard.release().wait());
                        }
                        _ => {
                            // The last of two decides; without the first, it may be a hold anew.
                            let first = locks.lock_as(&owner, 1, Limits::NONE).wait().unwrap();
                            let second = locks.lock_as(&owner, 1, Limits::NONE).wait().unwrap();
                            if first.fence() == second.fence() {
                                drop(first);
                            } else {
                                count(first.release().wait());
                            }
                            count(second.release().wait());
                        }
                    }
                }
                over.fetch_add(1, SeqCst);
            });
        }
        scope.spawn(|| {
            while over.load(SeqCst) < 3 {
                forced.fetch_add(usize::from(locks.force_release(&1).wait().unwrap()), SeqCst);
            }
        });
    });
    let [kept, lost, forced] = counts.map(AtomicUsize::into_inner);
    assert_eq!(lost, forced, "{kept} were given back");
    assert!(kept + lost >= 3 * rounds);
    assert!(locks.is_empty());
}

/// A guard is asked by the waker of the next holder, in the turn of the lock, and by another thread
/// that the waker waits for: neither needs a turn.
#[test]
fn a_guard_is_asked_inside_of_a_turn_of_its_lock() {
    must_end(|| {
        let locks = Locks::new();
        let guard = Arc::new(locks.lock(1).wait().unwrap());
        let mut next = locks.lock(1);
        let (asks, answers) = (mpsc::channel(), mpsc::channel());
        let ((ask, asked), (answer, answered)) = (asks, answers);
        let other = guard.clone();
        let asker = thread::spawn(move || {
            asked.recv().unwrap();
            answer.send(other.is_lost()).unwrap();
        });
        let (own, told) = (guard.clone(), mpsc::channel());
        let (tell, told) = told;
        let answered = Mutex::new(answered);
        let wakes = Wakes::calling(move || {
            ask.send(()).unwrap();
            let theirs = answered.lock().unwrap().recv().unwrap();
            tell.send((theirs, own.is_lost())).unwrap();
        });
        assert!(poll(&mut next, &wakes.waker()).is_none());
        assert!(locks.force_release(&1).wait().unwrap());
        assert_eq!(told.recv().unwrap(), (true, true), "it was taken away");
        asker.join().unwrap();
        assert!(guard.is_lost());
        drop((next, guard));
        drop(wakes);
        assert!(locks.is_empty());
    });
}

#[test]
fn a_long_chain_of_wakers_that_give_back_fits_on_the_stack() {
    must_end(|| {
        const LINKS: usize = 20_000;
        let locks = Locks::new();
        let woken = Arc::new(AtomicUsize::new(0));
        let mut waiting = Vec::new();
        // What waits for a lock gives the next one back when it is woken, inside that turn.
        let mut next = None;
        for link in (0..LINKS).rev() {
            let held = locks.lock(link).wait().unwrap();
            let (given, woken) = (Mutex::new(next.take()), woken.clone());
            let wakes = Wakes::calling(move || {
                let given = given.lock().unwrap().take();
                drop(given);
                woken.fetch_add(1, SeqCst);
            });
            let mut acquire = locks.lock(link);
            assert!(poll(&mut acquire, &wakes.waker()).is_none());
            waiting.push(acquire);
            next = Some(held);
        }
        drop(next);
        until(|| woken.load(SeqCst) == LINKS);
        waiting.into_iter().for_each(|acquire| drop(acquire.wait().unwrap()));
        assert!(locks.is_empty());
    });
}

#[test]
fn keys_that_are_used_are_listed() {
    let locks = Locks::new();
    let lease = Limits::NONE.lease(3600 * SECOND);
    let held = [locks.lock_within(1, Limits::NONE), locks.lock_within(2, lease)];
    let held = held.map(|request| request.wait().unwrap());
    let waits = locks.lock(2);
    let mut keys = locks.keys();
    keys.sort_unstable();
    assert_eq!(keys, [1, 2]);
    drop((held, waits));
    assert_eq!(locks.keys(), [0; 0]);
}

#[test]
fn owners_and_readers_ask_for_several() {
    let (locks, me) = (Locks::new(), Owner::new());
    let inner = locks.lock_as(&me, "b", Limits::NONE).wait().unwrap();
    let all = locks.lock_all_as(&me, ["c", "a", "b"], Limits::wait(SECOND)).wait().unwrap();
    assert_eq!(all[1].fence(), inner.fence());
    assert!(
        locks.lock_all_as(&Owner::new(), ["d", "c"], Limits::wait(Duration::ZERO)).wait().is_err()
    );
    assert!(!locks.is_locked("d") && !all.iter().any(Guard::is_lost));
    assert!(all.into_iter().all(|guard| guard.release().wait().is_ok()));
    assert_eq!((locks.len(), locks.is_locked("b")), (1, true));

    let rw = RwLocks::new();
    let reads = rw.lock_all(["a", "b"], [], Limits::NONE).wait().unwrap();
    assert_eq!(
        rw.lock_all(["a"], ["b"], Limits::wait(Duration::ZERO)).wait().unwrap_err(),
        LockError::Busy { key: None }
    );
    let mut mixed = rw.lock_all(["a", "b"], ["b", "c"], Limits::NONE.lease(SECOND));
    assert!(poll(&mut mixed, &Wakes::new().waker()).is_none());
    drop(reads);
    let mixed = mixed.wait().unwrap();
    assert!(rw.try_read("a").is_ok() && rw.try_read("b").is_err() && rw.try_read("c").is_err());
    let each: Vec<_> = mixed;
    assert!(matches!(each[..], [RwGuard::Read(_), RwGuard::Write(_), RwGuard::Write(_)]));
    drop(each);
    assert!(rw.is_empty());

    let reader = rw.read_as(&me, "a", Limits::NONE).wait().unwrap();
    let refused = rw.lock_all_as(&me, [], ["a"], Limits::NONE).wait();
    assert!(matches!(refused, Err(LockError::Deadlock { .. })));
    drop(reader);
}

#[test]
fn a_fenced_use_is_awaited() {
    let (old, new) = (Fence::from_number(1), Fence::from_number(2));
    let file = Fenced::new(String::new());
    let waker = Wakes::new().waker();
    let used = &mut pin!(file.with_async(new, |text| text.push('a')));
    assert_eq!(poll(used, &waker), Some(Ok(())));
    let late = &mut pin!(file.with_async(old, |text| text.push('b')));
    assert_eq!(poll(late, &waker), Some(Err(FencedError::Stale { newest: new })));
    let panics = &mut pin!(file.with_async(new, |_| panic!("used")));
    assert!(catch_unwind(AssertUnwindSafe(|| poll(panics, &waker).is_some())).is_err());

    // Inside another use it is refused, and never runs.
    let same = file.clone();
    let mut other = Box::pin(async move { same.with_async(new, |text| text.push('c')).await });
    let inside = file.with(new, |text| {
        text.push('d');
        poll(&mut other, &waker)
    });
    assert!(matches!(inside, Ok(Some(Err(FencedError::Refused(_))))));
    drop(other);
    assert_eq!(file.with(new, |text| text.clone()).unwrap(), "ad");
}

/// One that is not decided in its call, as it comes inside a turn of its lock, is not over before
/// it holds.
#[test]
fn one_that_waits_is_not_ready_wherever_it_was_made() {
    must_end(|| {
        let locks = Locks::new();
        let first = locks.lock(1).wait().unwrap();
        let mut second = locks.lock(1);
        let (tell, told) = mpsc::channel();
        let inside = locks.clone();
        let wakes = Wakes::calling(move || tell.send(inside.lock(1)).unwrap());
        assert!(poll(&mut second, &wakes.waker()).is_none());
        drop(first);
        let third = told.recv().unwrap();
        until(|| locks.info(&1).wait().unwrap().unwrap().waiting == 1);
        assert!(!third.is_ready());
        drop(second);
        until(|| third.is_ready());
        assert!(third.wait().is_ok());
    });
}

/// A look does not wait for the timer: what is over cannot be taken away, and the next one is not.
#[test]
fn a_hold_that_is_over_is_not_forced() {
    let (clock, _timers, locks) = by_hand();
    let old = locks.lock_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
    let next = locks.lock(1);
    clock.advance(SECOND);
    assert!(!locks.force_release(&1).wait().unwrap());
    let next = next.wait().unwrap();
    assert!(old.is_lost() && !next.is_lost());
    assert!(locks.force_release(&1).wait().unwrap() && next.is_lost());
    assert!(!locks.force_release(&1).wait().unwrap());
}

/// The guard of a hold that was lost holds nothing.
#[test]
fn a_lock_that_was_lost_is_not_used() {
    let (clock, _timers, locks) = by_hand();
    for forced in [true, false] {
        let guard = locks.lock_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
        assert!(locks.is_locked(&1));
        match forced {
            true => assert!(locks.force_release(&1).wait().unwrap()),
            false => clock.advance(SECOND),
        }
        assert!(!locks.is_locked(&1));
        assert_eq!(locks.info(&1).wait().unwrap(), None);
        let next = locks.try_lock(1).unwrap();
        drop(guard);
        assert!(locks.is_locked(&1));
        drop(next);
        assert!(locks.is_empty());
    }
}

/// The wait of several is one: it is over for all of them at once.
#[test]
fn several_that_come_too_late_have_timed_out() {
    let (clock, _timers, locks) = by_hand();
    let wakes = Wakes::new();
    for late in [Duration::ZERO, SECOND] {
        let (one, _two) = (locks.lock(1).wait().unwrap(), locks.lock(2).wait().unwrap());
        let mut all = locks.lock_all([1, 2], Limits::wait(3 * SECOND));
        assert!(poll(&mut all, &wakes.waker()).is_none());
        clock.advance(2 * SECOND + late);
        drop(one);
        if late.is_zero() {
            assert!(poll(&mut all, &wakes.waker()).is_none());
        }
        clock.advance(SECOND);
        let outcome = poll(&mut all, &wakes.waker()).unwrap();
        let waited = 3 * SECOND + late;
        assert_eq!(outcome.unwrap_err(), LockError::TimedOut { waited, key: None });
        assert!(!locks.is_locked(&1));
    }
}

#[test]
fn several_are_refused_early_at_each_of_them() {
    let (clock, _timers, locks) = by_hand();
    let hasty = Limits::wait(3 * SECOND).refuse_early();
    let held = locks.lock_within(2, hasty.lease(100 * SECOND)).wait().unwrap();
    drop(locks.lock_within(2, hasty));
    clock.advance(10 * SECOND);
    drop(held);
    let _held = locks.lock_within(2, hasty).wait().unwrap();
    let wakes = Wakes::new();
    let refused = poll(&mut locks.lock_all([1, 2], hasty), &wakes.waker());
    let wait = 10 * SECOND;
    assert_eq!(refused.unwrap().unwrap_err(), LockError::Expected { wait, key: None });
}

/// A lease goes on after the close, and its end is reported.
#[test]
fn closed_locks_tell_of_the_end_of_a_lease() {
    must_end(|| {
        for renewed in [false, true] {
            let (clock, timers, locks) = by_hand();
            let guard = match renewed {
                false => locks.lock_within(1, Limits::NONE.lease(SECOND)).wait().unwrap(),
                true => locks.lock(1).wait().unwrap(),
            };
            let waiting = locks.lock(1);
            let (mut lost, wakes) = (guard.lost(), Wakes::new());
            assert!(poll(&mut lost, &wakes.waker()).is_none());
            locks.close();
            assert_eq!(waiting.wait().unwrap_err(), LockError::Closed);
            if renewed {
                guard.renew(SECOND).wait().unwrap();
            }
            clock.advance(SECOND);
            timers.run_due();
            until(|| wakes.count() == 1);
            assert!(poll(&mut lost, &wakes.waker()).is_some());
            assert!(guard.release().wait().is_err() && locks.is_empty());
        }
    });
}
