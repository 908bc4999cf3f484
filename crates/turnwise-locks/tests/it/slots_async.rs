//! Async jobs in slots: cut at their lease, and the next user comes after the destructors.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{Promise, VirtualClock, promise};
use turnwise_locks::slots::{RunSlotError, SlotError, SlotPoolBuilder, SlotRun, SlotState};
use turnwise_locks::{Limits, LockError, SlotPool};

const MS: Duration = Duration::from_millis(1);

type Logs = Arc<Mutex<Vec<&'static str>>>;

fn say(said: &Logs, what: &'static str) {
    said.lock().unwrap().push(what);
}

/// Says so when it is dropped.
struct Says(Logs, &'static str);

impl Drop for Says {
    fn drop(&mut self) {
        say(&self.0, self.1);
    }
}

/// Time by hand, and what follows from it by hand.
struct Hand {
    clock: VirtualClock,
    timers: Timers,
    queue: DrainQueue,
    said: Logs,
}

impl Hand {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let timers = Timers::by_hand(clock.clone());
        Hand { timers, clock, queue: DrainQueue::new(), said: Logs::default() }
    }

    /// A pool that says what happens to its slots.
    fn builder(&self, slots: usize) -> SlotPoolBuilder<&'static str, &'static str> {
        let [cleaned, reclaimed] = [self.said.clone(), self.said.clone()];
        SlotPool::builder(slots)
            .set_up(|_| Ok("box"))
            .clean_up(move |_, value| {
                say(&cleaned, if value.is_some() { "cleaned with it" } else { "cleaned" });
                Ok(())
            })
            .reclaim(move |_, _| say(&reclaimed, "reclaimed"))
            .executor(self.queue.handle())
            .timers(self.timers.clone())
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.timers.run_due();
        self.queue.run_until_idle();
    }

    fn said(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.said.lock().unwrap())
    }
}

fn lease(time: Duration) -> Limits {
    Limits::NONE.lease(time)
}

