//! An exhaustive search over the word's transitions with all flags, breadth first and sequentially
//! consistent.
//!
//! Each agent runs a small program (sends, posts, close, waits, ...) one shared access at a time;
//! the search visits every interleaving once per state. The transitions are the real ones of
//! `src/mailbox/word.rs`, with COUNT saturated at 3; the code of an owner between them is written
//! again here, step for step as in `src/turn/run.rs`, with the mailbox's one entry (SCHEDULED), the
//! hints beside it, and the drains of an executor (POSTED). Room is not part of the word: the
//! models of `loom-tests` and `tests/it/full_mailbox.rs` test it.
//!
//! Checked in every state: there is one owner; COUNT below saturation is exact; messages run in the
//! order in which they were accepted and each once; nothing is touched after it was freed; the
//! end-of-life step runs once and after the last message. Checked at the end: from every state a
//! good end can be reached, so nothing strands, and no agent spins or sleeps for ever.
//!
//! Memory order is not checked here: the models in `loom-tests` do that.
//!
//! A program of its own, because `word.rs` names items at the root of its crate.
//!
//! With `TURNWISE_SEARCH_ALL` set, longer programs are searched too, which takes minutes:
//! `TURNWISE_SEARCH_ALL=1 cargo test --release --test word_search`.

#[allow(dead_code)]
#[path = "../src/mailbox/word.rs"]
mod word;

/// The items of the crate that `word.rs` needs.
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
        pub(crate) fn stand_back() {}
    }
}

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::Mutex;
use std::thread;

use sync::config::COUNT_MAX;
use word::{CLOSED, Due, Entry, Head, Next, ORPHAN, Refusal, Snapshot, Unscheduled, Word};

/// Agents with a program, and the executor.
const AGENTS: usize = 4;
/// Messages of one agent.
const PER_AGENT: usize = 5;
const NODES: usize = (AGENTS - 1) * PER_AGENT;
/// The position of a node's number in its address.
const NODE_SHIFT: u32 = 5;

/// The deeds of an agent, in order; then it drops its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Send,
    /// Two messages in one step.
    SendTwo,
    /// A message that is left to the executor.
    Post,
    /// A send from inside a turn of another actor: left, and deferred on this thread.
    Nested,
    /// A message of a caller that must not sleep: it drains at once, or not at all.
    Only,
    Close,
    /// From inside a turn.
    CloseNested,
    CloseIfIdle,
    Stop,
    WaitIdle,
    WaitEnded,
}

/// A wrong form of a step, which the search has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// `release` succeeds only if COUNT is the number of turns done.
    ReleaseDemandsDone,
    /// A drain clears the flag only after it has found the mailbox not pending.
    LowersLate,
    /// A message is posted before the mailbox is pending.
    SchedulesTooEarly,
    /// An entry takes the mailbox over by one step, and is marked as used by another.
    EntryUsedUpLate,
    /// An entry that finds the mailbox not pending is not marked as used.
    StaleEntryStaysOut,
    /// A release forgets that the entry is out.
    ReleaseForgetsTheEntry,
    /// The last reference frees the block, although the entry is out.
    FreesUnderTheEntry,
    /// The last reference leaves the block to the entry, and does not mark that.
    LeavesItUnsaid,
}

#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    programs: &'static [&'static [Op]],
    /// One more handle is kept for ever, so the last drop rescues nothing.
    kept: bool,
    /// Handles are dropped inside a turn.
    drop_nested: bool,
    /// The number of times that each agent, between two turns, yields to another mailbox of its
    /// thread.
    ways: u8,
    /// Another thread runs drains: an executor's, or the fallback's.
    executor: bool,
    /// They are its executor's: no other thread runs the actor.
    has_executor: bool,
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

/// The position of an agent: its next shared access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Begin,
    Push,
    RunInline,
    ReleaseOne,
    RaiseClosed,
    Turn,
    Run,
    Guess,
    /// After the read of `let_go`.
    Decide(Snapshot),
    Release(Snapshot),
    WakeReleased {
        watched: bool,
        closed: bool,
    },
    Take,
    Save(Way),
    Leave(Way, bool),
    Schedule,
    Submit,
    Enter,
    RefDone,
    Unlist,
    UseEntry,
    RetainByEntry,
    EntryUsedUp,
    LastLook,
    LastWord,
    Help,
    WaitAdd,
    WaitStay,
    Sleep,
    WaitRemove,
    Orphan,
    Over,
    // The executor's thread.
    Idle,
    Lower,
    TakeDrain,
    LowerLate,
}

/// The ways in which an owner with more messages continues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Way {
    /// With the next turn.
    On,
    /// It yields to this thread's list.
    Defer,
    /// The executor continues.
    HandOff,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Agent {
    op: u8,
    at: At,
    batch: List,
    done: u8,
    /// The mailbox's entry is in this thread's list.
    listed: bool,
    /// A hint is in this thread's list.
    hinted: bool,
    /// The entry is in hand.
    entry: bool,
    /// References in hand that are not given up yet.
    kept: u8,
    /// It has given up the last one.
    last: bool,
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
    freed: bool,
    stop: bool,
    /// Messages were posted.
    posts: bool,
    ended: u8,
    watchers: u8,
    mourners: u8,
    /// Agents that were woken and have not noticed yet.
    tokens: u8,
    /// A drain without the entry is out.
    posted: bool,
    /// The number of such drains that the executor has.
    queued: u8,
    /// The executor has the entry.
    entered: bool,
    agents: [Agent; AGENTS],
    // Known to the checks, and to no agent.
    accepted: List,
    owner: Option<u8>,
    /// COUNT includes one for a flag that was raised on an idle mailbox.
    phantom: u8,
}

