//! An exhaustive search over the word's transitions with all flags, breadth first and sequentially consistent.
//!
//! Each agent runs a small program (sends, posts, close, waits, ...) one shared access at a time; the search visits every interleaving
//! once per state. The transitions are the real ones of `src/mailbox/word.rs`, with COUNT saturated at 3; what an owner does between
//! them is written again here, step for step as in `src/drain`.
//!
//! Checked in every state: one owner, COUNT below saturation exact, capacity exact, messages run in the order in which they were accepted
//! and each once, nothing touched after it was freed, the end-of-life step once and after the last message. Checked at the end: from every state a
//! good end can be reached, so nothing strands, and nobody spins or sleeps for ever.
//!
//! Memory order is not the matter here: that is for the models in `loom-tests`.

#[allow(dead_code)]
#[path = "../src/mailbox/word.rs"]
mod word;

/// What `word.rs` needs of the crate.
mod sync {
    pub(crate) use crossbeam_utils::Backoff;
    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
    }
    pub(crate) mod config {
        pub(crate) const COUNT_MAX: u64 = 3;
    }
    pub(crate) mod hint {
        pub(crate) fn done_soon(mut done: impl FnMut() -> bool) -> bool {
            done()
        }
    }
}

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hasher};

use sync::config::COUNT_MAX;
use word::{CLOSED, Duty, Entry, ORPHAN, Refusal, Snapshot, UNBOUNDED, Word};

const AGENTS: usize = 3;
/// Messages of one agent.
const PER_AGENT: usize = 5;
const NODES: usize = AGENTS * PER_AGENT;
/// Where a node's number stands in its address.
const NODE_SHIFT: u32 = 5;

/// What an agent does, one after the other; then it drops its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Send,
    /// Two messages in one step.
    SendTwo,
    Enqueue,
    /// A send from inside a turn of another actor: parks and lists.
    Nested,
    /// An own loop that pulls once.
    Own,
    Drain,
    Close,
    /// From inside a turn.
    CloseNested,
    CloseIfIdle,
    Stop,
    WaitIdle,
    WaitEnded,
}

/// A wrong form of a transition, to see the search find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// `take` and `park` subtract from a saturated COUNT too.
    PlainSubtraction,
    /// `release` succeeds only if COUNT is the number of turns done.
    ReleaseDemandsDone,
}

#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    programs: &'static [&'static [Op]],
    limit: u32,
    /// One more handle is kept for ever, so the last drop rescues nobody.
    kept: bool,
    /// Handles are dropped inside a turn.
    drop_nested: bool,
    /// How often each agent, between two turns, gives way to another mailbox of its thread.
    ways: u8,
}

/// Node numbers, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct List {
    len: u8,
    nodes: [u8; NODES],
}

impl List {
    fn push(&mut self, node: u8) {
        self.nodes[usize::from(self.len)] = node;
        self.len += 1;
    }
    fn pop(&mut self) -> Option<u8> {
        let first = (self.len > 0).then_some(self.nodes[0])?;
        self.nodes.copy_within(1.., 0);
        self.nodes[NODES - 1] = 0;
        self.len -= 1;
        Some(first)
    }
}

/// Where an agent stands: the shared access that it does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Begin,
    Push,
    RunInline,
    ReleaseOne,
    RaiseClosed,
    OwnTake { last: bool },
    OwnWake { last: bool },
    OwnTurn,
    Turn,
    Unwatch,
    WakeThenTurn,
    Guess,
    Decide(Snapshot),
    Release(Snapshot),
    WakeReleased { watched: bool, closed: bool },
    Save,
    Park,
    EntryDone,
    Unlist,
    WaitDrain,
    WaitAdd,
    WaitStay,
    Sleep,
    WaitRemove,
    Orphan,
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Agent {
    op: u8,
    at: At,
    batch: List,
    done: u8,
    /// The mailbox stands in this thread's list.
    listed: bool,
    /// It was taken off the list, and the entry's storage is not given up yet.
    entry: bool,
    ways: u8,
    sent: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    word: Snapshot,
    /// The node below each node, as a number + 1.
    links: [u8; NODES],
    saved: List,
    handles: u8,
    storage: u8,
    stop: bool,
    ended: u8,
    watchers: u8,
    mourners: u8,
    /// Who was woken and has not noticed yet.
    tokens: u8,
    agents: [Agent; AGENTS],
    // What the checks know, and no agent.
    accepted: List,
    owner: Option<u8>,
    /// COUNT holds one for a flag that was raised on an idle mailbox.
    phantom: u8,
    /// It is parked by an `enqueue`, and nobody who would carry it has come by.
    uncarried: bool,
}

fn address(node: u8) -> u64 {
    (u64::from(node) + 1) << NODE_SHIFT
}

