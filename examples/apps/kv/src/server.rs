//! All connections: accepts them, counts their commands, and ends them.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::session::Session;
use crate::store::Store;
use crate::table::Table;

/// Counters for display. No other memory is read through them, so all accesses are relaxed.
#[derive(Debug, Default)]
pub struct Figures {
    pub commands: AtomicU64,
    pub connections: AtomicUsize,
    /// Connections since the server began.
    pub accepted: AtomicU64,
}

impl Figures {
    pub(crate) fn ran(&self, commands: u64) {
        self.commands.fetch_add(commands, Relaxed);
    }
}

/// Counts a connection while it exists, however it ends.
struct Connected(Arc<Figures>);

impl Connected {
    fn new(figures: &Arc<Figures>) -> Self {
        figures.connections.fetch_add(1, Relaxed);
        figures.accepted.fetch_add(1, Relaxed);
        Connected(figures.clone())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// The time after which clients that do not take their last replies are dropped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves until `stop` is ready. Then it accepts no connection, runs and answers the commands that
/// were read, and closes all connections.
///
/// # Errors
/// `stop` has failed.
pub async fn serve<T: Table>(
    listener: TcpListener,
    store: Arc<Store<T>>,
    figures: Arc<Figures>,
    stop: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let (tell, stopping) = watch::channel(false);
    let mut sessions = JoinSet::new();
    tokio::pin!(stop);
    let stopped = loop {
        tokio::select! {
            stopped = &mut stop => break stopped,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let connected = Connected::new(&figures);
                    let session = Session::new(store.clone(), figures.clone(), stream);
                    let stopping = stopping.clone();
                    sessions.spawn(async move {
                        let _connected = connected;
                        // A failed connection affects no other one.
                        drop(session.run(stopping).await);
                    });
                }
                // For example, no descriptor is free.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = sessions.join_next() => {}
        }
    };
    drop(listener);
    tell.send_replace(true);
    let all = async { while sessions.join_next().await.is_some() {} };
    drop(timeout(PATIENCE, all).await);
    sessions.shutdown().await;
    stopped
}
