//! `turnwise-locks` calls user code through a module of its own. Here it is the core's, which knows
//! the panics that a model plans.

pub(crate) use super::panic::{Payload, catch, discard, ignore, owning, text};
