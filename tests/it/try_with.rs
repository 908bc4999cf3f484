//! `try_with`: a turn here and now, or none.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{
    Gate, Held, Tally, block_on, in_turn, must_end, quiet_panic, size, tireless, until,
};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorBuilder, Cycle, EndCause, Overflow, PanicPolicy, Reason, StopCause, ThreadPool,
};

fn reason<S: Send + 'static>(actor: &Actor<S>) -> Option<Reason> {
    actor.try_with(|_| ()).err().map(|refused| refused.into_reason())
}

fn panicked(text: &str) -> Reason {
    Reason::Stopped(StopCause::Panicked(text.into()))
}

fn spawned<S: Send + 'static>(builder: ActorBuilder<S>, state: S) -> Actor<S> {
    builder.spawn(state).expect("good limits")
}

#[test]
fn attempts_take_no_room_and_make_none() {
    let bounded = || Actor::builder().capacity(2, Overflow::Reject);
    let hooked = bounded().on_batch_end(|_, _| ());
    for builder in [bounded(), bounded().counted(true), hooked] {
        let actor = spawned(builder, 0);
        (0..5).for_each(|_| actor.try_with(|n| *n += 1).unwrap());
        let held = Held::hold(&actor);
        (0..2).for_each(|_| actor.send(|n| *n += 1).unwrap());
        assert_eq!(actor.send(|n| *n += 1).unwrap_err().into_reason(), Reason::Full);
        held.let_go();
        assert_eq!(actor.with(|n| *n), Ok(7));
    }
}

#[test]
fn idle_actor_runs_it_here() {
    let n = Actor::new(1);
    let (seen, count) = (Rc::new(Cell::new(0)), Cell::new(0));
    // Neither the closure nor what it returns is `Send`.
    let shared = n
        .try_with(|n| {
            *n += 1;
            seen.set(*n);
            count.set(count.get() + 1);
            seen.clone()
        })
        .unwrap();
    assert_eq!((shared.get(), count.get(), n.with(|n| *n)), (2, 1, Ok(2)));
    assert!(n.is_idle());
    assert_eq!(n.try_with(|n| *n).ok(), Some(2));
}

#[test]
fn busy_actor_gives_it_back() {
    must_end(|| {
        let log = tireless(vec![]);
        let held = Held::hold(&log);
        let mine = Rc::new(7); // comes back on this thread
        let refused = log.try_with(|log: &mut Vec<_>| log.push(*mine)).unwrap_err();
        assert_eq!(refused.reason(), &Reason::Busy);
        assert_eq!(
            refused.to_string(),
            "message not accepted by `alloc::vec::Vec<i32>`: the actor is busy"
        );
        assert_eq!(log.len(), 1, "nothing was left in the mailbox");
        log.send(|log| log.push(1)).unwrap();
        assert_eq!(reason(&log), Some(Reason::Busy), "it overtakes none");
        held.let_go();
        assert_eq!(log.with(|log| log.clone()), Ok(vec![1]));
        let mut elsewhere = vec![];
        refused.into_message()(&mut elsewhere);
        assert_eq!(elsewhere, [7]);
    });
}

/// It has no owner, and is not idle: a message waits.
#[test]
fn pending_actor_is_busy() {
    let log = Actor::new(vec![]);
    in_turn(|| {
        log.send(|log| log.push(1)).unwrap();
        let refused = log.try_with(|log: &mut Vec<_>| log.push(2)).unwrap_err();
        assert_eq!(refused.reason(), &Reason::Busy);
        assert_eq!(log.len(), 1);
    });
    assert_eq!(log.try_with(|log| log.clone()).unwrap(), [1]);
}

/// Its entry is in the list of a busy thread, but another thread has run the waiting messages.
#[test]
fn stale_entry_is_no_work() {
    must_end(|| {
        let log = Actor::new(vec![]);
        in_turn(|| {
            log.send(|log| log.push(1)).unwrap();
            let other = log.clone();
            thread::spawn(move || other.with(|log| log.push(2)).unwrap()).join().unwrap();
            log.try_with(|log| log.push(3)).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| log.try_with(|log| log.push(4)).unwrap());
            });
        });
        assert_eq!(log.with(|log| log.clone()), Ok(vec![1, 2, 3, 4]));
    });
}

#[test]
fn own_turn_gives_it_back() {
    let (a, b) = (Actor::new(0), Actor::new(0));
    let seen = a.try_with(|_| {
        assert_eq!(reason(&a), Some(Reason::Deadlock(Cycle::from(["i32"]))));
        b.try_with(|_| (reason(&a), reason(&b))).unwrap()
    });
    let (own, both) = (Cycle::from(["i32"]), Cycle::from(["i32"; 2]));
    assert_eq!(seen.unwrap(), (Some(Reason::Deadlock(both)), Some(Reason::Deadlock(own))));
    assert_eq!((reason(&a), reason(&b)), (None, None));
    let itself = a.clone();
    a.send(move |n| *n = i32::from(matches!(reason(&itself), Some(Reason::Deadlock(_))))).unwrap();
    assert_eq!(a.with(|n| *n), Ok(1));
}

