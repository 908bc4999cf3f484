//! Turns that wait for each other in a circle: exactly one of them gets an error.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{must_end, size, size_from_env};
use turnwise::executor::{DrainQueue, ThreadPool};
use turnwise::{
    Actor, ActorName, AskError, Budget, Context, Cycle, Drain, Handler, Limit, Overflow,
    PanicPolicy, Reason, SendError, System, VirtualClock, WaitError, promise,
};

const HOUR: Duration = Duration::from_secs(3600);

/// A state that collects numbers.
#[derive(Debug, Default)]
struct Seen(Vec<u32>);

impl Handler<u32> for Seen {
    type Reply = ();
    fn handle(&mut self, n: u32, _: &mut Context<'_, Self>) {
        self.0.push(n);
    }
}

fn named(name: &str) -> Actor<Seen> {
    Actor::builder().name(name).spawn(Seen::default()).unwrap()
}

fn circle(told: &AskError) -> &Cycle {
    let AskError::Refused(Reason::Deadlock(cycle), _) = told else { panic!("{told}") };
    cycle
}

/// Returns the names of a circle, beginning with this one.
fn turned(cycle: &Cycle, first: &str) -> Vec<String> {
    let mut names = cycle.actors().to_vec();
    let at = names.iter().position(|name| name == first).expect("it is in the circle");
    names.rotate_left(at);
    names
}

/// The ways in which a turn waits for another actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    With,
    Call,
    CallLimit,
    ByRef,
    Idle,
    End,
    Room,
    AskRoom,
}

const KINDS: [Kind; 8] = [
    Kind::With,
    Kind::Call,
    Kind::CallLimit,
    Kind::ByRef,
    Kind::Idle,
    Kind::End,
    Kind::Room,
    Kind::AskRoom,
];

/// Waits inside a turn. Returns the circle if the wait is refused.
fn wait(kind: Kind, to: &Actor<Seen>) -> Result<(), Cycle> {
    fn asked<T: Debug>(answer: Result<T, AskError>) -> Result<(), Cycle> {
        match answer {
            Ok(_) => Ok(()),
            Err(AskError::Refused(Reason::Deadlock(cycle), _)) => Err(cycle),
            Err(other) => panic!("{other}"),
        }
    }
    fn refused<M>(sent: Result<(), SendError<M>>) -> Result<(), Cycle> {
        match sent.map_err(SendError::into_reason) {
            Ok(()) => Ok(()),
            Err(Reason::Deadlock(cycle)) => Err(cycle),
            Err(other) => panic!("{other}"),
        }
    }
    match kind {
        Kind::With => asked(to.with(|_| ())),
        Kind::Call => asked(to.call(|_| ()).wait()),
        Kind::CallLimit => match to.call(|_| ()).within(HOUR) {
            Err(WaitError::Ask(error)) => asked::<()>(Err(error)),
            Err(other) => panic!("{other}"),
            Ok(()) => Ok(()),
        },
        Kind::ByRef => {
            let mut reply = to.call(|_| ());
            match reply.wait_by_ref(Limit::Unlimited) {
                Ok(answer) => {
                    assert_eq!(answer, Some(()));
                    Ok(())
                }
                Err(error) => {
                    assert!(reply.cancel().is_ok(), "it waits still");
                    asked::<()>(Err(error))
                }
            }
        }
        Kind::Idle => asked(to.idle().wait().map_err(AskError::from)),
        Kind::End => {
            to.close();
            asked(to.ended().within(Limit::Unlimited).map_err(AskError::from))
        }
        Kind::Room => {
            while to.tell(0).is_ok() {}
            refused(to.waiting().tell(1).wait())
        }
        Kind::AskRoom => {
            while to.tell(0).is_ok() {}
            asked(to.waiting().ask(1).wait())
        }
    }
}

