//! The handle: every way into a mailbox, from the sender's side. Safe to call; all that a user's call does starts here.
//!
//! The way of a send: `claim` (idle: the message is run on the spot, never stored, then `release_one`), or a node and `push`, and then
//! the [`Duty`] that the push left. A thread that is inside a turn never drains for a send: it parks and lists (R9).

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::block::{self, Block, Core, Extra, Plan, STOP};
use super::carrier::carry;
use super::envelope::{Ask, Borrowed, Outcome, Post};
use super::local::{Local, with_local};
use super::turns::{Place, after_panic, drive, run_list, run_list_nested, take_over, taken_over};
use crate::error::{AskError, Reason, panic_text};
use crate::mailbox::node::{Batch, Message, NodeOf, NodePtr, Panic};
use crate::mailbox::word::{CLOSED, Duty, Entry, ORPHAN, Refusal, Snapshot};
use crate::reply::{Asker, cell};
use crate::sync::config::SPINS;
use crate::sync::panic::catch;
use crate::sync::{hint, thread};
use crate::wait::{Deadline, Waiter, Waiters};

/// One of the handles that keep an actor going: the block's address, with [`POSTS`] in its lowest bit. The bit is in the handle so that a
/// send knows it without looking at the block: the word's line comes over by the claim alone.
pub(crate) struct Handle<S>(NonNull<Core>, PhantomData<fn(S) -> S>);

/// The mailbox has an executor: senders post, and do not drain.
const POSTS: usize = 1;
const _: () = assert!(align_of::<Core>() > POSTS);

/// Storage of an actor: it may have ended.
pub(crate) struct Storage(NonNull<Core>);

// SAFETY: the state is touched by one thread at a time (B1) and sent from one to the next; everything else in the block is atomic, locked,
// or the owner's.
unsafe impl<S: Send> Send for Handle<S> {}
// SAFETY: as above; a shared handle can do nothing that an owned one cannot.
unsafe impl<S: Send> Sync for Handle<S> {}
// SAFETY: storage alone touches atomics; the last one to go drops hooks, which are Send.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

/// The answer to a question, or where it will be.
pub(crate) enum Asked<R> {
    Ready(Result<R, AskError>),
    Pending(Asker<R>, Storage),
}

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWaited {
    TimedOut,
    Deadlock,
}

/// Who a push was made by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// It drains if it can.
    Sender,
    /// It never drains, and nobody is told.
    Enqueuer,
}

impl<S> Handle<S> {
    pub(crate) fn new(state: S) -> Self {
        // SAFETY: the new block's one handle.
        unsafe { Self::of(Block::create(state)) }
    }

    pub(crate) fn planned(state: S, plan: Plan<S>) -> Self {
        // SAFETY: the new block's one handle.
        unsafe { Self::of(Block::create_planned(state, plan)) }
    }

    /// # Safety
    /// `core` is alive, its state an S, and one of its handles is this one.
    unsafe fn of(core: *const Core) -> Self {
        // SAFETY: the caller's word.
        let posts = unsafe { (*core).about().executor.is_some() };
        let tagged = core.cast_mut().map_addr(|addr| addr | usize::from(posts) * POSTS);
        Handle(NonNull::new(tagged).expect("a block has an address"), PhantomData)
    }

    /// Do senders post, and not drain?
    #[inline(always)]
    fn posts(&self) -> bool {
        self.0.addr().get() & POSTS != 0
    }

