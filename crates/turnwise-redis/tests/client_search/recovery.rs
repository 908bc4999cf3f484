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
use turnwise_redis::{Actors, Called, Drains, MemoryStore, Outcome, Remote, RemoteActor, Store};

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

/// Claims the mailbox for a process that dies at once.
fn dies() -> Op {
    let token = Token::new("dead", 1);
    let claim = DrainClaim { token, lease: LEASE, most: 64, attempts: 3, keep: LEASE * 60 };
    op(MailboxAct::Claim { actor: "eu".to_owned(), claim })
}

fn op(act: MailboxAct) -> Op {
    let step = Step::Mailbox(MailboxStep { shards: 1, act });
    Op { key: "turnwise:{actor:board/0}".to_owned(), places: 1, above: 0, step }
}

/// A store in which that process is faster than the sender of a message without a claim.
#[derive(Debug)]
struct Overtaken(MemoryStore);

impl Store for Overtaken {
    fn call<'a>(&'a self, asked: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let answer = self.0.call(asked).await?;
            let pushes = |step: &Step| matches!(step, Step::Mailbox(step) if step.name() == "push");
            if pushes(&asked.step) {
                let claimed = self.0.call(&dies()).await?;
                assert!(matches!(claimed, Answer::Mailbox(MailboxAnswer::Handed(_))));
            }
            Ok(answer)
        })
    }

    crate::support::forwards_notices!(0);
}

/// A client on the time of the runtime, and its actors, which run there.
fn boards(store: impl Store, drains: Drains) -> Actors<Board> {
    let remote = Remote::builder().here("c", |_| Poll::Ready(())).over(store).unwrap();
    let runtime = Handle::current();
    let runs = move |drain: Drain| drop(runtime.spawn(async move { drain.run() }));
    let kind = remote.actors::<Board>("board").message::<Add>("add");
    kind.lease(LEASE).drains(drains).executor(runs).open().unwrap()
}

fn on_paused_time(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test);
}

/// Waits until a message was handled as the last one of this many: a lease and a half at most.
async fn is_drained(board: &RemoteActor<Board>, id: &str, count: usize, began: Instant) {
    while board.outcome::<usize>(id).await.unwrap() != Ok(Outcome::Done(count)) {
        sleep(LEASE / 100).await;
        assert!(began.elapsed() < LEASE * 3 / 2, "it is not drained");
    }
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
        println!("{drains:?}, sent at {sent_at}");
        on_paused_time(async {
            let store = MemoryStore::by(Paused(Instant::now()));
            let (id, name) = ("first".to_owned(), "add".to_owned());
            let message = StoredMessage { id, name, body: b"1".to_vec(), asker: None };
            let (actor, delay) = ("eu".to_owned(), Duration::ZERO);
            let first = op(MailboxAct::Push { actor, message, delay, claim: None });
            store.call(&first).await.unwrap();
            let claimed = store.call(&dies()).await.unwrap();
            assert!(matches!(claimed, Answer::Mailbox(MailboxAnswer::Handed(_))));
            let kind = boards(store, drains);
            let workers = (drains == Drains::Never).then(|| kind.work(1));
            let (eu, began) = (kind.of("eu").unwrap(), Instant::now());
            sleep(LEASE * sent_at / 10).await;
            let id = eu.tell(Add(2)).await.unwrap();
            is_drained(&eu, &id, 2, began).await;
            drop(workers);
        });
    }
}

/// The mailbox was free as its message was stored, and is not when its sender claims it.
#[test]
fn senders_that_are_overtaken_drain_the_mailboxes_of_the_dead() {
    on_paused_time(async {
        let store = Overtaken(MemoryStore::by(Paused(Instant::now())));
        let kind = boards(store, Drains::IfSeenFree);
        let (eu, began) = (kind.of("eu").unwrap(), Instant::now());
        let id = eu.tell(Add(1)).await.unwrap();
        is_drained(&eu, &id, 1, began).await;
    });
}
