//! Async turns.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::common::yield_now;
use turnwise::executor::{DrainQueue, ThreadPool};
use turnwise::time::Timers;
use turnwise::{
    AbortHandle, Actor, ActorName, AskError, AsyncContext, AsyncHandler, Cycle, Drain, Executor,
    Limit, MonotonicClock, Overflow, PanicPolicy, Promise, Reason, Reply, StopCause, WaitError,
    promise,
};

/// Counts its drops.
#[derive(Clone)]
struct Dropped(Arc<AtomicUsize>);

impl Dropped {
    fn new() -> Self {
        Dropped(Arc::new(AtomicUsize::new(0)))
    }
    fn guard(&self) -> Guard {
        Guard(self.0.clone())
    }
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_turn_that_never_waits_is_done_on_return() {
    let n = Actor::new(1);
    let reply = n.run(async |n| {
        *n += 1;
        *n
    });
    assert!(reply.is_ready());
    assert_eq!(reply.wait(), Ok(2));
}

#[test]
fn nothing_else_runs_while_a_turn_waits() {
    let log = Actor::new(Vec::new());
    let (go, gone) = promise::<u32>();
    let turn = log.run(async move |log| {
        log.push(1);
        let n = gone.await.unwrap();
        log.push(n);
    });
    log.send(|log| log.push(3)).unwrap();
    assert!(!turn.is_ready());
    assert!(matches!(log.try_with(|_| ()), Err(e) if *e.reason() == Reason::Busy));
    go.keep(2);
    turn.wait().unwrap();
    assert_eq!(log.with(|log| log.clone()), Ok(vec![1, 2, 3]));
}

#[test]
fn shapes_of_turns() {
    async fn twice(n: &mut u64) -> u64 {
        yield_now().await;
        *n *= 2;
        *n
    }
    fn boxed(n: &mut u64) -> Pin<Box<dyn Future<Output = u64> + Send + '_>> {
        Box::pin(async move {
            *n += 1;
            *n
        })
    }
    let n = Actor::new(3_u64);
    assert_eq!(n.run(twice).wait(), Ok(6));
    assert_eq!(n.run(boxed).wait(), Ok(7));
    let by = 5;
    assert_eq!(n.run(async move |n| twice(n).await + by).wait(), Ok(19));
    assert_eq!(n.run(async |n: &mut u64| std::mem::take(n)).wait(), Ok(14));
}

struct Till {
    amount: u64,
}
#[derive(Debug)]
struct Pay(Reply<u64>);

impl AsyncHandler<Pay> for Till {
    type Reply = u64;
    async fn handle(&mut self, Pay(amount): Pay, cx: &mut AsyncContext<Self>) -> u64 {
        assert!(cx.actor().is_some());
        self.amount += amount.await.unwrap();
        self.amount
    }
}

#[test]
fn typed_messages_come_back() {
    let till = Actor::new(Till { amount: 1 });
    let (amount, reply) = promise();
    let first = till.ask_async(Pay(reply));
    let (other, reply) = promise();
    let second = till.ask_async(Pay(reply));
    let first = first.cancel().unwrap_err(); // it has begun
    let Pay(back) = second.cancel().unwrap();
    other.keep(9);
    assert_eq!(back.wait(), Ok(9));
    amount.keep(4);
    assert_eq!(first.wait(), Ok(5));
    till.close();
    let (_amount, reply) = promise();
    let refused = till.ask_async(Pay(reply));
    assert!(refused.cancel().is_ok());
}

#[test]
fn a_turn_is_woken_over_every_executor() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let on_pool = Actor::builder().executor(pool.handle()).spawn(0).unwrap();
    for n in [on_pool, Actor::new(0)] {
        for round in 0..100 {
            let (go, gone) = promise::<u32>();
            let turn = n.run(async move |n| {
                *n += gone.await.unwrap();
                yield_now().await;
                *n
            });
            go.keep(1);
            assert_eq!(turn.wait(), Ok(round + 1));
        }
    }
}