    #[inline(always)]
    fn ptr(&self) -> *const Core {
        self.0.as_ptr().map_addr(|addr| addr & !POSTS)
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Core {
        // SAFETY: a handle keeps the block (B3).
        unsafe { &*self.ptr() }
    }

    pub(crate) fn storage(&self) -> Storage {
        // SAFETY: this handle keeps the block.
        unsafe { block::retain_storage(self.ptr()) };
        Storage(NonNull::new(self.ptr().cast_mut()).expect("a block has an address"))
    }

    /// How many handles there are; stale on return.
    pub(crate) fn handles(&self) -> u32 {
        // SAFETY: this handle keeps the block.
        unsafe { block::handles(self.ptr()) }
    }

    /// Why nothing is accepted.
    #[cold]
    fn reason(&self, refusal: Refusal) -> Reason {
        match refusal {
            Refusal::Full => Reason::Full,
            Refusal::Closed => {
                // The push that was refused read the word Relaxed: FAREWELL shows a STOP that was raised before CLOSED.
                self.core().word.look();
                self.core().stop_cause().map_or(Reason::Closed, Reason::Stopped)
            }
        }
    }

    /// Runs one message of this mailbox, which the caller has just claimed, and lets go.
    #[inline(always)]
    fn run_claimed<R>(&self, local: &Local, place: Place, f: impl FnOnce(&mut S) -> R) -> Result<R, Panic> {
        let result = local.enter(self.ptr(), || {
            // SAFETY: B1: claimed, so it is ours; the state is there, for a mailbox without one is closed.
            let result = catch(|| unsafe { Block::with_state(self.ptr(), f) });
            if let Err(panic) = &result {
                // SAFETY: ours, and the turn is over.
                unsafe { after_panic(self.ptr(), panic.as_ref()) };
            }
            result
        });
        if !self.core().word.release_one() {
            // SAFETY: ours, with nothing private and one turn not settled; this handle keeps the block.
            unsafe { drive(self.ptr(), Batch::new(), 1, place) };
        }
        if place == Place::Outermost && local.owes() {
            run_list(local);
        }
        result
    }

    /// Sends a closure: runs it here if the mailbox is idle and this thread is not inside a turn.
    #[inline]
    pub(crate) fn send<F>(&self, f: F) -> Result<(), (F, Reason)>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        with_local(|local| {
            let mut seen = Snapshot::IDLE;
            if !local.in_turn() && !self.posts() {
                match self.core().word.claim() {
                    Ok(()) => {
                        if let Err(panic) = self.run_claimed(local, Place::Outermost, f) {
                            drop_panic(panic);
                        }
                        return Ok(());
                    }
                    Err(now) => seen = now,
                }
            }
            self.push(local, seen, Post::new(f), By::Sender).map_err(|(post, reason)| (post.f, reason))
        })
    }

