//! Rows of slots: against a semaphore with a list of numbers, and against asking again and again.

use std::pin::pin;
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turnwise_locks::{Limits, Slot, SlotPool};

use crate::Options;
use crate::race::{Contestant, Line, median, race};

const OURS: &str = "turnwise";
const NUMBERS: &str = "tokio permits, a list";
const POLLING: &str = "asking each 0.1 s";

const SLOTS: usize = 8;

/// The usual way: permits, and a list of free numbers.
#[derive(Clone)]
struct Numbers {
    permits: Arc<Semaphore>,
    free: Arc<Mutex<Vec<usize>>>,
}

/// Dropped in this order: a thread that is let in finds a number.
struct Number {
    number: usize,
    free: Arc<Mutex<Vec<usize>>>,
    _permit: OwnedSemaphorePermit,
}

impl Numbers {
    fn new(slots: usize) -> Self {
        let free = (0..slots).rev().collect();
        Numbers { permits: Arc::new(Semaphore::new(slots)), free: Arc::new(Mutex::new(free)) }
    }

    async fn acquire(&self) -> Number {
        let permit = self.permits.clone().acquire_owned().await.expect("open");
        let number = self.free.lock().pop().expect("one for each permit");
        Number { number, free: self.free.clone(), _permit: permit }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.free.lock().push(self.number);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on a thread that has nothing else to do.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A slot that is there.
fn alone(options: &Options) -> Vec<Line> {
    fn many(operations: u64, one: impl Fn()) -> f64 {
        let begun = Instant::now();
        (0..operations).for_each(|_| one());
        begun.elapsed().as_nanos() as f64 / operations as f64
    }
    let pool = SlotPool::new(SLOTS).expect("a size");
    let ours = Contestant::new(OURS, move |operations| {
        many(operations, || drop(pool.acquire(Limits::NONE).wait().expect("open")))
    });
    let numbers = Numbers::new(SLOTS);
    let theirs = Contestant::new(NUMBERS, move |operations| {
        many(operations, || drop(block_on(numbers.acquire())))
    });
    race(options, "slot, released, uncontended", &[ours, theirs], &[])
}

/// More threads than slots. Where a hold takes no time, a thread is through before the next one
/// begins; where it gives way once, the others wait.
fn threads(
    options: &Options,
    work: &str,
    hold: fn(),
    bars: &[(&'static str, f64, f64)],
) -> Vec<Line> {
    const THREADS: u64 = 64;
    // A trial in which they wait takes a hundred times as long as one in which they do not.
    const MOST: u64 = 100 * THREADS;
    /// Nanoseconds of each operation of all threads.
    fn all(operations: u64, one: impl Fn() + Sync) -> f64 {
        let share = operations.min(MOST).div_ceil(THREADS);
        let start = Barrier::new(THREADS as usize + 1);
        let begun = thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    (0..share).for_each(|_| one());
                });
            }
            start.wait();
            Instant::now()
        });
        begun.elapsed().as_nanos() as f64 / (share * THREADS) as f64
    }
    let pool = SlotPool::new(SLOTS).expect("a size");
    let ours = Contestant::new(OURS, move |operations| {
        all(operations, || {
            let _slot = pool.acquire(Limits::NONE).wait().expect("open");
            hold();
        })
    });
    let numbers = Numbers::new(SLOTS);
    let theirs = Contestant::new(NUMBERS, move |operations| {
        all(operations, || {
            let _number = block_on(numbers.acquire());
            hold();
        })
    });
    race(options, work, &[ours, theirs], bars)
}

/// More tasks than slots, each of which gives way once: so the others do wait.
fn tasks(options: &Options) -> Vec<Line> {
    const TASKS: u64 = 64;
    fn all<F>(operations: u64, one: impl Fn(u64) -> F) -> f64
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let share = operations.div_ceil(TASKS);
        let begun = Instant::now();
        runtime.block_on(async {
            let all: Vec<_> = (0..TASKS).map(|_| tokio::spawn(one(share))).collect();
            for task in all {
                task.await.expect("a task");
            }
        });
        begun.elapsed().as_nanos() as f64 / (share * TASKS) as f64
    }
    let pool = SlotPool::new(SLOTS).expect("a size");
    let ours = Contestant::new(OURS, move |operations| {
        all(operations, |share| {
            let pool = pool.clone();
            async move {
                for _ in 0..share {
                    let _slot = pool.acquire(Limits::NONE).await.expect("open");
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    let numbers = Numbers::new(SLOTS);
    let theirs = Contestant::new(NUMBERS, move |operations| {
        all(operations, |share| {
            let numbers = numbers.clone();
            async move {
                for _ in 0..share {
                    let _number = numbers.acquire().await;
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    race(options, "slot, yield, released, 64 tasks", &[ours, theirs], &[(NUMBERS, 1.3, 1.0)])
}

/// From the end of a use to the begin of the next, which somebody waits for in another thread: the
/// median.
fn handed(options: &Options) -> Vec<Line> {
    /// `get` waits for the slot; it says first that it does.
    fn median_of(times: u64, get: impl Fn(&SlotPool, &dyn Fn()) -> Slot + Sync) -> f64 {
        let pool = SlotPool::new(1).expect("a size");
        let (waits, it_waits) = mpsc::channel();
        let (came, it_came) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        thread::scope(|scope| {
            let (pool, get) = (&pool, &get);
            scope.spawn(move || {
                while may_go.recv().is_ok() {
                    let slot = get(pool, &|| waits.send(()).expect("somebody listens"));
                    came.send(Instant::now()).expect("somebody listens");
                    drop(slot);
                }
            });
            let took = (0..times).map(|number| {
                let slot = pool.acquire(Limits::NONE).wait().expect("open");
                go.send(()).expect("it listens");
                it_waits.recv().expect("it waits");
                // Anywhere between two looks of one that looks again and again.
                thread::sleep(Duration::from_millis(1 + number * 37 % 100));
                let begun = Instant::now();
                drop(slot);
                let came: Instant = it_came.recv().expect("it comes");
                came.duration_since(begun).as_nanos() as f64
            });
            let took = median(took.collect::<Vec<_>>().into_iter());
            drop(go);
            took
        })
    }
    let times = if options.quick { 1 } else { 3 };
    let ours = Contestant::new(OURS, move |_| {
        median_of(times, |pool, waits| {
            let asked = pool.acquire(Limits::NONE);
            waits();
            asked.wait().expect("open")
        })
    });
    let theirs = Contestant::new(POLLING, move |_| {
        median_of(times, |pool, waits| {
            waits();
            loop {
                match pool.try_acquire() {
                    Ok(slot) => return slot,
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        })
    });
    race(options, "a slot is handed on", &[ours, theirs], &[(POLLING, 0.002, 0.002)])
}

pub(crate) fn rows(options: &Options) -> Vec<Line> {
    let quick = threads(options, "slot, released, 64 threads", || (), &[(NUMBERS, 1.5, 1.0)]);
    let yields = threads(options, "slot, yield, released, 64 threads", thread::yield_now, &[]);
    let rows = [alone(options), quick, yields, tasks(options), handed(options)];
    rows.into_iter().flatten().collect()
}
