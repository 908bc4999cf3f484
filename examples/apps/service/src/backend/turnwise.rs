//! Turnwise: a key for each session, and an actor for the cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use turnwise::executor::Tokio;
use turnwise::{Actor, Promise, promise};
use turnwise_locks::{Keyed, Limits, NotStarted, RunError};

use super::{Backend, found};
use crate::shop::{Ask, Basket, Found, Id, Product, Refused, Shelf, Shop, Sku, View};

pub(crate) struct Turnwise {
    shop: Arc<Shop>,
    baskets: Keyed<Id, Option<Basket>>,
    limits: Limits,
    cache: Actor<Cache>,
}

struct Cache {
    shelf: Shelf,
    loading: HashMap<Sku, Vec<Promise<Found>>>,
}

impl Backend for Turnwise {
    fn new(shop: Arc<Shop>) -> Self {
        // Requests run as tasks: a worker that has read a request goes on to the next, even if the
        // basket is in use. Inline, a request takes a fifth less, and the slowest of a hundred wait
        // a quarter longer.
        let baskets = Keyed::builder()
            .default_state()
            .keep_alive(shop.bounds.idle)
            .executor(Tokio::new(Handle::current()))
            .build();
        let cache = Cache { shelf: Shelf::new(&shop.bounds), loading: HashMap::new() };
        let limits = Limits::wait(shop.bounds.wait);
        Turnwise { shop, baskets, limits, cache: Actor::new(cache) }
    }

    async fn ask(&self, id: Id, ask: Ask) -> Result<View, Refused> {
        let shop = self.shop.clone();
        match (self.baskets.info(&id), &ask) {
            (Some(info), _) if info.runs > shop.bounds.waiting => return Err(Refused::Busy),
            (None, Ask::Look) => return Err(Refused::NoSession),
            // A key without a basket would stay for as long as one with a basket.
            (None, Ask::Add { .. }) if shop.seats.are_taken() => return Err(Refused::Full),
            _ => {}
        }
        let turn = move |basket: &mut Option<Basket>| {
            let basket = match basket {
                Some(basket) => basket,
                None if matches!(ask, Ask::Look) => return Err(Refused::NoSession),
                None => basket.insert(shop.basket()?),
            };
            Ok(shop.turn(basket, &ask))
        };
        self.baskets.start(id, self.limits, turn).await.map_err(refused)?
    }

    async fn product(&self, sku: Sku) -> Result<Arc<Product>, Refused> {
        let (shop, cache) = (self.shop.clone(), self.cache.clone());
        // A look-up is too short to suspend a task for it: it waits here, as for a mutex.
        let asked = self.cache.with(|state| {
            let at_hand = state.shelf.get(sku);
            if at_hand.is_some() {
                return Ok(at_hand);
            }
            let (promise, reply) = promise();
            let askers = state.loading.entry(sku).or_default();
            askers.push(promise);
            Err((reply, askers.len() == 1))
        });
        let (reply, first) = match asked.map_err(|_| Refused::Ending)? {
            Ok(at_hand) => return found(at_hand),
            Err(loading) => loading,
        };
        if first {
            tokio::spawn(async move {
                let loaded = shop.load(sku).await;
                let _ = cache.send(move |state| {
                    state.shelf.put(sku, &loaded);
                    let askers = state.loading.remove(&sku).unwrap_or_default();
                    askers.into_iter().for_each(|asker| asker.keep(loaded.clone()));
                });
            });
        }
        let reply = tokio::time::timeout(self.shop.bounds.wait, reply).await;
        found(reply.map_err(|_| Refused::TimedOut)?.map_err(|_| Refused::Ending)?)
    }

    async fn end(&self, limit: Duration) -> bool {
        let baskets = self.baskets.clone();
        spawn_blocking(move || baskets.shutdown(limit).is_complete()).await.unwrap_or(false)
    }
}

fn refused<R>(error: RunError<R>) -> Refused {
    match error {
        RunError::NotStarted(NotStarted::TimedOut { .. }) => Refused::TimedOut,
        RunError::Panicked(_) => Refused::Broken,
        _ => Refused::Ending,
    }
}
