//! Every way in, at random: typed messages, all limits and overflows, futures that are polled by hand, drains that are run by hand.
//!
//! `model.rs` has long programs of closures on one thread; here is the rest of the public face, on actors that may also be held busy by a
//! second thread, which goes on only while the first one waits for it. A program is a list of acts, and messages have acts of their own,
//! which they do in their turns. The real actors and a model of plain queues each write down what happens, message by message: both
//! accounts must be equal after each act. More cases: `PROPTEST_CASES=100000 cargo test --release --test face`.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context as Cx, Poll, Waker};
use std::thread::{self, JoinHandle};

use common::quiet_panic;
use proptest::prelude::*;
use turnwise::{
    Actor, AskError, Budget, Context, Drain, Handler, Limit, Overflow, Panic, Reason, Reply, SendError, StopCause, Unanswered, Undelivered,
};

const ACTORS: usize = 3;
const PANIC: &str = "at the end";

#[derive(Clone, Debug)]
enum Act {
    Post(Way, usize, Note),
    SendMany(usize, Vec<Note>),
    /// Whether the reply is kept.
    Ask(Question, usize, Note, bool),
    /// Without any time; whether it is a typed message.
    AskWithin(usize, Note, bool),
    With(usize, Note),
    /// A `send_async`, polled once. The next two are for the oldest one that is pending.
    Async(usize, Note),
    PollAsync,
    DropAsync,
    /// For the oldest reply that is kept.
    WaitReply,
    CancelReply,
    Drain(usize),
    WaitIdle(usize),
    Close(usize),
    Stop(usize),
    /// Of the one handle that the program holds.
    DropHandle(usize),
    /// A second thread holds a turn open; one at a time.
    Hold(usize),
    Release,
    /// For the n-th drain that waits in the executor.
    RunDrain(usize),
    DropDrain(usize),
}

/// How a message is sent that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Send,
    TrySend,
    Enqueue,
    Immediate,
    Unlimited,
    Tell,
    TellImmediate,
    TellUnlimited,
    Recipient,
}

impl Way {
    fn is_typed(self) -> bool {
        matches!(self, Way::Tell | Way::TellImmediate | Way::TellUnlimited | Way::Recipient)
    }
    fn waits(self) -> bool {
        matches!(self, Way::Unlimited | Way::TellUnlimited)
    }
    fn by(self) -> By {
        match self {
            Way::TrySend => By::Trier,
            Way::Enqueue => By::Enqueuer,
            _ => By::Sender,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Ask,
    TryAsk,
    Call,
    TryCall,
}

/// What a message says.
#[derive(Clone, Debug)]
struct Note {
    acts: Vec<Act>,
    panics: bool,
    /// A typed one stops its actor by its context.
    stops: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Stop,
    Resume,
    Restart,
    /// The factory panics.
    RestartFails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    None,
    Calm,
    Panics,
}

#[derive(Clone, Debug)]
struct Setup {
    capacity: Option<(usize, Overflow)>,
    policy: Policy,
    undelivered: Hook,
    panic_hook: Hook,
    on_end: Hook,
    /// The budget of its drains.
    executor: Option<u32>,
}

/// What both sides write down. Messages are numbered in the order in which they are made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Run {
        actor: usize,
        id: usize,
        after: usize,
        inside: Option<Inside>,
    },
    Dropped(usize),
    Returned(usize),
    PanicTold(usize, String),
    /// Whether it was a typed message.
    Undelivered(usize, bool),
    Ended(usize, Option<usize>, Option<StopCause>),
    Refused(Reason),
    Answer(Result<usize, AskError>),
    Panicked,
    Said(bool),
    Waited(Result<(), AskError>),
    Cancelled,
    Pending,
    Sent(Result<(), Reason>),
}

/// What a context shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inside {
    has_actor: bool,
    /// Where it is exact.
    waiting: Option<usize>,
}

/// What is to be seen of an actor from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    len: usize,
    closed: bool,
    idle: bool,
    cause: Option<StopCause>,
}

// ---- the real side ----

#[derive(Default)]
struct State(usize);

enum Kept {
    Closure(Reply<usize>),
    Call(Reply<usize, Letter>),
}

type Sending = Pin<Box<dyn Future<Output = Result<(), Reason>> + Send>>;

struct Holding {
    actor: usize,
    go: mpsc::Sender<()>,
    holder: JoinHandle<()>,
}

#[derive(Default)]
struct Real {
    handles: [Option<Actor<State>>; ACTORS],
    replies: VecDeque<Kept>,
    sendings: VecDeque<Sending>,
    drains: Vec<Drain>,
    held: Option<Holding>,
    events: Vec<Event>,
    made: usize,
}

thread_local! {
    static REAL: RefCell<Arc<Mutex<Real>>> = RefCell::default();
    /// A message that is dropped now came back.
    static COMES_BACK: Cell<bool> = const { Cell::new(false) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

fn real<R>(f: impl FnOnce(&mut Real) -> R) -> R {
    let shared = REAL.with_borrow(Arc::clone);
    let mut real = shared.lock().unwrap();
    f(&mut real)
}

/// Also when a case has failed, and the thread's own things are dropped.
fn tell(event: Event) {
    let shared = REAL.try_with(|real| real.borrow().clone());
    if let Some(mut real) = shared.as_ref().ok().and_then(|shared| shared.try_lock().ok()) {
        real.events.push(event);
    }
}

fn tell_by_hook(hook: Hook, event: Event) {
    tell(event);
    if hook == Hook::Panics {
        quiet_panic("in a hook");
    }
}

/// What a message carries: it has one fate, which is told.
struct Packet {
    actor: usize,
    id: usize,
    note: Note,
    handled: bool,
}

impl Packet {
    fn new(actor: usize, note: &Note) -> Self {
        let id = real(|real| {
            real.made += 1;
            real.made - 1
        });
        Packet { actor, id, note: note.clone(), handled: false }
    }

    fn run(mut self, state: &mut State, inside: Option<Inside>) -> usize {
        self.handled = true;
        state.0 += 1;
        tell(Event::Run { actor: self.actor, id: self.id, after: state.0 - 1, inside });
        DEPTH.set(DEPTH.get() + 1);
        self.note.acts.iter().for_each(do_real);
        DEPTH.set(DEPTH.get() - 1);
        if self.note.panics {
            quiet_panic(PANIC);
        }
        self.id
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        if !self.handled {
            let came_back = COMES_BACK.try_with(Cell::get).unwrap_or(false);
            tell(if came_back { Event::Returned(self.id) } else { Event::Dropped(self.id) });
        }
    }
}

/// A typed message.
struct Letter(Packet);

impl Handler<Letter> for State {
    type Reply = usize;
    fn handle(&mut self, Letter(packet): Letter, cx: &mut Context<'_, Self>) -> usize {
        let actor = cx.actor();
        let bounded = cx.name() == Some("bounded");
        let inside = Inside { has_actor: actor.is_some(), waiting: bounded.then(|| cx.waiting()) };
        drop(actor);
        if packet.note.stops {
            cx.stop();
        }
        packet.run(self, Some(inside))
    }
}

fn closure(actor: usize, note: &Note) -> impl FnOnce(&mut State) -> usize + Send + 'static {
    let packet = Packet::new(actor, note);
    move |state| packet.run(state, None)
}

fn post(actor: usize, note: &Note) -> impl FnOnce(&mut State) + Send + 'static {
    let message = closure(actor, note);
    move |state| _ = message(state)
}

