//! KEYS-1 to KEYS-3 of the registry of keys: uses, their ends and look-ups; a key's state, its end
//! and its next use. The shipped registry and its runs; it has one shard, whose lock is loom's.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::super::actor::promise;
use super::super::keyed::{Cut, Keyed, NotStarted, RunError};
use super::super::limits::Limits;
use super::super::time::Timers;
use super::clock::{LIMIT, Steps};
use super::*;
use crate::sync::reached;

/// Written by all states of the one key, and all closures: two at a time are a race, and so is one
/// that does not see the writes of the one before, in whichever mailbox that was.
#[derive(Clone)]
struct Key {
    inside: Arc<Written>,
    live: Arc<AtomicU32>,
    made: Arc<AtomicU32>,
    ran: Arc<AtomicU32>,
}

/// A state of the key.
struct State {
    key: Key,
    _track: Track<()>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.key.inside.write();
        self.key.live.fetch_sub(1, Relaxed);
    }
}

impl State {
    /// The step of a closure.
    fn enter(&mut self) {
        self.key.inside.write();
        add(&self.key.ran);
    }
}

type Registry = Keyed<u32, State>;

fn registry() -> (Registry, Key) {
    let key = Key::new();
    let made = key.clone();
    (Keyed::with_state(move |_| made.state()), key)
}

fn count() -> Arc<AtomicU32> {
    Arc::default()
}

impl Key {
    fn new() -> Self {
        Key { inside: Written::new(), live: count(), made: count(), ran: count() }
    }

    fn state(&self) -> State {
        self.inside.write();
        assert_eq!(self.live.fetch_add(1, Relaxed), 0, "two states of a key");
        add(&self.made);
        State { key: self.clone(), _track: Track::new(()) }
    }

    fn ran(&self) -> u32 {
        self.ran.load(Relaxed)
    }

    fn made(&self) -> u32 {
        self.made.load(Relaxed)
    }

    /// Checks the end, after all threads have joined.
    fn finish(self, keyed: Registry, ran: u32) {
        assert_eq!(self.ran(), ran);
        assert_eq!(keyed.len(), 0, "a key is left");
        assert_eq!(self.live.load(Relaxed), 0, "a state is left");
        drop(keyed);
    }
}

/// KEYS-1 and KEYS-3: two runs, and a third that is cancelled, all of one key.
pub(super) fn keyed_runners_and_a_canceller() {
    let (keyed, key) = registry();
    let theirs = keyed.clone();
    let runs = spawn(move || theirs.run(1, State::enter).expect("it runs"));
    let theirs = keyed.clone();
    let cancels = spawn(move || match theirs.start(1, Limits::NONE, State::enter).cancel() {
        Ok(()) => reached("cancelled"),
        Err(run) => {
            reached("ran");
            run.wait().expect("it runs");
        }
    });
    keyed.run(1, State::enter).expect("it runs");
    runs.join();
    cancels.join();
    let ran = key.ran();
    assert!(ran == 2 || ran == 3);
    key.finish(keyed, ran);
}

/// KEYS-3: the end of the last use of a key drops its state in a turn, against a run of it. The
/// run finds that state, or creates one after it.
pub(super) fn keyed_state_against_a_use() {
    let (keyed, key) = registry();
    let used = keyed.key(1).expect("not closed");
    used.run(State::enter).expect("it runs");
    let theirs = keyed.clone();
    let runs = spawn(move || theirs.run(1, State::enter).expect("it runs"));
    drop(used);
    runs.join();
    reached(if key.made() == 1 { "kept" } else { "made anew" });
    key.finish(keyed, 2);
}

/// KEYS-2: a run now or not at all publishes its mailbox for the key, against one that uses the
/// key.
pub(super) fn keyed_published_against_a_use() {
    let (keyed, key) = registry();
    let theirs = keyed.clone();
    let runs = spawn(move || theirs.run(1, State::enter).expect("it runs"));
    let tried = keyed.try_run(1, State::enter);
    reached(if tried.is_ok() { "ran" } else { "busy" });
    runs.join();
    key.finish(keyed, 1 + u32::from(tried.is_ok()));
}

/// A registry is shut down against a run: the run has completed, or never begins.
pub(super) fn keyed_shutdown_against_a_run() {
    let (keyed, key) = registry();
    let theirs = keyed.clone();
    let runs = spawn(move || match theirs.run(1, State::enter) {
        Ok(()) => reached("ran"),
        Err(NotStarted::Closed) => reached("closed"),
        Err(error) => panic!("{error}"),
    });
    keyed.shutdown(Duration::MAX);
    assert!(keyed.run(1, State::enter).is_err());
    runs.join();
    let ran = key.ran();
    key.finish(keyed, ran);
}

/// A key whose hash equals that of all others.
#[derive(PartialEq, Eq)]
struct Same(u32);

