//! A run of clients: their time, their network, and their store, all from one seed.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use turnwise::time::Clock;
use turnwise_redis::step::{
    AdmissionAnswer, Answer, MailboxAct, MailboxAnswer, MailboxStep, Notice, Op, Progress, Step,
    Then,
};
use turnwise_redis::{Called, Effect, MemoryStore, NoticeSink, Store, StoreError};

use crate::books::Books;
use crate::support::Dice;

/// The time after which a connection gives up an answer.
const ANSWER: Duration = Duration::from_millis(60);

/// The sum of a run's steps of the store's clock to later times: less than requests that were given
/// up are remembered.
const STEPS: u64 = 300_000;

/// A rule that every run keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No two live holds of one lock, or of one slot, exist at a time.
    OneHolder,
    /// A later hold of an object has a greater fence.
    FencesRise,
    /// An admission has one applicant in each place, and no more than places; a refusal is final.
    NotOversold,
    /// A stored state has seen each acknowledged message once, and a withdrawn one never.
    Once,
    /// Messages of one sender are in the state in their order.
    InOrder,
    /// The reply to a message is that of its own turn.
    OwnReply,
    /// With one attempt, a message begins once at most.
    BegunOnce,
    /// Each message was handled, returned to its sender, or dropped with a dead letter.
    AllCounted,
    /// A tick is run once at most.
    OncePerTick,
    /// A tick is that of the store's clock.
    TickOfItsTime,
    /// A mailbox that was handed over is drained by some host.
    HandedOn,
    /// Each call has an answer or an error of its own in time.
    Answered,
}

/// A fault that is made on purpose: by the network, as a store with that defect would answer, or by
/// a user, who believes in a hold longer than a guard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A lock is granted without a look at its holder.
    HolderNotCompared,
    /// A grant has a fence of long ago.
    OldFence,
    /// A slot is granted without a look at its place.
    PlaceNotCompared,
    /// An admission that is full admits.
    LimitNotCompared,
    /// A message that arrives again gets another id.
    IdNotCompared,
    /// The progress of a drainer counts although another one has the mailbox.
    DrainerNotCompared,
    /// A message is acknowledged and not stored.
    PushLost,
    /// A message is acknowledged, and stored a while later.
    PushLate,
    /// Messages are handed out in the reverse order.
    Reversed,
    /// A message that runs is reported as withdrawn.
    WithdrawnWhileRunning,
    /// A message whose only attempt began is handed out once more.
    HandedAgain,
    /// A dead letter is discarded as soon as it is written.
    DeadLetterLost,
    /// A mailbox that was handed over is left to its successor, whatever becomes of that.
    HandedOnForGood,
    /// The state is not stored before a successor is asked.
    HandedOnUnstored,
    /// Leases never end.
    LeasesStay,
    /// A fence is the time of the store's clock, whatever was before.
    FenceByClock,
    /// A store whose clock has gone back hands its ticks out again.
    TickByClock,
    /// A client computes the tick from its own wall clock.
    TickByClient,
    /// A user does not ask whether the lease is over.
    LeaseNotCompared,
    /// A user computes the end of the lease by the wall clock.
    LeaseByWallClock,
}

/// The first rule that was broken, and how.
#[derive(Debug)]
pub struct Wrong {
    pub rule: Rule,
    #[allow(dead_code, reason = "it is printed")]
    pub why: String,
}

pub struct Sim {
    dice: Mutex<Dice>,
    pub store: MemoryStore,
    /// The rate of faults: 0 to 3.
    faults: u64,
    calm: AtomicBool,
    pub planted: Option<Planted>,
    books: Mutex<Books>,
    /// Events, in order. `None`: nothing is recorded.
    trace: Mutex<Option<Vec<String>>>,
    wrong: Mutex<Option<Wrong>>,
    /// Notified when a rule is broken.
    pub broken: Notify,
    began: Instant,
    /// Until when the store is unreachable, in milliseconds of this run.
    outage: AtomicU64,
    /// True if clocks step in this run.
    steps_clocks: bool,
    /// The milliseconds that the store's clock is ahead.
    ahead: Arc<AtomicI64>,
    /// The sum of its steps to later times.
    stepped: AtomicU64,
    /// The greatest fence of an answer.
    fence: AtomicU64,
    /// The end of the last pause, in milliseconds of this run.
    paused: AtomicU64,
    /// The number of steps that the store has executed.
    pub steps: AtomicU64,
    /// The number of hosts that were started to go on with an actor.
    pub hosts: AtomicU64,
}

