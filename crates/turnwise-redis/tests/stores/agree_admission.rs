//! The machine of an admission in memory and the scripts in a server give the same answers, step by
//! step.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::support::Server;
use proptest::prelude::*;
use turnwise_redis::step::{
    AdmissionAct, AdmissionAnswer, AdmissionRow, AdmissionSeen, AdmissionStep, Answer, Claim, Op,
    Step, Token,
};
use turnwise_redis::{MemoryStore, RedisStore, Store};

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_micros(1);

/// Acts of a few requests of fewer applicants. A fence is none, or the last one that was issued.
fn acts() -> impl Strategy<Value = (AdmissionAct, bool)> {
    let claims = || {
        (0..8u64).prop_map(|number| Claim {
            token: Token::new("c", number),
            applicant: ["ada", "bob", "cyd d", "r 1 2 3 x"][number as usize % 4].to_owned(),
        })
    };
    // Over at once, or not in this test.
    let times = || prop_oneof![4 => Just(LONG), 1 => Just(SHORT)];
    let alive = || prop_oneof![Just(None), times().prop_map(Some), times().prop_map(Some)];
    let rows = || prop::collection::vec(any::<u8>(), 0..3);
    let act = prop_oneof![
        3 => (claims(), rows(), alive())
            .prop_map(|(claim, row, alive)| AdmissionAct::Admit { claim, row, alive }),
        8 => (claims(), times(), alive())
            .prop_map(|(claim, lease, alive)| AdmissionAct::Reserve { claim, lease, alive }),
        2 => (prop::collection::vec((claims(), 0..2u64), 0..4), times(), times())
            .prop_map(|(claims, lease, alive)| AdmissionAct::Keep { claims, lease, alive }),
        2 => (claims(), rows()).prop_map(|(claim, row)| AdmissionAct::Confirm { claim, fence: 0, row }),
        5 => (claims(), prop::bool::weighted(0.2))
            .prop_map(|(claim, late)| AdmissionAct::Cancel { claim, late }),
        1 => prop::bool::weighted(0.3)
            .prop_map(|closes| if closes { AdmissionAct::Close } else { AdmissionAct::Look }),
        2 => Just(AdmissionAct::Look),
        1 => (0..3u64, 0..4u32).prop_map(|(from, most)| AdmissionAct::Rows { from, most }),
    ];
    (act, prop::bool::weighted(0.8))
}

/// Removes times and fences, which each store has of its own, and leaves what is compared.
fn without_times(answer: AdmissionAnswer) -> AdmissionAnswer {
    let some = |time: Duration| if time > LONG / 2 { LONG } else { Duration::ZERO };
    match answer {
        AdmissionAnswer::Admitted { place, .. } => AdmissionAnswer::Admitted { place, fence: 0 },
        AdmissionAnswer::Reserved { place, .. } => AdmissionAnswer::Reserved { place, fence: 0 },
        AdmissionAnswer::Queued { ahead, busy } => {
            AdmissionAnswer::Queued { ahead, busy: some(busy) }
        }
        AdmissionAnswer::Busy { busy } => AdmissionAnswer::Busy { busy: some(busy) },
        AdmissionAnswer::Standings { standings, busy } => {
            AdmissionAnswer::Standings { standings, busy: some(busy) }
        }
        AdmissionAnswer::Seen(seen) => {
            AdmissionAnswer::Seen(AdmissionSeen { fence: u64::from(seen.fence > 0), ..seen })
        }
        AdmissionAnswer::Rows(rows) => AdmissionAnswer::Rows(
            rows.into_iter().map(|row| AdmissionRow { fence: 0, ..row }).collect(),
        ),
        other => other,
    }
}

fn fence(answer: &AdmissionAnswer) -> Option<u64> {
    match *answer {
        AdmissionAnswer::Admitted { fence, .. } | AdmissionAnswer::Reserved { fence, .. } => {
            Some(fence)
        }
        _ => None,
    }
}

/// The answers of one of the two to each request.
#[derive(Default)]
struct Told {
    fences: HashMap<Token, u64>,
}

impl Told {
    /// Returns the act with the fence that this store has issued.
    fn said(&self, act: &AdmissionAct, right: bool) -> AdmissionAct {
        match act.clone() {
            AdmissionAct::Confirm { claim, row, .. } => {
                let fence = self.fences.get(&claim.token).copied().unwrap_or(0);
                AdmissionAct::Confirm { claim, fence: if right { fence } else { fence + 1 }, row }
            }
            AdmissionAct::Keep { mut claims, lease, alive } => {
                for (claim, fence) in claims.iter_mut().filter(|(_, fence)| *fence > 0) {
                    *fence = self.fences.get(&claim.token).copied().unwrap_or(1);
                    *fence += u64::from(!right);
                }
                AdmissionAct::Keep { claims, lease, alive }
            }
            act => act,
        }
    }

    fn hears(&mut self, act: &AdmissionAct, answer: &AdmissionAnswer) -> Result<(), TestCaseError> {
        let (AdmissionAct::Admit { claim, .. }
        | AdmissionAct::Reserve { claim, .. }
        | AdmissionAct::Confirm { claim, .. }
        | AdmissionAct::Cancel { claim, .. }) = act
        else {
            return Ok(());
        };
        if let Some(fence) = fence(answer) {
            let before = self.fences.insert(claim.token.clone(), fence);
            prop_assert!(before.is_none_or(|before| before <= fence));
        }
        Ok(())
    }
}

#[test]
fn the_machine_and_the_scripts_agree() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let far = RedisStore::new(&server.url(), "t", Duration::from_secs(10)).unwrap();
    let cases = if cfg!(debug_assertions) { 300 } else { 3_000 };
    let numbers = Cell::new(0);
    let seen = RefCell::new(BTreeMap::<String, u32>::new());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let all = (1..4u64, prop::collection::vec(acts(), 1..40));
    let run = runner.run(&all, |(limit, acts)| {
        let number = numbers.get();
        numbers.set(number + 1);
        let near = MemoryStore::new();
        let mut told = [Told::default(), Told::default()];
        for (index, (act, right)) in acts.into_iter().enumerate() {
            // Now and then a step states another limit.
            let limit = if index % 16 == 15 && !right { limit + 1 } else { limit };
            let said = told.each_ref().map(|told| told.said(&act, right));
            let ops = said.each_ref().map(|act| {
                let step = Step::Admission(AdmissionStep { limit, act: act.clone() });
                Op { key: format!("t:{{admission:{number}}}"), places: 1, above: 0, step }
            });
            let (here, there) = runtime.block_on(async {
                // A time that is over at once is over at the next step.
                (near.call(&ops[0]).await.unwrap(), far.call(&ops[1]).await.unwrap())
            });
            let (Answer::Admission(here), Answer::Admission(there)) = (here, there) else {
                panic!()
            };
            told[0].hears(&said[0], &here)?;
            told[1].hears(&said[1], &there)?;
            std::thread::sleep(SHORT);
            let kind = format!("{here:?}").split([' ', '(']).next().unwrap_or_default().to_owned();
            *seen.borrow_mut().entry(kind).or_default() += 1;
            prop_assert_eq!(without_times(here), without_times(there), "{:?}", act);
        }
        Ok(())
    });
    run.unwrap();
    // Every kind of answer has come.
    println!("{:?}", seen.borrow());
    assert_eq!(seen.borrow().len(), 14, "{:?}", seen.borrow());
}
