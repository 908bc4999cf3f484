//! A crawl from its start to its end: over sockets, or in virtual time.

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

/// The parameters of a crawl.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The folder.
    pub root: PathBuf,
    /// The maximum number of hosts.
    pub hosts: usize,
    /// The rules for requests.
    pub rules: Rules,
    /// The faults of the hosts.
    pub faults: Faults,
    /// The number of dead links to plant.
    pub plant: usize,
    /// The time limit of the crawl.
    pub within: Duration,
}

/// The site and its hosts.
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

    /// Serves the folder and crawls it, in the runtime that polls this; the actors run on the
    /// executor. When `interrupted` is ready, the result is what was found until then.
    ///
    /// # Errors
    /// The folder cannot be used, or the system provides no socket or thread.
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

    /// Runs the same crawl without sockets, threads and waiting: one queue runs all turns, in an
    /// order that the seed decides, and time advances when no turn is left to run.
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

/// A host without a network.
struct Played(Arc<Origin>);

impl Line for Played {
    async fn get(&mut self, path: &str) -> Result<Response, String> {
        self.0.answer(path).await.ok_or_else(|| "the connection broke".to_owned())
    }
}
