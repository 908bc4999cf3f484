//! Memory for nodes: each thread bumps its nodes out of its own chunk, and the drainer counts
//! them down.
//!
//! Node memory decides the speed of long queues. A chunk is a page of 32-byte slots: its header,
//! then nodes of one slot or two. The nodes of one sender lie in a row, so the drainer walks memory
//! forwards and counts a whole row down in one subtraction. The end of the page is left to the
//! allocator: the GNU one puts 16 bytes before what it gives, and after a whole aligned page the
//! next one that is free is the next but one.
//!
//! - LIVE: a chunk's counter starts at the number of its slots. Each slot is subtracted once: by
//!   the drainer that frees the node in it, or by its sender if it was never handed out (the tail
//!   that was too short, or thread exit). At zero nothing has a pointer into it.
//! - The sender drops its pointer to the chunk before the last slot is handed out, so it never
//!   bumps a chunk that may be gone.
//! - COUNTDOWN: `fetch_sub` Release -> Acquire fence at zero. Who reuses the chunk comes after
//!   every use of its nodes.
//!
//! An empty chunk stays with the thread that emptied it, up to [`CACHED_CHUNKS`]; half of them then
//! go to a bounded depot, from which senders refill. The depot is reached by `try_lock`: a miss
//! goes to the global allocator, so no sender waits for another. Thread exit gives everything back.
//! A slow mailbox can pin a whole chunk with a single node in it: at worst 4096 bytes for a 32-byte
//! node. Lock-free apart from the global allocator.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};

use crate::sync::alloc::{Life, alloc, dealloc};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::atomic::fence_behind;
use crate::sync::config::{CACHED_CHUNKS, CHUNK_SLOTS, DEPOT_CHUNKS, SLOT};
use crate::sync::hint::prefetch_write;
use crate::sync::{Mutex, global, thread_owned, thread_plain};

/// A chunk begins at a multiple of this: so it is found from its nodes.
const ALIGN: usize = (SLOT * CHUNK_SLOTS).next_power_of_two();
/// Bytes of a chunk: all but 16, which the allocator puts before the next page, if the slots leave
/// them.
const BYTES: usize = if ALIGN - 16 < SLOT * CHUNK_SLOTS { ALIGN } else { ALIGN - 16 };
/// Slots for nodes: the header takes the first.
const SLOTS: u32 = CHUNK_SLOTS as u32 - 1;
const LAYOUT: Layout = match Layout::from_size_align(BYTES, ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("the alignment is a power of two"),
};

/// The first slot of a chunk.
struct ChunkHeader {
    /// Slots not yet freed, those never handed out included.
    live: AtomicU32,
    life: Life,
}

const _: () =
    assert!(size_of::<ChunkHeader>() <= SLOT && SLOT * CHUNK_SLOTS <= BYTES && SLOTS >= 2);

/// A chunk, by the address of its header.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Chunk(*mut ChunkHeader);

// SAFETY: a chunk in the cache or the depot has exactly one holder (LIVE at zero), and its memory
// is of no thread.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new() -> Self {
        let memory = alloc(LAYOUT);
        // Nodes are found again by their address alone (MAILBOX-3): the whole chunk is exposed
        // once.
        let _ = memory.expose_provenance();
        let chunk = Chunk(memory.cast());
        chunk.renew();
        chunk
    }

    /// Makes the header that of a chunk with every slot live.
    fn renew(self) {
        // SAFETY: the chunk has no other holder, and the header fits its first slot.
        unsafe { self.0.write(ChunkHeader { live: AtomicU32::new(SLOTS), life: Life::new() }) }
    }

    /// The chunk around a node of it.
    fn of(node: *mut u8) -> Self {
        Chunk(node.map_addr(|addr| addr & !(ALIGN - 1)).cast())
    }

    fn first_slot(self) -> *mut u8 {
        self.0.cast::<u8>().wrapping_add(SLOT)
    }

    /// Counts `slots` down; the last one recycles the chunk.
    fn subtract(self, slots: u32) {
        // SAFETY: LIVE: the caller's slots are not subtracted yet, so the chunk is there.
        let header = unsafe { &*self.0 };
        header.life.check();
        // Ordering: Release, writer side of COUNTDOWN.
        let before = header.live.fetch_sub(slots, Release);
        debug_assert!(before >= slots, "a slot was freed twice");
        if before == slots {
            // Ordering: Acquire, reader side of COUNTDOWN.
            fence_behind(&header.live, Acquire);
            self.recycle();
        }
    }

    fn recycle(self) {
        self.retire_header();
        // A destructor of another thread-local may run after ours: the depot takes it then.
        if OWNED.try_with(|owned| owned.put(self)).is_err() {
            DEPOT.try_lock().map_or_else(|| self.free(), |mut depot| depot.put(self));
        }
    }

    fn retire_header(self) {
        // SAFETY: LIVE at zero: nothing else has a pointer to it.
        unsafe {
            (*self.0).life.end();
            self.0.drop_in_place();
        }
    }

    fn free(self) {
        // SAFETY: LIVE at zero, and its holder gives it up here.
        unsafe { dealloc(self.0.cast(), LAYOUT) }
    }
}

/// Empty chunks for every thread.
struct Depot(Vec<Chunk>);

