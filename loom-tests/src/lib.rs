//! Models of turnwise: the files that ship, run by loom in every interleaving.
//!
//! The floors are included by path and speak of `crate::sync`, which is [loom's flavour](sync)
//! here. They are compiled three times: as they are, with a COUNT of two bits (`narrow`), and with
//! switchable bugs (`planted`, made by `build.rs`). The [models](models) are compiled with each.
//! `run.sh` runs them all; `orderings.sh` weakens every memory ordering by itself and demands that
//! a model notices.

mod executor;
mod fallback;
mod gate;
mod runner;
mod sync;
mod watchdog;

/// Includes floors of the product. They are linted where they are shipped, and not everything is
/// called here.
macro_rules! floors {
    ($(#[path = $path:literal] mod $name:ident;)*) => {
        $(
            #[path = $path]
            #[allow(dead_code, unused_imports, unfulfilled_lint_expectations, clippy::all)]
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
    #[path = "../../src/drain/mod.rs"]
    mod drain;
    #[path = "../../src/envelope/mod.rs"]
    mod envelope;
    #[path = "../../src/error.rs"]
    mod error;
    #[path = "../../src/mailbox/mod.rs"]
    mod mailbox;
    #[path = "../../src/panic.rs"]
    mod panic;
    #[path = "../../src/send/mod.rs"]
    mod send;
    #[path = "../../src/time.rs"]
    mod time;
    #[path = "../../src/wait_list.rs"]
    mod wait_list;
}

/// Where drains go whose actor has no executor.
pub(crate) const FALLBACK: &dyn cell::executor::Fallback = &fallback::Fallback;

mod models;

#[allow(warnings, clippy::all, reason = "a generated copy")]
mod narrow {
    include!(concat!(env!("OUT_DIR"), "/narrow.rs"));
}

#[allow(warnings, clippy::all, reason = "a generated copy, with bugs")]
mod planted {
    include!(concat!(env!("OUT_DIR"), "/planted.rs"));
}

/// One bug of `planted.txt`.
struct Bug {
    name: &'static str,
    /// The model that has to find it.
    model: &'static str,
    /// It falls on the first execution.
    first: bool,
}

include!(concat!(env!("OUT_DIR"), "/bugs.rs"));

pub use runner::main;
