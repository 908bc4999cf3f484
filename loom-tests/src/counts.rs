//! The number of executions of each model: a file records it, and a check compares it.
//!
//! The version of loom is pinned, so a count changes only if the sequence of shared accesses does:
//! for a move of code, equal counts prove that nothing else moved.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The runner's use of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    Ignored,
    /// A count that differs, or is not in the file, is an error.
    Checked,
    /// The counts are written into the file.
    Blessed,
}

/// Model, tree, and bounds.
pub(crate) type Key = (String, &'static str, &'static str);

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("executions.txt")
}

const HEAD: &str = "# Executions of each model: `run.sh --bless` writes them, `run.sh --check` compares.\n\
    # What is changed on purpose is blessed with the reason in the commit.\n";

fn read() -> BTreeMap<(String, String, String), u64> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let line = |line: &str| {
        let [model, tree, bounds, count] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(((model.into(), tree.into(), bounds.into()), count.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}

/// Sorts the jobs with the most executions first, by the file, so that no long one is left for the
/// end.
pub(crate) fn longest_first<J>(jobs: &mut [J], key: impl Fn(&J) -> Key) {
    let known = read();
    jobs.sort_by_key(|job| {
        let (model, tree, bounds) = key(job);
        std::cmp::Reverse(known.get(&(model, tree.to_owned(), bounds.to_owned())).copied())
    });
}

/// Returns the models to which a narrow COUNT makes no difference: they have as many executions in
/// both trees by the file, and still in the real one.
pub(crate) fn unsaturated(ran: &BTreeMap<Key, u64>) -> BTreeSet<String> {
    let known = read();
    let ran = ran.iter().filter(|((_, tree, bounds), _)| (*tree, *bounds) == ("real", "full"));
    let is_same = |model: &str, count: &u64| {
        let at = |tree: &str| known.get(&(model.to_owned(), tree.to_owned(), "full".to_owned()));
        at("real") == Some(count) && at("narrow") == Some(count)
    };
    let same = ran.filter(|((model, ..), count)| is_same(model, count));
    same.map(|((model, ..), _)| model.clone()).collect()
}

impl Counts {
    /// Compares or writes the counts. Returns false if one differs from the file. `whole`: every
    /// model was run at these bounds, so others are gone.
    pub(crate) fn settle(self, ran: &BTreeMap<Key, u64>, whole: bool) -> bool {
        if self == Counts::Ignored {
            return true;
        }
        let mut known = read();
        let owned =
            |(model, tree, bounds): &Key| (model.clone(), (*tree).to_owned(), (*bounds).to_owned());
        let at = |key: &(String, String, String)| ran.keys().any(|ran| ran.2 == key.2);
        let gone: Vec<_> = known.keys().filter(|key| whole && at(key)).cloned().collect();
        let gone: Vec<_> =
            gone.into_iter().filter(|key| !ran.keys().any(|ran| owned(ran) == *key)).collect();
        if self == Counts::Blessed {
            gone.iter().for_each(|key| _ = known.remove(key));
            known.extend(ran.iter().map(|(key, count)| (owned(key), *count)));
            let lines = known.iter().map(|((model, tree, bounds), count)| {
                format!("{model:<40} {tree:<8} {bounds:<8} {count}\n")
            });
            let text = HEAD.to_owned() + &lines.collect::<String>();
            fs::write(file(), text).expect("executions.txt can be written");
            return true;
        }
        let mut right = gone.is_empty();
        for (model, tree, bounds) in gone {
            println!("FAILED {model} {tree} {bounds}: executions.txt has it, and it was not run");
        }
        for (key, count) in ran {
            let (model, tree, bounds) = key;
            match known.get(&owned(key)) {
                Some(known) if known == count => continue,
                Some(known) => {
                    println!("FAILED {model} {tree} {bounds}: {count} executions, not {known}");
                }
                None => println!("FAILED {model} {tree} {bounds}: not in executions.txt"),
            }
            right = false;
        }
        right
    }
}
