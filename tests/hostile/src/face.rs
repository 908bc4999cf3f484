//! The public face of the crate, as the programs use it: the only module that names `turnwise`.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::{self, Poll};
use std::thread;
use std::time::{Duration, Instant};

use turnwise::executor::{Blocking, DrainQueue, Rayon, Tokio};
use turnwise::{
    Actor, ActorBuilder, AskError, Clock, Context, EndCause, Executor, Handler, MonotonicClock,
    Overflow,
};
pub use turnwise::{Drain, Limit, System, VirtualClock, blocking};
use turnwise::{PanicPolicy, Reply, Sending, ThreadPool, WaitError, WeakActor};

use crate::ledger::{Kind, Token, finding};
use crate::plan::{ChainPlace, For, How, Link, OnPanic, PlaceKind, Room, Runs, Time};
use crate::user::{Answer, Mail, OddClock, State, World, caught};

pub type Handle = Actor<State>;
pub type Weak = WeakActor<State>;

/// Does a poll run turns of nobody, or only none of an actor with an executor?
pub const POLL_RUNS_NOBODY: bool = true;

/// Is an actor with an executor run by its executor, and by nobody else?
pub const ONLY_EXECUTORS_RUN: bool = true;

/// Threads of a program, and of the pools that it makes, are called so: none is left at the end.
pub const PROGRAM_THREAD: &str = "ht";
pub const POOL_THREAD: &str = "hp";

thread_local! {
    /// This thread has run what lies in a queue. (Inside a turn, that is run after it.)
    static RUNS_QUEUES: Cell<bool> = const { Cell::new(false) };
}

/// Does this thread belong to such an executor?
pub fn is_thread_of(place: PlaceKind) -> bool {
    let named = |name: &str| thread::current().name().is_some_and(|own| own.starts_with(name));
    match place {
        PlaceKind::Pool { .. } | PlaceKind::Tokio { .. } => named(POOL_THREAD),
        PlaceKind::Rayon => named("rayon"),
        PlaceKind::Queue { .. } => RUNS_QUEUES.get(),
    }
}

/// Once in a process.
pub fn prepare(stack: usize) {
    let _ = ThreadPool::builder().thread_name("global").stack_size(stack).build_global();
}

/// A limit that does no harm where nobody may ever come.
pub fn short(limit: For) -> Limit {
    match limit {
        For::Zero => Limit::Immediate,
        For::Micros(micros) => Limit::Within(Duration::from_micros(micros.into())),
        For::Ever => Limit::Within(Duration::from_millis(5)),
    }
}

impl Handler<Mail> for State {
    type Reply = Answer;
    fn handle(&mut self, mail: Mail, _: &mut Context<'_, Self>) -> Answer {
        mail.run(self)
    }
}

/// The same message in a closure that does not lie in a node.
fn large(mail: Mail) -> impl FnOnce(&mut State) -> Answer + Send {
    let ballast = [0_u64; 16];
    move |state| {
        black_box(&ballast);
        mail.run(state)
    }
}

/// Sends; was it accepted?
pub fn send(actor: &Handle, how: How, limit: Limit, mail: Mail) -> bool {
    match how {
        How::Send if mail.is_large() => {
            let large = large(mail);
            actor.send(move |state| drop(large(state))).is_ok()
        }
        How::Send => actor.send(move |state| drop(mail.run(state))).is_ok(),
        How::Tell => actor.tell(mail).is_ok(),
        How::Post => actor.posted().send(move |state| drop(mail.run(state))).is_ok(),
        How::PostTyped => actor.posted().tell(mail).is_ok(),
        How::Within(_) => {
            actor.waiting().send(move |state| drop(mail.run(state))).within(limit).is_ok()
        }
        How::TellWithin(_) => actor.waiting().tell(mail).within(limit).is_ok(),
    }
}

pub fn send_many(actor: &Handle, mails: impl Iterator<Item = Mail>) -> bool {
    actor.send_many(mails.map(|mail| move |state: &mut State| drop(mail.run(state)))).is_ok()
}

/// Offers the message in the call, not in a poll.
pub fn send_async(actor: &Handle, mail: Mail) -> impl Future<Output = bool> + Send + use<> {
    let sending: Sending<_> = actor.waiting().tell(mail);
    async move { sending.await.is_ok() }
}

