//! A day of the hall, run with each version. The transcript has the hall's answers, not the
//! library's: all five must be equal.
//!
//! Nothing depends on timing. The bank is part of the scenario, so a turn awaits until the scenario
//! answers; and messages of two callers are sent in the order of the first polls.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::hall::{Bank, Report, Ticket};
use crate::service::{Event, Failure, Log, Opening, Service};

/// A limit that always passes, because the awaited event cannot come before.
pub const SHORT: Duration = Duration::from_millis(20);

/// Opens a hall with six seats, and room for two messages.
pub fn open(restarts: bool) -> (Opening, UnboundedReceiver<Event>) {
    // Some libraries have one registry of names for the whole process.
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    let (log, events) = Log::new();
    let name = format!("hall {}", OPENED.fetch_add(1, Relaxed));
    (Opening { name, seats: 6, room: 2, restarts, log }, events)
}

/// Runs this in the library's runtime. A wait that never ends would be a bug, and is reported.
pub fn play<S: Service, R>(work: impl Future<Output = R>) -> R {
    let patient = async { timeout(Duration::from_secs(30), work).await };
    S::block_on(patient).unwrap_or_else(|_| panic!("{}: a wait that does not end", S::LIBRARY))
}

/// The requests and their answers, in order.
pub type Transcript = Vec<(&'static str, String)>;

pub fn transcript<S: Service>() -> Transcript {
    play::<S, _>(day::<S>())
}

/// Formats an answer, or the reason why there is none.
fn told<T>(answer: Result<T, Failure>, words: impl FnOnce(T) -> String) -> String {
    answer.map_or_else(|failure| format!("{:?}", failure.problem), words)
}

fn ticket(answer: Result<Ticket, Failure>) -> String {
    told(answer, |ticket| format!("ticket {ticket}"))
}

fn paid(answer: Result<(), Failure>) -> String {
    told(answer, |()| "paid".into())
}

fn refunded(answer: Result<u32, Failure>) -> String {
    told(answer, |seats| format!("{seats} seats"))
}

fn seats(answer: Result<Report, Failure>) -> String {
    told(answer, |Report { free, held, paid }| format!("{free} free, {held} held, {paid} paid"))
}

async fn day<S: Service>() -> Transcript {
    let (opening, mut events) = open(true);
    let hall = S::open(opening).await;
    let mut day = Transcript::new();

    // Requests, and messages without an answer.
    day.push(("reserve 2", ticket(hall.reserve(2).await)));
    day.push(("reserve 9", ticket(hall.reserve(9).await)));
    day.push(("reserve 3", ticket(hall.reserve(3).await)));
    day.push(("release ticket 2", format!("{:?}", hall.release(2))));
    day.push(("report", seats(hall.report().await)));

    // A turn that awaits: later messages wait, and may have a limit.
    let (mut bank, payment) = Bank::new();
    let (confirmed, late, report) = tokio::join!(
        biased;
        hall.confirm(1, payment),
        async {
            bank.is_asked().await;
            // Without effect on the hall, whether it runs later or never.
            let late = hall.reserve_within(9, SHORT).await;
            bank.answer(true);
            late
        },
        hall.report(),
    );
    day.push(("confirm ticket 1, the bank pays", paid(confirmed)));
    day.push(("reserve 9 meanwhile, within a limit", ticket(late)));
    day.push(("report meanwhile, without one", seats(report)));
    day.push(("reserve 1", ticket(hall.reserve(1).await)));
    let (mut bank, payment) = Bank::new();
    let declined = async {
        bank.is_asked().await;
        bank.answer(false);
    };
    let (confirmed, ()) = tokio::join!(biased; hall.confirm(3, payment), declined);
    day.push(("confirm ticket 3, the bank does not", paid(confirmed)));
    day.push(("refund ticket 1", refunded(hall.refund(1).await)));
    day.push(("report", seats(hall.report().await)));

    // A turn that panics, and the next hall.
    day.push(("reserve 4", ticket(hall.reserve(4).await)));
    day.push(("refund ticket 1 again: a panic", refunded(hall.refund(1).await)));
    let reopened = events.recv().await.expect("the log is open");
    day.push(("seen from outside", format!("{reopened:?}")));
    day.push(("report", seats(hall.report().await)));

    // The end: earlier messages are run.
    day.push(("reserve 2", ticket(hall.reserve(2).await)));
    let (mut bank, payment) = Bank::new();
    let close = async {
        bank.is_asked().await;
        hall.close().await;
        bank.answer(true);
    };
    let (confirmed, reserved, ()) =
        tokio::join!(biased; hall.confirm(1, payment), hall.reserve(3), close);
    day.push(("confirm ticket 1, closed meanwhile", paid(confirmed)));
    day.push(("reserve 3, before that", ticket(reserved)));
    let ended = events.recv().await.expect("the log is open");
    hall.ended().await;
    let Event::Ended(report) = ended else { panic!("{}: {ended:?}", S::LIBRARY) };
    day.push(("in the end", seats(Ok(report))));
    let late = hall.report().await;
    // The library's answer then is one of the differences.
    let answered = if late.is_ok() { "an answer" } else { "no answer" };
    day.push(("report after the end", answered.into()));
    day
}
