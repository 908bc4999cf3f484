//! Models of turnwise: the files that ship, run by loom in every interleaving.
//!
//! The floors are included by path and speak of `crate::sync`, which is [loom's flavour](sync) here. They are compiled three times: as they
//! are, with a COUNT of two bits (`narrow`), and with switchable bugs (`planted`, made by `build.rs`). The [models](models) are compiled
//! with each. `run.sh` runs them all; `orderings.sh` weakens every memory ordering by itself and demands that a model notices.

mod executor;
mod gate;
mod runner;
mod sync;

/// Includes floors of the product. They are linted where they are shipped, and not everything is called here.
macro_rules! floors {
    ($(#[path = $path:literal] mod $name:ident;)*) => {
        $(#[path = $path] #[allow(dead_code, unused_imports, unfulfilled_lint_expectations, clippy::all)] mod $name;)*
    };
}

floors! {
    #[path = "../../src/actor/mod.rs"]
    mod actor;
    #[path = "../../src/drain/mod.rs"]
    mod drain;
    #[path = "../../src/error.rs"]
    mod error;
    #[path = "../../src/mailbox/mod.rs"]
    mod mailbox;
    #[path = "../../src/reply.rs"]
    mod reply;
    #[path = "../../src/unwind.rs"]
    mod unwind;
    #[path = "../../src/wait.rs"]
    mod wait;
}

mod models;

#[allow(warnings, clippy::all, reason = "a generated copy")]
mod narrow {
    include!(concat!(env!("OUT_DIR"), "/narrow.rs"));
}

#[allow(warnings, clippy::all, reason = "a generated copy, with bugs")]
mod planted {
    include!(concat!(env!("OUT_DIR"), "/planted.rs"));
}

include!(concat!(env!("OUT_DIR"), "/bugs.rs"));

pub use runner::main;
