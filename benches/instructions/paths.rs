//! Counts the instructions of the hot paths, under callgrind, so the result is the same each time:
//! see `gate.sh`.
//!
//! Each function is one path, run [`TIMES`] times, loop included; its inputs are created outside of
//! the count and dropped there.

use std::future::poll_fn;
use std::hint::black_box;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gungraun::{
    Callgrind, EntryPoint, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use parking_lot::Mutex;
use turnwise::executor::DrainQueue;
use turnwise::{Actor, Budget, Context, Handler, Overflow, Reply, Spawner};

const TIMES: u64 = 1000;

struct Counter(u64);

struct Add(u64);

impl Handler<Add> for Counter {
    type Reply = ();
    fn handle(&mut self, add: Add, _: &mut Context<'_, Self>) {
        self.0 += add.0;
    }
}

/// An idle actor that has run a message.
fn idle() -> Actor<Counter> {
    let counter = Actor::new(Counter(0));
    add(&counter);
    counter
}

#[inline(always)]
fn add(counter: &Actor<Counter>) {
    counter.send(|counter| counter.0 += 1).expect("it is open, and has room");
}

/// An idle actor, on a thread whose cache has the chunks for `messages` messages.
fn warm(messages: u64) -> Actor<Counter> {
    let (other, queue) = queued();
    (0..messages).for_each(|_| add(&other));
    queue.run_until_idle();
    idle()
}

/// An idle actor on a queue, and the queue: messages wait until that is run.
fn queued() -> (Actor<Counter>, DrainQueue) {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle());
    let counter =
        builder.budget(Budget::UNLIMITED).spawn(Counter(0)).expect("no limit is a good one");
    add(&counter);
    queue.run_until_idle();
    (counter, queue)
}

/// As `queued`, on a thread whose cache has the chunks for `messages` messages.
fn queued_warm(messages: u64) -> (Actor<Counter>, DrainQueue) {
    drop(warm(messages));
    queued()
}

/// An idle actor with an unlimited budget: a drain's hand-over must not depend on the slowness of
/// callgrind. It does read the clock.
fn warm_patient(messages: u64) -> Actor<Counter> {
    drop(warm(messages));
    let budget = Budget::UNLIMITED.time(Duration::from_secs(3600));
    let counter =
        Actor::builder().budget(budget).spawn(Counter(0)).expect("an hour is a good limit");
    add(&counter);
    counter
}

/// A member of a ring of two.
struct Member {
    next: Option<Actor<Member>>,
    passed: u64,
}

/// A ring of two actors; it holds itself until it is [taken apart](take_apart).
fn ring() -> Actor<Member> {
    drop(warm(2 * TIMES));
    let [one, two] = [(); 2].map(|()| Actor::new(Member { next: None, passed: 0 }));
    let join = |from: &Actor<Member>, to: &Actor<Member>| {
        let next = Some(to.clone());
        from.with(move |member| member.next = next).expect("it is open");
    };
    join(&one, &two);
    join(&two, &one);
    one
}

fn take_apart(ring: Actor<Member>) {
    ring.with(|member| member.next = None).expect("it is open");
}

fn pass(member: &mut Member, left: u64) {
    member.passed += 1;
    if let Some(next) = member.next.as_ref().filter(|_| left > 1) {
        next.send(move |member| pass(member, left - 1)).expect("it is open");
    }
}

/// Ten actors, and the actor that they ask.
fn askers() -> (Actor<Counter>, Vec<Actor<Counter>>) {
    (warm(4 * TIMES), (0..10).map(|_| idle()).collect())
}

/// The shared configuration of actors of an executor.
fn spawner() -> (Spawner<Counter>, DrainQueue) {
    let queue = DrainQueue::new();
    let spawner = Actor::builder().executor(queue.handle()).build().expect("it has no limit");
    drop(spawner.spawn(Counter(0)));
    (spawner, queue)
}

/// An actor in the middle of a turn, on another thread that sleeps. Dropped outside of the count.
struct Busy {
    counter: Actor<Counter>,
    let_go: Option<Sender<()>>,
    owner: Option<JoinHandle<()>>,
}

impl Busy {
    fn new(counter: Actor<Counter>) -> Self {
        let (let_go, until) = channel::<()>();
        let (tell, told): (Sender<()>, Receiver<()>) = channel();
        let owner = {
            let counter = counter.clone();
            thread::spawn(move || {
                let turn = counter.send(move |_| {
                    tell.send(()).expect("the other end waits");
                    // The end of the channel is the signal.
                    let _ = until.recv();
                });
                assert!(turn.is_ok());
            })
        };
        told.recv().expect("the turn begins");
        Busy { counter, let_go: Some(let_go), owner: Some(owner) }
    }

