//! Turns that block.

use crate::pool::PoolConfig;
use crate::turn::blocking::relieve_anyway;

/// The policy of a [`ThreadPool`](crate::ThreadPool) when a turn on one of its workers is about to
/// wait: for another actor, for room, for an answer.
///
/// Without an answer to that, a pool of one thread could wait for itself: what the turn waits for
/// may be queued behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocking {
    /// Another thread takes over the worker's place, with everything that is queued there, until
    /// the turn is awake again; so as many turns run as the pool has workers. At most `most`
    /// threads more than workers exist at a time; they end when there is nothing for them to do for
    /// ten seconds. Beyond that, or if the system gives no thread, waits are refused as with
    /// [`Refuse`](Self::Refuse).
    ///
    /// If all workers are in turns that take long or block in a way that the pool does not see,
    /// while others wait, threads beyond the workers run these: one after some milliseconds, then
    /// more at growing distances, up to the same number.
    Compensate {
        /// The most threads beyond the workers.
        most: usize,
    },
    /// The wait is refused at once, with [`Reason::WouldBlock`](crate::Reason::WouldBlock). A
    /// `with` of an actor that may run here, and that no thread is running, is no wait.
    Refuse,
}

impl Default for Blocking {
    /// [`Blocking::Compensate`] with 256 threads at most.
    fn default() -> Self {
        Blocking::Compensate { most: PoolConfig::MOST }
    }
}

/// Runs a closure that blocks on something which is not an actor: a file, a socket, a future, a
/// lock that is held for long.
///
/// On a worker of a [`ThreadPool`](crate::ThreadPool), another thread takes over the worker's place
/// meanwhile, as for a wait of this crate's own. If no thread is available ([`Blocking`]), the
/// closure runs anyway, and other workers may take what is queued behind it. Inside any turn, what
/// that turn has sent to idle actors is scheduled on their executors first. Anywhere else it just
/// calls the closure. On a worker of a tokio runtime of several threads, in a turn or outside, it
/// is `tokio::task::block_in_place` (with the feature `tokio`). A turn on rayon keeps its thread.
///
/// The actor stays busy meanwhile: no other message of it is run.
///
/// # Examples
/// ```
/// use turnwise::{Actor, ThreadPool, blocking};
///
/// let pool = ThreadPool::new()?;
/// let config = Actor::builder().executor(pool.handle()).spawn(String::new())?;
/// let length = config.call(|text| {
///     *text = blocking(|| std::fs::read_to_string("Cargo.toml")).unwrap_or_default();
///     text.len()
/// });
/// assert!(length.wait()? > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    relieve_anyway(f)
}
