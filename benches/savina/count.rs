//! Counting: one actor sends as fast as it can to another one, which counts. Savina: 1,000,000 messages.
//!
//! Inline, the producer's turn leaves them all in the mailbox, and then they are run in one pass.

use turnwise::promise;

use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct Count {
    messages: u64,
}

impl Benchmark for Count {
    const NAME: &'static str = "count";

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
