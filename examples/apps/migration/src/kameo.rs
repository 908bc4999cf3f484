//! With kameo: an actor is a task of tokio.

use std::ops::ControlFlow;
use std::time::Duration;

use kameo::error::Infallible;
use kameo::prelude::*;

use crate::hall::{Hall, Payment, Problem, Report, Ticket};
use crate::service::{Event, Failure, Opening, Sent, Service};

struct Desk {
    hall: Hall,
    opening: Opening,
}

struct Reserve(u32);
struct Release(Ticket);
struct Confirm(Ticket, Payment);
struct Refund(Ticket);
struct Look;

impl Actor for Desk {
    type Args = Opening;
    type Error = Infallible;

    async fn on_start(opening: Opening, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(Desk { hall: Hall::new(opening.seats), opening })
    }

    async fn on_panic(
        &mut self,
        _: WeakActorRef<Self>,
        error: PanicError,
    ) -> Result<ControlFlow<ActorStopReason>, Infallible> {
        if !self.opening.restarts {
            return Ok(ControlFlow::Break(ActorStopReason::Panicked(error)));
        }
        self.hall = Hall::new(self.opening.seats);
        self.opening.log.say(Event::Reopened);
        Ok(ControlFlow::Continue(()))
    }

    async fn on_undelivered(
        &mut self,
        _: ActorStopReason,
        undelivered: Vec<BoxMessage<Self>>,
    ) -> Result<(), Infallible> {
        for message in undelivered {
            if let Ok(release) = message.as_any().downcast::<Release>() {
                self.opening.log.say(Event::Lost(release.0));
            }
        }
        Ok(())
    }

    async fn on_stop(
        &mut self,
        _: WeakActorRef<Self>,
        _: ActorStopReason,
    ) -> Result<(), Infallible> {
        self.opening.log.say(Event::Ended(self.hall.report()));
        Ok(())
    }
}

impl Message<Reserve> for Desk {
    type Reply = Result<Ticket, Problem>;

    async fn handle(
        &mut self,
        Reserve(seats): Reserve,
        _: &mut Context<Self, Self::Reply>,
    ) -> Self::Reply {
        self.hall.reserve(seats)
    }
}

impl Message<Release> for Desk {
    type Reply = ();

    async fn handle(&mut self, Release(ticket): Release, _: &mut Context<Self, ()>) {
        self.hall.release(ticket);
    }
}

impl Message<Confirm> for Desk {
    type Reply = Result<(), Problem>;

    async fn handle(
        &mut self,
        Confirm(ticket, payment): Confirm,
        _: &mut Context<Self, Self::Reply>,
    ) -> Self::Reply {
        let approved = payment.approved().await;
        self.hall.settle(ticket, approved)
    }
}

impl Message<Refund> for Desk {
    type Reply = u32;

    async fn handle(&mut self, Refund(ticket): Refund, _: &mut Context<Self, u32>) -> u32 {
        self.hall.refund(ticket)
    }
}

impl Message<Look> for Desk {
    type Reply = Result<Report, Infallible>;

    async fn handle(&mut self, _: Look, _: &mut Context<Self, Self::Reply>) -> Self::Reply {
        Ok(self.hall.report())
    }
}

pub struct Kameo(ActorRef<Desk>);

fn failure<M>(error: SendError<M, Problem>) -> Failure {
    let (problem, said) = match error {
        SendError::HandlerError(problem) => return problem.into(),
        SendError::MailboxFull(_) => (Problem::Busy, "MailboxFull"),
        SendError::Timeout(_) => (Problem::TimedOut, "Timeout"),
        SendError::ActorNotRunning(_) => (Problem::Closed, "ActorNotRunning"),
        SendError::ActorRestarting(_) => (Problem::Failed, "ActorRestarting"),
        SendError::ActorStopped => (Problem::Failed, "ActorStopped"),
    };
    Failure::new(problem, said)
}

/// The outcome of an answer that cannot be an error.
fn lost<M>(error: SendError<M>) -> Failure {
    failure(error.map_err(|never| match never {}))
}

impl Service for Kameo {
    const LIBRARY: &'static str = "kameo";

    async fn open(opening: Opening) -> Self {
        let name = opening.name.clone();
        let room = mailbox::bounded(opening.room);
        let actor = Desk::spawn_with_mailbox(opening, room);
        actor.register(name).expect("a name that is free");
        Kameo(actor)
    }

    fn find(name: &str) -> Option<Self> {
        ActorRef::lookup(name).ok()?.map(Kameo)
    }

    async fn reserve(&self, seats: u32) -> Result<Ticket, Failure> {
        self.0.ask(Reserve(seats)).await.map_err(failure)
    }

    fn reserve_unawaited(&self, seats: u32) {
        drop(self.0.ask(Reserve(seats)));
    }

    async fn reserve_within(&self, seats: u32, limit: Duration) -> Result<Ticket, Failure> {
        self.0.ask(Reserve(seats)).reply_timeout(limit).await.map_err(failure)
    }

    fn release(&self, ticket: Ticket) -> Sent {
        match self.0.tell(Release(ticket)).try_send() {
            Ok(()) => Sent::Taken,
            Err(error) => {
                let back =
                    matches!(error, SendError::MailboxFull(_) | SendError::ActorNotRunning(_));
                Sent::Refused { said: lost(error).said, back }
            }
        }
    }

    async fn confirm(&self, ticket: Ticket, payment: Payment) -> Result<(), Failure> {
        self.0.ask(Confirm(ticket, payment)).await.map_err(failure)
    }

    async fn refund(&self, ticket: Ticket) -> Result<u32, Failure> {
        self.0.ask(Refund(ticket)).await.map_err(lost)
    }

    async fn report(&self) -> Result<Report, Failure> {
        self.0.ask(Look).await.map_err(lost)
    }

    async fn close(&self) {
        self.0.stop_gracefully().await.expect("an actor that runs");
    }

    async fn stop(&self) {
        self.0.kill();
    }

    async fn ended(&self) {
        self.0.wait_for_shutdown().await;
    }
}
