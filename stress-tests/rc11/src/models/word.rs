//! The mailbox's word, by the steps that owners, senders and entries take on it: HANDOVER, MESSAGE,
//! MEETING, LEFT and FAREWELL. What the word orders is plain memory: messages, links, the saved
//! list, the state. An order that is missing is a race.

use std::cell::Cell;
use std::collections::VecDeque;

use super::*;
use crate::counts::Counts;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire};
use crate::sync::cell::Plain;
use crate::sync::thread::{Thread, current, park, prepare};
use crate::sync::{Mutex, reached};
use crate::word::{CLOSED, Due, Entry, Head, Next, ORPHAN, Refusal, Snapshot, Unscheduled, Word};

/// The messages of a program.
const NODES: usize = 4;
/// Addresses of nodes are multiples of this.
const LINE: u64 = 32;

/// The memory of a message: its link, and whether it is there.
struct Node {
    next: u64,
    written: bool,
}

/// A stand-in for an actor's cell.
struct Mailbox {
    word: Word,
    counts: Counts,
    nodes: [Plain<Node>; NODES],
    /// The messages that were run.
    state: Plain<Vec<usize>>,
    /// The list of an owner that has left it pending.
    saved: Plain<VecDeque<usize>>,
    ended: Plain<bool>,
    /// The part that each thread with a reference may read.
    config: Plain<()>,
    /// The reason of the close.
    cause: Plain<u64>,
    /// Waiters, and whether there are any.
    has_waiters: AtomicU64,
    waiters: Mutex<Vec<Thread>>,
    /// The program's own part.
    accepted: Cell<usize>,
    freed: Cell<u32>,
}

impl Mailbox {
    fn new() -> Rc<Mailbox> {
        prepare();
        Rc::new(Mailbox {
            word: Word::new(),
            counts: Counts::new(),
            nodes: std::array::from_fn(|_| Plain::new(Node { next: 0, written: false })),
            state: Plain::new(Vec::new()),
            saved: Plain::new(VecDeque::new()),
            ended: Plain::new(false),
            config: Plain::new(()),
            cause: Plain::new(0),
            has_waiters: AtomicU64::new(0),
            waiters: Mutex::new(Vec::new()),
            accepted: Cell::new(0),
            freed: Cell::new(0),
        })
    }

    /// One that is pending, with a message and its entry out.
    fn scheduled() -> Rc<Mailbox> {
        let mailbox = Mailbox::new();
        mailbox.leave(0);
        mailbox
    }

    /// One that is idle, with a stale entry out.
    fn beside_its_entry() -> Rc<Mailbox> {
        let mailbox = Mailbox::scheduled();
        assert!(mailbox.help());
        mailbox
    }

    // Messages.

    fn write(&self, message: usize) -> u64 {
        self.nodes[message].with_mut(|node| node.written = true);
        self.accepted.set(self.accepted.get() + 1);
        (message as u64 + 1) * LINE
    }

    fn link(&self, message: usize, next: u64) {
        self.nodes[message].with_mut(|node| node.next = next);
    }

    fn list(&self, Head(mut head): Head) -> VecDeque<usize> {
        let mut list = VecDeque::new();
        while head != 0 {
            let message = (head / LINE - 1) as usize;
            list.push_front(message);
            head = self.nodes[message].with(|node| node.next);
        }
        list
    }

    /// A turn; the memory of the message is used again.
    fn turn(&self, message: usize) {
        self.counts.retain();
        let written = self.nodes[message].with_mut(|node| std::mem::take(&mut node.written));
        assert!(written, "a message is run twice");
        self.state.with_mut(|state| state.push(message));
        assert!(!self.counts.release());
    }

    // The ways in.

    fn send(&self, message: usize) {
        self.send_from(self.word.claim().map(drop), message);
    }

    fn send_from(&self, claimed: Result<(), Snapshot>, message: usize) {
        let node = self.write(message);
        match claimed {
            Ok(()) => {
                self.turn(message);
                if !self.word.release_one() {
                    self.drain(VecDeque::new(), 1);
                }
            }
            Err(seen) => self.push(seen, message, node, Entry::Drain),
        }
    }

