//! The end: every request in flight is answered, within the grace; and the errors of the start.

mod common;

use std::fs::File;
use std::process::Stdio;
use std::thread;

use common::{BACKENDS, Client, Server, program, run, until};

/// The server's count of answers is equal to that of its clients.
#[test]
fn an_end_under_load_answers_all_it_has_taken() {
    for (with, signal) in BACKENDS.into_iter().zip(["-TERM", "-INT"].into_iter().cycle()) {
        let server = Server::start(with, &["--grace", "60s", "--cached", "10"]);
        let address = server.address;
        let answers: u64 = thread::scope(|scope| {
            let clients: Vec<_> = (0..24_u32)
                .map(|client| {
                    scope.spawn(move || {
                        let mut connection = Client::new(address).unwrap();
                        let mut answers = 0;
                        for n in 0.. {
                            let session = format!("s{}", (client + n) % 7);
                            let Ok(answer) = connection.add(&session, n % 20) else { break };
                            assert!([200, 429, 503].contains(&answer.status), "{answer:?}");
                            answers += 1;
                        }
                        answers
                    })
                })
                .collect();
            server.until("service_requests_total", |requests| requests > 2000);
            server.signal(signal);
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        let (code, said, error) = server.ended();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{with}: {said}");
        assert!(answers > 2000, "{with}");
        assert!(said.contains(&format!("service: {answers} requests answered")), "{with}: {said}");
    }
}

#[test]
fn those_that_wait_are_answered_at_the_end() {
    for with in BACKENDS {
        let server =
            Server::start(with, &["--model-load", "2s", "--wait", "60s", "--grace", "60s"]);
        let mut idle = server.client();
        assert_eq!(idle.ask("GET", "/health", b"").unwrap().status, 200);
        let mut waiting: Vec<_> = (0..20).map(|_| server.client()).collect();
        for (n, client) in waiting.iter_mut().enumerate() {
            client.send_add(&format!("s{}", n % 3), (n % 2) as u32).unwrap();
        }
        server.until("service_in_flight", |requests| requests == 20);
        server.signal("-TERM");
        // Idle connections are closed before they are answered.
        until("the end of the idle one", || idle.line().map_or(true, |line| line.is_none()));
        for client in &mut waiting {
            assert_eq!(client.answer().unwrap().status, 200, "{with}");
        }
        let (code, said, error) = server.ended();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{with}: {said}");
        assert!(said.contains("20 requests answered"), "{with}: {said}");
    }
}

#[test]
fn a_grace_that_is_over_says_who_was_not_answered() {
    for with in BACKENDS {
        let bounds = ["--model-load", "50m", "--wait", "59m", "--grace", "100ms"];
        let server = Server::start(with, &bounds);
        let mut clients = [server.client(), server.client()];
        for client in &mut clients {
            client.send_add("ada", 7).unwrap();
        }
        server.until("service_in_flight", |requests| requests == 2);
        server.signal("-TERM");
        let (code, said, error) = server.ended();
        assert_eq!(code, Some(3), "{with}: {said}{error}");
        assert!(error.contains("2 requests not answered in time"), "{with}: {error}");
        assert!(clients.iter_mut().all(|client| client.answer().is_err()), "{with}");
    }
}

#[test]
fn half_a_request_does_not_hold_up_the_end() {
    let server = Server::start("turnwise", &["--grace", "300ms"]);
    let mut head = server.client();
    head.raw(b"POST /sessions/ada/items HTTP/1.1\r\nHo").unwrap();
    assert_eq!(server.add("grace", 7).status, 200);
    server.stop();
}

#[test]
fn what_cannot_start_says_why() {
    let fails = |arguments: &[&str], code: i32, why: &str| {
        let ended = run(arguments);
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    };
    for wrong in [
        ["--with", "threads"],
        ["--sessions", "0"],
        ["--sessions", "many"],
        ["--idle", "0s"],
        ["--idle", "2000m"],
        ["--wait", "5"],
        ["--wait", "0ms"],
        ["--waiting", "0"],
        ["--waiting", "65536"],
        ["--in-flight", "1.5"],
        ["--connections", "0"],
        ["--cached", "0"],
        ["--threads", "0"],
        ["--grace", "soon"],
        ["--port", "65536"],
        ["--bind", "localhost"],
        ["--fast", "1"],
    ] {
        fails(&wrong, 2, wrong[0]);
    }
    let server = Server::start("turnwise", &[]);
    let port = server.address.port().to_string();
    for with in BACKENDS {
        fails(&["--with", with, "--port", &port], 1, "in use");
    }
    server.stop();
    fails(&["--bind", "192.0.2.1"], 1, "192.0.2.1");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("SKIPPED: there is no /dev/full");
        return;
    };
    for arguments in [["--help", "--help"], ["--port", "0"]] {
        let ended = program()
            .args(arguments)
            .stdout(full.try_clone().unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{error}");
        assert!(error.contains("No space left on device"), "{error}");
    }
}
