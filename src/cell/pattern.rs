//! What the actors of one template share: settings and hooks in one allocation, counted.
//!
//! Each cell that was made from it has one count, and so has each [`PatternRef`]. A cell makes no
//! second one: its fork lies between the cell and its pattern, and goes first. The count stands in
//! a line of its own, for it moves whenever an actor is made or freed, and the settings are read
//! whenever one is sent to.
//!
//! - C1: a pattern is there as long as anybody counts. It never changes but in its count.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::config::{SharedHooks, SharedPlan, SharedPolicy};
use super::counts::Uses;
use super::header::{Config, Kind, Traits, VTable};
use crate::panic;
use crate::sync::CachePadded;

#[repr(C)]
pub(super) struct Pattern<S> {
    config: Config,
    pub(super) hooks: SharedHooks<S>,
    uses: CachePadded<Uses>,
}

/// One count of a pattern.
pub(crate) struct PatternRef<S>(NonNull<Pattern<S>>, PhantomData<fn(S) -> S>);

// SAFETY: C1: all that is reached through it is a count, settings and hooks that are Send and Sync;
// the last one drops them, wherever it is. A hook is given a state that its caller owns.
unsafe impl<S: Send> Send for PatternRef<S> {}
// SAFETY: as above.
unsafe impl<S: Send> Sync for PatternRef<S> {}

impl<S> PatternRef<S> {
    pub(super) fn new(
        vtable: &'static VTable,
        SharedPlan { settings, hooks }: SharedPlan<S>,
    ) -> Self {
        let around = hooks.on_batch_start.is_some() || hooks.on_batch_end.is_some();
        let observed = around || settings.counted || settings.is_traced();
        let rests = matches!(hooks.policy, SharedPolicy::RestartWithin(..));
        let asks = settings.asks_executor();
        let traits = Traits { observed, told_of_end: hooks.on_end.is_some(), rests, asks };
        let config = Config::new(vtable, Kind::Shared, traits, settings);
        let uses = CachePadded::new(Uses::new());
        let pattern = Box::into_raw(Box::new(Pattern { config, hooks, uses }));
        // SAFETY: a box has an address. Its one count is this one.
        PatternRef(unsafe { NonNull::new_unchecked(pattern) }, PhantomData)
    }

    fn pattern(&self) -> &Pattern<S> {
        // SAFETY: C1.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.pattern().config
    }

    /// How many count; stale on return.
    pub(crate) fn count(&self) -> u64 {
        self.pattern().uses.count()
    }

    /// The count, as a cell keeps it.
    #[inline]
    pub(super) fn into_base(self) -> NonNull<Config> {
        let base = self.0.cast();
        std::mem::forget(self);
        base
    }

    /// Gives up the count that a cell has, unless it is the last.
    ///
    /// # Safety
    /// `base` came from [`into_base`](Self::into_base) of this type; if this says yes, it is not
    /// used again.
    #[inline]
    pub(super) unsafe fn give_up_unless_last(base: NonNull<Config>) -> bool {
        // SAFETY: C1: the cell's count keeps it until it is given up.
        unsafe { base.cast::<Pattern<S>>().as_ref() }.uses.release_unless_last()
    }

    /// # Safety
    /// `base` came from [`into_base`](Self::into_base) of this type, and comes back once.
    pub(super) unsafe fn from_base(base: NonNull<Config>) -> Self {
        PatternRef(base.cast(), PhantomData)
    }
}

impl<S> Clone for PatternRef<S> {
    #[inline]
    fn clone(&self) -> Self {
        self.pattern().uses.retain();
        PatternRef(self.0, PhantomData)
    }
}

impl<S> Drop for PatternRef<S> {
    #[inline]
    fn drop(&mut self) {
        if self.pattern().uses.release() {
            free(self.0);
        }
    }
}

/// The last count is gone (C1).
#[cold]
#[inline(never)]
fn free<S>(pattern: NonNull<Pattern<S>>) {
    // SAFETY: C1: it is a box, and nobody is left. The box goes last: what is dropped before is user
    // code.
    let mut pattern = unsafe { Box::from_raw(pattern.as_ptr()) };
    pattern.uses.end();
    let SharedHooks { policy, on_panic, on_end, on_batch_start, on_batch_end, on_undelivered } =
        &mut pattern.hooks;
    // User code, one by one: the panic of one concerns neither the others nor anybody else.
    panic::ignore(|| drop(std::mem::replace(policy, SharedPolicy::Stop)));
    panic::ignore(|| drop(on_panic.take()));
    panic::ignore(|| drop(on_end.take()));
    panic::ignore(|| drop(on_batch_start.take()));
    panic::ignore(|| drop(on_batch_end.take()));
    panic::ignore(|| drop(on_undelivered.take()));
    pattern.config.free();
}
