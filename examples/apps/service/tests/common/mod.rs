//! Helpers of the tests: a server, and a small client.
//!
//! - A test that waits for a condition polls it, for a minute at most; no test sleeps to order
//!   events.

#![allow(dead_code, reason = "not each of the tests needs all of it")]

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const BACKENDS: [&str; 5] = ["turnwise", "mutex", "mpsc", "kameo", "ractor"];
const LONG: Duration = Duration::from_secs(60);

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < LONG, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_service"));
    // Backtraces of a few panics fill the pipe, which is read at the end.
    program.env("RUST_BACKTRACE", "0");
    program
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
    pub(crate) with: String,
}

impl Server {
    /// Starts it with enough threads for long turns.
    pub(crate) fn start(with: &str, arguments: &[&str]) -> Self {
        let mut child = program()
            .args(["--port", "0", "--threads", "6", "--with", with])
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
        assert!(said.contains(&format!("with {with}")), "{said}");
        Server { child, out, address, with: with.into() }
    }

    /// Puts a piece of a product into a basket.
    pub(crate) fn add(&self, session: &str, product: u32) -> Answer {
        self.client().add(session, product).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address).unwrap()
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.client().ask(method, path, body.as_ref()).unwrap()
    }

    /// Returns the value of a line of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Waits until the condition holds for a metric.
    pub(crate) fn until(&self, name: &str, is: impl Fn(u64) -> bool) {
        until(&format!("{name} with {}", self.with), || is(self.metric(name)));
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
        let with = self.with.clone();
        let (code, said, error) = self.ended();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{with}: {said}");
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

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.json()[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", self.body))
    }

    /// Returns true for a refusal with `Retry-After`.
    pub(crate) fn is_refused(&self, status: u16, why: &str) -> bool {
        let retry = self.headers.get("retry-after").and_then(|after| after.parse().ok());
        self.status == status && retry.is_some_and(|after: u32| after > 0) && self.says(why)
    }

    pub(crate) fn says(&self, why: &str) -> bool {
        self.json()["error"].as_str().is_some_and(|error| error.contains(why))
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

    pub(crate) fn add(&mut self, session: &str, product: u32) -> io::Result<Answer> {
        self.send_add(session, product)?;
        self.answer()
    }

    pub(crate) fn send_add(&mut self, session: &str, product: u32) -> io::Result<()> {
        let body = format!("{{\"product\": {product}}}");
        self.send("POST", &format!("/sessions/{session}/items"), body.as_bytes())
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
