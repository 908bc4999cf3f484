//! Properties of actors over every store: in memory, in memory with faults, in memory without
//! notices, in a file, in a server, and in a server behind a proxy that loses and doubles.

#[allow(dead_code)]
#[path = "../../examples/watched.rs"]
mod watched;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::support::board::{Add, Board};
use crate::support::world::{World, builder, contract};
use crate::support::{Server, until};
use serde::{Deserialize, Serialize};
use turnwise::executor::DrainQueue;
use turnwise::{AsyncContext, AsyncHandler, Context, Handler, System, ThreadPool};
use turnwise_redis::step::{Answer, MailboxAct, MailboxAnswer, MailboxStep, Op, Step};
use turnwise_redis::{
    ActorsBuilder, ActorsError, Called, Drains, MemoryStore, MessageError, NameError, NoTime,
    NoticeSink, Outcome, RedisStore, Remote, RemoteActor, Store, StoreError, Until,
};

/// Fails this many times, counted over all attempts in this process.
#[derive(Serialize, Deserialize)]
struct Flaky {
    failures: u32,
    counter: usize,
}

static COUNTERS: [AtomicU32; 128] = [const { AtomicU32::new(0) }; 128];
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns the index of a counter for one test.
fn counter() -> usize {
    NEXT.fetch_add(1, SeqCst) as usize
}

impl Handler<Flaky> for Board {
    type Reply = u32;
    fn handle(&mut self, flaky: Flaky, _: &mut Context<'_, Self>) -> u32 {
        // The attempt leaves a change in the state.
        self.added.push(1000);
        let attempt = COUNTERS[flaky.counter].fetch_add(1, SeqCst);
        assert!(attempt >= flaky.failures, "attempt {attempt} fails");
        attempt
    }
}

#[derive(Serialize, Deserialize)]
struct Charge(bool);

impl Handler<Charge> for Board {
    type Reply = Result<u64, String>;
    fn handle(&mut self, Charge(works): Charge, _: &mut Context<'_, Self>) -> Self::Reply {
        self.added.push(7);
        if works { Ok(7) } else { Err("no credit".to_owned()) }
    }
}

/// Waits at a gate of this process.
#[derive(Serialize, Deserialize)]
struct Stand(usize);

struct Gate {
    arrived: bool,
    open: bool,
}

static GATES: [(Mutex<Gate>, Condvar); 128] =
    [const { (Mutex::new(Gate { arrived: false, open: false }), Condvar::new()) }; 128];

fn open_gate(gate: usize) {
    GATES[gate].0.lock().unwrap().open = true;
    GATES[gate].1.notify_all();
}

fn await_arrival(gate: usize) {
    let (state, changed) = &GATES[gate];
    let limit = Duration::from_secs(20);
    let waited = changed.wait_timeout_while(state.lock().unwrap(), limit, |gate| !gate.arrived);
    assert!(waited.unwrap().0.arrived, "the handler has not begun");
}

fn stand(gate: usize) {
    let (state, changed) = &GATES[gate];
    let mut state = state.lock().unwrap();
    state.arrived = true;
    changed.notify_all();
    drop(changed.wait_while(state, |gate| !gate.open).unwrap());
}

impl Handler<Stand> for Board {
    type Reply = ();
    fn handle(&mut self, Stand(gate): Stand, _: &mut Context<'_, Self>) {
        stand(gate);
    }
}

/// Never ends.
#[derive(Serialize, Deserialize)]
struct Hang(usize);

impl AsyncHandler<Hang> for Board {
    type Reply = ();
    async fn handle(&mut self, Hang(gate): Hang, _: &mut AsyncContext<Self>) {
        let first = {
            let (state, changed) = &GATES[gate];
            let mut state = state.lock().unwrap();
            state.arrived = true;
            changed.notify_all();
            !state.open
        };
        if first {
            let (_promise, never) = turnwise::promise::<()>();
            let _ = never.await;
        }
    }
}

fn kind(client: &Remote) -> ActorsBuilder<Board> {
    let kind = client.actors::<Board>("board").message::<Add>("add").message::<Flaky>("flaky");
    let kind = kind.try_message::<Charge>("charge").message::<Stand>("stand");
    kind.async_message::<Hang>("hang").pause(Duration::from_millis(20))
}

fn board(client: &Remote) -> RemoteActor<Board> {
    kind(client).open().unwrap().of("eu").unwrap()
}

fn added(board: &RemoteActor<Board>) -> Vec<u64> {
    board.info().wait().unwrap().unwrap().state.unwrap_or_default().added
}

