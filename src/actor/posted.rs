//! The verbs of an actor for messages that must not run on the sender's thread.

use std::fmt;

use super::message::{Handler, Typed};
use super::{Actor, Reply, outgoing};
use crate::cell::message::Closure;
use crate::error::SendError;
use crate::send::push::By;

/// An actor whose messages never run in the call that sends them: see [`Actor::posted`].
///
/// If no thread is draining, the mailbox is handed to the actor's executor, or, without one, to
/// [`ThreadPool::global`](crate::ThreadPool::global) (with the feature `tokio`, if the caller is
/// inside a runtime, to a [pool](crate::executor) that enters it); several messages make one such
/// hand-over. An executor that runs the drain in that call leaves it to the pool. A thread that may
/// drain and does so earlier runs the message; one that closes the actor or drops a handle is none
/// of these. Does not wait for other threads. If the system gives not a single thread for the pool,
/// the message waits for such a thread.
///
/// Messages that are sent later are posted, too: [`send_after`](Self::send_after),
/// [`tell_after`](Self::tell_after), [`send_every`](Self::send_every) and
/// [`tell_every`](Self::tell_every).
pub struct Posted<'a, S> {
    pub(super) actor: &'a Actor<S>,
}

impl<S: Send + 'static> Posted<'_, S> {
    /// As [`Actor::send`].
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    pub fn send<F>(&self, message: F) -> Result<(), SendError<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        outgoing::send(&self.actor.handle, Closure::new(message), By::Poster)
    }

    /// As [`Actor::tell`].
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    pub fn tell<M: Send + 'static>(&self, message: M) -> Result<(), SendError<M>>
    where
        S: Handler<M>,
    {
        outgoing::send(&self.actor.handle, Typed(message), By::Poster)
    }

    /// As [`Actor::call`].
    pub fn call<F, R>(&self, question: F) -> Reply<R>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        outgoing::ask(&self.actor.handle, Closure::new(question), By::Poster)
    }

    /// As [`Actor::ask`].
    pub fn ask<M, R>(&self, message: M) -> Reply<R, M>
    where
        S: Handler<M, Reply = R>,
        M: Send + 'static,
        R: Send + 'static,
    {
        outgoing::ask(&self.actor.handle, Typed(message), By::Poster)
    }
}

impl<S> fmt::Debug for Posted<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Posted").field(self.actor).finish()
    }
}
