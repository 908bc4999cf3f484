//! Who belongs to a system: its members, and the systems below it.
//!
//! An actor that is spawned in a system carries a [`Membership`] in its end hook. The end of the
//! actor drops it, and that removes the member and wakes those that wait. So the registry holds
//! actors that have not ended, those included whose last handle has gone and which somebody still
//! runs. It holds their memory, and keeps no actor going.
//!
//! - L1: nothing is added once `open` is false, and it never becomes true again. So what a shutdown
//!   finds when it seals a system is all that there will ever be.
//! - L2: no user code runs under the lock. An actor is made there, which calls the allocator alone;
//!   members and children that are removed are dropped after it, for their last reference may drop
//!   hooks.
//! - L3: no lock of one registry is taken under that of another.
//! - REMOVED: a member is removed under the lock, and `open` read there; then those that wait are
//!   woken. Who waits stands in the list before the look at the members, so either the look misses
//!   the member, or the wake-up comes after it.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::actor::{Actor, WeakActor};
use crate::cell::refs::Ref;
use crate::drain::context::Local;
use crate::drain::deferred::{give_back_here, take_on_if_pending};
use crate::drain::rest::end_rest;
use crate::sync::Mutex;
use crate::time::{Clock, MonotonicClock};
use crate::wait_list::Waiters;

/// Fewer entries than these are not worth a look.
const SWEEP_FROM: usize = 64;

/// An actor of any state, which this does not keep going.
pub(super) trait Member: Send + Sync {
    /// Its memory.
    fn cell(&self) -> &Ref;
    /// Its name, or the type of its state.
    fn name(&self) -> String;
    /// Closes it if nothing runs or waits in it; true if this call did it. `here`: it ends in this
    /// call, unless that is for its executor.
    fn close_if_idle(&self, here: bool) -> bool;
    /// Takes nothing new from now on.
    fn close(&self);
}

impl<S: Send + 'static> Member for WeakActor<S> {
    fn cell(&self) -> &Ref {
        WeakActor::cell(self)
    }

    fn name(&self) -> String {
        WeakActor::cell(self).header().name().to_owned()
    }

    // Without a handle, nobody can send anything, and whoever dropped the last one sees to the end.

    fn close_if_idle(&self, here: bool) -> bool {
        let Some(actor) = self.upgrade() else { return false };
        if here { actor.handle.end_if_idle() } else { actor.close_if_idle() }
    }

    fn close(&self) {
        if let Some(actor) = self.upgrade() {
            actor.close();
        }
    }
}

impl dyn Member {
    /// Which actor it is, among those that are there.
    pub(super) fn addr(&self) -> usize {
        self.cell().addr()
    }

    pub(super) fn has_executor(&self) -> bool {
        self.cell().header().has_executor()
    }

    /// Closes it, and sees to it that what waits is run, if nobody is at it. Inside work of the
    /// crate's own: nothing of it is run here.
    pub(super) fn run_out(&self, local: &Local) {
        self.close();
        take_on_if_pending(local, self.cell());
    }

    /// Stops it. If nobody is at it, what waits is given back: in this call, if `here` and it has
    /// no executor.
    pub(super) fn stop(&self, local: &Local, here: bool) {
        self.cell().header().raise_stop();
        self.close();
        end_rest(local, self.cell(), here);
        if here && !self.has_executor() {
            give_back_here(local, self.cell());
        } else {
            take_on_if_pending(local, self.cell());
        }
    }
}

/// What a system and its actors share.
pub(super) struct Shared {
    /// Without one, the machine's.
    clock: Option<Arc<dyn Clock>>,
    registry: Mutex<Registry>,
    /// Those who wait for members to be removed.
    pub(super) waiters: Waiters,
}

struct Registry {
    open: bool,
    /// All members were stopped, or are just being stopped, here and below.
    stopped: bool,
    last: u64,
    /// By number, in the order in which they came.
    members: BTreeMap<u64, Arc<dyn Member>>,
    children: BTreeMap<u64, Arc<Shared>>,
    sweep_children_at: usize,
    /// What those have discarded that are here no more.
    discarded: u64,
}

impl Registry {
    /// A number that nobody had.
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Shared {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>) -> Arc<Self> {
        let registry = Registry {
            open: true,
            stopped: false,
            last: 0,
            members: BTreeMap::new(),
            children: BTreeMap::new(),
            sweep_children_at: SWEEP_FROM,
            discarded: 0,
        };
        let waiters = Waiters::default();
        Arc::new(Shared { clock, registry: Mutex::new(registry), waiters })
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
        let number = registry.number();
        let actor = make(Membership { shared: self.clone(), number });
        registry.members.insert(number, Arc::new(actor.downgrade()));
        Some(actor)
    }

    /// A system below this one; `None` if this one is closed.
    pub(super) fn child(&self) -> Option<Arc<Self>> {
        let child = Shared::new(self.clock.clone());
        let looked_at = {
            let mut registry = self.registry.lock();
            if !registry.open {
                return None;
            }
            let number = registry.number();
            registry.children.insert(number, child.clone());
            let sweep = registry.children.len() >= registry.sweep_children_at;
            sweep.then(|| registry.children.clone())
        };
        if let Some(children) = looked_at {
            self.remove_spent(children);
        }
        Some(child)
    }

