//! The actor that keeps the book: the known addresses, their contents, and the links that wait.
//!
//! - B1: a link is a value that cannot be copied. It is made when a page is read, it waits at one
//!   address at a time, and ends in one call, which counts it. So each ends once, in one way.
//! - B2: `open` counts the visits that were sent and not reported. Each is reported once, whatever
//!   its outcome, so the crawl ends.

use std::collections::HashMap;
use std::sync::Arc;

use turnwise::{Actor, Context, Handler, Promise};

use crate::address::{Address, Place};
use crate::crawl::{Line, Watch};
use crate::host::{Found, Host, Outcome, Seen, Ticket, Visit};
use crate::page;

/// The maximum number of redirections of a link.
const HOPS: u8 = 5;

/// The outcomes of links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Links whose target exists.
    pub ok: u64,
    /// Links whose target certainly does not exist.
    pub dead: u64,
    /// Links whose target is unknown.
    pub gave_up: u64,
    /// Links to other hosts, which are not visited.
    pub elsewhere: u64,
}

impl Tally {
    /// Returns the sum of all.
    pub fn sum(&self) -> u64 {
        self.ok + self.dead + self.gave_up + self.elsewhere
    }
}

/// A link whose target is not known to exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// The page of the link; none for a page that was visited first.
    pub page: Option<Arc<str>>,
    /// The link, as it is written.
    pub link: String,
    /// The reason.
    pub reason: String,
    /// True if the target certainly does not exist.
    pub dead: bool,
}

/// The findings of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Pages of the folder that were to be visited.
    pub pages: u64,
    /// The outcomes of those visits.
    pub visited: Tally,
    /// Links on the pages that were read, each once for each page.
    pub links: u64,
    /// The outcomes of those links.
    pub followed: Tally,
    /// The number of requests.
    pub requests: u64,
    /// The number of them that were retries.
    pub again: u64,
    /// The links without a known target, in the order of the pages and links.
    pub troubles: Vec<Trouble>,
}

impl Findings {
    /// Returns true if all pages and links have ended in one way.
    pub fn adds_up(&self) -> bool {
        let troubles = |dead| self.troubles.iter().filter(|one| one.dead == dead).count() as u64;
        self.pages == self.visited.sum()
            && self.links == self.followed.sum()
            && troubles(true) == self.visited.dead + self.followed.dead
            && troubles(false) == self.visited.gave_up + self.followed.gave_up
    }
}

/// A message that begins the crawl with these pages.
pub(crate) struct Start(pub(crate) Vec<Address>);

/// A message with the outcome of a visit.
pub(crate) struct Visited {
    pub(crate) address: Address,
    pub(crate) seen: Seen,
}

/// A link that has not ended. No `Clone`: B1.
struct Link {
    /// None for a page that is visited first.
    page: Option<Arc<str>>,
    text: String,
    part: Option<String>,
    hops: u8,
}

/// The known state of an address.
enum Known {
    /// A visit is outstanding, and these links wait for it.
    Asked(Vec<Link>),
    Seen(Outcome),
}

/// The end of a link.
enum End {
    Ok,
    Elsewhere,
    Dead(String),
    GaveUp(String),
}

/// The book.
pub struct Book<L: Line> {
    hosts: Vec<Actor<Host<L>>>,
    known: HashMap<Address, Known>,
    /// Visits that were sent and not reported (B2).
    open: usize,
    findings: Findings,
    /// Taken at the end.
    done: Option<Promise<Findings>>,
    watch: Watch,
}

impl<L: Line> Book<L> {
    pub(crate) fn new(hosts: Vec<Actor<Host<L>>>, done: Promise<Findings>, watch: Watch) -> Self {
        let (known, findings) = (HashMap::new(), Findings::default());
        Book { hosts, known, open: 0, findings, done: Some(done), watch }
    }

