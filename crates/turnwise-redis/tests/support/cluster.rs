//! A cluster of three nodes, each of which is a server of its own.

use std::process::{Command, Stdio};

use super::{Server, free_port, until};

pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    pub fn start() -> Cluster {
        let nodes: Vec<_> = (0..3).map(|_| node()).collect();
        let all = nodes.iter().map(|(node, bus)| format!("127.0.0.1:{}@{bus}", node.port));
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(all).arg("--cluster-yes");
        let created = create.stdin(Stdio::null()).output();
        let created = created.expect("these tests need `redis-cli`: install it");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        let cluster = Cluster { nodes: nodes.into_iter().map(|(node, _)| node).collect() };
        cluster.is_up();
        cluster
    }

    /// Waits until all nodes serve all slots.
    pub fn is_up(&self) {
        let is_ok = |line: &String| line == "cluster_state:ok";
        let up = |node: &Server| node.all("CLUSTER INFO\r\nQUIT", 60).iter().any(is_ok);
        until("all nodes serve", || self.nodes.iter().all(up));
    }

    /// Adds a replica of a node, which takes over when that is gone.
    pub fn add_replica(&mut self, of: usize) {
        let (replica, bus) = node();
        let meet = format!("CLUSTER MEET 127.0.0.1 {} {bus}", replica.port);
        assert_eq!(self.nodes[of].ask(&meet), "+OK");
        let follow = format!("CLUSTER REPLICATE {}", self.id(of));
        until("it is known", || replica.ask(&follow) == "+OK");
        let up = |line: &String| line == "master_link_status:up";
        until("it follows", || replica.all("INFO replication\r\nQUIT", 60).iter().any(up));
        self.nodes.push(replica);
        self.is_up();
    }

    /// Returns the name of a node in the cluster.
    pub fn id(&self, node: usize) -> String {
        self.nodes[node].all("CLUSTER MYID", 2).pop().unwrap()
    }

    pub fn url(&self) -> String {
        self.nodes[0].url()
    }
}

/// Starts a node, and returns it with the port that other nodes use.
fn node() -> (Server, u16) {
    let bus = free_port();
    let node = ["--save", "", "--cluster-enabled", "yes", "--cluster-node-timeout", "500"];
    let at_once = ["--repl-diskless-sync-delay", "0"];
    (Server::with(&[&node[..], &at_once, &["--cluster-port", &bus.to_string()]].concat()), bus)
}
