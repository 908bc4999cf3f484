//! The requests of a client: those that wait in a queue, and those that hold.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};
use turnwise_locks::{Fence, Owner};

use crate::attempt::Caller;
use crate::client::Client;
use crate::error::{ReleaseError, StoreError};
use crate::news::News;
use crate::sent::Sent;
use crate::step::{Answer, Notice, Op, Renewal, Standing, Step, Token};
use crate::tenure::Tenure;
use crate::time::{Moment, SHORTEST, after};

/// A request, from its first step until it is given up: in the queue, or holding.
///
/// - REQUESTS-1: all that ask or hold by a token share its request. Dropping the last reference
///   reports the end to the store, once. So nothing stays held without a holder here, and no
///   request waits twice.
/// - REQUESTS-2: each of them has a [`Share`]. A release reports the end itself only if its share
///   is the last one, and from then on no other ask of the owner gets a share. So what one of them
///   is granted is not released by another.
pub(crate) struct Request {
    pub(crate) client: Arc<Client>,
    pub(crate) key: String,
    /// The number of requests that may hold at once.
    places: u32,
    pub(crate) token: Token,
    /// The owner whose asks for this object share it.
    owner: Option<(Owner, String)>,
    /// The number of shares. It grows under the lock of the requests.
    shares: AtomicUsize,
    sent: Sent,
    /// The runtime of the caller that was granted it, which has a connection.
    granted_in: OnceLock<runtime::Id>,
    pub(crate) news: News,
    /// The hold, once it is granted.
    pub(crate) hold: Mutex<Weak<Hold>>,
}

/// Requests by their tokens, and waiters by their locks. Those that one step is sent for are
/// ordered, so that the step is the same in each run of a test.
#[derive(Default)]
pub(crate) struct Requests {
    all: HashMap<Token, Weak<Request>>,
    owners: HashMap<(Owner, String), Weak<Request>>,
    waiting: BTreeMap<String, Vec<Token>>,
    /// Objects for which a release is on its way to the store.
    told: HashMap<String, Told>,
    holds: BTreeMap<Token, RenewedHold>,
    /// The time of the next check of the holds. `None` if there are none.
    kept_at: Option<Instant>,
}

/// Releases of an object that are on their way to the store.
#[derive(Default)]
struct Told {
    count: usize,
    /// The runtime that sends all of them.
    by: Option<runtime::Id>,
}

/// A hold that the client's thread renews.
struct RenewedHold {
    tenure: Weak<Tenure>,
    key: String,
    place: u32,
}

/// Requests that have to check their state, and holds that are lost.
#[derive(Default)]
pub(crate) struct Woken {
    all: Vec<Arc<Request>>,
    lost: Vec<Arc<Tenure>>,
}

impl Woken {
    /// Wakes them. Must not be called under the lock of the requests.
    pub(crate) fn wake(self) {
        self.all.iter().for_each(|request| request.wake());
        self.lost.iter().for_each(|tenure| tenure.lose());
    }
}

/// Registers a release of an object that is on its way to the store, until this is dropped.
pub(crate) struct Tells {
    client: Arc<Client>,
    key: String,
}

impl Drop for Tells {
    fn drop(&mut self) {
        let mut requests = self.client.requests();
        if let Entry::Occupied(mut told) = requests.told.entry(std::mem::take(&mut self.key)) {
            told.get_mut().count -= 1;
            if told.get().count == 0 {
                told.remove();
            }
        }
        drop(requests);
        self.client.told.notify_waiters();
    }
}

impl Requests {
    pub(crate) fn noticed(&self, notice: &Notice) -> Woken {
        let request = |token| self.all.get(token).and_then(Weak::upgrade);
        let mut woken = Woken::default();
        match notice {
            Notice::Granted(token) => woken.all.extend(request(token)),
            Notice::Lost(token) => {
                let kept = self.holds.get(token);
                woken.lost.extend(kept.and_then(|kept| kept.tenure.upgrade()));
            }
            Notice::LookAgain => {
                woken.all.extend(self.waiting.values().flatten().filter_map(request));
            }
        }
        woken
    }
}

