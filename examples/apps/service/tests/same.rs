//! The five backends behave alike: each of these tests is run with all of them.

mod common;

use std::thread;
use std::time::Duration;

use common::{Answer, BACKENDS, Server, until};

#[test]
fn all_backends_answer_the_same() {
    let long = "x".repeat(65);
    let large = format!("{{\"product\": 1{}}}", " ".repeat(1024));
    let add = "/sessions/ada/items";
    // Method, path, body, status.
    let script: &[(&str, &str, &str, u16)] = &[
        ("GET", "/health", "", 200),
        ("GET", "/sessions/ada", "", 404),
        ("POST", add, r#"{"product": 7, "count": 2}"#, 200),
        ("POST", add, r#"{"product": 8}"#, 200),
        ("POST", "/sessions/grace/items", r#"{"product": 8}"#, 200),
        ("GET", "/sessions/ada", "", 200),
        ("GET", "/sessions/grace", "", 200),
        ("GET", "/products/7", "", 200),
        ("GET", "/products/9999", "", 200),
        ("GET", "/products/10000", "", 404),
        ("GET", "/products/seven", "", 400),
        ("POST", add, r#"{"product": 10000}"#, 404),
        ("POST", add, r#"{"product": -1}"#, 400),
        ("POST", add, r#"{"product": 7, "count": 0}"#, 400),
        ("POST", add, r#"{"product": 7, "count": 1001}"#, 400),
        ("POST", add, r#"{"count": 7}"#, 400),
        ("POST", add, "{", 400),
        ("POST", add, "", 400),
        ("POST", add, &large, 413),
        ("GET", add, "", 405),
        ("DELETE", "/sessions/ada", "", 405),
        ("GET", "/sessions/a%20b", "", 400),
        ("GET", &format!("/sessions/{long}"), "", 400),
        ("GET", "/nothing", "", 404),
        // A refused request has changed nothing.
        ("GET", "/sessions/ada", "", 200),
    ];
    let mut first: Option<Vec<(u16, String)>> = None;
    for with in BACKENDS {
        let server = Server::start(with, &[]);
        let mut answers = Vec::new();
        for (method, path, body, status) in script {
            let Answer { status: answered, body: said, .. } = server.ask(method, path, body);
            assert_eq!(answered, *status, "{with}: {method} {path} {body}: {said}");
            answers.push((answered, said));
        }
        let ada = server.get("/sessions/ada");
        let basket = ["changes", "pieces", "cents"].map(|name| ada.number(name));
        assert_eq!(basket, [2, 3, 2 * (7 * 7 + 99) + (8 * 7 + 99)], "{with}");
        server.stop();
        assert_eq!(first.get_or_insert_with(|| answers.clone()), &answers, "{with}");
    }
}

#[test]
fn changes_of_a_session_are_one_at_a_time() {
    const CLIENTS: u64 = 8;
    const EACH: u64 = 100;
    for with in BACKENDS {
        let server = Server::start(with, &[]);
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let mut connection = server.client();
                scope.spawn(move || {
                    for n in 0..EACH {
                        let own = format!("own-{client}");
                        let session = if n % 2 == 0 { "shared" } else { &own };
                        let answer = connection.add(session, (n % 20) as u32).unwrap();
                        assert_eq!(answer.status, 200, "{with}: {}", answer.body);
                    }
                });
            }
        });
        let changes = |session: &str| server.get(&format!("/sessions/{session}")).number("changes");
        assert_eq!(changes("shared"), CLIENTS * EACH / 2, "{with}");
        for client in 0..CLIENTS {
            assert_eq!(changes(&format!("own-{client}")), EACH / 2, "{with}");
        }
        assert_eq!(server.get("/sessions/none").status, 404);
        // The metrics have counted all of these requests, and no others.
        let requests = CLIENTS * EACH + 1 + CLIENTS + 1;
        assert_eq!(server.metric("service_requests_total"), requests, "{with}");
        assert_eq!(server.metric("service_request_seconds_count"), requests, "{with}");
        let answered =
            |code: u16| server.metric(&format!("service_answers_total{{code=\"{code}\"}}"));
        assert_eq!((answered(200), answered(404)), (requests - 1, 1), "{with}");
        assert_eq!(server.metric("service_turns_total"), requests - 1, "{with}");
        assert_eq!(server.metric("service_sessions"), CLIENTS + 1, "{with}");
        assert_eq!(server.metric("service_sessions_total"), CLIENTS + 1, "{with}");
        assert_eq!(server.metric("service_loads_total"), 20, "{with}");
        assert_eq!(server.metric("service_in_flight"), 0, "{with}");
        assert_eq!(server.metric("service_gone_total"), 0, "{with}");
        server.stop();
    }
}

#[test]
fn a_product_is_loaded_once_for_all_who_ask() {
    for with in BACKENDS {
        let server = Server::start(with, &["--model-load", "500ms", "--wait", "60s"]);
        let statuses: Vec<u16> = thread::scope(|scope| {
            let askers: Vec<_> = (0..40)
                .map(|asker| {
                    let mut connection = server.client();
                    scope.spawn(move || match asker % 3 {
                        0 => connection.add("ada", 7).unwrap().status,
                        1 => connection.ask("GET", "/products/7", b"").unwrap().status,
                        _ => connection.ask("GET", "/products/10007", b"").unwrap().status,
                    })
                })
                .collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).collect()
        });
        let expected: Vec<u16> = (0..40).map(|n| if n % 3 == 2 { 404 } else { 200 }).collect();
        assert_eq!(statuses, expected, "{with}");
        // An absent product is not cached: later requests look it up again.
        let loads = server.metric("service_loads_total");
        assert!((2..=14).contains(&loads), "{with}: {loads}");
        assert_eq!(server.get("/products/7").status, 200);
        assert_eq!(server.metric("service_loads_total"), loads, "{with}");
        server.stop();
    }
}

#[test]
fn who_goes_away_does_not_end_the_load() {
    for with in BACKENDS {
        let server = Server::start(with, &["--model-load", "500ms", "--wait", "60s"]);
        let mut first = server.client();
        first.send("GET", "/products/7", b"").unwrap();
        server.until("service_loads_total", |loads| loads == 1);
        drop(first);
        server.until("service_gone_total", |gone| gone == 1);
        assert_eq!(server.get("/products/7").status, 200, "{with}");
        assert_eq!(server.metric("service_loads_total"), 1, "{with}");
        assert_eq!(server.metric("service_in_flight"), 0, "{with}");
        server.stop();
    }
}

#[test]
fn the_cache_keeps_no_more_than_it_may() {
    for with in BACKENDS {
        let server = Server::start(with, &["--cached", "2"]);
        for (product, loads) in [(1, 1), (2, 2), (1, 2), (3, 3), (2, 3), (1, 4), (3, 4)] {
            assert_eq!(server.get(&format!("/products/{product}")).status, 200);
            assert_eq!(server.metric("service_loads_total"), loads, "{with}: {product}");
        }
        server.stop();
    }
}

#[test]
fn an_idle_session_ends_and_begins_anew() {
    for with in BACKENDS {
        let server = Server::start(with, &["--idle", "300ms"]);
        assert_eq!(server.add("ada", 7).number("changes"), 1, "{with}");
        assert_eq!(server.metric("service_sessions_total"), 1, "{with}");
        server.until("service_sessions", |sessions| sessions == 0);
        assert_eq!(server.get("/sessions/ada").status, 404, "{with}");
        assert_eq!(server.add("ada", 7).number("changes"), 1, "{with}");
        assert_eq!(server.metric("service_sessions_total"), 2, "{with}");
        server.until("service_sessions", |sessions| sessions == 0);
        server.stop();
        // A session that is used stays, even for longer than that.
        let server = Server::start(with, &["--idle", "20s"]);
        (1..=20).for_each(|n| assert_eq!(server.add("ada", 7).number("changes"), n, "{with}"));
        assert_eq!(server.metric("service_sessions"), 1, "{with}");
        server.stop();
    }
}

/// Sessions end at the moment they are used again: no change gets lost.
#[test]
fn expiry_and_use_do_not_lose_each_other() {
    for with in BACKENDS {
        let server = Server::start(with, &["--idle", "1ms", "--work", "10"]);
        thread::scope(|scope| {
            for client in 0..4 {
                let mut connection = server.client();
                scope.spawn(move || {
                    for n in 0..500_u64 {
                        // Orders nothing: it makes sessions idle.
                        thread::sleep(Duration::from_micros(n % 50 * 50));
                        let answer = connection.add(&format!("s{client}"), 7).unwrap();
                        assert_eq!(answer.status, 200, "{with}: {}", answer.body);
                    }
                });
            }
        });
        assert_eq!(server.metric("service_turns_total"), 2000, "{with}");
        assert!(server.metric("service_sessions_total") > 4, "{with}: none has ended");
        server.until("service_sessions", |sessions| sessions == 0);
        server.stop();
    }
}

#[test]
fn a_turn_that_panics_hurts_one_request() {
    for with in BACKENDS {
        let server = Server::start(with, &["--model-bug", "13"]);
        assert_eq!(server.add("ada", 7).number("changes"), 1);
        assert_eq!(server.add("grace", 7).number("changes"), 1);
        let broken = server.add("ada", 13);
        assert_eq!(broken.status, 500, "{with}: {}", broken.body);
        assert!(broken.says("broke its session"), "{}", broken.body);
        // That session begins anew, and no other session is affected.
        assert_eq!(server.add("ada", 7).number("changes"), 1, "{with}");
        assert_eq!(server.add("grace", 7).number("changes"), 2, "{with}");
        // The first request of a session, too.
        assert_eq!(server.add("alan", 13).status, 500, "{with}");
        assert_eq!(server.add("alan", 7).number("changes"), 1, "{with}");
        server.signal("-TERM");
        let (code, said, error) = server.ended();
        assert_eq!(code, Some(0), "{with}: {said}{error}");
        assert!(error.contains("a MODEL of a bug"), "{with}: {error}");
    }
}

#[test]
fn clients_that_hang_up_leave_nothing_behind() {
    for with in BACKENDS {
        let server = Server::start(with, &["--work", "100000", "--idle", "100ms"]);
        for round in 0..50 {
            let mut connection = server.client();
            connection.send_add(&format!("s{}", round % 3), round).unwrap();
            if round % 2 == 0 {
                let _ = connection.raw(b"POST /sessions/a/items HTTP/1.1\r\nContent-Length: 9\r\n");
            }
        }
        until("all are over", || {
            let [requests, gone, answered] =
                ["requests_total", "gone_total", "request_seconds_count"]
                    .map(|name| server.metric(&format!("service_{name}")));
            requests > 0 && requests == gone + answered && server.metric("service_in_flight") == 0
        });
        assert_eq!(server.add("ada", 7).status, 200, "{with}");
        server.until("service_sessions", |sessions| sessions == 0);
        server.stop();
    }
}
