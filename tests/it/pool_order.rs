//! The order in which a worker takes waiting drains.

use std::sync::{Arc, Mutex, mpsc};

use crate::common::must_end;
use turnwise::executor::Blocking;
use turnwise::{Actor, Limit, ThreadPool};

fn pool_of_one() -> ThreadPool {
    ThreadPool::builder().threads(1).blocking(Blocking::Refuse).build().unwrap()
}

fn on<S: Send + 'static>(pool: &ThreadPool, state: S) -> Actor<S> {
    Actor::builder().executor(pool.handle()).budget(1).spawn(state).unwrap()
}

fn end(pool: ThreadPool) {
    assert!(pool.shutdown(Limit::Unlimited).is_complete());
}

struct Ball {
    other: Option<Actor<Ball>>,
    left: Arc<Mutex<u32>>,
}

fn hit(ball: &mut Ball) {
    let mut left = ball.left.lock().unwrap();
    *left = left.saturating_sub(1);
    if *left > 0 {
        ball.other.as_ref().unwrap().send(hit).unwrap_or_else(|_| unreachable!());
    }
}

/// Each repeatedly finds the other in the worker's slot; the drains in the queue must still run.
#[test]
fn a_slot_that_is_never_empty_lets_the_queue_in() {
    must_end(|| {
        const HITS: u32 = 100_000;
        let pool = pool_of_one();
        let left = Arc::new(Mutex::new(HITS));
        let first = on(&pool, Ball { other: None, left: left.clone() });
        let second = on(&pool, Ball { other: Some(first.clone()), left: left.clone() });
        let theirs = second.clone();
        let (set, is_set) = mpsc::channel();
        first
            .send(move |first| {
                first.other = Some(theirs);
                set.send(()).unwrap();
            })
            .unwrap();
        is_set.recv().unwrap();
        let quiet = on(&pool, ());
        let (tell, told) = mpsc::channel();
        let (begin, ball) = (on(&pool, ()), first.clone());
        begin
            .send(move |_| {
                // Into the slot, and from there to the queue.
                quiet.send(move |_| tell.send(*left.lock().unwrap()).unwrap()).unwrap();
                ball.send(hit).unwrap();
            })
            .unwrap();
        let left = told.recv().unwrap();
        assert!(left > HITS - 100, "after {} hits", HITS - left);
        first.idle().wait().unwrap();
        second.idle().wait().unwrap();
        let (cut, is_cut) = mpsc::channel();
        first.send(move |first| cut.send(first.other.take().is_some()).unwrap()).unwrap();
        assert_eq!(is_cut.recv(), Ok(true));
        end(pool);
    });
}

/// An actor that has used up its budget goes behind all waiting drains, inside and outside.
#[test]
fn what_is_out_of_budget_goes_behind_everybody() {
    must_end(|| {
        let pool = pool_of_one();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (open, gate) = mpsc::channel::<()>();
        on(&pool, ()).send(move |_| _ = gate.recv()).unwrap();
        let actors = [on(&pool, "a"), on(&pool, "b"), on(&pool, "c")];
        let (tell, told) = mpsc::channel::<()>();
        for round in 0..3 {
            for actor in &actors {
                let (log, tell) = (log.clone(), tell.clone());
                actor
                    .send(move |name| {
                        log.lock().unwrap().push((round, *name));
                        drop(tell);
                    })
                    .unwrap();
            }
        }
        drop((open, tell));
        assert!(told.recv().is_err(), "all have run");
        let expected =
            (0..3).flat_map(|round| ["a", "b", "c"].map(|name| (round, name))).collect::<Vec<_>>();
        assert_eq!(*log.lock().unwrap(), expected);
        end(pool);
    });
}

/// Drains from outside run although the worker's own queue is never empty.
#[test]
fn a_queue_that_is_never_empty_lets_outsiders_in() {
    must_end(|| {
        struct Own(Option<Actor<Own>>, Arc<Mutex<bool>>);
        fn again(own: &mut Own) {
            if !*own.1.lock().unwrap() {
                own.0.as_ref().unwrap().send(again).unwrap_or_else(|_| unreachable!());
            }
        }
        let pool = pool_of_one();
        let over = Arc::new(Mutex::new(false));
        let all = (0..4).map(|_| on(&pool, Own(None, over.clone()))).collect::<Vec<_>>();
        for own in &all {
            let own = own.clone();
            let theirs = own.clone();
            own.send(move |own| {
                own.0 = Some(theirs);
                again(own);
            })
            .unwrap();
        }
        for _ in 0..100 {
            let (tell, told) = mpsc::channel();
            on(&pool, ()).send(move |_| tell.send(()).unwrap()).unwrap();
            told.recv().unwrap();
        }
        *over.lock().unwrap() = true;
        for own in all {
            own.idle().wait().unwrap();
            let (tell, told) = mpsc::channel();
            own.send(move |own| tell.send(own.0.take().is_some()).unwrap()).unwrap();
            told.recv().unwrap();
        }
        end(pool);
    });
}
