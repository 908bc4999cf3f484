//! Locks by a majority: in memory, and of three servers of which one or two are killed, stopped, or
//! do not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::faulty::Faulty;
use crate::support::proxy::{Fate, Proxy};
use crate::support::{Server, until};
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
use tokio::sync::watch;
use turnwise_redis::step::{Answer, Op, Step};
use turnwise_redis::{
    Called, Fenced, Limits, LockError, Majority, MajorityBuilder, MajorityError, MajorityGuard,
    MemoryStore, NoticeSink, RedisStore, ReleaseError, Store,
};

const LEASE: Duration = Duration::from_millis(600);

/// The servers of these tests were started just now, and have nothing to forget.
fn builder() -> MajorityBuilder {
    let answer = Duration::from_millis(200);
    Majority::builder().prefix("test").lease(LEASE).answer_within(answer).quarantine(Duration::ZERO)
}

fn three() -> [Server; 3] {
    [Server::start(), Server::start(), Server::start()]
}

fn over(servers: &[Server]) -> Majority {
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    builder().connect(urls.iter().map(String::as_str)).unwrap()
}

fn stores(count: usize) -> Vec<Arc<dyn Store>> {
    (0..count).map(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>).collect()
}

#[test]
fn one_at_a_time_and_fences_increase() {
    one_at_a_time(stores(5));
}

/// Steps are lost, doubled and late, at each of them.
#[test]
fn one_at_a_time_and_fences_increase_whatever_is_lost() {
    let faulty = |seed| Arc::new(Faulty::new(MemoryStore::new(), seed)) as Arc<dyn Store>;
    one_at_a_time((0..3).map(faulty).collect());
}

fn one_at_a_time(stores: Vec<Arc<dyn Store>>) {
    let (inside, file) = (AtomicUsize::new(0), Fenced::new(0));
    let (clients, rounds) = (3, 15);
    thread::scope(|scope| {
        for _ in 0..clients {
            let majority = builder().lease(LEASE * 20).over(stores.clone()).unwrap();
            let (inside, file) = (&inside, &file);
            scope.spawn(move || {
                for _ in 0..rounds {
                    let guard = majority.lock("a").wait().unwrap();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    // It refuses a fence that is not greater.
                    file.with(guard.fence(), |count| *count += 1).unwrap();
                    inside.fetch_sub(1, SeqCst);
                    drop(guard);
                }
            });
        }
    });
    let last = builder().over(stores).unwrap().lock("a").wait().unwrap();
    assert_eq!(file.with(last.fence(), |count| *count).unwrap(), clients * rounds);
}

#[test]
fn a_guard_holds_until_it_is_dropped() {
    let stores = stores(3);
    let majority = builder().over(stores.clone()).unwrap();
    let other = builder().over(stores).unwrap();
    let guard = majority.lock("a").wait().unwrap();
    assert_eq!(guard.name(), "a");
    assert!(guard.remaining() <= Some(LEASE));
    // It is renewed.
    let began = Instant::now();
    until("some leases are over", || began.elapsed() > LEASE * 3);
    assert!(!guard.is_lost());
    assert!(matches!(other.try_lock("a").wait(), Err(LockError::Busy { .. })));
    let error = other.lock_within("a", Limits::wait(Duration::from_millis(30))).wait().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    let waits = other.lock("a");
    drop(guard);
    let next = waits.wait().unwrap();
    // With a lease of its own it ends with that.
    drop(next);
    let limits = turnwise_redis::Limits::wait(Duration::from_secs(5)).lease(LEASE / 6);
    let short = majority.lock_within("a", limits).wait().unwrap();
    let lost = short.lost();
    drop(other.lock("a").wait().unwrap());
    assert!(short.is_lost());
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(lost);
    assert_eq!(short.remaining(), Some(Duration::ZERO));
    let fence = short.fence();
    assert_eq!(short.release().wait(), Err(ReleaseError::Lost(fence)));
}

#[test]
fn what_is_given_up_is_free_at_once() {
    let stores = stores(3);
    let majority = builder().lease(LEASE * 100).over(stores.clone()).unwrap();
    let other = builder().lease(LEASE * 100).over(stores).unwrap();
    let guard = majority.lock("a").wait().unwrap();
    drop(other.lock("a"));
    drop(guard);
    drop(majority.lock("b"));
    for name in ["a", "b"] {
        drop(other.lock_within(name, Limits::wait(Duration::from_secs(20))).wait().unwrap());
    }
}

