//! A client of a store.
//!
//! A client has one thread of its own, with a runtime of its own: there its places are refreshed,
//! its holds are renewed, and steps are tried again. So a program whose own threads are busy, or
//! whose runtime is stopped in a debugger's hands, does not lose its locks by that.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use turnwise_locks::Fence;

use crate::actors::{ActorsBuilder, Inboxes};
use crate::admission::Admission;
use crate::applications::Applications;
use crate::attempt::{Caller, Callers, Threads};
use crate::business::{Business, Handles, Owned};
use crate::error::{ConnectError, StoreError};
use crate::lock::Locks;
use crate::memory::MemoryStore;
use crate::name::{self, NameError};
use crate::record::REMEMBERED;
use crate::refused::AdmissionError;
use crate::requests::Requests;
use crate::server::RedisStore;
use crate::slots::{Slots, SlotsError};
use crate::step::{Answer, Notice, Op, Step, Token};
use crate::store::Store;
use crate::tick::Ticks;

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
    patience: Duration,
    lease: Duration,
    place: Duration,
    remembered: Duration,
    above: u64,
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
    /// `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`, or `unix://PATH`. May block, for the two
    /// seconds that a server has for its answer.
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
            answer: Duration::from_secs(2),
            patience: Duration::from_secs(30),
            lease: Duration::from_secs(30),
            place: Duration::from_secs(5),
            remembered: REMEMBERED,
            above: 0,
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
        let Client { id, store, .. } = &**self.client;
        f.debug_struct("Remote").field("client", id).field("store", store).finish_non_exhaustive()
    }
}

impl RemoteBuilder {
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
        RemoteBuilder { patience: limit, ..self }
    }

    /// How long a hold outlives its client, if none is asked for: thirty seconds, if this is not
    /// called; ten milliseconds at least. It is renewed each third of it.
    pub fn lease(self, lease: Duration) -> Self {
        RemoteBuilder { lease: lease.max(SHORTEST), ..self }
    }

    /// How long a place in a queue outlives its client: five seconds, if this is not called; ten
    /// milliseconds at least. It is refreshed each third of it.
    pub fn place(self, place: Duration) -> Self {
        RemoteBuilder { place: place.max(SHORTEST), ..self }
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
        RemoteBuilder { above, ..self }
    }

    /// Connects to a server: see [`Remote::connect`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(self, url: &str) -> Result<Remote, ConnectError> {
        let prefix = self.checked_prefix()?;
        let store = RedisStore::new(url, &prefix, self.answer)?.remember(self.remembered);
        let remote = self.over(store)?;
        // The first step: is anybody there?
        let client = remote.client.clone();
        let (promise, reply) = turnwise::promise();
        let key = client.key("client", &client.id).map_err(ConnectError::Prefix)?;
        remote.client.io.spawn(async move {
            let op = Op { key, places: 1, above: 0, step: Step::Look };
            promise.keep(client.store.call(&op).await);
        });
        match reply.wait() {
            Ok(answer) => answer.map(|_| remote).map_err(ConnectError::Store),
            Err(error) => Err(ConnectError::System(error.to_string())),
        }
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
        let system = |error: &dyn fmt::Display| ConnectError::System(error.to_string());
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| system(&error))?;
        let io = runtime.handle().clone();
        let business = Arc::new(Business::default());
        let here = business.clone();
        let run = move || {
            here.runs_here();
            // It ends when the client does, and what has been said by then is sent.
            let _ = runtime.block_on(stopped);
        };
        let builder = thread::Builder::new().name("turnwise-redis".to_owned());
        builder.spawn(run).map_err(|error| system(&error))?;
        let stop = Arc::new(stop);
        let client = |store: Arc<dyn Store>| {
            let mut number = [0; 16];
            getrandom::fill(&mut number).map_err(|error| system(&error))?;
            let id: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
            // Notices go to the client's own thread.
            let _runtime = io.enter();
            Ok(Arc::new_cyclic(|client: &std::sync::Weak<Client>| {
                let to = client.clone();
                store.listen(
                    &id,
                    Arc::new(move |notice| {
                        if let Some(client) = to.upgrade() {
                            client.noticed(&notice);
                        }
                    }),
                );
                Client {
                    id,
                    prefix: prefix.clone(),
                    numbers: AtomicU64::new(0),
                    settings: self.clone(),
                    store,
                    io: io.clone(),
                    business: business.clone(),
                    callers: Mutex::default(),
                    threads: Threads::default(),
                    requests: Mutex::default(),
                    applications: Mutex::default(),
                    inboxes: Mutex::default(),
                    changed: Arc::default(),
                    told: Notify::new(),
                    _stop: stop.clone(),
                }
            }))
        };
        let clients = stores.into_iter().map(client).collect::<Result<_, ConnectError>>()?;
        Ok((clients, Handles::new(&business)))
    }

    pub(crate) fn checked_prefix(&self) -> Result<String, ConnectError> {
        name::prefix(&self.prefix).map_err(ConnectError::Prefix)
    }

    pub(crate) fn answer(&self) -> Duration {
        self.answer
    }

    pub(crate) fn leased(&self) -> Duration {
        self.lease
    }
}

/// Less than this no timer keeps, and no network.
pub(crate) const SHORTEST: Duration = Duration::from_millis(10);

