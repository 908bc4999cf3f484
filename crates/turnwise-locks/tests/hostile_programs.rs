//! Hostile programs: random programs over keyed runs and lock objects, in which all user code
//! misbehaves.
//!
//! Closures, keys, states, captures, wakers and clocks panic, call back into the same registries,
//! take, forget and leave guards, and drop what waits. What must hold all the same:
//!
//! - each closure runs once, or never, as the answer says; and is gone in the end;
//! - a key has one user at a time, and one state;
//! - where no holds are taken away, they exclude each other; what is fenced off is lost;
//! - what is not forgotten is gone in the end: keys, states, wakers, holds; and all can be used;
//! - nothing panics that was not to, and each program comes to its end.
//!
//! ```text
//! cargo test -p turnwise-locks --test hostile_programs                       some hundred programs
//! SEED=7 PROGRAMS=100000 cargo test --release -p turnwise-locks --test ..    others
//! REPLAY=7 TIMES=200 cargo test ..    one of them: its threads go other ways each time
//! ONLY=leases ..                      only programs about runs, locks, leases, permits, everything
//! ```
//!
//! A program that waits for ever would be stuck in the library, and not by its own fault: every
//! wait for a place has a limit, but where nothing is held; and what runs inside a lock's own turn
//! (wakers, and drops of keys) does not wait. Something is stuck when nothing at all has
//! happened for a minute (`PATIENCE`, in seconds).
//!
//! A program of its own: it sets the hook of panics.

mod common;
#[path = "hostile/steps.rs"]
mod steps;
#[path = "hostile/world.rs"]
mod world;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};
use std::{process, thread};

use turnwise_locks::{Limits, NotStarted, Run, RunError};
use world::{
    Body, KEYS, Kind, Name, PERMITS, PROGRAM, PROGRESS, Plan, State, Sums, TAME, World, of, seeded,
    swallow,
};

/// Unplanned panics.
static FOREIGN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Past the harness, which would keep it to itself if the process ended.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is to be a number")))
}

fn patience() -> Duration {
    Duration::from_secs(number("PATIENCE").unwrap_or(60))
}

/// Errors of a finished program.
fn left(world: &World) -> Vec<String> {
    let mut left = Vec::new();
    let mut at_most = |what: &str, there: usize, most: usize| {
        if there > most {
            left.push(format!("{there} {what}, not {most}"));
        }
    };
    let keys = [
        ("keys of runs", 0, world.keyed.len()),
        ("locks", 1, world.locks.len()),
        ("locks of readers", 2, world.rw.len()),
        ("keys of permits", 5, world.by_key.len()),
    ];
    for (name, what, there) in keys {
        at_most(name, there, world.may_stay(what));
    }
    let used = keys.iter().map(|&(_, _, there)| there).sum::<usize>();
    let live = |kind| world.count(kind).unsigned_abs();
    let lost = world.lost_runs.load(SeqCst);
    // Values stay, and their keys.
    let (values, kept) = (world.mutexes.len(), world.lost_values.load(SeqCst));
    at_most("values", values, KEYS);
    at_most("keys", live(Kind::Key), used + lost + values + 2 * kept);
    at_most("states", live(Kind::State), world.may_stay(0) + values + kept);
    at_most("closures", live(Kind::Closure), 0);
    if !world.plan.forgets {
        at_most("wakers", live(Kind::Waker), 0);
    }
    if let Some(info) = world.permits.info().wait().ok().filter(|_| world.may_stay(3) == 0) {
        let used = (info.permits - info.available) as usize;
        at_most("requests for permits", used + info.waiting, 0);
    }
    left
}

/// Drops what lies about, one by one. True: something did.
fn drop_lying(world: &World) -> bool {
    let things = std::mem::take(&mut *world.lying.lock().unwrap());
    let some = !things.is_empty();
    things.into_iter().for_each(|thing| swallow(|| drop(thing)));
    some
}

/// Tries again until it succeeds, or patience is over: a pool may be about to give it back, and a
/// waker that outlives the program may put something down.
fn retried<T, E>(world: &World, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(_) if begun.elapsed() < patience() => drop_lying(world),
            tried => return tried,
        };
        thread::yield_now();
    }
}

