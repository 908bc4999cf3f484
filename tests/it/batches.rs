//! The end of a batch: each batch with a turn has one, whatever happens in between. The policy
//! handles a panic of its hook.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{asked, in_turn, must_end, quiet_panic};
use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{
    Actor, ActorBuilder, AskError, Budget, Overflow, PanicPolicy, Promise, Reason, Restarts,
    StopCause, VirtualClock, promise,
};

/// The deeds of an actor, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    Turn(u32),
    After(u64),
    Panicked(String),
    GaveBack,
}
use Did::{After, GaveBack, Panicked, Turn};

/// Written by the hooks, and by the turns through the state.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<Did>>>);

impl Diary {
    fn note(&self, did: Did) {
        self.0.lock().unwrap().push(did);
    }
    fn take(&self) -> Vec<Did> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn builder() -> (Diary, ActorBuilder<Diary>) {
    let diary = Diary::default();
    let theirs = diary.clone();
    let builder = Actor::<Diary>::builder()
        .on_batch_end(|diary, turns| diary.note(After(turns)))
        .on_panic({
            let diary = diary.clone();
            move |panic| diary.note(Panicked(panic.text().into()))
        })
        .on_undelivered(move |_| theirs.note(GaveBack));
    (diary, builder)
}

fn turn(n: u32) -> impl FnOnce(&mut Diary) + Send + 'static {
    move |diary| diary.note(Turn(n))
}

#[test]
fn a_batch_is_what_waits() {
    let (diary, builder) = builder();
    let actor = builder.spawn(diary.clone()).unwrap();
    actor.send(turn(1)).unwrap();
    assert_eq!(diary.take(), [Turn(1), After(1)]);
    in_turn(|| {
        for n in 1..=3 {
            actor.send(turn(n)).unwrap();
        }
        assert_eq!(diary.take(), []);
    });
    assert_eq!(diary.take(), [Turn(1), Turn(2), Turn(3), After(3)]);
    in_turn(|| ());
    assert_eq!(diary.take(), []);
}

#[test]
fn what_arrives_meanwhile_is_for_the_next_batch() {
    let (diary, builder) = builder();
    let actor = builder.spawn(diary.clone()).unwrap();
    let again = actor.clone();
    actor
        .send(move |diary| {
            diary.note(Turn(1));
            again.send(turn(2)).unwrap();
            again.send(turn(3)).unwrap();
        })
        .unwrap();
    assert_eq!(diary.take(), [Turn(1), After(1), Turn(2), Turn(3), After(2)]);
}

#[test]
fn every_way_to_a_turn_goes_through_a_batch() {
    let (diary, builder) = builder();
    let actor = builder.spawn(diary.clone()).unwrap();
    let once = |n| [Turn(n), After(1)];
    actor.waiting().send(turn(1)).wait().unwrap();
    assert_eq!(diary.take(), once(1));
    actor.with(turn(2)).unwrap();
    assert_eq!(diary.take(), once(2));
    actor.call(turn(3)).wait().unwrap();
    assert_eq!(diary.take(), once(3));
    actor.send_many([turn(4)]).unwrap();
    assert_eq!(diary.take(), once(4));
    actor.downgrade().upgrade().unwrap().clone().send(turn(5)).unwrap();
    assert_eq!(diary.take(), once(5));
    // On top of a turn of another actor.
    Actor::new(()).with(|()| actor.with(turn(6)).unwrap()).unwrap();
    assert_eq!(diary.take(), once(6));
    let other = Actor::new(());
    let target = actor.clone();
    other.send(move |()| target.send(turn(7)).unwrap()).unwrap();
    assert_eq!(diary.take(), once(7));
    actor.posted().send(turn(8)).unwrap();
    actor.idle().wait().unwrap();
    assert_eq!(diary.take(), once(8));
    assert_eq!(actor.waiting().call(turn(9)).wait(), Ok(()));
    assert_eq!(diary.take(), once(9));
}

#[test]
fn an_end_has_no_batch_of_its_own() {
    let (diary, builder) = builder();
    let actor = builder.on_end(|diary, _| diary.note(Turn(99))).spawn(diary.clone()).unwrap();
    in_turn(|| {
        actor.send(turn(1)).unwrap();
        actor.close();
    });
    assert_eq!(diary.take(), [Turn(1), After(1), Turn(99)]);
    drop(actor);
    assert_eq!(diary.take(), []);
}

