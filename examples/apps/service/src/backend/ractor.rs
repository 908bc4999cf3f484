//! Ractor: an actor for each session, and one for the cache.
//!
//! Its mailboxes have no bound: each session has a count beside it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use dashmap::{DashMap, Entry};
use ractor::concurrency::oneshot;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, RpcReplyPort};
use tokio::time::timeout;

use super::{Backend, found};
use crate::shop::{Ask, Basket, Found, Id, Product, Refused, Shelf, Shop, Sku, View};

pub(crate) struct Ractor {
    shop: Arc<Shop>,
    sessions: Arc<Sessions>,
    cache: ActorRef<Wish>,
}

type Sessions = DashMap<Id, Session>;

struct Session {
    actor: ActorRef<Message>,
    /// Messages that run or wait; it grows under the lock of the entry (B1).
    waiting: Arc<AtomicUsize>,
}

enum Message {
    Ask(Ask, RpcReplyPort<Result<View, Refused>>),
    /// Ends the session if it was idle for long enough.
    Check,
}

struct SessionActor;

struct State {
    id: Id,
    basket: Basket,
    used: Instant,
    waiting: Arc<AtomicUsize>,
    shop: Arc<Shop>,
    sessions: Arc<Sessions>,
}

impl Actor for SessionActor {
    type Msg = Message;
    type State = State;
    type Arguments = State;

    async fn pre_start(
        &self,
        me: ActorRef<Message>,
        state: State,
    ) -> Result<State, ActorProcessingErr> {
        me.send_after(state.shop.bounds.idle, || Message::Check);
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Ask(ask, reply) => {
                // Otherwise the request no longer waits.
                if !reply.is_closed() {
                    let view = state.shop.turn_caught(&mut state.basket, &ask);
                    state.used = Instant::now();
                    let _ = reply.send(view);
                }
                state.waiting.fetch_sub(1, Relaxed);
            }
            Message::Check => {
                let left = state.shop.bounds.idle.saturating_sub(state.used.elapsed());
                let nothing_waits = |_: &Id, _: &Session| state.waiting.load(Relaxed) == 0;
                if left.is_zero() && state.sessions.remove_if(&state.id, nothing_waits).is_some() {
                    me.stop(None);
                } else {
                    me.send_after(left.max(Duration::from_millis(1)), || Message::Check);
                }
            }
        }
        Ok(())
    }
}

enum Wish {
    Get(Sku, RpcReplyPort<Found>),
    Loaded(Sku, Found),
}

struct CacheActor(Arc<Shop>);

struct Cache {
    shelf: Shelf,
    loading: HashMap<Sku, Vec<RpcReplyPort<Found>>>,
}

impl Actor for CacheActor {
    type Msg = Wish;
    type State = Cache;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Wish>, (): ()) -> Result<Cache, ActorProcessingErr> {
        Ok(Cache { shelf: Shelf::new(&self.0.bounds), loading: HashMap::new() })
    }

    async fn handle(
        &self,
        me: ActorRef<Wish>,
        wish: Wish,
        state: &mut Cache,
    ) -> Result<(), ActorProcessingErr> {
        match wish {
            Wish::Get(sku, reply) => {
                let at_hand = state.shelf.get(sku);
                if at_hand.is_some() {
                    let _ = reply.send(at_hand);
                    return Ok(());
                }
                let askers = state.loading.entry(sku).or_default();
                askers.push(reply);
                if askers.len() == 1 {
                    let shop = self.0.clone();
                    tokio::spawn(async move {
                        let loaded = shop.load(sku).await;
                        let _ = me.cast(Wish::Loaded(sku, loaded));
                    });
                }
            }
            Wish::Loaded(sku, loaded) => {
                state.shelf.put(sku, &loaded);
                for asker in state.loading.remove(&sku).unwrap_or_default() {
                    let _ = asker.send(loaded.clone());
                }
            }
        }
        Ok(())
    }
}

impl Ractor {
    /// Sends a message to a session's actor, under the lock of its entry (B1).
    fn leave(&self, id: Id, ask: Ask, port: RpcReplyPort<Result<View, Refused>>) -> Left {
        if let Some(session) = self.sessions.get(&id) {
            return self.send(&session, ask, port);
        }
        if matches!(ask, Ask::Look) {
            return Err(Refused::NoSession);
        }
        match self.sessions.entry(id) {
            Entry::Occupied(entry) => self.send(entry.get(), ask, port),
            Entry::Vacant(entry) => {
                let waiting = Arc::new(AtomicUsize::new(0));
                let state = State {
                    id: entry.key().clone(),
                    basket: self.shop.basket()?,
                    used: Instant::now(),
                    waiting: waiting.clone(),
                    shop: self.shop.clone(),
                    sessions: self.sessions.clone(),
                };
                let spawned = ActorRuntime::spawn_instant(None, SessionActor, state);
                let (actor, _) = spawned.map_err(|_| Refused::Broken)?;
                self.send(&entry.insert(Session { actor, waiting }), ask, port)
            }
        }
    }

    fn send(&self, to: &Session, ask: Ask, port: RpcReplyPort<Result<View, Refused>>) -> Left {
        if to.waiting.fetch_add(1, Relaxed) > self.shop.bounds.waiting {
            to.waiting.fetch_sub(1, Relaxed);
            return Err(Refused::Busy);
        }
        to.actor.cast(Message::Ask(ask, port)).map_err(|_| Refused::Ending)
    }
}

type Left = Result<(), Refused>;

impl Backend for Ractor {
    fn new(shop: Arc<Shop>) -> Self {
        let spawned = ActorRuntime::spawn_instant(None, CacheActor(shop.clone()), ());
        // Only a name could be taken, and the actor has none.
        let (cache, _) = spawned.expect("an actor without a name");
        Ractor { shop, sessions: Arc::default(), cache }
    }

    async fn ask(&self, id: Id, ask: Ask) -> Result<View, Refused> {
        let (port, answer) = oneshot();
        self.leave(id, ask, port.into())?;
        let answer = timeout(self.shop.bounds.wait, answer).await;
        answer.map_err(|_| Refused::TimedOut)?.map_err(|_| Refused::Ending)?
    }

    async fn product(&self, sku: Sku) -> Result<Arc<Product>, Refused> {
        let (port, answer) = oneshot();
        self.cache.cast(Wish::Get(sku, port.into())).map_err(|_| Refused::Ending)?;
        let answer = timeout(self.shop.bounds.wait, answer).await;
        found(answer.map_err(|_| Refused::TimedOut)?.map_err(|_| Refused::Ending)?)
    }

    async fn end(&self, limit: Duration) -> bool {
        let ended = async {
            self.sessions.iter().for_each(|session| session.actor.stop(None));
            self.sessions.clear();
            self.shop.seats.all_free().await;
        };
        timeout(limit, ended).await.is_ok()
    }
}
