//! A raffle with too few seats, and everybody at the door at the same moment: real threads, exactly
//! as many let in as there are seats, everybody answered.
//!
//! ```text
//! cargo run --release --example raffle -- --entrants 100 --seats 15
//! cargo run --release --example raffle -- --entrants 100 --seats 100 --service 66.7ms --wait 5s
//! cargo run --release --example raffle -- --without-lock      # the accident
//! cargo run --release --example raffle -- --commit 2ms [--mutex]  # the price
//! ```
//!
//! Start reading at `raffles`: the admission and its ledger are there, beside the two other ways.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done, and all is as it must be |
//! | 1 | it is not, as always with `--without-lock`; or the output could not be written |
//! | 2 | the command line makes no sense |

#[path = "../../../../examples/common/arguments.rs"]
mod arguments;
mod options;
mod raffles;
mod report;

use std::error::Error;
use std::io;
use std::panic;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use options::Options;
use raffles::PLANNED;
use report::{Answer, Report};

fn main() -> ExitCode {
    let options: Options = match arguments::parse("raffle") {
        Ok(options) => options,
        Err(code) => return code,
    };
    let report = match run(&options) {
        Ok(report) => report,
        Err(failure) => {
            eprintln!("raffle: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let printed = if options.json { report.print_json() } else { report.print_tables() };
    match printed {
        // The reader of the output has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("raffle: {error}");
            return ExitCode::FAILURE;
        }
        _ => {}
    }
    let wrong = report.wrong();
    for what in &wrong {
        eprintln!("raffle: {what}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(options: &Options) -> Result<Report<'_>, Box<dyn Error>> {
    // Panics that were asked for are not news.
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |news| {
        let text = news.payload().downcast_ref::<String>().map(String::as_str);
        if text.or(news.payload().downcast_ref::<&str>().copied()) != Some(PLANNED) {
            told(news);
        }
    }));

    let (way, raffle, rows) = raffles::make(options)?;
    let bar = ProgressBar::new(options.entrants as u64)
        .with_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} answered")?);
    let threads = options.threads();
    let start = Barrier::new(threads + 1);
    let enter = |thread: usize| {
        start.wait();
        let mut answers = Vec::new();
        for entrant in (thread..options.entrants).step_by(threads) {
            let (name, called) = (options.name_of(entrant), Instant::now());
            let (told, applied) = raffle.apply(name);
            answers.push(Answer { name, told, called, applied, ended: Instant::now() });
            bar.inc(1);
        }
        answers
    };
    let (answers, took) = thread::scope(|scope| -> io::Result<_> {
        let mut running = Vec::new();
        for number in 0..threads {
            let thread = thread::Builder::new().stack_size(256 << 10);
            let enter = &enter;
            // Without a thread there is no raffle, and those that are there wait for its start.
            match thread.spawn_scoped(scope, move || enter(number)) {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    eprintln!("raffle: {error}: fewer --threads?");
                    std::process::exit(1);
                }
            }
        }
        start.wait();
        let begun = Instant::now();
        // One that has panicked is not answered.
        let answers: Vec<_> =
            running.into_iter().flat_map(|it| it.join().unwrap_or_default()).collect();
        Ok((answers, begun.elapsed()))
    })?;
    bar.finish_and_clear();
    let rows = rows.lock().clone();
    let count = raffle.count();
    Ok(Report { options, way, answers, rows, count, took })
}
