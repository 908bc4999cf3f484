//! Histories of locks, of slots and of mailboxes are those of plain objects, whatever process or
//! server is killed.
//!
//! Processes use locks, slots and actors for a short while each, and write down when each call
//! began, when it returned, and its answer. `todc-utils` (Wing, Gong and Lowe) searches an order of
//! these calls, within their times, in which a plain object behaves like that. A call whose process
//! was killed, or whose answer was lost, has taken effect if that is seen at the end; it may have
//! done so at any time after its beginning.
//!
//! The checks have to find a store that is wrong on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::support::{Dice, Server, until};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use todc_utils::{Action, History, Specification, WGLChecker};
use turnwise::{Context, Handler};
use turnwise_redis::step::{
    Answer, MailboxAct, MailboxAnswer, MailboxStep, Op as StoreOp, Progress, Step,
};
use turnwise_redis::{
    Acquire, Actors, Called, Guard, Limits, LockError, MessageError, Outcome, Owner, RedisStore,
    Remote, Store,
};

const LEASE: Duration = Duration::from_millis(300);
/// The number of slots of a pool.
const PLACES: u32 = 2;
/// The time for which all use the same actor, the same lock and the same slots.
const WINDOW: u64 = 40;
/// The end of all times.
const NEVER: u64 = u64::MAX;

/// The time since the machine's start in microseconds, which all processes share.
fn now() -> u64 {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
    u64::try_from(now.as_micros()).unwrap()
}

// Users.

/// The ids of the messages, in their order.
#[derive(Default, Serialize, Deserialize)]
struct Log(Vec<String>);

#[derive(Serialize, Deserialize)]
struct Append(String);

impl Handler<Append> for Log {
    type Reply = usize;
    fn handle(&mut self, Append(id): Append, _: &mut Context<'_, Self>) -> usize {
        self.0.push(id);
        self.0.len()
    }
}

/// A server, with a fault that is planted.
#[derive(Debug)]
struct Planted {
    store: RedisStore,
    fault: String,
    calls: AtomicU64,
}

impl Store for Planted {
    fn call<'a>(&'a self, op: &'a StoreOp) -> Called<'a> {
        Box::pin(async move {
            let often = self.calls.fetch_add(1, Relaxed).is_multiple_of(3);
            let mailbox = match &op.step {
                Step::Mailbox(MailboxStep { act, .. }) => Some(act),
                _ => None,
            };
            if self.fault == "lost" && often && matches!(mailbox, Some(MailboxAct::Push { .. })) {
                // Acknowledged, and not stored.
                let busy = Duration::ZERO;
                return Ok(Answer::Mailbox(MailboxAnswer::Pushed { ahead: 0, busy }));
            }
            let mut answer = self.store.call(op).await?;
            let takes = matches!(op.step, Step::Acquire { .. }) && op.places == 1;
            match (&*self.fault, &mut answer) {
                // While another one holds it.
                ("second", answer @ (Answer::Queued { .. } | Answer::Busy { .. })) if takes => {
                    let fence = UNIX_EPOCH.elapsed().unwrap().as_micros().try_into().unwrap();
                    *answer = Answer::Granted { fence, place: 1 };
                }
                ("older", Answer::Granted { fence, .. }) if takes && often => *fence -= 5_000_000,
                ("place", Answer::Granted { place, .. }) if op.places > 1 => *place = 1,
                ("fence", Answer::Granted { fence, .. }) if op.places > 1 && often => {
                    *fence -= 5_000_000;
                }
                (
                    "withdrawn",
                    Answer::Mailbox(MailboxAnswer::Progress(
                        progress @ (Progress::Running { .. } | Progress::Done(_)),
                    )),
                ) if matches!(mailbox, Some(MailboxAct::Withdraw { .. })) => {
                    *progress = Progress::Withdrawn;
                }
                _ => {}
            }
            Ok(answer)
        })
    }

