//! Hooks before and after a pass: each `before` has one `after`, whatever happens in between; a panic in one of them is the policy's.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;

use turnwise::{Actor, ActorBuilder, AskError, Drain, Overflow, Panic, Reason, StopCause};

/// What an actor did, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    Before,
    Turn(u32),
    After(u64),
    Panicked(String),
    GaveBack,
}
use Did::{After, Before, GaveBack, Panicked, Turn};

/// Told by the hooks, and by the turns through the state.
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
    let builder = Actor::builder(diary.clone())
        .before_pass(|diary| diary.note(Before))
        .after_pass(|diary, turns| diary.note(After(turns)))
        .panic_hook({
            let diary = diary.clone();
            move |text| diary.note(Panicked(text.into()))
        })
        .undelivered(move |_| theirs.note(GaveBack));
    (diary, builder)
}

fn turn(n: u32) -> impl FnOnce(&mut Diary) + Send + 'static {
    move |diary| diary.note(Turn(n))
}

#[test]
fn a_pass_is_what_waits() {
    let (diary, builder) = builder();
    let actor = builder.spawn().unwrap();
    actor.send(turn(1)).unwrap();
    assert_eq!(diary.take(), [Before, Turn(1), After(1)]);
    for n in 1..=3 {
        actor.enqueue(turn(n)).unwrap();
    }
    assert_eq!(diary.take(), []);
    assert!(actor.drain());
    assert_eq!(diary.take(), [Before, Turn(1), Turn(2), Turn(3), After(3)]);
    assert!(!actor.drain());
    assert_eq!(diary.take(), []);
}

#[test]
fn what_arrives_meanwhile_is_for_the_next_pass() {
    let (diary, builder) = builder();
    let actor = builder.spawn().unwrap();
    let again = actor.clone();
    actor
        .send(move |diary| {
            diary.note(Turn(1));
            again.send(turn(2)).unwrap();
            again.send(turn(3)).unwrap();
        })
        .unwrap();
    assert_eq!(diary.take(), [Before, Turn(1), After(1), Before, Turn(2), Turn(3), After(2)]);
}

#[test]
fn every_way_to_a_turn_goes_through_a_pass() {
    let (diary, builder) = builder();
    let actor = builder.spawn().unwrap();
    let once = |n| [Before, Turn(n), After(1)];
    actor.try_send(turn(1)).unwrap();
    assert_eq!(diary.take(), once(1));
    actor.with(turn(2)).unwrap();
    assert_eq!(diary.take(), once(2));
    actor.ask(turn(3)).wait().unwrap();
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
    actor.try_own(|own| turn(8)(own)).unwrap();
    assert_eq!(diary.take(), once(8));
}

#[test]
fn an_end_has_no_pass_of_its_own() {
    let (diary, builder) = builder();
    let actor = builder.on_end(|diary, _| diary.unwrap().note(Turn(99))).spawn().unwrap();
    actor.enqueue(turn(1)).unwrap();
    actor.close();
    assert_eq!(diary.take(), [Before, Turn(1), After(1), Turn(99)]);
    drop(actor);
    assert_eq!(diary.take(), []);
}

#[test]
fn a_pass_ends_with_the_budget() {
    let queue = Arc::new(Mutex::new(VecDeque::<Drain>::new()));
    let inner = queue.clone();
    let (diary, builder) = builder();
    let actor = builder.executor(move |drain| inner.lock().unwrap().push_back(drain)).budget(2).spawn().unwrap();
    for n in 1..=3 {
        actor.send(turn(n)).unwrap();
    }
    let run = || {
        let next = queue.lock().unwrap().pop_front();
        next.map(Drain::run).is_some()
    };
    assert!(run());
    assert_eq!(diary.take(), [Before, Turn(1), Turn(2), After(2)]);
    assert!(run());
    assert_eq!(diary.take(), [Before, Turn(3), After(1)]);
    assert!(!run());
}

