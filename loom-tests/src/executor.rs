//! The one executor whose own steps order anything. The others' steps are those of the pool, which
//! is a floor, and of runtimes that loom does not know.

#[path = "../../src/executor/manual.rs"]
#[allow(dead_code, unused_imports, clippy::all)]
pub(crate) mod manual;
pub(crate) mod workers;