fn poll<F: Future + Unpin>(run: &mut F) -> Poll<F::Output> {
    Pin::new(run).poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn what_waits_is_cut_unpolled_and_the_next_user_comes_after_the_destructors() {
    let hand = Hand::new();
    let pool = hand.builder(1).build().unwrap();
    let says = Says(hand.said.clone(), "dropped");
    let mut hung = pool.run_async(lease(5 * MS), async move |_| {
        let _says = says;
        pending::<()>().await;
    });
    let said = hand.said.clone();
    let mut next = pool.run_async(Limits::NONE, async move |_| say(&said, "next"));
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    assert!(pin!(&mut hung).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll(&mut next).is_pending());
    hand.pass(4 * MS);
    assert_eq!((hand.said(), pool.view().in_use), (vec![], 1));
    hand.pass(MS);
    assert_eq!(woken.0.load(SeqCst), 1);
    assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    let order = ["dropped", "reclaimed", "cleaned", "next", "cleaned with it"];
    assert_eq!(hand.said(), order);
    assert_eq!(poll(&mut hung), Poll::Ready(Err(RunSlotError::Cut)));
    let taken = Err(RunSlotError::NotStarted(SlotError::NotAcquired(LockError::Taken)));
    assert_eq!(poll(&mut hung), Poll::Ready(taken));
    assert_eq!((pool.view().free, hand.timers.len()), (1, 0));
}

#[test]
fn a_job_in_its_poll_is_reclaimed_and_its_slot_is_cleaned_up_after_it() {
    for ready in [true, false] {
        let hand = Hand::new();
        let pool = hand.builder(1).build().unwrap();
        let (enter, entered) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        let says = Says(hand.said.clone(), "dropped");
        let mut run = pool.run_async(lease(5 * MS), async move |_| {
            let _says = says;
            enter.send(()).unwrap();
            let left = left;
            left.recv().ok(); // blocks
            drop(left);
            if !ready {
                pending::<()>().await;
            }
            7
        });
        thread::scope(|scope| {
            let polls = scope.spawn(|| poll(&mut run));
            entered.recv().unwrap();
            hand.pass(5 * MS);
            assert_eq!(hand.said(), ["reclaimed"]);
            assert_eq!(pool.view().each[0].state, SlotState::Reclaim);
            assert!(pool.try_acquire().is_err());
            drop(leave);
            let outcome = match ready {
                true => Err(RunSlotError::Lost { value: 7 }),
                false => Err(RunSlotError::Cut),
            };
            assert_eq!(polls.join().unwrap(), Poll::Ready(outcome));
        });
        assert_eq!(hand.said(), ["dropped", "cleaned"]);
        assert_eq!(pool.view().free, 1);
    }
}

#[test]
fn done_in_time_it_is_cleaned_up_with_its_value() {
    let hand = Hand::new();
    let pool = hand.builder(1).build().unwrap();
    let (go, gone) = promise::<u32>();
    let mut run = pool.run_async(lease(5 * MS), async move |slot| {
        **slot = "used";
        gone.await.unwrap() + slot.id().index() as u32
    });
    assert!(poll(&mut run).is_pending());
    go.keep(7);
    assert_eq!(poll(&mut run), Poll::Ready(Ok(7)));
    assert_eq!((hand.said(), hand.timers.len()), (vec!["cleaned with it"], 0));
}

#[test]
fn dropping_it_leaves_the_queue_or_ends_the_job() {
    let hand = Hand::new();
    let pool = hand.builder(1).build().unwrap();
    let says = Says(hand.said.clone(), "dropped");
    let mut holds = pool.run_async(lease(5 * MS), async move |_| {
        let _says = says;
        pending::<()>().await;
    });
    assert!(poll(&mut holds).is_pending());
    let waits = pool.run_async(Limits::NONE, async |_| ());
    assert_eq!(pool.view().waiting, 1);
    drop(waits);
    assert_eq!(pool.view().waiting, 0);
    drop(holds);
    assert_eq!(hand.said(), ["dropped", "cleaned with it"]);
    assert_eq!((pool.view().free, hand.timers.len()), (1, 0));
    drop(pool.run_async(Limits::NONE, async |_| ())); // it has a permit, and was never polled
    assert_eq!(pool.view().free, 1);
}

#[test]
fn a_panic_goes_on_in_the_poll_and_the_slot_is_cleaned_up() {
    let hand = Hand::new();
    let pool = hand.builder(1).build().unwrap();
    let mut run = pool.run_async(lease(5 * MS), async |_| {
        std::panic::resume_unwind(Box::new("jammed"));
    });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        poll::<SlotRun<(), _, _>>(&mut run)
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "jammed");
    assert_eq!((hand.said(), pool.view().free), (vec!["cleaned with it"], 1));
    assert!(matches!(poll(&mut run), Poll::Ready(Err(RunSlotError::NotStarted(_)))));
}

#[test]
fn what_fails_at_the_end_of_a_lease_is_quarantined() {
    let hand = Hand::new();
    let (tell, told) = mpsc::channel();
    let pool = SlotPool::builder(2)
        .set_up(|_| Ok::<_, &str>(()))
        .clean_up(|_, _| Err("the disk is full"))
        .reclaim(|slot, _| {
            if slot.index() == 1 {
                std::panic::resume_unwind(Box::new("cannot be killed"));
            }
        })
        .on_quarantine(move |slot, error| tell.send((slot.index(), error.clone())).unwrap())
        .executor(hand.queue.handle())
        .timers(hand.timers.clone())
        .lease(MS)
        .build()
        .unwrap();
    let hangs = || pool.run_async(Limits::NONE, async |_| pending::<()>().await);
    let (mut zero, mut one) = (hangs(), hangs());
    assert!(poll(&mut zero).is_pending() && poll(&mut one).is_pending());
    hand.pass(MS);
    assert_eq!(pool.view().quarantined, 2);
    let mut told: Vec<_> = told.try_iter().collect();
    told.sort_by_key(|(slot, _)| *slot);
    let text = "cannot be killed".to_string();
    let failed = SlotError::CleanUp("the disk is full");
    assert_eq!(told, [(0, failed), (1, SlotError::CleanUpPanicked(text))]);
    assert_eq!(poll(&mut zero), Poll::Ready(Err(RunSlotError::Cut)));
}

