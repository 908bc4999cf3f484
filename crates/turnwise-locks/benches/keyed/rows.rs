//! The rows: one function for each work.

use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use turnwise::ThreadPool;
use turnwise::time::Timers;
use turnwise_locks::{Keyed, Limits, Run};

use crate::Options;
use crate::race::{Bar, Contestant, Line, Work, lines, race};
use crate::subjects::{Counted, OneMutex, Ours, Pinned, Pool, Shard, Subject};

/// Nanoseconds of each of these operations, which `f` does.
fn each(operations: u64, f: impl FnOnce(u64)) -> f64 {
    let begun = Instant::now();
    f(operations);
    begun.elapsed().as_nanos() as f64 / operations as f64
}

/// Operations divided among threads that begin together: the wall time for each operation.
fn together(threads: u64, operations: u64, f: impl Fn(u64, u64) + Send + Sync) -> f64 {
    let share = operations.div_ceil(threads);
    let start = Barrier::new(threads as usize + 1);
    let mut begun = None;
    thread::scope(|scope| {
        for thread in 0..threads {
            let (f, start) = (&f, &start);
            scope.spawn(move || {
                start.wait();
                f(thread, share);
            });
        }
        begun = Some(Instant::now());
        start.wait();
    });
    let took = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
    took.as_nanos() as f64 / (share * threads) as f64
}

/// A key that was never used, each time.
pub(crate) fn fresh(options: &Options) -> Vec<Line> {
    fn one<S: Subject>(threads: u64) -> Contestant {
        let (subject, next) = (S::new(), AtomicU64::new(0));
        Contestant::new(S::NAME, move |operations| {
            let from = next.fetch_add(operations + threads, Relaxed);
            let took = together(threads, operations, |thread, share| {
                let ran = AtomicU64::new(0);
                for key in 0..share {
                    subject.run(from + thread * share + key, || {
                        ran.fetch_add(1, Relaxed);
                    });
                }
                assert_eq!(ran.into_inner(), share);
            });
            assert_eq!(subject.len(), 0, "keys are left");
            took
        })
    }
    let mut table = Vec::new();
    for threads in [1, 2] {
        let all = [
            one::<Ours>(threads),
            one::<Counted>(threads),
            one::<Shard>(threads),
            one::<Pool>(threads),
        ];
        let bars: &[Bar] = match threads {
            1 => &[(Counted::NAME, 1.0, 0.8), (Shard::NAME, 2.0, 1.2), (Pool::NAME, 0.7, 0.5)],
            _ => &[],
        };
        table.extend(race(options, &format!("fresh key, {threads} threads"), &all, bars));
    }
    table
}

/// One key that is pinned, uncontended.
pub(crate) fn pinned(options: &Options) -> Vec<Line> {
    fn one<S: Subject>() -> Contestant {
        let subject = S::new();
        Contestant::new(S::NAME, move |operations| {
            let mut ran = 0_u64;
            let took = each(operations, |operations| {
                for _ in 0..operations {
                    subject.run(1, || ran = black_box(ran) + 1);
                }
            });
            assert_eq!(ran, operations);
            took
        })
    }
    let all = [one::<Pinned>(), one::<OneMutex>()];
    race(options, "pinned key, alone", &all, &[(OneMutex::NAME, 1.3, 1.1)])
}

/// One key that all want.
pub(crate) fn hot(options: &Options) -> Vec<Line> {
    let work = Work::of(65.0);
    fn run<S: Subject>(name: &'static str, threads: u64, work: Work) -> Contestant {
        let subject = S::new();
        Contestant::new(name, move |operations| {
            together(threads, operations, |_, share| {
                for _ in 0..share {
                    subject.run(1, || work.go());
                }
            })
        })
    }
    fn start<S: Subject>(name: &'static str, threads: u64, work: Work) -> Contestant {
        let subject = S::new();
        Contestant::new(name, move |operations| {
            let ran = Arc::new(AtomicU64::new(0));
            together(threads, operations, |_, share| {
                for _ in 0..share {
                    let ran = ran.clone();
                    subject.start(1, move || {
                        work.go();
                        ran.fetch_add(1, Relaxed);
                    });
                }
                // All of it is part of the trial.
                while ran.load(Relaxed) < share * threads {
                    thread::yield_now();
                }
            })
        })
    }
    let mut table = Vec::new();
    for threads in [2, 4, 8, 16] {
        let all = [
            run::<Ours>("turnwise, run", threads, work),
            run::<Counted>(Counted::NAME, threads, work),
            run::<Pool>(Pool::NAME, threads, work),
        ];
        let bars = [(Counted::NAME, 1.3, 1.0)];
        table.extend(race(options, &format!("hot key, {threads} threads, run"), &all, &bars));
        let all = [
            start::<Ours>("turnwise, start", threads, work),
            start::<Counted>(Counted::NAME, threads, work),
        ];
        let bars = [(Counted::NAME, 1.0, 0.8)];
        table.extend(race(options, &format!("hot key, {threads} threads, start"), &all, &bars));
        let all = [
            run::<Pinned>("turnwise, pinned, run", threads, work),
            run::<OneMutex>(OneMutex::NAME, threads, work),
        ];
        table.extend(race(options, &format!("hot pinned key, {threads} threads"), &all, &[]));
    }
    table
}

/// Keys by Zipf's law.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf(sums.collect())
    }

    fn key(&self, random: u64) -> u64 {
        let all = self.0[self.0.len() - 1];
        let at = (random >> 11) as f64 / (1_u64 << 53) as f64 * all;
        self.0.partition_point(|sum| *sum < at) as u64
    }
}

