//! The table: rows from one or two snapshots, their order, and their text.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use turnwise_top::{Actor, DeadLetter, Snapshot, Source, StoredActor};

/// The widest that a name is shown.
const WIDEST: usize = 40;
/// The widest that an error is shown.
const WIDEST_ERROR: usize = 100;
/// A report of this age in milliseconds is old: its source is slow, or does not answer.
const OLD: u64 = 5_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Actor,
    State,
    Queued,
    PerSecond,
    Busy,
    Restarts,
    Lost,
    WaitsFor,
}

impl Column {
    pub(crate) const ALL: [Self; 8] = [
        Column::Actor,
        Column::State,
        Column::Queued,
        Column::PerSecond,
        Column::Busy,
        Column::Restarts,
        Column::Lost,
        Column::WaitsFor,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Column::Actor => "actor",
            Column::State => "state",
            Column::Queued => "queued",
            Column::PerSecond => "per second",
            Column::Busy => "busy for",
            Column::Restarts => "restarts",
            Column::Lost => "lost",
            Column::WaitsFor => "waits for",
        }
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self, Column::Actor | Column::State | Column::WaitsFor)
    }
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) column: Column,
    pub(crate) reversed: bool,
}

impl Order {
    /// Numbers begin with the greatest, names with the first.
    pub(crate) const fn by(column: Column) -> Self {
        Order { column, reversed: false }
    }

    /// True if the least comes first.
    pub(crate) fn ascends(self) -> bool {
        self.column.is_text() != self.reversed
    }
}

/// An actor, of the program or of one of its sources.
#[derive(Debug)]
pub(crate) struct Row {
    number: u64,
    pub(crate) name: String,
    state: String,
    queued: u64,
    /// Its capacity, and the senders that wait for room.
    room: (Option<usize>, usize),
    per_second: Option<f64>,
    pub(crate) busy: Option<Duration>,
    /// It is counted: no message was handled in all of the time in which it was busy.
    is_counted: bool,
    restarts: Option<u64>,
    lost: u64,
    waits_for: String,
    pub(crate) in_ring: bool,
}

/// The rows, in no order, and what is said above them.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    pub(crate) summary: String,
    pub(crate) rings: usize,
    /// Dead letters, and sources that fail or do not answer: a line each, below the rows.
    pub(crate) notes: Vec<String>,
}

impl Table {
    /// `before` is an earlier snapshot of the same server: throughput is between the two.
    pub(crate) fn of(now: &Snapshot, before: Option<&Snapshot>) -> Self {
        let rings = Rings::of(now);
        let names: HashMap<u64, &str> =
            now.actors.iter().map(|actor| (actor.number, actor.name.as_str())).collect();
        let handled: HashMap<u64, u64> = before
            .iter()
            .flat_map(|before| &before.actors)
            .filter_map(|actor| Some((actor.number, actor.counts?.handled)))
            .collect();
        let millis = before.map_or(0, |before| now.at_ms.saturating_sub(before.at_ms));
        let row = |actor: &Actor| Row {
            number: actor.number,
            name: shown(&actor.name),
            state: match (&actor.stopped, actor.closed) {
                (Some(_), _) => format!("{}, stopped", shown(&actor.activity)),
                (None, true) => format!("{}, closed", shown(&actor.activity)),
                (None, false) => shown(&actor.activity),
            },
            queued: actor.queued as u64,
            room: (actor.capacity, actor.waiting_for_room),
            per_second: actor.counts.filter(|_| millis > 0).and_then(|counts| {
                // One that is new since then is shown with the next snapshot.
                let before = handled.get(&actor.number)?;
                Some(counts.handled.saturating_sub(*before) as f64 * 1_000.0 / millis as f64)
            }),
            busy: actor.busy_ms.map(Duration::from_millis),
            is_counted: actor.counts.is_some(),
            restarts: actor.counts.map(|counts| counts.restarted),
            lost: actor.discarded,
            waits_for: match actor.waits_for {
                Some(to) => {
                    let name = names
                        .get(&to.number)
                        .map_or("an actor elsewhere".to_owned(), |name| shown(name));
                    format!("{name} {}", time(Duration::from_millis(to.for_ms)))
                }
                None if actor.activity == "waiting" => "an await".to_owned(),
                None => String::new(),
            },
            in_ring: rings.members.contains(&actor.number),
        };
        let mut rows: Vec<Row> = now.actors.iter().map(row).collect();
        let summary = summary(now, &rows, rings.count);
        let stored = now.sources.iter().flat_map(|source| {
            let dead = dead(source);
            source.report.actors.iter().map(move |actor| Row::stored(source, actor, &dead))
        });
        rows.extend(stored);
        let notes = now.sources.iter().flat_map(notes).collect();
        Table { rows, summary, rings: rings.count, notes }
    }

