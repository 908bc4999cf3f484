//! A run of clients: their time, their network, and their store, all from one seed.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};
use turnwise::time::Clock;
use turnwise_redis::step::{
    AdmissionAnswer, Answer, MailboxAct, MailboxAnswer, MailboxStep, Notice, Op, Progress, Step,
};
use turnwise_redis::{Called, Effect, MemoryStore, NoticeSink, Store, StoreError};

use crate::books::Books;
use crate::support::Dice;

/// The time after which a connection gives up an answer.
const ANSWER: Duration = Duration::from_millis(60);

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
    /// Each call has an answer or an error of its own in time.
    Answered,
}

/// A fault that the network makes on purpose, as a store with that defect would answer.
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
    /// Leases never end.
    LeasesStay,
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
    /// How much goes wrong: 0 to 3.
    faults: u64,
    calm: AtomicBool,
    pub planted: Option<Planted>,
    books: Mutex<Books>,
    /// What happened, in order. `None`: nothing is recorded.
    trace: Mutex<Option<Vec<String>>>,
    wrong: Mutex<Option<Wrong>>,
    /// Notified when a rule is broken.
    pub broken: Notify,
    began: Instant,
    /// Until when the store is unreachable, in milliseconds of this run.
    outage: AtomicU64,
    /// The number of steps that the store has executed.
    pub steps: AtomicU64,
}

impl Sim {
    /// A run in the current runtime, whose time is paused.
    pub fn new(seed: u64, planted: Option<Planted>, traced: bool) -> Arc<Sim> {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9).wrapping_add(1));
        let faults = dice.roll(4);
        let began = Instant::now();
        let clock = Time { began, stops: planted == Some(Planted::LeasesStay) };
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
            steps: AtomicU64::new(0),
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
    fn is_unlucky(&self, times: u64) -> bool {
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

    /// Awaits a call that has to end within this time.
    pub async fn within<R>(&self, what: &str, limit: Duration, call: impl Future<Output = R>) -> R {
        let answer = timeout(limit, call).await;
        match answer {
            Ok(answer) => answer,
            Err(_) => {
                self.breaks(Rule::Answered, || format!("{what} has no answer after {limit:?}"));
                std::future::pending().await
            }
        }
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
        Some(Answer::Mailbox(MailboxAnswer::Pushed { ahead: 1, free: false }))
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
    stops: bool,
}

impl Clock for Time {
    fn now(&self) -> Duration {
        let day = Duration::from_secs(24 * 3600);
        let passed = self.began.elapsed();
        day + if self.stops { passed / 10_000 } else { passed }
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

/// The connection of one client, which dies with it.
#[derive(Clone)]
pub struct Net {
    sim: Arc<Sim>,
    client: Arc<str>,
    dead: Arc<Death>,
    /// The number of events until the client dies. 0: it does not.
    fuse: Arc<AtomicU32>,
}

impl Net {
    pub fn new(sim: &Arc<Sim>, client: &str) -> Net {
        let dies = sim.is_unlucky(4);
        let fuse = if dies { 5 + sim.roll(120) } else { 0 };
        let fuse = Arc::new(AtomicU32::new(u32::try_from(fuse).unwrap()));
        Net { sim: sim.clone(), client: client.into(), dead: Arc::default(), fuse }
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

    /// Counts an event of its protocol, each of which may be its last.
    fn event(&self) {
        if self.fuse.load(Relaxed) > 0 && !self.sim.is_calm() {
            let left = self.fuse.fetch_sub(1, Relaxed) - 1;
            if left == 0 {
                self.sim.note(|| format!("{} dies", self.client));
                self.dead.is_over.store(true, Relaxed);
                self.dead.comes.notify_waiters();
            }
        }
    }

    fn latency(&self) -> Duration {
        if self.sim.is_unlucky(100) { self.sim.millis(300) } else { self.sim.millis(3) }
    }

    /// Carries a step to the store, and its answer back.
    async fn carry(self, op: Op, reply: oneshot::Sender<Result<Answer, StoreError>>) {
        let sim = self.sim.clone();
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
            if self.is_dead() {
                return Err(dead());
            }
            let (reply, mut answer) = oneshot::channel();
            tokio::spawn(self.clone().carry(op.clone(), reply));
            let answer = tokio::select! {
                biased;
                () = self.death() => return Err(dead()),
                answer = timeout(ANSWER, &mut answer) => answer,
            };
            self.event();
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
            let (net, sink, sim) = (net.clone(), sink.clone(), net.sim.clone());
            let (lost, twice, all) = (sim.is_unlucky(12), sim.is_unlucky(12), sim.is_unlucky(40));
            let later = net.latency();
            tokio::spawn(async move {
                sleep(later).await;
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
        self.sim.store.listen(client, Arc::new(tell));
    }

    fn forget(&self, client: &str) {
        self.sim.store.forget(client);
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("client", &self.client).finish_non_exhaustive()
    }
}
