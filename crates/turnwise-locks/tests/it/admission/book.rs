//! A ledger in memory that does what a test says, and looks after the rules of its calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use turnwise_locks::admission::{Admission, Apply, CommitError, Ledger};

/// One call of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Load,
    Begin,
    Enter(u64),
    Commit,
    RollBack,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Good,
    /// An error that says what is true: of a commit, that nothing is in.
    Error,
    /// A panic, before it has done anything.
    PanicBefore,
    /// A panic, after it has done its work.
    PanicAfter,
    /// A commit that says that it does not know, and has done its work.
    DoubtIn,
    /// In doubt, and has not happened.
    DoubtOut,
}

/// A failure, with a number to be recognized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble(pub(crate) u64);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trouble {}", self.0)
    }
}

type Plan = Box<dyn FnMut(Call) -> Fate + Send>;

/// The disk, and the calls that a test sees.
#[derive(Default)]
pub(crate) struct Disk {
    /// Durable rows: applicant and place.
    pub(crate) rows: Vec<(u64, u64)>,
    pub(crate) calls: Vec<Call>,
    /// Rules of the calls that were broken. They cannot panic: that would be caught.
    pub(crate) broken: Vec<String>,
    /// Sizes of the commits that were asked for.
    pub(crate) commits: Vec<usize>,
    open: Option<Vec<(u64, u64)>>,
    troubles: u64,
}

/// The ledger.
pub(crate) struct Book {
    disk: Arc<Mutex<Disk>>,
    plan: Arc<Mutex<Plan>>,
}

/// The part that the test keeps.
#[derive(Clone)]
pub(crate) struct Controls {
    disk: Arc<Mutex<Disk>>,
    plan: Arc<Mutex<Plan>>,
}

pub(crate) type Raffle = Admission<u64, Book>;
pub(crate) type Entry = Apply<u64, Book>;

/// A book in which all goes well.
pub(crate) fn book() -> (Book, Controls) {
    let plan: Plan = Box::new(|_| Fate::Good);
    let controls = Controls { disk: Arc::default(), plan: Arc::new(Mutex::new(plan)) };
    (Book { disk: controls.disk.clone(), plan: controls.plan.clone() }, controls)
}

impl Controls {
    pub(crate) fn plan(&self, plan: impl FnMut(Call) -> Fate + Send + 'static) {
        *self.plan.lock().unwrap() = Box::new(plan);
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    pub(crate) fn rows(&self) -> Vec<(u64, u64)> {
        self.disk().rows.clone()
    }

    pub(crate) fn count(&self, call: Call) -> usize {
        self.disk().calls.iter().filter(|one| **one == call).count()
    }

    /// No rule was broken, no unit of work is open, and no applicant is in twice.
    pub(crate) fn check(&self) {
        let disk = self.disk();
        assert_eq!(disk.broken, Vec::<String>::new());
        assert!(disk.open.is_none(), "a unit of work is open");
        let ids: HashMap<_, _> = disk.rows.iter().copied().collect();
        assert_eq!(ids.len(), disk.rows.len(), "somebody is in twice: {:?}", disk.rows);
    }
}

impl Book {
    /// The outcome of this call. The plan runs without a lock of the disk, as it may block.
    fn fate(&self, call: Call) -> Fate {
        self.disk.lock().unwrap().calls.push(call);
        let mut plan = self.plan.lock().unwrap();
        let fate = plan(call);
        drop(plan);
        assert!(fate != Fate::PanicBefore, "planned before {call:?}");
        fate
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }
}

impl Disk {
    fn trouble(&mut self) -> Trouble {
        self.troubles += 1;
        Trouble(self.troubles)
    }

    fn rule(&mut self, kept: bool, what: &str) {
        if !kept {
            self.broken.push(what.into());
        }
    }
}

fn after(fate: Fate, call: Call) {
    assert!(fate != Fate::PanicAfter, "planned after {call:?}");
}

impl Ledger<u64> for Book {
    type Row = u64;
    type Error = Trouble;

    fn load(&mut self) -> Result<Vec<(u64, u64)>, Trouble> {
        let free = self.disk().open.is_none();
        self.disk().rule(free, "load in a unit of work");
        let fate = self.fate(Call::Load);
        after(fate, Call::Load);
        let mut disk = self.disk();
        match fate {
            Fate::Good => Ok(disk.rows.to_vec()),
            _ => Err(disk.trouble()),
        }
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        let fate = self.fate(Call::Begin);
        let mut disk = self.disk();
        let free = disk.open.is_none();
        disk.rule(free, "begin in a unit of work");
        if fate == Fate::Error {
            return Err(disk.trouble());
        }
        disk.open = Some(Vec::new());
        drop(disk);
        after(fate, Call::Begin);
        Ok(())
    }

    fn enter(&mut self, id: &u64, place: u64) -> Result<u64, Trouble> {
        let call = Call::Enter(*id);
        let fate = self.fate(call);
        let mut disk = self.disk();
        let open = disk.open.is_some();
        disk.rule(open, "enter without a unit of work");
        if fate == Fate::Error {
            return Err(disk.trouble());
        }
        if let Some(rows) = &mut disk.open {
            rows.push((*id, place));
        }
        drop(disk);
        after(fate, call);
        Ok(10 * place)
    }

    fn commit(&mut self) -> Result<(), CommitError<Trouble>> {
        let fate = self.fate(Call::Commit);
        let mut disk = self.disk();
        let Some(rows) = disk.open.take() else {
            disk.rule(false, "commit without a unit of work");
            return Ok(());
        };
        disk.commits.push(rows.len());
        if matches!(fate, Fate::Good | Fate::PanicAfter | Fate::DoubtIn) {
            disk.rows.extend(rows);
        }
        let trouble = disk.trouble();
        drop(disk);
        after(fate, Call::Commit);
        match fate {
            Fate::Good => Ok(()),
            Fate::DoubtIn | Fate::DoubtOut => Err(CommitError::Unknown(trouble)),
            _ => Err(CommitError::RolledBack(trouble)),
        }
    }

    fn roll_back(&mut self) {
        let call = Call::RollBack;
        // Rows that are not committed do not outlive their unit, whatever fails.
        self.disk().open = None;
        let fate = self.fate(call);
        after(fate, call);
    }
}
