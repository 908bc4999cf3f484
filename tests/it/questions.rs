//! Every way to send and to ask: each verb, refused by a full mailbox or waiting for room, without
//! a limit or with one, as a blocking call or as a future. One table, and each of its cells in each
//! situation.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{
    Held, Tally, block_on, in_turn, must_end, poll_once, quiet_panic, size, until,
};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorBuilder, AskError, Context, Handler, Limit, Overflow, PanicPolicy, Reason,
    SendError, StopCause, VirtualClock, WaitError,
};

/// A count, by closures and by messages.
struct Count(u32);
struct Add;

impl Handler<Add> for Count {
    type Reply = u32;
    fn handle(&mut self, _: Add, _: &mut Context<'_, Self>) -> u32 {
        add(self)
    }
}

fn add(count: &mut Count) -> u32 {
    count.0 += 1;
    count.0
}

/// The result of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Sent,
    Answer(u32),
    Refused(Reason),
    /// Not in time: it certainly does not run.
    Cancelled,
    /// It was running at the limit.
    Running,
}

fn sent<M>(sent: Result<(), SendError<M>>) -> Got {
    sent.map_or_else(|refused| Got::Refused(refused.into_reason()), |()| Got::Sent)
}

fn answered(answer: Result<u32, AskError>) -> Got {
    match answer {
        Ok(n) => Got::Answer(n),
        Err(AskError::Refused(reason, _)) => Got::Refused(reason),
        Err(other) => panic!("{other}"),
    }
}

