//! Searches all states of an admission with clients whose requests may be lost, late, or answered
//! in vain, and which may vanish; and with time that passes at any moment.
//!
//! The machine is the store's own source. Checked in each state:
//!
//! - rows and reservations never exceed the places, and each has a place of its own;
//! - the answer "in" has exactly one row, in that place; the answer "not in" has none;
//! - no reservation becomes a row after its lease, and fences increase;
//! - a request is decided when it asks again, and no place is lost for good.

#[path = "../../../crates/turnwise-redis/src/admission_record.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod admission_record;
#[path = "../../../crates/turnwise-redis/src/record.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod record;
#[path = "../../../crates/turnwise-redis/src/rows.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod rows;
#[path = "../../../crates/turnwise-redis/src/step.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, missing_docs, reason = "shared with the crate")]
mod step;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use admission_record::{HEAD, StoredRow};
use step::{AdmissionAct, AdmissionAnswer, AdmissionRow, AdmissionStep, Claim, Standing, Token};

/// Times are short: a lease is two ticks of the clock, a queue entry one.
const LEASE: u64 = 2;
const PLACE: u64 = 1;
const LAST: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    Idle,
    Asks,
    /// It has a place, as far as it knows, until then.
    Holds {
        place: u64,
        fence: u64,
        until: u64,
    },
    /// It was answered that it is in.
    In {
        place: u64,
        fence: u64,
    },
    /// Its reservation was over: it was answered that it is not in.
    Lost,
    /// It gives up, and does not know the outcome yet.
    Leaves,
    /// It was answered that it is not in.
    Out,
    /// It has vanished.
    Dead,
}

/// A message on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Take,
    Keep { fence: u64 },
    Confirm { fence: u64 },
    Cancel { late: bool },
}

/// The role of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Role {
    applicant: &'static str,
    /// It reserves a place first, and writes the row later.
    reserves: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    /// Copies of its messages may be on their way, as far as it knows.
    late: bool,
    /// The end of its reservation, as the store has it.
    leased: u64,
    /// For planted faults: the number of its requests, and whether it has counted and found a
    /// place.
    asked: u8,
    counted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u64,
    limit: u64,
    admission: BTreeMap<Arc<str>, Arc<StoredRow>>,
    clients: Vec<Client>,
    /// Copies that no client waits for. They may arrive at any time.
    late: BTreeSet<(usize, Message)>,
    /// The greatest fence that was issued.
    newest: u64,
    /// The number of faults that may still occur.
    faults: u8,
}

/// Planted faults, each of which has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A step of its own checks for a free place.
    CountsApart,
    /// A repeated request is taken for a new one.
    RepeatCounts,
    /// A reservation is confirmed although it is over.
    ConfirmsTheExpired,
    /// A request that was given up while copies are on their way is not remembered.
    Forgets,
    /// The client counts its lease from the answer instead of from the request.
    LeaseFromAnswer,
    /// A confirmation applies to whatever the request has reserved now.
    ConfirmsAnyFence,
    /// Keeping applies to whatever the request has reserved now.
    KeepsAnyFence,
}

fn ticks(count: u64) -> Duration {
    Duration::from_micros(count)
}

fn step(
    admission: &mut BTreeMap<Arc<str>, Arc<StoredRow>>,
    now: u64,
    limit: u64,
    act: AdmissionAct,
) -> AdmissionAnswer {
    // The machine's times begin at one: at zero everything is over.
    let step = AdmissionStep { limit, act };
    admission_record::step(admission, now + 1, &step, &mut Vec::new())
}

fn claim(number: usize, applicant: &str) -> Claim {
    Claim { token: Token::new("c", number as u64), applicant: applicant.to_owned() }
}

impl World {
    fn ask(&mut self, act: AdmissionAct) -> AdmissionAnswer {
        step(&mut self.admission, self.now, self.limit, act)
    }

    /// Asks an admission that checks no limit.
    fn ask_unlimited(&mut self, act: AdmissionAct) -> AdmissionAnswer {
        self.set_limit(self.limit + 10);
        let answer = step(&mut self.admission, self.now, self.limit + 10, act);
        self.set_limit(self.limit);
        answer
    }

    fn set_limit(&mut self, limit: u64) {
        if let Some(StoredRow::Head(head)) = self.admission.get_mut(HEAD).map(Arc::make_mut) {
            head.limit = limit;
        }
    }

    fn free(&self) -> bool {
        let mut admission = self.admission.clone();
        match step(&mut admission, self.now, self.limit, AdmissionAct::Look) {
            AdmissionAnswer::Seen(seen) => seen.admitted + seen.reserved < self.limit,
            _ => false,
        }
    }

