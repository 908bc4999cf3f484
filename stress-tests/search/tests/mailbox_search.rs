//! Searches all states of a mailbox with senders whose requests may be lost, late, or answered in
//! vain; with drainers that may vanish or stand still; and with time that passes at any moment.
//!
//! The machine is the store's own source. Checked in each state: no drainer runs beside another
//! whose lease lasts, as drainers believe it; the stored state has seen each message once, and
//! messages in their order; a withdrawn message has not begun and never does; and later drainers
//! find all messages.

#[path = "../../../crates/turnwise-redis/src/mailbox.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod mailbox;
#[path = "../../../crates/turnwise-redis/src/record.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod record;
#[path = "../../../crates/turnwise-redis/src/rows.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod rows;
#[path = "../../../crates/turnwise-redis/src/step.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, missing_docs, reason = "shared with the crate")]
mod step;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use mailbox::MailboxRow;
use step::{
    Advance, DrainClaim, Hand, MailboxAct, MailboxAnswer, MailboxSeen, MailboxStep, Progress,
    StoredMessage, Then, Token,
};

const CLIENTS: usize = 2;
const MESSAGES: usize = 2;
/// A lease is two ticks of the clock.
const LEASE: u64 = 2;
const LAST: u64 = 4;
/// Outcomes are kept longer than copies are late.
const KEPT: u64 = 1_000;

/// A message on its way to the store, without the client that sends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Request {
    Push { message: u8, claim: u64 },
    Claim { claim: u64 },
    Advance { fence: u64, number: u64, done: Vec<u8>, state: Vec<u8>, let_go: bool },
    Withdraw { message: u8 },
    Abandon { claim: u64 },
}

/// The phase of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    /// It has a message to send, or nothing to do.
    Idle { sent: bool },
    /// It has asked, and repeats that until it has an answer.
    Asks(Request),
    /// It drains, as far as it knows, until then.
    Drains { until: u64, fence: u64, number: u64, hand: Vec<u8>, done: Vec<u8>, state: Vec<u8> },
    /// It has vanished.
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u64,
    shard: BTreeMap<Arc<str>, Arc<MailboxRow>>,
    phases: [Phase; CLIENTS],
    /// The number of each client's next claim.
    claims: [u64; CLIENTS],
    /// Copies that no client waits for. They may arrive at any time.
    late: BTreeSet<(usize, Request)>,
    /// The number of times that each message has begun.
    begun: [u8; MESSAGES],
    /// True for each message that was reported to never run.
    withdrawn: [bool; MESSAGES],
    /// The maximum number of claims of a client.
    most_claims: u64,
    /// The number of withdrawals that may still occur.
    withdrawals: u8,
    /// The delay of each message, and when its push was first sent.
    delays: [u64; MESSAGES],
    sent: [Option<u64>; MESSAGES],
    /// The number of faults that may still occur.
    faults: u8,
}

/// Planted faults, each of which has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The drainer counts its lease from the answer instead of from the request.
    LeaseFromAnswer,
    /// A repeated step has a new number.
    NewNumber,
    /// The store forgets the drainer at the end of its lease, and what had begun.
    BegunForgotten,
    /// A mailbox is held until it is released.
    LeaseForEver,
    /// The state is stored with the step after the one that removes its messages.
    StateLater,
    /// A repeated push states no delay.
    DelayForgotten,
}

fn token(client: usize, claim: u64) -> Token {
    Token::new("c", client as u64 * 100 + claim)
}

fn ticks(count: u64) -> Duration {
    Duration::from_micros(count)
}

fn id(message: u8) -> String {
    format!("m{message}")
}

fn number(id: &str) -> u8 {
    id[1..].parse().unwrap()
}