#[test]
fn nodes_that_make_no_majority_are_refused() {
    for nodes in 0..3 {
        let error = Majority::in_memory(nodes).unwrap_err();
        assert_eq!(error, MajorityError::TooFew { nodes });
    }
    for nodes in [4, 6, usize::MAX - 1] {
        let error = Majority::in_memory(nodes).unwrap_err();
        assert_eq!(error, MajorityError::Even { nodes });
    }
    let mut same = stores(3);
    same[2] = same[0].clone();
    let error = builder().over(same).unwrap_err();
    assert_eq!(error, MajorityError::Same { nodes: (0, 2) });
    let error = Majority::connect(["redis://a/", "nonsense", "redis://b/"]).unwrap_err();
    assert!(matches!(error, MajorityError::Node { node: 1, .. }), "{error:?}");

    // The same server by two names.
    let servers = [Server::start(), Server::start()];
    let [one, other] = servers.each_ref().map(Server::url);
    let again = one.replace("127.0.0.1", "localhost");
    let error = builder().connect([one.as_str(), &other, &again]).unwrap_err();
    assert_eq!(error, MajorityError::Same { nodes: (0, 2) });
    // Two of three are not there.
    let nobody = "redis://127.0.0.1:1/";
    let error = builder().connect([one.as_str(), nobody, "redis://127.0.0.1:2/"]).unwrap_err();
    let MajorityError::NoMajority(votes) = &error else { panic!("{error:?}") };
    assert_eq!((votes.granted, votes.failed.len() + votes.silent), (1, 2), "{error}");
    // One may be missing.
    let majority = builder().connect([one.as_str(), nobody, &other]).unwrap();
    drop(majority.lock("a").wait().unwrap());
}

#[test]
fn names_and_leases_that_cannot_be() {
    let majority = Majority::in_memory(3).unwrap();
    assert!(matches!(majority.lock("").wait(), Err(LockError::Name(_))));
    let long = "x".repeat(1025);
    assert!(matches!(majority.lock(&long).wait(), Err(LockError::Name(_))));
    let limits = turnwise_redis::Limits::NONE.lease(Duration::from_millis(9));
    assert_eq!(majority.lock_within("a", limits).wait().unwrap_err(), LockError::LeaseTooShort);
    let limits = turnwise_redis::Limits::wait(Duration::MAX).lease(Duration::MAX);
    drop(majority.lock_within("a", limits).wait().unwrap());
    assert!(builder().prefix("").over(stores(3)).is_err());
}

/// Locks `a` on all servers. One that grants it late counts when the hold is confirmed there.
fn held_by_all(majority: &Majority, servers: &[Server]) -> MajorityGuard {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = |server: &Server| RedisStore::new(&server.url(), "test", LEASE).unwrap();
    let stores: Vec<_> = servers.iter().map(store).collect();
    let look = Op { key: "test:{majority:a}".to_owned(), places: 1, above: 0, step: Step::Look };
    let mut held = None;
    until("all servers hold it", || {
        drop(held.take());
        let guard = held.insert(majority.lock("a").wait().unwrap());
        stores.iter().all(|store| {
            let seen = runtime.block_on(store.call(&look)).unwrap();
            matches!(seen, Answer::Seen { holders, fence, .. }
                if holders.len() == 1 && fence == guard.fence().number())
        })
    });
    held.unwrap()
}

/// A store that answers when it is open.
#[derive(Debug)]
struct Gate {
    store: MemoryStore,
    open: watch::Sender<bool>,
}

