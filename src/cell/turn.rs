//! A suspended turn: the word that decides who goes on with it, and the place of its owner.
//!
//! A turn whose future is pending keeps its mailbox: nothing else of the actor runs, senders leave
//! their messages as beside any turn, and the mailbox's word is not touched. The owner and the
//! right to go on with the turn ([`TurnMut`]) lie in the turn itself, on no thread. The step that
//! takes them out has to go on with both ([`WokenTurn`]), and nothing else can.
//!
//! | bits of the word | mean                                                                  |
//! |------------------|-----------------------------------------------------------------------|
//! | SUSPENDED        | the owner lies there                                                  |
//! | WOKEN            | woken since the poll began, while the owner was out                   |
//! | CUT              | the future is dropped where it would be polled                        |
//! | LOST             | the reason of a cut: no waker is left                                 |
//! | WAKERS           | wakers that are out                                                   |
//! | KEEPERS          | what else keeps the memory: the mailbox, the stop's way, abort handles |
//!
//! | call            | by           | from -> to                           | then                       |
//! |-----------------|--------------|--------------------------------------|----------------------------|
//! | `suspend`       | its owner    | - -> SUSPENDED                       | the owner lies there       |
//! |                 |              | WOKEN or CUT: WOKEN is cleared       | refused: the owner goes on |
//! |                 |              | no waker: -> CUT, LOST               | refused: the owner goes on |
//! | `wake`          | any thread   | SUSPENDED -> -                       | the owner is the caller's  |
//! |                 |              | - -> WOKEN                           | nothing                    |
//! | `cut`           | abort, stop  | SUSPENDED -> CUT                     | the owner is the caller's  |
//! |                 |              | - -> CUT                             | nothing                    |
//! | waker dropped   | any thread   | the last one, SUSPENDED -> CUT, LOST | the owner is the caller's  |
//! | `begin_poll`    | its owner    | WOKEN -> -                           | polls, or drops            |
//!
//! - TURN-1: the place of the owner belongs to the [`TurnMut`] while SUSPENDED is clear, and to the
//!   step that clears SUSPENDED.
//! - TURN-2: the memory is there as long as WAKERS or KEEPERS are.
//! - TURN-3: a stop finds a suspended turn. The turn is registered in the actor's [`Ext`] before it
//!   is suspended first, and STOP is looked for after that; a stop is raised before it looks there.
//!   One of the two sees the other.
//! - TURN-4: a turn has one [`TurnMut`], from its beginning to its end: in the node of its message,
//!   with its owner between two polls, or in the turn itself while that is suspended.
//! - TURN-5: a count that has reached its largest value stays there. A program that forgets that
//!   many wakers, or handles, of one turn keeps the memory of it for ever.
//! - WAKE: `step` Release -> the `step` that clears WOKEN or SUSPENDED, Acquire. A poll sees what
//!   was done before the wake that it follows.
//! - LAID: `suspend`'s `step` Release -> the `step` that clears SUSPENDED, Acquire. The owner is
//!   there.
//! - LAST: `step` Release -> the `step` that leaves no count, Acquire. The memory goes after all
//!   that was done with it.
//!
//! [`Ext`]: super::header::Ext

use std::ops::Deref;
use std::ptr::NonNull;

use super::header::{Header, Resting};
use crate::mailbox::node::NodePtr;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::sync::cell::UnsafeCell;
use crate::sync::config::WAKER_BITS;

const SUSPENDED: u64 = 1;
const WOKEN: u64 = 2;
const CUT: u64 = 4;
const LOST: u64 = 8;
const WAKER: u64 = 1 << 4;
const WAKERS: u64 = ((1 << WAKER_BITS) - 1) * WAKER;
const KEEPER: u64 = 1 << 32;
const KEEPERS: u64 = !(KEEPER - 1);
const _: () = assert!(WAKERS < KEEPER);

/// The head of all turns that may wait.
pub(crate) struct Core {
    word: AtomicU64,
    /// The owner, while the turn is suspended (TURN-1).
    place: UnsafeCell<Option<WokenTurn>>,
    /// For the [`TurnMut`] alone (TURN-4).
    kept: UnsafeCell<BetweenPolls>,
    vtable: &'static TurnVTable,
}

/// State that is kept from one poll to the next.
#[derive(Default)]
struct BetweenPolls {
    /// A stop finds the turn (TURN-3).
    registered: bool,
    /// It has been about to be suspended.
    has_lain: bool,
}

/// Functions of a turn's type.
pub(crate) struct TurnVTable {
    /// A node by which the mailbox goes on with the turn.
    ///
    /// # Safety
    /// The turn is of that type.
    pub(crate) node: unsafe fn(TurnMut) -> NodePtr,
    /// Gives the memory back.
    ///
    /// # Safety
    /// The turn is of that type, and nothing keeps it any more.
    pub(crate) free: unsafe fn(NonNull<Core>),
}

