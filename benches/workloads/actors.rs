//! The loads of many objects: a token that goes round, many that are created and dropped, requests
//! to any of them, a bank.
//!
//! Each creates its objects, times what it is named after until everything has been handled, and
//! checks the result.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::rivals::Slot;
use super::runs::{Took, alone, at_once};
use super::{Letter, State, Way, Work, spend};

/// A member of a ring, which passes the token on.
struct Member<W: Way> {
    next: Option<W::Of<Hop<W>>>,
    passed: u64,
}

/// The answer is the number of tokens that the member has passed.
enum Hop<W: Way> {
    Join(W::Of<Hop<W>>),
    /// The token has this many hops to go, this one included.
    Token(u64, Arc<Slot<()>>),
    /// Drops the next one, because a ring holds itself.
    Leave,
}

impl<W: Way> Letter for Hop<W> {
    type State = Member<W>;
    type Answer = u64;

    #[inline]
    fn run(self, member: &mut Member<W>) -> u64 {
        match self {
            Hop::Join(next) => member.next = Some(next),
            Hop::Token(left, end) => {
                member.passed += 1;
                if left == 1 {
                    end.fill(());
                } else {
                    W::put(
                        member.next.as_ref().expect("all have joined"),
                        Hop::Token(left - 1, end),
                    );
                }
            }
            Hop::Leave => member.next = None,
        }
        member.passed
    }
}

/// One token makes `hops` in a ring of `members`; with two, it is ping-pong.
pub(crate) fn ring<W: Way>(members: usize, hops: u64) -> Took {
    let ring: Vec<_> =
        (0..members).map(|_| W::make::<Hop<W>>(Member { next: None, passed: 0 })).collect();
    for (i, member) in ring.iter().enumerate() {
        W::ask(member, Hop::Join(ring[(i + 1) % members].clone()));
    }
    let (took, ()) = alone(|| {
        let end = Slot::new();
        W::put(&ring[0], Hop::Token(hops, end.clone()));
        end.wait();
    });
    let passed: Vec<u64> = ring.iter().map(|member| W::ask(member, Hop::Leave)).collect();
    let (each, more) = (hops / members as u64, hops % members as u64);
    for (i, passed) in (0..).zip(passed) {
        assert_eq!(passed, each + u64::from(i < more), "{}: member {i} of {members}", W::NAME);
    }
    took
}

/// Creates `many` objects and gives each its first message, then drops them all.
pub(crate) fn creation<W: Way>(many: u64) -> (Took, Took) {
    creation_by::<W>(many, || W::make::<Work>(State::default()), |_| W::settle())
}

/// As `creation`, with objects that are created like this, and that have handled their first
/// messages when `settle` returns.
pub(crate) fn creation_by<W: Way>(
    many: u64,
    make: impl Fn() -> W::Of<Work>,
    settle: impl Fn(&[W::Of<Work>]),
) -> (Took, Took) {
    let (made, all) = alone(|| {
        let mut all = Vec::with_capacity(many as usize);
        for _ in 0..many {
            let one = make();
            W::put(&one, Work(0));
            all.push(one);
        }
        settle(&all);
        all
    });
    // Not all of them, which would take longer than the measured work.
    for one in all.iter().step_by(97) {
        assert_eq!(W::ask(one, Work(0)), 2, "{}: the first message was lost", W::NAME);
    }
    let (dropped, ()) = alone(|| drop(all));
    (made, dropped)
}

/// Xorshift: a number below `below` each time.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(thread: usize) -> Self {
        Dice(spend(thread as u64, 3) | 1)
    }

    #[inline]
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * below as u64) >> 32) as usize
    }
}

/// Each thread sends `asks` requests to random ones of `objects`, and waits for each answer.
pub(crate) fn random_asks<W: Way>(threads: usize, objects: usize, asks: u64) -> Took {
    let all: Vec<_> = (0..objects).map(|_| W::make::<Work>(State::default())).collect();
    let sum = AtomicU64::new(0);
    let work = |thread| {
        let mut dice = Dice::of(thread);
        let answers: u64 = (0..asks).map(|_| W::ask(&all[dice.roll(objects)], Work(0))).sum();
        sum.fetch_add(answers, Ordering::Relaxed);
    };
    let took = at_once(threads, work, || ());
    // The answers of each object count up from 1, whichever asker got them.
    let mut asked = vec![0_u64; objects];
    for thread in 0..threads {
        let mut dice = Dice::of(thread);
        (0..asks).for_each(|_| asked[dice.roll(objects)] += 1);
    }
    let expected: u64 = asked.iter().map(|asked| asked * (asked + 1) / 2).sum();
    assert_eq!(sum.into_inner(), expected, "{}: wrong answers", W::ASKING);
    took
}