impl Store for Gate {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            let _ = self.open.subscribe().wait_for(|open| *open).await;
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
fn a_server_that_grants_late_counts() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let gate = |open| {
        let (store, open) = (MemoryStore::new(), watch::Sender::new(open));
        Arc::new(Gate { store, open })
    };
    let nodes = [gate(true), gate(true), gate(false)];
    let stores = nodes.iter().map(|node| node.clone() as Arc<dyn Store>);
    // Requests to a closed one wait for a while.
    let majority = builder().lease(LEASE * 5).answer_within(LEASE * 5).over(stores).unwrap();
    let guard = majority.lock("a").wait().unwrap();
    nodes[2].open.send_replace(true);
    let look = Op { key: "test:{majority:a}".to_owned(), places: 1, above: 0, step: Step::Look };
    until("the third has granted it", || {
        let seen = runtime.block_on(nodes[2].store.call(&look)).unwrap();
        matches!(seen, Answer::Seen { holders, fence, .. }
            if holders.len() == 1 && fence > guard.fence().number())
    });
    nodes[0].open.send_replace(false);
    let began = Instant::now();
    until("some leases are over", || began.elapsed() > LEASE * 10 || guard.is_lost());
    assert!(!guard.is_lost());
    guard.release().wait().unwrap();
}

/// A server whose memory was full as the lock was requested, or which has forgotten it, has the
/// hold before another server is gone, but not before its quarantine is over.
#[test]
fn holds_spread_to_servers_that_do_not_have_them() {
    for forgets in [false, true] {
        let mut servers = three();
        let urls = servers.each_ref().map(Server::url);
        let builder = builder().quarantine(LEASE);
        let majority = builder.connect(urls.iter().map(String::as_str)).unwrap();
        let mut began = Instant::now();
        let guard = if forgets {
            let guard = held_by_all(&majority, &servers);
            began = Instant::now();
            servers[2].kill();
            servers[2].run();
            guard
        } else {
            assert_eq!(servers[2].ask("CONFIG SET maxmemory 1"), "+OK");
            let guard = majority.lock("a").wait().unwrap();
            assert_eq!(servers[2].ask("CONFIG SET maxmemory 0"), "+OK");
            guard
        };
        until("the third has it", || servers[2].ask("EXISTS test:{majority:a}") == ":1");
        assert!(began.elapsed() > LEASE);
        servers[0].kill();
        let killed = Instant::now();
        until("some leases are over", || killed.elapsed() > LEASE * 4 || guard.is_lost());
        assert!(!guard.is_lost(), "forgets: {forgets}");
        guard.release().wait().unwrap();
    }
}

#[test]
fn one_server_is_killed() {
    let mut servers = three();
    let majority = over(&servers);
    let held = held_by_all(&majority, &servers);
    servers[1].kill();
    // The others renew it, and grant new ones.
    let began = Instant::now();
    drop(majority.lock("b").wait().unwrap());
    println!("one is killed: a lock is had after {:?}", began.elapsed());
    until("some leases are over", || began.elapsed() > LEASE * 3);
    assert!(!held.is_lost());
    let fence = held.fence();
    held.release().wait().unwrap();
    servers[1].run();
    assert!(majority.lock("a").wait().unwrap().fence() > fence);
}

#[test]
fn one_server_is_stopped() {
    let servers = three();
    let majority = over(&servers);
    let held = held_by_all(&majority, &servers);
    servers[0].signal(SIGSTOP);
    let began = Instant::now();
    drop(majority.lock("b").wait().unwrap());
    println!("one is stopped: a lock is had after {:?}", began.elapsed());
    until("some leases are over", || began.elapsed() > LEASE * 3);
    assert!(!held.is_lost());
    held.release().wait().unwrap();
    servers[0].signal(SIGCONT);
    // It receives late what was released.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let there = RedisStore::new(&servers[0].url(), "test", LEASE).unwrap();
    let look = Op { key: "test:{majority:b}".to_owned(), places: 1, above: 0, step: Step::Look };
    until("it is not held there", || {
        let seen = runtime.block_on(there.call(&look)).unwrap();
        matches!(seen, Answer::Seen { holders, .. } if holders.is_empty())
    });
    drop(majority.lock("b").wait().unwrap());
}

