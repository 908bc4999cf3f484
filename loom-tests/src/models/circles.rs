//! G1 to G4: turns that wait for each other. One of a circle is told, and nobody of none.

use super::super::error::{AskError, Cycle, Reason};
use super::*;
use crate::sync::reached;

/// A wait inside a turn; true if it was told of a circle.
fn told<R>(answer: Result<R, AskError>) -> Option<Cycle> {
    match answer {
        Ok(_) => None,
        Err(AskError::Refused(Reason::Deadlock(cycle), _)) => Some(cycle),
        Err(error) => panic!("{error}"),
    }
}

/// Two, whose names are `a` and `b`.
fn pair() -> [Shared; 2] {
    ["a", "b"].map(|name| Shared::built(|builder| builder.name(name)))
}

/// The same, with queues that main runs.
fn pair_by_hand() -> [Shared; 2] {
    ["a", "b"]
        .map(|name| Shared::falling_back(|builder| builder.name(name).budget(Budget::UNLIMITED)))
}

/// G2: two threads, each in a turn of one, that call the other. If both wait, the last is told.
pub(super) fn circle_of_two_threads() {
    let [a, b] = pair();
    let (there, back) = (b.clone(), a.clone());
    let thread = spawn(move || {
        let first = there.actor.clone();
        let cycle = told(first.with(|_| told(back.actor.with(|_| ()))));
        assert!(cycle.is_none());
    });
    let inside = b.actor.clone();
    let cycle = a.actor.with(|_| told(inside.with(|_| ()))).expect("nobody stops it");
    if let Some(cycle) = cycle {
        assert_eq!(cycle.actors(), ["a", "b"]);
        reached("told");
    }
    thread.join();
    drop(inside);
    a.finish();
    b.finish();
}

/// The same by questions, of which the first has been told before it is put the second time.
pub(super) fn circle_of_two_questions() {
    let [a, b] = pair();
    let (there, back) = (b.clone(), a.clone());
    let thread = spawn(move || {
        let first = there.actor.clone();
        let _ = first.with(|_| {
            if told(back.actor.call(|_| ()).wait()).is_some() {
                reached("the other was told");
            }
        });
    });
    let inside = b.actor.clone();
    let _ = a.actor.with(|_| {
        if told(inside.call(|_| ()).wait()).is_some() {
            reached("was told");
        }
    });
    thread.join();
    drop(inside);
    a.finish();
    b.finish();
}

/// G3: a closure that was lent has begun, and waits for its lender: that wait is told, whichever is
/// the last.
pub(super) fn circle_with_a_loan_that_has_begun() {
    let [a, b] = pair();
    let (lender, there) = (a.actor.clone(), b.actor.clone());
    let thread = spawn(move || {
        let back = lender.clone();
        let inner = lender.with(|_| there.with(|_| told(back.call(|_| ()).wait())));
        let inner = inner.expect("nobody stops it").expect("a loan that has begun is waited for");
        let cycle = inner.expect("it waits for its lender");
        assert_eq!(cycle.actors(), ["b", "a"]);
    });
    assert!(b.actor.with(|_| ()).is_ok());
    thread.join();
    a.finish();
    b.finish();
}

/// G2: what was answered is no wait, though whoever waited has not woken up.
pub(super) fn circle_of_what_is_over() {
    let [a, b] = pair();
    let (asker, asked) = (a.actor.clone(), b.actor.clone());
    let thread = spawn(move || {
        let (again, back) = (asked.clone(), asker.clone());
        let turn = asker.with(move |_| {
            let question = asked.call(move |_| {
                // In its mailbox, behind the question: it begins when that has been answered.
                let later = again.call(move |_| {
                    assert!(told(back.with(|_| ())).is_none(), "told of what is over");
                });
                drop(later);
            });
            told(question.wait())
        });
        assert!(turn.expect("nobody stops it").is_none());
    });
    assert!(b.actor.with(|_| ()).is_ok());
    thread.join();
    b.actor.idle().wait().expect("this thread is in no turn");
    a.finish();
    b.finish();
}

/// A turn that waits, and a thread in a turn: if both wait, the last is told.
pub(super) fn circle_of_a_turn_that_waits() {
    let [a, b] = pair_by_hand();
    let (there, back) = (b.clone(), a.clone());
    let thread = spawn(move || {
        let first = there.actor.clone();
        let cycle = first.with(|_| told(back.actor.call(|_| ()).wait()));
        if cycle.expect("nobody stops it").is_some() {
            reached("the thread was told");
        }
        back.queue().run_all();
        there.queue().run_all();
    });
    let asked = b.actor.clone();
    let turn = a.actor.run(async move |_: &mut Log| told(asked.call(|_| ()).await));
    a.queue().run_all();
    b.queue().run_all();
    thread.join();
    a.queue().run_all();
    b.queue().run_all();
    a.queue().run_all();
    if turn.wait().expect("nobody cuts it").is_some() {
        reached("the turn was told");
    }
    a.finish();
    b.finish();
}

/// G3: the last wait is that of a loan that has begun; the turn that waits for its lender is told.
pub(super) fn circle_tells_a_turn_that_waits() {
    let [a, b] = pair_by_hand();
    let (there, back) = (b.clone(), a.clone());
    // Its closure begins a turn of `b` that waits for `a`, and is a turn of its own.
    let thread = spawn(move || {
        let asked = back.actor.clone();
        let turn = there.actor.run(async move |_: &mut Log| told(asked.call(|_| ()).await));
        there.queue().run_all();
        back.queue().run_all();
        there.queue().run_all();
        drop(turn);
    });
    let inside = b.actor.clone();
    let cycle = a.actor.with(|_| told(inside.with(|_| ()))).expect("nobody stops it");
    if cycle.is_some() {
        reached("the thread was told");
    }
    thread.join();
    drop(inside);
    for _ in 0..2 {
        a.queue().run_all();
        b.queue().run_all();
    }
    a.finish();
    b.finish();
}
