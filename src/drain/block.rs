//! The block that an actor lives in: word, state, counts, and a description of what it is.
//!
//! ```text
//! Core { side | about | word } state | counts        40 bytes for a state of 8
//! ```
//! The word and a small state lie side by side, in one cache line wherever the allocator puts the block: two threads that alternate on
//! one actor move one line, not two. The counts come last, so a large state keeps clones of the handle off the word's line.
//!
//! `side` holds the saved list while the mailbox is parked, and the bits that only an owner changes but STOP. What few actors need (name,
//! limit, policy, hooks, waiting threads) is one allocation behind `about`; a plain actor points to a static one for its type until somebody
//! watches it or it stops by a panic.
//!
//! - B1: the state is touched by the owner of the mailbox only (HANDOVER carries it from one to the next), and is there unless EMPTY is set.
//! - B2: `handles` counts handles. It never rises from 0. The one who takes it to 0 raises ORPHAN; whoever owns then takes the state out.
//! - B3: `storage` counts weak handles, list entries, carriers, waiting replies, plus one for the handles all together, given up when ORPHAN
//!   has been dealt with. The block is freed at 0.
//! - B4: `about` changes once at most, from the static to an allocation; that one lives as long as the block.
//! - NEWS: the process's count of stops, raised after STOP Release -> read before STOP Acquire. A drainer looks at `side`, which lies where the
//!   senders write, at the beginning of a list and when that count has moved; whoever is stopped is seen to be so before the next turn.
//! - CAUSE: `stop_because` Release -> `stop_cause` Acquire. Who sees that the actor was stopped finds why.
//! - ABOUT: compare-and-swap Release -> `load` Acquire. Who finds the allocation finds it written.

use std::alloc::Layout;
use std::mem::{MaybeUninit, offset_of};

use super::budget::{Budget, KEPT};
use super::carrier::{Executor, hands_on};
use super::counts::Counts;
use super::pass::StepFn;
use super::plan::{Hooks, Overflow, Panic, Plan, RefusedHook, UndeliveredHook};
use super::room::{Ring, Room};
use crate::error::{EndCause, StopCause};
use crate::mailbox::word::{CLOSED, UNBOUNDED, Word};
use crate::sync::alloc::{alloc, dealloc};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicPtr, AtomicU64};
use crate::sync::cell::UnsafeCell;
use crate::sync::config::HOME;
use crate::sync::panic::catch;
use crate::sync::{CachePadded, Mutex, global};
use crate::unwind::shrug_off;
use crate::wait::{Clock, MonotonicClock, Waiters};

/// Queued messages are given back from now on. Set before CLOSED, by anybody.
pub(crate) const STOP: u64 = 1;
/// The end-of-life step was done. Owner only.
pub(crate) const ENDED: u64 = 2;
/// There is no state: a lazy one not made yet, or taken out at the end. Owner only.
pub(crate) const EMPTY: u64 = 4;
/// A carrier of an executor is out, which will come by and look whether the mailbox is parked.
const TOKEN: u64 = 8;
/// Its owner stopped it, and has told why. Set together with STOP, or never.
const TOLD: u64 = 16;
const SIDE_FLAGS: u64 = 31;

/// The part of the block that does not depend on the state's type.
#[repr(C)]
pub(crate) struct Core {
    side: AtomicU64,
    about: AtomicPtr<About>,
    pub(crate) word: Word,
}

#[repr(C)]
pub(crate) struct Block<S> {
    core: Core,
    state: UnsafeCell<MaybeUninit<S>>,
    counts: Counts,
}

/// What an actor is: its type's functions, and what was said when it was built.
#[repr(C)]
pub(crate) struct About {
    types: &'static Types,
    /// The [`Rest`] around it is an allocation of its own.
    owned: bool,
    pub(crate) limit: u32,
    pub(crate) name: Option<Box<str>>,
    /// Where drains are handed to.
    pub(crate) executor: Option<Box<dyn Executor>>,
    /// All of them: senders never drain.
    pub(crate) posts: bool,
    /// The most that one drain does.
    pub(crate) budget: Budget,
    /// Turns to the first look at that, by who drains.
    pub(crate) first_looks: [u32; 4],
    /// Told when the executor refuses.
    pub(crate) refused: Option<RefusedHook>,
    pub(crate) overflow: Overflow,
    /// The letters of a mailbox that drops the oldest.
    ring: Option<Box<Ring>>,
    clock: Option<Box<dyn Clock>>,
    /// What is done around turns, if there is something.
    pub(crate) passes: Option<StepFn>,
}

