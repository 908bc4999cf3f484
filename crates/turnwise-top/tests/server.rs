//! A live server: what its clients see, and that none of them holds up another, or the program.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use std::{process, thread};

use turnwise::executor::DrainQueue;
use turnwise::{Actor, System};
use turnwise_top::{
    Address, Client, ClientError, DeadLetter, Report, ServeError, Server, Snapshot, Source,
    StoredActor, serve, serve_at,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Serves a system at a free port.
fn served(system: &System) -> Server {
    serve_at(system, "127.0.0.1:0".parse().unwrap()).unwrap()
}

fn client(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

/// A connection that keeps to no protocol.
fn raw(server: &Server) -> TcpStream {
    let Address::Tcp(port) = server.address() else { panic!("{server:?} has no port") };
    let stream = TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(MINUTE)).unwrap();
    stream
}

/// All that comes until the end of the connection, and a reset counts as one.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_client_sees_the_actors_and_what_becomes_of_them() {
    let (system, queue) = (System::new(), DrainQueue::new());
    let builder = Actor::builder().name("log").counted(true).executor(queue.handle());
    let log = system.spawn(builder, 0).unwrap();
    let server = served(&system);
    let mut client = client(&server);
    let first = client.snapshot().unwrap();
    assert_eq!((first.pid, first.shut_down, first.actors.len()), (process::id(), false, 1));
    let actor = &first.actors[0];
    assert_eq!((&*actor.name, &*actor.activity, actor.busy_ms), ("log", "idle", None));
    log.send(|n| *n += 1).unwrap();
    log.send(|n| *n += 1).unwrap();
    let second = client.snapshot().unwrap();
    assert_eq!((&*second.actors[0].activity, second.actors[0].queued), ("scheduled", 2));
    let third = client.snapshot().unwrap();
    let [before, after] = [&second, &third].map(|snapshot| snapshot.actors[0].busy_ms.unwrap());
    // Each is rounded down.
    assert!((third.at_ms - second.at_ms).abs_diff(after - before) <= 1, "{second:?} {third:?}");
    queue.run_until_idle();
    let last = client.snapshot().unwrap();
    assert_eq!(last.actors[0].number, first.actors[0].number);
    assert_eq!((last.actors[0].counts.unwrap().handled, last.actors[0].busy_ms), (2, None));
}

#[test]
fn an_answer_is_one_line_of_json_and_may_be_the_last() {
    let system = System::new();
    let _log = system.spawn(Actor::builder().name("a \"name\"\nof two lines"), 0).unwrap();
    let server = served(&system);
    let mut stream = raw(&server);
    stream.write_all(b"snapshot\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answer = rest(stream);
    assert_eq!(answer.lines().count(), 1);
    let snapshot = Snapshot::from_json(&answer).unwrap();
    assert_eq!(snapshot.actors[0].name, "a \"name\"\nof two lines");
    assert_eq!(snapshot.to_json(), answer.trim_end());
}

#[test]
fn looks_are_a_tenth_of_a_second_apart_for_any_number_of_clients() {
    let server = served(&System::new());
    let times = thread::scope(|scope| {
        let ask = || {
            (0..4).map(|_| ()).fold((client(&server), Vec::new()), |(mut client, mut at), ()| {
                at.push(client.snapshot().unwrap().at_ms);
                (client, at)
            })
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(move || ask().1)).collect();
        let mut times: Vec<u64> =
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        times.sort_unstable();
        times
    });
    for pair in times.windows(2) {
        let apart = pair[1] - pair[0];
        // Each is rounded down.
        assert!(apart == 0 || apart >= 99, "{times:?}");
    }
}

#[test]
fn nonsense_is_answered_with_an_error_and_the_end() {
    let server = served(&System::new());
    let long = vec![b'x'; 1 << 20];
    let nonsense: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\n\r\n", b"\n", b"snapshots\n", &[0, 255, 254], &long];
    for bytes in nonsense {
        let mut stream = raw(&server);
        // The server may have closed it before all is written.
        let _ = stream.write_all(bytes);
        let answer = rest(stream);
        // What is not read resets the connection, perhaps before the answer is read.
        if !answer.is_empty() {
            let error = Snapshot::from_json(&answer).unwrap_err();
            assert!(matches!(error, ClientError::Refused(_)), "{error:?}");
        }
    }
    assert!(client(&server).snapshot().is_ok());
}

#[test]
fn silent_clients_give_their_places_to_those_that_ask() {
    let server = served(&System::new());
    let mut first = client(&server);
    assert!(first.snapshot().is_ok());
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.extend((0..14).map(|_| raw(&server)));
        assert!(first.snapshot().is_ok());
        assert!(client(&server).snapshot().is_ok());
    }
    // The longest silent one has been closed.
    assert_eq!(rest(silent.swap_remove(0)), "");
}