impl World {
    fn start(scenario: &Scenario) -> Self {
        let agents = scenario.programs.len();
        let agent =
            Agent { op: 0, at: At::Over, batch: List::default(), done: 0, listed: false, entry: false, ways: scenario.ways, sent: 0 };
        let mut world = World {
            word: Snapshot::IDLE,
            links: [0; NODES],
            saved: List::default(),
            handles: agents as u8 + u8::from(scenario.kept),
            storage: 1,
            stop: false,
            ended: 0,
            watchers: 0,
            mourners: 0,
            tokens: 0,
            agents: [agent; AGENTS],
            accepted: List::default(),
            owner: None,
            phantom: 0,
            uncarried: false,
        };
        world.agents[..agents].iter_mut().for_each(|agent| agent.at = At::Begin);
        world
    }
}

/// One step of one agent, in a world of its own.
struct Step<'a> {
    world: World,
    me: usize,
    scenario: &'a Scenario,
    fault: Fault,
    wrong: Option<&'static str>,
}

impl Step<'_> {
    fn agent(&mut self) -> &mut Agent {
        &mut self.world.agents[self.me]
    }
    fn op(&self) -> Option<Op> {
        let agent = &self.world.agents[self.me];
        self.scenario.programs[self.me].get(usize::from(agent.op)).copied()
    }
    fn go(&mut self, at: At) {
        self.agent().at = at;
    }
    fn check(&mut self, holds: bool, claim: &'static str) {
        if !holds {
            self.wrong.get_or_insert(claim);
        }
    }

    /// Does one operation of the real word.
    fn on_word<R>(&mut self, f: impl FnOnce(&Word) -> R) -> R {
        self.check(self.world.storage > 0, "the word is touched after the block was freed");
        let word = Word::new();
        assert!(word.release_from(Snapshot::IDLE, self.world.word).is_ok());
        let result = f(&word);
        self.world.word = word.load();
        result
    }

    fn retain(&mut self) {
        self.check(self.world.storage > 0, "storage rises from nothing");
        self.world.storage += 1;
    }
    fn give_up_storage(&mut self) {
        self.check(self.world.storage > 0, "storage is given up twice");
        self.world.storage = self.world.storage.saturating_sub(1);
    }

    fn own(&mut self) {
        self.check(self.world.owner.is_none(), "there are two owners");
        self.world.owner = Some(self.me as u8);
        self.world.uncarried = false;
    }
    fn disown(&mut self) {
        self.check(self.world.owner == Some(self.me as u8), "somebody else's mailbox is let go");
        self.world.owner = None;
    }

    fn wake(&mut self, watchers: bool, mourners: bool) {
        if watchers {
            self.world.tokens |= std::mem::take(&mut self.world.watchers);
        }
        if mourners {
            self.world.tokens |= std::mem::take(&mut self.world.mourners);
        }
    }

    fn new_node(&mut self) -> u8 {
        let agent = self.agent();
        let number = agent.sent;
        agent.sent += 1;
        assert!(usize::from(number) < PER_AGENT, "an agent sends too much for this search");
        (self.me * PER_AGENT) as u8 + number
    }

    fn run(&mut self, node: u8) {
        let oldest = self.world.accepted.pop();
        self.check(oldest == Some(node), "a message is run out of order, twice, or unaccepted");
        self.check(self.world.owner == Some(self.me as u8), "a message is run by one who does not own");
        self.check(self.world.ended == 0, "a message is run after the end");
    }

    /// A list from HEAD, oldest first, appended to the private one.
    fn append_newest_first(&mut self, top: u64) {
        let mut newest_first = [0; NODES];
        let mut len = 0;
        let mut at = (top >> NODE_SHIFT) as u8;
        while at != 0 {
            newest_first[len] = at - 1;
            len += 1;
            at = std::mem::take(&mut self.world.links[usize::from(at - 1)]);
        }
        for node in newest_first[..len].iter().rev() {
            self.agent().batch.push(*node);
        }
    }

    fn drive(&mut self, done: u8) {
        let agent = self.agent();
        agent.done = done;
        agent.at = if agent.batch.len > 0 { At::Turn } else { At::Guess };
    }

    /// `taken_over`, then drive.
    fn take_over(&mut self, top: u64) {
        self.own();
        self.agent().batch = std::mem::take(&mut self.world.saved);
        self.append_newest_first(top);
        self.drive(0);
    }

    /// What comes after a drive, or when there was none.
    fn after(&mut self) {
        let op = self.op();
        let agent = self.agent();
        if agent.entry {
            agent.at = At::EntryDone;
        } else if agent.listed {
            agent.at = At::Unlist;
        } else {
            match op {
                None => agent.at = At::Over,
                Some(Op::WaitIdle | Op::WaitEnded) => agent.at = At::Begin,
                Some(_) => self.next_op(),
            }
        }
    }
    fn next_op(&mut self) {
        let agent = self.agent();
        agent.op += 1;
        agent.at = At::Begin;
    }

    fn push(&mut self, entry: Entry, nested: bool, n: u8) {
        let first = self.new_node();
        let mut top = first;
        for _ in 1..n {
            let node = self.new_node();
            self.world.links[usize::from(node)] = top + 1;
            top = node;
        }
        // What the capacity is about, as the checks know it. A taker-over's first message is as good as running.
        let free = self.world.owner.is_none();
        let unsettled = self.world.owner.map_or(0, |owner| self.world.agents[usize::from(owner)].done) + self.world.phantom;
        let waiting = (self.world.accepted.len + unsettled).saturating_sub(u8::from(self.world.owner.is_some()));
        let limit = self.scenario.limit;
        let fits = u32::from(waiting) + u32::from(n) <= limit.saturating_add(u32::from(free && entry == Entry::Drain));
        let was_closed = self.world.word.has(CLOSED);
        let was_idle = self.world.word.count() == 0;
        let seen = self.world.word;
        let mut link = None;
        match self.on_word(|word| word.push(seen, (address(top), n.into()), limit, entry, |head| link = Some(head))) {
            Err(refusal) => {
                self.check(self.world.word == seen, "a refused send has changed the word");
                self.check((refusal == Refusal::Closed) == was_closed, "closed is the wrong answer, or the missing one");
                self.check(was_closed || !fits, "there was room");
                for node in first..=top {
                    self.world.links[usize::from(node)] = 0;
                }
                self.after();
            }
            Ok(duty) => {
                self.check(!was_closed, "a closed mailbox accepts");
                self.check(fits, "there was no room");
                self.world.links[usize::from(first)] = (link.expect("a push links") >> NODE_SHIFT) as u8;
                (first..=top).for_each(|node| self.world.accepted.push(node));
                match (duty, nested) {
                    (Duty::Drain, _) => {
                        self.own();
                        self.append_newest_first(address(top));
                        self.drive(0);
                    }
                    (Duty::TakeOver, _) => self.take_over(address(top)),
                    (Duty::Carry, true) => {
                        self.world.uncarried = false;
                        if !self.agent().listed {
                            self.retain();
                            self.agent().listed = true;
                        }
                        self.after();
                    }
                    (Duty::Carry, false) => {
                        self.world.uncarried |= was_idle;
                        self.after();
                    }
                    (Duty::Nothing, _) => self.after(),
                }
            }
        }
    }

    fn raise(&mut self, flag: u64, nested: bool, only_if_idle: bool) {
        let entry = if nested { Entry::Park } else { Entry::Drain };
        let idle = self.world.word.count() == 0;
        let raised = self.on_word(|word| if only_if_idle { word.raise_if_idle(flag, entry) } else { word.raise(flag, entry) });
        match raised {
            Some((Duty::Carry, _)) => {
                assert!(nested);
                self.world.phantom += u8::from(idle);
                self.world.uncarried = false;
                if !self.agent().listed {
                    self.retain();
                    self.agent().listed = true;
                }
                self.after();
            }
            Some((Duty::Drain, _)) => {
                self.own();
                self.drive(1);
            }
            Some((Duty::TakeOver, before)) => self.take_over(before.head()),
            Some((Duty::Nothing, _)) | None => self.after(),
        }
    }

    /// `take` and `park` with the settling of the fault.
    fn settle_wrongly(&mut self) {
        if self.fault == Fault::PlainSubtraction {
            let done = std::mem::take(&mut self.agent().done);
            let possible = u64::from(done).min(self.world.word.count());
            self.on_word(|word| (0..possible).for_each(|_| _ = word.settle_one()));
        }
    }

    fn released(&mut self) {
        self.disown();
        self.world.phantom = 0;
        self.agent().done = 0;
    }

    /// Does the step; what it is called.
    fn go_on(&mut self, give_way: bool) -> &'static str {
        let at = self.world.agents[self.me].at;
        let bounded = self.scenario.limit != UNBOUNDED;
        let bit = 1 << self.me;
        match at {
            At::Begin => match self.op() {
                None => {
                    self.world.handles -= 1;
                    let last = self.world.handles == 0;
                    self.go(if last { At::Orphan } else { At::Over });
                    "drops its handle"
                }
                Some(Op::Send) => {
                    if self.on_word(|word| word.claim()).is_ok() {
                        let node = self.new_node();
                        self.world.accepted.push(node);
                        self.own();
                        self.go(At::RunInline);
                        "claims"
                    } else {
                        self.go(At::Push);
                        "fails to claim"
                    }
                }
                Some(Op::SendTwo) => {
                    self.push(Entry::Drain, false, 2);
                    "pushes two"
                }
                Some(Op::Enqueue) => {
                    self.push(Entry::Park, false, 1);
                    "enqueues"
                }
                Some(Op::Nested) => {
                    self.push(Entry::Park, true, 1);
                    "pushes from inside a turn"
                }
                Some(Op::Own) => {
                    match self.on_word(|word| word.own()) {
                        Ok(before) => {
                            self.own();
                            self.agent().batch = std::mem::take(&mut self.world.saved);
                            self.append_newest_first(before.head());
                            // The own turn: the owner settles it last.
                            self.agent().done = 1;
                            self.go(At::OwnTake { last: false });
                        }
                        Err(_) => self.after(),
                    }
                    "owns, or is refused"
                }
                Some(Op::Drain) => {
                    self.unpark_or(|step| step.after());
                    "drains"
                }
                Some(Op::Close) => {
                    self.raise(CLOSED, false, false);
                    "closes"
                }
                Some(Op::CloseNested) => {
                    self.raise(CLOSED, true, false);
                    "closes from inside a turn"
                }
                Some(Op::CloseIfIdle) => {
                    self.raise(CLOSED, false, true);
                    "closes if idle"
                }
                Some(Op::Stop) => {
                    self.world.stop = true;
                    self.go(At::RaiseClosed);
                    "says stop"
                }
                Some(Op::WaitIdle) => {
                    let now = self.on_word(|word| word.look());
                    if now.count() == 0 {
                        self.next_op()
                    } else {
                        self.go(At::WaitDrain)
                    }
                    "looks whether it is idle"
                }
                Some(Op::WaitEnded) => {
                    let now = self.on_word(|word| word.look());
                    if now.has(CLOSED) && now.count() == 0 {
                        self.next_op()
                    } else {
                        self.go(At::WaitDrain)
                    }
                    "looks whether it has ended"
                }
            },
            At::Push => {
                self.push(Entry::Drain, false, 1);
                "pushes"
            }
            At::RunInline => {
                let node = (self.me * PER_AGENT) as u8 + self.agent().sent - 1;
                self.run(node);
                self.agent().done = 1;
                self.go(At::ReleaseOne);
                "runs its own message"
            }
            At::ReleaseOne => {
                if self.on_word(|word| word.release_one()) {
                    self.released();
                    self.after();
                } else {
                    self.go(At::Guess);
                }
                "tries to let go after one"
            }
            At::RaiseClosed => {
                self.raise(CLOSED, false, false);
                "closes"
            }
            At::OwnTake { last } => {
                let seen = self.on_word(|word| word.load());
                let done = std::mem::replace(&mut self.agent().done, 1) - 1;
                let mut watched = false;
                if seen.head() != 0 || done > 0 || seen.is_watched() {
                    let before = self.on_word(|word| word.take(seen, done.into()));
                    self.append_newest_first(before.head());
                    watched = before.is_watched();
                }
                self.owned_so_far(last);
                if watched {
                    self.go(At::OwnWake { last });
                }
                "takes for its own turn"
            }
            At::OwnWake { last } => {
                self.wake(true, false);
                self.owned_so_far(last);
                "wakes in its own turn"
            }
            At::OwnTurn => {
                if bounded && self.world.agents[self.me].done > 1 {
                    let before = self.on_word(|word| word.settle_one());
                    self.agent().done -= 1;
                    if before.is_watched() {
                        self.on_word(|word| word.unwatch());
                        self.wake(true, false);
                    }
                }
                if let Some(node) = self.agent().batch.pop() {
                    self.run(node);
                }
                let agent = self.agent();
                agent.done += 1;
                agent.at = if agent.batch.len > 0 { At::OwnTurn } else { At::OwnTake { last: true } };
                "runs one in its own turn"
            }
            At::Turn if bounded && self.world.agents[self.me].done > 0 => {
                let before = self.on_word(|word| word.settle_one());
                self.agent().done -= 1;
                self.go(if before.is_watched() { At::Unwatch } else { At::Turn });
                "settles one"
            }
            At::Turn => {
                if let Some(node) = self.agent().batch.pop() {
                    self.run(node);
                }
                let agent = self.agent();
                agent.done += 1;
                agent.at = match (agent.batch.len > 0, give_way) {
                    (true, true) => At::Save,
                    (true, false) => At::Turn,
                    (false, _) => At::Guess,
                };
                if give_way { "runs one, and gives way" } else { "runs one" }
            }
            At::Unwatch => {
                self.on_word(|word| word.unwatch());
                self.go(At::WakeThenTurn);
                "clears WATCH"
            }
            At::WakeThenTurn => {
                self.wake(true, false);
                self.go(At::Turn);
                "wakes"
            }
            At::Guess => {
                let done = u64::from(self.agent().done);
                let demanded = self.fault != Fault::ReleaseDemandsDone || done <= COUNT_MAX;
                let seen = self.world.word;
                match if demanded { self.on_word(|word| word.release_guess(done)) } else { Err(seen) } {
                    Ok(()) => {
                        self.released();
                        self.after();
                    }
                    Err(seen) => self.go(At::Decide(seen)),
                }
                "tries to let go"
            }
            At::Decide(seen) if seen.head() != 0 && give_way => {
                self.go(At::Save);
                self.go_on(false);
                "gives way"
            }
            At::Decide(seen) if seen.head() != 0 => {
                self.settle_wrongly();
                let done = std::mem::take(&mut self.agent().done);
                let before = self.on_word(|word| word.take(seen, done.into()));
                self.append_newest_first(before.head());
                self.go(if before.is_watched() { At::WakeThenTurn } else { At::Turn });
                "takes"
            }
            At::Decide(seen) if seen.has(CLOSED | ORPHAN) => {
                let now = self.on_word(|word| word.look());
                if now.head() == 0 && self.world.ended == 0 {
                    self.check(self.world.accepted.len == 0, "it ends before the last message");
                    self.world.ended = 1;
                    self.go(At::Decide(now));
                } else {
                    self.go(At::Release(now));
                }
                "looks, and ends it"
            }
            At::Decide(seen) | At::Release(seen) => {
                self.release(seen);
                "lets go by what it saw"
            }
            At::WakeReleased { watched, closed } => {
                self.wake(watched, closed);
                self.give_up_storage();
                self.after();
                "wakes after letting go"
            }
            At::Save => {
                let list = std::mem::take(&mut self.agent().batch);
                self.check(self.world.saved.len == 0, "a list was saved already");
                self.world.saved = list;
                self.go(At::Park);
                "saves its list"
            }
            At::Park => {
                self.retain();
                self.settle_wrongly();
                let done = std::mem::take(&mut self.agent().done);
                self.agent().ways -= 1;
                self.on_word(|word| word.park(done.into()));
                self.disown();
                self.list();
                "parks"
            }
            At::EntryDone => {
                self.give_up_storage();
                self.agent().entry = false;
                self.after();
                "gives up the entry"
            }
            At::Unlist => {
                let agent = self.agent();
                agent.listed = false;
                agent.entry = true;
                self.unpark_or(|step| step.after());
                "runs its list"
            }
            At::WaitDrain => {
                self.unpark_or(|step| step.go(At::WaitAdd));
                "drains before it waits"
            }
            At::WaitAdd => {
                if self.op() == Some(Op::WaitIdle) {
                    self.world.watchers |= bit;
                } else {
                    self.world.mourners |= bit;
                }
                self.go(At::WaitStay);
                "stands in the list"
            }
            At::WaitStay => {
                let stay = if self.op() == Some(Op::WaitIdle) {
                    self.on_word(|word| word.watch(|now| !now.is_parked()).is_ok())
                } else {
                    let now = self.on_word(|word| word.meet());
                    !(now.has(CLOSED) && now.count() == 0)
                };
                self.go(if stay { At::Sleep } else { At::WaitRemove });
                "meets the owner"
            }
            At::Sleep => {
                self.world.tokens &= !bit;
                self.go(At::WaitRemove);
                "is woken"
            }
            At::WaitRemove => {
                self.world.watchers &= !bit;
                self.world.mourners &= !bit;
                self.go(At::Begin);
                "leaves the list"
            }
            At::Orphan => {
                self.raise(ORPHAN, self.scenario.drop_nested, false);
                "says that it was the last"
            }
            At::Over => unreachable!("nothing follows"),
        }
    }

    /// After a take in an own turn: what was taken is run, or the own turn is over.
    fn owned_so_far(&mut self, last: bool) {
        match (last, self.agent().batch.len) {
            (true, _) => self.drive(1),
            (false, 0) => self.go(At::OwnTake { last: true }),
            (false, _) => self.go(At::OwnTurn),
        }
    }

    fn list(&mut self) {
        if self.agent().listed {
            self.give_up_storage();
        }
        self.agent().listed = true;
        self.after();
    }

    fn unpark_or(&mut self, not: impl FnOnce(&mut Self)) {
        match self.on_word(|word| word.unpark()) {
            Some(before) => self.take_over(before.head()),
            None => not(self),
        }
    }

    fn release(&mut self, seen: Snapshot) {
        match seen.release() {
            None if seen.has(ORPHAN) && seen.head() == 0 => {
                self.disown();
                self.world.phantom = 0;
                self.agent().done = 0;
                self.give_up_storage();
                self.after();
            }
            None => self.go(At::Decide(seen)),
            Some(_) if self.fault == Fault::ReleaseDemandsDone && seen.count() != u64::from(self.agent().done) => {
                // As the sources say it: subtract what was done, and go on.
                let done = std::mem::take(&mut self.agent().done);
                let before = self.on_word(|word| word.take(seen, done.into()));
                self.append_newest_first(before.head());
                self.drive(0);
            }
            Some(next) if !seen.has(CLOSED) && !seen.is_watched() => match self.on_word(|word| word.release_from(seen, next)) {
                Ok(()) => {
                    self.released();
                    self.after();
                }
                Err(now) => self.go(At::Decide(now)),
            },
            Some(next) => match self.on_word(|word| word.release_met(seen, next)) {
                Ok(()) => {
                    self.retain();
                    self.released();
                    self.go(At::WakeReleased { watched: seen.is_watched(), closed: seen.has(CLOSED) });
                }
                Err(now) => self.go(At::Decide(now)),
            },
        }
    }

    /// What must hold in every state.
    fn check_state(&mut self) {
        let world = &self.world;
        let (word, owner) = (world.word, world.owner);
        if world.storage == 0 {
            let gone = world.accepted.len == 0 && world.ended == 1 && world.handles == 0;
            self.check(gone, "the block is freed too early");
            return;
        }
        let orphan_done = word.has(ORPHAN) && owner.is_none() && world.ended == 1;
        let unsettled = owner.map_or(0, |owner| world.agents[usize::from(owner)].done) + world.phantom;
        let count = u64::from(world.accepted.len + unsettled);
        let exact = word.count() == COUNT_MAX || word.count() == count || orphan_done;
        let parked = owner.is_some() != word.is_parked() || (owner.is_none() && word.count() == 0) || orphan_done;
        let idle = word.count() > 0 || (owner.is_none() && word.head() == 0 && !word.is_watched());
        let ended = !(word.has(CLOSED) && word.count() == 0) || world.ended == 1;
        self.check(parked, "neither owned, nor parked, nor idle: or two of them");
        self.check(self.fault != Fault::None || exact, "COUNT below saturation is not exact");
        self.check(self.fault != Fault::None || idle, "COUNT is 0, but it is not idle");
        self.check(ended, "it is closed and idle, but has not ended");
    }
}

