//! Who waits for whom: of turns that wait for each other in a circle, one is told.
//!
//! A turn that is about to wait for an actor puts an edge into a graph of the whole process, and
//! looks for a way back. A mailbox has one owner, who does one thing at a time: one edge leaves it at
//! most, and the look is a walk. Whoever waits outside of a turn holds nobody up, and has no edge.
//!
//! | who                      | its edges                                                            |
//! |--------------------------|----------------------------------------------------------------------|
//! | a thread inside of turns | from the innermost one to what it waits for; from each of the others to the one on top of it, without which it cannot go on |
//! | a turn that lies down    | from it to what it waits for, if nothing else can wake it            |
//!
//! | an edge                                     | counts     | may be told | ends by itself               |
//! |---------------------------------------------|------------|-------------|------------------------------|
//! | to the turn on top                          | yes        | no          | no                           |
//! | for an answer, room, an end                 | until it is there | yes  | if it has a limit            |
//! | for a closure that borrows and has begun    | until it is there | no   | no: its limit is over        |
//! | of a turn that lies down                    | until it is woken | yes  | no                           |
//! | of one that was told                        | no         |             |                              |
//!
//! - G1: what an edge leads to is there as long as the edge is in the graph, and is looked at under
//!   its lock. A thread takes its edges out before it leaves the frames they lead into. A turn's is
//!   taken out by its owner before the turn is over; its mailbox is owned until then.
//! - G2: of the waits that close a circle, the last one sees the others: an edge is put in, and the
//!   way back looked for, under one lock. It sees none that is over: what is waited for is done by
//!   the owner of a mailbox that has no edge meanwhile, and comes before the edge that it has next.
//! - G3: a circle has an edge that may be told. A closure begins after the turn that lent it, and a
//!   turn on top after the one below: not all the way round.
//! - G4: whoever is told would not get what it waits for. Without limits, that is so for all of a
//!   circle, and the last one is told; else for the one whose limit ends first. By different clocks,
//!   nobody knows which that is; the circle is left alone, until one of the limits is over.
//!
//! The lock is taken by who waits inside a turn, and by nobody else; no user code runs under it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::mem::transmute;
use std::ptr::NonNull;

use super::context::Local;
use super::waking::wake_kept;
use crate::cell::header::Header;
use crate::cell::turn::{Keeper, TurnPtr};
use crate::error::Cycle;
use crate::mailbox::oneshot::Progress;
use crate::mailbox::word::Snapshot;
use crate::sync::thread::{self, Thread};
use crate::sync::{Mutex, global};
use crate::time::{Cutoff, End};

global! {
    static GRAPH: Mutex<Graph> = Mutex::new(Graph(BTreeMap::new()));
}

/// What a thread waits for.
#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    /// An answer, or room.
    Answer(Progress<'a>),
    /// The end of a closure that borrows from the thread's frames.
    Lent(Progress<'a>),
    /// The state of a mailbox.
    Mailbox(&'a Header, fn(Snapshot) -> bool),
}

/// Does a wait hold its turn up?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No: what it waits for is there.
    Over,
    /// It can be given up.
    Open,
    /// It cannot.
    Bound,
}

impl What<'_> {
    fn standing(self) -> Standing {
        let is_over = match self {
            What::Answer(progress) | What::Lent(progress) => progress.is_done(),
            What::Mailbox(header, is_over) => is_over(header.word.look()),
        };
        match self {
            _ if is_over => Standing::Over,
            What::Lent(progress) if progress.has_begun() => Standing::Bound,
            _ => Standing::Open,
        }
    }
}

/// The edge that leaves a mailbox.
struct Edge {
    from: NonNull<Header>,
    to: usize,
    wait: Wait,
    /// The circle that whoever waits is told of.
    told: Option<Cycle>,
}

enum Wait {
    /// For the turn on top of it.
    Below,
    /// Of a thread. It lies in its frames (G1).
    Thread { what: What<'static>, end: Option<End>, thread: Thread },
    /// Of a turn that lies down.
    Turn(TurnPtr),
}

// SAFETY: G1: what it leads to is there, and is looked at by shared references to what is Sync:
// headers, and the words of turns and questions.
unsafe impl Send for Edge {}

impl Edge {
    fn standing(&self) -> Standing {
        match &self.wait {
            _ if self.told.is_some() => Standing::Over,
            Wait::Below => Standing::Bound,
            Wait::Thread { what, .. } => what.standing(),
            Wait::Turn(turn) if turn.is_alone() => Standing::Open,
            Wait::Turn(_) => Standing::Over,
        }
    }

