//! Who belongs to a system: the list of its actors, and of the systems below it.
//!
//! Actors spawned in a system carry a [`Membership`] in their end hook: it strikes them off when they end, and wakes those who wait for that. So
//! the list holds actors that have not ended, also those whose last handle has gone and which somebody is still draining. An adopted actor has
//! no such hook: it is looked for by a weak handle, and those found gone are struck off whenever as many are listed as were left by two looks
//! before; so the list stays within twice the living ones.
//!
//! - L1: nothing is added once `open` is false, and it never becomes true again.
//! - L2: no user code runs under the lock: entries are dropped, and handles are made, after it.
//! - L3: a parent's lock is taken before a child's, never the other way.
//! - STRUCK: an entry is struck off under the lock, then those who wait are woken. A waiter stands among them before he looks at the list.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::{Actor, WeakActor};
use crate::drain::storage::before_pending;
use crate::sync::{Mutex, thread};
use crate::wait::{Clock, Deadline, MonotonicClock, Waiter, Waiters};

/// Fewer entries than these are not worth a look.
const SWEEP_FROM: usize = 64;

/// An actor of any state, which this does not keep going.
pub(super) trait Member: Send + Sync {
    /// Its name, or the type of its state.
    fn name(&self) -> String;
    /// Is this thread inside a turn of it?
    fn is_running_here(&self) -> bool;
    /// Closes it if nothing runs or waits in it, and sees it end.
    fn close_if_idle(&self);
    /// Takes nothing new from now on.
    fn close(&self);
    /// Gives back what waits from now on.
    fn stop(&self);
    /// Drains it if nobody does.
    fn drain(&self);
    /// Waits for its end; false if that has not come by then. One whose handles have all gone cannot be waited for.
    fn wait_ended(&self, deadline: Deadline<'_>) -> bool;
    /// Has it ended, or have all its handles gone?
    fn is_gone(&self) -> bool;
}

impl<S: Send + 'static> Member for WeakActor<S> {
    fn name(&self) -> String {
        WeakActor::name(self).unwrap_or(std::any::type_name::<S>()).to_owned()
    }

    fn is_running_here(&self) -> bool {
        WeakActor::is_running_here(self)
    }

    fn close_if_idle(&self) {
        // Closed from idle, nothing waits in it: what this drain runs is its end.
        if let Some(actor) = self.upgrade().filter(Actor::close_if_idle) {
            actor.drain();
        }
    }

    fn close(&self) {
        // Without a handle, nobody can send anything.
        self.upgrade().inspect(|actor| _ = actor.close());
    }

    fn stop(&self) {
        WeakActor::stop(self);
    }

    fn drain(&self) {
        WeakActor::drain(self);
    }

    fn wait_ended(&self, deadline: Deadline<'_>) -> bool {
        self.upgrade().is_none_or(|actor| actor.handle.wait_ended(deadline).is_ok())
    }

    fn is_gone(&self) -> bool {
        self.upgrade().is_none_or(|actor| actor.is_closed() && actor.is_idle())
    }
}

/// What a system and its actors share.
pub(super) struct Shared {
    /// Without one, the machine's.
    clock: Option<Arc<dyn Clock>>,
    roster: Mutex<Roster>,
    /// Those who wait for actors to be struck off.
    waiters: Waiters,
}

struct Roster {
    open: bool,
    next: u64,
    spawned: Crew,
    adopted: Crew,
    /// So many adopted ones are worth a look, and so many systems below.
    sweep_at: usize,
    children: BTreeMap<u64, Arc<Shared>>,
    sweep_children_at: usize,
}

