//! The rows of `docs/guarantees.md`: one test for each, by its name.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::child::in_child;
use crate::common::{Held, Tally, block_on, must_end, poll_once, until};
use turnwise::executor::{DrainQueue, Shutdown};
use turnwise::snapshot::Activity;
use turnwise::time::{Timer, Timers};
use turnwise::{
    Actor, ActorBuilder, ActorName, AskError, Context, EndCause, Executor, Handler, Limit,
    Overflow, PanicPolicy, Promise, Reason, Recipient, Reply, Restarts, StopCause, System,
    ThreadPool, TurnPanic, VirtualClock, WaitError, blocking, promise, promise_on,
};

const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// The threads that ran turns.
#[derive(Default)]
struct Seen(Vec<ThreadId>);

impl Seen {
    fn here(&mut self) {
        self.0.push(thread::current().id());
    }
}

struct Note;

impl Handler<Note> for Seen {
    type Reply = ThreadId;

    fn handle(&mut self, _: Note, _: &mut Context<'_, Self>) -> ThreadId {
        self.here();
        thread::current().id()
    }
}

/// A message that is answered later.
struct Order;

impl Handler<Order> for Seen {
    type Reply = (Promise<()>, Reply<()>);

    fn handle(&mut self, _: Order, cx: &mut Context<'_, Self>) -> Self::Reply {
        cx.promise()
    }
}

fn plain() -> Actor<Seen> {
    Actor::new(Seen::default())
}

fn on(queue: &DrainQueue) -> Actor<Seen> {
    Actor::builder().executor(queue.handle()).spawn(Seen::default()).unwrap()
}

/// An actor with room for one message.
fn narrow() -> ActorBuilder<Seen> {
    Actor::builder().capacity(1, Overflow::Reject)
}

/// A full actor on a queue that is not run.
fn full(queue: &DrainQueue) -> Actor<Seen> {
    let actor = narrow().executor(queue.handle()).spawn(Seen::default()).unwrap();
    actor.send(Seen::here).unwrap();
    actor
}

fn seen(actor: &Actor<Seen>) -> Vec<ThreadId> {
    actor.with(|seen| seen.0.clone()).unwrap()
}

fn here() -> ThreadId {
    thread::current().id()
}

/// The threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

// ---------------------------------------------------------------------------------------------
// The table itself

/// The names in the last column of the table.
fn tests_of_rows() -> Vec<&'static str> {
    let rows =
        include_str!("../../docs/guarantees.md").lines().filter(|line| line.starts_with("| "));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit("| ").next());
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// Each row names its tests, each test here is named by one row, and all of them exist.
#[test]
fn rows_and_tests_are_one_to_one() {
    let exist: Vec<_> = [include_str!("guarantees.rs"), include_str!("readme.rs")]
        .map(|file| {
            let mut tests = Vec::new();
            let mut lines = file.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line == "#[test]" {
                    let name = lines.find_map(|line| line.strip_prefix("fn ")).unwrap();
                    tests.push(name.split('(').next().unwrap());
                }
            }
            tests
        })
        .into();
    let named = tests_of_rows();
    assert!(named.len() > 30, "the table was not read: {named:?}");
    for name in &named {
        assert!(exist.iter().flatten().any(|test| test == name), "no such test: {name}");
    }
    for test in &exist[0] {
        let rows = named.iter().filter(|name| *name == test).count();
        assert!(rows == 1 || *test == "rows_and_tests_are_one_to_one", "{rows} rows name {test}");
    }
}

// ---------------------------------------------------------------------------------------------
// Sending and asking

#[test]
fn send_runs_here_if_idle() {
    let actor = plain();
    actor.send(Seen::here).unwrap();
    actor.tell(Note).unwrap();
    Recipient::new(&actor).tell(Note).unwrap();
    assert!(actor.is_idle());
    assert_eq!(seen(&actor), [here(); 3]);
}

#[test]
fn send_inside_a_turn_runs_after_it() {
    let (first, second) = (plain(), plain());
    let inner = second.clone();
    let waiting = first.with(|_| {
        inner.send(Seen::here).unwrap();
        inner.tell(Note).unwrap();
        inner.len()
    });
    assert_eq!(waiting, Ok(2), "neither has run inside the turn");
    assert_eq!(seen(&second), [here(); 2], "this thread ran them after it");
}

#[test]
fn send_to_a_busy_actor_returns() {
    must_end(|| {
        let (actor, queue) = (plain(), DrainQueue::new());
        let held = Held::hold(&actor);
        actor.send(Seen::here).unwrap();
        actor.tell(Note).unwrap();
        assert_eq!(actor.len(), 3, "they are left behind the turn that runs");
        held.let_go();
        until(|| actor.is_idle());
        assert!(!seen(&actor).contains(&here()), "the drain runs them");
        // With an executor, a sender runs nothing, however idle the actor is.
        let actor = on(&queue);
        actor.send(Seen::here).unwrap();
        actor.tell(Note).unwrap();
        assert_eq!((actor.len(), queue.len()), (2, 1), "one drain for all of them");
        queue.run_until_idle();
        assert!(actor.is_idle());
    });
}

#[test]
fn send_many_is_one_step() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().capacity(3, Overflow::Reject);
    let actor = builder.executor(queue.handle()).spawn(Seen::default()).unwrap();
    let refused = actor.send_many((0..4).map(|_| Seen::here)).unwrap_err();
    assert_eq!(refused.reason(), &Reason::Full);
    assert_eq!((refused.into_message().len(), actor.len()), (4, 0), "all or none");
    actor.send_many((0..3).map(|_| Seen::here)).unwrap();
    assert_eq!((actor.len(), queue.len()), (3, 1));
    let actor = plain();
    actor.send_many((0..3).map(|_| Seen::here)).unwrap();
    assert_eq!(seen(&actor), [here(); 3]);
}

