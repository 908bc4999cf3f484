//! Where two features meet: budgets and those who wait, hooks and budgets, stops and long lists, refused waits and hooks.

mod common;

use std::sync::{Arc, Mutex, mpsc};

use common::must_end;
use turnwise::executor::{Blocking, DrainQueue};
use turnwise::{Actor, Budget, ThreadPool};

/// The executor's only thread waits: what it drains meanwhile cannot be handed to the executor.
#[test]
fn a_caller_who_waits_is_not_let_go_by_a_renewed_budget() {
    must_end(|| {
        let queue = DrainQueue::new();
        let n = Actor::builder(0).executor(queue.handle()).spawn().unwrap();
        n.send(|_| assert!(!turnwise::renew(Budget::turns(1)), "nobody else could go on")).unwrap();
        for _ in 0..3 {
            n.send(|n| *n += 1).unwrap();
        }
        assert_eq!(n.with(|n| *n), Ok(3));
    });
}

#[test]
fn a_caller_who_waits_is_not_let_go_to_who_may_be_his_own_thread() {
    must_end(|| {
        let queue = DrainQueue::new();
        let n = Actor::builder(0).hand_off_to(queue.handle()).budget(2).spawn().unwrap();
        for _ in 0..5 {
            n.enqueue(|n| *n += 1).unwrap();
        }
        assert_eq!(n.with(|n| *n), Ok(5));
        for _ in 0..5 {
            n.enqueue(|n| *n += 1).unwrap();
        }
        let last = n.post(|n| *n += 1).map(|()| n.ask(|n| *n));
        assert_eq!(last.unwrap().wait(), Ok(11));
    });
}

#[test]
fn a_stop_from_inside_without_a_handle_left_is_seen_by_the_next_message() {
    let n = Actor::builder(0).budget(Budget::UNLIMITED).spawn().unwrap();
    let weak = n.downgrade();
    let (tell, told) = mpsc::channel();
    for i in 0..10 {
        let (tell, weak) = (tell.clone(), weak.clone());
        n.enqueue(move |_| {
            tell.send(i).unwrap();
            if i == 3 {
                assert!(weak.stop());
            }
        })
        .unwrap();
    }
    drop(tell);
    drop(n);
    assert_eq!(told.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn a_wait_that_is_refused_does_not_overtake_what_the_same_thread_has_sent() {
    must_end(|| {
        for observed in [false, true] {
            let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap();
            let host = Actor::builder(()).executor(pool.handle()).spawn().unwrap();
            let log = Arc::new(Mutex::new(Vec::new()));
            let other = Actor::builder(());
            let other = if observed { other.before_pass(|_| ()) } else { other }.spawn().unwrap();
            let (theirs, (tell, told)) = (log.clone(), mpsc::channel());
            host.send(move |_| {
                let inner = theirs.clone();
                other.send(move |_| inner.lock().unwrap().push("sent")).unwrap();
                let waited = other.with(|_| theirs.lock().unwrap().push("waited"));
                tell.send(waited).unwrap();
            })
            .unwrap();
            assert_eq!(told.recv().unwrap(), Ok(()));
            assert_eq!(*log.lock().unwrap(), ["sent", "waited"], "with hooks: {observed}");
        }
    });
}

#[test]
fn a_hook_that_renews_does_not_undo_a_hand_over() {
    let queue = DrainQueue::new();
    let builder = Actor::builder(0).executor(queue.handle()).budget(2);
    let n = builder.after_pass(|_, _| _ = turnwise::renew(Budget::turns(2))).spawn().unwrap();
    for _ in 0..100 {
        n.send(|n| *n += 1).unwrap();
    }
    assert_eq!(queue.run_until_idle(), 50, "two turns a drain");
    assert_eq!(n.with(|n| *n), Ok(100));
}
