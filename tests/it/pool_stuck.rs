//! Turns that keep their workers, by taking long or by blocking unseen by the pool: others go on.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Tally, must_end, size, until};
use turnwise::executor::{Blocking, Shutdown};
use turnwise::{Actor, Limit, ThreadPool, blocking};

const LONG: Duration = Duration::from_secs(10);

fn pool(threads: usize, blocking: Blocking) -> ThreadPool {
    ThreadPool::builder().threads(threads).blocking(blocking).build().unwrap()
}

fn on<S: Send + 'static>(pool: &ThreadPool, state: S) -> Actor<S> {
    Actor::builder().executor(pool.handle()).spawn(state).unwrap()
}

/// Runs a turn on an actor of its own, and sends its result.
fn run<R: Send + 'static>(
    pool: &ThreadPool,
    turn: impl FnOnce() -> R + Send + 'static,
) -> mpsc::Receiver<R> {
    let (tell, told) = mpsc::channel();
    on(pool, ()).send(move |_| drop(tell.send(turn()))).unwrap_or_else(|_| unreachable!());
    told
}

fn end(pool: ThreadPool) {
    assert_eq!(pool.shutdown(Limit::Unlimited), Shutdown::Complete);
}

/// Sends to an actor that feeds itself until the answer is dropped.
fn hot(pool: &ThreadPool) -> Arc<()> {
    struct Hot(Option<Actor<Hot>>, std::sync::Weak<()>);
    fn again(hot: &mut Hot) {
        match &hot.0 {
            Some(own) if hot.1.strong_count() > 0 => {
                own.send(again).unwrap_or_else(|_| unreachable!())
            }
            _ => hot.0 = None,
        }
    }
    let alive = Arc::new(());
    let hot = Actor::builder()
        .executor(pool.handle())
        .budget(8)
        .spawn(Hot(None, Arc::downgrade(&alive)))
        .unwrap();
    let own = hot.clone();
    hot.send(move |hot| {
        hot.0 = Some(own);
        again(hot);
    })
    .unwrap();
    alive
}

#[test]
fn what_lies_behind_a_long_turn_begins_elsewhere() {
    must_end(|| {
        for blocking in [Blocking::default(), Blocking::Refuse] {
            let pool = pool(4, blocking);
            let (other, handle) = (on(&pool, ()), pool.handle());
            let done = run(&pool, move || {
                let (tell, told) = mpsc::channel();
                // All others sleep, so none comes by chance.
                until(|| format!("{handle:?}").contains("asleep: 3"));
                other.send(move |_| tell.send(()).unwrap()).unwrap();
                told.recv_timeout(LONG)
            });
            assert_eq!(done.recv(), Ok(Ok(())));
            end(pool);
        }
    });
}

#[test]
fn a_busy_worker_runs_what_waits_behind_a_stuck_one() {
    must_end(|| {
        let pool = pool(2, Blocking::Refuse);
        let alive = hot(&pool);
        let others = [on(&pool, ()), on(&pool, ()), on(&pool, ())];
        let done = run(&pool, move || {
            let (tell, told) = mpsc::channel();
            for other in &others {
                let tell = tell.clone();
                other.send(move |_| tell.send(()).unwrap()).unwrap();
            }
            (0..others.len()).all(|_| told.recv_timeout(LONG).is_ok())
        });
        assert_eq!(done.recv(), Ok(true));
        drop(alive);
        end(pool);
    });
}

/// Blocks this many turns with the standard library, until one behind them all has run.
fn block_unseen(pool: ThreadPool, turns: usize) {
    let gates = (0..turns).map(|_| mpsc::channel::<()>()).collect::<Vec<_>>();
    let (opens, gates): (Vec<_>, Vec<_>) = gates.into_iter().unzip();
    let blocked = gates
        .into_iter()
        .map(|gate| run(&pool, move || gate.recv_timeout(LONG)))
        .collect::<Vec<_>>();
    run(&pool, move || opens.iter().for_each(|open| open.send(()).unwrap()));
    for blocked in blocked {
        assert_eq!(blocked.recv(), Ok(Ok(())));
    }
    end(pool);
}