#[test]
fn call_runs_as_send_does() {
    must_end(|| {
        let (actor, queue) = (plain(), DrainQueue::new());
        assert!(actor.call(|_| here()).is_ready() && actor.ask(Note).is_ready());
        let held = Held::hold(&actor);
        let (called, asked) = (actor.call(|_| here()), actor.ask(Note));
        assert!(!called.is_ready() && !asked.is_ready(), "they return beside a turn that runs");
        held.let_go();
        assert_eq!(called.wait().unwrap(), asked.wait().unwrap());
        let left = on(&queue).call(|_| here());
        assert!(!left.is_ready(), "with an executor, they are left");
        queue.run_until_idle();
        assert_eq!(left.wait(), Ok(here()));
    });
}

#[test]
fn run_begins_as_call_does() {
    must_end(|| {
        let (actor, queue) = (plain(), DrainQueue::new());
        assert_eq!(actor.run(async |_| here()).wait(), Ok(here()));
        let (promise, kept) = promise::<()>();
        let waits = actor.run(async move |seen| {
            seen.here();
            let _ = kept.await;
            here()
        });
        let behind = actor.call(|seen| seen.0.clone());
        assert!(!waits.is_ready() && !behind.is_ready(), "they return beside a turn that waits");
        promise.keep(());
        assert!(waits.wait().is_ok(), "it goes on in the fallback, or by this thread, which waits");
        assert_eq!(behind.wait(), Ok(vec![here()]), "it has begun here");
        let left = on(&queue).run(async |_| here());
        assert!(!left.is_ready(), "with an executor, it is left");
        queue.run_until_idle();
        assert_eq!(left.wait(), Ok(here()));
    });
}

#[test]
fn wakes_and_aborts_poll_nothing() {
    must_end(|| {
        let queue = DrainQueue::new();
        let actor = on(&queue);
        let (go, gone) = promise::<()>();
        let woken = actor.run(async move |_| gone.await.is_ok());
        let (_never, kept) = promise::<()>();
        let (aborted, handle) = actor.run_abortable(async move |_| drop(kept.await));
        queue.run_until_idle();
        go.keep(());
        assert!(!woken.is_ready(), "a wake leaves it to the executor");
        queue.run_until_idle();
        assert_eq!(woken.wait(), Ok(true));
        handle.abort();
        assert!(!aborted.is_ready(), "so does an abort");
        queue.run_until_idle();
        assert_eq!(aborted.wait(), Err(AskError::Aborted(ActorName::ANY)));
    });
}

#[test]
fn executor_that_ends_cuts_suspended_turns() {
    must_end(|| {
        let suspended = |executor: Arc<dyn Executor>| {
            let actor = Actor::builder().executor(executor).spawn(()).unwrap();
            let (_never, kept) = promise::<()>();
            let turn = actor.run(async move |_| drop(kept.await));
            (actor, _never, turn)
        };
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let queue = DrainQueue::new();
        let (on_pool, _keep, its_turn) = suspended(Arc::new(pool.handle()));
        let (on_queue, _keep_too, turn) = suspended(Arc::new(queue.handle()));
        queue.run_until_idle();
        until(|| format!("{on_pool:?}").contains("a turn waits"));
        let behind = [&on_pool, &on_queue].map(|actor| actor.call(|()| ()));
        assert_eq!(pool.shutdown(Limit::Unlimited), Shutdown::Cut { dropped: 1, threads: 0 });
        queue.close();
        for turn in [its_turn, turn] {
            assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
        }
        for behind in behind {
            assert_eq!(behind.wait(), Err(Reason::Stopped(StopCause::ExecutorGone).into()));
        }
    });
}

#[test]
fn with_runs_here_or_sleeps() {
    must_end(|| {
        let actor = plain();
        assert_eq!(actor.with(|_| here()), Ok(here()));
        let held = Held::hold(&actor);
        let waits = thread::spawn({
            let actor = actor.clone();
            move || (actor.with(|_| here()).unwrap(), here())
        });
        until(|| actor.len() == 2);
        held.let_go();
        waits.join().unwrap();
        let itself = actor.clone();
        let inner = actor.with(move |_| itself.with(|_| ())).unwrap();
        let own = matches!(inner, Err(AskError::Refused(Reason::Deadlock(_), _)));
        assert!(own, "at once, inside its own turn");
        // With an executor, it runs there and the caller sleeps.
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let actor = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        assert_ne!(actor.with(|()| here()), Ok(here()));
    });
}

