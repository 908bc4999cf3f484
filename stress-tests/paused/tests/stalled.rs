//! One thread is stopped before each step of a call in turn, for as long as it takes, while others
//! go on.
//!
//! - No thread waits for it and none spins: every send by others returns while it is stopped.
//! - If it does not own the mailbox, the turns of others go on as well, including those of the
//!   actor it was sending to. If it does (it found the mailbox idle and is running it), then the
//!   stop is a long turn: the messages of others are accepted, and run when it goes on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paused::pause::{Gate, Step, Stop};
use paused::{Actor, Drain, Later, Overflow, PanicPolicy, WeakActor, later};

/// The number of messages of others while one thread is stopped.
const OTHERS: u64 = if cfg!(debug_assertions) { 2_000 } else { 100_000 };
const THREADS: u64 = 2;

#[derive(Default)]
struct State {
    others: u64,
    own: u64,
}

/// A turn that lasts until the test ends it.
struct Turn {
    end: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Turn {
    fn start(actor: &Actor<State>) -> Self {
        let (entered, is_in) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let actor = actor.clone();
        let thread = thread::spawn(move || {
            let turn = move |_: &mut State| {
                entered.send(()).unwrap();
                ended.recv().unwrap();
            };
            actor.send(turn).unwrap();
        });
        is_in.recv().unwrap();
        Turn { end, thread }
    }

    fn end(self) {
        self.end.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// The calls that are stopped. Each takes a handle of its own.
type Call = fn(Actor<State>);

fn send(actor: Actor<State>) {
    actor.send(|state| state.own += 1).unwrap();
}
fn send_large(actor: Actor<State>) {
    let payload = [1u64; 32];
    actor.send(move |state| state.own += payload[31]).unwrap();
}
fn send_twice(actor: Actor<State>) {
    // The second message comes from an existing chunk.
    actor.send(|_| {}).unwrap();
    actor.send(|state| state.own += 1).unwrap();
}
fn send_many(actor: Actor<State>) {
    // More than a chunk holds, so the depot is used again.
    actor
        .send_many((0..10).map(|i| move |state: &mut State| state.own += u64::from(i == 9)))
        .unwrap();
}
fn call_and_drop(actor: Actor<State>) {
    drop(actor.call(|state| state.own += 1));
}
fn call_and_wait(actor: Actor<State>) {
    actor.call(|state| state.own += 1).wait().unwrap();
}
fn with(actor: Actor<State>) {
    actor.with(|state| state.own += 1).unwrap();
}
fn post(actor: Actor<State>) {
    actor.posted().send(|state| state.own += 1).unwrap();
}
fn upgrade_and_send(actor: Actor<State>) {
    let weak: WeakActor<State> = actor.downgrade();
    drop(actor);
    weak.upgrade().unwrap().send(|state| state.own += 1).unwrap();
}

const CALLS: &[(&str, Call)] = &[
    ("send", send),
    ("send, large", send_large),
    ("send, twice", send_twice),
    ("send_many", send_many),
    ("call, reply dropped", call_and_drop),
    ("call, waiting", call_and_wait),
    ("with", with),
    ("post", post),
    ("upgrade, then send", upgrade_and_send),
];

fn plain() -> Actor<State> {
    Actor::new(State::default())
}

fn described() -> Actor<State> {
    Actor::builder()
        .name("described")
        .panic_policy(PanicPolicy::Resume)
        .capacity(60, Overflow::Reject)
        .spawn(State::default())
        .unwrap()
}

/// Sends from other threads until `OTHERS` messages have been accepted; all these calls return.
fn others_send(actor: &Actor<State>) -> u64 {
    let senders: Vec<_> = (0..THREADS)
        .map(|_| {
            let actor = actor.clone();
            thread::spawn(move || {
                (0..OTHERS / THREADS)
                    .filter(|_| actor.send(|state| state.others += 1).is_ok())
                    .count() as u64
            })
        })
        .collect();
    senders.into_iter().map(|sender| sender.join().unwrap()).sum()
}

/// Returns true if the step is taken under the lock of the waiters for idle or for the end, or of
/// the cause of a stop. A thread that wakes these waiters, and one that is refused, wait for that
/// short lock. These are the only places where a stopped thread delays others.
fn holds_a_cold_lock(step: Step) -> bool {
    step.op == "locked" && matches!(step.file(), "wait_list.rs" | "header.rs")
}

/// Stops `call` before each of its steps while another thread is inside a turn, ends that turn, and
/// has the others send.
fn stopped_behind_a_turn(
    actor: impl Fn() -> Actor<State>,
    (name, call): (&str, Call),
    exempt: fn(Step) -> bool,
) -> usize {
    for k in 0..1000 {
        let (gate, actor) = (Gate::new(), actor());
        let mut turn = Some(Turn::start(&actor));
        let thread = thread::spawn({
            let (gate, actor) = (gate.clone(), actor.clone());
            move || gate.run(k, || call(actor))
        });
        if !matches!(gate.reached(), Stop::Before(_)) {
            turn.take().into_iter().for_each(Turn::end);
        }
        let Some(step) = gate.stopped() else {
            thread.join().unwrap();
            return k;
        };
        if exempt(step) {
            gate.release();
            turn.take().into_iter().for_each(Turn::end);
            thread.join().unwrap();
            continue;
        }
        turn.take().into_iter().for_each(Turn::end); // returns: the drainer does not wait for the stopped thread
        let accepted = others_send(&actor);
        assert!(!gate.is_finished());
        assert!(
            actor.is_idle(),
            "{name} stopped before {step:?}: no thread may own the mailbox now"
        );
        assert_eq!(
            actor.with(|state| state.others).unwrap(),
            accepted,
            "{name} stopped before {step:?}"
        );
        gate.release();
        thread.join().unwrap();
        let (own, others) = actor.with(|state| (state.own, state.others)).unwrap();
        assert_eq!((own, others), (1, accepted), "{name} was stopped before {step:?}");
    }
    panic!("{name} has no end of steps");
}

#[test]
fn others_sends_and_turns_go_on_while_a_sender_is_stopped_anywhere() {
    for &(name, call) in CALLS {
        let steps = stopped_behind_a_turn(plain, (name, call), |_| false);
        println!(
            "{name}: stopped before each of {steps} steps; {OTHERS} messages of others were run meanwhile, each time"
        );
        assert!(steps >= 3);
    }
}

#[test]
fn a_bounded_mailbox_is_no_exception() {
    for &(name, call) in CALLS {
        let steps = stopped_behind_a_turn(described, (name, call), |_| false);
        println!("{name}: {steps} steps");
    }
}

#[test]
fn one_who_waits_for_idle_delays_nobody_outside_of_the_waiters_lock() {
    let wait = |actor: Actor<State>| {
        actor.send(|state| state.own += 1).unwrap();
        actor.idle().wait().unwrap();
    };
    let steps = stopped_behind_a_turn(plain, ("idle", wait), holds_a_cold_lock);
    println!("idle: {steps} steps");
}

#[test]
fn two_who_wait_at_once_stand_in_one_list() {
    for k in 0..1000 {
        let (gate, actor) = (Gate::new(), plain());
        let turn = Turn::start(&actor);
        let first = thread::spawn({
            let (gate, actor) = (gate.clone(), actor.clone());
            move || gate.run(k, || assert!(!actor.ended().within(Duration::ZERO).unwrap()))
        });
        let step = gate.stopped();
        let (woken, is_woken) = mpsc::channel();
        let sleeper = Gate::new();
        let second = thread::spawn({
            let (sleeper, actor) = (sleeper.clone(), actor.clone());
            move || {
                sleeper.run(usize::MAX, || actor.idle().wait().unwrap());
                woken.send(()).unwrap();
            }
        });
        if !step.is_some_and(holds_a_cold_lock) {
            assert!(matches!(sleeper.reached(), Stop::Asleep));
        }
        gate.release();
        first.join().unwrap();
        turn.end();
        let woken = is_woken.recv_timeout(Duration::from_secs(20));
        assert!(
            woken.is_ok(),
            "one who waits was forgotten when another was stopped before {step:?}"
        );
        second.join().unwrap();
        if step.is_none() {
            return;
        }
    }
}

#[test]
fn sends_are_accepted_while_an_owner_is_stopped_and_run_when_it_goes_on() {
    for &(name, call) in CALLS {
        let mut owned = 0;
        for k in 0..1000 {
            let (gate, actor) = (Gate::new(), plain());
            let thread = thread::spawn({
                let (gate, actor) = (gate.clone(), actor.clone());
                move || gate.run(k, || call(actor))
            });
            let Some(step) = gate.stopped() else {
                thread.join().unwrap();
                println!("{name}: {k} steps, owner at {owned} of them");
                break;
            };
            let accepted = others_send(&actor);
            assert_eq!(accepted, OTHERS / THREADS * THREADS, "{name} stopped before {step:?}");
            owned += usize::from(!actor.is_idle());
            gate.release();
            thread.join().unwrap();
            let (own, others) = actor.with(|state| (state.own, state.others)).unwrap();
            assert_eq!((own, others), (1, accepted), "{name} was stopped before {step:?}");
        }
        assert!(owned > 0);
    }
}

/// Runs drains on the receiver of the channel.
struct Elsewhere(mpsc::Sender<Drain>);

impl Later for Elsewhere {
    fn put(&self, drain: Drain) {
        self.0.send(drain).unwrap();
    }
}

#[test]
fn sends_go_on_while_the_one_who_hands_a_drain_over_is_stopped() {
    // The worker runs every drain that comes.
    let (drains, queue) = mpsc::channel::<Drain>();
    let worker = thread::spawn(move || queue.into_iter().for_each(Drain::run));
    let place = Arc::new(Elsewhere(drains));
    let mut steps = Vec::new();
    for k in 0..1000 {
        let gate = Gate::new();
        let actor = Actor::builder().budget(64).spawn(State::default()).unwrap();
        let thread = thread::spawn({
            let (gate, actor, place) = (gate.clone(), actor.clone(), place.clone());
            move || {
                later(&place);
                gate.run(k, || post(actor));
            }
        });
        let step = gate.stopped();
        let accepted = others_send(&actor);
        assert_eq!(accepted, OTHERS / THREADS * THREADS, "stopped before {step:?}");
        // The thread that has raised SCHEDULED submits the drain: until then a sender or a caller
        // of `with` takes the mailbox over. An actor with an executor would wait for that.
        assert_eq!(actor.with(|state| state.others).unwrap(), accepted, "stopped before {step:?}");
        gate.release();
        thread.join().unwrap();
        actor.idle().wait().unwrap();
        let (own, others) = actor.with(|state| (state.own, state.others)).unwrap();
        assert_eq!((own, others), (1, accepted), "stopped before {step:?}");
        match step {
            Some(step) => steps.push(step),
            None => break,
        }
    }
    println!("{} steps: {steps:?}", steps.len());
    drop(place);
    worker.join().unwrap();
}

/// Checks the messages when a call that ends the actor is stopped before each of its steps.
fn ended_meanwhile(call: fn(Actor<State>), runs_all: bool) {
    for behind_a_turn in [true, false] {
        for k in 0..1000 {
            let handled = Arc::new(AtomicU64::new(0));
            let (ended, end) = mpsc::channel();
            let actor = Actor::builder()
                .on_end(move |_, _| ended.send(()).unwrap())
                .spawn(State::default())
                .unwrap();
            let gate = Gate::new();
            let mut turn = behind_a_turn.then(|| Turn::start(&actor));
            let thread = thread::spawn({
                let (gate, actor) = (gate.clone(), actor.clone());
                move || gate.run(k, || call(actor))
            });
            let stopped = gate.stopped();
            if stopped.is_some_and(holds_a_cold_lock) {
                gate.release();
            }
            turn.take().into_iter().for_each(Turn::end);
            let senders: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (actor, handled) = (actor.clone(), handled.clone());
                    thread::spawn(move || {
                        let send = |_: &u64| {
                            let handled = handled.clone();
                            actor
                                .send(move |_| {
                                    handled.fetch_add(1, Relaxed);
                                })
                                .is_ok()
                        };
                        (0..OTHERS / THREADS).filter(send).count() as u64
                    })
                })
                .collect();
            let accepted: u64 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
            gate.release();
            thread.join().unwrap();
            actor.ended().within(Duration::MAX).unwrap();
            assert!(end.recv().is_ok(), "the end came");
            // The hook is dropped with the last handle.
            drop(actor);
            assert!(end.recv().is_err(), "the end came once");
            let handled = handled.load(Relaxed);
            assert!(
                handled == accepted || !runs_all && handled < accepted,
                "{handled} of {accepted}, stopped before {stopped:?}"
            );
            if stopped.is_none() {
                println!("behind a turn {behind_a_turn}: {k} steps");
                break;
            }
        }
    }
}

#[test]
fn a_stopped_close_delays_nobody_and_loses_nothing() {
    ended_meanwhile(|actor| assert!(actor.close()), true);
}

#[test]
fn a_stopped_stop_delays_nobody() {
    ended_meanwhile(|actor| assert!(actor.stop()), false);
}

#[test]
fn a_last_handle_stopped_in_its_drop_still_ends_the_actor_once() {
    for k in 0..1000 {
        let state = Arc::new(());
        let (gate, actor) = (Gate::new(), Actor::new(state.clone()));
        let (entered, is_in) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let holder = actor.clone();
        let holder = thread::spawn(move || {
            let turn = move |_: &mut Arc<()>| {
                entered.send(()).unwrap();
                ended.recv().unwrap();
            };
            holder.send(turn).unwrap();
        });
        is_in.recv().unwrap();
        for _ in 0..10 {
            actor.send(|_| {}).unwrap();
        }
        let thread = thread::spawn({
            let gate = gate.clone();
            move || gate.run(k, move || drop(actor))
        });
        let stopped = gate.stopped();
        end.send(()).unwrap();
        holder.join().unwrap();
        gate.release();
        thread.join().unwrap();
        assert_eq!(Arc::strong_count(&state), 1, "stopped before {stopped:?}");
        if stopped.is_none() {
            return;
        }
    }
}
