//! The end: every applicant in flight is answered, within the grace; and the errors of the start.

mod common;

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread;

use common::{Client, Folder, MODES, Server, rows, run, until, with_faults};
use rusqlite::Connection;

#[test]
fn a_graceful_end_answers_all_in_flight() {
    for (mode, signal) in MODES.into_iter().zip(["-TERM", "-INT", "-TERM"]) {
        let folder = Folder::new();
        with_faults(&folder.db(), 5_000_000);
        let server =
            Server::start(&folder.db(), &["--mode", mode, "--wait", "60s", "--grace", "10m"]);
        let mut events = Client::new(server.address).unwrap();
        events.send("GET", "/events", b"").unwrap();
        assert_eq!(events.answer().unwrap().status, 200);
        let mut idle = Client::new(server.address).unwrap();
        assert_eq!(idle.ask("GET", "/status", b"").unwrap().status, 200);
        let statuses: Vec<u16> = thread::scope(|scope| {
            let clients: Vec<_> = (0..21)
                .map(|client| {
                    let kind = if client == 0 { "slow" } else { "entrant" };
                    let address = server.address;
                    scope.spawn(move || {
                        let mut connection = Client::new(address).unwrap();
                        let who = format!("{kind} {client}");
                        connection.ask("POST", "/applications", who.as_bytes()).unwrap().status
                    })
                })
                .collect();
            // All have come, and the slow one is not over; or all are over already.
            until("all have come", || {
                let text = server.get("/metrics").body;
                let value = |name: &str| -> u64 {
                    let line = text.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap().trim().parse().unwrap()
                };
                value("raffle_in_flight ") + value("raffle_application_seconds_count ") == 21
            });
            server.signal(signal);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert_eq!(statuses, [201; 21], "{mode}");
        // The stream ends, and so do idle connections.
        until("the end of the stream", || events.line().map_or(true, |line| line.is_none()));
        until("the end of the idle one", || idle.line().map_or(true, |line| line.is_none()));
        let (code, said, error) = server.ended();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{mode}: {said}");
        assert!(said.contains("21 applications answered; 21 of 100 places taken"), "{said}");
        assert_eq!(rows(&folder.db()).len(), 21, "{mode}");
    }
}

#[test]
fn half_a_request_does_not_hold_up_the_end() {
    let folder = Folder::new();
    let server = Server::start(&folder.db(), &["--grace", "300ms"]);
    let mut head = Client::new(server.address).unwrap();
    head.raw(b"POST /applications HTTP/1.1\r\nHo").unwrap();
    let mut body = Client::new(server.address).unwrap();
    body.raw(b"POST /applications HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nada").unwrap();
    until("the head with half a body has come", || {
        // This request is counted, too.
        server.metric("raffle_requests_total") >= 2
    });
    server.stop();
    assert!(rows(&folder.db()).is_empty());
}

#[test]
fn a_grace_that_is_over_says_who_was_not_answered() {
    let folder = Folder::new();
    with_faults(&folder.db(), 400_000_000);
    let server = Server::start(&folder.db(), &["--wait", "60s", "--grace", "50ms"]);
    let mut slow = Client::new(server.address).unwrap();
    slow.send("POST", "/applications", b"slow").unwrap();
    until("it is there", || server.metric("raffle_in_flight") == 1);
    server.signal("-TERM");
    let (code, _, error) = server.ended();
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("1 not answered in time"), "{error}");
    assert!(slow.answer().is_err());
    assert!(rows(&folder.db()).is_empty());
}

#[test]
fn a_restart_goes_on_with_the_seats_it_is_given() {
    let folder = Folder::new();
    let start = |seats: &str| Server::start(&folder.db(), &["--seats", seats]);
    let server = start("2");
    assert_eq!(["ada", "grace", "alan"].map(|who| server.post(who).status), [201, 201, 410]);
    server.stop();
    let server = start("2");
    assert!(server.said.contains("2 of 2 places taken"), "{}", server.said);
    assert_eq!(["alan", "linus"].map(|who| server.post(who).status), [410, 410]);
    server.stop();
    let server = start("3");
    assert_eq!(["ada", "alan", "linus"].map(|who| server.post(who).status), [409, 201, 410]);
    server.stop();
    // More entrants than seats: closed, and no entrant is removed.
    let server = start("1");
    let status = server.get("/status").json();
    let shown = [&status["admitted"], &status["seats"], &status["left"]].map(|it| it.as_u64());
    assert_eq!((shown, &status["closed"]), ([Some(3), Some(1), Some(0)], &true.into()));
    assert_eq!(server.post("linus").status, 410);
    server.stop();
    let server = start("0");
    assert_eq!(server.post("linus").status, 410);
    server.stop();
    assert_eq!(rows(&folder.db()).len(), 3);
}

#[test]
fn what_cannot_start_says_why() {
    let folder = Folder::new();
    let db = folder.db();
    let path = db.to_str().unwrap();
    let fails = |arguments: &[&str], code: i32, why: &str| {
        let ended = run(arguments);
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    };
    for wrong in [
        ["--seats", "many"],
        ["--seats", "1.5"],
        ["--wait", "5"],
        ["--wait", "soon"],
        ["--group", "0"],
        ["--mode", "fast"],
        ["--connections", "0"],
        ["--port", "65536"],
        ["--fast", "1"],
    ] {
        fails(&wrong, 2, wrong[0]);
    }
    fails(&["--db", "/no/such/folder/raffle.db", "--port", "0"], 1, "unable to open");
    fails(&["--db", "/", "--port", "0"], 1, "unable to open");
    fails(&["--db", "/dev/full", "--port", "0"], 1, "/dev/full: ");

    let server = Server::start(&db, &[]);
    let port = server.address.port().to_string();
    let other = Folder::new();
    fails(&["--db", other.db().to_str().unwrap(), "--port", &port], 1, "in use");
    for mode in MODES {
        fails(&["--db", path, "--port", "0", "--mode", mode], 1, "another program uses it");
    }
    assert_eq!(server.post("ada").status, 201);
    server.stop();

    // A count that does not agree with the rows, and rows with a gap.
    for damage in ["UPDATE raffle SET count = 2", "UPDATE entrant SET place = 7"] {
        let damaged = Folder::new();
        fs::copy(&db, damaged.db()).unwrap();
        Connection::open(damaged.db()).unwrap().execute_batch(damage).unwrap();
        let damaged = damaged.db();
        fails(&["--db", damaged.to_str().unwrap(), "--port", "0"], 1, "and a count of");
    }
    // Overwritten bytes, in any page.
    let whole = fs::read(&db).unwrap();
    for page in 0..whole.len() / 4096 {
        let damaged = Folder::new();
        let mut bytes = whole.clone();
        bytes[page * 4096..][..100].fill(0xa5);
        fs::write(damaged.db(), bytes).unwrap();
        let damaged = damaged.db();
        fails(&["--db", damaged.to_str().unwrap(), "--port", "0"], 1, "raffle.db: ");
    }
    // The database of another program, and a file that is no database.
    let strange = Folder::new();
    Connection::open(strange.db()).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    fails(&["--db", strange.db().to_str().unwrap(), "--port", "0"], 1, "not a raffle's");
    fs::write(strange.db(), "not a database at all, but some text of a file".repeat(99)).unwrap();
    fails(&["--db", strange.db().to_str().unwrap(), "--port", "0"], 1, "not a database");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("SKIPPED: there is no /dev/full");
        return;
    };
    let folder = Folder::new();
    for arguments in [vec!["--help"], vec!["--port", "0", "--db", folder.db().to_str().unwrap()]] {
        let ended = Command::new(env!("CARGO_BIN_EXE_raffle-server"))
            .args(&arguments)
            .stdout(full.try_clone().unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{error}");
        assert!(error.contains("No space left on device"), "{error}");
    }
}
