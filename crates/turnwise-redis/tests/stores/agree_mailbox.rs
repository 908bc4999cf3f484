//! Mailboxes in memory and the scripts in a server give the same answers, step by step.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::Server;
use proptest::prelude::*;
use turnwise_redis::step::{
    Advance, Answer, DrainClaim, FailedAttempt, Hand, MailboxAct, MailboxAnswer, MailboxSeen,
    MailboxStep, Op, Progress, Step, StoredMessage, Then, Token,
};
use turnwise_redis::{MemoryStore, RedisStore, Store};

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_micros(1);

fn token(number: u64) -> Token {
    Token::new("c", number)
}

fn actor() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("a".to_owned()), 1 => Just("a:1:b".to_owned())]
}

fn id() -> impl Strategy<Value = String> {
    (0..6u32).prop_map(|number| format!("m:{number}"))
}

fn claims() -> impl Strategy<Value = DrainClaim> {
    // Over at once, or not in this test.
    let leases = prop_oneof![3 => Just(LONG), 1 => Just(SHORT)];
    (0..3u64, leases, 0..4u32, 1..4u32).prop_map(|(number, lease, most, attempts)| DrainClaim {
        token: token(number),
        lease,
        most,
        attempts,
        keep: LONG,
    })
}

fn delays() -> impl Strategy<Value = Duration> {
    // None, one that is over at the next step, or one that does not end in this test.
    prop_oneof![4 => Just(Duration::ZERO), 1 => Just(SHORT), 1 => Just(LONG)]
}

/// A step of a drainer. The token and the number are those of a hold, in most cases.
#[derive(Clone, Debug)]
enum Deed {
    Act(MailboxAct),
    Advance {
        actor: String,
        right: bool,
        again: bool,
        done: usize,
        failed: u8,
        state: bool,
        next: u8,
    },
    /// A part of a mailbox is deleted by hand.
    Delete(char),
}

fn deeds() -> impl Strategy<Value = Deed> {
    let acts = prop_oneof![
        8 => (actor(), id(), any::<bool>(), delays(), prop::option::of(claims())).prop_map(
            |(actor, id, asks, delay, claim)| {
                let body = vec![0, 255, id.len() as u8];
                let asker = asks.then(|| token(9));
                let message = StoredMessage { id, name: "add".to_owned(), body, asker };
                MailboxAct::Push { actor, message, delay, claim }
            }
        ),
        4 => (actor(), claims()).prop_map(|(actor, claim)| MailboxAct::Claim { actor, claim }),
        1 => (actor(), 0..3u64)
            .prop_map(|(actor, number)| MailboxAct::Abandon { actor, token: token(number) }),
        1 => (actor(), 0..3u64).prop_map(|(actor, number)| MailboxAct::Renew {
            drained: vec![(actor, token(number)), ("none".to_owned(), token(1))],
            lease: LONG,
        }),
        3 => (actor(), id())
            .prop_map(|(actor, message)| MailboxAct::Outcome { actor, message }),
        2 => (actor(), id(), any::<bool>()).prop_map(|(actor, message, late)| {
            MailboxAct::Withdraw { actor, message, late, keep: LONG }
        }),
        2 => (actor(), id(), any::<bool>(), 8..10u64).prop_map(|(actor, message, late, asker)| {
            MailboxAct::Revoke { actor, message, asker: token(asker), late, keep: LONG }
        }),
        2 => (0..3u64, 0..3u32, prop_oneof![Just(LONG), Just(SHORT)]).prop_map(
            |(number, most, grip)| MailboxAct::Due { worker: token(number), alive: LONG, most, grip }
        ),
        3 => (0..2u64, 0..3u32).prop_map(|(from, most)| MailboxAct::DeadLetters { from, most }),
        1 => (actor(), id()).prop_map(|(actor, message)| MailboxAct::Requeue { actor, message }),
        1 => (actor(), id()).prop_map(|(actor, message)| MailboxAct::Discard { actor, message }),
        2 => actor().prop_map(|actor| MailboxAct::Look { actor }),
    ];
    let advances = (
        actor(),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.2),
        0..4usize,
        0..5u8,
        any::<bool>(),
        0..8u8,
    )
        .prop_map(|(actor, right, again, done, failed, state, next)| Deed::Advance {
            actor,
            right,
            again,
            done,
            failed,
            state,
            next,
        });
    prop_oneof![
        28 => acts.prop_map(Deed::Act),
        14 => advances,
        1 => prop_oneof![Just('s'), Just('a')].prop_map(Deed::Delete),
    ]
}

/// Removes times and fences, which each store has of its own, and leaves what is compared.
fn without_times(answer: MailboxAnswer) -> MailboxAnswer {
    let some = |time: Duration| if time > LONG / 2 { LONG } else { Duration::ZERO };
    let progress = |progress| match progress {
        Progress::Waiting { ahead, busy } => Progress::Waiting { ahead, busy: some(busy) },
        Progress::Delayed { left } => Progress::Delayed { left: some(left) },
        Progress::Running { attempt, busy } => Progress::Running { attempt, busy: some(busy) },
        other => other,
    };
    match answer {
        MailboxAnswer::Pushed { ahead, busy } => MailboxAnswer::Pushed { ahead, busy: some(busy) },
        MailboxAnswer::Known(known) => MailboxAnswer::Known(progress(known)),
        MailboxAnswer::Progress(known) => MailboxAnswer::Progress(progress(known)),
        MailboxAnswer::Handed(hand) => MailboxAnswer::Handed(Hand { fence: 0, ..hand }),
        MailboxAnswer::Busy { left } => MailboxAnswer::Busy { left: some(left) },
        MailboxAnswer::LetGo { left, wait } => MailboxAnswer::LetGo { left, wait: some(wait) },
        MailboxAnswer::Due { mut actors, next } => {
            // Actors that became due have other times in each store.
            actors.sort();
            MailboxAnswer::Due { actors, next: next.map(some) }
        }
        MailboxAnswer::Seen(seen) => MailboxAnswer::Seen(MailboxSeen {
            fence: u64::from(seen.fence > 0),
            drainer: seen.drainer.map(|(token, left)| (token, some(left))),
            ..seen
        }),
        MailboxAnswer::Dead { all, mut dead } => {
            // Their askers have gone.
            dead.iter_mut().for_each(|dead| dead.message.asker = None);
            MailboxAnswer::Dead { all, dead }
        }
        other => other,
    }
}

