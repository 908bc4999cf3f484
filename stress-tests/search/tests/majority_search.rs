//! Searches all states of a lock by a majority of three nodes: two clients, whose messages may be
//! late, doubled or lost, and which may vanish; nodes whose clocks jump, and which may lose all
//! their data.
//!
//! The nodes are the store's own source. Clients follow `src/majority.rs`, in steps:
//!
//! ```text
//!  idle ─▶ asks: Acquire to all ─▶ a majority granted ─▶ confirms: Confirm { greatest fence + 1 }
//!                     │                                       │ to all
//!                     └──▶ gives up: Leave to all ◀───────────┤
//!                                   ▲                         ▼ a majority confirmed, in time
//!                                   └─────────────────────── holds ◀─▶ Confirm again: renews
//!                                                                   │
//!                                                                   └─▶ Acquire to the others
//! ```
//!
//! | rule |                                                                                     |
//! |------|-------------------------------------------------------------------------------------|
//! | SEARCH-1   | No two confirmed holds have the same fence.                                         |
//! | SEARCH-2   | A hold that was requested after another was confirmed has the greater fence.        |
//! | SEARCH-3   | At each node that confirms two holds, the later one there has the greater fence.    |
//! | SEARCH-4   | Clocks at one rate: each confirmed hold has a greater fence than all before.        |
//! | SEARCH-5   | Clocks at one rate: at most one client holds.                                       |
//! | SEARCH-6   | A fenced resource refuses writes of an earlier hold after one of a later hold.      |
//! | SEARCH-7   | A node whose first grant is still held confirms it, however late it was granted.    |
//!
//! SEARCH-1 to SEARCH-3 hold whatever clocks say, because two majorities share a node. There the
//! earlier fence was stored before the later hold was granted, which got a greater one; or the
//! earlier token no longer held there when its confirmation arrived, and it was refused.
//!
//! SEARCH-4 and SEARCH-5 need clocks: if one node's lease ends early, another client may hold while
//! the first one believes that it does, or is about to. That is why a resource compares fences. A
//! node that has lost its data knows no fence but its clock's. After it has stayed away for a
//! lease, that is greater than all, if clocks are not further apart than a lease.

#[path = "../../../crates/turnwise-redis/src/record.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the crate")]
mod record;
#[path = "../../../crates/turnwise-redis/src/step.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, missing_docs, reason = "shared with the crate")]
mod step;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use record::Record;
use step::{Answer, Step, Token};

const NODES: usize = 3;
const CLIENTS: usize = 2;
const MAJORITY: u32 = 2;
/// Times are short: a lease is two ticks.
const LEASE: u8 = 2;

/// Faults, and how many of each may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Faults {
    /// A copy of a message stays on its way, or an answer is lost.
    network: u8,
    /// A node's clock jumps.
    jumps: u8,
    /// A node loses all its data.
    losses: u8,
}

const NONE: Faults = Faults { network: 0, jumps: 0, losses: 0 };

/// Planted faults, each of which has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// The greatest fence of the first round is the hold's.
    OneRound,
    /// A node confirms any request.
    NoCheck,
    /// A node confirms by the fence alone, whatever request holds.
    NoToken,
    /// A node confirms by the token alone, although a late copy began another hold of it.
    NoFence,
    /// A node does not confirm a hold that it granted after the others, by a greater fence.
    OwnFence,
    /// One confirmation is enough.
    Minority,
    /// A node that has lost its data takes part at once.
    BackAtOnce,
    /// The grant of a hold that spreads counts as its confirmation.
    GrantCounts,
}

#[derive(Clone, Copy)]
struct Setting {
    planted: Planted,
    /// The initial offsets of the nodes' clocks.
    offsets: [i8; NODES],
    /// The distances by which a clock jumps.
    jumps: &'static [i8],
    /// True if clocks run at one rate: SEARCH-4 and SEARCH-5 are checked.
    honest: bool,
    /// True if clients confirm again.
    renews: bool,
    /// True if clients that were confirmed again ask the other nodes for their holds.
    spreads: bool,
    /// True if clients leave, and some nodes receive that.
    leaves: bool,
    /// True if SEARCH-1, SEARCH-2 and SEARCH-4 are left to the resource: SEARCH-6.
    writes: bool,
    /// True if SEARCH-7 is checked.
    grants: bool,
    faults: Faults,
    last: u8,
}

