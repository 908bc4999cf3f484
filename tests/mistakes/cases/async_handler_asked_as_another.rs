//! The state has an async handler for the message, which `ask` does not call.
use turnwise::{Actor, AsyncContext, AsyncHandler};

struct Account;
struct Balance;

impl AsyncHandler<Balance> for Account {
    type Reply = u64;
    async fn handle(&mut self, _: Balance, _: &mut AsyncContext<Self>) -> u64 {
        10
    }
}

fn main() {
    let account = Actor::new(Account);
    account.ask(Balance).wait();
}
