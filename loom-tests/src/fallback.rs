//! Where drains go whose actor has no executor: here, the thread that submits them.
//!
//! Inside the call that submits it the drain is put off until that is over, like everything that an
//! executor runs there.

use super::cell::executor::{self, Drain, Executor};

pub(crate) struct Fallback;

impl Executor for Fallback {
    fn execute(&self, drain: Drain) {
        drain.run();
    }

    /// No other thread goes on with anything: without an executor of its own, an actor has no
    /// budget.
    fn is_closed(&self) -> bool {
        true
    }
}

impl executor::Fallback for Fallback {}
