//! A bank: each account is an actor, and transfers between random accounts are made by requests to
//! two of them.
//!
//! Beside it, the same transfers with two `parking_lot::Mutex`es each, locked in a fixed order.
//! Points of interest:
//!
//! - [`actors::transfer`]: withdraws from one account, deposits to the other, and returns the money
//!   if the deposit fails. Some requests panic on purpose, some are withdrawn after a microsecond.
//!   Each way in which a request can end is one arm of a `match`, and none of them is uncertain.
//! - [`mutexes::transfer`]: the same with locks. It promises more: no thread sees money that has
//!   left one account and not reached the other. And it promises less: a thread that comes second
//!   blocks, and panics and time-outs are left to the caller. With many accounts and such short
//!   turns, two locks are faster: this is the load that they are made for.
//! - The output: throughput and the latency of single transfers, medians over interleaved rounds;
//!   then the outcomes of the transfers. The sum over all accounts is checked after every round. If
//!   it is ever wrong, the program reports it and exits with 1.
//!
//! ```text
//! cargo run --release --example bank -- --accounts 1000 --transfers 200000 --threads 2
//! cargo run --release --example bank -- --accounts 2 --threads 8 --transfers 4000000   # all want the same two
//! cargo run --release --example bank -- --help
//! ```

mod actors;
mod mutexes;
mod options;
mod report;

use std::io::{self, Write, stdout};
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use options::Options;
use report::{Round, Variant};

/// The initial balance of every account.
const OPENING: u64 = 1_000;
/// The time that a hasty customer waits.
const HASTE: Duration = Duration::from_micros(1);
/// The message of panics that are part of the exercise.
const ON_PURPOSE: &str = "a bug, on purpose";

#[derive(Debug)]
struct Account {
    balance: u64,
}

impl Account {
    /// Returns false if the balance is too low. Checks first and changes last: a panic leaves
    /// nothing half done.
    fn withdraw(&mut self, amount: u64, panics: bool) -> bool {
        if panics {
            std::panic::panic_any(ON_PURPOSE);
        }
        let left = self.balance.checked_sub(amount);
        self.balance = left.unwrap_or(self.balance);
        left.is_some()
    }

    fn deposit(&mut self, amount: u64, panics: bool) {
        if panics {
            std::panic::panic_any(ON_PURPOSE);
        }
        self.balance += amount;
    }
}

/// One random transfer.
#[derive(Clone, Copy, Debug)]
struct Order {
    from: usize,
    to: usize,
    amount: u64,
    hasty: bool,
    withdraw_panics: bool,
    deposit_panics: bool,
}

/// The outcome of a transfer. Only the first one has moved money.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Done,
    TooPoor,
    Cancelled,
    Panicked,
}

/// A bank that takes transfers from several threads.
trait Bank: Sync {
    fn transfer(&self, order: Order) -> Outcome;
    fn sum(&self) -> u64;
}

/// Xorshift: with the same seed, both banks get the same orders.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn order(&mut self, accounts: usize) -> Order {
        let from = self.throw(accounts as u64) as usize;
        let to = (from + 1 + self.throw(accounts as u64 - 1) as usize) % accounts;
        let fault = self.throw(8_192);
        Order {
            from,
            to,
            amount: 1 + self.throw(200),
            hasty: self.throw(16) == 0,
            withdraw_panics: fault == 0,
            deposit_panics: fault == 1,
        }
    }
}

/// The interval of timed transfers: reading the clock costs as much as a transfer.
const TIMED: usize = 8;

/// Runs one round of transfers on one bank, by several threads at once.
fn round(bank: &dyn Bank, options: &Options, number: u64) -> Round {
    let start = Barrier::new(options.threads);
    let parts: Vec<_> = thread::scope(|scope| {
        let clerks: Vec<_> = (0..options.threads)
            .map(|clerk| {
                let start = &start;
                scope.spawn(move || {
                    let mut dice = Dice(
                        (number * 1_000 + clerk as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
                    );
                    let share = options.transfers / options.threads
                        + usize::from(clerk < options.transfers % options.threads);
                    let mut outcomes = [0; 4];
                    let mut latencies = Vec::with_capacity(share / TIMED + 1);
                    start.wait();
                    let begun = Instant::now();
                    for n in 0..share {
                        let order = dice.order(options.accounts);
                        let outcome = if n % TIMED == 0 {
                            let asked = Instant::now();
                            let outcome = bank.transfer(order);
                            latencies.push(asked.elapsed().as_nanos() as u64);
                            outcome
                        } else {
                            bank.transfer(order)
                        };
                        outcomes[outcome as usize] += 1;
                    }
                    (begun, Instant::now(), outcomes, latencies)
                })
            })
            .collect();
        clerks.into_iter().map(|clerk| clerk.join().expect("a clerk does not panic")).collect()
    });
    let mut round = Round { sum: bank.sum(), ..Round::default() };
    let begun = parts.iter().map(|part| part.0).min();
    let ended = parts.iter().map(|part| part.1).max();
    round.took = begun.zip(ended).map_or(Duration::ZERO, |(begun, ended)| ended - begun);
    for (_, _, outcomes, latencies) in parts {
        round.outcomes.iter_mut().zip(outcomes).for_each(|(all, one)| *all += one);
        round.latencies.extend(latencies);
    }
    round
}

fn main() -> ExitCode {
    let options = match options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            return print(options::USAGE, true);
        }
        Err(error) => {
            eprintln!("bank: {error}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    // The panics of the exercise are counted, not printed.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&ON_PURPOSE) {
            usual(info);
        }
    }));

    let banks: [(&str, Box<dyn Bank>); 2] = [
        ("turnwise", Box::new(actors::open(options.accounts))),
        ("2 mutexes", Box::new(mutexes::open(options.accounts))),
    ];
    let mut variants = banks.each_ref().map(|(name, _)| Variant::new(name));
    let begun = Instant::now();
    let mut done = 0;
    loop {
        for (variant, (_, bank)) in variants.iter_mut().zip(&banks) {
            variant.add(round(bank.as_ref(), &options, done));
        }
        done += 1;
        let over = options.seconds.map_or(done >= options.rounds, |limit| begun.elapsed() >= limit);
        if over {
            break;
        }
    }
    let (text, right) = report::report(&variants, &options, done);
    print(text.trim_end(), right)
}

/// Prints the text. Returns success only if it was written, and the result is right.
fn print(text: &str, right: bool) -> ExitCode {
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("bank: {error}");
            ExitCode::FAILURE
        }
        _ if right => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