fn take_back<M>(message: M) {
    COMES_BACK.set(true);
    drop(message);
    COMES_BACK.set(false);
}

fn hand_back<M>(refused: SendError<M>) -> Reason {
    let (message, reason) = refused.into_parts();
    take_back(message);
    reason
}

fn refused<M>(refused: SendError<M>) {
    let reason = hand_back(refused);
    tell(Event::Refused(reason));
}

/// Would the program wait for the thread that waits for it? And inside a turn, a wait that cannot end at once gives the turn's promises to
/// a thread of their own.
fn may_not_wait(held: Option<usize>, in_turn: bool, target: Option<usize>) -> bool {
    held.is_some() && (in_turn || held == target)
}

fn with_handle(actor: usize, waits: bool, f: impl FnOnce(&Actor<State>)) {
    let (handle, held) = real(|real| (real.handles[actor].clone(), real.held.as_ref().map(|held| held.actor)));
    if let Some(handle) = handle.filter(|_| !waits || !may_not_wait(held, DEPTH.get() > 0, Some(actor))) {
        f(&handle);
    }
}

fn do_real(act: &Act) {
    match act {
        Act::Post(way, actor, note) => with_handle(*actor, way.waits(), |handle| deliver(handle, *way, *actor, note)),
        Act::SendMany(actor, notes) => with_handle(*actor, false, |handle| {
            let messages: Vec<_> = notes.iter().map(|note| post(*actor, note)).collect();
            let _ = handle.send_many(messages).map_err(refused);
        }),
        Act::Ask(question, actor, note, keep) => with_handle(*actor, false, |handle| {
            let reply = match question {
                Question::Ask => Some(Kept::Closure(handle.ask(closure(*actor, note)))),
                Question::TryAsk => handle.try_ask(closure(*actor, note)).map_err(refused).ok().map(Kept::Closure),
                Question::Call => Some(Kept::Call(handle.call(Letter(Packet::new(*actor, note))))),
                Question::TryCall => handle.try_call(Letter(Packet::new(*actor, note))).map_err(refused).ok().map(Kept::Call),
            };
            if let Some(reply) = reply.filter(|_| *keep) {
                real(|real| real.replies.push_back(reply));
            }
        }),
        Act::AskWithin(actor, note, typed) => with_handle(*actor, DEPTH.get() > 0, |handle| {
            let answer = if *typed {
                let letter = Letter(Packet::new(*actor, note));
                handle.call(letter).wait_or_cancel(Limit::Immediate).map_err(|unanswered| unanswered_by(unanswered, take_back))
            } else {
                let answer = handle.ask_within(Limit::Immediate, closure(*actor, note));
                answer.map_err(|unanswered| unanswered_by(unanswered, drop))
            };
            match answer {
                Ok(id) => tell(Event::Answer(Ok(id))),
                Err(Some(error)) => tell(Event::Answer(Err(error))),
                Err(None) => tell(Event::Cancelled),
            }
        }),
        Act::With(actor, note) => with_handle(*actor, true, |handle| {
            let message = closure(*actor, note);
            match catch_unwind(AssertUnwindSafe(|| handle.with(message))) {
                Ok(answer) => tell(Event::Answer(answer)),
                Err(_) => tell(Event::Panicked),
            }
        }),
        Act::Async(actor, note) => with_handle(*actor, DEPTH.get() > 0, |handle| {
            let (handle, message) = (handle.clone(), post(*actor, note));
            poll_real(Box::pin(async move { handle.send_async(message).await.map_err(hand_back) }));
        }),
        // Inside a turn, what is pending gives the turn's promises away.
        Act::PollAsync if DEPTH.get() > 0 => {}
        Act::PollAsync => {
            let sending = real(|real| real.sendings.pop_front());
            sending.into_iter().for_each(poll_real);
        }
        Act::DropAsync => drop(real(|real| real.sendings.pop_front())),
        Act::WaitReply => {
            // While somebody is held, the asked actor may be that one.
            if let Some(reply) = real(|real| if real.held.is_none() { real.replies.pop_front() } else { None }) {
                tell(Event::Answer(match reply {
                    Kept::Closure(reply) => reply.wait(),
                    Kept::Call(reply) => reply.wait(),
                }));
            }
        }
        Act::CancelReply => {
            if let Some(reply) = real(|real| real.replies.pop_front()) {
                let cancelled = match reply {
                    Kept::Closure(reply) => reply.cancel().is_ok(),
                    Kept::Call(reply) => reply.cancel().map(take_back).is_ok(),
                };
                tell(Event::Said(cancelled));
            }
        }
        Act::Drain(actor) => with_handle(*actor, false, |handle| tell(Event::Said(handle.drain()))),
        Act::WaitIdle(actor) => with_handle(*actor, true, |handle| tell(Event::Waited(handle.wait_idle()))),
        Act::Close(actor) => with_handle(*actor, false, |handle| tell(Event::Said(handle.close()))),
        Act::Stop(actor) => with_handle(*actor, false, |handle| tell(Event::Said(handle.stop()))),
        Act::DropHandle(actor) => drop(real(|real| real.handles[*actor].take())),
        Act::Hold(actor) => {
            let busy = DEPTH.get() > 0 || real(|real| real.held.is_some());
            with_handle(*actor, false, |handle| {
                if !busy && handle.is_idle() && !handle.is_closed() {
                    let holding = hold(*actor, handle.clone());
                    real(|real| real.held = Some(holding));
                }
            });
        }
        Act::Release if DEPTH.get() > 0 => {}
        Act::Release => {
            if let Some(Holding { go, holder, .. }) = real(|real| real.held.take()) {
                drop(go);
                holder.join().unwrap();
            }
        }
        Act::RunDrain(n) => real(|real| nth(*n, real.drains.len()).map(|n| real.drains.remove(n))).into_iter().for_each(Drain::run),
        Act::DropDrain(n) => drop(real(|real| nth(*n, real.drains.len()).map(|n| real.drains.remove(n)))),
    }
}

