//! Several keys at once.
//!
//! The keys are entered one inside the other, in their order: the turn of the first enters the
//! second, and so on; the turn of the last runs the closure. As all do so in one order, none waits
//! for another in a circle. A turn may run on any thread, so the states travel: each turn puts its
//! own on the pile, and takes it back from there when the turns inside it are over.

use std::hash::Hash;
use std::sync::Arc;

use turnwise::{Reply, promise};

use super::Keyed;
use super::error::{NotStarted, RunError};
use super::run::{Open, full, own_circle};
use super::turn::{Begun, Ended, as_try, begin, begun, end};
use crate::limits::{Limits, Terms};
use crate::registry::{Guard, KeyUse, Kind, Own, Registry, sorted};
use crate::sync::Mutex;
use crate::user_code::{Payload, catch, ignore, owning};

/// Each key is a turn inside the one before, on one stack.
const MOST: usize = 64;

/// One call. The locks are held for a moment, by one thread at a time, and no user code runs under
/// them.
struct All<K, S, F> {
    registry: Arc<Registry<K, S>>,
    keys: Mutex<std::vec::IntoIter<K>>,
    states: Mutex<Vec<S>>,
    /// The keys that were entered, if there is a listener for overruns.
    listening: Mutex<Vec<Arc<K>>>,
    f: Mutex<Option<F>>,
    terms: Terms,
    immediate: bool,
}

/// [`Keyed::run_all`].
pub(super) fn run_all<K, S, R, F>(
    keyed: &Keyed<K, S>,
    keys: impl IntoIterator<Item = K>,
    limits: impl Into<Limits>,
    f: F,
) -> Result<R, RunError<R>>
where
    K: Hash + Eq + Ord + Send + Sync + 'static,
    S: Send + 'static,
    R: Send + 'static,
    F: FnOnce(&mut [&mut S]) -> R + Send + 'static,
{
    let limits = limits.into();
    let (f, wanted) = owning(f, |_| wanted(keyed, keys, limits));
    let (terms, keys) = wanted?;
    let states = Vec::with_capacity(keys.len());
    let all = Arc::new(All {
        registry: keyed.registry.clone(),
        keys: Mutex::new(keys.into_iter()),
        states: Mutex::new(states),
        listening: Mutex::new(Vec::new()),
        f: Mutex::new(Some(f)),
        terms,
        immediate: limits.is_immediate(),
    });
    as_try(terms.is_try, enter(&all).outcome())
}

/// The terms of a call that is made now, and its keys, if they may be waited for.
fn wanted<K, S>(
    keyed: &Keyed<K, S>,
    keys: impl IntoIterator<Item = K>,
    limits: Limits,
) -> Result<(Terms, Vec<K>), NotStarted>
where
    K: Hash + Eq + Ord + Send + Sync + 'static,
    S: Send + 'static,
{
    let (keys, terms) = owning(keys, |_| keyed.registry.terms(limits));
    let (keys, refused) = sorted(keys, |keys| {
        if keys.len() > MOST {
            return Some(NotStarted::TooManyKeys { most: MOST });
        }
        // From here on a turn may be another thread's, which would wait for this one.
        let closes = |key: &K| own_circle(&keyed.registry.live(key)?.actor);
        keys.iter().find_map(closes).map(NotStarted::Deadlock)
    });
    refused.map_or(Ok((terms, keys)), |why| {
        keyed.registry.count_refused();
        Err(why)
    })
}

/// Enters the next key, and what is inside; or runs the closure, if there is no other.
fn enter<K, S, R, F>(all: &Arc<All<K, S, F>>) -> Ended<R>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: Send + 'static,
    R: Send + 'static,
    F: FnOnce(&mut [&mut S]) -> R + Send + 'static,
{
    let key = all.keys.lock().next();
    let Some(key) = key else { return call(all) };
    let registry = &all.registry;
    // The `Hash` and the `Eq` of the key may panic: that must not pass through the turns outside.
    let found = catch(|| match all.immediate {
        true => registry.add_use_if_idle(Own(key)),
        // Those of this thread are refused before.
        false => registry.add_use(Own(key), Kind::Run, full),
    });
    let (place, actor) = match found {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => return Ended::Not(why.into()),
        Err(payload) => return Ended::Panicked(payload),
    };
    let mut guard = KeyUse::new(registry.clone(), place, Kind::Run);
    if let Some(why) = registry.refused(place, &actor, all.terms) {
        return Ended::Not(why.into());
    }
    let inner = all.clone();
    // Only a clock of the user's can end the wait below before the turn inside is over.
    let (over, until_over) = registry.clock.as_ref().map(|_| promise::<()>()).unzip();
    let reply = actor.call(move |slot| {
        let (all, _over) = (inner, over);
        let terms = Terms { lease: None, ..all.terms };
        let begun = match begin(&all.registry, slot, terms) {
            Ok((begun, _)) => begun,
            Err(ended) => {
                guard.came_to(ended.fate());
                guard.finish(slot);
                return ended;
            }
        };
        if all.registry.listener.is_some() {
            all.listening.lock().extend(slot.key().cloned());
        }
        all.states.lock().extend(slot.state.take());
        let ended = enter(&all);
        slot.state = all.states.lock().pop();
        ended.forget(&all.registry, slot);
        measure(&all.registry, guard.hash(), terms, begun);
        guard.came_to(ended.fate());
        guard.finish(slot);
        ended
    });
    match catch(|| Open::new(reply, actor, all.terms, registry.time.clone()).settle()) {
        Ok(ended) => ended,
        // The clock has panicked. What is inside goes no further, and is over before this is.
        Err(payload) => {
            let f = all.f.lock().take();
            ignore(|| drop(f));
            drop(until_over.map(Reply::wait));
            Ended::Panicked(payload)
        }
    }
}

/// Runs the closure, inside the turns of all keys.
fn call<K, S, R, F>(all: &All<K, S, F>) -> Ended<R>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
    F: FnOnce(&mut [&mut S]) -> R,
{
    let f = all.f.lock().take();
    // Taken by a turn outside, that has panicked meanwhile.
    let Some(f) = f else { return Ended::Not(RunError::Taken) };
    let mut states = std::mem::take(&mut *all.states.lock());
    let listening = std::mem::take(&mut *all.listening.lock());
    // How long each of the keys is used is measured by its turn.
    let terms = Terms { wait: None, ..all.terms };
    let begun = match catch(|| begun(&all.registry, terms, listening.into_iter())) {
        Ok(begun) => begun,
        Err(payload) => {
            ignore(|| drop(f));
            *all.states.lock() = states;
            return Ended::Panicked(payload);
        }
    };
    let called = catch(|| f(&mut states.iter_mut().collect::<Vec<_>>()));
    *all.states.lock() = states;
    end(&all.registry, None, terms, begun, called)
}

/// The use of one of the keys is over.
fn measure<K, S>(registry: &Registry<K, S>, hash: u64, terms: Terms, begun: Begun<K>)
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    end(registry, Some(hash), terms, begun, Ok::<_, Payload>(()));
}
