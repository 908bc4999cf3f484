//! Connections of threads that wait: blocking ones, each of which one thread uses for one step.
//!
//! - WIRES-1: a connection leads to the server that the last one of a runtime has led to, and is
//!   checked as that one was. Without such a server, threads make no calls themselves; if it takes
//!   no connection, not before a runtime connects again.
//! - WIRES-2: a thread waits for a new connection, for a write and for a read, each no longer than
//!   its limit. What may take longer, such as the resolution of a name, has a thread of its own.
//! - WIRES-3: a connection without an answer is closed, because the answer may come later. So are
//!   all others as soon as they are idle: the server may be gone.

use std::future::ready;
use std::mem;
use std::pin::pin;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use redis::aio::ConnectionLike;
use redis::{
    Client, Cmd, Connection, ConnectionLike as _, Pipeline, RedisFuture, RedisResult, Value,
};

use crate::suits::suits;
use crate::time::SHORTEST;

/// The connections of a store.
#[derive(Default)]
pub(crate) struct Wires {
    kept: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    idle: Vec<Connected>,
    /// The client of the server that they lead to.
    to: Option<Client>,
    /// Advances when all connections are closed.
    age: u64,
}

/// A connection that no other thread uses.
pub(crate) struct Wire {
    connected: Connected,
    age: u64,
}

struct Connected {
    connection: Connection,
    /// The limit of a write and of a read, or about that.
    limit: Duration,
}

impl Wires {
    fn kept(&self) -> MutexGuard<'_, OpenConnections> {
        // No code that can panic runs under this lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the server that connections lead to, and closes those that there are.
    pub(crate) fn lead_to(&self, server: Client) {
        self.closes(|to| *to = Some(server));
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.closes(|_| ());
    }

    fn closes(&self, sets: impl FnOnce(&mut Option<Client>)) {
        let mut kept = self.kept();
        sets(&mut kept.to);
        kept.age += 1;
        let idle = mem::take(&mut kept.idle);
        drop(kept);
        drop(idle);
    }

    /// Takes an idle connection, or opens one.
    pub(crate) fn take(&self, limit: Duration) -> Option<Wire> {
        let mut kept = self.kept();
        let (idle, to, age) = (kept.idle.pop(), kept.to.clone(), kept.age);
        drop(kept);
        let connected = match idle {
            Some(idle) => Some(idle),
            // Not in time: the limit may be a short one.
            None => Connected::open(to?, limit).ok()?,
        };
        if connected.is_none() {
            let mut kept = self.kept();
            kept.to = kept.to.take().filter(|_| kept.age != age);
        }
        Some(Wire { connected: connected?.within(limit)?, age })
    }

    /// Keeps a connection on which each step was answered.
    pub(crate) fn put(&self, wire: Wire) {
        let mut kept = self.kept();
        if wire.age == kept.age {
            kept.idle.push(wire.connected);
        }
    }
}

impl Wire {
    pub(crate) fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.connected.connection.req_command(command).and_then(Value::extract_error)
    }
}

impl Connected {
    /// Opens a connection to a server. `Ok(None)`: it takes none. `Err`: there is none in time.
    fn open(to: Client, limit: Duration) -> Result<Option<Self>, RecvTimeoutError> {
        let open = move || {
            let until = Instant::now() + limit;
            let connection = to.get_connection_with_timeout(limit).ok()?;
            let left = until.saturating_duration_since(Instant::now());
            let mut connected = Connected { connection, limit: Duration::MAX }.within(left)?;
            let mut all = Ready(&mut connected.connection);
            let suits = pin!(suits(&mut all)).poll(&mut Context::from_waker(Waker::noop()));
            // A cluster has several servers.
            matches!(suits, Poll::Ready(Ok((_, false)))).then_some(connected)
        };
        let (opened, opens) = sync_channel(1);
        let thread = thread::Builder::new().name("turnwise-redis".to_owned());
        // Without a thread, its end of the channel is gone.
        drop(thread.spawn(move || drop(opened.send(open()))));
        opens.recv_timeout(limit)
    }

    /// Limits each write and each read. A limit that is about the same remains, because a change
    /// takes two system calls.
    fn within(mut self, limit: Duration) -> Option<Self> {
        if self.limit.abs_diff(limit) > SHORTEST {
            self.limit = limit.max(SHORTEST);
            self.connection.set_read_timeout(Some(self.limit)).ok()?;
            self.connection.set_write_timeout(Some(self.limit)).ok()?;
        }
        Some(self)
    }
}

/// A blocking connection, as one whose futures are ready when they are polled.
struct Ready<'a>(&'a mut Connection);

impl ConnectionLike for Ready<'_> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(ready(self.0.req_command(cmd)))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let all = self.0.req_packed_commands(&cmd.get_packed_pipeline(), offset, count);
        Box::pin(ready(all))
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}
