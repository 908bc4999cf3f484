//! A Sentinel, which watches servers.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{free_port, scratch, until};

pub struct Sentinel {
    pub port: u16,
    pub child: Child,
    file: PathBuf,
}

impl Sentinel {
    /// Starts one with these settings besides its address.
    pub fn start(settings: &str) -> Sentinel {
        let port = free_port();
        let file = scratch().join(format!("turnwise-sentinel-{}-{port}.conf", std::process::id()));
        fs::write(&file, format!("port {port}\nbind 127.0.0.1\n{settings}\n")).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdout(Stdio::null());
        let child = command.spawn().expect("these tests need `redis-server`: install it");
        let sentinel = Sentinel { port, child, file };
        until("it is up", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        sentinel
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.file);
    }
}