contract! {
    /// Replies are the numbers of the messages: each comes once, and the state has seen each once.
    fn each_message_once(world) {
        let clients = world.clients(3);
        let replies = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (number, client) in clients.iter().enumerate() {
                let (board, replies) = (board(client), &replies);
                scope.spawn(move || {
                    let asked: Vec<_> =
                        (0..20).map(|n| board.ask(Add(number as u64 * 100 + n)).send()).collect();
                    let got = asked.into_iter().map(|asked| asked.wait().unwrap());
                    replies.lock().unwrap().extend(got);
                });
            }
        });
        let mut replies = replies.into_inner().unwrap();
        replies.sort_unstable();
        assert_eq!(replies, (1..=60).collect::<Vec<_>>());
        let board = board(&clients[0]);
        let added = added(&board);
        assert_eq!(added.len(), 60);
        assert_eq!(added.iter().collect::<BTreeSet<_>>().len(), 60);
        until("it is not drained", || {
            let info = board.info().wait().unwrap().unwrap();
            info.waiting == 0 && info.drainer.is_none()
        });
    }

    fn messages_run_in_their_order(world) {
        let board = board(&world.clients(1)[0]);
        for n in 0..30 {
            board.tell(Add(n)).wait().unwrap();
        }
        assert_eq!(board.ask(Add(30)).wait(), Ok(31));
        assert_eq!(added(&board), (0..=30).collect::<Vec<_>>());
    }

    fn one_id_is_one_message(world) {
        let clients = world.clients(2);
        let boards = [board(&clients[0]), board(&clients[1])];
        for board in &boards {
            assert_eq!(board.tell(Add(7)).id("order 7").wait().unwrap(), "order 7");
        }
        assert_eq!(boards[1].ask(Add(7)).id("order 7").wait(), Ok(1));
        assert_eq!(boards[0].ask(Add(8)).wait(), Ok(2));
        let outcome = boards[0].outcome::<usize>("order 7").wait().unwrap();
        assert_eq!(outcome, Ok(Outcome::Done(1)));
        let unknown = boards[0].outcome::<usize>("order 8").wait().unwrap();
        assert_eq!(unknown, Ok(Outcome::Unknown));
    }

    /// They are known at once, arrive behind the others when their time has come, and are drained
    /// by their sender.
    fn delayed_messages_arrive_at_their_time(world) {
        let clients = world.clients(2);
        let (here, there) = (board(&clients[0]), board(&clients[1]));
        let (began, delay) = (Instant::now(), Duration::from_millis(400));
        for board in [&here, &there] {
            assert_eq!(board.tell(Add(1)).id("later").after(delay).wait().unwrap(), "later");
        }
        let is_delayed = |outcome: &Outcome<usize>| match outcome {
            Outcome::Delayed { remaining } => *remaining <= delay,
            _ => began.elapsed() >= delay,
        };
        let outcome = there.outcome::<usize>("later").wait().unwrap().unwrap();
        assert!(is_delayed(&outcome), "{outcome:?}");
        // Others do not wait for it.
        let first = here.ask(Add(2)).wait();
        assert!(first == Ok(1) || began.elapsed() >= delay, "{first:?}");
        let mut last = outcome;
        until("it is handled", || {
            last = there.outcome::<usize>("later").wait().unwrap().unwrap();
            assert!(is_delayed(&last), "{last:?}");
            matches!(last, Outcome::Done(_))
        });
        assert!(began.elapsed() >= delay);
        if first == Ok(1) {
            assert_eq!(last, Outcome::Done(2));
            assert_eq!(added(&here), [2, 1]);
        }
        assert_eq!(here.info().wait().unwrap().unwrap().delayed, 0);
    }

    /// Workers wake for messages whose sender is gone, in the order of their times. Those of a time
    /// that has passed are not delayed.
    fn workers_drain_delayed_messages(world) {
        let clients = world.clients(2);
        let [senders, workers] = [0, 1].map(|index| {
            kind(&clients[index]).drains(Drains::Never).open().unwrap().of("eu").unwrap()
        });
        let began = Instant::now();
        for (number, delay) in [(1, 300), (2, 200), (3, 100)] {
            senders.tell(Add(number)).after(Duration::from_millis(delay)).wait().unwrap();
        }
        senders.tell(Add(4)).at(SystemTime::UNIX_EPOCH).wait().unwrap();
        let soon = SystemTime::now() + Duration::from_millis(400);
        senders.tell(Add(5)).at(soon).wait().unwrap();
        // The order of the times is known only if no push took long.
        let quick = began.elapsed() < Duration::from_millis(100);
        let kind = kind(&clients[1]).drains(Drains::Never).open().unwrap();
        let working = kind.work(1);
        until("all are handled", || added(&workers).len() == 5);
        working.stop().wait().unwrap();
        let added = added(&workers);
        if quick {
            assert_eq!(added, [4, 3, 2, 1, 5]);
        }
        assert_eq!(added.iter().collect::<BTreeSet<_>>().len(), 5);
    }

    fn delayed_messages_are_withdrawn(world) {
        let clients = world.clients(2);
        let (here, there) = (board(&clients[0]), board(&clients[1]));
        let hour = Duration::from_secs(3600);
        here.tell(Add(1)).id("one").after(hour).wait().unwrap();
        here.tell(Add(2)).id("two").after(hour).wait().unwrap();
        let info = there.info().wait().unwrap().unwrap();
        assert_eq!((info.waiting, info.delayed), (0, 2));
        assert_eq!(there.withdraw::<usize>("one").wait().unwrap(), Ok(Outcome::Withdrawn));
        assert_eq!(here.outcome::<usize>("one").wait().unwrap(), Ok(Outcome::Withdrawn));
        // A copy of its push stores nothing.
        here.tell(Add(1)).id("one").wait().unwrap();
        assert_eq!(here.ask(Add(3)).wait(), Ok(1));
        let info = there.info().wait().unwrap().unwrap();
        assert_eq!((info.waiting, info.delayed), (0, 1));
        let two = there.outcome::<usize>("two").wait().unwrap();
        assert!(matches!(two, Ok(Outcome::Delayed { remaining }) if remaining > hour / 2));
        let late = there.ask(Add(2)).id("two").within(Duration::from_millis(50)).wait();
        assert_eq!(late, Err(MessageError::Running { id: "two".to_owned() }));
    }

    /// A failed message is tried again before later ones, and its attempt leaves nothing in the
    /// state.
    fn failed_attempts_keep_the_order(world) {
        let board = board(&world.clients(1)[0]);
        let flaky = Flaky { failures: 2, counter: counter() };
        board.tell(flaky).id("flaky").wait().unwrap();
        board.ask(Add(5)).wait().unwrap();
        let outcome = board.outcome::<u32>("flaky").wait().unwrap();
        assert!(matches!(outcome, Ok(Outcome::Done(2..))), "{outcome:?}");
        assert_eq!(added(&board), [1000, 5]);
    }

    fn dead_letters_are_listed_requeued_and_discarded(world) {
        let client = &world.clients(1)[0];
        let boards = kind(client).attempts(2).shards(3).open().unwrap();
        let eu = boards.of("eu").unwrap();
        let number = counter();
        let flaky = Flaky { failures: 60, counter: number };
        let dead = eu.ask(flaky).id("flaky").wait();
        let Err(MessageError::Dead { error }) = dead else { panic!("{dead:?}") };
        assert!(error.contains("fails"), "{error}");
        let us = boards.of("us").unwrap();
        let refused = us.ask(Charge(false)).id("charge").wait();
        assert_eq!(refused, Err(MessageError::Dead { error: "no credit".to_owned() }));
        assert_eq!(us.ask(Charge(true)).wait(), Ok(Ok(7)));
        assert_eq!(added(&us), [7]);
        let mut letters = boards.dead_letters(0, 10).wait().unwrap().unwrap();
        letters.sort_by(|a, b| a.actor.cmp(&b.actor));
        let ids: Vec<_> = letters.iter().map(|it| (&*it.actor, &*it.id, &*it.message)).collect();
        assert_eq!(ids, [("eu", "flaky", "flaky"), ("us", "charge", "charge")]);
        assert_eq!(letters[1].body, "false");
        assert_eq!(boards.dead_letters(1, 10).wait().unwrap().unwrap().len(), 1);
        assert_eq!(boards.dead_letters(0, 1).wait().unwrap().unwrap().len(), 1);
        assert_eq!(boards.dead_letters(u64::MAX, u32::MAX).wait().unwrap(), Ok(vec![]));
        // A copy of either step may come first, where answers are lost.
        let requeued = boards.requeue("eu", "flaky").wait().unwrap().unwrap();
        assert!(requeued || !world.is_sound());
        COUNTERS[number].store(60, SeqCst);
        assert!(eu.ask(Add(1)).wait().unwrap() >= 1);
        until("it is handled", || {
            matches!(eu.outcome::<u32>("flaky").wait().unwrap(), Ok(Outcome::Done(_)))
        });
        let discarded = boards.discard("us", "charge").wait().unwrap().unwrap();
        assert!(discarded || !world.is_sound());
        assert_eq!(boards.dead_letters(0, 10).wait().unwrap(), Ok(vec![]));
        assert_eq!(boards.requeue("us", "charge").wait().unwrap(), Ok(false));
    }

    /// A message whose type a process does not know is left to those that know it, before those
    /// behind it, and is withdrawn like others.
    fn messages_of_another_version_wait_for_its_processes(world) {
        let clients = world.clients(2);
        let new = kind(&clients[0]).drains(Drains::Never).open().unwrap();
        let old = clients[1].actors::<Board>("board").message::<Add>("add");
        let old = old.drains(Drains::Never).open().unwrap();
        let eu = new.of("eu").unwrap();
        eu.tell(Add(1)).wait().unwrap();
        eu.tell(Charge(true)).id("charge").wait().unwrap();
        eu.tell(Add(2)).wait().unwrap();
        let old_eu = old.of("eu").unwrap();
        let unknown = |id: &str| {
            let (id, message) = (id.to_owned(), "charge".to_owned());
            let unknown = Err(MessageError::UnknownMessage { id, message });
            until("it is left", || old_eu.drain(Until::empty()).wait().unwrap() == unknown);
        };
        unknown("charge");
        let mut workers = vec![old.work(1)];
        assert_eq!(added(&eu), [1]);
        let outcome = eu.outcome::<Result<u64, String>>("charge").wait().unwrap();
        assert!(matches!(outcome, Ok(Outcome::Waiting { ahead: 0 } | Outcome::Running { .. })), "{outcome:?}");
        workers.push(new.work(1));
        until("all are handled", || added(&eu) == [1, 7, 2]);
        drop(workers.pop().unwrap().stop().wait());
        // Without them it stays, until it is withdrawn.
        eu.tell(Charge(true)).id("again").wait().unwrap();
        eu.tell(Add(3)).wait().unwrap();
        drop(workers.pop().unwrap().stop().wait());
        unknown("again");
        let withdrawn = old_eu.withdraw::<u64>("again").wait().unwrap();
        assert_eq!(withdrawn, Ok(Outcome::Withdrawn));
        let _workers = old.work(1);
        until("those behind it are handled", || added(&eu) == [1, 7, 2, 3]);
        assert_eq!(new.dead_letters(0, 10).wait().unwrap(), Ok(vec![]));
    }

    fn messages_that_no_version_takes_become_dead_letters(world) {
        let clients = world.clients(2);
        let new = kind(&clients[0]).drains(Drains::Never).open().unwrap();
        let eu = new.of("eu").unwrap();
        for (id, message) in [("first", true), ("second", true)] {
            eu.tell(Charge(message)).id(id).wait().unwrap();
        }
        eu.tell(Add(2)).wait().unwrap();
        let old = clients[1].actors::<Board>("board").message::<Add>("add");
        let limit = Duration::from_millis(50);
        let old = old.drains(Drains::Never).give_up_unknown_after(limit).open().unwrap();
        let workers = old.work(1);
        until("those behind it are handled", || added(&eu) == [2]);
        drop(workers.stop().wait());
        let outcome = eu.outcome::<Result<u64, String>>("first").wait().unwrap();
        let why = "no process has taken `charge` within 50ms";
        assert!(matches!(outcome, Ok(Outcome::Dead { error }) if error == why));
        let letters = new.dead_letters(0, 10).wait().unwrap().unwrap();
        assert_eq!(letters.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["first", "second"]);
        // A process that takes it runs it after all.
        new.requeue("eu", "first").wait().unwrap().unwrap();
        let _workers = new.work(1);
        until("it is handled", || added(&eu) == [2, 7]);
    }

    /// Processes may have other numbers of attempts: that of the drainer counts, not the sender's.
    fn attempts_are_those_of_the_drainer(world) {
        let clients = world.clients(2);
        let boards = |client, attempts| {
            let kind = kind(&clients[client]).attempts(attempts).drains(Drains::Never);
            kind.open().unwrap().of("eu").unwrap()
        };
        for (sends, drains) in [(3, 1), (1, 2)] {
            let id = format!("charge {drains}");
            let (sender, drainer) = (boards(0, sends), boards(1, drains));
            sender.tell(Charge(false)).id(&*id).wait().unwrap();
            until("it is dead", || {
                let _ = drainer.drain(Until::empty()).wait().unwrap();
                matches!(sender.outcome::<()>(&id).wait().unwrap(), Ok(Outcome::Dead { .. }))
            });
        }
        let kind = kind(&clients[0]).open().unwrap();
        let letters = kind.dead_letters(0, 10).wait().unwrap().unwrap();
        let attempts: Vec<_> = letters.iter().map(|it| it.attempts).collect();
        if world.is_sound() {
            assert_eq!(attempts, [1, 2]);
        }
    }

    fn mailboxes_and_dead_letters_are_in_the_table_of_actors(world) {
        let client = &world.clients(1)[0];
        let boards = kind(client).attempts(1).shards(2).open().unwrap();
        let refused = boards.of("eu").unwrap().ask(Charge(false)).id("charge").wait();
        assert!(matches!(refused, Err(MessageError::Dead { .. })), "{refused:?}");
        let hour = Duration::from_secs(3600);
        boards.of("us").unwrap().tell(Add(1)).id("later").after(hour).wait().unwrap();
        let top = turnwise_top::serve_at(&System::new(), "127.0.0.1:0".parse().unwrap()).unwrap();
        top.source("board", watched::mailboxes(boards, &["eu", "us"])).unwrap();
        let mut table = turnwise_top::Client::connect(top.address()).unwrap();
        until("it is reported", || {
            let source = &table.snapshot().unwrap().sources[0];
            let actors = source.report.actors.iter();
            let actors: Vec<_> = actors.map(|it| (&*it.name, it.queued, it.delayed)).collect();
            let dead = source.report.dead_letters.iter();
            let dead: Vec<_> = dead.map(|it| (&*it.actor, &*it.id, &*it.error)).collect();
            actors == [("eu", 0, 0), ("us", 0, 1)] && dead == [("eu", "charge", "no credit")]
        });
    }

    /// A message that waits too long is withdrawn, and never runs. One that may have begun is
    /// reported.
    fn limits_withdraw(world) {
        let clients = world.clients(2);
        let (here, there) = (board(&clients[0]), board(&clients[1]));
        let gate = counter();
        let standing = here.ask(Stand(gate)).id("stand").send();
        await_arrival(gate);
        let late = there.ask(Add(1)).within(Duration::from_millis(100)).wait();
        assert!(matches!(late, Err(MessageError::TimedOut { .. })), "{late:?}");
        let begun = there.withdraw::<()>("stand").wait().unwrap();
        assert!(matches!(begun, Ok(Outcome::Running { attempt: 1 })), "{begun:?}");
        let by_hand = there.tell(Add(2)).id("two").wait().unwrap();
        assert_eq!(there.withdraw::<usize>(&by_hand).wait().unwrap(), Ok(Outcome::Withdrawn));
        // The withdrawal is remembered, so a late copy is refused.
        assert_eq!(there.ask(Add(2)).id("two").wait(), Err(MessageError::Withdrawn));
        open_gate(gate);
        standing.wait().unwrap();
        assert_eq!(here.ask(Add(3)).wait(), Ok(1));
    }

    /// A handler that runs longer than its lease keeps its mailbox.
    fn a_long_handler_keeps_its_mailbox(world) {
        let clients = world.clients(2);
        let lease = Duration::from_millis(600);
        let [here, there] = [0, 1].map(|index| {
            kind(&clients[index]).lease(lease).open().unwrap().of("eu").unwrap()
        });
        let gate = counter();
        let standing = here.ask(Stand(gate)).send();
        await_arrival(gate);
        let late = there.ask(Add(1)).within(lease * 3).wait();
        assert!(matches!(late, Err(MessageError::TimedOut { .. })), "{late:?}");
        open_gate(gate);
        standing.wait().unwrap();
        assert_eq!(there.ask(Add(2)).wait(), Ok(1));
    }

    /// So it does if the client also drains with a longer lease.
    fn a_short_lease_is_renewed_beside_a_long_one(world) {
        let client = &world.clients(1)[0];
        let lease = Duration::from_secs(1);
        let open = |lease| kind(client).lease(lease).open().unwrap();
        let (long, short) = (open(lease * 60).of("us").unwrap(), open(lease).of("eu").unwrap());
        let gates = [counter(), counter()];
        let first = long.ask(Stand(gates[0])).send();
        await_arrival(gates[0]);
        let second = short.ask(Stand(gates[1])).id("second").send();
        await_arrival(gates[1]);
        let began = Instant::now();
        until("its lease would be over", || began.elapsed() > lease * 3 / 2);
        let outcome = short.outcome::<()>("second").wait().unwrap();
        let runs = matches!(outcome, Ok(Outcome::Running { attempt: 1 }));
        assert!(runs || !world.is_sound(), "{outcome:?}");
        gates.into_iter().for_each(open_gate);
        assert_eq!(first.wait(), Ok(()));
        assert_eq!(second.wait(), Ok(()));
    }

    fn workers_drain_what_senders_leave(world) {
        let clients = world.clients(2);
        let [senders, workers] = [0, 1].map(|index| {
            kind(&clients[index]).drains(Drains::Never).shards(2).open().unwrap()
        });
        let asked: Vec<_> = (0..12)
            .map(|n| senders.of(&format!("actor {}", n % 4)).unwrap().ask(Add(n)).send())
            .collect();
        assert_eq!(asked.iter().filter(|asked| asked.is_ready()).count(), 0);
        let working = workers.work(2);
        let replies: usize = asked.into_iter().map(|asked| asked.wait().unwrap()).sum();
        assert_eq!(replies, 4 * (1 + 2 + 3));
        // This message arrives while the workers sleep.
        assert_eq!(senders.of("actor 1").unwrap().ask(Add(12)).wait(), Ok(4));
        working.stop().wait().unwrap();
    }

    /// A failed attempt occupies no worker in the pause before the next one.
    fn workers_drain_others_between_attempts(world) {
        let client = &world.clients(1)[0];
        let hour = Duration::from_secs(3600);
        let boards = kind(client).drains(Drains::Never).pause(hour).open().unwrap();
        let fails = boards.of("eu").unwrap();
        fails.tell(Flaky { failures: 60, counter: counter() }).wait().unwrap();
        let workers = boards.work(1);
        until("an attempt has failed", || fails.info().wait().unwrap().unwrap().attempts == 1);
        let asked = boards.of("us").unwrap().ask(Add(1)).within(Duration::from_secs(20)).wait();
        assert_eq!(asked, Ok(1));
        // The last drain has ended: this is no wait for the next attempt.
        workers.stop().wait().unwrap();
    }

    /// The next attempt is made by the process that has failed, also without a pause.
    fn attempts_without_a_pause_are_made(world) {
        let boards = kind(&world.clients(1)[0]).pause(Duration::ZERO).open().unwrap();
        let eu = boards.of("eu").unwrap();
        let flaky = Flaky { failures: 2, counter: counter() };
        eu.tell(flaky).id("flaky").wait().unwrap();
        until("it is handled", || {
            matches!(eu.outcome::<u32>("flaky").wait().unwrap(), Ok(Outcome::Done(_)))
        });
    }

    /// A request whose limit is over withdraws its own message, and no other of the same id.
    fn requests_withdraw_no_message_of_another(world) {
        let clients = world.clients(2);
        let [here, there] = [0, 1].map(|index| {
            kind(&clients[index]).drains(Drains::Never).open().unwrap().of("eu").unwrap()
        });
        here.tell(Add(1)).id("order 7").wait().unwrap();
        for millis in [0, 0, 0, 1, 2] {
            let limit = Duration::from_millis(millis);
            let late = there.ask(Add(1)).id("order 7").within(limit).wait().unwrap_err();
            let outcome = here.outcome::<usize>("order 7").wait().unwrap();
            assert_eq!(outcome, Ok(Outcome::Waiting { ahead: 0 }), "{late:?}");
        }
        // Its own.
        let late = there.ask(Add(1)).id("order 8").within(Duration::ZERO).wait().unwrap_err();
        let outcome = here.outcome::<usize>("order 8").wait().unwrap().unwrap();
        if matches!(late, MessageError::TimedOut { .. }) {
            assert_eq!(outcome, Outcome::Withdrawn);
        }
    }

    /// A process that has sent an actor a message drains it, if the one that drains it dies.
    fn senders_recover_the_mailboxes_of_the_dead(world) {
        let clients = world.clients(2);
        let pool = ThreadPool::new().unwrap();
        let lease = Duration::from_millis(500);
        let here = kind(&clients[0]).lease(lease).executor(pool.handle());
        let here = here.open().unwrap().of("eu").unwrap();
        let there = kind(&clients[1]).lease(lease).open().unwrap().of("eu").unwrap();
        let gate = counter();
        here.tell(Hang(gate)).id("hang").wait().unwrap();
        await_arrival(gate);
        there.tell(Add(2)).id("two").wait().unwrap();
        GATES[gate].0.lock().unwrap().open = true;
        let _ = pool.shutdown_now();
        until("it is handled", || {
            matches!(there.outcome::<usize>("two").wait().unwrap(), Ok(Outcome::Done(1)))
        });
    }

    /// The sender of a message may be gone before it is drained. A second message of its id is not
    /// stored, and drains the first one.
    fn repeated_messages_are_drained(world) {
        let clients = world.clients(2);
        let stores = kind(&clients[0]).drains(Drains::Never).open().unwrap();
        let drains = kind(&clients[1]).open().unwrap();
        for (actor, delay) in [("eu", 0), ("us", 50)] {
            let delay = Duration::from_millis(delay);
            for kind in [&stores, &drains] {
                let told = kind.of(actor).unwrap().tell(Add(7)).id("order 7");
                told.after(delay).wait().unwrap();
            }
            let actor = drains.of(actor).unwrap();
            until("it is handled", || {
                matches!(actor.outcome::<usize>("order 7").wait().unwrap(), Ok(Outcome::Done(1)))
            });
        }
    }

    /// The hosts of the original case: budgets of 50 ms, handlers that take as long, three
    /// messages.
    fn hosts_without_time_hand_over(world) {
        let client = &world.clients(1)[0];
        let slow = client.actors::<Slow>("slow").message::<Sleep>("sleep");
        let slow = slow.drains(Drains::Never).open().unwrap().of("a").unwrap();
        for _ in 0..3 {
            slow.tell(Sleep(50)).wait().unwrap();
        }
        let accepted = Arc::new(AtomicU32::new(0));
        let counts = [1, 2, 2].map(|expected| {
            let accepted = accepted.clone();
            let successor = move |actor: String| {
                assert_eq!(actor, "a");
                accepted.fetch_add(1, SeqCst);
                async { Ok(()) }
            };
            let until = Until::within(Duration::from_millis(50)).unwrap();
            let drained = slow.drain(until.or_hand_to(successor)).wait().unwrap().unwrap();
            (drained.handled, drained.handed_over, expected)
        });
        if world.is_sound() {
            assert_eq!(counts, [(1, true, 1), (1, true, 2), (1, false, 2)]);
            assert_eq!(accepted.load(SeqCst), 2);
        }
    }

    /// A successor that refuses three times leaves the actor to the workers.
    fn refused_hand_overs_are_due(world) {
        let client = &world.clients(1)[0];
        let slow = client.actors::<Slow>("slow").message::<Sleep>("sleep");
        let kind = slow.drains(Drains::Never).open().unwrap();
        let slow = kind.of("a").unwrap();
        slow.tell(Sleep(30)).wait().unwrap();
        let asked = slow.ask(Sleep(0)).send();
        until("both wait", || slow.info().wait().unwrap().unwrap().waiting == 2);
        let calls = Arc::new(AtomicU32::new(0));
        let called = calls.clone();
        let refuse = move |_: String| {
            called.fetch_add(1, SeqCst);
            async { Err("no host".to_owned()) }
        };
        let budget = Until::within(Duration::from_millis(30)).unwrap().or_hand_to(refuse);
        let drained = slow.drain(budget).wait().unwrap().unwrap();
        if world.is_sound() {
            assert_eq!((drained.handled, drained.left, drained.handed_over), (1, 1, false));
            assert_eq!(drained.refused.as_deref(), Some("no host"));
            assert_eq!(calls.load(SeqCst), 3);
        }
        let _workers = kind.work(1);
        assert_eq!(asked.wait(), Ok(2));
    }

    /// Handled messages are stored while a successor is asked, which is refused after a lease. Its
    /// future panics as it is dropped.
    fn successors_that_hang_delay_nothing(world) {
        let client = &world.clients(1)[0];
        let hosts = |lease| {
            let slow = client.actors::<Slow>("slow").message::<Sleep>("sleep").lease(lease);
            slow.drains(Drains::Never).open().unwrap()
        };
        let budget = || Until::within(Duration::from_millis(30)).unwrap();
        let [asked, hung] = ["asked", "hung"].map(|actor| {
            let slow = hosts(Duration::from_secs(5)).of(actor).unwrap();
            slow.tell(Sleep(50)).id("first").wait().unwrap();
            slow.tell(Sleep(0)).wait().unwrap();
            slow
        });
        let (promise, accepts) = turnwise::promise::<()>();
        let accepts = Mutex::new(Some(accepts));
        let drained = asked.drain(budget().or_hand_to(move |_| {
            let accepts = accepts.lock().unwrap().take();
            async move {
                match accepts {
                    Some(accepts) => accepts.await.map_err(|error| error.to_string()),
                    None => Err("asked again".to_owned()),
                }
            }
        }));
        until("the first one is stored", || {
            matches!(asked.outcome::<u64>("first").wait().unwrap(), Ok(Outcome::Done(1)))
        });
        promise.keep(());
        let drained = drained.wait().unwrap().unwrap();
        if world.is_sound() {
            assert!(drained.handed_over && drained.left == 1, "{drained:?}");
        }
        let short = hosts(Duration::from_millis(300)).of("hung").unwrap();
        let drained = short.drain(budget().or_hand_to(async move |_| {
            let _panics = Panics;
            std::future::pending().await
        }));
        let drained = drained.wait().unwrap().unwrap();
        if world.is_sound() {
            assert_eq!((drained.handled, drained.left, drained.handed_over), (1, 1, false));
            assert_eq!(drained.refused.as_deref(), Some("it did not answer within 300ms"));
        }
        let _workers = hosts(Duration::from_secs(5)).work(1);
        until("all are handled", || {
            [&asked, &hung].iter().all(|actor| {
                actor.info().wait().unwrap().unwrap().state.unwrap_or_default().0 == 2
            })
        });
    }

    /// An executor that ends releases messages that have not begun, at once.
    fn ended_executors_give_back_what_has_not_begun(world) {
        let clients = world.clients(2);
        let queue = DrainQueue::new();
        let here = kind(&clients[0]).drains(Drains::IfFree).executor(queue.handle());
        let here = here.lease(Duration::from_secs(600)).open().unwrap().of("eu").unwrap();
        here.tell(Add(1)).wait().unwrap();
        until("it is held", || here.info().wait().unwrap().unwrap().drainer.is_some());
        drop(queue);
        let began = Instant::now();
        assert_eq!(board(&clients[1]).ask(Add(2)).wait(), Ok(2));
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    /// A message that has begun is not released as new: the lease runs out, and the attempt counts.
    fn ended_executors_keep_what_has_begun(world) {
        let clients = world.clients(2);
        let pool = ThreadPool::new().unwrap();
        let lease = Duration::from_millis(500);
        let here = kind(&clients[0]).lease(lease).executor(pool.handle());
        let here = here.open().unwrap().of("eu").unwrap();
        let gate = counter();
        here.tell(Hang(gate)).id("hang").wait().unwrap();
        await_arrival(gate);
        GATES[gate].0.lock().unwrap().open = true;
        let _ = pool.shutdown_now();
        let there = kind(&clients[1]).lease(lease).open().unwrap().of("eu").unwrap();
        // The ask claims the mailbox once the lease is over.
        assert_eq!(there.ask(Add(2)).wait(), Ok(1));
        let outcome = there.outcome::<()>("hang").wait().unwrap();
        assert_eq!(outcome, Ok(Outcome::Done(())));
    }
}

