//! Random programs on real actors and on a plain model of queues, on one thread, compared after
//! each step.
//!
//! A program is a list of acts on three actors: sends of all kinds, closing, handles that come and
//! go, waits. A message has acts of its own, which it does in its turn, and may panic at its end or
//! in its drop; some acts are done together inside a turn of another actor, so that their messages
//! wait. Both sides record the events; the two records must be equal, event by event, and so must
//! the fates of all messages. More cases: `PROPTEST_CASES=100000 cargo test --release --test it
//! model::`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::common::{Tally, Token, in_turn, quiet_panic};
use proptest::prelude::*;
use turnwise::{
    Actor, AskError, Budget, Cycle, Overflow, PanicPolicy, Reason, Reply, StopCause, VirtualClock,
    WeakActor,
};

const ACTORS: usize = 3;

#[derive(Clone, Debug)]
enum Act {
    Send(usize, Note),
    /// Inside a turn of another actor.
    InTurn(Vec<Act>),
    SendMany(usize, Vec<Note>),
    /// The flag says whether the reply is kept.
    Ask(usize, Note, bool),
    With(usize, Note),
    /// For the oldest reply that is kept.
    WaitReply,
    CancelReply,
    Close(usize),
    Stop(usize),
    WaitIdle(usize),
    Clone(usize),
    Drop(usize),
    Upgrade(usize),
}

/// The content of a message.
#[derive(Clone, Debug)]
struct Note {
    id: u8,
    acts: Vec<Act>,
    end: End,
    size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fine,
    Panic,
    PanicInDrop,
}

impl End {
    fn text(self) -> Option<&'static str> {
        match self {
            End::Fine => None,
            End::Panic => Some("at the end"),
            End::PanicInDrop => Some("in its drop"),
        }
    }
}

/// Each kind lies in another kind of node.
#[derive(Clone, Copy, Debug)]
enum Size {
    Small,
    Middle,
    Large,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Stop,
    Resume,
    Restart,
}

#[derive(Clone, Debug)]
struct Setup {
    capacity: Option<usize>,
    policy: Policy,
    has_hook: bool,
}

/// The events that both sides record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Run { actor: usize, id: u8, after: usize },
    PanicTold(usize, String),
    Undelivered(usize),
    Ended(usize, usize, Option<StopCause>),
    Refused(Reason),
    Answer(Result<u8, AskError>),
    Panicked,
    Said(bool),
    Waited(Result<(), Reason>),
}

/// The properties of an actor that are visible from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    len: usize,
    closed: bool,
    idle: bool,
    cause: Option<StopCause>,
}

// ---- the real side ----

type State = Vec<u8>;

#[derive(Default)]
struct Real {
    handles: [Vec<Actor<State>>; ACTORS],
    weak: Vec<WeakActor<State>>,
    replies: VecDeque<Reply<u8>>,
    events: Vec<Event>,
    tally: Tally,
}

thread_local! {
    static REAL: RefCell<Real> = RefCell::default();
    /// A message that is handed back does not panic in its drop.
    static HANDED_BACK: Cell<bool> = const { Cell::new(false) };
}

fn real<R>(f: impl FnOnce(&mut Real) -> R) -> R {
    REAL.with_borrow_mut(f)
}

fn tell(event: Event) {
    let event = match event {
        Event::Answer(Err(AskError::Refused(Reason::Deadlock(_), _))) => {
            Event::Answer(Err(AskError::from(deadlock())))
        }
        Event::Waited(Err(Reason::Deadlock(_))) => Event::Waited(Err(deadlock())),
        event => event,
    };
    real(|real| real.events.push(event));
}

/// The model does not know the wait-for graph.
fn deadlock() -> Reason {
    Reason::Deadlock(Cycle::from(["any"]))
}

struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        if !thread::panicking() && !HANDED_BACK.get() {
            quiet_panic(End::PanicInDrop.text().unwrap());
        }
    }
}

/// The parts of a message.
struct Packet {
    actor: usize,
    note: Note,
    token: Token,
    _grenade: Option<Grenade>,
}

