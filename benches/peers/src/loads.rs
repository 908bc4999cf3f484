//! The loads. Each is done when everything has been handled, and then its answer is checked.

use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::peer::{Clocks, Peer, State, Took, Trial};

/// No trial takes longer by itself.
const HANGS: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Several send to one actor.
    Tell { senders: usize, handler_ns: u32 },
    /// Several ask one actor, one request at a time each.
    Ask { askers: usize },
    /// One message goes round.
    Pass { actors: usize },
    /// Actors are created, handle one message each, and are dropped.
    Create,
    /// Several ask any of many actors, one request at a time each.
    Random { askers: usize },
}

/// The number of actors where there are many.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) created: usize,
    pub(crate) asked: usize,
}

/// The amount of work, and its duration.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) took: Took,
}

/// Runs a future on the host of the peer's users, and waits for it.
pub(crate) fn wait<P: Peer, R: Send + 'static>(
    task: impl Future<Output = R> + Send + 'static,
) -> R {
    let (give, take) = channel();
    P::launch(0, async move {
        let result = task.await;
        // After a hang the receiver is gone.
        let _ = give.send(result);
    });
    take.recv_timeout(HANGS).unwrap_or_else(|why| match why {
        RecvTimeoutError::Timeout => {
            panic!("{}, {}: hangs, or has lost messages", P::PACKAGE, P::WAY)
        }
        RecvTimeoutError::Disconnected => panic!("{}, {}: failed, see above", P::PACKAGE, P::WAY),
    })
}

/// Runs one trial of about this many operations, each of which works for `rounds` where the load
/// has a handler.
pub(crate) fn run<P: Peer>(load: Load, operations: u64, rounds: u32, sizes: Sizes) -> Done {
    match load {
        Load::Tell { senders, .. } => {
            wait::<P, _>(tell::<P>(senders, operations.div_ceil(senders as u64), rounds))
        }
        Load::Ask { askers } => wait::<P, _>(ask::<P>(askers, operations.div_ceil(askers as u64))),
        Load::Pass { actors } => {
            wait::<P, _>(pass::<P>(actors, operations.div_ceil(actors as u64)))
        }
        Load::Create => wait::<P, _>(create::<P>(sizes.created.min(P::MOST))),
        Load::Random { askers } => {
            wait::<P, _>(random::<P>(askers, operations.div_ceil(askers as u64), sizes.asked))
        }
    }
}

async fn tell<P: Peer>(senders: usize, each: u64, rounds: u32) -> Done {
    let operations = each * senders as u64;
    let trial = Trial::new(1);
    let actor = P::spawn(0, State::new(&trial, operations)).await;
    let start = Clocks::now();
    for place in 0..senders {
        let actor = actor.clone();
        P::launch(place, async move {
            for _ in 0..each {
                actor.tell(rounds).await;
            }
        });
    }
    let end = trial.handled.reached().await;
    exactly(&actor).await;
    actor.end();
    trial.gone.reached().await;
    Done { operations, took: start.until(end) }
}

async fn ask<P: Peer>(askers: usize, each: u64) -> Done {
    let operations = each * askers as u64;
    let trial = Trial::new(1);
    let actor = P::spawn(0, State::new(&trial, operations)).await;
    let start = Clocks::now();
    let asking = |place| {
        let actor = actor.clone();
        result_of::<P, _>(place, async move {
            let mut sum = 0;
            for _ in 0..each {
                sum += actor.ask(0).await;
            }
            sum
        })
    };
    let mut sum = 0;
    for asker in (0..askers).map(asking).collect::<Vec<_>>() {
        sum += asker.await.expect("an asker failed");
    }
    let took = start.until(Clocks::now());
    // The answers are the numbers below, each once.
    assert_eq!(sum, operations * (operations - 1) / 2, "{}: wrong answers", P::PACKAGE);
    exactly(&actor).await;
    actor.end();
    trial.gone.reached().await;
    Done { operations, took }
}

