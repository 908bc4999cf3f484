//! Properties of an admission over every store: first come, first served, exactly to the limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::world::{World, builder, contract};
use crate::support::{Server, until};
use turnwise_redis::admission::{Admission, OpenError, Refused, Row, Status};
use turnwise_redis::step::{AdmissionAct, AdmissionAnswer, AdmissionStep, Answer, Op, Step};
use turnwise_redis::{
    Called, Effect, Limits, MemoryStore, NameError, Refusal, Remote, Store, StoreError,
};

fn status(admission: &Admission) -> Status {
    admission.status().wait().unwrap()
}

/// Returns all rows, by small pages.
fn rows(admission: &Admission) -> Vec<Row> {
    let mut all = Vec::new();
    loop {
        let page = admission.rows(all.len() as u64, 3).wait().unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

fn admissions(clients: &[Remote], name: &str, limit: u64) -> Vec<Admission> {
    clients.iter().map(|client| client.admission(name, limit).unwrap()).collect()
}

contract! {
    /// However often each applies: as many rows as places, one each, and every request has an
    /// answer.
    fn exactly_the_limit(world) {
        let clients = world.clients(3);
        for (limit, applicants) in [(4, 7), (5, 2), (15, 100)] {
            let name = format!("{limit} of {applicants}");
            let admissions = admissions(&clients, &name, limit);
            let asked: Vec<_> = (0..applicants)
                .map(|n| admissions[n % 3].admit(format!("a{n}"), format!("row {n}")))
                .collect();
            let mut places = BTreeMap::new();
            for (n, asked) in asked.into_iter().enumerate() {
                match asked.wait() {
                    Ok(admitted) => assert_eq!(places.insert(admitted.place, n), None),
                    Err(Refused::Closed { limit: told }) => assert_eq!(told, limit),
                    other => panic!("{other:?}"),
                }
            }
            let full = limit.min(applicants as u64);
            assert_eq!(places.len() as u64, full);
            assert!(places.keys().copied().eq(1..=full));
            let rows = rows(&admissions[0]);
            assert_eq!(rows.len(), places.len());
            for row in &rows {
                let n = places[&row.place];
                assert_eq!((&*row.applicant, &*row.row), (&*format!("a{n}"), format!("row {n}").as_bytes()));
            }
            assert!(rows.is_sorted_by(|a, b| a.fence < b.fence));
            let info = status(&admissions[1]);
            assert_eq!((info.limit, info.count, info.reserved, info.waiting), (limit, full, 0, 0));
            assert_eq!((info.closed, info.ratio), (full == limit, full as f64 / limit as f64));
        }
    }

    fn one_row_for_each_applicant(world) {
        let clients = world.clients(3);
        let admissions = admissions(&clients, "a", 50);
        let asked: Vec<_> = (0..100).map(|n| admissions[n % 3].admit("ada", n.to_string())).collect();
        let answers: Vec<_> = asked.into_iter().map(|asked| asked.wait()).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        for refused in answers.into_iter().filter_map(Result::err) {
            assert_eq!(refused, Refused::Duplicate { place: 1 });
        }
        assert_eq!(rows(&admissions[0]).len(), 1);
        // An admitted applicant gets its place after the close, too.
        admissions[1].close().wait().unwrap();
        assert_eq!(admissions[2].admit("ada", "").wait(), Err(Refused::Duplicate { place: 1 }));
        assert_eq!(admissions[2].reserve("ada").wait().unwrap_err(), Refused::Duplicate { place: 1 });
        assert_eq!(admissions[0].admit("bob", "").wait(), Err(Refused::Closed { limit: 50 }));
        let info = status(&admissions[0]);
        assert!((info.count, info.closed) == (1, true));
    }

    fn a_place_that_is_given_back_goes_to_the_first(world) {
        let clients = world.clients(3);
        let admissions = admissions(&clients, "a", 2);
        let ada = admissions[0].reserve("ada").wait().unwrap();
        let bob = admissions[1].reserve("bob").wait().unwrap();
        assert_eq!((ada.place(), bob.place()), (1, 2));
        assert!(bob.fence() > ada.fence());
        assert_eq!(admissions[2].admit_within("cyd", "", Limits::wait(Duration::ZERO)).wait(), Err(Refused::Busy));
        let other = admissions[2].admit_within("ada", "", Limits::wait(Duration::ZERO)).wait();
        assert_eq!(other, Err(Refused::Pending { place: Some(1) }));
        let mut wait = Vec::new();
        for n in 0..3 {
            let name = format!("w{n}");
            wait.push(admissions[n % 3].admit(&name, name.clone()));
            until("it waits", || status(&admissions[0]).waiting == n + 1);
        }
        let again = admissions[2].reserve_within("w2", Limits::wait(Duration::ZERO)).wait();
        assert_eq!(again.unwrap_err(), Refused::Pending { place: None });
        let (first, second) = (ada.fence(), bob.fence());
        bob.cancel().wait().unwrap();
        let mut wait = wait.into_iter();
        let admitted = wait.next().unwrap().wait().unwrap();
        assert_eq!(admitted.place, 2);
        assert!(admitted.fence > second);
        assert_eq!(status(&admissions[0]).waiting, 2);
        drop(ada);
        let admitted = wait.next().unwrap().wait().unwrap();
        assert_eq!(admitted.place, 1);
        assert!(admitted.fence > first);
        // No place can be released any more.
        let last = wait.next().unwrap().wait();
        assert_eq!(last, Err(Refused::Closed { limit: 2 }));
        let order: Vec<_> = rows(&admissions[2]).into_iter().map(|row| (row.applicant, row.place)).collect();
        assert_eq!(order, [("w0".to_owned(), 2), ("w1".to_owned(), 1)]);
    }

    fn a_reservation_is_kept_and_confirmed(world) {
        let lease = Duration::from_millis(if world.is_sound() { 400 } else { 1500 });
        let admission = world.client(builder().lease(lease)).admission("a", 1).unwrap();
        let other = world.client(builder()).admission("a", 1).unwrap();
        let reservation = admission.reserve("ada").wait().unwrap();
        let late = other.admit_within("bob", "", Limits::wait(lease * 3)).wait();
        assert!(matches!(late, Err(Refused::TimedOut { .. } | Refused::Store(_))), "{late:?}");
        assert!(!reservation.is_lost());
        let (place, fence) = (reservation.place(), reservation.fence());
        let admitted = reservation.confirm("later").wait().unwrap();
        assert_eq!((admitted.place, admitted.fence), (place, fence));
        assert_eq!(other.admit("bob", "").wait(), Err(Refused::Closed { limit: 1 }));
        let rows = rows(&other);
        assert_eq!((rows.len(), &*rows[0].row), (1, &b"later"[..]));
        until("none waits", || (status(&other).waiting, status(&other).reserved) == (0, 0));
    }

    fn a_reservation_that_is_over_is_not_confirmed(world) {
        let clients = world.clients(2);
        let admissions = admissions(&clients, "a", 1);
        let limits = Limits::NONE.lease(Duration::from_millis(300));
        let old = admissions[0].reserve_within("ada", limits).wait().unwrap();
        let new = admissions[1].reserve("bob").wait().unwrap();
        assert_eq!(new.place(), 1);
        assert!(new.fence() > old.fence());
        until("it learns of it", || old.is_lost());
        let fence = old.fence();
        assert_eq!(old.confirm("too late").wait(), Err(Refused::Lost(fence)));
        new.confirm("in time").wait().unwrap();
        let rows = rows(&admissions[0]);
        assert_eq!((rows.len(), &*rows[0].applicant), (1, "bob"));
    }

    fn requests_that_are_dropped_are_given_up(world) {
        let clients = world.clients(2);
        let admissions = admissions(&clients, "a", 2);
        for round in 0..10 {
            let held = [0, 1].map(|n| admissions[n].reserve(format!("h{round}.{n}")).wait().unwrap());
            let asked: Vec<_> =
                (0..4).map(|n| admissions[n % 2].reserve(format!("w{round}.{n}"))).collect();
            if round % 2 == 0 {
                until("they wait", || status(&admissions[0]).waiting > 0);
            }
            drop(held);
            drop(asked);
            until("nothing remains", || {
                let info = status(&admissions[0]);
                (info.reserved, info.waiting, info.count) == (0, 0, 0)
            });
        }
        // A waiter without hope is dismissed.
        let held = [0, 1].map(|n| admissions[n].reserve(format!("h{n}")).wait().unwrap());
        let (began, limit) = (Instant::now(), Duration::from_millis(300));
        let late = admissions[0].admit_within("late", "", Limits::wait(limit)).wait();
        match late {
            Err(Refused::TimedOut { waited }) => assert!(waited >= limit),
            Err(Refused::Store(error)) if !world.is_sound() => assert!(error.is_transient()),
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed() >= limit);
        until("none waits", || status(&admissions[0]).waiting == 0);
        drop(held);
    }

    fn who_waits_learns_of_the_close(world) {
        let clients = world.clients(3);
        let admissions = admissions(&clients, "a", 1);
        let held = admissions[0].reserve("ada").wait().unwrap();
        let waits: Vec<_> = (0..6).map(|n| admissions[n % 3].admit(format!("w{n}"), "")).collect();
        until("they wait", || status(&admissions[0]).waiting == 6);
        admissions[1].close().wait().unwrap();
        for asked in waits {
            assert_eq!(asked.wait(), Err(Refused::Closed { limit: 1 }));
        }
        assert_eq!(admissions[2].reserve("bob").wait().unwrap_err(), Refused::Closed { limit: 1 });
        // A reserved place is kept.
        held.confirm("").wait().unwrap();
        assert_eq!(status(&admissions[2]).count, 1);
    }

    /// Reservations that are confirmed, dropped and left to their leases, on all clients at once.
    fn all_places_are_taken_in_the_end(world) {
        let clients = world.clients(3);
        let admissions = admissions(&clients, "a", 10);
        let told = thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|thread| {
                    let admission = &admissions[thread % 3];
                    scope.spawn(move || {
                        let mut told = Vec::new();
                        for n in 0..8 {
                            let name = format!("{thread}.{n}");
                            let answer = match n % 4 {
                                0 => admission.admit(&name, name.clone()).wait(),
                                1 => {
                                    let limits = Limits::NONE.lease(Duration::from_millis(50));
                                    // Left to its lease, so it may be late.
                                    admission.reserve_within(&name, limits).wait().and_then(|held| {
                                        held.confirm(name.clone()).wait()
                                    })
                                }
                                2 => match admission.reserve(&name).wait() {
                                    Ok(held) => Err(Refused::Lost(held.fence())),
                                    Err(refused) => Err(refused),
                                },
                                _ => admission.reserve(&name).wait().and_then(|held| {
                                    held.confirm(name.clone()).wait()
                                }),
                            };
                            match answer {
                                Ok(admitted) => told.push((admitted.place, name)),
                                Err(Refused::Closed { .. } | Refused::Lost(_)) => {}
                                Err(refused) => panic!("{refused:?}"),
                            }
                        }
                        told
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeSet<_>>()
        });
        let rows: BTreeSet<_> =
            rows(&admissions[0]).into_iter().map(|row| (row.place, row.applicant)).collect();
        assert_eq!(rows, told);
        assert!(rows.iter().map(|(place, _)| *place).eq(1..=10), "{rows:?}");
    }

    fn bad_input_is_told(world) {
        let client = world.client(builder());
        assert_eq!(client.admission("a", 0).unwrap_err(), OpenError::NoPlaces);
        let many = client.admission("a", u64::MAX).unwrap_err();
        assert_eq!(many, OpenError::TooMany { limit: u64::MAX });
        assert_eq!(client.admission("", 1).unwrap_err(), OpenError::Name(NameError::Empty));
        let long = "x".repeat(2000);
        let too_long = NameError::TooLong { bytes: 2000 };
        assert_eq!(client.admission(&long, 1).unwrap_err(), OpenError::Name(too_long));
        let admission = client.admission("a {} %\u{7}", 1_000_000_000).unwrap();
        assert_eq!(admission.admit("", "").wait(), Err(Refused::Applicant(NameError::Empty)));
        assert_eq!(admission.reserve(&long).wait().unwrap_err(), Refused::Applicant(too_long));
        let leased = admission.admit_within("ada", "", Limits::NONE.lease(Duration::from_secs(1)));
        assert_eq!(leased.wait(), Err(Refused::HasLease));
        let short = admission.reserve_within("ada", Limits::NONE.lease(Duration::from_millis(9)));
        assert_eq!(short.wait().unwrap_err(), Refused::LeaseTooShort);
        let huge = vec![0; 65_537];
        let too_huge = Err(Refused::RowTooLong { bytes: 65_537 });
        assert_eq!(admission.admit("ada", huge.clone()).wait(), too_huge);
        let held = admission.reserve_within("ada", Limits::wait(Duration::MAX).lease(Duration::MAX));
        let held = held.wait().unwrap();
        assert!(held.remaining() > Duration::from_secs(1 << 30));
        assert_eq!(held.confirm(huge.clone()).wait(), too_huge);
        until("it is given back", || status(&admission).reserved == 0);
        // Any bytes are a row, and any text is an applicant.
        let odd = "o'd {}:q \r\n\u{0} r 1 2 3";
        admission.admit(odd, &huge[1..]).wait().unwrap();
        let row = rows(&admission).remove(0);
        assert_eq!((&*row.applicant, row.row.len()), (odd, 65_536));
        assert_eq!(admission.rows(0, 0).wait().unwrap(), []);
        assert_eq!(admission.rows(u64::MAX, u32::MAX).wait().unwrap(), []);
        let other = world.client(builder()).admission("a {} %\u{7}", 7).unwrap();
        let differs = Refused::OtherLimit { limit: 1_000_000_000 };
        assert_eq!(other.admit("bob", "").wait().unwrap_err(), differs);
        assert_eq!(other.reserve("bob").wait().unwrap_err(), differs);
        assert_eq!(other.status().wait().unwrap_err(), differs);
        assert_eq!(other.close().wait().unwrap_err(), differs);
        assert!(!status(&admission).closed);
    }
}

/// Waiters are dismissed. Reserved places cannot be confirmed.
#[test]
fn a_server_that_is_gone_is_told() {
    let mut server = Server::start();
    let short = || builder().place(Duration::from_millis(200));
    let client = || short().give_up_after(Duration::from_millis(300)).connect(&server.url());
    let admissions = admissions(&[client().unwrap(), client().unwrap()], "a", 1);
    let held = admissions[0].reserve("ada").wait().unwrap();
    let waits = admissions[1].admit("bob", "");
    until("it waits", || status(&admissions[0]).waiting == 1);
    server.kill();
    let told = waits.wait();
    assert!(matches!(told, Err(Refused::Store(_))), "{told:?}");
    let confirmed = held.confirm("").wait();
    assert!(matches!(confirmed, Err(Refused::Store(_))), "{confirmed:?}");
}

/// No new applicant is admitted, but reservations are kept and confirmed.
#[test]
fn memory_is_full() {
    let server = Server::with(&["--save", "", "--maxmemory-policy", "noeviction"]);
    let lease = Duration::from_millis(400);
    let client = builder().lease(lease).give_up_after(5 * lease).connect(&server.url()).unwrap();
    let admission = client.admission("a", 5).unwrap();
    let held = admission.reserve("ada").wait().unwrap();
    server.ask("CONFIG SET maxmemory 1");
    let refused = admission.admit("bob", "").wait();
    match refused {
        Err(Refused::Store(StoreError::Refused { refusal, .. })) => {
            assert_eq!(refusal, Refusal::Full);
        }
        other => panic!("{other:?}"),
    }
    let began = Instant::now();
    until("it was kept", || began.elapsed() > Duration::from_millis(900));
    assert!(!held.is_lost());
    held.confirm("").wait().unwrap();
    assert_eq!(rows(&admission).len(), 1);
}

/// A server that writes each step has every answered row.
#[test]
fn rows_outlive_the_power_failure() {
    let always = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::with(&always);
    let admission = builder().connect(&server.url()).unwrap().admission("a", 3).unwrap();
    let admitted = admission.admit("ada", "1").wait().unwrap();
    let reserved = admission.reserve("bob").wait().unwrap();
    server.kill();
    server.run();
    assert_eq!(admission.admit("ada", "").wait(), Err(Refused::Duplicate { place: 1 }));
    let confirmed = reserved.confirm("2").wait().unwrap();
    let next = admission.admit("cyd", "3").wait().unwrap();
    assert!(admitted.fence < confirmed.fence && confirmed.fence < next.fence);
    let rows: Vec<_> = rows(&admission).into_iter().map(|row| (row.place, row.row)).collect();
    assert_eq!(rows, [(1, b"1".to_vec()), (2, b"2".to_vec()), (3, b"3".to_vec())]);
}

/// A server that keeps nothing has forgotten the applicants; its fences go on.
#[test]
fn fences_increase_after_the_rows_are_lost() {
    let mut server = Server::start();
    let admission = builder().connect(&server.url()).unwrap().admission("a", 3).unwrap();
    let before = admission.admit("ada", "").wait().unwrap();
    server.kill();
    server.run();
    let after = admission.admit("ada", "").wait().unwrap();
    assert!(after.fence > before.fence);
    assert_eq!((after.place, rows(&admission).len()), (1, 1));
}

/// A store in which the first request of bob arrives late, and cancelling takes long.
#[derive(Clone, Debug)]
struct Late {
    store: MemoryStore,
    copy: Arc<Mutex<Option<Op>>>,
}

impl Store for Late {
    fn call<'a>(&'a self, op: &'a Op) -> Called<'a> {
        Box::pin(async move {
            match &op.step {
                Step::Admission(AdmissionStep { act: AdmissionAct::Admit { .. }, .. }) => {
                    let mut copy = self.copy.lock().unwrap();
                    if copy.is_none() {
                        *copy = Some(op.clone());
                        return Err(StoreError::TimedOut { effect: Effect::Unknown });
                    }
                }
                Step::Admission(AdmissionStep { act: AdmissionAct::Cancel { .. }, .. }) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                _ => {}
            }
            self.store.call(op).await
        })
    }

    crate::support::forwards_notices!(store);
}

/// Not even by a copy of its request that arrives when there is a place.
#[test]
fn who_is_refused_is_not_in() {
    let store = MemoryStore::new();
    let late = Late { store: store.clone(), copy: Arc::default() };
    let admission = builder().over(late.clone()).unwrap().admission("a", 1).unwrap();
    let other = builder().over(store.clone()).unwrap().admission("a", 1).unwrap();
    let held = other.reserve("ada").wait().unwrap();
    assert_eq!(
        admission.admit_within("bob", "", Limits::wait(Duration::ZERO)).wait(),
        Err(Refused::Busy)
    );
    held.cancel().wait().unwrap();
    let copy = late.copy.lock().unwrap().take().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(store.call(&copy)), Ok(Answer::Admission(AdmissionAnswer::Gone)));
    assert_eq!(rows(&other), []);
}
