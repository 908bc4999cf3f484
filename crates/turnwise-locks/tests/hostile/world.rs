//! The parts of a program: its registries, the ledger of what was sent and what lives, and the user
//! code that misbehaves.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use turnwise::executor::ThreadPool;
use turnwise::time::Timers;
use turnwise::{Clock, EndCause, MonotonicClock, VirtualClock};
use turnwise_locks::rate::{Rate, RateLimits};
use turnwise_locks::{
    Fenced, Keyed, Latch, Limits, Locks, Mutexes, NotStarted, Owner, RunError, RwLocks, Semaphore,
    Semaphores,
};

use super::common::Wakes;
use super::steps::{Thing, act};

pub(crate) const KEYS: usize = 3;
pub(crate) const PERMITS: u64 = 3;
pub(crate) const KEY_PERMITS: u64 = 2;
/// The rate of each key.
pub(crate) const BURST: u32 = 2;
const PERIOD: Duration = Duration::from_micros(10);
/// The count of a writer, among readers.
const WRITER: isize = 1 << 16;

/// The number of events in all programs: a thread that waits for ever draws nothing.
pub(crate) static PROGRESS: AtomicU64 = AtomicU64::new(0);
/// The number of the program that runs: threads that are not its own draw anew with each.
pub(crate) static PROGRAM: AtomicU64 = AtomicU64::new(0);
/// User code behaves: for the questions at the end of a program.
pub(crate) static TAME: AtomicBool = AtomicBool::new(false);
/// For what is made of nothing: [`State::default`].
pub(crate) static CURRENT: Mutex<Weak<World>> = Mutex::new(Weak::new());

thread_local! {
    /// Of which program, and what was drawn last.
    static RANDOM: Cell<(u64, u64)> = const { Cell::new((0, 1)) };
    /// The depth of calls that have called back.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// In code that a lock's own turn may run: if it waited for others, they might for that turn.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// This thread draws what the seed says.
pub(crate) fn seeded(seed: u64) {
    RANDOM.set((PROGRAM.load(SeqCst), mixed(seed)));
}

fn mixed(seed: u64) -> u64 {
    seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// One of this number.
pub(crate) fn of(many: usize) -> usize {
    PROGRESS.fetch_add(1, Relaxed);
    let program = PROGRAM.load(Relaxed);
    let (its, mut random) = RANDOM.get();
    if its != program {
        random = mixed(!program);
    }
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    RANDOM.set((program, random));
    (random >> 20) as usize % many
}

pub(crate) fn once_in(many: usize) -> bool {
    of(many) == 0
}

pub(crate) fn is_quiet() -> bool {
    QUIET.get()
}

pub(crate) fn is_outermost() -> bool {
    DEPTH.get() == 0
}

/// A panic of a program, which is no finding: no hook hears of it.
pub(crate) fn planned() {
    struct Snag;
    impl Drop for Snag {
        fn drop(&mut self) {
            if !thread::panicking() {
                resume_unwind(Box::new("the drop of a payload"));
            }
        }
    }
    if thread::panicking() || TAME.load(SeqCst) {
        return;
    }
    if once_in(8) { resume_unwind(Box::new(Snag)) } else { resume_unwind(Box::new("planned")) }
}

/// Runs code that may panic. The drop of the payload may panic again.
pub(crate) fn swallow(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        dropped.unwrap_or_else(std::mem::forget);
    }
}

/// Runs something, then something else in any case, and goes on panicking then.
pub(crate) fn finally(f: impl FnOnce(), then: impl FnOnce()) {
    let ended = catch_unwind(AssertUnwindSafe(f));
    then();
    if let Err(payload) = ended {
        match thread::panicking() {
            true => std::mem::forget(payload),
            false => resume_unwind(payload),
        }
    }
}

/// The subject of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Runs,
    /// Neither leases nor owners, and nothing is forced: holds exclude each other for sure.
    Locks,
    Leases,
    Permits,
    Rates,
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Machine,
    ByHand,
    Threads,
    Faulty,
}

