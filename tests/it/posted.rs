//! Posted messages: a caller that holds a lock which the message takes does not run it; another
//! thread does.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::common::until;
use turnwise::time::Timers;
use turnwise::{
    Actor, Context, Drain, Handler, Overflow, Reason, StopCause, Undelivered, VirtualClock,
};

type Seen = HashSet<ThreadId>;

fn note(seen: &mut Seen) {
    seen.insert(thread::current().id());
}

struct Mark;
impl Handler<Mark> for Seen {
    type Reply = ();
    fn handle(&mut self, _: Mark, _: &mut Context<'_, Self>) {
        note(self);
    }
}

#[test]
fn it_is_run_soon_and_never_by_its_sender() {
    let actor = Actor::new(Seen::new());
    actor.posted().send(note).unwrap();
    actor.posted().tell(Mark).unwrap();
    let called = actor.posted().call(note);
    let asked = actor.posted().ask(Mark);
    // Only looks: only another thread can have run them.
    until(|| actor.is_idle());
    assert!(called.is_ready() && asked.is_ready());
    assert_eq!((called.wait(), asked.wait()), (Ok(()), Ok(())));
    let seen = actor.with(|seen| seen.clone()).unwrap();
    assert!(!seen.is_empty() && !seen.contains(&thread::current().id()), "{seen:?}");
}

#[test]
fn a_lock_that_the_message_wants_may_be_held() {
    let rounds = if cfg!(miri) { 5 } else { 200 };
    let lock = Arc::new(Mutex::new(0));
    let actor = Actor::new(lock.clone());
    for _ in 0..rounds {
        let held = lock.lock().unwrap();
        actor.posted().send(|lock| *lock.lock().unwrap() += 1).unwrap();
        drop(held);
    }
    actor.idle().wait().unwrap();
    assert_eq!(*lock.lock().unwrap(), rounds);
}

#[test]
fn not_after_the_turn_it_was_posted_in_either() {
    let (first, second) = (Actor::new(()), Actor::new(Seen::new()));
    let target = second.clone();
    first.send(move |()| target.posted().send(note).unwrap()).unwrap();
    until(|| second.is_idle());
    assert!(!second.with(|seen| seen.contains(&thread::current().id())).unwrap());
}

#[test]
fn an_executor_gets_one_drain_for_many() {
    let queue = Arc::new(Mutex::new(VecDeque::<Drain>::new()));
    let inner = queue.clone();
    let actor = Actor::builder()
        .executor(move |drain| inner.lock().unwrap().push_back(drain))
        .spawn(Seen::new())
        .unwrap();
    actor.posted().send(note).unwrap();
    actor.posted().tell(Mark).unwrap();
    assert_eq!((actor.len(), queue.lock().unwrap().len()), (2, 1));
    let drain = queue.lock().unwrap().pop_front().unwrap();
    drain.run();
    assert!(actor.is_idle());
    assert!(queue.lock().unwrap().is_empty());
}

#[test]
fn the_last_handle_may_go_at_once() {
    let (tx, ended) = std::sync::mpsc::channel();
    let (told, here) = (tx.clone(), thread::current().id());
    let actor = Actor::builder().on_end(move |n, _| tx.send(n).unwrap()).spawn(0).unwrap();
    let message = move |n: &mut i32| {
        // Not in the drop of the handle either.
        told.send(if thread::current().id() == here { -1 } else { 7 }).unwrap();
        *n += 1;
    };
    actor.posted().send(message).unwrap();
    drop(actor);
    assert_eq!(ended.iter().collect::<Vec<_>>(), [7, 1]);
}

#[test]
fn a_closed_or_full_one_gives_it_back() {
    let actor = Actor::builder().capacity(1, Overflow::Reject).spawn(0).unwrap();
    let inside = actor.clone();
    actor
        .with(|_| {
            inside.posted().send(|n| *n += 1).unwrap();
            assert_eq!(inside.posted().send(|n| *n += 1).unwrap_err().reason(), &Reason::Full);
        })
        .unwrap();
    actor.close();
    assert_eq!(actor.posted().send(|n| *n += 1).unwrap_err().reason(), &Reason::Closed);
    // Messages that a stop finds waiting are given back, whatever thread was to run them.
    let back = Arc::new(AtomicUsize::new(0));
    let given = back.clone();
    let ran = Arc::new(AtomicUsize::new(0));
    let actor = Actor::builder()
        .on_undelivered(move |message| {
            assert!(matches!(message, Undelivered::Closure(_)));
            given.fetch_add(1, SeqCst);
        })
        .spawn(ran.clone())
        .unwrap();
    actor.posted().send(|ran| _ = ran.fetch_add(1, SeqCst)).unwrap();
    actor.stop();
    actor.ended().within(turnwise::Limit::Unlimited).unwrap();
    assert_eq!(actor.stop_cause(), Some(StopCause::Requested));
    assert_eq!(ran.load(SeqCst) + back.load(SeqCst), 1);
}

