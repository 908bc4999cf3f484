//! With xtra: a mailbox and a task that runs an actor on it; later, another actor may run on it.

use std::time::Duration;

use tokio::time::timeout;
use xtra::prelude::*;

use crate::hall::{Hall, Payment, Problem, Report, Ticket};
use crate::service::{Event, Failure, Opening, Sent, Service, poll_once};

struct Desk {
    hall: Hall,
    opening: Opening,
}

struct Reserve(u32);
struct Release(Ticket);
struct Confirm(Ticket, Payment);
struct Refund(Ticket);
struct Look;
#[derive(Clone)]
struct Close;

impl Actor for Desk {
    type Stop = ();

    async fn stopped(self) {
        self.opening.log.say(Event::Ended(self.hall.report()));
    }
}

impl Handler<Reserve> for Desk {
    type Return = Result<Ticket, Problem>;

    async fn handle(&mut self, Reserve(seats): Reserve, _: &mut Context<Self>) -> Self::Return {
        self.hall.reserve(seats)
    }
}

impl Handler<Release> for Desk {
    type Return = ();

    async fn handle(&mut self, Release(ticket): Release, _: &mut Context<Self>) {
        self.hall.release(ticket);
    }
}

impl Handler<Confirm> for Desk {
    type Return = Result<(), Problem>;

    async fn handle(&mut self, message: Confirm, _: &mut Context<Self>) -> Self::Return {
        let Confirm(ticket, payment) = message;
        let approved = payment.approved().await;
        self.hall.settle(ticket, approved)
    }
}

impl Handler<Refund> for Desk {
    type Return = u32;

    async fn handle(&mut self, Refund(ticket): Refund, _: &mut Context<Self>) -> u32 {
        self.hall.refund(ticket)
    }
}

impl Handler<Look> for Desk {
    type Return = Report;

    async fn handle(&mut self, _: Look, _: &mut Context<Self>) -> Report {
        self.hall.report()
    }
}

impl Handler<Close> for Desk {
    type Return = ();

    async fn handle(&mut self, _: Close, context: &mut Context<Self>) {
        context.stop_self();
    }
}

pub struct Xtra(Address<Desk>);

fn failure(error: xtra::Error) -> Failure {
    let problem = match error {
        xtra::Error::Disconnected => Problem::Closed,
        xtra::Error::Interrupted => Problem::Failed,
    };
    Failure::new(problem, format!("{error:?}"))
}

impl Service for Xtra {
    const LIBRARY: &'static str = "xtra";

    async fn open(opening: Opening) -> Self {
        let (address, mailbox) = Mailbox::bounded(opening.room);
        let desk =
            |opening: &Opening| Desk { hall: Hall::new(opening.seats), opening: opening.clone() };
        if !opening.restarts {
            return Xtra(xtra::spawn_tokio(desk(&opening), (address, mailbox)));
        }
        // A panic ends the task that runs the actor. The mailbox is here, and gets a new one.
        tokio::spawn(async move {
            while tokio::spawn(xtra::run(mailbox.clone(), desk(&opening))).await.is_err() {
                opening.log.say(Event::Reopened);
            }
        });
        Xtra(address)
    }

    async fn reserve(&self, seats: u32) -> Result<Ticket, Failure> {
        Ok(self.0.send(Reserve(seats)).await.map_err(failure)??)
    }

    fn reserve_unawaited(&self, seats: u32) {
        drop(self.0.send(Reserve(seats)));
    }

    async fn reserve_within(&self, seats: u32, limit: Duration) -> Result<Ticket, Failure> {
        match timeout(limit, self.0.send(Reserve(seats))).await {
            Ok(answer) => Ok(answer.map_err(failure)??),
            Err(_) => Err(Failure::new(Problem::TimedOut, "Elapsed")),
        }
    }

    fn release(&self, ticket: Ticket) -> Sent {
        match poll_once(self.0.send(Release(ticket)).detach()) {
            Some(Ok(_)) => Sent::Taken,
            Some(Err(error)) => Sent::Refused { said: format!("{error:?}"), back: false },
            None => Sent::Waits,
        }
    }

    async fn confirm(&self, ticket: Ticket, payment: Payment) -> Result<(), Failure> {
        Ok(self.0.send(Confirm(ticket, payment)).await.map_err(failure)??)
    }

    async fn refund(&self, ticket: Ticket) -> Result<u32, Failure> {
        self.0.send(Refund(ticket)).await.map_err(failure)
    }

    async fn report(&self) -> Result<Report, Failure> {
        self.0.send(Look).await.map_err(failure)
    }

    async fn close(&self) {
        let _ = self.0.send(Close).detach().await;
    }

    async fn stop(&self) {
        // It overtakes waiting messages, and the limit of other messages does not apply.
        let _ = self.0.broadcast(Close).priority(1).await;
    }

    async fn ended(&self) {
        self.0.join().await;
    }
}