/// Panics as it is dropped.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("a successor's future");
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Slow(u64);

#[derive(Serialize, Deserialize)]
struct Sleep(u64);

impl Handler<Sleep> for Slow {
    type Reply = u64;
    fn handle(&mut self, Sleep(millis): Sleep, _: &mut Context<'_, Self>) -> u64 {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(millis) {
            std::hint::spin_loop();
        }
        self.0 += 1;
        self.0
    }
}

/// A store that counts the checks of workers that have found nothing.
#[derive(Debug)]
struct Idle(MemoryStore, Arc<AtomicU32>);

impl Store for Idle {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let answer = self.0.call(op).await;
            if let Ok(Answer::Mailbox(MailboxAnswer::Due { actors, .. })) = &answer
                && actors.is_empty()
            {
                self.1.fetch_add(1, SeqCst);
            }
            answer
        })
    }

    crate::support::forwards_notices!(0);
}

/// Workers that sleep, for half a lease, wake for a message that arrives before.
#[test]
fn sleeping_workers_wake_for_the_first_due_time() {
    let is_idle = Arc::new(AtomicU32::new(0));
    let store = Idle(MemoryStore::new(), is_idle.clone());
    let near = Remote::builder().over(store).unwrap();
    let server = Server::start();
    let far = Remote::connect(&server.url()).unwrap();
    let waiting = || server.ask("ZCARD turnwise:{actor:board/0}:w") == ":1";
    let sleeps: [(Remote, &dyn Fn() -> bool); 2] =
        [(near, &|| is_idle.swap(0, SeqCst) > 0), (far, &waiting)];
    for (remote, sleeps) in sleeps {
        let boards = kind(&remote).lease(Duration::from_secs(600)).drains(Drains::Never);
        let boards = boards.open().unwrap();
        let _workers = boards.work(2);
        until("they sleep", sleeps);
        let eu = boards.of("eu").unwrap();
        eu.tell(Add(1)).after(Duration::from_millis(50)).wait().unwrap();
        until("it is handled", || added(&eu) == [1]);
        // So they do for the next attempt.
        until("they sleep", sleeps);
        eu.tell(Flaky { failures: 1, counter: counter() }).wait().unwrap();
        until("it is handled", || added(&eu) == [1, 1000]);
    }
}

