//! What a program knows of an actor's restarts, and of the numbers that the actor keeps.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::face::Handle;
use crate::ledger::{ACCEPTED, Kind, NOBODY, RUN, Token, described, finding, lacks, messages};
use crate::plan::{OnPanic, Time};
use crate::timing;
use crate::user::World;

thread_local! {
    /// A state that a spawner's factory has just made. The state that it replaces is the next to
    /// be dropped here, and says whose it is.
    static FRESH: RefCell<Option<Arc<Who>>> = const { RefCell::new(None) };
}

/// Whose a state is.
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

    /// Nobody's yet.
    pub fn fresh() -> Arc<Self> {
        let (at, spoiled) = (NOBODY.into(), false.into());
        let who = Arc::new(Who { at, token: OnceLock::new(), spoiled });
        FRESH.set(Some(who.clone()));
        who
    }

    /// A state of this actor is about to be dropped: the one that was made here is its successor.
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
    /// How many were made, and how many of them certainly take no place any more.
    pub made: AtomicU64,
    gone: AtomicU64,
    /// Those that were sent, or wait for room, and have not begun: since when, and who has begun
    /// that was made later.
    line: Mutex<Vec<(u32, u64, Option<u32>)>>,
}

impl Places {
    pub fn is_in_line(&self, id: u32, since: u64) {
        let mut line = self.line.lock().unwrap();
        if lacks(id, RUN) && line.iter().all(|(one, ..)| *one != id) {
            line.push((id, since, None));
        }
    }

    /// It has come back.
    pub fn leaves(&self, id: u32) {
        self.line.lock().unwrap().retain(|(one, ..)| *one != id);
    }

    /// Its turn begins. (One of an actor's at a time.)
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

    /// How many are gone before a message is sent.
    pub fn gone(&self) -> u64 {
        self.gone.load(SeqCst)
    }

    /// One is refused for want of room that was sent when so many were gone.
    pub fn refuses(&self, capacity: usize, gone: u64) {
        let others = self.made.load(SeqCst) - gone - 1;
        if others < capacity as u64 {
            let about = format!("of {capacity} places, at most {others} were taken");
            finding("full beside a free place", &about);
        }
        self.comes_back();
    }

    /// One that was sent has come back and takes no place.
    pub fn comes_back(&self) {
        self.gone.fetch_add(1, SeqCst);
    }
}

/// What was counted of an actor.
#[derive(Default)]
pub struct Record {
    /// What the panic hook was told.
    told: AtomicU64,
    /// How often its factory was called.
    made: AtomicU64,
    /// The clock must show that before the factory is called.
    rests: Mutex<Duration>,
    pub turns: AtomicU64,
    /// Questions that were taken back, and may be counted as turns.
    pub cancelled: AtomicU64,
    /// Messages that are sent to it again and again.
    pub beats: AtomicU64,
    pub room: Places,
    /// More turns come, or go, than messages.
    pub is_vague: AtomicBool,
}

impl Record {
    /// The panic hook of an actor without a spawner is told.
    pub fn panicked(&self, world: &World, at: usize) {
        self.told.fetch_add(1, SeqCst);
        let plan = &world.program.actors[at];
        let OnPanic::Within { first, longest, .. } = plan.on_panic else { return };
        // After the panic of a batch's hook, or by a clock that panics, there is no rest.
        if plan.hooks.batch.is_none() && !matches!(plan.clock, Time::Odd { .. }) {
            let rest = Duration::from_micros(first.min(longest).into());
            *self.rests.lock().unwrap() = timing::shown(world, at) + rest;
        }
    }

    /// Its factory is called.
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

    /// Nothing runs or waits: do the actor's numbers agree with these?
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
        if hooked && discarded > 0 || !hooked && discarded < lost {
            says("discarded");
        }
        let Some(stats) = stats else { return };
        if stats.handled < turns || stats.handled > turns + open {
            says("handled");
        }
        if stats.handled + stats.undelivered < accepted {
            says("accepted");
        }
        if stats.discarded != discarded || stats.undelivered < discarded {
            says("undelivered");
        }
        let exact = plan.hooks.panicked.is_some() && plan.spawner.is_none();
        if exact && stats.panicked != self.told.load(SeqCst) {
            says("panicked");
        }
    }
}
