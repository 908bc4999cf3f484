//! The pipeline: four stages of actors with bounded mailboxes.
//!
//! ```text
//! feeders ── paths ──▶ read ── pieces of text ──▶ parse ── words ──▶ count, by shard
//!                        └──────────────┬───────────┘
//!                                       ▼
//!                                     report
//! ```
//! A message is sent to the next stage by [`Link::send`], which waits if that has no room. So the
//! slowest stage sets the pace of all before it, and the number of messages is bounded by the
//! capacities, however much there is to read. No stage waits for an earlier one, so there is no
//! deadlock.
//!
//! Each stage is a system. They are shut down from the readers on: messages that a stage sends in
//! its last turns are still accepted by the next one. The results are the states of the actors that
//! have ended.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use crossbeam_channel::{Receiver, unbounded};
use turnwise::{Actor, ActorBuilder, Limit, Overflow, Reason, ShutdownReport, System};

use crate::Failure;
use crate::executor::Place;
use crate::text::{self, Piece};

pub(crate) type Counts = HashMap<Box<str>, u64>;

/// The number of actors of a stage, and the capacity of each mailbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) readers: usize,
    pub(crate) parsers: usize,
    pub(crate) counters: usize,
    pub(crate) capacity: usize,
}

/// The result.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) words: u64,
    /// Files that could not be read, and the reasons.
    pub(crate) skipped: Vec<(PathBuf, String)>,
    pub(crate) counts: Counts,
}

/// The counters of a stage.
#[derive(Debug)]
pub(crate) struct Gauge {
    pub(crate) name: &'static str,
    pub(crate) actors: usize,
    pub(crate) accepted: AtomicU64,
    pub(crate) handled: AtomicU64,
    /// Messages whose sender had to wait for room.
    pub(crate) waited: AtomicU64,
    /// Messages that were given back or refused, because the time was over.
    pub(crate) lost: AtomicU64,
    /// The maximum number of messages in one mailbox, including the running one, as seen by
    /// senders.
    pub(crate) deepest: AtomicUsize,
}

impl Gauge {
    /// Returns the number of messages in all mailboxes of the stage.
    pub(crate) fn depth(&self) -> u64 {
        self.accepted
            .load(Relaxed)
            .saturating_sub(self.handled.load(Relaxed) + self.lost.load(Relaxed))
    }
}

/// The senders' handle of a stage.
struct Link<S: Send + 'static> {
    actors: Vec<Actor<S>>,
    gauge: Arc<Gauge>,
}

impl<S: Send + 'static> Link<S> {
    /// Makes a stage of this many actors in `system`; `finish` gets each state at the end.
    fn new(
        (system, place): (&System, &Place),
        (name, actors, capacity): (&'static str, usize, usize),
        state: impl Fn() -> S,
        finish: impl Fn(S) + Clone + Send + Sync + 'static,
    ) -> Result<Arc<Self>, Failure> {
        let zero = || AtomicU64::new(0);
        let (accepted, handled, waited, lost) = (zero(), zero(), zero(), zero());
        let gauge = Arc::new(Gauge {
            name,
            actors,
            accepted,
            handled,
            waited,
            lost,
            deepest: AtomicUsize::new(0),
        });
        let spawn = |n| {
            let (finish, lost) = (finish.clone(), gauge.clone());
            let builder: ActorBuilder<S> = Actor::builder()
                .name(format!("{name} {n}"))
                .capacity(capacity, Overflow::Reject)
                .on_undelivered(move |_| _ = lost.lost.fetch_add(1, Relaxed))
                .on_end(move |state, _| finish(state));
            system.spawn(place.run(builder), state())
        };
        let actors = (0..actors).map(spawn).collect::<Result<_, _>>()?;
        Ok(Arc::new(Link { actors, gauge }))
    }

    /// Sends a message to one of the actors, and waits for room if there is none. Only a stage that
    /// was stopped refuses it: then it is lost.
    fn send(&self, to: usize, message: impl FnOnce(&mut S) + Send + 'static) {
        let (actor, gauge) = (&self.actors[to % self.actors.len()], self.gauge.clone());
        let message = move |state: &mut S| {
            message(state);
            gauge.handled.fetch_add(1, Relaxed);
        };
        // Counted before, because it may have run when `send` returns.
        self.gauge.accepted.fetch_add(1, Relaxed);
        let sent = actor.send(message).or_else(|refused| match refused.into_parts() {
            (message, Reason::Full) => {
                self.gauge.waited.fetch_add(1, Relaxed);
                actor.waiting().send(message).wait().map_err(drop)
            }
            (message, _) => {
                drop(message);
                Err(())
            }
        });
        match sent {
            Ok(()) => _ = self.gauge.deepest.fetch_max(actor.len(), Relaxed),
            Err(()) => _ = self.gauge.lost.fetch_add(1, Relaxed),
        }
    }
}

/// Reads files and cuts them into pieces.
struct Reader {
    parsers: Arc<Link<Parser>>,
    report: Arc<Link<Found>>,
    next: usize,
}

/// Splits pieces into words.
struct Parser {
    counters: Arc<Link<Counts>>,
    report: Arc<Link<Found>>,
}

