//! Typed messages, certain outcomes and limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Held, in_turn, size, tireless};
use turnwise::{
    Actor, ActorName, AskError, Clock, Context, Cycle, Handler, MonotonicClock, Reason, StopCause,
    Undelivered, WaitError,
};

#[derive(Default)]
struct Counter(Vec<u32>);
#[derive(Debug, PartialEq)]
struct Add(u32);
struct StopNow;
struct Clone3;

impl Handler<Add> for Counter {
    type Reply = usize;
    fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> usize {
        self.0.push(n);
        self.0.len()
    }
}
impl Handler<StopNow> for Counter {
    type Reply = ();
    fn handle(&mut self, _: StopNow, cx: &mut Context<'_, Self>) {
        cx.stop();
    }
}
impl Handler<Clone3> for Counter {
    type Reply = bool;
    fn handle(&mut self, _: Clone3, cx: &mut Context<'_, Self>) -> bool {
        match cx.actor() {
            Some(actor) => {
                for n in [7, 8, 9] {
                    actor.tell(Add(n)).unwrap();
                }
                true
            }
            None => false,
        }
    }
}

#[test]
fn messages_and_closures_run_in_one_order() {
    let counter = Actor::new(Counter::default());
    let busy = Held::hold(&counter);
    counter.tell(Add(1)).unwrap();
    counter.send(|counter| counter.0.push(2)).unwrap();
    let third = counter.ask(Add(3));
    counter.send(|counter| counter.0.push(4)).unwrap();
    busy.let_go();
    assert_eq!(third.wait(), Ok(3));
    assert_eq!(counter.with(|counter| counter.0.clone()).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_handler_reaches_its_own_actor_and_stops_it() {
    let counter = Actor::new(Counter::default());
    assert_eq!(counter.ask(Clone3).wait(), Ok(true));
    assert_eq!(counter.with(|counter| counter.0.clone()).unwrap(), [7, 8, 9]);
    counter.tell(StopNow).unwrap();
    let refused = counter.tell(Add(5)).unwrap_err();
    assert_eq!(refused.into_message(), Add(5));
    assert_eq!(counter.stop_cause(), Some(StopCause::Requested));
}

#[test]
fn a_turn_of_an_actor_without_handles_gets_none() {
    let seen = Arc::new(AtomicBool::new(true));
    struct Probe(Arc<AtomicBool>);
    struct Look;
    impl Handler<Look> for Probe {
        type Reply = ();
        fn handle(&mut self, _: Look, cx: &mut Context<'_, Self>) {
            self.0.store(cx.actor().is_some(), SeqCst);
        }
    }
    let probe = Actor::new(Probe(seen.clone()));
    let weak = probe.downgrade();
    // The message waits until the turn is over.
    in_turn(move || {
        probe.tell(Look).unwrap();
        drop(probe);
    });
    assert!(!seen.load(SeqCst));
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_cancelled_call_gives_its_message_back() {
    let counter = Actor::new(Counter::default());
    let busy = Held::hold(&counter);
    let call = counter.ask(Add(1));
    assert_eq!(call.cancel().unwrap(), Add(1));
    let late = counter.ask(Add(2)).within(Duration::from_millis(5));
    let Err(WaitError::Cancelled(message)) = late else { panic!("its actor is busy") };
    assert_eq!(message.into_message(), Add(2));
    busy.let_go();
    assert_eq!(counter.with(|counter| counter.0.len()).unwrap(), 0);
}

#[test]
fn a_limit_behind_a_longer_turn_ends_in_time() {
    let ran = Arc::new(AtomicBool::new(false));
    let n = Actor::new(());
    let busy = Held::hold(&n);
    let flag = ran.clone();
    let start = Instant::now();
    let late = n.call(move |_| flag.store(true, SeqCst)).within(Duration::from_millis(100));
    let took = start.elapsed();
    assert!(matches!(late, Err(WaitError::Cancelled(_))));
    assert!(took >= Duration::from_millis(100), "{took:?}");
    busy.let_go();
    n.idle().wait().unwrap();
    assert!(!ran.load(SeqCst));
}

#[test]
fn a_running_question_is_reported_as_running() {
    let n = Actor::new(0);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (begun, running) = std::sync::mpsc::channel();
    let asker = n.clone();
    let held = Held::hold(&n);
    let reply = asker.call(move |n| {
        begun.send(()).unwrap();
        let _ = wait.recv();
        *n += 1;
        *n
    });
    held.let_go_soon();
    running.recv().unwrap();
    let Err(WaitError::TimedOut(reply)) = reply.within(Duration::from_millis(5)) else {
        panic!("it is running")
    };
    let Err(reply) = reply.cancel() else { panic!("it cannot be cancelled") };
    drop(go);
    assert_eq!(reply.wait(), Ok(1));
    held.let_go();
}

#[test]
fn a_thousand_waiters_on_a_stopped_actor_are_told() {
    let n = Actor::new(0);
    let busy = Held::hold(&n);
    let replies: Vec<_> = (0..1000).map(|_| n.call(|n| *n)).collect();
    n.stop();
    let start = Instant::now();
    busy.let_go();
    for reply in replies {
        assert_eq!(reply.wait(), Err(AskError::from(Reason::Stopped(StopCause::Requested))));
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn undelivered_messages_come_as_what_they_are() {
    let seen = Arc::new(AtomicUsize::new(0));
    let sum = seen.clone();
    let counter = Actor::builder()
        .on_undelivered(move |message| match message {
            Undelivered::Message(message) => {
                sum.fetch_add(message.downcast::<Add>().unwrap().0 as usize, SeqCst);
            }
            Undelivered::Closure(closure) => {
                let mut other = Counter::default();
                closure(&mut other);
                sum.fetch_add(other.0[0] as usize, SeqCst);
            }
            _ => unreachable!(),
        })
        .spawn(Counter::default())
        .unwrap();
    let busy = Held::hold(&counter);
    counter.tell(Add(3)).unwrap();
    counter.send(|counter| counter.0.push(4)).unwrap();
    counter.stop();
    busy.let_go();
    assert_eq!(seen.load(SeqCst), 7);
}

#[test]
fn limits_are_measured_on_the_actors_own_clock() {
    #[derive(Debug)]
    struct Fast;
    impl Clock for Fast {
        fn now(&self) -> Duration {
            MonotonicClock.now() * 1_000_000
        }
    }
    let n = Actor::builder().clock(Fast).spawn(0).unwrap();
    let busy = Held::hold(&n);
    let late = n.call(|n| *n).wait_timeout(Duration::from_secs(60));
    assert!(matches!(late, Err(WaitError::TimedOut(_))));
    busy.let_go();
}

#[test]
fn no_reply_is_lost_under_load() {
    let rounds = size(3_000, 50_000);
    let n = Actor::new(0usize);
    let cancelled = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (n, cancelled) = (n.clone(), &cancelled);
            scope.spawn(move || {
                for round in 0..rounds {
                    let reply = n.call(|n| *n += 1);
                    match (round + thread) % 3 {
                        0 => drop(reply),
                        1 => reply.wait().unwrap(),
                        _ => match reply.cancel() {
                            Ok(()) => {
                                cancelled.fetch_add(1, SeqCst);
                            }
                            Err(reply) => reply.wait().unwrap(),
                        },
                    }
                }
            });
        }
    });
    assert_eq!(n.with(|n| *n).unwrap() + cancelled.load(SeqCst), 4 * rounds);
}

#[test]
fn an_answer_that_nobody_wants_comes_back() {
    use turnwise::promise;
    let answer = Arc::new(());
    let (cancelled, reply) = promise();
    assert!(reply.cancel().is_ok());
    let answer = cancelled.try_keep(answer).unwrap_err();

    let (dropped, reply) = promise();
    drop(reply);
    assert_eq!(dropped.try_keep(answer.clone()), Ok(()));
    assert_eq!(Arc::strong_count(&answer), 1, "dropped with the last side");

    let (kept, reply) = promise();
    assert_eq!(kept.try_keep(answer.clone()), Ok(()));
    assert_eq!(Arc::strong_count(&answer), 2);
    drop(reply);
    assert_eq!(Arc::strong_count(&answer), 1, "an answer that was not looked at is dropped");

    // Each answer reaches one side, however they race.
    for _ in 0..size(200, 20_000) {
        let (promise, reply) = promise();
        let keeper = thread::spawn(move || promise.try_keep(5));
        match reply.cancel() {
            Ok(()) => assert_eq!(keeper.join().unwrap(), Err(5)),
            Err(reply) => {
                assert_eq!(reply.wait(), Ok(5));
                assert_eq!(keeper.join().unwrap(), Ok(()));
            }
        }
    }
}

#[test]
fn a_promise_is_kept_broken_or_cancelled() {
    use turnwise::promise;
    let (kept, reply) = promise();
    let keeper = thread::spawn(move || kept.keep(5));
    assert_eq!(reply.wait(), Ok(5));
    keeper.join().unwrap();

    let (broken, reply) = promise::<u8>();
    drop(broken);
    assert_eq!(reply.wait(), Err(AskError::Abandoned(ActorName::ANY)));

    let (late, reply) = promise::<u8>();
    let Err(WaitError::TimedOut(reply)) = reply.wait_timeout(Duration::from_millis(1)) else {
        panic!("no answer comes")
    };
    assert!(reply.cancel().is_ok());
    assert!(late.is_cancelled());
    late.keep(1);

    // A panicking handler breaks the promises that its state held, when the state is dropped.
    let actor = Actor::new(Vec::new());
    let reply = actor.call(|held| {
        let (promise, reply) = promise::<u8>();
        held.push(promise);
        reply
    });
    actor.send(|_| std::panic::resume_unwind(Box::new("lost"))).unwrap();
    assert_eq!(reply.wait().unwrap().wait(), Err(AskError::Abandoned(ActorName::ANY)));
}

#[test]
fn a_claimed_promise_is_not_cancelled() {
    use turnwise::promise;
    let (mut kept, reply) = promise();
    assert!(kept.claim() && kept.claim() && !kept.is_cancelled());
    let reply = reply.cancel().unwrap_err();
    assert_eq!(kept.try_keep(5), Ok(()));
    assert_eq!(reply.wait(), Ok(5));

    let (mut broken, reply) = promise::<u8>();
    assert!(broken.claim());
    let reply = reply.cancel().unwrap_err();
    drop(broken);
    assert_eq!(reply.wait(), Err(AskError::Abandoned(ActorName::ANY)));

    let (mut late, reply) = promise();
    assert!(reply.cancel().is_ok());
    assert!(!late.claim() && late.is_cancelled());
    assert_eq!(late.try_keep(5), Err(5));

    // Dropped without being cancelled: it may be claimed, and no asker looks.
    let (mut alone, reply) = promise();
    drop(reply);
    assert!(alone.claim());
    assert_eq!(alone.try_keep(5), Ok(()));
}

#[test]
fn a_wait_by_reference_keeps_the_reply() {
    let actor = Actor::new(0);
    let own = actor.clone();
    let asked = actor.call(move |_| {
        let mut reply = own.call(|n| *n + 1);
        // One look is no wait, and loses nothing.
        assert_eq!(reply.wait_by_ref(Duration::ZERO), Ok(None));
        let deadlock = Reason::Deadlock(Cycle::from(["i32"]));
        let limit = Duration::from_secs(60);
        assert_eq!(reply.wait_by_ref(limit), Err(AskError::from(deadlock)));
        reply
    });
    // A refused request has been withdrawn, and never runs.
    let reply = asked.wait().unwrap();
    assert!(reply.cancel().is_ok());
    assert_eq!(actor.with(|n| *n), Ok(0));
    let mut reply = actor.call(|n| *n + 1);
    assert_eq!(reply.wait_by_ref(Duration::from_secs(60)), Ok(Some(1)));
    assert_eq!(reply.wait_by_ref(Duration::ZERO), Err(AskError::Taken));

    let (promise, mut reply) = turnwise::promise::<u8>();
    assert_eq!(reply.wait_by_ref(Duration::from_millis(1)), Ok(None));
    drop(promise);
    assert_eq!(reply.wait_by_ref(Duration::ZERO), Err(AskError::Abandoned(ActorName::ANY)));

    // A refused message is still there to be taken back.
    let closed = Actor::new(Counter::default());
    closed.close();
    let mut reply = closed.ask(Add(5));
    assert_eq!(reply.wait_by_ref(Duration::ZERO), Err(AskError::from(Reason::Closed)));
    assert_eq!(reply.cancel().ok(), Some(Add(5)));
}

#[test]
fn a_thread_knows_whether_it_is_in_a_turn() {
    let (one, other) = (Actor::new(()), Actor::new(()));
    assert!(!turnwise::in_turn());
    let nested = one.with(|()| (turnwise::in_turn(), other.with(|()| turnwise::in_turn())));
    assert_eq!(nested, Ok((true, Ok(true))));
    assert!(!turnwise::in_turn());
}

#[test]
fn a_stop_without_a_handle_is_seen_at_once() {
    let n = tireless(0);
    let weak = n.downgrade();
    let (tell, told) = std::sync::mpsc::channel();
    in_turn(move || {
        for i in 0..10 {
            let (tell, weak) = (tell.clone(), weak.clone());
            n.send(move |_| {
                tell.send(i).unwrap();
                if i == 3 {
                    assert!(weak.stop());
                }
            })
            .unwrap();
        }
        drop((tell, n));
    });
    assert_eq!(told.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}
