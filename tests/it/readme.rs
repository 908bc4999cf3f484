//! Sentences of the README on its calls that were once false.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::child::in_child;
use crate::common::{Tally, on_small_stack};
use crate::verbs::{ask_within, poll_once, post, send_within, sending, sending_by, wait_for};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorBuilder, Budget, Drain, Limit, Overflow, System, ThreadPool, VirtualClock, blocking,
};

const PATIENCE: Duration = Duration::from_secs(60);

// ---------------------------------------------------------------------------------------------
// "A millisecond and the turn it is in"

/// The default budget of a sender that drains: the message that found the actor idle, eight more
/// before the clock is read, and the turn in which the millisecond is over.
const MOST_TURNS: usize = 1 + 8 + 1;

/// Returns how many of 20 turns of 20 ms run on the thread that sends them.
fn turns_of_the_sender(actor: Actor<Vec<ThreadId>>) -> usize {
    let tally = Tally::default();
    let messages = (0..20).map(|_| {
        let token = tally.token();
        move |seen: &mut Vec<ThreadId>| {
            thread::sleep(Duration::from_millis(20));
            seen.push(thread::current().id());
            token.handle();
        }
    });
    actor.send_many(messages).unwrap_or_else(|refused| panic!("{refused}"));
    tally.check_all_handled();
    assert_eq!(tally.handled(), 20);
    let here = thread::current().id();
    actor.with(|seen| seen.iter().filter(|thread| **thread == here).count()).unwrap()
}

/// A sender that drains returns after eight turns or a millisecond, whichever is later, and the
/// turn it is in. (The README left the eight turns out.)
#[test]
fn sender_is_let_go_after_a_millisecond() {
    let runs = turns_of_the_sender(Actor::new(Vec::new()));
    assert!(runs <= MOST_TURNS, "the sender ran {runs} turns of 20 ms");
}

/// With a budget of a time, the sender runs for that time and the turn it is in.
#[test]
fn sender_runs_a_millisecond_and_the_turn_it_is_in() {
    let millisecond = Budget::turns(u32::MAX).time(Duration::from_millis(1));
    let runs = turns_of_the_sender(Actor::builder().budget(millisecond).spawn(Vec::new()).unwrap());
    assert!(runs <= 1, "the sender ran {runs} turns of 20 ms");
}

/// The default holds for all messages together that the sender's turn has sent to others.
#[test]
fn sender_of_a_cascade_is_let_go_after_a_millisecond() {
    let (tally, here) = (Tally::default(), thread::current().id());
    let runs = Arc::new(AtomicUsize::new(0));
    let others: Vec<_> = (0..20).map(|_| Actor::new(())).collect();
    let first = Actor::new(());
    let (tokens, counts) = (tally.clone(), runs.clone());
    first
        .send(move |()| {
            for other in &others {
                let (token, counts) = (tokens.token(), counts.clone());
                other
                    .send(move |()| {
                        thread::sleep(Duration::from_millis(20));
                        counts.fetch_add(usize::from(thread::current().id() == here), SeqCst);
                        token.handle();
                    })
                    .unwrap();
            }
        })
        .unwrap();
    tally.check_all_handled();
    assert_eq!(tally.handled(), 20);
    let runs = runs.load(SeqCst);
    assert!(runs < MOST_TURNS, "the sender ran {runs} turns of 20 ms");
}

// ---------------------------------------------------------------------------------------------
// "First come first served"

