//! Four ways to count the words of many texts. The first one is the subject of the example.

use std::collections::HashMap;
use std::error::Error;
use std::ops::Range;

use dashmap::DashMap;
use parking_lot::Mutex;
use rayon::prelude::*;
use turnwise::Actor;

use crate::corpus::Text;
use crate::executor::Place;
use crate::text::{self, Piece};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
pub(crate) type Counts = HashMap<Box<str>, u64>;

/// A way to count, and its names: in JSON, and in the table.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) count: fn(&Job<'_>) -> Result<Counts, Failure>,
}

pub(crate) const WAYS: [Way; 4] = [
    Way { name: "turnwise", label: "actors (turnwise)", count: turnwise },
    Way { name: "parking_lot", label: "mutexes (parking_lot)", count: mutexes },
    Way { name: "dashmap", label: "concurrent map (dashmap)", count: dashmap },
    Way { name: "one thread", label: "one thread", count: one_thread },
];

/// The texts, the executor, and the progress.
pub(crate) struct Job<'a> {
    pub(crate) texts: &'a [Text],
    pub(crate) pool: &'a rayon::ThreadPool,
    /// The executor of the actors.
    pub(crate) place: &'a Place,
    pub(crate) shards: usize,
    pub(crate) done: &'a (dyn Fn(u64) + Sync),
}

impl Job<'_> {
    /// Reads and splits all texts in the pool; `deliver` gets every piece, from many threads at
    /// once.
    fn read(
        &self,
        shards: usize,
        deliver: impl Fn(Piece) -> Result<(), Failure> + Sync,
    ) -> Result<(), Failure> {
        self.pool.install(|| {
            self.texts.par_iter().try_for_each(|one| {
                let text = one.read()?;
                text::pieces(&text)
                    .into_par_iter()
                    .try_for_each(|piece| deliver(text::split(piece, shards)))?;
                (self.done)(text.len() as u64);
                Ok(())
            })
        })
    }
}

/// Uses an actor per shard: a reader leaves its words and reads on, even if another thread counts
/// in that shard. (On another executor, it always leaves them.)
pub(crate) fn turnwise(job: &Job<'_>) -> Result<Counts, Failure> {
    let shard = |_| job.place.run(Actor::builder()).spawn(Counts::new());
    let shards = (0..job.shards).map(shard).collect::<Result<Vec<_>, _>>()?;
    job.read(job.shards, |piece| {
        let Piece { text, words } = piece;
        for (shard, words) in shards.iter().zip(words) {
            let text = text.clone();
            shard.send(move |counts| count(counts, &text, &words))?;
        }
        Ok(())
    })?;
    // All sends have returned, so these requests come after them: each is answered when its shard
    // has counted everything.
    let parts =
        shards.iter().map(|shard| shard.with(std::mem::take)).collect::<Result<Vec<_>, _>>()?;
    Ok(parts.into_iter().flatten().collect())
}

/// Uses a mutex per shard: a reader that finds it locked waits.
pub(crate) fn mutexes(job: &Job<'_>) -> Result<Counts, Failure> {
    let shards: Vec<Mutex<Counts>> = (0..job.shards).map(|_| Mutex::new(Counts::new())).collect();
    job.read(job.shards, |piece| {
        for (shard, words) in shards.iter().zip(&piece.words) {
            count(&mut shard.lock(), &piece.text, words);
        }
        Ok(())
    })?;
    Ok(shards.into_iter().flat_map(Mutex::into_inner).collect())
}

/// Uses a concurrent map, locked per word. It has shards of its own, so the words are not sorted
/// for it.
pub(crate) fn dashmap(job: &Job<'_>) -> Result<Counts, Failure> {
    let map = DashMap::<Box<str>, u64>::new();
    job.read(1, |piece| {
        for word in piece.words.into_iter().flatten() {
            let word = &piece.text[word];
            // The lock of the first look-up is released before the second: a known word needs no
            // allocation.
            let found = map.get_mut(word).map(|mut n| *n += 1);
            if found.is_none() {
                *map.entry(word.into()).or_default() += 1;
            }
        }
        Ok(())
    })?;
    Ok(map.into_iter().collect())
}

/// Uses one thread, which shares nothing.
pub(crate) fn one_thread(job: &Job<'_>) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for one in job.texts {
        let text = one.read()?;
        plainly(&text, &mut counts);
        (job.done)(text.len() as u64);
    }
    Ok(counts)
}

/// Counts one text on one thread, as a reference for the others.
pub(crate) fn plainly(text: &str, counts: &mut Counts) {
    for piece in text::pieces(text) {
        let Piece { text, words } = text::split(piece, 1);
        words.iter().for_each(|words| count(counts, &text, words));
    }
}

fn count(counts: &mut Counts, text: &str, words: &[Range<usize>]) {
    for word in words {
        let word = &text[word.clone()];
        match counts.get_mut(word) {
            Some(n) => *n += 1,
            None => {
                counts.insert(word.into(), 1);
            }
        }
    }
}
