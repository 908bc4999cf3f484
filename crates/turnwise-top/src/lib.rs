#![doc = include_str!("../docs/table.md")]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod client;
mod error;
mod look;
mod server;
mod source;
mod wire;

pub use address::Address;
pub use client::Client;
pub use error::{ClientError, ServeError};
pub use server::{Server, serve, serve_at};
pub use wire::{
    Actor, Counts, DeadLetter, Report, Snapshot, Source, StoredActor, VERSION, WaitsFor,
};
