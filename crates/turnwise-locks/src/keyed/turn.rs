//! One turn of a key: what is in the mailbox, and what comes out.

use std::sync::Arc;
use std::time::Duration;

use super::error::{NotStarted, RunError};
use crate::limits::Terms;
use crate::overrun::Watch;
use crate::registry::{Fate, Guard, KeySlot, Registry};
use crate::user_code::{Payload, catch, discard, ignore, text};

/// A closure in its key's mailbox. Dropped unrun, it drops the closure, then the use: in this
/// order, so a key outlives what its runs captured.
pub(super) struct Job<F, G> {
    pub(super) f: F,
    pub(super) guard: G,
}

/// The end of a turn.
pub(super) enum Ended<R> {
    Done(R),
    Overran { value: R, by: Duration },
    Panicked(Payload),
    Not(RunError<R>),
}

impl<R> Ended<R> {
    pub(super) fn late(waited: Duration) -> Self {
        Ended::Not(RunError::NotStarted(NotStarted::TimedOut { waited, key: None }))
    }

    /// The outcome, with the name of the key that it is about.
    pub(super) fn about(self, name: impl FnOnce() -> Option<Arc<str>>) -> Self {
        match self {
            Ended::Not(RunError::NotStarted(why)) => {
                Ended::Not(RunError::NotStarted(why.about(name)))
            }
            ended => ended,
        }
    }

    /// The outcome, as it is counted.
    pub(super) fn fate(&self) -> Fate {
        match self {
            Ended::Done(_) => Fate::Ran,
            Ended::Overran { .. } => Fate::Overran,
            Ended::Panicked(_) => Fate::Panicked,
            Ended::Not(RunError::Cut(_)) => Fate::Cut,
            Ended::Not(_) => Fate::NotStarted,
        }
    }

    /// Ends the state if the closure has panicked or was cut: it may be half changed.
    pub(super) fn forget<K, S>(&self, registry: &Registry<K, S>, slot: &mut KeySlot<K, S>) {
        match self {
            Ended::Panicked(payload) => registry.end_panicked(slot, payload),
            Ended::Not(RunError::Cut(_)) => registry.end_cut(slot),
            _ => {}
        }
    }

    /// The outcome, for a caller that learns of a panic.
    pub(super) fn outcome(self) -> Result<R, RunError<R>> {
        match self {
            Ended::Done(value) => Ok(value),
            Ended::Overran { value, by } => Err(RunError::Overran { value, by }),
            Ended::Panicked(payload) => {
                let text = text(&*payload);
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
            ended => ended.outcome(),
        }
    }
}

/// The outcome of a call. One that does not wait has found its key busy if its time is over.
pub(super) fn as_try<R>(is_try: bool, outcome: Result<R, RunError<R>>) -> Result<R, RunError<R>> {
    match outcome {
        Err(RunError::NotStarted(NotStarted::TimedOut { key, .. })) if is_try => {
            Err(NotStarted::Busy { key }.into())
        }
        outcome => outcome,
    }
}

impl<F, G> Job<F, G> {
    /// The turn. User code may panic in it: nothing comes out but the outcome.
    pub(super) fn perform<K, S, R>(self, slot: &mut KeySlot<K, S>, terms: Terms) -> Ended<R>
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
        F: FnOnce(&mut S) -> R,
        G: Guard<K, S>,
    {
        let Job { f, mut guard } = self;
        let ended = match begin(guard.registry(), slot, terms) {
            Ok((begun, state)) => {
                let called = catch(|| f(state));
                end(guard.registry(), Some(guard.hash()), terms, begun, called)
            }
            Err(ended) => {
                ignore(|| drop(f));
                ended
            }
        };
        ended.forget(guard.registry(), slot);
        guard.came_to(ended.fate());
        guard.finish(slot);
        ended
    }

