//! Windows of nanoseconds: one future polled, one mailbox fed, one handle cloned in a tight loop,
//! beside one other step in another thread; with `face`, `timing` and `turns`, the module that
//! names `turnwise`.
//!
//! A spin is a few parts, drawn from a seed. Its ledger is two counters and a flag for each actor:
//! a lock or a table between two steps would take longer than the window.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::hint::spin_loop;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cooked_waker::{IntoWaker, Wake, WakeRef};
use fastrand::Rng;
use turnwise::executor::DrainQueue;
use turnwise::{
    Actor, AsyncContext, AsyncHandler, Context as Turn, Handler, Limit, Overflow, PanicPolicy,
    Promise, ThreadPool, promise,
};

use crate::case::Genome;
use crate::face::POOL_THREAD;
use crate::ledger::{begin, calls, finding, happens};

/// The duration of one spin.
const ROUNDS: Duration = Duration::from_millis(120);
/// The maximum number of messages in the second actor's mailbox.
const MOST: usize = 16;

/// The step that the first thread repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loops {
    WaitTell,
    WaitCall,
    WaitRun,
    WaitAsk,
    WaitAskAsync,
    Call,
    Run,
    RunAbortable,
    AskAsync,
    Order,
    Idle,
    Feed,
    Post,
    Many,
    Handles,
    Timer,
    With,
}

/// The step beside it, and the step of a waker that is cloned, woken or dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    /// To the first actor.
    Send,
    Call,
    Run,
    Post,
    TryWith,
    /// To the second one, whose drains are in a queue.
    SendOther,
    RunOther,
    /// Runs that queue once.
    Queue,
    /// Wakes a turn that waits, twice.
    Wake,
    DropWaker,
    Keep,
    Abort,
    Handles,
    Look,
    /// Ends the first actor and replaces it.
    Stop,
    Close,
    LetGo,
}

/// The course of a turn of an actor that may wait.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    Through,
    /// It wakes itself.
    Yields,
    /// Its waker is put where the other thread finds it.
    Waits,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Runs {
    Senders,
    Pool,
    Queue,
}

/// The fate of a future that has been polled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Drop,
    Wait,
    Again,
}

/// A part that can be removed has a number: its place in this list.
#[derive(Clone)]
pub struct Spin {
    seed: Genome,
    loops: Loops,
    first: Goes,
    runs: Runs,
    room: Option<usize>,
    then: Then,
    /// The number of futures at a time.
    at_once: usize,
    other: Goes,
    cloned: Beside,
    woken: Beside,
    dropped: Beside,
    beside: Vec<Beside>,
}

impl fmt::Display for Spin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spin { seed, loops, first, runs, room, then, at_once, other, .. } = self;
        writeln!(
            f,
            "spin {seed}: one thread {loops:?} {at_once} times, then {then:?}; beside it {:?}",
            self.beside
        )?;
        writeln!(f, "  first actor: {runs:?}, room {room:?}, turns {first:?}; other: {other:?}")?;
        let (cloned, woken, dropped) = (self.cloned, self.woken, self.dropped);
        writeln!(f, "  waker: cloned {cloned:?}, woken {woken:?}, dropped {dropped:?}")
    }
}

/// Most of them are futures with more than one step.
const LOOPS: [Loops; 24] = [
    Loops::WaitTell,
    Loops::WaitCall,
    Loops::WaitRun,
    Loops::WaitRun,
    Loops::WaitRun,
    Loops::WaitRun,
    Loops::WaitAsk,
    Loops::WaitAskAsync,
    Loops::WaitAskAsync,
    Loops::WaitAskAsync,
    Loops::WaitAskAsync,
    Loops::Call,
    Loops::Run,
    Loops::Run,
    Loops::RunAbortable,
    Loops::AskAsync,
    Loops::Order,
    Loops::Idle,
    Loops::Feed,
    Loops::Post,
    Loops::Many,
    Loops::Handles,
    Loops::Timer,
    Loops::With,
];
const BESIDE: [Beside; 18] = [
    Beside::Nothing,
    Beside::Send,
    Beside::Send,
    Beside::Call,
    Beside::Run,
    Beside::Post,
    Beside::TryWith,
    Beside::SendOther,
    Beside::RunOther,
    Beside::Queue,
    Beside::Wake,
    Beside::DropWaker,
    Beside::Keep,
    Beside::Abort,
    Beside::Handles,
    Beside::Look,
    Beside::Stop,
    Beside::Close,
];
const BELLS: [Beside; 14] = [
    Beside::Nothing,
    Beside::Nothing,
    Beside::Nothing,
    Beside::Send,
    Beside::SendOther,
    Beside::RunOther,
    Beside::Queue,
    Beside::Queue,
    Beside::Queue,
    Beside::Queue,
    Beside::Wake,
    Beside::DropWaker,
    Beside::Keep,
    Beside::LetGo,
];

