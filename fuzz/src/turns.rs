//! Async turns: the objects that they await, and their wakers; with `face` and `timing`, the module
//! that names `turnwise`.
//!
//! A suspended turn keeps its actor, so the event for which it waits has to come: it waits without
//! a limit only for actors behind its own, and a thread of the program wakes turns that were not
//! woken for a while.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use turnwise::{AbortHandle, AsyncContext, AsyncHandler, Promise, promise};

use crate::face::{self, Underway};
use crate::ledger::{RUN, Token, lacks};
use crate::plan::{Await, FUTURES, Inside, Rings};
use crate::user::{Answer, Doing, Mail, State, World, caught, wakes};

/// The time after which a turn that was not woken is woken.
const LONG: Duration = Duration::from_millis(2);

/// The content of a slot, and the time since when it is there.
type Lying<T> = Mutex<Option<(T, Instant)>>;

/// Wakers and abort handles of turns, where any thread finds them.
#[derive(Default)]
pub struct Desk {
    wakers: [Lying<Kept>; FUTURES],
    gifts: [Lying<Promise<()>>; FUTURES],
    aborts: [Lying<(usize, AbortHandle)>; FUTURES],
}

/// A waker, and the actor whose turn it wakes.
struct Kept {
    waker: Waker,
    world: Arc<World>,
    at: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // One of its clones was forgotten, so no code could detect that the turn cannot be woken.
        if self.world.entries[self.at].waker_forgotten.load(SeqCst) {
            self.waker.wake_by_ref();
        }
    }
}

fn put<T>(place: &Lying<T>, it: T) {
    let before = place.lock().unwrap().replace((it, Instant::now()));
    drop(before);
}

fn taken<T>(place: &Lying<T>) -> Option<T> {
    place.lock().unwrap().take().map(|(it, _)| it)
}

/// Takes the content of a slot that has been there for long.
fn late<T>(place: &Lying<T>) -> Option<T> {
    let mut place = place.lock().unwrap();
    let is_late = place.as_ref().is_some_and(|(_, since)| since.elapsed() > LONG);
    if is_late { place.take().map(|(it, _)| it) } else { None }
}

impl Desk {
    pub fn has_nothing(&self) -> bool {
        fn empty<T>(places: &[Lying<T>]) -> bool {
            places.iter().all(|place| place.lock().unwrap().is_none())
        }
        empty(&self.wakers) && empty(&self.gifts) && empty(&self.aborts)
    }

    /// Drops all. Returns true if there was something.
    pub fn clear(&self) -> bool {
        fn cleared<T>(places: &[Lying<T>]) -> bool {
            let all: Vec<_> = places.iter().filter_map(taken).collect();
            let any = !all.is_empty();
            all.into_iter().for_each(|one| {
                caught(|| drop(one));
            });
            any
        }
        cleared(&self.wakers) | cleared(&self.gifts) | cleared(&self.aborts)
    }

    pub fn keep_abort(&self, slot: usize, to: usize, handle: AbortHandle) {
        put(&self.aborts[slot], (to, handle));
    }
}

/// Wakes turns that were not woken for long, each in a thread of its own: a wake may run an
/// executor.
pub fn wake_the_forgotten(world: &Arc<World>) {
    while world.pumping.load(SeqCst) {
        if world.held.load(SeqCst) > 0 {
            thread::sleep(Duration::from_micros(500));
            continue;
        }
        for slot in 0..FUTURES {
            if let Some(kept) = late(&world.desk.wakers[slot]) {
                world.start("wake".into(), Doing::Code, move |_| kept.waker.wake_by_ref());
            }
            if let Some(gift) = late(&world.desk.gifts[slot]) {
                world.start("gift".into(), Doing::Code, move |_| gift.keep(()));
            }
        }
        world.drop_left(LONG);
        thread::sleep(Duration::from_micros(500));
    }
}

