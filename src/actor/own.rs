//! An actor in the hands of a caller, for a while.

use super::Actor;
use crate::drain::turns::own::Owned;
use crate::error::OwnError;

impl<S: Send + 'static> Actor<S> {
    /// Owns the actor for the time of a closure: it gets the state, and runs waiting messages when it wants to. Never waits.
    ///
    /// The closure is a turn: it stands before all messages that wait, and until it returns, nobody else runs any. When it returns or panics,
    /// what is left is run here, as after any turn, and the actor is let go; a message that is sent after the closure's last look is not left.
    /// Inside it, waiting for this very actor is an error at once. To other actors it can send; those messages are run elsewhere after the
    /// next [`run_waiting`](Owned::run_waiting), or here when the closure is over.
    ///
    /// Lock-free, apart from what the closure does. The [hooks](crate::ActorBuilder::before_pass) of a pass go around the closure and
    /// everything that it runs; on a lazy actor the state is made first.
    ///
    /// # Errors
    /// [`OwnError::Busy`] if a turn is under way, here or elsewhere; [`OwnError::Closed`] or [`OwnError::Stopped`] if the actor has ended, or was
    /// stopped. The closure was not called then, and nothing was touched, but for one case: if the actor stops because its lazy factory or its
    /// `before_pass` panics in this very call.
    ///
    /// # Panics
    /// With the closure's own panic, after the policy was asked and the actor let go, as [`with`](Self::with).
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, OwnError};
    ///
    /// let sum = Actor::new(0);
    /// for n in 1..=10 {
    ///     sum.enqueue(move |sum| *sum += n)?;
    /// }
    /// let totals = sum.try_own(|own| {
    ///     let before = **own;
    ///     assert_eq!(own.run_waiting(), 10);
    ///     assert_eq!(sum.try_own(|_| ()), Err(OwnError::Busy));
    ///     (before, **own)
    /// })?;
    /// assert_eq!(totals, (0, 55));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_own<R>(&self, f: impl FnOnce(&mut Owned<'_, S>) -> R) -> Result<R, OwnError> {
        self.handle.try_own(f)
    }
}
