//! Keyed runs that may wait: async closures, cut at their lease.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use turnwise::executor::{DrainQueue, Tokio};
use turnwise::time::Timers;
use turnwise::{Promise, Reply, ThreadPool, VirtualClock, promise};
use turnwise_locks::{Cut, Keyed, Limits, NotStarted, Run, RunError};

const MS: Duration = Duration::from_millis(1);

/// Gives others the processor until it is so; red after a minute.
fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::yield_now();
    }
}

/// Time by hand, and turns by hand.
struct Hand {
    clock: VirtualClock,
    timers: Timers,
    queue: DrainQueue,
}

impl Hand {
    fn new() -> Self {
        let clock = VirtualClock::new();
        Hand { timers: Timers::by_hand(clock.clone()), clock, queue: DrainQueue::new() }
    }

    fn keyed(&self) -> Keyed<&'static str, Log> {
        let state = |_: &&'static str| Log::default();
        let keyed = Keyed::builder().state(state).executor(self.queue.handle());
        keyed.timers(self.timers.clone()).build()
    }

    /// So long passes; then all that follows from it.
    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.timers.run_due();
        self.run();
    }

    /// The end of a kept key begins on the process's pool, and is a turn of the queue.
    fn ends(&self, what: &str, gone: impl Fn() -> bool) {
        until(what, || {
            self.pass(20 * MS);
            gone()
        });
    }

    fn run(&self) {
        self.queue.run_until_idle();
    }
}

type Log = Vec<&'static str>;
type Logs = Arc<Mutex<Log>>;

/// Says so when it is dropped.
struct Says(Logs, &'static str);

impl Drop for Says {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

fn lease(time: Duration) -> Limits {
    Limits::NONE.lease(time)
}

fn polled<R>(run: &mut Run<R>) -> Poll<Result<R, RunError<R>>> {
    Pin::new(run).poll(&mut Context::from_waker(Waker::noop()))
}

fn cut<R>(why: Cut) -> Result<R, RunError<R>> {
    Err(RunError::Cut(why))
}

#[test]
fn the_lease_cuts_and_the_next_run_starts_after_the_destructors() {
    let (hand, said) = (Hand::new(), Logs::default());
    let keyed = hand.keyed();
    let (mine, theirs) = (said.clone(), said.clone());
    let slow = keyed.run_async("a", lease(100 * MS), async move |_| {
        let _says = Says(mine, "dropped");
        pending::<()>().await;
    });
    let next = keyed.start("a", Limits::NONE, move |_| theirs.lock().unwrap().push("next"));
    hand.run();
    assert_eq!(hand.timers.len(), 1);
    hand.pass(99 * MS);
    assert!(!slow.is_over() && !next.is_over());
    assert_eq!(keyed.info(&"a").unwrap().runs, 2);
    hand.pass(MS);
    assert_eq!(*said.lock().unwrap(), ["dropped", "next"]);
    assert_eq!((slow.wait(), next.wait()), (cut(Cut::Lease), Ok(())));
    assert!(keyed.is_empty() && hand.timers.is_empty());
}

#[test]
fn what_is_done_in_time_arms_no_timer_or_cancels_it() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let never_waits = keyed.run_async("a", lease(MS), async |log| {
        log.push("here");
        log.len()
    });
    hand.run();
    assert_eq!((hand.timers.len(), never_waits.wait()), (0, Ok(1)));
    let (go, gone) = promise::<&str>();
    let waits = keyed.run_async("a", lease(MS), async move |log| {
        log.push(gone.await.unwrap());
        log.clone()
    });
    hand.run();
    assert_eq!(hand.timers.len(), 1);
    go.keep("kept");
    hand.run();
    assert_eq!((hand.timers.len(), waits.wait()), (0, Ok(vec!["kept"])));
}

#[test]
fn the_lease_begins_with_the_turn() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let stays = || keyed.run_async("a", lease(10 * MS), async |_| pending::<()>().await);
    let (one, two) = (stays(), stays());
    hand.run();
    hand.pass(10 * MS);
    assert!(one.is_over() && !two.is_over());
    hand.pass(9 * MS);
    assert!(!two.is_over());
    hand.pass(MS);
    assert_eq!((one.wait(), two.wait()), (cut(Cut::Lease), cut(Cut::Lease)));
}

