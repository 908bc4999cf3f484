//! Fork Join, throughput: the main thread deals out messages to actors that compute a little.
//! Savina: 60 actors, 10,000 messages each.

use std::hint::black_box;

use turnwise::{Context, Handler, Promise, promise};

use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct Throughput {
    actors: usize,
    messages: u64,
}

struct Worker {
    left: u64,
    sum: f64,
    done: Option<Promise<f64>>,
}

struct Compute(f64);

/// The original's work: a sine, squared.
fn squared_sine(theta: f64) -> f64 {
    theta.sin().powi(2)
}

impl Handler<Compute> for Worker {
    type Reply = ();
    fn handle(&mut self, Compute(theta): Compute, _: &mut Context<'_, Self>) {
        self.sum += squared_sine(black_box(theta));
        self.left -= 1;
        if self.left == 0 {
            self.done.take().expect("the last message comes once").keep(self.sum);
        }
    }
}

impl Benchmark for Throughput {
    const NAME: &'static str = "throughput";

    fn sized(quick: bool) -> Self {
        Throughput { actors: 60, messages: if quick { 20 } else { 60_000 } }
    }

    fn size(&self) -> String {
        format!("{} actors, {} messages each", self.actors, self.messages)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let (workers, sums): (Vec<_>, Vec<_>) = (0..self.actors)
            .map(|_| {
                let (done, sum) = promise();
                (system.spawn(Worker { left: self.messages, sum: 0.0, done: Some(done) }), sum)
            })
            .unzip();
        for _ in 0..self.messages {
            for worker in &workers {
                worker.tell(Compute(37.2)).expect("a worker is open");
            }
        }
        let once = squared_sine(37.2);
        for sum in sums {
            let per_message = answer(sum)? / self.messages as f64;
            same("the sum of a worker is right", (per_message - once).abs() < 1e-9, true)?;
        }
        Ok(self.actors as u64 * self.messages)
    }
}
