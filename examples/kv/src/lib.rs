//! A key-value server for redis's clients, in which each key is an actor; and the same server on
//! three tables with locks, to compare.
//!
//! - [`frame`] makes commands out of bytes, [`command`] reads them, [`value`] runs them.
//! - [`table`]: where the values are, and who may look at one. One file for each choice.
//! - [`store`] puts these together; [`session`] is one connection, [`server`] all of them.

pub mod command;
pub mod frame;
pub mod inline;
pub mod number;
pub mod reply;
pub mod server;
pub mod session;
pub mod store;
pub mod table;
pub mod value;
