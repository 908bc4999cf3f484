//! Helpers of the tests: servers as processes, and a client that sees every byte.

#![allow(dead_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// All tables. The names are those of the command line.
pub(crate) const TABLES: [&str; 4] = ["actors", "dashmap", "sharded", "mutex"];

/// The time after which a test counts as hanging.
pub(crate) const HANGS: Duration = Duration::from_secs(120);

/// Returns the share of a load that is run: a small part in debug builds.
pub(crate) fn size(debug: usize, release: usize) -> usize {
    if cfg!(debug_assertions) { debug } else { release }
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < HANGS, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The server.
pub(crate) struct Kv {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) port: u16,
}

impl Kv {
    pub(crate) fn start(table: &str) -> Kv {
        Kv::start_with(table, &[])
    }

    pub(crate) fn start_with(table: &str, arguments: &[&str]) -> Kv {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kv"))
            .args(["--keys", table, "--threads", "2"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut out = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("its first line");
        let port = line.split([':', ',']).nth(2).and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port in {line:?}"));
        Kv { child, out, port }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.port)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let id = self.child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status().expect("kill runs");
        assert!(killed.success());
    }

    /// Waits for its end. Returns its status, and the rest of its output.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let mut status = None;
        until("the server ends", || {
            status = self.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        (status.expect("it has ended"), rest)
    }

    /// Returns its resident memory in KiB.
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("/proc");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }
}

impl Drop for Kv {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A redis server.
pub(crate) struct Redis {
    child: Child,
    pub(crate) port: u16,
}

impl Redis {
    /// Starts a server on a free port; or returns none, and reports that. With `KV_NEEDS_REDIS`,
    /// the absence of redis is an error.
    pub(crate) fn start(test: &str) -> Option<Redis> {
        let version = Command::new("redis-server").arg("--version").output();
        let version = version.map_or(String::new(), |said| text(&said.stdout));
        // Other versions have other texts for their errors.
        if !version.contains("v=7.0.") {
            skipped(test, &format!("it needs redis-server 7.0, and there is {version:?}"));
            return None;
        }
        for _ in 0..20 {
            let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = free.local_addr().expect("its address").port();
            drop(free);
            let started = Command::new("redis-server")
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
                .stdout(Stdio::null())
                .spawn();
            let mut redis = match started {
                Ok(child) => Redis { child, port },
                Err(error) => {
                    skipped(test, &format!("redis-server does not start: {error}"));
                    return None;
                }
            };
            let mut ended = false;
            until("redis answers", || {
                // Another process has the port by now.
                ended = redis.child.try_wait().expect("it can be waited for").is_some();
                ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if !ended && redis.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                return Some(redis);
            }
        }
        panic!("redis-server ends at once, on each of 20 ports");
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reports that a test was not run. The harness captures the output of tests; this is written past
/// it.
pub(crate) fn skipped(test: &str, why: &str) {
    let needed = std::env::var_os("KV_NEEDS_REDIS").is_some();
    assert!(!needed, "{why}");
    let line = format!("\nSKIPPED: {test}: {why}. apt-get install redis-server redis-tools\n");
    io::stderr().write_all(line.as_bytes()).expect("standard error is open");
}

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn new(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(HANGS)).expect("an option");
        stream.set_write_timeout(Some(HANGS)).expect("an option");
        let reader = BufReader::with_capacity(1 << 16, stream.try_clone().expect("a descriptor"));
        Client { stream, reader }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Reads one reply, byte for byte.
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_reply(&mut bytes);
        bytes
    }

    fn append_reply(&mut self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        self.reader.read_until(b'\n', bytes).expect("a reply");
        let line = &bytes[start..];
        assert!(line.ends_with(b"\r\n"), "half a reply: {:?}", text(line));
        let number = std::str::from_utf8(&line[1..line.len() - 2]).ok();
        let number = number.and_then(|number| number.parse::<i64>().ok());
        match line[0] {
            b'$' => {
                let len = number.expect("a length");
                if let Ok(len) = usize::try_from(len) {
                    let start = bytes.len();
                    bytes.resize(start + len + 2, 0);
                    self.reader.read_exact(&mut bytes[start..]).expect("the rest of a reply");
                }
            }
            b'*' => {
                for _ in 0..number.expect("a length") {
                    self.append_reply(bytes);
                }
            }
            b'+' | b'-' | b':' => {}
            _ => panic!("no reply: {:?}", text(line)),
        }
    }

    /// Reads everything until the server closes. A broken connection counts as closed.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => bytes,
        }
    }

    /// Returns the reply to an inline command.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes());
        text(&self.reply()).trim_end().to_string()
    }

    /// Returns the number in the reply to an inline command.
    pub(crate) fn number(&mut self, line: &str) -> i64 {
        let reply = self.ask(line);
        reply[1..].parse().unwrap_or_else(|_| panic!("{line}: {reply}"))
    }
}

/// Returns a frame of these arguments.
pub(crate) fn frame(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splitmix64: the same seed gives the same load.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, below: usize) -> usize {
        (self.number() % below as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}