#[test]
fn two_servers_are_gone() {
    let mut servers = three();
    let majority = over(&servers);
    let held = majority.lock("a").wait().unwrap();
    servers[0].kill();
    servers[1].signal(SIGSTOP);
    let limit = Duration::from_millis(500);
    for limit in [Duration::ZERO, limit] {
        let began = Instant::now();
        let error = majority.lock_within("b", Limits::wait(limit)).wait().unwrap_err();
        let took = began.elapsed();
        let LockError::NoMajority(votes) = &error else { panic!("{error:?}") };
        assert_eq!(votes.nodes, 3);
        assert!(votes.granted <= 1, "{error}");
        assert!(took < limit + Duration::from_secs(3), "{took:?}");
        println!("two are gone: refused after {took:?} of {limit:?}: {error}");
    }
    // No majority renews it.
    until("it is lost", || held.is_lost());
    let fence = held.fence();
    drop(held);
    let waits = majority.lock_within("a", Limits::wait(Duration::from_secs(20)));
    let began = Instant::now();
    servers[1].signal(SIGCONT);
    let next = waits.wait().unwrap();
    println!("one is back: a lock is had after {:?}", began.elapsed());
    assert!(next.fence() > fence);
}

/// Servers that refuse for a while are asked again, as long as there is time.
#[test]
fn refusals_that_go_by_do_not_end_a_wait() {
    let servers = three();
    let majority = over(&servers);
    drop(majority.lock("a").wait().unwrap());
    for server in &servers[..2] {
        assert_eq!(server.ask("CONFIG SET maxmemory 1"), "+OK");
    }
    let refused = majority.try_lock("b").wait();
    assert!(matches!(refused, Err(LockError::NoMajority(_))), "{refused:?}");
    let mut waits = majority.lock_within("b", Limits::wait(Duration::from_secs(20)));
    let refuses = |server: &Server| {
        let lines = server.all("INFO errorstats\r\nQUIT", 20);
        let count = lines.iter().find_map(|line| line.strip_prefix("errorstat_OOM:count="));
        count.is_some_and(|count| count != "1")
    };
    until("both have refused it", || servers[..2].iter().all(refuses));
    assert!(waits.wait_timeout(Duration::ZERO).is_none());
    assert_eq!(servers[1].ask("CONFIG SET maxmemory 0"), "+OK");
    waits.wait().unwrap().release().wait().unwrap();
}

#[test]
fn answers_are_lost_between_the_rounds() {
    let servers = three();
    let proxies = servers.each_ref().map(|server| Proxy::new(server.port, || Fate::Forward));
    let urls = proxies.each_ref().map(Proxy::url);
    let majority = builder().connect(urls.iter().map(String::as_str)).unwrap();
    let mut last = majority.lock("a").wait().unwrap().fence();
    // The answer to the first round, or to the second; at one, two, or all nodes.
    for step in 0..2 {
        for nodes in 1..=3 {
            for fate in [Fate::LoseAnswer, Fate::LoseCommand, Fate::Double] {
                for proxy in &proxies[..nodes] {
                    let mut left = step;
                    proxy.then(move || {
                        left -= 1;
                        if left == -1 { fate } else { Fate::Forward }
                    });
                }
                let limit = Duration::from_secs(20);
                let guard = majority.lock_within("a", Limits::wait(limit)).wait().unwrap();
                assert!(guard.fence() > last, "{step} {nodes} {fate:?}");
                last = guard.fence();
                drop(guard);
                proxies.iter().for_each(|proxy| proxy.then(|| Fate::Forward));
            }
        }
    }
}

#[test]
fn a_server_that_has_forgotten_stays_away() {
    let mut servers = three();
    let urls = servers.each_ref().map(Server::url);
    let connect = || {
        let builder = builder().quarantine(Duration::from_secs(4));
        builder.connect(urls.iter().map(String::as_str)).unwrap()
    };
    let majority = connect();
    // All were started just now, so they may have forgotten, as far as is known.
    let error = majority.try_lock("a").wait().unwrap_err();
    let LockError::NoMajority(votes) = &error else { panic!("{error:?}") };
    assert!(votes.away >= 2, "{error}");
    drop(majority.lock("a").wait().unwrap());
    // Two forget. The third alone is no majority, whatever the two would grant.
    for server in &mut servers[..2] {
        server.kill();
        server.run();
    }
    let (old, new) = (majority, connect());
    let began = Instant::now();
    for majority in [&old, &new] {
        let wait = Duration::from_millis(500);
        let error = majority.lock_within("a", Limits::wait(wait)).wait().unwrap_err();
        let LockError::NoMajority(votes) = &error else { panic!("{error:?}") };
        assert!(votes.away > 0, "{error}");
    }
    drop(old.lock_within("a", Limits::wait(Duration::from_secs(20))).wait().unwrap());
    println!("back after {:?}", began.elapsed());
}
