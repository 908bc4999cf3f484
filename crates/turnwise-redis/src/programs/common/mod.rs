//! Code shared by the programs: durations as people write them, and running a command.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp, getppid};
use turnwise_redis::{ConnectError, Guard, LockError, Remote, RemoteBuilder, StoreError};

/// Exit codes of shells: the command cannot be run, or is not found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Of `sysexits`: the service is unavailable; the system has failed; try again later.
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const SOFTWARE: u8 = 70;
pub(crate) const TRY_AGAIN: u8 = 75;

/// Parses a program's options. The error is the exit code after its help, or after a line on the
/// mistake.
pub(crate) fn options<O: Parser>() -> Result<O, ExitCode> {
    O::try_parse().map_err(|told| {
        let program = O::command().get_name().to_owned();
        if told.kind() == ErrorKind::DisplayHelp {
            return written(&program, told.print().and_then(|()| io::stdout().flush()));
        }
        let text = told.to_string();
        let line = text.lines().next().unwrap_or_default();
        eprintln!("{program}: {}", line.trim_start_matches("error: "));
        ExitCode::from(2)
    })
}

/// Returns the exit code of a program that has printed its output.
pub(crate) fn written(program: &str, printed: io::Result<()>) -> ExitCode {
    match printed {
        // The reader of the output has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// `500ms`, `5s`, `1m30s`, `2h`, `1d`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: 500ms, 5s, 1m30s, 2h, 1d");
    let (mut rest, mut sum) = (text, Duration::ZERO);
    if rest == "0" {
        return Ok(sum);
    }
    while !rest.is_empty() || sum.is_zero() && text.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
        let part = number.checked_mul(unit).map(Duration::from_millis).ok_or_else(wrong)?;
        sum = sum.checked_add(part).ok_or_else(wrong)?;
    }
    Ok(sum)
}

/// Connects to a server, or creates a store in this process.
pub(crate) fn client(
    builder: RemoteBuilder,
    memory: bool,
    url: &str,
) -> Result<Remote, ConnectError> {
    match memory {
        true => builder.over(turnwise_redis::MemoryStore::new()),
        false => builder.connect(url),
    }
}

/// Set when the program is asked to end.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Set while it holds its lock, which it releases before it ends.
static HOLDS: AtomicBool = AtomicBool::new(false);
/// The time limit for a lock that was granted while the program was asked to end.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// The exit code of a program that was asked to end while it waits: 128 more than SIGINT.
const INTERRUPTED: i32 = 130;

