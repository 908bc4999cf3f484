//! The state has no handler for the message.
use turnwise::Actor;

struct Account;
struct Deposit;

fn main() {
    let account = Actor::new(Account);
    account.tell(Deposit).unwrap();
}