/// The plan of a seed, before its first step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) about: About,
    time: Time,
    pub(crate) executor: bool,
    keeps: bool,
    /// The runs of a key that may wait.
    pub(crate) capacity: Option<u32>,
    listens: bool,
    /// States of keys have an end hook.
    hooks: bool,
    state_of_key: bool,
    /// Guards and what is asked for may be forgotten.
    pub(crate) forgets: bool,
    /// Registries may be closed in the midst of it.
    pub(crate) ends: bool,
    pub(crate) threads: usize,
}

impl Plan {
    /// With a word: only what is about that.
    pub(crate) fn draw(only: &str) -> Option<Plan> {
        let all = [
            About::Runs,
            About::Locks,
            About::Leases,
            About::Permits,
            About::Rates,
            About::Everything,
        ];
        let wanted = |about: &About| format!("{about:?}").to_lowercase().contains(only);
        let all: Vec<About> = all.into_iter().filter(wanted).collect();
        let about = *all.get(of(all.len().max(1)))?;
        let times =
            [Time::Machine, Time::Machine, Time::ByHand, Time::ByHand, Time::Threads, Time::Faulty];
        Some(Plan {
            about,
            time: times[of(times.len())],
            executor: once_in(5),
            keeps: once_in(4),
            capacity: once_in(2).then(|| of(3) as u32),
            listens: once_in(4),
            hooks: once_in(2),
            state_of_key: once_in(2),
            forgets: once_in(5),
            ends: once_in(5),
            threads: 2 + of(2),
        })
    }

    /// Once its clock has panicked, a run of several keys waits without a limit for what it has
    /// begun: two of them, inside of each other's keys, would do so for ever.
    pub(crate) fn loses_limits(&self) -> bool {
        self.time == Time::Faulty
    }

    /// Only the holder ends a hold.
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.about, About::Locks | About::Permits)
    }
}

/// Counts of values that live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Closure,
    State,
    Key,
    Waker,
}

/// Counted as long as it is there.
pub(crate) struct Token(pub(crate) Arc<World>, Kind);

impl Token {
    pub(crate) fn new(world: &Arc<World>, kind: Kind) -> Self {
        world.live[kind as usize].fetch_add(1, SeqCst);
        Token(world.clone(), kind)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.live[self.1 as usize].fetch_sub(1, SeqCst);
    }
}

/// Totals of the closures that were sent.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) sent: AtomicUsize,
    pub(crate) ran: AtomicUsize,
    pub(crate) unrun: AtomicUsize,
    /// By the answers to their callers: [`SAID`].
    said: [AtomicUsize; 6],
}

const SAID: [&str; 6] =
    ["with a value", "panicked", "refused", "timed out", "cancelled", "ended otherwise"];

impl Sums {
    pub(crate) fn add_to(&self, sum: &Sums) {
        let pairs = [(&self.sent, &sum.sent), (&self.ran, &sum.ran), (&self.unrun, &sum.unrun)];
        let said = self.said.iter().zip(&sum.said);
        pairs.into_iter().chain(said).for_each(|(from, to)| {
            to.fetch_add(from.load(SeqCst), SeqCst);
        });
    }

    pub(crate) fn told(&self) -> String {
        let number = |count: &AtomicUsize| count.load(SeqCst);
        let mut untold = number(&self.sent);
        let mut text = format!(
            "{} closures: {} ran, {} never;",
            untold,
            number(&self.ran),
            number(&self.unrun)
        );
        for (count, what) in self.said.iter().zip(SAID) {
            untold -= number(count);
            text += &format!(" {} {what},", number(count));
        }
        text + &format!(" {untold} not waited for")
    }
}

