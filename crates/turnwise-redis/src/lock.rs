//! Fair locks by name, for programs on several machines.
//!
//! Requests queue in the store, in the order in which they arrive there. A release grants the lock
//! to the first queue entry in the same step, and a notice wakes its waiter. An entry expires
//! unless its client refreshes it, so a client that is gone delays the others once, for the
//! lifetime of one entry.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use turnwise::Limit;
use turnwise_locks::{Fence, Limits, Owner};

use crate::attempt::{Acquire, Call, Caller};
use crate::business::Handles;
use crate::client::Client;
use crate::client::Owned;
use crate::error::{Effect, LockError, ReleaseError, StoreError};
use crate::requests::{Hold, Request, Share, Tells};
use crate::step::{Answer, Op, Step};
use crate::tenure::Lost;
use crate::time::{Moment, SHORTEST, after};

/// Fair locks by name: see [`Remote::locks`](crate::Remote::locks). Clones share the same locks.
///
/// Requests are granted in the order in which they arrive at the store, whatever machine they come
/// from, and one release grants exactly one. Waiting does not poll: a notice wakes the new holder.
/// If the notice is lost, the next refresh of the queue entry finds the grant.
///
/// A hold is a lease. Without a lease of its own it has the client's, and is renewed until its
/// guard is dropped. With one of its own it ends when that lease expires. A
/// [`Fenced`](turnwise_locks::Fenced) resource refuses the writes of a holder that has not noticed
/// that its lease is over.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_redis::{Limits, LockError, Remote};
///
/// let locks = Remote::in_memory().locks();
/// let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(6));
/// let guard = locks.lock_within("raffle 633", limits).wait()?;
/// assert!(guard.remaining() <= Some(Duration::from_secs(6)));
///
/// let late = locks.lock_within("raffle 633", Limits::wait(Duration::from_millis(20))).wait();
/// assert!(matches!(late, Err(LockError::TimedOut { .. })));
/// guard.release().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Locks {
    client: Owned,
}

/// A snapshot of a lock that is held or waited for: see [`Locks::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The number of holders, which is one at most.
    pub holders: usize,
    /// The holder: the number of its client, and of its request.
    pub holder: Option<String>,
    /// The rest of its lease, if it is not renewed.
    pub remaining: Option<Duration>,
    /// The fence of the hold.
    pub fence: Option<Fence>,
    /// The number of waiting requests.
    pub waiting: usize,
}

impl Locks {
    pub(crate) fn new(client: Owned) -> Self {
        Locks { client }
    }

    /// Requests a lock, with no limit on the wait. A store that does not answer fails the request
    /// after the client's [patience](crate::RemoteBuilder::give_up_after). This call does not wait;
    /// the [`Acquire`] does.
    pub fn lock(&self, name: impl AsRef<str>) -> Acquire<Guard> {
        self.lock_within(name, Limits::NONE)
    }

    /// Requests a lock that is free now and that no other request waits for: it overtakes no
    /// waiter. The answer comes from the store.
    pub fn try_lock(&self, name: impl AsRef<str>) -> Acquire<Guard> {
        self.lock_within(name, Limits::wait(Duration::ZERO))
    }

    /// Requests a lock with limits on the wait and on the hold. A wait of zero is one attempt. A
    /// hold with a lease of its own is not renewed. [`Limits::refuse_early`] has no effect here.
    pub fn lock_within(&self, name: impl AsRef<str>, limits: impl Into<Limits>) -> Acquire<Guard> {
        self.ask(name.as_ref(), None, limits.into())
    }

    /// Requests a lock for an owner. It is granted at once, with the same fence, if the owner holds
    /// it already. The lock is free when the last guard of its owner is dropped. An owner belongs
    /// to one process.
    ///
    /// The longest lease among those of its guards counts. While one of its guards has no lease of
    /// its own, the hold is renewed.
    pub fn lock_as(
        &self,
        owner: &Owner,
        name: impl AsRef<str>,
        limits: impl Into<Limits>,
    ) -> Acquire<Guard> {
        self.ask(name.as_ref(), Some(owner), limits.into())
    }

