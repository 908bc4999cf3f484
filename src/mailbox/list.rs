//! Lists of nodes that one thread holds: what an owner has taken ([`Batch`]), and what a sender is
//! about to push ([`Chain`]).

use std::marker::PhantomData;

use crate::mailbox::node::{Envelope, NodePtr, Taken};
use crate::sync::hint::prefetch;

/// A private list, oldest first.
pub(crate) struct Batch {
    head: u64,
    tail: u64,
}

impl Batch {
    pub(crate) const fn new() -> Self {
        Batch { head: 0, tail: 0 }
    }

    /// The list of nodes whose newest is at `newest`.
    pub(crate) fn of(newest: u64) -> Self {
        let mut batch = Batch::new();
        batch.append_newest_first(newest);
        batch
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == 0
    }

    /// Does it hold more than one?
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.head != self.tail
    }

    /// Appends a list that is newest first, as it was in HEAD; 0 is an empty one. The caller is the
    /// holder of all its nodes.
    pub(crate) fn append_newest_first(&mut self, newest: u64) {
        if newest == 0 {
            return;
        }
        let mut oldest_first = 0;
        let mut at = newest;
        while at != 0 {
            let node = NodePtr::at(at);
            let (older, _) = node.link();
            node.set_next(oldest_first);
            oldest_first = at;
            at = older;
        }
        if self.tail == 0 {
            self.head = oldest_first;
        } else {
            NodePtr::at(self.tail).set_next(oldest_first);
        }
        self.tail = newest;
    }

    /// Puts a node before all others; the caller is its holder.
    pub(crate) fn prepend(&mut self, node: NodePtr) {
        node.set_next(self.head);
        self.head = node.addr();
        if self.tail == 0 {
            self.tail = self.head;
        }
    }

    /// The oldest, which stays.
    pub(crate) fn first(&self) -> Option<Taken> {
        (self.head != 0).then(|| NodePtr::at(self.head).alone())
    }

    /// Takes the oldest, and has the next one fetched into the cache.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Taken> {
        if self.head == 0 {
            return None;
        }
        let node = NodePtr::at(self.head);
        let (next, home) = node.link();
        self.head = next;
        if next == 0 {
            self.tail = 0;
        } else {
            prefetch(std::ptr::without_provenance(next as usize));
        }
        Some(Taken { node, home, vtable: node.vtable() })
    }

    /// The list as one address, for the time in which nobody owns it: its tail, linked to its head.
    pub(crate) fn into_saved(self) -> u64 {
        if self.tail != 0 {
            NodePtr::at(self.tail).set_next(self.head);
        }
        self.tail
    }

    /// The list that [`into_saved`](Self::into_saved) made; the caller is the holder of its nodes.
    pub(crate) fn from_saved(tail: u64) -> Self {
        if tail == 0 {
            return Batch::new();
        }
        let node = NodePtr::at(tail);
        let (head, _) = node.link();
        node.set_next(0);
        Batch { head, tail }
    }
}

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
        let mut batch = Batch::of(self.top);
        std::iter::from_fn(move || Some(batch.pop()?.into_node()))
    }
}

/// Messages of one call, not pushed yet.
pub(crate) struct Chain<M: Envelope> {
    links: Option<Links>,
    of: PhantomData<M>,
}

impl<M: Envelope> Chain<M> {
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

    /// The nodes, if there are any: for one push. They are the caller's from now on.
    pub(crate) fn into_links(mut self) -> Option<Links> {
        self.links.take()
    }

    /// The chain again.
    ///
    /// # Safety
    /// The links came from [`into_links`](Self::into_links) of such a chain, and are pushed
    /// nowhere.
    pub(crate) unsafe fn from_links(links: Links) -> Self {
        Chain { links: Some(links), of: PhantomData }
    }

    /// The messages, oldest first; their nodes are freed.
    pub(crate) fn take_back(&mut self) -> impl Iterator<Item = M> {
        // SAFETY: all nodes of this chain were made of an M by this thread, and none is pushed.
        self.links
            .take()
            .into_iter()
            .flat_map(Links::nodes)
            .map(|node| unsafe { node.take_back::<M>() })
    }
}

impl<M: Envelope> Drop for Chain<M> {
    fn drop(&mut self) {
        self.take_back().for_each(drop);
    }
}
