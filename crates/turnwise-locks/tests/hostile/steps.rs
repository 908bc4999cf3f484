//! The steps of a program: what user code may do at any time, and to what lies about.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use turnwise_locks::rate::{AcquireRate, RateError};
use turnwise_locks::{
    Acquire, AcquireAll, AcquireMutex, Fence, FencedError, Guard, Key, KeyPermit, LockError, Lost,
    MutexGuard, Opening, Permit, ReadGuard, ReleaseError, Run, WriteGuard,
};

use super::common::poll;
use super::world::{
    About, BURST, Body, Fate, Hold, KEY_PERMITS, KEYS, Name, PERMITS, State, Tenant, Value, What,
    World, is_outermost, is_quiet, limits, misbehave, of, once_in, planned, short, swallow, waker,
};

/// A value that a program keeps, for any of its threads.
pub(crate) enum Thing {
    Run(Run<usize>, Arc<Fate>),
    Pin(Key<Name, State>, usize),
    Asked(Ask<Acquire<Name, Guard<Name>>>),
    Guard(Kept<Guard<Name>>),
    Reads(Ask<Acquire<Name, ReadGuard<Name>>>),
    Reader(Kept<ReadGuard<Name>>),
    Writes(Ask<Acquire<Name, WriteGuard<Name>>>),
    Writer(Kept<WriteGuard<Name>>),
    Wants(Ask<Acquire<(), Permit>>),
    Permit(Kept<Permit>),
    WantsKey(Ask<Acquire<Name, KeyPermit<Name>>>),
    KeyPermit(Kept<KeyPermit<Name>>),
    All(AcquireAll<Name>, Vec<usize>),
    Lost(Lost),
    Opening(Opening),
    WantsValue(AcquireMutex<Name, Value>, usize),
    Value(KeptValue),
    Rated(AcquireRate<Tenant>, Rated),
}

/// A request for permits of a rate: of which key, how many, and when.
#[derive(Clone, Copy)]
pub(crate) struct Rated {
    key: usize,
    permits: u32,
    asked: Duration,
}

/// A value that is held, and counted so.
pub(crate) struct KeptValue {
    guard: Option<MutexGuard<Name, Value>>,
    hold: Hold,
    world: Arc<World>,
}

impl KeptValue {
    fn new(guard: MutexGuard<Name, Value>, key: usize, world: &Arc<World>) -> Self {
        let hold = Hold { what: What::Value, key, weight: 1 };
        hold.begins(world);
        if guard.0 != key || guard.key().0 != key {
            world.finding(format!("key {key} got the value of {}", guard.0));
        }
        KeptValue { guard: Some(guard), hold, world: world.clone() }
    }
}

impl Drop for KeptValue {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.hold.ends(&self.world);
        }
    }
}

/// A request for a hold.
pub(crate) struct Ask<A> {
    asked: A,
    hold: Hold,
}

/// A hold that is counted.
pub(crate) struct Kept<G> {
    guard: Option<G>,
    hold: Hold,
    world: Arc<World>,
}

impl<G: Grip> Kept<G> {
    fn new(guard: G, hold: Hold, world: &Arc<World>) -> Self {
        hold.begins(world);
        let kept = Kept { guard: Some(guard), hold, world: world.clone() };
        kept.look();
        kept
    }

    fn guard(&self) -> &G {
        self.guard.as_ref().expect("it holds")
    }

    fn let_go(mut self) -> G {
        self.hold.ends(&self.world);
        self.guard.take().expect("it holds")
    }

    /// True if the guarded object is still its own.
    fn look(&self) {
        let fenced = match self.hold.what {
            What::Lock => &self.world.fenced[0][self.hold.key],
            What::Write => &self.world.fenced[1][self.hold.key],
            What::Read | What::Permit | What::Value | What::KeyPermit => return,
        };
        // It waits for others who look, and so does the second look.
        if is_quiet() {
            return;
        }
        let used = fenced.with(self.guard().fence(), |()| ());
        let stale = matches!(used, Err(FencedError::Stale { .. }));
        if stale && !self.guard().is_lost() {
            self.world.finding(format!("{:?}: {used:?}, and nothing is lost", self.hold));
        }
    }
}

impl<G> Drop for Kept<G> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.hold.ends(&self.world);
        }
    }
}

