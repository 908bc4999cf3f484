//! The parent: children that run programs, their reports, and the minimization of a failing
//! program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::case::{Case, Genome};
use crate::{Args, ledger};

/// The number of programs that run in one process.
const BATCH: u64 = 500;
/// The processor time, or time, after which a program hangs.
const MOST_CPU: Duration = Duration::from_secs(40);
const MOST_TIME: Duration = Duration::from_secs(240);

/// The report of a child.
#[derive(Default)]
struct Ran {
    /// The number of programs that ended, well or not.
    programs: u64,
    /// The number of calls of the crate in them.
    operations: u64,
    /// The last program that it began.
    last: Option<Genome>,
    /// Findings: the program and a kind, each with a detail.
    found: BTreeMap<(Genome, String), String>,
    /// Programs that did something new, and what that was.
    new: Vec<String>,
    /// Objects created after the end of a program by what it had forgotten.
    late: BTreeMap<String, u64>,
}

impl Ran {
    fn find(&mut self, kind: &str, detail: String) {
        let last = self.last.clone().unwrap_or(Genome::from(0));
        self.found.entry((last, kind.into())).or_insert(detail);
    }
}

/// Runs a child until it ends, has begun nothing new for too long, or the time is over.
fn run_child(args: &Args, more: &[String], until: Instant) -> Ran {
    let this = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(this)
        .args([
            "--child",
            "--stack",
            &args.stack.to_string(),
            "--patience",
            &args.patience.to_string(),
        ])
        .args(["--only", &args.only])
        .args(args.spin.then_some("--spin"))
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process can be had");
    let (says, said) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| says.send(line)));
    let mut errors = child.stderr.take().expect("it is piped");
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut ran = Ran::default();
    let (mut running, mut since, mut cpu) = (false, Instant::now(), Duration::ZERO);
    loop {
        match said.recv_timeout(Duration::from_millis(250)) {
            Ok(line) => match line.split_once(' ') {
                Some(("begin", genome)) => {
                    ran.last = genome.parse().ok();
                    (running, since, cpu) = (true, Instant::now(), processor_time(&child));
                }
                Some(("end", operations)) => {
                    running = false;
                    ran.programs += 1;
                    ran.operations += operations.parse().unwrap_or(0);
                }
                Some(("new", what)) => ran.new.push(what.into()),
                Some(("late", kind)) => *ran.late.entry(kind.into()).or_default() += 1,
                Some(("finding", what)) => {
                    let (kind, detail) = what.split_once('|').unwrap_or((what, ""));
                    ran.find(kind, detail.into());
                }
                _ => {}
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let hangs = running
                    && (since.elapsed() > MOST_TIME || processor_time(&child) - cpu > MOST_CPU);
                if hangs {
                    ran.find("hang", format!("after {:?}", since.elapsed()));
                }
                if hangs || Instant::now() > until {
                    running = false;
                    let _ = child.kill();
                    break;
                }
            }
        }
        if Instant::now() > until && !running {
            let _ = child.kill();
            break;
        }
    }
    let status = child.wait();
    let errors = errors.join().unwrap_or_default();
    if running {
        // It ended in the middle of a program.
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        ran.programs += 1;
        let (kind, detail) = report(&errors).unwrap_or((status, last_lines(&errors)));
        ran.find(&format!("crash: {kind}"), detail);
    } else if let Some((kind, detail)) = report(&errors) {
        ran.find(&kind, detail);
    }
    ran
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" / ")
}

/// Returns a sanitizer's error, and the beginning of its report.
fn report(errors: &str) -> Option<(String, String)> {
    let (_, report) = errors.split_once("ERROR: ").or_else(|| errors.split_once("WARNING: "))?;
    let kind = report.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    kind.contains("Sanitizer").then(|| (kind, report.chars().take(4000).collect()))
}