/// `About` and what needs an allocation.
#[repr(C)]
struct Rest<S> {
    about: About,
    extra: Extra,
    hooks: UnsafeCell<Hooks<S>>,
    undelivered: Option<UndeliveredHook<S>>,
}

impl About {
    /// How to move a state of this type, if it is worth it.
    #[inline(always)]
    pub(crate) fn moves(&self) -> Option<&'static Move> {
        self.types.moves.as_ref()
    }
}

global! {
    /// How many mailboxes of this process were stopped (NEWS).
    static STOPS: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));
}

/// Changes whenever a mailbox is stopped: which one, its STOP says.
#[inline(always)]
pub(crate) fn stops() -> u64 {
    // Ordering: Acquire, reader side of NEWS.
    STOPS.load(Acquire)
}

/// Who a drain is run by.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// Somebody who has come by and does not wait: a sender, above all.
    Caller,
    /// A carrier.
    Carrier,
    /// Who has dropped a carrier: nobody could go on.
    Dropper,
    /// Somebody who waits for what is in the mailbox.
    Waiter,
}

/// See [`About::first_looks`]. Callers who wait for an actor with an executor are not let go before they are through: what they wait for may be up
/// to the very thread that they are on.
const fn first_looks(budget: Budget, posts: bool, executor: bool) -> [u32; 4] {
    let look = budget.first_look();
    [if posts { KEPT } else { look }, look, KEPT, if executor { KEPT } else { look }]
}

/// How to move a small state out of its block and back.
pub(crate) struct Move {
    pub(crate) out: unsafe fn(*const Core, *mut u8),
    pub(crate) back: unsafe fn(*const Core, *const u8),
}

/// What any thread may reach.
#[derive(Default)]
pub(crate) struct Extra {
    /// Those who set WATCH: woken by the next step of the owner.
    pub(crate) watchers: Waiters,
    /// Those who wait for the end: woken then.
    pub(crate) mourners: Waiters,
    /// Those who wait for room: let in by the owner.
    pub(crate) room: Room,
    cause: Mutex<Option<StopCause>>,
}

/// The functions of one state type.
struct Types {
    counts: usize,
    extra: usize,
    moves: Option<Move>,
    end: unsafe fn(*const Core),
    recover: unsafe fn(*const Core, &str) -> Recovered,
    rest: fn() -> *mut About,
    free_rest: unsafe fn(*mut About),
    free: unsafe fn(*const Core),
}

/// What became of an actor whose turn panicked.
pub(crate) enum Recovered {
    Resumed,
    Stopped,
}

