//! Messages that are sent later, or again and again.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tracing")]
use super::spans::{self, Origin};
use super::{Actor, Handler, Posted};
use crate::error::{Reason, SendError};
use crate::panic;
use crate::time::timers::Delivered;
use crate::time::{Every, Timer, TimerError, Timers};

impl<S: Send + 'static> Posted<'_, S> {
    /// As [`send`](Self::send), when `delay` has passed: the closure never runs on the thread of
    /// the timers. In order with what is due at another time, or was sent before for the same.
    ///
    /// It does not keep the actor going. A message whose actor is gone, closed, stopped or full
    /// when it is due is dropped, and [counted](Timers::undelivered). Time is measured by
    /// [the actor's timers](crate::ActorBuilder::timers). Takes a short lock.
    ///
    /// # Panics
    /// If the clock does; then nothing is armed.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, VirtualClock};
    /// use turnwise::time::Timers;
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let n = Actor::builder().timers(timers.clone()).spawn(0)?;
    /// n.posted().send_after(Duration::from_secs(60), |n| *n += 1).forget();
    /// clock.advance(Duration::from_secs(60));
    /// timers.run_due();
    /// n.idle().wait()?;
    /// assert_eq!(n.with(|n| *n)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn send_after<F>(&self, delay: Duration, message: F) -> Timer
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        self.post_after(delay, message, |posted, message| posted.send(message))
    }

    /// As [`send_after`](Self::send_after), for a message that the state [handles](Handler).
    ///
    /// # Panics
    /// If the clock does; then nothing is armed.
    pub fn tell_after<M: Send + 'static>(&self, delay: Duration, message: M) -> Timer
    where
        S: Handler<M>,
    {
        self.post_after(delay, message, |posted, message| posted.tell(message))
    }

    /// Sends a clone of the message at each tick of [`every`](Every), as
    /// [`tell_after`](Self::tell_after) does. The timer is over when the actor is gone, closed or
    /// stopped; a full mailbox costs it one message. Ticks wait for no turn: if the turns take
    /// longer than the step, messages pile up.
    ///
    /// # Errors
    /// [`TimerError::StepZero`]: nothing is armed.
    ///
    /// # Panics
    /// If the clock does; then nothing is armed.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, Context, Handler, VirtualClock};
    /// use turnwise::time::{Every, Timers};
    ///
    /// struct Log(u32);
    /// #[derive(Clone)]
    /// struct Flush;
    /// impl Handler<Flush> for Log {
    ///     type Reply = ();
    ///     fn handle(&mut self, _: Flush, _: &mut Context<'_, Self>) {
    ///         self.0 += 1;
    ///     }
    /// }
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let log = Actor::builder().timers(timers.clone()).spawn(Log(0))?;
    /// let flushing = log.posted().tell_every(Every::step(Duration::from_secs(1)), Flush)?;
    /// clock.advance(Duration::from_secs(3));
    /// timers.run_due();
    /// assert!(flushing.cancel());
    /// log.idle().wait()?;
    /// assert_eq!(log.with(|log| log.0)?, 3);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn tell_every<M>(&self, every: impl Into<Every>, message: M) -> Result<Timer, TimerError>
    where
        S: Handler<M>,
        M: Clone + Send + 'static,
    {
        // The clone is user code.
        self.post_every(every.into(), move |posted| accepted(posted.tell(message.clone())))
    }

    /// Sends the closure at each tick of [`every`](Every), as [`tell_every`](Self::tell_every) does
    /// with a message.
    ///
    /// # Errors
    /// [`TimerError::StepZero`]: nothing is armed.
    ///
    /// # Panics
    /// If the clock does; then nothing is armed.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise::{Actor, VirtualClock};
    /// use turnwise::time::Timers;
    ///
    /// let clock = VirtualClock::new();
    /// let timers = Timers::by_hand(clock.clone());
    /// let n = Actor::builder().timers(timers.clone()).spawn(0)?;
    /// n.posted().send_every(Duration::from_secs(1), |n| *n += 1)?.forget();
    /// clock.advance(Duration::from_secs(3));
    /// timers.run_due();
    /// n.idle().wait()?;
    /// assert_eq!(n.with(|n| *n)?, 3);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn send_every<F>(&self, every: impl Into<Every>, f: F) -> Result<Timer, TimerError>
    where
        F: Fn(&mut S) + Send + Sync + 'static,
    {
        let f = Arc::new(f);
        self.post_every(every.into(), move |posted| {
            let f = f.clone();
            accepted(posted.send(move |state| _ = panic::owning(f, |f| f(state))))
        })
    }

    fn post_every(
        &self,
        every: Every,
        mut post: impl FnMut(Posted<'_, S>) -> Delivered + Send + 'static,
    ) -> Result<Timer, TimerError> {
        let actor = self.actor.downgrade();
        let (timers, kept) = self.timers();
        timers.messages_every(every, move |_| {
            let _kept = &kept;
            let Some(actor) = actor.upgrade() else { return Delivered::NeverAgain };
            // The handle may be the last one by then.
            panic::owning(actor, |actor| post(actor.posted())).1
        })
    }

    fn post_after<M: Send + 'static>(
        &self,
        delay: Duration,
        message: M,
        post: fn(Posted<'_, S>, M) -> Result<(), SendError<M>>,
    ) -> Timer {
        let actor = self.actor.downgrade();
        let (timers, kept) = self.timers();
        #[cfg(feature = "tracing")]
        let origin = spans::origin(&self.actor.handle);
        timers.message_after(delay, move || {
            let _kept = kept;
            let Some(actor) = actor.upgrade() else {
                panic::ignore(|| drop(message));
                return false;
            };
            let send = |actor: &Actor<S>| accepted(post(actor.posted(), message));
            #[cfg(feature = "tracing")]
            let send = from(origin, send);
            send(&actor) == Delivered::Yes
        })
    }

    /// The service of its delayed messages; a second time if nothing but its messages keeps it.
    fn timers(&self) -> (Timers, Option<Timers>) {
        let config = self.actor.handle.header().config();
        let timers = config.service();
        let kept = config.timers.is_none() && config.clock.is_some();
        (timers.clone(), kept.then_some(timers))
    }
}

/// Says what became of a message. One that was refused is dropped here, before the handle that it
/// was sent by: that may be the last.
fn accepted<M>(sent: Result<(), SendError<M>>) -> Delivered {
    let Err(refused) = sent else { return Delivered::Yes };
    let (message, reason) = refused.into_parts();
    panic::ignore(|| drop(message));
    match reason {
        Reason::Closed | Reason::Stopped(_) => Delivered::NeverAgain,
        _ => Delivered::No,
    }
}

/// Sends from the span that a timer was armed in, if the actor is traced.
#[cfg(feature = "tracing")]
fn from<A, R>(origin: Option<Origin>, send: impl FnOnce(A) -> R) -> impl FnOnce(A) -> R {
    move |actor| match origin {
        Some(origin) => origin.send(|| send(actor)),
        None => send(actor),
    }
}
