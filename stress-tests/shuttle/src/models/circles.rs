//! Turns that wait for each other.

use super::*;
use crate::floors::error::Cycle;

fn told<R>(answer: Result<R, AskError>) -> Option<Cycle> {
    match answer {
        Ok(_) => None,
        Err(AskError::Refused(Reason::Deadlock(cycle), _)) => Some(cycle),
        Err(error) => panic!("{error}"),
    }
}

/// Five, whose names are their numbers.
fn five() -> Vec<Actor<u64>> {
    let name = |at: usize| ["0", "1", "2", "3", "4"][at];
    (0..5).map(|at| Actor::builder().name(name(at)).spawn(0).expect("it is right")).collect()
}

/// Three to five threads, each in a turn of an actor of its own. When all are there, each waits for
/// the next one's, asleep in `with` or in `wait`. Exactly one gets an error, with all names.
pub(super) fn ring() {
    let (actors, many) = (five(), 3 + any(3));
    let inside = Arc::new((Mutex::new(0), Condvar::new()));
    let threads: Vec<_> = (0..many)
        .map(|at| {
            let (own, next) = (actors[at].clone(), actors[(at + 1) % many].clone());
            let (inside, kind) = (inside.clone(), any(3));
            let all_are_there = move || {
                let mut there = inside.0.lock();
                *there += 1;
                inside.1.notify_all();
                while *there < many {
                    inside.1.wait(&mut there);
                }
            };
            spawn(move || {
                let answer = match kind {
                    0 => own.with(|_| {
                        all_are_there();
                        next.with(|n| *n += 1)
                    }),
                    1 => own.with(|_| {
                        all_are_there();
                        next.call(|n| *n += 1).wait()
                    }),
                    _ => own
                        .call(move |_| {
                            all_are_there();
                            next.call(|n| *n += 1).wait()
                        })
                        .wait(),
                };
                told(answer.expect("it is not stopped")).map(|cycle| cycle.actors().len())
            })
        })
        .collect();
    let told: Vec<usize> = threads.into_iter().filter_map(Joiner::join).collect();
    fallback::join_all();
    assert_eq!(told, [many], "one is refused, with all names");
}

/// The ring of suspended turns, but each begins when the one before it was there: its
/// answer has come, though it may not have been woken. No circle is closed, and no wait is refused.
pub(super) fn relay() {
    let (actors, many) = (five(), 3 + any(3));
    let baton = Arc::new((Mutex::new(0), Condvar::new()));
    let threads: Vec<_> = (0..many)
        .map(|at| {
            let (own, next) = (actors[at].clone(), actors[(at + 1) % many].clone());
            let baton = baton.clone();
            spawn(move || {
                let mut runner = baton.0.lock();
                while *runner < at {
                    baton.1.wait(&mut runner);
                }
                drop(runner);
                let baton = baton.clone();
                let pass = move |_: &mut u64| {
                    *baton.0.lock() += 1;
                    baton.1.notify_all();
                };
                let answer = own.run(async move |_: &mut u64| next.call(pass).await).wait();
                assert_eq!(answer, Ok(Ok(())), "there is no circle");
            })
        })
        .collect();
    threads.into_iter().for_each(Joiner::join);
    fallback::join_all();
}

/// Four threads go from one's turn into another's, three deep. If all go upwards none is refused;
/// else each error has a way that can be gone, and none hangs. All may be refused: a thread inside
/// a turn may run there what others have left, and that may not wait for this turn.
pub(super) fn ways() {
    let (actors, upwards) = (five(), any(2) == 0);
    let ways: Vec<[usize; 3]> = (0..4)
        .map(|_| {
            let mut way: Vec<usize> = (0..5).collect();
            way.remove(any(5));
            way.remove(any(4));
            if !upwards {
                (0..3).for_each(|at| way.swap(at, any(3)));
            }
            [way[0], way[1], way[2]]
        })
        .collect();
    let threads: Vec<_> = ways
        .iter()
        .map(|way| {
            let [a, b, c] = way.map(|at| actors[at].clone());
            let kind = any(2);
            spawn(move || {
                told(match kind {
                    0 => {
                        a.with(|_| b.with(|_| c.with(|n| *n += 1))).and_then(|r| r).and_then(|r| r)
                    }
                    _ => a
                        .with(|_| b.call(move |_| c.call(|n| *n += 1).wait()).wait())
                        .and_then(|r| r)
                        .and_then(|r| r),
                })
            })
        })
        .collect();
    let told: Vec<Cycle> = threads.into_iter().filter_map(Joiner::join).collect();
    fallback::join_all();
    assert!(!upwards || told.is_empty(), "there is no circle");
    for cycle in told {
        let at: Vec<usize> =
            cycle.actors().iter().map(|name| name.parse().expect("a number")).collect();
        for (from, to) in at.iter().zip(at.iter().cycle().skip(1)) {
            let goes = |way: &[usize; 3]| way.windows(2).any(|step| step == [*from, *to]);
            assert!(ways.iter().any(goes), "no turn waits in {from} for {to}: {at:?}");
        }
    }
}
