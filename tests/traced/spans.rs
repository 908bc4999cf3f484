//! With the feature `tracing`: an actor that is traced has one span for each turn, which follows
//! from the span of its sender, and records the wait of the message, the duration of the turn, and
//! its outcome.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::future::pending;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::common::{Held, in_turn, must_end, queued, quiet_panic, until, yield_now};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Metadata, Span, Subscriber, info_span};
use tracing_core::span::Current;
use turnwise::executor::DrainQueue;
use turnwise::time::{Every, Timers};
use turnwise::{
    Actor, ActorBuilder, ActorName, AskError, AsyncContext, AsyncHandler, Clock, Context, Handler,
    Limit, Overflow, PanicPolicy, Reason, Recipient, Restarts, Undelivered, VirtualClock, promise,
};

const SECOND: Duration = Duration::from_secs(1);

/// A span, as its subscriber sees it.
#[derive(Clone, Debug, Default)]
struct Told {
    name: &'static str,
    target: &'static str,
    is_root: bool,
    /// The name of its parent.
    parent: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
    /// The names of the spans that it follows from.
    follows: Vec<&'static str>,
    /// The threads that have entered it, and have left it.
    entered: Vec<ThreadId>,
    left: Vec<ThreadId>,
    handles: usize,
}

impl Told {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
    fn outcome(&self) -> &str {
        self.field("outcome").trim_matches('"')
    }
    fn is_closed(&self) -> bool {
        self.handles == 0 && self.entered.len() == self.left.len()
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

#[derive(Default)]
struct Pages {
    spans: Vec<Told>,
    metadata: Vec<&'static Metadata<'static>>,
    inside: HashMap<ThreadId, Vec<u64>>,
}

impl Pages {
    fn of(&mut self, id: &Id) -> &mut Told {
        &mut self.spans[id.into_u64() as usize - 1]
    }
}

/// Records spans, and then runs an action, under no lock.
#[derive(Clone)]
struct Book {
    pages: Arc<Mutex<Pages>>,
    then: Arc<dyn Fn(&'static str) + Send + Sync>,
}

impl Book {
    fn new() -> Self {
        Self::and_then(|_| ())
    }
    fn and_then(then: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Book { pages: Arc::default(), then: Arc::new(then) }
    }
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }
    /// Returns the turns, in the order in which they began.
    fn turns(&self) -> Vec<Told> {
        self.pages().spans.iter().filter(|told| told.name == "turn").cloned().collect()
    }
    fn outcomes(&self) -> Vec<String> {
        self.turns().iter().map(|turn| turn.outcome().to_owned()).collect()
    }
    fn read<R>(&self, f: impl FnOnce() -> R) -> R {
        with_default(self.clone(), f)
    }
}

impl Subscriber for Book {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = {
            let mut pages = self.pages();
            let (name, target) = (span.metadata().name(), span.metadata().target());
            let is_root = span.is_root();
            let parent = span.parent().map(|id| pages.spans[id.into_u64() as usize - 1].name);
            let mut told = Told { name, target, is_root, parent, handles: 1, ..Told::default() };
            span.record(&mut told);
            pages.spans.push(told);
            pages.metadata.push(span.metadata());
            Id::from_u64(pages.spans.len() as u64)
        };
        (self.then)("new_span");
        id
    }
    fn record(&self, id: &Id, values: &Record<'_>) {
        values.record(self.pages().of(id));
        (self.then)("record");
    }
    fn record_follows_from(&self, id: &Id, from: &Id) {
        {
            let mut pages = self.pages();
            assert!(pages.of(from).handles > 0, "it is open");
            let from = pages.of(from).name;
            pages.of(id).follows.push(from);
        }
        (self.then)("follows_from");
    }
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, id: &Id) {
        {
            let (mut pages, here) = (self.pages(), thread::current().id());
            pages.of(id).entered.push(here);
            pages.inside.entry(here).or_default().push(id.into_u64());
        }
        (self.then)("enter");
    }
    fn exit(&self, id: &Id) {
        {
            let (mut pages, here) = (self.pages(), thread::current().id());
            pages.of(id).left.push(here);
            let left = pages.inside.get_mut(&here).and_then(Vec::pop);
            assert_eq!(left, Some(id.into_u64()), "spans are left in their order");
        }
        (self.then)("exit");
    }
    fn clone_span(&self, id: &Id) -> Id {
        self.pages().of(id).handles += 1;
        (self.then)("clone");
        id.clone()
    }
    fn try_close(&self, id: Id) -> bool {
        let closed = {
            let mut pages = self.pages();
            let told = pages.of(&id);
            assert!(told.handles > 0, "it is closed once");
            told.handles -= 1;
            told.handles == 0
        };
        (self.then)("close");
        closed
    }
    fn current_span(&self) -> Current {
        (self.then)("current");
        let pages = self.pages();
        let inside = pages.inside.get(&thread::current().id()).and_then(|spans| spans.last());
        match inside {
            Some(id) => Current::new(Id::from_u64(*id), pages.metadata[*id as usize - 1]),
            None => Current::none(),
        }
    }
}

