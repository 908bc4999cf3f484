//! First come, first served, exactly to a limit, for programs on several machines.
//!
//! The order is that in which requests arrive at the store. One step finds a place, writes the row
//! and counts it. So there are never more rows than places, whatever process is killed at whatever
//! time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;
use turnwise_locks::{Fence, Limits};

use crate::applications::{AdmissionKey, Application, of_admission};
use crate::attempt::{Acquire, Call};
use crate::business::Handles;
use crate::client::Owned;
use crate::lock::Wanted;
use crate::name;
use crate::refused::{LONGEST_ROW, MOST_PLACES};
use crate::step::{AdmissionAct, AdmissionAnswer, AdmissionRow, AdmissionSeen, Answer};
use crate::time::{Moment, after};

pub use crate::refused::{OpenError, Refused};

/// The maximum number of rows of a page.
const PAGE: u32 = 1000;

/// First come, first served, exactly to a limit, with one row for each applicant, whatever machine
/// it comes from: see [`Remote::admission`](crate::Remote::admission). Clones share the same
/// admission.
///
/// An admitted applicant has a place of its own, from 1 to the limit, and a permanent row in the
/// store. When the limit is reached, the admission is closed for good. An admitted applicant that
/// applies again gets its place, also after the close.
///
/// Rows that are stored elsewhere, such as in a database, are written between two steps:
/// [`reserve`](Self::reserve) a place; write the row there, with the place and the fence under
/// unique constraints; [confirm](Reservation::confirm). A place that is not confirmed becomes free
/// when its reservation is dropped, or when the lease of its vanished client has ended. It is
/// granted to the first waiter.
///
/// Rows are as durable as the server is configured to be (`appendonly yes`), and stay until their
/// keys are deleted.
///
/// # Examples
/// ```
/// use turnwise_redis::admission::Refused;
/// use turnwise_redis::Remote;
///
/// let raffle = Remote::in_memory().admission("raffle 633", 2)?;
/// assert_eq!(raffle.admit("ada", "a@example.org").wait()?.place, 1);
/// assert_eq!(raffle.admit("ada", "").wait(), Err(Refused::Duplicate { place: 1 }));
/// assert_eq!(raffle.admit("bob", "").wait()?.place, 2);
/// assert_eq!(raffle.admit("cyd", "").wait(), Err(Refused::Closed { limit: 2 }));
/// let rows = raffle.rows(0, 10).wait()?;
/// assert_eq!(rows[0].row, b"a@example.org");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Admission {
    client: Owned,
    admission: AdmissionKey,
    name: Arc<str>,
}

/// An admitted applicant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admitted {
    /// The place, from 1 on.
    pub place: u64,
    /// The number of the entry: greater than those of all entries and reservations before.
    pub fence: Fence,
}

/// A snapshot of an admission: see [`Admission::status`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The number of places.
    pub limit: u64,
    /// The number of rows.
    pub count: u64,
    /// `count / limit`.
    pub ratio: f64,
    /// The number of reserved places.
    pub reserved: u64,
    /// The number of waiting requests.
    pub waiting: usize,
    /// True if only applicants with a reserved place can still be admitted.
    pub closed: bool,
}

/// A row of an admission: see [`Admission::rows`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The applicant.
    pub applicant: String,
    /// The place, from 1 on.
    pub place: u64,
    /// The number of the entry.
    pub fence: Fence,
    /// The content of the row.
    pub row: Vec<u8>,
}

impl Admission {
    pub(crate) fn new(client: Owned, name: &str, limit: u64) -> Result<Self, OpenError> {
        match limit {
            0 => return Err(OpenError::NoPlaces),
            limit if limit > MOST_PLACES => return Err(OpenError::TooMany { limit }),
            _ => {}
        }
        let key = client.key("admission", name).map_err(OpenError::Name)?;
        Ok(Admission { client, admission: AdmissionKey { key, limit }, name: name.into() })
    }

    /// Applies: the row is written if there is a place. If all places are taken, but some of them
    /// only reserved, the request waits until one becomes free or none can. The limit of the wait
    /// is the client's [patience](crate::RemoteBuilder::give_up_after) with a store that does not
    /// answer. This call does not wait; the [`Acquire`] does.
    ///
    /// After an error other than [`Refused::Store`] and [`Refused::Withdrawn`] the applicant is
    /// certainly not admitted by this request. Dropping the [`Acquire`] gives the request up,
    /// unless the row is written by then.
    pub fn admit(
        &self,
        applicant: impl AsRef<str>,
        row: impl Into<Vec<u8>>,
    ) -> Acquire<Admitted, Refused> {
        self.admit_within(applicant, row, Limits::NONE)
    }