/// Runs two actors, each in a turn on a thread of its own, that wait for each other.
fn meet(
    kinds: [Kind; 2],
    actors: &[Actor<Seen>; 2],
    wait: fn(Kind, &Actor<Seen>) -> Result<(), Cycle>,
) -> [Result<(), Cycle>; 2] {
    let both = Arc::new(Barrier::new(2));
    let threads = [0, 1].map(|me| {
        let (actor, other) = (actors[me].clone(), actors[1 - me].clone());
        let (kind, both) = (kinds[me], both.clone());
        thread::spawn(move || {
            let turn = |_: &mut Seen| {
                both.wait();
                wait(kind, &other)
            };
            actor.with(turn).unwrap()
        })
    });
    threads.map(|thread| thread.join().unwrap())
}

#[test]
fn of_two_turns_that_wait_for_each_other_one_is_told() {
    must_end(|| {
        for first in KINDS {
            for second in KINDS {
                // A turn that waits for an end closes the other actor, which refuses later
                // messages.
                if (first == Kind::End) != (second == Kind::End) {
                    continue;
                }
                let actors = ["ada", "bob"].map(|name| {
                    let seen = Actor::builder().name(name);
                    seen.capacity(4, Overflow::Reject).spawn(Seen::default()).unwrap()
                });
                let told = meet([first, second], &actors, wait);
                let cycles = told.iter().filter_map(|told| told.as_ref().err()).collect::<Vec<_>>();
                let [cycle] = cycles[..] else { panic!("{first:?}, {second:?}: {told:?}") };
                assert_eq!(turned(cycle, "ada"), ["ada", "bob"]);
                let me = usize::from(told[1].is_err());
                assert_eq!(cycle.actors()[0], ["ada", "bob"][me], "the refused one comes first");
            }
        }
    });
}

#[test]
fn a_question_that_is_refused_never_runs() {
    must_end(|| {
        let actors = ["ada", "bob"].map(named);
        let told = meet([Kind::Call; 2], &actors, |_, to| {
            let answer = to.call(|seen| seen.0.push(1)).wait();
            answer.map_err(|error| circle(&error).clone())
        });
        assert_eq!(told.iter().filter(|told| told.is_err()).count(), 1);
        let ran = actors.map(|actor| {
            actor.idle().wait().unwrap();
            actor.with(|seen| seen.0.len()).unwrap()
        });
        assert_eq!(ran.iter().sum::<usize>(), 1, "{ran:?}");
    });
}

/// The ways in which a turn asks the next room to admit a player.
#[derive(Clone, Copy, Debug)]
enum Door {
    Call,
    WaitingCall,
    ByRef,
    Timeout,
    Ask,
}

/// A turn of a room lets one of its players enter another room, and keeps it if that is refused.
fn moves(door: Door, from: &mut Seen, to: &Actor<Seen>) {
    let Some(player) = from.0.pop() else { return };
    let enters = move |room: &mut Seen| room.0.push(player);
    let entered = match door {
        Door::Call => to.call(enters).wait(),
        Door::WaitingCall => to.waiting().call(enters).wait(),
        Door::ByRef => to.call(enters).wait_by_ref(Limit::Unlimited).map(|_| ()),
        Door::Timeout => to.call(enters).wait_timeout(HOUR).map_err(|error| match error {
            WaitError::Ask(error) => error,
            other => panic!("{other}"),
        }),
        Door::Ask => to.ask(player).wait(),
    };
    match entered {
        Ok(()) => {}
        Err(error) => {
            circle(&error);
            from.0.push(player);
        }
    }
}

