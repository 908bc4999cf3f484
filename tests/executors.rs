//! One suite of behaviour, over every way to run an actor: by its senders, in the pool, in rayon's, as tokio's tasks, by hand.

mod common;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use common::{Tally, must_end, quiet_panic, size};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, ActorBuilder, AskError, Drain, Executor, Limit, Overflow, Panic, StopCause, ThreadPool};

/// Where actors are run, for one test.
struct On {
    executor: Option<Arc<dyn Executor>>,
    /// Ends it, and waits for its threads.
    end: Box<dyn FnOnce() + Send>,
}

impl On {
    fn inline() -> On {
        On { executor: None, end: Box::new(|| ()) }
    }

    fn new(executor: impl Executor + 'static, end: impl FnOnce() + Send + 'static) -> On {
        On { executor: Some(Arc::new(executor)), end: Box::new(end) }
    }

    fn pool(threads: usize) -> On {
        let pool = ThreadPool::builder().threads(threads).build().unwrap();
        On::new(pool.handle(), move || assert!(pool.shutdown(Limit::Unlimited).is_complete()))
    }

    fn queue(queue: DrainQueue) -> On {
        let queue = Arc::new(queue);
        let handle = queue.handle();
        let theirs = queue.clone();
        let runner = thread::spawn(move || theirs.run_until_closed());
        On::new(handle, move || {
            queue.close();
            runner.join().unwrap();
        })
    }

    #[cfg(feature = "rayon")]
    fn rayon() -> On {
        let pool = ::rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        On::new(turnwise::executor::Rayon::new(Arc::new(pool)), || ())
    }

    #[cfg(feature = "tokio")]
    fn tokio(blocking: bool) -> On {
        use turnwise::executor::Tokio;
        let runtime = ::tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let handle = runtime.handle().clone();
        let executor = if blocking { Tokio::for_blocking(handle) } else { Tokio::new(handle) };
        On::new(executor, move || runtime.shutdown_timeout(Duration::from_secs(10)))
    }

    fn is_inline(&self) -> bool {
        self.executor.is_none()
    }

    fn builder<S: Send + 'static>(&self, state: S) -> ActorBuilder<S> {
        let builder = Actor::builder(state);
        match self.executor.clone() {
            Some(executor) => builder.executor(move |drain: Drain| executor.execute(drain)),
            None => builder,
        }
    }

    fn actor<S: Send + 'static>(&self, state: S) -> Actor<S> {
        self.builder(state).spawn().unwrap()
    }
}

/// The tests, over the executors.
macro_rules! suite {
    ($($test:ident)*) => {
        suite! { @ inline On::inline(); $($test)* }
        suite! { @ pool_of_one On::pool(1); $($test)* }
        suite! { @ pool_of_two On::pool(2); $($test)* }
        suite! { @ pool_of_four On::pool(4); $($test)* }
        suite! { @ by_hand On::queue(DrainQueue::new()); $($test)* }
        suite! { @ by_hand_seeded On::queue(DrainQueue::seeded(7)); $($test)* }
        #[cfg(feature = "rayon")]
        suite! { @ rayon On::rayon(); $($test)* }
        #[cfg(feature = "tokio")]
        suite! { @ tokio On::tokio(false); $($test)* }
        #[cfg(feature = "tokio")]
        suite! { @ tokio_blocking On::tokio(true); $($test)* }
    };
    (@ $on:ident $make:expr; $($test:ident)*) => {
        mod $on {
            use super::*;
            $(#[test]
            fn $test() {
                must_end(|| {
                    let on = $make;
                    super::$test(&on);
                    (on.end)();
                });
            })*
        }
    };
}

suite! {
    messages_run_one_at_a_time_in_the_order_of_each_sender
    questions_are_answered
    a_sender_that_holds_a_lock_which_the_turn_wants_goes_on
    a_panic_hurts_one_message
    a_panic_stops_an_actor_whose_policy_says_so
    stop_gives_back_what_waits
    a_full_mailbox_lets_in_those_who_wait
    a_message_goes_round_a_ring
    turns_may_wait_for_other_actors
    the_last_handle_lets_everything_run
    nothing_is_lost_whatever_is_closed_or_stopped
}

