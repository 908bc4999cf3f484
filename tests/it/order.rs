//! Messages run in the order in which they were accepted. All tests: `cargo test --release --test
//! it order::`.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use crate::common::{Tally, must_end, size};
use turnwise::executor::Blocking;
use turnwise::{Actor, ThreadPool};

const SENDERS: usize = 8;

#[derive(Default)]
struct Ledger {
    next: [u64; SENDERS],
    wrong: Option<(usize, u64)>,
}

impl Ledger {
    fn enter(&mut self, sender: usize, number: u64) {
        if self.next[sender] != number {
            self.wrong.get_or_insert((sender, number));
        }
        self.next[sender] = number + 1;
    }
}

fn check(ledger: &Actor<Ledger>, each: u64) {
    let (next, wrong) = ledger.with(|ledger| (ledger.next, ledger.wrong)).unwrap();
    assert_eq!(wrong, None, "out of order");
    assert_eq!(next, [each; SENDERS]);
}

#[test]
fn each_senders_messages_run_in_its_order() {
    let each = size(25_000, 125_000) as u64;
    let ledger = Actor::new(Ledger::default());
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let ledger = &ledger;
            scope.spawn(move || {
                for number in 0..each {
                    ledger.send(move |ledger: &mut Ledger| ledger.enter(sender, number)).unwrap();
                }
            });
        }
    });
    check(&ledger, each);
    println!("{} messages in order", SENDERS as u64 * each);
}

#[test]
fn the_order_holds_across_all_ways_of_sending() {
    let each = size(2_000, 50_000) as u64 * 6;
    let ledger = Actor::new(Ledger::default());
    let tally = Tally::default();
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (ledger, tally) = (&ledger, &tally);
            scope.spawn(move || {
                let message = |number| {
                    let token = tally.token();
                    move |ledger: &mut Ledger| {
                        ledger.enter(sender, number);
                        token.handle();
                    }
                };
                for n in (0..each).step_by(6) {
                    ledger.send(message(n)).map_err(|_| ()).unwrap();
                    ledger.posted().send(message(n + 1)).map_err(|_| ()).unwrap();
                    ledger.send_many([message(n + 2), message(n + 3)]).map_err(|_| ()).unwrap();
                    drop(ledger.call(message(n + 4)));
                    ledger.with(message(n + 5)).unwrap();
                }
            });
        }
    });
    check(&ledger, each);
    tally.check_all_handled();
}

#[test]
fn the_order_holds_for_sends_from_inside_turns() {
    let each = size(25_000, 125_000) as u64;
    let ledger = Actor::new(Ledger::default());
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let ledger = &ledger;
            scope.spawn(move || {
                // Each sends from turns of its own actor.
                let clock = Actor::new(0_u64);
                for _ in 0..each {
                    let ledger = ledger.clone();
                    clock
                        .send(move |clock| {
                            let number = *clock;
                            *clock += 1;
                            ledger
                                .send(move |ledger: &mut Ledger| ledger.enter(sender, number))
                                .unwrap();
                        })
                        .unwrap();
                }
            });
        }
    });
    check(&ledger, each);
}

#[test]
fn a_refused_wait_overtakes_nothing() {
    must_end(|| {
        for observed in [false, true] {
            let builder = ThreadPool::builder().threads(1).blocking(Blocking::Refuse);
            let pool = builder.build().unwrap();
            let host = Actor::builder().executor(pool.handle()).spawn(()).unwrap();
            let log = Arc::new(Mutex::new(Vec::new()));
            let other = Actor::builder();
            let other = if observed { other.on_batch_end(|_, _| ()) } else { other };
            let other = other.spawn(()).unwrap();
            let (theirs, (tell, told)) = (log.clone(), mpsc::channel());
            host.send(move |_| {
                let inner = theirs.clone();
                other.send(move |_| inner.lock().unwrap().push("sent")).unwrap();
                let waited = other.with(|_| theirs.lock().unwrap().push("waited"));
                tell.send(waited).unwrap();
            })
            .unwrap();
            assert_eq!(told.recv().unwrap(), Ok(()));
            assert_eq!(*log.lock().unwrap(), ["sent", "waited"], "with hooks: {observed}");
        }
    });
}
