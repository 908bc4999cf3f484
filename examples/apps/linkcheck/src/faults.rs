//! A host that is slow, and that fails: a MODEL of the web, the same for each seed.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use turnwise::time::Timers;

use crate::address::name;
use crate::site::{Response, Site};

/// The faults of the hosts.
#[derive(Clone, Debug)]
pub struct Faults {
    /// The seed, which decides the faults.
    pub seed: u64,
    /// The mean delay of an answer; it varies by half.
    pub delay: Duration,
    /// The percentage of paths that fail at first: once or twice.
    pub errors: u8,
    /// The number of hosts, the last ones, that never answer.
    pub mute: usize,
}

/// Returns a number determined by the seed and the names (FNV-1a, then SplitMix64's last step).
pub(crate) fn draw(seed: u64, what: &str, path: &str, number: u64) -> u64 {
    let mut mixed = seed ^ 0xcbf2_9ce4_8422_2325;
    let number = number.to_le_bytes();
    for byte in what.bytes().chain([0]).chain(path.bytes()).chain([0]).chain(number) {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A host: the site that it serves, and its faults.
pub struct Origin {
    site: Arc<Site>,
    host: usize,
    name: String,
    faults: Faults,
    timers: Timers,
    /// The number of requests for each path.
    asked: Mutex<HashMap<String, u64>>,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A request in progress, until it is answered or its client has gone.
struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Origin {
    /// Makes all hosts of a site. Delays are measured by these timers.
    pub fn all(site: &Arc<Site>, faults: &Faults, timers: &Timers) -> Vec<Arc<Origin>> {
        let one = |host| Origin {
            site: site.clone(),
            host,
            name: name(host),
            faults: faults.clone(),
            timers: timers.clone(),
            asked: Mutex::default(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        };
        (0..site.hosts()).map(|host| Arc::new(one(host))).collect()
    }

    /// Answers a request after its delay. None: the connection breaks.
    pub async fn answer(&self, path: &str) -> Option<Response> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        let _busy = Busy(&self.now);
        self.most.fetch_max(now, Ordering::Relaxed);
        if self.host + self.faults.mute >= self.site.hosts() {
            pending::<()>().await;
        }
        let asked = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = asked.entry(path.to_owned()).or_insert(0);
            *asked += 1;
            *asked - 1
        };
        let draw = |what, number| draw(self.faults.seed ^ self.host as u64, what, path, number);
        if !self.faults.delay.is_zero() {
            let part = draw("delay", asked) % 1001;
            let delay = self.faults.delay / 2 + self.faults.delay * part as u32 / 1000;
            self.timers.sleep(delay).await;
        }
        let fails = draw("fails", 0) % 100 < u64::from(self.faults.errors);
        if fails && asked <= draw("twice", 0) % 2 {
            return match draw("how", asked) % 3 {
                0 => Some(Response::bare(500)),
                1 => Some(Response::bare(503)),
                _ => None,
            };
        }
        Some(self.site.answer(self.host, path))
    }

    /// Returns the name of the host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the maximum number of concurrent requests so far.
    pub fn most_at_once(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}
