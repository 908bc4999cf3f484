//! The guards of locks and permits.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use turnwise::Actor;

use super::acquire::Guarding;
use super::error::ReleaseError;
use super::fast::FastPermit;
use super::fence::Fence;
use super::hold_state::{HoldState, Lost};
use super::machine::Term;
use super::place::{LockPlace, LockSet, tell};
use super::turns::{Common, Core, Grant};
use crate::registry::{self, Beside, KeySlot, KeyUse, Kind, comparing};

/// A hold, until it is dropped.
pub struct Held<K: Send + Sync + 'static>(Body<K>);

enum Body<K: Send + Sync + 'static> {
    /// In the mailbox of its lock.
    Fat(Fat<K>),
    /// In the registry, as long as there is no other request.
    Thin(Thin<K>),
    /// Taken without a turn, as long as it needs none.
    Fast(FastPermit<K>),
}

/// A hold that its lock's mailbox knows.
struct Fat<K: Send + Sync + 'static> {
    place: Option<LockPlace<K>>,
    grant: Grant,
}

/// A hold of a key that had no other request when it began.
pub(super) struct Thin<K: Send + Sync + 'static> {
    set: Arc<LockSet<K>>,
    place: registry::Place,
    fence: u64,
    /// It was asked for what only a mailbox knows.
    known: OnceLock<Known<K>>,
    held: bool,
}

type Known<K> = (Actor<KeySlot<K, Core<K>>>, Arc<HoldState>);

impl<K: Send + Sync + 'static> Fat<K> {
    fn place(&self) -> &LockPlace<K> {
        match &self.place {
            Some(place) => place,
            None => unreachable!("a hold has its place until it ends"),
        }
    }

    /// Lets go. True: it was lost before.
    fn release(&mut self) -> bool {
        let Some(place) = self.place.take() else { return false };
        let lost = was_lost(&self.grant.hold_state, place.common());
        place.leave(self.grant.fence, self.grant.number);
        lost
    }
}

impl<K: Send + Sync + 'static> Drop for Fat<K> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.grant.end(place);
        }
    }
}

impl<K: Send + Sync + 'static> Thin<K> {
    pub(super) fn new(set: Arc<LockSet<K>>, place: registry::Place, fence: u64) -> Self {
        Thin { set, place, fence, known: OnceLock::new(), held: true }
    }

    /// Its mailbox and its state; made, if there are none.
    fn known(&self) -> &Known<K> {
        self.known.get_or_init(|| {
            let (actor, beside) = self.set.registry.mailbox(self.place, self.set.kept());
            (actor, hold_state_of(beside))
        })
    }

    /// Lets go: of a place in a mailbox, if it has got one meanwhile, and what it shares with that.
    fn let_go(&mut self) -> Option<(LockPlace<K>, Arc<HoldState>)> {
        if !self.held {
            return None;
        }
        // Panics inside the `Eq` of a key: then it is held still, until its drop.
        let met = self.set.registry.let_go(self.place);
        self.held = false;
        let (actor, beside) = met?;
        let key_use = KeyUse::new(self.set.clone(), self.place, Kind::Run);
        Some((LockPlace::Key(key_use, actor), hold_state_of(beside)))
    }

    /// Lets go. True: it was lost before.
    fn release(&mut self) -> bool {
        let Some((place, hold_state)) = self.let_go() else { return false };
        let lost = was_lost(&hold_state, &self.set.common);
        place.leave(self.fence, self.fence);
        lost
    }
}

/// An entry of a hold lets go. True: it was lost before; else it never is from now on, unless its
/// owner has others.
pub(super) fn was_lost(hold_state: &HoldState, common: &Common) -> bool {
    hold_state.is_lost(|| common.now()) || !hold_state.let_go()
}

/// The state that a guard shares with its lock.
fn hold_state_of(beside: Beside) -> Arc<HoldState> {
    beside.downcast().unwrap_or_else(|_| unreachable!("it is that of a lock"))
}

