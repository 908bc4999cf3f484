//! The scenarios: the same ones run on the flavour that yields (`yields.rs`) and on the shipped
//! crate under the sanitizers (`san.rs`).
//!
//! Only `spawn` and `join`, `Arc` and our own atomics: what an uninstrumented standard library does
//! with its locks looks like races to ThreadSanitizer. Every message carries a [`Token`]; at the
//! end sent = handled + returned + dropped, and none is left.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{self, Poll, Waker};
use std::thread::{JoinHandle, spawn, yield_now};
use std::time::Duration;

use super::api::{
    Actor, AskError, Drain, Limit, Overflow, PanicPolicy, Reason, StopCause, System, VirtualClock,
    WaitError,
};

/// The outcomes of all messages.
#[derive(Default, Debug)]
pub struct Counts {
    sent: AtomicU64,
    handled: AtomicU64,
    returned: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    /// All messages have met one fate, and none lives.
    fn settle(self: Arc<Self>) -> [u64; 4] {
        assert_eq!(Arc::strong_count(&self), 1, "a message was leaked: {self:?}");
        let [sent, handled, returned, dropped] =
            [&self.sent, &self.handled, &self.returned, &self.dropped].map(|n| n.load(Relaxed));
        assert_eq!(sent, handled + returned + dropped, "{self:?}");
        [sent, handled, returned, dropped]
    }
}

/// One message's life: it ends handled, returned, or dropped.
pub struct Token(Option<Arc<Counts>>);

