//! Progress of executors: beside hooks that wait, turns that block, and without threads.

use std::collections::HashSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::{in_child, in_child_with};
use crate::common::{Tally, until};
use crate::verbs::{on_undelivered, post};
use turnwise::executor::{DrainQueue, Shutdown};
use turnwise::{Actor, Drain, Executor, Limit, ThreadPool, blocking};

const PATIENCE: Duration = Duration::from_secs(60);

fn within(limit: Duration, so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !so() && begun.elapsed() < limit {
        thread::yield_now();
    }
    so()
}

/// Sends itself to its actor again, until `stop` or a refusal.
fn again(actor: Actor<()>, stop: Arc<AtomicBool>) {
    let next = actor.clone();
    let _ = actor.send(move |()| {
        if !stop.load(SeqCst) {
            again(next, stop);
        }
    });
}

/// A worker that announced to a pool which had just ended swept its queues, and so ran undelivered
/// hooks, while its place was borrowed. A hook that waited met `RefCell already borrowed` where no
/// panic may unwind, and the process was aborted.
#[test]
fn hook_may_wait_while_a_pool_ends() {
    in_child("hook_may_wait_while_a_pool_ends", PATIENCE, || {
        let busy = Actor::new(());
        let over = Arc::new(AtomicBool::new(false));
        let keeper = thread::spawn({
            let (busy, over) = (busy.clone(), over.clone());
            move || {
                while !over.load(SeqCst) {
                    busy.with(|()| thread::sleep(Duration::from_micros(200))).unwrap();
                }
            }
        });
        let begun = Instant::now();
        let mut rounds = 0;
        while rounds < 400 && begun.elapsed() < Duration::from_secs(20) {
            rounds += 1;
            let pool = ThreadPool::builder().threads(3).build().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let actors: Vec<_> = (0..12)
                .map(|_| {
                    let busy = busy.clone();
                    let hook = move || _ = busy.with(|()| ());
                    let builder = Actor::builder().executor(pool.handle()).budget(1);
                    on_undelivered(builder, hook).spawn(()).unwrap()
                })
                .collect();
            actors.iter().for_each(|actor| again(actor.clone(), stop.clone()));
            let spins = 2_000 + rounds * 37 % 4_000;
            (0..spins).for_each(|_| std::hint::spin_loop());
            let shutdown = pool.shutdown_now();
            assert!(matches!(shutdown, Shutdown::Cut { .. } | Shutdown::Complete), "{shutdown:?}");
            stop.store(true, SeqCst);
        }
        over.store(true, SeqCst);
        keeper.join().unwrap();
    });
}

/// The drain in a worker's LIFO slot was announced to no worker: with three idle workers, a message
/// began when the turn that had sent it was over.
#[test]
fn idle_workers_take_what_a_long_turn_has_sent() {
    let pool = ThreadPool::builder().threads(4).build().unwrap();
    let long = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    let other = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    // This thread only looks: if it waited for an actor, it might run it.
    let (tell, told) = mpsc::channel();
    let turn = move |(): &mut ()| {
        let (begun, begins) = mpsc::channel();
        // The other workers have no work, and sleep by now.
        thread::sleep(Duration::from_millis(100));
        other.send(move |()| _ = begun.send(())).unwrap();
        // A long turn that the pool does not know of.
        tell.send(begins.recv_timeout(Duration::from_secs(3)).is_ok()).unwrap();
    };
    long.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
    assert_eq!(told.recv(), Ok(true), "it waits for the end of a long turn, beside idle workers");
    assert!(pool.shutdown(PATIENCE).is_complete());
}

/// No system provides a stack of this size: a child with this variable starts no thread.
const NO_THREADS: &[(&str, &str)] = &[("RUST_MIN_STACK", "1125899906842624")];

#[track_caller]
fn no_thread_is_to_be_had() {
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "this scenario wants no threads");
}

/// True if the message ran during `send`, under this thread's lock.
fn runs_in_the_call(send: impl FnOnce(Box<dyn FnOnce() + Send>)) -> bool {
    let (lock, ran_in_call) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let locked = lock.lock().unwrap();
    let (wanted, tells) = (lock.clone(), ran_in_call.clone());
    send(Box::new(move || tells.store(wanted.try_lock().is_err(), SeqCst)));
    let ran = ran_in_call.load(SeqCst);
    drop(locked);
    ran
}

