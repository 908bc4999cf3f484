//! The answers, and the comparison of the boards with them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use turnwise_redis::Actors;

use crate::Options;
use crate::board::{Board, Standing};
use crate::common::UNAVAILABLE;
use crate::failure::Failure;
use crate::host::Job;

/// The answers of a run.
pub(crate) struct Books {
    requests: u32,
    fronts: u32,
    bottoms: u32,
    pub(crate) killed: u32,
    again: u32,
    /// Requests whose results are polled for.
    asked: BTreeMap<String, Job>,
    answered: BTreeSet<String>,
    wrong: Vec<String>,
    began: Instant,
    took: Duration,
}

impl Books {
    pub(crate) fn new(requests: u32) -> Self {
        Books {
            requests,
            fronts: 0,
            bottoms: 0,
            killed: 0,
            again: 0,
            asked: BTreeMap::new(),
            answered: BTreeSet::new(),
            wrong: Vec::new(),
            began: Instant::now(),
            took: Duration::ZERO,
        }
    }

    pub(crate) fn started(&mut self, job: &Job) {
        match job {
            Job::Front { .. } => self.fronts += 1,
            Job::Bottom { .. } => self.bottoms += 1,
        }
    }

    /// Returns the number of requests without an answer.
    pub(crate) fn open(&self) -> usize {
        (self.requests as usize).saturating_sub(self.answered.len() + self.wrong.len())
    }

    pub(crate) fn asks(&mut self, request: &str, job: Job) {
        self.asked.insert(request.to_owned(), job);
    }

    pub(crate) fn asked(&self) -> Vec<(String, Job)> {
        self.asked.iter().map(|(request, job)| (request.clone(), job.clone())).collect()
    }

    pub(crate) fn again(&mut self, request: &str) {
        self.asked.remove(request);
        self.again += 1;
    }

    pub(crate) fn answered(&mut self, request: &str, standing: &Standing) {
        self.asked.remove(request);
        self.answered.insert(request.to_owned());
        if standing.points == 0 || standing.rank == 0 {
            self.wrong(format!("{request} received {standing:?}"));
        }
    }

    pub(crate) fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    pub(crate) fn ends(&mut self) {
        self.took = self.began.elapsed();
    }

    /// Compares the answers with the boards. Returns the table, and the errors.
    pub(crate) fn close(
        &mut self,
        options: &Options,
        boards: &Actors<Board>,
    ) -> Result<(String, Vec<String>), Failure> {
        let unanswered = |error: &dyn std::fmt::Display| Failure(UNAVAILABLE, error.to_string());
        let (mut applied, mut points) = (BTreeMap::<String, u32>::new(), 0);
        for board in options.all_boards() {
            let board = boards.of(&board).map_err(|error| unanswered(&error))?;
            let info = board.info().wait().map_err(|error| unanswered(&error))?;
            let state = info.map_err(|error| unanswered(&error))?.state.unwrap_or_default();
            points += state.points.values().sum::<u64>();
            for request in state.applied {
                *applied.entry(request).or_default() += 1;
            }
        }
        let twice: Vec<_> = applied.iter().filter(|(_, times)| **times > 1).collect();
        if !twice.is_empty() {
            self.wrong.push(format!("applied more than once: {twice:?}"));
        }
        let mut due = 0;
        for number in 0..options.requests {
            let Job::Front { request, points, .. } = options.request(number) else { continue };
            due += points;
            if !applied.contains_key(&request) {
                self.wrong.push(format!("{request} was answered, and is on no board"));
            }
        }
        if points != due {
            self.wrong.push(format!("{points} points on the boards, and {due} were sent"));
        }
        let hosts = self.fronts + self.bottoms;
        let lines = [
            ("requests", self.requests, format!("for {} boards", options.boards)),
            ("hosts", hosts, format!("{} of them bottom halves", self.bottoms)),
            ("killed", self.killed, String::new()),
            (
                "sent again",
                self.again,
                "their hosts were killed before they were stored".to_owned(),
            ),
            ("answered", self.answered.len() as u32, "by polling".to_owned()),
            ("applied", applied.len() as u32, format!("with {points} points")),
        ];
        let mut table = String::new();
        for (what, count, more) in lines {
            table += format!("{what:<12}{count:>8}  {more}").trim_end();
            table.push('\n');
        }
        table += &format!("{:<12}{:>8.2}  s", "took", self.took.as_secs_f64());
        Ok((table, std::mem::take(&mut self.wrong)))
    }
}
