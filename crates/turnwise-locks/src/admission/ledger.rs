//! The caller's own unit of work: where the entries are kept.
//!
//! A ledger is used inside the turns of one admission only, by one thread at a time. Of a pass, it
//! sees `begin`, then an `enter` for each that is to be let in, then `commit` or `roll_back`.
//!
//! - LEDGER-1: between `begin` and the end of its pass, nothing else but `enter` is called.
//! - LEDGER-2: after a `commit` that did not return `Ok`, after a panic, and after a pass in which
//!   no one was entered, `roll_back` is called. So it has to bear being called when nothing is
//!   open.
//! - LEDGER-3: what a commit that failed [in doubt](CommitError::Unknown) has done is asked by
//!   `load`.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

/// The place that an admission writes its entries into: a database, a file, or [nothing](InMemory).
///
/// The caller's own unit of work. All calls come from turns of the admission: one at a time, and
/// never two at once, but not always from the same thread. They may block; give the admission an
/// [executor](crate::admission::AdmissionBuilder::executor) then. A panic is caught, and treated
/// like an error of the same call.
///
/// An application that was rolled back with others, because one of them panicked, is entered again
/// in the next pass: so `enter` does nothing that `roll_back` does not undo.
///
/// # Examples
/// ```
/// use std::collections::BTreeMap;
/// use turnwise_locks::admission::{Admission, CommitError, Ledger};
/// use turnwise_locks::Limits;
///
/// #[derive(Default)]
/// struct Book { written: BTreeMap<u64, String>, open: Vec<(u64, String)> }
///
/// impl Ledger<String> for Book {
///     type Row = usize; // letters of the name
///     type Error = String;
///     fn load(&mut self) -> Result<Vec<(String, u64)>, String> {
///         Ok(self.written.iter().map(|(place, name)| (name.clone(), *place)).collect())
///     }
///     fn begin(&mut self) -> Result<(), String> {
///         Ok(())
///     }
///     fn enter(&mut self, name: &String, place: u64) -> Result<usize, String> {
///         if name.is_empty() {
///             return Err("the name is empty".into());
///         }
///         self.open.push((place, name.clone()));
///         Ok(name.len())
///     }
///     fn commit(&mut self) -> Result<(), CommitError<String>> {
///         self.written.extend(self.open.drain(..));
///         Ok(())
///     }
///     fn roll_back(&mut self) {
///         self.open.clear();
///     }
/// }
///
/// let raffle = Admission::open(Book::default(), 2)?;
/// assert_eq!(raffle.apply("ada".to_string(), Limits::NONE).wait()?.row, 3);
/// assert!(raffle.apply(String::new(), Limits::NONE).wait().is_err());
/// assert_eq!(raffle.apply("grace".to_string(), Limits::NONE).wait()?.place, 2);
/// assert!(raffle.status().closed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Ledger<Id>: Send + 'static {
    /// The receipt of an applicant who is in.
    type Row: Send + 'static;
    /// The error of this ledger. It reaches the applicants with its type.
    type Error: fmt::Debug + fmt::Display + Send + Sync + 'static;

    /// All that are in. Called once when the admission is opened, and whenever what it knows may
    /// not be what is written: after a commit [in doubt](CommitError::Unknown), or a panic in
    /// `commit` or `roll_back`. No unit of work is open then.
    ///
    /// # Errors
    /// Nothing is known. None is let in before a `load` has succeeded.
    /// A place above the half of [`u64::MAX`] is an error, too: it leaves too few after it.
    fn load(&mut self) -> Result<Vec<(Id, u64)>, Self::Error>;

    /// A unit of work begins. Called when the first applicant of a pass is to be entered: a pass
    /// that only refuses costs none.
    ///
    /// # Errors
    /// None was begun. The one applicant learns of it; the next one tries again.
    fn begin(&mut self) -> Result<(), Self::Error>;

    /// Enters an applicant, who has this place in the order of entry, the first being 1.
    ///
    /// # Errors
    /// This entry alone is undone, by the ledger itself (a savepoint); those before it in the same
    /// unit of work stand.
    fn enter(&mut self, id: &Id, place: u64) -> Result<Self::Row, Self::Error>;

    /// Makes the entries of the unit durable. No answer tells of an entry before this has returned.
    ///
    /// # Errors
    /// See [`CommitError`].
    fn commit(&mut self) -> Result<(), CommitError<Self::Error>>;

    /// Undoes the unit of work. Does nothing if none is open, as after a commit.
    fn roll_back(&mut self);
}

/// A commit that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError<E> {
    /// None of the unit is in, now and later: its applicants are refused.
    RolledBack(E),
    /// It may be in or not: [`Ledger::load`] decides, and each applicant gets the true answer.
    Unknown(E),
}

/// From an error that tells nothing else: it is in doubt. So `?` is always right in a commit.
impl<E> From<E> for CommitError<E> {
    fn from(error: E) -> Self {
        CommitError::Unknown(error)
    }
}

impl<E: fmt::Display> fmt::Display for CommitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::RolledBack(error) => write!(f, "rolled back: {error}"),
            CommitError::Unknown(error) => write!(f, "committed or not: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for CommitError<E> {}

/// A ledger that keeps nothing: the admission's own memory is all there is.
///
/// # Examples
/// ```
/// use turnwise_locks::admission::{Admission, InMemory};
/// use turnwise_locks::Limits;
///
/// let raffle = Admission::open(InMemory, 1)?;
/// assert_eq!(raffle.apply("ada", Limits::NONE).wait()?.place, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory;

impl<Id> Ledger<Id> for InMemory {
    type Row = ();
    type Error = Infallible;

    fn load(&mut self) -> Result<Vec<(Id, u64)>, Infallible> {
        Ok(Vec::new())
    }

    fn begin(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn enter(&mut self, _: &Id, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), CommitError<Infallible>> {
        Ok(())
    }

    fn roll_back(&mut self) {}
}
