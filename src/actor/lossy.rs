//! A way into an actor that keeps the newest messages and drops the oldest.

use std::any::type_name;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::message::Context;
use super::{Actor, Handler};
use crate::cell::config::Undelivered;
use crate::cell::message::Message;
use crate::cell::owner::InTurn;
use crate::error::{BuildError, Reason, SendError};
use crate::sync::Mutex;

/// A way into an actor for messages of which only the newest matter: at most `capacity` of them
/// wait. One more displaces the one that has waited longest, and the sender of the new one gets the
/// old one back.
///
/// The messages stand in a queue of their own, under a lock of a few instructions, and each of them
/// has a turn of the actor, which handles the oldest message that is still there. So they keep
/// their order among themselves; a message that displaces another one takes over its turn. Clones
/// are the same way in.
///
/// It keeps the actor going. When the actor stops, the messages that wait go to its undelivered
/// hook; the rest are dropped with the last clone, or handed back by [`drain`](Self::drain).
///
/// # Examples
/// ```
/// use turnwise::executor::DrainQueue;
/// use turnwise::{Actor, Context, Handler, Lossy};
///
/// struct Display(Vec<u32>);
/// impl Handler<u32> for Display {
///     type Reply = ();
///     fn handle(&mut self, frame: u32, _: &mut Context<'_, Self>) {
///         self.0.push(frame);
///     }
/// }
///
/// let queue = DrainQueue::new();
/// let display = Actor::builder(Display(vec![])).executor(queue.handle()).spawn()?;
/// let frames = Lossy::new(&display, 2)?;
/// assert_eq!(frames.tell(1)?, None);
/// assert_eq!(frames.tell(2)?, None);
/// assert_eq!(frames.tell(3)?, Some(1)); // displaced
/// queue.run_until_idle();
/// let seen = display.call(|display| display.0.clone());
/// queue.run_until_idle();
/// assert_eq!(seen.wait()?, [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Lossy<S, M> {
    actor: Actor<S>,
    queue: Arc<Mutex<Queue<M>>>,
    capacity: usize,
}

/// The messages, by number, oldest first.
struct Queue<M> {
    last: u64,
    waiting: VecDeque<(u64, M)>,
}

/// One turn, for the oldest message.
struct Turn<M>(Arc<Mutex<Queue<M>>>);

impl<S: Handler<M> + Send + 'static, M: Send + 'static> Lossy<S, M> {
    /// A way into this actor in which at most `capacity` messages wait.
    ///
    /// # Errors
    /// [`BuildError::CapacityZero`].
    pub fn new(actor: &Actor<S>, capacity: usize) -> Result<Self, BuildError> {
        if capacity == 0 {
            return Err(BuildError::CapacityZero);
        }
        let queue = Arc::new(Mutex::new(Queue { last: 0, waiting: VecDeque::new() }));
        Ok(Lossy { actor: actor.clone(), queue, capacity })
    }

    /// Sends a message. If as many wait as may, the one that has waited longest comes back.
    ///
    /// May wait for another sender for the few instructions that a lock is held; as
    /// [`tell`](Actor::tell) otherwise.
    ///
    /// # Errors
    /// The message comes back if the actor takes no more. (If others have sent meanwhile, and a
    /// turn of theirs has handled it, the newest of theirs comes back in its place.)
    pub fn tell(&self, message: M) -> Result<Option<M>, SendError<M>> {
        if self.actor.is_closed() {
            let reason = self.actor.stop_cause().map_or(Reason::Closed, Reason::Stopped);
            return Err(self.actor.handle.refused(1, message, reason));
        }
        let number = {
            let mut queue = self.queue.lock();
            queue.last += 1;
            let number = queue.last;
            queue.waiting.push_back((number, message));
            if queue.waiting.len() > self.capacity {
                // Its turn is the new one's now.
                return Ok(queue.waiting.pop_front().map(|(_, oldest)| oldest));
            }
            number
        };
        // Not under the lock: the turn may run here.
        let Err(refused) = self.actor.handle.send(Turn(self.queue.clone())) else {
            return Ok(None);
        };
        // There is one turn too few: one message has none.
        let waiting = &mut self.queue.lock().waiting;
        let at = waiting.iter().position(|(of, _)| *of == number);
        let back = match at {
            Some(at) => waiting.remove(at),
            None => waiting.pop_back(),
        };
        back.map_or(Ok(None), |(_, message)| Err(refused.map(|_| message)))
    }

    /// How many messages wait. Stale on return.
    pub fn len(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// Does no message wait? Stale on return.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all messages out that wait, oldest first.
    pub fn drain(&self) -> Vec<M> {
        let waiting = std::mem::take(&mut self.queue.lock().waiting);
        waiting.into_iter().map(|(_, message)| message).collect()
    }

    /// The actor.
    pub fn actor(&self) -> &Actor<S> {
        &self.actor
    }
}

impl<S: Handler<M> + 'static, M: Send + 'static> Message<S> for Turn<M> {
    type Answer = ();
    type Payload = ();

    fn run(self, state: &mut S, turn: InTurn<'_, S>) {
        let oldest = self.0.lock().waiting.pop_front();
        if let Some((_, message)) = oldest {
            state.handle(message, &mut Context { turn });
        }
    }

    fn payload(self) {}

    fn undelivered(self) -> Undelivered<S> {
        let oldest = self.0.lock().waiting.pop_front();
        match oldest {
            Some((_, message)) => Undelivered::Message(Box::new(message)),
            None => Undelivered::Closure(Box::new(|_| ())),
        }
    }

    fn kind() -> &'static str {
        type_name::<M>()
    }
}

impl<S, M> Clone for Lossy<S, M> {
    fn clone(&self) -> Self {
        let (actor, queue) = (self.actor.clone(), self.queue.clone());
        Lossy { actor, queue, capacity: self.capacity }
    }
}

impl<S, M> fmt::Debug for Lossy<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lossy { actor, capacity, .. } = self;
        f.debug_struct("Lossy")
            .field("actor", actor)
            .field("capacity", capacity)
            .finish_non_exhaustive()
    }
}
