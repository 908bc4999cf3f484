//! Locks held by a majority of independent servers, with fences.
//!
//! ```text
//!  round 1   Acquire(token) ──▶ all nodes         a majority grants, each by a fence of its own
//!  round 2   Confirm(token, greatest + 1) ──▶ all     a majority still holds, and writes it down
//!  later     Confirm(token, the same) ──▶ all     each third of the lease: a majority renews
//!            Acquire(token) ──▶ the others     which have answered that it does not hold there
//!  the end   Leave(token) ──▶ all                 also those that have not answered, until they do
//! ```
//!
//! - MAJORITY-1: two majorities share a node. There the earlier hold's fence was stored before the
//!   later hold was granted, so the later fence is greater; or the earlier token no longer held
//!   there when it came to be confirmed, and was refused. So fences increase whatever clocks say.
//! - MAJORITY-2: a node counts for a hold only while its token holds there, and only if no hold
//!   before it had so great a fence there: a late copy of `Acquire` may begin another hold after a
//!   later client's. The fence of the node's own grant may be greater, if it granted late.
//! - MAJORITY-3: a hold lasts from before its last confirmation was sent, less the drift of clocks.
//! - MAJORITY-4: each attempt has a token of its own, which is left on all nodes when the attempt
//!   fails.
//! - MAJORITY-5: a hold that a majority has renewed is requested at the nodes that do not have it,
//!   unless they stay away. The grant does not count. The next confirmation there does, by
//!   MAJORITY-2.
//!
//! `majority_search` in `stress-tests/search` visits all states of it.

#[path = "majority/hold.rs"]
mod hold;
#[path = "majority/vote.rs"]
mod vote;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use turnwise_locks::Limits;

use crate::attempt::Acquire;
use crate::business::Handles;
use crate::error::{ConnectError, LockError, Votes};
use crate::lock::Wanted;
use crate::memory::MemoryStore;
use crate::remote::{Remote, RemoteBuilder};
use crate::step::Step;
use crate::store::Store;
use crate::time::after;
use hold::MajorityHold;
use vote::{Asking, Gathered, Rest, Shared, Vote, Voter, attempt};

pub use hold::MajorityGuard;

/// Locks held by a majority of three, five or seven independent servers. Clones share the same
/// client.
///
/// **Most programs are better served by one server**, [`Remote`], and resources that compare
/// fences: that is fair, does not poll, and costs a third. A majority is for programs that need
/// their locks while a server is down, and cannot wait until it is back. It does not make locks
/// "more certain": writes that must be right compare fences in either case.
///
/// A hold needs a majority that grants it, and then a majority that stores its fence. Fences of
/// holds increase strictly, whatever clocks say: a hold that was requested after another one was
/// held has the greater fence. That at most one client holds at a time needs clocks whose rates
/// differ by less than a hundredth.
///
/// It is not fair. A request that finds the lock held is repeated after a random pause. A hold is
/// lost when no majority renews it.
///
/// The servers are not replicas of each other. **A server that has lost its data must stay away**
/// for as long as the longest lease: see [`MajorityBuilder::quarantine`].
///
/// # Examples
/// ```
/// use turnwise_redis::Majority;
///
/// // Over servers: `Majority::connect(["redis://a/", "redis://b/", "redis://c/"])`.
/// let majority = Majority::in_memory(3)?;
/// let guard = majority.lock("order 7").wait()?;
/// assert!(majority.try_lock("order 7").wait().is_err());
/// let fence = guard.fence();
/// guard.release().wait()?;
/// assert!(majority.lock("order 7").wait()?.fence() > fence);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Majority {
    shared: Arc<Shared>,
    handles: Handles,
}

/// The settings of a [`Majority`]: see [`Majority::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until it connects"]
pub struct MajorityBuilder {
    each: RemoteBuilder,
    quarantine: Option<Duration>,
}

