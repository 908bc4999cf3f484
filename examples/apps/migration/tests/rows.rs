//! Rows of the guide's chapter that are not in the table of differences.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use actix::dev::SendError;
use actix::prelude::*;
use migration::hall::{BUG, Bank, Payment};
use migration::report::expect_panics;

/// Counts its messages, and its restarts.
#[derive(Default)]
struct Counter {
    counted: Arc<AtomicU32>,
    restarted: Arc<AtomicU32>,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Count;

#[derive(Message)]
#[rtype(result = "()")]
struct Wait(Payment);

#[derive(Message)]
#[rtype(result = "()")]
struct End;

#[derive(Message)]
#[rtype(result = "()")]
struct Fail;

impl Actor for Counter {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.set_mailbox_capacity(2);
    }
}

impl Supervised for Counter {
    fn restarting(&mut self, _: &mut Context<Self>) {
        self.restarted.fetch_add(1, Relaxed);
    }
}

impl Handler<Count> for Counter {
    type Result = ();

    fn handle(&mut self, _: Count, _: &mut Context<Self>) {
        self.counted.fetch_add(1, Relaxed);
    }
}

impl Handler<Wait> for Counter {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, Wait(payment): Wait, _: &mut Context<Self>) -> Self::Result {
        AtomicResponse::new(Box::pin(payment.approved().into_actor(self).map(|_, _, _| ())))
    }
}

impl Handler<End> for Counter {
    type Result = ();

    fn handle(&mut self, _: End, context: &mut Context<Self>) {
        context.stop();
    }
}

impl Handler<Fail> for Counter {
    type Result = ();

    fn handle(&mut self, _: Fail, _: &mut Context<Self>) {
        panic!("{BUG}");
    }
}

#[test]
fn each_address_of_actix_has_a_place_of_its_own() {
    System::new().block_on(async {
        let address = Counter::default().start();
        let (mut bank, payment) = Bank::new();
        let fill = async {
            bank.is_asked().await;
            while address.try_send(Count).is_ok() {}
            let other = address.clone();
            assert!(matches!(address.try_send(Count), Err(SendError::Full(_))));
            assert!(other.try_send(Count).is_ok());
            assert!(matches!(other.try_send(Count), Err(SendError::Full(_))));
            bank.answer(true);
        };
        let _ = tokio::join!(biased; address.send(Wait(payment)), fill);
    });
}

#[test]
fn what_waits_is_run_after_the_last_address_of_actix_is_dropped() {
    System::new().block_on(async {
        let counter = Counter::default();
        let counted = counter.counted.clone();
        let address = counter.start();
        let (mut bank, payment) = Bank::new();
        let asked = address.send(Wait(payment));
        let drop_it = async {
            bank.is_asked().await;
            address.do_send(Count);
            address.do_send(Count);
            drop(address);
            bank.answer(true);
        };
        let _ = tokio::join!(biased; asked, drop_it);
        // On this thread: the actor has it as soon as this task yields.
        while Arc::strong_count(&counted) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(counted.load(Relaxed), 2);
    });
}

#[test]
fn a_supervisor_of_actix_restarts_after_a_stop_and_not_after_a_panic() {
    expect_panics();
    System::new().block_on(async {
        let counter = Counter::default();
        let restarted = counter.restarted.clone();
        let address = Supervisor::start(|_| counter);
        address.send(End).await.unwrap();
        address.send(Count).await.unwrap();
        assert_eq!(restarted.load(Relaxed), 1);
        assert_eq!(address.send(Fail).await, Err(MailboxError::Closed));
        assert_eq!(address.send(Count).await, Err(MailboxError::Closed));
        assert_eq!(restarted.load(Relaxed), 1);
    });
}