impl Request {
    /// Creates a request, or returns the existing one of an owner.
    pub(crate) fn take(
        client: &Arc<Client>,
        key: &str,
        places: u32,
        owner: Option<&Owner>,
    ) -> Share {
        // Dropped after the lock is: dropping the last reference takes that lock.
        let existing;
        let mut requests = client.requests();
        let owner = owner.map(|owner| (owner.clone(), key.to_owned()));
        existing = owner.as_ref().and_then(|owner| requests.owners.get(owner)?.upgrade());
        if let Some(request) = existing {
            request.shares.fetch_add(1, Relaxed);
            return Share(request);
        }
        let request = Arc::new(Request {
            client: client.clone(),
            key: key.to_owned(),
            places,
            token: client.token(),
            owner,
            shares: AtomicUsize::new(1),
            sent: Sent::default(),
            granted_in: OnceLock::new(),
            news: News::default(),
            hold: Mutex::default(),
        });
        requests.all.insert(request.token.clone(), Arc::downgrade(&request));
        if let Some(owner) = &request.owner {
            requests.owners.retain(|_, request| request.strong_count() > 0);
            requests.owners.insert(owner.clone(), Arc::downgrade(&request));
        }
        Share(request)
    }

    /// Returns a step for its object.
    pub(crate) fn op(&self, step: Step) -> Op {
        self.client.op(self.key.clone(), self.places, step)
    }

    /// Sends a step that makes its token known to the store.
    pub(crate) async fn ask(
        &self,
        caller: &Caller,
        step: Step,
        until: Instant,
    ) -> Result<Answer, StoreError> {
        let told = self.client.requests().told.get(&self.key).map(|told| told.by);
        if let Some(by) = told
            && (by.is_none() || by != Handle::try_current().ok().map(|runtime| runtime.id()))
        {
            // The release goes first, over the connection of the client's thread.
            caller.moves().await;
        }
        let op = self.op(step);
        let answer = self.sent.by(self.client.call_by(caller, &op, until)).await;
        let (Ok(Answer::Busy { .. } | Answer::StillRunning { .. }), Some(_)) = (&answer, told)
        else {
            return answer;
        };
        // In most cases a release has arrived before. One that had to be repeated may not have:
        // wait for it.
        loop {
            let ends = self.client.told.notified();
            if !self.is_told_of() {
                break;
            }
            if timeout_at(until, ends).await.is_err() {
                return answer;
            }
        }
        self.sent.by(self.client.call_by(caller, &op, until)).await
    }

    /// True if a release of its object is on its way to the store.
    fn is_told_of(&self) -> bool {
        self.client.requests().told.contains_key(&self.key)
    }

    /// Registers a hold that has begun, and lasts until then at least: the client keeps it.
    pub(crate) fn keep(&self, tenure: &Arc<Tenure>, place: u32, until: Moment) {
        let until = until.timer();
        let kept = RenewedHold { tenure: Arc::downgrade(tenure), key: self.key.clone(), place };
        let mut requests = self.client.requests();
        requests.holds.insert(self.token.clone(), kept);
        match requests.kept_at {
            Some(next) if next <= until => {}
            Some(_) => self.client.changed.notify_one(),
            None => {
                requests.kept_at = Some(until);
                let (client, changed) = (Arc::downgrade(&self.client), self.client.changed.clone());
                self.client.io.spawn(keep(client, changed));
            }
        }
    }

    /// Unregisters a hold that is over.
    pub(crate) fn keep_no_more(&self, tenure: &Arc<Tenure>) {
        let mut requests = self.client.requests();
        // Another hold may have begun.
        let kept = requests.holds.get(&self.token);
        if kept.is_some_and(|kept| kept.tenure.as_ptr() == Arc::as_ptr(tenure)) {
            requests.holds.remove(&self.token);
        }
    }

    fn wake(&self) {
        self.news.tell();
    }

    /// Registers a queue entry, which is refreshed from now on.
    pub(crate) fn waits(&self, busy: Duration) {
        let mut requests = self.client.requests();
        let first = !requests.waiting.contains_key(&self.key);
        let queue = requests.waiting.entry(self.key.clone()).or_default();
        if !queue.contains(&self.token) {
            queue.push(self.token.clone());
        }
        drop(requests);
        if first {
            let client = Arc::downgrade(&self.client);
            self.client.io.spawn(refresh(client, self.key.clone(), self.places, busy));
        }
    }

    /// Unregisters the queue entry, which is granted, and wakes others of the owner that wait for
    /// it: nothing else does from now on.
    pub(crate) fn is_granted(&self) {
        self.waits_no_more();
        self.wake();
    }

    /// Records the runtime of a caller that polls the request still, and so has a connection there.
    pub(crate) fn is_granted_to(&self, caller: &Caller) {
        if caller.is_here()
            && let Ok(runtime) = Handle::try_current()
        {
            let _ = self.granted_in.set(runtime.id());
        }
    }

    /// Unregisters the queue entry.
    fn waits_no_more(&self) {
        let mut requests = self.client.requests();
        if let Some(queue) = requests.waiting.get_mut(&self.key) {
            queue.retain(|token| *token != self.token);
        }
    }

