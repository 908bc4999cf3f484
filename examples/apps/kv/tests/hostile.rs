//! Wrong commands and hostile frames get redis's own answers, and affect no other client.

mod common;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use common::{Client, Dice, Kv, Redis, TABLES, frame, text, until};

/// The state of a connection afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The server closes it.
    Ends,
    /// It goes on.
    GoesOn,
    /// The server waits for more.
    Waits,
}

use Then::{Ends, GoesOn, Waits};

/// Returns the bytes that are sent, the reply, and the state of the connection afterwards.
fn frames() -> Vec<(Vec<u8>, &'static str, Then)> {
    let count = "-ERR Protocol error: invalid multibulk length\r\n";
    let bulk = "-ERR Protocol error: invalid bulk length\r\n";
    let quotes = "-ERR Protocol error: unbalanced quotes in request\r\n";
    let before = "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n";
    let rows: &[(&[u8], &str, Then)] = &[
        // Counts.
        (b"*2147483648\r\n", count, Ends),
        (b"*9223372036854775807\r\n", count, Ends),
        (b"*99999999999999999999\r\n", count, Ends),
        (b"*abc\r\n", count, Ends),
        (b"*+1\r\n", count, Ends),
        (b"*01\r\n", count, Ends),
        (b"* 1\r\n", count, Ends),
        (b"*\r\n", count, Ends),
        (b"*0\r\n", "", GoesOn),
        (b"*-1\r\n", "", GoesOn),
        (b"*-9223372036854775808\r\n", "", GoesOn),
        (b"*2147483647\r\n", "", Waits),
        (b"*1048577\r\n$4\r\nPING\r\n", "", Waits),
        (b"*\0\r\nPING\r\n", "", Waits),
        // Lengths.
        (b"*1\r\n$-1\r\n", bulk, Ends),
        (b"*1\r\n$536870913\r\n", bulk, Ends),
        (b"*1\r\n$9223372036854775807\r\n", bulk, Ends),
        (b"*1\r\n$\r\n", bulk, Ends),
        (b"*1\r\n$x\r\n", bulk, Ends),
        (b"*1\r\n$+4\r\nPING\r\n", bulk, Ends),
        (b"*1\r\n$536870912\r\n", "", Waits),
        (b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf", "", Waits),
        (b"*1\r\n:3\r\n", "-ERR Protocol error: expected '$', got ':'\r\n", Ends),
        (b"*1\r\n\r\n", "-ERR Protocol error: expected '$', got ' '\r\n", Ends),
        (b"*1\r\n*1\r\n", "-ERR Protocol error: expected '$', got '*'\r\n", Ends),
        (b"*2\r\n$4\r\nPINGx\r\n\r\n", "-ERR Protocol error: expected '$', got ' '\r\n", Ends),
        // The ends of lines are not checked.
        (b"*1\r\x00$4\r\x00PINGxx", "+PONG\r\n", GoesOn),
        (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", "+PONG\r\n+PONG\r\n", GoesOn),
        // Lines.
        (b"\"abc\r\n", quotes, Ends),
        (b"'a'b\r\n", quotes, Ends),
        (b"\"a\"b\r\n", quotes, Ends),
        (b"ping \"\\\"\r\n", quotes, Ends),
        (b"\r\n\n  \r\n\x0b\x0c\r\n", "", GoesOn),
        (b"PING \"a\\x41\\n\\q\"\r\n", "$4\r\naA\nq\r\n", GoesOn),
        (b"PING 'a\\x41\\'\\n'\r\n", "$8\r\na\\x41'\\n\r\n", GoesOn),
        (b"PING a\"b\"\r\n", "$2\r\nab\r\n", GoesOn),
        (b"PING\n", "+PONG\r\n", GoesOn),
        (b"GET a\0b\r\n", "", Waits),
        // Other protocols.
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "", Ends),
        (b"Host: x\r\n", "", Ends),
        // Commands before it are answered, those behind it are not.
        (b"PING\r\n*x\r\nPING\r\n", before, Ends),
        (b"QUIT a b\r\nPING\r\n", "+OK\r\n", Ends),
        // Commands.
        (b"CONFIG\r\n", "-ERR wrong number of arguments for 'config' command\r\n", GoesOn),
        (b"CONFIG GET\r\n", "-ERR wrong number of arguments for 'config|get' command\r\n", GoesOn),
        (b"config foo\r\n", "-ERR unknown subcommand 'foo'. Try CONFIG HELP.\r\n", GoesOn),
        (b"client Foo\r\n", "-ERR unknown subcommand 'Foo'. Try CLIENT HELP.\r\n", GoesOn),
        (b"flushall async x\r\n", "-ERR syntax error\r\n", GoesOn),
        (b"mset a\r\n", "-ERR wrong number of arguments for 'mset' command\r\n", GoesOn),
        (b"set a b ex 0\r\n", "-ERR invalid expire time in 'set' command\r\n", GoesOn),
        (b"get\r\n", "-ERR wrong number of arguments for 'get' command\r\n", GoesOn),
        (
            b"*3\r\n$3\r\nfo\n\r\n$4\r\na\r\nb\r\n$2\r\n\r\n\r\n",
            "-ERR unknown command 'fo ', with args beginning with: 'a  b' '  ' \r\n",
            GoesOn,
        ),
    ];
    let mut rows: Vec<_> = rows.iter().map(|&(a, b, c)| (a.to_vec(), b, c)).collect();
    let long = |start: &str| [start.as_bytes(), &[b'1'; 70_000]].concat();
    let text = "-ERR Protocol error: too big inline request\r\n";
    rows.push((long("x"), text, Ends));
    let text = "-ERR Protocol error: too big mbulk count string\r\n";
    rows.push((long("*"), text, Ends));
    let text = "-ERR Protocol error: too big bulk count string\r\n";
    rows.push((long("*1\r\n$"), text, Ends));
    rows
}

fn check(mut client: Client, bytes: &[u8], answer: &str, then: Then, bytewise: bool) {
    let what = text(&bytes[..bytes.len().min(60)]);
    let mut send = |bytes: &[u8]| {
        if bytewise {
            for byte in bytes {
                // A server that has read enough may have closed.
                if client.stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        } else {
            client.send(bytes);
        }
    };
    send(bytes);
    match then {
        Ends => assert_eq!(text(&client.rest()), answer, "{what:?}"),
        GoesOn => {
            send(&frame(&[b"ECHO", b"\0 still there"]));
            let expected = [answer.as_bytes(), b"$13\r\n\0 still there\r\n"].concat();
            let mut got = vec![0; expected.len()];
            client.stream.read_exact(&mut got).expect("an answer");
            assert_eq!(text(&got), text(&expected), "{what:?}");
        }
        Waits => {
            client.stream.set_read_timeout(Some(Duration::from_millis(20))).expect("an option");
            let got = client.stream.read(&mut [0; 64]);
            assert!(got.is_err(), "{what:?}: {got:?}");
        }
    }
}

/// Counts on a connection of its own until `stop` is set. Returns the number of answers.
fn witness(kv: &Kv, stop: &AtomicBool) -> i64 {
    let mut client = kv.client();
    let mut count = 0;
    while !stop.load(SeqCst) {
        count += 1;
        assert_eq!(client.ask("INCR witness"), format!(":{count}"));
    }
    count
}

/// Runs `f` beside a witness.
fn beside_a_witness(kv: &Kv, f: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let witness = scope.spawn(|| witness(kv, &stop));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        stop.store(true, SeqCst);
        let count = witness.join().expect("the witness is served");
        if let Err(payload) = done {
            std::panic::resume_unwind(payload);
        }
        assert_eq!(kv.client().number("INCR witness"), count + 1);
    });
}