impl Token {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.sent.fetch_add(1, Relaxed);
        Token(Some(counts.clone()))
    }

    fn handled(mut self) {
        self.0.take().unwrap().handled.fetch_add(1, Relaxed);
    }

    fn returned(mut self) {
        self.0.take().unwrap().returned.fetch_add(1, Relaxed);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if let Some(counts) = self.0.take() {
            counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// A state that notices two turns at once, and messages of one sender out of order. Plain memory:
/// the sanitizers watch it.
#[derive(Default)]
pub struct State {
    entered: bool,
    turns: u64,
    last: Vec<u64>,
}

impl State {
    fn turn(&mut self) {
        assert!(!self.entered, "two turns at once");
        self.entered = true;
        self.turns += 1;
        self.entered = false;
    }

    fn from(&mut self, sender: usize, number: u64) {
        self.turn();
        if self.last.len() <= sender {
            self.last.resize(sender + 1, 0);
        }
        assert!(self.last[sender] < number, "messages of one sender out of order");
        self.last[sender] = number;
    }
}

/// The number of operations.
#[derive(Clone, Copy)]
pub struct Size {
    pub threads: usize,
    pub rounds: u64,
}

fn on_threads<R: Send + 'static>(
    size: Size,
    f: impl Fn(usize) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let f = Arc::new(f);
    let ready = Arc::new(AtomicU64::new(0));
    let threads: Vec<JoinHandle<R>> = (0..size.threads)
        .map(|at| {
            let (f, ready) = (f.clone(), ready.clone());
            spawn(move || {
                // All begin together. Relaxed: it hides no race.
                ready.fetch_add(1, Relaxed);
                while ready.load(Relaxed) < size.threads as u64 {
                    yield_now();
                }
                f(at)
            })
        })
        .collect();
    // `f` goes last, here: an `Arc` that is not built for ThreadSanitizer ends by a fence, which
    // looks like a race to it.
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// A claim, and what puts it to the test.
pub type Scenario = (&'static str, fn(Size));

/// All of them, each once.
pub const ALL: &[Scenario] = &[
    ("sends of all sizes arrive once and in order", sends),
    ("with and call see the state in turns", with_and_call),
    ("questions are answered, cancelled or timed out", questions),
    ("close in the middle", close),
    ("stop in the middle gives back what it does not run", stop),
    ("the last handle lets everything run", last_handle),
    ("nested sends", nested),
    ("waiting for idle and for the end", waits),
    ("a bounded mailbox never holds more", bounded),
    ("panics cost one message", panics),
    ("posted messages are run by the queue's thread", posted),
    ("short-lived actors on short-lived threads", short_lives),
    ("an executor runs what senders leave, slice by slice", executor),
    ("an executor that drops its drains answers everyone", executor_gone),
    ("threads and tasks wait for room, and give up", waiting_for_room),
    ("a system ends its actors while others send", system),
    ("limits on a clock that a thread moves", virtual_clock),
    ("turns wait, are woken and cut", waiting_turns),
];

fn sends(size: Size) {
    let counts = Counts::new();
    let actor = Actor::new(State::default());
    on_threads(size, {
        let (actor, counts) = (actor.clone(), counts.clone());
        move |me| {
            for n in 1..=size.rounds {
                let token = Token::new(&counts);
                let sent = match n % 4 {
                    0 => actor
                        .send(move |state: &mut State| {
                            state.from(me, n);
                            token.handled();
                        })
                        .is_ok(),
                    1 => {
                        let large = [n; 20];
                        actor
                            .send(move |state: &mut State| {
                                state.from(me, large[19]);
                                token.handled();
                            })
                            .is_ok()
                    }
                    2 => {
                        #[repr(align(64))]
                        struct Strict(u64);
                        let strict = Strict(n);
                        actor
                            .send(move |state: &mut State| {
                                let strict = strict;
                                assert_eq!((&raw const strict).addr() % 64, 0);
                                state.from(me, strict.0);
                                token.handled();
                            })
                            .is_ok()
                    }
                    _ => {
                        let second = Token::new(&counts);
                        actor
                            .send_many([(token, 0), (second, 1)].map(|(token, i)| {
                                move |state: &mut State| {
                                    if i == 0 {
                                        state.from(me, n);
                                    }
                                    token.handled();
                                }
                            }))
                            .is_ok()
                    }
                };
                assert!(sent);
            }
        }
    });
    assert_eq!(actor.with(|state| state.turns).unwrap(), size.threads as u64 * size.rounds);
    drop(actor);
    counts.settle();
}

fn with_and_call(size: Size) {
    let actor = Actor::new(State::default());
    on_threads(size, {
        let actor = actor.clone();
        move |me| {
            for n in 1..=size.rounds {
                let mut local = 0;
                actor
                    .with(|state| {
                        state.from(me, 2 * n);
                        local = n;
                    })
                    .unwrap();
                assert_eq!(local, n);
                let asked = actor.call(move |state| {
                    state.from(me, 2 * n + 1);
                    Box::new(n)
                });
                assert_eq!(*asked.wait().unwrap(), n);
            }
        }
    });
    assert_eq!(actor.with(|state| state.turns).unwrap(), 2 * size.threads as u64 * size.rounds);
}

fn questions(size: Size) {
    let counts = Counts::new();
    let actor = Actor::new(State::default());
    on_threads(size, {
        let (actor, counts) = (actor.clone(), counts.clone());
        move |_| {
            for n in 0..size.rounds {
                let token = Token::new(&counts);
                let reply = actor.call(move |state| {
                    state.turn();
                    token.handled();
                    n
                });
                match n % 4 {
                    0 => drop(reply),
                    1 => match reply.cancel() {
                        Ok(()) => {}
                        Err(reply) => assert_eq!(reply.wait().unwrap(), n),
                    },
                    2 => match reply.wait_timeout(Duration::ZERO) {
                        Ok(answer) => assert_eq!(answer, n),
                        Err(WaitError::TimedOut(reply)) => assert_eq!(reply.wait().unwrap(), n),
                        Err(error) => panic!("{error}"),
                    },
                    _ => assert_eq!(reply.wait().unwrap(), n),
                }
            }
        }
    });
    drop(actor);
    let [sent, handled, returned, dropped] = counts.settle();
    assert_eq!((sent, returned), (handled + dropped, 0));
}

/// Threads send until they are refused; one of them does `end` in the middle. The refused messages
/// come back.
fn until(
    size: Size,
    counts: &Arc<Counts>,
    actor: &Actor<State>,
    end: fn(&Actor<State>),
    closed: fn(&Reason) -> bool,
) {
    on_threads(size, {
        let (actor, counts) = (actor.clone(), counts.clone());
        move |me| {
            for n in 1..=size.rounds {
                if me == 0 && n == size.rounds / 2 {
                    end(&actor);
                }
                let token = Token::new(&counts);
                let refused = actor.send(move |state: &mut State| {
                    state.from(me, n);
                    token.handled();
                });
                if let Err(refused) = refused {
                    let (message, reason) = refused.into_parts();
                    assert!(closed(&reason), "{reason}");
                    // It is the caller's again: run on a state of its own, it is booked over.
                    message(&mut State::default());
                    counts.handled.fetch_sub(1, Relaxed);
                    counts.returned.fetch_add(1, Relaxed);
                }
            }
        }
    });
}

fn close(size: Size) {
    let counts = Counts::new();
    let ended = Arc::new(AtomicU64::new(0));
    let hook = ended.clone();
    let actor = Actor::<State>::builder()
        .on_end(move |state, cause| {
            assert!(cause.stop_cause().is_none());
            hook.fetch_add(state.turns + 1, Relaxed);
        })
        .spawn(State::default())
        .unwrap();
    until(
        size,
        &counts,
        &actor,
        |actor| assert!(actor.close()),
        |reason| *reason == Reason::Closed,
    );
    assert!(actor.ended().within(Duration::MAX).unwrap());
    assert_eq!(actor.with(|_| ()), Err(AskError::from(Reason::Closed)));
    drop(actor);
    let [_, handled, _, dropped] = counts.settle();
    assert_eq!(dropped, 0, "what was accepted before a close is run");
    assert_eq!(ended.load(Relaxed), handled + 1, "the end comes once, after all turns");
}

fn stop(size: Size) {
    for with_hook in [true, false] {
        let counts = Counts::new();
        let given_back = Arc::new(AtomicU64::new(0));
        let mut builder = Actor::builder();
        if with_hook {
            let given_back = given_back.clone();
            builder = builder.on_undelivered(move |message| {
                given_back.fetch_add(1, Relaxed);
                drop(message);
            });
        }
        let actor = builder.spawn(State::default()).unwrap();
        until(
            size,
            &counts,
            &actor,
            |actor| assert!(actor.stop()),
            |reason| matches!(reason, Reason::Stopped(_)),
        );
        assert!(actor.ended().within(Duration::MAX).unwrap());
        drop(actor);
        let [_, _, _, dropped] = counts.settle();
        assert_eq!(given_back.load(Relaxed), if with_hook { dropped } else { 0 });
    }
    // Without a disturbance, messages that wait at the stop are not run at all.
    let counts = Counts::new();
    let hand = Hand::new();
    let actor = hand.actor(State::default());
    for n in 1..=10 {
        let token = Token::new(&counts);
        let left = actor.posted().send(move |state: &mut State| {
            state.from(0, n);
            token.handled();
        });
        assert!(left.is_ok());
    }
    assert!(actor.stop());
    drop(actor);
    hand.run();
    assert_eq!(counts.settle(), [10, 0, 0, 10]);
}

fn last_handle(size: Size) {
    for _ in 0..size.rounds / 40 + 1 {
        let counts = Counts::new();
        let state = Arc::new(());
        let hand = Hand::new();
        let actor = hand.actor((state.clone(), State::default()));
        let weak = actor.downgrade();
        let droppers: Vec<_> = (0..size.threads)
            .map(|_| {
                let (actor, token) = (actor.clone(), Token::new(&counts));
                spawn(move || {
                    let left = actor.posted().send(move |(_, state): &mut (Arc<()>, State)| {
                        state.turn();
                        token.handled();
                    });
                    assert!(left.is_ok());
                })
            })
            .collect();
        let upgraders: Vec<_> = (0..size.threads)
            .map(|_| {
                let (weak, counts) = (weak.clone(), counts.clone());
                spawn(move || {
                    for _ in 0..8 {
                        let token = Token::new(&counts);
                        let Some(actor) = weak.upgrade() else {
                            token.returned();
                            continue;
                        };
                        let sent = actor.send(move |(_, state)| {
                            state.turn();
                            token.handled();
                        });
                        assert!(sent.is_ok());
                    }
                })
            })
            .collect();
        drop(actor);
        upgraders.into_iter().for_each(|upgrader| upgrader.join().unwrap());
        droppers.into_iter().for_each(|dropper| dropper.join().unwrap());
        hand.run();
        assert!(weak.upgrade().is_none());
        assert_eq!(Arc::strong_count(&state), 1, "the state goes with the last handle");
        let [sent, handled, returned, dropped] = counts.settle();
        assert_eq!((sent, dropped), (handled + returned, 0));
    }
}

/// Each message sends on to the next actors until its hops are used up, and looks at one by `with`
/// now and then.
fn nested(size: Size) {
    const ACTORS: usize = 5;
    type Ring = Arc<Vec<Actor<State>>>;
    fn hop(ring: &Ring, counts: &Arc<Counts>, at: usize, hops: u64) {
        let token = Token::new(counts);
        let (next, more) = (ring.clone(), counts.clone());
        let sent = ring[at % ACTORS].send(move |state: &mut State| {
            state.turn();
            if hops > 0 {
                hop(&next, &more, at + 1, hops - 1);
                if hops % 4 == 0 {
                    hop(&next, &more, at, 0);
                }
            }
            token.handled();
        });
        assert!(sent.is_ok());
    }
    let counts = Counts::new();
    let ring: Ring = Arc::new((0..ACTORS).map(|_| Actor::new(State::default())).collect());
    // A thread that is inside a turn may wait for an actor that does not wait.
    let leaf = Actor::new(State::default());
    on_threads(size, {
        let (ring, counts, leaf) = (ring.clone(), counts.clone(), leaf.clone());
        move |me| {
            for n in 0..size.rounds / 4 {
                hop(&ring, &counts, me + n as usize, 7);
                let (token, leaf) = (Token::new(&counts), leaf.clone());
                let waits = ring[me % ACTORS].send(move |state: &mut State| {
                    state.turn();
                    leaf.with(State::turn).unwrap();
                    assert_eq!(leaf.call(|state| state.turns > 0).wait(), Ok(true));
                    token.handled();
                });
                assert!(waits.is_ok());
            }
        }
    });
    // What a pool goes on with may send to one that was found idle.
    while counts.sent.load(Relaxed) != counts.handled.load(Relaxed) {
        ring.iter().for_each(|actor| actor.idle().wait().unwrap());
    }
    // All are handled; and now all turns are over.
    ring.iter().for_each(|actor| actor.idle().wait().unwrap());
    drop((ring, leaf));
    let [sent, handled, ..] = counts.settle();
    assert_eq!(sent, handled);
}

fn waits(size: Size) {
    let actor = Actor::new(State::default());
    on_threads(size, {
        let actor = actor.clone();
        move |me| {
            for n in 1..=size.rounds {
                actor.send(move |state: &mut State| state.from(me, n)).unwrap();
                match (n + me as u64) % 8 {
                    0 => actor.idle().wait().unwrap(),
                    4 => assert!(!actor.ended().within(Duration::ZERO).unwrap()),
                    _ => {}
                }
            }
        }
    });
    let waiting = size.threads;
    on_threads(Size { threads: waiting + 1, rounds: 0 }, {
        let actor = actor.clone();
        move |me| {
            if me < waiting {
                assert!(actor.ended().within(Duration::MAX).unwrap());
                assert!(actor.is_closed());
            } else {
                actor.send(State::turn).unwrap();
                assert!(actor.close());
            }
        }
    });
}

fn bounded(size: Size) {
    const CAPACITY: usize = 3;
    let counts = Counts::new();
    let actor =
        Actor::builder().capacity(CAPACITY, Overflow::Reject).spawn(State::default()).unwrap();
    let (accepted, refused): (Vec<u64>, Vec<u64>) = on_threads(size, {
        let (actor, counts) = (actor.clone(), counts.clone());
        move |me| {
            let mut refused = 0;
            for n in 1..=size.rounds {
                let token = Token::new(&counts);
                let seen = actor.clone();
                let sent = actor.send(move |state: &mut State| {
                    assert!(seen.len() <= CAPACITY + 1, "{} waiting or running", seen.len());
                    state.from(me, n);
                    token.handled();
                });
                if let Err(error) = sent {
                    assert_eq!(error.reason(), &Reason::Full);
                    refused += 1;
                }
            }
            (size.rounds - refused, refused)
        }
    })
    .into_iter()
    .unzip();
    actor.idle().wait().unwrap();
    assert_eq!(actor.with(|state| state.turns).unwrap(), accepted.iter().sum::<u64>());
    drop(actor);
    let [_, handled, _, dropped] = counts.settle();
    assert_eq!(
        (handled, dropped),
        (accepted.iter().sum(), refused.iter().sum()),
        "a refused message was dropped by its sender here"
    );
}

fn panics(size: Size) {
    let counts = Counts::new();
    let actor = Actor::builder().panic_policy(PanicPolicy::Resume).spawn(State::default()).unwrap();
    let panicked = on_threads(size, {
        let (actor, counts) = (actor.clone(), counts.clone());
        move |me| {
            let mut panicked = 0;
            for n in 1..=size.rounds {
                let token = Token::new(&counts);
                let turn = move |state: &mut State| {
                    state.from(me, n);
                    if n % 7 == 0 {
                        // Not `panic!`: no message of it is wanted.
                        std::panic::resume_unwind(Box::new("seven"));
                    }
                    token.handled();
                };
                panicked += u64::from(n % 7 == 0);
                match n % 3 {
                    0 => actor.send(turn).unwrap(),
                    1 => match actor.call(turn).wait() {
                        Ok(()) => assert_ne!(n % 7, 0),
                        Err(error) => assert!(
                            n % 7 == 0
                                && matches!(error, AskError::Panicked(ref panic) if *panic == "seven")
                        ),
                    },
                    _ => {
                        let with = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                            actor.with(turn)
                        }));
                        assert_eq!(with.is_err(), n % 7 == 0);
                    }
                }
            }
            panicked
        }
    });
    actor.idle().wait().unwrap();
    assert_eq!(actor.len(), 0);
    drop(actor);
    let [_, _, _, dropped] = counts.settle();
    assert_eq!(dropped, panicked.iter().sum(), "a panic costs its own message and no other");
}

