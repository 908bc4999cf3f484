//! The actors that depend on an executor while none of their drains is out.
//!
//! An actor whose turn is suspended has no entry anywhere: nothing would tell it that its executor
//! has ended. So it enrolls once, and withdraws when it ends. An executor that ends is closed
//! first, then drops what is enrolled.
//!
//! - ENROLL: the lock orders [`end`](Enrolled::end) against [`enroll`](Enrolled::enroll): what
//!   comes too late to be dropped is refused.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;

use crate::sync::Mutex;

/// Jobs by a number of their own, one each, until the executor ends.
pub struct Enrolled<J>(Mutex<Drains<J>>);

struct Drains<J> {
    jobs: BTreeMap<usize, J>,
    ended: bool,
}

impl<J> Default for Enrolled<J> {
    fn default() -> Self {
        Enrolled(Mutex::new(Drains { jobs: BTreeMap::new(), ended: false }))
    }
}

impl<J> Enrolled<J> {
    /// Keeps a job.
    ///
    /// # Errors
    /// The job, if the executor has ended.
    pub(crate) fn enroll(&self, number: usize, job: J) -> Result<(), J> {
        let mut state = self.0.lock();
        if state.ended {
            return Err(job);
        }
        let before = state.jobs.insert(number, job);
        debug_assert!(before.is_none(), "two jobs of one number");
        Ok(())
    }

    /// Gives a job back, unless the executor has ended.
    pub(crate) fn withdraw(&self, number: usize) -> Option<J> {
        self.0.lock().jobs.remove(&number)
    }

    /// Takes all jobs out, for the caller to drop: outside of the lock, for that runs user code.
    /// None is enrolled any more.
    pub(crate) fn end(&self) -> impl Iterator<Item = J> + use<J> {
        let mut state = self.0.lock();
        state.ended = true;
        take(&mut state.jobs).into_values()
    }
}

impl<J> fmt::Debug for Enrolled<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enrolled").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_end_is_refused() {
        let enrolled = Enrolled::default();
        assert_eq!([1, 2].map(|number| enrolled.enroll(number, number * 10)), [Ok(()); 2]);
        assert_eq!((enrolled.withdraw(1), enrolled.withdraw(1)), (Some(10), None));
        assert_eq!(enrolled.end().collect::<Vec<_>>(), [20]);
        assert_eq!(enrolled.enroll(3, 30), Err(30));
        assert_eq!((enrolled.end().count(), enrolled.withdraw(2)), (0, None));
    }
}
