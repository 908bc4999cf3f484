//! Requests: a reply to wait for, a reply to `.await`, and a mailbox that refuses messages when it
//! is full.
//!
//! ```text
//! cargo run --example ask
//! ```

use std::error::Error;
use std::io::{Write, stdout};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use turnwise::executor::DrainQueue;
use turnwise::{Actor, AskError, Overflow, Reason};

/// The smallest executor of futures: it sleeps until the future is woken. Replies work on any other
/// executor.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let stock = Actor::new(vec![("apples", 3), ("pears", 5)]);

    // Waits for the answer.
    let pears = stock.call(|stock| stock[1].1).wait()?;
    assert_eq!(pears, 5);

    // Requests are futures too. Two requests may be outstanding at once.
    let (apples, kinds) = block_on(async {
        let apples = stock.call(|stock| stock[0].1);
        let kinds = stock.call(|stock| stock.len());
        Ok::<_, AskError>((apples.await?, kinds.await?))
    })?;
    assert_eq!((apples, kinds), (3, 2));

    // Every request has an end: an answer, or the reason why there is none.
    stock.close();
    let late = stock.call(|stock| stock.len());
    assert_eq!(late.wait(), Err(AskError::from(Reason::Closed)));

    // The messages of this actor wait until the queue is run. Two may wait. The third one is given
    // back with the reason, and may be sent again.
    let queue = DrainQueue::new();
    let orders = Actor::builder()
        .name("orders")
        .capacity(2, Overflow::Reject)
        .executor(queue.handle())
        .spawn(Vec::new())?;
    orders.send(|orders| orders.push("apples"))?;
    orders.send(|orders| orders.push("pears"))?;
    let third = |orders: &mut Vec<_>| orders.push("plums");
    let refused = orders.send(third).expect_err("there is room for two");
    assert_eq!(refused.reason(), &Reason::Full);
    queue.run_until_idle();
    orders.send(refused.into_message())?;
    let all = orders.call(|orders| orders.join(", "));
    queue.run_until_idle();
    let all = all.wait()?;
    assert_eq!(all, "apples, pears, plums");

    writeln!(stdout(), "{apples} apples and {pears} pears; a closed actor says so")?;
    writeln!(stdout(), "{all}: one message was refused, sent again and run")?;
    Ok(())
}
