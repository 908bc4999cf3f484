//! The beliefs of a run's users, and what must be true of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::Instant;
use turnwise_redis::Guard;
use turnwise_redis::admission::Row;

use crate::net::{Net, Rule, Sim};

/// The longest lease of a hold: one that was renewed by its user.
pub const LONGEST_LEASE: Duration = Duration::from_millis(320);

/// A hold as its user knows it.
pub enum Held {
    /// A guard, which knows whether it is lost.
    Guard(Weak<Guard>),
    /// A time until which it lasts at least.
    Until(Weak<Mutex<Instant>>),
    /// A guard of a user who believes in the hold for another time: a planted fault.
    Believed(Weak<Guard>, Belief),
}

/// The belief of a user that does not ask the guard.
pub enum Belief {
    /// It lasts until it is released.
    Always,
    /// It lasts until then, by the client's wall clock.
    Wall(i64),
}

impl Held {
    fn is_live(&self, net: &Net) -> bool {
        match self {
            Held::Believed(guard, belief) => {
                guard.strong_count() > 0
                    && match belief {
                        Belief::Always => true,
                        Belief::Wall(until) => *until > net.wall(),
                    }
            }
            Held::Guard(guard) => guard.upgrade().is_some_and(|guard| !guard.is_lost()),
            Held::Until(until) => {
                until.upgrade().is_some_and(|until| *until.lock().unwrap() > Instant::now())
            }
        }
    }
}

struct Hold {
    held: Held,
    fence: u64,
    net: Net,
}

impl Hold {
    fn is_live(&self) -> bool {
        !self.net.is_dead() && self.held.is_live(&self.net)
    }
}

/// The holds of a lock, or of one slot.
#[derive(Default)]
struct Object {
    holds: Vec<Hold>,
    /// The greatest fence that a live hold has had, and its client.
    newest: (u64, String),
}

impl Object {
    /// Two live holds that are not those of one owner.
    fn clash(&self, shaken: Option<Shaken>) -> Option<String> {
        let certain = |hold: &&Hold| hold.is_live() && !Shaken::has(shaken, hold.fence);
        let live = self.holds.iter().filter(certain);
        let live: Vec<_> = live.collect();
        let first = live.first()?;
        let other = live
            .iter()
            .find(|hold| hold.fence != first.fence || hold.net.client() != first.net.client())?;
        let text = |hold: &Hold| format!("{} with {}", hold.net.client(), hold.fence);
        Some(format!("{} beside {}", text(first), text(other)))
    }
}

/// The requests of an admission, by the rows that they would write.
#[derive(Default)]
struct Applied {
    /// The places of those that were admitted.
    admitted: BTreeMap<String, (String, u64)>,
    /// Those that were certainly not admitted.
    refused: BTreeSet<String>,
    /// True if a request was refused because no place was left.
    closed: bool,
}

/// The last report about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It may be stored.
    InDoubt,
    /// It is stored.
    Stored,
    /// It was handled, with this reply.
    Replied(usize),
    /// All attempts have failed.
    Dead,
    /// It certainly never runs.
    Returned,
}

/// A message, as its sender knows it.
pub struct Sent {
    pub sender: String,
    pub number: u64,
    /// True if it was stored before the sender's next message was sent, without a delay.
    pub in_order: bool,
    pub fate: Fate,
    /// The number of attempts that have begun.
    pub begun: u32,
    /// The number of attempts that fail.
    pub fails: u32,
}

/// A step of the store's clock to a later time. Leases from before end early, and their holders
/// learn of it by their next renewals, or when the leases are over by their own clocks.
#[derive(Clone, Copy)]
struct Shaken {
    /// The greatest fence from before.
    fence: u64,
    until: Instant,
}

impl Shaken {
    /// True if the hold with this fence may have ended early.
    fn has(shaken: Option<Shaken>, fence: u64) -> bool {
        shaken.is_some_and(|shaken| fence <= shaken.fence && Instant::now() < shaken.until)
    }
}

