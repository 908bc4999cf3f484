//! Errors: what they say, what they are caused by, and what they hand back.

mod common;

use std::error::Error;
use std::time::Duration;

use common::{Held, quiet_panic};
use turnwise::{Actor, AskError, BuildError, Overflow, Reason, StopCause, WaitError};

fn panicked() -> StopCause {
    StopCause::Panicked("boom".into())
}

#[test]
fn every_error_says_what_happened() {
    let said: [(&dyn Error, &str); 12] = [
        (&StopCause::Requested, "stop was requested"),
        (&panicked(), "a turn panicked: boom"),
        (&StopCause::ExecutorGone, "its executor is gone"),
        (&AskError::Full, "the mailbox is full"),
        (&AskError::Closed, "the actor is closed"),
        (&AskError::Stopped(StopCause::Requested), "the actor has stopped: stop was requested"),
        (&AskError::Stopped(panicked()), "the actor has stopped: a turn panicked: boom"),
        (&AskError::Panicked("boom".into()), "the message panicked: boom"),
        (&AskError::Deadlock, "an actor waited for itself"),
        (&BuildError::CapacityZero, "a mailbox needs a capacity of at least 1"),
        (
            &BuildError::CapacityTooLarge { asked: 70_000, largest: 65_533 },
            "a capacity of 70000 is over the limit of 65533 waiting messages",
        ),
        (&WaitError::<u32>::Ask(AskError::Closed), "the actor is closed"),
    ];
    for (error, text) in said {
        assert_eq!(error.to_string(), text);
        assert!(!format!("{error:?}").is_empty());
    }
    assert_eq!(Reason::Full.to_string(), AskError::Full.to_string());
    assert_eq!(Reason::Closed.to_string(), AskError::Closed.to_string());
    assert_eq!(Reason::Stopped(panicked()).to_string(), AskError::Stopped(panicked()).to_string());
}

#[test]
fn a_refused_message_says_why_without_being_printable() {
    let actor = Actor::new(0);
    actor.close();
    let refused = actor.send(|n| *n += 1).unwrap_err();
    assert_eq!(refused.to_string(), "message not accepted: the actor is closed");
    assert_eq!(format!("{refused:?}"), "SendError { reason: Closed, .. }");
    assert!(refused.source().is_none());
    let boxed: Box<dyn Error + Send + Sync> = refused.into();
    assert!(boxed.to_string().contains("closed"));
}

#[test]
fn the_panic_that_stopped_an_actor_is_the_source() {
    let actor = Actor::new(0);
    actor.send(|_| quiet_panic("boom")).unwrap();
    let refused = actor.send(|_| ()).unwrap_err();
    assert_eq!(refused.source().unwrap().downcast_ref(), Some(&panicked()));
    let error = actor.with(|_| ()).unwrap_err();
    assert_eq!(error.source().unwrap().downcast_ref(), Some(&panicked()));
    assert!(error.source().unwrap().source().is_none());
    let waited = actor.ask(|_| ()).wait_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(waited.source().unwrap().downcast_ref(), Some(&error));
    assert!(AskError::Stopped(StopCause::Requested).source().is_none());
    assert!(AskError::Full.source().is_none());
}

#[test]
fn a_panic_without_a_text_has_one_all_the_same() {
    let actor = Actor::new(0);
    actor.send(|_| std::panic::resume_unwind(Box::new(7))).unwrap();
    assert_eq!(actor.stop_cause(), Some(StopCause::Panicked("a panic without a text".into())));
}

#[test]
fn the_payload_comes_back_whole() {
    let actor = Actor::builder(String::new()).capacity(1, Overflow::Reject).spawn().unwrap();
    let held = Held::hold(&actor);
    actor.send(|_| ()).unwrap();
    let word = String::from("precious");
    let refused = actor.send(move |text: &mut String| text.push_str(&word)).unwrap_err();
    assert_eq!(refused.reason(), &Reason::Full);
    assert_eq!(size_of_val(refused.message()), size_of::<String>());
    let (message, reason) = refused.into_parts();
    assert_eq!(reason, Reason::Full);
    // A large one, in an allocation of its own, and a question in its cell.
    let large = [7_u8; 500];
    let large = actor.enqueue(move |text: &mut String| text.push_str(&large.len().to_string())).unwrap_err().into_message();
    let word = String::from(" question");
    let question = actor.try_ask(move |text: &mut String| text.push_str(&word)).unwrap_err().into_message();
    held.let_go();
    let mut elsewhere = String::new();
    message(&mut elsewhere);
    large(&mut elsewhere);
    question(&mut elsewhere);
    assert_eq!(elsewhere, "precious500 question");
}

#[test]
fn a_wait_that_timed_out_says_so_and_gives_the_reply_back() {
    let actor = Actor::new(3);
    let held = Held::hold(&actor);
    let error = actor.ask(|n| *n).wait_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "no answer in time; the question is still waiting or running");
    assert!(error.source().is_none());
    assert_eq!(format!("{error:?}"), "TimedOut(Reply { ready: false, .. })");
    held.let_go();
    let WaitError::TimedOut(reply) = error else { panic!("{error:?}") };
    assert_eq!(reply.wait(), Ok(3));
}
