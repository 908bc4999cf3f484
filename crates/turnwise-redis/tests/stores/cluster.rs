//! Clients of a cluster whose slots move and whose nodes are killed. The properties of every store
//! are tested over a cluster, too: `contract::cluster`, `admission::cluster`, `actors::cluster`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::board::{Add, Board};
use crate::support::cluster::Cluster;
use crate::support::{Server, until};
use turnwise_redis::{
    Actors, ConnectError, Majority, MajorityError, MessageError, RedisStore, Remote, RemoteBuilder,
    StoreError,
};

fn builder() -> RemoteBuilder {
    Remote::builder().answer_within(Duration::from_millis(500))
}

fn boards(remote: &Remote, shards: u32) -> Actors<Board> {
    remote.actors("board").message::<Add>("add").shards(shards).open().unwrap()
}

/// Moves a slot to another node, with a few keys at a time.
struct Move<'a> {
    slot: &'a str,
    from: &'a Server,
    to: &'a Server,
}

impl Move<'_> {
    fn keys(&self, most: usize) -> Vec<String> {
        let ask = format!("CLUSTER GETKEYSINSLOT {} {most}\r\nQUIT", self.slot);
        let lines = self.from.all(&ask, 1 + 2 * most);
        lines.into_iter().filter(|line| line.contains('{')).collect()
    }

    fn take(&self, most: usize) -> usize {
        let keys = self.keys(most);
        if !keys.is_empty() {
            let (port, keys) = (self.to.port, keys.join(" "));
            let moved = format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {keys}");
            assert_eq!(self.from.ask(&moved), "+OK");
        }
        keys.len()
    }
}

/// A drainer works all the time. While some keys are on one node, and some on the other, no step of
/// their object runs on either.
#[test]
fn objects_in_a_moving_slot_are_refused_as_a_whole() {
    let cluster = Cluster::start();
    let remote = builder().connect(&cluster.url()).unwrap();
    let board = boards(&remote, 1).of("eu").unwrap();
    assert_eq!(board.ask(Add(0)).wait(), Ok(1));
    let key = "turnwise:{actor:board/0}:n";
    let slot = cluster.nodes[0].ask(&format!("CLUSTER KEYSLOT {key}"));
    let owns = |node: &usize| cluster.nodes[*node].ask(&format!("GET {key}")) == "$1";
    let from = (0..3).find(owns).unwrap();
    let to = (from + 1) % 3;
    let (from_id, to_id) = (cluster.id(from), cluster.id(to));
    let moves = Move { slot: &slot[1..], from: &cluster.nodes[from], to: &cluster.nodes[to] };
    let set = |node: &Server, what: String| {
        assert_eq!(node.ask(&format!("CLUSTER SETSLOT {} {what}", moves.slot)), "+OK");
    };
    let (stop, replies) = (AtomicBool::new(false), Mutex::new(vec![1]));
    let short = Duration::from_millis(100);
    let soon = builder().give_up_after(short).place(short);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                if stop.load(Relaxed) {
                    return;
                }
                let reply = board.ask(Add(number)).wait().unwrap();
                replies.lock().unwrap().push(reply);
            }
        });
        let so_far = || replies.lock().unwrap().len();
        until("messages are handled", || so_far() > 20);
        set(moves.to, format!("IMPORTING {from_id}"));
        set(moves.from, format!("MIGRATING {to_id}"));
        let other = boards(&soon.connect(&cluster.url()).unwrap(), 1).of("eu").unwrap();
        for _ in 0..5 {
            let before = moves.keys(1000).len();
            let refused = other.ask(Add(1_000_000)).wait();
            let unreachable = matches!(
                refused,
                Err(MessageError::Store(
                    StoreError::Unreachable { .. } | StoreError::TimedOut { .. }
                ) | MessageError::TimedOut { .. })
            );
            assert!(unreachable, "{refused:?}");
            // Nothing was written, and nothing new.
            assert_eq!(moves.keys(1000).len(), before);
            moves.take(1);
        }
        until("all keys have moved", || moves.take(10) == 0);
        set(moves.to, format!("NODE {to_id}"));
        set(moves.from, format!("NODE {to_id}"));
        let before = so_far();
        until("messages are handled again", || so_far() > before + 20);
        stop.store(true, Relaxed);
    });
    let replies = replies.into_inner().unwrap();
    assert!(replies.iter().copied().eq(1..=replies.len()), "{replies:?}");
    let added = board.info().wait().unwrap().unwrap().state.unwrap().added;
    assert!(added.iter().copied().eq(0..replies.len() as u64), "{added:?}");
}

