//! The command line.

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::prelude::*;

use crate::executor::Choice;

pub(crate) const USAGE: &str = "\
Count words in a thread pool: with actors, with mutexes, with a concurrent map.

usage: wordcount [OPTIONS] [PATH]...

  PATH...           files, or folders with everything below them. Without one:
                    the Rust sources that cargo has downloaded, or, where there
                    are too few of them, a text that is made up
  --limit MB        count no more than so much         (32 if there is no PATH)
  --generate        count a text that is made up, the same each time
  --repeat N        how many times each way of counting is measured         (3)
  --threads N       threads of the pool                     (one per processor)
  --shards N        actors, or mutexes, that share the words  (four per thread)
  --executor WHERE  where the actors count:                            (inline)
                      inline   on the threads that read
                      rayon    in the same pool, behind what is read
                      pool     in a pool of turnwise's, with as many threads
                      threads  on as many threads that a channel feeds
  --top N           how many of the most frequent words to show             (6)
  --json            one JSON object instead of the table
  --help            this text

Exit code: 0; 1 if there was nothing to count, the results differ, or the output
could not be written; 2 for a bad option, or a PATH that is not there.";

pub(crate) struct Options {
    pub(crate) paths: Vec<PathBuf>,
    /// In megabytes.
    pub(crate) limit: Option<u64>,
    pub(crate) generate: bool,
    pub(crate) repeat: usize,
    pub(crate) threads: usize,
    pub(crate) shards: usize,
    pub(crate) executor: Choice,
    pub(crate) top: usize,
    pub(crate) json: bool,
}

/// Parses the options. Returns none if only help was requested.
pub(crate) fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        paths: Vec::new(),
        limit: None,
        generate: false,
        repeat: 3,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        shards: 0,
        executor: Choice::Inline,
        top: 6,
        json: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("json") => options.json = true,
            Long("generate") => options.generate = true,
            Long("limit") => options.limit = Some(number(&mut parser, "--limit", 1..=100_000)?),
            Long("repeat") => options.repeat = number(&mut parser, "--repeat", 1..=1000)?,
            Long("threads") => options.threads = number(&mut parser, "--threads", 1..=1024)?,
            Long("shards") => options.shards = number(&mut parser, "--shards", 1..=65_536)?,
            Long("top") => options.top = number(&mut parser, "--top", 0..=1_000_000)?,
            Long("executor") => options.executor = choice(&parser.value()?)?,
            Value(path) => options.paths.push(path.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    if options.generate && !options.paths.is_empty() {
        return Err("--generate needs no PATH".into());
    }
    if options.shards == 0 {
        options.shards = 4 * options.threads;
    }
    Ok(Some(options))
}

fn choice(name: &OsStr) -> Result<Choice, lexopt::Error> {
    let named = name.to_str().and_then(|name| name.parse().ok());
    let names = Choice::ALL.map(Choice::name).join(", ");
    named.ok_or_else(|| format!("--executor is one of {names}, not {name:?}").into())
}

fn number<N>(
    parser: &mut lexopt::Parser,
    option: &str,
    range: RangeInclusive<N>,
) -> Result<N, lexopt::Error>
where
    N: FromStr + PartialOrd + Display,
{
    let value = parser.value()?;
    match value.to_str().and_then(|text| text.parse().ok()) {
        Some(number) if range.contains(&number) => Ok(number),
        _ => {
            let (least, most) = (range.start(), range.end());
            Err(format!("{option} is a number from {least} to {most}, not {value:?}").into())
        }
    }
}
