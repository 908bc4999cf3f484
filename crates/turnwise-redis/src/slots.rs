//! Numbered places, each held by one request at a time, for programs on several machines.
//!
//! [`Slots`] hands them out, and a [`SlotPool`] runs jobs in them. Here are their errors and what a
//! look at them shows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnwise_locks::Limits;

use crate::attempt::{Acquire, Call};
use crate::client::Owned;
use crate::error::LockError;
use crate::lock::{Guard, Wanted, acquire, was_forced};
use crate::name::NameError;
use crate::requests::Request;
pub use crate::slot_pool::{RunSlotError, Slot, SlotError, SlotPool, SlotPoolBuilder};
use crate::step::{Answer, Op, Step, Token};

/// The maximum number of places of a pool: each step visits all.
const MOST: u32 = 1024;

/// An error that the parameters of a pool cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotBuildError {
    /// The name is not valid.
    Name(NameError),
    /// A pool has at least one slot.
    NoSlots,
    /// Each step visits all slots of a pool, so there is a largest number.
    TooMany {
        /// The limit: 1,024.
        most: usize,
    },
}

impl fmt::Display for SlotBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotBuildError::Name(error) => error.fmt(f),
            SlotBuildError::NoSlots => f.write_str("a pool has at least one slot"),
            SlotBuildError::TooMany { most } => write!(f, "a pool has {most} slots at most"),
        }
    }
}

impl std::error::Error for SlotBuildError {}

/// Places, from 1 on, each held by one request at a time, whatever machine it comes from: see
/// [`Remote::slots`](crate::Remote::slots). Clones share the same places.
///
/// A pool is a lock with several places. It has one queue in the order of requests, leases, and
/// fences that increase over all places.
///
/// # Examples
/// ```
/// use turnwise_redis::{Limits, LockError, Remote};
///
/// let boxes = Remote::in_memory().slots("boxes", 2)?;
/// let (a, b) = (boxes.acquire(Limits::NONE).wait()?, boxes.acquire(Limits::NONE).wait()?);
/// assert_eq!((a.place(), b.place()), (1, 2));
/// let busy = boxes.try_acquire().wait();
/// assert!(matches!(busy, Err(LockError::Busy { .. })));
/// a.release().wait()?;
/// assert_eq!(boxes.acquire(Limits::NONE).wait()?.place(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Slots {
    client: Owned,
    key: String,
    name: Arc<str>,
    places: u32,
}

/// A snapshot of a pool: see [`Slots::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotsInfo {
    /// The places that are held.
    pub held: Vec<u32>,
    /// The places that are quarantined: see [`SlotPool`].
    pub quarantined: Vec<u32>,
    /// The number of free places.
    pub free: u32,
    /// The number of waiting requests.
    pub waiting: usize,
}

impl Slots {
    pub(crate) fn new(client: Owned, name: &str, places: u32) -> Result<Self, SlotBuildError> {
        match places {
            0 => return Err(SlotBuildError::NoSlots),
            places if places > MOST => return Err(SlotBuildError::TooMany { most: MOST as usize }),
            _ => {}
        }
        let key = client.key("slots", name).map_err(SlotBuildError::Name)?;
        Ok(Slots { client, key, name: name.into(), places })
    }

    /// Requests a place that is free now and that no other request waits for: see
    /// [`Locks::try_lock`](crate::Locks::try_lock).
    pub fn try_acquire(&self) -> Acquire<Guard> {
        self.acquire(Limits::wait(Duration::ZERO))
    }

    /// Requests a place with limits: see [`Locks::lock_within`](crate::Locks::lock_within).
    pub fn acquire(&self, limits: impl Into<Limits>) -> Acquire<Guard> {
        let wanted = Wanted::new(limits.into());
        if wanted.is_too_short() {
            return Acquire::over(Err(LockError::LeaseTooShort));
        }
        let request = Request::take(&self.client, &self.key, self.places, None);
        let name = self.name.clone();
        Acquire::new(&self.client.home, &self.client.handles, Guard::handed, |caller| {
            acquire(caller, request, name, wanted)
        })
    }

    /// Takes a place from its holder and grants it to the next request. The old holder is notified.
    /// Returns false if the place is free.
    pub fn force_release(&self, place: u32) -> Call<bool> {
        self.client.step(self.op(Step::Force { place }), was_forced)
    }

    /// Returns a quarantined place to the pool. The next job there cleans it up first. Returns
    /// false if the place is not quarantined.
    pub fn repair(&self, place: u32) -> Call<bool> {
        self.client.step(self.op(Step::Repair { place }), was_forced)
    }

    /// Returns a snapshot of the pool, which may be stale by the time it is read.
    pub fn info(&self) -> Call<SlotsInfo> {
        let places = self.places;
        self.client.step(self.op(Step::Look), move |answer| {
            let (holders, waiting) = match answer {
                Answer::Seen { holders, waiting, .. } => (holders, waiting),
                Answer::Differs { places } => return Err(LockError::OtherPlaces { places }),
                _ => (Vec::new(), 0),
            };
            let free = places - u32::try_from(holders.len()).unwrap_or(places).min(places);
            let (mut held, mut quarantined) = (Vec::new(), Vec::new());
            for (place, token, _) in holders {
                let bad = token == Token::quarantine(place);
                if bad { quarantined.push(place) } else { held.push(place) }
            }
            let waiting = usize::try_from(waiting).unwrap_or(usize::MAX);
            Ok(SlotsInfo { held, quarantined, free, waiting })
        })
    }

    fn op(&self, step: Step) -> Result<Op, LockError> {
        Ok(self.client.op(self.key.clone(), self.places, step))
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Slots");
        shown.field("name", &self.name).field("places", &self.places).finish_non_exhaustive()
    }
}
