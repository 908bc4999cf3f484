//! Senders and drainers of actors.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::time::sleep;
use turnwise::{AsyncContext, AsyncHandler, Context, Drain, Handler};
use turnwise_redis::{Actors, Drains, MessageError, Outcome, Remote, RemoteActor, Workers};

use crate::books::{Fate, Sent};
use crate::net::{Net, Rule, Sim};
use crate::users::{Host, LEASE, LONG, PATIENCE, PLACE, SLACK};

thread_local! {
    /// The run that handlers of this thread belong to.
    static RUN: RefCell<Weak<Sim>> = const { RefCell::new(Weak::new()) };
    /// The client that runs a drain.
    static BY: RefCell<Option<Net>> = const { RefCell::new(None) };
}

/// Makes this thread's handlers those of a run.
pub fn runs(sim: &Arc<Sim>) {
    RUN.set(Arc::downgrade(sim));
}

/// The ids of the messages, in their order.
#[derive(Default, Serialize, Deserialize)]
pub struct Log(Vec<String>);

/// A message is handled at once.
#[derive(Clone, Serialize, Deserialize)]
struct Append {
    kind: String,
    actor: String,
    id: String,
}

/// A message is handled for a while.
#[derive(Clone, Serialize, Deserialize)]
struct Slowly(Append, u64);

impl Append {
    /// Counts an attempt. Returns whether it succeeds.
    fn begins(&self) -> Result<(), String> {
        if BY.with_borrow(|net| net.as_ref().is_none_or(Net::is_dead)) {
            return Err("its client is dead".to_owned());
        }
        let sim = RUN.with_borrow(Weak::upgrade).expect("a run");
        let kind = name(&self.kind);
        let (mut begun, mut fails) = (0, 0);
        if let Some(sent) = sim.books().sent(kind, &self.actor, &self.id) {
            sent.begun += 1;
            (begun, fails) = (sent.begun, sent.fails);
        }
        sim.note(|| format!("{kind} {} {} begins, {begun}", self.actor, self.id));
        sim.check(Rule::BegunOnce, kind != "once" || begun <= 1, || self.id.clone());
        if begun <= fails { Err("it fails".to_owned()) } else { Ok(()) }
    }
}

impl Handler<Append> for Log {
    type Reply = Result<usize, String>;
    fn handle(&mut self, message: Append, _: &mut Context<'_, Self>) -> Self::Reply {
        message.begins()?;
        self.0.push(message.id);
        Ok(self.0.len())
    }
}

impl AsyncHandler<Slowly> for Log {
    type Reply = Result<usize, String>;
    async fn handle(&mut self, message: Slowly, _: &mut AsyncContext<Self>) -> Self::Reply {
        let Slowly(message, millis) = message;
        let begun = message.begins();
        sleep(Duration::from_millis(millis)).await;
        // Async messages cannot fail: their replies are what they are.
        let _ = begun;
        self.0.push(message.id);
        Ok(self.0.len())
    }
}

/// The kinds, by their names. Actors that are hosted are drained by hosts with little time, and by
/// workers at the end of a run.
const KINDS: [&str; 3] = ["often", "once", "hosted"];
const ACTORS: u64 = 2;

fn name(kind: &str) -> &'static str {
    KINDS.into_iter().find(|name| *name == kind).expect("a kind")
}

/// The actors of a client, all of which run on the thread of the run.
pub fn kind(remote: &Remote, net: &Net, name: &str, drains: Drains) -> Actors<Log> {
    // At the end of a run, drains are dropped on any thread.
    let (net, runtime) = (net.clone(), Handle::current());
    let runs = move |drain: Drain| {
        let net = net.clone();
        runtime.spawn(net.clone().runs(async move {
            BY.set(Some(net));
            drain.run();
            BY.set(None);
        }));
    };
    let attempts = if name == "once" { 1 } else { 1_000_000 };
    let kind = remote.actors::<Log>(name).attempts(attempts).pause(Duration::from_millis(20));
    let kind = kind.try_message::<Append>("append").async_message::<Slowly>("slowly");
    kind.drains(drains).lease(LEASE).batch(8).executor(runs).open().unwrap()
}

