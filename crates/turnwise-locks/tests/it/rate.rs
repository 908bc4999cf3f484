//! Rates by key.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use turnwise::time::Timers;
use turnwise::{Actor, ThreadPool, VirtualClock};
use turnwise_locks::rate::{AcquireRate, Rate, RateError, RateLimits};

use crate::common::{Wakes, must_end, poll, until};

const SECOND: Duration = Duration::from_secs(1);

fn by_hand(rate: Rate) -> (VirtualClock, Timers, RateLimits<u32>) {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    (clock, timers.clone(), RateLimits::with_timers(rate, timers))
}

fn rate(permits: u32, per: Duration) -> Rate {
    Rate::new(permits, per).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// In no time more than a burst and what comes meanwhile; and no sooner is not later than that.
    #[test]
    fn no_time_has_more_than_its_share(
        permits in 1_u32..6,
        burst in 1_u32..6,
        steps in proptest::collection::vec((0_u64..400, 1_u32..4, 0_u64..3_000), 1..60),
    ) {
        let period = SECOND.div_ceil_by(permits);
        let (clock, _timers, limits) = by_hand(rate(permits, SECOND).burst(burst).unwrap());
        let mut now = Duration::ZERO;
        let (mut taken, mut waiting) = (Vec::new(), Vec::new());
        for (later, wanted, patience) in steps {
            let patience = Duration::from_millis(patience);
            clock.advance(Duration::from_millis(later));
            now += Duration::from_millis(later);
            let available = limits.available(&1);
            let mut asked = limits.acquire_within(1, wanted, patience);
            if wanted > burst {
                prop_assert_eq!(asked.wait(), Err(RateError::TooMany { burst }));
                continue;
            }
            prop_assert_eq!(asked.is_ready() && available >= wanted, available >= wanted);
            let mut at = now;
            match poll(&mut asked, &Wakes::new().waker()) {
                Some(Ok(())) => {}
                Some(Err(RateError::Expected { wait })) => {
                    prop_assert!(wait > patience);
                    // Not sooner, and then.
                    let early = limits.acquire_within(1, wanted, wait - Duration::from_nanos(1));
                    prop_assert_eq!(early.wait(), Err(RateError::Expected { wait }));
                    continue;
                }
                Some(other) => prop_assert!(false, "{:?}", other),
                None => {
                    let refused = limits.acquire_within(1, wanted, Duration::ZERO).wait();
                    let Err(RateError::Expected { wait }) = refused else { panic!("{refused:?}") };
                    at = now + wait - period * wanted;
                    prop_assert!(at <= now + patience);
                    waiting.push(asked);
                }
            }
            taken.extend((0..wanted).map(|_| at));
        }
        prop_assert!(taken.is_sorted());
        for (first, from) in taken.iter().enumerate() {
            for (last, to) in taken.iter().enumerate().skip(first) {
                let meanwhile = (*to - *from).as_nanos() / period.as_nanos();
                prop_assert!(((last - first) as u128) < u128::from(burst) + meanwhile);
            }
        }
        clock.advance(1_000 * SECOND);
        waiting.into_iter().for_each(|asked| asked.wait().unwrap());
    }
}

trait DivCeil {
    fn div_ceil_by(self, by: u32) -> Duration;
}

impl DivCeil for Duration {
    fn div_ceil_by(self, by: u32) -> Duration {
        Duration::from_nanos(u64::try_from(self.as_nanos().div_ceil(u128::from(by))).unwrap())
    }
}

#[test]
fn requests_go_in_the_order_of_the_calls() {
    let (clock, timers, limits) = by_hand(rate(1, SECOND));
    limits.try_acquire(1, 1).unwrap();
    let mut all: Vec<_> = (0..3).map(|_| limits.acquire(1)).collect();
    assert_eq!(limits.try_acquire(1, 1), Err(RateError::Expected { wait: 4 * SECOND }));
    limits.try_acquire(2, 1).unwrap();
    let wakes: Vec<_> = (0..3).map(|_| Wakes::new()).collect();
    for (asked, wakes) in all.iter_mut().zip(&wakes) {
        assert!(poll(asked, &wakes.waker()).is_none() && !asked.is_ready());
    }
    for turn in 0..3 {
        clock.advance(SECOND);
        timers.run_due();
        let woken: Vec<_> = wakes.iter().map(Wakes::count).collect();
        assert_eq!(woken, (0..3).map(|n| usize::from(n <= turn)).collect::<Vec<_>>());
        assert_eq!(poll(&mut all[turn], &wakes[turn].waker()), Some(Ok(())));
        assert_eq!(poll(&mut all[turn], &wakes[turn].waker()), Some(Err(RateError::Taken)));
    }
    assert!(timers.is_empty());
}

#[test]
fn what_is_given_up_last_is_given_back() {
    let (clock, timers, limits) = by_hand(rate(1, SECOND));
    limits.try_acquire(1, 1).unwrap();
    let (first, last) = (limits.acquire(1), limits.acquire(1));
    let mut polled = limits.acquire(1);
    assert!(poll(&mut polled, &Wakes::new().waker()).is_none());
    drop(polled);
    assert!(timers.is_empty());
    drop(last);
    assert_eq!(limits.try_acquire(1, 1), Err(RateError::Expected { wait: 2 * SECOND }));
    // Others came after it: their times stay.
    let next = limits.acquire(1);
    drop(first);
    assert_eq!(limits.try_acquire(1, 1), Err(RateError::Expected { wait: 3 * SECOND }));
    clock.advance(2 * SECOND);
    assert_eq!(next.wait(), Ok(()));
    // One whose time has come counts, whether it was looked at or not.
    clock.advance(SECOND);
    limits.try_acquire(1, 1).unwrap();
    let late = limits.acquire(1);
    clock.advance(SECOND);
    drop(late);
    assert_eq!(limits.available(&1), 0);
}

