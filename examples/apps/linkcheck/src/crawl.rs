//! The crawl: an actor for each host, and one that keeps the book.
//!
//! ```text
//!            Visit: an async turn of the host, one after another
//!   book  ------------------------------------------------------->  host 0, host 1, ..
//!         <-------------------------------------------------------
//!            Visited: a plain turn of the book, for each Visit
//! ```
//!
//! Neither actor waits for the other, so there is no deadlock. Mailboxes have no bound, and need
//! none: the book sends one visit for each address.
//!
//! This module uses no sockets, no runtime and no system clock: an actor sends requests to a
//! [`Line`], its executor is the caller's, and its time is that of the caller's [`Timers`].

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, ActorBuilder, BuildError, Executor, Reply, promise};

use crate::address::Address;
use crate::book::{Book, Findings, Start};
use crate::host::Host;
use crate::site::Response;

/// A connection to a host, used by one client.
pub trait Line: Send + 'static {
    /// Requests a path. A dropped future withdraws its request.
    ///
    /// # Errors
    /// There is no answer to this request, and never will be, for the returned reason.
    fn get(&mut self, path: &str) -> impl Future<Output = Result<Response, String>> + Send;
}

/// The rules for requests to hosts.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The pause between two requests to a host.
    pub pause: Duration,
    /// The time before the first retry; it doubles with each further one.
    pub backoff: Duration,
    /// The maximum time of an answer.
    pub limit: Duration,
    /// The maximum number of attempts of a request.
    pub tries: u32,
}

/// A function that is called with the number of finished addresses, and of known ones.
pub type Watch = Box<dyn FnMut(u64, u64) + Send>;

/// A running crawl.
pub struct Crawl<L: Line> {
    hosts: Vec<Actor<Host<L>>>,
    /// The crawl goes on as long as this exists.
    _book: Actor<Book<L>>,
    /// The findings, ready when every link has ended.
    pub found: Reply<Findings>,
}

impl<L: Line> Crawl<L> {
    /// Starts a crawl: visits these pages, and all that they link to. Without an executor, the
    /// actors run on the threads that send to them, and in the pool of the process.
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
        // If it is refused, the promise is dropped, and `found` fails.
        drop(book.tell(Start(pages)));
        Ok(Crawl { hosts, _book: book, found })
    }

    /// Returns a function that ends the crawl early: turns are cancelled at their awaits, messages
    /// are dropped, links that have not ended are given up, and the findings are ready.
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
