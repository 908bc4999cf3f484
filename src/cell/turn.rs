//! A turn that waits: the word that decides who goes on with it, and the place of its owner.
//!
//! A turn whose future is pending keeps its mailbox: nothing else of the actor runs, senders leave
//! their messages as beside any turn, and the mailbox's word is not touched. Its owner lies in the
//! turn ([`Resting`]), on no thread. Whoever takes it out has to go on with it, and nobody else can.
//!
//! | bits of the word | mean                                                                 |
//! |------------------|----------------------------------------------------------------------|
//! | PARKED           | the owner lies there                                                 |
//! | WOKEN            | woken since the poll began, while the owner was out                  |
//! | CUT              | the future is dropped where it would be polled                       |
//! | LOST             | the same, because nobody is left who could wake it                   |
//! | WAKERS, 28 bits  | wakers that are out                                                  |
//! | KEEPERS, 32 bits | who else keeps the memory: the mailbox, the stop's way, abort handles |
//!
//! | call           | by           | from -> to                     | then                              |
//! |----------------|--------------|--------------------------------|-----------------------------------|
//! | `lie_down`     | its owner    | - -> PARKED                    | the owner lies there              |
//! |                |              | WOKEN or CUT: WOKEN is cleared | refused: the owner goes on        |
//! |                |              | no waker: -> CUT, LOST         | refused: the owner goes on        |
//! | `wake`         | anybody      | PARKED -> -                    | the owner is the caller's         |
//! |                |              | - -> WOKEN                     | nothing                           |
//! | `cut`          | abort, stop  | PARKED -> CUT                  | the owner is the caller's         |
//! |                |              | - -> CUT                       | nothing                           |
//! | waker dropped  | anybody      | the last one, PARKED -> CUT, LOST | the owner is the caller's      |
//! | `begin_poll`   | its owner    | WOKEN -> -                     | polls, or drops                   |
//!
//! - W1: the place of the owner is that of whoever runs the turn while PARKED is clear, and of
//!   whoever clears PARKED.
//! - W2: the memory is there as long as WAKERS or KEEPERS are.
//! - W3: a stop finds a turn that waits. The turn is registered in the actor's [`Ext`] before it
//!   waits first, and STOP is looked for after that; a stop is raised before it looks there. One of
//!   the two sees the other.
//! - WAKE: `step` Release -> the `step` that clears WOKEN or PARKED, Acquire. A poll sees what was
//!   done before the wake that it follows.
//! - LAID: `lie_down`'s `step` Release -> the `step` that clears PARKED, Acquire. The owner is there.
//! - LAST: `step` Release -> the `step` that leaves nobody, Acquire. The memory goes after all that
//!   the others did.
//!
//! [`Ext`]: super::header::Ext

use std::ptr::NonNull;

use super::batch::Hooked;
use super::header::{Header, STOP};
use super::owner::{Owner, Resting};
use crate::mailbox::node::NodePtr;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed};
use crate::sync::cell::UnsafeCell;

const PARKED: u64 = 1;
const WOKEN: u64 = 2;
const CUT: u64 = 4;
const LOST: u64 = 8;
const WAKER: u64 = 1 << 4;
const KEEPER: u64 = 1 << 32;
const WAKERS: u64 = KEEPER - WAKER;
const KEEPERS: u64 = !(KEEPER - 1);

/// What all turns that may wait begin with.
pub(crate) struct Core {
    word: AtomicU64,
    owner: UnsafeCell<Option<Resting>>,
    /// The owner's, also while it lies there.
    kept: UnsafeCell<Kept>,
    vtable: &'static VTable,
}

/// What is kept from one poll to the next.
#[derive(Default)]
struct Kept {
    /// The batch that the turn belongs to: it is not over before the turn is.
    hooked: Hooked,
    /// A stop finds the turn (W3).
    registered: bool,
}

/// What a turn's type knows.
pub(crate) struct VTable {
    /// A node by which the mailbox goes on with a pending turn, and which keeps it.
    pub(crate) node: unsafe fn(NonNull<Core>) -> NodePtr,
    /// Gives the memory back.
    pub(crate) free: unsafe fn(NonNull<Core>),
}

/// Why a future is dropped instead of being polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Somebody has asked for it.
    Aborted,
    /// Nobody can wake it.
    Lost,
}

