//! Requests that are made by their callers: in runtimes, by threads, and by neither.

use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::support::board::{Add, Board};
use crate::support::proxy::{Fate, Proxy};
use crate::support::{Server, until};
use tokio::runtime::{Builder, Handle, Id, Runtime};
use turnwise::executor::Blocking;
use turnwise::{Actor, ThreadPool};
use turnwise_redis::step::{Answer, MailboxAct, MailboxStep, Op, Step};
use turnwise_redis::{
    Called, Drains, Effect, Guard, Limits, LockError, Locks, MemoryStore, MessageError, RedisStore,
    Remote, RemoteBuilder, Store, StoreError,
};

const SHORT: Duration = Duration::from_millis(60);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Clients of both kinds of stores.
fn remotes(server: &Server) -> [Remote; 2] {
    [Remote::in_memory(), Remote::connect(&server.url()).unwrap()]
}

/// With the words of locks in process.
#[test]
fn a_worker_that_must_not_wait_is_told_so() {
    let pool = ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap();
    let locks = Remote::in_memory().locks();
    let held = locks.lock("a").wait().unwrap();
    let worker = Actor::builder().executor(pool.handle()).spawn(locks).unwrap();
    let told = worker.call(|locks| locks.lock_all(["a"], Limits::NONE).wait().map(drop));
    assert_eq!(told.wait().unwrap(), Err(LockError::WouldBlock));
    drop(held);
}

#[test]
fn what_nobody_polls_is_sent_and_keeps_its_place() {
    let server = Server::start();
    // Queue entries are over soon, unless they are kept.
    let connect = || Remote::builder().place(SHORT).connect(&server.url()).unwrap();
    let (one, other) = (connect(), connect());
    let held = one.locks().lock("a").wait().unwrap();
    let first = one.locks().lock("a");
    until("it is sent", || one.locks().info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
    let second = other.locks().lock("a");
    until("it is sent", || one.locks().info("a").wait().unwrap().is_some_and(|it| it.waiting == 2));
    let began = Instant::now();
    until("its place would be over", || began.elapsed() > SHORT * 5);
    drop(held);
    until("it is granted", || first.is_ready());
    assert!(!second.is_ready());
    drop(first);
    second.wait().unwrap().release().wait().unwrap();
}

#[test]
fn what_was_granted_and_is_not_polled_is_renewed() {
    let server = Server::start();
    // Long enough for a machine that runs other tests, too.
    let lease = SHORT * 8;
    let remote = Remote::builder().lease(lease).connect(&server.url()).unwrap();
    let locks = remote.locks();
    let asked = locks.lock("a");
    until("it is granted", || {
        locks.info("a").wait().unwrap().is_some_and(|it| it.holder.is_some())
    });
    let began = Instant::now();
    until("its lease would be over", || began.elapsed() > lease * 3);
    let guard = asked.wait().unwrap();
    assert!(!guard.is_lost());
    guard.release().wait().unwrap();
}

#[test]
fn what_was_polled_once_is_not_forgotten() {
    let server = Server::start();
    let remote = Remote::builder().place(SHORT).connect(&server.url()).unwrap();
    let held = remote.locks().lock("a").wait().unwrap();
    let runtime = runtime();
    let mut asked = remote.locks().lock("a");
    runtime.block_on(async {
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(&mut asked).poll(&mut context).is_pending());
    });
    // Its connection is no longer driven.
    drop(runtime);
    until("it waits", || {
        remote.locks().info("a").wait().unwrap().is_some_and(|it| it.waiting == 1)
    });
    drop(held);
    let guard = asked.wait().unwrap();
    guard.release().wait().unwrap();
}

