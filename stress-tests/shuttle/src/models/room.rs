//! Senders that wait for room.

use super::*;

/// Three senders for a mailbox with room for one or two, whose actor a worker runs: they wait, they
/// leave, they are refused, they forget. Each message is handled, returned or dropped, as its way
/// in says, and each sender's in their order.
pub(super) fn room() {
    let (workers, tokens) = (Workers::default(), Tokens::default());
    let worker = workers.start();
    let actor: Actor<[u64; 3]> = Actor::builder()
        .executor(workers.clone())
        .capacity(1 + any(2), Overflow::Reject)
        .spawn([0; 3])
        .expect("it is right");
    let senders: Vec<_> = (0..3)
        .map(|me| {
            let (actor, tokens) = (actor.clone(), tokens.clone());
            spawn(move || (1..=3).map(|number| send(&actor, &tokens, me, number)).collect())
        })
        .collect();
    let sent: Vec<Vec<(Fated, Option<Fate>)>> = senders.into_iter().map(Joiner::join).collect();
    drop(actor);
    workers.close();
    worker.join();
    tokens.are_over();
    for (token, fate) in sent.iter().flatten() {
        assert!(fate.is_none_or(|fate| fate == token.fate()), "{fate:?}, not {token:?}");
    }
}

/// One way in, and what becomes of the message.
fn send(actor: &Actor<[u64; 3]>, tokens: &Tokens, me: usize, number: u64) -> (Fated, Option<Fate>) {
    let (token, fated) = tokens.make();
    let turn = move |last: &mut [u64; 3]| {
        token.begin();
        assert!(last[me] < number, "out of order");
        last[me] = number;
        token.done();
    };
    let waiting = actor.waiting();
    let fate = match any(6) {
        0 => waiting.send(turn).wait().map_or(Fate::Back, |()| Fate::Done),
        // Its time never comes.
        1 => {
            let limit = Limit::Within(Duration::from_secs(1));
            waiting.send(turn).within(limit).map_or(Fate::Back, |()| Fate::Done)
        }
        2 => match actor.send(turn) {
            Ok(()) => Fate::Done,
            Err(error) => {
                drop(error.into_message());
                assert_eq!(fated.fate(), Fate::Back);
                Fate::Back
            }
        },
        3 => {
            let mut sending = waiting.send(turn);
            let polled = polled(&mut sending);
            drop(sending);
            match polled {
                Poll::Ready(sent) => sent.map_or(Fate::Back, |()| Fate::Done),
                // It may have been let in, or has left: it is not known which.
                Poll::Pending => return (fated, None),
            }
        }
        4 => match waiting.send(turn).within(Limit::Immediate) {
            Ok(()) => Fate::Done,
            Err(error) => {
                drop(error.into_message());
                assert_eq!(fated.fate(), Fate::Back);
                Fate::Back
            }
        },
        _ => {
            assert!(waiting.call(turn).wait().is_ok());
            assert_eq!(fated.fate(), Fate::Done);
            Fate::Done
        }
    };
    (fated, Some(fate))
}
