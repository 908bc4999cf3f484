//! References to a cell: each owns one count, but the one entry.
//!
//! A [`Strong`] keeps the actor going, a [`Ref`] (and a [`Weak`], which knows the state's type)
//! only its memory. A [`Scheduled`], the mailbox's entry, owns no count: the word keeps the memory
//! for it (B6). What dropping the last handle does stands above, where drains are
//! ([`crate::send::close`]).

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZero;
use std::ptr::NonNull;

use std::sync::Arc;

use super::built::BuiltRef;
use super::executor::Drain;
use super::header::{Guard, HAS_EXECUTOR, Header, Kind, TAGS, counts};
use super::owner::Held;
use super::reclaim::{Dead, reclaim};
use super::typed::Cell;
use crate::mailbox::word::Snapshot;
use crate::time::Clock;

/// What keeps a cell's memory.
pub(crate) trait Kept {
    fn header(&self) -> &Header;
    /// One more reference.
    fn to_ref(&self) -> Ref;
    /// The entry of a pending mailbox that has none out.
    fn schedule(&self) -> Option<Scheduled>;
}

impl Kept for Ref {
    fn header(&self) -> &Header {
        self.header()
    }
    fn to_ref(&self) -> Ref {
        self.clone()
    }
    fn schedule(&self) -> Option<Scheduled> {
        schedule(self.ptr(), self.header())
    }
}

impl<S> Kept for Strong<S> {
    fn header(&self) -> &Header {
        self.header()
    }
    fn to_ref(&self) -> Ref {
        self.to_ref()
    }
    fn schedule(&self) -> Option<Scheduled> {
        schedule(self.ptr(), self.header())
    }
}

fn schedule(cell: NonNull<Header>, header: &Header) -> Option<Scheduled> {
    // SAFETY: the step has raised SCHEDULED.
    header.word.schedule().then(|| unsafe { Scheduled::of(cell) })
}

/// One count of a cell's memory: the actor may have ended.
pub(crate) struct Ref(NonNull<Header>);

// SAFETY: a reference touches atomics and locks alone; the last one drops hooks, which are Send.
unsafe impl Send for Ref {}
// SAFETY: as above.
unsafe impl Sync for Ref {}

impl Ref {
    /// One more reference to a cell.
    ///
    /// # Safety
    /// The cell is alive during this call, and `cell` is a pointer to all of it.
    #[inline]
    pub(crate) unsafe fn retain(cell: NonNull<Header>) -> Self {
        // SAFETY: the caller's word.
        unsafe { counts(cell.as_ptr()) }.retain();
        Ref(cell)
    }

    /// The reference that the handles have all together.
    ///
    /// # Safety
    /// No handle is left, the actor has ended, and this is called once.
    pub(super) unsafe fn of_handles(cell: NonNull<Header>) -> Self {
        Ref(cell)
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: B3: this reference keeps the cell.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn ptr(&self) -> NonNull<Header> {
        self.0
    }

    /// The cell that a message of this mailbox runs in.
    pub(crate) fn cell(&self) -> *const Header {
        self.0.as_ptr()
    }

    /// Which cell it is.
    #[inline]
    pub(crate) fn addr(&self) -> usize {
        self.0.addr().get()
    }
}

/// The one entry of a mailbox in a run queue: in a thread's list, or in an executor. It owns no
/// count: SCHEDULED in the word stands for it, and the last reference leaves the memory to it.
#[must_use = "an entry that is forgotten strands its mailbox"]
pub(crate) struct Scheduled(NonNull<Header>);

// SAFETY: as for a `Ref`.
unsafe impl Send for Scheduled {}

impl Scheduled {
    /// # Safety
    /// The caller's step has just raised SCHEDULED in the word of this cell, and makes one entry of
    /// it.
    #[inline]
    pub(super) unsafe fn of(cell: NonNull<Header>) -> Self {
        Scheduled(cell)
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: B6: SCHEDULED is raised for this entry, so the cell is there.
        unsafe { self.0.as_ref() }
    }

    /// The cell, for the step that uses the entry up.
    #[inline(always)]
    pub(super) fn into_cell(self) -> NonNull<Header> {
        let cell = self.0;
        std::mem::forget(self);
        cell
    }

