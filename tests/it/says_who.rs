//! Failures name their actor: names in errors, hooks, panics and `Debug`; and the number of lost
//! messages.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{Held, in_turn, queued, quiet_panic, size, until};
use turnwise::executor::DrainQueue;
use turnwise::snapshot::Activity;
use turnwise::{
    Actor, ActorName, AskError, Context, Handler, Limit, Overflow, PanicPolicy, Reason, StopCause,
    System, WaitError,
};

struct Till;

impl Handler<u32> for Till {
    type Reply = ();
    fn handle(&mut self, message: u32, _: &mut Context<'_, Self>) {
        if message == 7 {
            quiet_panic("jammed");
        }
    }
}

fn till(name: Option<&str>) -> Actor<Till> {
    let builder = Actor::builder();
    name.map_or(Actor::new(Till), |name| builder.name(name).spawn(Till).unwrap())
}

#[test]
fn errors_name_the_actor_or_its_type() {
    for (name, said) in [(Some("till 7"), "till 7"), (None, "it::says_who::Till")] {
        let actor = till(name);
        let error = actor.ask(7).wait().unwrap_err();
        assert_eq!(error.to_string(), format!("the message panicked in `{said}`: jammed"));
        let AskError::Panicked(panic) = &error else { panic!("{error:?}") };
        assert_eq!((panic.actor(), panic.text()), (Some(said), "jammed"));
        let cause = format!("a turn panicked in `{said}`: jammed");
        assert_eq!(actor.stop_cause().unwrap().to_string(), cause);
        let stopped = format!("the actor has stopped: {cause}");
        let silent = format!("no answer from `{said}`: {stopped}");
        assert_eq!(actor.ask(1).wait().unwrap_err().to_string(), silent);
        assert_eq!(actor.with(|_| ()).unwrap_err().to_string(), silent);
        let refused = actor.tell(1).unwrap_err();
        assert_eq!(refused.actor(), said);
        assert_eq!(refused.to_string(), format!("message not accepted by `{said}`: {stopped}"));
        assert!(format!("{refused:?}").contains(&format!("actor: {said:?}")), "{refused:?}");
    }
}

#[test]
fn errors_of_queued_messages_name_the_actor_too() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().name("till").executor(queue.handle());
    let actor = builder.capacity(2, Overflow::Reject).spawn(Till).unwrap();
    let (jammed, after) = (actor.ask(7), actor.ask(1));
    let refused = actor.ask(2).wait().unwrap_err();
    assert_eq!(refused, AskError::from(Reason::Full));
    assert_eq!(actor.tell(2).unwrap_err().actor(), "till");
    let late = actor.waiting().ask(3).within(Limit::Immediate).unwrap_err();
    assert!(late.to_string().starts_with("not started by `till` in time"), "{late}");
    queue.run_until_idle();
    let jammed = jammed.wait().unwrap_err().to_string();
    assert_eq!(jammed, "the message panicked in `till`: jammed");
    let after = after.wait().unwrap_err().to_string();
    let stopped = "the actor has stopped: a turn panicked in `till`: jammed";
    assert_eq!(after, format!("no answer from `till`: {stopped}"));
    let held = Actor::builder().name("held").spawn(()).unwrap();
    let hold = Held::hold(&held);
    let late = held.call(|()| ()).wait_timeout(Limit::Immediate).unwrap_err();
    assert!(late.to_string().starts_with("no answer from `held` in time"), "{late}");
    assert!(matches!(late, WaitError::TimedOut(_)));
    hold.let_go();
}

type Answer = Result<(), AskError>;

