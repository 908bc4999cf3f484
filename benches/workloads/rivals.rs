//! The usual alternatives: the textbook's mailbox, a hand-written one, one on a hand-written pool,
//! and a thread with a channel.
//!
//! All of them queue [`Envelope`]s, and have no closures, no capacity, no end and no handling of
//! panics.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, LazyLock};
use std::thread::{self, JoinHandle, Thread};

use crossbeam_channel::{Sender, unbounded};
use crossbeam_queue::SegQueue;
use parking_lot::Mutex;

use super::{Letter, WORKERS, Way};

/// A letter, and the slot of its answer if a caller waits for it.
pub(crate) struct Envelope<L: Letter> {
    letter: L,
    reply: Option<Arc<Slot<L::Answer>>>,
}

impl<L: Letter> Envelope<L> {
    #[inline]
    pub(crate) fn plain(letter: L) -> Self {
        Envelope { letter, reply: None }
    }

    #[inline]
    pub(crate) fn run(self, state: &mut L::State) {
        let answer = self.letter.run(state);
        if let Some(slot) = self.reply {
            slot.fill(answer);
        }
    }
}

/// Puts a letter with `put`, and waits for the answer.
#[inline]
pub(crate) fn ask<L: Letter>(letter: L, put: impl FnOnce(Envelope<L>)) -> L::Answer {
    let slot = Slot::new();
    put(Envelope { letter, reply: Some(slot.clone()) });
    slot.wait()
}

/// The slot of one answer, for the thread that has created it.
pub(crate) struct Slot<R> {
    asker: Thread,
    ready: AtomicBool,
    value: UnsafeCell<Option<R>>,
}

// SAFETY: the value is written once before `ready` is set, and read by the asker alone after it has
// seen that.
unsafe impl<R: Send> Sync for Slot<R> {}

impl<R> Slot<R> {
    #[inline]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Slot {
            asker: thread::current(),
            ready: AtomicBool::new(false),
            value: UnsafeCell::new(None),
        })
    }

    /// To be called once.
    #[inline]
    pub(crate) fn fill(&self, value: R) {
        // SAFETY: the only call, and no thread reads before `ready` is set.
        unsafe { *self.value.get() = Some(value) };
        self.ready.store(true, Ordering::Release);
        self.asker.unpark();
    }

    /// Spins for a while, then sleeps. To be called once, by the thread that has created it.
    #[inline]
    pub(crate) fn wait(&self) -> R {
        let mut looks = 0;
        while !self.ready.load(Ordering::Acquire) {
            looks += 1;
            if looks < 100 { std::hint::spin_loop() } else { thread::park() }
        }
        // SAFETY: it was written before `ready` was set, and no other thread touches it any more.
        unsafe { (*self.value.get()).take() }.expect("this is the only call")
    }
}

/// The mailbox of the textbooks: a queue, and a count of its messages; the sender that counts the
/// first message drains.
pub(crate) struct Textbook;

pub(crate) struct Counted<L: Letter> {
    count: AtomicUsize,
    queue: SegQueue<Envelope<L>>,
    state: UnsafeCell<L::State>,
}

// SAFETY: the state is reached by the thread that has moved the count from 0.
unsafe impl<L: Letter> Sync for Counted<L> {}

impl<L: Letter> Counted<L> {
    #[inline]
    fn put(&self, envelope: Envelope<L>) {
        self.queue.push(envelope);
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.drain();
        }
    }

    #[inline]
    fn drain(&self) {
        let mut counted = 1;
        while counted > 0 {
            for _ in 0..counted {
                let envelope = self.queue.pop().expect("what was counted was pushed before");
                // SAFETY: the thread that has moved the count from 0 is alone until it is 0 again.
                envelope.run(unsafe { &mut *self.state.get() });
            }
            counted = self.count.fetch_sub(counted, Ordering::AcqRel) - counted;
        }
    }
}

