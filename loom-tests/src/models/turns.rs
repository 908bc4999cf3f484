//! TURN-1 to TURN-3: suspended turns. The thread that wakes, cuts or loses one has its owner, once;
//! waiting messages come after it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use super::super::actor::Reply;
use super::super::cell::config::PanicPolicy;
use super::super::cell::settings::Overflow;
use super::super::error::{ActorName, AskError};
use super::super::executor::manual::DrainQueue;
use super::super::time::Limit;
use super::ending::counts_ends;
use super::room::{poll, wait_for};
use super::*;
use crate::sync::panic::Planned;
use crate::sync::reached;
use crate::sync::thread::{Thread, current, park};

/// The slot in which a turn leaves its waker; its lock does not order a wake before the poll.
struct Place {
    waker: Mutex<Option<Waker>>,
    bell: Condvar,
    /// Written before the wake, which alone orders it before the poll.
    done: Arc<Written>,
}

// SAFETY: loom's threads are coroutines of one thread, and a waker is Send.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Arc<Place> {
        let (waker, bell) = (Mutex::new(None), Condvar::new());
        Arc::new(Place { waker, bell, done: Written::new() })
    }

    /// Leaves its waker, and waits to be woken; a poll without that fails.
    async fn wait(&self) {
        let mut left = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut left, true) {
                assert!(self.done.read() > 0, "polled without a wake");
                return Poll::Ready(());
            }
            *self.waker.lock() = Some(cx.waker().clone());
            self.bell.notify_one();
            Poll::Pending
        })
        .await;
    }

    /// Returns the waker, as soon as it is there.
    fn waker(&self) -> Waker {
        let mut waker = self.waker.lock();
        loop {
            match waker.take() {
                Some(waker) => return waker,
                None => self.bell.wait(&mut waker),
            }
        }
    }

    fn wake(&self) {
        let waker = self.waker();
        self.done.write();
        waker.wake();
    }
}

impl Shared {
    /// An actor that may be left pending, with a capacity.
    fn by_hand_with_room(capacity: usize) -> Self {
        Shared::falling_back(|builder| {
            let builder = builder.capacity(capacity, Overflow::Reject);
            builder.budget(Budget::UNLIMITED)
        })
    }

    /// Sends a turn that waits there, then handles message `no` of `from`.
    fn turn(&self, from: usize, no: u32, place: &Arc<Place>) -> Reply<()> {
        let (mail, place) = (Mail::<OWN>::new(&self.books, from, no), place.clone());
        self.actor.run(async move |log: &mut Log| {
            let mail = mail;
            place.wait().await;
            log.handle(mail);
        })
    }

    /// Takes the answer, which has come: a turn that was not done was not run.
    fn answered(&self, mut reply: Reply<()>) -> Result<(), AskError> {
        let answer = reply.wait_by_ref(Limit::Immediate);
        let answer = answer.map(|answer| answer.expect("it is answered"));
        if answer.is_err() {
            add(&self.books.unrun);
        }
        answer
    }
}