#[test]
fn what_is_dropped_is_told_before_the_next_attempt() {
    let server = Server::start();
    for remote in remotes(&server) {
        let locks = remote.locks();
        for _ in 0..300 {
            drop(locks.try_lock("a").wait().unwrap());
            let let_go = locks.try_lock("a").wait().unwrap().release();
            drop(let_go);
        }
        runtime().block_on(async {
            for _ in 0..300 {
                drop(locks.try_lock("a").await.unwrap());
                let let_go = locks.try_lock("a").await.unwrap().release();
                drop(let_go);
            }
        });
        let slots = remote.slots("s", 2).unwrap();
        for _ in 0..300 {
            let take = || slots.acquire(Limits::wait(Duration::ZERO)).wait().unwrap();
            drop((take(), take()));
        }
    }
}

#[test]
fn runtimes_and_threads_take_turns() {
    let server = Server::start();
    for remote in remotes(&server) {
        // More threads than have connections of their own.
        let (inside, grants, together) =
            (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(9));
        let alone = || {
            assert_eq!(inside.fetch_add(1, SeqCst), 0);
            inside.fetch_sub(1, SeqCst);
            grants.fetch_add(1, SeqCst);
        };
        thread::scope(|scope| {
            for number in 0..9 {
                let (locks, alone, together) = (remote.locks(), &alone, &together);
                scope.spawn(move || {
                    together.wait();
                    let runtime = (number % 3 == 0).then(runtime);
                    for round in 0..20 {
                        let asked = locks.lock("a");
                        let guard = match &runtime {
                            Some(runtime) => runtime.block_on(asked).unwrap(),
                            None => asked.wait().unwrap(),
                        };
                        alone();
                        match (round % 2, &runtime) {
                            (0, _) => drop(guard),
                            (_, Some(runtime)) => runtime.block_on(guard.release()).unwrap(),
                            (_, None) => guard.release().wait().unwrap(),
                        }
                    }
                });
            }
        });
        assert_eq!(grants.into_inner(), 9 * 20);
    }
}

#[test]
fn a_thread_may_wait_inside_of_its_own_runtime() {
    let server = Server::start();
    for remote in remotes(&server) {
        let locks = remote.locks();
        runtime().block_on(async {
            let guard = locks.lock("a").await.unwrap();
            let mut asked = locks.lock("a");
            assert!(asked.wait_timeout(Duration::from_millis(1)).is_none());
            guard.release().wait().unwrap();
            asked.wait().unwrap().release().wait().unwrap();
        });
        let workers = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let locks = remote.locks();
        let task = workers.spawn(async move {
            let mut asked = locks.lock("a");
            // Begun in the runtime, and waited for by the only thread that could drive it.
            let polled = std::future::poll_fn(|cx| Poll::Ready(pin!(&mut asked).poll(cx)));
            match polled.await {
                Poll::Ready(guard) => guard.unwrap().release().await,
                Poll::Pending => asked.wait().unwrap().release().wait(),
            }
        });
        workers.block_on(task).unwrap().unwrap();
    }
}

/// The simplest executor.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn any_executor_will_do() {
    let server = Server::start();
    for remote in remotes(&server) {
        let locks = remote.locks();
        // Outside of any runtime.
        let count = block_on(async {
            let mut count = 0;
            for _ in 0..20 {
                let guard = locks.lock("a").await.unwrap();
                count += 1;
                guard.release().await.unwrap();
            }
            count
        });
        assert_eq!(count, 20);
        let one = turnwise::ThreadPool::builder().threads(1).build().unwrap();
        let actor = turnwise::Actor::builder().executor(one.handle()).spawn(0).unwrap();
        // A turn that waits for it, on the only thread of its pool.
        let locks = remote.locks();
        let asked = actor.call(move |_| locks.lock("a").wait().map(|guard| guard.release().wait()));
        assert!(matches!(asked.wait().unwrap(), Ok(Ok(()))));
    }
}