    /// Executes a message in the store.
    fn does(
        &mut self,
        fault: Fault,
        roles: &[Role],
        client: usize,
        message: Message,
    ) -> Result<AdmissionAnswer, String> {
        let Role { applicant, reserves } = roles[client];
        let mut claim = claim(client, applicant);
        let row = vec![client as u8];
        let before = self.rows().len();
        let answer = match message {
            Message::Take => {
                if fault == Fault::RepeatCounts {
                    let asked = &mut self.clients[client].asked;
                    *asked += 1;
                    claim = self::claim(10 * (client + 1) + usize::from(*asked), applicant);
                    claim.applicant += &asked.to_string();
                }
                let alive = Some(ticks(PLACE));
                match reserves {
                    true => self.ask(AdmissionAct::Reserve { claim, lease: ticks(LEASE), alive }),
                    false if fault == Fault::CountsApart => {
                        if self.clients[client].counted {
                            self.ask_unlimited(AdmissionAct::Admit { claim, row, alive })
                        } else {
                            self.clients[client].counted = self.free();
                            AdmissionAnswer::Busy { busy: Duration::ZERO }
                        }
                    }
                    false => self.ask(AdmissionAct::Admit { claim, row, alive }),
                }
            }
            Message::Keep { fence } => {
                let (lease, alive) = (ticks(LEASE), ticks(PLACE));
                let fence = if fault == Fault::KeepsAnyFence { 0 } else { fence };
                self.ask(AdmissionAct::Keep { claims: vec![(claim, fence)], lease, alive })
            }
            Message::Confirm { fence } => {
                let act = AdmissionAct::Confirm { claim: claim.clone(), fence, row: row.clone() };
                match (self.ask(act), fault) {
                    (AdmissionAnswer::Lost, Fault::ConfirmsTheExpired) => {
                        self.ask_unlimited(AdmissionAct::Admit { claim, row, alive: None })
                    }
                    (AdmissionAnswer::Lost, Fault::ConfirmsAnyFence) => {
                        let fences = (1..=self.newest).rev();
                        let mut answers = fences.map(|fence| {
                            let (claim, row) = (claim.clone(), row.clone());
                            self.ask(AdmissionAct::Confirm { claim, fence, row })
                        });
                        answers
                            .find(|it| *it != AdmissionAnswer::Lost)
                            .unwrap_or(AdmissionAnswer::Lost)
                    }
                    (answer, _) => answer,
                }
            }
            Message::Cancel { late } => {
                let late = late && fault != Fault::Forgets;
                self.ask(AdmissionAct::Cancel { claim, late })
            }
        };
        if let AdmissionAnswer::Admitted { fence, .. } | AdmissionAnswer::Reserved { fence, .. } =
            answer
        {
            self.newest = self.newest.max(fence);
        }
        let leased = self.clients[client].leased;
        let confirms = matches!(message, Message::Confirm { .. });
        if confirms && self.rows().len() > before && leased <= self.now {
            return Err(format!("{client} was confirmed at {}, and leased to {leased}", self.now));
        }
        let holds = |standing: &Standing| *standing == Standing::Holds;
        match &answer {
            AdmissionAnswer::Reserved { .. } => self.clients[client].leased = self.now + LEASE,
            AdmissionAnswer::Standings { standings, .. } if standings.iter().all(holds) => {
                self.clients[client].leased = self.now + LEASE;
            }
            _ => {}
        }
        Ok(answer)
    }

    /// The client gets an answer to a message that it sent at this time.
    fn learns(
        &mut self,
        fault: Fault,
        client: usize,
        sent: u64,
        (message, answer): (Message, AdmissionAnswer),
    ) -> Result<(), String> {
        let from = if fault == Fault::LeaseFromAnswer { self.now } else { sent };
        let phase = &mut self.clients[client].phase;
        let cancels = matches!(message, Message::Cancel { .. });
        *phase = match (answer, *phase) {
            (
                AdmissionAnswer::Admitted { place, fence },
                Phase::Holds { place: at, fence: has, .. },
            ) if (place, fence) != (at, has) => {
                return Err(format!(
                    "{client} reserved {at} by {has}, and is in {place} by {fence}"
                ));
            }
            (AdmissionAnswer::Admitted { place, fence }, _) => Phase::In { place, fence },
            (AdmissionAnswer::Reserved { place, fence }, _) => {
                Phase::Holds { place, fence, until: from + LEASE }
            }
            (AdmissionAnswer::Standings { standings, .. }, Phase::Holds { place, fence, .. }) => {
                match standings[0] {
                    Standing::Holds => Phase::Holds { place, fence, until: from + LEASE },
                    _ => Phase::Lost,
                }
            }
            (AdmissionAnswer::Lost, _) => Phase::Lost,
            (AdmissionAnswer::Closed { .. } | AdmissionAnswer::Duplicate { .. }, _) => Phase::Out,
            (AdmissionAnswer::Gone, phase) => {
                return Err(format!("{client} was refused as gone, and was {phase:?}"));
            }
            (_, _) if cancels => Phase::Out,
            (_, phase) => phase,
        };
        Ok(())
    }

