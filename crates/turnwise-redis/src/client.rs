//! State shared by the objects of a client.
//!
//! A client has a thread and a runtime of its own, which refreshes its queue entries, renews its
//! holds and repeats steps. So a program does not lose its locks because its threads are busy, or
//! because a debugger has stopped its runtime.

use std::fmt;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until, timeout_at};
use turnwise::{AskError, Reply, promise};

use crate::actors::inbox::Inboxes;
use crate::applications::Applications;
use crate::attempt::{Call, Caller, Home};
use crate::business::{Business, Handles};
use crate::error::{ConnectError, StoreError};
use crate::io::{Here, Io};
use crate::name::{self, NameError};
use crate::requests::Requests;
use crate::step::{Answer, Notice, Op, Step, Token};
use crate::store::Store;
use crate::time::after;

/// The settings of a client.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The time after which a call without an answer fails.
    pub(crate) patience: Duration,
    /// The time that a hold outlives its client.
    pub(crate) lease: Duration,
    /// The time that a queue entry outlives its client.
    pub(crate) place: Duration,
    /// A lower bound of fences, exclusive.
    pub(crate) above: u64,
    /// Whether callers make first attempts themselves.
    pub(crate) by_callers: bool,
    /// `Some` for a client that runs in the current runtime.
    pub(crate) here: Option<Here>,
}

/// State that the clones of a client share.
pub(crate) struct Client {
    id: String,
    prefix: String,
    numbers: AtomicU64,
    settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) io: Io,
    pub(crate) business: Arc<Business>,
    /// The runtime and settings that its requests run with.
    pub(crate) home: Arc<Home>,
    requests: Mutex<Requests>,
    applications: Mutex<Applications>,
    inboxes: Mutex<Inboxes>,
    /// Notified when a hold begins that ends before the next check of the others.
    pub(crate) changed: Arc<Notify>,
    /// Notified when the store has answered the end of a request.
    pub(crate) told: Notify,
    /// The thread ends when this, and that of all other clients, is dropped.
    _stop: Arc<oneshot::Sender<()>>,
}

// A panic of the program leaves nothing half changed here: its code does not run under these locks,
// and a store answers each call on its own.
impl UnwindSafe for Client {}
impl RefUnwindSafe for Client {}

impl Client {
    /// Starts a client of each store, with one thread for all, or in the current runtime.
    pub(crate) fn start(
        prefix: &str,
        settings: Settings,
        stores: Vec<Arc<dyn Store>>,
    ) -> Result<(Vec<Arc<Client>>, Handles), ConnectError> {
        let system = |error: &dyn fmt::Display| ConnectError::System(error.to_string());
        let (stop, stopped) = oneshot::channel::<()>();
        let business = Arc::new(Business::default());
        let io = match &settings.here {
            Some(here) => {
                business.runs_here();
                let runtime = Handle::try_current().map_err(|error| system(&error))?;
                Io::new(runtime, Some(here.gate.clone()))
            }
            None => {
                let thread = own_thread(&business, stopped).map_err(|error| system(&error))?;
                Io::new(thread, None)
            }
        };
        let (stop, kept) = (Arc::new(stop), (settings.place, settings.lease));
        let client = |store: Arc<dyn Store>| {
            let id = match &settings.here {
                Some(here) => here.number.clone(),
                None => unique_number().map_err(|error| system(&error))?,
            };
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
                    prefix: prefix.to_owned(),
                    numbers: AtomicU64::new(0),
                    settings: settings.clone(),
                    store,
                    io: io.clone(),
                    business: business.clone(),
                    home: Arc::new(Home::new(&io, &business, kept, settings.by_callers)),
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

    /// Its number, which is unique among clients.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn key(&self, kind: &str, name: &str) -> Result<String, NameError> {
        name::key(&self.prefix, kind, name)
    }

    /// Returns the token of a new request.
    pub(crate) fn token(&self) -> Token {
        // Only uniqueness matters.
        Token::new(&self.id, self.numbers.fetch_add(1, Relaxed))
    }

    /// Returns a factor from 0.5 to 1.5, another one each time, and others for other clients: so
    /// that they do not all return at once when a server is back.
    fn jitter(&self) -> f64 {
        let mut hasher = DefaultHasher::new();
        self.token().hash(&mut hasher);
        0.5 + f64::from(hasher.finish().to_le_bytes()[0]) / 256.0
    }

    /// Spawns a task on the client's thread, for which the end of the program waits: one that
    /// reports something to the store.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.business.spawn(&self.io, task)
    }