/// Runs a closure inside the span of a sender.
fn sender<R>(f: impl FnOnce() -> R) -> R {
    info_span!("sender").in_scope(f)
}

#[derive(Default)]
struct Till(u64);

/// A message whose `Debug` shows its content.
#[derive(Clone, Debug)]
struct Coin(u64);

impl Handler<Coin> for Till {
    type Reply = u64;
    fn handle(&mut self, Coin(worth): Coin, _: &mut Context<'_, Self>) -> u64 {
        self.0 += worth;
        self.0
    }
}

impl AsyncHandler<Coin> for Till {
    type Reply = u64;
    async fn handle(&mut self, Coin(worth): Coin, _: &mut AsyncContext<Self>) -> u64 {
        yield_now().await;
        self.0 += worth;
        self.0
    }
}

fn add(till: &mut Till) {
    till.0 += 1;
}

const COIN: Coin = Coin(4711);

/// A way to send, and the number of its turns.
type Way = (&'static str, usize, fn(&Actor<Till>));

const WAYS: &[Way] = &[
    ("send", 1, |till| till.send(add).unwrap()),
    ("tell", 1, |till| till.tell(COIN).unwrap()),
    ("call", 1, |till| till.call(|till| till.0).forget()),
    ("ask", 1, |till| till.ask(COIN).forget()),
    ("send_many", 3, |till| till.send_many([add, add, add]).unwrap()),
    ("posted send", 1, |till| till.posted().send(add).unwrap()),
    ("posted tell", 1, |till| till.posted().tell(COIN).unwrap()),
    ("posted call", 1, |till| till.posted().call(add).forget()),
    ("posted ask", 1, |till| till.posted().ask(COIN).forget()),
    ("waiting send", 1, |till| till.waiting().send(add).wait().unwrap()),
    ("waiting tell", 1, |till| till.waiting().tell(COIN).wait().unwrap()),
    ("waiting call", 1, |till| drop(till.waiting().call(add))),
    ("waiting ask", 1, |till| drop(till.waiting().ask(COIN))),
    ("run", 1, |till| till.run(async |till| till.0).forget()),
    ("run that waits", 1, |till| till.run(async |_| yield_now().await).forget()),
    ("run_abortable", 1, |till| till.run_abortable(async |_| yield_now().await).0.forget()),
    ("ask_async", 1, |till| till.ask_async(COIN).forget()),
    ("posted run", 1, |till| till.posted().run(async |_| yield_now().await).forget()),
    ("posted ask_async", 1, |till| till.posted().ask_async(COIN).forget()),
    ("waiting run", 1, |till| drop(till.waiting().run(async |_| yield_now().await))),
    ("waiting ask_async", 1, |till| drop(till.waiting().ask_async(COIN))),
    ("recipient tell", 1, |till| Recipient::new(till).tell(COIN).unwrap()),
    ("recipient ask", 1, |till| Recipient::new(till).ask(COIN).forget()),
    ("inside a turn", 1, |till| in_turn(|| till.send(add).unwrap())),
];

/// Ways that wait for their turn, so that some thread must run the actor.
const WAITS: &[Way] = &[("with", 1, |till| till.with(add).unwrap())];

const TRIES: Way = ("try_with", 1, |till| till.try_with(add).unwrap());

trait Forget {
    fn forget(self);
}

impl<R, M> Forget for turnwise::Reply<R, M> {
    /// The request keeps its place.
    fn forget(self) {
        drop(self);
    }
}

/// Checks that each of these ways has its spans, and each of them its sender.
fn check(ways: impl IntoIterator<Item = Way>, till: &Actor<Till>, run: impl Fn()) {
    for (way, turns, send) in ways {
        let book = Book::new();
        book.read(|| {
            sender(|| send(till));
            run();
            until(|| till.is_idle());
        });
        let told = book.turns();
        assert_eq!(told.len(), turns, "{way}: {told:#?}");
        for turn in &told {
            assert_eq!((turn.target, turn.is_root), ("turnwise", true), "{way}");
            assert_eq!(turn.follows, ["sender"], "{way}");
            assert_eq!((turn.field("actor"), turn.outcome()), ("\"till\"", "done"), "{way}");
            assert!(!turn.entered.is_empty() && turn.is_closed(), "{way}: {turn:?}");
            for time in ["wait_ns", "run_ns"] {
                assert!(turn.field(time).parse::<u64>().is_ok(), "{way}: {turn:?}");
            }
            let mut said = turn.fields.iter().filter(|(name, _)| !name.ends_with("_ns"));
            assert!(said.all(|(_, text)| !text.contains("4711")), "{way}: nothing of the message");
            let kind = turn.field("kind");
            assert!(kind.contains("spans::") && !kind.contains("turnwise::"), "{way}: {kind}");
        }
        let pages = book.pages();
        assert!(pages.spans.iter().all(Told::is_closed), "{way}: the sender's, too");
        assert!(pages.inside.values().all(Vec::is_empty), "{way}");
    }
}

fn builder() -> ActorBuilder<Till> {
    // `tracing` asks its subscribers about the span when it is first reached. A thread without one
    // that reaches it just while another thread creates its own would leave it disabled.
    static KNOWN: Once = Once::new();
    KNOWN.call_once(|| {
        let first = Actor::builder().traced(true).spawn(()).unwrap();
        Book::new().read(|| first.send(|()| ()).unwrap());
    });
    Actor::builder().name("till").traced(true)
}

#[test]
fn each_way_in_is_a_span_for_each_turn() {
    must_end(|| {
        let all = || WAYS.iter().chain(WAITS).chain([&TRIES]).copied();
        check(all(), &builder().spawn(Till::default()).unwrap(), || ());
        let bounded = builder().capacity(3, Overflow::Reject).spawn(Till::default()).unwrap();
        check(all(), &bounded, || ());
        let batches = builder().on_batch_end(|_, _| ()).spawn(Till::default()).unwrap();
        check(all(), &batches, || ());
        let spawner = Actor::builder().name("till").traced(true).build().unwrap();
        check(all(), &spawner.spawn(Till::default()), || ());
    });
}

#[test]
fn spans_are_children_of_their_senders_on_demand() {
    must_end(|| {
        let queue = DrainQueue::new();
        let child = || builder().child_spans(true);
        let here = child().spawn(Till::default()).unwrap();
        let queued = child().executor(queue.handle()).spawn(Till::default()).unwrap();
        for (way, turns, send) in WAYS {
            for till in [&here, &queued] {
                let book = Book::new();
                book.read(|| {
                    sender(|| send(till));
                    queue.run_until_idle();
                    until(|| till.is_idle());
                });
                let told = book.turns();
                assert_eq!(told.len(), *turns, "{way}: {told:#?}");
                for turn in &told {
                    assert_eq!((turn.is_root, turn.parent), (false, Some("sender")), "{way}");
                    assert!(turn.follows.is_empty() && turn.is_closed(), "{way}: {turn:?}");
                }
            }
        }
        // Sent in no span, it has no parent.
        let book = Book::new();
        book.read(|| here.send(add).unwrap());
        assert!(book.turns().iter().all(|turn| turn.is_root && turn.parent.is_none()));
    });
}

#[test]
fn each_way_into_an_executor_is_a_span_for_each_turn() {
    must_end(|| {
        let queue = DrainQueue::new();
        let till = builder().executor(queue.handle()).spawn(Till::default()).unwrap();
        check(WAYS.iter().copied(), &till, || _ = queue.run_until_idle());
        let pool = turnwise::ThreadPool::builder().threads(1).build().unwrap();
        let till = builder().executor(pool.handle()).spawn(Till::default()).unwrap();
        check(WAYS.iter().chain(WAITS).copied(), &till, || ());
    });
}

#[test]
fn a_message_that_waits_behind_others_follows_from_its_own_sender() {
    must_end(|| {
        let till = builder().capacity(100, Overflow::Reject).spawn(Till::default()).unwrap();
        for (way, turns, send) in WAYS.iter().chain(WAITS) {
            let book = Book::new();
            let held = Held::hold(&till);
            thread::scope(|scope| {
                let sending = scope.spawn(|| book.read(|| sender(|| send(&till))));
                until(|| till.len() > 1 || till.is_idle());
                held.let_go_soon();
                sending.join().unwrap();
            });
            held.let_go();
            until(|| till.is_idle());
            let told = book.turns();
            if way.starts_with("waiting") && told.is_empty() {
                continue; // the question was withdrawn before its turn
            }
            assert_eq!(told.len(), *turns, "{way}: {told:#?}");
            assert!(told.iter().all(|turn| turn.follows == ["sender"]), "{way}");
            assert!(book.pages().spans.iter().all(Told::is_closed), "{way}");
        }
    });
}

#[test]
fn whoever_waits_for_room_has_one_span() {
    let queue = DrainQueue::new();
    let one = builder().executor(queue.handle()).capacity(1, Overflow::Reject);
    let till = one.spawn(Till::default()).unwrap();
    let book = Book::new();
    book.read(|| {
        let (sending, asking, running) = sender(|| {
            till.send(add).unwrap();
            let sending = till.waiting().send(add);
            (sending, till.waiting().ask(COIN), till.waiting().run(async |_| yield_now().await))
        });
        // Withdrawn: no turn, no span.
        drop(sender(|| till.waiting().tell(COIN)));
        queue.run_until_idle();
        sending.wait().unwrap();
        asking.wait().unwrap();
        running.wait().unwrap();
    });
    let told = book.turns();
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|turn| turn.follows == ["sender"] && turn.outcome() == "done"));
    assert!(book.pages().spans.iter().all(Told::is_closed));
}