#[test]
fn a_pass_ends_before_the_thread_goes_on_with_another_actor() {
    let (diary, builder) = builder();
    let actor = builder.spawn().unwrap();
    let other = Actor::new(diary.clone());
    actor
        .enqueue(move |diary| {
            diary.note(Turn(1));
            other.send(|diary| diary.note(Turn(100))).unwrap();
        })
        .unwrap();
    actor.enqueue(turn(2)).unwrap();
    actor.drain();
    assert_eq!(diary.take(), [Before, Turn(1), After(1), Turn(100), Before, Turn(2), After(1)]);
}

#[test]
fn a_stopped_actor_begins_no_pass_and_ends_the_one_it_is_in() {
    let (diary, builder) = builder();
    let actor = builder.spawn().unwrap();
    let inside = actor.clone();
    actor.enqueue(turn(1)).unwrap();
    actor
        .enqueue(move |diary| {
            diary.note(Turn(2));
            inside.stop();
        })
        .unwrap();
    actor.enqueue(turn(3)).unwrap();
    actor.drain();
    assert_eq!(diary.take(), [Before, Turn(1), Turn(2), GaveBack, After(2)]);
    let (diary, builder) = self::builder();
    let actor = builder.spawn().unwrap();
    actor.enqueue(turn(1)).unwrap();
    actor.stop();
    assert_eq!(diary.take(), [GaveBack]);
}

#[test]
fn a_panicking_turn_counts_and_the_pass_is_ended_once() {
    type Make = fn() -> Panic<Diary>;
    let policies: [(Make, Vec<Did>); 3] = [
        (|| Panic::Stop, vec![Before, Turn(1), Panicked("oops".into()), GaveBack, After(2)]),
        (|| Panic::Resume, vec![Before, Turn(1), Panicked("oops".into()), Turn(3), After(3)]),
        // The fresh state has a diary of its own: what follows is not told in ours.
        (|| Panic::restart(Diary::default), vec![Before, Turn(1), Panicked("oops".into())]),
    ];
    for (policy, expected) in policies {
        let (diary, builder) = builder();
        let actor = builder.on_panic(policy()).spawn().unwrap();
        actor.enqueue(turn(1)).unwrap();
        actor.enqueue(|_| panic!("oops")).unwrap();
        actor.enqueue(turn(3)).unwrap();
        actor.drain();
        assert_eq!(diary.take(), expected);
        if let Ok(told) = actor.with(|diary| diary.take()) {
            // The state after a restart was given to the `after` of the pass, and this `with` has begun another one.
            assert!(told == [Before] || told == [Turn(3), After(3), Before], "{told:?}");
        }
    }
}

/// The hook that panics, at its first call only.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bad {
    Before,
    After,
}

#[test]
fn a_panicking_hook_is_the_policys() {
    for bad in [Bad::Before, Bad::After] {
        for resume in [false, true] {
            let (diary, builder) = builder();
            let first = AtomicUsize::new(0);
            let fire = Arc::new(move |hook| {
                if hook == bad && first.fetch_add(1, SeqCst) == 0 {
                    panic!("hook")
                }
            });
            let (before, after) = (fire.clone(), fire);
            let actor = builder
                .on_panic(if resume { Panic::Resume } else { Panic::Stop })
                .before_pass(move |diary| {
                    diary.note(Before);
                    before(Bad::Before);
                })
                .after_pass(move |diary, turns| {
                    diary.note(After(turns));
                    after(Bad::After);
                })
                .spawn()
                .unwrap();
            let again = actor.clone();
            actor
                .enqueue(move |diary| {
                    diary.note(Turn(1));
                    again.send(turn(3)).unwrap();
                })
                .unwrap();
            actor.enqueue(turn(2)).unwrap();
            actor.drain();
            let panicked = || Panicked("hook".into());
            let expected = match (bad, resume) {
                (Bad::Before, false) => vec![Before, panicked(), GaveBack, GaveBack, After(0)],
                (Bad::Before, true) => vec![Before, panicked(), Turn(1), Turn(2), After(2), Before, Turn(3), After(1)],
                (Bad::After, false) => vec![Before, Turn(1), Turn(2), After(2), panicked(), GaveBack],
                (Bad::After, true) => vec![Before, Turn(1), Turn(2), After(2), panicked(), Before, Turn(3), After(1)],
            };
            assert_eq!(diary.take(), expected, "{bad:?} {resume}");
            // Nothing is lost, and nobody owns it.
            actor.wait_idle().unwrap();
            let stopped = StopCause::Panicked("hook".into());
            assert_eq!(actor.stop_cause(), (!resume).then(|| stopped.clone()));
            match actor.send(turn(4)) {
                Ok(()) => assert!(resume),
                Err(refused) => assert_eq!(refused.reason(), &Reason::Stopped(stopped)),
            }
        }
    }
}

