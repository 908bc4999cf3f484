//! User code: what a program brings along, and what it does when it is called.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use cooked_waker::{IntoWaker, Wake, WakeRef};

use crate::face::{self, Asked, Handle, Limit, Outcome, Place, Weak};
use crate::ledger::{ACCEPTED, BACK, FORGIVEN, Kind, NOBODY, RUN, Token, finding, flags, mark};
use crate::plan::{
    Bell, Body, Deed, FUTURES, Fate, For, How, Letter, Manner, PlaceKind, Program, Runs, Step,
};

/// What a thread is doing, as far as it matters to the rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doing {
    /// The steps of a thread of the program.
    Steps,
    Turn,
    /// User code that is no turn: a hook, a destructor, a waker, a clock, an executor.
    Code,
    /// Inside the crate's `poll`.
    Poll,
}

/// So deep may user code call the crate, and the crate user code.
const DEEPEST: u32 = 10;
/// So many steps may a program make, for user code may be called without an end.
const FUEL: i32 = 600;

thread_local! {
    static DOING: Cell<Doing> = const { Cell::new(Doing::Code) };
    /// The payload of a panic is being dropped.
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The actors in whose turns this thread is, or those who wait for it.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// What the thread did before comes back when this is dropped.
struct Was(Doing);

fn now(doing: Doing) -> Was {
    Was(DOING.replace(doing))
}

impl Drop for Was {
    fn drop(&mut self) {
        DOING.set(self.0);
    }
}

/// What the program has of an actor.
#[derive(Default)]
pub struct Entry {
    pub handle: Mutex<Option<Handle>>,
    pub weak: Mutex<Option<Weak>>,
    /// States that are alive: one, but for the moment of a restart.
    live: AtomicI32,
    running: AtomicBool,
    /// Something that keeps it, or what it was given, was forgotten on purpose.
    leaky: AtomicBool,
    /// The same of what keeps only its storage, and so its hooks.
    storage_leaky: AtomicBool,
    /// It has ended, and every message it accepted must have run.
    pub ended_well: AtomicBool,
}

/// A future that any thread may poll, drop or forget.
struct Kept {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    group: u32,
    /// The actor that is kept by it.
    actor: usize,
    carries: Option<usize>,
    woken: Arc<AtomicBool>,
    is_pending: bool,
    /// Which call it came from.
    what: &'static str,
}

pub struct World {
    pub program: Program,
    pub stack: usize,
    pub entries: Vec<Entry>,
    pub places: Vec<Mutex<Option<Arc<Place>>>>,
    pub systems: Vec<Mutex<Option<Arc<face::System>>>>,
    futures: [Mutex<Option<Kept>>; FUTURES],
    pub clock: face::VirtualClock,
    late: Mutex<Vec<face::Drain>>,
    fuel: AtomicI32,
    threads: Mutex<Vec<(String, thread::JoinHandle<()>)>>,
    /// Actors that keep other ones, by a handle in a state or a message.
    keeps: Mutex<HashSet<(usize, usize)>>,
    pub pumping: AtomicBool,
}

/// Runs user code that may unwind, to its very end: the drop of a panic's payload is user code too.
pub fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    let mut result = catch_unwind(AssertUnwindSafe(f));
    loop {
        match result {
            Ok(result) => return Some(result),
            Err(payload) => match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                Ok(()) => return None,
                Err(next) => result = Err(next),
            },
        }
    }
}

impl World {
    pub fn new(program: Program, stack: usize) -> Arc<Self> {
        let places = program.places.iter().enumerate();
        let used = |at: usize| {
            program
                .actors
                .iter()
                .any(|actor| matches!(actor.runs, Runs::Place(place) if place == at))
        };
        let places = places
            .map(|(at, kind)| Mutex::new(used(at).then(|| Arc::new(Place::new(*kind, stack)))));
        let mut systems: Vec<Option<Arc<face::System>>> = Vec::new();
        for above in &program.systems {
            let child = above.and_then(|above| systems[above].as_ref()?.child().ok());
            systems.push(Some(Arc::new(child.unwrap_or_else(face::System::new))));
        }
        let world = Arc::new(World {
            stack,
            entries: program.actors.iter().map(|_| Entry::default()).collect(),
            places: places.collect(),
            systems: systems.into_iter().map(Mutex::new).collect(),
            futures: Default::default(),
            clock: face::VirtualClock::new(),
            late: Mutex::default(),
            fuel: AtomicI32::new(FUEL),
            threads: Mutex::default(),
            keeps: Mutex::default(),
            pumping: AtomicBool::new(true),
            program,
        });
        // The last first: those before hold handles of those behind.
        for at in (0..world.entries.len()).rev() {
            let actor = face::build(&world, at);
            *world.entries[at].weak.lock().unwrap() = actor.as_ref().map(Handle::downgrade);
            *world.entries[at].handle.lock().unwrap() = actor;
        }
        world
    }

