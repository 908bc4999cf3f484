//! With ractor: one type for all messages, answers by ports, a supervisor that starts a new actor.

use std::time::Duration;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr, RpcReplyPort, SupervisionEvent};

use crate::hall::{Hall, Payment, Problem, Report, Ticket};
use crate::service::{Event, Failure, Opening, Sent, Service};

enum Message {
    Reserve(u32, RpcReplyPort<Result<Ticket, Problem>>),
    Release(Ticket),
    Confirm(Ticket, Payment, RpcReplyPort<Result<(), Problem>>),
    Refund(Ticket, RpcReplyPort<u32>),
    Look(RpcReplyPort<Report>),
}

struct Desk;

struct State {
    hall: Hall,
    opening: Opening,
}

impl Actor for Desk {
    type Msg = Message;
    type State = State;
    type Arguments = Opening;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        opening: Opening,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State { hall: Hall::new(opening.seats), opening })
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        State { hall, .. }: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // It is no error if the caller no longer waits for the answer.
        match message {
            Message::Reserve(seats, port) => {
                let _ = port.send(hall.reserve(seats));
            }
            Message::Release(ticket) => hall.release(ticket),
            Message::Confirm(ticket, payment, port) => {
                let approved = payment.approved().await;
                let _ = port.send(hall.settle(ticket, approved));
            }
            Message::Refund(ticket, port) => {
                let _ = port.send(hall.refund(ticket));
            }
            Message::Look(port) => {
                let _ = port.send(hall.report());
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.opening.log.say(Event::Ended(state.hall.report()));
        Ok(())
    }
}

struct Supervisor;

impl Actor for Supervisor {
    type Msg = ();
    type State = Opening;
    type Arguments = Opening;

    async fn pre_start(
        &self,
        me: ActorRef<()>,
        opening: Opening,
    ) -> Result<Opening, ActorProcessingErr> {
        let name = Some(opening.name.clone());
        Actor::spawn_linked(name, Desk, opening.clone(), me.get_cell()).await?;
        Ok(opening)
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: SupervisionEvent,
        opening: &mut Opening,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(..) if opening.restarts => {
                let name = Some(opening.name.clone());
                Actor::spawn_linked(name, Desk, opening.clone(), me.get_cell()).await?;
                opening.log.say(Event::Reopened);
            }
            SupervisionEvent::ActorFailed(..) | SupervisionEvent::ActorTerminated(..) => {
                me.stop(None);
            }
            _ => {}
        }
        Ok(())
    }
}

pub struct Ractor {
    name: String,
    /// The first actor of this name: after a restart, the name refers to another one.
    first: ActorRef<Message>,
}

fn closed(error: MessagingErr<Message>) -> Failure {
    Failure::new(Problem::Closed, format!("{error:?}"))
}

fn answered<R>(called: Result<CallResult<R>, MessagingErr<Message>>) -> Result<R, Failure> {
    match called.map_err(closed)? {
        CallResult::Success(answer) => Ok(answer),
        CallResult::Timeout => Err(Failure::new(Problem::TimedOut, "Timeout")),
        CallResult::SenderError => Err(Failure::new(Problem::Failed, "SenderError")),
    }
}

impl Ractor {
    fn hall(&self) -> ActorRef<Message> {
        ActorRef::where_is(&self.name).unwrap_or_else(|| self.first.clone())
    }
}

impl Service for Ractor {
    const LIBRARY: &'static str = "ractor";

    async fn open(opening: Opening) -> Self {
        let name = opening.name.clone();
        Actor::spawn(None, Supervisor, opening).await.expect("a name that is free");
        Self::find(&name).expect("its supervisor has started it")
    }

    fn find(name: &str) -> Option<Self> {
        ActorRef::where_is(name).map(|first| Ractor { name: name.into(), first })
    }

    async fn reserve(&self, seats: u32) -> Result<Ticket, Failure> {
        let called = self.hall().call(|port| Message::Reserve(seats, port), None).await;
        Ok(answered(called)??)
    }

    fn reserve_unawaited(&self, seats: u32) {
        drop(self.first.call(|port| Message::Reserve(seats, port), None));
    }

    async fn reserve_within(&self, seats: u32, limit: Duration) -> Result<Ticket, Failure> {
        let called = self.hall().call(|port| Message::Reserve(seats, port), Some(limit)).await;
        Ok(answered(called)??)
    }

    fn release(&self, ticket: Ticket) -> Sent {
        match self.hall().cast(Message::Release(ticket)) {
            Ok(()) => Sent::Taken,
            Err(error) => {
                let back = matches!(error, MessagingErr::SendErr(_));
                Sent::Refused { said: format!("{error:?}"), back }
            }
        }
    }

    async fn confirm(&self, ticket: Ticket, payment: Payment) -> Result<(), Failure> {
        let message = |port| Message::Confirm(ticket, payment, port);
        Ok(answered(self.hall().call(message, None).await)??)
    }

    async fn refund(&self, ticket: Ticket) -> Result<u32, Failure> {
        answered(self.hall().call(|port| Message::Refund(ticket, port), None).await)
    }

    async fn report(&self) -> Result<Report, Failure> {
        answered(self.hall().call(Message::Look, None).await)
    }

    async fn report_to_first_handle(&self) -> Result<Report, Failure> {
        answered(self.first.call(Message::Look, None).await)
    }

    async fn close(&self) {
        self.hall().drain().expect("an actor that runs");
    }

    async fn stop(&self) {
        self.hall().stop(None);
    }

    async fn ended(&self) {
        self.hall().wait(None).await.expect("no limit");
    }
}
