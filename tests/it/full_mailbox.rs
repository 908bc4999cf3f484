//! Full mailboxes: refusing, waiting for room in the order of the calls, dropping the newest.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{
    CountWakes, Gate, Held, Tally, asked, block_on, must_end, poll_once, size, until, waits,
};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorName, AskError, Clock, Cycle, Handler, Limit, Overflow, Promise, Reason, StopCause,
    Undelivered, WaitError, promise,
};

const FULL: AskError = AskError::Refused(Reason::Full, ActorName::ANY);
const CLOSED: AskError = AskError::Refused(Reason::Closed, ActorName::ANY);

type Log = Vec<u32>;

fn with_room_for(capacity: usize) -> Actor<Log> {
    Actor::builder().capacity(capacity, Overflow::Reject).spawn(Log::new()).unwrap()
}

/// An actor whose turn is held open, and whose mailbox is full of 0, 1, 2, ...
fn full(capacity: usize) -> (Actor<Log>, Held) {
    let log = with_room_for(capacity);
    let held = Held::hold(&log);
    (0..capacity as u32).for_each(|n| log.send(move |log| log.push(n)).unwrap());
    (log, held)
}

fn seen(log: &Actor<Log>) -> Log {
    log.with(|log| log.clone()).unwrap()
}

/// A message that is itself returned: it has no copy.
#[derive(Debug, PartialEq)]
struct Add(u32);

impl Handler<Add> for Log {
    type Reply = usize;
    fn handle(&mut self, Add(n): Add, _: &mut turnwise::Context<'_, Self>) -> usize {
        self.push(n);
        self.len()
    }
}