impl<S> Block<S> {
    const TYPES: &'static Types = &Types {
        counts: offset_of!(Block<S>, counts),
        extra: offset_of!(Rest<S>, extra),
        moves: Self::MOVES,
        end: Self::end,
        recover: Self::recover,
        rest: Self::default_rest,
        free_rest: Self::free_rest,
        free: Self::free,
    };
    /// Nothing has nowhere to go, and a large state lies in other lines than the word anyway.
    const MOVES: Option<Move> = match size_of::<S>() {
        1..=HOME if align_of::<S>() <= 64 => Some(Move { out: Self::move_out, back: Self::move_back }),
        _ => None,
    };
    const PLAIN: &'static About = &About {
        types: Self::TYPES,
        owned: false,
        limit: UNBOUNDED,
        name: None,
        executor: None,
        posts: false,
        budget: Budget::INLINE,
        first_looks: first_looks(Budget::INLINE, false, false),
        refused: None,
        overflow: Overflow::Reject,
        ring: None,
        clock: None,
        passes: None,
    };

    /// A new block with one handle, idle.
    pub(crate) fn create(state: S) -> *const Core {
        Self::create_with(MaybeUninit::new(state), 0, std::ptr::from_ref(Self::PLAIN).cast_mut())
    }

    /// The same, with more to say about it; without a state, the plan's factory makes it.
    pub(crate) fn create_planned(state: Option<S>, plan: Plan<S>) -> *const Core {
        let side = if state.is_some() { 0 } else { EMPTY };
        debug_assert!(side == 0 || plan.step.is_some(), "a state is there, or made before the first turn");
        Self::create_with(state.map_or_else(MaybeUninit::uninit, MaybeUninit::new), side, Self::new_rest(plan))
    }

    fn create_with(state: MaybeUninit<S>, side: u64, about: *mut About) -> *const Core {
        let block = alloc(Layout::new::<Self>()).cast::<Self>();
        let core = Core { side: AtomicU64::new(side), about: AtomicPtr::new(about), word: Word::new() };
        let counts = Counts::new();
        // SAFETY: fresh memory of this layout.
        unsafe { block.write(Block { core, state: UnsafeCell::new(state), counts }) };
        block.cast()
    }

    fn new_rest(plan: Plan<S>) -> *mut About {
        let Plan { limit, name, executor, posts, budget, refused, overflow, clock, hooks, step, undelivered } = plan;
        let first_looks = first_looks(budget, posts, executor.is_some());
        let ring = (overflow == Overflow::DropOldest).then(|| Box::new(Ring::new(limit)));
        let (types, owned, passes) = (Self::TYPES, true, step);
        let about = About { types, owned, limit, name, executor, posts, budget, first_looks, refused, overflow, ring, clock, passes };
        let rest = Rest { about, extra: Extra::default(), hooks: UnsafeCell::new(hooks), undelivered };
        Box::into_raw(Box::new(rest)).cast()
    }

    fn default_rest() -> *mut About {
        Self::new_rest(Plan::PLAIN)
    }

    /// # Safety
    /// `about` came from [`new_rest`](Self::new_rest) of this type and is not used again.
    unsafe fn free_rest(about: *mut About) {
        // SAFETY: the caller's duty.
        drop(unsafe { Box::from_raw(about.cast::<Rest<S>>()) });
    }

    /// Calls `f` with the state.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, the state is there (B1), and no other borrow of it lives.
    #[inline(always)]
    pub(crate) unsafe fn with_state<R>(core: *const Core, f: impl FnOnce(&mut S) -> R) -> R {
        let block = core.cast::<Self>();
        // SAFETY: B1 by the caller's word: nobody else touches it until we let go.
        unsafe { (*block).state.with_mut(|state| f((*state).assume_init_mut())) }
    }

    /// # Safety
    /// The caller owns this mailbox, of this state type; the state is in the block, and `to` is memory for it.
    unsafe fn move_out(core: *const Core, to: *mut u8) {
        let block = core.cast::<Self>();
        // SAFETY: the caller's word; between two turns nobody refers to the state (B1).
        unsafe { (*block).state.with_mut(|state| to.cast::<S>().copy_from_nonoverlapping(state.cast(), 1)) }
    }

    /// # Safety
    /// The caller owns this mailbox, of this state type; the state was moved out to `from`.
    unsafe fn move_back(core: *const Core, from: *const u8) {
        let block = core.cast::<Self>();
        // SAFETY: as above.
        unsafe { (*block).state.with_mut(|state| state.cast::<S>().copy_from_nonoverlapping(from.cast(), 1)) }
    }

    /// Where the state is.
    ///
    /// # Safety
    /// The block is alive, and of this state type.
    pub(crate) unsafe fn state_at(core: *const Core) -> *mut S {
        // SAFETY: the caller's word. No reference is made: two of these may be used side by side.
        unsafe { (*core.cast::<Self>()).state.with_mut(<*mut MaybeUninit<S>>::cast) }
    }

    /// Puts the state in.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and there is no state (EMPTY).
    pub(crate) unsafe fn put_state(core: *const Core, fresh: S) {
        let block = core.cast::<Self>();
        // SAFETY: B1: nobody else touches it, and nothing is overwritten; the block is there.
        unsafe {
            (*block).state.with_mut(|state| *state = MaybeUninit::new(fresh));
            (*core).lower_side(EMPTY);
        }
    }

    /// Calls `f` with the hooks, if there are any.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and no other borrow of the hooks lives.
    pub(crate) unsafe fn with_hooks<R>(core: *const Core, f: impl FnOnce(&mut Hooks<S>) -> R) -> Option<R> {
        // SAFETY: the owner keeps the block alive.
        let rest = unsafe { (*core).rest() }?.cast::<Rest<S>>();
        // SAFETY: B4: an owned `about` is the first field of its `Rest`; the hooks are the owner's as the state is (B1).
        Some(unsafe { (*rest).hooks.with_mut(|hooks| f(&mut *hooks)) })
    }

    /// The hook for undelivered messages, if there is one.
    ///
    /// # Safety
    /// The block is alive for as long as the result is used, and of this state type.
    pub(crate) unsafe fn undelivered<'a>(core: *const Core) -> Option<&'a UndeliveredHook<S>> {
        // SAFETY: the caller's word.
        let rest = unsafe { (*core).rest() }?.cast::<Rest<S>>();
        // SAFETY: B4: an owned `about` is the first field of its `Rest`; this field never changes.
        unsafe { (*rest).undelivered.as_ref() }
    }

    /// Takes the state out, tells the end hook, drops what is left. Never unwinds.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and it ends here: no turn follows.
    unsafe fn end(core: *const Core) {
        // SAFETY: the owner keeps the block alive.
        let this = unsafe { &*core };
        let state = (!this.side_has(EMPTY)).then(|| {
            this.raise_side(EMPTY);
            let block = core.cast::<Self>();
            // SAFETY: B1: the caller owns it, and EMPTY was not set, so it is there; EMPTY says from now on that it is not.
            unsafe { (*block).state.with_mut(|state| (*state).assume_init_read()) }
        });
        // SAFETY: the caller owns it; the hook runs after the borrow.
        let hook = unsafe { Self::with_hooks(core, |hooks| hooks.on_end.take()) }.flatten();
        let cause = match this.stop_cause() {
            Some(cause) => EndCause::Stopped(cause),
            None if this.word.load().has(CLOSED) => EndCause::Closed,
            None => EndCause::Dropped,
        };
        shrug_off(|| match hook {
            Some(hook) => hook(state, cause),
            None => drop(state),
        });
    }

    /// Tells the panic hook and does what the policy says. Never unwinds.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, between two turns.
    unsafe fn recover(core: *const Core, text: &str) -> Recovered {
        // SAFETY: the caller owns it, and user code in here cannot reach the hooks.
        let fresh = unsafe {
            Self::with_hooks(core, |hooks| {
                if let Some(on_panic) = &mut hooks.on_panic {
                    shrug_off(|| on_panic(text));
                }
                match &mut hooks.policy {
                    Panic::Stop => None,
                    Panic::Resume => Some(None),
                    Panic::Restart(factory) => catch(factory).map_err(|panic| shrug_off(|| drop(panic))).ok().map(Some),
                }
            })
        };
        match fresh.flatten() {
            None => Recovered::Stopped,
            // SAFETY: the owner keeps the block alive.
            Some(None) if unsafe { (*core).side_has(EMPTY) } => Recovered::Stopped,
            Some(None) => Recovered::Resumed,
            // SAFETY: as above.
            Some(Some(fresh)) if unsafe { (*core).side_has(EMPTY) } => {
                // SAFETY: the caller owns it, and there is no state.
                unsafe { Self::put_state(core, fresh) };
                Recovered::Resumed
            }
            Some(Some(fresh)) => {
                // SAFETY: the caller owns it, no turn is under way.
                let old = unsafe { Self::with_state(core, |state| std::mem::replace(state, fresh)) };
                shrug_off(|| drop(old));
                Recovered::Resumed
            }
        }
    }

    /// # Safety
    /// `core` is the block of this type, and nobody uses it any more (B3).
    unsafe fn free(core: *const Core) {
        let block = core.cast::<Self>().cast_mut();
        // SAFETY: the caller's word: nobody else is there. The state was taken out (B2, B1).
        unsafe {
            if let Some(rest) = (*block).core.rest() {
                shrug_off(|| Self::free_rest(rest));
            }
            (*block).counts.end();
            block.drop_in_place();
            dealloc(block.cast(), Layout::new::<Self>());
        }
    }
}

