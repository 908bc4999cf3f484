//! All objects of a store that keeps them in this process: in memory, or as read from a file.

use std::collections::{BTreeMap, HashMap};

use crate::admission_record::AdmissionRecord;
use crate::mailbox::Shard;
use crate::record::Record;
use crate::step::{Answer, Notice, Op, Renewal, Step};

/// Objects by their keys. Steps and their times determine the objects: two tables with the same
/// steps are equal.
#[derive(Default)]
#[cfg_attr(feature = "sqlite", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Tables {
    records: BTreeMap<String, Record>,
    admissions: BTreeMap<String, AdmissionRecord>,
    shards: BTreeMap<String, Shard>,
    /// The time until which each record is known; and the number of steps until all are checked.
    known: HashMap<String, u64>,
    steps: usize,
}

impl Tables {
    /// Executes a step at a time in microseconds of the store's clock.
    pub(crate) fn step(&mut self, now: u64, op: &Op, notices: &mut Vec<Notice>) -> Answer {
        self.forget_old(&op.key, now);
        match &op.step {
            Step::Admission(step) => on(&mut self.admissions, &op.key, |admission| {
                Answer::Admission(admission.step(now, step, notices))
            }),
            Step::Mailbox(step) => on(&mut self.shards, &op.key, |shard| {
                Answer::Mailbox(shard.step(now, step, notices))
            }),
            Step::RenewAll { renewals, lease } => {
                let renewed = renewals.iter().map(|Renewal { key, token, place }| {
                    let record = self.records.get_mut(key);
                    let held =
                        record.is_some_and(|record| record.renew(now, *place, token, *lease));
                    self.keep(key, now, &op.step);
                    held
                });
                Answer::Renewed(renewed.collect())
            }
            step => {
                let answer = on(&mut self.records, &op.key, |record| {
                    record.step(now, op.places, op.above, step, notices)
                });
                self.keep(&op.key, now, step);
                answer
            }
        }
    }

    pub(crate) fn records(&self) -> usize {
        self.records.len()
    }

    /// Forgets a record, or only its queue; the state of an actor, or all of its mailbox but the
    /// messages.
    pub(crate) fn forget_key(&mut self, key: &str) {
        let split = key.split_once("}:").map(|(shard, part)| (format!("{shard}}}"), part));
        if let Some((shard, part)) = split
            && let Some(shard) = self.shards.get_mut(&shard)
        {
            return shard.forget_part(part);
        }
        match key.strip_suffix(":q") {
            Some(key) => {
                if let Some(record) = self.records.get_mut(key) {
                    record.forget_queue();
                }
            }
            None => drop(self.records.remove(key)),
        }
    }

    /// Forgets expired records: one now, all others every few steps.
    fn forget_old(&mut self, key: &str, now: u64) {
        if self.known.get(key).is_some_and(|until| *until <= now) {
            self.known.remove(key);
            self.records.remove(key);
        }
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            self.known.retain(|_, until| *until > now);
            let Tables { records, known, .. } = self;
            records.retain(|key, _| known.contains_key(key));
            self.steps = self.records.len().max(64);
        }
    }

    /// Updates the time until which a record is known.
    fn keep(&mut self, key: &str, now: u64, step: &Step) {
        let Some(record) = self.records.get(key) else { return };
        let last = record.last(now, step);
        let until = self.known.entry(key.to_owned()).or_default();
        *until = if record.has_ticks() { last.max(*until) } else { last };
    }
}

/// Runs a step on an object. An object that equals a new one is not stored.
fn on<T: Default + PartialEq, R>(
    table: &mut BTreeMap<String, T>,
    key: &str,
    step: impl FnOnce(&mut T) -> R,
) -> R {
    match table.get_mut(key) {
        Some(object) => step(object),
        None => {
            let mut object = T::default();
            let answer = step(&mut object);
            if object != T::default() {
                table.insert(key.to_owned(), object);
            }
            answer
        }
    }
}
