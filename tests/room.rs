//! Full mailboxes: refusing, waiting for room in order, dropping the newest or the oldest.

mod blocked;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use blocked::Blocked;
use turnwise::{Actor, AskError, Limit, Overflow, Reason, Undelivered};

fn bounded(capacity: usize, overflow: Overflow) -> Actor<Vec<u32>> {
    Actor::builder(Vec::new()).capacity(capacity, overflow).spawn().unwrap()
}

#[test]
fn ten_waiting_senders_are_let_in_in_the_order_in_which_they_came() {
    for capacity in [1, 3, 64] {
        let log = bounded(capacity, Overflow::Reject);
        let busy = Blocked::start(&log);
        for n in 0..capacity as u32 {
            log.try_send(move |log| log.push(n)).unwrap();
        }
        let first = capacity as u32;
        let mut waiting = Vec::new();
        for n in first..first + 10 {
            let (tx, rx) = mpsc::channel();
            let log = log.clone();
            waiting.push(thread::spawn(move || {
                // It tells when it is about to wait: the next one starts after that, and sits down behind it.
                let sending = log.send_async(move |log| log.push(n));
                let mut sending = pin!(sending);
                let woken = Arc::new(Unpark(thread::current()));
                let waker = Waker::from(woken);
                let mut cx = Context::from_waker(&waker);
                assert!(sending.as_mut().poll(&mut cx).is_pending());
                tx.send(()).unwrap();
                while sending.as_mut().poll(&mut cx).map(Result::unwrap).is_pending() {
                    thread::park();
                }
            }));
            rx.recv().unwrap();
        }
        busy.end();
        waiting.into_iter().for_each(|sender| sender.join().unwrap());
        let seen = log.with(|log| log.clone()).unwrap();
        assert_eq!(seen, (0..first + 10).collect::<Vec<_>>());
    }
}

struct Unpark(thread::Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_limited_wait_gives_the_message_back_in_time_and_it_never_runs() {
    let log = bounded(1, Overflow::Reject);
    let busy = Blocked::start(&log);
    log.send(|log| log.push(1)).unwrap();
    let start = Instant::now();
    let refused = log.send_within(Duration::from_millis(50), |log| log.push(2)).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert_eq!(refused.reason(), &Reason::Full);
    let at_once = log.send_within(Limit::Immediate, |log| log.push(3)).unwrap_err();
    assert_eq!(at_once.reason(), &Reason::Full);
    busy.end();
    assert_eq!(log.with(|log| log.clone()).unwrap(), [1]);
}

#[test]
fn many_senders_wait_for_a_small_mailbox_and_nothing_is_lost() {
    let rounds = if cfg!(debug_assertions) { 2_000 } else { 50_000 };
    for capacity in [1, 2, 7] {
        let log = Actor::builder(0usize).capacity(capacity, Overflow::Reject).spawn().unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                let log = log.clone();
                scope.spawn(move || {
                    for _ in 0..rounds {
                        log.send_within(Limit::Unlimited, |n| *n += 1).unwrap();
                    }
                });
            }
        });
        assert_eq!(log.with(|n| *n).unwrap(), 4 * rounds);
    }
}

#[test]
fn timing_out_and_being_let_in_exclude_each_other() {
    let rounds = if cfg!(debug_assertions) { 300 } else { 5_000 };
    let n = Actor::builder(0usize).capacity(1, Overflow::Reject).spawn().unwrap();
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (n, sent) = (n.clone(), &sent);
            scope.spawn(move || {
                for round in 0..rounds {
                    let limit = Duration::from_micros((round * 7 + thread) as u64 % 50);
                    let work = move |n: &mut usize| {
                        *n += 1;
                        std::hint::black_box((0..200).fold(0, |a, b| a ^ b));
                    };
                    match n.send_within(limit, work) {
                        Ok(()) => {
                            sent.fetch_add(1, SeqCst);
                        }
                        Err(error) => assert_eq!(error.reason(), &Reason::Full),
                    }
                }
            });
        }
    });
    assert_eq!(n.with(|n| *n).unwrap(), sent.load(SeqCst));
}

#[test]
fn closing_turns_those_who_wait_away_with_their_message() {
    let log = bounded(1, Overflow::Reject);
    let busy = Blocked::start(&log);
    log.send(|log| log.push(1)).unwrap();
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let log = log.clone();
            thread::spawn(move || log.send_within(Limit::Unlimited, |log| log.push(9)).map_err(|error| error.into_parts().1))
        })
        .collect();
    log.close();
    busy.end();
    let refused = waiting.into_iter().map(|sender| sender.join().unwrap()).filter(|sent| sent == &Err(Reason::Closed)).count();
    assert_eq!(refused, 4, "all came after the close, or were waiting then");
}