/// A message for a mailbox in a pause before an attempt is drained when that is over, also if its
/// process looks at the mailbox again when the lease of an earlier drainer would be over.
#[test]
fn messages_wait_for_a_pause_and_no_longer() {
    let (server, store) = (Server::start(), MemoryStore::new());
    let far = || Remote::connect(&server.url()).unwrap();
    let near = || Remote::builder().over(store.clone()).unwrap();
    for [here, there] in [[near(), near()], [far(), far()]] {
        let long = |remote| kind(remote).lease(Duration::from_secs(600));
        let here = long(&here).drains(Drains::Never).pause(Duration::from_secs(1)).open().unwrap();
        let there = long(&there).open().unwrap();
        for is_watched in [false, true] {
            let name = is_watched.to_string();
            let (here, there) = (here.of(&name).unwrap(), there.of(&name).unwrap());
            let gate = counter();
            here.tell(Stand(gate)).wait().unwrap();
            here.tell(Flaky { failures: 1, counter: counter() }).wait().unwrap();
            let drains = here.drain(Until::within(Duration::from_secs(60)).unwrap());
            await_arrival(gate);
            if is_watched {
                there.tell(Add(1)).wait().unwrap();
            }
            open_gate(gate);
            let drained = drains.wait().unwrap().unwrap();
            assert_eq!((drained.handled, drained.failed), (1, 1));
            let last = there.tell(Add(2)).wait().unwrap();
            until("it is handled", || {
                matches!(there.outcome::<usize>(&last).wait().unwrap(), Ok(Outcome::Done(_)))
            });
        }
    }
}