/// The methods that all requests have.
pub(crate) trait Waits {
    type Guard: Grip;
    fn waits(&mut self, limit: Duration) -> Option<Result<Self::Guard, LockError>>;
    fn polled(&mut self, world: &Arc<World>) -> Option<Result<Self::Guard, LockError>>;
}

/// The methods that all guards have.
pub(crate) trait Grip {
    fn fence(&self) -> Fence;
    fn is_lost(&self) -> bool;
    fn lost(&self) -> Lost;
    fn remaining(&self) -> Option<Duration>;
    fn renew(&self, lease: Duration) -> Result<(), ReleaseError>;
    fn release(self) -> Result<(), ReleaseError>;
}

macro_rules! guards {
    ($($guard:ty: $key:ty),*) => {$(
        impl Waits for Acquire<$key, $guard> {
            type Guard = $guard;
            fn waits(&mut self, limit: Duration) -> Option<Result<$guard, LockError>> {
                self.wait_timeout(limit)
            }
            fn polled(&mut self, world: &Arc<World>) -> Option<Result<$guard, LockError>> {
                let is_ready = self.is_ready();
                let got = polled(self, world);
                if is_ready && got.is_none() {
                    world.finding("a request was ready, and waits".into());
                }
                got
            }
        }
        impl Grip for $guard {
            fn fence(&self) -> Fence {
                self.fence()
            }
            fn is_lost(&self) -> bool {
                self.is_lost()
            }
            fn lost(&self) -> Lost {
                self.lost()
            }
            fn remaining(&self) -> Option<Duration> {
                self.remaining()
            }
            fn renew(&self, lease: Duration) -> Result<(), ReleaseError> {
                self.renew(lease).wait()
            }
            fn release(self) -> Result<(), ReleaseError> {
                self.release().wait()
            }
        }
    )*};
}
guards!(
    Guard<Name>: Name,
    ReadGuard<Name>: Name,
    WriteGuard<Name>: Name,
    Permit: (),
    KeyPermit<Name>: Name
);

/// Polls with a waker that misbehaves. A drop that panics while there is a result would leak that.
fn polled<F: Future + Unpin>(future: &mut F, world: &Arc<World>) -> Option<F::Output> {
    let waker = waker(world);
    let got = poll(future, &waker);
    swallow(|| drop(waker));
    got
}

/// The content of a slot after a look at a request.
fn ask<A: Waits>(
    mut ask: Ask<A>,
    world: &Arc<World>,
    again: fn(Ask<A>) -> Thing,
    held: fn(Kept<A::Guard>) -> Thing,
) -> Option<Thing> {
    let got = match of(8) {
        0 | 1 => return None,
        2 if world.plan.forgets => {
            world.forgotten[ask.hold.of()][ask.hold.key].store(true, SeqCst);
            std::mem::forget(ask);
            return None;
        }
        3 | 4 if !is_quiet() => ask.asked.waits(Duration::from_micros(of(100) as u64)),
        _ => ask.asked.polled(world),
    };
    match got {
        None => Some(again(ask)),
        Some(Ok(guard)) => Some(held(Kept::new(guard, ask.hold, world))),
        Some(Err(LockError::Taken)) => {
            world.finding(format!("{:?} was taken", ask.hold));
            None
        }
        Some(Err(LockError::Closed)) if !world.closed[ask.hold.of()].load(SeqCst) => {
            world.finding(format!("{:?} is closed", ask.hold));
            None
        }
        Some(Err(_)) => None,
    }
}

/// The content of a slot after a guard was used. Without leases nothing is lost.
fn keep<G: Grip>(kept: Kept<G>, world: &Arc<World>, held: fn(Kept<G>) -> Thing) -> Option<Thing> {
    let strict = world.plan.is_strict();
    // All of these but the drop may wait for a turn of the lock.
    match if is_quiet() { 9 } else { of(10) } {
        0 | 1 => {
            if kept.let_go().release().is_err() && strict {
                world.finding("a release of what was lost".into());
            }
            return None;
        }
        2 if !strict => {
            let _ = kept.guard().renew(Duration::from_micros(of(300) as u64));
        }
        3 => {
            let lost = kept.guard().is_lost();
            if lost && (strict || !kept.guard().is_lost()) {
                world.finding(format!("{:?} is lost", kept.hold));
            }
            let _ = kept.guard().remaining();
        }
        4 => {
            let mut lost = kept.guard().lost();
            polled(&mut lost, world);
            world.lying.lock().unwrap().push(Thing::Lost(lost));
        }
        5 | 6 => kept.look(),
        7 if world.plan.forgets => {
            world.forgotten[kept.hold.of()][kept.hold.key].store(true, SeqCst);
            std::mem::forget(kept);
            return None;
        }
        _ => return None,
    }
    Some(held(kept))
}

