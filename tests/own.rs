//! An own loop: one owner at a time, nothing touched when it is refused, nothing left when it is over.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use turnwise::{Actor, AskError, Drain, Limit, Overflow, OwnError, Panic, Reason, StopCause, Undelivered};

fn add(n: u64) -> impl FnOnce(&mut u64) + Send + 'static {
    move |sum| *sum += n
}

fn send_ten(sum: &Actor<u64>) {
    (1..=10).for_each(|n| sum.enqueue(add(n)).unwrap());
}

#[test]
fn a_loop_pulls_batches() {
    let sum = Actor::new(0);
    send_ten(&sum);
    let totals = sum.try_own(|own| {
        let mut totals = vec![**own];
        assert_eq!(own.waiting(), 10);
        assert_eq!(own.run_waiting(), 10);
        totals.push(**own);
        send_ten(&sum);
        assert_eq!(own.waiting(), 10);
        assert_eq!(own.run_waiting(), 10);
        assert_eq!((own.waiting(), own.run_waiting()), (0, 0));
        totals.push(**own);
        totals
    });
    assert_eq!(totals.unwrap(), [0, 55, 110]);
    assert!(sum.is_idle());
}

#[test]
fn a_second_owner_is_refused_and_nothing_is_touched() {
    let sum = Actor::new(0);
    let (owned, over) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            sum.try_own(|own| {
                owned.wait();
                over.wait();
                assert_eq!(**own, 0, "the queue is untouched");
                assert_eq!(own.run_waiting(), 10);
            })
            .unwrap();
        });
        owned.wait();
        (1..=10).for_each(|n| sum.send(add(n)).unwrap());
        let before = sum.len();
        assert_eq!(sum.try_own(|_| unreachable!()), Err::<(), _>(OwnError::Busy));
        assert_eq!(sum.len(), before);
        assert_eq!(before, 11);
        over.wait();
    });
    assert_eq!(sum.with(|sum| *sum).unwrap(), 55);
}

#[test]
fn a_turn_is_an_owner_too() {
    let n = Actor::new(0);
    let me = n.clone();
    assert_eq!(n.with(|_| me.try_own(|_| ())).unwrap(), Err(OwnError::Busy));
    // On top of a turn of another actor it may own.
    assert_eq!(Actor::new(()).with(|()| n.try_own(|own| **own + 1)).unwrap(), Ok(1));
}

#[test]
fn what_was_sent_after_the_last_pull_is_handled() {
    let sum = Actor::new(0);
    sum.try_own(|own| {
        assert_eq!(own.run_waiting(), 0);
        sum.send(add(5)).unwrap();
    })
    .unwrap();
    assert!(sum.is_idle());
    assert_eq!(sum.with(|sum| *sum).unwrap(), 5);
}

#[test]
fn waiting_for_oneself_in_a_loop_is_an_error() {
    let sum = Actor::new(0);
    sum.try_own(|own| {
        assert_eq!(sum.with(|sum| *sum), Err(AskError::Deadlock));
        assert_eq!(sum.wait_idle(), Err(AskError::Deadlock));
        assert!(!sum.drain());
        let asked = sum.ask(|sum| *sum);
        **own = 3;
        own.run_waiting();
        assert_eq!(asked.wait(), Ok(3));
    })
    .unwrap();
}

#[test]
fn a_closed_actor_is_owned_only_as_long_as_something_waits() {
    let (tx, ended) = channel();
    let sum = Actor::builder(0).on_end(move |state, _| tx.send(state).unwrap()).spawn().unwrap();
    sum.try_own(|own| {
        send_ten(&sum);
        assert!(sum.close());
        assert!(ended.try_recv().is_err(), "not before it is let go");
        assert_eq!(own.run_waiting(), 10);
    })
    .unwrap();
    assert_eq!(ended.try_recv(), Ok(Some(55)));
    assert_eq!(sum.try_own(|_| ()), Err(OwnError::Closed));
    let sum = Actor::new(0);
    sum.stop();
    assert_eq!(sum.try_own(|_| ()), Err(OwnError::Stopped(StopCause::Requested)));
}

