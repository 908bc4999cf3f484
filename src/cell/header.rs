//! The part of an actor's memory that does not depend on its state's type.
//!
//! ```text
//! Header { flags | config | word } state | counts        40 bytes for a state of 8
//! ```
//! The word and a small state lie side by side, in one cache line wherever the allocator puts them:
//! two threads that alternate on one actor move one line, not two. The counts come last, so a large
//! state keeps clones of the handle off the word's line.
//!
//! `flags` holds the saved list while the mailbox is pending, and bits, of which ENDED is the
//! owner's alone. The configuration lies behind `config`: in a static for a plain actor, else in an
//! allocation that all actors of one builder share. What few actors need (waiting threads, the
//! cause of a stop) is an allocation that takes its place there when the actor is watched or stops
//! by a panic: a [`Fork`], with the settings once more.
//!
//! - HEADER-1: the state is touched by the owner of the mailbox only (HANDOVER carries it from one
//!   to the next), and is there until ENDED is set.
//! - HEADER-2: `handles` counts handles. It never rises from 0. The step that takes it to 0 raises
//!   ORPHAN; the owner then takes the state out.
//! - HEADER-3: `refs` counts [`Ref`](super::refs::Ref)s, plus one for the handles all together,
//!   given up by the owner that deals with ORPHAN. So the memory is there for the mailbox's owner.
//!   At 0 it is freed.
//! - HEADER-4: `config` changes once at most, from what the cell was made with (its *base*) to a
//!   fork of that. Both live as long as the cell: a cell gives its base up, and frees its fork,
//!   when it is freed.
//! - HEADER-5: a thread that has taken `handles` to 0, then finds the word idle, and then `refs` at
//!   1, is alone with the cell. An idle word says that the mailbox has no owner and that no entry
//!   is out; only a handle could change that, or a reference of a pending one. A reference could
//!   make another, and one may have taken the place of an entry just now (LEFT): the count shows
//!   it.
//! - HEADER-6: SCHEDULED in the word stands for the entry that is out
//!   ([`Scheduled`](super::refs::Scheduled)), which has no count. The one that takes `refs` to 0
//!   and finds SCHEDULED raised leaves the memory to that entry; the second of the two frees it
//!   (LEFT).
//! - NEWS: the process's count of stops, raised after STOP Release -> read before STOP Acquire. A
//!   drainer looks at `flags`, which lies where the senders write, at the beginning of a list and
//!   when that count has moved; an actor that is stopped is seen to be so before the next turn.
//! - CAUSE: `stop_because` Release -> `stop_cause` Acquire. One that sees that the actor was
//!   stopped finds why.
//! - CONFIG: compare-and-swap Release -> `load` Acquire. One that finds the fork finds it written.
//! - POSTED: raising it Release -> lowering it Acquire. A sender that finds it raised may go: the
//!   drain that is out lowers it later, and then sees the mailbox pending, with the sender's
//!   message.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::counts::{Counts, Linked};
use super::restarts::History;
use super::settings::{Config, Fork, Kind};
use super::stats::Stats;
use super::turn::Keeper;
use crate::error::{EndCause, Reason, StopCause, Who};
use crate::mailbox::list::Batch;
use crate::mailbox::semaphore::Semaphore;
use crate::mailbox::word::{CLOSED, Due, Entry, Won, Word};
use crate::panic;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use crate::sync::{CachePadded, Mutex, global};
use crate::time::{Clock, MonotonicClock};
use crate::wait_list::Waiters;