impl Spin {
    pub fn of(genome: &Genome) -> Self {
        let (seed, mut rng) = (genome.clone(), genome.part(0));
        let beside = |rng: &mut Rng| BESIDE[rng.usize(..BESIDE.len())];
        let goes = [Goes::Through, Goes::Yields, Goes::Yields, Goes::Waits];
        let bell = |rng: &mut Rng| BELLS[rng.usize(..BELLS.len())];
        if rng.u32(..3) == 0 {
            return Spin::of_room(seed, rng);
        }
        Spin {
            seed,
            loops: LOOPS[rng.usize(..LOOPS.len())],
            first: goes[rng.usize(..4)],
            runs: [Runs::Senders, Runs::Senders, Runs::Pool, Runs::Queue][rng.usize(..4)],
            room: [Some(1), Some(1), Some(2), None][rng.usize(..4)],
            then: [Then::Drop, Then::Wait, Then::Again, Then::Again][rng.usize(..4)],
            at_once: [1, 2, 3, 3][rng.usize(..4)],
            other: goes[rng.usize(..4)],
            cloned: if rng.u32(..4) == 0 { bell(&mut rng) } else { Beside::Nothing },
            woken: bell(&mut rng),
            dropped: bell(&mut rng),
            beside: (0..rng.usize(1..=3)).map(|_| beside(&mut rng)).collect(),
        }
    }

    /// A turn waits for room while a waiter is admitted, and the drop of its waker runs a turn of
    /// another actor.
    fn of_room(seed: Genome, mut rng: Rng) -> Self {
        let fills = [
            Beside::Nothing,
            Beside::Send,
            Beside::Call,
            Beside::Run,
            Beside::Post,
            Beside::TryWith,
        ];
        Spin {
            seed,
            loops: [Loops::WaitRun, Loops::WaitAskAsync][rng.usize(..2)],
            first: [Goes::Yields, Goes::Waits][rng.usize(..2)],
            runs: [Runs::Senders, Runs::Pool][rng.usize(..2)],
            room: Some(1),
            then: [Then::Drop, Then::Again][rng.usize(..2)],
            at_once: rng.usize(1..=3),
            other: Goes::Yields,
            cloned: Beside::Nothing,
            woken: Beside::Nothing,
            dropped: Beside::Queue,
            beside: (0..rng.usize(1..=2)).map(|_| fills[rng.usize(..fills.len())]).collect(),
        }
    }

    /// Returns the numbers of its parts that can be removed.
    pub fn parts(&self) -> Vec<u32> {
        (0..6 + self.beside.len() as u32).collect()
    }

    pub fn with_only(mut self, kept: &[u32]) -> Self {
        let gone = |part: u32| !kept.contains(&part);
        if gone(0) {
            self.room = None;
        }
        if gone(1) {
            self.at_once = 1;
        }
        if gone(2) {
            self.other = Goes::Through;
        }
        for (part, bell) in [(3, &mut self.cloned), (4, &mut self.woken), (5, &mut self.dropped)] {
            if gone(part) {
                *bell = Beside::Nothing;
            }
        }
        for (at, beside) in self.beside.iter_mut().enumerate() {
            if gone(6 + at as u32) {
                *beside = Beside::Nothing;
            }
        }
        self
    }
}

/// The numbers of messages to an actor.
#[derive(Default)]
struct Known {
    made: AtomicU64,
    gone: AtomicU64,
}

/// A state, which marks its drop.
struct State {
    /// True while a turn runs.
    is_busy: Arc<AtomicBool>,
    is_there: u64,
}

impl State {
    fn new() -> Self {
        State { is_busy: Arc::default(), is_there: THERE }
    }
}

const THERE: u64 = 0x7468_6572_655f_6973;