#[test]
fn what_a_runtime_had_connected_is_connected_anew() {
    let mut server = Server::start();
    let remote = Remote::connect(&server.url()).unwrap();
    let (locks, runtime) = (remote.locks(), runtime());
    runtime.block_on(async { locks.lock("a").await.unwrap().release().await.unwrap() });
    locks.lock("a").wait().unwrap().release().wait().unwrap();
    server.kill();
    server.run();
    runtime.block_on(async { locks.lock("a").await.unwrap().release().await.unwrap() });
    locks.lock("a").wait().unwrap().release().wait().unwrap();
    // Limits hold while the server does not answer.
    server.signal(nix::sys::signal::Signal::SIGSTOP);
    let limit = Duration::from_millis(30);
    let late =
        |error: &LockError| matches!(error, LockError::Store(_) | LockError::TimedOut { .. });
    let began = Instant::now();
    let error = runtime.block_on(locks.lock_within("a", Limits::wait(limit))).unwrap_err();
    assert!(late(&error), "{error}");
    let error = locks.lock_within("a", Limits::wait(limit)).wait().unwrap_err();
    assert!(late(&error), "{error}");
    let mut asked = locks.lock("a");
    assert!(asked.wait_timeout(limit).is_none());
    assert!(began.elapsed() < Duration::from_secs(10));
    server.signal(nix::sys::signal::Signal::SIGCONT);
    asked.wait().unwrap().release().wait().unwrap();
}

#[test]
fn one_connection_does_for_all() {
    let server = Server::start();
    let remote = Remote::builder().one_connection().connect(&server.url()).unwrap();
    let locks = remote.locks();
    runtime().block_on(async { locks.lock("a").await.unwrap().release().await.unwrap() });
    // It needs neither IO nor time of the runtime that waits.
    let bare = Builder::new_current_thread().build().unwrap();
    bare.block_on(async { locks.lock("a").await.unwrap().release().await.unwrap() });
    thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(|| locks.lock("a").wait().unwrap().release().wait())));
    });
    let clients = server.all("CLIENT LIST\r\nQUIT", 20);
    let others = clients.iter().filter(|line| line.contains("cmd=eval") || line.contains("resp=3"));
    assert_eq!(others.count(), 1, "{clients:?}");
}

/// Records the threads of its calls. The first calls panic.
#[derive(Debug)]
struct Watched {
    store: MemoryStore,
    panics: AtomicUsize,
    called: Mutex<Vec<ThreadId>>,
}

impl Store for Watched {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        if matches!(op.step, Step::Acquire { .. }) {
            self.called.lock().unwrap().push(thread::current().id());
            let panics = self.panics.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(panics.is_err(), "a store");
        }
        self.store.call(op)
    }

    crate::support::forwards_notices!(store);
}

#[test]
fn a_store_that_panics_takes_no_runtime_away() {
    let panics = AtomicUsize::new(9);
    let called = Mutex::default();
    let store = Arc::new(Watched { store: MemoryStore::new(), panics, called });
    let locks = Remote::builder().over(store.clone()).unwrap().locks();
    for number in 0..9 {
        catch_unwind(AssertUnwindSafe(|| locks.lock(format!("a{number}")).wait())).unwrap_err();
    }
    locks.lock("b").wait().unwrap().release().wait().unwrap();
    let called = store.called.lock().unwrap();
    assert!(called.len() == 10 && called.iter().all(|it| *it == thread::current().id()));
}

/// Counts the steps that threads send themselves, and all others.
#[derive(Debug)]
struct Counted {
    store: RedisStore,
    blocking: AtomicUsize,
    others: AtomicUsize,
}

impl Counted {
    /// A store, and locks over it whose client is connected.
    fn connect(url: &str, builder: RemoteBuilder) -> (Arc<Counted>, Locks) {
        let store = RedisStore::new(url, "turnwise", Duration::from_secs(20)).unwrap();
        let (blocking, others) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let store = Arc::new(Counted { store, blocking, others });
        let locks = builder.over(store.clone()).unwrap().locks();
        pair(&locks);
        store.counted();
        (store, locks)
    }

