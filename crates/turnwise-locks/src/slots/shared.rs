//! The holders of numbers: SLOTS-1 to SLOTS-3 and SLOTS-5 of a pool. It knows neither values nor
//! errors.

use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwise::time::{Timer, Timers};
use turnwise::{Actor, Spawner};

use super::job::Cuttable;
use super::view::{PoolView, SlotId, SlotState, SlotView};
use crate::limits::TimeSource;
use crate::lock::{Fence, HoldState, Lost, Permit, Semaphore};
use crate::sync::Mutex;

/// The part of a pool that its uses share, whatever is in its slots.
pub(super) struct Shared {
    pub(super) permits: Semaphore,
    pub(super) time: TimeSource,
    /// The executor of expired holds. None: the process's pool.
    pub(super) helper: Option<Spawner<()>>,
    /// Numbers are cleaned up before their first use.
    pub(super) clean_first: bool,
    numbers: Mutex<Numbers>,
}

struct Numbers {
    /// The size of the pool. There may be more cells: what has shrunk may grow again.
    slots: usize,
    free: Lowest,
    cells: Vec<Cell>,
    /// The fence of the last hold.
    fence: u64,
    /// Numbers are cleaned up before their first use.
    clean_first: bool,
}

/// A number.
struct Cell {
    state: SlotState,
    /// Of the hold that it is in, or was in last.
    fence: u64,
    since: Duration,
    /// SLOTS-1.
    entry: Option<SlotPermit>,
    /// It was never used, and is to be cleaned up before.
    unknown: bool,
    lease: Lease,
}

/// The end of a hold that its guard does not end.
#[derive(Default)]
pub(super) struct Lease {
    due: Option<Duration>,
    timer: Option<Timer>,
    /// The number of times that the lease was set.
    version: u64,
    /// Somebody wants to know that it is lost.
    hold_state: Option<Arc<HoldState>>,
    /// The job that is cut at its end.
    job: Option<Weak<dyn Cuttable>>,
}

/// The permit that lets a holder in.
pub(super) enum SlotPermit {
    /// A permit that came without a turn.
    Fast,
    Permit(Permit),
}

/// A hold: SLOTS-3.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotHold {
    pub(super) id: SlotId,
    pub(super) fence: u64,
}

/// The numbers that are not used, the lowest first.
#[derive(Default)]
struct Lowest {
    words: Vec<u64>,
    /// No word before this one has a number in it.
    first: usize,
}

impl Lowest {
    fn insert(&mut self, number: usize) {
        let word = number / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (number % 64);
        self.first = self.first.min(word);
    }

    fn take(&mut self) -> Option<usize> {
        while let Some(word) = self.words.get_mut(self.first) {
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(self.first * 64 + bit);
            }
            self.first += 1;
        }
        None
    }
}

impl Numbers {
    fn grow(&mut self, slots: usize) {
        for number in self.cells.len()..slots {
            self.cells.push(Cell {
                state: SlotState::Free,
                fence: 0,
                since: Duration::ZERO,
                entry: None,
                unknown: self.clean_first,
                lease: Lease::default(),
            });
            self.free.insert(number);
        }
        self.slots = slots;
    }

    /// SLOTS-5.
    fn permits(&self) -> u64 {
        let beyond = self.cells.iter().skip(self.slots);
        let kept = beyond.filter(|cell| cell.state == SlotState::Quarantined).count();
        (self.slots + kept) as u64
    }

    /// The cell of a hold that goes on.
    fn held(&mut self, hold: SlotHold) -> Option<&mut Cell> {
        let cell = &mut self.cells[hold.id.index()];
        (cell.state == SlotState::Held && cell.fence == hold.fence).then_some(cell)
    }

    fn free(&mut self, id: SlotId) -> Option<SlotPermit> {
        let cell = &mut self.cells[id.index()];
        cell.state = SlotState::Free;
        let entry = cell.entry.take();
        self.free.insert(id.index());
        entry
    }
}

impl Shared {
    pub(super) fn new(
        slots: usize,
        timers: Option<Timers>,
        helper: Option<Spawner<()>>,
        clean_first: bool,
    ) -> Arc<Self> {
        let (free, cells) = (Lowest::default(), Vec::new());
        let mut numbers = Numbers { slots, free, cells, fence: 0, clean_first };
        numbers.grow(slots);
        // On the machine's clock, a request that waits needs no clock of its own.
        let mut permits = Semaphore::builder(slots as u64);
        if let Some(timers) = &timers {
            permits = permits.timers(timers.clone());
        }
        let permits = permits.build();
        let time = TimeSource::new(timers);
        Arc::new(Shared { permits, time, helper, clean_first, numbers: Mutex::new(numbers) })
    }

