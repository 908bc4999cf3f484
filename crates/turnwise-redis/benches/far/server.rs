//! A server for one run.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::subject::Failure;

/// A `redis-server` on a free port of loopback, which keeps nothing on the disk; killed by its id.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Result<Server, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let text = port.to_string();
        let options = ["--port", &text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let child = Command::new("redis-server")
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("`redis-server` cannot be started: {error}"))?;
        let server = Server { child, port };
        let until = Instant::now() + Duration::from_secs(20);
        while !server.answers() {
            if Instant::now() > until {
                return Err("the server does not come up".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    fn answers(&self) -> bool {
        let answer = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
            stream.write_all(b"PING\r\n").ok()?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).ok()?;
            Some(answer)
        };
        answer() == Some(*b"+PONG")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
