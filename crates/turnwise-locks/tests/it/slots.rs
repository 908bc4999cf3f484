//! Slots: what a pool of them has to be.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use crate::common::{Wakes, must_end, poll, size, until};
use turnwise::time::Timers;
use turnwise::{Clock, VirtualClock};
use turnwise_locks::slots::{RunSlotError, SlotBuildError, SlotError, SlotPoolBuilder, SlotState};
use turnwise_locks::{Limits, LockError, Slot, SlotId, SlotPool};

const SECOND: Duration = Duration::from_secs(1);

fn by_hand() -> (VirtualClock, Timers) {
    let clock = VirtualClock::new();
    (clock.clone(), Timers::by_hand(clock))
}

fn id(index: usize) -> SlotId {
    SlotId::from_index(index).unwrap()
}

/// A number that follows no pattern.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// All slots can be had, by their numbers, and nothing is left of those that were here.
fn all_free<T: 'static, E: std::fmt::Debug + 'static>(pool: &SlotPool<T, E>, slots: usize) {
    let view = pool.view();
    assert_eq!((view.free, view.in_use, view.quarantined, view.waiting), (slots, 0, 0, 0));
    let all: Vec<_> = (0..slots).map(|_| pool.try_acquire().expect("it is free")).collect();
    assert!(all.iter().map(|slot| slot.id().index()).eq(0..slots));
    assert!(pool.try_acquire().is_err());
}

#[test]
fn i1_no_slot_has_two_users() {
    let rounds = size(300, 10_000);
    must_end(move || {
        let pool = SlotPool::new(8).unwrap();
        let used: [AtomicBool; 8] = Default::default();
        let fences: [AtomicU64; 8] = Default::default();
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let slot = pool.acquire(Limits::NONE).wait().unwrap();
                        let at = slot.id().index();
                        assert!(!used[at].swap(true, SeqCst), "two users");
                        let fence = slot.fence().number();
                        assert!(fences[at].swap(fence, SeqCst) < fence, "an older hold");
                        assert!(used[at].swap(false, SeqCst));
                        slot.finish().unwrap();
                    }
                });
            }
        });
        all_free(&pool, 8);
    });
}

#[test]
fn i2_all_slots_are_used_at_once() {
    must_end(|| {
        for slots in [1, 2, 3, 4, 8, 64, 65, 200] {
            let pool = SlotPool::new(slots).unwrap();
            let (all_in, ids) = (Barrier::new(slots), Mutex::new(BTreeSet::new()));
            thread::scope(|scope| {
                for _ in 0..slots {
                    scope.spawn(|| {
                        let run = pool.run(Limits::NONE, |slot| {
                            ids.lock().unwrap().insert(slot.id());
                            // All of them are in here, or this never ends.
                            all_in.wait();
                        });
                        run.unwrap();
                    });
                }
            });
            let ids = ids.into_inner().unwrap();
            assert!(ids.iter().map(|id| id.index()).eq(0..slots));
        }
    });
}

#[test]
fn i3_the_wait_is_time() {
    let (clock, timers) = by_hand();
    let pool = SlotPool::builder(1).timers(timers.clone()).build().unwrap();
    let slot = pool.try_acquire().unwrap();
    let wakes = Wakes::new();
    let mut late = pool.acquire(Limits::wait(SECOND));
    assert!(poll(&mut late, &wakes.waker()).is_none());
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(timers.run_due(), 0);
    assert!(poll(&mut late, &wakes.waker()).is_none());
    clock.advance(Duration::from_nanos(1));
    timers.run_due();
    assert!(wakes.count() > 0);
    let refused = poll(&mut late, Waker::noop()).unwrap().unwrap_err();
    assert_eq!(refused, SlotError::NotAcquired(LockError::TimedOut { waited: SECOND, key: None }));
    assert_eq!(refused.to_string(), "no slot was free in 1s");
    drop(slot);
    all_free(&pool, 1);
}

/// A pool that counts: set up = cleaned up.
#[derive(Clone, Default)]
struct Books {
    set_up: Arc<AtomicUsize>,
    cleaned: Arc<AtomicUsize>,
    without: Arc<AtomicUsize>,
}

impl Books {
    fn builder(&self, slots: usize) -> SlotPoolBuilder<u64, &'static str> {
        let (set_up, cleaned, without) =
            (self.set_up.clone(), self.cleaned.clone(), self.without.clone());
        let builder = SlotPool::builder(slots).set_up(move |_| {
            set_up.fetch_add(1, SeqCst);
            Ok(7)
        });
        builder.clean_up(move |_, value: Option<u64>| {
            cleaned.fetch_add(1, SeqCst);
            without.fetch_add(usize::from(value.is_none()), SeqCst);
            Ok(())
        })
    }

    fn balance(&self) {
        assert_eq!(self.set_up.load(SeqCst), self.cleaned.load(SeqCst));
    }
}

