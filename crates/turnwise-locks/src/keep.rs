//! Keys that stay for a while after their last use.
//!
//! The chain of kept entries of a shard is in the order of their ends, as each stays for the same
//! time. One timer is armed for the first of them, and none while there is none: a key that is used
//! again and again arms nothing. What the timer does is to post one message; so no user code runs
//! on the thread of the timers. The message takes out of the chain what is due: it counts a use of
//! it, and leaves a turn in its mailbox that ends the state and the use. A use that begins
//! meanwhile keeps the state.
//!
//! - KEEP-1: `armed` is set under the lock of the shard by the one that finds it unset, and then
//!   arms a timer; it is unset by the message that finds nothing kept.
//! - KEEP-2: what waits for a key's end holds the registry weakly, and takes hold of it on a thread
//!   that may drop it.
//! - KEEP-3: a use writes down that the key is used, but for the one that is to end it: so the turn
//!   that ends a key sees whether it was used, and over, since that turn was sent. Then the key is
//!   kept anew.

use std::mem::needs_drop;
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnwise::Actor;

use crate::registry::{Guard, KeyUse, Kind, Place, Registry};
use crate::table::Hashed;
use crate::user_code::ignore;

/// The number of keys that end in one turn of the keeper.
const AT_ONCE: usize = 64;

pub(crate) struct Keeper {
    /// Nanoseconds.
    time: u64,
    /// The actor that looks for keys that are due.
    actor: Actor<()>,
}

impl Keeper {
    pub(crate) fn new(time: Duration) -> Self {
        Keeper { time: nanoseconds(time), actor: Actor::new(()) }
    }

    pub(crate) fn until(&self, now: Duration) -> u64 {
        nanoseconds(now).saturating_add(self.time)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<K: Send + Sync + 'static, S: Send + 'static> Registry<K, S> {
    /// Arms a timer for a shard (KEEP-1).
    pub(crate) fn arm(&self, shard: usize, due: u64) {
        let Some(keeper) = &self.keeper else { return };
        let (me, actor) = (self.me.clone(), keeper.actor.clone());
        let ring = move || drop(actor.posted().send(move |()| end(&me, shard)));
        let timer = self.time.timers().at(Duration::from_nanos(due), ring);
        let mut keys = self.lock(shard);
        let before = if keys.closed { Some(timer) } else { keys.timer.replace(timer) };
        let closed = keys.closed;
        drop(keys);
        if let Some(timer) = before.filter(|_| closed) {
            timer.cancel();
        }
    }
}

/// Ends what is due in a shard. A turn of the keeper.
pub(crate) fn end<K, S>(registry: &Weak<Registry<K, S>>, shard: usize)
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    let Some(registry) = registry.upgrade() else { return };
    let Some(keeper) = &registry.keeper else { return };
    let now = nanoseconds(registry.time.now());
    let (mut due, mut gone, mut next) = (Vec::new(), Vec::new(), None);
    {
        let mut keys = registry.lock(shard);
        if keys.closed {
            return;
        }
        for _ in 0..AT_ONCE {
            let Some(at) = keys.table.first_kept() else { break };
            let entry = keys.table.get(at);
            if *entry.due() > now {
                break;
            }
            if needs_drop::<S>() || registry.has_end_hook() {
                let place = Place { hash: entry.hash(), at };
                let end = *entry.due();
                let entry = keys.add_use(at, Kind::Key);
                // KEEP-3.
                *entry.due() = end;
                due.push((place, entry.actor().clone()));
            } else {
                keys.table.unkeep(at);
                gone.push(keys.table.remove(at));
            }
        }
        match keys.table.first_kept() {
            Some(at) => next = Some(*keys.table.get(at).due()),
            None => keys.armed = false,
        }
    }
    for entry in gone {
        ignore(|| drop(entry));
    }
    for (place, actor) in due {
        let key_use = KeyUse::last(registry.clone(), place);
        drop(actor.send(move |slot| key_use.finish(slot)));
    }
    match next {
        Some(due) if due <= now => {
            let me = Arc::downgrade(&registry);
            drop(keeper.actor.posted().send(move |()| end(&me, shard)));
        }
        Some(due) => registry.arm(shard, due),
        None => {}
    }
}
