//! A job of a pool, and the pool's identity.

use std::ptr::NonNull;

/// A unit of work of a pool. To drop one un-run says that its pool is gone.
pub(crate) trait Job: Sized + Send + 'static {
    /// The number of the job. The one that a worker runs and one that is scheduled by it are the
    /// same if they have the same number; it is not 0.
    fn id(&self) -> usize;

    /// The job as an address; none if nothing of it is left to run.
    fn into_raw(self) -> Option<NonNull<()>>;

    /// The job again.
    ///
    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw) of this type, and comes back once.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// True if it was [enrolled](super::Pool::enrolled), and has not been run to its end.
    fn is_unfinished(&self) -> bool;

    /// Drops jobs un-run. What the drop of one leaves to be done comes after all of them, so it may
    /// wait for another.
    fn drop_all(jobs: impl Iterator<Item = Self>);

    /// Runs jobs one after the other: `first`, and for as long as there are, what `next` has.
    fn run_all(first: Self, next: impl FnMut() -> Option<Self>);
}

/// The number of the pool: the address of what its threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub(super) usize);

impl PoolId {
    /// No pool's.
    pub(crate) const NONE: Self = PoolId(0);
}