#[test]
fn a_batch_ends_with_the_budget() {
    let queue = DrainQueue::new();
    let (diary, builder) = builder();
    let actor = builder.executor(queue.handle()).budget(2).spawn(diary.clone()).unwrap();
    for n in 1..=3 {
        actor.send(turn(n)).unwrap();
    }
    assert!(queue.run_one());
    assert_eq!(diary.take(), [Turn(1), Turn(2), After(2)]);
    assert!(queue.run_one());
    assert_eq!(diary.take(), [Turn(3), After(1)]);
    assert!(!queue.run_one());
}

#[test]
fn a_batch_ends_before_another_actors_turn() {
    let (diary, builder) = builder();
    let actor = builder.spawn(diary.clone()).unwrap();
    let other = Actor::new(diary.clone());
    in_turn(|| {
        actor
            .send(move |diary| {
                diary.note(Turn(1));
                other.send(|diary| diary.note(Turn(100))).unwrap();
            })
            .unwrap();
        actor.send(turn(2)).unwrap();
    });
    assert_eq!(diary.take(), [Turn(1), Turn(2), After(2), Turn(100)]);
}

#[test]
fn a_stop_begins_no_batch_and_ends_its_own() {
    let (diary, builder) = builder();
    let actor = builder.spawn(diary.clone()).unwrap();
    let inside = actor.clone();
    in_turn(|| {
        actor.send(turn(1)).unwrap();
        actor
            .send(move |diary| {
                diary.note(Turn(2));
                inside.stop();
            })
            .unwrap();
        actor.send(turn(3)).unwrap();
    });
    assert_eq!(diary.take(), [Turn(1), Turn(2), GaveBack, After(2)]);
    let (diary, builder) = self::builder();
    let actor = builder.spawn(diary.clone()).unwrap();
    in_turn(|| {
        actor.send(turn(1)).unwrap();
        actor.stop();
    });
    assert_eq!(diary.take(), [GaveBack]);
}

#[test]
fn a_panicking_turn_counts_and_the_batch_ends_once() {
    type Make = fn() -> PanicPolicy<Diary>;
    let policies: [(Make, Vec<Did>); 3] = [
        (|| PanicPolicy::Stop, vec![Turn(1), Panicked("oops".into()), GaveBack, After(2)]),
        (|| PanicPolicy::Resume, vec![Turn(1), Panicked("oops".into()), Turn(3), After(3)]),
        // The fresh state has a diary of its own, so what follows is not in this one.
        (|| PanicPolicy::restart(Diary::default), vec![Turn(1), Panicked("oops".into())]),
    ];
    for (policy, expected) in policies {
        let (diary, builder) = builder();
        let actor = builder.panic_policy(policy()).spawn(diary.clone()).unwrap();
        in_turn(|| {
            actor.send(turn(1)).unwrap();
            actor.send(|_| panic!("oops")).unwrap();
            actor.send(turn(3)).unwrap();
        });
        assert_eq!(diary.take(), expected);
        if let Ok(told) = actor.with(|diary| diary.take()) {
            // The state after a restart was passed to the end of the batch.
            assert!(told.is_empty() || told == [Turn(3), After(3)], "{told:?}");
        }
    }
}

#[test]
fn a_panicking_hook_is_the_policys() {
    for resume in [false, true] {
        let (diary, builder) = builder();
        let first = AtomicUsize::new(0);
        let actor = builder
            .panic_policy(if resume { PanicPolicy::Resume } else { PanicPolicy::Stop })
            .on_batch_end(move |diary, turns| {
                diary.note(After(turns));
                if first.fetch_add(1, SeqCst) == 0 {
                    panic!("hook")
                }
            })
            .spawn(diary.clone())
            .unwrap();
        let again = actor.clone();
        in_turn(|| {
            actor
                .send(move |diary| {
                    diary.note(Turn(1));
                    again.send(turn(3)).unwrap();
                })
                .unwrap();
            actor.send(turn(2)).unwrap();
        });
        let mut expected = vec![Turn(1), Turn(2), After(2), Panicked("hook".into())];
        expected.extend(if resume { vec![Turn(3), After(1)] } else { vec![GaveBack] });
        assert_eq!(diary.take(), expected, "{resume}");
        // No message is lost, and the mailbox is free.
        actor.idle().wait().unwrap();
        let stopped = StopCause::Panicked("hook".into());
        assert_eq!(actor.stop_cause(), (!resume).then(|| stopped.clone()));
        match actor.send(turn(4)) {
            Ok(()) => assert!(resume),
            Err(refused) => assert_eq!(refused.reason(), &Reason::Stopped(stopped)),
        }
    }
}

