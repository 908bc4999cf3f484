//! An engine as a user would write one, which loses races on purpose: other processes change an
//! object between its load and its swap, or between two loads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use turnwise_redis::StoreError;
use turnwise_redis::engine::{Change, Engine, Loaded, Read, Value, Which};
use turnwise_redis::step::Notice;

use super::Dice;

/// The database, which several engines share, as processes do.
#[derive(Clone, Default)]
pub struct Shelf(Arc<Mutex<Objects>>);

#[derive(Default)]
struct Objects {
    versions: BTreeMap<String, u64>,
    rows: BTreeMap<(String, String), Vec<u8>>,
    notices: Vec<Notice>,
    /// The numbers of swaps, and of those that have lost a race.
    swaps: u64,
    lost: u64,
}

/// A client of the shelf.
pub struct Naive {
    shelf: Shelf,
    dice: Dice,
    /// The number of notices that were read.
    heard: usize,
}

impl Shelf {
    pub fn engine(&self, seed: u64) -> Naive {
        Naive { shelf: self.clone(), dice: Dice(seed), heard: 0 }
    }

    /// Returns the number of swaps, and of those that have lost a race.
    pub fn swaps(&self) -> (u64, u64) {
        let objects = self.0.lock().unwrap();
        (objects.swaps, objects.lost)
    }
}

impl Objects {
    fn version(&self, object: &str) -> u64 {
        self.versions.get(object).copied().unwrap_or(0)
    }

    fn read(&self, object: &str, which: &Which) -> Result<Vec<(String, Value)>, StoreError> {
        let (from, most) = match which {
            Which::Key(key) => (key, 1),
            Which::First { prefix, after, most } => (after.as_ref().unwrap_or(prefix), *most),
        };
        let rows = self.rows.range((object.to_owned(), from.clone())..);
        let rows = rows.filter(|((of, key), _)| match which {
            Which::Key(wanted) => of == object && key == wanted,
            Which::First { prefix, after, .. } => {
                of == object && key.starts_with(prefix) && after.as_ref() != Some(key)
            }
        });
        let rows =
            rows.take(most).map(|((_, key), row)| Ok((key.clone(), Value::from_bytes(row)?)));
        rows.collect()
    }
}

impl Engine for Naive {
    fn load(&mut self, reads: &[Read]) -> Result<Vec<Loaded>, StoreError> {
        let mut objects = self.shelf.0.lock().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let mut all = Vec::new();
        for Read { object, rows: which } in reads {
            // Another process has changed the object, and left it as it was.
            if self.dice.roll(8) == 0
                && let Some(version) = objects.versions.get_mut(object)
            {
                *version += 1;
            }
            let mut rows = Vec::new();
            for which in which {
                rows.extend(objects.read(object, which)?);
            }
            all.push(Loaded { now, version: objects.version(object), rows });
        }
        Ok(all)
    }

    fn swap(&mut self, changes: &[Change], notices: &[Notice]) -> Result<bool, StoreError> {
        let mut objects = self.shelf.0.lock().unwrap();
        match self.dice.roll(32) {
            // The request is lost.
            0 => {
                let why = "lost".to_owned();
                return Err(StoreError::Unreachable { since: Duration::ZERO, why });
            }
            1..=6 if let Some(change) = changes.last() => {
                *objects.versions.entry(change.object.clone()).or_default() += 1;
            }
            _ => {}
        }
        objects.swaps += 1;
        if changes.iter().any(|change| objects.version(&change.object) != change.version) {
            objects.lost += 1;
            return Ok(false);
        }
        for Change { object, version, rows, .. } in changes {
            objects.versions.insert(object.clone(), version + 1);
            for (key, row) in rows {
                let key = (object.clone(), key.clone());
                match row {
                    Some(row) => drop(objects.rows.insert(key, row.to_bytes())),
                    None => drop(objects.rows.remove(&key)),
                }
            }
        }
        // Its own notices arrive twice, which is harmless.
        objects.notices.extend_from_slice(notices);
        Ok(true)
    }

    fn heard(&mut self) -> Result<Vec<Notice>, StoreError> {
        let objects = self.shelf.0.lock().unwrap();
        let notices = objects.notices[self.heard..].to_vec();
        self.heard = objects.notices.len();
        Ok(notices)
    }
}
