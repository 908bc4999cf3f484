//! What each version can do: the scenario and the table of differences call nothing else.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::hall::{Payment, Problem, Report, Ticket};

/// How a hall is opened.
#[derive(Clone)]
pub struct Opening {
    pub name: String,
    pub seats: u32,
    /// So many messages may wait.
    pub room: usize,
    /// After a panic the hall is opened anew. Without it, the library does what it does.
    pub restarts: bool,
    pub log: Log,
}

/// What is seen of a hall from outside.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// It was opened anew, after a panic.
    Reopened,
    /// A release was accepted, and will not be run.
    Lost(Ticket),
    /// The actor has ended, in this state.
    Ended(Report),
}

#[derive(Clone)]
pub struct Log(mpsc::UnboundedSender<Event>);

impl Log {
    pub fn new() -> (Log, mpsc::UnboundedReceiver<Event>) {
        let (log, events) = mpsc::unbounded_channel();
        (Log(log), events)
    }

    pub fn say(&self, event: Event) {
        let _ = self.0.send(event);
    }
}

/// A question without a good answer.
#[derive(Debug)]
pub struct Failure {
    pub problem: Problem,
    /// The library's own word for it; none if the hall itself has answered.
    pub said: String,
}

impl Failure {
    pub fn new(problem: Problem, said: impl Into<String>) -> Self {
        Failure { problem, said: said.into() }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::new(problem, "")
    }
}

/// What became of a message that is not waited for.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    Taken,
    /// With the library's word for it. `back`: the caller has the message again.
    Refused {
        said: String,
        back: bool,
    },
    /// The call would wait for room.
    Waits,
}

/// What this future has at once, if it has.
pub fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A hall whose seats are guarded by an actor.
// The futures are awaited where they are made, and actix's are not `Send`.
#[allow(async_fn_in_trait)]
pub trait Service: Sized {
    const LIBRARY: &'static str;

    /// Runs this in what the library needs around it. On one thread: who sees that the bank is asked
    /// sees a turn that awaits, and not one that is about to.
    fn block_on<R>(work: impl Future<Output = R>) -> R {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime")
            .block_on(work)
    }

    async fn open(opening: Opening) -> Self;

    /// Another handle, by the actor's name.
    fn find(_name: &str) -> Option<Self> {
        None
    }

    /// A question.
    async fn reserve(&self, seats: u32) -> Result<Ticket, Failure>;

    /// A question that is asked, and whose answer is dropped before it is awaited.
    fn reserve_unawaited(&self, seats: u32);

    /// A question with a limit.
    async fn reserve_within(&self, seats: u32, limit: Duration) -> Result<Ticket, Failure>;

    /// A message without an answer. It does not wait.
    fn release(&self, ticket: Ticket) -> Sent;

    /// A question whose turn awaits the bank.
    async fn confirm(&self, ticket: Ticket, payment: Payment) -> Result<(), Failure>;

    /// A question whose turn may panic.
    async fn refund(&self, ticket: Ticket) -> Result<u32, Failure>;

    async fn report(&self) -> Result<Report, Failure>;

    /// The same, by the handle that the hall was opened with.
    async fn report_to_first_handle(&self) -> Result<Report, Failure> {
        self.report().await
    }

    /// What was sent before is run; then the actor ends.
    async fn close(&self);

    /// The actor ends before what waits is run, if the library can do that.
    async fn stop(&self);

    /// Waits for the end.
    async fn ended(&self);
}
