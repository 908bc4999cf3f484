//! The guide: from a counter to a small service, one chapter per page. It holds text and examples
//! and nothing else, and each example is run as a test.
//!
//! | chapter | is about |
//! |---|---|
//! | 01 [`counter`] | sending, reading, order, what a turn is |
//! | 02 [`messages`] | closures or typed messages |
//! | 03 [`asking`] | replies, waiting, giving up with a certain outcome |
//! | 04 [`limits`] | how long a call may wait, by which clock, and a clock for tests |
//! | 05 [`panics`] | what a panic in a turn does, and who learns of it |
//! | 06 [`back_pressure`] | full mailboxes: refuse, wait for room, drop the newest or the oldest |
//! | 07 [`executors`] | which threads run an actor |
//! | 08 [`budgets`] | how long a drain keeps its thread, and who waits for it |
//! | 09 [`batches`] | many messages at once; an event loop of your own; a state made on first use |
//! | 10 [`ending`] | close, stop, the last handle, waiting for the end |
//! | 11 [`shutting_down`] | ending all actors of a program, in order and in time |
//! | 12 [`testing`] | testing without sleeping |
//! | 13 [`service`] | all of it together: an order desk |
//! | 14 [`migration`] | from mutexes, channels, tokio tasks, actix, kameo, ractor, xtra, Pekko |
//! | 15 [`time`] | functions and messages that come later, or again and again |
//!
//! Words used throughout: a **mailbox** holds the messages for one object. A **turn** is one
//! message, run with exclusive access to that object's state. A **drain** is a run of turns by one
//! thread, from taking the mailbox over to letting it go.

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

#[doc = include_str!("09-batches.md")]
pub mod batches {}

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

#[doc = include_str!("15-time.md")]
pub mod time {}