impl Core {
    /// What this actor is.
    #[inline]
    pub(crate) fn about(&self) -> &About {
        // SAFETY: B4: static, or alive as long as the block.
        unsafe { &*self.about_ptr() }
    }

    #[inline]
    fn about_ptr(&self) -> *mut About {
        // Ordering: Acquire, reader side of ABOUT.
        self.about.load(Acquire)
    }

    /// The allocation behind `about`, if there is one.
    fn rest(&self) -> Option<*mut About> {
        let about = self.about_ptr();
        // SAFETY: B4.
        unsafe { (*about).owned }.then_some(about)
    }

    /// What any thread may reach, if there is an allocation for it.
    pub(crate) fn extra(&self) -> Option<&Extra> {
        let rest = self.rest()?;
        // SAFETY: B4: `rest` is an allocation of this block's types, in which the field lies there.
        Some(unsafe { &*rest.byte_add((*rest).types.extra).cast::<Extra>() })
    }

    /// The same, made now if need be.
    pub(crate) fn extra_made(&self) -> &Extra {
        loop {
            // Read once: what is replaced below must be the static one that was seen here, not another's allocation.
            let plain = self.about_ptr();
            // SAFETY: B4.
            let (owned, types) = unsafe { ((*plain).owned, (*plain).types) };
            if owned {
                // SAFETY: B4: as in `extra`.
                return unsafe { &*plain.byte_add(types.extra).cast::<Extra>() };
            }
            let rest = (types.rest)();
            // Ordering: Release, writer side of ABOUT. A failure is read again above.
            if self.about.compare_exchange(plain, rest, Release, Relaxed).is_err() {
                // SAFETY: it was made right here for these types, and nobody has seen it.
                unsafe { (types.free_rest)(rest) };
            }
        }
    }

