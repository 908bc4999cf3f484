#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod keyed;
mod limits;
mod registry;
mod sync;
mod user_code;

pub use keyed::{
    Key, KeyInfo, Keyed, KeyedBuilder, KeyedReport, NotStarted, Run, RunError, TryRun,
};
pub use limits::Limits;