impl Host {
    /// Sends messages, asks for replies, and withdraws some.
    pub async fn sender(self, user: usize) {
        let sim = &self.sim;
        let drains = [Drains::Measured, Drains::IfFree, Drains::Never];
        let drains = drains[usize::try_from(sim.roll(3)).unwrap()];
        let kinds = KINDS.map(|name| {
            let drains = if name == "hosted" { Drains::Never } else { drains };
            kind(&self.remote, &self.net, name, drains)
        });
        // Where senders never drain, workers do.
        let works = drains == Drains::Never || sim.once_in(3);
        let _workers: Vec<Workers> =
            kinds[..2].iter().filter(|_| works).map(|kind| kind.work(2)).collect();
        let sender = format!("{}.{user}", self.net.client());
        for number in 0.. {
            if sim.is_calm() {
                return;
            }
            self.think().await;
            let index = usize::try_from(sim.roll(3)).unwrap();
            let actor = sim.roll(ACTORS).to_string();
            let id = format!("{sender}.{number}");
            let to = Letter { kind: KINDS[index], actor, id, sender: sender.clone(), number };
            let actor = kinds[index].of(&to.actor).unwrap();
            if sim.once_in(if to.kind == "hosted" { 4 } else { 12 }) {
                self.drains(to.kind, &actor).await;
                continue;
            }
            match sim.roll(3) {
                0 => self.asks(&actor, to).await,
                _ => self.tells(&actor, to).await,
            }
            if self.net.is_dead() {
                return;
            }
        }
    }

    /// Enters a message before it is sent.
    fn enters(&self, to: &Letter, in_order: bool) -> Append {
        let sim = &self.sim;
        let fails = if to.kind != "once" && sim.once_in(6) { 1 } else { 0 };
        // A failed only attempt is a dead letter.
        let fails = if to.kind == "once" && sim.once_in(8) { 1 } else { fails };
        let (sender, number) = (to.sender.clone(), to.number);
        let sent = Sent { sender, number, in_order, fate: Fate::InDoubt, begun: 0, fails };
        let mut books = sim.books();
        let actor = books.sent.entry((to.kind, to.actor.clone())).or_default();
        actor.insert(to.id.clone(), sent);
        Append { kind: to.kind.to_owned(), actor: to.actor.clone(), id: to.id.clone() }
    }

    fn fate(&self, to: &Letter, fate: Fate) {
        if self.net.is_dead() {
            return;
        }
        self.sim.note(|| format!("{} {} {}: {fate:?}", to.kind, to.actor, to.id));
        let mut books = self.sim.books();
        let sent = books.sent(to.kind, &to.actor, &to.id).expect("it was entered");
        if fate == Fate::InDoubt {
            sent.in_order = false;
            // What is known already stays known.
            return;
        }
        sent.fate = fate;
    }

    /// Marks a message as in doubt.
    fn doubts(&self, to: &Letter) {
        let mut books = self.sim.books();
        let sent = books.sent(to.kind, &to.actor, &to.id).expect("it was entered");
        sent.fate = Fate::InDoubt;
    }

    async fn tells(&self, actor: &RemoteActor<Log>, to: Letter) {
        let sim = &self.sim;
        let delay = if sim.once_in(6) { sim.millis(150) } else { Duration::ZERO };
        let message = self.enters(&to, delay.is_zero());
        let (often, most) = if to.kind == "hosted" { (2, 40) } else { (5, 120) };
        let slow = delay.is_zero() && sim.once_in(often) && to.kind != "once";
        for _ in 0..if sim.once_in(6) { 2 } else { 1 } {
            let tell = match slow {
                true => actor.tell(Slowly(message.clone(), sim.roll(most))),
                false => actor.tell(message.clone()),
            };
            let told = tell.id(&to.id).after(delay).send();
            match sim.within("tell", PATIENCE + SLACK, told).await {
                Ok(Ok(_)) => self.fate(&to, Fate::Stored),
                Ok(Err(MessageError::Store(error))) => {
                    sim.check(Rule::Answered, self.is_network(&error), || format!("{error:?}"));
                    self.fate(&to, Fate::InDoubt);
                }
                error => {
                    let dead = self.net.is_dead();
                    sim.check(Rule::Answered, dead, || format!("tell: {error:?}"));
                }
            }
        }
        if sim.once_in(5) {
            sleep(sim.millis(20)).await;
            // Whatever is answered, a late copy may still withdraw it.
            self.doubts(&to);
            let answer = sim.within("withdraw", PATIENCE + SLACK, actor.withdraw(&to.id)).await;
            self.progress(&to, answer.unwrap_or(Err(MessageError::Closed)));
        } else if sim.once_in(5) {
            let answer = sim.within("outcome", PATIENCE + SLACK, actor.outcome(&to.id)).await;
            self.progress(&to, answer.unwrap_or(Err(MessageError::Closed)));
        }
    }

