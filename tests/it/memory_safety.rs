//! Memory safety, whatever safe code does.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::in_child;
use crate::common::{Tally, block_on, on_small_stack, quiet_panic};
use crate::verbs::{Sending, on_panic, on_undelivered, poll_once, sending, sending_by, wait_for};
use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{Actor, Clock, Drain, Overflow, ThreadPool, VirtualClock, WeakActor, blocking};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the condition is true, for ten seconds at most.
fn soon(so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !so() && begun.elapsed() < Duration::from_secs(10) {
        thread::yield_now();
    }
    so()
}

/// Actors that count their turns.
fn counters(count: usize) -> Vec<(Actor<()>, Arc<AtomicUsize>)> {
    (0..count).map(|_| (Actor::new(()), Arc::new(AtomicUsize::new(0)))).collect()
}

fn bump((actor, turns): &(Actor<()>, Arc<AtomicUsize>)) {
    let turns = turns.clone();
    actor.send(move |()| _ = turns.fetch_add(1, SeqCst)).expect("a plain actor accepts");
}

fn has_turned(actor: &(Actor<()>, Arc<AtomicUsize>), turns: usize) -> bool {
    soon(|| actor.1.load(SeqCst) >= turns)
}

/// A pool turn had deferred `b`, then called `blocking`, and the closure sent to 7 idle actors and
/// again to `b`. The deferred entries came back although `b` was listed again: the ring of the list
/// overflowed, an entry was overwritten (its actor stayed pending for ever), and the storage of `b`
/// was released once too often.
#[test]
fn promises_given_back_once() {
    in_child("promises_given_back_once", PATIENCE, || {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        for round in 0..500 {
            let turning = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
            let others = Arc::new(counters(7));
            let b = Arc::new(counters(1).remove(0));
            // This thread only looks: if it waited for an actor, it might run it.
            let (tell, told) = mpsc::channel();
            let turn = {
                let (others, b) = (others.clone(), b.clone());
                move |(): &mut ()| {
                    bump(&b);
                    blocking(|| {
                        others.iter().for_each(bump);
                        bump(&b);
                    });
                    tell.send(()).unwrap();
                }
            };
            turning.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
            told.recv().unwrap();
            for (number, other) in others.iter().enumerate() {
                assert!(has_turned(other, 1), "round {round}: actor {number} of 7 never ran");
            }
            assert!(has_turned(&b, 2), "round {round}: `b` did not run twice");
        }
    });
}

/// A clock whose sleeper sends: user code that runs while a turn waits.
#[derive(Clone)]
struct BusyClock {
    on_park: Arc<dyn Fn() + Send + Sync>,
    moment: Arc<AtomicUsize>,
}

impl std::fmt::Debug for BusyClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BusyClock")
    }
}

impl Clock for BusyClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.moment.load(SeqCst) as u64)
    }

    fn park_until(&self, _: Duration) {
        (self.on_park)();
        self.moment.fetch_add(1000, SeqCst);
    }
}

/// The user code that sends during the wait is the clock of the asked actor.
#[test]
fn promises_given_back_once_after_a_clock() {
    in_child("promises_given_back_once_after_a_clock", PATIENCE, || {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        for round in 0..500 {
            let others = Arc::new(counters(7));
            let b = Arc::new(counters(1).remove(0));
            let clock = BusyClock {
                on_park: {
                    let (others, b) = (others.clone(), b.clone());
                    Arc::new(move || {
                        others.iter().for_each(bump);
                        bump(&b);
                    })
                },
                moment: Arc::default(),
            };
            let asked = Actor::builder().clock(clock).spawn(()).unwrap();
            let held = crate::common::Held::hold(&asked);
            let turning = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
            let (tell, told) = mpsc::channel();
            let turn = {
                let (asked, b) = (asked.clone(), b.clone());
                move |(): &mut ()| {
                    bump(&b);
                    let limit = Duration::from_millis(500);
                    tell.send(wait_for(asked.call(|()| ()), limit).is_err()).unwrap();
                }
            };
            turning.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
            assert_eq!(told.recv(), Ok(true), "the clock has jumped over the limit");
            drop(held);
            for (number, other) in others.iter().enumerate() {
                assert!(has_turned(other, 1), "round {round}: actor {number} of 7 never ran");
            }
            assert!(has_turned(&b, 2), "round {round}: `b` did not run twice");
        }
    });
}