#[test]
fn a_hook_that_stops_the_actor_before_a_waiting_caller_leaves_him_his_closure() {
    let actor = Actor::builder(0).before_pass(|_| panic!("no")).spawn().unwrap();
    assert_eq!(actor.with(|n| *n), Err(AskError::Stopped(StopCause::Panicked("no".into()))));
    let actor = Actor::builder(0).before_pass(|_| panic!("no")).spawn().unwrap();
    assert_eq!(actor.ask(|n| *n).wait(), Err(AskError::Stopped(StopCause::Panicked("no".into()))));
}

#[test]
fn the_panic_of_a_waiting_callers_closure_ends_the_pass_first() {
    let (diary, builder) = builder();
    let actor = builder.on_panic(Panic::Resume).spawn().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| actor.with(|_| panic!("mine")))).is_err());
    assert_eq!(diary.take(), [Before, Panicked("mine".into()), After(1)]);
}

#[test]
fn a_hook_may_send_to_its_own_actor() {
    let (handle, own) = std::sync::mpsc::channel::<Actor<u32>>();
    let actor = Actor::builder(0)
        .after_pass(move |n, _| {
            if *n < 10 {
                own.recv().unwrap().send(|n| *n += 1).unwrap();
            }
        })
        .spawn()
        .unwrap();
    for _ in 0..10 {
        handle.send(actor.clone()).unwrap();
    }
    actor.send(|_| ()).unwrap();
    assert_eq!(actor.with(|n| *n), Ok(10));
}

#[test]
fn under_many_senders_hooks_come_in_pairs_and_count_every_turn() {
    let per_thread = if cfg!(miri) { 50 } else { 5_000 };
    for capacity in [None, Some(3)] {
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::new(AtomicUsize::new(0));
        let (before, after, sum) = (open.clone(), open.clone(), counted.clone());
        let mut builder =
            Actor::builder(0_usize).before_pass(move |_| assert_eq!(before.fetch_add(1, SeqCst), 0)).after_pass(move |_, turns| {
                assert!(turns > 0);
                sum.fetch_add(turns as usize, SeqCst);
                assert_eq!(after.fetch_sub(1, SeqCst), 1);
            });
        if let Some(capacity) = capacity {
            builder = builder.capacity(capacity, Overflow::Reject);
        }
        let actor = builder.spawn().unwrap();
        thread::scope(|scope| {
            for thread in 0..4 {
                let actor = &actor;
                scope.spawn(move || {
                    for _ in 0..per_thread {
                        match thread {
                            0 => while actor.with(|n| *n += 1) == Err(AskError::Full) {},
                            1 => while actor.ask(|n| *n += 1).wait() == Err(AskError::Full) {},
                            _ => actor.send_within(turnwise::Limit::Unlimited, |n| *n += 1).unwrap(),
                        }
                    }
                });
            }
        });
        actor.wait_idle().unwrap();
        // A sender who finds room after all leaves an empty seat behind, whose turn is counted.
        assert!(counted.load(SeqCst) >= 4 * per_thread);
        assert_eq!(open.load(SeqCst), 0);
        assert_eq!(actor.with(|n| *n), Ok(4 * per_thread));
        assert_eq!(actor.with(|n| *n).unwrap(), 4 * per_thread);
    }
}
