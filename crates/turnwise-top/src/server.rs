//! The server: one thread that waits for all of its clients, and looks at the system for them.
//!
//! - PACE: two looks are [`PACE`] apart at least, and ten times as long as the last one took, up to
//!   [`LONGEST`]. So a system of any size is looked at for a tenth of a processor's time at most,
//!   for any number of clients, who share each look. Without a client that asks there is one look a
//!   second, for the times of [`Looks`].
//! - CLIENT: no client is waited for. One that does not read keeps its own answer back and no
//!   other; what it asks meanwhile is not read. After [`PATIENCE`] its connection is closed.
//! - FULL: there are [`CLIENTS`] connections at most. One more takes the place of the one that has
//!   been silent for the longest time.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use turnwise::System;
use turnwise::snapshot::SystemView;

use crate::address::{Address, remove_dead};
use crate::error::ServeError;
use crate::look::Looks;
use crate::source::Sources;
use crate::wire::{REQUEST, Report, error_line};

mod socket;

use socket::{Listener, Stream};

/// The least time between two looks.
const PACE: Duration = Duration::from_millis(100);
/// The longest time between two looks, which clients have the patience for.
const LONGEST: Duration = Duration::from_secs(5);
/// The time between two looks that no client asks for.
const IDLE: Duration = Duration::from_secs(1);
/// The longest that an answer waits for its client to read it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most connections at once.
const CLIENTS: usize = 16;

const END: Token = Token(0);
const ACCEPT: Token = Token(1);
const FIRST: usize = 2;

/// Serves the actors of a system to `turnwise-top` for as long as it is kept: [`serve`].
///
/// Its drop ends the server's thread, closes the connections and removes the socket's file. It
/// waits for a look that is under way, and until its sources are dropped: for half a second at most
/// if one is in a call.
#[must_use = "dropping it ends the server"]
pub struct Server {
    address: Address,
    end: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
    sources: Sources,
    /// Removes the socket's file when it is dropped.
    _file: socket::File,
}

/// Serves the actors of a system at an address of this process: a socket of the user's run-time
/// folder, or of that for temporary files. Where there are no Unix domain sockets, a free port.
///
/// `turnwise-top` finds it there. The server has a thread of its own, and the system's actors
/// end as they would without it: it holds a [`SystemView`], no handle. Sockets that dead programs
/// have left there are removed.
///
/// # Errors
/// [`ServeError::Io`] if the operating system refuses the socket or the thread.
///
/// # Examples
/// ```
/// use turnwise::System;
///
/// let system = System::new();
/// let served = turnwise_top::serve(&system)?;
/// println!("turnwise-top {}", served.address());
/// # Ok::<(), turnwise_top::ServeError>(())
/// ```
pub fn serve(system: &System) -> Result<Server, ServeError> {
    remove_dead();
    serve_at(system, Address::of_this_process())
}

/// Serves the actors of a system at this address, as [`serve`] does elsewhere. A socket file whose
/// server has died is replaced. Port 0 is one that is free, and [`Server::address`] says which.
///
/// # Errors
/// [`ServeError::InUse`] if another server is alive there; [`ServeError::NotASocket`],
/// [`ServeError::NotLocal`], [`ServeError::Unsupported`] for an address that cannot be served;
/// [`ServeError::Io`] if the operating system refuses.
///
/// # Examples
/// ```
/// use turnwise::System;
/// use turnwise_top::{ServeError, serve_at};
///
/// let system = System::new();
/// let first = serve_at(&system, "127.0.0.1:0".parse().unwrap())?;
/// let second = serve_at(&system, first.address().clone());
/// assert!(matches!(second, Err(ServeError::InUse(_))));
/// # Ok::<(), ServeError>(())
/// ```
pub fn serve_at(system: &System, address: Address) -> Result<Server, ServeError> {
    let (mut listener, address, file) = socket::bind(address)?;
    let sources = Sources::default();
    let made = || -> io::Result<_> {
        let poll = Poll::new()?;
        let end = Arc::new(Waker::new(poll.registry(), END)?);
        poll.registry().register(listener.source(), ACCEPT, Interest::READABLE)?;
        let serving = Serving::new(poll, listener, system.view(), sources.clone());
        let thread = thread::Builder::new().name("turnwise-top".to_owned());
        Ok((end, thread.spawn(move || serving.run())?))
    };
    let (end, thread) = made().map_err(ServeError::io(&address))?;
    Ok(Server { address, end, thread: Some(thread), sources, _file: file })
}

