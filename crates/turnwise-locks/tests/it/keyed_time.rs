//! Keyed runs and time: limits that wake, early refusal, overruns, keys that stay for a while.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use turnwise::time::Timers;
use turnwise::{Clock, ThreadPool, VirtualClock};
use turnwise_locks::{Keyed, Limits, NotStarted, RunError};

const MS: Duration = Duration::from_millis(1);

/// Gives others the processor until it is so; red after a minute.
fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::yield_now();
    }
}

fn not_started<R>(why: NotStarted) -> Result<R, RunError<R>> {
    Err(RunError::NotStarted(why))
}

/// Time by hand.
fn by_hand() -> (VirtualClock, Timers) {
    let clock = VirtualClock::new();
    (clock.clone(), Timers::by_hand(clock))
}

/// Runs `f` while a closure of the key is running, and then lets that end.
fn while_busy<S: Send + 'static, R>(
    keyed: &Keyed<&'static str, S>,
    key: &'static str,
    f: impl FnOnce() -> R,
) -> R {
    let (entered, is_in) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let stays = move |_: &mut S| {
                entered.send(()).unwrap();
                left.recv().ok();
            };
            keyed.run(key, stays).unwrap();
        });
        is_in.recv().unwrap();
        let value = f();
        drop(leave);
        value
    })
}

/// Counts its wakes.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_limit_wakes_its_future() {
    let (clock, timers) = by_hand();
    let keyed = Keyed::builder().timers(timers.clone()).build();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    let mut cx = Context::from_waker(&waker);
    while_busy(&keyed, "a", || {
        let mut late = pin!(keyed.start("a", Limits::wait(5 * MS), |()| panic!("never")));
        let mut patient = pin!(keyed.start("a", Limits::NONE, |()| 7));
        assert_eq!(timers.len(), 0, "before the first poll");
        assert!(late.as_mut().poll(&mut cx).is_pending());
        assert!(patient.as_mut().poll(&mut cx).is_pending());
        assert_eq!(timers.len(), 1, "one has a limit");
        assert!(late.as_mut().poll(&mut cx).is_pending());
        assert_eq!(timers.len(), 1, "armed once");
        clock.advance(4 * MS);
        assert_eq!((timers.run_due(), woken.0.load(SeqCst)), (0, 0));
        clock.advance(MS);
        assert_eq!((timers.run_due(), woken.0.load(SeqCst)), (1, 1));
        let timed_out = not_started::<()>(NotStarted::TimedOut { waited: 5 * MS, key: None });
        assert_eq!(late.as_mut().poll(&mut cx), Poll::Ready(timed_out));
    });
    until("all is over", || keyed.is_empty());
    assert_eq!(timers.len(), 0);
}

#[test]
fn what_has_begun_has_no_limit() {
    let (clock, timers) = by_hand();
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let keyed = Keyed::builder().timers(timers.clone()).executor(pool.handle()).build();
    let (entered, is_in) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    let mut cx = Context::from_waker(&waker);
    let mut run = pin!(keyed.start("a", Limits::wait(5 * MS), move |()| {
        entered.send(()).unwrap();
        left.recv().ok();
        7
    }));
    is_in.recv().unwrap();
    assert!(run.as_mut().poll(&mut cx).is_pending());
    clock.advance(9 * MS);
    timers.run_due();
    assert!(run.as_mut().poll(&mut cx).is_pending(), "it runs");
    assert_eq!(timers.len(), 0, "nothing is armed for what runs");
    drop(leave);
    until("it is over", || run.is_over());
    assert_eq!(run.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));
}

#[test]
fn a_dropped_future_disarms() {
    let (clock, timers) = by_hand();
    let keyed = Keyed::builder().timers(timers.clone()).build();
    let ran = Arc::new(AtomicBool::new(false));
    while_busy(&keyed, "a", || {
        let ran = ran.clone();
        let mut run =
            Box::pin(keyed.start("a", Limits::wait(5 * MS), move |()| ran.store(true, SeqCst)));
        let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        assert_eq!(timers.len(), 1);
        drop(run);
        assert_eq!(timers.len(), 0);
        clock.advance(9 * MS);
    });
    until("all is over", || keyed.is_empty());
    assert!(!ran.load(SeqCst), "late: skipped in its turn");
}

