//! `?`: every error goes into `anyhow::Error` and into a boxed one, whatever the closure, the value
//! or the key was.

use std::cell::Cell;
use std::error::Error;
use std::time::Duration;

use turnwise_locks::admission::{Admission, CommitError, Fault, InMemory, OpenError, Refused};
use turnwise_locks::slots::{RunSlotError, SlotBuildError, SlotError};
use turnwise_locks::ticks::NotMine;
use turnwise_locks::{
    FencedError, Keyed, Limits, LockError, Locks, NotStarted, ReleaseError, RunError, RwLocks,
    Semaphore, SlotPool,
};

type Boxed<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Sent, not shared, without `Debug`.
struct Lonely(Cell<u32>);

#[test]
fn errors_are_what_boxed_errors_want() {
    fn error<E: Error + Send + Sync + 'static>() {}
    error::<CommitError<String>>();
    error::<Fault<String>>();
    error::<FencedError>();
    error::<LockError>();
    error::<ReleaseError>();
    error::<NotMine>();
    error::<NotStarted>();
    error::<OpenError<String>>();
    error::<Refused<String>>();
    error::<RunError>();
    error::<RunSlotError<(), String>>();
    error::<SlotBuildError>();
    error::<SlotError<String>>();
}

/// Two functions of the same body, with the two types of error.
macro_rules! both {
    ($name:ident, $body:block) => {{
        fn anyhows() -> anyhow::Result<()> {
            $body
            #[allow(unreachable_code)]
            Ok(())
        }
        fn boxed() -> Boxed {
            $body
            #[allow(unreachable_code)]
            Ok(())
        }
        let (one, two) = (anyhows().unwrap_err(), boxed().unwrap_err());
        assert_eq!(one.to_string(), two.to_string());
        assert!(!format!("{one:?} {two:?}").is_empty());
        let $name = one.to_string();
        $name
    }};
}

const NOW: Duration = Duration::ZERO;

#[test]
fn runs_by_key() {
    let said = both!(said, {
        let keyed = Keyed::<&str>::new();
        let inner = keyed.clone();
        let tried = keyed.run("a", move |()| {
            let lonely = Lonely(Cell::new(1));
            inner.try_run("a", move |()| lonely.0.get())
        })?;
        tried?;
    });
    assert_eq!(said, "the key is busy");
    let said = both!(said, {
        let keyed = Keyed::<&str>::new();
        let jammed = || std::panic::resume_unwind(Box::new("jammed"));
        keyed.start("a", Limits::NONE, move |()| -> u32 { jammed() }).wait()?;
    });
    assert_eq!(said, "it panicked: jammed");
    let said = both!(said, {
        let keyed = Keyed::<&str>::new();
        keyed.shutdown(NOW);
        let late = keyed.run_within("a", Limits::NONE, |()| Lonely(Cell::new(1)));
        late.map_err(RunError::without_value)?;
    });
    assert_eq!(said, "not started: the registry was shut down");
}

#[test]
fn a_closure_is_dropped_where_an_error_has_no_room() {
    fn refused(keyed: &Keyed<u32>) -> Result<u32, NotStarted> {
        let lonely = Lonely(Cell::new(1));
        keyed.try_run(1, move |()| lonely.0.get())
    }
    let keyed = Keyed::new();
    assert_eq!(refused(&keyed), Ok(1));
    let inner = keyed.clone();
    assert_eq!(keyed.run(1, move |()| refused(&inner)), Ok(Err(NotStarted::Busy { key: None })));
}

#[test]
fn locks_and_semaphores() {
    let said = both!(said, {
        let locks = Locks::<&str>::new();
        let _guard = locks.lock("a").wait()?;
        _ = locks.try_lock("a")?;
    });
    assert_eq!(said, "not granted: it is held, or waited for");
    let said = both!(said, {
        let locks = RwLocks::<&str>::new();
        let _guard = locks.write("a").wait()?;
        _ = locks.read_within("a", Limits::wait(NOW)).wait()?;
    });
    assert_eq!(said, "not granted: it is held, or waited for");
    let said = both!(said, {
        let semaphore = Semaphore::new(1);
        let _permit = semaphore.acquire().wait()?;
        _ = semaphore.try_acquire(1)?;
    });
    assert_eq!(said, "not granted: it is held, or waited for");
    let said = both!(said, {
        let semaphore = Semaphore::new(1);
        semaphore.close();
        _ = semaphore.try_acquire(1)?;
    });
    assert_eq!(said, "no more requests are taken");
    let said = both!(said, {
        _ = Semaphore::new(1).acquire_within(2, Limits::NONE).wait()?;
    });
    assert_eq!(said, "there are 1 permits in all");
}

#[test]
fn slots_and_admissions() {
    let said = both!(said, {
        let pool = SlotPool::builder(1)
            .set_up(|slot| if slot.index() == 0 { Err("no such device") } else { Ok(slot) })
            .build()?;
        _ = pool.try_acquire()?;
    });
    assert_eq!(said, "the set-up failed: no such device");
    let said = both!(said, {
        let pool = SlotPool::new(1)?;
        pool.close();
        let value = pool.run(Limits::NONE, |_| Lonely(Cell::new(1)));
        value.map_err(RunSlotError::without_value)?;
    });
    assert_eq!(said, "the pool was closed");
    let said = both!(said, {
        let raffle = Admission::open(InMemory, 2)?;
        raffle.apply("ada", Limits::NONE).wait()?;
        raffle.apply("ada", Limits::NONE).wait()?;
    });
    assert_eq!(said, "already admitted, in place 1");
}
