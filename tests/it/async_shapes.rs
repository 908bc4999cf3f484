//! The shapes of arguments that `Actor::run` takes: each compiles, is `Send`, and has the
//! documented effect.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use crate::common::yield_now;
use turnwise::{Actor, AskError, promise};

#[derive(Default)]
struct Shop {
    names: Vec<String>,
    sold: u64,
}

impl Shop {
    async fn sell(&mut self, by: u64) -> u64 {
        yield_now().await;
        self.sold += by;
        self.sold
    }

    fn first(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }
}

fn shop() -> Actor<Shop> {
    Actor::new(Shop::default())
}

#[test]
fn captures_by_move() {
    let name = String::from("ada");
    let count = shop().run(async move |shop| {
        yield_now().await;
        shop.names.push(name);
        shop.names.len()
    });
    assert_eq!(count.wait(), Ok(1));
}

#[test]
fn borrows_what_it_owns_over_an_await() {
    let words = [String::from("ada"), String::from("grace")];
    let longest = shop().run(async move |shop| {
        let longest = words.iter().max_by_key(|word| word.len());
        yield_now().await;
        shop.names.extend(longest.cloned());
        let first = shop.first();
        yield_now().await;
        first.map(str::len)
    });
    assert_eq!(longest.wait(), Ok(Some(5)));
}

#[test]
fn captures_what_is_static_by_reference() {
    static NAME: &str = "ada";
    let name = &NAME;
    assert_eq!(shop().run(async move |_| name.len()).wait(), Ok(3));
}

#[test]
fn generic_in_state_and_answer() {
    fn asks<S, R>(actor: &Actor<S>, answer: R) -> Result<R, AskError>
    where
        S: Default + Send + 'static,
        R: Send + Sync + 'static,
    {
        let turn = actor.run(async move |state: &mut S| {
            *state = S::default();
            yield_now().await;
            answer
        });
        turn.wait()
    }
    assert_eq!(asks(&shop(), "done"), Ok("done"));
    assert_eq!(asks(&Actor::new(3), 4), Ok(4));
}

#[test]
fn calls_methods_that_await() {
    let sold = shop().run(async |shop| shop.sell(2).await + shop.sell(3).await);
    assert_eq!(sold.wait(), Ok(7));
}

#[test]
fn awaits_in_what_it_awaits() {
    let sold = shop().run(async |shop| {
        let inner = async {
            let twice = async { shop.sell(1).await * 2 };
            twice.await + 1
        };
        inner.await
    });
    assert_eq!(sold.wait(), Ok(3));
}

#[test]
fn an_async_fn_of_its_own() {
    async fn sells(shop: &mut Shop) -> u64 {
        shop.sell(9).await
    }
    assert_eq!(shop().run(sells).wait(), Ok(9));
}

#[test]
fn a_boxed_future() {
    fn sells(shop: &mut Shop) -> Pin<Box<dyn Future<Output = u64> + Send + '_>> {
        Box::pin(shop.sell(8))
    }
    assert_eq!(shop().run(sells).wait(), Ok(8));
    // An async closure takes captures into its future. The lifetime of a plain closure's boxed
    // future cannot be inferred without a bound.
    fn turn<F>(turn: F) -> F
    where
        F: for<'a> FnOnce(&'a mut Shop) -> Pin<Box<dyn Future<Output = u64> + Send + 'a>>,
    {
        turn
    }
    let by = 5;
    let boxed = shop().run(turn(move |shop| Box::pin(shop.sell(by))));
    assert_eq!(boxed.wait(), Ok(5));
}

#[test]
fn a_result_with_question_marks() {
    let parsed = |text: &'static str| {
        shop().run(async move |shop| -> Result<u64, std::num::ParseIntError> {
            yield_now().await;
            let by = text.parse::<u64>()?;
            Ok(shop.sell(by).await)
        })
    };
    assert_eq!(parsed("12").wait().unwrap(), Ok(12));
    assert!(parsed("twelve").wait().unwrap().is_err());
}

#[test]
fn loops_with_awaits() {
    let sold = shop().run(async |shop| {
        for by in 0..10 {
            if by % 3 == 0 {
                continue;
            }
            shop.sell(by).await;
        }
        while shop.sold < 100 {
            shop.sell(30).await;
        }
        shop.sold
    });
    assert_eq!(sold.wait(), Ok(117));
}

#[test]
fn the_first_of_two() {
    let (never, other) = promise::<u64>();
    let first = shop().run(async move |shop| {
        let mut sells = pin!(shop.sell(4));
        let mut other = pin!(other);
        poll_fn(|cx| match other.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer.unwrap_or(0)),
            Poll::Pending => sells.as_mut().poll(cx),
        })
        .await
    });
    assert_eq!(first.wait(), Ok(4));
    drop(never);
}

trait Sells {
    fn sells(&mut self, by: u64) -> impl Future<Output = u64> + Send;
}

impl Sells for Shop {
    async fn sells(&mut self, by: u64) -> u64 {
        self.sell(by).await
    }
}

#[test]
fn methods_of_a_trait() {
    fn asks<S: Sells + Send + 'static>(actor: &Actor<S>) -> Result<u64, AskError> {
        actor.run(async |state: &mut S| state.sells(6).await).wait()
    }
    assert_eq!(asks(&shop()), Ok(6));
}

#[test]
fn recursion_in_boxes() {
    fn halves(shop: &mut Shop, n: u64) -> Pin<Box<dyn Future<Output = u64> + Send + '_>> {
        Box::pin(async move {
            let depth = if n > 1 { halves(shop, n / 2).await } else { 0 };
            shop.sell(1).await;
            depth + 1
        })
    }
    let depth = shop().run(async |shop| (halves(shop, 64).await, shop.sold));
    assert_eq!(depth.wait(), Ok((7, 7)));
}
