//! The batches of an actor that is observed ([`super::observe`]), and the user's hook at their end.

use std::sync::Arc;

use super::config::Plan;
use super::header::{Header, Held};
use super::observe::BatchEnd;
use super::owner::Owner;
use super::typed::Cell;
use crate::panic::{self, Payload};

/// The batch of one owner, of an actor that is observed.
#[derive(Default)]
pub(crate) struct Observed {
    turns: u64,
}

impl Observed {
    /// A message is taken up: it is run, or given back.
    pub(crate) fn takes_up(&mut self, header: &Header, runs: bool) {
        if runs {
            self.turns += 1;
        } else {
            header.undelivered();
        }
    }

    /// Its turn waits.
    pub(crate) fn stays_open(&mut self, header: &Header) {
        header.ext_made().told.lock().turns = std::mem::take(&mut self.turns);
    }

    /// Its turn goes on.
    pub(crate) fn goes_on(&mut self, header: &Header) {
        self.turns += std::mem::take(&mut header.ext_made().told.lock().turns);
    }

    /// Ends a batch that has begun: the next turn begins another one.
    pub(crate) fn end(&mut self, owner: &mut Owner) {
        let turns = std::mem::take(&mut self.turns);
        if turns == 0 {
            return;
        }
        owner.header().count(|stats| stats.handled += turns);
        let hook = owner.header().config().observers.on_batch_end.as_ref();
        if let Some(Err(payload)) = hook.map(|hook| hook.batch_ends(owner, turns)) {
            // A hook has no place in the mailbox, which a restart that comes later would take.
            let _at_once = owner.recover(&payload, false);
            panic::discard(payload);
        }
    }
}

/// The user's hook, for actors with a state of type `S`.
struct BatchHook<S>(Box<OnBatchEnd<S>>);

type OnBatchEnd<S> = dyn Fn(&mut S, u64) + Send + Sync;

impl<S: 'static> Plan<S> {
    /// Has the hook called at the end of each batch. It takes the place of an earlier one.
    pub(crate) fn on_batch_end(&mut self, hook: impl Fn(&mut S, u64) + Send + Sync + 'static) {
        self.settings.observers.on_batch_end = Some(Arc::new(BatchHook::<S>(Box::new(hook))));
    }
}

impl<S: 'static> BatchEnd for BatchHook<S> {
    fn batch_ends(&self, owner: &dyn Held, turns: u64) -> Result<(), Payload> {
        let hook = |state: &mut S| (self.0)(state, turns);
        // SAFETY: HEADER-1: the owner calls this between two turns, so nothing borrows the state,
        // and before the actor ends, so it is there. It is an S: the hook was made for the plan of
        // such a state, whose settings are those of its cells alone.
        panic::catch(|| unsafe { Cell::with_state(owner.cell(), hook) })
    }
}
