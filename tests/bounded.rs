//! Capacity counts the messages that wait, not the one that runs, and is exact at every moment.

mod common;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;

use common::{Held, Tally, must_end, quiet_panic, size};
use turnwise::{Actor, AskError, Budget, BuildError, Overflow, Panic, Reason};

const LARGEST: usize = 65_533;

fn with_room_for<S: Send + 'static>(state: S, messages: usize) -> Actor<S> {
    Actor::builder(state).capacity(messages, Overflow::Reject).budget(Budget::UNLIMITED).spawn().unwrap()
}

#[test]
fn no_room_and_too_much_room_are_errors_that_name_the_limit() {
    let spawn = |messages| Actor::builder(()).capacity(messages, Overflow::Reject).spawn().map(|actor| actor.capacity());
    assert_eq!(spawn(0).unwrap_err(), BuildError::CapacityZero);
    assert_eq!(spawn(1), Ok(Some(1)));
    assert_eq!(spawn(LARGEST), Ok(Some(LARGEST)));
    for asked in [LARGEST + 1, u32::MAX as usize, usize::MAX] {
        let error = spawn(asked).unwrap_err();
        assert_eq!(error, BuildError::CapacityTooLarge { asked, largest: LARGEST });
        assert!(error.to_string().contains("65533") && error.to_string().contains(&asked.to_string()), "{error}");
    }
    assert_eq!(Actor::new(()).capacity(), None);
}

#[test]
fn exactly_the_capacity_is_accepted_while_nobody_drains() {
    for room in [1, 2, 3, 1_000, LARGEST] {
        let actor = with_room_for(0, room);
        for round in 1..=2 {
            (0..room).for_each(|_| actor.enqueue(|n| *n += 1).unwrap());
            assert_eq!(actor.len(), room);
            for _ in 0..3 {
                let refused = actor.enqueue(|n| *n += 1).unwrap_err();
                assert_eq!(refused.reason(), &Reason::Full);
            }
            assert!(actor.drain());
            assert!(actor.is_idle());
            assert_eq!(actor.with(|n| *n), Ok(round * room));
        }
    }
}

#[test]
fn exactly_the_capacity_is_accepted_while_a_turn_runs() {
    for room in [1, 2, 1_000, LARGEST] {
        let actor = with_room_for(0, room);
        let held = Held::hold(&actor);
        (0..room).for_each(|_| actor.send(|n| *n += 1).unwrap());
        assert_eq!(actor.len(), room + 1);
        let refused = actor.send(|n| *n += 100).unwrap_err();
        assert_eq!(refused.reason(), &Reason::Full);
        assert_eq!(actor.enqueue(|_| ()).unwrap_err().reason(), &Reason::Full);
        assert_eq!(actor.ask(|_| ()).wait(), Err(AskError::Full));
        assert_eq!(actor.with(|_| ()), Err(AskError::Full));
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
                assert_eq!(me.len(), me.capacity().unwrap() + 1);
                refused.fetch_add(1, SeqCst);
            }
        };
        (0..room).for_each(|n| actor.enqueue(message(n)).unwrap());
        assert!(actor.drain());
        let log = actor.with(std::mem::take).unwrap();
        assert_eq!(log, (0..room).chain(1_000..1_000 + room).collect::<Vec<_>>());
        assert_eq!(refused.load(SeqCst), room);
    }
}

