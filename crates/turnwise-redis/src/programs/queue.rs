//! Queues of commands that workers run: `queue push mails -- send-mail ada`, `queue work`.

#[allow(dead_code, reason = "shared with the other programs")]
mod common;
#[path = "common/failure.rs"]
mod failure;

use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use clap::{Parser, Subcommand};
use serde::{Deserialize, Serialize};
use turnwise::{Context, Handler, Reply};
use turnwise_redis::{
    Actors, ConnectError, DeadLetter, Drains, MessageError, Outcome, Remote, Until,
};

use failure::Failure;

/// Queues of commands, which are run one at a time and in their order.
///
/// A command that ends with another code than 0 is tried again, before those
/// behind it in its queue. After all its attempts it is a dead letter. The
/// death of a worker counts as an attempt.
///
/// Exit codes: 0; 1 if there is no such command, or none to withdraw; 69 if no
/// server answers, 2 for bad usage; `outcome`: 0 if the command was done, 1 if
/// it is dead, withdrawn or unknown, 75 if it is delayed, waits or runs;
/// `drain`: 75 if another process runs the commands that are left.
#[derive(Parser)]
#[command(name = "queue", verbatim_doc_comment)]
struct Arguments {
    #[command(subcommand)]
    deed: Deed,
    /// Server
    #[arg(
        long,
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1/",
        global = true
    )]
    url: String,
    /// File of this machine, instead of the server
    #[cfg(feature = "sqlite")]
    #[arg(long, value_name = "PATH", global = true)]
    file: Option<std::path::PathBuf>,
    /// Prefix of all keys
    #[arg(long, default_value = "turnwise", global = true)]
    prefix: String,
    /// Number of attempts at a command
    #[arg(
        long,
        default_value = "3",
        global = true,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    attempts: u32,
    /// Pause before the second attempt, doubled for each
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        global = true,
        value_parser = common::time
    )]
    pause: Duration,
    /// Time that a dead worker holds its queue
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        global = true,
        value_parser = common::time
    )]
    lease: Duration,
}

impl Arguments {
    fn connect(&self) -> Result<Remote, ConnectError> {
        let builder = Remote::builder().prefix(&*self.prefix);
        #[cfg(feature = "sqlite")]
        if let Some(path) = &self.file {
            return builder.over(turnwise_redis::FileStore::open(path)?);
        }
        builder.connect(&self.url)
    }
}

#[derive(Subcommand)]
enum Deed {
    /// Stores a command in a queue, and prints its id
    Push {
        /// Queue
        queue: String,
        /// Id of the command: a second one of the id is not stored
        #[arg(long)]
        id: Option<String>,
        /// Time before which it is not run
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = common::time)]
        after: Duration,
        /// Command, and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Runs the commands of all queues, until it is interrupted
    Work {
        /// Number of queues at a time
        #[arg(short, long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
        at_a_time: u16,
    },
    /// Runs the commands of a queue, until none is left
    Drain {
        /// Queue
        queue: String,
    },
    /// Prints the progress of a command
    Outcome {
        /// Queue
        queue: String,
        /// Id of the command
        id: String,
    },
    /// Withdraws a command, unless it may have begun
    Withdraw {
        /// Queue
        queue: String,
        /// Id of the command
        id: String,
    },
    /// Lists dead letters: queue, id, attempts, the last error, the command
    Dead,
    /// Returns a dead letter to its queue
    Requeue {
        /// Queue
        queue: String,
        /// Id of the command
        id: String,
    },
    /// Deletes a dead letter
    Discard {
        /// Queue
        queue: String,
        /// Id of the command
        id: String,
    },
}

/// The number of commands of a queue that were done.
#[derive(Default, Serialize, Deserialize)]
struct Done(u64);

#[derive(Serialize, Deserialize)]
struct Run(Vec<String>);

impl Handler<Run> for Done {
    type Reply = Result<u64, String>;

    fn handle(&mut self, Run(command): Run, _: &mut Context<'_, Self>) -> Self::Reply {
        let (program, arguments) = command.split_first().ok_or("it has no words")?;
        let status = turnwise::blocking(|| Command::new(program).args(arguments).status());
        let status = status.map_err(|error| format!("{program}: {error}"))?;
        if !status.success() {
            return Err(status.to_string());
        }
        self.0 += 1;
        Ok(self.0)
    }
}

