//! Measures the memory of an idle object, a queued message and a burst, and whether it is returned.
//!
//! "Requested" is the memory that the program has asked the allocator for and not given back;
//! "resident" is the memory that the system has given the process for it, with the allocator's own
//! losses. Every cell is measured in a process of its own, so that none finds the remains of
//! another. The cells of this library are checked: memory is returned after a burst, and nothing
//! grows with actors and threads that have come and gone.
//!
//! ```text
//! cargo bench --bench memory [-- --test]
//! ```
//! With `--test`, the sizes are small and the checks are the same.

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::yield_now;
use turnwise::executor::DrainQueue;
use turnwise::{Actor, PanicPolicy, Spawner, ThreadPool};

/// The maximum reserve of this library: the depot's 1024 chunks of 4096 bytes, those of one thread,
/// and the lists of them.
const KEPT: i64 = 1100 * 4096;
/// Memory that may be present once and absent later: chunks move between the caches of threads and
/// the depot.
const SLACK: i64 = 64 * 4096;

/// The system's allocator, and the bytes that are out.
struct Counting;

static REQUESTED: AtomicI64 = AtomicI64::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        REQUESTED.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: the caller's duty, word for word.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        REQUESTED.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller's duty, word for word.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Messages that have been handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// A message that owns `N` bytes.
fn message<const N: usize>() -> impl FnOnce(&mut u64) + Send + 'static {
    let bytes = [1_u8; N];
    move |sum: &mut u64| {
        *sum += u64::from(black_box(&bytes)[0]);
        HANDLED.fetch_add(1, Relaxed);
    }
}

/// Both figures at one moment.
#[derive(Clone, Copy)]
struct Memory {
    requested: i64,
    /// `None` where the system does not report it.
    resident: Option<i64>,
}

impl Memory {
    fn now() -> Self {
        let requested = REQUESTED.load(Relaxed);
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let resident = rollup.lines().find_map(|line| {
            line.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.trim().parse::<i64>().ok()
        });
        Memory { requested, resident: resident.map(|kilobytes| kilobytes * 1024) }
    }

    fn since(self, before: Memory) -> Self {
        let resident = self.resident.zip(before.resident).map(|(now, before)| now - before);
        Memory { requested: self.requested - before.requested, resident }
    }
}

/// An object of 8 bytes that many threads can reach, in one of the usual ways.
trait Subject: Sized {
    const NAME: &'static str;
    /// True if messages can wait.
    const QUEUES: bool = true;
    /// The environment of its objects.
    type World;
    type Object: Sync;

    fn world() -> Self::World;
    fn create(world: &Self::World) -> Self::Object;
    /// Hands over a message, to be handled soon.
    fn send(object: &Self::Object);
    /// Leaves a message of `N` bytes.
    fn queue<const N: usize>(object: &Self::Object);
    /// Makes this object handle the messages left with it, if that is possible.
    fn drain(object: &Self::Object);
    /// Waits until `handled` messages have been handled in all, and all but `objects` dropped
    /// objects are gone.
    fn settle(world: &Self::World, handled: u64, objects: usize);
}

/// A plain actor: a message is run when it is sent, so none waits.
struct Turnwise;

impl Subject for Turnwise {
    const NAME: &'static str = "turnwise";
    const QUEUES: bool = false;
    type World = ();
    type Object = Actor<u64>;

    fn world() {}
    fn create((): &()) -> Actor<u64> {
        Actor::new(0)
    }
    fn send(actor: &Actor<u64>) {
        assert!(actor.send(message::<16>()).is_ok());
    }
    fn queue<const N: usize>(_: &Actor<u64>) {}
    fn drain(_: &Actor<u64>) {}
    fn settle((): &(), handled: u64, _: usize) {
        assert_eq!(HANDLED.load(Relaxed), handled);
    }
}

/// An actor on a queue that is run by hand: messages wait until then.
struct Queued;

impl Subject for Queued {
    const NAME: &'static str = "turnwise on a queue";
    type World = ();
    type Object = (Actor<u64>, DrainQueue);