    /// Waits until this thread sends its steps itself.
    fn until_blocking(&self, locks: &Locks) {
        until("threads send their steps themselves", || {
            self.counted();
            let is_held = |guard: Guard| guard.release().wait().is_ok();
            locks.lock("a").wait().is_ok_and(is_held) && self.counted() == (2, 0)
        });
    }

    /// Returns how many steps threads have sent themselves since the last call, and how many others
    /// there were.
    fn counted(&self) -> (usize, usize) {
        (self.blocking.swap(0, SeqCst), self.others.swap(0, SeqCst))
    }
}

impl Store for Counted {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        self.others.fetch_add(1, SeqCst);
        self.store.call(op)
    }

    fn call_blocking(&self, op: &Op, limit: Duration) -> Option<Result<Answer, StoreError>> {
        let answer = self.store.call_blocking(op, limit);
        self.blocking.fetch_add(usize::from(matches!(answer, Some(Ok(_)))), SeqCst);
        answer
    }

    crate::support::forwards_notices!(store);
}

/// A pair of lock and unlock in this thread.
fn pair(locks: &Locks) {
    locks.lock("a").wait().unwrap().release().wait().unwrap();
}

#[test]
fn threads_that_wait_send_their_steps_themselves() {
    let server = Server::start();
    let (store, locks) = Counted::connect(&server.url(), Remote::builder());
    store.until_blocking(&locks);
    assert_eq!(server.ask("SCRIPT FLUSH"), "+OK");
    pair(&locks);
    assert_eq!(store.counted(), (2, 0));
    // What has to wait goes on in the client's thread, which has the notices.
    let held = locks.lock("a").wait().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| pair(&locks));
        until("it waits", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
        drop(held);
        waits.join().unwrap();
    });
}

/// A server that has become a node of a cluster redirects the step of a thread, which has had no
/// effect, and then that of the thread's runtime.
#[test]
fn redirections_of_threads_that_wait_are_followed() {
    for code in ["MOVED", "ASK", "TRYAGAIN"] {
        let server = Server::start();
        let proxy = Proxy::new(server.port, || Fate::Forward);
        let (store, locks) = Counted::connect(&proxy.url(), Remote::builder());
        store.until_blocking(&locks);
        let refusals = Arc::new(AtomicUsize::new(0));
        let (seen, port) = (refusals.clone(), server.port);
        proxy.then(move || match seen.fetch_add(1, SeqCst) {
            0 | 1 => Fate::Redirect(code, port),
            _ => Fate::Forward,
        });
        pair(&locks);
        // From now on the nodes of the cluster are asked.
        store.counted();
        pair(&locks);
        assert_eq!(store.counted(), (0, 2), "{code}");
        // One that has moved is at another address.
        let passed = if code == "MOVED" { 2..=2 } else { 6..=6 };
        assert!(passed.contains(&refusals.load(SeqCst)), "{code}: {refusals:?}");
    }
}

#[test]
fn connections_of_threads_that_are_closed_are_opened_anew() {
    let mut server = Server::start();
    let (store, locks) = Counted::connect(&server.url(), Remote::builder());
    let closes: [fn(&mut Server); 2] = [
        |server| drop(server.ask("CLIENT KILL TYPE normal")),
        |server| {
            server.kill();
            server.run();
        },
    ];
    for close in closes {
        pair(&locks);
        close(&mut server);
        pair(&locks);
        store.until_blocking(&locks);
    }
}

#[test]
fn a_thread_waits_no_longer_than_its_limit_for_a_server_that_is_silent() {
    let server = Server::start();
    // What does not reach a server that is silent is over soon.
    let builder = Remote::builder().give_up_after(SHORT * 8).lease(SHORT * 20);
    let (store, locks) = Counted::connect(&server.url(), builder);
    // With a connection, and without one.
    for before in ["PING", "CLIENT KILL TYPE normal"] {
        server.ask(before);
        server.signal(nix::sys::signal::Signal::SIGSTOP);
        for limits in [Limits::wait(SHORT), Limits::NONE] {
            let of = locks.clone();
            let waits = thread::spawn(move || of.lock_within("b", limits).wait());
            until("it ends", || waits.is_finished());
            let error = waits.join().unwrap().unwrap_err();
            assert!(matches!(&error, LockError::Store(it) if it.is_transient()), "{error:?}");
        }
        server.signal(nix::sys::signal::Signal::SIGCONT);
        until("it answers again", || locks.lock("b").wait().is_ok());
        store.until_blocking(&locks);
    }
}

