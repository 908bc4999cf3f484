//! The thread pool: turns that block, its ends, and its order.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Tally, must_end, quiet_panic, size, until};
use turnwise::executor::{Blocking, PoolError, Shutdown};
use turnwise::{
    Actor, ActorName, AskError, Executor, Limit, Overflow, Reason, StopCause, ThreadPool,
    WaitError, blocking, promise,
};

fn pool(threads: usize) -> ThreadPool {
    ThreadPool::builder().threads(threads).thread_name("test").build().unwrap()
}

/// Does as `pool`, but its worker keeps the work behind a turn that blocks unseen.
fn strict() -> ThreadPool {
    ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap()
}

fn on<S: Send + 'static>(pool: &ThreadPool, state: S) -> Actor<S> {
    Actor::builder().executor(pool.handle()).spawn(state).unwrap()
}

fn end(pool: ThreadPool) {
    assert_eq!(pool.shutdown(Limit::Unlimited), Shutdown::Complete);
}

/// Sends a turn that gives the value for which another turn waits.
fn sent<R: Send + 'static>(
    actor: &Actor<()>,
    turn: impl FnOnce() -> R + Send + 'static,
) -> mpsc::Receiver<R> {
    let (tell, told) = mpsc::channel();
    actor.send(move |_| drop(tell.send(turn()))).unwrap_or_else(|_| unreachable!());
    told
}

// ---- Turns that block.

#[test]
fn a_pool_of_one_does_not_wait_for_itself() {
    must_end(|| {
        let pool = pool(1);
        let (waits, keeps) = (on(&pool, ()), on(&pool, ()));
        let (promise, reply) = promise();
        let waited = sent(&waits, move || reply.wait());
        // Queued behind the turn that waits for it.
        sent(&keeps, move || promise.keep(7));
        assert_eq!(waited.recv(), Ok(Ok(7)));
        end(pool);
    });
}

#[test]
fn what_a_blocked_turn_has_scheduled_is_run_meanwhile() {
    must_end(|| {
        let pool = pool(1);
        let (waits, other, inline) = (on(&pool, ()), on(&pool, ()), Actor::new(()));
        let (tell, told) = mpsc::channel();
        let done = sent(&waits, move || {
            // Into the worker's slot, and onto the thread's list.
            let (first, second) = (tell.clone(), tell);
            other.send(move |_| first.send(1).unwrap()).unwrap();
            inline.send(move |_| second.send(2).unwrap()).unwrap();
            blocking(|| told.recv().unwrap() + told.recv().unwrap())
        });
        assert_eq!(done.recv(), Ok(3));
        end(pool);
    });
}

#[test]
fn many_turns_block_at_a_time_and_the_next_is_refused() {
    must_end(|| {
        const MOST: usize = 40;
        let pool = ThreadPool::builder()
            .threads(1)
            .blocking(Blocking::Compensate { most: MOST })
            .build()
            .unwrap();
        let mut waiting = Vec::new();
        let mut promises = Vec::new();
        while waiting.len() < MOST {
            let (promise, reply) = promise();
            let turn = sent(&on(&pool, ()), move || reply.wait());
            let away = format!("away: {},", waiting.len() + 1);
            let answer = loop {
                let answer = turn.try_recv().ok();
                if answer.is_some() || format!("{pool:?}").contains(&away) {
                    break answer;
                }
                thread::yield_now();
            };
            // On a slow machine, a thread that was called to help and finds nothing to do has the
            // place of the last one for a moment.
            if answer.is_some() && waiting.len() + 1 == MOST {
                assert_eq!(answer, Some(Err(AskError::from(Reason::WouldBlock))));
                continue;
            }
            assert_eq!(answer, None);
            promises.push(promise);
            waiting.push(turn);
        }
        // All of them wait, so there is no further thread beyond the worker's.
        let (one_more, never) = promise::<()>();
        assert_eq!(
            sent(&on(&pool, ()), move || never.wait()).recv(),
            Ok(Err(AskError::from(Reason::WouldBlock)))
        );
        drop(one_more);
        // Turns that need not wait go on.
        let (free, theirs) = (Actor::new(1), on(&pool, 1));
        let seen = sent(&on(&pool, ()), move || {
            // The pool runs its actor, so this is a wait, and refused.
            (free.with(|n| *n), theirs.with(|n| *n))
        });
        let refused = Err(AskError::from(Reason::WouldBlock));
        assert_eq!(seen.recv(), Ok((Ok(1), refused)));
        let last = on(&pool, ());
        sent(&last, move || promises.into_iter().for_each(|promise| promise.keep(1)));
        for waiting in waiting {
            assert_eq!(waiting.recv(), Ok(Ok(1)));
        }
        end(pool);
    });
}

