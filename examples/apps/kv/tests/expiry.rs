//! Values that expire are removed, and leave nothing behind; other values stay.

mod common;

use std::time::{Duration, Instant};

use common::{Kv, TABLES, frame, size, until};

#[test]
fn what_expires_is_gone_without_a_look_at_it() {
    let keys = size(500, 20_000);
    for table in TABLES {
        let kv = Kv::start(table);
        let mut client = kv.client();
        let mut batch = Vec::new();
        for n in 0..keys {
            let (key, px) = (format!("k{n}"), (1 + n % 300).to_string());
            batch.extend(frame(&[b"SET", key.as_bytes(), b"value", b"PX", px.as_bytes()]));
        }
        client.send(&batch);
        for _ in 0..keys {
            assert_eq!(client.reply(), b"+OK\r\n");
        }
        until("all keys are gone", || client.number("DBSIZE") == 0);
        assert!(client.ask("INFO").contains("keys:0,timers:0"), "{table}");
    }
}

#[test]
fn nothing_expires_early() {
    for table in TABLES {
        let kv = Kv::start(table);
        let mut client = kv.client();
        // Taken before the value is set, so that the server's time ends first.
        let begun = Instant::now();
        assert_eq!(client.ask("SET a 1 PX 200"), "+OK");
        assert_eq!(client.ask("SET b 1"), "+OK");
        assert_eq!(client.ask("PEXPIRE b 200"), ":1");
        let set = Instant::now();
        until("both are gone", || client.number("EXISTS a b") == 0);
        // The server counts whole milliseconds.
        assert!(begun.elapsed() >= Duration::from_millis(198), "{table}: early");
        assert!(set >= begun);
        assert_eq!((client.ask("GET a"), client.number("TTL a")), ("$-1".into(), -2), "{table}");
    }
}

#[test]
fn an_old_timer_takes_no_new_value() {
    for table in TABLES {
        let kv = Kv::start(table);
        let mut client = kv.client();
        for key in ["set", "longer", "persist", "deleted", "keepttl"] {
            assert_eq!(client.ask(&format!("SET {key} old PX 150")), "+OK");
        }
        assert_eq!(client.ask("SET set new"), "+OK");
        assert_eq!(client.ask("EXPIRE longer 1000"), ":1");
        // It may have expired by now, on a slow machine.
        let persisted = client.number("PERSIST persist");
        client.ask("DEL deleted");
        assert_eq!(client.ask("SET deleted new"), "+OK");
        assert_eq!(client.ask("SET keepttl new KEEPTTL"), "+OK");
        assert_eq!(client.ask("SET sign 1 PX 300"), "+OK");
        until("their time is over", || client.number("EXISTS sign keepttl") == 0);
        assert_eq!(client.ask("MGET set deleted"), "*2\r\n$3\r\nnew\r\n$3\r\nnew", "{table}");
        assert_eq!(client.number("EXISTS longer persist"), 1 + persisted, "{table}");
        assert!((900..=1000).contains(&client.number("TTL longer")), "{table}");
        assert!(client.ask("INFO").contains("timers:1"), "{table}: {}", client.ask("INFO"));
    }
}

#[test]
fn a_value_that_goes_takes_its_timer_along() {
    for table in TABLES {
        let kv = Kv::start(table);
        let mut client = kv.client();
        for (end, left) in [
            ("SET k new", 0),
            ("DEL k", 0),
            ("DEL other k", 0),
            ("PERSIST k", 0),
            ("MSET k new other new", 0),
            ("EXPIRE k -1", 0),
            ("FLUSHALL", 0),
            ("EXPIRE k 2000", 1),
            ("SET k new KEEPTTL", 1),
            ("SET k new EX 2000", 1),
        ] {
            assert_eq!(client.ask("SET k old EX 1000"), "+OK");
            assert!(client.ask("INFO").contains("timers:1"), "{table}, before {end}");
            client.ask(end);
            let timers = format!("timers:{left}");
            assert!(client.ask("INFO").contains(&timers), "{table}, after {end}");
        }
    }
}
