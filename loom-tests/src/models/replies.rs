//! MAILBOX-5: the oneshot. Its two sides start, cancel, answer, wait and leave in any order.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::super::actor::promise;
use super::super::error::AskError;
use super::super::mailbox::oneshot::{Answerer, Asker, Promised, Question, oneshot};
use super::super::send::wait::poll_for;
use super::super::time::Limit;
use super::super::wait_list::Waiter;
use super::room::wait_for;
use super::*;
use crate::sync::reached;
use crate::sync::thread::{current, park};

/// Request and answer, each with a track.
type Answer = Track<u32>;

/// A request: it is tracked, and returned if it is cancelled.
struct Asked(Track<u32>);

impl Question for Asked {
    type Payload = Track<u32>;
    fn payload(self) -> Track<u32> {
        self.0
    }
}

fn question() -> Asked {
    Asked(Track::new(1))
}

/// Does a drainer's steps with a cell.
fn answer(answerer: Answerer<Asked, Answer>) {
    // A hint, which decides nothing.
    let cancelled = answerer.is_cancelled();
    match answerer.start() {
        Some(_) if cancelled => panic!("started after it was cancelled"),
        Some((Asked(track), accepted)) => {
            accepted.finish(Ok(Track::new(track.get_ref() + 1)));
        }
        None => {}
    }
}

fn drainer(answerer: Answerer<Asked, Answer>) -> Joiner {
    spawn(move || answer(answerer))
}

fn check(answer: Option<Result<Answer, AskError>>) {
    let answer = answer.expect("it is there").expect("it was answered");
    assert_eq!(*answer.get_ref(), 2);
}

/// ONESHOT-1: cancel against start; only the winner has the request. LEAVE: either side may be the
/// last.
pub(super) fn r5_cancel_or_start() {
    let (answerer, mut asker) = oneshot(question());
    let thread = drainer(answerer);
    if asker.cancel().is_some() {
        assert!(asker.take().is_none(), "answered after it was cancelled");
    }
    drop(asker);
    thread.join();
}

/// ONESHOT-1, of a promise: a claim against a cancel. A claimed promise is not cancelled any more,
/// and its claimer answers; a canceller sees no effect of a claim.
pub(super) fn r5_claimed_or_cancelled() {
    let (mut promise, reply) = promise::<Answer>();
    let effect = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let done = effect.clone();
    let thread = spawn(move || {
        if promise.claim() {
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(!promise.is_cancelled() && promise.claim());
            promise.keep(Track::new(2));
        }
    });
    match reply.cancel() {
        Ok(()) => {
            reached("cancelled");
            thread.join();
            assert!(!effect.load(std::sync::atomic::Ordering::Relaxed), "claimed and cancelled");
        }
        Err(mut reply) => {
            reached("claimed");
            check(reply.wait_by_ref(Limit::Unlimited).transpose());
            thread.join();
        }
    }
}

/// ONESHOT-1, of a promise that is kept without a claim: against a cancel. The answer is there at
/// once, or comes back.
pub(super) fn r5_kept_or_cancelled() {
    let (promise, reply) = promise::<Answer>();
    let back = Arc::new(AtomicBool::new(false));
    let came = back.clone();
    let thread = spawn(move || {
        if let Err(answer) = promise.try_keep(Track::new(2)) {
            assert_eq!(*answer.get_ref(), 2);
            came.store(true, Ordering::Relaxed);
        }
    });
    let cancelled = match reply.cancel() {
        Ok(()) => {
            reached("cancelled");
            true
        }
        Err(mut reply) => {
            reached("kept");
            check(reply.wait_by_ref(Limit::Immediate).transpose());
            false
        }
    };
    thread.join();
    assert_eq!(back.load(Ordering::Relaxed), cancelled, "kept and cancelled, or neither");
}

/// ANSWER, WAITER, LEAVE, of a promise: it is kept while its asker begins to wait and leaves.
pub(super) fn r5_kept_awaited() {
    let (promise, mut reply) = promise::<Answer>();
    let thread = spawn(move || promise.keep(Track::new(2)));
    check(reply.wait_by_ref(Limit::Unlimited).transpose());
    drop(reply);
    thread.join();
}

/// LEAVE, ONESHOT-2, of a promise: it is kept while its asker leaves.
pub(super) fn r5_kept_unheard() {
    let (promise, reply) = promise::<Answer>();
    let thread = spawn(move || promise.keep(Track::new(2)));
    drop(reply);
    thread.join();
}

