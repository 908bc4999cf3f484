//! A send from inside a turn runs after it, whatever the depth. All tests: `cargo test --release
//! --test it nesting::`.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::common::{
    Tally, in_turn, must_end, on_small_stack, queued, size, tireless, waits, yield_now,
};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, AskError, Budget, Drain, Executor, Overflow, Reply, WeakActor, promise};

struct Link {
    next: Option<Actor<Link>>,
    visited: Arc<AtomicUsize>,
}

impl Link {
    fn wake_next(&mut self) {
        self.visited.fetch_add(1, Relaxed);
        if let Some(next) = &self.next {
            next.send(Link::wake_next).unwrap();
        }
    }
}

fn chain(len: usize, visited: &Arc<AtomicUsize>) -> Actor<Link> {
    let mut next = None;
    for _ in 0..len {
        next = Some(tireless(Link { next, visited: visited.clone() }));
    }
    next.expect("a chain has a link")
}

#[test]
fn a_million_actors_need_a_small_stack() {
    let len = size(300_000, 1_000_000);
    on_small_stack(move || {
        let visited = Arc::new(AtomicUsize::new(0));
        let first = chain(len, &visited);
        first.send(Link::wake_next).unwrap();
        assert_eq!(visited.load(Relaxed), len);
        drop(first);
        assert_eq!(Arc::strong_count(&visited), 1, "every state was dropped");
    });
}

#[test]
fn a_chain_is_dropped_inside_a_turn() {
    let len = size(300_000, 1_000_000);
    on_small_stack(move || {
        let visited = Arc::new(AtomicUsize::new(0));
        let first = chain(len, &visited);
        let other = tireless(());
        let alive = visited.clone();
        other
            .send(move |()| {
                drop(first);
                assert_eq!(Arc::strong_count(&alive), len + 2, "nothing is freed inside the turn");
            })
            .unwrap();
        assert_eq!(Arc::strong_count(&visited), 1);
        assert!(!other.is_closed());
    });
}

#[test]
fn a_chain_is_stopped_by_its_first_link() {
    on_small_stack(|| {
        let visited = Arc::new(AtomicUsize::new(0));
        let first = chain(size(50_000, 500_000), &visited);
        assert!(first.stop());
        assert_eq!(
            Arc::strong_count(&visited),
            1,
            "the end of a state is the end of what only it held"
        );
    });
}

#[test]
fn a_million_sends_to_oneself_run_on_a_small_stack() {
    struct Own {
        me: Option<Actor<Own>>,
        left: usize,
    }
    fn again(own: &mut Own) {
        own.left -= 1;
        match own.left {
            0 => own.me = None,
            _ => own.me.as_ref().unwrap().send(again).unwrap(),
        }
    }
    on_small_stack(|| {
        let own = tireless(Own { me: None, left: size(300_000, 1_000_000) });
        own.with(|state| state.me = Some(own.clone())).unwrap();
        own.send(again).unwrap();
        assert_eq!(own.with(|own| own.left).unwrap(), 0);
    });
}

#[test]
fn a_nested_message_runs_right_after_the_turn() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (one, two) = (Actor::new("one"), Actor::new("two"));
    let (log1, two1) = (log.clone(), two.clone());
    one.send(move |_| {
        let inner = log1.clone();
        log1.lock().unwrap().push("1 begins");
        two1.send(move |_| inner.lock().unwrap().push("2")).unwrap();
        log1.lock().unwrap().push("1 ends");
    })
    .unwrap();
    let log3 = log.clone();
    two.send(move |_| log3.lock().unwrap().push("3")).unwrap();
    assert_eq!(*log.lock().unwrap(), ["1 begins", "1 ends", "2", "3"]);
}

