//! Waiting at a mailbox: until it is idle, until it has ended, until there is room.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::block::Extra;
use super::handle::Handle;
use super::letter::Letter;
use super::local::with_local;
use super::plan::Overflow;
use super::relief::{WouldBlock, park, relieve};
use super::room::{Held, Seated, Waiting};
use super::storage::before_pending;
use crate::error::{AskError, Reason};
use crate::mailbox::node::NodePtr;
use crate::mailbox::word::{CLOSED, Snapshot};
use crate::reply::{Asker, cell};
use crate::sync::thread;
use crate::wait::{Deadline, Limit, Waiter, Waiters};

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWaited {
    TimedOut,
    Deadlock,
    WouldBlock,
}

impl<S: 'static> Handle<S> {
    /// When a wait that begins now ends, by the actor's clock.
    pub(crate) fn deadline(&self, limit: Limit) -> Deadline<'_> {
        Deadline::new(self.core().clock(), limit)
    }

    /// Would this thread wait for itself?
    fn is_running_here(&self) -> bool {
        with_local(|local| local.is_running(self.ptr()))
    }

    /// Waits until nothing runs or waits in the mailbox (R14).
    pub(crate) fn wait_idle(&self, deadline: Deadline<'_>) -> Result<(), NotWaited> {
        let idle = |now: Snapshot| now.count() == 0;
        self.wait_until(deadline, idle, |extra| &extra.watchers, || self.core().word.watch(|now| !now.is_parked()).is_ok())
    }

    /// Waits until the mailbox is closed, and has ended.
    pub(crate) fn wait_ended(&self, deadline: Deadline<'_>) -> Result<(), NotWaited> {
        let ended = |now: Snapshot| now.has(CLOSED) && now.count() == 0;
        self.wait_until(deadline, ended, |extra| &extra.mourners, || !ended(self.core().word.meet()))
    }

    /// Waits until `over` holds of the word: stands in a list, sees by `stay` that it will be woken, and sleeps.
    fn wait_until(
        &self,
        deadline: Deadline<'_>,
        over: impl Fn(Snapshot) -> bool,
        list: impl Fn(&Extra) -> &Waiters,
        stay: impl Fn() -> bool,
    ) -> Result<(), NotWaited> {
        loop {
            if over(self.core().word.look()) {
                return Ok(());
            }
            if self.is_running_here() {
                return Err(NotWaited::Deadlock);
            }
            if self.drain() {
                continue;
            }
            let waiters = list(self.core().extra_made());
            let number = waiters.add(Waiter::Thread(thread::current()));
            let in_time = if stay() { park(deadline) } else { Ok(true) };
            waiters.remove(number);
            if !in_time.map_err(|WouldBlock| NotWaited::WouldBlock)? {
                return if over(self.core().word.look()) { Ok(()) } else { Err(NotWaited::TimedOut) };
            }
        }
    }

    /// Sends a letter, and waits for room until `deadline` if the mailbox is full.
    pub(crate) fn send_within<L: Letter<S>>(&self, letter: L, limit: Limit) -> Result<(), (L, Reason)> {
        if limit == Limit::Immediate || self.core().about().overflow != Overflow::Reject {
            return self.send(letter);
        }
        let deadline = self.deadline(limit);
        let mut letter = letter;
        loop {
            letter = match self.send(letter) {
                Err((letter, Reason::Full)) => letter,
                done => return done,
            };
            if self.is_running_here() {
                return Err((letter, Reason::Deadlock));
            }
            let mut seat = Seat::take(self, letter);
            letter = match seat.wait(deadline) {
                Waited::Answered(answer) => return answer,
                Waited::Back(letter) => letter,
                Waited::TimedOut(letter) => return Err((letter, Reason::Full)),
                Waited::WouldBlock(letter) => return Err((letter, Reason::WouldBlock)),
            };
        }
    }

    /// Sends a letter, and waits for room without blocking the thread if the mailbox is full.
    pub(crate) fn send_async<L: Letter<S>>(&self, letter: L) -> Sending<'_, S, L> {
        Sending { handle: self, step: Step::Try(letter) }
    }
}

/// A place in the queue of those who wait for room.
struct Seat<'a, S: 'static, L: Letter<S>> {
    handle: &'a Handle<S>,
    asker: Asker<Seated<L>, L>,
    number: u64,
}

/// What became of a wait for room.
enum Waited<L> {
    /// It was sent, or refused.
    Answered(Result<(), (L, Reason)>),
    /// It was not sent: something has changed, try again.
    Back(L),
    /// It was not sent, and certainly will not be.
    TimedOut(L),
    /// The same: this thread may not sleep.
    WouldBlock(L),
}