/// LEAVE: the asker's side is dropped against start and finish.
pub(super) fn r5_asker_leaves() {
    let (answerer, asker) = oneshot(question());
    let thread = drainer(answerer);
    drop(asker);
    thread.join();
}

/// LEAVE, ONESHOT-2: an answer without an asker is dropped when it comes and the asker has left,
/// although the drainer keeps the cell; so is the waiter.
pub(super) fn r5_unclaimed() {
    use std::sync::atomic::Ordering::Relaxed;
    struct Gone(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let gone = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let answer = Gone(gone.clone());
    let (answerer, mut asker) = oneshot::<_, Gone>(Promised);
    let kept = Arc::new(answerer);
    let gives = kept.clone();
    let thread = spawn(move || {
        assert!(gives.accept(), "it is not cancelled");
        // SAFETY: it was won just now, and is answered once.
        unsafe { gives.answer(Ok(answer)) };
    });
    let _ = asker.watch(Waiter::Thread(current()));
    drop(asker);
    thread.join();
    assert!(gone.load(Relaxed), "an answer that is not taken stays");
    drop(Arc::into_inner(kept).expect("the thread is gone"));
}

/// ANSWER, by a look: a thread that sees that it is done sees the answer.
pub(super) fn r5_answer_seen() {
    let (answerer, mut asker) = oneshot(question());
    let thread = drainer(answerer);
    if asker.is_done() {
        check(asker.take());
    }
    drop(asker);
    thread.join();
}

/// ANSWER and WAITER: the asker sleeps, and is woken.
pub(super) fn r5_answer_awaited() {
    let (answerer, mut asker) = oneshot(question());
    let thread = drainer(answerer);
    if asker.watch(Waiter::Thread(current())) {
        while !asker.is_done() {
            park();
        }
    }
    check(asker.take());
    drop(asker);
    thread.join();
}

/// WAITER: an asker that will be woken need not look before it sleeps.
pub(super) fn r5_woken() {
    let (answerer, mut asker) = oneshot(question());
    let thread = drainer(answerer);
    if asker.watch(Waiter::Thread(current())) {
        park();
    }
    check(asker.take());
    drop(asker);
    thread.join();
}

/// A task that has to wait is woken: an answer that comes between its look and its registration is
/// found.
pub(super) fn r5_polled() {
    let (answerer, mut asker) = oneshot(question());
    let thread = drainer(answerer);
    check(Some(wait_for(poll_fn(|cx| poll_for(&mut asker, cx)))));
    drop(asker);
    thread.join();
}

/// ONESHOT-3: a second waiter replaces the first while the answer comes.
pub(super) fn r5_waiter_replaced() {
    let (answerer, mut asker) = oneshot(question());
    let thread = drainer(answerer);
    let _ = asker.watch(Waiter::Task(Waker::noop().clone()));
    if asker.watch(Waiter::Thread(current())) {
        while !asker.is_done() {
            park();
        }
    }
    check(asker.take());
    drop(asker);
    thread.join();
}

/// ONESHOT-3: a waiter that comes too late is dropped by its asker, in the call, and by no thread
/// later: its drop is user code.
pub(super) fn r5_late_waiter() {
    struct Late(Arc<AtomicBool>);
    impl Wake for Late {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Late {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (answerer, mut asker) = oneshot(question());
    let thread = drainer(answerer);
    let gone = Arc::new(AtomicBool::new(false));
    let waker = Waker::from(Arc::new(Late(gone.clone())));
    if asker.watch(Waiter::Task(waker)) {
        reached("in time");
    } else {
        reached("too late");
        assert!(gone.load(Ordering::Relaxed), "it stays in the cell");
    }
    drop(asker);
    thread.join();
    assert!(gone.load(Ordering::Relaxed));
}

/// A request that was not accepted is taken back out of its cell.
pub(super) fn r5_taken_back() {
    let (answerer, asker): (_, Asker<Answer, _>) = oneshot(question());
    assert_eq!(*answerer.take_back(asker).0.get_ref(), 1);
}

/// The whole way: requests through the mailbox, waited for, cancelled, or left alone.
pub(super) fn r5_questions() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        let track = Track::new(());
        let reply = shared.actor.call(move |log| {
            let _track = &track;
            log.last[3] += 1;
            Track::new(log.last[3])
        });
        assert!(*reply.wait().expect("an answer").get_ref() > 0);
    });
    let track = Track::new(());
    let reply = shared.actor.call(move |log| {
        let _track = &track;
        log.last[3] += 1;
    });
    let _ = reply.cancel();
    thread.join();
    shared.finish();
}
