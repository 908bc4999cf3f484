//! The crawl: an actor for each host, and one that keeps the book.
//!
//! ```text
//!            Visit: an async turn of the host, one after another
//!   book  ------------------------------------------------------->  host 0, host 1, ..
//!         <-------------------------------------------------------
//!            Visited: a plain turn of the book, for each Visit
//! ```
//!
//! Nobody waits for the other, so nothing can wait in a circle. Mailboxes have no bound, and need
//! none: the book asks for each address once.
//!
//! Nothing here knows of sockets, of a runtime or of the machine's clock: what an actor asks is a
//! [`Line`], its executor is the caller's, and time is that of the caller's [`Timers`].

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, ActorBuilder, BuildError, Executor, Reply, promise};

use crate::address::Address;
use crate::book::{Book, Findings, Start};
use crate::host::Host;
use crate::site::Response;

/// A host, as the one client that it has here.
pub trait Line: Send + 'static {
    /// Asks for a path. A future that is dropped takes its request back.
    ///
    /// # Errors
    /// There is no answer, and never will be one to this request: why.
    fn get(&mut self, path: &str) -> impl Future<Output = Result<Response, String>> + Send;
}

/// How hosts are treated.
#[derive(Clone, Debug)]
pub struct Rules {
    /// So long a host is left alone between two requests.
    pub pause: Duration,
    /// So long before a request is made again; twice as long each time after.
    pub backoff: Duration,
    /// So long an answer may take.
    pub limit: Duration,
    /// So often a request is made, at most.
    pub tries: u32,
}

/// What is called with the addresses that are done, and those that are known.
pub type Watch = Box<dyn FnMut(u64, u64) + Send>;

/// A crawl that runs.
pub struct Crawl<L: Line> {
    hosts: Vec<Actor<Host<L>>>,
    /// It goes on as long as this is there.
    _book: Actor<Book<L>>,
    /// What it found: when every link has ended, in one way or another.
    pub found: Reply<Findings>,
}

impl<L: Line> Crawl<L> {
    /// Begins: visits these pages, and all that they link to. Without an executor, the actors run
    /// where their messages come from, and in the pool of the process.
    ///
    /// # Errors
    /// An actor cannot be built.
    pub fn start(
        lines: Vec<L>,
        pages: Vec<Address>,
        rules: &Rules,
        timers: &Timers,
        executor: Option<Arc<dyn Executor>>,
        watch: Watch,
    ) -> Result<Self, BuildError> {
        let count = lines.len();
        let host = |(number, line)| {
            let host = Host::new(line, (number, count), rules.clone(), timers.clone());
            built(Actor::builder().name(format!("host {number}")), host, &executor)
        };
        let hosts: Vec<_> = lines.into_iter().enumerate().map(host).collect::<Result<_, _>>()?;
        let (done, found) = promise();
        let book = Book::new(hosts.clone(), done, watch);
        let book = built(Actor::builder().name("book"), book, &executor)?;
        // One that is refused drops the promise: then `found` says so.
        drop(book.tell(Start(pages)));
        Ok(Crawl { hosts, _book: book, found })
    }

    /// What ends the crawl early: turns are cut at their awaits, messages dropped; all links that
    /// have not ended are given up, and what was found is there.
    pub fn stop(&self) -> impl Fn() + Send + Sync + 'static {
        let hosts: Vec<_> = self.hosts.iter().map(Actor::downgrade).collect();
        move || {
            for host in hosts.iter().filter_map(|host| host.upgrade()) {
                host.stop();
            }
        }
    }
}

fn built<S: Send + 'static>(
    builder: ActorBuilder<S>,
    state: S,
    executor: &Option<Arc<dyn Executor>>,
) -> Result<Actor<S>, BuildError> {
    match executor {
        Some(executor) => builder.executor(executor.clone()).spawn(state),
        None => builder.spawn(state),
    }
}