    /// Returns the step that reports the end to the store, unless that was done, or nothing was
    /// sent.
    fn leaving(&self, by: Option<runtime::Id>) -> Option<(Op, Tells)> {
        let step = Step::Leave { token: self.token.clone(), late: self.sent.is_late() };
        if !self.sent.ends() {
            return None;
        }
        let mut requests = self.client.requests();
        let told = requests.told.entry(self.key.clone()).or_default();
        told.by = by.filter(|_| told.count == 0 || told.by == by);
        told.count += 1;
        drop(requests);
        Some((self.op(step), Tells { client: self.client.clone(), key: self.key.clone() }))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.waits_no_more();
        self.client.requests().all.remove(&self.token);
        let here = Handle::try_current().ok();
        let here = here.filter(|runtime| self.granted_in.get() == Some(&runtime.id()));
        let reports = self.client.home.reports.clone().zip(here);
        let Some((op, tells)) = self.leaving(reports.as_ref().map(|(_, here)| here.id())) else {
            return;
        };
        let client = self.client.clone();
        let Some((reports, here)) = reports else { return report(client, op, tells) };
        let (store, sent, under_way) =
            (client.store.clone(), op.clone(), client.business.under_way());
        let sends = async move { store.call(&sent).await.is_ok() };
        reports.send(&here, sends, move || {
            let _under_way = under_way;
            report(client, op, tells);
        });
    }
}

/// Reports an end to the store from the client's thread.
fn report(client: Arc<Client>, op: Op, tells: Tells) {
    client.clone().spawn(async move {
        let _tells = tells;
        let until = client.patience();
        // If the store does not receive it, the queue entry or the lease expires.
        let _ = client.call(&op, until).await;
    });
}

/// A share in a request: of one that asks, or holds, by its token.
pub(crate) struct Share(Arc<Request>);

impl Share {
    /// Ends the last share of a request. Returns the step that reports the end to the store, unless
    /// that was done. Returns `Err` if others ask or hold.
    pub(crate) fn leaves(self) -> Result<Option<(Op, Tells)>, StillShared> {
        if let Some(owner) = &self.owner {
            let mut requests = self.client.requests();
            if self.shares.load(Relaxed) > 1 {
                return Err(StillShared);
            }
            let ours = |request: &Weak<Request>| request.as_ptr() == Arc::as_ptr(&self.0);
            if requests.owners.get(owner).is_some_and(ours) {
                requests.owners.remove(owner);
            }
        }
        Ok(self.leaving(None))
    }
}

/// Others ask or hold by a request.
pub(crate) struct StillShared;

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.fetch_sub(1, Relaxed);
    }
}

impl Deref for Share {
    type Target = Arc<Request>;

    fn deref(&self) -> &Arc<Request> {
        &self.0
    }
}

