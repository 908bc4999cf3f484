//! Finds, reads and splits texts: the common part of all ways to count.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The approximate size of a piece of text, in bytes.
const PIECE: usize = 64 << 10;

/// A part of a text and the words in it, sorted into shards.
pub(crate) struct Piece {
    /// Shared, because a message to an actor may outlive the sender's borrow of the text.
    pub(crate) text: Arc<str>,
    /// The ranges of the words in `text`, for each shard.
    pub(crate) words: Vec<Vec<Range<usize>>>,
}

/// Finds the regular files at and below `paths`, sorted. Links inside folders are not followed.
/// Files that cannot be examined are reported.
pub(crate) fn find(paths: &[PathBuf], mut report: impl FnMut(&Path, &io::Error)) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left: Vec<(PathBuf, bool)> =
        paths.iter().rev().map(|path| (path.clone(), true)).collect();
    while let Some((path, named)) = left.pop() {
        let looked = if named { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        match looked {
            Ok(about) if about.is_dir() => match folder(&path) {
                Ok(entries) => left.extend(entries.into_iter().rev().map(|entry| (entry, false))),
                Err(error) => report(&path, &error),
            },
            Ok(about) if about.is_file() => files.push(path),
            // A pipe or a device may never end.
            Ok(_) if named => {
                report(&path, &io::Error::new(io::ErrorKind::InvalidInput, "not a file or folder"))
            }
            Ok(_) => {}
            Err(error) => report(&path, &error),
        }
    }
    files
}

fn folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// Reads a whole text.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    String::from_utf8(fs::read(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Cuts a text into pieces of about [`PIECE`] bytes, at white space.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > PIECE {
        let Some(from) = (PIECE..rest.len()).find(|&at| rest.is_char_boundary(at)) else { break };
        let Some(cut) = rest[from..].find(char::is_whitespace) else { break };
        let (piece, after) = rest.split_at(from + cut);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Splits a piece of text into its words, in lower case: runs of letters and digits, sorted into
/// `shards` by a hash of the word.
pub(crate) fn split(piece: &str, shards: usize) -> Piece {
    let text: Arc<str> = piece.to_lowercase().into();
    let mut words = vec![Vec::new(); shards];
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (c.is_alphanumeric(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words[shard_of(&text[from..at], shards)].push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        words[shard_of(&text[from..], shards)].push(from..text.len());
    }
    Piece { text, words }
}

/// Hashes a word with FNV-1a, which differs from the hash in the maps, so that a shard's words
/// spread over all of its buckets.
fn shard_of(word: &str, shards: usize) -> usize {
    if shards == 1 {
        return 0;
    }
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize % shards
}