#[test]
fn whoever_has_no_answer_knows_whose_it_is() {
    let queue = DrainQueue::new();
    let tills = |name: &str| Actor::builder().name(name).executor(queue.handle());
    let full = || {
        let actor = tills("full").capacity(1, Overflow::Reject).spawn(()).unwrap();
        actor.send(|()| ()).unwrap();
        actor
    };
    let closed = || {
        let actor = tills("closed").spawn(()).unwrap();
        actor.close();
        actor
    };
    let stopped = || {
        let actor = tills("stopped").spawn(()).unwrap();
        let asked = (actor.call(|()| ()), actor.call(|()| ()));
        actor.stop();
        queue.run_until_idle();
        (actor, asked)
    };
    let forget = async |(): &mut ()| std::future::poll_fn(|_| std::task::Poll::Pending).await;
    let lost = || {
        let reply = tills("lost").spawn(()).unwrap().run(forget);
        queue.run_until_idle();
        reply
    };
    let cut = || {
        let (reply, abort) = tills("cut").spawn(()).unwrap().run_abortable(forget);
        abort.abort();
        queue.run_until_idle();
        reply
    };
    let stopped_late = || {
        let actor = tills("late").spawn(()).unwrap();
        let (promise, kept) = turnwise::promise::<()>();
        let reply = actor.run(async move |()| kept.await.unwrap_or(()));
        queue.run_until_idle();
        actor.stop();
        queue.run_until_idle();
        drop(promise);
        reply
    };
    let on = |reply: turnwise::Reply<()>| as_task(reply);
    let limited = |reply: turnwise::Reply<()>| match reply.within(Limit::Immediate) {
        Err(WaitError::Ask(error)) => Err(error),
        other => panic!("{other:?}"),
    };
    let known: Vec<(&str, &str, Answer)> = vec![
        ("full", "Refused(Full, full)", full().call(|()| ()).wait()),
        ("full", "Refused(Full, full)", on(full().call(|()| ()))),
        ("full", "Refused(Full, full)", full().with(|()| ())),
        (
            "full",
            "Refused(Full, full)",
            full().call(|()| ()).wait_by_ref(Limit::Immediate).map(|_| ()),
        ),
        ("full", "Refused(Full, full)", limited(full().call(|()| ()))),
        ("full", "Refused(Full, full)", full().run(forget).wait()),
        ("full", "Refused(Full, full)", full().send(|()| ()).map_err(AskError::from)),
        ("closed", "Refused(Closed, closed)", closed().waiting().call(|()| ()).wait()),
        ("closed", "Refused(Closed, closed)", closed().with(|()| ())),
        ("stopped", "Refused(Stopped(Requested), stopped)", stopped().1.0.wait()),
        ("stopped", "Refused(Stopped(Requested), stopped)", on(stopped().1.1)),
        ("stopped", "Refused(Stopped(Requested), stopped)", stopped().0.with(|()| ())),
        ("lost", "Abandoned(lost)", lost().wait()),
        ("cut", "Aborted(cut)", on(cut())),
        ("cut", "Aborted(cut)", limited(cut())),
        ("late", "Aborted(late)", stopped_late().wait()),
    ];
    for (name, debug, answer) in known {
        let error = answer.unwrap_err();
        assert_eq!(error.actor(), Some(name), "{error:?}");
        let debug = debug.replace(&format!("{name})"), &format!("\"{name}\")"));
        assert_eq!(format!("{error:?}"), debug);
        let unnamed = match &error {
            AskError::Refused(reason, _) => AskError::from(reason.clone()),
            AskError::Abandoned(_) => AskError::Abandoned(ActorName::ANY),
            AskError::Aborted(_) => AskError::Aborted(ActorName::ANY),
            other => other.clone(),
        };
        assert_eq!((&error, unnamed.actor()), (&unnamed, None));
        assert_eq!(error.to_string(), format!("no answer from `{name}`: {unnamed}"));
    }
    let (broken, reply) = turnwise::promise::<()>();
    drop(broken);
    let nobody = reply.wait().unwrap_err();
    assert_eq!(
        (nobody.actor(), nobody.to_string().as_str()),
        (None, "the promise or the turn was dropped")
    );
}

/// Waits as a task does.
fn as_task(reply: turnwise::Reply<()>) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(reply)
}

#[test]
fn hooks_are_told_who_it_was() {
    let (tell, told) = mpsc::channel();
    let (ended, panicked) = (tell.clone(), tell);
    let spawner = Actor::builder()
        .name("till")
        .on_panic(move |panic| panicked.send(panic.to_string()).unwrap())
        .on_end(move |_: Till, cause| ended.send(cause.to_string()).unwrap())
        .build()
        .unwrap();
    spawner.spawn(Till).tell(7).unwrap();
    let panic = "a turn panicked in `till`: jammed";
    assert_eq!(told.recv().unwrap(), panic);
    assert_eq!(told.recv().unwrap(), format!("it has stopped: {panic}"));
}

