//! Xtra: an actor is a future, here a task; one type for each message. A sending that is detached
//! waits for room and not for the answer.

use std::future::Future;

use xtra::{Actor, Address, Context, Handler, Mailbox};

use super::{UNBOUNDED, bound};
use crate::hosts;
use crate::peer::{Peer, State};

pub(crate) struct Xtra<const BOUND: usize>(Address<Guarding<BOUND>>);

pub(crate) struct Guarding<const BOUND: usize>(State<Xtra<BOUND>>);

struct Tell(u32);
struct Ask(u32);
struct Link<const BOUND: usize>(Option<Xtra<BOUND>>);
struct Pass(u64);

const LISTENS: &str = "the actor lives as long as there is an address";

impl<const BOUND: usize> Clone for Xtra<BOUND> {
    fn clone(&self) -> Self {
        Xtra(self.0.clone())
    }
}

impl<const BOUND: usize> Peer for Xtra<BOUND> {
    const PACKAGE: &'static str = "xtra";
    const WAY: &'static str = "`send`, detached or awaited";
    const BOUND: Option<usize> = bound(BOUND);
    const NOTE: Option<&'static str> = Some(
        "Detached messages of one sender may be handled in another order than they were sent in.",
    );

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        let mailbox =
            if BOUND == UNBOUNDED { Mailbox::unbounded() } else { Mailbox::bounded(BOUND) };
        Xtra(xtra::spawn_tokio(Guarding(state), mailbox))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        // The answer is a future without an asker.
        drop(self.0.send(Tell(rounds)).detach().await.expect(LISTENS));
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.send(Ask(rounds)).await.expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.send(Link(next)).await.expect(LISTENS);
    }
    async fn pass(&self, hops: u64) {
        drop(self.0.send(Pass(hops)).detach().await.expect(LISTENS));
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

impl<const BOUND: usize> Actor for Guarding<BOUND> {
    type Stop = ();
    async fn stopped(self) {}
}

impl<const BOUND: usize> Handler<Tell> for Guarding<BOUND> {
    type Return = ();
    async fn handle(&mut self, Tell(rounds): Tell, _: &mut Context<Self>) {
        self.0.count(rounds);
    }
}

impl<const BOUND: usize> Handler<Ask> for Guarding<BOUND> {
    type Return = u64;
    async fn handle(&mut self, Ask(rounds): Ask, _: &mut Context<Self>) -> u64 {
        self.0.work(rounds)
    }
}

impl<const BOUND: usize> Handler<Link<BOUND>> for Guarding<BOUND> {
    type Return = ();
    async fn handle(&mut self, Link(next): Link<BOUND>, _: &mut Context<Self>) {
        self.0.link(next);
    }
}

impl<const BOUND: usize> Handler<Pass> for Guarding<BOUND> {
    type Return = ();
    async fn handle(&mut self, Pass(hops): Pass, _: &mut Context<Self>) {
        if let Some(next) = self.0.pass(hops) {
            next.pass(hops - 1).await;
        }
    }
}