    fn world() {}
    fn create((): &()) -> Self::Object {
        let queue = DrainQueue::new();
        let actor = Actor::builder().executor(queue.handle()).spawn(0);
        (actor.expect("no capacity was asked for"), queue)
    }
    fn send(object: &Self::Object) {
        Self::queue::<16>(object);
        Self::drain(object);
    }
    fn queue<const N: usize>((actor, _): &Self::Object) {
        assert!(actor.send(message::<N>()).is_ok());
    }
    fn drain((_, queue): &Self::Object) {
        queue.run_until_idle();
    }
    fn settle((): &(), handled: u64, _: usize) {
        assert_eq!(HANDLED.load(Relaxed), handled);
    }
}

/// An actor on the global pool, with a panic policy and a hook. Without a message, because the
/// pool's threads would show, not the actor.
fn built(_: &()) -> Actor<u64> {
    let builder = Actor::builder().executor(ThreadPool::global().clone()).name("built");
    let builder = builder.panic_policy(PanicPolicy::Resume).on_panic(|_| ());
    builder.spawn(0).expect("no capacity was asked for")
}

/// Such an actor from a spawner.
fn spawned_by(spawner: &Spawner<u64>) -> Actor<u64> {
    spawner.spawn(0)
}

fn spawner() -> Spawner<u64> {
    let builder = Actor::builder().executor(ThreadPool::global().clone()).name("of a spawner");
    let builder = builder.panic_policy(PanicPolicy::Resume).on_panic(|_| ());
    builder.build().expect("no capacity was asked for")
}

/// Measures `count` actors and their handles, created like this and never sent to.
fn silent<W>(count: usize, world: W, make: impl Fn(&W) -> Actor<u64>) -> Vec<Memory> {
    let mut actors = Vec::with_capacity(count);
    drop(make(&world));
    let before = Memory::now();
    actors.extend((0..count).map(|_| make(&world)));
    let mut took = Memory::now().since(before);
    // As in `idle`.
    took.requested += (count * size_of::<Actor<u64>>()) as i64;
    vec![took]
}

struct Mutex;

impl Subject for Mutex {
    const NAME: &'static str = "Arc<Mutex>";
    const QUEUES: bool = false;
    type World = ();
    type Object = Arc<parking_lot::Mutex<u64>>;

    fn world() {}
    fn create((): &()) -> Self::Object {
        Arc::new(parking_lot::Mutex::new(0))
    }
    fn send(mutex: &Self::Object) {
        message::<16>()(&mut mutex.lock());
    }
    fn queue<const N: usize>(_: &Self::Object) {}
    fn drain(_: &Self::Object) {}
    fn settle((): &(), handled: u64, _: usize) {
        assert_eq!(HANDLED.load(Relaxed), handled);
    }
}

/// A task that owns the state, and takes closures from an unbounded channel. On a runtime that runs
/// when this thread waits.
struct Task;

type Job = Box<dyn FnOnce(&mut u64) + Send>;

impl Subject for Task {
    const NAME: &'static str = "tokio task";
    type World = Runtime;
    type Object = UnboundedSender<Job>;

    fn world() -> Runtime {
        Builder::new_current_thread().build().expect("a runtime without drivers")
    }
    fn create(runtime: &Runtime) -> Self::Object {
        let (sender, mut receiver) = unbounded_channel::<Job>();
        runtime.spawn(async move {
            let mut state = 0;
            while let Some(job) = receiver.recv().await {
                job(&mut state);
            }
        });
        sender
    }
    fn send(sender: &Self::Object) {
        Self::queue::<16>(sender);
    }
    fn queue<const N: usize>(sender: &Self::Object) {
        assert!(sender.send(Box::new(message::<N>())).is_ok());
    }
    fn drain(_: &Self::Object) {}
    fn settle(runtime: &Runtime, handled: u64, objects: usize) {
        runtime.block_on(async {
            while HANDLED.load(Relaxed) < handled || runtime.metrics().num_alive_tasks() > objects {
                yield_now().await;
            }
        });
        assert_eq!(HANDLED.load(Relaxed), handled);
    }
}

/// Measures the memory of `count` idle objects that have handled a message, with their handles.
fn idle<S: Subject>(count: usize) -> Vec<Memory> {
    let world = S::world();
    let mut objects = Vec::with_capacity(count);
    let before = Memory::now();
    objects.extend((0..count).map(|_| {
        let object = S::create(&world);
        S::send(&object);
        object
    }));
    S::settle(&world, count as u64, count);
    let mut took = Memory::now().since(before);
    // The list was requested before, and becomes resident only now.
    took.requested += (count * size_of::<S::Object>()) as i64;
    drop(objects);
    vec![took]
}

