//! Programs of actors, each compared with the rival that it must not be slower than.
//!
//! All rows take turns round by round, and within a row all subjects. A row shows the median of the
//! ratios within each round, by the clock and in processor time of the whole process, and its
//! bounds: `must` and `aim`. Losses come first. With several rivals, it is compared with the one
//! that was fastest in this run.

use std::cell::RefCell;
use std::env;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use crate::channel::Kanal;
use crate::race::{Contender, Load, Race};
use crate::workloads::actors::{creation, ring};
use crate::workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use crate::workloads::runs::{Took, exchange};
use crate::workloads::talk::{
    Quiet, asks_by_message, first_messages, quiet, random_pings, resident, tellers,
};
use crate::workloads::{Asks, OnPool, ParkingLot, Sends, Subject, Turnwise, Way, With, rounds_of};
use crate::{Options, figure, origin};

/// Objects that are created and dropped in a trial.
const CROWD: u64 = 100_000;
/// Messages to the quiet object in a trial: its p99 is the slowest of twenty.
const NOTES: u64 = 2_000;

/// One row of the table. The first contender is turnwise.
struct Goal {
    work: String,
    race: Race,
    must: f64,
    aim: Aim,
    /// True if a trial is not about its use of the processors.
    unloaded: bool,
    /// The times of single messages, for each contender that has them.
    quiets: Vec<Rc<RefCell<Quiets>>>,
}

enum Aim {
    Ratio(f64),
    /// As fast as this subject, which is no rival.
    TimeOf(&'static str),
}

/// All messages to a quiet object, of all rounds.
#[derive(Default)]
struct Quiets {
    took: Vec<u32>,
    flood: u64,
    during: Duration,
}

/// The printed part of a row.
struct Row {
    work: String,
    rival: String,
    ratio: f64,
    quartiles: Option<(f64, f64)>,
    cpu: Option<f64>,
    must: String,
    aim: String,
    /// A value above 1 is a loss.
    to_must: f64,
    reached: bool,
    ours: String,
    theirs: String,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut table = Table { options, goals: Vec::new(), names: Vec::new() };
    hops(&mut table);
    contention(&mut table);
    pool(&mut table);
    objects(&mut table);
    let bytes = table.wanted(BYTES);
    if table.goals.is_empty() && !bytes && !options.test {
        return Err(format!(
            "no work has \"{}\" in its name; there are:\n  {}",
            options.only,
            table.names.join("\n  ")
        ));
    }
    for round in 0..options.rounds {
        if !options.quick {
            eprintln!("round {} of {}", round + 1, options.rounds);
        }
        for goal in &mut table.goals {
            if round < goal.race.rounds(options.rounds) {
                goal.race.round(round);
            }
        }
    }
    let mut rows: Vec<Row> = table.goals.iter().map(Goal::row).collect();
    if bytes {
        rows.extend(bytes_row(options));
    }
    rows.sort_by(|a, b| b.to_must.total_cmp(&a.to_must));
    print(&rows, options);
    let sum = |of: fn(&Race) -> usize| table.goals.iter().map(|goal| of(&goal.race)).sum::<usize>();
    println!(
        "\n{} of {} trials were disturbed by others on this machine.",
        sum(|race| race.disturbed),
        sum(|race| race.trials)
    );
    if options.histogram {
        table.goals.iter().for_each(Goal::histogram);
    }
    Ok(())
}

/// The rows in the order in which they are measured.
struct Table<'a> {
    options: &'a Options,
    goals: Vec<Goal>,
    names: Vec<String>,
}

impl Table<'_> {
    fn wanted(&mut self, work: &str) -> bool {
        self.names.push(work.to_owned());
        work.contains(&self.options.only)
    }

    /// Adds a row, if it is selected. The first contender is turnwise.
    fn add(&mut self, load: Load, must: f64, aim: Aim, contenders: Vec<Contender>) {
        if self.wanted(&load.name) {
            let work = load.name.clone();
            let race = Race::new(self.options, load, contenders);
            self.goals.push(Goal { work, race, must, aim, unloaded: false, quiets: Vec::new() });
        }
    }
}

/// A contender that runs this closure.
fn way<W: Way>(run: impl Fn(u64) -> Took + 'static) -> Contender {
    Contender::new(W::NAME, W::HELPED, run)
}

/// Messages of `threads` threads to one object.
fn sends<S: Subject>(threads: usize) -> Contender {
    works::<S>(threads, 0.0)
}