/// An error that prevents a [`Majority`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MajorityError {
    /// Fewer than three nodes, of which none may fail.
    TooFew {
        /// The number of nodes.
        nodes: usize,
    },
    /// An even number of nodes: one node less tolerates as many failures.
    Even {
        /// The number of nodes.
        nodes: usize,
    },
    /// Two nodes are the same server, which would vote twice.
    Same {
        /// The numbers of the two, from 0 on.
        nodes: (usize, usize),
    },
    /// The address of a node is invalid, or its server is of the wrong kind.
    Node {
        /// The number of the node, from 0 on.
        node: usize,
        /// The error.
        error: ConnectError,
    },
    /// The client itself cannot be created.
    Client(ConnectError),
    /// Too few nodes answer.
    NoMajority(Votes),
}

impl fmt::Display for MajorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MajorityError::TooFew { nodes } => {
                write!(f, "a majority needs three nodes or more; there are {nodes}")
            }
            MajorityError::Even { nodes } => {
                write!(f, "a majority needs an odd number of nodes; there are {nodes}")
            }
            MajorityError::Same { nodes: (one, other) } => {
                write!(f, "nodes {one} and {other} are the same server")
            }
            MajorityError::Node { node, error } => write!(f, "node {node}: {error}"),
            MajorityError::Client(error) => error.fmt(f),
            MajorityError::NoMajority(votes) => write!(f, "no majority: {votes}"),
        }
    }
}

impl Error for MajorityError {}

impl Majority {
    /// A client of servers at these addresses: see [`Remote::connect`]. A minority of them may be
    /// down. May block for half a second.
    ///
    /// # Errors
    /// [`MajorityError`].
    pub fn connect<'a>(urls: impl IntoIterator<Item = &'a str>) -> Result<Self, MajorityError> {
        Majority::builder().connect(urls)
    }

    /// A client of several stores of its own in this process's memory, for trials.
    ///
    /// # Errors
    /// [`MajorityError::TooFew`], [`MajorityError::Even`]; [`MajorityError::Client`] if the
    /// operating system provides no thread.
    pub fn in_memory(nodes: usize) -> Result<Self, MajorityError> {
        // Checked before the stores are created.
        is_odd(nodes)?;
        let store = |_| Arc::new(MemoryStore::new()) as Arc<dyn Store>;
        Majority::builder().over((0..nodes).map(store))
    }

    /// A client with other settings.
    pub fn builder() -> MajorityBuilder {
        let each = Remote::builder().answer_within(Duration::from_millis(500));
        MajorityBuilder { each, quarantine: None }
    }

    /// Requests a lock, with no limit on the wait. If no majority answers, the request fails after
    /// the client's [patience](MajorityBuilder::give_up_after). This call does not wait; the
    /// [`Acquire`] does.
    pub fn lock(&self, name: impl AsRef<str>) -> Acquire<MajorityGuard> {
        self.lock_within(name, Limits::NONE)
    }

    /// Requests a lock with one attempt. [`LockError::Busy`] may also mean that several clients
    /// tried at once, and none had a majority.
    pub fn try_lock(&self, name: impl AsRef<str>) -> Acquire<MajorityGuard> {
        self.lock_within(name, Limits::wait(Duration::ZERO))
    }

    /// Requests a lock with limits on the time of attempts and on the hold. A hold with a lease of
    /// its own is not renewed; that lease must not be longer than the
    /// [quarantine](MajorityBuilder::quarantine).
    ///
    /// Fails with [`LockError`]: `TimedOut` or `Busy` if other clients hold it, `NoMajority` if too
    /// few nodes answer.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_redis::{Limits, LockError, Majority};
    ///
    /// let majority = Majority::in_memory(3)?;
    /// let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(6));
    /// let guard = majority.lock_within("raffle 633", limits).wait()?;
    /// // Clocks may differ by a hundredth.
    /// assert!(guard.remaining() < Some(Duration::from_secs(6) * 99 / 100));
    ///
    /// let wait = Limits::wait(Duration::from_millis(20));
    /// let late = majority.lock_within("raffle 633", wait).wait();
    /// assert!(matches!(late, Err(LockError::TimedOut { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock_within(
        &self,
        name: impl AsRef<str>,
        limits: impl Into<Limits>,
    ) -> Acquire<MajorityGuard> {
        let name = name.as_ref();
        let wanted = Wanted::new(limits.into());
        let first = &self.shared.nodes[0].client;
        match first.key("majority", name) {
            Err(error) => Acquire::over(Err(error.into())),
            Ok(_) if wanted.is_too_short() => Acquire::over(Err(LockError::LeaseTooShort)),
            Ok(key) => {
                let (shared, name) = (self.shared.clone(), name.into());
                let asking = async move { acquire(shared, key, name, wanted).await };
                Acquire::there(&first.home, &self.handles, MajorityGuard::handed, asking)
            }
        }
    }
}

