//! The output of the program.

use std::fmt::Write as _;
use std::sync::Once;

use crate::actix::Actix;
use crate::differences::{QUESTIONS, cells};
use crate::hall::BUG;
use crate::kameo::Kameo;
use crate::lines::{SOURCES, lines};
use crate::ractor::Ractor;
use crate::scenario::{Transcript, transcript};
use crate::service::Service;
use crate::turnwise::Turnwise;
use crate::xtra::Xtra;

/// A version, and its results.
pub struct Version {
    pub library: &'static str,
    pub transcript: Transcript,
    pub cells: Vec<String>,
    pub lines: usize,
}

fn version<S: Service>(source: &str) -> Version {
    Version {
        library: S::LIBRARY,
        transcript: transcript::<S>(),
        cells: cells::<S>(),
        lines: lines(source),
    }
}

/// Runs all versions, one after the other.
pub fn versions() -> [Version; 5] {
    expect_panics();
    [
        version::<Turnwise>(SOURCES[0]),
        version::<Kameo>(SOURCES[1]),
        version::<Ractor>(SOURCES[2]),
        version::<Xtra>(SOURCES[3]),
        version::<Actix>(SOURCES[4]),
    ]
}

/// Hides the panics that are part of the scenario.
pub fn expect_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload_as_str().unwrap_or_default();
            // The latter two are tokio's and actix's, outside a runtime.
            if ![BUG, "there is no reactor running", "`spawn_local` called from outside"]
                .iter()
                .any(|part| text.contains(part))
            {
                print(panic);
            }
        }));
    });
}

/// Returns true if all transcripts are equal.
pub fn agree(versions: &[Version]) -> bool {
    versions.iter().all(|version| version.transcript == versions[0].transcript)
}

/// Formats the whole report, in 80 columns.
pub fn report(versions: &[Version]) -> String {
    let mut out = String::from("The seats of a hall, with five libraries of actors.\n\n");
    for (asked, answered) in &versions[0].transcript {
        writeln!(out, "  {asked:<38}{answered}").unwrap();
    }
    out += "\n";
    for version in versions {
        match first_difference(&versions[0].transcript, &version.transcript) {
            None => writeln!(out, "  {:<10}the same", version.library),
            Some(other) => writeln!(out, "  {:<10}DIFFERS: {other}", version.library),
        }
        .unwrap();
    }
    out += "\nLines of code, without blank ones and comments:\n\n";
    for version in versions {
        writeln!(out, "  {:<10}{:>4}", version.library, version.lines).unwrap();
    }
    out += "\nWhere the libraries differ:\n";
    for (row, question) in QUESTIONS.iter().enumerate() {
        writeln!(out, "\n{question}").unwrap();
        for version in versions {
            let cell = version.cells[row].replace('`', "");
            writeln!(out, "  {:<10}{cell}", version.library).unwrap();
        }
    }
    out
}

fn first_difference(right: &Transcript, other: &Transcript) -> Option<String> {
    let lines = right.len().max(other.len());
    let at = (0..lines).find(|&at| right.get(at) != other.get(at))?;
    Some(match other.get(at) {
        Some((asked, answered)) => format!("{asked}: {answered}"),
        None => "it ends too soon".into(),
    })
}
