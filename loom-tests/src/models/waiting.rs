//! MAILBOX-13 and MAILBOX-14: no call below `with` waits; waiters for idle or for the end are
//! woken.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::super::actor::Ending;
use super::super::cell::settings::Overflow;
use super::clock::{LIMIT, Steps};
use super::scheduled::in_turn;
use super::*;
use crate::sync::thread::handles;
use crate::sync::{reached, waits};

/// Longer than any model: loom has no time.
const LONG: Duration = Duration::from_secs(1 << 20);

/// No call that only leaves messages takes a lock that may block, or sleeps, whatever thread stands
/// still at whatever point.
pub(super) fn r13_no_waiting() {
    let shared = Shared::new();
    let first = shared.spawn(|shared| {
        shared.send::<ONE_SLOT>(1, 1);
        let _ = shared.actor.call(|log| log.last[3]).is_ready();
    });
    let second = shared.spawn(|shared| assert!(shared.leave::<ONE_SLOT>(2, 1)));
    shared.send::<ONE_SLOT>(0, 1);
    first.join();
    second.join();
    shared.finish();
    assert_eq!(waits(), 0, "somebody may have waited");
}

/// MEETING: the owner's release sees WATCH, and wakes; the waiter sees the writes of the turns.
pub(super) fn r14_wait_idle() {
    let shared = Shared::by_hand();
    let written = Written::new();
    let theirs = written.clone();
    assert!(shared.actor.posted().send(move |_| theirs.write()).is_ok());
    let thread = shared.spawn(|shared| {
        shared.run_one();
    });
    assert_eq!(shared.actor.idle().wait(), Ok(()));
    assert_eq!(written.read(), 1);
    thread.join();
    shared.finish();
}

/// MEETING by `take`: the owner has a batch to take when it is watched.
pub(super) fn r14_wait_idle_against_sends() {
    let shared = Shared::new();
    let first = shared.spawn(|shared| shared.send::<OWN>(1, 1));
    let second = shared.spawn(|shared| shared.send::<OWN>(2, 1));
    assert_eq!(shared.actor.idle().wait(), Ok(()));
    first.join();
    second.join();
    shared.finish();
}

/// MEETING in a bounded mailbox: the watch stays until the release.
pub(super) fn r14_wait_idle_bounded() {
    let capacity = 2;
    let shared = Shared::falling_back(|builder| {
        let builder = builder.capacity(capacity, Overflow::Reject);
        builder.budget(Budget::UNLIMITED)
    });
    for no in 1..=capacity as u32 {
        assert!(shared.leave::<OWN>(1, no));
    }
    let thread = shared.spawn(|shared| {
        shared.run_one();
    });
    assert_eq!(shared.actor.idle().wait(), Ok(()));
    thread.join();
    shared.finish();
}

/// The watch stays while an owner yields, and the thread that continues with the mailbox wakes at
/// its release.
pub(super) fn r14_wait_idle_parked() {
    let shared = Shared::new();
    let second = Shared::new();
    let on = second.clone();
    let thread = shared.spawn(move |shared| {
        let next = Mail::<OWN>::new(&on.books, 1, 1);
        let mails = [Mail::<OWN>::new(&shared.books, 1, 1), Mail::<OWN>::new(&shared.books, 1, 2)];
        let [first, last] = mails;
        let batch: [Message; 2] = [
            Box::new(move |log: &mut Log| {
                log.handle(first);
                assert!(on.actor.send(next.message()).is_ok());
            }),
            Box::new(last.message()),
        ];
        assert!(shared.actor.send_many(batch).is_ok());
    });
    assert_eq!(shared.actor.idle().wait(), Ok(()));
    thread.join();
    shared.finish();
    second.finish();
}

/// MEETING and FAREWELL: a waiter for the end is woken by it, and sees the writes of the end hook.
pub(super) fn r14_wait_ended() {
    let written = Written::new();
    let theirs = written.clone();
    let shared = Shared::built(|builder| {
        builder.on_end(move |state, _| {
            theirs.write();
            drop(state);
        })
    });
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 1);
        shared.actor.close();
    });
    assert_eq!(shared.actor.ended().within(LONG), Ok(true));
    assert_eq!(written.read(), 1);
    thread.join();
    shared.finish();
}

/// MEETING and FAREWELL with a plain actor, whose list of waiters is created by the first of them.
pub(super) fn r14_wait_ended_plain() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| {
        assert_eq!(shared.actor.ended().within(LONG), Ok(true));
    });
    shared.send::<OWN>(0, 1);
    shared.actor.close();
    assert_eq!(shared.actor.ended().within(LONG), Ok(true));
    thread.join();
    shared.finish();
}

/// MEETING by `raise`: a thread that waits for the end runs the mailbox that a close has left
/// pending, whether it sleeps by then or is about to. The turn that has closed it waits for that
/// thread, unseen by the crate.
pub(super) fn r14_wait_ended_helps() {
    let shared = Shared::new();
    let thread = shared.spawn(|shared| assert_eq!(shared.actor.ended().wait(), Ok(())));
    in_turn(|| {
        assert!(shared.actor.close());
        thread.join();
    });
    shared.finish();
}

/// A wait whose time is over leaves nothing behind, whatever happens meanwhile.
pub(super) fn r14_timed_out() {
    let clock = Arc::new(Steps::default());
    let theirs = clock.clone();
    let shared = Shared::built(|builder| builder.clock(theirs));
    let thread = shared.spawn(|shared| {
        shared.send::<OWN>(1, 1);
        shared.actor.close();
    });
    let ticks = spawn(move || clock.tick());
    match shared.actor.ended().within(LIMIT) {
        Ok(true) => {
            reached("ended");
            assert!(shared.actor.is_closed() && shared.actor.is_idle());
        }
        Ok(false) => reached("time over"),
        Err(reason) => panic!("{reason}"),
    }
    thread.join();
    ticks.join();
    assert_eq!(handles(), 0, "the wait has left something behind");
    shared.finish();
}

/// A waiter for an idle actor, which any thread may take.
struct Other(Mutex<Option<Ending<Log>>>);

// SAFETY: loom's threads are coroutines of one thread, and what is shared is checked by it.
unsafe impl Sync for Other {}
// SAFETY: as above.
unsafe impl Send for Other {}

impl Other {
    fn leave(&self) {
        // Not under the lock: it takes the list's.
        let other = self.0.lock().take();
        drop(other);
    }
}

/// A waker that drops another waiter, when it is woken and when it is dropped; and that sends to
/// the actor whose owner wakes it.
struct Hostile {
    shared: Shared,
    other: Arc<Other>,
}

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        reached("woken");
        self.other.leave();
        self.shared.send_one::<OWN>(2, 1);
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        reached("dropped");
        self.other.leave();
    }
}

/// Wakers may do anything: no lock is held while one is woken or dropped.
pub(super) fn r14_hostile_wakers() {
    let shared = Shared::carried(256);
    shared.send::<OWN>(0, 1);
    let mut second = shared.actor.idle();
    assert!(pin!(&mut second).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let other = Arc::new(Other(Mutex::new(Some(second))));
    let mut first = shared.actor.idle();
    let hostile = Arc::new(Hostile { shared: shared.clone(), other: other.clone() });
    let hostile = Waker::from(hostile);
    assert!(pin!(&mut first).poll(&mut Context::from_waker(&hostile)).is_pending());
    drop(hostile);
    let thread = shared.spawn(|shared| _ = shared.run_one());
    drop(first);
    thread.join();
    other.leave();
    shared.finish();
}