    /// A turn without terms, for the caller that a panic goes on in.
    #[inline]
    pub(super) fn perform_plain<K, S, R>(self, slot: &mut KeySlot<K, S>) -> Result<R, Payload>
    where
        K: Send + Sync + 'static,
        S: Send + 'static,
        F: FnOnce(&mut S) -> R,
        G: Guard<K, S>,
    {
        let Job { f, mut guard } = self;
        let made = match slot.state {
            Some(_) => Ok(()),
            None => catch(|| {
                guard.registry().state(slot);
            }),
        };
        let called = match (made, &mut slot.state) {
            (Ok(()), Some(state)) => catch(|| f(state)),
            (Ok(()), None) => unreachable!("it is made"),
            (Err(payload), _) => {
                ignore(|| drop(f));
                Err(payload)
            }
        };
        let called = called.inspect_err(|payload| guard.registry().end_panicked(slot, payload));
        guard.came_to(if called.is_ok() { Fate::Ran } else { Fate::Panicked });
        guard.finish(slot);
        called
    }
}

/// A closure that has begun.
pub(super) struct Begun<K> {
    /// None, if it is not wanted.
    pub(super) at: Option<Duration>,
    watch: Option<Watch<K>>,
}

/// Before the closure: is it too late, what is the state, when does it begin?
pub(super) fn begin<'a, K, S, R>(
    registry: &Registry<K, S>,
    slot: &'a mut KeySlot<K, S>,
    terms: Terms,
) -> Result<(Begun<K>, &'a mut S), Ended<R>>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    let ready = catch(|| {
        if let Some(waited) = terms.wait.and_then(|wait| wait.over(registry.now())) {
            return Err(waited);
        }
        let key = slot.key().cloned();
        let state = registry.state(slot);
        // Last: what makes the state has taken its own time.
        Ok((begun(registry, terms, key.into_iter()), state))
    });
    match ready {
        Ok(Ok(begun)) => Ok(begun),
        Ok(Err(waited)) => Err(Ended::late(waited)),
        Err(payload) => Err(Ended::Panicked(payload)),
    }
}

/// A closure begins that has these keys to itself. May run a clock of the user's.
pub(super) fn begun<K, S>(
    registry: &Registry<K, S>,
    terms: Terms,
    keys: impl Iterator<Item = Arc<K>>,
) -> Begun<K>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    if !(terms.lease.is_some() || terms.are_limits() && registry.estimates.are_wanted()) {
        return Begun { at: None, watch: None };
    }
    let at = registry.now();
    let watch = terms
        .lease
        .zip(registry.listener.as_ref())
        .map(|(lease, listener)| listener.watch(registry.time.timers(), at, lease, keys.collect()));
    Begun { at: Some(at), watch }
}

/// After the closure: how long did it take, and was that longer than its lease?
pub(super) fn end<K, S, R>(
    registry: &Registry<K, S>,
    hash: Option<u64>,
    terms: Terms,
    begun: Begun<K>,
    called: Result<R, Payload>,
) -> Ended<R>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    match (called, measured(registry, hash, terms, begun, false)) {
        (Err(payload), _) => Ended::Panicked(payload),
        (Ok(value), Some(by)) => Ended::Overran { value, by },
        (Ok(value), None) => Ended::Done(value),
    }
}

/// By how much a closure took longer than its lease. One that was cut there counts, too.
pub(super) fn measured<K, S>(
    registry: &Registry<K, S>,
    hash: Option<u64>,
    terms: Terms,
    begun: Begun<K>,
    cut: bool,
) -> Option<Duration>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    // A clock that panics now has not told of an overrun.
    let now = begun.at.and_then(|_| catch(|| registry.now()).map_err(discard).ok());
    let taken = now.zip(begun.at).map(|(now, at)| now.saturating_sub(at));
    if let Some((hash, taken)) = hash.zip(taken) {
        // For nothing, as long as it is not wanted.
        registry.estimates.took(hash, taken);
    }
    let over = terms.lease.zip(taken).and_then(|(lease, taken)| taken.checked_sub(lease));
    let by = over.filter(|by| !by.is_zero());
    if let Some(watch) = begun.watch {
        watch.ended(cut || by.is_some());
    }
    by
}
