//! Messages that are handled many at a time.

use super::{Actor, Context};
use crate::drain::bulk::{Bulk, HandlesAll, Item};
use crate::drain::letter::Here;
use crate::error::SendError;

/// What a state does with many messages of type `M` at once.
///
/// Such messages are sent by [`Actor::tell_bulk`], to an actor built with [`ActorBuilder::bulk`](crate::ActorBuilder::bulk). They stand in the one
/// order of the mailbox with all others. Those that stand side by side in one pass (see
/// [`before_pass`](crate::ActorBuilder::before_pass)) are handled in one call, before the next message of another kind is run.
///
/// The messages have left the mailbox by then: they do not count as waiting. Those that are still in the [`Bulk`] when the call returns or
/// panics go to the undelivered hook, one by one. A panic is treated like that of a turn. A stop leaves the call that is under way, or about
/// to be made, and gives back what waits behind. A message whose sender wants an answer carries a [`Promise`](crate::Promise).
///
/// # Examples
/// ```
/// use turnwise::{Actor, Bulk, BulkHandler, Context, Promise, promise};
///
/// #[derive(Default)]
/// struct Table { rows: Vec<u32>, writes: usize }
/// struct Row(u32, Promise<usize>);
///
/// impl BulkHandler<Row> for Table {
///     fn handle_all(&mut self, rows: Bulk<'_, Row>, _: &mut Context<'_, Self>) {
///         self.writes += 1; // one for all of them
///         for Row(row, written) in rows {
///             self.rows.push(row);
///             written.keep(self.rows.len());
///         }
///     }
/// }
///
/// let table = Actor::builder(Table::default()).bulk().spawn()?;
/// let sender = table.clone();
/// let (first, last) = table.try_own(|table| {
///     // While somebody owns the actor, messages wait.
///     let [first, _, last] = [3, 1, 2].map(|row| {
///         let (written, answer) = promise();
///         sender.tell_bulk(Row(row, written)).unwrap();
///         answer
///     });
///     assert_eq!(table.run_waiting(), 3);
///     assert_eq!(table.writes, 1);
///     (first, last)
/// })?;
/// assert_eq!((first.wait()?, last.wait()?), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait BulkHandler<M>: Sized {
    /// One call for all of them, oldest first.
    fn handle_all(&mut self, messages: Bulk<'_, M>, cx: &mut Context<'_, Self>);
}

/// By a [`BulkHandler`].
struct ByHandler;

impl<S: BulkHandler<M>, M> HandlesAll<S, M> for ByHandler {
    fn handle_all(state: &mut S, messages: Bulk<'_, M>, here: Here<'_, S>) {
        state.handle_all(messages, &mut Context { here });
    }
}

impl<S: Send + 'static> Actor<S> {
    /// Sends a message that is handled together with those beside it: see [`BulkHandler`]. As [`tell`](Self::tell) in every other respect.
    ///
    /// On an actor that was not built with [`ActorBuilder::bulk`](crate::ActorBuilder::bulk), each such message is a call of its own.
    ///
    /// # Errors
    /// The message comes back if the actor is closed, stopped, or its mailbox full.
    pub fn tell_bulk<M: Send + 'static>(&self, message: M) -> Result<(), SendError<M>>
    where
        S: BulkHandler<M>,
    {
        let sent = self.handle.send(Item::<M, ByHandler>::new(message));
        sent.map_err(|(item, reason)| SendError::new(item.message, reason))
    }
}