const USUAL: Setting = Setting {
    planted: Planted::Nothing,
    offsets: [0; NODES],
    jumps: &[],
    honest: true,
    renews: false,
    spreads: false,
    leaves: false,
    writes: false,
    grants: false,
    faults: NONE,
    last: 3,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// The number of its record in the table.
    record: u32,
    /// The offset of its clock.
    offset: i8,
    /// The time until which it stays away.
    away: u8,
    /// The fence that was confirmed last.
    confirmed: u8,
    /// The client of its first grant, a bit, or all bits if there was a second one: for SEARCH-7.
    granted: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Asks,
    Confirms { fence: u8, sent: u8, yes: u8 },
    Holds { fence: u8, until: u8 },
    Renews { fence: u8, until: u8, sent: u8, yes: u8 },
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    /// The fence that each node granted; 0: none yet.
    granted: [u8; NODES],
    /// The greatest fence that was confirmed when it began to ask.
    floor: u8,
}

impl Client {
    /// True if it was confirmed, and may confirm again.
    fn holds(&self) -> bool {
        matches!(self.phase, Phase::Holds { .. } | Phase::Renews { .. })
    }
}

/// A client that has left, given up or vanished.
const OVER: Client = Client { phase: Phase::Over, granted: [0; NODES], floor: 0 };

/// Kinds of messages: bits of those on their way.
const ACQUIRE: u8 = 1;
const CONFIRM: u8 = 2;
const LEAVE: u8 = 4;
const KINDS: [u8; 2] = [ACQUIRE, CONFIRM];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    nodes: [Node; NODES],
    clients: [Client; CLIENTS],
    /// Messages on their way, from each client to each node.
    net: [[u8; NODES]; CLIENTS],
    /// The fence that a client's confirmations carry.
    carried: [u8; CLIENTS],
    /// Fences of confirmed holds, a bit each.
    holds: u64,
    /// The greatest fence that the resource has seen, and its client.
    seen: (u8, u8),
    faults: Faults,
}

/// A record, its node's time, a client, the kind of its message, and its fence.
type Asked = (u32, u8, usize, u8, u8);

/// Records by number, and the results of steps on them.
#[derive(Default)]
struct Table {
    records: Vec<Record>,
    numbers: HashMap<Record, u32>,
    steps: HashMap<Asked, (u32, Said)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Granted(u8),
    Yes,
    No,
}

impl Table {
    fn number(&mut self, record: Record) -> u32 {
        let next = self.records.len() as u32;
        *self.numbers.entry(record).or_insert_with_key(|record| {
            self.records.push(record.clone());
            next
        })
    }

    fn step(&mut self, at: u32, now: u8, client: usize, kind: u8, fence: u8) -> (u32, Said) {
        if let Some(&known) = self.steps.get(&(at, now, client, kind, fence)) {
            return known;
        }
        let token = Token::new("c", client as u64);
        let lease = Duration::from_micros(LEASE.into());
        let step = match kind {
            ACQUIRE => Step::Acquire { token, lease, alive: None },
            CONFIRM => Step::Confirm { token, fence: fence.into(), lease },
            // A copy may arrive later.
            _ => Step::Leave { token, late: true },
        };
        let mut record = self.records[at as usize].clone();
        let said = match record.step(now.into(), 1, 0, &step, &mut Vec::new()) {
            Answer::Granted { fence, .. } => Said::Granted(fence.try_into().unwrap()),
            Answer::Held => Said::Yes,
            _ => Said::No,
        };
        let known = (self.number(record), said);
        self.steps.insert((at, now, client, kind, fence), known);
        known
    }

    /// A planted fault of a node: it confirms what its record would refuse.
    fn confirms(&mut self, world: &World, node: usize, planted: Planted, fence: u8) -> bool {
        let Node { record, offset, .. } = world.nodes[node];
        let now = (world.now as i8 + offset) as u64;
        let mut record = self.records[record as usize].clone();
        let Answer::Seen { fence: last, .. } = record.step(now, 1, 0, &Step::Look, &mut Vec::new())
        else {
            unreachable!()
        };
        match planted {
            Planted::NoCheck => true,
            Planted::NoToken => u64::from(fence) >= last,
            _ => false,
        }
    }

