//! Several guards of one owner, and several holds of one client.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::proxy::{Fate, Proxy};
use support::{Server, until};
use turnwise_redis::step::{Op, Step};
use turnwise_redis::{Called, Limits, MemoryStore, NoticeSink, Owner, Remote, Store};

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
        assert!(short.remaining() > Duration::from_secs(50));
        assert!(long.renew(SHORT).wait().unwrap().is_ok());
        pass(SHORT * 2);
        assert!(!long.is_lost() && other.try_lock("b").wait().is_err());
    }
}

/// A lease is counted from its grant also if that came from the queue, whose entries live longer.
#[test]
fn a_short_lease_from_the_queue_is_short() {
    for (remote, _server) in remotes() {
        let locks = remote.locks();
        let held = locks.lock("a").wait().unwrap();
        let waits = locks.lock_within("a", Limits::NONE.lease(SHORT));
        until("it waits", || locks.info("a").wait().unwrap().unwrap().waiting == 1);
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
    let held: Vec<_> = (0..300).map(|n| locks.lock(&n.to_string()).wait().unwrap()).collect();
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
        let kept: Vec<_> = (0..9).map(|n| locks.lock(&n.to_string()).wait().unwrap()).collect();
        let short = locks.lock_within("short", Limits::NONE.lease(SHORT)).wait().unwrap();
        let (lost, forced) = (short.lost(), kept[3].lost());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(lost);
        assert!(locks.force_release("3").wait().unwrap().unwrap());
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

    fn listen(&self, client: &str, sink: NoticeSink) {
        self.store.listen(client, sink);
    }

    fn forget(&self, client: &str) {
        self.store.forget(client);
    }
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
