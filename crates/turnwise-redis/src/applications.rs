//! A client's requests for places of admissions.
//!
//! - APPLICATIONS-1: a request has one application, shared by all that work for it. Dropping the
//!   last reference reports the end to the store, once. So no place stays reserved without an owner
//!   here, and no request waits twice.
//! - APPLICATIONS-2: the answer "not in" is certain: before it is given, the store has been made to
//!   refuse copies of the request that may be on their way.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::client::Client;
use crate::error::StoreError;
use crate::news::News;
use crate::sent::Sent;
use crate::step::{
    AdmissionAct, AdmissionAnswer, AdmissionStep, Answer, Claim, Notice, Op, Standing, Step, Token,
};
use crate::time::{Moment, SHORTEST, after};

/// A request, until it is given up.
pub(crate) struct Application {
    pub(crate) client: Arc<Client>,
    admission: AdmissionKey,
    pub(crate) claim: Claim,
    sent: Sent,
    pub(crate) news: News,
    phase: Mutex<Phase>,
}

/// An admission in the store.
#[derive(Clone)]
pub(crate) struct AdmissionKey {
    pub(crate) key: String,
    pub(crate) limit: u64,
}

#[derive(Clone, Copy)]
enum Phase {
    /// It asks, or has its answer.
    Plain,
    /// It has a queue entry.
    Waits,
    /// It has a reserved place, until this moment of this machine's clock. If `kept`, the client
    /// renews the lease; otherwise the reservation ends with it.
    Holds { until: Moment, fence: u64, kept: bool },
}

/// A client's applications by their tokens, in order, and the admissions that have a task which
/// keeps entries.
#[derive(Default)]
pub(crate) struct Applications {
    all: BTreeMap<Token, Weak<Application>>,
    kept: HashSet<String>,
}

impl Applications {
    /// Returns the applications that have to check their state.
    pub(crate) fn noticed(&self, notice: &Notice) -> Vec<Arc<Application>> {
        match notice {
            Notice::Granted(token) | Notice::Lost(token) => {
                self.all.get(token).and_then(Weak::upgrade).into_iter().collect()
            }
            Notice::LookAgain => self.all.values().filter_map(Weak::upgrade).collect(),
        }
    }
}

impl AdmissionKey {
    pub(crate) fn op(&self, act: AdmissionAct) -> Op {
        let step = Step::Admission(AdmissionStep { limit: self.limit, act });
        Op { key: self.key.clone(), places: 1, above: 0, step }
    }
}

impl Client {
    /// Sends a step of an admission. Also returns whether copies of it may still be on their way.
    pub(crate) async fn call_admission(
        &self,
        op: &Op,
        until: Instant,
    ) -> (Result<AdmissionAnswer, StoreError>, bool) {
        let (answer, late) = self.call(op, until).await;
        (answer.and_then(of_admission), late)
    }
}

/// Returns an admission's answer.
pub(crate) fn of_admission(answer: Answer) -> Result<AdmissionAnswer, StoreError> {
    match answer {
        Answer::Admission(answer) => Ok(answer),
        other => Err(StoreError::WrongStore { needs: format!("an admission's answer: {other:?}") }),
    }
}

impl Application {
    /// Creates the application of a new request.
    pub(crate) fn take(
        client: &Arc<Client>,
        admission: &AdmissionKey,
        applicant: &str,
    ) -> Arc<Application> {
        let claim = Claim { token: client.token(), applicant: applicant.to_owned() };
        let application = Arc::new(Application {
            client: client.clone(),
            admission: admission.clone(),
            claim,
            sent: Sent::default(),
            news: News::default(),
            phase: Mutex::new(Phase::Plain),
        });
        let token = application.claim.token.clone();
        client.applications().all.insert(token, Arc::downgrade(&application));
        application
    }

    /// Sends a step that makes its token known to the store.
    pub(crate) async fn send(
        &self,
        act: AdmissionAct,
        until: Instant,
    ) -> Result<AdmissionAnswer, StoreError> {
        self.sent.by(self.client.call_admission(&self.admission.op(act), until)).await
    }

    /// Returns the step that withdraws it, and whether copies of its requests may be on their way.
    pub(crate) fn cancel(&self) -> (AdmissionAct, bool) {
        let late = self.sent.is_late();
        (AdmissionAct::Cancel { claim: self.claim.clone(), late }, late)
    }

    /// Marks it as complete: the store need not learn of the end.
    pub(crate) fn is_over(&self) {
        *self.phase() = Phase::Plain;
        self.sent.ends();
    }

