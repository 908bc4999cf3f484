//! Handles that do not keep an actor going.

use std::fmt;

use super::Actor;
use crate::drain::storage::Weak;

/// A handle to an actor that does not keep it going: [`upgrade`](Self::upgrade) gives an [`Actor`] as long as another one is there.
///
/// It keeps the actor's few bytes, not its state. Cheap to clone (one atomic addition).
pub struct WeakActor<S> {
    weak: Weak<S>,
}

impl<S> WeakActor<S> {
    pub(crate) fn of(weak: Weak<S>) -> Self {
        WeakActor { weak }
    }

    /// A handle, unless all of them have been dropped: an actor never comes back. Lock-free.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// let weak = n.downgrade();
    /// weak.upgrade().unwrap().send(|n| *n += 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upgrade(&self) -> Option<Actor<S>> {
        self.weak.upgrade().map(|handle| Actor { handle })
    }

    /// The name that the actor was built with.
    pub fn name(&self) -> Option<&str> {
        self.weak.storage().name()
    }
}

impl<S> Clone for WeakActor<S> {
    fn clone(&self) -> Self {
        WeakActor { weak: self.weak.clone() }
    }
}

impl<S> fmt::Debug for WeakActor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakActor").field("name", &self.name()).finish_non_exhaustive()
    }
}
