//! The nodes of a cluster, and the slots that each of them owns.
//!
//! All keys of an object have one hash tag, so an object lives in one slot, and on one node at a
//! time. A slot is looked up here; a node that does not own it any more names the one that does.
//!
//! - CLUSTER-1: a step is sent to one node. A redirection has had no effect, so the step may be
//!   sent again.
//! - CLUSTER-2: while a slot moves, its objects are refused as a whole. Each command states one
//!   more key of the object, which never exists: the node that a slot leaves does not run a command
//!   one of whose keys is gone, and the other one runs none before it owns the slot.
//! - CLUSTER-3: a node that does not answer is asked for nothing until another node names it again,
//!   as it does until a replica has taken over.
//!
//! The cluster client of the `redis` crate (1.8) is not used, for three reasons:
//!
//! - It repeats a command by itself, up to sixteen times, also if a connection broke before the
//!   answer, and does not report it. A withdrawal has to know whether copies of its request may be
//!   on their way. Redirections count as repetitions, so none at all is no choice.
//! - It follows `ASK` to the node that a slot moves to, which may have a part of an object. The
//!   second key of CLUSTER-2 makes that node refuse, and the client repeats the command there. Here
//!   the refusal is an error at once, and the limit of the request decides.
//! - It keeps connections to all nodes, for each runtime that sends steps. Here the first step for
//!   a node opens one, and the node is checked before.

use std::sync::Arc;

use redis::Value;

/// The number of slots of a cluster.
const SLOTS: usize = 16_384;

/// The address of a node, `HOST:PORT`. `None` is the address that the store was opened with.
pub(crate) type Node = Option<Arc<str>>;

/// The known nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Empty if the server is no cluster, as far as it is known.
    owners: Vec<Node>,
    known: Vec<Arc<str>>,
    /// Advances with each failure, so that another node is asked next.
    turn: usize,
}

impl Nodes {
    pub(crate) fn is_cluster(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Records that the server is a cluster.
    pub(crate) fn are_several(&mut self) {
        self.owners.resize(SLOTS, None);
    }

    /// Returns the node of a key, or any one if it is not known.
    pub(crate) fn of(&self, key: &str) -> Node {
        if self.is_cluster() { self.owner(slot(key)) } else { None }
    }

    fn owner(&self, slot: u16) -> Node {
        match self.owners.get(usize::from(slot)) {
            Some(Some(owner)) => Some(owner.clone()),
            _ => self.known.get(self.turn.checked_rem(self.known.len() + 1)?).cloned(),
        }
    }

    /// Sets the owner of a range of slots.
    pub(crate) fn owns(&mut self, owner: &Arc<str>, from: u16, to: u16) {
        self.are_several();
        self.knows(owner);
        let range = usize::from(from)..=usize::from(to);
        if let Some(owners) = self.owners.get_mut(range) {
            owners.fill(Some(owner.clone()));
        }
    }

    /// Adds a node, which may be asked when others fail.
    fn knows(&mut self, node: &Arc<str>) {
        if !self.known.contains(node) {
            self.known.push(node.clone());
        }
    }

    /// Records that a node does not answer.
    pub(crate) fn fails(&mut self, node: &Node) {
        self.turn = self.turn.wrapping_add(1);
        if node.is_some() {
            let owned = self.owners.iter_mut().filter(|owner| *owner == node);
            owned.for_each(|owner| *owner = None);
        }
    }

    /// Learns the nodes from an answer to `CLUSTER SLOTS`. An empty host is this one.
    pub(crate) fn learn(&mut self, slots: &Value, host: &str) {
        self.are_several();
        let Value::Array(ranges) = slots else { return };
        for range in ranges {
            let Value::Array(range) = range else { continue };
            let [Value::Int(from), Value::Int(to), nodes @ ..] = &**range else { continue };
            let (Ok(from), Ok(to)) = (u16::try_from(*from), u16::try_from(*to)) else { continue };
            let mut nodes = nodes.iter().filter_map(|node| address(node, host));
            if let Some(owner) = nodes.next() {
                self.owns(&owner, from, to);
            }
            // Replicas, which name the owner.
            nodes.for_each(|node| self.knows(&node));
        }
    }
}

/// Returns the address of a node in an answer to `CLUSTER SLOTS`.
fn address(node: &Value, host: &str) -> Option<Arc<str>> {
    let Value::Array(node) = node else { return None };
    let [name, Value::Int(port), ..] = &**node else { return None };
    let name = match name {
        Value::BulkString(name) => std::str::from_utf8(name).ok()?,
        _ => "",
    };
    Some(whole(&format!("{name}:{port}"), host))
}

/// Returns the address of a redirection, with this host if it names none.
pub(crate) fn whole(address: &str, host: &str) -> Arc<str> {
    match address.rsplit_once(':') {
        Some(("" | "?", port)) => format!("{host}:{port}").into(),
        _ => address.into(),
    }
}

/// Returns the slot of a key: CRC-16 (XMODEM) of its hash tag.
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let tag = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % SLOTS as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_server() {
        // As `CLUSTER KEYSLOT` answers.
        assert_eq!(slot("123456789"), 12_739);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("turnwise:{foo}:q"), 12_182);
        assert_eq!(slot("{}foo"), slot("{}foo"));
        assert_ne!(slot("{}foo"), slot(""));
    }

    #[test]
    fn nodes_that_fail_are_not_asked_before_another_names_them() {
        let mut nodes = Nodes::default();
        assert_eq!((nodes.of("a"), nodes.is_cluster()), (None, false));
        let node = |port| {
            let host = Value::BulkString(Vec::new());
            Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())])
        };
        let range = |from, to, port| {
            Value::Array(vec![Value::Int(from), Value::Int(to), node(port), node(port + 100)])
        };
        nodes.learn(&Value::Array(vec![range(0, 9, 1), range(10, 16_383, 2)]), "here");
        assert_eq!(nodes.owner(9).as_deref(), Some("here:1"));
        assert_eq!(nodes.owner(16_383).as_deref(), Some("here:2"));
        let first = nodes.owner(0);
        nodes.fails(&first);
        let asked: Vec<_> = (0..5)
            .map(|_| {
                let asked = nodes.owner(0);
                nodes.fails(&None);
                asked.map_or("home".to_owned(), |node| node.to_string())
            })
            .collect();
        assert_eq!(asked, ["here:101", "here:2", "here:102", "home", "here:1"]);
        assert_eq!(nodes.owner(10).as_deref(), Some("here:2"));
        nodes.owns(&whole("?:101", "here"), 0, 0);
        assert_eq!(nodes.owner(0).as_deref(), Some("here:101"));
    }
}