fn keep_writer(kept: Kept<WriteGuard<Name>>, world: &Arc<World>) -> Option<Thing> {
    if is_quiet() || !once_in(4) {
        return keep(kept, world, Thing::Writer);
    }
    let hold = Hold { what: What::Read, ..kept.hold };
    // From here on it counts as a reader, and no other is in yet.
    let writer = kept.let_go();
    hold.begins(world);
    Some(Thing::Reader(Kept { guard: Some(writer.downgrade()), hold, world: world.clone() }))
}

/// Permits that are divided, put together or forgotten.
fn keep_permit(kept: Kept<Permit>, world: &Arc<World>) -> Option<Thing> {
    if is_quiet() || !once_in(4) {
        return keep(kept, world, Thing::Permit);
    }
    let hold = kept.hold;
    let mut permit = kept.let_go();
    let held = |permit: Permit| {
        let hold = Hold { weight: permit.permits(), ..hold };
        Thing::Permit(Kept::new(permit, hold, world))
    };
    let all = permit.permits();
    match (permit.split(1), of(3)) {
        (Some(part), 0) => {
            let strict = world.plan.is_strict();
            if let Err(part) = permit.merge(part) {
                if strict {
                    world.finding("two parts of one hold do not fit".into());
                }
                drop(part);
            } else if permit.permits() != all {
                world.finding(format!("{} of {all} permits", permit.permits()));
            }
        }
        (Some(part), 1) if !world.plan.is_strict() => {
            // Requests for many are refused meanwhile.
            part.forget();
            world.permits.add(1);
        }
        (Some(part), _) => {
            let part = held(part);
            world.lying.lock().unwrap().push(part);
        }
        (None, _) => {}
    }
    Some(held(permit))
}

/// Looks at a run.
fn run(mut run: Run<usize>, fate: Arc<Fate>, world: &Arc<World>) -> Option<Thing> {
    match of(8) {
        0 | 1 => {
            fate.leaves(world);
            match if once_in(2) { run.cancel() } else { run.abort() } {
                Ok(()) => {
                    fate.cancelled(world);
                    return None;
                }
                Err(back) => run = back,
            }
        }
        2 | 3 => {
            fate.leaves(world);
            return None;
        }
        4 if world.plan.forgets => {
            world.lost_runs.fetch_add(1, SeqCst);
            std::mem::forget(run);
            return None;
        }
        _ => {
            if let Some(outcome) = polled(&mut run, world) {
                fate.came_to(world, outcome);
                return None;
            }
        }
    }
    Some(Thing::Run(run, fate))
}

fn pin(pin: Key<Name, State>, key: usize, world: &Arc<World>) -> Option<Thing> {
    let _begins = world.begins(key);
    match of(8) {
        0 | 1 if !(is_quiet() && world.plan.executor) => {
            let (body, fate) = Body::new(world, Some(key));
            let ran = pin.try_run(move |state| body.run(&[key], &mut [state]));
            match ran {
                Ok(value) => fate.came_to(world, Ok(value)),
                Err(refused) => fate.refused(world, &refused),
            }
        }
        2 | 3 => {
            let (body, fate) = Body::new(world, Some(key));
            let run = match once_in(2) {
                true => {
                    pin.start(limits(true), move |state: &mut State| body.run(&[key], &mut [state]))
                }
                false => pin.run_async(limits(true), async move |state: &mut State| {
                    body.run_async(key, state).await
                }),
            };
            world.lying.lock().unwrap().push(Thing::Run(run, fate));
        }
        4 => drop(pin.clone()),
        5 if world.plan.forgets => {
            world.forgotten[0][key].store(true, SeqCst);
            std::mem::forget(pin);
            return None;
        }
        _ => return None,
    }
    Some(Thing::Pin(pin, key))
}