#[test]
fn a_message_inside_a_turn_of_another_actor_waits_and_counts() {
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
    let messages = |numbers: std::ops::Range<usize>| numbers.map(|n| move |log: &mut Vec<usize>| log.push(n));
    // Idle: the first one runs at once and takes no room.
    let refused = actor.send_many(messages(0..7)).unwrap_err();
    assert_eq!((refused.reason(), refused.message().len()), (&Reason::Full, 7));
    actor.send_many(messages(0..6)).unwrap();
    // Waiting: three fit beside two.
    actor.enqueue(|log| log.push(10)).unwrap();
    let held = {
        actor.drain();
        Held::hold(&actor)
    };
    actor.send_many(messages(20..22)).unwrap();
    let refused = actor.send_many(messages(30..34)).unwrap_err();
    assert_eq!((refused.reason(), actor.len()), (&Reason::Full, 3));
    actor.send_many(messages(40..43)).unwrap();
    assert_eq!(actor.send_many(messages(0..1)).unwrap_err().reason(), &Reason::Full);
    assert!(actor.send_many(messages(0..0)).is_ok(), "nothing fits anywhere");
    held.let_go();
    assert_eq!(actor.with(std::mem::take).unwrap(), [0, 1, 2, 3, 4, 5, 10, 20, 21, 40, 41, 42]);
    // What came back is whole, and in its order.
    let mut log = Vec::new();
    refused.into_message().into_iter().for_each(|message| message(&mut log));
    assert_eq!(log, [30, 31, 32, 33]);
}

#[test]
fn a_panicking_turn_makes_room_too() {
    let actor = Actor::builder(0).capacity(3, Overflow::Reject).on_panic(Panic::Resume).spawn().unwrap();
    for _ in 0..3 {
        let me = actor.clone();
        let message = move |_: &mut i32| {
            me.send(|n| *n += 1).unwrap();
            assert_eq!(me.send(|_| ()).unwrap_err().reason(), &Reason::Full);
            quiet_panic("x");
        };
        actor.enqueue(message).unwrap();
    }
    actor.drain();
    assert_eq!(actor.with(|n| *n), Ok(3));
}

#[test]
fn a_full_mailbox_can_be_closed_stopped_and_dropped() {
    let ends: [fn(&Actor<u32>); 3] = [|actor| _ = actor.close(), |actor| _ = actor.stop(), |_| ()];
    for end in ends {
        let ended = Arc::new(Mutex::new(0));
        let told = ended.clone();
        let builder = Actor::builder(0).capacity(2, Overflow::Reject);
        let actor = builder.on_end(move |_, _| *told.lock().unwrap() += 1).spawn().unwrap();
        (0..2).for_each(|_| actor.enqueue(|_| ()).unwrap());
        end(&actor);
        drop(actor);
        assert_eq!(*ended.lock().unwrap(), 1);
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
                                0 => actor.send(message).map_err(|refused| refused.into_parts()),
                                1 => actor.enqueue(message).map_err(|refused| refused.into_parts()),
                                _ => actor.try_ask(message).map(drop).map_err(|refused| refused.into_parts()),
                            };
                            if let Err((message, reason)) = sent {
                                assert_eq!(reason, Reason::Full);
                                refused.fetch_add(1, SeqCst);
                                drop(message);
                                actor.drain();
                            }
                        }
                    });
                }
            });
            actor.drain();
            assert!(actor.is_idle());
            tally.check();
            assert_eq!(tally.dropped(), refused.load(SeqCst));
            assert_eq!(actor.with(|n| *n), Ok(tally.handled()));
        }
    });
}

#[test]
fn a_full_mailbox_that_nobody_drains_strands_nobody() {
    for capacity in [1, 3] {
        let n = Actor::builder(0).capacity(capacity, Overflow::Reject).spawn().unwrap();
        (0..capacity).for_each(|_| n.enqueue(|n| *n += 1).unwrap());
        assert_eq!(n.enqueue(|n| *n += 1).unwrap_err().reason(), &Reason::Full);
        n.send(|n| *n += 1).unwrap();
        assert!(n.is_idle(), "the sender took over");
        (0..capacity).for_each(|_| n.enqueue(|n| *n += 1).unwrap());
        assert_eq!(n.with(|n| *n), Ok(2 * capacity + 1));
        (0..capacity).for_each(|_| n.enqueue(|n| *n += 1).unwrap());
        assert_eq!(n.ask(|n| *n).wait(), Ok(3 * capacity + 1));
    }
}