impl Core {
    /// With one keeper.
    pub(crate) fn new(vtable: &'static VTable) -> Self {
        Core {
            word: AtomicU64::new(KEEPER),
            owner: UnsafeCell::new(None),
            kept: UnsafeCell::new(Kept::default()),
            vtable,
        }
    }

    /// Moves the word from what it is to what `next` makes of it. If that clears PARKED, the owner
    /// is the caller's.
    fn step(&self, next: impl Fn(u64) -> u64) -> (u64, Option<Resting>) {
        let mut now = self.word.load(Relaxed);
        loop {
            let to = next(now);
            // Ordering: AcqRel. Release: writer side of WAKE, LAID and LAST. Acquire: reader side of
            // the same. A failure is only the guess of the next attempt.
            match self.word.compare_exchange(now, to, AcqRel, Relaxed) {
                Err(seen) => now = seen,
                Ok(_) if now & !to & PARKED != 0 => {
                    // SAFETY: W1: this step has cleared PARKED.
                    return (to, self.owner.with_mut(|owner| unsafe { (*owner).take() }));
                }
                Ok(_) => return (to, None),
            }
        }
    }

    fn wake(now: u64) -> u64 {
        if now & PARKED == 0 { now | WOKEN } else { now & !PARKED }
    }

    /// A poll begins; or the future is to be dropped.
    fn begin_poll(&self) -> Result<(), Cut> {
        // Ordering: Relaxed. What a wake carries comes with the step that clears WOKEN; a cut carries
        // nothing.
        let mut now = self.word.load(Relaxed);
        if now & WOKEN != 0 {
            (now, _) = self.step(|now| now & !WOKEN);
        }
        match now {
            _ if now & LOST != 0 => Err(Cut::Lost),
            _ if now & CUT != 0 => Err(Cut::Aborted),
            _ => Ok(()),
        }
    }
}

/// A turn that may wait, by its address: who has one knows who keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnPtr(pub(crate) NonNull<Core>);

impl TurnPtr {
    fn core<'a>(self) -> &'a Core {
        // SAFETY: W2, by whoever has the address.
        unsafe { self.0.as_ref() }
    }

    /// A poll begins; or the future is to be dropped. By the owner.
    #[inline]
    pub(crate) fn begin_poll(self) -> Result<(), Cut> {
        self.core().begin_poll()
    }

    /// A node by which the mailbox goes on with the turn.
    ///
    /// # Safety
    /// The turn is pending, its owner is in the caller's hand, and this is called once for that.
    pub(crate) unsafe fn node(self) -> NodePtr {
        // SAFETY: W2, and the caller's word; the function is that of the turn's type.
        unsafe { (self.core().vtable.node)(self.0) }
    }

    /// Keeps the batch that the turn belongs to, for the time that it waits. By the owner.
    pub(crate) fn keep(self, hooked: Hooked) {
        // SAFETY: the owner's.
        self.core().kept.with_mut(|kept| unsafe { (*kept).hooked = hooked });
    }

    /// Takes the batch out. By the owner.
    pub(crate) fn hooked(self) -> Hooked {
        // SAFETY: the owner's.
        self.core().kept.with_mut(|kept| unsafe { std::mem::take(&mut (*kept).hooked) })
    }

    /// Sees to it that a stop finds the turn (W3); by the owner. False if the actor has stopped.
    pub(crate) fn register(self, header: &Header) -> bool {
        // SAFETY: the owner's.
        let known = self
            .core()
            .kept
            .with_mut(|kept| unsafe { std::mem::replace(&mut (*kept).registered, true) });
        if !known {
            let before = header.ext_made().turn.lock().replace(Keeper::of(self));
            debug_assert!(before.is_none(), "two turns of one actor");
        }
        !header.has(STOP)
    }

    /// The turn is over: a stop need not find it. By the owner.
    pub(crate) fn unregister(self, header: &Header) {
        // SAFETY: the owner's.
        let known =
            self.core().kept.with_mut(|kept| unsafe { std::mem::take(&mut (*kept).registered) });
        if known {
            // Dropped when the lock is given back.
            let keeper = header.ext_made().turn.lock().take();
            drop(keeper);
        }
    }

    /// Was it woken, or cut, since its poll began? Stale on return. By the owner.
    pub(crate) fn is_woken(self) -> bool {
        // Ordering: Relaxed. A hint: the poll that follows looks again.
        self.core().word.load(Relaxed) & (WOKEN | CUT) != 0
    }

