//! Runs one program, from its first thread to the final checks.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use crate::face::{POOL_THREAD, PROGRAM_THREAD};
use crate::ledger::{Kind, NOBODY, alive, begin, described, finding, kind, progress, settle};
use crate::plan::{Ends, For, Program, Room, Runs};
use crate::turns;
use crate::user::{Doing, World, caught};

/// Runs a program. Returns false if a part of it still exists, and the process can run no other.
pub fn run(program: Program, stack: usize, patience: Duration) -> bool {
    let world = World::new(program, stack, begin());
    let is_well = phases(&world, patience);
    world.pumping.store(false, SeqCst);
    if !is_well {
        return false;
    }
    let leaky = |kind, at| may_stay(&world, kind, at);
    let is_over = wait(&world, patience, || alive(leaky).is_empty());
    let left = alive(leaky);
    for id in left.iter().take(5) {
        // Finds the cause, and whether it only takes its time.
        let start = Instant::now();
        let comes = wait(&world, patience, || !alive(leaky).contains(id));
        let what = if comes { "dropped too late" } else { "never dropped" };
        let about = about(&world, *id);
        finding(
            what,
            &format!("{about}, after {:?} more; {} are left", start.elapsed(), left.len()),
        );
    }
    if is_over {
        (0..world.entries.len()).for_each(|at| world.check_hooks(at));
    }
    let kept = |at: usize| {
        world.entries[at].ended_well.load(SeqCst)
            && !matches!(world.program.actors[at].room, Room::DropNewest(_))
    };
    settle(leaky, kept, |at| world.program.actors[at].hooks.undelivered.is_some());
    is_over
}

/// Describes a remaining object: its kind, its actor, and how that actor runs.
fn about(world: &World, id: u32) -> String {
    let owner = kind(id).map(|(_, at)| at).filter(|at| *at != NOBODY);
    let plan = owner.map(|at| {
        let actor = &world.program.actors[at];
        let place = match &actor.runs {
            Runs::Place(place) => format!("{:?}", world.program.places[*place]),
            runs => format!("{runs:?}"),
        };
        let (room, on_panic, system) = (actor.room, actor.on_panic, actor.system);
        let leaky = (world.is_leaky(at), world.is_storage_leaky(at));
        format!(
            "run by {place}, {room:?}, {on_panic:?}, system {system:?}, leaky {leaky:?}, \
             live {}",
            world.live(at)
        )
    });
    format!("{}, {}", described(id), plan.unwrap_or_default())
}

/// True if an object was forgotten on purpose that keeps one of this kind at that actor.
fn may_stay(world: &World, kind: Kind, at: usize) -> bool {
    if kind == Kind::Hook { world.is_storage_leaky(at) } else { world.is_leaky(at) }
}

/// The number of looks before a program is stuck: all threads of this process have run meanwhile,
/// however loaded the machine is.
const LOOKS: u32 = 20_000;

/// The time for which nothing may happen.
struct Patience {
    most: Duration,
    since: Instant,
    looks: u32,
    progress: u64,
}

impl Patience {
    fn new(most: Duration) -> Self {
        Patience { most, since: Instant::now(), looks: 0, progress: progress() }
    }

    /// True if nothing at all has happened for too long.
    fn is_over(&mut self) -> bool {
        let now = progress();
        if now != self.progress {
            (self.progress, self.looks, self.since) = (now, 0, Instant::now());
        }
        self.looks += 1;
        self.looks > LOOKS && self.since.elapsed() > self.most
    }
}

/// Waits, and moves the virtual clock meanwhile.
fn wait(world: &Arc<World>, patience: Duration, over: impl Fn() -> bool) -> bool {
    let mut patience = Patience::new(patience);
    while !over() {
        if patience.is_over() {
            return false;
        }
        tick(world);
    }
    true
}

fn tick(world: &World) {
    world.clock.advance(Duration::from_micros(100));
    thread::park_timeout(Duration::from_micros(50));
}

/// True if all threads but the pump have ended.
fn is_quiet(world: &World) -> bool {
    world.unfinished().iter().all(|name| name == "pump")
}

