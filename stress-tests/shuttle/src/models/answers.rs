//! Replies, promises, cancellations and wakers that meet.

use super::*;

/// Comes back to the actor when it is woken.
struct Comes(Actor<u64>, Tokens);

impl Wake for Comes {
    fn wake(self: Arc<Self>) {
        let (token, _) = self.1.make();
        let asked = self.0.call(move |n| {
            token.begin();
            *n += 1;
            token.done();
        });
        drop(asked);
    }
}

/// Three askers of one actor that a worker runs: they wait, poll with wakers that come back,
/// cancel, look, forget. A question runs once, or never if it was cancelled; a promise that is kept
/// or dropped meanwhile wakes who waits for it.
pub(super) fn answers() {
    let (workers, tokens) = (Workers::default(), Tokens::default());
    let worker = workers.start();
    let actor = Actor::builder().executor(workers.clone()).spawn(0_u64).expect("it is right");
    let (kept, keeps) = promise::<u64>();
    let is_kept = any(2) == 0;
    let waits = spawn(move || keeps.wait());
    let keeper = actor.send(move |n| {
        if is_kept {
            kept.keep(*n)
        }
    });
    assert!(keeper.is_ok());
    let askers: Vec<_> = (0..3)
        .map(|_| {
            let (actor, tokens) = (actor.clone(), tokens.clone());
            spawn(move || (0..2).for_each(|_| ask(&actor, &tokens)))
        })
        .collect();
    assert_eq!(waits.join().is_ok(), is_kept);
    askers.into_iter().for_each(Joiner::join);
    drop(actor);
    workers.close();
    worker.join();
    tokens.are_over();
}

/// One question, and what the asker does with its reply.
fn ask(actor: &Actor<u64>, tokens: &Tokens) {
    let (token, fated) = tokens.make();
    let mut reply = actor.call(move |n| {
        token.begin();
        *n += 1;
        token.done();
        *n
    });
    let answered = |answer: Result<u64, AskError>| {
        assert!(answer.is_ok_and(|n| n > 0));
        assert_eq!(fated.fate(), Fate::Done);
    };
    let cancelled = |reply: Reply<u64>| match reply.cancel() {
        Ok(()) => assert!(matches!(fated.fate(), Fate::Made | Fate::Back), "cancelled, and run"),
        Err(reply) => answered(reply.wait()),
    };
    match any(6) {
        0 => answered(reply.wait()),
        kind @ 1..=3 => {
            let waker = Waker::from(Arc::new(Comes(actor.clone(), tokens.clone())));
            let mut cx = Context::from_waker(&waker);
            match Pin::new(&mut reply).poll(&mut cx) {
                Poll::Ready(answer) => answered(answer),
                Poll::Pending => match kind {
                    1 => answered(reply.wait()),
                    2 => cancelled(reply),
                    _ => {}
                },
            }
        }
        4 => cancelled(reply),
        _ => match reply.within(Limit::Immediate) {
            Ok(n) => answered(Ok(n)),
            Err(WaitError::Cancelled(_)) => {
                assert!(matches!(fated.fate(), Fate::Made | Fate::Back), "cancelled, and run");
            }
            Err(WaitError::TimedOut(reply)) => answered(reply.wait()),
            Err(error) => panic!("{error}"),
        },
    }
}
