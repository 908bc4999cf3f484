//! The timing of a run, and the loads of one object: some threads, all at once, until everything
//! has been handled.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;

use super::{Subject, spend};

/// The duration of one run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    /// From the first start until everything has been handled.
    pub(crate) wall: Duration,
    /// Processor time of the whole process in between.
    pub(crate) cpu: Duration,
    /// True if another program had one of the processors for a while: the threads were not all at
    /// work at once.
    pub(crate) disturbed: bool,
}

/// Returns how often this thread has lost its processor to another one against its will, as far as
/// the system reports it.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
        .unwrap_or(0)
}

/// Times `work` on this thread.
pub(crate) fn alone<R>(work: impl FnOnce() -> R) -> (Took, R) {
    let preempted = preemptions();
    let (cpu, start) = (ProcessTime::now().as_duration(), Instant::now());
    let made = work();
    let (wall, cpu) = (start.elapsed(), ProcessTime::now().as_duration() - cpu);
    (Took { wall, cpu, disturbed: preemptions() > preempted }, made)
}

/// Runs `work` with its number on each of `threads`, all at once. The last one to complete runs
/// `finish`, which is timed too.
pub(crate) fn at_once(
    threads: usize,
    work: impl Fn(usize) + Sync,
    finish: impl Fn() + Sync,
) -> Took {
    if threads == 1 {
        let both = || {
            work(0);
            finish();
        };
        return alone(both).0;
    }
    let (gate, at_work) = (Barrier::new(threads), AtomicUsize::new(threads));
    let run = |number: usize| {
        let preempted = preemptions();
        gate.wait();
        let (cpu, start) = (ProcessTime::now().as_duration(), Instant::now());
        work(number);
        if at_work.fetch_sub(1, Ordering::AcqRel) == 1 {
            finish();
        }
        let end = (Instant::now(), ProcessTime::now().as_duration());
        ((start, cpu), end, preemptions() > preempted)
    };
    let run = &run;
    let runs: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        all.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
    });
    let first = runs.iter().map(|run| run.0).min().expect("there is a thread");
    let last = runs.iter().map(|run| run.1).max().expect("there is a thread");
    let wall = last.0 - first.0;
    let late = runs.iter().any(|run| run.0.0 - first.0 > wall / 20);
    Took { wall, cpu: last.1 - first.1, disturbed: late || runs.iter().any(|run| run.2) }
}

/// Runs [`at_once`] on a subject that it creates; checks that `expected` messages have been
/// handled.
fn contend<S: Subject>(threads: usize, expected: u64, work: impl Fn(&S) + Sync) -> Took {
    let subject = S::new();
    let all_handled = || assert_eq!(subject.handled(), expected, "{}: messages were lost", S::NAME);
    at_once(threads, |_| work(&subject), all_handled)
}

/// Sends `messages` from each thread, with `own` rounds of its own work before each.
pub(crate) fn exchange<S: Subject>(threads: usize, messages: u64, handler: u32, own: u32) -> Took {
    contend::<S>(threads, messages * threads as u64, |subject| {
        let mut mine = 1;
        for _ in 0..messages {
            mine = spend(mine, own);
            subject.give(handler);
        }
        black_box(mine);
    })
}

/// As [`exchange`], but returns how long one call in `every` has taken, in nanoseconds, the clock's
/// own time included.
pub(crate) fn timed<S: Subject>(
    threads: usize,
    messages: u64,
    handler: u32,
    own: u32,
    every: u64,
) -> Vec<u32> {
    let all = parking_lot::Mutex::new(Vec::new());
    contend::<S>(threads, messages * threads as u64, |subject| {
        let mut calls = Vec::with_capacity((messages / every + 1) as usize);
        let (mut mine, mut until) = (1, 1);
        for _ in 0..messages {
            mine = spend(mine, own);
            until -= 1;
            if until > 0 {
                subject.give(handler);
                continue;
            }
            until = every;
            let start = Instant::now();
            subject.give(handler);
            calls.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        black_box(mine);
        all.lock().append(&mut calls);
    });
    all.into_inner()
}