#[test]
fn i4_a_million_endings_leave_all_free() {
    let uses: usize = size(20_000, 1_000_000);
    must_end(move || {
        let books = Books::default();
        let pool = books.builder(8).build().unwrap();
        let (used, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..8 {
                let (pool, used, refused) = (&pool, &used, &refused);
                scope.spawn(move || {
                    let mut seed = thread;
                    for _ in 0..uses / 8 {
                        let many = match next(&mut seed) % 8 {
                            0 => usize::from(pool.run(Limits::NONE, |slot| **slot) == Ok(7)),
                            1 => pool
                                .acquire(Limits::NONE)
                                .wait()
                                .unwrap()
                                .finish()
                                .map_or(0, |()| 1),
                            2 => {
                                // Unwinds as a panic does, and prints nothing.
                                let job = |_: &mut Slot<_, _>| -> () {
                                    std::panic::resume_unwind(Box::new("planned"))
                                };
                                let run = AssertUnwindSafe(|| pool.run(Limits::NONE, job));
                                usize::from(catch_unwind(run).is_err())
                            }
                            3 => usize::from(pool.try_acquire().is_ok()),
                            4 => {
                                // One that gives up, whether it was let in or not.
                                drop(pool.acquire(Limits::NONE));
                                0
                            }
                            5 => {
                                let mut asked = pool.acquire(Limits::NONE);
                                let came = poll(&mut asked, Waker::noop());
                                usize::from(came.is_some_and(|slot| slot.is_ok()))
                            }
                            6 => {
                                let wait = Duration::from_micros(next(&mut seed) % 50);
                                usize::from(pool.acquire(Limits::wait(wait)).wait().is_ok())
                            }
                            _ => {
                                let slot = pool.acquire(Limits::NONE).wait().unwrap();
                                thread::scope(|other| drop(other.spawn(|| drop(slot))));
                                1
                            }
                        };
                        used.fetch_add(many, SeqCst);
                        refused.fetch_add(usize::from(many == 0), SeqCst);
                    }
                });
            }
        });
        assert_eq!(books.set_up.load(SeqCst), used.load(SeqCst));
        assert_eq!(used.load(SeqCst) + refused.load(SeqCst), uses / 8 * 8);
        books.balance();
        all_free(&pool, 8);
    });
}

#[test]
fn i4_tasks_that_are_aborted_leave_all_free() {
    must_end(|| {
        let books = Books::default();
        let pool = books.builder(4).build().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..2_000_usize)
                .map(|number| {
                    let pool = pool.clone();
                    let task = tokio::spawn(async move {
                        let slot = pool.acquire(Limits::NONE).await.unwrap();
                        tokio::task::yield_now().await;
                        assert_eq!(*slot, 7);
                        if number % 7 == 0 { drop(slot) } else { slot.finish().unwrap() }
                    });
                    if number % 3 == 0 {
                        task.abort();
                    }
                    task
                })
                .collect();
            for (number, task) in tasks.into_iter().enumerate() {
                let ended = task.await;
                assert!(ended.is_ok() || number % 3 == 0, "{ended:?}");
            }
        });
        drop(runtime);
        books.balance();
        all_free(&pool, 4);
    });
}

#[test]
fn i5_a_failed_set_up_gives_the_slot_back() {
    let cleaned = Arc::new(Mutex::new(Vec::new()));
    let seen = cleaned.clone();
    let works = Arc::new(AtomicBool::new(false));
    let set_up = works.clone();
    let pool = SlotPool::builder(3)
        .set_up(move |slot| if set_up.load(SeqCst) { Ok(()) } else { Err(slot.index()) })
        .clean_up(move |slot, value| {
            seen.lock().unwrap().push((slot.index(), value.is_some()));
            Ok(())
        })
        .build()
        .unwrap();
    for _ in 0..300 {
        assert_eq!(pool.try_acquire().unwrap_err(), SlotError::SetUp(0));
        let run = pool.run(Limits::NONE, |_| panic!("there is no slot"));
        assert_eq!(run.unwrap_err(), RunSlotError::<(), _>::NotStarted(SlotError::SetUp(0)));
    }
    assert_eq!(std::mem::take(&mut *cleaned.lock().unwrap()), vec![(0, false); 600]);
    works.store(true, SeqCst);
    all_free(&pool, 3);
    assert!(cleaned.lock().unwrap().iter().all(|(_, value)| *value));
}

#[test]
fn i5_a_set_up_that_panics_panics_there() {
    let cleaned = Arc::new(AtomicUsize::new(0));
    let (seen, panics) = (cleaned.clone(), Arc::new(AtomicBool::new(true)));
    let planned = panics.clone();
    let pool = SlotPool::builder(1)
        .set_up(move |_| {
            if planned.load(SeqCst) {
                std::panic::resume_unwind(Box::new("no device"));
            }
            Ok::<_, &str>(())
        })
        .clean_up(move |_, value| {
            assert!(value.is_none() || seen.load(SeqCst) == 3);
            seen.fetch_add(1, SeqCst);
            Ok(())
        })
        .build()
        .unwrap();
    for _ in 0..3 {
        let asked = catch_unwind(AssertUnwindSafe(|| pool.try_acquire()));
        assert_eq!(asked.unwrap_err().downcast_ref(), Some(&"no device"));
    }
    assert_eq!(cleaned.load(SeqCst), 3);
    panics.store(false, SeqCst);
    all_free(&pool, 1);
}