#[test]
fn rooms_that_keep_whom_another_room_refuses_lose_nobody() {
    must_end(|| {
        for door in [Door::Call, Door::WaitingCall, Door::ByRef, Door::Timeout, Door::Ask] {
            let rooms = ["north", "south"].map(named);
            for (at, room) in rooms.iter().enumerate() {
                let players = (0..20).map(|n| n + 100 * at as u32);
                room.with(|seen| seen.0.extend(players)).unwrap();
            }
            for _ in 0..size(30, 300) {
                // Both are inside a turn, so each would wait for the other.
                let both = Arc::new(Barrier::new(2));
                let threads = [0, 1].map(|at| {
                    let (from, to) = (rooms[at].clone(), rooms[1 - at].clone());
                    let both = both.clone();
                    thread::spawn(move || {
                        let turn = |seen: &mut Seen| {
                            both.wait();
                            moves(door, seen, &to);
                        };
                        from.with(turn).unwrap();
                    })
                });
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
            let players = rooms.iter().flat_map(|room| room.with(|seen| seen.0.clone()).unwrap());
            let mut players = players.collect::<Vec<_>>();
            assert_eq!(players.len(), 40, "{door:?}: none is in two rooms");
            players.sort_unstable();
            players.dedup();
            assert_eq!(players.len(), 40, "{door:?}: none is lost");
        }
    });
}

#[test]
fn a_turn_that_awaits_its_own_actor_is_refused_and_its_question_never_runs() {
    let queue = DrainQueue::new();
    let ada = by_hand("ada", &queue);
    let own = ada.clone();
    let turn = ada.run(async move |seen| {
        let mut question = own.ask(1);
        let told = (&mut question).await.unwrap_err();
        assert_eq!(circle(&told).actors(), ["ada"]);
        seen.0.extend(question.cancel().ok());
    });
    queue.run_until_idle();
    assert_eq!(turn.wait(), Ok(()));
    assert_eq!(
        crate::common::asked(&queue, &ada, |seen| seen.0.clone()),
        [1],
        "it came back, and once"
    );
}

#[test]
fn a_question_with_a_limit_comes_back() {
    must_end(|| {
        let actors = ["ada", "bob"].map(named);
        let told = meet([Kind::Call; 2], &actors, |_, to| {
            let ran = Arc::new(AtomicUsize::new(0));
            let runs = ran.clone();
            match to.call(move |_| runs.fetch_add(1, SeqCst)).within(HOUR) {
                Err(WaitError::Ask(error)) => {
                    assert_eq!(Arc::strong_count(&ran), 1, "the question was taken back");
                    Err(circle(&error).clone())
                }
                Ok(_) => Ok(()),
                Err(other) => panic!("{other}"),
            }
        });
        assert_eq!(told.iter().filter(|told| told.is_err()).count(), 1);
    });
}

#[test]
fn names_stand_in_the_order_of_waiting() {
    must_end(|| {
        // Of four in a row, the last one closes the circle. Turns on top of others take part.
        let actors = ["a", "b", "c", "d"].map(named);
        let [a, b, c, d] = actors.clone();
        let (tell, told) = mpsc::channel();
        let begun = Arc::new(Barrier::new(2));
        let begins = begun.clone();
        let thread = thread::spawn(move || {
            let turn = |_: &mut Seen| {
                b.with(|_| {
                    begins.wait();
                    c.with(|_| ()).map_err(|error| circle(&error).clone())
                })
                .unwrap()
            };
            a.with(turn).unwrap()
        });
        let [a, ..] = actors.clone();
        let c = actors[2].clone();
        c.with(|_| {
            begun.wait();
            d.with(|_| {
                tell.send(a.with(|_| ()).map_err(|error| circle(&error).clone())).unwrap();
            })
            .unwrap();
        })
        .unwrap();
        match (thread.join().unwrap(), told.recv().unwrap()) {
            (Err(cycle), Ok(())) => assert_eq!(cycle.actors(), ["b", "c", "d", "a"]),
            (Ok(()), Err(cycle)) => assert_eq!(cycle.actors(), ["d", "a", "b", "c"]),
            told => panic!("{told:?}"),
        }
    });
}

// Turns that are suspended.

fn by_hand(name: &str, queue: &DrainQueue) -> Actor<Seen> {
    Actor::builder().name(name).executor(queue.handle()).spawn(Seen::default()).unwrap()
}

// Limits.

/// `ada` waits for `bob` with one limit, and `bob` then for `ada` with the other. Returns both
/// results.
fn with_limits(first: Limit, second: Limit, clocks: [&VirtualClock; 2]) -> [&'static str; 2] {
    fn said<R>(answer: Result<R, WaitError<R>>) -> &'static str {
        match answer {
            Ok(_) => "answer",
            Err(WaitError::Cancelled(_)) => "limit",
            Err(WaitError::Ask(error)) => {
                circle(&error);
                "told"
            }
            Err(other) => panic!("{other}"),
        }
    }
    let actors = [("ada", clocks[1]), ("bob", clocks[0])].map(|(name, clock)| {
        let seen = Actor::builder().name(name).clock(clock.clone());
        seen.spawn(Seen::default()).unwrap()
    });
    let [ada, bob] = actors;
    let (busy, is_busy) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let (asked, clock) = (ada.clone(), clocks[1].clone());
    let actor = bob.clone();
    let sleepers = clocks[0].clone();
    let second = thread::spawn(move || {
        let turn = move |_: &mut Seen| {
            busy.send(()).unwrap();
            gone.recv().unwrap();
            said(asked.call(|_| ()).within(second))
        };
        actor.with(turn).unwrap()
    });
    is_busy.recv().unwrap();
    let first = thread::spawn(move || ada.with(|_| said(bob.call(|_| ()).within(first))).unwrap());
    sleepers.wait_for_sleepers(1);
    go.send(()).unwrap();
    while !(first.is_finished() && second.is_finished()) {
        // The turn that gets no error sleeps by the clock.
        clock.advance(Duration::from_millis(1));
        sleepers.advance(Duration::from_millis(1));
        thread::yield_now();
    }
    [first.join().unwrap(), second.join().unwrap()]
}

