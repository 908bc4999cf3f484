//! Every figure, load by load.

use std::io::{self, Write};

use crate::measure::{Load, Measured};

pub(crate) fn print(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    let Measured { rows, processors, executor, rounds: (fewest, most), trials, disturbed, took } =
        measured;
    let (took, place) = (took.as_secs_f64(), executor.name());
    writeln!(
        out,
        "{processors} processors; actors run {place}; medians of {fewest} to {most} interleaved rounds; {took:.0} s"
    )?;
    writeln!(
        out,
        "ns/op: wall time of all threads together by all their operations, own work included. cpu ns/op: processor time likewise."
    )?;
    writeln!(
        out,
        "p50 to max: one call, clock included. ratio: ns/op to parking_lot's in the same round; below 1 is faster."
    )?;
    if *disturbed > 0 {
        writeln!(out, "{disturbed} of {trials} trials were disturbed by others on this machine.")?;
    }
    let mut before = None;
    for row in rows {
        let Load { threads, handler_ns, own_ns } = row.load;
        if before != Some((row.load, row.work)) {
            before = Some((row.load, row.work));
            let plural = if threads == 1 { "" } else { "s" };
            let title = format!(
                "{}, {threads} thread{plural}, handler {handler_ns} ns, own {own_ns} ns",
                row.work.name()
            );
            writeln!(
                out,
                "\n{title:<46}{:>9}{:>11}{:>9}{:>10}{:>11}{:>12}{:>8}",
                "ns/op", "cpu ns/op", "p50", "p99", "p99.9", "max", "ratio"
            )?;
        }
        let [p50, p99, p999, max] = row.call;
        writeln!(
            out,
            "  {:<44}{:>9.1}{:>11.1}{p50:>9}{p99:>10}{p999:>11}{max:>12}{:>8.2}",
            row.subject, row.ns_per_op, row.cpu_ns_per_op, row.ratio
        )?;
    }
    Ok(())
}
