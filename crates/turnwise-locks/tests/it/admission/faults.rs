//! Failures and panics of every call of the ledger: rows and counts agree, and answers are true.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwise::executor::DrainQueue;
use turnwise_locks::Limits;
use turnwise_locks::admission::{Admission, Admitted, Fault, InMemory, OpenError, Refused};

use super::book::{Call, Controls, Entry, Fate, Raffle, Trouble, book};

/// An admission whose passes the test runs.
fn raffle(limit: u64) -> (Raffle, Controls, DrainQueue) {
    let (ledger, controls) = book();
    let queue = DrainQueue::new();
    let raffle = Admission::builder(ledger, limit)
        .group_time(Duration::MAX)
        .executor(queue.handle())
        .open()
        .unwrap();
    (raffle, controls, queue)
}

type Told = Result<Admitted<u64>, Refused<Trouble>>;

/// Applies for all of them in one pass, and returns the answers.
fn pass(raffle: &Raffle, queue: &DrainQueue, ids: &[u64]) -> Vec<(u64, Told)> {
    let all: Vec<(u64, Entry)> =
        ids.iter().map(|id| (*id, raffle.apply(*id, Limits::NONE))).collect();
    queue.run_until_idle();
    all.into_iter()
        .map(|(id, apply)| {
            assert!(apply.is_ready(), "{id} is not answered");
            (id, apply.wait())
        })
        .collect()
}

/// One call goes wrong, once.
fn once(controls: &Controls, at: Call, fate: Fate) {
    let mut done = false;
    controls.plan(move |call| {
        if call == at && !done {
            done = true;
            fate
        } else {
            Fate::Good
        }
    });
}

fn places(told: &[(u64, Told)]) -> Vec<Option<u64>> {
    told.iter().map(|(_, told)| told.as_ref().ok().map(|admitted| admitted.place)).collect()
}

#[test]
fn who_is_not_entered_is_undone_alone() {
    let (raffle, controls, queue) = raffle(10);
    once(&controls, Call::Enter(2), Fate::Error);
    let told = pass(&raffle, &queue, &[1, 2, 3]);
    assert_eq!(places(&told), [Some(1), None, Some(2)]);
    assert!(
        matches!(&told[1].1, Err(Refused::Failed(fault)) if fault.error() == Some(&Trouble(1)))
    );
    assert_eq!(controls.rows(), [(1, 1), (3, 2)]);
    assert_eq!((raffle.status().count, controls.disk().commits.len()), (2, 1));
    controls.check();
}

#[test]
fn a_panic_in_enter_concerns_one() {
    for fate in [Fate::PanicBefore, Fate::PanicAfter] {
        let (raffle, controls, queue) = raffle(10);
        once(&controls, Call::Enter(3), fate);
        let told = pass(&raffle, &queue, &[1, 2, 3, 4, 2]);
        assert_eq!(places(&told), [Some(1), Some(2), None, Some(3), None]);
        assert!(
            matches!(&told[2].1, Err(Refused::Failed(Fault::Panic(text))) if text.contains("planned"))
        );
        assert!(matches!(told[4].1, Err(Refused::Duplicate { place: 2 })));
        assert_eq!(controls.rows(), [(1, 1), (2, 2), (4, 3)]);
        controls.check();
    }
}

/// The others of a pass are entered again, but once for each panic after them: the next one does
/// not concern them.
#[test]
fn many_panics_are_not_many_times_many_entries() {
    let (raffle, controls, queue) = raffle(1_000);
    controls.plan(|call| match call {
        Call::Enter(id) if id % 3 == 2 => Fate::PanicAfter,
        _ => Fate::Good,
    });
    let ids: Vec<u64> = (0..240).collect();
    let told = pass(&raffle, &queue, &ids);
    assert_eq!(told.iter().filter(|(_, told)| told.is_ok()).count(), 160);
    let entered =
        controls.disk().calls.iter().filter(|call| matches!(call, Call::Enter(_))).count();
    assert!(entered <= 2 * 240, "{entered} entries for 240 applicants");
    controls.check();
}

#[test]
fn a_failed_commit_lets_nobody_in() {
    let (raffle, controls, queue) = raffle(3);
    once(&controls, Call::Commit, Fate::Error);
    // 1 again, and 5 for whom there is no place: their answers must not follow from rows that
    // are undone. They are decided anew, and are in.
    let told = pass(&raffle, &queue, &[1, 2, 1, 3, 5]);
    assert_eq!(places(&told), [None, None, Some(1), None, Some(2)]);
    let mut troubles = Vec::new();
    for at in [0, 1, 3] {
        let Err(Refused::CommitFailed(Fault::Error(trouble))) = &told[at].1 else {
            panic!("{:?}", told[at]);
        };
        troubles.push(trouble.clone());
    }
    assert!(Arc::ptr_eq(&troubles[0], &troubles[2]), "one error, for all");
    assert_eq!(controls.rows(), [(1, 1), (5, 2)]);
    let status = raffle.status();
    assert_eq!((status.count, status.closed), (2, false));
    // The place that was undone is free.
    assert_eq!(places(&pass(&raffle, &queue, &[2, 3])), [Some(3), None]);
    assert!(raffle.status().closed);
    controls.check();
}

