//! One suite of behaviour, over every way to run an actor: by its senders, in the pool, in rayon's,
//! as tokio's tasks, by hand. Then the promises to an executor, and the specifics of each.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{Tally, must_end, quiet_panic, size};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorBuilder, AskError, Drain, EndCause, Executor, Limit, Overflow, PanicPolicy, Reason,
    StopCause, ThreadPool,
};

/// The executor of one test.
struct On {
    executor: Option<Arc<dyn Executor>>,
    /// A blocked turn keeps its thread, and there are few, so waiting turns must help.
    keeps_threads: bool,
    /// Ends it, and waits for its threads.
    end: Box<dyn FnOnce() + Send>,
}

impl On {
    fn inline() -> On {
        On { executor: None, keeps_threads: false, end: Box::new(|| ()) }
    }

    fn new(executor: impl Executor + 'static, end: impl FnOnce() + Send + 'static) -> On {
        let executor: Option<Arc<dyn Executor>> = Some(Arc::new(executor));
        On { executor, keeps_threads: false, end: Box::new(end) }
    }

    fn pool(threads: usize) -> On {
        let pool = ThreadPool::builder().threads(threads).build().unwrap();
        On::new(pool.handle(), move || assert!(pool.shutdown(Limit::Unlimited).is_complete()))
    }

    fn queue(queue: DrainQueue, threads: usize) -> On {
        let queue = Arc::new(queue);
        let handle = queue.handle();
        let runner = |_| {
            let queue = queue.clone();
            thread::spawn(move || queue.run_until_closed())
        };
        let runners = (0..threads).map(runner).collect::<Vec<_>>();
        let on = On::new(handle, move || {
            queue.close();
            runners.into_iter().for_each(|runner| _ = runner.join().unwrap());
        });
        On { keeps_threads: threads < MANY, ..on }
    }

    #[cfg(feature = "rayon")]
    fn rayon(threads: usize) -> On {
        let pool = ::rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let on = On::new(turnwise::executor::Rayon::new(Arc::new(pool)), || ());
        On { keeps_threads: threads < MANY, ..on }
    }

    #[cfg(feature = "tokio")]
    fn tokio(blocking: bool, threads: usize) -> On {
        use turnwise::executor::Tokio;
        let runtime =
            ::tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build().unwrap();
        let handle = runtime.handle().clone();
        let executor = if blocking { Tokio::for_blocking(handle) } else { Tokio::new(handle) };
        let on = On::new(executor, move || runtime.shutdown_timeout(Duration::from_secs(10)));
        // There are 512 threads for blocking turns.
        On { keeps_threads: threads < MANY && !blocking, ..on }
    }

    fn is_inline(&self) -> bool {
        self.executor.is_none()
    }

    fn builder<S: Send + 'static>(&self) -> ActorBuilder<S> {
        let builder = Actor::builder();
        match self.executor.clone() {
            Some(executor) => builder.executor(executor),
            None => builder,
        }
    }

    fn actor<S: Send + 'static>(&self, state: S) -> Actor<S> {
        self.builder().spawn(state).unwrap()
    }
}

/// The number of threads for tests that need many: more than turns wait there at a time.
const MANY: usize = 6;