#[test]
fn i5_a_failed_clean_up_is_quarantined() {
    // What the clean-up does: nothing, fail, panic.
    let (mood, told) = (Arc::new(AtomicUsize::new(1)), Arc::new(Mutex::new(Vec::new())));
    let (its, hears) = (mood.clone(), told.clone());
    let pool = SlotPool::builder(2)
        .set_up(|_| Ok::<_, &str>(()))
        .clean_up(move |_, _| match its.load(SeqCst) {
            0 => Ok(()),
            1 => Err("dirty"),
            _ => std::panic::resume_unwind(Box::new("broken")),
        })
        .on_quarantine(move |slot, error| {
            hears.lock().unwrap().push((slot.index(), error.clone()));
            // Its own panics concern no caller.
            std::panic::resume_unwind(Box::new(()));
        })
        .build()
        .unwrap();
    let failed = SlotError::CleanUp("dirty");
    let finished = pool.try_acquire().unwrap().finish();
    assert_eq!(finished, Err(failed.clone()));
    assert_eq!(pool.view().quarantined, 1);
    let other = pool.try_acquire().unwrap();
    assert_eq!(other.id(), id(1));
    // None gets the dirty one, and a waiter gets it when it was repaired.
    let mut waits = pool.acquire(Limits::NONE);
    assert!(poll(&mut waits, Waker::noop()).is_none());
    mood.store(2, SeqCst);
    let broken = SlotError::CleanUpPanicked("broken".into());
    assert_eq!(pool.repair(id(0)), Err(broken.clone()));
    assert_eq!(pool.repair(id(1)), Err(SlotError::NotQuarantined));
    assert_eq!(pool.repair(id(9)), Err(SlotError::NotQuarantined));
    assert!(poll(&mut waits, Waker::noop()).is_none());
    mood.store(0, SeqCst);
    assert_eq!(pool.repair(id(0)), Ok(()));
    assert_eq!(pool.repair(id(0)), Err(SlotError::NotQuarantined));
    assert_eq!(poll(&mut waits, Waker::noop()).unwrap().unwrap().id(), id(0));
    // The job's value is not lost with the slot.
    mood.store(1, SeqCst);
    let run = pool.run(Limits::NONE, |_| 5);
    assert_eq!(run, Err(RunSlotError::CleanUp { value: 5, slot: id(0), error: failed.clone() }));
    mood.store(2, SeqCst);
    drop(other);
    let told_all = [(0, failed.clone()), (0, broken.clone()), (0, failed), (1, broken)];
    assert_eq!(*told.lock().unwrap(), told_all);
    mood.store(0, SeqCst);
    assert_eq!((pool.repair(id(0)), pool.repair(id(1))), (Ok(()), Ok(())));
    all_free(&pool, 2);
}

#[test]
fn i5_slots_are_cleaned_before_their_first_use() {
    let dirty = Arc::new(Mutex::new(BTreeSet::from([0, 1, 2, 3])));
    let (before, broken) = (dirty.clone(), Arc::new(AtomicBool::new(true)));
    let fails = broken.clone();
    let is_clean = dirty.clone();
    let pool = SlotPool::builder(2)
        .set_up(move |slot| {
            assert!(!is_clean.lock().unwrap().contains(&slot.index()), "dirty");
            Ok::<_, &str>(())
        })
        .clean_up(move |slot, _| {
            if slot.index() == 0 && fails.load(SeqCst) {
                return Err("stuck");
            }
            before.lock().unwrap().remove(&slot.index());
            Ok(())
        })
        .clean_first()
        .build()
        .unwrap();
    let stuck = SlotError::CleanUp("stuck");
    assert_eq!(pool.try_acquire().unwrap_err(), stuck);
    assert_eq!(pool.try_acquire().unwrap().id(), id(1));
    assert_eq!(*dirty.lock().unwrap(), BTreeSet::from([0, 2, 3]));
    broken.store(false, SeqCst);
    pool.repair(id(0)).unwrap();
    // The slots of a pool that grows, too.
    pool.resize(4).unwrap();
    all_free(&pool, 4);
    assert!(dirty.lock().unwrap().is_empty());
}

#[test]
fn i6_who_gives_up_disturbs_no_holder() {
    let (clock, timers) = by_hand();
    let books = Books::default();
    let pool = books.builder(1).timers(timers.clone()).build().unwrap();
    let slot = pool.try_acquire().unwrap();
    // Asked, polled, timed out, waited for: in each case nothing is cleaned or given back.
    drop(pool.acquire(Limits::NONE));
    let mut polled = pool.acquire(Limits::wait(SECOND));
    assert!(poll(&mut polled, Waker::noop()).is_none());
    drop(polled);
    let mut late = pool.acquire(Limits::wait(SECOND));
    clock.advance(SECOND);
    timers.run_due();
    assert!(poll(&mut late, Waker::noop()).unwrap().is_err());
    drop(late);
    assert!(pool.try_acquire().is_err());
    let asked = pool.acquire(Limits::NONE);
    assert_eq!(books.cleaned.load(SeqCst), 0);
    assert!(!slot.is_lost());
    // One that goes with the slot in its hands gives it on, and neither sets up nor cleans.
    let last = pool.acquire(Limits::NONE);
    slot.finish().unwrap();
    assert!(asked.is_ready() && !last.is_ready());
    drop(asked);
    assert!(last.is_ready());
    assert_eq!((books.set_up.load(SeqCst), books.cleaned.load(SeqCst)), (1, 1));
    drop(last);
    all_free(&pool, 1);
}