/// Returns the processor time of a process, from the kernel's table (in ticks of a hundredth of a
/// second).
fn processor_time(child: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// The content of a folder, kept from one run to the next: programs that did something new, the
/// position of the seeds, and the amount of work.
#[derive(Default)]
pub struct Corpus {
    genomes: Vec<Genome>,
    /// Half of the programs are new; the other half are kept ones with one part changed.
    is_kept: bool,
}

impl Corpus {
    /// Reads the folder. The features of kept programs count as seen.
    pub fn read(args: &Args) -> Self {
        let Some(state) = &args.state else { return Corpus::default() };
        let text = fs::read_to_string(state.join("corpus")).unwrap_or_default();
        let mut corpus = Corpus { genomes: Vec::new(), is_kept: true };
        for (genome, new) in text.lines().filter_map(|line| line.split_once(' ')) {
            corpus.genomes.extend(genome.parse());
            new.split(',').filter_map(|at| at.parse().ok()).for_each(ledger::is_known);
        }
        corpus
    }

    pub fn add(&mut self, genome: Genome) {
        self.genomes.extend(self.is_kept.then_some(genome));
    }

    /// Returns the program of that number.
    pub fn next(&self, seed: u64) -> Genome {
        let mut rng = fastrand::Rng::with_seed(seed);
        match self.genomes.len() {
            0 => seed.into(),
            _ if rng.bool() => seed.into(),
            all => self.genomes[rng.usize(..all)].mutated(&mut rng),
        }
    }
}

/// Returns the figures of all runs with this folder, by name.
fn figures(args: &Args) -> BTreeMap<String, u64> {
    let text = args.state.as_ref().map(|state| fs::read_to_string(state.join("figures")));
    let text = text.and_then(Result::ok).unwrap_or_default();
    let figures = text.lines().filter_map(|line| line.split_once(' '));
    figures.filter_map(|(name, figure)| Some((name.into(), figure.parse().ok()?))).collect()
}

/// Appends to a file of the folder.
fn note(args: &Args, name: &str, text: &str) {
    let Some(state) = &args.state else { return };
    let file = OpenOptions::new().append(true).create(true).open(state.join(name));
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("hostile: {name} cannot be written: {error}");
    }
}

