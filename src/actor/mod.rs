//! What a user names: [`Actor`], its handles, its views, its builder and its replies. No unsafe:
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
mod posted;
mod registry;
mod reply;
mod snapshot;
mod spawner;
mod standing;
mod waiting;
mod weak;
mod within;

pub use awaiting::{AbortHandle, AsyncContext, AsyncHandler, AsyncTurn};
pub use builder::ActorBuilder;
pub use ending::Ending;
pub use handle::Actor;
pub use message::{Context, Handler};
pub use posted::Posted;
pub use recipient::{Recipient, WaitingRecipient, WeakRecipient};
pub use reply::{Promise, Reply, WaitError, promise, promise_on};
pub use shutdown::{Closing, ShutdownReport};
pub use snapshot::{Activity, ActorSnapshot, SystemSnapshot};
pub use spawner::Spawner;
pub use system::{SpawnError, SpawnReason, System};
pub use waiting::{Asking, Sending, Waiting};
pub use weak::WeakActor;
pub use within::Within;

use handle::closure_back;
