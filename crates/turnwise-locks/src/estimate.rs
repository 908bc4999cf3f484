//! How long a wait will be.

use std::time::Duration;

/// A decaying mean of how long uses last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    mean: Option<Duration>,
}

impl Estimate {
    /// One has taken so long.
    pub(crate) fn took(&mut self, time: Duration) {
        self.mean = Some(match self.mean {
            None => time,
            Some(mean) => mean - mean / 8 + time / 8,
        });
    }

    /// How long one waits behind so many, and behind one that runs for so long already. Nothing, as
    /// long as nothing is known.
    pub(crate) fn wait(&self, before: usize, running: Duration) -> Duration {
        let Some(mean) = self.mean else { return Duration::ZERO };
        let rest = mean.saturating_sub(running);
        mean.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX)).saturating_add(rest)
    }
}
