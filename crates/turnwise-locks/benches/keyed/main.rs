//! The cost of a run by key, beside other locks by key.
//!
//! Short trials in which all contestants take turns in one process, so that a change of the
//! machine's pace meets all of them; per round the ratio to each rival, over the rounds the
//! medians.
//!
//! ```text
//! cargo bench -p turnwise-locks --bench keyed [-- [--rounds N] [--only WORK] [--markdown] [--quick]]
//! ```
//! A ratio above what must be reached is marked with `<`.

mod growth;
mod locks;
mod memory;
mod race;
mod rows;
mod slots;
mod subjects;

use race::Line;

/// Arguments of the program.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    only: String,
    markdown: bool,
    /// Measure the memory of this, and nothing else.
    cell: Option<String>,
}

const USAGE: &str = "\
usage: cargo bench -p turnwise-locks --bench keyed [-- OPTIONS]

  --rounds N    how often everything is measured; the medians are printed
  --only WORK   only the rows whose name has this in it
  --markdown    the table as GitHub wants it
  --quick       one round of tiny trials: figures that mean nothing, answers that do";

/// A row or several, under the name that `--only` knows.
type Row = (&'static str, fn(&Options) -> Vec<Line>);

const ROWS: &[Row] = &[
    ("fresh", rows::fresh),
    ("pinned", rows::pinned),
    ("hot", rows::hot),
    ("zipf", rows::zipf),
    ("slow", rows::slow),
    ("locks", locks::rows),
    ("slots", slots::rows),
    ("growth", growth::rows),
];

fn main() {
    let options = Options::read(std::env::args().skip(1)).unwrap_or_else(|why| {
        eprintln!("keyed: {why}\n\n{USAGE}");
        std::process::exit(2);
    });
    if let Some(name) = &options.cell {
        return memory::cell(name, &options);
    }
    if "memory".contains(&options.only) {
        memory::print(&options);
    }
    let mut missed = 0;
    options.head();
    for (_, row) in ROWS.iter().filter(|(name, _)| name.contains(&options.only)) {
        for line in row(&options) {
            missed += usize::from(options.print(&line));
        }
    }
    println!("{missed} missed");
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options =
            Options { rounds: 31, quick: false, only: String::new(), markdown: false, cell: None };
        let mut measure = false;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            match word.as_str() {
                // Without it this is a test run.
                "--bench" => measure = true,
                "--test" | "--quick" => options.quick = true,
                "--rounds" => {
                    let rounds = value()?;
                    options.rounds =
                        rounds.parse().map_err(|_| format!("{rounds} is not a number"))?;
                }
                "--only" => options.only = value()?,
                "--cell" => options.cell = Some(value()?),
                "--markdown" => options.markdown = true,
                "--nocapture" | "--quiet" | "-q" => {}
                flag if flag.starts_with('-') => return Err(format!("{flag} is nothing I know")),
                filter => options.only = filter.to_owned(),
            }
        }
        options.quick |= !measure;
        if options.rounds == 0 {
            return Err("without a round there is nothing to print".into());
        }
        if options.quick {
            options.rounds = 1;
        }
        Ok(options)
    }

    fn head(&self) {
        if self.markdown {
            println!("| work | | against | ns | ns | ratio | must | aim |");
            println!("|---|---|---|---:|---:|---:|---:|---:|");
        }
    }

    /// Prints a line; says whether it misses what must be reached.
    fn print(&self, line: &Line) -> bool {
        let Line { work, name, against, ns, ratio, must, aim } = line;
        let bar = |bar: &Option<f64>| bar.map_or("-".to_owned(), |bar| format!("{bar:.2}"));
        let missed = must.is_some_and(|must| *ratio > must);
        let mark = if missed { " <" } else { "" };
        let (must, aim) = (bar(must), bar(aim));
        if self.markdown {
            println!(
                "| {work} | {name} | {against} | {:.0} | {:.0} | {ratio:.2}{mark} | {must} | {aim} |",
                ns.0, ns.1
            );
        } else {
            println!(
                "{work:<42} {name:<22} {against:<20} {:>9.1} {:>9.1} {ratio:>6.2} ({must}, {aim}){mark}",
                ns.0, ns.1
            );
        }
        missed
    }
}