/// A turn that was ready to wait, and need not, takes no thread from later ones.
#[test]
fn what_was_ready_to_wait_counts_for_nothing() {
    must_end(|| {
        let pool = ThreadPool::builder()
            .threads(1)
            .blocking(Blocking::Compensate { most: 1 })
            .build()
            .unwrap();
        // With a hook, only drains run its messages.
        let free = Actor::builder().on_batch_end(|_, _| ()).spawn(1).unwrap();
        let (promise, reply) = promise();
        let waits = sent(&on(&pool, ()), move || {
            let seen = (free.with(|n| *n), free.with(|n| *n), free.with(|n| *n));
            (seen, reply.wait())
        });
        until(|| format!("{pool:?}").contains("away: 1,"));
        promise.keep(2);
        assert_eq!(waits.recv(), Ok(((Ok(1), Ok(1), Ok(1)), Ok(2))));
        end(pool);
    });
}

#[test]
fn a_pool_that_refuses_says_so_everywhere() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap();
        let busy = Actor::builder().capacity(1, Overflow::Reject).spawn(5).unwrap();
        let held = crate::common::Held::hold(&busy);
        busy.send(|n| *n += 1).unwrap();
        let theirs = busy.clone();
        let done = sent(&on(&pool, ()), move || {
            assert_eq!(theirs.with(|n| *n), Err(AskError::from(Reason::WouldBlock)));
            assert_eq!(theirs.idle().wait(), Err(Reason::WouldBlock));
            assert_eq!(theirs.ended().within(Duration::from_secs(100)), Err(Reason::WouldBlock));
            assert_eq!(theirs.ended().within(Duration::ZERO), Ok(false));
            let refused =
                theirs.waiting().send(|n| *n += 100).within(Duration::from_secs(100)).unwrap_err();
            assert_eq!(refused.reason(), &Reason::WouldBlock);
        });
        assert_eq!(done.recv(), Ok(()));
        held.let_go();
        let held = crate::common::Held::hold(&busy);
        let theirs = busy.clone();
        let done = sent(&on(&pool, ()), move || {
            let taken_back = theirs.call(|n| *n += 100).within(Duration::from_secs(100));
            assert!(
                matches!(taken_back, Err(WaitError::Ask(AskError::Refused(Reason::WouldBlock, _)))),
                "{taken_back:?}"
            );
            // Also of one that has begun: the time is not over.
            let (mut begun, reply) = promise::<u32>();
            assert!(begun.claim());
            let refused = reply.within(Duration::from_secs(100));
            assert!(
                matches!(refused, Err(WaitError::Ask(AskError::Refused(Reason::WouldBlock, _)))),
                "{refused:?}"
            );
            // No thread runs it: that is no wait.
            let pending = Actor::new(1);
            pending.send(|n| *n += 1).unwrap();
            assert_eq!(pending.with(|n| *n), Ok(2));
            pending.close();
            assert_eq!(pending.with(|n| *n), Err(AskError::from(Reason::Closed)));
        });
        assert_eq!(done.recv(), Ok(()));
        held.let_go();
        assert_eq!(busy.with(|n| *n), Ok(6), "what was refused never ran");
        end(pool);
    });
}

#[test]
fn a_turn_may_wait_for_a_busy_actor_of_its_pool() {
    must_end(|| {
        let pool = pool(1);
        let (slow, quick) = (on(&pool, 0), on(&pool, ()));
        let (promise, reply) = promise();
        // It blocks, with its place given away, so it is busy when the next turn needs it.
        let began = {
            let (tell, told) = mpsc::channel();
            slow.send(move |n| {
                tell.send(()).unwrap();
                *n += reply.wait().unwrap();
            })
            .unwrap();
            told
        };
        began.recv().unwrap();
        let theirs = slow.clone();
        let seen = sent(&quick, move || theirs.with(|n| *n));
        sent(&on(&pool, ()), move || promise.keep(3));
        assert_eq!(seen.recv(), Ok(Ok(3)));
        end(pool);
    });
}

