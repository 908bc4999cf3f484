//! Memory that is never reused within a schedule, so that whoever comes too late finds what was
//! there, and is caught.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

struct Piece {
    layout: Layout,
    freed: bool,
}

std::thread_local! {
    static PIECES: RefCell<HashMap<usize, Piece>> = RefCell::new(HashMap::new());
    static LIVES: Cell<i64> = const { Cell::new(0) };
}

pub(crate) fn alloc(layout: Layout) -> *mut u8 {
    assert!(layout.size() > 0);
    // SAFETY: the size is not zero.
    let memory = unsafe { std::alloc::alloc(layout) };
    assert!(!memory.is_null(), "out of memory");
    PIECES.with_borrow_mut(|pieces| {
        pieces.insert(memory.expose_provenance(), Piece { layout, freed: false })
    });
    memory
}

/// Marks the memory as freed; it goes back when the schedule is over.
///
/// # Safety
/// `memory` came from [`alloc`] with this `layout` and is not used again (both are checked).
pub(crate) unsafe fn dealloc(memory: *mut u8, layout: Layout) {
    PIECES.with_borrow_mut(|pieces| {
        let piece = pieces.get_mut(&memory.addr()).expect("memory freed that was never allocated");
        assert!(piece.layout == layout, "memory freed with another layout");
        assert!(!piece.freed, "memory freed twice");
        piece.freed = true;
    });
}

/// After a schedule: all memory must have been freed, and all lives ended.
pub(crate) fn settle() {
    let left = PIECES.with_borrow(|pieces| pieces.values().filter(|piece| !piece.freed).count());
    assert_eq!(left, 0, "pieces of memory were never freed");
    assert_eq!(LIVES.get(), 0, "lives never ended");
    for (addr, piece) in PIECES.take() {
        // SAFETY: from the real allocator with this layout, and the schedule that used it is over.
        unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(addr), piece.layout) };
    }
}

/// A life that can be looked at: use after the end, a second end, or none at all are failures.
#[derive(Debug)]
pub(crate) struct Life(Cell<bool>);

impl Life {
    pub(crate) fn new() -> Self {
        LIVES.set(LIVES.get() + 1);
        Life(Cell::new(true))
    }

    pub(crate) fn check(&self) {
        assert!(self.0.get(), "used after it was freed");
    }

    pub(crate) fn end(&self) {
        assert!(self.0.replace(false), "freed twice");
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        LIVES.set(LIVES.get() - 1);
    }
}
