//! Users of locks, slots and admissions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use turnwise_redis::admission::Refused;
use turnwise_redis::slots::{RunSlotError, SlotError};
use turnwise_redis::ticks::NotMine;
use turnwise_redis::{
    Acquire, Guard, Limits, LockError, Owner, ReleaseError, Remote, RemoteBuilder, SlotPool,
    StoreError,
};

use crate::books::{Belief, Held, until};
use crate::net::{Net, Planted, Rule, Sim};

pub const LEASE: Duration = Duration::from_millis(200);
pub const PLACE: Duration = Duration::from_millis(150);
pub const PATIENCE: Duration = Duration::from_millis(800);
/// A call without a limit waits for others, some of whom die.
pub const LONG: Duration = Duration::from_secs(20);
/// The time that timers add to a limit.
pub const SLACK: Duration = Duration::from_millis(10);
/// The places of the slots.
const SLOTS: u32 = 2;
/// The places of each admission.
pub const PLACES: u64 = 2;
pub const RAFFLES: [&str; 4] = ["r0", "r1", "r2", "r3"];

/// The time between two ticks.
const EVERY: Duration = Duration::from_millis(80);

pub fn builder(net: &Net) -> RemoteBuilder {
    let gate = net.clone();
    let here = Remote::builder().here(net.client(), move |cx| gate.gate(true, cx));
    here.prefix("s").lease(LEASE).place(PLACE).give_up_after(PATIENCE)
}

/// A client of a run, as its users see it.
#[derive(Clone)]
pub struct Host {
    pub sim: Arc<Sim>,
    pub net: Net,
    pub remote: Remote,
}

/// A limit on the wait, or none.
type Wait = Option<Duration>;

impl Host {
    pub async fn think(&self) {
        sleep(self.sim.millis(30)).await;
    }

    /// Awaits a request, sometimes late, and sometimes not to its end.
    async fn wait<T, E>(&self, what: &str, wait: Wait, asked: Acquire<T, E>) -> Option<Result<T, E>>
    where
        T: Send + 'static,
        E: From<turnwise::AskError> + Send + 'static,
    {
        let sim = &self.sim;
        if sim.once_in(8) {
            // The client's thread begins with it.
            sleep(sim.millis(60)).await;
        }
        if sim.once_in(8) {
            return timeout(sim.millis(40), asked).await.ok();
        }
        let limit = wait.map_or(LONG, |wait| wait + SLACK);
        Some(sim.within(what, limit, asked).await)
    }

    /// A request that was refused has an error that says why.
    fn is_said(&self, what: &str, error: &LockError, wait: Wait) {
        let right = match error {
            LockError::TimedOut { .. } => wait.is_some(),
            LockError::Busy { .. } => wait == Some(PATIENCE),
            LockError::Store(error) => self.is_network(error),
            _ => self.net.is_dead(),
        };
        self.sim.check(Rule::Answered, right, || format!("{what}: {error:?}"));
    }

    pub fn is_network(&self, error: &StoreError) -> bool {
        let lost = matches!(error, StoreError::Unreachable { .. } | StoreError::TimedOut { .. });
        lost || self.net.is_dead()
    }

    /// Limits, some with a lease.
    fn limits(&self) -> (Limits, Wait) {
        let sim = &self.sim;
        let wait = (!sim.once_in(3)).then(|| Duration::from_millis(5) + sim.millis(250));
        let limits = wait.map_or(Limits::NONE, Limits::wait);
        let lease = Duration::from_millis(20) + sim.millis(100);
        (if sim.once_in(3) { limits.lease(lease) } else { limits }, wait)
    }

    /// The belief of a user: that of the guard, but for planted faults.
    fn believes(&self, guard: &Arc<Guard>) -> Held {
        let weak = Arc::downgrade(guard);
        match self.sim.planted {
            Some(Planted::LeaseNotCompared) => Held::Believed(weak, Belief::Always),
            Some(Planted::LeaseByWallClock) => {
                let left = guard.remaining().unwrap_or_default().as_millis();
                let until = self.net.wall() + i64::try_from(left).unwrap();
                Held::Believed(weak, Belief::Wall(until))
            }
            _ => Held::Guard(weak),
        }
    }