#[test]
fn threads_that_took_over_are_used_again() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).thread_name("again").build().unwrap();
        let mut slow = 0;
        for _ in 0..size(200, 2_000) {
            let begun = Instant::now();
            let (promise, reply) = promise();
            let waited = sent(&on(&pool, ()), move || reply.wait());
            sent(&on(&pool, ()), move || promise.keep(1));
            assert_eq!(waited.recv(), Ok(Ok(1)));
            // The thread that has lost its place stands by when its turn is over, which is after
            // the answer.
            until(|| format!("{pool:?}").contains("away: 0"));
            // If nothing moves for 16 ms, in this round and the next, the monitor calls another
            // thread.
            slow += begun.elapsed().as_millis() as usize / 8;
        }
        // Two workers, one that takes over, and the monitor.
        let threads = thread_names().iter().filter(|name| name.starts_with("again-")).count();
        assert!(threads <= 4 + slow, "{threads} threads, {slow} stalls");
        end(pool);
    });
}

#[cfg(target_os = "linux")]
fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

#[cfg(not(target_os = "linux"))]
fn thread_names() -> Vec<String> {
    Vec::new()
}

// ---- Order.

#[test]
fn two_that_send_to_each_other_keep_no_third_waiting() {
    must_end(|| {
        struct Ball {
            other: Option<Actor<Ball>>,
            stop: Arc<AtomicBool>,
        }
        fn hit(ball: &mut Ball) {
            if !ball.stop.load(SeqCst) {
                ball.other.as_ref().unwrap().send(hit).unwrap_or_else(|_| unreachable!());
            }
        }
        let pool = pool(1);
        let stop = Arc::new(AtomicBool::new(false));
        let first = on(&pool, Ball { other: None, stop: stop.clone() });
        let second = on(&pool, Ball { other: Some(first.clone()), stop: stop.clone() });
        let theirs = second.clone();
        first.send(move |first| first.other = Some(theirs)).unwrap();
        first.send(hit).unwrap();
        for _ in 0..100 {
            let third = on(&pool, 1);
            let (tell, told) = mpsc::channel();
            // Not a wait, which would run it here.
            third.send(move |n| tell.send(*n).unwrap()).unwrap();
            assert_eq!(told.recv(), Ok(1));
        }
        stop.store(true, SeqCst);
        first.idle().wait().unwrap();
        second.idle().wait().unwrap();
        first.with(|first| first.other = None).unwrap();
        end(pool);
    });
}

#[test]
fn one_that_is_never_done_keeps_no_others_waiting() {
    must_end(|| {
        struct Endless {
            own: Option<Actor<Endless>>,
            turns: u64,
        }
        fn again(endless: &mut Endless) {
            endless.turns += 1;
            if let Some(own) = &endless.own {
                own.send(again).unwrap_or_else(|_| unreachable!());
            }
        }
        let pool = pool(1);
        let endless = Actor::builder()
            .executor(pool.handle())
            .budget(8)
            .spawn(Endless { own: None, turns: 0 })
            .unwrap();
        let own = endless.clone();
        endless
            .send(move |endless| {
                endless.own = Some(own);
                again(endless);
            })
            .unwrap();
        let order = Arc::new(AtomicUsize::new(0));
        let quiet = (0..100).map(|_| on(&pool, ())).collect::<Vec<_>>();
        for round in 0..10 {
            for quiet in &quiet {
                let order = order.clone();
                quiet.send(move |_| assert!(order.fetch_add(1, SeqCst) < usize::MAX)).unwrap();
            }
            until(|| order.load(SeqCst) == (round + 1) * quiet.len());
        }
        let theirs = endless.clone();
        theirs.send(|endless| endless.own = None).unwrap();
        endless.idle().wait().unwrap();
        end(pool);
    });
}

#[test]
fn work_is_spread_over_the_workers() {
    must_end(|| {
        let pool = pool(4);
        // All four can only be in their turns at a time if each has a worker.
        for _ in 0..size(20, 200) {
            let barrier = Arc::new(Barrier::new(4));
            let met = (0..4)
                .map(|_| {
                    let barrier = barrier.clone();
                    sent(&on(&pool, ()), move || barrier.wait().is_leader())
                })
                .collect::<Vec<_>>();
            met.iter().for_each(|met| assert!(met.recv().is_ok()));
        }
        // The same from inside: one worker has all of them in its queue.
        for _ in 0..size(20, 200) {
            let barrier = Arc::new(Barrier::new(4));
            let actors = (0..4).map(|_| on(&pool, ())).collect::<Vec<_>>();
            let theirs = barrier.clone();
            let met = sent(&on(&pool, ()), move || {
                actors
                    .iter()
                    .map(|actor| {
                        sent(actor, {
                            let barrier = theirs.clone();
                            move || barrier.wait().is_leader()
                        })
                    })
                    .collect::<Vec<_>>()
            });
            met.recv().unwrap().iter().for_each(|met| assert!(met.recv().is_ok()));
        }
        end(pool);
    });
}

