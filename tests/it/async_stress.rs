//! A million async turns, over every way to run an actor, with aborts, stops, closes, drops and
//! panics at random moments. Each sent turn ends once, and everything that it was made of is
//! dropped.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use crate::common::{must_end, size};
use turnwise::executor::{DrainQueue, Rayon, ThreadPool, Tokio};
use turnwise::{AbortHandle, Actor, AskError, Drain, PanicPolicy, Reply, promise};

/// Turns per executor and part.
const TURNS: usize = 2500;
const SENDERS: usize = 2;
const ACTORS: usize = 3;

/// Counters of the fates of turns.
#[derive(Default)]
struct Books {
    sent: AtomicUsize,
    begun: AtomicUsize,
    /// Reached the end of the body.
    finished: AtomicUsize,
    done: AtomicUsize,
    aborted: AtomicUsize,
    abandoned: AtomicUsize,
    panicked: AtomicUsize,
    refused: AtomicUsize,
    cancelled: AtomicUsize,
    alive: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

/// Counts living objects: a closure, then its future.
struct Alive(Arc<Books>);

impl Alive {
    fn new(books: &Arc<Books>) -> Self {
        books.alive.fetch_add(1, SeqCst);
        Alive(books.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
    }
}

/// The turn that an actor is in.
struct InTurn(Arc<AtomicUsize>);

impl Drop for InTurn {
    fn drop(&mut self) {
        assert_eq!(self.0.swap(0, SeqCst), 1, "two turns at a time");
    }
}

/// The state: the last turn of each sender, and the number of current turns.
#[derive(Default)]
struct State {
    last: [usize; SENDERS],
    turns: Arc<AtomicUsize>,
}

impl Books {
    fn add(counter: &AtomicUsize) {
        counter.fetch_add(1, SeqCst);
    }

    fn ring(&self, all: bool) {
        let wakers = {
            let mut wakers = self.wakers.lock().unwrap();
            let from = if all { 0 } else { wakers.len() / 2 };
            wakers.split_off(from)
        };
        for (n, waker) in wakers.into_iter().enumerate() {
            match n % 3 {
                0 => waker.wake(),
                1 => waker.wake_by_ref(),
                _ => drop(waker),
            }
        }
    }

    fn settled(&self, answer: Result<usize, AskError>, at: usize) {
        Books::add(match answer {
            Ok(said) => {
                assert_eq!(said, at);
                &self.done
            }
            Err(AskError::Aborted(_)) => &self.aborted,
            Err(AskError::Abandoned(_)) => &self.abandoned,
            Err(AskError::Panicked(_)) => &self.panicked,
            Err(AskError::Refused(_, _)) => &self.refused,
            Err(other) => panic!("{other:?}"),
        });
    }

    fn check(&self) {
        let of = |counter: &AtomicUsize| counter.load(SeqCst);
        let (sent, begun, done) = (of(&self.sent), of(&self.begun), of(&self.done));
        let cut = of(&self.aborted) + of(&self.abandoned);
        let panicked = of(&self.panicked);
        assert_eq!(sent, done + cut + panicked + of(&self.refused) + of(&self.cancelled));
        assert!(begun >= done + panicked && begun <= done + panicked + cut, "{begun} begun");
        assert_eq!(of(&self.finished), done + panicked);
        assert_eq!(of(&self.alive), 0, "futures are alive");
    }
}

async fn once(mut first: impl FnMut(&Waker)) {
    let mut polled = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        first(cx.waker());
        Poll::Pending
    })
    .await;
}

/// Sends one turn that may wait, perhaps with an abort.
fn turn(
    actor: &Actor<State>,
    books: &Arc<Books>,
    (sender, at, dice): (usize, usize, u64),
) -> (Reply<usize>, Option<AbortHandle>) {
    let alive = Alive::new(books);
    Books::add(&books.sent);
    let own = books.clone();
    let body = async move |state: &mut State| {
        let _alive = alive;
        let turns = state.turns.clone();
        assert_eq!(turns.fetch_add(1, SeqCst), 0, "two turns at a time");
        let turns = InTurn(turns);
        Books::add(&own.begun);
        assert!(state.last[sender] < at, "out of order");
        state.last[sender] = at;
        for leg in 0..dice % 4 {
            match dice >> (4 + 4 * leg) & 15 {
                0..=4 => once(Waker::wake_by_ref).await,
                5..=9 => {
                    once(|waker| own.wakers.lock().unwrap().push(waker.clone())).await;
                    own.ring(false);
                }
                10..=13 => {
                    let (gift, comes) = promise::<()>();
                    let kept = Mutex::new(Some(gift));
                    once(|waker| {
                        own.wakers.lock().unwrap().push(waker.clone());
                        drop(kept.lock().unwrap().take());
                    })
                    .await;
                    let _ = comes.await;
                }
                _ if dice >> 40 & 7 == 0 => std::future::pending().await,
                _ => {}
            }
            assert_eq!(state.last[sender], at, "something ran meanwhile");
        }
        Books::add(&own.finished);
        drop(turns);
        if dice >> 50 & 63 == 0 {
            // Without output on the terminal.
            std::panic::resume_unwind(Box::new(()));
        }
        at
    };
    match dice >> 60 {
        0..=5 => (actor.run(body), None),
        6..=8 => (actor.posted().run(body), None),
        _ => {
            let (reply, handle) = actor.run_abortable(body);
            (reply, Some(handle))
        }
    }
}

/// A slot with an actor that is replaced when it has ended.
type Place = Mutex<Actor<State>>;
type Spawn<'a> = &'a (dyn Fn() -> Actor<State> + Sync);