fn address(node: u8) -> u64 {
    (u64::from(node) + 1) << NODE_SHIFT
}

impl World {
    fn start(scenario: &Scenario) -> Self {
        let agents = scenario.programs.len();
        let agent = Agent {
            op: 0,
            at: At::Over,
            batch: List::default(),
            done: 0,
            listed: false,
            hinted: false,
            entry: false,
            kept: 0,
            last: false,
            ways: scenario.ways,
            sent: 0,
        };
        let mut world = World {
            word: Snapshot::IDLE,
            links: [0; NODES],
            saved: List::default(),
            handles: agents as u8 + u8::from(scenario.kept),
            storage: 1,
            freed: false,
            stop: false,
            posts: false,
            ended: 0,
            watchers: 0,
            mourners: 0,
            tokens: 0,
            posted: false,
            queued: 0,
            entered: false,
            agents: [agent; AGENTS],
            accepted: List::default(),
            owner: None,
            phantom: 0,
        };
        world.agents[..agents].iter_mut().for_each(|agent| agent.at = At::Begin);
        if scenario.executor {
            world.agents[agents].at = At::Idle;
        }
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
        self.scenario.programs.get(self.me)?.get(usize::from(agent.op)).copied()
    }
    fn go(&mut self, at: At) {
        self.agent().at = at;
    }
    fn check(&mut self, holds: bool, claim: &'static str) {
        if !holds {
            self.wrong.get_or_insert(claim);
        }
    }