impl Sim {
    /// A run in the current runtime, whose time is paused.
    pub fn new(seed: u64, planted: Option<Planted>, traced: bool) -> Arc<Sim> {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9).wrapping_add(1));
        let faults = dice.roll(4);
        let began = Instant::now();
        let (steps_clocks, ahead) = (dice.roll(3) == 0, Arc::<AtomicI64>::default());
        let stops = planted == Some(Planted::LeasesStay);
        let clock = Time { began, ahead: ahead.clone(), stops };
        Arc::new(Sim {
            dice: Mutex::new(dice),
            store: MemoryStore::by(clock),
            faults,
            calm: AtomicBool::new(false),
            planted,
            books: Mutex::default(),
            trace: Mutex::new(traced.then(Vec::new)),
            wrong: Mutex::default(),
            broken: Notify::new(),
            began,
            outage: AtomicU64::new(0),
            steps_clocks,
            ahead,
            stepped: AtomicU64::new(0),
            fence: AtomicU64::new(0),
            paused: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            hosts: AtomicU64::new(0),
        })
    }

    pub fn roll(&self, sides: u64) -> u64 {
        self.dice.lock().unwrap().roll(sides)
    }

    /// True once in this many times.
    pub fn once_in(&self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// A time from 0 to this many milliseconds.
    pub fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.roll(most + 1))
    }

    /// True if something goes wrong now that goes wrong once in this many times, or more often.
    pub fn is_unlucky(&self, times: u64) -> bool {
        let rolled = self.roll(times);
        !self.is_calm() && rolled < self.faults
    }

    pub fn is_calm(&self) -> bool {
        self.calm.load(Relaxed)
    }

    /// From now on nothing goes wrong but what is on its way.
    pub fn calms_down(&self) {
        self.calm.store(true, Relaxed);
        self.outage.store(0, Relaxed);
    }

    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    /// Records an event, if this run is traced.
    pub fn note(&self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut *self.trace.lock().unwrap() {
            trace.push(format!("{:>8} {}", self.began.elapsed().as_micros(), what()));
        }
    }

    /// The events so far.
    pub fn trace(&self) -> Vec<String> {
        self.trace.lock().unwrap().take().unwrap_or_default()
    }

    /// The first rule that was broken.
    pub fn wrong(&self) -> Option<Wrong> {
        self.wrong.lock().unwrap().take()
    }

    pub fn breaks(&self, rule: Rule, why: impl FnOnce() -> String) {
        let why = why();
        self.note(|| format!("BROKEN {rule:?}: {why}"));
        let mut wrong = self.wrong.lock().unwrap();
        if wrong.is_none() {
            *wrong = Some(Wrong { rule, why });
            self.broken.notify_one();
        }
    }

    pub fn check(&self, rule: Rule, so: bool, why: impl FnOnce() -> String) {
        if !so {
            self.breaks(rule, why);
        }
    }

    /// Awaits a call that has to end within this time, counted from the end of the last pause.
    pub async fn within<R>(&self, what: &str, limit: Duration, call: impl Future<Output = R>) -> R {
        self.within_by(Rule::Answered, what, limit, call).await
    }

    /// Awaits a call that has to end within this time by a rule.
    pub async fn within_by<R>(
        &self,
        rule: Rule,
        what: &str,
        limit: Duration,
        call: impl Future<Output = R>,
    ) -> R {
        let (mut call, began) = (pin!(call), self.now());
        loop {
            let from = began.max(self.paused.load(Relaxed));
            let until = self.began + Duration::from_millis(from) + limit;
            if let Ok(answer) = timeout_at(until, call.as_mut()).await {
                return answer;
            }
            if from >= self.paused.load(Relaxed) {
                break;
            }
        }
        self.breaks(rule, || format!("{what} has no answer after {limit:?}"));
        std::future::pending().await
    }

    /// The time of the store's clock, in microseconds.
    fn store_now(&self) -> u64 {
        let time = Time { began: self.began, ahead: self.ahead.clone(), stops: false };
        u64::try_from(time.now().as_micros()).unwrap()
    }

    /// Moves the store's clock. Leases end early if it steps forward, so holds from before may have
    /// others beside them.
    fn steps_clock(&self) {
        let most = STEPS - self.stepped.load(Relaxed);
        let step = match self.roll(4) {
            0 => self.roll(most / 2 + 1),
            1 => self.roll(300.min(most) + 1),
            _ => 0,
        };
        self.stepped.fetch_add(step, Relaxed);
        if step > 0 {
            // A grant from the queue has its fence before an answer says so.
            let newest = self.store_now().max(self.fence.load(Relaxed) + 1000);
            self.books().shake(newest);
        }
        let by = if step > 0 { i64::try_from(step).unwrap() } else { -self.signed(1000).abs() };
        self.ahead.fetch_add(by, Relaxed);
        self.note(|| format!("the store's clock steps by {by} ms"));
    }

    /// A number of up to this size, or its negative.
    fn signed(&self, most: u64) -> i64 {
        let number = i64::try_from(self.roll(most) + 1).unwrap();
        if self.once_in(2) { number } else { -number }
    }

    /// Executes a step as the planted fault has it.
    async fn execute(&self, op: &Op, again: bool) -> Answer {
        let mut op = op.clone();
        self.mistake(&mut op, again);
        let mut answer = match self.acknowledges_early(&op) {
            Some(answer) => answer,
            None => self.step(&op).await,
        };
        self.misreport(&op, &mut answer).await;
        if let Answer::Granted { fence, .. } | Answer::Mine { fence, .. } = answer {
            self.fence.fetch_max(fence, Relaxed);
        }
        if let (Answer::Mine { tick, .. }, Step::Attend { every, .. }) = (&answer, &op.step) {
            self.books().taken(self, *tick, self.store_now(), *every);
        }
        self.steps.fetch_add(1, Relaxed);
        self.note(|| format!("{op:?} -> {answer:?}"));
        self.books().look(self);
        answer
    }

    /// Acknowledges a message that is stored later, or never.
    fn acknowledges_early(&self, op: &Op) -> Option<Answer> {
        let never = match self.planted? {
            Planted::PushLost => true,
            Planted::PushLate => false,
            _ => return None,
        };
        let mut late = op.clone();
        let Step::Mailbox(MailboxStep { act: MailboxAct::Push { claim, .. }, .. }) = &mut late.step
        else {
            return None;
        };
        if !self.once_in(4) {
            return None;
        }
        *claim = None;
        let store = self.store.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(60)).await;
            if !never {
                let _ = store.call(&late).await;
            }
        });
        Some(Answer::Mailbox(MailboxAnswer::Pushed { ahead: 1, busy: ANSWER }))
    }

    async fn step(&self, op: &Op) -> Answer {
        self.store.call(op).await.expect("memory answers")
    }

    /// Changes a step.
    fn mistake(&self, op: &mut Op, again: bool) {
        match (self.planted, &mut op.step) {
            (Some(Planted::HolderNotCompared), Step::Acquire { .. })
                if op.places == 1 && self.once_in(8) =>
            {
                self.store.forget_key(&op.key);
            }
            (
                Some(Planted::IdNotCompared),
                Step::Mailbox(MailboxStep { act: MailboxAct::Push { message, .. }, .. }),
            ) if again => message.id.push_str(".again"),
            (
                Some(planted),
                Step::Mailbox(MailboxStep { act: MailboxAct::Advance(advance), .. }),
            ) => match (planted, &mut advance.then) {
                (Planted::HandedOnForGood, Then::LetGo { after }) if !after.is_zero() => {
                    *after *= 1_000_000;
                }
                (Planted::HandedOnUnstored, Then::Next { most: 0, .. }) => {
                    advance.state = None;
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Changes an answer.
    async fn misreport(&self, op: &Op, answer: &mut Answer) {
        let Some(planted) = self.planted else { return };
        match (planted, answer) {
            (Planted::OldFence, Answer::Granted { fence, .. }) if self.once_in(8) => {
                *fence -= 3_000_000;
            }
            (Planted::PlaceNotCompared, Answer::Granted { place, .. }) if op.places > 1 => {
                *place = 1;
            }
            (Planted::FenceByClock, Answer::Granted { fence, .. }) => {
                *fence = (*fence).min(self.store_now());
            }
            (Planted::TickByClock, answer @ Answer::Taken { .. }) => {
                let Step::Attend { every, .. } = op.step else { return };
                if self.books().is_behind(self.store_now(), every) {
                    self.store.forget_key(&op.key);
                    *answer = self.step(op).await;
                }
            }
            (Planted::LimitNotCompared, Answer::Admission(answer)) => {
                let fence = self.now();
                if matches!(answer, AdmissionAnswer::Closed { .. }) {
                    *answer = AdmissionAnswer::Admitted { place: 1, fence };
                }
            }
            (Planted::Reversed, Answer::Mailbox(MailboxAnswer::Handed(hand))) => {
                hand.messages.reverse();
            }
            (
                Planted::WithdrawnWhileRunning,
                Answer::Mailbox(MailboxAnswer::Progress(progress @ Progress::Running { .. })),
            ) if op.step.name() == "withdraw" => *progress = Progress::Withdrawn,
            (Planted::DrainerNotCompared, answer) if is_lost(answer) => {
                // Whatever hold it is, and whatever its number.
                let mut op = op.clone();
                let Step::Mailbox(MailboxStep { act: MailboxAct::Advance(advance), shards }) =
                    &mut op.step
                else {
                    return;
                };
                let act = MailboxAct::Look { actor: advance.actor.clone() };
                let look = Step::Mailbox(MailboxStep { act, shards: *shards });
                let look = Op { step: look, ..op.clone() };
                let Answer::Mailbox(MailboxAnswer::Seen(seen)) = self.step(&look).await else {
                    return;
                };
                for number in 1..9 {
                    let mut op = op.clone();
                    if let Step::Mailbox(MailboxStep {
                        act: MailboxAct::Advance(advance), ..
                    }) = &mut op.step
                    {
                        (advance.fence, advance.number) = (seen.fence, number);
                    }
                    *answer = self.step(&op).await;
                    if !is_lost(answer) {
                        return;
                    }
                }
            }
            (Planted::HandedAgain, Answer::Mailbox(MailboxAnswer::Handed(hand))) => {
                if let Some(message) = hand.messages.first().filter(|_| self.once_in(4)).cloned() {
                    hand.messages.push(message);
                }
            }
            (Planted::DeadLetterLost, _) => {
                let Step::Mailbox(MailboxStep { act: MailboxAct::Advance(advance), shards }) =
                    &op.step
                else {
                    return;
                };
                if advance.failed.as_ref().is_some_and(|failed| failed.again.is_none()) {
                    let act = MailboxAct::DeadLetters { from: 0, most: 1 };
                    let list = Op {
                        step: Step::Mailbox(MailboxStep { act, shards: *shards }),
                        ..op.clone()
                    };
                    let answer = self.step(&list).await;
                    let Answer::Mailbox(MailboxAnswer::Dead { dead, .. }) = answer else { return };
                    let Some(dead) = dead.into_iter().next() else { return };
                    let act = MailboxAct::Discard { actor: dead.actor, message: dead.message.id };
                    let discard = Op {
                        step: Step::Mailbox(MailboxStep { act, shards: *shards }),
                        ..op.clone()
                    };
                    self.step(&discard).await;
                }
            }
            _ => {}
        }
    }
}

fn is_lost(answer: &Answer) -> bool {
    matches!(answer, Answer::Mailbox(MailboxAnswer::Lost))
}

/// The store's clock: that of the run.
struct Time {
    began: Instant,
    ahead: Arc<AtomicI64>,
    stops: bool,
}

impl Clock for Time {
    fn now(&self) -> Duration {
        let day = Duration::from_secs(24 * 3600);
        let passed = self.began.elapsed();
        let now = day + if self.stops { passed / 10_000 } else { passed };
        let ahead = self.ahead.load(Relaxed);
        let by = Duration::from_millis(ahead.unsigned_abs());
        if ahead < 0 { now - by } else { now + by }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time of a run")
    }
}

/// A client's death. Its waiters are woken in their order.
#[derive(Default)]
struct Death {
    is_over: AtomicBool,
    comes: Notify,
}

/// The pauses of a client: nothing of it runs, or nothing of its own thread, as if that was
/// stopped.
#[derive(Default)]
struct Pauses {
    all: bool,
    thread: bool,
    /// Its tasks that wait for the end, in order.
    waiting: Vec<Waker>,
}

/// The connection of one client, which dies with it.
#[derive(Clone)]
pub struct Net {
    /// The run keeps its connections: as listeners of its store, and in its books.
    sim: Weak<Sim>,
    client: Arc<str>,
    dead: Arc<Death>,
    /// The number of events until the client dies. 0: it does not.
    fuse: Arc<AtomicU32>,
    pauses: Arc<Mutex<Pauses>>,
    /// The milliseconds that its wall clock is ahead. Only planted faults read it.
    wall: Arc<AtomicI64>,
}

impl Net {
    pub fn new(sim: &Arc<Sim>, client: &str) -> Net {
        let dies = sim.is_unlucky(4);
        let fuse = if dies { 5 + sim.roll(120) } else { 0 };
        let fuse = Arc::new(AtomicU32::new(u32::try_from(fuse).unwrap()));
        let (sim, client) = (Arc::downgrade(sim), client.into());
        let (dead, pauses, wall) = (Arc::default(), Arc::default(), Arc::default());
        Net { sim, client, dead, fuse, pauses, wall }
    }

    fn sim(&self) -> Arc<Sim> {
        self.sim.upgrade().expect("tasks of a run are polled while it lasts")
    }

    /// Ready while the client, or its own thread, is not paused.
    pub fn gate(&self, thread: bool, cx: &mut Context<'_>) -> Poll<()> {
        let mut pauses = self.pauses.lock().unwrap();
        if self.is_dead() || !(pauses.all || thread && pauses.thread) {
            return Poll::Ready(());
        }
        pauses.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    /// Runs a task of a user while the client is not paused.
    pub async fn runs<R>(self, task: impl Future<Output = R>) -> R {
        let mut task = pin!(task);
        poll_fn(|cx| {
            ready!(self.gate(false, cx));
            task.as_mut().poll(cx)
        })
        .await
    }

    /// Pauses the client, or its thread, for a time that may be longer than its lease.
    fn pauses(&self) {
        let sim = self.sim();
        let (thread, short) = (sim.once_in(3), sim.once_in(3));
        let time = sim.millis(if short { 40 } else { 600 });
        {
            let mut pauses = self.pauses.lock().unwrap();
            if pauses.all || pauses.thread {
                return;
            }
            (pauses.all, pauses.thread) = (!thread, thread);
        }
        sim.paused.fetch_max(sim.now() + u64::try_from(time.as_millis()).unwrap(), Relaxed);
        let what = if thread { "'s thread" } else { "" };
        sim.note(|| format!("{}{what} pauses for {time:?}", self.client));
        let net = self.clone();
        tokio::spawn(async move {
            sleep(time).await;
            net.sim().note(|| format!("{}{what} goes on", net.client));
            net.goes_on();
        });
    }

    /// Ends a pause.
    fn goes_on(&self) {
        let Pauses { waiting, .. } = std::mem::take(&mut *self.pauses.lock().unwrap());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The time of its wall clock, in milliseconds.
    pub fn wall(&self) -> i64 {
        let hour = 3_600_000;
        hour + i64::try_from(self.sim().now()).unwrap() + self.wall.load(Relaxed)
    }

    pub fn client(&self) -> &str {
        &self.client
    }

    pub fn is_dead(&self) -> bool {
        self.dead.is_over.load(Relaxed)
    }

    /// Completes when the client dies.
    pub async fn death(&self) {
        let comes = self.dead.comes.notified();
        if !self.is_dead() {
            comes.await;
        }
    }

    /// Ends the client.
    pub fn dies(&self) {
        self.sim().note(|| format!("{} dies", self.client));
        self.dead.is_over.store(true, Relaxed);
        self.dead.comes.notify_waiters();
        self.goes_on();
    }

    /// Counts an event of its protocol, each of which may be its last.
    fn event(&self) {
        let sim = self.sim();
        if self.fuse.load(Relaxed) > 0 && !sim.is_calm() {
            let left = self.fuse.fetch_sub(1, Relaxed) - 1;
            if left == 0 {
                self.dies();
            }
        }
        if sim.is_unlucky(600) {
            self.pauses();
        }
        if sim.steps_clocks {
            if sim.is_unlucky(60) {
                self.wall.fetch_add(sim.signed(1000), Relaxed);
            }
            if sim.is_unlucky(600) {
                sim.steps_clock();
            }
        }
    }

    fn latency(&self) -> Duration {
        let sim = self.sim();
        if sim.is_unlucky(100) { sim.millis(300) } else { sim.millis(3) }
    }

    /// Carries a step to the store, and its answer back.
    async fn carry(self, op: Op, reply: oneshot::Sender<Result<Answer, StoreError>>) {
        let sim = self.sim();
        let unreachable =
            || StoreError::Unreachable { since: Duration::ZERO, why: "lost".to_owned() };
        if sim.is_unlucky(1000) {
            let until = sim.now() + sim.roll(700);
            sim.note(|| format!("the store is unreachable until {until}"));
            sim.outage.store(until, Relaxed);
        }
        sleep(self.latency()).await;
        let lost = sim.is_unlucky(30) || sim.now() < sim.outage.load(Relaxed);
        self.event();
        if lost {
            sim.note(|| format!("{} loses {}", self.client, op.step.name()));
            if sim.once_in(2) {
                // It arrives all the same, much later. The client asks again meanwhile.
                let (sim, later) = (sim.clone(), sim.millis(1500));
                tokio::spawn(async move {
                    sleep(later).await;
                    sim.execute(&op, true).await;
                });
            }
            // Some losses are seen at once, others not.
            if sim.once_in(2) {
                let _ = reply.send(Err(unreachable()));
            } else {
                reply_never(reply).await;
            }
            return;
        }
        if sim.is_unlucky(40) {
            // It arrives twice.
            sim.execute(&op, false).await;
        }
        let answer = sim.execute(&op, false).await;
        self.event();
        if sim.is_unlucky(40) {
            sim.note(|| format!("{} loses the answer to {}", self.client, op.step.name()));
            return reply_never(reply).await;
        }
        sleep(self.latency()).await;
        let _ = reply.send(Ok(answer));
    }
}

/// Keeps a connection open without an answer.
async fn reply_never(reply: oneshot::Sender<Result<Answer, StoreError>>) {
    sleep(ANSWER * 2).await;
    drop(reply);
}

impl Store for Net {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            // A dead client's tasks end at once.
            let dead = || StoreError::WrongStore { needs: "a client that lives".to_owned() };
            self.event();
            poll_fn(|cx| self.gate(false, cx)).await;
            if self.is_dead() {
                return Err(dead());
            }
            let (reply, mut answer) = oneshot::channel();
            let mut op = op.clone();
            if let (Some(Planted::TickByClient), Step::Attend { offset, .. }) =
                (self.sim().planted, &mut op.step)
            {
                let behind = self.wall.load(Relaxed).min(0).unsigned_abs();
                *offset += Duration::from_millis(behind);
            }
            tokio::spawn(self.clone().carry(op, reply));
            let answer = tokio::select! {
                biased;
                () = self.death() => return Err(dead()),
                answer = timeout(ANSWER, &mut answer) => answer,
            };
            self.event();
            // A pause in the middle of an answer.
            poll_fn(|cx| self.gate(false, cx)).await;
            match answer {
                _ if self.is_dead() => Err(dead()),
                Ok(Ok(answer)) => answer,
                _ => Err(StoreError::TimedOut { effect: Effect::Unknown }),
            }
        })
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        let net = self.clone();
        let tell = move |notice: Notice| {
            let (net, sink, sim) = (net.clone(), sink.clone(), net.sim());
            let (lost, twice, all) = (sim.is_unlucky(12), sim.is_unlucky(12), sim.is_unlucky(40));
            let later = net.latency();
            tokio::spawn(async move {
                sleep(later).await;
                // They come to its own thread.
                poll_fn(|cx| net.gate(true, cx)).await;
                if lost || net.is_dead() {
                    return;
                }
                sim.note(|| format!("{} gets {notice:?}", net.client));
                if twice {
                    sink(notice.clone());
                }
                sink(if all { Notice::LookAgain } else { notice });
            });
        };
        self.sim().store.listen(client, Arc::new(tell));
    }

    fn forget(&self, client: &str) {
        // Clients may be dropped after the end of their run.
        if let Some(sim) = self.sim.upgrade() {
            sim.store.forget(client);
        }
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("client", &self.client).finish_non_exhaustive()
    }
}
