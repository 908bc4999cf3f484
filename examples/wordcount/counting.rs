//! Four ways to count the words of many texts. The first is the one that the example is about.

use std::collections::HashMap;
use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;

use dashmap::DashMap;
use parking_lot::Mutex;
use rayon::prelude::*;
use turnwise::Actor;

use crate::executor::Place;
use crate::text::{self, Piece};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
pub(crate) type Counts = HashMap<Box<str>, u64>;

/// What is counted, where, and who is told of each file that is done.
pub(crate) struct Job<'a> {
    pub(crate) files: &'a [PathBuf],
    pub(crate) pool: &'a rayon::ThreadPool,
    /// Where the actors run.
    pub(crate) place: &'a Place,
    pub(crate) shards: usize,
    pub(crate) done: &'a (dyn Fn() + Sync),
}

impl Job<'_> {
    /// Reads and splits all files in the pool; `deliver` gets every piece, from many threads at
    /// once.
    fn read(
        &self,
        shards: usize,
        deliver: impl Fn(Piece) -> Result<(), Failure> + Sync,
    ) -> Result<(), Failure> {
        self.pool.install(|| {
            self.files.par_iter().try_for_each(|file| {
                let text =
                    text::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
                text::pieces(&text)
                    .into_par_iter()
                    .try_for_each(|piece| deliver(text::split(piece, shards)))?;
                (self.done)();
                Ok(())
            })
        })
    }
}

/// An actor per shard: a reader leaves its words and reads on, whoever else is counting in that
/// shard. (If the actors run elsewhere, it always leaves them.)
pub(crate) fn turnwise(job: &Job<'_>) -> Result<Counts, Failure> {
    let shard = |_| job.place.run(Actor::builder(Counts::new())).spawn();
    let shards = (0..job.shards).map(shard).collect::<Result<Vec<_>, _>>()?;
    job.read(job.shards, |piece| {
        let Piece { text, words } = piece;
        for (shard, words) in shards.iter().zip(words) {
            let text = text.clone();
            shard.send(move |counts| count(counts, &text, &words))?;
        }
        Ok(())
    })?;
    // All sends have returned, so these questions come after them: each is answered when its shard
    // has counted everything.
    let parts =
        shards.iter().map(|shard| shard.with(std::mem::take)).collect::<Result<Vec<_>, _>>()?;
    Ok(parts.into_iter().flatten().collect())
}

/// A mutex per shard: a reader that finds it locked waits.
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

/// A concurrent map, locked per word. It shards by itself, so the words are not sorted for it.
pub(crate) fn dashmap(job: &Job<'_>) -> Result<Counts, Failure> {
    let map = DashMap::<Box<str>, u64>::new();
    job.read(1, |piece| {
        for word in piece.words.into_iter().flatten() {
            let word = &piece.text[word];
            // The lock of the first look is given back before the second: nothing is allocated for
            // a word that is there.
            let found = map.get_mut(word).map(|mut n| *n += 1);
            if found.is_none() {
                *map.entry(word.into()).or_default() += 1;
            }
        }
        Ok(())
    })?;
    Ok(map.into_iter().collect())
}

/// One file on one thread: what the others are checked against.
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