    /// The largest number of waiting messages, if there is one.
    pub(crate) fn capacity(&self) -> Option<usize> {
        let limit = self.about().limit;
        (limit != UNBOUNDED).then_some(limit as usize)
    }

    #[inline(always)]
    pub(crate) fn side_has(&self, flag: u64) -> bool {
        // Ordering: Relaxed. STOP may be seen a turn late; the others are the owner's own, which HANDOVER carries.
        self.side.load(Relaxed) & flag != 0
    }

    /// Raises STOP; true if this call did it.
    pub(crate) fn raise_stop(&self) -> bool {
        let first = self.raise_side(STOP);
        Self::announce_stop();
        first
    }

    fn announce_stop() {
        // Ordering: Release, writer side of NEWS.
        STOPS.fetch_add(1, Release);
    }

    /// Raises a bit; true if this call did it.
    pub(crate) fn raise_side(&self, flag: u64) -> bool {
        // Ordering: Relaxed. A stop on request has no cause to show; what the owner's bits speak of is carried by HANDOVER.
        self.side.fetch_or(flag, Relaxed) & flag == 0
    }

    /// Lowers a bit of the owner's.
    fn lower_side(&self, flag: u64) {
        // Ordering: Relaxed. What the bit speaks of is carried by HANDOVER. A read-modify-write, because STOP may come at any time.
        self.side.fetch_and(!flag, Relaxed);
    }

    /// Raises TOKEN; true if this call did it, and so owes a carrier.
    pub(crate) fn raise_token(&self) -> bool {
        // Ordering: Release, writer side of CARRY.
        self.side.fetch_or(TOKEN, Release) & TOKEN == 0
    }

    /// Lowers TOKEN: the carrier is about to look.
    pub(crate) fn lower_token(&self) {
        // Ordering: Acquire, reader side of CARRY.
        self.side.fetch_and(!TOKEN, Acquire);
    }

