//! How much does a message cost, against a mutex used directly and the mailboxes that others write,
//! everywhere at once?
//!
//! Short trials in which all subjects take turns, so that a change of the machine's pace meets all
//! of them; per round the ratio to `parking_lot`, over the rounds the medians. A table in a few
//! minutes, where criterion takes an hour.
//!
//! ```text
//! cargo bench --bench ratios [-- [--rounds N] [--only WORKLOAD] [--markdown]]
//! ```
//! Where a subject of ours is slower than the textbook's mailbox in the same role, the row is
//! marked with `<`. Where a mutex has no part in the work, the ratios are `n/a`.
//!
//! `--markdown` prints two tables for the README: a row for each workload, the ratios of the
//! subjects beside each other.

mod workloads;

use std::process::Command;
use std::time::{Duration, SystemTime};

use workloads::actors::{bank, cold, creation, random_asks, ring};
use workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use workloads::runs::{Took, exchange, timed};
use workloads::{Asks, OnPool, ParkingLot, Sends, Std, Subject, Turnwise, Way, With, rounds_of};

const TRIAL: Duration = Duration::from_millis(5);
/// How often a trial is run again in which somebody else had one of the processors.
const ATTEMPTS: usize = 8;
/// How many objects are created, and how often at most: a trial of so many takes about a second.
const CROWD: u64 = 1_000_000;
const ROUNDS_OF_CROWD: usize = 7;
/// A ratio of ours above this is a loss, and set in bold type.
const LOSS: f64 = 1.1;

struct Options {
    rounds: usize,
    only: String,
    quick: bool,
    markdown: bool,
}

/// One load under which subjects are compared.
struct Load {
    name: String,
    threads: usize,
    /// How many operations of each thread are a trial. Without this, as many as take [`TRIAL`].
    operations: Option<u64>,
}

/// One subject: a run of so many operations per thread.
struct Contender {
    name: &'static str,
    helped: bool,
    run: Box<dyn Fn(u64) -> Took>,
}

/// What came of one contender: nanoseconds per operation, and the ratios of both times to
/// `parking_lot`.
struct Row {
    name: &'static str,
    wall: f64,
    cpu: f64,
    ratios: Option<(f64, f64)>,
    /// Slower than its rival.
    slower: bool,
}

impl Load {
    fn new(name: impl Into<String>, threads: usize) -> Self {
        Load { name: name.into(), threads, operations: None }
    }
}

impl Contender {
    fn new(name: &'static str, helped: bool, run: impl Fn(u64) -> Took + 'static) -> Self {
        Contender { name, helped, run: Box::new(run) }
    }

    /// What it has to be faster than.
    fn rival(&self) -> Option<&'static str> {
        match self.name {
            name if name == Turnwise::NAME => Some(Textbook::NAME),
            name if name == Turnwise::ASKING || name == With::NAME => Some(Textbook::ASKING),
            _ => None,
        }
    }
}

/// The same contender of each of these types.
macro_rules! each {
    ($make:expr, $of:ident: $($who:ty),+ $(,)?) => { vec![$($make.$of::<$who>()),+] };
}

/// Makes contenders of a load of one object.
#[derive(Clone, Copy)]
struct Exchange {
    threads: usize,
    handler: u32,
    own: u32,
}

impl Exchange {
    fn of<S: Subject>(self) -> Contender {
        let Exchange { threads, handler, own } = self;
        Contender::new(S::NAME, S::HELPED, move |messages| {
            exchange::<S>(threads, messages, handler, own)
        })
    }

    fn all(self) -> Vec<Contender> {
        each!(self, of: Sends<Turnwise>, Asks<With>, Asks<Turnwise>, Sends<OnPool>, Sends<ParkingLot>, Sends<Std>, Sends<Textbook>, Asks<Textbook>,
            Sends<Handwritten>, Asks<Handwritten>, Sends<HandwrittenPool>, Asks<HandwrittenPool>, Sends<Channel>, Asks<Channel>)
    }
}

