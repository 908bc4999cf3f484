//! The guide: from a counter to a small service, one chapter per page. It holds text and examples
//! and nothing else. Each example is a whole program, and is run as a test.
//!
//! For a program that is written with something else today, begin with [chapter
//! 20](self::migration); for a task at hand, with the programs of [chapter 18](self::cookbook); for
//! a service on tokio, with [chapter 16](self::tokio).
//!
//! ## Tutorial, in this order
//!
//! | chapter | is about |
//! |---|---|
//! | [01. A counter](self::counter) | sending, reading, order, what a turn is |
//! | [02. Closures or messages](self::messages) | closures or typed messages |
//! | [03. Asking](self::asking) | replies, waiting, giving up with a certain outcome |
//! | [04. Turns that wait](self::async_turns) | `async` turns: what happens at an await, which executor, testing |
//! | [05. A small service](self::service) | all of it together: an order desk |
//!
//! ## Topics
//!
//! | chapter | is about |
//! |---|---|
//! | [06. Limits](self::limits) | how long a call may wait, by which clock, and a clock for tests |
//! | [07. Time](self::time) | functions and messages that come later, or again and again |
//! | [08. Panics](self::panics) | what a panic in a turn does, and who learns of it |
//! | [09. Back-pressure](self::back_pressure) | full mailboxes: refuse, wait for room, drop the newest or the oldest |
//! | [10. Choosing an executor](self::executors) | which threads run an actor |
//! | [11. Budgets and latency](self::budgets) | how long a drain keeps its thread, and who waits for it |
//! | [12. Many messages at once](self::batches) | many messages at once; an event loop of your own; a state made on first use |
//! | [13. Ending](self::ending) | close, stop, the last handle, waiting for the end |
//! | [14. Shutting down](self::shutting_down) | ending all actors of a program, in order and in time |
//! | [15. Watching](self::watching) | names in errors and panics, what is lost, counters, events, spans |
//! | [16. In a service: tokio and axum](self::tokio) | actors in an async service: bounds, time-outs, what runs where, the shutdown |
//! | [17. Testing without sleeping](self::testing) | testing without sleeping |
//!
//! ## At hand
//!
//! | chapter | is about |
//! |---|---|
//! | [18. Cookbook](self::cookbook) | whole programs: timer, supervisor, cache, rate limiter, stages, batch writer, only the newest, registry, topic |
//! | [19. Questions and answers](self::faq) | questions that come up, answered in a few lines |
//! | [20. Coming from elsewhere](self::migration) | from mutexes, channels, tokio tasks, actix, kameo, ractor, xtra, Pekko |
//!
//! ## Reference
//!
//! | chapter | is about |
//! |---|---|
//! | [Guarantees](self::guarantees) | which call does what: progress, locks, threads, with the tests |
//! | [User code](self::user_code) | where the crate calls code that is not its own |
//! | [Performance](self::performance) | what was measured, losses first |
//! | [Verification](self::verification) | how it is tested |
//!
//! Words used throughout: a **mailbox** holds the messages for one object. A **turn** is one
//! message, run with exclusive access to that object's state. A **drain** is a run of turns by one
//! thread, from taking the mailbox over to letting it go.
//!
//! Locks by key, lock objects with leases, numbered slots and more are in the crate
//! `turnwise-locks`, which has [a guide of its
//! own](https://docs.rs/turnwise-locks/latest/turnwise_locks/guide/index.html).

#![forbid(unsafe_code)]

#[doc = include_str!("../docs/guide/01-counter.md")]
pub mod counter {}

#[doc = include_str!("../docs/guide/02-messages.md")]
pub mod messages {}

#[doc = include_str!("../docs/guide/03-asking.md")]
pub mod asking {}

#[doc = include_str!("../docs/guide/04-async-turns.md")]
pub mod async_turns {}

#[doc = include_str!("../docs/guide/05-service.md")]
pub mod service {}

#[doc = include_str!("../docs/guide/06-limits.md")]
pub mod limits {}

#[doc = include_str!("../docs/guide/07-time.md")]
pub mod time {}

#[doc = include_str!("../docs/guide/08-panics.md")]
pub mod panics {}

#[doc = include_str!("../docs/guide/09-back-pressure.md")]
pub mod back_pressure {}

#[doc = include_str!("../docs/guide/10-executors.md")]
pub mod executors {}

#[doc = include_str!("../docs/guide/11-budgets.md")]
pub mod budgets {}

#[doc = include_str!("../docs/guide/12-batches.md")]
pub mod batches {}

#[doc = include_str!("../docs/guide/13-ending.md")]
pub mod ending {}

#[doc = include_str!("../docs/guide/14-shutting-down.md")]
pub mod shutting_down {}

#[doc = include_str!("../docs/guide/15-watching.md")]
// As that of the next chapter.
#[cfg_attr(feature = "tracing", doc = "```rust")]
#[cfg_attr(not(feature = "tracing"), doc = "```ignore")]
#[doc = include_str!("../docs/guide/15-watching.rs")]
#[doc = "```"]
#[doc = include_str!("../docs/guide/15-watching-end.md")]
pub mod watching {}

#[doc = include_str!("../docs/guide/16-tokio.md")]
// The program is shown in any case, and is a test where it can be compiled.
#[cfg_attr(feature = "tokio", doc = "```rust")]
#[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
#[doc = include_str!("../docs/guide/16-tokio.rs")]
#[doc = "```"]
#[doc = include_str!("../docs/guide/16-tokio-end.md")]
pub mod tokio {}

#[doc = include_str!("../docs/guide/17-testing.md")]
pub mod testing {}

#[doc = include_str!("../docs/guide/18-cookbook.md")]
pub mod cookbook {}

#[doc = include_str!("../docs/guide/19-faq.md")]
pub mod faq {}

#[doc = include_str!("../docs/guide/20-migration.md")]
pub mod migration {}

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

/// [readme]: crate
#[doc = include_str!("../docs/charts/actors.md")]
#[doc = include_str!("../docs/charts/throughput.md")]
#[doc = include_str!("../docs/charts/latency.md")]
#[doc = include_str!("../docs/charts/cpu.md")]
///
#[doc = include_str!("../docs/performance.md")]
pub mod performance {}

/// [guarantees]: crate::guide::guarantees
///
#[doc = include_str!("../docs/verification.md")]
pub mod verification {}

#[doc = include_str!("../docs/user-code.md")]
pub mod user_code {}