#[test]
fn whose_limit_would_end_first_is_told() {
    must_end(|| {
        let ms = |n| Limit::Within(Duration::from_millis(n));
        let (short, long) = (ms(1_800_000), ms(3_600_000));
        let clock = VirtualClock::new();
        let one = [&clock; 2];
        assert_eq!(with_limits(long, short, one), ["answer", "told"]);
        assert_eq!(with_limits(short, long, one), ["told", "answer"]);
        assert_eq!(with_limits(long, Limit::Unlimited, one), ["told", "answer"]);
        // The order of two clocks is unknown: one of them ends the wait.
        let other = VirtualClock::new();
        let got = with_limits(ms(1_000), long, [&clock, &other]);
        assert_eq!(got, ["limit", "answer"]);
    });
}

// Effects of user code.

#[test]
fn a_turn_that_panics_asleep_leaves_nothing() {
    must_end(|| {
        // A clock that panics in the middle of a wait.
        #[derive(Debug)]
        struct Bad(AtomicUsize);
        impl turnwise::Clock for Bad {
            fn now(&self) -> Duration {
                Duration::ZERO
            }
            fn park_until(&self, _: Duration) {
                if self.0.fetch_add(1, SeqCst) == 0 {
                    crate::common::quiet_panic("a bad clock")
                }
                thread::yield_now();
            }
        }
        let ada = Actor::builder().name("ada").panic_policy(PanicPolicy::Resume);
        let ada = ada.spawn(Seen::default()).unwrap();
        let bob = Actor::builder().name("bob").clock(Bad(AtomicUsize::new(0)));
        let bob = bob.spawn(Seen::default()).unwrap();
        let held = crate::common::Held::hold(&bob);
        let asked = bob.clone();
        let turn = ada.call(move |_| asked.call(|_| ()).within(HOUR).is_ok());
        assert!(matches!(turn.wait(), Err(AskError::Panicked(_))));
        held.let_go();
        // No edge of `ada` is left: `bob` may wait for it while it is busy.
        let (go, gone) = promise::<()>();
        let busy = ada.run(async move |_| gone.await);
        let asked = ada.clone();
        let (begin, begun) = mpsc::channel();
        let waits = thread::spawn(move || {
            let turn = |_: &mut Seen| {
                begin.send(()).unwrap();
                asked.with(|_| ())
            };
            bob.with(turn).unwrap()
        });
        begun.recv().unwrap();
        go.keep(());
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert_eq!(busy.wait(), Ok(Ok(())));
    });
}