    /// When it ends by itself, if it does.
    fn end(&self) -> Option<End> {
        match self.wait {
            Wait::Thread { end, .. } if self.standing() == Standing::Open => end,
            _ => None,
        }
    }
}

/// By the mailbox that an edge leaves.
struct Graph(BTreeMap<usize, Edge>);

/// Who has to wake up, because it was told.
enum Told {
    Thread(Thread),
    Turn(Keeper),
}

impl Graph {
    /// The mailboxes of the circle that an edge from the first of `from` to `to` would close, that one
    /// first; `from` are the frames of a thread, the innermost first.
    fn circle(&self, from: &[NonNull<Header>], to: usize) -> Option<Vec<NonNull<Header>>> {
        let mut circle = vec![*from.first()?];
        let mut at = to;
        // One round more than there are edges leads round a circle that this one is not in.
        for _ in 0..=self.0.len() {
            if let Some(depth) = from.iter().position(|mailbox| mailbox.addr().get() == at) {
                circle.extend(from[1..=depth].iter().rev());
                return Some(circle);
            }
            let edge = self.0.get(&at)?;
            if edge.standing() == Standing::Over {
                return None;
            }
            circle.push(edge.from);
            at = edge.to;
        }
        None
    }

    /// Which one of a circle is told: one whose wait would be the first to end. The first of them is
    /// about to wait like this.
    fn choose(
        &self,
        circle: &[NonNull<Header>],
        standing: Standing,
        end: Option<End>,
    ) -> Option<usize> {
        let mut chosen = (standing == Standing::Open).then_some((0, end));
        for (at, mailbox) in circle.iter().enumerate().skip(1) {
            let edge = self.0.get(&mailbox.addr().get());
            let Some(edge) = edge.filter(|edge| edge.standing() == Standing::Open) else {
                continue;
            };
            chosen = match (chosen, edge.end()) {
                (None, end) => Some((at, end)),
                (Some((_, None)), Some(end)) => Some((at, Some(end))),
                (Some((_, Some(first))), Some(end)) if end.is_before(first)? => {
                    Some((at, Some(end)))
                }
                (chosen, _) => chosen,
            };
        }
        chosen.map(|(at, _)| at)
    }

    /// One that closes a circle is about to wait like this: the circle, if it is told itself, and who
    /// else has to wake up, to be told.
    fn tell(
        &mut self,
        circle: &[NonNull<Header>],
        standing: Standing,
        end: Option<End>,
    ) -> Result<Option<Told>, Cycle> {
        let Some(at) = self.choose(circle, standing, end) else { return Ok(None) };
        let told = cycle([&circle[at..], &circle[..at]].concat());
        if at == 0 {
            return Err(told);
        }
        let Some(edge) = self.0.get_mut(&circle[at].addr().get()) else { return Ok(None) };
        edge.told = Some(told);
        Ok(match &edge.wait {
            Wait::Thread { thread, .. } => Some(Told::Thread(thread.clone())),
            Wait::Turn(turn) => Some(Told::Turn(Keeper::of(*turn))),
            Wait::Below => None,
        })
    }
}

impl Told {
    fn wake(self) {
        match self {
            Told::Thread(thread) => thread.unpark(),
            Told::Turn(keeper) => wake_kept(&keeper),
        }
    }
}

/// The names of mailboxes of a circle, or of frames of this thread.
fn cycle(circle: impl IntoIterator<Item = NonNull<Header>>) -> Cycle {
    // SAFETY: G1: their turns are held up.
    let names = circle.into_iter().map(|mailbox| unsafe { mailbox.as_ref() }.name().to_owned());
    Cycle::new(names.collect())
}

/// The circle that this thread would close by waiting for that mailbox, if it is inside of its turn.
pub(crate) fn own_circle(local: &Local, mailbox: usize) -> Option<Cycle> {
    if !local.is_running(mailbox) {
        return None;
    }
    let frames = local.held_up().collect::<Vec<_>>();
    let depth = frames.iter().position(|frame| frame.addr().get() == mailbox)?;
    Some(cycle(std::iter::once(frames[0]).chain(frames[1..=depth].iter().rev().copied())))
}

/// The edges of a thread that sleeps: until this is dropped, on that thread.
#[must_use]
pub(crate) struct Asleep<'a> {
    /// The mailboxes, and the edges that they had: of a wait on top of which this one is, in a
    /// clock's code.
    edges: Vec<(usize, Option<Edge>)>,
    of: PhantomData<(What<'a>, *const ())>,
}

/// This thread is about to sleep for something of that mailbox. An error: it would sleep for ever.
/// It takes its edges out before it looks whether what it waits for is there.
pub(crate) fn falls_asleep<'a>(
    local: &Local,
    to: usize,
    what: What<'a>,
    deadline: Cutoff<'_>,
) -> Result<Asleep<'a>, Cycle> {
    let from = local.held_up().collect::<Vec<_>>();
    let mut edges = Vec::new();
    let Some(&innermost) = from.first() else { return Ok(Asleep { edges, of: PhantomData }) };
    // A clock is user code.
    let (thread, end) = (thread::current(), deadline.end());
    let mut graph = GRAPH.lock();
    let standing = what.standing();
    let circle = match standing {
        Standing::Over => None,
        Standing::Open | Standing::Bound => graph.circle(&from, to),
    };
    let told = match circle {
        Some(circle) => graph.tell(&circle, standing, end)?,
        None => None,
    };
    // SAFETY: G1: the guard, which borrows what is waited for, takes the edge out.
    let what = unsafe { transmute::<What<'a>, What<'static>>(what) };
    let mut put = |from: NonNull<Header>, to, wait| {
        let before = graph.0.insert(from.addr().get(), Edge { from, to, wait, told: None });
        edges.push((from.addr().get(), before));
    };
    put(innermost, to, Wait::Thread { what, end, thread });
    for frames in from.windows(2) {
        put(frames[1], frames[0].addr().get(), Wait::Below);
    }
    drop(graph);
    told.into_iter().for_each(Told::wake);
    Ok(Asleep { edges, of: PhantomData })
}