    /// Applies, with a limit on the wait for a place that is reserved by others. Zero is one
    /// attempt. The limits must have no lease: a row is permanent.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_redis::admission::Refused;
    /// use turnwise_redis::{Limits, Remote};
    ///
    /// let raffle = Remote::in_memory().admission("raffle", 1)?;
    /// let reserved = raffle.reserve("ada").wait()?;
    /// let at_once = Limits::wait(Duration::ZERO);
    /// assert_eq!(raffle.admit_within("bob", "", at_once).wait(), Err(Refused::Busy));
    /// let waits = raffle.admit("bob", "");
    /// reserved.cancel().wait()?;
    /// assert_eq!(waits.wait()?.place, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn admit_within(
        &self,
        applicant: impl AsRef<str>,
        row: impl Into<Vec<u8>>,
        limits: impl Into<Limits>,
    ) -> Acquire<Admitted, Refused> {
        let applicant = applicant.as_ref();
        let (wanted, row) = (Wanted::new(limits.into()), row.into());
        let fits = name::check(applicant).map_err(Refused::Applicant);
        match fits.and_then(|()| row_fits(&row)) {
            Err(refused) => Acquire::over(Err(refused)),
            Ok(()) if wanted.lease.is_some() => Acquire::over(Err(Refused::HasLease)),
            Ok(()) => {
                let application = Application::take(&self.client, &self.admission, applicant);
                let (home, handles) = (&self.client.home, &self.client.handles);
                Acquire::there(home, handles, |_, _| (), async move {
                    ask(&application, Want::Row(row), wanted).await
                })
            }
        }
    }

    /// Admits an applicant whose row has nothing but its name, with a limit on the wait, as the
    /// in-process [`Admission::apply`](turnwise_locks::admission::Admission::apply) does:
    /// [`admit_within`](Self::admit_within) with an empty row.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_redis::admission::Refused;
    /// use turnwise_redis::{Limits, Remote};
    ///
    /// let raffle = Remote::in_memory().admission("raffle", 1)?;
    /// assert_eq!(raffle.apply("ada", Limits::wait(Duration::from_secs(5))).wait()?.place, 1);
    /// let late = raffle.apply("bob", Limits::wait(Duration::from_secs(5))).wait();
    /// assert_eq!(late.unwrap_err(), Refused::Closed { limit: 1 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply(
        &self,
        applicant: impl AsRef<str>,
        limits: impl Into<Limits>,
    ) -> Acquire<Admitted, Refused> {
        self.admit_within(applicant, "", limits)
    }

    /// Reserves a place, and waits for one as [`admit`](Self::admit) does. The client keeps it as
    /// long as the [`Reservation`] lives.
    pub fn reserve(&self, applicant: impl AsRef<str>) -> Acquire<Reservation, Refused> {
        self.reserve_within(applicant, Limits::NONE)
    }

    /// Reserves a place with limits on the wait and on the reservation. A reservation with a lease
    /// of its own ends with that lease.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_redis::{Limits, Remote};
    ///
    /// let raffle = Remote::in_memory().admission("raffle", 100)?;
    /// let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(6));
    /// let reservation = raffle.reserve_within("ada", limits).wait()?;
    /// println!("INSERT .. VALUES ('ada', {}, {})", reservation.place(), reservation.fence());
    /// let admitted = reservation.confirm("in the database").wait()?;
    /// assert_eq!(admitted.place, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve_within(
        &self,
        applicant: impl AsRef<str>,
        limits: impl Into<Limits>,
    ) -> Acquire<Reservation, Refused> {
        let applicant = applicant.as_ref();
        let wanted = Wanted::new(limits.into());
        match name::check(applicant) {
            Err(error) => Acquire::over(Err(Refused::Applicant(error))),
            Ok(()) if wanted.is_too_short() => Acquire::over(Err(Refused::LeaseTooShort)),
            Ok(()) => {
                let application = Application::take(&self.client, &self.admission, applicant);
                let handed = |reservation: &mut Reservation, handles: &Handles| {
                    reservation.handles = Some(handles.clone());
                };
                let (home, handles) = (&self.client.home, &self.client.handles);
                Acquire::there(home, handles, handed, async move {
                    let lease = wanted.lease;
                    let Admitted { place, fence } =
                        ask(&application, Want::Place(lease), wanted).await?;
                    Ok(Reservation { application, place, fence, handles: None })
                })
            }
        }
    }

    /// Closes the admission for good. No applicant is admitted after it, and no request waits, but
    /// reserved places can still be confirmed. Closing again has no effect.
    pub fn close(&self) -> Call<(), Refused> {
        let op = self.admission.op(AdmissionAct::Close);
        self.client.step(Ok(op), |answer| agreed(answer).map(drop))
    }

    /// Returns a snapshot of the admission, which may be stale by the time it is read.
    pub fn status(&self) -> Call<Status, Refused> {
        let limit = self.admission.limit;
        self.client.step(Ok(self.admission.op(AdmissionAct::Look)), move |answer| {
            let AdmissionAnswer::Seen(seen) = agreed(answer)? else { return Err(Refused::Ended) };
            let AdmissionSeen { closed, admitted, reserved, waiting, .. } = seen;
            let waiting = usize::try_from(waiting).unwrap_or(usize::MAX);
            let ratio = admitted as f64 / limit as f64;
            Ok(Status { limit, count: admitted, ratio, reserved, waiting, closed })
        })
    }

    /// Returns up to `most` rows in the order in which they were written, without the first `from`;
    /// at most 1,000. The position of a row does not change, so pages miss none.
    ///
    /// # Examples
    /// ```
    /// use turnwise_redis::Remote;
    ///
    /// let raffle = Remote::in_memory().admission("raffle", 100)?;
    /// for applicant in ["ada", "bob", "cyd"] {
    ///     raffle.admit(applicant, "").wait()?;
    /// }
    /// let (mut all, mut from) = (Vec::new(), 0);
    /// loop {
    ///     let page = raffle.rows(from, 2).wait()?;
    ///     if page.is_empty() {
    ///         break;
    ///     }
    ///     from += page.len() as u64;
    ///     all.extend(page.into_iter().map(|row| row.applicant));
    /// }
    /// assert_eq!(all, ["ada", "bob", "cyd"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rows(&self, from: u64, most: u32) -> Call<Vec<Row>, Refused> {
        let act = AdmissionAct::Rows { from: from.min(MOST_PLACES), most: most.min(PAGE) };
        self.client.step(Ok(self.admission.op(act)), |answer| {
            let AdmissionAnswer::Rows(rows) = agreed(answer)? else { return Err(Refused::Ended) };
            let row = |row: AdmissionRow| Row {
                applicant: row.applicant,
                place: row.place,
                fence: Fence::from_number(row.fence),
                row: row.row,
            };
            Ok(rows.into_iter().map(row).collect())
        })
    }
}

