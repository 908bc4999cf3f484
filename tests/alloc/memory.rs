//! Memory is returned: after a burst, from actors that are dropped, from threads that end. The
//! reserve is bounded.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use crate::common::{asked, queued, size};
use crate::counting::{alone, cost, count_this_thread};
use turnwise::{Actor, Clock, Overflow, PanicPolicy};

/// The maximum reserve of all threads together: the depot's 1024 chunks of 4096 bytes, those of one
/// thread, and the lists of them.
const KEPT: isize = 1100 * 4096;

/// A message that owns `N` bytes.
fn message<const N: usize>() -> impl FnOnce(&mut u64) + Send + 'static {
    let bytes = [1_u8; N];
    move |count: &mut u64| *count += u64::from(std::hint::black_box(&bytes)[N - 1])
}

fn burst(count: &Actor<u64>, messages: usize) {
    for _ in 0..messages / 4 {
        count.send(message::<1>()).unwrap();
        count.send(message::<16>()).unwrap();
        count.send(message::<48>()).unwrap();
        count.send(message::<200>()).unwrap();
    }
}

#[test]
fn memory_comes_back_after_a_burst() {
    let _alone = alone();
    let messages = size(300_000, 4_000_000);
    let (queue, count) = queued(0_u64);
    let first = cost(|| {
        burst(&count, messages);
        assert!(queue.run_until_idle() > 0);
    });
    assert!(first.peak as isize > 4 * KEPT, "too small to show anything: {first:?}");
    assert!(first.bytes <= KEPT, "{messages} messages, all handled: {first:?}");
    let second = cost(|| {
        burst(&count, messages);
        assert!(queue.run_until_idle() > 0);
    });
    assert!(second.bytes <= 4096, "each burst leaves something: {second:?}");
    assert_eq!(asked(&queue, &count, |count| *count), (2 * messages) as u64);
}

#[test]
fn memory_of_messages_that_are_not_run_comes_back_too() {
    let _alone = alone();
    let messages = size(300_000, 4_000_000);
    let cost = cost(|| {
        let (queue, count) = queued(0_u64);
        burst(&count, messages);
        count.stop();
        queue.run_until_idle();
        count.ended().within(turnwise::Limit::Unlimited).unwrap();
    });
    assert!(cost.peak as isize > 4 * KEPT && cost.bytes <= KEPT, "{cost:?}");
}

#[test]
fn actors_that_are_dropped_leave_nothing() {
    let _alone = alone();
    let actors = size(20_000, 1_000_000);
    let used = |actors: usize| {
        let actors: Vec<_> = (0..actors as u64).map(Actor::new).collect();
        for actor in &actors {
            actor.send(message::<16>()).unwrap();
            actor.call(message::<16>()).wait().unwrap();
        }
    };
    used(1);
    let cost = cost(|| used(actors));
    assert!(cost.peak >= actors * 40, "{actors} actors of 40 bytes: {cost:?}");
    assert_eq!(cost.bytes, 0, "{actors} actors: {cost:?}");
}

#[test]
fn an_actor_of_a_spawner_is_one_allocation() {
    let _alone = alone();
    let actors = size(1_000, 100_000);
    let builder = turnwise::Actor::builder().name("many").capacity(9, Overflow::Reject);
    let builder = builder.on_panic(|_| ()).panic_policy(PanicPolicy::Resume);
    let spawner = builder.build().unwrap();
    let mut all = Vec::with_capacity(actors);
    let made = cost(|| all.extend((0..actors as u64).map(|n| spawner.spawn(n))));
    assert_eq!((made.calls, made.bytes), (actors, 40 * actors as isize), "{made:?}");
    let used = cost(|| {
        all.iter().for_each(|actor| actor.send(|n| *n += 1).unwrap());
        all.clear();
    });
    assert_eq!((used.calls, used.bytes), (0, -40 * actors as isize), "{used:?}");
}

#[test]
fn nothing_grows_with_threads_that_come_and_go() {
    let _alone = alone();
    // More than the chunks that the depot may have: a burst of another test fills it, and the
    // losses of threads come from there first.
    let threads = size(2_000, 10_000);
    let (queue, count) = queued(0_u64);
    let come_and_go = |threads: usize| {
        for number in 0..threads {
            thread::scope(|scope| {
                let one = scope.spawn(|| {
                    count_this_thread();
                    count.send(message::<16>()).unwrap();
                    count.send(message::<16>()).unwrap();
                    count.send(message::<48>()).unwrap();
                    // Half of them leave nodes behind in a chunk that has no owner.
                    if number % 2 == 0 {
                        assert!(queue.run_until_idle() > 0);
                    }
                });
                // A scope does not wait for what a thread frees at its very end, a join does.
                one.join().unwrap();
            });
            queue.run_until_idle();
        }
    };
    come_and_go(100);
    // The memory of a thread is allocated here, counted, and freed there, before the count.
    let bare = cost(|| {
        for _ in 0..threads {
            thread::scope(|scope| scope.spawn(count_this_thread).join().unwrap());
        }
    });
    let cost = cost(|| come_and_go(threads));
    // A chunk per thread would be 4096 bytes each. Chunks move between this thread's cache and the
    // depot, so some of both are always there.
    assert!(
        cost.bytes <= bare.bytes + 64 * 4096,
        "{threads} threads: {cost:?}, bare ones {bare:?}"
    );
    assert_eq!(asked(&queue, &count, |count| *count), 3 * (100 + threads) as u64);
}

/// A clock that shows a later time at each read, and on which no thread sleeps.
#[derive(Debug)]
struct Looks(AtomicU64);

impl Clock for Looks {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, SeqCst))
    }

    fn park_until(&self, _: Duration) {}
}

#[test]
fn waits_whose_time_is_over_leave_nothing() {
    let _alone = alone();
    let clock = Looks(AtomicU64::new(0));
    let actor = Actor::builder().clock(clock).spawn(0_u64).unwrap();
    // The time is over after some reads, so each of them has stood in the list.
    let wait = || assert_eq!(actor.ended().within(Duration::from_secs(5)), Ok(false));
    wait();
    let waits = size(10_000, 100_000);
    let cost = cost(|| (0..waits).for_each(|_| wait()));
    assert_eq!(cost.bytes, 0, "{waits} waits: {cost:?}");
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("a closure"));
    }
}

#[test]
fn a_closure_that_is_refused_and_panics_leaves_nothing() {
    let _alone = alone();
    let actor = Actor::builder().name("its own").spawn(()).unwrap();
    let refused = || {
        let own = actor.clone();
        let inside = move |(): &mut ()| {
            let bomb = Bomb;
            let with = std::panic::AssertUnwindSafe(|| own.with(move |()| _ = &bomb));
            assert!(std::panic::catch_unwind(with).is_err());
        };
        actor.with(inside).unwrap();
    };
    refused();
    let cost = cost(|| (0..100).for_each(|_| refused()));
    assert!(cost.bytes < 100, "{cost:?}");
}