#[test]
fn a_request_is_kept_although_its_thread_waits_for_the_answer() {
    let server = Server::start();
    let proxy = Proxy::new(server.port, || Fate::Forward);
    let place = SHORT * 20;
    let (store, locks) = Counted::connect(&proxy.url(), Remote::builder().place(place));
    let held = locks.lock("a").wait().unwrap();
    let mut first = true;
    proxy.then(move || match std::mem::take(&mut first) {
        true => Fate::Delay(place * 8),
        false => Fate::Forward,
    });
    thread::scope(|scope| {
        let waits = scope.spawn(|| locks.lock("a").wait().unwrap());
        let began = Instant::now();
        until("its place would be over", || began.elapsed() > place * 3 / 2);
        let second = locks.lock("a");
        let waiting = || locks.info("a").wait().unwrap().map_or(0, |it| it.waiting);
        until("another waits", || !second.is_ready() && waiting() == 2);
        drop(held);
        until("one is granted", || waits.is_finished() || second.is_ready());
        assert!(!second.is_ready());
    });
    // The connection without an answer is not used again.
    store.counted();
    locks.lock("b").wait().unwrap().release().wait().unwrap();
    assert_eq!(store.counted().0, 2);
}

/// A runtime that is no longer driven sends nothing, and neither does one that has ended.
#[test]
fn what_is_dropped_in_a_runtime_is_told_although_that_does_not_go_on() {
    let server = Server::start();
    let remote = Remote::connect(&server.url()).unwrap();
    let (locks, runtime) = (remote.locks(), runtime());
    let is_free = || remote.locks().info("a").wait().unwrap().is_none();
    for _ in 0..20 {
        // The drop is the last thing that it does.
        runtime.block_on(async { drop(locks.lock("a").await.unwrap()) });
        until("it has an answer", is_free);
        // The drop blocks what drives it.
        let free = runtime.block_on(async {
            drop(locks.lock("a").await.unwrap());
            remote.flush(Duration::from_secs(30))
        });
        assert!(free && is_free());
    }
    // Its tasks are dropped with it.
    let (held, holds) = std::sync::mpsc::channel();
    let of = locks.clone();
    runtime.spawn(async move {
        let _guard = of.lock("a").await.unwrap();
        held.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    runtime.block_on(async {
        while holds.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime);
    until("it has an answer", is_free);
}

/// A store that does not go on with releases in one runtime, as if that was not driven any more.
#[derive(Debug)]
struct Stalls {
    store: MemoryStore,
    stalled: Id,
    /// The number of times that such a release was polled.
    polled: AtomicUsize,
}

impl Store for Stalls {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        let here = Handle::try_current().is_ok_and(|runtime| runtime.id() == self.stalled);
        if here && matches!(op.step, Step::Leave { .. }) {
            return Box::pin(poll_fn(|cx| {
                self.polled.fetch_add(1, SeqCst);
                cx.waker().wake_by_ref();
                Poll::Pending
            }));
        }
        self.store.call(op)
    }

    crate::support::forwards_notices!(store);
}

/// A runtime that has begun to wait for the answer to a release, and is driven no further.
#[test]
fn what_is_dropped_in_a_runtime_is_told_although_that_was_driven_once() {
    let (runtime, polled) = (runtime(), AtomicUsize::new(0));
    let stalled = runtime.handle().id();
    let store = Arc::new(Stalls { store: MemoryStore::new(), stalled, polled });
    let lease = Duration::from_secs(600);
    let locks = Remote::builder().lease(lease).over(store.clone()).unwrap().locks();
    runtime.block_on(async {
        drop(locks.lock("a").await.unwrap());
        while store.polled.load(SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    });
    until("it has an answer", || locks.info("a").wait().unwrap().is_none());
}

/// A store in which the first release has no answer, and no effect.
#[derive(Debug)]
struct Loses {
    store: MemoryStore,
    released: AtomicUsize,
}

impl Store for Loses {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            if matches!(op.step, Step::Leave { .. }) && self.released.fetch_add(1, SeqCst) == 0 {
                tokio::task::yield_now().await;
                return Err(StoreError::TimedOut { effect: Effect::Unknown });
            }
            self.store.call(op).await
        })
    }

    crate::support::forwards_notices!(store);
}

