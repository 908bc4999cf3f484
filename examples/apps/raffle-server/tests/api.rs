//! The answers to applicants, over a socket, in each of the modes.

mod common;

use std::collections::HashMap;
use std::thread;

use common::{Client, Folder, MODES, Server, rows, until, with_faults};

#[test]
fn first_come_first_served_exactly_to_the_limit() {
    for mode in MODES {
        let folder = Folder::new();
        let server = Server::start(&folder.db(), &["--seats", "3", "--mode", mode]);
        for (who, status, place) in
            [("ada", 201, 1), ("grace", 201, 2), ("ada", 409, 1), ("alan\n", 201, 3)]
        {
            let answer = server.post(who);
            assert_eq!((answer.status, answer.place()), (status, place), "{who}, {mode}");
        }
        let late = server.post("linus");
        assert_eq!((late.status, &late.json()["outcome"]), (410, &"closed".into()), "{mode}");
        let status = server.get("/status").json();
        assert_eq!((&status["admitted"], &status["left"]), (&3.into(), &0.into()), "{mode}");
        assert_eq!(status["closed"], true, "{mode}");
        server.stop();
        let expected = [("ada", 1), ("grace", 2), ("alan", 3)];
        assert_eq!(rows(&folder.db()), expected.map(|(who, place)| (who.into(), place)).into());
    }
}