impl Server {
    /// Returns the address, for the program's argument.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Adds rows of the program's own to the table, until the server is dropped: actors whose
    /// mailboxes are in a store, queues, dead letters. Two sources of one name are two.
    ///
    /// The source is called on a thread of its own, and may block: the table goes on with its last
    /// report, and says how old that is. It is called once a second while a client asks, and at
    /// longer intervals if it is slow; every ten seconds otherwise. An error stands in the table
    /// until the next call. A source that panics stands there with its panic, and is not called
    /// again.
    ///
    /// # Errors
    /// [`ServeError::Io`] if the operating system refuses the thread.
    ///
    /// # Examples
    /// ```
    /// use std::convert::Infallible;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use turnwise::System;
    /// use turnwise_top::{Report, StoredActor};
    ///
    /// static MAILS: AtomicU64 = AtomicU64::new(3); // a queue of the program's own
    ///
    /// let top = turnwise_top::serve(&System::new())?;
    /// top.source("queues", || {
    ///     let (mut report, mut mails) = (Report::default(), StoredActor::new("mails"));
    ///     mails.queued = MAILS.load(Relaxed);
    ///     report.actors.push(mails);
    ///     Ok::<_, Infallible>(report)
    /// })?;
    /// # Ok::<(), turnwise_top::ServeError>(())
    /// ```
    pub fn source<E: fmt::Display>(
        &self,
        name: impl Into<String>,
        source: impl FnMut() -> Result<Report, E> + Send + 'static,
    ) -> Result<(), ServeError> {
        self.sources.add(name.into(), source).map_err(ServeError::io(&self.address))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A thread that is not woken looks again after a second, and goes on for ever.
        if self.end.wake().is_ok() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
        self.sources.end();
    }
}

/// A connection.
struct Client {
    stream: Stream,
    token: Token,
    /// The beginning of its next request.
    request: Vec<u8>,
    /// It waits for the next look.
    asks: bool,
    /// Its answer, and how much of it is written.
    answer: Option<(Arc<[u8]>, usize)>,
    /// It has sent something else: its answer is the last.
    is_wrong: bool,
    /// The last time at which it was accepted, asked, or got an answer.
    active: Instant,
}

/// The connection is over.
struct Gone;

impl Client {
    /// Reads and writes as far as that goes without waiting. One that has closed its end is gone
    /// when it has all of its answers.
    fn advance(&mut self, now: Instant) -> Result<(), Gone> {
        loop {
            self.write(now)?;
            // It is read again when nothing is owed to it.
            if self.asks || self.answer.is_some() {
                return Ok(());
            }
            if self.is_wrong {
                return Err(Gone);
            }
            if !self.read(now)? {
                return Ok(());
            }
        }
    }

    fn write(&mut self, now: Instant) -> Result<(), Gone> {
        while let Some((line, written)) = &mut self.answer {
            match self.stream.write(&line[*written..]) {
                Ok(0) => return Err(Gone),
                Ok(n) => *written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Gone),
            }
            if *written == line.len() {
                self.answer = None;
                self.active = now;
            }
        }
        Ok(())
    }

    /// Reads up to one request. False: there is nothing more to read now.
    fn read(&mut self, now: Instant) -> Result<bool, Gone> {
        let mut byte = [0];
        // A request is nine bytes, and the next one stays where it is: a buffer would hold requests
        // of a client that does not read.
        match self.stream.read(&mut byte) {
            Ok(0) => return Err(Gone),
            Ok(_) => self.request.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(_) => return Err(Gone),
        }
        if self.request == REQUEST {
            self.request.clear();
            self.asks = true;
            self.active = now;
        } else if !REQUEST.starts_with(&self.request) {
            self.answer = Some((error_line("send the line `snapshot`").into(), 0));
            self.is_wrong = true;
        }
        Ok(true)
    }
}

