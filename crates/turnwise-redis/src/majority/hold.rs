//! Holds of a majority, which are renewed until their guards are gone.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout_at;
use turnwise_locks::Fence;

use super::vote::{Rest, VoteRequest, valid};
use crate::attempt::Call;
use crate::business::Handles;
use crate::error::{Effect, ReleaseError, StoreError};
use crate::step::Step;
use crate::tenure::{Lost, Tenure};
use crate::time::{Moment, after};

/// A hold, until it ends.
pub(super) struct MajorityHold {
    request: VoteRequest,
    name: Arc<str>,
    fence: Fence,
    tenure: Arc<Tenure>,
}

impl MajorityHold {
    pub(super) fn begin(
        request: VoteRequest,
        name: Arc<str>,
        fence: u64,
        sent: Moment,
        lease: Duration,
        renewed: bool,
    ) -> Arc<MajorityHold> {
        let io = request.ask.shared.nodes[0].client.io.clone();
        let held = Arc::new(MajorityHold {
            request,
            name,
            fence: Fence::from_number(fence),
            tenure: Tenure::new(valid(sent, lease), renewed),
        });
        io.spawn(keep(Arc::downgrade(&held), lease, sent));
        held
    }
}

/// Confirms a hold anew each third of its lease, requests it at the nodes that do not have it, and
/// marks it as lost when it is over.
async fn keep(held: Weak<MajorityHold>, lease: Duration, sent: Moment) {
    let mut next = sent.and(lease / 3).timer();
    loop {
        let Some(strong) = held.upgrade() else { return };
        let (mut until, renewed) = (strong.tenure.changes(), strong.tenure.is_renewed());
        let over = until.borrow_and_update().timer();
        drop(strong);
        let at = if renewed { next.min(over) } else { over };
        if let Ok(Err(_)) = timeout_at(at, until.changed()).await {
            // The guard is gone.
            return;
        }
        drop(until);
        let Some(strong) = held.upgrade() else { return };
        if strong.tenure.is_lost() {
            return strong.tenure.lose();
        }
        // The renewal must not keep the hold.
        let shared = strong.request.ask.shared.clone();
        let now = Moment::now();
        let end = after(shared.answer).min(over);
        let (token, fence) = (strong.request.token.clone(), strong.fence.number());
        let step = Step::Confirm { token, fence, lease };
        let coming = strong.request.ask.all(&step, end);
        drop(strong);
        let mut gathered = coming.gather(shared.majority(), Rest::Goes, end).await;
        let votes = &gathered.counted;
        let Some(strong) = held.upgrade() else { return };
        if votes.granted >= shared.majority() {
            if !strong.tenure.is_lost() {
                strong.tenure.lasts(valid(now, lease));
            }
            drop(strong);
            next = now.and(lease / 3).timer();
            // MAJORITY-5: the next confirmation counts there, and not this grant.
            while let Some(node) = gathered.next_against(end.min(next)).await {
                let Some(strong) = held.upgrade() else { return };
                let VoteRequest { ask, token, .. } = &strong.request;
                let step = Step::Acquire { token: token.clone(), lease, alive: None };
                ask.one(node, step, next, mpsc::unbounded_channel().0);
            }
        } else if votes.held > shared.nodes.len() - shared.majority() {
            // The token no longer holds there, and is not requested there again.
            return strong.tenure.lose();
        } else {
            // Too few answer: the hold ends by its time, and is tried again until then.
            next = after((lease / 30).max(Duration::from_millis(1)));
        }
    }
}

/// A lock that is held on a majority of nodes. Dropping it releases it on all.
///
/// The client renews it until then, unless it was requested with a lease of its own.
#[must_use = "dropping it releases the lock"]
pub struct MajorityGuard {
    /// `Some` until it is released.
    held: Option<Arc<MajorityHold>>,
    /// Dropped after the hold. `None` until the guard is handed out.
    handles: Option<Handles>,
}

impl MajorityGuard {
    pub(super) fn new(held: Arc<MajorityHold>) -> Self {
        MajorityGuard { held: Some(held), handles: None }
    }

    /// Called when it is handed out.
    pub(super) fn handed(&mut self, handles: &Handles) {
        self.handles = Some(handles.clone());
    }

    fn held(&self) -> &Arc<MajorityHold> {
        self.held.as_ref().expect("a guard has its hold until it is released")
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.held().name
    }

    /// The number of this hold, greater than that of each hold of this lock that was held before
    /// this one was requested, whatever clocks say.
    pub fn fence(&self) -> Fence {
        self.held().fence
    }

    /// True if the hold is lost. False means that no other client holds the lock, if the clocks of
    /// a majority of nodes, and this machine's, run at the same rate. The answer may be stale by
    /// the time it is read: a resource that must not be written then compares fences. Takes a short
    /// lock, and does not wait otherwise.
    pub fn is_lost(&self) -> bool {
        self.held().tenure.is_lost()
    }

    /// Returns a future, for any runtime, that completes when the lock is lost. It never completes
    /// if the lock is released before.
    pub fn lost(&self) -> Lost {
        self.held().tenure.lost()
    }

    /// The time that the hold lasts at least, if it is not renewed and clocks run at the same rate.
    /// Never `None`: as [`Guard::remaining`](crate::Guard::remaining).
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.held().tenure.remaining())
    }

    /// Releases the lock on all nodes, and returns whether it was held until then. The answer comes
    /// when a majority has answered. Requests to the others are repeated until they answer, or
    /// until the client's patience ends.
    pub fn release(mut self) -> Call<(), ReleaseError> {
        match self.held.take() {
            Some(held) => {
                let client = held.request.ask.shared.nodes[0].client.clone();
                Call::there(&client.home, release(held))
            }
            None => Call::over(Ok(())),
        }
    }
}

async fn release(held: Arc<MajorityHold>) -> Result<(), ReleaseError> {
    let (fence, was_lost) = (held.fence, held.tenure.is_lost());
    let shared = held.request.ask.shared.clone();
    let coming = held.request.leave();
    // Stops the renewals.
    drop(held);
    let until = shared.nodes[0].client.patience();
    let votes = coming.gather(shared.majority(), Rest::Goes, until).await.counted;
    match votes.granted >= shared.majority() {
        _ if was_lost => Err(ReleaseError::Lost(fence)),
        true => Ok(()),
        false if votes.held > shared.nodes.len() - shared.majority() => {
            Err(ReleaseError::Lost(fence))
        }
        false => Err(ReleaseError::Store(match votes.failed.into_iter().next() {
            Some((_, error)) => error,
            None => StoreError::TimedOut { effect: Effect::Unknown },
        })),
    }
}

impl fmt::Debug for MajorityGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MajorityGuard");
        shown.field("name", &self.name()).field("fence", &self.fence());
        shown.field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}