/// The part of a program that all threads share.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) keyed: Keyed<Name, State>,
    pub(crate) locks: Locks<Name>,
    pub(crate) rw: RwLocks<Name>,
    pub(crate) mutexes: Mutexes<Name, Value>,
    pub(crate) permits: Semaphore,
    pub(crate) by_key: Semaphores<Name>,
    pub(crate) latch: Latch,
    pub(crate) rates: RateLimits<Tenant>,
    /// The permits that were granted.
    grants: Mutex<Vec<Grant>>,
    /// The runs of each key.
    lines: [Mutex<Line>; KEYS],
    pub(crate) owners: [Owner; 2],
    /// The object that each lock, and each writer, guards.
    pub(crate) fenced: [[Fenced<()>; KEYS]; 2],
    clock: Option<VirtualClock>,
    timers: Option<Timers>,
    inside: [AtomicBool; KEYS],
    states: [AtomicIsize; KEYS],
    /// Holders: of locks, readers and writers, permits, values, permits by key.
    held: [[AtomicIsize; KEYS]; 5],
    pub(crate) live: [AtomicIsize; 4],
    pub(crate) sums: Sums,
    pub(crate) lying: Mutex<Vec<Thing>>,
    pub(crate) fuel: AtomicIsize,
    pub(crate) over: AtomicBool,
    /// No thread needs the time any more.
    pub(crate) done: AtomicBool,
    /// True once runs, locks, readers and writers, permits, values, permits by key were closed.
    pub(crate) closed: [AtomicBool; 6],
    /// Was something forgotten that keeps them: by key.
    pub(crate) forgotten: [[AtomicBool; KEYS]; 6],
    /// Runs that were forgotten: each keeps the mailbox of its key, and the key in that.
    pub(crate) lost_runs: AtomicUsize,
    /// Values, and requests for some, that were forgotten: each keeps two copies of its key.
    pub(crate) lost_values: AtomicUsize,
    findings: Mutex<Vec<String>>,
}

/// A clock whose look at the time panics, now and then.
#[derive(Clone, Debug)]
struct Faulty(VirtualClock);

impl Clock for Faulty {
    fn now(&self) -> Duration {
        if once_in(60) {
            planned();
        }
        self.0.now()
    }

    fn park_until(&self, at: Duration) {
        self.0.park_until(at);
    }
}