    /// Uses a hold, and ends it.
    async fn uses(&self, name: &str, guard: Guard, alone: bool) {
        let (sim, net) = (&self.sim, &self.net);
        if net.is_dead() {
            return;
        }
        let (fence, guard) = (guard.fence().number(), Arc::new(guard));
        sim.books().holds(sim, name, net, self.believes(&guard), fence);
        if sim.once_in(6) {
            let renewed = guard.renew(Duration::from_millis(20) + sim.millis(300));
            let renewed = sim.within("renew", PATIENCE + SLACK, renewed).await;
            let right = match renewed {
                Ok(()) | Err(ReleaseError::Lost(_)) => true,
                Err(ReleaseError::Store(error)) => self.is_network(&error) || net.is_dead(),
                Err(_) => false,
            };
            sim.check(Rule::Answered, right, || format!("renew {name}"));
        }
        // Some uses last for several leases.
        let lasts = sim.millis(if sim.once_in(10) { 700 } else { 60 });
        match alone {
            true => drop(timeout(lasts, guard.lost()).await),
            // Several guards would be woken in any order.
            false => sleep(lasts).await,
        }
        let Ok(guard) = Arc::try_unwrap(guard) else { unreachable!("books keep no guard") };
        if sim.once_in(2) {
            return drop(guard);
        }
        let released = sim.within("release", PATIENCE + SLACK, guard.release()).await;
        let right = match released {
            Ok(()) | Err(ReleaseError::Lost(_)) => true,
            Err(ReleaseError::Store(error)) => self.is_network(&error),
            Err(_) => net.is_dead(),
        };
        sim.check(Rule::Answered, right, || format!("release {name}"));
    }

    /// Locks.
    pub async fn locks(self) {
        let (sim, locks, owner) = (&self.sim, self.remote.locks(), Owner::new());
        while !sim.is_calm() {
            self.think().await;
            let name = ["a", "b"][usize::try_from(sim.roll(2)).unwrap()];
            let (limits, wait) = self.limits();
            let (asked, wait) = match sim.roll(7) {
                0 => (locks.try_lock(name), Some(PATIENCE)),
                1 => (locks.lock_as(&owner, name, limits), wait),
                2 => {
                    let all = self.wait("lock_all", wait, locks.lock_all(["a", "b"], limits)).await;
                    match all {
                        Some(Ok(all)) => {
                            for guard in all {
                                let name = guard.name().to_owned();
                                self.uses(&name, guard, true).await;
                            }
                        }
                        Some(Err(error)) => self.is_said("lock_all", &error, wait),
                        None => {}
                    }
                    continue;
                }
                3 => (locks.lock(name), None),
                _ => (locks.lock_within(name, limits), wait),
            };
            match self.wait(name, wait, asked).await {
                Some(Ok(guard)) => self.uses(name, guard, true).await,
                Some(Err(error)) => self.is_said(name, &error, wait),
                None => {}
            }
        }
    }

    /// Two tasks of one owner, whose holds are one.
    pub async fn owners(self) {
        let owner = Owner::new();
        let one = async |_: u32| {
            while !self.sim.is_calm() {
                self.think().await;
                let (limits, wait) = self.limits();
                let asked = self.remote.locks().lock_as(&owner, "a", limits);
                match self.wait("owner", wait, asked).await {
                    Some(Ok(guard)) => self.uses("a", guard, false).await,
                    Some(Err(error)) => self.is_said("owner", &error, wait),
                    None => {}
                }
            }
        };
        tokio::join!(biased; one(1), one(2));
    }

    /// Slots.
    pub async fn slots(self) {
        let slots = self.remote.slots("boxes", SLOTS).unwrap();
        while !self.sim.is_calm() {
            self.think().await;
            let (limits, wait) = self.limits();
            match self.wait("slot", wait, slots.acquire(limits)).await {
                Some(Ok(guard)) => {
                    let name = format!("boxes/{}", guard.place());
                    self.uses(&name, guard, true).await;
                }
                Some(Err(error)) => self.is_said("slot", &error, wait),
                None => {}
            }
        }
    }

    /// A job that runs once per tick.
    pub async fn ticks(self) {
        let (sim, net) = (&self.sim, &self.net);
        let job = self.remote.ticks().job("hourly", EVERY).unwrap();
        while !sim.is_calm() {
            self.think().await;
            let attended = self.wait("tick", Some(PATIENCE), job.take()).await;
            if net.is_dead() {
                return;
            }
            match attended {
                Some(Ok(run)) => {
                    sim.books().runs(sim, net, run.tick());
                    self.uses("hourly", run.into_guard(), true).await;
                }
                Some(Err(NotMine::Taken { next, .. } | NotMine::StillRunning { next, .. })) => {
                    sim.check(Rule::Answered, next <= EVERY * 3 / 2, || format!("{next:?}"));
                }
                Some(Err(NotMine::Failed(error))) => self.is_said("tick", &error, None),
                Some(Err(other)) => sim.breaks(Rule::Answered, || format!("{other:?}")),
                None => {}
            }
        }
    }