    /// Saves the private list of a mailbox about to be parked.
    pub(crate) fn save(&self, saved: u64) {
        if saved != 0 {
            // Ordering: Relaxed. `park` publishes it (HANDOVER). A read-modify-write, because STOP may come at any time.
            let before = self.side.fetch_or(saved, Relaxed);
            debug_assert_eq!(before & !SIDE_FLAGS, 0, "a list was saved already");
        }
    }

    /// Takes the saved list out, after the mailbox was taken over.
    pub(crate) fn saved(&self) -> u64 {
        // Ordering: Relaxed. HANDOVER: the parker's write happens before.
        if self.side.load(Relaxed) & !SIDE_FLAGS == 0 {
            return 0;
        }
        // Ordering: Relaxed. The slot is the owner's; a read-modify-write, because STOP may come at any time.
        self.side.fetch_and(SIDE_FLAGS, Relaxed) & !SIDE_FLAGS
    }

    /// Why the actor was stopped, if it was.
    pub(crate) fn stop_cause(&self) -> Option<StopCause> {
        // Ordering: Acquire, reader side of CAUSE.
        let side = self.side.load(Acquire);
        (side & STOP != 0).then(|| {
            let told = if side & TOLD != 0 { self.extra().and_then(|extra| extra.cause.lock().clone()) } else { None };
            told.unwrap_or(StopCause::Requested)
        })
    }

    /// Raises STOP and says why, unless it is raised already: the first one counts. Owner only.
    pub(crate) fn stop_because(&self, cause: StopCause) {
        self.extra_made().cause.lock().get_or_insert(cause);
        // One step, so that a stop from outside is before it or after it. The first guess is that no bit is set.
        let mut now = 0;
        while now & STOP == 0 {
            // Ordering: Release, writer side of CAUSE. A failure is only the guess of the next attempt.
            match self.side.compare_exchange(now, now | STOP | TOLD, Release, Relaxed) {
                Ok(_) => break,
                Err(seen) => now = seen,
            }
        }
        // Also if it was raised already: who did that may not have come to announce it, and the owner must see its own stop at once.
        Self::announce_stop();
    }

    /// Wakes everybody who set WATCH.
    #[cold]
    pub(crate) fn wake_watchers(&self) {
        if let Some(extra) = self.extra() {
            extra.watchers.wake_all();
        }
    }

    /// The letters of a mailbox that drops the oldest.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.about().ring.as_deref()
    }

    /// Can a drain of this mailbox be handed to somebody?
    pub(crate) fn hands_on(&self) -> bool {
        hands_on(self.about())
    }

    /// The clock that limits are measured on.
    pub(crate) fn clock(&self) -> &dyn Clock {
        self.about().clock.as_deref().unwrap_or(&MonotonicClock)
    }

    /// Wakes everybody who waits for the end, which has come.
    pub(crate) fn wake_mourners(&self) {
        if let Some(extra) = self.extra() {
            extra.mourners.wake_all();
        }
    }
}

/// # Safety
/// `core` is alive.
#[inline]
unsafe fn types(core: *const Core) -> &'static Types {
    // SAFETY: the caller's word.
    unsafe { (*core).about().types }
}

/// # Safety
/// `core` is alive for as long as the result is used.
#[inline]
pub(crate) unsafe fn counts<'a>(core: *const Core) -> &'a Counts {
    // SAFETY: the caller's word; the offset is that of this block's type.
    unsafe { &*core.byte_add(types(core).counts).cast::<Counts>() }
}

/// Frees a block that nobody uses any more.
///
/// # Safety
/// B3: nobody is left, and the state went with ORPHAN.
pub(crate) unsafe fn free(core: *const Core) {
    // SAFETY: the caller's word.
    unsafe { (types(core).free)(core) }
}

/// Ends an actor: see [`Block::end`].
///
/// # Safety
/// The caller owns this mailbox, and no turn follows.
pub(crate) unsafe fn end(core: *const Core) {
    // SAFETY: the caller's word.
    unsafe { (types(core).end)(core) }
}

/// Recovers from a panic: see [`Block::recover`].
///
/// # Safety
/// The caller owns this mailbox, between two turns.
pub(crate) unsafe fn recover(core: *const Core, text: &str) -> Recovered {
    // SAFETY: the caller's word.
    unsafe { (types(core).recover)(core, text) }
}