fn all(mut all: AcquireAll<Name>, keys: Vec<usize>, world: &Arc<World>) -> Option<Thing> {
    let got = match of(4) {
        0 => return None,
        1 if !is_quiet() => all.wait_timeout(Duration::from_micros(of(100) as u64)),
        _ => polled(&mut all, world),
    };
    match got {
        None => Some(Thing::All(all, keys)),
        Some(Ok(guards)) => {
            if guards.len() != keys.len() {
                world.finding(format!("{} guards for {keys:?}", guards.len()));
            }
            let kept = guards.into_iter().zip(keys).map(|(guard, key)| {
                let hold = Hold { what: What::Lock, key, weight: 1 };
                Thing::Guard(Kept::new(guard, hold, world))
            });
            let kept: Vec<Thing> = kept.collect();
            world.lying.lock().unwrap().extend(kept);
            None
        }
        Some(Err(_)) => None,
    }
}

/// Looks at a request for a value.
fn wants_value(
    mut asked: AcquireMutex<Name, Value>,
    key: usize,
    world: &Arc<World>,
) -> Option<Thing> {
    let got = match of(8) {
        0 | 1 => return None,
        2 if world.plan.forgets => {
            world.forgotten[4][key].store(true, SeqCst);
            world.lost_values.fetch_add(1, SeqCst);
            std::mem::forget(asked);
            return None;
        }
        3 | 4 if !is_quiet() => asked.wait_timeout(Duration::from_micros(of(100) as u64)),
        _ => polled(&mut asked, world),
    };
    match got {
        None => Some(Thing::WantsValue(asked, key)),
        Some(Ok(guard)) => Some(Thing::Value(KeptValue::new(guard, key, world))),
        Some(Err(LockError::Closed)) if !world.closed[4].load(SeqCst) => {
            world.finding(format!("the value of {key} is closed"));
            None
        }
        Some(Err(_)) => None,
    }
}

/// Uses a value.
fn value(mut kept: KeptValue, world: &Arc<World>) -> Option<Thing> {
    let key = kept.hold.key;
    match of(8) {
        0 => {
            kept.hold.ends(world);
            let guard = kept.guard.take().expect("it holds");
            let value = guard.remove();
            if value.0 != key {
                world.finding(format!("key {key} had the value of {}", value.0));
            }
            return None;
        }
        1 if world.plan.forgets => {
            world.forgotten[4][key].store(true, SeqCst);
            world.lost_values.fetch_add(1, SeqCst);
            std::mem::forget(kept);
            return None;
        }
        2 => swallow(move || {
            // Dropped by its panic, if it does.
            let _kept = kept;
            planned();
        }),
        3 | 4 if !is_quiet() => {
            misbehave(world, 10);
            if kept.guard.as_ref().is_none_or(|guard| guard.0 != key) {
                world.finding(format!("the value of key {key} is another one"));
            }
            return Some(Thing::Value(kept));
        }
        _ => {}
    }
    None
}

/// Looks at a request for permits of a rate.
fn rated(mut asked: AcquireRate<Tenant>, rated: Rated, world: &Arc<World>) -> Option<Thing> {
    let got = match of(8) {
        0 | 1 => return None,
        2 if world.plan.forgets => {
            std::mem::forget(asked);
            return None;
        }
        3 if !is_quiet() && is_outermost() => asked.wait(),
        _ => match polled(&mut asked, world) {
            Some(got) => got,
            None => return Some(Thing::Rated(asked, rated)),
        },
    };
    came_to(got, rated, world);
    None
}

fn came_to(got: Result<(), RateError>, rated: Rated, world: &World) {
    let Rated { key, permits, asked } = rated;
    match got {
        Ok(()) => world.granted(key, permits, asked),
        Err(RateError::TooMany { burst }) if burst == BURST && permits > BURST => {}
        Err(RateError::Expected { .. }) if permits <= BURST => {}
        Err(RateError::WouldBlock) => {}
        Err(why) => world.finding(format!("{permits} permits of a rate: {why:?}")),
    }
}