/// A pool with one thread.
fn pool() -> &'static ThreadPool {
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| ThreadPool::builder().threads(1).build().expect("a thread"))
}

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<World> {
        let clock = (plan.time != Time::Machine).then(VirtualClock::new);
        let shared: Option<Arc<dyn Clock>> = clock.clone().map(|clock| match plan.time {
            Time::Faulty => Arc::new(Faulty(clock)) as Arc<dyn Clock>,
            _ => Arc::new(clock),
        });
        let by_hand = matches!(plan.time, Time::ByHand | Time::Faulty);
        let timers = shared.clone().filter(|_| by_hand).map(Timers::by_hand);
        let (mut locks, mut rw) = (Locks::builder(), RwLocks::builder());
        let mut permits = Semaphore::builder(PERMITS);
        let mut by_key = Semaphores::builder(KEY_PERMITS);
        let mut keyed = Keyed::builder();
        match (&timers, &shared) {
            (Some(timers), _) => {
                (locks, rw) = (locks.timers(timers.clone()), rw.timers(timers.clone()));
                permits = permits.timers(timers.clone());
                by_key = by_key.timers(timers.clone());
                keyed = keyed.timers(timers.clone());
            }
            (None, Some(clock)) => {
                (locks, rw) = (locks.clock(clock.clone()), rw.clock(clock.clone()));
                permits = permits.clock(clock.clone());
                by_key = by_key.clock(clock.clone());
                keyed = keyed.clock(clock.clone());
            }
            (None, None) => {}
        }
        if plan.executor {
            keyed = keyed.executor(pool().handle());
        }
        if let Some(waiting) = plan.capacity {
            keyed = keyed.capacity(waiting);
        }
        if plan.keeps {
            keyed = keyed.keep_alive(Duration::from_micros(50));
        }
        keyed = keyed.counted(plan.keeps);
        if plan.listens {
            keyed = keyed.on_overrun(|key: &Name, _| misbehave_quietly(&key.1.0, 4));
        }
        let mut keyed = match plan.state_of_key {
            true => keyed.state(State::of),
            false => keyed.default_state(),
        };
        if plan.hooks {
            keyed = keyed.on_end(State::end);
        }
        let mutexes = match (&timers, &shared) {
            (Some(timers), _) => Mutexes::builder(Value::of).timers(timers.clone()).build(),
            (None, Some(clock)) => Mutexes::builder(Value::of).timers(Timers::of(clock)).build(),
            (None, None) => Mutexes::with(Value::of),
        };
        let rate = Rate::new(1, PERIOD).and_then(|rate| rate.burst(BURST));
        let rate = rate.expect("it is a rate");
        let rates = match (&timers, &shared) {
            (Some(timers), _) => RateLimits::with_timers(rate, timers.clone()),
            (None, Some(clock)) => RateLimits::with_timers(rate, Timers::of(clock)),
            (None, None) => RateLimits::new(rate),
        };
        let latch = shared.map_or_else(|| Latch::new(4), |clock| Latch::with_clock(4, clock));
        let world = Arc::new(World {
            plan,
            keyed: keyed.build(),
            locks: locks.build(),
            rw: rw.build(),
            mutexes,
            permits: permits.build(),
            by_key: by_key.build(),
            latch,
            rates,
            grants: Mutex::default(),
            lines: Default::default(),
            owners: [Owner::new(), Owner::new()],
            fenced: std::array::from_fn(|_| std::array::from_fn(|_| Fenced::new(()))),
            clock,
            timers,
            inside: Default::default(),
            states: Default::default(),
            held: Default::default(),
            live: Default::default(),
            sums: Sums::default(),
            lying: Mutex::default(),
            fuel: AtomicIsize::new(400),
            over: AtomicBool::new(false),
            done: AtomicBool::new(false),
            closed: Default::default(),
            forgotten: Default::default(),
            lost_runs: AtomicUsize::new(0),
            lost_values: AtomicUsize::new(0),
            findings: Mutex::default(),
        });
        *CURRENT.lock().unwrap() = Arc::downgrade(&world);
        world
    }

    pub(crate) fn finding(&self, what: String) {
        self.findings.lock().unwrap().push(what);
    }

    pub(crate) fn findings(&self) -> Vec<String> {
        std::mem::take(&mut self.findings.lock().unwrap())
    }

    /// Time passes, on a clock that is moved by hand. Its thread runs nothing else: else all
    /// that waits for a limit might wait for it.
    pub(crate) fn pass(&self) {
        while !self.done.load(SeqCst) {
            match &self.clock {
                Some(clock) => clock.advance(Duration::from_micros(5)),
                None => return,
            }
            thread::yield_now();
        }
    }

    /// Runs what is due.
    pub(crate) fn tick(&self) {
        if let Some(timers) = &self.timers {
            swallow(|| {
                timers.run_due();
            });
        }
    }

    pub(crate) fn count(&self, kind: Kind) -> isize {
        self.live[kind as usize].load(SeqCst)
    }

    /// The number of keys of one of the registries that may stay.
    pub(crate) fn may_stay(&self, what: usize) -> usize {
        self.forgotten[what].iter().filter(|one| one.load(SeqCst)).count()
    }
}

/// A key of rates. It keeps no program: rates keep keys for a time.
pub(crate) struct Tenant(pub(crate) usize, Weak<World>);

impl Tenant {
    pub(crate) fn new(world: &Arc<World>, key: usize) -> Self {
        Tenant(key, Arc::downgrade(world))
    }