/// Waiters for room are served in the order in which they came: a waiter was overtaken by all
/// newcomers that found room before it was admitted.
#[test]
fn first_come_first_served() {
    const ROOM: usize = 32;
    let waiter = Arc::new(Mutex::new(None));
    let actor = Actor::builder().capacity(ROOM, Overflow::Reject).spawn(Vec::new()).unwrap();
    // The first turn fills the mailbox. In the turn after it, one more message takes the free
    // place, and then a sender waits. Each later turn sends one more, if it can.
    let (filled, keep) = (actor.clone(), waiter.clone());
    let fill = move |_: &mut Vec<&'static str>| {
        let (first, keep) = (filled.clone(), keep.clone());
        let waits = move || {
            first.send(|log| log.push("early")).unwrap();
            let mut waiting = sending_by(first, |log| log.push("waiter"));
            assert!(poll_once(&mut waiting).is_pending());
            *keep.lock().unwrap() = Some(waiting);
        };
        filled.send(move |_| thread::spawn(waits).join().unwrap()).unwrap();
        for _ in 1..ROOM {
            let newcomer = filled.clone();
            let old = move |_: &mut Vec<&'static str>| {
                let _ = newcomer.send(|log| log.push("newcomer"));
            };
            filled.send(old).unwrap_or_else(|refused| panic!("{refused}"));
        }
    };
    actor.send(fill).unwrap_or_else(|refused| panic!("{refused}"));
    let begun = Instant::now();
    let log = loop {
        // It may be full.
        let log = actor.waiting().call(|log| log.clone()).wait().unwrap();
        if log.contains(&"waiter") || begun.elapsed() > Duration::from_secs(10) {
            break log;
        }
    };
    let before = log.iter().take_while(|entry| **entry != "waiter");
    let newcomers = before.filter(|entry| **entry == "newcomer").count();
    assert!(log.contains(&"waiter"), "never let in");
    assert_eq!(newcomers, 0, "newcomers that came before one who had waited");
    drop(waiter);
}

/// Newcomers between drains and in each turn, however small the budget; the waiter has been polled,
/// or not yet. There is no room for a newcomer before the waiters are in, and the messages never
/// exceed the room.
#[test]
fn first_come_first_served_between_drains() {
    type Log = Vec<&'static str>;
    for (room, polled) in [(1, true), (1, false), (4, true), (4, false)] {
        let queue = DrainQueue::new();
        let actor: Actor<Log> = Actor::builder()
            .capacity(room, Overflow::Reject)
            .executor(queue.handle())
            .budget(1)
            .spawn(Vec::new())
            .unwrap();
        let (newcomer, overtook) = (actor.downgrade(), Arc::new(AtomicUsize::new(0)));
        let comes = |overtook: &Arc<AtomicUsize>| {
            let (newcomer, overtook) = (newcomer.clone(), overtook.clone());
            move || {
                let newcomer = newcomer.upgrade().unwrap();
                let accepted = newcomer.send(|log| log.push("newcomer")).is_ok();
                overtook.fetch_add(usize::from(accepted), SeqCst);
            }
        };
        for _ in 0..room {
            let comes = comes(&overtook);
            let early = move |log: &mut Log| {
                log.push("early");
                comes();
            };
            actor.send(early).unwrap_or_else(|refused| panic!("{refused}"));
        }
        let mut waiting = actor.waiting().send(|log| log.push("waiter"));
        if polled {
            assert!(poll_once(&mut waiting).is_pending());
        }
        let mut second = actor.waiting().send(|log| log.push("second"));
        let exact = || {
            assert!(actor.len() <= room, "{} wait, with room for {room}", actor.len());
        };
        while poll_once(&mut second).is_pending() {
            exact();
            assert!(queue.run_one());
            exact();
            comes(&overtook)();
            let overtook = overtook.load(SeqCst);
            assert_eq!(overtook, 0, "newcomers overtook; room {room}, polled {polled}");
        }
        assert!(poll_once(&mut waiting).is_ready());
        while queue.run_one() {
            exact();
        }
        let log = actor.call(|log| log.clone());
        queue.run_until_idle();
        let log = log.wait().unwrap();
        let waiters = log.iter().filter(|entry| ["waiter", "second"].contains(entry));
        assert_eq!(waiters.collect::<Vec<_>>(), [&"waiter", &"second"]);
    }
}

/// Waiters are served in the order of their arrival.
#[test]
fn waiters_are_let_in_in_their_order() {
    let actor = Actor::builder().capacity(2, Overflow::Reject).spawn(Vec::new()).unwrap();
    let waiters = Arc::new(Mutex::new(Vec::new()));
    let (filled, keep) = (actor.clone(), waiters.clone());
    let fill = move || {
        (0..2).for_each(|_| filled.send(|_| ()).unwrap());
        for number in 0..16 {
            let message = move |log: &mut Vec<i32>| log.push(number);
            let mut waiting = sending_by(filled.clone(), message);
            assert!(poll_once(&mut waiting).is_pending());
            keep.lock().unwrap().push(waiting);
        }
    };
    actor.send(move |_| thread::spawn(fill).join().unwrap()).unwrap();
    let begun = Instant::now();
    while actor.with(|log| log.len()).unwrap() < 16 && begun.elapsed() < Duration::from_secs(10) {}
    assert_eq!(actor.with(|log| log.clone()).unwrap(), (0..16).collect::<Vec<_>>());
}

