//! Bounded Buffer: producers and consumers work for a while on each item, and a manager bounds the
//! waiting items. Savina: 40 producers with 1,000 items each, 40 consumers, room for 50; an item
//! costs 2,500 logarithms on either side, here 100.
//!
//! The manager asks a producer for the next item only if there is room for it; each producer may
//! have one on its way.

use std::collections::VecDeque;

use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::random::Random;
use crate::{Benchmark, Outcome, System, answer, same};

const ROOM: usize = 50;
/// Logarithms per item, on each side.
const WORK: usize = 100;

pub(crate) struct Buffer {
    producers: usize,
    consumers: usize,
    items: u64,
}

struct Producer {
    id: usize,
    manager: Actor<Manager>,
    random: Random,
    left: u64,
    made: Account,
}

struct Consumer {
    id: usize,
    manager: Actor<Manager>,
    random: Random,
    used: Account,
}

#[derive(Default)]
struct Manager {
    producers: Vec<Actor<Producer>>,
    consumers: Vec<Actor<Consumer>>,
    idle_producers: VecDeque<usize>,
    idle_consumers: VecDeque<usize>,
    pending: VecDeque<f64>,
    most_pending: usize,
    producing: usize,
    closing: usize,
    made: Account,
    used: Account,
    done: Option<Promise<Total>>,
}

/// Items, and a sum of their values that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Account {
    items: u64,
    sum: u64,
}

impl Account {
    fn add(&mut self, item: f64) {
        self.add_all(Account { items: 1, sum: item.to_bits() });
    }

    fn add_all(&mut self, other: Account) {
        self.items += other.items;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

struct Total {
    made: Account,
    used: Account,
    most_pending: usize,
}

struct Open {
    producers: Vec<Actor<Producer>>,
    consumers: Vec<Actor<Consumer>>,
    done: Promise<Total>,
}
struct Produce;
struct Made {
    item: f64,
    producer: usize,
}
struct Consume(f64);
struct Available {
    consumer: usize,
}
struct ProducerDone(Account);
struct Exit;
struct ConsumerDone(Account);

/// The original's work on an item.
fn work(mut value: f64, random: &mut Random) -> f64 {
    for _ in 0..WORK {
        let fraction = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        value += (fraction + 0.01).ln();
    }
    value
}

impl Handler<Produce> for Producer {
    type Reply = ();
    fn handle(&mut self, _: Produce, _: &mut Context<'_, Self>) {
        if self.left == 0 {
            self.manager.tell(ProducerDone(self.made)).expect("the manager is open");
            return;
        }
        self.left -= 1;
        let item = work(0.0, &mut self.random);
        self.made.add(item);
        self.manager.tell(Made { item, producer: self.id }).expect("the manager is open");
    }
}

impl Handler<Consume> for Consumer {
    type Reply = ();
    fn handle(&mut self, Consume(item): Consume, _: &mut Context<'_, Self>) {
        std::hint::black_box(work(item, &mut self.random));
        self.used.add(item);
        self.manager.tell(Available { consumer: self.id }).expect("the manager is open");
    }
}

impl Handler<Exit> for Consumer {
    type Reply = ();
    fn handle(&mut self, _: Exit, _: &mut Context<'_, Self>) {
        self.manager.tell(ConsumerDone(self.used)).expect("the manager is open");
    }
}

impl Manager {
    fn close_if_done(&mut self) {
        if self.producing == 0 && self.idle_consumers.len() == self.consumers.len() {
            self.closing = self.consumers.len();
            for consumer in &self.consumers {
                consumer.tell(Exit).expect("a consumer is open");
            }
        }
    }
}

impl Handler<Open> for Manager {
    type Reply = ();
    fn handle(&mut self, Open { producers, consumers, done }: Open, _: &mut Context<'_, Self>) {
        self.idle_consumers = (0..consumers.len()).collect();
        self.producing = producers.len();
        for producer in &producers {
            producer.tell(Produce).expect("a producer is open");
        }
        (self.producers, self.consumers, self.done) = (producers, consumers, Some(done));
    }
}

impl Handler<Made> for Manager {
    type Reply = ();
    fn handle(&mut self, Made { item, producer }: Made, _: &mut Context<'_, Self>) {
        match self.idle_consumers.pop_front() {
            Some(consumer) => {
                self.consumers[consumer].tell(Consume(item)).expect("a consumer is open")
            }
            None => self.pending.push_back(item),
        }
        self.most_pending = self.most_pending.max(self.pending.len());
        // Each of the other producers may have one on its way.
        if self.pending.len() + self.producers.len() >= ROOM {
            self.idle_producers.push_back(producer);
        } else {
            self.producers[producer].tell(Produce).expect("a producer is open");
        }
    }
}

impl Handler<Available> for Manager {
    type Reply = ();
    fn handle(&mut self, Available { consumer }: Available, _: &mut Context<'_, Self>) {
        match self.pending.pop_front() {
            Some(item) => {
                self.consumers[consumer].tell(Consume(item)).expect("a consumer is open");
                if let Some(producer) = self.idle_producers.pop_front() {
                    self.producers[producer].tell(Produce).expect("a producer is open");
                }
            }
            None => {
                self.idle_consumers.push_back(consumer);
                self.close_if_done();
            }
        }
    }
}

impl Handler<ProducerDone> for Manager {
    type Reply = ();
    fn handle(&mut self, ProducerDone(made): ProducerDone, _: &mut Context<'_, Self>) {
        self.made.add_all(made);
        self.producing -= 1;
        self.close_if_done();
    }
}

impl Handler<ConsumerDone> for Manager {
    type Reply = ();
    fn handle(&mut self, ConsumerDone(used): ConsumerDone, _: &mut Context<'_, Self>) {
        self.used.add_all(used);
        self.closing -= 1;
        if self.closing == 0 {
            self.producers.clear();
            self.consumers.clear();
            let done = self.done.take().expect("all are done once");
            done.keep(Total { made: self.made, used: self.used, most_pending: self.most_pending });
        }
    }
}

impl Benchmark for Buffer {
    const NAME: &'static str = "buffer";

    fn sized(quick: bool) -> Self {
        Buffer { producers: 40, consumers: 40, items: if quick { 10 } else { 2000 } }
    }

    fn size(&self) -> String {
        format!("{} to {}, {} items each", self.producers, self.consumers, self.items)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let manager = system.spawn(Manager::default());
        let producers = (0..self.producers)
            .map(|id| {
                let (manager, random) = (manager.clone(), Random::new(id as u64));
                system.spawn(Producer {
                    id,
                    manager,
                    random,
                    left: self.items,
                    made: Account::default(),
                })
            })
            .collect();
        let consumers = (0..self.consumers)
            .map(|id| {
                let (manager, random) =
                    (manager.clone(), Random::new((self.producers + id) as u64));
                system.spawn(Consumer { id, manager, random, used: Account::default() })
            })
            .collect();
        let (done, total) = promise();
        manager.tell(Open { producers, consumers, done }).expect("the manager is open");

        let Total { made, used, most_pending } = answer(total)?;
        let items = self.producers as u64 * self.items;
        same("items made", made.items, items)?;
        same("used", used, made)?;
        same("items within bounds", most_pending <= ROOM, true)?;
        // Each item is asked for, made, consumed, and its consumer is available again; of each
        // producer the last `Produce` and its answer, of each consumer the exit and its answer.
        Ok(4 * items + 2 * (self.producers + self.consumers) as u64 + 1)
    }
}