#[test]
fn a_turn_that_is_cut_leaves_its_place() {
    let queue = DrainQueue::new();
    for stops in [false, true] {
        let (ada, bob) = (by_hand("ada", &queue), by_hand("bob", &queue));
        let (go, gone) = promise::<()>();
        let asked = bob.clone();
        let (waits, abort) = ada.run_abortable(async move |_| asked.call(|_| ()).await);
        let asked = ada.clone();
        let other = bob.run(async move |_| {
            gone.await.unwrap();
            asked.call(|_| ()).await
        });
        queue.run_until_idle();
        if stops {
            ada.stop();
        } else {
            abort.abort();
        }
        // It waits for no actor now, whether it was dropped yet or not.
        go.keep(());
        queue.run_until_idle();
        assert_eq!(waits.wait(), Err(AskError::Aborted(ActorName::ANY)));
        match other.wait().unwrap() {
            Ok(()) => assert!(!stops),
            Err(AskError::Refused(Reason::Stopped(_), _)) => assert!(stops),
            Err(error) => panic!("{error}"),
        }
    }
}

// Random graphs.

/// Random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// The wait-for graph, as a plain program sees it.
struct Oracle {
    targets: Vec<usize>,
    begun: Vec<bool>,
    over: Vec<bool>,
    told: Vec<Option<Vec<String>>>,
}

impl Oracle {
    fn new(targets: &[usize]) -> Self {
        let len = targets.len();
        Oracle {
            targets: targets.to_vec(),
            begun: vec![false; len],
            over: vec![false; len],
            told: vec![None; len],
        }
    }

    fn waits(&self, who: usize) -> bool {
        self.begun[who] && !self.over[who]
    }

    /// Starts a wait for its target.
    fn begin(&mut self, who: usize) {
        self.begun[who] = true;
        let (mut at, mut names) = (self.targets[who], vec![who.to_string()]);
        while at != who && self.waits(at) && names.len() <= self.targets.len() {
            names.push(at.to_string());
            at = self.targets[at];
        }
        if at == who {
            self.told[who] = Some(names);
            self.over[who] = true;
        }
        // A wait whose target is over is answered.
        while let Some(next) =
            (0..self.over.len()).find(|&i| self.waits(i) && self.over[self.targets[i]])
        {
            self.over[next] = true;
        }
    }
}

/// Returns the number of circles if each waits for its target.
fn circles(targets: &[usize]) -> usize {
    let mut oracle = Oracle::new(targets);
    (0..targets.len()).for_each(|who| oracle.begin(who));
    oracle.told.iter().flatten().count()
}

