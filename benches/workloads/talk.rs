//! The loads of objects that write to each other, as programs of actors do: requests and answers
//! that are messages, pings to random others, a bank whose tellers do not wait; and those of many
//! objects on a pool: a quiet one beside flooded ones, and the cost of creating one.
//!
//! As in [`actors`](super::actors), each checks its result.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::actors::Dice;
use super::rivals::Slot;
use super::runs::{Took, alone, at_once};
use super::{Letter, Way, spend};

/// Notifies the thread that has created it when this many are done.
struct End {
    left: AtomicUsize,
    told: Arc<Slot<()>>,
}

impl End {
    fn of(many: usize) -> Arc<Self> {
        Arc::new(End { left: AtomicUsize::new(many), told: Slot::new() })
    }

    fn one_is_done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.told.fill(());
        }
    }

    fn wait(&self) {
        self.told.wait();
    }
}

/// Returns the share of the `i`th of `many`.
fn share(all: u64, many: usize, i: usize) -> u64 {
    all / many as u64 + u64::from((i as u64) < all % many as u64)
}

/// A message to the object that is asked. The state counts requests.
enum Question<W: Way> {
    /// Makes these begin. They do it in the midst of a turn of the object that they ask, so all of
    /// them have asked once before the first is answered, on whichever thread.
    Begin(Vec<W::Of<Reply<W>>>),
    /// The asker that wants to be answered.
    Ask(W::Of<Reply<W>>),
    HowMany,
}

struct Asker<W: Way> {
    to: W::Of<Question<W>>,
    me: Option<W::Of<Reply<W>>>,
    left: u64,
    sum: u64,
    end: Arc<End>,
}

/// A message to an asker. The answer is the sum of all replies.
enum Reply<W: Way> {
    Meet(W::Of<Reply<W>>),
    Begin,
    Is(u64),
    /// Drops its own handle.
    Leave,
}

impl<W: Way> Letter for Question<W> {
    type State = u64;
    type Answer = u64;

    #[inline]
    fn run(self, asked: &mut u64) -> u64 {
        match self {
            Question::Begin(all) => all.iter().for_each(|asker| W::put(asker, Reply::Begin)),
            Question::Ask(asker) => {
                *asked += 1;
                W::put(&asker, Reply::Is(*asked));
            }
            Question::HowMany => {}
        }
        *asked
    }
}

impl<W: Way> Letter for Reply<W> {
    type State = Asker<W>;
    type Answer = u64;

    #[inline]
    fn run(self, asker: &mut Asker<W>) -> u64 {
        match self {
            Reply::Meet(me) => asker.me = Some(me),
            Reply::Begin => asker.ask(),
            Reply::Is(number) => {
                asker.sum += number;
                asker.left -= 1;
                if asker.left == 0 {
                    asker.end.one_is_done();
                } else {
                    asker.ask();
                }
            }
            Reply::Leave => asker.me = None,
        }
        asker.sum
    }
}

impl<W: Way> Asker<W> {
    #[inline]
    fn ask(&self) {
        let me = self.me.clone().expect("it has met itself");
        W::put(&self.to, Question::Ask(me));
    }
}

/// `askers` objects ask one, by a message that is answered by a message, one request after the
/// other each, `asks` in all. One thread begins it, and runs it where no pool does.
pub(crate) fn asks_by_message<W: Way>(askers: usize, asks: u64) -> Took {
    assert!(asks >= askers as u64, "each has to ask");
    let end = End::of(askers);
    let to = W::make::<Question<W>>(0);
    let make = |i| {
        let left = share(asks, askers, i);
        let (to, end) = (to.clone(), end.clone());
        let asker = W::make::<Reply<W>>(Asker { to, me: None, left, sum: 0, end });
        W::ask(&asker, Reply::Meet(asker.clone()));
        asker
    };
    let all: Vec<_> = (0..askers).map(make).collect();
    let begin = Question::Begin(all.clone());
    let (took, ()) = alone(|| {
        W::put(&to, begin);
        end.wait();
    });
    let sum: u64 = all.iter().map(|asker| W::ask(asker, Reply::Leave)).sum();
    // The replies are the numbers up to `asks`, each once.
    assert_eq!(sum, asks * (asks + 1) / 2, "{}: wrong replies", W::NAME);
    assert_eq!(W::ask(&to, Question::HowMany), asks, "{}: questions were lost", W::NAME);
    took
}

