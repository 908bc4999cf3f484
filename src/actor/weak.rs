//! Handles that do not keep an actor going.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::Actor;
use super::snapshot::show;
use crate::cell::refs::{Ref, Weak};
use crate::turn::cut::cut_here;

/// A handle to an actor that does not keep it going: [`upgrade`](Self::upgrade) gives an [`Actor`]
/// as long as another one is there.
///
/// It keeps the actor's few bytes, not its state. Cheap to clone (one atomic addition).
pub struct WeakActor<S> {
    weak: Weak<S>,
}

impl<S> WeakActor<S> {
    pub(crate) fn of(weak: Weak<S>) -> Self {
        WeakActor { weak }
    }

    /// The reference to the actor's memory.
    pub(super) fn cell(&self) -> &Ref {
        self.weak.as_ref()
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
        self.weak.as_ref().header().config().name.as_deref()
    }
}

impl<S: Send + 'static> WeakActor<S> {
    /// Stops the actor, as [`Actor::stop`] does, also if all handles have gone and it is only
    /// running what was left. False if it was stopped already, or has ended. Lock-free; never
    /// waits.
    ///
    /// # Examples
    /// ```
    /// let n = turnwise::Actor::new(0);
    /// assert!(n.downgrade().stop());
    /// assert!(!n.stop(), "it was stopped already");
    /// ```
    pub fn stop(&self) -> bool {
        match self.upgrade() {
            Some(actor) => actor.stop(),
            // Nothing new can come; what waits is given back by the next owner.
            None => {
                let first = self.weak.as_ref().header().raise_stop();
                cut_here(self.weak.as_ref());
                first
            }
        }
    }
}

impl<S> Clone for WeakActor<S> {
    fn clone(&self) -> Self {
        WeakActor { weak: self.weak.clone() }
    }
}

/// By identity, as handles are: equal ones lead, or have led, to the same actor. Wait-free.
impl<S> PartialEq for WeakActor<S> {
    fn eq(&self, other: &Self) -> bool {
        self.cell().addr() == other.cell().addr()
    }
}

impl<S> Eq for WeakActor<S> {}

/// By identity, as [`PartialEq`].
impl<S> Hash for WeakActor<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cell().addr().hash(state);
    }
}

impl<S> fmt::Debug for WeakActor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("WeakActor");
        show(&mut f, self.cell().header());
        f.finish_non_exhaustive()
    }
}
