//! Measures all subjects under all loads.
//!
//! In short trials, the subjects take turns, so that a change of the machine's speed affects all of
//! them. A trial begins when all threads have come to the start and ends when all messages have
//! been handled; then they are counted. Each is followed by a shorter one that reads the clock
//! around every seventh call, because reading it around each call would be a load of its own.
//!
//! Times are medians over the rounds, ratios are medians of the ratios within a round, percentiles
//! are of all timed calls of all rounds.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::Failure;
use crate::executor::{Choice, Place};
use crate::options::Options;
use crate::subjects::{Contender, MUTEX, Work, contenders};
use crate::workloads::{EXECUTOR, rounds_of};

/// The maximum number of rounds: more rounds change no median that matters.
const ROUNDS: usize = 15;
const LEAST_ROUNDS: usize = 3;
/// The maximum number of repeats of a trial in which another program used a processor.
const ATTEMPTS: usize = 3;
/// The interval of timed calls.
const TIMED: u64 = 7;

/// A load under which subjects are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub(crate) threads: usize,
    pub(crate) handler_ns: u32,
    /// The time of each thread's own work before each call.
    pub(crate) own_ns: u32,
}

/// One subject under one load.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) work: Work,
    pub(crate) load: Load,
    pub(crate) subject: &'static str,
    /// The time per operation over all threads: if each of two threads does one in 100 ns, it is
    /// 50.
    pub(crate) ns_per_op: f64,
    pub(crate) cpu_ns_per_op: f64,
    /// Nanoseconds of a call: median, 99 %, 99.9 %, maximum.
    pub(crate) call: [u32; 4],
    /// The ratio to the time of `parking_lot`; below 1 is faster.
    pub(crate) ratio: f64,
    /// Half of the rounds had a ratio between these two.
    pub(crate) spread: (f64, f64),
}

pub(crate) struct Measured {
    pub(crate) rows: Vec<Row>,
    pub(crate) processors: usize,
    /// The executor of the actors.
    pub(crate) executor: Choice,
    /// The minimum and the maximum number of rounds of a load.
    pub(crate) rounds: (usize, usize),
    /// The number of trials, and of those in which another program used a processor.
    pub(crate) trials: usize,
    pub(crate) disturbed: usize,
    pub(crate) took: Duration,
    /// The number of measured loads and of all loads, if the measurement was interrupted.
    pub(crate) interrupted: Option<(usize, usize)>,
}

impl Row {
    pub(crate) fn json(&self, executor: Choice) -> serde_json::Value {
        let Load { threads, handler_ns, own_ns } = self.load;
        let [p50, p99, p999, max] = self.call;
        let round = |x: f64, to: f64| (x * to).round() / to;
        json!({
            "work": self.work.name(), "handler_ns": handler_ns, "own_ns": own_ns, "threads": threads, "subject": self.subject,
            "ns_per_op": round(self.ns_per_op, 10.0), "cpu_ns_per_op": round(self.cpu_ns_per_op, 10.0),
            "p50": p50, "p99": p99, "p999": p999, "max": max, "ratio": round(self.ratio, 1000.0), "executor": executor.name(),
        })
    }
}

/// Measures all loads. Once `interrupted` is set, returns the results up to then.
pub(crate) fn measure(options: &Options, interrupted: &AtomicBool) -> Result<Measured, Failure> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let place = Place::new(options.executor, processors, 0)?;
    // It stays until the end of the program, with its threads.
    place.executor().into_iter().for_each(|executor| _ = EXECUTOR.set(executor));
    let helpers = if place.is_inline() { 0 } else { processors };
    let (loads, contenders) = (options.loads(processors), contenders(helpers));
    let (budget, begun) = (options.budget(), Instant::now());
    let rounds_per_microsecond = f64::from(rounds_of(1000.0));
    let style = ProgressStyle::with_template("{msg:>38} {wide_bar} {percent:>3}% {elapsed}")?;
    let bar = ProgressBar::new((loads.len() * ROUNDS) as u64).with_style(style);

    let executor = options.executor;
    let mut measured = Measured {
        rows: vec![],
        processors,
        executor,
        rounds: (usize::MAX, 0),
        trials: 0,
        disturbed: 0,
        took: Duration::ZERO,
        interrupted: None,
    };
    for (i, &load) in loads.iter().enumerate() {
        let Load { threads, handler_ns, own_ns } = load;
        bar.set_message(format!("{threads} threads, turn {handler_ns} ns, own {own_ns} ns"));
        bar.set_position((i * ROUNDS) as u64);
        // Time that one load does not use is given to later ones.
        let share = budget.saturating_sub(begun.elapsed()) / (loads.len() - i) as u32;
        let until = Instant::now() + share;
        let rounds = |ns: u32| (f64::from(ns) * rounds_per_microsecond / 1000.0).round() as u32;
        let mut bench = Bench::new(
            &contenders,
            load,
            rounds(handler_ns),
            rounds(own_ns),
            options.trial_ms,
            processors,
        );
        let mut done = 0;
        while !interrupted.load(Relaxed) {
            bench.round(done);
            bar.inc(1);
            done += 1;
            let enough = match options.rounds {
                Some(rounds) => done >= rounds,
                None => done >= ROUNDS || done >= LEAST_ROUNDS && Instant::now() >= until,
            };
            if enough {
                break;
            }
        }
        if interrupted.load(Relaxed) && done < options.rounds.unwrap_or(LEAST_ROUNDS) {
            // Too few rounds of this load for a result.
            measured.interrupted = Some((i, loads.len()));
            break;
        }
        measured.rounds = (measured.rounds.0.min(done), measured.rounds.1.max(done));
        measured.trials += done * contenders.len();
        measured.disturbed += bench.disturbed;
        bench.rows(&mut measured.rows);
    }
    bar.finish_and_clear();
    measured.took = begun.elapsed();
    Ok(measured)
}

