//! The ledger of a program: who was made, who is gone, and what must not have happened.
//!
//! Every state, message, answer, payload and waker carries a [`Token`], which is a mere number:
//! what is known of it stands in a table that no error of memory in the program under test reaches
//! by accident.
//!
//! What a program forgets on purpose may go on after its end, on a thread of the global pool or of
//! rayon's: it makes tokens then, in the middle of the next program. So a token says of which
//! program it is, by the upper half of its number, and those of another one than the current one
//! are no concern of the table's.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// What became of a token.
pub const DROPPED: u32 = 1;
pub const RUN: u32 = 2;
/// Its `send` said that it was accepted.
pub const ACCEPTED: u32 = 4;
/// It came back to its sender, or its sender cancelled it: it must never run.
pub const BACK: u32 = 8;
/// Something that holds it was forgotten on purpose.
pub const FORGIVEN: u32 = 16;
/// It was accepted, and is no question: it runs, or goes to the undelivered hook if there is one.
pub const TOLD: u32 = 32;
/// The undelivered hook has got it.
pub const HOOKED: u32 = 64;
/// The answer that its handler promised was given.
pub const KEPT: u32 = 128;
/// The same, or the promise is gone.
pub const SETTLED: u32 = 256;
/// Its promise was claimed, and whoever claimed it was told so.
pub const CLAIMED: u32 = 512;
/// The reply to its promise was cancelled, and whoever cancelled it was told so.
pub const WITHDRAWN: u32 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    State,
    Message,
    Answer,
    Payload,
    Waker,
    Hook,
    Future,
    Timer,
}

/// The owner of what belongs to no actor.
pub const NOBODY: usize = usize::MAX;
const SLOTS: usize = 1 << 16;

static FLAGS: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
/// How much has happened.
static PROGRESS: AtomicU64 = AtomicU64::new(0);
/// How many calls of the crate there were.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);
/// What was done in which places, by a hash.
static SEEN: [AtomicU32; 2048] = [const { AtomicU32::new(0) }; 2048];
static NEW: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static BOOK: Mutex<Book> = Mutex::new(Book { entries: Vec::new(), findings: 0 });
/// The program that is running, by its number in this process.
static EPOCH: AtomicU32 = AtomicU32::new(0);

struct Book {
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

/// A new program begins; tokens of earlier ones count no more. Its number.
pub fn begin() -> u32 {
    let mut book = BOOK.lock().unwrap();
    // First: what an earlier program has forgotten, and lets go now, must mark nothing here.
    let epoch = EPOCH.fetch_add(1, SeqCst) + 1;
    book.entries.clear();
    book.findings = 0;
    FLAGS.iter().for_each(|flags| flags.store(0, SeqCst));
    epoch
}

/// Is it of the program that is running?
pub fn is_current(id: u32) -> bool {
    id >> 16 == EPOCH.load(SeqCst) & 0xffff
}

/// Where what is known of it stands.
fn index(id: u32) -> Option<usize> {
    is_current(id).then_some(id as usize & (SLOTS - 1))
}

fn number(epoch: u32, index: usize) -> u32 {
    epoch << 16 | index as u32
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
    pub id: u32,
}

impl Token {
    /// Of the program of that number.
    pub fn new(epoch: u32, kind: Kind, owner: usize, group: Option<u32>) -> Self {
        let mut book = BOOK.lock().unwrap();
        if epoch != EPOCH.load(SeqCst) {
            let line = format!("late {kind:?}\n");
            let _ = std::io::stdout().lock().write_all(line.as_bytes());
            return Token { id: number(epoch, 0) };
        }
        let at = book.entries.len();
        assert!(at < SLOTS, "a program of too many tokens");
        let id = number(epoch, at);
        book.entries.push(Entry { kind, owner, group: group.unwrap_or(id) });
        Token { id }
    }

