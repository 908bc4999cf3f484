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
//! | 7 [`executors`] | whose thread does the work |
//! | 8 [`ending`] | close, stop, the last handle, waiting for the end |
//! | 9 [`service`] | all of it together: an order desk |
//! | 10 [`migration`] | from mutexes, channels, tokio tasks, actix, kameo |
//! | 11 [`passes`] | many messages at once: hooks around a pass, bulk handlers, an own loop; a lazy start |
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

#[doc = include_str!("08-ending.md")]
pub mod ending {}

#[doc = include_str!("09-service.md")]
pub mod service {}

#[doc = include_str!("10-migration.md")]
pub mod migration {}

#[doc = include_str!("11-passes.md")]
pub mod passes {}