    fn ask(&self, name: &str, owner: Option<&Owner>, limits: Limits) -> Acquire<Guard> {
        let wanted = Wanted::new(limits);
        match self.client.key("lock", name) {
            Err(error) => Acquire::over(Err(error.into())),
            Ok(_) if wanted.is_too_short() => Acquire::over(Err(LockError::LeaseTooShort)),
            Ok(key) => {
                let request = Request::take(&self.client, &key, 1, owner);
                let name = name.into();
                Acquire::new(&self.client.home, &self.client.handles, Guard::handed, |caller| {
                    acquire(caller, request, name, wanted)
                })
            }
        }
    }

    /// Requests several locks: all of them or none. They are acquired one after the other in the
    /// order of their names, so two calls never deadlock; equal names count once. One deadline
    /// covers all, and leases begin when all are held.
    pub fn lock_all(
        &self,
        names: impl IntoIterator<Item: AsRef<str>>,
        limits: impl Into<Limits>,
    ) -> Acquire<Vec<Guard>> {
        self.ask_all(names, None, limits.into())
    }

    /// [`lock_all`](Self::lock_all) for an [owner](Owner): those that it holds already are granted
    /// at once, as by [`lock_as`](Self::lock_as). An owner that holds locks, and requests others
    /// that come before them, may wait in a circle with another owner; a limit on the wait ends
    /// that.
    ///
    /// # Examples
    /// ```
    /// use turnwise_redis::{Limits, Owner, Remote};
    ///
    /// let locks = Remote::in_memory().locks();
    /// let me = Owner::new();
    /// let a = locks.lock_as(&me, "a", Limits::NONE).wait()?;
    /// let both = locks.lock_all_as(&me, ["a", "b"], Limits::NONE).wait()?;
    /// assert_eq!(both[0].fence(), a.fence());
    /// # Ok::<(), turnwise_redis::LockError>(())
    /// ```
    pub fn lock_all_as(
        &self,
        owner: &Owner,
        names: impl IntoIterator<Item: AsRef<str>>,
        limits: impl Into<Limits>,
    ) -> Acquire<Vec<Guard>> {
        self.ask_all(names, Some(owner), limits.into())
    }

    fn ask_all(
        &self,
        names: impl IntoIterator<Item: AsRef<str>>,
        owner: Option<&Owner>,
        limits: Limits,
    ) -> Acquire<Vec<Guard>> {
        let wanted = Wanted::new(limits);
        if wanted.is_too_short() {
            return Acquire::over(Err(LockError::LeaseTooShort));
        }
        let mut names: Vec<Arc<str>> = names.into_iter().map(|name| name.as_ref().into()).collect();
        names.sort_unstable();
        names.dedup();
        let keys = names.iter().map(|name| self.client.key("lock", name));
        match keys.collect::<Result<Vec<_>, _>>() {
            Err(error) => Acquire::over(Err(error.into())),
            Ok(keys) => {
                let (client, owner) = (Arc::clone(&self.client), owner.cloned());
                let all = names.into_iter().zip(keys).collect();
                let handed = |guards: &mut Vec<Guard>, handles: &Handles| {
                    guards.iter_mut().for_each(|guard| guard.handed(handles));
                };
                let (home, handles) = (&self.client.home, &self.client.handles);
                Acquire::there(home, handles, handed, acquire_all(client, owner, all, wanted))
            }
        }
    }

    /// Takes a lock from its holder and grants it to the next request. The old holder is notified.
    /// Returns false if the lock is free.
    pub fn force_release(&self, name: impl AsRef<str>) -> Call<bool> {
        self.client.step(self.op(name.as_ref(), Step::Force { place: 1 }), was_forced)
    }