impl Packet {
    fn run(self, state: &mut State) -> u8 {
        let Packet { actor, note, token, _grenade } = self;
        token.handle();
        state.push(note.id);
        tell(Event::Run { actor, id: note.id, after: state.len() - 1 });
        note.acts.iter().for_each(do_real);
        if note.end == End::Panic {
            quiet_panic(End::Panic.text().unwrap());
        }
        note.id
    }
}

fn message<const N: usize>(
    actor: usize,
    note: &Note,
) -> impl FnOnce(&mut State) -> u8 + Send + 'static {
    let token = real(|real| real.tally.token());
    let grenade = (note.end == End::PanicInDrop).then(|| Grenade);
    let packet = Box::new(Packet { actor, note: note.clone(), token, _grenade: grenade });
    let ballast = [7_u8; N];
    move |state| {
        assert!(ballast.iter().all(|&byte| byte == 7), "the message was overwritten");
        (*packet).run(state)
    }
}

fn hand_back<M>(refused: turnwise::SendError<M>) {
    let (message, reason) = refused.into_parts();
    HANDED_BACK.set(true);
    drop(message);
    HANDED_BACK.set(false);
    tell(Event::Refused(reason));
}

fn with_handle(actor: usize, f: impl FnOnce(&Actor<State>)) {
    let handle = real(|real| real.handles[actor].last().cloned());
    if let Some(handle) = handle {
        f(&handle);
    }
}

fn do_real(act: &Act) {
    match act {
        Act::Send(actor, note) | Act::Ask(actor, note, _) | Act::With(actor, note) => {
            with_handle(*actor, |handle| match note.size {
                Size::Small => deliver(handle, act, message::<0>(*actor, note)),
                Size::Middle => deliver(handle, act, message::<24>(*actor, note)),
                Size::Large => deliver(handle, act, message::<100>(*actor, note)),
            });
        }
        Act::InTurn(acts) => in_turn(|| acts.iter().for_each(do_real)),
        Act::SendMany(actor, notes) => with_handle(*actor, |handle| {
            let post = |note| {
                let message = message::<8>(*actor, note);
                move |state: &mut State| _ = message(state)
            };
            let _ = handle.send_many(notes.iter().map(post)).map_err(hand_back);
        }),
        Act::WaitReply => {
            if let Some(reply) = real(|real| real.replies.pop_front()) {
                // A refused request may panic in its drop, here.
                let answer = catch_unwind(AssertUnwindSafe(|| reply.wait()));
                tell(Event::Answer(answer.unwrap_or_else(|_| Err(AskError::from(deadlock())))));
            }
        }
        Act::CancelReply => {
            if let Some(reply) = real(|real| real.replies.pop_front()) {
                // Its request may panic in its drop, here.
                let cancelled =
                    catch_unwind(AssertUnwindSafe(|| reply.cancel().is_ok())).unwrap_or(true);
                tell(Event::Said(cancelled));
            }
        }
        Act::Close(actor) => with_handle(*actor, |handle| tell(Event::Said(handle.close()))),
        Act::Stop(actor) => with_handle(*actor, |handle| tell(Event::Said(handle.stop()))),
        Act::WaitIdle(actor) => {
            with_handle(*actor, |handle| tell(Event::Waited(handle.idle().wait())))
        }
        Act::Clone(actor) => {
            with_handle(*actor, |handle| real(|real| real.handles[*actor].push(handle.clone())))
        }
        Act::Drop(actor) => drop(real(|real| real.handles[*actor].pop())),
        Act::Upgrade(actor) => {
            let upgraded = real(|real| real.weak[*actor].upgrade());
            tell(Event::Said(upgraded.is_some()));
            real(|real| real.handles[*actor].extend(upgraded));
        }
    }
}

