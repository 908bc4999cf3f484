//! A key-value server for redis's clients, in which each key is an actor; and the same server on
//! three tables with locks, to compare.
//!
//! - [`frame`] parses bytes into commands, [`command`] parses their arguments, [`value`] runs them.
//! - [`table`] keeps the values, and orders the commands on them. One file for each table.
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