impl State {
    fn check(&self) {
        // Through memory, because a freed value may read as anything.
        if std::hint::black_box(self.is_there) != THERE {
            finding("a turn on a dropped state", "spin");
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.check();
        self.is_there = 0;
        if self.is_busy.load(SeqCst) {
            finding("a state was dropped in its turn", "spin");
        }
    }
}

/// A turn that is under way.
struct Under(Arc<AtomicBool>);

impl Under {
    fn way(state: &State) -> Self {
        state.check();
        if state.is_busy.swap(true, SeqCst) {
            finding("two turns at a time", "spin");
        }
        Under(state.is_busy.clone())
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        if !self.0.swap(false, SeqCst) {
            finding("a turn was over before its future", "spin");
        }
    }
}

/// A message.
struct Mail {
    known: Arc<Known>,
    goes: Goes,
    scene: Arc<Scene>,
    has_run: bool,
}

impl Drop for Mail {
    fn drop(&mut self) {
        self.known.gone.fetch_add(1, SeqCst);
    }
}

impl Mail {
    fn run(mut self, state: &mut State) {
        let _under = Under::way(state);
        if std::mem::replace(&mut self.has_run, true) {
            finding("a message ran twice", "spin");
        }
        self.scene.spins.fetch_add(1, SeqCst);
    }

    async fn stays(mut self, state: &mut State) {
        let under = Under::way(state);
        if std::mem::replace(&mut self.has_run, true) {
            finding("a message ran twice", "spin");
        }
        self.scene.spins.fetch_add(1, SeqCst);
        let mut polls = 0;
        if self.goes == Goes::Through {
            return;
        }
        poll_fn(|cx| {
            polls += 1;
            if !under.0.load(SeqCst) {
                finding("a turn is polled that is over", "spin");
            }
            if polls > 1 {
                return Poll::Ready(());
            }
            match self.goes {
                Goes::Waits => {
                    let before = self.scene.waker.lock().unwrap().replace(cx.waker().clone());
                    // It was not woken yet, and waits for this.
                    before.into_iter().for_each(Waker::wake);
                }
                _ => cx.waker().wake_by_ref(),
            }
            Poll::Pending
        })
        .await;
        state.check();
    }
}

impl Handler<Mail> for State {
    type Reply = ();
    fn handle(&mut self, mail: Mail, _: &mut Turn<'_, Self>) {
        mail.run(self);
    }
}

impl AsyncHandler<Mail> for State {
    type Reply = ();
    async fn handle(&mut self, mail: Mail, _: &mut AsyncContext<Self>) {
        mail.stays(self).await;
    }
}

/// The state that both threads share.
struct Scene {
    spin: Spin,
    first: Mutex<Option<Actor<State>>>,
    other: Actor<State>,
    knows: [Arc<Known>; 2],
    queue: DrainQueue,
    pool: Option<ThreadPool>,
    waker: Mutex<Option<Waker>>,
    gift: Mutex<Option<Promise<()>>>,
    abort: Mutex<Option<turnwise::AbortHandle>>,
    over: AtomicBool,
    /// The number of turns.
    spins: AtomicU64,
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static RNG: RefCell<Rng> = const { RefCell::new(Rng::with_seed(7)) };
}

impl Scene {
    fn first(&self) -> Actor<State> {
        // When a spin ends, a waker may arrive after the last one is gone.
        self.first.lock().unwrap().get_or_insert_with(|| self.make()).clone()
    }

    fn make(&self) -> Actor<State> {
        let builder = Actor::builder();
        let builder = builder.panic_policy(PanicPolicy::Resume);
        let builder = match self.spin.room {
            Some(room) => builder.capacity(room, Overflow::Reject),
            None => builder,
        };
        let builder = match (self.spin.runs, &self.pool) {
            (Runs::Pool, Some(pool)) => builder.executor(pool.handle()),
            (Runs::Queue, _) => builder.executor(self.queue.handle()),
            _ => builder,
        };
        builder.spawn(State::new()).expect("it is described well")
    }

    fn mail(self: &Arc<Self>, to: usize) -> Mail {
        let (known, scene) = (self.knows[to].clone(), self.clone());
        known.made.fetch_add(1, SeqCst);
        let goes = if to == 0 { self.spin.first } else { self.spin.other };
        Mail { known, goes, scene, has_run: false }
    }

    fn step(self: &Arc<Self>, what: Beside) {
        if what == Beside::Nothing || DEPTH.get() > 3 {
            return;
        }
        DEPTH.set(DEPTH.get() + 1);
        self.beside(what);
        DEPTH.set(DEPTH.get() - 1);
    }

