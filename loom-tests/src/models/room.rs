//! Full mailboxes: waiting for room (ROOM-1 to ROOM-5).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use super::super::actor::WaitError;
use super::super::cell::settings::Overflow;
use super::super::error::{Reason, StopCause};
use super::super::time::Limit;
use super::clock::{LIMIT, Steps};
use super::scheduled::in_turn;
use super::*;
use crate::sync::panic::Planned;
use crate::sync::reached;
use crate::sync::thread::{Thread, current, handles, park};

impl Shared {
    fn small(overflow: Overflow) -> Self {
        Shared::built(|builder| builder.capacity(1, overflow))
    }

    /// Runs a turn during which the one place is taken.
    fn fill(&self) {
        self.fill_and(|_| ());
    }

    /// Does the same, and then runs `also` in that turn.
    fn fill_and(&self, also: impl FnOnce(&Actor<Log>) + Send + 'static) {
        let (inside, mail) = (self.clone(), Mail::<OWN>::new(&self.books, 0, 1));
        let filled = self.actor.send(move |log: &mut Log| {
            log.handle(mail);
            let second = Mail::<OWN>::new(&inside.books, 0, 2);
            match inside.actor.send(second.message()) {
                Ok(()) => {}
                Err(_) => add(&inside.books.returned),
            }
            also(&inside.actor);
        });
        if filled.is_err() {
            add(&self.books.returned);
        }
    }
}

/// ROOM-1: the owner admits a waiting sender, whether it comes before or after the permit is
/// released.
pub(super) fn room_let_in() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        assert!(shared.actor.waiting().send(mail.message()).wait().is_ok(), "room is made");
    });
    shared.fill();
    thread.join();
    shared.finish();
}

/// ROOM-1: a sender that waits while a turn runs is admitted when the next message is taken: its
/// turn waits for the sender.
pub(super) fn room_at_the_next_turn() {
    let shared =
        Shared::queued(|builder| builder.budget(Budget::UNLIMITED).capacity(1, Overflow::Reject));
    let sent = Arc::new((Mutex::new(false), Condvar::new()));
    let (theirs, inside) = (sent.clone(), shared.clone());
    let first = move |_: &mut Log| {
        // Refused if the sender was quicker: then there is nothing to wait for.
        let _ = inside.actor.send(move |_: &mut Log| {
            let (is_in, changed) = &*sent;
            let mut is_in = is_in.lock();
            while !*is_in {
                reached("waited for");
                changed.wait(&mut is_in);
            }
        });
    };
    assert!(shared.actor.send(first).is_ok(), "it is empty");
    let thread = shared.spawn(move |shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        assert!(shared.actor.waiting().send(mail.message()).wait().is_ok(), "room is made");
        let (is_in, changed) = &*theirs;
        *is_in.lock() = true;
        changed.notify_one();
    });
    shared.queue().run_all();
    thread.join();
    shared.finish();
}

/// Giving up (the future is dropped) and being admitted exclude each other: the message is handled,
/// or dropped, once.
pub(super) fn room_given_up() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        let mut sending = pin!(shared.actor.waiting().send(mail.message()));
        match sending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(sent) => assert!(sent.is_ok()),
            Poll::Pending => reached("waited"),
        }
    });
    shared.fill();
    thread.join();
    // The future dropped the withdrawn message, which counts as returned.
    let books = &shared.books;
    if books.dropped.load(Relaxed) > books.returned.load(Relaxed) + books.unrun.load(Relaxed) {
        reached("withdrawn");
        add(&books.returned);
    }
    shared.finish();
}

/// Waiters get their messages back when the mailbox is closed.
pub(super) fn room_closed() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        if let Err(refused) = shared.actor.waiting().send(mail.message()).wait() {
            assert_eq!(*refused.reason(), Reason::Closed);
            reached("turned away");
            add(&shared.books.returned);
        }
    });
    shared.fill_and(|actor| _ = actor.close());
    thread.join();
    shared.finish();
}