/// Drops what lies about until nothing of the program is left.
fn settle(world: &World) {
    let begun = Instant::now();
    loop {
        let left = if drop_lying(world) { vec!["things".into()] } else { left(world) };
        world.tick();
        if left.is_empty() {
            return;
        }
        if begun.elapsed() > patience() {
            return world.finding(format!("left: {left:?}"));
        }
        thread::yield_now();
    }
}

/// Checks that all that is not held can be acquired.
fn is_usable(world: &Arc<World>) {
    TAME.store(true, SeqCst);
    let open = |what: usize| !world.closed[what].load(SeqCst);
    let refused = |what: &str, why: String| world.finding(format!("{what}: {why}"));
    for key in 0..KEYS {
        let free = |what: usize| open(what) && !world.forgotten[what][key].load(SeqCst);
        // Where it is kept, the turn before may be about to end.
        let begun = Instant::now();
        while open(0) {
            let (body, fate) = Body::new(world, None);
            let f = move |state: &mut _| body.run(&[key], &mut [state]);
            let name = Name::new(world, key);
            // With an executor, there is no trial: a moment for it to begin.
            let ran = match world.plan.executor {
                true => world.keyed.run_within(name, Limits::wait(Duration::ZERO), f),
                false => world.keyed.try_run(name, f).map_err(RunError::from),
            };
            match ran {
                Err(RunError::NotStarted(why)) if begun.elapsed() > patience() => {
                    refused("a run", format!("{why:?}"));
                    break;
                }
                Err(RunError::NotStarted(why)) => {
                    fate.refused(world, &why);
                    drop_lying(world);
                }
                ran => {
                    fate.came_to(world, ran);
                    break;
                }
            }
            thread::yield_now();
        }
        let name = || Name::new(world, key);
        let lock = || retried(world, || world.locks.try_lock(name()));
        if let Some(Err(why)) = free(1).then(lock) {
            refused("a lock", why.to_string());
        }
        let write = || retried(world, || world.rw.try_write(name()));
        if let Some(Err(why)) = free(2).then(write) {
            refused("a writer", why.to_string());
        }
        let permits = || retried(world, || world.by_key.try_acquire(name(), world::KEY_PERMITS));
        if let Some(Err(why)) = free(5).then(permits) {
            refused("permits of a key", why.to_string());
        }
    }
    for key in 0..KEYS {
        if world.forgotten[4][key].load(SeqCst) || !open(4) {
            continue;
        }
        match retried(world, || world.mutexes.try_lock(Name::new(world, key))) {
            // They stay, and keep their program.
            Ok(guard) => drop(guard.remove()),
            Err(why) => refused("a value", why.to_string()),
        }
    }
    for key in 0..KEYS {
        let tenant = || world::Tenant::new(world, key);
        // What was forgotten is there by then.
        if let Err(why) = retried(world, || world.rates.try_acquire(tenant(), world::BURST)) {
            refused("permits of a rate", why.to_string());
        }
        if world.plan.loses_limits() {
            continue;
        }
        if let Some(waiting) = world.plan.capacity.filter(|_| open(0)) {
            is_bounded(world, key, waiting as usize);
        }
    }
    if open(3) && world.may_stay(3) == 0 {
        if let Err(why) = retried(world, || world.permits.try_acquire(PERMITS)) {
            refused("permits", why.to_string());
        }
    }
}

/// As many runs of a key wait as may, and one more is refused.
fn is_bounded(world: &Arc<World>, key: usize, waiting: usize) {
    let name = || Name::new(world, key);
    let run = || world.keyed.start(name(), Limits::NONE, |_: &mut State| ());
    let all = |_: &mut State| {
        let mut runs: Vec<_> = (0..=waiting).map(|_| run()).collect();
        let full = |run: &mut Run<()>| {
            let got = common::poll(run, Waker::noop());
            matches!(got, Some(Err(RunError::NotStarted(NotStarted::Full { .. }))))
        };
        runs.iter_mut().map(full).collect::<Vec<_>>()
    };
    match world.keyed.run(name(), all) {
        Ok(full) if full.iter().position(|&full| full) == Some(waiting) => {}
        Ok(full) => world.finding(format!("key {key}, {waiting} may wait, refused: {full:?}")),
        // What was forgotten keeps its place.
        Err(why) if world.lost_runs.load(SeqCst) > 0 => drop(why),
        Err(why) => world.finding(format!("key {key}: {why:?}")),
    }
}