fn limited<M>(answer: Result<u32, WaitError<u32, M>>) -> Got {
    match answer {
        Ok(n) => Got::Answer(n),
        Err(WaitError::Ask(error)) => answered(Err(error)),
        Err(WaitError::Cancelled(_)) => Got::Cancelled,
        Err(WaitError::TimedOut(_)) => Got::Running,
        Err(other) => panic!("{other}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Send,
    Tell,
    Call,
    Ask,
    With,
}
use Verb::{Ask, Call, Send, Tell, With};

/// One way to ask.
#[derive(Clone, Copy)]
struct Cell {
    verb: Verb,
    /// In a full mailbox: waits for room, or is refused.
    waits: bool,
    /// With a limit, or without.
    limit: bool,
    /// As a future, or blocking.
    future: bool,
    run: fn(&Actor<Count>, Limit) -> Got,
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = if self.waits { "waits" } else { "refused" };
        let limit = if self.limit { "limited" } else { "unlimited" };
        let form = if self.future { "future" } else { "blocking" };
        write!(f, "{:?} {full} {limit} {form}", self.verb)
    }
}

const fn cell(
    verb: Verb,
    (waits, limit, future): (bool, bool, bool),
    run: fn(&Actor<Count>, Limit) -> Got,
) -> Cell {
    Cell { verb, waits, limit, future, run }
}

/// The flags of a cell, in this order: whether it waits for room, has a limit, is a future.
const NOW: (bool, bool, bool) = (false, false, false);
const NOW_WITHIN: (bool, bool, bool) = (false, true, false);
const NOW_ASYNC: (bool, bool, bool) = (false, false, true);
const NOW_WITHIN_ASYNC: (bool, bool, bool) = (false, true, true);
const ROOM: (bool, bool, bool) = (true, false, false);
const ROOM_WITHIN: (bool, bool, bool) = (true, true, false);
const ROOM_ASYNC: (bool, bool, bool) = (true, false, true);
const ROOM_WITHIN_ASYNC: (bool, bool, bool) = (true, true, true);

/// All cells. The missing ones make no sense: a `send` that does not wait for room has nothing to
/// wait for, and what `with` borrows is needed until its turn is over.
#[rustfmt::skip]
const TABLE: &[Cell] = &[
    cell(Send, NOW, |a, _| sent(a.send(|c| {
 add(c);
 }))),
    cell(Tell, NOW, |a, _| sent(a.tell(Add))),
    cell(Call, NOW, |a, _| answered(a.call(add).wait())),
    cell(Ask, NOW, |a, _| answered(a.ask(Add).wait())),
    cell(With, NOW, |a, _| answered(a.with(add))),
    cell(Call, NOW_WITHIN, |a, l| limited(a.call(add).within(l))),
    cell(Ask, NOW_WITHIN, |a, l| limited(a.ask(Add).within(l))),
    cell(Call, NOW_ASYNC, |a, _| answered(block_on(a.call(add)))),
    cell(Ask, NOW_ASYNC, |a, _| answered(block_on(a.ask(Add)))),
    cell(Call, NOW_WITHIN_ASYNC, |a, l| limited(block_on(a.call(add).within_async(l)))),
    cell(Ask, NOW_WITHIN_ASYNC, |a, l| limited(block_on(a.ask(Add).within_async(l)))),
    cell(Send, ROOM, |a, _| sent(a.waiting().send(|c| {
 add(c);
 }).wait())),
    cell(Tell, ROOM, |a, _| sent(a.waiting().tell(Add).wait())),
    cell(Call, ROOM, |a, _| answered(a.waiting().call(add).wait())),
    cell(Ask, ROOM, |a, _| answered(a.waiting().ask(Add).wait())),
    cell(Send, ROOM_WITHIN, |a, l| sent(a.waiting().send(|c| {
 add(c);
 }).within(l))),
    cell(Tell, ROOM_WITHIN, |a, l| sent(a.waiting().tell(Add).within(l))),
    cell(Call, ROOM_WITHIN, |a, l| limited(a.waiting().call(add).within(l))),
    cell(Ask, ROOM_WITHIN, |a, l| limited(a.waiting().ask(Add).within(l))),
    cell(Send, ROOM_ASYNC, |a, _| sent(block_on(a.waiting().send(|c| {
 add(c);
 })))),
    cell(Tell, ROOM_ASYNC, |a, _| sent(block_on(a.waiting().tell(Add)))),
    cell(Call, ROOM_ASYNC, |a, _| answered(block_on(a.waiting().call(add)))),
    cell(Ask, ROOM_ASYNC, |a, _| answered(block_on(a.waiting().ask(Add)))),
    cell(Send, ROOM_WITHIN_ASYNC, |a, l| {
        sent(block_on(a.waiting().send(|c| {
 add(c);
 }).within_async(l)))
    }),
    cell(Tell, ROOM_WITHIN_ASYNC, |a, l| sent(block_on(a.waiting().tell(Add).within_async(l)))),
    cell(Call, ROOM_WITHIN_ASYNC, |a, l| limited(block_on(a.waiting().call(add).within_async(l)))),
    cell(Ask, ROOM_WITHIN_ASYNC, |a, l| limited(block_on(a.waiting().ask(Add).within_async(l)))),
];

impl Cell {
    fn is_question(&self) -> bool {
        !matches!(self.verb, Send | Tell)
    }

    /// Returns the good result of the nth message.
    fn good(&self, n: u32) -> Got {
        if self.is_question() { Got::Answer(n) } else { Got::Sent }
    }

    /// Returns the result of a limit that passes before the turn, or, for a message, before there
    /// is room.
    fn late(&self) -> Got {
        match self.verb {
            Send | Tell => Got::Refused(Reason::Full),
            Call | Ask => Got::Cancelled,
            With => unreachable!("it has no limit"),
        }
    }
}

/// An actor that only this queue runs, with this much room.
fn queued(room: usize) -> (DrainQueue, ActorBuilder<Count>) {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle());
    (queue, builder.capacity(room, Overflow::Reject))
}

/// An actor that is full, by one message.
fn full() -> (DrainQueue, Actor<Count>) {
    let (queue, builder) = queued(1);
    let actor = builder.spawn(Count(0)).unwrap();
    actor.send(|count| count.0 += 100).unwrap();
    (queue, actor)
}

const HOUR: Limit = Limit::Within(Duration::from_secs(3600));
const SHORT: [Limit; 2] = [Limit::Immediate, Limit::Within(Duration::from_millis(2))];
const LONG: [Limit; 3] = [HOUR, Limit::Within(Duration::MAX), Limit::Unlimited];