#[test]
fn threads_have_names_and_know_their_pool() {
    must_end(|| {
        let pool = pool(1);
        let handle = pool.handle();
        assert!(!handle.is_current());
        let inside = sent(&on(&pool, ()), move || {
            (thread::current().name().map(str::to_owned), handle.is_current())
        });
        let (name, is_current) = inside.recv().unwrap();
        // A thread that takes the worker's place has another number.
        assert!(name.is_some_and(|name| name.starts_with("test-")) && is_current);
        end(pool);
    });
}

#[test]
fn a_turn_that_panics_costs_no_thread() {
    must_end(|| {
        let pool = pool(1);
        for _ in 0..100 {
            on(&pool, ()).send(|_| quiet_panic("again")).unwrap_or_else(|_| unreachable!());
        }
        let one = Actor::builder()
            .executor(pool.handle())
            .on_undelivered(|_| quiet_panic("a hook"))
            .spawn(())
            .unwrap();
        one.send(|_| quiet_panic("first")).unwrap_or_else(|_| unreachable!());
        let _ = one.send(|_| ());
        assert_eq!(sent(&on(&pool, ()), || 1).recv(), Ok(1));
        end(pool);
    });
}

// ---- Start and end.

#[test]
fn a_pool_without_workers_is_refused() {
    assert!(matches!(ThreadPool::builder().threads(0).build(), Err(PoolError::NoThreads)));
    assert!(matches!(
        ThreadPool::builder().threads(1 << 20).build(),
        Err(PoolError::TooManyThreads { asked: 0x10_0000, largest: 65_535 })
    ));
    assert!(matches!(
        ThreadPool::builder().threads(65_536).build(),
        Err(PoolError::TooManyThreads { asked: 65_536, largest: 65_535 })
    ));
    // As many as can be counted, but the system cannot provide one such thread.
    let most = ThreadPool::builder().threads(65_535).stack_size(1 << 60).build();
    assert!(matches!(most, Err(PoolError::Spawn(_))), "{most:?}");
}

#[test]
fn a_stack_is_never_too_small_for_a_worker() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(3).stack_size(1).build().unwrap();
        assert_eq!((pool.threads(), pool.handle().threads()), (3, 3));
        let used = sent(&on(&pool, ()), || std::hint::black_box([1_u8; 24 * 1024]).len());
        assert_eq!(used.recv(), Ok(24 * 1024));
        end(pool);
    });
}

#[test]
fn a_thread_that_cannot_be_started_is_told() {
    let error = ThreadPool::builder().threads(2).stack_size(1 << 60).build().unwrap_err();
    assert!(matches!(error, PoolError::Spawn(_)), "{error:?}");
    assert!(std::error::Error::source(&error).is_some());
}

fn hand_on(chain: &Arc<[Actor<()>]>, at: usize, tally: &Tally) {
    if let Some(next) = chain.get(at) {
        let (chain, tally, token) = (chain.clone(), tally.clone(), tally.token());
        let turn = move |_: &mut ()| {
            token.handle();
            hand_on(&chain, at + 1, &tally);
        };
        next.send(turn).unwrap_or_else(|_| unreachable!());
    }
}

#[test]
fn shutdown_runs_what_is_queued_and_what_it_hands_on() {
    must_end(|| {
        for threads in 1..=3 {
            let pool = pool(threads);
            let tally = Tally::default();
            // Each hands on to the next, and so do many at a time.
            let chain = (0..size(50, 500)).map(|_| on(&pool, ())).collect::<Arc<[_]>>();
            hand_on(&chain, 0, &tally);
            let mut actors = Vec::new();
            for _ in 0..100 {
                let one = Actor::builder().executor(pool.handle()).budget(1).spawn(()).unwrap();
                for _ in 0..3 {
                    let token = tally.token();
                    one.send(move |_| token.handle()).unwrap();
                }
                actors.push(one);
            }
            end(pool);
            drop((actors, chain));
            tally.check_all_handled();
            assert_eq!(tally.handled(), size(50, 500) + 300);
        }
    });
}

