//! An object of a store, and its steps: what the scripts do over there, as a machine of its own.
//!
//! ```text
//!              Acquire (free)                      lease over, Leave, Force
//!   nobody ──────────────────────────▶ held ───────────────────────────────▶ nobody
//!     ▲                                 ▲  │ Renew, Acquire by the holder: the lease begins anew
//!     │ its place is not kept           │  │
//!     └────────────── the head ─────────┘  └─▶ Acquire by others: a place in the queue
//! ```
//!
//! Each step *settles* first: a lease that is over has ended, and a lock that nobody holds goes to
//! the first in the queue whose place is still kept, for as long as that is kept. The grant is
//! picked up by the next `Acquire` of that request.
//!
//! - L1: at most one request holds.
//! - L2: nobody holds only if the queue is empty: a lock is never free beside somebody who waits.
//! - L3: fences increase strictly. A new one is the moment, in microseconds, or one more than the
//!   last: so a store that has lost its records goes on above them.
//! - L4: a request that was left for good is never granted again, however late its messages come.
//! - L5: a tick's number is written down before its run begins, and never goes back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::step::{Answer, Notice, Place, Step, Token};

/// A request that was left is remembered for so long.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(600);

/// Times are microseconds on the store's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Record {
    /// Who holds, and until when.
    holder: Option<(Token, u64)>,
    /// The last hold's number.
    fence: u64,
    /// Who let go last.
    released: Option<Token>,
    /// Who waits, and until when the place is kept.
    queue: VecDeque<(Token, u64)>,
    /// Who has left although requests may come, and until when that is known.
    gone: BTreeMap<Token, u64>,
    /// The last tick that was taken, and one more: 0 is none.
    ticks: u64,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Record {
    /// Does a step, now.
    pub(crate) fn step(&mut self, now: u64, step: &Step, notices: &mut Vec<Notice>) -> Answer {
        self.gone.retain(|_, until| *until > now);
        self.settle(now, notices);
        match step {
            Step::Acquire { token, lease, alive } => self.acquire(now, token, *lease, *alive),
            Step::Refresh { tokens, alive } => self.refresh(now, tokens, *alive),
            Step::Renew { token, lease } => match &mut self.holder {
                Some((holder, until)) if holder == token => {
                    *until = now.saturating_add(micros(*lease));
                    Answer::Held
                }
                _ => Answer::Lost,
            },
            Step::Leave { token, late } => self.leave(now, token, *late, notices),
            Step::Force => {
                let holder = self.holder.take();
                let forced = holder.is_some();
                notices.extend(holder.map(|(token, _)| Notice::Lost(token)));
                self.settle(now, notices);
                Answer::Forced(forced)
            }
            Step::Look => Answer::Seen {
                holder: self.holder.as_ref().map(|(token, _)| (token.clone(), self.busy(now))),
                fence: self.fence,
                waiting: self.queue.len() as u64,
            },
            Step::Attend { token, every, offset, lease, overlap } => {
                self.attend(now, token, [*every, *offset, *lease].map(micros), *overlap)
            }
        }
    }

    fn settle(&mut self, now: u64, notices: &mut Vec<Notice>) {
        if self.holder.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.holder = None;
        }
        while self.holder.is_none() {
            let Some((token, alive)) = self.queue.pop_front() else { return };
            if alive > now {
                notices.push(Notice::Granted(token.clone()));
                self.grant(now, token, alive);
            }
        }
    }

    fn grant(&mut self, now: u64, token: Token, until: u64) {
        self.fence = now.max(self.fence + 1);
        self.holder = Some((token, until));
    }

    /// So long the holder's lease lasts.
    fn busy(&self, now: u64) -> Duration {
        let until = self.holder.as_ref().map_or(now, |(_, until)| *until);
        Duration::from_micros(until - now)
    }

    fn acquire(
        &mut self,
        now: u64,
        token: &Token,
        lease: Duration,
        alive: Option<Duration>,
    ) -> Answer {
        if self.gone.contains_key(token) {
            return Answer::Gone;
        }
        let until = now.saturating_add(micros(lease));
        match &mut self.holder {
            None => self.grant(now, token.clone(), until),
            Some((holder, at)) if holder == token => *at = until,
            Some(_) => {
                let busy = self.busy(now);
                let Some(alive) = alive else { return Answer::Busy { busy } };
                let alive = now.saturating_add(micros(alive));
                let ahead = match self.queue.iter().position(|place| place.0 == *token) {
                    Some(index) => {
                        self.queue[index].1 = alive;
                        index
                    }
                    None => {
                        self.queue.push_back((token.clone(), alive));
                        self.queue.len() - 1
                    }
                };
                return Answer::Queued { ahead: ahead as u64, busy };
            }
        }
        Answer::Granted { fence: self.fence }
    }

    fn refresh(&mut self, now: u64, tokens: &[Token], alive: Duration) -> Answer {
        let alive = now.saturating_add(micros(alive));
        let mut places = Vec::with_capacity(tokens.len());
        for token in tokens {
            places.push(if self.holder.as_ref().is_some_and(|holder| holder.0 == *token) {
                Place::Holds
            } else if let Some(place) = self.queue.iter_mut().find(|place| place.0 == *token) {
                place.1 = alive;
                Place::Queued
            } else {
                Place::Nowhere
            });
        }
        Answer::Places { places, busy: self.busy(now) }
    }

    fn leave(
        &mut self,
        now: u64,
        token: &Token,
        late: bool,
        notices: &mut Vec<Notice>,
    ) -> Answer {
        if late {
            self.gone.insert(token.clone(), now.saturating_add(micros(REMEMBERED)));
        }
        if self.holder.as_ref().is_some_and(|holder| holder.0 == *token) {
            self.holder = None;
            self.released = Some(token.clone());
            self.settle(now, notices);
            return Answer::Released;
        }
        self.queue.retain(|place| place.0 != *token);
        if self.released.as_ref() == Some(token) { Answer::Released } else { Answer::NotHeld }
    }

    fn attend(
        &mut self,
        now: u64,
        token: &Token,
        [every, offset, lease]: [u64; 3],
        overlap: bool,
    ) -> Answer {
        if self.gone.contains_key(token) {
            return Answer::Gone;
        }
        let (since, every) = (now.saturating_sub(offset), every.max(1));
        let (tick, next) = (since / every, Duration::from_micros(every - since % every));
        match &self.holder {
            Some((holder, _)) if holder == token => {
                return Answer::Mine { tick: self.ticks.saturating_sub(1), fence: self.fence };
            }
            _ if self.ticks > tick => return Answer::Taken { next },
            Some(_) if !overlap => return Answer::StillRunning { tick: self.ticks.saturating_sub(1), next },
            _ => {}
        }
        self.ticks = tick + 1;
        self.grant(now, token.clone(), now.saturating_add(lease));
        Answer::Mine { tick, fence: self.fence }
    }
}