#[test]
fn a_hook_that_panics_refuses_what_waits_for_the_next_batch() {
    let actor = Actor::builder().on_batch_end(|_, _| panic!("no")).spawn(0).unwrap();
    let again = actor.clone();
    let late = actor.call(move |_| again.call(|n: &mut i32| *n)).wait().unwrap();
    let stopped = || AskError::from(Reason::Stopped(StopCause::Panicked("no".into())));
    assert_eq!(late.wait(), Err(stopped()));
    assert_eq!(actor.with(|n| *n), Err(stopped()));
}

#[test]
fn the_panic_of_with_comes_back_after_the_batch() {
    let (diary, builder) = builder();
    let actor = builder.panic_policy(PanicPolicy::Resume).spawn(diary.clone()).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| actor.with(|_| panic!("mine")))).is_err());
    assert_eq!(diary.take(), [Panicked("mine".into()), After(1)]);
}

#[test]
fn a_hook_may_send_to_its_own_actor() {
    let (handle, own) = std::sync::mpsc::channel::<Actor<u32>>();
    let own = Mutex::new(own);
    let actor = Actor::builder()
        .on_batch_end(move |n, _| {
            if *n < 10 {
                own.lock().unwrap().recv().unwrap().send(|n| *n += 1).unwrap();
            }
        })
        .spawn(0)
        .unwrap();
    for _ in 0..10 {
        handle.send(actor.clone()).unwrap();
    }
    actor.send(|_| ()).unwrap();
    assert_eq!(actor.with(|n| *n), Ok(10));
}

#[test]
fn hooks_of_many_senders_come_one_at_a_time() {
    let per_thread = if cfg!(miri) { 50 } else { 5_000 };
    for capacity in [None, Some(3)] {
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::new(AtomicUsize::new(0));
        let (inside, sum) = (open.clone(), counted.clone());
        let mut builder = Actor::builder().on_batch_end(move |_, turns| {
            assert_eq!(inside.fetch_add(1, SeqCst), 0);
            assert!(turns > 0);
            sum.fetch_add(turns as usize, SeqCst);
            assert_eq!(inside.fetch_sub(1, SeqCst), 1);
        });
        if let Some(capacity) = capacity {
            builder = builder.capacity(capacity, Overflow::Reject);
        }
        let actor = builder.spawn(0_usize).unwrap();
        thread::scope(|scope| {
            for thread in 0..4 {
                let actor = &actor;
                scope.spawn(move || {
                    for _ in 0..per_thread {
                        match thread {
                            0 => {
                                while actor.with(|n| *n += 1) == Err(AskError::from(Reason::Full)) {
                                }
                            }
                            1 => {
                                while actor.call(|n| *n += 1).wait()
                                    == Err(AskError::from(Reason::Full))
                                {
                                }
                            }
                            _ => actor.waiting().send(|n| *n += 1).wait().unwrap(),
                        }
                    }
                });
            }
        });
        actor.idle().wait().unwrap();
        // A sender that finds room after all may leave an empty place in the queue, whose turn is
        // counted.
        assert!(counted.load(SeqCst) >= 4 * per_thread);
        assert_eq!(open.load(SeqCst), 0);
        assert_eq!(actor.with(|n| *n), Ok(4 * per_thread));
        assert_eq!(actor.with(|n| *n).unwrap(), 4 * per_thread);
    }
}

/// Messages that are handled together, in one call for all that wait.
#[derive(Default)]
struct Gathering {
    gathered: Vec<u32>,
    handled: Vec<Vec<u32>>,
}

impl Gathering {
    fn handle_all(&mut self) {
        let batch = std::mem::take(&mut self.gathered);
        if !batch.is_empty() {
            self.handled.push(batch);
        }
    }
}

fn gather(n: u32) -> impl FnOnce(&mut Gathering) + Send + 'static {
    move |all| all.gathered.push(n)
}

