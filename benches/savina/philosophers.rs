//! Dining Philosophers: each asks one arbitrator for two forks, and again at once if it is denied.
//! Savina: 20 philosophers, 10,000 meals each.
//!
//! The number of denials depends on timing, so messages are counted and not calculated. The
//! philosophers have forks of their own, by which they notice a neighbour that eats at the same
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct Philosophers {
    philosophers: usize,
    meals: u64,
}

/// The two forks of a philosopher.
fn forks(philosopher: usize, of: usize) -> [usize; 2] {
    [philosopher, (philosopher + 1) % of]
}

struct Arbitrator {
    taken: Vec<bool>,
    philosophers: Vec<Actor<Philosopher>>,
    eating: usize,
    total: Total,
    done: Option<Promise<Total>>,
}

struct Philosopher {
    id: usize,
    arbitrator: Actor<Arbitrator>,
    /// The forks that are in use.
    table: Arc<[AtomicBool]>,
    left: u64,
    total: Total,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    meals: u64,
    denied: u64,
    wrong: u64,
}

struct Open {
    philosophers: Vec<Actor<Philosopher>>,
    done: Promise<Total>,
}
struct Think;
struct Hungry(usize);
struct Eat;
struct Denied;
struct Full(usize);
struct Gone(Total);

impl Handler<Open> for Arbitrator {
    type Reply = ();
    fn handle(&mut self, Open { philosophers, done }: Open, _: &mut Context<'_, Self>) {
        for philosopher in &philosophers {
            philosopher.tell(Think).expect("a philosopher is open");
        }
        self.eating = philosophers.len();
        self.philosophers = philosophers;
        self.done = Some(done);
    }
}

impl Handler<Hungry> for Arbitrator {
    type Reply = ();
    fn handle(&mut self, Hungry(id): Hungry, _: &mut Context<'_, Self>) {
        let philosopher = &self.philosophers[id];
        let forks = forks(id, self.taken.len());
        if forks.iter().any(|&fork| self.taken[fork]) {
            philosopher.tell(Denied).expect("a philosopher is open");
        } else {
            forks.into_iter().for_each(|fork| self.taken[fork] = true);
            philosopher.tell(Eat).expect("a philosopher is open");
        }
    }
}

impl Handler<Full> for Arbitrator {
    type Reply = ();
    fn handle(&mut self, Full(id): Full, _: &mut Context<'_, Self>) {
        for fork in forks(id, self.taken.len()) {
            self.total.wrong += u64::from(!self.taken[fork]);
            self.taken[fork] = false;
        }
    }
}

impl Handler<Gone> for Arbitrator {
    type Reply = ();
    fn handle(&mut self, Gone(total): Gone, _: &mut Context<'_, Self>) {
        self.total.meals += total.meals;
        self.total.denied += total.denied;
        self.total.wrong += total.wrong;
        self.eating -= 1;
        if self.eating == 0 {
            self.philosophers.clear();
            self.done.take().expect("all go once").keep(self.total);
        }
    }
}

impl Handler<Think> for Philosopher {
    type Reply = ();
    fn handle(&mut self, _: Think, _: &mut Context<'_, Self>) {
        self.arbitrator.tell(Hungry(self.id)).expect("the arbitrator is open");
    }
}

impl Handler<Denied> for Philosopher {
    type Reply = ();
    fn handle(&mut self, _: Denied, _: &mut Context<'_, Self>) {
        self.total.denied += 1;
        self.arbitrator.tell(Hungry(self.id)).expect("the arbitrator is open");
    }
}

impl Handler<Eat> for Philosopher {
    type Reply = ();
    fn handle(&mut self, _: Eat, cx: &mut Context<'_, Self>) {
        let forks = forks(self.id, self.table.len()).map(|fork| &self.table[fork]);
        // Relaxed: the messages order the meals of neighbours; if they do not, this may notice it.
        self.total.wrong += forks.iter().filter(|fork| fork.load(Relaxed)).count() as u64;
        forks.iter().for_each(|fork| fork.store(true, Relaxed));
        self.total.meals += 1;
        forks.iter().for_each(|fork| fork.store(false, Relaxed));
        self.arbitrator.tell(Full(self.id)).expect("the arbitrator is open");
        self.left -= 1;
        if self.left > 0 {
            cx.actor()
                .expect("the arbitrator has a handle until the end")
                .tell(Think)
                .expect("it is open");
        } else {
            self.arbitrator.tell(Gone(self.total)).expect("the arbitrator is open");
        }
    }
}

impl Benchmark for Philosophers {
    const NAME: &'static str = "philosophers";

    fn sized(quick: bool) -> Self {
        Philosophers { philosophers: 20, meals: if quick { 20 } else { 30_000 } }
    }

    fn size(&self) -> String {
        format!("{} philosophers, {} meals each", self.philosophers, self.meals)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let taken = vec![false; self.philosophers];
        let arbitrator = system.spawn(Arbitrator {
            taken,
            philosophers: Vec::new(),
            eating: 0,
            total: Total::default(),
            done: None,
        });
        let table: Arc<[AtomicBool]> =
            (0..self.philosophers).map(|_| AtomicBool::new(false)).collect();
        let philosophers = (0..self.philosophers)
            .map(|id| {
                let (arbitrator, table) = (arbitrator.clone(), table.clone());
                system.spawn(Philosopher {
                    id,
                    arbitrator,
                    table,
                    left: self.meals,
                    total: Total::default(),
                })
            })
            .collect();
        let (done, total) = promise();
        arbitrator.tell(Open { philosophers, done }).expect("the arbitrator is open");

        let Total { meals, denied, wrong } = answer(total)?;
        same("meals", meals, self.philosophers as u64 * self.meals)?;
        same("forks in two hands", wrong, 0)?;
        same(
            "forks still taken",
            arbitrator.with(|arbitrator| arbitrator.taken.contains(&true)).expect("it is open"),
            false,
        )?;
        // Of each meal `Think`, `Hungry`, `Eat`, `Full`; of each denial itself and another
        // `Hungry`; the last words; the opening.
        Ok(4 * meals + 2 * denied + self.philosophers as u64 + 1)
    }
}