/// Keys of an actor that were deleted by hand, one of them: its other messages run.
#[test]
fn deleted_keys_stop_no_actor() {
    let server = Server::start();
    let remote = Remote::connect(&server.url()).unwrap();
    let boards = kind(&remote).drains(Drains::Never).open().unwrap();
    let delete = |key: &str| server.ask(&format!("DEL turnwise:{{actor:board/0}}:{key}"));
    for (key, lost) in [("a", 0), ("m", 3), ("b", 3), ("s", 0)] {
        let eu = boards.of(key).unwrap();
        let tell = |n: u64| eu.tell(Add(n)).id(format!("m{n}")).wait().unwrap();
        (0..3).for_each(|n| drop(tell(n)));
        delete(&format!("{key}:{key}"));
        assert!(eu.outcome::<usize>("m1").wait().unwrap().is_ok());
        (1..4).for_each(|n| drop(tell(n)));
        let drained = eu.drain(Until::empty()).wait().unwrap().unwrap();
        assert!(drained.handled >= 3 && drained.left == 0, "{key}: {drained:?}");
        assert!(boards.dead_letters(0, 10).wait().unwrap().unwrap().len() <= lost);
        delete("x");
        assert_eq!(boards.dead_letters(0, 10).wait().unwrap(), Ok(vec![]));
        delete("y");
        let last = eu.tell(Add(9)).id("last").wait().unwrap();
        eu.drain(Until::empty()).wait().unwrap().unwrap();
        assert!(matches!(eu.outcome::<usize>(&last).wait().unwrap(), Ok(Outcome::Done(_))));
    }
}

/// A store that counts its steps.
#[derive(Debug)]
struct Counted<S>(S, Arc<AtomicU32>);

impl<S: Store> Store for Counted<S> {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        self.1.fetch_add(1, SeqCst);
        self.0.call(op)
    }

    crate::support::forwards_notices!(0);
}

