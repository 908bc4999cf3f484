//! The state machine of admissions, which the scripts `admission_*` implement in a server.
//!
//! An applicant has one entry at most, which changes as follows:
//!
//! ```text
//!            Admit (a place is free)
//!   none ───────────────────────────────────────────▶ row, for good
//!    │ ▲                                                ▲
//!    │ │ lease over, Cancel                             │ Confirm, Admit by the same request
//!    │ └───────────────────────┐                        │
//!    ├─ Reserve (one is free) ─▶ reserved ──────────────┘
//!    │                             ▲
//!    └─ all are taken ──▶ queued ──┘ a place comes back, and it is the first
//! ```
//!
//! Each step *settles* first: expired reservations end, and a place that was released is reserved
//! for the first queue entry that is still alive, until that entry's time of expiry. If no place
//! can be released any more, the waiters are dismissed.
//!
//! - APPLICANTS-1: rows and reservations together never exceed the limit, and each has a place of
//!   its own from 1 to the limit. A row counts in the step that writes it.
//! - APPLICANTS-2: an applicant has one entry: a row, a reservation, or a queue entry.
//! - APPLICANTS-3: a place is free only if the queue is empty, or the admission is closed.
//! - APPLICANTS-4: fences increase strictly. A new fence is the greater of the time in microseconds
//!   and the last fence plus one. So a store that has lost its records goes on above them.
//! - APPLICANTS-5: a row is permanent, and its request gets it whenever it asks again.
//! - APPLICANTS-6: a request that was given up for good gets nothing, however late its messages
//!   arrive.
//! - APPLICANTS-7: closed is final. A full admission is closed.
//!
//! | row | key | value |
//! |-----|-----|-------|
//! | head | `h` | the limit, counts, positions in the queue |
//! | entry | `e:APPLICANT` | a queue entry, a reservation, or an admitted row |
//! | admitted | `r:NUMBER` | applicants in the order in which their rows were written |
//! | lease | `l:TIME:APPLICANT` | a reservation, by the end of its lease |
//! | queue | `q:POSITION` | a waiting applicant |
//! | back | `b:PLACE` | a place that was released |
//! | gone | `g:TOKEN` | a request that was given up, and until when that is known |
//! | expiry | `f:TIME:TOKEN` | when a row of `gone` is forgotten |

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::{REMEMBERED, micros};
use crate::rows::{Positions, Rows};
use crate::step::{
    AdmissionAct, AdmissionAnswer, AdmissionRow, AdmissionSeen, AdmissionStep, Claim,
};
use crate::step::{Notice, Standing, Token};