impl Depot {
    fn put(&mut self, chunk: Chunk) {
        if self.0.len() < DEPOT_CHUNKS { self.0.push(chunk) } else { chunk.free() }
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Chunk::free);
    }
}

global! {
    static DEPOT: Mutex<Depot> = Mutex::new(Depot(Vec::new()));
}

/// Chunks that this thread gives back at its end: the empty ones, and the rest of the one it bumps.
struct OwnChunks(RefCell<Vec<Chunk>>);

impl OwnChunks {
    fn put(&self, chunk: Chunk) {
        let mut cached = self.0.borrow_mut();
        if cached.len() >= CACHED_CHUNKS {
            let kept = CACHED_CHUNKS / 2;
            match DEPOT.try_lock() {
                Some(mut depot) => cached.drain(kept..).for_each(|chunk| depot.put(chunk)),
                None => cached.drain(kept..).for_each(Chunk::free),
            }
        }
        cached.push(chunk);
    }

    fn get(&self) -> Option<Chunk> {
        let mut cached = self.0.borrow_mut();
        if cached.is_empty() {
            let mut depot = DEPOT.try_lock()?;
            let left = depot.0.len().saturating_sub(CACHED_CHUNKS / 2);
            cached.extend(depot.0.drain(left..));
        }
        cached.pop()
    }
}

impl Drop for OwnChunks {
    fn drop(&mut self) {
        BUMP.with(|bump| {
            bump.retire();
            bump.closed.set(true);
        });
        let cached = std::mem::take(&mut *self.0.borrow_mut());
        match DEPOT.try_lock() {
            Some(mut depot) => cached.into_iter().for_each(|chunk| depot.put(chunk)),
            None => cached.into_iter().for_each(Chunk::free),
        }
    }
}

thread_owned! {
    static OWNED: OwnChunks = OwnChunks(RefCell::new(Vec::new()));
}

/// The chunk this thread hands nodes out of.
struct Bump {
    /// The next slot to hand out; dangling if none is left.
    next: Cell<*mut u8>,
    left: Cell<u32>,
    /// This thread has given its chunks back: it is about to end.
    closed: Cell<bool>,
}

impl Bump {
    /// Subtracts what will not be handed out any more, and forgets the chunk.
    fn retire(&self) {
        let left = self.left.replace(0);
        if left > 0 {
            Chunk::of(self.next.get()).subtract(left);
        }
    }

    #[cold]
    fn refill(&self, slots: u32) -> Option<*mut u8> {
        self.retire();
        if self.closed.get() {
            return None;
        }
        let chunk = match OWNED.try_with(OwnChunks::get) {
            Ok(Some(chunk)) => {
                chunk.renew();
                chunk
            }
            Ok(None) => Chunk::new(),
            Err(_) => return None,
        };
        self.left.set(SLOTS - slots);
        self.next.set(chunk.first_slot().wrapping_add(slots as usize * SLOT));
        Some(chunk.first_slot())
    }
}

thread_plain! {
    static BUMP: Bump = Bump { next: Cell::new(std::ptr::null_mut()), left: Cell::new(0), closed: Cell::new(false) };
}

/// The distance at which a thread prefetches lines of its nodes, in bytes. A reused chunk is in the
/// cache of the last drainer, and a push must not wait for that.
const AHEAD: usize = 128;

/// Hands out `slots` (1 or 2) in a row; `None` if this thread is ending.
#[inline]
pub(crate) fn bump(slots: u32) -> Option<*mut u8> {
    BUMP.with(|bump| {
        let left = bump.left.get();
        if left < slots {
            return bump.refill(slots);
        }
        let node = bump.next.get();
        prefetch_write(node.wrapping_add(AHEAD));
        bump.left.set(left - slots);
        bump.next.set(node.wrapping_add(slots as usize * SLOT));
        Some(node)
    })
}

/// Takes back `slots` that [`bump`] handed out on this thread and no other has seen.
pub(crate) fn unbump(node: *mut u8, slots: u32) {
    BUMP.with(|bump| {
        // With none left the chunk is given up already, and it may be another's by now.
        if bump.left.get() > 0 && bump.next.get() == node.wrapping_add(slots as usize * SLOT) {
            bump.left.set(bump.left.get() + slots);
            bump.next.set(node);
        } else {
            Chunk::of(node).subtract(slots);
        }
    });
}

/// Freed nodes of one chunk, not yet subtracted: a row costs one subtraction.
pub(crate) struct Row {
    chunk: Chunk,
    slots: u32,
}

impl Row {
    pub(crate) const fn new() -> Self {
        Row { chunk: Chunk(std::ptr::null_mut()), slots: 0 }
    }

    /// Frees the node of `slots` at `node`, which came from [`bump`] and is not used again.
    #[inline]
    pub(crate) fn free(&mut self, node: *mut u8, slots: u32) {
        let chunk = Chunk::of(node);
        if chunk != self.chunk {
            self.flush();
            self.chunk = chunk;
        }
        self.slots += slots;
    }

    /// Subtracts what has been freed.
    #[inline]
    pub(crate) fn flush(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        if slots > 0 {
            self.chunk.subtract(slots);
        }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.flush();
    }
}
