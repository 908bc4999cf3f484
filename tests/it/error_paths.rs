//! Errors instead of panics, hangs and losses.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::child::in_child;
use crate::common::{Held, Tally, quiet_panic};
use crate::verbs::{is_full, poll_once, post, resuming, wait_for};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Context, Executor, Handler, Overflow, Recipient, ThreadPool};

const PATIENCE: Duration = Duration::from_secs(30);

/// An answer that no asker wants, and that panics when it is dropped.
struct Unwanted;

impl Drop for Unwanted {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            quiet_panic("the drop of an answer");
        }
    }
}

struct Question;

#[derive(Default)]
struct Oracle {
    asked: usize,
}

impl Handler<Question> for Oracle {
    type Reply = Unwanted;

    fn handle(&mut self, _: Question, _: &mut Context<'_, Self>) -> Unwanted {
        self.asked += 1;
        Unwanted
    }
}

/// A panic in the drop of an answer that no asker wanted reached the sender of `tell`.
#[test]
fn unwanted_answer_hurts_no_sender() {
    let oracle = resuming(Actor::builder()).spawn(Oracle::default()).unwrap();
    let told = catch_unwind(AssertUnwindSafe(|| oracle.tell(Question).is_ok()));
    assert!(matches!(told, Ok(true)), "the drop of an answer has panicked in its sender's call");
    assert_eq!(oracle.with(|oracle| oracle.asked), Ok(1));
}

/// Inside a turn of another actor, and by a recipient.
#[test]
fn unwanted_answer_hurts_no_other_turn() {
    let oracle = resuming(Actor::builder()).spawn(Oracle::default()).unwrap();
    let other = Actor::new(0);
    let told = catch_unwind(AssertUnwindSafe(|| {
        let oracle = oracle.clone();
        other.send(move |turns| {
            Recipient::new(&oracle).tell(Question).unwrap();
            *turns += 1;
        })
    }));
    assert!(matches!(told, Ok(Ok(()))), "the drop of an answer has panicked in its sender's call");
    assert_eq!(other.with(|turns| *turns), Ok(1));
    assert_eq!(oracle.with(|oracle| oracle.asked), Ok(1));
}

/// The asker has left its reply, and the answer comes later.
#[test]
fn answer_to_nobody_hurts_nobody() {
    let n = resuming(Actor::builder()).spawn(0).unwrap();
    let held = Held::hold(&n);
    drop(n.call(|n: &mut i32| {
        *n += 1;
        Unwanted
    }));
    n.send(|n| *n += 1).unwrap();
    held.let_go();
    assert_eq!(n.with(|n| *n), Ok(2));
}

/// At a full mailbox whose executor never runs, `ask` reported that it is full, and `with` ran its
/// waiting messages.
#[test]
fn with_and_ask_agree_at_a_full_mailbox() {
    in_child("with_and_ask_agree_at_a_full_mailbox", PATIENCE, || {
        let queue = DrainQueue::new();
        let n = Actor::builder()
            .capacity(1, Overflow::Reject)
            .executor(queue.handle())
            .spawn(0)
            .unwrap();
        n.send(|n| *n += 1).unwrap();
        let asked = n.call(|n| *n).wait();
        let with = n.with(|n| *n);
        assert!(asked.as_ref().is_err_and(is_full), "ask: {asked:?}");
        assert!(with.as_ref().is_err_and(is_full), "with: {with:?}, but ask: {asked:?}");
    });
}

/// A finished reply that was polled again panicked.
#[test]
fn finished_reply_may_be_polled_again() {
    let n = Actor::new(1);
    let mut reply = n.call(|n| *n);
    assert!(poll_once(&mut reply).is_ready());
    let again =
        catch_unwind(AssertUnwindSafe(|| poll_once(&mut reply).map(|answer| answer.is_err())));
    assert!(again.is_ok_and(|again| again == std::task::Poll::Ready(true)), "an error, no panic");
}