/// A step on the rates.
fn on_rates(world: &Arc<World>, key: usize) -> Option<Thing> {
    let (tenant, permits) = (Tenant::new(world, key), 1 + of(BURST as usize + 1) as u32);
    let rated = Rated { key, permits, asked: world.now() };
    match of(6) {
        0 | 1 => came_to(world.rates.try_acquire(tenant, permits), rated, world),
        2 => {
            let asked = world.rates.acquire(tenant);
            return Some(Thing::Rated(asked, Rated { permits: 1, ..rated }));
        }
        3 => {
            let (available, _) = (world.rates.available(&tenant), world.rates.known());
            if available > BURST {
                world.finding(format!("{available} permits of a rate are there"));
            }
        }
        _ => {
            let limit = Duration::from_micros(of(60) as u64);
            return Some(Thing::Rated(world.rates.acquire_within(tenant, permits, limit), rated));
        }
    }
    None
}

/// Does something to what lies about; what goes back there.
fn handle(thing: Thing, world: &Arc<World>) -> Option<Thing> {
    match thing {
        Thing::Run(one, fate) => run(one, fate, world),
        Thing::Pin(one, key) => pin(one, key, world),
        Thing::Asked(asked) => ask(asked, world, Thing::Asked, Thing::Guard),
        Thing::Reads(asked) => ask(asked, world, Thing::Reads, Thing::Reader),
        Thing::Writes(asked) => ask(asked, world, Thing::Writes, Thing::Writer),
        Thing::Wants(asked) => ask(asked, world, Thing::Wants, Thing::Permit),
        Thing::WantsKey(asked) => ask(asked, world, Thing::WantsKey, Thing::KeyPermit),
        Thing::Guard(kept) => keep(kept, world, Thing::Guard),
        Thing::Reader(kept) => keep(kept, world, Thing::Reader),
        Thing::Writer(kept) => keep_writer(kept, world),
        Thing::Permit(kept) => keep_permit(kept, world),
        Thing::KeyPermit(kept) => keep(kept, world, Thing::KeyPermit),
        Thing::All(one, keys) => all(one, keys, world),
        Thing::WantsValue(asked, key) => wants_value(asked, key, world),
        Thing::Value(kept) => value(kept, world),
        Thing::Rated(asked, of) => rated(asked, of, world),
        Thing::Lost(mut lost) => polled(&mut lost, world).is_none().then_some(Thing::Lost(lost)),
        Thing::Opening(mut opening) => match of(3) {
            0 => None,
            1 if !is_quiet() => match opening.wait_timeout(Duration::from_micros(50)) {
                None => Some(Thing::Opening(opening)),
                Some(_) => None,
            },
            _ => polled(&mut opening, world).is_none().then_some(Thing::Opening(opening)),
        },
    }
}

/// Drops what has keys: one by one, so that two that panic do not abort the process.
fn drop_each<T>(all: Vec<T>) {
    for one in all {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(one)));
    }
}

/// A step on runs by key.
fn on_runs(world: &Arc<World>, key: usize) -> Option<Thing> {
    let name = Name::new(world, key);
    let _begins = world.begins(key);
    let sent = || Body::new(world, Some(key));
    match of(12) {
        0 | 1 if !(is_quiet() && world.plan.executor) => {
            let (body, fate) = sent();
            match world.keyed.try_run(name, move |state| body.run(&[key], &mut [state])) {
                Ok(value) => fate.came_to(world, Ok(value)),
                Err(refused) => fate.refused(world, &refused),
            }
        }
        2..=4 => {
            let (body, fate) = sent();
            let run = match once_in(2) {
                true => world.keyed.start(name, limits(true), move |state: &mut State| {
                    body.run(&[key], &mut [state])
                }),
                false => {
                    world.keyed.run_async(name, limits(true), async move |state: &mut State| {
                        body.run_async(key, state).await
                    })
                }
            };
            return Some(Thing::Run(run, fate));
        }
        5 if is_outermost() => {
            let (body, fate) = sent();
            let ran = world.keyed.run(name, move |state| body.run(&[key], &mut [state]));
            let ran = ran.map_err(Into::into);
            fate.came_to(world, ran);
        }
        6 | 7 if !is_quiet() => {
            let (body, fate) = sent();
            let f = move |state: &mut State| body.run(&[key], &mut [state]);
            let ran = world.keyed.run_within(name, short(true), f);
            fate.came_to(world, ran);
        }
        8 => return world.keyed.key(name).ok().map(|pin| Thing::Pin(pin, key)),
        9 | 10 if !is_quiet() && (is_outermost() || !world.plan.loses_limits()) => {
            let other = of(KEYS);
            let (body, fate) = Body::new(world, None);
            let mut keys = vec![key, other];
            keys.sort_unstable();
            keys.dedup();
            let names = [name, Name::new(world, other)];
            let ran =
                world.keyed.run_all(names, short(true), move |states| body.run(&keys, states));
            fate.came_to(world, ran);
        }
        11 if !is_quiet() && world.plan.ends && once_in(10) => {
            world.closed[0].store(true, SeqCst);
            let _ = world.keyed.shutdown(Duration::from_micros(of(100) as u64));
        }
        _ => {
            let _ = (world.keyed.info(&name), world.keyed.len());
            if once_in(4) {
                drop_each(world.keyed.snapshot());
            }
        }
    }
    None
}

