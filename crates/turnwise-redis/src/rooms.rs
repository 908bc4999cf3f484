//! What a client keeps of its requests: their seats, and the rooms in which they wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use turnwise_locks::Owner;

use crate::lock::{Hold, keep};
use crate::remote::{Client, SHORTEST, after};
use crate::step::{Answer, Notice, Op, Standing, Step, Token};

/// A request, until it is given up: in the queue, or holding.
///
/// - R1: whoever asks or holds by a token has its seat. The last one that lets go of it tells the
///   store, once; so nothing is held that nobody holds here, and nobody waits twice.
pub(crate) struct Seat {
    pub(crate) client: Arc<Client>,
    pub(crate) key: String,
    /// How many may hold at once.
    places: u32,
    pub(crate) token: Token,
    /// The store knows the token, perhaps.
    sent: AtomicBool,
    /// Requests of it may be on their way although answers have come.
    late: AtomicBool,
    /// How many have no answer yet. One whose asker is gone has none for ever.
    asked: AtomicUsize,
    /// It changes when there may be news.
    news: watch::Sender<()>,
    /// What its askers share, once it is granted.
    pub(crate) hold: Mutex<Weak<Hold>>,
}

/// Seats by their tokens, and those who wait by their locks.
#[derive(Default)]
pub(crate) struct Rooms {
    seats: HashMap<Token, Weak<Seat>>,
    owners: HashMap<(Owner, String), Weak<Seat>>,
    waiting: HashMap<String, Vec<Token>>,
    pub(crate) holds: HashMap<Token, Weak<Hold>>,
    /// When they are looked at next. None: there are none.
    pub(crate) kept_at: Option<Instant>,
}

/// Who has to look, or has lost.
#[derive(Default)]
pub(crate) struct Woken {
    seats: Vec<Arc<Seat>>,
    lost: Vec<Arc<Seat>>,
}

impl Woken {
    /// Not under the lock of the rooms.
    pub(crate) fn wake(self) {
        self.seats.iter().for_each(|seat| seat.wake());
        self.lost.iter().filter_map(|seat| seat.holding()).for_each(|hold| hold.lose());
    }
}

impl Rooms {
    pub(crate) fn noticed(&self, notice: &Notice) -> Woken {
        let seat = |token| self.seats.get(token).and_then(Weak::upgrade);
        let mut woken = Woken::default();
        match notice {
            Notice::Granted(token) => woken.seats.extend(seat(token)),
            Notice::Lost(token) => woken.lost.extend(seat(token)),
            Notice::LookAgain => {
                woken.seats.extend(self.waiting.values().flatten().filter_map(seat));
            }
        }
        woken
    }
}

impl Seat {
    /// The seat of a new request; of an owner who has one, that.
    pub(crate) fn take(
        client: &Arc<Client>,
        key: &str,
        places: u32,
        owner: Option<&Owner>,
    ) -> Arc<Seat> {
        let mut rooms = client.rooms();
        let of = owner.map(|owner| (owner.clone(), key.to_owned()));
        if let Some(seat) = of.as_ref().and_then(|of| rooms.owners.get(of)?.upgrade()) {
            return seat;
        }
        let seat = Arc::new(Seat {
            client: client.clone(),
            key: key.to_owned(),
            places,
            token: client.token(),
            sent: AtomicBool::new(false),
            late: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
            news: watch::Sender::new(()),
            hold: Mutex::default(),
        });
        rooms.seats.insert(seat.token.clone(), Arc::downgrade(&seat));
        if let Some(of) = of {
            rooms.owners.retain(|_, seat| seat.strong_count() > 0);
            rooms.owners.insert(of, Arc::downgrade(&seat));
        }
        seat
    }

    /// A step for its object.
    pub(crate) fn op(&self, step: Step) -> Op {
        self.client.op(self.key.clone(), self.places, step)
    }

    /// Sends a step of its token, that the store will know it by.
    pub(crate) fn begins(&self) {
        self.sent.store(true, Relaxed);
        // Until its answer has come.
        self.asked.fetch_add(1, Relaxed);
    }

    /// The answer to a step has come; copies of it may be on their way.
    pub(crate) fn answered(&self, late: bool) {
        self.late.fetch_or(late, Relaxed);
        self.asked.fetch_sub(1, Relaxed);
    }

