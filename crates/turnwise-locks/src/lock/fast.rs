//! Permits that are taken without a turn while no request waits.
//!
//! A semaphore lends its room to one atomic word, [`Available`]. A permit is a compare-and-swap
//! there, and so is its release: no turn, no lock. A request that cannot be met so, because it has
//! to wait or wants a lease, is a turn that takes the word's permits away and decides by the queue.
//! A turn that leaves no waiter behind lends what room there is again. A request that has waited,
//! without a lease, is lent its permits by the turn that lets it in: it becomes no hold either.
//!
//! - FAST-1: a permit is in the word or held by a [`FastPermit`], and the machine counts both as
//!   used; or it is the machine's, held or not.
//! - FAST-2: a permit is taken from the word only while no request waits, none is on its way to its
//!   turn, and no more is used than there is. So it overtakes none.
//! - FAST-3: while the permits are away, none is in the word: the end of a fast permit is a turn,
//!   behind those that came before.
//! - FAST-4: the fence of a hold is drawn in the step that takes its permit, or by the machine
//!   while the permits are away, or from the same word for a part that is split off. So fences have
//!   the order in which holds begin, of either kind.
//! - FAST-5: a fast permit that gets a lease, or whose end is awaited, is a hold of the machine
//!   from then on: by a turn that comes before the one that ends it.

use std::sync::{Arc, OnceLock};

use turnwise::Actor;

use super::guard::was_lost;
use super::hold_state::HoldState;
use super::place::{LockPlace, tell};
use super::turns::{Common, Core};
use crate::registry::KeySlot;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// The permits that a semaphore lends, and the fence of its last hold: one word.
///
/// ```text
///   63            16 15    2   1      0
///  | last fence     | free | away | closed |
/// ```
pub(super) struct Available {
    word: AtomicU64,
    /// Permits that the machine has, and that a request would get in its turn. To look at.
    rest: AtomicU64,
    /// Requests on their way to their turn (FAST-2).
    asking: AtomicU32,
    /// Fences after the last one that the word can count.
    late: AtomicU64,
}

const CLOSED: u64 = 1;
const AWAY: u64 = 2;
const PERMIT: u64 = 4;
const FREE: u64 = FENCE - PERMIT;
const FENCE: u64 = 1 << 16;
/// The largest number of permits in the word; the machine keeps the others.
const MOST: u64 = FREE / PERMIT;
/// The last fence of the word. A semaphore that comes so far, after nine years with a million holds
/// a second, works on by turns.
const LAST: u64 = u64::MAX / FENCE;

const fn free(word: u64) -> u64 {
    (word & FREE) / PERMIT
}

const fn fence(word: u64) -> u64 {
    word / FENCE
}

impl Available {
    /// With no permits: they are the machine's.
    pub(super) fn new() -> Self {
        Available {
            word: AtomicU64::new(AWAY),
            rest: AtomicU64::new(0),
            asking: AtomicU32::new(0),
            late: AtomicU64::new(LAST),
        }
    }

    /// Takes permits, unless a request is before. The answer is the fence of the hold. Lock-free.
    fn take(&self, permits: u64) -> Option<u64> {
        // Ordering: Acquire, with the Release in the drop of `Asking`: a request that is on its way
        // no more has taken the permits away, and that is seen below.
        if self.asking.load(Acquire) > 0 {
            return None;
        }
        // Ordering: Relaxed. The exchange decides.
        let mut word = self.word.load(Relaxed);
        loop {
            let there = permits <= free(word) && word & CLOSED == 0 && fence(word) < LAST;
            if !there {
                return None;
            }
            let taken = word - permits * PERMIT + FENCE;
            // Ordering: Acquire, with the Release of `put` and `lend`: what was done under a permit
            // before is seen under it now.
            match self.word.compare_exchange(word, taken, Acquire, Relaxed) {
                Ok(_) => return Some(fence(taken)),
                Err(now) => word = now,
            }
        }
    }

