//! A search of all states of a lock's machine, breadth first.
//!
//! Clients enter, leave, give up, are withdrawn; time passes, leases end, holds are forced or made
//! lighter, the room changes: in every order. The machine is the real one of `src/lock/machine.rs`.
//! Giving up is two steps, as it is outside: a client cancels first, and says so later; the machine
//! may meet its ticket in between.
//!
//! Checked at every step: none is let in beyond the capacity, nor before one that came earlier and
//! still waits; fences increase; every request ends once; what was taken away is reported,
//! and nothing else is; entries of an owner are counted; what the machine shows is so. Checked in
//! every state: no room is left unused, no owner waits for itself, and when all who hold leave, all
//! who wait are let in, until nothing is left.
//!
//! With `TURNWISE_SEARCH_ALL` set, there is one more client in each, and more that have gone:
//! `TURNWISE_SEARCH_ALL=1 cargo test --release -p turnwise-locks --test machine_search`.
//!
//! A program of its own: `machine.rs` names what is at the root of its crate.

#[allow(dead_code)]
#[path = "../src/estimate.rs"]
mod estimate;
#[allow(dead_code)]
#[path = "../src/lock/machine.rs"]
mod machine;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use machine::{Entered, Host, LOOKS, LetIn, Machine, Refusal, Request, Term};

/// Room for many readers, or for one writer.
const ALL: u64 = 9;

/// Something that is wrong on purpose, to see the search find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The youngest is let in.
    Lifo,
    /// A cancelled request is let in, and the grant is lost.
    GrantToTheGone,
    /// An overdue hold stays.
    LeaseStays,
    /// The request after an expiry gets the old fence.
    OldFence,
    /// A hold weighs nothing.
    TwoHolders,
    /// No step says that the head has gone.
    GivesUpUnsaid,
    /// A writer goes on as a reader and keeps the room.
    DowngradeUnsaid,
    /// A refused request gets no answer.
    RefusedIsForgotten,
}

/// The kind of a client's request.
#[derive(Clone, Copy, Debug)]
struct Way {
    weight: u64,
    owner: Option<u64>,
    immediate: bool,
    /// It waits for so long.
    wait: Option<u64>,
    lease: Option<u64>,
}

const PLAIN: Way = Way { weight: 1, owner: None, immediate: false, wait: None, lease: None };

const fn of(weight: u64) -> Way {
    Way { weight, ..PLAIN }
}

#[derive(Clone, Copy, Debug)]
struct Scenario<'a> {
    name: &'static str,
    capacity: u64,
    /// The requests that each client may make, one at a time.
    clients: &'a [&'a [Way]],
    /// The capacities that it is changed to.
    resizes: &'a [u64],
    time: bool,
    force: bool,
    lighten: bool,
    withdraw: bool,
    /// Those that have waited, and have no lease, are lent what they ask for.
    lends: bool,
    /// The most requests that have gone, and have said so, in the queue.
    ghosts: usize,
    /// The requests that are there from the beginning, behind the first client.
    from: usize,
}

const BASE: Scenario<'static> = Scenario {
    name: "",
    capacity: 1,
    clients: &[],
    resizes: &[],
    time: false,
    force: false,
    lighten: false,
    withdraw: false,
    lends: false,
    ghosts: 2,
    from: 0,
};

const TRY: Way = Way { immediate: true, ..PLAIN };
const SHORT: Way = Way { wait: Some(1), ..PLAIN };
const LONG: Way = Way { wait: Some(2), ..PLAIN };
const LEASED: Way = Way { lease: Some(1), ..PLAIN };
const MINE: Way = Way { owner: Some(1), ..PLAIN };
const MINE_LEASED: Way = Way { owner: Some(1), lease: Some(1), ..PLAIN };
const YOURS: Way = Way { owner: Some(2), ..PLAIN };
const MY_WRITE: Way = Way { owner: Some(1), ..of(ALL) };
const MY_TRY: Way = Way { owner: Some(1), immediate: true, ..of(ALL) };

