//! The state has no async handler for the message.
use turnwise::Actor;

struct Account;
struct Balance;

fn main() {
    let account = Actor::new(Account);
    account.ask_async(Balance).wait();
}