#[test]
fn a_future_ends_by_the_timers_of_its_clock() {
    let clock = VirtualClock::new();
    let keyed = Keyed::builder().clock(clock.clone()).build();
    while_busy(&keyed, "a", || {
        let (tell, told) = mpsc::channel();
        struct Tell(Mutex<mpsc::Sender<()>>);
        impl Wake for Tell {
            fn wake(self: Arc<Self>) {
                self.0.lock().unwrap().send(()).ok();
            }
        }
        let waker = Waker::from(Arc::new(Tell(Mutex::new(tell))));
        let mut cx = Context::from_waker(&waker);
        let mut run = pin!(keyed.start("a", Limits::wait(500 * MS), |()| panic!("never")));
        assert!(run.as_mut().poll(&mut cx).is_pending());
        clock.wait_for_sleepers(1);
        clock.advance(500 * MS);
        told.recv_timeout(Duration::from_secs(60)).expect("it is woken");
        let late = not_started::<()>(NotStarted::TimedOut { waited: 500 * MS, key: None });
        assert_eq!(run.as_mut().poll(&mut cx), Poll::Ready(late));
    });
}

#[test]
fn early_refusal() {
    let (clock, timers) = by_hand();
    let keyed = Keyed::builder().timers(timers).build();
    let takes = |time| {
        let clock = clock.clone();
        move |()| clock.advance(time)
    };
    let hasty = |time| Limits::wait(time).refuse_early();
    // A fresh key says nothing, whatever waits.
    while_busy(&keyed, "a", || {
        let run = keyed.start("a", hasty(MS), |()| ());
        assert!(!run.is_over());
        assert!(run.cancel().is_ok());
        assert_eq!(keyed.info(&"a").unwrap().expected_wait, Duration::ZERO);
    });
    until("all is over", || keyed.is_empty());
    // Its first measured use, and the key is gone meanwhile: what is known is not.
    let long = takes(100 * MS);
    assert_eq!(keyed.run_within("a", hasty(MS), move |()| long(())), Ok(()));
    assert!(keyed.is_empty());
    while_busy(&keyed, "a", || {
        assert_eq!(keyed.info(&"a").unwrap().expected_wait, 100 * MS);
        let refused = keyed.run_within("a", hasty(99 * MS), |()| panic!("never"));
        assert_eq!(refused, not_started::<()>(NotStarted::Expected { wait: 100 * MS, key: None }));
        let key = keyed.key("a").unwrap();
        let refused = key.run_within(hasty(99 * MS), |()| panic!("never"));
        assert_eq!(refused, not_started::<()>(NotStarted::Expected { wait: 100 * MS, key: None }));
        let both = keyed.run_all(["b", "a"], hasty(99 * MS), |_| panic!("never"));
        assert_eq!(both, not_started::<()>(NotStarted::Expected { wait: 100 * MS, key: None }));
        assert_eq!(keyed.info(&"a").unwrap().runs, 1, "no place was taken");
        // One who waits as long as that has a place, and so has one who does not ask.
        let waits = keyed.start("a", hasty(100 * MS), |()| ());
        let patient = keyed.start("a", Limits::wait(99 * MS), |()| ());
        assert_eq!(keyed.info(&"a").unwrap().expected_wait, 300 * MS);
        assert!(waits.cancel().is_ok() && patient.cancel().is_ok());
        // Other keys are other keys.
        assert_eq!(keyed.run_within("c", hasty(MS), |()| 1), Ok(1));
    });
    until("all is over", || keyed.is_empty());
    // Quick ones bring the mean down.
    for _ in 0..100 {
        assert_eq!(keyed.run_within("a", Limits::wait(MS), |()| 1), Ok(1));
    }
    while_busy(&keyed, "a", || {
        assert!(keyed.info(&"a").unwrap().expected_wait < MS);
    });
}

#[test]
fn plain_runs_read_no_clock() {
    /// A clock that counts its looks.
    #[derive(Clone, Debug, Default)]
    struct Looks(Arc<AtomicUsize>);
    impl Clock for Looks {
        fn now(&self) -> Duration {
            self.0.fetch_add(1, SeqCst);
            Duration::ZERO
        }
    }
    let looks = Looks::default();
    let keyed = Keyed::builder().clock(looks.clone()).build();
    assert_eq!(keyed.run_within("a", Limits::wait(MS).refuse_early(), |()| 1), Ok(1));
    let before = looks.0.load(SeqCst);
    let key = keyed.key("a").unwrap();
    for _ in 0..9 {
        keyed.run("a", |()| ()).unwrap();
        keyed.try_run("b", |()| ()).unwrap();
        key.run(|()| ()).unwrap();
        assert_eq!(keyed.start("a", Limits::NONE, |()| 1).wait(), Ok(1));
    }
    assert_eq!(looks.0.load(SeqCst), before);
}

