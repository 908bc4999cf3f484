//! The counters of the server, and their text for Prometheus.
//!
//! - M1: an application is in flight from its last byte read until its handler ends, or is dropped.
//!   An outcome is counted once, before the application leaves.
//! - All counters are Relaxed: no other memory is read through them.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::modes::{Outcome, Standing};

/// Upper bounds of the histogram, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

#[derive(Default)]
pub(crate) struct Metrics {
    requests: AtomicU64,
    in_flight: AtomicU64,
    commits: AtomicU64,
    outcomes: [AtomicU64; Outcome::NAMES.len()],
    /// The number of applications above the previous bound and up to this one; the last: above all
    /// bounds.
    took: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// An application that is not answered yet (M1).
pub(crate) struct InFlight<'a> {
    metrics: &'a Metrics,
    since: Instant,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Relaxed);
    }
}

impl InFlight<'_> {
    pub(crate) fn answered(self, outcome: &Outcome) {
        let took = self.since.elapsed();
        let bound = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound);
        self.metrics.took[bound.unwrap_or(BOUNDS.len())].fetch_add(1, Relaxed);
        self.metrics.micros.fetch_add(micros(took), Relaxed);
        self.metrics.outcomes[outcome.number()].fetch_add(1, Relaxed);
    }
}

impl Metrics {
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    pub(crate) fn committed(&self) {
        self.commits.fetch_add(1, Relaxed);
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Relaxed)
    }

    #[must_use = "it is in flight as long as this is kept"]
    pub(crate) fn application(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        InFlight { metrics: self, since: Instant::now() }
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub(crate) fn answered(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.load(Relaxed)).sum()
    }

    /// Formats the metrics for Prometheus.
    pub(crate) fn text(&self, standing: Standing) -> String {
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP raffle_{name} {help}");
            let _ = writeln!(text, "# TYPE raffle_{name} {kind}\nraffle_{name} {value}");
        };
        one("seats", "gauge", "Places there are.", standing.seats);
        one("admitted", "gauge", "Applicants who are in.", standing.count);
        one("closed", "gauge", "1 if no more are let in.", standing.closed.into());
        one("waiting", "gauge", "Applicants whose turn has not come.", standing.waiting);
        one("in_flight", "gauge", "Applications not answered yet.", self.in_flight());
        one("requests_total", "counter", "Requests of all kinds.", self.requests());
        one("commits_total", "counter", "Commits, with one sync each.", self.commits());
        let name = "raffle_applications_total";
        let _ = writeln!(text, "# HELP {name} Applications answered.\n# TYPE {name} counter");
        for (outcome, count) in Outcome::NAMES.iter().zip(&self.outcomes) {
            let _ = writeln!(text, "{name}{{outcome=\"{outcome}\"}} {}", count.load(Relaxed));
        }
        let name = "raffle_application_seconds";
        let _ = writeln!(text, "# HELP {name} From read to decided.\n# TYPE {name} histogram");
        let mut count = 0;
        for (bound, took) in BOUNDS.iter().zip(&self.took) {
            count += took.load(Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        count += self.took[BOUNDS.len()].load(Relaxed);
        let sum = self.micros.load(Relaxed) as f64 / 1e6;
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
        text
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
