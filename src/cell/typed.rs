//! The part of an actor's memory that knows the state's type.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;
use std::sync::Arc;

use super::built::{Built, BuiltRef};
use super::config::{Hooks, PanicPolicy, Plan, UndeliveredHook};
use super::counts::Counts;
use super::header::{CellPtr, ENDED, Header, Recovered};
use super::settings::{Config, Fork, Guard, Kind, Move, Settings, StateVTable, Traits};
use crate::error::TurnPanic;
use crate::panic;
use crate::sync::alloc::{alloc, dealloc};
use crate::sync::cell::UnsafeCell;
use crate::sync::config::HOME;
use crate::time::Clock;

#[repr(C)]
pub(crate) struct Cell<S> {
    header: Header,
    state: UnsafeCell<MaybeUninit<S>>,
    counts: Counts,
}

impl<S> Cell<S> {
    const VTABLE: &'static StateVTable = &StateVTable {
        counts: offset_of!(Cell<S>, counts),
        uses: Built::<S>::USES,
        name: std::any::type_name::<S>,
        moves: Self::MOVES,
        end: Self::end,
        recover: Self::recover,
        restart: Self::restart,
        free: Self::free,
        free_built: BuiltRef::<S>::free,
    };
    /// Nothing has nowhere to go, and a large state lies in other lines than the word anyway.
    const MOVES: Option<Move> = match size_of::<S>() {
        1..=HOME if align_of::<S>() <= 64 => {
            Some(Move { out: Self::move_out, back: Self::move_back })
        }
        _ => None,
    };
    const PLAIN: &'static Config = &Config::new(
        Self::VTABLE,
        Kind::Plain,
        Traits { told_of_end: false, asks: false },
        Settings::PLAIN,
    );

    /// A new cell with one handle, idle.
    pub(super) fn create(state: S) -> Counted<S> {
        Self::create_with(state, std::ptr::from_ref(Self::PLAIN).cast_mut())
    }

    /// A configuration that cells can be made from.
    pub(crate) fn build(plan: Plan<S>) -> BuiltRef<S> {
        BuiltRef::new(Self::VTABLE, plan)
    }

    /// A new cell with one handle, idle, that keeps this count of its configuration.
    #[inline]
    pub(super) fn create_of(state: S, built: BuiltRef<S>) -> Counted<S> {
        Self::create_with(state, built.into_base().as_ptr())
    }

    /// A new cell with one handle, idle: plain, or of this configuration. It drops `guard` when the
    /// actor has ended, and has this clock unless its configuration has one.
    pub(super) fn create_guarded(
        state: S,
        built: Option<BuiltRef<S>>,
        guard: Box<dyn Guard>,
        clock: Option<&Arc<dyn Clock>>,
    ) -> Counted<S> {
        let base = built.map_or(NonNull::from(Self::PLAIN), BuiltRef::into_base);
        // SAFETY: it is no fork, and the cell that is made here keeps it.
        let config = unsafe { Fork::guarded(base, guard, clock) };
        Self::create_with(state, config)
    }

    #[inline]
    fn create_with(state: S, config: *mut Config) -> Counted<S> {
        let cell = alloc(Layout::new::<Self>()).cast::<Self>();
        let header = Header::new(config);
        let state = UnsafeCell::new(MaybeUninit::new(state));
        // SAFETY: fresh memory of this layout, which is not null; its counts begin with one handle.
        unsafe {
            cell.write(Cell { header, state, counts: Counts::new() });
            Counted::of(CellPtr::new(NonNull::new_unchecked(cell.cast())))
        }
    }

    /// The cell, with its type.
    ///
    /// # Safety
    /// The cell is alive for as long as the result is used, and of this state type.
    #[inline(always)]
    pub(super) unsafe fn typed<'a>(cell: *const Header) -> &'a Self {
        // SAFETY: it is alive, and the header is the first field of a cell of this type.
        unsafe { &*cell.cast::<Self>() }
    }

    /// Gives up what a cell was made with. Never unwinds.
    ///
    /// # Safety
    /// `base` is that of a cell of this type, which does not use it again.
    unsafe fn give_up(base: *mut Config) {
        // SAFETY: HEADER-4: the cell's base is there until it is given up. If it was built, the
        // cell has one count of it (BUILT-1), and it is of this type.
        unsafe {
            match (*base).kind {
                Kind::Plain => {}
                Kind::Built => drop(BuiltRef::<S>::from_base(base)),
                Kind::Fork => unreachable!("a fork is no base"),
            }
        }
    }

    /// The counts, without a look at the configuration for where they are.
    #[inline(always)]
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Calls `f` with the state.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, the state is there (HEADER-1), and no
    /// other borrow of it lives.
    #[inline(always)]
    pub(crate) unsafe fn with_state<R>(cell: *const Header, f: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: the contract of this function is that of `owned`.
        unsafe { Self::owned(cell) }.with_state(f)
    }

    /// The cell, for the owner of its mailbox.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, for as long as the result is used. The
    /// state is there (HEADER-1), and no other borrow of it lives.
    #[inline(always)]
    unsafe fn owned<'a>(cell: *const Header) -> StateOf<'a, S> {
        // SAFETY: the owner keeps the cell (HEADER-3), which is of this type.
        StateOf(unsafe { Self::typed(cell) })
    }

    /// # Safety
    /// The caller owns this mailbox, of this state type; the state is in the cell, and `to` is
    /// memory for it.
    unsafe fn move_out(cell: *const Header, to: *mut u8) {
        // SAFETY: HEADER-1: between two turns nothing refers to the state, and `to` has room for
        // it.
        unsafe {
            let state = &Self::typed(cell).state;
            state.with_mut(|state| to.cast::<S>().copy_from_nonoverlapping(state.cast(), 1));
        }
    }

    /// # Safety
    /// The caller owns this mailbox, of this state type; the state was moved out to `from`.
    unsafe fn move_back(cell: *const Header, from: *const u8) {
        // SAFETY: HEADER-1: the cell's bytes are no state now, and those at `from` are one, moved
        // back once.
        unsafe {
            let state = &Self::typed(cell).state;
            state.with_mut(|state| state.cast::<S>().copy_from_nonoverlapping(from.cast(), 1));
        }
    }

    /// The hooks, if the cell has any.
    #[inline]
    fn hooks(&self) -> Option<&Hooks<S>> {
        let base = self.header.base();
        // SAFETY: HEADER-4: the base lives as long as the cell, and a built one is of the cell's
        // type.
        unsafe { ((*base).kind == Kind::Built).then(|| &(*base.cast::<Built<S>>()).hooks) }
    }

    pub(super) fn on_undelivered(&self) -> Option<&UndeliveredHook<S>> {
        self.hooks()?.on_undelivered.as_ref()
    }

    /// Takes the state out, tells the end hook, drops what is left. Never unwinds.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and has just raised ENDED: no turn
    /// follows.
    unsafe fn end(cell: *const Header) {
        // SAFETY: the caller owns it, and ENDED was not set before, so the state is there.
        let owned = unsafe { Self::owned(cell) };
        let this = owned.0;
        debug_assert!(this.header.has(ENDED));
        // ENDED says from now on that it is gone.
        let state = owned.into_state();
        let on_end = this.hooks().and_then(|hooks| hooks.on_end.as_ref());
        match on_end {
            Some(hook) => {
                let cause = this.header.end_cause();
                panic::ignore(|| hook(state, cause));
            }
            None => panic::ignore(|| drop(state)),
        }
    }

    /// Tells the panic hook and does what the policy says. Never unwinds.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, between two turns; its state is there.
    unsafe fn recover(cell: *const Header, panic: &TurnPanic, may_wait: bool) -> Recovered {
        // SAFETY: the caller owns it between two turns, and its state is there.
        let mut owned = unsafe { Self::owned(cell) };
        let this = owned.0;
        let hooks = this.hooks();
        if let Some(on_panic) = hooks.and_then(|hooks| hooks.on_panic.as_ref()) {
            panic::ignore(|| on_panic(panic));
        }
        match hooks.map(|hooks| &hooks.policy) {
            None | Some(PanicPolicy::Stop) => Recovered::Stopped,
            Some(PanicPolicy::Resume) => Recovered::Resumed,
            Some(PanicPolicy::Restart(factory)) => {
                match panic::catch(|| owned.with_state(|old| factory(old))) {
                    Ok(fresh) => {
                        owned.replace(fresh);
                        Recovered::Restarted
                    }
                    Err(payload) => {
                        panic::discard(payload);
                        Recovered::Stopped
                    }
                }
            }
            Some(PanicPolicy::RestartWithin(restarts, _)) => {
                // A clock that panics shows nothing.
                let now = panic::catch(|| this.header.clock().now());
                let now = now.map_err(panic::discard).unwrap_or_default();
                match this.header.ext_made().restarts.next(restarts, now, may_wait) {
                    Ok(rest) => Recovered::Restarts(rest),
                    Err(restarts) => Recovered::GaveUp(restarts),
                }
            }
        }
    }

    /// Makes the state anew. Unwinds if the factory does: then the state is as that left it.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, between two turns or in one that does not
    /// borrow the state, which is in its cell.
    unsafe fn restart(cell: *const Header) {
        // SAFETY: the caller owns it, and nothing borrows the state, which is in its cell.
        let mut owned = unsafe { Self::owned(cell) };
        let policy = owned.0.hooks().map(|hooks| &hooks.policy);
        if let Some(PanicPolicy::RestartWithin(_, factory)) = policy {
            let fresh = owned.with_state(|old| factory(old));
            owned.replace(fresh);
        }
    }

    /// Drops the state of a cell that nothing else can reach. Never unwinds.
    ///
    /// # Safety
    /// HEADER-5: the caller is alone with the cell, of this type; its mailbox is idle, so the state
    /// is there. It is not used again.
    #[inline(always)]
    pub(super) unsafe fn drop_state(cell: *const Header) {
        // SAFETY: HEADER-5: the caller is alone with the cell, of this type, whose state is there,
        // and is dropped once.
        panic::ignore(|| unsafe {
            Self::typed(cell).state.with_mut(|state| (*state).assume_init_drop());
        });
    }

    /// # Safety
    /// `cell` is of this type, and nothing uses it any more (HEADER-3).
    pub(super) unsafe fn free(cell: *const Header) {
        let cell = cell.cast::<Self>().cast_mut();
        // SAFETY: nothing else reaches the cell (HEADER-3). The state was taken out (HEADER-2,
        // HEADER-1). The fork refers to the base (HEADER-4), and its memory goes last: it is what
        // `config` leads to.
        unsafe {
            let (base, fork) = ((*cell).header.base(), (*cell).header.fork());
            if let Some(fork) = fork {
                Fork::empty(fork);
            }
            Self::give_up(base);
            if let Some(fork) = fork {
                drop(Box::from_raw(fork.as_ptr()));
            }
            Self::free_memory(cell);
        }
    }

    /// # Safety
    /// As for [`free`](Self::free), and nothing is kept by its configuration any more, or it is the
    /// plain one.
    #[inline(always)]
    pub(super) unsafe fn free_memory(cell: *mut Self) {
        // SAFETY: nothing uses the cell any more, and nothing of it is there to be dropped but what
        // it holds by itself.
        unsafe {
            (*cell).counts.end();
            cell.drop_in_place();
            dealloc(cell.cast(), Layout::new::<Self>());
        }
    }
}