/// WAKE and LAID: a wake comes while the turn runs, while its owner is being suspended, or later.
/// The poll sees what was done before.
pub(super) fn turn_woken() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let theirs = place.clone();
    let thread = spawn(move || theirs.wake());
    let reply = shared.turn(0, 1, &place);
    let waits = format!("{:?}", shared.actor).contains("a turn waits");
    reached(match (reply.is_ready(), waits) {
        (true, waits) => {
            assert!(!waits, "answered while it waits");
            "went on"
        }
        (false, true) => "waits",
        (false, false) => "was woken",
    });
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// TURN-1: of two wakes, one has the owner; the writes before either are seen.
pub(super) fn turn_woken_twice() {
    let (shared, place, other) = (Shared::by_hand(), Place::new(), Place::new());
    let (mine, theirs) = (place.clone(), other.clone());
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    let reply = shared.actor.run(async move |log: &mut Log| {
        let mail = mail;
        let mut left = false;
        poll_fn(|cx| {
            let wakers = [&mine, &theirs];
            if !std::mem::replace(&mut left, true) {
                for place in wakers {
                    *place.waker.lock() = Some(cx.waker().clone());
                }
                return Poll::Pending;
            }
            // Each looks under the lock, which says which one was.
            let woken = wakers.map(|place| place.waker.lock().is_none());
            assert!(woken.contains(&true), "polled without a wake");
            if woken == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        log.handle(mail);
    });
    let thread = spawn(move || {
        let waker = other.waker();
        waker.wake_by_ref();
        drop(waker);
    });
    place.waker().wake();
    shared.queue().run_all();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// TURN-1, and the private list: a sender leaves messages while the turn waits. They come after it,
/// in order.
pub(super) fn turn_sent_to() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    shared.send_one::<OWN>(0, 2);
    let thread = shared.spawn(|shared| shared.send_one::<OWN>(1, 1));
    place.wake();
    if shared.run_one() {
        reached("run by main");
    }
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    assert_eq!(shared.books.handled.load(Relaxed), 3);
    shared.finish();
}

/// TURN-3: a stop comes before the turn, while it runs, or while its owner is being suspended.
/// Nothing wakes it: it is still cut.
pub(super) fn turn_stopped() {
    let mut ends = None;
    let shared = Shared::falling_back(|builder| {
        let (builder, counted) = counts_ends(builder);
        ends = Some(counted);
        builder.budget(Budget::UNLIMITED)
    });
    let place = Place::new();
    let thread = shared.spawn(|shared| {
        shared.actor.stop();
    });
    let reply = shared.turn(0, 1, &place);
    thread.join();
    shared.queue().run_all();
    match shared.answered(reply) {
        Err(AskError::Aborted(_)) => reached("cut"),
        Err(AskError::Refused(_, _)) => reached("not begun"),
        answer => panic!("it was not woken: {answer:?}"),
    }
    drop(place.waker.lock().take());
    shared.finish_ended(&ends.expect("built"));
}

/// TURN-1: an abort against a wake. One of them has the owner; the turn ends once.
pub(super) fn turn_aborted() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let (reply, abort) = shared.actor.run_abortable(async move |log: &mut Log| {
        let mail = mail;
        mine.wait().await;
        log.handle(mail);
    });
    shared.send_one::<OWN>(0, 2);
    let thread = spawn(move || abort.abort());
    place.wake();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    match shared.answered(reply) {
        Ok(()) => reached("done"),
        Err(AskError::Aborted(_)) => reached("cut"),
        answer => panic!("{answer:?}"),
    }
    shared.finish();
}

/// TURN-1: an abort before the turn, while it runs, or while its owner is being suspended, with no
/// waker.
pub(super) fn turn_aborted_as_it_lies_down() {
    let (shared, place) = (Shared::carried(256), Place::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let (reply, abort) = shared.actor.run_abortable(async move |log: &mut Log| {
        let mail = mail;
        mine.wait().await;
        log.handle(mail);
    });
    let thread = spawn(move || abort.abort());
    shared.queue().run_all();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Err(AskError::Aborted(ActorName::ANY)));
    drop(place.waker.lock().take());
    shared.finish();
}

/// The last waker is dropped while the owner is being suspended, or later: the turn cannot be
/// woken, and is answered.
pub(super) fn turn_lost() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let theirs = place.clone();
    let thread = spawn(move || drop(theirs.waker()));
    let reply = shared.turn(0, 1, &place);
    reached(if reply.is_ready() { "lost at once" } else { "lay down" });
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Err(AskError::Abandoned(ActorName::ANY)));
    shared.finish();
}

/// One waker is dropped, the other wakes: the turn is not lost.
pub(super) fn turn_woken_by_one_of_two() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    let waker = place.waker();
    let other = waker.clone();
    let thread = spawn(move || drop(other));
    place.done.write();
    waker.wake();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// LAST: the turn is over; its waker, its abort handle, its reply and its actor are dropped in any
