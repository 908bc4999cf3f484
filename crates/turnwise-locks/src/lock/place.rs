//! The mailbox of a lock: a key's, kept by a use of that; or one of its own.

use std::any::Any;
use std::sync::Arc;

use turnwise::{Actor, in_turn};

use super::fast::Lender;
use super::hold_state::HoldState;
use super::turns::{Common, Core};
use crate::estimate::Estimate;
use crate::registry::{Access, Beside, Guard, KeySlot, KeyUse, Registry};

/// The locks of one registry.
pub(super) struct LockSet<K: Send + Sync + 'static> {
    pub(super) registry: Arc<Registry<K, Core<K>>>,
    pub(super) common: Arc<Common>,
    /// The room that each of them has.
    pub(super) capacity: u64,
    /// The names of keys, if they have some.
    pub(super) names: Option<NameOf<K>>,
    /// The values behind the locks, if they have some.
    pub(super) values: Option<Box<dyn Any + Send + Sync>>,
}

/// The name of a key. User code.
pub(super) type NameOf<K> = Box<dyn Fn(&K) -> String + Send + Sync>;

impl<K: Send + Sync + 'static> LockSet<K> {
    /// A closure that makes the state of a mailbox with a hold of this fence and weight, and the
    /// state that its guard shares with it.
    pub(super) fn kept(&self) -> impl FnOnce(u64, u64) -> (Core<K>, Beside) + use<K> {
        let capacity = self.capacity;
        move |fence, weight| {
            let hold_state = HoldState::new();
            (Core::held(capacity, fence, weight, hold_state.clone()), hold_state as Beside)
        }
    }
}

impl<K: Send + Sync + 'static> LockSet<K> {
    /// The estimate of how long the key with this hash is held, if there was a request for it.
    pub(super) fn known(&self, hash: u64) -> Option<Estimate> {
        let estimates = &self.registry.estimates;
        estimates.are_wanted().then(|| estimates.get(hash))
    }
}

impl<K: Send + Sync + 'static> Access for Arc<LockSet<K>> {
    type Key = K;
    type State = Core<K>;

    fn registry(&self) -> &Registry<K, Core<K>> {
        &self.registry
    }

    // It has nothing of the user's.
    fn is_looked_after(&self) -> bool {
        false
    }
}

/// One use of a lock: it lives as long as this does.
pub(super) enum LockPlace<K: Send + Sync + 'static> {
    /// Its key is in use, and this is the key's mailbox.
    Key(KeyUse<Arc<LockSet<K>>>, Actor<KeySlot<K, Core<K>>>),
    /// It is no key's: a semaphore.
    Alone(Arc<Lender<K>>),
}

impl<K: Send + Sync + 'static> LockPlace<K> {
    pub(super) fn common(&self) -> &Arc<Common> {
        match self {
            LockPlace::Key(key_use, _) => &key_use.access().common,
            LockPlace::Alone(lender) => &lender.common,
        }
    }

    pub(super) fn actor(&self) -> &Actor<KeySlot<K, Core<K>>> {
        match self {
            LockPlace::Key(_, actor) => actor,
            LockPlace::Alone(lender) => &lender.actor,
        }
    }

    /// A semaphore, which lends permits.
    pub(super) fn lender(&self) -> Option<&Arc<Lender<K>>> {
        match self {
            LockPlace::Key(..) => None,
            LockPlace::Alone(lender) => Some(lender),
        }
    }

    pub(super) fn lock_set(&self) -> Option<&Arc<LockSet<K>>> {
        match self {
            LockPlace::Key(key_use, _) => Some(key_use.access()),
            LockPlace::Alone(_) => None,
        }
    }

    /// The hash of its key.
    pub(super) fn hash(&self) -> u64 {
        match self {
            LockPlace::Key(key_use, _) => key_use.place().hash,
            LockPlace::Alone(_) => unreachable!("a semaphore has no key"),
        }
    }

    /// The place of a part of this use. Of a semaphore.
    pub(super) fn again(&self) -> Self {
        match self {
            LockPlace::Key(..) => unreachable!("a semaphore's holds are not a key's"),
            LockPlace::Alone(lender) => LockPlace::Alone(lender.clone()),
        }
    }

    /// From now on it is measured how long its key is held.
    pub(super) fn want(&self) {
        if let LockPlace::Key(key_use, _) = self {
            key_use.access().registry.estimates.want();
        }
    }

    /// The estimate of how long its key is held, if there was a request for it.
    pub(super) fn known(&self) -> Option<Estimate> {
        match self {
            LockPlace::Key(key_use, _) => key_use.access().known(key_use.place().hash),
            LockPlace::Alone(_) => None,
        }
    }

    /// The last turn of this use.
    pub(super) fn end(self, f: impl FnOnce(&mut Core<K>, &Arc<Common>) + Send + 'static) {
        match self {
            LockPlace::Key(key_use, actor) => {
                // The drop of values is the user's: not inside a turn of the lock.
                let _values = key_use.access().values.is_some().then(|| key_use.access().clone());
                tell(&actor, move |slot| {
                    if let Some(core) = &mut slot.state {
                        f(core, &key_use.access().common);
                        // The estimate of how long a key is held outlives its lock.
                        if let Some(estimate) = core.known() {
                            key_use.access().registry.estimates.put(key_use.place().hash, estimate);
                        }
                    }
                    key_use.finish(slot);
                });
            }
            LockPlace::Alone(lender) => {
                let common = lender.common.clone();
                tell(&lender.actor, move |slot| {
                    if let Some(core) = &mut slot.state {
                        f(core, &common);
                    }
                });
            }
        }
    }

    pub(super) fn leave(self, fence: u64, number: u64) {
        self.end(move |core, common| core.leave(fence, number, common));
    }
}

/// A turn, here and now if that can be: inside a turn of another mailbox, too. Else on the thread
/// that runs the lock's turns, and not at the end of a turn of this thread. A lock that was closed
/// needs none.
pub(super) fn tell<K, F>(actor: &Actor<KeySlot<K, Core<K>>>, turn: F)
where
    K: Send + Sync + 'static,
    F: FnOnce(&mut KeySlot<K, Core<K>>) + Send + 'static,
{
    attempt(actor, turn, in_turn());
}

/// A turn, here and now if that can be; else on another thread.
pub(super) fn tell_here<K, F>(actor: &Actor<KeySlot<K, Core<K>>>, turn: F)
where
    K: Send + Sync + 'static,
    F: FnOnce(&mut KeySlot<K, Core<K>>) + Send + 'static,
{
    attempt(actor, turn, true);
}

fn attempt<K, F>(actor: &Actor<KeySlot<K, Core<K>>>, turn: F, elsewhere: bool)
where
    K: Send + Sync + 'static,
    F: FnOnce(&mut KeySlot<K, Core<K>>) + Send + 'static,
{
    let Err(refused) = actor.try_with(turn) else { return };
    let turn = refused.into_message();
    // Since the attempt, the mailbox may be idle: inside a turn, `send` would put it off.
    drop(if elsewhere { actor.posted().send(turn) } else { actor.send(turn) });
}
