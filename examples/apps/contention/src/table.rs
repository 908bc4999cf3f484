//! The table of all loads: in 80 columns the time per operation, all subjects side by side; or
//! every figure.

use std::io::{self, Write};

use crate::measure::{Load, Measured};
use crate::subjects::{SUBJECTS, TURNWISE, Work};
use crate::{beside, time};

/// The names of the subjects above a narrow column.
const SHORT: [&str; SUBJECTS.len()] =
    ["turnwise", "mutex", "std", "textbook", "by hand", "channel"];

/// Writes the conditions of the measurement.
pub(crate) fn head(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    let Measured { processors, executor, rounds: (fewest, most), trials, disturbed, .. } = measured;
    let Measured { took, interrupted, .. } = measured;
    let (took, place) = (took.as_secs_f64(), executor.name());
    writeln!(
        out,
        "{processors} processors; actors run {place}; medians of {fewest} to {most} rounds in turn; {took:.0} s"
    )?;
    if *disturbed > 0 {
        writeln!(out, "{disturbed} of {trials} trials were disturbed by others on this machine")?;
    }
    if let Some((done, all)) = interrupted {
        writeln!(out, "INTERRUPTED: {done} of {all} loads have been measured")?;
    }
    Ok(())
}

/// Writes the time per operation, a line for each load.
pub(crate) fn narrow(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "\nTime per operation: that of all threads together by all their operations, own\n\
         work included. mutex: parking_lot's; textbook: a count and a concurrent queue;\n\
         by hand: a locked queue and a flag; channel: to a thread that owns the state.\n\
         ratio: turnwise to mutex, median over the rounds. --wide: tails, processor time."
    )?;
    for work in [Work::Send, Work::With] {
        let rows = || measured.rows.iter().filter(move |row| row.work == work);
        write!(out, "\n{:<4}{:>6}{:>7}", work.name(), "turn", "own")?;
        SHORT.iter().try_for_each(|name| write!(out, "{name:>9}"))?;
        writeln!(out, "{:>8}", "ratio")?;
        for row in rows().filter(|row| row.subject == TURNWISE) {
            let Load { threads, handler_ns, own_ns } = row.load;
            write!(out, "{threads:>2} x{:>6}{:>7}", time(handler_ns), time(own_ns))?;
            for subject in SUBJECTS {
                let took = beside(&measured.rows, row, subject)
                    .map_or(String::new(), |row| time(row.ns_per_op));
                write!(out, "{took:>9}")?;
            }
            writeln!(out, "{:>8.2}", row.ratio)?;
        }
    }
    Ok(())
}

/// Writes every figure, a line for each subject.
pub(crate) fn wide(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "\ntime, cpu: wall and processor time of all threads together by all their operations, own work included.\n\
         p50 to max: one call, clock included. ratio: time to parking_lot's in the same round, below 1 is faster;\n\
         half of the rounds had a ratio between the last two."
    )?;
    let mut before = None;
    for row in &measured.rows {
        let Load { threads, handler_ns, own_ns } = row.load;
        if before != Some((row.load, row.work)) {
            before = Some((row.load, row.work));
            let plural = if threads == 1 { "" } else { "s" };
            let title = format!(
                "{}, {threads} thread{plural}, turn {}, own {}",
                row.work.name(),
                time(handler_ns),
                time(own_ns)
            );
            write!(out, "\n{title:<42}")?;
            let names = ["time", "cpu", "p50", "p99", "p99.9", "max"];
            names.iter().try_for_each(|name| write!(out, "{name:>10}"))?;
            writeln!(out, "{:>9}{:>20}", "ratio", "between")?;
        }
        write!(out, "  {:<40}", row.subject)?;
        let calls = row.call.map(f64::from);
        let times = [row.ns_per_op, row.cpu_ns_per_op].into_iter().chain(calls);
        times.into_iter().try_for_each(|ns| write!(out, "{:>10}", time(ns)))?;
        let (least, most) = row.spread;
        writeln!(out, "{:>9.2}{:>20}", row.ratio, format!("{least:.2} - {most:.2}"))?;
    }
    Ok(())
}
