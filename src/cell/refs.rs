//! References to a cell: each owns one count, but the one entry.
//!
//! A [`Strong`] keeps the actor going, a [`Ref`] (and a [`Weak`], which knows the state's type)
//! only its memory. A [`Scheduled`], the mailbox's entry, owns no count: the word keeps the memory
//! for it (HEADER-6). What dropping the last handle does stands above, where drains are
//! ([`crate::send::close`]).

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZero;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::built::BuiltRef;
use super::config::UndeliveredHook;
use super::counts::Counts;
use super::executor::Drain;
use super::header::{CellPtr, Header, Held};
use super::reclaim::{Dead, reclaim};
use super::settings::{Guard, HAS_EXECUTOR, Kind, TAGS};
use super::typed::{Cell, Counted};
use crate::mailbox::word::{Raised, Snapshot};
use crate::time::Clock;

/// One count of a cell's memory: the actor may have ended.
pub(crate) struct Ref(CellPtr);

impl Ref {
    /// One more reference to a cell.
    #[inline]
    pub(super) fn retain(cell: &CellPtr) -> Self {
        cell.counts().retain();
        // SAFETY: HEADER-3: it was counted just now.
        Ref(unsafe { cell.again() })
    }

    /// One more reference to a cell that is known by its address.
    ///
    /// # Safety
    /// The cell is alive during this call, and `cell` is a pointer to all of it.
    pub(crate) unsafe fn retain_at(cell: NonNull<Header>) -> Self {
        // SAFETY: it is alive during this call.
        Ref::retain(&unsafe { CellPtr::new(cell) })
    }

    /// The reference that the handles have all together.
    ///
    /// # Safety
    /// No handle is left, the actor has ended, and this is called once.
    pub(super) unsafe fn of_handles(cell: &CellPtr) -> Self {
        // SAFETY: HEADER-3: the handles' reference is counted until it is given up here.
        Ref(unsafe { cell.again() })
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        self.0.header()
    }

    /// The entry of a pending mailbox that has none out.
    pub(crate) fn schedule(&self) -> Option<Scheduled> {
        self.header().word.schedule().map(|raised| Scheduled::of(&self.0, raised))
    }

    #[inline]
    pub(super) fn ptr(&self) -> &CellPtr {
        &self.0
    }

    /// The cell that a message of this mailbox runs in.
    pub(crate) fn cell(&self) -> *const Header {
        self.0.as_ptr()
    }

    /// The number of the cell.
    #[inline]
    pub(crate) fn addr(&self) -> usize {
        self.0.addr()
    }

    /// The cell, whose count goes with it.
    #[inline]
    fn into_cell(self) -> NonNull<Header> {
        let cell = self.0.get();
        std::mem::forget(self);
        cell
    }
}

/// The one entry of a mailbox in a run queue: in a thread's list, or in an executor. It owns no
/// count: SCHEDULED in the word stands for it, and the last reference leaves the memory to it.
#[must_use = "an entry that is forgotten strands its mailbox"]
pub(crate) struct Scheduled(CellPtr);

impl Scheduled {
    /// The entry that a step on the word of this cell has raised SCHEDULED for.
    #[inline]
    pub(super) fn of(cell: &CellPtr, raised: Raised) -> Self {
        assert!(raised.is_of(&cell.header().word), "the entry of another mailbox");
        // SAFETY: HEADER-6: SCHEDULED is raised for this entry, and keeps the cell.
        Scheduled(unsafe { cell.again() })
    }

    pub(crate) fn header(&self) -> &Header {
        self.0.header()
    }

    /// The cell, for the step that uses the entry up.
    #[inline(always)]
    pub(super) fn into_cell(self) -> CellPtr {
        // SAFETY: HEADER-6: the entry is out until that step.
        let cell = unsafe { self.0.again() };
        std::mem::forget(self);
        cell
    }

    /// A reference in place of the entry; `None` if none is left, or nothing waits.
    fn into_ref(self) -> Option<Ref> {
        if !self.0.counts().try_retain() {
            return None;
        }
        // It was counted just now.
        let cell = Ref(self.into_cell());
        cell.header().word.unschedule_only().then_some(cell)
    }
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        // Stale, unless its owner is dropped with it: then it was never put anywhere.
        // SAFETY: HEADER-6: the entry is used up here, and this one is not looked at again.
        let owner = Scheduled(unsafe { self.0.again() }).take_over();
        debug_assert!(owner.is_none() || std::thread::panicking(), "an entry was dropped");
        std::mem::forget(owner);
    }
}

