//! A recipient of a message without a handler.
use turnwise::{Actor, Recipient};

struct Account;
struct Balance;

fn main() {
    let recipient: Recipient<Balance> = Recipient::new(&Actor::new(Account));
}
