//! The models, what they share, and the planted bugs that each of them has to find.

mod answers;
mod chain;
mod circles;
mod room;
mod turns;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};

use crate::floors::actor::{Actor, Reply, WaitError, promise};
use crate::floors::cell::config::PanicPolicy;
use crate::floors::cell::executor::{Drain, Executor};
use crate::floors::cell::settings::Overflow;
use crate::floors::error::{AskError, Reason};
use crate::floors::fallback;
use crate::floors::time::Limit;
use crate::runner::{check, finds};
use crate::sync::panic::Planned;
use crate::sync::thread::{Joiner, spawn};
use crate::sync::{Condvar, Mutex};

/// Drains, for threads that run them.
#[derive(Clone, Default)]
struct Workers(Arc<Line>);

#[derive(Default)]
struct Line {
    /// And whether no more come.
    drains: Mutex<(VecDeque<Drain>, bool)>,
    bell: Condvar,
}

impl Executor for Workers {
    fn execute(&self, drain: Drain) {
        self.0.drains.lock().0.push_back(drain);
        self.0.bell.notify_one();
    }
}

impl Workers {
    fn start(&self) -> Joiner<()> {
        let line = self.0.clone();
        spawn(move || {
            loop {
                let mut drains = line.drains.lock();
                let drain = loop {
                    match drains.0.pop_front() {
                        Some(drain) => break drain,
                        None if drains.1 => return,
                        None => line.bell.wait(&mut drains),
                    }
                };
                drop(drains);
                drain.run();
            }
        })
    }

    fn close(&self) {
        self.0.drains.lock().1 = true;
        self.0.bell.notify_all();
    }
}

/// Of the schedule: a replay draws the same.
fn any(below: usize) -> usize {
    thread_rng().gen_range(0..below)
}

fn polled<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The outcome of a message. It orders nothing, and is no point at which others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    Made,
    Begun,
    /// Its turn came to its end.
    Done,
    /// Its turn was dropped on the way.
    Cut,
    /// It was dropped before its turn: given back, cancelled, or refused.
    Back,
}

/// The fate of one message, for who looks at it.
#[derive(Clone, Debug)]
struct Fated(Arc<AtomicU8>);

/// The part of it that is in the message.
struct Token(Fated);

/// All messages of a schedule.
#[derive(Clone, Default)]
struct Tokens(Arc<std::sync::Mutex<Vec<Fated>>>);

impl Tokens {
    fn make(&self) -> (Token, Fated) {
        let fated = Fated(Arc::new(AtomicU8::new(Fate::Made as u8)));
        self.0.lock().expect("no panic").push(fated.clone());
        (Token(fated.clone()), fated)
    }

    /// Nothing waits any more, and nothing stays.
    fn are_over(&self) {
        let fates: Vec<Fate> = self.0.lock().expect("no panic").iter().map(Fated::fate).collect();
        assert!(!fates.iter().any(|fate| matches!(fate, Fate::Made | Fate::Begun)), "{fates:?}");
    }
}

impl Fated {
    fn fate(&self) -> Fate {
        [Fate::Made, Fate::Begun, Fate::Done, Fate::Cut, Fate::Back]
            [usize::from(self.0.load(Relaxed))]
    }

    fn go(&self, from: Fate, to: Fate) {
        assert_eq!(self.fate(), from, "on the way to {to:?}");
        self.0.store(to as u8, Relaxed);
    }
}

impl Token {
    fn begin(&self) {
        self.0.go(Fate::Made, Fate::Begun);
    }

    fn done(&self) {
        self.0.go(Fate::Begun, Fate::Done);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        match self.0.fate() {
            Fate::Made => self.0.go(Fate::Made, Fate::Back),
            Fate::Begun => self.0.go(Fate::Begun, Fate::Cut),
            fate => assert_eq!(fate, Fate::Done, "dropped twice"),
        }
    }
}

#[test]
fn turns() {
    check("turns", 3_000, turns::turns);
}

#[test]
fn ring() {
    check("ring", 3_000, circles::ring);
}

#[test]
fn relay() {
    check("relay", 3_000, circles::relay);
}

#[test]
fn ways() {
    check("ways", 3_000, circles::ways);
}

#[test]
fn room() {
    check("room", 3_000, room::room);
}

#[test]
fn chain() {
    check("chain", 3_000, chain::chain);
}

#[test]
fn answers() {
    check("answers", 3_000, answers::answers);
}

/// The planted bugs that each model has to find.
const FOUND: &[(&str, &[&str])] = &[
    (
        "turns",
        &[
            "turn_woken_not_seen",
            "turn_polled_though_cut",
            "turn_future_stays",
            "turn_answered_before_its_drop",
        ],
    ),
    ("ring", &["circle_not_looked_for", "circle_looked_for_before"]),
    ("relay", &["turn_wake_leaves_the_owner", "turn_registered_for_ever"]),
    ("ways", &["circle_looked_for_before", "r4_sleeper_not_woken"]),
    (
        "room",
        &[
            "room_let_in_untold",
            "room_let_in_though_given_up",
            "room_waits_unwatched",
            "room_given_up_and_run",
        ],
    ),
    ("chain", &["batch_not_ended", "r8_head_lost_by_a_takeover", "r11_message_in_hand_forgotten"]),
    (
        "answers",
        &[
            "r5_cancelled_though_started",
            "r5_first_to_leave_frees",
            "r5_early_leaver_frees_nothing",
            "r5_waiter_not_woken",
        ],
    ),
];

#[test]
fn planted_bugs_are_found() {
    for (model, bugs) in FOUND {
        for bug in *bugs {
            assert!(finds(model, bug), "`{model}` does not find `{bug}`");
        }
    }
}

/// A table of the models that find each planted bug: `-- --ignored --nocapture`.
#[test]
#[ignore = "it takes minutes"]
fn hunt() {
    for model in ["turns", "ring", "relay", "ways", "room", "chain", "answers"] {
        let found = crate::BUGS.iter().filter(|bug| finds(model, bug));
        println!("{model}: {:?}", found.collect::<Vec<_>>());
    }
}