#[test]
fn after_the_end_drains_are_dropped() {
    must_end(|| {
        let pool = pool(2);
        let one = on(&pool, 0);
        one.send(|n| *n += 1).unwrap();
        end(pool);
        let asked = one.call(|n| *n);
        assert_eq!(asked.wait(), Err(AskError::from(Reason::Stopped(StopCause::ExecutorGone))));
        assert!(one.send(|_| ()).is_err());
    });
}

#[test]
fn a_shutdown_with_85_askers_gives_85_answers() {
    must_end(|| {
        const ASKERS: usize = 85;
        let pool = pool(2);
        let one = Actor::builder().executor(pool.handle()).budget(1).spawn(0).unwrap();
        let (release, released) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel();
        one.send(move |_| {
            began.send(()).unwrap();
            // Blocks unseen by the pool: the turn still runs when the time is over.
            let _ = released.recv();
        })
        .unwrap();
        begun.recv().unwrap();
        let others = (0..10).map(|_| on(&pool, ())).collect::<Vec<_>>();
        let asked = Arc::new(AtomicUsize::new(0));
        let askers = (0..ASKERS)
            .map(|n| {
                let (one, other, asked) = (one.clone(), others[n % 10].clone(), asked.clone());
                thread::spawn(move || {
                    let reply = one.call(|n| *n += 1);
                    let other = other.call(|_| ());
                    asked.fetch_add(1, SeqCst);
                    (reply.wait(), other.wait())
                })
            })
            .collect::<Vec<_>>();
        until(|| asked.load(SeqCst) == ASKERS);
        let outcome = pool.shutdown(Duration::from_millis(20));
        assert!(matches!(outcome, Shutdown::Cut { threads: 1.., .. }), "{outcome:?}");
        drop(release);
        let answers = askers.into_iter().map(|asker| asker.join().unwrap()).collect::<Vec<_>>();
        assert_eq!(answers.len(), ASKERS);
        let gone = Err(AskError::from(Reason::Stopped(StopCause::ExecutorGone)));
        assert!(
            answers
                .iter()
                .all(|(one, other)| (one.is_ok() || *one == gone)
                    && (other.is_ok() || *other == gone)),
            "{answers:?}"
        );
        // Its budget was one turn, so the rest was handed to a pool that had ended.
        assert_eq!(answers.iter().filter(|(one, _)| one.is_ok()).count(), 0);
    });
}

#[test]
fn shutdown_now_drops_what_waits_behind_a_turn() {
    must_end(|| {
        let pool = strict();
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let (next, last) = (on(&pool, ()), on(&pool, ()));
        let (theirs, inner) = (next.clone(), last.clone());
        let busy = on(&pool, ());
        busy.send(move |_| {
            // One into the queue, one into the slot.
            theirs.send(|_| ()).unwrap();
            inner.send(|_| ()).unwrap();
            tell.send(()).unwrap();
            let _ = released.recv();
        })
        .unwrap();
        told.recv().unwrap();
        let outside = on(&pool, ());
        outside.send(|_| ()).unwrap();
        assert_eq!(pool.shutdown_now(), Shutdown::Cut { dropped: 3, threads: 1 });
        for stopped in [&next, &last, &outside] {
            assert_eq!(stopped.stop_cause(), Some(StopCause::ExecutorGone));
        }
        assert_eq!(busy.stop_cause(), None);
        drop(release);
        busy.idle().wait().unwrap();
        assert_eq!(busy.stop_cause(), None, "its turn was run to the end, and nothing was left");
    });
}

#[test]
fn a_turn_that_waits_is_answered_at_a_cut_off() {
    must_end(|| {
        let pool = ThreadPool::builder()
            .threads(1)
            .blocking(Blocking::Compensate { most: 1 })
            .build()
            .unwrap();
        let (waits, queued) = (on(&pool, ()), on(&pool, ()));
        let (never, reply) = promise::<()>();
        let waited = sent(&waits, move || reply.wait());
        // Otherwise, if the turn reached its wait slowly, the pool's other thread would help out
        // with the next one: there would be none to take over, and the wait would be refused.
        until(|| format!("{pool:?}").contains("away: 1,"));
        // It takes over the place of the waiting turn, and then holds it.
        let (release, released) = mpsc::channel::<()>();
        let began = {
            let (tell, told) = mpsc::channel();
            on(&pool, ())
                .send(move |_| {
                    tell.send(()).unwrap();
                    let _ = released.recv();
                })
                .unwrap();
            told
        };
        began.recv().unwrap();
        queued.send(move |_| never.keep(())).unwrap();
        // The thread of the waiting turn may have ended by then: the drop has notified it.
        assert!(matches!(
            pool.shutdown(Duration::ZERO),
            Shutdown::Cut { dropped: 1, threads: 1.. }
        ));
        assert_eq!(waited.recv(), Ok(Err(AskError::Abandoned(ActorName::ANY))));
        drop(release);
    });
}