/// The fate of a state.
#[derive(Default)]
struct Fate {
    drops: AtomicUsize,
    turns_alive: AtomicUsize,
    turns_dead: AtomicUsize,
}

/// A state that records its drop. Its fate outlives it.
struct Mortal(&'static Fate);

impl Mortal {
    fn new() -> (Self, &'static Fate) {
        let fate: &'static Fate = Box::leak(Box::default());
        (Mortal(fate), fate)
    }

    fn turn(&mut self) {
        let alive = self.0.drops.load(SeqCst) == 0;
        if alive { &self.0.turns_alive } else { &self.0.turns_dead }.fetch_add(1, SeqCst);
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, SeqCst);
    }
}

impl Fate {
    #[track_caller]
    fn check(&self) {
        assert_eq!(self.turns_dead.load(SeqCst), 0, "a message ran on a dropped state");
        assert!(self.drops.load(SeqCst) <= 1, "the state was dropped twice");
    }
}

/// A full actor with capacity 1 on a queue, before a sender that waits.
fn full_on(queue: &DrainQueue) -> (Actor<Mortal>, &'static Fate) {
    let (state, fate) = Mortal::new();
    let actor = Actor::builder()
        .capacity(1, Overflow::Reject)
        .executor(queue.handle())
        .budget(1)
        .spawn(state)
        .unwrap();
    (actor, fate)
}

/// A turn of the actor runs on the queue's runner while `f` runs here; one message waits behind it.
fn while_full<R>(queue: DrainQueue, actor: &Actor<Mortal>, f: impl FnOnce() -> R) -> R {
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    actor
        .send(move |state| {
            begun.send(()).unwrap();
            let _ = goes.recv();
            state.turn();
        })
        .unwrap();
    let runner = thread::spawn(move || {
        queue.run_one();
        queue
    });
    begins.recv().unwrap();
    actor.send(Mortal::turn).unwrap();
    let result = f();
    drop(go);
    let queue = runner.join().unwrap();
    QUEUES.lock().unwrap().push(queue);
    result
}

/// The queue of the last `while_full`, which is run by hand after that.
static QUEUES: Mutex<Vec<DrainQueue>> = Mutex::new(Vec::new());

fn the_queue() -> DrainQueue {
    QUEUES.lock().unwrap().pop().expect("`while_full` was called")
}

/// The end of an actor that a forgotten send waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Closed,
    Stopped,
    /// No end: the forgotten send holds a handle, so the last one is never dropped.
    Forgotten,
}

impl Ends {
    const ALL: [Ends; 3] = [Ends::Closed, Ends::Stopped, Ends::Forgotten];

    fn end(self, actor: Actor<Mortal>) {
        match self {
            Ends::Closed => assert!(actor.close()),
            Ends::Stopped => assert!(actor.stop()),
            Ends::Forgotten => {}
        }
    }

    /// Checks that `accepted` messages were accepted, and the forgotten one as well if the actor
    /// went on.
    #[track_caller]
    fn check(self, fate: &Fate, accepted: usize) {
        fate.check();
        let (turns, drops) = (fate.turns_alive.load(SeqCst), fate.drops.load(SeqCst));
        match self {
            Ends::Closed => assert_eq!((turns, drops), (accepted, 1), "what was accepted runs"),
            Ends::Stopped => assert_eq!((turns, drops), (1, 1), "what waits is given back"),
            Ends::Forgotten => assert_eq!((turns, drops), (accepted + 1, 0), "it goes on"),
        }
    }
}

/// Capacity 1 on a `DrainQueue`, budget 1; a send that waits for room was polled and forgotten, and
/// the actor ended. The drain ended it and then admitted the waiter: the message ran on a dropped
/// state, and the state was dropped twice.
#[test]
fn forgotten_send_runs_on_no_dropped_state() {
    in_child("forgotten_send_runs_on_no_dropped_state", PATIENCE, || {
        for ends in Ends::ALL {
            let queue = DrainQueue::new();
            let (actor, fate) = full_on(&queue);
            while_full(queue, &actor, || {
                let mut waiting = Box::pin(sending(&actor, Mortal::turn));
                assert!(poll_once(&mut waiting).is_pending());
                std::mem::forget(waiting);
                ends.end(actor.clone());
            });
            drop(actor);
            the_queue().run_until_idle();
            ends.check(fate, 2);
        }
    });
}