    fn beside(self: &Arc<Self>, what: Beside) {
        let taken = |slot: &Mutex<Option<Waker>>| slot.lock().unwrap().take();
        let short = Limit::Within(Duration::from_millis(1));
        match what {
            Beside::Nothing => {}
            Beside::Send => {
                let mail = self.mail(0);
                let _ = self.first().send(move |state| mail.run(state));
            }
            Beside::Post => drop(self.first().posted().tell(self.mail(0))),
            Beside::TryWith => {
                let mail = self.mail(0);
                let _ = self.first().try_with(|state| mail.run(state));
            }
            Beside::Call => {
                let mail = self.mail(0);
                let _ = self.first().call(move |state| mail.run(state)).wait_timeout(short);
            }
            Beside::Run => {
                let mail = self.mail(0);
                drop(self.first().run(async move |state: &mut State| mail.stays(state).await));
            }
            Beside::SendOther if self.other.len() < MOST => {
                let mail = self.mail(1);
                let _ = self.other.send(move |state| mail.run(state));
            }
            Beside::RunOther if self.other.len() < MOST => {
                let mail = self.mail(1);
                drop(self.other.run(async move |state: &mut State| mail.stays(state).await));
            }
            Beside::SendOther | Beside::RunOther => {}
            Beside::Queue => drop(self.queue.run_one()),
            Beside::Wake => {
                let waker = self.waker.lock().unwrap().clone();
                waker.iter().for_each(Waker::wake_by_ref);
                taken(&self.waker).into_iter().for_each(Waker::wake);
            }
            Beside::DropWaker => drop(taken(&self.waker)),
            Beside::Keep => {
                let gift = self.gift.lock().unwrap().take();
                gift.into_iter().for_each(|gift| gift.keep(()));
            }
            Beside::Abort => {
                let abort = self.abort.lock().unwrap().take();
                abort.into_iter().for_each(|abort| abort.abort());
            }
            Beside::Handles => {
                let actor = self.first();
                let weak = actor.downgrade();
                drop(actor);
                drop((weak.upgrade(), weak.clone()));
            }
            Beside::Look => {
                let actor = self.first();
                let _ = (actor.len(), actor.is_idle(), actor.is_closed(), format!("{actor:?}"));
            }
            Beside::Stop | Beside::Close | Beside::LetGo => {
                let new = self.make();
                let before = self.first.lock().unwrap().replace(new);
                match (what, &before) {
                    (Beside::Stop, Some(before)) => drop(before.stop()),
                    (Beside::Close, Some(before)) => drop(before.close()),
                    _ => {}
                }
            }
        }
    }

    /// Makes a future of the first thread, if it does not do everything at once.
    fn begins(self: &Arc<Self>) -> Option<Underway> {
        fn boxed(future: impl Future + 'static) -> Option<Underway> {
            Some(Box::pin(async { drop(future.await) }))
        }
        let (actor, mail) = (self.first(), self.mail(0));
        let stays = |mail: Mail| async move |state: &mut State| mail.stays(state).await;
        match self.spin.loops {
            Loops::WaitTell => boxed(actor.waiting().tell(mail)),
            Loops::WaitCall => boxed(actor.waiting().call(move |state| mail.run(state))),
            Loops::WaitRun => boxed(actor.waiting().run(stays(mail))),
            Loops::WaitAsk => boxed(actor.waiting().ask(mail)),
            Loops::WaitAskAsync => boxed(actor.waiting().ask_async(mail)),
            Loops::Call => boxed(actor.call(move |state| mail.run(state))),
            Loops::Run => boxed(actor.run(stays(mail))),
            Loops::RunAbortable => {
                let (reply, abort) = actor.run_abortable(stays(mail));
                drop(self.abort.lock().unwrap().replace(abort));
                boxed(reply)
            }
            Loops::AskAsync => boxed(actor.ask_async(mail)),
            Loops::Order => {
                let (gift, comes) = promise();
                drop(self.gift.lock().unwrap().replace(gift));
                boxed(comes)
            }
            Loops::Idle => boxed(actor.idle()),
            _ => {
                self.does(&actor, mail);
                None
            }
        }
    }

    fn does(self: &Arc<Self>, actor: &Actor<State>, mail: Mail) {
        match self.spin.loops {
            Loops::Feed => drop(actor.send(move |state| mail.run(state))),
            Loops::Post => drop(actor.posted().send(move |state| mail.run(state))),
            Loops::Many => {
                let mails = [mail, self.mail(0), self.mail(0)];
                let mails = mails.map(|mail| move |state: &mut State| mail.run(state));
                let _ = actor.send_many(mails);
            }
            Loops::Timer => {
                let _ = actor.posted().tell_after(Duration::from_micros(1), mail).cancel();
            }
            Loops::With => drop(actor.try_with(|state| mail.run(state))),
            _ => (0..8).for_each(|_| drop(actor.clone())),
        }
    }

