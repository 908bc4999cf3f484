//! The runner of models: schedules drawn at random, and with the priorities of PCT (Burckhardt,
//! Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with Probabilistic Guarantees of Finding
//! Bugs, 2010), from seeds that are the same each time.

use std::io::Write as _;
use std::process::{Command, Stdio};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::sync;

/// A planted bug is shown by a process of its own, which may end in any way.
const PLANT: &str = "SHAPES_PLANT";
/// The factor of the number of schedules.
const TIMES: &str = "SHAPES_TIMES";
/// One other seed.
const SEED: &str = "SHAPES_SEED";

const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// The depth of a bug that PCT promises to find: steps of different threads, in one order.
const DEPTHS: [usize; 2] = [3, 6];

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number(name: &str) -> Option<u64> {
    variable(name).map(|text| match text.parse() {
        Ok(number) if number < 1_000_000_000_000 => number,
        _ => refuse(&format!("{name}: `{text}` is no number below 1000000000000")),
    })
}

fn refuse(why: &str) -> ! {
    // Past the harness, which keeps what is printed for those that fail.
    let _ = writeln!(std::io::stderr(), "{why}");
    std::process::exit(2)
}

/// Says how a failure is shown again.
struct Again<'a>(&'a str);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Again(model) = self;
            println!("\nThe model by itself fails in the same schedule again, each time:");
            println!("cargo test -p shuttle-tests --release -- \\");
            println!("    --exact models::{model} --nocapture");
        }
    }
}

/// Runs a model in this number of schedules of each kind, in equal parts from each seed.
pub(crate) fn check(name: &str, schedules: usize, model: fn()) {
    if let Some(bug) = variable(PLANT) {
        if !super::BUGS.contains(&&*bug) {
            refuse(&format!("{PLANT}: there is no planted bug `{bug}`"));
        }
        sync::plant(&bug);
    }
    let times = number(TIMES).map_or(1, |times| times.max(1) as usize);
    let seeds = number(SEED).map_or(SEEDS.to_vec(), |seed| vec![seed]);
    let part = schedules.saturating_mul(times) / SEEDS.len();
    for seed in seeds {
        let _again = Again(name);
        let begin = |kind| println!("{name}: {part} schedules, {kind}, {SEED}={seed}");
        begin("at random");
        run(RandomScheduler::new_from_seed(seed, part), model);
        begin("by priority");
        for depth in DEPTHS {
            run(PctScheduler::new_from_seed(seed, depth, part / DEPTHS.len()), model);
        }
    }
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = Config::new();
    // The text of a schedule is not all of it: what ran before in the process decides, too.
    config.failure_persistence = FailurePersistence::None;
    config.stack_size = 0x8_0000;
    config.max_steps = MaxSteps::FailAfter(200_000);
    // The header of `sync` says it.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || sync::schedule(model));
    sync::settle();
}

/// True if that model finds that planted bug.
pub(crate) fn finds(model: &str, bug: &str) -> bool {
    let out = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", &format!("models::{model}"), "--nocapture", "--test-threads", "1"])
        .env(PLANT, bug)
        .stderr(Stdio::null())
        .output()
        .expect("it can be run again");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("running 1 test"), "there is no model `{model}`: {said}");
    !out.status.success()
}