    crate::support::forwards_notices!(store);
}

fn connect(url: &str, fault: &str) -> Remote {
    let builder = || Remote::builder().answer_within(LEASE).lease(LEASE * 4).place(LEASE);
    let connects = || match fault {
        "" => builder().connect(url).ok(),
        fault => {
            let store = RedisStore::new(url, "turnwise", LEASE).unwrap();
            let (fault, calls) = (fault.to_owned(), AtomicU64::new(0));
            builder().over(Planted { store, fault, calls }).ok()
        }
    };
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(remote) = connects() {
            return remote;
        }
        assert!(Instant::now() < end, "no server");
        thread::sleep(Duration::from_millis(5));
    }
}

fn logs(remote: &Remote) -> Actors<Log> {
    let kind = remote.actors::<Log>("log").message::<Append>("append").attempts(1_000_000);
    kind.pause(Duration::from_millis(1)).lease(LEASE).open().unwrap()
}

/// Prints one line, also if the process is killed right after.
fn says(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "history {line}").and_then(|()| out.flush());
}

/// Not a test: a process that uses locks, slots and actors until it is killed.
#[test]
fn user() {
    let (Ok(url), Ok(name)) = (env::var("HISTORY_OF"), env::var("HISTORY_NAME")) else { return };
    let remote = connect(&url, &env::var("HISTORY_FAULT").unwrap_or_default());
    let (process, owner): (u64, _) = (name.parse().unwrap(), Owner::new());
    thread::scope(|scope| {
        for of in 0..2 {
            let (remote, owner) = (&remote, (&*name, &owner));
            scope.spawn(move || uses(remote, owner, process * 2 + of));
        }
    });
}