/// A batch hook and a `Vec` in the state.
#[test]
fn three_that_were_posted_are_handled_in_one_call() {
    let queue = DrainQueue::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let builder = Actor::builder().executor(queue.handle());
    let hook = move |all: &mut Gathering, turns| {
        count.fetch_add(1, SeqCst);
        assert!(turns > 0);
        all.handle_all();
    };
    let actor = builder.on_batch_end(hook).spawn(Gathering::default()).unwrap();
    (1..=3).for_each(|n| actor.posted().send(gather(n)).unwrap());
    assert_eq!(calls.load(SeqCst), 0);
    assert_eq!((queue.run_until_idle(), calls.load(SeqCst)), (1, 1), "one call with three items");
    assert_eq!((queue.run_until_idle(), calls.load(SeqCst)), (0, 1), "none the next time");
    assert_eq!(asked(&queue, &actor, |all| all.handled.clone()), [[1, 2, 3]]);
}

/// A gathered message is never lost: a turn that panics, and a stop, come before the end of the
/// batch.
#[test]
fn what_was_gathered_is_handled_whatever_follows() {
    type Follows = fn(&Actor<Gathering>);
    let follows: [Follows; 3] = [
        |actor| actor.send(|_| panic!("oops")).unwrap(),
        |actor| {
            let inside = actor.clone();
            actor.send(move |_| _ = inside.stop()).unwrap();
        },
        |actor| _ = actor.close(),
    ];
    for follows in follows {
        let (tell, told) = std::sync::mpsc::channel();
        let actor = Actor::<Gathering>::builder()
            .on_batch_end(|all, _| all.handle_all())
            .on_end(move |all, _| tell.send(all.handled).unwrap())
            .spawn(Gathering::default())
            .unwrap();
        in_turn(|| {
            (1..=3).for_each(|n| actor.send(gather(n)).unwrap());
            follows(&actor);
            let _ = actor.send(gather(4));
        });
        let handled = told.recv().unwrap();
        assert_eq!(handled, [[1, 2, 3]]);
    }
}

#[test]
fn gathered_messages_of_many_senders_keep_their_order() {
    #[derive(Default)]
    struct Seen {
        gathered: Vec<(usize, u32)>,
        last: [u32; 4],
        count: usize,
    }
    let per_thread: u32 = if cfg!(miri) { 50 } else { 20_000 };
    let actor = Actor::<Seen>::builder()
        .on_batch_end(|seen, _| {
            for (thread, n) in std::mem::take(&mut seen.gathered) {
                assert_eq!(n, seen.last[thread] + 1, "in order");
                seen.last[thread] = n;
                seen.count += 1;
            }
        })
        .spawn(Seen::default())
        .unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let actor = &actor;
            scope.spawn(move || {
                for n in 1..=per_thread {
                    actor.send(move |seen| seen.gathered.push((thread, n))).unwrap();
                }
            });
        }
    });
    actor.idle().wait().unwrap();
    assert_eq!(actor.with(|seen| seen.count), Ok(4 * per_thread as usize));
}

#[test]
fn a_batch_hook_does_not_undo_a_hand_over() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle()).budget(2);
    let n = builder.on_batch_end(|n, turns| *n += turns).spawn(0).unwrap();
    for _ in 0..100 {
        n.send(|_| ()).unwrap();
    }
    assert_eq!(queue.run_until_idle(), 50, "two turns a drain");
    assert_eq!(asked(&queue, &n, |n| *n), 100);
}

/// Sends a turn that waits until the promise is kept.
fn waits(actor: &Actor<Diary>, n: u32) -> Promise<()> {
    let (go, gone) = promise::<()>();
    let turn = actor.run(async move |diary: &mut Diary| {
        let _ = gone.await;
        diary.note(Turn(n));
    });
    drop(turn);
    go
}

#[test]
fn a_batch_ends_once_after_a_turn_that_waited_in_it() {
    for budget in [Budget::UNLIMITED, Budget::from(1)] {
        let (queue, (diary, builder)) = (DrainQueue::new(), builder());
        let builder = builder.executor(queue.handle()).budget(budget);
        let actor = builder.spawn(diary.clone()).unwrap();
        actor.send(turn(1)).unwrap();
        let go = waits(&actor, 2);
        actor.send(turn(3)).unwrap();
        queue.run_until_idle();
        let unlimited = budget == Budget::UNLIMITED;
        let before = if unlimited { vec![Turn(1)] } else { vec![Turn(1), After(1)] };
        assert_eq!(diary.take(), before, "the batch of a turn that waits is open");
        go.keep(());
        assert_eq!(diary.take(), [], "a wake ends nothing");
        queue.run_until_idle();
        let after = match unlimited {
            true => vec![Turn(2), Turn(3), After(3)],
            false => vec![Turn(2), After(1), Turn(3), After(1)],
        };
        assert_eq!(diary.take(), after);
    }
}

