//! Radix Sort: numbers flow through a chain of actors, one per bit. Each lets numbers without its
//! bit pass at once, and those with it when all have come. Savina: 100,000 numbers below 2^60.

use turnwise::{Context, Handler, Promise, Recipient, promise};

use crate::random::Random;
use crate::{Benchmark, Outcome, System, answer, same};

const BITS: u32 = 60;

pub(crate) struct Radix {
    numbers: Vec<u64>,
    sorted: Vec<u64>,
}

struct Number(u64);

struct Sorter {
    bit: u32,
    left: usize,
    later: Vec<u64>,
    next: Recipient<Number>,
}

struct Collector {
    left: usize,
    numbers: Vec<u64>,
    done: Option<Promise<Vec<u64>>>,
}

impl Handler<Number> for Sorter {
    type Reply = ();
    fn handle(&mut self, Number(number): Number, _: &mut Context<'_, Self>) {
        if number >> self.bit & 1 == 0 {
            self.next.tell(Number(number)).expect("the next one is open");
        } else {
            self.later.push(number);
        }
        self.left -= 1;
        if self.left == 0 {
            for number in self.later.drain(..) {
                self.next.tell(Number(number)).expect("the next one is open");
            }
        }
    }
}

impl Handler<Number> for Collector {
    type Reply = ();
    fn handle(&mut self, Number(number): Number, _: &mut Context<'_, Self>) {
        self.numbers.push(number);
        self.left -= 1;
        if self.left == 0 {
            self.done
                .take()
                .expect("the last number comes once")
                .keep(std::mem::take(&mut self.numbers));
        }
    }
}

impl Benchmark for Radix {
    const NAME: &'static str = "radix";

    fn sized(quick: bool) -> Self {
        let mut random = Random::new(2048);
        // Every other one has fewer bits, so that there are some whose order each bit decides.
        let numbers: Vec<u64> = (0..if quick { 100 } else { 50_000 })
            .map(|i| {
                random.next()
                    >> (64 - BITS)
                    >> if i % 2 == 0 { 0 } else { random.below(BITS as usize) }
            })
            .collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        Radix { numbers, sorted }
    }

    fn size(&self) -> String {
        format!("{} numbers of {BITS} bits", self.numbers.len())
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let left = self.numbers.len();
        let (done, sorted) = promise();
        let numbers = Vec::with_capacity(left);
        let collector = system.spawn(Collector { left, numbers, done: Some(done) });
        let mut next = Recipient::new(&collector);
        for bit in (0..BITS).rev() {
            next = Recipient::new(&system.spawn(Sorter { bit, left, later: Vec::new(), next }));
        }
        // The source of the numbers is an actor too.
        let source = system.spawn(self.numbers.clone());
        let sent = source.send(move |numbers| {
            for number in numbers.drain(..) {
                next.tell(Number(number)).expect("the first one is open");
            }
        });
        sent.expect("the source is open");
        same("sorted", answer(sorted)? == self.sorted, true)?;
        Ok((u64::from(BITS) + 1) * self.numbers.len() as u64 + 1)
    }
}
