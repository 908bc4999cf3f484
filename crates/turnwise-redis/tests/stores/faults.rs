//! Real faults: processes that are killed or stopped, servers that are killed, stopped, full or
//! missing.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::proxy::{Fate, Proxy};
use crate::support::sentinel::Sentinel;
use crate::support::{Server, abandon_job, signal_to, until};
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
use turnwise_redis::{
    ConnectError, Fence, Fenced, Limits, LockError, RedisStore, Refusal, ReleaseError, Remote,
    RemoteBuilder, StoreError,
};

const LEASE: Duration = Duration::from_millis(500);

fn builder() -> RemoteBuilder {
    Remote::builder().lease(LEASE).place(LEASE).answer_within(LEASE / 2)
}

/// Not a test: the process that the tests below start.
#[test]
fn holder() {
    let Ok(url) = env::var("HOLDER_OF") else { return };
    let remote = builder().connect(&url).unwrap();
    let guard = remote.locks().lock("a").wait().unwrap();
    println!("fence {}", guard.fence());
    until("it is lost", || guard.is_lost());
    println!("lost");
}

/// Not a test: a process that is killed in the midst of a job, in one of two places.
#[test]
fn worker() {
    let Ok(url) = env::var("WORKER_OF") else { return };
    let remote = builder().connect(&url).unwrap();
    let boxes = remote.slot_pool("boxes", 2).build().unwrap();
    let _ = boxes.run(Limits::NONE, |slot| {
        println!("begun {}", slot.id());
        thread::park();
    });
}

/// The place is cleaned up before the next job there begins, and after it.
#[test]
fn a_worker_is_killed_in_its_job() {
    let server = Server::start();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["faults::worker", "--exact", "--nocapture"]).env("WORKER_OF", server.url());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let mut worker = Holder { child, said };
    assert_eq!(worker.says("begun "), "0");
    drop(worker);
    let remote = builder().connect(&server.url()).unwrap();
    let cleaned = Arc::new(std::sync::Mutex::new(Vec::new()));
    let here = cleaned.clone();
    let boxes = remote.slot_pool("boxes", 2).clean_up(move |slot, value| {
        here.lock().unwrap().push((slot.index(), value.is_some()));
        Ok(())
    });
    let boxes = boxes.build().unwrap();
    assert_eq!(boxes.run(Limits::NONE, |slot| slot.id().index()), Ok(1));
    until("its lease is over", || boxes.slots().info().wait().unwrap().free == 2);
    // Its place is dirty until the next job there, and the pool is known for as long.
    let known = || {
        let millis = server.ask("PTTL turnwise:{slots:boxes}");
        Duration::from_millis(millis[1..].parse().unwrap())
    };
    let day = Duration::from_secs(24 * 3600);
    assert!(known() > day, "{:?}", known());
    assert_eq!(boxes.run(Limits::NONE, |slot| slot.id().index()), Ok(0));
    assert_eq!(*cleaned.lock().unwrap(), [(1, true), (0, false), (0, true)]);
    assert!(known() < day, "{:?}", known());
}

/// The only place of a pool is released by a step of its own.
#[test]
fn the_only_place_stays_dirty() {
    let server = Server::start();
    let remote = builder().connect(&server.url()).unwrap();
    let boxes = remote.slot_pool("boxes", 1).build().unwrap();
    abandon_job(&boxes);
    until("it is released", || boxes.slots().info().wait().unwrap().free == 1);
    let known = || server.ask("PTTL turnwise:{slots:boxes}")[1..].parse::<u64>().unwrap();
    let day = 24 * 3600 * 1000;
    assert!(known() > day, "{}", known());
    assert!(boxes.run(Limits::NONE, |_| ()).is_ok());
    assert!(known() < day, "{}", known());
}

struct Holder {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Holder {
    fn start(server: &Server) -> (Holder, Fence) {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["faults::holder", "--exact", "--nocapture"]).env("HOLDER_OF", server.url());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut holder = Holder { child, said };
        let fence = holder.says("fence ");
        (holder, Fence::from_number(fence.parse().unwrap()))
    }

