//! The limits of a model's process.
//!
//! A limit by the clock would turn a loaded machine into a found bug. So the limit is processor
//! time, read from `/proc`: a process that waits for a processor uses none. A sleeping process uses
//! none either, and never will: a model's threads are coroutines of one thread, which never sleeps
//! unless a lock that loom does not know is held across one of loom's steps. Where there is no
//! `/proc`, a very generous limit by the clock is the only one.

use std::fs;
use std::time::{Duration, Instant};

/// Processor time, far above that of the slowest model.
const TOO_MUCH: Duration = Duration::from_secs(240);
/// The time without processor time, asleep at every look, after which it will not wake up.
const ASLEEP: Duration = Duration::from_secs(60);
/// The limit by the clock, where there is no `/proc`.
const BY_THE_CLOCK: Duration = Duration::from_secs(4 * 3600);
/// The interval of looks.
const EVERY: Duration = Duration::from_millis(500);
/// Linux reports hundredths of a second to user space, on every processor that this is built for.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Watchdog {
    process: u32,
    start: Instant,
    next: Instant,
    /// The time since when it has been asleep at every look, and the processor time that it had
    /// used by then.
    asleep: Option<(Instant, Duration)>,
}

/// The state of a process in `/proc`.
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

    /// Returns a reason to stop the process now, if there is one.
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

/// Parses `pid (name) state ...`, where the times in user and system mode are the 14th and 15th
/// field. The name may contain anything, also parentheses and spaces.
fn parse(stat: &str) -> Option<Seen> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields = rest.split_whitespace().collect::<Vec<_>>();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    let used = TICK * ticks(11)?.checked_add(ticks(12)?)?;
    Some(Seen { sleeps: *fields.first()? == "S", used })
}
