//! Properties of every store for its clients: in memory, in memory with faults, in memory without
//! notices, in a file, in a server, and in a server behind a proxy that loses and doubles.

#[allow(dead_code, reason = "it is a program")]
#[path = "../../examples/anywhere/main.rs"]
mod anywhere;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::world::{World, builder, contract};
use crate::support::{Dice, until};
use turnwise_redis::slots::{RunSlotError, SlotBuildError, SlotError};
use turnwise_redis::ticks::{NotMine, Schedule};
use turnwise_redis::{
    Fenced, FencedError, Limits, LockError, NameError, Owner, ReleaseError, Slot, SlotId, SlotPool,
};

/// The payload of a panic.
struct PanicsAsDropped;

impl Drop for PanicsAsDropped {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("a payload"));
    }
}

contract! {
    /// At most one holder is inside, fences increase, nothing remains.
    fn one_at_a_time(world) {
        let clients = world.clients(3);
        let (inside, fences) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let file = Fenced::new(0);
        let rounds = 20;
        thread::scope(|scope| {
            for client in &clients {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..rounds {
                            let guard = client.locks().lock("a").wait().unwrap();
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            fences.lock().unwrap().push(guard.fence());
                            file.with(guard.fence(), |n| *n += 1).unwrap();
                            assert!(!guard.is_lost());
                            assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                            drop(guard);
                        }
                    });
                }
            }
        });
        let fences = fences.into_inner().unwrap();
        assert_eq!(fences.len(), 6 * rounds);
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        assert_eq!(file.with(fences[fences.len() - 1], |n| *n), Ok(6 * rounds));
        let locks = clients[0].locks();
        until("nothing remains", || locks.info("a").wait().unwrap().is_none());
    }

    fn first_come_first_served(world) {
        let clients = world.clients(3);
        let first = clients[0].locks().lock("a").wait().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for number in 0..12 {
            let (locks, order) = (clients[number % 3].locks(), order.clone());
            let waiting = locks.lock("a");
            threads.push(thread::spawn(move || {
                let guard = waiting.wait().unwrap();
                order.lock().unwrap().push(number);
                drop(guard);
            }));
            let locks = clients[0].locks();
            until("it waits", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting == number + 1));
        }
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*order.lock().unwrap(), (0..12).collect::<Vec<_>>());
    }

    /// While there are holders or waiters; then the number may change.
    fn clients_that_say_other_counts_of_places_are_told(world) {
        let clients = world.clients(2);
        let two = clients[0].slots("a", 2).unwrap();
        let four = clients[1].slots("a", 4).unwrap();
        let one = clients[1].slots("a", 1).unwrap();
        let held = [two.acquire(Limits::NONE).wait().unwrap(), two.acquire(Limits::NONE).wait().unwrap()];
        let told = LockError::OtherPlaces { places: 2 };
        assert_eq!(four.acquire(Limits::NONE).wait().unwrap_err(), told);
        assert_eq!(one.acquire(Limits::wait(Duration::ZERO)).wait().unwrap_err(), told);
        assert_eq!(four.info().wait().unwrap_err(), told);
        drop(held);
        until("none holds one", || two.info().wait().unwrap().held.is_empty());
        let places: Vec<_> = (0..4).map(|_| four.acquire(Limits::NONE).wait().unwrap()).collect();
        let numbers: Vec<_> = places.iter().map(|guard| guard.place()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        let told = LockError::OtherPlaces { places: 4 };
        assert_eq!(two.acquire(Limits::NONE).wait().unwrap_err(), told);
        drop(places);
        until("none holds one", || four.info().wait().unwrap().held.is_empty());
        assert_eq!(one.acquire(Limits::NONE).wait().unwrap().place(), 1);
    }

    /// A job that does not end leaves a place that the next one cleans up first.
    fn slots_are_cleaned_for_each_job(world) {
        let clients = world.clients(2);
        let cleaned = Arc::new(Mutex::new(Vec::new()));
        let pools = [0, 1].map(|index| {
            let cleaned = cleaned.clone();
            let pool = clients[index].slot_pool("a", 2).set_up(|_| Ok::<_, String>(7));
            let pool = pool.clean_up(move |slot, value| {
                cleaned.lock().unwrap().push((slot.index(), value));
                Ok(())
            });
            pool.build().unwrap()
        });
        let number = |pool: &SlotPool<i32, String>| {
            pool.run(Limits::NONE, |slot| {
                **slot += 1;
                slot.id().index()
            })
        };
        assert_eq!(number(&pools[0]), Ok(0));
        assert_eq!(*cleaned.lock().unwrap(), [(0, Some(8))]);
        // A job whose future is dropped midway.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let started = AtomicBool::new(false);
            let never = async |_: &mut Slot<i32, _>| {
                started.store(true, SeqCst);
                std::future::pending::<()>().await
            };
            let has_started = async {
                while !started.load(SeqCst) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                _ = pools[0].run_async(Limits::NONE, never) => unreachable!("it never ends"),
                () = has_started => {}
            }
        });
        until("it is given back", || pools[1].slots().info().wait().unwrap().free == 2);
        assert_eq!(number(&pools[1]), Ok(0));
        assert_eq!(*cleaned.lock().unwrap(), [(0, Some(8)), (0, None), (0, Some(8))]);
        // The place of a job that panics is cleaned up.
        let panics = || pools[0].run(Limits::NONE, |_| panic!("a job"));
        let panicked: Result<Result<(), _>, _> =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        assert!(panicked.is_err());
        assert_eq!(cleaned.lock().unwrap().len(), 4);
        let last = pools[0].run_async(Limits::NONE, async |slot: &mut Slot<i32, _>| slot.fence());
        assert!(runtime.block_on(last).is_ok());
        assert_eq!(cleaned.lock().unwrap().len(), 5);
        // A set-up that fails has its place cleaned up.
        let here = cleaned.clone();
        let fails = clients[0].slot_pool("a", 2).set_up(|slot| match slot.index() {
            0 => Err("no device"),
            _ => Ok(7),
        });
        let fails = fails.clean_up(move |slot, value| {
            here.lock().unwrap().push((slot.index(), value));
            Ok(())
        });
        let ran = fails.build().unwrap().run(Limits::NONE, |_| ());
        assert_eq!(ran, Err(RunSlotError::NotStarted(SlotError::SetUp("no device"))));
        assert_eq!(cleaned.lock().unwrap().last(), Some(&(0, None)));
        assert_eq!(number(&pools[1]), Ok(0));
    }

    /// The value of a job that is given up is dropped while the job has its place.
    fn slots_outlive_their_values(world) {
        struct Value(Arc<AtomicUsize>, turnwise_redis::Slots);
        impl Drop for Value {
            fn drop(&mut self) {
                self.0.fetch_add(self.1.info().wait().unwrap().held.len(), SeqCst);
            }
        }
        let client = &world.clients(1)[0];
        let (held, slots) = (Arc::new(AtomicUsize::new(0)), client.slots("a", 1).unwrap());
        let (counts, pool) = (held.clone(), client.slot_pool("a", 1));
        let pool = pool.set_up(move |_| Ok::<_, String>(Value(counts.clone(), slots.clone())));
        let pool = pool.build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let job = async |_: &mut Slot<Value, _>| panic!("a job");
            drop::<Result<(), _>>(runtime.block_on(pool.run_async(Limits::NONE, job)));
        }));
        assert!(ran.is_err());
        assert_eq!(held.load(SeqCst), 1);
    }

    /// A place that cannot be cleaned up is not granted before it is repaired.
    fn slots_that_cannot_be_cleaned_are_quarantined(world) {
        let client = &world.clients(1)[0];
        let slots = client.slots("a", 2).unwrap();
        let fails = Arc::new(AtomicUsize::new(1));
        let fail = fails.clone();
        let pool = client.slot_pool("a", 2).set_up(|_| Ok(()));
        let pool = pool.clean_up(move |slot, _| match fail.load(SeqCst) == 1 + slot.index() {
            true => Err(format!("box {slot} is stuck")),
            false => Ok(()),
        });
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = told.clone();
        let pool = pool.on_quarantine(move |slot, error| {
            listener.lock().unwrap().push((slot.index(), error.clone()));
            panic!("a listener");
        });
        let pool = pool.build().unwrap();
        let ran = pool.run(Limits::NONE, |slot| slot.id().index());
        let slot = SlotId::from_index(0).unwrap();
        let error = SlotError::CleanUp("box 0 is stuck".to_owned());
        assert_eq!(ran, Err(RunSlotError::CleanUp { value: 0, slot, error: error.clone() }));
        let info = slots.info().wait().unwrap();
        assert_eq!((info.held.len(), &info.quarantined[..], info.free), (0, &[1][..], 1));
        assert_eq!(pool.run(Limits::NONE, |slot| slot.id().index()), Ok(1));
        let held = slots.acquire(Limits::NONE).wait().unwrap();
        assert!(matches!(slots.try_acquire().wait(), Err(LockError::Busy { .. })));
        // Repaired, and still dirty: the next job cleans it up first, or reports that it cannot.
        let repaired = slots.repair(1).wait().unwrap();
        assert!(repaired || !world.is_sound());
        let ran = pool.run(Limits::NONE, |_| ());
        assert_eq!(ran, Err(RunSlotError::NotStarted(error.clone())));
        assert_eq!(*told.lock().unwrap(), [(0, error.clone()), (0, error)]);
        fails.store(0, SeqCst);
        let repaired = slots.repair(1).wait().unwrap();
        assert!(repaired || !world.is_sound());
        assert_eq!(pool.run(Limits::NONE, |slot| slot.id().index()), Ok(0));
        assert_eq!(slots.repair(1).wait(), Ok(false));
        drop(held);
        // A panic is an error of the clean-up, too.
        let pool = client.slot_pool("b", 1).set_up(|_| Ok::<_, String>(()));
        let pool = pool.clean_up(|_, _| std::panic::resume_unwind(Box::new("box is gone")));
        let pool = pool.lease(Duration::from_secs(60)).build().unwrap();
        let ran = pool.run(Limits::NONE, |slot| slot.remaining() <= Some(Duration::from_secs(60)));
        let error = SlotError::CleanUpPanicked("box is gone".to_owned());
        assert_eq!(ran, Err(RunSlotError::CleanUp { value: true, slot, error }));
        // So is one whose payload panics as it is dropped.
        let pool = client.slot_pool("c", 1).set_up(|_| Ok::<_, String>(()));
        let pool = pool.clean_up(|_, _| std::panic::resume_unwind(Box::new(PanicsAsDropped)));
        let ran = pool.build().unwrap().run(Limits::NONE, |_| ());
        let error = SlotError::CleanUpPanicked("a panic without a text".to_owned());
        assert_eq!(ran, Err(RunSlotError::CleanUp { value: (), slot, error }));
        assert_eq!(client.slots("c", 1).unwrap().info().wait().unwrap().quarantined, [1]);
    }

    /// The example's programs come to the same as in process.
    fn the_same_programs_here_and_there(world) {
        // Through faults, it may not be known whether a hold was released.
        if !world.is_sound() {
            return;
        }
        let remote = &world.clients(1)[0];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (here, far) = runtime.block_on(async { (anywhere::here().await, anywhere::far(remote).await) });
        assert_eq!(far.unwrap(), here.unwrap());
    }

    fn what_is_held_is_busy_and_times_out(world) {
        let clients = world.clients(2);
        let guard = clients[0].locks().lock("a").wait().unwrap();
        let other = clients[1].locks();
        // By any text, and the error says which.
        let busy = other.try_lock(String::from("a")).wait().unwrap_err();
        assert_eq!(busy, LockError::Busy { key: Some("a".into()) });
        assert_eq!(busy.to_string(), "`a` was not granted: it is held, or waited for");
        let limit = Duration::from_millis(400);
        let (began, late) = (Instant::now(), other.lock_within("a", Limits::wait(limit)).wait());
        match late {
            Err(LockError::TimedOut { waited, key }) => {
                assert!(waited >= limit && key.as_deref() == Some("a"));
            }
            Err(LockError::Store(error)) if !world.is_sound() => assert!(error.is_transient()),
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed() >= limit);
        // Its queue entry is given up.
        until("none waits", || other.info("a").wait().unwrap().is_none_or(|it| it.waiting == 0));
        assert!(!guard.is_lost());
        let released = guard.release().wait();
        assert!(released.is_ok() || !world.is_sound());
        until("it is free", || other.try_lock("a").wait().is_ok());
    }

    fn a_request_that_is_dropped_is_given_up(world) {
        let clients = world.clients(2);
        let mut dice = Dice(5);
        for round in 0..20 {
            let guard = clients[0].locks().lock("a").wait().unwrap();
            let mut asked: Vec<_> = (0..3).map(|n| clients[n % 2].locks().lock("a")).collect();
            if round % 2 == 0 {
                let locks = clients[0].locks();
                until("some wait", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting > 0));
            }
            // In the queue, on the way, or just granted.
            drop(asked.swap_remove(dice.roll(3) as usize));
            drop(guard);
            drop(asked.swap_remove(dice.roll(2) as usize));
            let last = asked.pop().unwrap().wait().unwrap();
            drop(last);
        }
        let locks = clients[1].locks();
        until("nothing remains", || locks.info("a").wait().unwrap().is_none());
    }

    fn a_lease_ends(world) {
        let clients = world.clients(2);
        let lease = Duration::from_millis(300);
        let old = loop {
            let limits = Limits::NONE.lease(lease);
            let guard = clients[0].locks().lock_within("a", limits).wait().unwrap();
            // With a store that answers late, little of the lease remains.
            if !guard.is_lost() {
                break guard;
            }
        };
        assert!(old.remaining() <= Some(lease));
        let file = Fenced::new("");
        let new = clients[1].locks().lock("a").wait().unwrap();
        assert!(new.fence() > old.fence());
        until("it learns of it", || old.is_lost());
        assert_eq!(old.remaining(), Some(Duration::ZERO));
        file.with(new.fence(), |text| *text = "new").unwrap();
        let late = file.with(old.fence(), |text| *text = "old");
        assert_eq!(late, Err(FencedError::Stale { newest: new.fence() }));
        let fence = old.fence();
        assert_eq!(old.release().wait(), Err(ReleaseError::Lost(fence)));
        assert!(!new.is_lost());
    }

    fn a_hold_is_renewed(world) {
        let lease = Duration::from_millis(if world.is_sound() { 400 } else { 1500 });
        let holder = world.client(builder().lease(lease));
        let guard = holder.locks().lock("a").wait().unwrap();
        let other = world.client(builder()).locks();
        let late = other.lock_within("a", Limits::wait(lease * 3)).wait();
        assert!(late.is_err(), "{late:?}");
        assert!(!guard.is_lost());
        let released = guard.release().wait();
        assert!(released.is_ok() || !world.is_sound(), "{released:?}");
        drop(other.lock("a").wait().unwrap());
    }

    fn a_lock_is_taken_away(world) {
        let clients = world.clients(2);
        let old = clients[0].locks().lock("a").wait().unwrap();
        let lost = old.lost();
        let next = clients[1].locks().lock("a");
        let other = clients[1].locks();
        assert!(other.force_release("a").wait().unwrap() || !world.is_sound());
        let new = next.wait().unwrap();
        assert!(new.fence() > old.fence());
        // By a notice, or by the next renewal.
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(lost);
        assert!(old.is_lost());
        assert!(old.release().wait().is_err());
        assert!(!new.is_lost());
    }

    fn an_owner_asks_again(world) {
        let client = world.client(builder());
        let (locks, me) = (client.locks(), Owner::new());
        let outer = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
        let inner = locks.lock_as(&me, "a", Limits::wait(Duration::from_secs(5))).wait().unwrap();
        assert_eq!(inner.fence(), outer.fence());
        assert!(locks.lock_as(&Owner::new(), "a", Limits::wait(Duration::ZERO)).wait().is_err());
        outer.release().wait().unwrap();
        assert!(!inner.is_lost());
        assert!(locks.try_lock("a").wait().is_err());
        drop(inner);
        drop(locks.lock("a").wait().unwrap());
        // Both at once, behind another holder: they get the same hold.
        let first = locks.lock("b").wait().unwrap();
        let both = [(); 2].map(|()| locks.lock_as(&me, "b", Limits::NONE));
        drop(first);
        let both = both.map(|asked| asked.wait().unwrap());
        assert_eq!(both[0].fence(), both[1].fence());
    }

    fn several_at_once(world) {
        let clients = world.clients(2);
        thread::scope(|scope| {
            for names in [["a", "b", "c"], ["c", "a", "b"]] {
                let locks = clients[usize::from(names[0] == "a")].locks();
                scope.spawn(move || {
                    for _ in 0..5 {
                        let lease = Limits::NONE.lease(Duration::from_secs(5));
                        let held = locks.lock_all(names, lease).wait().unwrap();
                        assert_eq!(held.len(), 3);
                        assert!(held.iter().all(|guard| !guard.is_lost()));
                    }
                });
            }
        });
        let b = clients[0].locks().lock("b").wait().unwrap();
        let late = clients[1].locks().lock_all(["a", "b", "b"], Limits::wait(Duration::from_millis(300))).wait();
        assert!(late.is_err());
        // All or none: the first one is free again.
        drop(clients[0].locks().lock("a").wait().unwrap());
        drop(b);
        if !world.is_sound() {
            return;
        }
        // A lease that is shorter than the client's ends when it is over, also if one of them had
        // to be waited for.
        let b = clients[0].locks().lock("b").wait().unwrap();
        let lease = Duration::from_secs(1);
        let waits = clients[1].locks().lock_all(["a", "b"], Limits::NONE.lease(lease));
        let a_is_held = || clients[0].locks().info("a").wait().unwrap().is_some();
        until("it holds the first one", a_is_held);
        let began = Instant::now();
        until("its lease would be over", || began.elapsed() > lease * 3 / 2);
        assert!(a_is_held());
        drop(b);
        let held = waits.wait().unwrap();
        assert!(held.iter().all(|guard| guard.remaining() <= Some(lease)));
        let info = clients[0].locks().info("a").wait().unwrap();
        assert!(info.is_none_or(|info| info.remaining <= Some(lease)));
        until("they are lost", || held.iter().all(|guard| guard.is_lost()));
        drop(clients[0].locks().lock_within("a", Limits::wait(Duration::from_secs(2))).wait().unwrap());
    }

    fn once_per_tick(world) {
        let clients = world.clients(3);
        let week = Duration::from_secs(7 * 24 * 3600);
        let runs = AtomicUsize::new(0);
        thread::scope(|scope| {
            for contender in 0..12 {
                let job = clients[contender % 3].ticks().job("backup", week).unwrap();
                let runs = &runs;
                scope.spawn(move || match job.take().wait() {
                    Ok(run) => {
                        assert!(!run.guard().is_lost());
                        runs.fetch_add(1, SeqCst);
                    }
                    Err(NotMine::Taken { next, .. }) => assert!(next <= week * 3 / 2),
                    other => panic!("{other:?}"),
                });
            }
        });
        assert_eq!(runs.load(SeqCst), 1);
        // The next tick is one microsecond later: but the run of the last one is under way.
        let often = |name| clients[0].ticks().job(name, Duration::from_micros(1)).unwrap();
        let run = often("often").take().wait().unwrap();
        match often("often").take().wait() {
            Err(NotMine::StillRunning { tick, .. }) => assert_eq!(tick, run.tick()),
            other => panic!("{other:?}"),
        }
        // In the calls that jobs have in process, a tick is the one that has begun.
        let day = Duration::from_secs(24 * 3600);
        let daily = Schedule::every(day).offset(Duration::from_secs(3600));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let jobs = clients[1].once_per_tick(daily.clone()).unwrap();
        assert_eq!(jobs.try_run("daily", |tick| tick), Ok(daily.tick_at(now)));
        match clients[2].once_per_tick(daily.clone()).unwrap().try_run("daily", |_| ()) {
            Err(NotMine::Taken { next, .. }) => assert!(next <= day),
            other => panic!("{other:?}"),
        }
        let nearest = clients[1].once_per_tick(daily.clone()).unwrap().nearest();
        assert_eq!(nearest.try_run("near", |tick| tick), Ok(daily.nearest_tick_at(now)));
        // Full periods of an offset do not count.
        let late = clients[0].ticks().job("late", day).unwrap();
        let late = late.offset(7 * day + Duration::from_secs(3600)).take().wait().unwrap();
        assert_eq!(late.tick(), daily.nearest_tick_at(now));
        let own = Schedule::from_fn(|_| (0, Duration::MAX));
        assert!(clients[0].once_per_tick(own).is_err());
        let named = jobs.try_run("", |_| ());
        assert!(matches!(named, Err(NotMine::Failed(LockError::Name(_)))), "{named:?}");
        let second = often("often").allow_overlap().take().wait().unwrap();
        assert!(second.tick() > run.tick());
    }

    fn slots_are_for_one_each(world) {
        let clients = world.clients(3);
        let pools: Vec<_> = clients.iter().map(|client| client.slots("boxes", 3).unwrap()).collect();
        let inside: [AtomicUsize; 3] = Default::default();
        thread::scope(|scope| {
            for thread in 0..6 {
                let (pool, inside) = (&pools[thread % 3], &inside);
                scope.spawn(move || {
                    for _ in 0..10 {
                        let guard = pool.acquire(Limits::NONE).wait().unwrap();
                        let place = &inside[guard.place() as usize - 1];
                        assert_eq!(place.fetch_add(1, SeqCst), 0);
                        thread::yield_now();
                        assert!(!guard.is_lost());
                        assert_eq!(place.fetch_sub(1, SeqCst), 1);
                    }
                });
            }
        });
        until("all are free", || pools[0].info().wait().unwrap().free == 3);
        let held: Vec<_> = (0..3).map(|_| pools[0].acquire(Limits::NONE).wait().unwrap()).collect();
        let mut places: Vec<_> = held.iter().map(|guard| guard.place()).collect();
        places.sort_unstable();
        assert_eq!(places, [1, 2, 3]);
        assert!(matches!(pools[1].try_acquire().wait(), Err(LockError::Busy { .. })));
        let waits = pools[1].acquire(Limits::NONE);
        until("it waits", || pools[0].info().wait().unwrap().waiting == 1);
        assert!(pools[2].force_release(2).wait().unwrap() || !world.is_sound());
        let next = waits.wait().unwrap();
        assert_eq!(next.place(), 2);
        assert!(held.iter().all(|guard| guard.fence() < next.fence()));
        until("one has lost its place", || held.iter().filter(|guard| guard.is_lost()).count() == 1);
        let too_many = SlotBuildError::TooMany { most: 1024 };
        for (places, error) in [(0, SlotBuildError::NoSlots), (1025, too_many)] {
            assert_eq!(clients[0].slots("boxes", places).unwrap_err(), error);
            let pool = clients[0].slot_pool("boxes", places as usize).build();
            assert_eq!(pool.unwrap_err(), error);
        }
        assert_eq!(clients[0].slot_pool("boxes", usize::MAX).build().unwrap_err(), too_many);
    }

    fn bad_input_is_told(world) {
        let client = world.client(builder());
        let locks = client.locks();
        assert_eq!(locks.lock("").wait().unwrap_err(), LockError::Name(NameError::Empty));
        let long = "x".repeat(2000);
        let too_long = LockError::Name(NameError::TooLong { bytes: 2000 });
        assert_eq!(locks.lock_all([&*long], Limits::NONE).wait().unwrap_err(), too_long);
        assert_eq!(locks.info(&long).wait().unwrap_err(), too_long);
        let short = Limits::NONE.lease(Duration::from_millis(9));
        let refused = locks.lock_within("a", short).wait();
        assert_eq!(refused.unwrap_err(), LockError::LeaseTooShort);
        assert!(client.ticks().job("a", Duration::ZERO).is_err());
        let huge = Limits::wait(Duration::MAX).lease(Duration::MAX);
        let guard = locks.lock_within("a {} \u{7} %", huge).wait().unwrap();
        assert!(guard.remaining() > Some(Duration::from_secs(1 << 30)));
        let info = locks.info("a {} \u{7} %").wait().unwrap();
        assert_eq!(info.unwrap().fence, Some(guard.fence()));
    }
}

/// Steps whose swap has lost a race, or whose object has changed between two loads, are run again.
#[test]
fn steps_that_lose_races_are_run_again() {
    use crate::support::naive::Shelf;
    use turnwise_redis::Remote;
    use turnwise_redis::engine::Over;

    let shelf = Shelf::default();
    let count = Mutex::new(0);
    thread::scope(|scope| {
        for seed in 0..2 {
            let store = Over::new(shelf.engine(seed)).unwrap();
            let remote = Remote::builder().over(store).unwrap();
            let count = &count;
            for _ in 0..2 {
                let locks = remote.locks();
                scope.spawn(move || {
                    for _ in 0..25 {
                        let guard = locks.lock("a").wait().unwrap();
                        *count.try_lock().expect("one at a time") += 1;
                        guard.release().wait().unwrap();
                    }
                });
            }
        }
    });
    assert_eq!(count.into_inner().unwrap(), 100);
    let (swaps, lost) = shelf.swaps();
    assert!(lost > swaps / 10 && lost < swaps, "{lost} of {swaps}");
}
