//! The members of a system.
//!
//! An actor that is spawned in a system carries a [`Membership`]. The owner that lets go of the
//! mailbox, once the actor has ended, drops it, and that removes the member and wakes those that
//! wait. So the registry holds actors that have not ended, those included whose last handle has
//! gone and which are still being run. It holds their memory, and keeps no actor going.
//!
//! - REGISTRY-1: nothing is added once `open` is false, and it never becomes true again. So what a
//!   shutdown finds when it seals a system is all that there will ever be.
//! - REGISTRY-2: no user code runs under the lock. An actor is made there, which calls the
//!   allocator alone; a member that is removed is dropped after it, for its last reference may drop
//!   hooks.
//! - REMOVED: a member is removed under the lock, and `open` read there; then those that wait are
//!   woken. Who waits stands in the list before the look at the members, so either the look misses
//!   the member, or the wake-up comes after it.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::actor::{Actor, WeakActor};
use crate::cell::refs::Ref;
use crate::cell::settings::Guard;
use crate::sync::Mutex;
use crate::thread::context::Local;
use crate::thread::ends::Ends;
use crate::thread::list::take_on_if_pending;
use crate::thread::schedule::hand_over;
use crate::time::{Clock, MonotonicClock};
use crate::turn::cut::cut_stopped;
use crate::turn::deferred::give_back_here;
use crate::wait_list::Waiters;

/// An actor of any state, which this does not keep going.
pub(super) trait Member: Send + Sync {
    fn cell(&self) -> &Ref;
    /// Closes it if nothing runs or waits in it; true if this call did it. `pending`: it has no
    /// executor, and is left pending, for the caller to have it ended.
    fn close_if_idle(&self, pending: bool) -> bool;
    /// Takes nothing new from now on.
    fn close(&self);
    /// Another reference to the actor.
    fn again(&self) -> Box<dyn Member>;
}

impl<S: Send + 'static> Member for WeakActor<S> {
    fn cell(&self) -> &Ref {
        WeakActor::cell(self)
    }

    // Without a handle there is nothing to send with, and the drop of the last one sees to the end.

    fn close_if_idle(&self, pending: bool) -> bool {
        let Some(actor) = self.upgrade() else { return false };
        if pending { actor.handle.close_pending() } else { actor.handle.close_if_idle() }
    }

    fn close(&self) {
        if let Some(actor) = self.upgrade() {
            actor.close();
        }
    }

    fn again(&self) -> Box<dyn Member> {
        Box::new(self.clone())
    }
}

impl dyn Member {
    pub(super) fn has_executor(&self) -> bool {
        self.cell().header().has_executor()
    }

    /// Stops it. [`cut`](Self::cut) and [`give_back`](Self::give_back) are to follow.
    pub(super) fn stop(&self) {
        self.cell().header().raise_stop();
        self.close();
    }

    /// Cuts its turn, if that is suspended. Inside work of the crate's own: it ends elsewhere,
    /// unless `here` and it has no executor. Then it is left pending, for the caller to end.
    pub(super) fn cut(&self, local: &Local, here: bool, ends: &mut Ends) {
        let Some(owner) = cut_stopped(self.cell()) else { return };
        if here && !self.has_executor() {
            ends.push(owner.leave_pending());
            self.cell().header().call_for_help();
        } else {
            hand_over(local, owner);
        }
    }

    /// Has what waits in it given back, if it was stopped and is not being run: in this call, if
    /// `here` and it has no executor.
    pub(super) fn give_back(&self, local: &Local, here: bool) {
        if here && !self.has_executor() {
            give_back_here(local, self.cell());
        } else {
            take_on_if_pending(local, self.cell());
        }
    }
}

/// Shared by a system and its actors.
pub(super) struct SystemShared {
    /// Without one, the machine's.
    clock: Option<Arc<dyn Clock>>,
    registry: Mutex<Registry>,
    /// Messages that the members have discarded, and those that have ended. A sender may discard
    /// one after the end.
    discarded: Arc<Mutex<u64>>,
    /// Those who wait for members to be removed.
    pub(super) waiters: Waiters,
}

