//! An exhaustive search over the word of an async turn, breadth first and sequentially consistent.
//!
//! The owner, two wakers, an abort handle and a stop take one shared access at a time; the search
//! visits every interleaving once per state. The transitions are the real ones of
//! `src/cell/turn.rs`; the code between them is written again here, step for step as in
//! `src/turn/run.rs`, `src/turn/waking.rs` and `src/turn/envelope/awaited.rs`. A future does
//! anything that a future may: it keeps wakers, wakes itself, is pending any number of times, or
//! completes.
//!
//! Checked in every state: there is one owner, which is in the turn while PARKED is set and nowhere
//! else; it does not stay there if it cannot be woken, was woken or cut, or if its actor was
//! stopped; LOST is set without wakers only; the counts are exact; nothing is touched after it was
//! freed; the future is dropped once, before its answer. Checked at the end: from every state an
//! end can be reached at which the turn is over and its memory freed, once.
//!
//! Memory order is not checked here: the models in `loom-tests` do that.
//!
//! A program of its own, because `turn.rs` names items at the root of its crate.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::mem::{ManuallyDrop, forget};
use std::ptr::NonNull;

#[allow(dead_code)]
#[path = "../src/cell"]
mod cell {
    #[path = "turn.rs"]
    pub(crate) mod turn;

    /// The items of its floor that `turn.rs` needs.
    pub(crate) mod header {
        use std::cell::{RefCell, RefMut};

        use super::turn::Keeper;

        #[derive(Default)]
        pub(crate) struct Lock(RefCell<Option<Keeper>>);
        impl Lock {
            pub(crate) fn lock(&self) -> RefMut<'_, Option<Keeper>> {
                self.0.borrow_mut()
            }
        }
        #[derive(Default)]
        pub(crate) struct Ext {
            pub(crate) turn: Lock,
        }
        #[derive(Default)]
        pub(crate) struct Header(Ext);
        impl Header {
            pub(crate) fn ext_made(&self) -> &Ext {
                &self.0
            }
        }
        pub(crate) struct Resting;
    }
}
mod mailbox {
    pub(crate) mod node {
        pub(crate) struct NodePtr;
    }
}
mod sync {
    pub(crate) mod config {
        /// Few, so that a test reaches the largest number of them.
        pub(crate) const WAKER_BITS: u32 = 3;
    }
    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::Ordering;

        use crate::WORD;

        /// There is one word, which the search places where it wants it.
        pub(crate) struct AtomicU64;
        impl AtomicU64 {
            pub(crate) fn new(value: u64) -> Self {
                WORD.set(value);
                AtomicU64
            }
            pub(crate) fn load(&self, _: Ordering) -> u64 {
                WORD.get()
            }
            pub(crate) fn compare_exchange(
                &self,
                from: u64,
                to: u64,
                _: Ordering,
                _: Ordering,
            ) -> Result<u64, u64> {
                assert_eq!(from, WORD.get(), "one access at a time");
                Ok(WORD.replace(to))
            }
        }
    }
    pub(crate) mod cell {
        pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);
        impl<T> UnsafeCell<T> {
            pub(crate) fn new(value: T) -> Self {
                UnsafeCell(std::cell::UnsafeCell::new(value))
            }
            pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
                f(self.0.get())
            }
        }
    }
}

use cell::header::{Header, Resting};
use cell::turn::{Core, Cut, Keeper, TurnMut, TurnVTable, WokenTurn};
use mailbox::node::NodePtr;

thread_local! {
    static WORD: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u8> = const { Cell::new(0) };
}

static VTABLE: TurnVTable = TurnVTable { node, free: |_| FREED.set(FREED.get() + 1) };

/// The search tracks the right to its turn.
fn node(turn: TurnMut) -> NodePtr {
    forget(turn);
    NodePtr
}

/// Returns whether a step has taken the owner out, and forgets the owner.
fn taken(woken: Option<WokenTurn>) -> bool {
    woken.map(forget).is_some()
}

/// Runs a closure on the real turn that has this word.
fn on_turn<R>(bits: &Bits, word: &mut u64, f: impl FnOnce(&mut Real) -> R) -> R {
    let core = ManuallyDrop::new(Core::new(&VTABLE));
    let mut turn = Real(NonNull::from(&*core));
    if *word & bits.parked != 0 {
        core.retain_waker();
        assert!(turn.suspend());
    }
    WORD.set(*word);
    let result = f(&mut turn);
    *word = WORD.get();
    result
}

