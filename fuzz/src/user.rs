//! User code: the values of a program, and its steps when it is called.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::mem::Discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cooked_waker::{IntoWaker, Wake, WakeRef};

use crate::face::{
    self, Asked, Done, Handle, Limit, Order, Outcome, Owed, Place, Route, Underway, Weak,
};
use crate::ledger::{
    ACCEPTED, BACK, CLAIMED, DROPPED, FORGIVEN, HOOKED, KEPT, Kind, NOBODY, RUN, SETTLED, TOLD,
    Token, WITHDRAWN, calls, described, feature, finding, flags, happens, lacks, mark, messages,
};
use crate::plan::{
    Bell, Body, Deed, FUTURES, Fate, For, How, Inside, Later, Letter, Manner, OnPanic, PlaceKind,
    Program, Runs, Settles, Step, Time,
};
use crate::record::{self, Record, Who};
use crate::timing::{self, Clockwork};
use crate::turns::{self, Desk};

/// The activity of a thread, as far as the rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doing {
    /// The steps of a thread of the program.
    Steps,
    Turn,
    /// User code outside turns: a hook, a destructor, a waker, a clock, an executor.
    Code,
    /// Inside the crate's `poll`.
    Poll,
}

/// The maximum depth of calls between user code and the crate.
const DEEPEST: u32 = 10;
/// The maximum number of steps of a program, because user code may be called without an end.
const FUEL: i32 = 600;

/// The caller of a thread's code. The crate calls no user code while it unwinds. What is dropped in
/// a frame of its own, while that unwinds, is the program's.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Program,
    /// Called by a thread that was unwinding, or not.
    Crate {
        unwinds: bool,
    },
}

thread_local! {
    static DOING: Cell<Doing> = const { Cell::new(Doing::Code) };
    static SIDE: Cell<Side> = const { Cell::new(Side::Crate { unwinds: false }) };
    /// A waker, or a handle that cuts a turn, was called, maybe under a lock that user code takes.
    static WAKING: Cell<bool> = const { Cell::new(false) };
    /// The number of calls of user code by the crate that this thread is inside of.
    static CALLED: Cell<u32> = const { Cell::new(0) };
    /// The number of them in which the steps of the waker are that a thread inside of no other has
    /// called, as it let a mailbox go.
    static LETS_GO: Cell<Option<u32>> = const { Cell::new(None) };
    /// An executor of the program's own has been called.
    static EXECUTING: Cell<bool> = const { Cell::new(false) };
    /// The message that this thread is posting.
    static POSTS: Cell<Option<u32>> = const { Cell::new(None) };
    /// Calls may begin until this limit.
    static LIMITED: Cell<Option<Limited>> = const { Cell::new(None) };
    /// The number of its steps under way.
    static STEPS: Cell<u32> = const { Cell::new(0) };
    /// The payload of a panic is being dropped.
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    /// The step before.
    static BEFORE: Cell<Option<Discriminant<Deed>>> = const { Cell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The actor whose turn was the last one on this thread.
    static LAST: Cell<usize> = const { Cell::new(NOBODY) };
    /// The actors in whose turns this thread is, or those that wait for it.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// Dropped after the locals of the crate that come later.
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// The steps of the destructors of a thread.
struct AtEnd {
    world: Arc<World>,
    body: Body,
    doing: Doing,
    _ends: Arc<()>,
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        let _was = now(self.doing);
        caught(|| self.world.steps(&self.body));
    }
}

/// A shutdown with a limit, by the virtual clock.
#[derive(Clone, Copy)]
struct Limited {
    limit: Duration,
    /// The latest end: the first actor end that it runs comes after its read of the clock.
    until: Option<Duration>,
    /// The number of actor ends that have begun here since.
    late: u32,
}

/// Restores the former activity when it is dropped.
pub struct Was(Doing, Side, Option<Limited>, u32);

fn now(doing: Doing) -> Was {
    let side = match doing {
        Doing::Poll => Side::Crate { unwinds: thread::panicking() },
        _ => Side::Program,
    };
    Was(DOING.replace(doing), SIDE.replace(side), LIMITED.get(), CALLED.get())
}

/// Runs a closure as this kind of code.
pub fn within<R>(doing: Doing, f: impl FnOnce() -> R) -> R {
    let _was = now(doing);
    f()
}

/// Calls the crate.
pub fn asks<R>(f: impl FnOnce() -> R) -> R {
    let side = Side::Crate { unwinds: thread::panicking() };
    let _was = Was(DOING.get(), SIDE.replace(side), LIMITED.get(), CALLED.get());
    f()
}

/// Wakes or cuts a turn, as if a lock were held that other user code takes.
pub fn wakes<R>(f: impl FnOnce() -> R) -> R {
    let (_was, _waking) = (now(Doing::Poll), Waking(WAKING.replace(true)));
    f()
}

/// Posts this message, whose turn must not begin in the call.
pub fn posts<R>(id: u32, f: impl FnOnce() -> R) -> R {
    let _before = ResetPosts(POSTS.replace(Some(id)));
    f()
}

/// Restores, when it is dropped, the message that is being posted.
struct ResetPosts(Option<u32>);

impl Drop for ResetPosts {
    fn drop(&mut self) {
        POSTS.set(self.0);
    }
}

struct Waking(bool);

impl Drop for Waking {
    fn drop(&mut self) {
        WAKING.set(self.0);
    }
}

/// Checks that the crate may call user code now. Until the guard is dropped, the program's frames
/// are on top.
pub fn called(what: &'static str) -> Was {
    face::looks_around();
    if thread::panicking() && SIDE.get() == (Side::Crate { unwinds: false }) {
        let by = std::backtrace::Backtrace::force_capture();
        finding("user code is called while a thread unwinds", &format!("{what}, by {by}"));
    }
    if WAKING.get() && !matches!(what, "an executor" | "a capture" | "the drop of a payload") {
        let by = std::backtrace::Backtrace::force_capture();
        finding("a wake runs user code", &format!("{what}, by {by}"));
    }
    let calls = CALLED.replace(CALLED.get() + 1);
    Was(DOING.get(), SIDE.replace(Side::Program), LIMITED.take(), calls)
}

impl Drop for Was {
    fn drop(&mut self) {
        DOING.set(self.0);
        SIDE.set(self.1);
        LIMITED.set(self.2);
        CALLED.set(self.3);
    }
}

/// The program's references to an actor.
#[derive(Default)]
pub struct Entry {
    pub handle: Mutex<Option<Handle>>,
    pub weak: Mutex<Option<Weak>>,
    /// The number of living states: one, but for the moment of a restart.
    live: AtomicI32,
    running: AtomicBool,
    /// An object that keeps it, or that it was given, was forgotten on purpose.
    leaky: AtomicBool,
    /// An object that keeps only its storage, and so its hooks, was forgotten on purpose.
    storage_leaky: AtomicBool,
    /// A waker of one of its turns was forgotten on purpose.
    pub waker_forgotten: AtomicBool,
    /// It was stopped inside a turn: no other turn begins.
    pub stopped: AtomicBool,
    /// It has ended, and every message it accepted must have run.
    pub ended_well: AtomicBool,
    /// It was created, or a creation was tried.
    tried: AtomicBool,
    pub made: AtomicBool,
    /// The number of calls of its end hook.
    pub ends: AtomicI32,
    /// Turns that have panicked, less the calls of the panic hook.
    pub panics: AtomicI32,
    pub record: Record,
}

/// A future that any thread may poll, drop or forget.
struct Kept {
    future: Underway,
    of: Origin,
    woken: Arc<AtomicBool>,
    is_pending: bool,
    /// A turn has polled it, and left it here.
    left: Option<Instant>,
    /// The actor of that turn, whose waker it keeps.
    turn_of: Option<usize>,
    _token: Option<Token>,
}

/// The origin of a future.
#[derive(Clone, Copy)]
struct Origin {
    /// The actor; none, if it is a system's.
    to: usize,
    /// The message, or its substitute.
    group: u32,
    carries: Option<usize>,
}

pub struct World {
    pub program: Program,
    /// The number of the program, for its tokens.
    epoch: u32,
    pub stack: usize,
    pub entries: Vec<Entry>,
    pub places: Vec<Mutex<Option<Arc<Place>>>>,
    pub systems: Vec<Mutex<Option<Arc<face::System>>>>,
    pub spawners: Vec<Mutex<Option<face::Spawner>>>,
    futures: [Mutex<Option<Kept>>; FUTURES],
    owed: [Mutex<Option<Owed>>; FUTURES],
    ways: [Mutex<Option<(usize, Route)>>; FUTURES],
    /// They keep no actor, and so stay until the actors without handles have ended.
    pub weak_ways: Mutex<Option<Vec<Weak>>>,
    pub clock: face::VirtualClock,
    pub clockwork: Clockwork,
    pub desk: Desk,
    late: Mutex<Vec<face::Drain>>,
    runners: Mutex<HashMap<usize, face::Runner>>,
    fuel: AtomicI32,
    /// The number of steps that have begun, and of threads in the middle of one.
    steps: AtomicU64,
    stepping: AtomicI32,
    moments: AtomicU64,
    /// The number of threads that do not allow wakes.
    pub held: AtomicI32,
    threads: Mutex<Vec<(String, thread::JoinHandle<()>)>>,
    /// One clone for each thread that has steps for its destructors.
    ends: Arc<()>,
    /// Actors that keep others, by a handle in a state or a message.
    keeps: Mutex<HashSet<(usize, usize)>>,
    pub pumping: AtomicBool,
    /// An executor has run a queue in its call. A thread that is about to block cannot do that
    /// later, and gives the drains there to the global pool.
    runs_in_executor: AtomicBool,
}

/// Runs user code that may unwind, to its very end: the drop of a panic's payload is user code,
/// too.
pub fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    let mut result = catch_unwind(AssertUnwindSafe(f));
    loop {
        match result {
            Ok(result) => return Some(result),
            Err(payload) => match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                Ok(()) => return None,
                Err(next) => result = Err(next),
            },
        }
    }
}

