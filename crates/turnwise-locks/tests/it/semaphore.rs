//! Permits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use crate::common::{Wakes, must_end, poll, until};
use turnwise::VirtualClock;
use turnwise::time::Timers;
use turnwise_locks::{Limits, LockError, Semaphore};

const SECOND: Duration = Duration::from_secs(1);

fn by_hand(permits: u64) -> (VirtualClock, Timers, Semaphore) {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let permits = Semaphore::builder(permits).timers(timers.clone()).build();
    (clock, timers, permits)
}

fn available(permits: &Semaphore) -> u64 {
    permits.info().wait().unwrap().available
}

#[test]
fn never_more_than_there_are() {
    must_end(|| {
        let permits = Semaphore::new(8);
        let (inside, most) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..64 {
                let (permits, inside, most) = (&permits, &inside, &most);
                scope.spawn(move || {
                    for round in 0..30 {
                        let many = (number + round) % 8 + 1;
                        let held = permits.acquire_within(many, Limits::NONE).wait().unwrap();
                        let now = inside.fetch_add(many, SeqCst) + many;
                        most.fetch_max(now, SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(many, SeqCst);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 8);
        assert_eq!(available(&permits), 8);
    });
}

#[test]
fn the_large_is_not_overtaken() {
    let permits = Semaphore::new(3);
    let mut held: Vec<_> = (0..3).map(|_| permits.try_acquire(1).unwrap()).collect();
    let mut large = permits.acquire_within(3, Limits::NONE);
    let small = permits.acquire();
    for _ in 0..2 {
        drop(held.pop());
        assert!(!large.is_ready() && !small.is_ready());
        assert!(matches!(permits.try_acquire(1), Err(LockError::Busy { .. })));
        assert!(matches!(permits.drain(), Err(LockError::Busy { .. })));
    }
    drop(held);
    let all = poll(&mut large, Waker::noop()).unwrap().unwrap();
    assert!(!small.is_ready());
    drop(all);
    assert!(small.wait().is_ok());
}

#[test]
fn the_large_gives_up_and_the_small_come_in() {
    for by_time in [false, true] {
        let (clock, _timers, permits) = by_hand(3);
        let held = permits.try_acquire(1).unwrap();
        let mut large = permits.acquire_within(3, Limits::wait(SECOND));
        let small = [permits.acquire(), permits.acquire(), permits.acquire()];
        assert!(poll(&mut large, Waker::noop()).is_none());
        assert!(small.iter().all(|small| !small.is_ready()));
        if by_time {
            clock.advance(SECOND);
            assert!(poll(&mut large, Waker::noop()).unwrap().is_err());
        } else {
            drop(large);
        }
        assert_eq!(small.each_ref().map(|small| small.is_ready()), [true, true, false]);
        drop(held);
        assert!(small[2].is_ready());
    }
}

#[test]
fn a_late_release_changes_nothing() {
    let (clock, timers, permits) = by_hand(2);
    let lease = Limits::NONE.lease(SECOND);
    let old = permits.acquire_within(2, lease).wait().unwrap();
    let waiting = permits.acquire();
    clock.advance(SECOND);
    timers.run_due();
    let new = waiting.wait().unwrap();
    assert!(old.is_lost() && old.renew(SECOND).wait().is_err());
    assert_eq!(available(&permits), 1);
    assert!(old.release().wait().is_err());
    assert_eq!(available(&permits), 1);
    assert!(new.renew(SECOND).wait().is_ok() && new.release().wait().is_ok());
    assert_eq!(available(&permits), 2);
    // The timer of the semaphore finds nothing, and is armed no more.
    clock.advance(SECOND);
    timers.run_due();
    assert!(timers.is_empty());
}

/// A permit without other requests is on no list; one that is to have a lease is.
#[test]
fn what_was_lent_gets_a_lease() {
    let (clock, timers, permits) = by_hand(2);
    let (old, other) = (permits.try_acquire(1).unwrap(), permits.try_acquire(1).unwrap());
    let waiting = permits.acquire();
    assert_eq!((old.remaining(), old.is_lost()), (None, false));
    old.renew(SECOND).wait().unwrap();
    let mut lost = old.lost();
    assert!(poll(&mut lost, Waker::noop()).is_none());
    assert_eq!(old.remaining(), Some(SECOND));
    clock.advance(SECOND);
    timers.run_due();
    until(|| waiting.is_ready());
    let new = waiting.wait().unwrap();
    assert!(poll(&mut lost, Waker::noop()).is_some());
    assert!(old.is_lost() && !other.is_lost() && new.fence() > other.fence());
    assert!(old.renew(SECOND).wait().is_err() && old.release().wait().is_err());
    assert_eq!(available(&permits), 0);
    assert!(new.release().wait().is_ok() && other.release().wait().is_ok());
    assert_eq!(available(&permits), 2);
    assert!(timers.is_empty());
}

#[test]
fn several_that_are_lent_are_one_hold() {
    let (clock, timers, permits) = by_hand(5);
    let (two, three) = (permits.try_acquire(2).unwrap(), permits.try_acquire(3).unwrap());
    assert_eq!(available(&permits), 0);
    let waiting = permits.acquire_within(4, Limits::NONE);
    drop(three);
    assert!(!waiting.is_ready());
    assert_eq!(available(&permits), 3);
    two.renew(SECOND).wait().unwrap();
    assert_eq!(available(&permits), 3);
    clock.advance(SECOND);
    timers.run_due();
    assert!(two.is_lost() && waiting.wait().is_ok());
    drop(two);
    assert_eq!(available(&permits), 5);
    assert_eq!(permits.try_acquire(6).unwrap_err(), LockError::TooMany { permits: 5 });
    drop(permits.try_acquire(5).unwrap());
}

/// Those that are lent, those of a hold, and those of one that has waited.
#[test]
fn what_is_known_counts_all_kinds() {
    let permits = Semaphore::new(4);
    let known = || {
        let info = permits.info().wait().unwrap();
        (info.permits, info.available, info.waiting)
    };
    let lent = permits.try_acquire(1).unwrap();
    assert_eq!(known(), (4, 3, 0));
    let two = permits.try_acquire(2).unwrap();
    assert_eq!(known(), (4, 1, 0));
    let all = permits.acquire_within(4, Limits::NONE);
    let asked = permits.acquire();
    assert_eq!(known(), (4, 1, 2));
    drop(lent);
    assert_eq!(known(), (4, 2, 2));
    drop(all);
    assert!(asked.is_ready());
    assert_eq!(known(), (4, 1, 0));
    drop((two, asked));
    assert_eq!(known(), (4, 4, 0));
}

#[test]
fn permits_come_and_go() {
    let permits = Semaphore::new(3);
    let two = permits.try_acquire(2).unwrap();
    let three = permits.acquire_within(3, Limits::NONE);
    let one = permits.acquire();
    // Below what is held: the rest goes as it comes back.
    permits.reduce(2);
    assert_eq!(three.wait().unwrap_err(), LockError::TooMany { permits: 1 });
    assert_eq!((available(&permits), permits.info().wait().unwrap().waiting), (0, 1));
    assert!(!one.is_ready());
    drop(two);
    let one = one.wait().unwrap();
    let many = permits.acquire_within(5, Limits::NONE);
    assert_eq!(many.wait().unwrap_err(), LockError::TooMany { permits: 1 });
    permits.add(4);
    let five = permits.acquire_within(5, Limits::NONE);
    drop(one);
    assert!(five.wait().is_ok());
    permits.reduce(u64::MAX);
    assert!(matches!(permits.try_acquire(1), Err(LockError::Busy { .. })));
    assert_eq!(permits.try_acquire(2).unwrap_err(), LockError::TooMany { permits: 0 });
    permits.add(u64::MAX);
    permits.add(1);
    assert_eq!(permits.try_acquire(u64::MAX).map(drop), Ok(()));
}

#[test]
#[should_panic(expected = "at least one permit")]
fn a_request_for_no_permits_is_refused() {
    let _ = Semaphore::new(1).try_acquire(0);
}

#[test]
fn of_nothing_there_is_nothing() {
    let permits = Semaphore::new(0);
    let two = permits.acquire_within(2, Limits::NONE);
    assert_eq!(two.wait().unwrap_err(), LockError::TooMany { permits: 0 });
    assert!(matches!(permits.try_acquire(1), Err(LockError::Busy { .. })));
    assert!(matches!(permits.drain(), Err(LockError::Busy { .. })));
    permits.add(1);
    assert!(permits.try_acquire(1).is_ok());
}

#[test]
fn drained_nothing_is_left() {
    let permits = Semaphore::new(5);
    let one = permits.try_acquire(1).unwrap();
    let rest = permits.drain().unwrap();
    assert!(matches!(permits.drain(), Err(LockError::Busy { .. })));
    drop(one);
    assert_eq!(available(&permits), 1);
    drop(rest);
    assert_eq!(available(&permits), 5);
}

#[test]
fn closed_it_tells_those_that_wait() {
    let permits = Semaphore::new(1);
    let held = permits.try_acquire(1).unwrap();
    let waiting = permits.acquire();
    permits.close();
    assert_eq!(waiting.wait().unwrap_err(), LockError::Closed);
    assert_eq!(permits.try_acquire(1).unwrap_err(), LockError::Closed);
    assert_eq!(permits.drain().unwrap_err(), LockError::Closed);
    assert!(permits.info().wait().is_err());
    assert!(held.release().wait().is_ok());
}

#[test]
fn a_hundred_waits_end_from_outside() {
    must_end(|| {
        let permits = Semaphore::new(1);
        let held = permits.try_acquire(1).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.unwrap().block_on(async {
            let started = Arc::new(AtomicUsize::new(0));
            let wait = |_| {
                let (permits, started) = (permits.clone(), started.clone());
                tokio::spawn(async move {
                    let acquire = permits.acquire();
                    started.fetch_add(1, SeqCst);
                    acquire.await.map(drop)
                })
            };
            let tasks: Vec<_> = (0..100).map(wait).collect();
            while started.load(SeqCst) < 100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(permits.info().wait().unwrap().waiting, 100);
            tasks.iter().for_each(|task| task.abort());
            for task in tasks {
                assert!(task.await.unwrap_err().is_cancelled());
            }
            assert_eq!(permits.info().wait().unwrap().waiting, 0);
            drop(held);
            assert!(permits.acquire().await.is_ok());
        });
        assert_eq!(available(&permits), 1);
    });
}

/// The processor time that this process has used.
#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit(')').next().unwrap();
    let ticks = after.split_whitespace().skip(11).take(2).map(|t| t.parse::<u64>().unwrap());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Run alone, since it looks at the whole process:
/// `cargo test -p turnwise-locks --test it semaphore:: -- --ignored`.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "looks at the whole process, so it is run alone"]
fn a_thousand_waiters_use_no_processor() {
    must_end(|| {
        let permits = Semaphore::new(1);
        let held = permits.try_acquire(1).unwrap();
        let waiters: Vec<_> = (0..1_000)
            .map(|number| {
                let limits = match number % 2 {
                    0 => Limits::NONE,
                    _ => Limits::wait(600 * SECOND),
                };
                let acquire = permits.acquire_within(1, limits);
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn(move || acquire.wait().map(drop))
                    .unwrap()
            })
            .collect();
        until(|| permits.info().wait().unwrap().waiting == 1_000);
        thread::sleep(SECOND);
        let before = processor_time();
        thread::sleep(SECOND);
        let used = processor_time() - before;
        println!("1,000 waiters for a second: {used:?}");
        assert!(used < SECOND / 2, "{used:?}");
        drop(held);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
    });
}

/// Parts of a hold are holds of their own, whether the machine knows of it or not.
#[test]
fn permits_are_divided_and_put_together() {
    let lease = Limits::NONE.lease(Duration::from_secs(60));
    for limits in [Limits::NONE, lease] {
        let permits = Semaphore::new(4);
        let mut four = permits.acquire_within(4, limits).wait().unwrap();
        assert!(four.split(0).is_none() && four.split(4).is_none() && four.split(5).is_none());
        let mut two = four.split(2).unwrap();
        assert!(two.fence() > four.fence());
        assert_eq!(two.remaining().is_some(), limits != Limits::NONE);
        let one = two.split(1).unwrap();
        assert_eq!((four.permits(), two.permits(), one.permits()), (2, 1, 1));
        assert_eq!((permits.available(), available(&permits)), (0, 0));
        drop(one);
        assert_eq!(available(&permits), 1);
        two.merge(four).unwrap();
        assert_eq!((two.permits(), available(&permits)), (3, 1));
        drop(two);
        assert_eq!((permits.available(), available(&permits)), (4, 4));
    }
}

/// Of two kinds of holds one can take the other in.
#[test]
fn permits_with_and_without_a_lease_are_put_together() {
    let lease = Limits::NONE.lease(Duration::from_secs(60));
    for first in [Limits::NONE, lease] {
        for second in [Limits::NONE, lease] {
            let permits = Semaphore::new(3);
            let mut held = permits.acquire_within(2, first).wait().unwrap();
            held.merge(permits.acquire_within(1, second).wait().unwrap()).unwrap();
            assert_eq!((held.permits(), available(&permits)), (3, 0));
            assert_eq!(held.remaining().is_some(), first != Limits::NONE);
            held.release().wait().unwrap();
            assert_eq!(available(&permits), 3);
        }
    }
}

/// A lost permit is neither divided nor put together, and takes nothing along.
#[test]
fn lost_permits_are_not_divided() {
    let clock = VirtualClock::new();
    let permits = Semaphore::builder(4).clock(clock.clone()).build();
    let lease = Limits::NONE.lease(Duration::from_secs(1));
    let mut lost = permits.acquire_within(2, lease).wait().unwrap();
    let mut kept = permits.try_acquire(2).unwrap();
    let mut part = lost.split(1).unwrap();
    clock.advance(Duration::from_secs(1));
    assert!(part.is_lost() && part.split(1).is_none());
    assert!(lost.split(1).is_none());
    let lost = kept.merge(lost).unwrap_err();
    assert!(part.merge(kept.split(1).unwrap()).is_err());
    assert_eq!(kept.permits(), 1);
    lost.forget();
    part.forget();
    assert_eq!((permits.info().wait().unwrap().permits, available(&permits)), (4, 3));
    drop(kept);
    assert_eq!(available(&permits), 4);
}

/// A lease that ends between the call and its turn takes nothing from what was put together: the
/// turn of a request comes in between, which takes away what is overdue.
#[test]
fn permits_are_put_together_before_the_end_of_a_lease() {
    must_end(|| {
        for is_split in [false, true] {
            let (clock, _timers, permits) = by_hand(4);
            let hold = |number, lease| {
                permits.acquire_within(number, Limits::NONE.lease(lease)).wait().unwrap()
            };
            let both = Mutex::new(Some((hold(1, 60 * SECOND), hold(2, SECOND))));
            let last = permits.try_acquire(1).unwrap();
            let (tell, told) = mpsc::channel();
            let seats = permits.clone();
            // In a turn of the semaphore: the turns of these calls come after it.
            let wakes = Wakes::calling(move || {
                let Some((mut held, mut other)) = both.lock().unwrap().take() else { return };
                let all = seats.acquire_within(4, Limits::NONE);
                let rest = match is_split {
                    true => {
                        held.merge(other.split(1).unwrap()).unwrap();
                        Some(other)
                    }
                    false => {
                        held.merge(other).unwrap();
                        None
                    }
                };
                clock.advance(SECOND);
                tell.send((held, rest, all)).unwrap();
            });
            let mut next = permits.acquire();
            assert!(poll(&mut next, &wakes.waker()).is_none());
            drop(last);
            let (mut held, rest, all) = told.recv().unwrap();
            assert!(rest.is_none_or(|rest| rest.is_lost()));
            assert_eq!(held.permits() + available(&permits), 3);
            assert_eq!(held.permits(), if is_split { 2 } else { 3 });
            drop(held.split(held.permits() - 1).unwrap());
            assert_eq!(available(&permits), 2);
            drop((next, held));
            assert_eq!(all.wait().unwrap().permits(), 4);
        }
    });
}

/// Forgotten permits are gone, and with them what only they could have met.
#[test]
fn forgotten_permits_are_gone() {
    let lease = Limits::NONE.lease(Duration::from_secs(60));
    for limits in [Limits::NONE, lease] {
        let permits = Semaphore::new(3);
        let two = permits.acquire_within(2, limits).wait().unwrap();
        let all = permits.acquire_within(3, Limits::NONE);
        let one = permits.acquire();
        two.forget();
        assert_eq!(all.wait().unwrap_err(), LockError::TooMany { permits: 1 });
        drop(one.wait().unwrap());
        assert_eq!((permits.info().wait().unwrap().permits, available(&permits)), (1, 1));
    }
}

/// A semaphore without permits is a signal.
#[test]
fn a_permit_that_is_added_lets_one_in() {
    let signal = Semaphore::new(0);
    let (one, two) = (signal.acquire(), signal.acquire());
    signal.add(1);
    let held = one.wait().unwrap();
    assert!(!two.is_ready());
    held.forget();
    assert!(!two.is_ready());
    signal.add(1);
    two.wait().unwrap().forget();
    assert_eq!((signal.available(), signal.info().wait().unwrap().permits), (0, 0));
}

/// More permits than the word of those that come without a turn can count.
#[test]
fn many_permits_come_and_go() {
    const MANY: u64 = 100_000;
    let permits = Semaphore::new(MANY);
    assert_eq!((permits.available(), available(&permits)), (MANY, MANY));
    let held: Vec<_> = (0..MANY).map(|_| permits.try_acquire(1).unwrap()).collect();
    assert!(held.is_sorted_by_key(|held| held.fence()));
    assert!(matches!(permits.try_acquire(1), Err(LockError::Busy { .. })));
    let next = permits.acquire();
    drop(held);
    drop(next.wait().unwrap());
    assert_eq!((permits.available(), available(&permits)), (MANY, MANY));
    assert_eq!(permits.try_acquire(MANY).unwrap().permits(), MANY);
}

/// More may be forgotten than is left of a semaphore that was reduced meanwhile: it has none then.
#[test]
fn permits_are_forgotten_that_were_taken_away() {
    let lease = Limits::NONE.lease(Duration::from_secs(60));
    for limits in [Limits::NONE, lease] {
        let permits = Semaphore::new(3);
        let all = permits.acquire_within(3, limits).wait().unwrap();
        permits.reduce(2);
        all.forget();
        assert_eq!((permits.info().wait().unwrap().permits, permits.available()), (0, 0));
        permits.add(1);
        assert_eq!((permits.available(), available(&permits)), (1, 1));
    }
}

/// Permits that come by turns only are there as well; those of a closed semaphore are not.
#[test]
fn available_permits_are_those_that_a_request_would_get() {
    let permits = Semaphore::new(2);
    let one = permits.try_acquire(1).unwrap();
    let early = Limits::wait(SECOND).refuse_early();
    let other = permits.acquire_within(1, early).wait().unwrap();
    assert_eq!(permits.available(), 0);
    drop(other);
    assert_eq!(permits.available(), 1);
    let both = permits.acquire_within(2, early);
    assert_eq!((permits.available(), available(&permits)), (0, 1));
    drop(both);
    drop(one);
    assert_eq!(permits.available(), 2);
    permits.close();
    assert_eq!(permits.available(), 0);
}

#[test]
fn closed_it_tells_of_the_end_of_a_lease() {
    must_end(|| {
        let (clock, timers, permits) = by_hand(2);
        let lent = permits.try_acquire(1).unwrap();
        let leased = permits.acquire_within(1, Limits::NONE.lease(SECOND)).wait().unwrap();
        let wakes = Wakes::new();
        let mut lost = [lent.lost(), leased.lost()];
        assert!(lost.iter_mut().all(|lost| poll(lost, &wakes.waker()).is_none()));
        permits.close();
        lent.renew(SECOND).wait().unwrap();
        clock.advance(SECOND);
        timers.run_due();
        until(|| wakes.count() == 2);
        assert!(lost.iter_mut().all(|lost| poll(lost, &wakes.waker()).is_some()));
        assert_eq!(permits.try_acquire(1).unwrap_err(), LockError::Closed);
    });
}

/// As many holds end at a time as there are: one of five that wait behind ten waits for one end.
#[test]
fn who_waits_behind_many_permits_is_not_refused_in_vain() {
    let (clock, _timers, permits) = by_hand(10);
    let hasty = Limits::wait(15 * SECOND).refuse_early();
    let all = || (0..10).map(|_| permits.acquire_within(1, hasty).wait().unwrap());
    let held: Vec<_> = all().collect();
    drop(permits.acquire_within(1, hasty));
    clock.advance(10 * SECOND);
    drop(held);
    let held: Vec<_> = all().collect();
    let mut waiting: Vec<_> = (0..20).map(|_| permits.acquire_within(1, hasty)).collect();
    let late = waiting.split_off(10);
    for late in late {
        let wait = 20 * SECOND;
        assert_eq!(late.wait().unwrap_err(), LockError::Expected { wait, key: None });
    }
    clock.advance(10 * SECOND);
    drop(held);
    for waited in waiting {
        drop(waited.wait().unwrap());
    }
}

#[test]
fn what_is_overdue_is_gone_for_an_attempt_behind_others() {
    let (clock, _timers, seats) = by_hand(4);
    let two = seats.acquire_within(2, Limits::NONE.lease(SECOND)).wait().unwrap();
    let _one = seats.acquire().wait().unwrap();
    let waiting = seats.acquire_within(2, Limits::NONE);
    assert!(matches!(seats.try_acquire(1), Err(LockError::Busy { .. })));
    clock.advance(SECOND);
    // The timers have not run. There is room for those that wait, and for one more.
    assert!(seats.try_acquire(1).is_ok());
    assert!(waiting.is_ready() && two.is_lost());
}