/// Measures `count` waiting messages of `N` bytes.
fn queued<S: Subject, const N: usize>(count: usize) -> Vec<Memory> {
    let world = S::world();
    let object = S::create(&world);
    S::queue::<N>(&object);
    S::drain(&object);
    S::settle(&world, 1, 1);
    let before = Memory::now();
    (0..count).for_each(|_| S::queue::<N>(&object));
    let took = Memory::now().since(before);
    S::drain(&object);
    S::settle(&world, 1 + count as u64, 1);
    vec![took]
}

/// Measures `count` handled messages; then a thousand one by one, as in normal use; then `count`
/// once more. Returns the memory before, when all of them wait, and after each of the three.
fn burst<S: Subject>(count: usize) -> Vec<Memory> {
    let world = S::world();
    let object = S::create(&world);
    S::queue::<16>(&object);
    S::drain(&object);
    S::settle(&world, 1, 1);
    let before = Memory::now();
    let mut handled = 1;
    let mut leave_and_drain = |count: usize| {
        (0..count).for_each(|_| S::queue::<16>(&object));
        let waiting = Memory::now();
        S::drain(&object);
        handled += count as u64;
        S::settle(&world, handled, 1);
        waiting
    };
    let waiting = leave_and_drain(count);
    let after = Memory::now();
    for _ in 0..1000 {
        leave_and_drain(1);
    }
    let later = Memory::now();
    leave_and_drain(count);
    vec![before, waiting, after, later, Memory::now()]
}

/// Measures the remains of `count` objects that existed all at once.
fn created_and_dropped<S: Subject>(count: usize) -> Vec<Memory> {
    let world = S::world();
    let mut handled = 0;
    let mut create_and_drop = |count: usize| {
        let objects: Vec<_> = (0..count).map(|_| S::create(&world)).collect();
        objects.iter().for_each(S::send);
        handled += count as u64;
        S::settle(&world, handled, count);
        drop(objects);
        S::settle(&world, handled, 0);
    };
    create_and_drop(1);
    let before = Memory::now();
    create_and_drop(count);
    let left = Memory::now().since(before);
    vec![left]
}

/// Measures `count` threads that run one after the other, each with some messages, of which it
/// handles none or all. Returns the growth after the first hundred.
fn threads<S: Subject>(count: usize) -> Vec<Memory> {
    let world = S::world();
    let object = S::create(&world);
    let mut handled = 0;
    let mut come_and_go = |count: usize| {
        for number in 0..count {
            thread::scope(|scope| {
                scope.spawn(|| {
                    S::send(&object);
                    S::queue::<16>(&object);
                    S::queue::<48>(&object);
                    if number % 2 == 0 {
                        S::drain(&object);
                    }
                });
            });
            S::drain(&object);
            handled += if S::QUEUES { 3 } else { 1 };
            S::settle(&world, handled, 1);
        }
    };
    come_and_go(100);
    let before = Memory::now();
    come_and_go(count);
    let grown = Memory::now().since(before);
    vec![grown]
}

/// Measures one cell, in its process.
fn measure<S: Subject>(what: &str, count: usize) -> Vec<Memory> {
    match what {
        "idle" => idle::<S>(count),
        "queued-16" => queued::<S, 16>(count),
        "queued-48" => queued::<S, 48>(count),
        "queued-200" => queued::<S, 200>(count),
        "burst" => burst::<S>(count),
        "dropped" => created_and_dropped::<S>(count),
        "threads" => threads::<S>(count),
        _ => panic!("nothing is called {what}"),
    }
}