    pub fn is_current(&self) -> bool {
        is_current(self.id)
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

/// A program is not stuck.
pub fn happens() {
    PROGRESS.fetch_add(1, SeqCst);
}

/// The crate was called, so often.
pub fn calls(times: u64) {
    OPERATIONS.fetch_add(times, Relaxed);
}

/// How often since this was asked before.
pub fn operations() -> u64 {
    OPERATIONS.swap(0, SeqCst)
}

/// Something was done where something else was done before: is that new?
pub fn feature(what: impl Hash) {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    let at = hasher.finish() as u32 & 0xffff;
    let bit = 1 << (at % 32);
    if SEEN[at as usize / 32].fetch_or(bit, Relaxed) & bit == 0 {
        NEW.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(at);
    }
}

/// That feature is no news.
pub fn is_known(at: u32) {
    SEEN[at as usize / 32 % 2048].fetch_or(1 << (at % 32), Relaxed);
}

/// What is new since this was asked before.
pub fn new_features() -> Vec<u32> {
    std::mem::take(&mut NEW.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Has something happened since? (From [`progress`] before.)
pub fn progress() -> u64 {
    PROGRESS.load(SeqCst)
}

/// Notes what became of a token; what was known before.
pub fn mark(id: u32, flag: u32) -> u32 {
    happens();
    index(id).map_or(0, |at| FLAGS[at].fetch_or(flag, SeqCst))
}

/// Takes a mark away.
pub fn unmark(id: u32, flag: u32) {
    if let Some(at) = index(id) {
        FLAGS[at].fetch_and(!flag, SeqCst);
    }
}

/// What is known of a token: of another program's, nothing.
pub fn flags(id: u32) -> u32 {
    index(id).map_or(0, |at| FLAGS[at].load(SeqCst))
}

/// Has that certainly not happened to it?
pub fn lacks(id: u32, flag: u32) -> bool {
    index(id).is_some_and(|at| FLAGS[at].load(SeqCst) & flag == 0)
}

fn entry(id: u32) -> Option<Entry> {
    let book = BOOK.lock().unwrap();
    book.entries.get(index(id)?).copied()
}

fn describe(id: u32) -> String {
    match entry(id).map(|entry| (entry.kind, entry.owner)) {
        Some((kind, NOBODY)) => format!("{kind:?}"),
        Some((kind, owner)) => format!("{kind:?} of actor {owner}"),
        None => "a token that was never made".into(),
    }
}

/// The same, for a report: with all that is known of it.
pub fn described(id: u32) -> String {
    let group = entry(id).map_or(id, |entry| entry.group);
    let (at, of) = (id & 0xffff, group & 0xffff);
    let (own, groups) = (flags(id), flags(group));
    format!("{}, token {at} with flags {own} of group {of} with flags {groups}", describe(id))
}

/// How many messages to that actor have all of some flags and none of others, and were not
/// forgotten on purpose.
pub fn messages(owner: usize, has: u32, lacks: u32) -> u64 {
    let book = BOOK.lock().unwrap();
    let epoch = EPOCH.load(SeqCst);
    let fits = |(at, entry): &(usize, &Entry)| {
        let now = flags(number(epoch, *at));
        let is_one = entry.kind == Kind::Message && entry.owner == owner;
        is_one && now & has == has && now & (lacks | FORGIVEN) == 0
    };
    book.entries.iter().enumerate().filter(fits).count() as u64
}

/// What is wrong with messages when all is over. `kept`: actors that came to a good end; what they
/// accepted must have run. `hooked`: actors with an undelivered hook; what they accepted must have
/// run or have been given to it.
pub fn settle(
    leaky: impl Fn(Kind, usize) -> bool,
    kept: impl Fn(usize) -> bool,
    hooked: impl Fn(usize) -> bool,
) {
    let entries = BOOK.lock().unwrap().entries.clone();
    let epoch = EPOCH.load(SeqCst);
    for (at, entry) in entries.iter().enumerate() {
        let id = number(epoch, at);
        let now = flags(id);
        let counts = entry.kind == Kind::Message && entry.owner != NOBODY;
        if !counts || now & (RUN | BACK | FORGIVEN) != 0 || leaky(entry.kind, entry.owner) {
            continue;
        }
        if now & ACCEPTED != 0 && kept(entry.owner) {
            finding("an accepted message was lost", &described(id));
        } else if now & (TOLD | HOOKED) == TOLD && hooked(entry.owner) {
            finding("an accepted message was not given back", &described(id));
        }
    }
}

/// The tokens that are still there, though nobody has forgotten them. No token is made meanwhile,
/// so a thread that makes one and drops another is not overlooked.
pub fn alive(leaky: impl Fn(Kind, usize) -> bool) -> Vec<u32> {
    let book = BOOK.lock().unwrap();
    let epoch = EPOCH.load(SeqCst);
    let alive = |(at, entry): (usize, &Entry)| {
        let id = number(epoch, at);
        let (now, group) = (flags(id), flags(entry.group));
        let leaky = entry.owner != NOBODY && leaky(entry.kind, entry.owner);
        let there = now & DROPPED == 0 && (now | group) & FORGIVEN == 0 && !leaky;
        there.then_some(id)
    };
    book.entries.iter().enumerate().filter_map(alive).collect()
}

/// The kind of a token, and the actor that it belongs to.
pub fn kind(id: u32) -> Option<(Kind, usize)> {
    entry(id).map(|entry| (entry.kind, entry.owner))
}
