//! Ractor: an actor is a task with one type for all its messages. All its mailboxes are unbounded.

use std::future::Future;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::hosts;
use crate::peer::{Peer, State};

#[derive(Clone)]
pub(crate) struct Ractor(ActorRef<Letter>);

pub(crate) enum Letter {
    Tell(u32),
    Ask(u32, RpcReplyPort<u64>),
    Link(Option<Ractor>, RpcReplyPort<()>),
    Pass(u64),
}

struct Guarding;

const LISTENS: &str = "the actor lives until it is stopped";

impl Peer for Ractor {
    const PACKAGE: &'static str = "ractor";
    const WAY: &'static str = "`cast`, `call`";
    const BOUND: Option<usize> = None;
    const NOTE: Option<&'static str> = Some("Has no bounded mailboxes.");

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        let (actor, _) =
            Actor::spawn(None, Guarding, state).await.expect("it has no name that could be taken");
        Ractor(actor)
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.cast(Letter::Tell(rounds)).expect(LISTENS);
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.call(|port| Letter::Ask(rounds, port), None).await.expect(LISTENS).expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.call(|port| Letter::Link(next, port), None).await.expect(LISTENS).expect(LISTENS);
    }
    async fn pass(&self, hops: u64) {
        self.0.cast(Letter::Pass(hops)).expect(LISTENS);
    }
    /// References do not keep an actor alive, and dropping them does not end it.
    fn end(self) {
        self.0.stop(None);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

impl Actor for Guarding {
    type Msg = Letter;
    type State = State<Ractor>;
    type Arguments = State<Ractor>;

    async fn pre_start(
        &self,
        _: ActorRef<Letter>,
        state: State<Ractor>,
    ) -> Result<State<Ractor>, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<Letter>,
        letter: Letter,
        state: &mut State<Ractor>,
    ) -> Result<(), ActorProcessingErr> {
        match letter {
            Letter::Tell(rounds) => state.count(rounds),
            Letter::Ask(rounds, reply) => reply.send(state.work(rounds))?,
            Letter::Link(next, reply) => {
                state.link(next);
                reply.send(())?;
            }
            Letter::Pass(hops) => {
                if let Some(next) = state.pass(hops) {
                    next.pass(hops - 1).await;
                }
            }
        }
        Ok(())
    }
}