impl Way for Textbook {
    const NAME: &'static str = "textbook";
    const ASKING: &'static str = "textbook-ask";
    type Of<L: Letter> = Arc<Counted<L>>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        Arc::new(Counted {
            count: AtomicUsize::new(0),
            queue: SegQueue::new(),
            state: UnsafeCell::new(state),
        })
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        to.put(Envelope::plain(letter));
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        ask(letter, |envelope| to.put(envelope))
    }
}

/// A simple hand-written mailbox: a locked queue with a flag. The sender that finds the flag
/// cleared runs its own message, then all that have come meanwhile, a queue at a time.
pub(crate) struct Handwritten;
pub(crate) struct Flagged<L: Letter> {
    inbox: Mutex<Inbox<L>>,
    desk: UnsafeCell<Desk<L>>,
}

struct Inbox<L: Letter> {
    busy: bool,
    waiting: VecDeque<Envelope<L>>,
}

/// The data of the thread that has set the flag.
struct Desk<L: Letter> {
    state: L::State,
    /// Empty between turns; kept for its memory.
    batch: VecDeque<Envelope<L>>,
}

// SAFETY: the desk is reached by the thread that has set the flag.
unsafe impl<L: Letter> Sync for Flagged<L> {}

impl<L: Letter> Flagged<L> {
    #[inline]
    fn new(state: L::State) -> Arc<Self> {
        let inbox = Mutex::new(Inbox { busy: false, waiting: VecDeque::new() });
        Arc::new(Flagged { inbox, desk: UnsafeCell::new(Desk { state, batch: VecDeque::new() }) })
    }

    #[inline]
    fn put(&self, envelope: Envelope<L>) {
        let mut inbox = self.inbox.lock();
        if inbox.busy {
            inbox.waiting.push_back(envelope);
            return;
        }
        inbox.busy = true;
        drop(inbox);
        // SAFETY: the flag was cleared and is set now; no other thread comes here until it is
        // cleared.
        envelope.run(unsafe { &mut (*self.desk.get()).state });
        self.drain();
    }

    /// For the thread that has set the flag.
    #[inline]
    fn drain(&self) {
        // SAFETY: the flag is set, and no other thread comes here until it is cleared.
        let Desk { state, batch } = unsafe { &mut *self.desk.get() };
        loop {
            let mut inbox = self.inbox.lock();
            if inbox.waiting.is_empty() {
                inbox.busy = false;
                return;
            }
            mem::swap(batch, &mut inbox.waiting);
            drop(inbox);
            batch.drain(..).for_each(|envelope| envelope.run(state));
        }
    }
}

impl Way for Handwritten {
    const NAME: &'static str = "hand-written";
    const ASKING: &'static str = "hand-written-ask";
    type Of<L: Letter> = Arc<Flagged<L>>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        Flagged::new(state)
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        to.put(Envelope::plain(letter));
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        ask(letter, |envelope| to.put(envelope))
    }
}

/// A locked queue with a flag, and a [`Pool`]: the sender that finds the flag cleared sets it and
/// queues the object for a worker. That runs up to 64 messages and puts the object at the end of
/// the queue if there are more.
pub(crate) struct HandwrittenPool;

pub(crate) struct Pooled<L: Letter> {
    inbox: Mutex<Inbox<L>>,
    state: UnsafeCell<L::State>,
}

// SAFETY: the state is reached by the worker that has taken the object from the queue, in which it
// is once while the flag is set.
unsafe impl<L: Letter> Sync for Pooled<L> {}

/// Messages that a worker runs before it looks at the next object.
const BATCH: usize = 64;

impl<L: Letter> Pooled<L> {
    #[inline]
    fn put(self: &Arc<Self>, envelope: Envelope<L>) {
        let mut inbox = self.inbox.lock();
        inbox.waiting.push_back(envelope);
        if !mem::replace(&mut inbox.busy, true) {
            drop(inbox);
            POOL.execute(self.clone());
        }
    }
}

