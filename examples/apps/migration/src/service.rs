//! The interface of each version: the scenario and the table of differences call nothing else.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::hall::{Payment, Problem, Report, Ticket};

/// The parameters of a hall.
#[derive(Clone)]
pub struct Opening {
    pub name: String,
    pub seats: u32,
    /// The number of messages that may wait.
    pub room: usize,
    /// True if the hall is opened anew after a panic. Otherwise the library's own behaviour
    /// applies.
    pub restarts: bool,
    pub log: Log,
}

/// An event of a hall that is visible from outside.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The hall was opened anew, after a panic.
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

/// A failed request.
#[derive(Debug)]
pub struct Failure {
    pub problem: Problem,
    /// The library's own name for it; none if the hall itself has answered.
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

/// The outcome of a message without an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    Taken,
    /// With the library's name for it. `back`: the caller gets the message back.
    Refused {
        said: String,
        back: bool,
    },
    /// The call would wait for room.
    Waits,
}

/// Polls a future once, and returns its output if it is ready.
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

    /// Runs this in the runtime of the library. On one thread: once the bank has a request, the
    /// turn already awaits its answer.
    fn block_on<R>(work: impl Future<Output = R>) -> R {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime")
            .block_on(work)
    }

    async fn open(opening: Opening) -> Self;

    /// Finds another handle by the actor's name.
    fn find(_name: &str) -> Option<Self> {
        None
    }

    /// Sends a request.
    async fn reserve(&self, seats: u32) -> Result<Ticket, Failure>;

    /// Sends a request whose answer is dropped before it is awaited.
    fn reserve_unawaited(&self, seats: u32);

    /// Sends a request with a limit.
    async fn reserve_within(&self, seats: u32, limit: Duration) -> Result<Ticket, Failure>;

    /// Sends a message without an answer. Does not wait.
    fn release(&self, ticket: Ticket) -> Sent;

    /// Sends a request whose turn awaits the bank.
    async fn confirm(&self, ticket: Ticket, payment: Payment) -> Result<(), Failure>;

    /// Sends a request whose turn may panic.
    async fn refund(&self, ticket: Ticket) -> Result<u32, Failure>;

    async fn report(&self) -> Result<Report, Failure>;

    /// Requests the report by the handle that the hall was opened with.
    async fn report_to_first_handle(&self) -> Result<Report, Failure> {
        self.report().await
    }

    /// Runs all earlier messages; then ends the actor.
    async fn close(&self);

    /// Ends the actor before waiting messages run, if the library can do that.
    async fn stop(&self);

    /// Waits for the end of the actor.
    async fn ended(&self);
}
