//! The whole grid: every load and subject, as ratios to a mutex.

use crate::race::{Contender, Load, Race};
use crate::workloads::actors::{bank, cold, creation, random_asks, ring};
use crate::workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use crate::workloads::runs::{exchange, timed};
use crate::workloads::{
    Asks, OnPool, ParkingLot, Sends, Std, Subject, Turnwise, Way, With, rounds_of,
};
use crate::{Options, figure, origin};

/// The number of created objects: a trial takes about a second.
const CROWD: u64 = 1_000_000;
/// The ratio above which turnwise loses, set in bold type.
const LOSS: f64 = 1.1;

pub(crate) fn run(options: &Options) {
    let mut report = Report { options, trials: 0, disturbed: 0 };
    report.begin();
    one_object(&mut report);
    many_objects(&mut report);
    report.calls();
}

/// The result of one contender: nanoseconds per operation, and the ratios of both times to
/// `parking_lot`.
struct Row {
    name: &'static str,
    wall: f64,
    cpu: f64,
    ratios: Option<(f64, f64)>,
    /// True if it is slower than its rival.
    slower: bool,
}

/// Returns the rival of a subject of turnwise.
fn rival(name: &str) -> Option<&'static str> {
    match name {
        name if name == Turnwise::NAME => Some(Textbook::NAME),
        name if name == Turnwise::ASKING || name == With::NAME => Some(Textbook::ASKING),
        _ => None,
    }
}

fn rows(race: &Race) -> Vec<Row> {
    let base = race.find(ParkingLot::NAME);
    let wall = |i: usize| race.median(i, |t| t.0);
    let row = |(i, name)| Row {
        name,
        wall: wall(i),
        cpu: race.median(i, |t| t.1),
        ratios: base
            .map(|base| (race.ratio(i, base, |t| t.0, 0.5), race.ratio(i, base, |t| t.1, 0.5))),
        slower: rival(name)
            .and_then(|rival| race.find(rival))
            .is_some_and(|rival| wall(i) > wall(rival)),
    };
    race.names().enumerate().map(row).collect()
}

/// Makes the same contender of each of these types.
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

fn one_object(report: &mut Report<'_>) {
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

fn many_objects(report: &mut Report<'_>) {
    // A lock receives no messages, so there is no hop between two.
    report.compare(
        Load::new("ping-pong, per hop", 1),
        each!(Many, ping_pong: Turnwise, OnPool, Textbook, Handwritten, HandwrittenPool, Channel),
    );
    report.compare(
        Load::new("ring of 100, per hop", 1),
        each!(Many, ring: Turnwise, OnPool, Textbook, Handwritten, HandwrittenPool, Channel),
    );
    // A thread with a channel for each object is not a realistic solution.
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

/// Prints the results, a load at a time.
struct Report<'a> {
    options: &'a Options,
    trials: usize,
    disturbed: usize,
}

impl Report<'_> {
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

    /// Measures and prints one load, if it is selected.
    fn compare(&mut self, load: Load, contenders: Vec<Contender>) {
        if !load.name.contains(&self.options.only) {
            return;
        }
        let mut race = Race::new(self.options, load, contenders);
        (0..race.rounds(self.options.rounds)).for_each(|round| race.round(round));
        let Race { load, trials, disturbed, .. } = &race;
        let (trials, disturbed, rows) = (*trials, *disturbed, rows(&race));
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

    /// Measures the duration of single calls.
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

    /// Measures requests to a quiet object while others are flooded on the same two workers.
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

/// The heads of the last columns of the table in Markdown, and their subjects: without waiting
/// callers, and with them.
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
