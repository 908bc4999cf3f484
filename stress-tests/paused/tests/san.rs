//! The stress scenarios for the sanitizers: `stress-tests/sanitizers.sh` runs this program. Without
//! a sanitizer it is a short stress test.
//!
//! No test harness, and only what std compiles here: see `stress`. Arguments:
//!
//! | argument          | effect                                                                                     |
//! |-------------------|--------------------------------------------------------------------------------------------|
//! | none              | all scenarios, on the shipped crate and on the flavour that yields                         |
//! | `long`            | the same with more rounds                                                                  |
//! | `shipped`         | the shipped crate alone: the other yields at each step, which emulators are slow at        |
//! | `floors`          | the flavour that yields alone: ThreadSanitizer does not understand the fences of the other |
//! | `planted-race`    | two threads write one plain static: ThreadSanitizer must report                            |
//! | `planted-relaxed` | the shipped algorithm with every ordering Relaxed: ThreadSanitizer must report             |
//! | `planted-use`     | reads memory that was given back: AddressSanitizer must report                             |
//! | `planted-leak`    | forgets an allocation: LeakSanitizer must report                             |

#![expect(clippy::duplicate_mod, reason = "the same scenarios on two crates")]

#[path = "."]
mod shipped {
    mod api {
        pub use turnwise::*;
    }
    #[path = "stress/mod.rs"]
    pub mod stress;
}
#[path = "."]
mod yields {
    mod api {
        pub use paused::*;
    }
    #[path = "stress/mod.rs"]
    pub mod stress;
}

use std::cell::UnsafeCell;
use std::env;
use std::hint::black_box;
use std::thread::spawn;
use std::time::Instant;

fn main() {
    // libtest's own arguments (`--nocapture`, filters) are ignored.
    match env::args().nth(1).as_deref() {
        Some("planted-race") => planted_race(),
        Some("planted-relaxed") => planted_relaxed(),
        Some("planted-use") => planted_use(),
        Some("planted-leak") => planted_leak(),
        Some("long") => println!("san: {} scenarios run", shipped_crate(30_000) + floors(3000)),
        Some("shipped") => println!("san: {} scenarios run", shipped_crate(3000)),
        Some("floors") => println!("san: {} scenarios run", floors(1000)),
        // In the interpreter, every instruction costs a thousand.
        _ if cfg!(miri) => println!("san: {} scenarios run", shipped_crate(8)),
        _ => println!("san: {} scenarios run", shipped_crate(3000) + floors(300)),
    }
}

/// The crate as it is published.
fn shipped_crate(rounds: u64) -> usize {
    let mut run = 0;
    for threads in [2, 4] {
        for (name, scenario) in shipped::stress::ALL {
            let start = Instant::now();
            scenario(shipped::stress::Size { threads, rounds });
            println!("{name}, {threads} threads: {:.1?}", start.elapsed());
            run += 1;
        }
    }
    run
}

/// The shipped files on the atomics of this package: undisturbed first, then with delays.
fn floors(rounds: u64) -> usize {
    let mut run = 0;
    for seed in 0..=4 {
        if seed > 0 {
            paused::pause::chaos(seed);
        }
        for (name, scenario) in yields::stress::ALL {
            let start = Instant::now();
            scenario(yields::stress::Size { threads: 2 + seed as usize % 3, rounds });
            println!("{name}, seed {seed}: {:.1?}", start.elapsed());
            run += 1;
        }
    }
    paused::pause::calm();
    run
}

struct Plain(UnsafeCell<u64>);
// SAFETY: not at all; that is the bug.
unsafe impl Sync for Plain {}
static PLAIN: Plain = Plain(UnsafeCell::new(0));

fn planted_race() {
    let writers = [1, 2].map(|n| {
        spawn(move || {
            for _ in 0..1000 {
                // SAFETY: none: two threads write it at the same time.
                unsafe { PLAIN.0.get().write_volatile(n) };
            }
        })
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

fn planted_relaxed() {
    paused::pause::relax();
    let (_, scenario) = yields::stress::ALL[0];
    scenario(yields::stress::Size { threads: 2, rounds: 2000 });
}

fn planted_use() {
    let memory = Box::into_raw(Box::new(7u64));
    // SAFETY: the first is right; the second is the bug.
    unsafe {
        drop(Box::from_raw(memory));
        println!("{}", black_box(memory).read_volatile());
    }
}

fn planted_leak() {
    let memory = black_box(Box::new([7u64; 100]));
    std::mem::forget(memory);
    // Overwrites the contents of registers and of the stack.
    println!("{}", black_box([0u8; 4096]).iter().map(|&byte| u64::from(byte)).sum::<u64>());
}