#[test]
fn a_commit_in_doubt_is_looked_up() {
    for (fate, is_in) in [
        (Fate::DoubtIn, true),
        (Fate::DoubtOut, false),
        (Fate::PanicAfter, true),
        (Fate::PanicBefore, false),
    ] {
        let (raffle, controls, queue) = raffle(10);
        once(&controls, Call::Commit, fate);
        let told = pass(&raffle, &queue, &[1, 2]);
        let expected = if is_in { [Some(1), Some(2)] } else { [None, None] };
        assert_eq!(places(&told), expected, "{fate:?}");
        if !is_in {
            assert!(matches!(told[0].1, Err(Refused::CommitFailed(_))));
        }
        assert_eq!(raffle.status().count, controls.rows().len() as u64);
        assert_eq!(controls.rows().len(), if is_in { 2 } else { 0 });
        controls.check();
    }
}

/// The outcome is unknown: the answers say so, and no other gets in before it is known.
#[test]
fn nobody_enters_a_book_in_doubt() {
    for fate in [Fate::DoubtIn, Fate::DoubtOut] {
        let (raffle, controls, queue) = raffle(2);
        let mut loads = 0;
        controls.plan(move |call| match call {
            Call::Commit if loads == 0 => fate,
            Call::Load => {
                loads += 1;
                [Fate::Error, Fate::PanicBefore, Fate::Good][2.min(loads - 1)]
            }
            _ => Fate::Good,
        });
        let told = pass(&raffle, &queue, &[1, 2, 1, 3]);
        assert!(matches!(told[0].1, Err(Refused::Unknown(_))), "{:?}", told[0]);
        assert!(matches!(told[1].1, Err(Refused::Unknown(_))));
        assert!(matches!(told[2].1, Err(Refused::Failed(_))));
        assert!(matches!(told[3].1, Err(Refused::Failed(_))));
        // The second look panics, the third tells.
        let told = pass(&raffle, &queue, &[7, 1]);
        assert!(matches!(told[0].1, Err(Refused::Failed(Fault::Panic(_)))));
        match fate {
            // Both places are taken, whatever the answers to 1 and 2 were.
            Fate::DoubtIn => assert!(matches!(told[1].1, Err(Refused::Duplicate { place: 1 }))),
            _ => assert!(matches!(told[1].1, Ok(Admitted { place: 1, .. }))),
        }
        assert_eq!(raffle.status().count, controls.rows().len() as u64);
        controls.check();
    }
}

#[test]
fn a_begin_that_fails_concerns_one() {
    for fate in [Fate::Error, Fate::PanicBefore, Fate::PanicAfter] {
        let (raffle, controls, queue) = raffle(10);
        once(&controls, Call::Begin, fate);
        let told = pass(&raffle, &queue, &[1, 2]);
        assert_eq!(places(&told), [None, Some(1)], "{fate:?}");
        assert!(matches!(told[0].1, Err(Refused::Failed(_))));
        controls.check();
    }
}

#[test]
fn a_pass_of_failures_commits_nothing() {
    let (raffle, controls, queue) = raffle(10);
    controls.plan(|call| if let Call::Enter(_) = call { Fate::Error } else { Fate::Good });
    let told = pass(&raffle, &queue, &[1, 2]);
    assert_eq!(places(&told), [None, None]);
    assert_eq!((controls.count(Call::Begin), controls.count(Call::Commit)), (1, 0));
    assert_eq!(controls.count(Call::RollBack), 1);
    controls.check();
}

#[test]
fn a_book_that_cannot_be_read_is_not_opened() {
    for fate in [Fate::Error, Fate::PanicBefore] {
        let (ledger, controls) = book();
        controls.plan(move |_| fate);
        let error = Admission::open(ledger, 1).unwrap_err();
        assert!(matches!(error, OpenError::Load(_)), "{error}");
    }
    let none = Admission::<u64, _>::builder(InMemory, 1).group(0).open();
    assert!(matches!(none, Err(OpenError::GroupZero)));
}

/// The next place is one more than the last, for as many as ever come.
#[test]
fn a_book_whose_last_place_is_too_high_is_not_opened() {
    let (ledger, controls) = book();
    controls.disk().rows.push((1, u64::MAX));
    let error = Admission::open(ledger, 2).unwrap_err();
    assert!(matches!(error, OpenError::Load(Fault::Panic(_))), "{error}");
}

