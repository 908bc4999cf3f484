//! The seats of a hall: the state that an actor guards, the same in all five versions. No actor is
//! in here.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

/// The number of a reservation.
pub type Ticket = u32;

/// What [`Hall::refund`] panics with.
pub const BUG: &str = "this ticket was not paid for";

/// Why there is no good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not enough seats are free.
    SoldOut,
    /// The bank does not pay.
    Declined,
    /// The mailbox is full.
    Busy,
    /// The caller's time is over.
    TimedOut,
    /// The turn was cut short.
    Failed,
    /// The hall is closed.
    Closed,
}

/// Seats that are free, reserved, paid for.
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

    /// Gives a reservation up.
    pub fn release(&mut self, ticket: Ticket) {
        self.free += self.held.remove(&ticket).unwrap_or(0);
    }

    /// What the bank has said to a reservation.
    pub fn settle(&mut self, ticket: Ticket, approved: bool) -> Result<(), Problem> {
        if !approved {
            self.release(ticket);
            return Err(Problem::Declined);
        }
        let seats = self.held.remove(&ticket).unwrap_or(0);
        self.paid.insert(ticket, seats);
        Ok(())
    }

    /// So many seats are given back.
    ///
    /// # Panics
    /// If nobody has paid: a bug of the caller's, for which no version has an answer.
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

/// What a turn awaits: the bank's word.
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

    /// Waits until the turn does.
    pub async fn is_asked(&mut self) {
        (&mut self.asked).await.expect("a turn that asks the bank");
    }

    /// Has the payment been dropped?
    pub fn is_alone(&self) -> bool {
        self.answer.is_closed()
    }

    /// The turn may be gone by now.
    pub fn answer(self, approved: bool) {
        let _ = self.answer.send(approved);
    }
}
