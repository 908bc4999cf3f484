//! Asking: an answer to wait for, an answer to `.await`, and a mailbox that says no when it is full.
//!
//! ```text
//! cargo run --example ask
//! ```

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use turnwise::{Actor, AskError, Overflow, Reason};

/// The smallest executor there is: it sleeps until the future is woken. Replies work on any other just as well.
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

fn main() -> Result<(), Box<dyn Error>> {
    let stock = Actor::builder(vec![("apples", 3), ("pears", 5)]).capacity(2, Overflow::Reject).name("stock").spawn()?;

    // Waiting for an answer.
    let pears = stock.ask(|stock| stock[1].1).wait()?;
    assert_eq!(pears, 5);

    // The same as a future; two questions may be on their way at once.
    let (apples, kinds) = block_on(async {
        let apples = stock.ask(|stock| stock[0].1);
        let kinds = stock.ask(|stock| stock.len());
        Ok::<_, AskError>((apples.await?, kinds.await?))
    })?;
    assert_eq!((apples, kinds), (3, 2));

    // Two messages may wait. The third one comes back, with the reason, and is ours to send again.
    stock.enqueue(|stock| stock[0].1 += 10)?;
    stock.enqueue(|stock| stock[1].1 += 10)?;
    let refused = stock.enqueue(|stock| stock.push(("plums", 1))).expect_err("there is room for two");
    assert_eq!(refused.reason(), &Reason::Full);
    stock.drain();
    stock.try_send(refused.into_message())?;

    assert_eq!(stock.ask(|stock| stock.len()).wait()?, 3);

    // Every question has an end: an answer, or the reason why there is none.
    stock.close();
    assert_eq!(stock.ask(|stock| stock.len()).wait(), Err(AskError::Closed));

    println!("{apples} apples and {pears} pears; one message was refused, sent again and run; a closed actor says so");
    Ok(())
}