impl World {
    pub fn new(program: Program, stack: usize, epoch: u32) -> Arc<Self> {
        let places = program.places.iter().enumerate();
        let used = |at: usize| {
            program
                .actors
                .iter()
                .any(|actor| matches!(actor.runs, Runs::Place(place) if place == at))
        };
        let places = places
            .map(|(at, kind)| Mutex::new(used(at).then(|| Arc::new(Place::new(*kind, stack)))));
        let clock = face::VirtualClock::new();
        let mut systems: Vec<Option<Arc<face::System>>> = Vec::new();
        for _ in 0..program.systems {
            let system = match program.virtual_system {
                true => face::System::with_clock(clock.clone()),
                false => face::System::new(),
            };
            systems.push(Some(Arc::new(system)));
        }
        let world = Arc::new(World {
            epoch,
            stack,
            entries: program.actors.iter().map(|_| Entry::default()).collect(),
            places: places.collect(),
            systems: systems.into_iter().map(Mutex::new).collect(),
            spawners: (0..program.spawners).map(|_| Mutex::default()).collect(),
            futures: Default::default(),
            owed: Default::default(),
            ways: Default::default(),
            weak_ways: Mutex::new(Some(Vec::new())),
            clockwork: Clockwork::new(program.timed, &clock),
            clock,
            desk: Desk::default(),
            late: Mutex::default(),
            runners: Mutex::default(),
            fuel: AtomicI32::new(FUEL),
            steps: AtomicU64::new(0),
            stepping: AtomicI32::new(0),
            moments: AtomicU64::new(0),
            held: AtomicI32::new(0),
            threads: Mutex::default(),
            ends: Arc::default(),
            keeps: Mutex::default(),
            pumping: AtomicBool::new(true),
            runs_in_executor: AtomicBool::new(false),
            program,
        });
        for spawner in 0..world.spawners.len() {
            let first = world.program.kin(spawner).next();
            let made = first.and_then(|first| face::spawner(&world, first));
            *world.spawners[spawner].lock().unwrap() = made;
        }
        // The last first: those before hold handles of those behind.
        for at in (0..world.entries.len()).rev().filter(|at| !world.program.actors[*at].late) {
            world.make(at);
        }
        world
    }

    /// Makes an actor, once.
    fn make(self: &Arc<Self>, at: usize) {
        let entry = &self.entries[at];
        if entry.tried.swap(true, SeqCst) {
            return;
        }
        if let Some(actor) = asks(|| face::build(self, at)) {
            entry.made.store(true, SeqCst);
            *entry.weak.lock().unwrap() = Some(actor.downgrade());
            *entry.handle.lock().unwrap() = Some(actor);
        }
    }

    /// Returns the actors that share their settings with this one.
    fn kin(&self, at: usize) -> Vec<usize> {
        let spawner = self.program.actors[at].spawner;
        spawner.map_or(vec![at], |spawner| self.program.kin(spawner).collect())
    }

    pub fn token(&self, kind: Kind, owner: usize, group: Option<u32>) -> Token {
        Token::new(self.epoch, kind, owner, group)
    }

    pub fn handle(&self, at: usize) -> Option<Handle> {
        self.entries[at].handle.lock().unwrap().clone()
    }

    fn weak(&self, at: usize) -> Option<Weak> {
        self.entries[at].weak.lock().unwrap().clone()
    }

    /// True if it certainly takes messages.
    pub fn is_open(&self, at: usize) -> bool {
        // An actor that is being stopped is closed a moment later.
        let is_open = |actor: Handle| !actor.is_closed() && actor.stop_cause().is_none();
        self.weak(at).and_then(|weak| weak.upgrade()).is_some_and(is_open)
    }

    /// True if the tokens of this actor may stay.
    pub fn is_leaky(&self, at: usize) -> bool {
        let keeps = self.keeps.lock().unwrap();
        let mut leaky: HashSet<usize> =
            (0..self.entries.len()).filter(|at| self.entries[*at].leaky.load(SeqCst)).collect();
        loop {
            let more: Vec<_> = keeps
                .iter()
                .filter(|(by, of)| leaky.contains(by) && !leaky.contains(of))
                .map(|(_, of)| *of)
                .collect();
            if more.is_empty() {
                return leaky.contains(&at);
            }
            leaky.extend(more);
        }
    }

    /// Returns the number of its states.
    pub fn live(&self, at: usize) -> i32 {
        self.entries[at].live.load(SeqCst)
    }

    pub fn leaks(&self, at: usize) {
        self.entries[at].leaky.store(true, SeqCst);
    }

    /// True if its hooks may stay. They are its spawner's, if it has one.
    pub fn is_storage_leaky(&self, at: usize) -> bool {
        let leaky = |at: usize| self.entries[at].storage_leaky.load(SeqCst) || self.is_leaky(at);
        self.kin(at).into_iter().any(leaky)
    }

    /// Checks that the hooks of an actor that has ended were called.
    pub fn check_hooks(&self, at: usize) {
        let (entry, hooks) = (&self.entries[at], &self.program.actors[at].hooks);
        if !entry.made.load(SeqCst) || self.is_leaky(at) {
            return;
        }
        let ends = entry.ends.load(SeqCst);
        if hooks.end.is_some() && ends != 1 {
            finding("an end hook was not told once", &format!("actor {at}: {ends} times"));
        }
        // A destructor may panic in a turn that is over for this ledger.
        if hooks.panicked.is_some() && entry.panics.load(SeqCst) > 0 {
            finding("a panic without a call of the hook", &format!("actor {at}"));
        }
    }

    /// An object that was forgotten held a message to this actor: it and all that came from it may
    /// stay.
    fn forgives(&self, to: usize, group: u32, carries: Option<usize>) {
        mark(group, FORGIVEN);
        self.entries[to].storage_leaky.store(true, SeqCst);
        carries.into_iter().for_each(|at| self.leaks(at));
    }

    /// Starts a thread of the program, with a small stack.
    pub fn start(
        self: &Arc<Self>,
        name: String,
        doing: Doing,
        f: impl FnOnce(&Arc<World>) + Send + 'static,
    ) {
        let (world, inside) = (self.clone(), INSIDE.with_borrow(Vec::clone));
        let thread = thread::Builder::new()
            .name(face::PROGRAM_THREAD.into())
            .stack_size(self.stack)
            .spawn(move || {
                let _was = now(doing);
                INSIDE.set(inside);
                caught(|| f(&world));
            });
        self.threads.lock().unwrap().push((name, thread.expect("a thread can be had")));
    }

    /// Returns the threads that have not ended.
    pub fn unfinished(&self) -> Vec<String> {
        let mut threads = self.threads.lock().unwrap();
        threads.retain(|(_, thread)| !thread.is_finished());
        let ends = Arc::strong_count(&self.ends) > 1;
        let names = threads.iter().map(|(name, _)| name.clone());
        names.chain(ends.then(|| "a thread that ends".into())).collect()
    }

    /// Makes a new state of this actor.
    pub fn state(self: &Arc<Self>, at: usize) -> State {
        self.entries[at].live.fetch_add(1, SeqCst);
        let holds = self.program.actors[at].holds;
        if let Some(other) = holds {
            self.keeps.lock().unwrap().insert((at, other));
        }
        let holds = holds.and_then(|other| self.handle(other));
        let who = Who::new(at, self.token(Kind::State, at, None));
        State { who, world: self.clone(), is_real: true, holds }
    }

    /// Makes a new state of a spawner's actor, which is known when its old one is dropped.
    pub fn fresh_state(self: &Arc<Self>) -> State {
        State { who: Who::fresh(), world: self.clone(), is_real: true, holds: None }
    }

    /// Makes a state on which to run a message that its actor has not run.
    pub fn scratch(self: &Arc<Self>, at: usize) -> State {
        let who = Who::new(at, self.token(Kind::State, NOBODY, None));
        State { who, world: self.clone(), is_real: false, holds: None }
    }

    /// Returns a number for each moment.
    pub fn moment(&self) -> u64 {
        self.moments.fetch_add(1, SeqCst)
    }

    /// Records that messages created for that actor from now on come after this one.
    fn is_in_line(&self, to: usize, id: u32) {
        if let Some(entry) = self.entries.get(to) {
            entry.record.room.is_in_line(id, self.moment());
        }
    }

    pub fn mail(self: &Arc<Self>, to: usize, plan: &Arc<Letter>) -> Mail {
        let carries = plan.carries.and_then(|at| self.handle(at));
        if let Some(at) = plan.carries {
            self.keeps.lock().unwrap().insert((to, at));
        }
        let token = self.token(Kind::Message, to, None);
        self.entries[to].record.room.made.fetch_add(1, SeqCst);
        let (world, plan, born) = (self.clone(), plan.clone(), self.moment());
        Mail { token, to, world, plan, born, is_again: false, carries }
    }

    /// Runs a call of user code.
    pub fn user(self: &Arc<Self>, what: &'static str, body: &Body) {
        let _called = called(what);
        if !body.0.is_empty() {
            // What it does is its own: the thread that wakes has called it.
            let _reset = Waking(WAKING.replace(false));
            self.perform(body, Doing::Code);
        }
    }