    /// Gives back the permit that let a holder in. Not under the lock.
    pub(super) fn give_back(&self, entry: Option<SlotPermit>) {
        match entry {
            None => {}
            Some(SlotPermit::Fast) => self.permits.put(),
            Some(SlotPermit::Permit(permit)) => drop(permit),
        }
    }

    /// The time.
    pub(super) fn now(&self) -> Duration {
        self.time.now()
    }

    /// The lowest unused number, for a permit. True: it is to be cleaned up before.
    pub(super) fn take(
        &self,
        entry: SlotPermit,
        state: SlotState,
        since: Duration,
    ) -> (SlotHold, bool) {
        let mut numbers = self.numbers.lock();
        let Some(number) = numbers.free.take() else {
            unreachable!("there is a free number for each permit (S1)")
        };
        numbers.fence += 1;
        let fence = numbers.fence;
        let cell = &mut numbers.cells[number];
        cell.state = state;
        cell.fence = fence;
        cell.since = since;
        cell.entry = Some(entry);
        let unknown = std::mem::replace(&mut cell.unknown, false);
        (SlotHold { id: SlotId(number as u32), fence }, unknown)
    }

    /// A slot that was set up has its user now.
    pub(super) fn stay(&self, hold: SlotHold) {
        self.numbers.lock().cells[hold.id.index()].state = SlotState::Held;
    }

    /// A hold is that of a job, which is cut when its lease is over.
    pub(super) fn attach(&self, hold: SlotHold, job: Weak<dyn Cuttable>) {
        if let Some(cell) = self.numbers.lock().held(hold) {
            cell.lease.job = Some(job);
        }
    }

    /// SLOTS-3: the end of a hold, or None if it has ended before. The caller that gets it has to
    /// clean up.
    pub(super) fn end(&self, hold: SlotHold) -> Option<Option<Lease>> {
        let mut numbers = self.numbers.lock();
        let cell = numbers.held(hold)?;
        cell.state = SlotState::CleanUp;
        Some(cell.lease.take())
    }

    /// The end of a hold of a slot that needs no clean-up: its number is free.
    /// What let the holder in is to be [given back](Self::give_back).
    pub(super) fn end_clean(&self, hold: SlotHold) -> Option<(Option<Lease>, Option<SlotPermit>)> {
        let mut numbers = self.numbers.lock();
        let lease = numbers.held(hold)?.lease.take();
        Some((lease, numbers.free(hold.id)))
    }

    /// SLOTS-3: the end of a hold whose lease is over. The caller that gets it reclaims, and cleans
    /// up.
    pub(super) fn expire(&self, hold: SlotHold, now: Duration) -> Option<Lease> {
        let mut numbers = self.numbers.lock();
        let cell = numbers.held(hold).filter(|cell| cell.lease.is_over(now))?;
        cell.state = SlotState::Reclaim;
        Some(std::mem::take(&mut cell.lease))
    }

    /// A slot is clean.
    pub(super) fn free(self: &Arc<Self>, id: SlotId) {
        let (entry, beyond) = {
            let mut numbers = self.numbers.lock();
            (numbers.free(id), id.index() >= numbers.slots)
        };
        if beyond {
            // It may have been quarantined. First this, then the permit goes back.
            self.adjust();
        }
        self.give_back(entry);
    }

    /// A slot is not clean: SLOTS-6.
    pub(super) fn quarantine(self: &Arc<Self>, id: SlotId) {
        let beyond = {
            let mut numbers = self.numbers.lock();
            numbers.cells[id.index()].state = SlotState::Quarantined;
            id.index() >= numbers.slots
        };
        if beyond {
            self.adjust();
        }
    }

    /// A quarantined slot is to be cleaned up: by the caller that gets true.
    pub(super) fn repair(&self, id: SlotId) -> bool {
        let mut numbers = self.numbers.lock();
        let cell = numbers.cells.get_mut(id.index());
        let Some(cell) = cell.filter(|cell| cell.state == SlotState::Quarantined) else {
            return false;
        };
        cell.state = SlotState::CleanUp;
        true
    }

    pub(super) fn resize(self: &Arc<Self>, slots: usize) {
        self.numbers.lock().grow(slots);
        self.adjust();
    }

    /// SLOTS-5.
    fn adjust(self: &Arc<Self>) {
        let shared = self.clone();
        self.permits.resize(move || shared.numbers.lock().permits());
    }

    /// True if it is not held by this hold any more. An error: it is, until then.
    pub(super) fn is_lost(&self, hold: SlotHold) -> Result<bool, Duration> {
        let mut numbers = self.numbers.lock();
        match numbers.held(hold) {
            None => Ok(true),
            Some(cell) => cell.lease.due.map_or(Ok(false), Err),
        }
    }

