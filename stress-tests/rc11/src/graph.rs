//! An execution graph, and the axioms of RC11 that an event has to respect as it is added.
//!
//! Events come in an order in which each read follows the write that it reads from, so the union of
//! program order and reads-from has no circle: RC11's answer to values out of thin air. What
//! happens before an event is then known when it is added, and never changes.
//!
//! - Coherence: a read takes no write that is older, in the location's modification order, than one
//!   that happens before it or that was read before it; nor does a write come before such a one.
//! - Atomicity: nothing comes between a read-modify-write and the write that it reads from.
//! - The order of sequentially consistent events is in [`super::psc`].
//!
//! A release sequence is a write and the read-modify-writes that continue it, as in C++20; the
//! later plain stores of the thread, which RC11 as published has too, are no part of it.

use std::panic::Location;
use std::sync::atomic::Ordering;

/// The most threads of a program, the one that sets it up included.
pub(crate) const MOST_THREADS: usize = 6;
/// The most events of an execution: sets of them are the bits of one number.
const MOST_EVENTS: usize = 128;

/// A set of events.
pub(crate) type Set = u128;

/// The numbers of each thread's events that come before something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Clock(pub(crate) [u8; MOST_THREADS]);

impl Clock {
    pub(crate) fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(theirs);
        }
    }
}

/// The change that a read-modify-write makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Update {
    Swap(u64),
    Add(u64),
    Sub(u64),
    Or(u64),
    And(u64),
    Xor(u64),
    /// A compare-and-swap: the value that it expects, and the one that it writes.
    Exchange(u64, u64),
    /// A notification of a condition variable, of one waiter or of all.
    Notify(bool),
    /// A waiter of a condition variable takes a notification.
    Notified,
}

/// One waiter of a condition variable, in the upper half of its value; below are notifications that
/// no waiter has taken.
pub(crate) const WAITER: u64 = 1 << 32;

impl Update {
    /// The value written; `None` if this value is not replaced.
    fn apply(self, old: u64) -> Option<u64> {
        Some(match self {
            Update::Swap(new) => new,
            Update::Add(n) => old.wrapping_add(n),
            Update::Sub(n) => old.wrapping_sub(n),
            Update::Or(bits) => old | bits,
            Update::And(bits) => old & bits,
            Update::Xor(bits) => old ^ bits,
            Update::Exchange(expected, new) => return (old == expected).then_some(new),
            Update::Notify(all) => {
                let (waiters, notified) = (old / WAITER, old % WAITER);
                let more = if all { waiters } else { waiters.min(notified + 1) };
                waiters * WAITER + more
            }
            Update::Notified => {
                return (old % WAITER > 0).then(|| old - WAITER - 1);
            }
        })
    }
}

/// An operation that a thread is about to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) site: &'static Location<'static>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Fence(Ordering),
    Load(usize, Ordering),
    Store(usize, u64, Ordering),
    /// With the ordering of success and of failure.
    Update(usize, Update, Ordering, Ordering),
    /// An update that waits until there is a value that it replaces.
    Await(usize, Update, Ordering),
}

impl Action {
    /// True if it takes its value from another event.
    pub(crate) fn reads(&self) -> bool {
        !matches!(self, Action::Fence(_) | Action::Store(..))
    }
}

/// The way in which an operation is added to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The event that is read from.
    pub(crate) from: Option<usize>,
    /// The write after which it comes in the modification order of its location.
    pub(crate) after: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Made,
    Fence,
    Read,
    Write,
    /// A read-modify-write.
    Both,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) thread: usize,
    /// Its number in its thread, from 1 on.
    pub(crate) number: u8,
    /// The number of steps of all threads before it.
    pub(crate) place: usize,
    pub(crate) kind: Kind,
    pub(crate) at: Option<usize>,
    pub(crate) ordering: Ordering,
    pub(crate) from: Option<usize>,
    pub(crate) read: u64,
    pub(crate) written: u64,
    /// The events that happen before it.
    pub(crate) before: Set,
    /// The events that a reader of this write acquires.
    released: Clock,
    site: &'static Location<'static>,
}

