//! Accounts behind locks: two for each transfer, in the order of their places, so that no two
//! transfers wait for each other.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::{Mutex, MutexGuard};

use crate::{Account, Bank, HASTE, OPENING, Order, Outcome};

fn lock(account: &Mutex<Account>, hasty: bool) -> Option<MutexGuard<'_, Account>> {
    if hasty { account.try_lock_for(HASTE) } else { Some(account.lock()) }
}

fn transfer(accounts: &[Mutex<Account>], order: Order) -> Outcome {
    let Order { from, to, amount, hasty, .. } = order;
    let Some(mut low) = lock(&accounts[from.min(to)], hasty) else { return Outcome::Cancelled };
    let Some(mut high) = lock(&accounts[from.max(to)], hasty) else { return Outcome::Cancelled };
    let (from, to) = if from < to { (&mut *low, &mut *high) } else { (&mut *high, &mut *low) };
    match catch_unwind(AssertUnwindSafe(|| from.withdraw(amount, order.withdraw_panics))) {
        Ok(true) => {}
        Ok(false) => return Outcome::TooPoor,
        Err(_) => return Outcome::Panicked,
    }
    match catch_unwind(AssertUnwindSafe(|| to.deposit(amount, order.deposit_panics))) {
        Ok(()) => Outcome::Done,
        Err(_) => {
            from.deposit(amount, false);
            Outcome::Panicked
        }
    }
}

struct Mutexes(Vec<Mutex<Account>>);

impl Bank for Mutexes {
    fn transfer(&self, order: Order) -> Outcome {
        transfer(&self.0, order)
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|account| account.lock().balance).sum()
    }
}

pub(crate) fn open(accounts: usize) -> impl Bank {
    Mutexes((0..accounts).map(|_| Mutex::new(Account { balance: OPENING })).collect())
}
