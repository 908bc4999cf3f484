//! A slot's set-up, clean-up and reclaim. None of it runs under a lock (SLOTS-4).

use std::mem::needs_drop;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::builder::{SlotBuildError, size};
use super::error::{SlotError, panicked};
use super::shared::{Lease, Shared, SlotHold, SlotPermit};
use super::slot::Slot;
use super::view::{PoolView, SlotId, SlotState};
use crate::lock::Fence;
use crate::user_code::{catch, discard, ignore, owning};

/// The maker of the value of a slot.
pub(super) enum SetUp<T, E> {
    /// No code of the user's.
    Plain(fn() -> T),
    Run(Box<dyn Fn(SlotId) -> Result<T, E> + Send + Sync>),
}

type CleanUp<T, E> = dyn Fn(SlotId, Option<T>) -> Result<(), E> + Send + Sync;
type Reclaim = dyn Fn(SlotId, Fence) + Send + Sync;
type OnQuarantine<E> = dyn Fn(SlotId, &SlotError<E>) + Send + Sync;

pub(super) struct Hooks<T, E> {
    pub(super) set_up: SetUp<T, E>,
    pub(super) clean_up: Option<Box<CleanUp<T, E>>>,
    pub(super) reclaim: Option<Box<Reclaim>>,
    pub(super) on_quarantine: Option<Box<OnQuarantine<E>>>,
}

pub(super) struct Pool<T: 'static, E: 'static> {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Option<Duration>,
    pub(super) hooks: Hooks<T, E>,
}

impl<T: 'static, E: 'static> Pool<T, E> {
    /// The holder of a permit gets a slot: on the thread that calls.
    pub(super) fn enter(self: Arc<Self>, entry: SlotPermit) -> Result<Slot<T, E>, SlotError<E>> {
        // Its hooks may go with it.
        let (this, taken) = owning(self, |this| this.take(entry));
        taken.map(|(hold, value)| Slot::new(this, hold, value))
    }

    fn take(&self, entry: SlotPermit) -> Result<(SlotHold, T), SlotError<E>> {
        let since = self.shared.now();
        match &self.hooks.set_up {
            SetUp::Plain(value) if !self.shared.clean_first => {
                Ok((self.shared.take(entry, SlotState::Held, since).0, value()))
            }
            set_up => {
                let (hold, unknown) = self.shared.take(entry, SlotState::SetUp, since);
                let value = self.set_up(hold.id, unknown, set_up)?;
                self.shared.stay(hold);
                Ok((hold, value))
            }
        }
    }

    fn set_up(&self, id: SlotId, unknown: bool, set_up: &SetUp<T, E>) -> Result<T, SlotError<E>> {
        if unknown {
            let cleaned = self.cleaned(id, None);
            if let Err(error) = cleaned {
                self.quarantine(id, &error);
                return Err(error);
            }
        }
        let made = catch(|| match set_up {
            SetUp::Plain(value) => Ok(value()),
            SetUp::Run(set_up) => set_up(id),
        });
        let failed = match made {
            Ok(Ok(value)) => return Ok(value),
            failed => failed,
        };
        // What a set-up has begun, a clean-up ends. Whether it does is the hook's to know.
        drop(self.clean(id, None));
        match failed {
            Err(payload) => resume_unwind(payload),
            Ok(Err(error)) => Err(SlotError::SetUp(error)),
            Ok(Ok(_)) => unreachable!("it is held"),
        }
    }

    fn cleaned(&self, id: SlotId, value: Option<T>) -> Result<(), SlotError<E>> {
        let cleaned = catch(|| match &self.hooks.clean_up {
            Some(clean_up) => clean_up(id, value),
            None => {
                drop(value);
                Ok(())
            }
        });
        match cleaned {
            Ok(cleaned) => cleaned.map_err(SlotError::CleanUp),
            Err(payload) => Err(SlotError::of_clean_up(payload)),
        }
    }

    /// Cleans a slot up, and gives it on; or quarantines it. The caller has ended its hold
    /// (SLOTS-3).
    fn clean(&self, id: SlotId, value: Option<T>) -> Result<(), SlotError<E>> {
        let cleaned = self.cleaned(id, value);
        match &cleaned {
            Ok(()) => self.shared.free(id),
            Err(error) => self.quarantine(id, error),
        }
        cleaned
    }

