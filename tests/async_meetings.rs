//! A turn that waits, and every other feature of the crate: what each does then.

mod common;

use std::future::{Future, poll_fn};
use std::pin::Pin;

use std::task::Poll;

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