impl<L: Letter> Job for Pooled<L> {
    fn run(self: Arc<Self>) {
        let (mut left, mut batch) = (BATCH, Vec::new());
        loop {
            let mut inbox = self.inbox.lock();
            if left == 0 && !inbox.waiting.is_empty() {
                drop(inbox);
                return POOL.execute(self);
            }
            let Some(first) = inbox.waiting.pop_front() else {
                inbox.busy = false;
                return;
            };
            let more = inbox.waiting.len().min(left - 1);
            batch.extend(inbox.waiting.drain(..more));
            drop(inbox);
            left -= more + 1;
            // SAFETY: the flag is set, and only this worker has taken the object from the queue.
            let state = unsafe { &mut *self.state.get() };
            first.run(state);
            batch.drain(..).for_each(|envelope| envelope.run(state));
        }
    }
}

impl Way for HandwrittenPool {
    const NAME: &'static str = "hand-written-pool";
    const ASKING: &'static str = "hand-written-pool-ask";
    const HELPED: bool = true;
    type Of<L: Letter> = Arc<Pooled<L>>;

    #[inline]
    fn make<L: Letter>(state: L::State) -> Self::Of<L> {
        let inbox = Mutex::new(Inbox { busy: false, waiting: VecDeque::new() });
        Arc::new(Pooled { inbox, state: UnsafeCell::new(state) })
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        to.put(Envelope::plain(letter));
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        ask(letter, |envelope| to.put(envelope))
    }
    fn settle() {
        POOL.settle();
    }
}

/// A simple hand-written pool: threads behind a channel.
struct Pool {
    line: Sender<Arc<dyn Job>>,
}

/// A job that a worker takes from the queue.
trait Job: Send + Sync {
    fn run(self: Arc<Self>);
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let (line, jobs) = unbounded::<Arc<dyn Job>>();
    for _ in 0..WORKERS {
        let jobs = jobs.clone();
        thread::spawn(move || jobs.iter().for_each(Job::run));
    }
    Pool { line }
});

impl Pool {
    #[inline]
    fn execute(&self, job: Arc<dyn Job>) {
        assert!(self.line.send(job).is_ok(), "the workers never end");
    }

    /// Jobs are taken in order: once each worker is at this one, all earlier ones have been done.
    fn settle(&self) {
        let gate = Arc::new(Barrier::new(WORKERS + 1));
        for _ in 0..WORKERS {
            self.execute(gate.clone());
        }
        gate.wait();
    }
}

impl Job for Barrier {
    fn run(self: Arc<Self>) {
        self.wait();
    }
}

/// A thread that owns the state, and an unbounded channel to it.
pub(crate) struct Channel;

pub(crate) struct Owned<T> {
    /// `None` only while dropping.
    letters: Option<T>,
    owner: Option<JoinHandle<()>>,
}

impl<T> Owned<T> {
    pub(crate) fn by(letters: T, owner: JoinHandle<()>) -> Arc<Self> {
        Arc::new(Owned { letters: Some(letters), owner: Some(owner) })
    }

    #[inline]
    pub(crate) fn put(&self, send: impl FnOnce(&T) -> bool) {
        let sent = self.letters.as_ref().is_some_and(send);
        assert!(sent, "the owner listens as long as there is a sender");
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.letters = None;
        // It has not panicked, or its last message would have been missed.
        let _ = self.owner.take().map(JoinHandle::join);
    }
}

impl Way for Channel {
    const NAME: &'static str = "channel";
    const ASKING: &'static str = "channel-ask";
    const HELPED: bool = true;
    type Of<L: Letter> = Arc<Owned<Sender<Envelope<L>>>>;

    fn make<L: Letter>(mut state: L::State) -> Self::Of<L> {
        let (letters, inbox) = unbounded::<Envelope<L>>();
        let owner =
            thread::spawn(move || inbox.iter().for_each(|envelope| envelope.run(&mut state)));
        Owned::by(letters, owner)
    }
    #[inline]
    fn put<L: Letter>(to: &Self::Of<L>, letter: L) {
        to.put(|letters| letters.send(Envelope::plain(letter)).is_ok());
    }
    #[inline]
    fn ask<L: Letter>(to: &Self::Of<L>, letter: L) -> L::Answer {
        ask(letter, |envelope| to.put(|letters| letters.send(envelope).is_ok()))
    }
}
