//! The ledger of a program: the living objects, the dead ones, and the forbidden events.
//!
//! Every state, message, answer, payload and waker carries a [`Token`], which is a mere number: its
//! record is in a table that no memory error of the program under test reaches by accident.
//!
//! Objects that a program forgets on purpose may continue after its end, on a thread of the global
//! pool or of rayon's, and create tokens in the middle of the next program. So a token contains the
//! number of its program in its upper half, and the table ignores those of other programs.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Flags of a token: the fate of its object.
pub const DROPPED: u32 = 1;
pub const RUN: u32 = 2;
/// Its `send` reported that it was accepted.
pub const ACCEPTED: u32 = 4;
/// It was returned to its sender, or its sender cancelled it: it must never run.
pub const BACK: u32 = 8;
/// An object that holds it was forgotten on purpose.
pub const FORGIVEN: u32 = 16;
/// It was accepted, and is no request: it runs, or goes to the undelivered hook if there is one.
pub const TOLD: u32 = 32;
/// The undelivered hook has received it.
pub const HOOKED: u32 = 64;
/// The answer that its handler promised was given.
pub const KEPT: u32 = 128;
/// The answer was given, or the promise is gone.
pub const SETTLED: u32 = 256;
/// Its promise was claimed, and the claim reported success.
pub const CLAIMED: u32 = 512;
/// The reply to its promise was cancelled, and the cancel reported success.
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

/// The owner of objects that belong to no actor.
pub const NOBODY: usize = usize::MAX;
const SLOTS: usize = 1 << 16;

static FLAGS: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
/// The number of events.
static PROGRESS: AtomicU64 = AtomicU64::new(0);
/// The number of calls of the crate.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);
/// The steps that were done in situations, by a hash.
static SEEN: [AtomicU32; 2048] = [const { AtomicU32::new(0) }; 2048];
static NEW: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static BOOK: Mutex<Book> = Mutex::new(Book { entries: Vec::new(), findings: 0 });
/// The running program, by its number in this process.
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
    /// The message from which it came; a message is its own.
    group: u32,
}

/// Begins a new program, and returns its number; tokens of earlier ones are ignored from now on.
pub fn begin() -> u32 {
    let mut book = BOOK.lock().unwrap();
    // First, because objects that an earlier program has forgotten, and releases now, must mark
    // nothing here.
    let epoch = EPOCH.fetch_add(1, SeqCst) + 1;
    book.entries.clear();
    book.findings = 0;
    FLAGS.iter().for_each(|flags| flags.store(0, SeqCst));
    epoch
}

/// True if it belongs to the running program.
pub fn is_current(id: u32) -> bool {
    id >> 16 == EPOCH.load(SeqCst) & 0xffff
}

/// Returns the index of its record.
fn index(id: u32) -> Option<usize> {
    is_current(id).then_some(id as usize & (SLOTS - 1))
}

fn number(epoch: u32, index: usize) -> u32 {
    epoch << 16 | index as u32
}

/// Reports a finding, of a kind that is the same in every run of the program.
pub fn finding(kind: &str, detail: &str) {
    let mut book = BOOK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    book.findings += 1;
    if book.findings <= 20 {
        let mut line = String::new();
        let _ = writeln!(line, "finding {kind}|{}", detail.replace('\n', " "));
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    }
}

/// Returns the number of findings about this program.
pub fn findings() -> usize {
    BOOK.lock().unwrap().findings
}

/// Counted from its creation to its drop.
#[derive(Debug)]
pub struct Token {
    pub id: u32,
}

impl Token {
    /// A token of the program of that number.
    pub fn new(epoch: u32, kind: Kind, owner: usize, group: Option<u32>) -> Self {
        let mut book = BOOK.lock().unwrap();
        if epoch != EPOCH.load(SeqCst) {
            let line = format!("late {kind:?}\n");
            let _ = std::io::stdout().lock().write_all(line.as_bytes());
            return Token { id: number(epoch, 0) };
        }
        let at = book.entries.len();
        if at >= SLOTS {
            // The hook of a panic looks at the book.
            drop(book);
            panic!("a program of too many tokens");
        }
        let id = number(epoch, at);
        book.entries.push(Entry { kind, owner, group: group.unwrap_or(id) });
        Token { id }
    }

    pub fn is_current(&self) -> bool {
        is_current(self.id)
    }

    /// Marks the beginning of the message's turn.
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

/// Records progress: the program is not stuck.
pub fn happens() {
    PROGRESS.fetch_add(1, SeqCst);
}

/// Counts calls of the crate.
pub fn calls(times: u64) {
    OPERATIONS.fetch_add(times, Relaxed);
}

/// Returns the number since the last call.
pub fn operations() -> u64 {
    OPERATIONS.swap(0, SeqCst)
}

/// Records a step in a situation, which may be new.
pub fn feature(what: impl Hash) {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    let at = hasher.finish() as u32 & 0xffff;
    let bit = 1 << (at % 32);
    if SEEN[at as usize / 32].fetch_or(bit, Relaxed) & bit == 0 {
        NEW.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(at);
    }
}

/// Marks a feature as known.
pub fn is_known(at: u32) {
    SEEN[at as usize / 32 % 2048].fetch_or(1 << (at % 32), Relaxed);
}

/// Returns the new features since the last call.
pub fn new_features() -> Vec<u32> {
    std::mem::take(&mut NEW.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Returns the number of events, for a later comparison.
pub fn progress() -> u64 {
    PROGRESS.load(SeqCst)
}

/// Marks a token, and returns its flags before.
pub fn mark(id: u32, flag: u32) -> u32 {
    happens();
    index(id).map_or(0, |at| FLAGS[at].fetch_or(flag, SeqCst))
}

/// Removes a mark.
pub fn unmark(id: u32, flag: u32) {
    if let Some(at) = index(id) {
        FLAGS[at].fetch_and(!flag, SeqCst);
    }
}

/// Returns the flags of a token; none if it belongs to another program.
pub fn flags(id: u32) -> u32 {
    index(id).map_or(0, |at| FLAGS[at].load(SeqCst))
}

/// True if the flag certainly does not apply.
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

/// Describes a token for a report, with all its flags.
pub fn described(id: u32) -> String {
    let group = entry(id).map_or(id, |entry| entry.group);
    let (at, of) = (id & 0xffff, group & 0xffff);
    let (own, groups) = (flags(id), flags(group));
    format!("{}, token {at} with flags {own} of group {of} with flags {groups}", describe(id))
}

/// Returns the number of messages to that actor that have all of some flags and none of others, and
/// were not forgotten on purpose.
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

/// Reports messages without their fates when all is over. `kept`: actors that ended well; their
/// accepted messages must have run. `hooked`: actors with an undelivered hook; their accepted
/// messages must have run or have been passed to it.
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

/// Returns the tokens that still exist, although none was forgotten. No token is created meanwhile,
/// so a thread that creates one and drops another is not overlooked.
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

/// Returns the kind of a token, and the actor to which it belongs.
pub fn kind(id: u32) -> Option<(Kind, usize)> {
    entry(id).map(|entry| (entry.kind, entry.owner))
}
