//! A store in memory whose clients can be killed as processes are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use turnwise_redis::step::Op;
use turnwise_redis::{Called, MemoryStore, NoticeSink, Store, StoreError};

/// A store for a client that can die: its steps fail from then on, and it gets no notices.
#[derive(Debug)]
pub(crate) struct Mortal {
    pub(crate) store: MemoryStore,
    pub(crate) dead: Arc<AtomicBool>,
}

impl Mortal {
    fn lives(&self) -> Result<(), StoreError> {
        match self.dead.load(Relaxed) {
            true => Err(StoreError::WrongStore { needs: "a client that has not ended".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Store for Mortal {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            self.lives()?;
            let answer = self.store.call(op).await;
            // It may die after the step and before the answer.
            self.lives().and(answer)
        })
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        self.store.listen(client, sink);
    }

    fn forget(&self, client: &str) {
        self.store.forget(client);
    }
}
