//! The entrants: processes, or threads with a client each; and the end of some.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use turnwise_redis::MemoryStore;

use crate::Options;
use crate::books::Books;
use crate::entrant::{self, Told};
use crate::failure::Failure;
use crate::mortal::Mortal;

/// The time that the doomed entrants have to reserve a place each before the others begin; and the
/// time that they live then, unless another entrant has an answer sooner.
const DELAY: Duration = Duration::from_millis(200);

/// All entrants, and their reports: `None` is the end of one.
pub(crate) struct Cluster {
    entrants: Vec<Entrant>,
    told: Receiver<(usize, Option<Told>)>,
}

type Teller = Sender<(usize, Option<Told>)>;

enum Entrant {
    Process(Child),
    Threads { start: Sender<()>, dead: Arc<AtomicBool> },
}

impl Cluster {
    /// Starts the entrants. None applies yet.
    pub(crate) fn start(
        options: &Options,
        raffle: &str,
        store: Option<MemoryStore>,
    ) -> Result<Cluster, Failure> {
        let (tell, told) = channel();
        let mut cluster = Cluster { entrants: Vec::new(), told };
        for number in 0..options.processes {
            let entrant = match &store {
                None => process(options, raffle, number, tell.clone())?,
                Some(store) => threads(options, raffle, number, store.clone(), tell.clone())?,
            };
            cluster.entrants.push(entrant);
        }
        Ok(cluster)
    }

    /// Lets them apply, and kills some. Returns when all have ended.
    pub(crate) fn run(
        mut self,
        options: &Options,
        interrupted: &AtomicBool,
    ) -> Result<Books, Failure> {
        let doomed = options.kill as usize;
        let mut books = Books::new(self.entrants.len());
        self.listen(&mut books, interrupted, |books| books.all(|it| it.ready || it.ended))?;
        self.entrants[..doomed].iter_mut().for_each(Entrant::begin);
        books.begins();
        let (patience, mut others_began) = (Instant::now() + DELAY, false);
        let mut killed_at = None;
        loop {
            let first = &books.entrants[..doomed];
            let have = first.iter().all(|it| it.reserved || it.ended);
            if !others_began && (have || Instant::now() >= patience) {
                self.entrants[doomed..].iter_mut().for_each(Entrant::begin);
                (others_began, killed_at) = (true, Some(Instant::now() + DELAY));
            }
            let answered = books.entrants[doomed..].iter().any(|it| it.reserved || it.answered > 0);
            if killed_at.is_some_and(|at| answered || Instant::now() >= at) {
                killed_at = None;
                for number in 0..doomed {
                    if !books.entrants[number].done {
                        books.entrants[number].killed = true;
                        self.entrants[number].kill()?;
                    }
                }
            }
            if books.all(|it| it.ended) {
                return Ok(books);
            }
            self.hear(&mut books, interrupted)?;
        }
    }

    fn listen(
        &mut self,
        books: &mut Books,
        interrupted: &AtomicBool,
        enough: impl Fn(&Books) -> bool,
    ) -> Result<(), Failure> {
        while !enough(books) {
            self.hear(books, interrupted)?;
        }
        Ok(())
    }

    /// Waits a while for a report of an entrant.
    fn hear(&mut self, books: &mut Books, interrupted: &AtomicBool) -> Result<(), Failure> {
        if interrupted.load(Relaxed) {
            return Err(Failure(130, "interrupted".to_owned()));
        }
        match self.told.recv_timeout(Duration::from_millis(20)) {
            Ok((number, told)) => books.note(number, told),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        Ok(())
    }
}

impl Entrant {
    fn begin(&mut self) {
        match self {
            // The end of an entrant is noticed separately.
            Entrant::Process(child) => {
                let line = child.stdin.as_mut().map(|stdin| stdin.write_all(b"go\n"));
                drop(line);
            }
            Entrant::Threads { start, .. } => drop(start.send(())),
        }
    }

    fn kill(&mut self) -> Result<(), Failure> {
        match self {
            Entrant::Process(child) => child.kill()?,
            Entrant::Threads { dead, .. } => dead.store(true, Relaxed),
        }
        Ok(())
    }
}

impl Drop for Entrant {
    fn drop(&mut self) {
        if let Entrant::Process(child) = self {
            // It has ended, or is no longer needed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn process(options: &Options, raffle: &str, number: u32, tell: Teller) -> Result<Entrant, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let time = |time: Duration| format!("{}ms", time.as_millis());
    command.args(["--entrant", &number.to_string(), "--name", raffle]);
    command.args(["--prefix", &options.prefix, "--seats", &options.seats.to_string()]);
    command.args(["--requests", &options.requests.to_string()]);
    command.args(["--hold", &time(options.hold), "--lease", &time(options.lease)]);
    if number < options.kill {
        command.arg("--doomed");
    }
    // Passed in the environment, because process lists show arguments, and it may contain a
    // password.
    command.env("REDIS_URL", options.url.as_deref().unwrap_or_default());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let output = child.stdout.take();
    thread::Builder::new().spawn(move || {
        let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
        for line in lines.map_while(Result::ok) {
            let told = Told::read(&line).unwrap_or(Told::Failed(format!("it says `{line}`")));
            let _ = tell.send((number as usize, Some(told)));
        }
        let _ = tell.send((number as usize, None));
    })?;
    Ok(Entrant::Process(child))
}

fn threads(
    options: &Options,
    raffle: &str,
    number: u32,
    store: MemoryStore,
    tell: Teller,
) -> Result<Entrant, Failure> {
    let dead = Arc::new(AtomicBool::new(false));
    let failed = |error: &dyn std::fmt::Display| Failure(2, error.to_string());
    let remote = options.builder().over(Mortal { store, dead: dead.clone() });
    let remote = remote.map_err(|error| failed(&error))?;
    let admission = remote.admission(raffle, options.seats).map_err(|error| failed(&error))?;
    let (start, started) = mpsc::channel();
    let (options, killed) = (options.clone(), dead.clone());
    thread::Builder::new().spawn(move || {
        let until_killed = || {
            while !killed.load(Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let say = |told| {
            // A dead entrant reports nothing.
            if !killed.load(Relaxed) {
                let _ = tell.send((number as usize, Some(told)));
            }
        };
        say(Told::Ready);
        if started.recv().is_ok() {
            let doomed = (number < options.kill).then_some(&until_killed as &(dyn Fn() + Sync));
            entrant::enter(&options, &admission, number, &say, doomed);
        }
        let _ = tell.send((number as usize, None));
    })?;
    Ok(Entrant::Threads { start, dead })
}
