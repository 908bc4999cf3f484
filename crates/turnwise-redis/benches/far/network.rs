//! A network that takes its time, before a server on loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, IntoConnectionInfo};

use crate::subject::Failure;

/// Starts a proxy before a server, which delays each byte by this time each way. Returns its
/// address.
pub(crate) fn slow(url: &str, delay: Duration) -> Result<String, Failure> {
    let server = match url.into_connection_info()?.addr() {
        ConnectionAddr::Tcp(host, port) => (host.clone(), *port),
        _ => return Err("the network is one of TCP".into()),
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let both = TcpStream::connect((&*server.0, server.1)).and_then(|server| {
                Ok([(client.try_clone()?, server.try_clone()?), (server, client)])
            });
            both.into_iter().flatten().for_each(|(from, to)| forward(from, to, delay));
        }
    });
    Ok(format!("redis://127.0.0.1:{port}/"))
}

fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (reads, read) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut bytes = [0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if reads.send((Instant::now() + delay, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        let _ = to.set_nodelay(true);
        for (due, bytes) in read {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
