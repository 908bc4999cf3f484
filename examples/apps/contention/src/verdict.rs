//! The results for this crate in words, regime by regime.

use std::io::{self, Write};

use crate::beside;
use crate::measure::{Load, Measured, Row};
use crate::subjects::{MUTEX, SUBJECTS, TURNWISE, Work};

/// The ratio below which a difference is noise on most machines.
const EVEN: f64 = 1.05;

/// The maximum length of a line.
const COLUMNS: usize = 80;
const INDENT: &str = "    ";

/// Loads that answer one question.
struct Regime<'a> {
    work: Work,
    name: String,
    rows: Vec<&'a Row>,
}

fn regime(load: Load, processors: usize) -> String {
    if load.threads == 1 {
        return "one thread, no contention".into();
    }
    let crowd = if load.threads <= processors {
        "a processor per thread"
    } else {
        "threads share processors"
    };
    let own = if load.own_ns == 0 { "call after call" } else { "own work between" };
    let handler = if load.handler_ns < 20 { "short turns" } else { "longer turns" };
    format!("{crowd}, {own}, {handler}")
}

pub(crate) fn print(out: &mut impl Write, measured: &Measured, wide: bool) -> io::Result<()> {
    let mut regimes: Vec<Regime<'_>> = Vec::new();
    for work in [Work::Send, Work::With] {
        for row in measured.rows.iter().filter(|row| row.work == work && row.subject == TURNWISE) {
            let name = regime(row.load, measured.processors);
            match regimes.iter_mut().find(|regime| regime.work == work && regime.name == name) {
                Some(regime) => regime.rows.push(row),
                None => regimes.push(Regime { work, name, rows: vec![row] }),
            }
        }
    }
    writeln!(
        out,
        "\nVerdicts: turnwise to parking_lot, means over the loads of a regime; below 1 is\n\
         better for turnwise. Differences below {:.0} % do not count, nor do those where a\n\
         quarter of the rounds says the opposite.",
        100.0 * (EVEN - 1.0)
    )?;
    for work in [Work::Send, Work::With] {
        let question = match work {
            Work::Send => "send: the result is not used",
            Work::With => "with: every caller waits for the result",
        };
        write!(out, "\n{question:<59}{:>7}{:>7}{:>7}", "time", "cpu", "p99.9")?;
        writeln!(out, "{}", if wide { "  verdict" } else { "" })?;
        for regime in regimes.iter().filter(|regime| regime.work == work) {
            let [time, cpu, tail] = regime.means(&measured.rows);
            let mut verdict = vec![regime.verdict(time)];
            verdict.extend(of_tail(tail));
            verdict.push(format!("fastest: {}", regime.fastest(&measured.rows)));
            write!(out, "  {:<57}", regime.name)?;
            [time, cpu, tail].iter().try_for_each(|&value| write!(out, "{:>7}", ratio(value)))?;
            if wide {
                writeln!(out, "  {}", verdict.join("; "))?;
            } else {
                writeln!(out, "\n{}", filled(&verdict))?;
            }
        }
    }
    Ok(())
}