    pub fn handle(&self, at: usize) -> Option<Handle> {
        self.entries[at].handle.lock().unwrap().clone()
    }

    fn weak(&self, at: usize) -> Option<Weak> {
        self.entries[at].weak.lock().unwrap().clone()
    }

    /// May the tokens of this actor stay?
    pub fn is_leaky(&self, at: usize) -> bool {
        let keeps = self.keeps.lock().unwrap();
        let mut leaky: HashSet<usize> =
            (0..self.entries.len()).filter(|at| self.entries[*at].leaky.load(SeqCst)).collect();
        loop {
            let more: Vec<_> = keeps
                .iter()
                .filter(|(by, of)| leaky.contains(by) && !leaky.contains(of))
                .map(|(_, of)| *of)
                .collect();
            if more.is_empty() {
                return leaky.contains(&at);
            }
            leaky.extend(more);
        }
    }

    pub fn leaks(&self, at: usize) {
        self.entries[at].leaky.store(true, SeqCst);
    }

    /// May its hooks stay?
    pub fn is_storage_leaky(&self, at: usize) -> bool {
        self.entries[at].storage_leaky.load(SeqCst) || self.is_leaky(at)
    }

    /// What was forgotten held a message to this actor: that and all that came from it may stay.
    fn forgives(&self, to: usize, group: u32, carries: Option<usize>) {
        mark(group, FORGIVEN);
        self.entries[to].storage_leaky.store(true, SeqCst);
        carries.into_iter().for_each(|at| self.leaks(at));
    }

    /// Starts a thread of the program, with a small stack.
    pub fn start(
        self: &Arc<Self>,
        name: String,
        doing: Doing,
        f: impl FnOnce(&Arc<World>) + Send + 'static,
    ) {
        let (world, inside) = (self.clone(), INSIDE.with_borrow(Vec::clone));
        let thread = thread::Builder::new()
            .name(face::PROGRAM_THREAD.into())
            .stack_size(self.stack)
            .spawn(move || {
                DOING.set(doing);
                INSIDE.set(inside);
                caught(|| f(&world));
            });
        self.threads.lock().unwrap().push((name, thread.expect("a thread can be had")));
    }

    /// The threads that have not come to their end.
    pub fn unfinished(&self) -> Vec<String> {
        let mut threads = self.threads.lock().unwrap();
        threads.retain(|(_, thread)| !thread.is_finished());
        threads.iter().map(|(name, _)| name.clone()).collect()
    }

    /// A new state of this actor.
    pub fn state(self: &Arc<Self>, at: usize) -> State {
        self.entries[at].live.fetch_add(1, SeqCst);
        let holds = self.program.actors[at].holds;
        if let Some(other) = holds {
            self.keeps.lock().unwrap().insert((at, other));
        }
        let holds = holds.and_then(|other| self.handle(other));
        State { token: Token::new(Kind::State, at, None), at, world: self.clone(), _holds: holds }
    }

    fn mail(self: &Arc<Self>, to: usize, plan: &Arc<Letter>) -> Mail {
        let carries = plan.carries.and_then(|at| self.handle(at));
        if let Some(at) = plan.carries {
            self.keeps.lock().unwrap().insert((to, at));
        }
        let token = Token::new(Kind::Message, to, None);
        Mail { token, to, world: self.clone(), plan: plan.clone(), _carries: carries }
    }

    /// User code is called.
    pub fn user(self: &Arc<Self>, body: &Body) {
        if !body.0.is_empty() {
            self.perform(body, Doing::Code);
        }
    }

