//! End hooks that wait for the end of another actor, whatever ends both.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{must_end, until};
use turnwise::executor::DrainQueue;
use turnwise::{Actor, ActorBuilder, Limit, Reason, Reply, System, ThreadPool, promise};

/// Two actors. The one that ends first waits for the end of the other.
struct Pair {
    actors: [Actor<u32>; 2],
    waited: mpsc::Receiver<Result<(), Reason>>,
}

impl Pair {
    fn new(spawn: impl Fn(ActorBuilder<u32>) -> Actor<u32>) -> Self {
        let (tell, waited) = mpsc::channel();
        let both: Arc<Mutex<Vec<Actor<u32>>>> = Arc::default();
        let is_first = Arc::new(AtomicBool::new(true));
        let actors = [1, 0].map(|other| {
            let (both, is_first, tell) = (both.clone(), is_first.clone(), tell.clone());
            spawn(Actor::builder().on_end(move |_, _| {
                if is_first.swap(false, SeqCst) {
                    let other = both.lock().unwrap()[other].clone();
                    tell.send(other.ended().wait()).unwrap();
                }
            }))
        });
        *both.lock().unwrap() = actors.to_vec();
        Pair { actors, waited }
    }

    fn check(&self, asked: impl IntoIterator<Item = Reply<u32>>) {
        assert_eq!(self.waited.recv().unwrap(), Ok(()));
        asked.into_iter().for_each(|asked| assert!(asked.wait().is_err()));
    }
}

/// A turn that waits for ever.
fn suspend(actor: &Actor<u32>) -> Reply<u32> {
    let (promise, never) = promise::<u32>();
    std::mem::forget(promise);
    actor.run(async move |_| never.await.unwrap())
}

/// A thread that is inside a turn, which has run `f`, until the answer is dropped.
fn busy_after(f: impl FnOnce() + Send + 'static) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (let_go, gone) = mpsc::channel::<()>();
    let (begun, here) = mpsc::channel();
    let busy = thread::spawn(move || {
        let turn = move |_: &mut ()| {
            f();
            begun.send(()).unwrap();
            let _ = gone.recv();
        };
        Actor::new(()).with(turn).unwrap();
    });
    here.recv().unwrap();
    (let_go, busy)
}

#[test]
fn a_system_that_is_dropped() {
    for suspended in [0, 1] {
        must_end(move || {
            let system = System::new();
            let pair = Pair::new(|builder| system.spawn(builder, 0).unwrap());
            let asked = suspend(&pair.actors[suspended]);
            drop(system);
            pair.check([asked]);
        });
    }
}

#[test]
fn a_system_that_is_shut_down_without_time() {
    for suspended in [0, 1] {
        must_end(move || {
            let system = System::new();
            let pair = Pair::new(|builder| system.spawn(builder, 0).unwrap());
            let asked = suspend(&pair.actors[suspended]);
            let other = pair.actors[1 - suspended].clone();
            let (let_go, busy) = busy_after(move || other.send(|n| *n += 1).unwrap());
            system.shutdown(Limit::Immediate).unwrap();
            pair.check([asked]);
            drop(let_go);
            busy.join().unwrap();
        });
    }
}

/// A pool of one worker, which is inside a turn until the answer is dropped.
fn busy_pool() -> (ThreadPool, mpsc::Sender<()>) {
    let pool = ThreadPool::builder().threads(1).build().unwrap();
    let (let_go, gone) = mpsc::channel::<()>();
    let (begun, here) = mpsc::channel();
    let busy = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
    let turn = move |_: &mut ()| {
        begun.send(()).unwrap();
        let _ = gone.recv();
    };
    busy.send(turn).unwrap();
    here.recv().unwrap();
    (pool, let_go)
}

#[test]
fn a_pool_that_ends_by_itself() {
    must_end(|| {
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let pair = Pair::new(|builder| builder.executor(pool.handle()).spawn(0).unwrap());
        let asked = pair.actors.each_ref().map(suspend);
        until(|| pair.actors.iter().all(|actor| format!("{actor:?}").contains("a turn waits")));
        assert!(!pool.shutdown(Limit::Unlimited).is_complete());
        pair.check(asked);
    });
}

#[test]
fn a_pool_whose_time_is_over() {
    must_end(|| {
        let (pool, let_go) = busy_pool();
        let pair = Pair::new(|builder| builder.executor(pool.handle()).spawn(0).unwrap());
        pair.actors.iter().for_each(|actor| actor.send(|n| *n += 1).unwrap());
        assert!(!pool.shutdown(Duration::from_millis(5)).is_complete());
        pair.check([]);
        drop(let_go);
    });
}

#[test]
fn a_pool_that_is_cut_off_now() {
    must_end(|| {
        let (pool, let_go) = busy_pool();
        let pair = Pair::new(|builder| builder.executor(pool.handle()).spawn(0).unwrap());
        let asked = pair.actors.each_ref().map(|actor| actor.call(|n| *n));
        assert!(!pool.shutdown_now().is_complete());
        pair.check(asked);
        drop(let_go);
    });
}

#[test]
fn a_queue_that_is_closed_or_dropped() {
    for dropped in [false, true] {
        must_end(move || {
            let queue = DrainQueue::new();
            let pair = Pair::new(|builder| builder.executor(queue.handle()).spawn(0).unwrap());
            let asked = pair.actors.each_ref().map(suspend);
            queue.run_until_idle();
            if dropped {
                drop(queue)
            } else {
                queue.close()
            }
            pair.check(asked);
        });
    }
}

#[test]
fn a_queue_that_is_dropped_with_drains_in_it() {
    for suspended in [0, 1] {
        must_end(move || {
            let queue = DrainQueue::new();
            let pair = Pair::new(|builder| builder.executor(queue.handle()).spawn(0).unwrap());
            let asked = suspend(&pair.actors[suspended]);
            queue.run_until_idle();
            pair.actors[1 - suspended].send(|n| *n += 1).unwrap();
            drop(queue);
            pair.check([asked]);
        });
    }
}
