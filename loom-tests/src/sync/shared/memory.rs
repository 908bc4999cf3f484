//! Memory that is never reused within an execution, so that a late access finds the former content,
//! and is detected.

use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::HashMap;

struct Piece {
    layout: Layout,
    freed: bool,
}

std::thread_local! {
    static PIECES: RefCell<HashMap<usize, Piece>> = RefCell::new(HashMap::new());
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

/// Marks the memory as freed; it is returned when the execution is over.
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

/// Checks after an execution that all memory was freed, and returns it to the real allocator.
pub(crate) fn renew() {
    for (addr, piece) in PIECES.take() {
        assert!(piece.freed, "{} bytes were never freed", piece.layout.size());
        // SAFETY: from the real allocator with this layout, and the execution that used it is over.
        unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(addr), piece.layout) };
    }
}
