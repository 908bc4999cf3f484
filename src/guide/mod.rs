//! The guide: from a counter to a small service, one chapter per page. Nothing here but text and examples, each of which is run as a test.
//!
//! | chapter | is about |
//! |---|---|
//! | 1 [`counter`] | sending, reading, order, what a turn is |
//! | 2 [`messages`] | closures or typed messages |
//! | 3 [`asking`] | replies, waiting, giving up with a certain outcome |
//! | 4 [`limits`] | how long a call may wait, by which clock, and a clock for tests |
//! | 5 [`panics`] | what a panic in a turn does, and what is told to whom |
//! | 6 [`back_pressure`] | full mailboxes: refuse, wait, drop |
//! | 7 [`executors`] | choosing an executor: whose thread does the work |
//! | 8 [`budgets`] | how long a drain keeps its thread, and who waits for it |
//! | 9 [`passes`] | many messages at once: hooks around a pass, bulk handlers, an own loop; a lazy start |
//! | 10 [`ending`] | close, stop, the last handle, waiting for the end |
//! | 11 [`shutting_down`] | ending all actors of a program, in order and in time |
//! | 12 [`testing`] | testing without sleeping |
//! | 13 [`service`] | all of it together: an order desk |
//! | 14 [`migration`] | from mutexes, channels, tokio tasks, actix, kameo |
//!
//! Words used throughout: a **mailbox** holds messages for one object; a **turn** is one message run with exclusive access to that object's
//! state; a **drain** is a run of turns by one thread, from taking the mailbox to letting it go.

#![forbid(unsafe_code)]

#[doc = include_str!("01-counter.md")]
pub mod counter {}

#[doc = include_str!("02-messages.md")]
pub mod messages {}

#[doc = include_str!("03-asking.md")]
pub mod asking {}

#[doc = include_str!("04-limits.md")]
pub mod limits {}

#[doc = include_str!("05-panics.md")]
pub mod panics {}

#[doc = include_str!("06-back-pressure.md")]
pub mod back_pressure {}

#[doc = include_str!("07-executors.md")]
pub mod executors {}

#[doc = include_str!("08-budgets.md")]
pub mod budgets {}

#[doc = include_str!("09-passes.md")]
pub mod passes {}

#[doc = include_str!("10-ending.md")]
pub mod ending {}

#[doc = include_str!("11-shutting-down.md")]
pub mod shutting_down {}

#[doc = include_str!("12-testing.md")]
pub mod testing {}

#[doc = include_str!("13-service.md")]
pub mod service {}

#[doc = include_str!("14-migration.md")]
pub mod migration {}
