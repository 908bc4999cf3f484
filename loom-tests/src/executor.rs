//! Of the executors, the files that need nothing but `crate::sync`: all atomics that order anything.
//! The rest is built on crossbeam's queues, which loom does not see into; the models put a stand-in in
//! their place.

#[path = "../../src/executor/alarm.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod alarm;
#[path = "../../src/executor/idle.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod idle;
#[path = "../../src/executor/lifo_slot.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod lifo_slot;
#[path = "../../src/executor/manual.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod manual;