fn nth(n: usize, len: usize) -> Option<usize> {
    n.checked_rem(len)
}

fn unanswered_by<M>(unanswered: Unanswered<usize, M>, cancelled: impl FnOnce(M)) -> Option<AskError> {
    match unanswered {
        Unanswered::Ask(error) => Some(error),
        Unanswered::Cancelled(message) => {
            cancelled(message);
            None
        }
        other => panic!("{other:?} on one thread"),
    }
}

fn deliver(handle: &Actor<State>, way: Way, actor: usize, note: &Note) {
    if way.is_typed() {
        let letter = Letter(Packet::new(actor, note));
        let sent = match way {
            Way::TellImmediate => handle.tell_within(Limit::Immediate, letter),
            Way::TellUnlimited => handle.tell_within(Limit::Unlimited, letter),
            Way::Recipient => handle.recipient().tell(letter),
            _ => handle.tell(letter),
        };
        let _ = sent.map_err(refused);
    } else {
        let message = post(actor, note);
        let sent = match way {
            Way::TrySend => handle.try_send(message),
            Way::Enqueue => handle.enqueue(message),
            Way::Immediate => handle.send_within(Limit::Immediate, message),
            Way::Unlimited => handle.send_within(Limit::Unlimited, message),
            _ => handle.send(message),
        };
        let _ = sent.map_err(refused);
    }
}

fn poll_real(mut sending: Sending) {
    match sending.as_mut().poll(&mut Cx::from_waker(Waker::noop())) {
        Poll::Ready(sent) => tell(Event::Sent(sent)),
        Poll::Pending => {
            real(|real| real.sendings.push_back(sending));
            tell(Event::Pending);
        }
    }
}

fn hold(actor: usize, handle: Actor<State>) -> Holding {
    let ((go, wait), (begun, running)) = (mpsc::channel::<()>(), mpsc::channel());
    let shared = REAL.with_borrow(Arc::clone);
    let holder = thread::spawn(move || {
        REAL.set(shared);
        let turn = move |_: &mut State| {
            begun.send(()).unwrap();
            let _ = wait.recv();
        };
        handle.with(turn).unwrap();
    });
    running.recv().unwrap();
    Holding { actor, go, holder }
}

fn real_start(setups: &[Setup; ACTORS]) {
    for (actor, setup) in setups.iter().enumerate() {
        let mut builder = Actor::builder(State::default()).budget(Budget::UNLIMITED).on_panic(match setup.policy {
            Policy::Stop => Panic::Stop,
            Policy::Resume => Panic::Resume,
            Policy::Restart => Panic::restart(State::default),
            Policy::RestartFails => Panic::restart(|| quiet_panic("in the factory")),
        });
        if let Some((messages, overflow)) = setup.capacity {
            builder = builder.capacity(messages, overflow).name("bounded");
        }
        let Setup { undelivered, panic_hook, on_end, .. } = *setup;
        if undelivered != Hook::None {
            builder = builder.undelivered(move |message| {
                let typed = match &message {
                    Undelivered::Message(message) => message.is::<Letter>(),
                    _ => false,
                };
                tell_by_hook(undelivered, Event::Undelivered(actor, typed));
                drop(message);
            });
        }
        if panic_hook != Hook::None {
            builder = builder.panic_hook(move |text| tell_by_hook(panic_hook, Event::PanicTold(actor, text.to_owned())));
        }
        if on_end != Hook::None {
            builder = builder
                .on_end(move |state, cause| tell_by_hook(on_end, Event::Ended(actor, state.map(|State(turns)| turns), cause.stop_cause())));
        }
        if let Some(turns) = setup.executor {
            builder = builder.executor(|drain| real(|real| real.drains.push(drain))).budget(turns);
        }
        let handle = builder.spawn().unwrap();
        real(|real| real.handles[actor] = Some(handle));
    }
}

fn real_view(actor: usize) -> Option<View> {
    real(|real| {
        let handle = real.handles[actor].as_ref()?;
        Some(View { len: handle.len(), closed: handle.is_closed(), idle: handle.is_idle(), cause: handle.stop_cause() })
    })
}

// ---- the model ----

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// It drains if it is inside no turn.
    Sender,
    /// The same; nothing makes way for it.
    Trier,
    /// It drains in any case.
    Waiter,
    /// It never drains.
    Enqueuer,
}

#[derive(Clone)]
struct Item {
    id: usize,
    note: Note,
    typed: bool,
    /// The number of its answer, if somebody waits for one.
    slot: Option<usize>,
    cancelled: bool,
}

/// Where an answer will be.
struct Slot {
    actor: usize,
    is_question: bool,
    typed: bool,
    started: bool,
    answer: Option<Result<usize, AskError>>,
}

/// A `send_async` that is pending.
struct Waiting {
    actor: usize,
    id: usize,
}

struct Mailbox {
    setup: Setup,
    queue: VecDeque<Item>,
    /// So many of them are the owner's; the others have come since he looked.
    private: usize,
    /// Those who wait for room.
    seats: VecDeque<Item>,
    watched: bool,
    running: bool,
    /// Closed or orphaned while idle, and not ended there and then.
    owes_end: bool,
    /// A drain of it is with the executor.
    carried: bool,
    closed: bool,
    stop: Option<StopCause>,
    orphan: bool,
    ended: bool,
    turns: usize,
    handles: usize,
    has_handle: bool,
}

