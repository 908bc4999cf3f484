//! An executor that has ended: the first sender gets the message back, and so does each later one.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{Tally, Token, block_on, in_turn, must_end, size, until, yield_now};
use turnwise::executor::{Blocking, DrainQueue, Shutdown};
use turnwise::{
    Actor, AskError, Context, Drain, EndCause, Executor, Handler, Limit, Promise, Reason, Reply,
    SendError, StopCause, ThreadPool, WaitError, promise,
};

const GONE: Reason = Reason::Stopped(StopCause::ExecutorGone);

/// The number of messages that it has handled.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Handler<Token> for Counter {
    type Reply = ();

    fn handle(&mut self, token: Token, _: &mut Context<'_, Self>) {
        closure(token)(self);
    }
}

fn closure(token: Token) -> impl FnOnce(&mut Counter) + Send + 'static {
    move |counter: &mut Counter| {
        counter.0.fetch_add(1, SeqCst);
        token.come_back();
    }
}

/// Runs returned closures on a state of the test's own, to check that they are the ones that were
/// sent.
fn closures_back<F: FnOnce(&mut Counter)>(messages: impl IntoIterator<Item = F>, count: usize) {
    let mut own = Counter::default();
    messages.into_iter().for_each(|message| message(&mut own));
    assert_eq!(own.0.load(SeqCst), count);
}

fn back<M>(sent: Result<(), SendError<M>>) -> M {
    let (message, reason) = sent.expect_err("it was accepted").into_parts();
    assert_eq!(reason, GONE);
    message
}

fn closure_back<F: FnOnce(&mut Counter)>(sent: Result<(), SendError<F>>) {
    closures_back([back(sent)], 1);
}

fn question_back(reply: Reply<(), Token>) {
    assert!(reply.is_ready());
    reply.cancel().expect("a question that was refused").come_back();
}

fn refused<R>(answer: Result<R, AskError>) {
    assert_eq!(answer.map(drop), Err(AskError::from(GONE)));
}

fn refused_in_time<R, M>(answer: Result<R, WaitError<R, M>>) {
    let refused =
        matches!(&answer, Err(WaitError::Ask(AskError::Refused(reason, _))) if *reason == GONE);
    assert!(refused, "{:?}", answer.map(drop));
}

type Verb = fn(&Actor<Counter>, &Tally);

/// Each verb, and the number of messages that are returned: three of `send_many`. The closure of a
/// refused `call` is dropped.
const VERBS: &[(&str, usize, Verb)] = &[
    ("send", 1, |n, t| closure_back(n.send(closure(t.token())))),
    ("tell", 1, |n, t| back(n.tell(t.token())).come_back()),
    ("send_many", 3, |n, t| {
        closures_back(back(n.send_many((0..3).map(|_| closure(t.token())))), 3);
    }),
    ("call", 0, |n, t| refused(n.call(closure(t.token())).wait())),
    ("call polled", 0, |n, t| refused(block_on(n.call(closure(t.token()))))),
    ("call within", 0, |n, t| {
        refused_in_time(n.call(closure(t.token())).within(Duration::from_secs(50)));
    }),
    ("ask", 1, |n, t| question_back(n.ask(t.token()))),
    ("with", 0, |n, t| refused(n.with(closure(t.token())))),
    ("posted send", 1, |n, t| closure_back(n.posted().send(closure(t.token())))),
    ("posted tell", 1, |n, t| back(n.posted().tell(t.token())).come_back()),
    ("posted call", 0, |n, t| refused(n.posted().call(closure(t.token())).wait())),
    ("posted ask", 1, |n, t| question_back(n.posted().ask(t.token()))),
    ("waiting send", 1, |n, t| closure_back(n.waiting().send(closure(t.token())).wait())),
    ("waiting send polled", 1, |n, t| {
        closure_back(block_on(n.waiting().send(closure(t.token()))));
    }),
    ("waiting tell", 1, |n, t| {
        back(n.waiting().tell(t.token()).within(Duration::from_secs(50))).come_back();
    }),
    ("waiting call", 0, |n, t| refused(n.waiting().call(closure(t.token())).wait())),
    ("waiting ask", 0, |n, t| {
        refused_in_time(n.waiting().ask(t.token()).within(Duration::from_secs(50)));
    }),
];

/// Actors of an executor, one for each verb.
struct Actors {
    of: Vec<Actor<Counter>>,
    handled: Counter,
    ends: mpsc::Receiver<EndCause>,
    undelivered: Arc<AtomicUsize>,
}

