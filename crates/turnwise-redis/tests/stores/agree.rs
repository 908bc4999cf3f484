//! The machine in memory and the scripts in a server give the same answers, step by step.

use std::time::Duration;

use crate::support::Server;
use proptest::prelude::*;
use turnwise_redis::step::{Answer, Op, Renewal, Step, Token};
use turnwise_redis::{MemoryStore, RedisStore, Store};

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_micros(1);
/// A fence beyond all clocks: after it, fences increase by one in both stores.
const GREAT: u64 = 1 << 52;

fn token(number: u64) -> Token {
    Token::new("c", number)
}

fn steps() -> impl Strategy<Value = Step> {
    let tokens = || (0..4u64).prop_map(token);
    // Over at once, or not in this test.
    let times = || prop_oneof![4 => Just(LONG), 1 => Just(SHORT)];
    let alive = prop_oneof![Just(None), times().prop_map(Some), times().prop_map(Some)];
    prop_oneof![
        6 => (tokens(), times(), alive)
            .prop_map(|(token, lease, alive)| Step::Acquire { token, lease, alive }),
        2 => (prop::collection::vec(tokens(), 1..4), times())
            .prop_map(|(tokens, alive)| Step::Refresh { tokens, alive }),
        1 => (tokens(), times()).prop_map(|(token, lease)| Step::Renew { token, lease }),
        2 => (prop::collection::vec((tokens(), 1..4u32), 1..4), times())
            .prop_map(|(holds, lease)| {
                let renewal = |(token, place)| Renewal { key: String::new(), token, place };
                Step::RenewAll { renewals: holds.into_iter().map(renewal).collect(), lease }
            }),
        2 => (tokens(), prop_oneof![1 => 0..2u64, 3 => GREAT..GREAT + 9], times())
            .prop_map(|(token, fence, lease)| Step::Confirm { token, fence, lease }),
        4 => (tokens(), prop::bool::weighted(0.2))
            .prop_map(|(token, late)| Step::Leave { token, late }),
        2 => tokens().prop_map(|token| Step::Begin { token }),
        2 => (tokens(), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(token, quarantine, late)| Step::End { token, quarantine, late }),
        1 => (1..4u32).prop_map(|place| Step::Repair { place }),
        1 => (1..4u32).prop_map(|place| Step::Force { place }),
        1 => Just(Step::Look),
        2 => (tokens(), times(), any::<bool>(), prop_oneof![Just(SHORT), Just(LONG * 1000)])
            .prop_map(|(token, lease, overlap, every)| {
                Step::Attend { token, every, offset: Duration::ZERO, lease, overlap }
            }),
    ]
}

/// Removes times and fences, which each store has of its own, and leaves what is compared.
fn without_times(answer: Answer) -> Answer {
    let some = |time: Duration| if time > LONG / 2 { LONG } else { Duration::ZERO };
    match answer {
        Answer::Granted { place, .. } => Answer::Granted { fence: 0, place },
        Answer::Queued { ahead, busy } => Answer::Queued { ahead, busy: some(busy) },
        Answer::Busy { busy } => Answer::Busy { busy: some(busy) },
        Answer::Standings { standings, busy } => Answer::Standings { standings, busy: some(busy) },
        Answer::Seen { holders, fence, waiting } => Answer::Seen {
            holders: holders
                .into_iter()
                .map(|(place, token, left)| (place, token, some(left)))
                .collect(),
            fence: u64::from(fence > 0),
            waiting,
        },
        Answer::Mine { .. } => Answer::Mine { tick: 0, fence: 0 },
        Answer::Taken { .. } => Answer::Taken { tick: 0, next: LONG },
        Answer::StillRunning { .. } => Answer::StillRunning { tick: 0, next: LONG },
        other => other,
    }
}

fn fence(answer: &Answer) -> u64 {
    match answer {
        Answer::Seen { fence, .. } => *fence,
        _ => 0,
    }
}

#[test]
fn the_machine_and_the_scripts_agree() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let far = RedisStore::new(&server.url(), "t", Duration::from_secs(10)).unwrap();
    let cases = if cfg!(debug_assertions) { 200 } else { 2_000 };
    let numbers = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let deeds = || prop_oneof![24 => steps().prop_map(Ok), 1 => any::<bool>().prop_map(Err)];
    let all = (0..2u64, 1..4u32, prop::collection::vec(deeds(), 1..40));
    let run = runner.run(&all, |(above, places, steps)| {
        let number = numbers.get();
        numbers.set(number + 1);
        let near = MemoryStore::new();
        let mut fences = [0, 0];
        for (index, step) in steps.into_iter().enumerate() {
            let key = format!("t:{{lock:{number}}}");
            let step = match step {
                Ok(Step::RenewAll { mut renewals, lease }) => {
                    renewals.iter_mut().for_each(|renewal| renewal.key.clone_from(&key));
                    Step::RenewAll { renewals, lease }
                }
                Ok(step) => step,
                // A part of it is deleted by hand, and no request is known to be gone.
                Err(queue) => {
                    let part = if queue { format!("{key}:q") } else { key.clone() };
                    near.forget_key(&part);
                    server.ask(&format!("DEL {part}"));
                    if !queue {
                        (0..4).for_each(|n| drop(server.ask(&format!("DEL {key}:x:c:{n}"))));
                        fences = [0, 0];
                    }
                    continue;
                }
            };
            // Jobs have one place. Now and then a step states another number of places.
            if places > 1 && matches!(step, Step::Attend { .. }) {
                continue;
            }
            let said = if index % 12 == 11 && !matches!(step, Step::RenewAll { .. }) {
                places % 4 + 1
            } else {
                places
            };
            if said > 1 && matches!(step, Step::Attend { .. }) {
                continue;
            }
            let op = Op { key, places: said, above: above * GREAT, step };
            let (here, there) = runtime.block_on(async {
                // A time that is over at once is over at the next step.
                (near.call(&op).await.unwrap(), far.call(&op).await.unwrap())
            });
            for (last, answer) in fences.iter_mut().zip([&here, &there]) {
                let fence = fence(answer);
                prop_assert!(fence == 0 || fence >= *last, "{op:?}: {fence} after {last}");
                *last = fence.max(*last);
            }
            std::thread::sleep(SHORT);
            prop_assert_eq!(without_times(here), without_times(there), "{:?}", op);
        }
        Ok(())
    });
    run.unwrap();
}
