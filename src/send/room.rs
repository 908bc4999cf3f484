//! Waiting for room in a full mailbox, first come, first served.
//!
//! A sender that waits leaves its message in a oneshot and a node that leads to it in the mailbox's
//! queue of seats ([`crate::mailbox::seats`]), sets WATCH so that the owner looks there, and
//! sleeps. The owner pushes the nodes in the order of the queue, in place of turns that are done: a
//! place that becomes free goes to whoever has waited longest, and no sender that comes later sees
//! it free.
//!
//! A seat is given up by its drop: whatever unwinds or forgets nothing of it is left in the queue.
//! One that is forgotten stays there until the actor ends, which gives its message back before the
//! end.

use std::task::{Context, Poll};

use crate::budget::Until;
use crate::cell::refs::Strong;
use crate::drain::blocking::{before_pending, is_pending_for, relieve, told};
use crate::drain::context::with_local;
use crate::envelope::seated::{Seated, Seating, Waiting};
use crate::error::Reason;
use crate::mailbox::node::{Envelope, NodePtr};
use crate::mailbox::oneshot::{Asker, oneshot};
use crate::mailbox::word::{CLOSED, Snapshot};
use crate::panic;
use crate::send::push::By;
use crate::send::wait::Hold;
use crate::sync::thread;
use crate::time::Cutoff;
use crate::wait_list::Waiter;

/// A place in the queue of those that wait for room.
pub(crate) struct Seat<S: 'static, E: Envelope> {
    handle: Strong<S>,
    asker: Asker<Seating<E>, E>,
    number: u64,
}

/// What became of a message: it was sent, or comes back.
type Sent<E> = Result<(), (E, Reason)>;

impl<S: 'static> Strong<S> {
    /// Sends a message; if the mailbox is full, a seat in its queue comes back instead.
    pub(crate) fn send_or_sit<E: Envelope>(
        &self,
        message: E,
        by: By,
    ) -> Result<Sent<E>, Seat<S, E>> {
        let mut message = message;
        loop {
            message = match with_local(|local| self.push(local, Snapshot::IDLE, message, by)) {
                Err((message, Reason::Full)) => match self.own_circle() {
                    Some(cycle) => return Ok(Err((message, Reason::Deadlock(cycle)))),
                    None => message,
                },
                sent => return Ok(sent),
            };
            let mut seat = Seat::take(self, message);
            if seat.stays() {
                return Err(seat);
            }
            // There is room by now, or the mailbox is closed.
            message = match seat.give_up() {
                Some(message) => message,
                None => return Ok(seat.let_in()),
            };
        }
    }
}

impl<S: 'static, E: Envelope> Seat<S, E> {
    fn take(handle: &Strong<S>, message: E) -> Self {
        let (answerer, asker) = oneshot(Waiting(message));
        let node = NodePtr::new(Seated::<E>::new(answerer));
        let header = handle.header();
        let number = header.ext_made().room.add(node, Seated::<E>::KIND);
        Seat { handle: handle.clone(), asker, number }
    }

    pub(crate) fn handle(&self) -> &Strong<S> {
        &self.handle
    }

    /// Withdraws the message, unless it was let in meanwhile.
    pub(crate) fn into_message(mut self) -> Option<E> {
        self.give_up()
    }

    /// Will an owner come to this seat? If not, there is room, or nobody is there to see it.
    fn stays(&self) -> bool {
        let header = self.handle.header();
        let limit = u64::from(header.config().limit);
        let first = header.ext_made().room.is_first(self.number);
        let stays = |now: Snapshot| !now.has(CLOSED) && (!first || now.waiting() >= limit);
        header.word.watch(stays).is_ok()
    }

    fn answer(&mut self) -> Option<Sent<E>> {
        // A seat is answered with a message or nothing.
        Some(self.asker.take()?.ok().flatten().map_or(Ok(()), Err))
    }

    /// Gives up: the message, unless it was let in meanwhile.
    fn give_up(&mut self) -> Option<E> {
        let message = self.asker.cancel()?;
        if let Some(node) = self.handle.header().ext_made().room.remove(self.number) {
            // SAFETY: S1: taken out of the queue, it is ours; `take` made it of such a message, and
            // it is pushed nowhere.
            unsafe { node.take_back::<Seated<E>>() }.abandon();
        }
        Some(message)
    }

    /// Waits until the message is in, refused, or the time is over ([`Reason::Full`]).
    pub(crate) fn wait(mut self, deadline: Cutoff<'_>) -> Sent<E> {
        loop {
            let ended = self.wait_here(deadline);
            if let Some(answer) = self.answer() {
                return answer;
            }
            let Some(message) = self.give_up() else { return self.let_in() };
            match ended {
                Ended::TimedOut => return Err((message, Reason::Full)),
                Ended::Refused(reason) => return Err((message, reason)),
                Ended::Changed => match self.handle.send_or_sit(message, By::Sender) {
                    Ok(sent) => return sent,
                    Err(seat) => self = seat,
                },
            }
        }
    }

    fn wait_here(&mut self, deadline: Cutoff<'_>) -> Ended {
        if deadline.is_over() {
            return Ended::TimedOut;
        }
        // A thread that waits runs what is pending, if the actor allows that.
        let done = || self.asker.is_done();
        self.handle.to_ref().help(&Until { done: &done, deadline });
        if !self.stays() || !self.asker.watch(Waiter::Thread(thread::current())) {
            return Ended::Changed;
        }
        let Ok(_away) = with_local(relieve) else { return Ended::Refused(Reason::WouldBlock) };
        let cell = self.handle.to_ref();
        match cell.sleep_for(&self.asker, deadline, Hold::Nothing) {
            Err(cycle) => Ended::Refused(Reason::Deadlock(cycle)),
            Ok(()) if self.asker.is_done() => Ended::Changed,
            Ok(()) => Ended::TimedOut,
        }
    }

    /// The answer of an owner that is just letting this seat in.
    fn let_in(&mut self) -> Sent<E> {
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            if self.asker.watch(Waiter::Thread(thread::current())) {
                thread::park();
            }
        }
    }

    /// The same as [`wait`](Self::wait) for a task. Runs no turn.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Sent<E>> {
        let mailbox = self.handle.addr();
        loop {
            if let Some(cycle) = told(cx.waker(), mailbox) {
                return Poll::Ready(match self.give_up() {
                    Some(message) => Err((message, Reason::Deadlock(cycle))),
                    None => self.let_in(),
                });
            }
            // User code first: if it panics, the seat is as it was.
            let waiter = Waiter::Task(cx.waker().clone());
            if !self.stays() {
                // Here, and not when this returns: a waker whose drop panics would cost the
                // message.
                panic::ignore(|| drop(waiter));
            } else if self.asker.watch(waiter) {
                before_pending(cx.waker());
                is_pending_for(cx.waker(), mailbox);
                return Poll::Pending;
            }
            if let Some(answer) = self.answer() {
                return Poll::Ready(answer);
            }
            let Some(message) = self.give_up() else { return Poll::Ready(self.let_in()) };
            match self.handle.send_or_sit(message, By::Poster) {
                Ok(sent) => return Poll::Ready(sent),
                Err(seat) => *self = seat,
            }
        }
    }
}

/// How a wait ended.
enum Ended {
    /// There is an answer, or room.
    Changed,
    TimedOut,
    /// This thread must not wait.
    Refused(Reason),
}

impl<S: 'static, E: Envelope> Drop for Seat<S, E> {
    fn drop(&mut self) {
        drop(self.give_up());
    }
}