/// A plain actor ends inside its turn.
#[test]
fn forgotten_send_to_a_plain_actor() {
    in_child("forgotten_send_to_a_plain_actor", PATIENCE, || {
        for ends in Ends::ALL {
            let (state, fate) = Mortal::new();
            let actor = Actor::builder().capacity(1, Overflow::Reject).spawn(state).unwrap();
            let slot = Arc::new(Mutex::new(Some(actor.clone())));
            let last = slot.clone();
            actor
                .send(move |state| {
                    state.turn();
                    let actor = last.lock().unwrap().take().unwrap();
                    let waited = thread::scope(|scope| {
                        let actor = &actor;
                        let polls = move || {
                            actor.send(Mortal::turn).unwrap();
                            let mut waiting = Box::pin(sending(actor, Mortal::turn));
                            let pending = poll_once(&mut waiting).is_pending();
                            std::mem::forget(waiting);
                            pending
                        };
                        scope.spawn(polls).join().unwrap()
                    });
                    assert!(waited);
                    ends.end(actor);
                })
                .unwrap();
            drop(actor);
            ends.check(fate, 2);
        }
    });
}

/// A clock that panics from its second read on.
#[derive(Debug)]
struct Fragile(AtomicUsize);

impl Clock for Fragile {
    fn now(&self) -> Duration {
        match self.0.fetch_add(1, SeqCst) {
            0 => Duration::ZERO,
            _ => quiet_panic("the clock is broken"),
        }
    }
}

/// The clock of a bounded actor panicked while a sender waited for room. Its place stayed in the
/// queue: the message, whose sender got a panic, was admitted after the end of the actor.
#[test]
fn panicking_clock_leaves_no_seat_behind() {
    in_child("panicking_clock_leaves_no_seat_behind", PATIENCE, || {
        let queue = DrainQueue::new();
        let (state, fate) = Mortal::new();
        let tally = Tally::default();
        let actor = Actor::builder()
            .capacity(1, Overflow::Reject)
            .executor(queue.handle())
            .budget(1)
            .clock(Fragile(AtomicUsize::new(0)))
            .spawn(state)
            .unwrap();
        while_full(queue, &actor, || {
            let token = tally.token();
            let message = move |state: &mut Mortal| {
                state.turn();
                token.handle();
            };
            let limit = Duration::from_secs(1);
            let sent = catch_unwind(AssertUnwindSafe(|| {
                crate::verbs::send_within(&actor, limit, message)
            }));
            assert!(sent.is_err() || sent.is_ok_and(|sent| !sent), "there was no room");
            assert_eq!(tally.dropped(), 1, "a sender that has panicked withdraws its message");
        });
        drop(actor);
        the_queue().run_until_idle();
        fate.check();
        tally.check();
    });
}

/// A waker that panics when it is dropped, if it is armed.
struct Fuse(AtomicUsize);

impl Wake for Fuse {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Fuse {
    fn drop(&mut self) {
        if self.0.load(SeqCst) == 1 && !thread::panicking() {
            quiet_panic("a waker's drop");
        }
    }
}

/// The waker of an earlier poll panicked in its drop while a later poll replaced it. The place of
/// that send stayed in the queue, as if the future had been forgotten.
#[test]
fn panicking_waker_leaves_no_seat_behind() {
    in_child("panicking_waker_leaves_no_seat_behind", PATIENCE, || {
        let queue = DrainQueue::new();
        let (actor, fate) = full_on(&queue);
        let tally = Tally::default();
        while_full(queue, &actor, || {
            let token = tally.token();
            let message = move |state: &mut Mortal| {
                state.turn();
                token.handle();
            };
            let mut waiting = Box::pin(sending(&actor, message));
            {
                let waker = Waker::from(Arc::new(Fuse(AtomicUsize::new(1))));
                assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            // A poll may or may not show the panic of a foreign waker's drop; the message is
            // withdrawn with its future in both cases.
            let _ = catch_unwind(AssertUnwindSafe(|| poll_once(&mut waiting)));
            let _ = catch_unwind(AssertUnwindSafe(|| drop(waiting)));
            assert_eq!(tally.dropped(), 1, "a message is withdrawn with its future");
        });
        drop(actor);
        the_queue().run_until_idle();
        fate.check();
        tally.check();
    });
}

#[test]
fn the_panic_of_a_wakers_drop_does_not_leave_a_sleep() {
    let timers = Timers::by_hand(VirtualClock::new());
    let mut sleep = timers.sleep(Duration::from_secs(1));
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let waker = Waker::from(Arc::new(Fuse(AtomicUsize::new(1))));
        // The sleep has the last one afterwards.
        Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending()
    }));
    assert!(polled.is_ok_and(|pending| pending));
    let polled = catch_unwind(AssertUnwindSafe(|| poll_once(&mut sleep)));
    assert!(polled.is_ok_and(|polled| polled.is_pending()));
}