async fn pass<P: Peer>(actors: usize, each: u64) -> Done {
    let operations = each * actors as u64;
    let trial = Trial::new(actors);
    let mut ring = Vec::with_capacity(actors);
    for _ in 0..actors {
        // All in one place, because only one of them works at a time.
        ring.push(P::spawn(0, State::new(&trial, each)).await);
    }
    for (i, actor) in ring.iter().enumerate() {
        actor.link(Some(ring[(i + 1) % actors].clone())).await;
    }
    let start = Clocks::now();
    ring[0].pass(operations).await;
    let end = trial.handled.reached().await;
    for actor in &ring {
        exactly(actor).await;
        // Without this they would keep each other for ever.
        actor.link(None).await;
    }
    ring.into_iter().for_each(P::end);
    trial.gone.reached().await;
    Done { operations, took: start.until(end) }
}

async fn create<P: Peer>(actors: usize) -> Done {
    let trial = Trial::new(actors);
    let mut all = Vec::with_capacity(actors);
    let start = Clocks::now();
    for place in 0..actors {
        all.push(P::spawn(place, State::new(&trial, 1)).await);
    }
    for actor in &all {
        actor.tell(0).await;
    }
    trial.handled.reached().await;
    all.into_iter().for_each(P::end);
    let end = trial.gone.reached().await;
    Done { operations: actors as u64, took: start.until(end) }
}

/// Returns the resident bytes of each of this many idle actors and its handle, once each has
/// handled a message; `None` where the system does not report them.
pub(crate) fn resident<P: Peer>(actors: usize) -> Option<f64> {
    let actors = actors.min(P::MOST);
    wait::<P, _>(async move {
        let trial = Trial::new(actors);
        let mut all = Vec::with_capacity(actors);
        let before = resident_now()?;
        for place in 0..actors {
            all.push(P::spawn(place, State::new(&trial, 1)).await);
        }
        for actor in &all {
            actor.tell(0).await;
        }
        trial.handled.reached().await;
        let after = resident_now()?;
        all.into_iter().for_each(P::end);
        trial.gone.reached().await;
        Some((after - before) / actors as f64)
    })
}

async fn random<P: Peer>(askers: usize, each: u64, actors: usize) -> Done {
    let operations = each * askers as u64;
    let trial = Trial::new(actors);
    let mut all = Vec::with_capacity(actors);
    for place in 0..actors {
        all.push(P::spawn(place, State::new(&trial, u64::MAX)).await);
    }
    let all = std::sync::Arc::new(all);
    let start = Clocks::now();
    let asking = |place| {
        let all = all.clone();
        result_of::<P, _>(place, async move {
            let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(place as u64 + 1);
            for _ in 0..each {
                // Xorshift.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                all[(random % all.len() as u64) as usize].ask(0).await;
            }
        })
    };
    for asker in (0..askers).map(asking).collect::<Vec<_>>() {
        asker.await.expect("an asker failed");
    }
    let took = start.until(Clocks::now());
    let mut handled = 0;
    for actor in all.iter() {
        // Without the request itself.
        handled += u64::MAX - actor.ask(0).await - 1;
    }
    assert_eq!(handled, operations, "{}: questions were lost", P::PACKAGE);
    for actor in all.iter() {
        actor.clone().end();
    }
    drop(all);
    trial.gone.reached().await;
    Done { operations, took }
}

/// Nothing was handled twice: the next message is the first that was not waited for.
async fn exactly<P: Peer>(actor: &P) {
    assert_eq!(actor.ask(0).await, u64::MAX, "{}: handled more than was sent", P::PACKAGE);
}

/// Launches a future that has a result.
fn result_of<P: Peer, R: Send + 'static>(
    place: usize,
    task: impl Future<Output = R> + Send + 'static,
) -> oneshot::Receiver<R> {
    let (give, take) = oneshot::channel();
    P::launch(place, async move {
        // The receiver is gone after a failure.
        let _ = give.send(task.await);
    });
    take
}

/// Returns the resident bytes of this process, where the system reports them.
fn resident_now() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .trim()
        .strip_suffix(" kB")?
        .parse()
        .ok()?;
    Some(kilobytes * 1024.0)
}
