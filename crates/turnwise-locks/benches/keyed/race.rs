//! Trials in which contestants take turns, and what came of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::Options;

/// So long a trial takes.
const TRIAL: Duration = Duration::from_millis(20);

/// One contestant: it does a number of operations, and returns the nanoseconds that each has taken.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    trial: Box<dyn Fn(u64) -> f64>,
}

impl Contestant {
    pub(crate) fn new(name: &'static str, trial: impl Fn(u64) -> f64 + 'static) -> Self {
        Contestant { name, trial: Box::new(trial) }
    }
}

/// One line of the table.
pub(crate) struct Line {
    pub(crate) work: String,
    pub(crate) name: &'static str,
    pub(crate) against: &'static str,
    /// Nanoseconds of one operation: its own and the other's.
    pub(crate) ns: (f64, f64),
    /// Medians of the ratios within each round.
    pub(crate) ratio: f64,
    pub(crate) must: Option<f64>,
    pub(crate) aim: Option<f64>,
}

/// The name of a ratio, its limit, and its goal.
pub(crate) type Bar = (&'static str, f64, f64);

/// Runs all contestants in turn, round after round. The first is compared with each of the others;
/// `bars` say what has to come of that.
pub(crate) fn race(
    options: &Options,
    work: &str,
    contestants: &[Contestant],
    bars: &[Bar],
) -> Vec<Line> {
    let took = race_all(options, contestants);
    lines(work, &contestants.iter().map(|one| one.name).collect::<Vec<_>>(), &took, bars)
}

/// Runs them without comparing: the time of each trial of each.
pub(crate) fn race_all(options: &Options, contestants: &[Contestant]) -> Vec<Vec<f64>> {
    let operations: Vec<u64> = contestants.iter().map(|one| length(options, one)).collect();
    let mut took = vec![Vec::new(); contestants.len()];
    for round in 0..options.rounds {
        for i in 0..contestants.len() {
            // Who comes first changes.
            let i = (i + round) % contestants.len();
            took[i].push((contestants[i].trial)(operations[i]));
        }
    }
    took
}

/// The number of operations in a trial of this one.
fn length(options: &Options, one: &Contestant) -> u64 {
    if options.quick {
        return 64;
    }
    let pilot = (one.trial)(1_000).max(1.0);
    let longer = (one.trial)((TRIAL.as_nanos() as f64 / 8.0 / pilot).clamp(100.0, 1e6) as u64);
    (TRIAL.as_nanos() as f64 / longer.max(1.0)).clamp(100.0, 5e6) as u64
}

pub(crate) fn lines(
    work: &str,
    names: &[&'static str],
    took: &[Vec<f64>],
    bars: &[Bar],
) -> Vec<Line> {
    let of = |i: usize| {
        let ratios = took[0].iter().zip(&took[i]).map(|(own, other)| own / other);
        let bar = bars.iter().find(|(name, ..)| *name == names[i]);
        Line {
            work: work.to_owned(),
            name: names[0],
            against: names[i],
            ns: (median(took[0].iter().copied()), median(took[i].iter().copied())),
            ratio: median(ratios),
            must: bar.map(|bar| bar.1),
            aim: bar.map(|bar| bar.2),
        }
    };
    (1..names.len()).map(of).collect()
}

pub(crate) fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Works for so long: as long as it takes to count so far, with the count in a register.
#[derive(Clone, Copy)]
pub(crate) struct Work(u32);

impl Work {
    /// As much as takes this time in nanoseconds on this machine, alone.
    pub(crate) fn of(nanoseconds: f64) -> Self {
        let step = |steps| {
            let begun = Instant::now();
            Work(steps).go();
            begun.elapsed().as_nanos() as f64
        };
        let one = median((0..31).map(|_| step(100_000) / 100_000.0));
        Work((nanoseconds / one) as u32)
    }

    #[inline]
    pub(crate) fn go(self) {
        let mut sum = 1_u64;
        for n in 0..self.0 {
            sum = black_box(sum.wrapping_mul(6_364_136_223_846_793_005) + u64::from(n));
        }
        black_box(sum);
    }
}