#[test]
fn threads_get_a_burst_and_no_more() {
    let (_clock, _timers, limits) = by_hand(rate(1_000, 1_000 * SECOND));
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    if limits.try_acquire(7, 1).is_ok() {
                        taken.fetch_add(1, SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!((taken.into_inner(), limits.available(&7)), (1_000, 0));
}

#[test]
fn keys_that_are_whole_again_are_forgotten() {
    let (clock, _timers, limits) = by_hand(rate(2, SECOND));
    for key in 0..10_000 {
        limits.try_acquire(key, 1).unwrap();
    }
    assert_eq!(limits.known(), 10_000);
    clock.advance(SECOND);
    for key in 20_000..40_000 {
        limits.try_acquire(key, 2).unwrap();
    }
    assert!(limits.known() < 25_000, "{}", limits.known());
    assert_eq!(limits.available(&5), 2);
}

#[test]
fn wrong_numbers_are_refused() {
    assert_eq!(Rate::new(0, SECOND), Err(RateError::Zero));
    assert_eq!(Rate::new(1, Duration::ZERO), Err(RateError::Zero));
    assert_eq!(rate(3, SECOND).burst(0), Err(RateError::Zero));
    let (_clock, _timers, limits) = by_hand(rate(3, SECOND));
    assert_eq!(limits.try_acquire(1, 0), Err(RateError::Zero));
    assert_eq!(limits.acquire_within(1, 4, SECOND).wait(), Err(RateError::TooMany { burst: 3 }));
    assert_eq!(limits.known(), 0);
    // Times that no clock shows.
    let (_clock, _timers, limits) = by_hand(rate(1, Duration::MAX));
    limits.try_acquire(1, 1).unwrap();
    assert!(matches!(limits.acquire(1).wait(), Err(RateError::Expected { .. })));
}

#[test]
fn a_wait_ends_by_the_clock_and_on_a_worker() {
    must_end(|| {
        let limits = RateLimits::new(rate(1_000, SECOND).burst(1).unwrap());
        for _ in 0..5 {
            limits.acquire("a").wait().unwrap();
        }
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let worker = Actor::builder().executor(pool.handle()).spawn(limits).unwrap();
        let waited = worker.with(|limits| {
            (0..3).map(|_| limits.acquire("a").wait()).collect::<Result<Vec<_>, _>>()
        });
        assert!(waited.unwrap().is_ok());
    });
}

/// Permits that never come are not said to be there now.
#[test]
fn once_for_ever_is_never_again() {
    let limits = RateLimits::new(Rate::new(1, Duration::MAX).unwrap());
    limits.try_acquire(1, 1).unwrap();
    let never = Err(RateError::Expected { wait: Duration::MAX });
    assert_eq!(limits.try_acquire(1, 1), never);
    assert_eq!(limits.acquire(1).wait(), never);
    assert_eq!(limits.available(&1), 0);
}

/// With times that no clock shows, too.
#[test]
fn a_permit_that_is_available_is_granted() {
    for (burst, per) in [(1, SECOND), (2, Duration::MAX), (3, Duration::MAX / 2), (3, 2 * SECOND)] {
        for passed in [Duration::ZERO, SECOND, Duration::MAX / 2, Duration::MAX] {
            let (clock, _timers, limits) = by_hand(rate(1, per).burst(burst).unwrap());
            clock.advance(passed);
            for left in (0..burst).rev() {
                assert_eq!(limits.try_acquire(1, 1), Ok(()), "{burst} in {per:?} at {passed:?}");
                assert_eq!(limits.available(&1), left);
            }
            assert!(matches!(limits.try_acquire(1, 1), Err(RateError::Expected { .. })));
            assert_eq!(limits.try_acquire(2, burst), Ok(()));
            assert_eq!((limits.available(&2), limits.available(&3)), (0, burst));
        }
    }
    let (_clock, _timers, limits) = by_hand(rate(u32::MAX, Duration::MAX));
    let slow = rate(1, Duration::MAX).burst(u32::MAX).unwrap();
    let (_clock, _timers, slowest) = by_hand(slow);
    for limits in [limits, slowest] {
        assert_eq!(limits.try_acquire(1, u32::MAX - 1), Ok(()));
        assert_eq!((limits.available(&1), limits.try_acquire(1, 1)), (1, Ok(())));
        assert_eq!(limits.available(&1), 0);
    }
}

/// The first `Eq` after a request was put there drops it.
#[derive(Clone)]
struct Ends(Arc<Mutex<Option<AcquireRate<Ends>>>>);

impl Hash for Ends {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Ends {
    fn eq(&self, _: &Self) -> bool {
        drop(self.0.lock().unwrap().take());
        true
    }
}

impl Eq for Ends {}

#[test]
fn a_request_that_is_dropped_inside_an_eq_gives_back() {
    must_end(|| {
        let timers = Timers::by_hand(VirtualClock::new());
        let limits = RateLimits::with_timers(rate(1, SECOND), timers);
        let key = Ends(Arc::default());
        limits.try_acquire(key.clone(), 1).unwrap();
        let waiting = limits.acquire(key.clone());
        *key.0.lock().unwrap() = Some(waiting);
        let wait = |wait| Err(RateError::Expected { wait });
        assert_eq!(limits.try_acquire(key.clone(), 1), wait(2 * SECOND));
        // A pool gives it back.
        until(|| limits.try_acquire(key.clone(), 1) == wait(SECOND));
    });
}