#[test]
fn try_with_runs_here_or_not_at_all() {
    must_end(|| {
        let why = |actor: &Actor<Seen>| actor.try_with(Seen::here).map_err(|f| f.into_reason());
        let actor = plain();
        assert_eq!(why(&actor), Ok(()));
        let held = Held::hold(&actor);
        assert_eq!(why(&actor), Err(Reason::Busy));
        held.let_go();
        let itself = actor.clone();
        let inside = actor.try_with(move |_| {
            itself.send(Seen::here).unwrap();
            why(&itself)
        });
        assert!(matches!(inside.unwrap(), Err(Reason::Deadlock(_))));
        assert!(actor.is_idle());
        assert_eq!(seen(&actor), [here(); 2], "what has come meanwhile, too");
        let queue = DrainQueue::new();
        let alone = on(&queue);
        assert_eq!(why(&alone), Err(Reason::HasExecutor));
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn posted_never_runs_in_the_call() {
    must_end(|| {
        let actor = plain();
        let lock = Arc::new(Mutex::new(()));
        let locked = lock.lock().unwrap();
        for _ in 0..2 {
            let lock = lock.clone();
            // It would wait for this thread's lock for ever.
            let turn = move |seen: &mut Seen| {
                drop(lock.lock());
                seen.here();
            };
            actor.posted().send(turn).unwrap();
            actor.posted().tell(Note).unwrap();
        }
        let (called, asked) = (actor.posted().call(|_| here()), actor.posted().ask(Note));
        assert!(!called.is_ready() && !asked.is_ready());
        // Nor does it run in the drop of a handle.
        let last = plain();
        let wants = lock.clone();
        last.posted().send(move |_| drop(wants.lock())).unwrap();
        drop(last);
        drop(locked);
        actor.idle().wait().unwrap();
        assert_eq!(seen(&actor).len(), 5);
        let queue = DrainQueue::new();
        let actor = on(&queue);
        actor.posted().send(Seen::here).unwrap();
        assert_eq!((queue.len(), actor.len()), (1, 1), "the executor has it");
    });
}

#[test]
fn waiting_call_never_waits() {
    must_end(|| {
        let queue = DrainQueue::new();
        let actor = full(&queue);
        let mut sent = actor.waiting().send(Seen::here);
        let mut told = actor.waiting().tell(Note);
        let (called, asked) = (actor.waiting().call(|_| ()), actor.waiting().ask(Note));
        assert_eq!(actor.len(), 1, "they wait for room, outside of the mailbox");
        // Dropping the reply withdraws the message.
        drop((called, asked));
        while poll_once(&mut sent).is_pending() || poll_once(&mut told).is_pending() {
            assert!(queue.run_one() && actor.len() <= 1);
        }
        queue.run_until_idle();
        assert_eq!(actor.len(), 0);
        // If there is room, it is a send like any other.
        let actor = narrow().spawn(Seen::default()).unwrap();
        let mut sent = actor.waiting().send(Seen::here);
        assert!(actor.is_idle() && poll_once(&mut sent).is_ready());
        assert_eq!(seen(&actor), [here()]);
    });
}

#[test]
fn waiting_blocks_until_there_is_room() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        let actor = full(&queue);
        let refused = actor.waiting().send(Seen::here).within(Duration::from_millis(1));
        assert_eq!(refused.unwrap_err().reason(), &Reason::Full);
        let refused = actor.waiting().tell(Note).within(Limit::Immediate);
        assert_eq!(refused.unwrap_err().reason(), &Reason::Full, "a limit of zero is one look");
        let late = actor.waiting().ask(Note).within(Limit::Immediate);
        let Err(WaitError::Cancelled(late)) = late else { panic!("{late:?}") };
        let Note = late.into_message();
        let asks = thread::spawn({
            let actor = actor.clone();
            move || {
                actor.waiting().send(Seen::here).wait().unwrap();
                (actor.waiting().call(|_| here()).wait().unwrap(), here())
            }
        });
        let runner = thread::spawn({
            let queue = queue.clone();
            move || (queue.run_until_closed(), here()).1
        });
        let (ran_on, asker) = asks.join().unwrap();
        queue.close();
        assert_eq!(ran_on, runner.join().unwrap());
        assert_ne!(ran_on, asker, "one that waits runs nothing of an actor with an executor");
    });
}

#[test]
fn waiting_as_a_future_runs_no_turn() {
    let queue = DrainQueue::new();
    let actor = full(&queue);
    let (mut sent, mut asked) = (actor.waiting().send(Seen::here), actor.waiting().ask(Note));
    assert!(poll_once(&mut sent).is_pending() && poll_once(&mut asked).is_pending());
    assert_eq!(actor.len(), 1, "nothing was run to make room");
    // Nor does a poll run a message whose place is free by then.
    assert!(queue.run_one());
    assert!(poll_once(&mut sent).is_ready());
    queue.run_until_idle();
    assert_eq!(block_on(asked), Ok(here()));
}

#[test]
fn limits_of_futures_run_no_turn() {
    let (queue, timers) = (DrainQueue::new(), Timers::by_hand(VirtualClock::new()));
    let actor =
        narrow().executor(queue.handle()).timers(timers.clone()).spawn(Seen::default()).unwrap();
    actor.send(Seen::here).unwrap();
    let mut sent = actor.waiting().send(Seen::here).within_async(HOUR);
    let mut asked = actor.waiting().ask(Note).within_async(HOUR);
    let (mut ended, system) = (actor.ended().within_async(HOUR), System::new());
    let n = system.spawn(Actor::builder().executor(queue.handle()), ()).unwrap();
    n.send(|()| ()).unwrap();
    let mut closing = system.shutdown_async().within_async(HOUR);
    assert!(poll_once(&mut sent).is_pending() && poll_once(&mut asked).is_pending());
    assert!(poll_once(&mut ended).is_pending() && poll_once(&mut closing).is_pending());
    assert_eq!((actor.len(), n.len(), timers.len()), (1, 1, 3), "nothing was run");
    drop((sent, asked, ended, closing));
    assert_eq!(timers.len(), 0);
    let promised = actor.promise::<()>().1.within_async(Limit::Immediate);
    assert!(matches!(block_on(promised), Err(WaitError::Cancelled(_) | WaitError::Ask(_))));
}

// ---------------------------------------------------------------------------------------------
// Answers

#[test]
fn wait_runs_plain_actors_only() {
    must_end(|| {
        let (turns, other) = (plain(), plain());
        // Inside a turn, the other actor is pending: this thread has deferred it.
        let ran_on = turns.with(|_| other.call(|_| here()).wait().unwrap()).unwrap();
        assert_eq!(ran_on, here(), "pending, and without an executor: run by the one that waits");
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let other = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        for ran_on in [
            other.call(|()| here()).wait().unwrap(),
            other.call(|()| here()).within(PATIENCE).unwrap(),
            other.call(|()| here()).wait_timeout(PATIENCE).unwrap(),
            turns.with(|_| other.call(|()| here()).wait().unwrap()).unwrap(),
        ] {
            assert_ne!(ran_on, here(), "run by its executor alone");
        }
    });
}

#[test]
fn zero_limit_of_a_reply_is_one_look() {
    must_end(|| {
        let queue = DrainQueue::new();
        let actor = on(&queue);
        let looked = actor.call(|_| here()).within(Limit::Immediate);
        assert!(matches!(looked, Err(WaitError::Cancelled(_))));
        let looked = actor.call(|_| here()).wait_timeout(Duration::ZERO);
        let Err(WaitError::TimedOut(reply)) = looked else { panic!("{looked:?}") };
        assert_eq!(actor.len(), 2, "nothing was run");
        let plain = plain();
        let looked = plain.with(|_| plain_look(&actor)).unwrap();
        assert!(looked, "nor inside a turn");
        queue.run_until_idle();
        assert_eq!(reply.wait(), Ok(here()));
        // An answer that has come is found.
        assert_eq!(plain.call(|_| 1).within(Limit::Immediate).unwrap(), 1);
    });
}

