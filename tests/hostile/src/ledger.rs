//! The ledger of a program: who was made, who is gone, and what must not have happened.
//!
//! Every state, message, answer, payload and waker carries a [`Token`], which is a mere number: what is known of it
//! stands in a table that no error of memory in the program under test reaches by accident.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// What became of a token.
pub const DROPPED: u32 = 1;
pub const RUN: u32 = 2;
/// Its `send` said that it was accepted.
pub const ACCEPTED: u32 = 4;
/// It came back to its sender, or its sender cancelled it: it must never run.
pub const BACK: u32 = 8;
/// Something that holds it was forgotten on purpose.
pub const FORGIVEN: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    State,
    Message,
    Answer,
    Payload,
    Waker,
    Hook,
}

/// The owner of what belongs to no actor.
pub const NOBODY: usize = usize::MAX;
const SLOTS: usize = 1 << 16;

static FLAGS: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
static BOOK: Mutex<Book> = Mutex::new(Book { epoch: 0, entries: Vec::new(), findings: 0 });

struct Book {
    epoch: u32,
    entries: Vec<Entry>,
    findings: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    kind: Kind,
    /// The actor that it belongs to.
    owner: usize,
    /// The message that it came from; a message is its own.
    group: u32,
}

/// A new program begins; tokens of earlier ones count no more.
pub fn begin() {
    let mut book = BOOK.lock().unwrap();
    book.epoch += 1;
    book.entries.clear();
    book.findings = 0;
    FLAGS.iter().for_each(|flags| flags.store(0, SeqCst));
}

/// Something is wrong, of a kind that is the same in every run of the program.
pub fn finding(kind: &str, detail: &str) {
    let mut book = BOOK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    book.findings += 1;
    if book.findings <= 20 {
        let mut line = String::new();
        let _ = writeln!(line, "finding {kind}|{}", detail.replace('\n', " "));
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    }
}

/// How much was found wrong with this program.
pub fn findings() -> usize {
    BOOK.lock().unwrap().findings
}

/// Counted from here to its drop.
#[derive(Debug)]
pub struct Token {
    epoch: u32,
    pub id: u32,
}

impl Token {
    pub fn new(kind: Kind, owner: usize, group: Option<u32>) -> Self {
        let mut book = BOOK.lock().unwrap();
        let id = book.entries.len() as u32;
        assert!((id as usize) < SLOTS, "a program of too many tokens");
        book.entries.push(Entry { kind, owner, group: group.unwrap_or(id) });
        Token { epoch: book.epoch, id }
    }

    pub fn is_current(&self) -> bool {
        self.epoch == BOOK.lock().unwrap().epoch
    }

    /// The message begins to run.
    pub fn run(&self) {
        if self.is_current() {
            let before = mark(self.id, RUN);
            for (flag, what) in [
                (RUN, "a message ran twice"),
                (DROPPED, "a dropped message ran"),
                (BACK, "a message that was given back ran"),
            ] {
                if before & flag != 0 {
                    finding(what, &describe(self.id));
                }
            }
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.is_current() && mark(self.id, DROPPED) & DROPPED != 0 {
            finding("dropped twice", &describe(self.id));
        }
    }
}

/// Notes what became of a token; what was known before.
pub fn mark(id: u32, flag: u32) -> u32 {
    FLAGS.get(id as usize).map_or(0, |flags| flags.fetch_or(flag, SeqCst))
}

pub fn flags(id: u32) -> u32 {
    FLAGS[id as usize].load(SeqCst)
}

fn describe(id: u32) -> String {
    let kind = BOOK.lock().unwrap().entries.get(id as usize).map(|entry| (entry.kind, entry.owner));
    match kind {
        Some((kind, NOBODY)) => format!("{kind:?}"),
        Some((kind, owner)) => format!("{kind:?} of actor {owner}"),
        None => "a token that was never made".into(),
    }
}

/// What is wrong when all is over: tokens that are still there though nobody forgot them, and messages of actors that
/// came to a good end (`kept`) which were accepted and not run. True if nothing is left.
pub fn settle(leaky: impl Fn(Kind, usize) -> bool, kept: impl Fn(usize) -> bool) -> bool {
    let entries = BOOK.lock().unwrap().entries.clone();
    for (id, entry) in entries.iter().enumerate() {
        let (now, group) = (flags(id as u32), flags(entry.group));
        let owned = entry.owner != NOBODY;
        if now & DROPPED == 0
            && (now | group) & FORGIVEN == 0
            && !(owned && leaky(entry.kind, entry.owner))
        {
            finding("never dropped", &format!("{} (token {id}, flags {now})", describe(id as u32)));
        }
        if entry.kind == Kind::Message && owned && kept(entry.owner) {
            let lost = now & ACCEPTED != 0 && now & (RUN | BACK | FORGIVEN) == 0;
            if lost && !leaky(entry.kind, entry.owner) {
                finding("an accepted message was lost", &describe(id as u32));
            }
        }
    }
    all_dropped(leaky)
}

/// Is all dropped that must be? The same question as [`settle`]'s first, without a word.
pub fn all_dropped(leaky: impl Fn(Kind, usize) -> bool) -> bool {
    let entries = BOOK.lock().unwrap().entries.clone();
    entries.iter().enumerate().all(|(id, entry)| {
        let (now, group) = (flags(id as u32), flags(entry.group));
        let leaky = entry.owner != NOBODY && leaky(entry.kind, entry.owner);
        now & DROPPED != 0 || (now | group) & FORGIVEN != 0 || leaky
    })
}
