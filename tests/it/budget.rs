//! Budgets: the length of a drain, and its continuation. Time is a clock that the turns themselves
//! move.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use turnwise::executor::{Blocking, DrainQueue, QueueHandle};
use turnwise::{
    Actor, AskError, Budget, BuildError, Clock, Drain, Executor, Reason, StopCause, ThreadPool,
};

use crate::child::in_child;
use crate::common::{asked, in_turn, must_end, until};

/// The time that a child has.
const LIMIT: Duration = Duration::from_secs(60);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A clock that is moved by hand, and counts its reads.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<(AtomicU64, AtomicUsize)>);

impl Hand {
    fn advance(&self, by: Duration) {
        self.0.0.fetch_add(by.as_millis() as u64, SeqCst);
    }

    fn reads(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        self.0.1.fetch_add(1, SeqCst);
        ms(self.0.0.load(SeqCst))
    }
}

/// An executor of a queue that counts its drains, and may refuse them with a notice.
struct Counting {
    queue: QueueHandle,
    given: Arc<AtomicUsize>,
    refuses: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Executor for Counting {
    fn execute(&self, drain: Drain) {
        self.given.fetch_add(1, SeqCst);
        self.queue.execute(drain);
    }

    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        if self.refuses.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok() {
            self.refused.fetch_add(1, SeqCst);
            return Err(drain);
        }
        self.execute(drain);
        Ok(())
    }
}

/// Returns a queue, the count of its drains, and its executor.
fn counting() -> (DrainQueue, Arc<AtomicUsize>, Counting) {
    let (queue, given) = (DrainQueue::new(), Arc::<AtomicUsize>::default());
    let executor = Counting {
        queue: queue.handle(),
        given: given.clone(),
        refuses: Arc::default(),
        refused: Arc::default(),
    };
    (queue, given, executor)
}

/// Runs drains one at a time. Returns, for each, the number of messages that it handled, and the
/// number of hand-overs since the first.
fn slices(queue: &DrainQueue, given: &AtomicUsize, handled: &AtomicUsize) -> Vec<(usize, usize)> {
    let (mut slices, mut before, first) = (vec![], 0, given.load(SeqCst));
    while queue.run_one() {
        let now = handled.load(SeqCst);
        slices.push((now - before, given.load(SeqCst) - first));
        before = now;
    }
    slices
}

/// Runs turns that take 50 ms each, in drains of `budget`.
fn timed_slices(budget: Budget, messages: usize) -> Vec<(usize, usize)> {
    let (queue, given, executor) = counting();
    let clock = Hand::default();
    let actor =
        Actor::builder().executor(executor).budget(budget).clock(clock.clone()).spawn(()).unwrap();
    let handled = Arc::<AtomicUsize>::default();
    for _ in 0..messages {
        let (clock, handled) = (clock.clone(), handled.clone());
        actor
            .send(move |()| {
                clock.advance(ms(50));
                handled.fetch_add(1, SeqCst);
            })
            .unwrap();
    }
    slices(&queue, &given, &handled)
}

#[test]
fn a_drain_ends_when_its_time_is_over() {
    let limit = |time| Budget::UNLIMITED.time(time);
    assert_eq!(timed_slices(limit(ms(50)), 3), [(1, 1), (1, 2), (1, 2)]);
    assert_eq!(timed_slices(limit(ms(51)), 3), [(2, 1), (1, 1)], "another budget, another number");
    assert_eq!(timed_slices(limit(ms(100)), 4), [(2, 1), (2, 1)], "each drain has its time afresh");
    assert_eq!(timed_slices(limit(ms(1)), 1), [(1, 0)], "late, but nothing is left");
    assert_eq!(timed_slices(limit(Duration::MAX), 500), [(500, 0)]);
    assert_eq!(
        timed_slices(Budget::turns(2).time(ms(500)), 5),
        [(2, 1), (2, 2), (1, 2)],
        "whichever is used up first"
    );
    assert_eq!(timed_slices(Budget::turns(20).time(ms(100)), 3), [(2, 1), (1, 1)]);
}

