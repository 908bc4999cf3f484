//! The shipped workers of the pool, on queues that loom sees: the slot, neighbours that sleep,
//! places that are left.

use super::super::executor::workers::{Pool, Standby};
use super::*;

impl Shared {
    /// An actor that a pool runs.
    fn on(pool: &Pool) -> Self {
        let pool = pool.clone();
        Shared::built(|builder| builder.budget(Budget::UNLIMITED).executor(pool))
    }

    /// Returns the number of messages that it has handled.
    fn handled(&self) -> u32 {
        self.books.handled.load(Relaxed)
    }

    /// A message that also runs a closure.
    fn mail_and<F>(&self, also: F) -> impl FnOnce(&mut Log) + Send + use<F>
    where
        F: FnOnce() + Send + 'static,
    {
        let mail = Mail::<OWN>::new(&self.books, 0, 1);
        move |log: &mut Log| {
            log.handle(mail);
            also();
        }
    }
}

/// An event for which a turn waits, unseen by its pool.
#[derive(Default)]
struct Event {
    happened: Mutex<bool>,
    told: Condvar,
}

// SAFETY: loom's threads are coroutines of one thread, and what is shared is checked by it.
unsafe impl Sync for Event {}
// SAFETY: as above.
unsafe impl Send for Event {}

impl Event {
    fn new() -> Arc<Event> {
        Arc::default()
    }

    fn happen(&self) {
        *self.happened.lock() = true;
        self.told.notify_all();
    }

    fn wait(&self) {
        let mut happened = self.happened.lock();
        while !*happened {
            self.told.wait(&mut happened);
        }
    }

    fn has_happened(&self) -> bool {
        *self.happened.lock()
    }
}

/// NEED in the slot: the drain that another one replaces is announced, and a neighbour takes it,
/// although the turn that sent both takes for ever.
pub(super) fn worker_slot_replaced() {
    let pool = Pool::new(2, 0);
    let [first, second, third] = [(); 3].map(|()| Shared::on(&pool));
    let event = Event::new();
    let (rings, waits) = (event.clone(), event);
    let message = second.mail_and(move || rings.happen());
    let (to_second, to_third) = (second.clone(), third.clone());
    let sent = first.actor.send(first.mail_and(move || {
        assert!(to_second.actor.send(message).is_ok());
        to_third.send_one::<OWN>(0, 1);
        // It would wait for ever.
        waits.wait();
    }));
    assert!(sent.is_ok());
    pool.close();
    pool.wait();
    for shared in [first, second, third] {
        assert_eq!(shared.handled(), 1);
        shared.finish();
    }
}

/// NEED at `found`: a worker that is woken for two drains, and stays in the first of them, wakes
/// its neighbour before.
pub(super) fn worker_wakes_the_next() {
    let pool = Pool::new(2, 0);
    let [first, second] = [(); 2].map(|()| Shared::on(&pool));
    let event = Event::new();
    let (rings, waits) = (event.clone(), event);
    assert!(first.actor.send(first.mail_and(move || waits.wait())).is_ok());
    assert!(second.actor.send(second.mail_and(move || rings.happen())).is_ok());
    pool.close();
    pool.wait();
    for shared in [first, second] {
        assert_eq!(shared.handled(), 1);
        shared.finish();
    }
}

/// COMPENSATION-3, END: a turn that waits leaves its place, with the content of the slot, to a
/// thread that stands by; and its later messages are run, although the pool was closed and its
/// worker sleeps.
pub(super) fn worker_leaves_its_place() {
    let pool = Pool::new(1, 1);
    let [first, second, third] = [(); 3].map(|()| Shared::on(&pool));
    let (to_second, to_third) = (second.clone(), third.clone());
    let message = second.mail_and(|| ());
    let sent = first.actor.send(first.mail_and(move || {
        assert_eq!(to_second.actor.call(message).wait(), Ok(()));
        to_third.send_one::<OWN>(0, 1);
    }));
    assert!(sent.is_ok());
    pool.close();
    pool.wait();
    assert_eq!(pool.dropped(), 0, "it has ended with a turn under way");
    for shared in [first, second, third] {
        assert_eq!(shared.handled(), 1);
        shared.finish();
    }
}

/// COMPENSATION-2: a worker that was promised a thread has one, although others were called to
/// help.
pub(super) fn standby_is_not_the_helper() {
    let threads = Arc::new(Standby::new());
    let (taken, ended) = (Event::new(), Event::new());
    let start = || {
        let (threads, taken, ended) = (threads.clone(), taken.clone(), ended.clone());
        drop(spawn(move || {
            threads.live(
                || ended.has_happened(),
                |place| match place {
                    Some(_) => taken.happen(),
                    // A turn that waits for the content of the place that was left.
                    None => taken.wait(),
                },
            );
        }));
        Ok(())
    };
    threads.call_help(start);
    threads.leave(7, start);
    // It would wait for ever.
    taken.wait();
    ended.happen();
    threads.wait();
}