    /// Runs one operation of the real word.
    fn on_word<R>(&mut self, f: impl FnOnce(&Word) -> R) -> R {
        self.check(!self.world.freed, "the word is touched after the block was freed");
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
    /// Takes one more reference.
    fn keep(&mut self) {
        self.retain();
        self.agent().kept += 1;
    }
    fn give_up_storage(&mut self) {
        self.check(self.world.storage > 0, "storage is given up twice");
        self.world.storage = self.world.storage.saturating_sub(1);
        self.agent().last = self.world.storage == 0;
    }
    fn free(&mut self) {
        self.check(!self.world.freed, "the block is freed twice");
        self.world.freed = true;
    }

    fn own(&mut self) {
        self.check(self.world.owner.is_none(), "there are two owners");
        self.world.owner = Some(self.me as u8);
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
        self.check(
            self.world.owner == Some(self.me as u8),
            "a message is run by one who does not own",
        );
        self.check(self.world.ended == 0, "a message is run after the end");
    }

    /// Appends a list from HEAD, oldest first, to the private one.
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

    /// `take_over`, then drive.
    fn take_over(&mut self, top: u64) {
        self.own();
        self.agent().batch = std::mem::take(&mut self.world.saved);
        self.append_newest_first(top);
        self.drive(0);
    }

    /// Continues after a drive, or if there was none.
    fn after(&mut self) {
        let op = self.op();
        let is_executor = self.is_executor();
        let agent = self.agent();
        if agent.last {
            agent.at = At::LastLook;
        } else if agent.kept > 0 {
            agent.at = At::RefDone;
        } else if agent.listed || agent.hinted {
            agent.at = At::Unlist;
        } else if is_executor {
            agent.at = At::Idle;
        } else {
            match op {
                None => agent.at = At::Over,
                Some(Op::WaitIdle | Op::WaitEnded) => agent.at = At::Begin,
                Some(_) => self.next_op(),
            }
        }
    }
    fn is_executor(&self) -> bool {
        self.me == self.scenario.programs.len()
    }

    /// Moves the entry of a pending mailbox to the place where the mailbox is run.
    fn put_entry(&mut self) {
        let home = self.scenario.has_executor;
        let agent = self.agent();
        (agent.entry, agent.listed) = (home, agent.listed || !home);
        if home { self.go(At::Enter) } else { self.after() }
    }

    /// Adds a hint to this thread's list, unless the mailbox is there already; with the reference
    /// in hand, or one of its own.
    fn hint(&mut self) {
        let known = self.agent().listed || self.agent().hinted;
        if !known {
            if self.agent().kept > 0 {
                self.agent().kept -= 1;
            } else {
                self.retain();
            }
            self.agent().hinted = true;
        }
        self.after();
    }

    /// Leaves a pending mailbox, whose entry is not this thread's, to the executor. `kept`: with a
    /// reference in hand.
    fn post(&mut self) {
        if self.agent().kept == 0 {
            self.keep();
        }
        self.go(At::Schedule);
    }

    /// Does what a message or a flag that was left pending requires.
    fn see_to_it(&mut self, due: Due, nested: bool) {
        match due {
            Due::Scheduled(_) => self.put_entry(),
            // The executor reaches the entry.
            _ if self.scenario.has_executor => self.after(),
            _ if nested => self.hint(),
            _ => self.post(),
        }
    }

    fn next_op(&mut self) {
        let agent = self.agent();
        agent.op += 1;
        agent.at = At::Begin;
    }

    /// The mode of a call that drains if it can; inside a turn it never does.
    fn entry(&self, nested: bool) -> Entry {
        if nested || self.scenario.has_executor { Entry::Leave } else { Entry::Drain }
    }

    fn push(&mut self, entry: Entry, nested: bool, n: u8) {
        let first = self.new_node();
        let mut top = first;
        for _ in 1..n {
            let node = self.new_node();
            self.world.links[usize::from(node)] = top + 1;
            top = node;
        }
        let free = self.world.owner.is_none();
        let was_closed = self.world.word.has(CLOSED);
        let seen = self.world.word;
        let mut link = None;
        let nodes = (address(top), n.into());
        match self.on_word(|word| word.push(seen, nodes, entry, |head| link = Some(head))) {
            Err(refusal) => {
                self.check(self.world.word == seen, "a refused send has changed the word");
                let closed = refusal == Refusal::Closed;
                self.check(closed == was_closed, "closed is the wrong answer, or the missing one");
                let busy = refusal == Refusal::Busy;
                self.check(!busy || (!free && entry == Entry::DrainOnly), "it is not busy");
                self.check(was_closed || busy, "there was no reason");
                for node in first..=top {
                    self.world.links[usize::from(node)] = 0;
                }
                // They are returned to their sender.
                self.agent().sent -= n;
                self.after();
            }
            Ok(due) => {
                self.check(!was_closed, "a closed mailbox accepts");
                let link = link.expect("a push links") >> NODE_SHIFT;
                self.world.links[usize::from(first)] = link as u8;
                (first..=top).for_each(|node| self.world.accepted.push(node));
                match due {
                    Due::Drain(..) => {
                        self.own();
                        self.append_newest_first(address(top));
                        self.drive(0);
                    }
                    Due::TakeOver(..) => self.take_over(address(top)),
                    Due::Scheduled(_) | Due::Schedule => self.see_to_it(due, nested),
                    Due::Nothing => self.after(),
                }
            }
        }
    }

    fn raise(&mut self, flag: u64, nested: bool, only_if_idle: bool) {
        let entry = match self.entry(nested) {
            Entry::Drain if self.world.posts => Entry::DrainOnly,
            entry => entry,
        };
        let idle = self.world.word.count() == 0;
        let raised = self.on_word(|word| match only_if_idle {
            true => word.raise_if_idle(flag, entry),
            false => word.raise(flag, entry),
        });
        match raised {
            Some(due @ (Due::Scheduled(_) | Due::Schedule)) => {
                self.world.phantom += u8::from(idle);
                // It keeps an orphan, whatever thread runs it meanwhile.
                self.keep();
                self.see_to_it(due, nested);
            }
            Some(Due::Drain(..)) => {
                self.own();
                self.drive(1);
            }
            Some(Due::TakeOver(_, Head(head))) => self.take_over(head),
            Some(Due::Nothing) | None => self.after(),
        }
    }

    /// Returns the turns that COUNT does not include yet, and its part for a raised flag.
    fn unsettled(&self) -> u8 {
        let done = |owner| self.world.agents[usize::from(owner)].done;
        self.world.owner.map_or(0, done) + self.world.phantom
    }

    fn released(&mut self) {
        if self.fault == Fault::ReleaseForgetsTheEntry {
            self.on_word(|word| word.unschedule_only());
        }
        self.disown();
        self.world.phantom = 0;
        self.agent().done = 0;
    }

    /// Takes the step, and returns its name.
    fn go_on(&mut self, way: Way) -> &'static str {
        let at = self.world.agents[self.me].at;
        let bit = 1 << self.me;
        match at {
            At::Begin => match self.op() {
                None => {
                    self.world.handles -= 1;
                    let last = self.world.handles == 0;
                    self.go(if last { At::Orphan } else { At::Over });
                    "drops its handle"
                }
                Some(Op::Send) if self.scenario.has_executor => {
                    self.push(Entry::Leave, false, 1);
                    "leaves a message to the executor"
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
                    self.push(self.entry(false), false, 2);
                    "pushes two"
                }
                Some(Op::Post) => {
                    self.world.posts = true;
                    let home = self.scenario.has_executor;
                    self.push(if home { Entry::Leave } else { Entry::Post }, false, 1);
                    "leaves a message to the executor"
                }
                Some(Op::Nested) => {
                    self.push(Entry::Leave, true, 1);
                    "pushes from inside a turn"
                }
                Some(Op::Only) => {
                    self.push(Entry::DrainOnly, false, 1);
                    "pushes if it can drain"
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
                        self.help_or_wait()
                    }
                    "looks whether it is idle"
                }
                Some(Op::WaitEnded) => {
                    let now = self.on_word(|word| word.look());
                    let over = now.has(CLOSED) && now.count() == 0;
                    if over {
                        self.next_op()
                    } else {
                        self.help_or_wait()
                    }
                    "looks whether it has ended"
                }
            },
            At::Push => {
                self.push(Entry::Drain, false, 1);
                "pushes"
            }
            At::RunInline => {
                let node = self.last_node();
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
                    self.drive(1);
                }
                "tries to let go after one"
            }
            At::RaiseClosed => {
                self.raise(CLOSED, false, false);
                "closes"
            }

            // The turns of an owner.
            At::Turn => {
                self.go(At::Run);
                self.go_on(way)
            }
            At::Run => {
                if let Some(node) = self.agent().batch.pop() {
                    self.run(node);
                }
                self.agent().done += 1;
                match (self.agent().batch.len > 0, way) {
                    (true, Way::On) => self.go(At::Turn),
                    (true, way) => self.leave(way),
                    (false, _) => self.go(At::Guess),
                }
                if way == Way::On { "runs one" } else { "runs one, and gives way" }
            }