// The clock is not read after each turn; but turns of one length never exceed the budget by more
// than one.
#[test]
fn equal_turns_overstep_the_time_by_less_than_one() {
    for (turn, limit) in [
        (1, 1000),
        (1, 999),
        (3, 1000),
        (7, 100),
        (40, 1000),
        (400, 1000),
        (999, 1000),
        (1001, 1000),
    ] {
        let queue = DrainQueue::new();
        let clock = Hand::default();
        let budget = Budget::UNLIMITED.time(ms(limit));
        let actor = Actor::builder()
            .executor(queue.handle())
            .budget(budget)
            .clock(clock.clone())
            .spawn(())
            .unwrap();
        let handled = Arc::<AtomicU64>::default();
        for _ in 0..2000 {
            let (clock, handled) = (clock.clone(), handled.clone());
            actor
                .send(move |()| {
                    clock.advance(ms(turn));
                    handled.fetch_add(1, SeqCst);
                })
                .unwrap();
        }
        let reads = clock.reads();
        queue.run_one();
        let reads = clock.reads() - reads;
        let done = handled.load(SeqCst);
        assert_eq!(done, limit.div_ceil(turn), "turns of {turn} ms in {limit} ms");
        assert!(turn > 1 || reads < 120, "{reads} looks at the clock in {done} turns");
    }
}

// The clock is read after 64 turns at the latest, however short those before were.
#[test]
fn turns_that_become_longer_overstep_by_64_at_most() {
    const SHORT: usize = 2_000;
    let queue = DrainQueue::new();
    let clock = Hand::default();
    let builder = Actor::builder().executor(queue.handle()).clock(clock.clone());
    let actor = builder.budget(Budget::UNLIMITED.time(ms(1000))).spawn(()).unwrap();
    let long = Arc::<AtomicUsize>::default();
    for n in 0..2 * SHORT {
        let (clock, long) = (clock.clone(), long.clone());
        let turn = move |(): &mut ()| {
            if n >= SHORT {
                clock.advance(ms(1000));
                long.fetch_add(1, SeqCst);
            }
        };
        actor.send(turn).unwrap();
    }
    let reads = clock.reads();
    assert!(queue.run_one());
    let (long, reads) = (long.load(SeqCst), clock.reads() - reads);
    assert!((1..=64).contains(&long), "{long} turns, each as long as the limit");
    assert!(reads < SHORT / 32, "{reads} looks at the clock");
}

#[test]
fn a_drain_ends_when_its_turns_are_used_up() {
    let (queue, given, executor) = counting();
    let actor = Actor::builder().executor(executor).spawn(()).unwrap();
    let handled = Arc::<AtomicUsize>::default();
    for _ in 0..250 {
        let handled = handled.clone();
        actor.send(move |()| _ = handled.fetch_add(1, SeqCst)).unwrap();
    }
    assert_eq!(slices(&queue, &given, &handled), [(64, 1), (64, 2), (64, 3), (58, 3)]);
}

#[test]
fn a_budget_of_nothing_is_refused() {
    for budget in [
        Budget::turns(0),
        Budget::UNLIMITED.time(Duration::ZERO),
        Budget::turns(9).time(Duration::ZERO),
    ] {
        assert_eq!(Actor::builder().budget(budget).spawn(()).unwrap_err(), BuildError::BudgetZero);
    }
    assert_eq!(
        Actor::builder().executor(drop::<Drain>).budget(0).spawn(()).unwrap_err(),
        BuildError::BudgetZero
    );
}

#[test]
fn an_executor_that_refuses_is_asked_again() {
    let (queue, given, executor) = counting();
    let (refuses, refused) = (executor.refuses.clone(), executor.refused.clone());
    let actor = Actor::builder().executor(executor).spawn(0).unwrap();
    refuses.store(2, SeqCst);
    actor.send(|n| *n += 1).unwrap();
    assert_eq!((refused.load(SeqCst), given.load(SeqCst)), (2, 1), "each refusal is seen, once");
    assert!(queue.run_one());
    assert_eq!(asked(&queue, &actor, |n| *n), 1);
    assert_eq!(actor.stop_cause(), None);
}

// No asker is left without an answer.
#[test]
fn what_an_executor_refuses_is_run_by_the_fallback() {
    must_end(|| {
        let (queue, given, executor) = counting();
        let (refuses, refused) = (executor.refuses.clone(), executor.refused.clone());
        refuses.store(usize::MAX, SeqCst);
        let actor = Actor::builder().executor(executor).budget(2).spawn(0).unwrap();
        let (tell, ran_on) = mpsc::channel();
        for _ in 0..10 {
            let tell = tell.clone();
            actor
                .send(move |n| {
                    *n += 1;
                    tell.send(thread::current().id()).unwrap();
                })
                .unwrap();
        }
        let here = thread::current().id();
        for _ in 0..10 {
            assert_ne!(ran_on.recv().unwrap(), here);
        }
        actor.idle().wait().unwrap();
        assert_eq!(actor.with(|n| *n), Ok(10));
        let refused = refused.load(SeqCst);
        assert!(refused >= 3 && refused % 3 == 0, "{refused}");
        assert_eq!((given.load(SeqCst), queue.len()), (0, 0));
    });
}