#[test]
fn i7_without_a_slot_nothing_is_run() {
    let books = Books::default();
    let pool = books.builder(1).build().unwrap();
    let slot = pool.try_acquire().unwrap();
    let run = pool.run(Limits::wait(Duration::ZERO), |_| panic!("there is no slot"));
    let busy = SlotError::NotAcquired(LockError::Busy { key: None });
    assert_eq!(run.unwrap_err(), RunSlotError::<(), _>::NotStarted(busy.clone()));
    assert_eq!(pool.try_acquire().unwrap_err(), busy);
    drop(slot);
    assert_eq!(books.set_up.load(SeqCst), 1);
}

#[test]
fn i8_a_thousand_wait_in_their_order() {
    let pool = SlotPool::new(8).unwrap();
    let held: Vec<_> = (0..8).map(|_| pool.try_acquire().unwrap()).collect();
    let wakes: Vec<_> = (0..1_000).map(|_| Wakes::new()).collect();
    let mut waiting = Vec::new();
    for wakes in &wakes {
        let mut asked = pool.acquire(Limits::NONE);
        assert!(poll(&mut asked, &wakes.waker()).is_none());
        waiting.push(asked);
    }
    assert_eq!(pool.view().waiting, 1_000);
    let mut held: std::collections::VecDeque<_> = held.into();
    for (number, mut asked) in waiting.into_iter().enumerate() {
        assert!(pool.try_acquire().is_err(), "it overtakes those that wait");
        drop(held.pop_front());
        // Exactly one was woken, and it is the next.
        let woken: usize = wakes.iter().map(Wakes::count).sum();
        assert_eq!((woken, wakes[number].count()), (number + 1, 1));
        held.push_back(poll(&mut asked, Waker::noop()).unwrap().unwrap());
    }
    drop(held);
    all_free(&pool, 8);
}

type Leased = SlotPool<Box<u32>, &'static str>;

/// A pool with a lease, in which everything is written down.
fn leased(timers: &Timers) -> (Arc<Mutex<Vec<String>>>, Leased) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let [set_up, clean, reclaim] = [log.clone(), log.clone(), log.clone()];
    let say = |log: &Mutex<Vec<String>>, text: String| log.lock().unwrap().push(text);
    let pool = SlotPool::builder(1)
        .set_up(move |_| {
            say(&set_up, "set up".into());
            Ok(Box::new(1))
        })
        .clean_up(move |_, value| {
            let what = if value.is_some() { "clean up" } else { "clean up without a value" };
            say(&clean, what.into());
            Ok(())
        })
        .lease(SECOND)
        .reclaim(move |_, fence| say(&reclaim, format!("reclaim {fence}")))
        .timers(timers.clone())
        .build()
        .unwrap();
    (log, pool)
}

