//! The graph of waits: of turns that wait for each other in a circle, one is refused.
//!
//! A thread inside of turns that is about to sleep for an actor puts edges into a graph of the
//! whole process, and looks for a way back. A mailbox has one owner, who does one thing at a time:
//! one edge counts for it at most, and the look is a walk. A wait outside of turns holds no turn
//! up, and has no edge. Neither has a turn that is suspended: it keeps no thread, and a circle of
//! such turns is not looked for.
//!
//! The edges of a thread lead from its innermost turn to what it waits for, and from each of the
//! others to the one on top of it, without which it cannot go on.
//!
//! | an edge                                     | counts            | may be refused | ends by itself    |
//! |---------------------------------------------|-------------------|----------------|-------------------|
//! | to the turn on top                          | yes               | no             | no                |
//! | for an answer, of a question not begun      | until it is there | yes            | if it has a limit |
//! | for an answer, of a question that has begun | until it is there | no             | if it has a limit |
//! | for an actor to be idle, or to end          | until it is so    | yes            | if it has a limit |
//! | of one that was refused                     | no                |                |                   |
//!
//! - WAITS-1: an edge owns what it leads from and to. Its mailbox is the thread's own as long as
//!   the edge is there (CONTEXT-2 of [`super::context`]): the guard goes before the frames do.
//! - WAITS-2: of the waits that close a circle, the last one sees the others: an edge is put in,
//!   and the way back looked for, under one lock. It sees none that is over: what is waited for is
//!   done by the owner of a mailbox that has no edge meanwhile, and comes before the edge that it
//!   has next.
//! - WAITS-3: a circle has an edge that may be refused, if those that wait for answers have asked
//!   for them. A question begins after the turn that asks it, and a turn on top after the one
//!   below: not all the way round. A reply that was handed on is waited for by a turn that may have
//!   begun later: a circle of such edges, all of which have begun, is left alone.
//! - WAITS-4: a wait that is refused would not get what it waits for. Without limits, that is so
//!   for all of a circle, and the last one is refused; else for the one whose limit ends first. If
//!   that one must not be refused, its limit opens the circle. By different clocks it is not known
//!   which that is; the circle is left alone, until one of the limits is over.
//! - WAITS-5: a question that is refused never runs: its asker withdraws it first. One that has
//!   begun meanwhile is waited for again, with a new look.
//!
//! No user code runs under the lock, which is taken by waits inside of turns alone: what an edge
//! owns is dropped after it. A walk is bounded, so circles of more than [`LONGEST`] turns are not
//! found.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::context::Local;
use crate::cell::refs::Ref;
use crate::error::Cycle;
use crate::mailbox::oneshot::Progress;
use crate::mailbox::word::Snapshot;
use crate::sync::thread::{self, Thread};
use crate::sync::{Mutex, global};
use crate::time::{Cutoff, End};

global! {
    static GRAPH: Mutex<Graph> = Mutex::new(Graph(BTreeMap::new()));
}

/// The most edges that one look follows.
const LONGEST: usize = 4096;

/// The object of a thread's wait.
pub(crate) enum What {
    Answer(Progress),
    /// The state of a mailbox.
    Mailbox(Ref, fn(Snapshot) -> bool),
}

/// True if a wait holds its turn up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EdgeState {
    /// No: what it waits for is there.
    Over,
    /// It can be refused.
    Open,
    /// It cannot.
    Bound,
}

impl What {
    fn state(&self) -> EdgeState {
        match self {
            What::Answer(progress) if progress.is_done() => EdgeState::Over,
            What::Answer(progress) if progress.has_begun() => EdgeState::Bound,
            What::Mailbox(cell, is_over) if is_over(cell.header().word.look()) => EdgeState::Over,
            What::Answer(_) | What::Mailbox(..) => EdgeState::Open,
        }
    }
}

/// An edge that leaves a mailbox.
struct Edge {
    from: Ref,
    to: usize,
    /// The thread whose frame that mailbox is in, and its part.
    thread: Thread,
    local: usize,
    /// The object of its sleep; `None`: for the turn on top.
    what: Option<What>,
    end: Option<End>,
    /// The circle that it is refused for.
    refused: Option<Cycle>,
}

