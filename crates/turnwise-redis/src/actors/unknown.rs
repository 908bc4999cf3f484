//! Messages that this process does not know, and for how long each has been the next one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The first time for which such a mailbox is not drained, and the longest.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

/// The time by which workers that have met such a mailbox look later than others.
const LATER: Duration = Duration::from_millis(50);

/// The time after which a mailbox that was not seen again is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Mailboxes whose next messages are not known here.
#[derive(Debug, Default)]
pub(super) struct Unknown(Mutex<Mailboxes>);

#[derive(Debug, Default)]
struct Mailboxes {
    by_actor: HashMap<String, Seen>,
    /// The number of them at which those that were forgotten are removed.
    sweep_at: usize,
}

#[derive(Debug)]
struct Seen {
    id: String,
    since: Instant,
    last: Instant,
    pause: Duration,
}

impl Unknown {
    /// Returns the time for which a mailbox is not drained whose next message is this one. `None`:
    /// it has been the next one for this limit.
    ///
    /// The time is short at first and then doubles. So the mailbox soon goes around among the
    /// processes, and meets one that knows the message, if there is one.
    pub(super) fn pause(&self, actor: &str, id: &str, limit: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Mailboxes { by_actor, sweep_at } = &mut *all;
        let is_kept = |seen: &Seen| now.duration_since(seen.last) < FORGOTTEN;
        let seen = match by_actor.get_mut(actor) {
            Some(seen) if seen.id == id && is_kept(seen) => seen,
            _ => {
                if by_actor.len() >= *sweep_at {
                    by_actor.retain(|_, seen| is_kept(seen));
                    *sweep_at = by_actor.len() * 2;
                }
                let new = Seen { id: id.to_owned(), since: now, last: now, pause: FIRST / 2 };
                by_actor.entry(actor.to_owned()).insert_entry(new).into_mut()
            }
        };
        if now.duration_since(seen.since) >= limit {
            by_actor.remove(actor);
            return None;
        }
        seen.last = now;
        seen.pause = (seen.pause * 2).min(LONGEST);
        Some(seen.pause)
    }

    /// Returns by how much workers look later for mailboxes that become due: others are to find
    /// those first that were put off here.
    pub(super) fn later(&self) -> Duration {
        let now = Instant::now();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = all.by_actor.values().any(|seen| now.duration_since(seen.last) < LONGEST * 10);
        if lately { LATER } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_the_limit() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (unknown, limit) = (Unknown::default(), Duration::from_secs(10));
            let began = Instant::now();
            let mut pauses = Vec::new();
            while let Some(pause) = unknown.pause("eu", "charge", limit) {
                pauses.push(pause.as_millis());
                tokio::time::advance(pause).await;
            }
            assert_eq!(pauses[..8], [10, 20, 40, 80, 160, 320, 640, 1000]);
            assert!(began.elapsed() >= limit);
            assert_eq!(unknown.later(), Duration::ZERO);
            // Another message, another actor, or one that was forgotten begin anew.
            assert_eq!(unknown.pause("eu", "next", limit), Some(FIRST));
            assert_eq!(unknown.pause("eu", "next", limit), Some(FIRST * 2));
            assert_eq!(unknown.pause("us", "next", limit), Some(FIRST));
            assert_eq!(unknown.later(), LATER);
            tokio::time::advance(FORGOTTEN).await;
            assert_eq!(unknown.later(), Duration::ZERO);
            assert_eq!(unknown.pause("eu", "next", limit), Some(FIRST));
            assert_eq!(unknown.0.lock().unwrap().by_actor.len(), 1);
            assert_eq!(unknown.pause("eu", "none", Duration::ZERO), None);
        });
    }
}