/// Queued messages are given back from now on. Set before CLOSED, by anybody.
pub(crate) const STOP: u64 = 1;
/// The state was taken out: the actor has ended. Owner only.
pub(crate) const ENDED: u64 = 2;
/// A drain without an entry is out in an executor.
const POSTED: u64 = 4;
/// The cause of the stop is recorded. Set together with STOP, or never.
const TOLD: u64 = 8;
/// Turns that may wait have been sent to the actor. Set before the first of them is pushed, and
/// never lowered: an owner that has taken such a message out of the mailbox sees it.
pub(crate) const AWAITS: u64 = 16;
/// Messages were posted to the actor: a drop of a handle runs none of what waits. Set before the
/// first of them is pushed, and never lowered.
pub(crate) const POSTS: u64 = 1 << 63;
/// Nodes are aligned, and lie below 2^48 (MAILBOX-3).
const FLAGS: u64 = 31 | POSTS;
/// The rest is the saved list of a pending mailbox.
const SAVED: u64 = !FLAGS;
/// A stop is under way, a turn that may wait is to come, or a list is saved of which HEAD knows
/// nothing. POSTS is one of them for the size of the mask: without it, that is no 32-bit constant.
pub(super) const DISTURBED: u64 = STOP | AWAITS | POSTS | SAVED;

#[repr(C)]
pub(crate) struct Header {
    flags: AtomicU64,
    config: AtomicPtr<Config>,
    pub(crate) word: Word,
}

/// The part of an actor that any thread may reach, allocated when it is needed.
pub(crate) struct Ext {
    /// Those that wait for the mailbox to be idle: woken when a watched word is released.
    pub(crate) idle_waiters: Waiters,
    /// Those that wait for the end: woken then.
    pub(crate) end_waiters: Waiters,
    /// Room for messages, and those that wait for it.
    pub(crate) room: Semaphore,
    /// Messages that were dropped for want of a hook.
    pub(super) discarded: AtomicU64,
    /// Counts them, too: the total of a system.
    pub(super) discarded_beside: Option<Arc<Mutex<u64>>>,
    pub(super) told: Mutex<Told>,
    pub(crate) restarts: History,
    /// The turn that waits, or has waited and is not over (TURN-3 of [`turn`](super::turn)).
    pub(crate) turn: Mutex<Option<Keeper>>,
    /// Set once the actor has enrolled with its executor. Owner only.
    enrolled: AtomicU32,
}

impl Ext {
    pub(super) fn new(capacity: u32) -> Self {
        Ext {
            idle_waiters: Waiters::default(),
            end_waiters: Waiters::default(),
            room: Semaphore::new(capacity),
            discarded: AtomicU64::new(0),
            discarded_beside: None,
            told: Mutex::default(),
            restarts: History::default(),
            turn: Mutex::default(),
            enrolled: AtomicU32::new(0),
        }
    }
}

/// The cause of an actor's stop and its counters.
#[derive(Default)]
pub(super) struct Told {
    cause: Option<StopCause>,
    /// Of an actor that is counted.
    pub(super) stats: Option<Box<Stats>>,
    /// Of one that is observed: the turns of the batch that its suspended turn belongs to.
    pub(super) turns: u64,
}

/// The fate of an actor whose turn panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    Resumed,
    /// It has a fresh state, and goes on.
    Restarted,
    Stopped,
    /// It is to be restarted, after so long.
    Restarts(Duration),
    /// It would be one restart too many: after this many.
    GaveUp(u32),
}

global! {
    /// The number of mailboxes of this process that were stopped (NEWS).
    static STOPS: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));
}

/// Changes whenever a mailbox is stopped: which one, its STOP says.
#[inline(always)]
pub(crate) fn stops() -> u64 {
    // Ordering: Acquire, reader side of NEWS.
    STOPS.load(Acquire)
}

fn announce_stop() {
    // Ordering: Release, writer side of NEWS.
    STOPS.fetch_add(1, Release);
}

impl Header {
    pub(super) fn new(config: *mut Config) -> Self {
        Header { flags: AtomicU64::new(0), config: AtomicPtr::new(config), word: Word::new() }
    }

    /// The actor's configuration.
    #[inline]
    pub(crate) fn config(&self) -> &Config {
        // SAFETY: HEADER-4: static, or alive as long as the cell.
        unsafe { &*self.config_ptr() }
    }

    #[inline]
    fn config_ptr(&self) -> *mut Config {
        // Ordering: Acquire, reader side of CONFIG.
        self.config.load(Acquire)
    }