#[test]
fn i9_a_hung_holder_loses_its_slot() {
    let (clock, timers) = by_hand();
    let (log, pool) = leased(&timers);
    let mut old = pool.try_acquire().unwrap();
    let wakes = Wakes::new();
    let mut lost = old.lost();
    assert!(poll(&mut lost, &wakes.waker()).is_none());
    let next = pool.acquire(Limits::NONE);
    clock.advance(SECOND - Duration::from_nanos(1));
    timers.run_due();
    assert!(!old.is_lost() && !next.is_ready());
    assert_eq!(old.remaining(), Some(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(1));
    timers.run_due();
    let new = next.wait().unwrap();
    assert_eq!(wakes.count(), 1);
    assert!(poll(&mut lost, Waker::noop()).is_some() && old.is_lost());
    assert!(new.fence() > old.fence() && new.id() == old.id());
    let order = ["set up", "reclaim 1", "clean up without a value", "set up"];
    assert_eq!(*log.lock().unwrap(), order);
    // The late holder has its value, and changes nothing with what it does.
    **old += 1;
    assert_eq!(**old, 2);
    assert!(old.renew(SECOND).wait().is_err() && old.remaining().is_none());
    assert_eq!(old.finish(), Err(SlotError::Lost));
    assert!(!new.is_lost() && pool.try_acquire().is_err());
    assert_eq!(log.lock().unwrap().len(), 4);
    new.finish().unwrap();
    assert_eq!(timers.len(), 0, "a timer is left");
    all_free(&pool, 1);
}

#[test]
fn i9_a_lease_that_is_renewed_goes_on() {
    let (clock, timers) = by_hand();
    let (log, pool) = leased(&timers);
    let slot = pool.try_acquire().unwrap();
    let mut lost = slot.lost();
    for _ in 0..5 {
        clock.advance(SECOND - Duration::from_nanos(1));
        timers.run_due();
        slot.renew(SECOND).wait().unwrap();
    }
    assert_eq!(timers.len(), 1);
    slot.renew(Duration::MAX).wait().unwrap();
    clock.advance(1_000 * SECOND);
    timers.run_due();
    assert!(!slot.is_lost());
    slot.finish().unwrap();
    assert!(poll(&mut lost, Waker::noop()).is_none(), "it was finished");
    assert_eq!(*log.lock().unwrap(), ["set up", "clean up"]);
    // That of the request, instead of the pool's.
    let slot = pool.acquire(Limits::NONE.lease(5 * SECOND)).wait().unwrap();
    assert_eq!(slot.remaining(), Some(5 * SECOND));
}

#[test]
fn i9_who_asks_finds_a_lease_over() {
    must_end(|| {
        // The timers are never run: time goes, and nothing is reported.
        let (clock, timers) = by_hand();
        let (log, pool) = leased(&timers);
        let slot = pool.try_acquire().unwrap();
        clock.advance(SECOND);
        // One that ends before a look at it has ended in time: none was let in.
        slot.finish().unwrap();
        assert_eq!(*log.lock().unwrap(), ["set up", "clean up"]);
        let slot = pool.try_acquire().unwrap();
        clock.advance(SECOND);
        assert!(slot.renew(SECOND).wait().is_err());
        assert!(slot.is_lost());
        // It was reclaimed, elsewhere.
        let next = pool.acquire(Limits::NONE).wait().unwrap();
        assert!(next.fence() > slot.fence());
        assert_eq!(slot.finish(), Err(SlotError::Lost));
        assert_eq!(log.lock().unwrap()[2..5], ["set up", "reclaim 2", "clean up without a value"]);
    });
}

#[test]
fn i9_a_forgotten_slot_comes_back() {
    must_end(|| {
        let (clock, timers) = by_hand();
        let (_log, pool) = leased(&timers);
        std::mem::forget(pool.try_acquire().unwrap());
        assert_eq!(pool.view().each[0].state, SlotState::Held);
        clock.advance(SECOND);
        timers.run_due();
        drop(pool.acquire(Limits::NONE).wait().unwrap());
        all_free(&pool, 1);
    });
}

#[test]
fn i9_a_holder_that_cannot_be_ended_keeps_it() {
    must_end(|| {
        let (clock, timers) = by_hand();
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = told.clone();
        let pool = SlotPool::builder(1)
            .lease(SECOND)
            .reclaim(|_, _| std::panic::resume_unwind(Box::new("it does not die")))
            .on_quarantine(move |_, error| hears.lock().unwrap().push(error.clone()))
            .timers(timers.clone())
            .build()
            .unwrap();
        let slot = pool.try_acquire().unwrap();
        clock.advance(SECOND);
        timers.run_due();
        until(|| !told.lock().unwrap().is_empty());
        assert_eq!(*told.lock().unwrap(), [SlotError::CleanUpPanicked("it does not die".into())]);
        assert!(slot.is_lost() && pool.try_acquire().is_err());
        drop(slot);
        pool.repair(id(0)).unwrap();
        all_free(&pool, 1);
    });
}

#[test]
fn i9_an_executor_that_is_gone_is_replaced() {
    must_end(|| {
        for by_asking in [false, true] {
            let (clock, timers) = by_hand();
            // It drops all that it is given.
            let pool = SlotPool::builder(1)
                .lease(SECOND)
                .executor(|drain: turnwise::Drain| drop(drain))
                .timers(timers.clone())
                .build()
                .unwrap();
            let hangs = pool.try_acquire().unwrap();
            clock.advance(SECOND);
            if by_asking {
                assert!(hangs.is_lost());
            } else {
                timers.run_due();
            }
            drop(pool.acquire(Limits::NONE).wait().unwrap());
            drop(hangs);
            all_free(&pool, 1);
        }
    });
}

#[test]
fn i9_reclaiming_runs_in_the_executor() {
    let (clock, timers) = by_hand();
    let queue = turnwise::executor::DrainQueue::new();
    let (log, pool) = {
        let log = Arc::new(AtomicUsize::new(0));
        let seen = log.clone();
        let builder = SlotPool::builder(1).lease(SECOND).executor(queue.handle());
        let builder = builder.reclaim(move |_, _| _ = seen.fetch_add(1, SeqCst));
        (log, builder.timers(timers.clone()).build().unwrap())
    };
    let hangs = pool.try_acquire().unwrap();
    let mut next = pool.acquire(Limits::NONE);
    clock.advance(SECOND);
    timers.run_due();
    // Nothing on the thread of the timers.
    assert_eq!((log.load(SeqCst), queue.len()), (0, 1));
    assert!(poll(&mut next, Waker::noop()).is_none());
    while queue.run_one() {}
    assert_eq!(log.load(SeqCst), 1);
    assert!(poll(&mut next, Waker::noop()).is_some_and(|slot| slot.is_ok()));
    assert!(hangs.is_lost());
}

#[test]
fn i9_ends_and_expiries_meet() {
    let rounds = size(1_000, 20_000);
    must_end(move || {
        let books = Books::default();
        let reclaimed = Arc::new(AtomicUsize::new(0));
        let seen = reclaimed.clone();
        let builder = books.builder(2).reclaim(move |_, _| _ = seen.fetch_add(1, SeqCst));
        let pool = builder.build().unwrap();
        let (lost, used) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let inside: [AtomicUsize; 2] = Default::default();
        thread::scope(|scope| {
            for thread in 0..4 {
                let (pool, lost, used, inside) = (&pool, &lost, &used, &inside);
                scope.spawn(move || {
                    let mut seed = thread;
                    for _ in 0..rounds / 4 {
                        let lease = Duration::from_nanos(next(&mut seed) % 100_000 + 1);
                        let limits = Limits::NONE.lease(lease);
                        let slot = pool.acquire(limits).wait().unwrap();
                        // A late one writes an older fence; none writes the same.
                        let at = &inside[slot.id().index()];
                        let fence = slot.fence().number() as usize;
                        assert_ne!(at.swap(fence, SeqCst), fence);
                        for _ in 0..next(&mut seed) % 2_000 {
                            std::hint::spin_loop();
                        }
                        used.fetch_add(1, SeqCst);
                        match slot.finish() {
                            Ok(()) => {}
                            Err(SlotError::Lost) => _ = lost.fetch_add(1, SeqCst),
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        // Those that were reclaimed come back, too.
        until(|| pool.view().free == 2);
        let (lost, used) = (lost.into_inner(), used.into_inner());
        assert_eq!(reclaimed.load(SeqCst), lost);
        assert_eq!(books.without.load(SeqCst), lost);
        assert_eq!(books.set_up.load(SeqCst), used);
        books.balance();
        all_free(&pool, 2);
    });
}

#[test]
fn i10_a_pool_shrinks_as_slots_come_back() {
    let pool = SlotPool::new(8).unwrap();
    let mut held: Vec<_> = (0..6).map(|_| pool.try_acquire().unwrap()).collect();
    pool.resize(4).unwrap();
    let view = pool.view();
    assert_eq!((view.slots, view.in_use, view.free, view.retiring), (4, 6, 0, 2));
    let mut next = pool.acquire(Limits::NONE);
    // The lowest go first: those that stay are beyond the new size.
    held.reverse();
    for in_use in [5, 4] {
        drop(held.pop());
        assert_eq!(pool.view().in_use, in_use);
        assert!(poll(&mut next, Waker::noop()).is_none());
    }
    drop(held.pop());
    let came = poll(&mut next, Waker::noop()).unwrap().unwrap();
    assert_eq!(came.id(), id(0));
    assert_eq!(held.iter().map(|slot| slot.id().index()).collect::<Vec<_>>(), [5, 4, 3]);
    assert!(pool.try_acquire().is_err());
    drop((came, held));
    all_free(&pool, 4);
    pool.resize(6).unwrap();
    all_free(&pool, 6);
    for (slots, why) in
        [(0, SlotBuildError::NoSlots), (65_537, SlotBuildError::TooMany { most: 65_536 })]
    {
        assert_eq!(pool.resize(slots), Err(why));
        assert_eq!(SlotPool::new(slots).unwrap_err(), why);
    }
    all_free(&pool, 6);
}

#[test]
fn i10_a_pool_that_grows_lets_in_who_waits() {
    let pool = SlotPool::new(1).unwrap();
    let slot = pool.try_acquire().unwrap();
    let mut waiting: Vec<_> = (0..4).map(|_| pool.acquire(Limits::NONE)).collect();
    pool.resize(4).unwrap();
    let came: Vec<_> = waiting
        .iter_mut()
        .flat_map(|asked| poll(asked, Waker::noop()))
        .map(Result::unwrap)
        .collect();
    assert!(came.iter().map(|slot| slot.id().index()).eq(1..4));
    assert_eq!(pool.view().waiting, 1);
    drop((slot, came, waiting));
    all_free(&pool, 4);
}

#[test]
fn i10_quarantined_slots_count_for_themselves() {
    let dirty = Arc::new(AtomicBool::new(true));
    let fails = dirty.clone();
    let pool = SlotPool::builder(4)
        .set_up(|_| Ok::<_, ()>(()))
        .clean_up(
            move |slot, _| {
                if slot.index() >= 2 && fails.load(SeqCst) { Err(()) } else { Ok(()) }
            },
        )
        .build()
        .unwrap();
    drop((0..4).map(|_| pool.try_acquire().unwrap()).collect::<Vec<_>>());
    assert_eq!((pool.view().free, pool.view().quarantined), (2, 2));
    // Two that are dirty and beyond: those within are all there.
    pool.resize(2).unwrap();
    let both = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    assert!(pool.try_acquire().is_err());
    drop(both);
    // One is repaired, and retires.
    dirty.store(false, SeqCst);
    pool.repair(id(3)).unwrap();
    let both = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
    assert!(pool.try_acquire().is_err(), "a slot too many");
    drop(both);
    // Grown again, the other is still dirty.
    pool.resize(4).unwrap();
    let three: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap().id()).collect();
    assert!(three.iter().all(|slot| *slot != id(2)));
    let three: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap()).collect();
    assert!(pool.try_acquire().is_err());
    drop(three);
    pool.repair(id(2)).unwrap();
    all_free(&pool, 4);
}

#[test]
fn i10_sizes_change_under_load() {
    let rounds = size(200, 5_000);
    must_end(move || {
        let fails = Arc::new(AtomicBool::new(true));
        let (broken, count) = (fails.clone(), AtomicUsize::new(0));
        let pool = SlotPool::builder(4)
            .set_up(|_| Ok::<_, ()>(()))
            .clean_up(move |_, _| {
                let fails = broken.load(SeqCst) && count.fetch_add(1, SeqCst) % 5 == 0;
                if fails { Err(()) } else { Ok(()) }
            })
            .build()
            .unwrap();
        let used: Vec<AtomicBool> = (0..8).map(|_| AtomicBool::new(false)).collect();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let users: Vec<_> = (0..6)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..rounds {
                            let slot = pool.acquire(Limits::NONE).wait().unwrap();
                            let used = &used[slot.id().index()];
                            assert!(!used.swap(true, SeqCst), "two users");
                            thread::yield_now();
                            used.store(false, SeqCst);
                        }
                    })
                })
                .collect();
            let (pool, over) = (&pool, &over);
            scope.spawn(move || {
                let mut seed = 9;
                while !over.load(SeqCst) {
                    pool.resize(next(&mut seed) as usize % 8 + 1).unwrap();
                    for slot in 0..8 {
                        drop(pool.repair(id(slot)));
                    }
                    let view = pool.view();
                    let all = view.in_use + view.free + view.quarantined;
                    assert_eq!(all, view.slots + view.retiring);
                    thread::yield_now();
                }
            });
            users.into_iter().for_each(|user| user.join().unwrap());
            over.store(true, SeqCst);
        });
        fails.store(false, SeqCst);
        (0..8).for_each(|slot| drop(pool.repair(id(slot))));
        for slots in [1, 8, 3] {
            pool.resize(slots).unwrap();
            all_free(&pool, slots);
        }
    });
}

