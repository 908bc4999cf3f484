//! What holds a lock.

use std::fmt;
use std::time::Duration;

use super::desk::Grant;
use super::error::LostError;
use super::fence::Fence;
use super::place::Place;
use super::tenure::Lost;

/// A hold, until it is dropped.
pub struct Held<K: Send + Sync + 'static> {
    place: Option<Place<K>>,
    grant: Grant<K>,
}

impl<K: Send + Sync + 'static> Held<K> {
    pub(super) fn new(place: Place<K>, grant: Grant<K>) -> Self {
        Held { place: Some(place), grant }
    }

    fn place(&self) -> &Place<K> {
        match &self.place {
            Some(place) => place,
            None => unreachable!("a hold has its place until it ends"),
        }
    }

    pub(super) fn key(&self) -> &K {
        match &self.grant.key {
            Some(key) => key,
            None => unreachable!("only what has no key is asked for none"),
        }
    }

    pub(super) fn fence(&self) -> Fence {
        Fence::from_number(self.grant.fence)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.grant.tenure.is_lost(|| self.place().common().now())
    }

    pub(super) fn lost(&self) -> Lost {
        Lost::of(&self.grant.tenure)
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        let due = self.grant.tenure.due()?;
        Some(due.saturating_sub(self.place().common().now()))
    }

    fn lost_error(&self) -> LostError {
        LostError { fence: self.fence() }
    }

    pub(super) fn renew(&self, lease: Duration) -> Result<(), LostError> {
        let place = self.place();
        let common = place.common();
        // A lease too long for the clock never ends; one of no time is over.
        let due = common.now().checked_add(lease);
        let tenure = &self.grant.tenure;
        let renewed = !self.is_lost() && tenure.end_at(due, common, place.actor.downgrade());
        if renewed && !self.is_lost() { Ok(()) } else { Err(self.lost_error()) }
    }

    pub(super) fn release(self) -> Result<(), LostError> {
        // The release counts from here on: the hold is lost before it, or not at all.
        if self.is_lost() { Err(self.lost_error()) } else { Ok(()) }
    }

    pub(super) fn lighten(&self, weight: u64) {
        let (fence, number) = (self.grant.fence, self.grant.number);
        self.place().tell(move |core, common| core.lighten(fence, number, weight, common));
    }

    pub(super) fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name).field("fence", &self.grant.fence).finish_non_exhaustive()
    }
}

impl<K: Send + Sync + 'static> Drop for Held<K> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            place.leave(&self.grant);
        }
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

        impl<$k: Send + Sync + 'static> $name<$k> {
            /// The key of the lock.
            pub fn key(&self) -> &$k {
                self.held.key()
            }
        }
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

        impl<$($k)*> $crate::lock::acquire::Guarding for $ty {
            type Key = $key;
            fn of(held: $crate::lock::guard::Held<$key>) -> Self {
                $name { held }
            }
        }

        impl<$($k)*> $ty {
            /// The number of this hold: larger than that of every hold before.
            pub fn fence(&self) -> $crate::lock::fence::Fence {
                self.held.fence()
            }

            /// Was it taken away: is its lease over, or was it forced? Once true, it stays so.
            /// False may be stale on return: see [`Fenced`](crate::Fenced).
            pub fn is_lost(&self) -> bool {
                self.held.is_lost()
            }

            /// A future that is ready when it was taken away.
            pub fn lost(&self) -> $crate::lock::tenure::Lost {
                self.held.lost()
            }

            /// What is left of its lease, if it has one.
            pub fn remaining(&self) -> Option<std::time::Duration> {
                self.held.remaining()
            }

            /// Its lease begins anew, with this length; also if it had none before.
            ///
            /// # Errors
            /// It was lost before: nothing has changed.
            pub fn renew(
                &self,
                lease: std::time::Duration,
            ) -> Result<(), $crate::lock::error::LostError> {
                self.held.renew(lease)
            }

            /// Gives it back, as dropping it does, and says whether it was held until now.
            ///
            /// # Errors
            /// It was lost before: nothing has changed, and whoever holds now goes on holding.
            pub fn release(self) -> Result<(), $crate::lock::error::LostError> {
                self.held.release()
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