    /// Records the progress of a message.
    fn progress(&self, to: &Letter, progress: Result<Outcome<Reply>, MessageError>) {
        match progress {
            Ok(Outcome::Done(Ok(place))) => self.fate(to, Fate::Replied(place)),
            Ok(Outcome::Dead { .. }) => self.fate(to, Fate::Dead),
            Ok(Outcome::Withdrawn) => self.fate(to, Fate::Returned),
            Ok(_) => {}
            Err(MessageError::Store(error)) => {
                let right = self.is_network(&error);
                self.sim.check(Rule::Answered, right, || format!("{error:?}"));
            }
            Err(error) => {
                let dead = self.net.is_dead();
                self.sim.check(Rule::Answered, dead, || format!("{error:?}"));
            }
        }
    }

    async fn asks(&self, actor: &RemoteActor<Log>, to: Letter) {
        let sim = &self.sim;
        let message = self.enters(&to, true);
        let mut ask = actor.ask(message).id(&to.id);
        let limit = sim.once_in(2) || to.kind == "hosted";
        let limit = limit.then(|| Duration::from_millis(1) + sim.millis(300));
        if let Some(limit) = limit {
            ask = ask.within(limit);
        }
        // The message is withdrawn after its limit.
        let limit = limit.map_or(LONG, |limit| limit + PLACE + SLACK);
        match sim.within(&format!("ask {}", to.id), limit, ask.send()).await {
            Ok(Ok(place)) => self.fate(&to, Fate::Replied(place)),
            Ok(Err(error)) => sim.breaks(Rule::OwnReply, || error),
            Err(MessageError::TimedOut { .. }) => self.fate(&to, Fate::Returned),
            Err(MessageError::Dead { .. }) => self.fate(&to, Fate::Dead),
            Err(MessageError::Running { .. }) => self.fate(&to, Fate::InDoubt),
            Err(MessageError::Store(error)) => {
                sim.check(Rule::Answered, self.is_network(&error), || format!("{error:?}"));
                self.fate(&to, Fate::InDoubt);
            }
            Err(error) => {
                sim.check(Rule::Answered, self.net.is_dead(), || format!("ask: {error:?}"));
            }
        }
    }

    /// Drains all that is left, and compares it with what the senders know.
    pub async fn closes_actors(&self) {
        let sim = &self.sim;
        let kinds = KINDS.map(|name| kind(&self.remote, &self.net, name, Drains::Measured));
        let _workers: Vec<_> = kinds.iter().map(|kind| kind.work(2)).collect();
        let sent: Vec<(_, Vec<_>)> = {
            let books = sim.books();
            books
                .sent
                .iter()
                .map(|(actor, all)| (actor.clone(), all.keys().cloned().collect()))
                .collect()
        };
        for (place, ids) in sent {
            let kind = &kinds[KINDS.iter().position(|name| *name == place.0).unwrap()];
            let actor = kind.of(&place.1).unwrap();
            let is_empty = async {
                loop {
                    let info = actor.info().await.unwrap().unwrap();
                    if info.waiting + info.delayed == 0 && info.drainer.is_none() {
                        return info.state.unwrap_or_default().0;
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            };
            let handed_on = sim.books().was_handed_on(&place);
            let rule = if handed_on { Rule::HandedOn } else { Rule::Answered };
            let log = sim.within_by(rule, "the end of a mailbox", LONG, is_empty).await;
            let mut outcomes = BTreeMap::new();
            for id in ids {
                let outcome = actor.outcome::<Reply>(&id).await.unwrap().unwrap();
                outcomes.insert(
                    id,
                    match outcome {
                        Outcome::Done(Ok(place)) => Fate::Replied(place),
                        Outcome::Dead { .. } => Fate::Dead,
                        Outcome::Withdrawn => Fate::Returned,
                        _ => Fate::InDoubt,
                    },
                );
            }
            let letters = kind.dead_letters(0, 1000).await.unwrap().unwrap();
            let letters = letters.into_iter().filter(|letter| letter.actor == place.1);
            let letters: BTreeSet<_> = letters.map(|letter| letter.id).collect();
            sim.books().close_actor(sim, &place, &log, &outcomes, &letters);
        }
    }
}

type Reply = Result<usize, String>;

/// The destination of a message, and its origin.
struct Letter {
    kind: &'static str,
    actor: String,
    id: String,
    sender: String,
    number: u64,
}
