//! Several guards of one owner, and several holds of one client.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::proxy::{Fate, Proxy};
use crate::support::{Server, until};
use tokio::sync::Notify;
use turnwise_redis::step::{Op, Step};
use turnwise_redis::{
    Called, Guard, Limits, LockError, Locks, MemoryStore, NoticeSink, Owner, Remote, Slot,
    SlotPool, Slots, Store,
};

const LEASE: Duration = Duration::from_millis(300);
const SHORT: Duration = Duration::from_millis(50);

/// Waits until a renewal that was due in this time has arrived, or has not.
fn pass(time: Duration) {
    let began = Instant::now();
    until("time has passed", || began.elapsed() > time);
}

fn remotes() -> [(Remote, Option<Server>); 2] {
    let server = Server::start();
    let builder = || Remote::builder().lease(LEASE);
    let near = builder().over(MemoryStore::new()).unwrap();
    let far = builder().connect(&server.url()).unwrap();
    [(near, None), (far, Some(server))]
}

#[test]
fn owner_asks_again_without_a_lease_and_is_renewed() {
    for (remote, _server) in remotes() {
        let (locks, me) = (remote.locks(), Owner::new());
        let outer = locks.lock_as(&me, "a", Limits::NONE.lease(LEASE)).wait().unwrap();
        let inner = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
        pass(LEASE * 3);
        assert!(!inner.is_lost() && !outer.is_lost());
        // No guard wants it renewed any more, so it ends.
        inner.release().wait().unwrap();
        until("its lease is over", || outer.is_lost());
    }
}

#[test]
fn owner_asks_again_with_a_short_lease_and_the_longest_wins() {
    for (remote, _server) in remotes() {
        let (locks, me) = (remote.locks(), Owner::new());
        let other = remote.locks();
        let renewed = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
        let short = locks.lock_as(&me, "a", Limits::NONE.lease(SHORT)).wait().unwrap();
        pass(LEASE * 2);
        assert!(!renewed.is_lost() && !short.is_lost());
        assert!(other.try_lock("a").wait().is_err());
        drop((renewed, short));
        // The other way round: a lease of its own that is longer.
        let long = Limits::NONE.lease(Duration::from_secs(60));
        let long = locks.lock_as(&me, "b", long).wait().unwrap();
        let short = locks.lock_as(&me, "b", Limits::NONE.lease(SHORT)).wait().unwrap();
        assert!(short.remaining() > Some(Duration::from_secs(50)));
        assert!(long.renew(SHORT).wait().is_ok());
        pass(SHORT * 2);
        assert!(!long.is_lost() && other.try_lock("b").wait().is_err());
    }
}

