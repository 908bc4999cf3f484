//! One file for each peer, and the common code of the channels.

mod actix;
mod coerce;
mod desync;
mod flume;
mod handwritten;
mod kameo;
mod kanal;
mod may_actor;
mod ractor;
mod tokio;
mod turnwise;
mod xtra;

pub(crate) use actix::Actix;
pub(crate) use coerce::Coerce;
pub(crate) use desync::{DesyncTasks, DesyncThreads};
pub(crate) use flume::Flume;
pub(crate) use handwritten::Handwritten;
pub(crate) use kameo::Kameo;
pub(crate) use kanal::Kanal;
pub(crate) use may_actor::MayActor;
pub(crate) use ractor::Ractor;
pub(crate) use tokio::{TokioBounded, TokioUnbounded};
pub(crate) use turnwise::{TurnwiseBounded, TurnwisePool, TurnwiseTasks, TurnwiseThreads};
pub(crate) use xtra::Xtra;

use ::tokio::sync::oneshot;

use crate::peer::{Peer, State};

/// As the bound of a mailbox: there is none.
pub(crate) const UNBOUNDED: usize = 0;

/// A message in the channel of a task that owns a state. Replies come by tokio's one-shot channel.
pub(crate) enum Letter<P> {
    Tell(u32),
    Ask(u32, oneshot::Sender<u64>),
    Link(Option<P>, oneshot::Sender<()>),
    Pass(u64),
}

impl<P: Peer> Letter<P> {
    fn asking(rounds: u32) -> (Self, oneshot::Receiver<u64>) {
        let (give, take) = oneshot::channel();
        (Letter::Ask(rounds, give), take)
    }

    fn linking(next: Option<P>) -> (Self, oneshot::Receiver<()>) {
        let (give, take) = oneshot::channel();
        (Letter::Link(next, give), take)
    }

    /// Handles a message as the owner of the state.
    #[inline]
    async fn handle(self, state: &mut State<P>) {
        match self {
            Letter::Tell(rounds) => state.count(rounds),
            Letter::Ask(rounds, reply) => reply.send(state.work(rounds)).expect("the asker waits"),
            Letter::Link(next, reply) => {
                state.link(next);
                reply.send(()).expect("the asker waits");
            }
            Letter::Pass(hops) => {
                if let Some(next) = state.pass(hops) {
                    next.pass(hops - 1).await;
                }
            }
        }
    }
}

/// Returns the bound of a mailbox for a reader.
const fn bound(messages: usize) -> Option<usize> {
    if messages == UNBOUNDED { None } else { Some(messages) }
}
