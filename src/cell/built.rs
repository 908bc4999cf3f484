//! A built configuration: settings and hooks in one allocation, shared by reference count.
//!
//! Each cell that was made from it has one count, and so has each [`BuiltRef`]. A cell takes no
//! second one: its fork lies between the cell and its configuration, and goes first. The hooks lie
//! between the settings, which are read whenever an actor is sent to, and the count, which moves
//! whenever one is made or freed: these are in different cache lines.
//!
//! - BUILT-1: a built configuration is there as long as it is counted. Nothing in it changes but
//!   the count.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::NonNull;

use super::config::{Hooks, Plan};
use super::counts::Uses;
use super::reclaim::{Dead, reclaim};
use super::settings::{Config, Kind, StateVTable, Traits};

#[repr(C)]
pub(super) struct Built<S> {
    config: Config,
    pub(super) hooks: Hooks<S>,
    uses: Uses,
}

impl<S> Built<S> {
    /// The offset of its count.
    pub(super) const USES: usize = offset_of!(Built<S>, uses);
}

/// One count of a built configuration.
pub(crate) struct BuiltRef<S>(NonNull<Built<S>>, PhantomData<fn(S) -> S>);

// SAFETY: BUILT-1: all that is reached through it is a count, settings and hooks that are Send and
// Sync. The last reference drops them on its thread. A hook gets a state that its caller owns.
unsafe impl<S: Send> Send for BuiltRef<S> {}
// SAFETY: a shared reference reads settings, and calls hooks that are Sync.
unsafe impl<S: Send> Sync for BuiltRef<S> {}

impl<S> BuiltRef<S> {
    pub(super) fn new(vtable: &'static StateVTable, Plan { settings, hooks }: Plan<S>) -> Self {
        let asks = settings.asks_executor();
        let traits = Traits { told_of_end: hooks.on_end.is_some(), asks };
        let config = Config::new(vtable, Kind::Built, traits, settings);
        let built = Box::leak(Box::new(Built { config, hooks, uses: Uses::new() }));
        // Its one count is this one.
        BuiltRef(NonNull::from(built), PhantomData)
    }

    fn built(&self) -> &Built<S> {
        // SAFETY: BUILT-1: this reference is counted.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.built().config
    }

    /// The number of references; stale on return.
    pub(crate) fn count(&self) -> u64 {
        self.built().uses.count()
    }

    /// The count, as a cell keeps it.
    #[inline]
    pub(super) fn into_base(self) -> NonNull<Config> {
        let base = self.0.cast();
        std::mem::forget(self);
        base
    }

    /// Gives this count up, unless it is the last: then it stays with the cell that it was taken
    /// from, and the result is false.
    #[inline]
    pub(super) fn drop_unless_last(self) -> bool {
        let given_up = self.built().uses.release_unless_last();
        std::mem::forget(self);
        given_up
    }

    /// # Safety
    /// `base` came from [`into_base`](Self::into_base) of this type, and comes back once.
    pub(super) unsafe fn from_base(base: *mut Config) -> Self {
        // SAFETY: `into_base` gave it away, with its address.
        BuiltRef(unsafe { NonNull::new_unchecked(base.cast()) }, PhantomData)
    }

    /// Frees it. Does not unwind.
    ///
    /// # Safety
    /// `base` came from [`into_base`](Self::into_base) of this type. Its last count was given up,
    /// and this is called once.
    pub(super) unsafe fn free(base: NonNull<Config>) {
        // SAFETY: BUILT-1: `new` made it as a box of this type, and the caller has its last count.
        // The box goes last: what is dropped before is user code.
        let mut built = unsafe { Box::from_raw(base.cast::<Built<S>>().as_ptr()) };
        built.uses.end();
        built.hooks.free();
        built.config.free();
    }
}

impl<S> Clone for BuiltRef<S> {
    #[inline]
    fn clone(&self) -> Self {
        self.built().uses.retain();
        BuiltRef(self.0, PhantomData)
    }
}

impl<S> Drop for BuiltRef<S> {
    #[inline]
    fn drop(&mut self) {
        if self.built().uses.release() {
            // SAFETY: BUILT-1: that was the last count.
            unsafe { reclaim(Dead::Built(self.0.cast())) }
        }
    }
}