#[test]
fn i11_views_add_up() {
    let (clock, timers) = by_hand();
    let pool = SlotPool::builder(3)
        .set_up(|_| Ok::<_, ()>(()))
        .clean_up(|slot, _| if slot.index() == 0 { Err(()) } else { Ok(()) })
        .timers(timers)
        .build()
        .unwrap();
    drop(pool.try_acquire().unwrap());
    let one = pool.acquire(Limits::NONE.lease(10 * SECOND)).wait().unwrap();
    clock.advance(SECOND);
    let two = pool.try_acquire().unwrap();
    let waits = pool.acquire(Limits::wait(9 * SECOND));
    clock.advance(SECOND);
    let view = pool.view();
    let counts =
        (view.slots, view.in_use, view.free, view.quarantined, view.retiring, view.waiting);
    assert_eq!(counts, (3, 2, 0, 1, 0, 1));
    assert_eq!(view.oldest_wait, Some(SECOND));
    let each: Vec<_> =
        view.each.iter().map(|slot| (slot.state, slot.age, slot.remaining)).collect();
    let held = SlotState::Held;
    let expected = [
        (SlotState::Quarantined, Some(2 * SECOND), None),
        (held, Some(2 * SECOND), Some(8 * SECOND)),
        (held, Some(SECOND), None),
    ];
    assert_eq!(each, expected);
    let fences: Vec<_> = view.each.iter().map(|slot| slot.fence).collect();
    assert_eq!(fences[1..], [Some(one.fence()), Some(two.fence())]);
    drop((one, two, waits));
    assert_eq!((pool.view().free, pool.view().in_use), (2, 0));
}