    /// True if a client holds at a node whose last fence is greater than this one.
    fn holds_above(&self, record: u32, now: u8, client: usize, fence: u8) -> bool {
        let mut record = self.records[record as usize].clone();
        match record.step(now.into(), 1, 0, &Step::Look, &mut Vec::new()) {
            Answer::Seen { holders, fence: last, .. } => {
                let token = Token::new("c", client as u64);
                holders.iter().any(|(_, by, _)| *by == token) && last > fence.into()
            }
            _ => unreachable!(),
        }
    }
}

impl World {
    fn first(setting: &Setting, table: &mut Table) -> World {
        let record = table.number(Record::default());
        let node = |offset| Node { record, offset, away: 0, confirmed: 0, granted: 0 };
        World {
            // Clocks that are behind are not below one.
            now: 4,
            nodes: setting.offsets.map(node),
            clients: [Client { phase: Phase::Idle, granted: [0; NODES], floor: 0 }; CLIENTS],
            net: [[0; NODES]; CLIENTS],
            carried: [0; CLIENTS],
            holds: 0,
            seen: (0, 0),
            faults: setting.faults,
        }
    }

    fn newest(&self) -> u8 {
        63 - (self.holds | 1).leading_zeros() as u8
    }

    /// Returns all states that can come next.
    fn next(&self, setting: &Setting, table: &mut Table) -> Result<Vec<World>, String> {
        let mut all = Vec::new();
        if self.now < 4 + setting.last {
            all.push(World { now: self.now + 1, ..*self });
        }
        for client in 0..CLIENTS {
            self.client_goes_on(setting, table, client, &mut all)?;
            for node in 0..NODES {
                for kind in KINDS {
                    if self.net[client][node] & kind != 0 {
                        self.comes(setting, table, client, node, kind, &mut all)?;
                    }
                }
            }
        }
        for node in 0..NODES {
            if self.faults.jumps > 0 {
                for &jump in setting.jumps {
                    let mut jumped = *self;
                    jumped.faults.jumps -= 1;
                    jumped.nodes[node].offset += jump;
                    all.push(jumped);
                }
            }
            if self.faults.losses > 0 {
                let mut lost = *self;
                lost.faults.losses -= 1;
                let at_once = setting.planted == Planted::BackAtOnce;
                let away = if at_once { 0 } else { self.now + LEASE };
                let Node { offset, .. } = self.nodes[node];
                lost.nodes[node] = Node { record: 0, offset, away, confirmed: 0, granted: 0 };
                all.push(lost);
            }
        }
        Ok(all)
    }

    /// Adds the steps that a client can make without a message.
    fn client_goes_on(
        &self,
        setting: &Setting,
        table: &mut Table,
        client: usize,
        all: &mut Vec<World>,
    ) -> Result<(), String> {
        let this = self.clients[client];
        let mut next = *self;
        match this.phase {
            Phase::Idle => {
                // The second client is not distinguished from the first, which begins.
                if client == 0 || self.clients[client - 1].phase != Phase::Idle {
                    next.clients[client].phase = Phase::Asks;
                    next.clients[client].floor = self.newest();
                    next.net[client] = [ACQUIRE; NODES];
                    all.push(next);
                }
                return Ok(());
            }
            Phase::Asks => {
                let granted = this.granted.iter().filter(|&&fence| fence > 0).count() as u32;
                if granted >= MAJORITY {
                    let greatest = *this.granted.iter().max().unwrap();
                    if setting.planted == Planted::OneRound {
                        next.confirmed(setting, client, greatest, self.now + LEASE)?;
                    } else {
                        let fence = greatest + 1;
                        next.carried[client] = fence;
                        (0..NODES).for_each(|node| next.net[client][node] |= CONFIRM);
                        let phase = Phase::Confirms { fence, sent: self.now, yes: 0 };
                        next.clients[client].phase = phase;
                        next.clients[client].granted = [0; NODES];
                    }
                    all.push(next);
                }
            }
            Phase::Confirms { fence, sent, yes } => {
                let enough = if setting.planted == Planted::Minority { 1 } else { MAJORITY };
                if yes.count_ones() >= enough && self.now < sent + LEASE {
                    next.confirmed(setting, client, fence, sent + LEASE)?;
                    all.push(next);
                }
            }
            Phase::Holds { fence, until } => {
                // It writes, whatever it believes: it may have been stopped just before.
                if setting.writes && self.seen.0 < fence {
                    let (last, by) = self.seen;
                    if last > 0 && self.clients[usize::from(by)].floor >= fence {
                        return Err(format!("W1: a write with {fence} after one with {last}"));
                    }
                    all.push(World { seen: (fence, client as u8), ..*self });
                }
                if setting.renews && self.now < until {
                    let sent = self.now;
                    next.clients[client].phase = Phase::Renews { fence, until, sent, yes: 0 };
                    next.carried[client] = fence;
                    (0..NODES).for_each(|node| next.net[client][node] |= CONFIRM);
                    all.push(next);
                }
            }
            Phase::Renews { fence, until, sent, yes } => {
                if yes.count_ones() >= MAJORITY && self.now < until.min(sent + LEASE) {
                    next.clients[client].phase = Phase::Holds { fence, until: sent + LEASE };
                    next.alone(setting)?;
                    all.push(next);
                    if setting.spreads && yes.count_ones() < NODES as u32 {
                        let others = (0..NODES).filter(|node| yes & 1 << node == 0);
                        others.for_each(|node| next.net[client][node] |= ACQUIRE);
                        all.push(next);
                    }
                }
            }
            Phase::Over => return Ok(()),
        }
        // It gives up or leaves: a node receives that, or does not.
        let mut over = *self;
        over.clients[client] = OVER;
        let told: &[u8] = if setting.leaves { &[0b000, 0b001, 0b011, 0b111] } else { &[0] };
        for heard in told {
            let mut left = over;
            for node in (0..NODES).filter(|node| heard & 1 << node != 0) {
                let at = self.nodes[node];
                let clock = (self.now as i8 + at.offset) as u8;
                left.nodes[node].record = table.step(at.record, clock, client, LEAVE, 0).0;
            }
            all.push(left);
        }
        Ok(())
    }

