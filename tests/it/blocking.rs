//! A thread that blocks inside a turn first hands off the messages of that turn, because no other
//! thread might run them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{Held, Tally, block_on, must_end, size, until};
use turnwise::executor::Blocking;
use turnwise::{
    Actor, AskError, Clock, Cycle, Drain, Overflow, Promise, Reason, Reply, ThreadPool, WaitError,
    promise,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Blocks inside a turn on an actor that is busy until a message, sent in the same turn to a third
/// actor, has run.
fn blocks_inside_a_turn(block: impl FnOnce(&Actor<u32>) + Send + 'static) {
    must_end(move || {
        let (outer, busy, helper) = (Actor::new(()), Actor::new(7), Actor::new(()));
        let helped = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let holder = thread::spawn({
            let (busy, helped) = (busy.clone(), helped.clone());
            move || {
                busy.send(move |_| {
                    tell.send(()).unwrap();
                    until(|| helped.load(SeqCst));
                })
                .unwrap();
            }
        });
        told.recv().unwrap();
        let seen = helped.clone();
        outer
            .with(|()| {
                helper.send(move |()| helped.store(true, SeqCst)).unwrap();
                block(&busy);
                assert!(seen.load(SeqCst));
            })
            .unwrap();
        holder.join().unwrap();
    });
}

#[test]
fn with_inside_a_turn_does_not_hang() {
    blocks_inside_a_turn(|busy| assert_eq!(busy.with(|n| *n), Ok(7)));
}

#[test]
fn waiting_for_a_reply_inside_a_turn_does_not_hang() {
    blocks_inside_a_turn(|busy| assert_eq!(busy.call(|n| *n).wait(), Ok(7)));
}

#[test]
fn a_limited_wait_inside_a_turn_does_not_hang() {
    blocks_inside_a_turn(|busy| {
        assert_eq!(busy.call(|n| *n).wait_timeout(Duration::MAX).unwrap(), 7)
    });
}

#[test]
fn waiting_for_idle_inside_a_turn_does_not_hang() {
    blocks_inside_a_turn(|busy| assert_eq!(busy.idle().wait(), Ok(())));
}

#[test]
fn waiting_for_the_end_inside_a_turn_does_not_hang() {
    blocks_inside_a_turn(|busy| {
        busy.close();
        assert_eq!(busy.ended().within(Duration::MAX), Ok(true));
    });
}

#[test]
fn awaiting_a_reply_inside_a_turn_does_not_hang() {
    blocks_inside_a_turn(|busy| assert_eq!(block_on(busy.call(|n| *n)), Ok(7)));
}

#[test]
fn awaiting_an_end_inside_a_turn_does_not_hang() {
    blocks_inside_a_turn(|busy| assert_eq!(block_on(busy.idle()), Ok(())));
    blocks_inside_a_turn(|busy| {
        busy.close();
        assert_eq!(block_on(busy.ended()), Ok(()));
    });
}

#[test]
fn waiting_for_room_inside_a_turn_does_not_hang() {
    let full = || {
        let actor = Actor::builder().capacity(1, Overflow::Reject).spawn(7).unwrap();
        let held = Held::hold(&actor);
        actor.send(|_| ()).unwrap();
        (actor, held)
    };
    // Room comes only if the messages of this very turn are run.
    let waits: [fn(&Actor<u32>); 4] = [
        |full| full.waiting().send(|_| ()).wait().unwrap(),
        |full| assert_eq!(full.waiting().call(|n| *n).wait(), Ok(7)),
        |full| block_on(full.waiting().send(|_| ())).unwrap(),
        |full| assert_eq!(full.waiting().call(|n| *n).within(Duration::MAX).unwrap(), 7),
    ];
    for wait in waits {
        must_end(move || {
            let (full, held) = full();
            let (outer, helper) = (Actor::new(()), Actor::new(held));
            outer
                .with(|()| {
                    helper.send(|held| held.let_go_soon()).unwrap();
                    wait(&full);
                })
                .unwrap();
        });
    }
}

#[test]
fn a_with_runs_what_its_turn_has_sent_before() {
    must_end(|| {
        let (outer, other) = (Actor::new(()), Actor::new(vec![0]));
        let seen = outer
            .with(|()| {
                other.send(|list| list.push(1)).unwrap();
                other.send(|list| list.push(2)).unwrap();
                other.with(|list| list.clone()).unwrap()
            })
            .unwrap();
        assert_eq!(seen, [0, 1, 2]);
        assert!(other.is_idle());
    });
}

#[test]
fn a_reply_to_what_its_turn_has_asked_comes() {
    must_end(|| {
        let (outer, other) = (Actor::new(()), Actor::new(1));
        let seen = outer
            .with(|()| {
                let first = other.call(|n| *n);
                let second = other.call(|n| *n + 1);
                assert!(!second.is_ready(), "it runs after this turn, or in the wait");
                (second.wait(), first.wait())
            })
            .unwrap();
        assert_eq!(seen, (Ok(2), Ok(1)));
    });
}

#[test]
fn waiting_in_turns_of_turns_goes_down_and_comes_back() {
    must_end(|| {
        let actors: Vec<_> = (0..50).map(Actor::new).collect();
        fn sum(actors: &[Actor<i32>]) -> i32 {
            let Some((first, rest)) = actors.split_first() else { return 0 };
            first.with(|n| *n + sum(rest)).unwrap()
        }
        assert_eq!(sum(&actors), (0..50).sum());
    });
}

#[test]
fn waiting_for_oneself_is_told_at_any_depth() {
    must_end(|| {
        let [one, two] = ["one", "two"].map(|name| Actor::builder().name(name).spawn(()).unwrap());
        let answers = one.with(|()| {
            two.with(|()| (one.with(|()| ()), one.call(|()| ()).wait(), one.idle().wait())).unwrap()
        });
        let both = Reason::Deadlock(Cycle::from(["two", "one"]));
        let deadlock = AskError::from(both.clone());
        let expected = (Err(deadlock.clone()), Err(deadlock), Err(both));
        assert_eq!(answers.unwrap(), expected);
        one.idle().wait().unwrap();
    });
}

#[test]
fn threads_that_wait_upwards_in_turns_come_through() {
    // Every turn waits for the next higher actor, and sends to one whose messages do not wait.
    let tally = Tally::default();
    must_end({
        let tally = tally.clone();
        move || {
            let actors: Arc<Vec<_>> = Arc::new((0..6).map(|_| Actor::new(0_u32)).collect());
            let sinks: Arc<Vec<_>> = Arc::new((0..3).map(|_| Actor::new(0)).collect());
            let work = |me: usize, actors: &[Actor<u32>], sinks: &[Actor<usize>], tally: &Tally| {
                for round in 0..size(3_000, 30_000) {
                    let at = (me + round) % 5;
                    let (token, sent) = (tally.token(), tally.token());
                    let turn = |_: &mut u32| {
                        let count = move |n: &mut usize| {
                            *n += 1;
                            sent.handle();
                        };
                        sinks[round % 3].send(count).map_err(|_| ()).unwrap();
                        let next = &actors[at + 1];
                        if round % 2 == 0 {
                            next.with(|n| *n).unwrap()
                        } else {
                            next.call(|n| *n).wait().unwrap()
                        };
                    };
                    actors[at].with(turn).unwrap();
                    token.handle();
                }
            };
            let threads = (0..4).map(|me| {
                let (actors, sinks, tally) = (actors.clone(), sinks.clone(), tally.clone());
                thread::spawn(move || work(me, &actors, &sinks, &tally))
            });
            threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
            let sum: usize = sinks.iter().map(|sink| sink.with(|n| *n).unwrap()).sum();
            assert_eq!(2 * sum, tally.created());
        }
    });
    tally.check_all_handled();
}

#[test]
fn what_a_blocked_turn_has_sent_runs_elsewhere() {
    // The answer comes only if a third actor, to which this turn has sent before, does its part:
    // through a channel, which the crate does not see.
    must_end(|| {
        let (first, second, third) = (Actor::new(()), Actor::new(()), Actor::new(()));
        let (tx, rx) = std::sync::mpsc::channel();
        let holder = second.clone();
        let (begun, running) = std::sync::mpsc::channel();
        let holding = thread::spawn(move || {
            holder
                .with(move |()| {
                    begun.send(()).unwrap();
                    rx.recv().unwrap()
                })
                .unwrap()
        });
        running.recv().unwrap();
        let answer = first.with(|()| {
            third.send(move |()| tx.send(7).unwrap()).unwrap();
            second.with(|()| 8).unwrap()
        });
        assert_eq!(answer, Ok(8));
        assert_eq!(holding.join().unwrap(), 7);
    });
}

#[test]
fn what_needs_no_wait_is_refused_no_worker() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap();
        let actor = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let looks = actor.call(|()| {
            // The answer has come, or no time is left.
            let (kept, reply) = promise();
            kept.keep(1);
            let (_late, none) = promise::<()>();
            let none = none.wait_timeout(Duration::ZERO);
            (reply.wait(), matches!(none, Err(WaitError::TimedOut(_))))
        });
        assert_eq!(looks.wait(), Ok((Ok(1), true)));
    });
}

