//! A connection: reads bytes, runs all complete commands, and answers them with one write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::command::{self, Request};
use crate::frame::{Args, Parsed, Parser};
use crate::reply;
use crate::server::Figures;
use crate::store::Store;
use crate::table::Table;

/// The number of bytes that are read at once, and the capacity kept for them.
const READ: usize = 16 * 1024;
/// The number of bytes at which the replies of a long pipeline are written.
const WRITE: usize = 256 * 1024;
/// The maximum length of a command.
const COMMAND: usize = 1024 * 1024 * 1024;
/// The time and the number of bytes for which a client that is being closed may go on sending, so
/// that it gets the reason.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 1024 * 1024);

/// The next step after a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}

pub(crate) struct Session<T> {
    store: Arc<Store<T>>,
    figures: Arc<Figures>,
    stream: TcpStream,
    parser: Parser,
    /// The bytes that were read, and not taken.
    read: Vec<u8>,
    replies: Vec<u8>,
}

impl<T: Table> Session<T> {
    pub(crate) fn new(store: Arc<Store<T>>, figures: Arc<Figures>, stream: TcpStream) -> Self {
        let parser = Parser::default();
        Session { store, figures, stream, parser, read: Vec::new(), replies: Vec::new() }
    }

    /// Runs until the client disconnects or must be closed, or the server stops.
    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        loop {
            self.read.reserve(READ);
            let read = tokio::select! {
                read = self.stream.read_buf(&mut self.read) => read?,
                _ = stopping.wait_for(|stopping| *stopping) => return Ok(()),
            };
            if read == 0 {
                return Ok(());
            }
            if self.answer().await? == Next::End {
                return self.linger().await;
            }
            if self.read.len() > COMMAND {
                return Ok(());
            }
        }
    }

    /// Runs the commands that are complete.
    async fn answer(&mut self) -> io::Result<Next> {
        let (mut taken, mut commands, mut next) = (0, 0, Next::GoOn);
        while next == Next::GoOn {
            let Session { store, parser, read, replies, .. } = self;
            match parser.next(&read[taken..]) {
                Parsed::Command(args, bytes) => {
                    commands += 1;
                    next = run(store, &self.figures, args, replies);
                    taken += bytes;
                }
                Parsed::Empty(bytes) => taken += bytes,
                Parsed::Incomplete => break,
                Parsed::Broken(text) => {
                    reply::error(&text, replies);
                    next = Next::End;
                }
            }
            if self.replies.len() > WRITE {
                self.write().await?;
            }
        }
        self.figures.ran(commands);
        self.read.drain(..taken);
        // Frees memory after a large command.
        if self.read.capacity() > self.read.len().saturating_mul(4).max(4 * READ) {
            self.read.shrink_to(4 * READ);
            self.parser.shrink();
        }
        self.write().await?;
        Ok(next)
    }

    async fn write(&mut self) -> io::Result<()> {
        if !self.replies.is_empty() {
            self.stream.write_all(&self.replies).await?;
            self.replies.clear();
            self.replies.shrink_to(WRITE);
        }
        Ok(())
    }

    /// Closes a connection that the client has not closed. If bytes were left unread, the system
    /// would reset the connection, and the client might never get its last reply.
    async fn linger(mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let (time, bytes) = LINGER;
        let mut left = bytes;
        let rest = async {
            while left > 0 {
                self.read.clear();
                match self.stream.read_buf(&mut self.read).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => left = left.saturating_sub(read),
                }
            }
        };
        // A client that has not closed by then is cut off.
        drop(timeout(time, rest).await);
        Ok(())
    }
}

/// Runs one command.
fn run<T: Table>(
    store: &Arc<Store<T>>,
    figures: &Figures,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Next {
    match command::parse(args, store.clock()) {
        Ok(Request::One(key, op)) => store.one(key, op, out),
        Ok(Request::Many(many)) => store.many(many, args, out),
        Ok(Request::DbSize) => reply::integer(store.len() as i64, out),
        Ok(Request::FlushAll) => {
            // The runtime replaces this thread meanwhile.
            tokio::task::block_in_place(|| store.clear());
            reply::ok(out);
        }
        Ok(Request::Fixed(bytes)) => out.extend_from_slice(bytes),
        Ok(Request::Bulk(bytes)) => reply::bulk(bytes, out),
        Ok(Request::Info) => {
            let text = format!(
                "# Server\r\nserver:turnwise-kv\r\n# Clients\r\nconnected_clients:{}\r\n\
                 # Stats\r\ntotal_commands_processed:{}\r\n# Keyspace\r\nkeys:{},timers:{}\r\n",
                figures.connections.load(Relaxed),
                figures.commands.load(Relaxed),
                store.len(),
                store.clock().alarms(),
            );
            reply::bulk(text.as_bytes(), out);
        }
        Ok(Request::Quit) => {
            reply::ok(out);
            return Next::End;
        }
        Ok(Request::HangUp) => return Next::End,
        Err(text) => reply::error(&text, out),
    }
    Next::GoOn
}
