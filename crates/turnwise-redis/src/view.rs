//! The rows that steps have read of a database, and what they have changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admission_record as admission;
use crate::engine::{Change, Engine, Loaded, Read, Which};
use crate::error::StoreError;
use crate::mailbox::{self, MailboxRow};
use crate::record::{Record, micros};
use crate::rows::Rows;
use crate::step::{Answer, Notice, Op, Renewal, Step};

/// The version of the bytes of a row, which is the first of them.
const VERSION: u8 = 1;

/// The key of the only row of a lock, of slots, or of a job.
const RECORD: &str = "h";

/// The value of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Value(RowValue);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum RowValue {
    /// A lock, slots or a job, and until when it is known.
    Record(Record, u64),
    Admission(admission::StoredRow),
    Mailbox(MailboxRow),
}

/// The bytes are no value of this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    why: String,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bytes are no value of version {VERSION}: {}", self.why)
    }
}

impl std::error::Error for ValueError {}

impl From<ValueError> for StoreError {
    fn from(error: ValueError) -> Self {
        StoreError::WrongStore { needs: format!("objects of this version: {error}") }
    }
}

impl Value {
    /// Returns the value as bytes, the first of which is the version of the format. Later versions
    /// of this crate read them.
    ///
    /// # Panics
    /// If memory is exhausted.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = postcard::to_extend(&self.0, vec![VERSION]);
        bytes.expect("all values have a format")
    }

    /// Reads a value from its bytes.
    ///
    /// # Errors
    /// [`ValueError`] if the bytes are of a later version, or no value.
    pub fn from_bytes(bytes: &[u8]) -> Result<Value, ValueError> {
        match bytes.split_first() {
            Some((&VERSION, bytes)) => match postcard::from_bytes(bytes) {
                Ok(value) => Ok(Value(value)),
                Err(error) => Err(ValueError { why: error.to_string() }),
            },
            Some((version, _)) => Err(ValueError { why: format!("they are of version {version}") }),
            None => Err(ValueError { why: "there are none".to_owned() }),
        }
    }
}

impl RowKind for RowValue {
    fn keep(self) -> RowValue {
        self
    }

    fn of(value: &RowValue) -> Option<&Self> {
        Some(value)
    }
}

/// A kind of rows.
trait RowKind: Sized {
    fn keep(self) -> RowValue;
    fn of(value: &RowValue) -> Option<&Self>;
}

impl RowKind for admission::StoredRow {
    fn keep(self) -> RowValue {
        RowValue::Admission(self)
    }

    fn of(value: &RowValue) -> Option<&Self> {
        if let RowValue::Admission(row) = value { Some(row) } else { None }
    }
}

impl RowKind for MailboxRow {
    fn keep(self) -> RowValue {
        RowValue::Mailbox(self)
    }

    fn of(value: &RowValue) -> Option<&Self> {
        if let RowValue::Mailbox(row) = value { Some(row) } else { None }
    }
}

/// The objects that steps touch before their changes are swapped.
pub(crate) struct View<'e, E> {
    engine: &'e mut E,
    now: Duration,
    objects: HashMap<String, ViewedObject>,
    /// The reason for which no row can be read any more.
    failed: Option<ViewFailure>,
}

enum ViewFailure {
    Store(StoreError),
    /// An object has changed between two loads.
    Changed,
}

#[derive(Default)]
struct ViewedObject {
    version: Option<u64>,
    expires: Option<Duration>,
    rows: BTreeMap<String, Known>,
    /// The prefixes of which the first rows were read, and the last key that was. `None`: all were.
    ranges: HashMap<String, Option<String>>,
}

struct Known {
    row: Option<Value>,
    changed: bool,
}

impl<'e, E: Engine> View<'e, E> {
    pub(crate) fn new(engine: &'e mut E) -> Self {
        View { engine, now: Duration::ZERO, objects: HashMap::new(), failed: None }
    }

    /// Reads together what most runs of these steps read.
    pub(crate) fn read(&mut self, ops: &[&Op]) {
        let mut reads = BTreeMap::<&str, BTreeSet<String>>::new();
        for op in ops {
            let keys = match &op.step {
                Step::Admission(step) => admission::reads(&step.act),
                Step::Mailbox(step) => mailbox::reads(&step.act),
                Step::RenewAll { renewals, .. } => {
                    for Renewal { key, .. } in renewals {
                        reads.entry(key).or_default().insert(RECORD.to_owned());
                    }
                    continue;
                }
                _ => vec![RECORD.to_owned()],
            };
            reads.entry(&op.key).or_default().extend(keys);
        }
        let reads = reads.into_iter().map(|(object, keys)| {
            let rows = keys.into_iter().map(Which::Key).collect();
            Read { object: object.to_owned(), rows }
        });
        self.load(reads.collect());
    }