/// A step on locks, or on those of readers and writers.
fn on_locks(world: &Arc<World>, key: usize) -> Option<Thing> {
    let name = Name::new(world, key);
    let leases = !world.plan.is_strict();
    let owner = leases.then(|| &world.owners[of(2)]);
    let hold = |what| Hold { what, key, weight: 1 };
    let lock = |asked| Some(Thing::Asked(Ask { asked, hold: hold(What::Lock) }));
    let read = |asked| Some(Thing::Reads(Ask { asked, hold: hold(What::Read) }));
    let write = |asked| Some(Thing::Writes(Ask { asked, hold: hold(What::Write) }));
    match (of(14), owner) {
        (0 | 1, _) => lock(world.locks.lock_within(name, limits(leases))),
        (2, Some(owner)) => lock(world.locks.lock_as(owner, name, limits(leases))),
        (3, _) if !is_quiet() => {
            let got = world.locks.try_lock(name).ok()?;
            Some(Thing::Guard(Kept::new(got, hold(What::Lock), world)))
        }
        (4 | 5, _) => {
            let other = of(KEYS);
            let mut keys = vec![key, other];
            keys.sort_unstable();
            keys.dedup();
            let names = [name, Name::new(world, other)];
            Some(Thing::All(world.locks.lock_all(names, limits(leases)), keys))
        }
        (6, Some(_)) if !is_quiet() => {
            let _ = world.locks.force_release(&name).wait();
            None
        }
        (7, Some(_)) if !is_quiet() => {
            let _ = world.rw.force_release(&name).wait();
            None
        }
        (8, Some(owner)) => read(world.rw.read_as(owner, name, limits(leases))),
        (9, _) => read(world.rw.read_within(name, limits(leases))),
        (10, _) => write(world.rw.write_within(name, limits(leases))),
        (11, Some(owner)) => write(world.rw.write_as(owner, name, limits(leases))),
        (12, _) if !is_quiet() => {
            let _ = (world.locks.info(&name), world.rw.info(&name));
            if once_in(4) {
                drop_each(world.locks.keys());
                drop_each(world.rw.keys());
            }
            None
        }
        (13, _) if world.plan.ends && once_in(10) => {
            let which = 1 + of(2);
            world.closed[which].store(true, SeqCst);
            if which == 1 {
                world.locks.close()
            } else {
                world.rw.close()
            }
            None
        }
        _ => None,
    }
}

/// A step on the values.
fn on_values(world: &Arc<World>, key: usize) -> Option<Thing> {
    let name = Name::new(world, key);
    let wait = Duration::from_micros(of(100) as u64);
    match of(8) {
        0 if !is_quiet() => {
            let got = world.mutexes.try_lock(name).ok()?;
            Some(Thing::Value(KeptValue::new(got, key, world)))
        }
        1 if !is_quiet() => {
            let mut keys = vec![key, of(KEYS)];
            let names = [name, Name::new(world, keys[1])];
            keys.sort_unstable();
            keys.dedup();
            let guards = world.mutexes.lock_all(names, wait).wait().ok()?;
            if guards.len() != keys.len() {
                world.finding(format!("{} values for {keys:?}", guards.len()));
            }
            let kept = guards.into_iter().zip(keys);
            let kept: Vec<Thing> =
                kept.map(|(guard, key)| Thing::Value(KeptValue::new(guard, key, world))).collect();
            world.lying.lock().unwrap().extend(kept);
            None
        }
        2 => {
            let _ = (world.mutexes.is_locked(&name), world.mutexes.contains_key(&name));
            None
        }
        3 if world.plan.ends && once_in(10) => {
            world.closed[4].store(true, SeqCst);
            world.mutexes.close();
            None
        }
        _ => Some(Thing::WantsValue(world.mutexes.lock_within(name, wait), key)),
    }
}

