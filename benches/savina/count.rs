//! Counting: one actor sends as fast as it can to another one, which counts. Savina: 1,000,000
//! messages.
//!
//! Inline, the producer's turn leaves them all in the mailbox, and then they are run in one pass.

use std::thread;

use turnwise::promise;

use crate::{Benchmark, Outcome, Plain, System, answer, same};

pub(crate) struct Count {
    messages: u64,
}

impl Count {
    /// A thread that counts what comes out of a channel.
    fn channel(&self) -> Outcome {
        let (tx, rx) = crossbeam_channel::unbounded::<()>();
        let counter = thread::spawn(move || rx.iter().count() as u64);
        for _ in 0..self.messages {
            tx.send(()).expect("the counter listens");
        }
        drop(tx);
        same("counted", counter.join().expect("it does not panic"), self.messages)?;
        Ok(self.messages + 2)
    }
}

impl Benchmark for Count {
    const NAME: &'static str = "count";
    const PLAIN: Option<Plain<Self>> = Some(("channel", Self::channel));

    fn sized(quick: bool) -> Self {
        Count { messages: if quick { 1000 } else { 2_000_000 } }
    }

    fn size(&self) -> String {
        format!("{} messages", self.messages)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let (done, count) = promise();
        let counter = system.spawn(0_u64);
        let producer = system.spawn(self.messages);
        let sent = producer.send(move |messages| {
            for _ in 0..*messages {
                counter.send(|count| *count += 1).expect("the counter is open");
            }
            counter.send(|count| done.keep(*count)).expect("the counter is open");
        });
        sent.expect("the producer is open");
        same("counted", answer(count)?, self.messages)?;
        Ok(self.messages + 2)
    }
}
