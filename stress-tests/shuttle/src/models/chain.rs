//! Turns that send and ask on, and panic.

use super::*;
use crate::sync::panic;

fn add(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

/// A chain of four: plain; one that panics and goes on; one that is made anew; one that a worker
/// runs. From three threads, turns go down it, three deep by `with`, by questions, by messages that
/// are sent and posted, with a panic somewhere. All are answered, and nothing that was sent is
/// lost.
pub(super) fn chain() {
    let (workers, made) = (Workers::default(), Arc::new(AtomicU64::new(0)));
    let turns = Arc::new(AtomicU64::new(0));
    let worker = workers.start();
    let first = Actor::new(0_u64);
    let counted = turns.clone();
    let goes_on = Actor::builder()
        .panic_policy(PanicPolicy::Resume)
        .on_batch_end(move |_, turns| _ = counted.fetch_add(turns, Relaxed))
        .spawn(0_u64)
        .expect("it is right");
    let anew = made.clone();
    let made_anew = Actor::builder()
        .panic_policy(PanicPolicy::restart(move || {
            add(&anew);
            0
        }))
        .spawn(0_u64)
        .expect("it is right");
    let last = Actor::builder().executor(workers.clone()).spawn(0_u64).expect("it is right");
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (first, goes_on) = (first.clone(), goes_on.clone());
            let (made_anew, last) = (made_anew.clone(), last.clone());
            spawn(move || match any(4) {
                // Three deep, and a panic at the bottom or none: it comes up through two turns,
                // each of which is dealt with, and stops in the first.
                0 => {
                    let panics = any(2) == 0;
                    let deep = first.with(|n| {
                        *n += 1;
                        panic::catch(|| {
                            goes_on.with(|n| {
                                *n += 1;
                                made_anew.with(|_| {
                                    if panics {
                                        Planned::panic()
                                    }
                                })
                            })
                        })
                    });
                    match deep.expect("it is caught") {
                        Ok(bottom) => assert_eq!((bottom, panics), (Ok(Ok(())), false)),
                        Err(_) => assert!(panics),
                    }
                    Sent { first: 1, goes_on: 1, last: 0, panics: panics.into() }
                }
                // Down by questions, whose answers are waited for outside.
                1 => {
                    let reply = first.call(move |n| {
                        *n += 1;
                        goes_on.send(|n| *n += 1).expect("it goes on");
                        made_anew.call(move |_| last.call(|n| *n += 1))
                    });
                    let inner = reply.wait().expect("no panic here").wait();
                    inner.expect("no panic here").wait().expect("no panic here");
                    Sent { first: 1, goes_on: 1, last: 1, panics: 0 }
                }
                // By messages: sent, and posted.
                2 => {
                    let sent = first.send(move |n| {
                        *n += 1;
                        let (posts, to) = (goes_on.clone(), last.clone());
                        goes_on
                            .send(move |n| {
                                *n += 1;
                                posts.posted().send(|n| *n += 1).expect("it goes on");
                                to.posted().send(|n| *n += 1).expect("it is not stopped");
                            })
                            .expect("it goes on");
                        last.send(|n| *n += 1).expect("it is not stopped");
                    });
                    sent.expect("it is not stopped");
                    Sent { first: 1, goes_on: 2, last: 2, panics: 0 }
                }
                // A panic in a turn that has sent something, behind one that waits for it.
                _ => {
                    let reply = goes_on.call(move |n| {
                        *n += 1;
                        last.send(|n| *n += 1).expect("it is not stopped");
                        made_anew.send(|_| Planned::panic()).expect("it is made anew");
                        Planned::panic()
                    });
                    let answer: Result<(), _> = reply.wait();
                    assert!(matches!(answer, Err(AskError::Panicked(_))));
                    Sent { first: 0, goes_on: 1, last: 1, panics: 1 }
                }
            })
        })
        .collect();
    let all = threads.into_iter().map(Joiner::join).fold(Sent::default(), Sent::and);
    // What was sent to one goes on to the next: asked in the order of the chain, all have it.
    let seen = [&first, &goes_on, &goes_on, &made_anew, &last].map(|at| at.call(|n| *n).wait());
    assert_eq!(seen[0], Ok(all.first));
    assert_eq!(seen[2], Ok(all.goes_on));
    assert_eq!(seen[4], Ok(all.last));
    assert_eq!(made.load(Relaxed), all.panics, "made anew after each panic");
    drop((first, goes_on, made_anew, last));
    workers.close();
    worker.join();
    fallback::join_all();
    assert_eq!(turns.load(Relaxed), all.goes_on + 2, "each turn is in a batch that ends");
}

/// Messages that a thread has sent, by receiver.
#[derive(Default)]
struct Sent {
    first: u64,
    goes_on: u64,
    last: u64,
    panics: u64,
}

impl Sent {
    fn and(self, other: Self) -> Self {
        Sent {
            first: self.first + other.first,
            goes_on: self.goes_on + other.goes_on,
            last: self.last + other.last,
            panics: self.panics + other.panics,
        }
    }
}
