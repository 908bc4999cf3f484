//! Accounts as actors.

use turnwise::{Actor, AskError, Context, Handler, Limit, PanicPolicy, Reply, WaitError};

use crate::{Account, Bank, HASTE, OPENING, Order, Outcome};

#[derive(Debug)]
struct Withdraw {
    amount: u64,
    panics: bool,
}

#[derive(Debug)]
struct Deposit {
    amount: u64,
    panics: bool,
}

impl Handler<Withdraw> for Account {
    type Reply = bool;
    fn handle(&mut self, message: Withdraw, _: &mut Context<'_, Self>) -> bool {
        self.withdraw(message.amount, message.panics)
    }
}

impl Handler<Deposit> for Account {
    type Reply = ();
    fn handle(&mut self, message: Deposit, _: &mut Context<'_, Self>) {
        self.deposit(message.amount, message.panics);
    }
}

/// The reason why a request did not change its account.
enum Failed {
    Cancelled,
    Panicked,
}

/// Waits for the end of a request: its answer, or the reason why it certainly had no effect.
fn settle<R, M>(reply: Reply<R, M>, hasty: bool) -> Result<R, Failed> {
    let limit = if hasty { Limit::Within(HASTE) } else { Limit::Unlimited };
    let answer = match reply.within(limit) {
        Ok(answer) => Ok(answer),
        // The request never runs.
        Err(WaitError::Cancelled(_)) => return Err(Failed::Cancelled),
        // Too late to withdraw it: it runs already.
        Err(WaitError::TimedOut(reply)) => reply.wait(),
        Err(WaitError::Ask(error)) => Err(error),
        Err(other) => panic!("{other}"),
    };
    answer.map_err(|error| match error {
        AskError::Panicked(_) => Failed::Panicked,
        closed => panic!("the bank is open: {closed}"),
    })
}

/// Withdraws from one account, deposits to the other, and returns the money if the deposit fails.
fn transfer(from: &Actor<Account>, to: &Actor<Account>, order: Order) -> Outcome {
    let Order { amount, hasty, .. } = order;
    match settle(from.ask(Withdraw { amount, panics: order.withdraw_panics }), hasty) {
        Ok(true) => {}
        Ok(false) => return Outcome::TooPoor,
        Err(Failed::Cancelled) => return Outcome::Cancelled,
        Err(Failed::Panicked) => return Outcome::Panicked,
    }
    let failed = match settle(to.ask(Deposit { amount, panics: order.deposit_panics }), hasty) {
        Ok(()) => return Outcome::Done,
        Err(failed) => failed,
    };
    // The money is on neither account. Returning it has no time limit.
    from.ask(Deposit { amount, panics: false }).wait().expect("the bank is open");
    match failed {
        Failed::Cancelled => Outcome::Cancelled,
        Failed::Panicked => Outcome::Panicked,
    }
}

struct Actors(Vec<Actor<Account>>);

impl Bank for Actors {
    fn transfer(&self, order: Order) -> Outcome {
        transfer(&self.0[order.from], &self.0[order.to], order)
    }

    fn sum(&self) -> u64 {
        self.0
            .iter()
            .map(|account| account.with(|account| account.balance).expect("the bank is open"))
            .sum()
    }
}

/// Accounts that stay usable after a panic: their methods leave nothing half done.
pub(crate) fn open(accounts: usize) -> impl Bank {
    let account = |_| {
        Actor::builder()
            .panic_policy(PanicPolicy::Resume)
            .spawn(Account { balance: OPENING })
            .expect("no capacity was set")
    };
    Actors((0..accounts).map(account).collect())
}