struct Pinger<W: Way> {
    all: Option<Everybody<W>>,
    me: usize,
    dice: Dice,
    /// Pings that it has yet to send, the current one included.
    left: u64,
    end: Option<Arc<End>>,
    pinged: u64,
}

type Everybody<W> = Arc<[<W as Way>::Of<Ping<W>>]>;

/// The answer is how often the object was pinged.
enum Ping<W: Way> {
    Meet(Everybody<W>),
    /// Makes it ping others this many times.
    Begin(u64, Arc<End>),
    /// From this one.
    Hit(usize),
    Pong,
    /// Makes these share this many pings. They begin in the midst of this turn, so all of them have
    /// a ping under way where turns do not run inside of each other.
    BeginAll(Range<usize>, u64, Arc<End>),
    /// Drops the others.
    Leave,
}

impl<W: Way> Letter for Ping<W> {
    type State = Pinger<W>;
    type Answer = u64;

    #[inline]
    fn run(self, pinger: &mut Pinger<W>) -> u64 {
        match self {
            Ping::Meet(all) => pinger.all = Some(all),
            Ping::Begin(many, end) => {
                (pinger.left, pinger.end) = (many, Some(end));
                pinger.ping();
            }
            Ping::BeginAll(these, pings, end) => {
                for (i, one) in pinger.all()[these.clone()].iter().enumerate() {
                    W::put(one, Ping::Begin(share(pings, these.len(), i), end.clone()));
                }
            }
            Ping::Hit(from) => {
                pinger.pinged += 1;
                W::put(&pinger.all()[from], Ping::Pong);
            }
            Ping::Pong => {
                pinger.left -= 1;
                if pinger.left > 0 {
                    pinger.ping();
                } else if let Some(end) = pinger.end.take() {
                    end.one_is_done();
                }
            }
            Ping::Leave => pinger.all = None,
        }
        pinger.pinged
    }
}

impl<W: Way> Pinger<W> {
    #[inline]
    fn all(&self) -> &Everybody<W> {
        self.all.as_ref().expect("it has met all")
    }

    #[inline]
    fn ping(&mut self) {
        let to = self.dice.roll(self.all().len() - 1);
        let to = to + usize::from(to >= self.me);
        W::put(&self.all()[to], Ping::Hit(self.me));
    }
}

/// `objects` objects ping random others and wait for the pong, a message as well, before they ping
/// the next. Each thread makes its part of the objects begin; `messages` are of each thread.
pub(crate) fn random_pings<W: Way>(threads: usize, objects: usize, messages: u64) -> Took {
    let make = |me| {
        let dice = Dice::of(me);
        W::make(Pinger { all: None, me, dice, left: 0, end: None, pinged: 0 })
    };
    let all: Everybody<W> = (0..objects).map(make).collect();
    all.iter().for_each(|one| _ = W::ask(one, Ping::Meet(all.clone())));
    let part = objects / threads;
    let pings = messages / 2;
    let work = |thread| {
        // At least a ping each.
        let busy = part.min(pings as usize);
        let (first, end) = (part * thread, End::of(busy));
        W::put(&all[first], Ping::BeginAll(first..first + busy, pings, end.clone()));
        end.wait();
    };
    let took = at_once(threads, work, || ());
    let pinged: u64 = all.iter().map(|one| W::ask(one, Ping::Leave)).sum();
    assert_eq!(pinged, pings * threads as u64, "{}: pings were lost", W::NAME);
    took
}

/// Enough for any number of transfers.
const OPENING: u64 = 1 << 40;
/// Transfers of one teller that are under way at once.
const UNDER_WAY: u64 = 64;

struct Account {
    balance: u64,
    changes: u64,
}

