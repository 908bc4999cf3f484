//! Tokio alone, as its documentation and most first actors have it: a task that owns the state and
//! receives from a channel.

use std::future::Future;

use tokio::sync::mpsc;

use super::{Letter, bound};
use crate::hosts;
use crate::peer::{Peer, State};

/// The owner receives up to this many messages at once.
#[derive(Clone)]
pub(crate) struct TokioUnbounded<const BATCH: usize>(mpsc::UnboundedSender<Letter<Self>>);

#[derive(Clone)]
pub(crate) struct TokioBounded<const BOUND: usize>(mpsc::Sender<Letter<Self>>);

const LISTENS: &str = "the owner listens as long as there is a sender";

impl<const BATCH: usize> Peer for TokioUnbounded<BATCH> {
    const PACKAGE: &'static str = "tokio";
    const WAY: &'static str = if BATCH == 1 { "`mpsc`, `recv`" } else { "`mpsc`, `recv_many`" };
    const BOUND: Option<usize> = None;

    async fn spawn(_place: usize, mut state: State<Self>) -> Self {
        let (letters, mut inbox) = mpsc::unbounded_channel::<Letter<Self>>();
        tokio::spawn(async move {
            if BATCH == 1 {
                while let Some(letter) = inbox.recv().await {
                    letter.handle(&mut state).await;
                }
            } else {
                let mut batch = vec![];
                while inbox.recv_many(&mut batch, BATCH).await > 0 {
                    for letter in batch.drain(..) {
                        letter.handle(&mut state).await;
                    }
                }
            }
        });
        TokioUnbounded(letters)
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.send(Letter::Tell(rounds)).expect(LISTENS);
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        let (letter, reply) = Letter::asking(rounds);
        self.0.send(letter).expect(LISTENS);
        reply.await.expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        let (letter, reply) = Letter::linking(next);
        self.0.send(letter).expect(LISTENS);
        reply.await.expect(LISTENS);
    }
    async fn pass(&self, hops: u64) {
        self.0.send(Letter::Pass(hops)).expect(LISTENS);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}

impl<const BOUND: usize> Peer for TokioBounded<BOUND> {
    const PACKAGE: &'static str = "tokio";
    const WAY: &'static str = "`mpsc`, `recv`";
    const BOUND: Option<usize> = bound(BOUND);

    async fn spawn(_place: usize, mut state: State<Self>) -> Self {
        let (letters, mut inbox) = mpsc::channel::<Letter<Self>>(BOUND);
        tokio::spawn(async move {
            while let Some(letter) = inbox.recv().await {
                letter.handle(&mut state).await;
            }
        });
        TokioBounded(letters)
    }
    #[inline]
    async fn tell(&self, rounds: u32) {
        self.0.send(Letter::Tell(rounds)).await.expect(LISTENS);
    }
    #[inline]
    async fn ask(&self, rounds: u32) -> u64 {
        let (letter, reply) = Letter::asking(rounds);
        self.0.send(letter).await.expect(LISTENS);
        reply.await.expect(LISTENS)
    }
    async fn link(&self, next: Option<Self>) {
        let (letter, reply) = Letter::linking(next);
        self.0.send(letter).await.expect(LISTENS);
        reply.await.expect(LISTENS);
    }
    async fn pass(&self, hops: u64) {
        self.0.send(Letter::Pass(hops)).await.expect(LISTENS);
    }
    fn launch(_place: usize, task: impl Future<Output = ()> + Send + 'static) {
        hosts::task(task);
    }
}