#[test]
fn a_node_is_killed_and_its_replica_takes_over() {
    let mut cluster = Cluster::start();
    cluster.add_replica(0);
    // Any node will do, also one that is gone later.
    let remote = builder().connect(&cluster.url()).unwrap();
    let locks = remote.locks();
    let held: Vec<_> =
        (0..12).map(|number| locks.lock(format!("{number}")).wait().unwrap()).collect();
    let boards = boards(&remote, 8);
    let all: Vec<_> = (0..12).map(|number| boards.of(&format!("{number}")).unwrap()).collect();
    for board in &all {
        assert_eq!(board.ask(Add(1)).wait(), Ok(1));
    }
    let offset = |node: usize| {
        let info = cluster.nodes[node].all("INFO replication\r\nQUIT", 60);
        info.into_iter().find(|line| line.starts_with("master_repl_offset:"))
    };
    until("the replica has all", || offset(0) == offset(3));
    cluster.nodes[0].kill();
    let killed = Instant::now();
    for board in &all {
        assert_eq!(board.ask(Add(2)).wait(), Ok(2));
    }
    println!("back after {:?}", killed.elapsed());
    for guard in held {
        assert!(!guard.is_lost());
        assert_eq!(guard.release().wait(), Ok(()));
    }
}

/// One step cannot renew holds of several slots, so each slot has its own.
#[test]
fn holds_are_renewed_on_all_nodes() {
    let cluster = Cluster::start();
    let lease = Duration::from_millis(600);
    let remote = builder().lease(lease).connect(&cluster.url()).unwrap();
    let locks = remote.locks();
    let held: Vec<_> =
        (0..24).map(|number| locks.lock(format!("{number}")).wait().unwrap()).collect();
    let began = Instant::now();
    until("three leases have passed", || began.elapsed() > lease * 3);
    for guard in held {
        assert!(!guard.is_lost());
        assert_eq!(guard.release().wait(), Ok(()));
    }
}

/// Adds a user who may ask for nothing else, and returns the address of the first node with it.
fn for_few(cluster: &Cluster) -> String {
    for node in &cluster.nodes {
        let user = "ACL SETUSER few on >secret ~* &* +@all -info -cluster -config";
        assert_eq!(node.ask(user), "+OK");
    }
    format!("redis://few:secret@127.0.0.1:{}/", cluster.nodes[0].port)
}

/// A user who may ask for nothing else follows the redirections.
#[test]
fn owners_of_slots_are_learned_from_redirections() {
    let cluster = Cluster::start();
    let locks = builder().connect(&for_few(&cluster)).unwrap().locks();
    for number in 0..12 {
        let guard = locks.lock(format!("{number}")).wait().unwrap();
        assert_eq!(guard.release().wait(), Ok(()));
    }
}

/// A node is known as one of a cluster before it has redirected a step: its holds are in several
/// slots.
#[test]
fn holds_are_renewed_before_a_redirection() {
    let cluster = Cluster::start();
    let lease = Duration::from_millis(600);
    // Unlike `connect`, this sends no step of its own.
    let store = RedisStore::new(&for_few(&cluster), "test", lease).unwrap();
    let locks = builder().prefix("test").lease(lease).over(store).unwrap().locks();
    // The first of three nodes owns the first third of the slots.
    let is_owned = |name: &String| {
        let slot = cluster.nodes[0].ask(&format!("CLUSTER KEYSLOT test:{{lock:{name}}}"));
        slot[1..].parse::<u32>().unwrap() < 5000
    };
    let names = (0..).map(|number| number.to_string()).filter(is_owned);
    let held: Vec<_> = names.take(3).map(|name| locks.lock(name).wait().unwrap()).collect();
    let began = Instant::now();
    until("three leases have passed", || began.elapsed() > lease * 3);
    for guard in held {
        assert_eq!(guard.release().wait(), Ok(()));
    }
}

/// Three nodes of a cluster are one store: a majority of them would be no majority.
#[test]
fn majorities_of_a_clusters_nodes_are_refused() {
    let cluster = Cluster::start();
    let urls: Vec<_> = cluster.nodes.iter().map(Server::url).collect();
    let refused = Majority::connect(urls.iter().map(|url| &**url)).unwrap_err();
    let MajorityError::Node { error: ConnectError::Store(error), .. } = refused else {
        panic!("{refused:?}")
    };
    assert!(matches!(error, StoreError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("independent"), "{error}");
}