#[test]
fn a_queue_runs_turns_when_it_is_told_to() {
    let queue = DrainQueue::new();
    let n = Actor::builder().executor(queue.handle()).spawn(0).unwrap();
    let (go, gone) = promise::<u32>();
    let turn = n.run(async move |n| {
        *n = gone.await.unwrap();
    });
    n.send(|n| *n *= 2).unwrap();
    queue.run_until_idle();
    go.keep(21);
    assert!(!turn.is_ready(), "a wake polls nothing");
    queue.run_until_idle();
    assert!(turn.is_ready());
    let value = n.call(|n| *n);
    queue.run_until_idle();
    assert_eq!(value.wait(), Ok(42));
}

#[test]
fn aborted_before_between_and_after() {
    let dropped = Dropped::new();
    let n = Actor::new(0);
    let (_never, kept) = promise::<()>();
    let guard = dropped.guard();
    let (first, abort_first) = n.run_abortable(async move |n| {
        let _guard = guard;
        *n += 1;
        let _ = kept.await;
        *n += 100;
    });
    let guard = dropped.guard();
    let (second, abort_second) = n.run_abortable(async move |n| {
        let _guard = guard;
        *n += 100;
    });
    abort_second.abort();
    assert!(!second.is_ready(), "it has its place");
    assert_eq!(dropped.count(), 0);
    abort_first.abort();
    assert_eq!(first.wait(), Err(AskError::Aborted(ActorName::ANY)));
    assert_eq!(second.wait(), Err(AskError::Aborted(ActorName::ANY)));
    assert_eq!(dropped.count(), 2);
    let (third, abort) = n.run_abortable(async |n| *n);
    abort.abort();
    assert_eq!(third.wait(), Ok(1));
}

#[test]
fn the_next_turn_starts_after_the_destructors() {
    let order = Arc::new(Mutex::new(Vec::new()));
    struct Says(Arc<Mutex<Vec<&'static str>>>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("dropped");
        }
    }
    let n = Actor::new(());
    let says = Says(order.clone());
    let (_never, kept) = promise::<()>();
    let (turn, handle) = n.run_abortable(async move |()| {
        let _says = says;
        let _ = kept.await;
    });
    let next = order.clone();
    n.send(move |()| next.lock().unwrap().push("next")).unwrap();
    handle.abort();
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    n.idle().wait().unwrap();
    assert_eq!(*order.lock().unwrap(), ["dropped", "next"]);
}