    /// The rows whose names contain the text, in any case, in this order.
    pub(crate) fn select(&self, filter: &str, order: Order) -> Vec<&Row> {
        let filter = filter.to_lowercase();
        let named = |row: &&Row| row.name.to_lowercase().contains(&filter);
        let mut rows: Vec<&Row> = self.rows.iter().filter(named).collect();
        rows.sort_by(|a, b| {
            let by = a.compare(b, order.column);
            let by = if order.ascends() { by } else { by.reverse() };
            // In the order of their spawning; those of sources come after them.
            by.then(a.number.cmp(&b.number))
        });
        rows
    }

    /// As text, for a terminal of any width or none.
    pub(crate) fn text(&self, order: Order) -> String {
        let rows = self.select("", order);
        let cells: Vec<[String; 8]> =
            rows.iter().map(|row| Column::ALL.map(|column| row.cell(column))).collect();
        let widths = widths(&cells);
        let mut text = format!("{}\n\n", self.summary);
        let titles = Column::ALL.map(|column| column.title().to_owned());
        for cells in std::iter::once(&titles).chain(&cells) {
            let mut line = String::new();
            for ((cell, column), width) in cells.iter().zip(Column::ALL).zip(widths) {
                if column.is_text() {
                    write!(line, "{cell:<width$}  ").expect("a string takes any text");
                } else {
                    write!(line, "{cell:>width$}  ").expect("a string takes any text");
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        self.notes.iter().for_each(|note| text.extend([note, "\n"]));
        text
    }
}

/// The width of each column.
pub(crate) fn widths(rows: &[[String; 8]]) -> [usize; 8] {
    let mut widths = Column::ALL.map(|column| column.title().len());
    for cells in rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

impl Row {
    /// `dead`: the dead letters of its source, by the actors' names.
    fn stored(source: &Source, actor: &StoredActor, dead: &HashMap<&str, u64>) -> Self {
        let activity = match actor.running {
            true => "running",
            false if actor.queued > 0 => "scheduled",
            false => "idle",
        };
        let mut state = activity.to_owned();
        for (count, what) in [(actor.failed_attempts.into(), "failed"), (actor.delayed, "delayed")]
        {
            if count > 0 {
                write!(state, ", {} {what}", grouped(count)).expect("a string takes any text");
            }
        }
        Row {
            number: u64::MAX,
            name: shown(&format!("{}/{}", source.name, actor.name)),
            state,
            queued: actor.queued,
            room: (None, 0),
            per_second: None,
            busy: actor.busy_ms.map(Duration::from_millis),
            is_counted: false,
            restarts: None,
            lost: dead.get(actor.name.as_str()).copied().unwrap_or_default(),
            waits_for: String::new(),
            in_ring: false,
        }
    }

    fn compare(&self, other: &Self, column: Column) -> Ordering {
        match column {
            Column::Actor => self.name.cmp(&other.name),
            Column::State => self.state.cmp(&other.state),
            Column::Queued => (self.queued, self.room.1).cmp(&(other.queued, other.room.1)),
            Column::PerSecond => {
                let known = |row: &Self| row.per_second.unwrap_or(-1.0);
                known(self).total_cmp(&known(other))
            }
            Column::Busy => self.busy.cmp(&other.busy),
            Column::Restarts => self.restarts.cmp(&other.restarts),
            Column::Lost => self.lost.cmp(&other.lost),
            // Those that wait come first.
            Column::WaitsFor => (self.waits_for.is_empty(), &self.waits_for)
                .cmp(&(other.waits_for.is_empty(), &other.waits_for)),
        }
    }

    pub(crate) fn cell(&self, column: Column) -> String {
        let dash = || "-".to_owned();
        match column {
            Column::Actor => self.name.clone(),
            Column::State => self.state.clone(),
            Column::Queued => match self.room {
                (None, _) => grouped(self.queued),
                (Some(capacity), 0) => format!("{}/{capacity}", self.queued),
                (Some(capacity), senders) => format!("{}/{capacity} +{senders}", self.queued),
            },
            Column::PerSecond => self.per_second.map_or_else(dash, rate),
            Column::Busy => match self.busy {
                None => dash(),
                Some(busy) if self.is_counted => time(busy),
                Some(busy) => format!("{}?", time(busy)),
            },
            Column::Restarts => self.restarts.map_or_else(dash, grouped),
            Column::Lost => grouped(self.lost),
            Column::WaitsFor if self.in_ring => format!("{}, ring", self.waits_for),
            Column::WaitsFor => self.waits_for.clone(),
        }
    }
}

/// Circles of actors that wait for each other.
struct Rings {
    members: HashSet<u64>,
    count: usize,
}

impl Rings {
    fn of(snapshot: &Snapshot) -> Self {
        let waits = snapshot
            .actors
            .iter()
            .filter_map(|actor| Some((actor.number, actor.waits_for?.number)));
        let waits: HashMap<u64, u64> = waits.collect();
        let (mut members, mut seen, mut count) = (HashSet::new(), HashSet::new(), 0);
        for start in snapshot.actors.iter().map(|actor| actor.number) {
            // Each actor waits for one at most: a path that meets itself has come to a ring.
            let mut path = Vec::new();
            let mut at = Some(start);
            while let Some(number) = at.filter(|number| seen.insert(*number)) {
                path.push(number);
                at = waits.get(&number).copied();
            }
            let Some(meets) = at else { continue };
            if let Some(first) = path.iter().position(|number| *number == meets) {
                members.extend(&path[first..]);
                count += 1;
            }
        }
        Rings { members, count }
    }
}

fn summary(now: &Snapshot, rows: &[Row], rings: usize) -> String {
    let busy = rows.iter().filter(|row| row.busy.is_some()).count();
    let rates = rows.iter().filter_map(|row| row.per_second);
    let mut text =
        format!("{} ({}): {} actors, {busy} busy", shown(&now.program), now.pid, rows.len());
    if rows.iter().any(|row| row.per_second.is_some()) {
        write!(text, ", {} messages/s", rate(rates.sum())).expect("a string takes any text");
    }
    if now.discarded > 0 {
        write!(text, ", {} discarded", grouped(now.discarded)).expect("a string takes any text");
    }
    match rings {
        0 => {}
        1 => text.push_str(", 1 ring of waits"),
        _ => write!(text, ", {rings} rings of waits").expect("a string takes any text"),
    }
    let total = |count: fn(&Source) -> usize| now.sources.iter().map(count).sum::<usize>() as u64;
    let stored = total(|source| source.report.actors.len());
    let dead = total(|source| source.report.dead_letters.len());
    for (count, one, many) in
        [(stored, "stored actor", "stored actors"), (dead, "dead letter", "dead letters")]
    {
        if count > 0 {
            let what = if count == 1 { one } else { many };
            write!(text, ", {} {what}", grouped(count)).expect("a string takes any text");
        }
    }
    if now.shut_down {
        text.push_str(", shut down");
    }
    text
}

/// The number of dead letters of each actor of a source.
fn dead(source: &Source) -> HashMap<&str, u64> {
    let mut dead = HashMap::new();
    for letter in &source.report.dead_letters {
        *dead.entry(letter.actor.as_str()).or_default() += 1;
    }
    dead
}

/// The lines of a source below the rows: its failure or its age, its dead letters, what is left
/// out.
fn notes(source: &Source) -> Vec<String> {
    let name = shown(&source.name);
    let mut notes = Vec::new();
    let old = source.age_ms >= OLD;
    let age = time(Duration::from_millis(source.age_ms));
    match &source.failure {
        Some(failure) => {
            notes.push(format!("{name}: {age} old: {}", visible(failure, WIDEST_ERROR)));
        }
        None if old => notes.push(format!("{name}: {age} old, does not answer")),
        None => {}
    }
    let letter = |letter: &DeadLetter| {
        let [actor, id, message] = [&letter.actor, &letter.id, &letter.message].map(|s| shown(s));
        let (attempts, error) = (letter.attempts, visible(&letter.error, WIDEST_ERROR));
        format!("{name}/{actor}: dead letter {id} ({message}), attempts {attempts}: {error}")
    };
    notes.extend(source.report.dead_letters.iter().map(letter));
    if source.report.left_out > 0 {
        notes.push(format!("{name}: {} more are not shown", grouped(source.report.left_out)));
    }
    notes
}

/// A name as it is shown: the end of a path says more than its beginning, and what would move the
/// cursor is no part of it.
fn shown(name: &str) -> String {
    let length = name.chars().count();
    if length <= WIDEST {
        return visible(name, WIDEST);
    }
    let end: String = name.chars().skip(length + 2 - WIDEST).collect();
    format!("..{}", visible(&end, WIDEST))
}

/// The text without what would move the cursor, cut at its end.
fn visible(text: &str, widest: usize) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let (length, end) =
        if text.chars().count() <= widest { (widest, "") } else { (widest - 2, "..") };
    text.chars().take(length).map(visible).chain(end.chars()).collect()
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{:.1} s", (time.as_millis() / 100) as f64 / 10.0),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 10.0 {
        return format!("{per_second:.1}");
    }
    grouped(per_second.round() as u64)
}

/// `1,234,567`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn two_snapshots_are_a_table() {
        let [before, now] = sample::snapshots();
        let table = Table::of(&now, Some(&before));
        assert!(include_str!("../../README.md").contains(&table.text(Order::by(Column::Busy))));
        assert_eq!(
            table.text(Order::by(Column::Busy)),
            "\
shop (4711): 9 actors, 8 busy, 5,004 messages/s, 3 discarded, 1 ring of waits, 2 stored \
actors, 1 dead letter

actor     state                queued  per second    busy for  restarts  lost  waits for
report    running                   0           -  1 min 4 s?         -     0
archive   scheduled, closed        18           0      52.0 s         0     0
session   waiting                   2           0      41.2 s         0     0  an await
till      running                   7           0       9.9 s         0     0  ledger 9.9 s
stock     running                   0           0       3.5 s         0     0  ledger 3.5 s, ring
ledger    running                   1           0       3.4 s         0     0  stock 3.4 s, ring
mail/ada  running, 1 failed         3           -      1.2 s?         -     1
mailer    running            64/64 +1         3.0      220 ms         0     0
orders    running               1,204       5,000        0 ms         0     0
parser    idle                      0         1.0           -        12     3
mail/bob  idle, 2 delayed           0           -           -         -     0

mail/ada: dead letter order 7 (send), attempts 3: no such address
"
        );
    }

