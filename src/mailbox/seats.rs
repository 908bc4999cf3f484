//! The queue of those that wait for room in a bounded mailbox, first come, first served.
//!
//! A seat holds a node with a message that is not pushed yet. The owner of the mailbox takes seats
//! from the front and pushes their nodes; whoever gives up takes its own seat out.
//!
//! - S1: a seat's node has one holder: the queue, until the owner or the waiting sender takes the
//!   seat out. Both take it under the lock.

use std::collections::VecDeque;

use crate::error::Reason;
use crate::mailbox::node::NodePtr;
use crate::sync::Mutex;

/// What the owner does with a seat without knowing its message's type.
pub(crate) struct SeatKind {
    /// Tells its sender that the message was pushed. The owner holds the node.
    pub(crate) admit: unsafe fn(*mut u8),
    /// Gives the message back with a reason. The caller holds the node.
    pub(crate) refuse: unsafe fn(*mut u8, Reason),
}

/// One that waits. The number is its own: a node's address may be another's by the time it is
/// looked for.
pub(crate) struct Seat {
    number: u64,
    pub(crate) node: NodePtr,
    pub(crate) kind: &'static SeatKind,
}

// SAFETY: S1: the node is the queue's, and what is in it is Send.
unsafe impl Send for Seat {}

#[derive(Default)]
pub(crate) struct Seats(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    last: u64,
    seats: VecDeque<Seat>,
}

impl Seats {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().seats.len()
    }

    /// Takes the last place in the queue, and says its number.
    pub(crate) fn add(&self, node: NodePtr, kind: &'static SeatKind) -> u64 {
        let mut queue = self.0.lock();
        queue.last += 1;
        let number = queue.last;
        queue.seats.push_back(Seat { number, node, kind });
        number
    }

    /// Is it the first in the queue?
    pub(crate) fn is_first(&self, number: u64) -> bool {
        self.0.lock().seats.front().is_some_and(|seat| seat.number == number)
    }

    /// Takes a seat out again, if it is still there.
    pub(crate) fn remove(&self, number: u64) -> Option<NodePtr> {
        let seats = &mut self.0.lock().seats;
        let at = seats.iter().position(|seat| seat.number == number)?;
        seats.remove(at).map(|seat| seat.node)
    }

    /// Takes seats from the front, as long as `accepts` says so of their nodes. The queue is locked
    /// meanwhile: nobody finds itself first who is not.
    pub(crate) fn take_while(&self, mut accepts: impl FnMut(NodePtr) -> bool) -> VecDeque<Seat> {
        let seats = &mut self.0.lock().seats;
        let taken = seats.iter().take_while(|seat| accepts(seat.node)).count();
        let rest = seats.split_off(taken);
        std::mem::replace(seats, rest)
    }
}