type Told = Arc<Mutex<Vec<(&'static str, Duration)>>>;

/// A registry that writes down all reports.
fn watched(timers: &Timers) -> (Keyed<&'static str>, Told) {
    let told = Told::default();
    let tell = told.clone();
    let keyed = Keyed::builder()
        .timers(timers.clone())
        .on_overrun(move |key: &&str, overrun| {
            tell.lock().unwrap().push((*key, overrun));
            std::panic::resume_unwind(Box::new("it concerns no other"));
        })
        .build();
    (keyed, told)
}

#[test]
fn an_overrun_is_told_while_it_lasts() {
    let (clock, timers) = by_hand();
    let (keyed, told) = watched(&timers);
    let limits = Limits::NONE.lease(100 * MS);
    for n in 1..=3 {
        let (clock, timers, told) = (clock.clone(), timers.clone(), told.clone());
        let outcome = keyed.run_within("a", limits, move |()| {
            assert_eq!(timers.len(), 1);
            clock.advance(99 * MS);
            assert_eq!(timers.run_due(), 0);
            clock.advance(2 * MS);
            assert_eq!(timers.run_due(), 1);
            until("it is reported", || told.lock().unwrap().len() == n);
            n
        });
        assert_eq!(outcome, Err(RunError::Overran { value: n, by: MS }));
    }
    let told = told.lock().unwrap();
    assert!(told.iter().all(|told| *told == ("a", 100 * MS)));
    assert_eq!((told.len(), timers.len()), (3, 0));
}

#[test]
fn an_overrun_is_told_once() {
    let (clock, timers) = by_hand();
    let (keyed, told) = watched(&timers);
    let limits = Limits::NONE.lease(100 * MS);
    // In time: no report. Without a lease: nothing is armed.
    let brief = clock.clone();
    assert_eq!(keyed.run_within("a", limits, move |()| brief.advance(100 * MS)), Ok(()));
    let armed = timers.clone();
    assert_eq!(keyed.run_within("a", Limits::wait(MS), move |()| armed.len()), Ok(0));
    // The timers came late: the end tells.
    let long = clock.clone();
    let outcome = keyed.run_within("b", limits, move |()| long.advance(300 * MS));
    assert_eq!(outcome, Err(RunError::Overran { value: (), by: 200 * MS }));
    until("it is reported", || told.lock().unwrap().len() == 1);
    assert_eq!(told.lock().unwrap()[0].0, "b");
    // Several keys: each of them.
    let (long, due) = (clock.clone(), timers.clone());
    let outcome = keyed.run_all(["d", "c"], limits, move |_| {
        long.advance(101 * MS);
        assert_eq!(due.run_due(), 1);
    });
    assert_eq!(outcome, Err(RunError::Overran { value: (), by: MS }));
    until("both are reported", || told.lock().unwrap().len() == 3);
    let keys: Vec<_> = told.lock().unwrap().iter().map(|(key, _)| *key).collect();
    assert_eq!((keys, timers.len()), (vec!["b", "c", "d"], 0));
    clock.advance(Duration::from_secs(9));
    assert_eq!(timers.run_due(), 0);
    assert_eq!(told.lock().unwrap().len(), 3);
}

/// A state that counts itself.
struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

fn kept(timers: &Timers) -> (Keyed<&'static str, Live>, Arc<AtomicUsize>) {
    let live = Arc::<AtomicUsize>::default();
    let made = live.clone();
    let builder = Keyed::builder().state(move |_| {
        made.fetch_add(1, SeqCst);
        Live(made.clone())
    });
    (builder.timers(timers.clone()).keep_alive(100 * MS).build(), live)
}

#[test]
fn a_state_stays_and_then_goes() {
    let (clock, timers) = by_hand();
    let (keyed, live) = kept(&timers);
    let run = |key| keyed.run(key, |_| ()).unwrap();
    run("a");
    clock.advance(60 * MS);
    run("b");
    assert_eq!((keyed.len(), live.load(SeqCst)), (2, 2));
    // A use begins its time anew; what fires meanwhile ends nothing.
    run("a");
    clock.advance(60 * MS);
    timers.run_due();
    until("the timer is armed again", || !timers.is_empty());
    assert_eq!((keyed.len(), live.load(SeqCst)), (2, 2));
    let key = keyed.key("a").unwrap();
    clock.advance(60 * MS);
    timers.run_due();
    until("b is gone", || keyed.len() == 1 && live.load(SeqCst) == 1);
    // A use keeps it, however long.
    clock.advance(600 * MS);
    timers.run_due();
    assert_eq!((keyed.len(), live.load(SeqCst)), (1, 1));
    drop(key);
    until("the timer is armed again", || timers.len() == 1);
    clock.advance(99 * MS);
    timers.run_due();
    assert_eq!((keyed.len(), live.load(SeqCst)), (1, 1));
    clock.advance(MS);
    timers.run_due();
    until("a is gone", || keyed.is_empty() && live.load(SeqCst) == 0);
    assert_eq!(timers.len(), 0);
}

#[test]
fn a_kept_key_is_idle() {
    let (_clock, timers) = by_hand();
    let (keyed, live) = kept(&timers);
    assert!(keyed.try_run("a", |_| ()).is_ok());
    assert!(keyed.try_run("a", |_| ()).is_ok());
    assert_eq!(keyed.run_within("a", Limits::wait(Duration::ZERO), |_| 1), Ok(1));
    assert!(keyed.run_all(["a", "b"], Limits::wait(Duration::ZERO), |all| all.len()) == Ok(2));
    assert_eq!((keyed.len(), live.load(SeqCst)), (2, 2));
    assert_eq!(keyed.info(&"a").map(|info| (info.runs, info.keys)), Some((0, 0)));
}

#[test]
fn shutdown_and_drop_end_what_is_kept() {
    let (_clock, timers) = by_hand();
    let (keyed, live) = kept(&timers);
    for key in ["a", "b", "c"] {
        keyed.run(key, |_| ()).unwrap();
    }
    assert_eq!(live.load(SeqCst), 3);
    assert!(!timers.is_empty());
    assert!(keyed.shutdown(Duration::from_secs(60)).is_complete());
    assert_eq!((keyed.len(), live.load(SeqCst), timers.len()), (0, 0, 0));
    assert!(keyed.run("a", |_| ()).is_err());
    let (keyed, live) = kept(&timers);
    keyed.run("a", |_| ()).unwrap();
    let clone = keyed.clone();
    drop(keyed);
    assert_eq!((live.load(SeqCst), timers.len()), (1, 1));
    drop(clone);
    assert_eq!((live.load(SeqCst), timers.len()), (0, 0));
}

#[test]
fn many_keys_end_together() {
    let (clock, timers) = by_hand();
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    for elsewhere in [false, true] {
        let live = Arc::<AtomicUsize>::default();
        let made = live.clone();
        let mut builder = Keyed::builder().state(move |_: &u32| {
            made.fetch_add(1, SeqCst);
            Live(made.clone())
        });
        if elsewhere {
            builder = builder.executor(pool.handle());
        }
        let keyed = builder.timers(timers.clone()).keep_alive(100 * MS).build();
        for key in 0..5_000 {
            keyed.run(key, |_| ()).unwrap();
        }
        until("all runs are over", || live.load(SeqCst) == 5_000);
        clock.advance(100 * MS);
        until("they are gone", || {
            timers.run_due();
            keyed.is_empty() && live.load(SeqCst) == 0
        });
        assert_eq!(timers.len(), 0);
    }
}

#[test]
fn keep_alive_of_nothing_is_nothing() {
    let (_clock, timers) = by_hand();
    let live = Arc::<AtomicUsize>::default();
    let made = live.clone();
    let builder = Keyed::builder().state(move |_: &u32| {
        made.fetch_add(1, SeqCst);
        Live(made.clone())
    });
    let keyed = builder.timers(timers.clone()).keep_alive(Duration::ZERO).build();
    keyed.run(1, |_| ()).unwrap();
    assert_eq!((keyed.len(), live.load(SeqCst), timers.len()), (0, 0, 0));
}

#[test]
fn a_clock_alone_ends_what_is_kept() {
    let clock = VirtualClock::new();
    let keyed = Keyed::builder().clock(clock.clone()).keep_alive(Duration::from_secs(1)).build();
    keyed.run(1, |()| ()).unwrap();
    assert_eq!(keyed.len(), 1);
    clock.advance(Duration::from_secs(1));
    until("its time is over", || keyed.is_empty());
}