/// order.
pub(super) fn turn_memory() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let (reply, abort) = shared.actor.run_abortable(async move |log: &mut Log| {
        let mail = mail;
        poll_fn(|cx| {
            *mine.waker.lock() = Some(cx.waker().clone());
            mine.bell.notify_one();
            Poll::Ready(())
        })
        .await;
        log.handle(mail);
    });
    assert!(reply.is_ready());
    let theirs = place.clone();
    let late = spawn(move || theirs.waker().wake());
    let aborts = spawn(move || abort.abort());
    drop(reply);
    shared.finish();
    late.join();
    aborts.join();
}

/// The last handle is dropped while the turn waits: the turn goes on, and the actor ends after it.
pub(super) fn turn_outlives_its_handles() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    let theirs = place.clone();
    let thread = spawn(move || theirs.wake());
    let Shared { actor, books, queue } = shared;
    drop(Arc::into_inner(actor).expect("main is the last"));
    thread.join();
    queue.expect("it has an executor").run_all();
    assert!(reply.is_ready());
    books.balance();
}

/// A close while the turn waits lets it go on.
pub(super) fn turn_closed() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    let thread = shared.spawn(|shared| {
        shared.actor.close();
    });
    place.wake();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// ONESHOT-1: a turn that waits in the mailbox is cancelled against its beginning.
pub(super) fn turn_cancelled() {
    let shared = Shared::by_hand();
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    let reply = shared.actor.posted().run(async move |log: &mut Log| log.handle(mail));
    let thread = shared.spawn(|shared| {
        shared.run_one();
    });
    match reply.cancel() {
        Ok(()) => {
            reached("cancelled");
            add(&shared.books.unrun);
            thread.join();
        }
        Err(reply) => {
            reached("begun");
            thread.join();
            assert_eq!(shared.answered(reply), Ok(()));
        }
    }
    shared.finish();
}

/// A sender waits for room while the turn waits: it gets the next free place.
pub(super) fn turn_in_a_full_mailbox() {
    let shared = Shared::falling_back(|builder| {
        let builder = builder.capacity(1, Overflow::Reject);
        builder.budget(Budget::UNLIMITED)
    });
    let place = Place::new();
    let reply = shared.turn(0, 1, &place);
    shared.send_one::<OWN>(0, 2);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        shared.actor.waiting().send(mail.message()).wait().expect("it is open");
    });
    place.wake();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    assert_eq!(shared.books.handled.load(Relaxed), 3);
    shared.finish();
}

/// A future whose content exists after its panic.
struct Blows {
    wait: Pin<Box<dyn Future<Output = ()> + Send>>,
    _mail: Mail<OWN>,
}

impl Future for Blows {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        std::task::ready!(self.wait.as_mut().poll(cx));
        Planned::panic()
    }
}

/// A panic after the wait: the future is gone before the actor goes on.
pub(super) fn turn_panics() {
    let shared = Shared::falling_back(|builder| {
        let builder = builder.panic_policy(PanicPolicy::Resume);
        builder.budget(Budget::UNLIMITED)
    });
    let place = Place::new();
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let reply = shared.actor.run(move |_: &mut Log| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let wait = Box::pin(async move { mine.wait().await });
        Box::pin(Blows { wait, _mail: mail })
    });
    shared.send_one::<OWN>(0, 2);
    let theirs = place.clone();
    let thread = spawn(move || theirs.wake());
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert!(matches!(shared.answered(reply), Err(AskError::Panicked(_))));
    shared.finish();
}

/// The batch of a turn is open until the turn is over: the hook is not called while it waits.
pub(super) fn turn_in_a_batch() {
    let (ends, turns) = (Written::new(), Arc::new(AtomicU32::new(0)));
    let (end, counted) = (ends.clone(), turns.clone());
    let shared = Shared::falling_back(|builder| {
        let builder = builder.on_batch_end(move |_, turns| {
            end.write();
            counted.fetch_add(turns as u32, Relaxed);
        });
        builder.budget(Budget::UNLIMITED)
    });
    let place = Place::new();
    let (mail, mine, seen) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone(), ends.clone());
    let reply = shared.actor.run(async move |log: &mut Log| {
        let mail = mail;
        let before = seen.read();
        mine.wait().await;
        assert_eq!(seen.read(), before, "a batch ended while its turn waited");
        log.handle(mail);
    });
    let theirs = place.clone();
    let thread = spawn(move || theirs.wake());
    shared.send_one::<OWN>(0, 2);
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.actor.with(|_| ()).expect("open");
    assert_eq!(turns.load(Relaxed), 3, "each turn is in a batch that ends");
    shared.finish();
}