const SCENARIOS: &[Scenario<'static>] = &[
    Scenario {
        name: "lock",
        clients: &[&[PLAIN, TRY], &[PLAIN], &[PLAIN], &[PLAIN]],
        force: true,
        withdraw: true,
        ..BASE
    },
    Scenario {
        name: "limits and leases",
        clients: &[&[LEASED, SHORT], &[PLAIN, SHORT], &[LONG, LEASED], &[TRY]],
        time: true,
        ghosts: 1,
        ..BASE
    },
    Scenario {
        name: "permits",
        capacity: 2,
        clients: &[&[of(1), of(2)], &[of(1), of(2)], &[of(2)], &[of(1)]],
        withdraw: true,
        ..BASE
    },
    Scenario {
        name: "permits that come and go",
        capacity: 2,
        clients: &[&[of(1), of(2)], &[of(2), LEASED], &[of(1)], &[of(2)]],
        resizes: &[0, 1, 2, 3],
        time: true,
        ghosts: 1,
        ..BASE
    },
    Scenario {
        name: "permits that are lent",
        capacity: 2,
        clients: &[&[of(1), LEASED], &[of(2)], &[of(1), SHORT], &[of(1)]],
        resizes: &[1, 2, 3],
        time: true,
        withdraw: true,
        lends: true,
        ghosts: 1,
        ..BASE
    },
    Scenario {
        name: "readers and writers",
        capacity: ALL,
        clients: &[&[of(1), of(ALL)], &[of(ALL), of(1)], &[of(1)], &[of(1), of(ALL)]],
        lighten: true,
        force: true,
        ghosts: 1,
        ..BASE
    },
    Scenario {
        name: "an owner",
        clients: &[&[MINE], &[MINE_LEASED], &[YOURS, SHORT], &[MINE]],
        time: true,
        force: true,
        withdraw: true,
        ghosts: 1,
        ..BASE
    },
    Scenario {
        name: "an owner reads and writes",
        capacity: ALL,
        clients: &[&[MINE, MY_WRITE], &[MINE, MY_WRITE, MY_TRY], &[of(ALL), of(1)], &[of(1)]],
        lighten: true,
        ghosts: 1,
        ..BASE
    },
    Scenario {
        name: "many have gone",
        clients: &[&[PLAIN], &[PLAIN], &[PLAIN]],
        resizes: &[1, 2],
        from: 15,
        ghosts: 19,
        ..BASE
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    Enter { client: usize, way: usize },
    Leave(usize),
    Cancel(usize),
    GiveUp(usize),
    Withdraw(usize),
    Lighten(usize),
    Resize(u64),
    Expire,
    Force,
    Tick,
}

/// The outputs of the machine.
#[derive(Clone, Debug)]
enum Event {
    LetIn(u64, u64, Hold),
    Refused(u64, Refusal),
    Lost(u64),
}

/// The world outside of the machine.
#[derive(Default)]
struct World {
    now: Cell<u64>,
    fences: Cell<u64>,
    terms: Cell<u64>,
    lends: Cell<bool>,
    /// The fences of what is lent.
    lent: RefCell<BTreeSet<u64>>,
    /// Tickets that the machine has, in the order of the queue, with what they ask for.
    queue: RefCell<Vec<(u64, Way)>>,
    cancelled: RefCell<BTreeSet<u64>>,
    events: RefCell<Vec<Event>>,
}

/// A hold, outside.
#[derive(Clone, Debug)]
struct Hold(Rc<(u64, Cell<Option<u64>>, Fault)>, Weak);
type Weak = std::rc::Weak<World>;

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl Hold {
    fn new(world: &Rc<World>, way: Way, fault: Fault) -> Self {
        world.terms.set(world.terms.get() + 1);
        let due = way.lease.map(|lease| world.now.get() + lease);
        Hold(Rc::new((world.terms.get(), Cell::new(due), fault)), Rc::downgrade(world))
    }

    fn is_due(&self, now: u64) -> bool {
        self.0.1.get().is_some_and(|due| now >= due)
    }
}

impl Term for Hold {
    fn enter(&self) -> bool {
        true
    }

    fn exit(&self) {}

    fn expire(&self, now: Duration) -> bool {
        let over = self.is_due(now.as_secs()) && self.0.2 != Fault::LeaseStays;
        if over {
            self.lose();
        }
        over
    }

    fn is_over(&self, now: impl FnOnce() -> Duration) -> bool {
        self.0.1.get().is_some() && self.is_due(now().as_secs())
    }

    fn due(&self) -> Option<Duration> {
        self.0.1.get().map(Duration::from_secs)
    }

    fn lose(&self) -> bool {
        if let Some(world) = self.1.upgrade() {
            world.events.borrow_mut().push(Event::Lost(self.0.0));
        }
        true
    }
}

struct Ticket(u64, Way, Rc<World>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.2.queue.borrow_mut().retain(|&(number, _)| number != self.0);
    }
}

struct ModelHost(Rc<World>, Fault);

impl Host<Ticket, Hold> for ModelHost {
    fn now(&mut self) -> Duration {
        Duration::from_secs(self.0.now.get())
    }

    fn fence(&mut self) -> u64 {
        if self.1 != Fault::OldFence || self.0.fences.get() == 0 {
            self.0.fences.set(self.0.fences.get() + 1);
        }
        self.0.fences.get()
    }

    fn waits(&self, ticket: &Ticket) -> bool {
        self.1 == Fault::GrantToTheGone || !self.0.cancelled.borrow().contains(&ticket.0)
    }

    fn let_in(&mut self, _: &Request, ticket: Ticket, fence: u64, _: bool) -> LetIn<Hold> {
        if !self.waits(&ticket) {
            return LetIn::Gone;
        }
        let mut number = ticket.0;
        if self.1 == Fault::Lifo {
            number = self.0.queue.borrow().last().map_or(number, |last| last.0);
        }
        let term = Hold::new(&self.0, ticket.1, self.1);
        self.0.events.borrow_mut().push(Event::LetIn(number, fence, term.clone()));
        if self.0.lends.get() && ticket.1.lease.is_none() {
            self.0.lent.borrow_mut().insert(fence);
            return LetIn::Lent;
        }
        LetIn::Holds(term)
    }