#[test]
fn turns_that_block_unseen_on_all_workers_stop_nobody() {
    must_end(|| {
        for workers in 1..=3 {
            block_unseen(pool(workers, Blocking::default()), workers);
        }
    });
}

#[test]
fn many_turns_that_block_unseen_stop_nobody() {
    must_end(|| block_unseen(pool(2, Blocking::default()), 8));
}

#[test]
fn no_more_turns_run_at_once_than_threads_may_be() {
    must_end(|| {
        const MOST: usize = 2;
        let pool = pool(1, Blocking::Compensate { most: MOST });
        let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (began, begun) = mpsc::channel();
        let mut opens = Vec::new();
        let mut done = Vec::new();
        for _ in 0..8 {
            let (open, gate) = mpsc::channel::<()>();
            opens.push(open);
            let (began, now, peak) = (began.clone(), now.clone(), peak.clone());
            done.push(run(&pool, move || {
                peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                began.send(()).unwrap();
                let _ = gate.recv();
                now.fetch_sub(1, SeqCst);
            }));
        }
        // All possible threads are stuck.
        (0..=MOST).for_each(|_| begun.recv().unwrap());
        drop(opens);
        done.iter().for_each(|done| done.recv().unwrap());
        assert_eq!(peak.load(SeqCst), MOST + 1);
        end(pool);
    });
}

#[test]
fn a_pool_of_one_that_refuses_runs_one_turn_at_a_time() {
    must_end(|| {
        let pool = pool(1, Blocking::Refuse);
        let other = on(&pool, ());
        let done = run(&pool, move || {
            let (tell, told) = mpsc::channel();
            other.send(move |_| _ = tell.send(())).unwrap();
            told.recv_timeout(Duration::from_millis(100))
        });
        assert_eq!(done.recv(), Ok(Err(mpsc::RecvTimeoutError::Timeout)));
        end(pool);
    });
}

#[test]
fn a_pool_that_may_not_grow_stays_at_its_workers() {
    must_end(|| {
        let pool = pool(1, Blocking::Compensate { most: 0 });
        let done = run(&pool, || thread::sleep(Duration::from_millis(50)));
        let other = run(&pool, || ());
        assert_eq!((done.recv(), other.recv()), (Ok(()), Ok(())));
        end(pool);
    });
}

#[test]
fn a_pool_ends_after_those_who_helped() {
    must_end(|| {
        for _ in 0..size(5, 50) {
            let pool = pool(1, Blocking::default());
            let (open, gate) = mpsc::channel::<()>();
            let stuck = run(&pool, move || gate.recv());
            let last = on(&pool, 0);
            let (tell, told) = mpsc::channel();
            let helped = run(&pool, move || {
                // A helper is in this turn when the worker continues, and the pool is asked to end.
                drop(open);
                thread::sleep(Duration::from_millis(5));
                last.send(move |n| tell.send(*n + 1).unwrap()).unwrap();
            });
            assert!(stuck.recv().unwrap().is_err());
            end(pool);
            assert_eq!(helped.recv(), Ok(()));
            assert_eq!(told.try_recv(), Ok(1), "what a helper has sent is run");
        }
    });
}

#[test]
fn nothing_is_lost_whatever_blocks_unseen() {
    let tally = Tally::default();
    must_end({
        let tally = tally.clone();
        move || {
            for round in 0..size(3, 30) {
                let pool = pool(1 + round % 3, Blocking::Compensate { most: 1 + round % 4 });
                let actors = (0..16).map(|_| on(&pool, ())).collect::<Vec<_>>();
                for n in 0..200 {
                    let (token, inner) = (tally.token(), tally.token());
                    let next = actors[(n * 7 + 1) % 16].clone();
                    let turn = move |_: &mut ()| {
                        match n % 40 {
                            0 => thread::sleep(Duration::from_millis(12)),
                            1 => blocking(|| thread::sleep(Duration::from_millis(1))),
                            _ => {}
                        }
                        token.handle();
                        next.send(move |_| inner.handle()).unwrap_or_else(|_| unreachable!());
                    };
                    actors[n % 16].send(turn).unwrap_or_else(|_| unreachable!());
                }
                end(pool);
            }
        }
    });
    tally.check_all_handled();
}

