//! Linearizability: threads see of lock objects what one call after the other would have shown.
//!
//! Threads use a lock for a short while and write down when each call began, when it returned, and
//! what it said. `todc-utils` (Wing, Gong and Lowe) searches an order of those calls, within their
//! times, in which a plain queue of requests behaves like that. Taking a place and having the lock
//! are two calls, so the order of the queue is part of it.
//!
//! Long histories, whose calls return their position, are swept once instead.
//!
//! Each check has to find the faults of a lock that is wrong on purpose.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{must_end, size};
use todc_utils::{Action, History, Specification, WGLChecker};
use turnwise::VirtualClock;
use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise_locks::slots::{AcquireSlot, SlotError};
use turnwise_locks::{
    Guard, Keyed, Limits, LockError, Locks, NotStarted, Permit, ReadGuard, RwLocks, Semaphore,
    Slot, SlotPool, WriteGuard,
};

const SECOND: Duration = Duration::from_secs(1);
/// Room for many readers.
const ALL: u64 = 100;

/// A call, with what it said. A number names a request.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Takes a place: those who do later come in later.
    Place(u64),
    /// Its turn: it holds now, or stands in the queue. Others may have done what needs no turn
    /// since it took its place, and it finds that done. Its fence, if it is known from later.
    Enter {
        request: u64,
        weight: u64,
        fence: Option<u64>,
    },
    /// Its lease begins: with its turn, which may be later than what was called since has made of
    /// it, and before it is seen. Not `true`: if there is one.
    Begin(u64, bool),
    /// Has it.
    Held(u64),
    /// Was not let in.
    Late(u64),
    /// Does not want it any more.
    Drop(u64),
    /// From here on it is given back; not `true` if it was lost before.
    Release(u64, bool),
    /// Others come in.
    Leave(u64),
    Lighten(u64),
    /// Leases are over, and others come in.
    Expire,
    /// Leases are over. What their holders had stays taken.
    Lose,
    /// A lost hold is free again.
    Reclaim,
    /// Holds are taken away from here on, one after the other: each release finds out whether its
    /// own was.
    Forcing,
    /// All are taken away, and others come in. Was there anything?
    Force(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hold {
    request: u64,
    weight: u64,
    leased: bool,
    released: bool,
    /// Lost, and not reclaimed yet.
    over: bool,
    fence: Option<u64>,
}

/// A lock without threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Plain {
    holds: Vec<Hold>,
    queue: Vec<Hold>,
    placed: Vec<u64>,
    lost: Vec<u64>,
    forcing: bool,
    newest: u64,
}

impl Plain {
    fn fits(&self, weight: u64, capacity: u64) -> bool {
        self.holds.iter().map(|hold| hold.weight).sum::<u64>() + weight <= capacity
    }

    /// False: a fence is not larger than the one before.
    fn let_in(&mut self, capacity: u64) -> bool {
        while self.queue.first().is_some_and(|head| self.fits(head.weight, capacity)) {
            let hold = self.queue.remove(0);
            if !self.is_newer(hold.fence) {
                return false;
            }
            self.holds.push(hold);
        }
        true
    }

    fn is_newer(&mut self, fence: Option<u64>) -> bool {
        let Some(fence) = fence else { return true };
        let newer = fence > self.newest;
        self.newest = fence;
        newer
    }

    fn hold(&mut self, request: u64) -> Option<&mut Hold> {
        self.holds.iter_mut().find(|hold| hold.request == request)
    }

    fn lose(&mut self, over: impl Fn(&Hold) -> bool) {
        let (lost, kept) = self.holds.drain(..).partition::<Vec<_>, _>(over);
        self.lost.extend(lost.iter().filter(|hold| !hold.released).map(|hold| hold.request));
        self.holds = kept;
    }