#[test]
fn an_actor_stopped_in_a_loop_gives_its_messages_back() {
    let (tx, back) = channel();
    let sum = Actor::builder(0).undelivered(move |message| tx.send(message).unwrap()).spawn().unwrap();
    send_ten(&sum);
    let total = sum.try_own(|own| {
        sum.stop();
        assert_eq!(back.try_iter().count(), 0, "the owner gives them back");
        assert_eq!(own.run_waiting(), 10);
        assert_eq!(back.try_iter().filter(|message| matches!(message, Undelivered::Closure(_))).count(), 10);
        **own
    });
    assert_eq!(total, Ok(0));
}

#[test]
fn the_last_handle_may_go_while_a_loop_runs() {
    let (tx, ended) = channel();
    let sum = Actor::builder(0).on_end(move |state, cause| tx.send((state, cause.stop_cause())).unwrap()).spawn().unwrap();
    let second = sum.clone();
    send_ten(&sum);
    let looping = thread::spawn(move || {
        sum.try_own(|own| {
            drop(second);
            own.run_waiting();
        })
        .unwrap();
        drop(sum);
    });
    looping.join().unwrap();
    assert_eq!(ended.recv().unwrap(), (Some(55), None));
}

#[test]
fn a_panicking_loop_gives_the_actor_up_by_policy() {
    for resume in [false, true] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hook = told.clone();
        let back = Arc::new(AtomicUsize::new(0));
        let given = back.clone();
        let sum = Actor::builder(0)
            .on_panic(if resume { Panic::Resume } else { Panic::Stop })
            .panic_hook(move |text| hook.lock().unwrap().push(text.to_owned()))
            .undelivered(move |_| _ = given.fetch_add(1, SeqCst))
            .spawn()
            .unwrap();
        send_ten(&sum);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            sum.try_own(|own| {
                own.run_waiting();
                send_ten(&sum);
                panic!("loop")
            })
        }));
        let panic = panic.map(|_: Result<(), _>| ()).unwrap_err();
        assert_eq!(*panic.downcast::<&str>().unwrap(), "loop");
        assert_eq!(*told.lock().unwrap(), ["loop"]);
        assert!(sum.is_idle(), "ownership is given up");
        if resume {
            assert_eq!(sum.with(|sum| *sum).unwrap(), 110);
        } else {
            assert_eq!(back.load(SeqCst), 10);
            let cause = StopCause::Panicked("loop".into());
            assert_eq!(sum.send(add(1)).unwrap_err().reason(), &Reason::Stopped(cause));
        }
    }
}

#[test]
fn a_panicking_message_in_a_loop_is_the_policys() {
    let sum = Actor::builder(0).on_panic(Panic::Resume).spawn().unwrap();
    sum.try_own(|own| {
        sum.send(add(1)).unwrap();
        sum.send(|_| panic!("one")).unwrap();
        sum.send(add(2)).unwrap();
        assert_eq!(own.run_waiting(), 3);
        assert_eq!(**own, 3);
    })
    .unwrap();
    let sum = Actor::new(0);
    let asked = sum.try_own(|own| {
        sum.send(|_| panic!("one")).unwrap();
        let asked = sum.ask(|sum| *sum);
        assert_eq!(own.run_waiting(), 2);
        asked
    });
    assert_eq!(asked.unwrap().wait(), Err(AskError::Stopped(StopCause::Panicked("one".into()))));
}