fn sends(places: &[Place], spawn: Spawn<'_>, books: &Arc<Books>, sender: usize, seed: u64) {
    let mut seed = seed | 1;
    let mut dice = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let mut under_way = VecDeque::new();
    let settle = |at: usize, reply: Reply<usize>| {
        while !reply.is_ready() {
            books.ring(true);
            thread::yield_now();
        }
        books.settled(reply.wait(), at);
    };
    for at in 1..=TURNS / SENDERS {
        let now = dice();
        let place = &places[now as usize % ACTORS];
        let actor = place.lock().unwrap().clone();
        let (reply, handle) = turn(&actor, books, (sender, at, dice()));
        if now >> 8 & 1 == 0 {
            handle.iter().for_each(AbortHandle::abort);
        }
        under_way.push_back((at, reply, handle));
        if under_way.len() > 32 {
            let (at, reply, handle) = under_way.pop_front().expect("there are some");
            handle.iter().filter(|_| now >> 32 & 3 == 0).for_each(AbortHandle::abort);
            match now >> 40 & 15 {
                0 => match reply.cancel() {
                    Ok(()) => Books::add(&books.cancelled),
                    Err(reply) => settle(at, reply),
                },
                _ => settle(at, reply),
            }
        }
        let ends = match now >> 16 & 1023 {
            0 => true,
            1 => {
                actor.stop();
                true
            }
            2 => actor.close(),
            3..40 => {
                books.ring(false);
                false
            }
            _ => false,
        };
        if ends {
            let before = std::mem::replace(&mut *place.lock().unwrap(), spawn());
            drop(before);
        }
    }
    under_way.into_iter().for_each(|(at, reply, _handle)| settle(at, reply));
}

/// Sends turns to actors of this executor, and drops the executor while some wait.
fn part(seed: u64, spawn: Spawn<'_>, lets_go: impl FnOnce()) {
    let books = Arc::new(Books::default());
    let places: Vec<Place> = (0..ACTORS).map(|_| Mutex::new(spawn())).collect();
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (books, places) = (&books, &places);
            let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(sender as u64) << 8;
            scope.spawn(move || sends(places, spawn, books, sender, seed));
        }
        if seed % 4 == 0 {
            // In the middle of the part.
            while books.sent.load(SeqCst) < TURNS / 2 {
                thread::yield_now();
            }
            lets_go();
        }
    });
    drop(places);
    books.ring(true);
    // A turn's reply may come before its actor has ended.
    while books.alive.load(SeqCst) > 0 {
        thread::yield_now();
    }
    books.check();
}

fn actor(builder: turnwise::ActorBuilder<State>) -> Actor<State> {
    builder.panic_policy(PanicPolicy::Resume).spawn(State::default()).unwrap()
}

/// Runs this many parts over each executor: a million turns in an optimized build.
fn parts(each: impl Fn(u64) + Send + Sync + 'static) {
    let each = Arc::new(each);
    for seed in 0..size(4, 58) as u64 {
        let each = each.clone();
        must_end(move || each(seed));
    }
}

#[test]
fn by_their_senders() {
    parts(|seed| part(seed, &|| actor(Actor::builder()), || ()));
}

#[test]
fn in_a_pool_that_is_dropped() {
    parts(|seed| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let handle = pool.handle();
        let spawn = || actor(Actor::builder().executor(handle.clone()));
        part(seed, &spawn, || drop(pool));
    });
}

#[test]
fn in_rayons_pool() {
    let pool = rayon_pool();
    parts(move |seed| {
        let rayon = Rayon::new(pool.clone());
        let spawn = || actor(Actor::builder().executor(rayon.clone()));
        part(seed, &spawn, || ());
    });
}

fn rayon_pool() -> Arc<rayon::ThreadPool> {
    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap())
}

#[test]
fn in_tokio_of_many_threads() {
    parts(|seed| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let handle = Tokio::new(runtime.handle().clone());
        let spawn = || actor(Actor::builder().executor(handle.clone()));
        part(seed, &spawn, || runtime.shutdown_background());
    });
}

#[test]
fn in_tokio_of_one_thread() {
    parts(|seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = Tokio::new(runtime.handle().clone());
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let runs = thread::spawn(move || runtime.block_on(ended));
        let spawn = || actor(Actor::builder().executor(handle.clone()));
        let end = Mutex::new(Some(end));
        part(seed, &spawn, || drop(end.lock().unwrap().take()));
        drop(end);
        let _ = runs.join().unwrap();
    });
}

#[test]
fn in_a_queue_that_is_closed() {
    parts(|seed| {
        let queue =
            Arc::new(if seed % 2 == 0 { DrainQueue::new() } else { DrainQueue::seeded(seed) });
        let runs = queue.clone();
        let runs = thread::spawn(move || {
            runs.run_until_closed();
        });
        let handle = queue.handle();
        let spawn = || actor(Actor::builder().executor(handle.clone()));
        part(seed, &spawn, || queue.close());
        queue.close();
        runs.join().unwrap();
    });
}

#[test]
fn by_an_executor_that_forgets_its_promises() {
    parts(|seed| {
        let calls = Arc::new(AtomicUsize::new(0));
        let odd = move |drain: Drain| match calls.fetch_add(1, SeqCst) % 512 {
            511 => drop(drain),
            n if n % 2 == 0 => drain.run(),
            _ => drop(thread::spawn(move || drain.run())),
        };
        let odd: Arc<dyn turnwise::Executor> = Arc::new(odd);
        let spawn = || actor(Actor::builder().executor(odd.clone()));
        part(seed, &spawn, || ());
    });
}