    /// A client has its hold.
    fn confirmed(
        &mut self,
        setting: &Setting,
        client: usize,
        fence: u8,
        until: u8,
    ) -> Result<(), String> {
        let Client { floor, .. } = self.clients[client];
        let newest = self.newest();
        if self.holds & 1 << fence != 0 && !setting.writes {
            return Err(format!("F1: fence {fence} twice"));
        }
        if fence <= floor && !setting.writes {
            return Err(format!("F2: fence {fence} was asked for after {floor} was confirmed"));
        }
        if setting.honest && fence <= newest && !setting.writes {
            return Err(format!("F4: fence {fence} after {newest}"));
        }
        self.holds |= 1 << fence;
        self.clients[client].phase = Phase::Holds { fence, until };
        self.clients[client].granted = [0; NODES];
        self.alone(setting)
    }

    fn alone(&self, setting: &Setting) -> Result<(), String> {
        let holds = |client: &Client| match client.phase {
            Phase::Holds { until, .. } | Phase::Renews { until, .. } => self.now < until,
            _ => false,
        };
        match setting.honest && self.clients.iter().all(holds) {
            true => Err(format!("M1: both hold: {:?}", self.clients)),
            false => Ok(()),
        }
    }

    /// A message arrives at its node.
    fn comes(
        &self,
        setting: &Setting,
        table: &mut Table,
        client: usize,
        node: usize,
        kind: u8,
        all: &mut Vec<World>,
    ) -> Result<(), String> {
        let mut came = *self;
        came.net[client][node] &= !kind;
        let at = self.nodes[node];
        if self.now < at.away {
            // The client is over: the message is lost.
            all.push(came);
            return Ok(());
        }
        let (clock, fence) = ((self.now as i8 + at.offset) as u8, self.carried[client]);
        let (record, mut said) = table.step(at.record, clock, client, kind, fence);
        came.nodes[node].record = record;
        if matches!(said, Said::Granted(_)) && setting.grants {
            let again = table.holds_above(at.record, clock, client, 0);
            came.nodes[node].granted = match at.granted {
                0 => 1 << client,
                _ if again => at.granted,
                _ => u8::MAX,
            };
        }
        if kind == CONFIRM {
            let planted = setting.planted;
            let above = table.holds_above(at.record, clock, client, fence);
            if planted == Planted::OwnFence && above {
                said = Said::No;
            }
            if above && said == Said::No && at.granted == 1 << client {
                return Err(format!(
                    "G1: {client} holds at {node}, which does not confirm {fence}"
                ));
            }
            if planted == Planted::NoFence && said == Said::No {
                // Whatever fence it was granted there, the answer is yes.
                let (_, asks) = table.step(at.record, clock, client, CONFIRM, u8::MAX);
                said = asks;
            }
            if said == Said::No && table.confirms(self, node, planted, fence) {
                said = Said::Yes;
            }
        }
        if setting.planted == Planted::GrantCounts
            && matches!(self.clients[client].phase, Phase::Renews { .. })
            && matches!(said, Said::Granted(_))
        {
            said = Said::Yes;
        }
        if said == Said::Yes && !matches!(setting.planted, Planted::NoCheck | Planted::NoToken) {
            if fence < at.confirmed {
                return Err(format!("F3: {fence} after {} at {node}", at.confirmed));
            }
            came.nodes[node].confirmed = fence;
        }
        // The answer is lost, or the client no longer waits for it.
        if self.faults.network > 0 {
            let mut lost = came;
            lost.faults.network -= 1;
            all.push(lost);
        }
        let learns = &mut came.clients[client];
        match (&mut learns.phase, said) {
            (Phase::Asks, Said::Granted(fence)) => learns.granted[node] = fence,
            (Phase::Confirms { yes, .. } | Phase::Renews { yes, .. }, Said::Yes) => {
                *yes |= 1 << node;
            }
            _ => {}
        }
        all.push(came);
        if self.faults.network > 0 {
            // A copy is still on its way.
            let mut copy = came;
            copy.net[client][node] |= kind;
            copy.faults.network -= 1;
            all.push(copy);
        }
        Ok(())
    }