    fn misbehaves(&self, panics: usize) {
        if let Some(world) = self.1.upgrade() {
            misbehave_quietly(&world, panics);
        }
    }
}

impl Hash for Tenant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if once_in(40) {
            self.misbehaves(8);
        }
        // All in one shard.
        0.hash(state);
    }
}

impl PartialEq for Tenant {
    fn eq(&self, other: &Self) -> bool {
        if once_in(40) {
            planned();
        }
        self.0 == other.0
    }
}

impl Eq for Tenant {}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.misbehaves(20);
    }
}

/// Permits that were granted at some time between two looks at the clock.
#[derive(Clone, Copy, Debug)]
struct Grant {
    key: usize,
    permits: u32,
    asked: Duration,
    known: Duration,
}

impl World {
    /// The time, by the clock of the rates.
    pub(crate) fn now(&self) -> Duration {
        self.clock.as_ref().map_or_else(|| MonotonicClock.now(), VirtualClock::now)
    }

    pub(crate) fn granted(&self, key: usize, permits: u32, asked: Duration) {
        let known = self.now();
        self.grants.lock().unwrap().push(Grant { key, permits, asked, known });
    }

    /// No time has more permits than a burst and what has come meanwhile.
    pub(crate) fn check_rates(&self) {
        // A clock that panics has no time.
        if self.plan.time == Time::Faulty {
            return;
        }
        let grants = std::mem::take(&mut *self.grants.lock().unwrap());
        for key in 0..KEYS {
            let mut all: Vec<_> = grants.iter().filter(|grant| grant.key == key).collect();
            all.sort_by_key(|grant| grant.known);
            for from in all.iter().map(|grant| grant.asked) {
                let mut sum = 0;
                for grant in all.iter().filter(|grant| grant.asked >= from) {
                    sum += u128::from(grant.permits);
                    let time = (grant.known - from).as_nanos() / PERIOD.as_nanos();
                    if sum > u128::from(BURST) + time {
                        return self.finding(format!(
                            "key {key}: {sum} permits from {from:?} to {:?}",
                            grant.known
                        ));
                    }
                }
            }
        }
    }
}

/// The runs of a key.
#[derive(Default)]
struct Line {
    /// Calls that begin runs.
    calls: usize,
    /// Closures that wait or run, and those of these calls.
    there: usize,
}

/// A run is begun, until this is dropped.
pub(crate) struct Begins<'a>(&'a World, usize);

impl World {
    /// Begins a run of this key: its closure may not be accepted yet.
    pub(crate) fn begins(&self, key: usize) -> Begins<'_> {
        self.lines[key].lock().unwrap().calls += 1;
        Begins(self, key)
    }

    fn line(&self, key: Option<usize>, f: impl FnOnce(&mut Line)) {
        if let Some(key) = key {
            f(&mut self.lines[key].lock().unwrap());
        }
    }
}

impl Drop for Begins<'_> {
    fn drop(&mut self) {
        let Begins(world, key) = *self;
        let mut line = world.lines[key].lock().unwrap();
        line.calls -= 1;
        let (there, calls) = (line.there, line.calls);
        drop(line);
        let Some(most) = world.plan.capacity else { return };
        if there > most as usize + 1 + calls {
            world.finding(format!("{there} closures are at key {key}, {calls} are being sent"));
        }
    }
}

/// The hold of a guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) what: What,
    pub(crate) key: usize,
    pub(crate) weight: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Lock,
    Read,
    Write,
    Permit,
    Value,
    KeyPermit,
}

