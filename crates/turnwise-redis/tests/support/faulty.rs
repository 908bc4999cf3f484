//! A store that loses, doubles and delays, as a network does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwise_redis::step::Op;
use turnwise_redis::{Called, Effect, MemoryStore, NoticeSink, Store, StoreError};

use super::Dice;

/// One of four steps goes wrong, and one of three notices is lost.
#[derive(Clone, Debug)]
pub struct Faulty {
    store: MemoryStore,
    dice: Arc<Mutex<u64>>,
}

impl Faulty {
    pub fn new(store: MemoryStore, seed: u64) -> Self {
        Faulty { store, dice: Arc::new(Mutex::new(seed)) }
    }

    fn roll(&self, sides: u64) -> u64 {
        let mut seed = self.dice.lock().unwrap();
        let mut dice = Dice(*seed);
        let rolled = dice.roll(sides);
        *seed = dice.0;
        rolled
    }
}

impl Store for Faulty {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let why = || "lost".to_owned();
            let unreachable = || StoreError::Unreachable { since: Duration::ZERO, why: why() };
            match self.roll(16) {
                // The request is lost.
                0 => Err(unreachable()),
                // The answer is lost.
                1 => {
                    self.store.call(op).await?;
                    Err(StoreError::TimedOut { effect: Effect::Unknown })
                }
                // It arrives twice.
                2 => {
                    self.store.call(op).await?;
                    self.store.call(op).await
                }
                // It arrives again, much later; the client has asked again meanwhile.
                3 => {
                    let (store, op) = (self.store.clone(), op.clone());
                    let late = Duration::from_millis(self.roll(40));
                    tokio::spawn(async move {
                        tokio::time::sleep(late).await;
                        let _ = store.call(&op).await;
                    });
                    Err(unreachable())
                }
                _ => self.store.call(op).await,
            }
        })
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        let this = self.clone();
        self.store.listen(
            client,
            Arc::new(move |notice| match this.roll(3) {
                0 => {}
                1 => {
                    sink(notice.clone());
                    sink(notice);
                }
                _ => sink(notice),
            }),
        );
    }

    fn forget(&self, client: &str) {
        self.store.forget(client);
    }
}

/// A store that loses all notices.
#[derive(Debug)]
pub struct Deaf(pub MemoryStore);

impl Store for Deaf {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        self.0.call(op)
    }

    fn listen(&self, _: &str, _: NoticeSink) {}

    fn forget(&self, _: &str) {}
}