impl Edge {
    fn state(&self) -> EdgeState {
        match &self.what {
            _ if self.refused.is_some() => EdgeState::Over,
            Some(what) => what.state(),
            None => EdgeState::Bound,
        }
    }
}

/// By the mailbox that they leave. All of one mailbox are of one thread: it has slept in a turn on
/// top of a sleep, in a clock's code, and the last one counts.
struct Graph(BTreeMap<usize, Vec<Edge>>);

/// A circle, by the mailboxes that stand in it.
type Circle = Vec<Ref>;

impl Graph {
    fn edge(&self, from: usize) -> Option<&Edge> {
        self.0.get(&from)?.last()
    }

    fn edge_mut(&mut self, from: usize) -> Option<&mut Edge> {
        self.0.get_mut(&from)?.last_mut()
    }

    /// The mailboxes of the circle that an edge from the first of `from` to `to` would close, that
    /// one first; `from` are the frames of a thread, the innermost first.
    fn circle(&self, from: &[Ref], to: usize) -> Option<Circle> {
        let mut circle = vec![from.first()?.clone()];
        let mut at = to;
        // A walk that is too long leads round a circle that this one is not in.
        for _ in 0..LONGEST {
            if let Some(depth) = from.iter().position(|mailbox| mailbox.addr() == at) {
                circle.extend(from[1..=depth].iter().rev().cloned());
                return Some(circle);
            }
            let edge = self.edge(at)?;
            if edge.state() == EdgeState::Over {
                return None;
            }
            circle.push(edge.from.clone());
            at = edge.to;
        }
        None
    }

    /// The wait of a circle that is refused: the one whose wait would be the first to end, if it
    /// may be refused. The first of them is about to wait like this.
    fn choose(&self, circle: &Circle, state: EdgeState, end: Option<End>) -> Option<usize> {
        let mut chosen = None;
        for (at, mailbox) in circle.iter().enumerate() {
            let (state, end) = match self.edge(mailbox.addr()) {
                _ if at == 0 => (state, end),
                Some(edge) => (edge.state(), edge.end),
                // A turn of this thread, below the one that is about to wait.
                None => continue,
            };
            let is_first = match (chosen, end) {
                // It ends by nothing that could come.
                (_, None) if state != EdgeState::Open => false,
                (None, _) | (Some((_, _, None)), Some(_)) => true,
                (Some((_, _, Some(first))), Some(end)) => end.is_before(first)?,
                (Some(_), None) => false,
            };
            if is_first {
                chosen = Some((at, state, end));
            }
        }
        chosen.filter(|(_, state, _)| *state == EdgeState::Open).map(|(at, ..)| at)
    }

    /// One that closes a circle is about to wait like this: an error if it is refused itself; else
    /// the thread that has to wake up, because it is refused.
    fn refuse(
        &mut self,
        circle: &Circle,
        state: EdgeState,
        end: Option<End>,
    ) -> Result<Option<Thread>, Cycle> {
        let Some(at) = self.choose(circle, state, end) else { return Ok(None) };
        let cycle = cycle(circle[at..].iter().chain(&circle[..at]));
        if at == 0 {
            return Err(cycle);
        }
        let Some(edge) = self.edge_mut(circle[at].addr()) else { return Ok(None) };
        edge.refused = Some(cycle);
        Ok(Some(edge.thread.clone()))
    }
}

/// The waits of all turns that are held up, as of one look: stale on return.
pub(crate) struct WaitSnapshot(BTreeMap<usize, usize>);

impl WaitSnapshot {
    pub(crate) fn look() -> Self {
        let graph = GRAPH.lock();
        let last = graph.0.iter().filter_map(|(from, edges)| Some((*from, edges.last()?)));
        let held_up = last.filter(|(_, edge)| edge.state() != EdgeState::Over);
        WaitSnapshot(held_up.map(|(from, edge)| (from, edge.to)).collect())
    }

    /// The mailbox that this one's turn waits for.
    pub(crate) fn of(&self, mailbox: usize) -> Option<usize> {
        self.0.get(&mailbox).copied()
    }
}