impl<'a, S: 'static, L: Letter<S>> Seat<'a, S, L> {
    fn take(handle: &'a Handle<S>, letter: L) -> Self {
        let (answerer, asker) = cell(Waiting(letter));
        let node = NodePtr::new(Held::<S, L>::new(answerer));
        let number = handle.core().extra_made().room.sit(node, Held::<S, L>::KIND);
        Seat { handle, asker, number }
    }

    /// Will the owner come to this seat? If not, there is room, or nobody is there to see it.
    fn stays(&self) -> bool {
        let limit = u64::from(self.handle.core().about().limit);
        let full = |now: Snapshot| !now.is_parked() && !now.has(CLOSED) && (now.is_watched() || now.waiting() >= limit);
        self.handle.core().word.watch(full).is_ok()
    }

    fn answer(&mut self) -> Option<Result<(), (L, Reason)>> {
        Some(match self.asker.take()? {
            Ok(None) => Ok(()),
            Ok(Some(refused)) => Err(refused),
            Err(AskError::Deadlock | _) => unreachable!("a seat is answered with a letter or nothing"),
        })
    }

    /// Gives up; the letter, unless it was let in meanwhile.
    fn give_up(&mut self) -> Option<L> {
        let letter = self.asker.cancel()?;
        if let Some(node) = self.handle.core().extra_made().room.rise(self.number) {
            // SAFETY: S1: taken out of the queue, it is ours; it was made by `take` of such a message and pushed nowhere.
            unsafe { node.take_back::<Held<S, L>>() }.abandon();
        }
        Some(letter)
    }

    fn wait(&mut self, deadline: Deadline<'_>) -> Waited<L> {
        let stays = self.stays();
        let (mut in_time, mut may_sleep) = (true, true);
        if stays && self.asker.watch(Waiter::Thread(thread::current())) {
            let away = with_local(relieve);
            may_sleep = away.is_ok();
            while may_sleep && !self.asker.is_done() && in_time {
                in_time = deadline.park();
            }
        }
        if let Some(answer) = self.answer() {
            return Waited::Answered(answer);
        }
        match self.give_up() {
            Some(letter) if !may_sleep => Waited::WouldBlock(letter),
            Some(letter) if in_time => {
                // Parked, and nobody carries it: this thread does.
                self.handle.drain();
                Waited::Back(letter)
            }
            Some(letter) => Waited::TimedOut(letter),
            None => Waited::Answered(self.let_in()),
        }
    }

    /// The answer of an owner who is just letting this seat in.
    fn let_in(&mut self) -> Result<(), (L, Reason)> {
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            if self.asker.watch(Waiter::Thread(thread::current())) {
                thread::park();
            }
        }
    }
}

/// A letter on its way into a mailbox that may be full.
pub(crate) struct Sending<'a, S: 'static, L: Letter<S>> {
    handle: &'a Handle<S>,
    step: Step<'a, S, L>,
}

enum Step<'a, S: 'static, L: Letter<S>> {
    Try(L),
    Wait(Seat<'a, S, L>),
    Over,
}

// Nothing in it is pinned: the letter and the seat are moved freely.
impl<S: 'static, L: Letter<S>> Unpin for Sending<'_, S, L> {}

impl<S: 'static, L: Letter<S>> Future for Sending<'_, S, L> {
    type Output = Result<(), (L, Reason)>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match std::mem::replace(&mut this.step, Step::Over) {
                Step::Try(letter) => match this.handle.send(letter) {
                    Err((letter, Reason::Full)) if this.handle.core().about().overflow == Overflow::Reject => {
                        if this.handle.is_running_here() {
                            return Poll::Ready(Err((letter, Reason::Deadlock)));
                        }
                        this.step = Step::Wait(Seat::take(this.handle, letter));
                    }
                    done => return Poll::Ready(done),
                },
                Step::Wait(mut seat) => {
                    if seat.stays() && seat.asker.watch(Waiter::Task(cx.waker().clone())) {
                        this.step = Step::Wait(seat);
                        before_pending();
                        return Poll::Pending;
                    }
                    if let Some(answer) = seat.answer() {
                        return Poll::Ready(answer);
                    }
                    let Some(letter) = seat.give_up() else { return Poll::Ready(seat.let_in()) };
                    this.handle.drain();
                    this.step = Step::Try(letter);
                }
                Step::Over => panic!("polled after it was ready"),
            }
        }
    }
}

impl<S: 'static, L: Letter<S>> Drop for Sending<'_, S, L> {
    fn drop(&mut self) {
        if let Step::Wait(seat) = &mut self.step {
            drop(seat.give_up());
        }
    }
}