/// One load, and its results so far.
struct Bench<'a> {
    contenders: &'a [Contender],
    load: Load,
    handler: u32,
    own: u32,
    processors: usize,
    /// The number of messages of each thread in a trial, for each contender.
    messages: Vec<u64>,
    /// Wall and processor time per operation, by contender and round.
    took: Vec<Vec<(f64, f64)>>,
    calls: Vec<Vec<u32>>,
    disturbed: usize,
}

impl<'a> Bench<'a> {
    /// Determines the number of messages that fill a trial.
    fn new(
        contenders: &'a [Contender],
        load: Load,
        handler: u32,
        own: u32,
        trial_ms: u64,
        processors: usize,
    ) -> Self {
        // Threads that share a processor need a time slice of the scheduler each.
        let trial = trial_ms as f64 / 1e3 * load.threads.div_ceil(processors) as f64;
        let fill = |one: &Contender| {
            let each = |messages: u64| {
                (one.run)(load.threads, messages, handler, own).wall.as_secs_f64().max(1e-9)
                    / messages as f64
            };
            // Twice, because the first result is too short to be reliable.
            let first = (trial / 4.0 / each(50)).clamp(50.0, 1e5) as u64;
            (trial / each(first)).clamp(50.0, 1e6) as u64
        };
        let messages = contenders.iter().map(fill).collect();
        let (took, calls) = (vec![vec![]; contenders.len()], vec![vec![]; contenders.len()]);
        Bench { contenders, load, handler, own, processors, messages, took, calls, disturbed: 0 }
    }

    fn round(&mut self, number: usize) {
        let threads = self.load.threads;
        for i in 0..self.contenders.len() {
            // The first subject changes, so none always runs after the same one.
            let i = (i + number) % self.contenders.len();
            let (one, messages) = (&self.contenders[i], self.messages[i]);
            let alone = threads + one.helpers <= self.processors;
            let mut attempts = if alone { ATTEMPTS } else { 1 };
            let took = loop {
                let took = (one.run)(threads, messages, self.handler, self.own);
                attempts -= 1;
                if attempts == 0 || !took.disturbed {
                    break took;
                }
            };
            self.disturbed += usize::from(alone && took.disturbed);
            let per = messages as f64 * threads as f64 / 1e9;
            self.took[i].push((took.wall.as_secs_f64() / per, took.cpu.as_secs_f64() / per));
            let fewer = (messages / 2).max(2 * TIMED);
            self.calls[i].append(&mut (one.time)(threads, fewer, self.handler, self.own, TIMED));
        }
    }

    fn rows(mut self, rows: &mut Vec<Row>) {
        let base = self
            .contenders
            .iter()
            .position(|one| one.subject == MUTEX)
            .expect("the mutex is always there");
        self.calls.iter_mut().for_each(|calls| calls.sort_unstable());
        for work in [Work::Send, Work::With] {
            for (i, one) in
                self.contenders.iter().enumerate().filter(|(_, one)| one.works.contains(&work))
            {
                let (took, calls) = (&self.took[i], &self.calls[i]);
                let ratios =
                    || took.iter().zip(&self.took[base]).map(|(one, mutex)| one.0 / mutex.0);
                rows.push(Row {
                    work,
                    load: self.load,
                    subject: one.subject,
                    ns_per_op: median(took.iter().map(|took| took.0)),
                    cpu_ns_per_op: median(took.iter().map(|took| took.1)),
                    call: [0.5, 0.99, 0.999, 1.0]
                        .map(|part| calls[((calls.len() - 1) as f64 * part) as usize]),
                    ratio: median(ratios()),
                    spread: (quantile(ratios(), 0.25), quantile(ratios(), 0.75)),
                });
            }
        }
    }
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    quantile(of, 0.5)
}

fn quantile(of: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    let place = (all.len() - 1) as f64 * part;
    let (below, above) = (all[place.floor() as usize], all[place.ceil() as usize]);
    below + (above - below) * place.fract()
}