/// The names of the mailboxes of a circle.
fn cycle<'a>(circle: impl Iterator<Item = &'a Ref>) -> Cycle {
    Cycle::new(circle.map(|mailbox| mailbox.header().name().to_owned()).collect())
}

/// The circle that this thread would close by waiting for that mailbox, if it is inside of its
/// turn.
pub(crate) fn own_circle(local: &Local, mailbox: usize) -> Option<Cycle> {
    if local.is_running(mailbox) { circle_below(local, mailbox) } else { None }
}

/// The circle that this thread's innermost turn would close by lying down until something comes of
/// that mailbox.
pub(crate) fn circle_of_turn(local: &Local, mailbox: usize) -> Option<Cycle> {
    if local.is_kept_by_innermost(mailbox) { circle_below(local, mailbox) } else { None }
}

#[cold]
fn circle_below(local: &Local, mailbox: usize) -> Option<Cycle> {
    let frames = local.held_up();
    let depth = frames.iter().position(|frame| frame.addr() == mailbox)?;
    Some(cycle(frames[..1].iter().chain(frames[1..=depth].iter().rev())))
}

/// The edges of a thread that sleeps: until this is dropped, on that thread.
#[must_use]
pub(crate) struct Asleep {
    /// The mailboxes that they leave, the innermost first.
    edges: Vec<usize>,
    /// Not Send.
    of: PhantomData<*const ()>,
}

/// This thread is about to sleep for something of that mailbox. An error: it would sleep for ever.
/// It takes its edges out before it looks whether what it waits for is there.
pub(crate) fn falls_asleep(
    local: &Local,
    to: usize,
    what: What,
    deadline: Cutoff<'_>,
) -> Result<Asleep, Cycle> {
    let from = local.held_up();
    let mut edges = Vec::with_capacity(from.len());
    if from.is_empty() {
        return Ok(Asleep { edges, of: PhantomData });
    }
    // A clock is user code.
    let (thread, end) = (thread::current(), deadline.end());
    let mut graph = GRAPH.lock();
    let state = what.state();
    let circle = match state {
        EdgeState::Over => None,
        EdgeState::Open | EdgeState::Bound => graph.circle(&from, to),
    };
    let refused = circle.as_ref().map_or(Ok(None), |circle| graph.refuse(circle, state, end));
    let refused = match refused {
        Ok(thread) => thread,
        Err(cycle) => {
            // What is owned here goes after the lock.
            drop(graph);
            return Err(cycle);
        }
    };
    let here = std::ptr::from_ref(local).addr();
    let (mut to, mut what, mut end) = (to, Some(what), end);
    for from in &from {
        let mailbox = from.addr();
        let (what, end, thread) = (what.take(), end.take(), thread.clone());
        let edge = Edge { from: from.clone(), to, thread, local: here, what, end, refused: None };
        let before = graph.0.entry(mailbox).or_default();
        assert!(
            before.last().is_none_or(|before| before.local == edge.local),
            "two threads are inside of one mailbox"
        );
        before.push(edge);
        edges.push(mailbox);
        to = mailbox;
    }
    drop(graph);
    refused.into_iter().for_each(|thread| thread.unpark());
    Ok(Asleep { edges, of: PhantomData })
}

impl Asleep {
    /// True if this thread's wait is refused. Stale on return.
    pub(crate) fn is_refused(&self) -> bool {
        let innermost = self.edges.first();
        innermost.is_some_and(|innermost| {
            GRAPH.lock().edge(*innermost).is_some_and(|edge| edge.refused.is_some())
        })
    }

    /// The circle that this thread's wait is refused for.
    pub(crate) fn refused(&self) -> Option<Cycle> {
        let innermost = self.edges.first()?;
        GRAPH.lock().edge_mut(*innermost)?.refused.take()
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        if self.edges.is_empty() {
            return;
        }
        let mut graph = GRAPH.lock();
        let mut gone = Vec::with_capacity(self.edges.len());
        for mailbox in self.edges.drain(..) {
            if let Some(edges) = graph.0.get_mut(&mailbox) {
                gone.extend(edges.pop());
                if edges.is_empty() {
                    graph.0.remove(&mailbox);
                }
            }
        }
        drop(graph);
        drop(gone);
    }
}