#[test]
fn a_poll_that_outlasts_the_lease_and_is_ready_has_overrun() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let clock = hand.clock.clone();
    let run = keyed.run_async("a", lease(10 * MS), async move |_| {
        clock.advance(12 * MS);
        7
    });
    hand.run();
    assert_eq!(run.wait(), Err(RunError::Overran { value: 7, by: 2 * MS }));
    // One that is pending then is cut there, in the same turn.
    let clock = hand.clock.clone();
    let run = keyed.run_async("a", lease(10 * MS), async move |_| {
        clock.advance(12 * MS);
        pending::<()>().await;
    });
    hand.run();
    assert_eq!(run.wait(), cut(Cut::Lease));
}

#[test]
fn woken_after_the_lease_it_is_not_polled_again() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let (go, gone) = promise::<()>();
    let run = keyed.run_async("a", lease(10 * MS), async move |_| {
        let _ = gone.await;
        panic!("polled after its lease");
    });
    hand.run();
    hand.clock.advance(10 * MS); // the timer has not fired
    go.keep(());
    hand.run();
    assert_eq!(run.wait(), cut::<()>(Cut::Lease));
    assert!(hand.timers.is_empty());
}

#[test]
fn one_slow_key_leaves_the_others_their_runs() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let slow = keyed.run_async("slow", lease(Duration::from_secs(9)), async |_| {
        pending::<()>().await;
    });
    let behind = keyed.start("slow", Limits::NONE, |_| ());
    hand.run();
    for _ in 0..1_000 {
        let quick = keyed.run_async("quick", lease(MS), async |_| 1);
        hand.run();
        assert_eq!(quick.wait(), Ok(1));
    }
    assert!(!slow.is_over() && !behind.is_over());
    hand.pass(Duration::from_secs(9));
    assert_eq!((slow.wait(), behind.wait()), (cut(Cut::Lease), Ok(())));
}

#[test]
fn a_hundred_slow_keys_hold_no_thread_of_two() {
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let keyed = Keyed::builder().executor(pool.handle()).build();
    let (gos, slow): (Vec<Promise<u32>>, Vec<_>) = (0..100)
        .map(|key| {
            let (go, gone) = promise::<u32>();
            let run = keyed.run_async(key, Limits::NONE, async move |()| gone.await.unwrap());
            (go, run)
        })
        .unzip();
    for key in 100..1_100 {
        assert_eq!(keyed.run_within(key, Limits::NONE, move |()| key).unwrap(), key);
    }
    assert_eq!(keyed.len(), 100);
    gos.into_iter().zip(0..).for_each(|(go, n)| go.keep(n));
    let sum: u32 = slow.into_iter().map(|run| run.wait().unwrap()).sum();
    assert_eq!(sum, 4_950);
}

#[test]
fn the_wait_is_limited_behind_a_run_that_waits() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let (go, gone) = promise::<()>();
    let first = keyed.run_async("a", Limits::NONE, async move |_| gone.await.unwrap());
    let mut late = keyed.run_async("a", Limits::wait(5 * MS), async |_| panic!("never"));
    let patient = keyed.run_async("a", Limits::NONE, async |_| 3);
    hand.run();
    assert!(polled(&mut late).is_pending());
    hand.pass(5 * MS);
    let timed_out = RunError::NotStarted(NotStarted::TimedOut { waited: 5 * MS, key: None });
    assert_eq!(polled(&mut late), Poll::Ready(Err::<(), _>(timed_out)));
    // One whose future is not polled is late in its turn.
    let unpolled = keyed.run_async("a", Limits::wait(5 * MS), async |_| panic!("never"));
    hand.pass(6 * MS);
    go.keep(());
    hand.run();
    assert_eq!((first.wait(), patient.wait()), (Ok(()), Ok(3)));
    let timed_out = RunError::NotStarted(NotStarted::TimedOut { waited: 6 * MS, key: None });
    assert_eq!(unpolled.wait(), Err::<(), _>(timed_out));
}

