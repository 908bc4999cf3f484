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
//! - D1: rows and reservations together never exceed the limit, and each has a place of its own
//!   from 1 to the limit. A row counts in the step that writes it.
//! - D2: an applicant has one entry: a row, a reservation, or a queue entry.
//! - D3: a place is free only if the queue is empty, or the admission is closed.
//! - D4: fences increase strictly. A new fence is the greater of the time in microseconds and the
//!   last fence plus one. So a store that has lost its records goes on above them.
//! - D5: a row is permanent, and its request gets it whenever it asks again.
//! - D6: a request that was given up for good gets nothing, however late its messages arrive.
//! - D7: closed is final. A full admission is closed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::record::REMEMBERED;
use crate::step::{
    AdmissionAct, AdmissionAnswer, AdmissionRow, AdmissionSeen, AdmissionStep, Claim,
};
use crate::step::{Notice, Standing, Token};

/// The state of one admission. Times are microseconds of the store's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct AdmissionRecord {
    /// The number of places. 0: none was stated yet.
    pub(crate) limit: u64,
    closed: bool,
    /// The fence of the last entry.
    fence: u64,
    /// The highest place that was ever given.
    given: u64,
    /// Lower places that were released.
    back: BTreeSet<u64>,
    entries: BTreeMap<String, Entry>,
    /// Reservations by the ends of their leases.
    leases: BTreeSet<(u64, String)>,
    /// Waiting applicants.
    queue: VecDeque<String>,
    /// Admitted applicants, in the order in which their rows were written.
    rows: Vec<String>,
    /// Tokens that were given up although copies of their requests may arrive, and until when each
    /// is known.
    gone: BTreeMap<Token, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