fn deliver<F: FnOnce(&mut State) -> u8 + Send + 'static>(
    handle: &Actor<State>,
    act: &Act,
    message: F,
) {
    let post = |message: F| move |state: &mut State| _ = message(state);
    match act {
        // A refused closure is dropped in the call.
        Act::Ask(_, _, keep) => match catch_unwind(AssertUnwindSafe(|| handle.call(message))) {
            Ok(reply) if *keep => real(|real| real.replies.push_back(reply)),
            Ok(reply) => drop(reply),
            Err(_) => tell(Event::Panicked),
        },
        Act::With(..) => match catch_unwind(AssertUnwindSafe(|| handle.with(message))) {
            Ok(answer) => tell(Event::Answer(answer)),
            Err(_) => tell(Event::Panicked),
        },
        _ => _ = handle.send(post(message)).map_err(hand_back),
    }
}

fn real_start(setups: &[Setup; ACTORS]) {
    for (actor, setup) in setups.iter().enumerate() {
        let mut builder = Actor::<State>::builder()
            .budget(Budget::UNLIMITED)
            // Its time stands still, so waiters drain to the end.
            .clock(VirtualClock::new())
            .on_panic(move |panic| tell(Event::PanicTold(actor, panic.text().to_owned())))
            .on_end(move |state, cause| tell(Event::Ended(actor, state.len(), cause.stop_cause())))
            .panic_policy(match setup.policy {
                Policy::Stop => PanicPolicy::Stop,
                Policy::Resume => PanicPolicy::Resume,
                Policy::Restart => PanicPolicy::restart(State::new),
            });
        if let Some(messages) = setup.capacity {
            builder = builder.capacity(messages, Overflow::Reject);
        }
        if setup.has_hook {
            builder = builder.on_undelivered(move |message| {
                tell(Event::Undelivered(actor));
                drop(message);
            });
        }
        let handle = builder.spawn(State::new()).unwrap();
        real(|real| {
            real.weak.push(handle.downgrade());
            real.handles[actor].push(handle);
        });
    }
}

fn real_view(actor: usize) -> Option<View> {
    real(|real| {
        let handle = real.handles[actor].last()?;
        Some(View {
            len: handle.len(),
            closed: handle.is_closed(),
            idle: handle.is_idle(),
            cause: handle.stop_cause(),
        })
    })
}

// ---- the model ----

#[derive(Clone, Copy)]
enum Kind {
    Post,
    /// The number of its answer.
    Answered(usize),
}

struct Item {
    note: Note,
    kind: Kind,
    cancelled: bool,
}

/// The place of an answer.
struct Slot {
    actor: usize,
    is_question: bool,
    refused: bool,
    started: bool,
    answer: Option<Result<u8, AskError>>,
    panicked: bool,
}

struct Mailbox {
    setup: Setup,
    queue: VecDeque<Item>,
    running: bool,
    /// Closed or orphaned while idle, inside a turn: it ends when that is over.
    owes_end: bool,
    closed: bool,
    stop: Option<StopCause>,
    orphan: bool,
    ended: bool,
    state: State,
    handles: usize,
    /// Those of the handles that the program holds.
    held: usize,
}

impl Mailbox {
    fn is_idle(&self) -> bool {
        !self.running && !self.is_pending()
    }
    fn is_pending(&self) -> bool {
        !self.running && (self.owes_end || !self.queue.is_empty())
    }
    fn refusal(&self) -> Reason {
        self.stop.clone().map_or(Reason::Closed, Reason::Stopped)
    }
}

struct Model {
    boxes: Vec<Mailbox>,
    /// The actors that this thread runs when its turn is over.
    list: VecDeque<usize>,
    depth: usize,
    slots: Vec<Slot>,
    replies: VecDeque<usize>,
    events: Vec<Event>,
    handled: usize,
    dropped: usize,
}

impl Model {
    fn start(setups: &[Setup; ACTORS]) -> Self {
        let mailbox = |setup: &Setup| Mailbox {
            setup: setup.clone(),
            queue: VecDeque::new(),
            running: false,
            owes_end: false,
            closed: false,
            stop: None,
            orphan: false,
            ended: false,
            state: State::new(),
            handles: 1,
            held: 1,
        };
        Model {
            boxes: setups.iter().map(mailbox).collect(),
            list: VecDeque::new(),
            depth: 0,
            slots: Vec::new(),
            replies: VecDeque::new(),
            events: Vec::new(),
            handled: 0,
            dropped: 0,
        }
    }