impl<K: Send + Sync + 'static> Drop for Thin<K> {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        if comparing() {
            // Inside the `Eq` of a key: then not here, and a pool does it.
            let set = self.set.clone();
            let mut thin = Thin::new(set, self.place, self.fence);
            std::mem::swap(&mut thin.known, &mut self.known);
            self.held = false;
            drop(Actor::new(()).posted().send(move |()| drop(thin)));
            return;
        }
        if let Some((place, _)) = self.let_go() {
            place.leave(self.fence, self.fence);
        }
    }
}

impl<K: Send + Sync + 'static> Held<K> {
    pub(super) fn fat(place: LockPlace<K>, grant: Grant) -> Self {
        Held(Body::Fat(Fat { place: Some(place), grant }))
    }

    pub(super) fn thin(thin: Thin<K>) -> Self {
        Held(Body::Thin(thin))
    }

    pub(super) fn fast(permit: FastPermit<K>) -> Self {
        Held(Body::Fast(permit))
    }

    fn common(&self) -> &Arc<Common> {
        match &self.0 {
            Body::Fast(permit) => permit.common(),
            Body::Fat(fat) => fat.place().common(),
            Body::Thin(thin) => &thin.set.common,
        }
    }

    /// Its lock's mailbox, and what its guards share.
    fn known(&self) -> (&Actor<KeySlot<K, Core<K>>>, &Arc<HoldState>) {
        match &self.0 {
            Body::Fat(fat) => (fat.place().actor(), &fat.grant.hold_state),
            Body::Thin(thin) => {
                let (actor, hold_state) = thin.known();
                (actor, hold_state)
            }
            Body::Fast(permit) => (permit.actor(), permit.known()),
        }
    }

    /// The hash of its key, by the registry of its locks.
    pub(super) fn hash(&self) -> u64 {
        match &self.0 {
            Body::Fat(fat) => fat.place().hash(),
            Body::Thin(thin) => thin.place.hash,
            Body::Fast(_) => unreachable!("a semaphore has no key"),
        }
    }

    /// The values behind the locks.
    pub(super) fn values(&self) -> Option<&(dyn Any + Send + Sync)> {
        match &self.0 {
            Body::Fat(fat) => fat.place().lock_set()?.values.as_deref(),
            Body::Thin(thin) => thin.set.values.as_deref(),
            Body::Fast(_) => None,
        }
    }

    fn number(&self) -> u64 {
        match &self.0 {
            Body::Fat(fat) => fat.grant.number,
            Body::Thin(thin) => thin.fence,
            Body::Fast(permit) => permit.fence(),
        }
    }

    pub(super) fn fence(&self) -> Fence {
        Fence::from_number(match &self.0 {
            Body::Fat(fat) => fat.grant.fence,
            Body::Thin(thin) => thin.fence,
            Body::Fast(permit) => permit.fence(),
        })
    }

    pub(super) fn is_lost(&self) -> bool {
        if let Body::Fast(permit) = &self.0 {
            if permit.hold_state().is_none() {
                return false;
            }
        }
        self.known().1.is_lost(|| self.common().now())
    }

    pub(super) fn lost(&self) -> Lost {
        Lost::of(self.known().1)
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        let hold_state = match &self.0 {
            Body::Fat(fat) => &fat.grant.hold_state,
            Body::Thin(thin) => &thin.known.get()?.1,
            Body::Fast(permit) => permit.hold_state()?,
        };
        Some(hold_state.due()?.saturating_sub(self.common().now()))
    }

    pub(super) fn renew(&self, lease: Duration) -> Result<(), ReleaseError> {
        let common = self.common();
        // A lease too long for the clock never ends; one of no time is over.
        let due = common.now().checked_add(lease);
        let (actor, hold_state) = self.known();
        let lost = Err(ReleaseError::Lost(self.fence()));
        if self.is_lost() {
            return lost;
        }
        let Some(before) = hold_state.end_at(due) else { return lost };
        // A lease that ends later is found so at the end that it had.
        if due.is_some_and(|due| before.is_none_or(|before| due < before)) {
            let (fence, common) = (self.fence().number(), common.clone());
            let weak = actor.downgrade();
            tell(actor, move |slot| {
                if let Some(core) = &mut slot.state {
                    core.mind(fence, weak, &common);
                }
            });
        }
        if self.is_lost() { lost } else { Ok(()) }
    }

    pub(super) fn release(mut self) -> Result<(), ReleaseError> {
        // The release counts from here on: the hold is lost before it, or not at all.
        let lost = match &mut self.0 {
            Body::Fat(fat) => fat.release(),
            Body::Thin(thin) => thin.release(),
            Body::Fast(permit) => permit.release(),
        };
        if lost { Err(ReleaseError::Lost(self.fence())) } else { Ok(()) }
    }

    pub(super) fn lighten(&self, weight: u64) {
        let (fence, number) = (self.fence().number(), self.number());
        let common = self.common().clone();
        tell(self.known().0, move |slot| {
            if let Some(core) = &mut slot.state {
                core.lighten(fence, number, weight, &common);
            }
        });
    }

    /// Its weight. Not of a hold without a mailbox: that is a key's.
    pub(super) fn weight(&self) -> u64 {
        match &self.0 {
            Body::Fat(fat) => fat.grant.weight,
            Body::Fast(permit) => permit.permits(),
            Body::Thin(_) => unreachable!("a semaphore's holds are not a key's"),
        }
    }

    fn weigh(&mut self, weight: u64) {
        match &mut self.0 {
            Body::Fat(fat) => fat.grant.weight = weight,
            Body::Fast(permit) => *permit.permits_mut() = weight,
            Body::Thin(_) => unreachable!("a semaphore's holds are not a key's"),
        }
    }

    fn place(&self) -> LockPlace<K> {
        match &self.0 {
            Body::Fat(fat) => fat.place().again(),
            Body::Fast(permit) => permit.place(),
            Body::Thin(_) => unreachable!("a semaphore's holds are not a key's"),
        }
    }

    /// Another hold has its weight from now on: its drop does nothing.
    fn disarm(&mut self) {
        match &mut self.0 {
            Body::Fat(fat) => drop(fat.place.take()),
            Body::Fast(permit) => permit.disarm(),
            Body::Thin(_) => unreachable!("a semaphore's holds are not a key's"),
        }
    }

    /// Makes a part of it a hold of its own. None: it is lost, or has not more than that.
    pub(super) fn split(&mut self, weight: u64) -> Option<Self> {
        let rest = self.weight().checked_sub(weight).filter(|&rest| rest > 0 && weight > 0)?;
        if let Body::Fast(permit) = &mut self.0 {
            if permit.hold_state().is_none() {
                return Some(Held(Body::Fast(permit.split(weight))));
            }
        }
        if self.is_lost() {
            return None;
        }
        let (actor, hold_state) = self.known();
        let part = HoldState::until(hold_state.split()?);
        let (common, whole) = (self.common().clone(), hold_state.clone());
        let (hold, fence, term) = (self.name(), common.fence(), part.clone());
        tell(actor, move |slot| {
            if let Some(core) = &mut slot.state {
                whole.was_split();
                core.split(hold, weight, (fence, term), &common);
            }
        });
        let grant = Grant { fence, number: fence, weight, hold_state: part };
        let part = Held::fat(self.place(), grant);
        self.weigh(rest);
        Some(part)
    }

    /// Merges another hold into this one.
    ///
    /// # Errors
    /// One of them is lost, or they are of two locks.
    pub(super) fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(self.common(), other.common()) || self.is_lost() || other.is_lost() {
            return Err(other);
        }
        let weight = self.weight() + other.weight();
        if let (Body::Fast(one), Body::Fast(two)) = (&self.0, &other.0) {
            if one.hold_state().is_none() && two.hold_state().is_none() {
                other.disarm();
                self.weigh(weight);
                return Ok(());
            }
        }
        // From here on it has no lease, whose end would take its weight away before the turn below.
        if other.known().1.end_at(None).is_none() {
            return Err(other);
        }
        let (common, theirs) = (self.common().clone(), other.known_name());
        let ours = self.known_name();
        tell(self.known().0, move |slot| {
            if let Some(core) = &mut slot.state {
                core.merge(ours, theirs, &common);
            }
        });
        other.disarm();
        self.weigh(weight);
        Ok(())
    }

    /// Ends it, and its weight is not given back.
    pub(super) fn forget(mut self) {
        let known = match &self.0 {
            Body::Fast(permit) => permit.hold_state().is_some(),
            _ => true,
        };
        let (common, weight) = (self.common().clone(), self.weight());
        let fence = known.then(|| self.fence().number());
        let place = self.place();
        self.disarm();
        place.end(move |core, _| core.forget(fence, weight, &common));
    }

    /// The fence and the number by which its lock knows it.
    fn name(&self) -> (u64, u64) {
        (self.fence().number(), self.number())
    }

    /// Its [name](Self::name), made known to the lock.
    fn known_name(&self) -> (u64, u64) {
        let _ = self.known();
        self.name()
    }

    pub(super) fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name).field("fence", &self.fence().number()).finish_non_exhaustive()
    }
}

