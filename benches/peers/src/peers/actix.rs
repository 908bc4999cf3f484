//! Actix: actors on single-threaded arbiters, with their senders.
//!
//! One arbiter is how its own examples are written: everything in one thread. Two use both
//! processors, and then most messages cross threads. `do_send` ignores the bound of the mailbox
//! (16), and there is no way to send without an answer that waits for room.

use std::future::Future;

use actix::{Actor, Addr, Context, Handler, Message};

use crate::hosts;
use crate::peer::{Peer, State};

#[derive(Clone)]
pub(crate) struct Actix<const ARBITERS: usize>(Addr<Guarding<ARBITERS>>);

pub(crate) struct Guarding<const ARBITERS: usize>(State<Actix<ARBITERS>>);

struct Tell(u32);
struct Ask(u32);
struct Link<const ARBITERS: usize>(Option<Actix<ARBITERS>>);
struct Pass(u64);

const LISTENS: &str = "the actor lives as long as there is an address";

impl<const ARBITERS: usize> Peer for Actix<ARBITERS> {
    const PACKAGE: &'static str = "actix";
    const WAY: &'static str = if ARBITERS == 1 {
        "`do_send`, `send`; 1 arbiter"
    } else {
        "`do_send`, `send`; 2 arbiters"
    };
    const BOUND: Option<usize> = None;
    const NOTE: Option<&'static str> = Some(
        "Has single-threaded arbiters of its own instead of the runtime. `do_send` goes past the mailbox's bound of 16, and nothing else \
         sends without an answer and waits for room.",
    );

    async fn spawn(place: usize, state: State<Self>) -> Self {
        if ARBITERS == 1 {
            Actix(Guarding(state).start())
        } else {
            Actix(Guarding::start_in_arbiter(hosts::arbiter(place), |_| Guarding(state)))
        }
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.do_send(Tell(rounds));
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.send(Ask(rounds)).await.expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.send(Link(next)).await.expect(LISTENS);
    }
    async fn pass(&self, hops: u64) {
        self.0.do_send(Pass(hops));
    }
    fn launch(place: usize, task: impl Future<Output = ()> + Send + 'static) {
        assert!(
            hosts::arbiter(place % ARBITERS).spawn(task),
            "the arbiters run until the program ends"
        );
    }
}

impl<const ARBITERS: usize> Actor for Guarding<ARBITERS> {
    type Context = Context<Self>;
}

impl Message for Tell {
    type Result = ();
}

impl Message for Ask {
    type Result = u64;
}

impl<const ARBITERS: usize> Message for Link<ARBITERS> {
    type Result = ();
}

impl Message for Pass {
    type Result = ();
}

impl<const ARBITERS: usize> Handler<Tell> for Guarding<ARBITERS> {
    type Result = ();
    fn handle(&mut self, Tell(rounds): Tell, _: &mut Context<Self>) {
        self.0.count(rounds);
    }
}

impl<const ARBITERS: usize> Handler<Ask> for Guarding<ARBITERS> {
    type Result = u64;
    fn handle(&mut self, Ask(rounds): Ask, _: &mut Context<Self>) -> u64 {
        self.0.work(rounds)
    }
}

impl<const ARBITERS: usize> Handler<Link<ARBITERS>> for Guarding<ARBITERS> {
    type Result = ();
    fn handle(&mut self, Link(next): Link<ARBITERS>, _: &mut Context<Self>) {
        self.0.link(next);
    }
}

impl<const ARBITERS: usize> Handler<Pass> for Guarding<ARBITERS> {
    type Result = ();
    fn handle(&mut self, Pass(hops): Pass, _: &mut Context<Self>) {
        if let Some(next) = self.0.pass(hops) {
            next.0.do_send(Pass(hops - 1));
        }
    }
}
