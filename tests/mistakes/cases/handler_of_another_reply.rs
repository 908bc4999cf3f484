//! The handler returns what it says.
use turnwise::{Context, Handler};

struct Account(u64);
struct Balance;

impl Handler<Balance> for Account {
    type Reply = u64;
    fn handle(&mut self, _: Balance, _: &mut Context<'_, Self>) {
        self.0;
    }
}

fn main() {}