    /// The fork of the cell, if this is one: what `config` was seen to be.
    fn fork_at(&self, config: *mut Config) -> Option<&Fork> {
        // SAFETY: HEADER-4: what `config` was is there as long as the cell, and says itself whether
        // it is the first field of a fork.
        unsafe { ((*config).kind == Kind::Fork).then(|| &*config.cast::<Fork>()) }
    }

    /// The fork of the cell, if there is one.
    pub(super) fn fork(&self) -> Option<NonNull<Fork>> {
        let config = self.config_ptr();
        self.fork_at(config).and(NonNull::new(config.cast()))
    }

    /// The configuration that the cell was made with.
    pub(super) fn base(&self) -> *mut Config {
        // Read once: a fork may come at any time.
        let config = self.config_ptr();
        self.fork_at(config).map_or(config, |fork| fork.base.as_ptr())
    }

    /// The part that any thread may reach, if it was allocated.
    pub(crate) fn ext(&self) -> Option<&Ext> {
        self.fork_at(self.config_ptr()).map(|fork| &fork.ext)
    }

    /// [`ext`](Self::ext), made now if need be.
    pub(crate) fn ext_made(&self) -> &Ext {
        loop {
            // Read once: what is replaced below must be the base that was seen here, not another's
            // fork.
            let config = self.config_ptr();
            if let Some(fork) = self.fork_at(config) {
                return &fork.ext;
            }
            // SAFETY: HEADER-4: it is the cell's base, which has an address.
            let made = unsafe { Box::new(Fork::of(NonNull::new_unchecked(config))) };
            let made = Box::into_raw(made);
            // Ordering: Release, writer side of CONFIG. A failure is read again above.
            if self.config.compare_exchange(config, made.cast(), Release, Relaxed).is_err() {
                // SAFETY: it was made right here, and no other thread has seen it. What its
                // settings refer to is kept by the base.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    /// CLOSED was raised, by a step that sees the threads that wait for the end (MEETING), and the
    /// mailbox left pending: they look again, for one of them may run it.
    #[cold]
    pub(crate) fn call_for_help(&self) {
        if let Some(ext) = self.ext().filter(|_| !self.has_executor()) {
            ext.end_waiters.wake_threads();
        }
    }

    /// Those that wait for room in a closed mailbox have their messages back.
    #[cold]
    pub(crate) fn refuse_waiters(&self) {
        if let Some(ext) = self.ext() {
            while let Some(waiter) = ext.room.close_next() {
                waiter.refuse(self.why_closed());
            }
        }
    }

    /// The reason that nothing is accepted any more.
    pub(crate) fn why_closed(&self) -> Reason {
        self.stop_cause().map_or(Reason::Closed, Reason::Stopped)
    }

    /// The owner takes a message up, which waits no longer. Before its turn.
    #[inline(always)]
    pub(crate) fn takes_up(&self) {
        if self.config().is_bounded() {
            self.release_permit();
        }
    }

    /// Out of line: the loop of turns is that of mailboxes without a capacity.
    #[inline(never)]
    fn release_permit(&self) {
        if let Some(ext) = self.ext() {
            ext.room.release(&self.word, || self.why_closed());
        }
    }

    /// The permits of its messages, if that is how they are counted.
    fn permits(&self) -> Option<u64> {
        let bounded = self.config().is_bounded();
        // No message has needed a permit yet.
        bounded.then(|| self.ext().map_or(0, |ext| ext.room.held()))
    }

    /// Messages accepted and not done. Stale on return.
    pub(crate) fn len(&self) -> u64 {
        let count = self.word.load().count();
        self.permits().map_or(count, |waiting| count.min(waiting + 1))
    }

    /// Messages that wait. Stale on return.
    pub(crate) fn waiting(&self) -> u64 {
        let now = self.word.load();
        // A turn that was woken stands in a pending mailbox as they do, and is none of them.
        let begun = now.is_pending() && self.is_turn(false, |_| true);
        let waiting = now.waiting().saturating_sub(u64::from(begun));
        self.permits().map_or(waiting, |permits| waiting.min(permits))
    }

    /// The actor's name, or the type of its state.
    pub(crate) fn name(&self) -> &str {
        let config = self.config();
        config.name.as_deref().unwrap_or_else(config.vtable.name)
    }

    /// The actor's name, for an error.
    #[inline]
    pub(crate) fn who(&self) -> Who {
        let config = self.config();
        Who { name: config.name.clone(), of: config.vtable.name }
    }

    /// The clock that limits are measured on.
    pub(crate) fn clock(&self) -> &dyn Clock {
        self.config().clock.as_deref().unwrap_or(&MonotonicClock)
    }

    /// True if the actor is run by an executor, and by nothing else.
    pub(crate) fn has_executor(&self) -> bool {
        self.config().has_executor()
    }

    /// True if its turns wait as long as this thread blocks, or may.
    pub(crate) fn needs_this_thread(&self) -> bool {
        let Some(executor) = self.config().executor.as_deref() else { return false };
        panic::catch(|| executor.needs_this_thread()).map_err(panic::discard).unwrap_or(true)
    }

    #[inline(always)]
    pub(crate) fn has(&self, flag: u64) -> bool {
        // Ordering: Relaxed. STOP may be seen a turn late; ENDED is the owner's own, which HANDOVER
        // carries.
        self.flags.load(Relaxed) & flag != 0
    }

    /// Raises STOP, without a cause to show; true if this call did it.
    pub(crate) fn raise_stop(&self) -> bool {
        self.stop_with(STOP, &StopCause::Requested)
    }

    /// Raises AWAITS or POSTS: such messages are sent to this actor. Before the first is pushed.
    pub(crate) fn announce(&self, flag: u64) {
        if !self.has(flag) {
            // Ordering: Relaxed. The push publishes it (MESSAGE).
            self.flags.fetch_or(flag, Relaxed);
        }
    }

    /// True, once, if the actor has to enroll with its executor. Owner only.
    pub(crate) fn must_enroll(&self) -> bool {
        // Ordering: Relaxed. The owner's, which HANDOVER carries.
        self.ext_made().enrolled.swap(1, Relaxed) == 0
    }

    /// True if the actor has enrolled. Owner only.
    pub(super) fn has_enrolled(&self) -> bool {
        // Ordering: Relaxed. The owner's, which HANDOVER carries.
        self.has(AWAITS) && self.ext().is_some_and(|ext| ext.enrolled.load(Relaxed) != 0)
    }

    /// True if a turn waits, or has waited and is not over. Stale on return.
    pub(crate) fn has_begun_turn(&self) -> bool {
        self.has(AWAITS) && self.ext_made().turn.lock().is_some()
    }

    /// True if a turn waits, or if that is `unseen`. Stale on return.
    pub(crate) fn is_turn_waiting(&self, unseen: bool) -> bool {
        self.is_turn(unseen, Keeper::is_suspended)
    }

    /// True if a turn waits, or has waited and is not over, of which this is true. Stale on return.
    /// Never waits for the lock: its holder begins, ends or cuts a turn, or looks as this does. The
    /// turn is `unseen` then.
    fn is_turn(&self, unseen: bool, test: impl FnOnce(&Keeper) -> bool) -> bool {
        let Some(ext) = self.ext().filter(|_| self.has(AWAITS)) else { return false };
        ext.turn.try_lock().map_or(unseen, |turn| turn.as_ref().is_some_and(test))
    }

    /// Raises ENDED; true if this call did it. Owner only.
    pub(super) fn raise_ended(&self) -> bool {
        // Ordering: Relaxed. What it speaks of is the owner's, and is carried by HANDOVER.
        self.flags.fetch_or(ENDED, Relaxed) & ENDED == 0
    }

    /// Raises POSTED; true if this call did it, and so owes a drain.
    pub(crate) fn raise_posted(&self) -> bool {
        // Ordering: Release, writer side of POSTED.
        self.flags.fetch_or(POSTED, Release) & POSTED == 0
    }

    /// Lowers POSTED: the drain is about to look.
    pub(crate) fn lower_posted(&self) {
        // Ordering: Acquire, reader side of POSTED.
        self.flags.fetch_and(!POSTED, Acquire);
    }

    /// Saves the private list of a mailbox about to be left pending. Owner only.
    pub(super) fn save(&self, saved: u64) {
        if saved != 0 {
            // Ordering: Relaxed. `set_pending` publishes it (HANDOVER). A read-modify-write,
            // because STOP may come at any time.
            let before = self.flags.fetch_or(saved, Relaxed);
            debug_assert_eq!(before & !FLAGS, 0, "a list was saved already");
        }
    }

    /// Takes the saved list out, after the mailbox was taken over. Owner only.
    pub(super) fn saved(&self) -> u64 {
        // Ordering: Relaxed. HANDOVER: the write of the one who saved it happens before.
        if self.flags.load(Relaxed) & !FLAGS == 0 {
            return 0;
        }
        // Ordering: Relaxed. The slot is the owner's; a read-modify-write, because STOP may come at
        // any time.
        self.flags.fetch_and(FLAGS, Relaxed) & !FLAGS
    }

    /// The cause of the actor's stop, if it was stopped.
    pub(crate) fn stop_cause(&self) -> Option<StopCause> {
        // Ordering: Acquire, reader side of CAUSE.
        let flags = self.flags.load(Acquire);
        (flags & STOP != 0).then(|| {
            let ext = self.ext().filter(|_| flags & TOLD != 0);
            let told = ext.and_then(|ext| ext.told.lock().cause.clone());
            told.unwrap_or(StopCause::Requested)
        })
    }

    /// The cause of the actor's end.
    pub(crate) fn end_cause(&self) -> EndCause {
        match self.stop_cause() {
            Some(cause) => EndCause::Stopped(cause),
            None if self.word.load().has(CLOSED) => EndCause::Closed,
            None => EndCause::Dropped,
        }
    }

    /// Stops the actor, by its owner or by one that keeps it pending: it takes nothing new.
    pub(crate) fn stop(&self, cause: StopCause) {
        self.stop_because(cause);
        if let Some(due) = self.word.raise(CLOSED, Entry::Leave) {
            let is_owned = matches!(due, Due::Nothing);
            debug_assert!(is_owned, "an owner's mailbox is neither idle nor pending");
            self.refuse_waiters();
        }
    }

    /// Raises STOP and says why, unless it is raised already: the first one counts.
    pub(crate) fn stop_because(&self, cause: StopCause) {
        let cause = self.ext_made().told.lock().cause.get_or_insert(cause).clone();
        self.stop_with(STOP | TOLD, &cause);
    }

    /// Raises STOP, unless it is raised already, or the actor has ended; true if this call did it.
    fn stop_with(&self, flags: u64, cause: &StopCause) -> bool {
        // One step, so that a stop is before or after the end, and one on request before or after
        // one with a cause. The first guess is that no bit is set.
        let (mut now, mut first) = (0, false);
        while now & (STOP | ENDED) == 0 {
            // Ordering: Release, writer side of CAUSE. A failure is only the guess of the next
            // attempt.
            match self.flags.compare_exchange(now, now | flags, Release, Relaxed) {
                Ok(_) => {
                    first = true;
                    break;
                }
                Err(seen) => now = seen,
            }
        }
        // Also if it was raised already: the one that did may not have announced it yet, and the
        // owner must see its own stop at once.
        announce_stop();
        if first {
            self.stopped(cause);
        }
        first
    }
}

impl Linked for Header {
    fn link_freed(&self, next: u64) {
        // Ordering: Relaxed. The cell is dead, and this thread's.
        self.flags.swap(next, Relaxed);
    }

    fn next_freed(&self) -> u64 {
        // Ordering: Relaxed. This thread has written it.
        self.flags.load(Relaxed)
    }
}

/// Makes the state of an actor anew.
///
/// # Safety
/// The caller owns this mailbox, and its state is in the cell, where nothing borrows it.
pub(crate) unsafe fn restart(cell: *const Header) {
    // SAFETY: the owner keeps the cell, which is of the type of its functions.
    unsafe { ((*cell).config().vtable.restart)(cell) }
}

/// The counts of a cell.
///
/// # Safety
/// The cell is alive for as long as the result is used, and `cell` is a pointer to all of it.
#[inline]
pub(super) unsafe fn counts<'a>(cell: *const Header) -> &'a Counts {
    // SAFETY: it is alive, it is a pointer to all of the cell, and the offset is that of its type.
    unsafe { &*cell.byte_add((*cell).config().vtable.counts).cast::<Counts>() }
}

/// The address of a cell, in the hand of something that keeps it: a count (HEADER-3), the entry
/// (HEADER-6), or the ownership of its mailbox (OWNER-1). It is no copy: another one is made for
/// another keeper.
#[repr(transparent)]
pub(super) struct CellPtr(NonNull<Header>);

// SAFETY: what is reached through it by safe code is atomic or locked, or dropped with the last
// keeper: hooks, which are Send.
unsafe impl Send for CellPtr {}
// SAFETY: a shared reference reaches atomics and locks alone.
unsafe impl Sync for CellPtr {}

impl CellPtr {
    /// # Safety
    /// `cell` is a pointer to all of a cell, and what the result is put into keeps that cell.
    #[inline(always)]
    pub(super) unsafe fn new(cell: NonNull<Header>) -> Self {
        CellPtr(cell)
    }

    /// The address once more.
    ///
    /// # Safety
    /// What the result is put into keeps the cell.
    #[inline(always)]
    pub(super) unsafe fn again(&self) -> Self {
        CellPtr(self.0)
    }

    #[inline(always)]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: what this lies in keeps the cell.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn counts(&self) -> &Counts {
        // SAFETY: what this lies in keeps the cell, and it is a pointer to all of it.
        unsafe { counts(self.0.as_ptr()) }
    }

    #[inline(always)]
    pub(super) fn get(&self) -> NonNull<Header> {
        self.0
    }

    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *const Header {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub(super) fn addr(&self) -> usize {
        self.0.addr().get()
    }
}

/// The right to a mailbox (OWNER-1), by itself. It is made by the step that wins the mailbox, and
/// keeps the cell.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(super) struct Own {
    pub(super) cell: CellPtr,
    /// It never leaves its thread by itself.
    thread: PhantomData<*mut ()>,
}

impl Own {
    /// Converts the result of a step on this cell's word.
    #[inline(always)]
    pub(super) fn of(cell: &CellPtr, won: Won) -> Self {
        assert!(won.is_of(&cell.header().word), "the right to another mailbox");
        // SAFETY: OWNER-1: as long as a mailbox is owned, its cell is there.
        let cell = unsafe { cell.again() };
        Own { cell, thread: PhantomData }
    }

    #[inline(always)]
    pub(super) fn header(&self) -> &Header {
        self.cell.header()
    }

    /// The list that the last owner has saved, if it has.
    pub(super) fn saved_list(&self) -> Batch {
        // SAFETY: the mailbox is this one's, and the saved list with it, which is taken out.
        unsafe { Batch::from_saved(self.header().saved()) }
    }

    /// The mailbox was let go by a step: nothing of it is touched any more.
    #[inline(always)]
    pub(super) fn let_go(self) {
        std::mem::forget(self);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // OWNER-2. In a release build the mailbox is stuck, which harms no memory.
        debug_assert!(std::thread::panicking(), "an owner was dropped without letting go");
    }
}

/// The right to be inside of a mailbox: what a thread's frame may stand for
/// ([`crate::thread::context`]).
///
/// # Safety
/// For as long as the value lives on its thread, `cell` points to a cell that is alive, and whose
/// mailbox is that thread's own.
pub(crate) unsafe trait Held {
    fn cell(&self) -> *const Header;
}

/// An owner on no thread: its mailbox is not idle, not pending, and run by nothing. It is passed on
/// by the word of a suspended turn, which carries what HANDOVER does.
///
/// It is no `Drop`: see [`crate::turn::waking`] for what gets it up.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct Resting {
    pub(super) own: Own,
    pub(super) done: u64,
}