#[test]
fn ten_waiting_senders_are_let_in_in_their_order() {
    must_end(|| {
        for capacity in [1, 3, 64] {
            let (log, held) = full(capacity);
            let first = capacity as u32;
            let waiting: Vec<_> = (first..first + 10)
                .map(|n| {
                    // The call takes its place, whatever waits then, and however.
                    let mut sending = log.waiting().send(move |log| log.push(n));
                    assert!(poll_once(&mut sending).is_pending());
                    thread::spawn(move || match n % 2 {
                        0 => block_on(sending).unwrap(),
                        _ => sending.wait().unwrap(),
                    })
                })
                .collect();
            held.let_go();
            waiting.into_iter().for_each(|sender| sender.join().unwrap());
            assert_eq!(seen(&log), (0..first + 10).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_waiting_sender_is_overtaken_by_no_newcomer() {
    const WAITED: u32 = 1_000;
    const NEW: u32 = 2_000;
    must_end(|| {
        for round in 0..size(20, 300) {
            let capacity = [1, 2, 8][round % 3];
            let (log, held) = full(capacity);
            let sit = |n| {
                let mut sending = log.waiting().send(move |log| log.push(WAITED + n));
                assert!(poll_once(&mut sending).is_pending());
                sending
            };
            let waiting: Vec<_> = (0..3).map(sit).collect();
            let gate = Gate::new(17);
            thread::scope(|scope| {
                for n in 0..16 {
                    let (log, gate) = (&log, &gate);
                    scope.spawn(move || {
                        gate.pass();
                        match n % 4 {
                            0 => log.waiting().send(move |log| log.push(NEW + n)).wait().unwrap(),
                            1 => log.waiting().call(move |log| log.push(NEW + n)).wait().unwrap(),
                            _ => until(|| log.send(move |log| log.push(NEW + n)).is_ok()),
                        }
                    });
                }
                gate.pass();
                held.let_go_soon();
                waiting.into_iter().for_each(|sending| sending.wait().unwrap());
            });
            drop(held);
            let seen = seen(&log);
            let expected = (0..capacity as u32).chain(WAITED..WAITED + 3).collect::<Vec<_>>();
            assert_eq!(seen[..expected.len()], expected);
            assert_eq!(seen.len(), capacity + 3 + 16);
        }
    });
}

// Step by step: each place that becomes free is the waiter's, before any newcomer sees it.
#[test]
fn a_place_that_becomes_free_is_the_waiters() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().capacity(1, Overflow::Reject);
    let log = builder.executor(queue.handle()).budget(1).spawn(Log::new()).unwrap();
    log.send(|log| log.push(0)).unwrap();
    let mut waiting: Vec<_> =
        (1..4).map(|n| log.waiting().send(move |log: &mut Log| log.push(n))).collect();
    assert!(waiting.iter_mut().all(|sending| poll_once(sending).is_pending()));
    for turn in 1..4 {
        assert!(queue.run_one());
        for _ in 0..16 {
            assert_eq!(log.send(|log| log.push(99)).unwrap_err().reason(), &Reason::Full);
        }
        let let_in = waiting.iter_mut().map(poll_once).filter(Poll::is_ready).count();
        assert_eq!(let_in, turn);
    }
    assert!(queue.run_one());
    log.send(|log| log.push(4)).unwrap();
    assert_eq!(asked_for_log(&queue, &log), [0, 1, 2, 3, 4]);
}

#[test]
fn those_who_wait_are_let_in_within_the_limit() {
    for capacity in [1, 2, 5] {
        let queue = DrainQueue::new();
        let builder = Actor::builder().capacity(capacity, Overflow::Reject);
        let log = builder.executor(queue.handle()).budget(1).spawn(Log::new()).unwrap();
        (0..capacity as u32).for_each(|n| log.send(move |log| log.push(n)).unwrap());
        let waiting: Vec<_> = (0..7).map(|_| log.waiting().send(|log| log.push(9))).collect();
        while queue.run_one() {
            // No thread runs it now: all that is in it waits.
            assert!(log.len() <= capacity, "{} wait in a room for {capacity}", log.len());
        }
        waiting.into_iter().for_each(|sending| block_on(sending).unwrap());
    }
}

#[test]
fn a_place_is_held_from_the_call_on() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().capacity(1, Overflow::Reject);
    let log = builder.executor(queue.handle()).budget(1).spawn(Log::new()).unwrap();
    log.send(|log| log.push(0)).unwrap();
    let sending = log.waiting().send(|log| log.push(1));
    assert!(queue.run_one());
    assert_eq!(log.send(|log| log.push(2)).unwrap_err().reason(), &Reason::Full);
    block_on(sending).unwrap();
    assert_eq!(asked_for_log(&queue, &log), [0, 1]);
}

fn asked_for_log(queue: &DrainQueue, log: &Actor<Log>) -> Log {
    queue.run_until_idle();
    asked(queue, log, |log| log.clone())
}

#[test]
fn a_limited_wait_gives_the_message_back_in_time() {
    let (log, held) = full(1);
    let start = Instant::now();
    let limit = Duration::from_millis(50);
    let refused = log.waiting().send(|log| log.push(2)).within(limit).unwrap_err();
    assert!(start.elapsed() >= limit);
    assert_eq!(refused.reason(), &Reason::Full);
    let at_once = log.waiting().send(|log| log.push(3)).within(Limit::Immediate).unwrap_err();
    assert_eq!(at_once.reason(), &Reason::Full);
    let told = log.waiting().tell(Add(4)).within(Duration::from_millis(1)).unwrap_err();
    assert_eq!(told.into_parts(), (Add(4), Reason::Full));
    held.let_go();
    assert_eq!(seen(&log), [0], "none of them ever runs");
    let mut elsewhere = Log::new();
    refused.into_message()(&mut elsewhere);
    assert_eq!(elsewhere, [2]);
}

#[test]
fn many_wait_for_a_small_mailbox_and_nothing_is_lost() {
    let rounds = size(2_000, 50_000);
    must_end(move || {
        for capacity in [1, 2, 7] {
            let n = Actor::builder().capacity(capacity, Overflow::Reject).spawn(0).unwrap();
            let tally = Tally::default();
            thread::scope(|scope| {
                for me in 0..4 {
                    let (n, tally) = (&n, &tally);
                    scope.spawn(move || {
                        for round in 0..rounds {
                            let token = tally.token();
                            let message = move |n: &mut usize| {
                                *n += 1;
                                token.handle();
                            };
                            match (me + round) % 4 {
                                0 => n.waiting().send(message).wait().map_err(drop).unwrap(),
                                1 => block_on(n.waiting().send(message)).map_err(drop).unwrap(),
                                2 => n.waiting().call(message).wait().unwrap(),
                                _ => block_on(n.waiting().call(message)).unwrap(),
                            }
                        }
                    });
                }
            });
            assert_eq!(n.with(|n| *n).unwrap(), 4 * rounds);
            tally.check_all_handled();
        }
    });
}

#[test]
fn timing_out_and_being_let_in_exclude_each_other() {
    let rounds = size(300, 5_000);
    let n = Actor::builder().capacity(1, Overflow::Reject).spawn(0usize).unwrap();
    let (sent, tally) = (AtomicUsize::new(0), Tally::default());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (n, sent, tally) = (&n, &sent, &tally);
            scope.spawn(move || {
                for round in 0..rounds {
                    let limit = Duration::from_micros((round * 7 + thread) as u64 % 50);
                    let token = tally.token();
                    let work = move |n: &mut usize| {
                        *n += 1;
                        std::hint::black_box((0..200).fold(0, |a, b| a ^ b));
                        token.handle();
                    };
                    if thread % 2 == 0 {
                        match n.waiting().send(work).within(limit) {
                            Ok(()) => _ = sent.fetch_add(1, SeqCst),
                            Err(error) => assert_eq!(error.reason(), &Reason::Full),
                        }
                    } else {
                        match n.waiting().call(work).within(limit) {
                            Ok(()) => _ = sent.fetch_add(1, SeqCst),
                            // It is running, so it certainly runs to its end.
                            Err(WaitError::TimedOut(reply)) => {
                                reply.wait().unwrap();
                                sent.fetch_add(1, SeqCst);
                            }
                            Err(WaitError::Cancelled(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(n.with(|n| *n).unwrap(), sent.load(SeqCst));
    tally.check();
    assert_eq!(tally.handled(), sent.load(SeqCst));
}

#[test]
fn closing_turns_those_who_wait_away() {
    let (log, held) = full(1);
    let sending: Vec<_> = (0..4).map(|n| log.waiting().tell(Add(n))).collect();
    let mut asking = log.waiting().ask(Add(9));
    assert!(poll_once(&mut asking).is_pending());
    let waiting: Vec<_> =
        sending.into_iter().map(|sending| thread::spawn(move || sending.wait())).collect();
    log.close();
    let late = log.waiting().tell(Add(7)).wait().unwrap_err();
    assert_eq!(late.into_parts(), (Add(7), Reason::Closed));
    assert_eq!(log.waiting().call(|_| ()).wait(), Err(CLOSED));
    let mut later = log.waiting().tell(Add(8));
    let refused = block_on(&mut later).unwrap_err();
    assert_eq!(refused.into_parts(), (Add(8), Reason::Closed));
    assert!(matches!(poll_once(&mut later), Poll::Ready(Ok(()))), "it was ready before");
    held.let_go();
    for (n, sender) in waiting.into_iter().enumerate() {
        let refused = sender.join().unwrap().unwrap_err();
        assert_eq!(refused.into_parts(), (Add(n as u32), Reason::Closed));
    }
    assert_eq!(block_on(asking), Err(CLOSED));
}

#[test]
fn a_wait_at_a_closed_mailbox_is_over_at_once() {
    must_end(|| {
        let (log, held) = full(1);
        let mut polled = log.waiting().tell(Add(5));
        assert!(poll_once(&mut polled).is_pending());
        let waits = log.waiting().tell(Add(6));
        log.close();
        // The turn is still held, so the places are not reached.
        let Poll::Ready(Err(refused)) = poll_once(&mut polled) else { panic!("it is closed") };
        assert_eq!(refused.into_parts(), (Add(5), Reason::Closed));
        assert_eq!(waits.wait().unwrap_err().into_parts(), (Add(6), Reason::Closed));
        held.let_go();
    });
}

/// A clock whose sleepers are woken twice without cause, and then when their time is over.
#[derive(Clone, Debug, Default)]
struct Restless(Arc<AtomicUsize>);

impl Clock for Restless {
    fn now(&self) -> Duration {
        Duration::from_secs(u64::from(self.0.load(SeqCst) > 2))
    }

    fn park_until(&self, _: Duration) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn who_is_woken_without_cause_waits_on_for_room() {
    must_end(|| {
        let clock = Restless::default();
        let builder = Actor::builder().capacity(1, Overflow::Reject);
        let log = builder.clock(clock.clone()).spawn(Log::new()).unwrap();
        let held = Held::hold(&log);
        log.send(|log| log.push(0)).unwrap();
        let told = log.waiting().tell(Add(1)).within(Duration::from_secs(1)).unwrap_err();
        assert_eq!(told.into_parts(), (Add(1), Reason::Full));
        assert_eq!(clock.0.load(SeqCst), 3, "it gave up before its time");
        held.let_go();
    });
}

#[test]
fn a_stop_turns_those_who_wait_away_with_its_cause() {
    let (log, held) = full(2);
    let sending = log.waiting().tell(Add(5));
    let asking = log.waiting().ask(Add(6));
    log.stop();
    held.let_go();
    let stopped = Reason::Stopped(StopCause::Requested);
    assert_eq!(sending.wait().unwrap_err().into_parts(), (Add(5), stopped.clone()));
    assert_eq!(asking.wait(), Err(AskError::from(stopped)));
}

#[test]
fn a_dropped_future_withdraws_its_message() {
    let (log, held) = full(1);
    let mut sending = log.waiting().send(|log| log.push(2));
    let mut asking = log.waiting().call(|log| log.push(3));
    let mut later = log.waiting().send(|log| log.push(4));
    assert!(poll_once(&mut sending).is_pending());
    assert!(poll_once(&mut asking).is_pending());
    assert!(poll_once(&mut later).is_pending());
    // One that was never polled, too.
    drop((sending, asking, log.waiting().send(|log| log.push(5))));
    held.let_go();
    block_on(later).unwrap();
    assert_eq!(seen(&log), [0, 4]);
}

#[test]
fn a_forgotten_future_is_in_nobodys_way() {
    must_end(|| {
        let (log, held) = full(1);
        let mut forgotten = log.waiting().send(|log| log.push(1));
        assert!(poll_once(&mut forgotten).is_pending());
        std::mem::forget((forgotten, log.waiting().send(|log| log.push(2))));
        let last = log.waiting().send(|log| log.push(3));
        held.let_go_soon();
        last.wait().unwrap();
        drop(held);
        assert_eq!(seen(&log), [0, 1, 2, 3]);
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    let (log, held) = full(1);
    let mut sending = log.waiting().send(|log| log.push(1));
    let (first, second) = (Arc::new(CountWakes::default()), Arc::new(CountWakes::default()));
    for wakes in [&first, &second] {
        let waker = Waker::from(wakes.clone());
        let polled = Pin::new(&mut sending).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    assert_eq!(Arc::strong_count(&first), 1, "nothing keeps the old one");
    held.let_go();
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
    assert!(matches!(poll_once(&mut sending), Poll::Ready(Ok(()))));
    assert_eq!(seen(&log), [0, 1]);
}

#[test]
fn a_question_that_waits_for_room_is_answered() {
    must_end(|| {
        let (log, held) = full(1);
        let (call, ask) = (log.waiting().call(|log| log.len()), log.waiting().ask(Add(1)));
        let mut future = log.waiting().ask(Add(2));
        assert!(poll_once(&mut future).is_pending());
        let within = log.waiting().call(|log| log.len());
        held.let_go_soon();
        assert_eq!(call.wait(), Ok(1));
        assert_eq!(ask.wait(), Ok(2));
        assert_eq!(block_on(&mut future), Ok(3));
        assert_eq!(poll_once(&mut future), Poll::Ready(Err(AskError::Taken)));
        assert_eq!(within.within(Duration::MAX).unwrap(), 3);
        drop(held);
        // With room, it is a request like any other.
        assert_eq!(log.waiting().call(|log| log.len()).wait(), Ok(3));
        assert_eq!(block_on(log.waiting().ask(Add(3))), Ok(4));
        assert_eq!(log.waiting().ask(Add(4)).within(Duration::ZERO).unwrap(), 5);
    });
}

#[test]
fn a_limit_is_for_room_and_answer_together() {
    must_end(|| {
        // No room in time: the message comes back.
        let (log, held) = full(1);
        for limit in [Duration::ZERO, Duration::from_millis(5)] {
            let Err(WaitError::Cancelled(back)) = log.waiting().ask(Add(9)).within(limit) else {
                panic!("there is no room")
            };
            assert_eq!(back.into_message(), Add(9));
            let called = log.waiting().call(|log| log.push(9)).within(limit);
            assert!(matches!(called, Err(WaitError::Cancelled(_))), "{called:?}");
        }
        held.let_go();
        assert_eq!(seen(&log), [0], "none of them ever runs");
        // Room in time, and no turn: the same.
        let queue = DrainQueue::new();
        let builder = Actor::builder().capacity(1, Overflow::Reject);
        let log = builder.executor(queue.handle()).spawn(Log::new()).unwrap();
        let asked = log.waiting().ask(Add(9)).within(Duration::from_millis(5));
        let Err(WaitError::Cancelled(back)) = asked else { panic!("{asked:?}") };
        assert_eq!(back.into_message(), Add(9));
        assert_eq!(asked_for_log(&queue, &log), [0; 0]);
        // The turn has begun in time: the reply comes back.
        let (log, held) = full(1);
        let (begin, begun) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let mut asking = log.waiting().call(move |_| {
            begin.send(()).unwrap();
            wait.recv().unwrap_err();
            7
        });
        assert!(poll_once(&mut asking).is_pending());
        held.let_go_soon();
        begun.recv().unwrap();
        let Err(WaitError::TimedOut(reply)) = asking.within(Duration::from_millis(5)) else {
            panic!("it runs")
        };
        drop(go);
        assert_eq!(reply.wait(), Ok(7));
        drop(held);
    });
}

#[test]
fn waiting_for_room_in_ones_own_turn_fails_at_once() {
    must_end(|| {
        let log = with_room_for(1);
        let me = log.clone();
        let refused = log.with(move |_| {
            me.send(|log| log.push(1)).unwrap();
            let sent = me.waiting().tell(Add(2)).wait().unwrap_err();
            let limited = me.waiting().tell(Add(3)).within(Duration::MAX).unwrap_err();
            let asked = me.waiting().ask(Add(4)).wait();
            let within = me.waiting().ask(Add(5)).within(Duration::MAX).unwrap_err();
            (sent.into_parts(), limited.into_parts(), asked, within.to_string())
        });
        let name = std::any::type_name_of_val(&seen(&log));
        let own = Reason::Deadlock(Cycle::from([name]));
        let (first, second) = ((Add(2), own.clone()), (Add(3), own.clone()));
        let text = format!("no answer from `{name}`: {own}");
        assert_eq!(refused, Ok((first, second, Err(own.into()), text)));
        assert_eq!(seen(&log), [1]);
    });
}

#[test]
fn a_refused_reply_gives_its_message_back() {
    let (log, held) = full(1);
    let refused = log.ask(Add(5));
    assert!(refused.is_ready());
    assert_eq!(refused.cancel().unwrap(), Add(5));
    assert_eq!(log.posted().ask(Add(6)).cancel().unwrap(), Add(6));
    assert_eq!(log.ask(Add(7)).wait(), Err(FULL));
    log.close();
    assert_eq!(log.ask(Add(8)).cancel().unwrap(), Add(8));
    assert_eq!(log.waiting().ask(Add(9)).wait(), Err(CLOSED));
    held.let_go();
}

#[test]
fn the_newest_is_dropped_when_that_was_asked_for() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let hook = dropped.clone();
    let log = Actor::builder()
        .capacity(2, Overflow::DropNewest)
        .on_undelivered(move |message: Undelivered<Log>| hook.lock().unwrap().push(message))
        .spawn(Log::new())
        .unwrap();
    let held = Held::hold(&log);
    for n in 0..5 {
        log.send(move |log| log.push(n)).unwrap();
    }
    // A request needs an answer, so it is refused. A sender does not wait for room here.
    assert_eq!(log.call(|log| log.push(9)).wait(), Err(FULL));
    assert_eq!(log.waiting().call(|log| log.push(9)).wait(), Err(FULL));
    log.waiting().send(|log| log.push(5)).wait().unwrap();
    held.let_go();
    assert_eq!(seen(&log), [0, 1]);
    let mut elsewhere = Log::new();
    for message in std::mem::take(&mut *dropped.lock().unwrap()) {
        crate::common::closure(message)(&mut elsewhere);
    }
    assert_eq!(elsewhere, [2, 3, 4, 5]);
}

#[test]
fn dropping_under_load_accounts_for_every_message() {
    let rounds = size(5_000, 100_000);
    for capacity in [1, 5] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = dropped.clone();
        let n = Actor::builder()
            .capacity(capacity, Overflow::DropNewest)
            .on_undelivered(move |_: Undelivered<usize>| _ = count.fetch_add(1, SeqCst))
            .spawn(0usize)
            .unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                let n = n.clone();
                scope.spawn(move || (0..rounds).for_each(|_| n.send(|n| *n += 1).unwrap()));
            }
        });
        n.idle().wait().unwrap();
        let handled = n.with(|n| *n).unwrap();
        assert_eq!(handled + dropped.load(SeqCst), 3 * rounds);
    }
}

#[test]
fn actors_that_only_send_to_each_other_never_hang() {
    struct Peer(Vec<Actor<Peer>>, u32);
    fn pass(peer: &mut Peer) {
        peer.1 += 1;
        if peer.1 < 2_000 {
            for other in &peer.0 {
                let _ = other.send(pass);
            }
        }
    }
    must_end(|| {
        let build = |_| Actor::builder().capacity(1, Overflow::Reject).spawn(Peer(Vec::new(), 0));
        let peers: Vec<_> = (0..3).map(build).collect::<Result<_, _>>().unwrap();
        for peer in &peers {
            let all = peers.clone();
            peer.send(move |peer| peer.0 = all).unwrap();
        }
        thread::scope(|scope| {
            for peer in &peers {
                scope.spawn(move || peer.send(pass));
            }
        });
        // Each may wake the others: several rounds.
        until(|| peers.iter().all(Actor::is_idle));
        for peer in &peers {
            peer.idle().wait().unwrap();
            peer.waiting().call(|peer| peer.0.clear()).wait().unwrap();
        }
    });
}

/// Sends when it is woken.
struct Newcomer(Actor<Log>);

impl Wake for Newcomer {
    fn wake(self: Arc<Self>) {
        self.0.send(|log| log.push(77)).unwrap();
    }
}

/// Waiters for room beside a suspended turn are overtaken by no newcomer, while the turn goes on
/// and after it.
#[test]
fn beside_a_turn_that_waits_nobody_is_overtaken() {
    for (capacity, turn_waits) in [(1, false), (1, true), (4, false), (4, true)] {
        let queue = DrainQueue::new();
        let builder = Actor::builder().executor(queue.handle());
        let log = builder.capacity(capacity, Overflow::Reject).spawn(Log::new()).unwrap();
        let (go, gone) = promise::<()>();
        let turn = turn_waits.then(|| {
            let turn = log.run(async move |_: &mut Log| _ = gone.await);
            queue.run_until_idle();
            turn
        });
        let newcomer = |log: &Actor<Log>, n: u32| {
            let sent = log.send(move |log| log.push(n));
            sent.map_err(|refused| refused.into_reason())
        };
        for n in 0..capacity as u32 {
            // As soon as it runs, one that waits has its place.
            let itself = log.clone();
            log.send(move |log: &mut Log| {
                log.push(n);
                if n == 0 {
                    assert_eq!(newcomer(&itself, 99), Err(Reason::Full));
                }
            })
            .unwrap();
        }
        let mut waits = log.waiting().send(|log| log.push(50));
        assert!(poll_once(&mut waits).is_pending());
        // One arrives as soon as the mailbox is released.
        let mut idle = log.idle();
        let waker = Waker::from(Arc::new(Newcomer(log.clone())));
        assert!(Pin::new(&mut idle).poll(&mut Context::from_waker(&waker)).is_pending());
        go.keep(());
        assert_eq!(newcomer(&log, 98), Err(Reason::Full));
        queue.run_until_idle();
        assert!(matches!(poll_once(&mut waits), Poll::Ready(Ok(()))));
        let expected: Log = (0..capacity as u32).chain([50, 77]).collect();
        assert_eq!(asked_for_log(&queue, &log), expected, "{capacity}, {turn_waits}");
        turn.into_iter().for_each(|turn| assert_eq!(turn.wait(), Ok(())));
    }
}

/// A waiter leaves the queue in one step, however many stand before it and after it.
#[test]
fn many_give_up_in_any_order() {
    must_end(|| {
        let waiters = size(10_000, 400_000);
        for latest_first in [true, false] {
            let (log, held) = full(1);
            let mut waiting: Vec<_> =
                (0..waiters).map(|_| log.waiting().send(|log| log.push(9))).collect();
            let last = log.waiting().send(|log| log.push(1));
            if latest_first {
                while waiting.pop().is_some() {}
            }
            drop(waiting);
            held.let_go();
            last.wait().unwrap();
            assert_eq!(seen(&log), [0, 1]);
        }
    });
}

/// Random numbers from a seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % n
    }
}

/// The promise of a capacity, as a list of the messages in the mailbox and a list of the waiters
/// for room, to compare with the actor.
#[derive(Default)]
struct Spec {
    /// The suspended turn, if there is one.
    turn: Option<Promise<()>>,
    /// It has been woken.
    woken: bool,
    inside: VecDeque<u32>,
    outside: VecDeque<u32>,
    ran: Log,
}

impl Spec {
    /// Adds a message to the mailbox if there is room.
    fn accepts(&mut self, capacity: usize, n: u32) -> bool {
        let fits = self.inside.len() < capacity && self.outside.is_empty();
        if fits {
            self.inside.push_back(n);
        }
        fits
    }

    /// The executor runs everything that can be run.
    fn run(&mut self) {
        if self.turn.is_some() && !self.woken {
            return;
        }
        if std::mem::take(&mut self.woken) {
            self.turn = None;
        }
        while let Some(n) = self.inside.pop_front() {
            self.ran.push(n);
            self.inside.extend(self.outside.pop_front());
        }
    }
}

/// The mailbox is never full beside a free place, and no waiter is overtaken: random sends, waits,
/// polls, drops and forgotten futures, turns that wait and are woken, against a list.
#[test]
fn a_mailbox_with_a_capacity_is_a_list() {
    for seed in 0..size(300, 20_000) as u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let capacity = 1 + rng.below(3);
        let queue = DrainQueue::new();
        let builder = Actor::builder().executor(queue.handle());
        let log = builder.capacity(capacity, Overflow::Reject).spawn(Log::new()).unwrap();
        let mut spec = Spec::default();
        let mut waits = Vec::new();
        for n in 0..60 {
            match rng.below(8) {
                0 | 1 => {
                    let sent = log.send(move |log| log.push(n)).is_ok();
                    assert_eq!(sent, spec.accepts(capacity, n), "seed {seed}, message {n}");
                }
                2 | 3 => {
                    let mut sending = log.waiting().send(move |log: &mut Log| log.push(n));
                    let is_in = spec.accepts(capacity, n);
                    if rng.below(2) == 0 {
                        assert_eq!(poll_once(&mut sending).is_ready(), is_in, "seed {seed}, {n}");
                    }
                    if !is_in {
                        spec.outside.push_back(n);
                        waits.push((n, sending));
                    }
                }
                4 if !waits.is_empty() => {
                    let (n, mut sending) = waits.swap_remove(rng.below(waits.len()));
                    let is_in = !spec.outside.contains(&n);
                    match rng.below(3) {
                        0 => {
                            drop(sending);
                            spec.outside.retain(|&waits| waits != n);
                        }
                        1 => std::mem::forget(sending),
                        _ => {
                            assert_eq!(poll_once(&mut sending).is_ready(), is_in, "seed {seed}");
                            if !is_in {
                                waits.push((n, sending));
                            }
                        }
                    }
                }
                5 if spec.turn.is_none() && spec.inside.is_empty() => {
                    let (go, gone) = promise::<()>();
                    drop(log.run(async move |_: &mut Log| _ = gone.await));
                    queue.run_until_idle();
                    spec.turn = Some(go);
                }
                6 if !spec.woken => {
                    if let Some(go) = spec.turn.take() {
                        go.keep(());
                        spec.turn = Some(promise().0);
                        spec.woken = true;
                    }
                }
                7 => {
                    queue.run_until_idle();
                    spec.run();
                }
                _ => {}
            }
            let begun = usize::from(spec.turn.is_some());
            assert_eq!(log.len(), spec.inside.len() + begun, "seed {seed}");
        }
        if let Some(go) = spec.turn.take() {
            go.keep(());
            (spec.turn, spec.woken) = (Some(promise().0), true);
        }
        queue.run_until_idle();
        spec.run();
        assert!(waits.iter_mut().all(|(_, sending)| poll_once(sending).is_ready()), "seed {seed}");
        assert_eq!(asked_for_log(&queue, &log), spec.ran, "seed {seed}");
    }
}

#[test]
fn a_waiter_that_is_not_refused_yet_can_give_up() {
    must_end(|| {
        for stops in [false, true] {
            let queue = DrainQueue::new();
            let builder = Actor::builder().executor(queue.handle());
            let log = builder.capacity(1, Overflow::Reject).spawn(Log::new()).unwrap();
            log.send(|log| log.push(1)).unwrap();
            let mut first = log.waiting().send(|log: &mut Log| log.push(2));
            let second = log.waiting().send(|log: &mut Log| log.push(3));
            let (says, said) = mpsc::channel();
            let look = move || {
                let refused = second.within(Duration::ZERO).unwrap_err();
                says.send(refused.into_reason()).unwrap();
            };
            waits(&mut first, look);
            assert!(if stops { log.stop() } else { log.close() });
            let reason = said.try_recv().expect("the waker was called");
            assert_eq!(reason, Reason::Full, "its own limit came first");
            assert!(first.wait().is_err());
            queue.run_until_idle();
        }
    });
}

/// A request that waits for room is refused, and its drop panics: it is answered nevertheless.
#[test]
fn a_refused_question_that_panics_in_its_drop_is_answered() {
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the drop of a question");
        }
    }
    let queue = DrainQueue::new();
    let full = Actor::builder().executor(queue.handle()).capacity(1, Overflow::Reject);
    let full = full.spawn(()).unwrap();
    full.send(|_| ()).unwrap();
    let bomb = Bomb;
    let mut asking = Box::pin(full.waiting().call(move |_| {
        let _ = &bomb;
    }));
    assert!(poll_once(&mut asking).is_pending());
    full.close();
    assert_eq!(poll_once(&mut asking), Poll::Ready(Err(CLOSED)));
}
