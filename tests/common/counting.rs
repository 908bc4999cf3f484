//! A global allocator that counts. One per test program, and then only one test at a time: see
//! [`alone`].

#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The number of the test that measures, from 1.
static TEST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of the test that this thread is counted for. The test harness prints on other
    /// threads, so only threads that ask for it are counted; and the threads of a pool may outlive
    /// its test, whose memory they free during the next one.
    static COUNTED: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether this thread's allocations count.
fn counted() -> bool {
    let test = COUNTED.get();
    test != 0 && test == TEST.load(SeqCst)
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if counted() {
            CALLS.fetch_add(1, SeqCst);
            let now = BYTES.fetch_add(layout.size(), SeqCst).wrapping_add(layout.size());
            // Frees of uncounted allocations may have taken it below zero.
            if now < usize::MAX / 2 {
                PEAK.fetch_max(now, SeqCst);
            }
        }
        // SAFETY: the caller's duty, word for word.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if counted() {
            BYTES.fetch_sub(layout.size(), SeqCst);
        }
        // SAFETY: the caller's duty, word for word.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Counts this thread's allocations from now on, until the test that measures has ended.
pub(crate) fn count_this_thread() {
    COUNTED.set(TEST.load(SeqCst));
}

/// The memory that the counted threads requested while `f` ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) calls: usize,
    /// The bytes still held at the end.
    pub(crate) bytes: isize,
    /// The maximum that was held at a time.
    pub(crate) peak: usize,
}

/// Runs `f`, with this thread counted. Only for a test that is [`alone`].
pub(crate) fn cost(f: impl FnOnce()) -> Cost {
    let test = TEST.load(SeqCst);
    assert_ne!(test, 0);
    let counted = COUNTED.replace(test);
    let (calls, bytes) = (CALLS.load(SeqCst), BYTES.load(SeqCst));
    PEAK.store(if bytes < usize::MAX / 2 { bytes } else { 0 }, SeqCst);
    f();
    let peak = PEAK.load(SeqCst).saturating_sub(if bytes < usize::MAX / 2 { bytes } else { 0 });
    let cost = Cost {
        calls: CALLS.load(SeqCst) - calls,
        bytes: BYTES.load(SeqCst).wrapping_sub(bytes) as isize,
        peak,
    };
    COUNTED.set(counted);
    cost
}

/// Tests that measure run one after the other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    TEST.fetch_add(1, SeqCst);
    alone
}