    fn tell(&mut self, event: Event) {
        self.events.push(event);
    }
    fn in_turn(&self) -> bool {
        self.depth > 0
    }

    fn with_handle(&mut self, actor: usize, f: impl FnOnce(&mut Self)) {
        if self.boxes[actor].held > 0 {
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

    fn list(&mut self, actor: usize) {
        if !self.list.contains(&actor) {
            self.list.push_back(actor);
        }
    }

    fn do_act(&mut self, act: &Act) {
        match act {
            Act::Send(actor, note) => {
                self.with_handle(*actor, |this| this.post(*actor, std::slice::from_ref(note)))
            }
            Act::InTurn(acts) => {
                self.depth += 1;
                acts.iter().for_each(|act| self.do_act(act));
                self.depth -= 1;
                self.run_list();
            }
            Act::SendMany(actor, notes) => {
                self.with_handle(*actor, |this| this.post(*actor, notes))
            }
            Act::Ask(actor, note, keep) => {
                self.with_handle(*actor, |this| this.ask(*actor, note, *keep))
            }
            Act::With(actor, note) => self.with_handle(*actor, |this| this.with(*actor, note)),
            Act::WaitReply => {
                if let Some(slot) = self.replies.pop_front() {
                    let answer = self.wait(slot);
                    self.tell(Event::Answer(answer));
                }
            }
            Act::CancelReply => {
                if let Some(slot) = self.replies.pop_front() {
                    let cancelled = self.cancel(slot);
                    self.tell(Event::Said(cancelled));
                }
            }
            Act::Close(actor) => self.with_handle(*actor, |this| {
                let first = this.close(*actor);
                this.tell(Event::Said(first));
            }),
            Act::Stop(actor) => self.with_handle(*actor, |this| {
                let mailbox = &mut this.boxes[*actor];
                let first = mailbox.stop.is_none() && !mailbox.ended;
                if first {
                    mailbox.stop = Some(StopCause::Requested);
                }
                this.close(*actor);
                this.tell(Event::Said(first));
            }),
            Act::WaitIdle(actor) => self.with_handle(*actor, |this| {
                let waited = this.wait_idle(*actor);
                this.tell(Event::Waited(waited));
            }),
            Act::Clone(actor) => self.with_handle(*actor, |this| {
                this.boxes[*actor].held += 1;
                this.boxes[*actor].handles += 1;
            }),
            Act::Drop(actor) => {
                if self.boxes[*actor].held > 0 {
                    self.boxes[*actor].held -= 1;
                    self.drop_handle(*actor);
                }
            }
            Act::Upgrade(actor) => {
                let mailbox = &mut self.boxes[*actor];
                let alive = mailbox.handles > 0;
                mailbox.held += usize::from(alive);
                mailbox.handles += usize::from(alive);
                self.tell(Event::Said(alive));
            }
        }
    }

    /// Accepts, or refuses with a reason.
    fn accept(
        &mut self,
        actor: usize,
        notes: &[Note],
        kind: Kind,
        drains: bool,
    ) -> Result<(), Reason> {
        let mailbox = &mut self.boxes[actor];
        // An empty chain is sent to no actor, so it is not refused.
        if notes.is_empty() {
            return Ok(());
        }
        if mailbox.closed {
            return Err(mailbox.refusal());
        }
        let room =
            mailbox.setup.capacity.map(|room| room + usize::from(!mailbox.running && drains));
        if room.is_some_and(|room| {
            mailbox.queue.len() + usize::from(mailbox.owes_end) + notes.len() > room
        }) {
            return Err(Reason::Full);
        }
        mailbox.queue.extend(notes.iter().map(|note| Item {
            note: note.clone(),
            kind,
            cancelled: false,
        }));
        Ok(())
    }

    fn post(&mut self, actor: usize, notes: &[Note]) {
        let drains = !self.in_turn();
        match self.accept(actor, notes, Kind::Post, drains) {
            Err(reason) => {
                self.dropped += notes.len();
                self.tell(Event::Refused(reason));
            }
            Ok(()) if notes.is_empty() => {}
            Ok(()) => self.after_push(actor, drains),
        }
    }

    fn after_push(&mut self, actor: usize, drains: bool) {
        if self.boxes[actor].running {
            return;
        }
        if drains {
            self.come_by(actor, None);
        } else {
            self.list(actor);
        }
    }

    fn new_slot(&mut self, actor: usize, is_question: bool) -> usize {
        self.slots.push(Slot {
            actor,
            is_question,
            refused: false,
            started: false,
            answer: None,
            panicked: false,
        });
        self.slots.len() - 1
    }

    fn ask(&mut self, actor: usize, note: &Note, keep: bool) {
        let slot = self.new_slot(actor, true);
        let drains = !self.in_turn();
        match self.accept(actor, std::slice::from_ref(note), Kind::Answered(slot), drains) {
            Err(reason) => {
                self.dropped += 1;
                if note.end == End::PanicInDrop {
                    self.tell(Event::Panicked);
                    return;
                }
                self.slots[slot].refused = true;
                self.slots[slot].answer = Some(Err(AskError::from(reason)));
                if keep {
                    self.replies.push_back(slot);
                }
            }
            Ok(()) => {
                self.after_push(actor, drains);
                if keep {
                    self.replies.push_back(slot);
                }
            }
        }
    }

    fn with(&mut self, actor: usize, note: &Note) {
        let slot = self.new_slot(actor, false);
        let was_idle = self.boxes[actor].is_idle();
        let answer = if self.boxes[actor].running {
            Err(AskError::from(deadlock()))
        } else {
            match self.accept(actor, std::slice::from_ref(note), Kind::Answered(slot), true) {
                Err(reason) => Err(AskError::from(reason)),
                Ok(()) => {
                    self.come_by(actor, (!was_idle).then_some(slot));
                    self.slots[slot].answer.take().expect("a with ends with an answer")
                }
            }
        };
        // A closure that was not run is the caller's, and dropped here.
        let not_run = !self.slots[slot].started;
        self.dropped += usize::from(not_run);
        if self.slots[slot].panicked || (not_run && note.end == End::PanicInDrop) {
            self.tell(Event::Panicked);
        } else {
            self.tell(Event::Answer(answer));
        }
    }

    fn wait(&mut self, slot: usize) -> Result<u8, AskError> {
        if self.slots[slot].answer.is_none() {
            let actor = self.slots[slot].actor;
            if self.boxes[actor].running {
                // A refused message never runs.
                self.cancel(slot);
                return Err(AskError::from(deadlock()));
            }
            self.come_by(actor, Some(slot));
        }
        self.slots[slot].answer.take().expect("one thread alone leaves nothing to wait for")
    }

    fn cancel(&mut self, slot: usize) -> bool {
        // A refused message is returned, too.
        if self.slots[slot].refused {
            return true;
        }
        if self.slots[slot].started || self.slots[slot].answer.is_some() {
            return false;
        }
        let queue = &mut self.boxes[self.slots[slot].actor].queue;
        let item = queue
            .iter_mut()
            .find(|item| matches!(item.kind, Kind::Answered(other) if other == slot));
        item.expect("a question that has not started waits").cancelled = true;
        self.dropped += 1;
        true
    }

    fn wait_idle(&mut self, actor: usize) -> Result<(), Reason> {
        loop {
            if self.boxes[actor].is_idle() {
                return Ok(());
            }
            if self.boxes[actor].running {
                return Err(deadlock());
            }
            self.come_by(actor, None);
        }
    }

    fn close(&mut self, actor: usize) -> bool {
        if self.boxes[actor].closed {
            return false;
        }
        self.boxes[actor].closed = true;
        self.see_to_the_end(actor);
        true
    }

    /// Ends an actor after closing, or after its last handle.
    fn see_to_the_end(&mut self, actor: usize) {
        if self.boxes[actor].running {
            return;
        }
        if self.boxes[actor].is_idle() {
            self.boxes[actor].owes_end = true;
        }
        if self.in_turn() {
            self.list(actor);
        } else {
            self.come_by(actor, None);
        }
    }

    /// Runs the actors that this thread has deferred, unless it is inside a turn.
    fn run_list(&mut self) {
        if self.in_turn() {
            return;
        }
        self.depth += 1;
        while let Some(next) = self.list.pop_front() {
            if self.boxes[next].is_pending() {
                self.drive(next, true, None);
            }
        }
        self.depth -= 1;
    }

    /// Takes a pending mailbox over and drains it, and then those that this thread has deferred. On
    /// top of a turn, a caller that waits leaves when its answer has come.
    fn come_by(&mut self, actor: usize, until: Option<usize>) {
        if self.boxes[actor].is_pending() {
            let outermost = !self.in_turn();
            self.drive(actor, outermost, until.filter(|_| !outermost));
        }
        self.run_list();
    }

    fn drive(&mut self, actor: usize, outermost: bool, until: Option<usize>) {
        self.depth += 1;
        self.boxes[actor].running = true;
        self.boxes[actor].owes_end = false;
        // The waiting messages are one batch; messages that its turns send to this actor are the
        // next one.
        let mut batch = self.boxes[actor].queue.len();
        while let Some(item) = self.boxes[actor].queue.pop_front() {
            self.turn(actor, item);
            batch -= 1;
            let is_answered = |slot: usize| self.slots[slot].answer.is_some();
            // Between two batches, it yields to actors that this thread has deferred.
            let others = outermost && batch == 0 && !self.list.is_empty();
            let gives_way = others || until.is_some_and(is_answered);
            if gives_way && !self.boxes[actor].queue.is_empty() {
                self.list(actor);
                break;
            }
            if batch == 0 {
                batch = self.boxes[actor].queue.len();
            }
        }
        let mailbox = &mut self.boxes[actor];
        if mailbox.queue.is_empty() && (mailbox.closed || mailbox.orphan) && !mailbox.ended {
            mailbox.ended = true;
            let ended = Event::Ended(actor, mailbox.state.len(), mailbox.stop.clone());
            self.tell(ended);
        }
        self.boxes[actor].running = false;
        self.depth -= 1;
    }

    fn turn(&mut self, actor: usize, item: Item) {
        let Item { note, kind, cancelled } = item;
        if let Some(cause) = self.boxes[actor].stop.clone() {
            match kind {
                Kind::Answered(_) if cancelled => {}
                Kind::Answered(slot) => {
                    self.slots[slot].answer = Some(Err(AskError::from(Reason::Stopped(cause))));
                    // A caller of `with` counts its own.
                    self.dropped += usize::from(self.slots[slot].is_question);
                }
                Kind::Post => {
                    self.dropped += 1;
                    if self.boxes[actor].setup.has_hook {
                        self.tell(Event::Undelivered(actor));
                    }
                }
            }
            return;
        }
        if cancelled {
            return;
        }
        if let Kind::Answered(slot) = kind {
            self.slots[slot].started = true;
        }
        self.handled += 1;
        self.boxes[actor].state.push(note.id);
        let after = self.boxes[actor].state.len() - 1;
        self.tell(Event::Run { actor, id: note.id, after });
        note.acts.iter().for_each(|act| self.do_act(act));
        if let Some(text) = note.end.text() {
            self.tell(Event::PanicTold(actor, text.to_owned()));
            let mailbox = &mut self.boxes[actor];
            match mailbox.setup.policy {
                Policy::Resume => {}
                Policy::Restart => mailbox.state.clear(),
                Policy::Stop => {
                    mailbox.stop.get_or_insert(StopCause::Panicked(text.into()));
                    mailbox.closed = true;
                }
            }
        }
        if let Kind::Answered(slot) = kind {
            self.slots[slot].panicked = note.end != End::Fine;
            self.slots[slot].answer = Some(
                note.end.text().map_or(Ok(note.id), |text| Err(AskError::Panicked(text.into()))),
            );
        }
    }

    fn view(&self, actor: usize) -> Option<View> {
        let mailbox = &self.boxes[actor];
        (mailbox.held > 0).then(|| View {
            len: mailbox.queue.len() + usize::from(mailbox.owes_end),
            closed: mailbox.closed,
            idle: mailbox.is_idle(),
            cause: mailbox.stop.clone(),
        })
    }
}

// ---- both ----

fn check(setups: &[Setup; ACTORS], program: &[Act]) {
    real_start(setups);
    let mut model = Model::start(setups);
    let step = |model: &mut Model, act: &Act| {
        do_real(act);
        model.do_act(act);
        let (events, tally) = real(|real| (std::mem::take(&mut real.events), real.tally.clone()));
        assert_eq!(events, std::mem::take(&mut model.events), "after {act:?}");
        (0..ACTORS).for_each(|actor| {
            assert_eq!(real_view(actor), model.view(actor), "actor {actor} after {act:?}")
        });
        assert_eq!(
            (tally.handled(), tally.dropped()),
            (model.handled, model.dropped),
            "after {act:?}"
        );
        tally
    };
    program.iter().for_each(|act| _ = step(&mut model, act));
    // The end: every handle is dropped, and then every message has met its fate and every asker has
    // its answer.
    for actor in 0..ACTORS {
        while model.boxes[actor].held > 0 {
            step(&mut model, &Act::Drop(actor));
        }
    }
    while !model.replies.is_empty() {
        step(&mut model, &Act::WaitReply);
    }
    let tally = step(&mut model, &Act::WaitReply);
    tally.check();
    assert!(model.boxes.iter().all(|mailbox| mailbox.ended));
}

fn notes(depth: u32) -> BoxedStrategy<Note> {
    let acts = if depth == 0 {
        Just(Vec::new()).boxed()
    } else {
        prop::collection::vec(acts(depth - 1), 0..4).boxed()
    };
    let end = prop_oneof![8 => Just(End::Fine), 1 => Just(End::Panic), 1 => Just(End::PanicInDrop)];
    let size = prop_oneof![Just(Size::Small), Just(Size::Middle), Just(Size::Large)];
    (any::<u8>(), acts, end, size)
        .prop_map(|(id, acts, end, size)| Note { id, acts, end, size })
        .boxed()
}

fn acts(depth: u32) -> BoxedStrategy<Act> {
    let actor = || 0..ACTORS;
    let note = || notes(depth);
    let inside = if depth == 0 {
        Just(Vec::new()).boxed()
    } else {
        prop::collection::vec(acts(depth - 1), 0..8).boxed()
    };
    prop_oneof![
        8 => (actor(), note()).prop_map(|(actor, note)| Act::Send(actor, note)),
        4 => inside.prop_map(Act::InTurn),
        3 => (actor(), prop::collection::vec(note(), 0..5))
            .prop_map(|(actor, notes)| Act::SendMany(actor, notes)),
        4 => (actor(), note(), any::<bool>())
            .prop_map(|(actor, note, keep)| Act::Ask(actor, note, keep)),
        4 => (actor(), note()).prop_map(|(actor, note)| Act::With(actor, note)),
        2 => Just(Act::WaitReply),
        1 => Just(Act::CancelReply),
        1 => actor().prop_map(Act::Close),
        1 => actor().prop_map(Act::Stop),
        2 => actor().prop_map(Act::WaitIdle),
        2 => actor().prop_map(Act::Clone),
        2 => actor().prop_map(Act::Drop),
        1 => actor().prop_map(Act::Upgrade),
    ]
    .boxed()
}

fn setups() -> impl Strategy<Value = [Setup; ACTORS]> {
    let capacity = prop::option::of(1_usize..5);
    let policy = prop_oneof![Just(Policy::Stop), Just(Policy::Resume), Just(Policy::Restart)];
    prop::array::uniform3(
        (capacity, policy, any::<bool>()).prop_map(|(capacity, policy, has_hook)| Setup {
            capacity,
            policy,
            has_hook,
        }),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn actors_do_what_the_model_does(
        setups in setups(),
        program in prop::collection::vec(acts(2), 1..25),
    ) {
        // On a thread of its own, so that a failing case leaves nothing to the next one.
        let ended = thread::scope(|scope| scope.spawn(|| check(&setups, &program)).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}
