//! Messages whose answers are lost, for longer than a test can wait.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use turnwise_redis::step::{Op, Step};
use turnwise_redis::{
    Called, Drains, Effect, MemoryStore, MessageError, Remote, Store, StoreError,
};

use crate::support::board::{Add, Board};

/// A store whose answers are lost, and when it was last sent a message.
#[derive(Debug)]
struct Mute(MemoryStore, Arc<Mutex<Option<Instant>>>);

impl Store for Mute {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        if matches!(&op.step, Step::Mailbox(step) if step.name() == "push") {
            *self.1.lock().unwrap() = Some(Instant::now());
        }
        let called = self.0.call(op);
        Box::pin(async move {
            called.await?;
            Err(StoreError::TimedOut { effect: Effect::Unknown })
        })
    }

    crate::support::forwards_notices!(0);
}

/// A copy of a message that arrived after its outcome was forgotten would be another message. The
/// process that drains it may keep that for the least time.
#[test]
fn messages_are_repeated_for_less_time_than_their_ids_are_known() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
        let (sent, least) = (Arc::new(Mutex::default()), Duration::from_secs(60));
        let remote = Remote::builder().give_up_after(Duration::from_secs(3600));
        let remote = remote.here("c", |_| Poll::Ready(()));
        let remote = remote.over(Mute(MemoryStore::new(), sent.clone())).unwrap();
        let kind = remote.actors::<Board>("board").message::<Add>("add");
        let kind = kind.drains(Drains::Never).keep_outcomes(least * 60);
        let eu = kind.open().unwrap().of("eu").unwrap();
        let began = Instant::now();
        assert!(matches!(eu.tell(Add(1)).await, Err(MessageError::Store(_))));
        assert!(sent.lock().unwrap().unwrap() < began + least);
        let began = Instant::now();
        assert!(matches!(eu.ask(Add(1)).await, Err(MessageError::Store(_))));
        assert!(sent.lock().unwrap().unwrap() < began + least);
    });
}
