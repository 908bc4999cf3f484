//! The subjects of the comparison. Their work is in `benches/workloads`.

use crate::workloads::rivals::{Channel, Handwritten, Textbook};
use crate::workloads::runs::{Took, exchange, timed};
use crate::workloads::{Asks, ParkingLot, Sends, Std, Subject, Turnwise, With as TurnwiseWith};

pub(crate) const TURNWISE: &str = "turnwise";
pub(crate) const MUTEX: &str = "parking_lot";
/// The subjects, in the order of the output.
pub(crate) const SUBJECTS: [&str; 6] =
    [TURNWISE, MUTEX, "std", "textbook", "hand-written", "channel"];

/// The use of the result by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    Send,
    With,
}

impl Work {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Send => "send",
            Work::With => "with",
        }
    }
}

/// One subject, for the sorts of work that it suits.
pub(crate) struct Contender {
    pub(crate) subject: &'static str,
    pub(crate) works: &'static [Work],
    /// The number of threads of its own.
    pub(crate) helpers: usize,
    /// Threads, messages of each, rounds of the handler, rounds of own work.
    pub(crate) run: fn(usize, u64, u32, u32) -> Took,
    pub(crate) time: fn(usize, u64, u32, u32, u64) -> Vec<u32>,
}

/// Returns all of them; the actors have this many threads besides those that send.
pub(crate) fn contenders(helpers: usize) -> [Contender; 10] {
    use Work::{Send, With};
    fn of<S: Subject>(subject: usize, works: &'static [Work]) -> Contender {
        let subject = SUBJECTS[subject];
        Contender {
            subject,
            works,
            helpers: usize::from(subject == "channel"),
            run: exchange::<S>,
            time: timed::<S>,
        }
    }
    let actors = |contender| Contender { helpers, ..contender };
    [
        actors(of::<Sends<Turnwise>>(0, &[Send])),
        actors(of::<Asks<TurnwiseWith>>(0, &[With])),
        of::<Sends<ParkingLot>>(1, &[Send, With]),
        of::<Sends<Std>>(2, &[Send, With]),
        of::<Sends<Textbook>>(3, &[Send]),
        of::<Asks<Textbook>>(3, &[With]),
        of::<Sends<Handwritten>>(4, &[Send]),
        of::<Asks<Handwritten>>(4, &[With]),
        of::<Sends<Channel>>(5, &[Send]),
        of::<Asks<Channel>>(5, &[With]),
    ]
}
