//! The peers in the order of the table.

use crate::loads::{Done, Load, Sizes, resident, run};
use crate::peer::Peer;
use crate::peers::{
    Actix, Coerce, DesyncTasks, DesyncThreads, Flume, Handwritten, Kameo, Kanal, MayActor, Ractor,
    TokioBounded, TokioUnbounded, TurnwiseBounded, TurnwisePool, TurnwiseTasks, TurnwiseThreads,
    UNBOUNDED, Xtra,
};

/// The bound where the peer leaves it to the user.
const BOUND: usize = 1024;
/// Twice the size of a block of tokio's list.
const BATCH: usize = 64;
/// The default of kameo's actors.
const KAMEO_BOUND: usize = 64;

pub(crate) struct Subject {
    /// With its version, if it has one.
    pub(crate) name: String,
    pub(crate) way: &'static str,
    pub(crate) bound: Option<usize>,
    pub(crate) note: Option<&'static str>,
    pub(crate) run: fn(Load, u64, u32, Sizes) -> Done,
    pub(crate) resident: fn(usize) -> Option<f64>,
}

pub(crate) fn all() -> Vec<Subject> {
    vec![
        of::<TurnwiseThreads>(),
        of::<TurnwiseTasks>(),
        of::<TurnwiseBounded<BOUND>>(),
        of::<TurnwisePool>(),
        of::<Handwritten>(),
        of::<TokioUnbounded<1>>(),
        of::<TokioUnbounded<BATCH>>(),
        of::<TokioBounded<BOUND>>(),
        of::<Kanal<UNBOUNDED>>(),
        of::<Kanal<BOUND>>(),
        of::<Flume<UNBOUNDED>>(),
        of::<Flume<BOUND>>(),
        of::<Actix<1>>(),
        of::<Actix<2>>(),
        of::<Kameo<UNBOUNDED>>(),
        of::<Kameo<KAMEO_BOUND>>(),
        of::<Ractor>(),
        of::<Xtra<UNBOUNDED>>(),
        of::<Xtra<BOUND>>(),
        of::<Coerce>(),
        of::<DesyncThreads>(),
        of::<DesyncTasks>(),
        of::<MayActor>(),
    ]
}

fn of<P: Peer>() -> Subject {
    let name = version(P::PACKAGE)
        .map_or(P::PACKAGE.to_owned(), |version| format!("{} {version}", P::PACKAGE));
    Subject {
        name,
        way: P::WAY,
        bound: P::BOUND,
        note: P::NOTE,
        run: run::<P>,
        resident: resident::<P>,
    }
}

/// Returns the version that was compiled in, from the lock file. Hand-written code has none.
fn version(package: &str) -> Option<&'static str> {
    let name = format!("name = \"{package}\"");
    let mut lines = include_str!("../../../Cargo.lock").lines().skip_while(|line| *line != name);
    lines.nth(1).and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
}