impl Asleep<'_> {
    /// The circle that this thread is told of.
    pub(crate) fn told(&self) -> Option<Cycle> {
        let (innermost, _) = self.edges.first()?;
        GRAPH.lock().0.get_mut(innermost)?.told.take()
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        if self.edges.is_empty() {
            return;
        }
        let mut graph = GRAPH.lock();
        for (mailbox, before) in self.edges.drain(..) {
            match before {
                None => graph.0.remove(&mailbox),
                Some(edge) => graph.0.insert(mailbox, edge),
            };
        }
    }
}

/// A turn of this actor is about to lie down; by its owner. True: it would lie there for ever, and
/// is to be polled, to be told.
pub(crate) fn lies_down(header: &Header, turn: TurnPtr) -> bool {
    let from = NonNull::from(header);
    let mailbox = from.addr().get();
    let before = turn.note_edge(None);
    let Some(to) = turn.awaited() else {
        if before.is_some() {
            GRAPH.lock().0.remove(&mailbox);
        }
        return false;
    };
    let mut graph = GRAPH.lock();
    let circle = graph.circle(&[from], to);
    let told = circle.map_or(Ok(None), |circle| graph.tell(&circle, Standing::Open, None));
    let (other, told) = told.map_or_else(|told| (None, Some(told)), |other| (other, None));
    let is_told = told.is_some();
    graph.0.insert(mailbox, Edge { from, to, wait: Wait::Turn(turn), told });
    drop(graph);
    turn.note_edge(Some(from));
    other.into_iter().for_each(Told::wake);
    is_told
}

/// A turn is about to be polled, or dropped; by its owner. Its edge goes, unless it has to be told.
#[inline]
pub(crate) fn goes_on(turn: TurnPtr) {
    if turn.has_edge() {
        leaves(turn);
    }
}

#[cold]
fn leaves(turn: TurnPtr) {
    let Some(from) = turn.note_edge(None) else { return };
    let mut graph = GRAPH.lock();
    let mailbox = from.addr().get();
    if graph.0.get(&mailbox).is_some_and(|edge| edge.told.is_some()) {
        turn.note_edge(Some(from));
    } else {
        graph.0.remove(&mailbox);
    }
}

/// A turn is over; by its owner.
#[inline]
pub(crate) fn is_over(turn: TurnPtr) {
    if turn.has_edge() {
        goes(turn);
    }
}

#[cold]
fn goes(turn: TurnPtr) {
    if let Some(from) = turn.note_edge(None) {
        GRAPH.lock().0.remove(&from.addr().get());
    }
}

/// The circle that a turn is told of, which is polled here and waits for that mailbox.
pub(crate) fn told(turn: TurnPtr, to: usize) -> Option<Cycle> {
    let from = turn.note_edge(None)?;
    let mut graph = GRAPH.lock();
    let edge = graph.0.remove(&from.addr().get())?;
    if edge.to == to && edge.told.is_some() {
        return edge.told;
    }
    graph.0.insert(from.addr().get(), edge);
    turn.note_edge(Some(from));
    None
}