/// Makes one look at a request to an actor that is not run.
fn plain_look(actor: &Actor<Seen>) -> bool {
    actor.call(|_| ()).wait_timeout(Limit::Immediate).is_err()
}

#[test]
fn poll_of_a_reply_schedules_only() {
    must_end(|| {
        let (turns, other) = (plain(), plain());
        let (mut reply, polled) = turns
            .with(|_| {
                let mut reply = other.call(|_| here());
                let polled = poll_once(&mut reply);
                (reply, polled)
            })
            .unwrap();
        // The poll has handed it to the fallback, which may be quick: this thread no longer runs
        // it.
        let ran_on = match polled {
            Poll::Ready(answer) => answer.unwrap(),
            Poll::Pending => block_on(&mut reply).unwrap(),
        };
        assert_ne!(ran_on, here());
        assert!(matches!(block_on(&mut reply), Err(AskError::Taken)), "polled again: an error");
        let queue = DrainQueue::new();
        let mut reply = on(&queue).call(|_| ());
        assert!(poll_once(&mut reply).is_pending() && queue.len() == 1);
    });
}

#[test]
fn cancel_never_waits() {
    must_end(|| {
        let actor = plain();
        let held = Held::hold(&actor);
        let (first, second) = (actor.call(|_| ()), actor.ask(Note));
        assert!(!first.is_ready());
        assert!(first.cancel().is_ok() && matches!(second.cancel(), Ok(Note)), "with its message");
        held.let_go();
        until(|| actor.is_idle());
        assert_eq!(seen(&actor), [], "a question that was cancelled never runs");
        let done = actor.call(|_| 1).cancel().unwrap_err();
        assert!(done.is_ready() && done.wait() == Ok(1));
    });
}

#[test]
fn promise_is_kept_without_waiting() {
    must_end(|| {
        let (promise_, reply) = promise();
        promise_.keep(1);
        assert_eq!(reply.wait(), Ok(1));
        let (promise_, mut reply) = promise::<()>();
        assert!(poll_once(&mut reply).is_pending() && !promise_.is_cancelled());
        drop(promise_);
        assert_eq!(block_on(reply), Err(AskError::Abandoned(ActorName::ANY)));
        let (promise_, reply) = promise();
        assert!(reply.cancel().is_ok());
        assert_eq!(promise_.try_keep(2), Err(2));
    });
}

#[test]
fn promise_is_measured_on_its_clock() {
    must_end(|| {
        let clock = VirtualClock::new();
        let actor = Actor::builder().clock(clock.clone()).spawn(Seen::default()).unwrap();
        let replies = [
            promise_on::<()>(Arc::new(clock.clone())),
            actor.promise(),
            actor.ask(Order).wait().unwrap(),
        ];
        for (promise_, reply) in replies {
            let waits = thread::spawn(move || reply.within(HOUR));
            clock.wait_for_sleepers(1);
            clock.advance(HOUR);
            assert!(matches!(waits.join().unwrap(), Err(WaitError::Cancelled(_))));
            assert!(promise_.is_cancelled());
        }
        // An actor without a clock has the machine's, and so has `promise`.
        let waits = |reply: Reply<()>| reply.within(Duration::from_millis(1));
        assert!(waits(plain().promise().1).is_err());
        assert!(waits(plain().ask(Order).wait().unwrap().1).is_err());
    });
}

#[test]
fn waits_in_a_turn_hand_over_what_it_sent() {
    must_end(|| {
        let (turns, other, (tell, told)) = (plain(), plain(), mpsc::channel());
        let ran_on = turns.with(move |_| {
            other.send(move |_| tell.send(here()).unwrap()).unwrap();
            blocking(|| told.recv().unwrap())
        });
        assert_ne!(ran_on, Ok(here()), "by the fallback, while the turn waits");
    });
}

// ---------------------------------------------------------------------------------------------
// Ends, handles, looks

/// An actor whose end hook reports its thread, and the cause.
fn ending(builder: ActorBuilder<()>) -> (Actor<()>, mpsc::Receiver<(ThreadId, EndCause)>) {
    let (tell, told) = mpsc::channel();
    let builder = builder.on_end(move |(), cause| tell.send((here(), cause)).unwrap());
    (builder.spawn(()).unwrap(), told)
}

/// The ways to end an actor.
const ENDS: [fn(Actor<()>); 3] = [|actor| _ = actor.close(), |actor| _ = actor.stop(), drop];

#[test]
fn ends_of_an_idle_actor_run_here() {
    let (actor, told) = ending(Actor::builder());
    assert!(actor.close());
    assert_eq!(told.try_recv(), Ok((here(), EndCause::Closed)));
    let (actor, told) = ending(Actor::builder());
    assert!(actor.stop());
    assert_eq!(told.try_recv(), Ok((here(), EndCause::Stopped(StopCause::Requested))));
    let (actor, told) = ending(Actor::builder());
    drop(actor);
    assert_eq!(told.try_recv(), Ok((here(), EndCause::Dropped)));
}

#[test]
fn ends_of_a_busy_actor_never_wait() {
    must_end(|| {
        for end in ENDS {
            let (actor, told) = ending(Actor::builder());
            let held = Held::hold(&actor);
            end(actor);
            assert!(told.try_recv().is_err(), "it is still inside its turn");
            held.let_go();
            assert_ne!(told.recv().unwrap().0, here());
        }
    });
}

#[test]
fn ends_with_an_executor_run_there() {
    for end in ENDS {
        let queue = DrainQueue::new();
        let (actor, told) = ending(Actor::builder().executor(queue.handle()));
        end(actor);
        assert!(told.try_recv().is_err() && queue.len() == 1, "not in the call");
        queue.run_until_idle();
        assert!(told.try_recv().is_ok());
    }
}

