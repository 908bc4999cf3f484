//! The public API of the crate, as the programs use it: with `timing` and `turns`, the only module
//! that names `turnwise`.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{self, Poll};
use std::thread;
use std::time::{Duration, Instant};

use turnwise::executor::{Blocking, DrainQueue, Rayon, Tokio};
use turnwise::wait::{Asking, Closing, Ending, Sending, Within};
use turnwise::{
    Actor, AskError, Budget, BuildError, Clock, Context, EndCause, Executor, Handler,
    MonotonicClock, Overflow, PanicPolicy, Promise, Reason, Recipient, Reply, Restarts, SendError,
    ShutdownReport, ThreadPool, Undelivered, WaitError, WeakActor, promise, promise_on,
};
pub use turnwise::{Drain, Limit, System, VirtualClock, blocking};

use crate::ledger::{
    BACK, CLAIMED, HOOKED, KEPT, Kind, NOBODY, RUN, SETTLED, Token, finding, flags, happens, mark,
};
use crate::plan::{
    Asks, ChainPlace, For, How, Inside, Later, Link, Most, OnPanic, PlaceKind, Room, Runs, Time,
    Waits, Watches, Way,
};
use crate::timing::{Beat, Delayed};
use crate::turns::ByHand;
use crate::user::{
    Answer, Last, Mail, OddClock, State, World, asks, called, caught, is_claimed, posts,
};

pub type Handle = Actor<State>;
pub type Weak = WeakActor<State>;
pub type Spawner = turnwise::Spawner<State>;

/// True if a poll runs no turn at all; false if only none of an actor with an executor.
pub const POLL_RUNS_NOBODY: bool = true;

/// True if an actor with an executor is run by that executor alone.
pub const ONLY_EXECUTORS_RUN: bool = true;

/// The name prefix of threads of a program, and of its pools: none is left at the end.
pub const PROGRAM_THREAD: &str = "ht";
pub const POOL_THREAD: &str = "hp";

thread_local! {
    /// True if this thread has run the drains of a queue. (Inside a turn, they run after it.)
    static RUNS_QUEUES: Cell<bool> = const { Cell::new(false) };
}

/// True if this thread belongs to such an executor.
pub fn is_thread_of(place: PlaceKind) -> bool {
    let named = |name: &str| thread::current().name().is_some_and(|own| own.starts_with(name));
    match place {
        PlaceKind::Pool { .. } | PlaceKind::Tokio { .. } => named(POOL_THREAD),
        PlaceKind::Rayon => named("rayon"),
        PlaceKind::Queue { .. } => RUNS_QUEUES.get(),
    }
}

/// Prepares the process, once.
pub fn prepare(stack: usize) {
    let _ = ThreadPool::builder().thread_name("global").stack_size(stack).build_global();
}

/// An actor that runs the drains that it is sent.
pub type Runner = Actor<()>;

pub fn runner() -> Runner {
    Actor::new(())
}

pub fn run_by(runner: &Runner, drain: Drain) {
    // A refused drain is dropped.
    drop(runner.send(move |()| drain.run()));
}

/// Runs a drain in the turn of an actor of its own.
pub fn run_in_a_turn(drain: Drain) {
    drop(runner().with(move |()| drain.run()));
}

/// Makes calls that any user code may make.
pub fn looks_around() {
    let pool = ThreadPool::global();
    let _ = (turnwise::in_turn(), pool.threads(), pool.is_current());
}

/// A value of a hook or an executor, whose drop is user code.
struct Held {
    world: Arc<World>,
    at: usize,
    _token: Token,
}

impl Held {
    fn new(world: &Arc<World>, at: usize) -> Self {
        Held { world: world.clone(), at, _token: world.token(Kind::Hook, at, None) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.world.user("a capture", &self.world.program.actors[self.at].hooks.captured);
    }
}

/// Returns a limit that does no harm where a wait may never end.
pub fn short(limit: For) -> Limit {
    match limit {
        For::Zero => Limit::Immediate,
        For::Micros(micros) => Limit::Within(Duration::from_micros(micros.into())),
        For::Ever => Limit::Within(Duration::from_millis(5)),
    }
}

impl Handler<Mail> for State {
    type Reply = Answer;
    fn handle(&mut self, mail: Mail, cx: &mut Context<'_, Self>) -> Answer {
        mail.run_by(self, |world, at, plan| inside(world, at, plan, cx))
    }
}

/// Runs a handler's steps with its context.
fn inside(world: &World, at: usize, plan: &[Inside], cx: &mut Context<'_, State>) {
    let entry = &world.entries[at];
    for deed in plan {
        match deed {
            Inside::Look => {
                let _ = cx.waiting();
                check_name(world, at, cx.name(), &format!("{cx:?}"));
            }
            Inside::Stop => {
                cx.stop();
                entry.stopped.store(true, SeqCst);
            }
            Inside::StopWeak => {
                cx.weak().stop();
                entry.stopped.store(true, SeqCst);
            }
            Inside::Close => drop(cx.actor().map(|actor| actor.close())),
            Inside::KeepHandle => {
                if let Some(actor) = cx.actor() {
                    let before = entry.handle.lock().unwrap().replace(actor);
                    drop(before);
                }
            }
            Inside::KeepWeak => {
                let before = entry.weak.lock().unwrap().replace(cx.weak());
                drop(before);
            }
            Inside::ForgetHandle => {
                if let Some(actor) = cx.actor() {
                    world.leaks(at);
                    std::mem::forget(actor);
                }
            }
        }
    }
}

/// Checks that a context knows its actor's name.
pub fn check_name(world: &World, at: usize, said: Option<&str>, _context: &str) {
    if said != name(world, at).as_deref() {
        finding("a wrong name", &format!("{said:?} in actor {at}"));
    }
}

/// Returns the name with which an actor is built.
fn name(world: &World, at: usize) -> Option<String> {
    let actor = &world.program.actors[at];
    let name = || actor.spawner.map_or(format!("actor {at}"), |at| format!("spawner {at}"));
    (!actor.plain).then(name)
}

/// A message whose answer contains a promise of an answer.
pub struct Order {
    pub mail: Mail,
    pub later: Later,
}

impl Handler<Order> for State {
    type Reply = Reply<Answer>;
    fn handle(&mut self, order: Order, cx: &mut Context<'_, Self>) -> Reply<Answer> {
        let _called = called("a turn");
        let Order { mail, later } = order;
        let (world, group, to) = (mail.world().clone(), mail.id(), mail.to());
        let (promise, reply) = match group % 4 {
            0 => promise(),
            1 => promise_on(Arc::new(world.clock.clone())),
            2 => world.handle(to).map_or_else(promise, |actor| actor.promise()),
            _ => cx.promise(),
        };
        let answer = mail.run_by(self, |world, at, plan| inside(world, at, plan, cx));
        world.promised(Owed { promise: Some((promise, answer)), group, to }, later);
        reply
    }
}

/// A promise, and the answer that it is for.
pub struct Owed {
    promise: Option<(Promise<Answer>, Answer)>,
    pub group: u32,
    pub to: usize,
}

impl Owed {
    pub fn keep(mut self) {
        let Some((promise, answer)) = self.promise.take() else { return };
        mark(self.group, KEPT);
        if self.group % 2 == 0 {
            return promise.keep(answer);
        }
        match promise.try_keep(answer) {
            Ok(()) => is_claimed(self.group),
            Err(_) if flags(self.group) & CLAIMED != 0 => {
                finding("a claimed promise is not kept", &crate::ledger::described(self.group));
            }
            Err(answer) => drop(answer),
        }
    }

