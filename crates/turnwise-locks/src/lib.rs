#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod keyed;
mod sync;

pub use keyed::{
    Key, KeyInfo, Keyed, KeyedBuilder, KeyedReport, Limits, NotStarted, Run, RunError, TryRun,
};