#[test]
fn the_end_closes_connections_and_ports() {
    let server = served(&System::new());
    let address = server.address().clone();
    let mut client = client(&server);
    assert!(client.snapshot().is_ok());
    drop(server);
    assert!(matches!(client.snapshot(), Err(ClientError::Io(_))));
    assert!(matches!(Client::connect(&address), Err(ClientError::Io(_))));
}

#[test]
fn a_system_ends_with_its_last_handle_while_it_is_served() {
    let system = System::new();
    let log = system.actor(0).unwrap();
    let server = served(&system);
    let mut client = client(&server);
    assert!(!client.snapshot().unwrap().shut_down);
    drop(system);
    assert_eq!(log.ended().wait(), Ok(()));
    let snapshot = client.snapshot().unwrap();
    assert!(snapshot.shut_down && snapshot.actors.is_empty());
}

#[test]
fn only_this_machine_is_served() {
    let error = serve_at(&System::new(), "0.0.0.0:0".parse().unwrap()).unwrap_err();
    assert!(matches!(error, ServeError::NotLocal(_)), "{error:?}");
}

#[test]
fn a_server_of_another_version_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
        stream.write_all(b"{\"version\":2,\"tables\":[]}\n").unwrap();
    });
    let error = Client::connect(&address).unwrap().snapshot().unwrap_err();
    assert!(matches!(error, ClientError::Version { theirs: 2 }), "{error:?}");
    other.join().unwrap();
}