fn posted(size: Size) {
    let hand = Hand::new();
    posted_to(size, &hand, hand.actor(State::default()));
    // Senders run it too, and waiting threads.
    posted_to(size, &hand, Actor::new(State::default()));
}

fn posted_to(size: Size, hand: &Hand, actor: Actor<State>) {
    let counts = Counts::new();
    on_threads(size, {
        let (actor, counts, hand) = (actor.clone(), counts.clone(), hand.clone());
        move |me| {
            for n in 1..=size.rounds {
                let token = Token::new(&counts);
                let turn = move |state: &mut State| {
                    state.from(me, n);
                    token.handled();
                };
                match n % 5 {
                    0 => actor.send(turn).unwrap(),
                    1 => drop(actor.posted().call(turn)),
                    _ => actor.posted().send(turn).unwrap(),
                }
                if n % 3 == 0 {
                    hand.run();
                }
            }
        }
    });
    hand.run();
    actor.idle().wait().unwrap();
    drop(actor);
    hand.run();
    let [sent, handled, ..] = counts.settle();
    assert_eq!(sent, handled);
}

fn short_lives(size: Size) {
    let counts = Counts::new();
    for _ in 0..size.rounds / 40 + 1 {
        let actor = Actor::new(State::default());
        on_threads(size, {
            let counts = counts.clone();
            move |me| {
                for n in 1..=8 {
                    let token = Token::new(&counts);
                    let other = Actor::new(token);
                    let state = [n; 6];
                    actor
                        .send(move |all: &mut State| {
                            all.from(me, state[5]);
                            // The inner actor's state ends here, on whatever thread this is.
                            other
                                .with(|token| std::mem::replace(token, Token(None)).handled())
                                .unwrap();
                        })
                        .unwrap();
                }
            }
        });
    }
    let [sent, handled, ..] = counts.settle();
    assert_eq!(sent, handled);
}