    fn rows(&self) -> Vec<AdmissionRow> {
        let mut admission = self.admission.clone();
        match step(&mut admission, self.now, self.limit, AdmissionAct::Rows { from: 0, most: 100 })
        {
            AdmissionAnswer::Rows(rows) => rows,
            _ => Vec::new(),
        }
    }

    fn check(&self) -> Result<(), String> {
        let rows = self.rows();
        let wrong =
            |why: &str| Err(format!("{why}: {rows:?} of {}, {:?}", self.limit, self.clients));
        let mut admission = self.admission.clone();
        let AdmissionAnswer::Seen(seen) =
            step(&mut admission, self.now, self.limit, AdmissionAct::Look)
        else {
            return wrong("no look");
        };
        if rows.len() as u64 != seen.admitted || seen.admitted + seen.reserved > self.limit {
            return wrong("over the limit");
        }
        let places = rows.iter().map(|row| row.place);
        let places: BTreeSet<_> = places.filter(|place| (1..=self.limit).contains(place)).collect();
        let who: BTreeSet<_> = rows.iter().map(|row| &row.row).collect();
        let applicants: BTreeSet<_> = rows.iter().map(|row| &row.applicant).collect();
        if [places.len(), who.len(), applicants.len()] != [rows.len(); 3] {
            return wrong("two in a place, or one in two");
        }
        let mut taken = BTreeSet::new();
        for (index, client) in self.clients.iter().enumerate() {
            let row = rows.iter().find(|row| row.row == [index as u8]);
            match client.phase {
                Phase::In { place, fence }
                    if row.map(|row| (row.place, row.fence)) != Some((place, fence)) =>
                {
                    return wrong("told in, and is not");
                }
                Phase::In { place, .. } if !taken.insert(place) => return wrong("two in a place"),
                Phase::Holds { place, until, .. } if until > self.now && !taken.insert(place) => {
                    return wrong("two have a place");
                }
                Phase::Out | Phase::Lost if row.is_some() => return wrong("told out, and is in"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns all states that can come next.
    fn next(&self, fault: Fault, roles: &[Role]) -> Result<Vec<World>, String> {
        let mut all = Vec::new();
        if self.now < LAST {
            all.push(World { now: self.now + 1, ..self.clone() });
        }
        for (client, Client { phase, late, .. }) in self.clients.iter().enumerate() {
            let (phase, cancel) = (*phase, Message::Cancel { late: *late });
            let sends = match phase {
                Phase::Idle => vec![Message::Take],
                Phase::Asks => vec![Message::Take, Message::Keep { fence: 0 }, cancel],
                Phase::Holds { fence, .. } => {
                    vec![Message::Keep { fence }, Message::Confirm { fence }, cancel]
                }
                Phase::Lost | Phase::Leaves => vec![cancel],
                Phase::In { .. } | Phase::Out | Phase::Dead => vec![],
            };
            for send in sends {
                let mut sent = self.clone();
                let me = &mut sent.clients[client];
                me.phase = match (phase, send) {
                    (_, Message::Cancel { .. }) if phase != Phase::Lost => Phase::Leaves,
                    (Phase::Idle, _) => Phase::Asks,
                    (phase, _) => phase,
                };
                // All goes well; or time passes between request and answer.
                for delay in 0..=u64::from(sent.now < LAST) {
                    let (mut well, asked) = (sent.clone(), sent.now);
                    let answer = well.does(fault, roles, client, send)?;
                    well.new_fence(self, &answer)?;
                    well.now += delay;
                    well.learns(fault, client, asked, (send, answer))?;
                    all.push(well);
                }
                if sent.faults > 0 {
                    sent.faults -= 1;
                    sent.clients[client].late = true;
                    // The request is late: it may arrive at any time, or never.
                    let mut late = sent.clone();
                    late.late.insert((client, send));
                    all.push(late);
                    // The answer is lost.
                    let mut lost = sent.clone();
                    let answer = lost.does(fault, roles, client, send)?;
                    lost.new_fence(self, &answer)?;
                    all.push(lost);
                }
            }
            let over = matches!(phase, Phase::In { .. } | Phase::Out | Phase::Dead);
            if self.faults > 0 && !over {
                let mut dead = self.clone();
                dead.faults -= 1;
                dead.clients[client].phase = Phase::Dead;
                all.push(dead);
            }
        }
        for &(client, message) in &self.late {
            let mut world = self.clone();
            world.late.remove(&(client, message));
            let answer = world.does(fault, roles, client, message)?;
            world.new_fence(self, &answer)?;
            all.push(world);
        }
        Ok(all)
    }

    /// Checks that a new fence is greater than all before.
    fn new_fence(&self, before: &World, answer: &AdmissionAnswer) -> Result<(), String> {
        let (AdmissionAnswer::Admitted { fence, .. } | AdmissionAnswer::Reserved { fence, .. }) =
            *answer
        else {
            return Ok(());
        };
        let known = before.rows().iter().any(|row| row.fence == fence)
            || before.clients.iter().any(|client| match client.phase {
                Phase::Holds { fence: has, .. } | Phase::In { fence: has, .. } => has == fence,
                // That may have been the answer that was lost.
                _ => client.late || client.phase == Phase::Asks,
            });
        match fence <= before.newest && !known {
            true => Err(format!("{fence} after {}", before.newest)),
            false => Ok(()),
        }
    }

    /// Checks that a request that asks again as time goes on is decided.
    fn is_decided(&self, fault: Fault, roles: &[Role]) -> Result<(), String> {
        for (client, it) in self.clients.iter().enumerate() {
            if it.phase != Phase::Asks {
                continue;
            }
            let mut world = self.clone();
            let decided = (0..20).any(|_| {
                // It asks twice a tick, so its queue entry is kept.
                let answer = world.does(fault, roles, client, Message::Take);
                world.now += PLACE;
                !matches!(
                    answer,
                    Ok(AdmissionAnswer::Queued { .. } | AdmissionAnswer::Pending { .. })
                )
            });
            if !decided {
                return Err(format!("{client} waits for ever: {self:?}"));
            }
        }
        Ok(())
    }

    /// Checks that others get all places when all reservations are over.
    fn loses_no_place(&self) -> Result<(), String> {
        let mut world = World { now: self.now + 100, ..self.clone() };
        let mut left = self.limit - self.rows().len() as u64;
        for number in 100.. {
            let claim = claim(number, &number.to_string());
            match world.ask(AdmissionAct::Admit { claim, row: Vec::new(), alive: None }) {
                AdmissionAnswer::Admitted { .. } if left > 0 => left -= 1,
                AdmissionAnswer::Closed { .. } if left == 0 => return Ok(()),
                other => return Err(format!("{other:?}, and {left} are left: {self:?}")),
            }
        }
        Ok(())
    }
}

/// Returns the number of reachable states, or the violation.
fn search(fault: Fault, roles: &[Role], limit: u64, faults: u8) -> Result<usize, String> {
    let client = Client { phase: Phase::Idle, late: false, leased: 0, asked: 0, counted: false };
    let first = World {
        now: 0,
        limit,
        admission: BTreeMap::new(),
        clients: vec![client; roles.len()],
        late: BTreeSet::new(),
        newest: 0,
        faults,
    };
    let mut seen = HashSet::from([first.clone()]);
    let mut open = VecDeque::from([first]);
    while let Some(world) = open.pop_front() {
        world.check()?;
        if fault == Fault::None {
            world.is_decided(fault, roles)?;
            world.loses_no_place()?;
        }
        for next in world.next(fault, roles)? {
            if seen.insert(next.clone()) {
                open.push_back(next);
            }
        }
    }
    Ok(seen.len())
}

const fn admits(applicant: &'static str) -> Role {
    Role { applicant, reserves: false }
}

const fn reserves(applicant: &'static str) -> Role {
    Role { applicant, reserves: true }
}

type Case = (&'static [Role], u64, u8);

const RESERVE: Case = (&[reserves("a"), reserves("b")], 1, 2);
const MIXED: Case = (&[reserves("a"), admits("b")], 1, 2);
const TWICE: Case = (&[admits("a"), reserves("b"), admits("a")], 2, 1);
const THREE: Case = (&[admits("a"), reserves("b"), admits("c")], 1, 1);
const ROOM: Case = (&[admits("a"), reserves("b")], 2, 2);

#[test]
fn whatever_happens_the_books_balance() {
    for (roles, limit, faults) in [RESERVE, MIXED, TWICE, THREE, ROOM] {
        let states = search(Fault::None, roles, limit, faults).unwrap();
        println!("{} clients, {limit} places, {faults} faults: {states} states", roles.len());
        assert!(states > 5_000, "{states}");
    }
}

#[test]
fn planted_faults_are_found() {
    for (fault, (roles, limit, faults)) in [
        (Fault::CountsApart, MIXED),
        (Fault::RepeatCounts, ROOM),
        (Fault::ConfirmsTheExpired, RESERVE),
        (Fault::Forgets, MIXED),
        (Fault::LeaseFromAnswer, RESERVE),
        (Fault::ConfirmsAnyFence, ROOM),
        (Fault::KeepsAnyFence, ROOM),
    ] {
        let found = search(fault, roles, limit, faults);
        println!("{fault:?}: {found:?}");
        assert!(found.is_err(), "{fault:?} was not found");
    }
}
