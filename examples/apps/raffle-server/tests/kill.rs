//! kill -9 at random moments, under load: the file is right each time, and the next start goes on.
//!
//! There are 8 kills in each run of the tests; `KILLS=50` sets more. After each of them:
//!
//! - rows and count agree, places have no gap, and there are no more than seats;
//! - every applicant with the answer "in" has a row with that place, and every one with the answer
//!   "duplicate" has a row;
//! - if any answer was "closed", all seats are taken;
//! - a server on the same file starts with that count, and admits none of them twice.
//!
//! The system stays up, so writes that are not yet synced are not lost: that a commit survives a
//! power failure is SQLite's promise, with `synchronous=FULL`.

mod common;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Client, Folder, MODES, Server, rows, until};

/// The answers before a kill.
#[derive(Default)]
struct Told {
    admitted: HashMap<String, u64>,
    duplicates: HashMap<String, u64>,
    closed: u64,
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % below
}

/// Applies until the server is gone.
fn client(server: &Server, told: &Mutex<Told>, names: &AtomicU64) {
    let Ok(mut connection) = Client::new(server.address) else { return };
    loop {
        // Every tenth name repeats the one before it, which another client may have sent.
        let number = names.fetch_add(1, Relaxed);
        let who = format!("entrant {}", number - number % 10 / 9);
        let Ok(answer) = connection.ask("POST", "/applications", who.as_bytes()) else { return };
        let mut told = told.lock().unwrap();
        match answer.status {
            201 => {
                let before = told.admitted.insert(who.clone(), answer.place());
                assert_eq!(before, None, "{who} is in twice");
            }
            409 => drop(told.duplicates.insert(who, answer.place())),
            410 => told.closed += 1,
            503 | 504 => {}
            status => panic!("{who}: {status} {answer:?}"),
        }
    }
}

fn kills(mode: &str, kills: u64) {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    println!("{mode}: {kills} kills, seed {seed}");
    let mut state = seed;
    let mut file = None;
    let names = AtomicU64::new(0);
    for kill in 1..=kills {
        // Few seats for kills around the closing, many for kills far from it.
        let (folder, seats, mut known) = file.take().unwrap_or_else(|| {
            let seats = [200, 2_000, 1_000_000][random(&mut state, 3) as usize];
            (Folder::new(), seats, HashMap::new())
        });
        let limit = seats.to_string();
        let server = Server::start(&folder.db(), &["--seats", &limit, "--mode", mode]);
        let count = known.len();
        assert!(server.said.contains(&format!("{count} of {seats} places")), "{}", server.said);
        // Entrants stay admitted, and are not admitted twice.
        for (who, place) in known.iter().take(3) {
            let answer = server.post(who);
            assert!(answer.status == 410 && count as u64 == seats || answer.status == 409);
            assert!(answer.status == 410 || answer.place() == *place, "{answer:?}");
        }
        let told = Mutex::new(Told::default());
        let delay = Duration::from_micros(random(&mut state, 150_000));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| client(&server, &told, &names));
            }
            until("one is answered", || {
                let told = told.lock().unwrap();
                !told.admitted.is_empty() || told.closed > 0
            });
            // No order depends on this: it is the time of the kill.
            thread::sleep(delay);
            // The clients borrow it.
            server.signal("-KILL");
        });
        server.kill();
        let rows = rows(&folder.db());
        let told = told.into_inner().unwrap();
        assert!(rows.len() as u64 <= seats, "{} rows, {seats} seats", rows.len());
        for (who, place) in known.iter().chain(&told.admitted).chain(&told.duplicates) {
            assert_eq!(rows.get(who), Some(place), "{who} has that answer");
        }
        assert!(told.closed == 0 || rows.len() as u64 == seats, "closed at {}", rows.len());
        println!(
            "kill {kill:>2}, {:>5.1} ms after the first answer: {} rows = count <= {seats}; \
             {} told in, {} duplicate, {} closed",
            delay.as_secs_f64() * 1e3,
            rows.len(),
            told.admitted.len(),
            told.duplicates.len(),
            told.closed
        );
        known = rows;
        // A file lives through about three kills, a full one through two.
        let full = known.len() as u64 == seats;
        if random(&mut state, if full { 2 } else { 3 }) > 0 {
            file = Some((folder, seats, known));
        }
    }
}

fn number_of_kills() -> u64 {
    std::env::var("KILLS").map_or(8, |kills| kills.parse().expect("KILLS is a number"))
}

#[test]
fn killed_under_load_nothing_told_is_lost() {
    kills("turnwise", number_of_kills());
}

#[test]
fn the_other_modes_lose_nothing_either() {
    for mode in &MODES[1..] {
        kills(mode, number_of_kills().div_ceil(4));
    }
}
