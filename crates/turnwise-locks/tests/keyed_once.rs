//! Keys that are used once leave nothing: no entry, no memory, no thread. One test in a process of
//! its own, because it looks at all of that.

use std::fs;
use std::time::Duration;

use turnwise::VirtualClock;
use turnwise_locks::{Keyed, Limits};

/// Bytes of this process in memory, and the names of its threads; where the system tells.
fn process() -> Option<(usize, Vec<String>)> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = pages.split_whitespace().nth(1)?.parse().ok()?;
    let names = fs::read_dir("/proc/self/task").ok()?.filter_map(|task| {
        let name = fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        Some(name.trim().to_owned())
    });
    Some((pages * 4096, names.collect()))
}

#[test]
fn a_million_keys_leave_nothing() {
    let many = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let keyed = Keyed::builder()
        .state(|key: &u64| Box::new(*key))
        .clock(VirtualClock::new())
        .on_overrun(|_, _| ())
        .build();
    let limits = Limits::wait(Duration::from_secs(1));
    let use_all = |keys: std::ops::Range<u64>| {
        for key in keys {
            // With limits, too, but without a lease there is nothing to report.
            match key % 2 {
                0 => assert_eq!(keyed.run(key, |own| **own), Ok(key)),
                _ => assert_eq!(keyed.run_within(key, limits, |own| **own), Ok(key)),
            }
        }
        assert_eq!(keyed.len(), 0);
    };
    // What is made once is there before.
    use_all(0..10_000);
    let before = process();
    use_all(10_000..10_000 + many);
    let Some(((before, _), (after, threads))) = before.zip(process()) else { return };
    assert!(after < before + before / 20, "{before} bytes before, {after} after");
    assert!(!threads.iter().any(|name| name == "turnwise-timers"), "{threads:?}");
    println!("{before} bytes before, {after} after {many} keys");
}
