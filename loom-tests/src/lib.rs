//! Models of turnwise: the shipped files, run by loom in every interleaving.
//!
//! The floors are included by path and name `crate::sync`, which is [loom's flavour](sync) here.
//! They are compiled twice: as they are, and with a COUNT of two bits and switchable bugs
//! (`narrow`, made by `build.rs`). The [models](models) are compiled with each.
//! The registry of keys of `turnwise-locks`, its runs, lock objects, slots and admissions are
//! floors, too: they name the published crate, which is this one here. `run.sh` runs them all;
//! `orderings.sh` weakens every memory ordering by itself and requires a model that notices.

// Packages that are built on the published crate find its names here.
extern crate self as turnwise;

mod counts;
mod executor;
mod face;
mod fallback;
mod gate;
mod runner;
mod scan;
mod sync;
mod user_code;
mod watchdog;

#[allow(unused_imports)]
pub(crate) use face::*;

/// Includes floors of the product. They are linted where they are shipped, and not all of their
/// items are called here.
macro_rules! floors {
    ($(#[path = $path:literal] mod $name:ident;)*) => {
        $(
            #[path = $path]
            #[allow(
                dead_code,
                unused_imports,
                unfulfilled_lint_expectations,
                unreachable_patterns,
                clippy::all
            )]
            mod $name;
        )*
    };
}

floors! {
    #[path = "../../src/actor/mod.rs"]
    mod actor;
    #[path = "../../src/budget.rs"]
    mod budget;
    #[path = "../../src/cell/mod.rs"]
    mod cell;
    #[path = "../../src/enrolled.rs"]
    mod enrolled;
    #[path = "../../src/error.rs"]
    mod error;
    #[path = "../../src/mailbox/mod.rs"]
    mod mailbox;
    #[path = "../../src/panic.rs"]
    mod panic;
    #[path = "../../src/pool/mod.rs"]
    mod pool;
    #[path = "../../src/send/mod.rs"]
    mod send;
    #[path = "../../src/thread/mod.rs"]
    mod thread;
    #[path = "../../src/time.rs"]
    mod time;
    #[path = "../../src/turn/mod.rs"]
    mod turn;
    #[path = "../../src/wait_list.rs"]
    mod wait_list;
}

floors! {
    #[path = "../../crates/turnwise-locks/src/admission/mod.rs"]
    mod admission;
    #[path = "../../crates/turnwise-locks/src/entry_ref.rs"]
    mod entry_ref;
    #[path = "../../crates/turnwise-locks/src/estimate.rs"]
    mod estimate;
    #[path = "../../crates/turnwise-locks/src/keep.rs"]
    mod keep;
    #[path = "../../crates/turnwise-locks/src/keyed/mod.rs"]
    mod keyed;
    #[path = "../../crates/turnwise-locks/src/limits.rs"]
    mod limits;
    #[path = "../../crates/turnwise-locks/src/lock/mod.rs"]
    mod lock;
    #[path = "../../crates/turnwise-locks/src/map.rs"]
    mod map;
    #[path = "../../crates/turnwise-locks/src/overrun.rs"]
    mod overrun;
    #[path = "../../crates/turnwise-locks/src/registry.rs"]
    mod registry;
    #[path = "../../crates/turnwise-locks/src/slots/mod.rs"]
    mod slots;
    #[path = "../../crates/turnwise-locks/src/table.rs"]
    mod table;
}

mod models;

#[allow(warnings, clippy::all, reason = "a generated copy, with bugs")]
mod narrow {
    include!(concat!(env!("OUT_DIR"), "/narrow.rs"));
}

/// One bug of `planted.txt`.
struct Bug {
    name: &'static str,
    /// The model that has to find it.
    model: &'static str,
    /// True if it falls on the first execution.
    first: bool,
}

include!(concat!(env!("OUT_DIR"), "/bugs.rs"));

pub use runner::main;