impl Regime<'_> {
    /// Returns the means of the ratios of time, processor time and p99.9.
    fn means(&self, all: &[Row]) -> [f64; 3] {
        let ratios = |row: &Row| {
            let mutex = beside(all, row, MUTEX).expect("the mutex is always there");
            let of = |mine: f64, other: f64| mine.max(1.0) / other.max(1.0);
            [
                row.ratio,
                of(row.cpu_ns_per_op, mutex.cpu_ns_per_op),
                of(row.call[2].into(), mutex.call[2].into()),
            ]
        };
        let sums = self.rows.iter().fold([0.0; 3], |sums, row| {
            let ratios = ratios(row);
            [0, 1, 2].map(|i| sums[i] + ratios[i].ln())
        });
        sums.map(|sum| (sum / self.rows.len() as f64).exp())
    }

    /// Names the subjects that took least time, and the number of loads: the two with the most.
    fn fastest(&self, all: &[Row]) -> String {
        let winner = |row: &Row| {
            let of = |&subject: &&&str| {
                beside(all, row, subject).map_or(f64::INFINITY, |row| row.ns_per_op)
            };
            SUBJECTS.iter().min_by(|a, b| of(a).total_cmp(&of(b))).copied()
        };
        let winners: Vec<_> = self.rows.iter().filter_map(|row| winner(row)).collect();
        let mut wins = SUBJECTS
            .map(|subject| (winners.iter().filter(|&&winner| winner == subject).count(), subject));
        wins.sort_by_key(|&(wins, _)| std::cmp::Reverse(wins));
        let shown = wins.iter().take(2).filter(|(wins, _)| *wins > 0);
        shown.map(|(wins, subject)| format!("{subject} {wins}")).collect::<Vec<_>>().join(", ")
    }

    fn verdict(&self, time: f64) -> String {
        let loads = self.rows.len();
        let lost = self.rows.iter().filter(|row| row.ratio > EVEN && row.spread.0 > 1.0).count();
        let won =
            self.rows.iter().filter(|row| row.ratio < 1.0 / EVEN && row.spread.1 < 1.0).count();
        let worst = self.rows.iter().map(|row| row.ratio).fold(0.0, f64::max);
        match (won, lost) {
            (0, 0) if (1.0 / EVEN..=EVEN).contains(&time) => "even: the mutex is as good".into(),
            (0, 0) => "undecided: the rounds disagree".into(),
            (_, 0) if won == loads => format!("WINS: {:.1}x the mutex's throughput", 1.0 / time),
            (_, 0) => format!("WINS {won} of {loads} loads, no clear difference else"),
            (0, _) if lost == loads => format!("LOSES: use the mutex, it is {time:.1}x as fast"),
            (0, _) => format!(
                "LOSES {lost} of {loads} loads, up to {worst:.1}x, no clear difference else"
            ),
            _ => format!("mixed: WINS {won}, LOSES {lost} of {loads} loads, up to {worst:.1}x"),
        }
    }
}

/// Describes the tail, if it differs from the time.
fn of_tail(tail: f64) -> Option<String> {
    match tail {
        _ if tail < 0.5 => Some(format!("p99.9 is {:.0}x shorter", 1.0 / tail)),
        _ if tail > 2.0 => Some(format!("p99.9 is {tail:.0}x LONGER")),
        _ => None,
    }
}

/// Formats a ratio in at most six columns.
fn ratio(value: f64) -> String {
    match value {
        _ if value < 1e3 => format!("{value:.2}"),
        _ if value < 1e6 => format!("{value:.0}"),
        _ => format!("{value:.0e}"),
    }
}

/// Joins as many parts in a line as fit.
fn filled(parts: &[String]) -> String {
    let mut lines = vec![String::new()];
    for (index, part) in parts.iter().enumerate() {
        let end = if index + 1 < parts.len() { ";" } else { "" };
        let line = lines.last_mut().expect("there is one from the beginning");
        if line.is_empty() {
            *line = format!("{INDENT}{part}{end}");
        } else if line.len() + 1 + part.len() + end.len() <= COLUMNS {
            *line += &format!(" {part}{end}");
        } else {
            lines.push(format!("{INDENT}{part}{end}"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_verdict_fits() {
        let verdict = "mixed: WINS 99, LOSES 99 of 99 loads, up to 99.9x".to_string();
        let other = "LOSES 9 of 9 loads, up to 99.9x, no clear difference else".to_string();
        let tail = of_tail(123_456_789.0).unwrap();
        let fastest = "fastest: parking_lot 99, hand-written 99".to_string();
        for parts in [[verdict, tail.clone(), fastest.clone()], [other, tail, fastest]] {
            let lines = filled(&parts);
            assert!(lines.lines().all(|line| line.len() <= COLUMNS), "{lines}");
        }
    }

    #[test]
    fn a_ratio_fits_its_column() {
        for value in [0.0, 0.5, 999.994, 999.999, 1e3, 999_999.9, 1e6, 1e9, f64::INFINITY] {
            assert!(ratio(value).len() <= 7, "{}", ratio(value));
        }
    }
}