/// A limit that is over at once: cancelled and having run exclude each other, and the message is
/// returned in one of the two.
pub(super) fn limit_or_answer() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let mail = Mail::<OWN>::new(&shared.books, 0, 1);
    match shared.actor.call(move |log: &mut Log| log.handle(mail)).within(Limit::Immediate) {
        Ok(()) => reached("answered"),
        Err(WaitError::Cancelled(_)) => {
            reached("cancelled");
            add(&shared.books.returned);
        }
        Err(WaitError::TimedOut(reply)) => {
            reached("running");
            assert!(reply.wait().is_ok());
        }
        Err(error) => panic!("{error}"),
    }
    thread.join();
    shared.finish();
}

/// ROOM-5: a mailbox is closed from outside while a sender begins to wait.
pub(super) fn room_closed_from_outside() {
    let shared = Shared::full(1);
    let waits = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        if let Err(refused) = shared.actor.waiting().send(mail.message()).wait() {
            assert_eq!(*refused.reason(), Reason::Closed);
            reached("turned away");
            add(&shared.books.returned);
        }
    });
    assert!(shared.actor.close());
    shared.queue().run_all();
    waits.join();
    shared.finish();
}

/// A turn panics while a sender waits: the actor stops, and the sender gets the cause.
pub(super) fn room_stopped() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        if let Err(refused) = shared.actor.waiting().send(mail.message()).wait() {
            let reason = refused.reason();
            assert!(matches!(reason, Reason::Stopped(StopCause::Panicked(_))), "{reason:?}");
            reached("turned away");
            add(&shared.books.returned);
        }
    });
    shared.fill_and(|_| Planned::panic());
    thread.join();
    shared.finish();
}

/// A waker that unparks the thread that polled.
struct Poked(Thread);

impl Wake for Poked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls once.
pub(super) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Poked(current())));
    pin!(future).poll(&mut Context::from_waker(&waker))
}

/// Polls until it is ready.
pub(super) fn wait_for<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll(&mut future) {
            return output;
        }
        park();
    }
}

impl Shared {
    /// A full mailbox without an owner: its drain waits in a queue.
    fn full(capacity: u32) -> Self {
        let shared = Shared::queued(|builder| {
            builder.budget(Budget::UNLIMITED).capacity(capacity as usize, Overflow::Reject)
        });
        for no in 1..=capacity {
            shared.send_one::<OWN>(0, no);
        }
        assert_eq!(shared.books.returned.load(Relaxed), 0);
        shared
    }

    /// A message that must come after the first one of `before`, while the waiting ones do not
    /// exceed the room.
    pub(super) fn after(
        &self,
        before: usize,
        from: usize,
        no: u32,
    ) -> impl FnOnce(&mut Log) + Send + use<> {
        let (inside, mail) = (self.clone(), Mail::<OWN>::new(&self.books, from, no));
        move |log: &mut Log| {
            assert!(from == before || log.last[before] >= 1, "{from} has overtaken {before}");
            let most = inside.actor.snapshot().capacity.expect("it is bounded") + 1;
            assert!(inside.actor.len() <= most, "let in beyond the capacity");
            log.handle(mail);
        }
    }

    /// Sends a newcomer's message, which must come after the first one of `before`.
    pub(super) fn newcomer(&self, before: usize) {
        match self.actor.send(self.after(before, 0, 9)) {
            Ok(()) => reached("accepted"),
            Err(_) => {
                reached("refused");
                add(&self.books.returned);
            }
        }
    }
}

/// ROOM-1, ROOM-3: permits go to waiters, in order, and never to a newcomer.
pub(super) fn room_first_come() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| {
        let mut first = shared.actor.waiting().send(shared.after(1, 1, 1));
        if let Poll::Ready(sent) = poll(&mut first) {
            return assert!(sent.is_ok());
        }
        let mut second = shared.actor.waiting().send(shared.after(1, 2, 1));
        if poll(&mut second).is_pending() {
            reached("waited");
            shared.newcomer(2);
            assert!(wait_for(second).is_ok());
        }
        assert!(wait_for(first).is_ok());
    });
    shared.fill();
    thread.join();
    shared.finish();
}

