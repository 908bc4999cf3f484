//! APPLY-1 and APPLY-2: an application that is given up against its turn; DECIDER-1 and
//! ADMISSION-3: the answers against the commit. The shipped admission, with a ledger of the models.

use std::time::Duration;

use super::super::admission::{Admission, Admitted, Apply, CommitError, Ledger, Refused};
use super::super::limits::Limits;
use super::super::time::Timers;
use super::clock::{LIMIT, Steps};
use super::*;
use crate::sync::reached;

/// The content of the disk. No step of the model is between its lock and its unlock.
#[derive(Default)]
struct Disk {
    rows: Vec<(u32, u64)>,
    largest: usize,
}

struct Book {
    disk: Arc<std::sync::Mutex<Disk>>,
    open: Vec<(u32, u64)>,
    /// The first commit of this applicant fails.
    fails: Option<u32>,
}

impl Ledger<u32> for Book {
    type Row = ();
    type Error = &'static str;

    fn load(&mut self) -> Result<Vec<(u32, u64)>, &'static str> {
        Ok(self.disk.lock().expect("no panics").rows.to_vec())
    }

    fn begin(&mut self) -> Result<(), &'static str> {
        Ok(())
    }

    fn enter(&mut self, id: &u32, place: u64) -> Result<(), &'static str> {
        self.open.push((*id, place));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), CommitError<&'static str>> {
        let fails = self.open.iter().any(|(id, _)| Some(*id) == self.fails);
        if fails {
            self.fails = None;
            return Err(CommitError::RolledBack("as it was to"));
        }
        let mut disk = self.disk.lock().expect("no panics");
        disk.largest = disk.largest.max(self.open.len());
        disk.rows.append(&mut self.open);
        Ok(())
    }

    fn roll_back(&mut self) {
        self.open.clear();
    }
}

type Told = Result<Admitted<()>, Refused<&'static str>>;

struct Setting {
    clock: Arc<Steps>,
    timers: Timers,
    disk: Arc<std::sync::Mutex<Disk>>,
    raffle: Admission<u32, Book>,
}

impl Setting {
    fn new(limit: u64, fails: Option<u32>) -> Self {
        let clock = Arc::new(Steps::default());
        let timers = Timers::by_hand(clock.clone());
        let disk = Arc::<std::sync::Mutex<Disk>>::default();
        let book = Book { disk: disk.clone(), open: Vec::new(), fails };
        let raffle =
            Admission::builder(book, limit).group_time(Duration::MAX).timers(timers.clone()).open();
        Setting { clock, timers, disk, raffle: raffle.expect("it can be read") }
    }

    fn row_of(&self, id: u32) -> Option<u64> {
        let disk = self.disk.lock().expect("no panics");
        disk.rows.iter().find(|(other, _)| *other == id).map(|(_, place)| *place)
    }

    /// Checks that the answer is true; and was, when it was given.
    fn check(&self, id: u32, told: &Told) {
        match told {
            Ok(admitted) => assert_eq!(self.row_of(id), Some(admitted.place)),
            Err(Refused::Duplicate { place }) => assert_eq!(self.row_of(id), Some(*place)),
            Err(Refused::Closed { limit }) => {
                assert!(self.raffle.status().closed && self.raffle.status().count >= *limit);
            }
            Err(_) => {}
        }
    }

    /// Checks the end, after all threads have joined.
    fn finish(self) {
        let rows = self.disk.lock().expect("no panics").rows.len();
        assert_eq!(self.raffle.status().count, rows as u64);
        assert_eq!(self.timers.len(), 0, "a timer is left");
    }
}

/// APPLY-1 and APPLY-2: the limit of one is over while another thread runs its turn: it is
/// admitted, and is answered so, or was late, and is not.
pub(super) fn admission_late_against_its_turn() {
    let setting = Setting::new(3, None);
    let raffle = setting.raffle.clone();
    let other = spawn(move || {
        assert!(raffle.apply(2, Limits::NONE).wait().is_ok(), "there is a seat");
    });
    let apply = setting.raffle.apply(1, Limits::wait(LIMIT));
    setting.clock.tick();
    let told = apply.wait();
    setting.check(1, &told);
    match &told {
        Ok(_) => reached("in"),
        Err(Refused::TimedOut { .. }) => {
            // Neither now nor later.
            reached("late");
        }
        Err(_) => panic!("there is a seat"),
    }
    other.join();
    assert_eq!(setting.row_of(1).is_some(), told.is_ok());
    setting.finish();
}

/// APPLY-2: one is dropped while another thread runs its turn: it leaves no entry, or one that
/// counts.
pub(super) fn admission_dropped_against_its_turn() {
    let setting = Setting::new(1, None);
    let raffle = setting.raffle.clone();
    let other = spawn(move || drop(raffle.apply(2, Limits::NONE).wait()));
    let apply = setting.raffle.apply(1, Limits::NONE);
    drop(apply);
    other.join();
    reached(if setting.row_of(1).is_some() { "in" } else { "withdrawn" });
    // One seat, one row.
    assert_eq!(setting.row_of(1).is_some(), setting.row_of(2).is_none());
    setting.finish();
}

/// DECIDER-1 and ADMISSION-3: a commit fails while others wait for its consequences. Each answer is
/// true when it is given.
pub(super) fn admission_told_against_the_commit() {
    let setting = Setting::new(3, Some(1));
    let raffle = setting.raffle.clone();
    let other = spawn(move || drop(raffle.apply(2, Limits::NONE).wait()));
    let all = [1, 1].map(|id| setting.raffle.apply(id, Limits::NONE));
    for (number, apply) in all.into_iter().enumerate() {
        let told = apply.wait();
        setting.check(1, &told);
        if number == 1 {
            // The second never learns of the first, which was undone.
            assert!(told.is_ok() || matches!(told, Err(Refused::CommitFailed(_))));
            reached(if told.is_ok() { "in by itself" } else { "undone" });
        }
    }
    other.join();
    setting.finish();
}

/// A stop against an application: it is refused, or admitted and committed; always answered.
pub(super) fn admission_stopped_against_a_turn() {
    stopped_against(|raffle| raffle.apply(1, Limits::NONE));
}

/// A stop against an application inside a turn, which is decided in a turn of the admission: a stop
/// finds the pass open, before or after it.
pub(super) fn admission_stopped_against_a_queue() {
    stopped_against(|raffle| {
        let applied = Actor::new(()).with(move |()| raffle.apply(1, Limits::NONE));
        applied.expect("it is open")
    });
}

fn stopped_against(apply: impl FnOnce(Admission<u32, Book>) -> Apply<u32, Book>) {
    let setting = Setting::new(3, None);
    let raffle = setting.raffle.clone();
    let stops = spawn(move || raffle.stop());
    let told = apply(setting.raffle.clone()).wait();
    setting.check(1, &told);
    match &told {
        Ok(_) => reached("in"),
        Err(Refused::Gone(_)) => reached("gone"),
        Err(_) => panic!("there is a seat"),
    }
    stops.join();
    assert_eq!(setting.row_of(1).is_some(), told.is_ok());
    setting.finish();
}
