//! A store in a server or in a cluster: Redis, or one with the same protocol.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, ProtocolVersion,
    PushInfo, PushKind, RedisError, RedisResult, ServerErrorKind, Value,
};

use tokio::runtime::{self, Handle};

use crate::cluster::{self, Node, Nodes};
use crate::error::{ConnectError, Effect, Refusal, StoreError};
use crate::record::REMEMBERED;
use crate::scripts::{self, Scripts};
use crate::sentinel::Sentinels;
use crate::step::{Answer, Notice, Op, Token};
use crate::store::{Called, Life, NoticeSink, Store};
use crate::suits::{Failure, suits};
use crate::wires::Wires;

/// Objects in a Redis server of version 7 or newer, or a server with the same protocol; or in a
/// cluster of them.
///
/// Each runtime that sends steps has one connection, to each node of a cluster, which is opened by
/// its first step, and again after a failure. Threads that wait share a few blocking ones, unless
/// the server is a cluster. Notices arrive over the connections of the runtime that listens to
/// them, which is the [`Remote`](crate::Remote)'s own.
///
/// A cluster is found by any of its nodes. An object is on one node; while its slot moves to
/// another one, its steps are refused as [unreachable](StoreError::Unreachable), and repeated.
pub struct RedisStore {
    client: Client,
    scripts: Scripts,
    channels: String,
    /// The time limit of an answer, and of a connection attempt.
    patience: Duration,
    listeners: Arc<Listeners>,
    links: Mutex<HashMap<(runtime::Id, Node), LinkSlot>>,
    wires: Wires,
    nodes: Mutex<Nodes>,
    /// True if a cluster is refused.
    alone: bool,
    sentinels: Option<Sentinels>,
    /// The time since when no connection has worked.
    failing: Mutex<Option<Instant>>,
    /// The life of the server, as of the last connection.
    life: Mutex<Option<Life>>,
}

/// The maximum number of nodes that name another one in one attempt.
const REDIRECTIONS: u32 = 5;

/// The connection of a runtime to a node. The lock ensures that one task opens it.
type LinkSlot = Arc<tokio::sync::Mutex<Option<Link>>>;

#[derive(Clone)]
struct Link {
    connection: MultiplexedConnection,
    broken: Arc<AtomicBool>,
    /// The number of listeners that had been added when it was opened.
    listeners: u64,
}

#[derive(Default)]
struct Listeners {
    /// Sinks by client, with the runtime whose connection receives their notices.
    sinks: Mutex<HashMap<String, (Option<runtime::Id>, NoticeSink)>>,
    /// The number of listeners that have been added.
    added: AtomicU64,
}

impl Listeners {
    /// Returns the listeners of that runtime's connection.
    fn over(&self, runtime: runtime::Id) -> Vec<(String, NoticeSink)> {
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let here = sinks.iter().filter(|(_, (of, _))| of.is_none_or(|of| of == runtime));
        here.map(|(client, (_, sink))| (client.clone(), sink.clone())).collect()
    }

    /// Dispatches a message that the server pushes.
    fn pushed(&self, push: PushInfo) {
        let (PushKind::Message, [_, Value::BulkString(text)]) = (push.kind, &*push.data) else {
            return;
        };
        let Ok(text) = std::str::from_utf8(text) else { return };
        let notice = match text.split_at_checked(1) {
            Some(("+", token)) => Notice::Granted(Token::from_text(token.to_owned())),
            Some(("-", token)) => Notice::Lost(Token::from_text(token.to_owned())),
            _ => return,
        };
        let (Notice::Granted(token) | Notice::Lost(token)) = &notice else { return };
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = sinks.get(token.client()).cloned();
        drop(sinks);
        if let Some((_, sink)) = sink {
            sink(notice);
        }
    }
}

