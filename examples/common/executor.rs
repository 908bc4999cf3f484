//! The executors of an example's actors: the option `--executor`, and its values. A new executor is
//! one more line in each `match`.

// Each example uses a part of this.
#![allow(dead_code)]

use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use turnwise::{ActorBuilder, Drain, Executor, ThreadPool};

use crate::Failure;

/// The values of the option. The names are those of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// The threads that send.
    Inline,
    /// A pool of this crate.
    Pool,
    /// A rayon pool.
    Rayon,
    /// A few threads, fed by a channel.
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

/// A running executor: actors are built for it by [`run`](Self::run).
pub(crate) struct Place {
    executor: Option<Arc<dyn Executor>>,
    workers: Vec<JoinHandle<()>>,
}

impl Place {
    /// Starts the chosen executor, with this many threads for turns; at most `waiting` turns wait
    /// for others at a time.
    ///
    /// A turn that waits keeps its thread, and only its executor runs an actor. A pool of this
    /// crate compensates for that. Other pools need one more thread for each turn that waits: if
    /// all threads waited for actors that are to run there, they would deadlock.
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

    /// Uses no executor: a thread that sends to an idle actor runs it.
    pub(crate) fn inline() -> Self {
        Place { executor: None, workers: Vec::new() }
    }

    /// Starts a pool of this crate, which ends with this value.
    fn pool(threads: usize) -> Result<Self, Failure> {
        let pool = ThreadPool::builder().threads(threads).build()?;
        let executor = move |drain| pool.handle().execute(drain);
        Ok(Place { executor: Some(Arc::new(executor)), workers: Vec::new() })
    }

    /// Uses a pool that the application has already.
    pub(crate) fn rayon(pool: Arc<rayon::ThreadPool>) -> Self {
        let executor = move |drain: Drain| pool.spawn_fifo(|| drain.run());
        Place { executor: Some(Arc::new(executor)), workers: Vec::new() }
    }

    /// Starts a minimal pool: threads that take drains from a channel. They end with the last actor
    /// that holds the sender of the channel.
    fn threads(threads: usize) -> Result<Self, Failure> {
        let (submit, drains) = crossbeam_channel::unbounded::<Drain>();
        let worker = |n| {
            let drains = drains.clone();
            thread::Builder::new()
                .name(format!("worker {n}"))
                .spawn(move || drains.into_iter().for_each(Drain::run))
        };
        let workers = (0..threads).map(worker).collect::<Result<_, _>>()?;
        // A drain that no thread can take any more is dropped: its actor is stopped, and all
        // waiting callers get an error.
        let executor = move |drain| drop(submit.send(drain));
        Ok(Place { executor: Some(Arc::new(executor)), workers })
    }

    /// Returns true if the senders do the work.
    pub(crate) fn is_inline(&self) -> bool {
        self.executor.is_none()
    }

    /// Returns the executor, unless the senders do the work.
    pub(crate) fn executor(&self) -> Option<Arc<dyn Executor>> {
        self.executor.clone()
    }

    /// Makes the actor run here.
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