/// A mailbox's place in a run queue: its entry, or a hint.
pub(crate) enum Queued {
    Entry(Scheduled),
    /// A hint beside it.
    Hint(Ref),
}

/// In the lowest bit of a [`Queued`]'s address.
const HINT: usize = 1;
/// In the address of what an executor keeps of an actor whose turn may be suspended: it is not to
/// be run.
const ENROLLED: usize = 2;

impl Ref {
    /// A drain that is not to be run. Dropped by its executor, it stops the actor if a turn of it
    /// is suspended.
    pub(crate) fn into_enrolled(self) -> Drain {
        let raw = self.into_cell().cast::<()>().map_addr(|addr| addr | ENROLLED);
        // SAFETY: the reference is given up here, and the drain stands for it.
        unsafe { Drain::from_raw(raw) }
    }

    /// The reference of a drain that is not to be run, once.
    pub(crate) fn of_enrolled(drain: &mut Drain) -> Option<Self> {
        let raw = drain.entry().filter(|raw| raw.addr().get() & ENROLLED != 0)?;
        let _ = drain.take();
        let cell = NonNull::new(raw.as_ptr().map_addr(|addr| addr & !ENROLLED).cast())?;
        // SAFETY: HEADER-3: it is the count that `into_enrolled` gave up, taken out once.
        Some(Ref(unsafe { CellPtr::new(cell) }))
    }
}

impl Queued {
    /// A drain that stands for it.
    #[inline]
    pub(crate) fn into_drain(self) -> Drain {
        // SAFETY: it is given up here, and the drain stands for it.
        unsafe { Drain::from_raw(self.into_raw()) }
    }

    /// Takes the entry or hint out of a drain.
    #[inline]
    pub(crate) fn of_drain(drain: &mut Drain) -> Option<Self> {
        // SAFETY: a drain stands for one, which is taken out here.
        drain.take().map(|raw| unsafe { Queued::from_raw(raw) })
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<()> {
        match self {
            Queued::Entry(entry) => entry.into_cell().get().cast(),
            Queued::Hint(cell) => cell.into_cell().cast::<()>().map_addr(|addr| addr | HINT),
        }
    }

    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw), and comes back once.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        let addr = raw.addr().get();
        // SAFETY: a cell's address is not null, and what kept it was given away with it, as the
        // lowest bit says: the entry (HEADER-6), or a count (HEADER-3).
        let cell =
            unsafe { CellPtr::new(raw.map_addr(|_| NonZero::new_unchecked(addr & !HINT)).cast()) };
        if addr & HINT == 0 { Queued::Entry(Scheduled(cell)) } else { Queued::Hint(Ref(cell)) }
    }

    pub(crate) fn header(&self) -> &Header {
        match self {
            Queued::Entry(entry) => entry.header(),
            Queued::Hint(cell) => cell.header(),
        }
    }

    /// The number of the cell.
    #[inline]
    pub(crate) fn addr(&self) -> usize {
        match self {
            Queued::Entry(entry) => entry.0.addr(),
            Queued::Hint(cell) => cell.addr(),
        }
    }

    /// A reference in its place; `None` if there is nothing to run.
    pub(crate) fn into_ref(self) -> Option<Ref> {
        match self {
            Queued::Entry(entry) => entry.into_ref(),
            // One that has left it pending since has left it to another entry or hint (SCHEDULE-1).
            Queued::Hint(cell) => cell.header().word.load().is_pending().then_some(cell),
        }
    }
}

impl Clone for Ref {
    #[inline]
    fn clone(&self) -> Self {
        Ref::retain(&self.0)
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        // The count is 0: the cell is this thread's, or the entry's.
        if self.0.counts().release() && !self.header().word.is_left_to_entry() {
            // SAFETY: HEADER-3: no reference is left, and no entry is out.
            unsafe { reclaim(Dead::Cell(self.0.get())) }
        }
    }
}

/// One of the handles that keep an actor going: the cell's address, with [`TAGS`] in its lowest
/// bits. They are in the handle so that a send knows them without looking at the cell: the word's
/// line comes over by the claim alone.
pub(crate) struct Strong<S>(NonNull<Header>, PhantomData<fn(S) -> S>);

const _: () = assert!(align_of::<Header>() > TAGS);

// SAFETY: the state is touched by one thread at a time (HEADER-1) and sent from one to the next;
// everything else in the cell is atomic or locked, or is touched by the mailbox's owner alone.
unsafe impl<S: Send> Send for Strong<S> {}
// SAFETY: a thread that borrows a handle can clone it, and a clone may go to that thread: the state
// is Send. No handle lends the state to two threads at a time (HEADER-1).
unsafe impl<S: Send> Sync for Strong<S> {}

