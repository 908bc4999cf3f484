//! Sources: rows that the program adds itself, from stores and queues that no [`System`] knows.
//!
//! - THREAD: each source has a thread of its own, which calls it with no lock held. One that blocks
//!   or is slow keeps that thread, and neither the server nor another source: its last report
//!   stays, and grows old.
//! - ASKED: a source is called again [`PACE`] after its last call, and ten times as long as that
//!   took, up to [`LONGEST`], if a client has asked since then; otherwise after [`IDLE`]. So a
//!   store that is not watched is left alone.
//! - PANIC: a source that panics is dropped, and not called again.
//! - SIZE: a report is cut to [`ROWS`] rows of each kind and texts of [`LETTERS`] characters.
//!
//! [`System`]: turnwise::System

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::wire::{Report, Source, millis};

/// The least time between two calls.
const PACE: Duration = Duration::from_secs(1);
/// The longest time between two calls that clients wait for.
const LONGEST: Duration = Duration::from_secs(5);
/// The time between two calls that no client asks for.
const IDLE: Duration = Duration::from_secs(10);
/// The longest that the end of a server waits for its sources.
const PATIENCE: Duration = Duration::from_millis(500);
/// The most actors of a report, and the most dead letters.
const ROWS: usize = 1_000;
/// The most characters of a text.
const LETTERS: usize = 200;

/// The sources of a server.
#[derive(Clone, Default)]
pub(crate) struct Sources(Arc<Mutex<Vec<Arc<Watched>>>>);

impl Sources {
    /// Starts a source's thread.
    pub(crate) fn add<E: Display>(
        &self,
        name: String,
        source: impl FnMut() -> Result<Report, E> + Send + 'static,
    ) -> io::Result<()> {
        let watched = Arc::new(Watched::new(name));
        let shared = Arc::clone(&watched);
        let thread = thread::Builder::new().name("turnwise-top-source".to_owned());
        thread.spawn(move || shared.run(source))?;
        lock(&self.0).push(watched);
        Ok(())
    }

    /// Returns the last reports, to a client that asks.
    pub(crate) fn reports(&self, now: Instant) -> Vec<Source> {
        lock(&self.0).iter().map(|watched| watched.report(now)).collect()
    }

    /// Ends their threads, and waits until they have dropped what they hold; not for those that are
    /// in a call for longer.
    pub(crate) fn end(&self) {
        let all = mem::take(&mut *lock(&self.0));
        all.iter().for_each(|watched| watched.end());
        let deadline = Instant::now() + PATIENCE;
        all.iter().for_each(|watched| watched.await_end(deadline));
    }
}

/// A source, as its thread and the server share it.
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Its last report; `age_ms` is not kept there.
    source: Source,
    /// The time at which it was taken.
    at: Instant,
    /// The time at which a client has asked last.
    asked: Option<Instant>,
    /// The server has ended.
    is_over: bool,
    /// The thread has dropped the source.
    is_gone: bool,
}