#[test]
fn idle_and_ended_block() {
    must_end(|| {
        let actor = plain();
        assert_eq!(
            (actor.idle().wait(), actor.ended().within(Limit::Immediate)),
            (Ok(()), Ok(false))
        );
        let held = Held::hold(&actor);
        let waits = thread::spawn({
            let actor = actor.clone();
            move || (actor.idle().wait(), actor.ended().within(Limit::Unlimited))
        });
        actor.close();
        assert_eq!(actor.ended().within(Duration::from_millis(1)), Ok(false));
        held.let_go();
        assert_eq!(waits.join().unwrap(), (Ok(()), Ok(true)));
        // A waiter runs a pending actor that has no executor, and no other.
        let (turns, other, queue) = (plain(), plain(), DrainQueue::new());
        let left = on(&queue);
        left.send(Seen::here).unwrap();
        turns
            .with(|_| {
                other.send(Seen::here).unwrap();
                other.idle().wait().unwrap();
                assert_eq!(left.ended().within(Duration::from_millis(1)), Ok(false));
            })
            .unwrap();
        assert_eq!((seen(&other), left.len()), (vec![here()], 1));
    });
}

#[test]
fn restart_after_a_rest_is_made_at_home() {
    must_end(|| {
        for queued in [false, true] {
            let (queue, clock) = (DrainQueue::new(), VirtualClock::new());
            let timers = Timers::by_hand(clock.clone());
            let restarts = Restarts::at_most(1, HOUR).backoff(HOUR, HOUR);
            let factory = || {
                let mut seen = Seen::default();
                seen.here();
                seen
            };
            let builder = Actor::builder().timers(timers.clone());
            let builder = builder.panic_policy(PanicPolicy::restart_within(restarts, factory));
            let builder = if queued { builder.executor(queue.handle()) } else { builder };
            let actor = builder.spawn(Seen::default()).unwrap();
            actor.send(|_| crate::common::quiet_panic("oops")).unwrap();
            queue.run_until_idle();
            let mut asked = actor.call(|seen| seen.0.clone());
            clock.advance(HOUR);
            assert_eq!(timers.run_due(), 1);
            if queued {
                assert!(poll_once(&mut asked).is_pending(), "not here");
                queue.run_until_idle();
                assert_eq!(block_on(asked), Ok(vec![here()]));
            } else {
                assert_ne!(block_on(asked), Ok(vec![here()]));
            }
        }
    });
}

#[test]
fn endings_as_futures_run_no_turn() {
    must_end(|| {
        let queue = DrainQueue::new();
        let actor = on(&queue);
        actor.send(Seen::here).unwrap();
        let (mut idle, mut ended) = (actor.idle(), actor.ended());
        assert!(poll_once(&mut idle).is_pending() && poll_once(&mut ended).is_pending());
        assert_eq!(actor.len(), 1, "nothing was run");
        queue.run_until_idle();
        assert_eq!(block_on(idle), Ok(()));
        assert!(poll_once(&mut ended).is_pending());
        actor.close();
        queue.run_until_idle();
        assert_eq!(block_on(ended), Ok(()));
    });
}

#[test]
fn handles_never_wait() {
    must_end(|| {
        let actor = plain();
        let held = Held::hold(&actor);
        let (another, weak) = (actor.clone(), actor.downgrade());
        assert!(another == weak.upgrade().unwrap());
        drop(another);
        held.let_go();
        drop(actor);
        until(|| weak.upgrade().is_none());
    });
}

#[test]
fn looks_never_wait() {
    must_end(|| {
        let actor = narrow().name("look").spawn(Seen::default()).unwrap();
        let held = Held::hold(&actor);
        let reply = actor.call(|_| ());
        assert_eq!((actor.is_idle(), actor.is_closed(), actor.len()), (false, false, 2));
        assert_eq!((actor.name(), actor.snapshot().capacity), (Some("look"), Some(1)));
        assert_eq!((actor.stop_cause(), reply.is_ready()), (None, false));
        assert!(format!("{actor:?} {reply:?}").contains("look"));
        held.let_go();
    });
}

#[test]
fn stats_wait_for_no_turn() {
    must_end(|| {
        let actor = narrow()
            .counted(true)
            .panic_policy(PanicPolicy::Resume)
            .spawn(Seen::default())
            .unwrap();
        assert!(
            actor.call(|_| -> () { std::panic::resume_unwind(Box::new("oops")) }).wait().is_err()
        );
        let held = Held::hold(&actor);
        actor.send(Seen::here).unwrap();
        assert!(actor.send(Seen::here).is_err(), "full");
        let stats = actor.snapshot().stats.unwrap();
        assert_eq!((stats.handled, stats.panicked, stats.refused), (1, 1, 1));
        assert_eq!(actor.len(), 2, "nothing was run by the look");
        held.let_go();
        until(|| actor.snapshot().stats.unwrap().handled == 3);
        assert_eq!(plain().snapshot().stats, None);
    });
}

#[test]
fn losses_are_counted_without_waiting() {
    must_end(|| {
        let queue = DrainQueue::new();
        let (lost, busy) = (on(&queue), plain());
        let held = Held::hold(&busy);
        lost.send(Seen::here).unwrap();
        lost.stop();
        assert_eq!((lost.snapshot().discarded, queue.len()), (0, 1));
        queue.run_until_idle();
        assert_eq!((lost.snapshot().discarded, busy.snapshot().discarded), (1, 0));
        held.let_go();
    });
}

// ---------------------------------------------------------------------------------------------
// Systems

#[test]
fn snapshot_waits_for_no_turn() {
    must_end(|| {
        let (system, queue) = (System::new(), DrainQueue::new());
        let busy = system.spawn(narrow().name("busy").counted(true), Seen::default()).unwrap();
        let waits =
            system.spawn(Actor::builder().executor(queue.handle()), Seen::default()).unwrap();
        let held = Held::hold(&busy);
        waits.send(Seen::here).unwrap();
        let snapshot = system.snapshot();
        let doing: Vec<_> = snapshot.actors.iter().map(|actor| actor.activity).collect();
        assert_eq!(doing, [Activity::Running, Activity::Scheduled]);
        assert!(snapshot.to_string().lines().nth(1).unwrap().starts_with("busy "));
        assert_eq!(
            (queue.len(), busy.len(), system.snapshot().discarded),
            (1, 1, 0),
            "nothing was run"
        );
        held.let_go();
        queue.run_until_idle();
    });
}

