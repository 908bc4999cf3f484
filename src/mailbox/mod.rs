//! The mailbox: one word ([`word`]), messages in nodes ([`node`], [`list`]), the nodes' memory
//! ([`chunk`]), room for messages ([`semaphore`]), and one answer ([`oneshot`]).
//!
//! This floor knows no actor, no state, no thread that drains and no executor. Nodes hang newest
//! first from the word's HEAD; an owner takes them all at once and reverses them into a private
//! [`Batch`](list::Batch), oldest first. Nothing is ever popped singly from the shared list, so
//! there is no ABA, and no epochs or hazard pointers are needed.
//!
//! # Words
//! | word        | meaning                                                                                  |
//! |-------------|------------------------------------------------------------------------------------------|
//! | turn        | one message, run with exclusive access to the state                                      |
//! | owner       | the thread that runs a mailbox, from winning it to letting it go ([`Owner`])             |
//! | drain       | one owner's run of turns; also the entry by which an executor is asked for one           |
//! | batch       | the messages that an owner has taken at once, and has not run yet                        |
//! | pending     | a mailbox has messages and no owner                                                      |
//! | to schedule | to hand a pending mailbox to its executor                                                |
//! | to defer    | to put a pending mailbox on this thread's own list, which is run after the turn          |
//! | fallback    | where a pending mailbox goes whose actor has no executor                                 |
//! | settled     | COUNT says that a turn is done                                                           |
//! | permit      | room for one message that waits in a mailbox with a capacity                             |
//! | waiter      | one that waits for a permit, with its message                                            |
//! | to take up  | to take a message off the private list, for its turn                                     |
//! | idle        | no message runs or waits                                                                 |
//! | entry       | what stands for a pending mailbox in a thread's list or in an executor; there is one     |
//! | hint        | a reference beside it, by which the mailbox may be taken over too                        |
//! | orphan      | a mailbox whose last handle is gone                                                      |
//! | ended       | the state was taken out, and the end hook called                                         |
//!
//! # Rules
//! Each has models that bear its number, and planted bugs that turn them red (`loom-tests`).
//!
//! - **MAILBOX-1, one owner.** The step that moves COUNT from 0, or takes a pending mailbox over,
//!   owns it, whatever the flags. A push that is refused changes nothing in the word.
//! - **MAILBOX-2, nodes.** A message is one node. Its sender holds it until it is pushed, the owner
//!   afterwards; only the holder touches it, and only the owner frees one that was pushed. LINK is
//!   read before the turn, never after. Freed nodes are counted down a row at a time.
//! - **MAILBOX-3, addresses.** Nodes are linked by integers; the holder turns them into pointers
//!   when it walks. A stale address in a failing compare-and-swap is compared, never followed. User
//!   addresses lie below 2^48.
//! - **MAILBOX-4, borrowed messages.** The node of `with` lies in the caller's frame, and is
//!   reached through one pointer until its completion is stored: the drainer's last access to it.
//!   It is never handed to a hook: one that does not run is answered, and its caller drops the
//!   closure.
//! - **MAILBOX-5, cancel.** A question lies in a oneshot. One compare-and-swap decides between
//!   running and being withdrawn; the winner alone touches the question. A withdrawn one keeps its
//!   place until that is passed.
//! - **MAILBOX-6, capacity** counts waiting messages, not the running one: each holds a permit from
//!   its acceptance to the beginning of its turn, and a turn that has begun holds none. While a
//!   sender waits for room, no permit is free: the owner that gives one back pushes the message of
//!   the first that waits. A sender looks for such waiters before it claims an idle mailbox.
//! - **MAILBOX-7, close** is one raised flag: what was pushed before runs, what comes after is
//!   refused. The end-of-life step is done once, by the owner, when everything accepted is done.
//!   The one that closes gives those that wait for room their messages back. **Stop** is raised
//!   before close and looked at before each turn: what waits is given back.
//! - **MAILBOX-8, pending.** A mailbox has one entry, and SCHEDULED in the word says that it is
//!   out: in a thread's list, or in an executor. The step that leaves the mailbox pending raises
//!   SCHEDULED, and the step that has raised it puts the entry there. The step of the entry lowers
//!   it, and takes a pending mailbox over; if the mailbox is not pending then, the entry is stale
//!   and does nothing. A step that finds SCHEDULED raised may count on the entry, though not on
//!   when. Hints and drains beside the entry hold a reference; POSTED says that such a drain is
//!   out. Once messages were posted to an actor, a flag that its handle raises leaves a pending
//!   mailbox pending. A private list is saved in the cell.
//! - **MAILBOX-9, nesting.** A send from inside a turn defers the idle or pending mailbox that it
//!   meets: by its entry, or, if that is out, by a hint. A thread's outermost drain gives way at
//!   the end of its batch if its list has an entry. To run an entry or a hint is to take the
//!   mailbox over. A thread schedules its list if it is about to block inside a turn, or if a drain
//!   that is waited for, or is on top of a turn, goes on after some batches. A caller that waits on
//!   top of a turn runs a pending mailbox up to its own message and no further.
//! - **MAILBOX-10, last handle.** Dropping it raises ORPHAN; the owner ends the actor and gives the
//!   handles' reference up, and nothing touches the mailbox after that but its entry, if that is
//!   out: the last reference leaves the memory to it. No handle is made from a count of 0. What the
//!   end of one actor drops may end the next, in constant stack: ends are deferred, cells are freed
//!   one after the other. A thread that drops the last handle of an idle mailbox and finds itself
//!   alone with the cell (HEADER-5 of `cell::header`) needs no step: it drops the state, inside of
//!   no turn, and frees the cell, without a step of the word.
//! - **MAILBOX-11, panic.** User code is called through [`panic`](crate::panic) alone. What an
//!   owner has in hand lies outside of what may unwind, no user code runs while a thread unwinds,
//!   and the mailbox is let go before a panic is resumed on its caller.
//! - **MAILBOX-13, no waiting.** No thread waits for another one, but in calls that say so. No spin
//!   but the bounded back-off of a failed compare-and-swap.
//! - **MAILBOX-14, watch.** A waiter for idle stands in a list, then sets WATCH, on a word with
//!   COUNT > 0. WATCH stays until the release, which wakes those that wait for idle.
//!
//! [`Owner`]: crate::cell::owner::Owner

pub(crate) mod chunk;
pub(crate) mod list;
pub(crate) mod node;
pub(crate) mod oneshot;
pub(crate) mod semaphore;
pub(crate) mod word;

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "turnwise packs an address, a counter and flags into one 64-bit word: \
     it needs a 64-bit target with 48-bit user addresses"
);
