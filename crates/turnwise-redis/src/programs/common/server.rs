//! A server for one run.

use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use turnwise_redis::RemoteBuilder;

use crate::common::UNAVAILABLE;
use crate::failure::Failure;

/// The time limit of its start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis server on a free port of this machine, which keeps nothing. It is killed, by its id,
/// when this is dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start(builder: &RemoteBuilder) -> Result<Server, Failure> {
        let failed = |why: String| Failure(UNAVAILABLE, why);
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
        command.arg(port.to_string()).arg("--dir").arg(std::env::temp_dir());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| {
            let missing = error.kind() == io::ErrorKind::NotFound;
            let hint = if missing { "; --url or --memory does without it" } else { "" };
            failed(format!("redis-server: {error}{hint}"))
        })?;
        let mut server = Server { child, port };
        let until = Instant::now() + PATIENCE;
        loop {
            match builder.clone().connect(&server.url()) {
                Ok(_) => return Ok(server),
                Err(error) if Instant::now() >= until => {
                    return Err(failed(format!("redis-server: {error}")));
                }
                Err(_) => {}
            }
            if let Some(status) = server.child.try_wait()? {
                return Err(failed(format!("redis-server has ended: {status}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by the Ctrl-C that has ended this program.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