/// The tests, over the executors.
macro_rules! suite {
    (many: $($test:ident)*) => {
        suite! { @ many_by_hand On::queue(DrainQueue::new(), MANY); $($test)* }
        #[cfg(feature = "rayon")]
        suite! { @ many_rayon On::rayon(MANY); $($test)* }
        #[cfg(feature = "tokio")]
        suite! { @ many_tokio On::tokio(false, MANY); $($test)* }
    };
    ($($test:ident)*) => {
        suite! { @ inline On::inline(); $($test)* }
        suite! { @ pool_of_one On::pool(1); $($test)* }
        suite! { @ pool_of_two On::pool(2); $($test)* }
        suite! { @ pool_of_four On::pool(4); $($test)* }
        suite! { @ by_hand On::queue(DrainQueue::new(), 1); $($test)* }
        suite! { @ by_hand_seeded On::queue(DrainQueue::seeded(7), 1); $($test)* }
        #[cfg(feature = "rayon")]
        suite! { @ rayon On::rayon(2); $($test)* }
        #[cfg(feature = "tokio")]
        suite! { @ tokio On::tokio(false, 2); $($test)* }
        #[cfg(feature = "tokio")]
        suite! { @ tokio_blocking On::tokio(true, 2); $($test)* }
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
    one_at_a_time_in_the_order_of_each_sender
    questions_are_answered
    a_sender_may_hold_a_lock_that_the_turn_wants
    a_panic_hurts_one_message
    a_panic_stops_an_actor_whose_policy_says_so
    stop_gives_back_what_waits
    a_full_mailbox_lets_in_those_who_wait
    a_message_goes_round_a_ring
    turns_may_wait_for_other_actors
    the_last_handle_lets_everything_run
    nothing_is_lost_whatever_is_closed_or_stopped
    no_other_thread_runs_what_has_an_executor
}

suite! { many:
    turns_may_wait_for_other_actors
}

fn one_at_a_time_in_the_order_of_each_sender(on: &On) {
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
    log.idle().wait().unwrap();
    assert_eq!(log.with(|(last, count)| (*last, *count)), Ok(([each; SENDERS], SENDERS * each)));
}

fn questions_are_answered(on: &On) {
    let each = size(250, 1_000);
    let sum = on.actor(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..each {
                    sum.call(|sum| {
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

fn a_sender_may_hold_a_lock_that_the_turn_wants(on: &On) {
    if on.is_inline() {
        return;
    }
    let lock = Arc::new(Mutex::new(0));
    let one = on.actor(());
    let held = lock.lock().unwrap();
    let theirs = lock.clone();
    one.send(move |_| *theirs.lock().unwrap() += 1).unwrap();
    drop(held);
    one.idle().wait().unwrap();
    assert_eq!(*lock.lock().unwrap(), 1);
}

fn a_panic_hurts_one_message(on: &On) {
    let sum = on.builder().panic_policy(PanicPolicy::Resume).spawn(0).unwrap();
    for n in 1..=1000 {
        let turn = move |sum: &mut i32| if n % 7 == 0 { quiet_panic("a seven") } else { *sum += 1 };
        sum.send(turn).unwrap();
    }
    assert_eq!(
        sum.call(|_| -> () { quiet_panic("asked") }).wait(),
        Err(AskError::Panicked("asked".into()))
    );
    assert_eq!(sum.call(|sum| *sum).wait(), Ok(858));
}

fn a_panic_stops_an_actor_whose_policy_says_so(on: &On) {
    let one = on.actor(());
    one.send(|_| quiet_panic("enough")).unwrap_or_else(|_| unreachable!());
    let asked = one.call(|_| ());
    let cause = StopCause::Panicked("enough".into());
    assert_eq!(asked.wait(), Err(AskError::from(Reason::Stopped(cause.clone()))));
    assert_eq!(one.stop_cause(), Some(cause));
}

fn stop_gives_back_what_waits(on: &On) {
    let tally = Tally::default();
    let (tell, told) = mpsc::channel();
    let one =
        on.builder().on_undelivered(move |message| tell.send(message).unwrap()).spawn(()).unwrap();
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
    let asked = one.call(|_| ());
    one.stop();
    go.send(()).unwrap();
    blocked.join().unwrap();
    assert_eq!(asked.wait(), Err(AskError::from(Reason::Stopped(StopCause::Requested))));
    assert!(one.ended().within(Limit::Unlimited).unwrap());
    assert_eq!(told.try_iter().count(), 5);
    assert_eq!(tally.dropped(), 5);
}

fn a_full_mailbox_lets_in_those_who_wait(on: &On) {
    let each = size(200, 2_000);
    let sum = on.builder().capacity(3, Overflow::Reject).spawn(0).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..each {
                    sum.waiting().send(|sum| *sum += 1).within(Limit::Unlimited).unwrap();
                }
            });
        }
    });
    sum.idle().wait().unwrap();
    assert_eq!(sum.with(|sum| *sum), Ok(4 * each));
}

/// A member of a ring.
struct Knot {
    next: Option<Actor<Knot>>,
    done: mpsc::Sender<()>,
}

fn pass(knot: &mut Knot, left: usize) {
    match &knot.next {
        Some(next) if left > 0 => {
            next.send(move |next| pass(next, left - 1)).unwrap_or_else(|_| unreachable!())
        }
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
    // Where a blocked turn keeps one of few threads, it runs the actors that it waits for: plain
    // ones.
    let is_plain = |level| on.keeps_threads && level < 4;
    let actor = |level, n: u64| if is_plain(level) { Actor::new(n) } else { on.actor(n) };
    // Each waits for the one below, in three ways.
    let mut below = actor(0, 1);
    for level in 1..=4 {
        let lower = below.clone();
        below = actor(level, 0);
        below
            .send(move |own| {
                lower.send(|n| *n += 1).unwrap();
                *own = lower.with(|n| *n).unwrap();
                *own += lower.call(|n| *n).wait().unwrap();
                lower.idle().wait().unwrap();
            })
            .unwrap();
    }
    // Twice the one below and its one more: 1, 4, 10, 22, 46.
    assert_eq!(below.call(|n| *n).wait(), Ok(46));
}

fn the_last_handle_lets_everything_run(on: &On) {
    let (tell, told) = mpsc::channel();
    let count = size(100, 1_000);
    let sum =
        on.builder().on_end(move |sum, cause| tell.send((sum, cause)).unwrap()).spawn(0).unwrap();
    for _ in 0..count {
        sum.send(|sum| *sum += 1).unwrap();
    }
    drop(sum);
    assert_eq!(told.recv().unwrap(), (count, EndCause::Dropped));
    assert_eq!(told.recv().ok(), None, "once");
}

fn nothing_is_lost_whatever_is_closed_or_stopped(on: &On) {
    for round in 0..size(20, 200) {
        let tally = Tally::default();
        let one =
            on.builder().capacity(8, Overflow::DropNewest).on_undelivered(drop).spawn(0).unwrap();
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
        assert!(one.ended().within(Limit::Unlimited).unwrap());
        // A refused message is dropped by its sender; the queue may hold a stopped actor a little
        // longer.
        crate::common::until(|| tally.created() == tally.handled() + tally.dropped());
    }
}

/// Neither senders, waiters and observers run it, nor threads that end it.
fn no_other_thread_runs_what_has_an_executor(on: &On) {
    if on.is_inline() {
        return;
    }
    let here = thread::current().id();
    let (tell, told) = mpsc::channel();
    let ended = tell.clone();
    let ran = on.builder().on_end(move |_, _| ended.send(thread::current().id()).unwrap());
    let ran = ran.spawn(tell).unwrap();
    let turn = |tell: &mut mpsc::Sender<_>| tell.send(thread::current().id()).unwrap();
    let mut turns = 0;
    for _ in 0..size(50, 500) {
        ran.send(turn).unwrap();
        ran.send_many([turn, turn]).unwrap();
        ran.posted().send(turn).unwrap();
        ran.waiting().send(turn).wait().unwrap();
        ran.with(turn).unwrap();
        ran.call(turn).wait().unwrap();
        ran.call(turn).within(Duration::from_secs(50)).unwrap();
        let mut polled = ran.call(turn);
        let answered = crate::common::poll_once(&mut polled).is_ready();
        ran.idle().wait().unwrap();
        assert!(answered || crate::common::block_on(polled).is_ok());
        ran.send(turn).unwrap();
        crate::common::block_on(ran.idle()).unwrap();
        ran.send(turn).unwrap();
        assert_eq!(ran.ended().within(Duration::ZERO), Ok(false));
        turns += 11;
    }
    ran.send(turn).unwrap();
    drop(ran);
    let threads = told.into_iter().collect::<Vec<_>>();
    assert_eq!(threads.len(), turns + 2, "all turns, and the end");
    assert!(!threads.contains(&here));
}

// ---- Drains of an executor.

type Queue = Arc<Mutex<VecDeque<Drain>>>;

/// An executor whose drains the test runs.
fn by_hand() -> (Queue, impl Fn(Drain) + Send + Sync) {
    let queue = Queue::default();
    let inner = queue.clone();
    (queue, move |drain| inner.lock().unwrap().push_back(drain))
}

fn run_one(queue: &Queue) -> bool {
    let next = queue.lock().unwrap().pop_front();
    next.map(Drain::run).is_some()
}

#[test]
fn a_budget_hands_on_what_is_left_and_nothing_else() {
    let (queue, executor) = by_hand();
    let log = Actor::builder().executor(executor).budget(1).spawn(Vec::new()).unwrap();
    for n in 1..=3 {
        log.send(move |log: &mut Vec<i32>| log.push(n)).unwrap();
    }
    assert_eq!(queue.lock().unwrap().len(), 1, "one drain for three messages");
    let mut rounds = 0;
    while run_one(&queue) {
        rounds += 1;
    }
    assert_eq!(rounds, 3, "three slices, two hand-offs, none for nothing");
    let asked = log.call(|log| log.clone());
    assert!(run_one(&queue));
    assert_eq!(asked.wait().unwrap(), [1, 2, 3]);
}

#[test]
fn a_dropped_drain_stops_its_actor() {
    let (queue, executor) = by_hand();
    let (tx, rx) = mpsc::channel();
    let n = Actor::builder()
        .executor(executor)
        .on_undelivered(move |message| tx.send(message).unwrap())
        .spawn(0)
        .unwrap();
    n.send(|n| *n += 1).unwrap();
    let asked = n.call(|n| *n);
    drop(queue.lock().unwrap().pop_front());
    let gone = Reason::Stopped(StopCause::ExecutorGone);
    assert_eq!(asked.wait(), Err(AskError::from(gone.clone())));
    assert_eq!(rx.try_iter().count(), 1);
    assert_eq!(n.send(|_| ()).unwrap_err().reason(), &gone);
}

#[test]
fn a_waiting_caller_leaves_the_turn_to_the_executor() {
    let (queue, executor) = by_hand();
    let n = Actor::builder().executor(executor).spawn(0).unwrap();
    n.send(|n| *n += 1).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| n.with(|n| (*n, thread::current().id())));
        crate::common::until(|| n.len() == 2);
        assert_eq!(queue.lock().unwrap().len(), 1, "the caller has added none");
        assert!(run_one(&queue));
        assert_eq!(waits.join().unwrap(), Ok((1, thread::current().id())));
    });
    // The caller schedules a mailbox that it has left pending, perhaps after this thread has run
    // it.
    let stale = queue.lock().unwrap().len();
    assert!(stale <= 1, "{stale} drains of an idle actor");
    while run_one(&queue) {}
    assert!(n.is_idle());
}