// ---------------------------------------------------------------------------------------------
// "A limit of zero is one look", "never blocks", "elsewhere"

/// An actor on a queue that is not run yet, with three long turns waiting in it.
struct Left {
    queue: DrainQueue,
    actor: Actor<()>,
    ran: Arc<AtomicUsize>,
}

fn left() -> Left {
    let queue = DrainQueue::new();
    let actor = Actor::builder().executor(queue.handle()).spawn(()).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let ran = ran.clone();
        let turn = move |(): &mut ()| {
            thread::sleep(Duration::from_millis(100));
            ran.fetch_add(1, SeqCst);
        };
        assert!(post(&actor, turn));
    }
    Left { queue, actor, ran }
}

/// A limit of zero is one look: no answer was ready, but the call ran all waiting messages.
#[test]
fn limit_of_zero_is_one_look() {
    let Left { queue, actor, ran } = left();
    let reply = actor.call(|()| 1);
    let begun = Instant::now();
    let reply = wait_for(reply, Limit::Immediate);
    assert_eq!(ran.load(SeqCst), 0, "one look ran {:?} of turns", begun.elapsed());
    let reply = reply.map(drop).expect_err("the queue was not run");
    queue.run_until_idle();
    assert_eq!(reply.wait(), Ok(1));
}

/// A `Reply` as a future never blocks: its poll ran turns that do.
#[test]
fn reply_as_a_future_never_blocks() {
    let Left { queue, actor, ran } = left();
    let begun = Instant::now();
    let mut reply = actor.call(|()| 1);
    assert!(poll_once(&mut reply).is_pending());
    assert_eq!(ran.load(SeqCst), 0, "a poll blocked for {:?}", begun.elapsed());
    queue.run_until_idle();
    assert_eq!(poll_once(&mut reply), std::task::Poll::Ready(Ok(1)));
}

/// Without an executor: a poll does not run messages that are left to the global pool.
#[test]
fn reply_of_a_plain_actor_never_blocks() {
    in_child("reply_of_a_plain_actor_never_blocks", PATIENCE, || {
        let (begun, begins) = mpsc::channel();
        let hold = Arc::new(Mutex::new(()));
        let held = hold.lock().unwrap();
        let (workers, mut blocked) = (ThreadPool::global().threads(), Vec::new());
        for _ in 0..workers {
            let (begun, hold) = (begun.clone(), hold.clone());
            let turn = move |(): &mut ()| {
                begun.send(()).unwrap();
                drop(hold.lock());
            };
            let actor = Actor::new(());
            assert!(post(&actor, turn));
            blocked.push(actor);
        }
        (0..workers).for_each(|_| begins.recv().unwrap());
        let here = thread::current().id();
        let ran_here = Arc::new(AtomicUsize::new(0));
        let asker = Actor::new(());
        // Dropping a last handle would run the waiting messages, so the handles are kept.
        let others: Vec<_> = (0..3).map(|_| Actor::new(())).collect();
        for other in &others {
            let counts = ran_here.clone();
            let turn = move |(): &mut ()| {
                counts.fetch_add(usize::from(thread::current().id() == here), SeqCst);
            };
            assert!(post(other, turn));
            // A request made by a turn does not run in the call.
            let polled = asker.with(|()| {
                let mut reply = other.call(|()| ());
                let _ = poll_once(&mut reply);
                ran_here.load(SeqCst)
            });
            assert_eq!(polled, Ok(0), "a poll ran turns");
        }
        drop(held);
    });
}

