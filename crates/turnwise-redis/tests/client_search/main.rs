//! Runs clients with all that they have, from seeds: machines that die or pause at any step of
//! their protocol, clocks that step, and a network that loses, doubles and delays.
//!
//! Nothing here is a model. Each client is the one that is published, with its own timers and
//! tasks, over a store in memory; only its thread is replaced, by a runtime whose time is paused.
//! So a seed is one run, step by step, and minutes pass in milliseconds.
//!
//! `SEEDS=100000 cargo test --release --test client_search` tries that many. `SEED=7` runs one, and
//! prints what happened.

#![allow(unreachable_pub, reason = "modules of one test")]

#[path = "../support/mod.rs"]
mod support;

mod books;
mod hosts;
mod mailboxes;
mod net;
mod recovery;
mod repeats;
mod users;

use std::env;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use net::{Net, Planted, Rule, Sim, Wrong};
use tokio::task::JoinSet;
use tokio::time::sleep;
use users::{Host, LONG, PLACES, RAFFLES, builder};

/// The result of a run.
struct Run {
    wrong: Option<Wrong>,
    trace: Vec<String>,
    steps: u64,
    clients: u64,
    sim: Weak<Sim>,
}

/// Runs a seed.
fn run(seed: u64, planted: Option<Planted>, traced: bool) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let sim = Sim::new(seed, planted, traced);
        mailboxes::runs(&sim);
        let clients = Arc::new(AtomicU64::new(0));
        tokio::select! {
            biased;
            () = sim.broken.notified() => {}
            () = all(&sim, &clients) => {}
        }
        let trace = sim.trace();
        let (steps, clients) = (sim.steps.load(Relaxed), clients.load(Relaxed));
        Run { wrong: sim.wrong(), trace, steps, clients, sim: Arc::downgrade(&sim) }
    })
}

/// Machines whose clients die and come again, for a while; and what is left then.
async fn all(sim: &Arc<Sim>, clients: &Arc<AtomicU64>) {
    // Each run has some of the users.
    let users = 1 + sim.roll(63);
    let machines = 2 + sim.roll(2);
    let mut hosts = JoinSet::new();
    for number in 0..machines {
        hosts.spawn(machine(sim.clone(), number, users, clients.clone()));
    }
    sleep(Duration::from_millis(300 + sim.roll(500))).await;
    sim.calms_down();
    sim.note(|| "calm".to_owned());
    let ends = async { while hosts.join_next().await.is_some() {} };
    sim.within("a machine", LONG * 2, ends).await;
    // What is late arrives.
    sleep(Duration::from_secs(2)).await;
    let net = Net::new(sim, "last");
    let remote = builder(&net).over(net.clone()).unwrap();
    let last = Host { sim: sim.clone(), net, remote };
    last.closes_actors().await;
    for name in RAFFLES {
        let raffle = last.remote.admission(name, PLACES).unwrap();
        let rows = raffle.rows(0, 100).await.unwrap();
        sim.books().close_admission(sim, name, &rows, PLACES);
    }
    for name in ["a", "b"] {
        let guard = last.remote.locks().lock(name);
        drop(sim.within("the last lock", LONG, guard).await.unwrap());
    }
}

/// Runs clients one after the other, each until it dies.
async fn machine(sim: Arc<Sim>, number: u64, users: u64, clients: Arc<AtomicU64>) {
    for client in 0.. {
        clients.fetch_add(1, Relaxed);
        let id = format!("c{number}.{client}");
        let net = Net::new(&sim, &id);
        let remote = builder(&net).over(net.clone()).unwrap();
        let host = Host { sim: sim.clone(), net: net.clone(), remote };
        let mut all = JoinSet::new();
        let mut runs = |mask: u64, user: Pin<Box<dyn Future<Output = ()> + Send>>| {
            if users & mask != 0 {
                all.spawn(net.clone().runs(user));
            }
        };
        runs(1, Box::pin(host.clone().locks()));
        runs(1, Box::pin(host.clone().owners()));
        runs(2, Box::pin(host.clone().slots()));
        runs(2, Box::pin(host.clone().slots()));
        runs(4, Box::pin(host.clone().jobs()));
        runs(8, Box::pin(host.clone().applicants(0)));
        runs(8, Box::pin(host.clone().applicants(1)));
        runs(16, Box::pin(host.clone().sender(0)));
        runs(16, Box::pin(host.clone().sender(1)));
        runs(32, Box::pin(host.clone().ticks()));
        drop(host);
        let end = async {
            while let Some(ended) = all.join_next().await {
                if let Err(error) = ended {
                    sim.breaks(Rule::Answered, || format!("a user of {id} has panicked: {error}"));
                }
            }
        };
        tokio::select! {
            biased;
            () = net.death() => {}
            () = end => return,
        }
        all.shutdown().await;
        if sim.is_calm() {
            return;
        }
        sleep(sim.millis(150)).await;
    }
}

