//! What the objects of a client share.
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

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use turnwise::{Reply, promise};

use crate::actors::inbox::Inboxes;
use crate::applications::Applications;
use crate::attempt::{Caller, Home};
use crate::business::{Business, Handles};
use crate::error::{ConnectError, StoreError};
use crate::name::{self, NameError};
use crate::requests::Requests;
use crate::step::{Answer, Notice, Op, Step, Token};
use crate::store::Store;
use crate::time::after;

/// What a client goes by.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// So long a call goes on without an answer.
    pub(crate) patience: Duration,
    /// How long a hold outlives its client.
    pub(crate) lease: Duration,
    /// How long a place in a queue does.
    pub(crate) place: Duration,
    /// Fences are greater than this.
    pub(crate) above: u64,
    /// Callers make first attempts themselves.
    pub(crate) by_callers: bool,
}

/// What clones of a client share.
pub(crate) struct Client {
    id: String,
    prefix: String,
    numbers: AtomicU64,
    settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) io: Handle,
    pub(crate) business: Arc<Business>,
    /// Where its requests are worked for.
    pub(crate) home: Arc<Home>,
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
    /// A client of each store, with one thread for all.
    pub(crate) fn start(
        prefix: &str,
        settings: Settings,
        stores: Vec<Arc<dyn Store>>,
    ) -> Result<(Vec<Arc<Client>>, Handles), ConnectError> {
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
        let (stop, kept) = (Arc::new(stop), (settings.place, settings.lease));
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

    /// Its number, which no other client has.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

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

    /// As [`spawn`](Self::spawn), and what comes of it.
    pub(crate) fn reply<R, F>(&self, task: F) -> Reply<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let (promise, reply) = promise();
        self.spawn(async move { promise.keep(task.await) });
        reply
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

/// A client, for a program.
#[derive(Clone)]
pub(crate) struct Owned {
    client: Arc<Client>,
    /// After the client: what that has yet to say is said before.
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
