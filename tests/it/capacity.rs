//! Capacity counts the messages that wait, not the running one, and is exact at every moment.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Held, Tally, asked, in_turn, must_end, quiet_panic, size};
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, ActorName, AskError, Budget, BuildError, Overflow, PanicPolicy, Promise, Reason, promise,
};

const LARGEST: usize = (u32::MAX >> 1) as usize;
/// From this number on, `len` says "at least".
const SATURATED: usize = 32_767;
const FULL: AskError = AskError::Refused(Reason::Full, ActorName::ANY);

fn with_room_for<S: Send + 'static>(state: S, messages: usize) -> Actor<S> {
    let builder = Actor::builder().capacity(messages, Overflow::Reject);
    builder.budget(Budget::UNLIMITED).spawn(state).unwrap()
}

#[test]
fn impossible_capacities_are_errors_with_the_limit() {
    let spawn = |messages| {
        let built = Actor::builder().capacity(messages, Overflow::Reject).spawn(());
        built.map(|actor| actor.snapshot().capacity)
    };
    assert_eq!(spawn(0).unwrap_err(), BuildError::CapacityZero);
    assert_eq!(spawn(1), Ok(Some(1)));
    assert_eq!(spawn(LARGEST), Ok(Some(LARGEST)));
    for asked in [LARGEST + 1, u32::MAX as usize, usize::MAX] {
        let error = spawn(asked).unwrap_err();
        assert_eq!(error, BuildError::CapacityTooLarge { asked, largest: LARGEST });
        let text = error.to_string();
        assert!(
            text.contains(&LARGEST.to_string()) && text.contains(&asked.to_string()),
            "{error}"
        );
    }
    assert_eq!(Actor::new(()).snapshot().capacity, None);
}

#[test]
fn exactly_the_capacity_is_accepted_while_nobody_runs() {
    for room in [1, 2, 3, 1_000, 40_000] {
        let queue = DrainQueue::new();
        let builder = Actor::builder().capacity(room, Overflow::Reject);
        let actor = builder.executor(queue.handle()).spawn(0).unwrap();
        for round in 1..=2 {
            (0..room).for_each(|_| actor.send(|n| *n += 1).unwrap());
            assert_eq!(actor.len(), room.min(SATURATED));
            for _ in 0..3 {
                let refused = actor.send(|n| *n += 1).unwrap_err();
                assert_eq!(refused.reason(), &Reason::Full);
            }
            assert!(queue.run_until_idle() > 0);
            assert!(actor.is_idle());
            assert_eq!(asked(&queue, &actor, |n| *n), round * room);
        }
    }
}

#[test]
fn exactly_the_capacity_is_accepted_while_a_turn_runs() {
    for room in [1, 2, 1_000, 40_000] {
        let actor = with_room_for(0, room);
        let held = Held::hold(&actor);
        (0..room).for_each(|_| actor.send(|n| *n += 1).unwrap());
        assert_eq!(actor.len(), (room + 1).min(SATURATED));
        let refused = actor.send(|n| *n += 100).unwrap_err();
        assert_eq!(refused.reason(), &Reason::Full);
        assert_eq!(actor.posted().send(|_| ()).unwrap_err().reason(), &Reason::Full);
        let one_look = actor.waiting().send(|_| ()).within(Duration::ZERO);
        assert_eq!(one_look.unwrap_err().reason(), &Reason::Full);
        assert_eq!(actor.call(|_| ()).wait(), Err(FULL));
        assert_eq!(actor.posted().call(|_| ()).wait(), Err(FULL));
        assert_eq!(actor.with(|_| ()), Err(FULL));
        held.let_go();
        actor.send(refused.into_message()).unwrap();
        assert_eq!(actor.with(|n| *n), Ok(room + 100));
    }
}

#[test]
fn each_turn_makes_room_for_one_more() {
    // Every turn of a full mailbox sends to itself: the first fits, the second does not.
    for room in [1, 2, 7, 100] {
        let refused = Arc::new(AtomicUsize::new(0));
        let actor = with_room_for(Vec::new(), room);
        let message = |n: usize| {
            let (me, refused) = (actor.clone(), refused.clone());
            move |log: &mut Vec<usize>| {
                log.push(n);
                me.send(move |log| log.push(n + 1_000)).unwrap();
                assert_eq!(me.send(|_| ()).unwrap_err().reason(), &Reason::Full);
                assert_eq!(me.len(), me.snapshot().capacity.unwrap() + 1);
                refused.fetch_add(1, SeqCst);
            }
        };
        in_turn(|| (0..room).for_each(|n| actor.send(message(n)).unwrap()));
        let log = actor.with(std::mem::take).unwrap();
        assert_eq!(log, (0..room).chain(1_000..1_000 + room).collect::<Vec<_>>());
        assert_eq!(refused.load(SeqCst), room);
    }
}

#[test]
fn what_waits_for_the_end_of_a_turn_counts() {
    let actor = with_room_for(0, 2);
    let inner = actor.clone();
    Actor::new(())
        .with(move |()| {
            inner.send(|n| *n += 1).unwrap();
            inner.send(|n| *n += 1).unwrap();
            assert_eq!(inner.send(|n| *n += 1).unwrap_err().reason(), &Reason::Full);
        })
        .unwrap();
    assert_eq!(actor.with(|n| *n), Ok(2));
}