#[test]
fn system_spawns_and_runs_nothing() {
    let (system, queue) = (System::new(), DrainQueue::new());
    let actor = system.spawn(Actor::builder().executor(queue.handle()), Seen::default()).unwrap();
    let other = system.actor(0).unwrap();
    assert_eq!((system.actors(), queue.len(), actor.is_idle()), (2, 0, true));
    drop((actor, other));
    queue.run_until_idle();
    assert_eq!(system.actors(), 0);
}

#[test]
fn system_shutdown_runs_no_message_here() {
    must_end(|| {
        let system = System::new();
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let (tell, told) = mpsc::channel();
        let members = [
            system.actor(()).unwrap(),
            system.spawn(Actor::builder().executor(pool.handle()), ()).unwrap(),
        ];
        let turns = Actor::new(());
        // Pending when the shutdown begins: the turn has deferred the first one.
        let report = turns.with(|()| {
            for member in &members {
                let tell = tell.clone();
                member.send(move |()| tell.send(here()).unwrap()).unwrap();
            }
            system.shutdown(PATIENCE).unwrap()
        });
        assert_eq!(report.map(|report| (report.is_complete(), report.ended)), Ok((true, 2)));
        let ran_on: Vec<_> = told.try_iter().collect();
        assert!(ran_on.len() == 2 && !ran_on.contains(&here()), "{ran_on:?}, not {:?}", here());
    });
}

#[test]
fn system_shutdown_in_a_turn_of_its_own_is_refused() {
    must_end(|| {
        let system = System::new();
        let member = system.actor(()).unwrap();
        for limit in [Limit::Unlimited, Limit::Immediate, PATIENCE.into()] {
            let refused = member.with(|()| system.shutdown(limit)).unwrap();
            assert!(matches!(refused, Err(Reason::Deadlock(_))), "{refused:?}");
        }
        let refused = member.with(|()| poll_once(&mut system.shutdown_async())).unwrap();
        assert!(matches!(refused, Poll::Ready(Err(Reason::Deadlock(_)))), "{refused:?}");
        assert!(!system.is_shut_down());
        assert_eq!(system.shutdown(Limit::Unlimited).map(|report| report.ended), Ok(1));
    });
}

#[test]
fn system_shutdown_as_a_future_runs_no_turn() {
    must_end(|| {
        let (system, queue) = (System::new(), DrainQueue::new());
        let actor =
            system.spawn(Actor::builder().executor(queue.handle()), Seen::default()).unwrap();
        actor.send(Seen::here).unwrap();
        let (tell, told) = mpsc::channel();
        let idle = Actor::builder().on_end(move |(), _| tell.send(here()).unwrap());
        let idle = system.spawn(idle, ()).unwrap();
        let mut closing = system.shutdown_async();
        assert!(poll_once(&mut closing).is_pending());
        assert_eq!((actor.len(), actor.is_closed()), (1, true), "nothing was run");
        queue.run_until_idle();
        assert!(block_on(closing).unwrap().is_complete() && idle.is_closed());
        assert_ne!(told.recv(), Ok(here()), "nor was an end");
    });
}

#[test]
fn drop_of_a_system_does_not_wait() {
    must_end(|| {
        let system = System::new();
        let actor = system.actor(Seen::default()).unwrap();
        let held = Held::hold(&actor);
        let asked = actor.call(|_| ());
        drop(system);
        assert!(actor.is_closed(), "stopped, and inside its turn");
        held.let_go();
        let stopped = AskError::from(Reason::Stopped(StopCause::Requested));
        assert_eq!(asked.wait(), Err(stopped));
    });
}

// ---------------------------------------------------------------------------------------------
// Spawners

#[test]
fn spawner_makes_actors_beside_others() {
    must_end(|| {
        let queue = DrainQueue::new();
        let spawner = Actor::builder().executor(queue.handle()).build().unwrap();
        let actor = spawner.clone().spawn(Seen::default());
        actor.send(Seen::here).unwrap();
        // One of them is in a turn, on a thread that has used the spawner itself.
        let (go, gone) = mpsc::channel::<()>();
        let theirs = spawner.clone();
        actor
            .send(move |_| {
                let made = theirs.spawn(Seen::default());
                gone.recv().unwrap();
                drop(made);
            })
            .unwrap();
        let runner = thread::spawn(move || queue.run_until_idle());
        let made: Vec<_> = (0..100).map(|_| spawner.spawn(Seen::default())).collect();
        assert!(made.iter().all(|actor| actor.is_idle()));
        go.send(()).unwrap();
        runner.join().unwrap();
    });
}

#[test]
fn system_spawns_from_a_spawner_and_runs_nothing() {
    let queue = DrainQueue::new();
    let system = System::new();
    let spawner = Actor::builder().executor(queue.handle()).build().unwrap();
    let actor = system.spawn_from(&spawner, Seen::default()).unwrap();
    actor.send(Seen::here).unwrap();
    let also = system.spawn_from(&spawner, Seen::default()).unwrap();
    assert_eq!((actor.len(), also.len(), queue.len(), system.actors()), (1, 0, 1, 2));
}

#[test]
fn drop_of_a_spawner_runs_no_turn() {
    let queue = DrainQueue::new();
    let (tell, told) = mpsc::channel();
    let last = Gone(tell);
    let hook = move |_: &TurnPanic| _ = &last;
    let spawner = Actor::builder().executor(queue.handle()).on_panic(hook).build().unwrap();
    let actor = spawner.spawn(Seen::default());
    actor.send(Seen::here).unwrap();
    drop(spawner);
    assert_eq!((actor.len(), queue.len()), (1, 1));
    drop(actor);
    assert!(told.try_recv().is_err());
    queue.run_until_idle();
    assert_eq!(told.try_recv(), Ok(here()), "with the last of its actors");
}