    /// A reference in place of the entry; `None` if none is left, or nothing waits.
    fn into_ref(self) -> Option<Ref> {
        // SAFETY: B6.
        if !unsafe { counts(self.0.as_ptr()) }.try_retain() {
            return None;
        }
        let cell = Ref(self.0);
        std::mem::forget(self);
        cell.header().word.unschedule_only().then_some(cell)
    }
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        // Stale, unless its owner is dropped with it: then it was never put anywhere.
        let owner = Scheduled(self.0).take_over();
        debug_assert!(owner.is_none() || std::thread::panicking(), "an entry was dropped");
        std::mem::forget(owner);
    }
}

/// What stands for a mailbox in a run queue.
pub(crate) enum Queued {
    /// The mailbox's entry.
    Entry(Scheduled),
    /// A hint beside it.
    Hint(Ref),
}

/// In the lowest bit of a [`Queued`]'s address.
const HINT: usize = 1;
/// The same of what an executor keeps of an actor whose turn may be suspended: it is not to be run.
const ENROLLED: usize = 2;

impl Ref {
    /// A drain that is not to be run. Dropped by its executor, it stops the actor if a turn of it is
    /// suspended.
    pub(crate) fn into_enrolled(self) -> Drain {
        let raw = self.0.cast::<()>().map_addr(|addr| addr | ENROLLED);
        std::mem::forget(self);
        // SAFETY: the reference is given up here, and the drain stands for it.
        unsafe { Drain::from_raw(raw) }
    }

    /// The reference of a drain that is not to be run, once.
    pub(crate) fn of_enrolled(drain: &mut Drain) -> Option<Self> {
        let raw = drain.entry().filter(|raw| raw.addr().get() & ENROLLED != 0)?;
        let _ = drain.take();
        let cell = raw.as_ptr().map_addr(|addr| addr & !ENROLLED);
        NonNull::new(cell.cast()).map(Ref)
    }
}

impl Queued {
    /// A drain that stands for it.
    #[inline]
    pub(crate) fn into_drain(self) -> Drain {
        // SAFETY: it is given up here, and the drain stands for it.
        unsafe { Drain::from_raw(self.into_raw()) }
    }

    /// What a drain stands for, once.
    #[inline]
    pub(crate) fn of_drain(drain: &mut Drain) -> Option<Self> {
        // SAFETY: a drain stands for one, which is taken out here.
        drain.take().map(|raw| unsafe { Queued::from_raw(raw) })
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<()> {
        match self {
            Queued::Entry(entry) => {
                let cell = entry.0;
                std::mem::forget(entry);
                cell.cast()
            }
            Queued::Hint(cell) => {
                let raw = cell.0;
                std::mem::forget(cell);
                raw.cast::<()>().map_addr(|addr| addr | HINT)
            }
        }
    }

    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw), and comes back once.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        let addr = raw.addr().get();
        if addr & HINT == 0 {
            return Queued::Entry(Scheduled(raw.cast()));
        }
        // SAFETY: a cell's address is not null.
        let cell = raw.map_addr(|_| unsafe { NonZero::new_unchecked(addr & !HINT) });
        Queued::Hint(Ref(cell.cast()))
    }

    pub(crate) fn header(&self) -> &Header {
        match self {
            Queued::Entry(entry) => entry.header(),
            Queued::Hint(cell) => cell.header(),
        }
    }

    /// Which cell it is.
    #[inline]
    pub(crate) fn addr(&self) -> usize {
        match self {
            Queued::Entry(entry) => entry.0.addr().get(),
            Queued::Hint(cell) => cell.addr(),
        }
    }

    /// A reference in its place; `None` if there is nothing to run.
    pub(crate) fn into_ref(self) -> Option<Ref> {
        match self {
            Queued::Entry(entry) => entry.into_ref(),
            // Who has left it pending since has left it to somebody else (T1).
            Queued::Hint(cell) => cell.header().word.load().is_pending().then_some(cell),
        }
    }
}

impl Clone for Ref {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this reference keeps the cell.
        unsafe { Ref::retain(self.0) }
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference keeps the cell, and is not used again.
        if unsafe { counts(self.0.as_ptr()) }.release() {
            if self.header().word.is_left_to_entry() {
                return;
            }
            // SAFETY: B3: nobody is left.
            unsafe { reclaim(Dead::Cell(self.0)) }
        }
    }
}

