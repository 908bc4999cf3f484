//! `?`: every error goes into `anyhow::Error` and into a boxed one, whatever the message was.

use std::cell::Cell;
use std::error::Error;
use std::time::Duration;

use crate::common::Held;
use turnwise::time::Every;
use turnwise::{
    Actor, AskError, Context, Handler, Limit, Overflow, PanicPolicy, Reason, Recipient, System,
    ThreadPool, WaitError, promise,
};

type Boxed = Result<(), Box<dyn Error + Send + Sync>>;

/// A message, an answer, and a state: sent, but not shared, and without `Debug`.
struct Lonely(Cell<u32>);

impl Handler<Lonely> for Lonely {
    type Reply = Lonely;
    fn handle(&mut self, message: Lonely, _: &mut Context<'_, Self>) -> Lonely {
        Lonely(Cell::new(self.0.replace(message.0.get())))
    }
}

fn lonely(n: u32) -> Lonely {
    Lonely(Cell::new(n))
}

/// An actor that is full, and held.
fn full() -> (Actor<Lonely>, Held) {
    let builder = Actor::builder().name("till").capacity(1, Overflow::Reject);
    let actor = builder.spawn(lonely(0)).unwrap();
    let held = Held::hold(&actor);
    actor.send(|_| ()).unwrap();
    (actor, held)
}

/// Every call that returns a `Result`, with a value that cannot be shared in its error.
macro_rules! calls {
    ($($name:ident: |$actor:ident| $call:expr, $says:literal;)*) => {
        /// In functions that return `anyhow::Result`.
        mod in_anyhow {
            use super::*;
            $(pub(super) fn $name($actor: &Actor<Lonely>) -> anyhow::Result<()> {
                _ = $call?;
                Ok(())
            })*
        }

        /// In functions that return a boxed error.
        mod in_boxed {
            use super::*;
            $(pub(super) fn $name($actor: &Actor<Lonely>) -> Boxed {
                _ = $call?;
                Ok(())
            })*
        }

        #[test]
        fn every_call_may_be_followed_by_it() {
            let (actor, held) = full();
            $(
                let name = stringify!($name);
                let error = in_anyhow::$name(&actor).expect_err(name);
                let boxed = in_boxed::$name(&actor).expect_err(name);
                assert_eq!(error.to_string(), boxed.to_string(), "{name}");
                assert!(boxed.to_string().contains($says), "{name}: {boxed}");
                assert!(!format!("{boxed:?}").is_empty() && !format!("{error:?}").is_empty());
            )*
            held.let_go();
        }
    };
}

const NOW: Duration = Duration::ZERO;

fn message(n: u32) -> impl FnOnce(&mut Lonely) + Send + 'static {
    let inner = lonely(n);
    move |state| state.0.set(inner.0.get())
}

