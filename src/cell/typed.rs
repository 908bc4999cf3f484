//! The part of an actor's memory that knows the state's type.

use std::alloc::Layout;
use std::mem::{MaybeUninit, offset_of};

use super::config::{Hooks, PanicPolicy, Plan, Settings, UndeliveredHook};
use super::counts::Counts;
use super::header::{Config, ENDED, Ext, Header, Move, Recovered, Step, VTable};
use crate::error::EndCause;
use crate::mailbox::word::CLOSED;
use crate::panic;
use crate::sync::alloc::{alloc, dealloc};
use crate::sync::cell::UnsafeCell;
use crate::sync::config::HOME;

#[repr(C)]
pub(crate) struct Cell<S> {
    header: Header,
    state: UnsafeCell<MaybeUninit<S>>,
    counts: Counts,
}

/// A [`Config`] that is an allocation of its own.
#[repr(C)]
struct Whole<S> {
    config: Config,
    ext: Ext,
    hooks: UnsafeCell<Hooks<S>>,
    on_undelivered: Option<UndeliveredHook<S>>,
}

impl<S> Cell<S> {
    const VTABLE: &'static VTable = &VTable {
        counts: offset_of!(Cell<S>, counts),
        ext: offset_of!(Whole<S>, ext),
        moves: Self::MOVES,
        end: Self::end,
        recover: Self::recover,
        step: Self::step,
        plain_config: Self::plain_config,
        free_config: Self::free_config,
        free: Self::free,
    };
    /// Nothing has nowhere to go, and a large state lies in other lines than the word anyway.
    const MOVES: Option<Move> = match size_of::<S>() {
        1..=HOME if align_of::<S>() <= 64 => {
            Some(Move { out: Self::move_out, back: Self::move_back })
        }
        _ => None,
    };
    const PLAIN: &'static Config = &Config::new(Self::VTABLE, false, false, Settings::PLAIN);

    /// A new cell with one handle, idle.
    pub(crate) fn create(state: S) -> *const Header {
        Self::create_with(state, std::ptr::from_ref(Self::PLAIN).cast_mut())
    }

    /// The same, with more to say about it.
    pub(crate) fn create_planned(state: S, plan: Plan<S>) -> *const Header {
        Self::create_with(state, Self::new_config(plan))
    }

    fn create_with(state: S, config: *mut Config) -> *const Header {
        let cell = alloc(Layout::new::<Self>()).cast::<Self>();
        let header = Header::new(config);
        let state = UnsafeCell::new(MaybeUninit::new(state));
        // SAFETY: fresh memory of this layout.
        unsafe { cell.write(Cell { header, state, counts: Counts::new() }) };
        cell.cast()
    }

    fn new_config(plan: Plan<S>) -> *mut Config {
        let observed = plan.has_batch_hooks();
        let Plan { settings, hooks, on_undelivered } = plan;
        let config = Config::new(Self::VTABLE, true, observed, settings);
        let hooks = UnsafeCell::new(hooks);
        let whole = Whole { config, ext: Ext::default(), hooks, on_undelivered };
        Box::into_raw(Box::new(whole)).cast()
    }

    fn plain_config() -> *mut Config {
        Self::new_config(Plan::PLAIN)
    }

    /// # Safety
    /// `config` came from [`new_config`](Self::new_config) of this type and is not used again.
    unsafe fn free_config(config: *mut Config) {
        // SAFETY: the caller's duty.
        drop(unsafe { Box::from_raw(config.cast::<Whole<S>>()) });
    }

    /// Calls `f` with the state.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, the state is there (B1), and no other
    /// borrow of it lives.
    #[inline(always)]
    pub(crate) unsafe fn with_state<R>(cell: *const Header, f: impl FnOnce(&mut S) -> R) -> R {
        let cell = cell.cast::<Self>();
        // SAFETY: B1 by the caller's word: nobody else touches it until we let go.
        unsafe { (*cell).state.with_mut(|state| f((*state).assume_init_mut())) }
    }

    /// # Safety
    /// The caller owns this mailbox, of this state type; the state is in the cell, and `to` is
    /// memory for it.
    unsafe fn move_out(cell: *const Header, to: *mut u8) {
        let cell = cell.cast::<Self>();
        // SAFETY: the caller's word; between two turns nobody refers to the state (B1).
        unsafe {
            (*cell)
                .state
                .with_mut(|state| to.cast::<S>().copy_from_nonoverlapping(state.cast(), 1));
        }
    }

    /// # Safety
    /// The caller owns this mailbox, of this state type; the state was moved out to `from`.
    unsafe fn move_back(cell: *const Header, from: *const u8) {
        let cell = cell.cast::<Self>();
        // SAFETY: as above.
        unsafe {
            let from = from.cast::<S>();
            (*cell).state.with_mut(|state| state.cast::<S>().copy_from_nonoverlapping(from, 1));
        }
    }

    /// Calls `f` with the hooks, if there are any.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and no other borrow of the hooks lives.
    unsafe fn with_hooks<R>(cell: *const Header, f: impl FnOnce(&mut Hooks<S>) -> R) -> Option<R> {
        // SAFETY: the owner keeps the cell (B3).
        let whole = unsafe { (*cell).owned_config() }?.cast::<Whole<S>>();
        // SAFETY: B4: an owned `config` is the first field of its `Whole`; the hooks are the
        // owner's as the state is (B1).
        Some(unsafe { (*whole).hooks.with_mut(|hooks| f(&mut *hooks)) })
    }

    /// The hook for undelivered messages, if there is one.
    ///
    /// # Safety
    /// The cell is alive for as long as the result is used, and of this state type.
    pub(crate) unsafe fn on_undelivered<'a>(cell: *const Header) -> Option<&'a UndeliveredHook<S>> {
        // SAFETY: the caller's word.
        let whole = unsafe { (*cell).owned_config() }?.cast::<Whole<S>>();
        // SAFETY: B4: an owned `config` is the first field of its `Whole`; this field never
        // changes.
        unsafe { (*whole).on_undelivered.as_ref() }
    }

    /// Takes the state out, tells the end hook, drops what is left. Never unwinds.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and has just raised ENDED: no turn
    /// follows.
    unsafe fn end(cell: *const Header) {
        // SAFETY: the owner keeps the cell (B3).
        let this = unsafe { &*cell };
        debug_assert!(this.has(ENDED));
        let typed = cell.cast::<Self>();
        // SAFETY: B1: the caller owns it, and ENDED was not set before, so the state is there;
        // ENDED says from now on that it is not.
        let state = unsafe { (*typed).state.with_mut(|state| (*state).assume_init_read()) };
        // SAFETY: the caller owns it; the hook runs after the borrow.
        let hook = unsafe { Self::with_hooks(cell, |hooks| hooks.on_end.take()) }.flatten();
        let cause = match this.stop_cause() {
            Some(cause) => EndCause::Stopped(cause),
            None if this.word.load().has(CLOSED) => EndCause::Closed,
            None => EndCause::Dropped,
        };
        panic::ignore(|| match hook {
            Some(hook) => hook(state, cause),
            None => drop(state),
        });
    }

    /// Tells the panic hook and does what the policy says. Never unwinds.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, between two turns; its state is there.
    unsafe fn recover(cell: *const Header, text: &str) -> Recovered {
        // SAFETY: the caller owns it. User code in here cannot reach the hooks: only a turn of this
        // mailbox does, and none comes now.
        let fresh = unsafe {
            Self::with_hooks(cell, |hooks| {
                if let Some(on_panic) = &mut hooks.on_panic {
                    panic::ignore(|| on_panic(text));
                }
                match &mut hooks.policy {
                    PanicPolicy::Stop => None,
                    PanicPolicy::Resume => Some(None),
                    PanicPolicy::Restart(factory) => {
                        panic::catch(factory).map_err(panic::discard).ok().map(Some)
                    }
                }
            })
        };
        match fresh.flatten() {
            None => Recovered::Stopped,
            Some(None) => Recovered::Resumed,
            Some(Some(fresh)) => {
                // SAFETY: the caller owns it, no turn is under way.
                let old =
                    unsafe { Self::with_state(cell, |state| std::mem::replace(state, fresh)) };
                panic::ignore(|| drop(old));
                Recovered::Resumed
            }
        }
    }

    /// Calls a hook of a batch. May unwind.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, between two turns, and nothing borrows its
    /// state, which is there.
    unsafe fn step(cell: *const Header, step: Step) {
        // SAFETY: the caller's word. What is called in here reaches the hooks only by a turn of
        // this mailbox, which does not come now.
        unsafe {
            Self::with_hooks(cell, |hooks| match step {
                Step::Start => {
                    if let Some(hook) = &mut hooks.on_batch_start {
                        Self::with_state(cell, hook);
                    }
                }
                Step::End(turns) => {
                    if let Some(hook) = &mut hooks.on_batch_end {
                        Self::with_state(cell, |state| hook(state, turns));
                    }
                }
            });
        }
    }

    /// # Safety
    /// `cell` is of this type, and nobody uses it any more (B3).
    unsafe fn free(cell: *const Header) {
        let cell = cell.cast::<Self>().cast_mut();
        // SAFETY: the caller's word: nobody else is there. The state was taken out (B2, B1). Hooks
        // that were never called are user code: their panic concerns nobody.
        unsafe {
            if let Some(config) = (*cell).header.owned_config() {
                panic::ignore(|| Self::free_config(config));
            }
            (*cell).counts.end();
            cell.drop_in_place();
            dealloc(cell.cast(), Layout::new::<Self>());
        }
    }
}
