//! The outcome of all jobs.

use serde_json::json;

/// The outcome of a job.
pub(crate) enum Outcome {
    Done,
    /// It failed, for this reason.
    Failed(String),
    /// It took longer than its lease, or the run was interrupted.
    Killed,
    /// The run was interrupted before it began.
    NotStarted,
}

pub(crate) struct Report {
    pub(crate) jobs: usize,
    pub(crate) done: usize,
    pub(crate) failed: usize,
    pub(crate) killed: usize,
    pub(crate) not_started: usize,
    pub(crate) boxes: usize,
    /// Boxes that were found taken: if this is not 0, two jobs were in one box at once.
    pub(crate) shared: usize,
    /// Boxes whose clean-up has failed.
    pub(crate) quarantined: usize,
    /// Files and folders that are left.
    pub(crate) dirty: usize,
    pub(crate) seconds: f64,
    pub(crate) interrupted: bool,
}

impl Report {
    pub(crate) fn new(jobs: usize, boxes: usize) -> Self {
        Report {
            jobs,
            done: 0,
            failed: 0,
            killed: 0,
            not_started: 0,
            boxes,
            shared: 0,
            quarantined: 0,
            dirty: 0,
            seconds: 0.0,
            interrupted: false,
        }
    }

    pub(crate) fn count(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Done => &mut self.done,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Killed => &mut self.killed,
            Outcome::NotStarted => &mut self.not_started,
        } += 1;
    }

    pub(crate) fn code(&self) -> u8 {
        let all_done = self.done == self.jobs && self.shared + self.quarantined + self.dirty == 0;
        match (self.interrupted, all_done) {
            (true, _) => 130,
            (false, true) => 0,
            (false, false) => 1,
        }
    }

    pub(crate) fn text(&self) -> String {
        let Report { jobs, done, failed, killed, not_started, boxes, .. } = self;
        let mut text = format!("{jobs} jobs = {done} done + {failed} failed + {killed} killed");
        if *not_started > 0 {
            text += &format!(" + {not_started} not started");
        }
        text += &format!("\n{boxes} boxes: {} shared, {} left dirty", self.shared, self.dirty);
        if self.quarantined > 0 {
            text += &format!(", {} quarantined", self.quarantined);
        }
        text + &format!("\n{:.2} s\n", self.seconds)
    }

    pub(crate) fn json(&self) -> String {
        let report = json!({
            "jobs": self.jobs,
            "done": self.done,
            "failed": self.failed,
            "killed": self.killed,
            "not_started": self.not_started,
            "boxes": self.boxes,
            "shared": self.shared,
            "quarantined": self.quarantined,
            "dirty": self.dirty,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
        });
        format!("{report}\n")
    }
}
