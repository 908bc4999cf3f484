//! The actor of a host: one turn for each address, however many requests that takes.
//!
//! The turn awaits the pause, the answer, and the time until the next attempt. It has exclusive
//! access to the host meanwhile, so there is never a second request, and nothing needs a lock.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use turnwise::time::Timers;
use turnwise::{Actor, AsyncContext, AsyncHandler};

use crate::address::{Address, Place, lead};
use crate::book::{Book, Visited};
use crate::crawl::{Line, Rules};
use crate::net::status;
use crate::page;
use crate::site::Response;

/// The number of consecutive addresses without an answer after which a host is not visited again.
const PATIENCE: u32 = 3;

/// The content of an address.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A page with these parts.
    Page(HashSet<Box<str>>),
    /// A file, which has no parts.
    File,
    Moved(Place),
    /// Certainly nothing, for this reason.
    Dead(String),
    /// Unknown, for this reason.
    GaveUp(String),
}

/// A link of a page: its text, and its target.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// The outcome of a visit.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) outcome: Outcome,
    pub(crate) links: Vec<Found>,
    pub(crate) requests: u64,
}

/// A request to visit an address.
pub(crate) struct Visit<L: Line>(pub(crate) Ticket<L>);

/// Reports the outcome of a visit to the book once, also if the visit is cancelled, dropped or
/// panics.
pub(crate) struct Ticket<L: Line> {
    address: Address,
    /// Taken by the report.
    book: Option<Actor<Book<L>>>,
}

impl<L: Line> Ticket<L> {
    pub(crate) fn new(address: Address, book: Actor<Book<L>>) -> Self {
        Ticket { address, book: Some(book) }
    }

    fn tell(&mut self, seen: Seen) {
        if let Some(book) = self.book.take() {
            // If the book takes no more messages, no caller waits for the findings.
            drop(book.tell(Visited { address: self.address.clone(), seen }));
        }
    }
}

impl<L: Line> Drop for Ticket<L> {
    fn drop(&mut self) {
        let outcome = Outcome::GaveUp("the crawl was ended".into());
        self.tell(Seen { outcome, links: Vec::new(), requests: 0 });
    }
}

/// A host.
pub struct Host<L> {
    line: L,
    number: usize,
    /// The number of hosts.
    hosts: usize,
    rules: Rules,
    timers: Timers,
    /// The end of the last request.
    last: Option<Duration>,
    /// The number of consecutive addresses without an answer.
    silent: u32,
}

impl<L: Line> Host<L> {
    /// Makes the host with this number.
    pub(crate) fn new(
        line: L,
        (number, hosts): (usize, usize),
        rules: Rules,
        timers: Timers,
    ) -> Self {
        Host { line, number, hosts, rules, timers, last: None, silent: 0 }
    }

    /// Sends requests until an answer is final, or the attempts are used up.
    async fn visit(&mut self, path: &str) -> Seen {
        let (mut requests, mut wait) = (0, Duration::ZERO);
        let (mut heard, mut why) = (false, String::new());
        if self.silent >= PATIENCE {
            let outcome = Outcome::GaveUp("its host does not answer".into());
            return Seen { outcome, links: Vec::new(), requests };
        }
        while requests < u64::from(self.rules.tries) {
            self.rest(wait).await;
            requests += 1;
            let answer = within(&self.timers, self.rules.limit, self.line.get(path)).await;
            self.last = Some(self.timers.now());
            wait = wait.saturating_mul(2).max(self.rules.backoff);
            why = match answer {
                None => format!("no answer in {:?}", self.rules.limit),
                Some(Err(error)) => error,
                Some(Ok(response)) => {
                    heard = true;
                    match response.status {
                        408 | 429 | 500.. => status(response.status),
                        _ => {
                            self.silent = 0;
                            let (outcome, links) = self.read(path, response);
                            return Seen { outcome, links, requests };
                        }
                    }
                }
            };
        }
        self.silent = if heard { 0 } else { self.silent + 1 };
        let times = if requests == 1 { "once".into() } else { format!("{requests} times") };
        Seen { outcome: Outcome::GaveUp(format!("{why}, {times}")), links: Vec::new(), requests }
    }

    /// Waits this long, and until the host has had its pause.
    // By `&mut`: a shared reference that is held across an await requires a `Sync` state.
    async fn rest(&mut self, wait: Duration) {
        let Some(last) = self.last else { return };
        let over = last.saturating_add(wait.max(self.rules.pause));
        let left = over.saturating_sub(self.timers.now());
        if !left.is_zero() {
            self.timers.sleep(left).await;
        }
    }

    /// Evaluates an answer that a retry would not change.
    fn read(&self, path: &str, response: Response) -> (Outcome, Vec<Found>) {
        let Response { status: code, html, location, body } = response;
        let address = Address { host: self.number, path: path.into() };
        let dead = |why| (Outcome::Dead(why), Vec::new());
        let own = match address.url() {
            Ok(url) => url,
            Err(error) => return dead(format!("no URL: {error}")),
        };
        match (code, location) {
            (200..300, _) if html => {
                let page = page::read(&body);
                let base = page.base.and_then(|base| own.join(&base).ok()).unwrap_or(own);
                let found = |text: String| Found { place: lead(&base, &text, self.hosts), text };
                let outcome = match page.refresh {
                    Some(place) => Outcome::Moved(lead(&base, &place, self.hosts)),
                    None => Outcome::Page(page.parts),
                };
                (outcome, page.links.into_iter().map(found).collect())
            }
            (200..300, _) => (Outcome::File, Vec::new()),
            (300..400, Some(place)) => (Outcome::Moved(lead(&own, &place, self.hosts)), Vec::new()),
            _ => dead(status(code)),
        }
    }
}

impl<L: Line> AsyncHandler<Visit<L>> for Host<L> {
    type Reply = ();

    async fn handle(&mut self, Visit(mut ticket): Visit<L>, _: &mut AsyncContext<Self>) {
        let path = ticket.address.path.clone();
        let seen = self.visit(&path).await;
        ticket.tell(seen);
    }
}

/// Returns the output of the future, or none if the limit passes first: then the future is dropped.
async fn within<T>(timers: &Timers, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut over) = (pin!(future), pin!(timers.sleep(limit)));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(said) => Poll::Ready(Some(said)),
        Poll::Pending => over.as_mut().poll(cx).map(|()| None),
    })
    .await
}
