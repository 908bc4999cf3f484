//! What a turn can know and say about the drain that runs it.

#![forbid(unsafe_code)]

use crate::drain::budget::{Budget, Remaining};
use crate::drain::local::with_local;

/// What the drain that runs this turn has left of its budget.
///
/// `None` outside of a turn, in a drain without a budget, and in a turn that belongs to no drain: the one that a caller runs at once because
/// his message found the actor idle. Reads the actor's clock, if its time is limited. Wait-free.
///
/// # Examples
/// ```
/// use turnwise::Actor;
/// use turnwise::executor::DrainQueue;
///
/// let queue = DrainQueue::new();
/// let log = Actor::builder(Vec::new()).executor(queue.handle()).budget(2).spawn()?;
/// for _ in 0..3 {
///     log.send(|log: &mut Vec<_>| log.extend(turnwise::remaining().and_then(|left| left.turns())))?;
/// }
/// while queue.run_one() {}
/// assert_eq!(log.with(|log| log.clone())?, [1, 0, 1]);
/// assert!(turnwise::remaining().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remaining() -> Option<Remaining> {
    with_local(|local| local.with_drain(|meter, core| meter.remaining(core.about().budget, core.clock()))).flatten()
}

/// Gives the drain that runs this turn another budget, in place of what is left of its own: its time begins to count now, its turns with the
/// next one. The drain after this one has the actor's budget again. With no turns or no time, this turn is the drain's last, and what waits
/// is handed on.
///
/// False if there is no such drain: outside of a turn, or in one that a caller runs at once because his message found the actor idle. And if the
/// drain must not be let go, because it is that of a caller who waits, and the actor's executor might be waiting for him.
/// Wait-free.
///
/// # Examples
/// ```
/// use turnwise::executor::DrainQueue;
/// use turnwise::{Actor, Budget};
///
/// let queue = DrainQueue::new();
/// let n = Actor::builder(0).executor(queue.handle()).spawn()?;
/// n.send(|_| assert!(turnwise::renew(Budget::turns(1))))?;
/// for _ in 0..3 {
///     n.send(|n| *n += 1)?;
/// }
/// assert!(queue.run_one());
/// assert_eq!(n.with(|n| *n)?, 3); // one by that drain, the others by this caller
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn renew(budget: impl Into<Budget>) -> bool {
    let budget = budget.into();
    with_local(|local| local.with_drain(|meter, core| meter.renew(budget, core.clock()))) == Some(true)
}
