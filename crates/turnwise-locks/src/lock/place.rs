//! Where a lock is: a key's mailbox, kept by a pin; or one of its own.

use std::sync::Arc;

use turnwise::{Actor, in_turn};

use super::hold_state::HoldState;
use super::turns::{Common, Core};
use crate::estimate::Estimate;
use crate::registry::{Access, Beside, Guard, Pin, Registry, Slot};

/// The locks of one registry.
pub(super) struct LockSet<K: Send + Sync + 'static> {
    pub(super) registry: Arc<Registry<K, Core<K>>>,
    pub(super) common: Arc<Common>,
    /// How much room each of them has.
    pub(super) capacity: u64,
}

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
    // It has nothing of the user's.
    const LOOKED_AFTER: bool = false;

    fn registry(&self) -> &Registry<K, Core<K>> {
        &self.registry
    }
}

/// The pin that keeps a lock there while it is used.
pub(super) enum Kept<K: Send + Sync + 'static> {
    /// Its key is pinned.
    Key(Pin<Arc<LockSet<K>>>),
    /// It is no key's: a semaphore.
    Alone(Arc<Common>),
}

impl<K: Send + Sync + 'static> Kept<K> {
    fn common(&self) -> &Arc<Common> {
        match self {
            Kept::Key(pin) => &pin.access().common,
            Kept::Alone(common) => common,
        }
    }

    /// The estimate of how long a key is held outlives its lock.
    fn remember(&self, core: &Core<K>) {
        if let (Kept::Key(pin), Some(estimate)) = (self, core.known()) {
            pin.access().registry.estimates.put(pin.place().hash, estimate);
        }
    }

    /// The last thing of a turn.
    fn finish(self, slot: &mut Slot<K, Core<K>>) {
        match self {
            Kept::Key(pin) => pin.finish(slot),
            Kept::Alone(..) => {}
        }
    }
}

/// One use of a lock: it lives as long as this does.
pub(super) struct Place<K: Send + Sync + 'static> {
    pub(super) kept: Kept<K>,
    pub(super) actor: Actor<Slot<K, Core<K>>>,
}

impl<K: Send + Sync + 'static> Place<K> {
    pub(super) fn common(&self) -> &Arc<Common> {
        self.kept.common()
    }

    pub(super) fn lock_set(&self) -> Option<&Arc<LockSet<K>>> {
        match &self.kept {
            Kept::Key(pin) => Some(pin.access()),
            Kept::Alone(..) => None,
        }
    }

    /// The place of a part of this use. Of a semaphore.
    pub(super) fn again(&self) -> Self {
        match &self.kept {
            Kept::Alone(common) => {
                Place { kept: Kept::Alone(common.clone()), actor: self.actor.clone() }
            }
            Kept::Key(_) => unreachable!("a semaphore's holds are not a key's"),
        }
    }

    /// From now on it is measured how long its key is held.
    pub(super) fn want(&self) {
        if let Kept::Key(pin) = &self.kept {
            pin.access().registry.estimates.want();
        }
    }

    /// The estimate of how long its key is held, if there was a request for it.
    pub(super) fn known(&self) -> Option<Estimate> {
        match &self.kept {
            Kept::Key(pin) => pin.access().known(pin.place().hash),
            Kept::Alone(..) => None,
        }
    }

    /// The last turn of this use.
    pub(super) fn end(self, f: impl FnOnce(&mut Core<K>, &Arc<Common>) + Send + 'static) {
        let Place { kept, actor } = self;
        tell(&actor, move |slot| {
            if let Some(core) = &mut slot.state {
                f(core, kept.common());
                kept.remember(core);
            }
            kept.finish(slot);
        });
    }

    pub(super) fn leave(self, fence: u64, number: u64) {
        self.end(move |core, common| core.leave(fence, number, common));
    }
}

/// A turn, here and now if that can be: inside a turn of another mailbox, too. Else on the thread
/// that runs the lock's turns, and not at the end of a turn of this thread. A lock that was closed
/// needs none.
pub(super) fn tell<K, F>(actor: &Actor<Slot<K, Core<K>>>, turn: F)
where
    K: Send + Sync + 'static,
    F: FnOnce(&mut Slot<K, Core<K>>) + Send + 'static,
{
    attempt(actor, turn, in_turn());
}

/// A turn, here and now if that can be; else on another thread.
pub(super) fn tell_here<K, F>(actor: &Actor<Slot<K, Core<K>>>, turn: F)
where
    K: Send + Sync + 'static,
    F: FnOnce(&mut Slot<K, Core<K>>) + Send + 'static,
{
    attempt(actor, turn, true);
}

fn attempt<K, F>(actor: &Actor<Slot<K, Core<K>>>, turn: F, elsewhere: bool)
where
    K: Send + Sync + 'static,
    F: FnOnce(&mut Slot<K, Core<K>>) + Send + 'static,
{
    let Err(refused) = actor.try_with(turn) else { return };
    let turn = refused.into_message();
    // Since the attempt, the mailbox may be idle: inside a turn, `send` would put it off.
    drop(if elsewhere { actor.posted().send(turn) } else { actor.send(turn) });
}