    pub fn perform(self: &Arc<Self>, body: &Body, doing: Doing) {
        let (_was, _last) = (now(doing), Last::here());
        if DEPTH.get() < DEEPEST {
            DEPTH.set(DEPTH.get() + 1);
            let _up = Up;
            body.0.iter().for_each(|step| self.step(step));
        }
    }

    /// Runs the steps of a thread of the program: a step that panics is followed by the next.
    pub fn steps(self: &Arc<Self>, body: &Body) {
        for step in &body.0 {
            caught(|| self.step(step));
        }
    }

    /// Returns whether an executor's own threads run that actor, and whether it runs whatever other
    /// threads do.
    fn keeps_going(&self, to: usize) -> (bool, bool) {
        let (own_thread, kept) = match &self.program.actors[to].runs {
            Runs::Senders => (false, true),
            Runs::Odd(manners, ..) => (
                // The actor that runs it is run by its waiters.
                self.program.actors[to].spawner.is_some()
                    || manners.iter().any(|manner| *manner != Manner::ByActor),
                manners.iter().all(|manner| match manner {
                    Manner::AtOnce
                    | Manner::InTurn
                    | Manner::ByActor
                    | Manner::OtherThread
                    | Manner::Drop
                    | Manner::Panic => true,
                    Manner::Later => self.program.pumped,
                    Manner::Forget | Manner::Refuse => false,
                }),
            ),
            Runs::Place(place) => match self.program.places[*place] {
                PlaceKind::Pool { .. } => (false, true),
                PlaceKind::Queue { .. } => (true, self.program.pumped),
                PlaceKind::Rayon | PlaceKind::Tokio { .. } => (true, true),
            },
        };
        // An actor that rests waits for timers, which a thread of the program may run.
        let plan = &self.program.actors[to];
        let rests = plan.on_panic.rests();
        let by_hand = plan.timers == Some(0) && !self.program.pumped;
        match rests {
            true => (true, kept && !by_hand && !matches!(plan.clock, Time::Odd { .. })),
            // A suspended turn continues in the global pool.
            false => (own_thread || self.program.awaits[to], kept),
        }
    }

    /// True if a turn of the one may wait without a limit for the other.
    pub fn may_await(&self, at: usize, of: usize) -> bool {
        let may = at < of && self.keeps_going(of).1;
        if may {
            // A forgotten part of the other keeps the turn, and a forgotten part of the turn the
            // answer.
            self.keeps.lock().unwrap().extend([(of, at), (at, of)]);
        }
        may
    }

    /// True if this thread may wait without a limit for that actor. That needs another thread to
    /// run the actor, and an order of waiting.
    fn may_wait(&self, to: usize) -> bool {
        let (own_thread, kept) = self.keeps_going(to);
        kept && match DOING.get() {
            Doing::Steps => true,
            Doing::Turn => {
                !own_thread && INSIDE.with_borrow(|inside| inside.iter().all(|at| *at < to))
            }
            Doing::Code | Doing::Poll => false,
        }
    }

    /// An end hook waits without a limit for an actor that was stopped, and stands behind its own
    /// in the order of waiting: what keeps a turn of it is cut, so it ends without this thread.
    pub fn wait_for_stopped(self: &Arc<Self>, at: usize) {
        let ends = |of: &usize| {
            let runs = match &self.program.actors[*of].runs {
                Runs::Senders => true,
                Runs::Place(place) => {
                    matches!(self.program.places[*place], PlaceKind::Pool { .. })
                }
                Runs::Odd(..) => false,
            };
            runs && INSIDE.with_borrow(|inside| inside.iter().all(|inside| inside < of))
        };
        for of in (at + 1..self.entries.len()).filter(ends) {
            if let Some(actor) = self.handle(of).filter(face::is_stopped) {
                asks(|| face::wait_ended(&actor, Limit::Unlimited));
            }
        }
    }

    fn limit(&self, limit: For, to: usize) -> Limit {
        match limit {
            For::Zero => Limit::Immediate,
            For::Ever if self.may_wait(to) => Limit::Unlimited,
            For::Ever => Limit::Within(Duration::from_millis(1)),
            For::Micros(micros) => Limit::Within(Duration::from_micros(micros.into())),
        }
    }