impl Actors {
    fn on(executor: &(impl Executor + Clone + 'static)) -> Self {
        let (ended, ends) = mpsc::channel();
        let (handled, undelivered) = (Counter::default(), Arc::new(AtomicUsize::new(0)));
        let one = |_| {
            let (ended, undelivered) = (ended.clone(), undelivered.clone());
            Actor::builder()
                .executor(executor.clone())
                .on_end(move |_, cause| ended.send(cause).unwrap())
                .on_undelivered(move |_| _ = undelivered.fetch_add(1, SeqCst))
                .spawn(handled.clone())
                .unwrap()
        };
        Actors { of: VERBS.iter().map(one).collect(), handled, ends, undelivered }
    }

    /// Checks the actors of an executor that has ended, unseen.
    fn check(self) {
        let tally = Tally::default();
        let mut back = 0;
        for (actor, (name, count, verb)) in self.of.iter().zip(VERBS) {
            let case = || format!("{name}: {actor:?}");
            assert_eq!(actor.stop_cause(), None, "{}", case());
            verb(actor, &tally);
            assert_eq!(actor.stop_cause(), Some(StopCause::ExecutorGone), "{}", case());
            // And so does each later sender.
            verb(actor, &tally);
            back += 2 * count;
            assert_eq!(tally.returned(), back, "{}", case());
            assert_eq!(actor.ended().within(Limit::Unlimited), Ok(true), "{}", case());
        }
        tally.check();
        drop(self.of);
        assert_eq!(self.handled.0.load(SeqCst), 0);
        assert_eq!(self.undelivered.load(SeqCst), 0, "they have come back");
        let ends = self.ends.try_iter().collect::<Vec<_>>();
        assert_eq!(ends, vec![EndCause::Stopped(StopCause::ExecutorGone); VERBS.len()]);
    }
}

/// Checks actors created before the end of the executor, and after it; their senders inside a turn,
/// and outside.
fn check(executor: impl Executor + Clone + 'static, end: impl FnOnce()) {
    let (before, inside) = (Actors::on(&executor), Actors::on(&executor));
    end();
    before.check();
    Actors::on(&executor).check();
    in_turn(|| inside.check());
}

#[test]
fn a_pool_that_was_shut_down() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        check(pool.handle(), || assert!(pool.shutdown(Limit::Unlimited).is_complete()));
    });
}

#[test]
fn a_pool_that_was_cut_off() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        check(pool.handle(), || _ = pool.shutdown_now());
    });
}

#[test]
fn a_pool_that_is_about_to_end() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap();
        let handle = pool.handle();
        let (open, gate) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel();
        let holds = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let turn = move |_: &mut ()| {
            began.send(()).unwrap();
            let _ = gate.recv();
        };
        holds.send(turn).unwrap();
        begun.recv().unwrap();
        check(handle, || drop(pool));
        drop(open);
    });
}

#[test]
fn a_queue_that_was_closed() {
    must_end(|| {
        let queue = DrainQueue::new();
        check(queue.handle(), || queue.close());
        assert_eq!(queue.run_until_closed(), 0);
    });
}

#[test]
fn a_queue_that_was_dropped() {
    must_end(|| {
        let queue = DrainQueue::new();
        check(queue.handle(), || drop(queue));
    });
}

#[cfg(feature = "tokio")]
#[test]
fn a_runtime_that_was_shut_down() {
    use tokio::runtime::Builder;
    use turnwise::executor::Tokio;
    for (workers, blocking) in [(0, false), (0, true), (2, false), (2, true)] {
        must_end(move || {
            let mut builder = match workers {
                0 => Builder::new_current_thread(),
                _ => Builder::new_multi_thread(),
            };
            let runtime = builder.worker_threads(workers.max(1)).build().unwrap();
            let handle = runtime.handle().clone();
            let executor = if blocking { Tokio::for_blocking(handle) } else { Tokio::new(handle) };
            check(executor, || drop(runtime));
        });
    }
}

#[test]
fn an_executor_that_says_so() {
    #[derive(Clone, Default)]
    struct Own(Arc<AtomicBool>);
    impl Executor for Own {
        fn execute(&self, drain: Drain) {
            assert!(self.0.load(SeqCst), "nothing is sent before");
            drop(drain);
        }
        fn is_closed(&self) -> bool {
            self.0.load(SeqCst)
        }
    }
    must_end(|| {
        let own = Own::default();
        check(own.clone(), || own.0.store(true, SeqCst));
    });
}