/// Waited for, after a poll that took the answer.
#[test]
fn finished_reply_may_be_waited_for() {
    let n = Actor::new(1);
    for wait in [
        (|reply| reply.wait().is_err()) as fn(turnwise::Reply<i32>) -> bool,
        |reply| wait_for(reply, Duration::ZERO).is_ok_and(|answer| answer.is_err()),
        |reply| !crate::verbs::withdrawn_after(reply, Duration::from_millis(1)),
    ] {
        let mut reply = n.call(|n| *n);
        assert!(poll_once(&mut reply).is_ready());
        let waited = catch_unwind(AssertUnwindSafe(|| wait(reply)));
        assert!(matches!(waited, Ok(true)), "an error, no panic: {:?}", waited.is_err());
    }
}

/// A thread name with a NUL panicked.
#[test]
fn thread_name_with_a_nul_is_an_error() {
    let build = || ThreadPool::builder().threads(1).thread_name("a\0b").build().is_err();
    assert!(catch_unwind(build).is_ok_and(|refused| refused), "an error, no panic");
}

/// Checks that the first message after the end of an executor is refused, or run by some thread.
#[track_caller]
fn first_message_is_not_lost(executor: impl Executor + Clone + 'static) {
    let tally = Tally::default();
    for send in [
        (|n, tally| {
            let token = tally.token();
            n.send(move |_| token.handle()).is_ok()
        }) as fn(&Actor<()>, &Tally) -> bool,
        |n, tally| {
            let token = tally.token();
            post(n, move |_| token.handle())
        },
        |n, tally| {
            let token = tally.token();
            n.send_many([move |_: &mut ()| token.handle()]).is_ok()
        },
    ] {
        let handled = tally.handled();
        let n = Actor::builder().executor(executor.clone()).spawn(()).unwrap();
        if send(&n, &tally) {
            let begun = Instant::now();
            while tally.handled() == handled && begun.elapsed() < Duration::from_secs(2) {
                std::thread::yield_now();
            }
            assert_eq!(tally.handled(), handled + 1, "accepted, and lost");
        }
    }
    tally.check();
}

/// The first `send` after the pool had gone returned `Ok`, and the message was lost.
#[test]
fn first_send_to_a_gone_pool_is_not_lost() {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let handle = pool.handle();
    assert!(pool.shutdown(PATIENCE).is_complete());
    first_message_is_not_lost(handle);
}

/// After the queue had gone.
#[test]
fn first_send_to_a_gone_queue_is_not_lost() {
    let queue = DrainQueue::new();
    let handle = queue.handle();
    drop(queue);
    first_message_is_not_lost(handle);
}

/// After the runtime had gone.
#[cfg(feature = "tokio")]
#[test]
fn first_send_to_a_gone_runtime_is_not_lost() {
    use turnwise::executor::Tokio;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let executors = [Tokio::new, Tokio::for_blocking].map(|make| make(runtime.handle().clone()));
    runtime.shutdown_timeout(PATIENCE);
    executors.into_iter().for_each(first_message_is_not_lost);
}

/// Control: the answer of a reply that is never read is dropped once.
#[test]
fn reply_that_nobody_looks_at_is_counted() {
    let (n, drops) = (Actor::new(()), Arc::new(AtomicUsize::new(0)));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let answer = Counted(drops.clone());
    drop(n.call(move |()| answer));
    assert_eq!(drops.load(SeqCst), 1);
}

/// `bank > /dev/full` reported success.
// One profile is enough.
#[cfg(all(target_os = "linux", debug_assertions))]
#[test]
fn bank_reports_a_full_disk() {
    // `cargo test` has built it beside this program; otherwise cargo does it here.
    let here = std::env::current_exe().unwrap();
    let built = here.ancestors().nth(2).unwrap().join("examples/bank");
    for options in [&["--rounds", "1", "--transfers", "100"][..], &["--help"]] {
        let mut bank = if built.exists() {
            std::process::Command::new(&built)
        } else {
            let mut cargo = std::process::Command::new(env!("CARGO"));
            cargo.args(["run", "--quiet", "--example", "bank", "--"]);
            cargo
        };
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = bank
            .args(options)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdout(full)
            .status()
            .unwrap();
        assert!(!status.success(), "bank {options:?} has shown nothing, and exits with 0");
    }
}