#[test]
fn a_turn_that_nobody_can_wake_is_answered() {
    let dropped = Dropped::new();
    let n = Actor::new(0);
    let guard = dropped.guard();
    let turn = n.run(async move |_| {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    assert_eq!(turn.wait(), Err(AskError::Abandoned(ActorName::ANY)));
    assert_eq!(dropped.count(), 1);

    let kept = Arc::new(Mutex::new(None::<Waker>));
    let place = kept.clone();
    let turn = n.run(async move |n| {
        *n += 1;
        poll_fn(|cx| {
            *place.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    });
    assert!(!turn.is_ready());
    drop(kept.lock().unwrap().take());
    assert_eq!(turn.wait(), Err(AskError::Abandoned(ActorName::ANY)));
    assert_eq!(n.with(|n| *n), Ok(1));
}

#[test]
fn late_wakers_do_nothing() {
    let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
    let n = Actor::new(0);
    let place = kept.clone();
    let turn = n.run(async move |n| {
        poll_fn(|cx| {
            place.lock().unwrap().push(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
        *n += 1;
    });
    turn.wait().unwrap();
    drop(n);
    let wakers = std::mem::take(&mut *kept.lock().unwrap());
    wakers.iter().for_each(Waker::wake_by_ref);
    wakers.into_iter().for_each(Waker::wake);
}

fn waits_with(dropped: &Dropped, n: &Actor<u32>) -> (Reply<u32>, Promise<()>) {
    let (promise, kept) = promise::<()>();
    let guard = dropped.guard();
    let turn = n.run(async move |n| {
        let _guard = guard;
        let _ = kept.await;
        *n
    });
    (turn, promise)
}

#[test]
fn stop_cuts_close_and_the_last_drop_do_not() {
    let dropped = Dropped::new();
    let n = Actor::new(7);
    let (turn, go) = waits_with(&dropped, &n);
    let queued = n.call(|n| *n);
    n.stop();
    assert_eq!(dropped.count(), 1, "in the call: it may run here");
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    assert_eq!(queued.wait(), Err(AskError::from(Reason::Stopped(StopCause::Requested))));
    go.keep(());

    let n = Actor::new(8);
    let (turn, go) = waits_with(&dropped, &n);
    assert!(n.close());
    assert!(!turn.is_ready());
    go.keep(());
    assert_eq!(turn.wait(), Ok(8));
    assert_eq!(n.ended().within(Duration::from_secs(60)), Ok(true));

    let n = Actor::new(9);
    let (turn, go) = waits_with(&dropped, &n);
    drop(n);
    go.keep(());
    assert_eq!(turn.wait(), Ok(9));
    assert_eq!(dropped.count(), 3);
}

#[test]
fn a_turn_stops_its_own_actor() {
    struct Quit(Reply<()>);
    impl AsyncHandler<Quit> for u32 {
        type Reply = ();
        async fn handle(&mut self, Quit(reply): Quit, cx: &mut AsyncContext<Self>) {
            *self += 1;
            cx.stop();
            let _ = reply.await;
            *self += 100;
        }
    }
    let n = Actor::new(0_u32);
    let (_never, reply) = promise();
    let turn = n.ask_async(Quit(reply));
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    assert_eq!(n.ended().within(Duration::from_secs(60)), Ok(true));
}

#[test]
fn panics_before_and_after_an_await() {
    let dropped = Dropped::new();
    for after in [false, true] {
        let n = Actor::builder().panic_policy(PanicPolicy::restart(|| 40)).spawn(5).unwrap();
        let (go, gone) = promise::<()>();
        let guard = dropped.guard();
        let turn = n.run(async move |n| {
            let _guard = guard;
            *n += 1;
            if after {
                let _ = gone.await;
            }
            panic!("out of paper");
        });
        let next = n.call(|n| *n);
        go.keep(());
        let Err(AskError::Panicked(panic)) = turn.wait() else { panic!("it has panicked") };
        assert_eq!(panic.text(), "out of paper");
        assert_eq!(next.wait(), Ok(40));
    }
    assert_eq!(dropped.count(), 2);
}

#[test]
fn a_future_whose_drop_panics_is_a_turn_that_panicked() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("bomb");
            }
        }
    }
    let n = Actor::builder().panic_policy(PanicPolicy::Resume).spawn(0).unwrap();
    let (_never, kept) = promise::<()>();
    let (turn, handle) = n.run_abortable(async move |_| {
        let _bomb = Bomb;
        let _ = kept.await;
    });
    handle.abort();
    assert_eq!(turn.wait(), Err(AskError::Panicked("bomb".into())));
    assert_eq!(n.with(|n| *n), Ok(0));
    let bomb = Bomb;
    let turn = n.run(async move |_| {
        let _bomb = bomb;
        1
    });
    assert_eq!(turn.wait(), Err(AskError::Panicked("bomb".into())));
    let (turn, go) = {
        let (go, gone) = promise::<()>();
        let turn = n.run(async move |_| {
            let _bomb = Bomb;
            let _ = gone.await;
        });
        (turn, go)
    };
    n.stop();
    assert_eq!(turn.wait(), Err(AskError::Aborted(ActorName::ANY)));
    drop(go);
}

#[test]
fn a_full_mailbox_is_waited_for() {
    let n = Actor::builder().capacity(1, Overflow::Reject).spawn(0).unwrap();
    let (go, gone) = promise::<()>();
    let turn = n.run(async move |n| {
        let _ = gone.await;
        *n += 1;
    });
    n.send(|n| *n += 10).unwrap(); // the one place
    let refused = n.run(async |n| *n);
    assert_eq!(refused.wait(), Err(AskError::from(Reason::Full)));
    let late = n.waiting().run(async |n| *n).within(Duration::ZERO);
    assert!(matches!(late, Err(WaitError::Cancelled(_))));
    let waits = n.waiting().run(async |n| {
        yield_now().await;
        *n += 100;
        *n
    });
    let room = n.waiting().send(|n| *n += 1000);
    go.keep(());
    turn.wait().unwrap();
    assert_eq!(waits.wait(), Ok(111));
    room.wait().unwrap();
    assert_eq!(n.with(|n| *n), Ok(1111));
}

#[test]
fn batches_stay_open_while_a_turn_waits() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let ends = log.clone();
    let n = Actor::builder()
        .on_batch_end(move |_, turns| ends.lock().unwrap().push(format!("end {turns}")))
        .spawn(0)
        .unwrap();
    let (go, gone) = promise::<()>();
    let turn = n.run(async move |n| {
        let _ = gone.await;
        *n += 1;
    });
    assert!(log.lock().unwrap().is_empty());
    go.keep(());
    turn.wait().unwrap();
    n.idle().wait().unwrap();
    assert_eq!(*log.lock().unwrap(), ["end 1"]);
}

#[test]
fn a_turn_asks_others_and_itself() {
    let other = Actor::new(20);
    let n = Actor::new(1);
    let itself = n.clone();
    let asked = other.clone();
    let turn = n.run(async move |n| {
        *n += asked.call(|n| *n + 1).await.unwrap();
        let own = Reason::Deadlock(Cycle::from(["i32"]));
        assert_eq!(itself.call(|_| ()).await, Err(AskError::from(own)));
        *n
    });
    assert_eq!(turn.wait(), Ok(22));
}

/// A suspended turn does not keep the turn below it waiting.
#[test]
fn a_turn_on_top_of_another_awaits_its_answer() {
    let (queue, below) = (DrainQueue::new(), Actor::new(20));
    let top = Actor::builder().executor(queue.handle()).spawn(1).unwrap();
    let asked = below.clone();
    let turn = top.run(async move |n| *n + asked.call(|n| *n + 1).await.unwrap());
    let queue = Arc::new(queue);
    let runs = queue.clone();
    below.with(|_| assert_eq!(runs.run_until_idle(), 1)).unwrap();
    queue.run_until_idle();
    assert_eq!(turn.wait(), Ok(22));
}

/// Nor does one that waits for room, or for an end, there.
#[test]
fn a_turn_on_top_of_another_waits_for_room_in_it() {
    let queue = Arc::new(DrainQueue::new());
    let below = Actor::builder().capacity(1, Overflow::Reject).spawn(20).unwrap();
    let top = Actor::builder().executor(queue.handle()).spawn(1).unwrap();
    let full = below.clone();
    let turn = top.run(async move |_| full.waiting().send(|n| *n += 1).await.map_err(drop));
    let (runs, same) = (queue.clone(), below.clone());
    below
        .with(|_| {
            same.send(|n| *n += 1).unwrap();
            assert_eq!(runs.run_until_idle(), 1);
        })
        .unwrap();
    queue.run_until_idle();
    assert_eq!(turn.wait(), Ok(Ok(())));
    assert_eq!(below.with(|n| *n), Ok(22));
}

/// Room in the own actor never comes, whether a turn of it or another thread began the wait.
#[test]
fn room_in_the_own_actor_is_refused_to_its_turn() {
    let queue = DrainQueue::new();
    let actor = Actor::builder()
        .capacity(1, Overflow::Reject)
        .executor(queue.handle())
        .spawn(Vec::<Reason>::new())
        .unwrap();
    let place = Arc::new(Mutex::new(None));
    let theirs = place.clone();
    let turn = actor.run(async move |refused| {
        let waiting: Pin<Box<dyn Future<Output = Option<Reason>> + Send>> =
            theirs.lock().unwrap().take().unwrap();
        refused.extend(waiting.await);
    });
    let first = actor.waiting().send(|_| ());
    let second = actor.waiting().send(|_| ());
    let second = async move { second.await.err().map(|error| error.reason().clone()) };
    *place.lock().unwrap() = Some(Box::pin(second));
    queue.run_until_idle();
    assert_eq!(turn.wait(), Ok(()));
    drop(first);
    let refused = actor.call(std::mem::take);
    queue.run_until_idle();
    let circle = Reason::Deadlock(Cycle::from([std::any::type_name::<Vec<Reason>>()]));
    assert_eq!(refused.wait(), Ok(vec![circle]));
}

/// Unless the turn below waits for it.
#[test]
fn a_turn_on_top_of_one_that_waits_for_it_is_refused() {
    let (below, top) = (Actor::new(20), Actor::new(1));
    let asked = below.clone();
    let answer = below.with(|_| top.run(async move |_| asked.call(|n| *n).await).wait());
    let circle = Reason::Deadlock(Cycle::from(["i32", "i32"]));
    assert_eq!(answer, Ok(Ok(Err(AskError::from(circle)))));
}

#[test]
fn with_a_pool_that_is_gone_a_turn_is_answered() {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let n = Actor::builder().executor(pool.handle()).spawn(0).unwrap();
    let (go, gone) = promise::<()>();
    let begun = Arc::new(AtomicBool::new(false));
    let says = begun.clone();
    let turn = n.run(async move |_| {
        says.store(true, Ordering::SeqCst);
        let _ = gone.await;
    });
    while !begun.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    drop(pool);
    go.keep(());
    let answer = turn.wait();
    assert!(matches!(answer, Err(AskError::Aborted(_)) | Ok(())), "{answer:?}");
}

#[test]
fn tokio_without_ceremony() {
    use turnwise::executor::Tokio;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let n = Actor::builder().executor(Tokio::new(runtime.handle().clone())).spawn(0).unwrap();
    // From a thread outside of the runtime.
    let turn = n.run(async |n| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        *n += tokio::spawn(async { 20 }).await.unwrap();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("an hour"),
            () = tokio::task::yield_now() => *n += 1,
        }
        *n
    });
    assert_eq!(turn.wait(), Ok(21));
}

