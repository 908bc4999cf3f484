//! Medians over rounds, and their formatting.

use std::fmt::{self, Write};
use std::time::Duration;

use crate::OPENING;
use crate::options::Options;

/// The result of one round on one bank.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) took: Duration,
    /// Counts, in the order of `Outcome`.
    pub(crate) outcomes: [usize; 4],
    /// The latencies of single transfers, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// The sum over all accounts, when the round was over.
    pub(crate) sum: u64,
}

/// All rounds on one bank.
#[derive(Debug)]
pub(crate) struct Variant {
    name: &'static str,
    per_second: Vec<f64>,
    /// p50, p99 and p99.9 of each round.
    percentiles: [Vec<f64>; 3],
    outcomes: [usize; 4],
    sums: Vec<u64>,
}

const PERCENTILES: [f64; 3] = [0.50, 0.99, 0.999];

impl Variant {
    pub(crate) fn new(name: &'static str) -> Self {
        Variant {
            name,
            per_second: vec![],
            percentiles: [vec![], vec![], vec![]],
            outcomes: [0; 4],
            sums: vec![],
        }
    }

    pub(crate) fn add(&mut self, mut round: Round) {
        let transfers: usize = round.outcomes.iter().sum();
        self.per_second.push(transfers as f64 / round.took.as_secs_f64());
        round.latencies.sort_unstable();
        for (rounds, part) in self.percentiles.iter_mut().zip(PERCENTILES) {
            let last = round.latencies.len().saturating_sub(1);
            let at = (round.latencies.len() as f64 * part) as usize;
            rounds.push(round.latencies.get(at.min(last)).map_or(0.0, |&nanos| nanos as f64));
        }
        self.outcomes.iter_mut().zip(round.outcomes).for_each(|(all, one)| *all += one);
        self.sums.push(round.sum);
    }

    /// Returns true if the sum was right after every round, and every transfer has ended.
    fn is_right(&self, options: &Options, rounds: u64) -> bool {
        let sum = options.accounts as u64 * OPENING;
        let transfers = options.transfers as u64 * rounds;
        self.sums.iter().all(|&seen| seen == sum)
            && self.outcomes.iter().sum::<usize>() as u64 == transfers
    }

    fn sum(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Returns the report, and whether the result of every bank is right.
pub(crate) fn report(variants: &[Variant], options: &Options, rounds: u64) -> (String, bool) {
    let mut text = String::new();
    let write = if options.json { json } else { table };
    write(&mut text, variants, options, rounds).expect("a string takes it all");
    (text, variants.iter().all(|variant| variant.is_right(options, rounds)))
}

fn table(out: &mut String, variants: &[Variant], options: &Options, rounds: u64) -> fmt::Result {
    let Options { accounts, transfers, threads, .. } = options;
    writeln!(
        out,
        "{accounts} accounts, {transfers} transfers in a round, {threads} threads; medians of {rounds} interleaved rounds"
    )?;
    writeln!(
        out,
        "{:<12}{:>13}{:>10}{:>10}{:>12}{:>9}",
        "", "transfers/s", "p50 ns", "p99 ns", "p99.9 ns", "ratio"
    )?;
    let first = variants.first().map_or(0.0, |variant| median(&variant.per_second));
    for variant in variants {
        let [p50, p99, p999] = variant.percentiles.each_ref().map(|rounds| median(rounds));
        let rate = median(&variant.per_second);
        writeln!(
            out,
            "{:<12}{rate:>13.0}{p50:>10.0}{p99:>10.0}{p999:>12.0}{:>9.2}",
            variant.name,
            rate / first
        )?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "{:<12}{:>13}{:>10}{:>10}{:>12}{:>12}  sum",
        "all rounds", "done", "too poor", "cancelled", "panicked", ""
    )?;
    for variant in variants {
        let [done, poor, cancelled, panicked] = variant.outcomes;
        let verdict = if variant.is_right(options, rounds) { "right" } else { "WRONG" };
        writeln!(
            out,
            "{:<12}{done:>13}{poor:>10}{cancelled:>10}{panicked:>12}{:>12}  {verdict}",
            variant.name,
            variant.sum()
        )?;
    }
    Ok(())
}

fn json(out: &mut String, variants: &[Variant], options: &Options, rounds: u64) -> fmt::Result {
    let Options { accounts, transfers, threads, .. } = options;
    let variants: Vec<_> = variants
        .iter()
        .map(|variant| {
            let [p50, p99, p999] = variant.percentiles.each_ref().map(|rounds| median(rounds));
            let [done, poor, cancelled, panicked] = variant.outcomes;
            format!(
                "{{\"name\":\"{}\",\"transfers_per_second\":{:.0},\"p50_ns\":{p50:.0},\"p99_ns\":{p99:.0},\"p99_9_ns\":{p999:.0},\
                 \"done\":{done},\"too_poor\":{poor},\"cancelled\":{cancelled},\"panicked\":{panicked},\
                 \"sum\":{},\"sum_is_right\":{}}}",
                variant.name,
                median(&variant.per_second),
                variant.sum(),
                variant.is_right(options, rounds),
            )
        })
        .collect();
    write!(
        out,
        "{{\"accounts\":{accounts},\"transfers\":{transfers},\"threads\":{threads},\"rounds\":{rounds},\"variants\":[{}]}}",
        variants.join(",")
    )
}
