//! The machine of an admission in memory and the scripts in a server answer the same, step by step.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;
use support::Server;
use turnwise_redis::step::{
    Answer, Claim, DeskAct, DeskAnswer, DeskRow, DeskSeen, DeskStep, Op, Step, Token,
};
use turnwise_redis::{MemoryStore, RedisStore, Store};

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_micros(1);

/// Acts of a few requests of fewer applicants. A fence is none, or the last one that was given.
fn acts() -> impl Strategy<Value = (DeskAct, bool)> {
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
            .prop_map(|(claim, row, alive)| DeskAct::Admit { claim, row, alive }),
        8 => (claims(), times(), alive())
            .prop_map(|(claim, lease, alive)| DeskAct::Reserve { claim, lease, alive }),
        2 => (prop::collection::vec((claims(), 0..2u64), 0..4), times(), times())
            .prop_map(|(claims, lease, alive)| DeskAct::Keep { claims, lease, alive }),
        2 => (claims(), rows()).prop_map(|(claim, row)| DeskAct::Confirm { claim, fence: 0, row }),
        5 => (claims(), prop::bool::weighted(0.2))
            .prop_map(|(claim, late)| DeskAct::Cancel { claim, late }),
        1 => prop::bool::weighted(0.3)
            .prop_map(|closes| if closes { DeskAct::Close } else { DeskAct::Look }),
        2 => Just(DeskAct::Look),
        1 => (0..3u64, 0..4u32).prop_map(|(from, most)| DeskAct::Rows { from, most }),
    ];
    (act, prop::bool::weighted(0.8))
}

/// Times and numbers are the store's own: what remains is compared.
fn without_times(answer: DeskAnswer) -> DeskAnswer {
    let some = |time: Duration| if time > LONG / 2 { LONG } else { Duration::ZERO };
    match answer {
        DeskAnswer::Admitted { place, .. } => DeskAnswer::Admitted { place, fence: 0 },
        DeskAnswer::Reserved { place, .. } => DeskAnswer::Reserved { place, fence: 0 },
        DeskAnswer::Queued { ahead, busy } => DeskAnswer::Queued { ahead, busy: some(busy) },
        DeskAnswer::Busy { busy } => DeskAnswer::Busy { busy: some(busy) },
        DeskAnswer::Standings { standings, busy } => {
            DeskAnswer::Standings { standings, busy: some(busy) }
        }
        DeskAnswer::Seen(seen) => {
            DeskAnswer::Seen(DeskSeen { fence: u64::from(seen.fence > 0), ..seen })
        }
        DeskAnswer::Rows(rows) => {
            DeskAnswer::Rows(rows.into_iter().map(|row| DeskRow { fence: 0, ..row }).collect())
        }
        other => other,
    }
}

fn fence(answer: &DeskAnswer) -> Option<u64> {
    match *answer {
        DeskAnswer::Admitted { fence, .. } | DeskAnswer::Reserved { fence, .. } => Some(fence),
        _ => None,
    }
}

/// What one of the two has said of each request.
#[derive(Default)]
struct Told {
    fences: HashMap<Token, u64>,
}

impl Told {
    /// The same act, with the fence that this one has given.
    fn said(&self, act: &DeskAct, right: bool) -> DeskAct {
        match act.clone() {
            DeskAct::Confirm { claim, row, .. } => {
                let fence = self.fences.get(&claim.token).copied().unwrap_or(0);
                DeskAct::Confirm { claim, fence: if right { fence } else { fence + 1 }, row }
            }
            DeskAct::Keep { mut claims, lease, alive } => {
                for (claim, fence) in claims.iter_mut().filter(|(_, fence)| *fence > 0) {
                    *fence = self.fences.get(&claim.token).copied().unwrap_or(1);
                    *fence += u64::from(!right);
                }
                DeskAct::Keep { claims, lease, alive }
            }
            act => act,
        }
    }

    fn hears(&mut self, act: &DeskAct, answer: &DeskAnswer) -> Result<(), TestCaseError> {
        let (DeskAct::Admit { claim, .. }
        | DeskAct::Reserve { claim, .. }
        | DeskAct::Confirm { claim, .. }
        | DeskAct::Cancel { claim, .. }) = act
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
            // Now and then somebody says another limit.
            let limit = if index % 16 == 15 && !right { limit + 1 } else { limit };
            let said = told.each_ref().map(|told| told.said(&act, right));
            let ops = said.each_ref().map(|act| {
                let step = Step::Desk(DeskStep { limit, act: act.clone() });
                Op { key: format!("t:{{desk:{number}}}"), places: 1, above: 0, step }
            });
            let (here, there) = runtime.block_on(async {
                // What is over at once is over when the next step comes.
                (near.call(&ops[0]).await.unwrap(), far.call(&ops[1]).await.unwrap())
            });
            let (Answer::Desk(here), Answer::Desk(there)) = (here, there) else { panic!() };
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
