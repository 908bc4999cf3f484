//! The public face: [`Actor`], its handles, views, builder and replies. No unsafe:
//! everything here goes through the floors below.

#![forbid(unsafe_code)]

// The order of these is the order of methods in the documentation: a type's own file, then
// those that add to it.
mod handle;

mod awaiting;

mod system;

mod recipient;

mod delayed;
mod shutdown;

mod builder;
mod ending;
mod message;
mod outgoing;
mod posted;
mod registry;
mod reply;
mod snapshot;
#[cfg(feature = "tracing")]
mod spans;
mod spawner;
mod system_snapshot;
mod waiting;
mod weak;
mod within;

pub use awaiting::{AbortHandle, AsyncContext, AsyncHandler, AsyncTurn};
pub use builder::ActorBuilder;
pub use ending::Ending;
pub use message::{Context, Handler};
pub use posted::Posted;
pub use recipient::Recipient;
pub use reply::{Promise, Reply, WaitError, promise, promise_on};
pub use shutdown::{Closing, ShutdownReport};
pub use snapshot::{Activity, ActorSnapshot};
pub use spawner::Spawner;
pub use system::System;
pub use system_snapshot::{SystemSnapshot, SystemView};
pub use waiting::{Asking, Sending, Waiting};
pub use weak::WeakActor;
pub use within::Within;

use crate::cell::refs::Strong;

/// A handle to an object that takes one message at a time, with no lock around it and no thread of
/// its own.
///
/// A thread that sends to an idle actor runs the message on the spot, then whatever has arrived
/// meanwhile, and lets go. Any other sender leaves its message and returns. So messages run one at
/// a time, in the order in which they were accepted, and each sees all that the ones before it did.
/// Handles are cheap to clone (one atomic addition), and equal if they lead to the same actor. When
/// the last one is dropped, the messages that wait are run, then the state is dropped.
///
/// A message sent from inside a turn (of any actor) never runs inside that turn: this thread runs
/// it when the turn is over, and what waited behind it in the same batch, unless another thread
/// does so earlier. A message is a closure that gets the state, or a value that the state
/// [handles](Handler).
///
/// An actor with an [executor](ActorBuilder::executor) is run by its executor and by nothing else.
///
/// | | no answer | an answer |
/// |---|---|---|
/// | closure | [`send`](Self::send), [`send_many`](Self::send_many) | [`call`](Self::call), [`with`](Self::with), [`try_with`](Self::try_with) |
/// | message | [`tell`](Self::tell) | [`ask`](Self::ask) |
///
/// [`posted`](Self::posted) has the same verbs for messages that must not run on this thread, and
/// [`waiting`](Self::waiting) for senders that would rather wait than be refused by a full mailbox.
///
/// # Every way to wait
///
/// A full mailbox refuses, or is waited for. A wait has no limit, or one, and is a blocking call or
/// a future. `a` is the actor, `l` a limit, of room and answer together:
///
/// | | blocking | blocking, limited | a future | a future, limited |
/// |---|---|---|---|---|
/// | `send`, `tell`, refused | `a.send(f)` | never waits | never waits | never waits |
/// | `call`, `ask`, refused | `a.call(f).wait()` | `a.call(f).within(l)` | `a.call(f).await` | `a.call(f).within_async(l).await` |
/// | `with`, refused | `a.with(f)` | `call` | `call` | `call` |
/// | `send`, `tell`, for room | `a.waiting().send(f).wait()` | `.within(l)` | `.await` | `.within_async(l).await` |
/// | `call`, `ask`, for room | `a.waiting().call(f).wait()` | `.within(l)` | `.await` | `.within_async(l).await` |
///
/// `with` lends what its closure borrows until the turn is over, so it has no limit and no future:
/// a closure for [`call`](Self::call) owns what it needs. What a limit comes to is certain:
///
/// | the time is over | `send`, `tell` | `call`, `ask` |
/// |---|---|---|
/// | before there is room | the message, [`Reason::Full`](crate::Reason::Full) | the message, [`WaitError::Cancelled`] |
/// | before the turn | was sent | the message, [`WaitError::Cancelled`] |
/// | during the turn | was sent | the reply, [`WaitError::TimedOut`] |
///
/// [`WaitError::Cancelled`]: crate::WaitError::Cancelled
/// [`WaitError::TimedOut`]: crate::WaitError::TimedOut
///
/// A message that comes back, or that was cancelled, never runs. A limit of zero is one attempt and
/// one look; all limits are measured on the [actor's clock](ActorBuilder::clock). What an actor
/// comes to is waited for in the same four ways: [`idle`](Self::idle), [`ended`](Self::ended).
///
/// # Examples
/// ```
/// use std::collections::HashMap;
/// use turnwise::Actor;
///
/// let hits = Actor::new(HashMap::<String, u64>::new());
/// hits.send(|hits| *hits.entry("home".into()).or_default() += 1)?;
/// let pages = hits.with(|hits| hits.len())?;
/// assert_eq!(pages, 1);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Actor<S> {
    pub(super) handle: Strong<S>,
}
