//! An executor that has gone: whoever sends first gets the message back, and so does everyone
//! after.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc;
use std::time::Duration;

use common::{Tally, Token, block_on, in_turn, must_end};
use turnwise::executor::{Blocking, DrainQueue};
use turnwise::{
    Actor, AskError, Context, Drain, EndCause, Executor, Handler, Limit, Reason, Reply, SendError,
    StopCause, ThreadPool, WaitError,
};

const GONE: Reason = Reason::Stopped(StopCause::ExecutorGone);

/// How many messages it has handled.
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

/// Closures that came back are run on a state of the test's own: they are the ones that were sent.
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

/// Each verb, and how many messages come back: three of `send_many`. The closure of a `call` that
/// is refused is dropped.
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
            Actor::builder(handled.clone())
                .executor(executor.clone())
                .on_end(move |_, cause| ended.send(cause).unwrap())
                .on_undelivered(move |_| _ = undelivered.fetch_add(1, SeqCst))
                .spawn()
                .unwrap()
        };
        Actors { of: VERBS.iter().map(one).collect(), handled, ends, undelivered }
    }

    /// The executor has gone, unseen.
    fn check(self) {
        let tally = Tally::default();
        let mut back = 0;
        for (actor, (name, count, verb)) in self.of.iter().zip(VERBS) {
            let case = || format!("{name}: {actor:?}");
            assert_eq!(actor.stop_cause(), None, "{}", case());
            verb(actor, &tally);
            assert_eq!(actor.stop_cause(), Some(StopCause::ExecutorGone), "{}", case());
            // And whoever comes later.
            verb(actor, &tally);
            back += 2 * count;
            assert_eq!(tally.returned(), back, "{}", case());
            assert_eq!(actor.wait_ended(Limit::Unlimited), Ok(true), "{}", case());
        }
        tally.check();
        drop(self.of);
        assert_eq!(self.handled.0.load(SeqCst), 0);
        assert_eq!(self.undelivered.load(SeqCst), 0, "they have come back");
        let ends = self.ends.into_iter().collect::<Vec<_>>();
        assert_eq!(ends, vec![EndCause::Stopped(StopCause::ExecutorGone); VERBS.len()]);
    }
}

/// Actors made before the executor goes, and after that; their senders inside a turn, and outside.
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
        let holds = Actor::builder(()).executor(pool.handle()).spawn().unwrap();
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

/// What was accepted before is answered, whoever is told of the end first.
#[test]
fn what_was_accepted_before_goes_to_the_hook() {
    must_end(|| {
        let queue = DrainQueue::new();
        let tally = Tally::default();
        let (tell, told) = mpsc::channel();
        let n = Actor::builder(Counter::default()).executor(queue.handle());
        let n = n.on_undelivered(move |message| tell.send(message).unwrap()).spawn().unwrap();
        let handled = n.call(|n| n.clone());
        n.send(closure(tally.token())).unwrap();
        n.tell(tally.token()).unwrap();
        let asked = n.ask(tally.token());
        drop(queue);
        closure_back(n.send(closure(tally.token())));
        refused(handled.wait());
        refused(asked.wait());
        assert_eq!(n.wait_ended(Limit::Unlimited), Ok(true));
        let undelivered = told.try_iter().collect::<Vec<_>>();
        assert_eq!(undelivered.len(), 2, "a question is answered, and goes to nobody else");
        drop((undelivered, n));
        assert_eq!((tally.created(), tally.returned(), tally.dropped()), (4, 1, 3));
    });
}