impl Hold {
    fn count<'a>(&self, world: &'a World) -> (&'a AtomicIsize, isize) {
        match self.what {
            What::Lock => (&world.held[0][self.key], 1),
            What::Read => (&world.held[1][self.key], 1),
            What::Write => (&world.held[1][self.key], WRITER),
            What::Permit => (&world.held[2][0], self.weight as isize),
            What::Value => (&world.held[3][self.key], 1),
            What::KeyPermit => (&world.held[4][self.key], self.weight as isize),
        }
    }

    /// The number of the registry, as in [`World::closed`].
    pub(crate) fn of(&self) -> usize {
        match self.what {
            What::Lock => 1,
            What::Read | What::Write => 2,
            What::Permit => 3,
            What::Value => 4,
            What::KeyPermit => 5,
        }
    }

    pub(crate) fn begins(&self, world: &World) {
        let (count, one) = self.count(world);
        let before = count.fetch_add(one, SeqCst);
        let fits = match self.what {
            What::Lock | What::Write | What::Value => before == 0,
            What::Read => before < WRITER,
            What::Permit => before + one <= PERMITS as isize,
            What::KeyPermit => before + one <= KEY_PERMITS as isize,
        };
        // A value has one holder, whatever the plan is.
        if (world.plan.is_strict() || self.what == What::Value) && !fits {
            world.finding(format!("{self:?} beside {before}"));
        }
    }

    pub(crate) fn ends(&self, world: &World) {
        let (count, one) = self.count(world);
        count.fetch_sub(one, SeqCst);
    }
}

/// A key. The `Eq` of a key must not use a registry; everything else it may do.
pub(crate) struct Name(pub(crate) usize, pub(crate) Token);

impl Name {
    pub(crate) fn new(world: &Arc<World>, key: usize) -> Self {
        Name(key, Token::new(world, Kind::Key))
    }
}

impl Clone for Name {
    fn clone(&self) -> Self {
        if once_in(40) {
            planned();
        }
        Name::new(&self.1.0, self.0)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if once_in(40) {
            planned();
        }
        if once_in(40) {
            misbehave_quietly(&self.1.0, 8);
        }
        // Two of them in one shard.
        (self.0 / 2).hash(state);
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        if once_in(40) {
            planned();
        }
        self.0 == other.0
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if once_in(40) {
            planned();
        }
        self.0.cmp(&other.0)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // Its token is dropped in any case.
        misbehave_quietly(&self.1.0, 20);
    }
}

/// The value behind the lock of a key.
pub(crate) struct Value(pub(crate) usize, Token);

impl Value {
    fn of(name: &Name) -> Self {
        if once_in(30) {
            planned();
        }
        Value(name.0, Token::new(&name.1.0, Kind::State))
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        misbehave_quietly(&self.1.0, 6);
    }
}

/// The state of a key; one that was not made of it learns it, and its program, from the first
/// closure.
pub(crate) struct State(Option<(usize, Token)>, Hooked);

/// The end hook has had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hooked {
    No,
    Yes,
}

impl State {
    fn of(name: &Name) -> Self {
        let mut state = State::default();
        state.is_of(&name.1.0, name.0);
        state
    }

    /// The end hook.
    fn end(name: &Name, mut state: Self, _: EndCause) {
        let (key, world) = (name.0, &name.1.0);
        state.1 = Hooked::Yes;
        state.is_of(world, key);
        alone(world, &[key], || misbehave(world, 6));
    }

    fn is_of(&mut self, world: &Arc<World>, key: usize) {
        match &self.0 {
            Some((own, _)) if *own != key => {
                world.finding(format!("key {key} got the state of {own}"));
            }
            Some(_) => {}
            None => {
                self.0 = Some((key, Token::new(world, Kind::State)));
                if world.states[key].fetch_add(1, SeqCst) > 0 {
                    world.finding(format!("two states of key {key}"));
                }
            }
        }
    }
}

impl Default for State {
    fn default() -> Self {
        if once_in(30) {
            planned();
        }
        State(None, Hooked::No)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let Some((key, token)) = &self.0 else { return };
        let (key, world) = (*key, &token.0);
        if world.plan.hooks && self.1 == Hooked::No {
            world.finding(format!("a state of key {key} has ended without its hook"));
        }
        let gone = || {
            world.states[key].fetch_sub(1, SeqCst);
        };
        finally(|| alone(world, &[key], || misbehave(world, 6)), gone);
    }
}

