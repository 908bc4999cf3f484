//! Waits for room that are given up, with messages whose drop panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread;

use crate::common::{must_end, quiet_panic};
use turnwise::{Actor, Overflow};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        quiet_panic("planned");
    }
}

#[test]
fn the_last_handle_does_not_go_as_such_a_drop_unwinds() {
    must_end(|| {
        let unwinds = Arc::new(AtomicUsize::new(0));
        let counts = unwinds.clone();
        let n = Actor::builder().capacity(1, Overflow::Reject).spawn(0).unwrap();
        let (let_go, gone) = mpsc::channel::<()>();
        let (begun, here) = mpsc::channel();
        // It is pending on the list of a thread that is busy.
        let theirs = n.clone();
        let busy = thread::spawn(move || {
            let turn = move |_: &mut ()| {
                let counts = counts.clone();
                let run = move |_: &mut i32| {
                    counts.fetch_add(1 + usize::from(thread::panicking()), SeqCst);
                };
                theirs.send(run).unwrap();
                drop(theirs);
                begun.send(()).unwrap();
                let _ = gone.recv();
            };
            Actor::new(()).with(turn).unwrap();
        });
        here.recv().unwrap();
        let bomb = Bomb;
        // A sender that is inside a turn does not run what it finds pending.
        let (put, got) = mpsc::channel();
        let theirs = n.clone();
        Actor::new(())
            .with(move |()| {
                let sending = theirs.waiting().send(move |_| {
                    let _bomb = bomb;
                });
                drop(theirs);
                put.send(sending).unwrap();
            })
            .unwrap();
        let sending = got.recv().unwrap();
        drop(n);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(sending))).is_err());
        let seen = unwinds.load(SeqCst);
        drop(let_go);
        busy.join().unwrap();
        assert!(seen < 2, "it ran as the thread was unwinding");
    });
}