/// A turn, and all rights to it: the search tracks who has which.
struct Real(NonNull<Core>);

impl Real {
    fn core(&self) -> &Core {
        // SAFETY: it lies in the frame of `on_turn`.
        unsafe { self.0.as_ref() }
    }
    fn right(&mut self) -> ManuallyDrop<TurnMut> {
        // SAFETY: the search has one owner, and forgets what it is lent here.
        ManuallyDrop::new(unsafe { TurnMut::first(self.0) })
    }
    fn keeper(&mut self) -> ManuallyDrop<Keeper> {
        // SAFETY: the search counts its keepers, and drops only those that it gives up. A right is
        // a keeper by its layout.
        ManuallyDrop::new(unsafe {
            std::mem::transmute::<TurnMut, Keeper>(ManuallyDrop::into_inner(self.right()))
        })
    }
    fn suspend(&mut self) -> bool {
        ManuallyDrop::into_inner(self.right()).suspend(Resting).map_err(forget).is_ok()
    }
    fn cut(&mut self) -> bool {
        taken(self.keeper().cut())
    }
    fn wake(&mut self) -> bool {
        taken(self.core().wake())
    }
    fn release_waker(&mut self, wakes: bool) -> bool {
        // SAFETY: the search counts its wakers.
        taken(unsafe { Core::release_waker(self.0, wakes) })
    }
}

/// The bits of the word, as the real steps set them.
struct Bits {
    parked: u64,
    woken: u64,
    cut: u64,
    lost: u64,
    waker: u64,
    keeper: u64,
}

impl Bits {
    fn find() -> Self {
        let none = Bits { parked: 0, woken: 0, cut: 0, lost: 0, waker: 0, keeper: 0 };
        let new = || {
            drop(Core::new(&VTABLE));
            WORD.get()
        };
        let after = |f: &dyn Fn(&mut Real)| {
            let mut word = new();
            on_turn(&none, &mut word, f);
            word - new()
        };
        let waker = after(&|turn| turn.core().retain_waker());
        let cut = after(&|turn| assert!(!turn.cut()));
        Bits {
            parked: after(&|turn| {
                turn.core().retain_waker();
                assert!(turn.suspend());
            }) - waker,
            woken: after(&|turn| assert!(!turn.wake())),
            cut,
            lost: after(&|turn| assert!(!turn.suspend())) - cut,
            waker,
            keeper: new(),
        }
    }

    fn wakers(&self, word: u64) -> u64 {
        word % self.keeper / self.waker
    }
}

/// A wrong form of a step, which the search has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The owner looks for a stop, and then registers its turn.
    LooksBeforeItRegisters,
    /// The owner registers its turn, and does not look for a stop.
    DoesNotLook,
    /// A stop looks for a turn, and is raised afterwards.
    StopLooksFirst,
    /// A stop uses a turn that it does not keep.
    StopKeepsNothing,
    /// A stop does not release what it kept.
    StopKeepsForEver,
    /// A waker goes on, whether the owner was there or not.
    WakerGoesOn,
    /// A waker is cloned without a count.
    WakerNotCounted,
    /// The future is polled without a look at what has come meanwhile.
    PollsAtOnce,
    /// A turn that is over gives up its registration twice.
    UnregistersTwice,
    /// A turn that is over stays registered.
    StaysRegistered,
    /// The mailbox gives up the turn before it answers.
    LeavesBeforeItsAnswer,
    /// A turn that is cut is answered before it is dropped.
    AnswersBeforeItsDrop,
}

/// The place of the owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// In the suspended turn, on no thread.
    Lies,
    /// Left to the thread that runs the mailbox.
    Left,
    Begin,
    Poll,
    LookWoken,
    Register,
    LookForStop,
    LieDown,
    Unregister,
    GiveBackRegistered,
    Answer,
    Leave,
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stop {
    Raise,
    Look,
    Cut,
    GiveBack,
    Over,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    word: u64,
    freed: u8,
    at: At,
    wakers: [bool; 2],
    /// True while the abort handle exists.
    abort: bool,
    stop: Stop,
    raised: bool,
    /// True while a stop finds the turn, and whether the owner knows of it.
    registered: bool,
    known: bool,
    mailbox: bool,
    // Known to the checks, and to no agent.
    /// True if no poll has followed a wake.
    woken: bool,
    cut: bool,
    future: bool,
    answered: u8,
}