#[test]
fn the_last_handle_leaves_the_end_to_the_executor() {
    let (queue, executor) = by_hand();
    let (tx, rx) = mpsc::channel();
    let n = Actor::builder()
        .executor(executor)
        .on_end(move |state, cause| tx.send((state, cause.stop_cause())).unwrap())
        .spawn(0)
        .unwrap();
    n.send(|n| *n += 1).unwrap();
    drop(n);
    assert!(rx.try_recv().is_err());
    while run_one(&queue) {}
    assert_eq!(rx.recv().unwrap(), (1, None));
}

/// An end, which only some executors have.
#[cfg(feature = "tokio")]
mod a_runtime {
    use super::*;
    use ::tokio::runtime::{Builder, Runtime};
    use turnwise::executor::Tokio;

    const GONE: AskError =
        AskError::Refused(Reason::Stopped(StopCause::ExecutorGone), turnwise::ActorName::ANY);

    /// One thread, which runs nothing unless it is driven.
    fn current() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    fn on(runtime: &Runtime) -> Actor<i32> {
        Actor::builder().executor(Tokio::new(runtime.handle().clone())).spawn(1).unwrap()
    }

    #[test]
    fn that_goes_away_answers_everyone() {
        must_end(|| {
            let runtime = current();
            let waiting = (0..85)
                .map(|_| on(&runtime))
                .map(|one| (one.call(|n| *n), one))
                .collect::<Vec<_>>();
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
            let refused = one.send(|_| ()).unwrap_err();
            assert_eq!(refused.reason(), &Reason::Stopped(StopCause::ExecutorGone));
            assert_eq!(one.call(|n| *n).wait(), Err(GONE));
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
                one.call(|n| *n).await
            });
            assert_eq!(answer, Ok(2));
        });
    }

    #[test]
    fn that_nobody_drives_runs_blocking_turns() {
        must_end(|| {
            let runtime = current();
            let one = Actor::builder()
                .executor(Tokio::for_blocking(runtime.handle().clone()))
                .spawn(1)
                .unwrap();
            let (tell, told) = mpsc::channel();
            one.send(move |n| tell.send(*n).unwrap()).unwrap();
            assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(1));
        });
    }

    #[test]
    fn that_is_shut_down_closes_its_executors() {
        for blocking in [false, true] {
            let runtime = current();
            let make = || match blocking {
                false => Tokio::new(runtime.handle().clone()),
                true => Tokio::for_blocking(runtime.handle().clone()),
            };
            let (first, second, handle) = (make(), make(), runtime.handle().clone());
            let clone = first.clone();
            drop(first);
            assert!(!clone.is_closed() && !second.is_closed());
            drop(runtime);
            assert!(clone.is_closed() && second.is_closed());
            assert!(Tokio::new(handle).is_closed(), "made too late");
        }
    }

    #[test]
    fn has_no_task_left_of_an_executor_that_is_gone() {
        must_end(|| {
            let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
            let tasks = || runtime.metrics().num_alive_tasks();
            let executor = Tokio::new(runtime.handle().clone());
            let one = Actor::builder().executor(executor.clone()).spawn(1).unwrap();
            assert_eq!(one.call(|n| *n).wait(), Ok(1));
            drop(executor);
            assert!(tasks() >= 1, "the actor has it");
            drop(one);
            crate::common::until(|| tasks() == 0);
        });
    }

    #[test]
    fn of_one_thread_that_is_held_runs_plain_actors() {
        must_end(|| {
            let (tell, told) = mpsc::channel();
            let done = current().block_on(async {
                let here = thread::current().id();
                let turn = move |_: &mut ()| {
                    let runtime = ::tokio::runtime::Handle::try_current().is_ok();
                    tell.send((runtime, thread::current().id() == here)).unwrap();
                };
                Actor::new(()).posted().send(turn).unwrap();
                // Holds the only thread that runs tasks.
                told.recv_timeout(Duration::from_secs(10))
            });
            assert_eq!(done, Ok((true, false)));
        });
    }

    #[test]
    fn is_shown() {
        let runtime = current();
        let shown = |executor: Tokio| format!("{executor:?}");
        let handle = || runtime.handle().clone();
        assert_eq!(shown(Tokio::new(handle())), "Tokio { blocking: false, .. }");
        assert_eq!(shown(Tokio::for_blocking(handle())), "Tokio { blocking: true, .. }");
    }

    /// A plain actor whose turns need the runtime of its senders.
    #[test]
    fn is_where_a_plain_actor_goes_on_that_is_used_there() {
        must_end(|| {
            const TASKS: usize = 16;
            let each = size(1_000, 5_000);
            let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
            // The sender runs one turn, the rest is handed on.
            let n = Actor::builder().budget(1).spawn(0).unwrap();
            let (tell, told) = mpsc::channel();
            for _ in 0..TASKS {
                let (n, tell) = (n.clone(), tell.clone());
                runtime.spawn(async move {
                    for _ in 0..each {
                        let tell = tell.clone();
                        let turn = move |n: &mut usize| {
                            *n += 1;
                            ::tokio::spawn(async move { tell.send(()).unwrap() });
                        };
                        assert!(n.send(turn).is_ok());
                    }
                });
            }
            drop(tell);
            assert_eq!(told.into_iter().count(), TASKS * each);
            assert_eq!(n.with(|n| *n), Ok(TASKS * each));
            assert_eq!(n.stop_cause(), None);
        });
    }

    #[test]
    fn that_goes_away_hands_plain_actors_on() {
        must_end(|| {
            let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
            let (open, gate) = mpsc::channel::<()>();
            let (began, begun) = mpsc::channel();
            runtime.spawn(async move {
                began.send(()).unwrap();
                let _ = gate.recv();
            });
            begun.recv().unwrap();
            let n = Actor::new(1);
            let (tell, told) = mpsc::channel();
            {
                let _inside = runtime.enter();
                n.posted().send(move |n| tell.send(*n).unwrap()).unwrap();
            }
            runtime.shutdown_background();
            drop(open);
            assert_eq!(told.recv(), Ok(1));
            assert_eq!(n.stop_cause(), None);
        });
    }

    /// The runtime drops the drain of such an actor unrun.
    #[test]
    fn that_has_gone_away_hands_plain_actors_on() {
        must_end(|| {
            for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
                let runtime = runtime.worker_threads(1).build().unwrap();
                let handle = runtime.handle().clone();
                drop(runtime);
                let n = Actor::new(1);
                let (tell, told) = mpsc::channel();
                {
                    let _inside = handle.enter();
                    n.posted().send(move |n| tell.send(*n).unwrap()).unwrap();
                }
                assert_eq!(told.recv(), Ok(1));
                assert_eq!(n.stop_cause(), None);
            }
        });
    }

    /// A worker keeps its latest task to itself, but not while it blocks.
    #[test]
    fn runs_what_a_turn_waits_for_on_another_worker() {
        must_end(|| {
            let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
            for round in 0..size(200, 2_000) {
                let (first, second) = (on(&runtime), on(&runtime));
                let theirs = second.clone();
                let (tell, told) = mpsc::channel();
                let turn = move |own: &mut i32| {
                    let (sent, seen) = mpsc::channel();
                    second
                        .send(move |n| {
                            *n += 1;
                            let _ = sent.send(*n);
                        })
                        .unwrap();
                    *own += match round % 6 {
                        0 => second.with(|n| *n).unwrap(),
                        1 => second.call(|n| *n).wait().unwrap(),
                        2 => second.waiting().call(|n| *n).wait().unwrap(),
                        3 => crate::common::block_on(second.call(|n| *n)).unwrap(),
                        4 => {
                            second.idle().wait().unwrap();
                            2
                        }
                        _ => turnwise::blocking(|| seen.recv().unwrap()),
                    };
                    tell.send(*own).unwrap();
                };
                first.send(turn).unwrap();
                let waited = told.recv_timeout(Duration::from_secs(20));
                assert_eq!(waited, Ok(3), "round {round}, {theirs:?}");
            }
        });
    }

    /// Messages of a turn must not wait behind that turn when it blocks.
    #[test]
    fn runs_what_a_blocked_turn_has_sent_beside_it() {
        must_end(|| {
            for threads in [0, 1] {
                let mut builder = if threads == 0 {
                    Builder::new_current_thread()
                } else {
                    Builder::new_multi_thread()
                };
                let runtime = if threads > 0 {
                    builder.worker_threads(threads).build()
                } else {
                    builder.build()
                }
                .unwrap();
                let (outer, helper) = (Actor::new(()), Actor::new(()));
                let task = async move {
                    let (tell, told) = mpsc::channel();
                    outer
                        .with(move |_| {
                            helper
                                .send(move |_| {
                                    let _here = ::tokio::runtime::Handle::current();
                                    tell.send(()).unwrap();
                                })
                                .unwrap();
                            turnwise::blocking(|| told.recv_timeout(Duration::from_secs(10)))
                        })
                        .unwrap()
                };
                let done = if threads > 0 {
                    runtime.block_on(runtime.spawn(task)).unwrap()
                } else {
                    runtime.block_on(task)
                };
                assert_eq!(done, Ok(()));
            }
        });
    }
}