/// True if it ran.
pub fn with(actor: &Handle, mail: Mail) -> bool {
    actor.with(move |state| mail.run(state)).is_ok()
}

pub fn wait_idle(actor: &Handle) {
    let _ = actor.wait_idle();
}

pub fn wait_ended(actor: &Handle, limit: Limit) {
    let _ = actor.wait_ended(limit);
}

/// A question under way.
pub enum Asked {
    Closure(Reply<Answer>),
    Typed(Reply<Answer, Mail>),
}

/// What became of it.
#[expect(dead_code, reason = "an answer is dropped with it")]
pub enum Outcome {
    Answered(Answer),
    Failed,
    Cancelled,
    Running(Asked),
}

pub fn ask(actor: &Handle, typed: bool, mail: Mail) -> Asked {
    match typed {
        true => Asked::Typed(actor.ask(mail)),
        false if mail.is_large() => Asked::Closure(actor.call(large(mail))),
        false => Asked::Closure(actor.call(move |state| mail.run(state))),
    }
}

fn waited<M>(
    result: Result<Answer, WaitError<Answer, M>>,
    wrap: fn(Reply<Answer, M>) -> Asked,
) -> Outcome {
    match result {
        Ok(answer) => Outcome::Answered(answer),
        Err(WaitError::TimedOut(reply)) => Outcome::Running(wrap(reply)),
        Err(_) => Outcome::Failed,
    }
}

fn answered<M>(
    result: Result<Answer, WaitError<Answer, M>>,
    wrap: fn(Reply<Answer, M>) -> Asked,
) -> Outcome {
    match result {
        Ok(answer) => Outcome::Answered(answer),
        Err(WaitError::Cancelled(_)) => Outcome::Cancelled,
        Err(WaitError::TimedOut(reply)) => Outcome::Running(wrap(reply)),
        Err(_) => Outcome::Failed,
    }
}

fn cancelled<M>(
    result: Result<M, Reply<Answer, M>>,
    wrap: fn(Reply<Answer, M>) -> Asked,
) -> Outcome {
    match result {
        Ok(_) => Outcome::Cancelled,
        Err(reply) => Outcome::Running(wrap(reply)),
    }
}

impl Asked {
    pub fn wait(self, limit: Limit) -> Outcome {
        let ended =
            |result: Result<Answer, AskError>| result.map_or(Outcome::Failed, Outcome::Answered);
        match self {
            Asked::Closure(reply) if limit == Limit::Unlimited => ended(reply.wait()),
            Asked::Typed(reply) if limit == Limit::Unlimited => ended(reply.wait()),
            Asked::Closure(reply) => waited(reply.wait_timeout(limit), Asked::Closure),
            Asked::Typed(reply) => waited(reply.wait_timeout(limit), Asked::Typed),
        }
    }

    pub fn wait_or_cancel(self, limit: Limit) -> Outcome {
        match self {
            Asked::Closure(reply) => answered(reply.within(limit), Asked::Closure),
            Asked::Typed(reply) => answered(reply.within(limit), Asked::Typed),
        }
    }

    pub fn cancel(self) -> Outcome {
        match self {
            Asked::Closure(reply) => cancelled(reply.cancel(), Asked::Closure),
            Asked::Typed(reply) => cancelled(reply.cancel(), Asked::Typed),
        }
    }

    pub fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Outcome> {
        let ready = match self {
            Asked::Closure(reply) => Pin::new(reply).poll(cx),
            Asked::Typed(reply) => Pin::new(reply).poll(cx),
        };
        ready.map(|result| result.map_or(Outcome::Failed, Outcome::Answered))
    }
}

impl Future for Asked {
    type Output = Outcome;
    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Outcome> {
        self.get_mut().poll(cx)
    }
}

/// Where actors run.
pub enum Place {
    Pool(ThreadPool),
    Queue(DrainQueue),
    Rayon,
    Tokio(tokio::runtime::Runtime, bool),
}

