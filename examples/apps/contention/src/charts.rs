//! The figures: four panels each, one row for `send` and one for `with`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::measure::{Load, Measured, Row};
use crate::paint::{self, Figure, Line, Panel, Scale};
use crate::subjects::{SUBJECTS, Work};

/// The length of the turn in the charts; the table has the others.
const HANDLER_NS: u32 = 37;
/// The own work of the callers in the charts.
const OWN_NS: [u32; 2] = [0, 250];

/// Makes the folder, and checks that a file can be written there.
pub(crate) fn prepare(out: &Path) -> Result<(), Failure> {
    let probe = out.join(".contention");
    let tried = fs::create_dir_all(out)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe));
    tried.map_err(|error| cannot_write(out, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    format!("cannot write to {}: {error} (--out DIR says where the charts go)", path.display())
        .into()
}

/// Draws all charts, and returns their paths.
pub(crate) fn draw(out: &Path, measured: &Measured) -> Result<Vec<PathBuf>, Failure> {
    let figures = [
        ("throughput.svg", throughput(measured)),
        ("latency.svg", latency(measured)),
        ("cpu.svg", cpu(measured)),
    ];
    let mut drawn = Vec::new();
    for (name, figure) in figures {
        let path = out.join(name);
        fs::write(&path, paint::figure(&figure)?).map_err(|error| cannot_write(&path, &error))?;
        drawn.push(path);
    }
    Ok(drawn)
}

fn throughput(measured: &Measured) -> Figure {
    let y = |row: &Row| 1e3 / row.ns_per_op;
    Figure {
        title: "Throughput by threads: higher is better".into(),
        subtitle: subtitle(measured, "medians over interleaved trials"),
        panels: by_threads(measured, Scale::Linear, "million operations per second", y),
    }
}

fn cpu(measured: &Measured) -> Figure {
    Figure {
        title: "Processor time per operation: lower is better".into(),
        subtitle: subtitle(measured, "all threads together, turns and own work included"),
        panels: by_threads(measured, Scale::Nanoseconds, "processor time per operation", |row| {
            row.cpu_ns_per_op
        }),
    }
}

fn subtitle(measured: &Measured, what: &str) -> String {
    format!("{} processors; turns of {HANDLER_NS} ns; {what}", measured.processors)
}

fn by_threads(
    measured: &Measured,
    scale: Scale,
    y_title: &'static str,
    y: impl Fn(&Row) -> f64,
) -> Vec<Panel> {
    let mut threads: Vec<usize> = measured.rows.iter().map(|row| row.load.threads).collect();
    threads.dedup();
    let all = |work, own_ns| {
        let loads: Vec<Load> = threads
            .iter()
            .map(|&threads| Load { threads, handler_ns: HANDLER_NS, own_ns })
            .collect();
        let lines = SUBJECTS.iter().enumerate().map(|(subject, name)| Line {
            subject,
            values: loads
                .iter()
                .filter_map(|&load| find(measured, work, load, name).map(&y))
                .collect(),
        });
        Panel {
            title: match own_ns {
                0 => format!("{}, call after call", question(work)),
                _ => format!("{}, {own_ns} ns own work between", question(work)),
            },
            x: threads.iter().map(usize::to_string).collect(),
            x_title: "threads",
            scale,
            y_title,
            lines: lines.collect(),
        }
    };
    [Work::Send, Work::With]
        .into_iter()
        .flat_map(|work| OWN_NS.map(|own_ns| all(work, own_ns)))
        .collect()
}

fn latency(measured: &Measured) -> Figure {
    // Two threads, and many.
    let crowd = measured
        .rows
        .iter()
        .map(|row| row.load.threads)
        .filter(|&threads| threads <= 8)
        .max()
        .unwrap_or(1);
    let all = |work, threads| {
        let load = Load { threads, handler_ns: HANDLER_NS, own_ns: 0 };
        let lines = SUBJECTS.iter().enumerate().map(|(subject, name)| Line {
            subject,
            values: find(measured, work, load, name)
                .map_or(vec![], |row| row.call.map(f64::from).to_vec()),
        });
        Panel {
            title: format!("{}, {threads} threads, call after call", question(work)),
            x: ["p50", "p99", "p99.9", "max"].map(String::from).to_vec(),
            x_title: "of all timed calls",
            scale: Scale::Nanoseconds,
            y_title: "duration of a call",
            lines: lines.collect(),
        }
    };
    Figure {
        title: "How long a call takes: lower is better".into(),
        subtitle: subtitle(measured, "the clock's own time included"),
        panels: [Work::Send, Work::With]
            .into_iter()
            .flat_map(|work| [2, crowd].map(|threads| all(work, threads)))
            .collect(),
    }
}

fn question(work: Work) -> &'static str {
    match work {
        Work::Send => "no result needed (send)",
        Work::With => "every caller waits (with)",
    }
}

fn find<'a>(measured: &'a Measured, work: Work, load: Load, subject: &str) -> Option<&'a Row> {
    measured.rows.iter().find(|row| row.work == work && row.load == load && row.subject == subject)
}