struct Entry {
    token: Token,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
enum State {
    Queued { alive: u64 },
    Reserved { place: u64, fence: u64, until: u64 },
    Row { place: u64, fence: u64, row: Vec<u8> },
}

/// The purpose of a place.
enum Want<'a> {
    Row(&'a [u8]),
    Lease(Duration),
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl AdmissionRecord {
    /// Executes a step at this time.
    pub(crate) fn step(
        &mut self,
        now: u64,
        step: &AdmissionStep,
        notices: &mut Vec<Notice>,
    ) -> AdmissionAnswer {
        if self.limit != 0 && self.limit != step.limit {
            return AdmissionAnswer::Differs { limit: self.limit };
        }
        self.gone.retain(|_, until| *until > now);
        self.settle(now, notices);
        match &step.act {
            AdmissionAct::Admit { claim, row, alive } => {
                let answer = self.take(now, step.limit, claim, &Want::Row(row), *alive);
                self.settle(now, notices);
                answer
            }
            AdmissionAct::Reserve { claim, lease, alive } => {
                self.take(now, step.limit, claim, &Want::Lease(*lease), *alive)
            }
            AdmissionAct::Keep { claims, lease, alive } => self.keep(now, claims, [*lease, *alive]),
            AdmissionAct::Confirm { claim, fence, row } => {
                let answer = self.confirm(claim, *fence, row);
                self.settle(now, notices);
                answer
            }
            AdmissionAct::Cancel { claim, late } => self.cancel(now, claim, *late, notices),
            AdmissionAct::Close => {
                (self.limit, self.closed) = (step.limit, true);
                self.settle(now, notices);
                AdmissionAnswer::Closed { limit: self.limit }
            }
            AdmissionAct::Look => AdmissionAnswer::Seen(AdmissionSeen {
                limit: self.limit,
                closed: self.is_closed(),
                admitted: self.rows.len() as u64,
                reserved: self.leases.len() as u64,
                waiting: self.queue.len() as u64,
                fence: self.fence,
            }),
            AdmissionAct::Rows { from, most } => {
                let from = usize::try_from(*from).unwrap_or(usize::MAX);
                let rows = self.rows.iter().skip(from).take(*most as usize);
                AdmissionAnswer::Rows(rows.filter_map(|applicant| self.row(applicant)).collect())
            }
        }
    }

    fn row(&self, applicant: &str) -> Option<AdmissionRow> {
        let State::Row { place, fence, row } = &self.entries.get(applicant)?.state else {
            return None;
        };
        let (place, fence, row) = (*place, *fence, row.clone());
        Some(AdmissionRow { applicant: applicant.to_owned(), place, fence, row })
    }

    fn is_closed(&self) -> bool {
        self.closed || self.limit != 0 && self.rows.len() as u64 >= self.limit
    }

    fn settle(&mut self, now: u64, notices: &mut Vec<Notice>) {
        while self.leases.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, applicant)) = self.leases.pop_first() else { return };
            self.gives_back(&applicant);
        }
        let closed = self.is_closed();
        while closed || self.has_place() {
            let Some(applicant) = self.queue.pop_front() else { return };
            let Some(Entry { token, state }) = self.entries.remove(&applicant) else { continue };
            let State::Queued { alive } = state else { continue };
            if closed {
                notices.push(Notice::Granted(token));
            } else if alive > now {
                notices.push(Notice::Granted(token.clone()));
                self.reserve(now, token, applicant, alive);
            }
        }
    }

    fn has_place(&self) -> bool {
        !self.back.is_empty() || self.given < self.limit
    }

    /// Takes a free place, and returns it with its fence.
    fn place(&mut self, now: u64) -> (u64, u64) {
        self.fence = now.max(self.fence + 1);
        let place = self.back.pop_first().unwrap_or_else(|| {
            self.given += 1;
            self.given
        });
        (place, self.fence)
    }

    fn reserve(
        &mut self,
        now: u64,
        token: Token,
        applicant: String,
        until: u64,
    ) -> AdmissionAnswer {
        let (place, fence) = self.place(now);
        self.leases.insert((until, applicant.clone()));
        let state = State::Reserved { place, fence, until };
        self.entries.insert(applicant, Entry { token, state });
        AdmissionAnswer::Reserved { place, fence }
    }

    /// Ends a reservation whose lease is no longer listed.
    fn gives_back(&mut self, applicant: &str) {
        if let Some(Entry { state: State::Reserved { place, .. }, .. }) =
            self.entries.remove(applicant)
        {
            self.back.insert(place);
        }
    }

    /// Returns the time until the first lease ends.
    fn busy(&self, now: u64) -> Duration {
        let first = self.leases.first().map(|(until, _)| *until);
        Duration::from_micros(first.unwrap_or(now) - now)
    }

    fn take(
        &mut self,
        now: u64,
        limit: u64,
        claim: &Claim,
        want: &Want<'_>,
        alive: Option<Duration>,
    ) -> AdmissionAnswer {
        let Claim { token, applicant } = claim;
        if self.gone.contains_key(token) {
            return AdmissionAnswer::Gone;
        }
        self.limit = limit;
        let until = alive.map(|alive| now.saturating_add(micros(alive)));
        if let Some(entry) = self.entries.get_mut(applicant) {
            let mine = entry.token == *token;
            match &mut entry.state {
                &mut State::Row { place, fence, .. } if mine => {
                    return AdmissionAnswer::Admitted { place, fence };
                }
                &mut State::Row { place, .. } => return AdmissionAnswer::Duplicate { place },
                &mut State::Reserved { place, .. } if !mine => {
                    return AdmissionAnswer::Pending { place: Some(place) };
                }
                &mut State::Reserved { place, fence, until: kept } => match want {
                    Want::Row(row) => return self.write(claim, place, fence, row),
                    Want::Lease(lease) => {
                        self.leases.remove(&(kept, applicant.clone()));
                        self.prolong(applicant, now.saturating_add(micros(*lease)));
                        return AdmissionAnswer::Reserved { place, fence };
                    }
                },
                State::Queued { alive } if mine => {
                    *alive = until.unwrap_or(*alive);
                }
                State::Queued { alive } if *alive > now => {
                    return AdmissionAnswer::Pending { place: None };
                }
                State::Queued { .. } => {
                    // The request of that queue entry is gone.
                    self.entries.remove(applicant);
                    self.queue.retain(|other| other != applicant);
                }
            }
        }
        if self.is_closed() {
            return AdmissionAnswer::Closed { limit };
        }
        if self.has_place() {
            return match want {
                Want::Row(row) => {
                    let (place, fence) = self.place(now);
                    self.write(claim, place, fence, row)
                }
                Want::Lease(lease) => {
                    let until = now.saturating_add(micros(*lease));
                    self.reserve(now, token.clone(), applicant.clone(), until)
                }
            };
        }
        let busy = self.busy(now);
        let Some(alive) = until else { return AdmissionAnswer::Busy { busy } };
        let ahead = self.queue.iter().position(|other| other == applicant).unwrap_or_else(|| {
            self.queue.push_back(applicant.clone());
            let state = State::Queued { alive };
            self.entries.insert(applicant.clone(), Entry { token: token.clone(), state });
            self.queue.len() - 1
        });
        AdmissionAnswer::Queued { ahead: ahead as u64, busy }
    }

    /// Extends a reservation to this time.
    fn prolong(&mut self, applicant: &str, to: u64) {
        if let Some(Entry { state: State::Reserved { until, .. }, .. }) =
            self.entries.get_mut(applicant)
        {
            *until = to;
            self.leases.insert((to, applicant.to_owned()));
        }
    }

    fn write(&mut self, claim: &Claim, place: u64, fence: u64, row: &[u8]) -> AdmissionAnswer {
        let Claim { token, applicant } = claim.clone();
        let state = State::Row { place, fence, row: row.to_vec() };
        let before = self.entries.insert(applicant.clone(), Entry { token, state });
        if let Some(Entry { state: State::Reserved { until, .. }, .. }) = before {
            self.leases.remove(&(until, applicant.clone()));
        }
        self.rows.push(applicant);
        AdmissionAnswer::Admitted { place, fence }
    }

    fn keep(
        &mut self,
        now: u64,
        claims: &[(Claim, u64)],
        [lease, alive]: [Duration; 2],
    ) -> AdmissionAnswer {
        let [lease, until] = [lease, alive].map(|time| now.saturating_add(micros(time)));
        let mut standings = Vec::with_capacity(claims.len());
        for (Claim { token, applicant }, wanted) in claims {
            let entry = self.entries.get_mut(applicant).filter(|entry| entry.token == *token);
            // A late copy of the request may have made another reservation.
            let is_it = |fence| *wanted == 0 || *wanted == fence;
            standings.push(match entry.map(|entry| &mut entry.state) {
                Some(State::Queued { alive }) => {
                    *alive = until;
                    Standing::Queued
                }
                Some(&mut State::Reserved { fence, until: kept, .. }) if is_it(fence) => {
                    self.leases.remove(&(kept, applicant.clone()));
                    self.prolong(applicant, lease);
                    Standing::Holds
                }
                Some(&mut State::Row { fence, .. }) if is_it(fence) => Standing::Holds,
                _ => Standing::Nowhere,
            });
        }
        AdmissionAnswer::Standings { standings, busy: self.busy(now) }
    }

    fn confirm(&mut self, claim: &Claim, confirmed: u64, row: &[u8]) -> AdmissionAnswer {
        let entry = self.entries.get(&claim.applicant).filter(|entry| entry.token == claim.token);
        match entry.map(|entry| &entry.state) {
            Some(&State::Row { place, fence, .. }) if fence == confirmed => {
                AdmissionAnswer::Admitted { place, fence }
            }
            Some(&State::Reserved { place, fence, .. }) if fence == confirmed => {
                self.write(claim, place, fence, row)
            }
            _ => AdmissionAnswer::Lost,
        }
    }

    fn cancel(
        &mut self,
        now: u64,
        claim: &Claim,
        late: bool,
        notices: &mut Vec<Notice>,
    ) -> AdmissionAnswer {
        let Claim { token, applicant } = claim;
        if late {
            self.gone.insert(token.clone(), now.saturating_add(micros(REMEMBERED)));
        }
        let entry = self.entries.get(applicant).filter(|entry| entry.token == *token);
        match entry.map(|entry| &entry.state) {
            Some(&State::Row { place, fence, .. }) => {
                return AdmissionAnswer::Admitted { place, fence };
            }
            Some(&State::Reserved { until, .. }) => {
                self.leases.remove(&(until, applicant.clone()));
                self.gives_back(applicant);
                self.settle(now, notices);
            }
            Some(State::Queued { .. }) => {
                self.entries.remove(applicant);
                self.queue.retain(|other| other != applicant);
            }
            None => {}
        }
        AdmissionAnswer::Cancelled
    }
}