    /// Leaves a closure in the mailbox and never drains here.
    pub(crate) fn enqueue<F>(&self, f: F) -> Result<(), (F, Reason)>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        with_local(|local| {
            let pushed = self.push(local, Snapshot::IDLE, Post::new(f), By::Enqueuer);
            pushed.map_err(|(post, reason)| (post.f, reason))
        })
    }

    /// Sends many closures in one step, in their order: all or none.
    pub(crate) fn send_many<F>(&self, messages: impl Iterator<Item = F>) -> Result<(), (Vec<F>, Reason)>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        let mut chain = Chain::<Post<S, F>> { first: None, top: 0, len: 0, of: PhantomData };
        messages.for_each(|f| chain.append(Post::new(f)));
        let Some(first) = chain.first else { return Ok(()) };
        with_local(|local| match self.push_chain(local, Snapshot::IDLE, (first, chain.top, chain.len), By::Sender) {
            Ok(()) => {
                chain.forget();
                Ok(())
            }
            Err(reason) => Err((chain.take_back().map(|post| post.f).collect(), reason)),
        })
    }

    /// Asks: runs the question here if the mailbox is idle and this thread is not inside a turn.
    #[inline]
    pub(crate) fn ask<F, R>(&self, question: F) -> Result<Asked<R>, (F, Reason)>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        with_local(|local| {
            let mut seen = Snapshot::IDLE;
            if !local.in_turn() && !self.posts() {
                match self.core().word.claim() {
                    Ok(()) => {
                        let answer = self.run_claimed(local, Place::Outermost, question);
                        return Ok(Asked::Ready(answer.map_err(|panic| {
                            let text = panic_text(panic.as_ref());
                            drop_panic(panic);
                            AskError::Panicked(text)
                        })));
                    }
                    Err(now) => seen = now,
                }
            }
            self.ask_slow(local, seen, question)
        })
    }

    #[inline(never)]
    fn ask_slow<F, R>(&self, local: &Local, seen: Snapshot, question: F) -> Result<Asked<R>, (F, Reason)>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        let (answerer, asker) = cell(question);
        match self.push(local, seen, Ask::<S, F, R>::new(answerer), By::Sender) {
            Ok(()) => Ok(Asked::Pending(asker, self.storage())),
            Err((mut ask, reason)) => {
                let answerer = ask.answerer.take().expect("a question that was not accepted was not answered");
                Err((answerer.take_back(asker), reason))
            }
        }
    }

    /// Runs a closure and waits for it; it may borrow from the caller.
    ///
    /// # Panics
    /// With the closure's own panic.
    #[inline]
    pub(crate) fn with<F, R>(&self, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        with_local(|local| {
            let place = if local.in_turn() { Place::Nested } else { Place::Outermost };
            match self.core().word.claim() {
                Ok(()) => match self.run_claimed(local, place, f) {
                    Ok(result) => Ok(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                },
                Err(seen) => self.with_slow(local, place, seen, f),
            }
        })
    }

    #[inline(never)]
    fn with_slow<F, R>(&self, local: &Local, place: Place, seen: Snapshot, f: F) -> Result<R, AskError>
    where
        F: FnOnce(&mut S) -> R + Send,
        R: Send,
    {
        if local.is_running(self.ptr()) {
            return Err(AskError::Deadlock);
        }
        let mut frame = NodeOf::in_frame(Borrowed::<S, F, R>::new(f));
        let frame = &raw mut frame;
        let node = NodePtr::of_frame(frame);
        // SAFETY: E2: the frame is ours until the push, and from then on both sides use this one pointer.
        let message = unsafe { &*NodeOf::message(frame) };
        let limit = self.core().about().limit;
        let addr = node.addr();
        let duty = match self.core().word.push(seen, (addr, 1), limit, Entry::Drain, |head| node.set_next(head)) {
            Ok(duty) => duty,
            Err(refusal) => return Err(self.reason(refusal).into()),
        };
        // Leaving this frame before the message is done would leave a dangling node in the mailbox.
        let stay = AbortOnUnwind;
        // SAFETY: the duty is that of this push.
        unsafe { self.perform(local, place, duty, addr) };
        if !message.is_done() {
            if place == Place::Nested {
                run_list_nested(local);
            }
            Self::wait_for(message);
        }
        std::mem::forget(stay);
        match message.take() {
            Outcome::Returned(result) => Ok(result),
            Outcome::Panicked(panic) => std::panic::resume_unwind(panic),
            Outcome::NotRun(reason) => Err(reason.into()),
        }
    }

    fn wait_for<F, R>(message: &Borrowed<S, F, R>)
    where
        F: FnOnce(&mut S) -> R,
    {
        for _ in 0..SPINS {
            if message.is_done() {
                return;
            }
            hint::spin_loop();
        }
        if message.sleep(thread::current()) {
            while !message.is_done() {
                thread::park();
            }
        }
    }

    #[inline(never)]
    fn push<M: Message>(&self, local: &Local, seen: Snapshot, message: M, by: By) -> Result<(), (M, Reason)> {
        let node = NodePtr::new(message);
        self.push_chain(local, seen, (node, node.addr(), 1), by).map_err(|reason| {
            // SAFETY: it was made here of an M, and pushed nowhere.
            (unsafe { node.take_back::<M>() }, reason)
        })
    }

    /// Pushes a chain of `len` nodes from `first`, the oldest, to `top`, and does what the push leaves owing.
    fn push_chain(&self, local: &Local, seen: Snapshot, (first, top, len): (NodePtr, u64, u64), by: By) -> Result<(), Reason> {
        let nested = local.in_turn();
        let carries = by == By::Sender && self.posts();
        let lists = nested && by == By::Sender && !carries && local.reserve(self.ptr());
        let entry = if nested || carries || by == By::Enqueuer { Entry::Park } else { Entry::Drain };
        let limit = self.core().about().limit;
        let pushed = self.core().word.push(seen, (top, len), limit, entry, |head| first.set_next(head));
        match pushed.map_err(|refusal| self.reason(refusal))? {
            Duty::Carry if lists => self.list(local),
            // SAFETY: this handle keeps the block.
            Duty::Carry if carries => unsafe { carry(self.ptr()) },
            // SAFETY: the duty is that of this push; only a thread that is not inside a turn asked to drain.
            duty => unsafe { self.perform(local, Place::Outermost, duty, top) },
        }
        Ok(())
    }

    /// Lists this mailbox on this thread, after a `reserve` that said so.
    fn list(&self, local: &Local) {
        // SAFETY: this handle keeps the block; the entry holds the storage (F3).
        unsafe { block::retain_storage(self.ptr()) };
        local.list(self.ptr());
    }

    /// Does what a push of `top` left owing.
    ///
    /// # Safety
    /// `duty` was left by this thread's push of `top`, and is performed once.
    unsafe fn perform(&self, local: &Local, place: Place, duty: Duty, top: u64) {
        let batch = match duty {
            Duty::Nothing | Duty::Carry => return,
            Duty::Drain => {
                let mut batch = Batch::new();
                batch.append_newest_first(top);
                batch
            }
            // The chain is linked to the head that it replaced.
            Duty::TakeOver => taken_over(self.core(), top),
        };
        // SAFETY: the duty says that it is ours; this handle keeps the block.
        unsafe { drive(self.ptr(), batch, 0, place) };
        if place == Place::Outermost && local.owes() {
            run_list(local);
        }
    }

    /// Takes no new messages; those that were accepted are run. False if it was closed already.
    pub(crate) fn close(&self) -> bool {
        // SAFETY: this handle keeps the block throughout.
        unsafe { raise(self.ptr(), CLOSED, false) }
    }

    /// Closes the mailbox if nothing runs or waits in it.
    pub(crate) fn close_if_idle(&self) -> bool {
        // SAFETY: as in `close`.
        unsafe { raise(self.ptr(), CLOSED, true) }
    }

    /// Takes no new messages; those that were accepted are given back.
    pub(crate) fn stop(&self) -> bool {
        let first = self.core().raise_side(STOP);
        self.close();
        first
    }

    /// Drains what is parked here, now; false if there was nothing to take over.
    pub(crate) fn drain(&self) -> bool {
        // SAFETY: this handle keeps the block.
        unsafe { drain_here(self.ptr()) }
    }

    /// Waits until nothing runs or waits in the mailbox (R14).
    pub(crate) fn wait_idle(&self, deadline: Deadline) -> Result<(), NotWaited> {
        let idle = |now: Snapshot| now.count() == 0;
        self.wait_until(deadline, idle, |extra| &extra.watchers, || self.core().word.watch(|now| !now.is_parked()).is_ok())
    }

    /// Waits until the mailbox is closed, and has ended.
    pub(crate) fn wait_ended(&self, deadline: Deadline) -> Result<(), NotWaited> {
        let ended = |now: Snapshot| now.has(CLOSED) && now.count() == 0;
        self.wait_until(deadline, ended, |extra| &extra.mourners, || !ended(self.core().word.meet()))
    }

    /// Waits until `over` holds of the word: stands in a list, sees by `stay` that it will be woken, and sleeps.
    fn wait_until(
        &self,
        deadline: Deadline,
        over: impl Fn(Snapshot) -> bool,
        list: impl Fn(&Extra) -> &Waiters,
        stay: impl Fn() -> bool,
    ) -> Result<(), NotWaited> {
        loop {
            if over(self.core().word.look()) {
                return Ok(());
            }
            with_local(|local| {
                if local.is_running(self.ptr()) {
                    return Err(NotWaited::Deadlock);
                }
                if local.in_turn() {
                    run_list_nested(local);
                }
                Ok(())
            })?;
            if self.drain() {
                continue;
            }
            let waiters = list(self.core().extra_made());
            let number = waiters.add(Waiter::Thread(thread::current()));
            let in_time = !stay() || deadline.park();
            waiters.remove(number);
            if !in_time {
                return if over(self.core().word.look()) { Ok(()) } else { Err(NotWaited::TimedOut) };
            }
        }
    }
}