#[test]
fn early_refusal_knows_how_long_runs_waited() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let hasty = Limits::wait(5 * MS).refuse_early();
    assert!(keyed.run_async("a", hasty, async |_| ()).cancel().is_ok()); // it is measured from now
    let first = keyed.run_async("a", hasty.lease(80 * MS), async |_| pending::<()>().await);
    hand.run();
    hand.pass(80 * MS);
    assert_eq!(first.wait(), cut(Cut::Lease));
    let second = keyed.run_async("a", hasty, async |_| pending::<()>().await);
    let refused = keyed.run_async("a", hasty, async |_| ());
    assert!(second.cancel().is_ok());
    let wait = 80 * MS;
    assert_eq!(refused.wait(), Err(RunError::NotStarted(NotStarted::Expected { wait, key: None })));
}

#[test]
fn at_once_or_not_at_all() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let key = keyed.key("a").unwrap();
    let now = key.run_async(Limits::wait(Duration::ZERO), async |_| 1);
    let busy = RunError::NotStarted(NotStarted::Busy { key: None });
    assert_eq!(key.run_async(Limits::wait(Duration::ZERO), async |_| 2).wait(), Err(busy.clone()));
    assert_eq!(
        keyed.run_async("a", Limits::wait(Duration::ZERO), async |_| 2).wait(),
        Err(busy.clone())
    );
    hand.run();
    assert_eq!(now.wait(), Ok(1));
    let stays = keyed.run_async("a", Limits::wait(Duration::ZERO), async |_| pending::<()>().await);
    assert_eq!(keyed.start("a", Limits::wait(Duration::ZERO), |_| 2).wait(), Err(busy));
    assert_eq!(keyed.try_run("a", |_| 2).unwrap_err(), NotStarted::Busy { key: None });
    hand.run();
    assert_eq!(stays.wait(), cut(Cut::Abandoned));
}

#[test]
fn cancelled_before_it_begins_it_never_runs() {
    let (hand, said) = (Hand::new(), Logs::default());
    let keyed = hand.keyed();
    let held = Says(said.clone(), "captured");
    let waiting = keyed.run_async("a", Limits::NONE, async move |_| {
        let _held = held;
        panic!("never");
    });
    assert!(waiting.cancel().is_ok());
    assert_eq!(*said.lock().unwrap(), ["captured"]);
    let begun = keyed.run_async("a", lease(9 * MS), async |_| pending::<()>().await);
    hand.run();
    let begun = begun.cancel().unwrap_err();
    hand.pass(9 * MS);
    assert_eq!(begun.wait(), cut(Cut::Lease));
    hand.run();
    assert!(keyed.is_empty());
}

#[test]
fn aborted_it_is_cut_at_its_await() {
    let (hand, said) = (Hand::new(), Logs::default());
    let keyed = hand.keyed();
    let stays = |said: &Logs| {
        let says = Says(said.clone(), "dropped");
        keyed.run_async("a", lease(MS), async move |_| {
            let _says = says;
            pending::<()>().await;
        })
    };
    assert!(stays(&said).abort().is_ok(), "not begun");
    assert_eq!(said.lock().unwrap().len(), 1);
    let begun = stays(&said);
    hand.run();
    let begun = begun.abort().unwrap_err();
    assert!(!begun.is_over() && said.lock().unwrap().len() == 1, "not in the call");
    hand.run();
    assert_eq!(begun.wait(), cut(Cut::Aborted));
    assert_eq!(said.lock().unwrap().len(), 2);
    assert!(keyed.is_empty() && hand.timers.is_empty());
    // A closure that is not async goes on.
    let plain = keyed.start("a", Limits::NONE, |_| 5);
    hand.run();
    assert_eq!(plain.abort().unwrap_err().wait(), Ok(5));
}