/// A row of an admission. Times are microseconds of the store's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum StoredRow {
    Head(AdmissionHead),
    Entry(Entry),
    Admitted(String),
    /// The end of the lease, and the applicant.
    Lease(u64, String),
    Queue(String),
    Back(u64),
    Gone(u64),
    /// The time, and the token that is forgotten then.
    Expiry(u64, Token),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct AdmissionHead {
    /// The number of places. 0: none was stated yet.
    pub(crate) limit: u64,
    closed: bool,
    /// The fence of the last entry.
    fence: u64,
    /// The highest place that was ever given.
    given: u64,
    /// The number of lower places that were released.
    back: u64,
    /// The number of reservations, and the time at which the first one's lease ends.
    reserved: u64,
    lease: Option<u64>,
    queue: Positions,
    /// The number of admitted applicants.
    admitted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Entry {
    token: Token,
    state: PlaceState,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum PlaceState {
    Queued { alive: u64, position: u64 },
    Reserved { place: u64, fence: u64, until: u64 },
    Row { place: u64, fence: u64, row: Vec<u8> },
}

/// The purpose of a place.
enum PlaceUse<'a> {
    Row(&'a [u8]),
    Lease(Duration),
}

pub(crate) const HEAD: &str = "h";

fn entry_key(applicant: &str) -> String {
    format!("e:{applicant}")
}

fn admitted_key(number: u64) -> String {
    format!("r:{number:016x}")
}

fn lease_key(until: u64, applicant: &str) -> String {
    format!("l:{until:016x}:{applicant}")
}

fn queue_key(position: u64) -> String {
    format!("q:{position:016x}")
}

fn back_key(place: u64) -> String {
    format!("b:{place:016x}")
}

fn gone_key(token: &Token) -> String {
    format!("g:{}", token.as_str())
}

/// The keys of rows that most runs of a step read.
pub(crate) fn reads(act: &AdmissionAct) -> Vec<String> {
    let mut keys = vec![HEAD.to_owned()];
    match act {
        AdmissionAct::Admit { claim, .. } | AdmissionAct::Reserve { claim, .. } => {
            keys.extend([gone_key(&claim.token), entry_key(&claim.applicant)]);
        }
        AdmissionAct::Confirm { claim, .. } | AdmissionAct::Cancel { claim, .. } => {
            keys.push(entry_key(&claim.applicant));
        }
        AdmissionAct::Keep { claims, .. } => {
            keys.extend(claims.iter().map(|(claim, _)| entry_key(&claim.applicant)));
        }
        AdmissionAct::Close | AdmissionAct::Look | AdmissionAct::Rows { .. } => {}
    }
    keys
}

/// Executes a step at this time.
pub(crate) fn step(
    rows: &mut dyn Rows<StoredRow>,
    now: u64,
    step: &AdmissionStep,
    notices: &mut Vec<Notice>,
) -> AdmissionAnswer {
    let head = match rows.get(HEAD) {
        Some(StoredRow::Head(head)) => head,
        _ => AdmissionHead::default(),
    };
    if head.limit != 0 && head.limit != step.limit {
        return AdmissionAnswer::Differs { limit: head.limit };
    }
    let before = head.clone();
    let mut admission = AdmissionRows { rows, now, head, notices };
    admission.settle();
    let answer = admission.act(step);
    if admission.head != before {
        let head = StoredRow::Head(admission.head);
        rows.put(HEAD.to_owned(), head);
    }
    answer
}

/// An admission, during a step.
struct AdmissionRows<'a> {
    rows: &'a mut dyn Rows<StoredRow>,
    now: u64,
    head: AdmissionHead,
    notices: &'a mut Vec<Notice>,
}

impl AdmissionRows<'_> {
    fn act(&mut self, step: &AdmissionStep) -> AdmissionAnswer {
        match &step.act {
            AdmissionAct::Admit { claim, row, alive } => {
                let answer = self.take(step.limit, claim, &PlaceUse::Row(row), *alive);
                self.settle();
                answer
            }
            AdmissionAct::Reserve { claim, lease, alive } => {
                self.take(step.limit, claim, &PlaceUse::Lease(*lease), *alive)
            }
            AdmissionAct::Keep { claims, lease, alive } => self.keep(claims, [*lease, *alive]),
            AdmissionAct::Confirm { claim, fence, row } => {
                let answer = self.confirm(claim, *fence, row);
                self.settle();
                answer
            }
            AdmissionAct::Cancel { claim, late } => self.cancel(claim, *late),
            AdmissionAct::Close => {
                (self.head.limit, self.head.closed) = (step.limit, true);
                self.settle();
                AdmissionAnswer::Closed { limit: self.head.limit }
            }
            AdmissionAct::Look => AdmissionAnswer::Seen(AdmissionSeen {
                limit: self.head.limit,
                closed: self.is_closed(),
                admitted: self.head.admitted,
                reserved: self.head.reserved,
                waiting: self.head.queue.len(),
                fence: self.head.fence,
            }),
            AdmissionAct::Rows { from, most } => {
                let until = from.saturating_add((*most).into()).min(self.head.admitted);
                let rows = (*from..until).filter_map(|number| self.row(number));
                AdmissionAnswer::Rows(rows.collect())
            }
        }
    }

    fn entry(&mut self, applicant: &str) -> Option<Entry> {
        match self.rows.get(&entry_key(applicant))? {
            StoredRow::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    fn set(&mut self, applicant: &str, token: Token, state: PlaceState) {
        self.rows.put(entry_key(applicant), StoredRow::Entry(Entry { token, state }));
    }

    fn row(&mut self, number: u64) -> Option<AdmissionRow> {
        let StoredRow::Admitted(applicant) = self.rows.get(&admitted_key(number))? else {
            return None;
        };
        let PlaceState::Row { place, fence, row } = self.entry(&applicant)?.state else {
            return None;
        };
        Some(AdmissionRow { applicant, place, fence, row })
    }

    fn is_closed(&self) -> bool {
        self.head.closed || self.head.limit != 0 && self.head.admitted >= self.head.limit
    }

    fn settle(&mut self) {
        while self.head.lease.is_some_and(|until| until <= self.now) {
            let first = self.rows.first("l:", 1).pop();
            if let Some((_, StoredRow::Lease(until, applicant))) = first {
                self.ends(until, &applicant);
                self.gives_back(&applicant);
            } else {
                self.head.lease = None;
            }
        }
        let closed = self.is_closed();
        while closed || self.has_place() {
            let Some(position) = self.head.queue.pop() else { return };
            let key = queue_key(position);
            let Some(StoredRow::Queue(applicant)) = self.rows.get(&key) else { continue };
            self.rows.remove(&key);
            let Some(Entry { token, state }) = self.entry(&applicant) else { continue };
            self.rows.remove(&entry_key(&applicant));
            let PlaceState::Queued { alive, .. } = state else { continue };
            if closed {
                self.notices.push(Notice::Granted(token));
            } else if alive > self.now {
                self.notices.push(Notice::Granted(token.clone()));
                self.reserve(token, &applicant, alive);
            }
        }
    }

    fn has_place(&self) -> bool {
        self.head.back > 0 || self.head.given < self.head.limit
    }

    /// Takes a free place, and returns it with its fence.
    fn place(&mut self) -> (u64, u64) {
        self.head.fence = self.now.max(self.head.fence + 1);
        if self.head.back > 0 {
            self.head.back -= 1;
            if let Some((key, StoredRow::Back(place))) = self.rows.first("b:", 1).pop() {
                self.rows.remove(&key);
                return (place, self.head.fence);
            }
        }
        self.head.given += 1;
        (self.head.given, self.head.fence)
    }

    fn reserve(&mut self, token: Token, applicant: &str, until: u64) -> AdmissionAnswer {
        let (place, fence) = self.place();
        self.begins(until, applicant);
        self.set(applicant, token, PlaceState::Reserved { place, fence, until });
        AdmissionAnswer::Reserved { place, fence }
    }

    /// Adds a reservation to the leases.
    fn begins(&mut self, until: u64, applicant: &str) {
        self.head.reserved += 1;
        self.head.lease = Some(self.head.lease.map_or(until, |lease| lease.min(until)));
        let lease = StoredRow::Lease(until, applicant.to_owned());
        self.rows.put(lease_key(until, applicant), lease);
    }

    /// Removes a reservation from the leases.
    fn ends(&mut self, until: u64, applicant: &str) {
        self.head.reserved -= 1;
        self.rows.remove(&lease_key(until, applicant));
        self.head.lease = match self.rows.first("l:", 1).pop() {
            Some((_, StoredRow::Lease(until, _))) => Some(until),
            _ => None,
        };
    }

    /// Ends a reservation whose lease is no longer listed.
    fn gives_back(&mut self, applicant: &str) {
        if let Some(Entry { state: PlaceState::Reserved { place, .. }, .. }) = self.entry(applicant)
        {
            self.rows.remove(&entry_key(applicant));
            self.rows.put(back_key(place), StoredRow::Back(place));
            self.head.back += 1;
        }
    }

    /// Removes a queue entry.
    fn leaves(&mut self, applicant: &str, position: u64) {
        self.rows.remove(&entry_key(applicant));
        self.rows.remove(&queue_key(position));
        self.head.queue.remove(position);
    }

    /// Returns the time until the first lease ends.
    fn busy(&self) -> Duration {
        Duration::from_micros(self.head.lease.map_or(0, |until| until.saturating_sub(self.now)))
    }

    fn take(
        &mut self,
        limit: u64,
        claim: &Claim,
        want: &PlaceUse<'_>,
        alive: Option<Duration>,
    ) -> AdmissionAnswer {
        let Claim { token, applicant } = claim;
        if let Some(StoredRow::Gone(until)) = self.rows.get(&gone_key(token))
            && until > self.now
        {
            return AdmissionAnswer::Gone;
        }
        self.head.limit = limit;
        let until = alive.map(|alive| self.now.saturating_add(micros(alive)));
        if let Some(entry) = self.entry(applicant) {
            let mine = entry.token == *token;
            match entry.state {
                PlaceState::Row { place, fence, .. } if mine => {
                    return AdmissionAnswer::Admitted { place, fence };
                }
                PlaceState::Row { place, .. } => return AdmissionAnswer::Duplicate { place },
                PlaceState::Reserved { place, .. } if !mine => {
                    return AdmissionAnswer::Pending { place: Some(place) };
                }
                PlaceState::Reserved { place, fence, until: kept } => match want {
                    PlaceUse::Row(row) => return self.write(claim, place, fence, Some(kept), row),
                    PlaceUse::Lease(lease) => {
                        let to = self.now.saturating_add(micros(*lease));
                        self.prolong(claim, [place, fence, kept], to);
                        return AdmissionAnswer::Reserved { place, fence };
                    }
                },
                PlaceState::Queued { alive, position } if mine => {
                    let alive = until.unwrap_or(alive);
                    self.set(applicant, token.clone(), PlaceState::Queued { alive, position });
                }
                PlaceState::Queued { alive, .. } if alive > self.now => {
                    return AdmissionAnswer::Pending { place: None };
                }
                // The request of that queue entry is gone.
                PlaceState::Queued { position, .. } => self.leaves(applicant, position),
            }
        }
        if self.is_closed() {
            return AdmissionAnswer::Closed { limit };
        }
        if self.has_place() {
            return match want {
                PlaceUse::Row(row) => {
                    let (place, fence) = self.place();
                    self.write(claim, place, fence, None, row)
                }
                PlaceUse::Lease(lease) => {
                    let until = self.now.saturating_add(micros(*lease));
                    self.reserve(token.clone(), applicant, until)
                }
            };
        }
        let busy = self.busy();
        let Some(alive) = until else { return AdmissionAnswer::Busy { busy } };
        let position = match self.entry(applicant) {
            Some(Entry { state: PlaceState::Queued { position, .. }, .. }) => position,
            _ => {
                let position = self.head.queue.push();
                self.rows.put(queue_key(position), StoredRow::Queue(applicant.clone()));
                self.set(applicant, token.clone(), PlaceState::Queued { alive, position });
                position
            }
        };
        AdmissionAnswer::Queued { ahead: self.head.queue.ahead(position), busy }
    }

    /// Extends a reservation to this time.
    fn prolong(&mut self, claim: &Claim, [place, fence, kept]: [u64; 3], until: u64) {
        self.ends(kept, &claim.applicant);
        self.begins(until, &claim.applicant);
        let state = PlaceState::Reserved { place, fence, until };
        self.set(&claim.applicant, claim.token.clone(), state);
    }

    fn write(
        &mut self,
        claim: &Claim,
        place: u64,
        fence: u64,
        lease: Option<u64>,
        row: &[u8],
    ) -> AdmissionAnswer {
        let Claim { token, applicant } = claim;
        if let Some(until) = lease {
            self.ends(until, applicant);
        }
        self.set(applicant, token.clone(), PlaceState::Row { place, fence, row: row.to_vec() });
        let key = admitted_key(self.head.admitted);
        self.rows.put(key, StoredRow::Admitted(applicant.clone()));
        self.head.admitted += 1;
        AdmissionAnswer::Admitted { place, fence }
    }

    fn keep(&mut self, claims: &[(Claim, u64)], [lease, alive]: [Duration; 2]) -> AdmissionAnswer {
        let [lease, alive] = [lease, alive].map(|time| self.now.saturating_add(micros(time)));
        let mut standings = Vec::with_capacity(claims.len());
        for (claim, wanted) in claims {
            let entry = self.entry(&claim.applicant).filter(|entry| entry.token == claim.token);
            // A late copy of the request may have made another reservation.
            let is_it = |fence| *wanted == 0 || *wanted == fence;
            standings.push(match entry.map(|entry| entry.state) {
                Some(PlaceState::Queued { position, .. }) => {
                    let state = PlaceState::Queued { alive, position };
                    self.set(&claim.applicant, claim.token.clone(), state);
                    Standing::Queued
                }
                Some(PlaceState::Reserved { place, fence, until }) if is_it(fence) => {
                    self.prolong(claim, [place, fence, until], lease);
                    Standing::Holds
                }
                Some(PlaceState::Row { fence, .. }) if is_it(fence) => Standing::Holds,
                _ => Standing::Nowhere,
            });
        }
        AdmissionAnswer::Standings { standings, busy: self.busy() }
    }

    fn confirm(&mut self, claim: &Claim, confirmed: u64, row: &[u8]) -> AdmissionAnswer {
        let entry = self.entry(&claim.applicant).filter(|entry| entry.token == claim.token);
        match entry.map(|entry| entry.state) {
            Some(PlaceState::Row { place, fence, .. }) if fence == confirmed => {
                AdmissionAnswer::Admitted { place, fence }
            }
            Some(PlaceState::Reserved { place, fence, until }) if fence == confirmed => {
                self.write(claim, place, fence, Some(until), row)
            }
            _ => AdmissionAnswer::Lost,
        }
    }

    fn cancel(&mut self, claim: &Claim, late: bool) -> AdmissionAnswer {
        let Claim { token, applicant } = claim;
        if late {
            self.is_gone(token);
        }
        let entry = self.entry(applicant).filter(|entry| entry.token == *token);
        match entry.map(|entry| entry.state) {
            Some(PlaceState::Row { place, fence, .. }) => {
                return AdmissionAnswer::Admitted { place, fence };
            }
            Some(PlaceState::Reserved { until, .. }) => {
                self.ends(until, applicant);
                self.gives_back(applicant);
                self.settle();
            }
            Some(PlaceState::Queued { position, .. }) => self.leaves(applicant, position),
            None => {}
        }
        AdmissionAnswer::Cancelled
    }

    /// Refuses a token from now on. Two of those that are no longer on their way are forgotten.
    fn is_gone(&mut self, token: &Token) {
        let until = self.now.saturating_add(micros(REMEMBERED));
        self.rows.put(gone_key(token), StoredRow::Gone(until));
        let expiry = format!("f:{until:016x}:{}", token.as_str());
        self.rows.put(expiry, StoredRow::Expiry(until, token.clone()));
        for (expiry, row) in self.rows.first("f:", 2) {
            let StoredRow::Expiry(until, token) = row else { continue };
            if until > self.now {
                return;
            }
            self.rows.remove(&expiry);
            let key = gone_key(&token);
            if matches!(self.rows.get(&key), Some(StoredRow::Gone(until)) if until <= self.now) {
                self.rows.remove(&key);
            }
        }
    }
}