struct Registry {
    open: bool,
    /// The number of the member that came last.
    last: u64,
    /// By number, in the order in which they came.
    members: BTreeMap<u64, Box<dyn Member>>,
}

impl SystemShared {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>) -> Arc<Self> {
        let registry = Registry { open: true, last: 0, members: BTreeMap::new() };
        let (waiters, discarded) = (Waiters::default(), Arc::default());
        Arc::new(SystemShared { clock, registry: Mutex::new(registry), discarded, waiters })
    }

    /// The clock that was brought along, if one was.
    pub(super) fn own_clock(&self) -> Option<&Arc<dyn Clock>> {
        self.clock.as_ref()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.clock.as_deref().unwrap_or(&MonotonicClock)
    }

    pub(super) fn is_open(&self) -> bool {
        self.registry.lock().open
    }

    /// Adds an actor that `make` makes with its membership, without user code; `None`, with nothing
    /// made, if the system is closed.
    pub(super) fn spawn<S: Send + 'static>(
        self: &Arc<Self>,
        make: impl FnOnce(Membership) -> Actor<S>,
    ) -> Option<Actor<S>> {
        let mut registry = self.registry.lock();
        if !registry.open {
            return None;
        }
        registry.last += 1;
        let number = registry.last;
        let actor = make(Membership { shared: self.clone(), number });
        registry.members.insert(number, Box::new(actor.downgrade()));
        Some(actor)
    }

    /// Takes nothing in any more. The numbers of the members.
    pub(super) fn seal(&self) -> Vec<u64> {
        let mut registry = self.registry.lock();
        registry.open = false;
        registry.members.keys().copied().collect()
    }

    /// The number of those that have not ended.
    pub(super) fn len(&self) -> usize {
        self.registry.lock().members.len()
    }

    /// The actors that have not ended.
    pub(super) fn members(&self) -> Vec<Box<dyn Member>> {
        self.registry.lock().members.values().map(|member| member.again()).collect()
    }

    /// The numbers of those for which `is_wanted`, which is no user code, says yes.
    pub(super) fn numbers(&self, mut is_wanted: impl FnMut(&dyn Member) -> bool) -> Vec<u64> {
        let registry = self.registry.lock();
        let wanted = registry.members.iter().filter(|(_, member)| is_wanted(&***member));
        wanted.map(|(number, _)| *number).collect()
    }

    /// The member of this number, if it has not ended.
    pub(super) fn member(&self, number: u64) -> Option<Box<dyn Member>> {
        self.registry.lock().members.get(&number).map(|member| member.again())
    }

    /// Of those that have not ended, the one that came first.
    pub(super) fn first(&self) -> Option<Box<dyn Member>> {
        self.registry.lock().members.first_key_value().map(|(_, member)| member.again())
    }

    /// Returns true if all of them have ended.
    pub(super) fn has_ended(&self) -> bool {
        self.registry.lock().members.is_empty()
    }

    /// Messages that the members have discarded, and those that have ended.
    pub(super) fn discarded(&self) -> u64 {
        *self.discarded.lock()
    }

    fn remove(&self, number: u64) {
        let mut registry = self.registry.lock();
        let removed = registry.members.remove(&number);
        let open = registry.open;
        drop(registry);
        drop(removed);
        // REMOVED: only a system that was sealed is waited for.
        if !open {
            self.waiters.wake_all();
        }
    }
}

/// An actor's place in its system: given up when this is dropped, after its end.
pub(super) struct Membership {
    shared: Arc<SystemShared>,
    number: u64,
}

impl Guard for Membership {
    fn discarded(&self) -> &Arc<Mutex<u64>> {
        &self.shared.discarded
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.remove(self.number);
    }
}