#[test]
fn delayed_messages_follow_from_whoever_armed_them_and_ticks_from_nobody() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let queue = DrainQueue::new();
    let till =
        builder().timers(timers.clone()).executor(queue.handle()).spawn(Till::default()).unwrap();
    let book = Book::new();
    book.read(|| {
        sender(|| {
            till.posted().send_after(SECOND, add).forget();
            till.posted().tell_after(SECOND, COIN).forget();
            assert!(till.posted().send_after(SECOND, add).cancel());
        });
        clock.advance(SECOND);
        assert_eq!(timers.run_due(), 2);
        clock.advance(SECOND);
        queue.run_until_idle();
    });
    let told = book.turns();
    assert_eq!(told.len(), 2);
    for turn in &told {
        assert_eq!(
            (turn.follows.as_slice(), turn.field("wait_ns")),
            (["sender"].as_slice(), "1000000000")
        );
    }
    assert!(book.pages().spans.iter().all(Told::is_closed));
    let book = Book::new();
    book.read(|| {
        let every = sender(|| till.posted().tell_every(Every::step(SECOND), COIN)).unwrap();
        assert!(book.pages().spans.iter().all(Told::is_closed), "its span is not kept open");
        clock.advance(2 * SECOND);
        assert_eq!(timers.run_due(), 2);
        assert!(every.cancel());
        queue.run_until_idle();
    });
    assert_eq!(book.outcomes(), ["done", "done"]);
    assert!(book.turns().iter().all(|turn| turn.follows.is_empty()));
}