#[test]
fn random_graphs_of_threads_have_one_told_a_circle() {
    must_end(|| {
        let graphs = size_from_env("TURNWISE_THREAD_GRAPHS", size(100, 3_000));
        let pool = ThreadPool::builder().threads(2).build().unwrap();
        let mut dice = Dice(0xD1B5_4A32_D192_ED03);
        for _ in 0..graphs {
            let len = 2 + dice.roll(6);
            let targets =
                (0..len).map(|me| (me + 1 + dice.roll(len - 1)) % len).collect::<Vec<_>>();
            // Threads of their own, and a pool's workers.
            let actors = (0..len).map(|i| {
                let seen = Actor::builder().name(i.to_string());
                if i % 3 == 0 { seen.executor(pool.handle()) } else { seen }
                    .spawn(Seen::default())
                    .unwrap()
            });
            let actors = actors.collect::<Vec<_>>();
            let all = Arc::new(Barrier::new(len));
            let threads = (0..len).map(|me| {
                let (actor, other) = (actors[me].clone(), actors[targets[me]].clone());
                let all = all.clone();
                let kind = [Kind::With, Kind::Call, Kind::CallLimit][dice.roll(3)];
                thread::spawn(move || {
                    let turn = |_: &mut Seen| {
                        turnwise::blocking(|| all.wait());
                        wait(kind, &other)
                    };
                    actor.with(turn).unwrap()
                })
            });
            let threads = threads.collect::<Vec<_>>();
            let told = threads.into_iter().map(|thread| thread.join().unwrap());
            let told = told.enumerate().filter_map(|(me, told)| Some((me, told.err()?)));
            let told = told.collect::<Vec<_>>();
            assert_eq!(told.len(), circles(&targets), "{targets:?}: {told:?}");
            for (me, cycle) in told {
                let names = cycle.actors().iter().map(|name| name.parse::<usize>().unwrap());
                let names = names.collect::<Vec<_>>();
                assert_eq!(names[0], me);
                for (at, &name) in names.iter().enumerate() {
                    assert_eq!(targets[name], names[(at + 1) % names.len()], "{targets:?}");
                }
            }
        }
    });
}

// A frame marks a mailbox as this thread's exactly as long as that is true.

/// A clock that stands still, and reports the threads that sleep by it.
#[derive(Debug)]
struct Bed(Mutex<mpsc::Sender<&'static str>>);

impl turnwise::Clock for Bed {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn park_until(&self, _: Duration) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        let name = ["first", "second"].into_iter().find(|known| *known == name);
        let _ = self.0.lock().unwrap().send(name.unwrap_or("another"));
        thread::park();
    }
}

/// Returns such a clock, and its reports.
fn bed() -> (Arc<Bed>, mpsc::Receiver<&'static str>) {
    let (tell, told) = mpsc::channel();
    (Arc::new(Bed(Mutex::new(tell))), told)
}

fn on<R: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    thread::Builder::new().name(name.to_owned()).spawn(f).unwrap()
}

/// Checks that `a` waits for no actor: two turns may wait in a row that would close a circle if it
/// waited for `slow`.
fn assert_waits_for_nobody(
    a: &Actor<Seen>,
    slow: &Actor<Seen>,
    clock: &Arc<Bed>,
    beds: &mpsc::Receiver<&'static str>,
) {
    let d = Actor::builder().name("d").clock(clock.clone()).spawn(Seen::default()).unwrap();
    let held = crate::common::Held::hold(a);
    let (turn_of_d, asked) = (d.clone(), a.clone());
    let first = on("first", move || turn_of_d.with(|_| asked.call(|_| ()).within(HOUR)).unwrap());
    assert_eq!(beds.recv(), Ok("first"));
    let turn_of_slow = slow.clone();
    let second = on("second", move || turn_of_slow.with(|_| d.call(|_| ()).within(HOUR)).unwrap());
    assert_eq!(beds.recv_timeout(Duration::from_secs(20)), Ok("second"), "one of them is refused");
    held.let_go();
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
}

#[test]
fn an_executor_that_runs_drains_in_turns_of_its_own_leaves_no_wait_behind() {
    must_end(|| {
        let (clock, beds) = bed();
        let slow = Actor::builder().name("slow").clock(clock.clone());
        let slow = slow.spawn(Seen::default()).unwrap();
        let a = Actor::builder().name("a").budget(Budget::turns(1));
        let a = a.clock(clock.clone()).executor(|drain: Drain| {
            Actor::new(()).with(move |()| drain.run()).unwrap();
        });
        let a = a.spawn(Seen::default()).unwrap();
        let held = crate::common::Held::hold(&slow);
        let (later, asked) = (a.clone(), slow.clone());
        let first = on("first", move || {
            // The budget is spent after this one, and its drain calls the executor.
            let sends = later.clone();
            later.send(move |_| {
                sends.send(move |_| assert_eq!(asked.idle().within(HOUR), Ok(true))).unwrap();
            })
        });
        assert_eq!(beds.recv(), Ok("first"));
        held.let_go();
        first.join().unwrap().unwrap();
        assert_waits_for_nobody(&a, &slow, &clock, &beds);
    });
}