    /// Begins the answer.
    pub fn claim(&mut self) {
        if self.promise.as_mut().is_some_and(|(promise, _)| promise.claim()) {
            is_claimed(self.group);
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.promise.as_ref().is_some_and(|(promise, _)| promise.is_cancelled())
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        struct Settled(u32);
        impl Drop for Settled {
            fn drop(&mut self) {
                mark(self.0, SETTLED);
            }
        }
        let _settled = Settled(self.group);
        drop(self.promise.take());
    }
}

/// Creates a promise of the answer to this, which is run here and belongs to no actor.
pub fn promised(world: &Arc<World>, mail: Mail) -> (Owed, Asked) {
    let (group, to) = (mail.id(), mail.to());
    let answer = mail.run(&mut world.scratch(to));
    let (promise, reply) = promise();
    (Owed { promise: Some((promise, answer)), group, to }, Asked::Promised(reply))
}

/// Sends a promise on, to be kept in a turn.
pub fn pass_on(world: &Arc<World>, at: usize, actor: &Handle, owed: Owed) {
    world.entries[at].record.room.made.fetch_add(1, SeqCst);
    let of = world.clone();
    let _ = actor.send(move |state| {
        let (_called, owed) = (called("a turn"), owed);
        of.entries[at].record.room.comes_back();
        drop(state.message(state.at()));
        owed.keep();
    });
}

/// Wraps the message in a closure that does not fit into a node.
fn large(mail: Mail) -> impl FnOnce(&mut State) -> Answer + Send {
    let ballast = [0_u64; 16];
    move |state| {
        black_box(&ballast);
        mail.run(state)
    }
}

/// The state of an actor before a message is sent.
struct Before {
    world: Arc<World>,
    to: usize,
    id: u32,
    again: bool,
    gone: u64,
}

impl Before {
    fn of(mail: &Mail) -> Self {
        let (world, to, id) = (mail.world().clone(), mail.to(), mail.id());
        let gone = world.entries[to].record.room.gone();
        Before { world, to, id, again: mail.goes_again(), gone }
    }