fn phases(world: &Arc<World>, patience: Duration) -> bool {
    for (at, body) in world.program.threads.iter().enumerate() {
        let body = body.clone();
        world.start(format!("thread {at}"), Doing::Steps, move |world| world.steps(&body));
    }
    let pump = || world.start("pump".into(), Doing::Code, |world| world.pump());
    if world.program.pumped {
        pump();
    }
    if world.program.awaits.contains(&true) {
        // It ends with the pump.
        world.start("pump".into(), Doing::Code, turns::wake_the_forgotten);
    }
    let stuck = |what: &str| finding("stuck", &format!("{what}: {:?}", world.unfinished()));
    if !wait(world, patience, || is_quiet(world)) {
        stuck("threads do not end");
        return false;
    }
    let phase = |name, f| phase(world, name, patience, f);
    let ends = world.program.ends;
    if ends != Ends::Patiently
        && !phase("first", if ends == Ends::HandlesFirst { drop_handles } else { drop_places })
    {
        return false;
    }
    if !world.program.pumped {
        pump();
    }
    if ends == Ends::Patiently {
        let busy = || {
            (0..world.entries.len()).find(|at| {
                !world.is_leaky(*at) && world.handle(*at).is_some_and(|actor| !actor.is_idle())
            })
        };
        if !wait(world, patience, || busy().is_none()) {
            stuck(&format!("actor {:?} never becomes idle", busy()));
            return false;
        }
        let late = || world.clockwork.unsettled(|at| world.is_leaky(at));
        if !wait(world, patience, || late().is_none()) {
            finding("a timer never fires", &late().unwrap_or_default());
            return false;
        }
        if !phase("check of wakes", World::check_wakes)
            || !phase("check of numbers", World::check_numbers)
            || !phase("drop of handles", drop_handles)
        {
            return false;
        }
    }
    if ends != Ends::PlacesFirst {
        // Before any thread is asked to stop: it is enough that the last handle has gone. Weak
        // references keep hooks, and nothing else.
        let hooks = world.weak_ways.lock().unwrap().as_ref().is_some_and(|kept| !kept.is_empty());
        if !lets_go(world, patience, hooks) {
            return false;
        }
        let left = alive(|kind, at| kind == Kind::Hook || may_stay(world, kind, at));
        let weak = world.weak_ways.lock().unwrap().take();
        caught(|| drop(weak));
        if hooks && !left.is_empty() {
            if !lets_go(world, patience, true) {
                return false;
            }
            let now = alive(|_, _| false);
            if let Some(gone) = left.iter().find(|id| !now.contains(id)) {
                finding("a weak handle keeps its actor", &about(world, *gone));
            }
        }
    }
    let rest = |world: &Arc<World>| {
        for system in &world.systems {
            let system = system.lock().unwrap().take();
            caught(|| drop(system));
        }
        let weak = world.weak_ways.lock().unwrap().take();
        caught(|| drop(weak));
        drop_places(world);
    };
    // Twice, because user code may put something back meanwhile.
    if !phase("drop of systems and places", rest)
        || !phase("drop of the rest", drop_handles)
        || !phase("drop of what has come back", drop_handles)
    {
        return false;
    }
    // The timers of an actor that is kept on purpose stay armed.
    let keeps = (0..world.entries.len()).any(|at| world.is_leaky(at));
    if !keeps && !wait(world, patience, || world.clockwork.armed() == 0) {
        finding("a timer never fires", &format!("{} are armed", world.clockwork.armed()));
    }
    // An actor that rests until a manual service is run still has it.
    if !lets_go(world, patience, false) {
        return false;
    }
    world.clockwork.end();
    if !lets_go(world, patience, false) {
        return false;
    }
    world.pumping.store(false, SeqCst);
    // The remains are not stuck: they are reported.
    if !wait(world, patience, || threads() == 0) {
        stuck(&format!("{} threads are left", threads()));
        return false;
    }
    true
}

/// Waits until nothing is left, as long as something happens. A pool's thread may be the last to
/// release an object, and user code puts something back then. Returns false if that cannot be
/// dropped.
fn lets_go(world: &Arc<World>, patience: Duration, hooks_stay: bool) -> bool {
    let stays = |kind, at| hooks_stay && kind == Kind::Hook || may_stay(world, kind, at);
    let is_over = || alive(stays).is_empty() && is_quiet(world);
    let mut until = Patience::new(patience);
    while !is_over() && !until.is_over() {
        for _ in 0..100 {
            if is_over() || until.is_over() {
                break;
            }
            tick(world);
        }
        if !world.has_nothing()
            && !phase(world, "drop of what has come back", patience, drop_handles)
        {
            return false;
        }
    }
    true
}

/// Drops futures and handles, until user code puts none back.
fn drop_handles(world: &Arc<World>) {
    let mut more = true;
    while more {
        more = world.drop_futures() | world.clockwork.let_run_out();
        for entry in &world.entries {
            let actor = entry.handle.lock().unwrap().take();
            let weak = entry.weak.lock().unwrap().take();
            more |= actor.is_some() || weak.is_some();
            caught(|| drop(actor));
            caught(|| drop(weak));
        }
        for spawner in &world.spawners {
            let spawner = spawner.lock().unwrap().take();
            caught(|| drop(spawner));
        }
    }
}

fn drop_places(world: &Arc<World>) {
    for (at, place) in world.places.iter().enumerate() {
        let mut place = place.lock().unwrap().take();
        // The pump may hold it for a moment.
        while let Some(shared) = place.take() {
            match Arc::try_unwrap(shared) {
                Ok(place) => {
                    if caught(|| place.shut_down(For::Ever)) == Some(true) {
                        world.check_gone(at);
                    }
                }
                Err(shared) => {
                    place = Some(shared);
                    thread::yield_now();
                }
            }
        }
    }
}

/// Runs a phase on a thread of the program: it may wait for the clock, or for ever.
fn phase(world: &Arc<World>, name: &str, patience: Duration, f: fn(&Arc<World>)) -> bool {
    world.start(name.into(), Doing::Code, f);
    let is_over = wait(world, patience, || is_quiet(world));
    if !is_over {
        finding("stuck", &format!("{name}: {:?}", world.unfinished()));
    }
    is_over
}

/// Returns the number of threads of the program and its pools. A thread that is started without a
/// name has that of the one that starts it.
fn threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names =
        tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let ours = |name: &String| name.starts_with(POOL_THREAD) || name.starts_with(PROGRAM_THREAD);
    names.filter(ours).count()
}