calls! {
    send: |actor| actor.send(message(1)), "not accepted by `till`: the mailbox is full";
    tell: |actor| actor.tell(lonely(1)), "not accepted by `till`: the mailbox is full";
    send_many: |actor| actor.send_many([message(1)]), "`till`: the mailbox is full";
    with: |actor| actor.with(|state| lonely(state.0.get())), "the mailbox is full";
    try_with: |actor| {
        let rc = std::rc::Rc::new(1);
        actor.try_with(|_| *rc).map_err(|error| error.into_reason())
    }, "the actor is busy";
    posted_send: |actor| actor.posted().send(message(1)), "`till`: the mailbox is full";
    posted_tell: |actor| actor.posted().tell(lonely(1)), "`till`: the mailbox is full";
    posted_call: |actor| actor.posted().call(|_| lonely(1)).wait(), "the mailbox is full";
    posted_ask: |actor| actor.posted().ask(lonely(1)).wait(), "the mailbox is full";
    waiting_send: |actor| actor.waiting().send(message(1)).within(NOW), "`till`";
    waiting_tell: |actor| actor.waiting().tell(lonely(1)).within(NOW), "`till`";
    waiting_call: |actor| actor.waiting().call(|_| lonely(1)).within(NOW), "by `till` in time";
    waiting_ask: |actor| actor.waiting().ask(lonely(1)).within(NOW), "by `till` in time";
    call: |actor| actor.call(|_| lonely(1)).wait(), "the mailbox is full";
    ask: |actor| actor.ask(lonely(1)).wait(), "the mailbox is full";
    ask_within: |actor| actor.ask(lonely(1)).within(NOW), "the mailbox is full";
    ask_timeout: |actor| actor.ask(lonely(1)).wait_timeout(NOW), "the mailbox is full";
    recipient: |actor| Recipient::new(actor).tell(lonely(1)), "`till`: the mailbox is full";
    tell_every: |_actor| {
        Actor::new(Ticks).posted().tell_every(Every::step(NOW), ()).map(drop)
    }, "step";
    spawn: |_actor| {
        System::new().spawn(Actor::builder().capacity(0, Overflow::Reject), lonely(1))
    }, "capacity";
    spawn_hooked: |_actor| {
        let held = std::sync::Mutex::new(lonely(1));
        let builder = Actor::builder().capacity(0, Overflow::Reject);
        System::new().spawn(builder.on_panic(move |_| held.lock().unwrap().0.set(1)), lonely(1))
    }, "capacity";
    system_actor: |_actor| ended().actor(lonely(1)), "shut down";
    spawn_from: |_actor| {
        let spawner = Actor::builder().panic_policy(PanicPolicy::Resume).build().unwrap();
        ended().spawn_from(&spawner, lonely(1))
    }, "shut down";
    shutdown: |_actor| {
        let system = System::new();
        let member = system.actor(lonely(1)).unwrap();
        member.with(|_| system.shutdown(NOW)).unwrap()
    }, "itself";
    builder: |_actor| Actor::builder().budget(0).spawn(lonely(1)), "budget";
    template: |_actor| Actor::<Lonely>::builder().budget(0).build(), "budget";
    pool: |_actor| ThreadPool::builder().threads(0).build(), "worker";
    promised: |_actor| {
        let (promise, reply) = promise::<Lonely>();
        drop(promise);
        reply.wait()
    }, "was dropped";
    timed_out: |_actor| promise::<Lonely>().1.within(NOW), "in time";
}

struct Ticks;

impl Handler<()> for Ticks {
    type Reply = ();
    fn handle(&mut self, (): (), _: &mut Context<'_, Self>) {}
}

fn ended() -> System {
    let system = System::new();
    system.shutdown(NOW).unwrap();
    system
}

#[test]
fn waits_may_be_followed_by_it() {
    fn inside(actor: &Actor<Lonely>) -> anyhow::Result<()> {
        actor.idle().wait()?;
        assert!(actor.ended().within(Limit::Immediate)?);
        Ok(())
    }
    let actor = Actor::new(lonely(0));
    let itself = actor.clone();
    let refused = actor.with(move |_| inside(&itself).unwrap_err().to_string()).unwrap();
    assert!(refused.ends_with("Lonely` waits for itself"), "{refused}");
}

#[test]
fn messages_are_dropped_where_an_error_has_no_room() {
    fn reason(actor: &Actor<Lonely>) -> Result<(), Reason> {
        actor.tell(lonely(1))?;
        Ok(actor.send(message(1))?)
    }
    fn asked(actor: &Actor<Lonely>) -> Result<Lonely, AskError> {
        actor.tell(lonely(1))?;
        actor.ask(lonely(2)).wait()
    }
    fn waited(actor: &Actor<Lonely>) -> Result<Lonely, WaitError<Lonely, Lonely>> {
        actor.tell(lonely(1))?;
        actor.ask(lonely(2)).within(Limit::Unlimited)
    }
    let (actor, held) = full();
    assert_eq!(reason(&actor), Err(Reason::Full));
    assert_eq!(asked(&actor).map(drop), Err(AskError::from(Reason::Full)));
    assert!(matches!(waited(&actor), Err(WaitError::Ask(AskError::Refused(Reason::Full, _)))));
    held.let_go();
    actor.idle().wait().unwrap();
    assert!(reason(&actor).is_ok() && asked(&actor).is_ok() && waited(&actor).is_ok());
}

#[test]
fn a_chain_of_errors_says_each_thing_once_more() {
    let till = Actor::builder().name("till").spawn(lonely(0)).unwrap();
    till.send(|_| crate::common::quiet_panic("jammed")).unwrap();
    let error = in_anyhow::tell(&till).unwrap_err();
    let chain: Vec<_> = error.chain().map(ToString::to_string).collect();
    let cause = "a turn panicked in `till`: jammed";
    let refused = format!("message not accepted by `till`: the actor has stopped: {cause}");
    assert_eq!(chain, [refused.as_str(), cause]);
    let error = in_anyhow::ask_within(&till).unwrap_err();
    assert_eq!(error.root_cause().to_string(), cause);
    assert!(format!("{error:?}").contains(cause), "what `main` prints: {error:?}");
}