    /// Checks that a refusal is right, if the actor is full.
    fn came_back(&self, reason: &Reason) {
        came_back(self.id);
        let record = &self.world.entries[self.to].record;
        let plan = &self.world.program.actors[self.to];
        match (reason, plan.room) {
            (Reason::Full, Room::Reject(capacity)) if !record.is_vague.load(SeqCst) => {
                record.room.refuses(capacity, self.gone);
            }
            _ => record.room.comes_back(),
        }
    }
}

/// Checks that a returned message has not run, and still exists. Some are sent once more.
fn retried<M>(
    sent: Result<(), SendError<M>>,
    before: Before,
    send: impl FnOnce(M) -> Result<(), SendError<M>>,
) -> bool {
    let Err(mut error) = sent else { return true };
    before.came_back(error.reason());
    let _ = error.actor();
    let _ = error.message_mut();
    if before.again {
        before.world.entries[before.to].record.room.made.fetch_add(1, SeqCst);
        let message = match before.id % 2 {
            0 => error.into_message(),
            _ => error.into_parts().0,
        };
        return send(message).is_ok();
    }
    false
}

fn came_back(id: u32) {
    if flags(id) & (RUN | crate::ledger::DROPPED) != 0 {
        finding("a message came back that had run", &crate::ledger::described(id));
    }
}

/// Sends. Returns true if the message was accepted.
#[expect(clippy::result_large_err, reason = "a message that is refused comes back by value")]
pub fn send(actor: &Handle, how: How, limit: Limit, mail: Mail) -> bool {
    let (id, at) = (Before::of(&mail), mail.id());
    let waiting = || actor.waiting();
    match how {
        How::Send if mail.is_large() => {
            let large = large(mail);
            let message = move |state: &mut State| drop(large(state));
            retried(actor.send(message), id, |message| actor.send(message))
        }
        How::Send => {
            let message = move |state: &mut State| drop(mail.run(state));
            retried(actor.send(message), id, |message| actor.posted().send(message))
        }
        How::Tell => retried(actor.tell(mail), id, |mail| actor.tell(mail)),
        How::Post => {
            let message = move |state: &mut State| drop(mail.run(state));
            let sent = posts(at, || actor.posted().send(message));
            retried(sent, id, |message| actor.send(message))
        }
        How::PostTyped => {
            let sent = posts(at, || actor.posted().tell(mail));
            retried(sent, id, |mail| waiting().tell(mail).within(limit))
        }
        How::Within(_) => {
            let message = move |state: &mut State| drop(mail.run(state));
            let sent = waiting().send(message).within(limit);
            retried(sent, id, |message| waiting().send(message).within(limit))
        }
        How::TellWithin(_) => {
            let sent = waiting().tell(mail).within(limit);
            retried(sent, id, |mail| actor.posted().tell(mail))
        }
        How::Recipient => {
            let recipient: Recipient<Mail> = Recipient::new(actor);
            let other = recipient.clone();
            let sent = recipient.tell(mail);
            drop(recipient);
            retried(sent, id, |mail| other.tell(mail))
        }
    }
}

pub fn send_many(actor: &Handle, mails: impl Iterator<Item = Mail>) -> bool {
    let messages = mails.map(|mail| move |state: &mut State| drop(mail.run(state)));
    // The program drops the returned messages.
    let sent = asks(|| actor.send_many(messages));
    sent.is_ok()
}

/// A lent closure, which is gone before its caller.
struct Lent(Arc<AtomicBool>);

impl Lent {
    fn check(&self) {
        if self.0.load(SeqCst) {
            finding("a closure was there after its caller", "");
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.check();
    }
}

/// Marks the end of its caller.
struct Leaves(Arc<AtomicBool>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Lends a closure. Returns true if it ran.
pub fn lend(actor: &Handle, mail: Mail) -> bool {
    let leaves = Leaves(Arc::default());
    let lent = Lent(leaves.0.clone());
    let mut frame = [0_u64; 16];
    let borrowed = &mut frame;
    let closure = move |state: &mut State| {
        lent.check();
        borrowed.fill(1);
        let answer = mail.run(state);
        borrowed.fill(2);
        answer
    };
    let ran = actor.with(closure).is_ok();
    if black_box(frame) != [if ran { 2 } else { 0 }; 16] {
        finding("a lent closure did not do what was said", &format!("{ran}"));
    }
    ran
}

pub fn wait_idle(actor: &Handle) {
    let _ = actor.idle().wait();
}

pub fn wait_ended(actor: &Handle, limit: Limit) {
    let _ = actor.ended().within(limit);
}

pub fn is_stopped(actor: &Handle) -> bool {
    actor.stop_cause().is_some()
}

/// Another way into an actor.
#[derive(Clone)]
pub enum Route {
    Recipient(Recipient<Mail>),
    Asks(Recipient<Mail>),
    Weak(Weak),
}

impl Route {
    pub fn new(actor: &Handle, way: Way) -> Self {
        match way {
            Way::Recipient => Route::Recipient(Recipient::new(actor)),
            Way::Asks => Route::Asks(Recipient::new(actor)),
            Way::Weak => Route::Weak(actor.downgrade()),
        }
    }

    /// Sends. Returns whether it was accepted; `None` if only its receivers know.
    pub fn tell(&self, mail: Mail) -> Option<bool> {
        let id = mail.id();
        match self {
            Route::Recipient(recipient) => {
                let before = Before::of(&mail);
                Some(retried(recipient.tell(mail), before, |mail| recipient.tell(mail)))
            }
            Route::Asks(recipient) => match id % 4 {
                0 | 1 => {
                    let before = Before::of(&mail);
                    Some(retried(recipient.tell(mail), before, |mail| recipient.tell(mail)))
                }
                2 => {
                    let _asked = recipient.ask(mail);
                    None
                }
                _ => {
                    let limit = Limit::Within(Duration::from_micros(100));
                    if let Err(WaitError::Cancelled(back)) = recipient.ask(mail).within(limit) {
                        came_back(back.into_message().id());
                        mark(id, BACK);
                    }
                    None
                }
            },
            Route::Weak(weak) => {
                let Some(actor) = weak.upgrade() else { return Some(false) };
                let before = Before::of(&mail);
                Some(retried(actor.tell(mail), before, |mail| actor.tell(mail)))
            }
        }
    }

    /// Reads all that it reports about its actor.
    pub fn empty(&self) {
        match self {
            Route::Recipient(recipient) => {
                let _ = (recipient.name(), recipient.is_closed(), recipient.stop_cause());
            }
            Route::Asks(recipient) => {
                let _ = (recipient.clone() == *recipient, format!("{recipient:?}"));
            }
            Route::Weak(weak) => drop((weak.name(), format!("{weak:?}"))),
        }
    }
}

/// Makes all read-only calls of a clock, and waits for no sleeper.
pub fn look_at_clock(clock: &VirtualClock) {
    let (asleep, next) = (clock.sleepers(), clock.next_wake());
    let _ = (asleep, next, format!("{clock:?}"));
    clock.wait_for_sleepers(0);
}

/// Makes all read-only calls.
pub fn look(world: &World, at: usize, actor: &Handle) {
    let _ = (format!("{actor:?}"), actor.len(), actor.stop_cause(), actor.is_closed());
    let (before, after) = (actor.snapshot(), actor.snapshot());
    if after.discarded < before.discarded {
        finding("numbers do not agree", &format!("actor {at}: {before:?}, {after:?}"));
    }
    let weak = actor.downgrade();
    let room = match world.program.actors[at].room {
        Room::Unbounded => None,
        Room::Reject(capacity) | Room::DropNewest(capacity) => Some(capacity),
    };
    let name = name(world, at);
    if actor.snapshot().capacity != room
        || actor.name() != name.as_deref()
        || weak.name() != actor.name()
    {
        finding("an actor is not as it was built", &format!("actor {at}: {actor:?}"));
    }
    if !weak.upgrade().is_some_and(|same| same == *actor) {
        finding("a handle is lost", &format!("actor {at}: {actor:?}"));
    }
}

pub fn look_at_system(system: &System) {
    let (actors, all) = (system.actors(), system.snapshot());
    let _ = (system.is_shut_down(), format!("{system:?} {all}"));
    let view = system.view();
    let later = view.snapshot();
    if later.discarded < all.discarded {
        finding("messages are discarded no more", &format!("{all:?} {later:?}"));
    }
    if all.actors.iter().any(|actor| actor.name.is_empty()) {
        finding("an actor is shown without a name", &format!("{actors} actors: {all:?}"));
    }
}

/// A request under way.
pub enum Asked {
    Closure(Reply<Answer>),
    Typed(Reply<Answer, Mail>),
    Order(Reply<Reply<Answer>, Order>),
    Promised(Reply<Answer>),
}

/// The outcome of a request.
#[allow(dead_code, reason = "an answer is dropped with it")]
pub enum Outcome {
    Answered(Answer),
    Failed,
    Cancelled(Option<Mail>),
    /// The reply to a promise was cancelled.
    Withdrawn,
    /// Refused: these actors wait for each other.
    Circle(Vec<String>),
    Running(Asked),
}

pub fn ask(actor: &Handle, how: Asks, mail: Mail) -> Asked {
    let id = mail.id();
    match how {
        Asks::Ask => Asked::Typed(actor.ask(mail)),
        Asks::PostedAsk => Asked::Typed(posts(id, || actor.posted().ask(mail))),
        Asks::Call if mail.is_large() => Asked::Closure(actor.call(large(mail))),
        Asks::Call => Asked::Closure(actor.call(move |state| mail.run(state))),
        Asks::PostedCall => {
            Asked::Closure(posts(id, || actor.posted().call(move |state| mail.run(state))))
        }
        Asks::Run if mail.is_large() => {
            let ballast = [0_u64; 16];
            Asked::Closure(actor.run(async move |state: &mut State| {
                black_box(&ballast);
                mail.stays(state, |_, _, _| ()).await
            }))
        }
        Asks::Run if mail.id() % 2 == 0 => {
            let token = mail.world().token(Kind::Future, mail.to(), Some(mail.id()));
            Asked::Closure(actor.run(boxed(move |state| {
                Box::pin(ByHand::new(mail.stays(state, |_, _, _| ()), token))
            })))
        }
        Asks::Run => Asked::Closure(
            actor.run(async move |state: &mut State| mail.stays(state, |_, _, _| ()).await),
        ),
        Asks::RunAbortable(slot) => {
            let (world, to) = (mail.world().clone(), mail.to());
            let (reply, handle) = actor.run_abortable(async move |state: &mut State| {
                mail.stays(state, |_, _, _| ()).await
            });
            let _ = format!("{handle:?}");
            world.desk.keep_abort(slot, to, handle);
            Asked::Closure(reply)
        }
        Asks::PostedRun => Asked::Closure(posts(id, || {
            let turn = async move |state: &mut State| mail.stays(state, |_, _, _| ()).await;
            actor.posted().run(turn)
        })),
        Asks::AskAsync => Asked::Typed(actor.ask_async(mail)),
        Asks::PostedAskAsync => Asked::Typed(posts(id, || actor.posted().ask_async(mail))),
    }
}

pub fn order(actor: &Handle, order: Order) -> Asked {
    Asked::Order(actor.ask(order))
}

/// Converts the result of a wait; `M` is the part that is returned.
fn answered<R, M>(
    result: Result<R, WaitError<R, M>>,
    answered: impl FnOnce(R) -> Outcome,
    running: impl FnOnce(Reply<R, M>) -> Outcome,
    back: impl FnOnce(M) -> Option<Mail>,
) -> Outcome {
    match result {
        Ok(answer) => answered(answer),
        Err(WaitError::Cancelled(message)) => {
            let _ = message.actor();
            Outcome::Cancelled(back(message.into_message()))
        }
        Err(WaitError::TimedOut(reply)) => running(reply),
        Err(WaitError::Ask(error)) => refused(&error),
        Err(_) => Outcome::Failed,
    }
}

fn still<R, M>(wrap: fn(Reply<R, M>) -> Asked) -> impl FnOnce(Reply<R, M>) -> Outcome {
    move |reply| Outcome::Running(wrap(reply))
}

fn nothing(_: ()) -> Option<Mail> {
    None
}

fn ended(result: Result<Answer, AskError>) -> Outcome {
    match result {
        Ok(answer) => Outcome::Answered(answer),
        Err(error) => refused(&error),
    }
}

fn refused(error: &AskError) -> Outcome {
    match error {
        AskError::Refused(Reason::Deadlock(cycle), _) => Outcome::Circle(cycle.actors().to_vec()),
        _ => Outcome::Failed,
    }
}

impl Asked {
    /// Waits, and keeps the reply or not.
    pub fn wait(self, limit: Limit, by_ref: bool) -> Outcome {
        if by_ref { self.wait_by_ref(limit) } else { self.wait_by_value(limit) }
    }

    fn wait_by_ref(mut self, limit: Limit) -> Outcome {
        let answer = match &mut self {
            Asked::Closure(reply) | Asked::Promised(reply) => reply.wait_by_ref(limit),
            Asked::Typed(reply) => reply.wait_by_ref(limit),
            Asked::Order(reply) => match reply.wait_by_ref(limit) {
                Ok(Some(reply)) => return Asked::Promised(reply).wait_by_ref(limit),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
        };
        match answer {
            Ok(Some(answer)) => Outcome::Answered(answer),
            Ok(None) if limit == Limit::Unlimited => {
                finding("a wait without a limit is over", "by reference");
                Outcome::Failed
            }
            Ok(None) => Outcome::Running(self),
            Err(AskError::Refused(Reason::WouldBlock, _)) => Outcome::Running(self),
            Err(error) => refused(&error),
        }
    }

    fn wait_by_value(self, limit: Limit) -> Outcome {
        let forever = limit == Limit::Unlimited;
        match self {
            Asked::Closure(reply) | Asked::Promised(reply) if forever => ended(reply.wait()),
            Asked::Typed(reply) if forever => ended(reply.wait()),
            Asked::Order(reply) if forever => ended(reply.wait().and_then(Reply::wait)),
            Asked::Closure(reply) => answered(
                reply.wait_timeout(limit),
                Outcome::Answered,
                still(Asked::Closure),
                nothing,
            ),
            Asked::Promised(reply) => answered(
                reply.wait_timeout(limit),
                Outcome::Answered,
                still(Asked::Promised),
                nothing,
            ),
            Asked::Typed(reply) => {
                answered(reply.wait_timeout(limit), Outcome::Answered, still(Asked::Typed), Some)
            }
            Asked::Order(reply) => answered(
                reply.wait_timeout(limit),
                |reply| Asked::Promised(reply).wait_by_value(limit),
                still(Asked::Order),
                |order| Some(order.mail),
            ),
        }
    }

    pub fn wait_or_cancel(self, limit: Limit) -> Outcome {
        match self {
            Asked::Closure(reply) => {
                answered(reply.within(limit), Outcome::Answered, still(Asked::Closure), nothing)
            }
            Asked::Promised(reply) => {
                let outcome = answered(
                    reply.within(limit),
                    Outcome::Answered,
                    still(Asked::Promised),
                    nothing,
                );
                // Its request has run.
                match outcome {
                    Outcome::Cancelled(_) => Outcome::Withdrawn,
                    outcome => outcome,
                }
            }
            Asked::Typed(reply) => {
                answered(reply.within(limit), Outcome::Answered, still(Asked::Typed), Some)
            }
            Asked::Order(reply) => answered(
                reply.within(limit),
                |reply| Asked::Promised(reply).wait_or_cancel(limit),
                still(Asked::Order),
                |order| Some(order.mail),
            ),
        }
    }

    pub fn cancel(self) -> Outcome {
        match self {
            Asked::Closure(reply) => match reply.cancel() {
                Ok(()) => Outcome::Cancelled(None),
                Err(reply) => Outcome::Running(Asked::Closure(reply)),
            },
            Asked::Promised(reply) => match reply.cancel() {
                Ok(()) => Outcome::Withdrawn,
                Err(reply) => Outcome::Running(Asked::Promised(reply)),
            },
            Asked::Typed(reply) => match reply.cancel() {
                Ok(mail) => Outcome::Cancelled(Some(mail)),
                Err(reply) => Outcome::Running(Asked::Typed(reply)),
            },
            Asked::Order(reply) => match reply.cancel() {
                Ok(order) => Outcome::Cancelled(Some(order.mail)),
                Err(reply) => Outcome::Running(Asked::Order(reply)),
            },
        }
    }

    pub fn is_ready(&self) -> bool {
        match self {
            Asked::Closure(reply) | Asked::Promised(reply) => reply.is_ready(),
            Asked::Typed(reply) => reply.is_ready(),
            Asked::Order(reply) => reply.is_ready(),
        }
    }

    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Done> {
        let answer = match self {
            Asked::Closure(reply) | Asked::Promised(reply) => Pin::new(reply).poll(cx),
            Asked::Typed(reply) => Pin::new(reply).poll(cx),
            Asked::Order(reply) => match Pin::new(reply).poll(cx) {
                Poll::Ready(Ok(reply)) => {
                    *self = Asked::Promised(reply);
                    return self.poll(cx);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Done::answer(Err(error))),
                Poll::Pending => return Poll::Pending,
            },
        };
        answer.map(Done::answer)
    }

    /// Checks that a reply that has been ready stays so.
    fn is_taken(&mut self, cx: &mut task::Context<'_>) -> bool {
        fn taken<R>(again: Poll<Result<R, AskError>>) -> bool {
            matches!(again, Poll::Ready(Err(AskError::Taken)))
        }
        match self {
            Asked::Closure(reply) | Asked::Promised(reply) => taken(Pin::new(reply).poll(cx)),
            Asked::Typed(reply) => taken(Pin::new(reply).poll(cx)),
            Asked::Order(reply) => taken(Pin::new(reply).poll(cx)),
        }
    }
}

/// The result of a shutdown.
type Report = Result<ShutdownReport, Reason>;

/// A future that is under way, and can be polled.
pub enum Underway {
    Sending(Sending<Mail>),
    Asked(Asked),
    Asking(Asking<Answer, Mail>),
    Calling(Asking<Answer>),
    Flat(Pin<Box<dyn Future<Output = Result<Answer, AskError>> + Send>>),
    Ending(Ending<State>, Watches),
    Closing(Box<(Closing, Option<Report>)>),
    Sleeping(turnwise::time::Sleep),
    /// With a limit.
    Limited(Limited),
}

/// A future with a limit.
pub enum Limited {
    Sending(Within<Sending<Mail>>),
    Closure(Within<Reply<Answer>>),
    Promised(Within<Reply<Answer>>),
    Typed(Within<Reply<Answer, Mail>>),
    Order(Within<Reply<Reply<Answer>, Order>>),
    Asking(Within<Asking<Answer, Mail>>),
    Calling(Within<Asking<Answer>>),
    Ending(Within<Ending<State>>),
    Closing(Box<(Within<Closing>, Option<Report>)>),
}

impl Limited {
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Done> {
        fn done<M>(
            answer: Result<Answer, WaitError<Answer, M>>,
            back: impl FnOnce(M) -> Done,
        ) -> Done {
            match answer {
                Ok(answer) => Done::Answered(answer),
                Err(WaitError::Cancelled(message)) => back(message.into_message()),
                Err(WaitError::Ask(error)) => Done::answer(Err(error)),
                Err(_) => Done::Unanswered,
            }
        }
        let empty = |()| Done::Cancelled(None);
        let full = |mail| Done::Cancelled(Some(mail));
        match self {
            Limited::Sending(sending) => Pin::new(sending).poll(cx).map(|sent| match sent {
                Ok(()) => Done::Sent,
                Err(error) => Done::Refused(error.into_message()),
            }),
            Limited::Closure(reply) => Pin::new(reply).poll(cx).map(|now| done(now, empty)),
            Limited::Promised(reply) => {
                Pin::new(reply).poll(cx).map(|now| done(now, |()| Done::Withdrawn))
            }
            Limited::Typed(reply) => Pin::new(reply).poll(cx).map(|now| done(now, full)),
            Limited::Order(reply) => Pin::new(reply).poll(cx).map(|now| match now {
                Err(WaitError::Cancelled(order)) => {
                    Done::Cancelled(Some(order.into_message().mail))
                }
                Err(WaitError::Ask(error)) => Done::answer(Err(error)),
                _ => Done::Unanswered,
            }),
            Limited::Asking(asking) => Pin::new(asking).poll(cx).map(|now| done(now, full)),
            Limited::Calling(asking) => Pin::new(asking).poll(cx).map(|now| done(now, empty)),
            Limited::Ending(ending) => Pin::new(ending).poll(cx).map(|_| Done::Over),
            Limited::Closing(closing) => Pin::new(&mut closing.0).poll(cx).map(|now| {
                closing.1 = Some(now);
                Done::Over
            }),
        }
    }

    /// Checks that another poll gives the promised result.
    fn is_steady(&mut self, cx: &mut task::Context<'_>) -> bool {
        fn taken<R, M>(again: Poll<Result<R, WaitError<R, M>>>) -> bool {
            matches!(again, Poll::Ready(Err(WaitError::Ask(AskError::Taken))))
        }
        match self {
            Limited::Sending(sending) => {
                matches!(Pin::new(sending).poll(cx), Poll::Ready(Ok(())))
            }
            Limited::Closure(reply) | Limited::Promised(reply) => taken(Pin::new(reply).poll(cx)),
            Limited::Typed(reply) => taken(Pin::new(reply).poll(cx)),
            Limited::Order(reply) => taken(Pin::new(reply).poll(cx)),
            Limited::Asking(asking) => taken(Pin::new(asking).poll(cx)),
            Limited::Calling(asking) => taken(Pin::new(asking).poll(cx)),
            Limited::Ending(_) => true,
            Limited::Closing(closing) => match Pin::new(&mut closing.0).poll(cx) {
                // A refused one looks again.
                Poll::Ready(now) => closing.1.as_ref() == Some(&now) || now.is_err(),
                Poll::Pending => matches!(closing.1, Some(Err(_))),
            },
        }
    }
}

/// The result of a future.
#[allow(dead_code, reason = "an answer is dropped with it")]
pub enum Done {
    Sent,
    Refused(Mail),
    Cancelled(Option<Mail>),
    Answered(Answer),
    Unanswered,
    /// Turns wait for each other. The answer can still be had.
    Circle,
    /// The reply to a promise was cancelled.
    Withdrawn,
    Over,
}

/// Makes all read-only calls of an error.
fn look_at_error(error: &AskError) {
    let _ = (error.actor(), error.to_string());
    match error {
        AskError::Panicked(panic) => drop((panic.actor(), panic.text().len(), panic.to_string())),
        AskError::Refused(Reason::Deadlock(cycle), name) if cycle.actors().is_empty() => {
            finding("a circle without actors", &format!("{cycle:?} at {:?}", name.as_str()));
        }
        _ => {}
    }
}

impl Done {
    fn answer(answer: Result<Answer, AskError>) -> Self {
        answer.as_ref().err().into_iter().for_each(look_at_error);
        match answer {
            Ok(answer) => Done::Answered(answer),
            Err(AskError::Refused(Reason::Deadlock(_), _)) => Done::Circle,
            Err(_) => Done::Unanswered,
        }
    }
}

/// Makes a turn with a hand-written future: its content exists after a panic.
fn boxed<F>(turn: F) -> F
where
    F: for<'a> FnOnce(&'a mut State) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>,
{
    turn
}

/// Offers the message in the call, not in a poll.
pub fn waiting(actor: &Handle, what: Waits, mail: Mail) -> Underway {
    match what {
        Waits::Tell => Underway::Sending(actor.waiting().tell(mail)),
        Waits::Call => Underway::Calling(actor.waiting().call(move |state| mail.run(state))),
        Waits::Ask => Underway::Asking(actor.waiting().ask(mail)),
        Waits::Run => Underway::Calling(
            actor
                .waiting()
                .run(async move |state: &mut State| mail.stays(state, |_, _, _| ()).await),
        ),
        Waits::AskAsync => Underway::Asking(actor.waiting().ask_async(mail)),
    }
}

pub fn watching(actor: &Handle, what: Watches) -> Underway {
    let ending = match what {
        Watches::Idle => actor.idle(),
        Watches::Ended => actor.ended(),
    };
    Underway::Ending(ending, what)
}

pub fn shut_down(system: &System, limit: For) {
    if let Ok(report) = system.shutdown(short(limit)) {
        let all = report.is_complete();
        if all && !system.is_shut_down() {
            finding("a system is shut down and is not", &format!("{report:?}"));
        }
    }
}

pub fn closing(system: &System) -> Underway {
    Underway::Closing(Box::new((system.shutdown_async(), None)))
}

/// Makes a future of an order, with the crate's own combinator or with this module's.
pub fn flat(asked: Asked, flattens: bool) -> Underway {
    match asked {
        Asked::Order(reply) if flattens => Underway::Flat(Box::pin(async { reply.await?.await })),
        asked => Underway::Asked(asked),
    }
}

impl Underway {
    /// Adds a limit, where it can have one. Panics if the clock does.
    pub fn limited(self, limit: Option<Limit>) -> Self {
        let Some(limit) = limit else { return self };
        Underway::Limited(match self {
            Underway::Sending(sending) => Limited::Sending(sending.within_async(limit)),
            Underway::Asked(Asked::Closure(reply)) => Limited::Closure(reply.within_async(limit)),
            Underway::Asked(Asked::Promised(reply)) => Limited::Promised(reply.within_async(limit)),
            Underway::Asked(Asked::Typed(reply)) => Limited::Typed(reply.within_async(limit)),
            Underway::Asked(Asked::Order(reply)) => Limited::Order(reply.within_async(limit)),
            Underway::Asking(asking) => Limited::Asking(asking.within_async(limit)),
            Underway::Calling(asking) => Limited::Calling(asking.within_async(limit)),
            Underway::Ending(ending, _) => Limited::Ending(ending.within_async(limit)),
            Underway::Closing(closing) => {
                Limited::Closing(Box::new((closing.0.within_async(limit), closing.1)))
            }
            other => return other,
        })
    }

    /// True if it may be ready because the time is over.
    pub fn has_limit(&self) -> bool {
        matches!(self, Underway::Limited(_))
    }

    /// True if it waits for an actor to be idle, or to end.
    pub fn watches(&self) -> bool {
        matches!(self, Underway::Ending(..) | Underway::Limited(Limited::Ending(_)))
    }

    pub fn what(&self) -> &'static str {
        match self {
            Underway::Sending(_) => "a message that waits for room",
            Underway::Asked(Asked::Order(_)) => "an order",
            Underway::Asked(Asked::Promised(_)) => "a promised reply",
            Underway::Asked(_) => "a reply",
            Underway::Asking(_) | Underway::Calling(_) => "a question that waits for room",
            Underway::Flat(_) => "a flattened reply",
            Underway::Ending(_, Watches::Ended) => "an end",
            Underway::Ending(_, Watches::Idle) => "an idle moment",
            Underway::Limited(Limited::Sending(_)) => "a message that waits within a limit",
            Underway::Limited(Limited::Ending(_)) => "an end within a limit",
            Underway::Limited(Limited::Closing(_)) => "a shutdown within a limit",
            Underway::Limited(_) => "a question within a limit",
            Underway::Closing(_) => "a shutdown",
            Underway::Sleeping(_) => "a sleep",
        }
    }

    pub fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Done> {
        match self {
            Underway::Sending(sending) => Pin::new(sending).poll(cx).map(|sent| match sent {
                Ok(()) => Done::Sent,
                Err(error) => Done::Refused(error.into_message()),
            }),
            Underway::Asked(asked) => asked.poll(cx),
            Underway::Asking(asking) => Pin::new(asking).poll(cx).map(Done::answer),
            Underway::Calling(asking) => Pin::new(asking).poll(cx).map(Done::answer),
            Underway::Flat(future) => {
                // Its frames are the program's.
                let _called = called("a future");
                future.as_mut().poll(cx).map(Done::answer)
            }
            Underway::Ending(ending, _) => Pin::new(ending).poll(cx).map(|_| Done::Over),
            Underway::Limited(limited) => limited.poll(cx),
            Underway::Sleeping(sleep) => Pin::new(sleep).poll(cx).map(|()| Done::Over),
            Underway::Closing(closing) => Pin::new(&mut closing.0).poll(cx).map(|now| {
                closing.1 = Some(now);
                Done::Over
            }),
        }
    }

    /// Polls a future that has been ready. An `async` block promises nothing then, and an actor may
    /// be busy again.
    pub fn poll_again(&mut self, cx: &mut task::Context<'_>) {
        let as_promised = match self {
            Underway::Sending(sending) => {
                matches!(Pin::new(sending).poll(cx), Poll::Ready(Ok(())))
            }
            Underway::Asked(asked) => asked.is_taken(cx),
            Underway::Asking(asking) => {
                matches!(Pin::new(asking).poll(cx), Poll::Ready(Err(AskError::Taken)))
            }
            Underway::Calling(asking) => {
                matches!(Pin::new(asking).poll(cx), Poll::Ready(Err(AskError::Taken)))
            }
            Underway::Limited(limited) => limited.is_steady(cx),
            Underway::Flat(_) | Underway::Ending(_, Watches::Idle) => true,
            Underway::Sleeping(sleep) => Pin::new(sleep).poll(cx).is_ready(),
            Underway::Ending(ending, _) => Pin::new(ending).poll(cx).is_ready(),
            Underway::Closing(closing) => match Pin::new(&mut closing.0).poll(cx) {
                // A refused one looks again.
                Poll::Ready(now) => closing.1.as_ref() == Some(&now) || now.is_err(),
                Poll::Pending => matches!(closing.1, Some(Err(_))),
            },
        };
        if !as_promised {
            finding("a finished future forgets that it was ready", self.what());
        }
    }

    /// Waits instead, where that is possible.
    pub fn within(self, limit: Limit) -> Option<Done> {
        fn asked<M>(
            answer: Result<Answer, WaitError<Answer, M>>,
            back: impl FnOnce(M) -> Option<Mail>,
        ) -> Done {
            match answer {
                Ok(answer) => Done::Answered(answer),
                Err(WaitError::Cancelled(message)) => Done::Cancelled(back(message.into_message())),
                Err(_) => Done::Unanswered,
            }
        }
        match self {
            Underway::Sending(sending) => Some(match limit {
                Limit::Unlimited => sending.wait(),
                limit => sending.within(limit),
            })
            .map(|sent| match sent {
                Ok(()) => Done::Sent,
                Err(error) => Done::Refused(error.into_message()),
            }),
            Underway::Asking(asking) if limit == Limit::Unlimited => {
                Some(Done::answer(asking.wait()))
            }
            Underway::Asking(asking) => Some(asked(asking.within(limit), Some)),
            Underway::Calling(asking) => Some(asked(asking.within(limit), nothing)),
            _ => None,
        }
    }

    pub fn is_flat(&self) -> bool {
        match self {
            Underway::Asked(asked) => matches!(asked, Asked::Order(_) | Asked::Promised(_)),
            Underway::Flat(_) | Underway::Limited(Limited::Promised(_)) => true,
            _ => false,
        }
    }
}

/// The executor of actors.
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