/// Returns the answer of an admission that has this client's limit.
fn agreed(answer: Answer) -> Result<AdmissionAnswer, Refused> {
    match of_admission(answer)? {
        AdmissionAnswer::Differs { limit } => Err(Refused::OtherLimit { limit }),
        answer => Ok(answer),
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Admission");
        shown
            .field("name", &self.name)
            .field("limit", &self.admission.limit)
            .finish_non_exhaustive()
    }
}

fn row_fits(row: &[u8]) -> Result<(), Refused> {
    match row.len() {
        bytes if bytes > LONGEST_ROW => Err(Refused::RowTooLong { bytes }),
        _ => Ok(()),
    }
}

/// The purpose of a request.
enum Want {
    Row(Vec<u8>),
    /// A place, with a lease; without one, as long as the client keeps it.
    Place(Option<Duration>),
}

fn entered(place: u64, fence: u64) -> Admitted {
    Admitted { place, fence: Fence::from_number(fence) }
}

/// Sends the request until it is decided.
async fn ask(
    application: &Arc<Application>,
    want: Want,
    wanted: Wanted,
) -> Result<Admitted, Refused> {
    let client = &application.client;
    let alive = (!wanted.immediate).then(|| client.place());
    loop {
        let claim = application.claim.clone();
        let act = match &want {
            Want::Row(row) => AdmissionAct::Admit { claim, row: row.clone(), alive },
            Want::Place(lease) => {
                let lease = lease.unwrap_or(client.lease());
                AdmissionAct::Reserve { claim, lease, alive }
            }
        };
        let seen = application.news.seen();
        let (sent, patience) = (Moment::now(), client.patience());
        let until = wanted.until.map_or(patience, |until| until.min(patience));
        let answer = application.send(act, until).await?;
        match answer {
            AdmissionAnswer::Admitted { place, fence } => {
                application.is_over();
                return Ok(entered(place, fence));
            }
            AdmissionAnswer::Reserved { place, fence } => {
                let kept = matches!(want, Want::Place(None));
                let lease = wanted.lease.unwrap_or(client.lease());
                application.holds(sent.and(lease), fence, kept);
                return Ok(entered(place, fence));
            }
            AdmissionAnswer::Queued { busy, .. } => application.waits(busy),
            AdmissionAnswer::Busy { .. } => return give_up(application, Refused::Busy).await,
            AdmissionAnswer::Pending { place } => {
                return give_up(application, Refused::Pending { place }).await;
            }
            // The answer is final, whatever copies may be on their way.
            answer => {
                application.is_over();
                return Err(match answer {
                    AdmissionAnswer::Closed { limit } => Refused::Closed { limit },
                    AdmissionAnswer::Duplicate { place } => Refused::Duplicate { place },
                    AdmissionAnswer::Differs { limit } => Refused::OtherLimit { limit },
                    _ => Refused::Ended,
                });
            }
        }
        let changed = application.news.since(seen);
        match wanted.until {
            None => changed.await,
            Some(until) => {
                if timeout_at(until, changed).await.is_err() {
                    let waited = wanted.called.elapsed();
                    return give_up(application, Refused::TimedOut { waited }).await;
                }
            }
        }
    }
}