/// Messages accepted before are answered, whichever call finds the end first.
#[test]
fn what_was_accepted_before_goes_to_the_hook() {
    must_end(|| {
        let queue = DrainQueue::new();
        let tally = Tally::default();
        let (tell, told) = mpsc::channel();
        let n = Actor::builder().executor(queue.handle());
        let n = n
            .on_undelivered(move |message| tell.send(message).unwrap())
            .spawn(Counter::default())
            .unwrap();
        let handled = n.call(|n| n.clone());
        n.send(closure(tally.token())).unwrap();
        n.tell(tally.token()).unwrap();
        let asked = n.ask(tally.token());
        drop(queue);
        closure_back(n.send(closure(tally.token())));
        refused(handled.wait());
        refused(asked.wait());
        assert_eq!(n.ended().within(Limit::Unlimited), Ok(true));
        let undelivered = told.try_iter().collect::<Vec<_>>();
        assert_eq!(undelivered.len(), 2, "a question is answered, and goes to no other");
        drop((undelivered, n));
        assert_eq!((tally.created(), tally.returned(), tally.dropped()), (4, 1, 3));
    });
}

/// An actor whose turn is suspended, with messages behind it and a thread that waits.
struct Suspended {
    actor: Actor<Counter>,
    tally: Tally,
    /// Wakes the turn.
    promise: Promise<()>,
    turn: Reply<()>,
    call: Reply<()>,
    ask: Reply<(), Token>,
    waits: thread::JoinHandle<Result<(), AskError>>,
    ended: mpsc::Receiver<EndCause>,
    undelivered: Arc<AtomicUsize>,
}

impl Suspended {
    /// `run`: runs the drains of the executor.
    fn on(executor: impl Executor + 'static, run: impl Fn()) -> Self {
        let (tally, undelivered) = (Tally::default(), Arc::new(AtomicUsize::new(0)));
        let (end, ended) = mpsc::channel();
        let count = undelivered.clone();
        let actor = Actor::builder()
            .executor(executor)
            .on_end(move |_, cause| end.send(cause).unwrap())
            .on_undelivered(move |_| _ = count.fetch_add(1, SeqCst))
            .spawn(Counter::default())
            .unwrap();
        // A turn that is over leaves nothing that is found later.
        let over = actor.run(async |_| yield_now().await);
        until(|| {
            run();
            over.is_ready()
        });
        let (promise, kept) = promise();
        let token = tally.token();
        let turn = actor.run(async move |_| {
            let _token = token;
            kept.await.unwrap();
        });
        until(|| {
            run();
            waits(&actor)
        });
        actor.send(closure(tally.token())).unwrap();
        let call = actor.call(closure(tally.token()));
        let ask = actor.ask(tally.token());
        let (theirs, token) = (actor.clone(), tally.token());
        let thread = thread::spawn(move || theirs.with(closure(token)));
        until(|| format!("{actor:?}").contains("a turn waits, 4 queued"));
        Suspended { actor, tally, promise, turn, call, ask, waits: thread, ended, undelivered }
    }

    /// Checks that the future was dropped, waiting messages were given back, and all askers have
    /// answers.
    fn check(self) {
        assert_eq!(self.turn.wait(), Err(AskError::Aborted(turnwise::ActorName::ANY)));
        refused(self.call.wait());
        refused(self.ask.wait());
        refused(self.waits.join().unwrap());
        assert_eq!(self.actor.ended().within(Limit::Unlimited), Ok(true));
        assert_eq!(self.ended.recv(), Ok(EndCause::Stopped(StopCause::ExecutorGone)));
        assert_eq!(self.undelivered.load(SeqCst), 1, "the closure that was sent");
        closure_back(self.actor.send(closure(self.tally.token())));
        self.promise.keep(());
        drop(self.actor);
        self.tally.check();
        assert_eq!(self.tally.dropped(), self.tally.created() - 1);
    }
}

/// True if a turn is suspended, with nothing queued.
fn waits(actor: &Actor<Counter>) -> bool {
    format!("{actor:?}").contains("a turn waits")
}

#[test]
fn a_turn_suspended_on_a_pool_that_is_shut_down() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let [one, other] = [(); 2].map(|()| Suspended::on(pool.handle(), || ()));
        let shutdown = pool.shutdown(Limit::Unlimited);
        assert_eq!(shutdown, Shutdown::Cut { dropped: 2, threads: 0 });
        one.check();
        other.check();
    });
}

#[test]
fn a_turn_suspended_on_a_pool_that_is_cut_off() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let suspended = Suspended::on(pool.handle(), || ());
        assert!(!pool.shutdown_now().is_complete());
        assert!(suspended.turn.is_ready() && suspended.call.is_ready(), "before it returns");
        suspended.check();
    });
}