    /// Follows a link until it has ended, or waits for a visit.
    fn follow(&mut self, mut link: Link, mut to: Address, book: &Actor<Self>) {
        let end = loop {
            let outcome = match self.known.get_mut(&to) {
                Some(Known::Seen(outcome)) => outcome,
                Some(Known::Asked(waiting)) => return waiting.push(link),
                None => {
                    let visit = Visit(Ticket::new(to.clone(), book.clone()));
                    self.open += 1;
                    // The outcome comes as a message, by the ticket: also if the host has stopped.
                    drop(self.hosts[to.host].ask_async(visit));
                    self.known.insert(to, Known::Asked(vec![link]));
                    return;
                }
            };
            match outcome {
                Outcome::Moved(_) if link.hops == HOPS => {
                    break End::Dead(format!("redirected more than {HOPS} times"));
                }
                Outcome::Moved(Place::Here(next, part)) => {
                    link.hops += 1;
                    link.part = part.clone().or(link.part);
                    to = next.clone();
                }
                Outcome::Moved(Place::Elsewhere) => break End::Elsewhere,
                Outcome::Moved(Place::Nowhere(why)) | Outcome::Dead(why) => {
                    break End::Dead(why.clone());
                }
                Outcome::GaveUp(why) => break End::GaveUp(why.clone()),
                Outcome::File => break End::Ok,
                Outcome::Page(parts) => match &link.part {
                    Some(part) if !page::has(parts, part) => {
                        break End::Dead(format!("the page has no #{part}"));
                    }
                    _ => break End::Ok,
                },
            }
        };
        self.end(link, end);
    }

    /// Counts a link, and drops it (B1).
    fn end(&mut self, link: Link, end: End) {
        let Findings { visited, followed, troubles, .. } = &mut self.findings;
        let tally = if link.page.is_none() { visited } else { followed };
        let (count, trouble) = match end {
            End::Ok => (&mut tally.ok, None),
            End::Elsewhere => (&mut tally.elsewhere, None),
            End::Dead(reason) => (&mut tally.dead, Some((reason, true))),
            End::GaveUp(reason) => (&mut tally.gave_up, Some((reason, false))),
        };
        *count += 1;
        if let Some((reason, dead)) = trouble {
            troubles.push(Trouble { page: link.page, link: link.text, reason, dead });
        }
    }

    /// Reports the findings if the crawl has ended.
    fn look(&mut self) {
        (self.watch)((self.known.len() - self.open) as u64, self.known.len() as u64);
        if self.open == 0 {
            self.hosts.clear();
            if let Some(done) = self.done.take() {
                let mut findings = std::mem::take(&mut self.findings);
                findings.troubles.sort_unstable();
                done.keep(findings);
            }
        }
    }
}

impl<L: Line> Handler<Start> for Book<L> {
    type Reply = ();

    fn handle(&mut self, Start(pages): Start, cx: &mut Context<'_, Self>) {
        // None: the crawl was dropped, and no caller waits for its end.
        let Some(book) = cx.actor() else { return };
        for page in pages {
            self.findings.pages += 1;
            let text = page.shown().to_owned();
            self.follow(Link { page: None, text, part: None, hops: 0 }, page, &book);
        }
        self.look();
    }
}

impl<L: Line> Handler<Visited> for Book<L> {
    type Reply = ();

    fn handle(&mut self, visited: Visited, cx: &mut Context<'_, Self>) {
        let Some(book) = cx.actor() else { return };
        let Visited { address, seen } = visited;
        let Some(known) = self.known.get_mut(&address) else { return };
        let Known::Asked(waiting) = std::mem::replace(known, Known::Seen(seen.outcome)) else {
            return;
        };
        self.open -= 1;
        self.findings.requests += seen.requests;
        self.findings.again += seen.requests.saturating_sub(1);
        let page: Arc<str> = address.shown().into();
        for link in waiting {
            self.follow(link, address.clone(), &book);
        }
        for Found { text, place } in seen.links {
            self.findings.links += 1;
            let link = |part| Link { page: Some(page.clone()), text, part, hops: 0 };
            match place {
                Place::Here(to, part) => self.follow(link(part), to, &book),
                Place::Elsewhere => self.end(link(None), End::Elsewhere),
                Place::Nowhere(why) => self.end(link(None), End::Dead(why)),
            }
        }
        self.look();
    }
}