impl RedisStore {
    /// A store at an address, `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, or `unix://PATH`; or at
    /// the primary that Sentinels name,
    /// `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]..]/NAME[/DB]`.
    /// Nothing is sent yet. Channels of notices begin with the prefix. `patience` limits each
    /// answer, and each connection attempt.
    ///
    /// # Errors
    /// [`ConnectError::Url`]. [`StoreError::Unsupported`] for `rediss://` without the feature
    /// `tls`.
    pub fn new(url: &str, prefix: &str, patience: Duration) -> Result<Self, ConnectError> {
        let wrong = |error: RedisError| ConnectError::Url(error.to_string());
        let (sentinels, url) = Sentinels::parse(url)?
            .map_or_else(|| (None, url.to_owned()), |(sentinels, first)| (Some(sentinels), first));
        match url.split_once("://").map(|(scheme, _)| scheme) {
            #[cfg(not(feature = "tls"))]
            Some("rediss" | "valkeys") => return Err(StoreError::TLS.into()),
            #[cfg(feature = "tls")]
            Some("rediss" | "valkeys") => crate::tls::choose_provider(),
            _ => {}
        }
        let info = url.into_connection_info().map_err(wrong)?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        // Requests of several threads must not wait for each other's answers.
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        let client = Client::open(info).map_err(wrong)?;
        let channels = format!("{prefix}:notices:");
        Ok(RedisStore {
            client,
            scripts: Scripts::new(&channels, REMEMBERED),
            channels,
            patience,
            listeners: Arc::default(),
            links: Mutex::default(),
            wires: Wires::default(),
            nodes: Mutex::default(),
            alone: false,
            sentinels,
            failing: Mutex::default(),
            life: Mutex::default(),
        })
    }

    /// Sets how long a record of a lock, of slots or of a job outlives its last use. The default is
    /// ten minutes, which is also the minimum.
    pub fn remember(mut self, time: Duration) -> Self {
        let time = time.max(REMEMBERED);
        if self.scripts.kept != time {
            self.scripts = Scripts::new(&self.channels, time);
        }
        self
    }

    /// Refuses a cluster: one server of several that are independent of each other.
    pub(crate) fn alone(self) -> Self {
        RedisStore { alone: true, ..self }
    }

    /// Connects with these certificates to a server at `rediss://`.
    ///
    /// # Errors
    /// [`ConnectError::Tls`].
    #[cfg(feature = "tls")]
    pub fn tls(self, tls: &crate::Tls) -> Result<Self, ConnectError> {
        let info = self.client.get_connection_info().clone();
        let certificates = tls.certificates().map_err(|why| ConnectError::Tls(why.to_owned()))?;
        let client = Client::build_with_tls(info, certificates);
        let client = client.map_err(|error| ConnectError::Tls(error.to_string()))?;
        Ok(RedisStore { client, ..self })
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the host of the address that the store was opened with.
    fn host(&self) -> &str {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "localhost",
        }
    }

    /// Returns the client of a node: like that of the first address, with its host and port.
    fn client_of(&self, node: &Node) -> RedisResult<Client> {
        let at = node.as_deref().and_then(|node| node.rsplit_once(':'));
        let at = at.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
        let Some((host, port)) = at else { return Ok(self.client.clone()) };
        let info = self.client.get_connection_info();
        let mut addr = info.addr().clone();
        match &mut addr {
            ConnectionAddr::TcpTls { host: of, port: at, .. } => (*of, *at) = (host, port),
            addr => *addr = ConnectionAddr::Tcp(host, port),
        }
        Client::open(info.clone().set_addr(addr))
    }