/// A waker that drops another future when it wakes.
struct Killer(Mutex<Option<Sending>>);

impl Wake for Killer {
    fn wake(self: Arc<Self>) {
        let victim = self.0.lock().unwrap().take();
        drop(victim);
    }
}

/// Two sends to `actor` that wait for room: waking the first one drops the second one, whose waker
/// panics in its drop. Returns the first future, which must live.
fn two_hostile_waiters(actor: &Actor<u64>, tally: &Tally) -> Sending {
    let message = |tally: &Tally| {
        let token = tally.token();
        move |turns: &mut u64| {
            *turns += 1;
            token.handle();
        }
    };
    let killer = Arc::new(Killer(Mutex::new(None)));
    let mut first = sending_by(actor.clone(), message(tally));
    let mut second = sending_by(actor.clone(), message(tally));
    let waker = Waker::from(killer.clone());
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let waker = Waker::from(Arc::new(Fuse(AtomicUsize::new(1))));
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    *killer.0.lock().unwrap() = Some(second);
    first
}

/// Checks that this thread is inside no turn, and actors still take turns on it.
#[track_caller]
fn thread_is_sound() {
    let other = Actor::new(0);
    other.send(|n| *n += 1).unwrap();
    assert!(other.is_idle(), "a send to an idle actor does not run: this thread seems in a turn");
    assert_eq!(other.with(|n| *n), Ok(1));
}

/// Sends turns that count; one of them calls `during` on another thread.
fn messages(
    actor: &Actor<u64>,
    tally: &Tally,
    count: usize,
    at: usize,
    during: impl FnOnce(&Actor<u64>, &Tally) + Send + 'static,
) -> Vec<impl FnOnce(&mut u64) + Send + 'static> {
    let mut during = Some(during);
    (0..count)
        .map(|number| {
            let during = if number == at { during.take() } else { None };
            let (token, actor, tally) = (tally.token(), actor.clone(), tally.clone());
            move |turns: &mut u64| {
                *turns += 1;
                token.handle();
                if let Some(during) = during {
                    thread::spawn(move || during(&actor, &tally)).join().unwrap();
                }
            }
        })
        .collect()
}

/// A waker's `wake` dropped another waiter's future, whose waker panicked in its drop, while both
/// were admitted between two turns: the message that was about to run was lost.
#[test]
fn hostile_wakers_lose_no_message() {
    in_child("hostile_wakers_lose_no_message", PATIENCE, || {
        let (tally, waiting) = (Tally::default(), Arc::new(Mutex::new(None)));
        let actor = Actor::builder().capacity(4, Overflow::Reject).spawn(0_u64).unwrap();
        let keep = waiting.clone();
        let five = messages(&actor, &tally, 5, 0, move |actor, tally| {
            *keep.lock().unwrap() = Some(two_hostile_waiters(actor, tally));
        });
        let sent = catch_unwind(AssertUnwindSafe(|| actor.send_many(five)));
        assert!(sent.is_ok_and(|sent| sent.is_ok()), "a waker's panic came back to a sender");
        thread_is_sound();
        let first = waiting.lock().unwrap().take();
        if let Some(first) = first {
            assert!(block_on(first), "the first waiter was let in");
        }
        assert!(soon(|| actor.is_idle()), "the mailbox is owned for ever");
        drop(actor);
        assert_eq!(tally.created(), 7);
        assert!(tally.handled() >= 6, "handled {} of 5 sent and 1 let in", tally.handled());
        tally.check();
    });
}