#[test]
fn nested_messages_to_many_run_in_the_order_sent() {
    // More than the list holds without an allocation.
    let actors: Vec<_> = (0..100).map(tireless).collect();
    let log = Arc::new(Mutex::new(Vec::new()));
    let first = Actor::new(());
    let (inside, sent) = (actors.clone(), log.clone());
    first
        .send(move |()| {
            for actor in &inside {
                let log = sent.clone();
                actor.send(move |n: &mut i32| log.lock().unwrap().push(*n)).unwrap();
            }
            assert!(sent.lock().unwrap().is_empty());
        })
        .unwrap();
    assert_eq!(*log.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_busy_actor_gives_way_at_the_end_of_its_batch() {
    // The first of three waiting messages sends to another actor, and to its own: messages sent
    // before come before, and the other one before the message that came last.
    let log = Arc::new(Mutex::new(Vec::new()));
    let (one, two) = (Actor::new(()), Actor::new(()));
    in_turn(|| {
        for n in 1..=3 {
            let (log, two, own) = (log.clone(), two.clone(), one.clone());
            one.send(move |()| {
                log.lock().unwrap().push(n);
                if n == 1 {
                    let last = log.clone();
                    two.send(move |()| log.lock().unwrap().push(10)).unwrap();
                    own.send(move |()| last.lock().unwrap().push(4)).unwrap();
                }
            })
            .unwrap();
        }
        assert!(log.lock().unwrap().is_empty());
    });
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 10, 4]);
}

#[test]
fn two_actors_that_answer_each_other_lose_nothing() {
    struct Player {
        other: Option<Actor<Player>>,
        tally: Tally,
        left: usize,
    }
    fn play(player: &mut Player) {
        if player.left == 0 {
            player.other = None;
            return;
        }
        player.left -= 1;
        let token = player.tally.token();
        let back = move |player: &mut Player| {
            token.handle();
            play(player);
        };
        player.other.as_ref().unwrap().send(back).map_err(|_| ()).unwrap();
    }
    let tally = Tally::default();
    let rounds = size(20_000, 500_000);
    on_small_stack({
        let tally = tally.clone();
        move || {
            let new = || tireless(Player { other: None, tally: tally.clone(), left: rounds });
            let (ping, pong) = (new(), new());
            ping.with(|player| player.other = Some(pong.clone())).unwrap();
            pong.with(|player| player.other = Some(ping.clone())).unwrap();
            ping.send(play).unwrap();
            ping.with(|player| player.other = None).unwrap();
            pong.with(|player| player.other = None).unwrap();
        }
    });
    tally.check_all_handled();
    assert_eq!(tally.created(), 2 * rounds);
}

/// A `with` is not affected by an actor that waits in its own thread's list and was run meanwhile:
/// it runs here, and then the messages of its turn.
#[test]
fn with_beside_an_entry_does_as_without() {
    for sent_before in [false, true] {
        let actor = Actor::new(());
        let ran = Arc::new(AtomicUsize::new(0));
        in_turn(|| {
            if sent_before {
                actor.send(|()| ()).unwrap();
                actor.idle().wait().unwrap();
            }
            let (again, ran_later) = (actor.clone(), ran.clone());
            let turn = move |(): &mut ()| {
                again.send(move |()| _ = ran_later.fetch_add(1, Relaxed)).unwrap();
            };
            actor.with(turn).unwrap();
            assert_eq!(ran.load(Relaxed), 1, "sent before: {sent_before}");
        });
    }
}

/// Each link is woken by the one before, and wakes the next: `link` makes one that calls `then`,
/// and its waker.
fn a_chain_of_wakers<W: FnOnce() + Send + 'static>(
    link: impl Fn(Box<dyn FnOnce() + Send>) -> W + Send + 'static,
) {
    let len = size(20_000, 200_000);
    on_small_stack(move || {
        let woken = Arc::new(AtomicUsize::new(0));
        let mut first: Box<dyn FnOnce() + Send> = Box::new(|| ());
        for _ in 0..len {
            let (next, woken) = (first, woken.clone());
            first = Box::new(link(Box::new(move || {
                woken.fetch_add(1, Relaxed);
                next();
            })));
        }
        first();
        assert_eq!(woken.load(Relaxed), len);
    });
}

#[test]
fn wakers_that_end_the_next_actor_need_a_small_stack() {
    for [stops, busy] in [[false; 2], [false, true], [true, false], [true; 2]] {
        let ends = Arc::new(Mutex::new(Vec::new()));
        a_chain_of_wakers(move |then| {
            let actor = tireless(());
            let mut end = actor.ended();
            waits(&mut end, then);
            let ends = ends.clone();
            let end_it = move |actor: &Actor<()>| {
                assert!(if stops { actor.stop() } else { actor.close() });
                // The end comes when this turn is over.
                ends.lock().unwrap().push(end);
            };
            move || match busy {
                false => end_it(&actor),
                true => {
                    let own = actor.clone();
                    actor.send(move |()| end_it(&own)).unwrap();
                }
            }
        });
    }
}

