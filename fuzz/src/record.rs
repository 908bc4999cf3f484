//! The records of an actor's restarts, and of its own counters.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::face::Handle;
use crate::ledger::{
    ACCEPTED, Kind, NOBODY, RUN, TOLD, Token, described, finding, lacks, messages,
};
use crate::plan::{OnPanic, Time};
use crate::timing;
use crate::user::World;

thread_local! {
    /// A state that a spawner's factory has just created. The state that it replaces is dropped
    /// here next, and identifies the actor.
    static FRESH: RefCell<Option<Arc<Who>>> = const { RefCell::new(None) };
}

/// Sees to it that this thread's locals go after those that come later.
pub fn touch() {
    FRESH.with(|_| ());
}

/// The actor of a state.
pub struct Who {
    at: AtomicUsize,
    token: OnceLock<Token>,
    /// A turn on it has panicked.
    pub spoiled: AtomicBool,
}

impl Who {
    pub fn new(at: usize, token: Token) -> Arc<Self> {
        let (at, spoiled) = (at.into(), false.into());
        Arc::new(Who { at, token: token.into(), spoiled })
    }

    /// A state without an actor yet.
    pub fn fresh() -> Arc<Self> {
        let (at, spoiled) = (NOBODY.into(), false.into());
        let who = Arc::new(Who { at, token: OnceLock::new(), spoiled });
        FRESH.set(Some(who.clone()));
        who
    }

    /// Records that a state of this actor is about to be dropped: the one that was created here is
    /// its successor.
    pub fn succeeds(world: &World, at: usize) -> bool {
        let Some(fresh) = FRESH.take() else { return false };
        fresh.at.store(at, SeqCst);
        let _ = fresh.token.set(world.token(Kind::State, at, None));
        true
    }

    pub fn at(&self) -> usize {
        self.at.load(SeqCst)
    }

    pub fn id(&self) -> Option<u32> {
        self.token.get().map(|token| token.id)
    }
}

/// The messages of an actor, as far as they take places and have an order.
#[derive(Default)]
pub struct Places {
    /// The number of created messages, and of those that certainly take no place any more.
    pub made: AtomicU64,
    gone: AtomicU64,
    /// Messages that were sent, or wait for room, and have not begun: the time since when, and the
    /// later message that has begun.
    line: Mutex<Vec<(u32, u64, Option<u32>)>>,
}

impl Places {
    pub fn is_in_line(&self, id: u32, since: u64) {
        let mut line = self.line.lock().unwrap();
        if lacks(id, RUN) && line.iter().all(|(one, ..)| *one != id) {
            line.push((id, since, None));
        }
    }

    /// Records a return.
    pub fn leaves(&self, id: u32) {
        self.line.lock().unwrap().retain(|(one, ..)| *one != id);
    }

    /// Records the beginning of its turn. (One of an actor's at a time.)
    pub fn begins(&self, id: u32, born: u64) {
        self.gone.fetch_add(1, SeqCst);
        let mut line = self.line.lock().unwrap();
        for (_, since, overtaken) in line.iter_mut() {
            if *since < born {
                overtaken.get_or_insert(id);
            }
        }
        let own = line.iter().position(|(one, ..)| *one == id).map(|at| line.swap_remove(at));
        drop(line);
        if let Some((_, _, Some(by))) = own {
            let by = described(by);
            finding("a newcomer before one that waits", &format!("{by} before {}", described(id)));
        }
    }

    /// Returns the number that are gone before a message is sent.
    pub fn gone(&self) -> u64 {
        self.gone.load(SeqCst)
    }

    /// Checks a refusal for want of room of a message that was sent when this many were gone.
    pub fn refuses(&self, capacity: usize, gone: u64) {
        let others = self.made.load(SeqCst) - gone - 1;
        if others < capacity as u64 {
            let about = format!("of {capacity} places, at most {others} were taken");
            finding("full beside a free place", &about);
        }
        self.comes_back();
    }