/// Messages that it sends run after it; inside a turn, after that.
#[test]
fn sends_inside_it_run_after_it() {
    let (log, other) = (tireless(vec![]), tireless(()));
    let tell = |word: &'static str| {
        let log = log.clone();
        move |_: &mut ()| log.send(move |log| log.push(word)).unwrap()
    };
    let itself = other.clone();
    other
        .try_with(|()| {
            itself.send(tell("to itself")).unwrap();
            log.send(|log| log.push("to another")).unwrap();
            assert_eq!((itself.len(), log.len()), (2, 1), "not in it");
        })
        .unwrap();
    assert!(other.is_idle() && log.is_idle(), "before it returned");
    let said = log.with(std::mem::take).unwrap();
    assert_eq!(said, ["to another", "to itself"]);

    in_turn(|| {
        other.try_with(|()| log.send(|log| log.push("in a turn")).unwrap()).unwrap();
        assert!(other.is_idle());
        assert_eq!(log.len(), 1, "after the outermost turn");
    });
    assert_eq!(log.with(std::mem::take), Ok(vec!["in a turn"]));
}

#[test]
fn panic_in_it() {
    let attempt = |n: &Actor<i32>| {
        let add_and_panic = |n: &mut i32| {
            *n += 1;
            quiet_panic("oops")
        };
        let run = || n.try_with::<_, ()>(add_and_panic).is_ok();
        let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"oops"), "its own panic");
        assert!(n.is_idle(), "let go before that");
    };
    let (told, hooks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let built = |policy: PanicPolicy<i32>, hooked: bool| {
        let (told, hooks) = (told.clone(), hooks.clone());
        let builder = Actor::builder().panic_policy(policy);
        let builder = builder.on_panic(move |panic| {
            assert_eq!(panic, "oops");
            told.fetch_add(1, SeqCst);
        });
        let builder = match hooked {
            false => builder,
            true => builder.on_batch_end(move |_, turns| {
                assert_eq!(turns, 1);
                hooks.fetch_add(1, SeqCst);
            }),
        };
        spawned(builder, 1)
    };
    for hooked in [false, true] {
        let (resumed, restarted, stopped) = (
            built(PanicPolicy::Resume, hooked),
            built(PanicPolicy::restart(|| 10), hooked),
            built(PanicPolicy::Stop, hooked),
        );
        [&resumed, &restarted, &stopped].into_iter().for_each(attempt);
        assert_eq!(
            (resumed.try_with(|n| *n).ok(), restarted.try_with(|n| *n).ok()),
            (Some(2), Some(10))
        );
        assert_eq!(reason(&stopped), Some(panicked("oops")));
    }
    assert_eq!((told.load(SeqCst), hooks.load(SeqCst)), (6, 3 + 2));
    // Inside a turn, the outer one continues.
    let inner = Actor::new(1);
    in_turn(|| attempt(&inner));
    assert_eq!(inner.stop_cause(), Some(StopCause::Panicked("oops".into())));
}

#[test]
fn closed_and_stopped_actors_give_it_back() {
    let queue = DrainQueue::new();
    let plain = || Actor::new(0);
    let alone = || spawned(Actor::builder().executor(queue.handle()), 0);
    let hooked = || spawned(Actor::builder().on_batch_end(|_, _| ()), 0);
    let requested = Reason::Stopped(StopCause::Requested);
    for make in [&plain as &dyn Fn() -> Actor<i32>, &alone, &hooked] {
        let (closed, stopped) = (make(), make());
        closed.close();
        stopped.stop();
        for _ in 0..2 {
            assert_eq!(reason(&closed), Some(Reason::Closed));
            assert_eq!(reason(&stopped), Some(requested.clone()));
            queue.run_until_idle();
        }
    }
    // From inside.
    let (closing, stopping) = (Actor::new(0), hooked());
    closing.try_with(|_| _ = closing.close()).unwrap();
    stopping.try_with(|_| _ = stopping.stop()).unwrap();
    assert_eq!((reason(&closing), reason(&stopping)), (Some(Reason::Closed), Some(requested)));
    assert!(closing.is_idle() && stopping.is_idle());
}