#[test]
fn a_job_renews_its_lease_or_gets_one() {
    let hand = Hand::new();
    let pool = hand.builder(1).build().unwrap();
    for limits in [lease(2 * MS), Limits::NONE] {
        let (go, gone) = promise::<()>();
        let mut run = pool.run_async(limits, async move |slot| {
            let _ = gone.await;
            slot.renew(9 * MS).wait().unwrap();
            pending::<()>().await;
        });
        assert!(poll(&mut run).is_pending());
        hand.pass(MS);
        go.keep(());
        assert!(poll(&mut run).is_pending());
        hand.pass(8 * MS);
        assert!(poll(&mut run).is_pending());
        hand.pass(MS);
        assert_eq!(poll(&mut run), Poll::Ready(Err(RunSlotError::Cut)));
        assert_eq!(hand.said(), ["reclaimed", "cleaned"]);
    }
}

#[test]
fn a_job_that_was_not_started_says_why() {
    let pool = SlotPool::builder(1).set_up(|_| Err::<(), _>("no such device")).build().unwrap();
    let mut run = pool.run_async(Limits::NONE, async |_| ());
    let why = RunSlotError::NotStarted(SlotError::SetUp("no such device"));
    assert_eq!(poll(&mut run), Poll::Ready(Err(why)));
    pool.close();
    let mut run = pool.run_async(Limits::NONE, async |_| ());
    assert!(matches!(poll(&mut run), Poll::Ready(Err(RunSlotError::NotStarted(_)))));
}

#[test]
fn tasks_of_tokio_share_slots() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let pool = SlotPool::builder(4).set_up(|_| Ok::<_, ()>(AtomicUsize::new(0))).build().unwrap();
    let done = runtime.unwrap().block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|n| {
                let limits = lease(if n % 10 == 0 { MS } else { Duration::from_secs(600) });
                tokio::spawn(pool.run_async(limits, async move |inside| {
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    let time = if n % 10 == 0 { Duration::from_secs(900) } else { MS / 10 };
                    tokio::time::sleep(time).await;
                }))
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(()) => done += 1,
                Err(error) => assert_eq!(error, RunSlotError::Cut),
            }
        }
        done
    });
    assert_eq!((done, pool.view().free), (90, 4));
}

/// xorshift64*.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
}

/// Counts what lives.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A job that is not over, and what it may wait for.
type Open = (SlotRun<u64, (), ()>, Option<Promise<u64>>);