    fn push(&self, seen: Snapshot, message: usize, node: u64, entry: Entry) {
        match self.word.push(seen, (node, 1), entry, |head| self.link(message, head)) {
            Ok(due) => self.discharge(due, 0),
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Closed);
                self.accepted.set(self.accepted.get() - 1);
                // As a refused sender does, before it asks why.
                self.word.look();
                self.cause.with(|cause| assert_eq!(*cause, 1));
                reached("refused");
            }
        }
    }

    /// Leaves a message for the entry.
    fn leave(&self, message: usize) {
        let node = self.write(message);
        self.link(message, 0);
        match self.word.leave_first(node) {
            Ok(_) => {}
            Err(seen) => self.push(seen, message, node, Entry::Leave),
        }
    }

    /// Leaves a message while another thread owns the mailbox, or its entry is out.
    fn leave_busy(&self, message: usize) {
        let node = self.write(message);
        let link = |head| self.link(message, head);
        match self.word.push_busy(self.word.load(), node, Entry::Leave, link) {
            Ok(()) => reached("pushed while busy"),
            Err(seen) => self.push(seen, message, node, Entry::Leave),
        }
    }

    fn discharge(&self, due: Due, done: u64) {
        match due {
            Due::Nothing | Due::Scheduled(_) | Due::Schedule => {}
            Due::Drain(_, head) => self.drain(self.list(head), done),
            Due::TakeOver(_, head) => self.drain_pending(head),
        }
    }

    /// Closes the mailbox, by one that has left a reason.
    fn close(&self, entry: Entry) {
        self.cause.with_mut(|cause| *cause = 1);
        if let Some(due) = self.word.raise(CLOSED, entry) {
            self.discharge(due, 1);
        }
    }

    /// The last handle goes.
    fn last_gone(&self, entry: Entry) {
        if let Some(due) = self.word.raise(ORPHAN, entry) {
            self.discharge(due, 1);
        }
    }

    // Owners.

    /// Runs a pending mailbox.
    fn help(&self) -> bool {
        let Some((_, head)) = self.word.take_over() else { return false };
        self.drain_pending(head);
        true
    }

    fn drain_pending(&self, head: Head) {
        self.drain(self.pending(head), 0);
    }

    /// The list of a mailbox that was pending.
    fn pending(&self, head: Head) -> VecDeque<usize> {
        let mut list = self.saved.with_mut(std::mem::take);
        list.extend(self.list(head));
        list
    }

    /// Runs the list, and whatever comes, and lets go.
    fn drain(&self, mut list: VecDeque<usize>, mut done: u64) {
        loop {
            while let Some(message) = list.pop_front() {
                self.turn(message);
                done += 1;
            }
            match self.let_go(done) {
                Some(seen) => list = self.list(self.word.take(seen, std::mem::take(&mut done))),
                None => return,
            }
        }
    }

    /// As a drive does at the end of its list: `None` once it owns the mailbox no more.
    fn let_go(&self, done: u64) -> Option<Snapshot> {
        let mut seen = self.word.release_guess(done).err()?;
        loop {
            if seen.head() == 0 && seen.has(CLOSED | ORPHAN) {
                seen = self.word.look();
            }
            let next = match seen.let_go(self.ended.with(|ended| *ended)) {
                Next::Take => return Some(self.word.load()),
                Next::End => {
                    self.ended.with_mut(|ended| *ended = true);
                    self.cause.with(|cause| assert!(!seen.has(CLOSED) || *cause == 1));
                    continue;
                }
                Next::Bury => {
                    self.release();
                    return None;
                }
                Next::Release(next) => next,
            };
            let released = if !(seen.has(CLOSED) || seen.is_watched()) {
                self.word.release_from(seen, next)
            } else {
                // For what follows the release.
                self.counts.retain();
                let released = self.word.release_met(seen, next);
                if released.is_ok() {
                    self.wake_all();
                }
                self.release();
                released
            };
            match released {
                Ok(()) => return None,
                Err(now) => seen = now,
            }
        }
    }

    /// Runs a list of which it leaves all but the first message to the next owner.
    fn drain_one(&self, mut list: VecDeque<usize>, scheduled: bool) {
        let mut done = 0;
        if let Some(message) = list.pop_front() {
            self.turn(message);
            done = 1;
        }
        if list.is_empty() && self.word.release_guess(done).is_ok() {
            return;
        }
        let scheduled = scheduled && !self.word.load().is_scheduled();
        self.saved.with_mut(|saved| *saved = list);
        reached("left pending");
        let _ = self.word.set_pending(done, scheduled);
    }

    // The entry.

    /// Uses the entry up.
    fn run_entry(&self) {
        match self.word.unschedule() {
            Unscheduled::Owns(_, head) => {
                reached("owned by the entry");
                self.drain_pending(head);
            }
            Unscheduled::Stale => reached("stale"),
            Unscheduled::Dead => {
                reached("freed by the entry");
                self.free();
            }
        }
    }

    // Memory.

    /// Gives a reference up.
    fn release(&self) {
        if self.counts.release() && !self.word.is_left_to_entry() {
            self.free();
        }
    }

    fn free(&self) {
        self.freed.set(self.freed.get() + 1);
        // A drop of what is in the cell.
        self.state.with_mut(|_| ());
        self.saved.with_mut(|_| ());
        self.ended.with_mut(|_| ());
        self.cause.with_mut(|_| ());
        self.config.with_mut(|()| ());
        self.counts.end();
    }

    // Waiters.

    fn wake_all(&self) {
        if self.has_waiters.load(Acquire) == 1 {
            let waiters = std::mem::take(&mut *self.waiters.lock());
            waiters.into_iter().for_each(|waiter| waiter.unpark());
        }
    }

    /// Sleeps in the list, if `stays` says that it will be woken.
    fn wait(&self, stays: impl FnOnce() -> bool) {
        self.waiters.lock().push(current());
        self.has_waiters.swap(1, AcqRel);
        if stays() {
            reached("waited");
            park();
        }
    }

    // The end of a program.

    /// All that was accepted has been run, and nothing is left.
    fn check(&self) {
        self.help();
        let mut run = self.state.with(Vec::clone);
        assert_eq!(run.len(), self.accepted.get(), "messages are lost: {run:?}");
        run.sort_unstable();
        run.dedup();
        assert_eq!(run.len(), self.accepted.get(), "messages are run twice");
        let now = self.word.load();
        assert_eq!((now.count(), now.head(), now.is_pending()), (0, 0, false));
    }

    /// The first two messages have been run in their order.
    fn check_order(&self) {
        let run = self.state.with(Vec::clone);
        let first = run.into_iter().filter(|message| *message < 2).collect::<Vec<_>>();
        assert_eq!(first, [0, 1], "not in the order of sending");
    }

    /// The cell was freed, once.
    fn check_freed(&self) {
        assert_eq!(self.freed.get(), 1, "the cell is not freed once");
    }
}