#[test]
fn many_at_once_fill_the_seats_exactly() {
    for mode in MODES {
        let folder = Folder::new();
        let server =
            Server::start(&folder.db(), &["--seats", "70", "--mode", mode, "--wait", "60s"]);
        // Each of 100 applies four times, on 20 connections.
        let answers: Vec<(String, u16)> = thread::scope(|scope| {
            let clients: Vec<_> = (0..20)
                .map(|client| {
                    let address = server.address;
                    scope.spawn(move || {
                        let mut connection = Client::new(address).unwrap();
                        let names = (0..20).map(|n| format!("entrant {}", (client * 5 + n) % 100));
                        let apply = |who: String| {
                            let answer = connection.ask("POST", "/applications", who.as_bytes());
                            (who, answer.unwrap().status)
                        };
                        names.map(apply).collect::<Vec<_>>()
                    })
                })
                .collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        let mut counts: HashMap<u16, u64> = HashMap::new();
        for (_, status) in &answers {
            *counts.entry(*status).or_default() += 1;
        }
        assert_eq!(counts[&201], 70, "{mode}: {counts:?}");
        assert_eq!(counts.values().sum::<u64>(), 400, "{mode}: {counts:?}");
        assert!(counts.keys().all(|status| [201, 409, 410].contains(status)), "{counts:?}");
        assert_eq!(server.metric("raffle_applications_total{outcome=\"admitted\"}"), 70);
        server.stop();
        let rows = rows(&folder.db());
        assert_eq!(rows.len(), 70, "{mode}");
        for (who, status) in answers {
            assert!(status == 410 || rows.contains_key(&who), "{mode}: {who} {status}");
        }
    }
}

#[test]
fn bad_input_is_refused_and_says_why() {
    let folder = Folder::new();
    let server = Server::start(&folder.db(), &["--max-body", "500"]);
    let longest = "a".repeat(200);
    let (long, huge) = ("a".repeat(201), "a".repeat(501));
    let bad: [(&[u8], u16, &str); 7] = [
        (b"", 400, "empty"),
        (b" \r\n\t ", 400, "empty"),
        (long.as_bytes(), 400, "200 bytes"),
        (b"\xff\xfe", 400, "UTF-8"),
        (b"caf\xc3", 400, "UTF-8"),
        (b"a\0b", 400, "control"),
        (huge.as_bytes(), 413, "limit"),
    ];
    for (body, status, why) in bad {
        let answer = server.post(body);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.json()["why"].as_str().unwrap().contains(why), "{answer:?}");
    }
    for (method, path, status) in [
        ("GET", "/applications", 405),
        ("PUT", "/applications", 405),
        ("DELETE", "/applications", 405),
        ("POST", "/status", 405),
        ("POST", "/", 405),
        ("GET", "/nowhere", 404),
        ("POST", "/nowhere", 404),
    ] {
        assert_eq!(server.ask(method, path, "ada").status, status, "{method} {path}");
    }
    // An invalid length, a body that is longer than allowed, and bytes that are not HTTP.
    for bytes in [
        "POST /applications HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        "POST /applications HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nabc",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
    ] {
        let mut client = Client::new(server.address).unwrap();
        client.raw(bytes.as_bytes()).unwrap();
        let status = client.answer().unwrap().status;
        assert!(status == 400 || status == 413, "{bytes:?}: {status}");
    }
    // Cut off within the head, and within the body: neither admits an applicant.
    for bytes in
        ["POST /applica", "POST /applications HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nada"]
    {
        Client::new(server.address).unwrap().raw(bytes.as_bytes()).unwrap();
    }
    assert_eq!(server.post(&longest).place(), 1);
    assert_eq!(server.post("  名前 \u{1f984} \"<b>\" ").place(), 2);
    server.stop();
    let expected = [(longest, 1), ("名前 \u{1f984} \"<b>\"".to_string(), 2)];
    assert_eq!(rows(&folder.db()), expected.into());
}

#[test]
fn a_failing_ledger_is_500_and_nobody_is_in() {
    for mode in MODES {
        let folder = Folder::new();
        with_faults(&folder.db(), 1);
        let server = Server::start(&folder.db(), &["--mode", mode]);
        let mut place = 0;
        for round in 0..3 {
            for who in ["bad", "good", "half", "good", "undo", "good", "late", "good"] {
                let who = format!("{who} {round} {place}");
                let answer = server.post(&who);
                if who.starts_with("good") {
                    place += 1;
                    assert_eq!((answer.status, answer.place()), (201, place), "{mode} {answer:?}");
                } else {
                    assert_eq!(answer.status, 500, "{mode}: {who}: {answer:?}");
                    assert_eq!(answer.json()["outcome"], "failed", "{mode}: {who}: {answer:?}");
                }
            }
        }
        assert_eq!(server.get("/status").json()["admitted"], place);
        server.stop();
        let rows = rows(&folder.db());
        assert_eq!(rows.len() as u64, place, "{mode}");
        assert!(rows.keys().all(|who| who.starts_with("good")), "{mode}: {rows:?}");
    }
}

/// Applications that share a commit with one that fails get true answers, too.
#[test]
fn neighbours_of_a_failure_are_told_the_truth() {
    let folder = Folder::new();
    with_faults(&folder.db(), 300_000);
    let server = Server::start(&folder.db(), &["--seats", "10000", "--wait", "60s"]);
    let answers: Vec<(String, u16)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..24)
            .map(|client| {
                let server = &server;
                scope.spawn(move || {
                    let mut answers = Vec::new();
                    for n in 0..12 {
                        // The slow ones make others come together.
                        let kind = ["good", "slow", "half", "undo", "bad", "late"][client % 6];
                        let who = format!("{kind} {client} {n}");
                        let status = server.post(&who).status;
                        answers.push((who, status));
                    }
                    answers
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let commits = server.metric("raffle_commits_total");
    server.stop();
    let rows = rows(&folder.db());
    let (mut admitted, mut failed) = (0, 0);
    for (who, status) in answers {
        match status {
            201 => admitted += 1,
            500 => failed += 1,
            _ => panic!("{who}: {status}"),
        }
        assert_eq!(rows.contains_key(&who), status == 201, "{who}: {status}");
        assert!(status == 500 || who.starts_with("good") || who.starts_with("slow"), "{who}");
    }
    assert_eq!((rows.len(), admitted + failed), (admitted, 288));
    assert!(commits as usize <= admitted, "{commits} commits");
}

#[test]
fn out_of_time_is_504_and_early_refusal_503() {
    let folder = Folder::new();
    with_faults(&folder.db(), 20_000_000);
    let server = Server::start(&folder.db(), &["--wait", "800ms"]);
    // Posts a slow one, and returns the answer to another one that comes behind it. On a slow
    // machine, the slow one may be late itself: then the test repeats it.
    let mut number = 0;
    let mut told = Vec::new();
    let mut behind_a_slow_one = |expected: u16| {
        for _ in 0..60 {
            number += 1;
            let slow = format!("slow {number}");
            let (first, second) = thread::scope(|scope| {
                let first = scope.spawn(|| server.post(&slow).status);
                until("the slow one is there", || {
                    first.is_finished() || server.metric("raffle_in_flight") == 1
                });
                let second = server.post(format!("next {number}"));
                (first.join().unwrap(), second)
            });
            told.push((format!("next {number}"), second.status));
            if first == 201 && second.status == expected {
                return second;
            }
        }
        panic!("none got {expected}");
    };
    let late = behind_a_slow_one(504);
    assert!(late.json()["waited_ms"].as_u64().unwrap() >= 800, "{late:?}");
    let early = behind_a_slow_one(503);
    assert_eq!(early.json()["outcome"], "busy");
    assert!(early.headers["retry-after"].parse::<u64>().unwrap() >= 1, "{early:?}");
    // When it is over, no application is refused early any more.
    until("ada is in", || server.post("ada").status == 409);
    server.stop();
    let rows = rows(&folder.db());
    for (who, status) in told {
        assert_eq!(rows.contains_key(&who), status == 201, "{who}: {status}");
    }
}

/// The other modes wait for another program's lock, and for each other, within the limit.
#[test]
fn a_locked_file_is_504_with_a_transaction_each() {
    let folder = Folder::new();
    let server = Server::start(
        &folder.db(),
        &["--mode", "immediate", "--wait", "300ms", "--connections", "2"],
    );
    let other = rusqlite::Connection::open(folder.db()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        for client in 0..4 {
            let server = &server;
            scope.spawn(move || assert_eq!(server.post(format!("late {client}")).status, 504));
        }
    });
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(server.post("ada").place(), 1);
    server.stop();
}

#[test]
fn the_page_and_its_events_show_it_live() {
    let folder = Folder::new();
    let server = Server::start(&folder.db(), &["--seats", "2"]);
    let page = server.get("/");
    assert_eq!(
        (page.status, page.headers["content-type"].as_str()),
        (200, "text/html; charset=utf-8")
    );
    assert!(page.headers["content-security-policy"].starts_with("default-src 'none'"));
    assert!(!page.body.contains("http://") && !page.body.contains("https://"), "it loads nothing");
    let mut events = Client::new(server.address).unwrap();
    events.send("GET", "/events", b"").unwrap();
    let mut event = |what: &str, is: fn(&serde_json::Value) -> bool| {
        let mut found = None;
        until(what, || {
            let line = events.line().unwrap().expect("the stream goes on");
            let data = line.strip_prefix("data: ");
            found = data.map(|data| serde_json::from_str(data).unwrap()).filter(is);
            found.is_some()
        });
        found.unwrap()
    };
    event("none is in", |event| event["admitted"] == 0);
    assert_eq!(server.post("<ada>").status, 201);
    let one = event("one is in", |event| event["admitted"] == 1);
    assert_eq!((&one["left"], &one["closed"]), (&1.into(), &false.into()));
    assert_eq!(server.post("grace").status, 201);
    let two = event("two are in", |event| event["recent"].as_array().is_some_and(|r| r.len() == 2));
    assert_eq!(two["recent"][1], serde_json::json!({"place": 1, "who": "<ada>"}));
    assert_eq!((&two["closed"], &two["seats"]), (&true.into(), &2.into()));
    event("requests are counted", |event| event["requests_per_second"].as_f64() >= Some(1.0));
    server.stop();
    // After a restart, too.
    let server = Server::start(&folder.db(), &["--seats", "2"]);
    let mut events = Client::new(server.address).unwrap();
    events.send("GET", "/events", b"").unwrap();
    until("both are shown", || events.line().unwrap().unwrap().contains("grace"));
    server.stop();
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let folder = Folder::new();
    let server = Server::start(&folder.db(), &["--seats", "2"]);
    for who in ["ada", "ada", "grace", "alan", ""] {
        server.post(who);
    }
    let answer = server.get("/metrics");
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    for line in answer.body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("raffle_") && value.parse::<f64>().is_ok(), "{line}");
    }
    for (name, value) in [
        ("raffle_seats", 2),
        ("raffle_admitted", 2),
        ("raffle_closed", 1),
        ("raffle_in_flight", 0),
        ("raffle_commits_total", 2),
        ("raffle_applications_total{outcome=\"admitted\"}", 2),
        ("raffle_applications_total{outcome=\"duplicate\"}", 1),
        ("raffle_applications_total{outcome=\"closed\"}", 1),
        ("raffle_application_seconds_count", 4),
        ("raffle_application_seconds_bucket{le=\"+Inf\"}", 4),
    ] {
        assert_eq!(server.metric(name), value, "{name}");
    }
    assert!(server.metric("raffle_requests_total") >= 5);
    server.stop();
}