    fn perform(self: &Arc<Self>, body: &Body, doing: Doing) {
        let _was = now(doing);
        if DEPTH.get() < DEEPEST {
            DEPTH.set(DEPTH.get() + 1);
            let _up = Up;
            body.0.iter().for_each(|step| self.step(step));
        }
    }

    /// The steps of a thread of the program: one that panics is followed by the next.
    pub fn steps(self: &Arc<Self>, body: &Body) {
        for step in &body.0 {
            caught(|| self.step(step));
        }
    }

    /// May this thread wait without a limit for that actor? It needs somebody to run the actor without this thread, and an order of waiting.
    fn may_wait(&self, to: usize) -> bool {
        let (own_thread, kept) = match &self.program.actors[to].runs {
            Runs::Senders => (false, true),
            Runs::Odd(manners, _) => (
                true,
                manners.iter().all(|manner| match manner {
                    Manner::AtOnce | Manner::OtherThread | Manner::Drop | Manner::Panic => true,
                    Manner::Later => self.program.pumped,
                    Manner::Forget | Manner::Refuse => false,
                }),
            ),
            Runs::Place(place) => match self.program.places[*place] {
                PlaceKind::Pool { .. } => (false, true),
                PlaceKind::Queue { .. } => (true, self.program.pumped),
                PlaceKind::Rayon | PlaceKind::Tokio { .. } => (true, true),
            },
        };
        kept && match DOING.get() {
            Doing::Steps => true,
            Doing::Turn => {
                !own_thread && INSIDE.with_borrow(|inside| inside.iter().all(|at| *at < to))
            }
            Doing::Code | Doing::Poll => false,
        }
    }

    fn limit(&self, limit: For, to: usize) -> Limit {
        match limit {
            For::Zero => Limit::Immediate,
            For::Ever if self.may_wait(to) => Limit::Unlimited,
            For::Ever => Limit::Within(Duration::from_millis(1)),
            For::Micros(micros) => Limit::Within(Duration::from_micros(micros.into())),
        }
    }