    fn join(&mut self, _: &Request, ticket: Ticket, fence: u64, term: &Hold) -> bool {
        if !self.waits(&ticket) {
            return false;
        }
        if let Some(lease) = ticket.1.lease {
            term.0.1.set(Some(self.0.now.get() + lease));
        }
        self.0.events.borrow_mut().push(Event::LetIn(ticket.0, fence, term.clone()));
        true
    }

    fn refuse(&mut self, ticket: Ticket, why: Refusal) -> bool {
        if !self.waits(&ticket) {
            return false;
        }
        if self.1 != Fault::RefusedIsForgotten {
            self.0.events.borrow_mut().push(Event::Refused(ticket.0, why));
        }
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Idle,
    Waits(u64),
    /// It has cancelled, and has not said so.
    Gone(u64),
    /// It holds, as far as it knows: its fence and its number.
    Holds(u64, u64),
}

/// The holds that should be there.
#[derive(Clone, Debug)]
struct Held {
    fence: u64,
    owner: Option<u64>,
    entries: Vec<(u64, u64)>,
    term: Hold,
}

impl Held {
    fn weight(&self) -> u64 {
        self.entries.iter().map(|entry| entry.1).max().unwrap_or(0)
    }
}

/// The requests that should wait.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    way: Way,
    until: Option<u64>,
    since: u64,
}

struct Run<'a> {
    scenario: &'a Scenario<'a>,
    fault: Fault,
    world: Rc<World>,
    machine: Machine<Ticket, Hold>,
    clients: Vec<Client>,
    capacity: u64,
    held: Vec<Held>,
    waiting: Vec<Waiting>,
    numbers: u64,
    newest: u64,
}

macro_rules! check {
    ($so:expr, $($arg:tt)*) => { if !$so { return Err(format!($($arg)*)); } };
}

