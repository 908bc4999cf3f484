//! Waits for ends: of a system of actors, of a queue, of a monitor.

use super::super::actor::{Promise, Reply, System, promise};
use super::super::error::BuildError;
use super::super::error::{Reason, StopCause};
use super::super::executor::manual::DrainQueue;
use super::super::pool::alarm::Alarm;
use super::super::time::Limit;
use super::clock::LIMIT;
use super::*;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::{Instant, reached};

/// An actor of a system, whose end is recorded, and the queue of its drains.
struct Member {
    spawned: Result<Actor<Log>, BuildError>,
    ends: Arc<Written>,
    queue: Arc<Queue>,
}

impl Member {
    fn of(system: &System, books: &Arc<Books>, queue: Arc<Queue>) -> Self {
        let ends = Written::new();
        let (theirs, unrun, executor) = (ends.clone(), books.clone(), queue.clone());
        let builder = Actor::builder().on_end(move |state, _| {
            theirs.write();
            drop(state);
        });
        let builder = builder.on_undelivered(move |message| {
            add(&unrun.unrun);
            drop(message);
        });
        let spawned =
            system.spawn(builder.executor(move |drain| executor.push(drain)), Log::new(books));
        Member { spawned, ends, queue }
    }
}

/// Sends a message, and runs drains until the actor has ended.
fn sends_and_runs(actor: Actor<Log>, books: &Arc<Books>, queue: &Queue) {
    send_all::<OWN>(&actor, books, 1, 1);
    drop(actor);
    while books.states.load(Relaxed) == 0 {
        queue.run_next();
    }
    queue.run_all();
}

/// A shutdown without a limit returns after every end, whatever is sent meanwhile; accepted
/// messages are run before.
pub(super) fn shutdown_against_a_send() {
    let (system, books) = (System::new(), Books::new());
    let left = Arc::new(Queue::default());
    let Member { spawned, ends, queue } = Member::of(&system, &books, left.clone());
    let (actor, theirs) = (spawned.expect("it is open"), books.clone());
    let thread = spawn(move || sends_and_runs(actor, &theirs, &queue));
    let report = system.shutdown(Limit::Unlimited).expect("no turn waits");
    assert_eq!(ends.read(), 1, "it came back before the end");
    assert!(report.is_complete());
    thread.join();
    left.run_all();
    if books.handled.load(Relaxed) == 1 {
        reached("handled");
    } else {
        reached("refused");
    }
    books.balance();
}

/// REMOVED: the last member ends by itself while a shutdown looks, joins the list and goes to
/// sleep.
pub(super) fn shutdown_against_an_end() {
    let (system, ends) = (System::new(), Written::new());
    let theirs = ends.clone();
    let spawned = system.spawn(Actor::builder().on_end(move |(), _| theirs.write()), ());
    let actor = spawned.expect("it is open");
    let thread = spawn(move || drop(actor));
    // It would sleep for ever.
    let report = system.shutdown(Limit::Unlimited).expect("no turn waits");
    assert_eq!(ends.read(), 1, "it came back before the end");
    assert!(report.is_complete());
    reached(if report.ended == 1 { "found" } else { "gone before" });
    thread.join();
}

/// The hook of a member waits for an effect of a later member's hook: that one ends on a thread of
/// the fallback.
pub(super) fn shutdown_hands_over() {
    let queue = Queue::of_the_fallback();
    let (system, ends) = (System::new(), Written::new());
    let (tell, told) = promise::<()>();
    let told = std::sync::Mutex::new(Some(told));
    let waits = Actor::builder().on_end(move |(), _| {
        let told = told.lock().expect("no panic").take().expect("it ends once");
        told.wait().expect("it is kept");
    });
    let (tell, theirs) = (std::sync::Mutex::new(Some(tell)), ends.clone());
    let tells = Actor::builder().on_end(move |(), _| {
        theirs.write();
        let tell = tell.lock().expect("no panic").take();
        tell.expect("it ends once").keep(());
    });
    let members = [system.spawn(waits, ()), system.spawn(tells, ())];
    // Without a drain, it would wait for ever.
    let thread = spawn(move || queue.run_next());
    let report = system.shutdown(Limit::Unlimited).expect("no turn waits");
    assert_eq!(ends.read(), 1, "it came back before the end");
    assert_eq!(report.ended, 2);
    thread.join();
    drop(members);
}

/// Waits for the hook of another system's actor as it is dropped.
struct WaitsFor(Option<Reply<()>>);

impl Drop for WaitsFor {
    fn drop(&mut self) {
        let told = self.0.take().expect("it is dropped once");
        told.wait().expect("it is kept");
    }
}

