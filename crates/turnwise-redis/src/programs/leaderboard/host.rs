//! A host with little time: it stores a request, drains as long as its budget lasts, and hands over
//! what is left.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use turnwise_redis::{Actors, MessageError, Until};

use crate::board::{Board, Score};

/// The job of a host.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// A request, which is stored first.
    Front { board: String, request: String, player: String, points: u64 },
    /// A board that another host has left.
    Bottom { board: String },
}

/// A report of a host to its platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The request is stored.
    Stored,
    /// Another host has to go on with this board.
    Invoke(String),
}

/// The platform, as a host sees it, which may refuse a report.
pub(crate) type Tell = Arc<dyn Fn(Told) -> Result<(), String> + Send + Sync>;

/// Does a job.
pub(crate) fn work(
    boards: &Actors<Board>,
    job: &Job,
    budget: Duration,
    work: Duration,
    tell: &Tell,
) -> Result<(), MessageError> {
    let board = match job {
        Job::Front { board, .. } | Job::Bottom { board } => boards.of(board)?,
    };
    if let Job::Front { request, player, points, .. } = job {
        let millis = u64::try_from(work.as_millis()).unwrap_or(u64::MAX);
        let (request, player) = (request.clone(), player.clone());
        let score = Score { request: request.clone(), player, points: *points, millis };
        board.tell(score).id(request).wait()?;
        let _ = tell(Told::Stored);
    }
    let tell = tell.clone();
    let invoke = move |board: String| {
        let accepted = tell(Told::Invoke(board));
        async move { accepted }
    };
    // A budget of no time is refused when the options are read.
    let until = Until::within(budget).unwrap_or_default().or_hand_to(invoke);
    board.drain(until).wait()??;
    Ok(())
}

/// Returns the platform of a process: both exchange lines.
pub(crate) fn by_lines() -> Tell {
    Arc::new(|told| {
        let line = match &told {
            Told::Stored => "stored".to_owned(),
            Told::Invoke(board) => format!("invoke {board}"),
        };
        let mut out = io::stdout().lock();
        let said = writeln!(out, "{line}").and_then(|()| out.flush());
        said.map_err(|error| error.to_string())?;
        if told == Told::Stored {
            return Ok(());
        }
        let mut answer = String::new();
        match io::stdin().lock().read_line(&mut answer) {
            Ok(_) if answer.trim() == "accepted" => Ok(()),
            _ => Err("the platform does not answer".to_owned()),
        }
    })
}

impl Told {
    pub(crate) fn read(line: &str) -> Option<Told> {
        match line.split_once(' ') {
            None if line == "stored" => Some(Told::Stored),
            Some(("invoke", board)) => Some(Told::Invoke(board.to_owned())),
            _ => None,
        }
    }
}