#[test]
fn send_many_is_accepted_whole_or_not_at_all() {
    let actor = with_room_for(Vec::new(), 5);
    let messages =
        |numbers: std::ops::Range<usize>| numbers.map(|n| move |log: &mut Vec<usize>| log.push(n));
    // Idle: the first one runs at once and takes no room.
    let mut refused = actor.send_many(messages(0..7)).unwrap_err();
    assert_eq!((refused.message_mut().len(), refused.reason()), (7, &Reason::Full));
    actor.send_many(messages(0..6)).unwrap();
    // Waiting: three fit beside two.
    actor.send(|log| log.push(10)).unwrap();
    let held = Held::hold(&actor);
    actor.send_many(messages(20..22)).unwrap();
    let refused = actor.send_many(messages(30..34)).unwrap_err();
    assert_eq!((refused.reason(), actor.len()), (&Reason::Full, 3));
    actor.send_many(messages(40..43)).unwrap();
    assert_eq!(actor.send_many(messages(0..1)).unwrap_err().reason(), &Reason::Full);
    assert!(actor.send_many(messages(0..0)).is_ok(), "nothing fits anywhere");
    held.let_go();
    let log = actor.with(std::mem::take).unwrap();
    assert_eq!(log, [0, 1, 2, 3, 4, 5, 10, 20, 21, 40, 41, 42]);
    // The returned messages are complete, and in order.
    let mut log = Vec::new();
    refused.into_message().into_iter().for_each(|message| message(&mut log));
    assert_eq!(log, [30, 31, 32, 33]);
}

#[test]
fn a_panicking_turn_makes_room_too() {
    let builder = Actor::builder().capacity(3, Overflow::Reject);
    let actor = builder.panic_policy(PanicPolicy::Resume).spawn(0).unwrap();
    in_turn(|| {
        for _ in 0..3 {
            let me = actor.clone();
            let message = move |_: &mut i32| {
                me.send(|n| *n += 1).unwrap();
                assert_eq!(me.send(|_| ()).unwrap_err().reason(), &Reason::Full);
                quiet_panic("x");
            };
            actor.send(message).unwrap();
        }
    });
    assert_eq!(actor.with(|n| *n), Ok(3));
}

#[test]
fn a_full_mailbox_can_be_closed_stopped_and_dropped() {
    let ends: [fn(&Actor<u32>); 3] = [|actor| _ = actor.close(), |actor| _ = actor.stop(), |_| ()];
    for end in ends {
        let ended = Arc::new(Mutex::new(0));
        let build = || {
            let told = ended.clone();
            let builder = Actor::builder().capacity(2, Overflow::Reject);
            builder.on_end(move |_, _| *told.lock().unwrap() += 1)
        };
        let actor = build().spawn(0).unwrap();
        in_turn(move || {
            (0..2).for_each(|_| actor.send(|_| ()).unwrap());
            assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Full);
            end(&actor);
            drop(actor);
        });
        assert_eq!(*ended.lock().unwrap(), 1);
        // With an executor, the end runs there.
        let queue = DrainQueue::new();
        let actor = build().executor(queue.handle()).spawn(0).unwrap();
        (0..2).for_each(|_| actor.send(|_| ()).unwrap());
        assert_eq!(actor.send(|_| ()).unwrap_err().reason(), &Reason::Full);
        end(&actor);
        drop(actor);
        assert_eq!(*ended.lock().unwrap(), 1);
        queue.run_until_idle();
        assert_eq!(*ended.lock().unwrap(), 2);
    }
}

#[test]
fn the_limit_holds_under_fire_and_nothing_is_lost() {
    must_end(|| {
        let each = size(5_000, 200_000);
        for room in [1, 2, 8] {
            let tally = Tally::default();
            let refused = AtomicUsize::new(0);
            let actor = with_room_for(0_usize, room);
            thread::scope(|scope| {
                for me in 0..4 {
                    let (actor, tally, refused) = (&actor, &tally, &refused);
                    scope.spawn(move || {
                        for i in 0..each {
                            let (token, weak) = (tally.token(), actor.downgrade());
                            let message = move |n: &mut usize| {
                                let waiting = weak.upgrade().unwrap().len() - 1;
                                assert!(waiting <= room, "{waiting} wait in a room for {room}");
                                *n += 1;
                                token.handle();
                            };
                            let sent = match (me + i) % 3 {
                                0 => actor.send(message).map_err(|refused| refused.into_reason()),
                                1 => {
                                    let sent = actor.posted().send(message);
                                    sent.map_err(|refused| refused.into_reason())
                                }
                                _ => match actor.call(message) {
                                    reply if !reply.is_ready() => Ok(()),
                                    reply => reply.wait().map_err(|error| match error {
                                        AskError::Refused(reason, _) => reason,
                                        other => panic!("{other}"),
                                    }),
                                },
                            };
                            if let Err(reason) = sent {
                                assert_eq!(reason, Reason::Full);
                                refused.fetch_add(1, SeqCst);
                                thread::yield_now();
                            }
                        }
                    });
                }
            });
            actor.idle().wait().unwrap();
            tally.check();
            assert_eq!(tally.dropped(), refused.load(SeqCst));
            assert_eq!(actor.with(|n| *n), Ok(tally.handled()));
        }
    });
}

