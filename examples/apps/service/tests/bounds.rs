//! All bounds, and the answers at each of them: each test is run with all backends.

mod common;

use std::thread;

use common::{BACKENDS, Server, until};

/// A turn of a good part of a second, in any build.
const LONG_TURN: [&str; 2] = ["--work", "15000000"];

#[test]
fn a_busy_session_refuses_more_than_may_wait() {
    const CLIENTS: usize = 30;
    for with in BACKENDS {
        let server =
            Server::start(with, &["--work", "10000000", "--waiting", "2", "--wait", "60s"]);
        let mut first = server.client();
        first.send_add("ada", 7).unwrap();
        server.until("service_turns_total", |turns| turns == 1);
        let busy = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let mut connection = server.client();
                    scope.spawn(move || connection.add("ada", 7).unwrap())
                })
                .collect();
            let answers = clients.into_iter().map(|client| client.join().unwrap());
            answers
                .filter(|answer| {
                    let busy = answer.is_refused(429, "too many requests of this session");
                    assert!(busy || answer.status == 200, "{with}: {answer:?}");
                    busy
                })
                .count()
        });
        assert_eq!(first.answer().unwrap().status, 200, "{with}");
        // All should come during the first turn; on a slow machine, some come later.
        assert!(busy > 0, "{with}");
        let turns = 1 + CLIENTS - busy;
        assert_eq!(server.metric("service_turns_total"), turns as u64, "{with}");
        // Then the session goes on, and other sessions were never affected.
        assert_eq!(server.add("ada", 7).number("changes"), turns as u64 + 1, "{with}");
        server.stop();
    }
}

#[test]
fn no_more_sessions_than_may_be() {
    for with in BACKENDS {
        let server = Server::start(with, &["--sessions", "3"]);
        for session in ["a", "b", "c"] {
            assert_eq!(server.add(session, 7).status, 200, "{with}");
        }
        for session in ["d", "e", "d"] {
            let full = server.add(session, 7);
            assert!(full.is_refused(503, "as many sessions as may be"), "{with}: {full:?}");
        }
        assert_eq!(server.get("/sessions/d").status, 404, "{with}");
        assert_eq!(server.add("a", 7).number("changes"), 2, "{with}");
        assert_eq!(server.metric("service_sessions"), 3, "{with}");
        server.stop();
        // After the idle time there is room again.
        let server = Server::start(with, &["--sessions", "1", "--idle", "200ms"]);
        for session in ["a", "b", "c"] {
            until("room for one more", || server.add(session, 7).status == 200);
            assert!(server.metric("service_sessions") <= 1, "{with}");
        }
        server.stop();
    }
}

/// Many come at once, and the limit is exact.
#[test]
fn the_limit_of_sessions_is_exact() {
    for with in BACKENDS {
        let server = Server::start(with, &["--sessions", "10"]);
        let made: usize = thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    let mut connection = server.client();
                    scope.spawn(move || {
                        let mut add = |n| connection.add(&format!("s{client}-{n}"), 7).unwrap();
                        (0..20).filter(|n| add(*n).status == 200).count()
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        assert_eq!(made, 10, "{with}");
        assert_eq!(server.metric("service_sessions"), 10, "{with}");
        server.stop();
    }
}

#[test]
fn one_request_too_many_is_answered_at_once() {
    for with in BACKENDS {
        let bounds = ["--in-flight", "2", "--model-load", "50m", "--wait", "59m"];
        let server = Server::start(with, &bounds);
        let mut waiting = [server.client(), server.client()];
        for client in &mut waiting {
            client.send_add("ada", 7).unwrap();
        }
        server.until("service_in_flight", |requests| requests == 2);
        for path in ["/products/1", "/sessions/ada"] {
            let refused = server.get(path);
            assert!(refused.is_refused(503, "in flight"), "{with}: {refused:?}");
        }
        // These are not counted.
        assert_eq!(server.get("/health").status, 200, "{with}");
        let [one, other] = waiting;
        drop(one);
        server.until("service_in_flight", |requests| requests == 1);
        assert_eq!(server.get("/sessions/ada").status, 404, "{with}");
        drop(other);
        server.until("service_in_flight", |requests| requests == 0);
        server.stop();
    }
}

#[test]
fn who_waits_too_long_for_a_product_is_told() {
    for with in BACKENDS {
        let server = Server::start(with, &["--model-load", "50m", "--wait", "50ms"]);
        for _ in 0..2 {
            let late = server.add("ada", 7);
            assert!(late.is_refused(503, "in time"), "{with}: {late:?}");
        }
        assert_eq!(server.metric("service_loads_total"), 1, "{with}");
        assert_eq!(server.metric("service_turns_total"), 0, "{with}");
        server.stop();
    }
}

#[test]
fn who_waits_too_long_for_a_turn_is_told() {
    for with in BACKENDS {
        let arguments = [LONG_TURN[0], LONG_TURN[1], "--wait", "30s"];
        // A turn takes this long: the limit is for the others.
        let server = Server::start(with, &arguments);
        assert_eq!(server.add("ada", 7).status, 200, "{with}");
        server.stop();
        let server = Server::start(with, &[LONG_TURN[0], LONG_TURN[1], "--wait", "50ms"]);
        let mut turns = 0;
        until("one is late", || {
            let mut first = server.client();
            first.send_add("ada", 7).unwrap();
            server.until("service_turns_total", |begun| begun > turns);
            let late = server.get("/sessions/ada");
            let refused = late.is_refused(503, "in time");
            assert!(refused || late.status == 200, "{with}: {late:?}");
            // Some backends wait for the end of a turn that has begun, others do not.
            let first = first.answer().unwrap();
            assert!(first.status == 200 || first.is_refused(503, "in time"), "{with}: {first:?}");
            turns = server.metric("service_turns_total");
            refused
        });
        server.signal("-KILL");
    }
}

#[test]
fn one_connection_too_many_waits_for_room() {
    for with in BACKENDS {
        let server = Server::start(with, &["--connections", "1"]);
        let mut first = server.client();
        assert_eq!(first.add("ada", 7).unwrap().status, 200);
        let mut second = server.client();
        second.send_add("ada", 7).unwrap();
        // It is not processed while the first one is.
        for _ in 0..50 {
            assert_eq!(first.ask("GET", "/sessions/ada", b"").unwrap().number("changes"), 1);
        }
        drop(first);
        assert_eq!(second.answer().unwrap().number("changes"), 2, "{with}");
        drop(second);
        server.stop();
    }
}