impl Place {
    pub fn new(kind: PlaceKind, stack: usize) -> Self {
        match kind {
            PlaceKind::Pool { workers, spares } => {
                let blocking = if spares == 0 {
                    Blocking::Refuse
                } else {
                    Blocking::Compensate { most: spares }
                };
                let pool = ThreadPool::builder()
                    .threads(workers)
                    .thread_name(POOL_THREAD)
                    .stack_size(stack);
                Place::Pool(pool.blocking(blocking).build().expect("a pool can be had"))
            }
            PlaceKind::Queue { seed: None } => Place::Queue(DrainQueue::new()),
            PlaceKind::Queue { seed: Some(seed) } => Place::Queue(DrainQueue::seeded(seed)),
            PlaceKind::Rayon => Place::Rayon,
            PlaceKind::Tokio { blocking } => {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .thread_stack_size(stack)
                    .thread_name("hp-tokio")
                    .build();
                Place::Tokio(runtime.expect("a runtime can be had"), blocking)
            }
        }
    }

    fn give<S: Send + 'static>(&self, builder: ActorBuilder<S>) -> ActorBuilder<S> {
        static RAYON: OnceLock<Arc<rayon_core::ThreadPool>> = OnceLock::new();
        match self {
            Place::Pool(pool) => builder.executor(pool.handle()),
            Place::Queue(queue) => builder.executor(queue.handle()),
            Place::Rayon => builder.executor(Rayon::new(RAYON.get_or_init(rayon).clone())),
            Place::Tokio(runtime, false) => builder.executor(Tokio::new(runtime.handle().clone())),
            Place::Tokio(runtime, true) => {
                builder.executor(Tokio::for_blocking(runtime.handle().clone()))
            }
        }
    }

    /// Runs what lies in a queue; true if something did.
    pub fn run(&self, most: u32) -> bool {
        let Place::Queue(queue) = self else { return false };
        RUNS_QUEUES.set(true);
        (0..most).filter(|_| queue.run_one()).count() > 0
    }

    pub fn shut_down(self, limit: For) {
        match self {
            Place::Pool(pool) if limit == For::Zero => drop(pool.shutdown_now()),
            Place::Pool(pool) => drop(pool.shutdown(short(limit))),
            Place::Queue(queue) => queue.close(),
            Place::Rayon => {}
            Place::Tokio(runtime, _) => runtime.shutdown_background(),
        }
    }
}

fn rayon() -> Arc<rayon_core::ThreadPool> {
    let pool =
        rayon_core::ThreadPoolBuilder::new().num_threads(2).thread_name(|at| format!("rayon {at}"));
    Arc::new(pool.build().expect("a pool can be had"))
}

/// The executor of the program's own.
struct Odd {
    world: Arc<World>,
    at: usize,
    calls: AtomicUsize,
    _token: Token,
}

impl Executor for Odd {
    fn execute(&self, drain: Drain) {
        drop(self.try_execute(drain));
    }
    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        self.world.execute(self.at, self.calls.fetch_add(1, SeqCst), drain)
    }
}

impl fmt::Debug for OddClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OddClock")
    }
}

impl Clock for OddClock {
    fn now(&self) -> Duration {
        self.look(MonotonicClock.now())
    }
}