/// Refreshes the queue entries of all waiters of a lock, with one step, until there are none.
async fn refresh(client: Weak<Client>, key: String, places: u32, mut busy: Duration) {
    loop {
        let Some(strong) = client.upgrade() else { return };
        let third = strong.place() / 3;
        drop(strong);
        // The end of the holder's lease sends no notice.
        let pause = third.min(busy + Duration::from_millis(1)).max(SHORTEST / 2);
        sleep_until(after(pause)).await;
        let Some(client) = client.upgrade() else { return };
        let tokens = {
            let mut requests = client.requests();
            let tokens = requests.waiting.get(&key).cloned().unwrap_or_default();
            if tokens.is_empty() {
                // Under the lock, so that the next waiter starts a new task.
                requests.waiting.remove(&key);
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
            // All ask again, and get the error themselves.
            _ => {
                busy = third;
                tokens
            }
        };
        let _borrows = client.business.under_way();
        let requests = client.requests();
        let all = moved.iter().filter_map(|token| requests.all.get(token)?.upgrade());
        let all: Vec<_> = all.collect();
        drop(requests);
        all.iter().for_each(|request| request.wake());
    }
}

/// A hold, until it ends, shared by its guards.
pub(crate) struct Hold {
    pub(crate) request: Arc<Request>,
    pub(crate) name: Arc<str>,
    pub(crate) fence: Fence,
    /// The place that is held.
    pub(crate) place: u32,
    pub(crate) tenure: Arc<Tenure>,
}

impl Hold {
    /// Returns the hold of a grant: a new one, or the existing one with the same fence, unless that
    /// counts as lost here. The store may have it longer.
    pub(crate) fn of(
        request: &Arc<Request>,
        name: Arc<str>,
        (fence, place): (u64, u32),
        sent: Moment,
        lease: Duration,
        renewed: bool,
    ) -> Arc<Hold> {
        let fence = Fence::from_number(fence);
        let mut slot = request.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let old = slot.upgrade();
        let is_same = |hold: &&Arc<Hold>| hold.fence == fence && !hold.tenure.was_lost();
        if let Some(hold) = old.as_ref().filter(is_same) {
            if renewed {
                hold.tenure.renews_for_another();
            }
            hold.tenure.lasts(sent.and(lease));
            return hold.clone();
        }
        let until = sent.and(lease);
        let hold = Arc::new(Hold {
            request: request.clone(),
            name,
            fence,
            place,
            tenure: Tenure::new(until, renewed),
        });
        *slot = Arc::downgrade(&hold);
        drop(slot);
        // The hold before is over, or this one was granted before it.
        if let Some(old) = old {
            old.tenure.lose();
        }
        request.keep(&hold.tenure, place, until);
        hold
    }

    /// Starts the lease anew, in the store and here.
    pub(crate) async fn renew(
        &self,
        lease: Duration,
        until: Instant,
        renews: &AtomicBool,
    ) -> Result<(), ReleaseError> {
        let step = Step::Renew { token: self.request.token.clone(), lease };
        let sent = Moment::now();
        match self.request.client.call(&self.request.op(step), until).await.0 {
            Ok(Answer::Held) if !self.tenure.was_lost() => {
                self.tenure.renews_no_more(renews);
                self.tenure.lasts(sent.and(lease));
                Ok(())
            }
            Ok(_) => {
                self.tenure.lose();
                Err(ReleaseError::Lost(self.fence))
            }
            Err(error) => Err(ReleaseError::Store(error)),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.request.keep_no_more(&self.tenure);
    }
}

/// The maximum number of holds that one step renews, so that a server is not busy for long.
const AT_ONCE: usize = 256;

/// Renews the holds of a client each third of the lease, with one step for many, and marks each as
/// lost when it is over; until there are none.
async fn keep(client: Weak<Client>, changed: Arc<Notify>) {
    let mut due = None;
    loop {
        let Some(strong) = client.upgrade() else { return };
        let (now, third) = (Instant::now(), strong.lease() / 3);
        let renewal = *due.get_or_insert(now + third);
        let is_due = now >= renewal;
        if is_due {
            due = Some(now + third);
        }
        let mut next = due.unwrap_or(renewal);
        let (mut over, mut renewed) = (Vec::new(), Vec::new());
        {
            let mut requests = strong.requests();
            if requests.holds.is_empty() {
                // Under the lock, so that the next hold starts a new task.
                requests.kept_at = None;
                return;
            }
            for (token, kept) in &requests.holds {
                let Some(tenure) = kept.tenure.upgrade().filter(|it| !it.was_lost()) else {
                    continue;
                };
                let until = tenure.until();
                if until <= Moment::now() {
                    over.push(tenure);
                    continue;
                }
                next = next.min(until.timer());
                if is_due && tenure.is_renewed() {
                    let (key, token, place) = (kept.key.clone(), token.clone(), kept.place);
                    renewed.push((kept.tenure.clone(), Renewal { key, token, place }));
                }
            }
            requests.kept_at = Some(next);
        }
        over.iter().for_each(|tenure| tenure.lose());
        let mut parts = BTreeMap::<u16, Vec<_>>::new();
        for hold in renewed {
            parts.entry(strong.store.part(&hold.1.key)).or_default().push(hold);
        }
        for holds in parts.values() {
            for holds in holds.chunks(AT_ONCE) {
                strong.io.spawn(renew(strong.clone(), holds.to_vec()));
            }
        }
        drop(strong);
        // Wakes early if a hold has begun that ends before that.
        let _ = timeout_at(next, changed.notified()).await;
    }
}

/// Renews holds with one step. Weak references, so that this does not keep them.
async fn renew(client: Arc<Client>, holds: Vec<(Weak<Tenure>, Renewal)>) {
    let lease = client.lease();
    let (tenures, renewals): (Vec<_>, Vec<_>) = holds.into_iter().unzip();
    let key = renewals[0].key.clone();
    let op = Op { key, places: 1, above: 0, step: Step::RenewAll { renewals, lease } };
    let sent = Moment::now();
    // Without an answer each hold ends by its time, and all are tried again until then.
    let Ok(Answer::Renewed(held)) = client.call(&op, after(lease / 3)).await.0 else { return };
    for (tenure, held) in tenures.iter().zip(held) {
        match tenure.upgrade() {
            Some(tenure) if held => tenure.lasts(sent.and(lease)),
            Some(tenure) => tenure.lose(),
            None => {}
        }
    }
}
