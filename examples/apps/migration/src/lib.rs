//! One service, written with five libraries of actors: see `README.md`.
//!
//! Read `turnwise.rs` beside `kameo.rs`, `ractor.rs`, `xtra.rs` or `actix.rs`. They have the same
//! parts in the same order: messages, handlers, the start, the calls.

pub mod actix;
pub mod differences;
pub mod hall;
pub mod kameo;
pub mod lines;
pub mod ractor;
pub mod report;
pub mod scenario;
pub mod service;
pub mod turnwise;
pub mod xtra;
