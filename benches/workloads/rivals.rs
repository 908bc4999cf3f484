//! Two more ways that people write, each with and without waiting for the result.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, unbounded};
use parking_lot::Mutex;

use super::{Letter, State, Subject};

/// A mailbox as one writes it in an afternoon: a locked queue with a flag. Whoever finds the flag down runs its own message, then all that
/// has come meanwhile, a queue at a time.
pub(crate) struct Handwritten {
    inbox: Mutex<Inbox>,
    desk: UnsafeCell<Desk>,
}

#[derive(Default)]
struct Inbox {
    busy: bool,
    waiting: VecDeque<Letter>,
}

/// What belongs to whoever has put the flag up.
#[derive(Default)]
struct Desk {
    state: State,
    /// Empty between turns; kept for its memory.
    batch: VecDeque<Letter>,
}

// SAFETY: the desk is reached by whoever has put the flag up, and by `handled` when it is down, both under the lock.
unsafe impl Sync for Handwritten {}

/// The handwritten mailbox, with a reply to wait for.
pub(crate) struct HandwrittenAsk(Handwritten);

/// A thread that owns the state, and an unbounded channel to it.
pub(crate) struct Channel {
    /// None only while dropping.
    letters: Option<Sender<Letter>>,
    owner: Option<JoinHandle<()>>,
    /// How many of the messages came from `handled` itself.
    counted: AtomicU64,
}

/// The thread with the channel, with a reply to wait for.
pub(crate) struct ChannelAsk(Channel);

impl Handwritten {
    #[inline]
    fn put(&self, letter: Letter) {
        let mut inbox = self.inbox.lock();
        if inbox.busy {
            inbox.waiting.push_back(letter);
            return;
        }
        inbox.busy = true;
        drop(inbox);
        // SAFETY: the flag was down and is up now; nobody else comes here until it is down again.
        let Desk { state, batch } = unsafe { &mut *self.desk.get() };
        letter.run(state);
        loop {
            let mut inbox = self.inbox.lock();
            if inbox.waiting.is_empty() {
                inbox.busy = false;
                return;
            }
            mem::swap(batch, &mut inbox.waiting);
            drop(inbox);
            batch.drain(..).for_each(|letter| letter.run(state));
        }
    }
}

impl Subject for Handwritten {
    const NAME: &'static str = "hand-written";
    fn new() -> Self {
        Handwritten { inbox: Mutex::default(), desk: UnsafeCell::default() }
    }
    #[inline]
    fn give(&self, rounds: u32) {
        self.put(Letter { rounds, reply: None });
    }
    fn handled(&self) -> u64 {
        let inbox = self.inbox.lock();
        assert!(!inbox.busy && inbox.waiting.is_empty(), "somebody is still at work");
        // SAFETY: nobody is at work, and nobody can begin while the lock is held.
        unsafe { (*self.desk.get()).state.handled }
    }
}

impl Subject for HandwrittenAsk {
    const NAME: &'static str = "hand-written-ask";
    fn new() -> Self {
        HandwrittenAsk(Handwritten::new())
    }
    #[inline]
    fn give(&self, rounds: u32) {
        let (letter, slot) = Letter::asking(rounds);
        self.0.put(letter);
        black_box(slot.wait());
    }
    fn handled(&self) -> u64 {
        self.0.handled()
    }
}

impl Channel {
    #[inline]
    fn put(&self, letter: Letter) {
        let sent = self.letters.as_ref().is_some_and(|letters| letters.send(letter).is_ok());
        assert!(sent, "the owner listens as long as there is a sender");
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.letters = None;
        // It has not panicked, or its last message would have been missed.
        let _ = self.owner.take().map(JoinHandle::join);
    }
}

impl Subject for Channel {
    const NAME: &'static str = "channel";
    fn new() -> Self {
        let (letters, inbox) = unbounded::<Letter>();
        let owner = thread::spawn(move || {
            let mut state = State::default();
            inbox.iter().for_each(|letter| letter.run(&mut state));
        });
        Channel { letters: Some(letters), owner: Some(owner), counted: AtomicU64::new(0) }
    }
    #[inline]
    fn give(&self, rounds: u32) {
        self.put(Letter { rounds, reply: None });
    }
    /// A message like the others, behind them all.
    fn handled(&self) -> u64 {
        let (letter, slot) = Letter::asking(0);
        self.put(letter);
        slot.wait() - self.counted.fetch_add(1, Ordering::Relaxed) - 1
    }
}

impl Subject for ChannelAsk {
    const NAME: &'static str = "channel-ask";
    fn new() -> Self {
        ChannelAsk(Channel::new())
    }
    #[inline]
    fn give(&self, rounds: u32) {
        let (letter, slot) = Letter::asking(rounds);
        self.0.put(letter);
        black_box(slot.wait());
    }
    fn handled(&self) -> u64 {
        self.0.handled()
    }
}
