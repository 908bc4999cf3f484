//! All actors of a system, as of one look.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::registry::SystemShared;
use super::snapshot::ActorSnapshot;
use super::system::System;
use crate::cell::stats::Stats;
use crate::thread::waits_for::WaitSnapshot;

/// The actors of a [`System`], as they were one after the other: [`System::snapshot`].
///
/// It prints as a table, and has the fields for tables of other forms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemSnapshot {
    /// In the order in which they were spawned.
    pub actors: Vec<ActorSnapshot>,
    /// True if the system has been shut down.
    pub shut_down: bool,
    /// Messages that were [discarded](ActorSnapshot::discarded), by actors that have ended too.
    pub discarded: u64,
}

impl System {
    /// All actors that have not ended, with what each is doing. Each is looked at for itself,
    /// without holding it up: stale on return. Takes a short lock, one that waits inside of turns
    /// take, and one for each actor that is counted.
    ///
    /// Actors that wait for each other in a circle lead back to themselves by
    /// [`waits_for`](ActorSnapshot::waits_for). A circle that no limit opens is an error for one of
    /// them and gone at once ([`Cycle`](crate::Cycle)); one that stays costs a limit each time.
    ///
    /// # Examples
    /// ```
    /// use turnwise::executor::DrainQueue;
    /// use turnwise::snapshot::Activity;
    /// use turnwise::{Actor, System};
    ///
    /// let queue = DrainQueue::new();
    /// let system = System::new();
    /// let till = Actor::builder().name("till").counted(true).executor(queue.handle());
    /// let till = system.spawn(till, 0)?;
    /// let log = system.spawn(Actor::builder().name("log"), Vec::<u32>::new())?;
    /// till.send(|n| *n += 1)?;
    ///
    /// let snapshot = system.snapshot();
    /// assert_eq!(snapshot.actors[0].activity, Activity::Scheduled);
    /// assert_eq!(snapshot.actors[0].queued, 1);
    /// assert_eq!(
    ///     snapshot.to_string(),
    ///     "\
    /// actor  doing       queued    room   handled  panicked   refused      lost
    /// till   scheduled        1       0         0         0         0         0
    /// log    idle             0       0         -         -         -         0
    /// "
    /// );
    /// # queue.run_until_idle();
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn snapshot(&self) -> SystemSnapshot {
        SystemSnapshot::of(self.shared())
    }

    /// A view of this system for what only looks at it, on another thread above all. Wait-free.
    ///
    /// # Examples
    /// ```
    /// use turnwise::System;
    ///
    /// let system = System::new();
    /// let log = system.actor(Vec::<u32>::new())?;
    /// let view = system.view();
    /// assert_eq!(view.snapshot().actors.len(), 1);
    /// drop(system); // the view is no handle: the actor is stopped
    /// assert!(log.send(|log| log.push(1)).is_err());
    /// assert!(view.snapshot().shut_down);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn view(&self) -> SystemView {
        SystemView(self.shared().clone())
    }
}

/// Looks at the actors of a [`System`] without being a handle of it: [`System::view`].
///
/// The drop of the system's last handle stops its actors, however many views there are.
#[derive(Clone)]
pub struct SystemView(Arc<SystemShared>);

impl SystemView {
    /// See [`System::snapshot`].
    pub fn snapshot(&self) -> SystemSnapshot {
        SystemSnapshot::of(&self.0)
    }
}

impl fmt::Debug for SystemView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemView").field("actors", &self.0.len()).finish_non_exhaustive()
    }
}

impl SystemSnapshot {
    fn of(system: &SystemShared) -> Self {
        // Without the lock: what an actor is asked is not under it.
        let members = system.members();
        let waits = WaitSnapshot::look();
        SystemSnapshot {
            actors: members
                .iter()
                .map(|member| member.cell())
                .map(|cell| ActorSnapshot::of(cell.header(), cell.addr(), waits.of(cell.addr())))
                .collect(),
            shut_down: !system.is_open(),
            discarded: system.discarded(),
        }
    }
}

/// The widest that a name is shown.
const WIDEST: usize = 40;

/// A user's text in one line: control characters are escaped.
fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.push(char);
        }
    }
    line
}

/// A name in this many columns: the end of a path says more than its beginning.
fn shortened(name: &str) -> String {
    let name = in_one_line(name);
    let length = name.chars().count();
    if length <= WIDEST {
        return name;
    }
    let end: String = name.chars().skip(length + 2 - WIDEST).collect();
    format!("..{end}")
}

/// One line for each actor. `room`: senders that wait for room; `lost`: messages that were
/// accepted, not handled, and discarded. What is not counted is a dash.
impl fmt::Display for SystemSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.actors.iter().map(|actor| shortened(&actor.name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
        let of_counts = ["handled", "panicked", "refused", "lost"];
        write!(f, "{:<width$}  {:<10}{:>8}{:>8}", "actor", "doing", "queued", "room")?;
        of_counts.iter().try_for_each(|title| write!(f, "{title:>10}"))?;
        writeln!(f)?;
        for (actor, name) in self.actors.iter().zip(names) {
            let ActorSnapshot { activity, queued, waiting_for_room: room, stats, .. } = actor;
            write!(f, "{name:<width$}  {activity:<10}{queued:>8}{room:>8}")?;
            let counts = |count: fn(&Stats) -> u64| match stats {
                Some(stats) => count(stats).to_string(),
                None => "-".to_owned(),
            };
            for shown in [counts(|s| s.handled), counts(|s| s.panicked), counts(|s| s.refused)] {
                write!(f, "{shown:>10}")?;
            }
            write!(f, "{:>10}", actor.discarded)?;
            match &actor.stopped {
                Some(cause) => write!(f, "  stopped: {}", in_one_line(&cause.to_string()))?,
                None if actor.closed => f.write_str("  closed")?,
                None => {}
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
