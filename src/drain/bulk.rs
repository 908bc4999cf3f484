//! Messages that are gathered and handled together.
//!
//! The turn of an [`Item`] only puts it beside the state; [`super::pass`] has all of them handled in one call, before a turn of another kind
//! and at the end of the pass. So they keep their place in the one order of the mailbox, and the mailbox itself knows nothing of them: it
//! counts, limits, carries and gives back items like any message. On an actor that is not built for it, each item is a call of its own.
//!
//! - G1: an item lies in one place: the mailbox, the list beside the state, or the handler's hands. What the handler leaves in the
//!   list, by a panic or by returning, is given back like a message of a stopped actor.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

use super::block::{Block, Core};
use super::envelope::give_back;
use super::letter::{Here, Letter, Undelivered};
use super::pass::Kind;
use crate::sync::panic::catch;
use crate::unwind::shrug_off;

/// A list that has grown beyond this is freed when it has been handled, so that one rush is not paid for ever.
const KEPT: usize = 1024;

/// The messages of one call, oldest first: an iterator that takes them out.
///
/// What is left in it when the handler returns, or panics, goes to the undelivered hook.
pub struct Bulk<'a, M> {
    items: &'a mut VecDeque<M>,
}

impl<M> Bulk<'_, M> {
    /// Those not taken yet, oldest first.
    pub fn as_slice(&self) -> &[M] {
        self.items.as_slices().0
    }
}

impl<M> Iterator for Bulk<'_, M> {
    type Item = M;

    #[inline]
    fn next(&mut self) -> Option<M> {
        self.items.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.items.len(), Some(self.items.len()))
    }
}

impl<M> ExactSizeIterator for Bulk<'_, M> {}

impl<M> fmt::Debug for Bulk<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("len", &self.items.len()).finish_non_exhaustive()
    }
}

/// How a state handles many messages: a type without values.
pub(crate) trait HandlesAll<S, M>: Send + 'static {
    fn handle_all(state: &mut S, messages: Bulk<'_, M>, here: Here<'_, S>);
}

/// A message to be handled with those beside it.
pub(crate) struct Item<M, H> {
    pub(crate) message: M,
    how: PhantomData<H>,
}

impl<M, H> Item<M, H> {
    #[inline]
    pub(crate) fn new(message: M) -> Self {
        Item { message, how: PhantomData }
    }
}

impl<S: 'static, M: Send + 'static, H: HandlesAll<S, M>> Letter<S> for Item<M, H> {
    type Answer = ();
    type Payload = M;
    const KIND: Kind = Some(TypeId::of::<M>);

    fn run(self, state: &mut S, here: Here<'_, S>) {
        let core = here.as_ptr();
        let mut alone = Some(self.message);
        // SAFETY: this is a turn of that mailbox, whose state is an S; nothing else borrows the hooks.
        unsafe {
            Block::<S>::with_hooks(core, |hooks| {
                if let Some(passes) = &mut hooks.passes {
                    List::<M, H>::of(&mut passes.gathered).items.extend(alone.take());
                }
            });
        }
        if let Some(message) = alone {
            let mut items = VecDeque::from([message]);
            // SAFETY: as above.
            unsafe { handle::<S, M, H>(core, state, &mut items) };
        }
    }

    fn payload(self) -> M {
        self.message
    }

    fn undelivered(self) -> Undelivered<S> {
        Undelivered::Message(Box::new(self.message) as Box<dyn Any + Send>)
    }
}

/// What is gathered, of one kind.
pub(crate) trait Gathered<S>: Any + Send {
    /// Handles all, if there are any and they are not of this kind. Their turn has come: a stop meanwhile changes nothing.
    ///
    /// # Safety
    /// The caller owns the mailbox of `core`, of this state type, and its state is there and not borrowed.
    unsafe fn handle_unless(&mut self, core: *const Core, kind: Option<TypeId>);
    fn as_any(&mut self) -> &mut dyn Any;
}

struct List<M, H> {
    items: VecDeque<M>,
    how: PhantomData<H>,
}

impl<M: Send + 'static, H: 'static> List<M, H> {
    /// The list, which is there, or takes the place of one of another kind: that one is empty.
    fn of<S: 'static>(slot: &mut Option<Box<dyn Gathered<S>>>) -> &mut Self
    where
        H: HandlesAll<S, M>,
    {
        if !slot.as_mut().is_some_and(|list| list.as_any().is::<Self>()) {
            *slot = Some(Box::new(List::<M, H> { items: VecDeque::new(), how: PhantomData }));
        }
        let list = slot.as_mut().and_then(|list| list.as_any().downcast_mut());
        list.expect("it is of this kind, or was just made")
    }
}

impl<S: 'static, M: Send + 'static, H: HandlesAll<S, M>> Gathered<S> for List<M, H> {
    unsafe fn handle_unless(&mut self, core: *const Core, kind: Option<TypeId>) {
        if self.items.is_empty() || kind == Some(TypeId::of::<M>()) {
            return;
        }
        // SAFETY: the caller's word.
        unsafe { Block::<S>::with_state(core, |state| handle::<S, M, H>(core, state, &mut self.items)) };
        if self.items.capacity() > KEPT {
            self.items = VecDeque::new();
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Has a handler take the items; gives back what it leaves.
///
/// # Safety
/// The caller owns the mailbox of `core`, whose state this is.
unsafe fn handle<S: 'static, M: Send + 'static, H: HandlesAll<S, M>>(core: *const Core, state: &mut S, items: &mut VecDeque<M>) {
    items.make_contiguous();
    // SAFETY: this is a turn of that mailbox, for as long as the call.
    let handled = catch(|| H::handle_all(state, Bulk { items }, unsafe { Here::new(core) }));
    // SAFETY: the owner keeps the block.
    unsafe { give_all_back::<S, M, H>(core, items) };
    if let Err(panic) = handled {
        std::panic::resume_unwind(panic);
    }
}

/// # Safety
/// The block is alive, and of this state type.
unsafe fn give_all_back<S: 'static, M: Send + 'static, H: HandlesAll<S, M>>(core: *const Core, items: &mut VecDeque<M>) {
    while let Some(message) = items.pop_front() {
        // SAFETY: the caller's word.
        shrug_off(|| unsafe { give_back::<S, _>(core, Item::<M, H>::new(message)) });
    }
}
