//! Turns that await each other's replies, and whatever cuts them.

use super::*;
use crate::floors::actor::{AsyncContext, AsyncHandler};

/// A turn to be: what becomes of it, and whom it asks.
struct Visit {
    token: Token,
    other: Actor<Count>,
}

struct Count(u64);

impl Visit {
    async fn turn(self, count: &mut Count) -> u64 {
        self.token.begin();
        count.0 += 1;
        let seen = self.other.call(|count| count.0).await.unwrap_or(0);
        let again = self.other.run(async |count: &mut Count| count.0).await.unwrap_or(0);
        self.token.done();
        seen + again
    }
}

impl AsyncHandler<Visit> for Count {
    type Reply = u64;

    async fn handle(&mut self, visit: Visit, _: &mut AsyncContext<Self>) -> u64 {
        visit.turn(self).await
    }
}

/// The answer to the asker.
fn said(token: &Fated, answer: Result<u64, AskError>, back: &mut Vec<Fated>) {
    match answer {
        Ok(_) => assert_eq!(token.fate(), Fate::Done),
        // One that was aborted before its turn has not begun.
        Err(AskError::Aborted(_)) => {
            assert!(matches!(token.fate(), Fate::Cut | Fate::Back), "its future stays");
        }
        // It is given back; its receiver may be about to drop it.
        Err(AskError::Refused(..)) => back.push(token.clone()),
        Err(error) => panic!("{error}"),
    }
}

/// Four actors, two of them run by two workers; four threads. Each turn is done, cut or given back,
/// as its answer says, and no future stays. A turn awaits a later actor, or its own: turns that
/// await each other in a circle would wait for ever.
pub(super) fn turns() {
    let (workers, tokens) = (Workers::default(), Tokens::default());
    let threads = [workers.start(), workers.start()];
    let actors: Vec<(usize, Actor<Count>)> = (0..4)
        .map(|at| match at % 2 {
            0 => (at, Actor::new(Count(0))),
            _ => {
                let builder = Actor::builder().executor(workers.clone());
                (at, builder.spawn(Count(0)).expect("it is right"))
            }
        })
        .collect();
    let askers: Vec<_> = (0..4)
        .map(|_| {
            let (mut actors, tokens) = (actors.clone(), tokens.clone());
            spawn(move || {
                let mut back = Vec::new();
                let mut replies: Vec<(Fated, Reply<u64>)> = Vec::new();
                for _ in 0..2 {
                    let mut both = [any(actors.len()), any(actors.len())];
                    both.sort_by_key(|which| actors[*which].0);
                    let [(_, at), (_, other)] = both.map(|which| actors[which].clone());
                    let (token, fated) = tokens.make();
                    let visit = Visit { token, other: other.clone() };
                    let turn = async move |count: &mut Count| visit.turn(count).await;
                    match any(8) {
                        0 | 1 => replies.push((fated, at.run(turn))),
                        2 | 3 => {
                            let (reply, abort) = at.run_abortable(turn);
                            if any(2) == 0 {
                                abort.abort();
                            }
                            replies.push((fated, reply));
                        }
                        4 => drop(at.run(turn)),
                        5 => {
                            let (reply, abort) = at.run_abortable(turn);
                            let aborts = spawn(move || abort.abort());
                            said(&fated, reply.wait(), &mut back);
                            aborts.join();
                        }
                        6 => {
                            replies.push((fated, at.run(turn)));
                            at.stop();
                        }
                        _ => {
                            replies.push((fated, at.run(turn)));
                            at.close();
                        }
                    }
                    let (token, fated) = tokens.make();
                    let asked = at.ask_async(Visit { token, other });
                    said(&fated, asked.wait(), &mut back);
                    drop(actors.swap_remove(both[1]));
                }
                drop(actors);
                for (fated, reply) in replies {
                    said(&fated, reply.wait(), &mut back);
                }
                back
            })
        })
        .collect();
    drop(actors);
    let back: Vec<Fated> = askers.into_iter().flat_map(Joiner::join).collect();
    workers.close();
    threads.into_iter().for_each(Joiner::join);
    fallback::join_all();
    assert!(back.iter().all(|token| token.fate() == Fate::Back), "refused, and begun");
    tokens.are_over();
}