/// Each step is a round trip: two for a message of an idle actor, one for that of a busy one, and
/// one for 64 that wait.
#[test]
fn messages_cost_few_steps() {
    let steps = Arc::new(AtomicU32::new(0));
    let remote = Remote::builder().over(Counted(MemoryStore::new(), steps.clone())).unwrap();
    let taken = || steps.swap(0, SeqCst);
    let eu = board(&remote);
    taken();
    assert_eq!(eu.ask(Add(1)).wait(), Ok(1));
    assert_eq!(taken(), 2);
    let gate = counter();
    eu.tell(Stand(gate)).wait().unwrap();
    await_arrival(gate);
    assert_eq!(taken(), 1);
    eu.tell(Add(2)).wait().unwrap();
    assert_eq!(taken(), 1);
    open_gate(gate);
    let us = kind(&remote).drains(Drains::Never).open().unwrap().of("us").unwrap();
    until("the other one is drained", || eu.info().wait().unwrap().unwrap().drainer.is_none());
    (0..256).for_each(|n| drop(us.tell(Add(n)).wait().unwrap()));
    taken();
    assert_eq!(us.drain(Until::empty()).wait().unwrap().unwrap().handled, 256);
    assert_eq!(taken(), 1 + 256 / 64);
}

/// The reply to a request comes from the drain in its own process. The notice of it, which may be a
/// moment earlier, costs no further look.
#[test]
fn replies_of_the_own_process_cost_no_step() {
    let server = Server::start();
    let steps = Arc::new(AtomicU32::new(0));
    let far = RedisStore::new(&server.url(), "turnwise", Duration::from_secs(20)).unwrap();
    let near = Counted(MemoryStore::new(), steps.clone());
    for remote in [
        Remote::builder().over(near).unwrap(),
        Remote::builder().over(Counted(far, steps.clone())).unwrap(),
    ] {
        let eu = board(&remote);
        steps.store(0, SeqCst);
        (1..=100).for_each(|n| assert_eq!(eu.ask(Add(1)).wait(), Ok(n)));
        println!("{:?} steps for 100 requests", steps);
        // A packet of the server may be late.
        assert!(steps.load(SeqCst) < 220, "{steps:?}");
    }
}

/// A store that counts messages by whether they were sent with a claim.
#[derive(Debug)]
struct Claims(MemoryStore, Arc<[AtomicU32; 2]>);

impl Store for Claims {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        if let Step::Mailbox(MailboxStep { act: MailboxAct::Push { claim, .. }, .. }) = &op.step {
            self.1[usize::from(claim.is_some())].fetch_add(1, SeqCst);
        }
        self.0.call(op)
    }

    crate::support::forwards_notices!(0);
}

/// The policy decides whether a message is sent with a claim. The default one goes by how often
/// that has succeeded.
#[test]
fn claims_follow_the_contention() {
    let (store, claims) = (MemoryStore::new(), Arc::<[AtomicU32; 2]>::default());
    let remote = Remote::builder().over(Claims(store.clone(), claims.clone())).unwrap();
    let other = board(&Remote::builder().over(store).unwrap());
    let sent = || claims.each_ref().map(|count| count.swap(0, SeqCst));
    for (drains, idle, busy) in [
        (Drains::IfFree, [0, 1], [0, 1]),
        (Drains::IfSeenFree, [1, 0], [1, 0]),
        (Drains::Measured, [0, 1], [1, 0]),
    ] {
        let eu = kind(&remote).drains(drains).open().unwrap().of("eu").unwrap();
        eu.tell(Add(1)).wait().unwrap();
        assert_eq!(sent(), idle, "{drains:?}");
        let drained = || other.info().wait().unwrap().unwrap().waiting == 0;
        until("it is drained", drained);
        // Another process drains it.
        let gate = counter();
        other.tell(Stand(gate)).wait().unwrap();
        await_arrival(gate);
        (0..60).for_each(|n| drop(eu.tell(Add(n)).wait().unwrap()));
        sent();
        eu.tell(Add(2)).wait().unwrap();
        assert_eq!(sent(), busy, "{drains:?}");
        open_gate(gate);
        // No other process sends any more.
        until("it is as at first", || {
            until("it is drained", drained);
            eu.tell(Add(3)).wait().unwrap();
            sent() == idle
        });
        until("it is drained", drained);
    }
}

/// Workers whose executor has ended give a mailbox back, and do not take it again at once.
#[test]
fn workers_of_an_ended_executor_pause() {
    let steps = Arc::new(AtomicU32::new(0));
    let remote = Remote::builder().over(Counted(MemoryStore::new(), steps.clone())).unwrap();
    let pool = ThreadPool::new().unwrap();
    let boards = kind(&remote).drains(Drains::Never).executor(pool.handle()).open().unwrap();
    boards.of("eu").unwrap().tell(Add(1)).wait().unwrap();
    let _ = pool.shutdown_now();
    let workers = boards.work(1);
    until("it is given back", || steps.load(SeqCst) >= 4);
    thread::sleep(Duration::from_millis(300));
    assert!(steps.load(SeqCst) < 10, "{steps:?}");
    workers.stop().wait().unwrap();
}

/// A store that does not answer for a while.
#[derive(Clone, Debug)]
struct Away(MemoryStore, Arc<AtomicBool>);

impl Store for Away {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        let why = "it is away".to_owned();
        match self.1.load(SeqCst) {
            true => Box::pin(async { Err(StoreError::Unreachable { since: Duration::ZERO, why }) }),
            false => self.0.call(op),
        }
    }

    crate::support::forwards_notices!(0);
}

/// A sender that has drained its message, and could not report that in time, drains it again.
#[test]
fn what_was_not_reported_is_drained_again() {
    let away = Arc::new(AtomicBool::new(false));
    let builder = Remote::builder().give_up_after(Duration::from_millis(200));
    let remote = builder.over(Away(MemoryStore::new(), away.clone())).unwrap();
    let boards = kind(&remote).lease(Duration::from_millis(300)).open().unwrap();
    let eu = boards.of("eu").unwrap();
    let gate = counter();
    let told = eu.tell(Stand(gate)).id("stand").wait();
    assert!(told.is_ok(), "{told:?}");
    await_arrival(gate);
    away.store(true, SeqCst);
    open_gate(gate);
    // The drain ends with an error, after the patience of the client.
    thread::sleep(Duration::from_millis(500));
    away.store(false, SeqCst);
    until("it is handled", || {
        matches!(eu.outcome::<()>("stand").wait().unwrap(), Ok(Outcome::Done(())))
    });
}

/// Code of users that panics beside a handler: as a message, a state or a reply is read, as a reply
/// is written, as a successor is asked.
#[test]
fn panics_beside_handlers_are_told() {
    #[derive(Default, Serialize)]
    struct Wild(u64);
    static READ: AtomicU32 = AtomicU32::new(0);
    impl<'de> Deserialize<'de> for Wild {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let number = u64::deserialize(from)?;
            READ.fetch_add(1, SeqCst);
            assert_ne!(number, 13, "no state");
            Ok(Wild(number))
        }
    }
    #[derive(Serialize)]
    struct Count(u64);
    impl<'de> Deserialize<'de> for Count {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let number = u64::deserialize(from)?;
            assert_ne!(number, 7, "no message");
            Ok(Count(number))
        }
    }
    #[derive(Deserialize)]
    struct Now(u64);
    impl Serialize for Now {
        fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            assert_ne!(self.0, 9, "no reply");
            self.0.serialize(to)
        }
    }
    impl Handler<Count> for Wild {
        type Reply = Now;
        fn handle(&mut self, Count(number): Count, _: &mut Context<'_, Self>) -> Now {
            self.0 = number;
            Now(number)
        }
    }
    let remote = Remote::in_memory();
    let wild = remote.actors::<Wild>("wild").message::<Count>("count").drains(Drains::Never);
    let wild = wild.open().unwrap();
    let a = wild.of("a").unwrap();
    let workers = wild.work(1);
    let reply = |number| a.ask(Count(number)).wait().map(|Now(number)| number);
    assert_eq!(reply(1), Ok(1));
    for (number, why) in [(7, "no message"), (9, "no reply")] {
        let Err(MessageError::Dead { error }) = reply(number) else { panic!("{number}") };
        assert!(error.contains(why), "{error}");
    }
    let thirteen = a.ask(Count(13)).id("thirteen").wait().map(|Now(number)| number);
    assert_eq!(thirteen, Ok(13));
    a.tell(Count(2)).wait().unwrap();
    until("a worker tries it", || READ.load(SeqCst) > 1);
    workers.stop().wait().unwrap();
    let drained = a.drain(Until::empty()).wait().unwrap();
    let Err(MessageError::State(error)) = drained else { panic!("{drained:?}") };
    assert!(error.contains("no state"), "{error}");
    let info = a.info().wait().unwrap().map(drop);
    let Err(MessageError::State(error)) = info else { panic!("{info:?}") };
    assert!(error.contains("no state"), "{error}");
    let outcome = a.outcome::<Wild>("thirteen").wait().unwrap().map(drop);
    let Err(MessageError::Decode(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("no state"), "{error}");

    let b = wild.of("b").unwrap();
    (0..2).for_each(|number| drop(b.tell(Count(number)).wait().unwrap()));
    let budget = || Until::within(Duration::from_nanos(1)).unwrap();
    let at_once = |_: String| -> std::future::Ready<Result<(), String>> { panic!("no host") };
    let drained = b.drain(budget().or_hand_to(at_once)).wait().unwrap().unwrap();
    assert_eq!((drained.handled, drained.left, drained.handed_over), (1, 1, false));
    assert!(drained.refused.as_deref().is_some_and(|why| why.contains("no host")), "{drained:?}");
    b.tell(Count(3)).wait().unwrap();
    let later = |_: String| async { panic!("no host") };
    let drained = b.drain(budget().or_hand_to(later)).wait().unwrap().unwrap();
    assert_eq!((drained.handled, drained.left, drained.handed_over), (1, 1, false));
}