/// The end comes after the turn that asked for it, on the same thread.
#[test]
fn it_may_end_its_actor() {
    for hooked in [false, true] {
        let ended = Arc::new(Mutex::new(None));
        let end = ended.clone();
        let mut builder =
            Actor::builder().on_end(move |n, why| *end.lock().unwrap() = Some((n, why)));
        if hooked {
            builder = builder.on_batch_end(|n, _| *n += 10);
        }
        let n = spawned(builder, 1);
        let inside = n.try_with(|state| {
            n.close();
            *state += 1;
            ended.lock().unwrap().is_none()
        });
        assert!(inside.unwrap());
        let state = if hooked { 12 } else { 2 };
        assert_eq!(ended.lock().unwrap().take(), Some((state, EndCause::Closed)));
        assert_eq!(block_on(n.ended()), Ok(()));
    }
}

/// Its turns run in the executor and nowhere else: this thread is never there.
#[test]
fn executor_alone_runs_its_actor() {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let n = spawned(Actor::builder().executor(pool.handle()), 0);
    assert_eq!(reason(&n), Some(Reason::HasExecutor));
    let (itself, other) = (n.clone(), spawned(Actor::builder().executor(pool.handle()), 0));
    let inside = n.with(move |_| (reason(&other), reason(&itself)));
    assert_eq!(inside, Ok((Some(Reason::HasExecutor), Some(Reason::HasExecutor))));
    assert_eq!(n.len(), 0);
}

#[test]
fn capacity_does_not_matter() {
    must_end(|| {
        let n = spawned(Actor::builder().capacity(1, Overflow::Reject), 0);
        let itself = n.clone();
        n.try_with(|n| {
            *n += 1;
            itself.send(|n| *n += 10).unwrap(); // there is room for one
            assert_eq!(itself.send(|_| ()).unwrap_err().into_reason(), Reason::Full);
        })
        .unwrap();
        assert_eq!(n.try_with(|n| *n).ok(), Some(11));
        let held = Held::hold(&n);
        n.send(|n| *n += 100).unwrap();
        assert_eq!(reason(&n), Some(Reason::Busy), "not full");
        held.let_go();
        until(|| n.is_idle());
        assert_eq!(n.try_with(|n| *n).ok(), Some(111));
    });
}

/// Waiters for room are admitted when it begins.
#[test]
fn sender_that_waits_for_room_gets_it() {
    must_end(|| {
        let n = spawned(Actor::builder().capacity(1, Overflow::Reject), 0);
        let (inside, waits) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                n.try_with(|_| {
                    inside.store(true, SeqCst);
                    until(|| waits.load(SeqCst) && n.len() == 2);
                })
                .unwrap();
            });
            until(|| inside.load(SeqCst));
            n.send(|n| *n += 1).unwrap();
            waits.store(true, SeqCst);
            assert_eq!(n.waiting().call(|n| *n += 10).wait(), Ok(()));
        });
        assert_eq!(n.with(|n| *n), Ok(11));
    });
}

#[test]
fn waits_for_idle_see_it_end() {
    must_end(|| {
        let n = Actor::new(0);
        let inside = AtomicBool::new(false);
        let go = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                n.try_with(|n| {
                    inside.store(true, SeqCst);
                    until(|| go.load(SeqCst));
                    *n = 1;
                })
                .unwrap();
            });
            until(|| inside.load(SeqCst));
            let waits = scope.spawn(|| n.idle().wait());
            let idle = scope.spawn(|| block_on(n.idle()));
            go.store(true, SeqCst);
            assert_eq!((waits.join().unwrap(), idle.join().unwrap()), (Ok(()), Ok(())));
        });
        assert_eq!(n.try_with(|n| *n).ok(), Some(1));
    });
}

/// It is a batch of its own; messages that it sends to its own actor are the next one.
#[test]
fn hooks_of_a_batch_are_around_it() {
    let log = Arc::new(Mutex::new(vec![]));
    let said = || std::mem::take(&mut *log.lock().unwrap());
    let say = || {
        let log = log.clone();
        move |word: String| log.lock().unwrap().push(word)
    };
    let end = say();
    let hook = move |n: &mut i32, turns| end(format!("end {n} after {turns}"));
    let n = spawned(Actor::builder().on_batch_end(hook), 0);
    assert_eq!(n.try_with(|n| std::mem::replace(n, 1)).ok(), Some(0));
    assert_eq!(said(), ["end 1 after 1"]);
    let itself = n.clone();
    n.try_with(|n| {
        *n = 2;
        itself.send(|n| *n = 3).unwrap();
        itself.send(|n| *n = 4).unwrap();
    })
    .unwrap();
    assert_eq!(said(), ["end 2 after 1", "end 4 after 2"]);
    in_turn(|| n.try_with(|n| *n = 5).unwrap());
    assert_eq!(said(), ["end 5 after 1"]);
    must_end({
        let n = n.clone();
        move || {
            let held = Held::hold(&n);
            assert_eq!(reason(&n), Some(Reason::Busy));
            held.let_go();
        }
    });
    assert_eq!(said(), ["end 5 after 1"]);
}