#[test]
fn dropping_the_run_leaves_it_as_it_is() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let key = keyed.key("a").unwrap();
    let (go, gone) = promise::<&str>();
    drop(key.run_async(Limits::NONE, async move |log| log.push(gone.await.unwrap())));
    hand.run();
    go.keep("it ran");
    let log = key.start(Limits::NONE, |log| log.clone());
    hand.run();
    assert_eq!(log.wait(), Ok(vec!["it ran"]));
}

/// Panics when it is dropped.
struct Jams;

impl Drop for Jams {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("jammed"));
    }
}

#[test]
fn a_panic_hurts_one_run_and_its_state() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let key = keyed.key("a").unwrap();
    let seen = |run: Run<()>| {
        hand.run();
        hand.pass(MS);
        let next = key.start(Limits::NONE, |log| log.len());
        hand.run();
        (run.wait(), next.wait())
    };
    let panicked = |text: &str| (Err(RunError::Panicked(text.into())), Ok(0));
    let first_poll = key.run_async(Limits::NONE, async |log| {
        log.push("half");
        std::panic::resume_unwind(Box::new("first poll"))
    });
    assert_eq!(seen(first_poll), panicked("first poll"));
    let (go, gone) = promise::<()>();
    let later = key.run_async(lease(9 * MS), async move |log| {
        log.push("half");
        let _ = gone.await;
        std::panic::resume_unwind(Box::new("later"))
    });
    hand.run();
    go.keep(());
    assert_eq!(seen(later), panicked("later"));
    fn no_future(log: &mut Log) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        log.push("half");
        std::panic::resume_unwind(Box::new("before its future"))
    }
    let before = key.run_async(Limits::NONE, no_future);
    assert_eq!(seen(before), panicked("before its future"));
    let at_the_cut = key.run_async(lease(MS), async |log| {
        log.push("half");
        let _jams = Jams;
        pending::<()>().await;
    });
    assert_eq!(seen(at_the_cut), panicked("jammed"));
    let aborted = key.run_async(lease(9 * MS), async |log| {
        log.push("half");
        let _jams = Jams;
        pending::<()>().await;
    });
    hand.run();
    let aborted = aborted.abort().unwrap_err();
    assert_eq!(seen(aborted), (cut(Cut::Aborted), Ok(0)));
    assert!(hand.timers.is_empty());
}

#[test]
fn a_cut_drops_the_state_that_may_be_half_changed() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let key = keyed.key("a").unwrap();
    let whole = key.run_async(Limits::NONE, async |log| log.push("whole"));
    let half = key.run_async(lease(MS), async |log| {
        log.push("half");
        pending::<()>().await;
    });
    hand.run();
    hand.pass(MS);
    let log = key.start(Limits::NONE, |log| log.clone());
    hand.run();
    assert_eq!((whole.wait(), half.wait(), log.wait()), (Ok(()), cut(Cut::Lease), Ok(vec![])));
}

