//! This crate: closures to a plain actor, which the sender that finds it idle drains. It needs no
//! runtime, so it is measured on threads and in tasks.

use std::future::Future;

use turnwise::{Actor, Overflow};

use super::bound;
use crate::hosts;
use crate::peer::{Peer, State};

/// `send`, and `with`, which blocks its thread while it waits.
#[derive(Clone)]
pub(crate) struct TurnwiseThreads(Actor<State<Self>>);

/// `send` and `call` in the tasks of the runtime on which the others live.
#[derive(Clone)]
pub(crate) struct TurnwiseTasks(Actor<State<Self>>);

/// `send` and `call` in those tasks, with a mailbox for this many messages: `waiting().send` waits
/// for room.
#[derive(Clone)]
pub(crate) struct TurnwiseBounded<const BOUND: usize>(Actor<State<Self>>);

/// `send` and `call` in those tasks to actors of a `ThreadPool`.
#[derive(Clone)]
pub(crate) struct TurnwisePool(Actor<State<Self>>);

const OPEN: &str = "the actor stays open while a trial runs";

impl Peer for TurnwiseThreads {
    const PACKAGE: &'static str = "turnwise";
    const WAY: &'static str = "`send`, `with`; threads";
    const BOUND: Option<usize> = None;
    const NOTE: Option<&'static str> = Some(
        "Senders and askers are threads of the system instead of tasks: one for each, and they all run at once.",
    );

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        TurnwiseThreads(Actor::new(state))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        let sent = self.0.send(move |state| state.count(rounds));
        assert!(sent.is_ok(), "{OPEN}");
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.with(|state| state.work(rounds)).expect(OPEN)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.with(|state| state.link(next)).expect(OPEN);
    }
    async fn pass(&self, hops: u64) {
        pass(self, hops);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::thread(task);
    }
}

impl Peer for TurnwiseTasks {
    const PACKAGE: &'static str = "turnwise";
    const WAY: &'static str = "`send`, `call`; tasks";
    const BOUND: Option<usize> = None;

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        TurnwiseTasks(Actor::new(state))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        let sent = self.0.send(move |state| state.count(rounds));
        assert!(sent.is_ok(), "{OPEN}");
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.call(move |state| state.work(rounds)).await.expect(OPEN)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.call(|state| state.link(next)).await.expect(OPEN);
    }
    async fn pass(&self, hops: u64) {
        pass(self, hops);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

impl<const BOUND: usize> Peer for TurnwiseBounded<BOUND> {
    const PACKAGE: &'static str = "turnwise";
    const WAY: &'static str = "`waiting().send`, `call`; tasks";
    const BOUND: Option<usize> = bound(BOUND);

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        TurnwiseBounded(
            Actor::builder()
                .capacity(BOUND, Overflow::Reject)
                .spawn(state)
                .expect("the bound is within the limits"),
        )
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        let sent = self.0.waiting().send(move |state| state.count(rounds)).await;
        assert!(sent.is_ok(), "{OPEN}");
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.call(move |state| state.work(rounds)).await.expect(OPEN)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.call(|state| state.link(next)).await.expect(OPEN);
    }
    async fn pass(&self, hops: u64) {
        pass(self, hops);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

impl Peer for TurnwisePool {
    const PACKAGE: &'static str = "turnwise";
    const WAY: &'static str = "`ThreadPool`; `send`, `call`; tasks";
    const BOUND: Option<usize> = None;
    const NOTE: Option<&'static str> = Some(
        "On a pool of its own with two threads, beside the runtime on which senders and askers live.",
    );

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        let actor = Actor::builder().executor(hosts::pool().handle()).spawn(state);
        TurnwisePool(actor.expect("no capacity was asked for"))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        let sent = self.0.send(move |state| state.count(rounds));
        assert!(sent.is_ok(), "{OPEN}");
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.call(move |state| state.work(rounds)).await.expect(OPEN)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.call(|state| state.link(next)).await.expect(OPEN);
    }
    async fn pass(&self, hops: u64) {
        pass(self, hops);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

/// The subjects whose message goes round.
trait Passing: Sized + Send + Sync + 'static {
    fn actor(&self) -> &Actor<State<Self>>;
}

impl Passing for TurnwiseThreads {
    fn actor(&self) -> &Actor<State<Self>> {
        &self.0
    }
}

impl Passing for TurnwiseTasks {
    fn actor(&self) -> &Actor<State<Self>> {
        &self.0
    }
}

impl Passing for TurnwisePool {
    fn actor(&self) -> &Actor<State<Self>> {
        &self.0
    }
}

impl<const BOUND: usize> Passing for TurnwiseBounded<BOUND> {
    fn actor(&self) -> &Actor<State<Self>> {
        &self.0
    }
}

/// Inside a turn no call waits, and with one message on its way there is always room.
fn pass<P: Passing>(to: &P, hops: u64) {
    let sent = to.actor().send(move |state| {
        if let Some(next) = state.pass(hops) {
            pass(next, hops - 1);
        }
    });
    assert!(sent.is_ok(), "{OPEN}");
}