/// The result of `closing_hostile_waiters`: whether the sender got a panic.
fn closing_hostile_waiters(tally: &Tally, send: impl FnOnce(&Actor<u64>, [Message; 2])) {
    let waiting = Arc::new(Mutex::new(None));
    let actor = Actor::builder().capacity(2, Overflow::Reject).spawn(0_u64).unwrap();
    let keep = waiting.clone();
    let two = messages(&actor, tally, 2, 1, move |actor, tally| {
        for _ in 0..2 {
            let token = tally.token();
            actor.send(move |_| token.handle()).unwrap();
        }
        *keep.lock().unwrap() = Some(two_hostile_waiters(actor, tally));
        actor.close();
    });
    let two: Vec<Message> = two.into_iter().map(|message| Box::new(message) as Message).collect();
    let two = <[Message; 2]>::try_from(two).unwrap_or_else(|_| unreachable!());
    let sent = catch_unwind(AssertUnwindSafe(|| send(&actor, two)));
    assert!(sent.is_ok(), "a waker's panic came back to a sender");
    thread_is_sound();
    let first = waiting.lock().unwrap().take();
    if let Some(first) = first {
        assert!(!block_on(first), "a closed actor lets none in");
    }
    assert!(soon(|| actor.is_idle()), "the mailbox is owned for ever");
    drop(actor);
    assert_eq!(tally.created(), 6);
    assert_eq!(tally.handled(), 4, "what was accepted runs once");
    tally.check();
}

type Message = Box<dyn FnOnce(&mut u64) + Send>;

/// At the end of a list, by a close: the panic left the drain. The mailbox was owned for ever, the
/// list that had been taken was lost, the thread's frame pointed into a dead one, and `send_many`
/// took back nodes that it had pushed.
#[test]
fn hostile_wakers_and_a_close_under_send_many() {
    in_child("hostile_wakers_and_a_close_under_send_many", PATIENCE, || {
        closing_hostile_waiters(&Tally::default(), |actor, two| {
            actor.send_many(two).unwrap_or_else(|refused| panic!("{refused}"));
        });
    });
}

/// A close under `send`.
#[test]
fn hostile_wakers_and_a_close_under_send() {
    in_child("hostile_wakers_and_a_close_under_send", PATIENCE, || {
        closing_hostile_waiters(&Tally::default(), |actor, [first, second]| {
            actor.send(first).unwrap();
            actor.send(second).unwrap();
        });
    });
}

/// On an executor, the panic stays in the worker: the actor must go on.
#[test]
fn hostile_wakers_stop_no_pool_actor() {
    in_child("hostile_wakers_stop_no_pool_actor", PATIENCE, || {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let tally = Tally::default();
        let waiting = Arc::new(Mutex::new(None));
        let actor = Actor::builder()
            .capacity(4, Overflow::Reject)
            .executor(pool.handle())
            .spawn(0_u64)
            .unwrap();
        let keep = waiting.clone();
        let four = messages(&actor, &tally, 4, 0, move |actor, tally| {
            let token = tally.token();
            actor.send(move |_| token.handle()).unwrap();
            *keep.lock().unwrap() = Some(two_hostile_waiters(actor, tally));
        });
        actor.send_many(four).unwrap_or_else(|refused| panic!("{refused}"));
        assert!(soon(|| actor.is_idle()), "the mailbox is owned for ever");
        if let Some(first) = waiting.lock().unwrap().take() {
            assert!(block_on(first), "the first waiter was let in");
        }
        assert!(soon(|| tally.handled() >= 6), "handled {} of 6", tally.handled());
        drop(actor);
        tally.check();
    });
}

const LONG: usize = 100_000;

/// The state of one of a chain of actors: the next one, and a count of drops.
struct Link {
    _next: Option<Actor<Link>>,
    drops: Arc<AtomicUsize>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
    }
}

/// A chain of actors, each holding the next, on executors that `gone` makes and that have gone.
fn chain_of_actors(build: impl Fn(Link) -> Actor<Link>) -> (Actor<Link>, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let first =
        (0..LONG).fold(None, |next, _| Some(build(Link { _next: next, drops: drops.clone() })));
    (first.unwrap(), drops)
}

#[track_caller]
fn falls_in_constant_stack(build: impl Fn(Link) -> Actor<Link>) {
    let (first, drops) = chain_of_actors(build);
    on_small_stack(move || drop(first));
    assert!(soon(|| drops.load(SeqCst) == LONG), "{} of {LONG} ended", drops.load(SeqCst));
}