/// Runs a step with a turn's waker.
pub fn ring(world: &Arc<World>, slot: usize, how: Rings) {
    let place = &world.desk.wakers[slot];
    let Some(kept) = taken(place) else { return };
    let (waker, at) = (&kept.waker, kept.at);
    match how {
        Rings::Wake => {
            let (waker, last) = (waker.clone(), waker.clone());
            drop(kept);
            wakes(|| waker.wake());
            return drop(last);
        }
        Rings::Drop => return drop(kept),
        Rings::ByRef => {
            wakes(|| waker.wake_by_ref());
            wakes(|| waker.wake_by_ref());
        }
        Rings::Elsewhere => {
            let other = waker.clone();
            world.start("ring".into(), Doing::Code, move |_| {
                other.wake_by_ref();
                thread::yield_now();
                other.wake();
            });
        }
        Rings::Clone => {
            let other = waker.clone();
            drop(waker.clone());
            let other = Kept { waker: other, world: world.clone(), at };
            put(&world.desk.wakers[(slot + 1) % FUTURES], other);
        }
        // The turn's memory stays, and nothing else.
        Rings::ForgetClone => {
            world.entries[at].waker_forgotten.store(true, SeqCst);
            std::mem::forget(waker.clone());
        }
    }
    put(place, kept);
}

pub fn give(world: &Arc<World>, slot: usize, keeps: bool) {
    let Some(gift) = taken(&world.desk.gifts[slot]) else { return };
    if keeps { wakes(|| gift.keep(())) } else { drop(gift) }
}

pub fn abort(world: &Arc<World>, slot: usize, stays: bool) {
    let Some((to, handle)) = taken(&world.desk.aborts[slot]) else { return };
    // It may be counted as a turn that never began.
    world.entries[to].record.cancelled.fetch_add(1, SeqCst);
    wakes(|| handle.abort());
    if stays {
        put(&world.desk.aborts[slot], (to, handle));
    }
}

/// Runs a handler's steps with its context.
fn inside(world: &World, at: usize, plan: &[Inside], cx: &mut AsyncContext<State>) {
    let entry = &world.entries[at];
    for deed in plan {
        match deed {
            Inside::Look => face::check_name(world, at, cx.name(), &format!("{cx:?}")),
            Inside::Stop => {
                cx.stop();
                entry.stopped.store(true, SeqCst);
            }
            Inside::StopWeak => {
                cx.weak().stop();
                entry.stopped.store(true, SeqCst);
            }
            Inside::Close => drop(cx.actor().map(|actor| actor.close())),
            Inside::KeepHandle => {
                if let Some(actor) = cx.actor() {
                    let before = entry.handle.lock().unwrap().replace(actor);
                    drop(before);
                }
            }
            Inside::KeepWeak => {
                let before = entry.weak.lock().unwrap().replace(cx.weak());
                drop(before);
            }
            Inside::ForgetHandle => {
                if let Some(actor) = cx.actor() {
                    world.leaks(at);
                    std::mem::forget(actor);
                }
            }
        }
    }
}

impl AsyncHandler<Mail> for State {
    type Reply = Answer;
    async fn handle(&mut self, mail: Mail, cx: &mut AsyncContext<Self>) -> Answer {
        mail.stays(self, |world, at, plan| inside(world, at, plan, cx)).await
    }
}

/// Polls as the crate's own code, which runs no turn.
fn polled<R>(cx: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> Poll<R> {
    crate::user::within(Doing::Poll, || poll(cx))
}

async fn outcome<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| polled(cx, |cx| future.as_mut().poll(cx))).await
}

/// Returns pending once, and is woken meanwhile or at once.
async fn once(mut first: impl FnMut(&Waker)) {
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        if polls > 1 {
            return Poll::Ready(());
        }
        first(cx.waker());
        Poll::Pending
    })
    .await;
}

/// Polls it once.
async fn glance(future: &mut Underway) -> bool {
    poll_fn(|cx| {
        let ready = polled(cx, |cx| future.poll(cx)).is_ready();
        Poll::Ready(ready)
    })
    .await
}

