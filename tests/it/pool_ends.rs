//! The ends of a pool, and its duties to those that wait for them.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{must_end, size, until};
use turnwise::executor::{Blocking, DrainQueue, PoolError, Shutdown};
use turnwise::{Actor, AskError, Limit, Reason, StopCause, ThreadPool, WeakActor, blocking};

/// One turn at a time for each worker, so that blocked work stays blocked.
fn pool(threads: usize) -> ThreadPool {
    ThreadPool::builder().threads(threads).blocking(Blocking::Refuse).build().unwrap()
}

fn generous(threads: usize) -> ThreadPool {
    ThreadPool::builder().threads(threads).build().unwrap()
}

fn on<S: Send + 'static>(pool: &ThreadPool, state: S) -> Actor<S> {
    Actor::builder().executor(pool.handle()).spawn(state).unwrap()
}

fn run<R: Send + 'static>(
    pool: &ThreadPool,
    turn: impl FnOnce() -> R + Send + 'static,
) -> mpsc::Receiver<R> {
    let (tell, told) = mpsc::channel();
    on(pool, ()).send(move |_| drop(tell.send(turn()))).unwrap_or_else(|_| unreachable!());
    told
}

/// Holds a worker in a turn until the answer is dropped.
fn hold(pool: &ThreadPool) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    run(pool, move || {
        began.send(()).unwrap();
        let _ = gate.recv();
    });
    begun.recv().unwrap();
    open
}

/// Sends to the next of a ring, for ever.
struct Knot {
    next: Option<WeakActor<Knot>>,
}

fn pass(knot: &mut Knot) {
    if let Some(next) = knot.next.as_ref().and_then(WeakActor::upgrade) {
        let _ = next.send(pass);
    }
}

#[test]
fn hooks_that_wait_may_be_run_by_whatever_ends_a_pool() {
    must_end(|| {
        for round in 0..size(400, 4_000) {
            let pool = generous(2);
            let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let actor = || {
                let (begun, ended) = (begun.clone(), ended.clone());
                let hook = move |message| {
                    begun.fetch_add(1, SeqCst);
                    // It waits, so it gives its worker's place away if it runs on one.
                    blocking(|| drop(message));
                    ended.fetch_add(1, SeqCst);
                };
                let builder = Actor::builder().executor(pool.handle()).budget(1);
                builder.on_undelivered(hook).spawn(Knot { next: None }).unwrap()
            };
            let actors = (0..12).map(|_| actor()).collect::<Vec<_>>();
            for (n, actor) in actors.iter().enumerate() {
                let next = actors[(n + 1) % actors.len()].downgrade();
                actor.send(move |knot| knot.next = Some(next)).unwrap();
                (0..3).for_each(|_| actor.send(pass).unwrap());
            }
            (0..round % 50 * 20).for_each(|_| std::hint::spin_loop());
            let _ = pool.shutdown_now();
            actors.iter().for_each(|actor| _ = actor.stop());
            actors
                .iter()
                .for_each(|actor| assert!(actor.ended().within(Limit::Unlimited).unwrap()));
            // A hook that has panicked never reaches its end.
            until(|| begun.load(SeqCst) == ended.load(SeqCst));
        }
    });
}

#[test]
fn a_closing_pool_takes_nothing_from_outside() {
    must_end(|| {
        let pool = pool(1);
        let held = hold(&pool);
        let queued = on(&pool, 0);
        queued.send(|n| *n += 1).unwrap();
        let (late, inside) = (on(&pool, 0), on(&pool, 0));
        let (tell, told) = mpsc::channel();
        // Queued work may continue from the inside.
        queued
            .send(move |n| {
                let n = *n;
                inside.send(move |_| tell.send(n).unwrap()).unwrap_or_else(|_| unreachable!());
            })
            .unwrap();
        drop(pool);
        let refused = late.send(|n| *n += 1).unwrap_err();
        assert_eq!(refused.reason(), &Reason::Stopped(StopCause::ExecutorGone));
        assert_eq!(late.stop_cause(), Some(StopCause::ExecutorGone));
        drop(held);
        assert_eq!(told.recv(), Ok(1));
        assert_eq!(
            late.with(|n| *n),
            Err(AskError::from(Reason::Stopped(StopCause::ExecutorGone)))
        );
    });
}

#[test]
fn an_executor_says_when_it_is_closed() {
    use turnwise::Executor;
    must_end(|| {
        let pool = pool(1);
        let handle = pool.handle();
        assert!(!handle.is_closed());
        let theirs = pool.handle();
        let (open, gate) = mpsc::channel::<()>();
        let inside = run(&pool, move || (gate.recv().is_err(), theirs.is_closed()));
        drop(pool);
        assert!(handle.is_closed());
        drop(open);
        assert_eq!(inside.recv(), Ok((true, false)), "its own turns are let in until it has ended");
        assert!(!ThreadPool::global().is_closed());

        let queue = DrainQueue::new();
        let handle = queue.handle();
        assert!(!handle.is_closed());
        queue.close();
        assert!(handle.is_closed());
        let queue = DrainQueue::new();
        let handle = queue.handle();
        drop(queue);
        assert!(handle.is_closed());
        let closure = |_: turnwise::Drain| ();
        assert!(!closure.is_closed());
    });
}