    fn load(&mut self, reads: Vec<Read>) {
        if reads.is_empty() {
            return;
        }
        match self.engine.load(&reads) {
            Ok(loaded) => {
                for (read, loaded) in reads.into_iter().zip(loaded) {
                    self.now = self.now.max(loaded.now);
                    let object = self.objects.entry(read.object).or_default();
                    if !object.learn(read.rows, loaded) {
                        self.failed = Some(ViewFailure::Changed);
                    }
                }
            }
            Err(error) => self.failed = Some(ViewFailure::Store(error)),
        }
    }

    /// Runs a part of a step on the rows of an object.
    fn part<K, R>(&mut self, key: &str, run: impl FnOnce(&mut Part<'_, E, K>) -> R) -> R {
        let mut object = self.objects.remove(key).unwrap_or_default();
        let View { engine, now, failed, .. } = self;
        let kind = PhantomData;
        let answer = run(&mut Part { engine, now, failed, key, object: &mut object, kind });
        self.objects.insert(key.to_owned(), object);
        answer
    }

    /// Executes a step. If the view has failed, the answer means nothing.
    pub(crate) fn step(&mut self, op: &Op, notices: &mut Vec<Notice>) -> Answer {
        let now = micros(self.now);
        match &op.step {
            Step::Admission(step) => self
                .part(&op.key, |rows| Answer::Admission(admission::step(rows, now, step, notices))),
            Step::Mailbox(step) => {
                self.part(&op.key, |rows| Answer::Mailbox(mailbox::step(rows, now, step, notices)))
            }
            Step::RenewAll { renewals, lease } => {
                let renewed = renewals.iter().map(|Renewal { key, token, place }| {
                    self.record(key, &op.step, |record| record.renew(now, *place, token, *lease))
                });
                Answer::Renewed(renewed.collect())
            }
            step => self.record(&op.key, step, |record| {
                record.step(now, op.places, op.above, step, notices)
            }),
        }
    }

    /// Runs a step of a lock, of slots or of a job. A record that has expired is a new one.
    fn record<R>(&mut self, key: &str, step: &Step, run: impl FnOnce(&mut Record) -> R) -> R {
        let now = micros(self.now);
        self.part(key, |rows: &mut Part<'_, E, RowValue>| {
            let (before, known) = match rows.get(RECORD) {
                Some(RowValue::Record(record, until)) if until > now => (record, until),
                _ => (Record::default(), 0),
            };
            let mut record = before.clone();
            let answer = run(&mut record);
            if record != before {
                let last = record.last(now, step);
                let until = if record.has_ticks() { last.max(known) } else { last };
                rows.object.expires = Some(Duration::from_micros(until));
                rows.put(RECORD.to_owned(), RowValue::Record(record, until));
            }
            answer
        })
    }

    /// Returns what the steps have changed. `None`: an object has changed in the meantime.
    ///
    /// # Errors
    /// If a row could not be read.
    pub(crate) fn changes(self) -> Result<Option<Vec<Change>>, StoreError> {
        match self.failed {
            Some(ViewFailure::Store(error)) => return Err(error),
            Some(ViewFailure::Changed) => return Ok(None),
            None => {}
        }
        let at = self.now;
        let changes = self.objects.into_iter().filter_map(|(object, it)| {
            let rows = it.rows.into_iter().filter(|(_, known)| known.changed);
            let rows: Vec<_> = rows.map(|(key, known)| (key, known.row)).collect();
            let (version, expires) = (it.version.unwrap_or(0), it.expires);
            (!rows.is_empty()).then_some(Change { object, version, at, expires, rows })
        });
        Ok(Some(changes.collect()))
    }
}

