//! Memory of keys: while they are used, and after.

use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use turnwise::ThreadPool;
use turnwise_locks::{Keyed, KeyedBuilder, Limits};

use crate::Options;

/// Bytes of this process in memory.
fn resident() -> Option<f64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split_whitespace().nth(1)?.parse::<f64>().ok()? * 4096.0)
}

/// Each in a process of its own, so that none finds what another has left.
const CELLS: [&str; 3] = ["once", "idle", "idle, made of its key"];

/// Prints what there is to say: bytes of an idle key, and what a million keys leave.
pub(crate) fn print(options: &Options) {
    if resident().is_none() {
        return println!("memory: this system does not tell");
    }
    let program = env::current_exe().expect("this program has a path");
    for name in CELLS {
        let mut cell = Command::new(&program);
        cell.args(["--cell", name]).args(options.quick.then_some("--quick"));
        let cell = cell.args((!options.quick).then_some("--bench"));
        assert!(cell.status().expect("it can be started").success(), "{name}");
    }
}

/// One of them.
pub(crate) fn cell(name: &str, options: &Options) {
    let many = if options.quick { 10_000 } else { 1_000_000 };
    match CELLS.iter().position(|cell| *cell == name) {
        Some(0) => once(many),
        Some(1) => idle(name, many, |builder| builder.default_state::<u64>()),
        Some(_) => idle(name, many, |builder| builder.state(|key| *key)),
        None => panic!("there is no cell `{name}`"),
    }
}

/// Each key once.
fn once(many: u64) {
    let keyed = Keyed::with_state(|key: &u64| Box::new(*key));
    let run = |key| assert_eq!(keyed.run(key, |own| **own), Ok(key));
    // What is made once is there before.
    (0..10_000).for_each(run);
    let before = resident().unwrap_or_default();
    (10_000..10_000 + many).for_each(run);
    let after = resident().unwrap_or_default();
    println!(
        "{many} keys seen once: {} live, resident {:+.1} % of {:.1} MB",
        keyed.len(),
        (after / before - 1.0) * 100.0,
        before / 1e6
    );
    assert_eq!(keyed.len(), 0);
}

/// Unused keys of eight bytes with a state of eight, with an executor and a clock that
/// they share.
fn idle(what: &str, many: u64, state: impl Fn(KeyedBuilder<u64>) -> KeyedBuilder<u64, u64>) {
    let pool = ThreadPool::builder().threads(1).build().expect("a thread");
    let builder = state(Keyed::builder().executor(pool.handle()).clock(turnwise::MonotonicClock));
    let keyed = builder.keep_alive(Duration::from_secs(3600)).build();
    let run = |key| {
        // Not awaited: one worker runs them all.
        drop(keyed.start(key, Limits::NONE, |state| *state += 1));
    };
    run(0);
    let before = resident().unwrap_or_default();
    for key in 1..=many {
        run(key);
        if key % 1024 == 0 {
            // No queue of messages is measured.
            keyed.run(key, |_| ()).expect("open");
        }
    }
    while (keyed.len() as u64) <= many {
        std::thread::yield_now();
    }
    let bytes = (resident().unwrap_or_default() - before) / many as f64;
    println!("{many} keys, {what}: {bytes:.0} bytes each (140, 110)");
    assert!(keyed.shutdown(Duration::from_secs(60)).is_complete());
    assert_eq!(keyed.len(), 0);
    assert!(pool.shutdown(Duration::from_secs(10)).is_complete());
}