/// `post` ran its message in the call, under the caller's lock, when the global pool had no thread.
/// Its docs promised the opposite.
#[test]
fn post_never_runs_here_without_threads() {
    in_child_with("post_never_runs_here_without_threads", PATIENCE, NO_THREADS, || {
        no_thread_is_to_be_had();
        let actor = Actor::new(());
        let ran = runs_in_the_call(|message| _ = post(&actor, |()| message()));
        assert!(!ran, "a posted message ran in the call, under the caller's lock");
    });
}

/// Refuses every drain.
struct Refuses;

impl Executor for Refuses {
    fn execute(&self, drain: Drain) {
        drop(drain);
    }

    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        Err(drain)
    }
}

/// The executor refuses, and there is no thread: the sender's call ran it.
#[test]
fn refused_drain_never_runs_here_without_threads() {
    let name = "refused_drain_never_runs_here_without_threads";
    in_child_with(name, PATIENCE, NO_THREADS, || {
        no_thread_is_to_be_had();
        let actor = Actor::builder().executor(Refuses).spawn(()).unwrap();
        let ran = runs_in_the_call(|message| _ = actor.send(|()| message()));
        assert!(!ran, "an actor with an executor ran in its sender's call");
    });
}

/// As many turns as the global pool has workers blocked with the standard library, and the messages
/// of an unrelated actor waited for them.
#[test]
fn turns_that_block_stop_no_unrelated_actor() {
    in_child("turns_that_block_stop_no_unrelated_actor", PATIENCE, || {
        let workers = ThreadPool::global().threads();
        let (begun, begins) = mpsc::channel();
        let (done, gate) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let blocked: Vec<_> = (0..workers)
            .map(|_| {
                let (actor, begun, done) = (Actor::new(()), begun.clone(), done.clone());
                let turn = move |(): &mut ()| {
                    begun.send(()).unwrap();
                    while !done.load(SeqCst) && gate.elapsed() < Duration::from_secs(6) {
                        thread::sleep(Duration::from_millis(1));
                    }
                };
                assert!(post(&actor, turn));
                actor
            })
            .collect();
        (0..workers).for_each(|_| begins.recv().unwrap());
        let (other, (ran, runs)) = (Actor::new(()), mpsc::channel());
        assert!(post(&other, move |()| _ = ran.send(())));
        let in_time = runs.recv_timeout(Duration::from_secs(3)).is_ok();
        done.store(true, SeqCst);
        assert!(in_time, "{workers} turns that block stop everybody in the pool of the process");
        drop(blocked);
    });
}

