//! Fair locks by name, for programs on several machines.
//!
//! A request takes a place in the store's queue, in the order in which requests come to the store.
//! A release grants the lock to the first one there, in the same step; a notice wakes it. Its
//! place is kept as long as its client refreshes it, so a client that is gone holds up the others
//! for as long as its place is kept, once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use turnwise::{Limit, Reply};
use turnwise_locks::{Fence, Limits, Owner};

use crate::attempt::{Acquire, Caller, Release};
use crate::business::Handles;
use crate::client::Client;
use crate::client::Owned;
use crate::error::{Effect, LockError, ReleaseError, StoreError};
use crate::requests::{Hold, Request, Tells};
use crate::step::{Answer, Op, Step};
use crate::tenure::Lost;
use crate::time::{Moment, SHORTEST, after};

/// Fair locks by name: see [`Remote::locks`](crate::Remote::locks). Clones are the same locks.
///
/// Each is let in in the order in which its request came to the store, whatever machine it is on;
/// one release lets in exactly one. Nobody polls: a notice wakes who is let in, and if that is
/// lost, the next refresh of its place finds out.
///
/// A hold is a lease. Without one of its own it has the client's, and is renewed until its guard is
/// dropped; with one of its own it ends with that. What a holder does who does not know that its
/// lease is over, a [`Fenced`](turnwise_locks::Fenced) resource refuses.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use turnwise_redis::{Limits, LockError, Remote};
///
/// let locks = Remote::in_memory().locks();
/// let limits = Limits::wait(Duration::from_secs(5)).lease(Duration::from_secs(6));
/// let guard = locks.lock_within("raffle 633", limits).wait()?;
/// assert!(guard.remaining() <= Duration::from_secs(6));
///
/// let late = locks.lock_within("raffle 633", Duration::from_millis(20)).wait();
/// assert!(matches!(late, Err(LockError::TimedOut { .. })));
/// guard.release().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Locks {
    client: Owned,
}

/// What is known of a lock: [`Locks::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// Who holds it: the number of its client, and of its request.
    pub holder: Option<String>,
    /// So long its lease lasts, if it is not renewed.
    pub remaining: Duration,
    /// The last hold's number, if there was one.
    pub fence: Option<Fence>,
    /// How many wait.
    pub waiting: u64,
}

impl Locks {
    pub(crate) fn new(client: Owned) -> Self {
        Locks { client }
    }

    /// Asks for a lock, without a limit; a store that does not answer is given up by the client's
    /// [patience](crate::RemoteBuilder::give_up_after). Waits for nobody; the [`Acquire`] does.
    pub fn lock(&self, name: &str) -> Acquire<Guard> {
        self.lock_within(name, Limits::NONE)
    }

    /// A lock, if it is free now and nobody waits for it: it overtakes nobody. The answer comes
    /// from the store.
    pub fn try_lock(&self, name: &str) -> Acquire<Guard> {
        self.lock_within(name, Duration::ZERO)
    }

    /// Asks for a lock, with limits: how long to wait, and for how long to hold. A wait of zero is
    /// one attempt. A hold with a lease of its own is not renewed. That a request would be
    /// [refused early](Limits::refuse_early) nobody knows here.
    pub fn lock_within(&self, name: &str, limits: impl Into<Limits>) -> Acquire<Guard> {
        self.ask(name, None, limits.into())
    }

    /// Asks for a lock for an owner: at once, if that holds it already, with the same fence. It is
    /// free when the last guard of its owner is dropped. An owner is of one process.
    ///
    /// Of the leases that its guards were asked for with, the longest one counts; while one of them
    /// was asked for without, the hold is renewed.
    pub fn lock_as(&self, owner: &Owner, name: &str, limits: impl Into<Limits>) -> Acquire<Guard> {
        self.ask(name, Some(owner), limits.into())
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

    /// Asks for several locks: all of them or none. They are asked for in the order of their names,
    /// one after the other, so two calls never wait for each other; equal names count once. The
    /// deadline is one for all, and leases begin when all are held.
    pub fn lock_all<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        limits: impl Into<Limits>,
    ) -> Acquire<Vec<Guard>> {
        let wanted = Wanted::new(limits.into());
        if wanted.is_too_short() {
            return Acquire::over(Err(LockError::LeaseTooShort));
        }
        let mut names: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        let keys = names.iter().map(|name| self.client.key("lock", name));
        match keys.collect::<Result<Vec<_>, _>>() {
            Err(error) => Acquire::over(Err(error.into())),
            Ok(keys) => {
                let client = Arc::clone(&self.client);
                let all = names.into_iter().zip(keys).collect();
                let handed = |guards: &mut Vec<Guard>, handles: &Handles| {
                    guards.iter_mut().for_each(|guard| guard.handed(handles));
                };
                let (home, handles) = (&self.client.home, &self.client.handles);
                Acquire::there(home, handles, handed, acquire_all(client, all, wanted))
            }
        }
    }