/// A source of numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The answer to each application, in the order of applying.
struct Truth {
    told: HashMap<u64, Vec<Told>>,
    last: u64,
}

impl Truth {
    fn check(&mut self, told: Vec<(u64, Told)>, controls: &Controls, limit: u64) {
        let rows: HashMap<u64, u64> = controls.rows().into_iter().collect();
        for (id, told) in told {
            match &told {
                Ok(admitted) => {
                    assert_eq!(
                        rows.get(&id),
                        Some(&admitted.place),
                        "{id} was answered that it is in"
                    );
                    assert_eq!(admitted.row, 10 * admitted.place);
                    assert!(admitted.place > self.last, "out of order");
                    self.last = admitted.place;
                }
                Err(Refused::Duplicate { place }) => assert_eq!(rows.get(&id), Some(place)),
                Err(Refused::Closed { .. }) => assert!(rows.len() as u64 >= limit),
                Err(Refused::Failed(_) | Refused::CommitFailed(_) | Refused::Unknown(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
            self.told.entry(id).or_default().push(told);
        }
        assert!(rows.len() as u64 <= limit);
    }

    /// Each row has an answer that says so, or that it is unknown; other answers have no row.
    fn finish(&self, controls: &Controls) {
        let rows: HashMap<u64, u64> = controls.rows().into_iter().collect();
        for (id, told) in &self.told {
            let entered = told.iter().filter(|told| told.is_ok()).count();
            let unknown = told.iter().any(|told| matches!(told, Err(Refused::Unknown(_))));
            match rows.contains_key(id) {
                true => assert!(entered == 1 || entered == 0 && unknown, "{id}: {told:?}"),
                false => assert_eq!(entered, 0, "{id}: {told:?}"),
            }
        }
    }
}

/// 1,000 passes of some applicants each. In each of them, some calls of the ledger go wrong.
fn passes(seed: u64, limit: u64, faults: impl Fn(u64, &mut Dice) -> Fate + Send + Copy + 'static) {
    let (raffle, controls, queue) = raffle(limit);
    let mut dice = Dice(seed);
    let mut truth = Truth { told: HashMap::new(), last: 0 };
    for number in 0..1_000 {
        let mut fates = Dice(dice.roll(u64::MAX >> 34));
        let mut calls = 0;
        controls.plan(move |_| {
            calls += 1;
            faults(number * 100 + calls, &mut fates)
        });
        let ids: Vec<u64> = (0..=dice.roll(6)).map(|_| dice.roll(2 * limit)).collect();
        let told = pass(&raffle, &queue, &ids);
        truth.check(told, &controls, limit);
        // The next applicant finds out what is in doubt.
        controls.plan(|call| if call == Call::Enter(u64::MAX) { Fate::Error } else { Fate::Good });
        let told = pass(&raffle, &queue, &[u64::MAX]);
        assert!(told[0].1.is_err());
        let (status, rows) = (raffle.status(), controls.rows().len() as u64);
        assert_eq!((status.count, status.closed), (rows, rows >= limit));
        controls.check();
    }
    truth.finish(&controls);
}

const FATES: [Fate; 6] =
    [Fate::Error, Fate::PanicBefore, Fate::PanicAfter, Fate::DoubtIn, Fate::DoubtOut, Fate::Good];

/// Each call of a pass in its turn, in each way.
#[test]
fn one_failure_at_each_step() {
    for limit in [2_000, 300] {
        passes(1, limit, |call, _| {
            let (number, call) = (call / 100, call % 100);
            if call == 1 + number % 10 { FATES[(number / 10 % 6) as usize] } else { Fate::Good }
        });
    }
}

#[test]
fn failures_wherever_they_fall() {
    for seed in 1..4 {
        passes(seed, 500, |_, dice| match dice.roll(100) {
            0..30 => FATES[dice.roll(6) as usize],
            _ => Fate::Good,
        });
    }
}

/// An applicant who is decided in its own call, and one whose turn is run by somebody else: the
/// ledger sees the same calls, and the answers are the same, whatever goes wrong.
#[test]
fn decided_in_its_call_as_in_a_queue() {
    let calls = [Call::Begin, Call::Enter(2), Call::Commit, Call::RollBack, Call::Load];
    for (first, then) in calls.iter().flat_map(|a| calls.map(|b| (*a, b))) {
        for (fate, other) in FATES.iter().flat_map(|a| FATES[..3].iter().map(|b| (*a, *b))) {
            let plan = |controls: &Controls| {
                let mut left = [Some((first, fate)), Some((then, other))];
                controls.plan(move |call| {
                    let planned = left.iter_mut().find(|one| one.is_some_and(|(at, _)| at == call));
                    planned.and_then(Option::take).map_or(Fate::Good, |(_, fate)| fate)
                });
            };
            let (ledger, here) = book();
            let inline = Admission::open(ledger, 3).unwrap();
            let (queued, there, queue) = raffle(3);
            plan(&here);
            plan(&there);
            for id in [1, 2, 1, 2, 3, 4, 5] {
                let told = inline.apply(id, Limits::NONE);
                assert!(told.is_ready(), "decided in the call");
                let other = queued.apply(id, Limits::NONE);
                assert!(!other.is_ready() || queued.status().closed);
                queue.run_until_idle();
                let (told, other) = (told.wait(), other.wait());
                assert_eq!(format!("{told:?}"), format!("{other:?}"), "{first:?} {then:?}");
            }
            assert_eq!(inline.status(), queued.status());
            assert_eq!(here.disk().calls, there.disk().calls);
            assert_eq!(here.rows(), there.rows());
            here.check();
        }
    }
}

/// An applicant whose own code panics.
#[derive(Debug)]
struct Odd(u64, &'static str);

impl PartialEq for Odd {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Odd {}

impl Hash for Odd {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(self.1 != "hash", "no hash");
        self.0.hash(state);
    }
}

impl Clone for Odd {
    fn clone(&self) -> Self {
        assert!(self.1 != "clone", "no clone");
        Odd(self.0, self.1)
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        assert!(self.1 != "drop", "no drop");
    }
}

/// It keeps what the controls need to find out.
struct Names(Vec<(u64, u64)>, Vec<(u64, u64)>);

impl turnwise_locks::admission::Ledger<Odd> for Names {
    type Row = ();
    type Error = String;
    fn load(&mut self) -> Result<Vec<(Odd, u64)>, String> {
        Ok(self.0.iter().map(|(id, place)| (Odd(*id, ""), *place)).collect())
    }
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn enter(&mut self, id: &Odd, place: u64) -> Result<(), String> {
        self.1.push((id.0, place));
        Ok(())
    }
    fn commit(&mut self) -> Result<(), turnwise_locks::admission::CommitError<String>> {
        self.0.append(&mut self.1);
        Ok(())
    }
    fn roll_back(&mut self) {
        self.1.clear();
    }
}

#[test]
fn an_applicant_that_panics_concerns_itself() {
    let queue = DrainQueue::new();
    let ledger = Names(Vec::new(), Vec::new());
    let raffle = Admission::builder(ledger, 10)
        .group_time(Duration::MAX)
        .executor(queue.handle())
        .open()
        .unwrap();
    let odd = [(1, ""), (2, "hash"), (3, "clone"), (4, ""), (1, ""), (4, "drop")];
    let all = odd.map(|(id, how)| raffle.apply(Odd(id, how), Limits::NONE));
    queue.run_until_idle();
    let told = all.map(|apply| apply.wait());
    assert!(matches!(told[0], Ok(Admitted { place: 1, .. })), "{:?}", told[0]);
    assert!(matches!(&told[1], Err(Refused::Failed(Fault::Panic(text))) if &**text == "no hash"));
    assert!(matches!(&told[2], Err(Refused::Failed(Fault::Panic(text))) if &**text == "no clone"));
    assert!(matches!(told[3], Ok(Admitted { place: 2, .. })), "{:?}", told[3]);
    assert!(matches!(told[4], Err(Refused::Duplicate { place: 1 })));
    assert!(matches!(told[5], Err(Refused::Duplicate { place: 2 })));
    assert_eq!(raffle.status().count, 2);
}

/// The type of the error is the ledger's own.
#[test]
fn errors_keep_their_type() {
    #[derive(Debug)]
    struct Kind(Arc<Mutex<u8>>);
    impl std::fmt::Display for Kind {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a kind")
        }
    }
    struct Never(Arc<Mutex<u8>>);
    impl turnwise_locks::admission::Ledger<u8> for Never {
        type Row = ();
        type Error = Kind;
        fn load(&mut self) -> Result<Vec<(u8, u64)>, Kind> {
            Ok(Vec::new())
        }
        fn begin(&mut self) -> Result<(), Kind> {
            Err(Kind(self.0.clone()))
        }
        fn enter(&mut self, _: &u8, _: u64) -> Result<(), Kind> {
            Ok(())
        }
        fn commit(&mut self) -> Result<(), turnwise_locks::admission::CommitError<Kind>> {
            Ok(())
        }
        fn roll_back(&mut self) {}
    }
    let mark = Arc::new(Mutex::new(7));
    let raffle = Admission::open(Never(mark.clone()), 1).unwrap();
    let Err(Refused::Failed(fault)) = raffle.apply(1, Limits::NONE).wait() else { panic!() };
    assert!(Arc::ptr_eq(&fault.error().unwrap().0, &mark));
}
