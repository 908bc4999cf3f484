//! The site of each ordering, and the weakening of one.
//!
//! A site is `file@line@op`, with `:ok` or `:fail` for the two orderings of a compare-and-swap. It
//! is found by itself: the wrappers know their callers. `MUTANT=file@line@op[:half]:Ordering`
//! weakens one for the whole process (`None` removes a fence).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::panic::Location;
use std::sync::atomic::Ordering;

/// A place in the source with an ordering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    pub(crate) file: String,
    pub(crate) line: u32,
    /// The operation, with its half.
    pub(crate) op: String,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}@{}", self.file, self.line, self.op)
    }
}

#[derive(Default)]
enum Mode {
    #[default]
    Plain,
    /// Every operation with its half, its place and its ordering.
    List(HashSet<(&'static str, &'static str, &'static Location<'static>, Ordering)>),
    Weaken {
        site: Site,
        to: Option<Ordering>,
        hits: u64,
    },
}

std::thread_local! {
    static MODE: RefCell<Mode> = const { RefCell::new(Mode::Plain) };
}

/// Returns the path below `src/`, wherever the tree was included from; also that of the locks.
pub(crate) fn tail(file: &str) -> &str {
    let at = ["/src/", "/narrow/"]
        .iter()
        .filter_map(|dir| file.rfind(dir).map(|at| at + dir.len()))
        .max();
    let below = &file[at.unwrap_or(0)..];
    below.strip_prefix("locks/").unwrap_or(below)
}

/// Neither lists nor weakens from now on.
#[allow(dead_code, reason = "each model has a process of its own here; another gate has threads")]
pub(crate) fn plain() {
    MODE.set(Mode::Plain);
}

/// Lists sites from now on.
pub(crate) fn list() {
    MODE.set(Mode::List(HashSet::new()));
}

/// Returns the listed sites, each with its ordering.
pub(crate) fn listed() -> Vec<(Site, String)> {
    MODE.with_borrow(|mode| match mode {
        Mode::List(sites) => {
            let all = sites.iter().map(|&(op, half, caller, ordering)| {
                let site = Site {
                    file: tail(caller.file()).to_owned(),
                    line: caller.line(),
                    op: format!("{op}{half}"),
                };
                (site, caller.column(), format!("{ordering:?}"))
            });
            let sorted = all.collect::<BTreeSet<_>>();
            sorted.into_iter().map(|(site, _, ordering)| (site, ordering)).collect()
        }
        _ => Vec::new(),
    })
}

/// Weakens one ordering from now on.
pub(crate) fn weaken(mutant: &str) -> Result<(), String> {
    let bad = || format!("`{mutant}` is not file@line@op[:half]:Ordering");
    let (site, to) = mutant.rsplit_once(':').ok_or_else(bad)?;
    let mut parts = site.split('@');
    let (Some(file), Some(line), Some(op), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad());
    };
    let to = match to {
        "Relaxed" => Some(Ordering::Relaxed),
        "Acquire" => Some(Ordering::Acquire),
        "Release" => Some(Ordering::Release),
        "AcqRel" => Some(Ordering::AcqRel),
        "None" => None,
        _ => return Err(bad()),
    };
    let site =
        Site { file: file.to_owned(), line: line.parse().map_err(|_| bad())?, op: op.to_owned() };
    MODE.set(Mode::Weaken { site, to, hits: 0 });
    Ok(())
}

/// True if the weakened ordering was used, or none was to be weakened.
pub(crate) fn was_hit() -> bool {
    MODE.with_borrow(|mode| !matches!(mode, Mode::Weaken { hits: 0, .. }))
}

/// Returns the ordering to use at the caller's site; `None` is no fence at all.
#[track_caller]
pub(super) fn pass(op: &'static str, half: &'static str, ordering: Ordering) -> Option<Ordering> {
    let caller = Location::caller();
    MODE.with_borrow_mut(|mode| match mode {
        Mode::Plain => Some(ordering),
        Mode::List(sites) => {
            sites.insert((op, half, caller, ordering));
            Some(ordering)
        }
        Mode::Weaken { site, to, hits } => {
            let here = caller.line() == site.line
                && site.op.strip_prefix(op) == Some(half)
                && tail(caller.file()) == site.file;
            if here {
                *hits += 1;
                *to
            } else {
                Some(ordering)
            }
        }
    })
}
