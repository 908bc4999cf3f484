//! The result: whether it is right, and the times.

use std::collections::HashSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::raffles::Told;

/// One application.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) name: u64,
    pub(crate) told: Told,
    /// Before the call.
    pub(crate) called: Instant,
    /// The moment at which it had its place in the queue.
    pub(crate) applied: Instant,
    /// The moment of its answer.
    pub(crate) ended: Instant,
}

/// All that is reported.
pub(crate) struct Report<'a> {
    pub(crate) options: &'a Options,
    pub(crate) way: &'static str,
    pub(crate) answers: Vec<Answer>,
    pub(crate) rows: Vec<(u64, u64)>,
    /// By the raffle's own count.
    pub(crate) count: u64,
    pub(crate) took: Duration,
}

impl Report<'_> {
    fn tally(&self, told: impl Fn(Told) -> bool) -> usize {
        self.answers.iter().filter(|answer| told(answer.told)).count()
    }

    fn accepted(&self) -> usize {
        self.tally(|told| matches!(told, Told::In { .. }))
    }

    fn unanswered(&self) -> usize {
        self.options.entrants - self.answers.len()
    }

    /// True if each that had a place in the queue before another applied is before that one.
    fn in_order(&self) -> bool {
        let mut answers: Vec<_> = self
            .answers
            .iter()
            .filter_map(|answer| match answer.told {
                Told::In { place } => Some((answer, place)),
                // Those that found it closed came after all that are in.
                Told::Closed => Some((answer, u64::MAX)),
                _ => None,
            })
            .collect();
        // In the order of their calls: the highest place of those that had applied before the call.
        answers.sort_by_key(|(answer, _)| answer.called);
        let mut before = answers.clone();
        before.sort_by_key(|(answer, _)| answer.applied);
        let (mut highest, mut next) = (0, before.iter().peekable());
        answers.iter().all(|(answer, place)| {
            while let Some((_, earlier)) = next.next_if(|(one, _)| one.applied < answer.called) {
                highest = highest.max(*earlier);
            }
            *place >= highest
        })
    }

    /// Errors in the result.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let Report { options, rows, count, .. } = self;
        let (accepted, seats) = (self.accepted(), options.seats);
        let mut wrong = Vec::new();
        let mut must = |so: bool, what: String| {
            if !so {
                wrong.push(what);
            }
        };
        must(self.unanswered() == 0, format!("{} were not answered", self.unanswered()));
        must(rows.len() as u64 <= seats, format!("{} rows for {seats} seats", rows.len()));
        must(
            rows.len() == accepted,
            format!("{} rows, {accepted} told that they are in", rows.len()),
        );
        must(rows.len() as u64 == *count, format!("{} rows, and {count} counted", rows.len()));
        let names: HashSet<_> = rows.iter().map(|(name, _)| name).collect();
        must(names.len() == rows.len(), "somebody is in twice".into());
        let written: HashSet<_> = rows.iter().collect();
        let has_row = |answer: &Answer| match answer.told {
            Told::In { place } => written.contains(&(answer.name, place)),
            _ => true,
        };
        must(self.answers.iter().all(has_row), "somebody who is in has no row".into());
        if options.is_certain() {
            let most = (options.names() as u64).min(seats);
            must(accepted as u64 == most, format!("{accepted} are in, not {most}"));
        }
        if !options.mutex {
            must(self.in_order(), "somebody has overtaken another".into());
        }
        wrong
    }

    /// Nanoseconds from the call to the answer, the shortest first.
    fn latencies(&self) -> Vec<u64> {
        let took = |answer: &Answer| answer.ended.saturating_duration_since(answer.called);
        let mut all: Vec<_> =
            self.answers.iter().map(|answer| took(answer).as_nanos() as u64).collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn print_json(&self) -> io::Result<()> {
        let latencies = self.latencies();
        let part = |part: f64| percentile(&latencies, part) / 1e6;
        let object = serde_json::json!({
            "way": self.way,
            "entrants": self.options.entrants,
            "seats": self.options.seats,
            "threads": self.options.threads(),
            "accepted": self.accepted(),
            "closed": self.tally(|told| told == Told::Closed),
            "duplicate": self.tally(|told| told == Told::Duplicate),
            "timed_out": self.tally(|told| told == Told::TimedOut),
            "expected": self.tally(|told| told == Told::Expected),
            "failed": self.tally(|told| told == Told::Failed),
            "unanswered": self.unanswered(),
            "rows": self.rows.len(),
            "in_order": self.in_order(),
            "latency_ms": { "p50": part(0.5), "p90": part(0.9), "p99": part(0.99), "max": part(1.0) },
            "seconds": self.took.as_secs_f64(),
            "wrong": self.wrong(),
        });
        writeln!(io::stdout().lock(), "{object}")
    }

    pub(crate) fn print_tables(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let Options { entrants, seats, .. } = self.options;
        let threads = self.options.threads();
        writeln!(out, "{entrants} entrants, {seats} seats, {threads} threads: {}\n", self.way)?;
        let expected = self.tally(|told| told == Told::Expected);
        for (what, number) in [
            ("in", self.accepted()),
            ("closed", self.tally(|told| told == Told::Closed)),
            ("duplicate", self.tally(|told| told == Told::Duplicate)),
            ("timed out", self.tally(|told| told == Told::TimedOut)),
            ("refused early", expected),
            ("failed", self.tally(|told| told == Told::Failed)),
            ("not answered", self.unanswered()),
        ] {
            // What there is none of goes without saying, but for the first and the last.
            if number > 0 || what == "in" || what == "not answered" {
                writeln!(out, "{what:<14} {number:>7}")?;
            }
        }
        let latencies = self.latencies();
        histogram(&mut out, &latencies)?;
        let part = |part: f64| format!("{:.1?}", nanos(percentile(&latencies, part) as u64));
        writeln!(
            out,
            "\nanswered: p50 {}, p99 {}, all after {:.1?}; in order: {}",
            part(0.5),
            part(0.99),
            self.took,
            if self.in_order() { "yes" } else { "no" }
        )
    }
}

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn percentile(sorted: &[u64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at.min(last)).map_or(0.0, |&nanos| nanos as f64)
}

/// A histogram of the times, by factors of two or more, in a dozen lines at most.
fn histogram(out: &mut impl Write, sorted: &[u64]) -> io::Result<()> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return Ok(()) };
    let class = |nanos: u64| nanos.max(1).ilog2();
    let (from, to) = (class(*first), class(*last));
    let step = (to - from) / 12 + 1;
    let mut lines = vec![0_usize; ((to - from) / step) as usize + 1];
    for one in sorted {
        lines[((class(*one) - from) / step) as usize] += 1;
    }
    let most = lines.iter().max().copied().unwrap_or(1).max(1);
    writeln!(out, "\nanswered within")?;
    for (line, number) in lines.into_iter().enumerate() {
        let end = 1_u64.checked_shl(from + (line as u32 + 1) * step).unwrap_or(u64::MAX);
        let bar = "#".repeat((number * 50).div_ceil(most));
        writeln!(out, "{:>10} {number:>7} {bar}", format!("{:.1?}", nanos(end)))?;
    }
    Ok(())
}