    /// A mailbox with room for one message, which it contains.
    fn full() -> Self {
        let counter = Actor::builder().capacity(1, Overflow::Reject).spawn(Counter(0));
        let busy = Busy::new(counter.expect("1 is a good capacity"));
        add(&busy.counter);
        busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.let_go.take());
        self.owner.take().expect("it is taken once").join().expect("no turn panics");
    }
}

#[library_benchmark]
#[bench::mutex(Mutex::new(Counter(0)))]
fn lock_and_unlock(counter: Mutex<Counter>) -> Mutex<Counter> {
    for _ in 0..TIMES {
        black_box(&counter).lock().0 += 1;
    }
    counter
}

#[library_benchmark]
#[bench::idle(idle())]
fn send(counter: Actor<Counter>) -> Actor<Counter> {
    for _ in 0..TIMES {
        add(black_box(&counter));
    }
    counter
}

#[library_benchmark]
#[bench::idle(idle())]
fn with(counter: Actor<Counter>) -> Actor<Counter> {
    for _ in 0..TIMES {
        let value = black_box(&counter).with(|counter| {
            counter.0 += 1;
            counter.0
        });
        black_box(value.expect("it is open"));
    }
    counter
}

#[library_benchmark]
#[bench::idle(idle())]
fn call_and_wait(counter: Actor<Counter>) -> Actor<Counter> {
    for _ in 0..TIMES {
        let reply = black_box(&counter).call(|counter| {
            counter.0 += 1;
            counter.0
        });
        black_box(reply.wait().expect("it is open"));
    }
    counter
}

// A turn that may wait and does not. Includes the allocator.
#[library_benchmark]
#[bench::idle(idle())]
fn run_and_wait(counter: Actor<Counter>) -> Actor<Counter> {
    for _ in 0..TIMES {
        let reply = black_box(&counter).run(async |counter| {
            counter.0 += 1;
            counter.0
        });
        black_box(reply.wait().expect("it is open"));
    }
    counter
}

/// A turn that waits this many times, each time for a wake from outside.
struct Woken {
    queue: DrainQueue,
    waker: Arc<Mutex<Option<Waker>>>,
    turn: Reply<u64>,
}

impl Woken {
    fn new(times: u64) -> Self {
        let (counter, queue) = queued_warm(2 * times);
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let place = waker.clone();
        let turn = counter.run(async move |counter| {
            for _ in 0..times {
                let mut woken = false;
                poll_fn(|cx| {
                    if mem::replace(&mut woken, true) {
                        return Poll::Ready(());
                    }
                    *place.lock() = Some(cx.waker().clone());
                    Poll::Pending
                })
                .await;
                counter.0 += 1;
            }
            counter.0
        });
        queue.run_until_idle();
        Woken { queue, waker, turn }
    }
}

// Such a turn is woken, polled on a queue, and suspended again.
#[library_benchmark]
#[bench::of_a_queue(Woken::new(TIMES))]
fn wake(woken: Woken) -> Woken {
    for _ in 0..TIMES {
        let waker = black_box(&woken).waker.lock().take();
        waker.expect("it waits").wake();
        woken.queue.run_one();
    }
    assert!(woken.turn.is_ready());
    woken
}

#[library_benchmark]
#[bench::idle(idle())]
fn tell(counter: Actor<Counter>) -> Actor<Counter> {
    for _ in 0..TIMES {
        black_box(&counter).tell(Add(1)).expect("it is open");
    }
    counter
}

// Another thread owns the mailbox: the message is left there.
#[library_benchmark]
#[bench::busy(Busy::new(warm(2 * TIMES)))]
fn send_to_busy(busy: Busy) -> Busy {
    for _ in 0..TIMES {
        add(black_box(&busy.counter));
    }
    busy
}

// To an actor on a queue, and all of them run in one drain: `TIMES` messages once.
#[library_benchmark]
#[bench::messages(queued_warm(2 * TIMES))]
fn send_and_run((counter, queue): (Actor<Counter>, DrainQueue)) -> (Actor<Counter>, DrainQueue) {
    for _ in 0..TIMES {
        add(black_box(&counter));
    }
    black_box(&queue).run_until_idle();
    (counter, queue)
}

// A turn sends to its own actor, and the thread runs all of it when the turn is over: `TIMES`
// messages once.
#[library_benchmark]
#[bench::messages(warm_patient(2 * TIMES))]
fn send_to_self(counter: Actor<Counter>) -> Actor<Counter> {
    let turn = black_box(&counter).with(|_| (0..TIMES).for_each(|_| add(black_box(&counter))));
    turn.expect("it is open");
    counter
}

// `TIMES` messages, a hundred at a time, run in the call.
#[library_benchmark]
#[bench::hundreds(warm_patient(2 * TIMES))]
fn send_many(counter: Actor<Counter>) -> Actor<Counter> {
    for _ in 0..TIMES / 100 {
        let messages = (0..100).map(|_| |counter: &mut Counter| counter.0 += 1);
        black_box(&counter).send_many(messages).expect("it is open");
    }
    counter
}

