//! One actor's memory: the header with word, flags and configuration, the state, and the counts
//! that keep them. No loop and no thread: what runs turns is above.
//!
//! | type                         | is                                                       | made by                     | given up by                       |
//! |------------------------------|----------------------------------------------------------|-----------------------------|-----------------------------------|
//! | [`Strong<S>`](refs::Strong)  | one of the handles that keep an actor going              | `new`, clone, `upgrade`     | its drop; the last raises ORPHAN  |
//! | [`Ref`](refs::Ref)           | one count of the cell's memory                           | a handle, an owner, another | its drop; the last frees          |
//! | [`Weak<S>`](refs::Weak)      | a `Ref` that knows the state's type                      | the same                    | the same                          |
//! | [`Owner`](owner::Owner)      | the right to run the mailbox, on this thread             | the step that wins it       | release, or being left pending    |
//! | [`Resting`](header::Resting) | the same, on no thread: in a suspended turn              | its owner                   | becoming an owner again           |
//! | [`BuiltRef`](built)          | one count of a built configuration                       | a builder, clone; a cell    | its drop; the last frees          |
//! | [`Sole`](refs::Sole)         | a cell that nothing else can reach                       | the drop of the last handle | being freed                       |
//! | [`Drain`](executor::Drain)   | a `Ref` and the SCHEDULED bit: one entry in an executor  | `schedule`                  | being run, or dropped             |

pub(crate) mod batch;
pub(crate) mod built;
pub(crate) mod config;
pub(crate) mod counts;
pub(crate) mod executor;
pub(crate) mod header;
pub(crate) mod message;
pub(crate) mod observe;
pub(crate) mod owner;
pub(crate) mod reclaim;
pub(crate) mod refs;
pub(crate) mod resident;
pub(crate) mod restarts;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod turn;
pub(crate) mod typed;