    /// A future that is ready when a hold is lost.
    pub(super) fn lost(&self, hold: SlotHold) -> Lost {
        let fresh = HoldState::new();
        let hold_state = {
            let mut numbers = self.numbers.lock();
            numbers
                .held(hold)
                .map(|cell| cell.lease.hold_state.get_or_insert_with(|| fresh.clone()).clone())
        };
        match hold_state {
            Some(hold_state) => Lost::of(&hold_state),
            None => {
                fresh.end();
                Lost::of(&fresh)
            }
        }
    }

    /// A lease begins: it ends then. None: the hold is lost, or its lease is over. Else the version
    /// of the lease, for [`armed`](Self::armed).
    pub(super) fn lease(
        &self,
        hold: SlotHold,
        now: Duration,
        due: Option<Duration>,
    ) -> Option<u64> {
        let (version, before) = {
            let mut numbers = self.numbers.lock();
            let cell = numbers.held(hold).filter(|cell| !cell.lease.is_over(now))?;
            cell.lease.due = due;
            cell.lease.version += 1;
            (cell.lease.version, cell.lease.timer.take())
        };
        cancel(before);
        Some(version)
    }

    /// The last one that sets a lease has its timer.
    pub(super) fn armed(&self, hold: SlotHold, version: u64, timer: Timer) {
        let unneeded = {
            let mut numbers = self.numbers.lock();
            match numbers.held(hold).filter(|cell| cell.lease.version == version) {
                Some(cell) => cell.lease.timer.replace(timer),
                None => Some(timer),
            }
        };
        cancel(unneeded);
    }

    pub(super) fn remaining(&self, hold: SlotHold) -> Option<Duration> {
        let due = self.numbers.lock().held(hold)?.lease.due?;
        Some(due.saturating_sub(self.now()))
    }

    pub(super) fn view(&self) -> PoolView {
        let (now, permits) = (self.now(), self.permits.info().wait().ok());
        let numbers = self.numbers.lock();
        let is_there = |(number, cell): &(usize, &Cell)| {
            *number < numbers.slots || cell.state != SlotState::Free
        };
        let each = numbers.cells.iter().enumerate().filter(is_there);
        let each: Vec<_> = each.map(|(number, cell)| cell.view(number, now)).collect();
        let slots = numbers.slots;
        drop(numbers);
        let count = |state| each.iter().filter(|slot| slot.state == state).count();
        let (free, quarantined) = (count(SlotState::Free), count(SlotState::Quarantined));
        PoolView {
            slots,
            in_use: each.len() - free - quarantined,
            free,
            quarantined,
            retiring: each.len() - slots,
            waiting: permits.as_ref().map_or(0, |info| info.waiting),
            oldest_wait: permits.and_then(|info| info.oldest_wait),
            each,
        }
    }

    /// Runs what an expired hold needs: in the executor of the pool, and if that is gone in the
    /// process's.
    pub(super) fn post(&self, work: impl FnOnce() + Send + 'static) {
        let mut errand = Errand(Some(work));
        let run = move |(): &mut ()| {
            if let Some(work) = errand.0.take() {
                work();
            }
        };
        match &self.helper {
            Some(helper) => drop(helper.spawn(()).posted().send(run)),
            None => drop(Actor::new(()).posted().send(run)),
        }
    }
}

/// Work that is run, even if the first whom it is given to drops it.
struct Errand<F: FnOnce() + Send + 'static>(Option<F>);

impl<F: FnOnce() + Send + 'static> Drop for Errand<F> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            drop(Actor::new(()).posted().send(move |()| work()));
        }
    }
}

impl Cell {
    fn view(&self, number: usize, now: Duration) -> SlotView {
        let used = self.state != SlotState::Free;
        SlotView {
            id: SlotId(number as u32),
            state: self.state,
            fence: used.then(|| Fence::from_number(self.fence)),
            age: used.then(|| now.saturating_sub(self.since)),
            remaining: self.lease.due.map(|due| due.saturating_sub(now)),
        }
    }
}

impl Lease {
    /// Takes it out, if anything was said of it.
    fn take(&mut self) -> Option<Lease> {
        let used = self.version > 0 || self.hold_state.is_some() || self.job.is_some();
        used.then(|| std::mem::take(self))
    }

    fn is_over(&self, now: Duration) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The guard has ended the hold.
    pub(super) fn ended(lease: Option<Lease>) {
        if let Some(lease) = lease {
            cancel(lease.timer);
        }
    }

    /// The hold is lost: wakes those that wait for that, which is user code. The job to be cut
    /// comes back.
    pub(super) fn lost(self) -> Option<Arc<dyn Cuttable>> {
        cancel(self.timer);
        if let Some(hold_state) = self.hold_state {
            hold_state.end();
        }
        // One that is gone has ended its hold.
        self.job.as_ref().and_then(Weak::upgrade)
    }
}

fn cancel(timer: Option<Timer>) {
    if let Some(timer) = timer {
        timer.cancel();
    }
}
