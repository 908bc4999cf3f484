//! A task that owns the state and receives from one of flume's channels, by its asynchronous calls.

use std::future::Future;

use super::{Letter, UNBOUNDED, bound};
use crate::hosts;
use crate::peer::{Peer, State};

#[derive(Clone)]
pub(crate) struct Flume<const BOUND: usize>(flume::Sender<Letter<Self>>);

const LISTENS: &str = "the owner listens as long as there is a sender";

impl<const BOUND: usize> Peer for Flume<BOUND> {
    const PACKAGE: &'static str = "flume";
    const WAY: &'static str = "asynchronous, task";
    const BOUND: Option<usize> = bound(BOUND);

    async fn spawn(_place: usize, mut state: State<Self>) -> Self {
        let (letters, inbox) = if BOUND == UNBOUNDED {
            flume::unbounded::<Letter<Self>>()
        } else {
            flume::bounded(BOUND)
        };
        tokio::spawn(async move {
            while let Ok(letter) = inbox.recv_async().await {
                letter.handle(&mut state).await;
            }
        });
        Flume(letters)
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.send_async(Letter::Tell(rounds)).await.expect(LISTENS);
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        let (letter, reply) = Letter::asking(rounds);
        self.0.send_async(letter).await.expect(LISTENS);
        reply.await.expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        let (letter, reply) = Letter::linking(next);
        self.0.send_async(letter).await.expect(LISTENS);
        reply.await.expect(LISTENS);
    }
    async fn pass(&self, hops: u64) {
        self.0.send_async(Letter::Pass(hops)).await.expect(LISTENS);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}