/// No other is inside of these keys.
fn alone(world: &World, keys: &[usize], f: impl FnOnce()) {
    for &key in keys {
        if world.inside[key].swap(true, SeqCst) {
            world.finding(format!("two inside of key {key}"));
        }
    }
    finally(f, || keys.iter().for_each(|&key| world.inside[key].store(false, SeqCst)));
}

/// User code: it does something else, and panics once in a number of times.
pub(crate) fn misbehave(world: &Arc<World>, panics: usize) {
    if DEPTH.get() < 3 && !TAME.load(SeqCst) {
        DEPTH.set(DEPTH.get() + 1);
        for _ in 0..of(3) {
            swallow(|| act(world));
        }
        DEPTH.set(DEPTH.get() - 1);
    }
    if once_in(panics) {
        planned();
    }
}

/// Does so without a wait.
pub(crate) fn misbehave_quietly(world: &Arc<World>, panics: usize) {
    let before = QUIET.replace(true);
    finally(|| misbehave(world, panics), || QUIET.set(before));
}

/// The known fate of a closure.
#[derive(Default)]
pub(crate) struct Fate {
    number: AtomicUsize,
    told: AtomicBool,
    /// 0: nothing; [`RAN`], or [`NEVER`] by the answer to its caller.
    is: AtomicUsize,
    /// In whose line it is, if that is of one key.
    key: Option<usize>,
    is_there: AtomicBool,
}

const RAN: usize = 1;
const NEVER: usize = 2;

impl Fate {
    /// The answer to its caller: one each.
    fn tell(&self, world: &World, said: usize) {
        if self.told.swap(true, SeqCst) {
            world.finding("a closure ended twice".into());
        }
        world.sums.said[said].fetch_add(1, SeqCst);
    }

    pub(crate) fn never(&self, world: &World, what: &str) {
        if self.is.swap(NEVER, SeqCst) == RAN {
            world.finding(format!("{what}, and it ran"));
        }
    }

    pub(crate) fn cancelled(&self, world: &World) {
        self.never(world, "cancelled");
        self.tell(world, 4);
    }

    /// It is gone, or is about to be.
    pub(crate) fn leaves(&self, world: &World) {
        // In one step: a second one that finds it gone finds it counted so.
        world.line(self.key, |line| {
            if self.is_there.swap(false, SeqCst) {
                line.there -= 1;
            }
        });
    }

    pub(crate) fn refused(&self, world: &World, why: &NotStarted) {
        self.never(world, &format!("{why:?}"));
        self.tell(world, if matches!(why, NotStarted::TimedOut { .. }) { 3 } else { 2 });
    }

    pub(crate) fn came_to(&self, world: &World, outcome: Result<usize, RunError<usize>>) {
        match outcome {
            Ok(value) | Err(RunError::Overran { value, .. }) => {
                if value != self.number.load(SeqCst) || self.is.load(SeqCst) != RAN {
                    world.finding("a closure came to what is not its own".into());
                }
                self.tell(world, 0);
            }
            Err(RunError::Panicked(_)) => self.tell(world, 1),
            Err(RunError::Cut(_)) => {
                if self.is.load(SeqCst) != RAN {
                    world.finding("a closure was cut that had not begun".into());
                }
                self.tell(world, 5);
            }
            Err(RunError::NotStarted(why)) => self.refused(world, &why),
            Err(other) => {
                // Without a clock that panics, nothing is taken twice.
                if other == RunError::Taken && world.plan.time != Time::Faulty {
                    world.finding("an outcome was taken".into());
                }
                self.tell(world, 5);
            }
        }
    }
}

/// A captured value: it is there until the closure is gone.
pub(crate) struct Body {
    token: Token,
    fate: Arc<Fate>,
    ran: bool,
}