impl Watched {
    fn new(name: String) -> Self {
        let mut source = Source { name, ..Source::default() };
        cut(&mut source.name);
        let (asked, is_over, is_gone) = (None, false, false);
        let state = State { source, at: Instant::now(), asked, is_over, is_gone };
        Watched { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn report(&self, now: Instant) -> Source {
        let mut state = lock(&self.state);
        state.asked = Some(now);
        self.changed.notify_all();
        let age_ms = millis(now.saturating_duration_since(state.at));
        Source { age_ms, ..state.source.clone() }
    }

    fn end(&self) {
        lock(&self.state).is_over = true;
        self.changed.notify_all();
    }

    fn await_end(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let waits = |state: &mut State| !state.is_gone;
        drop(self.changed.wait_timeout_while(lock(&self.state), left, waits));
    }

    /// The source's thread.
    fn run<E: Display>(&self, mut source: impl FnMut() -> Result<Report, E>) {
        let mut busy = Busy::default();
        loop {
            let begun = Instant::now();
            let mut call = || source().map_err(|error| error.to_string());
            let said = catch_unwind(AssertUnwindSafe(&mut call)).map_err(panicked);
            let now = Instant::now();
            let panicked = said.is_err();
            self.take(said.and_then(|said| said), &mut busy, now);
            let pause = ((now - begun) * 10).clamp(PACE, LONGEST);
            if panicked || !self.is_due(begun, now + pause, now + IDLE) {
                break;
            }
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(source))) {
            panicked(payload);
        }
        lock(&self.state).is_gone = true;
        self.changed.notify_all();
    }

    /// Stores what a call has returned. After a failure the rows stay, and their age.
    fn take(&self, said: Result<Report, String>, busy: &mut Busy, now: Instant) {
        let said = said.map(|mut report| {
            limit(&mut report);
            busy.mark(&mut report, now);
            report
        });
        let mut state = lock(&self.state);
        match said {
            Ok(report) => {
                state.at = now;
                state.source.failure = None;
                state.source.report = report;
            }
            Err(mut failure) => {
                cut(&mut failure);
                state.source.failure = Some(failure);
            }
        }
    }

    /// Waits for the next call, which is at `due` if a client has asked since the last one had
    /// begun. False: the server has ended.
    fn is_due(&self, begun: Instant, due: Instant, idle: Instant) -> bool {
        let mut state = lock(&self.state);
        loop {
            if state.is_over {
                return false;
            }
            let at = if state.asked > Some(begun) { due } else { idle };
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Since when each actor of a source is busy: as far as its reports say.
#[derive(Default)]
struct Busy(HashMap<String, Instant>);

impl Busy {
    fn mark(&mut self, report: &mut Report, now: Instant) {
        let mut before = mem::take(&mut self.0);
        for actor in &mut report.actors {
            actor.busy_ms = None;
            if actor.running || actor.queued > 0 {
                let since = before.remove(&actor.name).unwrap_or(now);
                let since = *self.0.entry(actor.name.clone()).or_insert(since);
                actor.busy_ms = Some(millis(now.saturating_duration_since(since)));
            }
        }
    }
}

/// Cuts a report to the size that clients read.
fn limit(report: &mut Report) {
    let left = |all: usize| all.saturating_sub(ROWS) as u64;
    let left_out = left(report.actors.len()) + left(report.dead_letters.len());
    report.left_out = report.left_out.saturating_add(left_out);
    report.actors.truncate(ROWS);
    report.dead_letters.truncate(ROWS);
    report.actors.iter_mut().for_each(|actor| cut(&mut actor.name));
    for letter in &mut report.dead_letters {
        let texts = [&mut letter.actor, &mut letter.id, &mut letter.message, &mut letter.error];
        texts.into_iter().for_each(cut);
    }
}

fn cut(text: &mut String) {
    if let Some((at, _)) = text.char_indices().nth(LETTERS) {
        text.truncate(at);
        text.push_str("..");
    }
}

/// The text of a panic, whose payload may panic once more when it is dropped.
fn panicked(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = format!("panicked: {}", text.unwrap_or("without a text"));
    catch_unwind(AssertUnwindSafe(|| drop(payload))).unwrap_or_else(mem::forget);
    text
}

/// No code of users runs while one of these is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::StoredActor;

    #[test]
    fn an_actor_is_busy_for_as_long_as_reports_find_it_so() {
        let (begun, mut busy) = (Instant::now(), Busy::default());
        let mut at = |second, queued, running| {
            let mut report = Report::default();
            for name in ["eu", "us"] {
                let mut actor = StoredActor::new(name);
                (actor.queued, actor.running) =
                    if name == "eu" { (queued, running) } else { (0, false) };
                report.actors.push(actor);
            }
            busy.mark(&mut report, begun + Duration::from_secs(second));
            assert_eq!(report.actors[1].busy_ms, None);
            report.actors[0].busy_ms
        };
        assert_eq!(
            [at(0, 0, false), at(1, 3, false), at(2, 3, true)],
            [None, Some(0), Some(1_000)]
        );
        assert_eq!([at(4, 0, true), at(5, 0, false)], [Some(3_000), None]);
        assert_eq!(at(6, 1, false), Some(0));
    }

    #[test]
    fn a_source_that_panics_is_called_once_and_dropped_in_peace() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("a drop");
            }
        }
        let (watched, bomb) = (Watched::new("boards".to_owned()), Bomb);
        watched.run(move || -> Result<Report, &str> {
            let _kept = &bomb;
            panic!("a call")
        });
        let state = lock(&watched.state);
        assert!(state.is_gone);
        assert_eq!(state.source.failure.as_deref(), Some("panicked: a call"));
    }

    #[test]
    fn a_source_is_called_soon_only_if_a_client_has_asked() {
        let watched = Watched::new("boards".to_owned());
        let begun = Instant::now();
        let (past, far) = (begun, begun + Duration::from_secs(3_600));
        // It does not wait for the hour, and would without the client.
        watched.report(begun + Duration::from_millis(1));
        assert!(watched.is_due(begun, past, far));
        // Asked for before its last call: it is due when it is idle.
        assert!(watched.is_due(begun + Duration::from_millis(1), far, past));
        watched.end();
        assert!(!watched.is_due(begun, past, past));
    }
}