#[test]
fn debug_says_what_an_actor_is_doing() {
    let state = |actor: &Actor<Till>| {
        let shown = format!("{actor:?}");
        let (_, state) = shown.split_once("state: ").unwrap();
        state.split_once(", handles").unwrap().0.to_owned()
    };
    let actor = till(None);
    let shown = format!("{actor:?}");
    assert_eq!(shown, "Actor { name: \"it::says_who::Till\", state: idle, handles: 1, .. }");
    let held = Held::hold(&actor);
    assert_eq!(state(&actor), "running");
    actor.tell(1).unwrap();
    actor.tell(1).unwrap();
    assert_eq!(state(&actor), "running, 2 queued");
    actor.close();
    assert_eq!(state(&actor), "running, 2 queued, closed");
    held.let_go();
    actor.ended().within(Limit::Unlimited).unwrap();
    assert_eq!(state(&actor), "ended: it was closed");

    let queue = DrainQueue::new();
    let builder = Actor::builder().name("till").executor(queue.handle());
    let actor = builder.capacity(2, Overflow::Reject).spawn(Till).unwrap();
    actor.tell(1).unwrap();
    assert_eq!(state(&actor), "1 queued, waiting for its executor");
    actor.tell(7).unwrap();
    let waits = actor.waiting().tell(1);
    assert_eq!(state(&actor), "2 queued, waiting for its executor, 1 waiting for room");
    let (weak, other) = (actor.downgrade(), Actor::new(()));
    let posted = other.posted();
    assert!(format!("{posted:?}").contains("name: \"()\""), "{posted:?}");
    queue.run_until_idle();
    assert!(waits.wait().is_ok(), "it was let in before the panic");
    let panic = "a turn panicked in `till`: jammed";
    let lost = format!("ended: it has stopped: {panic}, discarded: 1");
    assert_eq!(state(&actor), lost);
    assert!(format!("{weak:?}").contains(&lost), "{weak:?}");
    drop(actor);
    let plain = till(None);
    plain.stop();
    assert_eq!(state(&plain), "ended: it has stopped: stop was requested");
}

#[test]
fn debug_of_a_pending_actor_says_that_it_waits_for_a_thread() {
    let actor = Actor::new(0);
    let shown = in_turn(|| {
        actor.send(|n| *n += 1).unwrap();
        format!("{actor:?}")
    });
    assert!(shown.contains("state: 1 queued, waiting for a thread"), "{shown}");
}

#[test]
fn debug_of_a_system_shows_its_actors() {
    let queue = DrainQueue::new();
    let system = System::new();
    let idle = system.actor(0_u8).unwrap();
    let builder = Actor::builder().name("queued").executor(queue.handle());
    let waits = system.spawn(builder, 0).unwrap();
    waits.send(|n| *n += 1).unwrap();
    let busy = system.spawn(Actor::builder().name("busy"), ()).unwrap();
    let gone = system.spawn(Actor::builder().name("gone"), ()).unwrap();
    gone.close();
    let held = Held::hold(&busy);
    let shown = format!("{system:?}");
    assert_eq!(
        shown,
        "System { shut_down: false, actors: [\
         Actor { name: \"u8\", state: idle }, \
         Actor { name: \"queued\", state: 1 queued, waiting for its executor }, \
         Actor { name: \"busy\", state: running }], discarded: 0 }"
    );
    let snapshot = system.snapshot();
    let doing: Vec<_> =
        snapshot.actors.iter().map(|actor| (&*actor.name, actor.activity, actor.queued)).collect();
    let expected = [
        ("u8", Activity::Idle, 0),
        ("queued", Activity::Scheduled, 1),
        ("busy", Activity::Running, 0),
    ];
    assert_eq!(doing, expected);
    held.let_go();
    busy.idle().wait().unwrap();
    let report = system.shutdown(Duration::ZERO).unwrap();
    queue.run_until_idle();
    assert!(!report.is_complete() && idle.is_closed());
    let shown = "System { shut_down: true, actors: [], discarded: 1 }";
    assert_eq!(format!("{system:?}"), shown);
}

#[test]
fn a_snapshot_is_a_table() {
    let queue = DrainQueue::new();
    let system = System::new();
    let long = "a::module::of::a::program::that::has::long::names::Counter";
    let builder = Actor::builder().name(long).executor(queue.handle());
    let full = builder.capacity(1, Overflow::Reject).counted(true);
    let full = system.spawn(full, 0).unwrap();
    full.send(|n| *n += 1).unwrap();
    full.send(|n| *n += 1).unwrap_err();
    full.stop();
    let snapshot = system.snapshot();
    assert!(snapshot.actors[0].closed && snapshot.actors[0].stopped.is_some());
    assert_eq!(
        snapshot.to_string(),
        format!(
            "{:<40}  doing       queued    room   handled  panicked   refused      lost\n\
             ..ogram::that::has::long::names::Counter  scheduled        1       0         0\
             \x20        0         1         0  stopped: {}\n",
            "actor",
            StopCause::Requested
        )
    );
    queue.run_until_idle();
    assert_eq!(system.snapshot().discarded, 1);
    assert!(system.snapshot().actors.is_empty());
}

