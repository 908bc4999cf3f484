//! The progress: a table in a terminal, a line for each job elsewhere.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use turnwise_locks::SlotId;

use crate::job::Job;
use crate::report::Outcome;

/// The maximum number of boxes with a line in the table.
const LINES: usize = 32;

pub(crate) enum Show {
    Live { table: MultiProgress, boxes: Vec<ProgressBar>, total: ProgressBar },
    Lines,
    Nothing,
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Show {
    pub(crate) fn new(boxes: usize, jobs: usize, live: bool, silent: bool) -> Self {
        if silent {
            return Show::Nothing;
        }
        if !live {
            return Show::Lines;
        }
        let table = MultiProgress::new();
        let total = table.add(ProgressBar::new(jobs as u64));
        total.set_style(style("{bar:40} {pos}/{len} jobs, {elapsed}"));
        let boxes = (0..boxes.min(LINES)).map(|number| {
            let line = table.add(ProgressBar::new_spinner());
            line.set_style(style("{prefix:>8} {msg}"));
            line.set_prefix(format!("box {number}"));
            line.set_message("free");
            line
        });
        let boxes = boxes.collect();
        Show::Live { table, boxes, total }
    }

    pub(crate) fn begins(&self, job: &Job, slot: SlotId) {
        let Show::Live { boxes, .. } = self else { return };
        if let Some(line) = boxes.get(slot.index()) {
            line.set_message(format!("{}: {}", job.line, short(job)));
        }
    }

    pub(crate) fn ended(&self, job: &Job, slot: Option<SlotId>, outcome: &Outcome, took: Duration) {
        let line = job.line;
        let what = match outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::Failed(why) => format!("failed: {why}"),
            Outcome::Killed => "killed".to_owned(),
            Outcome::NotStarted => "not started".to_owned(),
        };
        match self {
            Show::Nothing => {}
            Show::Lines => {
                let slot = slot.map_or("-".to_owned(), |slot| slot.to_string());
                eprintln!("line {line} box {slot} {:.3} s {what}", took.as_secs_f64());
            }
            Show::Live { boxes, total, table } => {
                total.inc(1);
                if let Some(line) = slot.and_then(|slot| boxes.get(slot.index())) {
                    line.set_message("free");
                }
                if !matches!(outcome, Outcome::Done) {
                    let said = format!("line {line} {what}: {}", short(job));
                    drop(table.println(said));
                }
            }
        }
    }

    pub(crate) fn say(&self, text: &str) {
        match self {
            Show::Live { table, .. } => drop(table.println(text)),
            Show::Lines | Show::Nothing => eprintln!("boxes: {text}"),
        }
    }

    pub(crate) fn finish(&self) {
        if let Show::Live { table, total, .. } = self {
            total.finish();
            drop(table.clear());
        }
    }
}

/// Shortens a command to fit into a line of a terminal, without control characters.
fn short(job: &Job) -> String {
    let text = job.command.to_string_lossy();
    let mut short: String =
        text.chars().take(50).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(50).is_some() {
        short.push('…');
    }
    short
}