/// A wake from inside another actor's turn: the mailbox goes on that thread's list, and is run when
/// the turn is over, or by another thread before.
pub(super) fn turn_woken_in_a_turn() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    let other = Actor::new(());
    let thread = shared.spawn(|shared| {
        shared.actor.with(|_| ()).expect("open");
    });
    let theirs = place.clone();
    other.send(move |()| theirs.wake()).expect("open");
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// TURN-1, twice: a turn waits at one place, then at another. A wake is for the wait that it
/// reaches, and no poll comes without one.
pub(super) fn turn_waits_twice() {
    let (shared, first, second) = (Shared::by_hand(), Place::new(), Place::new());
    let (mail, one, two) = (Mail::<OWN>::new(&shared.books, 0, 1), first.clone(), second.clone());
    let (at_first, at_second) = (first.clone(), second.clone());
    let thread = shared.spawn(move |shared| {
        at_first.wake();
        shared.queue().run_all();
        at_second.wake();
    });
    let reply = shared.actor.run(async move |log: &mut Log| {
        let mail = mail;
        one.wait().await;
        two.wait().await;
        log.handle(mail);
    });
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// The saved list, and COUNT: messages taken with the turn wait in its owner's list, others arrive.
/// The turn's node is before all of them.
pub(super) fn turn_before_a_saved_list() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let reply = shared.actor.posted().run(async move |log: &mut Log| {
        let mail = mail;
        mine.wait().await;
        log.handle(mail);
    });
    assert!(shared.leave::<OWN>(0, 2));
    assert!(shared.leave::<OWN>(0, 3));
    shared.run_one();
    assert_eq!(shared.books.handled.load(Relaxed), 0);
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 2));
    place.wake();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    assert_eq!(shared.books.handled.load(Relaxed), 5);
    shared.finish();
}

/// An actor that only its executor runs: a wake makes a drain run it, and a sender pushes
/// meanwhile.
pub(super) fn turn_carried() {
    let (shared, place) = (Shared::carried(256), Place::new());
    let reply = shared.turn(0, 1, &place);
    shared.run_one();
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 2);
        shared.run_one();
    });
    place.wake();
    if shared.run_one() {
        reached("run by main");
    }
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    assert_eq!(shared.books.handled.load(Relaxed), 3);
    shared.finish();
}

/// The drain that a wake has handed to the executor is dropped there: the turn is cut, and all are
/// answered.
pub(super) fn turn_of_a_dropped_drain() {
    let (shared, place) = (Shared::carried(256), Place::new());
    let reply = shared.turn(0, 1, &place);
    shared.run_one();
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    place.wake();
    drop(shared.queue().take());
    thread.join();
    while let Some(drain) = shared.queue().take() {
        drop(drain);
    }
    assert_eq!(shared.answered(reply), Err(AskError::Aborted(ActorName::ANY)));
    assert!(shared.actor.is_closed());
    shared.finish();
}

/// ENROLL: a queue ends while a turn of its actor runs, is about to be suspended, or is. The turn
/// is cut, and messages behind it are given back.
pub(super) fn turn_at_the_end_of_its_queue() {
    let queue = std::sync::Arc::new(DrainQueue::new());
    let shared = Shared::built(|builder| builder.executor(queue.handle()));
    let place = Place::new();
    let reply = shared.turn(0, 1, &place);
    shared.send_one::<OWN>(0, 2);
    let theirs = queue.clone();
    let thread = spawn(move || theirs.close());
    queue.run_one();
    thread.join();
    queue.run_until_idle();
    assert!(reply.is_ready(), "none is answered");
    drop(place.waker.lock().take());
    assert_eq!(shared.answered(reply), Err(AskError::Aborted(ActorName::ANY)));
    assert!(shared.actor.is_closed());
    shared.finish();
}