    /// Normalizes the state: equal nodes are not distinguished, and what has no consequence is
    /// removed.
    fn plain(mut self, setting: &Setting, table: &mut Table) -> Option<World> {
        for client in 0..CLIENTS {
            let spreads = setting.spreads && self.clients[client].holds();
            // A node that has not granted it, and will not, confirms nothing.
            for node in 0..NODES {
                let Node { record, offset, .. } = self.nodes[node];
                let clock = (self.now as i8 + offset) as u8;
                if self.net[client][node] == CONFIRM
                    && !spreads
                    && !matches!(setting.planted, Planted::NoCheck | Planted::NoToken)
                    && !table.holds_above(record, clock, client, 0)
                {
                    self.net[client][node] = 0;
                }
            }
            let confirms = self.net[client].iter().any(|kinds| kinds & CONFIRM != 0);
            if !confirms && !self.clients[client].holds() {
                self.carried[client] = 0;
            }
        }
        // No client will be confirmed any more.
        let goes_on = |client: &Client| match client.phase {
            Phase::Holds { .. } => setting.renews || setting.writes,
            Phase::Over => false,
            _ => true,
        };
        if !self.clients.iter().any(goes_on) {
            return None;
        }
        let yes = |client: &Client| match client.phase {
            Phase::Confirms { yes, .. } | Phase::Renews { yes, .. } => yes,
            _ => 0,
        };
        let yeses = self.clients.each_ref().map(yes);
        let all_of = |node: usize| {
            let each =
                |c: usize| (self.net[c][node], self.clients[c].granted[node], yeses[c] >> node & 1);
            let Node { record, offset, away, confirmed, granted } = self.nodes[node];
            ((record, offset, away, confirmed, granted), each(0), each(1))
        };
        let mut order = [0, 1, 2];
        order.sort_unstable_by_key(|&node| all_of(node));
        let mut plain = self;
        plain.nodes = order.map(|node| self.nodes[node]);
        for (c, yes_of) in yeses.into_iter().enumerate() {
            plain.net[c] = order.map(|node| self.net[c][node]);
            plain.clients[c].granted = order.map(|node| self.clients[c].granted[node]);
            if let Phase::Confirms { yes, .. } | Phase::Renews { yes, .. } =
                &mut plain.clients[c].phase
            {
                *yes = (0..NODES).map(|node| (yes_of >> order[node] & 1) << node).sum();
            }
        }
        Some(plain)
    }
}

/// Returns the number of visited states, or the violation.
fn search(setting: &Setting) -> Result<usize, String> {
    let mut table = Table::default();
    let first = World::first(setting, &mut table);
    let mut seen = HashSet::from([first]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        for next in world.next(setting, &mut table)? {
            let Some(next) = next.plain(setting, &mut table) else { continue };
            if seen.insert(next) {
                open.push(next);
            }
            assert!(seen.len() < 4_000_000, "more than this test has time for");
        }
    }
    Ok(seen.len())
}

