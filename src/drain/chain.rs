//! Messages of one call, on their way to the mailbox.

use std::marker::PhantomData;

use crate::mailbox::node::{Batch, Message, NodePtr};

/// Nodes linked for a push: `first` is the oldest, `top` the address of the newest.
#[derive(Clone, Copy)]
pub(crate) struct Links {
    pub(crate) first: NodePtr,
    pub(crate) top: u64,
    pub(crate) len: u64,
}

impl Links {
    #[inline]
    pub(crate) fn one(node: NodePtr) -> Self {
        Links { first: node, top: node.addr(), len: 1 }
    }

    /// The nodes, oldest first; the caller is their holder.
    pub(crate) fn nodes(self) -> impl Iterator<Item = NodePtr> {
        // A push that failed has linked the oldest to a head that is not ours.
        self.first.set_next(0);
        let mut batch = Batch::new();
        batch.append_newest_first(self.top);
        std::iter::from_fn(move || Some(batch.pop()?.into_node()))
    }
}

/// Messages of one call, not pushed yet.
pub(crate) struct Chain<M: Message> {
    links: Option<Links>,
    of: PhantomData<M>,
}

impl<M: Message> Chain<M> {
    pub(crate) fn new() -> Self {
        Chain { links: None, of: PhantomData }
    }

    pub(crate) fn append(&mut self, message: M) {
        let node = NodePtr::new(message);
        match &mut self.links {
            None => self.links = Some(Links::one(node)),
            Some(links) => {
                node.set_next(links.top);
                links.top = node.addr();
                links.len += 1;
            }
        }
    }

    /// The nodes, if there are any: for one push.
    pub(crate) fn links(&self) -> Option<Links> {
        self.links
    }

    /// They are the mailbox's now.
    pub(crate) fn forget(&mut self) {
        self.links = None;
    }

    /// The messages, oldest first; their nodes are freed.
    pub(crate) fn take_back(&mut self) -> impl Iterator<Item = M> {
        // SAFETY: all nodes of this chain were made of an M by this thread, and none is pushed.
        self.links.take().into_iter().flat_map(Links::nodes).map(|node| unsafe { node.take_back::<M>() })
    }
}

impl<M: Message> Drop for Chain<M> {
    fn drop(&mut self) {
        self.take_back().for_each(drop);
    }
}
