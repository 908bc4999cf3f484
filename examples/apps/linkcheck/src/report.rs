//! The output: dead links, and a short summary; or JSON.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::book::{Findings, Tally, Trouble};
use crate::faults::Origin;
use crate::site::{Plant, Site};

/// The maximum length of a line.
const COLUMNS: usize = 80;

/// The end of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was visited.
    Whole,
    /// The time limit passed.
    OutOfTime,
    /// The crawl was interrupted.
    Interrupted,
}

/// The result of a crawl.
#[derive(Debug)]
pub struct Report {
    /// The findings.
    pub findings: Findings,
    /// The number of hosts.
    pub hosts: usize,
    /// The maximum number of concurrent requests to a host.
    pub at_once: usize,
    /// The dead links that were planted.
    pub plants: Vec<Plant>,
    /// The duration.
    pub took: Duration,
    /// The end of the crawl.
    pub ended: Ended,
}

impl Report {
    pub(crate) fn new(
        findings: Findings,
        site: &Site,
        origins: &[Arc<Origin>],
        took: Duration,
        ended: Ended,
    ) -> Self {
        let at_once = origins.iter().map(|origin| origin.most_at_once()).max().unwrap_or(0);
        let plants = site.plants().to_vec();
        Report { findings, hosts: site.hosts(), at_once, plants, took, ended }
    }

    /// Returns the number of planted links that were found.
    pub fn plants_found(&self) -> usize {
        let dead = self.findings.troubles.iter().filter(|trouble| trouble.dead);
        let dead: BTreeSet<_> =
            dead.filter_map(|dead| Some((dead.page.as_deref()?, dead.link.as_str()))).collect();
        let found = |(page, link): &&Plant| dead.contains(&(page.as_str(), link.as_str()));
        self.plants.iter().filter(found).count()
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        let good = self.findings.troubles.is_empty()
            && self.findings.adds_up()
            && self.plants_found() == self.plants.len();
        match (self.ended, good) {
            (Ended::Interrupted, _) => 130,
            (_, true) => 0,
            (_, false) => 1,
        }
    }

    /// Formats the report as text.
    pub fn text(&self) -> String {
        let Findings { pages, visited, links, followed, requests, again, troubles } =
            &self.findings;
        let mut text = String::new();
        let mut last = None;
        for trouble in troubles {
            let page = trouble.page.as_deref().unwrap_or("(the folder)");
            if last.replace(page) != Some(page) {
                line(&mut text, "", page);
            }
            let Trouble { link, reason, .. } = trouble;
            let (link, reason) = (plain(link), plain(reason));
            if link.chars().count() + reason.chars().count() + 7 <= COLUMNS {
                line(&mut text, "  -> ", &format!("{link}: {reason}"));
            } else {
                line(&mut text, "  -> ", &link);
                line(&mut text, "     ", &reason);
            }
        }
        if !troubles.is_empty() {
            text.push('\n');
        }
        let took = self.took.as_secs_f64();
        let mut say = |said: String| text.push_str(&(said + "\n"));
        say(format!(
            "{:<12}{:>10}{:>10}{:>10}{:>10}{:>12}",
            "", "all", "ok", "dead", "gave up", "elsewhere"
        ));
        for (what, all, tally) in [("pages", pages, visited), ("links", links, followed)] {
            let Tally { ok, dead, gave_up, elsewhere } = tally;
            say(format!("{what:<12}{all:>10}{ok:>10}{dead:>10}{gave_up:>10}{elsewhere:>12}"));
        }
        say(format!(
            "\n{took:.2} s, {} hosts, at most {} request at once on each\n\
             {requests} requests, {again} of them again",
            self.hosts, self.at_once
        ));
        if !self.plants.is_empty() {
            say(format!("{} dead links planted, {} found", self.plants.len(), self.plants_found()));
        }
        if !self.findings.adds_up() {
            say("A BUG: the counts do not add up".into());
        }
        match self.ended {
            Ended::Whole => {}
            Ended::OutOfTime => say("OUT OF TIME: the rest was given up (--within)".into()),
            Ended::Interrupted => say("INTERRUPTED: the rest was given up".into()),
        }
        text
    }

    /// Formats the report as one JSON object, in one line.
    pub fn json(&self) -> String {
        let tally = |tally: &Tally| {
            let Tally { ok, dead, gave_up, elsewhere } = tally;
            json!({ "ok": ok, "dead": dead, "gave_up": gave_up, "elsewhere": elsewhere })
        };
        let troubles = |dead: bool| {
            let some = self.findings.troubles.iter().filter(move |trouble| trouble.dead == dead);
            let one = |trouble: &Trouble| {
                let page = trouble.page.as_deref();
                json!({ "page": page, "link": trouble.link, "reason": trouble.reason })
            };
            some.map(one).collect::<Vec<_>>()
        };
        let findings = &self.findings;
        let report = json!({
            "pages": findings.pages,
            "visited": tally(&findings.visited),
            "links": findings.links,
            "followed": tally(&findings.followed),
            "adds_up": findings.adds_up(),
            "dead": troubles(true),
            "gave_up": troubles(false),
            "requests": findings.requests,
            "again": findings.again,
            "hosts": self.hosts,
            "at_once": self.at_once,
            "planted": self.plants.len(),
            "planted_found": self.plants_found(),
            "seconds": self.took.as_secs_f64(),
            "whole": self.ended == Ended::Whole,
            "interrupted": self.ended == Ended::Interrupted,
        });
        format!("{report}\n")
    }
}

/// Replaces control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Appends a line, truncated to the maximum length. (JSON has the whole.)
fn line(text: &mut String, before: &str, rest: &str) {
    let room = COLUMNS - before.len();
    let rest = plain(rest);
    let short = match rest.char_indices().nth(room) {
        None => rest,
        Some(_) => rest.chars().take(room - 1).chain(['…']).collect(),
    };
    // A write to a `String` does not fail.
    let _ = writeln!(text, "{before}{short}");
}
