//! Trials in which subjects take turns.

use std::time::Duration;

use crate::Options;
use crate::workloads::runs::Took;

const TRIAL: Duration = Duration::from_millis(5);
/// The number of repetitions of a trial that lost a processor to another program.
const ATTEMPTS: usize = 8;
/// The maximum number of rounds of trials that take about a second.
const ROUNDS_OF_CROWD: usize = 7;

/// One load under which subjects are compared.
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) threads: usize,
    /// The duration of a trial.
    pub(crate) trial: Duration,
    /// The number of operations of each thread in a trial, instead of a duration.
    pub(crate) operations: Option<u64>,
}

/// One subject: a run of this many operations per thread.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) helped: bool,
    pub(crate) run: Box<dyn Fn(u64) -> Took>,
}

impl Load {
    pub(crate) fn new(name: impl Into<String>, threads: usize) -> Self {
        Load { name: name.into(), threads, trial: TRIAL, operations: None }
    }
}

impl Contender {
    pub(crate) fn new(
        name: &'static str,
        helped: bool,
        run: impl Fn(u64) -> Took + 'static,
    ) -> Self {
        Contender { name, helped, run: Box::new(run) }
    }
}

/// The contenders of one load, and the results of their trials so far.
pub(crate) struct Race {
    pub(crate) load: Load,
    contenders: Vec<Contender>,
    /// Operations of each thread in a trial of each contender.
    operations: Vec<u64>,
    /// For each contender and round: nanoseconds per operation, and processor time.
    took: Vec<Vec<(f64, f64)>>,
    /// Trials that another program may have disturbed avoidably: a load with more threads than
    /// processors always is.
    pub(crate) trials: usize,
    pub(crate) disturbed: usize,
}

impl Race {
    /// Runs each contender, whose answer is checked, and determines the length of a trial: several
    /// slices of the scheduler if threads share a processor.
    pub(crate) fn new(options: &Options, load: Load, contenders: Vec<Contender>) -> Self {
        let trial = load.trial.as_secs_f64() * load.threads.div_ceil(2) as f64;
        let fill = |one: &Contender| {
            let seconds = |operations: u64| {
                ((one.run)(operations).wall.as_secs_f64() / operations as f64).max(1e-9)
            };
            let pilot = seconds(200);
            match (options.quick, load.operations) {
                (true, _) => 50,
                (false, Some(operations)) => operations,
                // Twice, because the first one was too short to be trusted.
                (false, None) => (trial / seconds((trial / 4.0 / pilot).clamp(200.0, 1e6) as u64))
                    .clamp(200.0, 5e6) as u64,
            }
        };
        let operations = contenders.iter().map(fill).collect();
        let took = vec![Vec::new(); contenders.len()];
        Race { load, contenders, operations, took, trials: 0, disturbed: 0 }
    }

    /// Returns the number of rounds, of the number that is wanted.
    pub(crate) fn rounds(&self, wanted: usize) -> usize {
        if self.load.operations.is_some() { wanted.min(ROUNDS_OF_CROWD) } else { wanted }
    }

    /// Runs a trial of each.
    pub(crate) fn round(&mut self, round: usize) {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for i in 0..self.contenders.len() {
            // The first one changes, so no contender always runs after the same neighbour's
            // remains.
            let i = (i + round) % self.contenders.len();
            let (one, operations) = (&self.contenders[i], self.operations[i]);
            let alone = self.load.threads <= processors && !one.helped;
            let mut attempts = if alone && self.load.operations.is_none() { ATTEMPTS } else { 1 };
            let run = loop {
                let run = (one.run)(operations);
                attempts -= 1;
                if attempts == 0 || !run.disturbed {
                    break run;
                }
            };
            if alone {
                self.trials += 1;
                self.disturbed += usize::from(run.disturbed);
            }
            let per = operations as f64 * self.load.threads as f64 / 1e9;
            self.took[i].push((run.wall.as_secs_f64() / per, run.cpu.as_secs_f64() / per));
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.contenders.iter().map(|one| one.name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names().position(|other| other == name)
    }

    /// Returns the median of the rounds, of either time.
    pub(crate) fn median(&self, i: usize, of: fn(&(f64, f64)) -> f64) -> f64 {
        quantile(self.took[i].iter().map(of), 0.5)
    }

    /// Returns the median of the ratios within each round.
    pub(crate) fn ratio(&self, i: usize, to: usize, of: fn(&(f64, f64)) -> f64, share: f64) -> f64 {
        quantile(self.took[i].iter().zip(&self.took[to]).map(|(a, b)| of(a) / of(b)), share)
    }
}

/// Interpolates between two neighbours.
pub(crate) fn quantile(of: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    let at = (all.len() - 1) as f64 * share;
    let (low, high) = (all[at.floor() as usize], all[at.ceil() as usize]);
    low + (high - low) * at.fract()
}