#[test]
fn hostile_frames_get_redis_s_answers() {
    for table in TABLES {
        let kv = Kv::start(table);
        beside_a_witness(&kv, || {
            for (bytes, answer, then) in frames() {
                check(kv.client(), &bytes, answer, then, false);
                if bytes.len() < 1000 {
                    check(kv.client(), &bytes, answer, then, true);
                }
            }
        });
    }
}

#[test]
fn redis_gives_the_very_same_answers() {
    let Some(redis) = Redis::start("redis_gives_the_very_same_answers") else { return };
    for (bytes, answer, then) in frames() {
        check(redis.client(), &bytes, answer, then, false);
    }
}

#[test]
fn announced_lengths_cost_nothing() {
    let kv = Kv::start("actors");
    let before = kv.memory();
    beside_a_witness(&kv, || {
        let mut clients: Vec<_> = (0..200).map(|_| kv.client()).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            client.send(match n % 3 {
                0 => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nbegun",
                1 => b"*2147483647\r\n$4\r\nMGET\r\n$1\r\nk\r\n",
                _ => b"*1000000\r\n$536870912\r\n",
            });
        }
        until("all are connected", || connected(&kv) == 202);
        let more = kv.memory().saturating_sub(before);
        assert!(more < 64 * 1024, "{more} KiB for what was only announced");
    });
    until("all are gone", || connected(&kv) == 1);
    assert_eq!(kv.client().number("DBSIZE"), 1);
}