    /// Takes a lock away from its holder: the next is let in, the holder learns of it. False:
    /// nobody holds it.
    pub fn force_release(&self, name: &str) -> Reply<Result<bool, LockError>> {
        self.once(name, Step::Force { place: 1 }, |answer| answer == Answer::Forced(true))
    }

    /// What is known of a lock. Stale on return.
    pub fn info(&self, name: &str) -> Reply<Result<LockInfo, LockError>> {
        self.once(name, Step::Look, |answer| match answer {
            Answer::Seen { holders, fence, waiting } => {
                let (holder, remaining) = holders
                    .first()
                    .map(|(_, token, left)| (Some(token.as_str().to_owned()), *left))
                    .unwrap_or_default();
                let fence = (fence > 0).then_some(Fence::from_number(fence));
                LockInfo { holder, remaining, fence, waiting }
            }
            _ => LockInfo { holder: None, remaining: Duration::ZERO, fence: None, waiting: 0 },
        })
    }

    fn once<R: Send + 'static>(
        &self,
        name: &str,
        step: Step,
        read: impl FnOnce(Answer) -> R + Send + 'static,
    ) -> Reply<Result<R, LockError>> {
        let (client, key) = (Arc::clone(&self.client), self.client.key("lock", name));
        self.client.reply(async move {
            let op = client.op(key?, 1, step);
            Ok(read(client.call(&op, client.patience()).await.0?))
        })
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("store", &self.client.store).finish_non_exhaustive()
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) called: Instant,
    /// Until when it waits.
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

    pub(crate) fn timed_out(&self) -> LockError {
        LockError::TimedOut { waited: self.called.elapsed() }
    }
}

pub(crate) async fn acquire(
    caller: Caller,
    request: Arc<Request>,
    name: Arc<str>,
    wanted: Wanted,
) -> Result<Guard, LockError> {
    let client = request.client.clone();
    let mut news = request.news();
    let lease = wanted.lease.unwrap_or(client.lease());
    let alive = (!wanted.immediate).then(|| client.place());
    loop {
        news.mark_unchanged();
        let sent = Moment::now();
        let patience = client.patience();
        let until = wanted.until.map_or(patience, |until| until.min(patience));
        let step = Step::Acquire { token: request.token.clone(), lease, alive };
        match request.ask(&caller, step, until).await {
            Ok(Answer::Granted { fence, place }) => {
                request.waits_no_more();
                let renewed = wanted.lease.is_none();
                let hold = Hold::of(&request, name, (fence, place), sent, lease, renewed);
                return Ok(Guard::of(hold, renewed));
            }
            Ok(Answer::Queued { busy, .. }) => request.waits(busy),
            Ok(Answer::Busy { .. }) => return Err(LockError::Busy),
            Ok(Answer::Differs { places }) => return Err(LockError::OtherPlaces { places }),
            Ok(_) => return Err(LockError::Closed),
            // What went wrong is said, and not that time has gone by meanwhile.
            Err(error) => return Err(error.into()),
        }
        caller.moves().await;
        let changed = news.changed();
        match wanted.until {
            None => drop(changed.await),
            Some(until) => {
                if timeout_at(until, changed).await.is_err() {
                    return Err(wanted.timed_out());
                }
            }
        }
    }
}

async fn acquire_all(
    client: Arc<Client>,
    all: Vec<(Arc<str>, String)>,
    wanted: Wanted,
) -> Result<Vec<Guard>, LockError> {
    let mut guards = Vec::with_capacity(all.len());
    // Renewed until all are held.
    let each = Wanted { lease: None, ..wanted };
    for (name, key) in all {
        let request = Request::take(&client, &key, 1, None);
        guards.push(acquire(Caller::there(), request, name, each).await?);
    }
    if let Some(lease) = wanted.lease {
        for guard in &guards {
            let (hold, renews) = (guard.hold(), &guard.renews);
            let renewed = hold.renew(lease, client.patience(), renews).await;
            renewed.map_err(|error| match error {
                ReleaseError::Store(error) => error.into(),
                ReleaseError::Lost(_) => wanted.timed_out(),
            })?;
        }
    }
    Ok(guards)
}

/// A lock that is held. Dropping it lets the next in, and waits for nothing; it may be dropped on
/// any thread. Of several that an [owner](Owner) has, the last one does.
#[must_use = "dropping it lets go of the lock"]
pub struct Guard {
    /// Until it is released.
    hold: Option<Arc<Hold>>,
    /// It wants the hold renewed.
    renews: Arc<AtomicBool>,
    /// After the hold. None: it was not handed out yet.
    handles: Option<Handles>,
}