impl Mailbox {
    fn is_idle(&self) -> bool {
        !self.running && !self.is_parked()
    }
    fn is_parked(&self) -> bool {
        !self.running && (self.owes_end || !self.queue.is_empty())
    }
    fn refusal(&self) -> Reason {
        self.stop.clone().map_or(Reason::Closed, Reason::Stopped)
    }
    fn limit(&self) -> usize {
        self.setup.capacity.map_or(usize::MAX - 1, |(messages, _)| messages)
    }
    fn overflow(&self) -> Overflow {
        self.setup.capacity.map_or(Overflow::Reject, |(_, overflow)| overflow)
    }
}

struct Model {
    boxes: Vec<Mailbox>,
    /// What the running thread does when its turn is over.
    list: VecDeque<usize>,
    depth: usize,
    held: Option<usize>,
    drains: Vec<usize>,
    slots: Vec<Slot>,
    replies: VecDeque<usize>,
    sendings: VecDeque<Waiting>,
    /// What those who waited for room are told: let in, or their message.
    seated: HashMap<usize, Result<(), (Item, Reason)>>,
    events: Vec<Event>,
    made: usize,
}

impl Model {
    fn start(setups: &[Setup; ACTORS]) -> Self {
        let mailbox = |setup: &Setup| Mailbox {
            setup: setup.clone(),
            queue: VecDeque::new(),
            private: 0,
            seats: VecDeque::new(),
            watched: false,
            running: false,
            owes_end: false,
            carried: false,
            closed: false,
            stop: None,
            orphan: false,
            ended: false,
            turns: 0,
            handles: 1,
            has_handle: true,
        };
        Model {
            boxes: setups.iter().map(mailbox).collect(),
            list: VecDeque::new(),
            depth: 0,
            held: None,
            drains: Vec::new(),
            slots: Vec::new(),
            replies: VecDeque::new(),
            sendings: VecDeque::new(),
            seated: HashMap::new(),
            events: Vec::new(),
            made: 0,
        }
    }

    fn tell(&mut self, event: Event) {
        self.events.push(event);
    }
    fn in_turn(&self) -> bool {
        self.depth > 0
    }
    fn runs_here(&self, actor: usize) -> bool {
        self.boxes[actor].running && self.held != Some(actor)
    }

    fn item(&mut self, note: &Note, typed: bool, slot: Option<usize>) -> Item {
        self.made += 1;
        Item { id: self.made - 1, note: note.clone(), typed, slot, cancelled: false }
    }
    fn new_slot(&mut self, actor: usize, is_question: bool, typed: bool) -> usize {
        self.slots.push(Slot { actor, is_question, typed, started: false, answer: None });
        self.slots.len() - 1
    }

    fn with_handle(&mut self, actor: usize, waits: bool, f: impl FnOnce(&mut Self)) {
        if self.boxes[actor].has_handle && !(waits && may_not_wait(self.held, self.in_turn(), Some(actor))) {
            self.boxes[actor].handles += 1;
            f(self);
            self.drop_handle(actor);
        }
    }
    fn drop_handle(&mut self, actor: usize) {
        self.boxes[actor].handles -= 1;
        if self.boxes[actor].handles == 0 {
            self.boxes[actor].orphan = true;
            self.see_to_the_end(actor);
        }
    }

    fn do_act(&mut self, act: &Act) {
        match act {
            Act::Post(way, actor, note) => self.with_handle(*actor, way.waits(), |this| {
                let item = this.item(note, way.is_typed(), None);
                let sent = if way.waits() { this.send_patiently(*actor, item) } else { this.send(*actor, item, way.by()) };
                this.tell_refused(sent);
            }),
            Act::SendMany(actor, notes) => self.with_handle(*actor, false, |this| {
                let items: Vec<_> = notes.iter().map(|note| this.item(note, false, None)).collect();
                if let Err((items, reason)) = this.put(*actor, items, By::Sender) {
                    items.iter().for_each(|item| this.tell(Event::Returned(item.id)));
                    this.tell(Event::Refused(reason));
                }
            }),
            Act::Ask(question, actor, note, keep) => self.with_handle(*actor, false, |this| {
                let typed = matches!(question, Question::Call | Question::TryCall);
                let slot = this.new_slot(*actor, true, typed);
                let item = this.item(note, typed, Some(slot));
                let mut accepted = true;
                if let Err((items, reason)) = this.put(*actor, vec![item], By::Sender) {
                    if matches!(question, Question::TryAsk | Question::TryCall) {
                        accepted = false;
                        this.tell(Event::Returned(items[0].id));
                        this.tell(Event::Refused(reason));
                    } else {
                        this.tell(Event::Dropped(items[0].id));
                        this.slots[slot].answer = Some(Err(reason.into()));
                    }
                }
                if accepted && *keep {
                    this.replies.push_back(slot);
                }
            }),
            Act::AskWithin(actor, note, typed) => self.with_handle(*actor, self.in_turn(), |this| this.ask_within(*actor, note, *typed)),
            Act::With(actor, note) => self.with_handle(*actor, true, |this| this.with(*actor, note)),
            Act::Async(actor, note) => self.with_handle(*actor, self.in_turn(), |this| {
                this.boxes[*actor].handles += 1;
                let item = this.item(note, false, None);
                this.poll(Waiting { actor: *actor, id: item.id }, Some(item));
            }),
            Act::PollAsync if self.in_turn() => {}
            Act::PollAsync => {
                if let Some(waiting) = self.sendings.pop_front() {
                    self.poll(waiting, None);
                }
            }
            Act::DropAsync => {
                if let Some(Waiting { actor, id }) = self.sendings.pop_front() {
                    match self.seated.remove(&id) {
                        Some(Ok(())) => {}
                        Some(Err(_)) => self.tell(Event::Dropped(id)),
                        None => {
                            self.boxes[actor].seats.retain(|seat| seat.id != id);
                            self.tell(Event::Dropped(id));
                        }
                    }
                    self.drop_handle(actor);
                }
            }
            Act::WaitReply => {
                let reply = if self.held.is_none() { self.replies.pop_front() } else { None };
                if let Some(slot) = reply {
                    let answer = self.wait(slot);
                    self.tell(Event::Answer(answer));
                }
            }
            Act::CancelReply => {
                if let Some(slot) = self.replies.pop_front() {
                    let typed = self.slots[slot].typed;
                    let cancelled = self.cancel(slot, typed);
                    self.tell(Event::Said(cancelled));
                }
            }
            Act::Drain(actor) => self.with_handle(*actor, false, |this| {
                let drained = this.come_by(*actor);
                this.tell(Event::Said(drained));
            }),
            Act::WaitIdle(actor) => self.with_handle(*actor, true, |this| {
                let waited = this.wait_idle(*actor);
                this.tell(Event::Waited(waited));
            }),
            Act::Close(actor) => self.with_handle(*actor, false, |this| {
                let first = this.close(*actor);
                this.tell(Event::Said(first));
            }),
            Act::Stop(actor) => self.with_handle(*actor, false, |this| {
                let first = this.boxes[*actor].stop.is_none();
                this.boxes[*actor].stop.get_or_insert(StopCause::Requested);
                this.close(*actor);
                this.tell(Event::Said(first));
            }),
            Act::DropHandle(actor) => {
                if std::mem::take(&mut self.boxes[*actor].has_handle) {
                    self.drop_handle(*actor);
                }
            }
            Act::Hold(actor) => {
                let busy = self.in_turn() || self.held.is_some();
                let mailbox = &mut self.boxes[*actor];
                if mailbox.has_handle && !busy && mailbox.is_idle() && !mailbox.closed {
                    mailbox.handles += 1;
                    mailbox.running = true;
                    mailbox.private = 0;
                    self.held = Some(*actor);
                }
            }
            Act::Release if self.in_turn() => {}
            Act::Release => {
                if let Some(actor) = self.held.take() {
                    self.go_on(actor, true, None, true);
                    self.run_list();
                    self.drop_handle(actor);
                }
            }
            Act::RunDrain(n) => {
                if let Some(n) = nth(*n, self.drains.len()) {
                    let actor = self.drains.remove(n);
                    self.boxes[actor].carried = false;
                    if self.in_turn() {
                        self.list(actor);
                    } else {
                        if self.boxes[actor].is_parked() {
                            self.drive(actor, true, self.boxes[actor].setup.executor);
                        }
                        self.run_list();
                    }
                }
            }
            Act::DropDrain(n) => {
                if let Some(n) = nth(*n, self.drains.len()) {
                    let actor = self.drains.remove(n);
                    self.boxes[actor].carried = false;
                    if self.boxes[actor].is_parked() {
                        self.boxes[actor].stop.get_or_insert(StopCause::ExecutorGone);
                        self.boxes[actor].closed = true;
                        self.come_by(actor);
                    }
                }
            }
        }
    }

