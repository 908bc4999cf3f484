//! WAITS-1 to WAITS-4: turns that wait for each other. Exactly one wait of a circle is refused, and
//! none without a circle.

use super::super::error::{AskError, Cycle, Reason};
use super::*;
use crate::sync::reached;

/// Returns the circle if a wait inside a turn was refused.
fn told<R>(answer: Result<R, AskError>) -> Option<Cycle> {
    match answer {
        Ok(_) => None,
        Err(AskError::Refused(Reason::Deadlock(cycle), _)) => Some(cycle),
        Err(error) => panic!("{error}"),
    }
}

/// Two actors, named `a` and `b`.
fn pair() -> [Shared; 2] {
    ["a", "b"].map(|name| Shared::built(|builder| builder.name(name)))
}

/// WAITS-2: two threads, each in a turn of one, that call the other. If both wait, the last wait is
/// refused.
pub(super) fn circle_of_two_threads() {
    let [a, b] = pair();
    let (there, back) = (b.clone(), a.clone());
    let thread = spawn(move || {
        let first = there.actor.clone();
        let cycle = told(first.with(|_| told(back.actor.with(|_| ()))));
        assert!(cycle.is_none());
    });
    let inside = b.actor.clone();
    let cycle = a.actor.with(|_| told(inside.with(|_| ()))).expect("it is not stopped");
    if let Some(cycle) = cycle {
        assert_eq!(cycle.actors(), ["a", "b"]);
        reached("told");
    }
    thread.join();
    drop(inside);
    a.finish();
    b.finish();
}

/// WAITS-2: two threads that ask each other by requests, of which the first has been refused before
/// it is repeated.
pub(super) fn circle_of_two_questions() {
    let [a, b] = pair();
    let (there, back) = (b.clone(), a.clone());
    let thread = spawn(move || {
        let first = there.actor.clone();
        let _ = first.with(|_| {
            if told(back.actor.call(|_| ()).wait()).is_some() {
                reached("the other was refused");
            }
        });
    });
    let inside = b.actor.clone();
    let _ = a.actor.with(|_| {
        if told(inside.call(|_| ()).wait()).is_some() {
            reached("was refused");
        }
    });
    thread.join();
    drop(inside);
    a.finish();
    b.finish();
}

/// WAITS-3: a closure that was lent has begun, and waits for its lender: that wait is refused,
/// whichever is the last.
pub(super) fn circle_with_a_loan_that_has_begun() {
    let [a, b] = pair();
    let (lender, there) = (a.actor.clone(), b.actor.clone());
    let thread = spawn(move || {
        let back = lender.clone();
        let inner = lender.with(|_| there.with(|_| told(back.call(|_| ()).wait())));
        let inner = inner.expect("it is not stopped").expect("a loan that has begun is waited for");
        let cycle = inner.expect("it waits for its lender");
        assert_eq!(cycle.actors(), ["b", "a"]);
    });
    assert!(b.actor.with(|_| ()).is_ok());
    thread.join();
    a.finish();
    b.finish();
}

/// WAITS-2: a wait that was answered is over, although its thread has not woken up.
pub(super) fn circle_of_what_is_over() {
    let [a, b] = pair();
    let (asker, asked) = (a.actor.clone(), b.actor.clone());
    let thread = spawn(move || {
        let (again, back) = (asked.clone(), asker.clone());
        let turn = asker.with(move |_| {
            let question = asked.call(move |_| {
                // In its mailbox, behind the request: it begins when that has been answered.
                let later = again.call(move |_| {
                    assert!(told(back.with(|_| ())).is_none(), "told of what is over");
                });
                drop(later);
            });
            told(question.wait())
        });
        assert!(turn.expect("it is not stopped").is_none());
    });
    assert!(b.actor.with(|_| ()).is_ok());
    thread.join();
    b.actor.idle().wait().expect("this thread is in no turn");
    a.finish();
    b.finish();
}

/// Pushes its drains, and then waits once for the actor.
struct Waits {
    queue: Arc<Queue>,
    asked: Mutex<Option<Arc<Actor<Log>>>>,
}

// SAFETY: loom's threads are coroutines of one thread.
unsafe impl Sync for Waits {}
// SAFETY: as for Sync.
unsafe impl Send for Waits {}

impl Executor for Waits {
    fn execute(&self, drain: Drain) {
        self.queue.push(drain);
        let asked = self.asked.lock().take();
        asked.into_iter().for_each(|asked| assert_eq!(asked.idle().wait(), Ok(())));
    }
}

/// CONTEXT-2: an executor that waits for an actor after it has passed its drain on, on the thread
/// that has just left the mailbox. That thread is inside no turn of the actor any more, and another
/// one runs what is left.
pub(super) fn circle_of_an_executor_that_waits() {
    let queue = Arc::new(Queue::default());
    let waits = Arc::new(Waits { queue: queue.clone(), asked: Mutex::new(None) });
    let executor = waits.clone();
    let shared = Shared::built(|builder| builder.budget(1).executor(executor));
    let shared = Shared { queue: Some(queue), ..shared };
    shared.send::<OWN>(0, 2);
    *waits.asked.lock() = Some(shared.actor.clone());
    let thread = shared.spawn(|shared| shared.queue().run_next());
    shared.queue().run_next();
    thread.join();
    assert_eq!(shared.books.handled.load(Relaxed), 2);
    shared.finish();
}