/// Seeds that are tried in some seconds, or as many as the variable says.
fn seeds() -> u64 {
    let asked = env::var("SEEDS").ok().map(|seeds| seeds.parse().expect("SEEDS is a number"));
    asked.unwrap_or(if cfg!(debug_assertions) { 300 } else { 1_500 })
}

#[test]
fn rules_hold_for_each_seed() {
    if let Ok(seed) = env::var("SEED") {
        let run = run(seed.parse().expect("SEED is a number"), None, true);
        run.trace.iter().for_each(|line| println!("{line}"));
        assert!(run.wrong.is_none(), "{:?}", run.wrong);
        return;
    }
    let (all, next) = (seeds(), AtomicU64::new(0));
    let (steps, clients) = (AtomicU64::new(0), AtomicU64::new(0));
    let threads = thread::available_parallelism().map_or(1, |count| count.get());
    let wrong = thread::scope(|scope| {
        let tries = || {
            loop {
                let seed = next.fetch_add(1, Relaxed);
                if seed >= all {
                    return None;
                }
                let run = run(seed, None, false);
                steps.fetch_add(run.steps, Relaxed);
                clients.fetch_add(run.clients, Relaxed);
                if let Some(wrong) = run.wrong {
                    next.store(all, Relaxed);
                    return Some((seed, wrong));
                }
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(tries)).collect();
        threads.into_iter().find_map(|thread| thread.join().unwrap())
    });
    if let Some((seed, wrong)) = wrong {
        panic!("SEED={seed}: {wrong:?}");
    }
    println!("{all} seeds: {} clients, {} steps", clients.into_inner(), steps.into_inner());
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..40 {
        let [here, there] = [(); 2].map(|()| thread::spawn(move || run(seed, None, true)));
        let (here, there) = (here.join().unwrap(), there.join().unwrap());
        let differs = here.trace.iter().zip(&there.trace).find(|(here, there)| here != there);
        assert_eq!(differs, None, "{seed}");
        assert_eq!(here.trace.len(), there.trace.len(), "{seed}");
    }
}

#[test]
fn nothing_is_left_of_a_run() {
    for seed in 0..40 {
        let Run { sim, .. } = run(seed, None, false);
        assert_eq!(sim.strong_count(), 0, "{seed}");
    }
}

/// Finds a planted fault by a rule.
fn is_found(planted: Planted, rule: Rule) {
    let broken = |seed| run(seed, Some(planted), false).wrong.filter(|wrong| wrong.rule == rule);
    let found = (0..2000).find_map(|seed| Some((seed, broken(seed)?)));
    let (seed, wrong) = found.unwrap_or_else(|| panic!("{planted:?} does not break {rule:?}"));
    println!("{planted:?} is found by seed {seed}: {wrong:?}");
}

#[test]
fn planted_faults_are_found() {
    is_found(Planted::HolderNotCompared, Rule::OneHolder);
    is_found(Planted::OldFence, Rule::FencesRise);
    is_found(Planted::PlaceNotCompared, Rule::OneHolder);
    is_found(Planted::LimitNotCompared, Rule::NotOversold);
    is_found(Planted::IdNotCompared, Rule::Once);
    is_found(Planted::DrainerNotCompared, Rule::Once);
    is_found(Planted::PushLost, Rule::Once);
    is_found(Planted::PushLate, Rule::InOrder);
    is_found(Planted::Reversed, Rule::OwnReply);
    is_found(Planted::WithdrawnWhileRunning, Rule::Once);
    is_found(Planted::HandedAgain, Rule::BegunOnce);
    is_found(Planted::DeadLetterLost, Rule::AllCounted);
    is_found(Planted::HandedOnForGood, Rule::HandedOn);
    is_found(Planted::HandedOnUnstored, Rule::Once);
    is_found(Planted::LeasesStay, Rule::Answered);
    is_found(Planted::FenceByClock, Rule::FencesRise);
    is_found(Planted::TickByClock, Rule::OncePerTick);
    is_found(Planted::TickByClient, Rule::TickOfItsTime);
    is_found(Planted::LeaseNotCompared, Rule::OneHolder);
    is_found(Planted::LeaseByWallClock, Rule::OneHolder);
}