    /// The owner lies down in the turn, if somebody is there who can wake it, and nobody has done so
    /// already. A success is the caller's last look at the turn and at the mailbox.
    pub(crate) fn lie_down(self, owner: Owner) -> Result<(), Owner> {
        let core = self.core();
        // SAFETY: W1: the owner runs the turn, so PARKED is clear.
        core.owner.with_mut(|place| unsafe { *place = Some(owner.lie_down()) });
        let (to, _) = core.step(|now| {
            if now & (WOKEN | CUT) != 0 {
                now & !WOKEN
            } else if now & WAKERS == 0 {
                now | CUT | LOST
            } else {
                now | PARKED
            }
        });
        if to & PARKED != 0 {
            return Ok(());
        }
        // SAFETY: W1: it is clear still.
        let resting = core.owner.with_mut(|place| unsafe { (*place).take() });
        Err(resting.expect("the owner has just lain down").get_up())
    }

    /// Wakes the turn; if its owner lies there, it is the caller's.
    pub(crate) fn wake(self) -> Option<Resting> {
        self.core().step(Core::wake).1
    }

    /// One more waker.
    pub(crate) fn retain_waker(self) {
        let (to, _) = self.core().step(|now| now + WAKER);
        if to & WAKERS > WAKERS / 2 {
            overflow();
        }
    }

    /// One waker less, which wakes the turn first if `wakes`. If the owner lies there, and is woken,
    /// or nobody is left who could do that, it is the caller's.
    pub(crate) fn release_waker(self, wakes: bool) -> Option<Resting> {
        let (to, resting) = self.core().step(|now| {
            let left = if wakes { Core::wake(now) } else { now } - WAKER;
            if left & PARKED != 0 && left & WAKERS == 0 {
                left & !PARKED | CUT | LOST
            } else {
                left
            }
        });
        self.free_if_last(to);
        resting
    }

    fn release_keeper(self) {
        let (to, _) = self.core().step(|now| now - KEEPER);
        self.free_if_last(to);
    }

    fn free_if_last(self, left: u64) {
        if left & (WAKERS | KEEPERS) == 0 {
            // SAFETY: W2: nobody is left. The function is that of the turn's type.
            unsafe { (self.core().vtable.free)(self.0) }
        }
    }
}

/// One of those that keep a turn's memory and cannot wake it.
#[repr(transparent)]
pub(crate) struct Keeper(NonNull<Core>);

// SAFETY: what is done through it are steps of the word; whoever frees the turn, or goes on with its
// owner, does so by what is Send: the future, the message, the answer.
unsafe impl Send for Keeper {}
// SAFETY: as above.
unsafe impl Sync for Keeper {}

impl Keeper {
    /// That of a new turn.
    ///
    /// # Safety
    /// The turn was made just now, and this is called once.
    pub(crate) unsafe fn first(turn: TurnPtr) -> Self {
        Keeper(turn.0)
    }

    /// The mailbox's, of a turn that was pending.
    ///
    /// # Safety
    /// The turn keeps itself, and does not do so from now on.
    pub(crate) unsafe fn of_pending(turn: TurnPtr) -> Self {
        Keeper(turn.0)
    }

    /// One more.
    pub(crate) fn of(turn: TurnPtr) -> Self {
        // Ordering: Relaxed. Whoever has the address knows who keeps the turn.
        let before = turn.core().word.fetch_add(KEEPER, Relaxed);
        if before & KEEPERS > KEEPERS / 2 {
            overflow();
        }
        Keeper(turn.0)
    }

    pub(crate) fn turn(&self) -> TurnPtr {
        TurnPtr(self.0)
    }

    /// Does its owner lie there? Stale on return.
    pub(crate) fn is_parked(&self) -> bool {
        // Ordering: Relaxed. A hint: nothing is read through it.
        self.turn().core().word.load(Relaxed) & PARKED != 0
    }

    /// Has the turn's future dropped where it would be polled; if its owner lies there, it is the
    /// caller's.
    pub(crate) fn cut(&self) -> Option<Resting> {
        self.turn().core().step(|now| (now | CUT) & !PARKED).1
    }
}

impl Clone for Keeper {
    fn clone(&self) -> Self {
        Keeper::of(self.turn())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.turn().release_keeper();
    }
}

/// So many references to one turn that the next might not be counted.
#[cold]
fn overflow() -> ! {
    std::process::abort()
}