#[test]
fn a_dropped_future_withdraws_its_message() {
    let log = bounded(1, Overflow::Reject);
    let busy = Blocked::start(&log);
    log.send(|log| log.push(1)).unwrap();
    {
        let mut sending = pin!(log.send_async(|log| log.push(2)));
        assert!(sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    busy.end();
    assert_eq!(log.with(|log| log.clone()).unwrap(), [1]);
}

#[test]
fn the_newest_is_dropped_when_that_was_asked_for() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let log = Actor::builder(Vec::new())
        .capacity(2, Overflow::DropNewest)
        .undelivered(move |_: Undelivered<Vec<u32>>| {
            count.fetch_add(1, SeqCst);
        })
        .spawn()
        .unwrap();
    let busy = Blocked::start(&log);
    for n in 0..5 {
        log.send(move |log| log.push(n)).unwrap();
    }
    assert_eq!(log.try_send(|log| log.push(9)).unwrap_err().reason(), &Reason::Full);
    assert_eq!(dropped.load(SeqCst), 3);
    busy.end();
    assert_eq!(log.with(|log| log.clone()).unwrap(), [0, 1]);
}

#[test]
fn the_oldest_is_freed_while_a_handler_blocks() {
    struct Big(Arc<AtomicUsize>, #[allow(dead_code)] Vec<u8>);
    impl Drop for Big {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    for capacity in [1usize, 3] {
        let log = bounded(capacity, Overflow::DropOldest);
        let busy = Blocked::start(&log);
        for n in 0..10 {
            alive.fetch_add(1, SeqCst);
            let big = Big(alive.clone(), vec![0; 1 << 20]);
            log.send(move |log| {
                let _big = &big;
                log.push(n);
            })
            .unwrap();
            assert!(alive.load(SeqCst) <= capacity, "freed at once, though the handler blocks");
        }
        assert_eq!(log.try_send(|log| log.push(99)).unwrap_err().reason(), &Reason::Full);
        assert!(matches!(log.ask(|log| log.len()).wait(), Err(AskError::Full)));
        busy.end();
        assert_eq!(log.with(|log| log.clone()).unwrap(), (10 - capacity as u32..10).collect::<Vec<_>>());
        assert_eq!(alive.load(SeqCst), 0);
    }
}

#[test]
fn dropping_the_oldest_keeps_one_order_and_one_limit() {
    let log = bounded(2, Overflow::DropOldest);
    let busy = Blocked::start(&log);
    log.send(|log| log.push(1)).unwrap();
    let asked = log.ask(|log| log.push(2));
    log.send(|log| log.push(3)).unwrap(); // makes 1 go
    log.send(|log| log.push(4)).unwrap(); // makes 3 go: 2 is awaited
    assert_eq!(log.len(), 3, "two wait, one runs");
    assert!(log.send_many([|log: &mut Vec<u32>| log.push(5)]).is_ok(), "one of many is one");
    assert!(matches!(log.ask(|_| ()).wait(), Err(AskError::Full)));
    busy.end();
    assert_eq!(asked.wait(), Ok(()));
    assert_eq!(log.with(|log| log.clone()).unwrap(), [2, 5]);
    // A question that panics in the ring is told so.
    let busy = Blocked::start(&log);
    let asked = log.ask(|_| std::panic::resume_unwind(Box::new("in the ring")));
    busy.end();
    assert_eq!(asked.wait(), Err::<(), _>(AskError::Panicked("in the ring".into())));
}

#[test]
fn dropping_under_load_accounts_for_every_message() {
    let rounds = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
    for overflow in [Overflow::DropNewest, Overflow::DropOldest] {
        for capacity in [1, 5] {
            let dropped = Arc::new(AtomicUsize::new(0));
            let count = dropped.clone();
            let n = Actor::builder(0usize)
                .capacity(capacity, overflow)
                .undelivered(move |_: Undelivered<usize>| {
                    count.fetch_add(1, SeqCst);
                })
                .spawn()
                .unwrap();
            thread::scope(|scope| {
                for _ in 0..3 {
                    let n = n.clone();
                    scope.spawn(move || (0..rounds).for_each(|_| n.send(|n| *n += 1).unwrap()));
                }
            });
            let handled = n.with(|n| *n).unwrap();
            assert_eq!(handled + dropped.load(SeqCst), 3 * rounds);
        }
    }
}

#[test]
fn actors_that_only_try_to_send_to_each_other_never_hang() {
    struct Peer(Vec<Actor<Peer>>, u32);
    let peers: Vec<_> = (0..3).map(|_| Actor::builder(Peer(Vec::new(), 0)).capacity(1, Overflow::Reject).spawn().unwrap()).collect();
    for peer in &peers {
        let all = peers.clone();
        peer.send(move |peer| peer.0 = all).unwrap();
    }
    fn pass(peer: &mut Peer) {
        peer.1 += 1;
        if peer.1 < 2_000 {
            for other in &peer.0 {
                let _ = other.try_send(pass);
            }
        }
    }
    thread::scope(|scope| {
        for peer in &peers {
            scope.spawn(move || peer.try_send(pass));
        }
    });
    for peer in &peers {
        peer.wait_idle().unwrap();
        peer.with(|peer| peer.0.clear()).unwrap();
    }
}