/// ENROLL, of an actor that has enrolled before: it checks its executor, or is found there.
pub(super) fn second_turn_at_the_end_of_its_queue() {
    let queue = std::sync::Arc::new(DrainQueue::new());
    let shared = Shared::built(|builder| builder.executor(queue.handle()));
    let (first, place) = (Place::new(), Place::new());
    let reply = shared.turn(0, 1, &first);
    queue.run_one();
    first.wake();
    queue.run_one();
    assert_eq!(shared.answered(reply), Ok(()));
    let reply = shared.turn(0, 2, &place);
    let theirs = queue.clone();
    let thread = shared.spawn(move |shared| {
        reached(if format!("{:?}", shared.actor).contains("a turn waits") {
            "suspended"
        } else {
            "cut"
        });
        theirs.close();
    });
    queue.run_one();
    thread.join();
    queue.run_until_idle();
    assert!(reply.is_ready(), "none is answered");
    drop(place.waker.lock().take());
    assert_eq!(shared.answered(reply), Err(AskError::Aborted(ActorName::ANY)));
    assert!(shared.actor.is_closed());
    shared.finish();
}

/// TURN-1: a stop against a wake. Whichever has the owner, the turn ends once.
pub(super) fn turn_stopped_or_woken() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    let thread = shared.spawn(|shared| {
        shared.actor.stop();
    });
    place.wake();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    match shared.answered(reply) {
        Ok(()) => reached("done"),
        Err(AskError::Aborted(_)) => reached("cut"),
        answer => panic!("{answer:?}"),
    }
    assert!(shared.actor.is_closed());
    shared.finish();
}

/// TURN-1: an abort against a stop. One of them has the owner.
pub(super) fn turn_aborted_and_stopped() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let (reply, abort) = shared.actor.run_abortable(async move |log: &mut Log| {
        let mail = mail;
        mine.wait().await;
        log.handle(mail);
    });
    shared.send_one::<OWN>(0, 2);
    let thread = shared.spawn(|shared| {
        shared.actor.stop();
    });
    abort.abort();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Err(AskError::Aborted(ActorName::ANY)));
    drop(place.waker.lock().take());
    shared.finish();
}

/// Records its drop.
struct Gone(Arc<Written>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.write();
    }
}

/// An asker of a turn that was cut sees the writes of its destructors.
pub(super) fn turn_dropped_before_its_answer() {
    let (shared, place, written) = (Shared::by_hand(), Place::new(), Written::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let gone = Gone(written.clone());
    let (mut reply, abort) = shared.actor.run_abortable(async move |log: &mut Log| {
        let (mail, _gone) = (mail, gone);
        mine.wait().await;
        log.handle(mail);
    });
    let thread = shared.spawn(|shared| {
        shared.run_one();
    });
    abort.abort();
    if reply.is_ready() {
        assert_eq!(written.read(), 1, "answered before its future was dropped");
        reached("answered meanwhile");
    }
    thread.join();
    shared.queue().run_all();
    let answer = reply.wait_by_ref(Limit::Immediate).map(|answer| answer.expect("answered"));
    assert_eq!(answer, Err(AskError::Aborted(ActorName::ANY)));
    add(&shared.books.unrun);
    drop(place.waker.lock().take());
    shared.finish();
}

/// A future whose content exists after it is done.
struct Leaves {
    wait: Pin<Box<dyn Future<Output = ()> + Send>>,
    _mail: Mail<OWN>,
}

impl Future for Leaves {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.wait.as_mut().poll(cx)
    }
}

/// LEAVE: the reply is dropped while the turn waits, or while it is answered. The turn goes on, and
/// its future is dropped when it is done.
pub(super) fn turn_without_its_reply() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let reply = shared.actor.run(move |_: &mut Log| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let wait = Box::pin(async move { mine.wait().await });
        Box::pin(Leaves { wait, _mail: mail })
    });
    let thread = spawn(move || drop(reply));
    place.wake();
    shared.run_one();
    thread.join();
    shared.queue().run_all();
    add(&shared.books.unrun); // it is never handled
    shared.finish();
}

