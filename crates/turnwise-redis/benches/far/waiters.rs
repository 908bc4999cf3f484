//! A crowd on one lock: processes with waiters.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use crate::subject::{Failure, Kind, Subject, connection, runtime};
use crate::{count, median};

#[derive(Args)]
pub(crate) struct Crowd {
    /// Number of processes.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) processes: u32,
    /// Waiters in each.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) waiters: u32,
    /// Milliseconds that each holds the lock.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub(crate) hold: u64,
    /// Seconds of each round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
}

#[derive(Args)]
pub(crate) struct Work {
    #[arg(long)]
    kind: Kind,
    #[arg(long)]
    server: String,
    #[arg(long)]
    name: String,
    #[command(flatten)]
    crowd: Crowd,
}

/// The processes of a crowd.
pub(crate) fn spawn(
    kind: Kind,
    url: &str,
    name: &str,
    crowd: &Crowd,
) -> Result<Vec<Child>, Failure> {
    let program = std::env::current_exe()?;
    let numbers = [crowd.processes.into(), crowd.waiters.into(), crowd.hold, crowd.seconds];
    let [processes, waiters, hold, seconds] = numbers.map(|number: u64| number.to_string());
    let child = |_| {
        Command::new(&program)
            .args(["worker", "--kind", kind.name(), "--server", url, "--name", name])
            .args(["--processes", &processes, "--waiters", &waiters])
            .args(["--hold", &hold, "--seconds", &seconds])
            .stdout(Stdio::piped())
            .spawn()
    };
    Ok((0..crowd.processes).map(child).collect::<Result<_, _>>()?)
}

/// One of these processes.
pub(crate) fn work(work: &Work) -> Result<(), Failure> {
    let subject = Subject::connect(work.kind, &work.server)?;
    let hold = Duration::from_millis(work.crowd.hold);
    let until = Instant::now() + Duration::from_secs(work.crowd.seconds);
    let me = std::process::id();
    let values: Vec<_> = (0..work.crowd.waiters).map(|waiter| format!("{me} {waiter}")).collect();
    let turns = values.iter().map(|value| subject.turns(&work.name, hold, value, until));
    let grants = subject.runtime().block_on(try_join_all(turns))?;
    let held: Duration = grants.iter().map(|(_, held)| held).sum();
    let grants: u64 = grants.iter().map(|(grants, _)| grants).sum();
    println!("{grants} {}", held.as_secs_f64());
    Ok(())
}

/// Measures all ways, round by round: grants, commands for each, the fewest of a process beside the
/// most, and the part of the time in which the lock was held.
pub(crate) fn crowds(url: &str, rounds: u32, crowd: &Crowd) -> Result<(), Failure> {
    let runtime = runtime()?;
    let mut to = runtime.block_on(connection(url))?;
    let mut rows = vec![(Vec::new(), Vec::new(), Vec::new(), Vec::new()); Kind::CROWDS.len()];
    for round in 0..rounds {
        for (kind, row) in Kind::CROWDS.into_iter().zip(&mut rows) {
            let name = format!("crowd {} {round}", kind.name());
            let (began, before) = (Instant::now(), runtime.block_on(count(&mut to, kind))?);
            let (mut grants, mut held) = (0, 0.0);
            let mut each = Vec::new();
            for mut child in spawn(kind, url, &name, crowd)? {
                let mut text = String::new();
                if let Some(mut out) = child.stdout.take() {
                    out.read_to_string(&mut text)?;
                }
                if !child.wait()?.success() {
                    return Err("a process of the crowd has failed".into());
                }
                let (own, time) = text.trim().split_once(' ').ok_or("a process said nothing")?;
                let own: u64 = own.parse()?;
                grants += own;
                held += time.parse::<f64>()?;
                each.push(own);
            }
            let took = began.elapsed().as_secs_f64();
            let commands = runtime.block_on(count(&mut to, kind))? - before;
            row.0.push(grants as f64 / took);
            row.1.push(commands as f64 / grants as f64);
            let least = each.iter().min().copied().unwrap_or(0);
            let most = each.iter().max().copied().unwrap_or(0);
            row.2.push(least as f64 / most as f64);
            row.3.push(held / took);
        }
    }
    let Crowd { processes, waiters, hold, seconds } = crowd;
    println!(
        "{processes} processes with {waiters} waiters on one lock, held for {hold} ms; \
         median of {rounds} rounds of {seconds} s"
    );
    println!(
        "  {:<28} {:>9} {:>7} {:>9} {:>12} {:>6}",
        "", "grants/s", "", "commands", "least / most", "held"
    );
    let first = rows.first().map(|row| row.0.clone()).unwrap_or_default();
    for (kind, (grants, commands, fair, held)) in Kind::CROWDS.into_iter().zip(rows) {
        let ratio = median(grants.iter().zip(&first).map(|(own, first)| own / first).collect());
        let [grants, commands, fair, held] = [grants, commands, fair, held].map(median);
        println!(
            "  {:<28} {grants:>9.1} {ratio:>7.2} {commands:>9.1} {fair:>12.2} {held:>6.2}",
            kind.title()
        );
    }
    Ok(())
}