// A turn of the first sends to the second, which is idle: it is listed, and run when that turn is
// over.
#[library_benchmark]
#[bench::of_another(idle(), warm(2 * TIMES))]
fn send_in_turn(from: Actor<Counter>, to: Actor<Counter>) -> (Actor<Counter>, Actor<Counter>) {
    for _ in 0..TIMES {
        let turn = black_box(&from).with(|_| add(black_box(&to)));
        turn.expect("it is open");
    }
    (from, to)
}

// `TIMES` hops of a ring of two, ten at a time, so few that the thread does not read the clock for
// long.
#[library_benchmark]
#[bench::of_two(args = (ring()), teardown = take_apart)]
fn hop(ring: Actor<Member>) -> Actor<Member> {
    for _ in 0..TIMES / 10 {
        black_box(&ring).send(|member| pass(member, 10)).expect("it is open");
    }
    ring
}

// In one turn ten actors are asked to ask one, which answers each by a message: `TIMES` requests.
#[library_benchmark]
#[bench::of_ten(askers())]
fn ask_by_message(
    (one, askers): (Actor<Counter>, Vec<Actor<Counter>>),
) -> (Actor<Counter>, Vec<Actor<Counter>>) {
    for _ in 0..TIMES / 10 {
        let turn = black_box(&one).with(|_| {
            for asker in &askers {
                let (one, back) = (one.clone(), asker.clone());
                let ask = move |_: &mut Counter| {
                    let answer = move |counter: &mut Counter| {
                        counter.0 += 1;
                        add(&back);
                    };
                    one.send(answer).expect("it is open");
                };
                asker.send(ask).expect("it is open");
            }
        });
        turn.expect("it is open");
    }
    (one, askers)
}

// One message at a time is handed to the executor, a queue, and run there.
#[library_benchmark]
#[bench::to_a_queue(queued_warm(2 * TIMES))]
fn hand_over((counter, queue): (Actor<Counter>, DrainQueue)) -> (Actor<Counter>, DrainQueue) {
    for _ in 0..TIMES {
        add(black_box(&counter));
        black_box(&queue).run_one();
    }
    (counter, queue)
}

// Actors of an executor. Includes the allocator.
#[library_benchmark]
#[bench::actor(spawner())]
fn create_from_spawner(
    (spawner, queue): (Spawner<Counter>, DrainQueue),
) -> (Spawner<Counter>, DrainQueue) {
    for i in 0..TIMES {
        black_box(spawner.spawn(Counter(i)));
    }
    (spawner, queue)
}

// Includes the allocator.
#[library_benchmark]
#[bench::actor(idle())]
fn create_and_drop(like: Actor<Counter>) -> Actor<Counter> {
    for i in 0..TIMES {
        black_box(Actor::new(Counter(i)));
    }
    like
}

#[library_benchmark]
#[bench::handle(idle())]
fn clone_and_drop(counter: Actor<Counter>) -> Actor<Counter> {
    for _ in 0..TIMES {
        black_box(black_box(&counter).clone());
    }
    counter
}

#[library_benchmark]
#[bench::full(Busy::full())]
fn send_refused(full: Busy) -> Busy {
    for _ in 0..TIMES {
        assert!(black_box(&full.counter).send(|counter| counter.0 += 1).is_err());
    }
    full
}

/// The benchmarks of these names, each of which counts while its own function is on the stack.
///
/// By default gungraun begins and ends the count at each function whose name contains that of the
/// benchmark. Closures of the function, and drops of them, have such names: they would be counted
/// if they are inlined, and with all that they call not counted if they are not.
macro_rules! paths {
    ($($path:ident),* $(,)?) => {
        library_benchmark_group!(name = paths; benchmarks = $($path),*);

        fn config() -> LibraryBenchmarkConfig {
            let entries = [$(concat!(
                "--toggle-collect=paths::", stringify!($path),
                "::__gungraun_wrapper_mod::", stringify!($path),
            )),*];
            let mut callgrind = Callgrind::with_args(entries);
            callgrind.entry_point(EntryPoint::None);
            LibraryBenchmarkConfig::default().tool(callgrind).clone()
        }
    };
}

paths!(
    lock_and_unlock,
    send,
    with,
    call_and_wait,
    run_and_wait,
    wake,
    tell,
    send_to_busy,
    send_and_run,
    send_to_self,
    send_many,
    send_in_turn,
    hop,
    ask_by_message,
    hand_over,
    create_and_drop,
    create_from_spawner,
    clone_and_drop,
    send_refused,
);

main!(config = config(); library_benchmark_groups = paths);