const NETWORK: Faults = Faults { network: 1, ..NONE };
const JUMP: Faults = Faults { jumps: 1, ..NONE };
const LOSS: Faults = Faults { losses: 1, ..NONE };
const TWO_TICKS: Setting = Setting { last: 2, ..USUAL };
const SPREADS: Setting = Setting { renews: true, spreads: true, ..TWO_TICKS };

/// Checks that all of these searches find no violation.
fn all_is_well(settings: &[(&str, Setting)]) {
    for (what, setting) in settings {
        // Without optimization there is time for one tick less.
        let last = setting.last - u8::from(cfg!(debug_assertions));
        let states = search(&Setting { last, ..*setting });
        let states = states.unwrap_or_else(|error| panic!("{what}: {error}"));
        println!("{what}: {states} states");
        assert!(states > 1_000, "{what}: {states}");
    }
}

#[test]
fn with_clocks_that_run_alike_one_holds_and_fences_increase() {
    all_is_well(&[
        ("time", Setting { grants: true, ..USUAL }),
        ("messages late and twice, answers lost", Setting { faults: NETWORK, ..TWO_TICKS }),
        ("clients let go", Setting { leaves: true, ..TWO_TICKS }),
        ("clients renew", Setting { renews: true, grants: true, ..TWO_TICKS }),
        ("holds spread", Setting { grants: true, ..SPREADS }),
        ("a node forgets, and stays away for a lease", Setting { faults: LOSS, ..USUAL }),
        (
            "the same, clocks are apart by less than that",
            Setting { faults: LOSS, offsets: [0, 0, 1], ..TWO_TICKS },
        ),
        ("a node forgets, and holds spread to it", Setting { faults: LOSS, ..SPREADS }),
    ]);
}

#[test]
fn whatever_clocks_say_fences_increase() {
    let lies = Setting { honest: false, ..TWO_TICKS };
    let apart = Setting { offsets: [0, 0, 3], ..lies };
    all_is_well(&[
        ("a clock jumps", Setting { jumps: &[-3, 2], faults: JUMP, ..lies }),
        ("clocks are apart", Setting { offsets: [-3, 0, 3], grants: true, ..lies }),
        ("clocks are apart, clients write", Setting { writes: true, ..apart }),
        ("clocks are apart, clients renew", Setting { renews: true, grants: true, ..apart }),
        (
            "clocks are apart, messages late and twice",
            Setting { faults: NETWORK, grants: true, ..apart },
        ),
        ("clocks are apart, holds spread", Setting { renews: true, spreads: true, ..apart }),
    ]);
}

/// The limits of `Majority`: not everything holds without clocks.
#[test]
fn what_clocks_can_break_is_found() {
    // A lease ends early at one node: two hold at once.
    let jumps = search(&Setting { jumps: &[3], faults: JUMP, ..TWO_TICKS });
    println!("a clock jumps: {jumps:?}");
    assert!(jumps.unwrap_err().starts_with("M1"));
    // A node forgets, and stays away for a lease; but clocks are further apart than that.
    let apart = Setting { offsets: [0, 0, 3], honest: false, ..TWO_TICKS };
    let forgets = search(&Setting { faults: LOSS, ..apart });
    println!("a node forgets, clocks are apart: {forgets:?}");
    assert!(forgets.is_err());
}

#[test]
fn planted_faults_are_found() {
    use Planted::*;
    let apart = Setting { offsets: [0, 0, 2], ..USUAL };
    for (planted, setting) in [
        (OneRound, apart),
        (OneRound, Setting { writes: true, honest: false, ..apart }),
        (NoCheck, Setting { faults: NETWORK, ..apart }),
        (NoToken, Setting { faults: NETWORK, ..apart }),
        (NoFence, Setting { faults: NETWORK, leaves: true, ..TWO_TICKS }),
        (OwnFence, Setting { grants: true, ..USUAL }),
        (Minority, apart),
        (BackAtOnce, Setting { faults: LOSS, ..TWO_TICKS }),
        (GrantCounts, Setting { offsets: [0, 0, 3], honest: false, ..SPREADS }),
    ] {
        let found = search(&Setting { planted, ..setting });
        println!("{planted:?}: {found:?}");
        assert!(!setting.writes || matches!(&found, Err(error) if error.starts_with("W1")));
        assert!(found.is_err(), "{planted:?} was not found");
    }
}