#[test]
fn owner_asks_for_several_and_has_what_it_holds() {
    for (remote, _server) in remotes() {
        let (locks, me, other) = (remote.locks(), Owner::new(), Owner::new());
        let inner = locks.lock_as(&me, "b", Limits::NONE).wait().unwrap();
        let all = locks.lock_all_as(&me, ["c", "a", "b"], Limits::NONE).wait().unwrap();
        assert_eq!(all.iter().map(Guard::name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(all[1].fence(), inner.fence());
        // All or none.
        let at_once = Limits::wait(Duration::ZERO);
        let refused = locks.lock_all_as(&other, ["0", "c"], at_once).wait();
        assert!(matches!(refused, Err(LockError::Busy { .. })));
        assert!(remote.flush(LEASE * 10));
        assert!(locks.info("0").wait().unwrap().is_none());
        all.into_iter().for_each(|guard| guard.release().wait().unwrap());
        assert!(locks.info("a").wait().unwrap().is_none() && !inner.is_lost());
        assert!(locks.try_lock("b").wait().is_err());
        inner.release().wait().unwrap();
        assert!(locks.try_lock("b").wait().is_ok());
    }
}

#[test]
fn owner_that_loses_one_of_several_has_it_anew() {
    for (remote, _server) in remotes() {
        let (locks, me) = (remote.locks(), Owner::new());
        let old = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
        let held = locks.lock("b").wait().unwrap();
        let both = locks.lock_all_as(&me, ["a", "b"], Limits::NONE.lease(LEASE * 10));
        until("it waits", || locks.info("b").wait().unwrap().is_some_and(|it| it.waiting == 1));
        assert!(locks.force_release("a").wait().unwrap());
        drop(held);
        let both = both.wait().unwrap();
        assert!(both[0].fence() > old.fence() && old.is_lost());
        assert!(both.iter().all(|guard| !guard.is_lost()));
        drop(old);
        assert!(locks.try_lock("a").wait().is_err());
    }
}

/// A lease is counted from its grant also if that came from the queue, whose entries live longer.
#[test]
fn a_short_lease_from_the_queue_is_short() {
    for (remote, _server) in remotes() {
        let locks = remote.locks();
        let held = locks.lock("a").wait().unwrap();
        let waits = locks.lock_within("a", Limits::NONE.lease(SHORT));
        until("it waits", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
        drop(held);
        let began = Instant::now();
        let short = waits.wait().unwrap();
        until("it is lost", || short.is_lost());
        drop(locks.lock("a").wait().unwrap());
        assert!(began.elapsed() < Duration::from_secs(4));
    }
}

#[test]
fn renewals_of_many_locks_are_few_commands() {
    let (server, counted) = (Server::start(), Arc::new(AtomicUsize::new(0)));
    let count = counted.clone();
    let proxy = Proxy::new(server.port, move || {
        count.fetch_add(1, SeqCst);
        Fate::Forward
    });
    let remote = Remote::builder().lease(LEASE * 10).connect(&proxy.url()).unwrap();
    let locks = remote.locks();
    let held: Vec<_> = (0..300).map(|n| locks.lock(n.to_string()).wait().unwrap()).collect();
    let calls = || counted.load(SeqCst);
    let before = calls();
    pass(LEASE * 20);
    let renewals = calls() - before;
    assert!(held.iter().all(|guard| !guard.is_lost()));
    // Six times, for 256 at once.
    assert!((6..20).contains(&renewals), "{renewals}");
}

#[test]
fn each_of_many_holds_ends_for_itself() {
    for (remote, _server) in remotes() {
        let locks = remote.locks();
        let kept: Vec<_> = (0..9).map(|n| locks.lock(n.to_string()).wait().unwrap()).collect();
        let short = locks.lock_within("short", Limits::NONE.lease(SHORT)).wait().unwrap();
        let (lost, forced) = (short.lost(), kept[3].lost());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(lost);
        assert!(locks.force_release("3").wait().unwrap());
        runtime.block_on(forced);
        pass(LEASE * 2);
        for (n, guard) in kept.iter().enumerate() {
            assert_eq!(guard.is_lost(), n == 3, "{n}");
        }
    }
}

/// A store in which the second `Acquire` is not answered, and which records what was left.
#[derive(Debug)]
struct Unanswered {
    store: MemoryStore,
    acquires: AtomicUsize,
    left: Arc<Mutex<Vec<bool>>>,
}

impl Store for Unanswered {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            match &op.step {
                Step::Acquire { .. } if self.acquires.fetch_add(1, SeqCst) == 1 => {
                    std::future::pending::<()>().await;
                }
                Step::Leave { late, .. } => self.left.lock().unwrap().push(*late),
                _ => {}
            }
            self.store.call(op).await
        })
    }

    crate::support::forwards_notices!(store);
}

#[test]
fn a_request_that_is_on_its_way_is_late_whatever_others_hear() {
    let left = Arc::new(Mutex::new(Vec::new()));
    let (store, acquires) = (MemoryStore::new(), AtomicUsize::new(0));
    let store = Unanswered { store, acquires, left: left.clone() };
    let acquires = Arc::new(store);
    let remote = Remote::builder().over(acquires.clone()).unwrap();
    let (locks, me) = (remote.locks(), Owner::new());
    let first = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
    let second = locks.lock_as(&me, "a", Limits::NONE);
    until("it is on its way", || acquires.acquires.load(SeqCst) == 2);
    // The third one gets the hold while the second one is on its way.
    let third = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
    drop((second, first, third));
    assert!(remote.flush(Duration::from_secs(10)));
    assert_eq!(*left.lock().unwrap(), [true]);
}

/// A store that answers the second `Acquire` late, and loses notices.
#[derive(Debug)]
struct Late {
    store: MemoryStore,
    acquires: AtomicUsize,
    answers: Notify,
}

impl Store for Late {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let answer = self.store.call(op).await;
            let is_acquire = matches!(op.step, Step::Acquire { .. });
            if is_acquire && self.acquires.fetch_add(1, SeqCst) == 1 {
                self.answers.notified().await;
            }
            answer
        })
    }

    fn listen(&self, _: &str, _: NoticeSink) {}

    fn forget(&self, _: &str) {}
}