// Messages that are sent while a thread hands off, or later, are not kept by it either.

/// An actor that keeps a promise on request.
fn keeper() -> (Actor<Option<Promise<()>>>, Reply<()>) {
    let (promise, kept) = promise();
    (Actor::new(Some(promise)), kept)
}

fn tell(promise: &mut Option<Promise<()>>) {
    promise.take().unwrap().keep(());
}

#[test]
fn an_executor_that_sends_while_a_list_is_handed_off() {
    must_end(|| {
        let (keeper, kept) = keeper();
        let called = AtomicBool::new(false);
        let runs_in_the_call = Actor::builder().executor(move |drain: Drain| {
            if called.swap(true, SeqCst) {
                keeper.send(tell).unwrap();
            }
            drain.run();
        });
        let actor = runs_in_the_call.spawn(()).unwrap();
        // Its first drain is deferred here, and the wait returns it to the executor.
        let turn = || {
            actor.send(|()| ()).unwrap();
            assert_eq!(kept.within(MINUTE).ok(), Some(()));
        };
        Actor::new(()).with(|()| turn()).unwrap();
    });
}

#[test]
fn a_waker_that_sends_as_it_is_dropped_by_the_wait() {
    struct Sends(Actor<Option<Promise<()>>>);
    impl Wake for Sends {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Sends {
        fn drop(&mut self) {
            self.0.send(tell).unwrap();
        }
    }
    must_end(|| {
        let (keeper, mut kept) = keeper();
        let turn = move |_: &mut ()| {
            let waker = Waker::from(Arc::new(Sends(keeper)));
            let polled = Pin::new(&mut kept).poll(&mut std::task::Context::from_waker(&waker));
            assert!(polled.is_pending());
            drop(waker);
            assert_eq!(kept.within(MINUTE).ok(), Some(()));
        };
        Actor::new(()).with(turn).unwrap();
    });
}

#[test]
fn a_clock_that_sends_before_it_parks() {
    #[derive(Debug)]
    struct Sends(Actor<Option<Promise<()>>>, AtomicBool);
    impl Clock for Sends {
        fn now(&self) -> Duration {
            Duration::ZERO
        }
        fn park_until(&self, _: Duration) {
            if !self.1.swap(true, SeqCst) {
                self.0.send(tell).unwrap();
            }
            thread::park();
        }
    }
    must_end(|| {
        let (keeper, kept) = keeper();
        let slow = Actor::builder().clock(Sends(keeper, AtomicBool::new(false)));
        let slow = slow.spawn(()).unwrap();
        let asked = slow.clone();
        let (begin, begun) = mpsc::channel();
        let busy = thread::spawn(move || {
            let turn = move |_: &mut ()| {
                begin.send(()).unwrap();
                kept.wait().unwrap();
            };
            slow.with(turn).unwrap();
        });
        begun.recv().unwrap();
        let turn = move |_: &mut ()| asked.call(|()| ()).within(MINUTE).unwrap();
        Actor::new(()).with(turn).unwrap();
        busy.join().unwrap();
    });
}

/// A close inside of `blocking` calls the wakers of waiters for room. Their messages run elsewhere,
/// as do all that the turn itself sends there.
#[test]
fn a_close_leaves_the_list_of_a_thread_that_blocks_closed() {
    struct Sends(Actor<mpsc::Sender<()>>);

    impl Wake for Sends {
        fn wake(self: Arc<Self>) {
            self.0.send(|tell| tell.send(()).unwrap()).unwrap();
        }
    }
    let closes: [fn(&Actor<()>); 2] = [|full| _ = full.close(), |full| _ = full.stop()];
    for close in closes {
        must_end(move || {
            let (tell, told) = mpsc::channel();
            let full = Actor::builder().capacity(1, Overflow::Reject).spawn(()).unwrap();
            let held = Held::hold(&full);
            full.send(|()| ()).unwrap();
            let mut waits = Box::pin(full.waiting().send(|()| ()));
            let waker = Waker::from(Arc::new(Sends(Actor::new(tell))));
            let polled = waits.as_mut().poll(&mut std::task::Context::from_waker(&waker));
            assert!(polled.is_pending());
            let closed = full.clone();
            let sleeps = move || {
                close(&closed);
                told.recv().unwrap();
            };
            Actor::new(()).with(|()| turnwise::blocking(sleeps)).unwrap();
            drop(held);
        });
    }
}