#[test]
fn a_turn_suspended_on_a_pool_that_is_dropped() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let suspended = Suspended::on(pool.handle(), || ());
        drop(pool);
        suspended.check();
    });
}

/// A pool that ends may wake its turns while it runs; it is complete if none is left.
#[test]
fn a_turn_that_a_closing_pool_goes_on_with() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let n = Actor::builder().executor(pool.handle()).spawn(Counter::default()).unwrap();
        let other = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let (promise, kept) = promise();
        let turn = n.run(async move |_| kept.await.unwrap());
        let keeps = move |_: &mut ()| {
            gate.recv().unwrap();
            promise.keep(7);
        };
        other.send(keeps).unwrap();
        let thread = thread::spawn(move || pool.shutdown(Limit::Unlimited));
        open.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), Shutdown::Complete);
        assert_eq!(turn.wait(), Ok(7));
    });
}

/// One that is woken from outside is cut, and the pool is not complete.
#[test]
fn a_turn_that_a_closing_pool_is_not_let_go_on_with() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(1).build().unwrap();
        let n = Actor::builder().executor(pool.handle()).spawn(Counter::default()).unwrap();
        let other = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let (promise, kept) = promise();
        let turn = n.run(async move |_| kept.await.unwrap());
        let behind = n.call(|_| ());
        other.send(move |_| gate.recv().unwrap()).unwrap();
        // The turn is suspended when the other actor's has begun.
        until(|| !other.is_idle() && format!("{n:?}").contains("a turn waits"));
        let handle = pool.handle();
        let thread = thread::spawn(move || pool.shutdown(Limit::Unlimited));
        until(|| handle.is_closed());
        promise.keep(7);
        refused(behind.wait());
        assert!(matches!(turn.wait(), Err(AskError::Aborted(_))));
        open.send(()).unwrap();
        let shutdown = thread.join().unwrap();
        assert!(matches!(shutdown, Shutdown::Cut { dropped: 1, threads: 0 }), "{shutdown:?}");
    });
}

#[test]
fn a_turn_suspended_on_a_queue_that_is_closed() {
    must_end(|| {
        let queue = DrainQueue::new();
        let suspended = Suspended::on(queue.handle(), || _ = queue.run_until_idle());
        queue.close();
        suspended.check();
        let queue = DrainQueue::new();
        let suspended = Suspended::on(queue.handle(), || _ = queue.run_until_idle());
        in_turn(|| queue.close());
        suspended.check();
    });
}

#[test]
fn a_turn_suspended_on_a_queue_that_is_dropped() {
    must_end(|| {
        let queue = DrainQueue::new();
        let suspended = Suspended::on(queue.handle(), || _ = queue.run_until_idle());
        drop(queue);
        suspended.check();
    });
}

#[cfg(feature = "tokio")]
#[test]
fn a_turn_suspended_on_a_runtime_that_is_shut_down() {
    use tokio::runtime::Builder;
    use turnwise::executor::Tokio;
    for blocking in [false, true] {
        must_end(move || {
            let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
            let handle = runtime.handle().clone();
            let executor = if blocking { Tokio::for_blocking(handle) } else { Tokio::new(handle) };
            let suspended = Suspended::on(executor, || ());
            drop(runtime);
            suspended.check();
        });
    }
    must_end(|| {
        let runtime = Builder::new_current_thread().build().unwrap();
        let executor = Tokio::new(runtime.handle().clone());
        let run = || runtime.block_on(async { tokio::task::yield_now().await });
        let suspended = Suspended::on(executor, run);
        drop(runtime);
        suspended.check();
    });
}

/// An executor of the program's own, which drops its drains at its end and reports that when asked.
#[derive(Clone, Default)]
struct Own(Arc<(AtomicBool, Mutex<Vec<Drain>>)>);

impl Own {
    fn run(&self) {
        let drains = std::mem::take(&mut *self.0.1.lock().unwrap());
        drains.into_iter().for_each(Drain::run);
    }
    fn end(&self) {
        self.0.0.store(true, SeqCst);
    }
}

impl Executor for Own {
    fn execute(&self, drain: Drain) {
        if !self.is_closed() {
            self.0.1.lock().unwrap().push(drain);
        }
    }
    fn is_closed(&self) -> bool {
        self.0.0.load(SeqCst)
    }
}