/// Code that runs after the release of `a`, on the thread that has released it. It waits for `log`,
/// from the time when another thread in a turn of `a` waits for `slow` until after that.
fn waits_after_it_is_let_go() -> Scene {
    let (clock, beds) = bed();
    let [slow, log] = ["slow", "log"].map(|name| {
        Actor::builder().name(name).clock(clock.clone()).spawn(Seen::default()).unwrap()
    });
    Scene { clock, beds, slow, log }
}

struct Scene {
    clock: Arc<Bed>,
    beds: mpsc::Receiver<&'static str>,
    slow: Actor<Seen>,
    log: Actor<Seen>,
}

impl Scene {
    /// `first` releases `a`, and waits for `log` then; `second` is in its turn meanwhile.
    fn play(
        self,
        a: &Actor<Seen>,
        go: &mpsc::Sender<()>,
        begin: impl FnOnce(Actor<Seen>) + Send + 'static,
    ) {
        let Scene { clock, beds, slow, log } = self;
        let held = [&slow, &log].map(crate::common::Held::hold);
        let [slow_held, log_held] = held;
        let let_go = a.clone();
        let first = on("first", move || begin(let_go));
        assert_eq!(beds.recv(), Ok("second"));
        go.send(()).unwrap();
        assert_eq!(beds.recv(), Ok("first"));
        slow_held.let_go();
        crate::common::until(|| a.len() == 0);
        log_held.let_go();
        first.join().unwrap();
        assert_waits_for_nobody(a, &slow, &clock, &beds);
    }
}

#[test]
fn an_executor_that_waits_after_it_has_passed_its_drain_on_leaves_no_wait_behind() {
    must_end(|| {
        let scene = waits_after_it_is_let_go();
        let (go, gone) = mpsc::channel();
        let (gone, log) = (Mutex::new(gone), scene.log.clone());
        let drains = AtomicUsize::new(0);
        let a = Actor::builder().name("a").clock(scene.clock.clone());
        let a = a.budget(Budget::turns(1)).executor(move |drain: Drain| {
            // The first one is run in the call, inside a turn, and hands over to the second.
            if drains.fetch_add(1, SeqCst) == 1 {
                on("second", move || drain.run());
                gone.lock().unwrap().recv().unwrap();
                log.call(|_| ()).within(HOUR).unwrap();
            } else {
                Actor::new(()).with(move |()| drain.run()).unwrap();
            }
        });
        let a = a.spawn(Seen::default()).unwrap();
        let asked = scene.slow.clone();
        scene.play(&a, &go, move |a| {
            let sends = a.clone();
            let turn = move |_: &mut Seen| assert_eq!(asked.idle().within(HOUR), Ok(true));
            a.send(move |_| sends.send(turn).unwrap()).unwrap();
        });
    });
}

#[test]
fn a_waker_that_waits_after_its_actor_is_let_go_leaves_no_wait_behind() {
    must_end(|| {
        let (start, started) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let scene = waits_after_it_is_let_go();
        let a = Actor::builder().name("a").clock(scene.clock.clone());
        let a = a.spawn(Seen::default()).unwrap();
        struct Waits {
            gone: Mutex<mpsc::Receiver<()>>,
            a: Actor<Seen>,
            slow: Actor<Seen>,
            log: Actor<Seen>,
        }
        impl Wake for Waits {
            fn wake(self: Arc<Self>) {
                let (a, slow) = (self.a.clone(), self.slow.clone());
                on("second", move || {
                    a.with(|_| assert_eq!(slow.idle().within(HOUR), Ok(true))).unwrap();
                });
                self.gone.lock().unwrap().recv().unwrap();
                self.log.call(|_| ()).within(HOUR).unwrap();
            }
        }
        let (slow, log) = (scene.slow.clone(), scene.log.clone());
        let waker =
            Waker::from(Arc::new(Waits { gone: Mutex::new(gone), a: a.clone(), slow, log }));
        let held = a.clone();
        let watches = thread::spawn(move || {
            crate::common::until(|| held.len() > 0);
            let mut idle = held.idle();
            let polled = Pin::new(&mut idle).poll(&mut std::task::Context::from_waker(&waker));
            assert!(polled.is_pending());
            start.send(()).unwrap();
            idle
        });
        scene.play(&a, &go, move |a| a.with(move |_| started.recv().unwrap()).unwrap());
        drop(watches.join().unwrap());
    });
}