type Checked = Result<(), String>;

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario<'a>, fault: Fault) -> Result<Self, String> {
        let mut run = Run {
            scenario,
            fault,
            world: Rc::default(),
            machine: Machine::new(scenario.capacity),
            clients: vec![Client::Idle; scenario.clients.len()],
            capacity: scenario.capacity,
            held: Vec::new(),
            waiting: Vec::new(),
            numbers: 0,
            newest: 0,
        };
        run.world.lends.set(scenario.lends);
        if scenario.from > 0 {
            run.step(Act::Enter { client: 0, way: 0 })?;
        }
        for _ in 0..scenario.from {
            run.step(Act::Enter { client: 1, way: 0 })?;
            run.step(Act::Cancel(1))?;
            run.step(Act::GiveUp(1))?;
        }
        Ok(run)
    }

    fn host(&self) -> ModelHost {
        ModelHost(self.world.clone(), self.fault)
    }

    fn now(&self) -> u64 {
        self.world.now.get()
    }

    fn used(&self) -> u64 {
        self.held.iter().map(Held::weight).sum()
    }

    fn fits(&self, weight: u64) -> bool {
        self.used() + weight <= self.capacity
    }

    /// Those in the machine's queue that have gone.
    fn ghosts(&self) -> usize {
        self.world.queue.borrow().len() - self.waiting.len() - self.unsaid_in_queue()
    }

    fn unsaid(&self) -> usize {
        self.clients.iter().filter(|client| matches!(client, Client::Gone(_))).count()
    }

    fn unsaid_in_queue(&self) -> usize {
        let queue = self.world.queue.borrow();
        let unsaid = |client: &&Client| match **client {
            Client::Gone(gone) => queue.iter().any(|&(number, _)| number == gone),
            _ => false,
        };
        self.clients.iter().filter(unsaid).count()
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        let scenario = self.scenario;
        for (client, state) in self.clients.iter().enumerate() {
            match state {
                Client::Idle => {
                    let ways = scenario.clients[client].len();
                    acts.extend((0..ways).map(|way| Act::Enter { client, way }));
                }
                Client::Waits(_) => {
                    if self.ghosts() + self.unsaid_in_queue() < scenario.ghosts {
                        acts.push(Act::Cancel(client));
                    }
                    if scenario.withdraw {
                        acts.push(Act::Withdraw(client));
                    }
                }
                Client::Gone(_) => acts.push(Act::GiveUp(client)),
                Client::Holds(..) => {
                    acts.push(Act::Leave(client));
                    if scenario.lighten {
                        acts.push(Act::Lighten(client));
                    }
                    if scenario.withdraw {
                        acts.push(Act::Withdraw(client));
                    }
                }
            }
        }
        let other = |capacity: &&u64| **capacity != self.capacity;
        acts.extend(scenario.resizes.iter().filter(other).map(|&to| Act::Resize(to)));
        if scenario.time {
            acts.extend([Act::Expire, Act::Tick]);
        }
        if scenario.force && !self.held.is_empty() {
            acts.push(Act::Force);
        }
        acts
    }

    fn step(&mut self, act: Act) -> Checked {
        self.world.events.borrow_mut().clear();
        let mut host = self.host();
        match act {
            Act::Enter { client, way } => self.enter(client, way)?,
            Act::Leave(client) => {
                let Client::Holds(fence, number) = self.clients[client] else { unreachable!() };
                if !self.pay_back(fence, number) {
                    let left = self.machine.leave(fence, number, &mut host);
                    check!(left == self.end(number), "leave said {left}");
                }
                self.clients[client] = Client::Idle;
            }
            Act::Cancel(client) => {
                let Client::Waits(number) = self.clients[client] else { unreachable!() };
                self.world.cancelled.borrow_mut().insert(number);
                self.waiting.retain(|waiting| waiting.number != number);
                self.clients[client] = Client::Gone(number);
            }
            Act::GiveUp(client) => {
                if self.fault != Fault::GivesUpUnsaid {
                    self.machine.give_up(&mut host);
                }
                self.clients[client] = Client::Idle;
            }
            Act::Withdraw(client) => {
                let (number, fence) = match self.clients[client] {
                    Client::Waits(number) => (number, None),
                    Client::Holds(fence, number) => (number, Some(fence)),
                    _ => unreachable!(),
                };
                // Its answer goes with it, and with that what it was lent.
                if let Some(fence) = fence {
                    self.pay_back(fence, number);
                }
                self.machine.withdraw(number, &mut host);
                self.end(number);
                self.waiting.retain(|waiting| waiting.number != number);
                self.clients[client] = Client::Idle;
            }
            Act::Lighten(client) => {
                let Client::Holds(fence, number) = self.clients[client] else { unreachable!() };
                let mut lightened = false;
                for entry in self.held.iter_mut().flat_map(|held| &mut held.entries) {
                    if entry.0 == number {
                        (entry.1, lightened) = (1, true);
                    }
                }
                if self.fault != Fault::DowngradeUnsaid {
                    let said = self.machine.lighten((fence, number), 1, &mut host);
                    check!(said == lightened, "lighten said {said}");
                }
            }
            Act::Resize(capacity) => {
                self.capacity = capacity;
                self.machine.resize(capacity, &mut host);
            }
            Act::Expire => self.machine.expire(&mut host),
            Act::Force => {
                // A hold whose lease is over is lost by that.
                let now = self.now();
                let all = self.held.iter().filter(|held| !held.term.is_due(now)).count();
                let forced = self.machine.force(&mut host);
                check!(forced == all, "forced {forced} of {all}");
            }
            Act::Tick => self.world.now.set(self.now() + 1),
        }
        self.hear(act)?;
        self.look(act)
    }

    /// A loan comes back. False: it is a hold.
    fn pay_back(&mut self, fence: u64, number: u64) -> bool {
        let is_lent = self.world.lent.borrow_mut().remove(&fence);
        if is_lent {
            let lent = self.held.iter().find(|held| held.fence == fence).map(Held::weight);
            self.end(number);
            let mut host = self.host();
            self.machine.pay_back(lent.unwrap_or(0), &mut host);
        }
        is_lent
    }

    /// An entry ends: was it there?
    fn end(&mut self, number: u64) -> bool {
        let mut ended = false;
        for held in &mut self.held {
            let before = held.entries.len();
            held.entries.retain(|entry| entry.0 != number);
            ended |= held.entries.len() < before;
        }
        self.held.retain(|held| !held.entries.is_empty());
        ended
    }

    fn enter(&mut self, client: usize, way: usize) -> Checked {
        let way = self.scenario.clients[client][way];
        self.numbers += 1;
        let number = self.numbers;
        let until = way.wait.map(|wait| self.now() + wait);
        let request = Request {
            number,
            owner: way.owner,
            weight: if self.fault == Fault::TwoHolders { 0 } else { way.weight },
            until: until.map(Duration::from_secs),
            timed: until.is_some() || way.lease.is_some(),
            immediate: way.immediate,
            patience: None,
        };
        let (world, fault) = (&self.world, self.fault);
        let entered = self.machine.enter(
            request,
            &mut ModelHost(world.clone(), fault),
            |_| Hold::new(world, way, fault),
            || {
                world.queue.borrow_mut().push((number, way));
                Ticket(number, way, world.clone())
            },
        );
        // Leases that were over, and who came in for them.
        self.hear(Act::Expire)?;
        let now = self.now();
        let mine = self.held.iter().position(|held| way.owner.is_some() && held.owner == way.owner);
        let blocked = !self.waiting.is_empty() || !self.world.queue.borrow().is_empty();
        let overdue = self.held.iter().any(|held| held.term.is_due(now));
        match entered {
            Entered::In { fence, term } => {
                if let Some(mine) = mine {
                    let held = &mut self.held[mine];
                    check!(fence == held.fence, "an entry with a fence of its own");
                    check!(way.weight <= held.weight(), "an entry that weighs more");
                    check!(!held.term.is_due(now), "an entry of a hold that is over");
                    held.entries.push((number, way.weight));
                    if let Some(lease) = way.lease {
                        held.term.0.1.set(Some(now + lease));
                        self.machine.mind(fence);
                    }
                } else {
                    check!(!blocked, "overtook those that wait");
                    self.hold(number, way, fence, term)?;
                }
                self.clients[client] = Client::Holds(fence, number);
            }
            Entered::Waits => {
                check!(!way.immediate, "waits, and was not to");
                check!(mine.is_none(), "an owner waits for itself");
                // The one that has just come is in the queue.
                let others = self.world.queue.borrow().len() > 1;
                check!(others || !self.fits(way.weight), "waits, and there is room");
                check!(!overdue, "waits for what is over");
                self.waiting.push(Waiting { number, way, until, since: now });
                self.clients[client] = Client::Waits(number);
            }
            Entered::Refused(Refusal::Busy) => {
                check!(way.immediate, "busy for one that waits");
                check!(blocked || !self.fits(way.weight), "busy, and there is room");
                check!(!overdue, "busy by what is over");
                check!(mine.is_none(), "busy with its own owner");
            }
            Entered::Refused(Refusal::TooLarge { capacity }) => {
                let fits = way.weight <= self.capacity.max(1);
                check!(!fits && capacity == self.capacity, "not too large");
            }
            Entered::Refused(Refusal::Deadlock) => {
                let lighter = mine.is_some_and(|mine| self.held[mine].weight() < way.weight);
                check!(lighter, "no deadlock");
            }
            Entered::Refused(why) => return Err(format!("refused: {why:?}")),
        }
        Ok(())
    }

    fn hold(&mut self, number: u64, way: Way, fence: u64, term: Hold) -> Checked {
        check!(fence > self.newest, "fence {fence} after {}", self.newest);
        check!(self.fits(way.weight), "held beyond the capacity");
        self.newest = fence;
        let entries = vec![(number, way.weight)];
        self.held.push(Held { fence, owner: way.owner, entries, term });
        Ok(())
    }

    /// The outputs of the machine, in that order.
    fn hear(&mut self, act: Act) -> Checked {
        let events = std::mem::take(&mut *self.world.events.borrow_mut());
        for event in events {
            let now = self.now();
            match event {
                Event::Lost(term) => {
                    let Some(index) = self.held.iter().position(|held| held.term.0.0 == term)
                    else {
                        return Err("lost what was not held".into());
                    };
                    let held = self.held.remove(index);
                    check!(act == Act::Force || held.term.is_due(now), "lost before its time");
                }
                Event::LetIn(number, fence, term) => {
                    let Some(at) = self.waiting.iter().position(|w| w.number == number) else {
                        return Err("let in one that does not wait".into());
                    };
                    let Waiting { way, until, .. } = self.waiting.remove(at);
                    check!(until.is_none_or(|until| now < until), "let in too late");
                    let mine = |held: &&mut Held| held.owner.is_some() && held.owner == way.owner;
                    if let Some(held) = self.held.iter_mut().find(mine) {
                        check!(fence == held.fence, "an entry with a fence of its own");
                        check!(way.weight <= held.weight(), "an entry that weighs more");
                        held.entries.push((number, way.weight));
                    } else {
                        check!(at == 0, "let in before one that came earlier");
                        self.hold(number, way, fence, term)?;
                    }
                    let waits = |client: &&mut Client| **client == Client::Waits(number);
                    if let Some(client) = self.clients.iter_mut().find(waits) {
                        *client = Client::Holds(fence, number);
                    }
                }
                Event::Refused(number, why) => {
                    let Some(at) = self.waiting.iter().position(|w| w.number == number) else {
                        return Err("refused one that does not wait".into());
                    };
                    let Waiting { way, until, .. } = self.waiting.remove(at);
                    let right = match why {
                        Refusal::TimedOut { at } => {
                            at.as_secs() == now && until.is_some_and(|until| now >= until)
                        }
                        Refusal::TooLarge { capacity } => {
                            way.weight > capacity.max(1) && act == Act::Resize(capacity)
                        }
                        Refusal::Deadlock => self.held.iter().any(|held| {
                            held.owner.is_some()
                                && held.owner == way.owner
                                && held.weight() < way.weight
                        }),
                        _ => false,
                    };
                    check!(right, "refused for {why:?}");
                    let waits = |client: &&mut Client| **client == Client::Waits(number);
                    if let Some(client) = self.clients.iter_mut().find(waits) {
                        *client = Client::Idle;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the state.
    fn look(&mut self, act: Act) -> Checked {
        let (now, view) = (self.now(), self.machine.view());
        {
            let queue = self.world.queue.borrow();
            for waiting in &self.waiting {
                let there = queue.iter().any(|entry| entry.0 == waiting.number);
                check!(there, "request {} was forgotten", waiting.number);
            }
        }
        check!(view.capacity == self.capacity, "capacity {}", view.capacity);
        check!(view.used == self.used(), "used {} instead of {}", view.used, self.used());
        let world = self.world.clone();
        let lent = world.lent.borrow();
        let held = || self.held.iter().filter(|held| !lent.contains(&held.fence));
        check!(view.holds == held().count(), "{} holds", view.holds);
        let lent = self.used() - held().map(Held::weight).sum::<u64>();
        check!(self.machine.lent() == lent, "lent {} instead of {lent}", self.machine.lent());
        let oldest = self.machine.oldest().map(|(fence, count, ..)| (fence, count));
        let right = held().next().map(|held| (held.fence, held.entries.len()));
        check!(oldest == right, "the oldest is {oldest:?} and not {right:?}");
        // Who has cancelled, and not said so, may be counted still.
        let (waiting, unsaid) = (self.waiting.len(), self.unsaid());
        check!(
            (waiting..=waiting + unsaid).contains(&view.waiting),
            "{} wait, and not {waiting}",
            view.waiting
        );
        if unsaid == 0 {
            // It is measured for those that have a limit.
            let head = self.waiting.first();
            let timed = head.filter(|head| head.until.is_some() || head.way.lease.is_some());
            let since = timed.map(|head| Duration::from_secs(head.since));
            check!(view.oldest_wait == since, "the oldest wait is {:?}", view.oldest_wait);
        }
        // Those that do not look at the queue leave the head to the one that gives up.
        let looks = match act {
            Act::Cancel(_) | Act::Tick => false,
            Act::Enter { .. } | Act::Lighten(_) => unsaid == 0,
            _ => true,
        };
        if let Some(head) = self.waiting.first().filter(|_| looks) {
            check!(!self.fits(head.way.weight), "room is left, and {} waits", head.number);
            let late = head.until.is_some_and(|until| now >= until);
            check!(!late || act != Act::Expire || self.held.is_empty(), "a late head stays");
        }
        // Something comes of the first thing that is to come.
        let dues = self.held.iter().filter_map(|held| held.term.0.1.get());
        let head = self.waiting.first().filter(|_| looks && unsaid == 0);
        let first = dues.chain(head.and_then(|head| head.until)).min().map(Duration::from_secs);
        let wakes = self.machine.wakes_at();
        check!(first.is_none_or(|first| wakes.is_some_and(|at| at <= first)), "sleeps too long");
        if act == Act::Expire {
            check!(!self.held.iter().any(|held| held.term.is_due(now)), "what is over stays");
        }
        for waiting in &self.waiting {
            let own = |held: &&Held| held.owner.is_some() && held.owner == waiting.way.owner;
            let own = self.held.iter().find(own);
            check!(own.is_none(), "an owner waits for itself, in the queue");
        }
        Ok(())
    }

    /// All holders leave, until none is there.
    fn finish(&mut self) -> Checked {
        if self.capacity == 0 {
            // One who waits for a permit waits for this.
            self.step(Act::Resize(1))?;
        }
        for round in 0.. {
            check!(round < 100, "it does not end");
            let next = self.clients.iter().position(|client| !matches!(client, Client::Idle));
            let Some(mut next) = next else { break };
            if matches!(self.clients[next], Client::Waits(_)) {
                let busy = |client: &Client| matches!(client, Client::Holds(..) | Client::Gone(_));
                match self.clients.iter().position(busy) {
                    Some(other) => next = other,
                    None => return Err("a request waits for no holder".into()),
                }
            }
            match self.clients[next] {
                Client::Holds(..) => self.step(Act::Leave(next))?,
                Client::Gone(_) => self.step(Act::GiveUp(next))?,
                _ => unreachable!(),
            }
        }
        check!(self.held.is_empty(), "held by none");
        check!(self.world.queue.borrow().is_empty(), "there are tickets without a request");
        let view = self.machine.view();
        check!((view.used, view.holds, view.waiting) == (0, 0, 0), "left over: {view:?}");
        Ok(())
    }

    /// The state, without what only grows.
    fn key(&self) -> Vec<u64> {
        let now = self.now();
        let rest = |at: Option<u64>| at.map_or(99, |at| at.saturating_sub(now));
        let view = self.machine.view();
        let mut key = vec![self.capacity, view.used, view.waiting as u64];
        for client in &self.clients {
            let (kind, number) = match *client {
                Client::Idle => (0, 0),
                Client::Waits(number) => (1, number),
                Client::Gone(number) => (2, number),
                Client::Holds(_, number) => (3, number),
            };
            let place = self.world.queue.borrow().iter().position(|entry| entry.0 == number);
            key.extend([kind, place.map_or(99, |place| place as u64)]);
            for (index, held) in self.held.iter().enumerate() {
                let entry = held.entries.iter().position(|entry| entry.0 == number);
                if let (3, Some(entry)) = (kind, entry) {
                    key.extend([7, index as u64, entry as u64, held.entries[entry].1]);
                    key.extend([held.owner.unwrap_or(99), rest(held.term.0.1.get())]);
                    key.push(self.world.lent.borrow().contains(&held.fence).into());
                }
            }
        }
        for (number, way) in &*self.world.queue.borrow() {
            key.extend([8, way.weight, way.owner.unwrap_or(99), way.lease.unwrap_or(99)]);
            let waiting = self.waiting.iter().find(|waiting| waiting.number == *number);
            key.push(waiting.map_or(98, |waiting| rest(waiting.until)));
        }
        key
    }
}

#[derive(Debug)]
#[allow(dead_code, reason = "it is shown")]
struct Wrong {
    scenario: &'static str,
    path: Vec<Act>,
    what: String,
}

/// All states that can be reached; how many there are.
fn search(scenario: &Scenario<'static>, fault: Fault) -> Result<usize, Box<Wrong>> {
    let mut scenario = *scenario;
    let mut clients = scenario.clients.to_vec();
    if fault == Fault::None && std::env::var_os("TURNWISE_SEARCH_ALL").is_some() {
        clients.push(clients[0]);
        scenario.ghosts += 1;
    }
    scenario.clients = &clients;
    let wrong =
        |path: &[Act], what| Box::new(Wrong { scenario: scenario.name, path: path.to_vec(), what });
    let replay = |path: &[Act]| -> Result<Run<'_>, Box<Wrong>> {
        let mut run = Run::new(&scenario, fault).map_err(|what| wrong(&[], what))?;
        for &act in path {
            run.step(act).map_err(|what| wrong(path, what))?;
        }
        Ok(run)
    };
    let mut seen = HashSet::new();
    let mut next = VecDeque::from([Vec::new()]);
    seen.insert(replay(&[])?.key());
    while let Some(mut path) = next.pop_front() {
        let mut run = replay(&path)?;
        let acts = run.acts();
        run.finish().map_err(|what| wrong(&path, what + ", at the end"))?;
        for act in acts {
            path.push(act);
            if seen.insert(replay(&path)?.key()) {
                next.push_back(path.clone());
            }
            path.pop();
        }
    }
    Ok(seen.len())
}

fn holds(name: &str) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    match search(scenario, Fault::None) {
        Ok(states) => {
            println!("{name}: {states} states");
            assert!(states > 100);
        }
        Err(wrong) => panic!("{wrong:#?}"),
    }
}

#[test]
fn a_lock() {
    holds("lock");
}

#[test]
fn limits_and_leases() {
    holds("limits and leases");
}

#[test]
fn permits() {
    holds("permits");
}

#[test]
fn permits_that_come_and_go() {
    holds("permits that come and go");
}

#[test]
fn permits_that_are_lent() {
    holds("permits that are lent");
}

#[test]
fn readers_and_writers() {
    holds("readers and writers");
}

#[test]
fn an_owner() {
    holds("an owner");
}

#[test]
fn an_owner_reads_and_writes() {
    holds("an owner reads and writes");
}

#[test]
fn many_that_have_gone_are_swept() {
    holds("many have gone");
}

#[test]
fn every_fault_is_found() {
    use Fault::*;
    let faults = [
        (Lifo, "lock", "let in before one that came earlier"),
        (GrantToTheGone, "lock", "let in one that does not wait"),
        (LeaseStays, "limits and leases", "what is over"),
        (OldFence, "limits and leases", "fence 1 after 1"),
        (TwoHolders, "lock", "used 0 instead of 1"),
        (GivesUpUnsaid, "permits", "1 wait, and not 0"),
        (DowngradeUnsaid, "readers and writers", "used 9 instead of 1"),
        (RefusedIsForgotten, "limits and leases", "was forgotten"),
    ];
    for (fault, name, what) in faults {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
        let wrong = search(scenario, fault).expect_err("it is not found");
        println!("{fault:?}: {wrong:?}");
        assert!(wrong.what.contains(what), "{fault:?}: {wrong:?}");
    }
}

/// A hold that counts how often it is looked at.
#[derive(Clone, Debug)]
struct Seen(Rc<Cell<usize>>, Duration);

impl Seen {
    fn look(&self) {
        self.0.set(self.0.get() + 1);
    }
}

impl Term for Seen {
    fn enter(&self) -> bool {
        self.look();
        true
    }

    fn exit(&self) {}

    fn expire(&self, now: Duration) -> bool {
        self.look();
        now >= self.1
    }

    fn is_over(&self, now: impl FnOnce() -> Duration) -> bool {
        self.look();
        now() >= self.1
    }

    fn lose(&self) -> bool {
        true
    }

    fn due(&self) -> Option<Duration> {
        self.look();
        Some(self.1)
    }
}

struct Counts(Rc<Cell<usize>>, Duration, u64);

impl Host<u64, Seen> for Counts {
    fn now(&mut self) -> Duration {
        self.1
    }

    fn fence(&mut self) -> u64 {
        self.2 += 1;
        self.2
    }

    fn waits(&self, _: &u64) -> bool {
        self.0.set(self.0.get() + 1);
        true
    }

    fn let_in(&mut self, _: &Request, _: u64, fence: u64, _: bool) -> LetIn<Seen> {
        LetIn::Holds(Seen(self.0.clone(), Duration::from_secs(100 + fence)))
    }

    fn join(&mut self, _: &Request, _: u64, _: u64, _: &Seen) -> bool {
        true
    }

    fn refuse(&mut self, _: u64, _: Refusal) -> bool {
        true
    }
}

/// A step costs no more beside a thousand holds, and a thousand owners that wait, than alone.
#[test]
fn a_step_does_not_look_at_all_that_hold_or_wait() {
    const MANY: u64 = 1_000;
    let seen = Rc::new(Cell::new(0));
    let mut host = Counts(seen.clone(), Duration::ZERO, 0);
    let mut machine = Machine::new(MANY);
    let ask = |machine: &mut Machine<u64, Seen>, host: &mut Counts, number, immediate| {
        let request = Request {
            number,
            owner: Some(number),
            weight: 1,
            until: None,
            timed: true,
            immediate,
            patience: None,
        };
        let (term, at) = (host.0.clone(), Duration::from_secs(100 + number));
        machine.enter(request, host, |_| Seen(term, at), || number)
    };
    for number in 0..MANY {
        assert!(matches!(ask(&mut machine, &mut host, number, false), Entered::In { .. }));
    }
    let costs = |what: &str, most: usize, step: &mut dyn FnMut()| {
        seen.set(0);
        step();
        assert!(seen.get() <= most, "{what}: {} looks", seen.get());
    };
    costs("refused", 0, &mut || {
        let entered = ask(&mut machine, &mut host, MANY, true);
        assert!(matches!(entered, Entered::Refused(Refusal::Busy)));
    });
    for number in 1..=MANY {
        let entered = ask(&mut machine, &mut host, MANY + number, false);
        assert!(matches!(entered, Entered::Waits));
    }
    // It looks at the head, at the next one, and when the lease of the new hold ends.
    costs("handed on", 4, &mut || assert!(machine.leave(500, 499, &mut host)));
    costs("nothing is over", 1, &mut || machine.expire(&mut host));
    host.1 = Duration::from_secs(101);
    // Two are over, and two come in.
    costs("two are over", 12, &mut || machine.expire(&mut host));
    assert_eq!(machine.view().holds, 1_000);
}

/// A request that asks how long it would wait costs no more behind a thousand holds than behind
/// one. Holds from before the first such request are passed over once.
#[test]
fn a_request_that_is_refused_early_does_not_look_at_all_that_hold() {
    const MANY: u64 = 1_000;
    let mut host = Counts(Rc::default(), Duration::ZERO, 0);
    let mut machine = Machine::new(MANY);
    let ask = |machine: &mut Machine<u64, Seen>, host: &mut Counts, number, patience| {
        let request = Request {
            number,
            owner: None,
            weight: 1,
            until: None,
            timed: false,
            immediate: false,
            patience,
        };
        let (term, at) = (host.0.clone(), Duration::from_secs(100));
        let before = LOOKS.get();
        let entered = machine.enter(request, host, |_| Seen(term, at), || number);
        (entered, LOOKS.get() - before)
    };
    let mut known = estimate::Estimate::default();
    known.took(Duration::from_secs(8));
    for number in 1..=MANY / 2 {
        ask(&mut machine, &mut host, number, None);
    }
    machine.know(known);
    for number in MANY / 2 + 1..=MANY {
        ask(&mut machine, &mut host, number, None);
    }
    assert_eq!(machine.view().holds, 1_000);
    host.1 = Duration::from_secs(3);
    let hasty = Some(Duration::from_secs(1));
    for most in [MANY / 2 + 1, 1, 1] {
        let (entered, looks) = ask(&mut machine, &mut host, MANY + 1, hasty);
        let expected = Refusal::Expected(Duration::from_secs(5));
        assert!(matches!(entered, Entered::Refused(why) if why == expected), "{entered:?}");
        assert!(looks as u64 <= most, "{looks} looks");
    }
    assert!(machine.leave(501, 501, &mut host));
    let (_, looks) = ask(&mut machine, &mut host, MANY + 1, hasty);
    assert_eq!(looks, 0, "there is room");
    let (_, looks) = ask(&mut machine, &mut host, MANY + 2, hasty);
    assert_eq!(looks, 1, "the next one");
    // A part is as old as the hold that it is made of; its fence may be drawn before that look.
    assert!(machine.split((502, 502), 0, (501, Seen(Rc::default(), Duration::from_secs(100)))));
    (502..=MANY).for_each(|fence| assert!(machine.leave(fence, fence, &mut host)));
    machine.resize(1, &mut host);
    // Holds take 3 s by now. The part has lasted that long; the other one has just begun.
    let (entered, _) = ask(&mut machine, &mut host, MANY + 2, hasty);
    assert!(matches!(entered, Entered::Waits), "{entered:?}");
}
