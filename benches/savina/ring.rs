//! Thread Ring: one message goes round a ring of actors. Savina: 100 actors, 100,000 hops.
//!
//! After it, another one goes round once, on which each actor adds the pings that it has seen and
//! drops the next one.

use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct Ring {
    actors: usize,
    hops: u64,
}

struct Node {
    actors: usize,
    next: Option<Actor<Node>>,
    pings: u64,
}

struct Next(Actor<Node>);

struct Ping {
    left: u64,
    done: Promise<u64>,
}

struct Exit {
    left: usize,
    pings: u64,
    done: Promise<u64>,
}

impl Handler<Next> for Node {
    type Reply = ();
    fn handle(&mut self, Next(next): Next, _: &mut Context<'_, Self>) {
        self.next = Some(next);
    }
}

impl Handler<Ping> for Node {
    type Reply = ();
    fn handle(&mut self, Ping { left, done }: Ping, _: &mut Context<'_, Self>) {
        self.pings += 1;
        let next = self.next.as_ref().expect("the ring is closed");
        if left > 0 {
            next.tell(Ping { left: left - 1, done }).expect("a node is open");
        } else {
            next.tell(Exit { left: self.actors - 1, pings: 0, done }).expect("a node is open");
        }
    }
}

impl Handler<Exit> for Node {
    type Reply = ();
    fn handle(&mut self, Exit { left, pings, done }: Exit, _: &mut Context<'_, Self>) {
        let next = self.next.take().expect("the ring is closed");
        let pings = pings + self.pings;
        if left > 0 {
            next.tell(Exit { left: left - 1, pings, done }).expect("a node is open");
        } else {
            done.keep(pings);
        }
    }
}

impl Benchmark for Ring {
    const NAME: &'static str = "ring";

    fn sized(quick: bool) -> Self {
        Ring { actors: 100, hops: if quick { 1000 } else { 4_000_000 } }
    }

    fn size(&self) -> String {
        format!("{} actors, {} hops", self.actors, self.hops)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let nodes: Vec<_> = (0..self.actors)
            .map(|_| system.spawn(Node { actors: self.actors, next: None, pings: 0 }))
            .collect();
        for (i, node) in nodes.iter().enumerate() {
            node.tell(Next(nodes[(i + 1) % self.actors].clone())).expect("a node is open");
        }
        let (done, pings) = promise();
        nodes[0].tell(Ping { left: self.hops, done }).expect("a node is open");
        drop(nodes); // the ring keeps itself alive until it exits
        same("pings", answer(pings)?, self.hops + 1)?;
        Ok(self.hops + 1 + 2 * self.actors as u64)
    }
}