    fn quarantine(&self, id: SlotId, error: &SlotError<E>) {
        self.shared.quarantine(id);
        if let Some(tell) = &self.hooks.on_quarantine {
            ignore(|| tell(id, error));
        }
    }

    /// The guard of a hold ends it. None: it has ended before.
    pub(super) fn end(&self, hold: SlotHold, value: Option<T>) -> Option<Result<(), SlotError<E>>> {
        if self.hooks.clean_up.is_none() && !needs_drop::<T>() {
            let (lease, entry) = self.shared.end_clean(hold)?;
            Lease::ended(lease);
            self.shared.give_back(entry);
            return Some(Ok(()));
        }
        let Some(lease) = self.shared.end(hold) else {
            ignore(|| drop(value));
            return None;
        };
        Lease::ended(lease);
        Some(self.clean(hold.id, value))
    }

    /// True if a hold is lost. If its lease is over, it is from now on.
    pub(super) fn is_lost(self: &Arc<Self>, hold: SlotHold) -> bool {
        match self.shared.is_lost(hold) {
            Ok(lost) => lost,
            Err(due) => {
                let now = self.shared.now();
                due <= now && {
                    if let Some(lease) = self.shared.expire(hold, now) {
                        let pool = self.clone();
                        self.shared.post(move || pool.reclaim(hold, lease));
                    }
                    self.shared.is_lost(hold) == Ok(true)
                }
            }
        }
    }

    /// A lease begins. False: the hold is lost.
    pub(super) fn renew(self: &Arc<Self>, hold: SlotHold, lease: Duration) -> bool {
        let now = self.shared.now();
        // With a lease too long for the clock, it never ends.
        let due = now.checked_add(lease);
        let Some(version) = self.shared.lease(hold, now, due) else {
            return false;
        };
        if let Some(due) = due {
            let (shared, pool) = (self.shared.clone(), Arc::downgrade(self));
            let ring = move || shared.post(move || expire(&pool, hold));
            // A clock that panics arms nothing: then the lease ends when somebody asks.
            match catch(|| self.shared.time.timers().at(due, ring)) {
                Ok(timer) => self.shared.armed(hold, version, timer),
                Err(payload) => discard(payload),
            }
        }
        true
    }

    /// A hold that has expired: its holder learns of it, its job is cut, its holder is ended, and
    /// the slot is cleaned up.
    fn reclaim(self: Arc<Self>, hold: SlotHold, lease: Lease) {
        let job = lease.lost();
        job.iter().for_each(|job| job.cut());
        let ended = catch(|| {
            if let Some(reclaim) = &self.hooks.reclaim {
                reclaim(hold.id, Fence::from_number(hold.fence));
            }
        });
        // Its holder may have it still, if that has failed.
        let failed = ended.err().map(panicked);
        let last = move || match failed {
            Some(text) => self.quarantine(hold.id, &SlotError::CleanUpPanicked(text)),
            // Whether it succeeds is the hook's to know.
            None => drop(self.clean(hold.id, None)),
        };
        match job {
            // JOB-1.
            Some(job) => job.after(Box::new(last)),
            None => last(),
        }
    }

    pub(super) fn repair(&self, id: SlotId) -> Result<(), SlotError<E>> {
        if !self.shared.repair(id) {
            return Err(SlotError::NotQuarantined);
        }
        self.clean(id, None)
    }

    pub(super) fn resize(&self, slots: usize) -> Result<(), SlotBuildError> {
        self.shared.resize(size(slots)?);
        Ok(())
    }

    pub(super) fn view(&self) -> PoolView {
        self.shared.view()
    }

    pub(super) fn close(&self) {
        self.shared.permits.close();
    }
}

/// The lease of a hold is over, by its timer; it may have been renewed. Not on the thread of the
/// timers.
fn expire<T: 'static, E: 'static>(pool: &Weak<Pool<T, E>>, hold: SlotHold) {
    let Some(pool) = pool.upgrade() else { return };
    let now = pool.shared.now();
    if let Some(lease) = pool.shared.expire(hold, now) {
        pool.reclaim(hold, lease);
    }
}
