//! Kameo: an actor for each session, and one for the cache.

use std::collections::HashMap;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use dashmap::{DashMap, Entry};
use kameo::error::Infallible;
use kameo::prelude::*;
use tokio::time::timeout;

use super::{Backend, found};
use crate::shop::{Ask, Basket, Found, Id, Product, Refused, Shelf, Shop, Sku, View};

pub(crate) struct Kameo {
    shop: Arc<Shop>,
    sessions: Arc<Sessions>,
    cache: ActorRef<Cache>,
}

type Sessions = DashMap<Id, ActorRef<Session>>;

struct Session {
    id: Id,
    basket: Basket,
    used: Instant,
    shop: Arc<Shop>,
    sessions: Arc<Sessions>,
}

/// A message that ends the session if it was idle for long enough.
struct Check;

impl Actor for Session {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(session: Self, me: ActorRef<Self>) -> Result<Self, Infallible> {
        me.tell(Check).send_after(session.shop.bounds.idle);
        Ok(session)
    }

    async fn on_panic(
        &mut self,
        _: WeakActorRef<Self>,
        _: PanicError,
    ) -> Result<ControlFlow<ActorStopReason>, Infallible> {
        self.shop.renew(&mut self.basket);
        Ok(ControlFlow::Continue(()))
    }
}

impl Message<Ask> for Session {
    type Reply = Result<View, Infallible>;

    async fn handle(&mut self, ask: Ask, _: &mut Context<Self, Self::Reply>) -> Self::Reply {
        let view = self.shop.turn(&mut self.basket, &ask);
        self.used = Instant::now();
        Ok(view)
    }
}

impl Message<Check> for Session {
    type Reply = ();

    async fn handle(&mut self, _: Check, context: &mut Context<Self, ()>) {
        let left = self.shop.bounds.idle.saturating_sub(self.used.elapsed());
        let nothing_waits = |_: &Id, me: &mut ActorRef<Self>| {
            let mailbox = me.mailbox_sender();
            mailbox.capacity() == mailbox.max_capacity()
        };
        // Under the lock of its entry (B1).
        let ends = left.is_zero() && {
            let removed = self.sessions.remove_if_mut(&self.id, nothing_waits);
            removed.is_some()
        };
        if ends {
            context.stop();
        } else {
            context.actor_ref().tell(Check).send_after(left.max(Duration::from_millis(1)));
        }
    }
}

#[derive(Actor)]
struct Cache {
    shop: Arc<Shop>,
    shelf: Shelf,
    loading: HashMap<Sku, Vec<ReplySender<Result<Found, Infallible>>>>,
}

struct Get(Sku);
struct Loaded(Sku, Found);

impl Message<Get> for Cache {
    type Reply = DelegatedReply<Result<Found, Infallible>>;

    async fn handle(
        &mut self,
        Get(sku): Get,
        context: &mut Context<Self, Self::Reply>,
    ) -> Self::Reply {
        let at_hand = self.shelf.get(sku);
        if at_hand.is_some() {
            return context.reply(Ok(at_hand));
        }
        let (delegated, reply) = context.reply_sender();
        let askers = self.loading.entry(sku).or_default();
        askers.extend(reply);
        if askers.len() == 1 {
            let (shop, me) = (self.shop.clone(), context.actor_ref().clone());
            tokio::spawn(async move {
                let loaded = shop.load(sku).await;
                let _ = me.tell(Loaded(sku, loaded)).send().await;
            });
        }
        delegated
    }
}

impl Message<Loaded> for Cache {
    type Reply = ();

    async fn handle(&mut self, Loaded(sku, loaded): Loaded, _: &mut Context<Self, ()>) {
        self.shelf.put(sku, &loaded);
        for asker in self.loading.remove(&sku).unwrap_or_default() {
            asker.send(Ok(loaded.clone()));
        }
    }
}

impl Kameo {
    fn session(&self, id: &Id, makes: bool) -> Result<ActorRef<Session>, Refused> {
        if let Some(session) = self.sessions.get(id) {
            return Ok(session.clone());
        }
        if !makes {
            return Err(Refused::NoSession);
        }
        match self.sessions.entry(id.clone()) {
            Entry::Occupied(entry) => Ok(entry.get().clone()),
            Entry::Vacant(entry) => {
                let (shop, sessions) = (self.shop.clone(), self.sessions.clone());
                let (id, basket) = (id.clone(), shop.basket()?);
                let mailbox = mailbox::bounded(shop.bounds.waiting.max(1));
                let session = Session { id, basket, used: Instant::now(), shop, sessions };
                Ok(entry.insert(Session::spawn_with_mailbox(session, mailbox)).clone())
            }
        }
    }
}

fn refused<M, E>(error: SendError<M, E>) -> Refused {
    match error {
        SendError::MailboxFull(_) => Refused::Busy,
        SendError::Timeout(_) => Refused::TimedOut,
        // The turn was cut short by a panic: nothing stops the actor while it is used.
        SendError::ActorStopped => Refused::Broken,
        _ => Refused::Ending,
    }
}

impl Backend for Kameo {
    fn new(shop: Arc<Shop>) -> Self {
        let shelf = Shelf::new(&shop.bounds);
        let cache = Cache { shop: shop.clone(), shelf, loading: HashMap::new() };
        // It has at most as many messages as there are requests in flight, so it needs no bound.
        let cache = Cache::spawn_with_mailbox(cache, mailbox::unbounded());
        Kameo { shop, sessions: Arc::default(), cache }
    }

    async fn ask(&self, id: Id, ask: Ask) -> Result<View, Refused> {
        let (makes, wait) = (matches!(ask, Ask::Add { .. }), self.shop.bounds.wait);
        loop {
            let session = self.session(&id, makes)?;
            let mut asked = pin!(session.ask(ask.clone()).reply_timeout(wait).try_send());
            // The first poll enqueues the message, under the lock of the entry (B1).
            let left = poll_fn(|context| {
                let entry = self.sessions.get(&id).filter(|entry| entry.id() == session.id());
                Poll::Ready(entry.map(|_locked| asked.as_mut().poll(context)))
            });
            let answer = match left.await {
                Some(Poll::Ready(answer)) => answer,
                Some(Poll::Pending) => asked.await,
                None => continue,
            };
            match answer {
                // The actor took the message out of its mailbox before it ended, and returns it.
                Err(SendError::ActorNotRunning(_)) => {}
                answer => return answer.map_err(refused),
            }
        }
    }

    async fn product(&self, sku: Sku) -> Result<Arc<Product>, Refused> {
        let asked = self.cache.ask(Get(sku)).reply_timeout(self.shop.bounds.wait);
        found(asked.await.map_err(refused)?)
    }

    async fn end(&self, limit: Duration) -> bool {
        let ended = async {
            let sessions: Vec<_> = self.sessions.iter().map(|entry| entry.clone()).collect();
            self.sessions.clear();
            for session in sessions {
                let _ = session.stop_gracefully().await;
            }
            self.shop.seats.all_free().await;
        };
        timeout(limit, ended).await.is_ok()
    }
}
