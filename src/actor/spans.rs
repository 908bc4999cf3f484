//! The span of a turn, for actors that are traced: see [`ActorBuilder::traced`].
//!
//! What a span needs of its sender travels with the message, as an [`Origin`] beside it, so it is
//! there as long as the message and goes where that goes: to its turn, back to its sender, to the
//! undelivered hook. Messages are wrapped where the verbs send them ([`Traced`]; a closure that
//! borrows from its caller is wrapped in another one). The floors below know nothing of it, and a
//! message for an actor that is not traced is what it always was.
//!
//! | of a turn | is in the span |
//! |---|---|
//! | closure or handler; the drop of an answer without an asker | yes |
//! | each poll of its future, and the drop of the future | yes; not the time between |
//! | hooks, the panic policy, the fresh state of a restart | no |
//!
//! A subscriber is user code ([`crate::panic`]): each call of it is caught by itself, no lock is
//! held meanwhile, and no thread unwinds ([`Span`]'s own guard would leave a span while one does).
//!
//! [`ActorBuilder::traced`]: crate::ActorBuilder::traced

#![forbid(unsafe_code)]

use std::any::type_name;
use std::mem;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Dispatch, Level, Span, dispatcher, span};

use super::outgoing::{Returned, Shown};
use crate::cell::config::Undelivered;
use crate::cell::header::Header;
use crate::cell::message::Message;
use crate::cell::observe::told;
use crate::cell::refs::Strong;
use crate::cell::resident::InTurn;
use crate::cell::settings::OBSERVED;
use crate::error::{AskError, Reason};
use crate::panic::{self, Payload};
use crate::time::{Clock, MonotonicClock};
use crate::turn::envelope::awaited::AsyncMessage;

/// The span that a message comes from, and the time at which it was sent.
pub(super) struct Origin {
    /// The span that its sender was in. It stays open until the turn begins.
    sender: Span,
    /// By the actor's clock.
    sent: Option<Duration>,
}

/// The origin of a message that this thread sends now, if the actor is traced.
#[inline(always)]
pub(super) fn origin<S>(handle: &Strong<S>) -> Option<Origin> {
    is_traced(handle).then(|| Origin::here(handle.header()))
}

/// True if each turn of the actor has a span.
#[inline(always)]
pub(super) fn is_traced<S>(handle: &Strong<S>) -> bool {
    handle.tags() & OBSERVED != 0 && handle.header().config().observers.traces
}

impl Origin {
    /// The origin of a message that this thread sends now.
    #[cold]
    pub(super) fn here(header: &Header) -> Self {
        let sender = told(Span::none(), Span::current);
        Origin { sender, sent: moment(header.clock()) }
    }

    /// A message from here.
    pub(super) fn of_message<L: Shown>(self, message: L) -> Traced<L> {
        Traced { message, origin: self }
    }

    /// A closure from here, which is run on a state of that actor.
    pub(super) fn of_closure<S, F, R>(self, header: &Header, f: F) -> impl FnOnce(&mut S) -> R
    where
        F: FnOnce(&mut S) -> R,
    {
        move |state| self.turn(header, type_name::<F>(), || f(state))
    }

    /// Sends what is due later: as from the span that it was armed in.
    pub(super) fn send<R>(self, send: impl FnOnce() -> R) -> R {
        tell(|| enter(&self.sender));
        let sent = panic::catch(send);
        tell(|| exit(&self.sender));
        sent.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Runs a turn from its beginning to its end.
    fn turn<R>(self, header: &Header, kind: &'static str, f: impl FnOnce() -> R) -> R {
        self.begin(header, kind).end_by(f, DONE)
    }

    fn begin(self, header: &Header, kind: &'static str) -> TurnSpan {
        let clock = header.config().clock.clone();
        let now = moment(header.clock());
        let wait = self.sent.zip(now).map(|(sent, now)| nanos(now.saturating_sub(sent)));
        let child = header.config().observers.child_spans;
        let open = || {
            span!(
                target: "turnwise",
                parent: self.sender.id().filter(|_| child),
                Level::INFO,
                "turn",
                actor = header.name(),
                kind,
                wait_ns = wait,
                run_ns = Empty,
                outcome = Empty,
            )
        };
        let span = told(Span::none(), || {
            // By the sender's subscriber: to another one its span would mean nothing.
            let beside = |dispatch: &Dispatch| dispatcher::with_default(dispatch, open);
            let beside = self.sender.with_subscriber(|(_, dispatch)| beside(dispatch));
            beside.unwrap_or_else(open)
        });
        if !child {
            tell(|| _ = span.follows_from(&self.sender));
        }
        TurnSpan { span, clock, run: Duration::ZERO }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let sender = mem::replace(&mut self.sender, Span::none());
        tell(|| drop(sender));
    }
}

// What `outcome` may be.
const DONE: &str = "done";
const PANICKED: &str = "panicked";
const ABORTED: &str = "aborted";
const ABANDONED: &str = "abandoned";
const STOPPED: &str = "stopped";

/// A turn that has begun and is not over.
struct TurnSpan {
    span: Span,
    /// None: the machine's.
    clock: Option<Arc<dyn Clock>>,
    /// The time that it has run.
    run: Duration,
}

impl TurnSpan {
    /// Runs a part of it.
    fn within<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, Payload> {
        let began = self.enter();
        let ran = panic::catch(f);
        self.exit(began);
        ran
    }

