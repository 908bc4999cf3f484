//! What a client keeps of its requests for places of admissions.
//!
//! - T1: a request has one application, which all that work for it share. The last one that lets go
//!   of it tells the store, once; so nothing is reserved that nobody has here, and nobody waits
//!   twice.
//! - T2: the answer "not in" is certain: copies of its request that may be on their way are refused
//!   by the store before the answer is given.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::client::Client;
use crate::error::StoreError;
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
    /// It changes when there may be news.
    news: watch::Sender<()>,
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
    /// It has a place reserved, by this machine's clock until then. The client keeps it, or it ends
    /// with its lease.
    Holds { until: Moment, fence: u64, kept: bool },
}

/// The applications of a client, by their tokens; and the admissions at which somebody keeps some.
#[derive(Default)]
pub(crate) struct Applications {
    all: HashMap<Token, Weak<Application>>,
    kept: HashSet<String>,
}

impl Applications {
    /// Who has to look again.
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
    /// Has a step of an admission done. Also said: may requests of it be on their way yet?
    pub(crate) async fn call_admission(
        &self,
        op: &Op,
        until: Instant,
    ) -> (Result<AdmissionAnswer, StoreError>, bool) {
        let (answer, late) = self.call(op, until).await;
        let answer = answer.and_then(|answer| match answer {
            Answer::Admission(answer) => Ok(answer),
            other => {
                Err(StoreError::WrongStore { needs: format!("an admission's answer: {other:?}") })
            }
        });
        (answer, late)
    }
}

impl Application {
    /// The application of a new request.
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
            news: watch::Sender::new(()),
            phase: Mutex::new(Phase::Plain),
        });
        let token = application.claim.token.clone();
        client.applications().all.insert(token, Arc::downgrade(&application));
        application
    }

    /// Has a step of its token done.
    pub(crate) async fn send(
        &self,
        act: AdmissionAct,
        until: Instant,
    ) -> Result<AdmissionAnswer, StoreError> {
        self.sent.by(self.client.call_admission(&self.admission.op(act), until)).await
    }

    /// What gives it up, and whether requests of it may be on their way.
    pub(crate) fn cancel(&self) -> (AdmissionAct, bool) {
        let late = self.sent.is_late();
        (AdmissionAct::Cancel { claim: self.claim.clone(), late }, late)
    }

    /// There is nothing to say to the store any more.
    pub(crate) fn is_over(&self) {
        *self.phase() = Phase::Plain;
        self.sent.ends();
    }

    pub(crate) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    pub(crate) fn wake(&self) {
        self.news.send_replace(());
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        // Nothing that can panic is done under it.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has a queue entry: that is kept from now on.
    pub(crate) fn waits(&self, busy: Duration) {
        *self.phase() = Phase::Waits;
        self.is_kept(busy);
    }

    /// It waits no more.
    pub(crate) fn waits_no_more(&self) {
        *self.phase() = Phase::Plain;
    }

    /// It has a place until then, or as long as the client keeps it.
    pub(crate) fn holds(&self, until: Moment, fence: u64, kept: bool) {
        *self.phase() = Phase::Holds { until, fence, kept };
        if kept {
            self.is_kept(Duration::MAX);
        }
    }

    /// So long its reservation lasts at least.
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

    /// What the store has said to a step that was sent then, of a place, or of a queue entry (0).
    fn stands(&self, standing: Standing, sent: Moment, asked: u64) {
        let mut phase = self.phase();
        match (&mut *phase, standing) {
            (Phase::Waits, Standing::Holds | Standing::Nowhere) => self.wake(),
            (Phase::Holds { until, kept: true, .. }, Standing::Holds) if asked != 0 => {
                *until = sent.and(self.client.lease());
            }
            // What is said of a queue entry says nothing of the place that has come since.
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
                // If the store does not hear it, the queue entry or the lease runs out by itself.
                let _ = client.call(&op, client.patience()).await;
            });
        }
    }
}

/// Keeps the queue entries and the reservations that a client has at an admission, by one step for
/// all, until there are none.
async fn keep(client: Weak<Client>, admission: AdmissionKey, mut busy: Duration) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let third = strong.place().min(strong.lease()) / 3;
        drop(strong);
        // The end of somebody's lease needs no notice.
        let pause = third.min(busy.saturating_add(Duration::from_millis(1))).max(SHORTEST / 2);
        sleep_until(after(pause)).await;
        let Some(client) = client.upgrade() else { return };
        let borrows = client.business.under_way();
        // Dropped after the lock of the applications is: the last of one takes that lock.
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
                // Under the lock: the next one begins anew.
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
            // Those who wait ask themselves, and hear what is wrong. Those who hold have clocks.
            _ => {
                let waiting = applications.filter(|(_, asked)| *asked == 0);
                waiting
                    .filter_map(|(application, _)| application)
                    .for_each(|application| application.wake());
            }
        }
    }
}