/// The threads of this process.
fn threads() -> usize {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("a Linux tells of its threads");
    let line = status.lines().find(|line| line.starts_with("Threads:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Opens once, for all.
#[derive(Default)]
struct Barrier(Mutex<bool>, Condvar);

impl Barrier {
    fn wait(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }

    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

/// Each turn sends to the next actor and then waits. One `send` into such a chain started a thread
/// for each of its turns.
#[test]
fn waiting_turns_make_a_bounded_number_of_threads() {
    in_child("waiting_turns_make_a_bounded_number_of_threads", PATIENCE, || {
        const CHAIN: usize = 1_500;
        /// The maximum of a pool for waiting turns by default, and some.
        const MOST: usize = 256 + 64;
        let (barrier, tally) = (Arc::new(Barrier::default()), Tally::default());
        let (begun, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let actors: Vec<_> = (0..CHAIN).map(|_| Actor::new(())).collect();
        struct Chain {
            actors: Vec<Actor<()>>,
            barrier: Arc<Barrier>,
            begun: Arc<AtomicUsize>,
            tally: Tally,
        }
        fn go(chain: Arc<Chain>, at: usize) {
            let Some(actor) = chain.actors.get(at).cloned() else { return };
            let token = chain.tally.token();
            let turn = move |(): &mut ()| {
                chain.begun.fetch_add(1, SeqCst);
                go(chain.clone(), at + 1);
                blocking(|| chain.barrier.wait());
                token.handle();
            };
            actor.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
        }
        let chain = Arc::new(Chain {
            actors,
            barrier: barrier.clone(),
            begun: begun.clone(),
            tally: tally.clone(),
        });
        // Its first turn may be this thread's own, so another thread opens the barrier.
        let opener = thread::spawn({
            let (begun, most) = (begun.clone(), most.clone());
            move || {
                let mut last = (0, Instant::now());
                // Until all have begun, or no further ones do.
                while begun.load(SeqCst) < CHAIN && last.1.elapsed() < Duration::from_secs(2) {
                    most.fetch_max(threads(), SeqCst);
                    let now = begun.load(SeqCst);
                    last = if now > last.0 { (now, Instant::now()) } else { last };
                    thread::yield_now();
                }
                most.fetch_max(threads(), SeqCst);
                barrier.open();
            }
        });
        let workers = ThreadPool::global().threads();
        go(chain, 0);
        opener.join().unwrap();
        assert!(within(PATIENCE / 2, || tally.handled() == CHAIN), "{} ran", tally.handled());
        tally.check_all_handled();
        let most = most.load(SeqCst);
        assert!(most <= workers + MOST, "{most} threads for {CHAIN} turns that wait");
    });
}

/// A loop that forwarded 1,000 messages started 188 threads. Now it is a `DrainQueue` that the loop
/// runs: each of its turns forwards a message, and then waits.
#[test]
fn forwarding_starts_few_threads() {
    in_child("forwarding_starts_few_threads", PATIENCE, || {
        const MESSAGES: usize = 1_000;
        let (queue, tally) = (DrainQueue::new(), Tally::default());
        let sinks: Vec<_> = (0..8).map(|_| Actor::new(HashSet::new())).collect();
        let forwards = Actor::builder().executor(queue.handle()).spawn(sinks.clone()).unwrap();
        for number in 0..MESSAGES {
            let token = tally.token();
            let turn = move |sinks: &mut Vec<Actor<HashSet<thread::ThreadId>>>| {
                let message = move |seen: &mut HashSet<thread::ThreadId>| {
                    seen.insert(thread::current().id());
                    token.handle();
                };
                sinks[number % 8].send(message).unwrap_or_else(|refused| panic!("{refused}"));
                blocking(thread::yield_now);
            };
            forwards.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
        }
        queue.run_until_idle();
        tally.check_all_handled();
        let mut seen = HashSet::new();
        for sink in &sinks {
            seen.extend(sink.with(|seen| seen.clone()).unwrap());
        }
        // The loop's own thread, the global pool, and its spare threads.
        let most = 1 + ThreadPool::global().threads() + 32;
        assert!(seen.len() <= most, "{} threads ran {MESSAGES} messages", seen.len());
    });
}

/// Inside a turn, a queue counted drains that it had only deferred.
#[test]
fn queue_counts_only_what_it_has_run() {
    for run in [
        (|queue| queue.run_until_idle()) as fn(&DrainQueue) -> usize,
        |queue| queue.run_for(Limit::Immediate),
        |queue| queue.run_for(Duration::from_millis(20)),
        |queue| usize::from(queue.run_one()),
    ] {
        let queue = Arc::new(DrainQueue::new());
        let ran = Arc::new(AtomicUsize::new(0));
        let other = Actor::builder().executor(queue.handle()).spawn(()).unwrap();
        let tells = ran.clone();
        let turn = {
            let (queue, ran) = (queue.clone(), ran.clone());
            move |(): &mut ()| {
                other.send(move |()| _ = tells.fetch_add(1, SeqCst)).unwrap();
                (run(&queue), ran.load(SeqCst))
            }
        };
        let actor = Actor::builder().executor(queue.handle()).spawn(()).unwrap();
        let counts = actor.call(turn);
        queue.run_until_idle();
        let (counted, ran_by_then) = counts.wait().unwrap();
        assert_eq!(counted, ran_by_then, "counted, and run by then");
        assert_eq!(ran.load(SeqCst), 1, "in the end it is run");
    }
}

/// `run_until_closed` inside a turn deferred the drain that would have closed the queue, and waited
/// for it for ever.
#[test]
fn run_until_closed_in_a_turn_returns() {
    in_child("run_until_closed_in_a_turn_returns", Duration::from_secs(15), || {
        let queue = Arc::new(DrainQueue::new());
        let closes = Actor::builder().executor(queue.handle()).spawn(queue.clone()).unwrap();
        let runs = Actor::builder().executor(queue.handle()).spawn(queue.clone()).unwrap();
        runs.send(move |queue| {
            closes.send(|queue| queue.close()).unwrap();
            queue.run_until_closed();
        })
        .unwrap();
        queue.run_until_idle();
    });
}

/// A long limit is no reason to wait either.
#[test]
fn run_for_in_a_turn_runs_or_returns() {
    in_child("run_for_in_a_turn_runs_or_returns", Duration::from_secs(15), || {
        let queue = Arc::new(DrainQueue::new());
        let other = Actor::builder().executor(queue.handle()).spawn(queue.clone()).unwrap();
        let runs = Actor::builder().executor(queue.handle()).spawn(queue.clone()).unwrap();
        runs.send(move |queue| {
            other.send(|queue| queue.close()).unwrap();
            queue.run_for(PATIENCE);
        })
        .unwrap();
        queue.run_until_idle();
    });
}

#[cfg(feature = "rayon")]
mod with_rayon {
    use super::*;
    use turnwise::executor::Rayon;

    fn rayon_pool(threads: usize) -> Arc<rayon::ThreadPool> {
        Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
    }

    /// A turn that was in `rayon::join` took up another actor's drain while it waited, and only
    /// listed it: the work for which the other branch waited was behind the turn itself, although a
    /// third thread was idle.
    #[test]
    fn drain_taken_up_in_a_join_is_run() {
        let pool = rayon_pool(3);
        let other = Actor::builder().executor(Rayon::new(pool.clone())).spawn(()).unwrap();
        let joins = Actor::builder().executor(Rayon::new(pool.clone())).spawn(()).unwrap();
        let inner = pool.clone();
        // This thread only looks: if it waited for an actor, it might run it.
        let (tell, told) = mpsc::channel();
        let turn = move |(): &mut ()| {
            let (answers, answer) = mpsc::channel();
            let (begun, begins) = mpsc::channel();
            let (held, holds) = mpsc::channel();
            let (_, answered) = rayon::join(
                move || {
                    begins.recv().unwrap();
                    // The third thread is in a long turn when the drain comes, and idle then.
                    inner.spawn(move || {
                        held.send(()).unwrap();
                        thread::sleep(Duration::from_millis(300));
                    });
                    holds.recv().unwrap();
                    other.send(move |()| _ = answers.send(())).unwrap();
                },
                move || {
                    begun.send(()).unwrap();
                    answer.recv_timeout(Duration::from_secs(4)).is_ok()
                },
            );
            tell.send(answered).unwrap();
        };
        joins.send(turn).unwrap_or_else(|refused| panic!("{refused}"));
        assert_eq!(told.recv(), Ok(true), "a drain lies behind the turn that took it up");
    }
}

/// A message from outside runs in time, beside actors that are never idle.
#[track_caller]
fn is_fair<E: Executor + 'static>(executor: impl Fn() -> E) {
    let limit = Duration::from_secs(5);
    let build = || Actor::builder().executor(executor()).spawn(()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    // Four that send to themselves.
    (0..4).for_each(|_| again(build(), stop.clone()));
    let (ran, runs) = mpsc::channel();
    build().send(move |()| _ = ran.send(())).unwrap();
    let beside_four = runs.recv_timeout(limit / 2).is_ok();
    stop.store(true, SeqCst);
    assert!(beside_four, "starved for {:?} by actors that send to themselves", begun.elapsed());
    // Two that are fed from outside.
    let stop = Arc::new(AtomicBool::new(false));
    let fed: Vec<_> = (0..2).map(|_| build()).collect();
    let feeders: Vec<_> = fed
        .iter()
        .map(|actor| {
            let (actor, stop) = (actor.clone(), stop.clone());
            thread::spawn(move || {
                while !stop.load(SeqCst) {
                    let work = |(): &mut ()| (0..200).for_each(|_| std::hint::spin_loop());
                    actor.send(work).unwrap();
                    while actor.len() > 10_000 && !stop.load(SeqCst) {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    until(|| fed.iter().all(|actor| actor.len() > 1_000));
    let (ran, runs) = mpsc::channel();
    build().send(move |()| _ = ran.send(())).unwrap();
    let beside_two = runs.recv_timeout(limit / 2).is_ok();
    stop.store(true, SeqCst);
    feeders.into_iter().for_each(|feeder| feeder.join().unwrap());
    assert!(beside_two, "starved by two actors that are fed");
}

/// The pool is fair.
#[test]
fn pool_is_fair() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    is_fair(|| pool.handle());
}

/// A queue is fair.
#[test]
fn queue_is_fair() {
    let queue = Arc::new(DrainQueue::new());
    let runner = thread::spawn({
        let queue = queue.clone();
        move || queue.run_until_closed()
    });
    is_fair(|| queue.handle());
    queue.close();
    runner.join().unwrap();
}

/// On rayon, two actors that were fed, or four that sent to themselves, starved every other actor:
/// a drain that was out of budget was queued newest first.
#[cfg(feature = "rayon")]
#[test]
fn rayon_is_fair() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().map(Arc::new).unwrap();
    is_fair(|| turnwise::executor::Rayon::new(pool.clone()));
}

/// Tokio is fair.
#[cfg(feature = "tokio")]
#[test]
fn tokio_is_fair() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    is_fair(|| turnwise::executor::Tokio::new(runtime.handle().clone()));
    runtime.shutdown_background();
}
