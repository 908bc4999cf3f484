//! A lossy way in: at most so many messages wait, and one more displaces the oldest, which comes
//! back.

mod common;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;

use common::{Held, Tally, Token, must_end, queued, quiet_panic, size};
use turnwise::{
    Actor, BuildError, Context, Handler, Lossy, Overflow, PanicPolicy, Reason, StopCause,
    Undelivered,
};

type Log = Vec<u32>;

#[derive(Debug, PartialEq)]
struct Frame(u32);

impl Handler<Frame> for Log {
    type Reply = ();
    fn handle(&mut self, Frame(n): Frame, _: &mut Context<'_, Self>) {
        self.push(n);
    }
}

fn seen(log: &Actor<Log>) -> Log {
    log.with(|log| log.clone()).unwrap()
}

#[test]
fn a_lossy_way_in_without_room_is_an_error() {
    let log = Actor::new(Log::new());
    assert_eq!(Lossy::<_, Frame>::new(&log, 0).unwrap_err(), BuildError::CapacityZero);
}

#[test]
fn an_idle_actor_handles_each_message_at_once() {
    let log = Actor::new(Log::new());
    let frames = Lossy::new(&log, 1).unwrap();
    for n in 0..100 {
        assert_eq!(frames.tell(Frame(n)).unwrap(), None);
        assert!(frames.is_empty());
    }
    assert_eq!(seen(&log), (0..100).collect::<Vec<_>>());
}

// A12.
#[test]
fn the_newest_are_kept_and_the_oldest_comes_back() {
    for capacity in [1_usize, 2, 7] {
        let log = Actor::new(Log::new());
        let frames = Lossy::new(&log, capacity).unwrap();
        let held = Held::hold(&log);
        for n in 0..20 {
            let displaced = (n as usize).checked_sub(capacity).map(|n| Frame(n as u32));
            assert_eq!(frames.tell(Frame(n)).unwrap(), displaced);
            assert_eq!(frames.len(), capacity.min(n as usize + 1));
            assert_eq!(log.len(), 1 + frames.len(), "each has one turn, and one runs");
        }
        held.let_go();
        assert_eq!(seen(&log), (20 - capacity as u32..20).collect::<Vec<_>>());
        assert!(frames.is_empty() && log.is_idle());
    }
}