    /// Records that a sent message was returned and takes no place.
    pub fn comes_back(&self) {
        self.gone.fetch_add(1, SeqCst);
    }
}

/// The counters of an actor.
#[derive(Default)]
pub struct Record {
    /// The number of calls of the panic hook.
    told: AtomicU64,
    /// The number of calls of its factory.
    made: AtomicU64,
    /// The time before which the factory must not be called.
    rests: Mutex<Duration>,
    pub turns: AtomicU64,
    /// Requests that were withdrawn, and may be counted as turns.
    pub cancelled: AtomicU64,
    /// Messages that are sent to it periodically.
    pub beats: AtomicU64,
    pub room: Places,
    /// True if turns and messages cannot be matched.
    pub is_vague: AtomicBool,
}

impl Record {
    /// Records a call of the panic hook of an actor without a spawner.
    pub fn panicked(&self, world: &World, at: usize) {
        self.told.fetch_add(1, SeqCst);
        let plan = &world.program.actors[at];
        let OnPanic::Within { first, longest, .. } = plan.on_panic else { return };
        // After the panic of a batch's hook, or with a clock that panics, there is no rest.
        if plan.hooks.batch.is_none() && !matches!(plan.clock, Time::Odd { .. }) {
            let rest = Duration::from_micros(first.min(longest).into());
            *self.rests.lock().unwrap() = timing::shown(world, at) + rest;
        }
    }

    /// Records a call of its factory.
    pub fn restarts(&self, world: &World, at: usize) {
        let made = self.made.fetch_add(1, SeqCst) + 1;
        let plan = &world.program.actors[at];
        if plan.hooks.panicked.is_none() {
            return;
        }
        let told = self.told.load(SeqCst);
        if made > told {
            finding("a restart without a panic", &format!("actor {at}: {made} after {told}"));
        }
        let OnPanic::Within { most, within, .. } = plan.on_panic else { return };
        if within == u32::MAX && made > most.into() {
            finding("too many restarts", &format!("actor {at}: {made} of {most}"));
        }
        let floor = *self.rests.lock().unwrap();
        if timing::shown(world, at) < floor {
            finding("a restart came early", &format!("actor {at}"));
        }
    }

    /// Compares the actor's counters with these, when nothing runs or waits.
    pub fn check(&self, world: &World, at: usize, actor: &Handle) {
        let plan = &world.program.actors[at];
        let stats = actor.snapshot().stats;
        if stats.is_some() != plan.counted {
            finding("an actor is not as it was built", &format!("actor {at}: {stats:?}"));
        }
        if self.is_vague.load(SeqCst) {
            return;
        }
        let turns = self.turns.load(SeqCst);
        let open = self.cancelled.load(SeqCst) + messages(at, 0, RUN);
        let accepted = messages(at, ACCEPTED, 0);
        let lost = messages(at, ACCEPTED, RUN);
        let (discarded, hooked) = (actor.snapshot().discarded, plan.hooks.undelivered.is_some());
        let says = |what: &str| {
            let known = format!("turns {turns}, open {open}, accepted {accepted}, lost {lost}");
            let told = self.told.load(SeqCst);
            let about = format!("{what}, {known}, told {told}, discarded {discarded}, {stats:?}");
            finding("numbers do not agree", &format!("actor {at}: {about}"));
        };
        // Questions whose askers have left.
        let unheard = messages(at, 0, RUN | TOLD);
        if hooked && discarded > unheard || !hooked && discarded < lost {
            says("discarded");
        }
        let Some(stats) = stats else { return };
        if stats.handled < turns || stats.handled > turns + open {
            says("handled");
        }
        if stats.handled + stats.undelivered < accepted {
            says("accepted");
        }
        if stats.undelivered < discarded {
            says("undelivered");
        }
        let exact = plan.hooks.panicked.is_some() && plan.spawner.is_none();
        if exact && stats.panicked != self.told.load(SeqCst) {
            says("panicked");
        }
    }
}
