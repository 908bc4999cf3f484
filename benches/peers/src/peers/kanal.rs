//! A task that owns the state and receives from one of kanal's asynchronous channels.

use std::future::Future;

use super::{Letter, UNBOUNDED, bound};
use crate::hosts;
use crate::peer::{Peer, State};

#[derive(Clone)]
pub(crate) struct Kanal<const BOUND: usize>(kanal::AsyncSender<Letter<Self>>);

const LISTENS: &str = "the owner listens as long as there is a sender";

impl<const BOUND: usize> Peer for Kanal<BOUND> {
    const PACKAGE: &'static str = "kanal";
    const WAY: &'static str = "asynchronous, task";
    const BOUND: Option<usize> = bound(BOUND);
    const NOTE: Option<&'static str> = if BOUND == UNBOUNDED {
        None
    } else {
        Some(
            "Takes the memory for all the messages that a bounded channel can hold when it is made.",
        )
    };

    async fn spawn(_place: usize, mut state: State<Self>) -> Self {
        let (letters, inbox) = if BOUND == UNBOUNDED {
            kanal::unbounded_async::<Letter<Self>>()
        } else {
            kanal::bounded_async(BOUND)
        };
        tokio::spawn(async move {
            while let Ok(letter) = inbox.recv().await {
                letter.handle(&mut state).await;
            }
        });
        Kanal(letters)
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