#[test]
fn hooks_may_use_the_pool() {
    must_end(|| {
        let (clock, timers) = by_hand();
        let itself: Arc<Mutex<Option<SlotPool<u32, &'static str>>>> = Arc::default();
        let [in_set_up, in_clean_up, in_reclaim, in_quarantine] = [(); 4].map(|()| itself.clone());
        let get = |pool: &Mutex<Option<SlotPool<u32, &'static str>>>| {
            pool.lock().unwrap().clone().unwrap()
        };
        let depth = AtomicUsize::new(0);
        let failures = AtomicUsize::new(0);
        let pool = SlotPool::builder(2)
            .set_up(move |slot| {
                // The first takes another slot of the very pool.
                if depth.fetch_add(1, SeqCst) == 0 {
                    let pool = get(&in_set_up);
                    assert_ne!(pool.try_acquire().unwrap().id(), slot);
                    assert_eq!(pool.view().each[slot.index()].state, SlotState::SetUp);
                    pool.resize(3).unwrap();
                }
                Ok(0)
            })
            .clean_up(move |slot, _| {
                let pool = get(&in_clean_up);
                assert_eq!(pool.repair(slot), Err(SlotError::NotQuarantined));
                assert_eq!(pool.view().each[slot.index()].state, SlotState::CleanUp);
                if failures.fetch_add(1, SeqCst) == 3 { Err("dirty") } else { Ok(()) }
            })
            .lease(SECOND)
            .reclaim(move |slot, _| {
                let pool = get(&in_reclaim);
                assert_eq!(pool.view().each[slot.index()].state, SlotState::Reclaim);
                drop(pool.try_acquire());
                // As one that kills a process, so the others of the test can look.
                assert_eq!(pool.repair(slot), Err(SlotError::NotQuarantined));
            })
            .on_quarantine(move |slot, _| get(&in_quarantine).repair(slot).unwrap())
            .timers(timers.clone())
            .build()
            .unwrap();
        *itself.lock().unwrap() = Some(pool.clone());
        let slot = pool.try_acquire().unwrap();
        assert_eq!(pool.view().slots, 3);
        slot.finish().unwrap();
        let late = pool.try_acquire().unwrap();
        clock.advance(SECOND);
        timers.run_due();
        until(|| pool.view().free == 3);
        assert_eq!(late.finish(), Err(SlotError::Lost));
        let _ = pool.try_acquire().unwrap().finish();
        until(|| pool.view().free == 3);
        drop(itself.lock().unwrap().take());
    });
}