    fn step(self: &Arc<Self>, step: &Step) {
        if self.fuel.fetch_sub(1, SeqCst) <= 0 {
            return;
        }
        match &step.deed {
            Deed::Send { to, how, letter } => {
                let Some(actor) = self.handle(*to) else { return };
                let limit = match how {
                    // There is no order of waiting for room.
                    How::Within(For::Ever) | How::TellWithin(For::Ever) => {
                        Limit::Within(Duration::from_millis(1))
                    }
                    How::Within(limit) | How::TellWithin(limit) => self.limit(*limit, *to),
                    _ => Limit::Immediate,
                };
                let mail = self.mail(*to, letter);
                let id = mail.token.id;
                sent(id, face::send(&actor, *how, limit, mail));
            }
            Deed::SendMany { to, letters, iterator } => {
                let Some(actor) = self.handle(*to) else { return };
                let mut ids = Vec::new();
                let mails = letters.iter().enumerate().map(|(at, letter)| {
                    if at == 1 {
                        self.user(iterator);
                    }
                    let mail = self.mail(*to, letter);
                    ids.push(mail.token.id);
                    mail
                });
                let accepted = face::send_many(&actor, mails);
                ids.into_iter().for_each(|id| sent(id, accepted));
            }
            Deed::Ask { to, typed, letter, polled, then } => {
                let Some(actor) = self.handle(*to) else { return };
                let mail = self.mail(*to, letter);
                let id = mail.token.id;
                let mut asked = face::ask(&actor, *typed, mail);
                drop(actor);
                if let Some(bell) = polled {
                    let waker = self.waker(bell, *to, id, &Arc::default());
                    if self.poll(|cx| asked.poll(cx), &waker).is_ready() {
                        return;
                    }
                }
                self.settle(asked, (*to, id, letter.carries), *then);
            }
            Deed::With { to, body } => {
                let Some(actor) = self.handle(*to).filter(|_| self.may_wait(*to)) else { return };
                let mail =
                    self.mail(*to, &Arc::new(Letter { turn: body.clone(), ..Letter::default() }));
                let id = mail.token.id;
                match face::with(&actor, mail) {
                    true if flags(id) & RUN == 0 => finding("an answer without a turn", "with"),
                    true => {}
                    false => drop(mark(id, BACK)),
                }
            }
            Deed::SendAsync { to, letter, bell, then } => self.send_async(*to, letter, bell, *then),
            Deed::Poll { slot, bell } => {
                let Some(mut kept) = self.futures[*slot].lock().unwrap().take() else { return };
                kept.woken.store(false, SeqCst);
                let waker = self.waker(bell, kept.actor, kept.group, &kept.woken);
                if self.poll(|cx| kept.future.as_mut().poll(cx), &waker).is_pending() {
                    kept.is_pending = true;
                    self.keep(*slot, kept);
                }
            }
            Deed::DropFuture { slot } => {
                let kept = self.futures[*slot].lock().unwrap().take();
                drop(kept);
            }
            Deed::ForgetFuture { slot } => {
                if let Some(kept) = self.futures[*slot].lock().unwrap().take() {
                    self.forgives(kept.actor, kept.group, kept.carries);
                    self.leaks(kept.actor);
                    std::mem::forget(kept);
                }
            }
            Deed::DropHandle { of } => {
                let actor = self.entries[*of].handle.lock().unwrap().take();
                drop(actor);
            }
            Deed::ForgetHandle { of } => {
                if let Some(actor) = self.handle(*of) {
                    self.leaks(*of);
                    std::mem::forget(actor);
                }
            }
            Deed::Upgrade { of } => {
                if let Some(actor) = self.weak(*of).and_then(|weak| weak.upgrade()) {
                    let before = self.entries[*of].handle.lock().unwrap().replace(actor);
                    drop(before);
                }
            }
            Deed::Close { of } => drop(self.handle(*of).map(|actor| actor.close())),
            Deed::CloseIfIdle { of } => drop(self.handle(*of).map(|actor| actor.close_if_idle())),
            Deed::Stop { of } => drop(self.handle(*of).map(|actor| actor.stop())),
            Deed::WaitIdle { of } => {
                if let Some(actor) = self.handle(*of).filter(|_| self.may_wait(*of)) {
                    face::wait_idle(&actor);
                }
            }
            Deed::WaitEnded { of, limit } => {
                // Nobody may ever end it.
                let limit = if *limit == For::Ever { For::Micros(1000) } else { *limit };
                if let Some(actor) = self.handle(*of) {
                    face::wait_ended(&actor, self.limit(limit, *of));
                }
            }
            Deed::ShutDownSystem { system, limit } => {
                let system = self.systems[*system].lock().unwrap().clone();
                system.into_iter().for_each(|system| drop(system.shutdown(face::short(*limit))));
            }
            Deed::DropSystem { system } => {
                let system = self.systems[*system].lock().unwrap().take();
                drop(system);
            }
            Deed::ShutDownPlace { place, limit } => {
                let place = self.places[*place].lock().unwrap().take();
                // Whoever runs a queue at the moment lets it go.
                place
                    .and_then(Arc::into_inner)
                    .into_iter()
                    .for_each(|place| place.shut_down(*limit));
            }
            Deed::RunQueue { place, most } => {
                let place = self.places[*place].lock().unwrap().clone();
                place.map(|place| place.run(*most));
            }
            Deed::Advance { micros } => self.clock.advance(Duration::from_micros((*micros).into())),
            Deed::Blocking { body } => face::blocking(|| self.perform(body, DOING.get())),
            Deed::Elsewhere { body } => {
                let (over, is_over) = mpsc::channel::<()>();
                let body = body.clone();
                let doing = if DOING.get() == Doing::Steps { Doing::Steps } else { Doing::Code };
                self.start(format!("step {}", step.id), doing, move |world| {
                    world.steps(&body);
                    drop(over);
                });
                let _ = is_over.recv_timeout(Duration::from_millis(20));
            }
            Deed::Pause { micros: 0 } => thread::yield_now(),
            Deed::Pause { micros } => thread::sleep(Duration::from_micros((*micros).into())),
            Deed::Panic { dropped } => {
                // A second panic in an unwinding thread ends the process, and rightly.
                if !thread::panicking() {
                    let token = Token::new(Kind::Payload, NOBODY, None);
                    if DROPPING.get() {
                        // The drop of a payload panics: what comes of that may be forgotten.
                        mark(token.id, FORGIVEN);
                    }
                    panic_any(Payload {
                        _token: token,
                        world: self.clone(),
                        dropped: dropped.clone(),
                    });
                }
            }
            Deed::Chain { actors, by, place } => face::chain(*actors, *by, *place, self.stack),
        }
    }