/// Drains that wait for a thread that runs them: a list in an actor, for a lock of std's would look
/// like a race to ThreadSanitizer.
#[derive(Clone)]
struct Hand(Actor<Vec<Drain>>);

impl Hand {
    fn new() -> Self {
        Hand(Actor::new(Vec::new()))
    }

    /// An actor whose drains wait here.
    fn actor<S: Send + 'static>(&self, state: S) -> Actor<S> {
        let drains = self.0.clone();
        let execute = move |drain: Drain| assert!(drains.send(|all| all.push(drain)).is_ok());
        Actor::builder().executor(execute).spawn(state).unwrap()
    }

    /// Runs what waits.
    fn run(&self) {
        while let Some(drain) = self.0.with(Vec::pop).unwrap() {
            drain.run();
        }
    }
}

/// Runs every drain on a thread of its own.
#[derive(Clone)]
struct Threads(Actor<Vec<JoinHandle<()>>>);

impl Threads {
    fn start(&self, f: impl FnOnce() + Send + 'static) {
        let thread = spawn(f);
        self.0.send(move |threads| threads.push(thread)).unwrap();
    }

    /// Waits for them all, and for those that they start.
    fn join(self) {
        loop {
            let threads = self.0.with(std::mem::take).unwrap();
            if threads.is_empty() {
                return;
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}

fn executor(size: Size) {
    let rounds = size.rounds / 10 + 8;
    let (counts, threads) = (Counts::new(), Threads(Actor::new(Vec::new())));
    let runner = threads.clone();
    let actor = Actor::builder()
        .executor(move |drain: Drain| runner.start(move || drain.run()))
        .budget(3)
        .spawn(State::default())
        .unwrap();
    let neighbour = Actor::new(State::default());
    on_threads(size, {
        let (actor, counts) = (actor.clone(), counts.clone());
        move |me| {
            for n in 1..=rounds {
                let (token, neighbour) = (Token::new(&counts), neighbour.clone());
                let turn = move |state: &mut State| {
                    state.from(me, n);
                    neighbour.send(State::turn).unwrap();
                    token.handled();
                };
                match n % 16 {
                    0 => actor.with(turn).unwrap(),
                    8 => actor.call(turn).wait().unwrap(),
                    _ => actor.send(turn).unwrap(),
                }
            }
        }
    });
    actor.idle().wait().unwrap();
    assert_eq!(actor.with(|state| state.turns).unwrap(), size.threads as u64 * rounds);
    drop(actor);
    threads.join();
    let [sent, handled, ..] = counts.settle();
    assert_eq!(sent, handled);
}

fn executor_gone(size: Size) {
    for _ in 0..size.rounds / 100 + 1 {
        let (counts, threads) = (Counts::new(), Threads(Actor::new(Vec::new())));
        let (runner, drains) = (threads.clone(), AtomicU64::new(0));
        let execute = move |drain: Drain| match drains.fetch_add(1, Relaxed) {
            0..3 => runner.start(move || drain.run()),
            _ => drop(drain),
        };
        let actor = Actor::builder().executor(execute).budget(2).spawn(State::default()).unwrap();
        on_threads(size, {
            let (actor, counts) = (actor.clone(), counts.clone());
            move |me| {
                for n in 1..=20 {
                    let token = Token::new(&counts);
                    let asked = actor.call(move |state| {
                        state.from(me, n);
                        token.handled();
                    });
                    match asked.wait() {
                        Ok(()) => {}
                        Err(error) => assert_eq!(
                            error,
                            AskError::from(Reason::Stopped(StopCause::ExecutorGone))
                        ),
                    }
                }
            }
        });
        drop(actor);
        threads.join();
        counts.settle();
    }
}

fn waiting_for_room(size: Size) {
    let rounds = size.rounds / 4 + 8;
    let counts = Counts::new();
    let actor = Actor::builder().capacity(2, Overflow::Reject).spawn(State::default()).unwrap();
    on_threads(size, {
        let (actor, counts) = (actor.clone(), counts.clone());
        move |me| {
            for n in 1..=rounds {
                let (token, seen) = (Token::new(&counts), actor.clone());
                let turn = move |state: &mut State| {
                    assert!(seen.len() <= 3, "{} waiting or running", seen.len());
                    state.from(me, n);
                    token.handled();
                };
                let mut cx = task::Context::from_waker(Waker::noop());
                match n % 5 {
                    0 => assert!(actor.waiting().send(turn).wait().is_ok()),
                    1 => assert_eq!(actor.waiting().call(turn).wait(), Ok(())),
                    2 => {
                        let limit = Duration::from_micros(20);
                        if let Err(refused) = actor.waiting().send(turn).within(limit) {
                            assert_eq!(refused.reason(), &Reason::Full);
                        }
                    }
                    3 => {
                        let mut sending = actor.waiting().send(turn);
                        loop {
                            match Pin::new(&mut sending).poll(&mut cx) {
                                Poll::Ready(sent) => break assert!(sent.is_ok()),
                                Poll::Pending => yield_now(),
                            }
                        }
                    }
                    _ => {
                        // Withdrawn, if it was not let in.
                        let mut asking = actor.waiting().call(turn);
                        let _ = Pin::new(&mut asking).poll(&mut cx);
                    }
                }
            }
        }
    });
    actor.idle().wait().unwrap();
    let turns = actor.with(|state| state.turns).unwrap();
    drop(actor);
    let [_, handled, returned, _] = counts.settle();
    assert_eq!((turns, returned), (handled, 0));
}

/// Wakers, until somebody takes them.
type Board = Actor<Vec<Waker>>;

/// Wakes, wakes late, or drops whatever is there.
fn wake_some(board: &Board, n: u64) {
    for waker in board.with(std::mem::take).unwrap() {
        match n % 7 {
            0 => drop(waker),
            1 => {
                let late = waker.clone();
                waker.wake();
                late.wake();
            }
            2 => waker.wake_by_ref(),
            _ => waker.wake(),
        }
    }
}

/// Pending so often, with a waker on the board each time.
struct Pause(Board, u64);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<()> {
        if self.1 == 0 {
            return Poll::Ready(());
        }
        self.1 -= 1;
        let waker = cx.waker().clone();
        self.0.send(move |board| board.push(waker)).ok().unwrap();
        Poll::Pending
    }
}

/// A turn is under way until its future is gone.
struct Entered<'a>(&'a mut State);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.entered = false;
    }
}