#[test]
fn a_full_mailbox_has_room_again_after_a_pull_and_the_limit_stays_exact() {
    let sum = Actor::builder(0).capacity(2, Overflow::Reject).spawn().unwrap();
    let fill = || (0..5).filter(|_| sum.try_send(add(1)).is_ok()).count();
    assert_eq!((0..5).filter(|_| sum.enqueue(add(1)).is_ok()).count(), 2);
    sum.try_own(|own| {
        assert_eq!(fill(), 0, "two wait already");
        for _ in 0..3 {
            assert_eq!(own.run_waiting(), 2);
            assert_eq!(fill(), 2);
        }
    })
    .unwrap();
    assert_eq!(sum.with(|sum| *sum).unwrap(), 8);
    assert_eq!((0..5).filter(|_| sum.enqueue(add(1)).is_ok()).count(), 2);
    sum.drain();
}

#[test]
fn those_who_wait_for_room_are_let_in_by_a_loop() {
    let sum = Actor::builder(0).capacity(1, Overflow::Reject).spawn().unwrap();
    let total: usize = if cfg!(miri) { 20 } else { 2_000 };
    let owned = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            owned.wait();
            (0..total).for_each(|_| sum.send_within(Limit::Unlimited, add(1)).unwrap());
        });
        sum.try_own(|own| {
            owned.wait();
            let mut ran = 0;
            while ran < total {
                ran += own.run_waiting();
                thread::yield_now();
            }
            assert_eq!(**own, total as u64);
        })
        .unwrap();
    });
}

#[test]
fn what_messages_of_a_loop_send_to_others_does_not_wait_for_its_end() {
    let (sum, other) = (Actor::new(0_u64), Actor::new(()));
    let (tx, rx) = channel();
    sum.enqueue(move |_| other.send(move |()| tx.send(()).unwrap()).unwrap()).unwrap();
    sum.try_own(|own| {
        own.run_waiting();
        rx.recv_timeout(Duration::from_secs(60)).expect("run elsewhere while the loop goes on");
    })
    .unwrap();
}

#[test]
fn an_executor_gets_what_is_left_beyond_the_budget_and_its_carrier_is_stale_meanwhile() {
    let queue = Arc::new(Mutex::new(VecDeque::<Drain>::new()));
    let inner = queue.clone();
    let run = || {
        let next = queue.lock().unwrap().pop_front();
        next.map(Drain::run).is_some()
    };
    let sum = Actor::builder(0).executor(move |drain| inner.lock().unwrap().push_back(drain)).budget(4).spawn().unwrap();
    (1..=10).for_each(|n| sum.send(add(n)).unwrap());
    sum.try_own(|own| {
        // The carrier of the first message, on a thread that has no turn of its own.
        assert!(thread::scope(|scope| scope.spawn(run).join().unwrap()));
        assert_eq!(**own, 0, "and it found nothing to take over");
    })
    .unwrap();
    assert_eq!(sum.len(), 6);
    assert!(run() && run());
    assert!(!run());
    assert_eq!(sum.with(|sum| *sum).unwrap(), 55);
}

#[test]
fn owners_and_senders_at_the_same_time_lose_nothing() {
    let per_thread: u64 = if cfg!(miri) { 20 } else { 2_000 };
    let refused = AtomicUsize::new(0);
    let alone = AtomicBool::new(false);
    let sum = Actor::new(0);
    thread::scope(|scope| {
        for thread in 0..6 {
            let (sum, alone, refused) = (&sum, &alone, &refused);
            scope.spawn(move || {
                for n in 0..per_thread {
                    match thread % 3 {
                        0 => sum.send(add(1)).unwrap(),
                        1 => sum.enqueue(add(1)).unwrap(),
                        _ => {
                            let owned = sum.try_own(|own| {
                                assert!(!alone.swap(true, SeqCst), "two owners");
                                **own += 1;
                                for _ in 0..n % 3 {
                                    own.run_waiting();
                                }
                                assert!(alone.swap(false, SeqCst));
                            });
                            if owned.is_err() {
                                refused.fetch_add(1, SeqCst);
                            }
                        }
                    }
                }
            });
        }
    });
    sum.drain();
    assert_eq!(sum.with(|sum| *sum).unwrap() + refused.load(SeqCst) as u64, 6 * per_thread);
}