#[test]
fn nobody_left_to_wake_it_is_the_end_of_it() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let (go, gone) = promise::<()>();
    let kept = Arc::new(Mutex::new(None::<Waker>));
    let theirs = kept.clone();
    let run = keyed.run_async("a", Limits::NONE, async move |_| {
        poll_fn::<(), _>(|cx| {
            *theirs.lock().unwrap() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        drop(gone);
    });
    hand.run();
    assert!(!run.is_over());
    kept.lock().unwrap().take();
    hand.run();
    assert_eq!(run.wait(), cut(Cut::Abandoned));
    drop(go);
    assert!(keyed.is_empty());
}

#[test]
fn a_shutdown_waits_for_a_turn_that_waits_and_cuts_it_at_its_limit() {
    let keyed = Keyed::with_state(|_: &&str| Log::new());
    let (go, gone) = promise::<()>();
    let waits = keyed.run_async("a", Limits::NONE, async move |_| gone.await.unwrap());
    let behind = keyed.run_async("a", Limits::NONE, async |_| 1);
    let never = keyed.run_async("b", lease(Duration::from_secs(600)), async |_| {
        pending::<()>().await;
    });
    let unbegun = keyed.run_async("b", Limits::NONE, async |_| 2);
    let theirs = keyed.clone();
    let shutdown = thread::spawn(move || theirs.shutdown(100 * MS));
    until("it is closed", || keyed.key("a").is_err());
    go.keep(());
    let report = shutdown.join().unwrap();
    assert_eq!((waits.wait(), behind.wait()), (Ok(()), Ok(1)));
    assert_eq!((report.ended, report.stopped, report.running), (1, 1, 0));
    assert_eq!(never.wait(), cut(Cut::Aborted));
    assert!(matches!(unbegun.wait(), Err(RunError::Gone(_))));
    let closed = Err(RunError::NotStarted(NotStarted::Closed));
    assert_eq!(keyed.run_async("a", Limits::NONE, async |_| ()).wait(), closed);
    assert!(keyed.is_empty());
}

#[test]
fn a_registry_whose_handles_are_gone_lets_its_turns_end() {
    let hand = Hand::new();
    let keyed = hand.keyed();
    let (go, gone) = promise::<u32>();
    let run = keyed.run_async("a", Limits::NONE, async move |_| gone.await.unwrap());
    hand.run();
    drop(keyed);
    go.keep(7);
    hand.run();
    assert_eq!(run.wait(), Ok(7));
}

#[test]
fn a_key_stays_while_its_turn_waits_however_short_it_is_kept() {
    let hand = Hand::new();
    let state = |_: &&'static str| Log::default();
    let keyed = Keyed::builder().state(state).executor(hand.queue.handle());
    let keyed = keyed.timers(hand.timers.clone()).keep_alive(10 * MS).build();
    let (go, gone) = promise::<&str>();
    let used = keyed.start("a", Limits::NONE, |log| log.push("kept"));
    hand.run();
    used.wait().unwrap();
    let waits = keyed.run_async("a", Limits::NONE, async move |log| {
        log.push(gone.await.unwrap());
        log.clone()
    });
    hand.run();
    for _ in 0..5 {
        hand.pass(9 * MS);
        assert_eq!(keyed.len(), 1);
    }
    go.keep("waited");
    hand.run();
    assert_eq!(waits.wait(), Ok(vec!["kept", "waited"]));
    hand.pass(9 * MS);
    assert_eq!(keyed.len(), 1, "kept from the end of the turn on");
    hand.pass(MS);
    hand.ends("the key", || keyed.is_empty());
    assert_eq!(hand.timers.len(), 0);
}

#[test]
fn overruns_are_told_once_of_what_is_cut() {
    let (tell, told) = mpsc::channel();
    let (hand, pool) = (Hand::new(), ThreadPool::builder().threads(1).build().unwrap());
    let keyed = Keyed::builder()
        .executor(pool.handle())
        .timers(hand.timers.clone())
        .on_overrun(move |key: &&str, lease| tell.send((*key, lease)).unwrap())
        .build();
    let run = keyed.run_async("a", lease(5 * MS), async |()| pending::<()>().await);
    until("it waits", || hand.timers.len() == 2);
    hand.clock.advance(5 * MS);
    hand.timers.run_due();
    assert_eq!(run.wait(), cut(Cut::Lease));
    assert_eq!(told.recv(), Ok(("a", 5 * MS)));
    drop(keyed);
    assert!(told.recv().is_err(), "reported once");
}

#[test]
fn its_own_key_is_refused_inside_and_other_keys_are_awaited() {
    let keyed = Keyed::with_state(|_: &&str| Log::new());
    let theirs = keyed.clone();
    let run = keyed.run_async("a", Limits::NONE, async move |log| {
        let own = theirs.run_async("a", Limits::NONE, async |_| ()).await;
        assert!(matches!(own, Err(RunError::NotStarted(NotStarted::Deadlock(_)))), "{own:?}");
        let own = theirs.run("a", |_| ());
        assert!(matches!(own, Err(NotStarted::Deadlock(_))), "{own:?}");
        log.push("a");
        theirs.run_async("b", Limits::NONE, async |_| "b").await.unwrap()
    });
    assert_eq!(run.wait(), Ok("b"));
}

#[test]
fn blocking_runs_wait_for_a_turn_that_waits() {
    let keyed = Keyed::with_state(|_: &&str| Log::new());
    let a = keyed.key("a").unwrap();
    let (go, gone) = promise::<&str>();
    let waits = a.run_async(Limits::NONE, async move |log| log.push(gone.await.unwrap()));
    let late = keyed.run_all(["a", "b"], Limits::wait(2 * MS), |_| ());
    assert!(matches!(late, Err(RunError::NotStarted(NotStarted::TimedOut { .. }))));
    thread::scope(|scope| {
        let behind = scope.spawn(|| keyed.run("a", |log| log.clone()).unwrap());
        until("it waits", || keyed.info(&"a").unwrap().runs >= 2);
        go.keep("first");
        assert_eq!(behind.join().unwrap(), ["first"]);
    });
    waits.wait().unwrap();
}

#[test]
fn in_tokio_its_timers_and_tasks_are_there() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let tokio = Tokio::new(runtime.handle().clone());
    let keyed = Keyed::builder().default_state::<u32>().executor(tokio).build();
    let slow = keyed.run_async("slow", lease(20 * MS), async |_| {
        tokio::time::sleep(Duration::from_secs(600)).await;
    });
    let key = keyed.key("quick").unwrap();
    let sums = (1..=20).map(|n| {
        key.run_async(lease(Duration::from_secs(60)), async move |sum| {
            tokio::time::sleep(MS / 10).await;
            *sum += tokio::spawn(async move { n }).await.unwrap();
            *sum
        })
    });
    let sums: Vec<_> = sums.collect();
    runtime.block_on(async {
        let mut last = 0;
        for sum in sums {
            last = sum.await.unwrap();
        }
        assert_eq!(last, 210);
        assert_eq!(slow.await, cut(Cut::Lease));
        let after = keyed.run_async("slow", Limits::NONE, async |_| "goes on").await;
        assert_eq!(after, Ok("goes on"));
    });
}