/// ROOM-1, ROOM-3, in a mailbox that is full and pending.
pub(super) fn room_pending_first_come() {
    let shared = Shared::full(1);
    let mut waits = shared.actor.waiting().send(Mail::<OWN>::new(&shared.books, 1, 1).message());
    assert!(poll(&mut waits).is_pending());
    let thread = shared.spawn(|shared| shared.newcomer(1));
    shared.queue().run_all();
    assert!(wait_for(waits).is_ok());
    thread.join();
    shared.finish();
}

/// ROOM-2: the first of two waiters gives up while it is admitted: its permit goes to the second,
/// and none is lost or won.
pub(super) fn room_given_up_as_it_is_let_in() {
    let shared = Shared::full(1);
    let books = shared.books.clone();
    let mut first = shared.actor.waiting().send(Mail::<OWN>::new(&books, 1, 1).message());
    let mut second = shared.actor.waiting().send(Mail::<OWN>::new(&books, 2, 1).message());
    assert!(poll(&mut first).is_pending());
    assert!(poll(&mut second).is_pending());
    let thread = shared.spawn(|shared| shared.queue().run_all());
    drop(first);
    assert!(wait_for(second).is_ok());
    thread.join();
    shared.queue().run_all();
    if books.dropped.load(Relaxed) > 0 {
        reached("withdrawn");
        add(&books.returned);
    } else {
        reached("let in");
    }
    let before = books.returned.load(Relaxed);
    shared.send_one::<OWN>(0, 2);
    assert_eq!(books.returned.load(Relaxed), before, "the place is lost");
    assert!(shared.actor.send(|_| ()).is_err(), "one place, two messages");
    shared.finish();
}

/// ROOM-2: a limit ends while a sender is being admitted: exactly one of the two happens, and
/// nothing is left behind.
pub(super) fn room_time_over() {
    let clock = Arc::new(Steps::default());
    let theirs = clock.clone();
    let shared = Shared::queued(|builder| {
        builder.budget(Budget::UNLIMITED).capacity(1, Overflow::Reject).clock(theirs)
    });
    shared.send_one::<OWN>(0, 1);
    let ticks = spawn(move || clock.tick());
    let runs = shared.spawn(|shared| shared.queue().run_next());
    let mail = Mail::<OWN>::new(&shared.books, 1, 1);
    match shared.actor.waiting().send(mail.message()).within(LIMIT) {
        Ok(()) => reached("let in"),
        Err(refused) => {
            assert_eq!(*refused.reason(), Reason::Full);
            reached("time over");
            add(&shared.books.returned);
        }
    }
    ticks.join();
    runs.join();
    assert_eq!(handles(), 0, "the wait has left something behind");
    shared.finish();
}

/// Waiters that are never polled again, as forgotten ones, keep no actor from its end: their
/// messages are run before that, or given back.
pub(super) fn room_forgotten() {
    let ended = Written::new();
    let ends = ended.clone();
    let shared = Shared::queued(|builder| {
        let builder = builder.budget(Budget::UNLIMITED).capacity(1, Overflow::Reject);
        builder.on_end(move |state, _| {
            ends.write();
            drop(state);
        })
    });
    shared.send_one::<OWN>(0, 1);
    let mut waiters = [1, 2].map(|from| {
        let (mail, has_ended) = (Mail::<OWN>::new(&shared.books, from, 1), ended.clone());
        shared.actor.waiting().send(move |log: &mut Log| {
            assert_eq!(has_ended.read(), 0, "run after the end");
            log.handle(mail);
        })
    });
    assert!(waiters.iter_mut().all(|waiter| poll(waiter).is_pending()));
    let thread = shared.spawn(|shared| shared.queue().run_all());
    shared.actor.close();
    shared.queue().run_all();
    thread.join();
    shared.queue().run_all();
    assert_eq!(ended.read(), 1, "kept from its end");
    for mut waiter in waiters {
        match poll(&mut waiter) {
            Poll::Ready(Ok(())) => reached("let in"),
            Poll::Ready(Err(refused)) => {
                assert_eq!(*refused.reason(), Reason::Closed);
                reached("turned away");
                add(&shared.books.returned);
            }
            Poll::Pending => panic!("the waiter was not seen"),
        }
    }
    shared.finish();
}