#[test]
fn wait_and_run_are_by_the_actors_clock_and_leave_out_what_lies_between() {
    let clock = VirtualClock::new();
    let queue = DrainQueue::new();
    let till =
        builder().clock(clock.clone()).executor(queue.handle()).spawn(Till::default()).unwrap();
    let book = Book::new();
    book.read(|| {
        let time = clock.clone();
        till.send(move |_| time.advance(2 * SECOND)).unwrap();
        clock.advance(5 * SECOND);
        queue.run_until_idle();
        let (go, gone) = promise();
        let time = clock.clone();
        let turn = till.run(async move |_| {
            time.advance(SECOND);
            let _: Result<(), _> = gone.await;
            time.advance(2 * SECOND);
        });
        clock.advance(SECOND);
        queue.run_until_idle();
        clock.advance(60 * SECOND);
        go.keep(());
        queue.run_until_idle();
        turn.wait().unwrap();
    });
    let told = book.turns();
    let times: Vec<_> =
        told.iter().map(|turn| (turn.field("wait_ns"), turn.field("run_ns"))).collect();
    assert_eq!(times, [("5000000000", "2000000000"), ("1000000000", "3000000000")]);
    assert!(told.iter().all(|turn| turn.follows.is_empty()), "their sender was in no span");
    assert_eq!((told[0].entered.len(), told[1].entered.len() >= 2), (1, true), "at each poll");
}

