//! No waiting thread is forgotten.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Gate, Held, Tally, must_end, until};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Clock, Drain, Overflow, promise_on};

fn spin(rounds: usize) {
    (0..rounds).for_each(|_| spin_loop());
}

/// A sender that waits for room was forgotten. The owner looked at the queue of waiters, then
/// released; a sender that joined it in between saw WATCH, which a wait for idle had set, and
/// stayed; and after a watched release only the waiters for idle were woken.
///
/// The gap is as wide as one compare-and-swap, and no user code runs in it, so this is repeated
/// until the time is over. Two messages are one list, so WATCH stays until its end.
#[test]
fn sender_that_waits_for_room_is_woken() {
    must_end(|| {
        let tally = Tally::default();
        let limit = Duration::from_secs(4);
        let begun = Instant::now();
        let mut round = 0;
        while begun.elapsed() < Duration::from_secs(12) {
            round += 1;
            let actor = Actor::builder().capacity(1, Overflow::Reject).spawn(()).unwrap();
            let (gate, go) = (Arc::new(Gate::new(2)), Arc::new(AtomicBool::new(false)));
            let ready = Arc::new(AtomicUsize::new(0));
            thread::scope(|scope| {
                let (first, second, late) = (tally.token(), tally.token(), tally.token());
                let holder = scope.spawn({
                    let (go, gate, ready) = (go.clone(), gate.clone(), ready.clone());
                    let actor = &actor;
                    move || {
                        let turn = move |(): &mut ()| {
                            ready.fetch_add(1, SeqCst);
                            until(|| go.load(SeqCst));
                            gate.pass();
                            spin(round % 97);
                            first.handle();
                        };
                        type Turn = Box<dyn FnOnce(&mut ()) + Send>;
                        let turns: [Turn; 2] =
                            [Box::new(turn), Box::new(move |()| second.handle())];
                        actor.send_many(turns).unwrap_or_else(|refused| panic!("{refused}"));
                    }
                });
                until(|| ready.load(SeqCst) == 1);
                // It sets WATCH, because the mailbox is busy; soon after it has begun, it sleeps.
                let watcher = scope.spawn({
                    let (actor, ready) = (&actor, ready.clone());
                    move || {
                        ready.fetch_add(1, SeqCst);
                        actor.idle().wait().unwrap();
                    }
                });
                until(|| ready.load(SeqCst) == 2);
                (0..20).for_each(|_| thread::yield_now());
                go.store(true, SeqCst);
                gate.pass();
                spin(round / 97 % 41);
                let sent_at = Instant::now();
                let sent = crate::verbs::send_within(&actor, limit, move |()| late.handle());
                let took = sent_at.elapsed();
                assert!(sent && took < limit / 2, "round {round}: forgotten for {took:?}");
                holder.join().unwrap();
                watcher.join().unwrap();
            });
        }
        tally.check_all_handled();
    });
}

/// A runner of a `DrainQueue` that was notified just as its time ended returned without looking,
/// and the other runner slept on, beside a drain that was not run.
#[test]
fn queue_wakes_another_runner() {
    must_end(|| {
        let tally = Tally::default();
        for round in 0..600_u64 {
            let queue = Arc::new(DrainQueue::new());
            let actor = Actor::builder().executor(queue.handle()).spawn(()).unwrap();
            let ran = Arc::new(AtomicBool::new(false));
            thread::scope(|scope| {
                let short = Duration::from_millis(2);
                let begun = Arc::new(std::sync::Mutex::new(None));
                let first = scope.spawn({
                    let (queue, begun) = (queue.clone(), begun.clone());
                    move || {
                        *begun.lock().unwrap() = Some(Instant::now());
                        queue.run_for(short)
                    }
                });
                until(|| begun.lock().unwrap().is_some());
                let ends = begun.lock().unwrap().unwrap() + short;
                // The second in the queue: it sleeps behind the first one.
                let second = scope.spawn({
                    let queue = queue.clone();
                    move || queue.run_for(Duration::from_secs(40))
                });
                // Just before the time of the first one is over; earlier and earlier, in rotation.
                let at = ends - Duration::from_micros(round * 7 % 120);
                until(|| Instant::now() >= at);
                let (token, tells) = (tally.token(), ran.clone());
                let message = move |(): &mut ()| {
                    token.handle();
                    tells.store(true, SeqCst);
                };
                actor.send(message).unwrap_or_else(|refused| panic!("{refused}"));
                let sent = Instant::now();
                while !ran.load(SeqCst) && sent.elapsed() < Duration::from_secs(5) {
                    thread::yield_now();
                }
                let in_time = ran.load(SeqCst);
                queue.close();
                first.join().unwrap();
                second.join().unwrap();
                assert!(in_time, "round {round}: a runner sleeps beside a drain");
            });
        }
        tally.check_all_handled();
    });
}

