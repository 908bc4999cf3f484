//! Big: many actors, each of which sends a ping to a random one of them, itself included, and the
//! next when it has the pong. Savina: 120 actors, 20,000 pings each.

use std::sync::Arc;

use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::random::Random;
use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct Big {
    actors: usize,
    pings: u64,
}

struct Worker {
    id: usize,
    random: Random,
    neighbours: Arc<[Actor<Worker>]>,
    sink: Actor<Sink>,
    /// The worker whose pong comes next.
    expected: usize,
    left: u64,
    total: Total,
}

struct Sink {
    workers: Arc<[Actor<Worker>]>,
    working: usize,
    total: Total,
    done: Option<Promise<Total>>,
}

#[derive(Debug, Default, PartialEq)]
struct Total {
    pings: u64,
    pongs: u64,
    wrong: u64,
}

struct Open {
    workers: Arc<[Actor<Worker>]>,
    done: Promise<Total>,
}
struct Neighbours(Arc<[Actor<Worker>]>);
struct Start;
struct Ping {
    from: usize,
}
struct Pong {
    from: usize,
}
/// Reports that a worker has all its pongs.
struct Ready;
struct Exit;
/// The total of a worker.
struct Seen(Total);

impl Worker {
    fn ping(&mut self) {
        self.left -= 1;
        self.expected = self.random.below(self.neighbours.len());
        self.neighbours[self.expected].tell(Ping { from: self.id }).expect("a worker is open");
    }
}

impl Handler<Neighbours> for Worker {
    type Reply = ();
    fn handle(&mut self, Neighbours(neighbours): Neighbours, _: &mut Context<'_, Self>) {
        self.neighbours = neighbours;
    }
}

impl Handler<Start> for Worker {
    type Reply = ();
    fn handle(&mut self, _: Start, _: &mut Context<'_, Self>) {
        self.ping();
    }
}

impl Handler<Ping> for Worker {
    type Reply = ();
    fn handle(&mut self, Ping { from }: Ping, _: &mut Context<'_, Self>) {
        self.total.pings += 1;
        self.neighbours[from].tell(Pong { from: self.id }).expect("a worker is open");
    }
}

impl Handler<Pong> for Worker {
    type Reply = ();
    fn handle(&mut self, Pong { from }: Pong, _: &mut Context<'_, Self>) {
        self.total.pongs += 1;
        self.total.wrong += u64::from(from != self.expected);
        if self.left > 0 {
            self.ping();
        } else {
            self.sink.tell(Ready).expect("the sink is open");
        }
    }
}

impl Handler<Exit> for Worker {
    type Reply = ();
    fn handle(&mut self, _: Exit, _: &mut Context<'_, Self>) {
        self.neighbours = Arc::new([]);
        self.sink.tell(Seen(std::mem::take(&mut self.total))).expect("the sink is open");
    }
}

impl Handler<Open> for Sink {
    type Reply = ();
    fn handle(&mut self, Open { workers, done }: Open, _: &mut Context<'_, Self>) {
        self.working = workers.len();
        self.workers = workers;
        self.done = Some(done);
        // All know their neighbours before the first ping is on its way.
        for worker in self.workers.iter() {
            worker.tell(Neighbours(self.workers.clone())).expect("a worker is open");
        }
        for worker in self.workers.iter() {
            worker.tell(Start).expect("a worker is open");
        }
    }
}

impl Handler<Ready> for Sink {
    type Reply = ();
    fn handle(&mut self, _: Ready, _: &mut Context<'_, Self>) {
        self.working -= 1;
        if self.working == 0 {
            self.working = self.workers.len();
            for worker in self.workers.iter() {
                worker.tell(Exit).expect("a worker is open");
            }
        }
    }
}

impl Handler<Seen> for Sink {
    type Reply = ();
    fn handle(&mut self, Seen(total): Seen, _: &mut Context<'_, Self>) {
        self.total.pings += total.pings;
        self.total.pongs += total.pongs;
        self.total.wrong += total.wrong;
        self.working -= 1;
        if self.working == 0 {
            self.workers = Arc::new([]);
            self.done.take().expect("all exit once").keep(std::mem::take(&mut self.total));
        }
    }
}

impl Benchmark for Big {
    const NAME: &'static str = "big";

    fn sized(quick: bool) -> Self {
        Big { actors: 120, pings: if quick { 10 } else { 10_000 } }
    }

    fn size(&self) -> String {
        format!("{} actors, {} pings each", self.actors, self.pings)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let nobody: Arc<[Actor<Worker>]> = Arc::new([]);
        let sink = system.spawn(Sink {
            workers: nobody.clone(),
            working: 0,
            total: Total::default(),
            done: None,
        });
        let workers = (0..self.actors)
            .map(|id| {
                let (random, neighbours, sink) =
                    (Random::new(id as u64), nobody.clone(), sink.clone());
                system.spawn(Worker {
                    id,
                    random,
                    neighbours,
                    sink,
                    expected: 0,
                    left: self.pings,
                    total: Total::default(),
                })
            })
            .collect();
        let (done, total) = promise();
        sink.tell(Open { workers, done }).expect("the sink is open");
        let actors = self.actors as u64;
        same(
            "in all",
            answer(total)?,
            Total { pings: actors * self.pings, pongs: actors * self.pings, wrong: 0 },
        )?;
        // Of each worker the pings and pongs, and `Neighbours`, `Start`, `Ready`, `Exit`, `Seen`.
        Ok(2 * actors * self.pings + 5 * actors + 1)
    }
}