    fn step(self: &Arc<Self>, step: &Step) {
        let _stepping = Stepping::begins(self);
        happens();
        calls(1);
        let deed = std::mem::discriminant(&step.deed);
        feature((deed, BEFORE.replace(Some(deed)), DOING.get() as u8, DEPTH.get().min(4)));
        if self.fuel.fetch_sub(1, SeqCst) <= 0 {
            return;
        }
        match &step.deed {
            Deed::Send { to, how, letter } => {
                let Some(actor) = self.handle(*to) else { return };
                let limit = match how {
                    // There is no order of waiting for room.
                    How::Within(For::Ever) | How::TellWithin(For::Ever) => {
                        Limit::Within(Duration::from_millis(1))
                    }
                    How::Within(limit) | How::TellWithin(limit) => self.limit(*limit, *to),
                    _ => Limit::Immediate,
                };
                let mail = self.mail(*to, letter);
                let id = mail.token.id;
                let accepted = asks(|| face::send(&actor, *how, limit, mail));
                told(id, accepted, how.is_typed());
                if accepted {
                    self.is_in_line(*to, id);
                }
            }
            Deed::SendMany { to, letters, iterator } => {
                let Some(actor) = self.handle(*to) else { return };
                let mut ids = Vec::new();
                let mails = letters.iter().enumerate().map(|(at, letter)| {
                    if at == 1 {
                        self.user("an iterator", iterator);
                    }
                    let mail = self.mail(*to, letter);
                    ids.push(mail.token.id);
                    mail
                });
                let accepted = face::send_many(&actor, mails);
                ids.into_iter().for_each(|id| sent(id, accepted));
            }
            Deed::Ask { to, how, letter, polled, then } => {
                let Some(actor) = self.handle(*to) else { return };
                let mail = self.mail(*to, letter);
                let of = Origin { to: *to, group: mail.token.id, carries: letter.carries };
                let asked = asks(|| face::ask(&actor, *how, mail));
                self.is_in_line(*to, of.group);
                drop(actor);
                self.settle(asked, of, polled.as_ref(), *then, true);
            }
            Deed::Order { to, letter, later, bell, then } => {
                let Some(actor) = self.handle(*to) else { return };
                let mail = self.mail(*to, letter);
                let of = Origin { to: *to, group: mail.token.id, carries: letter.carries };
                let asked = asks(|| face::order(&actor, Order { mail, later: *later }));
                drop(actor);
                let comes = matches!(later, Later::AtOnce | Later::Broken | Later::Thread);
                let polled = (step.id % 2 == 0).then_some(bell);
                self.settle(asked, of, polled, *then, comes);
            }
            Deed::WaitForPromise { by, letter, limit } => {
                let Some(actor) = self.handle(*by) else { return };
                let mail = self.mail(*by, letter);
                let of = Origin { to: *by, group: mail.token.id, carries: letter.carries };
                let (owed, asked) = face::promised(self, mail);
                face::pass_on(self, *by, &actor, owed);
                drop(actor);
                let (limit, alone) = (self.limit(*limit, *by), self.is_alone());
                let outcome = asks(|| asked.wait(limit, of.group % 3 == 0));
                self.came_out(outcome, of, alone);
            }
            Deed::Settle { slot, how } => {
                let Some(mut owed) = self.owed[*slot].lock().unwrap().take() else { return };
                match how {
                    Settles::Claim => {
                        owed.claim();
                        let before = self.owed[*slot].lock().unwrap().replace(owed);
                        drop(before);
                    }
                    Settles::Keep => owed.keep(),
                    Settles::Look if !owed.is_cancelled() => owed.keep(),
                    Settles::Drop | Settles::Look => drop(owed),
                    Settles::Forget => {
                        self.forgives(owed.to, owed.group, None);
                        std::mem::forget(owed);
                    }
                }
            }
            Deed::MakeWay { to, slot, way } => {
                let Some(actor) = self.handle(*to) else { return };
                let route = face::Route::new(&actor, *way);
                if let Route::Weak(weak) = &route {
                    let kept = &mut *self.weak_ways.lock().unwrap();
                    kept.iter_mut().for_each(|kept| kept.push(weak.clone()));
                }
                let before = self.ways[*slot].lock().unwrap().replace((*to, route));
                drop(before);
            }
            Deed::SendBy { slot, letter } => {
                let way = self.ways[*slot].lock().unwrap().clone();
                let Some((to, route)) = way else { return };
                let mail = self.mail(to, letter);
                let id = mail.token.id;
                if let Some(accepted) = asks(|| route.tell(mail)) {
                    told(id, accepted, true);
                }
            }
            Deed::EmptyWay { slot, drops } => {
                let way = match drops {
                    true => self.ways[*slot].lock().unwrap().take(),
                    false => self.ways[*slot].lock().unwrap().clone(),
                };
                way.into_iter().for_each(|(_, route)| route.empty());
            }
            Deed::Watch { of, what, bell, then } => {
                let Some(actor) = self.handle(*of) else { return };
                let future = face::watching(&actor, *what);
                drop(actor);
                self.look_out(future, *of, bell, *then);
            }
            Deed::CloseSystem { system, bell, then } => {
                let system = self.systems[*system].lock().unwrap().clone();
                let Some(future) = system.map(|system| face::closing(&system)) else { return };
                self.look_out(future, NOBODY, bell, *then);
            }
            Deed::Look { of, system } => {
                if let Some(actor) = self.handle(*of) {
                    face::look(self, *of, &actor);
                }
                let system = self.systems.get(*system).and_then(|s| s.lock().unwrap().clone());
                system.iter().for_each(|system| face::look_at_system(system));
                face::look_at_clock(&self.clock);
            }
            Deed::StopWeak { of } => drop(self.weak(*of).map(|weak| weak.stop())),
            Deed::With { to, body } => {
                let may = self.may_wait(*to);
                let Some(actor) = self.handle(*to).filter(|_| may) else { return };
                let mail =
                    self.mail(*to, &Arc::new(Letter { turn: body.clone(), ..Letter::default() }));
                let id = mail.token.id;
                match asks(|| face::lend(&actor, mail)) {
                    true if lacks(id, RUN) => finding("an answer without a turn", "with"),
                    true => {}
                    false => self.is_cancelled(*to, id),
                }
            }
            Deed::SendAsync { to, what, letter, bell, then } => {
                let Some(actor) = self.handle(*to) else { return };
                let mail = self.mail(*to, letter);
                let of = Origin { to: *to, group: mail.token.id, carries: letter.carries };
                let future = asks(|| face::waiting(&actor, *what, mail));
                drop(actor);
                let future = future.limited(limit_of(of.group));
                self.underway(future, of, None, bell, *then);
            }
            Deed::Poll { slot, bell } => {
                let Some(mut kept) = self.futures[*slot].lock().unwrap().take() else { return };
                kept.woken.store(false, SeqCst);
                let waker = self.waker(bell, kept.of, &kept.woken, kept.future.watches());
                match self.poll(|cx| kept.future.poll(cx), &waker) {
                    Poll::Ready(done) => self.is_done(done, &mut kept.future, kept.of, &waker),
                    Poll::Pending => {
                        (kept.is_pending, kept.left) = (true, None);
                        self.is_in_line(kept.of.to, kept.of.group);
                        self.keep(*slot, kept);
                    }
                }
            }
            Deed::DropFuture { slot } => {
                let kept = self.futures[*slot].lock().unwrap().take();
                drop(kept);
            }
            Deed::CancelFuture { slot } => {
                let kept = self.futures[*slot].lock().unwrap().take();
                let Some(Kept { future, of, .. }) = kept else { return };
                if let Underway::Asked(asked) = future {
                    self.settle(asked, of, None, Fate::Cancel, false);
                }
            }
            Deed::ForgetFuture { slot } => {
                if let Some(kept) = self.futures[*slot].lock().unwrap().take() {
                    self.forgets(kept.of);
                    // No code could detect any more that the turn cannot be woken.
                    kept.turn_of.into_iter().for_each(|at| self.leaks(at));
                    std::mem::forget(kept);
                }
            }
            Deed::DropHandle { of } => {
                let actor = self.entries[*of].handle.lock().unwrap().take();
                drop(actor);
            }
            Deed::DropAll { of } => {
                let entry = &self.entries[*of];
                let weak = entry.weak.lock().unwrap().take();
                let actor = entry.handle.lock().unwrap().take();
                drop((weak, actor));
            }
            Deed::Spawn { of } => self.make(*of),
            Deed::DropSpawner { spawner } => {
                let spawner = self.spawners[*spawner].lock().unwrap().take();
                drop(spawner);
            }
            Deed::ForgetSpawner { spawner } => {
                let kept = self.spawners[*spawner].lock().unwrap().clone();
                if let Some(kept) = kept {
                    let kin = self.program.kin(*spawner);
                    kin.for_each(|at| self.entries[at].storage_leaky.store(true, SeqCst));
                    std::mem::forget(kept);
                }
            }
            Deed::ForgetHandle { of } => {
                if let Some(actor) = self.handle(*of) {
                    self.leaks(*of);
                    std::mem::forget(actor);
                }
            }
            Deed::Upgrade { of } => {
                if let Some(actor) = self.weak(*of).and_then(|weak| weak.upgrade()) {
                    let before = self.entries[*of].handle.lock().unwrap().replace(actor);
                    drop(before);
                }
            }
            Deed::Close { of } => {
                if let Some(actor) = self.handle(*of) {
                    actor.close();
                }
            }
            Deed::Stop { of } => drop(self.handle(*of).map(|actor| asks(|| actor.stop()))),
            Deed::WaitIdle { of } => {
                if let Some(actor) = self.handle(*of).filter(|_| self.may_wait(*of)) {
                    asks(|| face::wait_idle(&actor));
                }
            }
            Deed::WaitEnded { of, limit } => {
                // It may never end.
                let limit = if *limit == For::Ever { For::Micros(1000) } else { *limit };
                if let Some(actor) = self.handle(*of) {
                    face::wait_ended(&actor, self.limit(limit, *of));
                }
            }
            Deed::ShutDownSystem { system, limit } => {
                let system = self.systems[*system].lock().unwrap().clone();
                let Some(system) = system else { return };
                let shuts = || face::shut_down(&system, *limit);
                match limit {
                    For::Micros(micros) if self.program.virtual_system => {
                        shuts_down(Duration::from_micros((*micros).into()), shuts);
                    }
                    _ => asks(shuts),
                }
            }
            Deed::DropSystem { system } => {
                let system = self.systems[*system].lock().unwrap().take();
                drop(system);
            }
            Deed::ShutDownPlace { place, limit } => {
                let place_at = *place;
                let place = self.places[*place].lock().unwrap().take();
                // The thread that runs a queue at the moment releases it.
                if let Some(shared) = place.and_then(Arc::into_inner) {
                    let is_over = asks(|| shared.shut_down(*limit));
                    if is_over && DOING.get() == Doing::Steps {
                        self.check_gone(place_at);
                    }
                }
            }
            Deed::RunQueue { place, most, limit } => {
                let place = self.places[*place].lock().unwrap().clone();
                // Without a limit, until it is idle.
                let limit = limit.map(|limit| match limit {
                    For::Ever => Limit::Unlimited,
                    limit => face::short(limit),
                });
                if EXECUTING.get() {
                    self.runs_in_executor.store(true, SeqCst);
                }
                place.map(|place| asks(|| place.run(*most, limit)));
            }
            Deed::Advance { micros } => self.clock.advance(Duration::from_micros((*micros).into())),
            Deed::Blocking { body } => face::blocking(|| self.perform(body, DOING.get())),
            Deed::Elsewhere { body, again } => {
                let (over, is_over) = mpsc::channel::<()>();
                let (body, ends) = (body.clone(), again.then(|| self.ends.clone()));
                let doing = if DOING.get() == Doing::Steps { Doing::Steps } else { Doing::Code };
                self.start(format!("step {}", step.id), doing, move |world| {
                    if let Some(_ends) = ends {
                        record::touch();
                        let (world, body) = (world.clone(), body.clone());
                        AT_END.set(Some(AtEnd { world, body, doing, _ends }));
                    }
                    world.steps(&body);
                    drop(over);
                });
                let _ = is_over.recv_timeout(Duration::from_millis(20));
            }
            Deed::Pause { micros: 0 } => thread::yield_now(),
            Deed::Pause { micros } => thread::sleep(Duration::from_micros((*micros).into())),
            Deed::Panic { dropped } => {
                // A second panic in an unwinding thread rightly ends the process.
                if !thread::panicking() {
                    let token = self.token(Kind::Payload, NOBODY, None);
                    if DROPPING.get() {
                        // The drop of a payload panics: the result of that may be forgotten.
                        mark(token.id, FORGIVEN);
                    }
                    panic_any(Payload {
                        _token: token,
                        world: self.clone(),
                        dropped: dropped.clone(),
                    });
                }
            }
            Deed::TryWith { to, letter } => {
                let Some(actor) = self.handle(*to) else { return };
                let (mail, in_steps) = (self.mail(*to, letter), DOING.get() == Doing::Steps);
                let back = timing::try_with(self, &actor, mail, in_steps);
                if let Some(mail) = back.and_then(Mail::sent_after_all) {
                    let id = mail.token.id;
                    told(id, asks(|| face::send(&actor, How::Tell, Limit::Immediate, mail)), true);
                }
            }
            Deed::SendAfter { to, micros, typed, letter, slot } => {
                let Some(actor) = self.handle(*to) else { return };
                let mail = self.mail(*to, letter);
                timing::send_after(self, &actor, *micros, *typed, mail, *slot);
            }
            Deed::TellEvery { to, micros, letter, slot } => {
                let Some(actor) = self.handle(*to) else { return };
                timing::tell_every(self, &actor, *to, *micros, letter, *slot);
            }
            Deed::Arm { service, micros, again, body, slot } => {
                timing::arm(self, *service, (*micros, *again), body, *slot);
            }
            Deed::Touch { slot, how } => timing::touch(self, *slot, *how),
            Deed::Ring { slot, how } => turns::ring(self, *slot, *how),
            Deed::Give { slot, keeps } => turns::give(self, *slot, *keeps),
            Deed::Abort { slot, stays } => turns::abort(self, *slot, *stays),
            Deed::RunDue => drop(self.clockwork.run_due()),
            Deed::Sleep { service, micros, bell, then } => {
                let Some(sleep) = timing::sleep(self, *service, *micros) else { return };
                self.look_out(Underway::Sleeping(sleep), NOBODY, bell, *then);
            }
            Deed::Chain { actors, by, place } => face::chain(*actors, *by, *place, self.stack),
        }
    }