#[test]
fn the_oldest_is_freed_while_a_handler_blocks() {
    struct Big(Arc<AtomicUsize>, u32, #[allow(dead_code)] Vec<u8>);
    impl Drop for Big {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    impl Handler<Big> for Log {
        type Reply = ();
        fn handle(&mut self, big: Big, _: &mut Context<'_, Self>) {
            self.push(big.1);
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    for capacity in [1_usize, 3] {
        let log = Actor::new(Log::new());
        let frames = Lossy::new(&log, capacity).unwrap();
        let held = Held::hold(&log);
        for n in 0..10 {
            alive.fetch_add(1, SeqCst);
            drop(frames.tell(Big(alive.clone(), n, vec![0; 1 << 20])).unwrap());
            assert!(alive.load(SeqCst) <= capacity, "freed at once, though the handler blocks");
        }
        held.let_go();
        assert_eq!(seen(&log), (10 - capacity as u32..10).collect::<Vec<_>>());
        assert_eq!(alive.load(SeqCst), 0);
    }
}

#[test]
fn one_that_displaces_takes_over_the_oldest_turn() {
    let (queue, log) = queued(Log::new());
    let frames = Lossy::new(&log, 2).unwrap();
    assert_eq!(frames.tell(Frame(1)).unwrap(), None);
    let asked = log.call(|log| log.push(100));
    assert_eq!(frames.tell(Frame(2)).unwrap(), None);
    assert_eq!(frames.tell(Frame(3)).unwrap(), Some(Frame(1)));
    assert_eq!(frames.tell(Frame(4)).unwrap(), Some(Frame(2)));
    log.send(|log| log.push(200)).unwrap();
    assert_eq!(log.len(), 4, "two lossy ones, a question, a message: none of them was dropped");
    queue.run_until_idle();
    assert_eq!(asked.wait(), Ok(()));
    assert_eq!(common::asked(&queue, &log, |log| log.clone()), [3, 100, 4, 200]);
}

#[test]
fn clones_are_one_way_in_and_keep_the_actor_going() {
    let ended = Arc::new(Mutex::new(None));
    let told = ended.clone();
    let builder = Actor::builder(Log::new());
    let log = builder.on_end(move |log, _| *told.lock().unwrap() = Some(log)).spawn().unwrap();
    let frames = Lossy::new(&log, 1).unwrap();
    let clone = frames.clone();
    assert!(frames.actor().same_actor(&log));
    drop(log);
    let held = Held::hold(frames.actor());
    assert_eq!(frames.tell(Frame(1)).unwrap(), None);
    assert_eq!(clone.tell(Frame(2)).unwrap(), Some(Frame(1)));
    assert_eq!((frames.len(), clone.len()), (1, 1));
    held.let_go();
    drop(frames);
    assert_eq!(*ended.lock().unwrap(), None);
    drop(clone);
    assert_eq!(ended.lock().unwrap().take(), Some(vec![2]));
}

#[test]
fn what_is_drained_is_not_handled() {
    let (queue, log) = queued(Log::new());
    let frames = Lossy::new(&log, 3).unwrap();
    for n in 0..5 {
        frames.tell(Frame(n)).unwrap();
    }
    assert_eq!(frames.drain(), [Frame(2), Frame(3), Frame(4)]);
    assert!(frames.is_empty());
    assert_eq!(frames.tell(Frame(5)).unwrap(), None);
    assert_eq!(common::asked(&queue, &log, |log| log.clone()), [5]);
}

#[test]
fn a_closed_stopped_or_full_actor_gives_it_back() {
    let log = Actor::new(Log::new());
    let frames = Lossy::new(&log, 2).unwrap();
    log.close();
    assert_eq!(frames.tell(Frame(1)).unwrap_err().into_parts(), (Frame(1), Reason::Closed));
    let log = Actor::new(Log::new());
    let frames = Lossy::new(&log, 2).unwrap();
    log.stop();
    let stopped = Reason::Stopped(StopCause::Requested);
    assert_eq!(frames.tell(Frame(1)).unwrap_err().into_parts(), (Frame(1), stopped));
    // The actor's own limit counts, too.
    let log = Actor::builder(Log::new()).capacity(1, Overflow::Reject).spawn().unwrap();
    let frames = Lossy::new(&log, 2).unwrap();
    let held = Held::hold(&log);
    assert_eq!(frames.tell(Frame(1)).unwrap(), None);
    assert_eq!(frames.tell(Frame(2)).unwrap_err().into_parts(), (Frame(2), Reason::Full));
    assert_eq!(frames.len(), 1);
    held.let_go();
    assert_eq!(seen(&log), [1]);
}

#[test]
fn what_waits_when_the_actor_stops_goes_to_the_hook() {
    let back = Arc::new(Mutex::new(Vec::new()));
    let hook = back.clone();
    let log = Actor::builder(Log::new())
        .on_undelivered(move |message| match message {
            Undelivered::Message(frame) => {
                hook.lock().unwrap().push(*frame.downcast::<Frame>().unwrap());
            }
            other => panic!("{other:?}"),
        })
        .spawn()
        .unwrap();
    let frames = Lossy::new(&log, 2).unwrap();
    let held = Held::hold(&log);
    for n in 0..4 {
        frames.tell(Frame(n)).unwrap();
    }
    log.stop();
    assert!(back.lock().unwrap().is_empty(), "the turn that runs is not disturbed");
    held.let_go();
    assert_eq!(*back.lock().unwrap(), [Frame(2), Frame(3)]);
    assert!(frames.is_empty());
}

#[test]
fn a_handler_may_panic_or_tell_itself() {
    struct Own(Log, Option<Lossy<Own, u32>>);
    impl Handler<u32> for Own {
        type Reply = ();
        fn handle(&mut self, n: u32, _: &mut Context<'_, Self>) {
            self.0.push(n);
            if n == 7 {
                quiet_panic("seven");
            }
            if n < 10 {
                // Two find the way in full: the first is displaced by the second.
                let own = self.1.as_ref().unwrap();
                assert_eq!(own.tell(n + 100).unwrap(), None);
                assert_eq!(own.tell(n + 1).unwrap(), Some(n + 100));
            }
        }
    }
    must_end(|| {
        let builder = Actor::builder(Own(Log::new(), None)).panic_policy(PanicPolicy::Resume);
        let actor = builder.spawn().unwrap();
        let numbers = Lossy::new(&actor, 1).unwrap();
        let own = numbers.clone();
        actor.with(move |state| state.1 = Some(own)).unwrap();
        assert_eq!(numbers.tell(3).unwrap(), None);
        assert_eq!(numbers.tell(8).unwrap(), None);
        actor.wait_idle().unwrap();
        let log = actor.with(|state| {
            state.1.take();
            state.0.clone()
        });
        assert_eq!(log.unwrap(), [3, 4, 5, 6, 7, 8, 9, 10]);
    });
}

#[test]
fn dropping_the_oldest_under_load_accounts_for_all() {
    struct Counted(u32, Token);
    impl Handler<Counted> for Log {
        type Reply = ();
        fn handle(&mut self, Counted(n, token): Counted, _: &mut Context<'_, Self>) {
            self.push(n);
            token.handle();
        }
    }
    must_end(|| {
        let rounds = size(5_000, 100_000) as u32;
        for capacity in [1, 5] {
            let tally = Tally::default();
            let log = Actor::new(Log::new());
            let frames = Lossy::new(&log, capacity).unwrap();
            thread::scope(|scope| {
                for me in 0..3 {
                    let (frames, tally) = (&frames, &tally);
                    scope.spawn(move || {
                        for n in 0..rounds {
                            assert!(frames.len() <= capacity);
                            let displaced = frames.tell(Counted(3 * n + me, tally.token()));
                            if let Some(Counted(_, token)) = displaced.map_err(|_| "full").unwrap()
                            {
                                token.come_back();
                            }
                        }
                    });
                }
            });
            log.wait_idle().unwrap();
            assert!(frames.is_empty());
            assert_eq!(tally.created(), 3 * rounds as usize);
            assert_eq!(tally.handled() + tally.returned(), tally.created());
            tally.check();
            let seen = seen(&log);
            assert_eq!(seen.len(), tally.handled());
            for me in 0..3 {
                let own: Vec<_> = seen.iter().filter(|n| *n % 3 == me).collect();
                assert!(own.is_sorted(), "those of one sender keep their order");
            }
        }
    });
}