    /// Returns a snapshot of the lock, which may be stale by the time it is read; `None` if it is
    /// neither held nor waited for.
    pub fn info(&self, name: impl AsRef<str>) -> Call<Option<LockInfo>> {
        self.client.step(self.op(name.as_ref(), Step::Look), |answer| {
            let Answer::Seen { holders, fence, waiting } = answer else { return Ok(None) };
            let holder = holders.first();
            Ok((holder.is_some() || waiting > 0).then(|| LockInfo {
                holders: holders.len(),
                holder: holder.map(|(_, token, _)| token.as_str().to_owned()),
                remaining: holder.map(|(_, _, left)| *left),
                fence: holder.map(|_| Fence::from_number(fence)),
                waiting: usize::try_from(waiting).unwrap_or(usize::MAX),
            }))
        })
    }

    fn op(&self, name: &str, step: Step) -> Result<Op, LockError> {
        Ok(self.client.op(self.client.key("lock", name)?, 1, step))
    }
}

/// Reads the answer to a step that changes a place.
pub(crate) fn was_forced(answer: Answer) -> Result<bool, LockError> {
    match answer {
        Answer::Differs { places } => Err(LockError::OtherPlaces { places }),
        answer => Ok(answer == Answer::Forced(true)),
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("store", &self.client.store).finish_non_exhaustive()
    }
}

/// The limits of a request, from the moment of the call.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) called: Instant,
    /// The deadline of the wait.
    pub(crate) until: Option<Instant>,
    pub(crate) immediate: bool,
    pub(crate) lease: Option<Duration>,
}

impl Wanted {
    pub(crate) fn new(limits: Limits) -> Self {
        let until = match limits.waited() {
            Limit::Within(limit) => Some(after(limit)),
            _ => None,
        };
        let immediate = limits.waited() == Limit::Immediate;
        Wanted { called: Instant::now(), until, immediate, lease: limits.leased() }
    }

    pub(crate) fn is_too_short(&self) -> bool {
        self.lease.is_some_and(|lease| lease < SHORTEST)
    }

    pub(crate) fn timed_out(&self, name: Arc<str>) -> LockError {
        LockError::TimedOut { waited: self.called.elapsed(), key: Some(name) }
    }
}

pub(crate) async fn acquire(
    caller: Caller,
    request: Share,
    name: Arc<str>,
    wanted: Wanted,
) -> Result<Guard, LockError> {
    let client = request.client.clone();
    let lease = wanted.lease.unwrap_or(client.lease());
    let alive = (!wanted.immediate).then(|| client.place());
    loop {
        let seen = request.news.seen();
        let sent = Moment::now();
        let patience = client.patience();
        let until = wanted.until.map_or(patience, |until| until.min(patience));
        let step = Step::Acquire { token: request.token.clone(), lease, alive };
        match request.ask(&caller, step, until).await {
            Ok(Answer::Granted { fence, place }) => {
                request.is_granted();
                request.is_granted_to(&caller);
                let renewed = wanted.lease.is_none();
                let hold = Hold::of(&request, name, (fence, place), sent, lease, renewed);
                return Ok(Guard::of(hold, request, renewed));
            }
            Ok(Answer::Queued { busy, .. }) => request.waits(busy),
            Ok(Answer::Busy { .. }) => return Err(LockError::Busy { key: Some(name) }),
            Ok(Answer::Differs { places }) => return Err(LockError::OtherPlaces { places }),
            Ok(_) => return Err(LockError::Closed),
            // The error says what went wrong, even if the deadline has passed meanwhile.
            Err(error) => return Err(error.into()),
        }
        caller.moves().await;
        let changed = request.news.since(seen);
        match wanted.until {
            None => changed.await,
            Some(until) => {
                if timeout_at(until, changed).await.is_err() {
                    return Err(wanted.timed_out(name));
                }
            }
        }
    }
}