/// Panics when it is dropped.
struct Jam;

impl Drop for Jam {
    fn drop(&mut self) {
        quiet_panic("jammed");
    }
}

#[test]
fn the_outcome_is_said() {
    let resumed = || builder().panic_policy(PanicPolicy::Resume).spawn(Till::default()).unwrap();
    let outcome = |f: &dyn Fn(&Actor<Till>)| {
        let (book, till) = (Book::new(), resumed());
        book.read(|| f(&till));
        assert!(book.pages().spans.iter().all(Told::is_closed));
        book.outcomes()
    };
    assert_eq!(outcome(&|till| till.send(|_| quiet_panic("oops")).unwrap()), ["panicked"]);
    assert_eq!(
        outcome(&|till| assert!(till.call(|_| quiet_panic("oops")).wait().is_err())),
        ["panicked"]
    );
    // An answer without an asker is dropped in the turn.
    struct Ask;
    impl Handler<Ask> for Till {
        type Reply = Jam;
        fn handle(&mut self, _: Ask, _: &mut Context<'_, Self>) -> Jam {
            Jam
        }
    }
    assert_eq!(outcome(&|till| till.tell(Ask).unwrap()), ["panicked"]);
    assert_eq!(outcome(&|till| in_turn(|| till.tell(Ask).unwrap())), ["panicked"]);
    let with = |till: &Actor<Till>| {
        let run = || till.with(|_| quiet_panic("oops"));
        let _: Result<(), AskError> =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(Ok(()));
    };
    assert_eq!(outcome(&with), ["panicked"]);
    // Turns that wait.
    let asked = |f: &dyn Fn(&Actor<Till>) -> Result<(), AskError>, said: &str| {
        let (book, till) = (Book::new(), resumed());
        let answer = book.read(|| f(&till));
        assert_eq!(book.outcomes(), [said]);
        assert!(book.pages().spans.iter().all(Told::is_closed));
        answer
    };
    let panics = |till: &Actor<Till>| {
        let turn = till.run(async |_| {
            yield_now().await;
            quiet_panic("oops")
        });
        turn.wait()
    };
    assert!(matches!(asked(&panics, "panicked"), Err(AskError::Panicked(_))));
    let jams = |till: &Actor<Till>| {
        let jam = Jam;
        till.run(async move |_| {
            let _jam = &jam;
            yield_now().await;
        })
        .wait()
    };
    assert!(matches!(asked(&jams, "panicked"), Err(AskError::Panicked(_))));
    let aborts = |till: &Actor<Till>| {
        let (turn, handle) = till.run_abortable(async |_| {
            let (_kept, never) = promise::<()>();
            let _ = never.await;
        });
        handle.abort();
        turn.wait()
    };
    assert_eq!(asked(&aborts, "aborted"), Err(AskError::Aborted(ActorName::ANY)));
    let jams_at_abort = |till: &Actor<Till>| {
        let (turn, handle) = till.run_abortable(async |_| {
            let (_kept, never) = promise::<()>();
            let _jam = Jam;
            let _ = never.await;
        });
        handle.abort();
        turn.wait()
    };
    assert!(matches!(asked(&jams_at_abort, "panicked"), Err(AskError::Panicked(_))));
    let lost = |till: &Actor<Till>| till.run(async |_| pending::<()>().await).wait();
    assert_eq!(asked(&lost, "abandoned"), Err(AskError::Abandoned(ActorName::ANY)));
    let stops = |till: &Actor<Till>| {
        let turn = till.run(async |_| {
            let (_kept, never) = promise::<()>();
            let _ = never.await;
        });
        till.stop();
        turn.wait()
    };
    assert_eq!(asked(&stops, "stopped"), Err(AskError::Aborted(ActorName::ANY)));
}

#[test]
fn what_a_turn_does_is_inside_of_its_span() {
    let (first, second) =
        (builder().spawn(Till::default()).unwrap(), builder().spawn(Till::default()).unwrap());
    let book = Book::new();
    book.read(|| {
        first
            .send(move |_| {
                let inner = Span::current();
                assert_eq!(inner.metadata().map(|span| span.name()), Some("turn"));
                second.send(add).unwrap();
                assert_eq!(second.with(|till| till.0), Ok(1));
            })
            .unwrap();
        assert!(Span::current().is_none());
    });
    let follows: Vec<_> = book.turns().into_iter().map(|turn| turn.follows).collect();
    assert_eq!(follows, [vec![], vec!["turn"], vec!["turn"]]);
}