#[test]
fn random_ends_and_all_slots_are_free() {
    let jobs = if cfg!(miri) { 200 } else { 100_000 };
    let hand = Hand::new();
    let used: Arc<[AtomicUsize; 4]> = Arc::default();
    let (entered, cleaned, live) = (used.clone(), used.clone(), Arc::<AtomicUsize>::default());
    let pool = SlotPool::builder(4)
        .set_up(move |slot| {
            assert_eq!(entered[slot.index()].fetch_add(1, SeqCst), 0, "two users of a slot");
            Ok::<_, ()>(())
        })
        .clean_up(move |slot, _| {
            cleaned[slot.index()].fetch_sub(1, SeqCst);
            Ok(())
        })
        .executor(hand.queue.handle())
        .timers(hand.timers.clone())
        .build()
        .unwrap();
    let mut seed = 14;
    let (mut done, mut cut, mut panicked, mut dropped, mut late) = (0, 0, 0, 0, 0);
    let mut open: Vec<Open> = Vec::new();
    let mut begun = 0;
    while begun < jobs || !open.is_empty() {
        if begun < jobs && open.len() < 12 {
            begun += 1;
            let what = random(&mut seed) % 8;
            let limits = match random(&mut seed) % 3 {
                0 => lease(2 * MS),
                1 => Limits::wait(3 * MS).lease(3 * MS),
                _ => lease(5 * MS),
            };
            let (go, gone) = promise::<u64>();
            let live = live.clone();
            let run = pool.run_async(limits, async move |_| {
                live.fetch_add(1, SeqCst);
                let _alive = Alive(live);
                match what {
                    0 => 0,
                    1 => std::panic::resume_unwind(Box::new("at once")),
                    2 | 3 => pending().await,
                    _ => gone.await.unwrap_or(1),
                }
            });
            open.push((run, Some(go)));
        }
        let at = random(&mut seed) as usize % open.len();
        let (mut run, mut go) = open.swap_remove(at);
        match random(&mut seed) % 8 {
            0 => {
                dropped += 1;
                continue;
            }
            1 | 2 => go.take().into_iter().for_each(|go| go.keep(2)),
            3 => hand.pass(MS),
            _ => {}
        }
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&mut run)));
        match polled {
            Ok(Poll::Pending) => open.push((run, go)),
            Ok(Poll::Ready(Ok(_) | Err(RunSlotError::Lost { .. }))) => done += 1,
            Ok(Poll::Ready(Err(RunSlotError::Cut))) => cut += 1,
            Ok(Poll::Ready(Err(RunSlotError::NotStarted(_)))) => late += 1,
            Ok(Poll::Ready(Err(error))) => panic!("{error:?}"),
            Err(_) => panicked += 1,
        }
    }
    assert_eq!(done + cut + panicked + dropped + late, jobs);
    assert!([done, cut, panicked, dropped, late].iter().all(|&n| n > jobs / 100));
    assert_eq!(live.load(SeqCst), 0, "a future is left");
    hand.pass(9 * MS);
    assert_eq!((pool.view().free, hand.timers.len()), (4, 0));
    println!("done {done}, cut {cut}, panicked {panicked}, dropped {dropped}, late {late}");
}

#[test]
fn threads_and_leases_at_random() {
    let jobs = if cfg!(miri) { 20 } else { 5_000 };
    let used: Arc<[AtomicUsize; 2]> = Arc::default();
    let (entered, cleaned) = (used.clone(), used.clone());
    let pool = SlotPool::builder(2)
        .set_up(move |slot| {
            assert_eq!(entered[slot.index()].fetch_add(1, SeqCst), 0, "two users of a slot");
            Ok::<_, ()>(())
        })
        .clean_up(move |slot, _| {
            cleaned[slot.index()].fetch_sub(1, SeqCst);
            Ok(())
        })
        .build()
        .unwrap();
    let (done, cut) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (runtime, pool, done, cut) = (&runtime, &pool, &done, &cut);
    thread::scope(|scope| {
        for worker in 1..=4_u64 {
            scope.spawn(move || {
                let mut seed = worker;
                for _ in 0..jobs {
                    let time = Duration::from_micros(random(&mut seed) % 50 + 1);
                    let hangs = random(&mut seed) % 2 == 0;
                    let live = Arc::new(AtomicUsize::new(1));
                    let alive = Alive(live.clone());
                    let run = pool.run_async(lease(time), async move |_| {
                        let _alive = alive;
                        match hangs {
                            true => pending().await,
                            false => tokio::task::yield_now().await,
                        }
                    });
                    match runtime.block_on(run) {
                        Ok(()) | Err(RunSlotError::Lost { .. }) => done.fetch_add(1, SeqCst),
                        Err(RunSlotError::Cut) => cut.fetch_add(1, SeqCst),
                        Err(error) => panic!("{error:?}"),
                    };
                    assert_eq!(live.load(SeqCst), 0, "it is over, and its future lives");
                }
            });
        }
    });
    assert_eq!(done.load(SeqCst) + cut.load(SeqCst), 4 * jobs);
    while pool.view().free < 2 {
        thread::yield_now();
    }
    println!("done {}, cut {}", done.load(SeqCst), cut.load(SeqCst));
}
