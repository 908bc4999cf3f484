//! Banking: transfers between accounts, each of which must be confirmed by the second account
//! before the first one goes on. Savina: 1,000 accounts, 50,000 transfers.
//!
//! An account that waits for a confirmation puts other messages aside, as in the original. Money
//! always goes from a lower account to a higher one, so there is no cycle of waiting, and it could
//! wait inside its turn as well, with `with` or `Reply::wait`: then its thread may sleep.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use turnwise::{Actor, Context, Handler, Promise, promise};

use crate::random::Random;
use crate::{Benchmark, Outcome, Plain, System, answer, same};

const INITIAL: u64 = 1 << 40;

pub(crate) struct Banking {
    transfers: Arc<[Transfer]>,
    /// The final balances.
    balances: Vec<u64>,
}

struct Transfer {
    from: usize,
    to: usize,
    amount: u64,
}

struct Teller {
    accounts: Vec<Actor<Account>>,
    left: usize,
    closing: usize,
    balances: Vec<u64>,
    done: Option<Promise<Vec<u64>>>,
}

struct Account {
    id: usize,
    teller: Actor<Teller>,
    balance: u64,
    waiting: bool,
    aside: VecDeque<Request>,
}

struct Open {
    accounts: Vec<Actor<Account>>,
    transfers: Arc<[Transfer]>,
    done: Promise<Vec<u64>>,
}
enum Request {
    /// Pay to another account.
    Pay { amount: u64, to: Actor<Account> },
    /// Take from another account, and confirm.
    Take { amount: u64, from: Actor<Account> },
}
/// Confirms that the paid amount was taken.
struct Confirm;
/// Reports that a transfer is complete.
struct Complete;
struct Close;
struct Closed {
    id: usize,
    balance: u64,
}

impl Account {
    fn serve(&mut self, request: Request, cx: &Context<'_, Self>) {
        match request {
            Request::Pay { amount, to } => {
                self.balance -= amount;
                self.waiting = true;
                let from = cx.actor().expect("the teller has a handle until the end");
                to.tell(Request::Take { amount, from }).expect("an account is open");
            }
            Request::Take { amount, from } => {
                self.balance += amount;
                from.tell(Confirm).expect("an account is open");
            }
        }
    }
}

impl Handler<Request> for Account {
    type Reply = ();
    fn handle(&mut self, request: Request, cx: &mut Context<'_, Self>) {
        if self.waiting {
            self.aside.push_back(request);
        } else {
            self.serve(request, cx);
        }
    }
}

impl Handler<Confirm> for Account {
    type Reply = ();
    fn handle(&mut self, _: Confirm, cx: &mut Context<'_, Self>) {
        self.teller.tell(Complete).expect("the teller is open");
        self.waiting = false;
        while !self.waiting {
            let Some(request) = self.aside.pop_front() else { break };
            self.serve(request, cx);
        }
    }
}

impl Handler<Close> for Account {
    type Reply = ();
    fn handle(&mut self, _: Close, _: &mut Context<'_, Self>) {
        self.teller
            .tell(Closed { id: self.id, balance: self.balance })
            .expect("the teller is open");
    }
}

impl Handler<Open> for Teller {
    type Reply = ();
    fn handle(&mut self, Open { accounts, transfers, done }: Open, _: &mut Context<'_, Self>) {
        for &Transfer { from, to, amount } in transfers.iter() {
            accounts[from]
                .tell(Request::Pay { amount, to: accounts[to].clone() })
                .expect("an account is open");
        }
        self.left = transfers.len();
        self.closing = accounts.len();
        self.balances = vec![0; accounts.len()];
        (self.accounts, self.done) = (accounts, Some(done));
    }
}

impl Handler<Complete> for Teller {
    type Reply = ();
    fn handle(&mut self, _: Complete, _: &mut Context<'_, Self>) {
        self.left -= 1;
        if self.left == 0 {
            for account in &self.accounts {
                account.tell(Close).expect("an account is open");
            }
        }
    }
}

impl Handler<Closed> for Teller {
    type Reply = ();
    fn handle(&mut self, Closed { id, balance }: Closed, _: &mut Context<'_, Self>) {
        self.balances[id] = balance;
        self.closing -= 1;
        if self.closing == 0 {
            self.accounts.clear();
            self.done.take().expect("all close once").keep(std::mem::take(&mut self.balances));
        }
    }
}

impl Banking {
    /// A mutex around each account, and two threads with half of the transfers each, which lock in
    /// the order of the accounts.
    fn mutexes(&self) -> Outcome {
        let accounts: Vec<_> = self.balances.iter().map(|_| Mutex::new(INITIAL)).collect();
        let (first, second) = self.transfers.split_at(self.transfers.len() / 2);
        let pay = |transfers: &[Transfer]| {
            for &Transfer { from, to, amount } in transfers {
                let (mut from, mut to) = (accounts[from].lock(), accounts[to].lock());
                *from -= amount;
                *to += amount;
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| pay(first));
            scope.spawn(|| pay(second));
        });
        self.check(&accounts.into_iter().map(Mutex::into_inner).collect::<Vec<_>>())
    }

    fn check(&self, balances: &[u64]) -> Outcome {
        let wrong = balances
            .iter()
            .zip(&self.balances)
            .filter(|(found, expected)| found != expected)
            .count();
        same("accounts with a wrong balance", wrong, 0)?;
        same("accounts", balances.len(), self.balances.len())?;
        // `Pay`, `Take`, `Confirm`, `Complete`; of each account the end; the opening.
        Ok(4 * self.transfers.len() as u64 + 2 * balances.len() as u64 + 1)
    }
}

impl Benchmark for Banking {
    const NAME: &'static str = "banking";
    const PLAIN: Option<Plain<Self>> = Some(("mutexes", Self::mutexes));

    fn sized(quick: bool) -> Self {
        let (accounts, transfers) = if quick { (20, 200) } else { (1000, 300_000) };
        let mut random = Random::new(123_456);
        let transfers: Arc<[Transfer]> = (0..transfers)
            .map(|_| {
                let from = random.below(accounts / 10 * 8);
                Transfer {
                    from,
                    to: from + 1 + random.below(accounts - from - 1),
                    amount: random.below(1000) as u64,
                }
            })
            .collect();
        let mut balances = vec![INITIAL; accounts];
        for &Transfer { from, to, amount } in transfers.iter() {
            balances[from] -= amount;
            balances[to] += amount;
        }
        Banking { transfers, balances }
    }

    fn size(&self) -> String {
        format!("{} accounts, {} transfers", self.balances.len(), self.transfers.len())
    }

    fn run<Y: System>(&self, system: &Y) -> Outcome {
        let accounts = self.balances.len();
        let teller = system.spawn(Teller {
            accounts: Vec::new(),
            left: 0,
            closing: 0,
            balances: Vec::new(),
            done: None,
        });
        let account = |id| Account {
            id,
            teller: teller.clone(),
            balance: INITIAL,
            waiting: false,
            aside: VecDeque::new(),
        };
        let open = (0..accounts).map(|id| system.spawn(account(id))).collect();
        let (done, balances) = promise();
        teller
            .tell(Open { accounts: open, transfers: self.transfers.clone(), done })
            .expect("the teller is open");
        self.check(&answer(balances)?)
    }
}