/// An actor with an executor is run by its executor and by no other thread.
#[test]
fn executor_alone_runs_its_actors() {
    type Call = fn(Actor<()>);
    let calls: [(&str, Call); 9] = [
        ("a zero limit", |actor| _ = wait_for(actor.call(|()| ()), Limit::Immediate)),
        ("a limit", |actor| _ = wait_for(actor.call(|()| ()), Duration::from_millis(20))),
        ("ask within", |actor| _ = ask_within(&actor, Duration::from_millis(20), |()| ())),
        ("wait ended", |actor| _ = actor.ended().within(Duration::from_millis(20))),
        ("a poll", |actor| _ = poll_once(&mut actor.call(|()| ()))),
        ("a poll of a send", |actor| _ = poll_once(&mut Box::pin(sending(&actor, |()| ())))),
        ("a send within", |actor| _ = send_within(&actor, Duration::from_millis(20), |()| ())),
        ("close", |actor| _ = actor.close()),
        ("the drop of the last handle", drop),
    ];
    let mut run_here = Vec::new();
    for (name, call) in calls {
        let Left { queue, actor, ran } = left();
        call(actor);
        if ran.load(SeqCst) > 0 {
            run_here.push(name);
        }
        queue.run_until_idle();
        assert_eq!(ran.load(SeqCst), 3, "after {name}");
    }
    assert!(run_here.is_empty(), "turns ran in the calls of {run_here:?}");
}

// ---------------------------------------------------------------------------------------------
// "A constant stack"

/// Messages sent inside turns take a constant stack, wherever they run. (Ends do not:
/// see `memory_safety`.)
#[test]
fn sends_inside_turns_take_constant_stack() {
    in_child("sends_inside_turns_take_constant_stack", PATIENCE, || {
        fn hop(ring: Arc<Vec<Actor<()>>>, left: usize, done: mpsc::Sender<()>) {
            let next = ring[left % ring.len()].clone();
            let turn = move |(): &mut ()| match left {
                0 => done.send(()).unwrap(),
                _ => hop(ring, left - 1, done),
            };
            next.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
        }
        let pool = ThreadPool::builder().threads(1).stack_size(64 * 1024).build().unwrap();
        let handle = pool.handle();
        let builds: [Box<dyn Fn() -> Actor<()> + Send>; 3] = [
            Box::new(|| Actor::new(())),
            Box::new(|| Actor::builder().executor(Drain::run).spawn(()).unwrap()),
            Box::new(move || Actor::builder().executor(handle.clone()).spawn(()).unwrap()),
        ];
        for build in builds {
            let (done, told) = mpsc::channel();
            on_small_stack(move || {
                let ring = Arc::new((0..10).map(|_| build()).collect());
                hop(ring, 100_000, done);
            });
            told.recv_timeout(PATIENCE / 2).unwrap();
        }
    });
}

// ---------------------------------------------------------------------------------------------
// "A pool of one does not wait for itself"

/// A turn in a pool of one sends to `third`, which has the same pool, and waits by `wait` for the
/// effect: `work`.
#[track_caller]
fn pool_of_one<T: Send + 'static>(
    thing: T,
    work: impl FnOnce(&mut T) + Send + 'static,
    wait: impl FnOnce(&Actor<T>) + Send + 'static,
) {
    pool_of_one_with(Actor::builder(), thing, work, wait);
}

#[track_caller]
fn pool_of_one_with<T: Send + 'static>(
    builder: ActorBuilder<T>,
    thing: T,
    work: impl FnOnce(&mut T) + Send + 'static,
    wait: impl FnOnce(&Actor<T>) + Send + 'static,
) {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let third = builder.executor(pool.handle()).spawn(thing).unwrap();
    let waits = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    let (done, told) = mpsc::channel();
    waits
        .send(move |()| {
            third.send(work).unwrap_or_else(|refused| panic!("{refused}"));
            wait(&third);
            done.send(()).unwrap();
        })
        .unwrap();
    // This thread only looks: if it waited for an actor, it might run it.
    let in_time = told.recv_timeout(Duration::from_secs(8)).is_ok();
    assert!(in_time, "a pool of one waits for itself");
    assert!(pool.shutdown(PATIENCE).is_complete());
}

/// A pool of one does not wait for itself by `with`.
#[test]
fn pool_of_one_and_with() {
    pool_of_one(0, |n| *n += 1, |third| assert!(matches!(third.with(|n| *n), Ok(1))));
}