/// A reference that a handle lends: it has no count of its own.
pub(crate) struct BorrowedRef<'a>(ManuallyDrop<Ref>, PhantomData<&'a ()>);

impl Deref for BorrowedRef<'_> {
    type Target = Ref;

    #[inline(always)]
    fn deref(&self) -> &Ref {
        &self.0
    }
}

impl<S> Strong<S> {
    pub(crate) fn new(state: S) -> Self {
        // A plain cell has no tags.
        let Counted(cell, of) = Cell::create(state);
        Strong(cell.get(), of)
    }

    /// An actor of this configuration.
    #[inline]
    pub(crate) fn of_built(state: S, built: BuiltRef<S>) -> Self {
        Self::of(Cell::create_of(state, built))
    }

    /// An actor with something that is dropped when it has ended, of this configuration, or a plain
    /// one; and with this clock, unless its configuration has one.
    pub(crate) fn guarded(
        state: S,
        built: Option<BuiltRef<S>>,
        guard: Box<dyn Guard>,
        clock: Option<&Arc<dyn Clock>>,
    ) -> Self {
        Self::of(Cell::create_guarded(state, built, guard, clock))
    }

    #[inline]
    fn of(Counted(cell, of): Counted<S>) -> Self {
        let tags = cell.header().config().tags();
        // A tag is in a bit that an address leaves free, so none makes it null.
        Strong(cell.get().map_addr(|addr| addr | tags), of)
    }

    /// True if the actor is run by its executor, and by nothing else.
    #[inline(always)]
    pub(crate) fn has_executor(&self) -> bool {
        self.0.addr().get() & HAS_EXECUTOR != 0
    }

    /// The tags of the handle's address.
    #[inline(always)]
    pub(crate) fn tags(&self) -> usize {
        self.0.addr().get() & TAGS
    }

    /// True if a message for a busy mailbox is pushed with no look at anything else.
    #[inline(always)]
    pub(crate) fn is_direct(&self) -> bool {
        self.header().config().is_direct()
    }

    #[inline(always)]
    fn addr_of_cell(&self) -> *mut Header {
        self.0.as_ptr().map_addr(|addr| addr & !TAGS)
    }

    #[inline(always)]
    pub(super) fn ptr(&self) -> CellPtr {
        // SAFETY: without its tags it is the cell's address, which is not null. The handle keeps
        // the cell (HEADER-3), and the result is used while it does.
        unsafe { CellPtr::new(NonNull::new_unchecked(self.addr_of_cell())) }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: HEADER-3: a handle keeps the cell.
        unsafe { &*self.addr_of_cell() }
    }

    /// The cell, whose type the handle knows.
    #[inline(always)]
    fn cell(&self) -> &Cell<S> {
        // SAFETY: HEADER-3: a handle keeps the cell, whose state is an S.
        unsafe { Cell::typed(self.addr_of_cell()) }
    }

    #[inline(always)]
    fn counts(&self) -> &Counts {
        self.cell().counts()
    }

    pub(crate) fn on_undelivered(&self) -> Option<&UndeliveredHook<S>> {
        self.cell().on_undelivered()
    }

    /// The number of the cell.
    #[inline(always)]
    pub(crate) fn addr(&self) -> usize {
        self.addr_of_cell().addr()
    }

    pub(crate) fn to_ref(&self) -> Ref {
        Ref::retain(&self.ptr())
    }

    /// The reference that the handle keeps the cell by.
    #[inline(always)]
    pub(crate) fn lent(&self) -> BorrowedRef<'_> {
        BorrowedRef(ManuallyDrop::new(Ref(self.ptr())), PhantomData)
    }

    pub(crate) fn downgrade(&self) -> Weak<S> {
        Weak(self.to_ref(), PhantomData)
    }

    /// The number of handles; stale on return.
    pub(crate) fn handles(&self) -> u32 {
        self.counts().handles()
    }

    /// Gives this handle up; true if it was the last.
    ///
    /// # Safety
    /// It is called once, by the drop of the handle, which afterwards uses it for nothing but, if
    /// it was the last, to ask for the [`sole`](Self::sole) cell or to raise ORPHAN.
    #[inline]
    pub(crate) unsafe fn release(&mut self) -> bool {
        self.counts().release_handle()
    }
}