    fn send_async(self: &Arc<Self>, to: usize, letter: &Arc<Letter>, bell: &Arc<Bell>, then: Fate) {
        let Some(actor) = self.handle(to) else { return };
        let mail = self.mail(to, letter);
        let id = mail.token.id;
        let woken = Arc::new(AtomicBool::new(false));
        let waker = self.waker(bell, to, id, &woken);
        if let Fate::Keep(slot) = then {
            let sending = face::send_async(&actor, mail);
            let mut future: Pin<Box<dyn Future<Output = ()> + Send>> =
                Box::pin(async move { sent(id, sending.await) });
            if self.poll(|cx| future.as_mut().poll(cx), &waker).is_pending() {
                let carries = letter.carries;
                self.keep(
                    slot,
                    Kept {
                        future,
                        group: id,
                        actor: to,
                        carries,
                        woken,
                        is_pending: true,
                        what: "sending",
                    },
                );
            }
            return;
        }
        // It keeps a handle: to forget it forgets that, too.
        let mut future = Box::pin(face::send_async(&actor, mail));
        let mut polls = if matches!(then, Fate::Wait(_)) { 8 } else { 1 };
        loop {
            match self.poll(|cx| future.as_mut().poll(cx), &waker) {
                Poll::Ready(accepted) => return sent(id, accepted),
                Poll::Pending if polls <= 1 => break,
                Poll::Pending => thread::sleep(Duration::from_micros(100)),
            }
            polls -= 1;
        }
        if then == Fate::Forget {
            self.forgives(to, id, letter.carries);
            self.leaks(to);
            std::mem::forget(future);
        }
    }

    fn settle(
        self: &Arc<Self>,
        asked: Asked,
        (to, id, carries): (usize, u32, Option<usize>),
        then: Fate,
    ) {
        let outcome = match then {
            Fate::Wait(limit) => asked.wait(self.limit(limit, to)),
            Fate::WaitOrCancel(limit) => asked.wait_or_cancel(self.limit(limit, to)),
            Fate::Cancel => asked.cancel(),
            Fate::Drop => return,
            Fate::Forget => {
                self.forgives(to, id, carries);
                return std::mem::forget(asked);
            }
            Fate::Keep(slot) => {
                let future = Box::pin(async move { drop(asked.await) });
                let woken = Arc::default();
                let kept = Kept {
                    future,
                    group: id,
                    actor: to,
                    carries,
                    woken,
                    is_pending: false,
                    what: "reply",
                };
                return self.keep(slot, kept);
            }
        };
        match &outcome {
            Outcome::Answered(_) if flags(id) & RUN == 0 => {
                finding("an answer without a turn", "ask")
            }
            Outcome::Cancelled if mark(id, BACK) & RUN != 0 => {
                finding("a cancelled message ran", "ask")
            }
            _ => {}
        }
    }

    fn keep(&self, slot: usize, kept: Kept) {
        let before = self.futures[slot].lock().unwrap().replace(kept);
        drop(before);
    }

    fn waker(
        self: &Arc<Self>,
        bell: &Arc<Bell>,
        actor: usize,
        group: u32,
        woken: &Arc<AtomicBool>,
    ) -> Waker {
        let token = Token::new(Kind::Waker, actor, Some(group));
        Box::new(Ringer {
            token,
            group,
            actor,
            world: self.clone(),
            plan: bell.clone(),
            woken: woken.clone(),
        })
        .into_waker()
    }