impl Roster {
    /// A number that nobody had.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Actors by number, in the order in which they came.
pub(super) type Crew = BTreeMap<u64, Arc<dyn Member>>;

/// All that belonged to a system when it was sealed.
pub(super) struct Sealed {
    pub(super) shared: Arc<Shared>,
    pub(super) spawned: Crew,
    pub(super) adopted: Crew,
}

impl Shared {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>) -> Arc<Self> {
        let roster = Roster {
            open: true,
            next: 0,
            spawned: Crew::new(),
            adopted: Crew::new(),
            sweep_at: SWEEP_FROM,
            children: BTreeMap::new(),
            sweep_children_at: SWEEP_FROM,
        };
        Arc::new(Shared { clock, roster: Mutex::new(roster), waiters: Waiters::default() })
    }

    /// The clock that was brought along, if one was.
    pub(super) fn own_clock(&self) -> Option<&Arc<dyn Clock>> {
        self.clock.as_ref()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.clock.as_deref().unwrap_or(&MonotonicClock)
    }

    pub(super) fn is_open(&self) -> bool {
        self.roster.lock().open
    }

    /// Adds an actor that `make` makes with its membership; `None`, with nothing made, if the system is closed.
    pub(super) fn spawn<S: Send + 'static>(self: &Arc<Self>, make: impl FnOnce(Membership) -> Actor<S>) -> Option<Actor<S>> {
        let mut roster = self.roster.lock();
        if !roster.open {
            return None;
        }
        let number = roster.number();
        let actor = make(Membership { shared: self.clone(), number });
        roster.spawned.insert(number, Arc::new(actor.downgrade()));
        Some(actor)
    }

    /// Adds an actor that was made elsewhere; false if the system is closed.
    pub(super) fn adopt<S: Send + 'static>(&self, actor: &Actor<S>) -> bool {
        let looked_at = {
            let mut roster = self.roster.lock();
            if !roster.open {
                return false;
            }
            let number = roster.number();
            roster.adopted.insert(number, Arc::new(actor.downgrade()));
            (roster.adopted.len() >= roster.sweep_at).then(|| roster.adopted.clone())
        };
        if let Some(crew) = looked_at {
            self.sweep(crew);
        }
        true
    }

    /// Strikes off those of the adopted ones that are gone.
    fn sweep(&self, crew: Crew) {
        // The look makes handles, and the last handle's drop runs user code (L2).
        let gone: Vec<u64> = crew.iter().filter(|(_, member)| member.is_gone()).map(|(number, _)| *number).collect();
        let mut roster = self.roster.lock();
        gone.iter().for_each(|number| _ = roster.adopted.remove(number));
        roster.sweep_at = SWEEP_FROM.max(2 * roster.adopted.len());
        drop(roster);
        // Only here may the last of the entries go.
        drop(crew);
    }

    /// A system below this one; `None` if this one is closed.
    pub(super) fn child(&self) -> Option<Arc<Self>> {
        let child = Shared::new(self.clock.clone());
        let looked_at = {
            let mut roster = self.roster.lock();
            if !roster.open {
                return None;
            }
            let number = roster.number();
            roster.children.insert(number, child.clone());
            (roster.children.len() >= roster.sweep_children_at).then(|| roster.children.clone())
        };
        if let Some(children) = looked_at {
            let spent: Vec<u64> = children.iter().filter(|(_, child)| child.is_spent()).map(|(number, _)| *number).collect();
            let mut roster = self.roster.lock();
            spent.iter().for_each(|number| _ = roster.children.remove(number));
            roster.sweep_children_at = SWEEP_FROM.max(2 * roster.children.len());
            drop(roster);
            drop(children);
        }
        Some(child)
    }

    /// Is it closed, with nobody left in it? Then it stays so.
    fn is_spent(&self) -> bool {
        let (adopted, children) = {
            let roster = self.roster.lock();
            if roster.open || !roster.spawned.is_empty() {
                return false;
            }
            (roster.adopted.clone(), roster.children.clone())
        };
        adopted.values().all(|member| member.is_gone()) && children.values().all(|child| child.is_spent())
    }

    /// Actors that have not ended, of the systems below too.
    pub(super) fn actors(&self) -> usize {
        let roster = self.roster.lock();
        roster.spawned.len() + roster.adopted.len() + roster.children.values().map(|child| child.actors()).sum::<usize>()
    }

    /// Takes nobody in any more, here and below. All of them, level by level, the top first.
    pub(super) fn seal(self: &Arc<Self>) -> Vec<Vec<Sealed>> {
        let mut levels = Vec::new();
        let mut level = vec![self.clone()];
        while !level.is_empty() {
            let mut below = Vec::new();
            let seal = |shared: Arc<Shared>| {
                let mut roster = shared.roster.lock();
                roster.open = false;
                below.extend(roster.children.values().cloned());
                let (spawned, adopted) = (roster.spawned.clone(), roster.adopted.clone());
                drop(roster);
                Sealed { shared, spawned, adopted }
            };
            levels.push(level.into_iter().map(seal).collect());
            level = below;
        }
        levels
    }

    fn strike(&self, number: u64) {
        let mut roster = self.roster.lock();
        let struck = roster.spawned.remove(&number).or_else(|| roster.adopted.remove(&number));
        let open = roster.open;
        drop(roster);
        drop(struck);
        if !open {
            self.waiters.wake_all();
        }
    }

    /// Those of this system alone that have not been struck off.
    fn members(&self) -> usize {
        let roster = self.roster.lock();
        roster.spawned.len() + roster.adopted.len()
    }

    fn has(&self, number: u64) -> bool {
        let roster = self.roster.lock();
        roster.spawned.contains_key(&number) || roster.adopted.contains_key(&number)
    }
}

