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
//! - B1: the state is touched by the owner of the mailbox only (HANDOVER carries it from one to the next), and is there until EMPTY is set.
//! - B2: `handles` counts handles. It never rises from 0. The one who takes it to 0 raises ORPHAN; whoever owns then takes the state out.
//! - B3: `storage` counts weak handles, list entries, carriers, waiting replies, plus one for the handles all together, given up when ORPHAN
//!   has been dealt with. The block is freed at 0.
//! - B4: `about` changes once at most, from the static to an allocation; that one lives as long as the block.
//! - GONE: `fetch_sub` Release -> Acquire fence at 0, for both counts.
//! - ABOUT: compare-and-swap Release -> `load` Acquire. Who finds the allocation finds it written.

use std::alloc::Layout;
use std::mem::{MaybeUninit, offset_of};

use super::carrier::Executor;
use crate::error::StopCause;
use crate::mailbox::word::{UNBOUNDED, Word};
use crate::sync::Mutex;
use crate::sync::alloc::{Life, alloc, dealloc};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};
use crate::sync::cell::UnsafeCell;
use crate::sync::panic::catch;
use crate::wait::Waiters;

/// Queued messages are given back from now on. Set before CLOSED, by anybody.
pub(crate) const STOP: u64 = 1;
/// The end-of-life step was done. Owner only.
pub(crate) const ENDED: u64 = 2;
/// The state was taken out. Owner only.
pub(crate) const EMPTY: u64 = 4;
/// A carrier of an executor is out, which will come by and look whether the mailbox is parked.
const TOKEN: u64 = 8;
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

struct Counts {
    handles: AtomicU32,
    storage: AtomicU32,
    life: Life,
}

/// What becomes of an actor when one of its turns panics.
///
/// The message that panicked is never run again, and the mailbox is never lost: an asker gets [`AskError::Panicked`], a caller of
/// [`Actor::with`] gets the panic itself, and the panic hook is told in any case. In a program built with `panic = "abort"` the first
/// panic ends the program, whatever is chosen here.
///
/// [`AskError::Panicked`]: crate::AskError::Panicked
/// [`Actor::with`]: crate::Actor::with
#[derive(Default)]
#[non_exhaustive]
pub enum Panic<S> {
    /// The actor stops with that cause: its state may be half changed. Waiting messages are given back, later ones refused.
    #[default]
    Stop,
    /// The actor goes on with the state as the panic left it.
    Resume,
    /// The actor goes on with a fresh state from this factory; if that panics too, it stops.
    Restart(Box<dyn FnMut() -> S + Send>),
}

impl<S> Panic<S> {
    /// [`Panic::Restart`] with this factory.
    pub fn restart(factory: impl FnMut() -> S + Send + 'static) -> Self {
        Panic::Restart(Box::new(factory))
    }
}

impl<S> std::fmt::Debug for Panic<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Panic::Stop => "Stop",
            Panic::Resume => "Resume",
            Panic::Restart(_) => "Restart",
        })
    }
}

/// What the owner calls at certain moments, with the state it owns.
pub(crate) struct Hooks<S> {
    pub(crate) policy: Panic<S>,
    /// A turn panicked.
    pub(crate) on_panic: Option<Box<dyn FnMut(&str) + Send>>,
    /// The actor has ended: its state, if it is still there, and why it stopped, if it did.
    pub(crate) on_end: Option<Box<dyn FnOnce(Option<S>, Option<StopCause>) + Send>>,
    /// A message was accepted and will not be handled.
    pub(crate) undelivered: Option<Undelivered<S>>,
}

pub(crate) type Job<S> = Box<dyn FnOnce(&mut S) + Send>;
pub(crate) type Undelivered<S> = Box<dyn FnMut(Job<S>) + Send>;

impl<S> Hooks<S> {
    pub(crate) const NONE: Self = Hooks { policy: Panic::Stop, on_panic: None, on_end: None, undelivered: None };
}

/// What an actor is: its type's functions, and what was said when it was built.
#[repr(C)]
pub(crate) struct About {
    types: &'static Types,
    /// The [`Rest`] around it is an allocation of its own.
    owned: bool,
    pub(crate) limit: u32,
    pub(crate) name: Option<Box<str>>,
    /// Where drains run; without one, on the senders' threads.
    pub(crate) executor: Option<Box<dyn Executor>>,
    /// Most turns of one drain in an executor.
    pub(crate) budget: u32,
}

