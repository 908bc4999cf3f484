//! The looks of a pool's monitor, and the help that it calls.

use super::super::queues::tests::{Token, job};
use super::super::shared::PoolConfig;
use super::*;

const LONG_AGO: Duration = Duration::from_secs(1);

/// A pool without threads, whose workers are all in their jobs, and its monitor.
fn monitor(workers: usize, most: Option<usize>) -> Monitor<Token> {
    let config = PoolConfig { workers, most, ..PoolConfig::default() };
    Monitor::new(Arc::new(Shared::new(config).0))
}

fn earlier() -> Instant {
    Instant::now().checked_sub(LONG_AGO).expect("the clock runs for a second already")
}

#[test]
fn a_worker_is_stuck_after_some_looks() {
    let mut monitor = monitor(1, Some(1));
    for tick in 1..4 {
        for _ in 1..STUCK {
            assert!(monitor.look() == Look::Busy && !monitor.pool.is_short());
        }
        for _ in 0..3 {
            assert!(monitor.look() == Look::Still && monitor.pool.is_short());
        }
        monitor.pool.queues.of(0).begins(tick);
        assert!(monitor.look() == Look::Busy && !monitor.pool.is_short());
    }
}

#[test]
fn what_moves_is_seen() {
    let mut monitor = monitor(2, Some(1));
    let _ = monitor.look();
    let before = earlier();
    monitor.moved = before;
    let _ = monitor.look();
    assert_eq!(monitor.moved, before, "nothing has moved");
    monitor.pool.queues.of(1).begins(1);
    let _ = monitor.look();
    assert!(monitor.moved > before);
    monitor.moved = before;
    let _ = monitor.look();
    assert_eq!(monitor.moved, before);
    monitor.pool.queues.helps();
    let _ = monitor.look();
    assert!(monitor.moved > before);
}

#[test]
fn what_only_one_worker_can_take_stays_with_it() {
    for (workers, most, moved) in
        [(1, None, false), (1, Some(0), false), (1, Some(1), true), (2, None, true)]
    {
        let mut monitor = monitor(workers, most);
        assert!(monitor.pool.queues.of(0).slot.put(job()).is_none());
        // No thread is called for it so soon.
        for _ in 0..STUCK {
            assert!(!monitor.pool.queues.has_work());
            monitor.moved = Instant::now() + LONG_AGO;
            let _ = monitor.look();
        }
        assert_eq!(monitor.pool.queues.has_work(), moved);
    }
}

/// True if a look has called a thread.
fn calls(monitor: &mut Monitor<Token>) -> bool {
    let before = monitor.pool.threads.dropped_and_left().1;
    let _ = monitor.look();
    monitor.pool.threads.dropped_and_left().1 > before
}

fn see_off(monitor: &Monitor<Token>) {
    monitor.pool.see_off();
    assert!(monitor.pool.threads.wait_all_gone(None));
}

#[test]
fn a_thread_is_called_if_nobody_comes() {
    let mut monitor = monitor(2, Some(1));
    monitor.pool.queues.injector.push(job());
    for _ in 1..STUCK {
        monitor.moved = earlier();
        assert!(!calls(&mut monitor));
    }
    assert!(monitor.pool.idle.start_search());
    monitor.moved = earlier();
    assert!(!calls(&mut monitor), "one searches");
    monitor.pool.idle.found(|| false);
    monitor.moved = earlier();
    assert!(calls(&mut monitor));
    see_off(&monitor);
}

#[test]
fn the_more_help_the_longer_it_takes_to_call_another() {
    let mut monitor = monitor(1, Some(7));
    monitor.pool.queues.injector.push(job());
    // Called, but they never come, and there may be no more: a call moves the time alone.
    (0..8).for_each(|_| monitor.pool.threads.call_help(|_| Ok(())));
    assert_eq!(monitor.pool.threads.helpers(), 8);
    (0..STUCK).for_each(|_| _ = monitor.look());
    let calls_after = |monitor: &mut Monitor<Token>, time| {
        monitor.moved = Instant::now().checked_sub(time).expect("the clock runs already");
        let before = monitor.moved;
        let _ = monitor.look();
        monitor.moved > before
    };
    // A long time may pass in any look, but not in all of them.
    assert!((0..100).any(|_| !calls_after(&mut monitor, TICK)));
    assert!(calls_after(&mut monitor, SLOWEST_CALL));
}