fn waiting_turns(size: Size) {
    let rounds = size.rounds / 16 + 8;
    let (counts, board) = (Counts::new(), Board::new(Vec::new()));
    let actor = Actor::new(State::default());
    let begin = |actor: &Actor<State>, counts: &Arc<Counts>, board: &Board, me: usize, n: u64| {
        let (token, pause) = (Token::new(counts), Pause(board.clone(), n % 3));
        actor.run_abortable(async move |state: &mut State| {
            let token = token;
            assert!(!state.entered, "two turns at once");
            state.entered = true;
            let entered = Entered(state);
            pause.await;
            entered.0.entered = false;
            entered.0.from(me, n);
            token.handled();
        })
    };
    on_threads(size, {
        let (actor, counts, board) = (actor.clone(), counts.clone(), board.clone());
        move |me| {
            for n in 1..=rounds {
                let (reply, abort) = begin(&actor, &counts, &board, me, n);
                wake_some(&board, n);
                match n % 5 {
                    0 => abort.abort(),
                    1 => {
                        drop(reply);
                        continue;
                    }
                    2 => drop(abort.clone()),
                    _ => {}
                }
                while !reply.is_ready() {
                    wake_some(&board, n + 3);
                    yield_now();
                }
                let answer = reply.wait();
                let allowed =
                    matches!(answer, Ok(()) | Err(AskError::Aborted(_) | AskError::Abandoned(_)));
                assert!(allowed, "{answer:?}");
                abort.abort();
            }
            // Ends of short lives, while others hold the wakers.
            for n in 1..=rounds {
                let short = Actor::new(State::default());
                let (reply, abort) = begin(&short, &counts, &board, me, n);
                match n % 4 {
                    0 => assert!(short.stop()),
                    1 => assert!(short.close()),
                    2 => drop(short),
                    _ => abort.abort(),
                }
                drop(abort);
                while !reply.is_ready() {
                    wake_some(&board, n + 1);
                    yield_now();
                }
            }
        }
    });
    while !actor.is_idle() {
        wake_some(&board, 3);
        yield_now();
    }
    let turns = actor.with(|state| state.turns).unwrap();
    drop((actor, board));
    // The last turn of a short life may be under way still when it is answered.
    while Arc::strong_count(&counts) > 1 {
        yield_now();
    }
    let [_, handled, returned, _] = counts.settle();
    assert!(turns <= handled && returned == 0);
}