/// What is said when an actor is built.
pub(crate) struct Plan<S> {
    pub(crate) limit: u32,
    pub(crate) name: Option<Box<str>>,
    pub(crate) executor: Option<Box<dyn Executor>>,
    pub(crate) budget: u32,
    pub(crate) hooks: Hooks<S>,
}

impl<S> Plan<S> {
    pub(crate) const PLAIN: Self = Plan { limit: UNBOUNDED, name: None, executor: None, budget: DEFAULT_BUDGET, hooks: Hooks::NONE };
}

/// Turns of one drain in an executor, unless the builder says otherwise.
pub(crate) const DEFAULT_BUDGET: u32 = 256;

/// `About` and what needs an allocation.
#[repr(C)]
struct Rest<S> {
    about: About,
    extra: Extra,
    hooks: UnsafeCell<Hooks<S>>,
}

/// What any thread may reach.
#[derive(Default)]
pub(crate) struct Extra {
    /// Those who set WATCH: woken by the next step of the owner.
    pub(crate) watchers: Waiters,
    /// Those who wait for the end: woken then.
    pub(crate) mourners: Waiters,
    cause: Mutex<Option<StopCause>>,
}

/// The functions of one state type.
struct Types {
    counts: usize,
    extra: usize,
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
        end: Self::end,
        recover: Self::recover,
        rest: Self::default_rest,
        free_rest: Self::free_rest,
        free: Self::free,
    };
    const PLAIN: &'static About =
        &About { types: Self::TYPES, owned: false, limit: UNBOUNDED, name: None, executor: None, budget: DEFAULT_BUDGET };

    /// A new block with one handle, idle.
    pub(crate) fn create(state: S) -> *const Core {
        Self::create_with(state, std::ptr::from_ref(Self::PLAIN).cast_mut())
    }

    /// The same, with more to say about it.
    pub(crate) fn create_planned(state: S, plan: Plan<S>) -> *const Core {
        Self::create_with(state, Self::new_rest(plan))
    }

    fn create_with(state: S, about: *mut About) -> *const Core {
        let block = alloc(Layout::new::<Self>()).cast::<Self>();
        let core = Core { side: AtomicU64::new(0), about: AtomicPtr::new(about), word: Word::new() };
        let counts = Counts { handles: AtomicU32::new(1), storage: AtomicU32::new(1), life: Life::new() };
        // SAFETY: fresh memory of this layout.
        unsafe { block.write(Block { core, state: UnsafeCell::new(MaybeUninit::new(state)), counts }) };
        block.cast()
    }

    fn new_rest(plan: Plan<S>) -> *mut About {
        let Plan { limit, name, executor, budget, hooks } = plan;
        let about = About { types: Self::TYPES, owned: true, limit, name, executor, budget };
        Box::into_raw(Box::new(Rest { about, extra: Extra::default(), hooks: UnsafeCell::new(hooks) })).cast()
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
        let cause = this.stop_cause();
        let _ = catch(|| match hook {
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
                    let _ = catch(|| on_panic(text));
                }
                match &mut hooks.policy {
                    Panic::Stop => None,
                    Panic::Resume => Some(None),
                    Panic::Restart(factory) => catch(factory).ok().map(Some),
                }
            })
        };
        match fresh.flatten() {
            None => Recovered::Stopped,
            Some(None) => Recovered::Resumed,
            Some(Some(fresh)) => {
                // SAFETY: the caller owns it, no turn is under way.
                let old = unsafe { Self::with_state(core, |state| std::mem::replace(state, fresh)) };
                let _ = catch(|| drop(old));
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
                let _ = catch(|| Self::free_rest(rest));
            }
            (*block).counts.life.end();
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
        // One look decides: an allocation found by a second one would be replaced below, and those who wait in it forgotten (B4).
        let plain = self.about_ptr();
        // SAFETY: B4.
        let (types, owned) = unsafe { ((*plain).types, (*plain).owned) };
        if !owned {
            let rest = (types.rest)();
            // Ordering: Release, writer side of ABOUT. A failure is read again below.
            if self.about.compare_exchange(plain, rest, Release, Relaxed).is_err() {
                // SAFETY: it was made right here for these types, and nobody has seen it.
                unsafe { (types.free_rest)(rest) };
            }
        }
        self.extra().expect("once made, it stays")
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

    /// Raises a bit; true if this call did it.
    pub(crate) fn raise_side(&self, flag: u64) -> bool {
        // Ordering: Relaxed. The cause of a stop lies under a lock; what the owner's bits speak of is carried by HANDOVER.
        self.side.fetch_or(flag, Relaxed) & flag == 0
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
        self.side_has(STOP).then(|| {
            let told = self.extra().and_then(|extra| extra.cause.lock().clone());
            told.unwrap_or(StopCause::Requested)
        })
    }

    /// Says why before STOP is raised; the first one counts.
    pub(crate) fn tell_cause(&self, cause: StopCause) {
        self.extra_made().cause.lock().get_or_insert(cause);
    }

    /// Wakes everybody who set WATCH.
    #[cold]
    pub(crate) fn wake_watchers(&self) {
        if let Some(extra) = self.extra() {
            extra.watchers.wake_all();
        }
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
unsafe fn counts<'a>(core: *const Core) -> &'a Counts {
    // SAFETY: the caller's word; the offset is that of this block's type.
    unsafe { &*core.byte_add(types(core).counts).cast::<Counts>() }
}

/// One more handle.
///
/// # Safety
/// The caller has a handle.
#[inline]
pub(crate) unsafe fn retain_handle(core: *const Core) {
    // SAFETY: the caller's handle keeps the block.
    let counts = unsafe { counts(core) };
    // Ordering: Relaxed. The new handle comes from one that is there.
    let before = counts.handles.fetch_add(1, Relaxed);
    guard_overflow(before);
}

/// One more handle, unless they have all gone (B2).
///
/// # Safety
/// The caller has storage.
pub(crate) unsafe fn try_retain_handle(core: *const Core) -> bool {
    // SAFETY: the caller's storage keeps the block.
    let counts = unsafe { counts(core) };
    // Ordering: Relaxed, as for a clone: what a handle reaches is carried by the word.
    let raised = counts.handles.fetch_update(Relaxed, Relaxed, |n| if n == 0 { None } else { Some(n + 1) });
    raised.map(guard_overflow).is_ok()
}

/// One handle less; true if it was the last: the caller owes ORPHAN, and holds the handles' storage until that is dealt with.
///
/// # Safety
/// The caller has a handle and forgets it.
#[inline]
#[must_use]
pub(crate) unsafe fn release_handle(core: *const Core) -> bool {
    // SAFETY: the caller's handle keeps the block.
    let counts = unsafe { counts(core) };
    // Ordering: Release, writer side of GONE.
    if counts.handles.fetch_sub(1, Release) != 1 {
        return false;
    }
    // Ordering: Acquire, reader side of GONE: the end comes after everything that any handle did.
    fence(Acquire);
    true
}

/// One more holder of storage.
///
/// # Safety
/// The caller has a handle or storage.
#[inline]
pub(crate) unsafe fn retain_storage(core: *const Core) {
    // SAFETY: the caller keeps the block.
    let counts = unsafe { counts(core) };
    counts.life.check();
    // Ordering: Relaxed. The new holder comes from one that is there.
    let before = counts.storage.fetch_add(1, Relaxed);
    guard_overflow(before);
}

/// One holder of storage less; the last one frees the block.
///
/// # Safety
/// The caller has storage and forgets it.
#[inline]
pub(crate) unsafe fn release_storage(core: *const Core) {
    // SAFETY: the caller's storage keeps the block.
    let (types, counts) = unsafe { (types(core), counts(core)) };
    counts.life.check();
    // Ordering: Release, writer side of GONE.
    if counts.storage.fetch_sub(1, Release) == 1 {
        // Ordering: Acquire, reader side of GONE.
        fence(Acquire);
        // SAFETY: B3: nobody is left. The state went with ORPHAN.
        unsafe { (types.free)(core) }
    }
}

/// Handles that are there now; stale on return.
///
/// # Safety
/// The caller has a handle or storage.
pub(crate) unsafe fn handles(core: *const Core) -> u32 {
    // SAFETY: the caller keeps the block.
    // Ordering: Relaxed. A figure for users.
    unsafe { counts(core) }.handles.load(Relaxed)
}

/// As in the standard library: a program that leaks two thousand million handles cannot be saved.
fn guard_overflow(before: u32) {
    if before > i32::MAX as u32 {
        std::process::abort();
    }
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
