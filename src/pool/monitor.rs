//! The thread that looks after workers which are stuck in their jobs.
//!
//! A job that says so before it waits gives its worker's place away, and what waits behind it
//! goes on. A job that takes long, or blocks in another way, does not. So while the pool is busy,
//! its monitor looks every few milliseconds at each worker's tick. A worker whose tick has not
//! moved for [`STUCK`] looks is *stuck*; a shorter time may mean that the system has given its
//! processor away:
//!
//! - What waits in its queue and its slot is moved to the injector, and announced.
//! - If all workers are stuck, none sleeps or searches, and work waits, then a thread that stands
//!   by is called to help: it runs what waits, without a place, until there is nothing left or a
//!   worker goes on. The longer nothing moves, the more are called; each takes twice as long as the
//!   one before it, half a second at most, for the jobs may be long and not blocked at all. In
//!   a pool that may have no more threads than workers, none is.
//!
//! While the pool sleeps, and has slept for [`LINGER`] looks, so does the monitor: a worker that is
//! woken then wakes it.

#![forbid(unsafe_code)]

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::job::Job;
use super::shared::Shared;
use super::worker::{builder, start};
use crate::panic;

/// Between two looks, as long as something moves or waits.
const TICK: Duration = Duration::from_millis(4);
/// Looks without a move after which a worker is stuck.
const STUCK: u32 = 4;
/// The longest time between two looks at a pool in which nothing moves and nothing waits.
const SLOWEST: Duration = Duration::from_millis(32);
/// Looks at a sleeping pool before the monitor sleeps too.
const LINGER: u32 = 32;
/// The longest time that nothing moves before another thread is called.
const SLOWEST_CALL: Duration = Duration::from_millis(500);

pub(super) fn start_monitor<J: Job>(pool: &Arc<Shared<J>>) -> io::Result<()> {
    let theirs = pool.clone();
    pool.threads.start_monitor(|| {
        let monitor = builder(pool, "monitor");
        monitor.spawn(move || Monitor::new(theirs).live()).map(drop)
    })
}

struct Monitor<J: Job> {
    pool: Arc<Shared<J>>,
    /// Each worker's tick at the last look, and the number of looks for which it has been that.
    ticks: Box<[(u32, u32)]>,
    helped: u32,
    /// The last time at which something moved.
    moved: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// All workers sleep.
    Asleep,
    /// Something moves, or waits.
    Busy,
    /// Workers are in their jobs, nothing has moved, and nothing waits.
    Still,
}

impl<J: Job> Monitor<J> {
    fn new(pool: Arc<Shared<J>>) -> Self {
        let ticks = vec![(0, 0); pool.queues.workers()].into();
        Monitor { pool, ticks, helped: 0, moved: Instant::now() }
    }

    fn live(mut self) {
        let mut lingered = 0;
        let mut pause = TICK;
        while !self.pool.is_ended() {
            match self.look() {
                Look::Asleep => lingered += 1,
                Look::Busy => (lingered, pause) = (0, TICK),
                Look::Still => (lingered, pause) = (0, (pause * 2).min(SLOWEST)),
            }
            let pool = &self.pool;
            if lingered > LINGER {
                pool.alarm.sleep_unless(|| !self.is_asleep() || pool.is_ended());
                (lingered, pause) = (0, TICK);
            } else {
                pool.alarm.sleep_for(pause, || pool.is_ended());
            }
        }
        self.pool.threads.monitor_ends();
    }

    /// True if all workers sleep.
    fn is_asleep(&self) -> bool {
        self.pool.idle.look().sleepers() as usize == self.pool.queues.workers()
    }

    fn look(&mut self) -> Look {
        if self.is_asleep() {
            self.pool.set_short(false);
            self.moved = Instant::now();
            return Look::Asleep;
        }
        let (pool, queues) = (&self.pool, &self.pool.queues);
        let (mut stuck, mut exposed) = (0, false);
        let mut still = 0;
        for (number, (before, looks)) in self.ticks.iter_mut().enumerate() {
            let now = queues.tick(number);
            *looks = if *before == now { looks.saturating_add(1) } else { 0 };
            *before = now;
            still += usize::from(*looks > 0);
            if *looks < STUCK {
                continue;
            }
            stuck += 1;
            // A worker of one is not relieved by moving what only it can take.
            if queues.waits_behind(number) && (queues.workers() > 1 || pool.threads.may_help()) {
                exposed |= queues.expose(number);
            }
        }
        if exposed {
            // Outside of all locks: in a pool that has just ended, this drops jobs, which runs
            // user code.
            panic::ignore(|| pool.announce());
        }
        let all_stuck = stuck == queues.workers();
        pool.set_short(all_stuck);
        let helped = std::mem::replace(&mut self.helped, queues.helped());
        if still < queues.workers() || helped != self.helped {
            self.moved = Instant::now();
            return Look::Busy;
        }
        if !queues.has_work() {
            return if all_stuck { Look::Still } else { Look::Busy };
        }
        if !all_stuck {
            return Look::Busy;
        }
        let now = pool.idle.look();
        if now.sleepers() == 0 && now.searchers() == 0 {
            let patience = TICK * (1 << pool.threads.helpers().min(8) as u32);
            if self.moved.elapsed() >= patience.min(SLOWEST_CALL) {
                pool.threads.call_help(|number| start(pool, number));
                self.moved = Instant::now();
            }
        }
        Look::Busy
    }
}

#[cfg(test)]
#[path = "../../tests/pool/monitor.rs"]
mod tests;