/// Starts a process for one cell, and reads its figures.
fn cell(subject: &str, what: &str, count: usize) -> Vec<Memory> {
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--cell", subject, what, &count.to_string()])
        .output()
        .expect("it starts again");
    assert!(
        output.status.success(),
        "{subject}, {what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told = String::from_utf8(output.stdout).expect("figures");
    let memory = |line: &str| {
        let (requested, resident) = line.split_once(' ')?;
        Some(Memory { requested: requested.parse().ok()?, resident: resident.parse().ok() })
    };
    told.lines().map(|line| memory(line).expect("two figures")).collect()
}

/// `each` is the number of objects: the figures are bytes of one. Without it, they are kilobytes of
/// all.
fn figures(memory: Memory, each: Option<usize>) -> String {
    let shown = |bytes: i64| match each {
        Some(count) => format!("{:.0}", bytes as f64 / count as f64),
        None => format!("{:.0}k", bytes as f64 / 1024.0),
    };
    format!("{} / {}", shown(memory.requested), memory.resident.map_or_else(|| "?".into(), shown))
}

fn row(label: &str, cells: &[String]) {
    let mut line = format!("{label:<46}");
    cells.iter().for_each(|cell| write!(line, " {cell:>20}").expect("a string takes everything"));
    println!("{line}");
}

fn table(quick: bool) {
    let scaled = |count: usize, small: usize| if quick { small } else { count };
    row("requested / resident", &[Turnwise::NAME, Mutex::NAME, Task::NAME].map(String::from));

    let count = scaled(100_000, 2_000);
    let idle = [Turnwise::NAME, Mutex::NAME, Task::NAME]
        .map(|name| figures(cell(name, "idle", count)[0], Some(count)));
    row("idle object and its handle, bytes", &idle);

    let own = ["built", "of a spawner"].map(|name| cell(name, "silent", count)[0]);
    row("actor with an executor and hooks, bytes", &[figures(own[0], Some(count))]);
    row("the same from a spawner, bytes", &[figures(own[1], Some(count))]);
    let each = own[1].requested / count as i64;
    assert!(each <= 48, "an actor of a spawner takes {each} bytes, handle included");

    for bytes in [16, 48, 200] {
        let count = scaled(1_000_000, 20_000);
        let queued = |name| figures(cell(name, &format!("queued-{bytes}"), count)[0], Some(count));
        row(
            &format!("waiting message of {bytes} bytes, bytes"),
            &[queued(Queued::NAME), "-".into(), queued(Task::NAME)],
        );
    }

    let count = scaled(10_000_000, 500_000);
    let [ours, tasks] = [Queued::NAME, Task::NAME].map(|name| cell(name, "burst", count));
    let moments =
        ["before", "all waiting", "handled", "1000 more, one by one", "all that once more"];
    for (i, moment) in moments.into_iter().enumerate() {
        row(
            &format!("burst of {count}: {moment}"),
            &[figures(ours[i], None), "-".into(), figures(tasks[i], None)],
        );
    }
    let [before, waiting, after, _, again] = [0, 1, 2, 3, 4].map(|i| ours[i].requested);
    assert!(waiting - before > 2 * KEPT, "the burst is too small to show anything");
    assert!(
        after - before <= KEPT,
        "memory does not come back after a burst: {before} bytes before, {after} after"
    );
    assert!(
        again - after <= SLACK,
        "each burst leaves something: {after} bytes after the first, {again} after the second"
    );

    // A tenth of the tasks, because the full number would not fit into every memory.
    let count = scaled(1_000_000, 20_000);
    let dropped = [(Turnwise::NAME, count), (Mutex::NAME, count), (Task::NAME, count / 10)]
        .map(|(name, count)| cell(name, "dropped", count)[0]);
    row(
        &format!("{count} created, dropped (tasks: a tenth)"),
        &dropped.map(|left| figures(left, None)),
    );
    assert_eq!(dropped[0].requested, 0, "actors that were dropped have left something");

    let count = scaled(10_000, 300);
    let grown = [Queued::NAME, Mutex::NAME, Task::NAME].map(|name| cell(name, "threads", count)[0]);
    row(&format!("{count} threads come and gone: more by"), &grown.map(|more| figures(more, None)));
    assert!(
        grown[0].requested <= SLACK,
        "something grows with the threads that have come and gone: {} bytes",
        grown[0].requested
    );
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let Some(at) = arguments.iter().position(|argument| argument == "--cell") else {
        return table(arguments.iter().any(|argument| argument == "--test"));
    };
    let [subject, what, count] = &arguments[at + 1..] else { panic!("--cell SUBJECT WHAT COUNT") };
    let count = count.parse().expect("a number");
    let seen = match subject.as_str() {
        Turnwise::NAME => measure::<Turnwise>(what, count),
        Mutex::NAME => measure::<Mutex>(what, count),
        Queued::NAME => measure::<Queued>(what, count),
        Task::NAME => measure::<Task>(what, count),
        "built" => silent(count, (), built),
        "of a spawner" => silent(count, spawner(), spawned_by),
        _ => panic!("no subject is called {subject}"),
    };
    for Memory { requested, resident } in seen {
        println!("{requested} {}", resident.map_or_else(|| "?".into(), |bytes| bytes.to_string()));
    }
}