#[test]
fn a_closed_pool_lets_in_nobody() {
    must_end(|| {
        let books = Books::default();
        let pool = books.builder(1).build().unwrap();
        let slot = pool.try_acquire().unwrap();
        let (waits, came) = (pool.acquire(Limits::NONE), mpsc::channel());
        let theirs = came.0.clone();
        let waiting = thread::spawn(move || theirs.send(waits.wait().map(drop)).unwrap());
        pool.close();
        let closed = SlotError::NotAcquired(LockError::Closed);
        assert_eq!(came.1.recv().unwrap(), Err(closed.clone()));
        waiting.join().unwrap();
        assert_eq!(pool.try_acquire().unwrap_err(), closed);
        assert!(!slot.is_lost());
        assert_eq!(slot.finish(), Ok(()));
        pool.resize(5).unwrap();
        assert_eq!(pool.try_acquire().unwrap_err(), closed);
        assert_eq!((pool.view().free, pool.view().waiting), (5, 0));
        books.balance();
    });
}

#[test]
fn a_pool_lives_as_long_as_its_uses() {
    let books = Books::default();
    let pool = books.builder(1).build().unwrap();
    let slot = pool.try_acquire().unwrap();
    let waits = pool.acquire(Limits::NONE);
    drop(pool);
    drop(slot);
    let slot = waits.wait().unwrap();
    assert_eq!(*slot, 7);
    drop(slot);
    books.balance();
    // What the hooks own goes with the last use.
    assert_eq!(Arc::strong_count(&books.set_up), 1);
}

/// Its numbers have the permits of those that are quarantined, and those have the semaphore: all of
/// it goes with the pool.
#[test]
fn a_pool_is_gone_with_what_is_quarantined() {
    #[derive(Debug)]
    struct Stands(#[allow(dead_code, reason = "it is counted")] Arc<()>);
    impl Clock for Stands {
        fn now(&self) -> Duration {
            Duration::ZERO
        }
    }
    let counted = Arc::new(());
    let clean_up = |_, value: Option<u32>| if value == Some(0) { Ok(()) } else { Err("dirty") };
    let made = AtomicUsize::new(0);
    let pool = SlotPool::builder(1)
        .set_up(move |_| Ok(made.fetch_add(1, SeqCst) as u32))
        .clean_up(clean_up)
        .timers(Timers::by_hand(Stands(counted.clone())))
        .build()
        .unwrap();
    let first = pool.try_acquire().unwrap();
    let second = pool.acquire(Limits::NONE);
    drop(first);
    // This one has waited, so it has a permit of its own.
    drop(second.wait().unwrap());
    assert_eq!((pool.view().quarantined, Arc::strong_count(&counted)), (1, 2));
    drop(pool);
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
#[should_panic(expected = "a lease must not be zero")]
fn a_lease_of_zero_is_refused() {
    let _ = SlotPool::builder(1).lease(Duration::ZERO);
}

#[test]
#[should_panic(expected = "`set_up` comes before its hooks")]
fn a_set_up_that_comes_late_is_refused() {
    let _ = SlotPool::builder(1).on_quarantine(|_, _| ()).set_up(|_| Ok::<_, ()>(()));
}

#[test]
fn a_lease_may_be_longer_than_any_clock() {
    // A lease that no clock can show.
    let pool = SlotPool::builder(1).lease(Duration::MAX).build().unwrap();
    let slot = pool.try_acquire().unwrap();
    assert!(slot.remaining().is_none() && !slot.is_lost());
    assert_eq!(SlotId::from_index(SlotPool::MOST), None);
}

#[test]
fn a_drop_that_panics_quarantines() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            if !thread::panicking() {
                std::panic::resume_unwind(Box::new("bad"));
            }
        }
    }
    let pool = SlotPool::builder(1).set_up(|_| Ok::<_, ()>(Bad)).build().unwrap();
    let finished = pool.try_acquire().unwrap().finish();
    assert_eq!(finished, Err(SlotError::CleanUpPanicked("bad".into())));
    pool.repair(id(0)).unwrap();
    drop(pool.try_acquire().unwrap());
    assert_eq!(pool.view().quarantined, 1);
}

#[test]
fn what_is_sent_and_shared() {
    fn all<T: Send + Sync + Unpin + std::panic::UnwindSafe + 'static>(_: &T) {}
    fn sent<T: Send + Unpin + 'static>(_: &T) {}
    // Neither the errors nor the values of a pool need be sent.
    let pool = SlotPool::builder(2)
        .set_up(|_| Ok::<_, std::rc::Rc<()>>(std::cell::Cell::new(1)))
        .build()
        .unwrap();
    all(&pool);
    let slot = pool.try_acquire().unwrap();
    sent(&slot);
    sent(&pool.acquire(Limits::NONE));
    let plain = SlotPool::new(1).unwrap();
    all(&plain.try_acquire().unwrap());
    assert_eq!(
        format!("{pool:?} {slot:?}"),
        "SlotPool { .. } Slot { id: SlotId(0), fence: 1, .. }"
    );
}
