//! Searches all states of a lock with clients whose requests may be lost, late, or answered in
//! vain, and which may vanish; and with time that passes at any moment.
//!
//! The machine is the store's own source. Checked in each state: no client holds beside another
//! whose lease lasts, fences increase, a request that was given up is never granted again, and a
//! waiting request that asks again is granted.

#[path = "../../../crates/turnwise-redis/src/record.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod record;
#[path = "../../../crates/turnwise-redis/src/step.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, missing_docs, reason = "shared with the crate")]
mod step;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;

use record::Record;
use step::{Answer, Step, Token};

const CLIENTS: usize = 3;
/// Times are short: a lease is two ticks of the clock, a queue entry one.
const LEASE: u64 = 2;
const PLACE: u64 = 1;
const LAST: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    Idle,
    Asks,
    /// It holds, as far as it knows, until then.
    Holds {
        fence: u64,
        until: u64,
    },
    /// It has learned that it no longer holds.
    Lost,
    /// It has reported its end to the store.
    Left,
    /// It has vanished.
    Dead,
}

/// A message on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Acquire,
    Renew,
    Leave { late: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u64,
    record: Record,
    phases: [Phase; CLIENTS],
    /// Copies that no client waits for. They may arrive at any time.
    late: BTreeSet<(usize, Message)>,
    /// The greatest fence that was granted.
    newest: u64,
    /// The number of clients.
    clients: usize,
    /// The number of faults that may still occur.
    faults: u8,
}

/// Planted faults, each of which has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The client counts its lease from the answer instead of from the request.
    LeaseFromAnswer,
    /// A request that was given up while copies are on their way is not remembered.
    Forgets,
    /// A hold ends only by its release.
    LeaseForEver,
}

fn token(client: usize) -> Token {
    Token::new("c", client as u64)
}

fn ticks(count: u64) -> Duration {
    Duration::from_micros(count)
}

impl World {
    fn step(&mut self, fault: Fault, client: usize, message: Message) -> Answer {
        let lease = if fault == Fault::LeaseForEver { 1_000_000 } else { LEASE };
        let step = match message {
            Message::Acquire => Step::Acquire {
                token: token(client),
                lease: ticks(lease),
                alive: Some(ticks(PLACE)),
            },
            Message::Renew => Step::Renew { token: token(client), lease: ticks(lease) },
            Message::Leave { late } => {
                Step::Leave { token: token(client), late: late && fault != Fault::Forgets }
            }
        };
        let mut notices = Vec::new();
        // The machine's times begin at one: at zero everything is over.
        self.record.step(self.now + 1, 1, 0, &step, &mut notices)
    }

    /// The client gets an answer to a message that it sent at this time.
    fn learns(
        &mut self,
        fault: Fault,
        client: usize,
        sent: u64,
        answer: &Answer,
    ) -> Result<(), String> {
        match (*answer).clone() {
            Answer::Granted { fence, .. } => {
                let from = if fault == Fault::LeaseFromAnswer { self.now } else { sent };
                if let Phase::Holds { fence: has, .. } = self.phases[client]
                    && has != fence
                {
                    return Err(format!("{client} held by {has}, and by {fence} now"));
                }
                self.phases[client] = Phase::Holds { fence, until: from + LEASE };
            }
            Answer::Held => {
                if let Phase::Holds { until, .. } = &mut self.phases[client] {
                    *until = sent + LEASE;
                }
            }
            Answer::Lost => self.phases[client] = Phase::Lost,
            _ => {}
        }
        Ok(())
    }

    /// Checks that the clients' beliefs are right.
    fn check(&self) -> Result<(), String> {
        let held = |phase: &Phase| match phase {
            Phase::Holds { fence, until } if *until > self.now => Some(*fence),
            _ => None,
        };
        let holders: Vec<_> = self.phases.iter().filter_map(held).collect();
        match holders.len() {
            0 | 1 => Ok(()),
            _ => Err(format!("at once: {:?}", self.phases)),
        }
    }