/// The first message after the end finds it, whatever the verb.
#[test]
fn a_turn_suspended_on_an_executor_of_ones_own() {
    must_end(|| {
        for (name, count, verb) in VERBS {
            let own = Own::default();
            let suspended = Suspended::on(own.clone(), || own.run());
            own.end();
            let tally = Tally::default();
            verb(&suspended.actor, &tally);
            assert_eq!(tally.returned(), *count, "{name}");
            suspended.check();
        }
    });
}

/// A thread that looks at the actor, as a table does, does not keep the message from that.
#[test]
fn a_turn_suspended_on_an_executor_of_ones_own_is_looked_at() {
    must_end(|| {
        for _ in 0..size(100, 1_000) {
            let own = Own::default();
            let suspended = Suspended::on(own.clone(), || own.run());
            let (actor, looks) = (&suspended.actor, AtomicUsize::new(0));
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(SeqCst) {
                        let _ = actor.snapshot();
                        looks.fetch_add(1, SeqCst);
                    }
                });
                until(|| looks.load(SeqCst) > 0);
                own.end();
                refused(actor.call(|_| ()).wait());
                over.store(true, SeqCst);
            });
            suspended.check();
        }
    });
}

/// A message that came while the turn ran is no reason to ask. So the next await is.
#[test]
fn a_turn_that_is_suspended_again_on_an_executor_of_ones_own() {
    must_end(|| {
        let own = Own::default();
        let actor = Actor::builder().executor(own.clone()).spawn(()).unwrap();
        let ((first, one), (_never, other)) = (promise::<()>(), promise::<()>());
        let (tell, told) = mpsc::channel();
        let (theirs, itself) = (own.clone(), actor.clone());
        let turn = actor.run(async move |_| {
            one.await.unwrap();
            theirs.end();
            tell.send(itself.call(|_| ())).unwrap();
            drop(other.await);
        });
        own.run();
        first.keep(());
        own.run();
        refused(told.recv().unwrap().wait());
        assert_eq!(turn.wait(), Err(AskError::Aborted(turnwise::ActorName::ANY)));
    });
}

/// A thread that has a long list of such actors does not ask their executor for all of them each
/// time that its budget is spent.
#[test]
fn a_long_list_is_not_offered_for_each_budget() {
    struct Counts(Own, Arc<AtomicUsize>);
    impl Executor for Counts {
        fn execute(&self, drain: Drain) {
            self.1.fetch_add(1, SeqCst);
            self.0.execute(drain);
        }
    }
    must_end(|| {
        let (own, asked, tally) = (Own::default(), Arc::<AtomicUsize>::default(), Tally::default());
        let actors = 40_000;
        for _ in 0..actors {
            let executor = Counts(own.clone(), asked.clone());
            let n = Actor::builder().executor(executor).spawn(Counter::default()).unwrap();
            n.tell(tally.token()).unwrap();
        }
        own.end();
        asked.store(0, SeqCst);
        let drains = std::mem::take(&mut *own.0.1.lock().unwrap());
        Actor::new(()).send(move |()| drop(drains)).unwrap();
        until(|| tally.dropped() == actors);
        assert!(asked.load(SeqCst) <= actors, "{} times", asked.load(SeqCst));
    });
}

/// An executor that ends between the first poll and the suspension, or meanwhile.
#[test]
fn a_turn_that_is_suspended_as_its_executor_ends() {
    must_end(|| {
        for round in 0..crate::common::size(200, 5000) {
            let pool = ThreadPool::builder().threads(1).build().unwrap();
            let n = Actor::builder().executor(pool.handle()).spawn(Counter::default()).unwrap();
            let (promise, kept) = promise::<()>();
            let turn = n.run(async move |_| {
                if round % 2 == 0 {
                    yield_now().await;
                }
                kept.await.unwrap();
            });
            let call = n.call(closure(Tally::default().token()));
            let _ = pool.shutdown_now();
            assert!(turn.wait().is_err());
            refused(call.wait());
            assert_eq!(n.stop_cause(), Some(StopCause::ExecutorGone));
            drop(promise);
        }
        // By the turn itself.
        let queue = Arc::new(DrainQueue::new());
        let n = Actor::builder().executor(queue.handle()).spawn(Counter::default()).unwrap();
        let (promise, kept) = promise::<()>();
        let theirs = queue.clone();
        let turn = n.run(async move |_| {
            theirs.close();
            kept.await.unwrap();
        });
        assert_eq!(queue.run_until_idle(), 1);
        assert_eq!(turn.wait(), Err(AskError::Aborted(turnwise::ActorName::ANY)));
        assert_eq!(n.ended().within(Limit::Unlimited), Ok(true));
        drop(promise);
    });
}