#[derive(Default)]
pub struct Books {
    objects: BTreeMap<String, Object>,
    shaken: Option<Shaken>,
    /// The ticks that the store has given, and those that were run.
    given: BTreeSet<u64>,
    run: BTreeMap<u64, String>,
    /// The requests of each admission.
    applied: BTreeMap<String, Applied>,
    /// The messages of each kind and actor, by their ids.
    pub sent: BTreeMap<(&'static str, String), BTreeMap<String, Sent>>,
    /// The kinds and actors that were handed over.
    handed_on: BTreeSet<(&'static str, String)>,
}

impl Books {
    /// Checks all holds: after each step, because a hold may be renewed by it.
    pub fn look(&self, sim: &Sim) {
        for (name, object) in &self.objects {
            if let Some(clash) = object.clash(self.shaken) {
                sim.breaks(Rule::OneHolder, || format!("{name}: {clash}"));
            }
        }
    }

    /// The store's clock steps forward.
    pub fn shake(&mut self, fence: u64) {
        self.shaken = Some(Shaken { fence, until: Instant::now() + LONGEST_LEASE });
    }

    /// Compares a tick that the store gives with its clock, in microseconds.
    pub fn taken(&mut self, sim: &Sim, tick: u64, now: u64, every: Duration) {
        if self.given.insert(tick) {
            sim.check(
                Rule::TickOfItsTime,
                (tick * micros(every)).abs_diff(now) <= micros(every) / 2,
                || format!("tick {tick} of {every:?} at {now}"),
            );
        }
    }

    /// True if the store has given a later tick than that of this time.
    pub fn is_behind(&self, now: u64, every: Duration) -> bool {
        let tick = (now + micros(every) / 2) / micros(every);
        self.given.last().is_some_and(|last| *last > tick)
    }

    /// Records the run of a tick.
    pub fn runs(&mut self, sim: &Sim, net: &Net, tick: u64) {
        sim.note(|| format!("{} runs tick {tick}", net.client()));
        if let Some(other) = self.run.insert(tick, net.client().to_owned()) {
            sim.breaks(Rule::OncePerTick, || format!("{tick}: {other}, {}", net.client()));
        }
    }

    /// Records a hold that has begun.
    pub fn holds(&mut self, sim: &Sim, name: &str, net: &Net, held: Held, fence: u64) {
        sim.note(|| format!("{} holds {name} with {fence}", net.client()));
        let object = self.objects.entry(name.to_owned()).or_default();
        object.holds.retain(Hold::is_live);
        let hold = Hold { held, fence, net: net.clone() };
        // A hold that is over already says nothing: its answer was late.
        if !hold.is_live() {
            return;
        }
        let (newest, of) = &object.newest;
        // Another guard of the same owner.
        let again = fence == *newest && net.client() == of;
        let may_be_late = again || Shaken::has(self.shaken, fence);
        sim.check(Rule::FencesRise, may_be_late || fence > *newest, || {
            format!("{name}: {fence} of {} after {newest} of {of}", net.client())
        });
        if fence > *newest {
            object.newest = (fence, net.client().to_owned());
        }
        object.holds.push(hold);
        if let Some(clash) = object.clash(self.shaken) {
            sim.breaks(Rule::OneHolder, || format!("{name}: {clash}"));
        }
    }

    pub fn admitted(
        &mut self,
        sim: &Sim,
        raffle: &str,
        (applicant, row): (&str, &str),
        (place, limit): (u64, u64),
    ) {
        sim.note(|| format!("{applicant} is admitted in {place} by {row}"));
        let admitted = &mut self.applied.entry(raffle.to_owned()).or_default().admitted;
        let other =
            admitted.values().find(|(other, taken)| (*taken == place) != (other == applicant));
        sim.check(Rule::NotOversold, (1..=limit).contains(&place) && other.is_none(), || {
            format!("{applicant} has place {place} of {limit}, {other:?}")
        });
        admitted.insert(row.to_owned(), (applicant.to_owned(), place));
    }

    /// Records a refusal, after which the request has certainly not admitted the applicant.
    pub fn refused(&mut self, sim: &Sim, raffle: &str, row: &str, closed: bool) {
        sim.note(|| format!("{row} is refused"));
        let applied = self.applied.entry(raffle.to_owned()).or_default();
        applied.refused.insert(row.to_owned());
        applied.closed |= closed;
    }

    /// Compares an admission with what its users know.
    pub fn close_admission(&self, sim: &Sim, raffle: &str, rows: &[Row], limit: u64) {
        let Some(applied) = self.applied.get(raffle) else { return };
        let full = rows.len() as u64 == limit;
        sim.check(Rule::NotOversold, rows.len() as u64 <= limit, || format!("{rows:?}"));
        sim.check(Rule::NotOversold, full || !applied.closed, || {
            format!("closed with {} rows", rows.len())
        });
        let written: BTreeMap<_, _> =
            rows.iter().map(|row| (String::from_utf8_lossy(&row.row).into_owned(), row)).collect();
        for (row, (applicant, place)) in &applied.admitted {
            let right = written
                .get(row)
                .is_some_and(|row| row.applicant == *applicant && row.place == *place);
            sim.check(Rule::NotOversold, right, || format!("{applicant}: {row} is not {place}"));
        }
        for row in &applied.refused {
            sim.check(Rule::NotOversold, !written.contains_key(row), || {
                format!("{row} was refused, and is in")
            });
        }
    }

    pub fn handed_on(&mut self, kind: &'static str, actor: &str) {
        self.handed_on.insert((kind, actor.to_owned()));
    }

    pub fn was_handed_on(&self, place: &(&'static str, String)) -> bool {
        self.handed_on.contains(place)
    }

    pub fn sent(&mut self, kind: &'static str, actor: &str, id: &str) -> Option<&mut Sent> {
        self.sent.get_mut(&(kind, actor.to_owned()))?.get_mut(id)
    }

    /// Compares a state, and the outcome of each message, with what the senders know.
    pub fn close_actor(
        &self,
        sim: &Sim,
        (kind, actor): &(&'static str, String),
        log: &[String],
        outcomes: &BTreeMap<String, Fate>,
        letters: &BTreeSet<String>,
    ) {
        let sent = &self.sent[&(*kind, actor.clone())];
        let mut places = BTreeMap::<&str, usize>::new();
        for (place, id) in log.iter().enumerate() {
            if let Some(other) = places.insert(id, place + 1) {
                let twice = || format!("{kind} {actor} has seen {id} at {other} and {}", place + 1);
                sim.breaks(Rule::Once, twice);
            }
        }
        let mut counted = 0;
        for (id, message) in sent {
            let (place, outcome) = (places.get(&**id).copied(), &outcomes[id]);
            let about =
                || format!("{kind} {actor} {id}: {:?}, {outcome:?}, {place:?}", message.fate);
            match message.fate {
                Fate::InDoubt => {}
                Fate::Stored => {
                    let dead = *outcome == Fate::Dead;
                    sim.check(Rule::Once, place.is_some() || dead, about);
                }
                Fate::Replied(reply) => sim.check(Rule::OwnReply, place == Some(reply), about),
                Fate::Dead => {
                    sim.check(Rule::Once, place.is_none() && *outcome == Fate::Dead, about);
                }
                Fate::Returned => sim.check(Rule::Once, place.is_none(), about),
            }
            // Handled, returned, dropped, or never stored: one of them.
            let right = match outcome {
                Fate::Replied(reply) => place == Some(*reply),
                Fate::Dead => place.is_none() && letters.contains(id),
                Fate::Returned => place.is_none(),
                _ => place.is_none() && message.fate != Fate::Stored,
            };
            sim.check(Rule::AllCounted, right, about);
            counted += usize::from(place.is_some());
        }
        sim.check(Rule::AllCounted, counted == log.len(), || {
            format!("{kind} {actor}: {} of {} were sent", counted, log.len())
        });
        let mut last = BTreeMap::<&str, u64>::new();
        for id in log {
            let Some(message) = sent.get(id).filter(|message| message.in_order) else { continue };
            let last = last.entry(&message.sender).or_default();
            sim.check(Rule::InOrder, *last <= message.number, || {
                format!("{kind} {actor}: {id} after {last}")
            });
            *last = message.number;
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

/// A time that a job's slot lasts at least.
pub fn until() -> Arc<Mutex<Instant>> {
    Arc::new(Mutex::new(Instant::now()))
}
