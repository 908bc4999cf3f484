//! Where the actors of an example run: the choice `--executor`, and what it stands for. A new
//! executor is one more line in each `match`.

// Each example uses a part of this.
#![allow(dead_code)]

use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use turnwise::{ActorBuilder, Drain, Executor, ThreadPool};

use crate::Failure;

/// What can be chosen. The names are those of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// On the threads that send.
    Inline,
    /// In a pool of this crate.
    Pool,
    /// In a rayon pool.
    Rayon,
    /// On a few threads of their own, fed by a channel.
    Threads,
}

impl Choice {
    pub(crate) const ALL: [Choice; 4] =
        [Choice::Inline, Choice::Pool, Choice::Rayon, Choice::Threads];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Choice::Inline => "inline",
            Choice::Pool => "pool",
            Choice::Rayon => "rayon",
            Choice::Threads => "threads",
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| format!("{name} is none of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// An executor that is there: actors are built for it by [`run`](Self::run).
pub(crate) struct Place {
    executor: Option<Arc<dyn Executor>>,
    workers: Vec<JoinHandle<()>>,
}

impl Place {
    /// The chosen place, where so many threads run turns; `waiting` turns at most wait for others
    /// meanwhile.
    ///
    /// A turn that waits keeps its thread, and an actor is run by its executor and by nobody else.
    /// So a pool that does not see to it by itself, as ours does, needs a thread more for each of
    /// them: if all threads waited for actors that are to run there, they would wait for ever.
    pub(crate) fn new(choice: Choice, threads: usize, waiting: usize) -> Result<Self, Failure> {
        let all = threads + waiting;
        Ok(match choice {
            Choice::Inline => Self::inline(),
            Choice::Pool => Self::pool(threads)?,
            Choice::Rayon => {
                Self::rayon(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(all).build()?))
            }
            Choice::Threads => Self::threads(all)?,
        })
    }

    /// No executor: a thread that sends to an idle actor runs it.
    pub(crate) fn inline() -> Self {
        Place { executor: None, workers: Vec::new() }
    }

    /// A pool of this crate: with the place it goes.
    fn pool(threads: usize) -> Result<Self, Failure> {
        let pool = ThreadPool::builder().threads(threads).build()?;
        let executor = move |drain| pool.handle().execute(drain);
        Ok(Place { executor: Some(Arc::new(executor)), workers: Vec::new() })
    }

    /// A pool that the application has already.
    pub(crate) fn rayon(pool: Arc<rayon::ThreadPool>) -> Self {
        let executor = move |drain: Drain| pool.spawn_fifo(|| drain.run());
        Place { executor: Some(Arc::new(executor)), workers: Vec::new() }
    }

    /// The smallest pool there is: threads that take drains from a channel. They end with the last
    /// actor that holds the channel's other end.
    fn threads(threads: usize) -> Result<Self, Failure> {
        let (submit, drains) = crossbeam_channel::unbounded::<Drain>();
        let worker = |n| {
            let drains = drains.clone();
            thread::Builder::new()
                .name(format!("worker {n}"))
                .spawn(move || drains.into_iter().for_each(Drain::run))
        };
        let workers = (0..threads).map(worker).collect::<Result<_, _>>()?;
        // A drain that nobody can take any more is dropped: its actor is stopped, and everybody is
        // told.
        let executor = move |drain| drop(submit.send(drain));
        Ok(Place { executor: Some(Arc::new(executor)), workers })
    }

    /// Do the senders do the work?
    pub(crate) fn is_inline(&self) -> bool {
        self.executor.is_none()
    }

    /// The executor, unless the senders do the work.
    pub(crate) fn executor(&self) -> Option<Arc<dyn Executor>> {
        self.executor.clone()
    }

    /// The actor is to run here.
    pub(crate) fn run<S: Send + 'static>(&self, builder: ActorBuilder<S>) -> ActorBuilder<S> {
        match self.executor() {
            Some(executor) => builder.executor(move |drain| executor.execute(drain)),
            None => builder,
        }
    }

    /// Waits for the threads. All actors that ran here must be gone.
    pub(crate) fn join(mut self) {
        self.executor = None;
        for worker in self.workers {
            worker.join().expect("a worker panicked");
        }
    }
}