/// HANDOVER, MESSAGE: two senders of two messages each or one; each runs what it finds.
pub(super) fn word_two_senders() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| (0..2).for_each(|message| mailbox.send(message))),
        with(&mailbox, |mailbox| mailbox.send(2)),
    ]);
    mailbox.check();
    mailbox.check_order();
}

/// HANDOVER, MESSAGE: three senders of one message.
pub(super) fn word_three_senders() {
    let mailbox = Mailbox::new();
    run([0, 1, 2].map(|message| with(&mailbox, move |mailbox| mailbox.send(message))));
    mailbox.check();
}

/// HANDOVER, MESSAGE: four senders of one message.
pub(super) fn word_four_senders() {
    let mailbox = Mailbox::new();
    run([0, 1, 2, 3].map(|message| with(&mailbox, move |mailbox| mailbox.send(message))));
    mailbox.check();
}

/// HANDOVER, MESSAGE: three senders, of which one sends twice.
pub(super) fn word_senders_2_1_1() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| (0..2).for_each(|message| mailbox.send(message))),
        with(&mailbox, |mailbox| mailbox.send(2)),
        with(&mailbox, |mailbox| mailbox.send(3)),
    ]);
    mailbox.check();
    mailbox.check_order();
}

/// HANDOVER, MESSAGE: two senders of two messages each.
pub(super) fn word_senders_2_2() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| (0..2).for_each(|message| mailbox.send(message))),
        with(&mailbox, |mailbox| (2..4).for_each(|message| mailbox.send(message))),
    ]);
    mailbox.check();
    mailbox.check_order();
}

/// HANDOVER: an owner leaves the mailbox pending, with a list; a sender or a helper goes on.
pub(super) fn word_left_pending() {
    let mailbox = Mailbox::new();
    let node = mailbox.write(0);
    mailbox.push(Snapshot::IDLE, 0, node, Entry::Post);
    let node = mailbox.write(1);
    mailbox.push(mailbox.word.load(), 1, node, Entry::Post);
    run([
        with(&mailbox, |mailbox| {
            let Some((_, head)) = mailbox.word.take_over() else { return };
            mailbox.drain_one(mailbox.pending(head), false);
        }),
        with(&mailbox, |mailbox| mailbox.send(2)),
        with(&mailbox, |mailbox| {
            mailbox.help();
        }),
    ]);
    mailbox.check();
    mailbox.check_order();
}

