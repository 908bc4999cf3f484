//! Hostile programs on slots, admissions and ticks: random programs in which hooks, ledgers, jobs,
//! values and wakers fail, panic, call back and leave things lying. What must hold all the same:
//!
//! - a slot has one user, is clean when it is set up, and what fails is quarantined until repaired;
//! - rows are what was committed: one for each applicant with the answer "in", none for others,
//!   none too many;
//! - a job runs once per tick;
//! - nothing is left in the end, nothing panics that was not to, and each program ends.
//!
//! ```text
//! SEED=7 PROGRAMS=100000 cargo test --release -p turnwise-locks --test hostile_places
//! REPLAY=7 TIMES=200 cargo test ..    one of them: its threads go other ways each time
//! ```
//!
//! Code inside a turn of the slots' queue (wakers) does not wait.
//!
//! A program of its own: it sets the hook of panics.

mod common;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};
use std::{process, thread};

use common::{Wakes, poll};
use turnwise::time::Timers;
use turnwise::{Clock, MonotonicClock, ThreadPool, VirtualClock};
use turnwise_locks::admission::{Admission, Admitted, Apply, CommitError, Fault, Ledger, Refused};
use turnwise_locks::slots::{AcquireSlot, SlotRun};
use turnwise_locks::ticks::{Attendance, OncePerTick, Schedule};
use turnwise_locks::{Limits, Slot, SlotId, SlotPool};

const SLOTS: usize = 3;
const SEATS: u64 = 30;

/// The number of events: a thread that waits for ever draws nothing.
static PROGRESS: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// User code behaves: for the questions at the end.
static TAME: AtomicBool = AtomicBool::new(false);
/// Unplanned panics.
static FOREIGN: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static RANDOM: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

fn of(many: usize) -> usize {
    PROGRESS.fetch_add(1, Relaxed);
    let mut random = RANDOM.get();
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    RANDOM.set(random);
    (random >> 20) as usize % many
}

fn seeded(seed: u64) {
    RANDOM.set(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
}

/// A panic of a program, of which no hook hears.
fn planned() {
    if !thread::panicking() && !TAME.load(SeqCst) {
        resume_unwind(Box::new("planned"));
    }
}

fn swallow(f: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(f)));
}

/// Fails or panics, now and then.
fn fails() -> bool {
    if TAME.load(SeqCst) || of(8) != 0 {
        return false;
    }
    if of(2) == 0 {
        planned();
    }
    true
}

#[derive(Clone, Debug)]
struct Trouble;

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("trouble")
    }
}

type Us = Arc<OnceLock<Weak<World>>>;

fn world(us: &Us) -> Option<Arc<World>> {
    us.get()?.upgrade()
}

/// The value of a set-up. Its drop may panic.
struct Made(SlotId, Us);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(world) = world(&self.1) {
            world.made.fetch_sub(1, SeqCst);
            if of(10) == 0 {
                planned();
            }
        }
    }
}

/// Somebody is at a slot: to set it up, or to clean it up.
struct Busy<'a>(&'a AtomicBool);