impl Hash for Same {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// KEYS-1: two keys of one hash, in two threads: the end of each use finds its entry.
pub(super) fn keyed_same_hash() {
    let keyed = Keyed::with_state(|_: &Same| Track::new(()));
    let runs = |own: u32| {
        let keyed = keyed.clone();
        move || {
            keyed.run(Same(own), |_| ()).expect("it runs");
            keyed.run(Same(own), |_| ()).expect("it runs");
        }
    };
    let thread = spawn(runs(1));
    runs(2)();
    thread.join();
    assert_eq!(keyed.len(), 0);
}

/// KEEP-1 and KEYS-3: the time for which a key is kept is over, and it ends against a run. The run
/// finds its state, or creates one after it, which is kept until the registry is dropped.
pub(super) fn keyed_kept_against_a_run() {
    let (clock, key) = (Arc::new(Steps::default()), Key::new());
    let (timers, made) = (Timers::by_hand(clock.clone()), key.clone());
    let builder = Keyed::builder().state(move |_: &u32| made.state());
    let keyed = builder.timers(timers.clone()).keep_alive(LIMIT).build();
    keyed.run(1, State::enter).expect("it runs");
    assert_eq!((keyed.len(), timers.len()), (1, 1));
    clock.tick();
    let theirs = timers.clone();
    let ends = spawn(move || _ = theirs.run_due());
    keyed.run(1, State::enter).expect("it runs");
    ends.join();
    reached(if key.made() == 1 { "kept" } else { "made anew" });
    assert_eq!((keyed.len(), timers.len()), (1, 1), "it ends again");
    drop(keyed);
    assert_eq!(timers.len(), 0);
    assert_eq!((key.ran(), key.live.load(Relaxed)), (2, 0));
}

/// A value that a waiting run holds: its end is the key's, too.
struct Leaves(Key);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.inside.write();
    }
}

/// A registry on a clock, and the time limit of a run.
fn leased() -> (Registry, Key, Arc<Steps>, Timers, Limits) {
    let (clock, key) = (Arc::new(Steps::default()), Key::new());
    let (timers, made) = (Timers::by_hand(clock.clone()), key.clone());
    let builder = Keyed::builder().state(move |_: &u32| made.state());
    let keyed = builder.timers(timers.clone()).build();
    (keyed, key, clock, timers, Limits::NONE.lease(LIMIT))
}

/// AWAITED-1 and AWAITED-2: the lease of a run that waits is over when the awaited event comes. The
/// run is done or cut, and the next run of the key comes after its destructors: to the state, or to
/// a fresh one.
pub(super) fn keyed_cut_against_its_end() {
    let (keyed, key, clock, timers, lease) = leased();
    let (go, gone) = promise::<()>();
    let leaves = Leaves(key.clone());
    let run = keyed.run_async(1, lease, async move |state: &mut State| {
        let _leaves = leaves;
        gone.await.expect("it is kept");
        state.enter();
    });
    let next = keyed.start(1, Limits::NONE, State::enter);
    assert!(!run.is_over() && !next.is_over());
    let theirs = timers.clone();
    let expires = spawn(move || {
        clock.tick();
        theirs.run_due();
    });
    go.keep(());
    expires.join();
    let cut = match run.wait() {
        Ok(()) | Err(RunError::Overran { .. }) => false,
        Err(RunError::Cut(Cut::Lease)) => true,
        Err(error) => panic!("{error}"),
    };
    next.wait().expect("it runs");
    reached(if cut { "cut" } else { "done" });
    assert_eq!(key.made(), 1 + u32::from(cut));
    assert_eq!(timers.len(), 0);
    key.finish(keyed, 2 - u32::from(cut));
}

/// AWAITED-1: a run that waits for ever is cut by its lease or by an abort, against one that comes.
/// No run waits for ever.
pub(super) fn keyed_cut_by_lease_or_abort() {
    let (keyed, key, clock, timers, lease) = leased();
    let leaves = Leaves(key.clone());
    let run = keyed.run_async(1, lease, async move |state: &mut State| {
        let _leaves = leaves;
        state.enter();
        std::future::pending::<()>().await;
    });
    let next = keyed.start(1, Limits::NONE, State::enter);
    let aborted = Arc::new(std::sync::Mutex::new(None));
    let theirs = aborted.clone();
    let aborts = spawn(move || {
        let begun = run.abort().expect_err("it has begun");
        *theirs.lock().expect("one thread at a time") = Some(begun);
    });
    clock.tick();
    timers.run_due();
    aborts.join();
    let begun = aborted.lock().expect("one thread at a time").take();
    match begun.expect("it was put there").wait() {
        Err(RunError::Cut(Cut::Lease)) => reached("lease"),
        Err(RunError::Cut(Cut::Aborted)) => reached("abort"),
        outcome => panic!("{outcome:?}"),
    }
    next.wait().expect("it runs");
    assert_eq!((key.made(), timers.len()), (2, 0));
    key.finish(keyed, 2);
}

/// AWAITED-2: only the lease ends it, against one that comes.
pub(super) fn keyed_cut_alone() {
    let (keyed, key, clock, timers, lease) = leased();
    let leaves = Leaves(key.clone());
    let run = keyed.run_async(1, lease, async move |state: &mut State| {
        let _leaves = leaves;
        state.enter();
        std::future::pending::<()>().await;
    });
    let theirs = keyed.clone();
    let runs = spawn(move || theirs.run(1, State::enter).expect("it runs"));
    clock.tick();
    timers.run_due();
    runs.join();
    assert_eq!(run.wait(), Err(RunError::Cut(Cut::Lease)));
    key.finish(keyed, 2);
}
