//! Messages of one call, on their way to the mailbox.

use std::marker::PhantomData;

use crate::mailbox::node::{Batch, Message, NodePtr};

/// Messages of one call, not pushed yet: newest first, as the mailbox wants them.
pub(crate) struct Chain<M: Message> {
    pub(crate) first: Option<NodePtr>,
    pub(crate) top: u64,
    pub(crate) len: u64,
    of: PhantomData<M>,
}

impl<M: Message> Chain<M> {
    pub(crate) fn new() -> Self {
        Chain { first: None, top: 0, len: 0, of: PhantomData }
    }

    pub(crate) fn append(&mut self, message: M) {
        let node = NodePtr::new(message);
        node.set_next(self.top);
        self.first.get_or_insert(node);
        self.top = node.addr();
        self.len += 1;
    }

    /// They are the mailbox's now.
    pub(crate) fn forget(&mut self) {
        self.top = 0;
    }

    /// The messages, oldest first; their nodes are freed.
    pub(crate) fn take_back(&mut self) -> impl Iterator<Item = M> {
        // A failed push has linked the oldest to a head that is not ours.
        if let Some(first) = self.first.take().filter(|_| self.top != 0) {
            first.set_next(0);
        }
        let mut batch = Batch::new();
        batch.append_newest_first(std::mem::take(&mut self.top));
        std::iter::from_fn(move || {
            let node = batch.pop()?.into_node();
            // SAFETY: all nodes of this chain were made of an M by this thread, and none is pushed.
            Some(unsafe { node.take_back::<M>() })
        })
    }
}

impl<M: Message> Drop for Chain<M> {
    fn drop(&mut self) {
        self.take_back().for_each(drop);
    }
}