#[test]
fn posters_and_senders_lose_nothing_in_any_overflow() {
    let per_thread: usize = if cfg!(miri) { 20 } else { 3_000 };
    for overflow in [None, Some(Overflow::Reject), Some(Overflow::DropNewest)] {
        let lost = Arc::new(AtomicUsize::new(0));
        let dropped = lost.clone();
        let mut builder =
            Actor::builder().on_undelivered(move |_| _ = dropped.fetch_add(1, SeqCst));
        if let Some(overflow) = overflow {
            builder = builder.capacity(2, overflow);
        }
        let actor = builder.spawn(0).unwrap();
        thread::scope(|scope| {
            for thread in 0..3 {
                let (actor, lost) = (&actor, &lost);
                scope.spawn(move || {
                    for _ in 0..per_thread {
                        let sent = match thread {
                            0 => actor.send(|n| *n += 1).is_ok(),
                            _ => actor.posted().send(|n| *n += 1).is_ok(),
                        };
                        lost.fetch_add(usize::from(!sent), SeqCst);
                    }
                });
            }
        });
        // Without help by another caller.
        until(|| actor.is_idle());
        let handled = actor.with(|n| *n).unwrap();
        assert_eq!(handled + lost.load(SeqCst), 3 * per_thread, "{overflow:?}");
    }
}

/// An executor may run a drain in the call that it is given it.
#[test]
fn nor_by_an_executor_that_runs_at_once() {
    let (clock, (tell, told)) = (VirtualClock::new(), mpsc::channel());
    let timers = Timers::by_hand(clock.clone());
    let builder = Actor::builder().executor(Drain::run).timers(timers.clone());
    let actor = builder.spawn(()).unwrap();
    let message = || {
        let tell = tell.clone();
        move |(): &mut ()| tell.send(thread::current().id()).unwrap()
    };
    let ways: [(&str, &dyn Fn()); 3] = [
        ("here", &|| actor.posted().send(message()).unwrap()),
        ("in a turn", &|| {
            let (target, message) = (actor.clone(), message());
            Actor::new(()).send(move |()| target.posted().send(message).unwrap()).unwrap();
        }),
        ("later", &|| {
            actor.posted().send_after(Duration::from_secs(1), message()).forget();
            clock.advance(Duration::from_secs(1));
            assert_eq!(timers.run_due(), 1);
        }),
    ];
    for (name, way) in ways {
        way();
        assert_ne!(told.recv().unwrap(), thread::current().id(), "{name}");
    }
}

/// An executor may send the drain to an idle actor, which the same thread would run next.
#[test]
fn nor_by_an_executor_that_sends_it_to_an_actor() {
    let (clock, (tell, told)) = (VirtualClock::new(), mpsc::channel());
    let timers = Timers::by_hand(clock.clone());
    let runner = Actor::new(());
    let executor = move |drain: Drain| runner.send(move |()| drain.run()).unwrap();
    let actor = Actor::builder().executor(executor).timers(timers.clone()).spawn(()).unwrap();
    let message = || {
        let tell = tell.clone();
        move |(): &mut ()| tell.send(thread::current().id()).unwrap()
    };
    actor.posted().send(message()).unwrap();
    assert_ne!(told.recv().unwrap(), thread::current().id(), "here");
    actor.posted().send_after(Duration::from_secs(1), message()).forget();
    clock.advance(Duration::from_secs(1));
    assert_eq!(timers.run_due(), 1);
    assert_ne!(told.recv().unwrap(), thread::current().id(), "later");
}

/// A message that was posted beside a turn stands in the list of that turn's thread, behind another
/// actor's turn.
#[test]
fn what_was_posted_beside_a_turn_does_not_run_in_the_last_drop() {
    let (x, long, side) = (Actor::new(()), Actor::new(()), Actor::new(()));
    let (says_in, is_in) = mpsc::channel();
    let (says_go, goes) = mpsc::channel::<()>();
    let (says_long, is_long) = mpsc::channel();
    let (says_end, ends) = mpsc::channel::<()>();
    let (theirs, behind) = (x.clone(), long.clone());
    let other = thread::spawn(move || {
        side.with(move |()| {
            let turn = move |_: &mut ()| {
                let turn = move |_: &mut ()| {
                    says_long.send(()).unwrap();
                    let _ = ends.recv();
                };
                behind.send(turn).unwrap();
                says_in.send(()).unwrap();
                goes.recv().unwrap();
            };
            theirs.send(turn).unwrap();
            drop(theirs);
        })
        .unwrap();
    });
    is_in.recv().unwrap();
    let (ran, has_run) = mpsc::channel();
    x.posted().send(move |()| ran.send(thread::current().id()).unwrap()).unwrap();
    says_go.send(()).unwrap();
    is_long.recv().unwrap();
    // A lock that the message wants may be held here.
    drop(x);
    let ran_in_the_drop = has_run.try_recv() == Ok(thread::current().id());
    says_end.send(()).unwrap();
    other.join().unwrap();
    assert!(!ran_in_the_drop);
}