impl fmt::Debug for Majority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.shared.nodes.len();
        f.debug_struct("Majority").field("nodes", &nodes).finish_non_exhaustive()
    }
}

fn is_odd(nodes: usize) -> Result<(), MajorityError> {
    match nodes {
        0..3 => Err(MajorityError::TooFew { nodes }),
        _ if nodes.is_multiple_of(2) => Err(MajorityError::Even { nodes }),
        _ => Ok(()),
    }
}

impl MajorityBuilder {
    /// Sets the prefix of all keys: see [`RemoteBuilder::prefix`].
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.each = self.each.prefix(prefix);
        self
    }

    /// Sets the time limit of the nodes' answers in each round. The default is half a second, the
    /// minimum ten milliseconds. A slower node does not vote in that round.
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.each = self.each.answer_within(limit);
        self
    }

    /// Sets the time after which a call without a limit fails if no majority answers. The default
    /// is thirty seconds.
    pub fn give_up_after(mut self, limit: Duration) -> Self {
        self.each = self.each.give_up_after(limit);
        self
    }

    /// Sets the lease of holds that are requested without one: how long they outlive their client.
    /// The default is thirty seconds, the minimum ten milliseconds. Holds are renewed each third of
    /// it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.each = self.each.lease(lease);
        self
    }

    /// Sets the certificates for servers at `rediss://`. The default is the system's roots.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.each = self.each.tls(tls);
        self
    }

    /// Sets the age below which a server does not vote, because it may have forgotten what it
    /// granted. The default is the lease. It has to be at least the longest lease that any client
    /// requests, on all clients.
    ///
    /// Zero disables it: right if servers write each step to their disks before they answer
    /// (`appendfsync always`), or if their operator waits before a start. The start of a server is
    /// read from `INFO server`; if a server does not permit that, its operator has to wait.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_redis::{Majority, MajorityError};
    ///
    /// let builder = Majority::builder()
    ///     .lease(Duration::from_secs(10))
    ///     .answer_within(Duration::from_millis(50))
    ///     .quarantine(Duration::from_secs(60));
    /// // No server is there.
    /// let urls = ["redis://127.0.0.1:1/", "redis://127.0.0.1:2/", "redis://127.0.0.1:3/"];
    /// let error = builder.connect(urls).unwrap_err();
    /// assert!(matches!(error, MajorityError::NoMajority(votes) if votes.granted == 0));
    /// ```
    pub fn quarantine(self, quarantine: Duration) -> Self {
        MajorityBuilder { quarantine: Some(quarantine), ..self }
    }

    /// Connects to servers: see [`Majority::connect`].
    ///
    /// # Errors
    /// [`MajorityError`].
    pub fn connect<'a>(
        self,
        urls: impl IntoIterator<Item = &'a str>,
    ) -> Result<Majority, MajorityError> {
        let urls: Vec<_> = urls.into_iter().collect();
        is_odd(urls.len())?;
        let prefix = self.each.checked_prefix().map_err(MajorityError::Client)?;
        let store = |(node, url): (usize, &&str)| {
            let store = self.each.store(url, &prefix);
            let store = store.map_err(|error| MajorityError::Node { node, error })?.alone();
            Ok(Arc::new(store) as Arc<dyn Store>)
        };
        let stores = urls.iter().enumerate().map(store).collect::<Result<Vec<_>, _>>()?;
        self.over(stores)
    }

    /// A client of any stores.
    ///
    /// # Errors
    /// [`MajorityError`].
    pub fn over(
        self,
        stores: impl IntoIterator<Item = Arc<dyn Store>>,
    ) -> Result<Majority, MajorityError> {
        let stores: Vec<_> = stores.into_iter().collect();
        is_odd(stores.len())?;
        let quarantine = self.quarantine.unwrap_or(self.each.leased());
        let answer = self.each.answer();
        let (clients, handles) = self.each.over_all(stores).map_err(MajorityError::Client)?;
        let node = |client| Voter { client, known: Mutex::default() };
        let nodes = clients.into_iter().map(node).collect();
        let shared = Arc::new(Shared { nodes, quarantine, answer });
        match shared.nodes[0].client.reply(meet(shared.clone())).wait() {
            Ok(met) => met.map(|()| Majority { shared, handles }),
            Err(error) => Err(MajorityError::Client(ConnectError::System(error.to_string()))),
        }
    }
}