    /// Spawns a task as [`spawn`](Self::spawn) does, and returns its result.
    pub(crate) fn reply<R, F>(&self, task: F) -> Reply<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let (promise, reply) = promise();
        self.spawn(async move { promise.keep(task.await) });
        reply
    }

    /// Makes a call on the client's thread, for which the end of the program waits.
    pub(crate) fn make<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Call<T, E>
    where
        T: Send + 'static,
        E: From<AskError> + Send + 'static,
    {
        Call::there(&self.home, call)
    }

    /// Sends a step on the client's thread until it is answered, and reads its answer.
    pub(crate) fn step<T, E>(
        self: &Arc<Self>,
        op: Result<Op, E>,
        read: impl FnOnce(Answer) -> Result<T, E> + Send + 'static,
    ) -> Call<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + From<AskError> + Send + 'static,
    {
        let client = Arc::clone(self);
        self.make(async move { read(client.call(&op?, client.patience()).await.0?) })
    }

    /// Returns a step of this client, with its lower bound of fences.
    pub(crate) fn op(&self, key: String, places: u32, step: Step) -> Op {
        Op { key, places, above: self.settings.above, step }
    }

    /// The lease of requests that have none of their own.
    pub(crate) fn lease(&self) -> Duration {
        self.settings.lease
    }

    /// The lifetime of a queue entry that is not refreshed.
    pub(crate) fn place(&self) -> Duration {
        self.settings.place
    }

    /// The time at which a call that begins now fails, whatever its limit.
    pub(crate) fn patience(&self) -> Instant {
        after(self.settings.patience)
    }

    /// Waiting requests and holds.
    pub(crate) fn requests(&self) -> MutexGuard<'_, Requests> {
        // No code of users runs under this lock.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waiting and admitted applications.
    pub(crate) fn applications(&self) -> MutexGuard<'_, Applications> {
        // No code of users runs under this lock.
        self.applications.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waiting asks and held mailboxes.
    pub(crate) fn inboxes(&self) -> MutexGuard<'_, Inboxes> {
        // No code of users runs under this lock.
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

    /// Sends a step from its caller. Falls back to [repeated attempts](Self::call) on the client's
    /// thread.
    pub(crate) async fn call_by(
        &self,
        caller: &Caller,
        op: &Op,
        until: Instant,
    ) -> (Result<Answer, StoreError>, bool) {
        let mut late = false;
        if caller.may_block() {
            let limit = until.saturating_duration_since(Instant::now());
            match self.store.call_blocking(op, limit.min(self.home.old)) {
                Some(Ok(answer)) => return (Ok(answer), false),
                Some(Err(error)) if !is_tried_again(&error, op) => return (Err(error), false),
                Some(Err(error)) => {
                    late = !matches!(error, StoreError::Refused { .. });
                    caller.moves().await;
                }
                // Goes on in the runtime of its thread.
                None => yield_now().await,
            }
        }
        if caller.is_here() {
            let mut called = pin!(timeout_at(until, self.store.call(op)));
            let answer = poll_fn(|cx| match caller.is_here() {
                true => called.as_mut().poll(cx).map(Some),
                // The attempt has taken too long, or its caller no longer polls it: that runtime
                // may be gone.
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

    /// Sends a step until it is answered, or until the deadline. Also returns whether copies of it
    /// may still be on their way.
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
            // A refused step has had no effect.
            late |= !matches!(error, StoreError::Refused { .. });
            let again = after(pause.mul_f64(self.jitter()));
            if again >= until {
                return (Err(error), late);
            }
            sleep_until(again).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// Starts a client's thread, which ends when the client does. Returns its runtime.
fn own_thread(business: &Arc<Business>, stopped: oneshot::Receiver<()>) -> io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (io, business) = (runtime.handle().clone(), business.clone());
    let run = move || {
        business.runs_here();
        // What was submitted by then is sent.
        let _ = runtime.block_on(stopped);
    };
    thread::Builder::new().name("turnwise-redis".to_owned()).spawn(run)?;
    Ok(io)
}

fn unique_number() -> Result<String, getrandom::Error> {
    let mut number = [0; 16];
    getrandom::fill(&mut number)?;
    Ok(number.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// True if a step that failed with this error is sent again. A step that must not wait is not, if
/// it was refused.
fn is_tried_again(error: &StoreError, op: &Op) -> bool {
    let refused = matches!(error, StoreError::Refused { .. });
    error.is_transient() && !(refused && matches!(op.step, Step::Acquire { alive: None, .. }))
}

impl Drop for Client {
    fn drop(&mut self) {
        self.store.forget(&self.id);
    }
}

/// A client, as a program owns it.
#[derive(Clone)]
pub(crate) struct Owned {
    client: Arc<Client>,
    /// Dropped after the client, which reports to the store before.
    pub(crate) handles: Handles,
}

impl Owned {
    pub(crate) fn new(client: Arc<Client>, handles: Handles) -> Self {
        Owned { client, handles }
    }
}

impl std::ops::Deref for Owned {
    type Target = Arc<Client>;

    fn deref(&self) -> &Arc<Client> {
        &self.client
    }
}