/// Messages of `threads` threads to one object with a handler of about this many nanoseconds.
fn works<S: Subject>(threads: usize, handler: f64) -> Contender {
    let handler = rounds_of(handler);
    Contender::new(S::NAME, S::HELPED, move |messages| exchange::<S>(threads, messages, handler, 0))
}

/// From actor to actor, on the threads that send.
fn hops(table: &mut Table<'_>) {
    fn rings<W: Way>(members: usize) -> Contender {
        way::<W>(move |hops| ring::<W>(members, hops))
    }
    for (name, members, must, aim) in
        [("ping-pong, per hop", 2, 1.0, 0.8), ("ring of 100, per hop", 100, 0.9, 0.75)]
    {
        let both = vec![rings::<Turnwise>(members), rings::<Textbook>(members)];
        table.add(Load::new(name, 1), must, Aim::Ratio(aim), both);
    }
    fn asks<W: Way>(askers: usize) -> Contender {
        way::<W>(move |asks| asks_by_message::<W>(askers, asks))
    }
    for askers in [2, 16] {
        let name = format!("{askers} actors ask one, answers are messages");
        let both = vec![asks::<Turnwise>(askers), asks::<Textbook>(askers)];
        table.add(Load::new(name, 1), 1.05, Aim::Ratio(0.9), both);
    }
    fn pings<W: Way>(threads: usize) -> Contender {
        way::<W>(move |messages| random_pings::<W>(threads, 10_000, messages))
    }
    let name = "10,000 actors ping random others";
    for (name, threads) in [(name.to_owned(), 1), (format!("{name}, 2 threads"), 2)] {
        let both = vec![pings::<Turnwise>(threads), pings::<Textbook>(threads)];
        // Some messages for each of them.
        let load = Load { trial: Duration::from_millis(40), ..Load::new(name, threads) };
        table.add(load, 0.8, Aim::Ratio(0.6), both);
    }
    fn bank<W: Way>(threads: usize) -> Contender {
        way::<W>(move |transfers| tellers::<W>(threads, 1000, transfers))
    }
    for (name, threads) in [("bank, 2 tellers", 1), ("bank, 2 tellers, 2 threads", 2)] {
        let both = vec![bank::<Turnwise>(threads), bank::<Textbook>(threads)];
        table.add(Load::new(name, threads), 1.0, Aim::Ratio(0.8), both);
    }
}

/// Many threads and one plain actor; one thread and an idle one.
fn contention(table: &mut Table<'_>) {
    for threads in [2, 8] {
        let all = vec![
            sends::<Sends<Turnwise>>(threads),
            sends::<Sends<Kanal>>(threads),
            sends::<Sends<HandwrittenPool>>(threads),
            sends::<Sends<Handwritten>>(threads),
            sends::<Sends<Textbook>>(threads),
            sends::<Sends<Channel>>(threads),
            sends::<Sends<ParkingLot>>(threads),
        ];
        let load = Load::new(format!("fan-in of {threads}, trivial messages"), threads);
        table.add(load, 1.0, Aim::TimeOf(ParkingLot::NAME), all);
    }
    // Won before; the aim is the best result of then.
    for threads in [2, 8] {
        let both = vec![
            works::<Sends<Turnwise>>(threads, 65.0),
            works::<Sends<ParkingLot>>(threads, 65.0),
        ];
        let load = Load::new(format!("fan-in of {threads}, handler 65 ns"), threads);
        table.add(load, 1.0, Aim::Ratio(0.86), both);
    }
    let both = vec![sends::<Sends<Turnwise>>(1), sends::<Sends<ParkingLot>>(1)];
    table.add(Load::new("idle `send`", 1), 1.1, Aim::Ratio(1.0), both);
    let both = vec![sends::<Asks<With>>(1), sends::<Asks<ParkingLot>>(1)];
    table.add(Load::new("idle `with`", 1), 1.1, Aim::Ratio(1.0), both);
}