/// A message to an account. The answer is the balance, and how often it has changed.
enum Slip<W: Way> {
    /// Is confirmed to the teller, which sends the money to the other account.
    Withdraw {
        amount: u64,
        to: usize,
        teller: W::Of<Till<W>>,
    },
    Deposit {
        amount: u64,
        teller: W::Of<Till<W>>,
    },
    Read,
}

struct Teller<W: Way> {
    accounts: Arc<[W::Of<Slip<W>>]>,
    me: Option<W::Of<Till<W>>>,
    dice: Dice,
    /// Transfers that it has yet to begin.
    left: u64,
    under_way: u64,
    done: u64,
    end: Option<Arc<End>>,
}

/// A message to a teller. The answer is the number of completed transfers.
enum Till<W: Way> {
    Meet(W::Of<Till<W>>),
    /// Begins this many transfers.
    Begin(u64, Arc<End>),
    Withdrawn {
        amount: u64,
        to: usize,
    },
    Deposited,
    /// Drops its own handle.
    Leave,
}

impl<W: Way> Letter for Slip<W> {
    type State = Account;
    type Answer = (u64, u64);

    #[inline]
    fn run(self, account: &mut Account) -> (u64, u64) {
        match self {
            Slip::Withdraw { amount, to, teller } => {
                account.balance -= amount;
                account.changes += 1;
                W::put(&teller, Till::Withdrawn { amount, to });
            }
            Slip::Deposit { amount, teller } => {
                account.balance += amount;
                account.changes += 1;
                W::put(&teller, Till::Deposited);
            }
            Slip::Read => {}
        }
        (account.balance, account.changes)
    }
}

impl<W: Way> Letter for Till<W> {
    type State = Teller<W>;
    type Answer = u64;

    #[inline]
    fn run(self, teller: &mut Teller<W>) -> u64 {
        match self {
            Till::Meet(me) => teller.me = Some(me),
            Till::Begin(transfers, end) => {
                (teller.left, teller.end) = (transfers, Some(end));
                (0..UNDER_WAY.min(transfers)).for_each(|_| teller.begin());
            }
            Till::Withdrawn { amount, to } => {
                let deposit = Slip::Deposit { amount, teller: teller.me() };
                W::put(&teller.accounts[to], deposit);
            }
            Till::Deposited => {
                teller.done += 1;
                teller.under_way -= 1;
                if teller.left > 0 {
                    teller.begin();
                } else if teller.under_way == 0 {
                    teller.end.take().expect("it has begun").one_is_done();
                }
            }
            Till::Leave => teller.me = None,
        }
        teller.done
    }
}

impl<W: Way> Teller<W> {
    #[inline]
    fn me(&self) -> W::Of<Till<W>> {
        self.me.clone().expect("it has met itself")
    }

    #[inline]
    fn begin(&mut self) {
        self.left -= 1;
        self.under_way += 1;
        let from = self.dice.roll(self.accounts.len());
        let to = self.dice.roll(self.accounts.len() - 1);
        let to = to + usize::from(to >= from);
        let amount = self.dice.roll(100) as u64;
        let withdraw = Slip::Withdraw { amount, to, teller: self.me() };
        W::put(&self.accounts[from], withdraw);
    }
}