/// The steps of a program, and its end.
fn run(world: &Arc<World>, seed: u64) {
    thread::scope(|scope| {
        let run = |number: usize| {
            let steps = move || {
                seeded(seed.wrapping_mul(8).wrapping_add(number as u64 + 1));
                (0..40).for_each(|_| swallow(|| steps::act(world)));
            };
            let name = format!("program {seed}");
            thread::Builder::new().name(name).spawn_scoped(scope, steps).expect("a thread")
        };
        let running: Vec<_> = (0..world.plan.threads).map(run).collect();
        // Timers by hand fire here.
        while running.iter().any(|thread| !thread.is_finished()) {
            world.tick();
            thread::yield_now();
        }
    });
    world.over.store(true, SeqCst);
    world.check_rates();
    // A latch that is not opened keeps the wakers of those that have given up.
    (0..4).for_each(|_| swallow(|| world.latch.count_down()));
    settle(world);
    is_usable(world);
    settle(world);
}

/// One program: what is wrong with it.
fn program(seed: u64, only: &str, sums: &Sums) -> Vec<String> {
    PROGRAM.store(seed, SeqCst);
    TAME.store(false, SeqCst);
    seeded(seed);
    let plan = Plan::draw(only).expect("there is such a profile");
    let world = World::new(plan);
    thread::scope(|scope| {
        scope.spawn(|| world.pass());
        // Its panic goes on when the time has stopped.
        let ended = catch_unwind(AssertUnwindSafe(|| run(&world, seed)));
        world.done.store(true, SeqCst);
        ended.unwrap_or_else(|payload| resume_unwind(payload));
    });
    let count = |count: &std::sync::atomic::AtomicUsize| count.load(SeqCst);
    let counts = [&world.sums.sent, &world.sums.ran, &world.sums.unrun].map(count);
    if counts[0] != counts[1] + counts[2] {
        world.finding(format!("{} sent, {} ran, {} dropped", counts[0], counts[1], counts[2]));
    }
    world.sums.add_to(sums);
    let mut findings = world.findings();
    findings.append(&mut FOREIGN.lock().unwrap());
    if !findings.is_empty() {
        findings.insert(0, format!("REPLAY={seed}, {plan:?}"));
    }
    findings
}

/// Runs programs on a thread of their own, and ends the process if one is stuck.
fn hunt(seeds: impl Iterator<Item = u64> + Send + 'static, only: String) -> Vec<Vec<String>> {
    let (tell, told) = channel();
    let programs = move || {
        let (sums, mut red, mut ran) = (Sums::default(), Vec::new(), 0);
        for seed in seeds {
            let findings = program(seed, &only, &sums);
            ran += 1;
            if !findings.is_empty() {
                say(&format!("{findings:#?}"));
                red.push(findings);
            }
            if red.len() == 5 {
                break;
            }
        }
        println!("{ran} programs; {}", sums.told());
        tell.send(red).expect("somebody waits");
    };
    let running = thread::Builder::new().name("programs".into()).spawn(programs).expect("a thread");
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        match told.recv_timeout(Duration::from_millis(200)) {
            Ok(red) => return red,
            Err(RecvTimeoutError::Disconnected) => {
                // With its own panic.
                running.join().expect("programs end");
                unreachable!("it has sent nothing");
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = PROGRESS.load(SeqCst);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() > patience() {
            let plan = world::CURRENT.lock().unwrap().upgrade().map(|world| world.plan);
            let seed = PROGRAM.load(SeqCst);
            say(&format!("REPLAY={seed}, {plan:?}: stuck, for nothing has happened"));
            process::abort();
        }
    }
}

#[test]
fn whatever_user_code_does() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let programs = number("PROGRAMS").unwrap_or(if cfg!(debug_assertions) { 200 } else { 1_000 });
    let first = number("SEED").unwrap_or(1);
    // Of the planned panics no hook hears.
    std::panic::set_hook(Box::new(|info| {
        let text = format!("REPLAY={}: {info}", PROGRAM.load(SeqCst));
        say(&text);
        FOREIGN.lock().unwrap().push(text);
    }));
    let red = match number("REPLAY") {
        Some(seed) => {
            let times = number("TIMES").unwrap_or(200);
            hunt(std::iter::repeat_n(seed, times as usize), only)
        }
        None => hunt(first..first + programs, only),
    };
    drop(std::panic::take_hook());
    assert!(red.is_empty(), "{red:#?}");
    let _ = of(1);
}
