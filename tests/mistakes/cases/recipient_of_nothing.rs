//! The same, as a recipient.
use turnwise::{Actor, Recipient};

struct Account;
struct Balance;

fn main() {
    let recipient: Recipient<Balance> = Actor::new(Account).recipient();
}