            // The release.
            At::Guess => {
                let done = u64::from(self.agent().done);
                match self.on_word(|word| word.release_guess(done)) {
                    Ok(()) => {
                        self.released();
                        self.after();
                    }
                    Err(seen) => self.go(At::Decide(seen)),
                }
                "tries to let go"
            }
            At::Decide(seen) if seen.head() != 0 && way != Way::On => {
                self.leave(way);
                self.go_on(Way::On);
                "gives way"
            }
            At::Decide(seen) if seen.head() != 0 => {
                self.go(At::Take);
                "finds more"
            }
            At::Take => {
                // The read and the step that follows are as good as one: a step of another agent in
                // between makes it read again.
                let done = std::mem::take(&mut self.agent().done);
                let seen = self.world.word;
                let Head(head) = self.on_word(|word| word.take(seen, done.into()));
                self.append_newest_first(head);
                self.go(At::Turn);
                "takes"
            }
            At::Decide(seen) if seen.has(CLOSED | ORPHAN) => {
                let now = self.on_word(|word| word.look());
                if now.let_go(self.world.ended == 1) == Next::End {
                    self.check(self.world.accepted.len == 0, "it ends before the last message");
                    self.world.ended = 1;
                    // Another agent's step may change the read that follows.
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
            At::Save(way) => {
                let list = std::mem::take(&mut self.agent().batch);
                self.check(self.world.saved.len == 0, "a list was saved already");
                self.world.saved = list;
                self.keep();
                if self.posts_too_early(way) {
                    let out = std::mem::replace(&mut self.world.posted, true);
                    if !out {
                        self.retain();
                        self.world.queued += 1;
                    }
                }
                // It is scheduled with its entry, unless that is out.
                let home = if self.scenario.has_executor { Way::HandOff } else { Way::Defer };
                let scheduled = way == home && !self.on_word(|word| word.load().is_scheduled());
                self.go(At::Leave(way, scheduled));
                "saves its list"
            }
            At::Leave(way, scheduled) => {
                let done = std::mem::take(&mut self.agent().done);
                self.agent().ways -= 1;
                let _ = self.on_word(|word| word.set_pending(done.into(), scheduled));
                self.disown();
                if self.posts_too_early(way) {
                    self.after();
                } else if scheduled {
                    self.put_entry();
                } else if way == Way::Defer {
                    self.hint();
                } else {
                    self.go(At::Schedule);
                }
                "leaves it pending"
            }
            At::Schedule if self.scenario.has_executor => {
                let entry = self.on_word(|word| word.schedule()).is_some();
                self.agent().entry = entry;
                if entry {
                    self.go(At::Enter)
                } else {
                    self.after()
                }
                "schedules its entry"
            }
            At::Schedule => {
                let out = std::mem::replace(&mut self.world.posted, true);
                if out {
                    self.after()
                } else {
                    self.go(At::Submit)
                }
                "schedules"
            }
            At::Submit => {
                // The reference in hand is the drain's now.
                self.agent().kept -= 1;
                self.world.queued += 1;
                self.after();
                "gives a drain to the executor"
            }
            At::Enter => {
                self.agent().entry = false;
                self.check(!self.world.entered, "there are two entries");
                self.world.entered = true;
                self.after();
                "gives the entry to the executor"
            }
            At::RefDone => {
                self.agent().kept -= 1;
                self.give_up_storage();
                self.after();
                "gives up a reference"
            }
            At::Unlist if self.world.agents[self.me].listed => {
                let agent = self.agent();
                (agent.listed, agent.entry) = (false, true);
                self.go(if way == Way::On { At::UseEntry } else { At::RetainByEntry });
                self.go_on(way)
            }
            At::Unlist => {
                let agent = self.agent();
                agent.hinted = false;
                agent.kept += 1;
                self.take_pending_or(|step| step.after());
                "runs its list"
            }
            At::UseEntry if self.fault == Fault::EntryUsedUpLate => {
                match self.on_word(|word| word.take_over()) {
                    Some((_, Head(head))) => self.take_over(head),
                    None => self.go(At::EntryUsedUp),
                }
                "runs an entry that is still out"
            }
            At::UseEntry => {
                self.agent().entry = false;
                let stale = self.world.storage > 0 && !self.world.word.is_pending();
                let used_up = match self.fault == Fault::StaleEntryStaysOut && stale {
                    true => Unscheduled::Stale,
                    false => self.on_word(|word| word.unschedule()),
                };
                match used_up {
                    Unscheduled::Owns(_, Head(head)) => self.take_over(head),
                    Unscheduled::Stale => self.after(),
                    Unscheduled::Dead => {
                        self.free();
                        self.after();
                    }
                }
                "runs the entry"
            }
            At::RetainByEntry => {
                // A reference takes the entry's place, unless they are all gone.
                if self.world.storage == 0 {
                    self.go(At::UseEntry);
                } else {
                    self.keep();
                    self.go(At::EntryUsedUp);
                }
                "takes a reference for the entry"
            }
            At::EntryUsedUp => {
                self.on_word(|word| word.unschedule_only());
                let agent = self.agent();
                agent.entry = false;
                match (self.fault == Fault::EntryUsedUpLate, self.is_executor()) {
                    (true, _) => self.after(),
                    (_, true) => self.hint(),
                    (_, false) => self.go(At::Schedule),
                }
                "says that the entry is used up"
            }
            At::LastLook => {
                let out = self.on_word(|word| word.look()).is_scheduled();
                if out && self.fault != Fault::FreesUnderTheEntry {
                    self.go(At::LastWord);
                } else {
                    self.agent().last = false;
                    self.free();
                    self.after();
                }
                "has given up the last reference"
            }
            At::LastWord => {
                self.agent().last = false;
                let left = self.fault == Fault::LeavesItUnsaid
                    || self.on_word(|word| word.is_left_to_entry());
                if !left {
                    self.free();
                }
                self.after();
                "leaves the block to the entry, if that is out"
            }

            // Waiting for idle and end.
            At::Help => {
                self.take_pending_or(|step| step.go(At::WaitAdd));
                "helps before it waits"
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
                    self.on_word(|word| word.watch())
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

            // The executor.
            At::Idle if self.world.entered && way != Way::Defer => {
                self.world.entered = false;
                self.agent().entry = true;
                // In the executor's own call nothing is run: a hint takes the place of the entry.
                let at_work = way == Way::HandOff;
                self.go(if at_work { At::RetainByEntry } else { At::UseEntry });
                "takes the entry"
            }
            At::Idle => {
                self.world.queued -= 1;
                self.agent().kept += 1;
                let late = self.fault == Fault::LowersLate;
                self.go(if late { At::TakeDrain } else { At::Lower });
                "takes a drain"
            }
            At::Lower => {
                self.world.posted = false;
                self.go(At::TakeDrain);
                "says that no drain is out"
            }
            At::TakeDrain => {
                if self.fault == Fault::LowersLate {
                    self.take_pending_or(|step| step.go(At::LowerLate));
                    let found = !matches!(self.agent().at, At::LowerLate);
                    self.world.posted &= !found;
                } else {
                    self.take_pending_or(|step| step.after());
                }
                "runs a drain"
            }
            At::LowerLate => {
                self.world.posted = false;
                self.after();
                "says too late that no drain is out"
            }
            At::Over => unreachable!("nothing follows"),
        }
    }

    /// Returns the last message that it has sent.
    fn last_node(&self) -> u8 {
        (self.me * PER_AGENT) as u8 + self.world.agents[self.me].sent - 1
    }

    /// Leaves messages that this thread must not continue with.
    fn leave(&mut self, way: Way) {
        self.go(At::Save(way));
    }

    fn posts_too_early(&self, way: Way) -> bool {
        let posts = way == Way::HandOff && !self.scenario.has_executor;
        self.fault == Fault::SchedulesTooEarly && posts
    }

    fn help_or_wait(&mut self) {
        self.go(if self.scenario.has_executor { At::WaitAdd } else { At::Help });
    }

    fn take_pending_or(&mut self, not: impl FnOnce(&mut Self)) {
        match self.on_word(|word| word.take_over()) {
            Some((_, Head(head))) => self.take_over(head),
            None => not(self),
        }
    }

    fn release(&mut self, seen: Snapshot) {
        match seen.let_go(self.world.ended == 1) {
            Next::Bury => {
                self.disown();
                self.world.phantom = 0;
                self.agent().done = 0;
                self.give_up_storage();
                self.after();
            }
            Next::Take | Next::End => self.go(At::Decide(seen)),
            Next::Release(_)
                if self.fault == Fault::ReleaseDemandsDone
                    && seen.count() != u64::from(self.agent().done) =>
            {
                // As in the sources: subtract what was done, and continue.
                let done = std::mem::take(&mut self.agent().done);
                let Head(head) = self.on_word(|word| word.take(seen, done.into()));
                self.append_newest_first(head);
                self.drive(0);
            }
            Next::Release(next) if !seen.has(CLOSED) && !seen.is_watched() => {
                match self.on_word(|word| word.release_from(seen, next)) {
                    Ok(()) => {
                        self.released();
                        self.after();
                    }
                    Err(now) => self.go(At::Decide(now)),
                }
            }
            Next::Release(next) => match self.on_word(|word| word.release_met(seen, next)) {
                Ok(()) => {
                    self.retain();
                    self.released();
                    let (watched, closed) = (seen.is_watched(), seen.has(CLOSED));
                    self.go(At::WakeReleased { watched, closed });
                }
                Err(now) => self.go(At::Decide(now)),
            },
        }
    }

    /// Checks the invariants of every state.
    fn check_state(&mut self) {
        let world = &self.world;
        let (word, owner) = (world.word, world.owner);
        let entries =
            world.agents.iter().map(|agent| u8::from(agent.listed) + u8::from(agent.entry));
        let entries = entries.sum::<u8>() + u8::from(world.entered);
        let one = world.storage == 0 || entries == u8::from(world.word.is_scheduled());
        if world.storage == 0 {
            let gone = world.accepted.len == 0 && world.ended == 1 && world.handles == 0;
            self.check(gone, "the block is freed too early");
            return;
        }
        let orphan_done = word.has(ORPHAN) && owner.is_none() && world.ended == 1;
        let count = world.accepted.len + self.unsettled();
        let exact = word.count() == COUNT_MAX || word.count() == count.into() || orphan_done;
        let idle_word = owner.is_none() && word.count() == 0;
        let pending = owner.is_some() != word.is_pending() || idle_word || orphan_done;
        let idle = word.count() > 0 || (owner.is_none() && word.head() == 0 && !word.is_watched());
        let ended = !(word.has(CLOSED) && word.count() == 0) || world.ended == 1;
        let late = self.fault == Fault::EntryUsedUpLate;
        self.check(one || late, "the word does not say whether the entry is out");
        self.check(pending, "neither owned, nor pending, nor idle: or two of them");
        self.check(self.fault != Fault::None || exact, "COUNT below saturation is not exact");
        self.check(self.fault != Fault::None || idle, "COUNT is 0, but it is not idle");
        self.check(ended, "it is closed and idle, but has not ended");
    }
}

impl World {
    fn is_over(&self) -> bool {
        self.agents.iter().all(|agent| matches!(agent.at, At::Over | At::Idle))
            && self.queued == 0
            && !self.entered
    }