#[test]
fn the_batch_of_a_turn_that_is_cut_ends_with_its_actor() {
    type Ends = fn(&Actor<Diary>, DrainQueue) -> Option<DrainQueue>;
    let ends: [(&str, Ends); 3] = [
        ("stopped", |actor, queue| {
            actor.stop();
            Some(queue)
        }),
        ("its executor is gone", |_, _| None),
        ("stopped, and its executor is gone", |actor, _| {
            actor.stop();
            None
        }),
    ];
    for (how, end) in ends {
        for woken in [false, true] {
            let (queue, (diary, builder)) = (DrainQueue::new(), builder());
            let builder = builder.executor(queue.handle()).budget(Budget::UNLIMITED);
            let builder = builder.on_end(|diary, _| diary.note(Turn(99)));
            let actor = builder.spawn(diary.clone()).unwrap();
            actor.send(turn(1)).unwrap();
            let go = waits(&actor, 2);
            actor.send(turn(3)).unwrap();
            queue.run_until_idle();
            assert_eq!(diary.take(), [Turn(1)]);
            if woken {
                go.keep(());
            }
            let left = end(&actor, queue);
            left.inspect(|queue| _ = queue.run_until_idle());
            actor.ended().wait().unwrap();
            assert_eq!(diary.take(), [GaveBack, After(2), Turn(99)], "{how}, {woken}");
        }
    }
}

#[test]
fn a_rest_leaves_the_batch_of_its_turn_open() {
    let (queue, clock) = (DrainQueue::new(), VirtualClock::new());
    let timers = Timers::by_hand(clock.clone());
    let (diary, builder) = builder();
    let restarts = Restarts::at_most(3, Duration::from_secs(60))
        .backoff(Duration::from_secs(1), Duration::from_secs(1));
    let fresh = diary.clone();
    let actor = builder
        .executor(queue.handle())
        .budget(Budget::UNLIMITED)
        .timers(timers.clone())
        .panic_policy(PanicPolicy::restart_within(restarts, move || fresh.clone()))
        .spawn(diary.clone())
        .unwrap();
    let (go, gone) = promise::<()>();
    actor.send(turn(1)).unwrap();
    let panics = actor.run(async move |_| {
        let _ = gone.await;
        quiet_panic("late")
    });
    let _: &turnwise::Reply<()> = &panics;
    actor.send(turn(3)).unwrap();
    queue.run_until_idle();
    go.keep(());
    queue.run_until_idle();
    assert!(matches!(panics.wait(), Err(AskError::Panicked(_))));
    assert_eq!(diary.take(), [Turn(1), Panicked("late".into())]);
    clock.advance(Duration::from_secs(1));
    timers.run_due();
    queue.run_until_idle();
    assert_eq!(diary.take(), [Turn(3), After(3)], "a rest is no turn of its own");
}

#[test]
fn closures_that_are_lent_inside_a_turn_are_turns_of_a_batch() {
    must_end(|| {
        let (diary, builder) = builder();
        let actor = builder.spawn(diary.clone()).unwrap();
        in_turn(|| {
            actor.send(turn(1)).unwrap();
            actor.with(turn(2)).unwrap();
        });
        assert_eq!(diary.take(), [Turn(1), Turn(2), After(2)]);
        // A wait that would close a circle is refused, and its closure is in no batch.
        let itself = actor.clone();
        actor.send(move |_| assert!(itself.with(turn(3)).is_err())).unwrap();
        assert_eq!(diary.take(), [After(1)]);
    });
}

