//! Helpers of the tests: a server, a small client, and a reader of the file.
//!
//! - A test that waits for a condition polls it, for a minute at most; no test sleeps to order
//!   events.

#![allow(dead_code, reason = "not each of the tests needs all of it")]

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

pub(crate) const MODES: [&str; 3] = ["turnwise", "mutex", "immediate"];
const LONG: Duration = Duration::from_secs(60);

/// A folder that is removed with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("raffle-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        // On the disk of the build, which is seldom one in memory.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.join("raffle.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < LONG, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_raffle-server"))
}

/// Runs a server that should end by itself.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let since = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if since.elapsed() > LONG {
            let _ = child.kill();
            panic!("it does not end: {arguments:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// A server that is killed if the test does not end it.
pub(crate) struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    /// The first line of its output.
    pub(crate) said: String,
}

impl Server {
    pub(crate) fn start(db: &Path, arguments: &[&str]) -> Self {
        let mut child = program()
            .args(["--port", "0", "--db"])
            .arg(db)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        out.read_line(&mut said).unwrap();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split(',').next());
        let Some(address) = address.and_then(|address| address.parse().ok()) else {
            let mut error = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut error);
            panic!("it does not start: {said}{error}");
        };
        Server { child, out, address, said }
    }

    pub(crate) fn post(&self, who: impl AsRef<[u8]>) -> Answer {
        self.ask("POST", "/applications", who)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Answer {
        Client::new(self.address).unwrap().ask(method, path, body.as_ref()).unwrap()
    }

    /// Returns the value of a line of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits for its end. Returns the exit code, the rest of stdout, and stderr.
    pub(crate) fn ended(mut self) -> (Option<i32>, String, String) {
        until("the server's end", || self.child.try_wait().unwrap().is_some());
        let (mut said, mut error) = (String::new(), String::new());
        self.out.read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (self.child.wait().unwrap().code(), said, error)
    }

    pub(crate) fn stop(self) {
        self.signal("-TERM");
        let (code, said, error) = self.ended();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{said}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn place(&self) -> u64 {
        self.json()["place"].as_u64().unwrap()
    }
}

/// A connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LONG))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.send(method, path, body)?;
        self.answer()
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<()> {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        self.raw(&[head.as_bytes(), body].concat())
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Reads a line, without its end. None: no more come.
    pub(crate) fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim_end().to_string()))
    }

    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let gone = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let first = self.line()?.ok_or_else(gone)?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(gone)?;
        let mut headers = HashMap::new();
        loop {
            let line = self.line()?.ok_or_else(gone)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_string());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Answer { status, headers, body: String::from_utf8(body).unwrap() })
    }
}

/// Returns the entrants in the file. Checks that rows and count agree, and that places are 1 to the
/// count.
pub(crate) fn rows(db: &Path) -> HashMap<String, u64> {
    let file = Connection::open(db).unwrap();
    let count: u64 = file.query_row("SELECT count FROM raffle", [], |row| row.get(0)).unwrap();
    let mut query = file.prepare("SELECT id, place FROM entrant").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: HashMap<String, u64> = rows.map(Result::unwrap).collect();
    let mut places: Vec<u64> = rows.values().copied().collect();
    places.sort_unstable();
    assert_eq!(places, (1..=count).collect::<Vec<u64>>(), "rows and count do not agree");
    rows
}

/// Makes the file a raffle's, and has the database fail, or take long, for some names: `bad` is
/// refused, `half` is inserted and not counted, `undo` ends the whole transaction, `late` fails at
/// the commit, and `slow` takes this many steps.
pub(crate) fn with_faults(db: &Path, slow_steps: u64) {
    Server::start(db, &[]).stop();
    let faults = format!(
        "CREATE TRIGGER bad BEFORE INSERT ON entrant WHEN NEW.id GLOB 'bad*'
            BEGIN SELECT RAISE(ABORT, 'a bad name'); END;
        CREATE TRIGGER half BEFORE UPDATE ON raffle
            WHEN EXISTS (SELECT 1 FROM entrant WHERE place = NEW.count AND id GLOB 'half*')
            BEGIN SELECT RAISE(ABORT, 'only half of it'); END;
        CREATE TRIGGER undo BEFORE INSERT ON entrant WHEN NEW.id GLOB 'undo*'
            BEGIN SELECT RAISE(ROLLBACK, 'all is undone'); END;
        CREATE TABLE nobody (id TEXT PRIMARY KEY);
        CREATE TABLE late (id TEXT REFERENCES nobody DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER late BEFORE INSERT ON entrant WHEN NEW.id GLOB 'late*'
            BEGIN INSERT INTO late VALUES (NEW.id); END;
        CREATE VIEW steps AS WITH RECURSIVE step(n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM step LIMIT {slow_steps}) SELECT n FROM step;
        CREATE TRIGGER slow BEFORE INSERT ON entrant WHEN NEW.id GLOB 'slow*'
            BEGIN SELECT count(*) FROM steps; END;"
    );
    Connection::open(db).unwrap().execute_batch(&faults).unwrap();
}
