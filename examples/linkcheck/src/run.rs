//! A crawl from its begin to its end: over sockets, or in virtual time.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use turnwise::executor::DrainQueue;
use turnwise::time::Timers;
use turnwise::{Executor, VirtualClock};

use crate::address::Address;
use crate::crawl::{Crawl, Line, Rules, Watch};
use crate::faults::{Faults, Origin};
use crate::net::{Connection, serve};
use crate::report::{Ended, Report};
use crate::site::{Response, Site};

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The folder.
    pub root: PathBuf,
    /// So many hosts serve it, at most.
    pub hosts: usize,
    /// How they are treated.
    pub rules: Rules,
    /// What goes wrong.
    pub faults: Faults,
    /// So many dead links are put there.
    pub plant: usize,
    /// So long the crawl may take.
    pub within: Duration,
}

/// What is to be served.
struct Served {
    site: Arc<Site>,
    origins: Vec<Arc<Origin>>,
    pages: Vec<Address>,
}

impl Plan {
    fn serve(&self, timers: &Timers) -> Result<Served, String> {
        let mut site = Site::open(&self.root, self.hosts)?;
        let Faults { seed, mute, .. } = self.faults;
        if mute > site.hosts() {
            return Err(format!("--mute {mute}: there are {} hosts", site.hosts()));
        }
        site.plant(self.plant, seed);
        let pages = site.pages().collect();
        let site = Arc::new(site);
        let origins = Origin::all(&site, &self.faults, timers);
        Ok(Served { site, origins, pages })
    }

    fn start<L: Line>(
        &self,
        lines: Vec<L>,
        pages: Vec<Address>,
        timers: &Timers,
        executor: Option<Arc<dyn Executor>>,
        watch: Watch,
    ) -> Result<Crawl<L>, String> {
        let crawl = Crawl::start(lines, pages, &self.rules, timers, executor, watch);
        crawl.map_err(|error| error.to_string())
    }

    /// Serves the folder and crawls it, in the runtime that this is polled in; the actors run where
    /// the executor says. When `interrupted` is ready, what was found until then is the result.
    ///
    /// # Errors
    /// The folder cannot be used, or the machine has no socket or thread for it.
    pub async fn over_sockets(
        &self,
        executor: Option<Arc<dyn Executor>>,
        watch: Watch,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Report, String> {
        let timers = Timers::global();
        let Served { site, origins, pages } = self.serve(timers)?;
        let mut lines = Vec::new();
        for origin in &origins {
            let address = serve(origin.clone()).await;
            let address = address.map_err(|error| format!("{}: {error}", origin.name()))?;
            lines.push(Connection::new(Handle::current(), origin.name(), address));
        }
        let begun = Instant::now();
        let mut crawl = self.start(lines, pages, timers, executor, watch)?;
        let stop = crawl.stop();
        let mut ended = Ended::Whole;
        let found = tokio::select! {
            found = &mut crawl.found => found,
            early = async {
                tokio::select! {
                    () = interrupted => Ended::Interrupted,
                    () = timers.sleep(self.within) => Ended::OutOfTime,
                }
            } => {
                ended = early;
                stop();
                (&mut crawl.found).await
            }
        };
        let findings = found.map_err(|error| error.to_string())?;
        Ok(Report::new(findings, &site, &origins, begun.elapsed(), ended))
    }

    /// The same crawl without a socket, a thread or a moment of waiting: one queue has all turns,
    /// in an order that the seed decides, and time goes on when they have nothing else to do.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn in_virtual_time(&self) -> Result<Report, String> {
        let (queue, clock) = (DrainQueue::seeded(self.faults.seed), VirtualClock::new());
        let timers = Timers::by_hand(clock.clone());
        let Served { site, origins, pages } = self.serve(&timers)?;
        let lines = origins.iter().cloned().map(Played).collect();
        let executor: Arc<dyn Executor> = Arc::new(queue.handle());
        let crawl = self.start(lines, pages, &timers, Some(executor), Box::new(|_, _| ()))?;
        let stop = crawl.stop();
        let limit = timers.after(self.within, stop);
        loop {
            queue.run_until_idle();
            if crawl.found.is_ready() {
                break;
            }
            let due = timers.next_due().ok_or("a bug: nothing is left to wait for")?;
            clock.set(due);
            timers.run_due();
        }
        let ended = if limit.cancel() { Ended::Whole } else { Ended::OutOfTime };
        let findings = crawl.found.wait().map_err(|error| error.to_string())?;
        Ok(Report::new(findings, &site, &origins, timers.now(), ended))
    }
}

/// A host without a network between.
struct Played(Arc<Origin>);

impl Line for Played {
    async fn get(&mut self, path: &str) -> Result<Response, String> {
        self.0.answer(path).await.ok_or_else(|| "the connection broke".to_owned())
    }
}
