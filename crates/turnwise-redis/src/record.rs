//! The state machine of locks, slots and ticks, which the scripts implement in a server.
//!
//! ```text
//!              Acquire (a place is free)           lease over, Leave, Force
//!   free ────────────────────────────▶ held ───────────────────────────────▶ free
//!     ▲                                 ▲  │ Renew, Acquire by the holder: the lease begins anew
//!     │ its queue entry is not kept     │  │
//!     └────────────── the head ─────────┘  └─▶ Acquire by others: a queue entry
//! ```
//!
//! An object has places, each held by one request at most: a lock has one. Each step *settles*
//! first: expired leases end, and a free place is granted to the first queue entry that is still
//! alive, until that entry's time of expiry. The next `Acquire` of that request picks the grant up.
//! A lease that is over when its holder leaves, and was not settled before, ends by that `Leave`.
//!
//! - RECORD-1: at most one request holds a place, and a request holds one place at most.
//! - RECORD-2: a place is free only if the queue is empty.
//! - RECORD-3: fences increase strictly while the record is known. A new fence is the greater of
//!   the time in microseconds and the last fence plus one. So a store that has lost its records
//!   goes on above them, unless its clock has gone back by more than the time since. A record is
//!   known for ten minutes after its last use, or longer if its clients ask for that, and for as
//!   long as a place of it is dirty or quarantined.
//! - RECORD-4: a request that was left for good is never granted again, however late its messages
//!   arrive.
//! - RECORD-5: the number of a tick is stored before its run begins, and never goes back.
//! - RECORD-6: each step states the number of places. While there are holders or waiters, that
//!   number is fixed, and steps with another one are refused.
//! - RECORD-7: a lease ends early only by `Leave` or `Force`: of several leases that one request
//!   has asked for, the one that ends last counts.
//! - RECORD-8: a place in which a job has begun is dirty until that job has ended, whatever happens
//!   to its holder, and the next job there learns of it. A quarantined place is held by a token of
//!   no request, and becomes free by `Repair` or `Force`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::step::{Answer, Notice, Standing, Step, Token};

/// The time for which a place is quarantined, or dirty: a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The time for which a request that was left is remembered.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(600);

/// The state of one object. Times are microseconds of the store's clock.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
pub(crate) struct Record {
    /// The number of places: 0 if none was stated yet.
    places: u32,
    /// Holders by place.
    holders: BTreeMap<u32, Holder>,
    /// The fence of the last hold.
    fence: u64,
    /// The fence before the last grant: no hold before that one had a greater one.
    before: u64,
    /// Places in which a job has begun and not ended: its token, and whether the place was dirty
    /// before.
    begun: BTreeMap<u32, (Token, bool)>,
    /// The token of the last release.
    released: Option<Token>,
    /// Waiting tokens, and the time at which each queue entry expires.
    queue: VecDeque<(Token, u64)>,
    /// Tokens that were left although copies of their requests may arrive, and until when each is
    /// known.
    gone: BTreeMap<Token, u64>,
    /// The number of the last tick that was taken, plus one: 0 is none.
    ticks: u64,
}

#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
struct Holder {
    token: Token,
    until: u64,
    fence: u64,
    /// True if it was granted from the queue and its request has not picked it up.
    waits: bool,
}

impl Holder {
    /// Extends the lease to this time: late copies of requests with shorter leases do not cut it.
    /// The time of a grant that was not picked up yet is replaced.
    fn lasts(&mut self, until: u64) {
        self.until = if self.waits { until } else { self.until.max(until) };
        self.waits = false;
    }
}

