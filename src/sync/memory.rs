//! Memory from the global allocator.

use std::alloc::Layout;

/// Memory from the global allocator; aborts when there is none.
#[inline]
pub(crate) fn alloc(layout: Layout) -> *mut u8 {
    assert!(layout.size() > 0);
    // SAFETY: the size is not zero.
    let memory = unsafe { std::alloc::alloc(layout) };
    if memory.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    memory
}

/// Gives memory back.
///
/// # Safety
/// `memory` came from [`alloc`] with this `layout` and is not used again.
#[inline]
pub(crate) unsafe fn dealloc(memory: *mut u8, layout: Layout) {
    // SAFETY: the caller's duty, word for word.
    unsafe { std::alloc::dealloc(memory, layout) }
}
