//! An actor that keeps what it was sent.

use serde::{Deserialize, Serialize};
use turnwise::{Context, Handler};

/// The added numbers, in order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Board {
    pub added: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
pub struct Add(pub u64);

impl Handler<Add> for Board {
    type Reply = usize;
    fn handle(&mut self, Add(points): Add, _: &mut Context<'_, Self>) -> usize {
        self.added.push(points);
        self.added.len()
    }
}
