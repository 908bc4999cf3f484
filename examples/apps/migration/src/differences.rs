//! The differences of the libraries; each cell is found by running it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::mpsc::UnboundedReceiver;

use crate::hall::{Bank, Report, Ticket};
use crate::scenario::{SHORT, open, play};
use crate::service::{Event, Failure, Sent, Service, poll_once};

/// The rows, in the order of [`cells`].
pub const QUESTIONS: [&str; 15] = [
    "Is it found by its name?",
    "Can it be opened and asked without a runtime?",
    "A tell to a mailbox with room for two, again and again",
    "An ask, when a tell finds the mailbox full",
    "An ask that is dropped before it is awaited",
    "An ask whose limit passes before its turn",
    "A panic, by default: its asker",
    "A panic, by default: an asker behind it",
    "A panic, with a restart: an asker behind it",
    "A panic, with a restart: the handle from before",
    "A stop: a turn that awaits",
    "A stop: an asker that waits",
    "A stop: a tell that waits",
    "A tell after the end",
    "An ask after the end",
];

/// Returns the behaviour of this library, row by row.
pub fn cells<S: Service>() -> Vec<String> {
    let (full_tell, full_ask) = play::<S, _>(full::<S>());
    let (asker, behind) = play::<S, _>(panic_by_default::<S>());
    let (restarted, handle) = play::<S, _>(panic_with_restart::<S>());
    let [turn, waiting, told, late_tell, late_ask] = play::<S, _>(stop::<S>());
    vec![
        play::<S, _>(name::<S>()),
        without_a_runtime::<S>(),
        full_tell,
        full_ask,
        play::<S, _>(unawaited::<S>()),
        play::<S, _>(limit::<S>()),
        asker,
        behind,
        restarted,
        handle,
        turn,
        waiting,
        told,
        late_tell,
        late_ask,
    ]
}

fn answer<T>(answer: Result<T, Failure>) -> String {
    match answer {
        Ok(_) => "is answered".into(),
        // The version's own code has produced the failure, not the library.
        Err(failure) if failure.said.is_empty() => format!("`{:?}`", failure.problem),
        Err(failure) => format!("`{}`", failure.said),
    }
}

fn tell(sent: Sent) -> String {
    match sent {
        Sent::Taken => "taken".into(),
        Sent::Refused { said, back: true } => format!("`{said}`, message back"),
        Sent::Refused { said, back: false } => format!("`{said}`, message lost"),
        Sent::Waits => "waits for room".into(),
    }
}

async fn name<S: Service>() -> String {
    let (opening, _events) = open(true);
    let name = opening.name.clone();
    let _hall = S::open(opening).await;
    match S::find(&name) {
        Some(found) => found.report().await.map_or("no", |_| "yes").into(),
        None => "no".into(),
    }
}

fn without_a_runtime<S: Service>() -> String {
    let (opening, _events) = open(true);
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let hall = poll_once(S::open(opening))?;
        poll_once(hall.report())
    }));
    match opened {
        Ok(Some(Ok(_))) => "yes".into(),
        Ok(_) => "no".into(),
        Err(_) => "no: it panics".into(),
    }
}

/// Checks a hall with a turn that awaits a bank.
async fn full<S: Service>() -> (String, String) {
    let (opening, _events) = open(true);
    let hall = S::open(opening).await;
    let (mut bank, payment) = Bank::new();
    let fill = async {
        bank.is_asked().await;
        let mut fit = 0;
        let last = loop {
            match hall.release(0) {
                Sent::Taken if fit < 100 => fit += 1,
                other => break other,
            }
        };
        // The first poll sends it, or waits, or neither. Then it is dropped; a message that was
        // sent stays.
        let (other_bank, payment) = Bank::new();
        let asked = match poll_once(hall.confirm(0, payment)) {
            Some(refused) => answer(refused),
            None if other_bank.is_alone() => "waits for room".into(),
            None => "is taken".into(),
        };
        drop(other_bank);
        bank.answer(false);
        (fit, last, asked)
    };
    let (_, (fit, last, asked)) = tokio::join!(biased; hall.confirm(0, payment), fill);
    let told = match last {
        Sent::Taken => "all are taken".into(),
        last => format!("{fit} fit; {}", tell(last)),
    };
    (told, asked)
}