impl ViewedObject {
    /// Adds rows that were loaded. Returns false if the object has changed since an earlier load.
    fn learn(&mut self, read: Vec<Which>, Loaded { version, rows, .. }: Loaded) -> bool {
        if *self.version.get_or_insert(version) != version {
            return false;
        }
        for which in read {
            match which {
                Which::Key(key) => {
                    self.rows.entry(key).or_insert(Known { row: None, changed: false });
                }
                Which::First { prefix, after, most } => {
                    let of_it = |key: &&String| {
                        key.starts_with(&prefix) && after.as_ref().is_none_or(|after| *key > after)
                    };
                    let keys = || rows.iter().map(|(key, _)| key).filter(of_it);
                    // Beyond the last of them, there may be rows that were not read.
                    let last = if keys().count() < most { None } else { keys().max().cloned() };
                    self.ranges.insert(prefix, last);
                }
            }
        }
        for (key, row) in rows {
            let known = self.rows.entry(key).or_insert(Known { row: None, changed: false });
            if !known.changed {
                known.row = Some(row);
            }
        }
        true
    }
}

/// The rows of an object, which are of one kind, during a step.
struct Part<'a, E, K> {
    engine: &'a mut E,
    now: &'a mut Duration,
    failed: &'a mut Option<ViewFailure>,
    key: &'a str,
    object: &'a mut ViewedObject,
    kind: PhantomData<K>,
}

impl<E: Engine, K> Part<'_, E, K> {
    /// Loads rows, unless the view has failed.
    fn load(&mut self, which: Which) {
        if self.failed.is_some() {
            return;
        }
        let mut read = Read { object: self.key.to_owned(), rows: vec![which] };
        match self.engine.load(std::slice::from_ref(&read)) {
            Ok(loaded) => {
                // An engine that does not answer is asked again from the beginning.
                let same = loaded.into_iter().next().is_some_and(|loaded| {
                    *self.now = (*self.now).max(loaded.now);
                    self.object.learn(mem::take(&mut read.rows), loaded)
                });
                if !same {
                    *self.failed = Some(ViewFailure::Changed);
                }
            }
            Err(error) => *self.failed = Some(ViewFailure::Store(error)),
        }
    }
}

impl<E: Engine, K: RowKind + Clone> Rows<K> for Part<'_, E, K> {
    fn get(&mut self, key: &str) -> Option<K> {
        if !self.object.rows.contains_key(key) {
            self.load(Which::Key(key.to_owned()));
        }
        if self.failed.is_some() {
            return None;
        }
        K::of(&self.object.rows.get(key)?.row.as_ref()?.0).cloned()
    }

    fn put(&mut self, key: String, value: K) {
        let row = Some(Value(value.keep()));
        self.object.rows.insert(key, Known { row, changed: true });
    }

    fn remove(&mut self, key: &str) {
        self.object.rows.insert(key.to_owned(), Known { row: None, changed: true });
    }

    fn first(&mut self, prefix: &str, most: usize) -> Vec<(String, K)> {
        while self.failed.is_none() {
            let read = self.object.ranges.get(prefix);
            let end = match read {
                // Rows behind the last that was read may be unknown.
                Some(Some(last)) => Bound::Included(last.as_str()),
                Some(None) => Bound::Unbounded,
                None => Bound::Excluded(prefix),
            };
            let rows = self.object.rows.range::<str, _>((Bound::Included(prefix), end));
            let rows = rows.take_while(|(key, _)| key.starts_with(prefix));
            let rows = rows.filter_map(|(key, known)| {
                Some((key.clone(), K::of(&known.row.as_ref()?.0)?.clone()))
            });
            let rows: Vec<_> = rows.take(most).collect();
            if rows.len() == most || matches!(read, Some(None)) {
                return rows;
            }
            let (prefix, after) = (prefix.to_owned(), read.cloned().flatten());
            self.load(Which::First { prefix, after, most });
        }
        Vec::new()
    }
}

/// The rows of an object by their keys.
pub(crate) type Whole = BTreeMap<String, Value>;

/// Forgets a record, or only its queue; the state of an actor, or all of its mailbox but the
/// messages.
pub(crate) fn forget_part(rows: &mut Whole, part: &str) {
    match part {
        "q" => {
            if let Some(Value(RowValue::Record(record, _))) = rows.get_mut(RECORD) {
                record.forget_queue();
            }
        }
        part => {
            let mut kept = BTreeMap::new();
            for (key, Value(value)) in mem::take(rows) {
                if let RowValue::Mailbox(row) = value {
                    kept.insert(key.into(), Arc::new(row));
                }
            }
            mailbox::forget_part(&mut kept, part);
            let rest = kept.into_iter();
            let rest = rest.map(|(key, row)| (key.to_string(), Value((*row).clone().keep())));
            rows.extend(rest);
        }
    }
}