fn late(store: &MemoryStore) -> (Arc<Late>, Remote) {
    let (acquires, answers) = (AtomicUsize::new(0), Notify::new());
    let store = Arc::new(Late { store: store.clone(), acquires, answers });
    let remote = Remote::builder().over(store.clone()).unwrap();
    (store, remote)
}

/// Of two tasks of an owner, one releases while the other asks: it releases nothing that the other
/// is granted.
#[test]
fn a_release_leaves_what_its_owner_asks_for() {
    let memory = MemoryStore::new();
    let (store, remote) = late(&memory);
    let other = Remote::builder().over(memory).unwrap().locks();
    let (locks, me) = (remote.locks(), Owner::new());
    let first = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
    let second = locks.lock_as(&me, "a", Limits::NONE);
    until("it is on its way", || store.acquires.load(SeqCst) == 2);
    first.release().wait().unwrap();
    store.answers.notify_one();
    let second = second.wait().unwrap();
    assert!(!second.is_lost() && other.try_lock("a").wait().is_err());
    second.release().wait().unwrap();
    // The next one asks for itself.
    drop(other.try_lock("a").wait().unwrap());
    locks.lock_as(&me, "a", Limits::NONE).wait().unwrap().release().wait().unwrap();
}

/// A hold that was lost is released without an effect on the owner's next one, which has the same
/// fence if the store has not found it over yet.
#[test]
fn a_lost_guard_releases_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (remote, _server) in remotes() {
        let (locks, me) = (remote.locks(), Owner::new());
        let lost = locks.lock_as(&me, "a", Limits::NONE.lease(SHORT)).wait().unwrap();
        runtime.block_on(lost.lost());
        let held = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
        assert!(lost.release().wait().is_err());
        assert!(!held.is_lost() && locks.try_lock("a").wait().is_err());
    }
}

/// A store in which the first renewal finds nothing, and the tenth one is not answered.
#[derive(Debug)]
struct Lost(MemoryStore, AtomicUsize);

impl Store for Lost {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            if let Step::Renew { token, .. } = &op.step {
                match self.1.fetch_add(1, SeqCst) {
                    0 => {
                        let leave = Step::Leave { token: token.clone(), late: false };
                        drop(self.0.call(&Op { step: leave, ..op.clone() }).await?);
                    }
                    9 => std::future::pending().await,
                    _ => {}
                }
            }
            self.0.call(op).await
        })
    }

    crate::support::forwards_notices!(0);
}

/// One of several locks is lost before all are held: there was no limit, so no time is over.
#[test]
fn all_are_requested_anew_when_one_was_lost() {
    let remote = Remote::builder().over(Lost(MemoryStore::new(), AtomicUsize::new(0))).unwrap();
    let guards = remote.locks().lock_all(["a", "b"], Limits::NONE.lease(LEASE * 100)).wait();
    assert!(guards.unwrap().iter().all(|guard| !guard.is_lost()));
}

#[test]
fn all_are_refused_at_the_limit_although_a_renewal_is_not_answered() {
    let remote = Remote::builder().over(Lost(MemoryStore::new(), AtomicUsize::new(9))).unwrap();
    let (limits, began) = (Limits::wait(LEASE).lease(LEASE * 100), Instant::now());
    assert!(remote.locks().lock_all(["a", "b"], limits).wait().is_err());
    // Not the client's patience of thirty seconds.
    assert!(began.elapsed() < Duration::from_secs(15));
}

/// Two tasks of an owner wait. When one of them finds the grant, the other does.
#[test]
fn all_waiters_of_an_owner_are_granted() {
    let memory = MemoryStore::new();
    let (store, remote) = late(&memory);
    store.acquires.store(9, SeqCst);
    let held = Remote::builder().over(memory).unwrap().locks().lock("a").wait().unwrap();
    let (locks, me) = (remote.locks(), Owner::new());
    let mut waits = locks.lock_as(&me, "a", Limits::NONE);
    until("it waits", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
    held.release().wait().unwrap();
    // Its notice is lost, and this one is granted at once.
    let guard = locks.lock_as(&me, "a", Limits::NONE).wait().unwrap();
    let granted = waits.wait_timeout(Duration::from_secs(20)).expect("it is granted").unwrap();
    assert_eq!(granted.fence(), guard.fence());
}

#[test]
fn objects_are_used_in_code_that_may_panic() {
    fn both<T: UnwindSafe + RefUnwindSafe>() {}
    both::<Locks>();
    both::<Guard>();
    both::<Slots>();
    both::<SlotPool<Vec<u8>, String>>();
    both::<Slot<Vec<u8>, String>>();
}