async fn acquire_all(
    client: Arc<Client>,
    owner: Option<Owner>,
    all: Vec<(Arc<str>, String)>,
    wanted: Wanted,
) -> Result<Vec<Guard>, LockError> {
    loop {
        let mut guards = Vec::with_capacity(all.len());
        for (name, key) in &all {
            let request = Request::take(&client, key, 1, owner.as_ref());
            let acquires = acquire(Caller::there(), request, name.clone(), wanted);
            let guard = tokio::select! {
                biased;
                guard = acquires => guard?,
                () = renew_each_third(&guards, wanted.lease) => unreachable!("it does not end"),
            };
            guards.push(guard);
        }
        let Some(lease) = wanted.lease else { return Ok(guards) };
        let mut held = true;
        for guard in &guards {
            let (hold, renews) = (guard.hold(), &guard.renews);
            let patience = client.patience();
            let until = wanted.until.map_or(patience, |until| until.min(patience));
            match hold.renew(lease, until, renews).await {
                Ok(()) => {}
                Err(ReleaseError::Store(error)) => return Err(error.into()),
                // One was lost while others were waited for: all are requested anew.
                Err(ReleaseError::Lost(_)) => held = false,
            }
        }
        if held {
            return Ok(guards);
        }
    }
}

/// Renews holds with a lease of their own while others are waited for. A longer lease than that,
/// such as the client's, would outlast it in the store.
async fn renew_each_third(guards: &[Guard], lease: Option<Duration>) {
    let Some(lease) = lease.filter(|_| !guards.is_empty()) else { return pending().await };
    loop {
        sleep_until(after(lease / 3)).await;
        for guard in guards {
            // What is lost is requested anew.
            let _ = guard.hold().renew(lease, after(lease / 3), &guard.renews).await;
        }
    }
}

/// A lock that is held. Dropping it grants the lock to the next request, and does not wait; it may
/// be dropped on any thread. Of several guards of an [owner](Owner), the last one does that.
///
/// In the tokio runtime that was granted the lock, the drop sends the release over a connection of
/// that runtime. If that is no longer driven, or does not have the answer within a quarter of a
/// second, the client's own thread sends it, too.
#[must_use = "dropping it lets go of the lock"]
pub struct Guard {
    /// `None` once it is released.
    hold: Option<(Arc<Hold>, Share)>,
    /// True while this guard wants the hold renewed.
    renews: Arc<AtomicBool>,
    /// Dropped after the hold. `None` until the guard is handed out.
    handles: Option<Handles>,
}

impl Guard {
    /// The guard of a run, whose answer has just come.
    pub(crate) fn of_run(request: Share, name: Arc<str>, fence: u64, sent: Moment) -> Guard {
        let lease = request.client.lease();
        let hold = Hold::of(&request, name, (fence, 1), sent, lease, true);
        Guard::of(hold, request, true)
    }

    fn of(hold: Arc<Hold>, share: Share, renews: bool) -> Self {
        Guard {
            hold: Some((hold, share)),
            renews: Arc::new(AtomicBool::new(renews)),
            handles: None,
        }
    }

    /// Gives the hold up.
    fn gives(&mut self) -> Option<(Arc<Hold>, Share)> {
        let (hold, share) = self.hold.take()?;
        hold.tenure.renews_no_more(&self.renews);
        Some((hold, share))
    }

    /// Marks the guard as handed out to the program.
    pub(crate) fn handed(&mut self, handles: &Handles) {
        self.handles = Some(handles.clone());
    }

    fn hold(&self) -> &Arc<Hold> {
        match &self.hold {
            Some((hold, _)) => hold,
            None => unreachable!("a guard has its hold until it is released"),
        }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.hold().name
    }

    /// The number of this hold, which [`Fenced`](turnwise_locks::Fenced) resources compare. It is
    /// greater than those of all earlier holds of this lock, also after the store has lost its
    /// records, unless the store's clock has gone back by more than the time since.
    pub fn fence(&self) -> Fence {
        self.hold().fence
    }

    /// The number of the place in its pool, from 1 on. A lock has only place 1.
    pub fn place(&self) -> u32 {
        self.hold().place
    }

    /// True if the lock was taken away, or its lease is over by this machine's clock. Another
    /// client may hold it then. The answer may be stale by the time it is read: a resource that
    /// must not be written then compares fences. Takes a short lock, and does not wait otherwise.
    pub fn is_lost(&self) -> bool {
        self.hold().tenure.is_lost()
    }