    /// Asks Sentinels, one after the other, and returns a client of the primary.
    async fn primary(&self, sentinels: &Sentinels) -> Result<Client, Failure> {
        let limit = self.patience / 2 / u32::try_from(sentinels.all.len()).unwrap_or(u32::MAX);
        let mut failure = Failure::NoPrimary(sentinels.unknown());
        for sentinel in &sentinels.all {
            let client = self.client_of(&Some(sentinel.clone()))?;
            match sentinels.primary(client, limit).await {
                Ok(Some((host, port))) => {
                    return Ok(self.client_of(&Some(format!("{host}:{port}").into()))?);
                }
                Ok(None) => {}
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }

    /// Returns the slot of a runtime and a node.
    fn slot(&self, of: &(runtime::Id, Node)) -> LinkSlot {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = links.get(of) {
            return slot.clone();
        }
        // Runtimes end. Slots that have a connection, or open one, stay.
        links.retain(|_, slot| match slot.try_lock() {
            Ok(link) => link.as_ref().is_some_and(|link| !link.broken.load(Relaxed)),
            Err(_) => true,
        });
        links.entry(of.clone()).or_default().clone()
    }

    async fn link(&self, node: &Node) -> Result<Link, StoreError> {
        let runtime = Handle::current().id();
        let slot = self.slot(&(runtime, node.clone()));
        let mut slot = slot.lock().await;
        if let Some(link) = &*slot
            && !link.broken.load(Relaxed)
            && link.listeners == self.listeners.added.load(Relaxed)
        {
            return Ok(link.clone());
        }
        *slot = None;
        let connected = tokio::time::timeout(self.patience, self.connect(runtime, node)).await;
        let late = |_| self.unreachable(format!("no answer in {:?}", self.patience));
        let link = connected.map_err(late)?.map_err(|failure| self.failed(failure, "connect"))?;
        *slot = Some(link.clone());
        drop(slot);
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // Notices in between had no receiver.
        self.listeners.over(runtime).into_iter().for_each(|(_, sink)| sink(Notice::LookAgain));
        Ok(link)
    }

    async fn connect(&self, runtime: runtime::Id, node: &Node) -> Result<Link, Failure> {
        let broken = Arc::new(AtomicBool::new(false));
        let (listeners, ends) = (self.listeners.clone(), Ends(broken.clone()));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    ends.0.store(true, Relaxed);
                }
                listeners.pushed(push);
                Ok::<_, redis::aio::SendError>(())
            });
        let client = match &self.sentinels {
            Some(sentinels) if node.is_none() => self.primary(sentinels).await?,
            _ => self.client_of(node)?,
        };
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let (life, in_cluster) = suits(&mut connection).await?;
        if in_cluster && self.alone {
            return Err(Failure::Cluster);
        }
        if in_cluster {
            let slots = redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await;
            // A user who may not ask learns the owners from redirections.
            self.nodes().learn(&slots.unwrap_or(Value::Nil), self.host());
        }
        // Read before the listeners are, so that a later one causes the next connection.
        let added = self.listeners.added.load(Acquire);
        for (client, _) in self.listeners.over(runtime) {
            connection.subscribe(format!("{}{client}", self.channels)).await?;
        }
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = life;
        if node.is_none() {
            self.wires.lead_to(client);
        }
        Ok(Link { connection, broken, listeners: added })
    }

    /// Sends a step to the node that keeps its object, and to another one if that redirects it.
    async fn attempt(&self, op: &Op) -> Result<Answer, StoreError> {
        for _ in 0..REDIRECTIONS {
            let node = self.nodes().of(&op.key);
            if let Some(answer) = self.attempt_at(&node, op).await? {
                return Ok(answer);
            }
        }
        Err(self.unreachable("the nodes of the cluster name each other".to_owned()))
    }

    /// Returns `None` if another node keeps the object.
    async fn attempt_at(&self, node: &Node, op: &Op) -> Result<Option<Answer>, StoreError> {
        // By its hash first; with its text, if the server does not know it, or has forgotten it.
        let mut whole = false;
        loop {
            let link = self.link(node).await;
            let mut link = link.inspect_err(|_| self.nodes().fails(node))?;
            let in_cluster = self.nodes().is_cluster();
            let command = self.scripts.command(&self.channels, op, whole, in_cluster);
            let sent = link.connection.send_packed_command(&command);
            let Ok(reply) = tokio::time::timeout(self.patience, sent).await else {
                // The next steps use another connection.
                link.broken.store(true, Relaxed);
                self.nodes().fails(node);
                return Err(StoreError::TimedOut { effect: Effect::Unknown });
            };
            let failure = match reply.and_then(Value::extract_error) {
                Ok(value) => return scripts::answer(&op.step, value).map(Some),
                Err(error) if is_no_script(&error) && !whole => {
                    whole = true;
                    continue;
                }
                Err(error) => error,
            };
            match failure.code() {
                Some("MOVED" | "ASK") if self.alone => return Err(StoreError::CLUSTER),
                Some("MOVED") if let Some((owner, slot)) = failure.redirect_node() => {
                    let owner = cluster::whole(owner, self.host());
                    self.nodes().owns(&owner, slot, slot);
                    return Ok(None);
                }
                // Rule CLUSTER-2: the object is refused as a whole.
                Some("ASK" | "TRYAGAIN") => {
                    self.nodes().are_several();
                    return Err(self.unreachable(format!("its slot moves: {failure}")));
                }
                _ => {}
            }
            let error = self.failed(Failure::Redis(failure), op.step.name());
            // A refusal comes over a connection that works.
            if error.is_transient() && !matches!(error, StoreError::Refused { .. }) {
                link.broken.store(true, Relaxed);
                self.nodes().fails(node);
            }
            return Err(error);
        }
    }

    /// Sends a step from this thread, which waits for the answer. Returns `None` if it was not
    /// sent, or was refused.
    fn attempt_here(&self, op: &Op, limit: Duration) -> Option<Result<Answer, StoreError>> {
        if self.nodes().is_cluster() {
            return None;
        }
        let mut wire = self.wires.take(limit.min(self.patience))?;
        let mut whole = false;
        loop {
            let command = self.scripts.command(&self.channels, op, whole, false);
            match wire.send(&command) {
                Ok(value) => {
                    self.wires.put(wire);
                    return Some(scripts::answer(&op.step, value));
                }
                Err(error) if is_no_script(&error) && !whole => whole = true,
                // An error of the server's: it is dealt with by `attempt`, which has it, too.
                Err(error) if error.code().is_some() => {
                    self.wires.put(wire);
                    return None;
                }
                Err(_) => {
                    self.wires.cut();
                    return Some(Err(StoreError::TimedOut { effect: Effect::Unknown }));
                }
            }
        }
    }

    fn failed(&self, failure: Failure, step: &'static str) -> StoreError {
        let error = match failure {
            Failure::Wrong(needs) => return StoreError::WrongStore { needs },
            Failure::Sentinel => return StoreError::SENTINEL,
            Failure::NoPrimary(why) => return self.unreachable(why),
            Failure::Replica => return self.unreachable("a replica, which takes no writes".into()),
            Failure::Cluster => return StoreError::CLUSTER,
            Failure::Redis(error) => error,
        };
        let why = error.to_string();
        let refusal = Refusal::of(error.code(), &why);
        match error.kind() {
            ErrorKind::Server(
                ServerErrorKind::ReadOnly
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain,
            ) => self.unreachable(why),
            ErrorKind::RESP3NotSupported => {
                StoreError::WrongStore { needs: "RESP3: Redis 7 or newer".to_owned() }
            }
            _ if refusal != Refusal::Other => StoreError::Refused { refusal, step, why },
            ErrorKind::Io => self.unreachable(why),
            // The answer while another client's script runs long.
            _ if error.code() == Some("BUSY") => self.unreachable(why),
            _ if error.is_connection_dropped() => self.unreachable(why),
            _ => StoreError::Refused { refusal, step, why },
        }
    }

    fn unreachable(&self, why: String) -> StoreError {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let since = failing.get_or_insert_with(Instant::now).elapsed();
        // A first attempt has no duration.
        let since = if since < Duration::from_millis(1) { Duration::ZERO } else { since };
        StoreError::Unreachable { since, why }
    }
}

/// Owned by a connection's driver, which is dropped with its runtime, too.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

impl Store for RedisStore {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(self.attempt(op))
    }

    fn call_blocking(&self, op: &Op, limit: Duration) -> Option<Result<Answer, StoreError>> {
        self.attempt_here(op, limit)
    }

    fn listen(&self, client: &str, sink: NoticeSink) {
        let mut sinks = self.listeners.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        sinks.insert(client.to_owned(), (runtime, sink));
        // The next step opens a connection that subscribes, also if one is being opened now.
        self.listeners.added.fetch_add(1, Release);
        drop(sinks);
    }

    fn forget(&self, client: &str) {
        let mut sinks = self.listeners.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = sinks.remove(client);
        drop(sinks);
        drop(sink);
    }

    fn part(&self, key: &str) -> u16 {
        if self.nodes().is_cluster() { cluster::slot(key) } else { 0 }
    }

    fn life(&self) -> Option<Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("channels", &self.channels).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_do_not_wait_for_other_answers() {
        let patience = Duration::from_secs(1);
        let store = RedisStore::new("redis://127.0.0.1/", "t", patience).unwrap();
        assert!(store.client.get_connection_info().tcp_settings().nodelay());
    }
}