/// Two tellers transfer money between random ones of `accounts`, four messages a transfer, 64
/// transfers of each under way at once. One thread begins them one after the other, or two at once;
/// `transfers` are of each thread.
pub(crate) fn tellers<W: Way>(threads: usize, accounts: usize, transfers: u64) -> Took {
    const TELLERS: usize = 2;
    let open = |_| W::make::<Slip<W>>(Account { balance: OPENING, changes: 0 });
    let accounts: Arc<[_]> = (0..accounts).map(open).collect();
    let hire = |i| {
        let (accounts, dice) = (accounts.clone(), Dice::of(i));
        let teller = W::make::<Till<W>>(Teller {
            accounts,
            me: None,
            dice,
            left: 0,
            under_way: 0,
            done: 0,
            end: None,
        });
        W::ask(&teller, Till::Meet(teller.clone()));
        teller
    };
    let all: Vec<_> = (0..TELLERS).map(hire).collect();
    let work = |thread| {
        let mine: Vec<_> = all.iter().skip(thread).step_by(threads).collect();
        let end = End::of(mine.len());
        for (i, teller) in mine.iter().enumerate() {
            W::put(teller, Till::Begin(share(transfers, mine.len(), i), end.clone()));
        }
        end.wait();
    };
    let took = at_once(threads, work, || ());
    let transfers = transfers * threads as u64;
    let done: u64 = all.iter().map(|teller| W::ask(teller, Till::Leave)).sum();
    assert_eq!(done, transfers, "{}: transfers were lost", W::NAME);
    let read = |account| W::ask(account, Slip::Read);
    let (balance, changes) = accounts
        .iter()
        .map(read)
        .fold((0, 0), |sum, account| (sum.0 + account.0, sum.1 + account.1));
    assert_eq!(balance, OPENING * accounts.len() as u64, "{}: money was lost", W::NAME);
    assert_eq!(changes, 2 * transfers, "{}: changes were lost", W::NAME);
    took
}

/// The constant number of messages that wait for a flooded object.
const DEEP: u64 = 10_000;

struct Flooded<W: Way> {
    me: Option<W::Of<Flood<W>>>,
    value: u64,
    handled: u64,
    ended: u64,
}

/// The answer is the number of handled messages, and how many of them were not sent again.
enum Flood<W: Way> {
    Meet(W::Of<Flood<W>>),
    /// Works for this many rounds and sends itself again, unless it is over.
    Again(u32, Arc<AtomicBool>),
    /// Drops its own handle.
    Leave,
    Count,
}

impl<W: Way> Letter for Flood<W> {
    type State = Flooded<W>;
    type Answer = (u64, u64);

    #[inline]
    fn run(self, flooded: &mut Flooded<W>) -> (u64, u64) {
        match self {
            Flood::Meet(me) => flooded.me = Some(me),
            Flood::Again(rounds, over) => {
                flooded.value = spend(flooded.value, rounds);
                flooded.handled += 1;
                match &flooded.me {
                    Some(me) if !over.load(Ordering::Relaxed) => {
                        W::put(me, Flood::Again(rounds, over));
                    }
                    _ => flooded.ended += 1,
                }
            }
            Flood::Leave => flooded.me = None,
            Flood::Count => {}
        }
        (flooded.handled, flooded.ended)
    }
}

/// The time of its send. The state is the times from there to the turns, in nanoseconds.
enum Note {
    Sent(Instant),
    Read,
}

impl Letter for Note {
    type State = Vec<u32>;
    type Answer = Vec<u32>;

    #[inline]
    fn run(self, took: &mut Vec<u32>) -> Vec<u32> {
        match self {
            Note::Sent(at) => {
                took.push(u32::try_from(at.elapsed().as_nanos()).unwrap_or(u32::MAX));
                Vec::new()
            }
            Note::Read => std::mem::take(took),
        }
    }
}

/// The result of a quiet object beside flooded ones.
pub(crate) struct Quiet {
    /// From send to turn, in nanoseconds.
    pub(crate) took: Vec<u32>,
    /// The number of messages that the flooded ones have handled meanwhile.
    pub(crate) flood: u64,
    pub(crate) during: Duration,
}

