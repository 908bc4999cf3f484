//! One process: it applies for its applicants, with several threads.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;

use turnwise_redis::admission::{Admission, Admitted, Refused};

use crate::Options;
use crate::common;
use crate::failure::Failure;

/// The number of threads that apply.
const CALLERS: usize = 8;

/// A report of an entrant. Processes print one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The entrant waits for the start.
    Ready,
    /// The entrant has reserved a place.
    Reserved,
    /// This applicant is admitted.
    In { place: u64, applicant: String },
    /// The admission was closed for an applicant.
    Closed,
    /// A request has failed.
    Failed(String),
    /// All requests have answers.
    Done,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Ready => f.write_str("ready"),
            Told::Reserved => f.write_str("reserved"),
            Told::In { place, applicant } => write!(f, "in {place} {applicant}"),
            Told::Closed => f.write_str("closed"),
            Told::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
            Told::Done => f.write_str("done"),
        }
    }
}

impl Told {
    pub(crate) fn read(line: &str) -> Option<Told> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "ready" => Told::Ready,
            "reserved" => Told::Reserved,
            "in" => {
                let (place, applicant) = rest.split_once(' ')?;
                Told::In { place: place.parse().ok()?, applicant: applicant.to_owned() }
            }
            "closed" => Told::Closed,
            "failed" => Told::Failed(rest.to_owned()),
            "done" => Told::Done,
            _ => return None,
        })
    }
}

/// Runs a process of the cluster: a line starts it, and it reports by lines.
pub(crate) fn process(options: &Options, raffle: &str, number: u32) -> Result<ExitCode, Failure> {
    let url = options.url.as_deref().unwrap_or_default();
    let remote = match options.builder().connect(url) {
        Ok(remote) => remote,
        Err(error) => return Ok(common::unconnected("raffle-cluster", &error)),
    };
    let admission = remote.admission(raffle, options.seats);
    let admission = admission.map_err(|error| Failure(2, error.to_string()))?;
    let say = |told| {
        // The cluster is gone, so no further applicant may be admitted.
        if writeln!(io::stdout().lock(), "{told}").is_err() {
            std::process::exit(1);
        }
    };
    say(Told::Ready);
    if io::stdin().lock().read_line(&mut String::new())? == 0 {
        return Ok(ExitCode::FAILURE);
    }
    let until_killed = || loop {
        thread::park();
    };
    enter(options, &admission, number, &say, options.doomed.then_some(&until_killed));
    Ok(ExitCode::SUCCESS)
}

/// Applies for all applicants of a number. A doomed process keeps its first reservation until it is
/// killed.
pub(crate) fn enter(
    options: &Options,
    admission: &Admission,
    number: u32,
    say: &(impl Fn(Told) + Sync),
    doomed: Option<&(dyn Fn() + Sync)>,
) {
    let (next, waits) = (AtomicU32::new(0), AtomicBool::new(doomed.is_some()));
    let call = || loop {
        let request = next.fetch_add(1, Relaxed);
        if request >= options.requests {
            return;
        }
        let applicant = format!("{number}.{request}");
        let reserves = request % 2 == 0;
        let answer = match reserves {
            false => admission.admit(&applicant, &*applicant).wait(),
            true => admission.reserve(&applicant).wait().and_then(|reservation| {
                say(Told::Reserved);
                if waits.swap(false, Relaxed)
                    && let Some(until_killed) = doomed
                {
                    until_killed();
                }
                thread::sleep(options.hold);
                reservation.confirm(&*applicant).wait()
            }),
        };
        say(match answer {
            Ok(Admitted { place, .. }) => match asks_again(admission, &applicant, request) {
                None | Some(Err(Refused::Duplicate { .. })) => Told::In { place, applicant },
                other => Told::Failed(format!("{applicant} is in, and asks again: {other:?}")),
            },
            Err(Refused::Closed { .. }) => Told::Closed,
            Err(refused) => Told::Failed(format!("{applicant}: {refused}")),
        });
    };
    thread::scope(|scope| (0..CALLERS).for_each(|_| drop(scope.spawn(call))));
    say(Told::Done);
}

/// Some applicants apply again, which must change nothing.
fn asks_again(
    admission: &Admission,
    applicant: &str,
    request: u32,
) -> Option<Result<Admitted, Refused>> {
    request.is_multiple_of(5).then(|| admission.admit(applicant, "again").wait())
}