// A caller of a plain actor drains for its millisecond; the rest goes to the global pool.
#[test]
fn a_caller_without_a_budget_of_its_own_is_let_go() {
    must_end(|| {
        const MESSAGES: usize = 100;
        let clock = Hand::default();
        let actor = Actor::builder().clock(clock.clone()).spawn(Vec::<ThreadId>::new()).unwrap();
        let open = Arc::<AtomicBool>::default();
        let here = thread::current().id();
        in_turn(|| {
            for _ in 0..MESSAGES {
                let (clock, open) = (clock.clone(), open.clone());
                actor
                    .send(move |ran_on: &mut Vec<_>| {
                        // Other threads wait until this one has looked.
                        while thread::current().id() != here && !open.load(SeqCst) {
                            thread::yield_now();
                        }
                        clock.advance(ms(1));
                        ran_on.push(thread::current().id());
                    })
                    .unwrap();
            }
        });
        assert!(!actor.is_idle(), "it was let go while messages were left");
        open.store(true, SeqCst);
        // Only looks: the pool runs the rest.
        until(|| actor.is_idle());
        let ran_on = actor.with(std::mem::take).unwrap();
        assert_eq!(ran_on.len(), MESSAGES);
        // Eight turns before the clock is read, and one that took the millisecond.
        assert_eq!(ran_on[..9], [here; 9]);
        assert!(!ran_on[9..].contains(&here));
    });
}

// Neither a short drain nor an unlimited one reads a clock.
#[test]
fn a_short_drain_reads_no_clock() {
    let clock = Hand::default();
    let plain = Actor::builder().clock(clock.clone()).spawn(0).unwrap();
    plain.send(|n| *n += 1).unwrap();
    plain.send_many((0..8).map(|_| |n: &mut i32| *n += 1)).unwrap();
    assert_eq!(clock.reads(), 0);
    let forever = Actor::builder().clock(clock.clone()).budget(Budget::UNLIMITED).spawn(0).unwrap();
    forever.send_many((0..1000).map(|_| |n: &mut i32| *n += 1)).unwrap();
    assert_eq!(clock.reads(), 0);
    plain.send_many((0..9).map(|_| |n: &mut i32| *n += 1)).unwrap();
    assert_eq!(clock.reads(), 1);
    assert_eq!((plain.with(|n| *n), forever.with(|n| *n)), (Ok(18), Ok(1000)));
}

// Others go on sending, and the caller still returns; everything is handled.
#[test]
fn a_captive_sender_is_let_go_while_others_send() {
    must_end(|| {
        struct State {
            handled: u64,
            by: Vec<ThreadId>,
        }
        let clock = Hand::default();
        let state = State { handled: 0, by: vec![] };
        let actor = Actor::builder().clock(clock.clone()).spawn(state).unwrap();
        let sent = Arc::<AtomicU64>::default();
        let (tell, captive_is_in) = mpsc::channel::<()>();
        let (go, may_go) = mpsc::channel::<()>();
        let captive = {
            let actor = actor.clone();
            sent.fetch_add(1, SeqCst);
            thread::spawn(move || {
                actor
                    .send(move |state| {
                        state.handled += 1;
                        tell.send(()).unwrap();
                        may_go.recv().unwrap();
                    })
                    .unwrap();
                thread::current().id()
            })
        };
        captive_is_in.recv().unwrap();
        // Each turn sends the next one, so the mailbox is never empty meanwhile.
        let over = Arc::<AtomicBool>::default();
        fn again(
            actor: &Actor<State>,
            clock: &Hand,
            sent: &Arc<AtomicU64>,
            over: &Arc<AtomicBool>,
        ) {
            let (own, clock, sent, over) =
                (actor.clone(), clock.clone(), sent.clone(), over.clone());
            sent.fetch_add(1, SeqCst);
            actor
                .send(move |state| {
                    state.handled += 1;
                    if state.by.last() != Some(&thread::current().id()) {
                        state.by.push(thread::current().id());
                    }
                    clock.advance(ms(1));
                    if !over.load(SeqCst) {
                        again(&own, &clock, &sent, &over);
                    }
                })
                .unwrap();
        }
        (0..4).for_each(|_| again(&actor, &clock, &sent, &over));
        go.send(()).unwrap();
        // Without a budget, this would never end.
        let captive = captive.join().unwrap();
        over.store(true, SeqCst);
        actor.idle().wait().unwrap();
        let (handled, by) =
            actor.with(|state| (state.handled, std::mem::take(&mut state.by))).unwrap();
        assert_eq!(handled, sent.load(SeqCst));
        assert_eq!(by[0], captive);
        assert_eq!(
            by.iter().filter(|id| **id == captive).count(),
            1,
            "it is let go once, and does not come back"
        );
    });
}

