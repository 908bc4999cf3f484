//! A handler that awaits is an `AsyncHandler`.
use turnwise::{Context, Handler};

struct Account(u64);
struct Balance;

impl Handler<Balance> for Account {
    type Reply = u64;
    async fn handle(&mut self, _: Balance, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

fn main() {}
