//! The output: a short table, or JSON.

use std::io::{self, Write};

use crate::Outcome;
use crate::counting::WAYS;

/// The maximum length of a line.
const COLUMNS: usize = 80;

pub(crate) fn table(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let Outcome { name, texts, skipped, bytes, words, distinct, top, .. } = outcome;
    let Outcome { executor, threads, shards, matches, seconds, repeat, .. } = outcome;
    let what = match (counted(*texts as u64, "file"), *skipped) {
        (files, 0) => files,
        (files, skipped) => format!("{files} ({skipped} skipped)"),
    };
    let megabytes = *bytes as f64 / 1e6;
    wrapped(out, &format!("Counted the words of {what}, {megabytes:.1} MB: {name}."))?;
    let mut found = format!("{}, {} different", counted(*words, "word"), grouped(*distinct as u64));
    for (n, (word, times)) in top.iter().enumerate() {
        found += if n == 0 { "; most often " } else { ", " };
        found += &format!("{word} {}", grouped(*times));
    }
    wrapped(out, &(found + "."))?;

    let ratio_to = |name: &str| seconds.iter().find(|(way, _)| *way == name).map(|(_, s)| *s);
    let mutexes = ratio_to("parking_lot").unwrap_or(f64::NAN);
    writeln!(out, "\n  {:<28}{:>10}{:>10}{:>18}", "", "time", "MB/s", "to the mutexes")?;
    for (way, seconds) in seconds {
        let label =
            WAYS.iter().find(|known| known.name == *way).map_or("one thread", |way| way.label);
        writeln!(
            out,
            "  {label:<28}{:>10}{:>10.0}{:>17.2}x",
            time(*seconds),
            megabytes / seconds,
            seconds / mutexes
        )?;
    }
    let verdict = if *matches {
        "All agree: the same count for every word."
    } else {
        "THEY DIFFER: not all of them have found the same."
    };
    writeln!(out, "\n{verdict}")?;
    writeln!(
        out,
        "medians of {repeat} in turn; {threads} threads, {shards} shards, actors run {}",
        executor.name()
    )
}

/// Writes JSON without a library. Only the description of the texts needs quoting: words are
/// letters and digits, and the other texts are constants.
pub(crate) fn json(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    let Outcome { name, texts, skipped, lines, bytes, words, distinct, top, .. } = outcome;
    let Outcome { executor, threads, shards, matches, seconds, repeat, .. } = outcome;
    let seconds: Vec<_> = seconds
        .iter()
        .map(|(way, seconds)| format!("\"{}\":{seconds:.6}", way.replace(' ', "_")))
        .collect();
    let top: Vec<_> = top.iter().map(|(word, n)| format!("[\"{word}\",{n}]")).collect();
    writeln!(
        out,
        "{{\"counted\":{},\"files\":{texts},\"skipped\":{skipped},\"bytes\":{bytes},\
         \"lines\":{lines},\"words\":{words},\"distinct\":{distinct},\"matches\":{matches},\
         \"executor\":\"{}\",\"threads\":{threads},\"shards\":{shards},\"repeat\":{repeat},\
         \"seconds\":{{{}}},\"top\":[{}]}}",
        quoted(name),
        executor.name(),
        seconds.join(","),
        top.join(",")
    )
}

/// Quotes a string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Formats a number of things.
fn counted(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// Formats 1234567 as 1,234,567.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a time in three digits and a unit.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (1e3 * s, "ms"),
        s => (1e6 * s, "µs"),
    };
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}

/// Writes lines of whole words; a word that is longer than a line has one of its own.
fn wrapped(out: &mut impl Write, text: &str) -> io::Result<()> {
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            writeln!(out)?;
            column = 0;
        } else if column > 0 {
            write!(out, " ")?;
            column += 1;
        }
        write!(out, "{word}")?;
        column += width;
    }
    writeln!(out)
}
