//! RC11's axiom of sequential consistency: the partial order of sequentially consistent events,
//! fences and accesses, has no circle (Lahav, Vafeiadis, Kang, Hur and Dreyer, 2017).
//!
//! ```text
//! scb = po; po|other location; hb; po|other location; hb|same location; mo; fr
//! psc = ([accesses] + [fences]; hb?); scb; ([accesses] + hb?; [fences])
//!     + [fences]; (hb + hb; eco; hb); [fences]
//! ```

use super::graph::{Graph, Kind, Set};

struct Relations<'a> {
    graph: &'a Graph,
    /// For each event, those that it happens before.
    after: Vec<Set>,
    /// For each event of a location, its rank there.
    coherence: Vec<usize>,
}

/// True if the order of sequentially consistent events has no circle.
pub(crate) fn is_consistent(graph: &Graph) -> bool {
    let scs = &graph.consistent;
    if scs.len() < 2 {
        return true;
    }
    let relations = Relations::of(graph);
    let only_fences = scs.iter().all(|&event| graph.events[event].kind == Kind::Fence);
    let mut edges = scs
        .iter()
        .map(|&from| {
            let reached = if only_fences { 0 } else { relations.base(from) };
            let ordered = relations.by_fences(from);
            scs.iter().enumerate().fold(0u64, |set, (bit, &to)| {
                let is_edge = relations.ends_at(reached, to) || ordered & (1 << to) != 0;
                set | u64::from(is_edge) << bit
            })
        })
        .collect::<Vec<_>>();
    // The transitive closure.
    for through in 0..edges.len() {
        for from in 0..edges.len() {
            if edges[from] >> through & 1 != 0 {
                edges[from] |= edges[through];
            }
        }
    }
    edges.iter().enumerate().all(|(bit, reached)| reached >> bit & 1 == 0)
}

fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (next < Set::BITS as usize).then_some(next)
    })
}

impl<'a> Relations<'a> {
    fn of(graph: &'a Graph) -> Self {
        let mut after = vec![0; graph.events.len()];
        for (id, event) in graph.events.iter().enumerate() {
            members(event.before).for_each(|earlier| after[earlier] |= 1 << id);
        }
        Relations { graph, after, coherence: graph.all_coherence() }
    }

    fn all_after(&self, set: Set) -> Set {
        members(set).fold(0, |all, event| all | self.after[event])
    }

    /// All events that an event of the set is ordered before by coherence.
    fn all_coherent(&self, set: Set) -> Set {
        let mut later = 0;
        for place in &self.graph.places {
            let events = || place.writes.iter().chain(&place.readers).copied();
            let is_in = |&event: &usize| set >> event & 1 != 0;
            let Some(least) = events().filter(is_in).map(|event| self.coherence[event]).min()
            else {
                continue;
            };
            later |= events()
                .filter(|&event| self.coherence[event] > least)
                .fold(0, |all: Set, event| all | 1 << event);
        }
        later
    }

    /// `[fences]; (hb + hb; eco; hb); [fences]`.
    fn by_fences(&self, from: usize) -> Set {
        if self.graph.events[from].kind != Kind::Fence {
            return 0;
        }
        let after = self.after[from];
        let coherent = self.all_coherent(after);
        (self.graph.consistent.iter())
            .filter(|&&to| self.graph.events[to].kind == Kind::Fence)
            .filter(|&&to| after >> to & 1 != 0 || self.graph.events[to].before & coherent != 0)
            .fold(0, |all, to| all | 1 << to)
    }

    /// The events that `([accesses] + [fences]; hb?); scb` leads to.
    fn base(&self, from: usize) -> Set {
        let mut begin = 1 << from;
        if self.graph.events[from].kind == Kind::Fence {
            begin |= self.after[from];
        }
        members(begin).fold(0, |all, event| all | self.scb(event))
    }

    fn scb(&self, from: usize) -> Set {
        let event = &self.graph.events[from];
        let in_order = |one: usize| {
            let earlier = &self.graph.events[one];
            (0..self.graph.events.len()).filter(move |&other| {
                let later = &self.graph.events[other];
                let is_real = earlier.kind != Kind::Made && later.kind != Kind::Made;
                is_real && earlier.thread == later.thread && earlier.number < later.number
            })
        };
        let elsewhere = |one: usize| {
            let at = self.graph.events[one].at;
            in_order(one)
                .filter(move |&other| at.is_none() || self.graph.events[other].at != at)
                .fold(0, |all: Set, other| all | 1 << other)
        };
        let po = in_order(from).fold(0, |all: Set, other| all | 1 << other);
        let between = self.all_after(elsewhere(from));
        let around = members(between).fold(0, |all, other| all | elsewhere(other));
        let here = |other: &usize| {
            event.at.is_some() && self.graph.events[*other].at == event.at && *other != from
        };
        let later = members(self.after[from]).filter(here).fold(0, |all: Set, x| all | 1 << x);
        // Modification order, and from a read to the writes after the one that it has read.
        let written = (0..self.graph.events.len())
            .filter(here)
            .filter(|&other| {
                self.graph.events[other].kind != Kind::Read
                    && self.coherence[other] > self.coherence[from]
            })
            .fold(0, |all: Set, other| all | 1 << other);
        po | around | later | written
    }

    /// True if `reached; ([accesses] + hb?; [fences])` ends at this event.
    fn ends_at(&self, reached: Set, to: usize) -> bool {
        let mut end: Set = 1 << to;
        if self.graph.events[to].kind == Kind::Fence {
            end |= (0..self.graph.events.len())
                .filter(|&event| self.after[event] & (1 << to) != 0)
                .fold(0, |all, event| all | 1 << event);
        }
        reached & end != 0
    }
}
