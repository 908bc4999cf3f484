//! One thread's turns: the message in hand ([`hand`]), the loop of one mailbox ([`run`]) and that
//! of a thread's list ([`run_list`]), and the ways into them ([`deferred`], [`job`]).
//!
//! A drain begins with an [`Owner`](crate::cell::owner::Owner) and ends by letting it go: released,
//! left pending with an entry in this thread's list or in an executor, or ended for good; or it
//! lies down in a suspended turn, until that is woken ([`waking`]) or cut ([`cut`]). There is no
//! other way out, so ownership is never lost, whatever panics.

pub(crate) mod blocking;
pub(crate) mod cut;
pub(crate) mod deferred;
pub(crate) mod envelope;
mod hand;
mod job;
pub(crate) mod run;
pub(crate) mod run_list;
pub(crate) mod waking;