/// Asks all nodes for a state, which changes nothing, and checks their answers.
async fn meet(shared: Arc<Shared>) -> Result<(), MajorityError> {
    let first = &shared.nodes[0].client;
    let key = first.key("client", "majority").expect("the name is valid");
    let until = after(shared.answer);
    let ask = Asking { shared: shared.clone(), key, under_way: shared.counts() };
    let votes = ask.all(&Step::Look, until);
    let votes = votes.gather(shared.majority(), Rest::Counts, until).await;
    if let Some((twin, node)) =
        (1..shared.nodes.len()).find_map(|node| Some((shared.twin(node)?, node)))
    {
        return Err(MajorityError::Same { nodes: (twin, node) });
    }
    for (node, error) in &votes.counted.failed {
        if !error.is_transient() {
            let error = error.clone().into();
            return Err(MajorityError::Node { node: *node, error });
        }
    }
    // Nodes that stay away answer, and will vote.
    match votes.counted.granted + votes.counted.away >= shared.majority() {
        true => Ok(()),
        false => Err(MajorityError::NoMajority(votes.counted)),
    }
}

async fn acquire(
    shared: Arc<Shared>,
    key: String,
    name: Arc<str>,
    wanted: Wanted,
) -> Result<MajorityGuard, LockError> {
    let client = shared.nodes[0].client.clone();
    let lease = wanted.lease.unwrap_or(client.lease());
    let (mut pause, mut patience) = (Duration::from_millis(5), client.patience());
    let mut before: Option<Votes> = None;
    loop {
        let until = wanted.until.unwrap_or(patience).min(patience);
        let Gathered { all, counted, .. } = match attempt(&shared, &key, lease, until).await {
            Ok((request, fence, sent)) => {
                let renewed = wanted.lease.is_none();
                let held = MajorityHold::begin(request, name, fence, sent, lease, renewed);
                return Ok(MajorityGuard::new(held));
            }
            Err(gathered) => gathered,
        };
        // An attempt that was cut short says less than the one before.
        let cut = Instant::now() >= until;
        let counted = before.take().filter(|_| cut).unwrap_or(counted);
        before = Some(counted.clone());
        // Enough nodes answered, but another client holds or tries.
        let contended = counted.granted + counted.held >= shared.majority();
        if contended {
            patience = client.patience();
        }
        if wanted.immediate {
            return Err(match contended {
                true => LockError::Busy { key: Some(name) },
                false => LockError::NoMajority(counted),
            });
        }
        let busy = all.iter().flatten().filter_map(|vote| match vote {
            Vote::No { busy } if !busy.is_zero() => Some(*busy),
            _ => None,
        });
        let first = busy.min().map_or(pause, |busy| busy + Duration::from_millis(1));
        // Jittered: clients that retry at the same time might never reach a majority.
        let mut byte = [0];
        let _ = getrandom::fill(&mut byte);
        let again = after(pause.min(first).mul_f64(0.5 + f64::from(byte[0]) / 256.0));
        let end = wanted.until.unwrap_or(patience).min(patience);
        sleep_until(again.min(end)).await;
        if again >= end {
            let over = wanted.timed_out(name);
            return Err(if contended { over } else { LockError::NoMajority(counted) });
        }
        pause = (pause * 2).min(Duration::from_millis(160));
    }
}
