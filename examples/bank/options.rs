//! The command line.

use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: bank [--accounts N] [--transfers N] [--threads N] [--rounds N | --seconds N] [--json]

  --accounts N   accounts, at least 2                                 (1000)
  --transfers N  transfers in one round, over all threads             (200000)
  --threads N    threads that make transfers                          (as many as the machine runs at once)
  --rounds N     rounds for each of the two banks, one after another  (5)
  --seconds N    instead of --rounds: go on for so long
  --json         one JSON object instead of the table
  --help         this text

Exit code: 0; 1 if a sum was wrong or the output could not be written; 2 for a bad option.";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) accounts: usize,
    pub(crate) transfers: usize,
    pub(crate) threads: usize,
    pub(crate) rounds: u64,
    pub(crate) seconds: Option<Duration>,
    pub(crate) json: bool,
}

/// Parses the options. Returns none if only help was requested.
pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let mut options = Options {
        accounts: 1_000,
        transfers: 200_000,
        threads,
        rounds: 5,
        seconds: None,
        json: false,
    };
    let mut arguments = arguments;
    let mut rounds = None;
    while let Some(argument) = arguments.next() {
        let (flag, inline) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_string())),
            None => (argument.as_str(), None),
        };
        match flag {
            "--help" | "-h" | "--json" if inline.is_some() => {
                return Err(format!("{flag} takes no value"));
            }
            "--help" | "-h" => return Ok(None),
            "--json" => {
                options.json = true;
                continue;
            }
            "--accounts" | "--transfers" | "--threads" | "--rounds" | "--seconds" => {}
            _ => return Err(format!("unknown option {argument}")),
        }
        let value =
            inline.or_else(|| arguments.next()).ok_or_else(|| format!("{flag} needs a number"))?;
        let number: u64 =
            value.parse().map_err(|_| format!("{flag} needs a number, not {value:?}"))?;
        let least = if flag == "--accounts" { 2 } else { 1 };
        let most = if flag == "--threads" { 1_024 } else { 1_000_000_000 };
        if !(least..=most).contains(&number) {
            return Err(format!("{flag} must be from {least} to {most}"));
        }
        match flag {
            "--accounts" => options.accounts = number as usize,
            "--transfers" => options.transfers = number as usize,
            "--threads" => options.threads = number as usize,
            "--rounds" => rounds = Some(number),
            _ => options.seconds = Some(Duration::from_secs(number)),
        }
    }
    if rounds.is_some() && options.seconds.is_some() {
        return Err("--rounds and --seconds exclude each other".into());
    }
    options.rounds = rounds.unwrap_or(options.rounds);
    Ok(Some(options))
}