#[test]
fn an_actor_takes_one_line_of_the_table_whatever_its_texts_are() {
    let (system, queue) = (System::new(), DrainQueue::new());
    let (view, (tx, tables)) = (system.view(), mpsc::channel());
    let builder = Actor::builder().name("two\nlines\u{1b}[2J").executor(queue.handle());
    let builder = builder.on_undelivered(move |_| tx.send(view.snapshot().to_string()).unwrap());
    let actor = system.spawn(builder, 0).unwrap();
    actor.send(|_| quiet_panic("of two\nlines")).unwrap();
    actor.send(|_| ()).unwrap();
    queue.run_until_idle();
    let table = tables.recv().unwrap();
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.contains("two\\nlines\\u{1b}[2J  "), "{table}");
    assert!(table.contains("of two\\nlines"), "{table}");
}

#[test]
fn messages_that_are_discarded_are_counted() {
    let (queue, stopped) = queued(0);
    (0..10).for_each(|_| stopped.send(|n| *n += 1).unwrap());
    let asked = stopped.call(|n| *n);
    stopped.stop();
    assert_eq!(stopped.snapshot().discarded, 0, "none has come to them yet");
    queue.run_until_idle();
    assert_eq!(asked.wait(), Err(AskError::from(Reason::Stopped(StopCause::Requested))));
    assert_eq!(
        stopped.snapshot().discarded,
        10,
        "the question is not among them: its asker has an error"
    );

    let full = Actor::builder().capacity(1, Overflow::DropNewest).spawn(0).unwrap();
    let held = Held::hold(&full);
    (0..5).for_each(|_| full.send(|n| *n += 1).unwrap());
    assert_eq!(full.snapshot().discarded, 4);
    held.let_go();

    let came_back = Arc::new(AtomicUsize::new(0));
    let count = came_back.clone();
    let hooked = Actor::builder().on_undelivered(move |_| _ = count.fetch_add(1, SeqCst));
    let hooked = hooked.capacity(1, Overflow::DropNewest).spawn(0).unwrap();
    let held = Held::hold(&hooked);
    (0..5).for_each(|_| hooked.send(|n| *n += 1).unwrap());
    hooked.stop();
    held.let_go();
    hooked.ended().within(Limit::Unlimited).unwrap();
    assert_eq!((hooked.snapshot().discarded, came_back.load(SeqCst)), (0, 5));
}

#[test]
fn questions_without_an_asker_are_discarded() {
    for hooked in [false, true] {
        let queue = DrainQueue::new();
        let system = System::new();
        let builder = Actor::builder().counted(true).executor(queue.handle());
        let builder = match hooked {
            true => builder.on_undelivered(|_| unreachable!("it is a question")),
            false => builder,
        };
        let actor = system.spawn(builder, 0).unwrap();
        drop(actor.call(|n| *n += 1));
        drop(actor.run(async |n| *n += 1));
        let (asked, awaited) = (actor.call(|n| *n), actor.run(async |n| *n));
        actor.stop();
        queue.run_until_idle();
        assert!(asked.wait().is_err() && awaited.wait().is_err());
        let snapshot = actor.snapshot();
        assert_eq!((snapshot.discarded, system.snapshot().discarded), (2, 2), "{hooked}");
        let stats = snapshot.stats.unwrap();
        assert_eq!(stats.undelivered, 4);
    }
}

#[test]
fn a_system_counts_what_its_actors_have_discarded() {
    let queue = DrainQueue::new();
    let system = System::new();
    let spawn = |system: &System| {
        system.spawn(Actor::builder().executor(queue.handle()), 0).expect("it is open")
    };
    let stays = spawn(&system);
    for _ in 0..3 {
        let goes = spawn(&system);
        goes.send(|n| *n += 1).unwrap();
        goes.stop();
    }
    queue.run_until_idle();
    assert_eq!((system.actors(), system.snapshot().discarded), (1, 3));
    let held = spawn(&system);
    held.send(|n| *n += 1).unwrap();
    held.stop();
    queue.run_until_idle();
    drop(stays);
    assert_eq!(system.snapshot().discarded, 4);
}