    fn tell_refused(&mut self, sent: Result<(), (Item, Reason)>) {
        if let Err((item, reason)) = sent {
            self.tell(Event::Returned(item.id));
            self.tell(Event::Refused(reason));
        }
    }

    /// Into the mailbox, and what that leaves owing; all or none.
    fn put(&mut self, actor: usize, items: Vec<Item>, by: By) -> Result<(), (Vec<Item>, Reason)> {
        let in_turn = self.in_turn();
        let mailbox = &mut self.boxes[actor];
        // An empty chain is sent nowhere, so it is not refused.
        if items.is_empty() {
            return Ok(());
        }
        if mailbox.closed {
            return Err((items, mailbox.refusal()));
        }
        let posts = matches!(by, By::Sender | By::Trier);
        let carries = posts && mailbox.setup.executor.is_some();
        let parks = match by {
            By::Sender | By::Trier => carries || in_turn,
            By::Waiter => false,
            By::Enqueuer => true,
        };
        // Idle, and taken at once: nothing is stored. Otherwise, who drains takes the first one out at once, except of a ring.
        let claims = items.len() == 1 && !parks && mailbox.is_idle();
        let is_ring = mailbox.overflow() == Overflow::DropOldest;
        let room = mailbox.limit() + usize::from(!parks && !mailbox.running && !is_ring);
        if mailbox.queue.len() + items.len() > room && !claims {
            let droppable = items.len() == 1 && items[0].slot.is_none() && by != By::Trier;
            let oldest = mailbox.queue.iter().position(|item| item.slot.is_none()).filter(|_| is_ring && droppable && by != By::Waiter);
            let Some(oldest) = oldest.and_then(|at| mailbox.queue.remove(at)) else { return Err((items, Reason::Full)) };
            mailbox.queue.extend(items);
            self.undelivered(actor, &oldest);
        } else {
            mailbox.queue.extend(items);
        }
        if self.boxes[actor].running {
        } else if carries {
            self.carry(actor);
        } else if posts && in_turn {
            self.list(actor);
        } else if !parks {
            self.come_by(actor);
        }
        Ok(())
    }

    fn send(&mut self, actor: usize, item: Item, by: By) -> Result<(), (Item, Reason)> {
        match self.put(actor, vec![item], by) {
            Ok(()) => Ok(()),
            Err((mut items, reason)) => {
                let item = items.remove(0);
                if reason == Reason::Full && self.boxes[actor].overflow() == Overflow::DropNewest && by != By::Trier {
                    self.undelivered(actor, &item);
                    return Ok(());
                }
                Err((item, reason))
            }
        }
    }

    /// Without a limit of time: on one thread, a full mailbox is parked, so that this one makes the room.
    fn send_patiently(&mut self, actor: usize, item: Item) -> Result<(), (Item, Reason)> {
        let mut item = item;
        loop {
            item = match self.send(actor, item, By::Sender) {
                Err((item, Reason::Full)) if self.boxes[actor].overflow() == Overflow::Reject => item,
                done => return done,
            };
            if self.runs_here(actor) {
                return Err((item, Reason::Deadlock));
            }
            self.come_by(actor);
        }
    }

    fn poll(&mut self, waiting: Waiting, first: Option<Item>) {
        let Waiting { actor, id } = waiting;
        let mut in_hand = first;
        let sent = loop {
            if let Some(item) = in_hand.take() {
                match self.send(actor, item, By::Sender) {
                    Err((item, Reason::Full)) if self.boxes[actor].overflow() == Overflow::Reject => {
                        if self.runs_here(actor) {
                            break Err((item, Reason::Deadlock));
                        }
                        self.boxes[actor].seats.push_back(item);
                    }
                    done => break done,
                }
            }
            let mailbox = &mut self.boxes[actor];
            let stays = mailbox.running && !mailbox.closed && (mailbox.watched || mailbox.queue.len() >= mailbox.limit());
            mailbox.watched |= stays;
            if let Some(told) = self.seated.remove(&id) {
                break told;
            }
            if stays {
                self.sendings.push_back(waiting);
                self.tell(Event::Pending);
                return;
            }
            let at = mailbox.seats.iter().position(|seat| seat.id == id).expect("one who was told nothing has his seat");
            in_hand = mailbox.seats.remove(at);
            self.come_by(actor);
        };
        let sent = sent.map_err(|(item, reason)| {
            self.tell(Event::Returned(item.id));
            reason
        });
        self.drop_handle(actor);
        self.tell(Event::Sent(sent));
    }