#[test]
fn an_actor_that_is_not_traced_has_no_spans() {
    must_end(|| {
        let till = Actor::builder().name("till").spawn(Till::default()).unwrap();
        let counted = Actor::builder().counted(true).traced(false).spawn(Till::default()).unwrap();
        for (way, _, send) in WAYS.iter().chain(WAITS).chain([&TRIES]) {
            let book = Book::new();
            book.read(|| {
                sender(|| send(&till));
                sender(|| send(&counted));
                until(|| till.is_idle() && counted.is_idle());
            });
            assert!(book.turns().is_empty(), "{way}");
        }
    });
}

#[test]
fn a_message_without_a_turn_has_no_span_and_leaves_none_open() {
    let book = Book::new();
    let given_back = Arc::new(Mutex::new(Vec::new()));
    book.read(|| {
        // Refused: closed, full, busy. The message is unchanged.
        let closed = builder().spawn(Till::default()).unwrap();
        closed.close();
        sender(|| {
            assert_eq!(closed.tell(COIN).unwrap_err().into_message().0, 4711);
            assert_eq!(closed.send_many([add, add]).unwrap_err().into_message().len(), 2);
            assert_eq!(closed.posted().tell(COIN).unwrap_err().into_message().0, 4711);
            assert_eq!(closed.ask(COIN).cancel().unwrap().0, 4711);
            assert_eq!(closed.ask_async(COIN).cancel().unwrap().0, 4711);
            assert_eq!(closed.waiting().tell(COIN).wait().unwrap_err().into_message().0, 4711);
            assert!(closed.with(add).is_err() && closed.try_with(add).is_err());
        });
        // Taken back, given back, displaced, dropped with its mailbox.
        let queue = DrainQueue::new();
        let told = given_back.clone();
        let hook = move |message: Undelivered<Till>| {
            if let Undelivered::Message(message) = message {
                told.lock().unwrap().push(message.downcast::<Coin>().unwrap().0);
            }
        };
        let full = || builder().executor(queue.handle()).capacity(4, Overflow::DropNewest);
        let till = full().on_undelivered(hook).spawn(Till::default()).unwrap();
        sender(|| {
            let (asked, run) = (till.ask(COIN), till.ask_async(COIN));
            till.tell(Coin(1)).unwrap();
            till.send(add).unwrap();
            till.tell(Coin(2)).unwrap();
            assert_eq!((asked.cancel().unwrap().0, run.cancel().unwrap().0), (4711, 4711));
            let late = till.call(add).within(Limit::Immediate);
            assert!(late.is_err(), "{late:?}");
        });
        till.stop();
        queue.run_until_idle();
        let dropped = full().spawn(Till::default()).unwrap();
        sender(|| dropped.tell(COIN).unwrap());
        let aborted = sender(|| dropped.run_abortable(async |_| ()));
        aborted.1.abort();
        drop(queue);
        assert!(aborted.0.wait().is_err());
    });
    assert_eq!(*given_back.lock().unwrap(), [2, 1]);
    assert!(book.turns().is_empty(), "{:#?}", book.turns());
    let pages = book.pages();
    assert!(!pages.spans.is_empty() && pages.spans.iter().all(Told::is_closed));
}

#[test]
fn the_senders_span_is_open_until_the_turn_begins() {
    let (queue, book) = (DrainQueue::new(), Book::new());
    let till = builder().executor(queue.handle()).spawn(Till::default()).unwrap();
    book.read(|| {
        sender(|| till.send(add).unwrap());
        assert!(!book.pages().spans[0].is_closed());
        let looks = book.clone();
        till.send(move |_| assert!(looks.pages().spans[0].is_closed())).unwrap();
        queue.run_until_idle();
    });
    assert_eq!(book.outcomes(), ["done", "done"]);
}

#[test]
fn a_turn_on_another_thread_is_told_to_its_senders_subscriber() {
    must_end(|| {
        let (queue, book) = (DrainQueue::new(), Book::new());
        let till = builder().executor(queue.handle()).spawn(Till::default()).unwrap();
        let asked = book.read(|| sender(|| till.ask(COIN)));
        let other = Book::new();
        thread::scope(|scope| {
            scope.spawn(|| other.read(|| queue.run_until_idle()));
        });
        assert_eq!(asked.wait(), Ok(4711));
        assert!(other.turns().is_empty());
        let turn = &book.turns()[0];
        assert_eq!(turn.follows, ["sender"]);
        assert_ne!(turn.entered, [thread::current().id()]);
    });
}

