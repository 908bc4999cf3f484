//! Processes that drain actors and are killed at any moment; and servers that are killed under
//! them.

use std::collections::BTreeMap;
use std::env;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Dice, Server, holds_in_time, signal_to};
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
use serde::{Deserialize, Serialize};
use turnwise::{Context, Handler};
use turnwise_redis::{Actors, MessageError, Outcome, Remote, RemoteBuilder};

const LEASE: Duration = Duration::from_millis(300);
/// The number of actors of each kind.
const ACTORS: u64 = 3;

/// The ids of the messages, in their order.
#[derive(Default, Serialize, Deserialize)]
struct Log(Vec<String>);

#[derive(Serialize, Deserialize)]
struct Append {
    kind: String,
    id: String,
}

impl Handler<Append> for Log {
    type Reply = usize;
    fn handle(&mut self, Append { kind, id }: Append, _: &mut Context<'_, Self>) -> usize {
        // The effect of a handler elsewhere: a line, which is written when it begins.
        if let Some(file) = env::var_os("DEATHS_FILE") {
            let mut file = OpenOptions::new().append(true).open(file).unwrap();
            file.write_all(format!("{kind} {id}\n").as_bytes()).unwrap();
        }
        self.0.push(id);
        self.0.len()
    }
}

fn builder() -> RemoteBuilder {
    Remote::builder().answer_within(LEASE).place(LEASE)
}

/// Connects to a server, or opens a file.
fn connect(url: &str) -> Option<Remote> {
    #[cfg(feature = "sqlite")]
    if let Some(path) = url.strip_prefix("file:") {
        return builder().over(turnwise_redis::FileStore::open(path).ok()?).ok();
    }
    builder().connect(url).ok()
}

/// Returns a kind whose messages are tried until they are handled, and one whose are tried once.
fn kinds(remote: &Remote) -> [Actors<Log>; 2] {
    [("often", 1_000_000), ("once", 1)].map(|(name, attempts)| {
        let kind = remote.actors::<Log>(name).message::<Append>("append").attempts(attempts);
        kind.pause(Duration::from_millis(1)).lease(LEASE).open().unwrap()
    })
}

