//! A turn that waits, and every other feature of the crate: what each does then.

mod common;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use std::task::{Poll, Waker};

use turnwise::{Actor, AskError, Reply, promise};

/// Polls it once with the waker of the turn, which is pending then.
async fn looks<R>(reply: &mut Reply<R>) {
    let mut looked = false;
    poll_fn(|cx| {
        assert!(!std::mem::replace(&mut looked, true));
        assert!(Pin::new(&mut *reply).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_question_that_was_dropped_keeps_no_waker() {
    // The other actor waits for this turn, so that the question is never begun before its end.
    let (other, n) = (Actor::new(0), Actor::new(0));
    let (go, gone) = promise::<()>();
    let busy = other.run(async move |_| {
        let _ = gone.await;
    });
    let asked = other.clone();
    let turn = n.run(async move |_| {
        let mut question = asked.call(|n| *n);
        looks(&mut question).await;
        drop(question);
        std::future::pending::<()>().await;
    });
    assert!(turn.is_ready(), "nobody is left who could wake it");
    assert_eq!(turn.wait(), Err(AskError::Abandoned));
    go.keep(());
    assert_eq!(busy.wait(), Ok(()));
}

/// Says when it is dropped.
#[derive(Clone, Debug)]
struct Told(Arc<()>);

#[test]
fn an_answer_that_nobody_takes_is_dropped_though_wakers_and_abort_handles_are_left() {
    for asker_leaves_first in [true, false] {
        let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
        let n = Actor::new(0);
        let (place, told) = (kept.clone(), Told(Arc::new(())));
        let answer = told.clone();
        let (go, gone) = promise::<()>();
        let (turn, _handle) = n.run_abortable(async move |_| {
            poll_fn(|cx| {
                place.lock().unwrap().push(cx.waker().clone());
                Poll::Ready(())
            })
            .await;
            let _ = gone.await;
            answer
        });
        if asker_leaves_first {
            drop(turn);
            go.keep(());
            n.wait_idle().unwrap();
        } else {
            go.keep(());
            n.wait_idle().unwrap();
            drop(turn);
        }
        assert_eq!(Arc::strong_count(&told.0), 1, "asker first: {asker_leaves_first}");
        assert_eq!(kept.lock().unwrap().len(), 1);
    }
}
