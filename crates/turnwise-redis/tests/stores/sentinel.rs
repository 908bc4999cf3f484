//! Clients of a primary that Sentinels watch.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::sentinel::Sentinel;
use crate::support::{Server, signal_to, until};
use nix::sys::signal::Signal::SIGSTOP;
use serde::{Deserialize, Serialize};
use turnwise::{Context, Handler};
use turnwise_redis::Remote;

#[derive(Default, Serialize, Deserialize)]
struct Board(u64);

#[derive(Serialize, Deserialize)]
struct Add(u64);

impl Handler<Add> for Board {
    type Reply = u64;
    fn handle(&mut self, Add(points): Add, _: &mut Context<'_, Self>) -> u64 {
        self.0 += points;
        self.0
    }
}

/// Returns the lines of a Sentinel's answer, which is a list of strings.
fn ask(port: u16, command: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let count = lines.next().and_then(|first| first.strip_prefix('*')?.parse::<usize>().ok());
    lines.take(2 * count.unwrap_or(0)).collect()
}

/// Some of the Sentinels are gone, or stopped.
#[test]
fn clients_follow_the_primary_that_sentinels_name() {
    let password = ["--requirepass", "secret", "--masterauth", "secret"];
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let start =
        |more: &[&str]| Server::with(&[&["--save", ""], &password[..], &at_once, more].concat());
    let mut primary = start(&[]);
    let replica = start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let login = |command: &str| format!("AUTH secret\r\n{command}\r\nQUIT");
    let info = |server: &Server, field: &str| {
        let lines = server.all(&login("INFO replication"), 60);
        lines.into_iter().find_map(|line| line.strip_prefix(field).map(str::to_owned))
    };
    until("it follows", || info(&replica, "master_link_status:").as_deref() == Some("up"));
    let watch = |port: u16, more: &str| {
        Sentinel::start(&format!(
            "{more}sentinel monitor main 127.0.0.1 {port} 2\nsentinel auth-pass main secret\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000"
        ))
    };
    let mut sentinels = [(); 3].map(|()| watch(primary.port, ""));
    let others = |sentinel: &Sentinel| {
        let lines = ask(sentinel.port, "SENTINEL MASTER main");
        let field = |name| {
            let at = lines.iter().position(|line| line == name)?;
            lines.get(at + 2).cloned()
        };
        (field("num-other-sentinels"), field("num-slaves"))
    };
    let known = (Some("2".to_owned()), Some("1".to_owned()));
    until("they know each other", || sentinels.iter().all(|sentinel| others(sentinel) == known));
    // One is stopped, one is gone.
    signal_to(&sentinels[0].child, SIGSTOP);
    let hosts = |all: &[Sentinel]| {
        let hosts = all.iter().map(|it| format!("127.0.0.1:{}", it.port));
        hosts.collect::<Vec<_>>().join(",")
    };
    let url = format!("redis+sentinel://:secret@127.0.0.1:1,{}/main", hosts(&sentinels));
    let remote = Remote::builder().connect(&url).unwrap();
    let guard = remote.locks().lock("a").wait().unwrap();
    let board = remote.actors::<Board>("board").message::<Add>("add").open().unwrap();
    let board = board.of("eu").unwrap();
    assert_eq!(board.ask(Add(1)).wait(), Ok(1));
    let offset = |server: &Server| info(server, "master_repl_offset:");
    until("the replica has all", || offset(&primary) == offset(&replica));
    let killed = Instant::now();
    primary.kill();
    assert_eq!(board.ask(Add(2)).within(Duration::from_secs(25)).wait(), Ok(3));
    println!("back after {:?}", killed.elapsed());
    assert_eq!(info(&replica, "role:").as_deref(), Some("master"));
    assert!(!guard.is_lost());
    assert_eq!(guard.release().wait(), Ok(()));
    // A Sentinel may have a password of its own, if that is the servers'.
    let locked = [watch(replica.port, "requirepass secret\n")];
    let url = format!("redis+sentinel://:secret@{}/main", hosts(&locked));
    let alone = Remote::connect(&url).unwrap();
    assert!(alone.locks().try_lock("a").wait().is_ok());
    sentinels[0].child.kill().unwrap();
}