    /// Jobs in slots, which are cleaned up after each.
    pub async fn jobs(self) {
        let pool = self.remote.slot_pool("desks", SLOTS as usize).set_up(|_| Ok::<(), String>(()));
        let pool: SlotPool<(), String> = pool.clean_up(|_, _| Ok(())).build().unwrap();
        while !self.sim.is_calm() {
            self.think().await;
            let (limits, wait) = self.limits();
            let (sim, net) = (&self.sim, &self.net);
            let job = async |slot: &mut turnwise_redis::Slot<(), _>| {
                let (lasts, name) = (until(), format!("desks/{}", slot.guard().place()));
                let held = Held::Until(Arc::downgrade(&lasts));
                let lives = |lasts: &Mutex<Instant>| {
                    *lasts.lock().unwrap() = Instant::now() + slot.guard().remaining().unwrap();
                };
                lives(&lasts);
                if !slot.is_lost() {
                    sim.books().holds(sim, &name, net, held, slot.fence().number());
                }
                for _ in 0..sim.roll(10) {
                    sleep(Duration::from_millis(6)).await;
                    lives(&lasts);
                }
            };
            let ran = pool.run_async(limits, job);
            // A wait, the job, and the steps before and after it.
            let limit = wait.unwrap_or(LONG) + PATIENCE * 2 + Duration::from_millis(100);
            let right = match sim.within("job", limit, ran).await {
                Ok(())
                | Err(
                    RunSlotError::Lost { .. }
                    | RunSlotError::CleanUp { .. }
                    | RunSlotError::NotStarted(SlotError::NotAcquired(LockError::TimedOut {
                        ..
                    })),
                ) => true,
                Err(RunSlotError::Store { error: ReleaseError::Store(error), .. }) => {
                    self.is_network(&error)
                }
                Err(RunSlotError::NotStarted(SlotError::NotAcquired(LockError::Store(error)))) => {
                    self.is_network(&error)
                }
                // It was lost before it began.
                Err(RunSlotError::NotStarted(SlotError::NotAcquired(LockError::Closed))) => true,
                Err(_) => net.is_dead(),
            };
            sim.check(Rule::Answered, right, || "a job".to_owned());
        }
    }

    /// Applicants for the places of raffles.
    pub async fn applicants(self, user: u64) {
        let sim = &self.sim;
        for number in 0.. {
            if sim.is_calm() {
                return;
            }
            sleep(sim.millis(60)).await;
            let name = RAFFLES[usize::try_from(sim.roll(4)).unwrap()];
            let raffle = self.remote.admission(name, PLACES).unwrap();
            let applicant = format!("applicant {}", sim.roll(6));
            let row = format!("{} {user} {number} for {applicant}", self.net.client());
            let wait = Duration::from_millis(5) + sim.millis(250);
            // A refusal has to be made certain.
            let (limit, limits) = (Some(wait + PLACE), Limits::wait(wait));
            let answer = if sim.once_in(2) {
                self.wait("admit", limit, raffle.admit_within(&applicant, row.clone(), limits))
                    .await
            } else {
                match self.wait("reserve", limit, raffle.reserve_within(&applicant, limits)).await {
                    Some(Ok(reserved)) => {
                        sleep(sim.millis(60)).await;
                        if sim.once_in(4) {
                            drop(reserved);
                            continue;
                        }
                        let confirmed = reserved.confirm(row.clone());
                        Some(sim.within("confirm", PATIENCE + SLACK, confirmed).await)
                    }
                    Some(Err(error)) => Some(Err(error)),
                    None => None,
                }
            };
            if self.net.is_dead() {
                return;
            }
            let Some(answer) = answer else { continue };
            let mut books = sim.books();
            match answer {
                Ok(admitted) => {
                    let place = (admitted.place, PLACES);
                    books.admitted(sim, name, (&applicant, &row), place);
                }
                Err(Refused::Store(error)) => {
                    let right = self.is_network(&error);
                    drop(books);
                    sim.check(Rule::Answered, right, || format!("{error:?}"));
                }
                Err(
                    refused @ (Refused::Closed { .. }
                    | Refused::Duplicate { .. }
                    | Refused::Pending { .. }
                    | Refused::Busy
                    | Refused::TimedOut { .. }
                    | Refused::Lost(_)),
                ) => books.refused(sim, name, &row, matches!(refused, Refused::Closed { .. })),
                Err(error) => {
                    drop(books);
                    sim.breaks(Rule::Answered, || format!("{error:?}"));
                }
            }
        }
    }
}