    fn once(self: &Arc<Self>) {
        let waker = || Box::new(Bell(self.clone())).into_waker();
        let begun = (0..self.spin.at_once).filter_map(|_| Some((self.begins()?, waker())));
        let mut begun: Vec<_> = begun.collect();
        let start = Instant::now();
        let mut polls = 0;
        loop {
            begun.retain_mut(|(future, waker)| {
                future.as_mut().poll(&mut Context::from_waker(waker)).is_pending()
            });
            polls += 1;
            let is_over = match self.spin.then {
                Then::Drop => true,
                Then::Again => polls > 4,
                Then::Wait => start.elapsed() > Duration::from_micros(50),
            };
            if begun.is_empty() || is_over {
                return;
            }
            pause();
        }
    }
}

type Underway = Pin<Box<dyn Future<Output = ()>>>;

/// Runs some instructions, or none.
fn pause() {
    let times = RNG.with_borrow_mut(|rng| rng.u32(..64));
    (0..times).for_each(|_| spin_loop());
}

/// A waker whose every call is a step.
struct Bell(Arc<Scene>);

impl Clone for Bell {
    fn clone(&self) -> Self {
        self.0.step(self.0.spin.cloned);
        Bell(self.0.clone())
    }
}

impl WakeRef for Bell {
    fn wake_by_ref(&self) {
        self.0.step(self.0.spin.woken);
    }
}

impl Wake for Bell {}

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.step(self.0.spin.dropped);
    }
}

/// Runs a spin. Returns false if a part of it is left.
pub fn run(spin: Spin, stack: usize, patience: Duration) -> bool {
    begin();
    let knows: [Arc<Known>; 2] = Default::default();
    let queue = DrainQueue::new();
    let pool = || ThreadPool::builder().threads(1).thread_name(POOL_THREAD).stack_size(stack);
    let other = Actor::builder()
        .executor(queue.handle())
        .budget(1)
        .spawn(State::new())
        .expect("it is well");
    let scene = Arc::new(Scene {
        pool: (spin.runs == Runs::Pool).then(|| pool().build().expect("a pool can be had")),
        spin,
        first: Mutex::default(),
        other,
        knows,
        queue,
        waker: Mutex::default(),
        gift: Mutex::default(),
        abort: Mutex::default(),
        over: AtomicBool::new(false),
        spins: AtomicU64::new(0),
    });
    let first = scene.make();
    *scene.first.lock().unwrap() = Some(first);
    let start = Instant::now();
    let rounds = AtomicU64::new(0);
    thread::scope(|scope| {
        let beside = || {
            while !scene.over.load(SeqCst) {
                for step in &scene.spin.beside {
                    scene.step(*step);
                    pause();
                }
                if [scene.spin.first, scene.spin.other].contains(&Goes::Waits) {
                    scene.step(Beside::Wake);
                }
            }
        };
        let name = |stack| thread::Builder::new().name("ht".into()).stack_size(stack);
        let _ = name(stack).spawn_scoped(scope, beside).expect("a thread can be had");
        let turns = || {
            while start.elapsed() < ROUNDS {
                for _ in 0..20 {
                    // It is never empty for long: its turns run wherever a queue is run.
                    (0..2).for_each(|_| scene.step(Beside::RunOther));
                    if scene.first().len() < 64 {
                        scene.once();
                    }
                    pause();
                    rounds.fetch_add(1, SeqCst);
                }
                happens();
            }
            scene.over.store(true, SeqCst);
        };
        let _ = name(stack).spawn_scoped(scope, turns).expect("a thread can be had");
    });
    calls(rounds.load(SeqCst) + scene.spins.load(SeqCst));
    is_over(&scene, patience)
}

/// Drops everything. Returns true if every message is gone, and no turn is under way.
fn is_over(scene: &Arc<Scene>, patience: Duration) -> bool {
    let first = scene.first.lock().unwrap().take();
    if let Some(first) = &first {
        first.stop();
    }
    drop(first);
    scene.other.stop();
    drop(scene.gift.lock().unwrap().take());
    drop(scene.abort.lock().unwrap().take());
    let is_gone = |known: &Arc<Known>| known.made.load(SeqCst) == known.gone.load(SeqCst);
    let start = Instant::now();
    while !scene.knows.iter().all(is_gone) {
        scene.queue.run_until_idle();
        scene.step(Beside::Wake);
        let again = scene.first.lock().unwrap().take();
        drop(again);
        if start.elapsed() > patience {
            let left = scene.knows.iter().map(|known| {
                let (made, gone) = (known.made.load(SeqCst), known.gone.load(SeqCst));
                format!("{made} made, {gone} gone")
            });
            finding("never dropped", &left.collect::<Vec<_>>().join("; "));
            return false;
        }
        thread::sleep(Duration::from_micros(100));
    }
    true
}
