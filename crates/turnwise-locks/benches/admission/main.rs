//! The cost of a decision, beside that of a mutex around the same.
//!
//! A decision looks into the table of who is in, works for 65 ns in place of an entry's row, and
//! writes the table. Short trials in which the contestants take turns in one process; per round the
//! ratio, over the rounds the medians.
//!
//! ```text
//! cargo bench -p turnwise-locks --bench admission [-- [--rounds N] [--only WORK] [--markdown] [--quick]]
//! ```
//! A ratio above what must be reached is marked with `<`.

#[path = "../keyed/race.rs"]
mod race;

use std::collections::HashMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, CommitError, Ledger};

use race::{Contestant, Line, Work, lines, race, race_all};

/// Arguments of the program.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    only: String,
    markdown: bool,
}

const USAGE: &str = "\
usage: cargo bench -p turnwise-locks --bench admission [-- OPTIONS]

  --rounds N    how often everything is measured; the medians are printed
  --only WORK   only the rows whose name has this in it
  --markdown    the table as GitHub wants it
  --quick       one round of tiny trials: figures that mean nothing, answers that do";

fn main() {
    let options = Options::read(std::env::args().skip(1)).unwrap_or_else(|why| {
        eprintln!("admission: {why}\n\n{USAGE}");
        std::process::exit(2);
    });
    options.head();
    let mut missed = 0;
    for (of, nanoseconds, counts) in
        [("", 65.0, &[1, 2, 4, 16][..]), ("1 us, ", 1e3, &[1, 4][..]), ("10 us, ", 1e4, &[4][..])]
    {
        let work = Work::of(nanoseconds);
        for &threads in counts {
            for (what, seats) in [("all in", u64::MAX), ("1 in 100 in", 0)] {
                let name = format!("{of}{what}, {threads} threads");
                if !name.contains(&options.only) || seats == 0 && !of.is_empty() {
                    continue;
                }
                // The table grows with the trial: all have trials of one length.
                let n = options.length(nanoseconds);
                let all = [
                    Contestant::new("awaited", move |_| admitted(threads, n, seats, work, 1)),
                    Contestant::new("32 at a time", move |_| admitted(threads, n, seats, work, 32)),
                    Contestant::new("mutex", move |_| mutexed(threads, n, seats, work, None)),
                ];
                let took = race_all(&options, &all);
                let bars: &[_] = if seats == 0 { &[] } else { &[("mutex", 1.2, 1.0)] };
                for own in [0, 1] {
                    let (names, took) = ([all[own].name, "mutex"], [&took[own], &took[2]]);
                    for line in lines(&name, &names, &took.map(Clone::clone), bars) {
                        missed += usize::from(options.print(&line));
                    }
                }
            }
        }
    }
    let work = Work::of(65.0);
    // What it is for: a commit that takes its time, as that of a database does.
    let commit = Duration::from_micros(200);
    for threads in [4, 64] {
        let name = format!("commit of 200 us, {threads} threads");
        if !name.contains(&options.only) {
            continue;
        }
        let all = [
            Contestant::new("awaited", move |n| {
                run(threads, n, |_| {
                    let book = Book { work, commit: Some(commit) };
                    let raffle = Admission::open(book, u64::MAX).expect("nothing to read");
                    move |ids: &mut dyn Iterator<Item = u64>| {
                        for id in ids {
                            assert!(raffle.apply(id, Limits::NONE).wait().is_ok());
                        }
                    }
                })
            }),
            Contestant::new("mutex", move |n| mutexed(threads, n, u64::MAX, work, Some(commit))),
        ];
        for line in race(&options, &name, &all, &[("mutex", 0.2, 0.05)]) {
            missed += usize::from(options.print(&line));
        }
    }
    println!("{missed} missed");
}

/// It works for each entry, and keeps nothing.
struct Book {
    work: Work,
    commit: Option<Duration>,
}

impl Ledger<u64> for Book {
    type Row = ();
    type Error = Infallible;

    fn load(&mut self) -> Result<Vec<(u64, u64)>, Infallible> {
        Ok(Vec::new())
    }

    fn begin(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn enter(&mut self, _: &u64, _: u64) -> Result<(), Infallible> {
        self.work.go();
        Ok(())
    }

    fn commit(&mut self) -> Result<(), CommitError<Infallible>> {
        self.commit.into_iter().for_each(thread::sleep);
        Ok(())
    }

    fn roll_back(&mut self) {}
}

/// All threads decide their share; nanoseconds per decision.
fn run<F, G>(threads: u64, decisions: u64, make: F) -> f64
where
    F: FnOnce(u64) -> G,
    G: Fn(&mut dyn Iterator<Item = u64>) + Send + Sync + 'static,
{
    let each = (decisions / threads).max(1);
    let decide = Arc::new(make(each * threads));
    let start = Arc::new(Barrier::new(threads as usize + 1));
    let running: Vec<_> = (0..threads)
        .map(|thread| {
            let (decide, start) = (decide.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                decide(&mut (thread * each..(thread + 1) * each));
            })
        })
        .collect();
    start.wait();
    let begun = Instant::now();
    running.into_iter().for_each(|thread| thread.join().expect("it decides"));
    begun.elapsed().as_nanos() as f64 / (each * threads) as f64
}