#[test]
fn a_subscriber_that_panics_harms_nobody() {
    must_end(|| {
        for call in
            ["new_span", "record", "follows_from", "enter", "exit", "clone", "close", "current"]
        {
            // It panics in the crate alone: the spans of the test are entered and left before.
            let armed = Arc::new(AtomicBool::new(false));
            let arms = armed.clone();
            let book = Book::and_then(move |now| {
                if now == call && arms.load(SeqCst) {
                    quiet_panic("in the subscriber");
                }
            });
            let harmed = |f: &dyn Fn()| {
                armed.store(true, SeqCst);
                f();
                armed.store(false, SeqCst);
            };
            let (queue, timers) = (DrainQueue::new(), Timers::by_hand(VirtualClock::new()));
            let resumes = || builder().timers(timers.clone()).panic_policy(PanicPolicy::Resume);
            let away = resumes().executor(queue.handle()).spawn(Till::default()).unwrap();
            let here = resumes().spawn(Till::default()).unwrap();
            book.read(|| {
                for (way, _, send) in WAYS.iter().chain(WAITS).chain([&TRIES]) {
                    sender(|| harmed(&|| send(&here)));
                    until(|| here.is_idle());
                    assert_eq!(here.stop_cause(), None, "{call}, {way}");
                }
                for (_, _, send) in WAYS {
                    sender(|| harmed(&|| send(&away)));
                    sender(|| harmed(&|| away.posted().send_after(Duration::ZERO, add).forget()));
                    harmed(&|| assert_eq!(timers.run_due(), 1));
                    harmed(&|| _ = queue.run_until_idle());
                    assert!(away.is_idle());
                }
                harmed(&|| {
                    let asked = here.call(|_| -> u64 { quiet_panic("in the turn") });
                    assert_eq!(asked.wait(), Err(AskError::Panicked("in the turn".into())));
                    assert!(here.with(|till| till.0).unwrap() > 0);
                });
            });
        }
    });
}

#[test]
fn a_subscriber_may_send_to_the_very_actor() {
    must_end(|| {
        let till = builder().spawn(Till::default()).unwrap();
        for call in ["new_span", "follows_from", "record", "enter", "exit", "close", "current"] {
            for (way, _, send) in WAYS.iter().chain(WAITS).chain([&TRIES]) {
                let (itself, once) = (till.clone(), Mutex::new(true));
                let book = Book::and_then(move |now| {
                    if now == call && std::mem::take(&mut *once.lock().unwrap()) {
                        itself.send(add).unwrap();
                        let asked = itself.with(|till| till.0);
                        assert!(matches!(
                            asked,
                            Ok(_) | Err(AskError::Refused(Reason::Deadlock(_), _))
                        ));
                    }
                });
                let before = till.with(|till| till.0).unwrap();
                book.read(|| sender(|| send(&till)));
                until(|| till.is_idle());
                assert!(till.with(|till| till.0).unwrap() > before, "{call}, {way}");
                assert_eq!(till.stop_cause(), None, "{call}, {way}");
            }
        }
    });
}

#[derive(Debug)]
struct Broken;

impl Clock for Broken {
    fn now(&self) -> Duration {
        quiet_panic("no time")
    }
}

#[test]
fn a_clock_that_panics_leaves_the_times_out() {
    let till = builder().clock(Broken).spawn(Till::default()).unwrap();
    let book = Book::new();
    book.read(|| sender(|| till.send(add).unwrap()));
    let turn = &book.turns()[0];
    assert_eq!((turn.field("wait_ns"), turn.field("run_ns"), turn.outcome()), ("", "0", "done"));
}

#[test]
fn a_restart_is_no_turn() {
    let policy = PanicPolicy::restart(Till::default);
    let till = builder().panic_policy(policy).spawn(Till::default()).unwrap();
    let book = Book::new();
    book.read(|| {
        till.send(|_| quiet_panic("oops")).unwrap();
        till.send(add).unwrap();
    });
    assert_eq!(book.outcomes(), ["panicked", "done"]);
    let (queue, plain) = queued(Till::default());
    book.read(|| plain.send(add).unwrap());
    queue.run_until_idle();
    assert_eq!(book.turns().len(), 2);
}