    fn ask_within(&mut self, actor: usize, note: &Note, typed: bool) {
        let slot = self.new_slot(actor, true, typed);
        let item = self.item(note, typed, Some(slot));
        let id = item.id;
        if let Err((_, reason)) = self.put(actor, vec![item], By::Sender) {
            self.tell(Event::Dropped(id));
            self.tell(Event::Answer(Err(reason.into())));
            return;
        }
        if self.slots[slot].answer.is_none() && self.runs_here(actor) {
            self.cancel(slot, false);
            self.tell(Event::Answer(Err(AskError::Deadlock)));
            return;
        }
        if self.slots[slot].answer.is_none() {
            self.come_by(actor);
        }
        match self.slots[slot].answer.take() {
            Some(answer) => self.tell(Event::Answer(answer)),
            None => {
                self.cancel(slot, typed);
                self.tell(Event::Cancelled);
            }
        }
    }

    fn with(&mut self, actor: usize, note: &Note) {
        let slot = self.new_slot(actor, false, false);
        let mut items = vec![self.item(note, false, Some(slot))];
        let id = items[0].id;
        let answer = loop {
            if self.boxes[actor].running {
                break Err(AskError::Deadlock);
            }
            match self.put(actor, items, By::Waiter) {
                Ok(()) => break self.slots[slot].answer.take().expect("a with ends with an answer"),
                Err((back, Reason::Full)) if self.come_by(actor) => items = back,
                Err((_, reason)) => break Err(reason.into()),
            }
        };
        if self.slots[slot].started && note.panics {
            self.tell(Event::Panicked);
            return;
        }
        // A closure that was not run is the caller's, and dropped here.
        if !self.slots[slot].started {
            self.tell(Event::Dropped(id));
        }
        self.tell(Event::Answer(answer));
    }

    fn wait(&mut self, slot: usize) -> Result<usize, AskError> {
        if self.slots[slot].answer.is_none() {
            let actor = self.slots[slot].actor;
            if self.boxes[actor].running {
                return Err(AskError::Deadlock);
            }
            self.come_by(actor);
        }
        self.slots[slot].answer.take().expect("one thread alone leaves nothing to wait for")
    }

    fn cancel(&mut self, slot: usize, comes_back: bool) -> bool {
        if self.slots[slot].started || self.slots[slot].answer.is_some() {
            return false;
        }
        let queue = &mut self.boxes[self.slots[slot].actor].queue;
        let item = queue.iter_mut().find(|item| item.slot == Some(slot)).expect("a question that has not started waits");
        item.cancelled = true;
        let id = item.id;
        self.tell(if comes_back { Event::Returned(id) } else { Event::Dropped(id) });
        true
    }

    fn wait_idle(&mut self, actor: usize) -> Result<(), AskError> {
        while !self.boxes[actor].is_idle() {
            if self.boxes[actor].running {
                return Err(AskError::Deadlock);
            }
            self.come_by(actor);
        }
        Ok(())
    }

    fn close(&mut self, actor: usize) -> bool {
        if self.boxes[actor].closed {
            return false;
        }
        self.boxes[actor].closed = true;
        self.see_to_the_end(actor);
        true
    }

    /// After closing, and after the last handle.
    fn see_to_the_end(&mut self, actor: usize) {
        let mailbox = &mut self.boxes[actor];
        if mailbox.running {
            return;
        }
        mailbox.owes_end |= mailbox.is_idle();
        if mailbox.setup.executor.is_some() {
            self.carry(actor);
        } else if self.in_turn() {
            self.list(actor);
        } else {
            self.come_by(actor);
        }
    }

    fn carry(&mut self, actor: usize) {
        if !std::mem::replace(&mut self.boxes[actor].carried, true) {
            self.drains.push(actor);
        }
    }

    fn list(&mut self, actor: usize) {
        if !self.list.contains(&actor) {
            self.list.push_back(actor);
        }
    }

    /// Runs what this thread owes, unless it is inside a turn.
    fn run_list(&mut self) {
        if self.in_turn() {
            return;
        }
        self.depth += 1;
        while let Some(next) = self.list.pop_front() {
            if self.boxes[next].is_parked() {
                self.drive(next, true, None);
            }
        }
        self.depth -= 1;
    }

    /// Takes a parked mailbox over and drains it, and then what this thread owes.
    fn come_by(&mut self, actor: usize) -> bool {
        let parked = self.boxes[actor].is_parked();
        if parked {
            self.drive(actor, !self.in_turn(), None);
        }
        self.run_list();
        parked
    }

    fn drive(&mut self, actor: usize, outermost: bool, budget: Option<u32>) {
        let mailbox = &mut self.boxes[actor];
        mailbox.running = true;
        mailbox.owes_end = false;
        mailbox.private = mailbox.queue.len();
        self.go_on(actor, outermost, budget, false);
    }

