//! Fibonacci: an actor for each call of the recursive function. Savina: the 25th number.
//!
//! An actor needs a handle of its own to be answered by those that it asks, and it can get one only
//! as long as a handle exists. So an asker keeps handles to those that it has asked, until both
//! have answered.

use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::{Benchmark, Outcome, System, answer, same};

pub(crate) struct Fib {
    n: u32,
}

struct Call<Y> {
    system: Y,
    caller: Option<Caller<Y>>,
    called: [Option<Actor<Call<Y>>>; 2],
    answers: u32,
    result: Answer,
}

enum Caller<Y> {
    Benchmark(Promise<Answer>),
    Actor(Actor<Call<Y>>),
}

struct Request(u32);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Answer {
    number: u64,
    actors: u64,
}

impl<Y: System> Call<Y> {
    fn spawn(system: &Y, caller: Caller<Y>) -> Actor<Self> {
        let result = Answer { number: 0, actors: 1 };
        system.spawn(Call {
            system: system.clone(),
            caller: Some(caller),
            called: [None, None],
            answers: 0,
            result,
        })
    }

    fn answer(&mut self) {
        match self.caller.take().expect("a call is answered once") {
            Caller::Benchmark(done) => done.keep(self.result),
            Caller::Actor(caller) => caller.tell(self.result).expect("the caller is open"),
        }
    }
}

impl<Y: System> Handler<Request> for Call<Y> {
    type Reply = ();
    fn handle(&mut self, Request(n): Request, cx: &mut Context<'_, Self>) {
        if n <= 2 {
            self.result.number = 1;
            self.answer();
            return;
        }
        self.called = [n - 1, n - 2].map(|n| {
            let this = cx.actor().expect("the caller has a handle until the answer");
            let called = Self::spawn(&self.system, Caller::Actor(this));
            called.tell(Request(n)).expect("the new one is open");
            Some(called)
        });
    }
}

impl<Y: System> Handler<Answer> for Call<Y> {
    type Reply = ();
    fn handle(&mut self, answer: Answer, _: &mut Context<'_, Self>) {
        self.result.number += answer.number;
        self.result.actors += answer.actors;
        self.answers += 1;
        if self.answers == 2 {
            self.called = [None, None];
            self.answer();
        }
    }
}

impl Benchmark for Fib {
    const NAME: &'static str = "fib";

    fn sized(quick: bool) -> Self {
        Fib { n: if quick { 12 } else { 26 } }
    }

    fn size(&self) -> String {
        format!("number {}", self.n)
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let (mut number, mut next) = (1, 1);
        for _ in 1..self.n {
            (number, next) = (next, number + next);
        }
        let (done, result) = promise();
        let first = Call::spawn(system, Caller::Benchmark(done));
        first.tell(Request(self.n)).expect("the first one is open");
        let actors = 2 * number - 1;
        same("result", answer(result)?, Answer { number, actors })?;
        // To each actor a request, of each but the first an answer.
        Ok(2 * actors - 1)
    }
}