#[test]
fn a_million_polls_in_a_row_end() {
    let n = Actor::new(0);
    let turn = n.run(async |n| {
        for _ in 0..100_000 {
            yield_now().await;
            *n += 1;
        }
        *n
    });
    assert_eq!(turn.wait(), Ok(100_000));
}

#[test]
fn places_are_exact_while_a_turn_waits() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle()).capacity(2, Overflow::Reject);
    let n = builder.spawn(0).unwrap();
    let (go, gone) = promise::<()>();
    n.send(|n| *n += 1).unwrap(); // done in the same list, before the turn
    let turn = n.run(async move |n| {
        let _ = gone.await;
        *n
    });
    queue.run_until_idle();
    n.send(|n| *n += 1).unwrap();
    n.send(|n| *n += 1).unwrap();
    let refused = n.send(|n| *n += 1).unwrap_err();
    assert_eq!(*refused.reason(), Reason::Full);
    assert_eq!(n.len(), 3); // the one that waits is running
    go.keep(());
    queue.run_until_idle();
    assert_eq!(turn.wait(), Ok(1));
    assert!(n.is_idle());
}

#[test]
fn what_was_done_before_does_not_count_while_a_turn_waits() {
    let queue = DrainQueue::new();
    let n = Actor::builder().executor(queue.handle()).spawn(0).unwrap();
    let (go, gone) = promise::<()>();
    n.send(|n| *n += 1).unwrap();
    n.send(|n| *n += 1).unwrap();
    let turn = n.run(async move |n| {
        let _ = gone.await;
        *n
    });
    queue.run_until_idle();
    assert_eq!(n.len(), 1);
    go.keep(());
    queue.run_until_idle();
    assert_eq!(turn.wait(), Ok(2));
}