#[test]
fn a_rest_and_the_hooks_are_in_no_span() {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    let queue = DrainQueue::new();
    let book = Book::new();
    let restarts = Restarts::at_most(2, 60 * SECOND).backoff(SECOND, SECOND);
    let inside = Arc::new(Mutex::new(Vec::new()));
    let look = |of: &'static str| {
        let inside = inside.clone();
        move || inside.lock().unwrap().push((of, Span::current().is_none()))
    };
    let (factory, panics, ends) = (look("factory"), look("panic"), look("batch"));
    let policy = PanicPolicy::restart_within(restarts, move || {
        factory();
        Till::default()
    });
    let till = builder()
        .timers(timers.clone())
        .executor(queue.handle())
        .panic_policy(policy)
        .on_panic(move |_| panics())
        .on_batch_end(move |_, _| ends())
        .spawn(Till::default())
        .unwrap();
    book.read(|| {
        sender(|| till.send(|_| quiet_panic("oops")).unwrap());
        sender(|| till.send(add).unwrap());
        queue.run_until_idle();
        clock.advance(SECOND);
        timers.run_due();
        queue.run_until_idle();
    });
    assert_eq!(book.outcomes(), ["panicked", "done"]);
    let outside = ["panic", "factory", "batch"].map(|of| (of, true));
    assert_eq!(*inside.lock().unwrap(), outside);
    assert!(book.pages().spans.iter().all(Told::is_closed));
}

#[test]
fn a_closure_that_is_lent_inside_a_turn_has_one_span_and_none_if_it_is_refused() {
    must_end(|| {
        let till = builder().spawn(Till::default()).unwrap();
        let book = Book::new();
        book.read(|| {
            let lent = || in_turn(|| sender(|| till.with(add)));
            assert_eq!(lent(), Ok(()));
            // It waits for itself: refused, and its closure never runs.
            let itself = till.clone();
            let asks = move |_: &mut Till| {
                let refused = sender(|| itself.with(add));
                assert!(matches!(refused, Err(AskError::Refused(Reason::Deadlock(_), _))));
                let busy = sender(|| itself.try_with(add)).unwrap_err();
                assert!(matches!(busy.reason(), Reason::Deadlock(_)));
            };
            till.send(asks).unwrap();
        });
        let follows: Vec<_> = book.turns().into_iter().map(|turn| turn.follows).collect();
        assert_eq!(follows, [vec!["sender"], vec![]]);
        assert!(book.pages().spans.iter().all(Told::is_closed));
        assert_eq!(till.with(|till| till.0), Ok(1));
    });
}

#[test]
fn an_attempt_that_fails_gives_its_closure_back_and_asks_no_subscriber() {
    let asked = Arc::new(AtomicBool::new(false));
    let asks = asked.clone();
    let book = Book::and_then(move |call| _ = call == "current" && asks.swap(true, SeqCst));
    let till = builder().spawn(Till::default()).unwrap();
    let held = Held::hold(&till);
    book.read(|| {
        let kept = String::from("kept");
        let busy = till.try_with(|_| kept).unwrap_err();
        assert_eq!(busy.reason(), &Reason::Busy);
        let mut elsewhere = Till::default();
        assert_eq!(busy.into_message()(&mut elsewhere), "kept");
    });
    held.let_go();
    assert!(book.turns().is_empty() && !asked.load(SeqCst));
}

#[test]
fn a_turn_whose_executor_ends_is_stopped_and_closed() {
    let (queue, book) = (DrainQueue::new(), Book::new());
    let till = builder().executor(queue.handle()).counted(true).spawn(Till::default()).unwrap();
    book.read(|| {
        let (_go, gone) = promise::<()>();
        let turn = sender(|| till.run(async move |_| _ = gone.await));
        sender(|| till.tell(COIN).unwrap());
        queue.run_until_idle();
        drop(queue);
        assert!(turn.wait().is_err());
        till.ended().wait().unwrap();
    });
    assert_eq!(book.outcomes(), ["stopped"]);
    assert!(book.pages().spans.iter().all(Told::is_closed));
    let snapshot = till.snapshot();
    let stats = snapshot.stats.unwrap();
    assert_eq!((stats.handled, stats.undelivered, snapshot.discarded), (1, 1, 1));
}