/// One of the handles that keep an actor going: the cell's address, with [`TAGS`] in its lowest bits.
/// They are in the handle so that a send knows them without looking at the cell: the word's line
/// comes over by the claim alone.
pub(crate) struct Strong<S>(NonNull<Header>, PhantomData<fn(S) -> S>);

const _: () = assert!(align_of::<Header>() > TAGS);

// SAFETY: the state is touched by one thread at a time (B1) and sent from one to the next;
// everything else in the cell is atomic, locked, or the owner's.
unsafe impl<S: Send> Send for Strong<S> {}
// SAFETY: as above; a shared handle can do nothing that an owned one cannot.
unsafe impl<S: Send> Sync for Strong<S> {}

impl<S> Strong<S> {
    pub(crate) fn new(state: S) -> Self {
        // SAFETY: the new cell's one handle; a plain one has neither executor nor hooks.
        unsafe { Self::tagged(Cell::create(state), 0) }
    }

    /// An actor of this configuration.
    #[inline]
    pub(crate) fn of_built(state: S, built: BuiltRef<S>) -> Self {
        // SAFETY: the new cell's one handle.
        unsafe { Self::of(Cell::create_of(state, built)) }
    }

    /// An actor with something that is dropped when it has ended, of this configuration, or a plain
    /// one; and with this clock, unless its configuration has one.
    pub(crate) fn guarded(
        state: S,
        built: Option<BuiltRef<S>>,
        guard: Box<dyn Guard>,
        clock: Option<&Arc<dyn Clock>>,
    ) -> Self {
        // SAFETY: the new cell's one handle.
        unsafe { Self::of(Cell::create_guarded(state, built, guard, clock)) }
    }

    /// # Safety
    /// `cell` is alive, its state an S, and one of its handles is this one.
    #[inline]
    unsafe fn of(cell: *const Header) -> Self {
        // SAFETY: the caller's word.
        let config = unsafe { (*cell).config() };
        // SAFETY: the caller's cell and handle, with the cell's tags.
        unsafe { Self::tagged(cell, config.tags()) }
    }

    /// # Safety
    /// As for [`of`](Self::of); `tags` are those of the cell's configuration.
    unsafe fn tagged(cell: *const Header, tags: usize) -> Self {
        let tagged = cell.cast_mut().map_addr(|addr| addr | tags);
        Strong(NonNull::new(tagged).expect("a cell has an address"), PhantomData)
    }

    /// Is the actor run by its executor, and by nothing else?
    #[inline(always)]
    pub(crate) fn has_executor(&self) -> bool {
        self.0.addr().get() & HAS_EXECUTOR != 0
    }

    /// What the handle says of its cell.
    #[inline(always)]
    pub(crate) fn tags(&self) -> usize {
        self.0.addr().get() & TAGS
    }

    /// Where a message that this thread sends now comes from, if the actor is traced.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    pub(crate) fn origin(&self) -> Option<super::span::Origin> {
        // Whoever is traced is observed.
        let observed = self.tags() & super::header::OBSERVED != 0;
        if observed { super::span::Origin::of(self.header()) } else { None }
    }

    /// Is a message for a busy mailbox pushed with no look at anything else?
    #[inline(always)]
    pub(crate) fn is_direct(&self) -> bool {
        self.header().config().is_direct()
    }

    #[inline(always)]
    pub(super) fn ptr(&self) -> NonNull<Header> {
        // SAFETY: without its tags it is the cell's address, which is not null.
        unsafe { NonNull::new_unchecked(self.0.as_ptr().map_addr(|addr| addr & !TAGS)) }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: B3: a handle keeps the cell.
        unsafe { &*self.ptr().as_ptr() }
    }

    /// Which cell it is.
    #[inline(always)]
    pub(crate) fn addr(&self) -> usize {
        self.ptr().addr().get()
    }

    pub(crate) fn to_ref(&self) -> Ref {
        // SAFETY: this handle keeps the cell.
        unsafe { Ref::retain(self.ptr()) }
    }

    pub(crate) fn downgrade(&self) -> Weak<S> {
        Weak(self.to_ref(), PhantomData)
    }

    /// How many handles there are; stale on return.
    pub(crate) fn handles(&self) -> u32 {
        // SAFETY: this handle keeps the cell.
        unsafe { Cell::<S>::counts(self.ptr().as_ptr()) }.handles()
    }

    /// Gives this handle up; true if it was the last.
    ///
    /// # Safety
    /// It is called once, by the drop of the handle, which afterwards uses it for nothing but, if
    /// it was the last, to ask for the [`sole`](Self::sole) cell or to raise ORPHAN.
    #[inline]
    pub(crate) unsafe fn release(&mut self) -> bool {
        // SAFETY: this handle keeps the cell until now.
        unsafe { Cell::<S>::counts(self.ptr().as_ptr()) }.release_handle()
    }
}

