//! Workers, which drain mailboxes that are due.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout_at;
use turnwise::{Promise, Reply, promise};

use super::drain::{self, Until};
use super::error::MessageError;
use super::inbox::{Inbox, Shard};
use super::kind::Kind;
use crate::client::Client;
use crate::client::Owned;
use crate::step::{MailboxAct, MailboxAnswer};
use crate::time::{SHORTEST, after};

/// The time for which a mailbox that a worker has taken is not offered to others, and after which a
/// worker whose executor has ended takes another one.
const GRIP: Duration = Duration::from_secs(2);

/// Workers of a kind of actors: see [`Actors::work`](crate::Actors::work). Dropping them stops
/// them: running drains go on to their ends, and no other is begun. A failed attempt ends a drain,
/// so that others are drained in the pause before the next one.
#[must_use = "dropping them stops the workers"]
pub struct Workers {
    stop: watch::Sender<bool>,
    ended: Option<Reply<()>>,
    /// Keeps the client while they work.
    _client: Owned,
}

impl Workers {
    pub(super) fn start<S>(client: &Owned, kind: &Arc<Kind<S>>, at_a_time: usize) -> Self
    where
        S: Serialize + DeserializeOwned + Default + Send + 'static,
    {
        let stop = watch::Sender::new(false);
        let (promise, ended) = promise();
        // Kept when the last worker drops it.
        let ending = Arc::new(Ending(Some(promise)));
        let at_a_time = at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(at_a_time));
        for shard in kind.shards.clone() {
            let (client, kind) = (Arc::clone(client), kind.clone());
            let (free, stopped, ending) = (free.clone(), stop.subscribe(), ending.clone());
            let io = client.io.clone();
            io.spawn(work(client, kind, shard, free, stopped, ending));
        }
        Workers { stop, ended: Some(ended), _client: client.clone() }
    }

    /// Stops them. The reply comes when the last drain has ended.
    pub fn stop(mut self) -> Reply<()> {
        self.stop.send_replace(true);
        // `Some` until here.
        self.ended.take().unwrap_or_else(|| promise().1)
    }

    /// Blocks this thread while they work, which is as long as the program runs.
    pub fn wait(mut self) {
        if let Some(ended) = self.ended.take() {
            let _ = ended.wait();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

/// Fulfils the promise when the last worker drops it.
struct Ending(Option<Promise<()>>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(promise) = self.0.take() {
            promise.keep(());
        }
    }
}

/// Drains due mailboxes of a shard until it is stopped.
async fn work<S>(
    client: Arc<Client>,
    kind: Arc<Kind<S>>,
    shard: Shard,
    free: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
    ending: Arc<Ending>,
) where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
{
    let mut inbox = Inbox::open(&client, client.token());
    // The mailbox of a dead drainer is found half a lease after its end at the latest.
    let longest = (kind.settings.lease / 2).max(SHORTEST);
    while !*stopped.borrow() {
        let permit = tokio::select! {
            biased;
            permit = free.clone().acquire_owned() => permit,
            _ = stopped.changed() => return,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { return };
        inbox.mark_read();
        let act = MailboxAct::Due {
            worker: inbox.token().clone(),
            alive: longest * 2,
            most: 1,
            grip: GRIP,
        };
        let due = shard.step(&client, act, client.patience()).await.0;
        let pause = match due {
            Ok(MailboxAnswer::Due { mut actors, next }) => match actors.pop() {
                Some(actor) => {
                    let (client, kind, ending) = (client.clone(), kind.clone(), ending.clone());
                    let mut stopped = stopped.clone();
                    client.clone().io.spawn(async move {
                        if let Ok(Ok(held)) = drain::claim(&client, &kind, &actor).await
                            && let Err(_) | Ok(Err(MessageError::ExecutorGone)) =
                                kind.drain(held, Until::empty_or_failed()).await
                        {
                            // It is due again. Other processes may have an executor that runs it.
                            let _ = timeout_at(after(GRIP), stopped.wait_for(|is| *is)).await;
                        }
                        drop((permit, ending));
                    });
                    continue;
                }
                None => {
                    let later = kind.unknown.later();
                    let next = next.map(|next| next.max(SHORTEST / 2).saturating_add(later));
                    next.map_or(longest, |next| next.min(longest))
                }
            },
            // The store does not answer. The step is repeated.
            _ => longest.min(Duration::from_secs(1)),
        };
        drop(permit);
        tokio::select! {
            biased;
            () = inbox.changed(after(pause)) => {}
            _ = stopped.changed() => return,
        }
    }
}
