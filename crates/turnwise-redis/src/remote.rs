//! The entry point: a client of a store.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turnwise_locks::Fence;
use turnwise_locks::ticks::Schedule;

use crate::actors::ActorsBuilder;
use crate::admission::Admission;
use crate::business::Handles;
use crate::client::{Client, Owned, Settings};
use crate::error::ConnectError;
use crate::io::Here;
use crate::lock::Locks;
use crate::memory::MemoryStore;
use crate::name;
use crate::record::REMEMBERED;
use crate::refused::OpenError;
use crate::server::RedisStore;
use crate::slot_pool::SlotPoolBuilder;
use crate::slots::{SlotBuildError, Slots};
use crate::step::{Op, Step};
use crate::store::Store;
use crate::ticks::{JobError, OncePerTick, Ticks};
use crate::time::{PRETENDED, SHORTEST};

/// A client of a store, which creates locks, slots, admissions, actors and ticks. Clones share the
/// same client.
///
/// It has a unique number, and a thread of its own, which ends when the last clone and the last
/// guard are dropped.
///
/// Dropping the last of them waits until the store has received all releases, for 200 ms at most:
/// so a lock whose guard is dropped as `main` ends is free. A program that ends by
/// [`std::process::exit`], or that keeps its client in a `static`, drops nothing: it calls
/// [`flush`](Self::flush).
///
/// # Examples
/// ```
/// use turnwise_redis::Remote;
///
/// // `Remote::connect("redis://127.0.0.1/")` is the same over a server.
/// let remote = Remote::in_memory();
/// let guard = remote.locks().lock("order 7").wait()?;
/// assert!(remote.locks().try_lock("order 7").wait().is_err());
/// guard.release().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Remote {
    client: Owned,
}

/// The settings of a client: see [`Remote::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until it connects"]
pub struct RemoteBuilder {
    prefix: String,
    answer: Duration,
    remembered: Duration,
    settings: Settings,
    #[cfg(feature = "tls")]
    tls: Option<crate::Tls>,
}

impl Remote {
    /// A client of its own store in this process's memory, to try everything without a server.
    ///
    /// # Panics
    /// If the operating system provides no thread.
    pub fn in_memory() -> Self {
        let made = Remote::builder().over(MemoryStore::new());
        made.expect("a store in memory needs only a thread")
    }