    #[test]
    fn a_table_of_one_snapshot_has_no_throughput() {
        let [_, now] = sample::snapshots();
        let table = Table::of(&now, None);
        assert!(table.rows.iter().all(|row| row.cell(Column::PerSecond) == "-"));
    }

    #[test]
    fn rows_stand_in_the_order_of_a_column_or_against_it() {
        let [before, now] = sample::snapshots();
        let table = Table::of(&now, Some(&before));
        let names = |order: Order| -> Vec<String> {
            table.select("", order).iter().map(|row| row.name.clone()).collect()
        };
        let reversed = |column| Order { column, reversed: true };
        assert_eq!(names(Order::by(Column::Actor))[..2], ["archive", "ledger"]);
        assert_eq!(names(reversed(Column::Actor))[..2], ["till", "stock"]);
        assert_eq!(names(Order::by(Column::Queued))[..2], ["orders", "mailer"]);
        assert_eq!(names(Order::by(Column::PerSecond))[..2], ["orders", "mailer"]);
        assert_eq!(names(Order::by(Column::Restarts))[0], "parser");
        assert_eq!(names(Order::by(Column::Lost))[0], "parser");
        let first = ["session", "stock", "till", "ledger"];
        assert_eq!(names(Order::by(Column::WaitsFor))[..4], first);
        for column in Column::ALL {
            assert_eq!(names(Order::by(column)).len(), 11);
        }
    }

