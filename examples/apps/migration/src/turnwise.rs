//! With turnwise: the state is the actor.

use std::time::Duration;

use turnwise::{
    Actor, AskError, AsyncContext, AsyncHandler, Context, Handler, Overflow, PanicPolicy, Reason,
    StopCause, Undelivered, WaitError,
};

use crate::hall::{Hall, Payment, Problem, Report, Ticket};
use crate::service::{Event, Failure, Opening, Sent, Service};

struct Reserve(u32);
struct Release(Ticket);
struct Confirm(Ticket, Payment);
struct Refund(Ticket);
struct Look;

impl Handler<Reserve> for Hall {
    type Reply = Result<Ticket, Problem>;

    fn handle(&mut self, Reserve(seats): Reserve, _: &mut Context<'_, Self>) -> Self::Reply {
        self.reserve(seats)
    }
}

impl Handler<Release> for Hall {
    type Reply = ();

    fn handle(&mut self, Release(ticket): Release, _: &mut Context<'_, Self>) {
        self.release(ticket);
    }
}

impl AsyncHandler<Confirm> for Hall {
    type Reply = Result<(), Problem>;

    async fn handle(&mut self, message: Confirm, _: &mut AsyncContext<Self>) -> Self::Reply {
        let Confirm(ticket, payment) = message;
        let approved = payment.approved().await;
        self.settle(ticket, approved)
    }
}

impl Handler<Refund> for Hall {
    type Reply = u32;

    fn handle(&mut self, Refund(ticket): Refund, _: &mut Context<'_, Self>) -> u32 {
        self.refund(ticket)
    }
}

impl Handler<Look> for Hall {
    type Reply = Report;

    fn handle(&mut self, _: Look, _: &mut Context<'_, Self>) -> Report {
        self.report()
    }
}

pub struct Turnwise(Actor<Hall>);

fn failure(error: AskError) -> Failure {
    let problem = match &error {
        AskError::Refused(Reason::Full, _) => Problem::Busy,
        AskError::Refused(Reason::Closed | Reason::Stopped(_), _) => Problem::Closed,
        _ => Problem::Failed,
    };
    let said = match error {
        AskError::Panicked(panic) => format!("Panicked({:?})", panic.text()),
        AskError::Refused(Reason::Stopped(StopCause::Panicked(panic)), _) => {
            format!("Refused(Stopped(Panicked({:?})))", panic.text())
        }
        AskError::Refused(reason, _) => format!("Refused({reason:?})"),
        AskError::Aborted(_) => String::from("Aborted"),
        other => format!("{other:?}"),
    };
    Failure::new(problem, said)
}

impl Service for Turnwise {
    const LIBRARY: &'static str = "turnwise";

    async fn open(Opening { name, seats, room, restarts, log }: Opening) -> Self {
        let (reopened, lost) = (log.clone(), log.clone());
        let policy = match restarts {
            true => PanicPolicy::restart(move || {
                reopened.say(Event::Reopened);
                Hall::new(seats)
            }),
            false => PanicPolicy::Stop,
        };
        let actor = Actor::builder()
            .name(name)
            .capacity(room, Overflow::Reject)
            .panic_policy(policy)
            .on_undelivered(move |message| {
                let Undelivered::Message(message) = message else { return };
                if let Ok(release) = message.downcast::<Release>() {
                    lost.say(Event::Lost(release.0));
                }
            })
            .on_end(move |hall, _| log.say(Event::Ended(hall.report())));
        Turnwise(actor.spawn(Hall::new(seats)).expect("a capacity that there is"))
    }

    async fn reserve(&self, seats: u32) -> Result<Ticket, Failure> {
        Ok(self.0.ask(Reserve(seats)).await.map_err(failure)??)
    }

    fn reserve_unawaited(&self, seats: u32) {
        drop(self.0.ask(Reserve(seats)));
    }

    async fn reserve_within(&self, seats: u32, limit: Duration) -> Result<Ticket, Failure> {
        match self.0.ask(Reserve(seats)).within_async(limit).await {
            Ok(answer) => Ok(answer?),
            Err(WaitError::Cancelled(_)) => Err(Failure::new(Problem::TimedOut, "Cancelled")),
            Err(WaitError::Ask(error)) => Err(failure(error)),
            Err(_) => Err(Failure::new(Problem::TimedOut, "TimedOut")),
        }
    }

    fn release(&self, ticket: Ticket) -> Sent {
        match self.0.tell(Release(ticket)) {
            Ok(()) => Sent::Taken,
            Err(error) => Sent::Refused { said: format!("{:?}", error.reason()), back: true },
        }
    }

    async fn confirm(&self, ticket: Ticket, payment: Payment) -> Result<(), Failure> {
        Ok(self.0.ask_async(Confirm(ticket, payment)).await.map_err(failure)??)
    }

    async fn refund(&self, ticket: Ticket) -> Result<u32, Failure> {
        self.0.ask(Refund(ticket)).await.map_err(failure)
    }

    async fn report(&self) -> Result<Report, Failure> {
        self.0.ask(Look).await.map_err(failure)
    }

    async fn close(&self) {
        self.0.close();
    }

    async fn stop(&self) {
        self.0.stop();
    }

    async fn ended(&self) {
        self.0.ended().await.expect("a wait outside of turns");
    }
}