/// Makes an actor of the program.
pub fn build(world: &Arc<World>, at: usize) -> Option<Handle> {
    let plan = &world.program.actors[at];
    let token = || Token::new(Kind::Hook, at, None);
    let mut builder = Actor::builder(world.state(at));
    builder = match &plan.runs {
        Runs::Senders => builder,
        Runs::Odd(..) => builder.executor(Odd {
            world: world.clone(),
            at,
            calls: AtomicUsize::new(0),
            _token: token(),
        }),
        Runs::Place(place) => match &*world.places[*place].lock().unwrap() {
            Some(place) => place.give(builder),
            None => builder,
        },
    };
    builder = match plan.room {
        Room::Unbounded => builder,
        Room::Reject(capacity) => builder.capacity(capacity, Overflow::Reject),
        Room::DropNewest(capacity) => builder.capacity(capacity, Overflow::DropNewest),
    };
    if let Some(turns) = plan.budget {
        builder = builder.budget(turns);
    }
    builder = match &plan.clock {
        Time::Real => builder,
        Time::Virtual => builder.clock(world.clock.clone()),
        Time::Odd { .. } => {
            builder.clock(OddClock { world: world.clone(), at, looks: AtomicUsize::new(0) })
        }
    };
    builder = match plan.on_panic {
        OnPanic::Stop => builder.panic_policy(PanicPolicy::Stop),
        OnPanic::Resume => builder.panic_policy(PanicPolicy::Resume),
        OnPanic::Restart => {
            let (world, token) = (world.clone(), token());
            builder.panic_policy(PanicPolicy::restart(move || {
                let _ = &token;
                world.user(&world.program.actors[at].hooks.restart);
                world.state(at)
            }))
        }
    };
    if let Some(body) = plan.hooks.end.clone() {
        let (world, token) = (world.clone(), token());
        builder = builder.on_end(move |state, cause| {
            let (_state, _token) = (state, token);
            if matches!(cause, EndCause::Closed | EndCause::Dropped) {
                world.entries[at].ended_well.store(true, SeqCst);
            }
            world.user(&body);
        });
    }
    if let Some(body) = plan.hooks.panicked.clone() {
        let (world, token) = (world.clone(), token());
        builder = builder.on_panic(move |_| {
            let _ = &token;
            world.user(&body);
        });
    }
    if let Some(body) = plan.hooks.undelivered.clone() {
        let (world, token) = (world.clone(), token());
        builder = builder.on_undelivered(move |_| {
            let _ = &token;
            world.user(&body);
        });
    }
    if let Some((before, after)) = plan.hooks.batch.clone() {
        let (first, last, token) = (world.clone(), world.clone(), token());
        builder = builder.on_batch_start(move |state| {
            let _ = &token;
            let _turn = state.turn(at);
            first.user(&before);
        });
        builder = builder.on_batch_end(move |state, _| {
            let _turn = state.turn(at);
            last.user(&after);
        });
    }
    match plan.system {
        Some(system) => world.systems[system].lock().unwrap().as_ref()?.spawn(builder).ok(),
        None => builder.spawn().ok(),
    }
}

/// An actor of a chain.
struct Bead {
    next: Option<Box<dyn Send>>,
    gone: Arc<AtomicUsize>,
}

impl Drop for Bead {
    fn drop(&mut self) {
        self.gone.fetch_add(1, SeqCst);
    }
}

/// Many actors, each held by the one before: the end of the first is the end of all, on a bounded stack.
pub fn chain(actors: u32, by: Link, place: ChainPlace, stack: usize) {
    let gone = Arc::new(AtomicUsize::new(0));
    let queue = DrainQueue::new();
    let pool = match place {
        ChainPlace::Pool => Some(
            ThreadPool::builder().threads(2).thread_name(POOL_THREAD).stack_size(stack).build(),
        ),
        _ => None,
    };
    let pool = pool.map(|pool| pool.expect("a pool can be had"));
    let mut held: Option<Box<dyn Send>> = None;
    for _ in 0..actors {
        let state =
            Bead { next: if by == Link::State { held.take() } else { None }, gone: gone.clone() };
        let mut builder = Actor::builder(state);
        builder = match (place, &pool) {
            (ChainPlace::Gone, _) => builder.executor(drop::<Drain>),
            (ChainPlace::Queue, _) => builder.executor(queue.handle()),
            (_, Some(pool)) => builder.executor(pool.handle()),
            (_, None) => builder,
        };
        builder = match (by, held.take()) {
            (Link::EndHook, Some(next)) => builder.on_end(move |_, _| drop(next)),
            (Link::WeakInPanicHook, Some(next)) => builder.on_panic(move |_| {
                let _ = &next;
            }),
            (_, next) => {
                held = next;
                builder
            }
        };
        let Ok(actor) = builder.spawn() else { return };
        if by == Link::Message {
            let next = held.take();
            let _ = actor.send(move |bead| drop(std::mem::replace(&mut bead.next, next)));
        }
        held = Some(match by {
            Link::WeakInPanicHook => Box::new(actor.downgrade()),
            Link::State | Link::EndHook | Link::Message => Box::new(actor),
        });
    }
    caught(|| drop(held));
    let patience = Instant::now();
    while gone.load(SeqCst) < actors as usize && patience.elapsed() < Duration::from_secs(20) {
        if queue.run_until_idle() == 0 {
            thread::sleep(Duration::from_micros(100));
        }
    }
    if gone.load(SeqCst) != actors as usize {
        finding(
            "a chain has not ended",
            &format!("{} of {actors} by {by:?} on {place:?}", gone.load(SeqCst)),
        );
    }
}