/// One user, of a process with a named owner: in each window a few calls.
fn uses(remote: &Remote, owner: (&str, &Owner), user: u64) {
    let (logs, mut dice) = (logs(remote), Dice(user));
    let mut calls = 0;
    loop {
        let window = now() / (WINDOW * 1000);
        let mut known = Vec::new();
        for number in 0..2 {
            thread::sleep(Duration::from_micros(dice.roll(8_000)));
            calls += 1;
            let call = format!("{user}.{calls}");
            let id = format!("{user}.{window}.{number}");
            match dice.roll(3) {
                0 => {
                    takes_slot(remote, window, &call, &mut dice);
                    continue;
                }
                1 => {
                    takes_lock(remote, owner, window, &call, &mut dice);
                    continue;
                }
                _ => {}
            }
            let actor = logs.of(&window.to_string()).unwrap();
            known.push(id.clone());
            says(&format!("{call} {window} push {id} at {}", now()));
            let pushed = match dice.roll(2) {
                0 => actor.tell(Append(id.clone())).id(&id).wait().map(|_| 0),
                _ => actor.ask(Append(id.clone())).id(&id).wait(),
            };
            match pushed {
                Ok(place) => says(&format!("{call} pushed {place} at {}", now())),
                // It is in doubt.
                Err(MessageError::Store(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
            let of = &known[usize::try_from(dice.roll(known.len() as u64)).unwrap()];
            let (call, withdraws) = (format!("{call}.b"), dice.roll(2) == 0);
            let what = if withdraws { "withdraw" } else { "look" };
            says(&format!("{call} {window} {what} {of} at {}", now()));
            let outcome = match withdraws {
                true => actor.withdraw::<usize>(of).wait().unwrap(),
                false => actor.outcome::<usize>(of).wait().unwrap(),
            };
            let seen = match outcome {
                Ok(Outcome::Unknown) => "unknown 0".to_owned(),
                Ok(Outcome::Waiting { ahead }) => format!("waiting {ahead}"),
                Ok(Outcome::Running { .. }) => "running 0".to_owned(),
                Ok(Outcome::Done(place)) => format!("done {place}"),
                Ok(Outcome::Withdrawn) => "withdrawn 0".to_owned(),
                Ok(other) => panic!("{other:?}"),
                Err(MessageError::Store(_)) => continue,
                Err(error) => panic!("{error:?}"),
            };
            says(&format!("{call} {seen} at {}", now()));
        }
        // The next window.
        while now() / (WINDOW * 1000) == window {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn takes_slot(remote: &Remote, window: u64, call: &str, dice: &mut Dice) {
    let slots = remote.slots(&window.to_string(), PLACES).unwrap();
    let pause = Duration::from_micros(dice.roll(6_000));
    let asks = || slots.acquire(Limits::wait(Duration::from_millis(200)));
    holds(call, &format!("{window} take {call}"), asks, || thread::sleep(pause));
}

/// Takes a lock, half of the time for the owner of the process, which may take it again meanwhile.
fn takes_lock(remote: &Remote, owner: (&str, &Owner), window: u64, call: &str, dice: &mut Dice) {
    let (locks, key) = (remote.locks(), window.to_string());
    let limits = Limits::wait(Duration::from_millis(200));
    let pauses = [(); 2].map(|()| Duration::from_micros(dice.roll(6_000)));
    if dice.roll(2) == 0 {
        let asks = || locks.lock_within(&key, limits);
        holds(call, &format!("{window} lock {call}"), asks, || thread::sleep(pauses[0]));
        return;
    }
    let (what, again) = (format!("{window} lock of-{}", owner.0), dice.roll(2) == 0);
    let asks = || locks.lock_as(owner.1, &key, limits);
    holds(call, &what, asks, || {
        thread::sleep(pauses[0]);
        if again {
            holds(&format!("{call}.b"), &what, asks, || thread::sleep(pauses[1]));
        }
    });
}

/// Takes a slot or a lock, and releases it.
fn holds(call: &str, what: &str, asks: impl Fn() -> Acquire<Guard>, meanwhile: impl FnOnce()) {
    says(&format!("{call} {what} at {}", now()));
    let guard = match asks().wait() {
        Ok(guard) => guard,
        Err(LockError::TimedOut { .. } | LockError::Store(_)) => return,
        Err(error) => panic!("{error:?}"),
    };
    says(&format!("{call} taken {}:{} at {}", guard.place(), guard.fence(), now()));
    meanwhile();
    let releases = now();
    let kept = guard.release().wait().is_ok();
    // One that was lost, or may be, was free at any time.
    let from = if kept { releases } else { 0 };
    says(&format!("{call} released {from} at {}", now()));
}

// Plain objects.

#[derive(Clone, Debug)]
enum Op {
    /// The message arrives, unless it is known.
    Push(String),
    /// The first message is handled.
    Handle(String),
    Done(String, usize),
    Unknown(String),
    Waiting(String, u64),
    /// It waits, or runs.
    Running(String),
    /// It was withdrawn before.
    Withdrawn(String),
    Withdraw(String),
    /// The state in the end, and that nothing is left.
    Log(Vec<String>),
    /// A place is granted with a fence: that of a lock, or one of several slots. Its owner may
    /// take it again.
    Take(Place, u64),
    /// It is free, unless its owner has taken it more often.
    Release(Place, u64),
}

/// A place, and its owner.
type Place = (u32, String);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Plain {
    waiting: Vec<String>,
    log: Vec<String>,
    withdrawn: BTreeSet<String>,
    /// The owner, the fence, and how often the place was taken.
    held: BTreeMap<u32, (String, u64, u32)>,
    newest: u64,
}

impl Plain {
    fn apply(&mut self, op: &Op) -> bool {
        match op {
            Op::Push(id) => {
                if !self.knows(id) {
                    self.waiting.push(id.clone());
                }
                true
            }
            Op::Handle(id) => {
                let first = self.waiting.first() == Some(id);
                if first {
                    self.log.push(self.waiting.remove(0));
                }
                first
            }
            Op::Done(id, place) => place.checked_sub(1).and_then(|n| self.log.get(n)) == Some(id),
            Op::Unknown(id) => !self.knows(id),
            Op::Waiting(id, ahead) => {
                self.waiting.get(usize::try_from(*ahead).unwrap_or(usize::MAX)) == Some(id)
            }
            Op::Running(id) => self.waiting.contains(id),
            Op::Withdrawn(id) => self.withdrawn.contains(id),
            Op::Withdraw(id) => {
                let waits = self.waiting.contains(id);
                self.waiting.retain(|other| other != id);
                self.withdrawn.insert(id.clone());
                waits
            }
            Op::Log(log) => self.log == *log && self.waiting.is_empty(),
            Op::Take((place, owner), fence) => match self.held.get_mut(place) {
                Some((holder, held, times)) => {
                    *times += 1;
                    holder == owner && held == fence
                }
                None => {
                    let right = *fence > self.newest;
                    self.newest = *fence;
                    self.held.insert(*place, (owner.clone(), *fence, 1));
                    right
                }
            },
            Op::Release((place, owner), fence) => match self.held.get_mut(place) {
                Some((holder, held, times)) if holder == owner && held == fence => {
                    *times -= 1;
                    self.held.retain(|_, (_, _, times)| *times > 0);
                    true
                }
                _ => false,
            },
        }
    }

    fn knows(&self, id: &String) -> bool {
        self.waiting.contains(id) || self.log.contains(id) || self.withdrawn.contains(id)
    }
}

impl Specification for Plain {
    type State = Plain;
    type Operation = Op;

    fn init() -> Plain {
        Plain::default()
    }

    fn apply(op: &Op, state: &Plain) -> (bool, Plain) {
        let mut state = state.clone();
        (state.apply(op), state)
    }
}

/// A call: when it began, when it returned.
type Call = (u64, u64, Op);

/// True if one call after the other explains a history.
fn is_plain(calls: &[Call]) -> bool {
    let mut times: Vec<_> = calls
        .iter()
        .enumerate()
        .flat_map(|(process, (began, returned, op))| {
            let call = (*began, 0, process, Action::Call(op.clone()));
            [call, (*returned, 1, process, Action::Response(op.clone()))]
        })
        .collect();
    times.sort_by_key(|(time, order, process, _)| (*time, *order, *process));
    let actions = times.into_iter().map(|(_, _, process, action)| (process, action));
    WGLChecker::<Plain>::is_linearizable(History::from_actions(actions.collect()))
}

// Recorded calls.

/// The report of a process on one call.
#[derive(Debug)]
struct Said {
    window: String,
    what: String,
    id: String,
    began: u64,
    /// Each answer, and when it came.
    answers: Vec<(String, String, u64)>,
}

impl Said {
    /// True of a call on an actor.
    fn is_of_actor(&self) -> bool {
        !["take", "lock"].contains(&&*self.what)
    }
}

/// The known outcomes of the messages of a window in the end.
struct End {
    log: Vec<String>,
    withdrawn: BTreeSet<String>,
}

/// The calls of a window on an actor.
fn of_actor(said: &[&Said], end: &End) -> Vec<Call> {
    let (mut calls, mut last) = (Vec::new(), 0);
    let (mut pushed, mut done) = (BTreeMap::new(), BTreeMap::<&String, u64>::new());
    let mut withdraws = BTreeMap::<&String, Vec<(u64, u64)>>::new();
    for call in said.iter().filter(|call| call.is_of_actor()) {
        let id = &call.id;
        let answer = call.answers.first();
        let returned = answer.map_or(NEVER, |answer| answer.2);
        last = last.max(call.began).max(if answer.is_some() { returned } else { 0 });
        if call.what == "push" {
            pushed.insert(id, call.began);
            // A message without a reply was not stored, or is as if it was not.
            if answer.is_some() || end.log.contains(id) || end.withdrawn.contains(id) {
                // The reply to an ask comes later than the message is stored.
                calls.push((call.began, returned, Op::Push(id.clone())));
            }
            if let Some((_, place, _)) = answer.filter(|answer| answer.1 != "0") {
                let place = place.parse().unwrap();
                calls.push((call.began, returned, Op::Done(id.clone(), place)));
                let known = done.entry(id).or_insert(NEVER);
                *known = returned.min(*known);
            }
            continue;
        }
        if call.what == "withdraw" {
            withdraws.entry(id).or_default().push((call.began, returned));
        }
        let Some((answer, number, _)) = answer else { continue };
        let op = match &**answer {
            "unknown" => Op::Unknown(id.clone()),
            "waiting" => Op::Waiting(id.clone(), number.parse().unwrap()),
            "running" => Op::Running(id.clone()),
            "done" => {
                let known = done.entry(id).or_insert(NEVER);
                *known = returned.min(*known);
                Op::Done(id.clone(), number.parse().unwrap())
            }
            _ => Op::Withdrawn(id.clone()),
        };
        calls.push((call.began, returned, op));
    }
    for id in &end.log {
        let began = pushed.get(id).copied().unwrap_or(0);
        let returned = done.get(id).copied().unwrap_or(NEVER - 2);
        calls.push((began, returned, Op::Handle(id.clone())));
    }
    for (id, times) in withdraws {
        // One of them has withdrawn it.
        if end.withdrawn.contains(id) {
            let began = times.iter().map(|(began, _)| *began).min().unwrap_or(0);
            let returned = times.iter().map(|(_, returned)| *returned).max().unwrap_or(NEVER - 2);
            calls.push((began, returned.min(NEVER - 2), Op::Withdraw(id.clone())));
        }
    }
    calls.push((NEVER - 1, NEVER, Op::Log(end.log.clone())));
    calls.iter_mut().for_each(|call| call.1 = call.1.min(NEVER - 2).max(call.0));
    calls
}

/// The calls of a window on slots, or on a lock. What a process held that was killed is free at any
/// time after.
fn of_holds(said: &[&Said], what: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    for call in said.iter().filter(|call| call.what == what) {
        // One that was not granted, as far as its process has said, has kept others out only.
        let Some((_, held, taken)) = call.answers.first() else { continue };
        let (place, fence) = held.split_once(':').unwrap();
        let place = (place.parse().unwrap(), call.id.clone());
        let fence = fence.parse().unwrap();
        calls.push((call.began, *taken, Op::Take(place.clone(), fence)));
        let (from, to) = match call.answers.get(1) {
            Some((_, from, at)) => (from.parse().unwrap(), *at),
            None => (0, NEVER),
        };
        calls.push((from.max(*taken), to, Op::Release(place, fence)));
    }
    calls
}

// Cases.

struct User(Child);

impl User {
    fn start(case: &Case, name: u64) -> User {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["histories::user", "--exact", "--nocapture"])
            .env("HISTORY_OF", case.server.url());
        command.env("HISTORY_NAME", name.to_string()).env("HISTORY_FAULT", case.fault);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let said = case.say.clone();
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                // The first one stands behind the name of a test.
                if let Some((_, words)) = line.split_once("history ") {
                    let _ = said.send(words.to_owned());
                }
            }
        });
        User(child)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Case {
    server: Server,
    fault: &'static str,
    say: Arc<Sender<String>>,
    said: Receiver<String>,
    users: Vec<User>,
    started: u64,
}

impl Case {
    fn start(fault: &'static str) -> Case {
        let server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
        let (say, said) = channel();
        let (say, users) = (Arc::new(say), Vec::new());
        let mut case = Case { server, fault, say, said, users, started: 0 };
        (0..3).for_each(|_| case.user());
        case
    }

    fn user(&mut self) {
        let user = User::start(self, self.started);
        self.started += 1;
        self.users.push(user);
    }

    /// Kills users, and servers too, until the time is over.
    fn kills(&mut self, servers: bool) {
        let asked = env::var("TURNWISE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
        let end = Instant::now() + Duration::from_secs(asked.unwrap_or(1));
        let (mut dice, mut kills) = (Dice(3), 0);
        while Instant::now() < end || kills < 10 {
            kills += 1;
            thread::sleep(Duration::from_millis(100 + dice.roll(150)));
            if servers && dice.roll(2) == 0 {
                self.server.kill();
                self.server.run();
            } else {
                let index = usize::try_from(dice.roll(self.users.len() as u64)).unwrap();
                drop(self.users.swap_remove(index));
                self.user();
            }
        }
    }

    /// Ends all, and returns the histories that no plain object explains, and the number of all.
    fn wrong(self) -> (Vec<Vec<Call>>, usize) {
        let Case { server, say, said, users, .. } = self;
        drop(users);
        drop(say);
        let mut all = BTreeMap::<String, Said>::new();
        for line in said.iter() {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                [call, window, what, id, "at", began] => {
                    let (window, what, id) = (window.to_owned(), what.to_owned(), id.to_owned());
                    let (began, answers) = (began.parse().unwrap(), Vec::new());
                    all.insert(call.to_owned(), Said { window, what, id, began, answers });
                }
                [call, answer, value, "at", time] => {
                    let answer = (answer.to_owned(), value.to_owned(), time.parse().unwrap());
                    all.get_mut(call).unwrap().answers.push(answer);
                }
                // Cut off by a kill.
                _ => {}
            }
        }
        let remote = connect(&server.url(), "");
        let logs = logs(&remote);
        let _workers = logs.work(2);
        let mut windows = BTreeMap::<&String, Vec<&Said>>::new();
        all.values().for_each(|said| windows.entry(&said.window).or_default().push(said));
        let (mut wrong, count) = (Vec::new(), windows.len());
        for (window, said) in windows {
            let actor = logs.of(window).unwrap();
            until("it is drained", || {
                let info = actor.info().wait().unwrap().unwrap();
                info.waiting == 0 && info.drainer.is_none()
            });
            let log = actor.info().wait().unwrap().unwrap().state.unwrap_or_default().0;
            let is_withdrawn = |id: &&String| {
                actor.outcome::<usize>(id).wait().unwrap().unwrap() == Outcome::Withdrawn
            };
            let ids: BTreeSet<_> =
                said.iter().filter(|call| call.is_of_actor()).map(|call| &call.id).collect();
            let withdrawn = ids.into_iter().filter(is_withdrawn).cloned().collect();
            let actor = of_actor(&said, &End { log, withdrawn });
            let histories = [actor, of_holds(&said, "take"), of_holds(&said, "lock")];
            wrong.extend(
                histories.into_iter().filter(|calls| !calls.is_empty() && !is_plain(calls)),
            );
        }
        (wrong, count)
    }
}

/// Runs users of a sound store, kills some, and checks their histories.
fn are_plain(servers: bool) {
    let mut case = Case::start("");
    case.kills(servers);
    let (wrong, count) = case.wrong();
    println!("{count} windows");
    assert!(count > 5, "{count}");
    assert!(wrong.is_empty(), "no order explains {:#?}", wrong[0]);
}

#[test]
fn histories_are_plain_while_users_are_killed() {
    are_plain(false);
}

#[test]
fn histories_are_plain_while_servers_and_users_are_killed() {
    are_plain(true);
}

#[test]
fn planted_faults_are_found() {
    for fault in ["place", "fence", "second", "older", "lost", "withdrawn"] {
        // On a busy machine the calls of a short run may not overlap.
        let is_found = (0..10).any(|_| {
            let mut case = Case::start(fault);
            case.kills(false);
            let (wrong, count) = case.wrong();
            println!("{fault}: {} of {count} windows", wrong.len());
            !wrong.is_empty()
        });
        assert!(is_found, "{fault} is not found");
    }
}