#[test]
fn the_later_hook_takes_the_place_of_the_earlier() {
    let (diary, builder) = builder();
    let kept = Arc::new(());
    let (first, second) = (kept.clone(), kept.clone());
    let builder = builder
        .on_batch_end(move |_, _| unreachable!("{first:?}"))
        .on_batch_end(move |diary, _| diary.note(Turn(Arc::strong_count(&second) as u32)))
        .counted(true)
        .counted(false);
    assert_eq!(Arc::strong_count(&kept), 2, "the earlier one is dropped");
    let actor = builder.spawn(diary.clone()).unwrap();
    actor.send(|_| ()).unwrap();
    assert_eq!((diary.take(), actor.snapshot().stats), (vec![Turn(2)], None));
    drop(actor);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// Random choices from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}

/// Random combinations: turns that wait, panics of turns and of the hook, restarts with a rest,
/// dropped messages, a stop, an executor that ends.
#[test]
fn the_hook_the_counts_and_the_senders_agree() {
    must_end(|| (0..if cfg!(miri) { 20 } else { 2_000 }).for_each(agree));
}

fn agree(seed: u64) {
    let mut draw = Draw(seed);
    let (queue, clock) = (DrainQueue::new(), VirtualClock::new());
    let timers = Timers::by_hand(clock.clone());
    let [turns, ends, panics] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let (told, ended, panicked) = (turns.clone(), ends.clone(), panics.clone());
    let second = Duration::from_secs(1);
    let restarts = Restarts::at_most(5, 60 * second).backoff(second, second);
    let policy = match draw.below(5) {
        0 => PanicPolicy::Stop,
        1 => PanicPolicy::restart(|| 0),
        2 => PanicPolicy::restart_within(restarts, || 0),
        _ => PanicPolicy::Resume,
    };
    let of_hook = 4 + draw.below(60);
    let overflow = [Overflow::Reject, Overflow::DropNewest][draw.below(2) as usize];
    let mut builder = Actor::builder()
        .executor(queue.handle())
        .timers(timers.clone())
        .counted(true)
        .budget([1, 2, 1_000][draw.below(3) as usize])
        .panic_policy(policy)
        .on_panic(move |_| _ = panicked.fetch_add(1, SeqCst))
        .on_batch_end(move |_, turns| {
            told.fetch_add(turns, SeqCst);
            if ended.fetch_add(1, SeqCst) % of_hook == 0 {
                quiet_panic("in the hook");
            }
        });
    if draw.below(2) == 0 {
        builder = builder.capacity(1 + draw.below(4) as usize, overflow);
    }
    let actor = builder.spawn(0_u32).unwrap();
    let (mut accepted, mut refused, mut goes) = (0, 0, Vec::new());
    for _ in 0..draw.below(40) {
        let sent = match draw.below(16) {
            0..=4 => Some(actor.send(|n| *n += 1).is_ok()),
            5 => Some(actor.send(|_| quiet_panic("in the turn")).is_ok()),
            6..=8 => {
                let (go, gone) = promise::<bool>();
                goes.push(go);
                // Nothing runs in the call, so a reply that is ready was refused.
                let turn = actor.run(async move |n| {
                    *n += 1;
                    if gone.await == Ok(true) {
                        quiet_panic("after an await");
                    }
                });
                Some(!turn.is_ready())
            }
            9 => Some(!actor.call(|n| *n).is_ready()),
            10 | 11 if !goes.is_empty() => {
                let go = goes.swap_remove(draw.below(goes.len() as u64) as usize);
                match draw.below(3) {
                    // Whatever waits for it continues.
                    0 => drop(go),
                    panics => go.keep(panics == 1),
                }
                None
            }
            12 => {
                clock.advance(second);
                timers.run_due();
                None
            }
            13 if draw.below(20) == 0 => {
                actor.stop();
                None
            }
            _ => {
                queue.run_one();
                None
            }
        };
        match sent {
            Some(true) => accepted += 1,
            Some(false) => refused += 1,
            None => {}
        }
    }
    goes.clear();
    actor.close();
    if draw.below(4) == 0 {
        drop(queue);
    } else {
        while !actor.ended().within(Duration::ZERO).unwrap() {
            queue.run_until_idle();
            clock.advance(second);
            timers.run_due();
        }
    }
    let stats = actor.snapshot().stats.unwrap();
    let [turns, panics] = [turns, panics].map(|count| count.load(SeqCst));
    assert_eq!((stats.handled, stats.panicked), (turns, panics), "{seed}: {stats:?}");
    assert_eq!(stats.handled + stats.undelivered, accepted, "{seed}: {stats:?}");
    assert_eq!(stats.refused, refused, "{seed}: {stats:?}");
}