impl<S> Clone for Handle<S> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this handle is one.
        unsafe { block::retain_handle(self.ptr()) };
        Handle(self.0, PhantomData)
    }
}

impl<S> Drop for Handle<S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this handle is one, and is not used again.
        if unsafe { block::release_handle(self.ptr()) } {
            // SAFETY: the handles' storage is there until the one who ends the actor gives it up: that may be this call, or the owner.
            unsafe { raise(self.ptr(), ORPHAN, false) };
        }
    }
}

/// Raises CLOSED or ORPHAN and does what that leaves owing; false if the word was not changed.
///
/// # Safety
/// The caller keeps the block of `core` until the step: by a handle, or by the handles' storage (ORPHAN), which he then does not use again.
#[inline(never)]
unsafe fn raise(core: *const Core, flag: u64, only_if_idle: bool) -> bool {
    with_local(|local| {
        // SAFETY: the block is there until the step.
        let this = unsafe { &*core };
        let nested = local.in_turn();
        let carries = this.about().executor.is_some();
        let parks = nested || carries;
        if parks {
            // SAFETY: the block is there until the step. After it, this storage keeps it.
            unsafe { block::retain_storage(core) };
        }
        let lists = nested && !carries && local.reserve(core);
        let entry = if parks { Entry::Park } else { Entry::Drain };
        let raised = if only_if_idle { this.word.raise_if_idle(flag, entry) } else { this.word.raise(flag, entry) };
        match raised {
            Some((Duty::Carry, _)) if lists => local.list(core),
            // SAFETY: retained above; the carrier holds its own.
            Some((Duty::Carry, _)) if carries => unsafe {
                carry(core);
                block::release_storage(core);
            },
            // SAFETY: retained above.
            _ if parks => unsafe { block::release_storage(core) },
            Some((Duty::Drain, _)) => {
                // SAFETY: from idle: it is ours, and the step counted for one turn, which is none.
                unsafe { drive(core, Batch::new(), 1, Place::Outermost) };
            }
            Some((Duty::TakeOver, before)) => {
                // SAFETY: from parked: it is ours, with this private list.
                unsafe { drive(core, taken_over(this, before.head()), 0, Place::Outermost) };
            }
            _ => {}
        }
        if !nested && local.owes() {
            run_list(local);
        }
        raised.is_some()
    })
}

