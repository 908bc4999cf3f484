//! The seats of a hall: the state that an actor guards, the same in all five versions. This module
//! has no actor.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

/// The number of a reservation.
pub type Ticket = u32;

/// The panic message of [`Hall::refund`].
pub const BUG: &str = "this ticket was not paid for";

/// The reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not enough seats are free.
    SoldOut,
    /// The bank refuses the payment.
    Declined,
    /// The mailbox is full.
    Busy,
    /// The caller's time limit has passed.
    TimedOut,
    /// The turn was cancelled or has panicked.
    Failed,
    /// The hall is closed.
    Closed,
}

/// The numbers of free, reserved and paid seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub free: u32,
    pub held: u32,
    pub paid: u32,
}

pub struct Hall {
    free: u32,
    held: BTreeMap<Ticket, u32>,
    paid: BTreeMap<Ticket, u32>,
    last: Ticket,
}

impl Hall {
    pub fn new(seats: u32) -> Self {
        Hall { free: seats, held: BTreeMap::new(), paid: BTreeMap::new(), last: 0 }
    }

    pub fn reserve(&mut self, seats: u32) -> Result<Ticket, Problem> {
        self.free = self.free.checked_sub(seats).ok_or(Problem::SoldOut)?;
        self.last += 1;
        self.held.insert(self.last, seats);
        Ok(self.last)
    }

    /// Gives up a reservation.
    pub fn release(&mut self, ticket: Ticket) {
        self.free += self.held.remove(&ticket).unwrap_or(0);
    }

    /// Applies the bank's answer to a reservation.
    pub fn settle(&mut self, ticket: Ticket, approved: bool) -> Result<(), Problem> {
        if !approved {
            self.release(ticket);
            return Err(Problem::Declined);
        }
        let seats = self.held.remove(&ticket).unwrap_or(0);
        self.paid.insert(ticket, seats);
        Ok(())
    }

    /// Returns the number of seats that are given back.
    ///
    /// # Panics
    /// If the ticket was not paid for: a bug of the caller, which no version handles.
    pub fn refund(&mut self, ticket: Ticket) -> u32 {
        let seats = self.paid.remove(&ticket).expect(BUG);
        self.free += seats;
        seats
    }

    pub fn report(&self) -> Report {
        let (held, paid) = (self.held.values().sum(), self.paid.values().sum());
        Report { free: self.free, held, paid }
    }
}

/// The bank's answer, which a turn awaits.
pub struct Payment {
    asked: oneshot::Sender<()>,
    answer: oneshot::Receiver<bool>,
}

impl Payment {
    pub async fn approved(self) -> bool {
        let _ = self.asked.send(());
        self.answer.await.unwrap_or(false)
    }
}

/// The other end of a payment.
pub struct Bank {
    asked: oneshot::Receiver<()>,
    answer: oneshot::Sender<bool>,
}

impl Bank {
    pub fn new() -> (Bank, Payment) {
        let ((ask, asked), (answer, answered)) = (oneshot::channel(), oneshot::channel());
        (Bank { asked, answer }, Payment { asked: ask, answer: answered })
    }

    /// Waits until the turn awaits the payment.
    pub async fn is_asked(&mut self) {
        (&mut self.asked).await.expect("a turn that asks the bank");
    }

    /// Returns true if the payment was dropped.
    pub fn is_alone(&self) -> bool {
        self.answer.is_closed()
    }

    /// Answers. The turn may be gone by now.
    pub fn answer(self, approved: bool) {
        let _ = self.answer.send(approved);
    }
}