/// The reason that a future is dropped instead of being polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// By an abort handle, or a stop.
    Aborted,
    /// No waker is left.
    Lost,
}

/// One reference more.
fn more(now: u64, one: u64, all: u64) -> u64 {
    if now & all == all { now } else { now + one }
}

/// One reference less, unless they are too many to be counted (TURN-5).
fn fewer(now: u64, one: u64, all: u64) -> u64 {
    if now & all == all { now } else { now - one }
}

impl Core {
    /// With one keeper.
    pub(crate) fn new(vtable: &'static TurnVTable) -> Self {
        Core {
            word: AtomicU64::new(KEEPER),
            place: UnsafeCell::new(None),
            kept: UnsafeCell::new(BetweenPolls::default()),
            vtable,
        }
    }

    /// Moves the word from what it is to what `next` makes of it. If that clears SUSPENDED, the
    /// owner is the caller's.
    fn step(&self, next: impl Fn(u64) -> u64) -> (u64, Option<WokenTurn>) {
        let mut now = self.word.load(Relaxed);
        loop {
            let to = next(now);
            // Ordering: AcqRel. Release: writer side of WAKE, LAID and LAST. Acquire: reader side
            // of the same. A failure is only the guess of the next attempt.
            match self.word.compare_exchange(now, to, AcqRel, Relaxed) {
                Err(seen) => now = seen,
                Ok(_) if now & !to & SUSPENDED != 0 => {
                    // SAFETY: TURN-1: this step has cleared SUSPENDED.
                    return (to, self.place.with_mut(|place| unsafe { (*place).take() }));
                }
                Ok(_) => return (to, None),
            }
        }
    }

    fn woken(now: u64) -> u64 {
        if now & SUSPENDED == 0 { now | WOKEN } else { now & !SUSPENDED }
    }

    /// Wakes the turn; if its owner lies there, it is the caller's.
    pub(crate) fn wake(&self) -> Option<WokenTurn> {
        self.step(Core::woken).1
    }

    pub(crate) fn retain_waker(&self) {
        let _ = self.step(|now| more(now, WAKER, WAKERS));
    }

    /// One waker less, which wakes the turn first if `wakes`. If the owner lies there, and is
    /// woken, or no waker is left, it is the caller's.
    ///
    /// # Safety
    /// The caller gives up a waker that was counted.
    pub(crate) unsafe fn release_waker(core: NonNull<Core>, wakes: bool) -> Option<WokenTurn> {
        let release = |now| {
            let now = if wakes { Core::woken(now) } else { now };
            let left = fewer(now, WAKER, WAKERS);
            let lost = left & SUSPENDED != 0 && left & WAKERS == 0;
            if lost { left & !SUSPENDED | CUT | LOST } else { left }
        };
        // SAFETY: TURN-2: the waker is counted until this step, and what the step has left is what
        // `free_if_last` is asked about.
        unsafe {
            let (left, woken) = core.as_ref().step(release);
            free_if_last(core, left);
            woken
        }
    }
}

/// Gives the memory back if a step has left no count.
///
/// # Safety
/// `left` is what the caller's own step has left, which took one of the counts.
unsafe fn free_if_last(core: NonNull<Core>, left: u64) {
    if left & (WAKERS | KEEPERS) == 0 {
        // SAFETY: TURN-2: no count is left, so no other thread knows the turn, and it is freed
        // once. The function was given to it by its own type.
        unsafe { (core.as_ref().vtable.free)(core) }
    }
}

/// A count of a turn's memory that cannot poll it.
#[repr(transparent)]
pub(crate) struct Keeper(NonNull<Core>);

// SAFETY: what is done through it are steps of the word. The one that frees the turn, or goes on
// with its owner, does so by what is Send: the future, the message, the answer.
unsafe impl Send for Keeper {}
// SAFETY: a shared one gives out references to the core, whose word is atomic and whose other
// fields are reached through a `TurnMut` alone.
unsafe impl Sync for Keeper {}

impl Keeper {
    /// True if its turn is suspended. Stale on return.
    pub(crate) fn is_suspended(&self) -> bool {
        // Ordering: Relaxed. A hint: nothing is read through it.
        self.word.load(Relaxed) & SUSPENDED != 0
    }

    /// Has the turn's future dropped where it would be polled; if its owner lies there, it is the
    /// caller's.
    pub(crate) fn cut(&self) -> Option<WokenTurn> {
        self.step(|now| (now | CUT) & !SUSPENDED).1
    }
}

impl Deref for Keeper {
    type Target = Core;