    #[test]
    fn a_ring_has_its_members_and_not_those_that_lead_to_it() {
        let [_, mut now] = sample::snapshots();
        for members in [["ledger", "stock"], ["stock", "ledger"]] {
            let table = Table::of(&now, None);
            let ring = table.rows.iter().filter(|row| row.in_ring);
            let ring: Vec<_> = ring.map(|row| &*row.name).collect();
            assert_eq!((table.rings, &*ring), (1, &members[..]));
            // The one that leads to it comes first.
            now.actors.reverse();
        }
    }

    #[test]
    fn rows_are_filtered_by_name_in_any_case() {
        let [_, now] = sample::snapshots();
        let table = Table::of(&now, None);
        let found = table.select("OR", Order::by(Column::Actor));
        let names: Vec<_> = found.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["orders", "report"]);
    }

    #[test]
    fn sources_that_fail_or_do_not_answer_have_a_line() {
        let [_, mut now] = sample::snapshots();
        let said = |now: &Snapshot| Table::of(now, None).notes;
        assert_eq!(said(&now).len(), 1);
        let source = &mut now.sources[0];
        source.report.dead_letters.clear();
        source.age_ms = 12_000;
        assert_eq!(said(&now), ["mail: 12.0 s old, does not answer"]);
        now.sources[0].failure = Some("no\nstore".to_owned());
        assert_eq!(said(&now), ["mail: 12.0 s old: no\u{fffd}store"]);
        let source = &mut now.sources[0];
        (source.failure, source.age_ms, source.report.left_out) = (None, 400, 1_200);
        assert_eq!(said(&now), ["mail: 1,200 more are not shown"]);
    }

    #[test]
    fn names_move_no_cursor_and_are_cut_at_their_beginning() {
        assert_eq!(shown("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
        let long = format!("{}::Last", "path::".repeat(20));
        assert_eq!(shown(&long).chars().count(), WIDEST);
        assert!(shown(&long).starts_with("..") && shown(&long).ends_with("::Last"));
    }
}
