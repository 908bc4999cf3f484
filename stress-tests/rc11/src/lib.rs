//! The shipped words and protocols under RC11, the axioms of C11's atomics as Lahav and others
//! repaired them: every execution that they allow, of programs of two to four threads.
//!
//! Loom goes through interleavings, and so leaves executions out that no interleaving shows: its
//! read-modify-writes and failing exchanges read the newest value, and it takes sequentially
//! consistent accesses for AcqRel ones. Here an execution is a graph, and an operation reads from
//! any write that the axioms allow. The files are included by path, on a [`sync`] whose operations
//! ask the [`explorer`].
//!
//! `cargo test --release -p rc11-tests` runs, in this order,
//! - the [litmus programs](litmus), whose executions are known, and [programs](models) that must
//!   fail: they test the explorer;
//! - the [models](models), and how many executions each has;
//! - the [gate], which weakens each ordering of the files by itself and requires a model that
//!   fails. `reasons.txt` would say why RC11 does not need one.
//!
//! With `-- word_sole` it runs the models whose names contain that. A failure prints its execution,
//! event by event.
//!
//! A model is a function in `src/models`, with a row in `MODELS`: it makes what its threads share,
//! gives them to [`run`](explorer::run), and looks at the result. What has to be ordered by the
//! files stands in `sync::cell::Plain`, which reports races. What the model keeps for itself stands
//! in `std`'s cells, which order nothing. An execution has up to six threads and 128 events.

mod explorer;
mod gate;
mod graph;
mod litmus;
mod models;
mod psc;
mod runner;
#[path = "../../../loom-tests/src/scan.rs"]
mod scan;
mod sync;

/// Includes files of the product. They are linted where they are shipped, and not all of their
/// items are called here.
macro_rules! shipped {
    ($(#[path = $path:literal] mod $name:ident;)*) => {
        $(
            #[path = $path]
            #[allow(dead_code, unused_imports, clippy::all)]
            mod $name;
        )*
    };
}

shipped! {
    #[path = "../../../src/pool/alarm.rs"]
    mod alarm;
    #[path = "../../../src/cell/counts.rs"]
    mod counts;
    #[path = "../../../src/pool/idle.rs"]
    mod idle;
    #[path = "../../../src/mailbox/word.rs"]
    mod word;
}

pub use runner::main;
