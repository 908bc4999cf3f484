//! One turn of a key: what is in the mailbox, and what comes out.

use std::time::Duration;

use super::error::{NotStarted, RunError};
use crate::limits::Terms;
use crate::registry::{Guard, Registry, Slot};
use crate::user_code::{Payload, catch, discard, ignore};

/// A closure in its key's mailbox. Dropped unrun, it drops the closure, then the pin: in this
/// order, so a key outlives what its runs captured.
pub(super) struct Job<F, G> {
    pub(super) f: F,
    pub(super) guard: G,
}

/// How a turn ended.
pub(super) enum Ended<R> {
    Done(R),
    Overran { value: R, by: Duration },
    Panicked(Payload),
    Not(RunError<R>),
}

impl<R> Ended<R> {
    pub(super) fn late(waited: Duration) -> Self {
        Ended::Not(RunError::NotStarted(NotStarted::TimedOut { waited }))
    }

    /// The outcome, for somebody who is told of a panic.
    pub(super) fn told(self) -> Result<R, RunError<R>> {
        match self {
            Ended::Done(value) => Ok(value),
            Ended::Overran { value, by } => Err(RunError::Overran { value, by }),
            Ended::Panicked(payload) => {
                let text = match payload.downcast_ref::<&'static str>() {
                    Some(text) => (*text).into(),
                    None => match payload.downcast_ref::<String>() {
                        Some(text) => text.as_str().into(),
                        None => "a panic without a text".into(),
                    },
                };
                discard(payload);
                Err(RunError::Panicked(text))
            }
            Ended::Not(error) => Err(error),
        }
    }

    /// The outcome, for the caller that a panic goes on in.
    pub(super) fn felt(self) -> Result<R, RunError<R>> {
        match self {
            Ended::Panicked(payload) => std::panic::resume_unwind(payload),
            ended => ended.told(),
        }
    }
}

impl<F, G> Job<F, G> {
    /// The turn. User code may panic in it: nothing comes out but the outcome.
    pub(super) fn perform<K, S, R>(self, slot: &mut Slot<K, S>, terms: Terms) -> Ended<R>
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
        F: FnOnce(&mut S) -> R,
        G: Guard<K, S>,
    {
        let Job { f, guard } = self;
        let ended = match begin(guard.registry(), slot, terms) {
            Ok((begun, state)) => {
                let called = catch(|| f(state));
                end(guard.registry(), terms, begun, called)
            }
            Err(ended) => {
                ignore(|| drop(f));
                ended
            }
        };
        if matches!(ended, Ended::Panicked(_)) {
            // It may be half changed.
            let state = slot.state.take();
            ignore(|| drop(state));
        }
        guard.finish(slot);
        ended
    }
}

/// Before the closure: is it too late, what is the state, when does the lease begin?
pub(super) fn begin<'a, K, S, R>(
    registry: &Registry<K, S>,
    slot: &'a mut Slot<K, S>,
    terms: Terms,
) -> Result<(Duration, &'a mut S), Ended<R>>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    let ready = catch(|| {
        if let Some(waited) = terms.wait.and_then(|wait| wait.over(registry.now())) {
            return Err(waited);
        }
        let state = registry.state(slot);
        // Last: what makes the state has taken its own time.
        let begun = if terms.lease.is_some() { registry.now() } else { Duration::ZERO };
        Ok((begun, state))
    });
    match ready {
        Ok(Ok(begun)) => Ok(begun),
        Ok(Err(waited)) => Err(Ended::late(waited)),
        Err(payload) => Err(Ended::Panicked(payload)),
    }
}

/// After the closure: did it take longer than its lease?
pub(super) fn end<K, S, R>(
    registry: &Registry<K, S>,
    terms: Terms,
    begun: Duration,
    called: Result<R, Payload>,
) -> Ended<R> {
    let value = match called {
        Ok(value) => value,
        Err(payload) => return Ended::Panicked(payload),
    };
    let Some(lease) = terms.lease else { return Ended::Done(value) };
    // A clock that panics now has not told of an overrun.
    let taken = catch(|| registry.now().saturating_sub(begun));
    match taken.map_err(discard).ok().and_then(|taken| taken.checked_sub(lease)) {
        Some(by) if !by.is_zero() => Ended::Overran { value, by },
        _ => Ended::Done(value),
    }
}