#[test]
fn a_slot_that_is_given_away_is_announced_at_once() {
    must_end(|| {
        // The monitor would come too, but not within two milliseconds: the quickest of many rounds
        // counts.
        let pool = pool(2, Blocking::Refuse);
        let mut rounds = (0..1_000).map(|_| {
            let (other, handle) = (on(&pool, ()), pool.handle());
            let round = run(&pool, move || {
                let (tell, told) = mpsc::channel();
                until(|| format!("{handle:?}").contains("asleep: 1"));
                other.send(move |_| tell.send(()).unwrap()).unwrap();
                let begun = Instant::now();
                blocking(|| told.recv().unwrap());
                begun.elapsed()
            });
            round.recv().unwrap()
        });
        assert!(rounds.any(|took| took < Duration::from_millis(2)));
        drop(rounds);
        end(pool);
    });
}

/// A pool that has slept for long has a sleeping monitor; a turn that then blocks unseen must not
/// stop other turns.
#[test]
fn who_waits_after_a_long_sleep_stops_nobody() {
    must_end(|| {
        let pool = pool(2, Blocking::Refuse);
        let (other, handle) = (on(&pool, ()), pool.handle());
        until(|| format!("{handle:?}").contains("asleep: 2"));
        // The monitor falls asleep meanwhile; the test is right in either case.
        thread::sleep(Duration::from_millis(600));
        let done = run(&pool, move || {
            let (tell, told) = mpsc::channel();
            until(|| format!("{handle:?}").contains("asleep: 1"));
            other.send(move |_| _ = tell.send(())).unwrap();
            told.recv_timeout(LONG)
        });
        assert_eq!(done.recv(), Ok(Ok(())));
        end(pool);
    });
}

/// A thread that helped stands by again when the workers continue, although there is always work.
#[test]
fn who_helps_leaves_when_the_workers_go_on() {
    must_end(|| {
        let pool = pool(1, Blocking::default());
        let (open, gate) = mpsc::channel::<()>();
        let stuck = run(&pool, move || gate.recv());
        let alive = (0..16).map(|_| hot(&pool)).collect::<Vec<_>>();
        until(|| format!("{pool:?}").contains("away: 1,"));
        drop(open);
        assert!(stuck.recv().unwrap().is_err());
        until(|| format!("{pool:?}").contains("away: 0,"));
        drop(alive);
        end(pool);
    });
}

/// A turn sends to a plain actor, whose turn runs on the same worker and takes long. Messages that
/// its own actor has accepted meanwhile go to the pool.
#[test]
fn an_actor_of_a_pool_does_not_wait_for_a_plain_actors_turn() {
    must_end(|| {
        for threads in [2, 4] {
            let pool = ThreadPool::builder().threads(threads).build().unwrap();
            let n = Actor::builder().executor(pool.handle()).spawn(0).unwrap();
            let (open, gate) = mpsc::channel::<()>();
            let (begin, begun) = mpsc::channel();
            let (plain, itself) = (Actor::new(()), n.clone());
            let stuck = move |(): &mut ()| {
                begin.send(()).unwrap();
                gate.recv().unwrap();
            };
            let (next, came) = mpsc::channel();
            let turn = move |_: &mut i32| {
                plain.send(stuck).unwrap();
                itself.send(move |_| next.send(()).unwrap()).unwrap();
            };
            // No message is sent to it later, because that would make the pool reach it.
            n.send(turn).unwrap();
            begun.recv().unwrap();
            came.recv().expect("while the plain actor is in its turn");
            open.send(()).unwrap();
        }
    });
}