    fn deref(&self) -> &Core {
        // SAFETY: TURN-2: this one is counted.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Keeper {
    fn clone(&self) -> Self {
        let _ = self.step(|now| more(now, KEEPER, KEEPERS));
        Keeper(self.0)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let (left, _) = self.step(|now| fewer(now, KEEPER, KEEPERS));
        // SAFETY: the step was this keeper's, which is not used again.
        unsafe { free_if_last(self.0, left) };
    }
}

/// The right to go on with a turn, of which there is one (TURN-4). It keeps the turn.
#[repr(transparent)]
pub(crate) struct TurnMut(Keeper);

impl TurnMut {
    /// That of a new turn.
    ///
    /// # Safety
    /// The turn was made just now, and this is called once.
    pub(crate) unsafe fn first(core: NonNull<Core>) -> Self {
        TurnMut(Keeper(core))
    }

    /// As an address, for [`from_raw`](Self::from_raw).
    pub(crate) fn into_raw(self) -> NonNull<()> {
        let core = self.0.0;
        std::mem::forget(self);
        core.cast()
    }

    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw), and comes back once.
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        TurnMut(Keeper(raw.cast()))
    }

    /// The count of the turn's memory, without the right to go on with it.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.0
    }

    /// The address of the turn.
    pub(crate) fn core(&self) -> NonNull<Core> {
        self.0.0
    }

    fn kept<R>(&mut self, f: impl FnOnce(&mut BetweenPolls) -> R) -> R {
        // SAFETY: TURN-4: there is one right to this turn, and it is borrowed for the call.
        self.0.kept.with_mut(|kept| f(unsafe { &mut *kept }))
    }

    /// A poll begins; or the future is to be dropped.
    #[inline]
    pub(crate) fn begin_poll(&mut self) -> Result<(), Cut> {
        // Ordering: Relaxed. What a wake carries comes with the step that clears WOKEN; a cut
        // carries nothing.
        let mut now = self.0.word.load(Relaxed);
        if now & WOKEN != 0 {
            (now, _) = self.0.step(|now| now & !WOKEN);
        }
        match now & (CUT | LOST) {
            0 => Ok(()),
            CUT => Err(Cut::Aborted),
            _ => Err(Cut::Lost),
        }
    }

    /// Sees to it that a stop finds the turn (TURN-3); one is looked for after that.
    pub(crate) fn register(&mut self, header: &Header) {
        if !self.kept(|kept| std::mem::replace(&mut kept.registered, true)) {
            let before = header.ext_made().turn.lock().replace(self.0.clone());
            debug_assert!(before.is_none(), "two turns of one actor");
        }
    }

    /// True, once: the turn is about to be suspended first.
    pub(crate) fn lies_first(&mut self) -> bool {
        self.kept(|kept| !std::mem::replace(&mut kept.has_lain, true))
    }

    /// The turn is over: a stop need not find it.
    pub(crate) fn unregister(&mut self, header: &Header) {
        if self.kept(|kept| std::mem::take(&mut kept.registered)) {
            // Dropped when the lock is given back.
            let keeper = header.ext_made().turn.lock().take();
            drop(keeper);
        }
    }

    /// True if it was woken or cut since its poll began. Stale on return.
    pub(crate) fn is_woken(&self) -> bool {
        // Ordering: Relaxed. A hint: the poll that follows looks again.
        self.0.word.load(Relaxed) & (WOKEN | CUT) != 0
    }

    /// The owner lies down in the turn, if a waker is there, and it was not woken already. A
    /// success is the caller's last look at the turn and at the mailbox.
    pub(crate) fn suspend(self, resting: Resting) -> Result<(), WokenTurn> {
        // What goes into the place keeps the turn, until the place is taken: perhaps in the very
        // step below, on another thread.
        let core = self.0.0;
        let woken = WokenTurn { turn: self, resting };
        // SAFETY: TURN-1, TURN-4: the right is in the caller's hand, so the turn is there and not
        // suspended.
        let step = unsafe {
            core.as_ref().place.with_mut(|place| *place = Some(woken));
            core.as_ref().step(|now| {
                if now & (WOKEN | CUT) != 0 {
                    now & !WOKEN
                } else if now & WAKERS == 0 {
                    now | CUT | LOST
                } else {
                    now | SUSPENDED
                }
            })
        };
        if step.0 & SUSPENDED != 0 {
            return Ok(());
        }
        // SAFETY: TURN-1: it was not suspended, so the place is this caller's still.
        let woken = unsafe { core.as_ref().place.with_mut(|place| (*place).take()) };
        Err(woken.expect("it was put there just now"))
    }

    /// A node by which the mailbox goes on with the turn.
    pub(crate) fn into_node(self) -> NodePtr {
        let node = self.0.vtable.node;
        // SAFETY: the function was given to the turn by its own type.
        unsafe { node(self) }
    }
}

/// A turn that is to go on, and the owner of its mailbox, taken out of it.
#[must_use = "a mailbox whose owner is forgotten is stuck"]
pub(crate) struct WokenTurn {
    turn: TurnMut,
    resting: Resting,
}

impl WokenTurn {
    /// The right to the turn, and the owner.
    pub(super) fn into_parts(self) -> (TurnMut, Resting) {
        (self.turn, self.resting)
    }
}
