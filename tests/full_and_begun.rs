//! A full actor whose turn has begun and goes on. Alone in its process, because it builds the
//! global pool.

use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use turnwise::executor::Blocking;
use turnwise::{Actor, Overflow, Reason, ThreadPool};

#[test]
fn a_send_lets_go_of_a_turn_that_goes_on_within_the_budget() {
    ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build_global().unwrap();
    // Keeps the pool busy.
    let (started, is_busy) = mpsc::channel();
    let (free, wait) = mpsc::channel::<()>();
    let busy = Actor::new(());
    let hold = move |_: &mut ()| {
        started.send(()).unwrap();
        let _ = wait.recv();
    };
    busy.posted().send(hold).unwrap();
    is_busy.recv().unwrap();

    let actor = Actor::builder().capacity(1, Overflow::Reject).spawn(0).unwrap();
    let (kept, over) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(AtomicBool::new(false)));
    let (keeps, ends) = (kept.clone(), over.clone());
    let turn = actor.run(async move |_| {
        let mut first = true;
        let poll = poll_fn(|cx| {
            if std::mem::take(&mut first) {
                *keeps.lock().unwrap() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if ends.load(SeqCst) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        poll.await;
    });
    let waker = kept.lock().unwrap().take();
    waker.expect("it was polled").wake();
    actor.posted().send(|n| *n += 1).unwrap();

    let (said, told) = mpsc::channel();
    let sender = actor.clone();
    let sends = thread::spawn(move || {
        let sent = sender.send(|n| *n += 1);
        said.send(sent.map_err(|refused| refused.into_reason())).unwrap();
    });
    let sent = told.recv_timeout(Duration::from_secs(60));
    over.store(true, SeqCst);
    drop(free);
    sends.join().unwrap();
    assert_eq!(sent, Ok(Err(Reason::Full)), "it stays with the turn");
    turn.wait().unwrap();
}
