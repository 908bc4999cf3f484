//! With actix: an actor is a task of its thread, and a panic is caught by its handler or not at
//! all.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use actix::dev::SendError;
use actix::prelude::*;

use crate::hall::{Hall, Payment, Problem, Report, Ticket};
use crate::service::{Event, Failure, Opening, Sent, Service};

struct Desk {
    hall: Hall,
    opening: Opening,
}

#[derive(Message)]
#[rtype(result = "Result<Ticket, Problem>")]
struct Reserve(u32);

#[derive(Message)]
#[rtype(result = "()")]
struct Release(Ticket);

#[derive(Message)]
#[rtype(result = "Result<(), Problem>")]
struct Confirm(Ticket, Payment);

#[derive(Message)]
#[rtype(result = "Result<u32, Problem>")]
struct Refund(Ticket);

#[derive(Message)]
#[rtype(result = "Report")]
struct Look;

#[derive(Message)]
#[rtype(result = "()")]
struct Close;

impl Actor for Desk {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(self.opening.room);
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.opening.log.say(Event::Ended(self.hall.report()));
    }
}

impl Handler<Reserve> for Desk {
    type Result = Result<Ticket, Problem>;

    fn handle(&mut self, Reserve(seats): Reserve, _: &mut Context<Self>) -> Self::Result {
        self.hall.reserve(seats)
    }
}

impl Handler<Release> for Desk {
    type Result = ();

    fn handle(&mut self, Release(ticket): Release, _: &mut Context<Self>) {
        self.hall.release(ticket);
    }
}

impl Handler<Confirm> for Desk {
    type Result = AtomicResponse<Self, Result<(), Problem>>;

    fn handle(&mut self, message: Confirm, _: &mut Context<Self>) -> Self::Result {
        let Confirm(ticket, payment) = message;
        let asked = payment.approved().into_actor(self);
        AtomicResponse::new(Box::pin(
            asked.map(move |approved, desk, _| desk.hall.settle(ticket, approved)),
        ))
    }
}

impl Handler<Refund> for Desk {
    type Result = Result<u32, Problem>;

    fn handle(&mut self, Refund(ticket): Refund, _: &mut Context<Self>) -> Self::Result {
        if !self.opening.restarts {
            return Ok(self.hall.refund(ticket));
        }
        // A supervisor restarts an actor that has stopped, not one that has panicked.
        let refunded = catch_unwind(AssertUnwindSafe(|| self.hall.refund(ticket)));
        refunded.map_err(|_| {
            self.hall = Hall::new(self.opening.seats);
            self.opening.log.say(Event::Reopened);
            Problem::Failed
        })
    }
}

impl Handler<Look> for Desk {
    type Result = MessageResult<Look>;

    fn handle(&mut self, _: Look, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.hall.report())
    }
}

impl Handler<Close> for Desk {
    type Result = ();

    fn handle(&mut self, _: Close, context: &mut Context<Self>) {
        context.stop();
    }
}

pub struct Actix(Addr<Desk>);

fn failure(error: MailboxError) -> Failure {
    match error {
        MailboxError::Closed => Failure::new(Problem::Closed, "Closed"),
        MailboxError::Timeout => Failure::new(Problem::TimedOut, "Timeout"),
    }
}

impl Service for Actix {
    const LIBRARY: &'static str = "actix";

    fn block_on<R>(work: impl Future<Output = R>) -> R {
        System::new().block_on(work)
    }

    async fn open(opening: Opening) -> Self {
        Actix(Desk { hall: Hall::new(opening.seats), opening }.start())
    }

    async fn reserve(&self, seats: u32) -> Result<Ticket, Failure> {
        Ok(self.0.send(Reserve(seats)).await.map_err(failure)??)
    }

    fn reserve_unawaited(&self, seats: u32) {
        drop(self.0.send(Reserve(seats)));
    }

    async fn reserve_within(&self, seats: u32, limit: Duration) -> Result<Ticket, Failure> {
        Ok(self.0.send(Reserve(seats)).timeout(limit).await.map_err(failure)??)
    }

    fn release(&self, ticket: Ticket) -> Sent {
        match self.0.try_send(Release(ticket)) {
            Ok(()) => Sent::Taken,
            Err(SendError::Full(_)) => Sent::Refused { said: "Full".into(), back: true },
            Err(SendError::Closed(_)) => Sent::Refused { said: "Closed".into(), back: true },
        }
    }

    async fn confirm(&self, ticket: Ticket, payment: Payment) -> Result<(), Failure> {
        Ok(self.0.send(Confirm(ticket, payment)).await.map_err(failure)??)
    }

    async fn refund(&self, ticket: Ticket) -> Result<u32, Failure> {
        Ok(self.0.send(Refund(ticket)).await.map_err(failure)??)
    }

    async fn report(&self) -> Result<Report, Failure> {
        self.0.send(Look).await.map_err(failure)
    }

    async fn close(&self) {
        self.0.do_send(Close);
    }

    async fn stop(&self) {
        // The message is queued behind the waiting ones.
        self.0.do_send(Close);
    }

    async fn ended(&self) {
        // A caller on this thread that has seen `stopped` sees a closed mailbox.
    }
}
