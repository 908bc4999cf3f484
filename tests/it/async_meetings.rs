//! Suspended turns together with every other feature of the crate.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{must_end, yield_now};
use turnwise::executor::{DrainQueue, ThreadPool};
use turnwise::snapshot::Activity;
use turnwise::time::{Every, Timers};
use turnwise::{
    Actor, ActorName, AskError, Context, Drain, EndCause, Handler, Limit, Overflow, PanicPolicy,
    Promise, Reason, Recipient, Reply, Restarts, StopCause, System, VirtualClock, promise,
};

type Log = Vec<u32>;

struct Note(u32);

impl Handler<Note> for Log {
    type Reply = ();
    fn handle(&mut self, Note(n): Note, _: &mut Context<'_, Self>) {
        self.push(n);
    }
}

/// Sends a turn that waits: it writes 1 before and 9 after.
fn waits(log: &Actor<Log>) -> (Reply<()>, Promise<()>) {
    let (go, gone) = promise::<()>();
    let turn = log.run(async move |log| {
        log.push(1);
        let _ = gone.await;
        log.push(9);
    });
    (turn, go)
}

fn log() -> Actor<Log> {
    Actor::new(Log::new())
}

fn seen(log: &Actor<Log>) -> Log {
    log.with(|log| log.clone()).unwrap()
}

fn is_ready<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut TaskContext::from_waker(Waker::noop())).is_ready()
}