/// Makes contenders of the loads of many objects, on one thread.
struct Many;

impl Many {
    fn ping_pong<W: Way>(&self) -> Contender {
        Contender::new(W::NAME, W::HELPED, |hops| ring::<W>(2, hops))
    }
    fn ring<W: Way>(&self) -> Contender {
        Contender::new(W::NAME, W::HELPED, |hops| ring::<W>(100, hops))
    }
    fn create<W: Way>(&self) -> Contender {
        Contender::new(W::NAME, W::HELPED, |objects| creation::<W>(objects).0)
    }
    fn drop<W: Way>(&self) -> Contender {
        Contender::new(W::NAME, W::HELPED, |objects| creation::<W>(objects).1)
    }
    fn asks<W: Way>(&self) -> Contender {
        Contender::new(W::ASKING, W::HELPED, |asks| random_asks::<W>(1, 10_000, asks))
    }
    fn bank<W: Way>(&self) -> Contender {
        Contender::new(W::ASKING, W::HELPED, |transfers| bank::<W>(1, 1000, transfers))
    }
}

fn main() {
    let mut report = Report { options: options(), trials: 0, disturbed: 0 };
    report.begin();
    one_object(&mut report);
    many_objects(&mut report);
    report.calls();
}

fn one_object(report: &mut Report) {
    let mut compare = |name: &str, threads: usize, handler: f64, own: f64| {
        let exchange = Exchange { threads, handler: rounds_of(handler), own: rounds_of(own) };
        report.compare(Load::new(name, threads), exchange.all());
    };
    compare("idle", 1, 0.0, 0.0);
    for own in [0, 37, 250] {
        for handler in [0, 12, 37, 65] {
            compare(
                &format!("2 threads, handler {handler}, own {own}"),
                2,
                handler.into(),
                own.into(),
            );
        }
    }
    for own in [0, 250] {
        for threads in [4, 8, 16] {
            compare(
                &format!("{threads} threads, handler 65, own {own}"),
                threads,
                65.0,
                own.into(),
            );
        }
    }
    for threads in [1, 2, 8] {
        compare(&format!("fan-in, {threads} producers"), threads, 0.0, 0.0);
    }
}

fn many_objects(report: &mut Report) {
    // A lock is not sent anything, so there is no hop between two.
    report.compare(
        Load::new("ping-pong, per hop", 1),
        each!(Many, ping_pong: Turnwise, OnPool, Textbook, Handwritten, HandwrittenPool, Channel),
    );
    report.compare(
        Load::new("ring of 100, per hop", 1),
        each!(Many, ring: Turnwise, OnPool, Textbook, Handwritten, HandwrittenPool, Channel),
    );
    // A thread with a channel for each of so many objects is what nobody has.
    let crowd = |name| Load { operations: Some(CROWD), ..Load::new(name, 1) };
    let create = each!(Many, create: Turnwise, With, ParkingLot, Std, Textbook, Handwritten, HandwrittenPool);
    report.compare(crowd("1,000,000 objects, create + message"), create);
    let drop =
        each!(Many, drop: Turnwise, With, ParkingLot, Std, Textbook, Handwritten, HandwrittenPool);
    report.compare(crowd("1,000,000 objects, drop"), drop);
    let asks =
        each!(Many, asks: With, Turnwise, ParkingLot, Std, Textbook, Handwritten, HandwrittenPool);
    report.compare(Load::new("10,000 objects, random asks", 1), asks);
    let bank =
        each!(Many, bank: With, Turnwise, ParkingLot, Std, Textbook, Handwritten, HandwrittenPool);
    report.compare(Load::new("bank of 1,000, per transfer", 1), bank);
}

