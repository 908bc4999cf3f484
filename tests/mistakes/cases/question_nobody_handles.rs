//! A question without a handler.
use turnwise::Actor;

struct Account;
struct Balance;

fn main() {
    let account = Actor::new(Account);
    account.ask(Balance).wait();
}