/// Nor by a reply.
#[test]
fn pool_of_one_and_a_reply() {
    let (tell, told) = mpsc::channel::<()>();
    let other = Actor::new(());
    let busy = other.clone();
    let (begun, begins) = mpsc::channel();
    thread::spawn(move || {
        busy.send(move |()| {
            begun.send(()).unwrap();
            let _ = told.recv();
        })
    });
    begins.recv().unwrap();
    let work = move |_: &mut i32| tell.send(()).unwrap();
    pool_of_one(0, work, move |_| other.call(|()| ()).wait().unwrap());
}

/// A wait for idle, in its place.
#[test]
fn pool_of_one_and_wait_idle() {
    pool_of_one(0, |n| *n += 1, |third| third.idle().wait().unwrap());
}

/// Nor by the wait for an end.
#[test]
fn pool_of_one_and_wait_ended() {
    let itself = Arc::new(Mutex::new(None::<Actor<()>>));
    let keeps = itself.clone();
    let work = move |(): &mut ()| _ = itself.lock().unwrap().take().map(|third| third.close());
    pool_of_one((), work, move |third| {
        *keeps.lock().unwrap() = Some(third.clone());
        assert_eq!(third.ended().within(PATIENCE), Ok(true));
    });
}

/// Nor by a wait for room.
#[test]
fn pool_of_one_and_room() {
    let full = Actor::builder().capacity(1, Overflow::Reject);
    let wait = |third: &Actor<i32>| assert!(send_within(third, PATIENCE, |n| *n += 1));
    pool_of_one_with(full, 0, |n| *n += 1, wait);
}

/// Nor by `blocking`.
#[test]
fn pool_of_one_and_blocking() {
    let (tell, told) = mpsc::channel();
    let work = move |_: &mut i32| tell.send(()).unwrap();
    pool_of_one(0, work, move |_| blocking(|| told.recv()).unwrap());
}

/// Nor by the wait for a promise.
#[test]
fn pool_of_one_and_a_promise() {
    let (promise, reply) = turnwise::promise();
    pool_of_one(0, move |_| promise.keep(1), move |_| assert_eq!(reply.wait(), Ok(1)));
}

/// Nor by the shutdown of a system: its member ends when the third actor has run.
#[test]
fn pool_of_one_and_the_end_of_a_system() {
    let system = System::new();
    let (tell, told) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let member = system.actor(()).unwrap();
    thread::spawn(move || {
        member.send(move |()| {
            begun.send(()).unwrap();
            let _ = told.recv();
        })
    });
    begins.recv().unwrap();
    let work = move |_: &mut i32| tell.send(()).unwrap();
    pool_of_one(0, work, move |_| {
        assert!(system.shutdown(Limit::Unlimited).unwrap().is_complete())
    });
}

/// Nor by the end of another pool, in which a turn waits for the third actor.
#[test]
fn pool_of_one_and_the_end_of_another_pool() {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let (tell, told) = mpsc::channel::<()>();
    let member = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    let (begun, begins) = mpsc::channel();
    member
        .send(move |()| {
            begun.send(()).unwrap();
            let _ = told.recv();
        })
        .unwrap();
    begins.recv().unwrap();
    let work = move |_: &mut i32| tell.send(()).unwrap();
    pool_of_one(0, work, move |_| assert!(pool.shutdown(Limit::Unlimited).is_complete()));
}

/// Nor by a queue that the turn runs until the third actor closes it.
#[test]
fn pool_of_one_and_a_queue() {
    let queue = Arc::new(DrainQueue::new());
    let closes = queue.clone();
    pool_of_one(0, move |_| closes.close(), move |_| _ = queue.run_until_closed());
}

/// Nor by a wait for sleepers on a virtual clock.
#[test]
fn pool_of_one_and_a_virtual_clock() {
    let clock = VirtualClock::new();
    let sleeps = clock.clone();
    let work = move |_: &mut i32| {
        thread::spawn(move || {
            let other = Actor::builder().clock(sleeps).spawn(()).unwrap();
            other.ended().within(Duration::from_secs(1))
        });
    };
    pool_of_one(0, work, move |_| {
        clock.wait_for_sleepers(1);
        clock.advance(Duration::from_secs(1));
    });
}