/// Not a test: a process that tells actors of both kinds, and drains them, until it is killed.
#[test]
fn teller() {
    let (Ok(url), Ok(name)) = (env::var("DEATHS_OF"), env::var("DEATHS_NAME")) else { return };
    let remote = (0..100).find_map(|_| connect(&url)).expect("a store");
    let kinds = kinds(&remote);
    for number in 0.. {
        for (kind, actors) in ["often", "once"].iter().zip(&kinds) {
            let id = format!("{name}.{number}");
            let actor = actors.of(&(number % ACTORS).to_string()).unwrap();
            let told = actor.tell(Append { kind: kind.to_string(), id: id.clone() }).id(&id);
            // Some are delayed, and may arrive after their sender's death.
            match told.after(Duration::from_millis(number % 3 * 20)).wait() {
                Ok(_) => println!("told {kind} {id}"),
                // It may or may not be stored.
                Err(MessageError::Store(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

struct Teller(Child);

impl Teller {
    fn start(url: &str, name: &str, file: &Path, told: Sender<(String, String)>) -> Teller {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["actor_deaths::teller", "--exact", "--nocapture"]);
        command.env("DEATHS_OF", url).env("DEATHS_NAME", name).env("DEATHS_FILE", file);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                let mut words = line.split(' ');
                if words.next() == Some("told")
                    && let (Some(kind), Some(id)) = (words.next(), words.next())
                {
                    let _ = told.send((kind.to_owned(), id.to_owned()));
                }
            }
        });
        Teller(child)
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The time for which processes are killed: a second, or as many as the variable says.
fn time() -> Duration {
    let asked = env::var("TURNWISE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(asked.unwrap_or(1))
}

struct Case {
    file: PathBuf,
    told: Receiver<(String, String)>,
    tell: Sender<(String, String)>,
    tellers: Vec<Teller>,
    url: String,
    started: u64,
}

impl Case {
    fn start(url: String, name: &str) -> Case {
        let file = format!("turnwise-deaths-{name}-{}", std::process::id());
        let file = crate::support::scratch().join(file);
        std::fs::write(&file, "").unwrap();
        let (tell, told) = channel();
        let mut case = Case { file, told, tell, tellers: Vec::new(), url, started: 0 };
        (0..3).for_each(|_| case.teller());
        case
    }

    fn teller(&mut self) {
        let name = format!("t{}", self.started);
        self.started += 1;
        self.tellers.push(Teller::start(&self.url, &name, &self.file, self.tell.clone()));
    }

    /// Checks, when all processes are dead, that each stored message was handled once, in any
    /// order.
    fn close(self) {
        drop(self.tellers);
        drop(self.tell);
        let told: Vec<_> = self.told.iter().collect();
        assert!(told.len() > 10, "{told:?}");
        let remote = connect(&self.url).unwrap();
        let [often, once] = kinds(&remote);
        let _workers = [often.work(2), once.work(2)];
        let all = |kind: &Actors<Log>| {
            (0..ACTORS).map(|n| kind.of(&n.to_string()).unwrap()).collect::<Vec<_>>()
        };
        let actors: Vec<_> = all(&often).into_iter().chain(all(&once)).collect();
        let mut left = Vec::new();
        let drained = holds_in_time(|| {
            left.clear();
            left.extend(actors.iter().map(|actor| actor.info().wait().unwrap().unwrap()));
            left.retain(|info| info.waiting + info.delayed > 0 || info.drainer.is_some());
            left.is_empty()
        });
        let left = left.iter().map(|it| (it.waiting, it.attempts, &it.drainer, it.remaining));
        assert!(drained, "not drained: {:?}", left.collect::<Vec<_>>());
        let begun = std::fs::read_to_string(&self.file).unwrap();
        let _ = std::fs::remove_file(&self.file);
        let mut seen = BTreeMap::<(&str, String), u32>::new();
        for (name, kind) in [("often", &often), ("once", &once)] {
            for actor in all(kind) {
                let log = actor.info().wait().unwrap().unwrap().state.unwrap_or_default();
                for id in log.0 {
                    *seen.entry((name, id)).or_default() += 1;
                }
            }
        }
        let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "states have seen them twice: {twice:?}");
        let mut dead = 0;
        for (kind, id) in &told {
            if seen.contains_key(&(&**kind, id.clone())) {
                continue;
            }
            assert_eq!(kind, "once", "{id} was answered, and is lost");
            let number: u64 = id.split_once('.').unwrap().1.parse().unwrap();
            let actor = once.of(&(number % ACTORS).to_string()).unwrap();
            let outcome = actor.outcome::<usize>(id).wait().unwrap().unwrap();
            assert!(matches!(outcome, Outcome::Dead { .. }), "{id}: {outcome:?}");
            dead += 1;
        }
        // The number of times that each has begun.
        let mut lines = BTreeMap::<&str, u32>::new();
        begun.lines().for_each(|line| *lines.entry(line).or_default() += 1);
        let again: Vec<_> = lines.iter().filter(|(_, times)| **times > 1).collect();
        let of_once = again.iter().filter(|(line, _)| line.starts_with("once ")).count();
        assert_eq!(of_once, 0, "begun again, of one attempt: {again:?}");
        println!("begun again: {}", again.len());
        println!("{} told, {} handled, {dead} dead letters", told.len(), seen.len());
    }
}

/// Kills processes one after the other, wherever they are.
fn kill_some(url: String, name: &str) {
    let mut case = Case::start(url, name);
    let (end, mut dice) = (Instant::now() + time(), Dice(7));
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(dice.roll(150)));
        let index = dice.roll(case.tellers.len() as u64) as usize;
        drop(case.tellers.swap_remove(index));
        case.teller();
    }
    case.close();
}

#[test]
fn processes_are_killed() {
    let server = Server::start();
    kill_some(server.url(), "killed");
}

/// The killed processes write the file: each answered step is on the disk.
#[cfg(feature = "sqlite")]
#[test]
fn processes_that_write_a_file_are_killed() {
    let file = crate::support::world::File::new();
    kill_some(format!("file:{}", file.path().display()), "file");
}

/// Stopped for longer than their leases: others go on, and their later steps are refused.
#[test]
fn processes_are_stopped() {
    let server = Server::start();
    let mut case = Case::start(server.url(), "stopped");
    let (end, mut dice) = (Instant::now() + time(), Dice(11));
    while Instant::now() < end {
        let index = dice.roll(case.tellers.len() as u64) as usize;
        signal_to(&case.tellers[index].0, SIGSTOP);
        thread::sleep(LEASE * 2);
        signal_to(&case.tellers[index].0, SIGCONT);
        thread::sleep(Duration::from_millis(dice.roll(100)));
    }
    case.tellers.iter_mut().for_each(|teller| teller.0.kill().unwrap());
    case.close();
}

/// The server writes each step before it answers: each answered step survives it.
#[test]
fn servers_are_killed() {
    let mut server = Server::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let case = Case::start(server.url(), "servers");
    let end = Instant::now() + time();
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(400));
        server.kill();
        server.run();
    }
    case.close();
}