#[test]
fn shapes_of_async_closures() {
    async fn method(log: &mut Log) -> usize {
        log.push("fn");
        log.len()
    }
    fn boxed(log: &mut Log) -> Pin<Box<dyn Future<Output = usize> + Send + '_>> {
        Box::pin(method(log))
    }
    let keyed = Keyed::with_state(|_: &String| Log::new());
    let key = keyed.key("a".to_string()).unwrap();
    assert_eq!(key.run_async(Limits::NONE, method).wait(), Ok(1));
    let boxed = key.run_async(Limits::NONE, boxed);
    assert_eq!(boxed.wait(), Ok(2));
    let captured = String::from("captured");
    let own = key.run_async(Limits::wait(MS), async move |log| (method(log).await, captured.len()));
    assert_eq!(own.wait(), Ok((3, 8)));
    let failed = key.run_async(Limits::NONE, async |_| Err::<u32, _>("its own error"));
    assert_eq!(failed.wait(), Ok(Err("its own error")));
}

/// The steps of a closure that waits, decided by a random number.
#[derive(Default)]
struct Books {
    done: AtomicUsize,
    panicked: AtomicUsize,
    cut: AtomicUsize,
    not_started: AtomicUsize,
    live: AtomicUsize,
    most: AtomicUsize,
}