fn main() -> ExitCode {
    let given: Arguments = match common::options() {
        Ok(given) => given,
        Err(code) => return code,
    };
    let remote = match given.connect() {
        Ok(remote) => remote,
        Err(error) => return common::unconnected("queue", &error),
    };
    match run(&remote, &given) {
        Ok((code, text)) => {
            let mut out = io::stdout().lock();
            let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            match common::written("queue", printed) {
                ExitCode::SUCCESS => ExitCode::from(code),
                failed => failed,
            }
        }
        Err(Failure(code, why)) => {
            eprintln!("queue: {why}");
            ExitCode::from(code)
        }
    }
}

/// Runs a subcommand. Returns the exit code, and the output.
fn run(remote: &Remote, given: &Arguments) -> Result<(u8, String), Failure> {
    let queues = remote.actors::<Done>("queue").try_message::<Run>("run");
    let queues = queues.drains(Drains::Never).attempts(given.attempts).pause(given.pause);
    let queues = queues.lease(given.lease).open().map_err(|error| Failure(2, error.to_string()))?;
    match &given.deed {
        Deed::Push { queue, id, after, command } => {
            let told = queues.of(queue).map_err(failed)?.tell(Run(command.clone()));
            let mut told = told.after(*after);
            if let Some(id) = id {
                told = told.id(id);
            }
            Ok((0, told.wait().map_err(failed)? + "\n"))
        }
        Deed::Work { at_a_time } => {
            let stops = failure::interrupts();
            let workers = queues.work(usize::from(*at_a_time));
            while !stops.load(Relaxed) {
                thread::sleep(Duration::from_millis(50));
            }
            // Running commands go on to their ends.
            let _ = workers.stop().wait();
            Ok((0, String::new()))
        }
        Deed::Drain { queue } => {
            let drained = answer(queues.of(queue).map_err(failed)?.drain(Until::empty()))?;
            let is_left = drained.by_another || drained.left > 0;
            let code = if is_left { common::TRY_AGAIN } else { 0 };
            Ok((code, format!("{} done\n", drained.handled)))
        }
        Deed::Outcome { queue, id } => outcome(&queues, queue, id),
        Deed::Withdraw { queue, id } => {
            let queue = queues.of(queue).map_err(failed)?;
            let outcome = answer(queue.withdraw::<Result<u64, String>>(id))?;
            Ok((found(outcome == Outcome::Withdrawn), String::new()))
        }
        Deed::Dead => {
            let (mut text, mut from) = (String::new(), 0);
            loop {
                let letters = answer(queues.dead_letters(from, 1000))?;
                if letters.is_empty() {
                    return Ok((0, text));
                }
                from += letters.len() as u64;
                for DeadLetter { actor, id, attempts, error, body, .. } in letters {
                    let [actor, id, error, body] =
                        [actor, id, error, body].map(|text| field(&text));
                    text += &format!("{actor}\t{id}\t{attempts}\t{error}\t{body}\n");
                }
            }
        }
        Deed::Requeue { queue, id } => {
            Ok((found(answer(queues.requeue(queue, id))?), String::new()))
        }
        Deed::Discard { queue, id } => {
            Ok((found(answer(queues.discard(queue, id))?), String::new()))
        }
    }
}

/// A field of a line: control characters, tabs and ends of lines among them, are escaped.
fn field(text: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_debug().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

fn outcome(queues: &Actors<Done>, queue: &str, id: &str) -> Result<(u8, String), Failure> {
    let queue = queues.of(queue).map_err(failed)?;
    let (code, text) = match answer(queue.outcome::<Result<u64, String>>(id))? {
        Outcome::Done(_) => (0, "done".to_owned()),
        Outcome::Delayed { remaining } => {
            (common::TRY_AGAIN, format!("is delayed by {remaining:.1?}"))
        }
        Outcome::Waiting { ahead } => (common::TRY_AGAIN, format!("waits behind {ahead}")),
        Outcome::Running { attempt } => (common::TRY_AGAIN, format!("runs, attempt {attempt}")),
        Outcome::Dead { error } => (1, format!("dead: {error}")),
        Outcome::Withdrawn => (1, "withdrawn".to_owned()),
        _ => (1, "unknown".to_owned()),
    };
    Ok((code, text + "\n"))
}

fn answer<T>(reply: Reply<Result<T, MessageError>>) -> Result<T, Failure>
where
    T: Send + 'static,
{
    reply.wait().map_err(MessageError::from).and_then(|answer| answer).map_err(failed)
}

fn found(was: bool) -> u8 {
    u8::from(!was)
}

fn failed(error: MessageError) -> Failure {
    match error {
        MessageError::Store(_) => Failure(common::UNAVAILABLE, error.to_string()),
        _ => Failure(2, error.to_string()),
    }
}