/// Runs a closure on a thread while the queue is run here.
fn while_run(queue: &DrainQueue, f: impl FnOnce() -> Got + std::marker::Send) -> Got {
    thread::scope(|scope| {
        let asking = scope.spawn(f);
        until(|| {
            queue.run_until_idle();
            asking.is_finished()
        });
        asking.join().unwrap()
    })
}

#[test]
fn the_table_is_complete() {
    let all = [Send, Tell, Call, Ask, With].into_iter().flat_map(|verb| {
        (0..8).map(move |bits| (verb, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
    });
    let (mut there, mut not) = (0, 0);
    for (verb, waits, limit, future) in all {
        let found = TABLE.iter().filter(|cell| {
            (cell.verb, cell.waits, cell.limit, cell.future) == (verb, waits, limit, future)
        });
        let senseless = match verb {
            Send | Tell => !waits && (limit || future),
            Call | Ask => false,
            With => waits || limit || future,
        };
        assert_eq!(found.count(), usize::from(!senseless), "{verb:?} {waits} {limit} {future}");
        if senseless { not += 1 } else { there += 1 }
    }
    assert_eq!((there, not), (27, 13));
}

#[test]
fn an_idle_actor_answers_all_at_once() {
    must_end(|| {
        for cell in TABLE {
            for limit in SHORT.into_iter().chain(LONG) {
                let actor = Actor::new(Count(0));
                assert_eq!((cell.run)(&actor, limit), cell.good(1), "{cell:?} {limit:?}");
                assert_eq!(actor.with(|count| count.0), Ok(1), "{cell:?}");
            }
        }
    });
}

#[test]
fn a_closed_or_stopped_actor_refuses_all() {
    must_end(|| {
        for cell in TABLE {
            for limit in SHORT.into_iter().chain(LONG) {
                let actor = Actor::new(Count(0));
                actor.close();
                let got = (cell.run)(&actor, limit);
                assert_eq!(got, Got::Refused(Reason::Closed), "{cell:?} {limit:?}");
                let (queue, actor) = full();
                actor.stop();
                let stopped = Reason::Stopped(StopCause::Requested);
                assert_eq!((cell.run)(&actor, limit), Got::Refused(stopped), "{cell:?} {limit:?}");
                queue.run_until_idle();
            }
        }
    });
}

#[test]
fn a_full_mailbox_refuses_or_lets_wait() {
    must_end(|| {
        for cell in TABLE {
            let limits = if cell.limit { &SHORT[..] } else { &SHORT[..1] };
            for &limit in limits {
                let (queue, actor) = full();
                if !cell.waits {
                    let got = (cell.run)(&actor, limit);
                    assert_eq!(got, Got::Refused(Reason::Full), "{cell:?} {limit:?}");
                } else if cell.limit {
                    assert_eq!((cell.run)(&actor, limit), cell.late(), "{cell:?} {limit:?}");
                } else {
                    continue;
                }
                queue.run_until_idle();
                assert_eq!(
                    crate::common::asked(&queue, &actor, |count| count.0),
                    100,
                    "{cell:?}: it ran"
                );
            }
        }
    });
}

#[test]
fn a_long_limit_waits_for_room_and_answer() {
    must_end(|| {
        for cell in TABLE.iter().filter(|cell| cell.waits) {
            let limits = if cell.limit { &LONG[..] } else { &LONG[..1] };
            for &limit in limits {
                let (queue, actor) = full();
                let got = while_run(&queue, || (cell.run)(&actor, limit));
                assert_eq!(got, cell.good(101), "{cell:?} {limit:?}");
                assert_eq!(crate::common::asked(&queue, &actor, |count| count.0), 101, "{cell:?}");
            }
        }
    });
}

#[test]
fn a_turn_that_does_not_come_is_given_up() {
    must_end(|| {
        for cell in TABLE.iter().filter(|cell| cell.limit) {
            for limit in SHORT {
                let (queue, builder) = queued(9);
                let actor = builder.spawn(Count(0)).unwrap();
                actor.send(|count| count.0 += 100).unwrap();
                let got = (cell.run)(&actor, limit);
                let (expected, ran) = match cell.is_question() {
                    true => (cell.late(), 100),
                    false => (Got::Sent, 101),
                };
                assert_eq!(got, expected, "{cell:?} {limit:?}");
                assert_eq!(crate::common::asked(&queue, &actor, |count| count.0), ran, "{cell:?}");
            }
        }
    });
}

#[test]
fn limits_are_measured_on_the_actors_clock() {
    must_end(|| {
        for cell in TABLE.iter().filter(|cell| cell.limit && (cell.waits || cell.is_question())) {
            let clock = VirtualClock::new();
            let (queue, builder) = queued(1);
            let actor = builder.clock(clock.clone()).spawn(Count(0)).unwrap();
            if cell.waits {
                actor.send(|count| count.0 += 100).unwrap();
            }
            thread::scope(|scope| {
                let asking = scope.spawn(|| (cell.run)(&actor, HOUR));
                // A caller that blocks sleeps by it, or the thread of its timers does.
                clock.wait_for_sleepers(1);
                clock.advance(Duration::from_secs(3599));
                assert!(!asking.is_finished(), "{cell:?}: too early");
                clock.wait_for_sleepers(1);
                clock.advance(Duration::from_secs(1));
                assert_eq!(asking.join().unwrap(), cell.late(), "{cell:?}");
            });
            queue.run_until_idle();
            let ran = if cell.waits { 100 } else { 0 };
            assert_eq!(
                crate::common::asked(&queue, &actor, |count| count.0),
                ran,
                "{cell:?}: it ran"
            );
        }
    });
}

#[test]
fn timers_run_by_hand_end_a_tasks_limit() {
    let clock = VirtualClock::new();
    let timers = turnwise::time::Timers::by_hand(clock.clone());
    let (_queue, builder) = queued(1);
    let actor = builder.timers(timers.clone()).spawn(Count(0)).unwrap();
    let mut asking = actor.call(add).within_async(HOUR);
    assert!(poll_once(&mut asking).is_pending());
    clock.advance(Duration::from_secs(3600));
    assert_eq!(timers.run_due(), 1);
    let answer = poll_once(&mut asking).map(limited);
    assert_eq!(answer, std::task::Poll::Ready(Got::Cancelled));
    assert_eq!(timers.len(), 0);
    // A limit that is no longer needed is disarmed at once.
    let (promise, reply) = actor.promise::<u32>();
    let mut asking = reply.within_async(HOUR);
    assert!(poll_once(&mut asking).is_pending());
    assert_eq!(timers.len(), 1);
    promise.keep(1);
    assert!(poll_once(&mut asking).is_ready());
    assert_eq!(timers.len(), 0);
}

#[test]
fn a_turn_that_asks_its_own_actor_is_told() {
    must_end(|| {
        for cell in TABLE.iter().filter(|cell| cell.is_question()) {
            for limit in [Limit::Immediate, HOUR, Limit::Unlimited] {
                let actor = Actor::new(Count(0));
                let itself = actor.clone();
                let got = actor.with(move |_| (cell.run)(&itself, limit)).unwrap();
                // One look is no wait.
                let is_late = cell.limit && limit == Limit::Immediate && got == cell.late();
                let is_told = matches!(got, Got::Refused(Reason::Deadlock(_)));
                assert!(is_told || is_late, "{got:?} {cell:?} {limit:?}");
                // It was withdrawn, however it was waited for.
                actor.idle().wait().unwrap();
                assert_eq!(actor.with(|count| count.0), Ok(0), "{cell:?} {limit:?}");
            }
        }
    });
}

#[test]
fn a_turn_that_waits_for_its_own_room_is_told() {
    must_end(|| {
        for cell in TABLE.iter().filter(|cell| cell.waits) {
            for limit in [Limit::Immediate, HOUR, Limit::Unlimited] {
                let actor = Actor::builder().capacity(1, Overflow::Reject).spawn(Count(0)).unwrap();
                let itself = actor.clone();
                let turn = move |_: &mut Count| {
                    itself.send(|count| count.0 += 100).unwrap();
                    (cell.run)(&itself, limit)
                };
                let got = actor.with(turn).unwrap();
                assert!(
                    matches!(got, Got::Refused(Reason::Deadlock(_))),
                    "{got:?} {cell:?} {limit:?}"
                );
                actor.idle().wait().unwrap();
                assert_eq!(actor.with(|count| count.0), Ok(100), "{cell:?} {limit:?}");
            }
        }
    });
}

#[test]
fn two_that_ask_each_other_get_out_by_a_limit() {
    must_end(|| {
        for cell in TABLE.iter().filter(|cell| cell.is_question() && cell.limit) {
            let (one, other) = (Actor::new(Count(0)), Actor::new(Count(0)));
            let held = Held::hold(&other);
            let (theirs, limit) = (other.clone(), Limit::Within(Duration::from_millis(2)));
            // The other one is busy for as long as this turn lasts: a cycle.
            let got = one.with(move |_| (cell.run)(&theirs, limit)).unwrap();
            assert_eq!(got, cell.late(), "{cell:?}");
            held.let_go();
            assert_eq!(other.with(|count| count.0), Ok(0), "{cell:?}");
        }
    });
}

#[test]
fn what_runs_when_the_time_is_over_is_said() {
    /// Starts a turn that lasts until it is ended, in another thread, as the queue's.
    fn in_its_turn(
        ask: impl FnOnce(&Actor<Count>, Arc<AtomicBool>, Arc<AtomicBool>) -> Got,
    ) -> (Got, Arc<AtomicBool>, thread::JoinHandle<()>, Actor<Count>) {
        let (queue, builder) = queued(9);
        let actor = builder.spawn(Count(0)).unwrap();
        let (begun, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let begins = begun.clone();
        let runner = thread::spawn(move || {
            until(|| {
                queue.run_until_idle();
                begins.load(SeqCst)
            });
        });
        let got = ask(&actor, begun, go.clone());
        (got, go, runner, actor)
    }
    let turn = |begun: Arc<AtomicBool>, go: Arc<AtomicBool>| {
        move |count: &mut Count| {
            begun.store(true, SeqCst);
            until(|| go.load(SeqCst));
            add(count)
        }
    };
    must_end(move || {
        // A future reports that it runs, and returns the reply.
        let (got, go, runner, actor) = in_its_turn(|actor, begun, go| {
            let reply = actor.call(turn(begun.clone(), go));
            until(|| begun.load(SeqCst));
            limited(block_on(reply.within_async(Duration::from_millis(2))))
        });
        assert_eq!(got, Got::Running);
        go.store(true, SeqCst);
        runner.join().unwrap();
        assert_eq!(actor.len(), 0);
    });
}

#[test]
fn a_future_that_is_dropped_leaves_nothing() {
    let tally = Tally::default();
    let (queue, actor) = full();
    let message = || {
        let token = tally.token();
        move |_: &mut Count| token.handle()
    };
    // Waiting for room: withdrawn.
    let mut sending = actor.waiting().send(message()).within_async(HOUR);
    assert!(poll_once(&mut sending).is_pending());
    drop(sending);
    let mut asking = actor.waiting().call(message()).within_async(HOUR);
    assert!(poll_once(&mut asking).is_pending());
    drop(asking);
    drop(actor.waiting().call(message()).within_async(Limit::Immediate));
    assert_eq!(tally.dropped(), 3);
    queue.run_until_idle();
    // With room: it keeps its place.
    let mut asking = actor.call(message()).within_async(HOUR);
    assert!(poll_once(&mut asking).is_pending());
    drop(asking);
    queue.run_until_idle();
    assert_eq!((tally.handled(), tally.dropped()), (1, 3));
    // A limit that is over is reported once, and returns the message.
    let late = actor.call(message()).within_async(Limit::Immediate);
    assert!(matches!(block_on(late), Err(WaitError::Cancelled(_))));
    queue.run_until_idle();
    assert_eq!((tally.handled(), tally.dropped()), (1, 4));
    tally.check();
}

#[test]
fn a_future_polled_after_its_end_says_so() {
    let taken = |answer: Result<u32, WaitError<u32>>| {
        matches!(answer, Err(WaitError::Ask(AskError::Taken)))
    };
    let (queue, actor) = full();
    for limit in [Limit::Immediate, HOUR] {
        let mut late = actor.call(add).within_async(limit);
        assert!(poll_once(&mut late).map(limited).is_ready());
        assert!(poll_once(&mut late).map(taken) == std::task::Poll::Ready(true));
    }
    let mut late = actor
        .waiting()
        .send(|count| {
            add(count);
        })
        .within_async(Limit::Immediate);
    assert!(poll_once(&mut late).map(sent) == std::task::Poll::Ready(Got::Refused(Reason::Full)));
    assert!(poll_once(&mut late).map(sent) == std::task::Poll::Ready(Got::Sent));
    let mut late = actor.waiting().call(add).within_async(Limit::Immediate);
    assert!(poll_once(&mut late).map(limited) == std::task::Poll::Ready(Got::Cancelled));
    assert!(poll_once(&mut late).map(taken) == std::task::Poll::Ready(true));
    queue.run_until_idle();
    assert_eq!(crate::common::asked(&queue, &actor, |count| count.0), 100);
}

#[test]
fn lent_closures_panic_in_their_callers() {
    must_end(|| {
        for inside in [false, true] {
            let queue = DrainQueue::new();
            let builder = Actor::builder().executor(queue.handle());
            let actor = builder.panic_policy(PanicPolicy::Resume).spawn(Count(0)).unwrap();
            let mut seen = 0;
            thread::scope(|scope| {
                let asking = scope.spawn(|| {
                    let question = |count: &mut Count| {
                        seen = add(count);
                        quiet_panic("in the turn")
                    };
                    let ask = || actor.with(question);
                    let asked = AssertUnwindSafe(|| if inside { in_turn(ask) } else { ask() });
                    let panic = catch_unwind(asked).map(|_: Result<(), _>| ()).unwrap_err();
                    *panic.downcast::<&'static str>().unwrap()
                });
                until(|| {
                    queue.run_until_idle();
                    asking.is_finished()
                });
                assert_eq!(asking.join().unwrap(), "in the turn");
            });
            assert_eq!(seen, 1);
            assert_eq!(crate::common::asked(&queue, &actor, |count| count.0), 1);
        }
    });
}

#[test]
fn questions_run_or_do_not_whatever_the_limit() {
    must_end(|| {
        let rounds = size(300, 20_000);
        let builder = Actor::builder().capacity(2, Overflow::Reject);
        let actor = builder.spawn(Count(0)).unwrap();
        let ran = thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u32)
                .map(|thread| {
                    let actor = &actor;
                    scope.spawn(move || {
                        let mut ran = 0;
                        for round in 0..rounds as u32 {
                            let limit =
                                Duration::from_nanos(u64::from(round % 7 * (thread + 1)) * 300);
                            let got = match round % 2 {
                                0 => actor.call(add).within(limit),
                                _ => actor.waiting().call(add).within(limit),
                            };
                            match got {
                                Ok(_) => ran += 1,
                                Err(WaitError::TimedOut(reply)) => {
                                    reply.wait().expect("it was running");
                                    ran += 1;
                                }
                                Err(WaitError::Cancelled(_)) => {}
                                Err(WaitError::Ask(AskError::Refused(Reason::Full, _))) => {}
                                Err(other) => panic!("{other}"),
                            }
                        }
                        ran
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
        });
        assert_eq!(actor.with(|count| count.0), Ok(ran));
        assert!(ran > 0);
    });
}

#[test]
fn a_lent_closure_of_a_stopped_actor_comes_back() {
    must_end(|| {
        let tally = Tally::default();
        for inside in [false, true] {
            let (queue, builder) = queued(9);
            let actor = builder.spawn(Count(0)).unwrap();
            actor.send(|count| count.0 += 100).unwrap();
            let token = tally.token();
            thread::scope(|scope| {
                let ask = || actor.with(|_| token.handle());
                let asking = scope.spawn(|| if inside { in_turn(ask) } else { ask() });
                until(|| actor.len() == 2);
                actor.stop();
                queue.run_until_idle();
                let stopped = Reason::Stopped(StopCause::Requested);
                assert_eq!(asking.join().unwrap(), Err(AskError::from(stopped)));
            });
        }
        assert_eq!((tally.handled(), tally.dropped()), (0, 2));
    });
}

/// A future that has been polled loses nothing when another branch wins.
#[test]
fn tokio_select_loops_lose_no_answer() {
    must_end(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (queue, actor) = full();
        let (go, goes) = mpsc::channel::<()>();
        let runner = thread::spawn(move || {
            goes.recv().unwrap();
            queue
        });
        let ran = Arc::new(Mutex::new(Vec::new()));
        let log = |name: &'static str| {
            let ran = ran.clone();
            move |count: &mut Count| {
                ran.lock().unwrap().push(name);
                add(count)
            }
        };
        let turns = runtime.block_on(async {
            let mut sending = actor.waiting().send({
                let log = log("sent");
                move |count| {
                    log(count);
                }
            });
            let mut asking = actor.waiting().call(log("asked"));
            let mut limited = actor.waiting().call(log("limited")).within_async(HOUR);
            let mut idle = actor.idle();
            let (mut turns, mut left, mut queue) = (0, 4, None);
            let (mut sent, mut asked, mut answered, mut is_idle) = (false, false, false, false);
            let mut runner = Some(runner);
            while left > 0 {
                tokio::select! {
                    biased;
                    // This branch wins repeatedly; the others were polled, or are.
                    () = tokio::task::yield_now(), if turns % 2 == 0 => {}
                    done = &mut sending, if !sent => {
                        done.unwrap();
                        sent = true;
                        left -= 1;
                    }
                    n = &mut asking, if !asked => {
                        assert!(n.unwrap() > 100);
                        asked = true;
                        left -= 1;
                    }
                    n = &mut limited, if !answered => {
                        assert!(n.unwrap() > 100);
                        answered = true;
                        left -= 1;
                    }
                    done = &mut idle, if !is_idle => {
                        done.unwrap();
                        is_idle = true;
                        left -= 1;
                    }
                    () = tokio::task::yield_now() => {}
                }
                turns += 1;
                if turns == 50 {
                    go.send(()).unwrap();
                    queue = runner.take().map(|runner| runner.join().unwrap());
                }
                if let Some(queue) = &queue {
                    queue.run_one();
                }
            }
            turns
        });
        assert!(turns > 50);
        assert_eq!(*ran.lock().unwrap(), ["sent", "asked", "limited"], "each once, in order");
    });
}

#[test]
fn selects_of_futures_lose_no_answer() {
    use futures_util::future::{Either, select};
    must_end(|| {
        let (queue, builder) = queued(9);
        let actor = builder.spawn(Count(0)).unwrap();
        let (mut one, mut other) = (actor.call(add), actor.ask(Add).within_async(HOUR));
        let mut never = std::future::pending::<()>();
        // Neither is ready: a select that is dropped has taken nothing.
        for _ in 0..3 {
            assert!(poll_once(&mut select(&mut one, &mut other)).is_pending());
        }
        queue.run_until_idle();
        let first = match block_on(select(&mut one, &mut other)) {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => panic!("the first one is polled first"),
        };
        assert_eq!(first, Ok(1));
        match block_on(select(&mut never, &mut other)) {
            Either::Right((answer, _)) => assert_eq!(limited(answer), Got::Answer(2)),
            Either::Left(_) => unreachable!(),
        }
        // Polled once more: an error, no panic.
        assert_eq!(block_on(&mut one), Err(AskError::Taken));
        assert!(matches!(block_on(&mut other), Err(WaitError::Ask(AskError::Taken))));
    });
}

/// A future may move from one task to another between two polls: the last one is woken.
#[test]
fn a_limited_question_wakes_who_polled_it_last() {
    let wakes = Arc::new(crate::common::CountWakes::default());
    let waker = std::task::Waker::from(wakes.clone());
    let (queue, builder) = queued(9);
    let actor = builder.spawn(Count(0)).unwrap();
    let mut asking = actor.call(add).within_async(HOUR);
    assert!(poll_once(&mut asking).is_pending());
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(std::pin::Pin::new(&mut asking).poll(&mut cx).is_pending());
    queue.run_until_idle();
    assert_eq!(wakes.0.load(SeqCst), 1);
    assert!(poll_once(&mut asking).is_ready());
}
