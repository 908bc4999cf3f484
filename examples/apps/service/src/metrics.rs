//! The counters of the service, and their text for Prometheus.
//!
//! - M1: a request is in flight from its head read until its answer is made, or its connection is
//!   gone. Its answer is counted once, before the request leaves.
//! - All counters are Relaxed: no other memory is read through them.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::shop::Shop;

/// Upper bounds of the histogram, in seconds.
const BOUNDS: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0, 10.0];
/// The status codes that are counted; the last one is for all others.
const CODES: [u16; 10] = [200, 400, 404, 405, 408, 413, 429, 500, 503, 0];

#[derive(Default)]
pub(crate) struct Metrics {
    requests: AtomicU64,
    in_flight: AtomicU64,
    /// Requests whose connection was gone before they were answered.
    gone: AtomicU64,
    answers: [AtomicU64; CODES.len()],
    /// The number of requests above the previous bound and up to this one; the last: above all
    /// bounds.
    took: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// A request that is not answered yet (M1).
pub(crate) struct InFlight<'a> {
    metrics: &'a Metrics,
    since: Instant,
    answered: bool,
}

impl InFlight<'_> {
    pub(crate) fn answered(mut self, status: StatusCode) {
        let took = self.since.elapsed();
        let bound = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound);
        self.metrics.took[bound.unwrap_or(BOUNDS.len())].fetch_add(1, Relaxed);
        self.metrics.micros.fetch_add(micros(took), Relaxed);
        let code = CODES.iter().position(|code| *code == status.as_u16());
        self.metrics.answers[code.unwrap_or(CODES.len() - 1)].fetch_add(1, Relaxed);
        self.answered = true;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.metrics.gone.fetch_add(1, Relaxed);
        }
        self.metrics.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    #[must_use = "it is in flight as long as this is kept"]
    pub(crate) fn request(&self) -> InFlight<'_> {
        self.requests.fetch_add(1, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
        InFlight { metrics: self, since: Instant::now(), answered: false }
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answers.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Formats the metrics for Prometheus.
    pub(crate) fn text(&self, shop: &Shop) -> String {
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP service_{name} {help}");
            let _ = writeln!(text, "# TYPE service_{name} {kind}\nservice_{name} {value}");
        };
        one("requests_total", "counter", "Requests for a session or a product.", {
            self.requests.load(Relaxed)
        });
        one("in_flight", "gauge", "Those not answered yet.", self.in_flight());
        one("gone_total", "counter", "Those that went away unanswered.", self.gone.load(Relaxed));
        one("sessions", "gauge", "Sessions there are.", shop.seats.taken() as u64);
        one("sessions_total", "counter", "Sessions there have been.", shop.seats.given());
        one("turns_total", "counter", "Turns of sessions that have begun.", shop.turns());
        one("loads_total", "counter", "Products loaded into the cache.", shop.loads());
        let name = "service_answers_total";
        let _ = writeln!(text, "# HELP {name} Requests answered.\n# TYPE {name} counter");
        for (code, count) in CODES.iter().zip(&self.answers) {
            let _ = writeln!(text, "{name}{{code=\"{code}\"}} {}", count.load(Relaxed));
        }
        let name = "service_request_seconds";
        let _ = writeln!(text, "# HELP {name} From head to answer.\n# TYPE {name} histogram");
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