    fn poll<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>, waker: &Waker) -> Poll<T> {
        let _was = now(Doing::Poll);
        poll(&mut Context::from_waker(waker))
    }

    /// Everything is quiet: a future that would be ready now has been woken.
    pub fn check_wakes(self: &Arc<Self>) {
        for slot in &self.futures {
            let Some(mut kept) = slot.lock().unwrap().take() else { continue };
            // An actor that something forgotten keeps may be in the middle of anything.
            if !kept.is_pending || kept.woken.load(SeqCst) || self.is_leaky(kept.actor) {
                continue;
            }
            let before =
                format!("{:?}, leaky: {}", self.handle(kept.actor), self.is_leaky(kept.actor));
            let waker = self.waker(&Arc::default(), kept.actor, kept.group, &kept.woken);
            let ready = caught(|| self.poll(|cx| kept.future.as_mut().poll(cx), &waker).is_ready());
            // Whoever settles it may be just about to wake.
            let woken = (0..2000).any(|_| {
                thread::sleep(Duration::from_millis(if kept.woken.load(SeqCst) { 0 } else { 1 }));
                kept.woken.load(SeqCst)
            } || ready != Some(true));
            if ready == Some(true) && !woken {
                finding(
                    "a wake-up was lost",
                    &format!("a future at actor {} ({}) {before}", kept.actor, kept.what),
                );
            }
        }
    }

    /// True if there was one.
    pub fn drop_futures(&self) -> bool {
        let kept: Vec<_> =
            self.futures.iter().filter_map(|slot| slot.lock().unwrap().take()).collect();
        let any = !kept.is_empty();
        kept.into_iter().for_each(|kept| {
            caught(|| drop(kept));
        });
        any
    }

    /// Runs what lies in queues, until told otherwise.
    pub fn pump(self: &Arc<Self>) {
        while self.pumping.load(SeqCst) {
            let mut ran = false;
            for place in &self.places {
                let place = place.lock().unwrap().clone();
                ran |= place.is_some_and(|place| caught(|| place.run(1)) == Some(true));
            }
            let late = std::mem::take(&mut *self.late.lock().unwrap());
            ran |= !late.is_empty();
            late.into_iter().for_each(|drain| {
                caught(|| drain.run());
            });
            if !ran {
                thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// What an executor of the program's own does.
    pub fn execute(
        self: &Arc<Self>,
        at: usize,
        call: usize,
        drain: face::Drain,
    ) -> Result<(), face::Drain> {
        let _was = now(Doing::Code);
        let Runs::Odd(manners, body) = &self.program.actors[at].runs else { return Err(drain) };
        self.user(body);
        match manners[call % manners.len()] {
            Manner::AtOnce => drain.run(),
            Manner::Later => self.late.lock().unwrap().push(drain),
            Manner::OtherThread => {
                self.start(format!("actor {at}'s executor"), Doing::Code, |_| drain.run())
            }
            Manner::Forget => {
                self.leaks(at);
                std::mem::forget(drain);
            }
            Manner::Drop => drop(drain),
            Manner::Refuse => return Err(drain),
            Manner::Panic if thread::panicking() => drop(drain),
            Manner::Panic => panic_any(Planned),
        }
        Ok(())
    }
}

/// Is the drop of a payload over?
struct Reset(bool);

impl Drop for Reset {
    fn drop(&mut self) {
        DROPPING.set(self.0);
    }
}

struct Up;

impl Drop for Up {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// A message was accepted or has come back.
fn sent(id: u32, accepted: bool) {
    let before = mark(id, if accepted { ACCEPTED } else { BACK });
    if !accepted && before & RUN != 0 {
        finding("a refused message ran", "send");
    }
}

/// The state of an actor.
pub struct State {
    token: Token,
    at: usize,
    world: Arc<World>,
    _holds: Option<Handle>,
}

impl State {
    /// A turn, or what else gets the state, begins here.
    pub fn turn(&mut self, to: usize) -> Turn {
        let entry = &self.world.entries[to];
        // What an earlier program forgot may run yet.
        let dropped = self.token.is_current() && flags(self.token.id) & crate::ledger::DROPPED != 0;
        if to != self.at || entry.live.load(SeqCst) <= 0 || dropped {
            finding("a turn on a dropped state", &format!("actor {to}"));
        }
        if entry.running.swap(true, SeqCst) {
            finding("two turns at a time", &format!("actor {to}"));
        }
        let runs = &self.world.program.actors[to].runs;
        if DOING.get() == Doing::Poll && (face::POLL_RUNS_NOBODY || !matches!(runs, Runs::Senders))
        {
            finding("a poll runs a turn", &format!("actor {to}"));
        }
        if let (true, Runs::Place(place)) = (face::ONLY_EXECUTORS_RUN, runs) {
            if !face::is_thread_of(self.world.program.places[*place]) {
                finding("a turn outside of its executor", &format!("actor {to}"));
            }
        }
        INSIDE.with_borrow_mut(|inside| inside.push(to));
        Turn { world: self.world.clone(), at: to, _was: now(Doing::Turn) }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.world.entries[self.at].live.fetch_sub(1, SeqCst) <= 0 {
            finding("a state dropped twice", &format!("actor {}", self.at));
        }
        self.world.user(&self.world.program.actors[self.at].hooks.state_dropped);
    }
}

/// A turn that is under way.
pub struct Turn {
    world: Arc<World>,
    at: usize,
    _was: Was,
}

impl Drop for Turn {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| inside.pop());
        self.world.entries[self.at].running.store(false, SeqCst);
    }
}

/// A message.
pub struct Mail {
    token: Token,
    to: usize,
    world: Arc<World>,
    plan: Arc<Letter>,
    _carries: Option<Handle>,
}

impl Mail {
    pub fn run(self, state: &mut State) -> Answer {
        let (to, id, world, plan) = (self.to, self.token.id, self.world.clone(), self.plan.clone());
        {
            let _turn = state.turn(to);
            self.token.run();
            world.perform(&plan.turn, Doing::Turn);
        }
        // Before there is an answer: one that is being returned is leaked if a drop panics (rust-lang/rust#47949).
        drop(self);
        Answer { _token: Token::new(Kind::Answer, to, Some(id)), world, plan }
    }

    pub fn is_large(&self) -> bool {
        self.plan.large
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        self.world.user(&self.plan.dropped);
    }
}

pub struct Answer {
    _token: Token,
    world: Arc<World>,
    plan: Arc<Letter>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.world.user(&self.plan.answer);
    }
}

