//! Servers on loopback, each for one test; and proxies before them.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros,
    reason = "each test uses a part of it"
)]

pub mod board;
pub mod cluster;
pub mod faulty;
pub mod naive;
pub mod proxy;
pub mod sentinel;
pub mod world;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use turnwise_redis::{Limits, Slot, SlotPool};

/// The part of a store over another one, in this field, that concerns notices.
macro_rules! forwards_notices {
    ($store:tt) => {
        fn listen(&self, client: &str, sink: turnwise_redis::NoticeSink) {
            self.$store.listen(client, sink);
        }

        fn forget(&self, client: &str) {
            self.$store.forget(client);
        }
    };
}

pub(crate) use forwards_notices;

/// A Redis server for one test, on a free port, killed by its id.
pub struct Server {
    pub port: u16,
    options: Vec<String>,
    /// Names and values.
    environment: Vec<(String, String)>,
    folder: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// Starts a server that keeps nothing on the disk.
    pub fn start() -> Server {
        Server::with(&["--save", "", "--appendonly", "no"])
    }

    pub fn with(options: &[&str]) -> Server {
        Server::within(options, &[])
    }

    pub fn within(options: &[&str], environment: &[(&str, &str)]) -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("turnwise-redis-{}-{number}", std::process::id());
        let folder = scratch().join(name);
        fs::create_dir_all(&folder).unwrap();
        let port = free_port();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let environment = environment.iter().map(owned).collect();
        let mut server = Server { port, options, environment, folder, child: None };
        server.run();
        server
    }

    /// Starts it, also after its end, on the same port, and waits until it answers.
    pub fn run(&mut self) {
        self.spawn();
        let until = Instant::now() + Duration::from_secs(20);
        let is_up = |answer: &str| answer == "+PONG" || answer.starts_with("-NOAUTH");
        while !self.try_ask("PING").as_deref().is_some_and(is_up) {
            assert!(Instant::now() < until, "the server does not come up");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts it, also after its end, on the same port.
    pub fn spawn(&mut self) {
        let mut command = Command::new("redis-server");
        command.arg("--port").arg(self.port.to_string()).arg("--bind").arg("127.0.0.1");
        command.arg("--dir").arg(&self.folder).args(&self.options).stdout(Stdio::null());
        command.envs(self.environment.iter().cloned());
        let child = command.spawn().expect("these tests need `redis-server`: install it");
        self.child = Some(child);
    }

    /// Kills it as a power failure would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        signal_to(self.child.as_ref().unwrap(), signal);
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns the first line of its answer to an inline command.
    pub fn ask(&self, command: &str) -> String {
        self.try_ask(command).expect("the server answers")
    }

    /// Returns the first lines of its answer.
    pub fn all(&self, command: &str, lines: usize) -> Vec<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let lines = BufReader::new(stream).lines().take(lines);
        lines.map(|line| line.unwrap().trim_end().to_owned()).collect()
    }

    pub fn try_ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn signal_to(child: &Child, signal: nix::sys::signal::Signal) {
    let id = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(id, signal).unwrap();
}

/// A port for a server, which no other test of this process gets, and which is below those that the
/// system gives to connections: it is free also when the server comes back.
pub fn free_port() -> u16 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number =
            NUMBER.fetch_add(1, Relaxed).wrapping_add(std::process::id().wrapping_mul(977));
        let port = 12_000 + (number % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The folder where servers and stores write: in memory, if the system has that. These tests kill
/// servers, not their machine, and each write would wait for seconds on a disk that is busy with a
/// build.
pub fn scratch() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Begins a job in a place, and drops it before it ends.
pub fn abandon_job(pool: &SlotPool<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let never = async |_: &mut Slot<(), _>| {
            begun.send(()).unwrap();
            std::future::pending::<()>().await
        };
        tokio::select! {
            _ = pool.run_async(Limits::NONE, never) => unreachable!("it never ends"),
            _ = has_begun => {}
        }
    });
}

/// Waits until the condition is true; a test that waits longer than this has failed.
pub fn until(what: &str, so: impl FnMut() -> bool) {
    assert!(holds_in_time(so), "it is not so: {what}");
}

/// Waits until the condition is true, for half a minute. Returns whether it was.
pub fn holds_in_time(mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while !so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Numbers that differ, from a seed: SplitMix64.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }
}
