//! May_actor: a coroutine of may for each actor, which runs closures. Its calls block the thread or
//! the coroutine that makes them, so senders and askers are threads.

use std::future::Future;
use std::sync::Once;

use may_actor::Actor;

use crate::hosts;
use crate::peer::{Peer, State};

#[derive(Clone)]
pub(crate) struct MayActor(Actor<State<Self>>);

impl Peer for MayActor {
    const PACKAGE: &'static str = "may_actor";
    const WAY: &'static str = "`call`, `with`; threads";
    const BOUND: Option<usize> = None;
    const NOTE: Option<&'static str> = Some(
        "Actors are coroutines of may, on two threads; senders and askers are threads of the system: one for each, and they all run at once. At most 20,000 actors are made, for each has a stack, and Linux maps no more than some 32,000 of them.",
    );
    const MOST: usize = 20_000;

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        static THREADS: Once = Once::new();
        THREADS.call_once(|| _ = may::config().set_workers(hosts::WORKERS));
        MayActor(Actor::new(state))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.call(move |state| state.count(rounds));
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.with(|state| state.work(rounds))
    }
    async fn link(&self, next: Option<Self>) {
        self.0.with(|state| state.link(next));
    }
    async fn pass(&self, hops: u64) {
        self.hop(hops);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::thread(task);
    }
}

impl MayActor {
    fn hop(&self, hops: u64) {
        self.0.call(move |state| {
            if let Some(next) = state.pass(hops) {
                next.hop(hops - 1);
            }
        });
    }
}