#[test]
fn counters_say_what_became_of_each_message() {
    let queue = DrainQueue::new();
    let builder = Actor::builder().name("till").executor(queue.handle()).budget(4);
    let builder = builder.capacity(100, Overflow::Reject).panic_policy(PanicPolicy::Resume);
    let actor = builder.counted(true).spawn(0_u32).unwrap();
    let stats = || {
        let stats = actor.snapshot().stats.unwrap();
        [stats.handled, stats.panicked, stats.refused, stats.undelivered, stats.handed_off]
    };
    assert_eq!(stats(), [0; 5]);
    (0..8).for_each(|_| actor.send(|n| *n += 1).unwrap());
    assert_eq!(stats(), [0; 5]);
    queue.run_until_idle();
    assert_eq!(stats(), [8, 0, 0, 0, 1], "four turns, and four");
    actor.send(|_| quiet_panic("no")).unwrap();
    queue.run_until_idle();
    assert_eq!(stats(), [9, 1, 0, 0, 1]);
    let many = (0..101).map(|_| |n: &mut u32| *n += 1);
    assert!(actor.send_many(many).is_err());
    assert_eq!(stats(), [9, 1, 101, 0, 1]);
    (0..100).for_each(|_| actor.send(|n| *n += 1).unwrap());
    assert!(actor.send(|_| ()).is_err() && actor.call(|_| ()).wait().is_err());
    assert!(actor.posted().send(|_| ()).is_err());
    assert!(actor.waiting().send(|_| ()).within(Limit::Immediate).is_err());
    assert!(actor.waiting().call(|_| ()).within(Limit::Immediate).is_err());
    assert_eq!(stats(), [9, 1, 106, 0, 1]);
    assert_eq!(actor.try_with(|_| ()).unwrap_err().reason(), &Reason::HasExecutor);
    actor.stop();
    queue.run_until_idle();
    assert!(actor.send(|_| ()).is_err() && actor.call(|_| ()).wait().is_err());
    assert!(actor.with(|_| ()).is_err());
    assert_eq!(stats(), [9, 1, 109, 100, 25], "what is given back is in a budget, too");
    assert_eq!(actor.snapshot().discarded, 100);
}

#[test]
fn counters_agree_with_an_instrumented_run() {
    for round in 0..size(20, 400) {
        let spawner = Actor::builder()
            .panic_policy(PanicPolicy::Resume)
            .capacity(4, Overflow::Reject)
            .counted(true)
            .build()
            .unwrap();
        let actors: Vec<_> = (0..2).map(|_| spawner.spawn(0_u64)).collect();
        let refused = Mutex::new([0_u64; 2]);
        let sent = 200;
        thread::scope(|scope| {
            for me in 0..3 {
                let (actors, refused) = (&actors, &refused);
                scope.spawn(move || {
                    for n in 0..sent {
                        let which = usize::from((n + me) % 3 == 0);
                        let actor = &actors[which];
                        let turn = move |count: &mut u64| {
                            *count += 1;
                            if n % 7 == 0 {
                                quiet_panic("seven");
                            }
                        };
                        let accepted = match n % 4 {
                            0 => actor.send(turn).is_ok(),
                            1 => actor.posted().send(turn).is_ok(),
                            2 => {
                                let answer = actor.call(turn).wait();
                                !matches!(answer, Err(AskError::Refused(_, _)))
                            }
                            _ => actor.waiting().send(turn).within(Limit::Unlimited).is_ok(),
                        };
                        refused.lock().unwrap()[which] += u64::from(!accepted);
                    }
                });
            }
        });
        let mut all = 0;
        for (actor, refused) in actors.iter().zip(refused.into_inner().unwrap()) {
            actor.idle().wait().unwrap();
            let handled = actor.with(|count| *count).unwrap();
            actor.idle().wait().unwrap();
            // Waiters for room may have left when they were admitted, and sent again.
            let in_passing = 3 * sent as u64 / 4;
            until(|| actor.snapshot().stats.unwrap().handled > handled);
            let stats = actor.snapshot().stats.unwrap();
            assert!(stats.handled <= handled + 1 + in_passing, "{round}: {stats:?}");
            assert_eq!((stats.refused, stats.undelivered), (refused, 0), "{round}: {stats:?}");
            all += handled + refused;
        }
        assert_eq!(all, 3 * sent as u64, "{round}");
    }
}

#[test]
fn whoever_does_not_ask_is_not_counted() {
    let actor = Actor::builder().name("till").spawn(0).unwrap();
    actor.send(|n| *n += 1).unwrap();
    assert_eq!((actor.snapshot().stats, Actor::new(0).snapshot().stats), (None, None));
    let uncounted = Actor::builder().counted(true).counted(false).spawn(0).unwrap();
    assert_eq!(uncounted.snapshot().stats, None);
}
