//! The entry: a client of a store, and what is made from it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turnwise_locks::Fence;

use crate::actors::ActorsBuilder;
use crate::admission::Admission;
use crate::business::Handles;
use crate::client::{Client, Owned, Settings};
use crate::error::ConnectError;
use crate::lock::Locks;
use crate::memory::MemoryStore;
use crate::name;
use crate::record::REMEMBERED;
use crate::refused::AdmissionError;
use crate::server::RedisStore;
use crate::slots::{Slots, SlotsError};
use crate::step::{Op, Step};
use crate::store::Store;
use crate::tick::Ticks;
use crate::time::SHORTEST;

/// A client of a store, from which locks and ticks are had. Clones are the same client.
///
/// It has a number that no other client has, and a thread of its own, which ends when the last
/// clone, and the last guard, are dropped.
///
/// The last of them to be dropped waits until the store knows of all that was given back,
/// for 200 ms at most: so a lock whose guard is dropped as `main` ends is free. A program that ends
/// by [`std::process::exit`], or that keeps its client in a `static`, drops nothing: it calls
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

/// How a client is made: [`Remote::builder`].
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
    /// A client of a store of its own, in this process's memory: to try everything without a
    /// server.
    ///
    /// # Panics
    /// If the operating system has no thread left.
    pub fn in_memory() -> Self {
        let made = Remote::builder().over(MemoryStore::new());
        made.expect("a store in memory needs a thread, no more")
    }

    /// A client of a Redis server, version 7 or newer:
    /// `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, or `unix://PATH`; with the feature `tls`,
    /// `rediss://` in place of `redis://`. May block, for the two seconds that a server has for its
    /// answer.
    ///
    /// # Errors
    /// [`ConnectError`]: the address is none, nobody answers there, or the server would lose locks.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Remote::builder().connect(url)
    }

    /// A client of a store in a file of this machine: see [`FileStore`](crate::FileStore). The file
    /// is made if there is none.
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
            },
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Fair locks by name.
    pub fn locks(&self) -> Locks {
        Locks::new(self.client.clone())
    }

    /// Numbered places, each for one at a time: to 1,024. All clients say the same number of places
    /// of one name: as long as anybody holds one, or waits, others are refused
    /// ([`LockError::OtherPlaces`](crate::LockError::OtherPlaces)). Nothing is sent.
    ///
    /// # Errors
    /// [`SlotsError`].
    pub fn slots(&self, name: &str, places: u32) -> Result<Slots, SlotsError> {
        Slots::new(self.client.clone(), name, places)
    }

    /// First come, first served, exactly to a limit of places: to 1,000,000,000. All clients say
    /// the same limit of one name. Nothing is sent.
    ///
    /// # Errors
    /// [`AdmissionError`].
    pub fn admission(&self, name: &str, limit: u64) -> Result<Admission, AdmissionError> {
        Admission::new(self.client.clone(), name, limit)
    }

    /// Waits until the store knows of all that was given back before: guards that were
    /// dropped, requests that were given up. May block, for `limit` at most. False: something is
    /// not told yet.
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

    /// What all keys begin with: `turnwise`, if this is not called. Clients see each other's locks
    /// if their prefixes are the same.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        RemoteBuilder { prefix: prefix.into(), ..self }
    }

    /// So long a server has for an answer, before it is asked again over another connection: two
    /// seconds, if this is not called; ten milliseconds at least.
    pub fn answer_within(self, limit: Duration) -> Self {
        RemoteBuilder { answer: limit.max(SHORTEST), ..self }
    }

    /// So long a call without a limit goes on against a store that does not answer: thirty seconds,
    /// if this is not called.
    pub fn give_up_after(self, limit: Duration) -> Self {
        self.with(|settings| settings.patience = limit)
    }

    /// How long a hold outlives its client, if none is asked for: thirty seconds, if this is not
    /// called; ten milliseconds at least. It is renewed each third of it.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|settings| settings.lease = lease.max(SHORTEST))
    }

    /// How long a place in a queue outlives its client: five seconds, if this is not called; ten
    /// milliseconds at least. It is refreshed each third of it.
    pub fn place(self, place: Duration) -> Self {
        self.with(|settings| settings.place = place.max(SHORTEST))
    }

    /// How long a server knows a name after its last hold, its last waiter or its next tick: ten
    /// minutes, if this is not called, and at least. A server whose clock goes back by less than
    /// this does not hand out fences again. A name that is known costs some 250 bytes.
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

    /// Fences of locks, slots and ticks that this client has given are greater than this one,
    /// whatever the server has forgotten and its clock says: the greatest that the guarded resource
    /// has seen. All clients of a lock are to have a floor, as each may let the next one in.
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

    /// All goes over one connection, that of the client's own thread, also first attempts: for
    /// servers that have few connections to give, and for runtimes of tokio's without IO or time. A
    /// lock that is free takes longer.
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

    /// Certificates for servers at `rediss://`: the system's roots, if this is not called.
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
        // The first step: is anybody there?
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

    /// The store at an address.
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