/// Rows that the program adds.
mod sources {
    use std::convert::Infallible;
    use std::fmt;
    use std::panic::panic_any;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};

    use super::*;

    /// The first snapshot of which `f` is true.
    fn until(client: &mut Client, f: impl Fn(&[Source]) -> bool) -> Snapshot {
        let begun = Instant::now();
        loop {
            let snapshot = client.snapshot().unwrap();
            if f(&snapshot.sources) {
                return snapshot;
            }
            assert!(begun.elapsed() < MINUTE, "{snapshot:?}");
        }
    }

    fn report(names: &[&str]) -> Report {
        let mut report = Report::default();
        report.actors.extend(names.iter().map(|name| StoredActor::new(*name)));
        report
    }

    fn names(source: &Source) -> Vec<&str> {
        source.report.actors.iter().map(|actor| &*actor.name).collect()
    }

    #[test]
    fn rows_and_dead_letters_of_a_source_are_in_snapshots() {
        let server = served(&System::new());
        let mut calls = 0;
        let source = move || {
            calls += 1;
            let mut report = report(&["ada"]);
            report.actors[0].queued = calls;
            let mut letter = DeadLetter::new("ada", "order 7");
            (letter.message, letter.attempts, letter.error) = ("send".into(), 3, "bad".into());
            report.dead_letters.push(letter);
            Ok::<_, Infallible>(report)
        };
        server.source("mail", source).unwrap();
        let mut client = client(&server);
        // It is called again while a client asks.
        let called_twice =
            |sources: &[Source]| sources[0].report.actors.iter().any(|actor| actor.queued >= 2);
        let snapshot = until(&mut client, called_twice);
        let mail = &snapshot.sources[0];
        assert_eq!((&*mail.name, &mail.failure, names(mail)), ("mail", &None, vec!["ada"]));
        // Busy since its first report.
        assert!(mail.report.actors[0].busy_ms.unwrap() >= 1_000, "{mail:?}");
        let letter = &mail.report.dead_letters[0];
        assert_eq!((&*letter.actor, &*letter.id, &*letter.message), ("ada", "order 7", "send"));
        assert_eq!(Snapshot::from_json(&snapshot.to_json()).unwrap(), snapshot);
    }

    #[test]
    fn a_source_that_blocks_holds_up_no_table_no_other_source_and_no_end() {
        let system = System::new();
        let _log = system.spawn(Actor::builder().name("log"), 0).unwrap();
        let server = served(&system);
        let (_never, blocks) = mpsc::channel::<Report>();
        server.source("blocks", move || blocks.recv()).unwrap();
        server.source("mail", || Ok::<_, Infallible>(report(&["ada"]))).unwrap();
        let mut client = client(&server);
        let snapshot = until(&mut client, |sources| names(&sources[1]) == ["ada"]);
        assert_eq!(snapshot.actors[0].name, "log");
        let later = client.snapshot().unwrap();
        let [before, after] = [&snapshot, &later].map(|snapshot| snapshot.sources[0].age_ms);
        // Nothing is reported, and the table says since when.
        assert!(names(&later.sources[0]).is_empty() && after >= before + 99, "{later:?}");
        let (ended, has_ended) = mpsc::channel();
        thread::spawn(move || {
            drop(server);
            ended.send(()).unwrap();
        });
        has_ended.recv_timeout(MINUTE).unwrap();
    }

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a payload's drop");
        }
    }

    /// Panics when it is printed.
    struct Mute;

    impl fmt::Display for Mute {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no words");
        }
    }

    #[test]
    fn a_source_that_panics_says_so_and_holds_up_no_other() {
        let server = served(&System::new());
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let source = move || -> Result<Report, Infallible> {
            counted.fetch_add(1, SeqCst);
            panic!("no store")
        };
        server.source("panics", source).unwrap();
        server.source("bomb", || -> Result<Report, Infallible> { panic_any(Bomb) }).unwrap();
        server.source("mute", || Err(Mute)).unwrap();
        let mut later = 0;
        let source = move || {
            later += 1;
            Ok::<_, Infallible>(report(&["ada", "bob"][..later.min(2)]))
        };
        server.source("mail", source).unwrap();
        let mut client = client(&server);
        let snapshot = until(&mut client, |sources| {
            let (panicking, goes_on) = (&sources[..3], names(&sources[3]).len() == 2);
            panicking.iter().all(|source| source.failure.is_some()) && goes_on
        });
        let failures = snapshot.sources.iter().map(|source| source.failure.as_deref());
        let failures: Vec<_> = failures.collect();
        let expected = ["no store", "without a text", "no words"];
        let expected = expected.map(|text| Some(format!("panicked: {text}")));
        assert_eq!(failures[..3], expected.each_ref().map(Option::as_deref));
        assert_eq!((failures[3], calls.load(SeqCst)), (None, 1));
    }

    #[test]
    fn after_an_error_the_rows_stay_and_grow_old() {
        let server = served(&System::new());
        let mut calls = 0;
        let source = move || {
            calls += 1;
            if calls == 1 { Ok(report(&["ada"])) } else { Err("the store is gone") }
        };
        server.source("mail", source).unwrap();
        let snapshot = until(&mut client(&server), |sources| sources[0].failure.is_some());
        let mail = &snapshot.sources[0];
        assert_eq!(
            (mail.failure.as_deref(), names(mail)),
            (Some("the store is gone"), vec!["ada"])
        );
        assert!(mail.age_ms >= 1_000, "{mail:?}");
    }

    #[test]
    fn a_report_of_any_size_is_cut() {
        let server = served(&System::new());
        let source = || {
            let long = "x".repeat(1_000);
            let mut large = report(&vec![&*long; 1_500]);
            large.dead_letters = vec![DeadLetter::new("ada", &*long); 1_001];
            large.left_out = 7;
            Ok::<_, Infallible>(large)
        };
        server.source("y".repeat(1_000), source).unwrap();
        let snapshot = until(&mut client(&server), |sources| sources[0].report.left_out > 0);
        let Source { name, report, .. } = &snapshot.sources[0];
        assert_eq!((report.actors.len(), report.dead_letters.len()), (1_000, 1_000));
        assert_eq!(report.left_out, 7 + 500 + 1);
        let lengths = [name, &report.actors[9].name, &report.dead_letters[9].id].map(String::len);
        assert_eq!(lengths, [202; 3]);
    }

    #[test]
    fn the_end_drops_the_sources() {
        struct Flag(Arc<AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let server = served(&System::new());
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(Arc::clone(&dropped));
        let source = move || {
            let _kept = &flag;
            Ok::<_, Infallible>(report(&["ada"]))
        };
        server.source("mail", source).unwrap();
        until(&mut client(&server), |sources| !names(&sources[0]).is_empty());
        drop(server);
        assert!(dropped.load(SeqCst));
    }
}

/// Files of sockets.
#[cfg(unix)]
mod files {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;
    use std::sync::mpsc;
    use std::{env, fs};

    use super::*;