/// Returns the refusal. If copies of the request may be on their way, makes the store refuse them
/// first, unless one of them has been admitted.
async fn give_up(application: &Application, refused: Refused) -> Result<Admitted, Refused> {
    application.waits_no_more();
    if let (act, true) = application.cancel() {
        let until = after(application.client.place());
        if let AdmissionAnswer::Admitted { place, fence } = application.send(act, until).await? {
            application.is_over();
            return Ok(entered(place, fence));
        }
        application.is_over();
    }
    Err(refused)
}

/// A reserved place, until it is [confirmed](Self::confirm). Dropping it releases the place, and
/// does not wait; it may be dropped on any thread.
#[must_use = "dropping it gives the place back"]
pub struct Reservation {
    application: Arc<Application>,
    place: u64,
    fence: Fence,
    /// Dropped after the application. `None` until it is handed out.
    handles: Option<Handles>,
}

impl Reservation {
    /// The applicant that has reserved it.
    pub fn applicant(&self) -> &str {
        &self.application.claim.applicant
    }

    /// The place, from 1 on. If it is released, another applicant gets it.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// The number of the reservation: greater than those of all entries and reservations before,
    /// and unique.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The time that the place stays reserved at least, by this machine's clock, if it is not kept
    /// longer.
    pub fn remaining(&self) -> Duration {
        self.application.remaining()
    }

    /// True if the reservation is over. Another applicant may have the place then. The answer may
    /// be stale by the time it is read: only the [confirmation](Self::confirm) counts. Takes a
    /// short lock, and does not wait otherwise.
    pub fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Writes the row: the applicant is admitted for good. The reservation is kept until the answer
    /// comes, whether the reply is awaited or not.
    ///
    /// Fails with [`Refused::Lost`] if the reservation was over before; the applicant is not
    /// admitted then.
    pub fn confirm(self, row: impl Into<Vec<u8>>) -> Call<Admitted, Refused> {
        let row = row.into();
        let fits = row_fits(&row);
        let Reservation { application, fence, handles: _handles, .. } = self;
        application.client.clone().make(async move {
            fits?;
            let claim = application.claim.clone();
            let act = AdmissionAct::Confirm { claim, fence: fence.number(), row };
            let answer = application.send(act, application.client.patience()).await;
            match answer? {
                AdmissionAnswer::Admitted { place, fence } => {
                    application.is_over();
                    Ok(entered(place, fence))
                }
                _ => Err(Refused::Lost(fence)),
            }
        })
    }

    /// Releases the place. The reply comes when that is done.
    pub fn cancel(self) -> Call<(), Refused> {
        let Reservation { application, handles: _handles, .. } = self;
        application.client.clone().make(async move {
            application.waits_no_more();
            let answer =
                application.send(application.cancel().0, application.client.patience()).await;
            if answer.is_ok() {
                application.is_over();
            }
            answer.map(|_| ()).map_err(Into::into)
        })
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Reservation");
        shown.field("applicant", &self.applicant()).field("place", &self.place);
        shown.field("fence", &self.fence).field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}
