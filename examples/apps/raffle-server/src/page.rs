//! The events of the page, four times a second if the state changes.
//!
//! One task reads the state of the raffle and publishes one event; all pages get that same text. So
//! the number of pages does not change the load on the raffle.
//!
//! - P1: when the task ends, the streams of the pages end: so they do not delay the end of the
//!   server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::watch;
use tokio::time::interval;

use crate::http::App;
use crate::ledger::Who;

/// The page. It loads nothing else.
pub(crate) const HTML: &str = include_str!("page.html");

/// The number of entrants that are shown.
const SHOWN: usize = 24;
const EACH: Duration = Duration::from_millis(250);

/// The last entrants, by their places.
#[derive(Default)]
pub(crate) struct Recent(Mutex<BTreeMap<u64, Who>>);

impl Recent {
    pub(crate) fn new(entrants: Vec<(Who, u64)>) -> Self {
        let recent = Recent::default();
        let skipped = entrants.len().saturating_sub(SHOWN);
        entrants.into_iter().skip(skipped).for_each(|(who, place)| recent.add(place, who));
        recent
    }

    /// Adds an entrant, in any order: the first answer need not be for the first place.
    pub(crate) fn add(&self, place: u64, who: Who) {
        let mut recent = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        recent.insert(place, who);
        if recent.len() > SHOWN {
            recent.pop_first();
        }
    }

    fn last_first(&self) -> Vec<serde_json::Value> {
        let recent = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        recent.iter().rev().map(|(place, who)| json!({"place": place, "who": &**who})).collect()
    }
}

/// Returns the state as JSON; with the rate, it is an event of the page.
pub(crate) fn status(app: &App) -> serde_json::Value {
    let standing = app.raffle.standing();
    json!({
        "mode": app.mode,
        "seats": standing.seats,
        "admitted": standing.count,
        "left": standing.seats.saturating_sub(standing.count),
        "closed": standing.closed,
        "waiting": standing.waiting,
    })
}

/// Publishes events until it is dropped.
pub(crate) async fn publish(app: Arc<App>, live: watch::Sender<Arc<str>>) {
    let mut ticks = interval(EACH);
    // The rate is that of the last second.
    let mut seen = VecDeque::new();
    loop {
        ticks.tick().await;
        let (now, requests) = (Instant::now(), app.metrics.requests());
        seen.push_back((now, requests));
        if seen.len() > 5 {
            seen.pop_front();
        }
        let (since, before) = seen[0];
        let seconds = now.duration_since(since).as_secs_f64();
        let rate = if seconds > 0.0 { (requests - before) as f64 / seconds } else { 0.0 };
        let mut event = status(&app);
        event["requests_per_second"] = json!(rate.round());
        event["commits"] = json!(app.metrics.commits());
        event["recent"] = app.recent.last_first().into();
        let event: Arc<str> = event.to_string().into();
        // Without a change, nothing is sent.
        live.send_if_modified(|last| {
            let changed = *last != event;
            *last = event;
            changed
        });
    }
}
