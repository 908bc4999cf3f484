//! The executors of actors ([`Executor`]), and the [`Drain`] that each is given.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::enrolled::Enrolled;
use crate::pool::PoolId;

/// Runs drains that their sender does not run: a thread pool, a runtime, an event loop.
///
/// The module [`executor`](crate::executor) has several, and a closure that takes a [`Drain`] is
/// one. Senders call it, and drainers that have used up their budget. It hands the drain to a
/// thread that calls [`Drain::run`] soon, and returns; it may also run it at once.
///
/// # Examples
/// ```
/// use std::sync::mpsc;
/// use turnwise::{Actor, Drain};
///
/// let (tx, rx) = mpsc::channel::<Drain>();
/// let worker = std::thread::spawn(move || rx.into_iter().for_each(Drain::run));
/// let n = Actor::builder().executor(move |drain| tx.send(drain).unwrap()).spawn(0)?;
/// n.send(|n| *n += 1)?; // runs on the worker
/// assert_eq!(n.call(|n| *n).wait()?, 1);
/// drop(n);
/// worker.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot run an actor's drains",
    label = "not an executor",
    note = "a thread pool is given by its handle (`pool.handle()`), a runtime by `executor::Tokio`",
    note = "a closure that takes a `turnwise::Drain` is an executor, too"
)]
pub trait Executor: Send + Sync {
    /// Has the drain run soon, by some thread.
    fn execute(&self, drain: Drain);

    /// Has the drain run soon, or hands it back: there is no room for it now. Does not wait.
    ///
    /// The crate calls this one; without an implementation of its own, it never refuses. A drain
    /// that comes back is offered again, three times in all, with the processor given away in
    /// between. After the third refusal the drain goes to
    /// [`ThreadPool::global`](crate::ThreadPool::global) (with the feature `tokio`, on a thread
    /// inside a runtime, to a [pool](crate::executor) that enters it): messages that were accepted
    /// are run in any case.
    ///
    /// # Errors
    /// The drain, as it was.
    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        self.execute(drain);
        Ok(())
    }

    /// True if it drops every drain from now on. Its actors accept nothing more: a sender gets its
    /// message back with [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone).
    ///
    /// Asked before a message needs a new drain, before a turn is suspended, and when a message is
    /// left beside a suspended turn. An executor that drops drains and never says so leaves the
    /// messages beside a suspended turn waiting until that turn is woken.
    fn is_closed(&self) -> bool {
        false
    }

    /// True if nothing that is scheduled here runs while this thread blocks: the executor is a loop
    /// that this thread is inside of. Then a blocking wait for one of its actors is refused, with
    /// [`Reason::WouldBlock`](crate::Reason::WouldBlock).
    ///
    /// Asked before each such wait that finds the actor busy. A panic counts as true: a wait that
    /// may never end is refused.
    fn needs_this_thread(&self) -> bool {
        false
    }

    /// The list in which actors with suspended turns enroll, to be stopped at the executor's end.
    /// An executor without it is asked [`is_closed`](Self::is_closed) instead. It cannot be
    /// implemented elsewhere.
    #[doc(hidden)]
    fn enrolled(&self) -> Option<&Enrolled<Drain>> {
        None
    }

    /// True if it is this pool, and not something in front of it. It cannot be implemented
    /// elsewhere.
    #[doc(hidden)]
    fn is(&self, _: PoolId) -> bool {
        false
    }
}

/// A shared executor is the same executor.
impl<E: Executor + ?Sized> Executor for Arc<E> {
    fn execute(&self, drain: Drain) {
        (**self).execute(drain);
    }

    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        (**self).try_execute(drain)
    }

    fn is_closed(&self) -> bool {
        (**self).is_closed()
    }

    fn needs_this_thread(&self) -> bool {
        (**self).needs_this_thread()
    }

    fn enrolled(&self) -> Option<&Enrolled<Drain>> {
        (**self).enrolled()
    }

    fn is(&self, pool: PoolId) -> bool {
        (**self).is(pool)
    }
}

#[diagnostic::do_not_recommend]
impl<F: Fn(Drain) + Send + Sync> Executor for F {
    fn execute(&self, drain: Drain) {
        self(drain);
    }
}

/// A mailbox to be drained: one pointer wide, made without an allocation.
///
/// Run it once, on any thread. Dropping it un-run means that its executor is gone: the actor is
/// stopped with [`StopCause::ExecutorGone`](crate::StopCause::ExecutorGone), waiting messages are
/// given back, every asker is answered. Leaking it leaves the messages waiting for ever.
// It is a `Queued` (`cell/refs.rs`), by its address: an executor is part of what a cell is made of,
// and so knows no cells.
#[must_use = "dropping a drain stops its actor"]
pub struct Drain {
    /// Taken out by `run`, and by the drop.
    entry: Option<NonNull<()>>,
}

// SAFETY: it stands for a `Queued`, which is Send; the thread that runs it becomes the owner by an
// atomic step, and the state's type is Send.
unsafe impl Send for Drain {}
// SAFETY: a shared reference reads the address only.
unsafe impl Sync for Drain {}

/// The low bits of the address say what stands for the mailbox.
const KINDS: usize = 3;

impl Drain {
    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw), or from a `Queued` that this drain stands for
    /// now; it comes once.
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Drain { entry: Some(raw) }
    }

    /// Takes the mailbox out that it stands for: the caller owns that now.
    pub(crate) fn take(&mut self) -> Option<NonNull<()>> {
        self.entry.take()
    }

    /// The mailbox that it stands for, still.
    pub(crate) fn entry(&self) -> Option<NonNull<()>> {
        self.entry
    }

    /// The number of the mailbox. One that is gone may have had the same number.
    pub(crate) fn number(&self) -> usize {
        self.entry.map_or(0, |entry| entry.addr().get() & !KINDS)
    }
}
