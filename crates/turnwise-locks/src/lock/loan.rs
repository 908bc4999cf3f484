//! Permits that are taken without a turn, as long as nobody waits.
//!
//! A semaphore lends its room to a tray: permits of it are taken, and put back, under a lock that is
//! held for some ten instructions. No turn, nothing allocated. As soon as a request cannot be met so,
//! because it has to wait, or wants a lease, its turn takes the tray away, and decides by the queue; a turn that leaves nobody waiting lends what room there is again.
//!
//! - L1: a permit is on the tray or lent to a holder, and the machine counts both as used; or it is
//!   the machine's, held or not.
//! - L2: a permit is taken from the tray only while nobody waits, no request is on its way to its
//!   turn, and no more is used than there is. So whoever takes one overtakes nobody.
//! - L3: while the tray is taken away, nothing is on it: a loan that ends is a turn, behind those
//!   that came before.
//! - L4: the fence of a loan is drawn under the lock of the tray; others while it is taken away. So
//!   fences have the order in which holds begin, of whichever kind they are.
//! - L5: a loan that is to have a lease, or is to be told of its end, is a hold of the machine from
//!   then on: by a turn that comes before the one that ends it.

use std::sync::{Arc, OnceLock};

use turnwise::Actor;

use super::desk::{Common, Core};
use super::guard::was_lost;
use super::place::{Kept, Place, tell};
use super::tenure::Tenure;
use crate::registry::Slot;
use crate::sync::Mutex;

/// What a semaphore lends, as long as nobody waits.
#[derive(Default)]
pub(crate) struct Tray {
    free: u64,
    /// How many loans there are.
    loans: usize,
    /// The machine has it (L3).
    away: bool,
    /// How many requests are on their way to their turn (L2).
    asking: usize,
    /// Nothing is taken from it any more.
    closed: bool,
}

/// Where a tray is: in a lock of its own, or in that of what goes with its permits.
pub(crate) trait Trays: Send + Sync {
    fn open(&self, f: &mut dyn FnMut(&mut Tray));
}

impl Trays for Mutex<Tray> {
    fn open(&self, f: &mut dyn FnMut(&mut Tray)) {
        f(&mut self.lock());
    }
}

impl Tray {
    /// All that a new semaphore has.
    pub(crate) fn of(permits: u64) -> Self {
        Tray { free: permits, ..Tray::default() }
    }

    /// Takes permits, if nobody is before.
    pub(crate) fn take(&mut self, permits: u64) -> bool {
        let there = permits <= self.free && self.asking == 0 && !self.closed;
        if there {
            self.free -= permits;
            self.loans += 1;
        }
        there
    }

    /// Puts them back. False: the machine has to get them.
    pub(crate) fn put(&mut self, permits: u64) -> bool {
        self.loans -= 1;
        if !self.away {
            self.free += permits;
        }
        !self.away
    }

    pub(super) fn loans(&self) -> usize {
        self.loans
    }

    /// A loan is the machine's hold from now on (L5).
    pub(super) fn adopted(&mut self) {
        self.loans -= 1;
    }

    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Takes it away, and what is on it.
    pub(super) fn take_away(&mut self) -> u64 {
        self.away = true;
        std::mem::take(&mut self.free)
    }

    /// Lends so much more.
    pub(super) fn lend(&mut self, room: u64) {
        self.away = false;
        self.free += room;
    }

    fn close(&mut self) {
        self.closed = true;
    }
}

/// A request on its way to its turn, until this is dropped.
pub(super) struct Asking(Arc<dyn Trays>);

impl Asking {
    pub(super) fn new(trays: &Arc<dyn Trays>) -> Self {
        trays.open(&mut |tray| tray.asking += 1);
        Asking(trays.clone())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.open(&mut |tray| tray.asking -= 1);
    }
}

/// A semaphore: what its handles and its loans share.
pub(super) struct Lender<K: Send + Sync + 'static> {
    pub(super) trays: Arc<dyn Trays>,
    pub(super) common: Arc<Common>,
    pub(super) actor: Actor<Slot<K, Core<K>>>,
}

impl<K: Send + Sync + 'static> Lender<K> {
    pub(super) fn place(&self) -> Place<K> {
        let kept = Kept::Alone(self.common.clone(), self.trays.clone());
        Place { kept, actor: self.actor.clone() }
    }

    /// Permits, if so many are on the tray.
    pub(super) fn lend(self: &Arc<Self>, permits: u64) -> Option<Loan<K>> {
        let mut fence = None;
        self.trays.open(&mut |tray| fence = tray.take(permits).then(|| self.common.number()));
        let fence = fence?;
        Some(Loan { lender: self.clone(), permits, fence, known: OnceLock::new(), held: true })
    }

    /// A loan ends that the tray did not take.
    pub(super) fn pay_back(&self, permits: u64) {
        let common = self.common.clone();
        tell(&self.actor, move |slot| {
            if let Some(core) = &mut slot.state {
                core.pay_back(permits, &common);
            }
        });
    }

    pub(super) fn close(&self) {
        self.trays.open(&mut Tray::close);
        self.actor.close();
    }
}

/// Permits from the tray, until it is dropped.
pub(super) struct Loan<K: Send + Sync + 'static> {
    lender: Arc<Lender<K>>,
    permits: u64,
    fence: u64,
    /// The machine knows it (L5).
    known: OnceLock<Arc<Tenure>>,
    held: bool,
}

impl<K: Send + Sync + 'static> Loan<K> {
    pub(super) fn fence(&self) -> u64 {
        self.fence
    }

    pub(super) fn common(&self) -> &Arc<Common> {
        &self.lender.common
    }

    pub(super) fn actor(&self) -> &Actor<Slot<K, Core<K>>> {
        &self.lender.actor
    }

    /// What its guards share, if the machine knows it.
    pub(super) fn tenure(&self) -> Option<&Arc<Tenure>> {
        self.known.get()
    }

    /// What its guards share: the machine knows it from now on.
    pub(super) fn known(&self) -> &Arc<Tenure> {
        self.known.get_or_init(|| {
            let (fence, permits, tenure) = (self.fence, self.permits, Tenure::new());
            let term = tenure.clone();
            tell(self.actor(), move |slot| {
                if let Some(core) = &mut slot.state {
                    core.adopt(fence, permits, term);
                }
            });
            tenure
        })
    }

    /// Lets go. True: it was lost before.
    pub(super) fn release(&mut self) -> bool {
        let known = self.known.get();
        let lost = known.is_some_and(|tenure| was_lost(tenure, &self.lender.common));
        self.end();
        lost
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.held, false) {
            return;
        }
        if self.known.get().is_some() {
            return self.lender.place().leave(self.fence, self.fence);
        }
        let mut taken = false;
        self.lender.trays.open(&mut |tray| taken = tray.put(self.permits));
        if !taken {
            self.lender.pay_back(self.permits);
        }
    }
}

impl<K: Send + Sync + 'static> Drop for Loan<K> {
    fn drop(&mut self) {
        self.end();
    }
}