impl World {
    fn is_over(&self) -> bool {
        self.agents.iter().all(|agent| agent.at == At::Over)
    }

    /// Nothing is left to do, and everything is done.
    fn is_good_end(&self, scenario: &Scenario) -> bool {
        let run = self.accepted.len == 0 && self.word.count() == 0;
        let over = if scenario.kept { run || (self.word.is_parked() && self.uncarried) } else { self.storage == 0 && self.ended == 1 };
        self.is_over() && over
    }

    /// May this agent take a step now, and may it give way in it?
    fn choices(&self, me: usize) -> &'static [bool] {
        let agent = &self.agents[me];
        let may_give_way = agent.ways > 0;
        match agent.at {
            At::Over => &[],
            At::Sleep if self.tokens & 1 << me == 0 => &[],
            At::Turn if may_give_way && agent.batch.len > 1 => &[false, true],
            At::Decide(seen) if may_give_way && seen.head() != 0 => &[false, true],
            _ => &[false],
        }
    }
}

/// A hasher for small keys: the standard one takes most of the time of a debug build.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
}

/// How a state was reached first.
#[derive(Clone, Copy)]
struct Reached {
    from: u32,
    by: u8,
    step: &'static str,
}

struct Found {
    states: usize,
    steps: HashSet<&'static str>,
    /// What is wrong, with the shortest way there.
    failure: Option<(&'static str, String)>,
}

fn search(scenario: &Scenario, fault: Fault) -> Found {
    let mut index: HashMap<World, u32, BuildHasherDefault<Quick>> = HashMap::default();
    let mut states = vec![World::start(scenario)];
    let mut reached = vec![Reached { from: 0, by: 0, step: "" }];
    let mut backwards: Vec<(u32, u32)> = Vec::new();
    index.insert(states[0].clone(), 0);
    let mut next = 0;
    while next < states.len() {
        for me in 0..scenario.programs.len() {
            for &give_way in states[next].choices(me) {
                let mut step = Step { world: states[next].clone(), me, scenario, fault, wrong: None };
                let name = step.go_on(give_way);
                step.check_state();
                let Step { world, wrong, .. } = step;
                let to = *index.entry(world).or_insert_with_key(|world| {
                    states.push(world.clone());
                    reached.push(Reached { from: next as u32, by: me as u8, step: name });
                    states.len() as u32 - 1
                });
                if let Some(claim) = wrong {
                    reached.push(Reached { from: next as u32, by: me as u8, step: name });
                    states.push(states[to as usize].clone());
                    let trace = trace(&states, &reached, states.len() - 1);
                    return Found { states: states.len(), steps: HashSet::new(), failure: Some((claim, trace)) };
                }
                backwards.push((to, next as u32));
            }
        }
        next += 1;
    }
    let failure = first_hopeless(&states, &backwards, scenario);
    let steps = reached[1..].iter().map(|reached| reached.step).collect();
    Found { states: states.len(), steps, failure: failure.map(|at| ("no good end can be reached any more", trace(&states, &reached, at))) }
}

/// The first state from which no good end can be reached.
fn first_hopeless(states: &[World], backwards: &[(u32, u32)], scenario: &Scenario) -> Option<usize> {
    let mut edges = backwards.to_vec();
    edges.sort_unstable();
    let mut hopeful: Vec<bool> = states.iter().map(|world| world.is_good_end(scenario)).collect();
    let mut open: Vec<u32> = (0..states.len() as u32).filter(|&at| hopeful[at as usize]).collect();
    while let Some(at) = open.pop() {
        let first = edges.partition_point(|&(to, _)| to < at);
        for &(_, from) in edges[first..].iter().take_while(|&&(to, _)| to == at) {
            if !std::mem::replace(&mut hopeful[from as usize], true) {
                open.push(from);
            }
        }
    }
    hopeful.iter().position(|hopeful| !hopeful)
}

fn trace(states: &[World], reached: &[Reached], end: usize) -> String {
    let mut way = Vec::new();
    let mut at = end;
    while at != 0 {
        way.push(at);
        at = reached[at].from as usize;
    }
    let mut text = String::new();
    for (number, &at) in way.iter().rev().enumerate() {
        let Reached { by, step, .. } = reached[at];
        let owner = states[at].owner.map_or("nobody".to_owned(), |owner| format!("agent {owner}"));
        writeln!(text, "{:>3}. agent {by} {step:<26} {:?}, owner {owner}", number + 1, states[at].word).unwrap();
    }
    text
}

use Op::{Close, CloseIfIdle, CloseNested, Drain, Enqueue, Nested, Own, Send, SendTwo, Stop, WaitEnded, WaitIdle};

/// Every step there is.
const STEPS: &[&str] = &[
    "drops its handle",
    "claims",
    "fails to claim",
    "pushes two",
    "enqueues",
    "pushes from inside a turn",
    "owns, or is refused",
    "takes for its own turn",
    "wakes in its own turn",
    "runs one in its own turn",
    "drains",
    "closes",
    "closes from inside a turn",
    "closes if idle",
    "says stop",
    "looks whether it is idle",
    "looks whether it has ended",
    "pushes",
    "runs its own message",
    "tries to let go after one",
    "settles one",
    "clears WATCH",
    "wakes",
    "tries to let go",
    "gives way",
    "takes",
    "looks, and ends it",
    "lets go by what it saw",
    "wakes after letting go",
    "saves its list",
    "parks",
    "gives up the entry",
    "runs its list",
    "drains before it waits",
    "stands in the list",
    "meets the owner",
    "is woken",
    "leaves the list",
    "says that it was the last",
    "runs one",
    "runs one, and gives way",
];

const PLAIN: Scenario = Scenario { name: "", programs: &[], limit: UNBOUNDED, kept: false, drop_nested: false, ways: 0 };

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "two senders", programs: &[&[Send, Send], &[Send, Send]], kept: true, ..PLAIN },
    Scenario { name: "three senders", programs: &[&[Send], &[Send, Send], &[Send]], kept: true, ..PLAIN },
    Scenario { name: "three senders, last drop", programs: &[&[Send], &[Send], &[Send]], ..PLAIN },
    Scenario { name: "saturation", programs: &[&[Enqueue, Enqueue, Enqueue, Enqueue, Drain], &[Send, Send]], kept: true, ways: 1, ..PLAIN },
    Scenario { name: "saturation in twos", programs: &[&[SendTwo, SendTwo], &[SendTwo, Send]], kept: true, ways: 1, ..PLAIN },
    Scenario { name: "nested", programs: &[&[Nested, Nested], &[Nested, Send], &[Send]], kept: true, ways: 1, ..PLAIN },
    Scenario { name: "enqueue", programs: &[&[Enqueue, Send], &[Enqueue, Nested], &[Drain]], kept: true, ways: 1, ..PLAIN },
    Scenario { name: "enqueue, nested last drop", programs: &[&[Enqueue], &[Nested], &[Enqueue]], drop_nested: true, ways: 1, ..PLAIN },
    Scenario { name: "close", programs: &[&[Send, Close], &[Nested, Send], &[WaitEnded]], kept: true, ..PLAIN },
    Scenario { name: "close inside, enqueue", programs: &[&[Enqueue, CloseNested], &[Send], &[WaitEnded]], drop_nested: true, ..PLAIN },
    Scenario { name: "close twice", programs: &[&[Send, CloseIfIdle], &[Enqueue, Close], &[CloseNested]], ways: 1, ..PLAIN },
    Scenario { name: "stop", programs: &[&[Enqueue, Send], &[Stop], &[Nested, WaitEnded]], ..PLAIN },
    Scenario { name: "wait for idle", programs: &[&[Send, Send], &[WaitIdle], &[Nested, WaitIdle]], ways: 1, ..PLAIN },
    Scenario { name: "wait for idle, enqueue, close", programs: &[&[Enqueue, Close], &[WaitIdle], &[Send]], kept: true, ..PLAIN },
    Scenario { name: "room for one", programs: &[&[Send, Send], &[Send, Nested], &[Enqueue]], limit: 1, kept: true, ways: 1, ..PLAIN },
    Scenario { name: "room for one, waiting", programs: &[&[Send, SendTwo], &[Send, WaitIdle], &[Nested]], limit: 1, ..PLAIN },
    Scenario {
        name: "room for one, watched",
        programs: &[&[Enqueue, Send, Send], &[SendTwo, Drain, Send], &[WaitIdle]],
        limit: 1,
        kept: true,
        ..PLAIN
    },
    Scenario { name: "all sorts", programs: &[&[Send, SendTwo], &[Nested, WaitIdle, Send], &[Enqueue, Drain]], ways: 1, ..PLAIN },
    Scenario { name: "all sorts, stop", programs: &[&[SendTwo, Stop], &[Nested, WaitIdle, Send], &[Enqueue, WaitEnded]], ways: 1, ..PLAIN },
    Scenario { name: "own", programs: &[&[Own, Own], &[Send, Own], &[Send]], kept: true, ..PLAIN },
    Scenario { name: "own a parked one", programs: &[&[Enqueue, Own], &[Enqueue, Own], &[Nested]], kept: true, ways: 1, ..PLAIN },
    Scenario { name: "own, close", programs: &[&[Enqueue, Own], &[Send, Close], &[WaitEnded]], ..PLAIN },
    Scenario { name: "own, close inside, last drop", programs: &[&[Nested, Own], &[CloseNested, Own], &[WaitIdle]], ways: 1, ..PLAIN },
    Scenario { name: "own, room for one", programs: &[&[Enqueue, Own, Send], &[Own, Send], &[Enqueue]], limit: 1, kept: true, ..PLAIN },
    Scenario { name: "own, saturation", programs: &[&[SendTwo, Own, SendTwo], &[SendTwo, Own]], kept: true, ways: 1, ..PLAIN },
    Scenario { name: "room for one, close", programs: &[&[Enqueue, Close], &[Send, WaitEnded], &[Nested]], limit: 1, ways: 1, ..PLAIN },
];