/// Ends the program when it is asked to, unless it holds its lock: then the command is asked to
/// end. Must be called before the lock is requested, so that a granted lock is released.
pub(crate) fn end_when_asked() {
    let _ = ctrlc::set_handler(|| {
        ASKED.store(true, Relaxed);
        if !HOLDS.load(Relaxed) {
            thread::sleep(ON_ITS_WAY);
        }
        if !HOLDS.load(Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    });
}

/// The variable with the orders of a supervisor: the program that has started it, and the grace.
const SUPERVISED: &str = "TURNWISE_SUPERVISED";

/// Runs the command, if this process is a supervisor: a process between a program and its command,
/// in a process group with the command. It ends the group if the program is gone, also if it was
/// killed.
pub(crate) fn supervised(program: &str) -> Option<ExitCode> {
    let orders = std::env::var(SUPERVISED).ok()?;
    let (parent, grace) = orders.split_once(' ')?;
    let parent = Pid::from_raw(parent.parse().ok()?);
    let grace = Duration::from_millis(grace.parse().ok()?);
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next()?;
    // The signal is for the command, which may not have begun yet.
    let _ = ctrlc::set_handler(|| ASKED.store(true, Relaxed));
    let child = Command::new(&command).args(arguments).env_remove(SUPERVISED).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Some(cannot_run(program, &command, &error)),
    };
    let (mut forwarded, mut pause) = (false, Duration::from_millis(1));
    while getppid() == parent {
        if ASKED.load(Relaxed) && !forwarded {
            forwarded = true;
            let _ = killpg(getpgrp(), Signal::SIGTERM);
        }
        match child.try_wait() {
            Ok(Some(status)) => return Some(ExitCode::from(code(status))),
            Ok(None) => thread::sleep(pause),
            Err(_) => return Some(ExitCode::from(SOFTWARE)),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    let _ = killpg(getpgrp(), Signal::SIGTERM);
    thread::sleep(grace);
    // This includes this process.
    let _ = killpg(getpgrp(), Signal::SIGKILL);
    Some(ExitCode::from(SOFTWARE))
}

fn cannot_run(program: &str, command: &OsStr, error: &io::Error) -> ExitCode {
    eprintln!("{program}: {}: {error}", command.display());
    let missing = error.kind() == io::ErrorKind::NotFound;
    ExitCode::from(if missing { NOT_FOUND } else { CANNOT_RUN })
}

/// Runs a command while a lock is held. If the lock is lost, the command is asked to end
/// (`SIGTERM`), and is killed after the grace: with all that it has started, if it has a process
/// group of its own. At a terminal it has none, because Ctrl-C and Ctrl-Z would not reach it.
pub(crate) fn run(program: &str, command: &[String], guard: &Guard, grace: Duration) -> ExitCode {
    // The command gets Ctrl-C too, and decides. The lock is released after its end.
    HOLDS.store(true, Relaxed);
    let own_group = !io::stdin().is_terminal();
    let this = std::env::current_exe();
    let mut child = match &this {
        Ok(this) if own_group => {
            let mut child = Command::new(this);
            let orders = format!("{} {}", std::process::id(), grace.as_millis());
            child.args(command).env(SUPERVISED, orders).process_group(0);
            child
        }
        _ => {
            let mut child = Command::new(&command[0]);
            child.args(&command[1..]);
            child
        }
    };
    let own_group = own_group && this.is_ok();
    child.env("TURNWISE_FENCE", guard.fence().to_string());
    let mut child = match child.spawn() {
        Ok(child) => child,
        Err(error) => return cannot_run(program, command[0].as_ref(), &error),
    };
    match wait(&mut child, own_group, guard, grace) {
        Ok((status, lost)) => {
            if lost {
                eprintln!("{program}: the lock was lost while the command ran");
                return ExitCode::from(SOFTWARE);
            }
            ExitCode::from(code(status))
        }
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::from(SOFTWARE)
        }
    }
}

/// Waits for the command's end. Returns true if the lock was lost before.
fn wait(
    child: &mut Child,
    own_group: bool,
    guard: &Guard,
    grace: Duration,
) -> io::Result<(ExitStatus, bool)> {
    let id = Pid::from_raw(child.id().try_into().unwrap_or(i32::MAX));
    // It may have ended meanwhile.
    let tell = |signal: Option<Signal>| match own_group {
        true => killpg(id, signal),
        false => kill(id, signal),
    };
    let (mut lost, mut forwarded, mut pause) = (None, false, Duration::from_millis(1));
    loop {
        if let Some(status) = child.try_wait()? {
            let since = lost.or_else(|| guard.is_lost().then(std::time::Instant::now));
            let Some(since) = since else { return Ok((status, false)) };
            // Processes that the command has started may outlive it.
            if lost.is_none() && own_group {
                let _ = tell(Some(Signal::SIGTERM));
            }
            while own_group && tell(None).is_ok() && since.elapsed() < grace {
                thread::sleep(Duration::from_millis(5));
            }
            if own_group {
                let _ = tell(Some(Signal::SIGKILL));
            }
            return Ok((status, true));
        }
        // A terminal sends its Ctrl-C to both. A signal to this program alone is meant for the
        // command. Its supervisor passes it on, as soon as there is one.
        if ASKED.load(Relaxed) && !forwarded {
            forwarded = true;
            let _ = kill(id, Signal::SIGTERM);
        }
        match lost {
            None if guard.is_lost() => {
                let _ = tell(Some(Signal::SIGTERM));
                lost = Some(std::time::Instant::now());
            }
            Some(since) if since.elapsed() >= grace => {
                let _ = tell(Some(Signal::SIGKILL));
                return Ok((child.wait()?, true));
            }
            _ => {}
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Returns the exit code of a command as shells do: 128 more than the signal that has ended it.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(SOFTWARE)
}

/// Prints an error in one line, and returns its exit code.
pub(crate) fn failed(program: &str, error: &LockError) -> ExitCode {
    eprintln!("{program}: {error}");
    ExitCode::from(match error {
        LockError::Store(_) => UNAVAILABLE,
        LockError::TimedOut { .. } | LockError::Busy { .. } => TRY_AGAIN,
        LockError::Name(_) | LockError::LeaseTooShort => 2,
        _ => SOFTWARE,
    })
}

pub(crate) fn unconnected(program: &str, error: &ConnectError) -> ExitCode {
    eprintln!("{program}: {error}");
    ExitCode::from(match error {
        ConnectError::Store(StoreError::Unsupported { .. }) => 2,
        ConnectError::Store(_) => UNAVAILABLE,
        ConnectError::Url(_) | ConnectError::Tls(_) | ConnectError::Prefix(_) => 2,
        _ => SOFTWARE,
    })
}
