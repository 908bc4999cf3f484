//! The answers, and the comparison of the rows with them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use turnwise_redis::admission::{Admission, Row};

use crate::Options;
use crate::common;
use crate::entrant::Told;
use crate::failure::Failure;

/// The state of an entrant.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) ready: bool,
    pub(crate) reserved: bool,
    /// The number of its requests that have answers.
    pub(crate) answered: u64,
    pub(crate) done: bool,
    pub(crate) ended: bool,
    pub(crate) killed: bool,
}

/// The answers of a run.
pub(crate) struct Books {
    pub(crate) entrants: Vec<Known>,
    /// Applicants that are admitted by their answers, and their places.
    places: BTreeMap<String, u64>,
    closed: u64,
    wrong: Vec<String>,
    began: Instant,
    took: Duration,
}

/// The result of a run.
pub(crate) struct Report {
    pub(crate) table: String,
    pub(crate) wrong: Vec<String>,
}

impl Books {
    pub(crate) fn new(entrants: usize) -> Self {
        Books {
            entrants: (0..entrants).map(|_| Known::default()).collect(),
            places: BTreeMap::new(),
            closed: 0,
            wrong: Vec::new(),
            began: Instant::now(),
            took: Duration::ZERO,
        }
    }

    pub(crate) fn begins(&mut self) {
        self.began = Instant::now();
    }

    pub(crate) fn all(&self, so: impl Fn(&Known) -> bool) -> bool {
        self.entrants.iter().all(so)
    }

    pub(crate) fn note(&mut self, number: usize, told: Option<Told>) {
        let entrant = &mut self.entrants[number];
        self.took = self.began.elapsed();
        match told {
            Some(Told::Ready) => entrant.ready = true,
            Some(Told::Reserved) => entrant.reserved = true,
            Some(Told::In { place, applicant }) => {
                entrant.answered += 1;
                if let Some(before) = self.places.insert(applicant.clone(), place) {
                    self.wrong.push(format!("{applicant} is in places {before} and {place}"));
                }
            }
            Some(Told::Closed) => {
                entrant.answered += 1;
                self.closed += 1;
            }
            Some(Told::Failed(_)) if entrant.killed => {}
            Some(Told::Failed(why)) => {
                entrant.answered += 1;
                self.wrong.push(format!("process {number}: {why}"));
            }
            Some(Told::Done) => entrant.done = true,
            None => {
                entrant.ended = true;
                if !entrant.done && !entrant.killed {
                    self.wrong.push(format!("process {number} has ended before its time"));
                }
            }
        }
    }

    /// Compares the answers with the rows.
    pub(crate) fn close(
        mut self,
        options: &Options,
        admission: &Admission,
    ) -> Result<Report, Failure> {
        let rows = rows(admission)?;
        let info = admission.status().wait().map_err(|error| unanswered(&error))?;
        let (requests, seats) = (u64::from(options.requests), options.seats);
        let killed = self.entrants.iter().filter(|it| it.killed).count() as u64;
        let living = self.entrants.len() as u64 - killed;
        let of_living = |it: &&Known| !it.killed;
        let answered: u64 = self.entrants.iter().filter(of_living).map(|it| it.answered).sum();
        let mut wrong = |so: bool, what: String| {
            if !so {
                self.wrong.push(what);
            }
        };
        let count = rows.len() as u64;
        wrong(count <= seats, format!("{count} rows for {seats} seats"));
        let full = living * requests >= seats;
        wrong(!full || count == seats, format!("{count} rows, and all {seats} were wanted"));
        wrong(info.count == count, format!("{} were counted of {count} rows", info.count));
        wrong(
            self.closed == 0 || info.closed,
            "applicants were refused, and the admission is open".to_owned(),
        );
        let due = living * requests;
        wrong(answered == due, format!("{answered} of {due} requests of the living were answered"));
        let mut left = self.places.clone();
        let (mut places, mut unheard) = (std::collections::BTreeSet::new(), 0);
        for Row { applicant, place, row, .. } in &rows {
            wrong(
                row == applicant.as_bytes(),
                format!("the row of {applicant} belongs to another"),
            );
            let seat = (1..=seats).contains(place) && places.insert(*place);
            wrong(seat, format!("place {place} of {applicant} is invalid, or taken"));
            match left.remove(applicant) {
                Some(told) => wrong(told == *place, format!("{applicant} received place {told}")),
                // It was killed before it got the answer, or before it could report it.
                None => {
                    let number = applicant.split('.').next().and_then(|it| it.parse().ok());
                    let entrant = number.and_then(|it: usize| self.entrants.get(it));
                    unheard += 1;
                    wrong(
                        entrant.is_some_and(|it| it.killed),
                        format!("{applicant} has a row, and received no answer"),
                    );
                }
            }
        }
        for (applicant, place) in left {
            wrong(false, format!("{applicant} received place {place}, and has no row"));
        }
        let mut table = String::new();
        let total = self.entrants.len() as u64;
        let lines = [
            ("processes", total, format!("{killed} of them killed")),
            ("requests", total * requests, format!("{due} of the living")),
            ("answered", answered, "to the living".to_owned()),
            ("let in", self.places.len() as u64, format!("and {unheard} unreported")),
            ("turned away", self.closed, String::new()),
            ("rows", count, format!("for {seats} seats")),
        ];
        for (what, count, more) in lines {
            let _ = writeln!(table, "{}", format!("{what:<12}{count:>8}  {more}").trim_end());
        }
        let _ = write!(table, "{:<12}{:>8.2}  s", "took", self.took.as_secs_f64());
        Ok(Report { table, wrong: self.wrong })
    }
}

fn unanswered(error: &dyn std::fmt::Display) -> Failure {
    Failure(common::UNAVAILABLE, error.to_string())
}

/// Returns all rows, page by page.
fn rows(admission: &Admission) -> Result<Vec<Row>, Failure> {
    let mut all: Vec<Row> = Vec::new();
    loop {
        let page =
            admission.rows(all.len() as u64, 1000).wait().map_err(|error| unanswered(&error))?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}
