//! Tasks with channels: one for each session, and one for the cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dashmap::{DashMap, Entry};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{Backend, found};
use crate::shop::{Ask, Basket, Found, Id, Product, Refused, Shelf, Shop, Sku, View};

pub(crate) struct Mpsc {
    shop: Arc<Shop>,
    sessions: Arc<Sessions>,
    cache: mpsc::UnboundedSender<Wish>,
}

type Sessions = DashMap<Id, mpsc::Sender<Message>>;

struct Message {
    ask: Ask,
    reply: oneshot::Sender<Result<View, Refused>>,
}

/// A message to the cache. There are no more of them than requests in flight.
enum Wish {
    Get(Sku, oneshot::Sender<Found>),
    Loaded(Sku, Found),
}

impl Mpsc {
    /// Sends a message to a session's task, under the lock of its entry (B1).
    fn leave(&self, id: Id, message: Message) -> Result<(), Refused> {
        if let Some(session) = self.sessions.get(&id) {
            return session.try_send(message).map_err(refused);
        }
        if matches!(message.ask, Ask::Look) {
            return Err(Refused::NoSession);
        }
        match self.sessions.entry(id) {
            Entry::Occupied(entry) => entry.get().try_send(message).map_err(refused),
            Entry::Vacant(entry) => {
                let (sender, receiver) = mpsc::channel(self.shop.bounds.waiting.max(1));
                let (basket, id) = (self.shop.basket()?, entry.key().clone());
                let (shop, sessions) = (self.shop.clone(), self.sessions.clone());
                tokio::spawn(session(id, basket, receiver, shop, sessions));
                entry.insert(sender).try_send(message).map_err(refused)
            }
        }
    }
}

fn refused<T>(error: TrySendError<T>) -> Refused {
    match error {
        TrySendError::Full(_) => Refused::Busy,
        TrySendError::Closed(_) => Refused::Ending,
    }
}

async fn session(
    id: Id,
    mut basket: Basket,
    mut messages: mpsc::Receiver<Message>,
    shop: Arc<Shop>,
    sessions: Arc<Sessions>,
) {
    loop {
        match timeout(shop.bounds.idle, messages.recv()).await {
            // The request no longer waits.
            Ok(Some(message)) if message.reply.is_closed() => {}
            Ok(Some(message)) => {
                let _ = message.reply.send(shop.turn_caught(&mut basket, &message.ask));
            }
            Ok(None) => return,
            Err(_) => {
                if sessions.remove_if(&id, |_, _| messages.is_empty()).is_some() {
                    return;
                }
            }
        }
    }
}

async fn cache(
    me: mpsc::WeakUnboundedSender<Wish>,
    mut wishes: mpsc::UnboundedReceiver<Wish>,
    shop: Arc<Shop>,
) {
    let mut shelf = Shelf::new(&shop.bounds);
    let mut loading = HashMap::<Sku, Vec<oneshot::Sender<Found>>>::new();
    while let Some(wish) = wishes.recv().await {
        match wish {
            Wish::Get(sku, reply) => {
                let at_hand = shelf.get(sku);
                if at_hand.is_some() {
                    let _ = reply.send(at_hand);
                    continue;
                }
                let askers = loading.entry(sku).or_default();
                askers.push(reply);
                if askers.len() == 1 {
                    let (shop, me) = (shop.clone(), me.clone());
                    tokio::spawn(async move {
                        let loaded = shop.load(sku).await;
                        me.upgrade().map(|me| me.send(Wish::Loaded(sku, loaded)));
                    });
                }
            }
            Wish::Loaded(sku, loaded) => {
                shelf.put(sku, &loaded);
                for asker in loading.remove(&sku).unwrap_or_default() {
                    let _ = asker.send(loaded.clone());
                }
            }
        }
    }
}

impl Backend for Mpsc {
    fn new(shop: Arc<Shop>) -> Self {
        let (sender, wishes) = mpsc::unbounded_channel();
        tokio::spawn(cache(sender.downgrade(), wishes, shop.clone()));
        Mpsc { shop, sessions: Arc::default(), cache: sender }
    }

    async fn ask(&self, id: Id, ask: Ask) -> Result<View, Refused> {
        let (reply, answer) = oneshot::channel();
        self.leave(id, Message { ask, reply })?;
        let answer = timeout(self.shop.bounds.wait, answer).await;
        answer.map_err(|_| Refused::TimedOut)?.map_err(|_| Refused::Ending)?
    }

    async fn product(&self, sku: Sku) -> Result<Arc<Product>, Refused> {
        let (reply, answer) = oneshot::channel();
        self.cache.send(Wish::Get(sku, reply)).map_err(|_| Refused::Ending)?;
        let answer = timeout(self.shop.bounds.wait, answer).await;
        found(answer.map_err(|_| Refused::TimedOut)?.map_err(|_| Refused::Ending)?)
    }

    async fn end(&self, limit: Duration) -> bool {
        self.sessions.clear();
        timeout(limit, self.shop.seats.all_free()).await.is_ok()
    }
}