#[test]
fn what_is_dropped_in_a_runtime_is_told_again_if_it_is_lost() {
    let store = Loses { store: MemoryStore::new(), released: AtomicUsize::new(0) };
    let locks = Remote::builder().over(store).unwrap().locks();
    let limits = Limits::wait(Duration::from_secs(30)).lease(Duration::from_secs(600));
    runtime().block_on(async {
        drop(locks.lock_within("a", limits).await.unwrap());
        locks.lock_within("a", limits).await.unwrap().release().await.unwrap();
    });
}

/// Panics if it is woken.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker");
    }
}

#[test]
fn a_waker_that_panics_harms_no_other_request() {
    let server = Server::start();
    let remote = Remote::builder().place(SHORT).connect(&server.url()).unwrap();
    let locks = remote.locks();
    let held = locks.lock("a").wait().unwrap();
    let runtime = runtime();
    let mut asked = locks.lock("a");
    // Begun, and neither driven nor polled any more: the client's thread takes it over.
    runtime.block_on(async {
        let waker = Waker::from(Arc::new(Panics));
        assert!(pin!(&mut asked).poll(&mut Context::from_waker(&waker)).is_pending());
    });
    until("it waits", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
    let other = locks.lock("b");
    until("it is sent", || locks.info("b").wait().unwrap().is_some_and(|it| it.holder.is_some()));
    drop((held, asked, other));
}

#[test]
fn a_thread_that_ends_may_wait() {
    struct AtTheEnd(Locks);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            self.0.lock("a").wait().unwrap().release().wait().unwrap();
        }
    }
    thread_local!(static LAST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });
    let server = Server::start();
    for remote in remotes(&server) {
        let locks = remote.locks();
        let ends = thread::spawn(move || {
            LAST.set(Some(AtTheEnd(locks.clone())));
            // The thread-locals used in here are dropped before that one.
            locks.lock("a").wait().unwrap().release().wait().unwrap();
        });
        ends.join().unwrap();
        assert_eq!(remote.locks().info("a").wait(), Ok(None));
    }
}

/// A store that keeps messages, and answers no question about them.
#[derive(Debug)]
struct NoOutcomes(MemoryStore);

impl Store for NoOutcomes {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            match &op.step {
                Step::Mailbox(MailboxStep { act: MailboxAct::Outcome { .. }, .. }) => {
                    Err(StoreError::TimedOut { effect: Effect::Unknown })
                }
                _ => self.0.call(op).await,
            }
        })
    }

    crate::support::forwards_notices!(0);
}

#[test]
fn an_ask_ends_at_its_limit_although_the_store_is_silent() {
    // It looks after a third of that.
    let remote = Remote::builder().place(SHORT).over(NoOutcomes(MemoryStore::new())).unwrap();
    let boards = remote.actors::<Board>("board").message::<Add>("add").drains(Drains::Never);
    let began = Instant::now();
    let asked = boards.open().unwrap().of("a").unwrap().ask(Add(1)).within(SHORT * 4).wait();
    assert!(matches!(asked, Err(MessageError::TimedOut { .. })), "{asked:?}");
    // Not the client's patience of thirty seconds.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