/// Reports the thread of its drop.
struct Gone(mpsc::Sender<ThreadId>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.send(here()).unwrap();
    }
}

#[test]
fn end_without_code_calls_no_executor() {
    let queue = DrainQueue::new();
    let (tell, told) = mpsc::channel();
    drop(Actor::builder().executor(queue.handle()).spawn(0_u64).unwrap());
    assert_eq!(queue.len(), 0, "nothing is to be run");
    drop(Actor::builder().executor(queue.handle()).spawn(Gone(tell)).unwrap());
    assert!(queue.len() == 1 && told.try_recv().is_err(), "a drop is to be run, there");
    queue.run_until_idle();
    assert!(told.try_recv().is_ok());
}

// ---------------------------------------------------------------------------------------------
// Pools, queues, clocks

#[cfg(target_os = "linux")]
#[test]
fn pool_starts_its_threads_at_once() {
    in_child("pool_starts_its_threads_at_once", PATIENCE, || {
        let before = threads();
        let pool = ThreadPool::builder().threads(3).build().unwrap();
        assert_eq!(threads() - before, 3 + 1, "workers, and the one that watches them");
        let actors: Vec<_> =
            (0..100).map(|_| Actor::builder().executor(pool.handle()).spawn(()).unwrap()).collect();
        let replies: Vec<_> = actors.iter().map(|actor| actor.call(|()| here())).collect();
        let ran_on: HashSet<_> = replies.into_iter().map(|reply| reply.wait().unwrap()).collect();
        assert!(ran_on.len() <= 3 && !ran_on.contains(&here()));
        assert_eq!(threads() - before, 3 + 1, "no more for any number of actors");
        drop(actors);
        assert!(pool.shutdown(PATIENCE).is_complete());
        until(|| threads() == before);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn only_pools_start_threads() {
    in_child("only_pools_start_threads", PATIENCE, || {
        let before = threads();
        let (queue, system, clock) = (DrainQueue::new(), System::new(), VirtualClock::new());
        let (turns, other, left) =
            (plain(), narrow().clock(clock.clone()).spawn(Seen::default()).unwrap(), on(&queue));
        turns.send(Seen::here).unwrap();
        turns.with(|_| other.send(Seen::here).unwrap()).unwrap();
        turns.with(|_| other.call(|_| ()).wait().unwrap()).unwrap();
        other.waiting().send(Seen::here).wait().unwrap();
        left.posted().send(Seen::here).unwrap();
        let reply = left.call(|_| ());
        queue.run_until_idle();
        block_on(reply).unwrap();
        clock.advance(Duration::from_secs(1));
        system.actor(0).unwrap().send(|n| *n += 1).unwrap();
        let member = system.actor(0).unwrap();
        assert!(
            system.shutdown(Duration::from_secs(1)).unwrap().is_complete() && member.is_closed()
        );
        drop((turns, other, left));
        assert_eq!(threads(), before, "none of all that starts a thread");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn global_pool_starts_on_first_need() {
    in_child("global_pool_starts_on_first_need", PATIENCE, || {
        let before = threads();
        let actor = plain();
        actor.send(Seen::here).unwrap();
        assert_eq!(threads(), before);
        actor.posted().send(Seen::here).unwrap();
        let started = threads() - before;
        let workers = ThreadPool::global().threads();
        assert_eq!(started, workers + 1, "its workers, and the one that watches them");
        actor.idle().wait().unwrap();
        for _ in 0..1000 {
            actor.posted().send(Seen::here).unwrap();
        }
        actor.idle().wait().unwrap();
        assert_eq!(threads() - before, started);
        assert_eq!(seen(&actor).len(), 1002);
    });
}

#[test]
fn pool_shutdown_runs_nothing_here() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let actor = Actor::builder().executor(pool.handle()).spawn(Seen::default()).unwrap();
        let replies: Vec<_> = (0..100).map(|_| actor.call(|_| here())).collect();
        assert!(pool.shutdown(PATIENCE).is_complete(), "what is queued is run");
        assert!(replies.into_iter().all(|reply| reply.wait().unwrap() != here()));
        assert_eq!(actor.stop_cause(), None, "until somebody sends to it");
        let gone = Reason::Stopped(StopCause::ExecutorGone);
        assert_eq!(actor.send(Seen::here).map_err(|refused| refused.into_reason()), Err(gone));
    });
}

#[test]
fn pool_shutdown_now_waits_for_no_turn() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let long = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let queued = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let ((begun, begins), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
        long.send(move |()| {
            begun.send(()).unwrap();
            let _ = goes.recv();
        })
        .unwrap();
        begins.recv().unwrap();
        let asked = queued.call(|()| ());
        // The monitor may start another thread for it, because the worker is stuck.
        assert!(matches!(pool.shutdown_now(), Shutdown::Cut { .. }));
        let gone = AskError::from(Reason::Stopped(StopCause::ExecutorGone));
        let answer = asked.wait();
        assert!(answer == Err(gone) || answer == Ok(()), "answered: {answer:?}");
        drop(go);
    });
}

#[test]
fn drop_of_a_pool_waits_for_nothing() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let actor = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let (go, goes) = mpsc::channel::<()>();
        actor.send(move |()| _ = goes.recv()).unwrap();
        let queued = actor.call(|()| here());
        drop(pool);
        drop(go);
        assert_ne!(queued.wait().unwrap(), here(), "what is queued is run");
    });
}

#[test]
fn blocking_leaves_its_place() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let (waits, other) = (Actor::builder(), Actor::builder());
        let waits = waits.executor(pool.handle()).spawn(()).unwrap();
        let other = other.executor(pool.handle()).spawn(()).unwrap();
        let reply = waits.call(move |()| {
            let (tell, told) = mpsc::channel();
            other.send(move |()| tell.send(here()).unwrap()).unwrap();
            (blocking(|| told.recv().unwrap()), here())
        });
        let (ran_on, waited_on) = reply.wait().unwrap();
        assert_ne!(ran_on, waited_on, "another thread has taken the place over");
        assert_eq!(blocking(here), here(), "elsewhere it just calls the closure");
    });
}

