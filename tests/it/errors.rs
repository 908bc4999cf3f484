//! Errors: their texts, their sources, and the messages that they hand back.

use std::cell::Cell;
use std::error::Error;
use std::time::Duration;

use crate::common::{Held, quiet_panic};
use turnwise::{
    Actor, ActorName, AskError, BuildError, Context, Cycle, Handler, Overflow, Reason, Recipient,
    StopCause, System, WaitError,
};

fn panicked() -> StopCause {
    StopCause::Panicked("boom".into())
}

#[test]
fn every_error_says_what_happened() {
    let busy = Actor::new(0);
    let held = Held::hold(&busy);
    let cancelled = busy.call(|n| *n).within(Duration::ZERO).unwrap_err();
    held.let_go();
    let said: [(&dyn Error, &str); 23] = [
        (&StopCause::Requested, "stop was requested"),
        (&panicked(), "a turn panicked: boom"),
        (&StopCause::ExecutorGone, "its executor is gone"),
        (&Reason::Full, "the mailbox is full"),
        (&Reason::Closed, "the actor is closed"),
        (&Reason::Stopped(StopCause::Requested), "the actor has stopped: stop was requested"),
        (&Reason::Stopped(panicked()), "the actor has stopped: a turn panicked: boom"),
        (&Reason::Deadlock(Cycle::from(["a"])), "`a` waits for itself"),
        (
            &Reason::Deadlock(Cycle::from(["a", "b", "c"])),
            "`a` waits for `b`, which waits for `c`, which waits for `a`",
        ),
        (
            &Reason::WouldBlock,
            "this thread must not wait: no other one would take its place; await it",
        ),
        (&Reason::Busy, "the actor is busy"),
        (&Reason::HasExecutor, "the actor is run by its executor"),
        (&AskError::from(Reason::Full), "the mailbox is full"),
        (
            &AskError::from(Reason::Stopped(panicked())),
            "the actor has stopped: a turn panicked: boom",
        ),
        (&AskError::Panicked("boom".into()), "the message panicked: boom"),
        (&AskError::Abandoned(ActorName::ANY), "the promise or the turn was dropped"),
        (&AskError::Taken, "the answer was taken before"),
        (&BuildError::CapacityZero, "a mailbox needs a capacity of at least 1"),
        (
            &BuildError::CapacityTooLarge { asked: 70_000, largest: 32_765 },
            "a capacity of 70000 is over the limit of 32765 waiting messages",
        ),
        (&BuildError::BudgetZero, "a drain needs a budget of at least one turn, and some time"),
        (&BuildError::RestartTimeZero, "restarts need some time that they are limited within"),
        (&WaitError::<u32>::Ask(AskError::from(Reason::Closed)), "the actor is closed"),
        (&cancelled, "not started by `i32` in time: the message was cancelled and never runs"),
    ];
    for (error, text) in said {
        assert_eq!(error.to_string(), text);
        assert!(!format!("{error:?}").is_empty());
    }
    let deadlock = Reason::Deadlock(Cycle::from(["a"]));
    for reason in [Reason::Full, Reason::Closed, Reason::Stopped(panicked()), deadlock] {
        let asked = AskError::from(reason.clone());
        assert_eq!(asked.to_string(), reason.to_string());
        assert_eq!(asked, AskError::from(reason));
    }
}

#[test]
fn a_refused_message_says_why_without_being_printable() {
    let actor = Actor::new(0);
    actor.close();
    let refused = actor.send(|n| *n += 1).unwrap_err();
    assert_eq!(refused.to_string(), "message not accepted by `i32`: the actor is closed");
    assert_eq!(format!("{refused:?}"), "SendError { actor: \"i32\", reason: Closed, .. }");
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
    let waited = actor.call(|_| ()).wait_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(waited.source().unwrap().downcast_ref(), Some(&error));
    let reason = Reason::Stopped(panicked());
    assert_eq!(reason.source().unwrap().downcast_ref(), Some(&panicked()));
    let requested = Reason::Stopped(StopCause::Requested);
    assert!(requested.source().is_none() && AskError::from(requested).source().is_none());
    assert!(AskError::from(Reason::Full).source().is_none());
    assert!(AskError::Panicked("boom".into()).source().is_none());
}

#[test]
fn a_panic_without_a_text_has_one_all_the_same() {
    let actor = Actor::new(0);
    actor.send(|_| std::panic::resume_unwind(Box::new(7))).unwrap();
    assert_eq!(actor.stop_cause(), Some(StopCause::Panicked("a panic without a text".into())));
}