    /// May requests of it be on their way?
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Relaxed) || self.asked.load(Relaxed) > 0
    }

    /// A hold of it has begun, and lasts until then at least: the client keeps it.
    pub(crate) fn keep(&self, hold: &Arc<Hold>, until: Instant) {
        let mut rooms = self.client.rooms();
        rooms.holds.insert(self.token.clone(), Arc::downgrade(hold));
        match rooms.kept_at {
            Some(next) if next <= until => {}
            Some(_) => self.client.changed.notify_one(),
            None => {
                rooms.kept_at = Some(until);
                let (client, changed) = (Arc::downgrade(&self.client), self.client.changed.clone());
                self.client.io.spawn(keep(client, changed));
            }
        }
    }

    /// A hold of it is over.
    pub(crate) fn keep_no_more(&self) {
        let mut rooms = self.client.rooms();
        // Another one may have begun.
        if rooms.holds.get(&self.token).is_some_and(|hold| hold.strong_count() == 0) {
            rooms.holds.remove(&self.token);
        }
    }

    pub(crate) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    fn wake(&self) {
        self.news.send_replace(());
    }

    /// What it holds, if it does.
    pub(crate) fn holding(&self) -> Option<Arc<Hold>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// It waits: its place is refreshed from now on.
    pub(crate) fn waits(&self, busy: Duration) {
        let mut rooms = self.client.rooms();
        let first = !rooms.waiting.contains_key(&self.key);
        let room = rooms.waiting.entry(self.key.clone()).or_default();
        if !room.contains(&self.token) {
            room.push(self.token.clone());
        }
        drop(rooms);
        if first {
            let client = Arc::downgrade(&self.client);
            self.client.io.spawn(refresh(client, self.key.clone(), self.places, busy));
        }
    }

    /// It waits no more.
    pub(crate) fn stands_up(&self) {
        let mut rooms = self.client.rooms();
        if let Some(room) = rooms.waiting.get_mut(&self.key) {
            room.retain(|token| *token != self.token);
        }
    }

    /// What tells the store that it is given up.
    pub(crate) fn leaving(&self) -> Option<Op> {
        let step = Step::Leave { token: self.token.clone(), late: self.is_late() };
        // Once.
        self.sent.swap(false, Relaxed).then(|| self.op(step))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stands_up();
        self.client.rooms().seats.remove(&self.token);
        if let Some(op) = self.leaving() {
            let client = self.client.clone();
            self.client.spawn(async move {
                let until = client.patience();
                // If the store does not hear it, the place or the lease runs out by itself.
                let _ = client.call(&op, until).await;
            });
        }
    }
}

/// Refreshes the places of all who wait for a lock, by one step, until nobody does.
async fn refresh(client: Weak<Client>, key: String, places: u32, mut busy: Duration) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let third = strong.place() / 3;
        drop(strong);
        // The end of the holder's lease needs no notice.
        let pause = third.min(busy + Duration::from_millis(1)).max(SHORTEST / 2);
        sleep_until(after(pause)).await;
        let Some(client) = client.upgrade() else { return };
        let tokens = {
            let mut rooms = client.rooms();
            let tokens = rooms.waiting.get(&key).cloned().unwrap_or_default();
            if tokens.is_empty() {
                // Under the lock: the next one who waits begins anew.
                rooms.waiting.remove(&key);
                return;
            }
            tokens
        };
        let step = Step::Refresh { tokens: tokens.clone(), alive: client.place() };
        let until = after(client.place());
        let answer = client.call(&client.op(key.clone(), places, step), until).await.0;
        let moved: Vec<_> = match answer {
            Ok(Answer::Standings { standings, busy: left }) => {
                busy = left;
                let all = standings.iter().zip(tokens);
                let moved = all.filter(|(standing, _)| **standing != Standing::Queued);
                moved.map(|(_, token)| token).collect()
            }
            // All ask anew, and hear of it.
            _ => {
                busy = third;
                tokens
            }
        };
        let _borrows = client.business.under_way();
        let rooms = client.rooms();
        let seats = moved.iter().filter_map(|token| rooms.seats.get(token)?.upgrade());
        let seats: Vec<_> = seats.collect();
        drop(rooms);
        seats.iter().for_each(|seat| seat.wake());
    }
}