    fn apply(&mut self, op: Op, capacity: u64) -> bool {
        match op {
            Op::Place(request) => {
                self.placed.push(request);
                true
            }
            Op::Enter { request, weight, fence } => {
                match self.placed.iter().position(|&placed| placed == request) {
                    Some(0) => self.placed.remove(0),
                    Some(_) => return false,
                    // It was dropped before its turn.
                    None => return fence.is_none(),
                };
                let (leased, released, over) = (false, false, false);
                self.queue.push(Hold { request, weight, leased, released, over, fence });
                self.let_in(capacity)
            }
            Op::Begin(request, certain) => match self.hold(request) {
                Some(hold) => {
                    hold.leased = true;
                    true
                }
                None => !certain,
            },
            Op::Held(request) => self.hold(request).is_some() || self.lost.contains(&request),
            Op::Late(request) => {
                let before = self.queue.len();
                self.queue.retain(|hold| hold.request != request);
                self.queue.len() < before && self.let_in(capacity)
            }
            Op::Drop(request) => {
                self.placed.retain(|placed| *placed != request);
                self.queue.retain(|hold| hold.request != request);
                self.holds.retain(|hold| hold.request != request || hold.over);
                self.lost.retain(|lost| *lost != request);
                self.let_in(capacity)
            }
            Op::Release(request, false) => {
                let forcing = self.forcing;
                if let Some(hold) = self.hold(request).filter(|_| forcing) {
                    return !hold.released && !std::mem::replace(&mut hold.over, true);
                }
                let lost = self.lost.contains(&request);
                self.lost.retain(|lost| *lost != request);
                lost
            }
            Op::Release(request, true) => match self.hold(request) {
                Some(hold) if !hold.released && !hold.over => {
                    hold.released = true;
                    true
                }
                _ => false,
            },
            Op::Leave(request) => {
                let still = self.hold(request).is_some_and(|hold| !hold.released);
                self.holds.retain(|hold| hold.request != request);
                !still && self.let_in(capacity)
            }
            Op::Lighten(request) => {
                if let Some(hold) = self.hold(request) {
                    hold.weight = 1;
                }
                self.let_in(capacity)
            }
            Op::Expire => {
                self.lose(|hold| hold.leased);
                self.let_in(capacity)
            }
            Op::Lose => {
                for hold in self.holds.iter_mut().filter(|hold| hold.leased && !hold.released) {
                    if !hold.over {
                        hold.over = true;
                        self.lost.push(hold.request);
                    }
                }
                true
            }
            Op::Reclaim => {
                self.holds.retain(|hold| !hold.over);
                self.let_in(capacity)
            }
            Op::Forcing => {
                self.forcing = true;
                true
            }
            Op::Force(forced) => {
                if !std::mem::take(&mut self.forcing) {
                    return false;
                }
                let right = forced == self.holds.iter().any(|hold| !hold.released);
                self.lose(|_| true);
                right && self.let_in(capacity)
            }
        }
    }
}

struct Room<const CAPACITY: u64>;

impl<const CAPACITY: u64> Specification for Room<CAPACITY> {
    type State = Plain;
    type Operation = Op;

    fn init() -> Plain {
        Plain::default()
    }

    fn apply(op: &Op, state: &Plain) -> (bool, Plain) {
        let mut state = state.clone();
        (state.apply(*op, CAPACITY), state)
    }
}

/// A call: when it began, when it returned.
type Call = (u64, u64, Op);

/// True if it could have happened like that, one call after the other.
fn is_plain(calls: &[Call], capacity: u64) -> bool {
    let mut times: Vec<_> = calls
        .iter()
        .enumerate()
        .flat_map(|(process, (begun, returned, op))| {
            [(*begun, (process, Action::Call(*op))), (*returned, (process, Action::Response(*op)))]
        })
        .collect();
    times.sort_by_key(|(time, _)| *time);
    let history = History::from_actions(times.into_iter().map(|(_, action)| action).collect());
    match capacity {
        1 => WGLChecker::<Room<1>>::is_linearizable(history),
        2 => WGLChecker::<Room<2>>::is_linearizable(history),
        ALL => WGLChecker::<Room<ALL>>::is_linearizable(history),
        _ => unreachable!(),
    }
}