/// Actors on a pool.
fn pool(table: &mut Table<'_>) {
    for threads in [1, 2, 8] {
        let both = vec![sends::<Sends<OnPool>>(threads), sends::<Sends<HandwrittenPool>>(threads)];
        let name = match threads {
            1 => "on the pool: one producer".to_owned(),
            _ => format!("on the pool: fan-in of {threads}"),
        };
        table.add(Load::new(name, threads), 1.0, Aim::Ratio(0.6), both);
    }
    fn notes<W: Way>(flooded: usize, quiets: Rc<RefCell<Quiets>>) -> Contender {
        let handler = rounds_of(65.0);
        let run = move |messages: u64| {
            let Quiet { mut took, flood, during } = quiet::<W>(flooded, messages as usize, handler);
            took.sort_unstable();
            let p99 = took[share(took.len(), 0.99)];
            let mut quiets = quiets.borrow_mut();
            quiets.took.append(&mut took);
            quiets.flood += flood;
            quiets.during += during;
            // As if each message had taken as long as the slowest in a hundred.
            Took { wall: Duration::from_nanos(u64::from(p99) * messages), ..Took::default() }
        };
        Contender::new(W::NAME, true, run)
    }
    for flooded in [1, 2] {
        let name = format!("quiet beside {flooded} flooded, p99 to turn");
        let quiets: Vec<_> = (0..2).map(|_| Rc::<RefCell<Quiets>>::default()).collect();
        let (ours, theirs) = (quiets[0].clone(), quiets[1].clone());
        let both = vec![notes::<OnPool>(flooded, ours), notes::<HandwrittenPool>(flooded, theirs)];
        let load = Load { operations: Some(NOTES), ..Load::new(name, 1) };
        let before = table.goals.len();
        table.add(load, 1.0, Aim::Ratio(0.5), both);
        for goal in &mut table.goals[before..] {
            // Drops the times of the first look.
            quiets.iter().for_each(|quiets| _ = quiets.take());
            (goal.unloaded, goal.quiets) = (true, quiets.clone());
        }
    }
}

/// The cost of creating and dropping an actor.
fn objects(table: &mut Table<'_>) {
    fn create<W: Way>() -> Contender {
        way::<W>(first_messages::<W>)
    }
    let crowd = |name| Load { operations: Some(CROWD), ..Load::new(name, 1) };
    let both = vec![create::<OnPool>(), create::<HandwrittenPool>()];
    table.add(crowd("on the pool: create + first message"), 1.0, Aim::Ratio(0.7), both);
    fn end<W: Way>() -> Contender {
        way::<W>(|objects| creation::<W>(objects).1)
    }
    let both = vec![end::<Turnwise>(), end::<ParkingLot>()];
    table.add(crowd("drop an idle actor"), 1.5, Aim::Ratio(1.1), both);
}

impl Goal {
    fn row(&self) -> Row {
        let race = &self.race;
        let wall = |i: usize| race.median(i, |t| t.0);
        // All others, but the one of the aim.
        let is_rival = |name: &str| !matches!(self.aim, Aim::TimeOf(other) if other == name);
        let rival = (race.names().enumerate().skip(1))
            .filter(|(_, name)| is_rival(name))
            .min_by(|a, b| wall(a.0).total_cmp(&wall(b.0)));
        let (rival, name) = rival.expect("each row has a rival");
        let ratio = race.ratio(0, rival, |t| t.0, 0.5);
        let aim = match self.aim {
            Aim::Ratio(aim) => aim,
            Aim::TimeOf(name) => {
                race.ratio(race.find(name).expect("it takes part"), rival, |t| t.0, 0.5)
            }
        };
        Row {
            work: self.work.clone(),
            rival: name.to_owned(),
            ratio,
            quartiles: Some((
                race.ratio(0, rival, |t| t.0, 0.25),
                race.ratio(0, rival, |t| t.0, 0.75),
            )),
            cpu: (!self.unloaded).then(|| race.ratio(0, rival, |t| t.1, 0.5)),
            must: figure(self.must),
            aim: figure(aim),
            to_must: ratio / self.must,
            reached: ratio <= aim,
            ours: format!("{} ns", figure(wall(0))),
            theirs: format!("{} ns", figure(wall(rival))),
        }
    }

    /// Prints how many messages to the quiet object took how long, over all rounds.
    fn histogram(&self) {
        if self.quiets.is_empty() {
            return;
        }
        println!("\n{}: messages by time in us, and the cumulative share", self.work);
        let mut all: Vec<_> =
            self.quiets.iter().map(|quiets| quiets.borrow().took.clone()).collect();
        all.iter_mut().for_each(|took| took.sort_unstable());
        print!("{:>10}", "us");
        self.race.names().for_each(|name| print!("{name:>22}{:>9}", ""));
        println!();
        let longest = all.iter().filter_map(|took| took.last()).max().copied().unwrap_or(0);
        let mut from = 0;
        // Two for each doubling, from a quarter of a microsecond on.
        for step in 0.. {
            let to = (250.0 * 2.0_f64.powf(f64::from(step) / 2.0)) as u32;
            let upto = |took: &[u32], to: u32| took.partition_point(|&one| one <= to);
            if all.iter().any(|took| upto(took, to) > upto(took, from)) {
                print!("{:>10.2}", f64::from(to) / 1000.0);
                for took in &all {
                    let so_far = upto(took, to);
                    let here = so_far - if from == 0 { 0 } else { upto(took, from) };
                    let percent = 100.0 * so_far as f64 / took.len() as f64;
                    print!("{here:>22} {percent:>7.2}%");
                }
                println!();
            }
            from = to;
            if to >= longest {
                break;
            }
        }
        for (name, place) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
            print!("{name:>10}");
            for took in &all {
                print!("{:>22.2}{:>9}", f64::from(took[share(took.len(), place)]) / 1000.0, "");
            }
            println!();
        }
        print!("{:>10}", "flood/ms");
        for quiets in &self.quiets {
            let Quiets { flood, during, .. } = &*quiets.borrow();
            print!("{:>22.0}{:>9}", *flood as f64 / during.as_secs_f64() / 1000.0, "");
        }
        println!();
    }
}