#[test]
fn bad_input_is_an_error() {
    let remote = Remote::in_memory();
    let open = |builder: ActorsBuilder<Board>| builder.open().map(drop).unwrap_err();
    let add = || remote.actors::<Board>("board").message::<Add>("add");
    assert!(matches!(open(remote.actors("board")), ActorsError::NoMessages));
    assert!(matches!(open(add().shards(0)), ActorsError::Shards(0)));
    assert!(matches!(open(add().shards(1025)), ActorsError::Shards(1025)));
    assert!(matches!(open(add().attempts(0)), ActorsError::NoAttempts));
    assert!(matches!(open(add().batch(0)), ActorsError::Batch(0)));
    assert!(matches!(open(add().batch(257)), ActorsError::Batch(257)));
    assert!(matches!(open(add().lease(Duration::from_millis(1))), ActorsError::LeaseTooShort));
    let short = add().keep_outcomes(Duration::from_secs(59));
    assert!(matches!(open(short), ActorsError::KeptTooShort));
    assert!(matches!(open(add().message::<Add>("again")), ActorsError::MessageTwice(_)));
    assert!(matches!(open(add().message::<Flaky>("add")), ActorsError::NameTwice(_)));
    assert!(matches!(open(add().message::<Flaky>("")), ActorsError::Name(NameError::Empty)));
    let unnamed = remote.actors::<Board>("").message::<Add>("add");
    assert!(matches!(open(unnamed), ActorsError::Name(NameError::Empty)));
    let boards = add().open().unwrap();
    let empty = Err(MessageError::Name(NameError::Empty));
    assert_eq!(boards.of("").map(drop), empty);
    let board = boards.of("eu").unwrap();
    assert_eq!(board.tell(Add(1)).id("").wait().map(drop), empty);
    assert_eq!(board.ask(Add(1)).id("").wait().map(drop), empty);
    let flaky = Flaky { failures: 0, counter: 0 };
    let error = board.tell(flaky).wait().unwrap_err();
    assert!(matches!(error, MessageError::Unregistered { .. }), "{error}");
    assert!(error.to_string().contains("Flaky"), "{error}");
    assert_eq!(Until::within(Duration::ZERO).map(drop), Err(NoTime));
    // A limit of zero, and one beyond all clocks.
    assert_eq!(board.ask(Add(1)).within(Duration::MAX).wait(), Ok(1));
    assert!(Until::within(Duration::MAX).is_ok());
}

#[test]
fn messages_too_long_are_refused() {
    #[derive(Default, Serialize, Deserialize)]
    struct Text;
    #[derive(Serialize, Deserialize)]
    struct Line(String);
    impl Handler<Line> for Text {
        type Reply = usize;
        fn handle(&mut self, Line(line): Line, _: &mut Context<'_, Self>) -> usize {
            line.len()
        }
    }
    let remote = Remote::in_memory();
    let text = remote.actors::<Text>("text").message::<Line>("line").open().unwrap();
    let text = text.of("a").unwrap();
    let longest = (1 << 20) - 2;
    assert_eq!(text.ask(Line("x".repeat(longest))).wait(), Ok(longest));
    let error = text.ask(Line("x".repeat(longest + 1))).wait();
    assert_eq!(error, Err(MessageError::TooLong { bytes: (1 << 20) + 1 }));
}

#[test]
fn other_shards_are_told() {
    let store = MemoryStore::new();
    let remote = Remote::builder().over(store.clone()).unwrap();
    board(&remote).tell(Add(1)).wait().unwrap();
    let other = Remote::builder().over(store).unwrap();
    let other = kind(&other).shards(2).open().unwrap();
    // The shard that the other clients use is among them.
    let errors =
        (0..20).filter_map(|n| other.of(&n.to_string()).unwrap().tell(Add(1)).wait().err());
    let errors: Vec<_> = errors.collect();
    assert!(errors.contains(&MessageError::OtherShards { shards: 1 }), "{errors:?}");
}

