//! The texts: the named files; or the Rust sources that cargo has downloaded, which exist wherever
//! this program was built; or, if they are too few, a generated text.

use std::borrow::Cow;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::counting::Failure;
use crate::options::Options;
use crate::text;

/// The default limit, in megabytes.
const LIMIT: u64 = 32;
/// The minimum size of the sources in megabytes: less is too little work to measure.
const TOO_FEW: u64 = 8;

/// One text: a file, which is read for each count, or memory.
pub(crate) enum Text {
    File(PathBuf, u64),
    Memory(String),
}

impl Text {
    pub(crate) fn read(&self) -> Result<Cow<'_, str>, Failure> {
        match self {
            Text::File(path, _) => match text::read(path) {
                Ok(text) => Ok(text.into()),
                Err(error) => Err(format!("{}: {error}", path.display()).into()),
            },
            Text::Memory(text) => Ok(text.as_str().into()),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Text::File(_, bytes) => *bytes,
            Text::Memory(text) => text.len() as u64,
        }
    }
}

/// All texts, and their description.
pub(crate) struct Corpus {
    pub(crate) texts: Vec<Text>,
    pub(crate) name: String,
    /// The number of files and folders that could not be read; each has been reported.
    pub(crate) skipped: usize,
}

impl Corpus {
    /// Finds the texts of the options.
    pub(crate) fn find(options: &Options) -> Result<Self, Failure> {
        const MB: u64 = 1_000_000;
        let limit = options.limit.unwrap_or(LIMIT) * MB;
        if options.generate {
            return Ok(Self::made_up(limit));
        }
        if options.paths.is_empty() {
            let sources = registry().map(|folder| Self::sources(&folder, limit));
            let enough = |sources: &Self| {
                let bytes = sources.texts.iter().map(Text::bytes).sum::<u64>();
                // Half of the limit suffices: files above the limit were left out one by one.
                2 * bytes >= limit.min(TOO_FEW * MB)
            };
            return Ok(sources.filter(enough).unwrap_or_else(|| Self::made_up(limit)));
        }
        let mut skipped = 0;
        let files = text::find(&options.paths, |path, error| {
            skipped += 1;
            eprintln!("wordcount: {}: {error}; skipped", path.display());
        });
        let found = files.len();
        let texts = up_to(options.limit.map_or(u64::MAX, |limit| limit * MB), files);
        let cut = texts.len() < found;
        let names: Vec<_> = options.paths.iter().map(|path| path.display().to_string()).collect();
        let name = if cut { "the first in " } else { "" }.to_owned() + &names.join(", ");
        if found == 0 {
            return Err(format!("there are no files in {}", names.join(", ")).into());
        }
        if texts.is_empty() {
            return Err("the first file is larger than --limit".into());
        }
        Ok(Corpus { texts, name, skipped })
    }

    /// Finds the Rust sources below a folder, the first by name.
    fn sources(folder: &Path, limit: u64) -> Self {
        let mut files = text::find(&[folder.to_owned()], |_, _| ());
        files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
        let name = format!("the first of the Rust sources in {}", at_home(folder));
        // A file that is not text is skipped without a report: it was not named.
        let mut texts = up_to(limit, files);
        texts.retain(|text| text.read().is_ok());
        Corpus { texts, name, skipped: 0 }
    }

    /// Generates this many bytes of text, with words as frequent as those of a language: the second
    /// half as often as the first, the third a third as often.
    fn made_up(limit: u64) -> Self {
        const WORDS: usize = 50_000;
        const TEXT: usize = 32 << 10;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            // xorshift64
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 11
        };
        let words: Vec<String> = (0..WORDS)
            .map(|n| {
                let syllables = 1 + n.checked_ilog(20).unwrap_or(0);
                (0..syllables)
                    .map(|_| {
                        let (consonant, vowel) = (random() % 20, random() % 5);
                        let pick = |all: &str, n: u64| char::from(all.as_bytes()[n as usize]);
                        String::from_iter([
                            pick("bcdfghjklmnpqrstvwxz", consonant),
                            pick("aeiou", vowel),
                        ])
                    })
                    .collect()
            })
            .collect();
        let largest = (WORDS as f64).ln();
        let mut text = || {
            let mut text = String::with_capacity(TEXT + 64);
            let mut column = 0;
            while text.len() < TEXT {
                let part = random() as f64 / (1_u64 << 53) as f64;
                let word = &words[((largest * part).exp() as usize).min(WORDS) - 1];
                column += 1;
                text += word;
                text.push(if column % 12 == 0 { '\n' } else { ' ' });
            }
            Text::Memory(text)
        };
        let texts = (0..limit.div_ceil(TEXT as u64)).map(|_| text()).collect();
        Corpus { texts, name: "made up, and never on a disk".into(), skipped: 0 }
    }
}

/// Returns files in their order, up to this many bytes.
fn up_to(limit: u64, files: Vec<PathBuf>) -> Vec<Text> {
    let mut left = limit;
    let mut texts = Vec::new();
    for file in files {
        // A file that cannot be read is reported when it is counted.
        let bytes = fs::metadata(&file).map_or(0, |about| about.len());
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => break,
        }
        texts.push(Text::File(file, bytes));
    }
    texts
}

/// Returns the folder of the sources that cargo has downloaded.
fn registry() -> Option<PathBuf> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let sources = cargo.or_else(|| Some(home()?.join(".cargo")))?.join("registry/src");
    sources.is_dir().then_some(sources)
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME").or_else(|| env::var_os("USERPROFILE")).map(PathBuf::from)
}

/// Formats a path: shorter, if it is below the home directory.
fn at_home(path: &Path) -> String {
    match home().as_deref().map(|home| path.strip_prefix(home)) {
        Some(Ok(rest)) => format!("~/{}", rest.display()),
        _ => path.display().to_string(),
    }
}

/// Finds a named path that cannot be counted: reported before the work, not after it.
pub(crate) fn missing(paths: &[PathBuf]) -> Option<String> {
    paths.iter().find_map(|path| {
        let error = match fs::metadata(path) {
            Ok(about) if about.is_dir() || about.is_file() => return None,
            // A pipe or a device may never end.
            Ok(_) => io::Error::new(io::ErrorKind::InvalidInput, "not a file or folder"),
            Err(error) => error,
        };
        Some(format!("{}: {error}", path.display()))
    })
}