/// A future that lives.
struct Alive(Arc<Books>);

impl Alive {
    fn new(books: &Arc<Books>) -> Self {
        let live = books.live.fetch_add(1, SeqCst) + 1;
        books.most.fetch_max(live, SeqCst);
        Alive(books.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, SeqCst);
    }
}

/// xorshift64*.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    seed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
}

#[test]
fn random_ends_and_the_books_balance() {
    let runs = if cfg!(miri) { 200 } else { 100_000 };
    let (hand, books) = (Hand::new(), Arc::<Books>::default());
    // The state says whether somebody of the key is inside.
    let keyed = Keyed::builder()
        .state(|_: &u64| false)
        .executor(hand.queue.handle())
        .timers(hand.timers.clone())
        .keep_alive(20 * MS)
        .build();
    let mut seed = 14;
    let mut open: Vec<(Run<u64>, Option<Promise<u64>>)> = Vec::new();
    let count = |outcome: Result<u64, RunError<u64>>| match outcome {
        Ok(_) | Err(RunError::Overran { .. }) => &books.done,
        Err(RunError::Panicked(_)) => &books.panicked,
        Err(RunError::Cut(_)) => &books.cut,
        Err(RunError::NotStarted(_) | RunError::Gone(_)) => &books.not_started,
        Err(error) => panic!("{error}"),
    };
    let mut dropped = 0;
    for _ in 0..runs {
        let (key, what) = (random(&mut seed) % 16, random(&mut seed) % 8);
        let limits = match random(&mut seed) % 4 {
            0 => Limits::NONE,
            1 => lease(3 * MS),
            2 => Limits::wait(2 * MS).lease(2 * MS),
            _ => Limits::wait(9 * MS),
        };
        let (go, gone): (Promise<u64>, Reply<u64>) = promise();
        let theirs = books.clone();
        let run = keyed.run_async(key, limits, async move |inside: &mut bool| {
            assert!(!*inside, "two of a key");
            *inside = true;
            let _alive = Alive::new(&theirs);
            let value = match what {
                0 => 0,
                1 => std::panic::resume_unwind(Box::new("at once")),
                2 => {
                    let _ = gone.await;
                    std::panic::resume_unwind(Box::new("later"))
                }
                3 => pending().await,
                _ => gone.await.unwrap_or(1),
            };
            *inside = false;
            value
        });
        if random(&mut seed) % 16 == 0 {
            drop(run);
            dropped += 1;
            go.keep(1);
        } else {
            open.push((run, Some(go)));
        }
        for _ in 0..2 {
            if open.is_empty() {
                break;
            }
            // The older ones rather than the newer.
            let at = random(&mut seed) as usize % open.len().min(40);
            let (mut run, mut go) = open.swap_remove(at);
            match random(&mut seed) % 6 {
                0 => go.take().into_iter().for_each(|go| go.keep(2)),
                1 => drop(go.take()),
                2 => match run.cancel() {
                    Ok(()) => {
                        books.not_started.fetch_add(1, SeqCst);
                        continue;
                    }
                    Err(begun) => run = begun,
                },
                3 => match run.abort() {
                    Ok(()) => {
                        books.not_started.fetch_add(1, SeqCst);
                        continue;
                    }
                    Err(begun) => run = begun,
                },
                4 => hand.pass(MS),
                _ => drop(hand.queue.run_one()),
            }
            match polled(&mut run) {
                Poll::Ready(outcome) => _ = count(outcome).fetch_add(1, SeqCst),
                Poll::Pending => open.push((run, go)),
            }
        }
    }
    // What is left ends by itself, or by hand.
    for (_, go) in &mut open {
        go.take().into_iter().for_each(|go| go.keep(3));
    }
    let mut left: Vec<_> = open.into_iter().map(|(run, _)| run).collect();
    let mut rounds = 0;
    while !left.is_empty() {
        hand.pass(MS);
        let mut still = Vec::new();
        for mut run in left {
            if run.is_over() {
                count(run.wait()).fetch_add(1, SeqCst);
                continue;
            }
            match polled(&mut run) {
                Poll::Ready(outcome) => _ = count(outcome).fetch_add(1, SeqCst),
                Poll::Pending => still.push(run),
            }
        }
        left = still;
        rounds += 1;
        assert!(rounds < 100_000, "{} wait for ever", left.len());
    }
    let (timers, queue) = (&hand.timers, &hand.queue);
    hand.ends("all keys, timers and drains", || {
        keyed.is_empty() && timers.is_empty() && queue.is_empty()
    });
    let [done, panicked, cut, not_started] =
        [&books.done, &books.panicked, &books.cut, &books.not_started].map(|n| n.load(SeqCst));
    assert_eq!(done + panicked + cut + not_started + dropped, runs);
    assert!([done, panicked, cut, not_started].iter().all(|&n| n > runs / 200));
    assert_eq!(books.live.load(SeqCst), 0, "a future is left");
    assert!(books.most.load(SeqCst) > 4, "keys wait beside each other");
    println!("done {done}, panicked {panicked}, cut {cut}, not started {not_started}");
}

