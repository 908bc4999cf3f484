//! Measures all peers under all loads, taking turns.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::loads::Load;
use crate::options::Options;
use crate::peer::spend;
use crate::subjects::Subject;

/// The columns of the table; the bytes come last.
pub(crate) const LOADS: [Load; 14] = [
    Load::Tell { senders: 1, handler_ns: 0 },
    Load::Tell { senders: 2, handler_ns: 0 },
    Load::Tell { senders: 4, handler_ns: 0 },
    Load::Tell { senders: 8, handler_ns: 0 },
    Load::Tell { senders: 1, handler_ns: 65 },
    Load::Tell { senders: 2, handler_ns: 65 },
    Load::Tell { senders: 4, handler_ns: 65 },
    Load::Tell { senders: 8, handler_ns: 65 },
    Load::Ask { askers: 1 },
    Load::Ask { askers: 8 },
    Load::Pass { actors: 2 },
    Load::Pass { actors: 100 },
    Load::Random { askers: 8 },
    Load::Create,
];

/// The time of one operation of one load with one peer, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

/// One line of the table.
pub(crate) struct Row<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) figures: Vec<Figure>,
    pub(crate) resident: Option<f64>,
}

pub(crate) fn measure<'a>(subjects: &'a [Subject], options: &Options) -> Vec<Row<'a>> {
    let wanted =
        |subject: &Subject| options.only.as_ref().is_none_or(|word| subject.name.contains(word));
    let chosen: Vec<_> =
        subjects.iter().enumerate().filter(|(_, subject)| wanted(subject)).collect();
    let rounds_per_ns = rounds_per_ns();
    let trial = |subject: &Subject, load, operations| {
        let rounds = if let Load::Tell { handler_ns, .. } = load {
            (f64::from(handler_ns) * rounds_per_ns).round() as u32
        } else {
            0
        };
        let done = (subject.run)(load, operations, rounds, options.sizes());
        let each = |seconds: f64| seconds * 1e9 / done.operations as f64;
        Figure { wall: each(done.took.wall.as_secs_f64()), cpu: each(done.took.cpu.as_secs_f64()) }
    };
    let begun = Instant::now();
    eprintln!("finding out how much fills a trial");
    let fill = |subject: &Subject, load| {
        if load == Load::Create {
            return 0;
        }
        let seconds = options.trial_seconds();
        let first =
            (seconds / 4.0 / (trial(subject, load, 200).wall / 1e9)).clamp(200.0, 1e5) as u64;
        // Twice, because the first one is too short to be trusted.
        (seconds / (trial(subject, load, first).wall / 1e9)).clamp(200.0, 4e6) as u64
    };
    let operations: Vec<Vec<u64>> = chosen
        .iter()
        .map(|(_, subject)| LOADS.iter().map(|&load| fill(subject, load)).collect())
        .collect();

    let mut figures = vec![vec![vec![]; LOADS.len()]; chosen.len()];
    for round in 0..options.rounds() {
        eprintln!(
            "round {} of {}, {:.0} s",
            round + 1,
            options.rounds(),
            begun.elapsed().as_secs_f64()
        );
        for (column, &load) in LOADS.iter().enumerate() {
            for i in 0..chosen.len() {
                // The first one changes, so no peer always runs after the same neighbour's remains.
                let i = (i + round) % chosen.len();
                figures[i][column].push(trial(chosen[i].1, load, operations[i][column]));
            }
        }
    }
    eprintln!("memory, {:.0} s", begun.elapsed().as_secs_f64());
    let row = |(&(number, subject), figures): (&(usize, &'a Subject), &Vec<Vec<Figure>>)| Row {
        subject,
        figures: figures.iter().map(|rounds| middle(rounds)).collect(),
        resident: resident(number, options),
    };
    chosen.iter().zip(&figures).map(row).collect()
}

fn middle(rounds: &[Figure]) -> Figure {
    let median = |of: fn(&Figure) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
    };
    Figure { wall: median(|figure| figure.wall), cpu: median(|figure| figure.cpu) }
}

/// Measures in another process, which has done nothing else before.
fn resident(number: usize, options: &Options) -> Option<f64> {
    let mut command =
        Command::new(std::env::current_exe().expect("the system knows what is running"));
    command.args(["--resident", &number.to_string()]).stderr(Stdio::inherit());
    if options.quick {
        command.arg("--quick");
    }
    let output = command.output().expect("what is running can be run again");
    assert!(output.status.success(), "the measurement of memory failed");
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// Returns the number of rounds of [`spend`] in a nanosecond.
fn rounds_per_ns() -> f64 {
    const ROUNDS: u32 = 20_000;
    let best = (0..50).map(|i| {
        let start = Instant::now();
        black_box(spend(black_box(i), ROUNDS));
        start.elapsed()
    });
    f64::from(ROUNDS) / (best.min().unwrap_or_default().as_secs_f64() * 1e9)
}
