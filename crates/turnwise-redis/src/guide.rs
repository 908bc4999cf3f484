//! The guide: queues of jobs for those who come from elsewhere, and how often things happen. It
//! holds text and examples and nothing else. Each example is a whole program, and is run as a test.
//!
//! | chapter | is about |
//! |---|---|
//! | [01. Coming from elsewhere](self::migration) | queues with workers, from BullMQ, Sidekiq and apalis |
//! | [02. Exactly once](self::once) | what happens exactly once, what at least once, and what at most once |
//!
//! Words used throughout: a **message** is a job. An **actor** is a queue of messages with a state
//! of its own, and runs one message at a time. A **kind** is all actors of one type. A **drainer**
//! is the process that runs an actor's messages for the moment, and holds its mailbox by a
//! **lease**. The README has [locks, admission and ticks](crate).

#![forbid(unsafe_code)]

#[doc = include_str!("../docs/guide/01-migration.md")]
pub mod migration {}

#[doc = include_str!("../docs/guide/02-once.md")]
pub mod once {}