/// Returns a time in microseconds, as stores count it.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Record {
    /// Executes a step at this time.
    pub(crate) fn step(
        &mut self,
        now: u64,
        places: u32,
        above: u64,
        step: &Step,
        notices: &mut Vec<Notice>,
    ) -> Answer {
        self.gone.retain(|_, until| *until > now);
        let known = if self.places > 0 { self.places } else { places };
        let leaves = match step {
            Step::Leave { token, .. } => Some(token),
            _ => None,
        };
        self.settle(now, known, above, leaves, notices);
        if known != places {
            if !self.holders.is_empty() || !self.queue.is_empty() {
                return Answer::Differs { places: known };
            }
            self.places = 0;
        }
        match step {
            Step::Acquire { token, lease, alive } => {
                let answer = self.acquire(now, places, above, token, *lease, *alive);
                if matches!(answer, Answer::Granted { .. } | Answer::Queued { .. }) {
                    self.places = places;
                }
                answer
            }
            Step::Refresh { tokens, alive } => self.refresh(now, tokens, *alive),
            Step::Renew { token, lease } => match self.holding(token) {
                Some((_, holder)) => {
                    holder.lasts(now.saturating_add(micros(*lease)));
                    Answer::Held
                }
                None => Answer::Lost,
            },
            Step::Confirm { token, fence, lease } => self.confirm(now, token, *fence, *lease),
            Step::Leave { token, late } => self.leave(now, places, above, token, *late, notices),
            Step::Begin { token } => match self.holding(token).map(|(place, _)| place) {
                Some(place) => {
                    let dirty = match self.begun.get(&place) {
                        Some((by, dirty)) => by != token || *dirty,
                        None => false,
                    };
                    self.begun.insert(place, (token.clone(), dirty));
                    Answer::Begun { dirty }
                }
                None => Answer::Lost,
            },
            Step::End { token, quarantine: false, late } => {
                if let Some((place, _)) = self.holding(token) {
                    self.begun.remove(&place);
                }
                self.leave(now, places, above, token, *late, notices)
            }
            Step::End { token, quarantine: true, late } => self.quarantine(now, token, *late),
            Step::Repair { place } => {
                let quarantined = Token::quarantine(*place);
                let held = self.holders.get(place).is_some_and(|it| it.token == quarantined);
                if held {
                    self.holders.remove(place);
                    self.settle(now, places, above, None, notices);
                }
                Answer::Forced(held)
            }
            Step::Force { place } => {
                let holder = self.holders.remove(place);
                let forced = holder.is_some();
                notices.extend(holder.map(|holder| Notice::Lost(holder.token)));
                self.settle(now, places, above, None, notices);
                Answer::Forced(forced)
            }
            Step::Look => {
                let seen = |(&place, holder): (&u32, &Holder)| {
                    (place, holder.token.clone(), Duration::from_micros(holder.until - now))
                };
                let holders = self.holders.iter().map(seen).collect();
                Answer::Seen { holders, fence: self.fence, waiting: self.queue.len() as u64 }
            }
            Step::Attend { token, every, offset, lease, overlap } => {
                self.attend(now, above, token, [*every, *offset, *lease].map(micros), *overlap)
            }
            Step::Admission(_) | Step::Mailbox(_) | Step::RenewAll { .. } => {
                unreachable!("a step of another kind")
            }
        }
    }

    /// Renews the lease of a token that still holds this place.
    pub(crate) fn renew(&mut self, now: u64, place: u32, token: &Token, lease: Duration) -> bool {
        match self.holders.get_mut(&place) {
            Some(holder) if holder.token == *token && holder.until > now => {
                holder.lasts(now.saturating_add(micros(lease)));
                true
            }
            _ => false,
        }
    }

    /// Returns until when the record has to be known after this step.
    pub(crate) fn last(&self, now: u64, step: &Step) -> u64 {
        let holds = self.holders.values().map(|holder| holder.until);
        let entries = self.queue.iter().map(|entry| entry.1);
        let tick = match step {
            Step::Attend { every, .. } => now.saturating_add(micros(*every).saturating_mul(2)),
            _ => now,
        };
        let last = holds.chain(entries).fold(tick, u64::max).saturating_add(micros(REMEMBERED));
        let last = self.gone.values().copied().fold(last, u64::max);
        // A dirty place stays so until the next job there, whenever that is.
        if self.begun.is_empty() { last } else { last.max(now.saturating_add(micros(LONGEST))) }
    }

    /// True if the object has ticks. Their records are known for as long as the step that took the
    /// tick stated.
    pub(crate) fn has_ticks(&self) -> bool {
        self.ticks > 0
    }

    /// Forgets the queue.
    pub(crate) fn forget_queue(&mut self) {
        self.queue.clear();
    }

    /// Ends expired leases, except that of the token that leaves, and grants places that are free.
    fn settle(
        &mut self,
        now: u64,
        places: u32,
        above: u64,
        leaves: Option<&Token>,
        notices: &mut Vec<Notice>,
    ) {
        self.holders.retain(|_, holder| holder.until > now || Some(&holder.token) == leaves);
        while let Some(place) = self.free(places) {
            let Some((token, alive)) = self.queue.pop_front() else { return };
            if alive > now {
                notices.push(Notice::Granted(token.clone()));
                self.grant(now, above, place, token, alive, true);
            }
        }
    }

    /// Returns the first free place.
    fn free(&self, places: u32) -> Option<u32> {
        (1..=places).find(|place| !self.holders.contains_key(place))
    }

    fn holding(&mut self, token: &Token) -> Option<(u32, &mut Holder)> {
        let mut holders = self.holders.iter_mut();
        holders.find(|(_, holder)| holder.token == *token).map(|(&place, holder)| (place, holder))
    }

    fn grant(
        &mut self,
        now: u64,
        above: u64,
        place: u32,
        token: Token,
        until: u64,
        waits: bool,
    ) -> Answer {
        self.before = self.fence;
        self.fence = now.max(self.fence + 1).max(above + 1);
        self.holders.insert(place, Holder { token, until, fence: self.fence, waits });
        Answer::Granted { fence: self.fence, place }
    }

    /// Returns the time until the first lease ends.
    fn busy(&self, now: u64) -> Duration {
        let first = self.holders.values().map(|holder| holder.until).min();
        Duration::from_micros(first.unwrap_or(now) - now)
    }

    fn acquire(
        &mut self,
        now: u64,
        places: u32,
        above: u64,
        token: &Token,
        lease: Duration,
        alive: Option<Duration>,
    ) -> Answer {
        if self.gone.contains_key(token) {
            return Answer::Gone;
        }
        let until = now.saturating_add(micros(lease));
        if let Some((place, holder)) = self.holding(token) {
            holder.lasts(until);
            return Answer::Granted { fence: holder.fence, place };
        }
        if let Some(place) = self.free(places) {
            return self.grant(now, above, place, token.clone(), until, false);
        }
        let busy = self.busy(now);
        let Some(alive) = alive else { return Answer::Busy { busy } };
        let alive = now.saturating_add(micros(alive));
        let ahead = match self.queue.iter().position(|entry| entry.0 == *token) {
            Some(index) => {
                self.queue[index].1 = alive;
                index
            }
            None => {
                self.queue.push_back((token.clone(), alive));
                self.queue.len() - 1
            }
        };
        Answer::Queued { ahead: ahead as u64, busy }
    }

    fn refresh(&mut self, now: u64, tokens: &[Token], alive: Duration) -> Answer {
        let alive = now.saturating_add(micros(alive));
        let mut standings = Vec::with_capacity(tokens.len());
        for token in tokens {
            standings.push(if self.holding(token).is_some() {
                Standing::Holds
            } else if let Some(entry) = self.queue.iter_mut().find(|entry| entry.0 == *token) {
                entry.1 = alive;
                Standing::Queued
            } else {
                Standing::Nowhere
            });
        }
        Answer::Standings { standings, busy: self.busy(now) }
    }

    fn confirm(&mut self, now: u64, token: &Token, fence: u64, lease: Duration) -> Answer {
        let before = self.before;
        match self.holding(token) {
            // Otherwise a late copy of its request began another hold, after one of a later client.
            Some((_, holder)) if fence > before => {
                holder.fence = holder.fence.max(fence);
                holder.lasts(now.saturating_add(micros(lease)));
                self.fence = self.fence.max(fence);
                Answer::Held
            }
            _ => Answer::Lost,
        }
    }

    fn leave(
        &mut self,
        now: u64,
        places: u32,
        above: u64,
        token: &Token,
        late: bool,
        notices: &mut Vec<Notice>,
    ) -> Answer {
        if late {
            self.gone.insert(token.clone(), now.saturating_add(micros(REMEMBERED)));
        }
        if let Some((place, _)) = self.holding(token) {
            self.holders.remove(&place);
            self.released = Some(token.clone());
            self.settle(now, places, above, None, notices);
            return Answer::Released;
        }
        self.queue.retain(|entry| entry.0 != *token);
        if self.released.as_ref() == Some(token) { Answer::Released } else { Answer::NotHeld }
    }

    fn quarantine(&mut self, now: u64, token: &Token, late: bool) -> Answer {
        if late {
            self.gone.insert(token.clone(), now.saturating_add(micros(REMEMBERED)));
        }
        let Some((place, holder)) = self.holding(token) else {
            self.queue.retain(|entry| entry.0 != *token);
            let released = self.released.as_ref() == Some(token);
            return if released { Answer::Released } else { Answer::NotHeld };
        };
        holder.token = Token::quarantine(place);
        holder.until = now.saturating_add(micros(LONGEST));
        holder.waits = false;
        self.released = Some(token.clone());
        Answer::Released
    }

    fn attend(
        &mut self,
        now: u64,
        above: u64,
        token: &Token,
        [every, offset, lease]: [u64; 3],
        overlap: bool,
    ) -> Answer {
        if self.gone.contains_key(token) {
            return Answer::Gone;
        }
        let (since, every) = (now.saturating_sub(offset), every.max(1));
        // The tick whose beginning is nearest, so that early and late clocks mean the same tick.
        let tick = since.saturating_add(every / 2) / every;
        let next = Duration::from_micros((tick + 1).saturating_mul(every) - since);
        let last = self.ticks.saturating_sub(1);
        if let Some((_, holder)) = self.holding(token) {
            return Answer::Mine { tick: last, fence: holder.fence };
        }
        if self.ticks > tick {
            return Answer::Taken { tick, next };
        }
        if !overlap && !self.holders.is_empty() {
            return Answer::StillRunning { tick: last, next };
        }
        self.places = 1;
        self.ticks = tick + 1;
        self.grant(now, above, 1, token.clone(), now.saturating_add(lease), false);
        Answer::Mine { tick, fence: self.fence }
    }
}
