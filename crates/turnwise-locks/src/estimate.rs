//! The expected wait: a decaying mean of the time that uses last, for those who rather go away
//! than wait in vain.
//!
//! An unused key is gone, and what is known of it should not be: so the means of a
//! registry's keys lie in a table of their own, by hash, which is made when the first call asks for
//! it. Two keys that share a cell take it from each other; a cell knows whose it is by twenty more
//! bits of the hash. What is not known is nothing: none is refused on a guess.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
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

    /// The time of a wait behind that many, and behind one that runs for that time. Zero, as long
    /// as nothing is known.
    pub(crate) fn wait(&self, before: usize, running: Duration) -> Duration {
        let Some(mean) = self.mean else { return Duration::ZERO };
        let rest = mean.saturating_sub(running);
        mean.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX)).saturating_add(rest)
    }
}

/// Cells of the table: a power of two.
const CELLS: usize = 1024;
/// Bits of a mean, in nanoseconds: five hours. Above them the tag.
const MEAN: u32 = 44;
const MOST: u64 = (1 << MEAN) - 1;

/// The means of keys, by hash.
#[derive(Debug, Default)]
pub(crate) struct Estimates(OnceLock<Box<[AtomicU64]>>);

impl Estimates {
    /// True once a request wants to know. Before that, nothing is measured.
    pub(crate) fn are_wanted(&self) -> bool {
        self.0.get().is_some()
    }

    /// From now on they are wanted.
    pub(crate) fn want(&self) {
        self.0.get_or_init(|| (0..CELLS).map(|_| AtomicU64::new(0)).collect());
    }

    fn cell(&self, hash: u64) -> Option<&AtomicU64> {
        Some(&self.0.get()?[hash as usize & (CELLS - 1)])
    }

    fn of(cell: u64, hash: u64) -> Estimate {
        let known = cell >> MEAN == hash >> MEAN && cell & MOST != 0;
        Estimate { mean: known.then(|| Duration::from_nanos(cell & MOST)) }
    }

    /// The estimate for the key with this hash.
    pub(crate) fn get(&self, hash: u64) -> Estimate {
        // Ordering: Relaxed. A cell is all there is to be read.
        self.cell(hash).map_or(Estimate::default(), |cell| Self::of(cell.load(Relaxed), hash))
    }

    /// A use of the key with this hash has taken so long.
    pub(crate) fn took(&self, hash: u64, time: Duration) {
        let Some(cell) = self.cell(hash) else { return };
        // Ordering: Relaxed. Uses of one key come one after the other; of two that share the cell,
        // either may be forgotten.
        let mut estimate = Self::of(cell.load(Relaxed), hash);
        estimate.took(time);
        self.put(hash, estimate);
    }

    /// That is what is known of the key with this hash.
    pub(crate) fn put(&self, hash: u64, estimate: Estimate) {
        let (Some(cell), Some(_)) = (self.cell(hash), estimate.mean) else { return };
        let mean = estimate.mean.map_or(0, |mean| mean.as_nanos());
        let mean = u64::try_from(mean).unwrap_or(MOST).clamp(1, MOST);
        cell.store(hash >> MEAN << MEAN | mean, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_known_is_no_wait() {
        assert_eq!(Estimate::default().wait(1_000, Duration::ZERO), Duration::ZERO);
        let all = Estimates::default();
        all.took(7, MS);
        assert!(!all.are_wanted());
        assert_eq!(all.get(7).wait(9, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn the_mean_follows() {
        let mut estimate = Estimate::default();
        estimate.took(8 * MS);
        assert_eq!(estimate.wait(3, 2 * MS), (3 * 8 + 6) * MS);
        assert_eq!(estimate.wait(0, 20 * MS), Duration::ZERO);
        (0..60).for_each(|_| estimate.took(80 * MS));
        let one = estimate.wait(0, Duration::ZERO);
        assert!(one > 79 * MS && one <= 80 * MS, "{one:?}");
    }

    #[test]
    fn cells_know_whose_they_are() {
        let all = Estimates::default();
        all.want();
        let (one, other) = (3, 3 | 1 << 50);
        all.took(one, 5 * MS);
        assert_eq!(all.get(one).wait(0, Duration::ZERO), 5 * MS);
        assert_eq!(all.get(other).wait(9, Duration::ZERO), Duration::ZERO);
        all.took(other, MS);
        assert_eq!(all.get(one).wait(9, Duration::ZERO), Duration::ZERO);
        all.took(9, Duration::MAX);
        assert!(all.get(9).wait(0, Duration::ZERO) > Duration::from_secs(4 * 3600));
        all.took(9, Duration::ZERO);
        assert_eq!(all.get(one).wait(usize::MAX, Duration::ZERO), Duration::ZERO);
        assert!(all.get(9).wait(usize::MAX, Duration::ZERO) > Duration::ZERO);
    }
}
