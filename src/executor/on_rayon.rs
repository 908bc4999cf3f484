//! Drains in a rayon pool.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use crate::drain::carrier::{Drain, Executor};

/// An [`Executor`] that runs drains in rayon's global pool, or in one of the program's own. With the feature `rayon`.
///
/// One allocation per drain, rayon's. A turn that waits keeps its thread of rayon's meanwhile: with as many such turns as threads, nothing
/// else is run, and if they wait for what is queued behind them, they wait for ever. Turns that wait belong in a
/// [`ThreadPool`](crate::ThreadPool).
///
/// # Examples
/// ```
/// use turnwise::Actor;
/// use turnwise::executor::Rayon;
///
/// let n = Actor::builder(1).executor(Rayon::global()).spawn()?;
/// n.send(|n| *n += 1)?;
/// assert_eq!(n.ask(|n| *n).wait()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Rayon(Option<Arc<rayon_core::ThreadPool>>);

impl Rayon {
    /// In rayon's global pool, which starts when it is needed.
    pub fn global() -> Self {
        Rayon(None)
    }

    /// In this pool (`rayon::ThreadPool` is the same type). It lives as long as an actor uses it.
    pub fn new(pool: Arc<rayon_core::ThreadPool>) -> Self {
        Rayon(Some(pool))
    }
}

impl Executor for Rayon {
    fn execute(&self, drain: Drain) {
        match &self.0 {
            None => rayon_core::spawn(|| drain.run()),
            Some(pool) => pool.spawn(|| drain.run()),
        }
    }
}

impl fmt::Debug for Rayon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rayon").field(if self.0.is_some() { &"own" } else { &"global" }).finish()
    }
}
