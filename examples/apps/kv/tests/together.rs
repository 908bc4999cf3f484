//! Many clients at once.

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use common::{Dice, Kv, TABLES, frame, size};

#[test]
fn many_clients_increment_and_nothing_is_lost() {
    const CLIENTS: usize = 8;
    const KEYS: usize = 5;
    let rounds = size(100, 1000);
    for table in TABLES {
        let kv = Kv::start(table);
        thread::scope(|scope| {
            for n in 0..CLIENTS {
                let mut client = kv.client();
                scope.spawn(move || {
                    let mut dice = Dice(n as u64);
                    for _ in 0..rounds {
                        let len = 1 + dice.below(20);
                        let batch: Vec<_> = (0..len)
                            .flat_map(|_| {
                                let key = format!("n{}", dice.below(KEYS));
                                let one = frame(&[b"INCR", key.as_bytes()]);
                                let all = frame(&[b"INCRBY", b"all", b"1"]);
                                [one, all].concat()
                            })
                            .collect();
                        client.send(&batch);
                        for _ in 0..2 * len {
                            assert!(client.reply().starts_with(b":"));
                        }
                        client.send(&frame(&[b"INCRBY", b"sent", len.to_string().as_bytes()]));
                        client.reply();
                    }
                });
            }
        });
        let mut client = kv.client();
        let sum: i64 = (0..KEYS).map(|n| client.number(&format!("INCRBY n{n} 0"))).sum();
        let sent = client.number("INCRBY sent 0");
        assert!(sent >= (CLIENTS * rounds) as i64);
        assert_eq!((sum, client.number("INCRBY all 0")), (sent, sent), "{table}");
        assert_eq!(client.number("DBSIZE"), KEYS as i64 + 2, "{table}");
    }
}

/// Keys that are made and deleted by all clients: each key is made by exactly one of them.
#[test]
fn a_key_that_comes_and_goes_is_made_once() {
    let rounds = size(500, 5000);
    for table in TABLES {
        let kv = Kv::start(table);
        let balance = AtomicUsize::new(0);
        thread::scope(|scope| {
            for n in 0..4_u64 {
                let mut client = kv.client();
                let balance = &balance;
                scope.spawn(move || {
                    let mut dice = Dice(n);
                    for _ in 0..rounds {
                        let key = dice.below(3);
                        let made = client.number(&format!("SETNX k{key} 1"));
                        balance.fetch_add(made as usize, SeqCst);
                        let gone = client.number(&format!("DEL k{}", dice.below(3)));
                        balance.fetch_sub(gone as usize, SeqCst);
                    }
                });
            }
        });
        let mut client = kv.client();
        let left = balance.load(SeqCst) as i64;
        assert_eq!(client.number("EXISTS k0 k1 k2"), left, "{table}");
        assert_eq!(client.number("DBSIZE"), left, "{table}");
    }
}

/// Sets the flag when it is dropped: a panic, too, ends the threads that run until then.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Returns the number of observations of one half of an `MSET`.
fn torn(table: &str) -> usize {
    let kv = Kv::start(table);
    let over = AtomicBool::new(false);
    let start = Barrier::new(4);
    thread::scope(|scope| {
        let _over = Over(&over);
        for n in 0..2 {
            let mut client = kv.client();
            let (start, over) = (&start, &over);
            scope.spawn(move || {
                start.wait();
                for m in 0.. {
                    if over.load(SeqCst) {
                        break;
                    }
                    let (a, b) = if n == 0 { ("a", "b") } else { ("b", "a") };
                    client.ask(&format!("MSET {a} {n}-{m} c x {b} {n}-{m}"));
                }
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut client = kv.client();
                let (start, rounds) = (&start, size(1000, 5_000));
                scope.spawn(move || {
                    start.wait();
                    let mut torn = 0;
                    for _ in 0..rounds {
                        let reply = client.ask("MGET a b");
                        let mut lines = reply.lines().skip(1);
                        let mut value = || match lines.next() {
                            Some("$-1") => None,
                            _ => lines.next(),
                        };
                        torn += usize::from(value() != value());
                    }
                    torn
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("it is served")).sum()
    })
}

#[test]
fn mset_is_one_step_where_it_is_promised() {
    for table in ["actors", "sharded", "mutex"] {
        assert_eq!(torn(table), 0, "{table}");
    }
    println!("dashmap, which promises nothing: {} halves seen", torn("dashmap"));
}

/// `FLUSHALL` is atomic, too: values that a client has written after it stay, those before it are
/// removed, whatever the others do.
#[test]
fn flushall_takes_what_was_there_and_no_more() {
    let rounds = size(50, 500);
    for table in TABLES {
        let kv = Kv::start(table);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = Over(&over);
            for n in 0..3 {
                let mut client = kv.client();
                let over = &over;
                scope.spawn(move || {
                    let mut m = 0;
                    while !over.load(SeqCst) {
                        m += 1;
                        let key = m % 50;
                        let line = match m % 3 {
                            0 => format!("MSET w{n}-{key} 1 w{n}-a 2 w{n}-b 3"),
                            1 => format!("SET w{n}-{key} 1 EX 1000"),
                            _ => format!("DEL w{n}-{key} w{n}-a"),
                        };
                        assert!(!client.ask(&line).starts_with('-'));
                    }
                });
            }
            let mut client = kv.client();
            for _ in 0..rounds {
                assert_eq!(client.ask("MSET mine 1 also 2"), "+OK");
                assert_eq!(client.ask("FLUSHALL"), "+OK");
                assert_eq!(client.ask("MGET mine also"), "*2\r\n$-1\r\n$-1", "{table}");
                assert_eq!(client.ask("SET after 1"), "+OK");
                assert_eq!(client.ask("GET after"), "$1\r\n1", "{table}");
            }
        });
        let mut client = kv.client();
        assert_eq!(client.ask("FLUSHALL"), "+OK");
        assert_eq!(client.number("DBSIZE"), 0, "{table}");
        assert!(client.ask("INFO").contains("keys:0,timers:0"), "{table}");
    }
}
