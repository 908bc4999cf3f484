//! Random sequences of applications, give-ups and limits, against a list.

use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use turnwise::executor::DrainQueue;
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, Refused};

use super::book::{Call, Entry, Fate, book};

#[derive(Clone, Debug)]
enum Step {
    Apply(u64),
    /// Give up the one before these latest ones.
    Drop(usize),
    Limit(u64),
    Run,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..24_u64).prop_map(Step::Apply),
        1 => (0..4_usize).prop_map(Step::Drop),
        1 => (0..14_u64).prop_map(Step::Limit),
        2 => Just(Step::Run),
    ];
    proptest::collection::vec(step, 1..80)
}

#[derive(Debug, PartialEq)]
enum Told {
    In(u64),
    Closed(u64),
    Duplicate(u64),
    Failed,
}

/// The expected outcome.
#[derive(Default)]
struct Model {
    seats: Vec<u64>,
    limit: u64,
    closed: bool,
}

impl Model {
    fn apply(&mut self, id: u64) -> Told {
        if let Some(at) = self.seats.iter().position(|seat| *seat == id) {
            Told::Duplicate(at as u64 + 1)
        } else if self.closed || self.seats.len() as u64 >= self.limit {
            Told::Closed(self.limit)
        } else if fails(id) {
            Told::Failed
        } else {
            self.seats.push(id);
            Told::In(self.seats.len() as u64)
        }
    }

    fn look(&mut self) {
        self.closed |= self.seats.len() as u64 >= self.limit;
    }
}

fn fails(id: u64) -> bool {
    id % 7 == 3
}

fn panics(id: u64) -> bool {
    id % 14 == 3
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_list_does(steps in steps(), limit in 0..12_u64, group in 1..9_usize) {
        let (ledger, controls) = book();
        controls.plan(|call| match call {
            Call::Enter(id) if panics(id) => Fate::PanicAfter,
            Call::Enter(id) if fails(id) => Fate::Error,
            _ => Fate::Good,
        });
        let queue = DrainQueue::new();
        let raffle = Admission::builder(ledger, limit).group(group).group_time(Duration::MAX).executor(queue.handle());
        let raffle = raffle.open().unwrap();
        let mut model = Model { limit, ..Model::default() };
        model.look();
        let mut waiting: Vec<(u64, Entry)> = Vec::new();
        for step in steps.into_iter().chain([Step::Run]) {
            match step {
                Step::Apply(id) => waiting.push((id, raffle.apply(id, Limits::NONE))),
                Step::Drop(back) => {
                    if let Some(at) = waiting.len().checked_sub(back + 1) {
                        drop(waiting.remove(at));
                    }
                }
                Step::Run | Step::Limit(_) => {
                    queue.run_until_idle();
                    for (id, apply) in waiting.drain(..) {
                        prop_assert!(apply.is_ready());
                        let told = match apply.wait() {
                            Ok(admitted) => Told::In(admitted.place),
                            Err(Refused::Closed { limit }) => Told::Closed(limit),
                            Err(Refused::Duplicate { place }) => Told::Duplicate(place),
                            Err(Refused::Failed(_)) => Told::Failed,
                            Err(other) => panic!("{other}"),
                        };
                        prop_assert_eq!(told, model.apply(id));
                    }
                    model.look();
                }
            }
            if let Step::Limit(limit) = step {
                let set = thread::scope(|s| {
                    let set = s.spawn(|| raffle.set_limit(limit));
                    while !set.is_finished() {
                        queue.run_until_idle();
                        thread::yield_now();
                    }
                    set.join().unwrap()
                });
                prop_assert_eq!(set.is_err(), model.closed);
                if !model.closed {
                    model.limit = limit;
                    model.look();
                }
            }
            if let Step::Run | Step::Limit(_) = step {
                let status = raffle.status();
                prop_assert_eq!(status.count, model.seats.len() as u64);
                prop_assert_eq!((status.limit, status.closed), (model.limit, model.closed));
                controls.check();
                let seats = model.seats.iter().zip(1..).map(|(id, place)| (*id, place));
                prop_assert!(controls.rows().into_iter().eq(seats));
            }
        }
    }
}