impl Sealed {
    pub(super) fn crew(&self) -> impl Iterator<Item = (&u64, &Arc<dyn Member>)> {
        self.spawned.iter().chain(&self.adopted)
    }

    /// Those who have not ended.
    pub(super) fn left(&self) -> impl Iterator<Item = &Arc<dyn Member>> {
        self.crew().filter(|(number, _)| self.shared.has(**number)).map(|(_, member)| member)
    }

    /// Waits until all have been struck off but those in whose turns this thread is; false if that has not come by then.
    pub(super) fn wait_ended(&self, deadline: Deadline<'_>) -> bool {
        let here = self.crew().filter(|(_, member)| member.is_running_here()).count();
        let ended = || self.shared.members() <= here;
        loop {
            let number = self.shared.waiters.add(Waiter::Thread(thread::current()));
            let over = ended() || {
                // What a turn on this thread has promised may be what is waited for.
                before_pending();
                !deadline.park()
            };
            self.shared.waiters.remove(number);
            if over {
                return ended();
            }
        }
    }

    /// The adopted ones that can be waited for by another thread, apart from the rest.
    pub(super) fn strangers(&self) -> Strangers {
        let crew = self.adopted.iter().filter(|(_, member)| !member.is_running_here());
        Strangers { shared: self.shared.clone(), crew: crew.map(|(number, member)| (*number, member.clone())).collect() }
    }

    /// Strikes off the adopted ones that are gone.
    pub(super) fn look_again(&self) {
        self.adopted.iter().filter(|(_, member)| member.is_gone()).for_each(|(number, _)| self.shared.strike(*number));
    }
}

/// Adopted actors, of whose ends nobody hears who does not wait for them.
pub(super) struct Strangers {
    shared: Arc<Shared>,
    crew: Crew,
}

impl Strangers {
    /// Waits for their ends, and strikes them off. Runs what nobody else does.
    pub(super) fn see_off(&self, until: Option<Duration>) {
        let deadline = Deadline::at(self.shared.clock(), until);
        for (number, member) in &self.crew {
            if member.wait_ended(deadline) {
                self.shared.strike(*number);
            }
        }
    }
}

/// An actor's place in its system: given up when this is dropped, by its end hook.
pub(super) struct Membership {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.strike(self.number);
    }
}