/// Asks an actor when it is dropped.
struct Asks(Actor<Seen>, mpsc::Sender<AskError>);

impl Drop for Asks {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.with(|_| ()).expect_err("this thread is inside a turn of it"));
    }
}

#[test]
fn a_snapshot_shows_a_circle_that_a_limit_opens() {
    let pool = ThreadPool::new().unwrap();
    let clock = VirtualClock::new();
    let system = System::with_clock(clock.clone());
    let [ada, bob] = ["ada", "bob"].map(|name| {
        let builder = Actor::builder().name(name).counted(true).executor(pool.handle());
        system.spawn(builder, Seen::default()).unwrap()
    });
    let leads_to =
        || system.snapshot().actors.iter().map(|actor| actor.waits_for).collect::<Vec<_>>();
    assert_eq!(leads_to(), [None, None]);
    let (asks, asked) = (bob.clone(), ada.clone());
    // The question in bob has begun when its turn asks back, and its limit ends first.
    let turn = ada.call(move |_| {
        let inner = move |_: &mut Seen| asked.call(|_| ()).within(2 * HOUR).is_ok();
        asks.call(inner).within(HOUR).is_err()
    });
    clock.wait_for_sleepers(2);
    let ids = [ada.snapshot().id, bob.snapshot().id];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(leads_to(), [Some(ids[1]), Some(ids[0])]);
    clock.advance(HOUR);
    assert!(turn.wait().unwrap());
    assert!(bob.idle().within(Limit::Unlimited).unwrap());
    assert_eq!(leads_to(), [None, None]);
}

#[test]
fn an_actor_that_is_freed_is_named_in_no_circle() {
    must_end(|| {
        let queue = DrainQueue::new();
        let ada = named("ada");
        let (tell, told) = mpsc::channel();
        for hooks in 0..3 {
            let gone = Actor::builder().name("gone").executor(queue.handle());
            let asks = Asks(ada.clone(), tell.clone());
            let gone = match hooks {
                0 => gone.on_undelivered(move |_| _ = &asks),
                1 => gone.on_panic(move |_| _ = &asks),
                _ => gone.panic_policy(PanicPolicy::restart(move || {
                    let _ = &asks;
                    Seen::default()
                })),
            };
            drop(gone.spawn(Seen::default()).unwrap());
            // Its end is run on top of a turn of `ada`.
            ada.with(|_| queue.run_until_idle()).unwrap();
            assert_eq!(circle(&told.recv().unwrap()).actors(), ["ada"]);
        }
    });
}

#[test]
fn a_turn_that_awaits_is_not_refused_for_a_limited_wait() {
    // `b` waits for `a`, whose turn below waits for `b` for a time.
    let (a, b) = (Actor::new(0), Actor::new(()));
    let (ours, theirs) = (a.clone(), b.clone());
    let turn = a
        .with(move |_| {
            let turn = theirs.run(async move |_: &mut ()| ours.call(|n| *n + 1).await);
            let _ = theirs.call(|()| ()).within(Duration::from_millis(50));
            turn
        })
        .unwrap();
    assert_eq!(turn.wait().unwrap(), Ok(1));
}
