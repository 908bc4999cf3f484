//! The platform: it starts a host for each request and for each hand-over, kills some, and polls
//! for the results.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use turnwise_redis::{Actors, MemoryStore, Outcome};

use crate::board::{self, Board, Standing};
use crate::common::UNAVAILABLE;
use crate::failure::Failure;
use crate::host::{self, Job, Told};
use crate::mortal::Mortal;
use crate::{Options, books::Books};

/// The interval of polls for results.
const POLL: Duration = Duration::from_millis(20);

/// The moment at which a host is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doom {
    /// As soon as it runs.
    AtOnce,
    /// Once its request is stored, while it drains.
    Stored,
    /// As it asks for another host. The request is not accepted.
    HandsOver,
}

struct Host {
    job: Job,
    doom: Option<Doom>,
    life: Life,
}

enum Life {
    Process { child: Child, stdin: ChildStdin },
    Thread { dead: Arc<AtomicBool>, accept: Sender<()> },
}

type Event = (usize, Option<Told>);

/// All hosts of a run.
pub(crate) struct Platform<'a> {
    options: &'a Options,
    boards: &'a Actors<Board>,
    store: Option<MemoryStore>,
    hosts: HashMap<usize, Host>,
    started: usize,
    events: (Sender<Event>, Receiver<Event>),
    waiting: VecDeque<Job>,
    /// The number of hosts that were killed, or are to be.
    doomed: u32,
    pub(crate) books: Books,
}

impl<'a> Platform<'a> {
    pub(crate) fn new(
        options: &'a Options,
        boards: &'a Actors<Board>,
        store: Option<MemoryStore>,
    ) -> Self {
        Platform {
            options,
            boards,
            store,
            hosts: HashMap::new(),
            started: 0,
            events: channel(),
            waiting: VecDeque::new(),
            doomed: 0,
            books: Books::new(options.requests),
        }
    }

    /// Runs hosts until all requests are answered.
    pub(crate) fn run(&mut self, interrupted: &AtomicBool) -> Result<(), Failure> {
        let (mut next, mut polled) = (0, Instant::now());
        let mut sweeper = None;
        while self.books.open() > 0 {
            if interrupted.load(Relaxed) {
                return Err(Failure(130, "interrupted".to_owned()));
            }
            while self.hosts.len() < self.options.at_once as usize {
                let job = match self.waiting.pop_front() {
                    Some(job) => job,
                    None if next < self.options.requests => {
                        next += 1;
                        self.options.request(next - 1)
                    }
                    None => break,
                };
                self.start(job)?;
            }
            if let Ok((number, told)) = self.events.1.recv_timeout(POLL) {
                self.hear(number, told)?;
            }
            if polled.elapsed() >= POLL {
                self.poll()?;
                polled = Instant::now();
            }
            // A platform checks now and then for work that dead hosts have left.
            if next == self.options.requests && self.hosts.is_empty() && sweeper.is_none() {
                sweeper = Some(self.boards.work(2));
            }
        }
        self.books.ends();
        Ok(())
    }

    fn start(&mut self, job: Job) -> Result<(), Failure> {
        let number = self.started;
        self.started += 1;
        // Each third host is killed, in each of the three ways in turn.
        let dooms = [Doom::AtOnce, Doom::Stored, Doom::HandsOver];
        let is_doomed = self.doomed < self.options.kill && number.is_multiple_of(3);
        let doom = is_doomed.then(|| dooms[self.books.killed as usize % 3]);
        self.doomed += u32::from(is_doomed);
        self.books.started(&job);
        let life = match self.store.clone() {
            None => self.process(number, &job)?,
            Some(store) => self.thread(number, &job, store)?,
        };
        self.hosts.insert(number, Host { job, doom, life });
        if doom == Some(Doom::AtOnce) {
            self.kill(number)?;
        }
        Ok(())
    }

