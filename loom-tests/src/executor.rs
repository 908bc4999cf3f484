//! Of the executors, the files that hold their atomics. The rest is built on crossbeam's queues, which loom does not see; the models put a
//! stand-in in their place.

#[path = "../../src/executor/sleep.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod sleep;
#[path = "../../src/executor/slot.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod slot;

/// There is no pool of the whole process: without an executor of its own, an actor has no budget here.
pub(crate) const PROCESS_WIDE: Option<fn() -> &'static dyn crate::drain::carrier::Executor> = None;