#[test]
fn queue_runs_here_and_never_waits() {
    let (queue, tally) = (DrainQueue::new(), Tally::default());
    assert!(!queue.run_one() && queue.run_until_idle() == 0);
    assert_eq!((queue.run_for(Limit::Immediate), queue.len(), queue.is_empty()), (0, 0, true));
    let actors: Vec<_> = (0..3).map(|_| on(&queue)).collect();
    for actor in &actors {
        let token = tally.token();
        actor.send(move |seen| (token.handle(), seen.here()).1).unwrap();
    }
    assert!(queue.run_one() && queue.len() == 2);
    assert_eq!(queue.run_for(Limit::Immediate), 2);
    tally.check_all_handled();
    let replies: Vec<_> = actors.iter().map(|actor| actor.call(|seen| seen.0.clone())).collect();
    queue.run_until_idle();
    assert!(replies.into_iter().all(|reply| reply.wait().unwrap() == [here()]));
}

#[test]
fn queue_sleeps_until_closed() {
    must_end(|| {
        let queue = Arc::new(DrainQueue::new());
        assert_eq!(queue.run_for(Duration::from_millis(1)), 0);
        let (actor, ran) = (on(&queue), Arc::new(AtomicUsize::new(0)));
        let runner = thread::spawn({
            let queue = queue.clone();
            move || queue.run_until_closed()
        });
        for count in 1..=3 {
            let ran_here = ran.clone();
            actor.send(move |_| _ = ran_here.fetch_add(1, SeqCst)).unwrap();
            until(|| ran.load(SeqCst) == count);
        }
        queue.close();
        assert!(runner.join().unwrap() >= 1);
    });
}

#[test]
fn drop_of_a_queue_ends_its_actors_here() {
    let queue = DrainQueue::new();
    let (actor, told) = ending(Actor::builder().executor(queue.handle()));
    let asked = actor.call(|()| ());
    drop(queue);
    let gone = StopCause::ExecutorGone;
    assert_eq!(told.try_recv(), Ok((here(), EndCause::Stopped(gone.clone()))));
    assert_eq!(asked.wait(), Err(AskError::from(Reason::Stopped(gone))));
}

#[test]
fn virtual_clock_wakes_and_runs_nothing() {
    must_end(|| {
        let clock = VirtualClock::new();
        let queue = DrainQueue::new();
        let builder = Actor::builder().clock(clock.clone());
        let actor = builder.executor(queue.handle()).spawn(Seen::default()).unwrap();
        let asked = actor.call(|_| ());
        let waits = thread::spawn(move || asked.within(Duration::from_secs(60)).is_err());
        clock.wait_for_sleepers(1);
        assert_eq!(clock.next_wake(), Some(Duration::from_secs(60)));
        clock.advance(Duration::from_secs(60));
        assert!(waits.join().unwrap(), "its time is over, and the question was taken back");
        assert_eq!(queue.len(), 1, "nothing was run");
    });
}

#[test]
fn timers_run_nothing_in_the_call() {
    let timers = Timers::by_hand(VirtualClock::new());
    let queue = DrainQueue::new();
    let builder = Actor::builder().timers(timers.clone());
    let actor = builder.executor(queue.handle()).spawn(Seen::default()).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = ran.clone();
        move || _ = ran.fetch_add(1, SeqCst)
    };
    timers.after(Duration::ZERO, count()).forget();
    timers.at(Duration::ZERO, count()).forget();
    actor.posted().send_after(Duration::ZERO, Seen::here).forget();
    let sleep = timers.sleep(Duration::ZERO);
    assert_eq!((ran.load(SeqCst), queue.len(), timers.len()), (0, 0, 3));
    assert_eq!(timers.run_due(), 3);
    assert_eq!((ran.load(SeqCst), queue.len()), (2, 1), "the message was posted, not run");
    drop(sleep);
}

#[cfg(target_os = "linux")]
#[test]
fn timers_start_one_thread_each() {
    in_child("timers_start_one_thread_each", PATIENCE, || {
        let before = threads();
        let by_hand = Timers::by_hand(VirtualClock::new());
        by_hand.after(Duration::from_secs(1), || ()).forget();
        let global = Timers::global();
        assert_eq!(threads(), before, "nothing is armed but by hand");
        let timers: Vec<_> = (0..3).map(|_| global.after(HOUR, || ())).collect();
        assert_eq!(threads(), before + 1);
        let own = Timers::new(VirtualClock::new()).unwrap();
        assert_eq!(threads(), before + 2);
        drop(own);
        until(|| threads() == before + 1);
        assert!(timers.iter().all(Timer::cancel));
    });
}

#[test]
fn due_timers_run_here() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let (tell, told) = mpsc::channel();
    timers.after(HOUR, move || tell.send(here()).unwrap()).forget();
    clock.advance(HOUR);
    assert_eq!(timers.run_due(), 1);
    assert_eq!(told.try_recv(), Ok(here()));
}

#[test]
fn wait_in_a_circle_is_told() {
    must_end(|| {
        let (ada, bob) = (plain(), plain());
        let both = std::sync::Barrier::new(2);
        let ask = |actor: &Actor<Seen>, other: &Actor<Seen>| {
            let turn = |_: &mut Seen| {
                both.wait();
                other.call(Seen::here).wait()
            };
            actor.with(turn).unwrap()
        };
        let answers = thread::scope(|scope| {
            let other = scope.spawn(|| ask(&bob, &ada));
            [ask(&ada, &bob), other.join().unwrap()]
        });
        let told = |answer: &Result<_, _>| matches!(answer, Err(AskError::Refused(Reason::Deadlock(cycle), _)) if cycle.actors().len() == 2);
        assert_eq!(answers.iter().filter(|answer| told(answer)).count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    });
}