#[test]
fn wakers_of_those_that_wait_for_room_need_a_small_stack() {
    a_chain_of_wakers(|then| {
        let queue = DrainQueue::new();
        let builder = Actor::builder().capacity(1, Overflow::Reject).executor(queue.handle());
        let actor = builder.spawn(()).unwrap();
        actor.send(|()| ()).unwrap();
        let mut sending = actor.waiting().send(|()| ());
        waits(&mut sending, then);
        move || {
            let _queue = queue;
            assert!(actor.close());
            drop(sending);
        }
    });
}

#[test]
fn wakers_that_keep_the_next_promise_need_a_small_stack() {
    for kept in [false, true] {
        a_chain_of_wakers(move |then| {
            let (promise, mut reply) = promise();
            waits(&mut reply, then);
            move || {
                let _reply = reply;
                if kept { promise.keep(()) } else { drop(promise) }
            }
        });
    }
}

/// Keeps a promise whose waker keeps the next one, to this depth; the last one calls `then`.
fn behind(depth: usize, then: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send> {
    (0..depth).fold(then, |then, _| {
        let (promise, mut reply) = promise();
        waits(&mut reply, then);
        Box::new(move || {
            let _reply = reply;
            promise.keep(());
        })
    })
}

#[test]
fn a_wait_inside_of_wakers_gets_what_they_have_woken() {
    must_end(|| {
        // At any depth, none of those that were woken before waits behind it.
        for depth in 0..40 {
            let (tell, told) = channel();
            let (last, reply) = promise();
            let then = Box::new(move || {
                // It is kept by a waker that is called after this one, or now.
                let (woken, mut also) = promise();
                waits(&mut also, move || last.keep(7));
                woken.keep(());
                tell.send(reply.wait().unwrap()).unwrap();
                drop(also);
            });
            behind(depth, then)();
            assert_eq!(told.recv().unwrap(), 7, "depth {depth}");
        }
    });
}

#[test]
fn wakers_that_wait_are_called_one_after_the_other() {
    let len = size(1_000, 10_000);
    on_small_stack(move || {
        // At any depth of the one that wakes them.
        for depth in [0, 3, 7, 8, 20] {
            let (closes, count) = (Actor::new(()), Arc::new(AtomicUsize::new(0)));
            let mut wait_for_it: Vec<_> = (0..len).map(|_| closes.ended()).collect();
            for end in &mut wait_for_it {
                let count = count.clone();
                waits(end, move || {
                    let (_promise, reply) = promise::<()>();
                    assert!(reply.within(Duration::from_micros(100)).is_err());
                    count.fetch_add(1, Relaxed);
                });
            }
            let then = Box::new(move || assert!(closes.close()));
            behind(depth, then)();
            assert_eq!(count.load(Relaxed), len, "depth {depth}");
        }
    });
}

/// An executor that runs each drain in a turn of an actor of its own, and then `also` in that turn.
fn in_turns(also: impl Fn() + Send + Sync + 'static) -> impl Fn(Drain) + Send + Sync {
    move |drain| {
        in_turn(|| {
            drain.run();
            also();
        });
    }
}

#[test]
fn executors_that_run_drains_in_turns_of_their_own_need_a_small_stack() {
    let len = size(20_000, 200_000);
    let queue = Arc::new(DrainQueue::new());
    let (pushes, runs) = (queue.handle(), queue.clone());
    // The second one runs an event loop in each turn.
    let executors: [Box<dyn Fn(Drain) + Send + Sync>; 2] = [
        Box::new(in_turns(|| ())),
        Box::new(move |drain| {
            pushes.execute(drain);
            in_turn(|| runs.run_until_idle());
        }),
    ];
    for executor in executors {
        on_small_stack(move || {
            let n = Actor::builder().budget(Budget::turns(1)).executor(executor).spawn(0).unwrap();
            let own = n.clone();
            n.send(move |_| (0..len).for_each(|_| own.send(|n| *n += 1).unwrap())).unwrap();
            // A turn that is suspended, and goes on by a drain of its own.
            let turn = n.run(async move |n| {
                for _ in 0..len {
                    yield_now().await;
                    *n += 1;
                }
            });
            turn.wait().unwrap();
            assert_eq!(n.call(|n| *n).wait().unwrap(), 2 * len);
        });
    }
}

#[test]
fn a_turn_in_an_executor_gets_what_it_waits_for() {
    type Wait = fn(&Actor<i32>);
    let waits: [Wait; 9] = [
        |n| assert_eq!(n.call(|n| *n).wait().unwrap(), 1),
        |n| assert_eq!(n.with(|n| *n).unwrap(), 1),
        |n| assert_eq!(n.run(async |n| *n).wait().unwrap(), 1),
        |n| n.idle().wait().unwrap(),
        |n| {
            n.close();
            n.ended().wait().unwrap();
        },
        |n| {
            n.stop();
            n.ended().wait().unwrap();
        },
        |n| {
            let (promise, reply) = promise();
            n.posted().send(move |n| promise.keep(*n)).unwrap();
            assert_eq!(reply.wait().unwrap(), 1);
        },
        |n| n.waiting().send(|_| ()).wait().unwrap(),
        |n| {
            let waits = n.clone();
            in_turn(move || Actor::new(waits).call(|n| n.call(|n| *n).wait()).wait().unwrap())
                .unwrap();
        },
    ];
    for wait in waits {
        must_end(move || {
            let (actor, once) =
                (Arc::new(OnceLock::<WeakActor<i32>>::new()), AtomicBool::new(false));
            let asked = actor.clone();
            let builder = Actor::builder().capacity(2, Overflow::Reject).budget(Budget::turns(1));
            let builder = builder.executor(in_turns(move || {
                if !once.swap(true, SeqCst) {
                    wait(&asked.get().unwrap().upgrade().unwrap());
                }
            }));
            let n = builder.spawn(0).unwrap();
            actor.set(n.downgrade()).unwrap();
            n.send(|n| *n += 1).unwrap();
        });
    }
}

/// A turn that asks another actor, and looks for the answer again and again.
fn looks_for_its_answer(a: &Actor<()>, asked: Actor<u32>) -> Reply<Result<u32, AskError>> {
    a.run(async move |_| {
        let answer = asked.call(|n| *n);
        while !answer.is_ready() {
            yield_now().await;
        }
        answer.await
    })
}

#[test]
fn a_turn_that_looks_again_and_again_gets_its_answer() {
    must_end(|| {
        // On this thread, without an end to its budget.
        let turn = looks_for_its_answer(&tireless(()), Actor::new(1));
        assert_eq!(turn.wait(), Ok(Ok(1)));
        // In an executor that this thread runs.
        let (queue, actor) = queued(());
        let turn = looks_for_its_answer(&actor, Actor::new(2));
        queue.run_until_idle();
        assert_eq!(turn.wait(), Ok(Ok(2)));
        // On top of a turn that waits for it.
        let turn = in_turn(|| looks_for_its_answer(&Actor::new(()), Actor::new(3)).wait());
        assert_eq!(turn, Ok(Ok(3)));
    });
}

#[test]
fn an_actor_that_is_waited_for_gets_what_it_has_sent() {
    fn until(told: Arc<AtomicBool>, actor: Actor<()>) {
        let again = actor.clone();
        let look = move |_: &mut ()| {
            if !told.load(SeqCst) {
                until(told, again)
            }
        };
        actor.send(look).unwrap();
    }
    must_end(|| {
        let (actor, other) = (Actor::new(()), Actor::new(()));
        let told = Arc::new(AtomicBool::new(false));
        in_turn(|| {
            let (tell, again) = (told.clone(), actor.clone());
            let begin = move |_: &mut ()| {
                until(tell.clone(), again);
                other.send(move |_| tell.store(true, SeqCst)).unwrap();
            };
            actor.send(begin).unwrap();
            actor.idle().wait()
        })
        .unwrap();
        assert!(told.load(SeqCst));
    });
}
