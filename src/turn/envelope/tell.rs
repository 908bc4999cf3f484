//! A message that is not waited for: it lies in its node.

use std::marker::PhantomData;

use super::give_back;
use crate::cell::message::Message;
use crate::cell::resident::Place;
use crate::mailbox::node::{Envelope, VTable};
use crate::panic::{self, Payload};

#[repr(transparent)]
pub(crate) struct Tell<S, L> {
    pub(crate) message: L,
    of: PhantomData<fn(S)>,
}

impl<S: 'static, L: Message<S>> Tell<S, L> {
    #[inline(always)]
    pub(crate) fn new(message: L) -> Self {
        Tell { message, of: PhantomData }
    }

    /// # Safety
    /// ENVELOPE-1; moves the message out.
    unsafe fn run(payload: *mut u8, env: *const ()) {
        // SAFETY: ENVELOPE-1: the payload is a `Tell<S, L>`, moved out once; the owner's state and
        // cell.
        unsafe {
            let (tell, mut place) = (payload.cast::<Self>().read(), Place::of(env));
            let turn = place.in_turn();
            place.with_state(|state| tell.message.run_unasked(state, turn));
        }
    }

    /// # Safety
    /// ENVELOPE-1; moves the message out.
    unsafe fn discard(payload: *mut u8, env: *const ()) {
        // SAFETY: ENVELOPE-1: the payload is a `Tell<S, L>`, moved out once; the owner's cell.
        let (tell, place) = unsafe { (payload.cast::<Self>().read(), Place::<S>::of(env)) };
        give_back(place.on_undelivered(), place.header(), tell.message);
    }

    /// # Safety
    /// ENVELOPE-1.
    unsafe fn panicked(_: *mut u8, _: *const (), payload: Payload) {
        panic::discard(payload);
    }
}

impl<S: 'static, L: Message<S>> Envelope for Tell<S, L> {
    const VTABLE: &'static VTable = &VTable::of::<Self>(Self::run, Self::discard, Self::panicked);
}