    /// Returns all states that can come next.
    fn next(&self, fault: Fault) -> Result<Vec<World>, String> {
        let mut all = Vec::new();
        if self.now < LAST {
            all.push(World { now: self.now + 1, ..self.clone() });
        }
        for client in 0..self.clients {
            let phase = self.phases[client];
            let sends: &[Message] = match phase {
                Phase::Idle | Phase::Asks => &[Message::Acquire, Message::Leave { late: false }],
                Phase::Holds { .. } => &[Message::Renew, Message::Leave { late: false }],
                Phase::Lost => &[Message::Leave { late: false }],
                Phase::Left | Phase::Dead => &[],
            };
            for &send in sends {
                let leaves = matches!(send, Message::Leave { .. });
                if leaves && phase == Phase::Idle {
                    continue;
                }
                let mut sent = self.clone();
                sent.phases[client] = match (phase, leaves) {
                    (_, true) => Phase::Left,
                    (Phase::Idle, _) => Phase::Asks,
                    (phase, _) => phase,
                };
                // Copies of its request may be on their way, which it reports.
                let copies = self.late.contains(&(client, Message::Acquire));
                let send = if leaves { Message::Leave { late: copies } } else { send };
                // All goes well; or time passes between request and answer.
                for delay in 0..=u64::from(sent.now < LAST) {
                    let (mut well, asked) = (sent.clone(), sent.now);
                    let answer = well.step(fault, client, send);
                    well.now += delay;
                    // `learns` sees the time of the answer.
                    well.granted(&answer, &self.record)?;
                    well.learns(fault, client, asked, &answer)?;
                    all.push(well);
                }
                if sent.faults > 0 {
                    sent.faults -= 1;
                    // The request is late: it may arrive at any time, or never.
                    let mut late = sent.clone();
                    late.late.insert((client, send));
                    all.push(late);
                    // The answer is lost.
                    let mut lost = sent.clone();
                    let answer = lost.step(fault, client, send);
                    lost.granted(&answer, &self.record)?;
                    all.push(lost);
                }
            }
            if self.faults > 0 && !matches!(phase, Phase::Left | Phase::Dead) {
                let mut dead = self.clone();
                dead.faults -= 1;
                dead.phases[client] = Phase::Dead;
                all.push(dead);
            }
        }
        for &(client, message) in &self.late {
            let mut world = self.clone();
            world.late.remove(&(client, message));
            let left = self.phases[client] == Phase::Left;
            let knew = !self.late.contains(&(client, Message::Leave { late: true }));
            let answer = world.step(fault, client, message);
            world.granted(&answer, &self.record)?;
            if left && knew && matches!(answer, Answer::Granted { .. }) {
                return Err(format!("{client} has left, and is granted by a late copy"));
            }
            all.push(world);
        }
        Ok(all)
    }

    /// Checks that fences increase.
    fn granted(&mut self, answer: &Answer, before: &Record) -> Result<(), String> {
        if let Answer::Granted { fence, .. } = *answer {
            let again = self.newest == fence;
            if fence < self.newest {
                return Err(format!("{fence} after {}: {before:?}", self.newest));
            }
            self.newest = if again { self.newest } else { fence };
        }
        Ok(())
    }

    /// Checks that a request that asks again as time goes on is granted.
    fn ends_well(&self, fault: Fault) -> Result<(), String> {
        let Some(client) = self.phases.iter().position(|phase| *phase == Phase::Asks) else {
            return Ok(());
        };
        let mut world = self.clone();
        for _ in 0..40 {
            let answer = world.step(fault, client, Message::Acquire);
            if matches!(answer, Answer::Granted { .. } | Answer::Gone) {
                return Ok(());
            }
            // Its queue entry is refreshed before it is over: it asks twice a tick.
            world.now += PLACE;
        }
        Err(format!("{client} waits for ever: {self:?}"))
    }
}

/// Returns the number of reachable states, or the violation.
fn search(fault: Fault, clients: usize, faults: u8) -> Result<usize, String> {
    let first = World {
        now: 0,
        record: Record::default(),
        phases: [Phase::Idle; CLIENTS],
        late: BTreeSet::new(),
        newest: 0,
        clients,
        faults,
    };
    let mut seen = HashSet::from([first.clone()]);
    let mut open = VecDeque::from([first]);
    while let Some(world) = open.pop_front() {
        world.check()?;
        world.ends_well(fault)?;
        for next in world.next(fault)? {
            if seen.insert(next.clone()) {
                open.push_back(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn whatever_happens_one_holds_and_fences_increase() {
    for (clients, faults) in [(3, 1), (2, 2)] {
        let states = search(Fault::None, clients, faults).unwrap();
        println!("{clients} clients, {faults} faults: {states} states");
        assert!(states > 10_000, "{states}");
    }
}

#[test]
fn planted_faults_are_found() {
    for fault in [Fault::LeaseFromAnswer, Fault::Forgets, Fault::LeaseForEver] {
        let found = search(fault, 3, 1);
        println!("{fault:?}: {found:?}");
        assert!(found.is_err(), "{fault:?} was not found");
    }
}
