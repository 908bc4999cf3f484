//! One program, from its first thread to the question whether all is as it must be.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use crate::face::{POOL_THREAD, PROGRAM_THREAD};
use crate::ledger::{Kind, all_dropped, begin, finding, settle};
use crate::plan::{Ends, For, Program, Room};
use crate::user::{Doing, World, caught};

/// Runs a program. False if something of it is still there, and the process can run no other.
pub fn run(program: Program, stack: usize, patience: Duration) -> bool {
    begin();
    let world = World::new(program, stack);
    let is_well = phases(&world, patience);
    world.pumping.store(false, SeqCst);
    if !is_well {
        return false;
    }
    let kept = |at: usize| {
        world.entries[at].ended_well.load(SeqCst)
            && !matches!(world.program.actors[at].room, Room::DropNewest(_))
    };
    settle(|kind, at| may_stay(&world, kind, at), kept)
}

/// Was something forgotten on purpose that keeps a thing of this kind at that actor?
fn may_stay(world: &World, kind: Kind, at: usize) -> bool {
    if kind == Kind::Hook { world.is_storage_leaky(at) } else { world.is_leaky(at) }
}

/// Waits, and moves the virtual clock meanwhile.
fn wait(world: &Arc<World>, patience: Duration, over: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !over() {
        if start.elapsed() > patience {
            return false;
        }
        world.clock.advance(Duration::from_micros(100));
        thread::park_timeout(Duration::from_micros(50));
    }
    true
}

/// All threads but the pump have come to their end.
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
    let stuck = |what: &str| finding("stuck", &format!("{what}: {:?}", world.unfinished()));
    if !wait(world, patience, || is_quiet(world)) {
        stuck("threads do not end");
        return false;
    }
    let phase = |name, f| phase(world, name, patience, f);
    let gone = || all_dropped(|kind, at| may_stay(world, kind, at));
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
        if !phase("check of wakes", World::check_wakes) || !phase("drop of handles", drop_handles) {
            return false;
        }
    }
    if ends != Ends::PlacesFirst {
        // Before anybody is told to stop: that the last handle has gone is enough.
        wait(world, patience, gone);
    }
    let rest = |world: &Arc<World>| {
        for system in &world.systems {
            let system = system.lock().unwrap().take();
            caught(|| drop(system));
        }
        drop_places(world);
    };
    // Twice, for user code may put something back meanwhile.
    if !phase("drop of systems and places", rest)
        || !phase("drop of the rest", drop_handles)
        || !phase("drop of what has come back", drop_handles)
    {
        return false;
    }
    // A pool's thread may be the last to let something go, and user code puts something back then.
    let over = Instant::now() + patience;
    while !wait(world, Duration::from_millis(20), || gone() && is_quiet(world)) {
        if Instant::now() > over || !phase("drop of what has come back late", drop_handles) {
            break;
        }
    }
    world.pumping.store(false, SeqCst);
    if !wait(world, patience, || threads() == 0) {
        stuck(&format!("{} threads are left", threads()));
        return false;
    }
    true
}

/// Lets futures and handles go, until user code puts none back.
fn drop_handles(world: &Arc<World>) {
    let mut more = true;
    while more {
        more = world.drop_futures();
        for entry in &world.entries {
            let actor = entry.handle.lock().unwrap().take();
            let weak = entry.weak.lock().unwrap().take();
            more |= actor.is_some() || weak.is_some();
            caught(|| drop(actor));
            caught(|| drop(weak));
        }
    }
}

fn drop_places(world: &Arc<World>) {
    for place in &world.places {
        let mut place = place.lock().unwrap().take();
        // The pump may hold it for a moment.
        while let Some(shared) = place.take() {
            match Arc::try_unwrap(shared) {
                Ok(place) => drop(caught(|| place.shut_down(For::Ever))),
                Err(shared) => {
                    place = Some(shared);
                    thread::yield_now();
                }
            }
        }
    }
}

/// Lets a thread of the program do it: what it does may wait for the clock, or for ever.
fn phase(world: &Arc<World>, name: &str, patience: Duration, f: fn(&Arc<World>)) -> bool {
    world.start(name.into(), Doing::Code, f);
    let is_over = wait(world, patience, || is_quiet(world));
    if !is_over {
        finding("stuck", &format!("{name}: {:?}", world.unfinished()));
    }
    is_over
}

/// How many threads of the program and its pools there are. A thread that is started without a name has that of the one that starts it.
fn threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names =
        tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let ours = |name: &String| name.starts_with(POOL_THREAD) || name.starts_with(PROGRAM_THREAD);
    names.filter(ours).count()
}