/// Runs an await of a turn of this actor.
pub async fn awaits(world: &Arc<World>, at: usize, what: &Await) {
    match what {
        Await::Yield(times) => {
            for _ in 0..*times {
                once(Waker::wake_by_ref).await;
            }
        }
        Await::Thread => {
            once(|waker| {
                let wakers = [waker.clone(), waker.clone()];
                world.start("waker".into(), Doing::Code, move |_| {
                    let [first, second] = wakers;
                    first.wake_by_ref();
                    first.wake();
                    drop(second);
                });
            })
            .await;
        }
        Await::Keep(slot) => {
            once(|waker| {
                let kept = Kept { waker: waker.clone(), world: world.clone(), at };
                put(&world.desk.wakers[*slot], kept);
            })
            .await;
        }
        Await::Gift(slot) => {
            let (gift, comes) = promise();
            put(&world.desk.gifts[*slot], gift);
            let _ = outcome(comes).await;
        }
        Await::Ask { of, how, letter } => {
            let Some(actor) = world.handle(*of) else { return };
            let mail = world.mail(*of, letter);
            let (id, carries) = (mail.id(), letter.carries);
            let asked = face::ask(&actor, *how, mail);
            drop(actor);
            waits(world, (at, *of), (id, carries), Underway::Asked(asked)).await;
        }
        Await::Room { of, what, letter } => {
            let Some(actor) = world.handle(*of) else { return };
            let mail = world.mail(*of, letter);
            let (id, carries) = (mail.id(), letter.carries);
            let future = face::waiting(&actor, *what, mail);
            drop(actor);
            waits(world, (at, *of), (id, carries), future).await;
        }
        Await::Watch { of, what, leaves } => {
            let Some(actor) = world.handle(*of) else { return };
            let mut future = face::watching(&actor, *what);
            drop(actor);
            let ready = glance(&mut future).await;
            if let (Some(slot), false) = (leaves, ready) {
                world.leave(*slot, (at, *of), future);
            }
        }
        Await::Future(slot) => {
            poll_fn(|cx| {
                world.poll_what_lies_there(at, *slot, cx);
                Poll::Ready(())
            })
            .await;
        }
        Await::Sleep(micros) => {
            let sleep = crate::timing::sleep(world, 1, *micros);
            if let Some(sleep) = sleep {
                outcome(sleep).await;
            }
        }
        // A clone may be forgotten while this waits, too: the last one that was kept wakes it then.
        Await::Nobody => {
            poll_fn(|_| match world.entries[at].waker_forgotten.load(SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }
}

/// Waits for an answer, if the order of waiting allows it.
async fn waits(
    world: &Arc<World>,
    (at, of): (usize, usize),
    (id, carries): (u32, Option<usize>),
    mut future: Underway,
) {
    if !world.may_await(at, of) {
        glance(&mut future).await;
        return;
    }
    let done = poll_fn(|cx| polled(cx, |cx| future.poll(cx))).await;
    if matches!(done, face::Done::Answered(_)) && lacks(id, RUN) {
        crate::ledger::finding("an answer that was not given", &crate::ledger::described(id));
    }
    world.came_of(done, of, id, carries);
}

/// A part of a turn that may wait, which records its polls.
pub struct Polls<F> {
    inner: Pin<Box<F>>,
    stay: crate::user::Stay,
}

impl<F> Polls<F> {
    pub fn new(inner: F, stay: crate::user::Stay) -> Self {
        Polls { inner: Box::pin(inner), stay }
    }
}

impl<F: Future> Future for Polls<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let _polling = this.stay.is_polled();
        this.inner.as_mut().poll(cx)
    }
}

/// A future that is still whole when its poll has panicked.
pub struct ByHand<F> {
    inner: Pin<Box<F>>,
    _token: Token,
}

impl<F> ByHand<F> {
    pub fn new(inner: F, token: Token) -> Self {
        ByHand { inner: Box::pin(inner), _token: token }
    }
}

impl<F: Future> Future for ByHand<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.inner.as_mut().poll(cx)
    }
}