/// Polls the reply once with the waker of the turn, while it is pending.
async fn looks<R>(reply: &mut Reply<R>) {
    let mut looked = false;
    poll_fn(|cx| {
        assert!(!std::mem::replace(&mut looked, true));
        assert!(Pin::new(&mut *reply).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_question_that_was_dropped_keeps_no_waker() {
    // The other actor waits for this turn, so that the request never begins before its end.
    let (other, n) = (Actor::new(0), Actor::new(0));
    let (go, gone) = promise::<()>();
    let busy = other.run(async move |_| {
        let _ = gone.await;
    });
    let asked = other.clone();
    let turn = n.run(async move |_| {
        let mut question = asked.call(|n| *n);
        looks(&mut question).await;
        drop(question);
        std::future::pending::<()>().await;
    });
    assert!(turn.is_ready(), "no waker is left");
    assert_eq!(turn.wait(), Err(AskError::Abandoned(ActorName::ANY)));
    go.keep(());
    assert_eq!(busy.wait(), Ok(()));
}

/// Reports its drop.
#[derive(Clone, Debug)]
struct Told(Arc<()>);

#[test]
fn an_answer_that_nobody_takes_is_dropped_though_wakers_and_abort_handles_are_left() {
    for asker_leaves_first in [true, false] {
        let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
        let n = Actor::new(0);
        let (place, told) = (kept.clone(), Told(Arc::new(())));
        let answer = told.clone();
        let (go, gone) = promise::<()>();
        let (turn, _handle) = n.run_abortable(async move |_| {
            poll_fn(|cx| {
                place.lock().unwrap().push(cx.waker().clone());
                Poll::Ready(())
            })
            .await;
            let _ = gone.await;
            answer
        });
        if asker_leaves_first {
            drop(turn);
            go.keep(());
            n.idle().wait().unwrap();
        } else {
            go.keep(());
            n.idle().wait().unwrap();
            drop(turn);
        }
        assert_eq!(Arc::strong_count(&told.0), 1, "asker first: {asker_leaves_first}");
        assert_eq!(kept.lock().unwrap().len(), 1);
    }
}

// Lent closures.

#[test]
fn an_attempt_finds_the_actor_busy() {
    let log = log();
    let (turn, go) = waits(&log);
    assert!(matches!(log.try_with(|_| ()), Err(e) if *e.reason() == Reason::Busy));
    go.keep(());
    turn.wait().unwrap();
    assert!(log.try_with(|log| log.push(10)).is_ok());
    assert_eq!(seen(&log), [1, 9, 10]);
}

#[test]
fn a_lent_closure_waits_for_the_turn_and_within_a_limit_it_does_not() {
    must_end(|| {
        let log = log();
        let (turn, go) = waits(&log);
        let within = log.call(|log| log.push(2)).within(Limit::Immediate);
        assert!(within.is_err());
        thread::scope(|scope| {
            let lent = scope.spawn(|| log.with(|log| log.push(3)));
            while log.len() < 2 {
                thread::yield_now();
            }
            assert!(!lent.is_finished());
            go.keep(());
            lent.join().unwrap().unwrap();
        });
        turn.wait().unwrap();
        assert_eq!(seen(&log), [1, 9, 3]);
    });
}

#[test]
fn in_a_turn_that_waits_others_are_lent_to() {
    let (log, other) = (log(), Actor::new(5));
    let (go, gone) = promise::<()>();
    let lent = other.clone();
    let turn = log.run(async move |log| {
        log.push(lent.with(|n| *n).unwrap());
        let _ = gone.await;
        let moved: u32 = lent.with(|n| *n + 1).unwrap();
        log.push(moved);
    });
    go.keep(());
    turn.wait().unwrap();
    assert_eq!(seen(&log), [5, 6]);
}

#[test]
fn its_own_actor_lends_nothing_to_a_turn() {
    let log = log();
    let own = log.clone();
    let (go, gone) = promise::<()>();
    let turn = log.run(async move |_| {
        let _ = gone.await;
        own.with(|_| ()).map_err(|error| error.to_string())
    });
    go.keep(());
    assert!(turn.wait().unwrap().is_err());
}

// Messages.

#[test]
fn batches_and_recipients_wait_in_their_order() {
    let log = log();
    let recipient: Recipient<Note> = Recipient::new(&log);
    let (turn, go) = waits(&log);
    log.send_many((2..5).map(|n| move |log: &mut Log| log.push(n))).unwrap();
    recipient.tell(Note(5)).unwrap();
    log.posted().tell(Note(6)).unwrap();
    go.keep(());
    turn.wait().unwrap();
    assert_eq!(seen(&log), [1, 9, 2, 3, 4, 5, 6]);
}

#[test]
fn the_newest_is_dropped_at_a_full_mailbox() {
    let log = Actor::builder().capacity(1, Overflow::DropNewest).spawn(Log::new()).unwrap();
    let (turn, go) = waits(&log);
    log.tell(Note(2)).unwrap();
    log.tell(Note(3)).unwrap();
    go.keep(());
    turn.wait().unwrap();
    assert_eq!((seen(&log), log.snapshot().discarded), (vec![1, 9, 2], 1));
}

#[test]
fn delayed_messages_arrive_and_wait() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let log = Actor::builder().timers(timers.clone()).spawn(Log::new()).unwrap();
    let (turn, go) = waits(&log);
    log.posted().tell_after(Duration::from_secs(1), Note(2)).forget();
    let every = log.posted().send_after(Duration::from_secs(2), |log| log.push(3));
    clock.advance(Duration::from_secs(3));
    timers.run_due();
    assert!(!every.is_armed());
    assert_eq!(log.len(), 3);
    go.keep(());
    turn.wait().unwrap();
    assert_eq!(seen(&log), [1, 9, 2, 3]);
    let _ = Every::step(Duration::from_secs(1));
}

// Observation.

#[test]
fn snapshots_and_debug_say_that_a_turn_waits() {
    let system = System::new();
    let log = system.spawn(Actor::builder().name("log"), Log::new()).unwrap();
    let (turn, go) = waits(&log);
    log.tell(Note(2)).unwrap();
    let snapshot = system.snapshot();
    assert_eq!((snapshot.actors[0].activity, snapshot.actors[0].queued), (Activity::Waiting, 1));
    assert!(snapshot.to_string().contains("log    waiting"), "{snapshot}");
    assert!(format!("{log:?}").contains("a turn waits, 1 queued"), "{log:?}");
    go.keep(());
    turn.wait().unwrap();
    assert_eq!(seen(&log), [1, 9, 2]);
    assert_eq!(system.snapshot().actors[0].activity, Activity::Idle);
}

/// With and without a capacity.
#[test]
fn a_turn_that_was_woken_is_no_message_that_waits() {
    for capacity in [None, Some(3)] {
        let queue = DrainQueue::new();
        let mut builder = Actor::builder().executor(queue.handle());
        if let Some(capacity) = capacity {
            builder = builder.capacity(capacity, Overflow::Reject);
        }
        let log = builder.spawn(Log::new()).unwrap();
        let (turn, go) = waits(&log);
        queue.run_until_idle();
        go.keep(());
        assert_eq!((log.snapshot().activity, log.snapshot().queued), (Activity::Scheduled, 0));
        log.tell(Note(2)).unwrap();
        assert_eq!((log.snapshot().queued, log.len()), (1, 2));
        queue.run_until_idle();
        turn.wait().unwrap();
        assert_eq!((log.snapshot().activity, log.snapshot().queued), (Activity::Idle, 0));
    }
}

/// Its budget is spent before it has been suspended.
#[test]
fn nor_is_one_that_was_woken_in_its_first_poll() {
    let queue = DrainQueue::new();
    let log = Actor::builder().executor(queue.handle()).budget(1).spawn(Log::new()).unwrap();
    let turn = log.run(async |_| yield_now().await);
    assert!(queue.run_one());
    assert_eq!((log.snapshot().activity, log.snapshot().queued), (Activity::Scheduled, 0));
    log.tell(Note(2)).unwrap();
    assert_eq!((log.snapshot().queued, log.len()), (1, 2));
    queue.run_until_idle();
    assert_eq!((turn.wait(), log.snapshot().queued), (Ok(()), 0));
}

#[test]
fn a_turn_is_counted_when_it_is_over() {
    let log = Actor::builder().counted(true).spawn(Log::new()).unwrap();
    let handled = || log.snapshot().stats.unwrap().handled;
    let (turn, go) = waits(&log);
    assert_eq!(handled(), 0);
    go.keep(());
    turn.wait().unwrap();
    assert_eq!(handled(), 1);
    let (_never, gone) = promise::<()>();
    let (turn, abort) = log.run_abortable(async move |_| drop(gone.await));
    abort.abort();
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    log.idle().wait().unwrap();
    assert_eq!(handled(), 2);
}

// Ends.

#[test]
fn idle_and_ended_wait_for_the_turn() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let told = ends.clone();
    let log = Actor::builder()
        .on_end(move |state, cause| told.lock().unwrap().push((state, cause)))
        .spawn(Log::new())
        .unwrap();
    let (turn, go) = waits(&log);
    let (mut idle, mut ended) = (log.idle(), log.ended());
    assert!(!is_ready(&mut idle) && !is_ready(&mut ended));
    assert_eq!(log.ended().within(Limit::Immediate), Ok(false));
    assert!(log.close());
    assert!(!is_ready(&mut idle) && !is_ready(&mut ended));
    assert!(ends.lock().unwrap().is_empty());
    go.keep(());
    turn.wait().unwrap();
    assert_eq!(log.ended().within(Duration::from_secs(60)), Ok(true));
    assert!(is_ready(&mut ended));
    assert_eq!(*ends.lock().unwrap(), [(vec![1, 9], EndCause::Closed)]);
}

#[test]
fn weak_handles_keep_nobody_and_the_turn_goes_on() {
    let log = log();
    let weak = log.downgrade();
    let (turn, go) = waits(&log);
    assert!(weak.upgrade().is_some());
    drop(log);
    assert!(weak.upgrade().is_none());
    assert!(!turn.is_ready());
    go.keep(());
    assert_eq!(turn.wait(), Ok(()));
}

#[test]
fn a_weak_handle_stops_a_turn_that_waits() {
    let log = log();
    let weak = log.downgrade();
    let (turn, _go) = waits(&log);
    weak.stop();
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
}

#[test]
fn a_system_that_is_shut_down_cuts_a_turn_when_the_time_is_over() {
    must_end(|| {
        let system = System::new();
        let log = system.actor(Log::new()).unwrap();
        let (turn, _go) = waits(&log);
        let queued = log.ask(Note(2));
        let report = system.shutdown(Limit::Immediate).unwrap();
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.stopped, 1);
        assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
        assert!(matches!(queued.wait(), Err(AskError::Refused(Reason::Stopped(_), _))));
    });
}

/// Reports the thread that drops it, and lets others go on meanwhile.
struct DroppedOn(Arc<Mutex<Vec<thread::ThreadId>>>);

impl Drop for DroppedOn {
    fn drop(&mut self) {
        thread::yield_now();
        self.0.lock().unwrap().push(thread::current().id());
    }
}

#[test]
fn a_shutdown_without_time_ends_what_it_cuts_on_its_own_thread() {
    const ACTORS: usize = 50;
    must_end(|| {
        for explicit in [true, false] {
            let system = System::new();
            let threads = Arc::new(Mutex::new(Vec::new()));
            let suspended = |_| {
                let log = system.actor(Log::new()).unwrap();
                let dropped = DroppedOn(threads.clone());
                let (go, gone) = promise::<()>();
                drop(log.run(async move |_| {
                    let _dropped = dropped;
                    let _ = gone.await;
                }));
                log.send(|_: &mut Log| unreachable!("it is given back")).unwrap();
                (log, go)
            };
            let all: Vec<_> = (0..ACTORS).map(suspended).collect();
            if explicit {
                let report = system.shutdown(Limit::Immediate).unwrap();
                assert_eq!((report.stopped, report.running.len()), (ACTORS, 0));
            } else {
                drop(system);
            }
            assert_eq!(*threads.lock().unwrap(), [thread::current().id(); ACTORS]);
            assert!(all.iter().all(|(log, _)| log.ended().within(Limit::Immediate) == Ok(true)));
        }
    });
}

#[test]
fn a_turn_that_is_cut_may_wait_as_it_drops_for_the_end_of_an_idle_actor() {
    /// Waits for the hook of another actor.
    struct WaitsFor(Option<Reply<()>>);

    impl Drop for WaitsFor {
        fn drop(&mut self) {
            assert_eq!(self.0.take().unwrap().wait(), Ok(()));
        }
    }

    must_end(|| {
        for cut_first in [true, false] {
            let system = System::new();
            let (keeps, kept) = promise::<()>();
            let keeps = Mutex::new(Some(keeps));
            let hook = move |(), _| keeps.lock().unwrap().take().unwrap().keep(());
            let idle = Actor::builder().on_end(hook);
            let cut = |first| (first == cut_first).then(|| system.actor(Log::new()).unwrap());
            let before = cut(true);
            let _idle = system.spawn(idle, ()).unwrap();
            let log = before.or(cut(false)).unwrap();
            let drops = WaitsFor(Some(kept));
            let (_go, gone) = promise::<()>();
            drop(log.run(async move |_| {
                let _drops = drops;
                let _ = gone.await;
            }));
            let report = system.shutdown(Limit::Immediate).unwrap();
            assert_eq!(report.stopped, 1, "{report}");
        }
    });
}

#[test]
fn a_shutdown_that_cuts_a_turn_keeps_nothing_of_the_actor() {
    must_end(|| {
        for explicit in [true, false] {
            let (system, kept) = (System::new(), Arc::new(()));
            let hook = kept.clone();
            let builder = Actor::builder().on_panic(move |_| drop(hook.clone()));
            let log = system.spawn(builder, Log::new()).unwrap();
            let (turn, _go) = waits(&log);
            if explicit {
                system.shutdown(Limit::Immediate).unwrap();
            }
            drop((turn, system));
            drop(log);
            assert_eq!(Arc::strong_count(&kept), 1, "{explicit}");
        }
    });
}

#[test]
fn a_turn_that_is_cut_may_wait_as_it_drops_for_others_that_are() {
    /// Waits for the end of another actor.
    struct WaitsFor(Actor<Log>);

    impl Drop for WaitsFor {
        fn drop(&mut self) {
            assert_eq!(self.0.ended().wait(), Ok(()));
        }
    }

    must_end(|| {
        let system = System::new();
        let (first, second) =
            (system.actor(Log::new()).unwrap(), system.actor(Log::new()).unwrap());
        let drops = WaitsFor(second.clone());
        let (_go, gone) = promise::<()>();
        drop(first.run(async move |_| {
            let _drops = drops;
            let _ = gone.await;
        }));
        let (_turn, _go) = waits(&second);
        let helper = thread::spawn({
            let second = second.clone();
            move || second.ended().wait()
        });
        let report = system.shutdown(Limit::Immediate).unwrap();
        assert_eq!(report.stopped, 2, "{report}");
        assert_eq!(helper.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_system_that_is_shut_down_in_a_future_waits_for_a_turn() {
    let system = System::new();
    let log = system.actor(Log::new()).unwrap();
    let (turn, go) = waits(&log);
    let mut shutdown = pin!(system.shutdown_async());
    let mut poll = || shutdown.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    go.keep(());
    turn.wait().unwrap();
    log.ended().within(Duration::from_secs(60)).unwrap();
    assert!(matches!(poll(), Poll::Ready(report) if report.as_ref().unwrap().ended == 1));
}

// Budgets, restarts, executors.

#[test]
fn a_turn_outlasts_its_budget() {
    let queue = DrainQueue::new();
    let log = Actor::builder().budget(1).executor(queue.handle()).spawn(Log::new()).unwrap();
    let turn = log.run(async |log| {
        for n in 0..5 {
            let mut yielded = false;
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            log.push(n);
        }
    });
    log.tell(Note(9)).unwrap();
    let drains = queue.run_until_idle();
    assert!(drains > 1, "{drains}");
    turn.wait().unwrap();
    assert!(!log.call(|log| log.clone()).is_ready());
    let seen = log.call(|log| log.clone());
    queue.run_until_idle();
    assert_eq!(seen.wait(), Ok(vec![0, 1, 2, 3, 4, 9]));
}

#[test]
fn an_actor_rests_after_a_turn_that_waited_has_panicked() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let second = Duration::from_secs(1);
    let limits = Restarts::at_most(1, Duration::from_secs(100)).backoff(second, second);
    let log = Actor::builder()
        .timers(timers.clone())
        .panic_policy(PanicPolicy::restart_within(limits, || vec![7]))
        .spawn(Log::new())
        .unwrap();
    let (go, gone) = promise::<()>();
    let turn = log.run(async move |_| {
        let _ = gone.await;
        crate::common::quiet_panic("out of paper");
    });
    let (_never, never) = promise::<()>();
    let next = log.run(async move |log| {
        log.push(8);
        let _ = never.await;
    });
    go.keep(());
    let answer: Result<(), _> = turn.wait();
    assert!(matches!(answer, Err(AskError::Panicked(_))));
    let seen = log.call(|log| log.clone());
    assert!(!next.is_ready() && !seen.is_ready());
    clock.advance(second);
    timers.run_due();
    drop(_never);
    assert_eq!(next.wait(), Ok(()));
    assert_eq!(seen.wait(), Ok(vec![7, 8]));
}

#[test]
fn an_executor_that_panics_at_the_wake_stops_the_actor_and_answers_the_turn() {
    let calls = AtomicUsize::new(0);
    let first_only = move |drain: Drain| match calls.fetch_add(1, SeqCst) {
        0 => drain.run(),
        _ => crate::common::quiet_panic("no"),
    };
    let log = Actor::builder().executor(first_only).spawn(Log::new()).unwrap();
    let (turn, go) = waits(&log);
    go.keep(());
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    assert_eq!(log.stop_cause(), Some(StopCause::ExecutorGone));
}

#[test]
fn an_executor_that_drops_the_wake_stops_the_actor_and_answers_the_turn() {
    let calls = AtomicUsize::new(0);
    let first_only = move |drain: Drain| match calls.fetch_add(1, SeqCst) {
        0 => drain.run(),
        _ => drop(drain),
    };
    let log = Actor::builder().executor(first_only).spawn(Log::new()).unwrap();
    let (turn, go) = waits(&log);
    let queued = log.ask(Note(2));
    go.keep(());
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    let gone = Reason::Stopped(StopCause::ExecutorGone);
    assert_eq!(queued.wait(), Err(AskError::from(gone)));
}

#[test]
fn a_pool_that_is_shut_down_while_a_turn_waits_stops_the_actor_at_the_wake() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let log = Actor::builder().executor(pool.handle()).spawn(Log::new()).unwrap();
        let (turn, go) = waits(&log);
        while log.len() > 0 && !format!("{log:?}").contains("a turn waits") {
            thread::yield_now();
        }
        drop(pool);
        go.keep(());
        assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
        assert_eq!(log.stop_cause(), Some(StopCause::ExecutorGone));
    });
}

#[test]
fn a_future_that_has_panicked_is_dropped_before_the_policy_acts() {
    /// A future whose content still exists when it has panicked, unlike that of an `async` block.
    struct Panics(Arc<AtomicUsize>);
    impl Future for Panics {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<()> {
            crate::common::quiet_panic("by hand")
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
    fn turn<F: for<'a> FnOnce(&'a mut Log) -> Boxed<'a>>(turn: F) -> F {
        turn
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let known = dropped.clone();
    let policy = PanicPolicy::restart(move || vec![known.load(SeqCst) as u32]);
    let log = Actor::builder().panic_policy(policy).spawn(Log::new()).unwrap();
    let panics = Panics(dropped.clone());
    let answer = log.run(turn(move |_| Box::pin(panics))).wait();
    assert!(matches!(answer, Err(AskError::Panicked(_))));
    assert_eq!((seen(&log), dropped.load(SeqCst)), (vec![1], 1));
}