    /// A client of a Redis server of version 7 or newer:
    /// `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, or `unix://PATH`; with the feature `tls`,
    /// `rediss://` in place of `redis://`. The address of any node of a cluster is that of the
    /// cluster. With Sentinels,
    /// `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]..]/NAME[/DB]`; the user is that
    /// of the servers. May block for two seconds, the time limit of an answer.
    ///
    /// # Errors
    /// [`ConnectError`]: the address is invalid, no server answers there, or the server could lose
    /// locks.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Remote::builder().connect(url)
    }

    /// A client of a store in a file of this machine: see [`FileStore`](crate::FileStore). The file
    /// is created if it does not exist.
    ///
    /// # Errors
    /// [`ConnectError::Store`], [`ConnectError::System`].
    #[cfg(feature = "sqlite")]
    pub fn file(path: impl AsRef<std::path::Path>) -> Result<Self, ConnectError> {
        Remote::builder().over(crate::FileStore::open(path)?)
    }

    /// A client with other settings.
    pub fn builder() -> RemoteBuilder {
        RemoteBuilder {
            prefix: "turnwise".to_owned(),
            remembered: REMEMBERED,
            answer: Duration::from_secs(2),
            settings: Settings {
                patience: Duration::from_secs(30),
                lease: Duration::from_secs(30),
                place: Duration::from_secs(5),
                above: 0,
                by_callers: true,
                here: None,
            },
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Fair locks by name.
    pub fn locks(&self) -> Locks {
        Locks::new(self.client.clone())
    }

    /// Numbered places, up to 1,024, each held by one request at a time. All clients use the same
    /// number of places for a name: while there are holders or waiters, others are refused
    /// ([`LockError::OtherPlaces`](crate::LockError::OtherPlaces)). Nothing is sent.
    ///
    /// # Errors
    /// [`SlotBuildError`].
    pub fn slots(&self, name: &str, places: u32) -> Result<Slots, SlotBuildError> {
        Slots::new(self.client.clone(), name, places)
    }

    /// Jobs in numbered places, each of which is set up before its use and cleaned up after it,
    /// with the calls that they have in process: [`slots`](Self::slots) is below it. Nothing is
    /// sent.
    pub fn slot_pool(&self, name: &str, slots: usize) -> SlotPoolBuilder {
        SlotPoolBuilder::new(self.slots(name, u32::try_from(slots).unwrap_or(u32::MAX)))
    }

    /// First come, first served, exactly to a limit of up to 1,000,000,000 places. All clients use
    /// the same limit for a name. Nothing is sent.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn admission(&self, name: &str, limit: u64) -> Result<Admission, OpenError> {
        Admission::new(self.client.clone(), name, limit)
    }

    /// Waits until the store has received all releases before this call: dropped guards, and
    /// requests that were given up. May block, for `limit` at most. Returns false at the limit.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_redis::Remote;
    ///
    /// let remote = Remote::in_memory();
    /// drop(remote.locks().lock("order 7").wait()?);
    /// assert!(remote.flush(Duration::from_secs(1)));
    /// // Now `std::process::exit` leaves nothing held.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self, limit: Duration) -> bool {
        self.client.business.wait(limit)
    }

    /// Actors of a kind, whose mailboxes and states are in the store.
    pub fn actors<S>(&self, kind: &str) -> ActorsBuilder<S>
    where
        S: Serialize + DeserializeOwned + Default + Send + 'static,
    {
        ActorsBuilder::new(self.client.clone(), kind)
    }

    /// Jobs that run once per tick.
    pub fn ticks(&self) -> Ticks {
        Ticks::new(self.client.clone())
    }

    /// Jobs that run once per tick of a schedule, with the calls that jobs have in process. Nothing
    /// is sent.
    ///
    /// # Errors
    /// [`JobError::Step`] for a schedule whose ticks are shorter than a microsecond,
    /// [`JobError::OwnSchedule`] for one that was made by [`Schedule::from_fn`].
    pub fn once_per_tick(&self, schedule: Schedule) -> Result<OncePerTick, JobError> {
        OncePerTick::new(self.ticks(), schedule)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, store) = (self.client.id(), &self.client.store);
        f.debug_struct("Remote").field("client", &id).field("store", store).finish_non_exhaustive()
    }
}

impl RemoteBuilder {
    fn with(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self
    }