/// The answer of a suspended turn wakes its asker, which sleeps.
pub(super) fn turn_asked_for() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    let theirs = place.clone();
    let thread = shared.spawn(move |shared| {
        theirs.wake();
        shared.queue().run_all();
    });
    assert_eq!(reply.wait(), Ok(()));
    thread.join();
    shared.finish();
}

/// A turn that may wait, sent from another actor's turn: this thread's list runs it, and later
/// messages stay behind it.
pub(super) fn turn_begun_by_a_list() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let (mail, mine) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let (other, theirs) = (Actor::new(()), shared.clone());
    let kept = Arc::new(Mutex::new(None));
    let answer = kept.clone();
    let send = move |(): &mut ()| {
        *answer.lock() = Some(theirs.actor.run(async move |log: &mut Log| {
            let mail = mail;
            mine.wait().await;
            log.handle(mail);
        }));
    };
    let thread = shared.spawn(|shared| shared.send_one::<OWN>(1, 1));
    other.send(send).expect("open");
    place.wake();
    thread.join();
    shared.queue().run_all();
    let reply = kept.lock().take().expect("the turn was sent");
    assert_eq!(shared.answered(reply), Ok(()));
    assert_eq!(shared.books.handled.load(Relaxed), 2);
    shared.finish();
}