/// Sends a quiet object `messages`, one every 0.1 ms or so, while each of `flooded` others has
/// 10,000 messages waiting: each of those sends itself again, so only the pool's threads are busy.
pub(crate) fn quiet<W: Way>(flooded: usize, messages: usize, handler: u32) -> Quiet {
    let quiet = W::make::<Note>(Vec::with_capacity(messages));
    let over = Arc::new(AtomicBool::new(false));
    let flood = |_| {
        let state = Flooded { me: None, value: 1, handled: 0, ended: 0 };
        let one = W::make::<Flood<W>>(state);
        W::ask(&one, Flood::Meet(one.clone()));
        (0..DEEP).for_each(|_| W::put(&one, Flood::Again(handler, over.clone())));
        one
    };
    let all: Vec<_> = (0..flooded).map(flood).collect();
    let handled = || all.iter().map(|one| W::ask(one, Flood::Count).0).sum::<u64>();
    let (before, start) = (handled(), Instant::now());
    let mut dice = Dice::of(flooded);
    for _ in 0..messages {
        thread::sleep(Duration::from_micros(20 + dice.roll(60) as u64));
        W::put(&quiet, Note::Sent(Instant::now()));
    }
    let (flood, during) = (handled() - before, start.elapsed());
    over.store(true, Ordering::Relaxed);
    for one in &all {
        W::ask(one, Flood::Leave);
        // Behind all messages sent before the one above was handled.
        assert_eq!(W::ask(one, Flood::Count).1, DEEP, "{}: a flood has run dry", W::NAME);
    }
    let took = W::ask(&quiet, Note::Read);
    assert_eq!(took.len(), messages, "{}: messages were lost", W::NAME);
    Quiet { took, flood, during }
}

/// Counts for many threads, each of which has a cache line of its own.
struct Tally([CachePadded<AtomicU64>; 64]);

impl Tally {
    fn new() -> Self {
        Tally(std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))))
    }

    #[inline]
    fn one_more(&self) {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        self.0[MINE.with(|mine| *mine) % self.0.len()].fetch_add(1, Ordering::Release);
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Acquire)).sum()
    }

    fn wait_for(&self, sum: u64) {
        while self.sum() < sum {
            thread::yield_now();
        }
        assert_eq!(self.sum(), sum, "more than there can be");
    }
}

static HANDLED: LazyLock<Tally> = LazyLock::new(Tally::new);
static GONE: LazyLock<Tally> = LazyLock::new(Tally::new);

/// Eight bytes whose end is counted.
struct Small(u64);

impl Drop for Small {
    #[inline]
    fn drop(&mut self) {
        GONE.one_more();
    }
}

struct First;

impl Letter for First {
    type State = Small;
    type Answer = u64;

    #[inline]
    fn run(self, state: &mut Small) -> u64 {
        state.0 += 1;
        HANDLED.one_more();
        state.0
    }
}

/// Creates `many` objects and gives each its first message, until all have been handled.
pub(crate) fn first_messages<W: Way>(many: u64) -> Took {
    let (handled, gone) = (HANDLED.sum(), GONE.sum());
    let make = W::maker::<First>();
    let (took, all) = alone(|| {
        let mut all = Vec::with_capacity(many as usize);
        for _ in 0..many {
            let one = make(Small(0));
            W::put(&one, First);
            all.push(one);
        }
        HANDLED.wait_for(handled + many);
        all
    });
    // Their ends do not run into the next trial.
    drop(all);
    GONE.wait_for(gone + many);
    took
}

/// Returns the resident bytes of each of `many` idle objects with a state of 8 bytes, its handle
/// included, once it has handled a message; `None` where the system does not report them. For a
/// process of its own.
pub(crate) fn resident<W: Way>(many: u64) -> Option<f64> {
    let handled = HANDLED.sum();
    let mut all = Vec::with_capacity(many as usize);
    let new = W::maker::<First>();
    let mut make = |number: u64| {
        let one = new(Small(0));
        W::put(&one, First);
        all.push(one);
        // Few messages wait at once, because their memory is not measured.
        if number % 64 == 0 {
            HANDLED.wait_for(handled + number);
        }
    };
    // The fixed cost of the first ones.
    let few = (many / 10).min(1000);
    (1..=few).for_each(&mut make);
    let before = resident_now()?;
    (few + 1..=many).for_each(&mut make);
    HANDLED.wait_for(handled + many);
    let bytes = resident_now()? - before;
    let gone = GONE.sum();
    drop(all);
    GONE.wait_for(gone + many);
    Some(bytes / (many - few) as f64)
}

/// Returns the resident bytes of this process, where the system reports them.
fn resident_now() -> Option<f64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}