#[test]
fn every_interleaving_of_the_words_transitions_ends_well() {
    let mut total = 0;
    let mut steps = HashSet::new();
    for scenario in SCENARIOS {
        let found = search(scenario, Fault::None);
        println!("{:>8} states: {}", found.states, scenario.name);
        if let Some((claim, trace)) = found.failure {
            panic!("{}: {claim}\n{trace}", scenario.name);
        }
        total += found.states;
        steps.extend(found.steps);
    }
    // A search that never gets to a step says nothing about it.
    let missed: Vec<_> = STEPS.iter().filter(|step| !steps.contains(**step)).collect();
    assert!(missed.is_empty() && steps.len() == STEPS.len(), "never taken: {missed:?} of {steps:?}");
    println!("{total:>8} states in all");
}

fn shortest_failure(fault: Fault) -> (&'static str, String) {
    let failures =
        SCENARIOS.iter().filter(|scenario| scenario.name.starts_with("saturation")).filter_map(|scenario| search(scenario, fault).failure);
    let (claim, trace) = failures.min_by_key(|(_, trace)| trace.lines().count()).expect("the planted fault was not found");
    println!("{fault:?}: {claim}\n{trace}");
    (claim, trace)
}

#[test]
fn a_saturated_count_that_is_subtracted_from_is_found() {
    let (claim, _) = shortest_failure(Fault::PlainSubtraction);
    assert!(["there are two owners", "neither owned, nor parked, nor idle: or two of them"].contains(&claim), "{claim}");
}

#[test]
fn a_release_that_demands_the_exact_count_is_found() {
    let (claim, _) = shortest_failure(Fault::ReleaseDemandsDone);
    assert_eq!(claim, "no good end can be reached any more");
}