/// Places while a turn waits: earlier turns are settled, so there is room for exactly the capacity.
pub(super) fn turn_leaves_room() {
    let (shared, place) = (Shared::by_hand_with_room(1), Place::new());
    let (itself, mine) = (shared.clone(), place.clone());
    let kept = Arc::new(Mutex::new(None));
    let answer = kept.clone();
    let first = move |_: &mut Log| *answer.lock() = Some(itself.turn(0, 1, &mine));
    assert!(shared.actor.send(first).is_ok());
    let thread = shared.spawn(|shared| shared.send_one::<OWN>(1, 1));
    shared.send_one::<OWN>(0, 2);
    thread.join();
    assert_eq!(shared.books.returned.load(Relaxed), 1, "there was room for one");
    place.wake();
    shared.queue().run_all();
    let reply = kept.lock().take().expect("the turn was sent");
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// ROOM-1: a turn that goes on holds no permit, so a mailbox without other messages has room
/// between the wake and the poll.
pub(super) fn turn_woken_takes_no_place() {
    let (shared, place) = (Shared::by_hand_with_room(1), Place::new());
    let reply = shared.turn(0, 1, &place);
    let theirs = place.clone();
    let thread = shared.spawn(move |_| theirs.wake());
    shared.send_one::<OWN>(1, 1);
    assert_eq!(shared.books.returned.load(Relaxed), 0, "full, and nothing waits");
    thread.join();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// ROOM-1: a turn that goes on gives no permit back either, so no newcomer comes before the sender
/// that waits for room.
pub(super) fn turn_beside_a_waiter() {
    let (shared, place) = (Shared::by_hand_with_room(1), Place::new());
    let reply = shared.turn(0, 1, &place);
    shared.send_one::<OWN>(2, 1);
    let mut waits = shared.actor.waiting().send(shared.after(2, 1, 1));
    assert!(poll(&mut waits).is_pending());
    let thread = shared.spawn(|shared| shared.newcomer(1));
    place.wake();
    shared.queue().run_all();
    assert!(wait_for(waits).is_ok());
    thread.join();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// ROOM-5: a mailbox is closed while its turn waits and its one permit is held: a sender that waits
/// for room, or is about to, has its message back before the turn goes on.
pub(super) fn turn_keeps_no_waiter() {
    let (shared, place) = (Shared::by_hand_with_room(1), Place::new());
    let reply = shared.turn(0, 1, &place);
    shared.send_one::<OWN>(2, 1);
    let thread = shared.spawn(|shared| assert!(shared.actor.close()));
    let mail = Mail::<OWN>::new(&shared.books, 1, 1);
    let refused = wait_for(shared.actor.waiting().send(mail.message())).map_err(|_| ());
    assert_eq!(refused, Err(()), "there is no room");
    add(&shared.books.returned);
    thread.join();
    place.wake();
    shared.queue().run_all();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// A waker whose drop runs another actor.
struct Errand(Shared, Thread);

impl Wake for Errand {
    fn wake(self: Arc<Self>) {
        self.1.unpark();
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if self.0.run_one() {
            reached("ran another");
        }
    }
}

/// ROOM-2, ENVELOPE-5: a turn that may wait begins to wait for room, by a waker whose drop runs
/// another actor that has had such a turn: neither takes the other's turn for its own.
pub(super) fn turn_that_waits_for_room() {
    let (shared, place) = (Shared::by_hand_with_room(1), Place::new());
    let other = Shared::queued(|builder| builder.budget(Budget::UNLIMITED));
    let before = other.actor.run(async |_: &mut Log| ());
    other.queue().run_all();
    drop(before);
    assert!(other.leave::<OWN>(1, 1) && shared.leave::<OWN>(2, 1));
    let (mail, theirs) = (Mail::<OWN>::new(&shared.books, 0, 1), place.clone());
    let mut asking = shared.actor.waiting().run(async move |log: &mut Log| {
        let mail = mail;
        theirs.wait().await;
        log.handle(mail);
    });
    let errand = Waker::from(Arc::new(Errand(other.clone(), current())));
    let polled = Pin::new(&mut asking).poll(&mut Context::from_waker(&errand));
    drop(errand);
    assert!(polled.is_pending());
    // Main keeps the place: loom does not see the order that the count around it makes.
    let theirs = place.clone();
    let thread = shared.spawn(move |shared| {
        shared.queue().run_all();
        theirs.wake();
        shared.queue().run_all();
    });
    assert_eq!(wait_for(asking), Ok(()));
    thread.join();
    drop(place);
    other.finish();
    shared.finish();
}

/// A caller that arrives while the turn waits runs nothing; it has the state after it.
pub(super) fn turn_and_a_caller() {
    let (shared, place) = (Shared::by_hand(), Place::new());
    let reply = shared.turn(0, 1, &place);
    let theirs = place.clone();
    let thread = shared.spawn(move |shared| {
        theirs.wake();
        shared.queue().run_all();
    });
    assert_eq!(shared.actor.with(|log| log.last[0]), Ok(1));
    thread.join();
    assert_eq!(shared.answered(reply), Ok(()));
    shared.finish();
}

/// MAILBOX-9 and WAKE: a turn on top of another one is woken already at an await, and then waits
/// for what it has sent. Its drain hands the list of its thread off before it polls it again. The
/// thread that runs the list wakes the turn meanwhile.
pub(super) fn turn_hands_its_list_off() {
    let (outer, first, second) = (Shared::new(), Shared::by_hand(), Shared::by_hand());
    let place = Place::new();
    let (mail, next) =
        (Mail::<OWN>::new(&first.books, 0, 1), Mail::<OWN>::new(&second.books, 0, 1));
    let (main, theirs, mine) = (current(), place.clone(), place.clone());
    let message = move |log: &mut Log| {
        log.handle(next);
        main.unpark();
        let waker = theirs.waker.lock().take();
        waker.expect("left before it was sent").wake();
    };
    let (inner, on) = (first.clone(), second.clone());
    let thread = second.spawn(|second| {
        second.queue().run_next();
        second.queue().run_all();
    });
    let turn = async move |log: &mut Log| {
        let (mail, mut message) = (mail, Some(message));
        let mut waited = false;
        poll_fn(move |cx| {
            if let Some(message) = message.take() {
                *mine.waker.lock() = Some(cx.waker().clone());
                assert!(on.actor.send(message).is_ok());
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !std::mem::replace(&mut waited, true) {
                park();
            }
            if mine.waker.lock().is_some() {
                reached("waited");
                return Poll::Pending;
            }
            reached("went on");
            Poll::Ready(())
        })
        .await;
        log.handle(mail);
    };
    assert_eq!(outer.actor.with(|_| inner.actor.run(turn).wait()), Ok(Ok(())));
    thread.join();
    drop(place);
    drop(inner);
    outer.finish();
    first.finish();
    second.finish();
}
