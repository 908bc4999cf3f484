//! Coerce: an actor is a task that receives boxed messages; one type for each message. All its
//! mailboxes are unbounded.

use std::future::Future;
use std::sync::LazyLock;

use async_trait::async_trait;
use coerce::actor::context::ActorContext;
use coerce::actor::message::{Handler, Message};
use coerce::actor::system::ActorSystem;
use coerce::actor::{Actor, LocalActorRef};

use crate::hosts;
use crate::peer::{Peer, State};

#[derive(Clone)]
pub(crate) struct Coerce(LocalActorRef<Guarding>);

pub(crate) struct Guarding(State<Coerce>);

struct Tell(u32);
struct Ask(u32);
struct Link(Option<Coerce>);
struct Pass(u64);

static SYSTEM: LazyLock<ActorSystem> = LazyLock::new(ActorSystem::new);

const LISTENS: &str = "the actor lives until it is stopped";

impl Peer for Coerce {
    const PACKAGE: &'static str = "coerce";
    const WAY: &'static str = "`notify`, `send`";
    const BOUND: Option<usize> = None;
    const NOTE: Option<&'static str> = Some("Has no bounded mailboxes.");

    async fn spawn(_place: usize, state: State<Self>) -> Self {
        // Created without a name for look-ups, which would be slower.
        Coerce(SYSTEM.new_anon_actor(Guarding(state)).await.expect("it starts"))
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.notify(Tell(rounds)).expect(LISTENS);
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        self.0.send(Ask(rounds)).await.expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        self.0.send(Link(next)).await.expect(LISTENS);
    }
    async fn pass(&self, hops: u64) {
        self.0.notify(Pass(hops)).expect(LISTENS);
    }
    /// An actor has a reference of its own, and lives until it is stopped.
    fn end(self) {
        self.0.notify_stop().expect(LISTENS);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

impl Actor for Guarding {}

impl Message for Tell {
    type Result = ();
}

impl Message for Ask {
    type Result = u64;
}

impl Message for Link {
    type Result = ();
}

impl Message for Pass {
    type Result = ();
}

#[async_trait]
impl Handler<Tell> for Guarding {
    async fn handle(&mut self, Tell(rounds): Tell, _: &mut ActorContext) {
        self.0.count(rounds);
    }
}

#[async_trait]
impl Handler<Ask> for Guarding {
    async fn handle(&mut self, Ask(rounds): Ask, _: &mut ActorContext) -> u64 {
        self.0.work(rounds)
    }
}

#[async_trait]
impl Handler<Link> for Guarding {
    async fn handle(&mut self, Link(next): Link, _: &mut ActorContext) {
        self.0.link(next);
    }
}

#[async_trait]
impl Handler<Pass> for Guarding {
    async fn handle(&mut self, Pass(hops): Pass, _: &mut ActorContext) {
        if let Some(next) = self.0.pass(hops) {
            next.0.notify(Pass(hops - 1)).expect(LISTENS);
        }
    }
}
