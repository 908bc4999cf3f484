//! A pool's worker whose drain has spent its budget continues with the same actor if no other work
//! waits for it, and only then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::Held;
use turnwise::executor::PoolHandle;
use turnwise::{Actor, Drain, Executor, ThreadPool};

/// The turns of one drain.
const BUDGET: usize = 64;
/// The messages that wait when the first turn ends.
const MANY: usize = 20 * BUDGET;

fn pool() -> ThreadPool {
    ThreadPool::builder().threads(1).build().unwrap()
}

/// Keeps the actor in a turn until `meanwhile` is over, then runs `MANY` more.
fn flood(actor: &Actor<usize>, meanwhile: impl FnOnce()) {
    let held = Held::hold(actor);
    (0..MANY).for_each(|_| actor.send(|n| *n += 1).unwrap());
    meanwhile();
    held.let_go();
    actor.idle().wait().unwrap();
    assert_eq!(actor.call(|n| *n).wait().unwrap(), MANY);
}

#[test]
fn what_waits_comes_after_one_budget() {
    let pool = pool();
    let handled = Arc::new(AtomicUsize::new(0));
    let counted = handled.clone();
    let flooded = Actor::builder().executor(pool.handle()).spawn(0).unwrap();
    let quiet = Actor::builder().executor(pool.handle()).spawn(MANY).unwrap();
    let held = Held::hold(&flooded);
    for _ in 0..MANY {
        let counted = counted.clone();
        flooded.send(move |_: &mut usize| _ = counted.fetch_add(1, Ordering::SeqCst)).unwrap();
    }
    let seen = handled.clone();
    quiet.send(move |n| *n = seen.load(Ordering::SeqCst)).unwrap();
    held.let_go();
    flooded.idle().wait().unwrap();
    assert_eq!(handled.load(Ordering::SeqCst), MANY);
    let before = quiet.call(|n| *n).wait().unwrap();
    assert!(before <= 2 * BUDGET, "{before} turns of another actor came first");
}

/// Passes everything on.
struct Front {
    pool: PoolHandle,
    asked: Arc<AtomicUsize>,
}

impl Executor for Front {
    fn execute(&self, drain: Drain) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.pool.execute(drain);
    }
}

#[test]
fn an_executor_before_a_pool_is_asked_each_time() {
    let pool = pool();
    let asked = Arc::new(AtomicUsize::new(0));
    let front = Front { pool: pool.handle(), asked: asked.clone() };
    let actor = Actor::builder().executor(front).spawn(0).unwrap();
    flood(&actor, || assert_eq!(asked.load(Ordering::SeqCst), 1));
    assert!(asked.load(Ordering::SeqCst) >= MANY / BUDGET, "it may have an order of its own");
}

#[test]
fn a_batch_with_hooks_ends_with_the_budget() {
    let pool = pool();
    let batches = Arc::new(Mutex::new(Vec::new()));
    let ended = batches.clone();
    let actor = Actor::builder()
        .executor(pool.handle())
        .on_batch_end(move |_, turns| ended.lock().unwrap().push(turns))
        .spawn(0)
        .unwrap();
    flood(&actor, || ());
    let batches = batches.lock().unwrap();
    assert!(batches.iter().all(|turns| *turns <= BUDGET as u64), "{batches:?}");
}

#[test]
fn a_pool_that_closes_runs_what_is_left() {
    let pool = pool();
    let actor = Actor::builder().executor(pool.handle()).spawn(0).unwrap();
    let held = Held::hold(&actor);
    (0..MANY).for_each(|_| actor.send(|n| *n += 1).unwrap());
    let all = actor.call(|n| *n);
    held.let_go_soon();
    drop(pool);
    assert_eq!(all.wait().unwrap(), MANY);
}