#[test]
fn hook_that_panics_after_it() {
    let n = spawned(Actor::builder().on_batch_end(|_, _| quiet_panic("in the hook")), 0);
    assert_eq!(n.try_with(|n| *n + 1).ok(), Some(1), "it has run");
    assert_eq!(reason(&n), Some(panicked("in the hook")));
}

#[test]
fn hooks_are_its_own_turn() {
    let slot = Arc::new(Mutex::new(None::<Actor<i32>>));
    let inside = slot.clone();
    let hook = move |n: &mut i32, _| {
        let itself = inside.lock().unwrap().clone().unwrap();
        *n = i32::from(matches!(reason(&itself), Some(Reason::Deadlock(_))));
    };
    let n = spawned(Actor::builder().on_batch_end(hook), 0);
    *slot.lock().unwrap() = Some(n.clone());
    assert_eq!((n.try_with(|n| *n).ok(), n.try_with(|n| *n).ok()), (Some(0), Some(1)));
    slot.lock().unwrap().take();
}

#[test]
fn actors_of_a_spawner() {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let plain = Actor::builder().panic_policy(PanicPolicy::Resume).build().unwrap();
    let hooked = Actor::builder()
        .on_batch_end(move |_, _| _ = counted.fetch_add(1, SeqCst))
        .build()
        .unwrap();
    let queue = DrainQueue::new();
    let alone = Actor::builder().executor(queue.handle()).build().unwrap();
    let (plain, hooked, alone) = (plain.spawn(1), hooked.spawn(2), alone.spawn(3));
    assert_eq!((plain.try_with(|n| *n).ok(), hooked.try_with(|n| *n).ok()), (Some(1), Some(2)));
    assert_eq!((reason(&alone), starts.load(SeqCst)), (Some(Reason::HasExecutor), 1));
    let panics = || plain.try_with(|_| quiet_panic("oops")).is_ok();
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(plain.try_with(|n| *n).ok(), Some(1));
}

/// Of several threads that try an idle actor at the same time, at least one runs.
#[test]
fn one_of_many_runs() {
    const THREADS: usize = 4;
    let rounds = size(2_000, 20_000);
    for hooked in [false, true] {
        let builder = Actor::builder();
        let n = spawned(if hooked { builder.on_batch_end(|_, _| ()) } else { builder }, 0_usize);
        let (gate, ran) = (Gate::new(THREADS), AtomicUsize::new(0));
        must_end_in_scope(THREADS, |_| {
            for round in 1..=rounds {
                gate.pass();
                match n.try_with(|n| *n += 1) {
                    Ok(()) => _ = ran.fetch_add(1, SeqCst),
                    Err(refused) => assert_eq!(refused.into_reason(), Reason::Busy),
                }
                gate.pass();
                assert!(ran.load(SeqCst) >= round, "none has run");
                gate.pass();
            }
        });
        assert_eq!(n.with(|n| *n), Ok(ran.load(SeqCst)));
    }
}

fn must_end_in_scope(threads: usize, f: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for at in 0..threads {
            let f = &f;
            scope.spawn(move || f(at));
        }
    });
}

/// Beside senders, on actors that refer to each other: each message has one fate.
#[test]
fn attempts_beside_senders() {
    const THREADS: usize = 3;
    let messages = size(3_000, 100_000);
    let tally = Tally::default();
    let actors = [
        tireless(0_usize),
        spawned(Actor::builder().capacity(8, Overflow::Reject), 0),
        spawned(Actor::builder().on_batch_end(|_, turns| assert!(turns > 0)), 0),
        spawned(Actor::builder().budget(3), 0),
    ];
    must_end_in_scope(THREADS, |at| {
        for n in 0..messages {
            let (one, two) = (&actors[(at + n) % 4], &actors[(at + n / 4 + 1) % 4]);
            let token = tally.token();
            match n % 3 {
                0 => {
                    let sent = one.send(move |n| {
                        *n += 1;
                        token.handle();
                    });
                    drop(sent);
                }
                1 => {
                    let tried = one.try_with(|n| {
                        *n += 1;
                        token.handle();
                    });
                    drop(tried);
                }
                _ => {
                    let tried = one.try_with(|n| {
                        *n += 1;
                        let inner = two.try_with(|n| {
                            *n += 1;
                            token.handle();
                        });
                        inner.map_err(|refused| refused.into_reason())
                    });
                    // Rings of actors do not wait for each other.
                    let refused = tried.ok().and_then(Result::err);
                    let allowed =
                        matches!(refused, None | Some(Reason::Busy | Reason::Deadlock(_)));
                    assert!(allowed, "{refused:?}");
                }
            }
        }
    });
    for actor in &actors {
        actor.idle().wait().unwrap();
    }
    tally.check();
    assert!(tally.handled() > 0);
}