    /// Handles a future that is polled here, and then waited for, kept, dropped or forgotten.
    fn underway(
        self: &Arc<Self>,
        mut future: Underway,
        of: Origin,
        token: Option<Token>,
        bell: &Arc<Bell>,
        then: Fate,
    ) {
        if then == Fate::Cancel {
            // Never polled.
            return;
        }
        let woken = Arc::new(AtomicBool::new(false));
        let waker = self.waker(bell, of, &woken, future.watches());
        let mut polls = if matches!(then, Fate::Wait(_)) { 8 } else { 1 };
        loop {
            match self.poll(|cx| future.poll(cx), &waker) {
                Poll::Ready(done) => return self.is_done(done, &mut future, of, &waker),
                Poll::Pending if polls <= 1 => {
                    self.is_in_line(of.to, of.group);
                    break;
                }
                Poll::Pending => thread::sleep(Duration::from_micros(100)),
            }
            polls -= 1;
        }
        match then {
            Fate::Keep(slot) => {
                self.keep(
                    slot,
                    Kept {
                        future,
                        of,
                        woken,
                        is_pending: true,
                        left: None,
                        turn_of: None,
                        _token: token,
                    },
                );
            }
            Fate::Forget => {
                self.forgets(of);
                std::mem::forget((future, token));
            }
            // There is no order of waiting for room.
            Fate::WaitOrCancel(limit) => {
                let limit = if limit == For::Ever { For::Micros(1000) } else { limit };
                if let Some(done) = future.within(self.limit(limit, of.to)) {
                    self.comes_of(done, of);
                }
            }
            _ => {}
        }
    }

    /// Handles a future that came from no message.
    fn look_out(self: &Arc<Self>, future: Underway, of: usize, bell: &Arc<Bell>, then: Fate) {
        let token = self.token(Kind::Future, of, None);
        let of = Origin { to: of, group: token.id, carries: None };
        let future = future.limited(limit_of(of.group));
        self.underway(future, of, Some(token), bell, then);
    }

    /// Records that a future is forgotten that holds a handle, or a system.
    fn forgets(&self, of: Origin) {
        if of.to == NOBODY {
            mark(of.group, FORGIVEN);
            self.entries.iter().for_each(|entry| entry.storage_leaky.store(true, SeqCst));
            return;
        }
        self.forgives(of.to, of.group, of.carries);
        self.leaks(of.to);
    }