    fn remove_spent(&self, children: BTreeMap<u64, Arc<Shared>>) {
        let spent = children.iter().filter(|(_, child)| child.is_spent());
        let (spent, discarded): (Vec<u64>, Vec<u64>) =
            spent.map(|(number, child)| (*number, child.discarded())).unzip();
        let discarded = discarded.iter().sum::<u64>();
        let mut registry = self.registry.lock();
        for number in &spent {
            // `children` has it too: nothing is dropped here.
            registry.children.remove(number);
        }
        registry.discarded += discarded;
        registry.sweep_children_at = SWEEP_FROM.max(2 * registry.children.len());
    }

    /// Calls `f` for this system and those below, one after the other, until it says no; false
    /// then.
    fn all_below(&self, mut f: impl FnMut(&Registry) -> bool) -> bool {
        let mut below = Vec::new();
        let mut look = |shared: &Shared, below: &mut Vec<Arc<Shared>>| {
            let registry = shared.registry.lock();
            below.extend(registry.children.values().cloned());
            f(&registry)
        };
        if !look(self, &mut below) {
            return false;
        }
        while let Some(shared) = below.pop() {
            if !look(&shared, &mut below) {
                return false;
            }
        }
        true
    }

    /// Is it closed, with nobody left in it? Then it stays so.
    fn is_spent(&self) -> bool {
        self.all_below(|registry| !registry.open && registry.members.is_empty())
    }

    /// Actors that have not ended, of the systems below too.
    pub(super) fn actors(&self) -> usize {
        let mut actors = 0;
        self.all_below(|registry| {
            actors += registry.members.len();
            true
        });
        actors
    }

    /// The actors themselves, a system's before those of the systems below it.
    pub(super) fn members(&self) -> Vec<Arc<dyn Member>> {
        let mut members = Vec::new();
        self.all_below(|registry| {
            members.extend(registry.members.values().cloned());
            true
        });
        members
    }

    /// Messages that they have discarded, and those that have ended, and those below.
    pub(super) fn discarded(&self) -> u64 {
        let mut discarded = 0;
        self.all_below(|registry| {
            let members =
                registry.members.values().map(|member| member.cell().header().discarded());
            discarded += registry.discarded + members.sum::<u64>();
            true
        });
        discarded
    }

    /// Takes nobody in any more, here and below. All of them, level by level, the top first.
    /// `to_stop`: without those that were sealed for that before.
    pub(super) fn seal(self: &Arc<Self>, to_stop: bool) -> Levels {
        let mut levels = Vec::new();
        let mut level = vec![self.clone()];
        while !level.is_empty() {
            let mut below = Vec::new();
            let seal = |shared: Arc<Shared>| {
                let mut registry = shared.registry.lock();
                registry.open = false;
                if to_stop && std::mem::replace(&mut registry.stopped, true) {
                    return None;
                }
                below.extend(registry.children.values().cloned());
                let members = registry.members.iter();
                let members = members.map(|(number, member)| (*number, member.clone())).collect();
                drop(registry);
                Some(Sealed { shared, members })
            };
            levels.push(level.into_iter().filter_map(seal).collect());
            level = below;
        }
        levels
    }

    fn remove(&self, number: u64) {
        let mut registry = self.registry.lock();
        let removed = registry.members.remove(&number);
        let open = registry.open;
        // Nothing is discarded after the end.
        registry.discarded += removed.as_ref().map_or(0, |gone| gone.cell().header().discarded());
        drop(registry);
        drop(removed);
        // REMOVED: only a system that was sealed is waited for.
        if !open {
            self.waiters.wake_all();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // A chain of systems of any length, in constant stack.
        let mut below = std::mem::take(&mut self.children);
        while let Some((_, child)) = below.pop_first() {
            if let Some(mut child) = Arc::into_inner(child) {
                let children = std::mem::take(&mut child.registry.get_mut().children);
                below.extend(children.into_values().map(|child| (0, child)));
            }
        }
    }
}

/// A system and those below it, level by level, the top first.
pub(super) type Levels = Vec<Vec<Sealed>>;

/// All that belonged to a system when it was sealed.
pub(super) struct Sealed {
    pub(super) shared: Arc<Shared>,
    members: Vec<(u64, Arc<dyn Member>)>,
}

impl Sealed {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Arc<dyn Member>> {
        self.members.iter().map(|(_, member)| member)
    }

    /// Those that have not ended.
    pub(super) fn left(&self) -> impl Iterator<Item = &Arc<dyn Member>> {
        let left = |number: &u64| self.shared.registry.lock().members.contains_key(number);
        let left = self.members.iter().filter(move |(number, _)| left(number));
        left.map(|(_, member)| member)
    }

    /// The numbers of these actors.
    pub(super) fn numbers_of(&self, addrs: &HashSet<usize>) -> Vec<u64> {
        let these = self.members.iter().filter(|(_, member)| addrs.contains(&member.addr()));
        these.map(|(number, _)| *number).collect()
    }

    /// Have all of them ended?
    pub(super) fn has_ended(&self) -> bool {
        self.shared.registry.lock().members.is_empty()
    }

    /// Have all of them ended but these?
    pub(super) fn has_ended_but(&self, numbers: &[u64]) -> bool {
        let members = &self.shared.registry.lock().members;
        members.len() <= numbers.iter().filter(|number| members.contains_key(number)).count()
    }
}

/// An actor's place in its system: given up when this is dropped, by its end hook.
pub(super) struct Membership {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.remove(self.number);
    }
}