#[cfg(feature = "rayon")]
#[test]
fn rayons_pools_are_shown() {
    use turnwise::executor::Rayon;
    let pool = ::rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(format!("{:?}", Rayon::global()), "Rayon(\"global\")");
    assert_eq!(format!("{:?}", Rayon::new(Arc::new(pool))), "Rayon(\"own\")");
}

/// A turn that waits inside rayon: its thread runs other drains on top of it.
#[cfg(feature = "rayon")]
#[test]
fn a_join_runs_what_its_other_half_waits_for() {
    use turnwise::executor::Rayon;
    must_end(|| {
        for threads in [2, 3] {
            for _ in 0..size(20, 200) {
                let rayon = Arc::new(
                    ::rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap(),
                );
                let on = || Actor::builder().executor(Rayon::new(rayon.clone())).spawn(()).unwrap();
                let (joins, other) = (on(), on());
                let began = Arc::new(AtomicBool::new(false));
                let (tell, told) = mpsc::channel();
                joins
                    .send(move |_| {
                        let begins = began.clone();
                        ::rayon::join(
                            || crate::common::until(|| began.load(SeqCst)),
                            || {
                                begins.store(true, SeqCst);
                                let (sent, seen) = mpsc::channel();
                                other.send(move |_| sent.send(()).unwrap()).unwrap();
                                seen.recv().unwrap();
                            },
                        );
                        tell.send(()).unwrap();
                    })
                    .unwrap();
                assert_eq!(told.recv(), Ok(()));
            }
        }
    });
}

/// A wait is refused if its executor panics where it is asked whether the wait could end; the
/// caller's closure is not dropped while its thread unwinds.
#[test]
fn an_executor_that_panics_when_asked_refuses_the_wait() {
    struct Asked(Arc<DrainQueue>);
    impl Executor for Asked {
        fn execute(&self, drain: Drain) {
            self.0.handle().execute(drain);
        }
        fn needs_this_thread(&self) -> bool {
            quiet_panic("asked")
        }
    }
    struct Dropped(mpsc::Sender<bool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(thread::panicking()).unwrap();
        }
    }
    let queue = Arc::new(DrainQueue::new());
    let n = Actor::builder().executor(Asked(queue.clone())).spawn(1).unwrap();
    let (tell, told) = mpsc::channel();
    n.send(|n| *n += 1).unwrap();
    let held = Dropped(tell);
    let refused = n.with(move |n| {
        let _held = &held;
        *n
    });
    assert!(matches!(refused, Err(AskError::Refused(Reason::WouldBlock, _))), "{refused:?}");
    assert_eq!(told.recv(), Ok(false));
    queue.run_until_idle();
    assert_eq!(n.snapshot().queued, 0);
}
