//! The guide: locks by key, from the first line to leases and fences; slots, admission, ticks. It
//! holds text and examples and nothing else. Each example is a whole program, and is run as a test.
//!
//! | chapter | is about |
//! |---|---|
//! | [01. Closures by key](self::keyed) | closures by key: calls, limits, outcomes, states, panics, the end |
//! | [02. Lock objects](self::objects) | locks that a guard holds: exclusive, for readers, permits, a latch |
//! | [03. Leases and fences](self::leases) | what happens when a lease is over, and what a fence is for |
//! | [04. Slots, admission, ticks](self::places) | numbered slots, admission to a limit, jobs that run once per tick |
//! | [05. Coming from elsewhere](self::migration) | from Redisson, Kotlin, a map of mutexes, tokio, parking_lot, std |
//!
//! Words used throughout: a **run** is one closure of one key. A **hold** is what a guard stands
//! for, from being let in to its release or its loss. A **turn** is one message of an actor, run
//! with exclusive access to that actor's state: a run is a turn of its key, and each request for a
//! lock is a short turn of the lock. Actors are those of the crate turnwise, whose own
//! [guide](turnwise::guide) tells of [limits and clocks](turnwise::guide::limits),
//! [executors](turnwise::guide::executors), [timers](turnwise::guide::time) and [tests without
//! sleeping](turnwise::guide::testing).

#![forbid(unsafe_code)]

#[doc = include_str!("../docs/guide/01-keyed.md")]
pub mod keyed {}

#[doc = include_str!("../docs/guide/02-objects.md")]
pub mod objects {}

#[doc = include_str!("../docs/guide/03-leases.md")]
pub mod leases {}

#[doc = include_str!("../docs/guide/04-places.md")]
pub mod places {}

#[doc = include_str!("../docs/guide/05-migration.md")]
pub mod migration {}
