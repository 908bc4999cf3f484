//! Of the executors, all that orders anything, and a pool's workers. Its queues are crossbeam's,
//! which loom does not see into; `crate::sync` has a stand-in.

#[path = "../../src/executor/alarm.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod alarm;
#[path = "../../src/executor/compensation.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod compensation;
#[path = "../../src/executor/idle.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod idle;
#[path = "../../src/executor/lifo_slot.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod lifo_slot;
#[path = "../../src/executor/manual.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod manual;
#[path = "../../src/executor/place.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod place;
#[path = "../../src/executor/queues.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod queues;
#[path = "../../src/executor/shared.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod shared;
#[path = "../../src/executor/worker.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod worker;
pub(crate) mod workers;
