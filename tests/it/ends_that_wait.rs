//! End hooks that wait for the end of another actor, whatever ends both.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::common::must_end;
use turnwise::{Actor, ActorBuilder, Limit, Reason, Reply, System, promise};

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