/// A cell that nobody can reach but this thread; its mailbox is idle, and nobody is to be told of
/// its end (B5). The handles' reference is this one's.
pub(crate) struct Sole<S>(NonNull<Header>, PhantomData<fn(S) -> S>);

impl<S> Strong<S> {
    /// The cell, if nobody else can reach it and its end is nothing but the drop of its state.
    ///
    /// # Safety
    /// `release` has just said that this was the last handle. Once the result has dropped the state
    /// or freed the cell, the handle's cell is not used again.
    #[inline]
    pub(crate) unsafe fn sole(&mut self) -> Option<Sole<S>> {
        let cell = self.ptr();
        // The word comes first: while an entry is out, a reference may take its place.
        // SAFETY: B3: the handles' own reference is not given up yet. If the actor has ended, or
        // somebody runs it, the word shows that; if a reference is left, its count does.
        let sole = self.header().word.look() == Snapshot::IDLE
            && unsafe { Cell::<S>::counts(cell.as_ptr()) }.is_sole()
            && self.header().config().ends_in_silence();
        sole.then_some(Sole(cell, PhantomData))
    }
}

// SAFETY: B5: this thread alone can reach the cell, which is freed by `free` and by nothing else.
unsafe impl<S> Held for Sole<S> {
    fn cell(&self) -> *const Header {
        self.0.as_ptr()
    }
}

impl<S> Sole<S> {
    /// Drops the state: user code, whose panic is ignored.
    ///
    /// # Safety
    /// It is called once.
    #[inline(always)]
    pub(crate) unsafe fn drop_state(&mut self) {
        // SAFETY: B5, and the caller's word.
        unsafe { Cell::<S>::drop_state(self.0.as_ptr()) }
    }

    /// Frees the cell.
    ///
    /// # Safety
    /// The state was dropped, or needs no drop.
    #[inline(always)]
    pub(crate) unsafe fn free(self) {
        // SAFETY: B5, and the caller's word. A cell that ends with nothing else needs no place in
        // the row of those that are freed: nothing that could lead to another cell is dropped.
        unsafe {
            let base = NonNull::from(self.0.as_ref().config());
            let alone = match base.as_ref().kind {
                Kind::Plain => true,
                Kind::Built => BuiltRef::<S>::give_up_unless_last(base),
                Kind::Fork => false,
            };
            if alone {
                Cell::<S>::free_memory(self.0.as_ptr().cast());
            } else {
                reclaim(Dead::Cell(self.0));
            }
        }
    }
}

impl<S> Clone for Strong<S> {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this handle keeps the cell.
        unsafe { Cell::<S>::counts(self.ptr().as_ptr()) }.retain_handle();
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
        let cell = self.0.ptr().as_ptr();
        // SAFETY: the reference keeps the cell, whose state is an S because it came from such a
        // one; the handle was counted.
        unsafe { Cell::<S>::counts(cell).try_retain_handle().then(|| Strong::of(cell)) }
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
    /// Is a turn of its actor suspended, or about to be? Stale on return.
    pub(crate) fn is_suspended(&self) -> bool {
        self.header().is_some_and(Header::has_begun_turn)
    }

    /// The actor that it stands for.
    fn header(&self) -> Option<&Header> {
        let cell = self.entry()?.as_ptr().map_addr(|addr| addr & !(HINT | ENROLLED));
        // SAFETY: an entry (B6), or a reference (B3), keeps the cell as long as the drain has it.
        unsafe { cell.cast::<Header>().as_ref() }
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.header().map(Header::name);
        f.debug_struct("Drain").field("actor", &name).finish_non_exhaustive()
    }
}