impl Guard {
    /// Of a run: its answer came just now.
    pub(crate) fn of_run(
        request: &Arc<Request>,
        name: Arc<str>,
        fence: u64,
        sent: Moment,
    ) -> Guard {
        let lease = request.client.lease();
        Guard::of(Hold::of(request, name, (fence, 1), sent, lease, true), true)
    }

    fn of(hold: Arc<Hold>, renews: bool) -> Self {
        Guard { hold: Some(hold), renews: Arc::new(AtomicBool::new(renews)), handles: None }
    }

    /// It has the hold no more. Also said: was it the last one?
    fn gives(&mut self) -> Option<(Arc<Hold>, bool)> {
        let hold = self.hold.take()?;
        hold.tenure.renews_no_more(&self.renews);
        let last = hold.guards.fetch_sub(1, Relaxed) == 1;
        Some((hold, last))
    }

    /// It is the program's from now on.
    pub(crate) fn handed(&mut self, handles: &Handles) {
        self.handles = Some(handles.clone());
    }

    fn hold(&self) -> &Arc<Hold> {
        match &self.hold {
            Some(hold) => hold,
            None => unreachable!("a guard has its hold until it is released"),
        }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.hold().name
    }

    /// The number of this hold: greater than those of all holds of this lock before, also after the
    /// store has lost its records, unless its clock has gone back by more than the time since. What
    /// [`Fenced`](turnwise_locks::Fenced) resources compare.
    pub fn fence(&self) -> Fence {
        self.hold().fence
    }

    /// Of the pool's places, this one: from 1 on. Of a lock, the only one.
    pub fn place(&self) -> u32 {
        self.hold().place
    }

    /// Was the lock taken away, or is its lease over by this machine's clock? Then somebody else
    /// may hold it. Stale on return: a resource that must not be touched then compares fences.
    /// Wait-free but for a short lock.
    pub fn is_lost(&self) -> bool {
        self.hold().tenure.is_lost()
    }

    /// Comes when the lock is lost; never, if it is given back before. A future on any runtime.
    pub fn lost(&self) -> Lost {
        self.hold().tenure.lost()
    }

    /// So long it holds at least, if nobody forces it and it is not renewed.
    pub fn remaining(&self) -> Duration {
        self.hold().tenure.remaining()
    }

    /// Has the lease begin anew, and last so long at least; the client renews it no more for this
    /// guard. A lease that lasts longer stays: the one before, or that of another guard of its
    /// [owner](Owner).
    ///
    /// The answer is [`ReleaseError::Lost`] if the lock was lost before.
    pub fn renew(&self, lease: Duration) -> Reply<Result<(), ReleaseError>> {
        let (hold, renews) = (self.hold().clone(), self.renews.clone());
        self.hold().request.client.reply(async move {
            let until = hold.tenure.until().timer();
            hold.renew(lease, until, &renews).await
        })
    }

    /// Lets go, and tells whether it was held until then. Of several guards of an owner, only the
    /// last one lets go.
    pub fn release(mut self) -> Release {
        match self.gives() {
            Some((hold, true)) => {
                let client = hold.request.client.clone();
                let leaves = hold.request.leaving();
                Release::new(&client.home, |caller| release(caller, hold, leaves, None))
            }
            Some((hold, false)) if hold.tenure.is_lost() => {
                Release::over(Err(ReleaseError::Lost(hold.fence)))
            }
            _ => Release::over(Ok(())),
        }
    }
}

impl Guard {
    /// Begins a job in the place. True: one that has not ended has left it dirty.
    pub(crate) fn begin(&self) -> Reply<Result<bool, LockError>> {
        let hold = self.hold().clone();
        self.hold().request.client.reply(async move {
            let op = hold.request.op(Step::Begin { token: hold.request.token.clone() });
            let client = hold.request.client.clone();
            match client.call(&op, client.patience()).await.0? {
                Answer::Begun { dirty } => Ok(dirty),
                _ => Err(LockError::Closed),
            }
        })
    }

    /// Ends the job, and lets go of the place: it is clean, or quarantined.
    pub(crate) fn end(mut self, quarantine: bool) -> Release {
        match self.gives() {
            Some((hold, _)) => {
                let client = hold.request.client.clone();
                let leaves = hold.request.leaving();
                Release::new(&client.home, |caller| release(caller, hold, leaves, Some(quarantine)))
            }
            None => Release::over(Ok(())),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.gives();
    }
}

/// Lets go. After a job also said: is its place quarantined?
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
    // From now on nothing renews it.
    drop(hold);
    // The program's end waits for it.
    let _under_way = client.business.under_way();
    let (answer, late) = client.call_by(&caller, &op, client.patience()).await;
    match answer {
        Ok(Answer::Released) if !was_lost => Ok(()),
        Ok(_) if was_lost || !late => lost(),
        // An earlier request may have released it, and others have held it since.
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