    /// Checks that a future that is ready stays so.
    fn is_done(self: &Arc<Self>, done: Done, future: &mut Underway, of: Origin, waker: &Waker) {
        if future.is_flat() {
            self.is_answered(matches!(done, Done::Answered(_)), of.group, KEPT);
        }
        let again = |cx: &mut Context<'_>| {
            future.poll_again(cx);
            Poll::Ready(())
        };
        if !matches!(done, Done::Circle) {
            let _ = self.poll(again, waker);
        }
        self.comes_of(done, of);
    }

    fn is_answered(&self, is_so: bool, id: u32, flag: u32) {
        if is_so && lacks(id, flag) {
            finding("an answer that was not given", &described(id));
        }
    }

    fn comes_of(&self, done: Done, of: Origin) {
        match &done {
            Done::Sent => told(of.group, true, true),
            Done::Refused(mail) => told(mail.token.id, false, true),
            Done::Cancelled(_) => self.is_cancelled(of.to, of.group),
            Done::Withdrawn => is_withdrawn(of.group),
            Done::Answered(_) => self.is_answered(true, of.group, RUN),
            Done::Unanswered | Done::Circle | Done::Over => {}
        }
    }

    /// Settles a future that a turn has polled.
    pub fn came_of(&self, done: Done, to: usize, group: u32, carries: Option<usize>) {
        self.comes_of(done, Origin { to, group, carries });
    }

    /// Puts a future that a turn has polled into a slot that any thread finds.
    pub fn leave(&self, slot: usize, (at, to): (usize, usize), future: Underway) {
        let token = self.token(Kind::Future, to, None);
        let of = Origin { to, group: token.id, carries: None };
        let woken = Arc::default();
        let (left, _token) = (Some(Instant::now()), Some(token));
        let turn_of = Some(at);
        self.keep(slot, Kept { future, of, woken, is_pending: false, left, turn_of, _token });
    }

    /// Drops futures that turns have left long ago, which keep wakers of these.
    pub fn drop_left(self: &Arc<Self>, long: Duration) {
        for slot in &self.futures {
            let mut slot = slot.lock().unwrap();
            let left = slot.as_ref().and_then(|kept| kept.left);
            if left.is_none_or(|left| left.elapsed() <= long) {
                continue;
            }
            if let Some(kept) = slot.take() {
                self.start("left".into(), Doing::Code, move |_| drop(kept));
            }
        }
    }

    /// Polls a future in a slot, from a turn.
    pub fn poll_what_lies_there(self: &Arc<Self>, at: usize, slot: usize, cx: &mut Context<'_>) {
        let Some(mut kept) = self.futures[slot].lock().unwrap().take() else { return };
        // The turn's waker has replaced its own.
        kept.is_pending = false;
        (kept.left, kept.turn_of) = (Some(Instant::now()), Some(at));
        let polled = within(Doing::Poll, || kept.future.poll(cx));
        match polled {
            Poll::Ready(done) => self.comes_of(done, kept.of),
            Poll::Pending => self.keep(slot, kept),
        }
    }

    /// Settles a request. `comes`: if it runs, its answer comes whatever this thread does.
    fn settle(
        self: &Arc<Self>,
        mut asked: Asked,
        of: Origin,
        polled: Option<&Arc<Bell>>,
        then: Fate,
        comes: bool,
    ) {
        if asked.is_ready() {
            asked = match asked.wait(Limit::Immediate, of.group % 3 == 0) {
                Outcome::Running(Asked::Promised(asked)) => Asked::Promised(asked),
                Outcome::Running(_) => {
                    return finding("a reply is ready and is not", &described(of.group));
                }
                outcome => return self.came_out(outcome, of, None),
            };
        }
        let mut future = face::flat(asked, of.group % 2 == 0);
        if let Some(bell) = polled {
            future = future.limited(limit_of(of.group));
            let woken = Arc::default();
            let waker = self.waker(bell, of, &woken, false);
            match self.poll(|cx| future.poll(cx), &waker) {
                Poll::Ready(done) => return self.is_done(done, &mut future, of, &waker),
                Poll::Pending => {
                    if let Fate::Keep(slot) = then {
                        let kept = Kept {
                            future,
                            of,
                            woken,
                            is_pending: true,
                            left: None,
                            turn_of: None,
                            _token: None,
                        };
                        return self.keep(slot, kept);
                    }
                }
            }
        }
        let asked = match (then, future) {
            (Fate::Drop, _) => return,
            (Fate::Forget, future) => {
                self.forgives(of.to, of.group, of.carries);
                return std::mem::forget(future);
            }
            (Fate::Keep(slot), future) => {
                let woken = Arc::default();
                return self.keep(
                    slot,
                    Kept {
                        future,
                        of,
                        woken,
                        is_pending: false,
                        left: None,
                        turn_of: None,
                        _token: None,
                    },
                );
            }
            (_, Underway::Asked(asked)) => asked,
            // Its content can only be polled.
            (_, _) => return,
        };
        let limit = |limit| match self.limit(limit, of.to) {
            Limit::Unlimited if !comes => Limit::Within(Duration::from_millis(1)),
            limit => limit,
        };
        let alone = self.is_alone();
        let outcome = match then {
            Fate::Wait(to) => asked.wait(limit(to), of.group % 3 == 0),
            Fate::WaitOrCancel(to) => asked.wait_or_cancel(limit(to)),
            _ => asked.cancel(),
        };
        self.came_out(outcome, of, alone);
    }

    /// Returns a value if no other thread makes a step, and so waits for none.
    fn is_alone(&self) -> Option<u64> {
        (self.stepping.load(SeqCst) == 1).then(|| self.steps.load(SeqCst))
    }

    /// Checks the refusal of a wait that began when this thread was alone, or not. A turn in a
    /// circle waits in the middle of something. A thread inside of no turn holds none up.
    fn check_circle(&self, names: &[String], alone: Option<u64>) {
        if LETS_GO.get() == Some(CALLED.get()) {
            finding("a waker outside of turns gets a circle", &format!("{names:?}"));
        }
        if alone.is_none() || alone != self.is_alone() {
            return;
        }
        let named = |name: &String| name.strip_prefix("actor ")?.parse().ok();
        let is_idle = |at: &usize| {
            !self.program.awaits[*at] && self.handle(*at).is_some_and(|actor| actor.is_idle())
        };
        let idle: Vec<usize> = names.iter().filter_map(named).filter(is_idle).collect();
        if !idle.is_empty() {
            finding("told of a circle that is not there", &format!("{names:?}, idle: {idle:?}"));
        }
    }

    fn came_out(self: &Arc<Self>, outcome: Outcome, of: Origin, alone: Option<u64>) {
        match &outcome {
            Outcome::Circle(names) => self.check_circle(names, alone),
            Outcome::Answered(_) => self.is_answered(true, of.group, RUN),
            Outcome::Cancelled(_) => self.is_cancelled(of.to, of.group),
            Outcome::Withdrawn => is_withdrawn(of.group),
            _ => {}
        }
        // A sender that has its message back may send it after all.
        let Outcome::Cancelled(Some(mail)) = outcome else { return };
        if let (Some(mail), Some(actor)) = (mail.sent_after_all(), self.handle(of.to)) {
            let id = mail.token.id;
            told(id, asks(|| face::send(&actor, How::Tell, Limit::Immediate, mail)), true);
        }
    }

    /// Records that it never runs, and may yet be counted as a turn.
    fn is_cancelled(&self, to: usize, id: u32) {
        if let Some(entry) = self.entries.get(to) {
            entry.record.cancelled.fetch_add(1, SeqCst);
        }
        is_cancelled(id);
    }

    /// Checks that the actors' counters agree with the events.
    pub fn check_numbers(self: &Arc<Self>) {
        let all = 0..self.entries.len();
        if all.clone().any(|at| self.is_leaky(at)) || !self.is_settled() {
            return;
        }
        for at in all {
            if let Some(actor) = self.handle(at).filter(|actor| actor.is_idle()) {
                self.entries[at].record.check(self, at, &actor);
            }
        }
    }

    /// Settles an answer that a handler has promised.
    pub fn promised(self: &Arc<Self>, mut owed: Owed, later: Later) {
        match later {
            Later::AtOnce => owed.keep(),
            Later::Broken => drop(owed),
            Later::Forgotten => {
                self.forgives(owed.to, owed.group, None);
                std::mem::forget(owed);
            }
            Later::Thread => {
                let name = format!("promise {}", owed.group);
                self.start(name, Doing::Code, |_| {
                    thread::yield_now();
                    owed.keep();
                });
            }
            Later::By(at) => {
                // It is in that actor's mailbox.
                self.keeps.lock().unwrap().insert((at, owed.to));
                if let Some(actor) = self.handle(at) {
                    face::pass_on(self, at, &actor, owed);
                }
            }
            Later::Slot(slot) | Later::Claimed(slot) => {
                if let Later::Claimed(_) = later {
                    owed.claim();
                }
                let before = self.owed[slot].lock().unwrap().replace(owed);
                drop(before);
            }
        }
    }

    fn keep(&self, slot: usize, kept: Kept) {
        let before = self.futures[slot].lock().unwrap().replace(kept);
        drop(before);
    }

    fn waker(
        self: &Arc<Self>,
        bell: &Arc<Bell>,
        of: Origin,
        woken: &Arc<AtomicBool>,
        watches: bool,
    ) -> Waker {
        let token = self.token(Kind::Waker, of.to, Some(of.group));
        Box::new(Ringer {
            token,
            group: of.group,
            actor: of.to,
            watches,
            world: self.clone(),
            plan: bell.clone(),
            woken: woken.clone(),
        })
        .into_waker()
    }

    fn poll<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>, waker: &Waker) -> Poll<T> {
        let _was = now(Doing::Poll);
        poll(&mut Context::from_waker(waker))
    }

    /// Waits until all actors are idle, but for those that a forgotten object keeps.
    fn is_settled(&self) -> bool {
        let is_idle = |at: usize| {
            self.is_leaky(at)
                || self.weak(at).and_then(|weak| weak.upgrade()).is_none_or(|actor| actor.is_idle())
        };
        let mut looks = 0;
        for _ in 0..20_000 {
            looks = if (0..self.entries.len()).all(is_idle) { looks + 1 } else { 0 };
            if looks == 3 {
                return true;
            }
            happens();
            thread::sleep(Duration::from_micros(100));
        }
        false
    }

    /// Checks, when everything is quiet, that a future that would be ready now has been woken.
    pub fn check_wakes(self: &Arc<Self>) {
        for slot in &self.futures {
            let Some(mut kept) = slot.lock().unwrap().take() else { continue };
            let Origin { to, group, .. } = kept.of;
            // An actor that a forgotten object keeps may be in the middle of anything.
            let leaky = match to {
                NOBODY => (0..self.entries.len()).any(|at| self.is_leaky(at)),
                to => self.is_leaky(to),
            };
            if !kept.is_pending || leaky || flags(group) & FORGIVEN != 0 {
                continue;
            }
            if !self.is_settled() {
                return finding("stuck", &format!("{} before the check", kept.future.what()));
            }
            let settled = flags(group) & SETTLED != 0;
            let before = kept.woken.load(SeqCst);
            let steps = self.steps.load(SeqCst);
            let waker = self.waker(&Arc::default(), kept.of, &kept.woken, false);
            let ready = caught(|| self.poll(|cx| kept.future.poll(cx), &waker).is_ready());
            let at = || format!("{} at actor {to}, {}", kept.future.what(), described(group));
            if ready == Some(false) && settled {
                finding("a settled promise leaves its asker waiting", &at());
            }
            // The thread that settles it may be just about to wake.
            let is_woken = || {
                (0..2000).any(|_| {
                    happens();
                    let woken = kept.woken.load(SeqCst);
                    thread::sleep(Duration::from_millis(if woken { 0 } else { 1 }));
                    woken
                })
            };
            // A limit may be over just now.
            let limited = kept.future.has_limit();
            // The drop of its old waker may make it ready.
            let alone = steps == self.steps.load(SeqCst);
            if ready == Some(true) && alone && !limited && !before && !is_woken() {
                finding("a wake-up was lost", &at());
            }
        }
    }

    /// Checks after the end of an executor that accepted messages of its actors have their fates,
    /// also beside a suspended turn. (A turn that is woken meanwhile goes to an executor that drops
    /// it: no thread wakes one.)
    pub fn check_gone(self: &Arc<Self>, place: usize) {
        let judged = |at: &usize| {
            let plan = &self.program.actors[*at];
            let (runs, rests) = (&plan.runs, plan.on_panic.rests());
            matches!(runs, Runs::Place(one) if *one == place)
                && !rests
                && !self.is_leaky(*at)
                && self.entries[*at].made.load(SeqCst)
        };
        let all: Vec<_> = (0..self.entries.len()).filter(judged).collect();
        self.held.fetch_add(1, SeqCst);
        for at in &all {
            if let Some(actor) = self.handle(*at) {
                let mail = self.mail(*at, &Arc::default());
                let id = mail.token.id;
                told(id, asks(|| face::send(&actor, How::Tell, Limit::Immediate, mail)), true);
            }
        }
        let lies =
            || all.iter().find(|at| messages(**at, ACCEPTED, RUN | BACK | HOOKED | DROPPED) > 0);
        let mut looks = 0;
        while let Some(at) = lies() {
            looks += 1;
            if looks > 2_000 && !self.is_leaky(*at) {
                let about = self.handle(*at).map(|actor| format!("{actor:?}"));
                finding(
                    "an accepted message lies behind an executor that is gone",
                    &format!("{about:?}"),
                );
                break;
            }
            thread::sleep(Duration::from_micros(500));
        }
        self.held.fetch_sub(1, SeqCst);
    }

    /// True if nothing was put back.
    pub fn has_nothing(&self) -> bool {
        fn empty<T>(slots: &[Mutex<Option<T>>]) -> bool {
            slots.iter().all(|slot| slot.lock().unwrap().is_none())
        }
        let entries = |entry: &Entry| {
            entry.handle.lock().unwrap().is_none() && entry.weak.lock().unwrap().is_none()
        };
        empty(&self.futures)
            && empty(&self.owed)
            && empty(&self.ways)
            && self.clockwork.has_nothing()
            && self.desk.has_nothing()
            && self.entries.iter().all(entries)
    }

    /// Returns true if there was one.
    pub fn drop_futures(&self) -> bool {
        fn taken<T>(slots: &[Mutex<Option<T>>]) -> Vec<T> {
            slots.iter().filter_map(|slot| slot.lock().unwrap().take()).collect()
        }
        fn dropped<T>(all: Vec<T>) -> bool {
            let any = !all.is_empty();
            all.into_iter().for_each(|one| {
                caught(|| drop(one));
            });
            any
        }
        let kept = dropped(taken(&self.futures));
        let owed = dropped(taken(&self.owed));
        let desk = self.desk.clear();
        dropped(taken(&self.ways)) || kept || owed || desk
    }

    /// Runs the drains of queues, until it is asked to stop.
    pub fn pump(self: &Arc<Self>) {
        while self.pumping.load(SeqCst) {
            let mut ran = false;
            for place in &self.places {
                let place = place.lock().unwrap().clone();
                ran |= place.is_some_and(|place| caught(|| place.run(1, None)) == Some(true));
            }
            let late = std::mem::take(&mut *self.late.lock().unwrap());
            ran |= !late.is_empty() | self.clockwork.run_due();
            late.into_iter().for_each(|drain| {
                caught(|| drain.run());
            });
            if !ran {
                thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Handles a drain as an executor of the program does.
    pub fn execute(
        self: &Arc<Self>,
        at: usize,
        call: usize,
        drain: face::Drain,
    ) -> Result<(), face::Drain> {
        let _called = called("an executor");
        let drain = drain;
        let Runs::Odd(manners, body, after) = &self.program.actors[at].runs else {
            return Err(drain);
        };
        let _executing = ResetExecuting(EXECUTING.replace(true));
        self.user("an executor", body);
        match manners[call % manners.len()] {
            Manner::AtOnce => asks(|| drain.run()),
            // The thread that runs a turn here is the executor itself.
            Manner::InTurn => {
                let _reset = (Waking(WAKING.replace(false)), now(Doing::Code));
                face::run_in_a_turn(drain);
            }
            Manner::ByActor => asks(|| face::run_by(&self.runner(at), drain)),
            Manner::Later => self.late.lock().unwrap().push(drain),
            Manner::OtherThread => {
                self.start(format!("actor {at}'s executor"), Doing::Code, |_| drain.run())
            }
            Manner::Forget => {
                // It is unknown which of its actors it is.
                self.kin(at).into_iter().for_each(|at| self.leaks(at));
                std::mem::forget(drain);
            }
            Manner::Drop => asks(|| drop(drain)),
            Manner::Refuse => return Err(drain),
            Manner::Panic if thread::panicking() => drop(drain),
            Manner::Panic => panic_any(Planned),
        }
        // Another thread may have the mailbox by now.
        self.user("an executor", &after.body);
        Ok(())
    }

    /// Returns the actor that runs the drains of this one.
    fn runner(&self, at: usize) -> face::Runner {
        let mut runners = self.runners.lock().unwrap();
        runners.entry(at).or_insert_with(face::runner).clone()
    }

    /// Returns, now and then, that a wait would not end on this executor.
    pub fn needs_this_thread(self: &Arc<Self>, at: usize, wait: usize) -> bool {
        let Runs::Odd(_, _, asked) = &self.program.actors[at].runs else { return false };
        let (_called, every) = (called("an executor"), asked.every as usize);
        let now = wait % (4 * every) == every;
        if now {
            self.user("an executor", &asked.asked);
        }
        now
    }

    /// Returns, now and then, that such an executor has ended.
    pub fn is_executor_closed(self: &Arc<Self>, at: usize, question: usize) -> bool {
        let Runs::Odd(_, _, asked) = &self.program.actors[at].runs else { return false };
        let (_called, every) = (called("an executor"), asked.every as usize);
        let now = question % every == every - 1;
        if now {
            self.user("an executor", &asked.asked);
        }
        now
    }
}

/// Restores, when it is dropped, whether an executor's code runs.
struct ResetExecuting(bool);

impl Drop for ResetExecuting {
    fn drop(&mut self) {
        EXECUTING.set(self.0);
    }
}

/// Restores, when it is dropped, whether a payload is being dropped.
struct Reset(bool);

impl Drop for Reset {
    fn drop(&mut self) {
        DROPPING.set(self.0);
    }
}

/// Counts a step that is under way.
struct Stepping(Arc<World>);

impl Stepping {
    fn begins(world: &Arc<World>) -> Self {
        if STEPS.replace(STEPS.get() + 1) == 0 {
            world.stepping.fetch_add(1, SeqCst);
        }
        world.steps.fetch_add(1, SeqCst);
        Stepping(world.clone())
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        STEPS.set(STEPS.get() - 1);
        if STEPS.get() == 0 {
            self.0.stepping.fetch_sub(1, SeqCst);
        }
    }
}

struct Up;

impl Drop for Up {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Records that a message was accepted or returned.
fn sent(id: u32, accepted: bool) {
    let before = mark(id, if accepted { ACCEPTED } else { BACK });
    if !accepted && before & RUN != 0 {
        finding("a refused message ran", "send");
    }
}

/// Records that a message that is no request was accepted or returned: if it is typed, the
/// undelivered hook knows it.
fn told(id: u32, accepted: bool, typed: bool) {
    if accepted && typed {
        mark(id, TOLD);
    }
    sent(id, accepted);
}

/// Returns the limit of a future, which depends on its origin.
fn limit_of(group: u32) -> Option<Limit> {
    match group % 8 {
        4 => Some(Limit::Immediate),
        5 => Some(Limit::Within(Duration::from_micros(100))),
        6 => Some(Limit::Within(Duration::from_millis(2))),
        7 => Some(Limit::Unlimited),
        _ => None,
    }
}

/// Records that a promise was claimed.
pub fn is_claimed(group: u32) {
    if mark(group, CLAIMED) & WITHDRAWN != 0 {
        finding("a cancelled promise was claimed", &described(group));
    }
}

/// Records that the reply to a promise was cancelled.
fn is_withdrawn(group: u32) {
    if mark(group, WITHDRAWN) & CLAIMED != 0 {
        finding("a claimed promise was cancelled", &described(group));
    }
}

/// Records that it never runs.
fn is_cancelled(id: u32) {
    if mark(id, BACK) & RUN != 0 {
        finding("a cancelled message ran", &described(id));
    }
}

impl How {
    /// True if the message is a value, and not a closure.
    fn is_typed(self) -> bool {
        match self {
            How::Tell | How::PostTyped | How::TellWithin(_) | How::Recipient => true,
            How::Send | How::Post | How::Within(_) => false,
        }
    }
}

/// The state of an actor.
pub struct State {
    who: Arc<Who>,
    world: Arc<World>,
    /// True for an actor's state, and false for a substitute.
    is_real: bool,
    holds: Option<Handle>,
}

impl State {
    /// Begins a turn that may wait.
    fn stay(&mut self, to: usize) -> Stay {
        let turn = self.turn(to);
        let (who, world) = (turn.who.clone(), turn.world.clone());
        drop(turn);
        world.entries[to].running.store(true, SeqCst);
        Stay { who, world, at: to, polls: 0 }
    }

    /// Begins a turn.
    fn turn(&mut self, to: usize) -> Turn {
        if self.is_real && self.world.entries[to].stopped.load(SeqCst) {
            finding("a turn after a stop from inside", &format!("actor {to}"));
        }
        self.message(to)
    }

    /// Begins the turn of a message.
    pub fn message(&mut self, to: usize) -> Turn {
        let entry = &self.world.entries[to];
        if self.is_real {
            entry.record.turns.fetch_add(1, SeqCst);
            let restarts = matches!(
                self.world.program.actors[to].on_panic,
                OnPanic::Restart | OnPanic::Within { .. }
            );
            if restarts && self.who.spoiled.load(SeqCst) {
                finding("a turn on a state that has panicked", &format!("actor {to}"));
            }
        }
        self.hook_of(to, true)
    }

    /// Begins the end of a batch: that of a turn that was cut comes where that was done.
    pub fn batch_end(&mut self, to: usize) -> Turn {
        let awaits = self.world.program.awaits[to];
        self.hook_of(to, !awaits)
    }

    fn hook_of(&mut self, to: usize, at_home: bool) -> Turn {
        let entry = &self.world.entries[to];
        let unwinds = thread::panicking();
        if !self.is_real {
            INSIDE.with_borrow_mut(|inside| inside.push(to));
            let (who, world) = (self.who.clone(), self.world.clone());
            let (is_real, ends, _was) = (false, true, now(Doing::Code));
            return Turn { who, world, at: to, is_real, ends, unwinds, _was };
        }
        let dropped = self.who.id().is_some_and(|id| flags(id) & DROPPED != 0);
        if to != self.at() || entry.live.load(SeqCst) <= 0 || dropped {
            finding("a turn on a dropped state", &format!("actor {to}"));
        }
        if entry.running.swap(true, SeqCst) {
            finding("two turns at a time", &format!("actor {to}"));
        }
        if at_home {
            self.world.check_place(to);
        }
        INSIDE.with_borrow_mut(|inside| inside.push(to));
        let (who, world) = (self.who.clone(), self.world.clone());
        let (is_real, ends, _was) = (true, true, now(Doing::Turn));
        Turn { who, world, at: to, is_real, ends, unwinds, _was }
    }

    /// Returns the actor of this state.
    pub fn at(&self) -> usize {
        self.who.at()
    }
}

impl World {
    /// Checks that this thread may run that actor just now.
    fn check_place(&self, to: usize) {
        let plan = &self.program.actors[to];
        let runs = &plan.runs;
        if DOING.get() == Doing::Poll && (face::POLL_RUNS_NOBODY || !matches!(runs, Runs::Senders))
        {
            finding("a poll runs a turn", &format!("actor {to}"));
        }
        if let (true, Runs::Place(place)) = (face::ONLY_EXECUTORS_RUN, runs) {
            let kind = self.program.places[*place];
            let elsewhere =
                matches!(kind, PlaceKind::Queue { .. }) && self.runs_in_executor.load(SeqCst);
            if !elsewhere && !face::is_thread_of(kind) {
                finding("a turn outside of its executor", &format!("actor {to}"));
            }
        }
    }
}

/// A turn that may wait. It lies in its future.
pub struct Stay {
    who: Arc<Who>,
    world: Arc<World>,
    at: usize,
    polls: u32,
}

impl Stay {
    /// Marks a poll, until the returned turn is dropped.
    pub fn is_polled(&mut self) -> Turn {
        drop(called("a turn that waits"));
        let entry = &self.world.entries[self.at];
        let at = || format!("actor {}", self.at);
        if !entry.running.load(SeqCst) {
            finding("a turn is polled that is over", &at());
        }
        let dropped = self.who.id().is_some_and(|id| flags(id) & DROPPED != 0);
        if self.who.at() != self.at || entry.live.load(SeqCst) <= 0 || dropped {
            finding("a turn goes on with a dropped state", &at());
        }
        if self.polls > 0 && entry.stopped.load(SeqCst) {
            finding("a turn goes on after a stop from inside", &at());
        }
        self.world.check_place(self.at);
        self.polls += 1;
        INSIDE.with_borrow_mut(|inside| inside.push(self.at));
        let (who, world, unwinds) = (self.who.clone(), self.world.clone(), thread::panicking());
        let (is_real, ends, _was) = (true, false, now(Doing::Turn));
        Turn { who, world, at: self.at, is_real, ends, unwinds, _was }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        LAST.set(self.at);
        if !self.world.entries[self.at].running.swap(false, SeqCst) {
            finding("a turn was over before its future", &format!("actor {}", self.at));
        }
    }
}

/// Shuts a system down with this limit by the virtual clock.
pub fn shuts_down<R>(limit: Duration, f: impl FnOnce() -> R) -> R {
    let before = LIMITED.replace(Some(Limited { limit, until: None, late: 0 }));
    let _was = Was(DOING.get(), SIDE.get(), before, CALLED.get());
    asks(f)
}

impl World {
    /// Checks that an actor that ends here ends in time. Between a read of the clock and an end,
    /// other threads may move it.
    fn check_limit(&self, at: usize) {
        let Some(mut limited) = LIMITED.get() else { return };
        let now = timing::now(self);
        match limited.until {
            None => limited.until = Some(now + limited.limit),
            Some(until) if now >= until => limited.late += 1,
            Some(_) => {}
        }
        if limited.late > 1 {
            let (until, late) = (limited.until, limited.late);
            let about = format!("actor {at} ends at {now:?}, limit {until:?}, {late} are late");
            finding("a shutdown goes on when its time is over", &about);
        }
        LIMITED.set(Some(limited));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if !self.is_real {
            return;
        }
        if let Some(Runs::Senders) = self.world.program.actors.get(self.at()).map(|plan| &plan.runs)
        {
            self.world.check_limit(self.at());
        }
        let (_called, _holds) = (called("the drop of a state"), self.holds.take());
        let at = self.at();
        let Some(entry) = self.world.entries.get(at) else {
            return finding("a fresh state was dropped at once", "of a spawner");
        };
        if entry.running.load(SeqCst) {
            finding("a state was dropped in its turn", &format!("actor {at}"));
        }
        if Who::succeeds(&self.world, at) {
            entry.live.fetch_add(1, SeqCst);
        }
        if entry.live.fetch_sub(1, SeqCst) <= 0 {
            finding("a state dropped twice", &format!("actor {at}"));
        }
        self.world.user("the drop of a state", &self.world.program.actors[at].hooks.state_dropped);
    }
}

/// A turn that is under way.
pub struct Turn {
    who: Arc<Who>,
    world: Arc<World>,
    at: usize,
    is_real: bool,
    /// It is over with this, and does not wait.
    ends: bool,
    /// The thread was unwinding when it began.
    unwinds: bool,
    _was: Was,
}

/// The actor whose turn was the last on this thread: a panic that a spawner's hook gets is one of
/// this actor. It is the same after this is dropped.
pub struct Last(pub usize);

impl Last {
    pub fn here() -> Self {
        Last(LAST.get())
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        LAST.set(self.0);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| inside.pop());
        if self.is_real {
            LAST.set(self.at);
            if thread::panicking() && !self.unwinds {
                self.world.entries[self.at].panics.fetch_add(1, SeqCst);
                self.who.spoiled.store(true, SeqCst);
            }
            if self.ends {
                self.world.entries[self.at].running.store(false, SeqCst);
            }
        }
    }
}

/// A message.
pub struct Mail {
    token: Token,
    to: usize,
    world: Arc<World>,
    plan: Arc<Letter>,
    /// The moment of its creation.
    born: u64,
    /// It was returned before.
    is_again: bool,
    carries: Option<Handle>,
}

impl Mail {
    pub fn run(self, state: &mut State) -> Answer {
        self.run_by(state, |_, _, _| ())
    }

    /// Does as `run`, by a handler that first uses its context.
    pub fn run_by(self, state: &mut State, first: impl FnOnce(&World, usize, &[Inside])) -> Answer {
        let (to, id, world, plan) = (self.to, self.token.id, self.world.clone(), self.plan.clone());
        let _called = called("a turn");
        let mail = self;
        {
            let turn = state.turn(to);
            mail.begins(turn.is_real);
            first(&world, to, &plan.inside);
            world.perform(&plan.turn, if turn.is_real { Doing::Turn } else { Doing::Code });
        }
        // Before there is an answer: an answer that is being returned is leaked if a drop panics
        // (rust-lang/rust#47949).
        drop(mail);
        let _token = world.token(Kind::Answer, to, Some(id));
        Answer { _token, world, plan }
    }

    /// Records the beginning of its turn.
    fn begins(&self, is_real: bool) {
        if is_real {
            self.world.entries[self.to].record.room.begins(self.token.id, self.born);
            if POSTS.get() == Some(self.token.id) {
                finding("a posted message runs in its call", &format!("actor {}", self.to));
            }
        }
        self.token.run();
    }

    /// Runs a turn that may wait.
    pub async fn stays(
        self,
        state: &mut State,
        first: impl FnOnce(&World, usize, &[Inside]) + Send,
    ) -> Answer {
        let (to, id, world, plan) = (self.to, self.token.id, self.world.clone(), self.plan.clone());
        let stay = state.stay(to);
        self.begins(true);
        let token = world.token(Kind::Future, to, Some(id));
        let (inner_world, inner_plan) = (world.clone(), plan.clone());
        let inner = async move {
            let (_token, mail, world, plan) = (token, self, inner_world, inner_plan);
            first(&world, to, &plan.inside);
            for leg in &plan.legs {
                world.perform(&leg.before, Doing::Turn);
                turns::awaits(&world, to, &leg.what).await;
            }
            world.perform(&plan.turn, Doing::Turn);
            drop(mail);
        };
        turns::Polls::new(inner, stay).await;
        let _token = world.token(Kind::Answer, to, Some(id));
        Answer { _token, world, plan }
    }

    pub fn is_large(&self) -> bool {
        self.plan.large
    }

    pub fn id(&self) -> u32 {
        self.token.id
    }

    pub fn to(&self) -> usize {
        self.to
    }

    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// True if its sender sends it again when it is returned.
    pub fn goes_again(&self) -> bool {
        self.plan.again
    }

    /// Returns a copy for a second attempt; there is no third.
    pub fn once_more(mut self) -> Option<Self> {
        let room = &self.world.entries[self.to].record.room;
        room.leaves(self.token.id);
        // Where it was withdrawn from, something may keep its place.
        room.made.fetch_add(1, SeqCst);
        (!std::mem::replace(&mut self.is_again, true)).then_some(self)
    }

    /// Returns a cancelled message that is still to be sent, as if nothing had happened.
    fn sent_after_all(self) -> Option<Self> {
        let mail = self.once_more().filter(Mail::goes_again)?;
        crate::ledger::unmark(mail.token.id, BACK);
        Some(mail)
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        let (_called, _carries) = (called("the drop of a message"), self.carries.take());
        self.world.user("the drop of a message", &self.plan.dropped);
    }
}

pub struct Answer {
    _token: Token,
    world: Arc<World>,
    plan: Arc<Letter>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.world.user("the drop of an answer", &self.plan.answer);
    }
}

/// The payload of a panic of user code.
struct Payload {
    _token: Token,
    world: Arc<World>,
    dropped: Body,
}

impl Drop for Payload {
    fn drop(&mut self) {
        let _was = Reset(DROPPING.replace(true));
        self.world.user("the drop of a payload", &self.dropped);
    }
}

/// A panic of user code that has no code of its own.
struct Planned;

/// Panics as user code.
pub fn panics() {
    if !thread::panicking() {
        panic_any(Planned);
    }
}

/// True if the program itself panics with this payload.
pub fn is_planned(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Payload>() || payload.is::<Planned>()
}

/// A waker.
struct Ringer {
    token: Token,
    group: u32,
    actor: usize,
    /// It waits for the actor to be idle, or to end.
    watches: bool,
    world: Arc<World>,
    plan: Arc<Bell>,
    woken: Arc<AtomicBool>,
}

impl Clone for Ringer {
    fn clone(&self) -> Self {
        self.world.user("the clone of a waker", &self.plan.cloned);
        Ringer {
            token: self.world.token(Kind::Waker, self.actor, Some(self.group)),
            group: self.group,
            actor: self.actor,
            watches: self.watches,
            world: self.world.clone(),
            plan: self.plan.clone(),
            woken: self.woken.clone(),
        }
    }
}

impl WakeRef for Ringer {
    fn wake_by_ref(&self) {
        self.woken.store(true, SeqCst);
        if flags(self.token.id) & DROPPED != 0 {
            finding("a dropped waker was woken", &format!("at actor {}", self.actor));
        }
        self.world.user("a waker", &self.plan.woken);
    }
}

impl Wake for Ringer {
    fn wake(self) {
        let is_first = self.watches && CALLED.get() == 0 && INSIDE.with_borrow(Vec::is_empty);
        // This call, and that of its steps.
        let _lets_go = is_first.then(|| LetsGo(LETS_GO.replace(Some(2))));
        let (_called, ringer) = (called("a waker"), self);
        ringer.wake_by_ref();
    }
}

struct LetsGo(Option<u32>);

impl Drop for LetsGo {
    fn drop(&mut self) {
        LETS_GO.set(self.0);
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.world.user("the drop of a waker", &self.plan.dropped);
    }
}

/// A clock that jumps back and forth, and whose code is run now and then.
pub struct OddClock {
    pub world: Arc<World>,
    pub at: usize,
    pub looks: AtomicUsize,
    pub parks: AtomicUsize,
}

impl OddClock {
    pub fn look(&self, real: Duration) -> Duration {
        let crate::plan::Time::Odd { every, jump, body } =
            &self.world.program.actors[self.at].clock
        else {
            return real;
        };
        let look = self.looks.fetch_add(1, SeqCst) as u32;
        if look % every == every - 1 {
            self.world.user("a clock", body);
        }
        let jump = Duration::from_micros((look % 3 * jump).into());
        if look % 2 == 0 { real + jump } else { real.saturating_sub(jump) }
    }

    /// True if a thread that would sleep by it returns at once.
    pub fn wakes_early(&self) -> bool {
        let plan = &self.world.program.actors[self.at].clock;
        let crate::plan::Time::Odd { every, body, .. } = plan else { return false };
        let now = self.parks.fetch_add(1, SeqCst) as u32 % every == every - 1;
        if now {
            self.world.user("a clock", body);
        }
        now
    }
}