    fn says(&mut self, what: &str) -> String {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once(what) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("it ended without having said `{what}`");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_holder_is_killed() {
    let server = Server::start();
    let (mut holder, fence) = Holder::start(&server);
    let locks = builder().connect(&server.url()).unwrap().locks();
    assert!(matches!(locks.try_lock("a").wait(), Err(LockError::Busy { .. })));
    holder.child.kill().unwrap();
    let began = Instant::now();
    let next = locks.lock("a").wait().unwrap();
    assert!(next.fence() > fence);
    println!("free after {:?} of a lease of {LEASE:?}", began.elapsed());
}

#[test]
fn a_holder_is_stopped_past_its_lease() {
    let server = Server::start();
    let (mut holder, old) = Holder::start(&server);
    let locks = builder().connect(&server.url()).unwrap().locks();
    let file = Fenced::new("");
    signal_to(&holder.child, SIGSTOP);
    let next = locks.lock("a").wait().unwrap();
    file.with(next.fence(), |text| *text = "new").unwrap();
    signal_to(&holder.child, SIGCONT);
    // It learns of it by its own clock, and its later write is refused.
    holder.says("lost");
    assert!(file.with(old, |text| *text = "old").is_err());
    assert!(!next.is_lost());
}

#[test]
fn a_server_is_killed_and_has_forgotten_all() {
    let mut server = Server::start();
    let locks = builder().connect(&server.url()).unwrap().locks();
    let mut fences = Vec::new();
    for _ in 0..3 {
        let held = locks.lock("a").wait().unwrap();
        fences.push(held.fence());
        let waits = locks.lock("a");
        until("it waits", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
        server.kill();
        server.run();
        let next = waits.wait().unwrap();
        fences.push(next.fence());
        until("the holder learns of it", || held.is_lost());
        assert!(matches!(held.release().wait(), Err(ReleaseError::Lost(_))));
        next.release().wait().unwrap();
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn a_server_does_not_answer() {
    let server = Server::start();
    let remote =
        builder().give_up_after(Duration::from_millis(700)).connect(&server.url()).unwrap();
    let locks = remote.locks();
    let held = locks.lock("a").wait().unwrap();
    server.signal(SIGSTOP);
    // Limits still hold: that of the call, or the client's patience.
    for limits in [Limits::wait(Duration::from_millis(300)), Limits::NONE] {
        let began = Instant::now();
        let error = locks.lock_within("b", limits).wait().unwrap_err();
        assert!(matches!(&error, LockError::Store(error) if error.is_transient()), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    until("the holder does not trust in it", || held.is_lost());
    server.signal(SIGCONT);
    until("it answers again", || {
        locks.lock_within("b", Limits::wait(Duration::from_secs(5))).wait().is_ok()
    });
    drop(locks.lock("a").wait().unwrap());
}

#[test]
fn scripts_are_flushed_and_answers_are_lost() {
    let server = Server::start();
    let proxy = Proxy::new(server.port, || Fate::Forward);
    let locks = builder().connect(&proxy.url()).unwrap().locks();
    assert_eq!(server.ask("SCRIPT FLUSH"), "+OK");
    drop(locks.lock("a").wait().unwrap());
    // The answer to the very request that was granted.
    let mut lost = false;
    proxy.then(
        move || if std::mem::replace(&mut lost, true) { Fate::Forward } else { Fate::LoseAnswer },
    );
    let guard = locks.lock("b").wait().unwrap();
    let info = locks.info("b").wait().unwrap().unwrap();
    assert_eq!((info.fence, info.waiting), (Some(guard.fence()), 0));
    guard.release().wait().unwrap();
}

#[test]
fn memory_is_full() {
    let server = Server::with(&["--save", "", "--maxmemory-policy", "noeviction"]);
    let locks = builder().connect(&server.url()).unwrap().locks();
    let held = locks.lock("a").wait().unwrap();
    server.ask("CONFIG SET maxmemory 1");
    // At once, or at the end of the wait.
    for wait in [Duration::ZERO, Duration::from_millis(300)] {
        let error = locks.lock_within("b", Limits::wait(wait)).wait().unwrap_err();
        let LockError::Store(StoreError::Refused { refusal, step, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*refusal, *step), (Refusal::Full, "acquire"));
        assert!(error.to_string().contains("OOM"), "{error}");
    }
    // Holds are renewed, and can be released.
    let began = Instant::now();
    until("it was renewed", || began.elapsed() > LEASE * 2);
    assert!(!held.is_lost());
    held.release().wait().unwrap();
}

#[test]
fn servers_that_would_lose_locks_are_refused() {
    let refused = |server: &Server| builder().connect(&server.url()).unwrap_err();
    let evicting = Server::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let error = refused(&evicting).to_string();
    assert!(error.contains("noeviction; with allkeys-lru it drops locks"), "{error}");

    let primary = Server::start();
    let port = primary.port.to_string();
    let replica = Server::with(&["--save", "", "--replicaof", &format!("127.0.0.1 {port}")]);
    until("it follows", || {
        refused(&replica).to_string().contains("a replica, which takes no writes")
    });

    let locked = Server::with(&["--save", "", "--requirepass", "secret"]);
    let error = refused(&locked);
    let denied = |error| match error {
        ConnectError::Store(StoreError::Refused { refusal, .. }) => refusal == Refusal::Denied,
        _ => false,
    };
    assert!(denied(error.clone()), "{error:?}");
    let url = |password| format!("redis://:{password}@127.0.0.1:{}/", locked.port);
    assert!(denied(builder().connect(&url("wrong")).unwrap_err()));
    drop(builder().connect(&url("secret")).unwrap().locks().lock("a").wait().unwrap());
}

/// Locks have an expiry, so a policy that only drops such keys drops them, too.
#[test]
fn evicting_server_that_refuses_config_is_refused() {
    let server = Server::with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"]);
    assert_eq!(server.ask("ACL SETUSER app on >secret ~* &* +@all -config"), "+OK");
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port);
    let error = builder().connect(&url).unwrap_err().to_string();
    assert!(error.contains("noeviction; with volatile-lru it drops locks"), "{error}");
    // A server without a limit drops nothing.
    assert_eq!(server.ask("CONFIG SET maxmemory 0"), "+OK");
    drop(builder().connect(&url).unwrap());
}

/// So names that change from day to day do not fill a server.
#[test]
fn names_that_are_let_go_are_forgotten_soon() {
    let server = Server::start();
    let minutes = |name: &str| {
        let left = server.ask(&format!("PTTL turnwise:{{lock:{name}}}"));
        left[1..].parse::<f64>().unwrap() / 60_000.0
    };
    let remote = Remote::connect(&server.url()).unwrap();
    let locks = remote.locks();
    locks.lock("a").wait().unwrap().release().wait().unwrap();
    assert!((8.0..11.0).contains(&minutes("a")), "{}", minutes("a"));
    // Also if its lease was long.
    let limits = Limits::wait(LEASE * 10).lease(Duration::from_secs(86_400));
    let long = locks.lock_within("b", limits).wait().unwrap();
    assert!(minutes("b") > 24.0 * 60.0);
    long.release().wait().unwrap();
    assert!((8.0..11.0).contains(&minutes("b")), "{}", minutes("b"));
    // A held name stays known.
    let _held = locks.lock_within("c", limits).wait().unwrap();
    assert!(minutes("c") > 24.0 * 60.0);
    // A client may set a longer time.
    let hour = Remote::builder().remember(Duration::from_secs(3600));
    let hour = hour.connect(&server.url()).unwrap().locks();
    hour.lock("d").wait().unwrap().release().wait().unwrap();
    assert!((53.0..61.0).contains(&minutes("d")), "{}", minutes("d"));
}

fn is_unsupported(error: &ConnectError, what: &str) -> bool {
    let ConnectError::Store(StoreError::Unsupported { instead, .. }) = error else { return false };
    let text = error.to_string();
    text.contains(what) && text.contains("is not supported") && text.contains(instead)
}

#[test]
fn addresses_that_are_not_supported_say_so() {
    let tls = ["rediss://127.0.0.1/", "rediss://user:secret@example.com:6380/1"];
    for url in tls.into_iter().filter(|_| !cfg!(feature = "tls")) {
        let error = builder().connect(url).unwrap_err();
        assert!(is_unsupported(&error, "TLS"), "{url}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
}

/// A server that watches others cannot keep locks.
#[test]
fn a_sentinel_in_place_of_a_server_says_so() {
    let sentinel = Sentinel::start("");
    let error = builder().connect(&format!("redis://127.0.0.1:{}/", sentinel.port)).unwrap_err();
    assert!(is_unsupported(&error, "Sentinel"), "{error}");
    // It does not know this one.
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let error = builder().connect(&url).unwrap_err();
    assert!(error.to_string().contains("no Sentinel knows a primary named `main`"), "{error}");
}

/// A notice reaches a client that joins a shared store while another one connects.
#[test]
fn client_that_comes_while_another_connects_is_subscribed() {
    let server = Server::start();
    let (subscribes, subscribing) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", gate.local_addr().unwrap());
    let port = server.port;
    // The first connection's subscription passes when the test allows it.
    thread::spawn(move || {
        let mut first = Some((subscribes, goes_on));
        for mut client in gate.incoming().map_while(Result::ok) {
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)) else { return };
            let (mut back, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut back, &mut to));
            let mut stops = first.take();
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = client.read(&mut bytes) {
                    let text = &bytes[..length];
                    if text.windows(9).any(|word| word == b"SUBSCRIBE")
                        && let Some((subscribes, goes_on)) = stops.take()
                    {
                        let _ = subscribes.send(());
                        let _ = goes_on.recv();
                    }
                    if server.write_all(text).is_err() {
                        return;
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    let patient = Duration::from_secs(20);
    let store = Arc::new(RedisStore::new(&url, "turnwise", patient).unwrap());
    let client = || Remote::builder().answer_within(patient).over(store.clone()).unwrap();
    let first = client();
    let asked = first.locks().info("a");
    subscribing.recv().unwrap();
    let second = client();
    go_on.send(()).unwrap();
    assert_eq!(asked.wait().unwrap(), None);
    let _held = second.locks().lock("a").wait().unwrap();
    let numsub = "PUBSUB CHANNELS turnwise:notices:*";
    until("both are subscribed", || server.ask(numsub) == "*2");
}

/// A server that has forgotten all, and whose clock is behind, issues fences that are too small.
#[test]
fn fences_are_above_the_floor_of_a_client() {
    let server = Server::start();
    let first = builder().connect(&server.url()).unwrap().locks().lock("a").wait().unwrap();
    // A fence of a server whose clock was ahead.
    let seen = Fence::from_number(first.fence().number() + 1_000_000_000_000);
    first.release().wait().unwrap();
    let client = || builder().fences_above(seen).connect(&server.url()).unwrap();
    let (one, other) = (client(), client());
    let held = one.locks().lock("a").wait().unwrap();
    assert!(held.fence() > seen);
    let waits = other.locks().lock("a");
    until("it waits", || one.locks().info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
    let fence = held.fence();
    // Its release grants the lock to the other one.
    held.release().wait().unwrap();
    assert!(waits.wait().unwrap().fence() > fence);
    // A slot has a fence, too.
    let slot = one.slots("s", 2).unwrap().acquire(Limits::NONE).wait().unwrap();
    assert!(slot.fence() > seen);
}

#[test]
fn server_that_begins_to_evict_is_refused_by_the_next_connection() {
    let server = Server::start();
    assert_eq!(server.ask("ACL SETUSER app on >secret ~* &* +@all -config"), "+OK");
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port);
    let locks = builder().connect(&url).unwrap().locks();
    drop(locks.lock("a").wait().unwrap());
    assert_eq!(server.ask("CONFIG SET maxmemory 100mb"), "+OK");
    assert_eq!(server.ask("CONFIG SET maxmemory-policy volatile-lru"), "+OK");
    assert!(server.ask("CLIENT KILL USER app").starts_with(':'));
    let error = locks.lock("b").wait().unwrap_err();
    assert!(matches!(error, LockError::Store(StoreError::WrongStore { .. })), "{error:?}");
}

#[test]
fn addresses_where_no_server_is() {
    for url in ["", "nonsense", "http://127.0.0.1/", "redis://127.0.0.1:notaport/"] {
        let error = builder().connect(url).unwrap_err();
        assert!(matches!(error, ConnectError::Url(_)), "{url}: {error:?}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    // It accepts the connection, and does not answer.
    let error = builder().connect(&format!("redis://127.0.0.1:{port}/")).unwrap_err();
    assert!(matches!(error, ConnectError::Store(StoreError::Unreachable { .. })), "{error:?}");
    drop(nobody);
    let error = builder().connect(&format!("redis://127.0.0.1:{port}/")).unwrap_err();
    assert!(matches!(error, ConnectError::Store(StoreError::Unreachable { .. })), "{error:?}");
    // It speaks another protocol.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let talking = thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    assert!(builder().connect(&format!("redis://127.0.0.1:{port}/")).is_err());
    talking.join().unwrap();
}

/// A waiter without a limit gets the error, too, once the client's patience is over.
#[test]
fn a_server_that_is_gone_for_good_is_told_to_those_who_wait() {
    let mut server = Server::start();
    let client = || {
        let short = builder().place(Duration::from_millis(200));
        short.give_up_after(Duration::from_millis(300)).connect(&server.url()).unwrap()
    };
    let (first, second) = (client(), client());
    let _held = first.locks().lock("a").wait().unwrap();
    let waits = second.locks().lock("a");
    until("it waits", || first.locks().info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
    server.kill();
    let told = waits.wait();
    assert!(matches!(told, Err(LockError::Store(_))), "{told:?}");
}

/// Not a test: a process that ends as `main` does, after all its values are dropped.
#[test]
fn short_program() {
    let (Ok(url), Ok(how)) = (env::var("PROGRAM_AT"), env::var("PROGRAM")) else { return };
    let body = || {
        let remote = Remote::connect(&url).unwrap();
        let locks = remote.locks();
        match &*how {
            "guard last" => {
                drop(remote);
                let _guard = locks.lock("a").wait().unwrap();
                drop(locks);
            }
            "guard first" => drop(locks.lock("a").wait().unwrap()),
            "release" => drop(locks.lock("a").wait().unwrap().release()),
            "answer not taken" => {
                let mut asked = locks.lock("a");
                until("it is there", || asked.is_ready());
                assert!(asked.wait_timeout(Duration::ZERO).is_some());
                let _asked = locks.lock("a");
            }
            "run" => {
                let hourly = remote.ticks().job("a", Duration::from_secs(3600)).unwrap();
                drop(hourly.take().wait().unwrap());
            }
            "seat" => {
                let desk = remote.admission("a", 1).unwrap();
                drop(desk.reserve("ada").wait().unwrap());
            }
            "flush" => {
                drop(locks.lock("a").wait().unwrap());
                assert!(remote.flush(Duration::from_secs(10)));
                std::process::exit(0);
            }
            "panics" => {
                let _guard = locks.lock("a").wait().unwrap();
                panic!("as it was to");
            }
            how => unreachable!("{how}"),
        }
    };
    let _ = std::panic::catch_unwind(body);
    std::process::exit(0);
}

#[test]
fn guard_dropped_at_the_end_of_main_is_given_back() {
    for how in [
        "guard last",
        "guard first",
        "release",
        "answer not taken",
        "run",
        "seat",
        "flush",
        "panics",
    ] {
        for round in 0..4 {
            let server = Server::start();
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["faults::short_program", "--exact"]).env("PROGRAM_AT", server.url());
            let ended = command.env("PROGRAM", how).stderr(Stdio::null()).output().unwrap();
            assert!(ended.status.success(), "{how}: {ended:?}");
            let remote = Remote::connect(&server.url()).unwrap();
            assert_eq!(remote.locks().info("a").wait(), Ok(None), "{how}, round {round}");
            assert_eq!(server.ask("HSTRLEN turnwise:{tick:a} t1"), ":0", "{how}, round {round}");
            let reserved = remote.admission("a", 1).unwrap().status().wait().unwrap().reserved;
            assert_eq!(reserved, 0, "{how}, round {round}");
        }
    }
}

#[test]
fn waiter_is_let_in_after_the_key_was_deleted_by_hand() {
    let server = Server::start();
    let [first, second] = [(); 2].map(|()| builder().connect(&server.url()).unwrap().locks());
    let held = first.lock("a").wait().unwrap();
    let mut waits = [(); 2].map(|()| second.lock("a"));
    until("they wait", || first.info("a").wait().unwrap().is_some_and(|it| it.waiting == 2));
    assert_eq!(server.ask("DEL turnwise:{lock:a}"), ":1");
    until("one is let in", || waits.iter().any(|waits| waits.is_ready()));
    let next = waits.iter_mut().find_map(|waits| waits.wait_timeout(Duration::ZERO)).unwrap();
    assert!(next.unwrap().fence() > held.fence());
}

#[test]
fn scripts_that_are_flushed_again_and_again_harm_nobody() {
    let server = Server::start();
    let proxy = Proxy::new(server.port, || Fate::Forward);
    let locks = builder().connect(&proxy.url()).unwrap().locks();
    let port = server.port;
    // Before each step that is called by its hash, whether it was loaded again or not.
    proxy.then(move || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"SCRIPT FLUSH\r\n").unwrap();
        BufReader::new(stream).read_line(&mut String::new()).unwrap();
        Fate::Forward
    });
    for _ in 0..20 {
        locks.lock("a").wait().unwrap().release().wait().unwrap();
    }
}

#[test]
fn refusals_that_go_by_do_not_end_a_wait() {
    let server = Server::with(&["--save", "", "--maxmemory-policy", "noeviction"]);
    let locks = builder().connect(&server.url()).unwrap().locks();
    // Scripts that the server does not know yet are errors, too.
    locks.lock("a").wait().unwrap().release().wait().unwrap();
    assert_eq!(server.ask("CONFIG RESETSTAT"), "+OK");
    for (setting, code) in [("maxmemory", "OOM"), ("min-replicas-to-write", "NOREPLICAS")] {
        let held = locks.lock("b").wait().unwrap();
        assert_eq!(server.ask(&format!("CONFIG SET {setting} 1")), "+OK");
        let mut waits = locks.lock_within("a", Limits::wait(Duration::from_secs(20)));
        until("it was refused", || has_refused(&server, code));
        // Renewals need no memory, but they are writes.
        until("it was renewed, or not", || held.is_lost() || code == "OOM");
        assert!(waits.wait_timeout(Duration::ZERO).is_none());
        assert_eq!(server.ask(&format!("CONFIG SET {setting} 0")), "+OK");
        drop(waits.wait().unwrap());
        assert_eq!(server.ask("CONFIG RESETSTAT"), "+OK");
    }
}

/// True if the server has refused a command with this code since its statistics were reset.
fn has_refused(server: &Server, code: &str) -> bool {
    server.all("INFO errorstats\r\nQUIT", 10).iter().any(|line| line.contains(code))
}

/// A server whose snapshots fail is asked again.
#[test]
fn servers_that_cannot_save_do_not_end_a_wait() {
    let server = Server::with(&["--save", "3600 1000000", "--enable-protected-configs", "yes"]);
    let locks = builder().connect(&server.url()).unwrap().locks();
    // A file in place of the folder itself cannot be written.
    let saves = |file: &str, status: &str| {
        assert_eq!(server.ask(&format!("CONFIG SET dbfilename {file}")), "+OK");
        until("a snapshot was tried", || {
            server.ask("BGSAVE");
            let lines = server.all("INFO persistence\r\nQUIT", 40);
            lines.contains(&format!("rdb_last_bgsave_status:{status}"))
        });
    };
    let held = locks.lock("b").wait().unwrap();
    saves(".", "err");
    for wait in [Duration::ZERO, Duration::from_millis(300)] {
        let error = locks.lock_within("a", Limits::wait(wait)).wait().unwrap_err();
        let LockError::Store(StoreError::Refused { refusal, step, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*refusal, *step), (Refusal::NotSaving, "acquire"));
        assert!(error.to_string().contains("MISCONF"), "{error}");
    }
    assert_eq!(server.ask("CONFIG RESETSTAT"), "+OK");
    let mut waits = locks.lock_within("a", Limits::wait(Duration::from_secs(20)));
    until("it was refused", || has_refused(&server, "MISCONF"));
    until("a hold is not renewed", || held.is_lost());
    assert!(waits.wait_timeout(Duration::ZERO).is_none());
    saves("dump.rdb", "ok");
    drop(waits.wait().unwrap());
}

/// A server that reads its objects from the disk, key by key, is asked again.
#[test]
fn servers_that_load_do_not_end_a_wait() {
    let slow = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    let large =
        ["--save", "3600 1000000", "--rdbcompression", "no", "--enable-debug-command", "yes"];
    let mut server = Server::with(&[&slow[..], &large[..]].concat());
    let locks = builder().connect(&server.url()).unwrap().locks();
    assert_eq!(server.ask("DEBUG POPULATE 6000 key 1024"), "+OK");
    assert_eq!(server.ask("SAVE"), "+OK");
    server.kill();
    server.spawn();
    let loads = |answer: String| answer.starts_with("-LOADING");
    until("it loads", || server.try_ask("PING").is_some_and(loads));
    let short = Limits::wait(Duration::from_millis(300));
    until("the error says so", || match locks.lock_within("a", short).wait().unwrap_err() {
        LockError::Store(StoreError::Unreachable { why, .. }) => why.contains("loading"),
        // An attempt was under way at the end of the wait.
        LockError::Store(StoreError::TimedOut { .. }) => false,
        other => panic!("{other:?}"),
    });
    assert_eq!(server.ask("CONFIG RESETSTAT"), "+OK");
    let mut waits = locks.lock_within("a", Limits::wait(Duration::from_secs(20)));
    until("it was refused", || has_refused(&server, "LOADING"));
    assert!(waits.wait_timeout(Duration::ZERO).is_none());
    assert_eq!(server.ask("CONFIG SET key-load-delay 0"), "+OK");
    drop(waits.wait().unwrap());
}

/// A server that takes no more connections is asked again.
#[test]
fn servers_with_too_many_clients_do_not_end_a_wait() {
    let server = Server::start();
    let locks = builder().connect(&server.url()).unwrap().locks();
    // The one connection that stays.
    let mut last = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let mut answers = BufReader::new(last.try_clone().unwrap()).lines();
    let mut ask = |command: &str| {
        last.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        answers.next().unwrap().unwrap()
    };
    assert_eq!(ask("CONFIG SET maxclients 1"), "+OK");
    assert!(ask("CLIENT KILL SKIPME yes").starts_with(':'));
    let mut waits = locks.lock_within("a", Limits::wait(Duration::from_secs(20)));
    assert!(waits.wait_timeout(LEASE).is_none());
    assert_eq!(ask("CONFIG SET maxclients 1000"), "+OK");
    drop(waits.wait().unwrap());
}

/// The number of commands that a server runs, those of scripts included.
fn commands(server: &Server) -> u64 {
    let lines = server.all("INFO commandstats\r\nQUIT", 200);
    let calls = lines.iter().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once("calls="));
    calls.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok()).sum()
}

/// A step reads the places that it needs, so a large pool costs as much as a small one.
#[test]
fn slots_cost_the_same_for_few_and_for_many_places() {
    let costs = [4, 1024].map(|places| {
        let server = Server::start();
        // No renewals meanwhile.
        let remote = Remote::builder().lease(Duration::from_secs(600)).connect(&server.url());
        let remote = remote.unwrap();
        let slots = remote.slots("port", places).unwrap();
        // All but two are held, so the step has to find a free one.
        let held: Vec<_> =
            (2..places).map(|_| slots.acquire(Limits::NONE).wait().unwrap()).collect();
        slots.acquire(Limits::NONE).wait().unwrap().release().wait().unwrap();
        let before = commands(&server);
        for _ in 0..10 {
            slots.acquire(Limits::NONE).wait().unwrap().release().wait().unwrap();
        }
        let cost = commands(&server) - before;
        drop(held);
        cost
    });
    // Both scripts, and their commands.
    assert!(costs[0] >= 20, "{costs:?}");
    assert!(costs[1] <= costs[0] + 20, "{costs:?}");
}

/// The keys that the README names are all that there are.
#[test]
fn admissions_are_deleted_by_their_keys() {
    let server = Server::start();
    let remote = Remote::connect(&server.url()).unwrap();
    let admission = remote.admission("a", 2).unwrap();
    admission.admit("ada", "row").wait().unwrap();
    let reservation = admission.reserve("bob").wait().unwrap();
    let waiting = admission.admit("eve", "row");
    let waiting = thread::spawn(move || waiting.wait());
    until("she waits", || admission.status().wait().unwrap().waiting == 1);
    let key = "turnwise:{admission:a}";
    let all: Vec<_> =
        ["", ":e", ":q", ":u", ":b", ":w", ":d"].map(|part| format!("{key}{part}")).into();
    assert_ne!(server.ask("DBSIZE"), ":0");
    server.ask(&format!("DEL {}", all.join(" ")));
    assert_eq!(server.ask("DBSIZE"), ":0");
    drop(reservation);
    // Those who wait ask again, of an admission that is new.
    assert_eq!(waiting.join().unwrap().unwrap().place, 1);
}

#[test]
fn refusals_name_their_step() {
    let server = Server::start();
    let remote = Remote::connect(&server.url()).unwrap();
    assert_eq!(server.ask("ACL SETUSER default -evalsha -eval"), "+OK");
    let refused = remote.locks().lock("a").wait();
    let Err(LockError::Store(StoreError::Refused { refusal, step, .. })) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!((*refusal, *step), (Refusal::Denied, "acquire"));
    assert!(refused.unwrap_err().to_string().contains("refused to acquire"));
}