    fn process(&self, number: usize, job: &Job) -> Result<Life, Failure> {
        let options = self.options;
        let time = |time: Duration| format!("{}ms", time.as_millis());
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--prefix", &options.prefix, "--lease", &time(options.lease)]);
        command.args(["--budget", &time(options.budget), "--work", &time(options.work)]);
        command.args(["--bottom-budget", &time(options.bottom_budget)]);
        match job {
            Job::Front { board, request, player, points } => {
                command.args(["--host", board, "--request", request, "--player", player]);
                command.args(["--points", &points.to_string()]);
            }
            Job::Bottom { board } => drop(command.args(["--host", board])),
        }
        #[cfg(feature = "sqlite")]
        if let Some(path) = &options.file {
            command.arg("--file").arg(path);
        }
        // Passed in the environment, because process lists show arguments, and it may contain a
        // password.
        command.env("REDIS_URL", options.url.as_deref().unwrap_or_default());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (output, tell) = (child.stdout.take(), self.events.0.clone());
        thread::Builder::new().spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for told in lines.map_while(Result::ok).filter_map(|line| Told::read(&line)) {
                let _ = tell.send((number, Some(told)));
            }
            let _ = tell.send((number, None));
        })?;
        let stdin = child
            .stdin
            .take()
            .ok_or_else(|| Failure(1, "a host has no standard input".to_owned()))?;
        Ok(Life::Process { child, stdin })
    }

    fn thread(&self, number: usize, job: &Job, store: MemoryStore) -> Result<Life, Failure> {
        let dead = Arc::new(AtomicBool::new(false));
        let (accept, accepted) = channel();
        let remote = self.options.builder().over(Mortal { store, dead: dead.clone() });
        let failed = |error: &dyn std::fmt::Display| Failure(2, error.to_string());
        let remote = remote.map_err(|error| failed(&error))?;
        let (job, tell, options) = (job.clone(), self.events.0.clone(), self.options.clone());
        let killed = dead.clone();
        let accepted = Mutex::new(accepted);
        thread::Builder::new().spawn(move || {
            let said = {
                let tell = tell.clone();
                move |told: Told| {
                    let invokes = matches!(told, Told::Invoke(_));
                    if killed.load(Relaxed) || tell.send((number, Some(told))).is_err() {
                        return Err("the host was killed".to_owned());
                    }
                    let accepted = accepted.lock().unwrap_or_else(PoisonError::into_inner);
                    match invokes {
                        true => accepted.recv().map_err(|error| error.to_string()),
                        false => Ok(()),
                    }
                }
            };
            if let Ok(boards) = board::boards(&remote, options.lease) {
                // The store shows the outcome of its request.
                let budget = options.budget_of(&job);
                let _ = host::work(&boards, &job, budget, options.work, &(Arc::new(said) as _));
            }
            let _ = tell.send((number, None));
        })?;
        Ok(Life::Thread { dead, accept })
    }

    fn hear(&mut self, number: usize, told: Option<Told>) -> Result<(), Failure> {
        let Some(host) = self.hosts.get_mut(&number) else { return Ok(()) };
        match told {
            None => {
                // It has ended before it could be killed: another one is killed instead.
                self.doomed -= u32::from(host.doom.is_some());
                self.ended(number);
            }
            Some(Told::Stored) if host.doom == Some(Doom::Stored) => self.kill(number)?,
            Some(Told::Stored) => {}
            Some(Told::Invoke(_)) if host.doom == Some(Doom::HandsOver) => self.kill(number)?,
            Some(Told::Invoke(board)) => {
                match &mut host.life {
                    // The end of a host is noticed separately.
                    Life::Process { stdin, .. } => drop(stdin.write_all(b"accepted\n")),
                    Life::Thread { accept, .. } => drop(accept.send(())),
                }
                self.waiting.push_back(Job::Bottom { board });
            }
        }
        Ok(())
    }

    fn kill(&mut self, number: usize) -> Result<(), Failure> {
        let Some(host) = self.hosts.get_mut(&number) else { return Ok(()) };
        match &mut host.life {
            Life::Process { child, .. } => child.kill()?,
            Life::Thread { dead, .. } => dead.store(true, Relaxed),
        }
        self.books.killed += 1;
        self.ended(number);
        Ok(())
    }

    fn ended(&mut self, number: usize) {
        let Some(mut host) = self.hosts.remove(&number) else { return };
        if let Life::Process { child, .. } = &mut host.life {
            let _ = child.wait();
        }
        if let Job::Front { request, .. } = &host.job {
            self.books.asks(request, host.job.clone());
        }
    }

    /// Polls for the results of requests whose hosts have ended.
    fn poll(&mut self) -> Result<(), Failure> {
        let unanswered = |error: &dyn std::fmt::Display| Failure(UNAVAILABLE, error.to_string());
        for (request, job) in self.books.asked() {
            let Job::Front { board, .. } = &job else { continue };
            let board = self.boards.of(board).map_err(|error| unanswered(&error))?;
            let outcome = board.outcome::<Standing>(&request).wait();
            let outcome = outcome.map_err(|error| unanswered(&error))?;
            match outcome.map_err(|error| unanswered(&error))? {
                Outcome::Done(standing) => self.books.answered(&request, &standing),
                // The host was killed before it stored the request. The client sends it again.
                Outcome::Unknown => {
                    self.books.again(&request);
                    self.waiting.push_back(job);
                }
                Outcome::Dead { error } => self.books.wrong(format!("{request}: {error}")),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Platform<'_> {
    fn drop(&mut self) {
        for host in self.hosts.values_mut() {
            if let Life::Process { child, .. } = &mut host.life {
                // It is no longer needed.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
