//! The options of the user.

use crate::loads::Sizes;

pub(crate) const USAGE: &str = "\
usage: turnwise-peers [--quick] [--markdown] [--rounds N] [--only WORD]

  --quick      a smoke run of some seconds: one round of tiny trials
  --markdown   the table as GitHub wants it
  --rounds N   how often everything is measured; the medians are printed
  --only WORD  only the peers whose name has this in it";

#[derive(Default, Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) markdown: bool,
    rounds: Option<usize>,
    pub(crate) only: Option<String>,
    /// Measure the memory of the peer with this number, and nothing else.
    pub(crate) resident: Option<usize>,
}

impl Options {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            let number = |value: String| {
                value.parse().map_err(|_| format!("{word} wants a number, not {value}"))
            };
            match word.as_str() {
                "--quick" => options.quick = true,
                "--markdown" => options.markdown = true,
                "--rounds" => match number(value()?)? {
                    0 => return Err("without a round there is nothing to print".into()),
                    rounds => options.rounds = Some(rounds),
                },
                "--only" => options.only = Some(value()?),
                "--resident" => options.resident = Some(number(value()?)?),
                _ => return Err(format!("{word} is nothing that I know")),
            }
        }
        Ok(options)
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 7 })
    }

    /// Length of a trial.
    pub(crate) fn trial_seconds(&self) -> f64 {
        if self.quick { 0.001 } else { 0.03 }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        if self.quick {
            Sizes { created: 2_000, asked: 500 }
        } else {
            Sizes { created: 100_000, asked: 10_000 }
        }
    }
}