    /// True if nothing is left to do, and everything is done.
    fn is_good_end(&self, scenario: &Scenario) -> bool {
        let run = self.accepted.len == 0 && self.word.count() == 0;
        let gone = self.freed && self.ended == 1;
        self.is_over() && if scenario.kept { run && self.storage == 1 } else { gone }
    }

    /// Returns the ways in which this agent may take a step now.
    fn choices(&self, me: usize, scenario: &Scenario) -> &'static [Way] {
        const WAYS: &[Way] = &[Way::On, Way::Defer, Way::HandOff];
        let agent = &self.agents[me];
        let ways = match (agent.ways > 0, scenario.executor, scenario.has_executor) {
            (false, ..) => &WAYS[..1],
            (true, false, _) => &WAYS[..2],
            (true, true, _) => WAYS,
        };
        let woken = self.tokens & 1 << me != 0;
        match agent.at {
            At::Over => &[],
            At::Idle if self.queued == 0 && !self.entered => &[],
            At::Idle => match (self.entered, self.queued > 0) {
                (true, true) => WAYS,
                (true, false) => &[Way::On, Way::HandOff],
                (false, _) => &WAYS[1..2],
            },
            // What a thread that is about to sleep has promised is for others.
            At::Unlist if agent.listed && scenario.executor && !scenario.has_executor => {
                &[Way::On, Way::HandOff]
            }
            At::Sleep if !woken => &[],
            At::Run if agent.batch.len > 1 => ways,
            At::Turn if agent.batch.len > 1 => ways,
            At::Decide(seen) if seen.head() != 0 => ways,
            _ => &WAYS[..1],
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

/// The way in which a state was first reached.
#[derive(Clone, Copy)]
struct Reached {
    from: u32,
    by: u8,
    step: &'static str,
}

struct Found {
    states: usize,
    steps: HashSet<&'static str>,
    /// The failure, with the shortest way to it.
    failure: Option<(&'static str, String)>,
}

fn search(scenario: &Scenario, fault: Fault) -> Found {
    let mut index: HashMap<Rc<World>, u32, BuildHasherDefault<Quick>> = HashMap::default();
    let mut states = vec![Rc::new(World::start(scenario))];
    let mut reached = vec![Reached { from: 0, by: 0, step: "" }];
    let mut backwards: Vec<(u32, u32)> = Vec::new();
    index.insert(states[0].clone(), 0);
    let mut steps = HashSet::new();
    let mut next = 0;
    while next < states.len() {
        for me in 0..scenario.programs.len() + usize::from(scenario.executor) {
            for &way in states[next].choices(me, scenario) {
                let world = World::clone(&states[next]);
                let mut step = Step { world, me, scenario, fault, wrong: None };
                let name = step.go_on(way);
                step.check_state();
                steps.insert(name);
                let Step { world, wrong, .. } = step;
                let known = index.get(&world).copied();
                let to = known.unwrap_or_else(|| {
                    let world = Rc::new(world);
                    states.push(world.clone());
                    reached.push(Reached { from: next as u32, by: me as u8, step: name });
                    let to = states.len() as u32 - 1;
                    index.insert(world, to);
                    to
                });
                if let Some(claim) = wrong {
                    reached.push(Reached { from: next as u32, by: me as u8, step: name });
                    states.push(states[to as usize].clone());
                    let trace = trace(&states, &reached, states.len() - 1);
                    return Found {
                        states: states.len(),
                        steps: HashSet::new(),
                        failure: Some((claim, trace)),
                    };
                }
                backwards.push((to, next as u32));
            }
        }
        next += 1;
    }
    let failure = first_hopeless(&states, &backwards, scenario);
    Found {
        states: states.len(),
        steps,
        failure: failure
            .map(|at| ("no good end can be reached any more", trace(&states, &reached, at))),
    }
}

/// Returns the first state from which no good end can be reached.
fn first_hopeless(
    states: &[Rc<World>],
    backwards: &[(u32, u32)],
    scenario: &Scenario,
) -> Option<usize> {
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

fn trace(states: &[Rc<World>], reached: &[Reached], end: usize) -> String {
    let mut way = Vec::new();
    let mut at = end;
    while at != 0 {
        way.push(at);
        at = reached[at].from as usize;
    }
    let mut text = String::new();
    for (number, &at) in way.iter().rev().enumerate() {
        let Reached { by, step, .. } = reached[at];
        let owner = states[at].owner.map_or("none".to_owned(), |owner| format!("agent {owner}"));
        writeln!(
            text,
            "{:>3}. agent {by} {step:<26} {:?}, owner {owner}",
            number + 1,
            states[at].word
        )
        .unwrap();
    }
    text
}

use Op::{
    Close, CloseIfIdle, CloseNested, Nested, Only, Post, Send, SendTwo, Stop, WaitEnded, WaitIdle,
};

/// All steps.
const STEPS: &[&str] = &[
    "drops its handle",
    "claims",
    "fails to claim",
    "pushes two",
    "leaves a message to the executor",
    "pushes from inside a turn",
    "pushes if it can drain",
    "closes",
    "closes from inside a turn",
    "closes if idle",
    "says stop",
    "looks whether it is idle",
    "looks whether it has ended",
    "pushes",
    "runs its own message",
    "tries to let go after one",
    "runs one",
    "runs one, and gives way",
    "tries to let go",
    "finds more",
    "gives way",
    "takes",
    "looks, and ends it",
    "lets go by what it saw",
    "wakes after letting go",
    "saves its list",
    "leaves it pending",
    "schedules",
    "gives a drain to the executor",
    "schedules its entry",
    "gives the entry to the executor",
    "gives up a reference",
    "runs the entry",
    "takes a reference for the entry",
    "says that the entry is used up",
    "has given up the last reference",
    "leaves the block to the entry, if that is out",
    "takes the entry",
    "runs its list",
    "helps before it waits",
    "stands in the list",
    "meets the owner",
    "is woken",
    "leaves the list",
    "says that it was the last",
    "takes a drain",
    "says that no drain is out",
    "runs a drain",
];

const PLAIN: Scenario = Scenario {
    name: "",
    programs: &[],
    kept: false,
    drop_nested: false,
    ways: 0,
    executor: false,
    has_executor: false,
};
/// The last handle is never dropped.
const KEPT: Scenario = Scenario { kept: true, ..PLAIN };
/// A plain actor, beside an executor that gets what its senders leave.
const POSTED: Scenario = Scenario { executor: true, ..PLAIN };
/// An actor of its executor.
const ONLY: Scenario = Scenario { has_executor: true, ..POSTED };

/// Further scenarios in which faults are searched for.
const SATURATION: &[Scenario] = &[
    Scenario {
        name: "saturation",
        programs: &[&[Nested, Nested, Send, Nested, Send], &[Send, Send]],
        ways: 1,
        ..KEPT
    },
    Scenario {
        name: "saturation in twos",
        programs: &[&[SendTwo, SendTwo], &[SendTwo, Send]],
        ways: 1,
        ..KEPT
    },
    Scenario {
        name: "saturation, posted",
        programs: &[&[SendTwo, Post], &[SendTwo, Send]],
        ways: 1,
        kept: true,
        ..POSTED
    },
];
const SCHEDULED: &[Scenario] = &[
    Scenario {
        name: "an executor",
        programs: &[&[Send, Send], &[WaitIdle], &[SendTwo]],
        ways: 1,
        kept: true,
        ..ONLY
    },
    Scenario {
        name: "an executor, last drop",
        programs: &[&[Send, Send], &[Close, WaitEnded], &[Nested]],
        ways: 1,
        ..ONLY
    },
    Scenario {
        name: "posts",
        programs: &[&[Post], &[Nested], &[WaitIdle]],
        ways: 1,
        kept: true,
        ..POSTED
    },
    Scenario {
        name: "posts, nested last drop",
        programs: &[&[Post], &[Nested], &[Post]],
        drop_nested: true,
        ways: 1,
        ..POSTED
    },
    Scenario {
        name: "posts, close twice",
        programs: &[&[Send, CloseIfIdle], &[Post, Close], &[CloseNested]],
        ways: 1,
        ..POSTED
    },
];
// The entry waits on a thread's list while others run the mailbox, fill it again, and end it.
const ENTRIES: &[Scenario] = &[
    Scenario {
        name: "an entry, and one that takes over",
        programs: &[&[Nested, Nested], &[Send, Nested], &[Only]],
        kept: true,
        ..PLAIN
    },
    Scenario {
        name: "an entry, last drop",
        programs: &[&[Nested], &[Send], &[Nested, Send]],
        ways: 1,
        ..PLAIN
    },
    Scenario {
        name: "an entry, last drop inside",
        programs: &[&[Nested, Nested], &[Send, Nested], &[Send]],
        drop_nested: true,
        ..PLAIN
    },
    Scenario {
        name: "an entry, stop",
        programs: &[&[Nested, Nested], &[Send, Stop], &[WaitEnded]],
        ..POSTED
    },
    Scenario {
        name: "an entry, posts",
        programs: &[&[Nested], &[Post], &[Send]],
        ways: 1,
        ..POSTED
    },
];
const OTHERS: &[Scenario] = &[
    Scenario { name: "two senders", programs: &[&[Send, Send], &[Send, Send]], ..KEPT },
    Scenario { name: "three senders", programs: &[&[Send], &[Send, Send], &[Send]], ..KEPT },
    Scenario { name: "three senders, last drop", programs: &[&[Send], &[Send], &[Send]], ..PLAIN },
    Scenario {
        name: "nested",
        programs: &[&[Nested, Nested], &[Nested, Send], &[Send]],
        ways: 1,
        ..KEPT
    },
    Scenario {
        name: "only if it can drain",
        programs: &[&[Only, Only], &[Nested, Only], &[Send]],
        ways: 1,
        ..KEPT
    },
    Scenario { name: "close", programs: &[&[Send, Close], &[Nested, Send], &[WaitEnded]], ..KEPT },
    Scenario {
        name: "close inside",
        programs: &[&[Nested, CloseNested], &[Send], &[WaitEnded]],
        drop_nested: true,
        ..PLAIN
    },
    Scenario { name: "stop", programs: &[&[Post, Send], &[Stop], &[Nested, WaitEnded]], ..POSTED },
    Scenario {
        name: "wait for idle",
        programs: &[&[Send, Send], &[WaitIdle], &[Nested, WaitIdle]],
        ways: 1,
        ..PLAIN
    },
    Scenario {
        name: "wait for idle, close",
        programs: &[&[Post, Close], &[WaitIdle], &[Send]],
        kept: true,
        ..POSTED
    },
    Scenario {
        name: "all sorts",
        programs: &[&[Send, SendTwo], &[Nested, WaitIdle], &[Only]],
        ways: 1,
        ..PLAIN
    },
    Scenario {
        name: "all sorts, stop",
        programs: &[&[SendTwo, Stop], &[Nested, WaitIdle, Send], &[Post, WaitEnded]],
        ..POSTED
    },
];

/// Longer programs, for a search of minutes (`TURNWISE_SEARCH_ALL`).
const BIG: &[Scenario] = &[
    Scenario {
        name: "big: all sorts",
        programs: &[&[Send, SendTwo], &[Nested, WaitIdle, Send], &[Nested, Only]],
        ways: 1,
        ..PLAIN
    },
    Scenario {
        name: "big: saturation, posted",
        programs: &[&[SendTwo, Post, SendTwo], &[SendTwo, Send]],
        ways: 1,
        kept: true,
        ..POSTED
    },
    Scenario {
        name: "big: an executor",
        programs: &[&[Send, Send], &[Send, WaitIdle], &[SendTwo]],
        ways: 1,
        kept: true,
        ..ONLY
    },
    Scenario {
        name: "big: posts",
        programs: &[&[Post, Send], &[Post, Nested], &[WaitIdle]],
        ways: 1,
        kept: true,
        ..POSTED
    },
    Scenario {
        name: "big: an entry, posts",
        programs: &[&[Nested, Nested], &[Post], &[Send]],
        ways: 1,
        ..POSTED
    },
];

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = std::env::var_os("TURNWISE_SEARCH_ALL").is_some();
    let big = if all { BIG } else { &[] };
    [OTHERS, SATURATION, SCHEDULED, ENTRIES, big].into_iter().flatten()
}

#[test]
fn every_interleaving_of_the_transitions_ends_well() {
    let mut total = 0;
    let mut steps = HashSet::new();
    let next = Mutex::new(scenarios());
    let some = || {
        let next = || next.lock().unwrap().next();
        let search = |scenario| (scenario, search(scenario, Fault::None));
        std::iter::from_fn(next).map(search).collect::<Vec<_>>()
    };
    let found = thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let searches: Vec<_> = (0..processors).map(|_| scope.spawn(some)).collect();
        searches.into_iter().flat_map(|search| search.join().unwrap()).collect::<Vec<_>>()
    });
    for (scenario, found) in found {
        println!("{:>8} states: {}", found.states, scenario.name);
        if let Some((claim, trace)) = found.failure {
            panic!("{}: {claim}\n{trace}", scenario.name);
        }
        total += found.states;
        steps.extend(found.steps);
    }
    // A search that never reaches a step says nothing about it.
    let missed: Vec<_> = STEPS.iter().filter(|step| !steps.contains(**step)).collect();
    assert!(
        missed.is_empty() && steps.len() == STEPS.len(),
        "never taken: {missed:?} of {steps:?}"
    );
    println!("{total:>8} states in all");
}

/// Returns the first check that the fault fails, in the first scenario that shows it.
fn first_failure(fault: Fault, scenarios: &[Scenario]) -> &'static str {
    let failure = scenarios.iter().find_map(|scenario| search(scenario, fault).failure);
    let (claim, trace) = failure.expect("the planted fault was not found");
    println!("{fault:?}: {claim}\n{trace}");
    claim
}

const STRANDED: &str = "no good end can be reached any more";

#[test]
fn a_release_that_demands_the_exact_count_is_found() {
    assert_eq!(first_failure(Fault::ReleaseDemandsDone, SATURATION), STRANDED);
}

#[test]
fn a_drain_that_says_too_late_that_it_runs_is_found() {
    assert_eq!(first_failure(Fault::LowersLate, SCHEDULED), STRANDED);
}

#[test]
fn a_drain_that_is_given_away_too_early_is_found() {
    assert_eq!(first_failure(Fault::SchedulesTooEarly, SCHEDULED), STRANDED);
}

#[test]
fn an_entry_that_is_used_up_in_two_steps_is_found() {
    assert_eq!(first_failure(Fault::EntryUsedUpLate, SCHEDULED), STRANDED);
}

#[test]
fn a_word_that_does_not_know_its_entry_is_found() {
    let claim = "the word does not say whether the entry is out";
    assert_eq!(first_failure(Fault::StaleEntryStaysOut, ENTRIES), claim);
    assert_eq!(first_failure(Fault::ReleaseForgetsTheEntry, ENTRIES), claim);
}

#[test]
fn a_block_that_is_freed_under_its_entry_is_found() {
    let claim = first_failure(Fault::FreesUnderTheEntry, ENTRIES);
    assert_eq!(claim, "the word is touched after the block was freed");
}

#[test]
fn a_block_that_is_left_to_nobody_is_found() {
    assert_eq!(first_failure(Fault::LeavesItUnsaid, ENTRIES), STRANDED);
}