/// A request that waits for room, and is answered.
pub(super) fn room_asked() {
    let shared = Shared::full(1);
    let thread = shared.spawn(|shared| shared.queue().run_all());
    let mail = Mail::<OWN>::new(&shared.books, 1, 1);
    let question = move |log: &mut Log| {
        log.handle(mail);
        Track::new(log.last[1])
    };
    let mut asking = shared.actor.waiting().call(question);
    let early = poll(&mut asking);
    shared.queue().run_all();
    thread.join();
    shared.queue().run_all();
    let answer = if early.is_ready() { early } else { poll(&mut asking) };
    let Poll::Ready(answer) = answer else { panic!("there is room, and it was run") };
    assert_eq!(*answer.expect("room is made").get_ref(), 1);
    drop(asking);
    shared.finish();
}

/// ROOM-1: a sender that has its permit has not pushed its message yet, so the mailbox is idle
/// while another one waits: a newcomer leaves it to the waiters.
pub(super) fn room_first_come_while_idle() {
    let shared = Shared::small(Overflow::Reject);
    let thread = shared.spawn(|shared| in_turn(|| shared.send_one::<OWN>(2, 1)));
    let mut waits = None;
    in_turn(|| {
        let mut sending = shared.actor.waiting().send(shared.after(1, 1, 1));
        match poll(&mut sending) {
            Poll::Ready(sent) => assert!(sent.is_ok()),
            Poll::Pending => waits = Some(sending),
        }
    });
    if let Some(sending) = waits {
        reached("waited");
        shared.newcomer(1);
        assert!(wait_for(sending).is_ok());
    }
    thread.join();
    shared.finish();
}

/// ROOM-5: a mailbox is closed while the only permit is on its way, and a sender waits for it. The
/// closer need not have seen that there is a semaphore.
pub(super) fn room_closed_on_the_way() {
    let shared = Shared::small(Overflow::Reject);
    let first = shared.spawn(|shared| in_turn(|| shared.send_one::<OWN>(2, 1)));
    let waits = shared.spawn(|shared| {
        let mail = Mail::<OWN>::new(&shared.books, 1, 1);
        let mut sending = None;
        in_turn(|| {
            let mut waits = shared.actor.waiting().send(mail.message());
            let polled = poll(&mut waits);
            sending = Some((waits, polled));
        });
        let sent = match sending.take() {
            Some((_, Poll::Ready(sent))) => sent,
            Some((waits, Poll::Pending)) => wait_for(waits),
            None => Ok(()),
        };
        if let Err(refused) = sent {
            assert_eq!(*refused.reason(), Reason::Closed);
            reached("turned away");
            add(&shared.books.returned);
        }
    });
    shared.actor.close();
    first.join();
    waits.join();
    shared.finish();
}

/// A waker with the worst user code: it sends to the actor, waits for room in it, and looks at it.
struct Busybody(Shared, Thread);

impl Wake for Busybody {
    fn wake(self: Arc<Self>) {
        reached("woken");
        let Busybody(shared, thread) = &*self;
        let mail = Mail::<OWN>::new(&shared.books, 2, 1);
        drop(shared.actor.waiting().send(move |log: &mut Log| log.handle(mail)));
        if shared.books.dropped.load(Relaxed) > shared.books.returned.load(Relaxed) {
            add(&shared.books.returned);
        }
        let _ = format!("{:?}", shared.actor);
        thread.unpark();
    }
}

/// Wakers are called outside of the lock.
pub(super) fn room_hostile_wakers() {
    let shared = Shared::full(1);
    let mail = Mail::<OWN>::new(&shared.books, 1, 1);
    let mut waits = shared.actor.waiting().send(mail.message());
    let waker = Waker::from(Arc::new(Busybody(shared.clone(), current())));
    assert!(pin!(&mut waits).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    // Behind it, another one: a look at the actor has to take the lock.
    let mut behind = shared.actor.waiting().send(|_: &mut Log| ());
    assert!(poll(&mut behind).is_pending());
    let thread = shared.spawn(|shared| shared.queue().run_all());
    assert!(wait_for(waits).is_ok());
    assert!(wait_for(behind).is_ok());
    thread.join();
    shared.finish();
}
