//! Errors say which key they are about.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use turnwise::{ThreadPool, VirtualClock};
use turnwise_locks::{
    Keyed, Limits, LockError, Locks, Mutexes, NotStarted, Owner, RunError, RwLocks, Semaphores,
};

const SECOND: Duration = Duration::from_secs(1);

fn name(key: &u32) -> String {
    format!("order {key}")
}

fn key_of(error: &LockError) -> Option<&str> {
    match error {
        LockError::TimedOut { key, .. }
        | LockError::Expected { key, .. }
        | LockError::Busy { key }
        | LockError::Deadlock { key } => key.as_deref(),
        _ => None,
    }
}

fn not_started<R>(outcome: Result<R, RunError<R>>) -> NotStarted {
    match outcome {
        Err(RunError::NotStarted(why)) => why,
        _ => panic!("it has run"),
    }
}

#[test]
fn errors_of_locks_have_the_name_of_the_key() {
    let clock = VirtualClock::new();
    let locks = Locks::builder().names(name).clock(clock.clone()).build();
    let held = locks.lock(7).wait().unwrap();
    let busy = locks.try_lock(7).unwrap_err();
    assert_eq!(
        (key_of(&busy), held.fence() > locks.lock(8).wait().unwrap().fence()),
        (Some("order 7"), false)
    );
    assert_eq!(busy.to_string(), "`order 7` was not granted: it is held, or waited for");
    let borrowed = locks.entry_ref(&7).try_lock().unwrap_err();
    assert_eq!(borrowed, busy);
    let waits = locks.lock_within(7, Limits::wait(SECOND));
    let early = locks.lock_within(7, Limits::wait(SECOND).refuse_early());
    clock.advance(SECOND);
    let late = waits.wait().unwrap_err();
    assert_eq!(late.to_string(), "`order 7` was not granted within 1s");
    assert_eq!(key_of(&early.wait().unwrap_err()), Some("order 7"));
    // Of several, the one that was not free.
    let all = locks.lock_all([6, 7, 8], Limits::wait(Duration::ZERO)).wait().unwrap_err();
    assert_eq!(key_of(&all), Some("order 7"));
    drop(held);

    let locks = RwLocks::builder().names(name).build();
    let me = Owner::new();
    let reader = locks.read_as(&me, 7, Limits::NONE).wait().unwrap();
    let upgrade = locks.write_as(&me, 7, Limits::NONE).wait().unwrap_err();
    assert_eq!(key_of(&upgrade), Some("order 7"));
    assert_eq!(upgrade.to_string(), "an owner of the lock `order 7` would wait for itself");
    drop(reader);

    let permits = Semaphores::builder(1).names(name).build();
    let one = permits.acquire(7).wait().unwrap();
    assert_eq!(key_of(&permits.try_acquire(7, 1).unwrap_err()), Some("order 7"));
    drop(one);
    assert!(permits.is_empty());
}

/// A name is made for an error alone: not for a request that is granted at once.
#[test]
fn keys_of_locks_are_named_only_if_a_request_has_to_wait() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let name = move |key: &String| {
        counted.fetch_add(1, SeqCst);
        format!("order {key}")
    };
    let locks = Locks::builder().names(name).build();
    let seven = || "7".to_owned();
    let lease = Limits::wait(SECOND).lease(SECOND);
    let me = Owner::new();
    for _ in 0..3 {
        drop(locks.lock(seven()).wait().unwrap());
        drop(locks.lock_within(seven(), lease).wait().unwrap());
        drop(locks.entry_ref("7").lock_as(&me, Limits::NONE).wait().unwrap());
    }
    let held = locks.lock_as(&me, seven(), Limits::NONE).wait().unwrap();
    drop(locks.lock_as(&me, seven(), lease).wait().unwrap());
    assert_eq!(asked.load(SeqCst), 0);
    let waits = locks.lock_within(seven(), lease);
    assert_eq!(asked.load(SeqCst), 1);
    let busy = locks.entry_ref("7").try_lock().unwrap_err();
    assert_eq!((key_of(&busy), asked.load(SeqCst)), (Some("order 7"), 2));
    drop((held, waits));
    assert!(locks.is_empty());
}

