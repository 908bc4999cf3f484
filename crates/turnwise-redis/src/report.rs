//! Reports of ends to the store, sent by the runtime in which a guard is dropped.
//!
//! - REPORT-1: a report is handed to the runtime's connection in the call that makes it. So it goes
//!   before all later steps of that runtime, in one packet with the next one, and wakes no thread.
//! - REPORT-2: a runtime that has not begun to wait for the answer after a few milliseconds may not
//!   be driven any more. The client's thread sends the report then, and also if the runtime ends,
//!   or has no answer after [`PATIENCE`]. The store ignores the second of two reports.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::io::Io;
use crate::user_code::caught;

/// The interval at which reports are checked.
const PAUSE: Duration = Duration::from_millis(2);

/// The time that a runtime has for the answer, once it has begun to wait.
const PATIENCE: Duration = Duration::from_millis(250);

/// A report on its way.
struct Report {
    /// Sends it from the client's thread. `None` once it is answered, or was called.
    instead: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// True if its runtime runs the task that waits for the answer.
    is_driven: AtomicBool,
}

impl Report {
    /// True if its runtime may not be driven any more. `since`: it was looked at first.
    fn is_late(&self, since: Instant) -> bool {
        !self.is_driven.load(Relaxed) || since.elapsed() > PATIENCE
    }

    fn take(&self) -> Option<Box<dyn FnOnce() + Send>> {
        self.instead.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn moves(&self) {
        if let Some(instead) = self.take() {
            instead();
        }
    }
}

/// Owned by the task that waits for the answer, which ends with its runtime.
struct Waits(Arc<Report>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.moves();
    }
}

/// The reports of a client.
pub(crate) struct Reports {
    io: Io,
    sent: Mutex<SentReports>,
}

#[derive(Default)]
struct SentReports {
    /// Those since the last check, which are not late before the next one.
    all: Vec<Weak<Report>>,
    /// True while a task checks them.
    looks: bool,
}

impl Reports {
    pub(crate) fn new(io: &Io) -> Arc<Self> {
        Arc::new(Reports { io: io.clone(), sent: Mutex::default() })
    }

    fn sent(&self) -> MutexGuard<'_, SentReports> {
        // No code of users runs under this lock.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a report from this runtime, which is the current one. The future returns whether the
    /// store has answered; `instead` sends the report from the client's thread.
    pub(crate) fn send(
        self: &Arc<Self>,
        runtime: &Handle,
        sends: impl Future<Output = bool> + Send + 'static,
        instead: impl FnOnce() + Send + 'static,
    ) {
        let mut sends: Pin<Box<dyn Future<Output = bool> + Send>> = Box::pin(sends);
        let instead: Box<dyn FnOnce() + Send> = Box::new(instead);
        let mut context = Context::from_waker(Waker::noop());
        // A store may panic.
        match caught(|| sends.as_mut().poll(&mut context)) {
            Ok(Poll::Ready(true)) => return,
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(false)) | Err(_) => return instead(),
        }
        let (instead, is_driven) = (Mutex::new(Some(instead)), AtomicBool::new(false));
        let report = Arc::new(Report { instead, is_driven });
        let (weak, waits) = (Arc::downgrade(&report), Waits(report));
        runtime.spawn(async move {
            waits.0.is_driven.store(true, Relaxed);
            if sends.await {
                waits.0.take();
            }
        });
        let mut sent = self.sent();
        sent.all.push(weak);
        if !std::mem::replace(&mut sent.looks, true) {
            drop(sent);
            self.io.spawn(look(Arc::downgrade(self)));
        }
    }
}

/// Sends reports that their runtimes do not wait for, or too long, as long as there are any.
async fn look(reports: Weak<Reports>) {
    // Each with the time of its first look, by the clock of these looks.
    let mut sent = Vec::<(Weak<Report>, Instant)>::new();
    loop {
        sleep(PAUSE).await;
        sent.retain(|(report, since)| match report.upgrade() {
            Some(report) if report.is_late(*since) => {
                report.moves();
                false
            }
            report => report.is_some(),
        });
        let Some(reports) = reports.upgrade() else { return };
        let mut reports = reports.sent();
        let now = Instant::now();
        sent.extend(reports.all.drain(..).map(|report| (report, now)));
        if sent.is_empty() {
            reports.looks = false;
            return;
        }
    }
}