impl World {
    fn step(&mut self, fault: Fault, client: usize, request: &Request) -> MailboxAnswer {
        let lease = if fault == Fault::LeaseForEver { 1_000_000 } else { LEASE };
        let drain = |claim| DrainClaim {
            token: token(client, claim),
            lease: ticks(lease),
            most: 2,
            attempts: 100,
            keep: ticks(KEPT),
        };
        let actor = "a".to_owned();
        let act = match request.clone() {
            Request::Push { message, claim } => MailboxAct::Push {
                delay: match fault {
                    Fault::DelayForgotten if self.sends_again(client) => Duration::ZERO,
                    _ => ticks(self.delays[usize::from(message)]),
                },
                actor,
                message: StoredMessage {
                    id: id(message),
                    name: String::new(),
                    body: Vec::new(),
                    asker: None,
                },
                claim: Some(drain(claim)),
            },
            Request::Claim { claim } => MailboxAct::Claim { actor, claim: drain(claim) },
            Request::Advance { fence, number, done, state, let_go } => {
                MailboxAct::Advance(Advance {
                    actor,
                    fence,
                    number,
                    done: done.iter().map(|message| vec![*message]).collect(),
                    state: Some(state),
                    failed: None,
                    keep: ticks(KEPT),
                    then: match let_go {
                        true => Then::LetGo { after: Duration::ZERO },
                        false => Then::Next { most: 2, lease: ticks(lease) },
                    },
                })
            }
            Request::Withdraw { message } => {
                MailboxAct::Withdraw { actor, message: id(message), late: true, keep: ticks(KEPT) }
            }
            Request::Abandon { claim } => {
                MailboxAct::Abandon { actor, token: token(client, claim) }
            }
        };
        if fault == Fault::BegunForgotten
            && matches!(act, MailboxAct::Claim { .. })
            && self.seen().1.is_none()
        {
            mailbox::forget_part(&mut self.shard, "a:a");
        }
        // The machine's times begin at one: at zero everything is over.
        let step = MailboxStep { shards: 1, act };
        mailbox::step(&mut self.shard, self.now + 1, &step, &mut Vec::new())
    }

    /// True if a client repeats a request.
    fn sends_again(&self, client: usize) -> bool {
        self.phases.get(client).is_some_and(|phase| matches!(phase, Phase::Asks(_)))
    }

