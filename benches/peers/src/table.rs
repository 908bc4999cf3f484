//! The table, for a terminal or for a page.

use std::io::{self, Write};

use crate::loads::Load;
use crate::measure::{LOADS, Row};
use crate::options::Options;

/// The note below the table on missing figures.
const NO_FIGURE: &str = "This system does not tell how much memory a process has.";

pub(crate) fn print(rows: &[Row<'_>], options: &Options, mut to: impl Write) -> io::Result<()> {
    let mut notes: Vec<&str> = vec![];
    let mut note = |text: Option<&'static str>| {
        let Some(text) = text else { return String::new() };
        let place = notes.iter().position(|&other| other == text).unwrap_or_else(|| {
            notes.push(text);
            notes.len() - 1
        });
        format!(" ({})", place + 1)
    };
    let mut lines = vec![head()];
    for row in rows {
        let subject = row.subject;
        let mut line = vec![format!("{}{}", subject.name, note(subject.note)), subject.way.into()];
        line.push(subject.bound.map_or("unbounded".into(), |bound| grouped(bound as f64)));
        for (figure, load) in row.figures.iter().zip(LOADS) {
            let told = matches!(load, Load::Tell { .. });
            line.push(if told {
                format!("{} / {}", short(figure.wall), short(figure.cpu))
            } else {
                short(figure.wall)
            });
        }
        line.push(row.resident.map_or_else(|| format!("-{}", note(Some(NO_FIGURE))), grouped));
        lines.push(line);
    }
    if options.markdown {
        as_markdown(&lines, &mut to)?
    } else {
        aligned(&lines, &mut to)?
    }

    let sizes = options.sizes();
    writeln!(to)?;
    writeln!(
        to,
        "Nanoseconds for each message, hop or actor; medians over {} round{}, in which the rows take turns. tell: N senders to one actor \
         until all is handled, handlers of about 0 and 65 ns, no sender pauses unless it must; time / processor time of the whole process. \
         ask: one question after another. ask 8: eight askers, one actor. ping-pong, ring 100: one message on its way, per hop. random 8: \
         eight askers, any of {} actors. create: made, one message handled, dropped; of {} actors. bytes: resident for an idle one of \
         them, its state of 32 bytes or more and its handle included.",
        options.rounds(),
        if options.rounds() == 1 { "" } else { "s" },
        grouped(sizes.asked as f64),
        grouped(sizes.created as f64),
    )?;
    for (i, text) in notes.iter().enumerate() {
        writeln!(to, "{}({}) {text}", if options.markdown { "\n" } else { "" }, i + 1)?;
    }
    if options.quick {
        writeln!(to, "\nA smoke run: these figures mean nothing.")?;
    }
    Ok(())
}

fn head() -> Vec<String> {
    let mut head: Vec<String> = ["crate", "way", "mailbox"].map(String::from).into();
    head.extend(LOADS.iter().map(|load| match *load {
        Load::Tell { senders, handler_ns } => format!("tell {senders}, {handler_ns} ns"),
        Load::Ask { askers: 1 } => "ask".into(),
        Load::Ask { askers } => format!("ask {askers}"),
        Load::Pass { actors: 2 } => "ping-pong".into(),
        Load::Pass { actors } => format!("ring {actors}"),
        Load::Create => "create".into(),
        Load::Random { askers } => format!("random {askers}"),
    }));
    head.push("bytes".into());
    head
}

/// The columns that are words.
const WORDS: usize = 3;

fn as_markdown(lines: &[Vec<String>], to: &mut impl Write) -> io::Result<()> {
    for (i, line) in lines.iter().enumerate() {
        writeln!(to, "| {} |", line.join(" | "))?;
        if i == 0 {
            let rules = (0..line.len()).map(|column| if column < WORDS { "---" } else { "--:" });
            writeln!(to, "|{}|", rules.collect::<Vec<_>>().join("|"))?;
        }
    }
    Ok(())
}

fn aligned(lines: &[Vec<String>], to: &mut impl Write) -> io::Result<()> {
    let plain: Vec<Vec<String>> =
        lines.iter().map(|line| line.iter().map(|cell| cell.replace('`', "")).collect()).collect();
    let widths: Vec<usize> = (0..plain[0].len())
        .map(|column| plain.iter().map(|line| line[column].len()).max().unwrap_or(0))
        .collect();
    for line in &plain {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(i, (cell, &width))| {
            if i < WORDS { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        writeln!(to, "{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}

/// Formats a number with three digits.
fn short(number: f64) -> String {
    if number < 9.95 { format!("{number:.1}") } else { grouped(number) }
}

/// Whole, with commas.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