#[test]
fn a_full_mailbox_that_nobody_runs_strands_nobody() {
    must_end(|| {
        for capacity in [1, 3] {
            let n = with_room_for(0, capacity);
            // This thread has deferred it, and is inside a turn; another thread comes.
            in_turn(|| {
                let fill = || {
                    (0..capacity).for_each(|_| n.send(|n| *n += 1).unwrap());
                    assert_eq!(n.send(|n| *n += 1).unwrap_err().reason(), &Reason::Full);
                };
                let elsewhere = |f: &(dyn Fn() + Sync)| {
                    thread::scope(|scope| scope.spawn(f).join().unwrap());
                };
                fill();
                elsewhere(&|| n.send(|n| *n += 1).unwrap());
                assert!(n.is_idle(), "the sender took over");
                fill();
                elsewhere(&|| assert_eq!(n.with(|n| *n), Ok(2 * capacity + 1)));
                fill();
                elsewhere(&|| assert_eq!(n.call(|n| *n).wait(), Ok(3 * capacity + 1)));
            });
        }
    });
}

#[test]
fn a_with_after_a_send_in_a_turn_finds_room() {
    let log = with_room_for(vec!['A'], 1);
    let (outer, inner) = (Actor::new(()), log.clone());
    let seen = outer.with(move |()| {
        inner.send(|log| log.push('B')).unwrap();
        inner.with(|log| log.len())
    });
    assert_eq!(seen, Ok(Ok(2)));
}

#[test]
fn with_and_call_agree_where_only_the_executor_runs() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().capacity(1, Overflow::Reject);
    let log = builder.executor(queue.handle()).spawn(Vec::new()).unwrap();
    log.send(|log: &mut Vec<char>| log.push('A')).unwrap();
    assert_eq!(log.with(|log| log.clone()), Err(FULL));
    assert_eq!(log.call(|log| log.clone()).wait(), Err(FULL));
    assert_eq!((queue.run_until_idle(), log.len()), (1, 0));
    assert_eq!(asked(&queue, &log, |log| log.clone()), ['A']);
}

/// An actor whose mailbox contains only a suspended turn, and the promise that wakes it.
fn in_a_turn_that_waits(
    overflow: Overflow,
    room: usize,
) -> (DrainQueue, Actor<Vec<u32>>, Promise<()>) {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle()).capacity(room, overflow);
    let log = builder.spawn(Vec::new()).unwrap();
    let (go, gone) = promise::<()>();
    let turn = log.run(async move |log: &mut Vec<u32>| {
        let _ = gone.await;
        log.push(0);
    });
    drop(turn);
    queue.run_until_idle();
    (queue, log, go)
}

#[test]
fn a_turn_that_was_woken_takes_no_place() {
    for room in [1, 3] {
        let (queue, log, go) = in_a_turn_that_waits(Overflow::Reject, room);
        go.keep(());
        // Woken, and not polled yet.
        assert!(format!("{log:?}").contains("0 queued"), "{log:?}");
        for n in 1..=room as u32 {
            log.send(move |log| log.push(n)).unwrap();
        }
        assert_eq!(log.send(|_| ()).unwrap_err().reason(), &Reason::Full);
        assert_eq!(log.len(), room + 1);
        queue.run_until_idle();
        assert_eq!(asked(&queue, &log, |log| log.len()), room + 1);
    }
}

#[test]
fn beside_a_turn_that_was_woken_nothing_is_dropped() {
    let (queue, log, go) = in_a_turn_that_waits(Overflow::DropNewest, 1);
    go.keep(());
    log.send(|log| log.push(1)).unwrap();
    queue.run_until_idle();
    assert_eq!(log.snapshot().discarded, 0);
    assert_eq!(asked(&queue, &log, |log| log.clone()), [0, 1]);
}

#[test]
fn a_sender_finds_the_room_that_it_makes_beside_a_woken_turn() {
    must_end(|| {
        let log = with_room_for(Vec::new(), 1);
        let (go, gone) = promise::<()>();
        let turn = log.run(async move |log: &mut Vec<u32>| {
            let _ = gone.await;
            log.push(0);
        });
        log.send(|log| log.push(1)).unwrap();
        assert_eq!(log.send(|_| ()).unwrap_err().reason(), &Reason::Full);
        in_turn(|| {
            // This thread has deferred it; another one comes first. The turn goes on, and makes no
            // room itself.
            go.keep(());
            let sends = || log.send(|log| log.push(2)).unwrap();
            thread::scope(|scope| scope.spawn(sends).join().unwrap());
        });
        assert_eq!(log.with(|log| log.clone()), Ok(vec![0, 1, 2]));
        assert_eq!(turn.wait(), Ok(()));
    });
}
