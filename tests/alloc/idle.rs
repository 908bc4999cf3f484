//! The cost of an idle actor: a few bytes, no thread, no time.

use crate::child::in_child;
use crate::common::size;
use crate::counting::{alone, cost};
use turnwise::Actor;

#[test]
fn an_idle_actor_of_8_bytes_takes_40_in_one_piece() {
    let _alone = alone();
    let many = size(100_000, 1_000_000);
    let mut actors = Vec::with_capacity(many);
    let made = cost(|| actors.extend((0..many as u64).map(Actor::new)));
    assert_eq!((made.calls, made.bytes), (many, 40 * many as isize));
    // Neither work nor more handles change that.
    let used = cost(|| {
        for actor in &actors {
            actor.send(|n| *n += 1).unwrap();
            drop(actor.clone());
        }
    });
    assert_eq!((used.calls, used.bytes), (0, 0));
    let gone = cost(|| actors.clear());
    assert_eq!(gone.bytes, -40 * many as isize);
    println!("{many} idle actors: {} bytes each", made.bytes / many as isize);
}

#[cfg(target_os = "linux")]
#[test]
fn actors_add_no_threads_and_take_no_time() {
    use std::time::{Duration, Instant};

    // Measures the threads and the time of a whole process, so it runs no other test.
    in_child("actors_add_no_threads_and_take_no_time", Duration::from_secs(60), || {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        // User and system time of all threads, in ticks of 10 ms.
        let ticks = || {
            let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
            let fields: Vec<_> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let before = threads();
        let actors: Vec<_> = (0..size(10_000, 100_000) as u64).map(Actor::new).collect();
        actors.iter().for_each(|actor| actor.send(|n| *n += 1).unwrap());
        assert_eq!(threads(), before);
        let (start, used) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_secs(1) {
            std::thread::park_timeout(Duration::from_secs(1));
        }
        assert!(ticks() - used <= 2, "idle actors take time");
        assert_eq!(threads(), before);
        assert_eq!(actors[7].with(|n| *n).unwrap(), 8);
    });
}