#[test]
fn the_payload_comes_back_whole() {
    impl Handler<String> for Text {
        type Reply = ();
        fn handle(&mut self, word: String, _: &mut Context<'_, Self>) {
            self.0.push_str(&word);
        }
    }
    struct Text(String);
    let builder = Actor::builder().capacity(1, Overflow::Reject);
    let actor = builder.spawn(Text(String::new())).unwrap();
    let held = Held::hold(&actor);
    actor.send(|_| ()).unwrap();
    let word = String::from("precious");
    let mut refused = actor.send(move |text: &mut Text| text.0.push_str(&word)).unwrap_err();
    assert_eq!(refused.reason(), &Reason::Full);
    assert_eq!(size_of_val(refused.message_mut()), size_of::<String>());
    let (message, reason) = refused.into_parts();
    assert_eq!(reason, Reason::Full);
    // A large one, in an allocation of its own.
    let large = [7_u8; 500];
    let large = move |text: &mut Text| text.0.push_str(&large.len().to_string());
    let large = actor.posted().send(large).unwrap_err().into_message();
    // Typed ones, sent, asked, and waiting for room.
    let mut told = actor.tell("told".into()).unwrap_err();
    told.message_mut().push('!');
    assert_eq!(told.into_message(), "told!");
    assert_eq!(actor.ask(String::from("asked")).cancel().unwrap(), "asked");
    let waited = actor.waiting().tell(String::from("waited")).within(Duration::ZERO);
    assert_eq!(waited.unwrap_err().into_message(), "waited");
    let waited = actor.waiting().ask(String::from("both")).within(Duration::ZERO);
    let Err(WaitError::Cancelled(withdrawn)) = waited else { panic!("{waited:?}") };
    assert_eq!(withdrawn.into_message(), "both");
    held.let_go();
    let mut elsewhere = Text(String::new());
    message(&mut elsewhere);
    large(&mut elsewhere);
    assert_eq!(elsewhere.0, "precious500");
    assert_eq!(actor.with(|text| text.0.clone()).unwrap(), "", "none of them was run");
}

/// A message that can be sent, but not shared.
struct Lonely(Cell<u32>);

impl Handler<Lonely> for Cell<u32> {
    type Reply = Cell<u32>;
    fn handle(&mut self, message: Lonely, _: &mut Context<'_, Self>) -> Cell<u32> {
        self.set(message.0.get());
        self.clone()
    }
}

type Anything = Box<dyn Error + Send + Sync>;

#[test]
fn every_error_goes_into_a_boxed_one() {
    let actor = Actor::builder().capacity(1, Overflow::Reject).spawn(Cell::new(0)).unwrap();
    let held = Held::hold(&actor);
    actor.send(|_| ()).unwrap();
    let message = |n| Lonely(Cell::new(n));
    let calls: [&dyn Fn() -> Result<(), Anything>; 12] = [
        &|| Ok(actor.tell(message(1))?),
        &|| Ok(actor.posted().tell(message(2))?),
        &|| Ok(actor.waiting().tell(message(3)).within(Duration::ZERO)?),
        &|| Ok(Recipient::new(&actor).tell(message(4))?),
        &|| Ok(_ = actor.ask(message(5)).wait()?),
        &|| Ok(_ = actor.ask(message(6)).wait_timeout(Duration::ZERO)?),
        &|| Ok(_ = actor.ask(message(7)).within(Duration::ZERO)?),
        &|| Ok(_ = actor.waiting().ask(message(8)).within(Duration::ZERO)?),
        &|| {
            let inner = message(9);
            Ok(actor.send(move |n| n.set(inner.0.get()))?)
        },
        &|| {
            let inner = message(10);
            Ok(actor.send_many([move |n: &mut Cell<u32>| n.set(inner.0.get())])?)
        },
        &|| {
            let inner = message(11);
            Ok(actor.waiting().send(move |n| n.set(inner.0.get())).within(Duration::ZERO)?)
        },
        &|| Ok(actor.with(|n| n.set(12))?),
    ];
    for (number, call) in calls.iter().enumerate() {
        let error = call().unwrap_err();
        let text = error.to_string();
        let cancelled = text.contains("cancelled and never runs");
        assert!(text.contains("full") != cancelled, "{number}: {text}");
    }
    held.let_go();
    assert_eq!(actor.with(|n| n.get()).unwrap(), 0);
    let closed = || -> Result<(), Anything> {
        actor.close();
        actor.tell(message(13))?;
        Ok(())
    };
    let text = "message not accepted by `core::cell::Cell<u32>`: the actor is closed";
    assert_eq!(closed().unwrap_err().to_string(), text);
}

#[test]
fn a_wait_that_timed_out_gives_the_reply_back() {
    let actor = Actor::new(3);
    let held = Held::hold(&actor);
    let error = actor.call(|n| *n).wait_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no answer from `i32` in time; the question is still waiting or running"
    );
    assert!(error.source().is_none());
    assert_eq!(format!("{error:?}"), "TimedOut(Reply { ready: false, .. })");
    held.let_go();
    let WaitError::TimedOut(reply) = error else { panic!("{error:?}") };
    assert_eq!(reply.wait(), Ok(3));
}

#[test]
fn a_system_says_why_it_takes_nobody_in() {
    let system = System::new();
    let none = Actor::builder().capacity(0, Overflow::Reject);
    let refused = system.spawn(none, ()).unwrap_err();
    assert_eq!(refused.to_string(), "a mailbox needs a capacity of at least 1");
    system.shutdown(Duration::ZERO).unwrap();
    let refused = system.actor(7).unwrap_err();
    assert_eq!(refused.to_string(), "the system has been shut down");
    assert!(refused.source().is_none());
}
