//! Mutexes: a map of them for the sessions, and one around the cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Short, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dashmap::{DashMap, Entry};
use tokio::sync::{Mutex, Semaphore, SetOnce};
use tokio::task::AbortHandle;
use tokio::time::{interval, timeout};

use super::{Backend, found};
use crate::shop::{Ask, Basket, Found, Id, Product, Refused, Shelf, Shop, Sku, View};

pub(crate) struct Mutexes {
    shop: Arc<Shop>,
    sessions: Arc<DashMap<Id, Arc<Session>>>,
    cache: Arc<Short<Cache>>,
    sweeper: AbortHandle,
}

struct Session {
    places: Semaphore,
    basket: Mutex<(Basket, Instant)>,
}

struct Cache {
    shelf: Shelf,
    loading: HashMap<Sku, Arc<SetOnce<Found>>>,
}

fn lock(cache: &Short<Cache>) -> MutexGuard<'_, Cache> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mutexes {
    fn session(&self, id: Id, ask: &Ask) -> Result<Arc<Session>, Refused> {
        if let Some(session) = self.sessions.get(&id) {
            return Ok(session.clone());
        }
        if matches!(ask, Ask::Look) {
            return Err(Refused::NoSession);
        }
        match self.sessions.entry(id) {
            Entry::Occupied(entry) => Ok(entry.get().clone()),
            Entry::Vacant(entry) => {
                let basket = Mutex::new((self.shop.basket()?, Instant::now()));
                let places = Semaphore::new(self.shop.bounds.waiting + 1);
                Ok(entry.insert(Arc::new(Session { places, basket })).clone())
            }
        }
    }
}

impl Backend for Mutexes {
    fn new(shop: Arc<Shop>) -> Self {
        let sessions: Arc<DashMap<Id, Arc<Session>>> = Arc::default();
        let (map, idle) = (sessions.clone(), shop.bounds.idle);
        let sweeper = tokio::spawn(async move {
            let mut ticks = interval((idle / 4).max(Duration::from_millis(1)));
            loop {
                ticks.tick().await;
                // A request in progress has a handle, which it took under the same lock (B1).
                map.retain(|_, session| match Arc::get_mut(session) {
                    Some(session) => session.basket.get_mut().1.elapsed() < idle,
                    None => true,
                });
            }
        });
        let cache = Cache { shelf: Shelf::new(&shop.bounds), loading: HashMap::new() };
        let sweeper = sweeper.abort_handle();
        Mutexes { shop, sessions, cache: Arc::new(Short::new(cache)), sweeper }
    }

    async fn ask(&self, id: Id, ask: Ask) -> Result<View, Refused> {
        let session = self.session(id, &ask)?;
        let _place = session.places.try_acquire().map_err(|_| Refused::Busy)?;
        let locked = timeout(self.shop.bounds.wait, session.basket.lock()).await;
        let mut locked = locked.map_err(|_| Refused::TimedOut)?;
        let (basket, used) = &mut *locked;
        let view = self.shop.turn_caught(basket, &ask);
        *used = Instant::now();
        view
    }

    async fn product(&self, sku: Sku) -> Result<Arc<Product>, Refused> {
        let (loaded, first) = {
            let mut state = lock(&self.cache);
            let at_hand = state.shelf.get(sku);
            if at_hand.is_some() {
                return found(at_hand);
            }
            let known = state.loading.get(&sku).cloned();
            let first = known.is_none();
            (known.unwrap_or_else(|| state.loading.entry(sku).or_default().clone()), first)
        };
        if first {
            let (shop, cache, once) = (self.shop.clone(), self.cache.clone(), loaded.clone());
            tokio::spawn(async move {
                let loaded = shop.load(sku).await;
                let mut state = lock(&cache);
                state.shelf.put(sku, &loaded);
                state.loading.remove(&sku);
                drop(state);
                let _ = once.set(loaded);
            });
        }
        let loaded = timeout(self.shop.bounds.wait, loaded.wait()).await;
        found(loaded.map_err(|_| Refused::TimedOut)?.clone())
    }

    async fn end(&self, limit: Duration) -> bool {
        self.sweeper.abort();
        self.sessions.clear();
        timeout(limit, self.shop.seats.all_free()).await.is_ok()
    }
}