/// Looks for programs that fail. Returns true if there is none.
pub fn hunt(args: &Args) -> bool {
    if let Some(state) = &args.state {
        if let Err(error) = fs::create_dir_all(state) {
            eprintln!("hostile: {}: {error}", state.display());
            return false;
        }
    }
    let clock = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.as_micros() as u64);
    let before = figures(args);
    let kept = |name: &str| before.get(name).copied();
    let first = args.seed.or(kept("next")).unwrap_or(clock);
    let hours = args.hours.map(|hours| (hours * 3600.0) as u64);
    let bounded = if args.programs.is_some() { 1 << 30 } else { 10 };
    let seconds = args.seconds.or(hours).unwrap_or(bounded);
    let start = Instant::now();
    let until = start + Duration::from_secs(seconds);
    let most = args.programs.unwrap_or(u64::MAX);
    let next = AtomicU64::new(0);
    let [ran_in_all, operations, failed] = [const { AtomicU64::new(0) }; 3];
    let late = Mutex::new(BTreeMap::<String, u64>::new());
    let known = Mutex::new(BTreeMap::<(String, &'static str), u64>::new());
    let told = || {
        let Some(state) = &args.state else { return };
        let figures = [
            ("next", first.wrapping_add(next.load(SeqCst))),
            ("programs", kept("programs").unwrap_or(0) + ran_in_all.load(SeqCst)),
            ("operations", kept("operations").unwrap_or(0) + operations.load(SeqCst)),
            ("failed", kept("failed").unwrap_or(0) + failed.load(SeqCst)),
        ];
        let text = figures.map(|(name, figure)| format!("{name} {figure}\n")).concat();
        let _ = fs::write(state.join("figures"), text);
    };
    println!("hostile: from seed {first} on");
    let worker = || {
        loop {
            let mut at = next.fetch_add(BATCH, SeqCst);
            let end = (at.saturating_add(BATCH)).min(most);
            while at < end {
                if Instant::now() > until {
                    return;
                }
                let mut more = vec![
                    "--seed".into(),
                    first.wrapping_add(at).to_string(),
                    "--programs".into(),
                    (end - at).to_string(),
                ];
                if let Some(state) = &args.state {
                    more.extend(["--state".into(), state.display().to_string()]);
                }
                let ran = run_child(args, &more, until);
                ran_in_all.fetch_add(ran.programs, SeqCst);
                operations.fetch_add(ran.operations, SeqCst);
                ran.new.iter().for_each(|new| note(args, "corpus", &format!("{new}\n")));
                told();
                for (kind, times) in &ran.late {
                    *late.lock().unwrap().entry(kind.clone()).or_default() += times;
                }
                if ran.found.is_empty() {
                    at = end;
                    continue;
                }
                let programs: BTreeSet<_> = ran.found.keys().map(|(genome, _)| genome).collect();
                failed.fetch_add(programs.len() as u64, SeqCst);
                at += ran.programs.max(1);
                for ((genome, kind), detail) in ran.found {
                    let kind_here = (kind.clone(), Case::of(args, &genome).profile());
                    let times = {
                        let mut known = known.lock().unwrap();
                        let times = known.entry(kind_here).or_default();
                        *times += 1;
                        *times
                    };
                    if times == 1 {
                        let small = smaller(args, &genome, &kind, &detail);
                        let small = format!("[{} s] {small}\n", start.elapsed().as_secs());
                        print!("{small}");
                        note(args, "failures", &small);
                    }
                }
            }
            if end == most {
                return;
            }
        }
    };
    thread::scope(|scope| (0..args.threads).for_each(|_| drop(scope.spawn(worker))));
    told();
    for ((kind, profile), times) in known.lock().unwrap().iter() {
        println!("{times:6} programs of profile {profile}: {kind}");
    }
    let late = late.into_inner().unwrap();
    if !late.is_empty() {
        println!("made after the end of programs, by what they had forgotten: {late:?}");
    }
    let (ran, failed) = (ran_in_all.load(SeqCst), failed.load(SeqCst));
    let (operations, seconds) = (operations.load(SeqCst), start.elapsed().as_secs());
    println!(
        "hostile: {ran} programs of {operations} operations run in {seconds} s, {failed} failed"
    );
    failed == 0 && ran > 0
}

/// Runs one program many times, and prints it. Returns true if it never fails.
pub fn replay(args: &Args, genome: &Genome) -> bool {
    print!("{}", Case::of(args, genome));
    let limit = Duration::from_secs(args.seconds.unwrap_or(600));
    let ran = again(args, genome, args.times, limit);
    ran.found.iter().for_each(|((_, kind), detail)| println!("FOUND {kind}: {detail}"));
    println!("hostile: run {} times", ran.programs);
    ran.found.is_empty()
}

/// Runs one program until it fails, a number of times at most.
fn again(args: &Args, genome: &Genome, times: u64, limit: Duration) -> Ran {
    let mut more = vec!["--replay".into(), genome.to_string(), "--times".into(), times.to_string()];
    more.extend(args.keep.iter().flat_map(|kept| ["--keep".into(), list(kept)]));
    run_child(args, &more, Instant::now() + limit)
}

pub fn list(steps: &[u32]) -> String {
    steps.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Removes steps for as long as the program fails in the same way, and reports it.
fn smaller(args: &Args, genome: &Genome, kind: &str, detail: &str) -> String {
    let until = Instant::now() + Duration::from_secs(args.shrink);
    let with =
        |kept: Vec<u32>| Args { keep: Some(kept), patience: args.patience.min(2), ..args.clone() };
    // Returns the number of runs after which it fails.
    let fails = |kept: &[u32], times: u64| {
        let left = until.saturating_duration_since(Instant::now()).min(Duration::from_secs(5));
        let ran = again(&with(kept.to_vec()), genome, times, left);
        ran.found.contains_key(&(genome.clone(), kind.to_string())).then_some(ran.programs)
    };
    let mut kept = Case::of(args, genome).steps();
    let first = fails(&kept, 1000);
    // As many runs as it took, and some more.
    let times = first.map_or(0, |runs| (runs * 5).max(20));
    let mut chunk = kept.len().div_ceil(2);
    let mut at = 0;
    while times > 0 && chunk > 0 && Instant::now() < until {
        if at >= kept.len() {
            (at, chunk) = (0, if chunk == 1 { 0 } else { chunk.div_ceil(2) });
            continue;
        }
        let mut fewer = kept.clone();
        fewer.drain(at..(at + chunk).min(kept.len()));
        // Steps inside a step are removed with it.
        fewer = Case::of(&with(fewer), genome).steps();
        if fails(&fewer, times).is_some() { kept = fewer } else { at += chunk }
    }
    let mut only = String::from(if args.spin { " --spin" } else { "" });
    if !args.only.is_empty() {
        only += &format!(" --only {}", args.only);
    }
    let Some(runs) = first else {
        return format!(
            "FOUND {kind}: {detail}\n  --replay {genome}{only}\n  has not failed again by itself\n"
        );
    };
    let command = format!("--replay {genome}{only} --keep {}", list(&kept));
    let often = format!("has failed again, the first time after {runs} runs");
    format!("FOUND {kind}: {detail}\n  {command}\n  {often}\n{}", Case::of(&with(kept), genome))
}
