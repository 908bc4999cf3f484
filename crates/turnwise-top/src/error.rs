//! Errors of servers and clients.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::address::Address;
use crate::wire::VERSION;

/// The reason why the actors of a system are not served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// Another server is alive at the address.
    InUse(Address),
    /// There is a file of that name, and it is no socket: it was left as it is.
    NotASocket(PathBuf),
    /// The address is not one of this machine alone: the protocol knows no passwords.
    NotLocal(SocketAddr),
    /// This platform has no Unix domain sockets: serve at an [`Address::Tcp`].
    Unsupported(PathBuf),
    /// The operating system refused the socket, its file or the server's thread.
    Io {
        /// The address at which the system was to be served.
        address: Address,
        /// The failure.
        source: io::Error,
    },
}

impl ServeError {
    /// Returns the error for one of the operating system's, at that address.
    pub(crate) fn io(address: &Address) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse(address.clone()),
            _ => ServeError::Io { address: address.clone(), source },
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::InUse(address) => write!(f, "{address} is served already: use another"),
            ServeError::NotASocket(path) => {
                write!(f, "{} is not a socket: move it, or use another path", path.display())
            }
            ServeError::NotLocal(address) => {
                write!(f, "{address} is not a loopback address: use one of 127.0.0.1")
            }
            ServeError::Unsupported(path) => {
                let path = path.display();
                write!(f, "no Unix domain sockets here for {path}: use an address of 127.0.0.1")
            }
            ServeError::Io { address, .. } => write!(f, "cannot serve at {address}"),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ServeError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The reason why a client gets no snapshot. After an error its connection is of no more use.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The server speaks another version of the protocol.
    Version {
        /// The server's version.
        theirs: u32,
    },
    /// The server says why it sends no snapshot.
    Refused(String),
    /// The line is not one of a server of this crate.
    Malformed(Box<dyn Error + Send + Sync>),
    /// The server has ended, or does not answer in time.
    Io(io::Error),
}

impl ClientError {
    pub(crate) fn malformed(source: serde_json::Error) -> Self {
        ClientError::Malformed(source.into())
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Version { theirs } => write!(
                f,
                "the server speaks version {theirs} of the protocol, this client {VERSION}: use a \
                 turnwise-top of the server's version"
            ),
            ClientError::Refused(why) => write!(f, "the server refused: {why}"),
            ClientError::Malformed(_) => f.write_str("the answer is not one of turnwise-top"),
            ClientError::Io(source) => match source.kind() {
                io::ErrorKind::UnexpectedEof => f.write_str("the server has ended"),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    f.write_str("the server does not answer")
                }
                _ => f.write_str("the server cannot be reached"),
            },
        }
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ClientError::Malformed(source) => Some(&**source),
            ClientError::Io(source) => Some(source),
            ClientError::Version { .. } | ClientError::Refused(_) => None,
        }
    }
}