    /// Puts permits back. False: the machine has to get them. Lock-free.
    fn put(&self, permits: u64) -> bool {
        // Ordering: Relaxed. The exchange decides.
        let mut word = self.word.load(Relaxed);
        loop {
            // FAST-3.
            if word & AWAY != 0 || MOST - free(word) < permits {
                return false;
            }
            // Ordering: Release, with the Acquire of `take` and `take_away`: what was done under
            // these permits is seen by the next holder.
            let back = word + permits * PERMIT;
            match self.word.compare_exchange(word, back, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// The number of permits that a request would get at once. Stale on return.
    fn at_once(&self) -> u64 {
        // Ordering: Relaxed. They are numbers to look at.
        let word = self.word.load(Relaxed);
        match word & CLOSED == 0 {
            true => free(word).saturating_add(self.rest.load(Relaxed)),
            false => 0,
        }
    }

    /// The number of permits in the word. Stale on return.
    pub(super) fn free(&self) -> u64 {
        // Ordering: Relaxed. It is a number to look at.
        free(self.word.load(Relaxed))
    }

    /// Takes all permits out of the word. By the machine, in a turn.
    pub(super) fn take_away(&self) -> u64 {
        let change = |word| Some((word & !FREE) | AWAY);
        // Ordering: Acquire, with the Release of `put`: the machine hands these permits on.
        let before = self.word.fetch_update(Acquire, Relaxed, change);
        before.map_or(0, free)
    }

    /// Puts permits into the word, as many as there is room for: that many. By the machine, in a
    /// turn.
    pub(super) fn lend(&self, permits: u64) -> u64 {
        let given = |word| permits.min(MOST - free(word));
        let change = |word| Some((word & !AWAY) + given(word) * PERMIT);
        // Ordering: Release, with the Acquire of `take`: what was done under the permits that the
        // machine got back is seen by the next holder.
        let before = self.word.fetch_update(Release, Relaxed, change);
        before.map_or(0, given)
    }

    /// Publishes how many permits the machine has that a request would get.
    pub(super) fn show_rest(&self, permits: u64) {
        // Ordering: Relaxed. It is a number to look at.
        self.rest.store(permits, Relaxed);
    }

    /// The fence of a hold that begins now (FAST-4).
    pub(super) fn next_fence(&self) -> u64 {
        let change = |word| (fence(word) < LAST).then(|| word + FENCE);
        // Ordering: Relaxed. Fences increase with each change of the word, and a hold comes after
        // another one that it has seen.
        match self.word.fetch_update(Relaxed, Relaxed, change) {
            Ok(before) => fence(before) + 1,
            // Ordering: Relaxed, as above.
            Err(_) => self.late.fetch_add(1, Relaxed) + 1,
        }
    }

    /// No permit is taken from the word any more.
    fn close(&self) {
        // Ordering: Relaxed. A take is an exchange of the same word.
        self.word.fetch_or(CLOSED, Relaxed);
    }
}

/// A request on its way to its turn, until this is dropped.
pub(super) struct Asking(Arc<Common>);

impl Asking {
    /// None: of a lock that lends nothing.
    pub(super) fn new(common: &Arc<Common>) -> Option<Self> {
        let available = common.available.as_ref()?;
        // Ordering: Relaxed. A `take` that must not overtake this request comes after the call that
        // makes it.
        available.asking.fetch_add(1, Relaxed);
        Some(Asking(common.clone()))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(available) = &self.0.available {
            // Ordering: Release, with the Acquire of `take`: the turn has taken the permits away.
            available.asking.fetch_sub(1, Release);
        }
    }
}

/// A semaphore: what its handles and its fast permits share.
pub(super) struct Lender<K: Send + Sync + 'static> {
    pub(super) common: Arc<Common>,
    pub(super) actor: Actor<KeySlot<K, Core<K>>>,
}

impl<K: Send + Sync + 'static> Lender<K> {
    pub(super) fn place(self: &Arc<Self>) -> LockPlace<K> {
        LockPlace::Alone(self.clone())
    }

    /// The number of permits that a request would get at once. Stale on return.
    pub(super) fn at_once(&self) -> u64 {
        self.common.available.as_ref().map_or(0, Available::at_once)
    }

    /// Takes permits without a turn, if that many are there. The answer is the fence.
    pub(super) fn take(&self, permits: u64) -> Option<u64> {
        self.common.available.as_ref()?.take(permits)
    }

    /// A permit that comes without a turn.
    pub(super) fn lend(self: &Arc<Self>, permits: u64) -> Option<FastPermit<K>> {
        let fence = self.take(permits)?;
        Some(FastPermit::new(self.clone(), permits, fence))
    }

    /// Puts back what was taken.
    pub(super) fn put(&self, permits: u64) {
        if !self.common.available.as_ref().is_some_and(|available| available.put(permits)) {
            self.pay_back(permits);
        }
    }

    /// The machine gets permits back.
    fn pay_back(&self, permits: u64) {
        let here = |slot: &mut KeySlot<K, Core<K>>| {
            if let Some(core) = &mut slot.state {
                core.pay_back(permits, &self.common);
            }
        };
        if self.actor.try_with(here).is_ok() {
            return;
        }
        let common = self.common.clone();
        tell(&self.actor, move |slot| {
            if let Some(core) = &mut slot.state {
                core.pay_back(permits, &common);
            }
        });
    }

    pub(super) fn close(self: &Arc<Self>) {
        self.common.available.iter().for_each(Available::close);
        self.place().end(Core::close);
    }
}

/// Permits that were taken without a turn, until it is dropped.
pub(super) struct FastPermit<K: Send + Sync + 'static> {
    lender: Arc<Lender<K>>,
    permits: u64,
    fence: u64,
    /// The machine knows it (FAST-5).
    known: OnceLock<Arc<HoldState>>,
    held: bool,
}