#[test]
fn a_shutdown_that_sleeps_is_woken_by_the_last_thread() {
    must_end(|| {
        for _ in 0..size(20, 100) {
            let pool = generous(2);
            run(&pool, || thread::sleep(Duration::from_millis(3)));
            let begun = Instant::now();
            assert!(pool.shutdown(Limit::Unlimited).is_complete());
            assert!(begun.elapsed() < Duration::from_secs(5));
        }
    });
}

#[test]
fn threads_that_stand_by_let_a_pool_end() {
    must_end(|| {
        for round in 0..8 {
            let pool = generous(1);
            // Threads take over, come back, and stand by for ten seconds.
            let (tell, told) = mpsc::channel();
            let other = on(&pool, ());
            let done = run(&pool, move || {
                other.send(move |_| tell.send(()).unwrap()).unwrap();
                blocking(|| told.recv().unwrap());
            });
            done.recv().unwrap();
            if round % 2 == 0 {
                assert!(pool.shutdown(Duration::from_secs(5)).is_complete());
                continue;
            }
            // All work was run; a cut also dismisses the spare threads.
            let theirs = pool.handle();
            let _ = pool.shutdown_now();
            let begun = Instant::now();
            until(|| {
                format!("{theirs:?}").contains("ended: true")
                    || begun.elapsed() > Duration::from_secs(5)
            });
            assert!(begun.elapsed() < Duration::from_secs(5));
        }
    });
}

#[test]
fn a_place_taken_back_is_not_missed_at_the_end() {
    must_end(|| {
        let pool = generous(1);
        let taken = run(&pool, || {
            // So short that hardly a thread has come for the place.
            (0..size(2_000, 20_000)).for_each(|_| blocking(|| ()));
        });
        taken.recv().unwrap();
        assert!(pool.shutdown(Limit::Unlimited).is_complete());
    });
}

/// A wait that is over before a thread has come leaves the worker in place. It is chance which is
/// quicker: one of many rounds does it.
#[test]
fn a_place_that_nobody_took_is_taken_back() {
    must_end(|| {
        let pool = generous(1);
        until(|| {
            let handle = pool.handle();
            let taken_back = run(&pool, move || {
                blocking(|| ());
                format!("{handle:?}").contains("away: 0,")
            });
            taken_back.recv().unwrap()
        });
        assert!(pool.shutdown(Limit::Unlimited).is_complete());
    });
}

#[test]
fn only_a_complete_shutdown_is_complete() {
    let kinds = [Shutdown::Complete, Shutdown::Cut { dropped: 0, threads: 0 }, Shutdown::Inside];
    assert_eq!(kinds.map(Shutdown::is_complete), [true, false, false]);
}

#[test]
fn a_pool_may_be_shut_down_by_a_turn_of_another() {
    must_end(|| {
        let first = generous(1);
        let mut rounds = (0..200).map(|_| {
            let second = generous(1);
            let (tell, told) = mpsc::channel();
            // The turn of the second pool is over when one of the first has run, whose only worker
            // shuts the second down.
            let helper = on(&first, ());
            let held = run(&second, move || told.recv());
            let done = run(&first, move || {
                helper.send(move |_| tell.send(()).unwrap()).unwrap();
                let begun = Instant::now();
                (second.shutdown(Limit::Unlimited), begun.elapsed())
            });
            assert_eq!(held.recv(), Ok(Ok(())));
            let (done, took) = done.recv().unwrap();
            assert_eq!(done, Shutdown::Complete);
            took
        });
        // By the place that it gives away, not by the monitor, which takes longer. On a busy
        // machine, the quickest of many rounds counts.
        assert!(rounds.any(|took| took < Duration::from_millis(10)));
        assert!(first.shutdown(Limit::Unlimited).is_complete());
    });
}

#[test]
fn a_refused_wait_needs_no_thread_at_the_end() {
    // A thread that stands by for a wait that does not come is dismissed with the pool.
    must_end(|| {
        for _ in 0..size(20, 200) {
            let pool = generous(1);
            let free = Actor::new(1);
            let done = run(&pool, move || (0..50).map(|_| free.with(|n| *n).unwrap()).sum::<i32>());
            assert_eq!(done.recv(), Ok(50));
            assert!(pool.shutdown(Duration::from_secs(5)).is_complete());
        }
    });
}

#[test]
fn a_name_with_a_nul_is_refused() {
    let error = ThreadPool::builder().threads(1).thread_name("a\0b").build().unwrap_err();
    assert!(matches!(error, PoolError::InvalidName), "{error:?}");
    assert!(error.to_string().contains("NUL"));
    let global = ThreadPool::builder().threads(1).thread_name("\0").build_global();
    assert!(
        matches!(global, Err(PoolError::InvalidName))
            || matches!(global, Err(PoolError::GlobalExists))
    );
}

#[test]
fn nothing_goes_into_a_pool_that_has_ended() {
    must_end(|| {
        let pool = pool(2);
        let one = on(&pool, 0);
        one.send(|n| *n += 1).unwrap();
        assert!(pool.shutdown(Limit::Unlimited).is_complete());
        for _ in 0..2 {
            let refused = one.send(|n| *n += 1).unwrap_err();
            assert_eq!(refused.reason(), &Reason::Stopped(StopCause::ExecutorGone));
        }
    });
}