/// The next of a row of random numbers.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Many keys, a few of them wanted by all: how long the slowest of a thousand calls takes.
pub(crate) fn zipf(options: &Options) -> Vec<Line> {
    const THREADS: u64 = 4;
    let keys = if options.quick { 1_000 } else { 100_000 };
    let calls = if options.quick { 2_000 } else { 100_000 };
    let (zipf, work) = (Arc::new(Zipf::new(keys, 0.99)), Work::of(1_000.0));
    type Trial = Box<dyn Fn() -> [f64; 3]>;
    fn one<S: Subject>(zipf: &Arc<Zipf>, work: Work, calls: u64) -> (&'static str, Trial) {
        let (subject, zipf) = (S::new(), zipf.clone());
        let trial = move || {
            let start = Barrier::new(THREADS as usize);
            let begun = Instant::now();
            let calling = |thread| {
                let mut seed = 0x9e37_79b9_7f4a_7c15 ^ (thread + 1);
                let mut took = Vec::with_capacity((calls / THREADS) as usize);
                start.wait();
                for _ in 0..calls / THREADS {
                    let key = zipf.key(random(&mut seed));
                    let begun = Instant::now();
                    subject.run(key, || work.go());
                    took.push(begun.elapsed().as_nanos() as u64);
                }
                took
            };
            let mut took: Vec<u64> = thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..THREADS).map(|thread| scope.spawn(move || calling(thread))).collect();
                threads.into_iter().flat_map(|thread| thread.join().expect("it calls")).collect()
            });
            let all = begun.elapsed().as_nanos() as f64 / took.len() as f64;
            took.sort_unstable();
            let at = |share: f64| took[(took.len() as f64 * share) as usize] as f64;
            [at(0.99), at(0.999), all]
        };
        (S::NAME, Box::new(trial))
    }
    let all = [
        one::<Ours>(&zipf, work, calls),
        one::<Counted>(&zipf, work, calls),
        one::<Shard>(&zipf, work, calls),
        one::<Pool>(&zipf, work, calls),
    ];
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    let mut took = [(); 3].map(|()| vec![Vec::new(); all.len()]);
    for round in 0..options.rounds {
        for i in 0..all.len() {
            let i = (i + round) % all.len();
            for (took, figure) in took.iter_mut().zip(all[i].1()) {
                took[i].push(figure);
            }
        }
    }
    let bars: Vec<Bar> = names.iter().map(|name| (*name, 1.2, 1.0)).collect();
    let what = [("p99", &[][..]), ("p99.9", &bars), ("each", &[])];
    let tables = what.iter().zip(&took);
    tables
        .flat_map(|((what, bars), took)| {
            lines(&format!("Zipf 0.99, {keys} keys, {THREADS} threads, {what}"), &names, took, bars)
        })
        .collect()
}

/// The slow key of [`slow`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slow {
    None,
    /// A thread waits.
    Blocks,
    /// A timer does.
    Waits,
}

impl Slow {
    /// Runs closures of 100 ms on a key, one after the other, until it is over.
    fn go_on(self, keyed: Keyed<u64>, over: Arc<AtomicBool>) {
        const TIME: Duration = Duration::from_millis(100);
        let next = keyed.clone();
        let again = move || {
            if !over.load(Relaxed) {
                self.go_on(next, over);
            }
        };
        match self {
            Slow::None => {}
            Slow::Blocks => drop(keyed.start(u64::MAX, Limits::NONE, move |()| {
                thread::sleep(TIME);
                again();
            })),
            Slow::Waits => drop(keyed.run_async(u64::MAX, Limits::NONE, async move |()| {
                Timers::global().sleep(TIME).await;
                again();
            })),
        }
    }
}

/// A key whose closures take 100 ms, one after the other, beside 1,000 quick keys, on a pool of two
/// workers: what becomes of the others. Closures that block keep a worker, those that wait none.
pub(crate) fn slow(options: &Options) -> Vec<Line> {
    const KEYS: u64 = 1_000;
    let work = Work::of(2_000.0);
    let length = Duration::from_millis(if options.quick { 20 } else { 200 });
    let trial = |slow: Slow| {
        let pool = ThreadPool::builder().threads(2).build().expect("threads");
        let keyed = Keyed::builder().executor(pool.handle()).build();
        let over = Arc::new(AtomicBool::new(false));
        slow.go_on(keyed.clone(), over.clone());
        let (begun, mut ran) = (Instant::now(), 0_u64);
        while begun.elapsed() < length {
            let start = |key| keyed.start(key, Limits::NONE, move |()| work.go());
            let runs: Vec<Run<()>> = (0..KEYS).map(start).collect();
            runs.into_iter().for_each(|run| run.wait().expect("open"));
            ran += KEYS;
        }
        let took = begun.elapsed().as_nanos() as f64 / ran as f64;
        over.store(true, Relaxed);
        assert!(keyed.shutdown(Duration::from_secs(10)).is_complete());
        assert!(pool.shutdown(Duration::from_secs(10)).is_complete());
        took
    };
    let with = [Slow::Waits, Slow::Blocks, Slow::None];
    let mut took = with.map(|_| Vec::new());
    for round in 0..options.rounds {
        for i in 0..with.len() {
            let i = (i + round) % with.len();
            took[i].push(trial(with[i]));
        }
    }
    let [waits, blocks, without] = took;
    let work = "1,000 quick keys, two workers";
    let beside = |name, took, least: f64| {
        let names = [name, "without it"];
        lines(work, &names, &[took, without.clone()], &[(names[1], 1.0 / least, 1.0)])
    };
    let mut table = beside("beside a key that waits", waits, 0.95);
    table.extend(beside("beside a key that blocks", blocks, 0.45));
    table
}