/// `seats` of 0: one of a hundred.
fn seats_of(seats: u64, decisions: u64) -> u64 {
    if seats == 0 { (decisions / 100).max(1) } else { seats }
}

fn admitted(threads: u64, decisions: u64, seats: u64, work: Work, window: usize) -> f64 {
    run(threads, decisions, |all| {
        let seats = seats_of(seats, all);
        let raffle = Admission::open(Book { work, commit: None }, seats).expect("nothing to read");
        move |ids: &mut dyn Iterator<Item = u64>| {
            let mut waiting = std::collections::VecDeque::with_capacity(window);
            for id in ids {
                waiting.push_back(raffle.apply(id, Limits::NONE));
                if waiting.len() == window {
                    drop(waiting.pop_front().map(|apply| apply.wait()));
                }
            }
            waiting.into_iter().for_each(|apply| drop(apply.wait()));
            assert!(raffle.status().count <= seats);
        }
    })
}

/// An answer of the mutex version, with as much in it as that of an admission.
enum Told {
    In(u64),
    Closed,
    Duplicate(u64),
}

fn mutexed(threads: u64, decisions: u64, seats: u64, work: Work, commit: Option<Duration>) -> f64 {
    run(threads, decisions, |all| {
        let (seats, names) = (seats_of(seats, all), Mutex::new(HashMap::<u64, u64>::new()));
        let decide = move |id: u64| {
            let mut names = names.lock();
            let count = names.len() as u64;
            if count >= seats {
                return Told::Closed;
            }
            if let Some(place) = names.get(&id) {
                return Told::Duplicate(*place);
            }
            work.go();
            names.insert(id, count + 1);
            commit.into_iter().for_each(thread::sleep);
            Told::In(count + 1)
        };
        move |ids: &mut dyn Iterator<Item = u64>| {
            for id in ids {
                match black_box(decide(id)) {
                    Told::In(place) | Told::Duplicate(place) => assert!(place <= seats),
                    Told::Closed => {}
                }
            }
        }
    })
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options =
            Options { rounds: 31, quick: false, only: String::new(), markdown: false };
        let mut measure = false;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            match word.as_str() {
                // Without it this is a test run.
                "--bench" => measure = true,
                "--test" | "--quick" => options.quick = true,
                "--rounds" => {
                    let rounds = value()?;
                    options.rounds =
                        rounds.parse().map_err(|_| format!("{rounds} is not a number"))?;
                }
                "--only" => options.only = value()?,
                "--markdown" => options.markdown = true,
                "--nocapture" | "--quiet" | "-q" => {}
                flag if flag.starts_with('-') => return Err(format!("{flag} is nothing I know")),
                filter => options.only = filter.to_owned(),
            }
        }
        options.quick |= !measure;
        if options.rounds == 0 {
            return Err("without a round there is nothing to print".into());
        }
        if options.quick {
            options.rounds = 1;
        }
        Ok(options)
    }

    /// The number of decisions in a trial of some 20 ms.
    fn length(&self, nanoseconds: f64) -> u64 {
        if self.quick { 64 } else { (20e6 / (nanoseconds + 150.0)) as u64 }
    }

    fn head(&self) {
        if self.markdown {
            println!("| work | | against | ns | ns | ratio | must | aim |");
            println!("|---|---|---|---:|---:|---:|---:|---:|");
        }
    }

    /// Prints a line; says whether it misses what must be reached.
    fn print(&self, line: &Line) -> bool {
        let Line { work, name, against, ns, ratio, must, aim } = line;
        let bar = |bar: &Option<f64>| bar.map_or("-".to_owned(), |bar| format!("{bar:.2}"));
        let missed = must.is_some_and(|must| *ratio > must);
        let mark = if missed { " <" } else { "" };
        let (must, aim) = (bar(must), bar(aim));
        let (own, other) = ns;
        if self.markdown {
            println!(
                "| {work} | {name} | {against} | {own:.0} | {other:.0} | {ratio:.2}{mark} | {must} | {aim} |"
            );
        } else {
            println!(
                "{work:<32} {name:<14} {against:<8} {own:>9.1} {other:>9.1} {ratio:>6.2} ({must}, {aim}){mark}"
            );
        }
        missed
    }
}