impl<K: Send + Sync + 'static> Guarding<K> for Held<K> {
    fn of(held: Held<K>) -> Self {
        held
    }

    fn held(&self) -> &Held<K> {
        self
    }

    fn into_held(self) -> Held<K> {
        self
    }
}

impl<K: Send + Sync + 'static> fmt::Debug for Held<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show("Held", f)
    }
}

/// The methods that all guards have.
macro_rules! guard {
    ($(#[$doc:meta])* $name:ident<$k:ident>, $key:ty) => {
        guard!(@ [$(#[$doc])*] [$k: Send + Sync + 'static] [$name<$k>] $name, $key);
    };
    ($(#[$doc:meta])* $name:ident) => {
        guard!(@ [$(#[$doc])*] [] [$name] $name, ());
    };
    (@ [$(#[$doc:meta])*] [$($k:tt)*] [$ty:ty] $name:ident, $key:ty) => {
        $(#[$doc])*
        #[must_use = "dropping it gives it back"]
        pub struct $name<$($k)*> {
            held: $crate::lock::guard::Held<$key>,
        }

        impl<$($k)*> $crate::lock::acquire::Guarding<$key> for $ty {
            fn of(held: $crate::lock::guard::Held<$key>) -> Self {
                $name { held }
            }

            fn held(&self) -> &$crate::lock::guard::Held<$key> {
                &self.held
            }

            fn into_held(self) -> $crate::lock::guard::Held<$key> {
                self.held
            }
        }

        impl<$($k)*> $ty {
            /// The number of this hold: larger than that of every hold before.
            pub fn fence(&self) -> $crate::lock::fence::Fence {
                self.held.fence()
            }

            /// True if it was taken away: its lease is over, or it was forced. Once true, it stays
            /// so. False may be stale on return: see [`Fenced`](crate::Fenced).
            pub fn is_lost(&self) -> bool {
                self.held.is_lost()
            }

            /// A future that is ready when it was taken away.
            pub fn lost(&self) -> $crate::lock::hold_state::Lost {
                self.held.lost()
            }

            /// The rest of its lease, if it has one.
            pub fn remaining(&self) -> Option<std::time::Duration> {
                self.held.remaining()
            }

            /// Its lease begins anew, with this length; also if it had none before. Fails with
            /// [`ReleaseError::Lost`](crate::ReleaseError::Lost) if it was lost before.
            pub fn renew(
                &self,
                lease: std::time::Duration,
            ) -> $crate::lock::call::Call<(), $crate::lock::error::ReleaseError> {
                $crate::lock::call::Call::over(self.held.renew(lease))
            }

            /// Gives it back in this very call, as dropping it does, and says whether it was held
            /// until now. Fails with [`ReleaseError::Lost`](crate::ReleaseError::Lost) if it was
            /// lost before: nothing has changed, and the holder of now goes on holding.
            pub fn release(
                self,
            ) -> $crate::lock::call::Call<(), $crate::lock::error::ReleaseError> {
                $crate::lock::call::Call::over(self.held.release())
            }
        }

        impl<$($k)*> std::fmt::Debug for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.held.show(stringify!($name), f)
            }
        }
    };
}

pub(super) use guard;
