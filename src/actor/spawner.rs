//! Shared configuration for many actors.

#![forbid(unsafe_code)]

use std::fmt;

use super::Actor;
use crate::cell::built::BuiltRef;
use crate::cell::refs::Strong;

/// A built configuration that actors are spawned from, made by
/// [`ActorBuilder::build`](crate::ActorBuilder::build).
///
/// All its actors share one executor, panic policy and set of hooks, and refer to them: an actor
/// with settings takes no more memory than a plain one, a single allocation of the state and 32
/// bytes. The limits were checked by `build`, so [`spawn`](Self::spawn) cannot fail.
///
/// Clones are cheap and refer to the same configuration. A spawner keeps no actor alive, and no
/// actor needs its spawner: the configuration is dropped with the last of them.
///
/// # Examples
/// ```
/// use turnwise::{Actor, PanicPolicy, ThreadPool};
///
/// let pool = ThreadPool::builder().threads(2).build()?;
/// let accounts = Actor::builder()
///     .name("account")
///     .executor(pool.handle())
///     .panic_policy(PanicPolicy::Resume)
///     .build()?;
/// let all: Vec<_> = (0..1000_u64).map(|balance| accounts.spawn(balance)).collect();
/// for account in &all {
///     account.send(|balance| *balance += 1)?; // on the pool
/// }
/// assert_eq!(all[999].call(|balance| *balance).wait()?, 1000);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Spawner<S> {
    pub(super) built: BuiltRef<S>,
}

impl<S: Send + 'static> Spawner<S> {
    /// Makes an actor with this state: one small allocation and one atomic addition. Never waits.
    ///
    /// # Examples
    /// ```
    /// use turnwise::Actor;
    ///
    /// let words = Actor::builder().name("word").build()?;
    /// let hits = words.spawn(0);
    /// hits.send(|n| *n += 1)?;
    /// assert_eq!((hits.with(|n| *n)?, hits.name()), (1, Some("word")));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[inline]
    pub fn spawn(&self, state: S) -> Actor<S> {
        Actor { handle: Strong::of_built(state, self.built.clone()) }
    }
}

impl<S> Spawner<S> {
    /// The name that its actors have.
    pub fn name(&self) -> Option<&str> {
        self.built.config().name.as_deref()
    }
}

impl<S> Clone for Spawner<S> {
    fn clone(&self) -> Self {
        Spawner { built: self.built.clone() }
    }
}

impl<S> fmt::Debug for Spawner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner")
            .field("name", &self.name())
            .field("capacity", &self.built.config().capacity())
            .field("uses", &self.built.count())
            .finish_non_exhaustive()
    }
}
