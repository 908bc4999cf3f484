//! Kameo: an actor is a task; one type for each message. `send` instead of awaiting the request
//! itself, which would box a future.

use std::future::Future;

use kameo::actor::{Actor, ActorRef, Spawn};
use kameo::error::Infallible;
use kameo::mailbox;
use kameo::message::{Context, Message};

use super::{UNBOUNDED, bound};
use crate::hosts;
use crate::peer::{Peer, State};

pub(crate) struct Kameo<const BOUND: usize>(ActorRef<Guarding<BOUND>>);

pub(crate) struct Guarding<const BOUND: usize>(State<Kameo<BOUND>>);

struct Tell(u32);
struct Ask(u32);
struct Link<const BOUND: usize>(Option<Kameo<BOUND>>);
struct Pass(u64);

const LISTENS: &str = "the actor lives as long as there is a reference";

impl<const BOUND: usize> Clone for Kameo<BOUND> {
    fn clone(&self) -> Self {
        Kameo(self.0.clone())
    }
}

impl<const BOUND: usize> Peer for Kameo<BOUND> {
    const PACKAGE: &'static str = "kameo";
    const WAY: &'static str = "`tell`, `ask`";
    const BOUND: Option<usize> = bound(BOUND);

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        let mailbox =
            if BOUND == UNBOUNDED { mailbox::unbounded() } else { mailbox::bounded(BOUND) };
        Kameo(Guarding::spawn_with_mailbox(Guarding(state), mailbox))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.tell(Tell(rounds)).send().await.expect(LISTENS);
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.ask(Ask(rounds)).send().await.expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        // Its error contains the message, which has no `Debug`.
        assert!(self.0.ask(Link(next)).send().await.is_ok(), "{LISTENS}");
    }
    async fn pass(&self, hops: u64) {
        self.0.tell(Pass(hops)).send().await.expect(LISTENS);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

impl<const BOUND: usize> Actor for Guarding<BOUND> {
    type Args = Self;
    type Error = Infallible;
    async fn on_start(state: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(state)
    }
}

impl<const BOUND: usize> Message<Tell> for Guarding<BOUND> {
    type Reply = ();
    async fn handle(&mut self, Tell(rounds): Tell, _: &mut Context<Self, ()>) {
        self.0.count(rounds);
    }
}

impl<const BOUND: usize> Message<Ask> for Guarding<BOUND> {
    type Reply = u64;
    async fn handle(&mut self, Ask(rounds): Ask, _: &mut Context<Self, u64>) -> u64 {
        self.0.work(rounds)
    }
}

impl<const BOUND: usize> Message<Link<BOUND>> for Guarding<BOUND> {
    type Reply = ();
    async fn handle(&mut self, Link(next): Link<BOUND>, _: &mut Context<Self, ()>) {
        self.0.link(next);
    }
}

impl<const BOUND: usize> Message<Pass> for Guarding<BOUND> {
    type Reply = ();
    async fn handle(&mut self, Pass(hops): Pass, _: &mut Context<Self, ()>) {
        if let Some(next) = self.0.pass(hops) {
            next.pass(hops - 1).await;
        }
    }
}