    /// A folder of its own, which is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = env::temp_dir().join(format!("top-{}-{name}", process::id()));
            fs::create_dir(&folder).unwrap();
            Folder(folder)
        }

        fn socket(&self) -> Address {
            Address::Unix(self.0.join("socket"))
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_socket_is_for_one_user_and_goes_with_its_server() {
        let folder = Folder::new("goes");
        let server = serve_at(&System::new(), folder.socket()).unwrap();
        assert!(client(&server).snapshot().is_ok());
        assert_eq!(folder.names(), ["socket"]);
        let mode = fs::metadata(folder.0.join("socket")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(server);
        assert!(folder.names().is_empty());
    }

    #[test]
    fn a_socket_in_use_is_an_error_and_stays() {
        let folder = Folder::new("use");
        let system = System::new();
        let server = serve_at(&system, folder.socket()).unwrap();
        let error = serve_at(&system, folder.socket()).unwrap_err();
        assert!(matches!(&error, ServeError::InUse(address) if *address == folder.socket()));
        assert!(client(&server).snapshot().is_ok());
        assert_eq!(folder.names(), ["socket"]);
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let folder = Folder::new("stale");
        // Its file stays when a listener is closed.
        drop(UnixListener::bind(folder.0.join("socket")).unwrap());
        let server = serve_at(&System::new(), folder.socket()).unwrap();
        assert!(client(&server).snapshot().is_ok());
    }

    #[test]
    fn another_file_is_not_touched() {
        let folder = Folder::new("file");
        fs::write(folder.0.join("socket"), "mine").unwrap();
        let error = serve_at(&System::new(), folder.socket()).unwrap_err();
        assert!(matches!(error, ServeError::NotASocket(_)), "{error:?}");
        assert_eq!(fs::read_to_string(folder.0.join("socket")).unwrap(), "mine");
    }

    #[test]
    fn the_socket_of_a_later_server_is_not_removed() {
        let folder = Folder::new("later");
        let first = serve_at(&System::new(), folder.socket()).unwrap();
        fs::remove_file(folder.0.join("socket")).unwrap();
        let second = serve_at(&System::new(), folder.socket()).unwrap();
        drop(first);
        assert!(client(&second).snapshot().is_ok());
    }

    #[test]
    fn one_server_of_many_that_begin_at_once_has_the_socket() {
        let folder = Folder::new("race");
        let system = System::new();
        let servers: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| serve_at(&system, folder.socket()))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(servers.iter().filter(|server| server.is_ok()).count(), 1);
    }

    #[test]
    fn clients_that_do_not_read_hold_up_no_other_and_no_end() {
        let folder = Folder::new("deaf");
        let system = System::new();
        // More than a socket takes in.
        let long = "x".repeat(10_000);
        let actors: Vec<_> =
            (0..50).map(|_| system.spawn(Actor::builder().name(&*long), 0).unwrap()).collect();
        let server = serve_at(&system, folder.socket()).unwrap();
        let connect = || UnixStream::connect(folder.0.join("socket")).unwrap();
        let deaf: Vec<_> = (0..4)
            .map(|_| {
                let mut stream = connect();
                stream.write_all(&b"snapshot\n".repeat(1_000)).unwrap();
                stream
            })
            .collect();
        let mut client = client(&server);
        for _ in 0..3 {
            assert_eq!(client.snapshot().unwrap().actors.len(), actors.len());
        }
        // One that dies in the middle of its answer.
        let mut dies = BufReader::new(connect());
        dies.get_mut().write_all(b"snapshot\n").unwrap();
        assert!(!dies.fill_buf().unwrap().is_empty());
        drop(dies);
        assert_eq!(client.snapshot().unwrap().actors.len(), actors.len());
        let (ended, has_ended) = mpsc::channel();
        thread::spawn(move || {
            drop(server);
            ended.send(()).unwrap();
        });
        has_ended.recv_timeout(MINUTE).unwrap();
        drop(deaf);
    }

    #[test]
    fn a_slow_client_gets_each_of_its_answers_whole() {
        let folder = Folder::new("slow");
        let system = System::new();
        // More than a socket takes in.
        let long = "x".repeat(20_000);
        let actors: Vec<_> =
            (0..20).map(|_| system.spawn(Actor::builder().name(&*long), 0).unwrap()).collect();
        let _server = serve_at(&system, folder.socket()).unwrap();
        let mut stream = UnixStream::connect(folder.0.join("socket")).unwrap();
        stream.write_all(&b"snapshot\n".repeat(3)).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        let answers = answers.lines().map(|line| Snapshot::from_json(line).unwrap());
        let answers: Vec<_> = answers.map(|snapshot| snapshot.actors.len()).collect();
        assert_eq!(answers, [actors.len(); 3]);
    }

    #[test]
    fn servers_without_an_address_are_found() {
        let system = System::new();
        let servers = [serve(&system).unwrap(), serve(&system).unwrap()];
        let Address::Unix(path) = servers[0].address() else { panic!("{servers:?} have no files") };
        let dead = path.with_file_name(format!("turnwise-top-dead-{}.sock", process::id()));
        drop(UnixListener::bind(&dead).unwrap());
        assert!(!Address::all().contains(&Address::Unix(dead.clone())));
        drop(serve(&system).unwrap());
        assert!(!dead.exists());
        assert_ne!(servers[0].address(), servers[1].address());
        let all = Address::all();
        assert!(servers.iter().all(|server| all.contains(server.address())));
        let address = servers[0].address().clone();
        drop(servers);
        assert!(!Address::all().contains(&address));
    }
}
