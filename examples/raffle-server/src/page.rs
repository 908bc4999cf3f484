//! What the page shows, four times a second if it changes.
//!
//! One task looks at the raffle and publishes one event; all pages get that same text. So a page
//! costs no look, and the raffle is asked no more often however many look on.
//!
//! - P1: when the task ends, the streams of the pages do: nothing holds up the end of the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::watch;
use tokio::time::interval;

use crate::http::App;
use crate::ledger::Who;

/// The page itself. It loads nothing else.
pub(crate) const HTML: &str = include_str!("page.html");

/// How many of those who are in are shown.
const SHOWN: usize = 24;
const EACH: Duration = Duration::from_millis(250);

/// The last who came in, by their places.
#[derive(Default)]
pub(crate) struct Recent(Mutex<BTreeMap<u64, Who>>);

impl Recent {
    pub(crate) fn new(entrants: Vec<(Who, u64)>) -> Self {
        let recent = Recent::default();
        let skipped = entrants.len().saturating_sub(SHOWN);
        entrants.into_iter().skip(skipped).for_each(|(who, place)| recent.add(place, who));
        recent
    }

    /// In any order: who is told first need not be first.
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

/// How it stands, as JSON; with the rate, it is an event of the page's.
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

/// Publishes until it is dropped.
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
        // A raffle at rest sends nothing.
        live.send_if_modified(|last| {
            let changed = *last != event;
            *last = event;
            changed
        });
    }
}