/// A lock: the thread that holds it, and user code that took it there again.
#[derive(Clone, Default)]
struct UnderALock(Arc<Watched>);

#[derive(Default)]
struct Watched {
    holder: Mutex<Option<ThreadId>>,
    met: Mutex<Vec<&'static str>>,
}

impl UnderALock {
    /// Records user code that takes the lock, and would wait for itself.
    fn enter(&self, what: &'static str) {
        if *self.0.holder.lock().unwrap() == Some(thread::current().id()) {
            self.0.met.lock().unwrap().push(what);
        }
    }
    fn hold(&self, f: impl FnOnce()) {
        *self.0.holder.lock().unwrap() = Some(thread::current().id());
        f();
        *self.0.holder.lock().unwrap() = None;
    }
    fn guard(&self) -> impl Send + use<> {
        struct Enters(UnderALock);
        impl Drop for Enters {
            fn drop(&mut self) {
                self.0.enter("drop of the future");
            }
        }
        Enters(self.clone())
    }
}

/// The fate of the drains after the first one in an executor's call.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Manner {
    Drops,
    Refuses,
    RunsAtOnce,
}

struct Rude(Manner, AtomicBool);

impl Executor for Rude {
    fn execute(&self, drain: Drain) {
        if !self.1.swap(true, Ordering::SeqCst) || self.0 == Manner::RunsAtOnce {
            drain.run();
        }
    }
    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        if self.1.load(Ordering::SeqCst) && self.0 == Manner::Refuses {
            return Err(drain);
        }
        self.execute(drain);
        Ok(())
    }
}