impl Body {
    pub(crate) fn new(world: &Arc<World>, key: Option<usize>) -> (Self, Arc<Fate>) {
        world.line(key, |line| line.there += 1);
        let fate = Fate { key, is_there: AtomicBool::new(true), ..Fate::default() };
        let fate = Arc::new(fate);
        fate.number.store(world.sums.sent.fetch_add(1, SeqCst), SeqCst);
        let token = Token::new(world, Kind::Closure);
        (Body { token, fate: fate.clone(), ran: false }, fate)
    }

    /// The closure, with the states of these keys.
    pub(crate) fn run(mut self, keys: &[usize], states: &mut [&mut State]) -> usize {
        let world = self.token.0.clone();
        self.ran = true;
        world.sums.ran.fetch_add(1, SeqCst);
        if self.fate.is.swap(RAN, SeqCst) != 0 {
            world.finding("it runs, and was over".into());
        }
        if keys.len() != states.len() {
            world.finding(format!("{} states for {keys:?}", states.len()));
        }
        for (key, state) in keys.iter().zip(states) {
            state.is_of(&world, *key);
        }
        alone(&world, keys, || misbehave(&world, 5));
        self.fate.number.load(SeqCst)
    }

    /// An async closure: it is alone until it is gone.
    pub(crate) async fn run_async(mut self, key: usize, state: &mut State) -> usize {
        let world = self.token.0.clone();
        self.ran = true;
        world.sums.ran.fetch_add(1, SeqCst);
        if self.fate.is.swap(RAN, SeqCst) != 0 {
            world.finding("it runs, and was over".into());
        }
        let _inside = Inside::new(&world, key);
        for _ in 0..of(4) {
            state.is_of(&world, key);
            misbehave(&world, 9);
            match of(12) {
                0 => std::future::pending().await,
                1..=4 => {
                    let time = Duration::from_micros(of(60) as u64);
                    Timers::global().sleep(time).await;
                }
                _ => tokio::task::yield_now().await,
            }
        }
        self.fate.number.load(SeqCst)
    }
}

/// An async closure is inside of its key.
struct Inside(Arc<World>, usize);

impl Inside {
    fn new(world: &Arc<World>, key: usize) -> Self {
        if world.inside[key].swap(true, SeqCst) {
            world.finding(format!("two inside of key {key}"));
        }
        Inside(world.clone(), key)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside[self.1].store(false, SeqCst);
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let world = &self.token.0;
        self.fate.leaves(world);
        if !self.ran {
            world.sums.unrun.fetch_add(1, SeqCst);
        }
        // As a capture's would.
        misbehave_quietly(world, 30);
    }
}

/// With any wait, and perhaps a lease.
pub(crate) fn limits(leases: bool) -> Limits {
    let limits = match of(4) {
        0 => Limits::NONE,
        1 => Limits::wait(Duration::ZERO),
        _ => Limits::wait(Duration::from_micros(of(60) as u64)),
    };
    let limits = if once_in(4) { limits.refuse_early() } else { limits };
    if leases && once_in(3) {
        limits.lease(Duration::from_micros(1 + of(200) as u64))
    } else {
        limits
    }
}

/// With a wait that ends.
pub(crate) fn short(leases: bool) -> Limits {
    let wait = Limits::wait(Duration::from_micros(of(100) as u64));
    if leases && once_in(3) { wait.lease(Duration::from_micros(1 + of(100) as u64)) } else { wait }
}

/// A waker, whose drop misbehaves, too.
pub(crate) fn waker(world: &Arc<World>) -> Waker {
    struct Captured(Token);
    impl Drop for Captured {
        fn drop(&mut self) {
            misbehave_quietly(&self.0.0, 20);
        }
    }
    if once_in(3) {
        return Waker::noop().clone();
    }
    let captured = Captured(Token::new(world, Kind::Waker));
    Wakes::calling(move || misbehave_quietly(&captured.0.0, 3)).waker()
}