/// An operation that is tried. A wait that ends without the lock is none.
trait Subject: Sync {
    type Asked: Send;
    type Held: Send;
    const CAPACITY: u64;
    /// A lost hold is free in the same step, or later in the same call.
    const EXPIRES_IN: &'static [Op] = &[Op::Expire];
    fn new(timed: bool) -> Self;
    fn enter(&self, weight: u64, limits: Limits) -> Self::Asked;
    fn wait(&self, asked: Self::Asked) -> Option<Self::Held>;
    fn leave_queue(&self, asked: Self::Asked) {
        drop(asked);
    }
    fn fence(held: &Self::Held) -> u64;
    fn release(&self, held: Self::Held) -> bool;
    /// None: there is no such thing.
    fn lighten(&self, held: Self::Held) -> Result<Self::Held, Self::Held> {
        Err(held)
    }
    fn force(&self) -> Option<bool> {
        None
    }
    /// All leases that have begun are over.
    fn expire(&self);
}

fn given<G>(waited: Result<G, LockError>) -> Option<G> {
    match waited {
        Ok(guard) => Some(guard),
        Err(LockError::TimedOut { .. } | LockError::Busy { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn timers(timed: bool) -> (VirtualClock, Timers) {
    let clock = VirtualClock::new();
    let timers = Timers::by_hand(clock.clone());
    (clock, if timed { Timers::global().clone() } else { timers })
}

struct Mutual(VirtualClock, Locks<u8>);

impl Subject for Mutual {
    type Asked = turnwise_locks::Acquire<u8, Guard<u8>>;
    type Held = Guard<u8>;
    const CAPACITY: u64 = 1;
    fn new(timed: bool) -> Self {
        let (clock, timers) = timers(timed);
        Mutual(clock, Locks::builder().timers(timers).build())
    }
    fn enter(&self, _: u64, limits: Limits) -> Self::Asked {
        self.1.lock_within(1, limits)
    }
    fn wait(&self, asked: Self::Asked) -> Option<Guard<u8>> {
        given(asked.wait())
    }
    fn fence(held: &Guard<u8>) -> u64 {
        held.fence().number()
    }
    fn release(&self, held: Guard<u8>) -> bool {
        held.release().wait().is_ok()
    }
    fn force(&self) -> Option<bool> {
        self.1.force_release(&1).wait().ok()
    }
    fn expire(&self) {
        self.0.advance(SECOND);
        let _ = self.1.info(&1).wait();
    }
}

struct Permits(VirtualClock, Semaphore);

impl Subject for Permits {
    type Asked = turnwise_locks::Acquire<(), Permit>;
    type Held = Permit;
    const CAPACITY: u64 = 2;
    fn new(timed: bool) -> Self {
        let (clock, timers) = timers(timed);
        Permits(clock, Semaphore::builder(2).timers(timers).build())
    }
    fn enter(&self, weight: u64, limits: Limits) -> Self::Asked {
        self.1.acquire_within(weight, limits)
    }
    fn wait(&self, asked: Self::Asked) -> Option<Permit> {
        given(asked.wait())
    }
    fn fence(held: &Permit) -> u64 {
        held.fence().number()
    }
    fn release(&self, held: Permit) -> bool {
        held.release().wait().is_ok()
    }
    fn expire(&self) {
        self.0.advance(SECOND);
        let _ = self.1.info().wait();
    }
}

struct ReadWrite(VirtualClock, RwLocks<u8>);
enum Asked {
    Read(turnwise_locks::Acquire<u8, ReadGuard<u8>>),
    Write(turnwise_locks::Acquire<u8, WriteGuard<u8>>),
}
enum Either {
    Read(ReadGuard<u8>),
    Write(WriteGuard<u8>),
}

impl Subject for ReadWrite {
    type Asked = Asked;
    type Held = Either;
    const CAPACITY: u64 = ALL;
    fn new(timed: bool) -> Self {
        let (clock, timers) = timers(timed);
        ReadWrite(clock, RwLocks::builder().timers(timers).build())
    }
    fn enter(&self, weight: u64, limits: Limits) -> Asked {
        match weight {
            1 => Asked::Read(self.1.read_within(1, limits)),
            _ => Asked::Write(self.1.write_within(1, limits)),
        }
    }
    fn wait(&self, asked: Asked) -> Option<Either> {
        match asked {
            Asked::Read(read) => given(read.wait()).map(Either::Read),
            Asked::Write(write) => given(write.wait()).map(Either::Write),
        }
    }
    fn fence(held: &Either) -> u64 {
        match held {
            Either::Read(guard) => guard.fence().number(),
            Either::Write(guard) => guard.fence().number(),
        }
    }
    fn release(&self, held: Either) -> bool {
        match held {
            Either::Read(guard) => guard.release().wait().is_ok(),
            Either::Write(guard) => guard.release().wait().is_ok(),
        }
    }
    fn lighten(&self, held: Either) -> Result<Either, Either> {
        match held {
            Either::Write(guard) => Ok(Either::Read(guard.downgrade())),
            held => Err(held),
        }
    }
    fn force(&self) -> Option<bool> {
        self.1.force_release(&1).wait().ok()
    }
    fn expire(&self) {
        self.0.advance(SECOND);
        let _ = self.1.info(&1).wait();
    }
}

/// A slot: its lease begins where it is waited for, and its end is dealt with in an executor.
struct Numbered {
    clock: VirtualClock,
    timers: Timers,
    queue: DrainQueue,
    pool: SlotPool,
}

impl Subject for Numbered {
    type Asked = AcquireSlot;
    type Held = Slot;
    const CAPACITY: u64 = 1;
    // In between, it is cleaned up.
    const EXPIRES_IN: &'static [Op] = &[Op::Lose, Op::Reclaim];
    fn new(timed: bool) -> Self {
        let ((clock, timers), queue) = (timers(timed), DrainQueue::new());
        let pool = SlotPool::builder(1).timers(timers.clone()).executor(queue.handle());
        Numbered { clock, timers, queue, pool: pool.build().unwrap() }
    }
    fn enter(&self, _: u64, limits: Limits) -> AcquireSlot {
        self.pool.acquire(limits)
    }
    fn wait(&self, asked: AcquireSlot) -> Option<Slot> {
        match asked.wait() {
            Ok(slot) => Some(slot),
            Err(SlotError::NotAcquired(error)) => given::<Slot>(Err(error)),
            Err(error) => panic!("{error}"),
        }
    }
    fn fence(held: &Slot) -> u64 {
        held.fence().number()
    }
    fn release(&self, held: Slot) -> bool {
        held.finish().is_ok()
    }
    fn expire(&self) {
        self.clock.advance(SECOND);
        self.timers.run_due();
        self.queue.run_until_idle();
    }
}

/// A fault of a lock.
const RIGHT: u8 = 0;
/// The youngest is let in.
const LIFO: u8 = 1;
/// Now and then a release lets none in.
const LOST_GRANT: u8 = 2;
/// The next one after an expiry has the fence of what is over.
const OLD_FENCE: u8 = 3;
/// Now and then there is room for one more.
const TWO_HOLDERS: u8 = 4;
/// The end of a lease does not free the lock.
const STAYS: u8 = 5;

/// A lock with a fault, and the checks must find it.
struct Wrong<const FAULT: u8>(Mutex<Inner>, Condvar);

#[derive(Default)]
struct Inner {
    plain: Plain,
    fences: HashMap<u64, u64>,
    numbers: u64,
    fence: u64,
    turns: u64,
}

struct WrongHold(u64, u64);

impl<const FAULT: u8> Wrong<FAULT> {
    /// Lets in who may, rightly or not.
    fn let_in(&self, inner: &mut Inner) {
        inner.turns += 1;
        let now_and_then = inner.turns % 4 == 0;
        if FAULT == LOST_GRANT && now_and_then {
            return;
        }
        loop {
            let at = if FAULT == LIFO { inner.plain.queue.len().saturating_sub(1) } else { 0 };
            let Some(&next) = inner.plain.queue.get(at) else { break };
            let room = 1 + u64::from(FAULT == TWO_HOLDERS && now_and_then);
            if !inner.plain.fits(next.weight, room) {
                break;
            }
            inner.plain.queue.remove(at);
            inner.fence += 1;
            inner.fences.insert(next.request, inner.fence);
            inner.plain.holds.push(next);
        }
        self.1.notify_all();
    }
}

impl<const FAULT: u8> Subject for Wrong<FAULT> {
    type Asked = (u64, Limits);
    type Held = WrongHold;
    const CAPACITY: u64 = 1;
    fn new(_: bool) -> Self {
        Wrong(Mutex::default(), Condvar::new())
    }
    fn enter(&self, weight: u64, limits: Limits) -> (u64, Limits) {
        let mut inner = self.0.lock().unwrap();
        inner.numbers += 1;
        let request = inner.numbers;
        let leased = limits == Limits::NONE.lease(SECOND);
        let hold = Hold { request, weight, leased, released: false, over: false, fence: None };
        inner.plain.queue.push(hold);
        if limits == Limits::wait(Duration::ZERO) {
            let free = inner.plain.queue.len() == 1 && inner.plain.fits(weight, 1);
            if !free {
                inner.plain.queue.pop();
                return (request, limits);
            }
        }
        self.let_in(&mut inner);
        (request, limits)
    }
    fn wait(&self, (request, limits): (u64, Limits)) -> Option<WrongHold> {
        let mut inner = self.0.lock().unwrap();
        // No request waits for ever for a grant that was lost.
        let wait = if limits == Limits::wait(Duration::ZERO) { 0 } else { 100 };
        for _ in 0..=wait {
            if let Some(&fence) = inner.fences.get(&request) {
                return Some(WrongHold(request, fence));
            }
            inner = self.1.wait_timeout(inner, Duration::from_millis(wait / 50)).unwrap().0;
        }
        inner.plain.queue.retain(|hold| hold.request != request);
        self.let_in(&mut inner);
        None
    }
    fn leave_queue(&self, (request, _): (u64, Limits)) {
        let mut inner = self.0.lock().unwrap();
        inner.plain.queue.retain(|hold| hold.request != request);
        inner.plain.holds.retain(|hold| hold.request != request);
        self.let_in(&mut inner);
    }
    fn fence(held: &WrongHold) -> u64 {
        held.1
    }
    fn release(&self, WrongHold(request, _): WrongHold) -> bool {
        let mut inner = self.0.lock().unwrap();
        let held = inner.plain.hold(request).is_some();
        inner.plain.holds.retain(|hold| hold.request != request);
        self.let_in(&mut inner);
        held
    }
    fn expire(&self) {
        let mut inner = self.0.lock().unwrap();
        if FAULT == STAYS {
            return;
        }
        let before = inner.plain.holds.len();
        inner.plain.lose(|hold| hold.leased);
        if FAULT == OLD_FENCE && inner.plain.holds.len() < before {
            inner.fence -= 1;
        }
        self.let_in(&mut inner);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }
}

/// Events in a window, beside locking and releasing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// Waits that end.
    Limits,
    /// Leases that end.
    Leases,
    Forced,
}

/// Three threads use a lock for a short while; what they have seen.
fn window<S: Subject>(beside: Beside, seed: u64) -> Vec<Call> {
    let subject = S::new(beside == Beside::Limits);
    let (time, requests, ready) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
    let now = || time.fetch_add(1, SeqCst);
    let start = || {
        ready.fetch_add(1, SeqCst);
        crate::common::until(|| ready.load(SeqCst) == 4);
    };
    let user = |number: u64| {
        let mut random = Random((seed * 4 + number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut calls: Vec<Call> = Vec::new();
        let mut holds: Option<(u64, S::Held)> = None;
        start();
        for step in 0..6 {
            for _ in 0..random.below(3) {
                thread::yield_now();
            }
            if let Some((request, held)) = holds.take() {
                let begun = now();
                if random.below(3) == 0 && step < 5 {
                    holds = Some(match subject.lighten(held) {
                        Ok(held) => {
                            calls.push((begun, now(), Op::Lighten(request)));
                            (request, held)
                        }
                        Err(held) => (request, held),
                    });
                    continue;
                }
                let kept = subject.release(held);
                let returned = now();
                calls.push((begun, returned, Op::Release(request, kept)));
                if kept {
                    // Somewhere in the same call, and after its first half.
                    calls.push((begun, returned, Op::Leave(request)));
                }
                continue;
            }
            if step == 5 {
                break;
            }
            let weight = match S::CAPACITY {
                1 => 1,
                capacity => [1, capacity][random.below(2) as usize],
            };
            let request = requests.fetch_add(1, SeqCst);
            let begun = now();
            if random.below(4) == 0 {
                let asked = subject.enter(weight, Limits::wait(Duration::ZERO));
                let held = subject.wait(asked);
                let fence = held.as_ref().map(S::fence);
                let returned = now();
                calls.push((begun, returned, Op::Place(request)));
                calls.push((begun, returned, Op::Enter { request, weight, fence }));
                let said = if fence.is_some() { Op::Held } else { Op::Late };
                calls.push((begun, returned, said(request)));
                holds = held.map(|held| (request, held));
                continue;
            }
            let leased = beside == Beside::Leases && random.below(2) == 0;
            let limits = match beside {
                Beside::Limits => Limits::wait(Duration::from_micros(random.below(60) + 1)),
                _ if leased => Limits::NONE.lease(SECOND),
                _ => Limits::NONE,
            };
            let asked = subject.enter(weight, limits);
            calls.push((begun, now(), Op::Place(request)));
            let waits = now();
            if random.below(4) == 0 {
                subject.leave_queue(asked);
                let returned = now();
                calls.push((begun, returned, Op::Enter { request, weight, fence: None }));
                // With a limit, its time may have been over before.
                let from = if beside == Beside::Limits { begun } else { waits };
                calls.push((from, returned, Op::Drop(request)));
                if leased {
                    calls.push((begun, returned, Op::Begin(request, false)));
                }
                continue;
            }
            let held = subject.wait(asked);
            let (fence, returned) = (held.as_ref().map(S::fence), now());
            calls.push((begun, returned, Op::Enter { request, weight, fence }));
            match held {
                Some(held) => {
                    calls.push((waits, returned, Op::Held(request)));
                    if leased {
                        calls.push((begun, returned, Op::Begin(request, true)));
                    }
                    holds = Some((request, held));
                }
                // Its time may have been over before it was waited for.
                None => calls.push((begun, returned, Op::Late(request))),
            }
        }
        calls
    };
    let outside = || {
        let mut calls = Vec::new();
        start();
        for _ in 0..3 {
            thread::yield_now();
            let begun = now();
            match beside {
                Beside::Limits => {}
                Beside::Leases => {
                    subject.expire();
                    let returned = now();
                    calls.extend(S::EXPIRES_IN.iter().map(|&op| (begun, returned, op)));
                }
                Beside::Forced => {
                    if let Some(forced) = subject.force() {
                        let returned = now();
                        calls.push((begun, returned, Op::Forcing));
                        calls.push((begun, returned, Op::Force(forced)));
                    }
                }
            }
        }
        calls
    };
    thread::scope(|scope| {
        let user = &user;
        let users: Vec<_> = (0..3).map(|number| scope.spawn(move || user(number))).collect();
        let mut calls = outside();
        calls.extend(users.into_iter().flat_map(|user| user.join().unwrap()));
        calls
    })
}

/// The first of these windows that could not have happened.
fn wrong_window<S: Subject>(beside: Beside, windows: u64) -> Option<Vec<Call>> {
    (0..windows).find_map(|seed| {
        let mut calls = window::<S>(beside, seed);
        calls.sort_by_key(|call| call.0);
        (!is_plain(&calls, S::CAPACITY)).then_some(calls)
    })
}

fn is_right<S: Subject>(beside: Beside) {
    let windows = size(300, 2_000) as u64;
    if let Some(calls) = wrong_window::<S>(beside, windows) {
        panic!("no order explains {calls:#?}");
    }
}

fn is_found<const FAULT: u8>(beside: Beside) {
    // A right one of the same kind passes: it is the fault that is found.
    is_right::<Wrong<RIGHT>>(beside);
    assert!(wrong_window::<Wrong<FAULT>>(beside, 5_000).is_some(), "it is not found");
}

#[test]
fn locks_with_limits() {
    must_end(|| is_right::<Mutual>(Beside::Limits));
}

#[test]
fn locks_with_leases() {
    must_end(|| is_right::<Mutual>(Beside::Leases));
}

#[test]
fn locks_that_are_forced() {
    must_end(|| is_right::<Mutual>(Beside::Forced));
}

#[test]
fn permits_with_limits() {
    must_end(|| is_right::<Permits>(Beside::Limits));
}

#[test]
fn permits_with_leases() {
    must_end(|| is_right::<Permits>(Beside::Leases));
}

#[test]
fn slots_with_limits() {
    must_end(|| is_right::<Numbered>(Beside::Limits));
}

#[test]
fn slots_with_leases() {
    must_end(|| is_right::<Numbered>(Beside::Leases));
}

#[test]
fn readers_and_writers_with_limits() {
    must_end(|| is_right::<ReadWrite>(Beside::Limits));
}

#[test]
fn readers_and_writers_with_leases() {
    must_end(|| is_right::<ReadWrite>(Beside::Leases));
}

#[test]
fn readers_and_writers_that_are_forced() {
    must_end(|| is_right::<ReadWrite>(Beside::Forced));
}

#[test]
fn the_youngest_first_is_found() {
    must_end(|| is_found::<LIFO>(Beside::Forced));
}

#[test]
fn a_lost_grant_is_found() {
    must_end(|| is_found::<LOST_GRANT>(Beside::Forced));
}

#[test]
fn an_old_fence_is_found() {
    must_end(|| is_found::<OLD_FENCE>(Beside::Leases));
}

#[test]
fn a_lease_that_stays_is_found() {
    must_end(|| is_found::<STAYS>(Beside::Leases));
}

#[test]
fn two_holders_are_found() {
    must_end(|| is_found::<TWO_HOLDERS>(Beside::Forced));
}

/// A call that returns its position: when it began, when its place was taken at the latest, from
/// when to when it was inside.
#[derive(Clone, Copy, Debug)]
struct Row {
    begun: u64,
    placed: u64,
    inside: u64,
    left: u64,
    position: u64,
}

/// Checks that the order of the positions is one that the calls allow, with this room inside.
fn is_in_order(rows: &mut [Row], room: usize) -> Result<(), String> {
    // Who has its place before another asks is before it.
    rows.sort_by_key(|row| row.begun);
    let mut placed = rows.to_vec();
    placed.sort_by_key(|row| row.placed);
    let (mut placed, mut newest) = (placed.into_iter().peekable(), 0);
    for row in &*rows {
        while let Some(before) = placed.next_if(|before| before.placed < row.begun) {
            newest = newest.max(before.position);
        }
        if row.position <= newest {
            return Err(format!("{row:?} came after {newest}"));
        }
    }
    rows.sort_by_key(|row| row.position);
    if let Some(pair) = rows.windows(2).find(|pair| pair[0].position == pair[1].position) {
        return Err(format!("twice: {pair:?}"));
    }
    if room == 1 {
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].left > pair[1].inside) {
            return Err(format!("both inside: {pair:?}"));
        }
    }
    let mut steps: Vec<_> = rows.iter().flat_map(|row| [(row.inside, 1), (row.left, -1)]).collect();
    steps.sort_unstable();
    let mut inside = 0;
    for (_, step) in steps {
        inside += step;
        if inside > room as i32 {
            return Err(format!("{inside} inside"));
        }
    }
    Ok(())
}

/// Many calls of some threads.
fn long(use_it: impl Fn(&(dyn Fn() -> u64 + Sync)) -> Row + Sync) -> Vec<Row> {
    let rounds = size(2_000, 50_000);
    let time = AtomicU64::new(0);
    let now = || time.fetch_add(1, SeqCst);
    thread::scope(|scope| {
        let (now, use_it) = (&now, &use_it);
        let user = || scope.spawn(move || (0..rounds).map(|_| use_it(now)).collect::<Vec<_>>());
        let users: Vec<_> = (0..4).map(|_| user()).collect();
        users.into_iter().flat_map(|user| user.join().unwrap()).collect()
    })
}

fn long_locked() -> Vec<Row> {
    let locks = Locks::new();
    long(|now| {
        let begun = now();
        let asked = locks.lock(1);
        let placed = now();
        let guard = asked.wait().unwrap();
        let (inside, position) = (now(), guard.fence().number());
        let left = now();
        drop(guard);
        Row { begun, placed, inside, left, position }
    })
}

#[test]
fn fences_are_in_the_order_of_the_calls() {
    must_end(|| is_in_order(&mut long_locked(), 1).unwrap());
}

#[test]
fn permits_are_in_the_order_of_the_calls() {
    must_end(|| {
        let permits = Semaphore::new(2);
        let mut rows = long(|now| {
            let begun = now();
            let asked = permits.acquire();
            let placed = now();
            let permit = asked.wait().unwrap();
            let (inside, position) = (now(), permit.fence().number());
            let left = now();
            drop(permit);
            Row { begun, placed, inside, left, position }
        });
        is_in_order(&mut rows, 2).unwrap();
    });
}

#[test]
fn runs_are_in_the_order_of_the_calls() {
    must_end(|| {
        let keyed: Keyed<u8, u64> = Keyed::builder().state(|_| 0).build();
        let _kept = keyed.key(1);
        let mut rows = long(|now| {
            let begun = now();
            // The closure runs on whatever thread; the call returns after it.
            let (inside, position, left) = keyed
                .run(1, |count: &mut u64| {
                    let inside = now();
                    *count += 1;
                    (inside, *count, now())
                })
                .unwrap();
            Row { begun, placed: left, inside, left, position }
        });
        is_in_order(&mut rows, 1).unwrap();
    });
}

/// A run: its call, from when to when it was inside; or that it was refused.
type Ran = (u64, u64, Option<(u64, u64)>);

/// A call counts from its beginning: one that has no place yet may be overtaken, and keeps others
/// from trying all the same. So these calls are two steps, and no order of single ones explains
/// them; this does.
fn is_tried_rightly(runs: &[Ran]) -> Result<(), String> {
    let mut inside: Vec<_> = runs.iter().filter_map(|run| run.2).collect();
    inside.sort_unstable();
    if inside.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("both inside".into());
    }
    for refused in runs.iter().filter(|run| run.2.is_none()) {
        let beside = |run: &&Ran| run.2.is_some() && run.0 < refused.1 && refused.0 < run.1;
        if !runs.iter().any(|run| beside(&run)) {
            return Err(format!("busy, and nothing runs: {refused:?}"));
        }
    }
    Ok(())
}

#[test]
fn runs_that_are_tried_are_refused_rightly() {
    must_end(|| {
        let windows = size(500, 2_000);
        for _ in 0..windows {
            let keyed: Keyed<u8> = Keyed::new();
            let time = AtomicU64::new(0);
            let now = || time.fetch_add(1, SeqCst);
            let user = || {
                let step = |step| {
                    let begun = now();
                    let run = |(): &mut ()| (now(), now());
                    let said = match step % 2 {
                        0 => keyed.try_run(1, run),
                        _ => keyed.run(1, run).map_err(|error| panic!("{error:?}")),
                    };
                    if let Err(error) = &said {
                        assert_eq!(*error, NotStarted::Busy { key: None });
                    }
                    (begun, now(), said.ok())
                };
                (0..4).map(step).collect::<Vec<Ran>>()
            };
            let runs: Vec<_> = thread::scope(|scope| {
                let users: Vec<_> = (0..3).map(|_| scope.spawn(user)).collect();
                users.into_iter().flat_map(|user| user.join().unwrap()).collect()
            });
            is_tried_rightly(&runs).unwrap();
        }
    });
    let refused = is_tried_rightly(&[(0, 5, Some((1, 2))), (6, 7, None), (8, 9, None)]);
    assert!(refused.unwrap_err().contains("nothing runs"));
    let both = is_tried_rightly(&[(0, 5, Some((1, 3))), (1, 7, Some((2, 4)))]);
    assert!(both.is_err());
}

#[test]
fn faults_in_a_long_history_are_found() {
    let mut rows = long_locked();
    rows.sort_by_key(|row| row.position);
    let half = rows.len() / 2;
    let with = |change: fn(&mut [Row])| {
        let mut rows = rows.clone();
        change(&mut rows[half..]);
        is_in_order(&mut rows, 1)
    };
    assert!(with(|_| ()).is_ok());
    // The youngest first: two that do not overlap have changed places.
    let swapped = with(|rows| {
        let (one, two) = (rows[0].position, rows[100].position);
        (rows[0].position, rows[100].position) = (two, one);
    });
    assert!(swapped.unwrap_err().contains("came after"));
    // The old fence once more.
    assert!(with(|rows| rows[1].position = rows[0].position).is_err());
    // Two inside.
    let both = with(|rows| rows[0].left = rows[1].inside + 1);
    assert!(both.unwrap_err().contains("inside"));
}