fn system(size: Size) {
    for _ in 0..size.rounds / 100 + 1 {
        let (counts, threads) = (Counts::new(), Threads(Actor::new(Vec::new())));
        let ended = Arc::new(AtomicU64::new(0));
        let system = Arc::new(System::new());
        let actors = [(); 2].map(|()| {
            let (runner, ended) = (threads.clone(), ended.clone());
            let builder = Actor::builder()
                .executor(move |drain: Drain| runner.start(move || drain.run()))
                .on_end(move |_, _| _ = ended.fetch_add(1, Relaxed));
            system.spawn(builder, State::default()).unwrap()
        });
        on_threads(size, {
            let (system, counts, actors) = (system.clone(), counts.clone(), actors.clone());
            let ended = ended.clone();
            move |me| {
                for n in 1..=20 {
                    if me == 0 && n == 10 {
                        let report = system.shutdown(Limit::Unlimited).expect("it is in no turn");
                        assert!(report.is_complete(), "{report}");
                        assert_eq!(ended.load(Relaxed), 2, "it came back before the ends");
                    }
                    let token = Token::new(&counts);
                    let turn = move |state: &mut State| {
                        state.from(me, n);
                        token.handled();
                    };
                    if let Err(refused) = actors[n as usize % 2].send(turn) {
                        assert_eq!(refused.reason(), &Reason::Closed);
                    }
                }
            }
        });
        drop((actors, system));
        threads.join();
        assert_eq!(Arc::strong_count(&ended), 1);
        counts.settle();
    }
}