/// HANDOVER: an owner of a new message leaves the mailbox pending with what has come meanwhile; two
/// senders and a helper go on.
pub(super) fn word_hands_over() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| {
            let node = mailbox.write(0);
            match mailbox.word.push(Snapshot::IDLE, (node, 1), Entry::Drain, |head| {
                mailbox.link(0, head);
            }) {
                Ok(Due::Drain(_, head)) => mailbox.drain_one(mailbox.list(head), false),
                Ok(due) => mailbox.discharge(due, 0),
                Err(_) => unreachable!("it is open"),
            }
        }),
        with(&mailbox, |mailbox| mailbox.send(1)),
        with(&mailbox, |mailbox| mailbox.send(2)),
        with(&mailbox, |mailbox| {
            mailbox.help();
        }),
    ]);
    mailbox.check();
}

/// MESSAGE: a message is left in an idle mailbox; a thread that looks by runs it.
pub(super) fn word_left_to_a_helper() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| mailbox.leave(0)),
        with(&mailbox, |mailbox| {
            if mailbox.help() {
                reached("helped");
            }
        }),
    ]);
    mailbox.check();
}

/// HANDOVER, MESSAGE by the entry: another sender leaves a message, and an owner what it has.
pub(super) fn word_entry() {
    let mailbox = Mailbox::scheduled();
    run([
        with(&mailbox, Mailbox::run_entry),
        with(&mailbox, |mailbox| mailbox.leave_busy(1)),
        with(&mailbox, |mailbox| {
            if let Some((_, head)) = mailbox.word.take_over() {
                mailbox.drain_one(mailbox.pending(head), true);
                // The entry may be this thread's.
            }
        }),
    ]);
    mailbox.check();
}

/// HANDOVER, MESSAGE: the entry takes a few messages by its first guess.
pub(super) fn word_entry_of_few() {
    let mailbox = Mailbox::scheduled();
    run([
        with(&mailbox, |mailbox| match mailbox.word.unschedule_few(2) {
            Some((_, head, turns)) => {
                reached("few");
                let list = mailbox.pending(head);
                assert_eq!(list.len() as u64, turns);
                mailbox.drain(list, 0);
            }
            None => mailbox.run_entry(),
        }),
        with(&mailbox, |mailbox| mailbox.leave_busy(1)),
    ]);
    mailbox.check();
}

/// HANDOVER beside a stale entry: claims, and the first guess of a release.
pub(super) fn word_claimed_beside() {
    let mailbox = Mailbox::beside_its_entry();
    let send = |message: usize| {
        with(&mailbox, move |mailbox: &Mailbox| {
            let claimed = mailbox.word.claim().or_else(|seen| mailbox.word.claim_beside(seen));
            let Ok(_) = claimed else {
                return mailbox.send_from(claimed.map(drop), message);
            };
            reached("claimed");
            mailbox.write(message);
            mailbox.turn(message);
            if !mailbox.word.release_beside() {
                mailbox.drain(VecDeque::new(), 1);
            }
        })
    };
    run([send(1), send(2), with(&mailbox, Mailbox::run_entry)]);
    mailbox.check();
}

/// HANDOVER: a word that was pending is scheduled by one thread and taken by another.
pub(super) fn word_scheduled_later() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| {
            let node = mailbox.write(0);
            mailbox.push(Snapshot::IDLE, 0, node, Entry::Post);
        }),
        with(&mailbox, |mailbox| {
            if mailbox.word.schedule().is_some() {
                reached("scheduled");
                mailbox.run_entry();
            }
        }),
        with(&mailbox, |mailbox| {
            mailbox.help();
        }),
    ]);
    mailbox.check();
}

/// LEFT: the last handle takes a pending mailbox over and ends it; its entry comes before or after
/// that, and the second of them frees the cell.
pub(super) fn word_left_to_the_entry() {
    let mailbox = Mailbox::scheduled();
    run([
        with(&mailbox, |mailbox| {
            mailbox.config.with(|()| ());
            mailbox.run_entry();
        }),
        with(&mailbox, |mailbox| {
            mailbox.config.with(|()| ());
            mailbox.last_gone(Entry::Drain);
        }),
    ]);
    mailbox.check_freed();
}