fn options() -> Options {
    let mut options = Options { rounds: 31, only: String::new(), quick: true, markdown: false };
    let mut args = std::env::args().skip(1);
    let mut test = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Without it this is a test run.
            "--bench" => options.quick = false,
            "--test" => test = true,
            "--rounds" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => options.rounds = n,
                _ => usage(),
            },
            "--only" => options.only = args.next().unwrap_or_else(|| usage()),
            "--markdown" => options.markdown = true,
            // What the test harness would know.
            "--nocapture" | "--quiet" | "-q" => {}
            flag if flag.starts_with('-') => usage(),
            filter => options.only = filter.to_owned(),
        }
    }
    options.quick |= test;
    if options.quick {
        options.rounds = 1;
    }
    options
}

fn usage() -> ! {
    eprintln!("usage: cargo bench --bench ratios [-- [--rounds N] [--only WORKLOAD] [--markdown]]");
    std::process::exit(2);
}

/// Runs all contenders in turn. Returns what came of them, and how many of how many trials were
/// disturbed that need not have been: a load with more threads than processors always is.
fn race(options: &Options, load: &Load, contenders: &[Contender]) -> (Vec<Row>, usize, usize) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // Answers first (each run checks its own); then the length of a trial, several slices of the
    // scheduler when threads share a processor.
    let trial = TRIAL.as_secs_f64() * load.threads.div_ceil(2) as f64;
    let fill = |one: &Contender| {
        let seconds =
            |messages: u64| ((one.run)(messages).wall.as_secs_f64() / messages as f64).max(1e-9);
        let pilot = seconds(200);
        match (options.quick, load.operations) {
            (true, _) => 50,
            (false, Some(operations)) => operations,
            // Twice, because the first one was too short to be trusted.
            (false, None) => (trial / seconds((trial / 4.0 / pilot).clamp(200.0, 1e6) as u64))
                .clamp(200.0, 5e6) as u64,
        }
    };
    let messages: Vec<u64> = contenders.iter().map(fill).collect();
    let rounds = if load.operations.is_some() {
        options.rounds.min(ROUNDS_OF_CROWD)
    } else {
        options.rounds
    };

    let (mut trials, mut disturbed) = (0, 0);
    let mut took = vec![Vec::new(); contenders.len()];
    for round in 0..rounds {
        for i in 0..contenders.len() {
            // Who comes first changes, so nobody always runs after the same neighbour's leftovers.
            let i = (i + round) % contenders.len();
            let one = &contenders[i];
            let alone = load.threads <= processors && !one.helped;
            let mut attempts = if alone && load.operations.is_none() { ATTEMPTS } else { 1 };
            let run = loop {
                let run = (one.run)(messages[i]);
                attempts -= 1;
                if attempts == 0 || !run.disturbed {
                    break run;
                }
            };
            if alone {
                trials += 1;
                disturbed += usize::from(run.disturbed);
            }
            let per = messages[i] as f64 * load.threads as f64 / 1e9;
            took[i].push((run.wall.as_secs_f64() / per, run.cpu.as_secs_f64() / per));
        }
    }

    let base = contenders.iter().position(|one| one.name == ParkingLot::NAME);
    let wall = |i: usize| median(took[i].iter().map(|t| t.0));
    let row = |i: usize| {
        let paired = |base: usize, of: fn(&(f64, f64)) -> f64| {
            median(took[i].iter().zip(&took[base]).map(|(a, b)| of(a) / of(b)))
        };
        let rival = contenders[i]
            .rival()
            .and_then(|rival| contenders.iter().position(|other| other.name == rival));
        Row {
            name: contenders[i].name,
            wall: wall(i),
            cpu: median(took[i].iter().map(|t| t.1)),
            ratios: base.map(|base| (paired(base, |t| t.0), paired(base, |t| t.1))),
            slower: rival.is_some_and(|rival| wall(i) > wall(rival)),
        }
    };
    ((0..contenders.len()).map(row).collect(), disturbed, trials)
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}

/// Prints what is measured, a load at a time.
struct Report {
    options: Options,
    trials: usize,
    disturbed: usize,
}