#[test]
fn a_dropped_pool_runs_what_is_queued() {
    must_end(|| {
        let pool = pool(1);
        let (release, released) = mpsc::channel::<()>();
        let held = sent(&on(&pool, ()), move || released.recv().is_err());
        let queued = sent(&on(&pool, ()), || 1);
        drop(pool);
        drop(release);
        assert_eq!(held.recv(), Ok(true));
        assert_eq!(queued.recv(), Ok(1));
    });
}

#[test]
fn a_pool_may_end_by_a_turn_of_its_own() {
    must_end(|| {
        let first = pool(1);
        let handle = first.handle();
        let actor = Actor::builder().executor(handle).spawn(Some(first)).unwrap();
        let (tell, told) = mpsc::channel();
        actor
            .send(move |pool| {
                tell.send(pool.take().map(|pool| pool.shutdown(Limit::Unlimited))).unwrap()
            })
            .unwrap();
        assert_eq!(told.recv(), Ok(Some(Shutdown::Inside)));

        let second = pool(2);
        let handle = second.handle();
        let actor = Actor::builder().executor(handle).spawn(Some(second)).unwrap();
        let (tell, told) = mpsc::channel();
        actor
            .send(move |pool| {
                drop(pool.take());
                tell.send(()).unwrap();
            })
            .unwrap();
        assert_eq!(told.recv(), Ok(()));
    });
}

#[test]
fn nothing_is_lost_whenever_a_pool_ends() {
    must_end(|| {
        for round in 0..size(60, 600) {
            let pool = pool(1 + round % 3);
            let tally = Tally::default();
            let actors = (0..8)
                .map(|_| {
                    Actor::builder()
                        .executor(pool.handle())
                        .budget(2)
                        .on_undelivered(drop)
                        .spawn(())
                        .unwrap()
                })
                .collect::<Vec<_>>();
            thread::scope(|scope| {
                for sender in 0..3 {
                    let (actors, tally) = (&actors, &tally);
                    scope.spawn(move || {
                        for n in 0..40 {
                            let (token, inner) = (tally.token(), tally.token());
                            let next = actors[(sender + n) % 8].clone();
                            let turn = move |_: &mut ()| {
                                token.handle();
                                if let Err(refused) = next.send(move |_| inner.handle()) {
                                    drop(refused.into_message());
                                }
                            };
                            if let Err(refused) = actors[n % 8].send(turn) {
                                drop(refused.into_message());
                            }
                        }
                    });
                }
                let _ = match round % 4 {
                    0 => pool.shutdown_now(),
                    1 => pool.shutdown(Duration::from_micros(50)),
                    2 => pool.shutdown(Limit::Unlimited),
                    _ => {
                        drop(pool);
                        Shutdown::Complete
                    }
                };
            });
            for actor in &actors {
                actor.close();
            }
            for actor in &actors {
                assert!(actor.ended().within(Limit::Unlimited).unwrap());
            }
            drop(actors);
            until(|| tally.created() == tally.handled() + tally.dropped());
        }
    });
}

#[test]
fn the_pool_of_the_process_starts_once() {
    must_end(|| {
        let pools = (0..64)
            .map(|_| thread::spawn(|| std::ptr::from_ref(ThreadPool::global()).addr()))
            .collect::<Vec<_>>();
        let pools = pools
            .into_iter()
            .map(|pool| pool.join().unwrap())
            .collect::<std::collections::HashSet<_>>();
        assert_eq!(pools.len(), 1);
        assert!(matches!(ThreadPool::builder().build_global(), Err(PoolError::GlobalExists)));
        let n = Actor::builder().executor(ThreadPool::global().clone()).spawn(1).unwrap();
        assert_eq!(n.call(|n| *n).wait(), Ok(1));
    });
}

#[test]
fn handles_are_executors_that_threads_share() {
    fn executor<E: Executor + Clone + Send + Sync + std::fmt::Debug + 'static>() {}
    executor::<turnwise::executor::PoolHandle>();
    executor::<turnwise::executor::QueueHandle>();
}
