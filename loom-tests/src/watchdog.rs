//! When a model's process is given up.
//!
//! A limit by the clock would turn a loaded machine into a found bug. So the limit is processor
//! time, read from `/proc`: a process that has to wait for a processor uses none. What sleeps uses
//! none either, and never will: a model's threads are coroutines of one thread, which never sleeps
//! unless a lock that loom does not know is held across one of loom's steps. Where there is no
//! `/proc`, a very generous limit by the clock is all there is.

use std::fs;
use std::time::{Duration, Instant};

/// Processor time, far above what the slowest model uses.
const TOO_MUCH: Duration = Duration::from_secs(240);
/// Asleep at every look for so long, without any processor time: it will not wake up.
const ASLEEP: Duration = Duration::from_secs(60);
/// By the clock, where there is no `/proc`.
const BY_THE_CLOCK: Duration = Duration::from_secs(4 * 3600);
/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// Linux tells user space hundredths of a second, on every processor that this is built for.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Watchdog {
    process: u32,
    start: Instant,
    next: Instant,
    /// Since when it has been asleep at every look, and the processor time that it had used by
    /// then.
    asleep: Option<(Instant, Duration)>,
}

/// What `/proc` says of a process.
#[derive(Clone, Copy)]
struct Seen {
    sleeps: bool,
    used: Duration,
}

impl Watchdog {
    pub(crate) fn new(process: u32) -> Self {
        let start = Instant::now();
        Watchdog { process, start, next: start + EVERY, asleep: None }
    }

    /// Why the process has to be stopped now, if it has to.
    pub(crate) fn look(&mut self) -> Option<String> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        let Some(seen) = fs::read_to_string(format!("/proc/{}/stat", self.process))
            .ok()
            .and_then(|stat| parse(&stat))
        else {
            let over = now - self.start > BY_THE_CLOCK;
            return over.then(|| format!("{BY_THE_CLOCK:?} by the clock"));
        };
        if seen.used > TOO_MUCH {
            return Some(format!("{TOO_MUCH:?} of processor time"));
        }
        self.asleep = match self.asleep {
            _ if !seen.sleeps => None,
            Some((since, used)) if used == seen.used => Some((since, used)),
            _ => Some((now, seen.used)),
        };
        let (since, _) = self.asleep?;
        (now - since > ASLEEP).then(|| format!("it has slept for {ASLEEP:?}"))
    }
}

/// `pid (name) state ...`, where the times in user and system mode are the 14th and 15th field. The
/// name may hold anything, parentheses and spaces too.
fn parse(stat: &str) -> Option<Seen> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields = rest.split_whitespace().collect::<Vec<_>>();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    let used = TICK * ticks(11)?.checked_add(ticks(12)?)?;
    Some(Seen { sleeps: *fields.first()? == "S", used })
}