/// A thread, as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thread {
    /// The events that happen before its next one.
    pub(crate) clock: Clock,
    /// The events that its last release fence releases.
    fenced: Clock,
    /// The events that its next acquire fence acquires.
    acquirable: Clock,
    /// The step that its last event was.
    last: usize,
}

/// A location.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its writes, in modification order; the first one made it.
    pub(crate) writes: Vec<usize>,
    pub(crate) readers: Vec<usize>,
    /// The bits of its type.
    mask: u64,
}

/// The result of an added operation for its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) read: u64,
    pub(crate) written: bool,
}

/// An event's thread and number.
type Name = (usize, u8);
/// An event, and the one that it reads from; or a location and its writes.
type Trait = (Name, Kind, Option<usize>, Vec<Name>);

#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) events: Vec<Event>,
    pub(crate) places: Vec<Place>,
    pub(crate) threads: [Thread; MOST_THREADS],
    /// The threads of the steps, in order.
    pub(crate) steps: Vec<usize>,
    /// For each thread, the sets of its first events.
    firsts: [Vec<Set>; MOST_THREADS],
    /// For each thread, what it has made since its last event.
    fresh: [Set; MOST_THREADS],
    /// Sequentially consistent events.
    pub(crate) consistent: Vec<usize>,
}

pub(crate) fn acquires(ordering: Ordering) -> bool {
    matches!(ordering, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

pub(crate) fn releases(ordering: Ordering) -> bool {
    matches!(ordering, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

impl Graph {
    /// A location that a thread makes.
    pub(crate) fn make(
        &mut self,
        thread: usize,
        value: u64,
        mask: u64,
        site: &'static Location<'static>,
    ) -> usize {
        let Thread { clock, last, .. } = self.threads[thread];
        let at = self.places.len();
        self.events.push(Event {
            thread,
            // It comes before the thread's next event, and before what sees that.
            number: clock.0[thread] + 1,
            place: last,
            kind: Kind::Made,
            at: Some(at),
            ordering: Ordering::Relaxed,
            from: None,
            read: 0,
            written: value & mask,
            before: self.set_of(&clock),
            released: Clock::default(),
            site,
        });
        self.check_size();
        self.fresh[thread] |= 1 << (self.events.len() - 1);
        self.places.push(Place { writes: vec![self.events.len() - 1], readers: Vec::new(), mask });
        at
    }

    fn check_size(&self) {
        assert!(self.events.len() <= MOST_EVENTS, "too many events for one execution");
    }

    fn set_of(&self, clock: &Clock) -> Set {
        clock
            .0
            .iter()
            .zip(&self.firsts)
            .map(|(&n, firsts)| match usize::from(n) {
                0 => 0,
                n => firsts.get(n - 1).or(firsts.last()).copied().unwrap_or(0),
            })
            .fold(0, |all, set| all | set)
    }

    /// True if the event happens before what has this clock.
    pub(crate) fn is_before(&self, event: usize, clock: &Clock) -> bool {
        let event = &self.events[event];
        // What the first thread has made before the others began has no event after it.
        event.number <= clock.0[event.thread]
    }

    /// The rank of a write in its location's modification order.
    fn rank(&self, write: usize) -> usize {
        let at = self.events[write].at.expect("a write has a location");
        let writes = &self.places[at].writes;
        writes.iter().position(|&other| other == write).expect("it is one of them")
    }

    /// The order of an event among those of its location: extended coherence is its strict order.
    pub(crate) fn coherence(&self, event: usize) -> usize {
        match self.events[event].kind {
            Kind::Read => 2 * self.rank(self.events[event].from.expect("a read has one")) + 1,
            _ => 2 * self.rank(event),
        }
    }

    /// [`coherence`](Self::coherence) of all events; 0 for a fence.
    pub(crate) fn all_coherence(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.events.len()];
        for place in &self.places {
            for (rank, &write) in place.writes.iter().enumerate() {
                ranks[write] = 2 * rank;
            }
            for &reader in &place.readers {
                let from = self.events[reader].from.expect("a read has one");
                ranks[reader] = ranks[from] + 1;
            }
        }
        ranks
    }

    /// The rank of the newest write that a thread's next operation knows of; `None` if it does not
    /// even know that the location was made.
    fn floor(&self, thread: usize, at: usize) -> Option<usize> {
        let clock = &self.threads[thread].clock;
        let place = &self.places[at];
        let knows = |&&event: &&usize| {
            let made = &self.events[event];
            self.is_before(event, clock) || made.kind == Kind::Made && made.thread == thread
        };
        let written = place.writes.iter().rposition(|event| knows(&event))?;
        let read = place.readers.iter().filter(knows).map(|&reader| self.coherence(reader) / 2);
        Some(read.fold(written, usize::max))
    }

    /// True if a read-modify-write has read from this write.
    fn is_updated(&self, place: &Place, rank: usize) -> bool {
        place.writes.get(rank + 1).is_some_and(|&next| {
            let next = &self.events[next];
            next.kind == Kind::Both && next.from == Some(place.writes[rank])
        })
    }

    /// All ways to add a step that coherence and atomicity allow. An error: the location is not
    /// known to the thread.
    pub(crate) fn choices(&self, thread: usize, step: &Step) -> Result<Vec<Choice>, String> {
        let (at, action) = match step.action {
            Action::Fence(_) => return Ok(vec![Choice { from: None, after: None }]),
            Action::Load(at, _)
            | Action::Store(at, ..)
            | Action::Update(at, ..)
            | Action::Await(at, ..) => (at, step.action),
        };
        let place = &self.places[at];
        let floor = self.floor(thread, at).ok_or("an atomic is used before it is there")?;
        let mut choices = Vec::new();
        for rank in floor..place.writes.len() {
            let write = place.writes[rank];
            let value = self.events[write].written;
            let (reads, writes) = match action {
                Action::Load(..) | Action::Fence(_) => (true, false),
                Action::Store(..) => (false, true),
                Action::Update(_, update, ..) => (true, update.apply(value).is_some()),
                Action::Await(_, update, _) => match update.apply(value) {
                    None => continue,
                    Some(_) => (true, true),
                },
            };
            if writes && self.is_updated(place, rank) {
                continue;
            }
            choices.push(Choice { from: reads.then_some(write), after: writes.then_some(write) });
        }
        Ok(choices)
    }

    /// Adds a step by one of its choices.
    pub(crate) fn add(&mut self, thread: usize, step: &Step, choice: Choice) -> Answer {
        let id = self.events.len();
        let mut state = self.threads[thread];
        let read = choice.from.map_or(0, |from| self.events[from].written);
        let (at, written, ordering, kind) = match step.action {
            Action::Fence(ordering) => (None, None, ordering, Kind::Fence),
            Action::Load(at, ordering) => (Some(at), None, ordering, Kind::Read),
            Action::Store(at, value, ordering) => (Some(at), Some(value), ordering, Kind::Write),
            Action::Await(at, update, ordering) => {
                (Some(at), update.apply(read), ordering, Kind::Both)
            }
            Action::Update(at, update, success, failure) => match update.apply(read) {
                Some(value) => (Some(at), Some(value), success, Kind::Both),
                None => (Some(at), None, failure, Kind::Read),
            },
        };
        if let Some(from) = choice.from {
            let released = self.events[from].released;
            state.acquirable.join(&released);
            if acquires(ordering) {
                state.clock.join(&released);
            }
        }
        if kind == Kind::Fence && acquires(ordering) {
            state.clock.join(&state.acquirable.clone());
        }
        let fresh = self.fresh[thread];
        let before = self.set_of(&state.clock) | fresh;
        state.clock.0[thread] += 1;
        if kind == Kind::Fence && releases(ordering) {
            state.fenced = state.clock;
        }
        let mut released = Clock::default();
        if written.is_some() {
            released = if releases(ordering) { state.clock } else { state.fenced };
            if kind == Kind::Both {
                released.join(&self.events[choice.from.expect("it reads")].released);
            }
        }
        self.steps.push(thread);
        state.last = self.steps.len();
        let mask = at.map_or(0, |at| self.places[at].mask);
        self.events.push(Event {
            thread,
            number: state.clock.0[thread],
            place: state.last,
            kind,
            at,
            ordering,
            from: choice.from,
            read,
            written: written.unwrap_or(0) & mask,
            before,
            released,
            site: step.site,
        });
        self.check_size();
        self.threads[thread] = state;
        let firsts = &mut self.firsts[thread];
        let so_far = firsts.last().copied().unwrap_or(0);
        firsts.push(so_far | fresh | 1 << id);
        if let Some(at) = at {
            match choice.after {
                Some(after) => {
                    let rank = self.rank(after);
                    self.places[at].writes.insert(rank + 1, id);
                }
                None => self.places[at].readers.push(id),
            }
        }
        if ordering == Ordering::SeqCst {
            self.consistent.push(id);
        }
        Answer { read, written: written.is_some() }
    }

    /// Takes the event that was added last out again; `thread` is its thread as it was before.
    pub(crate) fn undo(&mut self, thread: Thread) {
        let event = self.events.pop().expect("one was added");
        let id = self.events.len();
        self.steps.pop();
        self.threads[event.thread] = thread;
        self.firsts[event.thread].pop();
        if let Some(at) = event.at {
            let place = &mut self.places[at];
            place.writes.retain(|&write| write != id);
            if place.readers.last() == Some(&id) {
                place.readers.pop();
            }
        }
        if self.consistent.last() == Some(&id) {
            self.consistent.pop();
        }
    }

    /// The step that a choice depends on: the thread's last one, or the one that it reads from.
    pub(crate) fn depends_on(&self, thread: usize, choice: Choice) -> usize {
        let from = choice.from.map_or(0, |from| self.events[from].place);
        self.threads[thread].last.max(from)
    }

    /// Something that is no event happens in a thread: its plain accesses before and after it are
    /// distinct.
    pub(crate) fn tick(&mut self, thread: usize) {
        self.threads[thread].clock.0[thread] += 1;
        let firsts = &mut self.firsts[thread];
        let so_far = firsts.last().copied().unwrap_or(0) | self.fresh[thread];
        firsts.resize(usize::from(self.threads[thread].clock.0[thread]), so_far);
    }

    /// Starts a thread.
    pub(crate) fn start(&mut self, parent: usize, thread: usize) {
        let Thread { clock, last, .. } = self.threads[parent];
        self.threads[thread] = Thread { clock, last, ..Thread::default() };
    }

    /// Joins a thread that has ended.
    pub(crate) fn join(&mut self, parent: usize, thread: usize) {
        self.tick(thread);
        let clock = self.threads[thread].clock;
        self.threads[parent].clock.join(&clock);
    }

    /// The identity of an execution: the events of each thread, the writes that they read
    /// from, and the modification orders.
    pub(crate) fn shape(&self) -> Vec<Trait> {
        let name = |event: &usize| (self.events[*event].thread, self.events[*event].number);
        let events = self.events.iter().map(|event| {
            let from = event.from.iter().map(name).collect();
            ((event.thread, event.number), event.kind, event.at, from)
        });
        let mut shape = events.collect::<Vec<Trait>>();
        shape.sort();
        shape.extend(self.places.iter().enumerate().map(|(at, place)| {
            let order = place.writes.iter().map(name).collect();
            ((0, 0), Kind::Made, Some(at), order)
        }));
        shape
    }
}

impl std::fmt::Display for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (id, event) in self.events.iter().enumerate() {
            let Event { thread, kind, ordering, read, written, site, .. } = event;
            let value = match kind {
                Kind::Made => format!("made as {written:#x}"),
                Kind::Fence => format!("fence {ordering:?}"),
                Kind::Read => format!("reads {read:#x} {ordering:?}"),
                Kind::Write => format!("writes {written:#x} {ordering:?}"),
                Kind::Both => format!("changes {read:#x} to {written:#x} {ordering:?}"),
            };
            let at = event.at.map_or(String::new(), |at| format!(" in #{at}"));
            let from = event.from.map_or(String::new(), |from| format!(" from e{from}"));
            let site = format!("{}:{}", super::sync::site::tail(site.file()), site.line());
            writeln!(f, "  e{id:<3} thread {thread}{at}: {value}{from}  {site}")?;
        }
        for (at, place) in self.places.iter().enumerate().filter(|(_, at)| at.writes.len() > 2) {
            writeln!(f, "  #{at}: {:?}", place.writes)?;
        }
        Ok(())
    }
}
