//! Lists of nodes that one thread holds: what an owner has taken ([`Batch`]), and what a sender is
//! about to push ([`Chain`]).
//!
//! - LIST-1: a list is the holder of its nodes (NODE-1), which it has by their addresses.

use std::marker::PhantomData;

use crate::mailbox::node::{Envelope, NodePtr, Taken};
use crate::mailbox::word::Head;
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

    /// The node at an address of this list.
    #[inline]
    fn node(&self, addr: u64) -> NodePtr {
        // SAFETY: LIST-1: the list is its holder, and borrowed.
        unsafe { NodePtr::at(addr) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == 0
    }

    /// True if it holds more than one.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.head != self.tail
    }

    /// Appends what was in HEAD.
    pub(crate) fn append_newest_first(&mut self, Head(newest): Head) {
        if newest == 0 {
            return;
        }
        let mut oldest_first = 0;
        let mut at = newest;
        while at != 0 {
            let node = self.node(at);
            let (older, _) = node.link();
            node.set_next(oldest_first);
            oldest_first = at;
            at = older;
        }
        if self.tail == 0 {
            self.head = oldest_first;
        } else {
            self.node(self.tail).set_next(oldest_first);
        }
        self.tail = newest;
    }

    /// Puts a node before all others.
    pub(crate) fn prepend(&mut self, node: NodePtr) {
        node.set_next(self.head);
        self.head = node.addr();
        if self.tail == 0 {
            self.tail = self.head;
        }
    }

    /// The oldest, which stays.
    pub(crate) fn first(&self) -> Option<Taken> {
        (self.head != 0).then(|| self.node(self.head).alone().0)
    }

    /// Takes the oldest, and has the next one fetched into the cache.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Taken> {
        if self.head == 0 {
            return None;
        }
        let (taken, next) = self.node(self.head).alone();
        self.head = next;
        if next == 0 {
            self.tail = 0;
        } else {
            prefetch(std::ptr::without_provenance(next as usize));
        }
        Some(taken)
    }

    /// The list as one address, for the time in which it has no owner: its tail, linked to its
    /// head.
    pub(crate) fn into_saved(self) -> u64 {
        if self.tail != 0 {
            self.node(self.tail).set_next(self.head);
        }
        self.tail
    }

    /// The list that [`into_saved`](Self::into_saved) made.
    ///
    /// # Safety
    /// It was made so, and comes back once.
    pub(crate) unsafe fn from_saved(tail: u64) -> Self {
        let mut batch = Batch { head: 0, tail };
        if tail != 0 {
            let node = batch.node(tail);
            (batch.head, _) = node.link();
            node.set_next(0);
        }
        batch
    }
}

/// Nodes linked for a push, which takes them if it succeeds: `first` is the oldest, `top` the
/// address of the newest.
#[must_use = "nodes that are forgotten are leaked, with their messages"]
pub(crate) struct Links {
    first: NodePtr,
    top: u64,
    len: u64,
}

impl Links {
    #[inline]
    pub(crate) fn one(node: NodePtr) -> Self {
        Links { top: node.addr(), first: node, len: 1 }
    }

    /// The address of the newest.
    #[inline]
    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Links the oldest to what is in HEAD.
    #[inline]
    pub(crate) fn link_to(&self, head: u64) {
        self.first.set_next(head);
    }

    /// The only node.
    pub(super) fn into_one(self) -> NodePtr {
        debug_assert_eq!(self.len, 1);
        self.first
    }

    /// The nodes, oldest first.
    fn into_batch(self) -> Batch {
        // A push that failed has linked the oldest to a head that is not ours.
        self.first.set_next(0);
        let mut batch = Batch::new();
        batch.append_newest_first(Head(self.top));
        batch
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

    /// Has `push` push the nodes, if there are any. Those that come back are these, and the
    /// messages with them.
    pub(crate) fn push<T, E>(
        mut self,
        push: impl FnOnce(Links) -> Result<T, (Links, E)>,
    ) -> Option<Result<T, (Self, E)>> {
        let links = self.links.take()?;
        let top = links.top;
        Some(push(links).map_err(|(links, error)| {
            assert!(links.top == top, "other nodes");
            self.links = Some(links);
            (self, error)
        }))
    }

    /// The messages, oldest first; their nodes are freed.
    pub(crate) fn take_back(&mut self) -> impl Iterator<Item = M> + use<M> {
        let links = self.links.take();
        let mut batch = links.map_or(Batch::new(), Links::into_batch);
        std::iter::from_fn(move || {
            let head = batch.head;
            batch.pop()?;
            // SAFETY: LIST-1: it was the list's, and was made of an M by this thread.
            Some(unsafe { NodePtr::at(head).take_back::<M>() })
        })
    }
}

impl<M: Envelope> Drop for Chain<M> {
    fn drop(&mut self) {
        self.take_back().for_each(drop);
    }
}