fn messages_run_one_at_a_time_in_the_order_of_each_sender(on: &On) {
    const SENDERS: usize = 4;
    let each = size(2_000, 20_000);
    let busy = Arc::new(AtomicBool::new(false));
    let log = on.actor(([0; SENDERS], 0));
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (log, busy) = (log.clone(), busy.clone());
            scope.spawn(move || {
                for n in 1..=each {
                    let busy = busy.clone();
                    let turn = move |(last, count): &mut ([usize; SENDERS], usize)| {
                        assert!(!busy.swap(true, SeqCst), "two turns at a time");
                        assert_eq!(last[sender] + 1, n);
                        last[sender] = n;
                        *count += 1;
                        busy.store(false, SeqCst);
                    };
                    log.send(turn).unwrap();
                }
            });
        }
    });
    log.wait_idle().unwrap();
    assert_eq!(log.with(|(last, count)| (*last, *count)), Ok(([each; SENDERS], SENDERS * each)));
}

fn questions_are_answered(on: &On) {
    let each = size(500, 5_000);
    let sum = on.actor(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..each {
                    sum.ask(|sum| {
                        *sum += 1;
                        *sum
                    })
                    .wait()
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(sum.with(|sum| *sum), Ok(4 * each));
}

fn a_sender_that_holds_a_lock_which_the_turn_wants_goes_on(on: &On) {
    if on.is_inline() {
        return;
    }
    let lock = Arc::new(Mutex::new(0));
    let one = on.actor(());
    let held = lock.lock().unwrap();
    let theirs = lock.clone();
    one.send(move |_| *theirs.lock().unwrap() += 1).unwrap();
    drop(held);
    one.wait_idle().unwrap();
    assert_eq!(*lock.lock().unwrap(), 1);
}

fn a_panic_hurts_one_message(on: &On) {
    let sum = on.builder(0).on_panic(Panic::Resume).spawn().unwrap();
    for n in 1..=1000 {
        let turn = move |sum: &mut i32| if n % 7 == 0 { quiet_panic("a seven") } else { *sum += 1 };
        sum.send(turn).unwrap();
    }
    assert_eq!(sum.ask(|_| -> () { quiet_panic("asked") }).wait(), Err(AskError::Panicked("asked".into())));
    assert_eq!(sum.ask(|sum| *sum).wait(), Ok(858));
}

fn a_panic_stops_an_actor_whose_policy_says_so(on: &On) {
    let one = on.actor(());
    one.send(|_| quiet_panic("enough")).unwrap_or_else(|_| unreachable!());
    let asked = one.ask(|_| ());
    let cause = StopCause::Panicked("enough".into());
    assert_eq!(asked.wait(), Err(AskError::Stopped(cause.clone())));
    assert_eq!(one.stop_cause(), Some(cause));
}

fn stop_gives_back_what_waits(on: &On) {
    let tally = Tally::default();
    let (tell, told) = mpsc::channel();
    let one = on.builder(()).undelivered(move |message| tell.send(message).unwrap()).spawn().unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    let theirs = one.clone();
    let blocked = thread::spawn(move || {
        let turn = move |_: &mut ()| {
            began.send(()).unwrap();
            wait.recv().unwrap();
        };
        theirs.send(turn).unwrap();
    });
    begun.recv().unwrap();
    for _ in 0..5 {
        let token = tally.token();
        one.send(move |_| drop(token)).unwrap();
    }
    let asked = one.ask(|_| ());
    one.stop();
    go.send(()).unwrap();
    blocked.join().unwrap();
    assert_eq!(asked.wait(), Err(AskError::Stopped(StopCause::Requested)));
    assert!(one.wait_ended(Limit::Unlimited).unwrap());
    assert_eq!(told.try_iter().count(), 5);
    assert_eq!(tally.dropped(), 5);
}

fn a_full_mailbox_lets_in_those_who_wait(on: &On) {
    let each = size(200, 2_000);
    let sum = on.builder(0).capacity(3, Overflow::Reject).spawn().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..each {
                    sum.send_within(Limit::Unlimited, |sum| *sum += 1).unwrap();
                }
            });
        }
    });
    sum.wait_idle().unwrap();
    assert_eq!(sum.with(|sum| *sum), Ok(4 * each));
}

/// One of a ring.
struct Knot {
    next: Option<Actor<Knot>>,
    done: mpsc::Sender<()>,
}

fn pass(knot: &mut Knot, left: usize) {
    match &knot.next {
        Some(next) if left > 0 => next.send(move |next| pass(next, left - 1)).unwrap_or_else(|_| unreachable!()),
        _ => knot.done.send(()).unwrap(),
    }
}

