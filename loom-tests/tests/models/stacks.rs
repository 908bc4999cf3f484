//! Stacks that are used again.
//!
//! Loom gives each thread of each execution a coroutine with a stack of its own, which is mapped,
//! guarded, touched and unmapped: half of the time of the models went there, most of it in the
//! kernel. The three calls come here instead of the C library, as the definition in a program goes
//! before that of a shared library. A stack that is unmapped stays, guard and all, for the next
//! that is as long. All other memory goes where it went: the C library's own calls do not come by
//! here.
//!
//! What is lost: a stack that is used after its end is no longer a crash. What is won: the models
//! take half of their time. What they explore is the same, to the execution.

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

/// As many as an execution has had threads: a handful.
static STACKS: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

/// Does `with` the stack that is `wanted`, if there is one.
fn find(wanted: impl Fn(&Stack) -> bool, with: impl FnOnce(&mut Stack)) -> Option<usize> {
    // Nothing below panics.
    let mut stacks = STACKS.lock().ok()?;
    let stack = stacks.iter_mut().find(|stack| wanted(stack))?;
    with(stack);
    Some(stack.at)
}

// SAFETY: this is `mmap`: it has its name and its type, and keeps its promises. Memory that comes
// from the list was mapped by the same call, for as many bytes, and given back since.
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
    // SAFETY: what the caller wants, with its arguments.
    let got = unsafe {
        let [protection, flags, file] = [protection, flags, file].map(c_long::from);
        syscall(SYS_mmap, at, length, protection, flags, file, offset)
    };
    if let (true, Ok(at), Ok(mut stacks)) = (is_stack, usize::try_from(got), STACKS.lock()) {
        stacks.push(Stack { at, length, free: false, guarded: false });
    }
    got as *mut c_void
}

// SAFETY: this is `mprotect`, by name and type; what is guarded already stays so.
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
    // SAFETY: what the caller wants, with its arguments.
    unsafe { syscall(SYS_mprotect, at, length, c_long::from(protection)) as c_int }
}

// SAFETY: this is `munmap`, by name and type. What stays mapped is used by nobody until `mmap`
// gives it out again.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, length: usize) -> c_int {
    let ours = |stack: &Stack| stack.at == at as usize && stack.length == length;
    if find(ours, |stack| stack.free = true).is_some() {
        return 0;
    }
    // SAFETY: what the caller wants, with its arguments.
    unsafe { syscall(SYS_munmap, at, length) as c_int }
}
