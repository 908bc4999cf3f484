//! With the feature `tracing`: one event for each failure, with the actor's name, and never with
//! the content of a message.

use std::fmt::{self, Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::child::in_child;
use crate::common::{in_turn, queued, quiet_panic};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{
    Actor, Context, Handler, Limit, Overflow, PanicPolicy, Reason, Restarts, VirtualClock, promise,
};

/// Records events, and then runs an action.
struct Listener {
    heard: Arc<Mutex<Vec<String>>>,
    then: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "turnwise"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.heard.lock().unwrap().push(line.0.clone());
        (self.then)(&line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Returns the events of this thread during `f`.
fn heard(then: impl Fn(&str) + Send + Sync + 'static, f: impl FnOnce()) -> Vec<String> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Listener { heard: heard.clone(), then: Box::new(then) };
    tracing::subscriber::with_default(listener, f);
    let mut heard = heard.lock().unwrap();
    std::mem::take(&mut *heard)
}

/// A message whose `Debug` shows its content.
#[derive(Debug)]
struct Secret(&'static str);

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

struct Till;

impl Handler<Secret> for Till {
    type Reply = usize;
    fn handle(&mut self, secret: Secret, _: &mut Context<'_, Self>) -> usize {
        if secret.0.is_empty() {
            quiet_panic("jammed");
        }
        secret.0.len()
    }
}

const PIN: Secret = Secret("4711");

#[test]
fn each_failure_is_an_event_with_the_name() {
    let said = heard(
        |_| (),
        || {
            let builder = Actor::builder().name("till").panic_policy(PanicPolicy::Resume);
            let goes_on = builder.spawn(Till).unwrap();
            goes_on.tell(PIN).unwrap();
            goes_on.tell(Secret("")).unwrap();
            goes_on.close();
            assert!(goes_on.tell(PIN).is_err());
            assert!(goes_on.ask(PIN).wait().is_err());
        },
    );
    assert_eq!(
        said,
        [
            "ERROR message=a turn panicked: jammed actor=\"till\" goes_on=true",
            "DEBUG message=not accepted: the actor is closed actor=\"till\" messages=1",
            "DEBUG message=not accepted: the actor is closed actor=\"till\" messages=1",
        ]
    );
    let said = heard(
        |_| (),
        || {
            let queue = DrainQueue::new();
            let builder = Actor::builder().executor(queue.handle()).budget(2);
            let actor = builder.capacity(3, Overflow::DropNewest).spawn(Till).unwrap();
            (0..4).for_each(|_| actor.tell(PIN).unwrap());
            queue.run_one();
            actor.tell(Secret("")).unwrap();
            queue.run_until_idle();
            actor.stop();
            let stopped = Actor::new(0);
            stopped.stop();
        },
    );
    let till = "actor=\"traced::events::Till\"";
    let lost = "message discarded: accepted, not handled, with no hook or asker to go to";
    assert_eq!(
        said,
        [
            format!("WARN message={lost} {till}"),
            format!("TRACE message=budget spent: the rest goes to the executor {till}"),
            format!("ERROR message=a turn panicked: jammed {till} goes_on=false"),
            format!(
                "WARN message=actor stopped: a turn panicked in `traced::events::Till`: jammed {till}"
            ),
            String::from("WARN message=actor stopped: stop was requested actor=\"i32\""),
        ]
    );
    assert!(said.iter().all(|line| !line.contains(PIN.0)));
}

#[test]
fn a_listener_may_do_what_it_likes() {
    let said = heard(
        |_| quiet_panic("in the listener"),
        || {
            let (queue, actor) = queued(Till);
            (0..3).for_each(|_| actor.tell(PIN).unwrap());
            actor.tell(Secret("")).unwrap();
            (0..3).for_each(|_| actor.tell(PIN).unwrap());
            queue.run_until_idle();
            assert_eq!((actor.snapshot().discarded, actor.is_idle()), (3, true));
            assert!(matches!(actor.tell(PIN).unwrap_err().reason(), Reason::Stopped(_)));
            in_turn(|| assert!(Actor::new(Till).tell(Secret("")).is_ok()));
        },
    );
    // A panic, a stop, three lost messages, one refused; a panic, a stop.
    assert_eq!(said.len(), 8, "{said:?}");
    // It sends to the very actor of the event.
    let actor = Actor::builder().name("busy").panic_policy(PanicPolicy::Resume).spawn(0).unwrap();
    let itself = actor.clone();
    let told = move || {
        assert!(itself.with(|_| ()).is_err(), "a deadlock");
        itself.send(|n| *n += 1).unwrap();
    };
    let told = move |line: &str| {
        if line.starts_with("ERROR") {
            told();
        }
    };
    let said = heard(told, || actor.send(|_| quiet_panic("once")).unwrap());
    // Events that the listener itself causes are not delivered to it, thanks to `tracing`.
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(actor.with(|n| *n), Ok(1));
}

/// Returns the events of this thread during `f` about the actor that `f` names "till".
fn said(f: impl FnOnce()) -> Vec<String> {
    let said = heard(|_| (), f);
    let of_till = |line: &String| line.contains("actor=\"till\"");
    assert!(said.iter().all(of_till), "{said:?}");
    said.iter().map(|line| line.replace(" actor=\"till\"", "")).collect()
}

#[test]
fn each_refusal_is_one_event_whichever_way_it_was_asked() {
    let closed = Actor::builder().name("till").spawn(Till).unwrap();
    closed.close();
    let once = |message: u64| {
        [format!("DEBUG message=not accepted: the actor is closed messages={message}")]
    };
    type Way = fn(&Actor<Till>);
    let ways: [Way; 12] = [
        |till| assert!(till.send(|_| ()).is_err()),
        |till| assert!(till.call(|_| ()).wait().is_err()),
        |till| assert!(till.with(|_| ()).is_err()),
        |till| assert!(till.try_with(|_| ()).is_err()),
        |till| in_turn(|| assert!(till.with(|_| ()).is_err())),
        |till| in_turn(|| assert!(till.send(|_| ()).is_err())),
        |till| assert!(till.posted().send(|_| ()).is_err()),
        |till| assert!(till.posted().call(|_| ()).wait().is_err()),
        |till| assert!(till.run(async |_| ()).wait().is_err()),
        |till| assert!(till.waiting().send(|_| ()).wait().is_err()),
        |till| assert!(till.waiting().call(|_| ()).wait().is_err()),
        |till| assert!(till.waiting().run(async |_| ()).wait().is_err()),
    ];
    for way in ways {
        assert_eq!(said(|| way(&closed)), once(1));
    }
    let many = || assert!(closed.send_many([(); 2].map(|()| |_: &mut Till| ())).is_err());
    assert_eq!(said(many), once(2));
    // Waiters for room are refused when the actor is closed.
    let queue = DrainQueue::new();
    let full = Actor::builder().name("till").executor(queue.handle());
    let full = full.capacity(1, Overflow::Reject).spawn(Till).unwrap();
    full.send(|_| ()).unwrap();
    let (sending, asking) = (full.waiting().send(|_| ()), full.waiting().call(|_| ()));
    full.close();
    let both = said(|| {
        assert!(sending.wait().is_err());
        assert!(asking.wait().is_err());
    });
    assert_eq!(both, [once(1), once(1)].concat());
}

#[test]
fn each_wait_that_closes_a_circle_is_a_warning() {
    let till = Actor::builder().name("till").spawn(Till).unwrap();
    type Way = fn(&Actor<Till>) -> bool;
    let ways: [(&str, Way); 3] = [
        ("not accepted", |till| till.with(|_| ()).is_err()),
        ("question withdrawn", |till| till.call(|_| ()).wait().is_err()),
        ("question withdrawn", |till| till.run(async |_| ()).wait().is_err()),
    ];
    for (what, way) in ways {
        let itself = till.clone();
        let said = said(|| assert_eq!(till.with(move |_| way(&itself)), Ok(true)));
        let [line] = &said[..] else { panic!("{said:?}") };
        assert!(line.starts_with(&format!("WARN message={what}: ")), "{line}");
        assert!(line.contains("`till`"), "{line}");
    }
    // A look does not wait, so it is no circle.
    let itself = till.clone();
    let look = move |_: &mut Till| itself.call(|_| ()).wait_by_ref(Limit::Immediate).is_ok();
    assert_eq!(said(|| assert_eq!(till.with(look), Ok(true))), [""; 0]);
}

#[test]
fn turns_that_wait_and_hooks_fail_with_one_event_each() {
    let turn = "ERROR message=a turn panicked:";
    let queue = DrainQueue::new();
    let late = said(|| {
        let builder = Actor::builder().name("till").executor(queue.handle());
        let till = builder.panic_policy(PanicPolicy::Resume).spawn(Till).unwrap();
        let (go, gone) = promise::<()>();
        let late = till.run(async move |_| {
            let _ = gone.await;
            quiet_panic("late")
        });
        let _: &turnwise::Reply<()> = &late;
        queue.run_until_idle();
        go.keep(());
        queue.run_until_idle();
        assert!(late.wait().is_err());
    });
    assert_eq!(late, [format!("{turn} late goes_on=true")]);
    let hook = said(|| {
        let builder = Actor::builder().name("till").on_batch_end(|_, _| quiet_panic("at the end"));
        let till = builder.panic_policy(PanicPolicy::Resume).spawn(Till).unwrap();
        till.send(|_| ()).unwrap();
        till.try_with(|_| ()).unwrap();
    });
    assert_eq!(hook, [format!("{turn} at the end goes_on=true"), hook[0].clone()]);
    // An executor that ends while a turn waits: the actor stops, and waiting messages are
    // discarded.
    let gone = said(|| {
        let queue = DrainQueue::new();
        let till = Actor::builder().name("till").executor(queue.handle()).spawn(Till).unwrap();
        let (_go, gone) = promise::<()>();
        let turn = till.run(async move |_| _ = gone.await);
        till.tell(PIN).unwrap();
        queue.run_until_idle();
        drop(queue);
        assert!(turn.wait().is_err());
        till.ended().wait().unwrap();
    });
    assert_eq!(
        gone,
        [
            "WARN message=actor stopped: its executor is gone",
            "WARN message=message discarded: accepted, not handled, with no hook or asker to go to",
        ]
    );
}

#[test]
fn a_factory_that_panics_is_an_event_of_its_own() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let second = Duration::from_secs(1);
    let restarts = Restarts::at_most(1, 60 * second).backoff(second, second);
    let said = said(|| {
        let queue = DrainQueue::new();
        let builder = Actor::builder().name("till").executor(queue.handle());
        let policy = PanicPolicy::restart_within(restarts, || quiet_panic("no till"));
        let till = builder.timers(timers.clone()).panic_policy(policy).spawn(Till).unwrap();
        till.tell(Secret("")).unwrap();
        queue.run_until_idle();
        clock.advance(second);
        timers.run_due();
        queue.run_until_idle();
        assert!(till.is_closed());
    });
    assert_eq!(said[0], "ERROR message=a turn panicked: jammed goes_on=true");
    assert_eq!(said[1], "ERROR message=a turn panicked: no till goes_on=false");
    assert!(said[2].starts_with("WARN message=actor stopped: "), "{said:?}");
    assert_eq!(said.len(), 3, "{said:?}");
}

/// Sends the lines of all events to an actor.
struct ToActor(Actor<Vec<String>>);

impl Subscriber for ToActor {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        // Refused once the log is closed, which is an event, too.
        let _ = self.0.send(move |lines| lines.push(line.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The acts of a subscriber cause no further events, so it may send to an actor that has ended. The
/// subscriber of a whole process has no guard of its own against that.
#[test]
fn a_subscriber_is_not_called_for_what_it_does_itself() {
    let limit = Duration::from_secs(60);
    in_child("a_subscriber_is_not_called_for_what_it_does_itself", limit, || {
        let log = Actor::builder().name("log").spawn(Vec::new()).unwrap();
        tracing::subscriber::set_global_default(ToActor(log.clone())).unwrap();
        tracing::info!("one line");
        assert_eq!(log.with(|lines| lines.len()), Ok(1));
        assert!(log.close());
        tracing::info!("after the end");
        // An event of the program, and of the actor: each comes once.
        assert!(Actor::new(()).send(|()| quiet_panic("said once")).is_ok());
    });
}
