//! Concurrent Dictionary: workers read and write a hash map that one actor has. Savina: 20 workers,
//! 10,000 requests each, 10 % of them writes, over 524,287 entries.
//!
//! All values of a key are equal to it modulo the number of entries, so a worker can check what it
//! reads.

use std::collections::HashMap;
use std::thread;

use parking_lot::Mutex;
use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::random::Random;
use crate::{Benchmark, Outcome, Plain, System, answer, same};

const WRITES_PERCENT: usize = 10;

pub(crate) struct Dictionary {
    workers: usize,
    requests: u64,
    entries: HashMap<usize, usize>,
}

#[derive(Debug, PartialEq)]
struct Total {
    requests: u64,
    entries: usize,
    wrong: u64,
}

struct Map {
    entries: HashMap<usize, usize>,
    requests: u64,
}

struct Worker {
    map: Actor<Map>,
    master: Actor<Master>,
    random: Random,
    entries: usize,
    key: usize,
    left: u64,
    wrong: u64,
}

struct Master {
    map: Actor<Map>,
    workers: Vec<Actor<Worker>>,
    working: usize,
    wrong: u64,
    done: Option<Promise<Total>>,
}

struct Open {
    workers: Vec<Actor<Worker>>,
    done: Promise<Total>,
}
struct Start;
struct Read {
    key: usize,
    reader: Actor<Worker>,
}
struct Write {
    key: usize,
    value: usize,
    writer: Actor<Worker>,
}
/// The value that was read or written.
struct Value(Option<usize>);
struct Finished {
    wrong: u64,
}

impl Handler<Read> for Map {
    type Reply = ();
    fn handle(&mut self, Read { key, reader }: Read, _: &mut Context<'_, Self>) {
        self.requests += 1;
        reader.tell(Value(self.entries.get(&key).copied())).expect("a worker is open");
    }
}

impl Handler<Write> for Map {
    type Reply = ();
    fn handle(&mut self, Write { key, value, writer }: Write, _: &mut Context<'_, Self>) {
        self.requests += 1;
        self.entries.insert(key, value);
        writer.tell(Value(Some(value))).expect("a worker is open");
    }
}

impl Worker {
    fn ask(&mut self, cx: &Context<'_, Self>) {
        if self.left == 0 {
            self.master.tell(Finished { wrong: self.wrong }).expect("the master is open");
            return;
        }
        self.left -= 1;
        self.key = self.random.below(self.entries);
        let (key, this) = (self.key, cx.actor().expect("the master has a handle until the end"));
        if self.random.below(100) < WRITES_PERCENT {
            let value = key + self.random.below(1000) * self.entries;
            self.map.tell(Write { key, value, writer: this }).expect("the map is open");
        } else {
            self.map.tell(Read { key, reader: this }).expect("the map is open");
        }
    }
}

impl Handler<Start> for Worker {
    type Reply = ();
    fn handle(&mut self, _: Start, cx: &mut Context<'_, Self>) {
        self.ask(cx);
    }
}

impl Handler<Value> for Worker {
    type Reply = ();
    fn handle(&mut self, Value(value): Value, cx: &mut Context<'_, Self>) {
        self.wrong += u64::from(value.is_none_or(|value| value % self.entries != self.key));
        self.ask(cx);
    }
}

impl Handler<Open> for Master {
    type Reply = ();
    fn handle(&mut self, Open { workers, done }: Open, _: &mut Context<'_, Self>) {
        for worker in &workers {
            worker.tell(Start).expect("a worker is open");
        }
        self.working = workers.len();
        self.workers = workers;
        self.done = Some(done);
    }
}

impl Handler<Finished> for Master {
    type Reply = ();
    fn handle(&mut self, Finished { wrong }: Finished, _: &mut Context<'_, Self>) {
        self.wrong += wrong;
        self.working -= 1;
        if self.working == 0 {
            self.workers.clear();
            let (wrong, done) = (self.wrong, self.done.take().expect("all finish once"));
            let report = move |map: &mut Map| {
                done.keep(Total { requests: map.requests, entries: map.entries.len(), wrong })
            };
            self.map.send(report).expect("the map is open");
        }
    }
}

impl Dictionary {
    /// A mutex around the map, and two threads that are ten workers each.
    fn mutex(&self) -> Outcome {
        let entries = self.entries.len();
        let map = Mutex::new(self.entries.clone());
        let work = |mut random: Random| {
            (0..self.workers as u64 / 2 * self.requests)
                .filter(|_| {
                    let key = random.below(entries);
                    let value = if random.below(100) < WRITES_PERCENT {
                        let value = key + random.below(1000) * entries;
                        map.lock().insert(key, value);
                        Some(value)
                    } else {
                        map.lock().get(&key).copied()
                    };
                    value.is_none_or(|value| value % entries != key)
                })
                .count()
        };
        let wrong: usize = thread::scope(|scope| {
            let threads = [0, 1].map(|id| scope.spawn(move || work(Random::new(id))));
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
        });
        same("wrong values", wrong, 0)?;
        same("entries", map.lock().len(), entries)?;
        Ok(self.messages())
    }

    fn messages(&self) -> u64 {
        // Each request and its answer; of each worker `Start` and `Finished`; the opening and the
        // report.
        let workers = self.workers as u64;
        2 * workers * self.requests + 2 * workers + 2
    }
}

impl Benchmark for Dictionary {
    const NAME: &'static str = "dictionary";
    const PLAIN: Option<Plain<Self>> = Some(("mutex", Self::mutex));

    fn sized(quick: bool) -> Self {
        let entries = if quick { 1000 } else { 524_287 };
        Dictionary {
            workers: 20,
            requests: if quick { 20 } else { 30_000 },
            entries: (0..entries).map(|key| (key, key)).collect(),
        }
    }

    fn size(&self) -> String {
        format!("{} workers, {} requests each", self.workers, self.requests)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let map = system.spawn(Map { entries: self.entries.clone(), requests: 0 });
        let master = system.spawn(Master {
            map: map.clone(),
            workers: Vec::new(),
            working: 0,
            wrong: 0,
            done: None,
        });
        let workers = (0..self.workers)
            .map(|id| {
                let (map, master, random) = (map.clone(), master.clone(), Random::new(id as u64));
                system.spawn(Worker {
                    map,
                    master,
                    random,
                    entries: self.entries.len(),
                    key: 0,
                    left: self.requests,
                    wrong: 0,
                })
            })
            .collect();
        let (done, total) = promise();
        master.tell(Open { workers, done }).expect("the master is open");
        let requests = self.workers as u64 * self.requests;
        same("in all", answer(total)?, Total { requests, entries: self.entries.len(), wrong: 0 })?;
        Ok(self.messages())
    }
}