/// What clones of a client share.
pub(crate) struct Client {
    id: String,
    prefix: String,
    numbers: AtomicU64,
    settings: RemoteBuilder,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) io: Handle,
    pub(crate) business: Arc<Business>,
    callers: Mutex<Callers>,
    /// For threads that wait.
    pub(crate) threads: Threads,
    requests: Mutex<Requests>,
    applications: Mutex<Applications>,
    inboxes: Mutex<Inboxes>,
    /// A hold has begun that ends before others are looked at.
    pub(crate) changed: Arc<Notify>,
    /// The store has been told of an end.
    pub(crate) told: Notify,
    /// The thread ends when this is dropped, and all others'.
    _stop: Arc<oneshot::Sender<()>>,
}

impl Client {
    pub(crate) fn key(&self, kind: &str, name: &str) -> Result<String, NameError> {
        name::key(&self.prefix, kind, name)
    }

    /// A request's token.
    pub(crate) fn token(&self) -> Token {
        // Numbers have to differ, no more.
        Token::new(&self.id, self.numbers.fetch_add(1, Relaxed))
    }

    /// Spawns a task on the client's thread that the program's end waits for: one that tells the
    /// store of something.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.business.spawn(&self.io, task)
    }

    /// A step of this client's, with its floor of fences.
    pub(crate) fn op(&self, key: String, places: u32, step: Step) -> Op {
        Op { key, places, above: self.settings.above, step }
    }

    /// The lease of what is asked for without one.
    pub(crate) fn lease(&self) -> Duration {
        self.settings.lease
    }

    /// How long a place is kept.
    pub(crate) fn place(&self) -> Duration {
        self.settings.place
    }

    /// When a call that is made now is given up, whatever its limit.
    pub(crate) fn patience(&self) -> Instant {
        after(self.settings.patience)
    }

    /// What is its callers' yet is looked at so often: before a place in a queue, or a hold, is to
    /// be kept.
    pub(crate) fn look(&self) -> Duration {
        (self.place().min(self.lease()) / 6).min(Duration::from_millis(250))
    }

    /// What is its callers' yet.
    pub(crate) fn callers(&self) -> MutexGuard<'_, Callers> {
        // No code of others runs under it.
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who waits, and who holds.
    pub(crate) fn requests(&self) -> MutexGuard<'_, Requests> {
        // No code of others runs under it.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who waits for places of admissions, and who has some.
    pub(crate) fn applications(&self) -> MutexGuard<'_, Applications> {
        // No code of others runs under it.
        self.applications.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who waits for outcomes of messages, and which mailboxes are held.
    pub(crate) fn inboxes(&self) -> MutexGuard<'_, Inboxes> {
        // No code of others runs under it.
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noticed(&self, notice: &Notice) {
        let _borrows = self.business.under_way();
        let woken = self.requests().noticed(notice);
        woken.wake();
        let woken = self.applications().noticed(notice);
        woken.iter().for_each(|application| application.wake());
        self.inboxes().noticed(notice);
    }

    /// Has a step done by its caller, and if that cannot do it, [again and again](Self::call) on
    /// the client's thread.
    pub(crate) async fn call_by(
        &self,
        caller: &Caller,
        op: &Op,
        until: Instant,
    ) -> (Result<Answer, StoreError>, bool) {
        let mut late = false;
        if caller.is_here() {
            let mut called = pin!(timeout_at(until, self.store.call(op)));
            let answer = poll_fn(|cx| match caller.is_here() {
                true => called.as_mut().poll(cx).map(Some),
                // It has taken too long, or its caller has not polled it: that runtime may be gone.
                false => Poll::Ready(None),
            });
            match answer.await {
                Some(Ok(Ok(answer))) => return (Ok(answer), false),
                Some(Ok(Err(error))) if !is_tried_again(&error, op) => return (Err(error), false),
                Some(Ok(Err(StoreError::Refused { .. }))) => {}
                Some(_) | None => late = true,
            }
        }
        caller.moves().await;
        let (answer, again) = self.call(op, until).await;
        (answer, late || again)
    }

    /// Has a step done, again and again until then. Also said: may requests of it be on their way
    /// yet?
    pub(crate) async fn call(&self, op: &Op, until: Instant) -> (Result<Answer, StoreError>, bool) {
        let (mut pause, mut late) = (Duration::from_millis(20), false);
        loop {
            let mut attempt = pin!(self.store.call(op));
            let error = match timeout_at(until, &mut attempt).await {
                Ok(Ok(answer)) => return (Ok(answer), late),
                Ok(Err(error)) if !is_tried_again(&error, op) => return (Err(error), late),
                Ok(Err(error)) => error,
                Err(_) => {
                    let effect = crate::error::Effect::Unknown;
                    return (Err(StoreError::TimedOut { effect }), true);
                }
            };
            // What is refused has had no effect.
            late |= !matches!(error, StoreError::Refused { .. });
            // Not all at once, after a server has come back.
            let mut byte = [0];
            let _ = getrandom::fill(&mut byte);
            let again = after(pause.mul_f64(0.5 + f64::from(byte[0]) / 256.0));
            if again >= until {
                return (Err(error), late);
            }
            sleep_until(again).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// Is a step that has failed so sent again? One that is not to wait is not, if it was refused.
fn is_tried_again(error: &StoreError, op: &Op) -> bool {
    let refused = matches!(error, StoreError::Refused { .. });
    error.is_transient() && !(refused && matches!(op.step, Step::Acquire { alive: None, .. }))
}

impl Drop for Client {
    fn drop(&mut self) {
        self.store.forget(&self.id);
    }
}

/// More than this is as good as for ever. A server's numbers are exact to 2^53 microseconds, which
/// this is far below.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// So long from now.
pub(crate) fn after(duration: Duration) -> Instant {
    Instant::now() + duration.min(LONGEST)
}