const OPENING: u64 = 1_000;

struct Account {
    balance: u64,
    changes: u64,
}

/// The answer is the new balance, or nothing if there is not enough.
enum Order {
    Withdraw(u64),
    Deposit(u64),
    /// The answer is the number of changes.
    Close,
}

impl Letter for Order {
    type State = Account;
    type Answer = Option<u64>;

    #[inline]
    fn run(self, account: &mut Account) -> Option<u64> {
        account.balance = match self {
            Order::Withdraw(amount) => account.balance.checked_sub(amount)?,
            Order::Deposit(amount) => account.balance + amount,
            Order::Close => return Some(account.changes),
        };
        account.changes += 1;
        Some(account.balance)
    }
}

/// Each thread makes `transfers` between random ones of `accounts`: it withdraws, waits for the
/// answer, deposits, and waits again.
pub(crate) fn bank<W: Way>(threads: usize, accounts: usize, transfers: u64) -> Took {
    let all: Vec<_> =
        (0..accounts).map(|_| W::make::<Order>(Account { balance: OPENING, changes: 0 })).collect();
    let done = AtomicU64::new(0);
    let work = |thread| {
        let mut dice = Dice::of(thread);
        let mut mine = 0;
        for _ in 0..transfers {
            let from = dice.roll(accounts);
            let to = dice.roll(accounts - 1);
            let to = to + usize::from(to >= from);
            let amount = dice.roll(100) as u64;
            if W::ask(&all[from], Order::Withdraw(amount)).is_some() {
                black_box(W::ask(&all[to], Order::Deposit(amount)));
                mine += 1;
            }
        }
        done.fetch_add(mine, Ordering::Relaxed);
    };
    let took = at_once(threads, work, || ());
    let balance = |account| W::ask(account, Order::Deposit(0)).expect("a deposit is always taken");
    assert_eq!(
        all.iter().map(balance).sum::<u64>(),
        OPENING * accounts as u64,
        "{}: money was lost",
        W::ASKING
    );
    let changes: u64 = all.iter().filter_map(|account| W::ask(account, Order::Close)).sum();
    assert_eq!(
        changes,
        2 * done.into_inner() + accounts as u64,
        "{}: transfers were lost",
        W::ASKING
    );
    took
}

/// Work; the last message of a burst notifies its sender.
struct Burst {
    rounds: u32,
    end: Option<Arc<Slot<()>>>,
}

impl Letter for Burst {
    type State = State;
    type Answer = ();

    #[inline]
    fn run(self, state: &mut State) {
        Work(self.rounds).run(state);
        if let Some(end) = self.end {
            end.fill(());
        }
    }
}

/// Returns the duration of each of `questions` requests to a quiet object, in nanoseconds, while
/// two threads flood an object each with bursts of 1,000 messages, one burst after the other.
pub(crate) fn cold<W: Way>(questions: usize, handler: u32) -> Vec<u32> {
    let quiet = W::make::<Work>(State::default());
    let over = AtomicBool::new(false);
    let flood = || {
        let hot = W::make::<Burst>(State::default());
        while !over.load(Ordering::Relaxed) {
            (0..999).for_each(|_| W::put(&hot, Burst { rounds: handler, end: None }));
            let end = Slot::new();
            W::put(&hot, Burst { rounds: handler, end: Some(end.clone()) });
            end.wait();
        }
    };
    thread::scope(|scope| {
        scope.spawn(flood);
        scope.spawn(flood);
        let mut took = Vec::with_capacity(questions);
        for asked in 1..=questions as u64 {
            let start = Instant::now();
            let answer = W::ask(&quiet, Work(0));
            took.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
            assert_eq!(answer, asked, "{}: wrong answers", W::ASKING);
        }
        over.store(true, Ordering::Relaxed);
        took
    })
}