    /// The owner's loop; `done`: a turn is over that still counts.
    fn go_on(&mut self, actor: usize, outermost: bool, budget: Option<u32>, done: bool) {
        self.depth += 1;
        let (mut done, mut budget) = (done, budget);
        loop {
            let mut gives_way = false;
            while self.boxes[actor].private > 0 && !gives_way {
                let mailbox = &mut self.boxes[actor];
                mailbox.private -= 1;
                let item = mailbox.queue.pop_front().expect("what is private is there");
                if done && mailbox.watched && mailbox.queue.len() < mailbox.limit() / 2 {
                    mailbox.watched = false;
                    self.attend(actor, 0);
                }
                self.turn(actor, item);
                done = true;
                budget = budget.map(|turns| turns - 1);
                gives_way = budget == Some(0) || outermost && !self.list.is_empty();
            }
            gives_way = budget == Some(0) || outermost && !self.list.is_empty();
            if gives_way && !self.boxes[actor].queue.is_empty() {
                self.boxes[actor].running = false;
                if budget == Some(0) {
                    self.carry(actor);
                } else {
                    self.list(actor);
                }
                break;
            }
            let mailbox = &mut self.boxes[actor];
            if !mailbox.queue.is_empty() {
                done = false;
                mailbox.private = mailbox.queue.len();
                if std::mem::take(&mut mailbox.watched) {
                    // One of them does not wait: it is about to run.
                    self.attend(actor, 1);
                }
            } else if (mailbox.closed || mailbox.orphan) && !mailbox.ended {
                mailbox.ended = true;
                if mailbox.setup.on_end != Hook::None {
                    let ended = Event::Ended(actor, Some(mailbox.turns), mailbox.stop.clone());
                    self.tell(ended);
                }
            } else if mailbox.watched && !mailbox.seats.is_empty() {
                self.let_in(actor, 0);
            } else {
                mailbox.running = false;
                mailbox.watched = false;
                break;
            }
        }
        self.depth -= 1;
    }

    fn attend(&mut self, actor: usize, running: usize) {
        self.let_in(actor, running);
        let mailbox = &mut self.boxes[actor];
        mailbox.watched |= !mailbox.seats.is_empty();
    }

    /// Lets in those who wait for room, or turns all away; of those in the queue, so many do not wait.
    fn let_in(&mut self, actor: usize, running: usize) {
        let mailbox = &mut self.boxes[actor];
        while let Some(seat) = mailbox.seats.pop_front() {
            if mailbox.closed {
                let reason = mailbox.refusal();
                self.seated.insert(seat.id, Err((seat, reason)));
            } else if mailbox.queue.len() - running < mailbox.limit() {
                self.seated.insert(seat.id, Ok(()));
                mailbox.queue.push_back(seat);
            } else {
                mailbox.seats.push_front(seat);
                return;
            }
        }
    }

    fn undelivered(&mut self, actor: usize, item: &Item) {
        if self.boxes[actor].setup.undelivered != Hook::None {
            self.tell(Event::Undelivered(actor, item.typed));
        }
        self.tell(Event::Dropped(item.id));
    }

    fn turn(&mut self, actor: usize, item: Item) {
        if item.cancelled {
            return;
        }
        if let Some(cause) = self.boxes[actor].stop.clone() {
            match item.slot {
                Some(slot) => {
                    self.slots[slot].answer = Some(Err(AskError::Stopped(cause)));
                    // A caller of `with` drops his own.
                    if self.slots[slot].is_question {
                        self.tell(Event::Dropped(item.id));
                    }
                }
                None => self.undelivered(actor, &item),
            }
            return;
        }
        let Item { id, note, typed, slot, .. } = item;
        if let Some(slot) = slot {
            self.slots[slot].started = true;
        }
        let mailbox = &mut self.boxes[actor];
        let waiting = mailbox.setup.capacity.map(|_| mailbox.queue.len());
        let inside = typed.then_some(Inside { has_actor: mailbox.handles > 0, waiting });
        if typed && note.stops {
            mailbox.stop.get_or_insert(StopCause::Requested);
            mailbox.closed = true;
        }
        mailbox.turns += 1;
        let after = mailbox.turns - 1;
        self.tell(Event::Run { actor, id, after, inside });
        note.acts.iter().for_each(|act| self.do_act(act));
        if note.panics {
            let mailbox = &mut self.boxes[actor];
            match mailbox.setup.policy {
                Policy::Resume => {}
                Policy::Restart => mailbox.turns = 0,
                Policy::Stop | Policy::RestartFails => {
                    mailbox.stop.get_or_insert(StopCause::Panicked(PANIC.into()));
                    mailbox.closed = true;
                }
            }
            if mailbox.setup.panic_hook != Hook::None {
                self.tell(Event::PanicTold(actor, PANIC.to_owned()));
            }
        }
        if let Some(slot) = slot {
            self.slots[slot].answer = Some(if note.panics { Err(AskError::Panicked(PANIC.into())) } else { Ok(id) });
        }
    }

    fn view(&self, actor: usize) -> Option<View> {
        let mailbox = &self.boxes[actor];
        mailbox.has_handle.then(|| View {
            len: mailbox.queue.len() + usize::from(mailbox.owes_end) + usize::from(mailbox.running),
            closed: mailbox.closed,
            idle: mailbox.is_idle(),
            cause: mailbox.stop.clone(),
        })
    }
}

// ---- both ----

/// What became of each message: it ran, came back or was dropped, and only one of them.
#[derive(Default)]
struct Fates(HashMap<usize, Event>);

impl Fates {
    fn note(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Run { id, .. } | Event::Dropped(id) | Event::Returned(id) = event {
                let before = self.0.insert(*id, event.clone());
                assert_eq!(before, None, "message {id} has two fates");
            }
        }
    }
}

fn check(setups: &[Setup; ACTORS], program: &[Act]) {
    real_start(setups);
    let mut model = Model::start(setups);
    let mut fates = Fates::default();
    let mut step = |model: &mut Model, act: &Act| {
        do_real(act);
        model.do_act(act);
        let events = real(|real| std::mem::take(&mut real.events));
        assert_eq!(events, std::mem::take(&mut model.events), "after {act:?}");
        (0..ACTORS).for_each(|actor| assert_eq!(real_view(actor), model.view(actor), "actor {actor} after {act:?}"));
        assert_eq!(real(|real| (real.made, real.drains.len())), (model.made, model.drains.len()), "after {act:?}");
        fates.note(&events);
    };
    program.iter().for_each(|act| step(&mut model, act));
    // The end: nobody is held, nothing is left out, every handle is dropped.
    step(&mut model, &Act::Release);
    (0..ACTORS).for_each(|actor| step(&mut model, &Act::DropHandle(actor)));
    while !(model.sendings.is_empty() && model.drains.is_empty() && model.replies.is_empty()) {
        step(&mut model, &Act::DropAsync);
        step(&mut model, &Act::RunDrain(0));
        step(&mut model, &Act::WaitReply);
    }
    assert_eq!(fates.0.len(), model.made, "a message was lost");
    assert!(model.boxes.iter().all(|mailbox| mailbox.ended));
}