struct Step<'a> {
    world: World,
    bits: &'a Bits,
    fault: Fault,
    wrong: Option<&'static str>,
}

impl Step<'_> {
    fn check(&mut self, holds: bool, claim: &'static str) {
        if !holds {
            self.wrong.get_or_insert(claim);
        }
    }

    fn on<R>(&mut self, f: impl FnOnce(&mut Real) -> R) -> R {
        self.check(self.world.freed == 0, "the turn is touched after it was freed");
        FREED.set(0);
        let result = on_turn(self.bits, &mut self.world.word, f);
        self.world.freed += FREED.get();
        result
    }

    /// Counts an owner that may have been taken out.
    fn take(&mut self, is_there: bool) {
        if is_there {
            self.check(self.world.at == At::Lies, "there are two owners");
            self.world.at = At::Left;
        }
    }

    fn give_back(&mut self) {
        self.on(|turn| drop(ManuallyDrop::into_inner(turn.keeper())));
    }

    fn drop_future(&mut self) {
        self.check(self.world.future, "the future is dropped twice");
        self.world.future = false;
    }

    /// Marks the future, and so the turn, as done.
    fn done(&mut self) {
        if self.world.answered == 0 {
            self.drop_future();
        }
        self.world.at = At::Unregister;
    }

    fn begin(&mut self) {
        let begun = match self.fault {
            Fault::PollsAtOnce => Ok(()),
            _ => self.on(|turn| turn.right().begin_poll()),
        };
        match begun {
            Ok(()) => {
                self.check(!self.world.cut, "the future is polled though it was cut");
                self.check(self.world.word & self.bits.woken == 0, "one wake makes two polls");
                self.world.woken = false;
                self.world.at = At::Poll;
            }
            Err(why) => {
                let lost = why == Cut::Lost;
                self.check(lost || self.world.cut, "a turn is cut without a cut");
                self.check(!lost || self.world.wakers == [false; 2], "lost, though it has wakers");
                if self.fault == Fault::AnswersBeforeItsDrop {
                    self.answer();
                    self.world.future = false;
                }
                self.done();
            }
        }
    }

    fn answer(&mut self) {
        self.check(self.world.freed == 0, "a turn is answered after it was freed");
        self.check(!self.world.future, "a turn is answered before its future was dropped");
        self.world.answered += 1;
    }

    /// Takes a step of the owner, one of those that it may take.
    fn own(&mut self, choice: usize) -> Option<&'static str> {
        let only = choice == 0;
        let label = match (self.world.at, choice) {
            (At::Left, 0) => {
                self.world.at = At::Begin;
                "get up"
            }
            (At::Begin, 0) => {
                self.begin();
                "begin"
            }
            // It has seen the stop. A dropped drain stops it, too.
            (At::Begin, 1) if self.world.raised => {
                self.done();
                "discard"
            }
            (At::Poll, 0) => {
                self.world.at = At::LookWoken;
                "pending"
            }
            (At::Poll, 1) => {
                self.done();
                "ready"
            }
            (At::Poll, 2) => {
                let resting = self.on(Real::wake);
                self.take(resting);
                self.world.woken = true;
                "wakes itself"
            }
            (At::Poll, at @ (3 | 4)) if !self.world.wakers[at - 3] => {
                self.clone_waker(at - 3);
                "keeps a waker"
            }
            (At::LookWoken, 0) => {
                let woken = self.on(|turn| turn.right().is_woken());
                self.world.at = match (woken, self.fault) {
                    (true, _) => At::Begin,
                    (false, Fault::LooksBeforeItRegisters) => At::LookForStop,
                    (false, _) => At::Register,
                };
                "look woken"
            }
            (At::Register, 0) => {
                if !self.world.known {
                    self.on(|turn| {
                        let header = Header::default();
                        turn.right().register(&header);
                        forget(header.ext_made().turn.lock().take());
                    });
                    (self.world.registered, self.world.known) = (true, true);
                }
                self.world.at = match self.fault {
                    Fault::LooksBeforeItRegisters | Fault::DoesNotLook => At::LieDown,
                    _ => At::LookForStop,
                };
                "register"
            }
            // It may miss a stop that has not looked for it yet.
            (At::LookForStop, 0 | 1) if only || self.world.stop == Stop::Look => {
                let stopped = self.world.raised && only;
                self.world.at = match self.fault {
                    _ if stopped => At::Begin,
                    Fault::LooksBeforeItRegisters => At::Register,
                    _ => At::LieDown,
                };
                "look for a stop"
            }
            (At::LieDown, 0) => {
                let lies = self.on(Real::suspend);
                self.world.at = if lies { At::Lies } else { At::Begin };
                if lies { "lie down" } else { "refused" }
            }
            (At::Unregister, 0) => {
                if self.fault != Fault::StaysRegistered {
                    self.world.registered = false;
                }
                let known = std::mem::take(&mut self.world.known);
                self.world.at = if known { At::GiveBackRegistered } else { At::Answer };
                "unregister"
            }
            (At::GiveBackRegistered, 0) => {
                if self.fault != Fault::StaysRegistered {
                    self.give_back();
                }
                if self.fault == Fault::UnregistersTwice {
                    self.give_back();
                }
                self.world.at = match self.fault {
                    Fault::LeavesBeforeItsAnswer => At::Leave,
                    _ => At::Answer,
                };
                "give back what was registered"
            }
            (At::Answer, 0) => {
                if self.world.answered == 0 {
                    self.answer();
                }
                self.world.at = if self.world.mailbox { At::Leave } else { At::Over };
                "answer"
            }
            (At::Leave, 0) => {
                self.world.mailbox = false;
                self.give_back();
                self.world.at = if self.world.answered == 0 { At::Answer } else { At::Over };
                "leave"
            }
            _ => return None,
        };
        Some(label)
    }

    fn clone_waker(&mut self, to: usize) {
        if self.fault != Fault::WakerNotCounted {
            self.on(|turn| turn.core().retain_waker());
        }
        self.world.wakers[to] = true;
    }

    /// Takes a step of a waker.
    fn wake(&mut self, at: usize, choice: usize) -> Option<&'static str> {
        if !self.world.wakers[at] {
            return None;
        }
        let (label, wakes, drops) = match choice {
            0 => ("wake by reference", true, false),
            1 => ("wake", true, true),
            2 => ("drop a waker", false, true),
            3 if !self.world.wakers[1 - at] => {
                self.clone_waker(1 - at);
                return Some("clone a waker");
            }
            _ => return None,
        };
        self.world.wakers[at] = !drops;
        let resting = match drops {
            true => self.on(|turn| turn.release_waker(wakes)),
            false => self.on(Real::wake),
        };
        self.take(resting || wakes && self.fault == Fault::WakerGoesOn);
        self.world.woken |= wakes && self.world.future;
        Some(label)
    }

    fn cut(&mut self) {
        let resting = self.on(Real::cut);
        self.take(resting);
        self.world.cut |= self.world.future;
    }

    fn abort(&mut self, choice: usize) -> Option<&'static str> {
        if !self.world.abort {
            return None;
        }
        match choice {
            0 => {
                self.cut();
                Some("abort")
            }
            1 => {
                self.world.abort = false;
                self.give_back();
                Some("drop an abort handle")
            }
            _ => None,
        }
    }

    fn stop(&mut self, choice: usize) -> Option<&'static str> {
        let late = self.fault == Fault::StopLooksFirst;
        let (label, next) = match (self.world.stop, choice) {
            (Stop::Raise, 0) if !late => {
                self.world.raised = true;
                ("raise a stop", Stop::Look)
            }
            (Stop::Look, 0) if late => {
                self.world.raised = true;
                ("raise a stop", Stop::Over)
            }
            (Stop::Raise, 0) if !self.world.registered => ("look for a turn", Stop::Look),
            (Stop::Raise | Stop::Look, 0) => {
                let found = self.world.registered;
                if found && self.fault != Fault::StopKeepsNothing {
                    self.on(|turn| forget(Keeper::clone(&turn.keeper())));
                }
                ("look for a turn", if found { Stop::Cut } else { Stop::Over })
            }
            (Stop::Cut, 0) => {
                self.cut();
                ("cut by a stop", Stop::GiveBack)
            }
            (Stop::GiveBack, 0) => {
                if ![Fault::StopKeepsNothing, Fault::StopKeepsForEver].contains(&self.fault) {
                    self.give_back();
                }
                ("give back what a stop kept", Stop::Over)
            }
            _ => return None,
        };
        self.world.stop = next;
        Some(label)
    }

    fn check_all(&mut self) {
        let world = self.world.clone();
        let (bits, has) = (self.bits, |bit| world.word & bit != 0);
        let lies = world.at == At::Lies;
        let wakers = world.wakers.iter().filter(|there| **there).count() as u64;
        let stop_keeps = match world.stop {
            Stop::Cut | Stop::GiveBack => self.fault != Fault::StopKeepsNothing,
            _ => false,
        };
        let registered = world.registered || world.at == At::GiveBackRegistered;
        let keepers = [world.mailbox, world.abort, registered, stop_keeps];
        let keepers = keepers.into_iter().filter(|there| *there).count() as u64;
        self.check(has(bits.parked) == lies, "the word does not say where the owner is");
        self.check(
            !lies || !has(bits.woken | bits.cut),
            "the owner lies in a turn that is to go on",
        );
        self.check(!lies || wakers > 0, "the owner lies where nothing can wake it");
        self.check(!has(bits.lost) || wakers == 0 && has(bits.cut), "lost, though it has wakers");
        self.check(!lies || !world.woken, "a wake is lost");
        self.check(!lies || !world.cut, "a cut is lost");
        self.check(!lies || world.stop != Stop::Over, "a stop does not find the turn");
        self.check(world.answered <= 1, "a turn is answered twice");
        let nobody = wakers + keepers == 0;
        self.check(world.freed == u8::from(nobody), "the memory is not freed with the last, once");
        let counted = (bits.wakers(world.word), world.word / bits.keeper);
        self.check(counted == (wakers, keepers), "the word does not count who is there");
    }
}