    /// Runs the drains of a queue. Returns true if there was one.
    pub fn run(&self, most: u32, limit: Option<Limit>) -> bool {
        let Place::Queue(queue) = self else { return false };
        RUNS_QUEUES.set(true);
        let _ = (queue.len(), queue.is_empty());
        match limit {
            None => (0..most).filter(|_| queue.run_one()).count() > 0,
            Some(Limit::Unlimited) => queue.run_until_idle() > 0,
            Some(limit) => queue.run_for(limit) > 0,
        }
    }

    /// Returns true if it certainly runs nothing from now on.
    pub fn shut_down(self, limit: For) -> bool {
        match self {
            Place::Pool(pool) if limit == For::Zero => pool.shutdown_now().is_complete(),
            Place::Pool(pool) => pool.shutdown(short(limit)).is_complete(),
            Place::Queue(queue) => {
                queue.close();
                // It returns when all drains there have been run.
                RUNS_QUEUES.set(true);
                queue.run_until_closed();
                true
            }
            Place::Rayon => false,
            Place::Tokio(runtime, _) => {
                runtime.shutdown_background();
                false
            }
        }
    }
}

fn rayon() -> Arc<rayon_core::ThreadPool> {
    static RAYON: OnceLock<Arc<rayon_core::ThreadPool>> = OnceLock::new();
    let made = || {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2);
        let pool = pool.thread_name(|at| format!("rayon {at}"));
        Arc::new(pool.build().expect("a pool can be had"))
    };
    RAYON.get_or_init(made).clone()
}

/// The executor of the program.
struct Odd {
    world: Arc<World>,
    at: usize,
    calls: AtomicUsize,
    questions: AtomicUsize,
    waits: AtomicUsize,
    _held: Held,
}

impl Executor for Odd {
    fn execute(&self, drain: Drain) {
        drop(self.try_execute(drain));
    }
    fn try_execute(&self, drain: Drain) -> Result<(), Drain> {
        let _ = format!("{drain:?}");
        self.world.execute(self.at, self.calls.fetch_add(1, SeqCst), drain)
    }
    fn is_closed(&self) -> bool {
        self.world.is_executor_closed(self.at, self.questions.fetch_add(1, SeqCst))
    }
    fn needs_this_thread(&self) -> bool {
        self.world.needs_this_thread(self.at, self.waits.fetch_add(1, SeqCst))
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
    fn park_until(&self, at: Duration) {
        if !self.wakes_early() {
            MonotonicClock.park_until(at);
        }
    }
}

/// Makes the settings that the builders of an actor and of a spawner have in common.
macro_rules! described {
    ($builder:expr, $world:expr, $at:expr) => {{
        let (world, at): (&Arc<World>, usize) = ($world, $at);
        let plan = &world.program.actors[at];
        let mut builder = $builder;
        if let Some(name) = name(world, at) {
            builder = builder.name(name);
        }
        builder = match &plan.runs {
            Runs::Senders => builder,
            Runs::Odd(..) => builder.executor(Odd {
                world: world.clone(),
                at,
                calls: AtomicUsize::new(0),
                questions: AtomicUsize::new(0),
                waits: AtomicUsize::new(0),
                _held: Held::new(world, at),
            }),
            Runs::Place(place) => match world.places[*place].lock().unwrap().as_deref() {
                Some(Place::Pool(pool)) => builder.executor(pool.handle()),
                Some(Place::Queue(queue)) => builder.executor(queue.handle()),
                Some(Place::Rayon) => builder.executor(Rayon::new(rayon())),
                Some(Place::Tokio(runtime, false)) => {
                    builder.executor(Tokio::new(runtime.handle().clone()))
                }
                Some(Place::Tokio(runtime, true)) => {
                    builder.executor(Tokio::for_blocking(runtime.handle().clone()))
                }
                None => builder,
            },
        };
        builder = match plan.room {
            Room::Unbounded => builder,
            Room::Reject(capacity) => builder.capacity(capacity, Overflow::Reject),
            Room::DropNewest(capacity) => builder.capacity(capacity, Overflow::DropNewest),
        };
        builder = match plan.budget {
            None => builder,
            Some(Most::Turns(turns)) => builder.budget(turns),
            Some(Most::Both(turns, micros)) => {
                builder.budget(Budget::turns(turns).time(Duration::from_micros(micros.into())))
            }
            Some(Most::Unlimited) => builder.budget(Budget::UNLIMITED),
        };
        builder = match &plan.clock {
            Time::Real => builder,
            Time::Virtual => match crate::timing::of_actor(world, at) {
                Some(timers) => builder.timers(timers),
                None => builder.clock(world.clock.clone()),
            },
            Time::Odd { .. } => {
                let (looks, parks) = (AtomicUsize::new(0), AtomicUsize::new(0));
                builder.clock(OddClock { world: world.clone(), at, looks, parks })
            }
        };
        builder = builder.counted(plan.counted);
        // A spawner's hooks and policy are called for any of its actors: the one whose state they
        // are given, or whose turn was the last here.
        let own = plan.spawner.is_none().then_some(at);
        if let Some(body) = plan.hooks.end.clone() {
            let (world, token, waits) = (world.clone(), Held::new(world, at), plan.hooks.waits);
            builder = builder.on_end(move |state, cause| {
                let _called = called("an end hook");
                let (_token, state): (_, State) = (&token, state);
                let entry = &world.entries[state.at()];
                let _ = cause.clone().stop_cause();
                entry.ends.fetch_add(1, SeqCst);
                if matches!(cause, EndCause::Closed | EndCause::Dropped) {
                    entry.ended_well.store(true, SeqCst);
                }
                if waits {
                    world.wait_for_stopped(state.at());
                }
                world.user("an end hook", &body);
            });
        }
        if let Some(body) = plan.hooks.panicked.clone() {
            let (world, token) = (world.clone(), Held::new(world, at));
            builder = builder.on_panic(move |_| {
                let _token = &token;
                // A factory's panic has no known actor.
                if let Some(entry) = world.entries.get(own.unwrap_or_else(|| Last::here().0)) {
                    entry.panics.fetch_sub(1, SeqCst);
                }
                if let Some(at) = own {
                    world.entries[at].record.panicked(&world, at);
                }
                world.user("a panic hook", &body);
            });
        }
        if let Some(body) = plan.hooks.undelivered.clone() {
            let (world, token) = (world.clone(), Held::new(world, at));
            builder = builder.on_undelivered(move |message| {
                let _token = &token;
                let _called = called("an undelivered hook");
                undelivered(&world, at, message);
                world.user("an undelivered hook", &body);
            });
        }
        if let Some(body) = plan.hooks.batch.clone() {
            let (world, token) = (world.clone(), Held::new(world, at));
            builder = builder.on_batch_end(move |state: &mut State, _| {
                let _token = &token;
                let _turn = state.batch_end(state.at());
                world.user("a batch's hook", &body);
            });
        }
        builder
    }};
}

/// Makes the fresh state of an actor, or of a spawner's whose turn was the last here.
fn restart(world: &Arc<World>, at: usize, token: &Held) -> State {
    let (_called, _token, plan) = (called("a factory"), token, &world.program.actors[at]);
    if let OnPanic::Within { .. } = plan.on_panic {
        // It is called in a turn of its own, wherever that runs.
        let is_own = plan.spawner.is_none();
        if is_own {
            world.entries[at].record.restarts(world, at);
        }
        let _nobody = (!is_own).then_some(Last(NOBODY));
        world.user("a factory", &plan.hooks.restart);
        return if is_own { world.state(at) } else { world.fresh_state() };
    }
    let of = if plan.spawner.is_some() { Last::here().0 } else { at };
    world.user("a factory", &plan.hooks.restart);
    match of {
        // A message that was dropped before its turn has panicked, where there was no turn.
        NOBODY => world.fresh_state(),
        of => world.state(of),
    }
}

/// Returns the limits of its restarts.
fn restarts(policy: OnPanic) -> Restarts {
    let OnPanic::Within { most, within, first, longest } = policy else {
        return Restarts::at_most(0, Duration::ZERO);
    };
    let micros = |micros: u32| Duration::from_micros(micros.into());
    Restarts::at_most(most, micros(within.max(1))).backoff(micros(first), micros(longest))
}

/// Makes a spawner of the program, when the first of its actors is described.
pub fn spawner(world: &Arc<World>, first: usize) -> Option<Spawner> {
    let plan = &world.program.actors[first];
    let builder = Actor::builder();
    if plan.plain {
        return builder.build().ok();
    }
    let policy = match plan.on_panic {
        OnPanic::Stop => PanicPolicy::Stop,
        OnPanic::Resume => PanicPolicy::Resume,
        OnPanic::Restart => {
            let (world, token) = (world.clone(), Held::new(world, first));
            PanicPolicy::restart(move || restart(&world, first, &token))
        }
        OnPanic::Within { .. } => {
            let (world, token) = (world.clone(), Held::new(world, first));
            let restarts = restarts(plan.on_panic);
            PanicPolicy::restart_within(restarts, move || restart(&world, first, &token))
        }
    };
    described!(builder.panic_policy(policy), world, first).build().ok()
}

/// Returns the actor of a system, unless that is shut down.
fn not_refused(spawned: Result<Handle, BuildError>, at: usize) -> Option<Handle> {
    match spawned {
        Err(error) if error != BuildError::ShutDown => {
            finding("a system refuses for a strange reason", &format!("actor {at}: {error}"));
            None
        }
        spawned => spawned.ok(),
    }
}

/// Makes an actor of the program.
pub fn build(world: &Arc<World>, at: usize) -> Option<Handle> {
    let plan = &world.program.actors[at];
    let spawns = |system: usize| world.systems[system].lock().unwrap().clone();
    if let Some(spawner) = plan.spawner {
        let spawner = world.spawners[spawner].lock().unwrap().clone()?;
        if spawner.name() != name(world, at).as_deref() {
            finding("a wrong name", &format!("{spawner:?} of actor {at}"));
        }
        return match plan.system {
            Some(system) => not_refused(spawns(system)?.spawn_from(&spawner, world.state(at)), at),
            None => Some(spawner.spawn(world.state(at))),
        };
    }
    if plan.plain {
        return match plan.system {
            Some(system) => not_refused(spawns(system)?.actor(world.state(at)), at),
            None => Some(Actor::new(world.state(at))),
        };
    }
    let policy = match plan.on_panic {
        OnPanic::Stop => PanicPolicy::Stop,
        OnPanic::Resume => PanicPolicy::Resume,
        OnPanic::Restart => {
            let (world, token) = (world.clone(), Held::new(world, at));
            PanicPolicy::restart_from(move |old: &mut State| {
                // The old state is there, and in no turn.
                drop(old.batch_end(old.at()));
                restart(&world, at, &token)
            })
        }
        OnPanic::Within { .. } => {
            let (world, token) = (world.clone(), Held::new(world, at));
            let restarts = restarts(plan.on_panic);
            PanicPolicy::restart_within(restarts, move || restart(&world, at, &token))
        }
    };
    let builder = Actor::builder().panic_policy(policy);
    let builder = described!(builder, world, at);
    match plan.system {
        Some(system) => not_refused(spawns(system)?.spawn(builder, world.state(at)), at),
        None => builder.spawn(world.state(at)).ok(),
    }
}

/// The undelivered hook owns a message now.
fn undelivered(world: &Arc<World>, at: usize, message: Undelivered<State>) {
    let rescues = world.program.actors[at].hooks.rescues;
    let mail = match message {
        Undelivered::Closure(closure) if rescues => {
            return closure(&mut world.scratch(at));
        }
        Undelivered::Closure(_) => return,
        Undelivered::Message(message) => match message.downcast::<Mail>() {
            Ok(mail) => *mail,
            // A delayed message may or may not have been accepted.
            Err(message) if message.is::<Delayed>() || message.is::<Beat>() => return,
            Err(_) => return finding("a foreign message", &format!("at actor {at}")),
        },
        _ => return,
    };
    let actors = &world.program.actors;
    let kin = actors[at].spawner.is_some() && actors[mail.to()].spawner == actors[at].spawner;
    if mark(mail.id(), HOOKED) & RUN != 0 || mail.to() != at && !kin {
        finding("a message was undelivered that had run", &crate::ledger::described(mail.id()));
    }
    let mail = if rescues { mail.once_more() } else { None };
    let Some(mail) = mail else { return };
    if let Some(actor) = world.handle(mail.to()) {
        let _ = actor.tell(mail);
    }
}

/// An actor of a chain.
struct Bead {
    next: Option<Box<dyn Send>>,
    gone: Arc<AtomicUsize>,
}

impl Drop for Bead {
    fn drop(&mut self) {
        happens();
        self.gone.fetch_add(1, SeqCst);
    }
}

/// Makes many actors, each held by the one before: the end of the first is the end of all, on a
/// bounded stack.
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
        happens();
        let state =
            Bead { next: if by == Link::State { held.take() } else { None }, gone: gone.clone() };
        let mut builder = Actor::builder();
        builder = match (place, &pool) {
            (ChainPlace::Gone, _) => builder.executor(drop::<Drain>),
            (ChainPlace::Queue, _) => builder.executor(queue.handle()),
            (_, Some(pool)) => builder.executor(pool.handle()),
            (_, None) => builder,
        };
        builder = match (by, held.take()) {
            (Link::EndHook, Some(next)) => {
                let next = Mutex::new(Some(next));
                builder.on_end(move |_, _| drop(next.lock().unwrap().take()))
            }
            (Link::WeakInPanicHook, Some(next)) => {
                let next = Mutex::new(next);
                builder.on_panic(move |_| {
                    let _ = &next;
                })
            }
            (_, next) => {
                held = next;
                builder
            }
        };
        let Ok(actor) = builder.spawn(state) else { return };
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
    let (mut since, mut looks, mut ended) = (Instant::now(), 0, 0);
    while ended < actors as usize && (looks < 20_000 || since.elapsed() < Duration::from_secs(10)) {
        if queue.run_until_idle() == 0 {
            thread::sleep(Duration::from_micros(100));
        }
        let now = gone.load(SeqCst);
        (looks, since) = if now == ended { (looks + 1, since) } else { (0, Instant::now()) };
        ended = now;
        happens();
    }
    if gone.load(SeqCst) != actors as usize {
        finding(
            "a chain has not ended",
            &format!("{} of {actors} by {by:?} on {place:?}", gone.load(SeqCst)),
        );
    }
}