/// What user code panics with.
struct Payload {
    _token: Token,
    world: Arc<World>,
    dropped: Body,
}

impl Drop for Payload {
    fn drop(&mut self) {
        let _was = Reset(DROPPING.replace(true));
        self.world.user(&self.dropped);
    }
}

/// A panic of user code that has no code of its own.
struct Planned;

/// Does the program itself panic with that?
pub fn is_planned(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Payload>() || payload.is::<Planned>()
}

/// A waker.
struct Ringer {
    token: Token,
    group: u32,
    actor: usize,
    world: Arc<World>,
    plan: Arc<Bell>,
    woken: Arc<AtomicBool>,
}

impl Clone for Ringer {
    fn clone(&self) -> Self {
        self.world.user(&self.plan.cloned);
        Ringer {
            token: Token::new(Kind::Waker, self.actor, Some(self.group)),
            group: self.group,
            actor: self.actor,
            world: self.world.clone(),
            plan: self.plan.clone(),
            woken: self.woken.clone(),
        }
    }
}

impl WakeRef for Ringer {
    fn wake_by_ref(&self) {
        self.woken.store(true, SeqCst);
        let dropped = flags(self.token.id) & crate::ledger::DROPPED != 0;
        if dropped && self.token.is_current() {
            finding("a dropped waker was woken", &format!("at actor {}", self.actor));
        }
        self.world.user(&self.plan.woken);
    }
}

impl Wake for Ringer {}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.world.user(&self.plan.dropped);
    }
}

/// A clock that jumps to and fro, and whose code is run now and then.
pub struct OddClock {
    pub world: Arc<World>,
    pub at: usize,
    pub looks: AtomicUsize,
}

impl OddClock {
    pub fn look(&self, real: Duration) -> Duration {
        let crate::plan::Time::Odd { every, jump, body } =
            &self.world.program.actors[self.at].clock
        else {
            return real;
        };
        let look = self.looks.fetch_add(1, SeqCst) as u32;
        if look % every == every - 1 {
            self.world.user(body);
        }
        let jump = Duration::from_micros((look % 3 * jump).into());
        if look % 2 == 0 { real + jump } else { real.saturating_sub(jump) }
    }
}