// Two actors that keep each other busy by the messages of a caller's turns do not keep that caller.
#[test]
fn a_caller_is_let_go_by_a_cascade_without_end() {
    must_end(|| {
        type Next = Option<Actor<Player>>;
        struct Player(Next);
        static OVER: AtomicBool = AtomicBool::new(false);
        static TURNS: AtomicU64 = AtomicU64::new(0);
        fn play(player: &mut Player) {
            TURNS.fetch_add(1, SeqCst);
            if !OVER.load(SeqCst) {
                player.0.as_ref().unwrap().send(play).unwrap();
            }
        }
        let (a, b) = (Actor::new(Player(None)), Actor::new(Player(None)));
        let (to_a, to_b) = (a.clone(), b.clone());
        a.with(move |player| player.0 = Some(to_b)).unwrap();
        b.with(move |player| player.0 = Some(to_a)).unwrap();
        a.send(play).unwrap();
        assert!(TURNS.load(SeqCst) > 8);
        OVER.store(true, SeqCst);
        // The last one stops sending, whichever of the two it is.
        while !(a.is_idle() && b.is_idle()) {
            thread::yield_now();
        }
        let [_, _] =
            [a.with(|player| player.0.take()).unwrap(), b.with(|player| player.0.take()).unwrap()];
    });
}

/// The global pool, whose one thread is blocked until this is dropped, so that what is handed on
/// waits.
struct Held {
    _go: mpsc::Sender<()>,
}

impl Held {
    fn new() -> Self {
        let builder = ThreadPool::builder().threads(1).blocking(Blocking::Refuse);
        let pool = builder.build_global().unwrap();
        let busy = Actor::builder().executor(pool.clone()).spawn(()).unwrap();
        let (go, wait) = mpsc::channel::<()>();
        busy.send(move |()| _ = wait.recv()).unwrap();
        Held { _go: go }
    }
}

// A caller that may run the actor, and waits, does not wait for another thread.
#[test]
fn a_caller_that_waits_takes_a_drain_over() {
    in_child("a_caller_that_waits_takes_a_drain_over", LIMIT, || {
        let _held = Held::new();
        let actor = Actor::builder().budget(2).spawn(0).unwrap();
        actor.send_many((0..5).map(|_| |n: &mut i32| *n += 1)).unwrap();
        assert_eq!(actor.len(), 3, "two were run by the sender, the rest was handed on");
        // No other thread comes: these callers run it until their own message is done.
        assert_eq!(actor.call(|n| *n).wait(), Ok(5));
        assert_eq!(actor.with(|n| *n), Ok(5));
    });
}

// The very thread that waits may have to run what was meant for another thread.
#[test]
fn a_caller_that_waits_keeps_its_message_to_itself() {
    in_child("a_caller_that_waits_keeps_its_message_to_itself", LIMIT, || {
        let held = Held::new();
        let actor = Actor::builder().budget(2).spawn(0).unwrap();
        let add = |n: &mut i32| *n += 1;
        // More than the budget, and no other thread comes.
        (0..5).for_each(|_| actor.posted().send(add).unwrap());
        assert_eq!(actor.with(|n| *n), Ok(5));
        (0..5).for_each(|_| actor.posted().send(add).unwrap());
        actor.posted().send(add).unwrap();
        assert_eq!(actor.posted().call(|n| *n).wait(), Ok(11));
        (0..5).for_each(|_| actor.posted().send(add).unwrap());
        assert_eq!(actor.call(|n| *n).wait(), Ok(16));
        (0..5).for_each(|_| actor.posted().send(add).unwrap());
        assert_eq!(actor.idle().wait(), Ok(()));
        // The waiting caller ran all of it, so the hand-over is stale, and has no effect.
        drop(held);
        assert_eq!(actor.with(|n| *n), Ok(21));
    });
}