impl<'a> Busy<'a> {
    fn new(world: &'a World, slot: SlotId) -> Self {
        let busy = &world.busy[slot.index()];
        if busy.swap(true, SeqCst) {
            world.finding(format!("two are at slot {slot}"));
        }
        Busy(busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    In(u64),
    /// By an application before.
    InAlready(u64),
    Out,
    Unknown,
}

enum Thing {
    Asks(AcquireSlot<Made, Trouble>),
    Slot(Slot<Made, Trouble>),
    Job(SlotRun<(), Made, Trouble>),
    Apply(u32, Apply<u32, Book>),
    Attends(Attendance),
}

struct World {
    pool: SlotPool<Made, Trouble>,
    raffle: Admission<u32, Book>,
    jobs: OncePerTick,
    clock: Option<VirtualClock>,
    timers: Timers,
    leases: bool,
    busy: [AtomicBool; SLOTS],
    dirty: [AtomicBool; SLOTS],
    made: AtomicIsize,
    next_id: AtomicU32,
    /// Applicants that have applied more than once.
    again: Mutex<HashSet<u32>>,
    told: Mutex<Vec<(u32, Verdict)>>,
    disk: Arc<Mutex<Vec<(u32, u64)>>>,
    ran: Mutex<HashSet<(usize, u64)>>,
    lying: Mutex<Vec<Thing>>,
    fuel: AtomicIsize,
    done: AtomicBool,
    findings: Mutex<Vec<String>>,
}

impl World {
    fn finding(&self, what: String) {
        self.findings.lock().unwrap().push(what);
    }

    fn tell(&self, id: u32, told: Result<Admitted<u64>, Refused<Trouble>>) {
        let verdict = match told {
            Ok(admitted) => {
                if admitted.row != admitted.place {
                    self.finding(format!("{id} has the row of another"));
                }
                Verdict::In(admitted.place)
            }
            Err(Refused::Unknown(Fault::Error(_) | Fault::Panic(_)) | Refused::NotAwaited(_)) => {
                Verdict::Unknown
            }
            Err(Refused::Duplicate { place }) => Verdict::InAlready(place),
            Err(Refused::Taken) => return self.finding("an answer was taken".into()),
            Err(_) => Verdict::Out,
        };
        self.told.lock().unwrap().push((id, verdict));
    }
}

/// The ledger: what is on the disk is true.
struct Book {
    us: Us,
    disk: Arc<Mutex<Vec<(u32, u64)>>>,
    open: Vec<(u32, u64)>,
}

impl Book {
    fn misbehaves(&self) {
        if let Some(world) = world(&self.us) {
            misbehave(&world);
        }
    }

    fn fails(&self) -> bool {
        self.us.get().is_some() && fails()
    }
}

impl Ledger<u32> for Book {
    type Row = u64;
    type Error = Trouble;

    fn load(&mut self) -> Result<Vec<(u32, u64)>, Trouble> {
        if self.fails() {
            return Err(Trouble);
        }
        Ok(self.disk.lock().unwrap().iter().copied().collect())
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        self.open.clear();
        self.misbehaves();
        if self.fails() { Err(Trouble) } else { Ok(()) }
    }

    fn enter(&mut self, id: &u32, place: u64) -> Result<u64, Trouble> {
        self.open.push((*id, place));
        self.misbehaves();
        if self.fails() {
            self.open.pop();
            return Err(Trouble);
        }
        Ok(place)
    }

    fn commit(&mut self) -> Result<(), CommitError<Trouble>> {
        self.misbehaves();
        let fate = if TAME.load(SeqCst) { 0 } else { of(16) };
        if fate == 1 {
            self.open.clear();
            return Err(CommitError::RolledBack(Trouble));
        }
        if fate != 2 && fate != 3 {
            let mut disk = self.disk.lock().unwrap();
            disk.append(&mut self.open);
        }
        match fate {
            2 | 4 => Err(CommitError::Unknown(Trouble)),
            3 | 5 => {
                // Not if the program has ended meanwhile.
                planned();
                Err(CommitError::Unknown(Trouble))
            }
            _ => Ok(()),
        }
    }

    fn roll_back(&mut self) {
        self.open.clear();
        if of(8) == 0 {
            planned();
        }
    }
}

fn build(seed: u64) -> Arc<World> {
    let us = Us::default();
    let clock = (of(2) == 0).then(VirtualClock::new);
    let timers = match &clock {
        Some(clock) => Timers::by_hand(clock.clone()),
        None => Timers::global().clone(),
    };
    let leases = of(2) == 0;
    let here = |us: &Us| us.clone();
    let (sets, cleans, reclaims, hears) = (here(&us), here(&us), here(&us), here(&us));
    let mut pool = SlotPool::builder(1 + of(SLOTS))
        .set_up(move |slot| {
            let Some(world) = world(&sets) else { return Err(Trouble) };
            let _busy = Busy::new(&world, slot);
            if world.dirty[slot.index()].swap(true, SeqCst) {
                world.finding(format!("{slot} is set up and dirty"));
            }
            misbehave(&world);
            if fails() {
                return Err(Trouble);
            }
            world.made.fetch_add(1, SeqCst);
            Ok(Made(slot, sets.clone()))
        })
        .clean_up(move |slot, made| {
            let Some(world) = world(&cleans) else { return Ok(()) };
            let _busy = Busy::new(&world, slot);
            drop(made);
            misbehave(&world);
            if fails() {
                return Err(Trouble);
            }
            world.dirty[slot.index()].store(false, SeqCst);
            Ok(())
        })
        .reclaim(move |_, _| {
            if let Some(world) = world(&reclaims) {
                misbehave(&world);
                let _ = fails();
            }
        })
        .on_quarantine(move |slot, _| {
            if let Some(world) = world(&hears) {
                misbehave(&world);
                if of(3) == 0 {
                    let _ = world.pool.repair(slot);
                }
            }
        })
        .timers(timers.clone());
    if of(3) == 0 {
        pool = pool.clean_first();
    }
    if leases {
        pool = pool.lease(Duration::from_micros(300));
    }
    let disk = Arc::new(Mutex::new(Vec::new()));
    let book = Book { us: us.clone(), disk: disk.clone(), open: Vec::new() };
    let mut raffle = Admission::builder(book, SEATS).group(1 + of(8)).timers(timers.clone());
    if of(2) == 0 {
        static POOL: OnceLock<ThreadPool> = OnceLock::new();
        let pool = POOL.get_or_init(|| ThreadPool::builder().threads(1).build().expect("a thread"));
        raffle = raffle.executor(pool.handle());
    }
    let wall = clock.clone();
    let now = move || wall.as_ref().map_or_else(|| MonotonicClock.now(), Clock::now);
    let schedule = Schedule::every(Duration::from_micros(200));
    let world = Arc::new(World {
        pool: pool.build().expect("it can be built"),
        raffle: raffle.open().expect("it can be read"),
        jobs: OncePerTick::new(schedule).wall(now).timers(timers.clone()),
        clock,
        timers,
        leases,
        busy: Default::default(),
        dirty: Default::default(),
        made: AtomicIsize::new(0),
        next_id: AtomicU32::new(0),
        again: Mutex::default(),
        told: Mutex::default(),
        disk,
        ran: Mutex::default(),
        lying: Mutex::default(),
        fuel: AtomicIsize::new(400),
        done: AtomicBool::new(false),
        findings: Mutex::default(),
    });
    us.set(Arc::downgrade(&world)).expect("once");
    SEED.store(seed, SeqCst);
    world
}

/// Calls back, now and then.
fn misbehave(world: &Arc<World>) {
    if TAME.load(SeqCst) || DEPTH.get() > 2 || of(4) != 0 {
        return;
    }
    act(world);
}

fn quietly(world: &Weak<World>) {
    let Some(world) = world.upgrade() else { return };
    let before = QUIET.replace(true);
    swallow(|| misbehave(&world));
    QUIET.set(before);
    if of(20) == 0 {
        planned();
    }
}

fn limits() -> Limits {
    let limits = match of(3) {
        0 => Limits::NONE,
        1 => Limits::wait(Duration::ZERO),
        _ => Limits::wait(Duration::from_micros(of(100) as u64)),
    };
    if of(4) == 0 { limits.refuse_early() } else { limits }
}

fn polled<F: Future + Unpin>(future: &mut F, world: &Arc<World>) -> Option<F::Output> {
    let weak = Arc::downgrade(world);
    let waker = Wakes::calling(move || quietly(&weak)).waker();
    poll(future, &waker)
}

/// One step.
fn act(world: &Arc<World>) {
    if world.fuel.fetch_sub(1, SeqCst) < 0 {
        return;
    }
    let depth = DEPTH.replace(DEPTH.get() + 1);
    let stepped = catch_unwind(AssertUnwindSafe(|| step(world, depth == 0)));
    DEPTH.set(depth);
    if let Err(payload) = stepped {
        if !thread::panicking() {
            resume_unwind(payload);
        }
    }
}

fn step(world: &Arc<World>, outermost: bool) {
    let quiet = QUIET.get();
    let lie = |thing| world.lying.lock().unwrap().push(thing);
    match of(16) {
        0 | 1 => {
            let mut limits = limits();
            if world.leases && of(3) == 0 {
                limits = limits.lease(Duration::from_micros(1 + of(300) as u64));
            }
            lie(match of(2) {
                0 => Thing::Asks(world.pool.acquire(limits)),
                _ => {
                    let us = Arc::downgrade(world);
                    Thing::Job(world.pool.run_async(limits, async move |slot| job(us, slot).await))
                }
            });
        }
        2 if !quiet => {
            if let Ok(slot) = world.pool.try_acquire() {
                lie(Thing::Slot(slot));
            }
        }
        3 if outermost => {
            let wait = Limits::wait(Duration::from_micros(of(100) as u64));
            let _ = world.pool.run(wait, |_| misbehave(world));
        }
        4..=8 => {
            let thing = {
                let mut lying = world.lying.lock().unwrap();
                match lying.len() {
                    0 => return,
                    many => lying.swap_remove(of(many)),
                }
            };
            if let Some(thing) = handle(thing, world, outermost) {
                lie(thing);
            }
        }
        9 if !quiet => world.pool.resize(1 + of(SLOTS)).expect("it is a size"),
        10 if !quiet => {
            let view = world.pool.view();
            if view.in_use + view.free + view.quarantined != view.each.len() {
                world.finding(format!("the numbers do not add up: {view:?}"));
            }
            if let Some(slot) = view.each.get(of(SLOTS)) {
                let _ = world.pool.repair(slot.id);
            }
        }
        11..=13 => {
            let mut id = world.next_id.fetch_add(1, SeqCst);
            if of(5) == 0 && id > 0 {
                id = of(id as usize) as u32;
                world.again.lock().unwrap().insert(id);
            }
            lie(Thing::Apply(id, world.raffle.apply(id, limits())));
        }
        14 => {
            let job = of(2);
            let us = Arc::downgrade(world);
            let ran = move |tick| {
                let Some(world) = us.upgrade() else { return };
                if !world.ran.lock().unwrap().insert((job, tick)) {
                    world.finding(format!("job {job} ran twice in {tick:?}"));
                }
                misbehave(&world);
                let _ = fails();
            };
            let name = ["a", "b"][job];
            let jobs = match of(3) {
                0 => world.jobs.clone().nearest(),
                1 => world.jobs.clone().catch_up(of(4) as u32),
                _ => world.jobs.clone(),
            };
            match of(3) {
                0 => _ = jobs.try_run(name, ran),
                1 => lie(Thing::Attends(jobs.attend(name, ran))),
                _ => {
                    let mut run = pin!(jobs.try_run_async(name, async |tick| ran(tick)));
                    _ = poll(&mut run, Waker::noop());
                }
            }
        }
        _ => _ = world.raffle.status(),
    }
}

/// A job that waits: the value of its slot is its own until it is gone.
async fn job(us: Weak<World>, slot: &mut Slot<Made, Trouble>) {
    let Some(world) = us.upgrade() else { return };
    let _busy = Busy::new(&world, slot.id());
    for _ in 0..of(4) {
        if slot.0 != slot.id() {
            world.finding(format!("{} has the value of {}", slot.id(), slot.0));
        }
        misbehave(&world);
        let _ = fails();
        match of(4) {
            0 if world.leases => _ = slot.renew(Duration::from_micros(of(300) as u64)),
            1 if world.leases => _ = slot.is_lost(),
            2 if of(8) == 0 => std::future::pending().await,
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Does something to what lies about; what goes back there.
fn handle(thing: Thing, world: &Arc<World>, outermost: bool) -> Option<Thing> {
    let short = Duration::from_micros(of(100) as u64);
    match thing {
        Thing::Asks(mut asks) => {
            let got = match of(4) {
                0 => return None,
                1 if outermost => asks.wait_timeout(short),
                _ => polled(&mut asks, world),
            };
            match got {
                None => Some(Thing::Asks(asks)),
                Some(Ok(slot)) => Some(Thing::Slot(slot)),
                Some(Err(_)) => None,
            }
        }
        Thing::Slot(mut slot) => {
            if slot.0 != slot.id() {
                world.finding(format!("{} has the value of {}", slot.id(), slot.0));
            }
            match of(6) {
                0 => return None,
                1 => {
                    let lost = slot.is_lost();
                    if slot.finish().is_ok() && lost {
                        world.finding("what was lost is finished".into());
                    }
                    return None;
                }
                2 if world.leases => _ = slot.renew(Duration::from_micros(of(300) as u64)),
                3 => _ = polled(&mut slot.lost(), world),
                4 if slot.is_lost() && !world.leases => world.finding("it is lost".into()),
                _ => misbehave(world),
            }
            let _ = &mut *slot;
            Some(Thing::Slot(slot))
        }
        Thing::Job(mut job) => match of(5) {
            0 => None,
            _ => polled(&mut job, world).is_none().then_some(Thing::Job(job)),
        },
        Thing::Attends(attendance) => {
            // It may have run since.
            let (panics, runs) = (attendance.panics(), attendance.runs());
            if panics > runs {
                world.finding(format!("{panics} panics of {runs} runs"));
            }
            (of(3) > 0).then_some(Thing::Attends(attendance))
        }
        Thing::Apply(id, mut apply) => {
            let got = match of(4) {
                0 => {
                    drop(apply);
                    world.told.lock().unwrap().push((id, Verdict::Unknown));
                    return None;
                }
                1 if outermost => apply.wait_timeout(short),
                _ => polled(&mut apply, world),
            };
            match got {
                None => return Some(Thing::Apply(id, apply)),
                Some(told) => world.tell(id, told),
            }
            None
        }
    }
}

/// Errors of a finished program.
fn left(world: &World) -> Option<String> {
    let view = world.pool.view();
    for slot in &view.each {
        let _ = world.pool.repair(slot.id);
    }
    let view = world.pool.view();
    let made = world.made.load(SeqCst);
    let none = view.in_use == 0 && view.quarantined == 0 && view.waiting == 0 && made == 0;
    (!none).then(|| format!("{made} values, {view:?}"))
}

fn drop_all(world: &World) {
    let things = std::mem::take(&mut *world.lying.lock().unwrap());
    for thing in things {
        match thing {
            Thing::Apply(id, apply) => world.tell(id, apply.wait()),
            thing => swallow(|| drop(thing)),
        }
    }
}

fn settle(world: &Arc<World>) {
    TAME.store(true, SeqCst);
    let begun = Instant::now();
    loop {
        drop_all(world);
        if world.clock.is_some() {
            world.timers.run_due();
        }
        match left(world) {
            None => break,
            Some(left) if begun.elapsed() > Duration::from_secs(60) => {
                return world.finding(format!("left: {left}"));
            }
            Some(_) => thread::yield_now(),
        }
    }
    // All slots can be had, and no more than those.
    let slots = world.pool.view().slots;
    let at_once = Limits::wait(Duration::ZERO).lease(Duration::MAX);
    loop {
        let held: Vec<_> = (0..slots).map(|_| world.pool.acquire(at_once).wait()).collect();
        let all = held.iter().all(Result::is_ok);
        let one_more = all && world.pool.try_acquire().is_ok();
        if all && !one_more {
            break;
        }
        // A number is free a moment before its permit is.
        if one_more || begun.elapsed() > Duration::from_secs(60) {
            world.finding(format!("of {slots} slots: {held:?}, one more: {one_more}"));
            break;
        }
        drop(held);
        // A hook that was under way may leave something.
        drop_all(world);
        thread::yield_now();
    }
    is_true(world);
}

/// Compares the disk with the answers to applicants.
fn is_true(world: &World) {
    // Whatever is in doubt is looked up for this one.
    let last = world.next_id.fetch_add(1, SeqCst);
    world.tell(last, world.raffle.apply(last, Limits::NONE).wait());
    let counted = world.raffle.status().count;
    let over = world.raffle.shutdown(turnwise::Limit::Unlimited);
    let rows = world.disk.lock().unwrap().clone();
    let by_id: HashMap<u32, u64> = rows.iter().copied().collect();
    let places: HashSet<u64> = rows.iter().map(|row| row.1).collect();
    let many = [rows.len(), by_id.len(), places.len()];
    if over != Ok(true) || many != [counted as usize; 3] || counted > SEATS {
        world.finding(format!("{over:?}, {many:?} rows, applicants, places; {counted} counted"));
    }
    let again = world.again.lock().unwrap();
    for (id, verdict) in world.told.lock().unwrap().iter() {
        let right = match (*verdict, by_id.get(id)) {
            (Verdict::In(place) | Verdict::InAlready(place), row) => row == Some(&place),
            (Verdict::Out, Some(_)) => again.contains(id),
            (Verdict::Out, None) | (Verdict::Unknown, _) => true,
        };
        if !right {
            world.finding(format!("{id}: {verdict:?}, and on the disk {:?}", by_id.get(id)));
        }
    }
}

/// One program: what is wrong with it.
fn program(seed: u64) -> Vec<String> {
    TAME.store(false, SeqCst);
    seeded(seed);
    let world = build(seed);
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(clock) = world.clock.as_ref().filter(|_| !world.done.load(SeqCst)) {
                clock.advance(Duration::from_micros(5));
                thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..2 + of(2) as u64)
            .map(|number| {
                let world = &world;
                scope.spawn(move || {
                    seeded(seed.wrapping_mul(8).wrapping_add(number + 1));
                    (0..40).for_each(|_| swallow(|| act(world)));
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            if world.clock.is_some() {
                world.timers.run_due();
            }
            thread::yield_now();
        }
        let settled = catch_unwind(AssertUnwindSafe(|| settle(&world)));
        world.done.store(true, SeqCst);
        if settled.is_err() {
            world.finding("the end has panicked".into());
        }
    });
    let mut findings = std::mem::take(&mut *world.findings.lock().unwrap());
    findings.append(&mut FOREIGN.lock().unwrap());
    if !findings.is_empty() {
        findings.insert(0, format!("REPLAY={seed}"));
    }
    findings
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is to be a number")))
}

#[test]
fn whatever_user_code_does() {
    std::panic::set_hook(Box::new(|info| {
        let text = format!("REPLAY={}: {info}", SEED.load(SeqCst));
        eprintln!("{text}");
        FOREIGN.lock().unwrap().push(text);
    }));
    let programs = number("PROGRAMS").unwrap_or(if cfg!(debug_assertions) { 200 } else { 1_000 });
    let first = number("SEED").unwrap_or(1);
    let seeds: Box<dyn Iterator<Item = u64> + Send> = match number("REPLAY") {
        Some(seed) => Box::new(std::iter::repeat_n(seed, number("TIMES").unwrap_or(200) as usize)),
        None => Box::new(first..first + programs),
    };
    let running = thread::spawn(move || {
        seeds.map(program).filter(|findings| !findings.is_empty()).take(5).collect::<Vec<_>>()
    });
    let (mut seen, mut since) = (0, Instant::now());
    while !running.is_finished() {
        thread::sleep(Duration::from_millis(1));
        let now = PROGRESS.load(SeqCst);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() > Duration::from_secs(90) {
            eprintln!("REPLAY={}: stuck, for nothing has happened", SEED.load(SeqCst));
            process::abort();
        }
    }
    let red = running.join().expect("programs end");
    drop(std::panic::take_hook());
    assert!(red.is_empty(), "{red:#?}");
}