/// Takes a parked mailbox over and drains it here; false if it is not parked.
///
/// # Safety
/// The caller keeps the block of `core`.
unsafe fn drain_here(core: *const Core) -> bool {
    with_local(|local| {
        let place = if local.in_turn() { Place::Nested } else { Place::Outermost };
        // SAFETY: the caller's word.
        let drained = unsafe { take_over(core, place) };
        if place == Place::Outermost && local.owes() {
            run_list(local);
        }
        drained
    })
}

impl Storage {
    fn ptr(&self) -> *const Core {
        self.0.as_ptr()
    }

    fn core(&self) -> &Core {
        // SAFETY: storage keeps the block (B3).
        unsafe { self.0.as_ref() }
    }

    /// The name that the actor was built with.
    pub(crate) fn name(&self) -> Option<&str> {
        self.core().about().name.as_deref()
    }

    /// Waits for an answer of this actor; `None` when the time is over, with the answer still to come.
    pub(crate) fn wait_for<R>(&self, asker: &mut Asker<R>, deadline: Deadline) -> Option<Result<R, AskError>> {
        for _ in 0..SPINS {
            if asker.is_done() {
                return asker.take();
            }
            hint::spin_loop();
        }
        with_local(|local| {
            if asker.is_done() {
                return asker.take();
            }
            if local.is_running(self.ptr()) {
                return Some(Err(AskError::Deadlock));
            }
            if local.in_turn() {
                run_list_nested(local);
            }
            self.come_by();
            if asker.watch(Waiter::Thread(thread::current())) {
                while !asker.is_done() && deadline.park() {}
            }
            asker.take()
        })
    }