/// Takes a step of the owner, a waker, the abort handle or the stop.
fn step(step: &mut Step<'_>, agent: usize, choice: usize) -> Option<&'static str> {
    match agent {
        0 => step.own(choice),
        1 | 2 => step.wake(agent - 1, choice),
        3 => step.abort(choice),
        _ => step.stop(choice),
    }
}

struct Found {
    states: usize,
    steps: BTreeSet<&'static str>,
    failure: Option<(&'static str, String)>,
}

fn search(fault: Fault) -> Found {
    let bits = Bits::find();
    let start = World {
        word: 2 * bits.keeper,
        freed: 0,
        at: At::Begin,
        wakers: [false; 2],
        abort: true,
        stop: Stop::Raise,
        raised: false,
        registered: false,
        known: false,
        mailbox: true,
        woken: false,
        cut: false,
        future: true,
        answered: 0,
    };
    let mut worlds = vec![(start.clone(), 0, "start")];
    let mut known = HashMap::from([(start, 0)]);
    let mut before: Vec<Vec<usize>> = vec![vec![]];
    let mut steps = BTreeSet::new();
    let trace = |worlds: &[(World, usize, &'static str)], mut at: usize| {
        let mut lines = VecDeque::new();
        while at != 0 {
            let (world, from, label) = &worlds[at];
            lines.push_front(format!("{label}: {world:?}\n"));
            at = *from;
        }
        lines.into_iter().collect::<String>()
    };
    let mut at = 0;
    while at < worlds.len() {
        for (agent, choice) in (0..5).flat_map(|agent| (0..6).map(move |choice| (agent, choice))) {
            let world = worlds[at].0.clone();
            let mut next = Step { world, bits: &bits, fault, wrong: None };
            let Some(label) = step(&mut next, agent, choice) else { continue };
            steps.insert(label);
            next.check_all();
            let Step { world, wrong, .. } = next;
            let number = *known.entry(world.clone()).or_insert_with(|| {
                worlds.push((world, at, label));
                before.push(vec![]);
                worlds.len() - 1
            });
            before[number].push(at);
            if let Some(claim) = wrong {
                let failure = Some((claim, trace(&worlds, number)));
                return Found { states: worlds.len(), steps, failure };
            }
        }
        at += 1;
    }
    // The states that lead to a good end.
    let is_end = |world: &World| world.at == At::Over && world.freed == 1 && world.answered == 1;
    let mut good: Vec<bool> = worlds.iter().map(|(world, ..)| is_end(world)).collect();
    let mut todo: Vec<usize> = (0..worlds.len()).filter(|at| good[*at]).collect();
    while let Some(at) = todo.pop() {
        for &from in &before[at] {
            if !std::mem::replace(&mut good[from], true) {
                todo.push(from);
            }
        }
    }
    let stuck = good.iter().position(|good| !good);
    let failure = stuck.map(|at| (STRANDED, trace(&worlds, at)));
    Found { states: worlds.len(), steps, failure }
}

const STRANDED: &str = "no good end can be reached any more";

const STEPS: &[&str] = &[
    "abort",
    "answer",
    "begin",
    "clone a waker",
    "cut by a stop",
    "discard",
    "drop a waker",
    "drop an abort handle",
    "get up",
    "give back what a stop kept",
    "give back what was registered",
    "keeps a waker",
    "leave",
    "lie down",
    "look for a stop",
    "look for a turn",
    "look woken",
    "pending",
    "raise a stop",
    "ready",
    "refused",
    "register",
    "unregister",
    "wake",
    "wake by reference",
    "wakes itself",
];

/// TURN-5: with more wakers than can be counted, the turn is woken as usual, is never lost, and
/// never freed.
#[test]
fn more_wakers_than_can_be_counted_keep_the_turn() {
    const MOST: usize = 7;
    for wakers in [1, MOST - 1, MOST, 5 * MOST] {
        let core = ManuallyDrop::new(Core::new(&VTABLE));
        let mut turn = Real(NonNull::from(&*core));
        FREED.set(0);
        (0..wakers).for_each(|_| core.retain_waker());
        assert!(turn.suspend());
        assert!((1..wakers).all(|_| !turn.release_waker(false)), "one is left");
        assert!(turn.release_waker(true), "it is woken");
        assert!(turn.right().begin_poll().is_ok());
        assert_eq!(turn.suspend(), wakers >= MOST, "a waker may be left for all that is known");
        drop(ManuallyDrop::into_inner(turn.right()));
        assert_eq!(FREED.get(), u8::from(wakers < MOST), "{wakers}");
    }
}

#[test]
fn every_interleaving_of_a_turn_that_waits_ends_well() {
    let found = search(Fault::None);
    println!("{:>8} states", found.states);
    if let Some((claim, trace)) = found.failure {
        panic!("{claim}\n{trace}");
    }
    // A search that never reaches a step says nothing about it.
    assert!(found.steps.iter().eq(STEPS), "{:?}", found.steps);
}

/// Returns the first check that the fault fails.
fn first_failure(fault: Fault) -> &'static str {
    let (claim, trace) = search(fault).failure.expect("the planted fault was not found");
    println!("{fault:?}: {claim}\n{trace}");
    claim
}

#[test]
fn a_stop_and_a_turn_that_miss_each_other_are_found() {
    let claim = "a stop does not find the turn";
    for fault in [Fault::LooksBeforeItRegisters, Fault::DoesNotLook, Fault::StopLooksFirst] {
        assert_eq!(first_failure(fault), claim, "{fault:?}");
    }
}

#[test]
fn a_turn_that_is_miscounted_is_found() {
    let counts = "the word does not count who is there";
    let touched = "the turn is touched after it was freed";
    let freed = "the memory is not freed with the last, once";
    for fault in [
        Fault::StopKeepsNothing,
        Fault::StopKeepsForEver,
        Fault::WakerNotCounted,
        Fault::UnregistersTwice,
        Fault::StaysRegistered,
    ] {
        let claim = first_failure(fault);
        assert!([counts, touched, freed, STRANDED].contains(&claim), "{fault:?}: {claim}");
    }
}

#[test]
fn two_owners_are_found() {
    assert_eq!(first_failure(Fault::WakerGoesOn), "there are two owners");
}

#[test]
fn a_cut_that_is_not_looked_for_is_found() {
    assert_eq!(first_failure(Fault::PollsAtOnce), "the future is polled though it was cut");
}

#[test]
fn an_answer_that_comes_too_soon_or_too_late_is_found() {
    let claim = first_failure(Fault::AnswersBeforeItsDrop);
    assert_eq!(claim, "a turn is answered before its future was dropped");
    let claim = first_failure(Fault::LeavesBeforeItsAnswer);
    assert_eq!(claim, "a turn is answered after it was freed");
}
