//! Keys that are borrowed from the caller: cloned where they are not there, and nowhere else.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use turnwise_locks::rate::{Rate, RateError, RateLimits};
use turnwise_locks::{Keyed, Limits, LockError, Locks, NotStarted, Owner, RwLocks, Semaphores};

const SECOND: Duration = Duration::from_secs(1);

type OnClone = Box<dyn FnMut()>;

thread_local! {
    /// The behaviour of the clone of a [`Name`].
    static ON_CLONE: RefCell<Option<OnClone>> = const { RefCell::new(None) };
}

#[derive(Debug)]
struct Name(u32);

impl Clone for Name {
    fn clone(&self) -> Self {
        ON_CLONE.with_borrow_mut(|on_clone| on_clone.as_mut().expect("a clone of a key")());
        Name(self.0)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// The outcome of `f`, which clones as many keys as are said.
fn cloning<R>(times: u32, f: impl FnOnce() -> R) -> R {
    let (send, cloned) = mpsc::channel();
    ON_CLONE.set(Some(Box::new(move || send.send(()).unwrap())));
    let outcome = f();
    ON_CLONE.set(None);
    assert_eq!(cloned.iter().count(), times as usize);
    outcome
}

#[test]
fn a_key_that_is_there_is_not_cloned() {
    let a = Name(1);
    let locks = Locks::new();
    let guard = cloning(1, || locks.entry_ref(&a).lock().wait().unwrap());
    let (busy, mut waits, late) = cloning(0, || {
        let here = locks.entry_ref(&a);
        let late = here.lock_within(Limits::wait(Duration::from_millis(1))).wait();
        (here.try_lock(), here.lock_as(&Owner::new(), Limits::NONE), late)
    });
    assert!(matches!(busy, Err(LockError::Busy { .. })));
    assert!(matches!(late, Err(LockError::TimedOut { .. })));
    assert!(waits.wait_timeout(Duration::ZERO).is_none());
    drop(guard);
    drop(waits.wait().unwrap());
    assert!(locks.is_empty());

    let locks = RwLocks::new();
    let reader = cloning(1, || locks.entry_ref(&a).read().wait().unwrap());
    let (other, writer) = cloning(0, || {
        let here = locks.entry_ref(&a);
        (here.try_read().unwrap(), here.write_within(Limits::NONE))
    });
    drop((reader, other));
    assert!(matches!(cloning(0, || locks.entry_ref(&a).try_read()), Err(LockError::Busy { .. })));
    drop(writer.wait().unwrap());
    assert!(locks.is_empty());

    let permits = Semaphores::new(2);
    let one = cloning(1, || permits.entry_ref(&a).acquire().wait().unwrap());
    let two = cloning(0, || permits.entry_ref(&a).try_acquire(1).unwrap());
    let refused = cloning(0, || permits.entry_ref(&a).acquire_within(3, Limits::NONE).wait());
    assert_eq!(refused.unwrap_err(), LockError::TooMany { permits: 2 });
    drop((one, two));
    assert!(permits.is_empty());
}

#[test]
fn a_key_that_runs_is_not_cloned() {
    let a = Name(1);
    let keyed = Keyed::builder().default_state::<u32>().build();
    assert_eq!(cloning(1, || keyed.entry_ref(&a).run(|n| *n)), Ok(0));
    assert_eq!(cloning(1, || keyed.entry_ref(&a).try_run(|n| *n)), Ok(0));
    assert!(keyed.is_empty());
    let key = cloning(1, || keyed.entry_ref(&a).key().unwrap());
    cloning(0, || {
        let here = keyed.entry_ref(&a);
        here.run(|n| *n += 1).unwrap();
        here.try_run(|n| *n += 1).unwrap();
        here.run_within(Limits::wait(SECOND), |n| *n += 1).unwrap();
        here.start(Limits::NONE, |n| *n += 1).wait().unwrap();
        here.start(Limits::wait(Duration::ZERO), |n| *n += 1).wait().unwrap();
        here.run_async(Limits::NONE, async |n| *n += 1).wait().unwrap();
        here.key().unwrap().run(|n| *n += 1).unwrap();
    });
    assert_eq!(key.run(|n| *n), Ok(7));
    let busy = key.run(|_| cloning(0, || keyed.entry_ref(&a).try_run(|_| ())));
    assert_eq!(busy.unwrap(), Err(NotStarted::Busy { key: None }));
    drop(key);
    keyed.shutdown(SECOND);
    assert_eq!(cloning(0, || keyed.entry_ref(&a).try_run(|_| ())), Err(NotStarted::Closed));
}

#[test]
fn a_key_whose_rate_is_known_is_cloned_to_wait_only() {
    let a = Name(1);
    let calls = RateLimits::new(Rate::new(2, Duration::from_secs(60)).unwrap());
    assert_eq!(cloning(1, || calls.entry_ref(&a).try_acquire(1)), Ok(()));
    assert_eq!(cloning(0, || calls.entry_ref(&a).acquire().wait()), Ok(()));
    let late = cloning(0, || calls.entry_ref(&a).acquire_within(1, SECOND).wait());
    assert!(matches!(late, Err(RateError::Expected { .. })));
    let waits = cloning(1, || calls.entry_ref(&a).acquire());
    assert!(!waits.is_ready());
}

/// A clone is the user's: it may use the registry in which its key is looked for.
#[test]
fn keys_are_cloned_outside_of_locks() {
    let locks = Locks::new();
    let keyed = Keyed::new();
    let calls = RateLimits::new(Rate::new(1, 3600 * SECOND).unwrap());
    let (send, free) = mpsc::channel();
    let (its_locks, its_keyed, its_calls) = (locks.clone(), keyed.clone(), calls.clone());
    ON_CLONE.set(Some(Box::new(move || {
        let (locks, keyed, calls) = (its_locks.clone(), its_keyed.clone(), its_calls.clone());
        let (done, looked) = mpsc::channel();
        thread::spawn(move || {
            drop(locks.try_lock(Name(7)).unwrap());
            keyed.try_run(Name(7), |()| ()).unwrap();
            calls.available(&Name(7));
            let _ = done.send(());
        });
        send.send(looked.recv_timeout(10 * SECOND).is_ok()).unwrap();
    })));
    drop(locks.entry_ref(&Name(7)).try_lock());
    keyed.entry_ref(&Name(7)).run(|()| ()).unwrap();
    drop(keyed.entry_ref(&Name(7)).try_run(|()| ()));
    calls.entry_ref(&Name(7)).try_acquire(1).unwrap();
    assert!(!calls.entry_ref(&Name(7)).acquire().is_ready());
    ON_CLONE.set(None);
    assert_eq!(free.iter().collect::<Vec<_>>(), [true; 5]);
}

#[test]
fn a_clone_that_panics_leaves_nothing_behind() {
    let locks = Locks::new();
    let keyed = Keyed::builder().default_state::<u32>().build();
    let calls = RateLimits::new(Rate::new(2, Duration::from_secs(3600)).unwrap());
    ON_CLONE.set(Some(Box::new(|| panic!("a clone"))));
    let panics = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    panics(&|| drop(locks.entry_ref(&Name(1)).lock()));
    panics(&|| drop(keyed.entry_ref(&Name(1)).run(|_| ())));
    panics(&|| drop(keyed.entry_ref(&Name(1)).try_run(|_| ())));
    panics(&|| drop(keyed.entry_ref(&Name(1)).start(Limits::NONE, |_| ())));
    panics(&|| drop(keyed.entry_ref(&Name(1)).key()));
    panics(&|| drop(calls.entry_ref(&Name(1)).acquire()));
    assert!(locks.is_empty() && keyed.is_empty());
    calls.try_acquire(Name(1), 2).unwrap();
    let wait = || match calls.try_acquire(Name(1), 1) {
        Err(RateError::Expected { wait }) => wait,
        other => panic!("{other:?}"),
    };
    let before = wait();
    // It would have to wait; it takes nothing.
    panics(&|| drop(calls.entry_ref(&Name(1)).acquire()));
    ON_CLONE.set(None);
    assert!(wait() <= before);
    drop(locks.lock(Name(1)).wait().unwrap());
}

/// Of a `String`, by `&str`.
#[test]
fn texts_are_keys_of_strings() {
    let locks = Locks::<String>::new();
    let name = String::from("a");
    let guard = locks.entry_ref("a").lock().wait().unwrap();
    assert!(matches!(locks.entry_ref(&name[..]).try_lock(), Err(LockError::Busy { .. })));
    drop(guard);
    let guard = locks.entry_ref(&name).lock_within(Limits::NONE).wait().unwrap();
    assert!(locks.is_locked("a"));
    drop(guard);
    let keyed = Keyed::<String, usize>::with_state(|name| name.len());
    assert_eq!(keyed.entry_ref("abc").run(|n| *n), Ok(3));
}