    /// Runs the last part of it.
    fn end_by<R>(mut self, f: impl FnOnce() -> R, outcome: &'static str) -> R {
        let ran = self.within(f);
        self.end(if ran.is_ok() { outcome } else { PANICKED });
        ran.unwrap_or_else(|payload| resume_unwind(payload))
    }

    // The above is compiled for each message, this once.
    fn enter(&self) -> Option<Duration> {
        let began = self.now();
        tell(|| enter(&self.span));
        began
    }

    fn exit(&mut self, began: Option<Duration>) {
        tell(|| exit(&self.span));
        if let Some((began, now)) = began.zip(self.now()) {
            self.run = self.run.saturating_add(now.saturating_sub(began));
        }
    }

    fn now(&self) -> Option<Duration> {
        moment(self.clock.as_deref().unwrap_or(&MonotonicClock))
    }

    fn end(self, outcome: &'static str) {
        let TurnSpan { span, clock, run } = self;
        tell(|| _ = span.record("run_ns", nanos(run)).record("outcome", outcome));
        tell(|| drop(span));
        panic::ignore(|| drop(clock));
    }
}

/// A message for an actor that is traced.
pub(super) struct Traced<L> {
    /// Dropped first: a panic of the message's drop is followed by no subscriber.
    origin: Origin,
    message: L,
}

impl<L> Traced<L> {
    fn into_message(self) -> L {
        let Traced { message, origin } = self;
        drop(origin);
        message
    }
}

impl<L: Shown> Shown for Traced<L> {
    type As = L::As;
}

impl<L: Returned> Returned for Traced<L> {
    fn returned(self) -> L::As {
        self.into_message().returned()
    }
}

impl<S: 'static, L: Message<S> + Shown> Message<S> for Traced<L> {
    type Answer = L::Answer;
    type Payload = L::Payload;

    fn run(self, state: &mut S, turn: InTurn<'_, S>) -> L::Answer {
        let Traced { message, origin } = self;
        origin.turn(turn.header(), type_name::<L::As>(), || message.run(state, turn))
    }

    fn run_unasked(self, state: &mut S, turn: InTurn<'_, S>) {
        let Traced { message, origin } = self;
        origin.turn(turn.header(), type_name::<L::As>(), || message.run_unasked(state, turn));
    }

    fn payload(self) -> L::Payload {
        self.into_message().payload()
    }

    fn undelivered(self) -> Undelivered<S> {
        self.into_message().undelivered()
    }
}

impl<S: 'static, L: AsyncMessage<S> + Shown> AsyncMessage<S> for Traced<L> {
    type Answer = L::Answer;
    type Payload = L::Payload;
    type Future = TracedTurn<L::Future>;

    fn begin(self, state: &'static mut S, turn: InTurn<'_, S>) -> Self::Future {
        let Traced { message, origin } = self;
        let mut begun = origin.begin(turn.header(), type_name::<L::As>());
        match begun.within(|| Box::pin(message.begin(state, turn))) {
            Ok(future) => TracedTurn { future: Some(future), turn: Some(begun) },
            Err(payload) => {
                begun.end(PANICKED);
                resume_unwind(payload)
            }
        }
    }

    fn payload(self) -> L::Payload {
        self.into_message().payload()
    }

    fn cut(mut future: Pin<&mut Self::Future>, why: &AskError) {
        future.end(match why {
            AskError::Abandoned(_) => ABANDONED,
            AskError::Refused(Reason::Stopped(_), _) => STOPPED,
            _ => ABORTED,
        });
    }
}

/// The future of a turn that may wait. It lies in a box of its own, made once a turn.
pub(super) struct TracedTurn<F> {
    future: Option<Pin<Box<F>>>,
    turn: Option<TurnSpan>,
}

impl<F> TracedTurn<F> {
    /// Drops the future, in the span. Unwinds if that does.
    fn end(&mut self, outcome: &'static str) {
        let (future, turn) = (self.future.take(), self.turn.take());
        if let Some(turn) = turn {
            turn.end_by(|| drop(future), outcome);
        }
    }
}

impl<F> Drop for TracedTurn<F> {
    fn drop(&mut self) {
        // It is over, unless the executor has panicked around its poll.
        self.end(PANICKED);
    }
}

impl<F: Future> Future for TracedTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let (Some(future), Some(turn)) = (&mut this.future, &mut this.turn) else {
            unreachable!("a turn that is over is not polled");
        };
        match turn.within(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => match panic::catch(|| this.end(DONE)) {
                Ok(()) => Poll::Ready(answer),
                Err(payload) => {
                    panic::ignore(|| drop(answer));
                    resume_unwind(payload)
                }
            },
            Err(payload) => {
                panic::ignore(|| this.end(PANICKED));
                resume_unwind(payload)
            }
        }
    }
}

/// Calls the subscriber, which may panic.
fn tell(f: impl FnOnce()) {
    told((), f);
}

fn enter(span: &Span) {
    span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
}

fn exit(span: &Span) {
    span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
}

/// The clock's time, unless it panics.
fn moment(clock: &dyn Clock) -> Option<Duration> {
    told(None, || Some(clock.now()))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