/// Wakers are called, and dropped, under locks that the future's own code takes.
#[test]
fn no_wake_runs_user_code_whatever_the_executor_does() {
    type Wake = fn(Waker, &AbortHandle);
    let wakes: [(&str, Wake); 4] = [
        ("wake", |waker, _| waker.wake()),
        ("wake_by_ref", |waker, _| waker.wake_by_ref()),
        ("drop", |waker, _| drop(waker)),
        ("abort", |_, abort| abort.abort()),
    ];
    for manner in [Manner::Drops, Manner::Refuses, Manner::RunsAtOnce] {
        for (name, wake) in wakes {
            let lock = UnderALock::default();
            let [polls, ends] = [(); 2].map(|()| lock.clone());
            let guard = lock.guard();
            let n = Actor::builder()
                .executor(Rude(manner, AtomicBool::new(false)))
                .on_end(move |(), _| ends.enter("end"))
                .spawn(())
                .unwrap();
            let kept = Arc::new(Mutex::new(None));
            let keeps = kept.clone();
            let (turn, abort) = n.run_abortable(async move |()| {
                let _guard = guard;
                let mut left = false;
                poll_fn(|cx| {
                    polls.enter("poll");
                    if std::mem::replace(&mut left, true) {
                        return Poll::Ready(());
                    }
                    *keeps.lock().unwrap() = Some(cx.waker().clone());
                    Poll::Pending
                })
                .await;
            });
            let waker = kept.lock().unwrap().take().expect("it was polled once");
            lock.hold(|| wake(waker, &abort));
            let answer = turn.wait();
            let gone = manner == Manner::Drops;
            assert_eq!(answer.is_ok(), !gone && name.starts_with("wake"), "{manner:?}, {name}");
            assert_eq!(n.is_closed(), gone, "{manner:?}, {name}");
            n.close();
            n.ended().within(Limit::Unlimited).unwrap();
            let met = lock.0.met.lock().unwrap();
            assert!(met.is_empty(), "{manner:?}, {name}: {met:?} in the call");
        }
        // Keeping a promise is a wake.
        let lock = UnderALock::default();
        let (guard, polls) = (lock.guard(), lock.clone());
        let n = Actor::builder().executor(Rude(manner, AtomicBool::new(false)));
        let n = n.spawn(()).unwrap();
        let (promise, kept) = promise();
        let turn = n.run(async move |()| {
            let _guard = guard;
            kept.await.unwrap();
            polls.enter("poll");
        });
        lock.hold(|| promise.keep(()));
        assert_eq!(turn.wait().is_ok(), manner != Manner::Drops);
        assert!(lock.0.met.lock().unwrap().is_empty(), "{manner:?}: a promise");
    }
}

/// A turn that a timer's function runs wakes another one, which may go on for long: not on the
/// thread of the timers.
#[test]
fn no_turn_goes_on_on_the_thread_of_timers() {
    let timers = Timers::new(MonotonicClock).unwrap();
    let (actor, gate) = (Actor::new(()), Actor::new(None::<Promise<()>>));
    let (promise, opened) = promise();
    gate.with(|kept| *kept = Some(promise)).unwrap();
    let turn = actor.run(async move |()| {
        opened.await.unwrap();
        thread::current().name().map(str::to_owned)
    });
    let open = |kept: &mut Option<Promise<()>>| {
        kept.take().unwrap().keep(());
        thread::current().name().map(str::to_owned)
    };
    let (sent, opened_by) = mpsc::channel();
    let _timer = timers.after(Duration::ZERO, move || sent.send(gate.with(open)).unwrap());
    let name = Some("turnwise-timers".to_owned());
    assert_eq!(opened_by.recv().unwrap().unwrap(), name, "it is a turn on that thread");
    assert_ne!(turn.wait().unwrap(), name);
}