/// A message that cannot be deserialized is a dead letter at once, and those behind it run.
#[test]
fn messages_that_cannot_be_read_are_dead_letters() {
    #[derive(Serialize, Deserialize)]
    struct Old(String);
    #[derive(Default, Serialize, Deserialize)]
    struct OldBoard;
    impl Handler<Old> for OldBoard {
        type Reply = ();
        fn handle(&mut self, _: Old, _: &mut Context<'_, Self>) {}
    }
    let store = MemoryStore::new();
    let old = Remote::builder().over(store.clone()).unwrap();
    let old = old.actors::<OldBoard>("board").message::<Old>("add").drains(Drains::Never);
    old.open().unwrap().of("eu").unwrap().tell(Old("x".to_owned())).id("old").wait().unwrap();
    let remote = Remote::builder().over(store).unwrap();
    let boards = kind(&remote).open().unwrap();
    assert_eq!(boards.of("eu").unwrap().ask(Add(1)).wait(), Ok(1));
    let letters = boards.dead_letters(0, 10).wait().unwrap().unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((&*letters[0].id, &*letters[0].body, letters[0].attempts), ("old", "\"x\"", 1));
    assert!(
        letters[0].error.starts_with("the message cannot be deserialized"),
        "{}",
        letters[0].error
    );
}

/// A message to the local actor that fails between two stored ones stops that actor only.
#[test]
fn local_actors_that_end_between_messages_are_replaced() {
    #[derive(Default, Serialize, Deserialize)]
    struct Number(u64);
    #[derive(Serialize, Deserialize)]
    struct Stray;
    impl Handler<Add> for Number {
        type Reply = u64;
        fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> u64 {
            self.0 += n;
            self.0
        }
    }
    impl Handler<Stray> for Number {
        type Reply = ();
        fn handle(&mut self, _: Stray, context: &mut Context<'_, Self>) {
            let this = context.actor().unwrap();
            this.send(|_: &mut Self| panic!("a stray message")).unwrap();
        }
    }
    let remote = Remote::in_memory();
    let kind = remote.actors::<Number>("number").message::<Add>("add");
    let numbers = kind.message::<Stray>("stray").drains(Drains::Never).open().unwrap();
    let number = numbers.of("a").unwrap();
    number.tell(Add(1)).wait().unwrap();
    number.tell(Stray).wait().unwrap();
    number.tell(Add(2)).wait().unwrap();
    let drained = number.drain(Until::empty()).wait().unwrap().unwrap();
    assert_eq!((drained.handled, drained.failed, drained.left), (3, 0, 0));
    assert_eq!(number.info().wait().unwrap().unwrap().state.unwrap().0, 3);
}

/// A state that cannot be deserialized runs nothing, and loses nothing.
#[test]
fn states_that_cannot_be_read_are_told() {
    #[derive(Default, Serialize, Deserialize)]
    struct Number(u64);
    impl Handler<Add> for Number {
        type Reply = usize;
        fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> usize {
            self.0 += n;
            0
        }
    }
    let store = MemoryStore::new();
    let old = Remote::builder().over(store.clone()).unwrap();
    let old = old.actors::<Number>("board").message::<Add>("add").open().unwrap();
    old.of("eu").unwrap().ask(Add(3)).wait().unwrap();
    let remote = Remote::builder().over(store).unwrap();
    let board = kind(&remote).drains(Drains::Never).open().unwrap().of("eu").unwrap();
    board.tell(Add(1)).wait().unwrap();
    let drained = board.drain(Until::empty()).wait().unwrap();
    assert!(matches!(drained, Err(MessageError::State(_))), "{drained:?}");
    let info = board.info().wait().unwrap();
    assert!(matches!(info, Err(MessageError::State(_))), "{info:?}");
    assert_eq!(old.of("eu").unwrap().ask(Add(4)).wait(), Ok(0));
    let info = old.of("eu").unwrap().info().wait().unwrap().unwrap();
    assert_eq!((info.state.unwrap().0, info.waiting), (8, 0));
}

/// With one attempt, a message that a dead drainer may have begun never begins again.
#[test]
fn one_attempt_is_at_most_once() {
    let store = MemoryStore::new();
    let client = || Remote::builder().over(store.clone()).unwrap();
    let pool = ThreadPool::new().unwrap();
    let lease = Duration::from_millis(300);
    let here = client();
    let once = kind(&here).attempts(1).lease(lease).executor(pool.handle()).open().unwrap();
    let gate = counter();
    once.of("eu").unwrap().tell(Hang(gate)).id("hang").wait().unwrap();
    await_arrival(gate);
    let _ = pool.shutdown_now();
    let there = client();
    let boards = kind(&there).attempts(1).lease(lease).open().unwrap();
    assert_eq!(boards.of("eu").unwrap().ask(Add(2)).wait(), Ok(1));
    let outcome = boards.of("eu").unwrap().outcome::<()>("hang").wait().unwrap().unwrap();
    assert!(matches!(outcome, Outcome::Dead { .. }), "{outcome:?}");
}

/// Handlers run, and states are dropped, on the executor's threads, and not on the client's.
#[test]
fn states_are_dropped_on_executors() {
    static ON_CLIENT: AtomicU32 = AtomicU32::new(0);
    static DROPPED: AtomicU32 = AtomicU32::new(0);
    #[derive(Default, Serialize, Deserialize)]
    struct Watched(u64);
    impl Drop for Watched {
        fn drop(&mut self) {
            let here = thread::current().name() == Some("turnwise-redis");
            ON_CLIENT.fetch_add(u32::from(here), SeqCst);
            DROPPED.fetch_add(1, SeqCst);
        }
    }
    impl Handler<Add> for Watched {
        type Reply = u64;
        fn handle(&mut self, Add(n): Add, _: &mut Context<'_, Self>) -> u64 {
            assert_ne!(n, 7, "it fails");
            self.0 += n;
            self.0
        }
    }
    let remote = Remote::in_memory();
    let pool = ThreadPool::new().unwrap();
    for executor in [ThreadPool::global().clone(), pool.handle()] {
        let kind = remote.actors::<Watched>("watched").message::<Add>("add").executor(executor);
        let kind = kind.attempts(2).pause(Duration::from_millis(1)).open().unwrap();
        for actor in ["a", "b"] {
            let actor = kind.of(actor).unwrap();
            for n in [1, 7, 2] {
                let _ = actor.ask(Add(n)).wait();
            }
        }
        let workers = kind.work(2);
        assert!(kind.of("a").unwrap().ask(Add(3)).wait().is_ok());
        workers.stop().wait().unwrap();
        // A snapshot that is not taken.
        drop(kind.of("b").unwrap().info());
        drop(kind.of("b").unwrap().info().wait().unwrap());
    }
    let _ = pool.shutdown_now();
    until("states are dropped", || DROPPED.load(SeqCst) >= 12);
    assert_eq!(ON_CLIENT.load(SeqCst), 0);
}

/// A state that is read for long, or waits for its client as it is read, delays nothing else.
#[test]
fn states_are_read_beside_the_client() {
    static GATE: Mutex<Option<usize>> = Mutex::new(None);
    #[derive(Default, Serialize)]
    struct Slow;
    impl<'de> Deserialize<'de> for Slow {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            <()>::deserialize(from)?;
            let gate = *GATE.lock().unwrap();
            gate.into_iter().for_each(stand);
            Ok(Slow)
        }
    }
    impl Handler<Add> for Slow {
        type Reply = ();
        fn handle(&mut self, _: Add, _: &mut Context<'_, Self>) {}
    }
    let remote = Remote::in_memory();
    let slow = remote.actors::<Slow>("slow").message::<Add>("add").drains(Drains::Never);
    let a = slow.open().unwrap().of("a").unwrap();
    a.tell(Add(1)).id("first").wait().unwrap();
    assert_eq!(a.drain(Until::empty()).wait().unwrap().unwrap().handled, 1);
    let gate = counter();
    *GATE.lock().unwrap() = Some(gate);
    let info = a.info();
    await_arrival(gate);
    let told = a.tell(Add(2)).send();
    until("it is stored", || told.is_ready());
    assert!(!info.is_ready());
    open_gate(gate);
    assert!(info.wait().unwrap().unwrap().state.is_some());
}

/// A program may end with a message just sent: it is stored, and a handler that has begun
/// completes.
#[test]
fn what_was_told_is_drained_before_the_last_handle_goes() {
    let store = MemoryStore::new();
    let remote = Remote::builder().over(store.clone()).unwrap();
    let eu = board(&remote);
    drop(eu.tell(Add(1)).send());
    drop((eu, remote));
    let remote = Remote::builder().over(store).unwrap();
    assert_eq!(added(&board(&remote)), [1]);
}

/// A store that notes when its client ends.
#[derive(Debug)]
struct Left(MemoryStore, Arc<AtomicBool>);

impl Store for Left {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        self.0.call(op)
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        self.0.listen(client, sink);
    }

    fn forget(&self, client: &str) {
        self.0.forget(client);
        self.1.store(true, SeqCst);
    }
}

/// The client of a request that was dropped looks for its reply no more.
#[test]
fn clients_end_although_requests_have_no_reply() {
    let (store, left) = (MemoryStore::new(), Arc::new(AtomicBool::new(false)));
    let remote = builder().place(Duration::from_millis(30));
    let remote = remote.over(Left(store.clone(), left.clone())).unwrap();
    let eu = kind(&remote).drains(Drains::Never).open().unwrap().of("eu").unwrap();
    let asked = eu.ask(Add(1)).id("asked").send();
    until("it is stored", || eu.info().wait().unwrap().unwrap().waiting == 1);
    drop((asked, eu, remote));
    until("the client ends", || left.load(SeqCst));
    let remote = Remote::builder().over(store).unwrap();
    assert_eq!(board(&remote).ask(Add(1)).id("asked").wait(), Ok(1));
}

#[test]
fn tasks_await_replies_on_any_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let remote = Remote::in_memory();
    let board = board(&remote);
    runtime.block_on(async {
        let id = board.tell(Add(1)).await.unwrap();
        assert_eq!(board.ask(Add(2)).await, Ok(2));
        assert_eq!(board.outcome::<usize>(&id).await.unwrap(), Ok(Outcome::Done(1)));
        assert_eq!(board.ask(Charge(true)).within(Duration::from_secs(5)).await, Ok(Ok(7)));
    });
}
