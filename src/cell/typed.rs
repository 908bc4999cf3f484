//! The part of an actor's memory that knows the state's type.

use std::alloc::Layout;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;
use std::sync::Arc;

use super::config::{
    Hooks, PanicPolicy, Plan, Settings, SharedPlan, SharedPolicy, UndeliveredHook,
};
use super::counts::Counts;
use super::header::{
    Config, ENDED, Fork, Guard, Header, Kind, Move, Recovered, Step, Traits, VTable,
};
use super::pattern::{Pattern, PatternRef};
use super::resident::Env;
use super::restarts::Restarts;
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

/// A base of one cell alone.
#[repr(C)]
struct Own<S> {
    config: Config,
    /// Without hooks, there is none.
    more: Option<Box<More<S>>>,
}

struct More<S> {
    hooks: UnsafeCell<Hooks<S>>,
    on_undelivered: Option<UndeliveredHook<S>>,
}

/// The hooks of a cell.
enum HooksOf<'a, S> {
    None,
    /// The owner's, as the state is (B1).
    Own(&'a More<S>),
    /// Those of all actors of its template.
    Shared(&'a Pattern<S>),
}

impl<S> Cell<S> {
    const VTABLE: &'static VTable = &VTable {
        counts: offset_of!(Cell<S>, counts),
        name: std::any::type_name::<S>,
        moves: Self::MOVES,
        end: Self::end,
        recover: Self::recover,
        restart: Self::restart,
        step: Self::step,
        free: Self::free,
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
        Traits { observed: false, told_of_end: false, rests: false, asks: false },
        Settings::PLAIN,
    );

    /// A new cell with one handle, idle.
    pub(crate) fn create(state: S) -> *const Header {
        Self::create_with(state, std::ptr::from_ref(Self::PLAIN).cast_mut())
    }

    /// The same, with more to say about it.
    pub(crate) fn create_planned(state: S, plan: Plan<S>) -> *const Header {
        Self::create_with(state, Self::own(plan))
    }

    /// What many cells are made from.
    pub(crate) fn pattern(plan: SharedPlan<S>) -> PatternRef<S> {
        PatternRef::new(Self::VTABLE, plan)
    }

    /// A new cell with one handle, idle, that keeps this count of its pattern.
    #[inline]
    pub(crate) fn create_of(state: S, pattern: PatternRef<S>) -> *const Header {
        Self::create_with(state, pattern.into_base().as_ptr())
    }

    /// The same, which drops `guard` when the actor has ended, and has this clock unless its
    /// pattern says otherwise.
    pub(crate) fn create_guarded(
        state: S,
        pattern: PatternRef<S>,
        guard: Box<dyn Guard>,
        clock: Option<&Arc<dyn Clock>>,
    ) -> *const Header {
        // SAFETY: a pattern is no fork; the cell that is made here keeps it.
        let config = unsafe { Fork::guarded(pattern.into_base(), guard, clock) };
        Self::create_with(state, config)
    }

    #[inline]
    fn create_with(state: S, config: *mut Config) -> *const Header {
        let cell = alloc(Layout::new::<Self>()).cast::<Self>();
        let header = Header::new(config);
        let state = UnsafeCell::new(MaybeUninit::new(state));
        // SAFETY: fresh memory of this layout.
        unsafe { cell.write(Cell { header, state, counts: Counts::new() }) };
        cell.cast()
    }

    fn own(plan: Plan<S>) -> *mut Config {
        let has_hooks = plan.has_hooks();
        let Plan { settings, hooks, on_undelivered } = plan;
        let around = hooks.on_batch_start.is_some() || hooks.on_batch_end.is_some();
        let observed = around || settings.counted || settings.is_traced();
        let rests = matches!(hooks.policy, PanicPolicy::RestartWithin(..));
        let asks = settings.asks_executor();
        let traits = Traits { observed, told_of_end: hooks.on_end.is_some(), rests, asks };
        let config = Config::new(Self::VTABLE, Kind::Own, traits, settings);
        let more = || Box::new(More { hooks: UnsafeCell::new(hooks), on_undelivered });
        let own = Own { config, more: has_hooks.then(more) };
        Box::into_raw(Box::new(own)).cast()
    }

    /// Gives up what a cell was made with. Never unwinds: what that drops is user code, whose panic
    /// concerns nobody.
    ///
    /// # Safety
    /// `base` is that of a cell of this type, which does not use it again.
    unsafe fn give_up(base: *mut Config) {
        // SAFETY: the caller's word: B4.
        match unsafe { (*base).kind } {
            Kind::Plain => {}
            Kind::Own => {
                // SAFETY: it came from `own` of this type, and is given up once. The box goes last:
                // what is dropped before is user code.
                let mut own = unsafe { Box::from_raw(base.cast::<Own<S>>()) };
                if let Some(mut more) = own.more.take() {
                    let on_undelivered = more.on_undelivered.take();
                    // SAFETY: the box is this call's own.
                    let hooks = unsafe {
                        more.hooks.with_mut(|hooks| std::mem::replace(&mut *hooks, Hooks::NONE))
                    };
                    // One by one: the panic of one does not concern the others.
                    let Hooks { policy, on_panic, on_end, on_batch_start, on_batch_end } = hooks;
                    panic::ignore(|| drop(policy));
                    panic::ignore(|| drop(on_panic));
                    panic::ignore(|| drop(on_end));
                    panic::ignore(|| drop(on_batch_start));
                    panic::ignore(|| drop(on_batch_end));
                    panic::ignore(|| drop(on_undelivered));
                }
                own.config.free();
            }
            Kind::Shared => {
                // SAFETY: C1: the cell has one count, of a pattern of this type, given up here.
                drop(unsafe { PatternRef::<S>::from_base(NonNull::new_unchecked(base)) });
            }
            Kind::Fork => unreachable!("a fork is nobody's base"),
        }
    }

    /// The counts, without a look at the configuration for where they are.
    ///
    /// # Safety
    /// The cell is alive for as long as the result is used, and of this state type.
    #[inline(always)]
    pub(super) unsafe fn counts<'a>(cell: *const Header) -> &'a Counts {
        // SAFETY: the caller's word.
        unsafe { &(*cell.cast::<Self>()).counts }
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

    /// The state, for a turn that may wait.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and the state is in the cell (B1, H1).
    /// Nobody else borrows it, or moves it, and the owner lets nothing else of the actor run, until
    /// what borrows it here is gone.
    pub(crate) unsafe fn state_for_turn<'a>(cell: *const Header) -> &'a mut S {
        let cell = cell.cast::<Self>();
        // SAFETY: B1 by the caller's word.
        unsafe { (*cell).state.with_mut(|state| (*state).assume_init_mut()) }
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

    /// The hooks.
    ///
    /// # Safety
    /// The cell is alive for as long as the result is used, and of this state type.
    #[inline]
    unsafe fn hooks<'a>(cell: *const Header) -> HooksOf<'a, S> {
        // SAFETY: the caller's word.
        let base = unsafe { (*cell).base() };
        // SAFETY: B4, and each kind says what the base is, of this type.
        unsafe {
            match (*base).kind {
                Kind::Own => {
                    (*base.cast::<Own<S>>()).more.as_deref().map_or(HooksOf::None, HooksOf::Own)
                }
                Kind::Shared => HooksOf::Shared(&*base.cast::<Pattern<S>>()),
                Kind::Plain | Kind::Fork => HooksOf::None,
            }
        }
    }

    /// The hook for undelivered messages, if there is one.
    ///
    /// # Safety
    /// The cell is alive for as long as the result is used, and of this state type.
    pub(crate) unsafe fn on_undelivered<'a>(cell: *const Header) -> Option<&'a UndeliveredHook<S>> {
        // SAFETY: the caller's word.
        match unsafe { Self::hooks(cell) } {
            HooksOf::None => None,
            HooksOf::Own(more) => more.on_undelivered.as_ref(),
            HooksOf::Shared(pattern) => pattern.hooks.on_undelivered.as_ref(),
        }
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
        // SAFETY: the caller owns it.
        match unsafe { Self::hooks(cell) } {
            HooksOf::None => panic::ignore(|| drop(state)),
            HooksOf::Own(more) => {
                // SAFETY: the caller owns it; the hook runs after the borrow.
                let hook = unsafe { more.hooks.with_mut(|hooks| (*hooks).on_end.take()) };
                let cause = this.end_cause();
                panic::ignore(|| match hook {
                    Some(hook) => hook(state, cause),
                    None => drop(state),
                });
            }
            HooksOf::Shared(pattern) => {
                let cause = this.end_cause();
                panic::ignore(|| match &pattern.hooks.on_end {
                    Some(hook) => hook(state, cause),
                    None => drop(state),
                });
            }
        }
        if let Some(fork) = this.fork() {
            // SAFETY: B4; what guards is the owner's.
            let guard = unsafe { fork.as_ref().guard.with_mut(|guard| (*guard).take()) };
            panic::ignore(|| drop(guard));
        }
    }

    /// Tells the panic hook and does what the policy says. Never unwinds.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, between two turns; its state is there.
    unsafe fn recover(cell: *const Header, panic: &TurnPanic) -> Recovered {
        // SAFETY: the caller owns it.
        let after = match unsafe { Self::hooks(cell) } {
            HooksOf::None => After::Stop,
            // SAFETY: the caller owns it. User code in here cannot reach the hooks: only a turn of
            // this mailbox does, and none comes now.
            HooksOf::Own(more) => unsafe {
                more.hooks.with_mut(|hooks| {
                    if let Some(on_panic) = &mut (*hooks).on_panic {
                        panic::ignore(|| on_panic(panic));
                    }
                    match &mut (*hooks).policy {
                        PanicPolicy::Stop => After::Stop,
                        PanicPolicy::Resume => After::Resume,
                        PanicPolicy::Restart(factory) => made_by(factory),
                        PanicPolicy::RestartWithin(restarts, _) => After::Restart(*restarts),
                    }
                })
            },
            HooksOf::Shared(pattern) => {
                if let Some(on_panic) = &pattern.hooks.on_panic {
                    panic::ignore(|| on_panic(panic));
                }
                match &pattern.hooks.policy {
                    SharedPolicy::Stop => After::Stop,
                    SharedPolicy::Resume => After::Resume,
                    SharedPolicy::Restart(factory) => made_by(factory),
                    SharedPolicy::RestartWithin(restarts, _) => After::Restart(*restarts),
                }
            }
        };
        match after {
            After::Stop => Recovered::Stopped,
            After::Resume => Recovered::Resumed,
            After::Fresh(fresh) => {
                // SAFETY: the caller owns it, no turn is under way.
                let old =
                    unsafe { Self::with_state(cell, |state| std::mem::replace(state, fresh)) };
                panic::ignore(|| drop(old));
                Recovered::Resumed
            }
            After::Restart(restarts) => {
                // SAFETY: the owner keeps the cell (B3).
                let this = unsafe { &*cell };
                // A clock that panics shows nothing.
                let now = panic::catch(|| this.clock().now());
                let now = now.map_err(panic::discard).unwrap_or_default();
                match this.ext_made().rests.next(&restarts, now) {
                    Ok(rest) => Recovered::Restarts(rest),
                    Err(restarts) => Recovered::GaveUp(restarts),
                }
            }
        }
    }

    /// Makes the state anew. Unwinds if the factory does: then it is as it was.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, and its state is there, as `env` says; no
    /// other turn is under way.
    unsafe fn restart(cell: *const Header, env: *const ()) {
        // SAFETY: the caller owns it.
        let fresh = match unsafe { Self::hooks(cell) } {
            HooksOf::None => None,
            // SAFETY: the caller owns it. User code in here cannot reach the hooks: only another
            // turn of this mailbox does, and none comes now.
            HooksOf::Own(more) => unsafe {
                more.hooks.with_mut(|hooks| match &mut (*hooks).policy {
                    PanicPolicy::RestartWithin(_, factory) => Some(factory()),
                    _ => None,
                })
            },
            HooksOf::Shared(pattern) => match &pattern.hooks.policy {
                SharedPolicy::RestartWithin(_, factory) => Some(factory()),
                _ => None,
            },
        };
        if let Some(fresh) = fresh {
            // SAFETY: the caller's word.
            let old =
                unsafe { Env::with_state(env, |state: &mut S| std::mem::replace(state, fresh)) };
            panic::ignore(|| drop(old));
        }
    }

    /// Calls a hook of a batch. May unwind.
    ///
    /// # Safety
    /// The caller owns this mailbox, of this state type, between two turns, and nothing borrows its
    /// state, which is there.
    unsafe fn step(cell: *const Header, step: Step) {
        // SAFETY: the caller's word.
        match unsafe { Self::hooks(cell) } {
            HooksOf::None => {}
            // SAFETY: the caller's word. What is called in here reaches the hooks only by a turn of
            // this mailbox, which does not come now.
            HooksOf::Own(more) => unsafe {
                more.hooks.with_mut(|hooks| match step {
                    Step::Start => {
                        if let Some(hook) = &mut (*hooks).on_batch_start {
                            Self::with_state(cell, hook);
                        }
                    }
                    Step::End(turns) => {
                        if let Some(hook) = &mut (*hooks).on_batch_end {
                            Self::with_state(cell, |state| hook(state, turns));
                        }
                    }
                });
            },
            // SAFETY: the caller's word.
            HooksOf::Shared(pattern) => unsafe {
                match (step, &pattern.hooks.on_batch_start, &pattern.hooks.on_batch_end) {
                    (Step::Start, Some(hook), _) => Self::with_state(cell, hook),
                    (Step::End(turns), _, Some(hook)) => {
                        Self::with_state(cell, |state| hook(state, turns));
                    }
                    _ => {}
                }
            },
        }
    }

    /// Drops the state of a cell that nobody else can reach. Never unwinds.
    ///
    /// # Safety
    /// B5: the caller is alone with the cell, of this type; its mailbox is idle, so the state is
    /// there. It is not used again.
    #[inline(always)]
    pub(super) unsafe fn drop_state(cell: *const Header) {
        let typed = cell.cast::<Self>();
        // SAFETY: the caller's word.
        panic::ignore(|| unsafe { (*typed).state.with_mut(|state| (*state).assume_init_drop()) });
    }

    /// # Safety
    /// `cell` is of this type, and nobody uses it any more (B3).
    pub(super) unsafe fn free(cell: *const Header) {
        let cell = cell.cast::<Self>().cast_mut();
        // SAFETY: the caller's word: nobody else is there. The state was taken out (B2, B1). The
        // fork refers to the base (B4), and its memory goes last: it is what `config` leads to.
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
        // SAFETY: the caller's word.
        unsafe {
            (*cell).counts.end();
            cell.drop_in_place();
            dealloc(cell.cast(), Layout::new::<Self>());
        }
    }
}

/// What the policy makes of a panic.
enum After<S> {
    Stop,
    Resume,
    Fresh(S),
    Restart(Restarts),
}

/// A fresh state, unless its factory panics.
fn made_by<S>(factory: impl FnOnce() -> S) -> After<S> {
    panic::catch(factory).map_err(panic::discard).map_or(After::Stop, After::Fresh)
}
