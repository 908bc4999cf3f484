//! Reuses the stacks of coroutines.
//!
//! Loom gives each thread of each execution a coroutine with a stack of its own, which is mapped,
//! guarded, touched and unmapped: half of the time of the models went there, most of it in the
//! kernel. The three calls are redirected to this file, because a definition in a program precedes
//! that of a shared library. An unmapped stack is kept, with its guard, for the next one of equal
//! length. All other memory is unaffected: the C library's own calls do not use these definitions.
//!
//! The disadvantage: a use of a stack after its end no longer crashes. The advantage: the models
//! take half of their time. The executions that they explore are equal.

use std::sync::Mutex;

use libc::{
    MAP_STACK, PROT_NONE, SYS_mmap, SYS_mprotect, SYS_munmap, c_int, c_long, c_void, off_t, syscall,
};

struct Stack {
    at: usize,
    length: usize,
    free: bool,
    guarded: bool,
}

/// The kept stacks: at most as many as an execution has had threads, a handful.
static STACKS: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

/// Calls `with` on a stack that is `wanted`, if there is one. Returns its address.
fn find(wanted: impl Fn(&Stack) -> bool, with: impl FnOnce(&mut Stack)) -> Option<usize> {
    // Nothing below panics.
    let mut stacks = STACKS.lock().ok()?;
    let stack = stacks.iter_mut().find(|stack| wanted(stack))?;
    with(stack);
    Some(stack.at)
}

// SAFETY: this is `mmap`: it has its name and its type, and keeps its promises. Memory from the
// list was mapped by this function, with that length, and has been unmapped since.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_stack = at.is_null() && flags & MAP_STACK != 0;
    if is_stack {
        let again = |stack: &Stack| stack.free && stack.length == length;
        if let Some(at) = find(again, |stack| stack.free = false) {
            return at as *mut c_void;
        }
    }
    // SAFETY: the caller's request, with its arguments.
    let got = unsafe {
        let [protection, flags, file] = [protection, flags, file].map(c_long::from);
        syscall(SYS_mmap, at, length, protection, flags, file, offset)
    };
    if let (true, Ok(at), Ok(mut stacks)) = (is_stack, usize::try_from(got), STACKS.lock()) {
        stacks.push(Stack { at, length, free: false, guarded: false });
    }
    got as *mut c_void
}

// SAFETY: this is `mprotect`, by name and type; a guard that exists is kept.
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(at: *mut c_void, length: usize, protection: c_int) -> c_int {
    let mut done = false;
    let guard = |stack: &mut Stack| done = std::mem::replace(&mut stack.guarded, true);
    if protection == PROT_NONE {
        find(|stack| stack.at == at as usize, guard);
    }
    if done {
        return 0;
    }
    // SAFETY: the caller's request, with its arguments.
    unsafe { syscall(SYS_mprotect, at, length, c_long::from(protection)) as c_int }
}

// SAFETY: this is `munmap`, by name and type. Memory that stays mapped is not used until `mmap`
// returns it again.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, length: usize) -> c_int {
    let ours = |stack: &Stack| stack.at == at as usize && stack.length == length;
    if find(ours, |stack| stack.free = true).is_some() {
        return 0;
    }
    // SAFETY: the caller's request, with its arguments.
    unsafe { syscall(SYS_munmap, at, length) as c_int }
}