    /// Returns a future, for any runtime, that completes when the lock is lost. It never completes
    /// if the lock is released before.
    pub fn lost(&self) -> Lost {
        self.hold().tenure.lost()
    }

    /// The time that the hold lasts at least, unless it is forced or renewed. In process, a hold
    /// may have no lease; each hold of a store has one, so this is never `None`.
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.hold().tenure.remaining())
    }

    /// Starts the lease anew, for at least this time; the client no longer renews the hold for this
    /// guard. A longer lease stays in force: the one before, or that of another guard of the
    /// [owner](Owner).
    ///
    /// Fails with [`ReleaseError::Lost`] if the lock was lost before.
    pub fn renew(&self, lease: Duration) -> Call<(), ReleaseError> {
        let (hold, renews) = (self.hold().clone(), self.renews.clone());
        self.hold().request.client.make(async move {
            let until = hold.tenure.until().timer();
            hold.renew(lease, until, &renews).await
        })
    }

    /// Releases the lock, and returns whether it was held until then. Of several guards of an
    /// owner, only the last one releases it, and none while the owner asks for the lock again.
    pub fn release(mut self) -> Call<(), ReleaseError> {
        let Some((hold, share)) = self.gives() else { return Call::over(Ok(())) };
        match share.leaves() {
            Ok(leaves) => {
                let client = hold.request.client.clone();
                Call::new(&client.home, |caller| release(caller, hold, leaves, None))
            }
            Err(_) if hold.tenure.is_lost() => Call::over(Err(ReleaseError::Lost(hold.fence))),
            Err(_) => Call::over(Ok(())),
        }
    }
}

impl Guard {
    /// Begins a job in the place. Returns true if an earlier job has not ended there, so that the
    /// place is dirty.
    pub(crate) fn begin(&self) -> Call<bool> {
        let hold = self.hold().clone();
        self.hold().request.client.make(async move {
            let op = hold.request.op(Step::Begin { token: hold.request.token.clone() });
            let client = hold.request.client.clone();
            match client.call(&op, client.patience()).await.0? {
                Answer::Begun { dirty } => Ok(dirty),
                _ => Err(LockError::Closed),
            }
        })
    }

    /// Ends the job and releases the place, which is clean or quarantined.
    pub(crate) fn end(mut self, quarantine: bool) -> Call<(), ReleaseError> {
        match self.gives() {
            Some((hold, share)) => {
                let client = hold.request.client.clone();
                // A job has no owner.
                let leaves = share.leaves().unwrap_or_default();
                Call::new(&client.home, |caller| release(caller, hold, leaves, Some(quarantine)))
            }
            None => Call::over(Ok(())),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.gives();
    }
}

/// Releases a hold. `ends` is set after a job: true if its place is quarantined.
async fn release(
    caller: Caller,
    hold: Arc<Hold>,
    leaves: Option<(Op, Tells)>,
    ends: Option<bool>,
) -> Result<(), ReleaseError> {
    let (fence, was_lost) = (hold.fence, hold.tenure.is_lost());
    let lost = || Err(ReleaseError::Lost(fence));
    let Some((mut op, _tells)) = leaves else { return lost() };
    if let (Some(quarantine), Step::Leave { token, late }) = (ends, &op.step) {
        op.step = Step::End { token: token.clone(), quarantine, late: *late };
    }
    let client = hold.request.client.clone();
    // Stops the renewals.
    drop(hold);
    // The end of the program waits for this.
    let _under_way = client.business.under_way();
    let (answer, late) = client.call_by(&caller, &op, client.patience()).await;
    match answer {
        Ok(Answer::Released) if !was_lost => Ok(()),
        Ok(_) if was_lost || !late => lost(),
        // An earlier copy of the request may have released it, and others may have held it since.
        Ok(_) => Err(ReleaseError::Store(StoreError::TimedOut { effect: Effect::Unknown })),
        Err(_) if was_lost => lost(),
        Err(error) => Err(ReleaseError::Store(error)),
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Guard");
        shown.field("name", &self.name()).field("fence", &self.fence());
        shown.field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}