/// The hold of each store that drains an actor, as the answers say, the number of its step, and the
/// number of messages that it was handed.
type Holds = BTreeMap<String, ([u64; 2], u64, usize)>;

fn advance(holds: &Holds, deed: Deed) -> Option<[MailboxAct; 2]> {
    let Deed::Advance { actor, right, again, done, failed, state, next } = deed else {
        return None;
    };
    let (fences, number, handed) = holds.get(&actor).copied()?;
    let done = done.min(handed);
    let failed = (failed > 1 && done < handed).then(|| FailedAttempt {
        error: "why".to_owned(),
        again: [None, Some(Duration::ZERO), Some(LONG)][usize::from(failed) % 3],
    });
    let then = match next {
        0..3 => Then::Next { most: 2, lease: LONG },
        3 => Then::Next { most: 0, lease: LONG },
        4 => Then::PutOff { pause: SHORT },
        5 => Then::PutOff { pause: LONG },
        6 => Then::LetGo { after: LONG },
        _ => Then::LetGo { after: Duration::ZERO },
    };
    let advance = Advance {
        actor,
        fence: 0,
        number: if again { number } else { number + 1 },
        done: (0..done).map(|index| vec![index as u8]).collect(),
        state: state.then(|| vec![number as u8, 0, 255]),
        failed,
        keep: LONG,
        then,
    };
    Some(fences.map(|fence| {
        let fence = if right { fence } else { fence + 1 };
        MailboxAct::Advance(Advance { fence, ..advance.clone() })
    }))
}

/// Learns from answers which hold drains an actor.
fn learn(holds: &mut Holds, act: &MailboxAct, answers: [&MailboxAnswer; 2]) {
    let (MailboxAct::Push { actor, .. }
    | MailboxAct::Claim { actor, .. }
    | MailboxAct::Advance(Advance { actor, .. })) = act
    else {
        return;
    };
    let [MailboxAnswer::Handed(here), MailboxAnswer::Handed(there)] = answers else { return };
    let fences = [here.fence, there.fence];
    let before = holds.get(actor).filter(|hold| hold.0 == fences).map_or(0, |hold| hold.1);
    let number = match act {
        MailboxAct::Advance(advance) => advance.number,
        _ => before,
    };
    holds.insert(actor.clone(), (fences, number, here.messages.len()));
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
    let run = runner.run(&prop::collection::vec(deeds(), 1..60), |deeds| {
        let number = numbers.get();
        numbers.set(number + 1);
        let key = format!("t:{{actor:{number}}}");
        let near = MemoryStore::new();
        let mut holds = Holds::new();
        for (index, deed) in deeds.into_iter().enumerate() {
            let acts = match deed {
                Deed::Act(act) => [act.clone(), act],
                Deed::Delete(kind) => {
                    near.forget_key(&format!("{key}:{kind}:a"));
                    server.ask(&format!("DEL {key}:{kind}:a"));
                    continue;
                }
                deed => match advance(&holds, deed) {
                    Some(acts) => acts,
                    None => continue,
                },
            };
            // Now and then a step states another number of shards.
            let shards = if index % 16 == 15 { 2 } else { 1 };
            let ops = acts.clone().map(|act| {
                let step = Step::Mailbox(MailboxStep { shards, act });
                Op { key: key.clone(), places: 1, above: 0, step }
            });
            let (here, there) = runtime.block_on(async {
                // A time that is over at once is over at the next step.
                (near.call(&ops[0]).await.unwrap(), far.call(&ops[1]).await.unwrap())
            });
            let (Answer::Mailbox(here), Answer::Mailbox(there)) = (here, there) else { panic!() };
            std::thread::sleep(SHORT);
            learn(&mut holds, &acts[0], [&here, &there]);
            let (here, there) = (without_times(here), without_times(there));
            let kind = format!("{here:?}").split(" {").next().unwrap_or_default().to_owned();
            let kind = kind.trim_end_matches(|c: char| !c.is_alphabetic()).to_owned();
            *seen.borrow_mut().entry(kind).or_default() += 1;
            prop_assert_eq!(&here, &there, "{:?}", acts[0]);
        }
        // The server forgets nothing of a mailbox that has messages or a drainer.
        for actor in ["a", "a:1:b"] {
            let look = MailboxStep { shards: 1, act: MailboxAct::Look { actor: actor.to_owned() } };
            let step = Step::Mailbox(look);
            let op = Op { key: key.clone(), places: 1, above: 0, step };
            let look = runtime.block_on(near.call(&op)).unwrap();
            let Answer::Mailbox(MailboxAnswer::Seen(seen)) = look else { continue };
            if seen.waiting + seen.delayed > 0 || seen.drainer.is_some() {
                let left = server.ask(&format!("PTTL {key}:a:{actor}"));
                // -2: it was deleted.
                prop_assert!([":-1", ":-2"].contains(&&*left), "{} expires: {}", actor, left);
            }
        }
        Ok(())
    });
    println!("{:?}", seen.borrow());
    run.unwrap();
}
