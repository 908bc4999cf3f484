//! Looks at a system, one after the other: numbers that stay, and times between looks.
//!
//! The snapshot of a system has no times, for a clock in each turn would cost more than the turn.
//! So a time here is between the first and the last of the looks that have found the matter the
//! same: right to the distance of two looks, and never too long.

use std::collections::HashMap;
use std::process;
use std::time::Duration;

use turnwise::snapshot::{Activity, ActorSnapshot, SystemSnapshot};

use crate::address::program;
use crate::wire::{Actor, Counts, Snapshot, VERSION, WaitsFor, millis};

/// An actor, as it is remembered from the last look at which it was there.
struct Known {
    number: u64,
    /// It is in the system, under this name.
    name: Option<String>,
    handled: Option<u64>,
    /// Since when it is busy.
    busy: Option<Duration>,
    /// The actor that it waits for, and since when.
    waits: Option<(u64, Duration)>,
    /// The look that has found it last.
    look: u64,
}

pub(crate) struct Looks {
    program: String,
    /// The number of looks.
    looks: u64,
    last_number: u64,
    /// By the id that turnwise gives them, which is given again after the end of an actor.
    known: HashMap<u64, Known>,
}

impl Looks {
    pub(crate) fn new() -> Self {
        Looks { program: program(), looks: 0, last_number: 0, known: HashMap::new() }
    }

    /// Compares the system with the looks before. `now` is the time since the first of them.
    pub(crate) fn look(&mut self, system: SystemSnapshot, now: Duration) -> Snapshot {
        self.looks += 1;
        let actors = system.actors.into_iter().map(|actor| self.actor(actor, now)).collect();
        let look = self.looks;
        self.known.retain(|_, known| known.look == look);
        Snapshot {
            version: VERSION,
            program: self.program.clone(),
            pid: process::id(),
            at_ms: millis(now),
            shut_down: system.shut_down,
            discarded: system.discarded,
            actors,
            sources: Vec::new(),
        }
    }

    /// The entry of an actor; `None` as its name: it is waited for, and may be of another system.
    fn known(&mut self, id: u64, name: Option<&str>) -> &mut Known {
        let (look, last_number) = (self.looks, &mut self.last_number);
        let known = self.known.entry(id).or_insert_with(|| Known::new(last_number));
        if let Some(name) = name {
            match &known.name {
                // Another actor, in the memory of one that has ended.
                Some(before) if before != name => *known = Known::new(last_number),
                _ => {}
            }
            known.name.get_or_insert_with(|| name.to_owned());
        }
        known.look = look;
        known
    }

    fn actor(&mut self, actor: ActorSnapshot, now: Duration) -> Actor {
        let handled = actor.stats.map(|stats| stats.handled);
        let waits_for = actor.waits_for.map(|id| self.known(id, None).number);
        let known = self.known(actor.id, Some(&actor.name));
        let is_busy = !matches!(actor.activity, Activity::Idle | Activity::Ended);
        // After another message it is another turn, with a wait of its own.
        if known.handled != handled {
            (known.busy, known.waits, known.handled) = (None, None, handled);
        }
        known.busy = is_busy.then_some(known.busy.unwrap_or(now));
        known.waits = waits_for.map(|number| match known.waits {
            Some((before, since)) if before == number => (number, since),
            _ => (number, now),
        });
        let lasts = |since: Duration| millis(now.saturating_sub(since));
        Actor {
            number: known.number,
            busy_ms: known.busy.map(lasts),
            waits_for: known.waits.map(|(number, since)| WaitsFor { number, for_ms: lasts(since) }),
            name: actor.name,
            activity: actor.activity.to_string(),
            queued: actor.queued,
            capacity: actor.capacity,
            waiting_for_room: actor.waiting_for_room,
            closed: actor.closed,
            stopped: actor.stopped.map(|cause| cause.to_string()),
            discarded: actor.discarded,
            counts: actor.stats.map(|stats| Counts {
                handled: stats.handled,
                panicked: stats.panicked,
                restarted: stats.restarted,
                refused: stats.refused,
                undelivered: stats.undelivered,
                handed_off: stats.handed_off,
            }),
        }
    }
}

impl Known {
    fn new(last_number: &mut u64) -> Self {
        *last_number += 1;
        let number = *last_number;
        Known { number, name: None, handled: None, busy: None, waits: None, look: 0 }
    }
}

#[cfg(test)]
mod tests {
    use turnwise::executor::DrainQueue;
    use turnwise::{Actor, System};

    use super::*;

    #[test]
    fn an_actor_is_busy_since_the_look_after_its_last_message() {
        let second = Duration::from_secs(1);
        let (queue, system, mut looks) = (DrainQueue::new(), System::new(), Looks::new());
        let builder = Actor::builder().counted(true).executor(queue.handle());
        let actor = system.spawn(builder, 0).unwrap();
        let mut busy = |at: u32| looks.look(system.snapshot(), second * at).actors[0].busy_ms;
        assert_eq!(busy(0), None);
        actor.send(|n| *n += 1).unwrap();
        assert_eq!([busy(1), busy(2), busy(4)], [Some(0), Some(1_000), Some(3_000)]);
        queue.run_until_idle();
        assert_eq!(busy(5), None);
        actor.send(|n| *n += 1).unwrap();
        assert_eq!([busy(6), busy(7)], [Some(0), Some(1_000)]);
        queue.run_until_idle();
        // Busy again at the next look, after a message in between.
        actor.send(|n| *n += 1).unwrap();
        assert_eq!([busy(8), busy(9)], [Some(0), Some(1_000)]);
        queue.run_until_idle();
    }

    #[test]
    fn a_wait_begins_after_the_last_message() {
        let second = Duration::from_secs(1);
        let (queue, system, mut looks) = (DrainQueue::new(), System::new(), Looks::new());
        let builder = Actor::builder().counted(true).executor(queue.handle());
        let actor = system.spawn(builder, 0).unwrap();
        let _other = system.actor(0).unwrap();
        let mut waits = |at: u32| {
            let mut snapshot = system.snapshot();
            snapshot.actors[0].waits_for = Some(snapshot.actors[1].id);
            looks.look(snapshot, second * at).actors[0].waits_for.as_ref().unwrap().for_ms
        };
        actor.send(|n| *n += 1).unwrap();
        assert_eq!([waits(1), waits(2)], [0, 1_000]);
        queue.run_until_idle();
        actor.send(|n| *n += 1).unwrap();
        assert_eq!([waits(3), waits(4)], [0, 1_000]);
        queue.run_until_idle();
    }

    #[test]
    fn numbers_stay_and_are_not_given_again() {
        let (system, mut looks) = (System::new(), Looks::new());
        let mut numbers = || -> Vec<u64> {
            let snapshot = looks.look(system.snapshot(), Duration::ZERO);
            snapshot.actors.iter().map(|actor| actor.number).collect()
        };
        let first = system.actor(1).unwrap();
        let second = system.actor(2).unwrap();
        assert_eq!(numbers(), [1, 2]);
        drop(first);
        assert_eq!(numbers(), [2]);
        // It may have the memory, and so the id, of the first.
        let _third = system.actor(3).unwrap();
        assert_eq!(numbers(), [2, 3]);
        drop(second);
    }

    #[test]
    fn an_actor_in_the_memory_of_another_has_a_number_of_its_own() {
        let mut looks = Looks::new();
        let mut number = |name| looks.known(7, name).number;
        assert_eq!([number(None), number(Some("one")), number(Some("one"))], [1, 1, 1]);
        assert_eq!([number(Some("two")), number(None)], [2, 2]);
    }
}