/// Returns the number of connections, including this one.
fn connected(kv: &Kv) -> usize {
    let info = kv.client().ask("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    line.and_then(|number| number.trim().parse().ok()).expect("a number")
}

#[test]
fn half_frames_leave_nothing_behind() {
    let kv = Kv::start("actors");
    let mut dice = Dice(5);
    beside_a_witness(&kv, || {
        let whole = frame(&[b"MSET", b"a", &[b'x'; 3000], b"b", &[b'y'; 30_000], b"c", b"1"]);
        for _ in 0..300 {
            let half = dice.below(whole.len());
            kv.client().send(&whole[..half]);
        }
        until("all are gone", || connected(&kv) == 2);
        assert_eq!(kv.client().ask("EXISTS a b c"), ":0");
    });
}

#[test]
fn slow_clients_slow_nobody_down() {
    let kv = Kv::start("actors");
    beside_a_witness(&kv, || {
        let mut clients: Vec<_> = (0..100).map(|_| kv.client()).collect();
        let bytes = [&b"INCR slow\r\n"[..], &frame(&[b"INCR", b"slow"])].concat();
        for byte in &bytes {
            for client in &mut clients {
                client.send(&[*byte]);
            }
        }
        for client in &mut clients {
            assert!(client.reply().starts_with(b":"));
            assert!(client.reply().starts_with(b":"));
        }
        assert_eq!(kv.client().ask("GET slow"), "$3\r\n200");
    });
}

#[test]
fn a_client_that_never_reads_costs_little() {
    let kv = Kv::start("actors");
    let big = vec![b'v'; 1024 * 1024];
    let mut client = kv.client();
    client.send(&frame(&[b"SET", b"big", &big]));
    assert_eq!(client.reply(), b"+OK\r\n");
    let before = kv.memory();
    beside_a_witness(&kv, || {
        client.stream.set_write_timeout(Some(Duration::from_millis(500))).expect("an option");
        let batch = frame(&[b"GET", b"big"]).repeat(1000);
        // Writes until the socket takes no more: each thousand asks for a gigabyte.
        for _ in 0..10_000 {
            if client.stream.write_all(&batch).is_err() {
                break;
            }
        }
        let more = kv.memory().saturating_sub(before);
        assert!(more < 64 * 1024, "{more} KiB of replies that are not read");
    });
}

#[test]
fn large_values_come_back_whole() {
    let mut dice = Dice(9);
    let big: Vec<u8> = (0..32 * 1024 * 1024).map(|_| dice.number() as u8).collect();
    for table in TABLES {
        let kv = Kv::start(table);
        let mut client = kv.client();
        client.send(&frame(&[b"SET", b"big", &big]));
        assert_eq!(client.reply(), b"+OK\r\n");
        client.send(&frame(&[b"GET", b"big"]));
        let reply = client.reply();
        assert!(reply.starts_with(b"$33554432\r\n") && reply[11..].starts_with(&big));
        // Tens of thousands of keys, too.
        let keys: Vec<_> = (0..20_000).map(|n| format!("key {n}").into_bytes()).collect();
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        for key in &keys {
            args.extend([key.as_slice(), b"1"]);
        }
        client.send(&frame(&args));
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(client.number("DBSIZE"), 20_001);
        args = [&b"DEL"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
        client.send(&frame(&args));
        assert_eq!(client.reply(), b":20000\r\n");
        assert_eq!(client.number("DBSIZE"), 1);
    }
}

/// A system resets a connection that is closed before everything was read, and the last bytes
/// written to it may be lost.
#[test]
fn who_talks_on_gets_the_reason_all_the_same() {
    let kv = Kv::start("actors");
    for _ in 0..20 {
        let mut client = kv.client();
        client.send(&[&b"*x\r\n"[..], &[b'x'; 500_000]].concat());
        let mut rest = Vec::new();
        client.stream.read_to_end(&mut rest).expect("it is closed, and not broken");
        assert_eq!(text(&rest), "-ERR Protocol error: invalid multibulk length\r\n");
    }
}
