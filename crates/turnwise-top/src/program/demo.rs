//! A small program whose actors are in all states: `turnwise-top --demo`.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{
    Actor, ActorBuilder, Budget, Limit, Overflow, PanicPolicy, Restarts, System, ThreadPool,
};
use turnwise_top::{Address, Client, DeadLetter, Report, Server, StoredActor};

use crate::Failure;
use crate::table::Table;

/// The program runs until this process ends: its threads are not waited for.
pub(crate) struct Demo {
    server: Server,
    _system: System,
}

impl Demo {
    pub(crate) fn start() -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure(1, error.to_string());
        let system = System::new();
        let server = turnwise_top::serve(&system).map_err(|error| failed(&error))?;
        server.source("mail", mailboxes()).map_err(|error| failed(&error))?;
        // As many threads as there are turns that hold one up.
        let pool = ThreadPool::builder().threads(10).build().map_err(|error| failed(&error))?;
        // Its drop would wait for turns that sleep.
        let pool: &'static ThreadPool = Box::leak(Box::new(pool));
        start(&system, pool).map_err(|error| failed(&error))?;
        Ok(Demo { server, _system: system })
    }

    pub(crate) fn address(&self) -> &Address {
        self.server.address()
    }
}

/// A source of made-up mailboxes in a store, which grow and are emptied.
fn mailboxes() -> impl FnMut() -> Result<Report, Infallible> + Send {
    let mut calls = 0;
    move || {
        calls += 1;
        let (mut ada, mut bob) = (StoredActor::new("ada"), StoredActor::new("bob"));
        (ada.running, ada.queued, ada.failed_attempts) = (true, 1 + calls % 5, 1);
        bob.delayed = 2;
        let mut letter = DeadLetter::new("ada", "order 7");
        (letter.message, letter.attempts) = ("send".to_owned(), 3);
        letter.error = "no such address".to_owned();
        let mut report = Report::default();
        report.actors.extend([ada, bob]);
        report.dead_letters.push(letter);
        Ok(report)
    }
}

type Error = Box<dyn std::error::Error + Send + Sync>;

fn start(system: &System, pool: &'static ThreadPool) -> Result<(), Error> {
    let named = |name: &str| Actor::builder().name(name).counted(true).executor(pool.handle());
    let spawn = |builder: ActorBuilder<u64>| system.spawn(builder, 0);

    let orders = spawn(named("orders"))?;
    let mailer = spawn(named("mailer").capacity(64, Overflow::Reject).budget(Budget::turns(1)))?;
    let policy =
        PanicPolicy::restart_within(Restarts::at_most(1_000, Duration::from_secs(60)), || 0);
    let parser = spawn(named("parser").panic_policy(policy))?;
    let session = spawn(named("session"))?;
    let [ledger, stock, till] =
        [spawn(named("ledger"))?, spawn(named("stock"))?, spawn(named("till"))?];
    // One that is not counted.
    let report = spawn(Actor::builder().name("report").executor(pool.handle()))?;
    let config = spawn(named("config"))?;
    let (replayed, never) = (DrainQueue::new(), DrainQueue::new());
    let replay = spawn(Actor::builder().name("replay").counted(true).executor(replayed.handle()))?;
    let archive = spawn(Actor::builder().name("archive").counted(true).executor(never.handle()))?;

    repeat(Duration::from_millis(10), move || {
        (0..50).for_each(|_| drop(orders.send(|n| *n += 1)));
    });
    // More than it can do: its mailbox is full, and the sender waits for room.
    repeat(Duration::ZERO, move || {
        let _ = mailer.waiting().send(|_| thread::sleep(Duration::from_millis(300))).wait();
    });
    repeat(Duration::from_millis(700), move || {
        let _ = parser.send(|n| *n += 1);
        // As a panic, without its message on the terminal.
        let _ = parser.send(|_| resume_unwind(Box::new("bad input")));
    });
    let hour = Duration::from_secs(3600);
    let turn = session.run(async move |_| Timers::global().sleep(hour).await);
    let _ = session.send(|n| *n += 1);
    let _ = report.send(move |_| thread::sleep(hour));
    repeat(Duration::from_secs(5), move || {
        let _ = replayed.run_until_idle();
        (0..40).for_each(|_| drop(replay.send(|n| *n += 1)));
    });
    (0..18).for_each(|_| drop(archive.send(|n| *n += 1)));
    archive.close();
    // What waits goes with its queue.
    std::mem::forget((never, archive, session, report, config, turn));
    waits(ledger, stock, till);
    Ok(())
}

/// Runs `f` for as long as the process lives.
fn repeat(pause: Duration, mut f: impl FnMut() + Send + 'static) {
    thread::spawn(move || {
        loop {
            f();
            thread::sleep(pause);
        }
    });
}

/// The ledger asks the stock, which asks back: a ring, until the limit of the first is over. The
/// till waits for both.
fn waits(ledger: Actor<u64>, stock: Actor<u64>, till: Actor<u64>) {
    let limit = Duration::from_secs(6);
    repeat(Duration::from_secs(2), move || {
        let (asks, asked) = (stock.clone(), ledger.clone());
        let ring = ledger.call(move |_| {
            let back = move |_: &mut u64| asked.call(|n| *n).within(2 * limit).is_ok();
            asks.call(back).within(limit).is_ok()
        });
        let asked = ledger.clone();
        let _ = till.send(move |_| drop(asked.call(|n| *n).wait()));
        let _ = ring.within(Limit::Unlimited);
    });
}

/// Waits for the moment at which the table shows all of it.
pub(crate) fn until_all_is_shown(client: &mut Client) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let snapshot = client.snapshot()?;
        let has = |activity: &str| snapshot.actors.iter().any(|actor| actor.activity == activity);
        let activities = ["idle", "scheduled", "running", "waiting"];
        let reported = snapshot.sources.iter().all(|source| !source.report.actors.is_empty());
        let rings = Table::of(&snapshot, None).rings;
        if activities.iter().all(|activity| has(activity)) && reported && rings > 0 {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(30) {
            return Err(Failure(1, "the demo does not come to its ring of waits".to_owned()));
        }
    }
}