/// Returns the index at which this share of `len` sorted values ends.
fn share(len: usize, share: f64) -> usize {
    ((len - 1) as f64 * share) as usize
}

/// Resident bytes are compared with a bound, not with a rival.
const BYTES: &str = "on the pool: resident bytes of an idle actor";
const MUST_BYTES: f64 = 96.0;
const AIM_BYTES: f64 = 64.0;

/// Returns `None` where the system does not report them.
fn bytes_row(options: &Options) -> Option<Row> {
    let many = if options.quick { 2_000 } else { 200_000 };
    let (ours, theirs) = (measure(OnPool::NAME, many)?, measure(HandwrittenPool::NAME, many)?);
    Some(Row {
        work: BYTES.to_owned(),
        rival: HandwrittenPool::NAME.to_owned(),
        ratio: ours / theirs,
        quartiles: None,
        cpu: None,
        must: format!("{MUST_BYTES:.0} B"),
        aim: format!("{AIM_BYTES:.0} B"),
        to_must: ours / MUST_BYTES,
        reached: ours <= AIM_BYTES,
        ours: format!("{ours:.0} B"),
        theirs: format!("{theirs:.0} B"),
    })
}

/// Measures in another process, which has done nothing else before.
fn measure(name: &str, many: u64) -> Option<f64> {
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--cell", name, &many.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("it starts again");
    assert!(output.status.success(), "{name}: memory could not be measured");
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// Runs in the process that [`measure`] starts.
pub(crate) fn cell(name: &str, many: u64) -> Result<(), String> {
    let bytes = match name {
        OnPool::NAME => resident::<OnPool>(many),
        HandwrittenPool::NAME => resident::<HandwrittenPool>(many),
        _ => return Err(format!("no subject is called {name}")),
    };
    println!("{}", bytes.map_or("none".into(), |bytes| bytes.to_string()));
    Ok(())
}

const HEADS: [&str; 10] =
    ["work", "rival", "ratio", "quartiles", "its CPU", "must", "aim", "", "ours", "rival's"];

fn print(rows: &[Row], options: &Options) {
    println!("{}\n", origin());
    let line = |cells: [String; 10]| {
        if options.markdown {
            return println!("| {} |", cells.join(" | "));
        }
        let [work, rival, ratio, quartiles, cpu, must, aim, verdict, ours, theirs] = cells;
        println!(
            "{work:<46} {rival:<18} {ratio:>6} {quartiles:>11} {cpu:>7} {must:>5} {aim:>5} {verdict:<6} {ours:>9} {theirs:>9}"
        );
    };
    line(HEADS.map(str::to_owned));
    if options.markdown {
        println!("|---|---|{}---|--:|--:|", "--:|".repeat(5));
    }
    for row in rows {
        let verdict = match (row.to_must > 1.0, row.reached) {
            (true, _) => "MISSED",
            (false, false) => "must",
            (false, true) => "aim",
        };
        line([
            row.work.clone(),
            row.rival.clone(),
            figure(row.ratio),
            row.quartiles
                .map_or("-".to_owned(), |(low, high)| format!("{}-{}", figure(low), figure(high))),
            row.cpu.map_or("-".to_owned(), figure),
            row.must.clone(),
            row.aim.clone(),
            verdict.to_owned(),
            row.ours.clone(),
            row.theirs.clone(),
        ]);
    }
    let missed = rows.iter().filter(|row| row.to_must > 1.0).count();
    println!("\n{missed} of {} rows miss what they must be.", rows.len());
    if options.quick {
        println!("A quick run: these figures mean nothing.");
    }
}