fn notes(depth: u32) -> BoxedStrategy<Note> {
    let acts = if depth == 0 { Just(Vec::new()).boxed() } else { prop::collection::vec(acts(depth - 1), 0..4).boxed() };
    (acts, prop::bool::weighted(0.05), prop::bool::weighted(0.02)).prop_map(|(acts, panics, stops)| Note { acts, panics, stops }).boxed()
}

fn acts(depth: u32) -> BoxedStrategy<Act> {
    // One of them is sent to more than the others: its room is short.
    let actor = || prop_oneof![3 => Just(0), 1 => 1..ACTORS];
    let note = || notes(depth);
    let way = prop_oneof![
        3 => Just(Way::Send),
        1 => Just(Way::TrySend),
        4 => Just(Way::Enqueue),
        1 => Just(Way::Immediate),
        1 => Just(Way::Unlimited),
        3 => Just(Way::Tell),
        1 => Just(Way::TellImmediate),
        1 => Just(Way::TellUnlimited),
        1 => Just(Way::Recipient),
    ];
    let question = prop_oneof![Just(Question::Ask), Just(Question::TryAsk), Just(Question::Call), Just(Question::TryCall)];
    let posts = (way, actor(), note()).prop_map(|(way, actor, note)| Act::Post(way, actor, note));
    let many = (actor(), prop::collection::vec(note(), 0..4)).prop_map(|(actor, notes)| Act::SendMany(actor, notes));
    let asks = (question, actor(), note(), any::<bool>()).prop_map(|(question, actor, note, keep)| Act::Ask(question, actor, note, keep));
    let asks_within = (actor(), note(), any::<bool>()).prop_map(|(actor, note, typed)| Act::AskWithin(actor, note, typed));
    // The rest, by a number: a wide choice makes a generator slow.
    let others = (0_u32..100, actor(), 0_usize..4).prop_map(|(n, actor, nth)| match n {
        0..=11 => Act::PollAsync,
        12..=15 => Act::DropAsync,
        16..=23 => Act::WaitReply,
        24..=31 => Act::CancelReply,
        32..=35 => Act::Drain(actor),
        36..=39 => Act::WaitIdle(actor),
        40 => Act::Close(actor),
        41 => Act::Stop(actor),
        42 => Act::DropHandle(actor),
        43..=70 => Act::Hold(actor),
        71..=81 => Act::Release,
        82..=98 => Act::RunDrain(nth),
        _ => Act::DropDrain(nth),
    });
    prop_oneof![
        10 => posts,
        2 => many,
        4 => asks,
        2 => asks_within,
        2 => (actor(), note()).prop_map(|(actor, note)| Act::With(actor, note)),
        6 => (actor(), note()).prop_map(|(actor, note)| Act::Async(actor, note)),
        14 => others,
    ]
    .boxed()
}

fn setups() -> impl Strategy<Value = [Setup; ACTORS]> {
    let overflow = prop_oneof![2 => Just(Overflow::Reject), 1 => Just(Overflow::DropNewest), 2 => Just(Overflow::DropOldest)];
    let capacity = prop_oneof![1 => Just(None), 4 => (1_usize..=3, overflow).prop_map(Some)];
    let policy =
        prop_oneof![1 => Just(Policy::Stop), 3 => Just(Policy::Resume), 2 => Just(Policy::Restart), 1 => Just(Policy::RestartFails)];
    let hook = || prop_oneof![Just(Hook::None), Just(Hook::Calm), Just(Hook::Panics)];
    let executor = prop_oneof![2 => Just(None), 1 => (1_u32..=3).prop_map(Some)];
    let setup =
        (capacity, policy, hook(), hook(), hook(), executor).prop_map(|(capacity, policy, undelivered, panic_hook, on_end, executor)| {
            Setup { capacity, policy, undelivered, panic_hook, on_end, executor }
        });
    prop::array::uniform3(setup)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_in_does_what_the_model_does(setups in setups(), program in prop::collection::vec(acts(2), 1..100)) {
        // On a thread of its own, so that a case that fails leaves nothing to the next one.
        let ended = thread::scope(|scope| scope.spawn(|| check(&setups, &program)).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// With room for one, and a question in it: nothing can make way.
fn full_of_a_question() -> (Actor<State>, Holding, Reply<usize>) {
    let actor = Actor::builder(State::default()).capacity(1, Overflow::DropOldest).spawn().unwrap();
    let holding = hold(0, actor.clone());
    let asked = actor.ask(|state| state.0);
    (actor, holding, asked)
}

#[test]
fn a_send_that_takes_the_place_of_an_enqueued_message_is_run() {
    let actor = Actor::builder(State::default()).capacity(1, Overflow::DropOldest).spawn().unwrap();
    actor.enqueue(|state| state.0 += 1).unwrap();
    actor.send(|state| state.0 += 10).unwrap();
    assert!(actor.is_idle(), "a sender who is inside no turn drains");
    // Inside a turn of another actor, it is run when that is over.
    actor.enqueue(|state| state.0 += 1).unwrap();
    let inner = actor.clone();
    Actor::new(()).send(move |()| inner.send(|state| state.0 += 10).unwrap()).unwrap();
    assert!(actor.is_idle(), "the turn's thread has promised to run it");
    assert_eq!(actor.with(|state| state.0), Ok(20));
}

#[test]
fn a_send_that_takes_the_place_of_an_enqueued_message_is_carried() {
    let (tx, drains) = mpsc::channel();
    let builder = Actor::builder(State::default()).capacity(1, Overflow::DropOldest);
    let actor = builder.executor(move |drain| tx.send(drain).unwrap()).spawn().unwrap();
    actor.enqueue(|state| state.0 += 1).unwrap();
    actor.send(|state| state.0 += 10).unwrap();
    drains.try_iter().for_each(Drain::run);
    assert!(actor.is_idle());
}

#[test]
fn a_mailbox_full_of_questions_hands_back_what_would_have_to_wait() {
    let (actor, Holding { go, holder, .. }, asked) = full_of_a_question();
    let mut sending = Box::pin(actor.send_async(|state| state.0 += 1));
    let polled = sending.as_mut().poll(&mut Cx::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(refused)) if refused.reason() == &Reason::Full), "it never enters beside the ring");
    assert_eq!(actor.send_within(Limit::Unlimited, |_| ()).unwrap_err().reason(), &Reason::Full);
    drop(go);
    holder.join().unwrap();
    assert_eq!(asked.wait(), Ok(0));
}