impl<K: Send + Sync + 'static> FastPermit<K> {
    /// Permits that are lent.
    pub(super) fn new(lender: Arc<Lender<K>>, permits: u64, fence: u64) -> Self {
        FastPermit { lender, permits, fence, known: OnceLock::new(), held: true }
    }

    pub(super) fn fence(&self) -> u64 {
        self.fence
    }

    pub(super) fn common(&self) -> &Arc<Common> {
        &self.lender.common
    }

    pub(super) fn actor(&self) -> &Actor<KeySlot<K, Core<K>>> {
        &self.lender.actor
    }

    /// The state that its guard shares with the machine, if the machine knows it.
    pub(super) fn hold_state(&self) -> Option<&Arc<HoldState>> {
        self.known.get()
    }

    /// The state that its guard shares with the machine, which knows it from now on.
    pub(super) fn known(&self) -> &Arc<HoldState> {
        self.known.get_or_init(|| {
            let (fence, permits, hold_state) = (self.fence, self.permits, HoldState::new());
            let term = hold_state.clone();
            tell(self.actor(), move |slot| {
                if let Some(core) = &mut slot.state {
                    core.adopt(fence, permits, term);
                }
            });
            hold_state
        })
    }

    pub(super) fn permits(&self) -> u64 {
        self.permits
    }

    pub(super) fn permits_mut(&mut self) -> &mut u64 {
        &mut self.permits
    }

    pub(super) fn place(&self) -> LockPlace<K> {
        self.lender.place()
    }

    /// Another hold has its permits from now on: its drop does nothing.
    pub(super) fn disarm(&mut self) {
        self.held = false;
    }

    /// A part of one that the machine does not know, and that has more.
    pub(super) fn split(&mut self, permits: u64) -> Self {
        self.permits -= permits;
        FastPermit::new(self.lender.clone(), permits, self.lender.common.fence())
    }

    /// Lets go. True: it was lost before.
    pub(super) fn release(&mut self) -> bool {
        let known = self.known.get();
        let lost = known.is_some_and(|hold_state| was_lost(hold_state, &self.lender.common));
        self.end();
        lost
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.held, false) {
            return;
        }
        match self.known.get() {
            Some(_) => self.lender.place().leave(self.fence, self.fence),
            None => self.lender.put(self.permits),
        }
    }
}

impl<K: Send + Sync + 'static> Drop for FastPermit<K> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(permits: u64) -> Available {
        let available = Available::new();
        assert_eq!(available.lend(permits), permits.min(MOST));
        available
    }

    #[test]
    fn more_permits_than_the_word_has_room_for_stay_with_the_machine() {
        let available = with(MOST + 1);
        assert_eq!(available.free(), MOST);
        assert_eq!(available.take(MOST + 1), None);
        assert_eq!(available.take(1), Some(1));
        assert_eq!(available.lend(2), 1);
        assert!(!available.put(1));
        assert_eq!(available.take_away(), MOST);
        assert!(!available.put(1), "they are away");
        assert_eq!(available.take(1), None);
    }

    #[test]
    fn fences_go_on_after_the_last_of_the_word() {
        let available = with(2);
        available.word.fetch_add((LAST - 1) * FENCE, Relaxed);
        assert_eq!(available.take(1), Some(LAST));
        assert_eq!(available.take(1), None);
        assert_eq!((available.take_away(), available.next_fence()), (1, LAST + 1));
        assert_eq!(available.next_fence(), LAST + 2);
        assert_eq!((available.lend(1), available.free()), (1, 1));
        assert_eq!(available.take(1), None);
        assert!(available.put(1));
    }

    #[test]
    fn nothing_is_taken_after_the_close() {
        let available = with(2);
        assert_eq!(available.take(2), Some(1));
        available.close();
        assert!(available.put(2));
        assert_eq!((available.free(), available.take(1)), (2, None));
    }
}