// A caller that waits for an actor without a budget is not kept by messages after its own.
#[test]
fn a_caller_that_waits_leaves_an_unlimited_actor() {
    const MESSAGES: usize = 100;
    in_child("a_caller_that_waits_leaves_an_unlimited_actor", LIMIT, || {
        let (held, clock) = (Held::new(), Hand::default());
        let builder = Actor::builder().budget(Budget::UNLIMITED).clock(clock.clone());
        let actor = builder.spawn(0).unwrap();
        let own = actor.posted().call(|n| *n);
        for _ in 0..MESSAGES {
            let clock = clock.clone();
            let turn = move |n: &mut usize| {
                clock.advance(ms(1));
                *n += 1;
            };
            actor.posted().send(turn).unwrap();
        }
        assert_eq!(own.wait(), Ok(0));
        // Eight turns before the clock is read, and one that took the millisecond.
        assert_eq!(actor.len(), MESSAGES - 9);
        drop(held);
        assert_eq!(actor.with(|n| *n), Ok(MESSAGES));
    });
}

// The message of a caller that waits is not lost when its own drain ends before it.
#[test]
fn a_caller_that_waits_may_be_served_by_the_pool() {
    must_end(|| {
        let actor = Actor::builder().budget(3).spawn(0).unwrap();
        let ten = || (0..10).for_each(|_| actor.send(|n| *n += 1).unwrap());
        for round in 0..50 {
            in_turn(ten);
            assert_eq!(actor.with(|n| *n), Ok(10 * (round + 1)));
        }
        // Inside of a turn too.
        let outer = Actor::new(());
        assert_eq!(
            outer.with(|()| {
                ten();
                actor.with(|n| *n)
            }),
            Ok(Ok(510))
        );
    });
}

// A turn that its caller runs at once, with nothing else to do, belongs to no drain.
#[test]
fn a_callers_own_turn_has_no_budget() {
    in_child("a_callers_own_turn_has_no_budget", LIMIT, || {
        let _held = Held::new();
        let actor = Actor::builder().budget(1).spawn(0).unwrap();
        for _ in 0..10 {
            actor.send(|n| *n += 1).unwrap();
            actor.with(|n| *n += 1).unwrap();
            actor.call(|n| *n += 1).wait().unwrap();
        }
        assert_eq!((actor.with(|n| *n), actor.len()), (Ok(30), 0));
        // A message that arrives meanwhile does: one more turn, and the rest is handed on.
        let own = actor.clone();
        let five = move |_: &mut i32| (0..5).for_each(|_| own.send(|n| *n += 1).unwrap());
        actor.send(five).unwrap();
        assert_eq!(actor.len(), 4);
        assert_eq!(actor.with(|n| *n), Ok(35));
    });
}

// The clock is user code. If it panics, the drain goes on, and nothing is lost.
#[test]
fn a_clock_that_panics_loses_nothing() {
    #[derive(Debug)]
    struct Broken;
    impl Clock for Broken {
        fn now(&self) -> Duration {
            crate::common::quiet_panic("no time")
        }
    }
    let queue = DrainQueue::new();
    let actor = Actor::builder()
        .executor(queue.handle())
        .budget(Budget::UNLIMITED.time(ms(1)))
        .clock(Broken)
        .spawn(0)
        .unwrap();
    for _ in 0..100 {
        actor.send(|n| *n += 1).unwrap();
    }
    assert!(queue.run_one());
    assert_eq!(asked(&queue, &actor, |n| *n), 100);
    let plain = Actor::builder().clock(Broken).spawn(0).unwrap();
    plain.send_many((0..100).map(|_| |n: &mut i32| *n += 1)).unwrap();
    assert_eq!(plain.with(|n| *n), Ok(100));
}

// A dropped drain gives back all waiting messages, whatever the budget, because no thread could
// continue it.
#[test]
fn what_a_dropped_drain_gives_back_has_no_budget() {
    let queue = DrainQueue::new();
    let given_back = Arc::<AtomicUsize>::default();
    let hook = given_back.clone();
    let builder = Actor::builder().executor(queue.handle()).budget(2);
    let actor = builder.on_undelivered(move |_| _ = hook.fetch_add(1, SeqCst)).spawn(()).unwrap();
    actor.send_many((0..100).map(|_| |(): &mut ()| ())).unwrap();
    let asked = actor.call(|()| ());
    assert!(queue.run_one());
    drop(queue);
    let gone = Reason::Stopped(StopCause::ExecutorGone);
    assert_eq!(actor.with(|()| ()), Err(AskError::from(gone)));
    assert!(asked.wait().is_err());
    assert_eq!(given_back.load(SeqCst), 98, "two were run by the queue");
}
