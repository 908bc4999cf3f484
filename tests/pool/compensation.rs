//! The threads of a pool that stand by, and the places that they take.

use std::sync::mpsc;
use std::thread;

use super::Assignment::{Help, Place};
use super::*;

fn starts(_: usize) -> io::Result<()> {
    Ok(())
}

fn refuses(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::OutOfMemory.into())
}

/// A pool whose workers are at their places, which are called 0, 1 and so on.
fn at_work(workers: usize, most: Option<usize>) -> Threads<usize> {
    let threads = Threads::new(workers, most);
    for place in 0..workers {
        let start = |number| {
            assert_eq!(number, place, "numbered in the order of their starts");
            Ok(())
        };
        threads.add_worker(place, start).unwrap();
    }
    assert!((0..workers).all(|place| next(&threads) == Some(Place(place))));
    threads
}

fn started(threads: &Threads<usize>) -> usize {
    threads.state.lock().started
}

/// The next assignment of a thread that stands by, in a pool that has ended.
fn next(threads: &Threads<usize>) -> Option<Assignment<usize>> {
    threads.next(|| true)
}

/// COMPENSATION-2, COMPENSATION-4.
#[test]
fn a_thread_that_stands_by_is_promised_once() {
    let threads = at_work(1, Some(2));
    threads.reserve(starts).unwrap();
    assert_eq!(started(&threads), 2);
    threads.reserve(starts).unwrap();
    assert_eq!(started(&threads), 3);
    assert_eq!(threads.reserve(starts), Err(WouldBlock), "there may be two more");
    threads.call_help(starts);
    assert_eq!(threads.helpers(), 0, "no thread is left for that");
    threads.cancel();
    threads.reserve(starts).unwrap();
    threads.cancel();
    threads.cancel();
    // Who was promised one before may have it, and it is no other's.
    for _ in 0..2 {
        threads.reserve(starts).unwrap();
    }
    assert_eq!(threads.reserve(starts), Err(WouldBlock));
    assert_eq!(started(&threads), 3);
}

/// COMPENSATION-2: a free place has a thread that comes for it, and no other place or call has
/// that one.
#[test]
fn a_free_place_keeps_its_thread() {
    let threads = at_work(1, Some(3));
    threads.reserve(starts).unwrap();
    threads.leave(0);
    assert_eq!(started(&threads), 2);
    threads.reserve(starts).unwrap();
    assert_eq!(started(&threads), 3);
    threads.call_help(starts);
    assert_eq!((started(&threads), threads.helpers()), (4, 1));
    assert_eq!(threads.reserve(starts), Err(WouldBlock));
    // The place comes before the call.
    assert_eq!(next(&threads), Some(Place(0)));
    assert_eq!(next(&threads), Some(Help));
    // One is reserved, three run something.
    assert_eq!(threads.reserve(starts), Err(WouldBlock));
    threads.becomes_spare();
    threads.reserve(starts).unwrap();
    assert_eq!(started(&threads), 4);
}

#[test]
fn who_helps_is_counted_until_it_stands_by() {
    let threads = at_work(1, Some(2));
    assert_eq!(threads.helpers(), 0);
    threads.call_help(starts);
    threads.call_help(starts);
    assert_eq!((started(&threads), threads.helpers()), (3, 2));
    assert_eq!(next(&threads), Some(Help));
    assert_eq!(next(&threads), Some(Help));
    assert_eq!(threads.helpers(), 2);
    threads.has_helped();
    assert_eq!(threads.helpers(), 1);
    threads.has_helped();
    assert_eq!(threads.helpers(), 0);
    // Both stand by again, and one after the other may go.
    threads.call_help(starts);
    assert_eq!((started(&threads), threads.helpers()), (3, 1));
    assert_eq!(next(&threads), Some(Help));
    assert_eq!(next(&threads), None);
    threads.thread_ends();
    // Who has gone stands by no longer.
    threads.reserve(starts).unwrap();
    assert_eq!(started(&threads), 4);
}

/// COMPENSATION-1.
#[test]
fn a_place_is_taken_back_by_who_left_it() {
    let threads = at_work(3, Some(3));
    let left = [0, 1, 2].map(|place| {
        threads.reserve(starts).unwrap();
        threads.leave(place)
    });
    assert_eq!(threads.take_back(left[1]), Some(1));
    assert_eq!(threads.take_back(left[1]), None, "once");
    // The one that was left first is taken over.
    assert_eq!(next(&threads), Some(Place(0)));
    assert_eq!(threads.take_back(left[0]), None);
    assert_eq!(threads.take_back(left[2]), Some(2));
    assert_eq!(started(&threads), 6);
}

/// A place for which the system had no thread is not taken back.
#[test]
fn a_place_without_a_thread_stays_free() {
    let threads = Threads::new(2, Some(2));
    threads.add_worker(0, starts).unwrap();
    assert_eq!(next(&threads), Some(Place(0)));
    assert!(threads.add_worker(1, refuses).is_err());
    threads.reserve(starts).unwrap();
    let left = threads.leave(0);
    assert_eq!(threads.take_back(left), Some(0));
    assert_eq!(next(&threads), Some(Place(1)));
}

/// Has a thread stand by in a pool that has ended, until `then` has it come to something.
fn stands_by(threads: &Threads<usize>, then: impl FnOnce()) -> Option<Assignment<usize>> {
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let stands_by = scope.spawn(move || {
            // Looked at under the lock: what `then` does comes when it sleeps.
            let ended = || {
                tell.send(()).unwrap();
                true
            };
            let begun = Instant::now();
            let job = threads.next(ended);
            assert!(begun.elapsed() < PATIENCE, "it was not called");
            job
        });
        told.recv().unwrap();
        then();
        stands_by.join().unwrap()
    })
}

#[test]
fn who_was_promised_stays_though_the_pool_has_ended() {
    let threads = at_work(1, Some(1));
    threads.reserve(starts).unwrap();
    assert_eq!(stands_by(&threads, || _ = threads.leave(0)), Some(Place(0)));
    threads.becomes_spare();
    threads.reserve(refuses).unwrap();
    let dismissed = || {
        threads.cancel();
        threads.dismiss();
    };
    assert_eq!(stands_by(&threads, dismissed), None);
}

#[test]
fn who_stands_by_for_nothing_ends_after_a_while() {
    let mut threads = at_work(1, Some(1));
    threads.patience = Duration::from_millis(50);
    threads.becomes_spare();
    let begun = Instant::now();
    assert!(threads.next(|| false).is_none());
    assert!(begun.elapsed() >= threads.patience);
}