fn virtual_clock(size: Size) {
    let rounds = size.rounds / 20 + 8;
    let counts = Counts::new();
    let (clock, hand) = (VirtualClock::new(), Hand::new());
    let drains = hand.0.clone();
    let actor = Actor::builder()
        .clock(clock.clone())
        .executor(move |drain: Drain| assert!(drains.send(|all| all.push(drain)).is_ok()))
        .spawn(State::default())
        .unwrap();
    let busy = Arc::new(AtomicU64::new(size.threads as u64 - 1));
    on_threads(size, {
        let (actor, counts, hand) = (actor.clone(), counts.clone(), hand.clone());
        move |me| {
            if me == 0 {
                for n in 0.. {
                    clock.advance(Duration::from_secs(30));
                    if n % 2 == 0 {
                        hand.run();
                    }
                    if busy.load(Relaxed) == 0 {
                        return;
                    }
                    yield_now();
                }
            }
            for n in 1..=rounds {
                let token = Token::new(&counts);
                let asked = actor.call(move |state: &mut State| {
                    state.from(me, n);
                    token.handled();
                });
                match asked.within(Duration::from_secs(60)) {
                    Ok(()) | Err(WaitError::Cancelled(_)) => {}
                    Err(WaitError::TimedOut(reply)) => assert_eq!(reply.wait(), Ok(())),
                    Err(error) => panic!("{error}"),
                }
            }
            busy.fetch_sub(1, Relaxed);
        }
    });
    drop(actor);
    hand.run();
    let [_, handled, returned, _] = counts.settle();
    assert_eq!(returned, 0);
    assert!(handled > 0);
}
