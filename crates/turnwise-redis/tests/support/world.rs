//! The stores that have the same properties: in memory, in memory with faults, in memory without
//! notices, over an engine of a user that loses races, in a file, in a server, in a server behind a
//! proxy that loses and doubles, and in a cluster.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use turnwise_redis::engine::Over;
use turnwise_redis::{MemoryStore, Remote, RemoteBuilder};

use super::Server;
use super::cluster::Cluster;
use super::faulty::{Deaf, Faulty};
use super::naive::Shelf;
use super::proxy::Proxy;

/// A store, and a factory of its clients.
pub trait World: Send + Sync {
    fn client(&self, builder: RemoteBuilder) -> Remote;

    /// True if answers always arrive, and in time.
    fn is_sound(&self) -> bool {
        true
    }

    fn clients(&self, count: usize) -> Vec<Remote> {
        (0..count).map(|_| self.client(builder())).collect()
    }
}

pub fn builder() -> RemoteBuilder {
    Remote::builder().prefix("test").lease(Duration::from_secs(5)).place(Duration::from_secs(2))
}

pub struct Near(pub MemoryStore);

impl World for Near {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        builder.over(self.0.clone()).unwrap()
    }
}

pub struct Faults(pub Faulty);

impl World for Faults {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        builder.over(self.0.clone()).unwrap()
    }

    fn is_sound(&self) -> bool {
        false
    }
}

pub struct NoNotices(pub MemoryStore);

impl World for NoNotices {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        // The next refresh finds a grant.
        let builder = builder.place(Duration::from_millis(60));
        builder.over(Deaf(self.0.clone())).unwrap()
    }
}

/// An engine of a user, which loses races: each client has its own, as programs do.
#[derive(Default)]
pub struct Users(Shelf);

impl World for Users {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        static SEED: AtomicUsize = AtomicUsize::new(3);
        let seed = SEED.fetch_add(1, Relaxed) as u64;
        builder.over(Over::new(self.0.engine(seed)).unwrap()).unwrap()
    }

    fn is_sound(&self) -> bool {
        false
    }
}

/// A file, which each client opens for itself, as programs do.
#[cfg(feature = "sqlite")]
pub struct File(std::path::PathBuf);

#[cfg(feature = "sqlite")]
impl File {
    pub fn new() -> File {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("turnwise-file-{}-{number}", std::process::id());
        let folder = super::scratch().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        File(folder)
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.0.join("store")
    }
}

#[cfg(feature = "sqlite")]
impl World for File {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        builder.over(turnwise_redis::FileStore::open(self.path()).unwrap()).unwrap()
    }
}

#[cfg(feature = "sqlite")]
impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct Far(pub Server);

impl World for Far {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        builder.connect(&self.0.url()).unwrap()
    }
}

pub struct Behind(pub Proxy, pub Server);

impl World for Behind {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        let connect =
            || builder.clone().answer_within(Duration::from_millis(500)).connect(&self.0.url());
        // The first step may be lost.
        (0..50).find_map(|_| connect().ok()).expect("one of fifty comes through")
    }

    fn is_sound(&self) -> bool {
        false
    }
}

/// A cluster, with a prefix for each rule. Clients begin at different nodes.
pub struct Clustered<'a>(pub &'a Cluster, pub &'a str);

impl World for Clustered<'_> {
    fn client(&self, builder: RemoteBuilder) -> Remote {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let node = &self.0.nodes[NUMBER.fetch_add(1, Relaxed) % self.0.nodes.len()];
        builder.prefix(self.1).connect(&node.url()).unwrap()
    }
}

/// Turns each rule into a test for each store. One cluster serves all rules.
macro_rules! contract {
    ($($(#[$about:meta])* fn $name:ident($world:ident) $body:block)*) => {
        mod rules {
            use super::*;
            $($(#[$about])* pub(super) fn $name($world: &dyn World) $body)*
        }
        contract!(@ memory, Near(turnwise_redis::MemoryStore::new()), $($name)*);
        contract!(@ memory_with_faults, Faults(Faulty::new(turnwise_redis::MemoryStore::new(), 7)), $($name)*);
        contract!(@ memory_without_notices, NoNotices(turnwise_redis::MemoryStore::new()), $($name)*);
        contract!(@ engine, Users::default(), $($name)*);
        #[cfg(feature = "sqlite")]
        contract!(@ file, File::new(), $($name)*);
        contract!(@ server, Far($crate::support::Server::start()), $($name)*);
        contract!(@ server_behind_a_proxy, {
            let server = $crate::support::Server::start();
            Behind(Proxy::faulty(server.port, 11), server)
        }, $($name)*);
        #[test]
        fn cluster() {
            use $crate::support::{cluster::Cluster, world::Clustered};
            let cluster = Cluster::start();
            $(rules::$name(&Clustered(&cluster, stringify!($name)));)*
        }
    };
    (@ $store:ident, $world:expr, $($name:ident)*) => {
        mod $store {
            use super::*;
            #[allow(unused_imports, reason = "each store has its own")]
            use $crate::support::{faulty::Faulty, proxy::Proxy, world::*};
            $(#[test] fn $name() { rules::$name(&$world) })*
        }
    };
}

pub(crate) use contract;