struct Serving {
    poll: Poll,
    listener: Listener,
    /// The listener may have a connection that was not accepted: it is tried again.
    accepts: bool,
    clients: Vec<Client>,
    next_token: usize,
    system: SystemView,
    looks: Looks,
    sources: Sources,
    begun: Instant,
    /// Not before this a client is answered.
    due: Instant,
    /// At this the system is looked at in any case.
    idle: Instant,
}

impl Serving {
    fn new(poll: Poll, listener: Listener, system: SystemView, sources: Sources) -> Self {
        let now = Instant::now();
        Serving {
            poll,
            listener,
            accepts: false,
            clients: Vec::new(),
            next_token: FIRST,
            system,
            looks: Looks::new(),
            sources,
            begun: now,
            due: now,
            idle: now,
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(2 * CLIENTS);
        loop {
            let now = Instant::now();
            if now >= self.idle
                || (now >= self.due && self.clients.iter().any(|client| client.asks))
            {
                self.look();
            }
            let wait = self.next().saturating_duration_since(Instant::now());
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
                Ok(()) => {}
            }
            let now = Instant::now();
            for event in &events {
                match event.token() {
                    END => return,
                    ACCEPT => self.accepts = true,
                    token => {
                        let client = self.clients.iter().position(|client| client.token == token);
                        client.into_iter().for_each(|client| self.advance(client, now));
                    }
                }
            }
            if self.accepts {
                self.accept(now);
            }
            self.clients.retain(|client| {
                client.answer.is_none() || now.duration_since(client.active) < PATIENCE
            });
        }
    }

    /// The next moment at which there is something to do by itself.
    fn next(&self) -> Instant {
        let asked = self.clients.iter().any(|client| client.asks).then_some(self.due);
        let unread = self.clients.iter().filter(|client| client.answer.is_some());
        let impatient = unread.map(|client| client.active + PATIENCE).min();
        let again = self.accepts.then(|| Instant::now() + PACE);
        [asked, impatient, again].into_iter().flatten().fold(self.idle, Instant::min)
    }

    fn advance(&mut self, client: usize, now: Instant) {
        if let Err(Gone) = self.clients[client].advance(now) {
            self.clients.swap_remove(client);
        }
    }

    /// Takes in the clients that are there, as many as there is room for; the rest in the next
    /// call, after those that are connected had their turn.
    fn accept(&mut self, now: Instant) {
        for _ in 0..CLIENTS {
            let mut stream = match self.listener.accept() {
                Ok(stream) => stream,
                Err(error) => {
                    // Of no more descriptors no event tells: it is tried again after a while.
                    self.accepts = error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            };
            let token = Token(self.next_token);
            self.next_token = self.next_token.wrapping_add(1).max(FIRST);
            let both = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(stream.source(), token, both).is_err() {
                continue;
            }
            if self.clients.len() == CLIENTS {
                let silent =
                    self.clients.iter().enumerate().min_by_key(|(_, client)| client.active);
                silent
                    .map(|(at, _)| at)
                    .into_iter()
                    .for_each(|at| drop(self.clients.swap_remove(at)));
            }
            let (request, answer) = (Vec::new(), None);
            let client = Client {
                stream,
                token,
                request,
                asks: false,
                answer,
                is_wrong: false,
                active: now,
            };
            self.clients.push(client);
            self.advance(self.clients.len() - 1, now);
        }
    }

    /// Looks at the system, and answers the clients that have asked.
    fn look(&mut self) {
        let begun = Instant::now();
        let mut snapshot =
            self.looks.look(self.system.snapshot(), begun.duration_since(self.begun));
        let asks = self.clients.iter().any(|client| client.asks);
        if asks {
            snapshot.sources = self.sources.reports(begun);
        }
        let asked = self.clients.iter_mut().filter(|client| client.asks);
        let mut line = None;
        for client in asked {
            let line =
                line.get_or_insert_with(|| format!("{}\n", snapshot.to_json()).into_bytes().into());
            client.answer = Some((Arc::clone(line), 0));
            client.asks = false;
            client.active = begun;
        }
        let now = Instant::now();
        let took = now.duration_since(begun);
        let pause = (took * 10).clamp(PACE, LONGEST);
        self.due = now + pause;
        self.idle = now + IDLE.max(pause);
        // From the last to the first: one that is removed has its place taken by one that was
        // there.
        for client in (0..self.clients.len()).rev() {
            self.advance(client, now);
        }
    }
}