/// 100,000 actors, each holding the next, on a queue that has ended: the end of each ran inside the
/// end of the one before, and the stack overflowed.
#[test]
fn chain_on_a_gone_queue_takes_constant_stack() {
    in_child("chain_on_a_gone_queue_takes_constant_stack", PATIENCE, || {
        let queue = DrainQueue::new();
        let handle = queue.handle();
        drop(queue);
        falls_in_constant_stack(|link| {
            Actor::builder().executor(handle.clone()).spawn(link).unwrap()
        });
    });
}

/// A chain on a pool that has gone.
#[test]
fn chain_on_a_gone_pool_takes_constant_stack() {
    in_child("chain_on_a_gone_pool_takes_constant_stack", PATIENCE, || {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let handle = pool.handle();
        assert!(pool.shutdown(PATIENCE).is_complete());
        falls_in_constant_stack(|link| {
            Actor::builder().executor(handle.clone()).spawn(link).unwrap()
        });
    });
}

/// A chain on a closure that drops its drains.
#[test]
fn chain_on_a_dropping_executor_takes_constant_stack() {
    in_child("chain_on_a_dropping_executor_takes_constant_stack", PATIENCE, || {
        falls_in_constant_stack(|link| {
            Actor::builder().executor(drop::<Drain>).spawn(link).unwrap()
        });
    });
}

/// A plain chain, and one whose executor runs its drains at once: both pass today.
#[test]
fn plain_chain_takes_constant_stack() {
    in_child("plain_chain_takes_constant_stack", PATIENCE, || {
        falls_in_constant_stack(Actor::new);
        falls_in_constant_stack(|link| Actor::builder().executor(Drain::run).spawn(link).unwrap());
    });
}

/// 100,000 weak handles, each in the panic hook of the next: each block was freed inside
/// the freeing of the one before.
#[test]
fn weak_handles_in_hooks_take_constant_stack() {
    in_child("weak_handles_in_hooks_take_constant_stack", PATIENCE, || {
        let mut last: Option<WeakActor<()>> = None;
        for _ in 0..LONG {
            let weak = last.take();
            let builder = on_panic(Actor::builder(), move |_| _ = &weak);
            last = Some(builder.spawn(()).unwrap().downgrade());
        }
        on_small_stack(move || drop(last));
    });
}

/// Weak handles in the hook for undelivered messages.
#[test]
fn weak_handles_in_undelivered_hooks() {
    in_child("weak_handles_in_undelivered_hooks", PATIENCE, || {
        let mut last: Option<WeakActor<()>> = None;
        for _ in 0..LONG {
            let weak = last.take();
            let builder = on_undelivered(Actor::builder(), move || _ = &weak);
            last = Some(builder.spawn(()).unwrap().downgrade());
        }
        on_small_stack(move || drop(last));
    });
}

/// The executor of each actor holds a weak handle to the one before.
#[test]
fn weak_handles_in_executors() {
    in_child("weak_handles_in_executors", PATIENCE, || {
        let mut last: Option<WeakActor<()>> = None;
        for _ in 0..LONG {
            let weak = last.take();
            let executor = move |drain: Drain| {
                let _ = &weak;
                drain.run();
            };
            last = Some(Actor::builder().executor(executor).spawn(()).unwrap().downgrade());
        }
        on_small_stack(move || drop(last));
    });
}

/// Each actor's waiting message holds the next actor, and their queue goes.
#[test]
fn messages_that_hold_actors_take_constant_stack() {
    in_child("messages_that_hold_actors_take_constant_stack", PATIENCE, || {
        let (queue, tally) = (DrainQueue::new(), Tally::default());
        let mut next: Option<Actor<()>> = None;
        for _ in 0..LONG {
            let (held, token) = (next.take(), tally.token());
            let actor = Actor::builder().executor(queue.handle()).spawn(()).unwrap();
            actor
                .send(move |()| {
                    token.handle();
                    drop(held);
                })
                .unwrap();
            next = Some(actor);
        }
        on_small_stack(move || {
            drop(next);
            drop(queue);
        });
        assert_eq!((tally.created(), tally.dropped()), (LONG, LONG));
    });
}
