//! Sending and asking: the message is run on the spot if the mailbox is idle and this thread is
//! inside no turn, else it is left in the mailbox.

use std::panic::resume_unwind;

use super::push::{By, discharge};
use crate::cell::message::Message;
use crate::cell::owner::{Claimed, ClaimedBy};
use crate::cell::refs::{Ref, Strong};
use crate::cell::resident::InTurn;
use crate::cell::settings::Overflow;
use crate::error::{AskError, Reason, SendError, TurnPanic};
use crate::mailbox::list::Chain;
use crate::mailbox::node::Unsent;
use crate::mailbox::oneshot::{Asker, oneshot};
use crate::mailbox::word::Snapshot;
use crate::panic::{self, Payload};
use crate::thread::context::{Depth, Local, with_local};
use crate::turn::deferred::drain;
use crate::turn::envelope::ask::{Ask, Asked};
use crate::turn::envelope::give_back;
use crate::turn::envelope::tell::Tell;
use crate::turn::run::drive_after_panic;
use crate::turn::run_list::settle;

/// The answer to a question, or where it will be.
pub(crate) enum Answer<R, P> {
    Ready(Result<R, AskError>),
    Pending(Asker<R, P>, Ref),
}

impl<S: 'static> Strong<S> {
    /// Runs one message of this mailbox, which this thread has just claimed, and lets go.
    /// Everything but the good way is out of line: the result of a turn that panicked does not stay
    /// in registers past the release.
    #[inline(always)]
    pub(super) fn run_claimed<R>(
        &self,
        local: &Local,
        depth: Depth,
        mut claimed: ClaimedBy<S>,
        f: impl FnOnce(&mut S, InTurn<'_, S>) -> R,
    ) -> Result<R, Payload> {
        let turn = |claimed: &mut ClaimedBy<S>| panic::catch(|| claimed.turn(f));
        let ran = local.enter_from(depth, &mut claimed, turn);
        let claimed = claimed.into_claimed();
        match ran {
            Ok(value) => {
                match claimed.release_one() {
                    Ok(()) => settle(local),
                    Err(claimed) => go_on(local, claimed),
                }
                Ok(value)
            }
            Err(payload) => Err(claimed_panicked(local, claimed, payload)),
        }
    }

    #[inline(always)]
    pub(crate) fn send<L: Message<S>>(&self, message: L) -> Result<(), SendError<L>> {
        with_local(|local| {
            if local.in_turn() || !self.is_plain() {
                return self.send_elsewhere(local, message);
            }
            match self.claim() {
                Ok(claimed) => {
                    self.send_claimed(local, claimed, message);
                    Ok(())
                }
                Err(seen) => self.send_slow(local, seen, message, By::Sender),
            }
        })
    }

    /// Runs a message of a mailbox that this thread, inside no turn, has just claimed.
    #[inline(always)]
    fn send_claimed<L: Message<S>>(&self, local: &Local, claimed: ClaimedBy<S>, message: L) {
        let run = |state: &mut S, turn: InTurn<'_, S>| message.run_unasked(state, turn);
        if let Err(payload) = self.run_claimed(local, Depth::Outside, claimed, run) {
            panic::discard(payload);
        }
    }

    /// Sends a message that never runs in this call.
    pub(crate) fn post<L: Message<S>>(&self, message: L) -> Result<(), SendError<L>> {
        with_local(|local| self.send_slow(local, Snapshot::IDLE, message, By::Poster))
    }

    /// Sends a message that is not run in this call: its executor runs it, or this thread, when it
    /// is inside no turn any more. As long as the actor is busy, or its entry is out, that is one
    /// push.
    #[inline(never)]
    fn send_elsewhere<L: Message<S>>(&self, local: &Local, message: L) -> Result<(), SendError<L>> {
        if !self.is_direct() || !(self.has_executor() || local.in_turn()) {
            return match self.claim_late(Snapshot::IDLE, || !local.in_turn()) {
                Ok(claimed) => {
                    self.send_claimed(local, claimed, message);
                    Ok(())
                }
                Err(seen) => self.send_slow(local, seen, message, By::Sender),
            };
        }
        let node = Unsent::new(Tell::<S, L>::new(message));
        let left = if self.has_executor() {
            self.enter_one(local, node.node())
        } else {
            self.defer_one(local, node.node())
        };
        let Err(seen) = left else { return Ok(()) };
        let pushed = self.push_node(local, seen, node, By::Sender);
        pushed.map_err(|(tell, reason)| self.header().refused(1, tell.message, reason))
    }

    /// Puts a message in, by the rules for a full mailbox.
    #[inline(never)]
    fn send_slow<L: Message<S>>(
        &self,
        local: &Local,
        seen: Snapshot,
        message: L,
        by: By,
    ) -> Result<(), SendError<L>> {
        let seen = match self.claim_beside(seen) {
            Ok(claimed) => {
                self.send_claimed(local, claimed, message);
                return Ok(());
            }
            Err(seen) => seen,
        };
        match self.push(local, seen, Tell::new(message), by) {
            Ok(()) => Ok(()),
            Err((tell, Reason::Full)) if self.drops_newest() => {
                self.drop_newest(tell.message);
                Ok(())
            }
            Err((tell, reason)) => Err(self.header().refused(1, tell.message, reason)),
        }
    }

    pub(crate) fn drops_newest(&self) -> bool {
        self.header().config().overflow == Overflow::DropNewest
    }

    /// The mailbox is full, and the message goes to the hook.
    pub(crate) fn drop_newest<L: Message<S>>(&self, message: L) {
        self.header().undelivered();
        panic::ignore(|| give_back(self.on_undelivered(), self.header(), message));
    }

    /// Sends many messages in one step, in their order: all or none.
    pub(crate) fn send_many<L: Message<S>>(
        &self,
        messages: impl Iterator<Item = L>,
    ) -> Result<(), SendError<Vec<L>>> {
        let mut chain = Chain::<Tell<S, L>>::new();
        let mut take = |message| chain.append(Tell::new(message));
        let drawn = panic::catch(|| {
            drop(panic::owning(messages, |messages| messages.for_each(&mut take)));
        });
        if let Err(payload) = drawn {
            // Messages are user code to drop: none of them goes while the thread unwinds.
            chain.take_back().for_each(|tell| panic::ignore(|| drop(tell)));
            resume_unwind(payload);
        }
        with_local(|local| {
            let push = |links| self.push_links(local, Snapshot::IDLE, links, By::Sender);
            match chain.push(push) {
                None => Ok(()),
                Some(Ok(owed)) => {
                    discharge(local, &self.lent(), owed, By::Sender);
                    Ok(())
                }
                Some(Err((mut chain, reason))) => {
                    let back: Vec<_> = chain.take_back().map(|tell| tell.message).collect();
                    Err(self.header().refused(back.len() as u64, back, reason))
                }
            }
        })
    }

    #[inline(always)]
    pub(crate) fn ask<L: Message<S>>(
        &self,
        message: L,
        by: By,
    ) -> Result<Answer<L::Answer, L::Payload>, (L, Reason)> {
        with_local(|local| {
            let mut seen = Snapshot::IDLE;
            if by == By::Sender && !local.in_turn() && self.is_plain() {
                match self.claim() {
                    Ok(claimed) => return Ok(self.ask_claimed(local, claimed, message)),
                    Err(now) => seen = now,
                }
            }
            self.ask_slow(local, seen, message, by)
        })
    }

    /// As [`send_claimed`](Self::send_claimed).
    #[inline(always)]
    fn ask_claimed<L: Message<S>>(
        &self,
        local: &Local,
        claimed: ClaimedBy<S>,
        message: L,
    ) -> Answer<L::Answer, L::Payload> {
        let run = |state: &mut S, turn: InTurn<'_, S>| message.run(state, turn);
        let answer = self.run_claimed(local, Depth::Outside, claimed, run);
        Answer::Ready(answer.map_err(|payload| {
            let panic = TurnPanic::of(self.header().name(), &payload);
            panic::discard(payload);
            AskError::Panicked(panic)
        }))
    }

    #[inline(never)]
    fn ask_slow<L: Message<S>>(
        &self,
        local: &Local,
        seen: Snapshot,
        message: L,
        by: By,
    ) -> Result<Answer<L::Answer, L::Payload>, (L, Reason)> {
        let may_run = || by == By::Sender && !local.in_turn();
        let seen = match self.claim_late(seen, may_run) {
            Ok(claimed) => return Ok(self.ask_claimed(local, claimed, message)),
            Err(seen) => seen,
        };
        let (answerer, asker) = oneshot(Asked::new(message));
        match self.push(local, seen, Ask::<S, L>::new(answerer), by) {
            Ok(()) => Ok(Answer::Pending(asker, self.to_ref())),
            Err((ask, reason)) => Err((ask.take_back(asker), reason)),
        }
    }
}

/// Goes on with a claimed mailbox that could not be released after its first turn.
#[cold]
#[inline(never)]
fn go_on(local: &Local, claimed: Claimed) {
    match claimed.release_beside() {
        Ok(()) => settle(local),
        Err(claimed) => drain(local, claimed.into_owner()),
    }
}

/// Does what a panic in the first turn of a claimed mailbox leaves owing, and lets go.
#[cold]
#[inline(never)]
fn claimed_panicked(local: &Local, claimed: Claimed, payload: Payload) -> Payload {
    drive_after_panic(local, claimed.into_owner(), &payload);
    settle(local);
    payload
}
