use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use turnwise::*;

#[test]
fn many_threads_one_counter() {
    let a = Actor::new(0u64);
    std::thread::scope(|s| {
        for _ in 0..8 {
            let a = a.clone();
            s.spawn(move || {
                for _ in 0..100_000 {
                    a.send(|n| *n += 1).unwrap();
                }
            });
        }
    });
    assert_eq!(a.with(|n| *n).unwrap(), 800_000);
}
#[test]
fn with_contended() {
    let a = Actor::new(0u64);
    std::thread::scope(|s| {
        for _ in 0..4 {
            let a = a.clone();
            s.spawn(move || {
                for _ in 0..50_000 {
                    let mut x = 0;
                    a.with(|n| {
                        *n += 1;
                        x = *n
                    })
                    .unwrap();
                    assert!(x > 0);
                }
            });
        }
    });
    assert_eq!(a.with(|n| *n).unwrap(), 200_000);
}
#[test]
fn asks() {
    let a = Actor::new(0u64);
    std::thread::scope(|s| {
        for _ in 0..4 {
            let a = a.clone();
            s.spawn(move || {
                for _ in 0..50_000 {
                    let x = a
                        .ask(|n| {
                            *n += 1;
                            *n
                        })
                        .wait()
                        .unwrap();
                    assert!(x > 0);
                }
            });
        }
    });
    assert_eq!(a.with(|n| *n).unwrap(), 200_000);
}
struct Link(Option<Actor<Link>>, Arc<AtomicU64>);
#[test]
fn chain() {
    let n = Arc::new(AtomicU64::new(0));
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(move || {
            let mut next = None;
            for _ in 0..1_000_000 {
                next = Some(Actor::new(Link(next, n.clone())));
            }
            fn go(l: &mut Link) {
                l.1.fetch_add(1, Relaxed);
                if let Some(x) = &l.0 {
                    x.send(go).unwrap();
                }
            }
            let first = next.unwrap();
            first.send(go).unwrap();
            assert_eq!(n.load(Relaxed), 1_000_000);
            drop(first);
            assert_eq!(Arc::strong_count(&n), 1);
        })
        .unwrap()
        .join()
        .unwrap();
}
#[test]
fn panics() {
    let a = Actor::builder(0).on_panic(Panic::Resume).spawn().unwrap();
    for i in 1..=1000 {
        a.enqueue(move |n| {
            if i % 7 == 0 {
                std::panic::resume_unwind(Box::new("x"))
            }
            *n += 1
        })
        .unwrap();
    }
    a.drain();
    assert_eq!(a.with(|n| *n).unwrap(), 858);
    let b = Actor::new(0);
    b.send(|_| panic!("boo")).unwrap();
    println!("{:?}", b.send(|_| {}));
}