/// Runs drains in its call, and in its second one waits with the primitive that parks its thread.
fn waits_in_its_second_call(asleep: mpsc::Sender<()>, go: mpsc::Receiver<()>) -> impl Fn(Drain) {
    let (asleep, go, calls) = (Mutex::new(asleep), Mutex::new(go), AtomicUsize::new(0));
    move |drain| {
        if calls.fetch_add(1, SeqCst) == 1 {
            asleep.lock().unwrap().send(()).unwrap();
            go.lock().unwrap().recv().unwrap();
        }
        drain.run();
    }
}

/// A turn that waits for an actor first hands its deferred actors over, to an executor whose code
/// parks the thread. The wake-up may come then.
#[test]
fn a_wake_up_in_an_executors_code_is_not_lost() {
    for until_end in [false, true] {
        must_end(move || {
            let (asleep_tx, asleep) = mpsc::channel();
            let (go, go_rx) = mpsc::channel();
            let executor = waits_in_its_second_call(asleep_tx, go_rx);
            let promised = Actor::builder().executor(executor).spawn(0).unwrap();
            let busy = Actor::new(());
            let held = Held::hold(&busy);
            if until_end {
                busy.close();
            }
            let awaited = busy.clone();
            let waiter = thread::spawn(move || {
                Actor::new(()).with(|()| {
                    promised.send(|n| *n += 1).unwrap();
                    match until_end {
                        false => awaited.idle().wait(),
                        true => awaited.ended().wait(),
                    }
                })
            });
            asleep.recv().unwrap();
            held.let_go();
            until(|| busy.is_idle());
            go.send(()).unwrap();
            waiter.join().unwrap().unwrap().unwrap();
        });
    }
}

/// A clock that parks the thread in one of its reads.
#[derive(Debug)]
struct Asked {
    looks: AtomicUsize,
    at: usize,
    asleep: Mutex<mpsc::Sender<()>>,
    go: Mutex<mpsc::Receiver<()>>,
    begun: Instant,
}

impl Clock for Asked {
    fn now(&self) -> Duration {
        if self.looks.fetch_add(1, SeqCst) == self.at {
            self.asleep.lock().unwrap().send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
        self.begun.elapsed()
    }

    fn park_until(&self, at: Duration) {
        thread::park_timeout(at.saturating_sub(self.begun.elapsed()));
    }
}

/// An answer that comes while a limit is checked ends the wait, also if the clock's code has
/// consumed the wake-up.
#[test]
fn a_wake_up_in_a_clocks_code_is_not_lost() {
    for at in 0..3 {
        must_end(move || {
            let (asleep_tx, asleep) = mpsc::channel();
            let (go, go_rx) = mpsc::channel();
            let clock = Asked {
                looks: AtomicUsize::new(0),
                at,
                asleep: Mutex::new(asleep_tx),
                go: Mutex::new(go_rx),
                begun: Instant::now(),
            };
            let (promise, reply) = promise_on::<u32>(Arc::new(clock));
            let waiter = thread::spawn(move || reply.within(Duration::from_secs(3600)));
            asleep.recv().unwrap();
            promise.keep(7);
            go.send(()).unwrap();
            assert_eq!(waiter.join().unwrap().map_err(drop), Ok(7));
        });
    }
}