    /// Drains the mailbox if it is parked. True if it was.
    pub(crate) fn come_by(&self) -> bool {
        // SAFETY: this storage keeps the block.
        unsafe { drain_here(self.ptr()) }
    }

    /// Is this thread inside a turn of this actor?
    pub(crate) fn is_running_here(&self) -> bool {
        with_local(|local| local.is_running(self.ptr()))
    }
}

/// Storage of an actor whose type is known.
pub(crate) struct Weak<S>(Storage, PhantomData<fn(S) -> S>);

impl<S> Weak<S> {
    pub(crate) fn of(handle: &Handle<S>) -> Self {
        Weak(handle.storage(), PhantomData)
    }

    /// A handle, unless they have all gone.
    pub(crate) fn upgrade(&self) -> Option<Handle<S>> {
        // SAFETY: this storage keeps the block, whose state is an S because it came from such a handle.
        unsafe { block::try_retain_handle(self.0.ptr()) }.then(|| unsafe { Handle::of(self.0.ptr()) })
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.0
    }
}

impl<S> Clone for Weak<S> {
    fn clone(&self) -> Self {
        Weak(self.0.clone(), PhantomData)
    }
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        // SAFETY: this storage keeps the block.
        unsafe { block::retain_storage(self.ptr()) };
        Storage(self.0)
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: this is one, and it is not used again.
        unsafe { block::release_storage(self.ptr()) }
    }
}

/// Messages of one call, not pushed yet: newest first, as the mailbox wants them.
struct Chain<M: Message> {
    first: Option<NodePtr>,
    top: u64,
    len: u64,
    of: PhantomData<M>,
}

impl<M: Message> Chain<M> {
    fn append(&mut self, message: M) {
        let node = NodePtr::new(message);
        node.set_next(self.top);
        self.first.get_or_insert(node);
        self.top = node.addr();
        self.len += 1;
    }

    /// They are the mailbox's now.
    fn forget(&mut self) {
        self.top = 0;
    }

    /// The messages, oldest first; their nodes are freed.
    fn take_back(&mut self) -> impl Iterator<Item = M> {
        // A failed push has linked the oldest to a head that is not ours.
        if let Some(first) = self.first.take().filter(|_| self.top != 0) {
            first.set_next(0);
        }
        let mut batch = Batch::new();
        batch.append_newest_first(std::mem::take(&mut self.top));
        std::iter::from_fn(move || {
            let node = batch.pop()?.into_node();
            // SAFETY: all nodes of this chain were made of an M by this thread, and none is pushed.
            Some(unsafe { node.take_back::<M>() })
        })
    }
}

impl<M: Message> Drop for Chain<M> {
    fn drop(&mut self) {
        self.take_back().for_each(drop);
    }
}

/// Aborts when it is dropped: the frame it guards must not be left.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Drops a panic's payload, whose own drop may panic.
#[cold]
fn drop_panic(panic: Panic) {
    let _ = catch(|| drop(panic)).map_err(std::mem::forget);
}