/// A system of an idle actor, whose hook keeps `tell`, and of one with a suspended turn, whose
/// future waits for `told` as it is cut, and a message behind that.
struct CutBeside {
    system: System,
    actors: (Actor<Log>, Actor<()>),
    turn: Reply<()>,
    /// The turn would be lost without it.
    _go: Promise<()>,
    books: Arc<Books>,
}

impl CutBeside {
    fn new(tell: Promise<()>, told: Reply<()>) -> Self {
        let (system, books) = (System::new(), Books::new());
        let unrun = books.clone();
        let builder = Actor::builder().on_undelivered(move |message| {
            add(&unrun.unrun);
            drop(message);
        });
        let cut = system.spawn(builder, Log::new(&books)).expect("it is open");
        let (mail, waits) = (Mail::<OWN>::new(&books, 0, 1), WaitsFor(Some(told)));
        let (go, gone) = promise::<()>();
        let turn = cut.run(async move |log: &mut Log| {
            let _waits = waits;
            let _ = gone.await;
            log.handle(mail);
        });
        send_all::<OWN>(&cut, &books, 1, 1);
        let tell = std::sync::Mutex::new(Some(tell));
        let builder = Actor::builder().on_end(move |(), _| {
            let tell = tell.lock().expect("no panic").take();
            tell.expect("it ends once").keep(());
        });
        let idle = system.spawn(builder, ()).expect("it is open");
        CutBeside { system, actors: (cut, idle), turn, _go: go, books }
    }

    /// The turn is cut on this thread. The idle actor ends elsewhere if the cut blocks this thread.
    fn shut_down(mut self, queue: &Queue) {
        let report = self.system.shutdown(Limit::Immediate).expect("no turn runs");
        assert_eq!(report.stopped, 1, "it came back before the end of what it has cut");
        reached(if report.is_complete() { "ended here" } else { "ended elsewhere" });
        queue.run_all();
        let answer = self.turn.wait_by_ref(Limit::Immediate);
        assert!(answer.is_err(), "a turn that was cut has an answer");
        add(&self.books.unrun);
        drop((self.actors, self.system, self.turn));
        self.books.balance();
    }
}

/// Two systems are shut down beside each other, with no time. What each of them cuts waits for an
/// actor that the other one has found idle: the thread that waits hands over what it was to end.
pub(super) fn shutdown_two_that_cut() {
    let queue = Queue::of_the_fallback();
    let [(tell, told), (their_tell, their_told)] = [promise::<()>(), promise::<()>()];
    let mine = CutBeside::new(tell, their_told);
    let theirs = CutBeside::new(their_tell, told);
    let [runs, also] = [queue.clone(), queue.clone()];
    let runner = spawn(move || runs.run_next());
    let thread = spawn(move || theirs.shut_down(&also));
    mine.shut_down(&queue);
    thread.join();
    runner.join();
}

/// An actor that is spawned while the system is shut down is refused, or ended with it.
pub(super) fn shutdown_against_a_spawn() {
    let (system, books) = (Arc::new(System::new()), Books::new());
    let (theirs, their_books) = (system.clone(), books.clone());
    let left = Arc::new(Queue::default());
    let taken = left.clone();
    let thread = spawn(move || {
        let Member { spawned, queue, .. } = Member::of(&theirs, &their_books, taken);
        match spawned {
            Ok(actor) => {
                reached("ended with it");
                // It would wait for ever for an actor that was missed.
                while !actor.is_closed() || their_books.states.load(Relaxed) == 0 {
                    queue.run_next();
                }
                drop(actor);
                queue.run_all();
            }
            Err(reason) => {
                reached("refused");
                assert_eq!(reason, BuildError::ShutDown);
            }
        }
    });
    let report = system.shutdown(Limit::Unlimited).expect("no turn waits");
    thread.join();
    left.run_all();
    assert!(report.is_complete());
    books.balance();
}

/// Two threads shut the same system down while its actor is inside a turn: both return.
pub(super) fn shutdown_by_two() {
    let (system, books) = (Arc::new(System::new()), Books::new());
    let left = Arc::new(Queue::default());
    let Member { spawned, ends, queue } = Member::of(&system, &books, left.clone());
    let actor = spawned.expect("it is open");
    let (theirs, seen) = (system.clone(), ends.clone());
    let second = spawn(move || {
        assert!(theirs.shutdown(Limit::Unlimited).expect("no turn waits").is_complete());
        assert_eq!(seen.read(), 1, "it came back before the end");
    });
    let their_books = books.clone();
    let sender = spawn(move || sends_and_runs(actor, &their_books, &queue));
    assert!(system.shutdown(Limit::Unlimited).expect("no turn waits").is_complete());
    assert_eq!(ends.read(), 1, "it came back before the end");
    second.join();
    sender.join();
    left.run_all();
    books.balance();
}

