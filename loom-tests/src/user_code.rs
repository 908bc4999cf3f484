//! `turnwise-locks` has its own door to user code. Here it is the core's, which knows the panics
//! that a model plans.

pub(crate) use super::panic::{Payload, catch, discard, ignore, owning, text};