#[test]
fn threads_leases_and_aborts_at_random() {
    let runs = if cfg!(miri) { 20 } else { 5_000 };
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    let books = Arc::<Books>::default();
    let keyed = Keyed::builder().default_state::<bool>().executor(pool.handle()).build();
    thread::scope(|scope| {
        for worker in 1..=4_u64 {
            let (keyed, books) = (&keyed, &books);
            scope.spawn(move || {
                let mut seed = worker;
                for _ in 0..runs {
                    let what = random(&mut seed) % 4;
                    let theirs = books.clone();
                    let time = Duration::from_micros(random(&mut seed) % 60 + 1);
                    let (go, gone) = promise::<()>();
                    let turn = async move |inside: &mut bool| {
                        assert!(!std::mem::replace(inside, true), "two of a key");
                        let _alive = Alive::new(&theirs);
                        match what {
                            0 => {}
                            1 => pending().await,
                            _ => gone.await.unwrap_or(()),
                        }
                        *inside = false;
                    };
                    let run = keyed.run_async(random(&mut seed) % 3, lease(time), turn);
                    if what == 2 {
                        go.keep(());
                    }
                    let run = match random(&mut seed) % 4 {
                        0 => run.abort(),
                        _ => Err(run),
                    };
                    let outcome = match run {
                        Ok(()) => &books.not_started,
                        Err(run) => match run.wait() {
                            Ok(()) | Err(RunError::Overran { .. }) => &books.done,
                            Err(RunError::Cut(_)) => &books.cut,
                            Err(error) => panic!("{error}"),
                        },
                    };
                    outcome.fetch_add(1, SeqCst);
                }
            });
        }
    });
    let [done, cut, not_started] =
        [&books.done, &books.cut, &books.not_started].map(|n| n.load(SeqCst));
    assert_eq!(done + cut + not_started, 4 * runs);
    assert_eq!(books.live.load(SeqCst), 0, "a future is left");
    until("all keys are gone", || keyed.is_empty());
    println!("done {done}, cut {cut}, not started {not_started}");
}

#[test]
fn futures_are_send_and_a_run_is_awaited_anywhere() {
    fn send<T: Send>(t: T) -> T {
        t
    }
    let keyed = Keyed::new();
    let mut run = pin!(send(keyed.run_async(1, Limits::NONE, async |()| 2)));
    let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Ok(2)));
}