/// A cell that no other thread can reach; its mailbox is idle, and nothing waits for
/// its end (HEADER-5). The handles' reference is this one's.
pub(crate) struct Sole<S> {
    cell: NonNull<Header>,
    /// The state was dropped.
    is_empty: bool,
    of: PhantomData<fn(S) -> S>,
}

impl<S> Strong<S> {
    /// The cell, if nothing else can reach it and its end is nothing but the drop of its state.
    ///
    /// # Safety
    /// `release` has just said that this was the last handle. Once the result has dropped the state
    /// or freed the cell, the handle's cell is not used again.
    #[inline]
    pub(crate) unsafe fn sole(&mut self) -> Option<Sole<S>> {
        // The handles' own reference is not given up yet (HEADER-3). If the actor has ended, or is
        // run, the word shows that; if a reference is left, its count does. The word comes first:
        // while an entry is out, a reference may take its place.
        let sole = self.header().word.look() == Snapshot::IDLE
            && self.counts().is_sole()
            && self.header().config().ends_in_silence();
        sole.then(|| Sole { cell: self.ptr().get(), is_empty: false, of: PhantomData })
    }
}

// SAFETY: HEADER-5: this thread alone can reach the cell, which is freed by `free` and by nothing
// else.
unsafe impl<S> Held for Sole<S> {
    fn cell(&self) -> *const Header {
        self.cell.as_ptr()
    }
}

impl<S> Sole<S> {
    /// Drops the state: user code, whose panic is ignored.
    #[inline(always)]
    pub(crate) fn drop_state(&mut self) {
        if !std::mem::replace(&mut self.is_empty, true) {
            // SAFETY: HEADER-5: this thread is alone with the cell, whose state is there: it is
            // dropped once.
            unsafe { Cell::<S>::drop_state(self.cell.as_ptr()) }
        }
    }

    /// Frees the cell, whose state was dropped, or needs no drop: another is leaked.
    #[inline(always)]
    pub(crate) fn free(self) {
        debug_assert!(self.is_empty || !std::mem::needs_drop::<S>());
        // SAFETY: HEADER-5: nothing else reaches the cell, and this was the last that does. A cell
        // that ends with nothing else needs no place in the row of those that are freed: nothing
        // that could lead to another cell is dropped.
        unsafe {
            let base = NonNull::from(self.cell.as_ref().config());
            let alone = match base.as_ref().kind {
                Kind::Plain => true,
                Kind::Built => BuiltRef::<S>::from_base(base.as_ptr()).drop_unless_last(),
                Kind::Fork => false,
            };
            if alone {
                Cell::<S>::free_memory(self.cell.as_ptr().cast());
            } else {
                reclaim(Dead::Cell(self.cell));
            }
        }
    }
}

impl<S> Clone for Strong<S> {
    #[inline]
    fn clone(&self) -> Self {
        self.counts().retain_handle();
        Strong(self.0, PhantomData)
    }
}

/// A reference to a cell of known type.
pub(crate) struct Weak<S>(Ref, PhantomData<fn(S) -> S>);

impl<S> Weak<S> {
    /// # Safety
    /// The state of the cell is an S.
    pub(super) unsafe fn of(cell: Ref) -> Self {
        Weak(cell, PhantomData)
    }

    /// A handle, unless they are all gone.
    pub(crate) fn upgrade(&self) -> Option<Strong<S>> {
        let cell = self.0.ptr();
        // SAFETY: the reference keeps the cell, whose state is an S because it came from such a
        // one; the handle was counted (HEADER-2).
        unsafe {
            let counted = Cell::<S>::typed(cell.as_ptr()).counts().try_retain_handle();
            counted.then(|| Strong::of(Counted::of(cell.again())))
        }
    }

    pub(crate) fn as_ref(&self) -> &Ref {
        &self.0
    }
}

impl<S> Clone for Weak<S> {
    fn clone(&self) -> Self {
        Weak(self.0.clone(), PhantomData)
    }
}

impl Drain {
    /// True if a turn of its actor is suspended, or about to be. Stale on return.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.header().is_some_and(Header::has_begun_turn)
    }

    /// The actor that it stands for.
    fn header(&self) -> Option<&Header> {
        let cell = self.entry()?.as_ptr().map_addr(|addr| addr & !(HINT | ENROLLED));
        // SAFETY: an entry (HEADER-6), or a reference (HEADER-3), keeps the cell as long as the
        // drain has it.
        unsafe { cell.cast::<Header>().as_ref() }
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.header().map(Header::name);
        f.debug_struct("Drain").field("actor", &name).finish_non_exhaustive()
    }
}
