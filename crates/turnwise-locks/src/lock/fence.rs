//! Fences: what makes a holder harmless who does not know that it is one no more.

use std::error::Error;
use std::fmt;
use std::panic::resume_unwind;

use turnwise::{Actor, AskError, Reason};

use crate::user_code::{Payload, catch, ignore};

/// The number of a hold. Those of one lock increase strictly, in the order in which the holds
/// began, also if the lock was idle and gone in between.
///
/// # Examples
/// ```
/// let locks = turnwise_locks::Locks::new();
/// let first = locks.lock("a").wait()?.fence();
/// assert!(locks.is_empty()); // the lock is gone, its order is not
/// assert!(locks.lock("a").wait()?.fence() > first);
/// # Ok::<(), turnwise_locks::LockError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// A fence from its number: one that was kept somewhere.
    pub const fn from_number(number: u64) -> Self {
        Fence(number)
    }

    /// Its number, for a resource that is somewhere else.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({})", self.0)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A resource that refuses older fences.
///
/// A lease may be over while its holder goes on: it has not noticed yet. What it does then to a
/// fenced resource is refused as soon as the next holder has used that, so the two never mix. A use
/// is a turn: one at a time, in the order of the calls. Clones are the same resource.
///
/// This is the fencing token of Martin Kleppmann's "How to do distributed locking" (2016).
///
/// # Examples
/// ```
/// use turnwise_locks::{Fenced, FencedError, Locks};
///
/// let locks = Locks::new();
/// let file = Fenced::new(String::new());
///
/// let old = locks.lock("file").wait()?;
/// locks.force_release(&"file").wait()?; // somebody decides that it hangs
/// let new = locks.lock("file").wait()?;
/// file.with(new.fence(), |text| text.push_str("new"))?;
///
/// let late = file.with(old.fence(), |text| text.push_str("old"));
/// assert_eq!(late, Err(FencedError::Stale { newest: new.fence() }));
/// assert_eq!(file.newest(), Some(new.fence()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fenced<T: Send + 'static> {
    actor: Actor<Inner<T>>,
}

struct Inner<T> {
    newest: Option<Fence>,
    value: T,
}

impl<T> Inner<T> {
    /// A use, in its turn; one that is refused leaves the closure. A panic does not pass through
    /// the turn: it would end the resource.
    fn use_with<F, R>(
        &mut self,
        fence: Fence,
        f: &mut Option<F>,
    ) -> Result<Result<R, Payload>, FencedError>
    where
        F: FnOnce(&mut T) -> R,
    {
        if let Some(newest) = self.newest.filter(|&newest| newest > fence) {
            return Err(FencedError::Stale { newest });
        }
        self.newest = Some(fence);
        let f = f.take().expect("a turn comes once");
        Ok(catch(|| f(&mut self.value)))
    }
}

/// The error of a fenced resource that was not used. The closure was not called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FencedError {
    /// A newer fence was here before.
    Stale {
        /// The newest so far.
        newest: Fence,
    },
    /// This thread is inside a use of the very resource, or must not wait.
    Refused(Reason),
}

impl<T: Send + 'static> Fenced<T> {
    /// A resource that has seen no fence.
    pub fn new(value: T) -> Self {
        Fenced { actor: Actor::new(Inner { newest: None, value }) }
    }

    /// Uses the resource, unless a newer fence has been used before. The same fence may be used
    /// again and again. May block, as long as another use lasts.
    ///
    /// # Errors
    /// [`FencedError::Stale`]; [`FencedError::Refused`] inside a use of the same resource.
    ///
    /// # Panics
    /// With the closure's own panic; the resource stays usable.
    pub fn with<R: Send>(
        &self,
        fence: Fence,
        f: impl FnOnce(&mut T) -> R + Send,
    ) -> Result<R, FencedError> {
        let mut f = Some(f);
        // One that is refused is dropped here, and not in the turn.
        let taken = &mut f;
        let used = self.actor.with(move |inner| inner.use_with(fence, taken));
        match used {
            Ok(used) => used.map(|called| called.unwrap_or_else(|panic| resume_unwind(panic))),
            Err(error) => Err(FencedError::Refused(refused(error))),
        }
    }

    /// [`with`](Self::with) for a task: awaits its turn, and blocks no thread. The place among the
    /// uses is taken at the first poll. Dropped after that, it leaves the closure in its place.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    ///
    /// # Panics
    /// As [`with`](Self::with).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Fence, Fenced, FencedError};
    ///
    /// # fn main() -> Result<(), FencedError> {
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let file = Fenced::new(0);
    /// let fence = Fence::from_number(7);
    /// let written = file.with_async(fence, |n| {
    ///     *n += 1;
    ///     *n
    /// });
    /// assert_eq!(written.await?, 1);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub async fn with_async<R: Send + 'static>(
        &self,
        fence: Fence,
        f: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, FencedError> {
        let mut f = Some(f);
        let turn = move |inner: &mut Inner<T>| {
            let used = inner.use_with(fence, &mut f);
            ignore(|| drop(f));
            used
        };
        match self.actor.call(turn).await {
            Ok(used) => used.map(|called| called.unwrap_or_else(|panic| resume_unwind(panic))),
            Err(error) => Err(FencedError::Refused(refused(error))),
        }
    }

    /// Shuts out all older fences, without a use: what a new holder does first.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    ///
    /// # Examples
    /// ```
    /// use turnwise_locks::{Fence, Fenced};
    ///
    /// let (old, new) = (Fence::from_number(1), Fence::from_number(2));
    /// let file = Fenced::new(0);
    /// file.advance(new)?;
    /// assert!(file.with(old, |n| *n += 1).is_err());
    /// # Ok::<(), turnwise_locks::FencedError>(())
    /// ```
    pub fn advance(&self, fence: Fence) -> Result<(), FencedError> {
        self.with(fence, |_| ())
    }

    /// The newest fence that was used. `None` if there was none, and where [`with`](Self::with) is
    /// refused. May block.
    pub fn newest(&self) -> Option<Fence> {
        self.actor.with(|inner| inner.newest).ok().flatten()
    }
}

/// The error of a turn that was not run, whose panic would have gone on in the caller.
fn refused(error: AskError) -> Reason {
    match error {
        AskError::Refused(reason, _) => reason,
        _ => Reason::Closed,
    }
}

impl<T: Send + 'static> Clone for Fenced<T> {
    fn clone(&self) -> Self {
        Fenced { actor: self.actor.clone() }
    }
}

impl<T: Send + 'static> fmt::Debug for Fenced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced").finish_non_exhaustive()
    }
}

impl fmt::Display for FencedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FencedError::Stale { newest } => write!(f, "stale fence: the newest is {newest}"),
            FencedError::Refused(reason) => reason.fmt(f),
        }
    }
}

impl Error for FencedError {}