/// A queue is closed while its runner goes to sleep: earlier drains are run or given back, and the
/// runner leaves.
pub(super) fn queue_closed_as_it_sleeps() {
    let queue = Arc::new(DrainQueue::new());
    let handle = queue.handle();
    let shared = Shared::built(|builder| builder.executor(handle));
    let theirs = queue.clone();
    let thread = spawn(move || {
        theirs.run_until_closed();
    });
    shared.send::<OWN>(0, 1);
    queue.close();
    thread.join();
    if shared.books.handled.load(Relaxed) == 1 {
        reached("run");
    }
    drop(Arc::into_inner(queue).expect("main is the last"));
    shared.finish();
}

/// A drain comes while the runners of a queue go to sleep: one of them runs it.
pub(super) fn queue_wakes_its_runner() {
    let queue = Arc::new(DrainQueue::new());
    let handle = queue.handle();
    let shared = Shared::built(|builder| builder.executor(handle));
    let theirs = queue.clone();
    let thread = spawn(move || {
        theirs.run_until_closed();
    });
    let answer = shared.actor.call(|log| {
        log.last[3] += 1;
        log.last[3]
    });
    assert_eq!(answer.wait(), Ok(1));
    queue.close();
    thread.join();
    drop(Arc::into_inner(queue).expect("main is the last"));
    shared.finish();
}

/// MAILBOX-7: a sender that is refused by an actor that the drop of its system stops gets that
/// cause, and not that it is closed.
pub(super) fn shutdown_tells_why() {
    let (system, books) = (System::new(), Books::new());
    let left = Arc::new(Queue::default());
    let Member { spawned, ends, .. } = Member::of(&system, &books, left.clone());
    let actor = spawned.expect("it is open");
    let theirs = books.clone();
    let thread = spawn(move || {
        if let Err(refused) = actor.send(Mail::<OWN>::new(&theirs, 1, 1).message()) {
            assert_eq!(*refused.reason(), Reason::Stopped(StopCause::Requested));
            reached("refused");
            add(&theirs.returned);
        }
    });
    drop(system);
    thread.join();
    left.run_all();
    assert_eq!(ends.read(), 1, "it has not ended");
    books.balance();
}

/// Two threads run a queue, one of them for a limited time: a drain that wakes this one when its
/// time is over is run by the other.
pub(super) fn queue_time_over() {
    let queue = Arc::new(DrainQueue::new());
    let handle = queue.handle();
    let shared = Shared::built(|builder| builder.executor(handle));
    let theirs = queue.clone();
    let limited = spawn(move || {
        if theirs.run_for(LIMIT) == 0 {
            reached("late");
        }
    });
    let theirs = queue.clone();
    let other = spawn(move || {
        theirs.run_until_closed();
    });
    // Both may sleep by now.
    assert!(queue.is_empty());
    Instant::tick(LIMIT);
    assert_eq!(shared.actor.call(|log| log.last[0]).wait(), Ok(0));
    queue.close();
    limited.join();
    other.join();
    drop(Arc::into_inner(queue).expect("main is the last"));
    shared.finish();
}

/// The end of a pool wakes its monitor, whenever that goes to sleep.
pub(super) fn alarm_ends() {
    let shared = Arc::new((Alarm::default(), crate::sync::atomic::AtomicU32::new(0)));
    let theirs = shared.clone();
    let monitor = spawn(move || {
        let (alarm, ended) = &*theirs;
        alarm.sleep_unless(|| ended.load(Relaxed) != 0);
    });
    let (alarm, ended) = &*shared;
    ended.fetch_add(1, Relaxed);
    crate::sync::atomic::fence(SeqCst);
    alarm.end();
    // It would sleep for ever.
    monitor.join();
}

/// RING: a worker that resumes while the monitor goes to sleep wakes it, or is seen by it.
pub(super) fn alarm_rings() {
    struct Pool {
        alarm: Alarm,
        busy: crate::sync::atomic::AtomicU32,
    }
    // SAFETY: loom's threads are coroutines of one thread, and what is shared is checked by it.
    unsafe impl Sync for Pool {}
    // SAFETY: as above.
    unsafe impl Send for Pool {}
    let busy = crate::sync::atomic::AtomicU32::new(0);
    let pool = Arc::new(Pool { alarm: Alarm::default(), busy });
    let theirs = pool.clone();
    let monitor = spawn(move || {
        theirs.alarm.sleep_unless(|| {
            let awake = theirs.busy.load(Relaxed) != 0;
            reached(if awake { "saw it" } else { "slept" });
            awake
        });
    });
    pool.busy.fetch_add(1, Relaxed);
    pool.alarm.ring();
    // It would sleep for ever.
    monitor.join();
}