    fn look(&mut self) -> MailboxSeen {
        let look = MailboxStep { shards: 1, act: MailboxAct::Look { actor: "a".to_owned() } };
        match mailbox::step(&mut self.shard, self.now + 1, &look, &mut Vec::new()) {
            MailboxAnswer::Seen(seen) => seen,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the stored state, and the drainer.
    fn seen(&mut self) -> (Vec<u8>, Option<Token>) {
        let seen = self.look();
        (seen.state.unwrap_or_default(), seen.drainer.map(|(token, _)| token))
    }

    /// The client gets an answer to a message that it sent at this time.
    fn learns(
        &mut self,
        fault: Fault,
        client: usize,
        sent: u64,
        request: &Request,
        answer: MailboxAnswer,
    ) -> Result<(), String> {
        let from = if fault == Fault::LeaseFromAnswer { self.now } else { sent };
        let until = from + LEASE;
        let idle = Phase::Idle { sent: true };
        self.phases[client] = match (request, answer) {
            (
                Request::Push { .. } | Request::Claim { .. },
                MailboxAnswer::Handed(Hand { fence, messages, state, .. }),
            ) => Phase::Drains {
                until,
                fence,
                number: 1,
                hand: messages.iter().map(|message| number(&message.id)).collect(),
                done: Vec::new(),
                state: state.unwrap_or_default(),
            },
            (
                Request::Advance { number: was, state, .. },
                MailboxAnswer::Handed(Hand { fence, messages, .. }),
            ) => Phase::Drains {
                until,
                fence,
                number: was + 1,
                hand: messages.iter().map(|message| number(&message.id)).collect(),
                done: Vec::new(),
                state: state.clone(),
            },
            (Request::Withdraw { message }, MailboxAnswer::Progress(Progress::Withdrawn)) => {
                self.withdrawn[usize::from(*message)] = true;
                idle
            }
            _ => idle,
        };
        Ok(())
    }

    /// Checks that the clients' beliefs are right.
    fn check(&mut self) -> Result<(), String> {
        let now = self.now;
        let drains = |phase: &&Phase| matches!(phase, Phase::Drains { until, .. } if *until > now);
        if self.phases.iter().filter(drains).count() > 1 {
            return Err(format!("at once: {:?}", self.phases));
        }
        let state = self.seen().0;
        let distinct: BTreeSet<_> = state.iter().collect();
        if distinct.len() < state.len() {
            return Err(format!("the state has seen one twice: {state:?}"));
        }
        for message in 0..MESSAGES {
            if self.withdrawn[message] && self.begun[message] > 0 {
                return Err(format!("{message} was withdrawn, and has begun"));
            }
        }
        // A handled message is in the state.
        for message in 0..MESSAGES as u8 {
            let progress = self.progress(message);
            if matches!(progress, Progress::Done(_)) && !state.contains(&message) {
                return Err(format!("{message} is done, and not in the state {state:?}"));
            }
            if state.contains(&message) && !matches!(progress, Progress::Done(_)) {
                return Err(format!("{message} is in the state, and {progress:?}"));
            }
        }
        Ok(())
    }

    fn progress(&mut self, message: u8) -> Progress {
        let act = MailboxAct::Outcome { actor: "a".to_owned(), message: id(message) };
        let step = MailboxStep { shards: 1, act };
        match mailbox::step(&mut self.shard, self.now + 1, &step, &mut Vec::new()) {
            MailboxAnswer::Progress(progress) => progress,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the requests that a client may send next.
    fn sends(&self, fault: Fault, client: usize) -> Vec<Request> {
        let claim = self.claims[client];
        match &self.phases[client] {
            Phase::Dead => Vec::new(),
            Phase::Idle { sent: false } => {
                vec![Request::Push { message: client as u8, claim }]
            }
            Phase::Idle { sent: true } => {
                let mut all = Vec::new();
                if claim < self.most_claims {
                    all.push(Request::Claim { claim });
                }
                if self.withdrawals > 0 {
                    all.push(Request::Withdraw { message: client as u8 });
                }
                all
            }
            Phase::Asks(request) => {
                let mut again = request.clone();
                if let (Fault::NewNumber, Request::Advance { number, .. }) = (fault, &mut again) {
                    *number += 1;
                }
                // Or it gives up what it has not begun: later copies are refused.
                match request {
                    Request::Claim { claim } => vec![again, Request::Abandon { claim: *claim }],
                    _ => vec![again],
                }
            }
            Phase::Drains { fence, number, hand, done, state, .. } => {
                let mut stored = state.clone();
                if fault == Fault::StateLater && !done.is_empty() {
                    stored.truncate(state.len() - done.len());
                }
                let advance = |let_go| Request::Advance {
                    fence: *fence,
                    number: *number,
                    done: done.clone(),
                    state: stored.clone(),
                    let_go,
                };
                match done.len() {
                    0 => vec![advance(true)],
                    some if some == hand.len() => vec![advance(false)],
                    _ => vec![advance(false), advance(true)],
                }
            }
        }
    }

    /// Returns all states that can come next.
    fn next(&self, fault: Fault) -> Result<Vec<World>, String> {
        let mut all = Vec::new();
        if self.now < LAST {
            all.push(World { now: self.now + 1, ..self.clone() });
        }
        for client in 0..CLIENTS {
            // The next message of its hand runs.
            if let Phase::Drains { until, hand, done, .. } = &self.phases[client]
                && *until > self.now
                && let Some(&message) = hand.get(done.len())
            {
                let mut world = self.clone();
                let index = usize::from(message);
                if self.sent[index].is_some_and(|sent| self.now < sent + self.delays[index]) {
                    return Err(format!("{message} has begun before its time: {self:?}"));
                }
                world.begun[index] += 1;
                if let Phase::Drains { done, state, .. } = &mut world.phases[client] {
                    done.push(message);
                    state.push(message);
                }
                all.push(world);
            }
            for request in self.sends(fault, client) {
                let mut sent = self.clone();
                if let Request::Push { message, .. } = &request
                    && self.delays[usize::from(*message)] > 0
                {
                    sent.sent[usize::from(*message)].get_or_insert(self.now);
                }
                match &request {
                    Request::Claim { .. } | Request::Push { .. }
                        if !matches!(self.phases[client], Phase::Asks(_)) =>
                    {
                        sent.claims[client] += 1;
                    }
                    Request::Withdraw { .. } if !matches!(self.phases[client], Phase::Asks(_)) => {
                        sent.withdrawals -= 1;
                    }
                    _ => {}
                }
                // All goes well; or time passes between request and answer.
                for delay in 0..=u64::from(sent.now < LAST) {
                    let (mut well, asked) = (sent.clone(), sent.now);
                    let answer = well.step(fault, client, &request);
                    well.now += delay;
                    well.learns(fault, client, asked, &request, answer)?;
                    all.push(well);
                }
                if sent.faults > 0 {
                    sent.faults -= 1;
                    sent.phases[client] = Phase::Asks(request.clone());
                    // The request is late: it may arrive at any time, or never.
                    let mut late = sent.clone();
                    late.late.insert((client, request.clone()));
                    all.push(late);
                    // The answer is lost.
                    let mut lost = sent.clone();
                    lost.step(fault, client, &request);
                    all.push(lost);
                }
            }
            if self.faults > 0 && self.phases[client] != Phase::Dead {
                let mut dead = self.clone();
                dead.faults -= 1;
                dead.phases[client] = Phase::Dead;
                all.push(dead);
            }
        }
        for copy in &self.late {
            let mut world = self.clone();
            world.late.remove(copy);
            world.step(fault, copy.0, &copy.1);
            all.push(world);
        }
        Ok(all)
    }

    /// Checks that a drainer that arrives when all others are gone finds all messages, in time.
    fn ends_well(&self, fault: Fault) -> Result<(), String> {
        let mut world = self.clone();
        for round in 0..20 {
            // A worker finds it, now or later.
            let (mut due, seen) = (world.clone(), world.look());
            let act = MailboxAct::Due {
                worker: token(CLIENTS, 49),
                alive: ticks(1),
                most: 1,
                grip: ticks(1),
            };
            let step = MailboxStep { shards: 1, act };
            let found = mailbox::step(&mut due.shard, world.now + 1, &step, &mut Vec::new());
            let nothing = matches!(&found, MailboxAnswer::Due { next: None, .. });
            if nothing && seen.waiting + seen.delayed > 0 {
                return Err(format!("it is never due: {world:?}"));
            }
            let request = Request::Claim { claim: 50 + round };
            let mut answer = world.step(fault, CLIENTS, &request);
            let mut number = 0;
            let (mut state, mut removed) = (world.seen().0, 0);
            while let MailboxAnswer::Handed(Hand { fence, messages, .. }) = answer {
                number += 1;
                let done: Vec<_> = messages.iter().map(|it| self::number(&it.id)).collect();
                removed += done.len();
                state.extend(&done);
                let advance =
                    Request::Advance { fence, number, done, state: state.clone(), let_go: false };
                answer = world.step(fault, CLIENTS, &advance);
            }
            if matches!(answer, MailboxAnswer::Empty) || removed > 0 {
                world.check()?;
                if world.look().delayed == 0 {
                    return Ok(());
                }
            }
            world.now += 1;
        }
        Err(format!("it is never drained: {self:?}"))
    }
}

/// Returns the number of reachable states, or the violation.
fn search(
    fault: Fault,
    faults: u8,
    withdrawals: u8,
    most_claims: u64,
    delays: [u64; MESSAGES],
) -> Result<usize, String> {
    let first = World {
        now: 0,
        shard: BTreeMap::new(),
        phases: [const { Phase::Idle { sent: false } }; CLIENTS],
        claims: [0; CLIENTS],
        late: BTreeSet::new(),
        begun: [0; MESSAGES],
        withdrawn: [false; MESSAGES],
        most_claims,
        withdrawals,
        delays,
        sent: [None; MESSAGES],
        faults,
    };
    // States are compared by their hashes: one of many billions may be taken for another one.
    let hashed = RandomState::new();
    let mut seen = HashSet::from([hashed.hash_one(&first)]);
    let mut open = vec![first];
    while let Some(mut world) = open.pop() {
        world.check()?;
        world.ends_well(fault)?;
        for next in world.next(fault)? {
            if seen.insert(hashed.hash_one(&next)) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn whatever_happens_each_message_is_seen_once() {
    for (faults, withdrawals, claims) in [(1, 0, 2), (1, 1, 1), (2, 0, 1)] {
        let states = search(Fault::None, faults, withdrawals, claims, [0, 0]).unwrap();
        println!("{faults} faults, {withdrawals} withdrawals, {claims} claims: {states} states");
        assert!(states > 10_000, "{states}");
    }
}

#[test]
fn delayed_messages_are_seen_once_and_not_before_their_time() {
    for (withdrawals, delays) in [(0, [0, 2]), (1, [1, 2])] {
        let states = search(Fault::None, 1, withdrawals, 1, delays).unwrap();
        println!("{withdrawals} withdrawals, delays {delays:?}: {states} states");
        assert!(states > 5_000, "{states}");
    }
}

#[test]
fn planted_faults_are_found() {
    for (fault, withdrawals, delays) in [
        (Fault::LeaseFromAnswer, 0, [0, 0]),
        (Fault::NewNumber, 0, [0, 0]),
        (Fault::BegunForgotten, 1, [0, 0]),
        (Fault::LeaseForEver, 0, [0, 0]),
        (Fault::StateLater, 0, [0, 0]),
        (Fault::DelayForgotten, 0, [0, 2]),
    ] {
        let found = search(fault, 1, withdrawals, 2, delays);
        println!("{fault:?}: {found:?}");
        assert!(found.is_err(), "{fault:?} was not found");
    }
}