impl Report {
    fn begin(&self) {
        if self.options.markdown {
            println!("{}\n", origin());
            println!(
                "| workload (handler / own work between, ns) | mutex, ns | `send` | its CPU | `with` | `call` | `send`, our pool | {} |",
                RIVALS.map(|rival| rival.0).join(" | ")
            );
            println!("|---{}|", "|---".repeat(6 + RIVALS.len()));
        } else {
            self.line(
                "workload",
                "subject",
                ["wall ns", "cpu ns", "wall/PL", "cpu/PL"].map(str::to_owned),
                "",
            );
        }
    }

    /// Measures and prints one load, if it is wanted.
    fn compare(&mut self, load: Load, contenders: Vec<Contender>) {
        if !load.name.contains(&self.options.only) {
            return;
        }
        let (rows, disturbed, trials) = race(&self.options, &load, &contenders);
        self.trials += trials;
        self.disturbed += disturbed;
        if self.options.markdown {
            return println!("{}", markdown(&load.name, &rows));
        }
        for row in &rows {
            let ratio = |of: fn((f64, f64)) -> f64| {
                row.ratios.map_or("n/a".to_owned(), |ratios| format!("{:.2}", of(ratios)))
            };
            let figures = [
                format!("{:.1}", row.wall),
                format!("{:.1}", row.cpu),
                ratio(|both| both.0),
                ratio(|both| both.1),
            ];
            self.line(&load.name, row.name, figures, if row.slower { " <" } else { "" });
        }
        if disturbed > 0 {
            println!(
                "{:<38} {disturbed} of {trials} trials were disturbed by others on this machine",
                load.name
            );
        }
        println!();
    }

    /// How long a single call takes.
    fn calls(&self) {
        let heads = ["p50 ns", "p99 ns", "p99.9 ns", "max ns"].map(str::to_owned);
        if self.options.markdown {
            println!("{LEGEND}");
            println!(
                "{} of {} trials were disturbed by others on this machine.\n",
                self.disturbed, self.trials
            );
            println!(
                "| the call itself | subject | {} |\n|---|---|---|---|---|---|",
                heads.join(" | ")
            );
        } else {
            self.line("the call itself", "subject", heads, "");
        }
        for threads in [1, 2, 4, 8, 16] {
            self.call::<Sends<Turnwise>>(threads);
            self.call::<Asks<With>>(threads);
            self.call::<Sends<OnPool>>(threads);
            self.call::<Sends<ParkingLot>>(threads);
            self.call::<Sends<Std>>(threads);
            self.call::<Sends<Textbook>>(threads);
            self.call::<Sends<Handwritten>>(threads);
            self.call::<Sends<HandwrittenPool>>(threads);
            self.call::<Sends<Channel>>(threads);
        }
        self.cold::<OnPool>();
        self.cold::<HandwrittenPool>();
    }

    /// All calls of all threads and rounds, the clock's own time included.
    fn call<S: Subject>(&self, threads: usize) {
        let workload = format!("{threads} threads, handler 65, own 0");
        if !workload.contains(&self.options.only) {
            return;
        }
        let messages: u64 = if self.options.quick { 50 } else { 50_000 };
        let handler = rounds_of(65.0);
        let mut all = Vec::new();
        for _ in 0..self.options.rounds.min(5) {
            all.append(&mut timed::<S>(threads, messages, handler, 0, 1));
        }
        all.sort_unstable();
        self.shares(&workload, S::NAME, &all);
    }

    fn shares(&self, workload: &str, subject: &str, sorted: &[u32]) {
        let figures = [0.5, 0.99, 0.999, 1.0]
            .map(|share| sorted[((sorted.len() - 1) as f64 * share) as usize].to_string());
        if self.options.markdown {
            println!("| {workload} | {subject} | {} |", figures.join(" | "));
        } else {
            self.line(workload, subject, figures, "");
        }
    }

    /// Questions to a quiet object while others are flooded on the same two workers.
    fn cold<W: Way>(&self) {
        let workload = "quiet beside 2 flooded, handler 65";
        if !workload.contains(&self.options.only) {
            return;
        }
        let questions = if self.options.quick { 20 } else { 2_000 };
        let mut all: Vec<u32> = (0..self.options.rounds.min(5))
            .flat_map(|_| cold::<W>(questions, rounds_of(65.0)))
            .collect();
        all.sort_unstable();
        self.shares(workload, W::ASKING, &all);
    }