/// LEFT, FAREWELL: the last handle goes while the entry is run, and leaves the end to it.
pub(super) fn word_ended_by_the_entry() {
    let mailbox = Mailbox::scheduled();
    mailbox.counts.retain();
    run([
        with(&mailbox, |mailbox| {
            mailbox.config.with(|()| ());
            mailbox.run_entry();
        }),
        with(&mailbox, |mailbox| {
            mailbox.leave_busy(1);
            mailbox.config.with(|()| ());
            mailbox.last_gone(Entry::Leave);
            // It has raised SCHEDULED again, if the entry was used up before.
            mailbox.release();
        }),
    ]);
    if mailbox.freed.get() == 0 {
        // The entry that was raised.
        mailbox.run_entry();
    }
    mailbox.check_freed();
}

/// LEFT: a reference takes the place of a stale entry while the last handle looks whether it is
/// alone.
pub(super) fn word_sole() {
    let mailbox = Mailbox::beside_its_entry();
    run([
        with(&mailbox, |mailbox| {
            if !mailbox.counts.try_retain() {
                return mailbox.run_entry();
            }
            if mailbox.word.unschedule_only() {
                mailbox.help();
            }
            mailbox.config.with(|()| ());
            mailbox.release();
        }),
        with(&mailbox, |mailbox| {
            assert!(mailbox.counts.release_handle());
            if mailbox.word.look() == Snapshot::IDLE && mailbox.counts.is_sole() {
                reached("sole");
                return mailbox.free();
            }
            mailbox.last_gone(Entry::Drain);
        }),
    ]);
    mailbox.check_freed();
}

/// HANDOVER: the last handle, alone with an idle cell, drops what the entry's owner has left there.
pub(super) fn word_sole_after_the_entry() {
    let mailbox = Mailbox::scheduled();
    run([
        with(&mailbox, Mailbox::run_entry),
        with(&mailbox, |mailbox| {
            assert!(mailbox.counts.release_handle());
            if mailbox.word.look() == Snapshot::IDLE && mailbox.counts.is_sole() {
                reached("sole");
                return mailbox.free();
            }
            mailbox.last_gone(Entry::Drain);
        }),
    ]);
    mailbox.check_freed();
}

/// MEETING: a thread waits until the mailbox is idle.
pub(super) fn word_watched() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| mailbox.send(0)),
        with(&mailbox, |mailbox| {
            if mailbox.word.look().count() > 0 {
                mailbox.wait(|| mailbox.word.watch());
                if mailbox.word.look() == Snapshot::IDLE {
                    reached("idle");
                    mailbox.state.with(|run| assert_eq!(*run, [0]));
                }
            }
        }),
    ]);
    mailbox.check();
}

/// MEETING: a thread waits until a mailbox that another closes has ended.
pub(super) fn word_waits_for_the_end() {
    let mailbox = Mailbox::new();
    let is_over = |now: Snapshot| now.has(CLOSED) && now.count() == 0;
    run([
        with(&mailbox, |mailbox| mailbox.close(Entry::Drain)),
        with(&mailbox, move |mailbox| {
            if !is_over(mailbox.word.look()) {
                mailbox.wait(|| !is_over(mailbox.word.meet()));
            }
            assert!(is_over(mailbox.word.look()));
            mailbox.ended.with(|ended| assert!(*ended));
        }),
    ]);
    mailbox.check();
}

/// MEETING: a mailbox that is closed and left pending calls a waiter for help, or that sees it.
pub(super) fn word_calls_for_help() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| {
            mailbox.close(Entry::Post);
            mailbox.wake_all();
        }),
        with(&mailbox, |mailbox| {
            mailbox.wait(|| {
                let now = mailbox.word.meet();
                !(now.has(CLOSED) && now.is_pending())
            });
            assert!(mailbox.help());
        }),
    ]);
    mailbox.check();
}

/// FAREWELL: a sender that is refused, and an owner that ends the mailbox, see why it was closed.
pub(super) fn word_closed_against_a_send() {
    let mailbox = Mailbox::new();
    run([
        with(&mailbox, |mailbox| mailbox.close(Entry::Drain)),
        with(&mailbox, |mailbox| mailbox.send(0)),
    ]);
    mailbox.check();
}
