//! Addresses of servers: a file of this machine, or a port of it.

use std::convert::Infallible;
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::{env, fs, process};

/// The address of a server: a Unix domain socket, or TCP on the loopback interface.
///
/// From text it is a port if it reads like one, `127.0.0.1:7000`, and a path otherwise.
///
/// # Examples
/// ```
/// use turnwise_top::Address;
///
/// let port: Address = "127.0.0.1:7000".parse().unwrap();
/// assert_eq!(port, Address::Tcp(([127, 0, 0, 1], 7000).into()));
/// let file: Address = "/run/shop.sock".parse().unwrap();
/// assert_eq!(file, Address::Unix("/run/shop.sock".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A socket in the file system. Its permissions are 0600: it is for one user.
    Unix(PathBuf),
    /// A port of 127.0.0.1 or `::1`. It is open to each user of the machine.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(f),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Address::Unix(text.into()), Address::Tcp))
    }
}

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Address::Unix(path.to_owned())
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Tcp(address)
    }
}

/// Returns the name of this program's file, of up to 32 characters.
pub(crate) fn program() -> String {
    let file = env::current_exe().ok();
    let stem = file.as_ref().and_then(|file| file.file_stem()).unwrap_or_default();
    stem.to_string_lossy().chars().take(32).collect()
}

const PREFIX: &str = "turnwise-top-";

/// The folder of sockets whose place is not chosen: the user's own, where there is one.
fn folder() -> PathBuf {
    env::var_os("XDG_RUNTIME_DIR").map_or_else(env::temp_dir, PathBuf::from)
}

impl Address {
    /// Returns another address of this process at each call.
    pub(crate) fn of_this_process() -> Self {
        static SERVED: AtomicU32 = AtomicU32::new(0);
        if !cfg!(unix) {
            return Address::Tcp(([127, 0, 0, 1], 0).into());
        }
        // Ordering: Relaxed. A number by itself.
        let before = SERVED.fetch_add(1, Relaxed);
        let again = if before == 0 { String::new() } else { format!("-{before}") };
        let name = format!("{PREFIX}{}-{}{again}.sock", program(), process::id());
        Address::Unix(folder().join(name))
    }

    /// Returns the addresses that live servers of [`serve`](crate::serve) have, by name. A socket
    /// whose server died without removing it is passed over. TCP ports are not among them.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<_> =
            sockets().into_iter().filter(|path| answers(path) == Answers::Yes).collect();
        all.sort();
        all.into_iter().map(Address::Unix).collect()
    }
}

/// Removes the sockets whose servers have died. A socket listens before it has its name.
pub(crate) fn remove_dead() {
    for path in sockets().into_iter().filter(|path| answers(path) == Answers::Dead) {
        // One that another server removes meanwhile.
        let _ = fs::remove_file(path);
    }
}

/// The files that are named like sockets of [`serve`](crate::serve).
fn sockets() -> Vec<PathBuf> {
    let entries = folder().read_dir().into_iter().flatten().flatten();
    let named = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(".sock")
    });
    named.map(|entry| entry.path()).collect()
}

#[derive(PartialEq, Eq)]
pub(crate) enum Answers {
    Yes,
    /// Its server has ended without removing it.
    Dead,
    /// It is no socket, or not this user's.
    Unknown(ErrorKind),
}

/// Whether a server is alive there. It never blocks: the queue of a server that is stopped is full
/// after a while.
#[cfg(unix)]
pub(crate) fn answers(path: &Path) -> Answers {
    match mio::net::UnixStream::connect(path).map_err(|error| error.kind()) {
        Ok(_) | Err(ErrorKind::WouldBlock) => Answers::Yes,
        Err(ErrorKind::ConnectionRefused) => Answers::Dead,
        Err(kind) => Answers::Unknown(kind),
    }
}

#[cfg(not(unix))]
fn answers(_: &Path) -> Answers {
    Answers::Unknown(ErrorKind::Unsupported)
}
