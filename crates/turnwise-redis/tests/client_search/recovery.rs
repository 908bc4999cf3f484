//! The time that passes before a mailbox is drained whose drainer has died.

use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use turnwise::Drain;
use turnwise::time::Clock;
use turnwise_redis::step::{
    Answer, DrainClaim, MailboxAct, MailboxAnswer, MailboxStep, Op, Step, StoredMessage, Token,
};
use turnwise_redis::{Drains, MemoryStore, Outcome, Remote, Store};

use crate::support::board::{Add, Board};

const LEASE: Duration = Duration::from_secs(10);

/// The time of the runtime.
#[derive(Debug)]
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Stores a message, and claims its mailbox for a process that dies at once.
fn dies() -> Op {
    let token = Token::new("dead", 1);
    let claim = DrainClaim { token, lease: LEASE, most: 64, attempts: 3, keep: LEASE * 60 };
    let (id, name) = ("first".to_owned(), "add".to_owned());
    let message = StoredMessage { id, name, body: b"1".to_vec(), asker: None };
    let actor = "eu".to_owned();
    let act = MailboxAct::Push { actor, message, delay: Duration::ZERO, claim: Some(claim) };
    let step = Step::Mailbox(MailboxStep { shards: 1, act });
    Op { key: "turnwise:{actor:board/0}".to_owned(), places: 1, above: 0, step }
}

/// A process drains it that sends to the actor at some time meanwhile, or that has workers.
#[test]
fn mailboxes_of_the_dead_are_drained_within_one_and_a_half_leases() {
    for (drains, sent_at) in [
        (Drains::Measured, 0),
        (Drains::Measured, 3),
        (Drains::Measured, 6),
        (Drains::Measured, 9),
        (Drains::IfSeenFree, 9),
        (Drains::Never, 0),
        (Drains::Never, 9),
    ] {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let store = MemoryStore::by(Paused(Instant::now()));
            let remote = Remote::builder().here("c", |_| Poll::Ready(()));
            let remote = remote.over(store.clone()).unwrap();
            let runtime = Handle::current();
            let runs = move |drain: Drain| drop(runtime.spawn(async move { drain.run() }));
            let kind = remote.actors::<Board>("board").message::<Add>("add");
            let kind = kind.lease(LEASE).drains(drains).executor(runs).open().unwrap();
            let workers = (drains == Drains::Never).then(|| kind.work(1));
            let eu = kind.of("eu").unwrap();
            let began = Instant::now();
            let claimed = store.call(&dies()).await.unwrap();
            assert!(matches!(claimed, Answer::Mailbox(MailboxAnswer::Handed(_))));
            sleep(LEASE * sent_at / 10).await;
            let id = eu.tell(Add(2)).await.unwrap();
            while eu.outcome::<usize>(&id).await.unwrap() != Ok(Outcome::Done(2)) {
                sleep(LEASE / 100).await;
                assert!(began.elapsed() < LEASE * 3 / 2, "{drains:?}, sent at {sent_at}");
            }
            println!("{drains:?}, sent at {sent_at}: drained after {:?}", began.elapsed());
            drop(workers);
        });
    }
}