/// A step on the permits, or the latch.
fn on_permits(world: &Arc<World>) -> Option<Thing> {
    let leases = !world.plan.is_strict();
    let hold = |weight| Hold { what: What::Permit, key: 0, weight };
    let weight = 1 + of(PERMITS as usize) as u64;
    match of(10) {
        0..=3 => {
            let asked = world.permits.acquire_within(weight, limits(leases));
            Some(Thing::Wants(Ask { asked, hold: hold(weight) }))
        }
        4 if !is_quiet() => {
            let got = world.permits.try_acquire(weight).ok()?;
            Some(Thing::Permit(Kept::new(got, hold(weight), world)))
        }
        5 if !is_quiet() && leases => {
            let got = world.permits.drain().ok()?;
            // As many as there were.
            Some(Thing::Permit(Kept::new(got, hold(0), world)))
        }
        6 if leases => {
            // Requests for three are refused meanwhile.
            world.permits.reduce(1);
            world.permits.add(1);
            None
        }
        7 => {
            world.latch.count_down();
            Some(Thing::Opening(world.latch.opened()))
        }
        8 if !is_quiet() => {
            let _ = (world.latch.reset(4), world.latch.count_down_by(2));
            None
        }
        9 if world.plan.ends && once_in(10) => {
            world.closed[3].store(true, SeqCst);
            world.permits.close();
            None
        }
        _ => None,
    }
}

/// A step on the permits of a key.
fn on_key_permits(world: &Arc<World>, key: usize) -> Option<Thing> {
    let name = Name::new(world, key);
    let leases = !world.plan.is_strict();
    let weight = 1 + of(KEY_PERMITS as usize) as u64;
    let hold = Hold { what: What::KeyPermit, key, weight };
    match of(8) {
        0..=3 => {
            let asked = world.by_key.acquire_within(name, weight, limits(leases));
            Some(Thing::WantsKey(Ask { asked, hold }))
        }
        4 if !is_quiet() => {
            let got = world.by_key.try_acquire(name, weight).ok()?;
            Some(Thing::KeyPermit(Kept::new(got, hold, world)))
        }
        5 if !is_quiet() && leases => {
            let _ = world.by_key.force_release(&name).wait();
            None
        }
        6 if !is_quiet() => {
            let available = world.by_key.available(&name).wait().unwrap_or(0);
            if available > KEY_PERMITS {
                world.finding(format!("{available} permits of key {key} are there"));
            }
            let _ = (world.by_key.info(&name), world.by_key.is_used(&name));
            None
        }
        7 if world.plan.ends && once_in(10) => {
            world.closed[5].store(true, SeqCst);
            world.by_key.close();
            None
        }
        _ => None,
    }
}

/// One step of a program.
pub(crate) fn act(world: &Arc<World>) {
    if world.over.load(SeqCst) || world.fuel.fetch_sub(1, SeqCst) <= 0 {
        return;
    }
    let key = of(KEYS);
    let thing = match (world.plan.about, of(4)) {
        (About::Runs, _) | (About::Everything, 0 | 1) => on_runs(world, key),
        (About::Rates, _) => on_rates(world, key),
        (About::Permits, _) | (About::Everything, 2) if once_in(3) => on_key_permits(world, key),
        (About::Permits, _) | (About::Everything, 2) if !once_in(4) => on_permits(world),
        (About::Permits, _) | (About::Everything, 2) => on_rates(world, key),
        // What runs inside of a key asks for a lock, and the other way round.
        (About::Locks | About::Leases, 0) if once_in(2) => on_runs(world, key),
        (About::Locks | About::Everything, _) if once_in(3) => on_values(world, key),
        (About::Locks | About::Leases | About::Everything, _) => on_locks(world, key),
    };
    let mut lying = world.lying.lock().unwrap();
    lying.extend(thing);
    let at = of(lying.len() + 1);
    let taken = (at < lying.len()).then(|| lying.swap_remove(at));
    drop(lying);
    let back = taken.and_then(|thing| handle(thing, world));
    world.lying.lock().unwrap().extend(back);
}