/// The place of a request whose name panics is given up.
#[test]
fn a_name_that_panics_leaves_the_queue() {
    let locks = Locks::builder().names(|_: &u32| resume_unwind(Box::new("a name"))).build();
    let held = locks.lock(7).wait().unwrap();
    let asked = || drop(locks.lock_within(7, Limits::wait(SECOND)));
    assert!(catch_unwind(asked).is_err() && catch_unwind(|| locks.try_lock(7)).is_err());
    assert_eq!(locks.info(&7).wait().unwrap().unwrap().waiting, 0);
    drop(held);
    assert!(locks.is_empty());
}

#[test]
fn errors_of_mutexes_have_the_name_of_the_key() {
    let carts = Mutexes::builder(|_| 0).names(name).build();
    let held = carts.lock(7).wait().unwrap();
    let busy = carts.entry_ref(&7).try_lock().unwrap_err();
    assert_eq!(key_of(&busy), Some("order 7"));
    drop(held);
    assert!(carts.entry_ref(&7).try_lock().is_ok());
}

#[test]
fn errors_of_awaited_locks_have_the_name_of_the_key() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let locks = Locks::builder().names(name).build();
    let held = locks.lock(7).wait().unwrap();
    let wait = Limits::wait(Duration::from_millis(1));
    let late = runtime.block_on(locks.lock_within(7, wait)).unwrap_err();
    assert!(matches!(&late, LockError::TimedOut { key: Some(key), .. } if &**key == "order 7"));
    drop(held);
}

/// Locks without names say no key.
#[test]
fn without_names_no_key_is_said() {
    let locks = Locks::new();
    let held = locks.lock(7).wait().unwrap();
    let busy = locks.try_lock(7).unwrap_err();
    assert_eq!(busy.to_string(), "not granted: it is held, or waited for");
    assert_eq!(busy, LockError::Busy { key: None });
    drop(held);
}

#[test]
fn errors_of_runs_have_the_name_of_the_key() {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let key = || Some("order 7".into());
    let here = Keyed::builder().names(name).capacity(1).build();
    let there = Keyed::builder().names(name).capacity(1).executor(pool.handle()).build();
    for (keyed, is_here) in [(here, true), (there, false)] {
        let pinned = keyed.key(7).unwrap();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let same = keyed.clone();
        let holder = thread::spawn(move || {
            same.run_within(7, Limits::NONE, move |()| {
                begin.send(()).unwrap();
                ended.recv().unwrap();
            })
        });
        begun.recv().unwrap();
        let at_once = Limits::wait(Duration::ZERO);
        if is_here {
            assert_eq!(keyed.try_run(7, |()| ()), Err(NotStarted::Busy { key: key() }));
            let all = not_started(keyed.run_all([6, 7, 8], at_once, |_| ()));
            assert_eq!(all, NotStarted::Busy { key: key() });
        }
        assert_eq!(pinned.try_run(|()| ()), Err(NotStarted::Busy { key: key() }));
        let start = not_started(keyed.start(7, at_once, |()| ()).wait());
        assert_eq!(start, NotStarted::Busy { key: key() });
        assert_eq!(start.to_string(), "the key `order 7` is busy");

        let short = Limits::wait(Duration::from_millis(1));
        let late = not_started(keyed.run_within(7, short, |()| ()));
        assert!(
            matches!(&late, NotStarted::TimedOut { key: told, .. } if *told == key()),
            "{late}"
        );
        assert!(late.to_string().starts_with("the turn of `order 7` did not come in "), "{late}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let late = not_started(runtime.block_on(keyed.start(7, short, |()| ())));
        assert!(
            matches!(&late, NotStarted::TimedOut { key: told, .. } if *told == key()),
            "{late}"
        );

        let waits = keyed.start(7, Limits::NONE, |()| ());
        let full = keyed.run(7, |()| ()).unwrap_err();
        assert_eq!(full, NotStarted::Full { key: key() });
        assert_eq!(full.to_string(), "the key `order 7` has no room for another run");
        assert_eq!(pinned.run(|()| ()), Err(NotStarted::Full { key: key() }));
        end.send(()).unwrap();
        waits.wait().unwrap();
        holder.join().unwrap().unwrap();
    }
}