async fn unawaited<S: Service>() -> String {
    let (opening, _events) = open(true);
    let hall = S::open(opening).await;
    hall.reserve_unawaited(1);
    ran(hall.report().await)
}

fn ran(report: Result<Report, Failure>) -> String {
    match report.expect("an open hall").held {
        0 => "never runs".into(),
        _ => "runs".into(),
    }
}

async fn limit<S: Service>() -> String {
    let (opening, _events) = open(true);
    let hall = S::open(opening).await;
    let (mut bank, payment) = Bank::new();
    let late = async {
        bank.is_asked().await;
        let late = hall.reserve_within(1, SHORT).await;
        bank.answer(false);
        late.expect_err("a limit that passes").said
    };
    let (_, said) = tokio::join!(biased; hall.confirm(0, payment), late);
    format!("`{said}`; {}", ran(hall.report().await))
}

/// Checks a panic, and a request that was sent before it.
async fn panic<S: Service>(hall: &S) -> (Result<u32, Failure>, Result<Ticket, Failure>) {
    let (mut bank, payment) = Bank::new();
    let pay = async {
        bank.is_asked().await;
        bank.answer(false);
    };
    let (_, panicked, behind, ()) =
        tokio::join!(biased; hall.confirm(0, payment), hall.refund(0), hall.reserve(1), pay);
    (panicked, behind)
}

async fn panic_by_default<S: Service>() -> (String, String) {
    let (opening, _events) = open(false);
    let hall = S::open(opening).await;
    let (panicked, behind) = panic(&hall).await;
    (answer(panicked), answer(behind))
}

async fn panic_with_restart<S: Service>() -> (String, String) {
    let (opening, mut events) = open(true);
    let hall = S::open(opening).await;
    let (_, behind) = panic(&hall).await;
    assert_eq!(events.recv().await, Some(Event::Reopened), "{}", S::LIBRARY);
    hall.report().await.expect("an open hall");
    (answer(behind), answer(hall.report_to_first_handle().await))
}

async fn stop<S: Service>() -> [String; 5] {
    let (opening, mut events) = open(true);
    let hall = S::open(opening).await;
    let ticket = hall.reserve(2).await.expect("free seats");
    let (mut bank, payment) = Bank::new();
    let stop = async {
        bank.is_asked().await;
        assert_eq!(hall.release(ticket), Sent::Taken, "{}", S::LIBRARY);
        hall.stop().await;
        bank.answer(false);
    };
    // The two seats are free again if the release runs; the request that waits needs one.
    let (turn, waiting, ()) = tokio::join!(biased; hall.confirm(0, payment), hall.reserve(1), stop);
    let turn = match turn {
        Err(failure) if !failure.said.is_empty() => format!("is cut: `{}`", failure.said),
        _ => "ends first".into(),
    };
    let told = fate(&mut events, ticket).await;
    hall.ended().await;
    let late = hall.report().await;
    [turn, answer(waiting), told, tell(hall.release(ticket)), answer(late)]
}

/// Returns the outcome of the release that waited.
async fn fate(events: &mut UnboundedReceiver<Event>, ticket: Ticket) -> String {
    let mut lost = false;
    loop {
        match events.recv().await.expect("an end") {
            Event::Lost(released) => lost |= released == ticket,
            Event::Ended(_) if lost => return "a hook has it".into(),
            Event::Ended(Report { held, .. }) if held < 2 => return "is run".into(),
            Event::Ended(_) => return "is lost".into(),
            Event::Reopened => unreachable!("nothing has panicked"),
        }
    }
}