/// The cell in the hands of its mailbox's owner, who borrows the state, which is there.
struct StateOf<'a, S>(&'a Cell<S>);

impl<S> StateOf<'_, S> {
    #[inline(always)]
    fn with_state<R>(&mut self, f: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: HEADER-1: no other thread touches the state, which is there, and is borrowed by
        // this alone.
        self.0.state.with_mut(|state| f(unsafe { (*state).assume_init_mut() }))
    }

    /// Puts another state there. The drop of the old one is user code, whose panic is ignored.
    fn replace(&mut self, fresh: S) {
        let old = self.with_state(|state| std::mem::replace(state, fresh));
        panic::ignore(|| drop(old));
    }

    /// Takes the state out.
    fn into_state(self) -> S {
        // SAFETY: HEADER-1: it is there, and is not looked at again.
        self.0.state.with_mut(|state| unsafe { (*state).assume_init_read() })
    }
}

/// One handle of a cell whose state is an S, which was counted.
pub(super) struct Counted<S>(pub(super) CellPtr, pub(super) PhantomData<fn(S) -> S>);

impl<S> Counted<S> {
    /// # Safety
    /// The state is an S, and one of the cell's handles is this one (HEADER-2).
    #[inline]
    pub(super) unsafe fn of(cell: CellPtr) -> Self {
        Counted(cell, PhantomData)
    }
}
