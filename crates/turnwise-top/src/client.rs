//! The other end: asks a server, and waits for its answer.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::address::Address;
use crate::error::ClientError;
use crate::wire::{REQUEST, Snapshot};

/// The longest that a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest line that a client reads: some million actors.
const LONGEST: u64 = 1 << 30;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection to a [`Server`](crate::Server).
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to the server at that address. May block.
    ///
    /// # Errors
    /// [`ClientError::Io`]: there is none.
    pub fn connect(address: &Address) -> Result<Self, ClientError> {
        Self::patient(address, PATIENCE).map_err(ClientError::Io)
    }

    fn patient(address: &Address, patience: Duration) -> io::Result<Self> {
        let stream = open(address, patience)?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Waits for the next snapshot: ten a second at most. Blocks for ten seconds at most between
    /// two parts of it.
    ///
    /// # Errors
    /// The server has ended or does not answer, or the answer is not a snapshot.
    ///
    /// # Examples
    /// ```
    /// use turnwise::{Actor, System};
    /// use turnwise_top::Client;
    ///
    /// let system = System::new();
    /// let _log = system.spawn(Actor::builder().name("log"), Vec::<u32>::new())?;
    /// let server = turnwise_top::serve(&system)?;
    /// let snapshot = Client::connect(server.address())?.snapshot()?;
    /// assert_eq!(snapshot.actors[0].name, "log");
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn snapshot(&mut self) -> Result<Snapshot, ClientError> {
        // A server that refuses has closed its end, and its reason can still be read.
        let asked = self.stream.get_mut().write_all(REQUEST);
        let mut line = String::new();
        let read =
            (&mut self.stream).take(LONGEST).read_line(&mut line).map_err(ClientError::Io)?;
        if read == 0 {
            let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(ClientError::Io(asked.err().unwrap_or(ended)));
        }
        Snapshot::from_json(&line)
    }
}

fn open(address: &Address, patience: Duration) -> io::Result<Box<dyn Stream>> {
    match address {
        #[cfg(unix)]
        Address::Unix(path) => {
            let stream = std::os::unix::net::UnixStream::connect(path)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(Box::new(stream))
        }
        #[cfg(not(unix))]
        Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, patience)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(Box::new(stream))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_is_stopped_is_an_error_in_time() {
        // It accepts nothing.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let mut client = Client::patient(&address, Duration::from_millis(10)).unwrap();
        assert_eq!(client.snapshot().unwrap_err().to_string(), "the server does not answer");
    }
}