    fn line(&self, workload: &str, subject: &str, [a, b, c, d]: [String; 4], mark: &str) {
        println!("{workload:<38} {subject:<21} {a:>9} {b:>9} {c:>9} {d:>9}{mark}");
    }
}

/// The heads of the last columns of the table in Markdown, and who is in them: when nobody waits,
/// and when callers wait.
const RIVALS: [(&str, &str, &str); 5] = [
    ("`std` mutex", Std::NAME, ""),
    ("textbook mailbox", Textbook::NAME, Textbook::ASKING),
    ("hand-written mailbox", Handwritten::NAME, Handwritten::ASKING),
    ("the same on a pool", HandwrittenPool::NAME, HandwrittenPool::ASKING),
    ("thread with channel", Channel::NAME, Channel::ASKING),
];

const LEGEND: &str = "
Ratios are medians of the rounds, to the mutex in the same round: below 1 is faster, ours above 1.1 are bold. Where a mutex has no part in the
work, the cells are nanoseconds. In brackets: callers wait for the answer. A dash: not measured.
";

/// One row of the table.
fn markdown(workload: &str, rows: &[Row]) -> String {
    let find = |name: &str| rows.iter().find(|row| row.name == name);
    let cell = |name: &str, of: fn((f64, f64)) -> f64| {
        find(name).map(|row| {
            row.ratios.map_or(format!("{} ns", figure(of((row.wall, row.cpu)))), |ratios| {
                figure(of(ratios))
            })
        })
    };
    let ours = |name: &str, of: fn((f64, f64)) -> f64| {
        let lost = find(name).and_then(|row| row.ratios).is_some_and(|ratios| of(ratios) > LOSS);
        cell(name, of)
            .map_or("-".to_owned(), |cell| if lost { format!("**{cell}**") } else { cell })
    };
    let wall = |both: (f64, f64)| both.0;
    let mut cells = vec![
        workload.to_owned(),
        find(ParkingLot::NAME).map_or("n/a".to_owned(), |row| figure(row.wall)),
    ];
    cells.extend([
        ours(Turnwise::NAME, wall),
        ours(Turnwise::NAME, |both| both.1),
        ours(With::NAME, wall),
        ours(Turnwise::ASKING, wall),
        ours(OnPool::NAME, wall),
    ]);
    cells.extend(RIVALS.map(|(_, leaves, waits)| match (cell(leaves, wall), cell(waits, wall)) {
        (Some(leaves), Some(waits)) => format!("{leaves} ({waits})"),
        (Some(leaves), None) => leaves,
        (None, Some(waits)) => format!("({waits})"),
        (None, None) => "-".to_owned(),
    }));
    format!("| {} |", cells.join(" | "))
}

/// Three digits.
fn figure(of: f64) -> String {
    let decimals = if of < 9.995 { 2 } else { usize::from(of < 99.95) };
    format!("{of:.decimals$}")
}

/// Where the figures come from: machine, compiler, commit and day.
fn origin() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor of unknown make", |(_, model)| model);
    let rustc = output("rustc", &["--version"]).unwrap_or("an unknown rustc".to_owned());
    let commit = output("git", &["describe", "--always", "--dirty", "--exclude=*"])
        .unwrap_or("unknown".to_owned());
    format!(
        "{model}, {processors} processors, {} {}, {rustc}, commit {commit}, {}.",
        std::env::consts::OS,
        std::env::consts::ARCH,
        today()
    )
}

/// What a program prints, if it is there and content.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The day of the system clock, in universal time.
fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (mut days, mut year, mut month) = (since.as_secs() / 86_400, 1970, 1);
    let leap = |year: u64| u64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    while days >= 365 + leap(year) {
        days -= 365 + leap(year);
        year += 1;
    }
    for length in [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}