impl Reader {
    fn read(&mut self, path: PathBuf) {
        let text = match text::read(&path) {
            Ok(text) => text,
            Err(error) => {
                return self
                    .report
                    .send(0, move |found| found.skipped.push((path, error.to_string())));
            }
        };
        for piece in text::pieces(&text) {
            let piece: Box<str> = piece.into();
            self.next += 1;
            self.parsers.send(self.next, move |parser| parser.parse(&piece));
        }
        let (bytes, lines) = (text.len() as u64, text.lines().count() as u64);
        self.report.send(0, move |found| found.add_file(bytes, lines));
    }
}

impl Parser {
    fn parse(&mut self, piece: &str) {
        let Piece { text, words } = text::split(piece, self.counters.actors.len());
        let all = words.iter().map(Vec::len).sum::<usize>() as u64;
        for (shard, words) in words.into_iter().enumerate().filter(|(_, words)| !words.is_empty()) {
            let text = text.clone();
            self.counters.send(shard, move |counts| count(counts, &text, &words));
        }
        self.report.send(0, move |found| found.words += all);
    }
}

impl Found {
    fn add_file(&mut self, bytes: u64, lines: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.lines += lines;
    }
}

fn count(counts: &mut Counts, text: &str, words: &[Range<usize>]) {
    for word in words {
        let word = &text[word.clone()];
        match counts.get_mut(word) {
            Some(n) => *n += 1,
            None => _ = counts.insert(word.into(), 1),
        }
    }
}

/// Counts on one thread, without actors, as a reference for the pipeline.
pub(crate) fn plainly<'a>(files: impl Iterator<Item = &'a Path>) -> Found {
    let mut found = Found::default();
    for path in files {
        match text::read(path) {
            Ok(text) => {
                found.add_file(text.len() as u64, text.lines().count() as u64);
                for piece in text::pieces(&text) {
                    let Piece { text, words } = text::split(piece, 1);
                    found.words += words[0].len() as u64;
                    count(&mut found.counts, &text, &words[0]);
                }
            }
            Err(error) => found.skipped.push((path.to_owned(), error.to_string())),
        }
    }
    found.skipped.sort();
    found
}

/// All stages, ready to take paths.
pub(crate) struct Pipeline {
    /// The systems of the stages, from the readers to the report.
    systems: [System; 4],
    readers: Arc<Link<Reader>>,
    gauges: Vec<Arc<Gauge>>,
    parts: Receiver<Part>,
}

/// The result of an actor that has ended.
enum Part {
    Counts(Counts),
    Report(Found),
}

impl Pipeline {
    pub(crate) fn new(place: &Place, shape: Shape) -> Result<Self, Failure> {
        let [reading, parsing, counting, reporting] = [(); 4].map(|()| System::new());
        let (leave, parts) = unbounded();
        let (counted, reported) = (leave.clone(), leave);

        let Shape { readers, parsers, counters, capacity } = shape;
        // The receiver may be gone: then the parts are not needed.
        let report = Link::new(
            (&reporting, place),
            ("report", 1, capacity),
            Found::default,
            move |found| {
                _ = reported.send(Part::Report(found));
            },
        )?;
        let counters = Link::new(
            (&counting, place),
            ("count", counters, capacity),
            Counts::new,
            move |counts| {
                _ = counted.send(Part::Counts(counts));
            },
        )?;
        let parser = || Parser { counters: counters.clone(), report: report.clone() };
        let parsers = Link::new((&parsing, place), ("parse", parsers, capacity), parser, drop)?;
        let reader = || Reader { parsers: parsers.clone(), report: report.clone(), next: 0 };
        let readers = Link::new((&reading, place), ("read", readers, capacity), reader, drop)?;
        let gauges = vec![
            readers.gauge.clone(),
            parsers.gauge.clone(),
            counters.gauge.clone(),
            report.gauge.clone(),
        ];
        Ok(Pipeline { systems: [reading, parsing, counting, reporting], readers, gauges, parts })
    }

    /// Returns the counters of the stages, first to last.
    pub(crate) fn gauges(&self) -> &[Arc<Gauge>] {
        &self.gauges
    }

    /// Sends a path to one of the readers; waits for room.
    pub(crate) fn feed(&self, number: usize, path: PathBuf) {
        self.readers.send(number, move |reader| reader.read(path));
    }

    /// Runs everything to its end, within a limit. Returns the result up to then.
    pub(crate) fn finish(self, limit: Limit) -> (Found, ShutdownReport) {
        let Pipeline { systems, readers, gauges: _, parts } = self;
        let begun = Instant::now();
        // Some actors end when the stage before them ends, so they are counted first.
        let all: usize = systems.iter().map(System::actors).sum();
        let mut report = ShutdownReport::default();
        for stage in &systems {
            let left = match limit {
                Limit::Within(limit) => Limit::from(limit.saturating_sub(begun.elapsed())),
                limit => limit,
            };
            let stage = stage.shutdown(left).expect("this is outside of all turns");
            report.stopped += stage.stopped;
            report.running.extend(stage.running);
        }
        report.ended = all - report.stopped - report.running.len();
        drop(readers);
        // An actor that is still inside a turn delivers its part too late.
        let mut found = Found::default();
        let mut all = Counts::new();
        for part in parts.try_iter() {
            match part {
                Part::Counts(counts) => all.extend(counts),
                Part::Report(part) => found = part,
            }
        }
        found.counts = all;
        found.skipped.sort();
        (found, report)
    }
}