    /// Sets the prefix of all keys. The default is `turnwise`. Clients with the same prefix share
    /// their locks.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        RemoteBuilder { prefix: prefix.into(), ..self }
    }

    /// Sets the time limit of an answer, after which a step is repeated over another connection.
    /// The default is two seconds, the minimum ten milliseconds.
    pub fn answer_within(self, limit: Duration) -> Self {
        RemoteBuilder { answer: limit.max(SHORTEST), ..self }
    }

    /// Sets the time after which a call without a limit fails if the store does not answer. The
    /// default is thirty seconds.
    pub fn give_up_after(self, limit: Duration) -> Self {
        self.with(|settings| settings.patience = limit)
    }

    /// Sets the lease of holds that are requested without one: how long they outlive their client.
    /// The default is thirty seconds, the minimum ten milliseconds. Holds are renewed each third of
    /// it.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|settings| settings.lease = lease.max(SHORTEST))
    }

    /// Sets how long a queue entry outlives its client. The default is five seconds, the minimum
    /// ten milliseconds. Entries are refreshed each third of it.
    pub fn place(self, place: Duration) -> Self {
        self.with(|settings| settings.place = place.max(SHORTEST))
    }

    /// Sets how long a server knows a name after its last hold, its last waiter or its next tick.
    /// The default is ten minutes, which is also the minimum. A server whose clock goes back by
    /// less than this does not repeat fences. A known name costs some 250 bytes.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use turnwise_redis::Remote;
    ///
    /// // Clocks may go back by an hour.
    /// let builder = Remote::builder().remember(Duration::from_secs(3600));
    /// # drop(builder);
    /// ```
    pub fn remember(self, time: Duration) -> Self {
        RemoteBuilder { remembered: time.max(REMEMBERED), ..self }
    }

    /// Sets a lower bound of the fences of locks, slots and ticks: those that this client causes
    /// are greater, whatever the server has forgotten and its clock says. Use the greatest fence
    /// that the guarded resource has seen. All clients of a lock need the bound, because each of
    /// them may cause the next grant.
    ///
    /// # Panics
    /// If the fence is 2^52 or greater: the server's numbers end at 2^53.
    ///
    /// # Examples
    /// ```
    /// use turnwise_redis::{Fence, Remote};
    ///
    /// let seen = Fence::from_number(2_000_000_000_000_000);
    /// let remote = Remote::builder().fences_above(seen).over(turnwise_redis::MemoryStore::new())?;
    /// assert!(remote.locks().lock("order 7").wait()?.fence() > seen);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fences_above(self, fence: Fence) -> Self {
        let above = fence.number();
        assert!(above < 1 << 52, "a floor of fences is less than 2^52: {above}");
        self.with(|settings| settings.above = above)
    }

    /// Sends all steps over one connection, that of the client's own thread, also first attempts:
    /// for servers that allow few connections, and for tokio runtimes without IO or time. A lock
    /// that is free takes longer.
    ///
    /// # Examples
    /// ```
    /// use turnwise_redis::{MemoryStore, Remote};
    ///
    /// let remote = Remote::builder().one_connection().over(MemoryStore::new())?;
    /// let bare = tokio::runtime::Builder::new_current_thread().build()?;
    /// bare.block_on(remote.locks().lock("order 7"))?.release().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn one_connection(self) -> Self {
        self.with(|settings| settings.by_callers = false)
    }

    /// Runs the client in the current tokio runtime rather than on a thread of its own, with this
    /// number, which has to be unique: so that a test with paused time makes the same steps each
    /// time. Its tasks run while the gate is ready. This thread's machine counts as never suspended
    /// from now on.
    #[doc(hidden)]
    pub fn here(
        self,
        number: &str,
        gate: impl Fn(&mut Context<'_>) -> Poll<()> + Send + Sync + 'static,
    ) -> Self {
        PRETENDED.set(Some(Duration::ZERO));
        let here = Here { number: number.to_owned(), gate: Arc::new(gate) };
        self.with(|settings| settings.here = Some(here))
    }

    /// Sets the certificates for servers at `rediss://`. The default is the system's roots.
    #[cfg(feature = "tls")]
    pub fn tls(self, tls: crate::Tls) -> Self {
        RemoteBuilder { tls: Some(tls), ..self }
    }

    /// Connects to a server: see [`Remote::connect`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(self, url: &str) -> Result<Remote, ConnectError> {
        let prefix = self.checked_prefix()?;
        let store = self.store(url, &prefix)?;
        let remote = self.over(store)?;
        // The first step checks that a server answers.
        let client = remote.client.clone();
        let key = client.key("client", client.id()).map_err(ConnectError::Prefix)?;
        let looks = remote.client.reply(async move {
            let op = Op { key, places: 1, above: 0, step: Step::Look };
            client.store.call(&op).await
        });
        match looks.wait() {
            Ok(answer) => answer.map(|_| remote).map_err(ConnectError::Store),
            Err(error) => Err(ConnectError::System(error.to_string())),
        }
    }

    /// Returns the store at an address.
    pub(crate) fn store(&self, url: &str, prefix: &str) -> Result<RedisStore, ConnectError> {
        let store = RedisStore::new(url, prefix, self.answer)?.remember(self.remembered);
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return store.tls(tls);
        }
        Ok(store)
    }

    /// A client of any store.
    ///
    /// # Errors
    /// [`ConnectError::Prefix`], [`ConnectError::System`].
    pub fn over(self, store: impl Store) -> Result<Remote, ConnectError> {
        let (mut clients, handles) = self.over_all(vec![Arc::new(store)])?;
        Ok(Remote { client: Owned::new(clients.remove(0), handles) })
    }

    /// A client of each store, with one thread for all.
    pub(crate) fn over_all(
        self,
        stores: Vec<Arc<dyn Store>>,
    ) -> Result<(Vec<Arc<Client>>, Handles), ConnectError> {
        let prefix = self.checked_prefix()?;
        Client::start(&prefix, self.settings, stores)
    }

    pub(crate) fn checked_prefix(&self) -> Result<String, ConnectError> {
        name::prefix(&self.prefix).map_err(ConnectError::Prefix)
    }

    pub(crate) fn answer(&self) -> Duration {
        self.answer
    }

    pub(crate) fn leased(&self) -> Duration {
        self.settings.lease
    }
}