    pub(crate) fn wake(&self) {
        self.news.tell();
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        // No code that can panic runs under this lock.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks it as queued. The client keeps its queue entry from now on.
    pub(crate) fn waits(&self, busy: Duration) {
        *self.phase() = Phase::Waits;
        self.is_kept(busy);
    }

    /// Marks it as no longer queued.
    pub(crate) fn waits_no_more(&self) {
        *self.phase() = Phase::Plain;
    }

    /// Marks a place as reserved until then, or as long as the client keeps it.
    pub(crate) fn holds(&self, until: Moment, fence: u64, kept: bool) {
        *self.phase() = Phase::Holds { until, fence, kept };
        if kept {
            self.is_kept(Duration::MAX);
        }
    }

    /// Returns the time that its reservation lasts at least.
    pub(crate) fn remaining(&self) -> Duration {
        match *self.phase() {
            Phase::Holds { until, .. } => until.remaining(),
            _ => Duration::ZERO,
        }
    }

    fn is_kept(&self, busy: Duration) {
        if self.client.applications().kept.insert(self.admission.key.clone()) {
            let client = Arc::downgrade(&self.client);
            self.client.io.spawn(keep(client, self.admission.clone(), busy));
        }
    }

    /// Applies what the store answered to a step sent at that time, about a place or a queue entry
    /// (0).
    fn stands(&self, standing: Standing, sent: Moment, asked: u64) {
        let mut phase = self.phase();
        match (&mut *phase, standing) {
            (Phase::Waits, Standing::Holds | Standing::Nowhere) => self.wake(),
            (Phase::Holds { until, kept: true, .. }, Standing::Holds) if asked != 0 => {
                *until = sent.and(self.client.lease());
            }
            // An answer about a queue entry says nothing about a place that was granted since.
            (Phase::Holds { .. }, Standing::Nowhere) if asked != 0 => *phase = Phase::Plain,
            _ => {}
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.client.applications().all.remove(&self.claim.token);
        if self.sent.ends() {
            let (client, op) = (self.client.clone(), self.admission.op(self.cancel().0));
            self.client.spawn(async move {
                // If the store does not receive it, the queue entry or the lease expires.
                let _ = client.call(&op, client.patience()).await;
            });
        }
    }
}

/// Keeps a client's queue entries and reservations at an admission, with one step for all, until
/// there are none.
async fn keep(client: Weak<Client>, admission: AdmissionKey, mut busy: Duration) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let third = strong.place().min(strong.lease()) / 3;
        drop(strong);
        // The end of another client's lease sends no notice.
        let pause = third.min(busy.saturating_add(Duration::from_millis(1))).max(SHORTEST / 2);
        sleep_until(after(pause)).await;
        let Some(client) = client.upgrade() else { return };
        let borrows = client.business.under_way();
        // Dropped after the lock of the applications: dropping the last reference takes that lock.
        let all: Vec<Arc<Application>>;
        let (kept, claims): (Vec<_>, Vec<_>) = {
            let mut applications = client.applications();
            all = applications.all.values().filter_map(Weak::upgrade).collect();
            let here = all.iter().filter(|application| application.admission.key == admission.key);
            let kept = here.filter_map(|application| {
                let fence = match *application.phase() {
                    Phase::Waits => 0,
                    Phase::Holds { fence, kept: true, .. } => fence,
                    _ => return None,
                };
                Some((Arc::downgrade(application), (application.claim.clone(), fence)))
            });
            let kept: (Vec<_>, Vec<_>) = kept.unzip();
            if kept.0.is_empty() {
                // Under the lock, so that the next application starts a new task.
                applications.kept.remove(&admission.key);
            }
            kept
        };
        drop(all);
        drop(borrows);
        if kept.is_empty() {
            return;
        }
        let (lease, alive) = (client.lease(), client.place());
        let fences: Vec<_> = claims.iter().map(|(_, fence)| *fence).collect();
        let (sent, op) = (Moment::now(), admission.op(AdmissionAct::Keep { claims, lease, alive }));
        let answer = client.call_admission(&op, after(lease.min(alive))).await.0;
        let _borrows = client.business.under_way();
        let applications = kept.iter().map(Weak::upgrade).zip(fences);
        busy = Duration::MAX;
        match answer {
            Ok(AdmissionAnswer::Standings { standings, busy: left }) => {
                for ((application, asked), standing) in applications.zip(standings) {
                    busy = if asked == 0 { left } else { busy };
                    if let Some(application) = application {
                        application.stands(standing, sent, asked);
                    }
                }
            }
            // Waiters ask again, and get the error themselves. Holders have their leases' ends.
            _ => {
                let waiting = applications.filter(|(_, asked)| *asked == 0);
                waiting
                    .filter_map(|(application, _)| application)
                    .for_each(|application| application.wake());
            }
        }
    }
}