fn a_message_goes_round_a_ring(on: &On) {
    let (done, told) = mpsc::channel();
    let first = on.actor(Knot { next: None, done: done.clone() });
    let mut next = first.clone();
    for _ in 1..50 {
        next = on.actor(Knot { next: Some(next), done: done.clone() });
    }
    first.send(move |first| first.next = Some(next)).unwrap();
    let hops = size(5_000, 100_000);
    first.send(move |first| pass(first, hops)).unwrap();
    told.recv().unwrap();
    // The ring holds itself.
    first.with(|first| first.next = None).unwrap();
}

fn turns_may_wait_for_other_actors(on: &On) {
    // Each waits for the one below, in three ways.
    let mut below = on.actor(1_u64);
    for _ in 0..4 {
        let lower = below.clone();
        below = on.actor(0);
        below
            .send(move |own| {
                lower.send(|n| *n += 1).unwrap();
                *own = lower.with(|n| *n).unwrap();
                *own += lower.ask(|n| *n).wait().unwrap();
                lower.wait_idle().unwrap();
            })
            .unwrap();
    }
    // Twice the one below and its one more: 1, 4, 10, 22, 46.
    assert_eq!(below.ask(|n| *n).wait(), Ok(46));
}

fn the_last_handle_lets_everything_run(on: &On) {
    let (tell, told) = mpsc::channel();
    let count = size(100, 1_000);
    let sum = on.builder(0).on_end(move |sum, cause| tell.send((sum, cause)).unwrap()).spawn().unwrap();
    for _ in 0..count {
        sum.send(|sum| *sum += 1).unwrap();
    }
    drop(sum);
    assert_eq!(told.recv(), Ok((Some(count), None)));
    assert_eq!(told.recv().ok(), None, "once");
}

fn nothing_is_lost_whatever_is_closed_or_stopped(on: &On) {
    for round in 0..size(20, 200) {
        let tally = Tally::default();
        let one = on.builder(0).capacity(8, Overflow::DropNewest).undelivered(drop).spawn().unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                let (one, tally) = (&one, &tally);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let token = tally.token();
                        if let Err(error) = one.send(move |_| token.handle()) {
                            drop(error.into_message());
                        }
                    }
                });
            }
            match round % 3 {
                0 => drop(one.close()),
                1 => drop(one.stop()),
                _ => {}
            }
        });
        one.close();
        assert!(one.wait_ended(Limit::Unlimited).unwrap());
        // A refused message is dropped by its sender; the queue may hold what was stopped a little longer.
        common::until(|| tally.created() == tally.handled() + tally.dropped());
    }
}

/// What only some executors can: go away.
#[cfg(feature = "tokio")]
mod a_runtime {
    use super::*;
    use ::tokio::runtime::{Builder, Runtime};
    use turnwise::executor::Tokio;

    const GONE: AskError = AskError::Stopped(StopCause::ExecutorGone);

    /// One thread, which runs nothing unless it is told to.
    fn current() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    fn on(runtime: &Runtime) -> Actor<i32> {
        Actor::builder(1).executor(Tokio::new(runtime.handle().clone())).spawn().unwrap()
    }

    #[test]
    fn that_goes_away_answers_everyone() {
        must_end(|| {
            let runtime = current();
            let waiting = (0..85).map(|_| on(&runtime)).map(|one| (one.ask(|n| *n), one)).collect::<Vec<_>>();
            drop(runtime);
            for (reply, one) in waiting {
                assert_eq!(reply.wait(), Err(GONE));
                assert_eq!(one.stop_cause(), Some(StopCause::ExecutorGone));
            }
        });
    }

    #[test]
    fn that_has_gone_is_found_out_by_the_next_sender() {
        must_end(|| {
            let runtime = current();
            let one = on(&runtime);
            drop(runtime);
            assert_eq!(one.ask(|n| *n).wait(), Err(GONE));
            assert!(one.send(|_| ()).is_err());
        });
    }

    #[test]
    fn of_one_thread_runs_actors_between_its_tasks() {
        must_end(|| {
            let runtime = current();
            let one = on(&runtime);
            let answer = runtime.block_on(async {
                one.send(|n| *n += 1).unwrap();
                ::tokio::task::yield_now().await;
                assert!(one.is_idle(), "run while this task gave way");
                one.ask(|n| *n).await
            });
            assert_eq!(answer, Ok(2));
        });
    }
}
