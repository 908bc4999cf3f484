//! The sockets of a server: their files, and the two kinds behind one type.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use mio::net::{UnixListener, UnixStream};

use crate::address::Address;
use crate::error::ServeError;

pub(super) enum Listener {
    #[cfg(unix)]
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            #[cfg(unix)]
            Listener::Unix(listener) => listener,
            Listener::Tcp(listener) => listener,
        }
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            #[cfg(unix)]
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }
}

pub(super) enum Stream {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            #[cfg(unix)]
            Stream::Unix(stream) => stream,
            Stream::Tcp(stream) => stream,
        }
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Stream::Unix(stream) => stream.read(into),
            Stream::Tcp(stream) => stream.read(into),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }
}

/// A listener at that address, the address that it got, and the file to be removed.
pub(super) fn bind(address: Address) -> Result<(Listener, Address, File), ServeError> {
    match address {
        Address::Tcp(port) => bind_port(port),
        Address::Unix(path) => bind_file(path),
    }
}

fn bind_port(port: SocketAddr) -> Result<(Listener, Address, File), ServeError> {
    if !port.ip().is_loopback() {
        return Err(ServeError::NotLocal(port));
    }
    let bound = TcpListener::bind(port).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (port, listener) = bound.map_err(ServeError::io(&Address::Tcp(port)))?;
    Ok((Listener::Tcp(listener), Address::Tcp(port), File::none()))
}

#[cfg(not(unix))]
fn bind_file(path: PathBuf) -> Result<(Listener, Address, File), ServeError> {
    Err(ServeError::Unsupported(path))
}

#[cfg(not(unix))]
pub(super) struct File;

#[cfg(not(unix))]
impl File {
    fn none() -> Self {
        File
    }
}

#[cfg(unix)]
pub(super) use unix::File;
#[cfg(unix)]
use unix::bind_file;

#[cfg(unix)]
mod unix {
    use std::fs::{self, DirBuilder, Permissions};
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
    use std::path::Path;
    use std::process;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::address::{Answers, answers};

    /// The file of a socket, which is removed when this is dropped, unless another is there by
    /// then.
    pub(in super::super) struct File(Option<(PathBuf, Identity)>);

    /// Device and number of a file.
    type Identity = (u64, u64);

    fn identity(path: &Path) -> io::Result<Identity> {
        fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
    }

    impl File {
        pub(super) fn none() -> Self {
            File(None)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            if let Some((path, own)) = &self.0
                && identity(path).is_ok_and(|there| there == *own)
            {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// A folder for this user alone, which is removed when this is dropped.
    struct Private(PathBuf);

    impl Private {
        fn beside(path: &Path) -> io::Result<Self> {
            static MADE: AtomicU32 = AtomicU32::new(0);
            // Ordering: Relaxed. A number by itself.
            let name = format!(".tt{}-{}", process::id(), MADE.fetch_add(1, Relaxed));
            let folder = path.with_file_name(name);
            DirBuilder::new().mode(0o700).create(&folder)?;
            Ok(Private(folder))
        }
    }

    impl Drop for Private {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The socket is made in a folder of its own and then linked to its name: there is no moment in
    /// which another user could connect, or in which a connection is refused.
    pub(super) fn bind_file(path: PathBuf) -> Result<(Listener, Address, File), ServeError> {
        let address = Address::Unix(path);
        let Address::Unix(path) = &address else { unreachable!("made above") };
        let io_error = ServeError::io(&address);
        let folder = Private::beside(path).map_err(&io_error)?;
        let made = folder.0.join("s");
        let listener = UnixListener::bind(&made).map_err(&io_error)?;
        fs::set_permissions(&made, Permissions::from_mode(0o600)).map_err(&io_error)?;
        let own = identity(&made).map_err(&io_error)?;
        if let Err(error) = fs::hard_link(&made, path) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(io_error(error));
            }
            remove_stale(path, &address)?;
            fs::hard_link(&made, path).map_err(|error| match error.kind() {
                // Another server was faster.
                io::ErrorKind::AlreadyExists => ServeError::InUse(address.clone()),
                _ => io_error(error),
            })?;
        }
        let file = File(Some((path.clone(), own)));
        Ok((Listener::Unix(listener), address.clone(), file))
    }

    /// Removes the socket whose server has died.
    fn remove_stale(path: &Path, address: &Address) -> Result<(), ServeError> {
        let io_error = ServeError::io(address);
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(&io_error)?,
        };
        if !found.file_type().is_socket() {
            return Err(ServeError::NotASocket(path.to_owned()));
        }
        match answers(path) {
            Answers::Dead => {}
            Answers::Yes => return Err(ServeError::InUse(address.clone())),
            Answers::Unknown(io::ErrorKind::NotFound) => return Ok(()),
            Answers::Unknown(kind) => return Err(io_error(kind.into())),
        }
        match identity(path) {
            Ok(there) if there == (found.dev(), found.ino()) => {
                fs::remove_file(path).map_err(&io_error)
            }
            // Another server has replaced it meanwhile; the link says so.
            _ => Ok(()),
        }
    }
}
