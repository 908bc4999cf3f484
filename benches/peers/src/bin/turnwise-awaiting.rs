//! Measures a turn that may wait, beside a plain turn, and beside the usual code with tokio.
//!
//! ```text
//! cargo run --release -p turnwise-peers --bin turnwise-awaiting
//!     [-- --quick | --rounds N]
//! ```
//! All subjects of a row take turns within each round, another one first each time; the figure is
//! the median over the rounds of the ratio within a round. Processor time of the whole process,
//! because a row may use several threads. Every trial checks its answer.

use std::future::{Future, poll_fn};
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;

use cpu_time::ProcessTime;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, mpsc};
use turnwise::executor::{DrainQueue, ThreadPool, Tokio};
use turnwise::{Actor, Budget};

const USAGE: &str = "usage: turnwise-awaiting [--quick | --rounds N]";

/// The work of a turn: about 65 ns.
#[inline(never)]
fn work(n: &mut u64) {
    for _ in 0..16 {
        *n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *n ^= *n >> 29;
    }
}

/// Returns pending once, and is woken at once.
async fn once_around() {
    let mut been = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut been, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// One way to do a number of operations.
struct Subject {
    name: &'static str,
    run: Box<dyn Fn(u64)>,
}

fn subject(name: &'static str, run: impl Fn(u64) + 'static) -> Subject {
    Subject { name, run: Box::new(run) }
}

/// A row: its first subject is the base of the comparison.
struct Row {
    name: &'static str,
    bar: &'static str,
    subjects: Vec<Subject>,
}

fn queued() -> (Actor<u64>, DrainQueue) {
    let queue = DrainQueue::new();
    let builder = Actor::builder().executor(queue.handle()).budget(Budget::UNLIMITED);
    (builder.spawn(0).expect("no limit is a good one"), queue)
}

fn idle() -> Row {
    let (plain, turns) = (Actor::new(0_u64), Actor::new(0_u64));
    Row {
        name: "idle and trivial: ask and answer",
        bar: "3",
        subjects: vec![
            subject("call", move |times| {
                for _ in 0..times {
                    plain.call(|n| *n += 1).wait().expect("it is open");
                }
            }),
            subject("run", move |times| {
                for _ in 0..times {
                    turns.run(async |n| *n += 1).wait().expect("it is open");
                }
            }),
        ],
    }
}

fn busy() -> Row {
    const WAITING: u64 = 100;
    let ((plain, plain_queue), (turns, turns_queue)) = (queued(), queued());
    Row {
        name: "busy: 100 questions of 65 ns wait",
        bar: "1.5",
        subjects: vec![
            subject("call", move |times| {
                for _ in 0..times / WAITING {
                    let replies: Vec<_> = (0..WAITING).map(|_| plain.call(work)).collect();
                    plain_queue.run_until_idle();
                    assert!(replies.into_iter().all(|reply| reply.wait().is_ok()));
                }
            }),
            subject("run", move |times| {
                for _ in 0..times / WAITING {
                    let replies: Vec<_> =
                        (0..WAITING).map(|_| turns.run(async |n| work(n))).collect();
                    turns_queue.run_until_idle();
                    assert!(replies.into_iter().all(|reply| reply.wait().is_ok()));
                }
            }),
        ],
    }
}

fn on_the_pool() -> Row {
    const WAITING: u64 = 100;
    let pool = ThreadPool::builder().threads(1).build().expect("a thread");
    let spawn = || Actor::builder().executor(pool.handle()).spawn(0_u64).expect("a good one");
    let (plain, turns) = (spawn(), spawn());
    let kept = Arc::new(pool);
    let pool = kept.clone();
    Row {
        name: "on the pool: questions of 65 ns",
        bar: "1.5",
        subjects: vec![
            subject("call", move |times| {
                let _ = &kept;
                for _ in 0..times / WAITING {
                    let replies: Vec<_> = (0..WAITING).map(|_| plain.call(work)).collect();
                    assert!(replies.into_iter().all(|reply| reply.wait().is_ok()));
                }
            }),
            subject("run", move |times| {
                let _ = &pool;
                for _ in 0..times / WAITING {
                    let replies: Vec<_> =
                        (0..WAITING).map(|_| turns.run(async |n| work(n))).collect();
                    assert!(replies.into_iter().all(|reply| reply.wait().is_ok()));
                }
            }),
        ],
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

/// Sends this many values one after the other, each received before the next is sent.
async fn send_each(
    values: &mpsc::UnboundedSender<u64>,
    acks: &mut mpsc::UnboundedReceiver<()>,
    times: u64,
) {
    for n in 0..times {
        values.send(n).expect("the receiver is alive");
        acks.recv().await.expect("the receiver is alive");
    }
}

/// Receives this many values.
async fn receive(mut values: mpsc::UnboundedReceiver<u64>, acks: mpsc::UnboundedSender<()>) -> u64 {
    let mut received = 0;
    while values.recv().await.is_some() {
        received += 1;
        acks.send(()).expect("the receiver is alive");
    }
    received
}

fn wakes() -> Row {
    let (task_runtime, turn_runtime) = (current_thread(), current_thread());
    let (actor, queue) = queued();
    let tokio_actor = {
        let executor = Tokio::new(turn_runtime.handle().clone());
        Actor::builder().executor(executor).spawn(0_u64).expect("a good one")
    };
    Row {
        name: "suspend, wake, resume: one thread",
        bar: "1.0",
        subjects: vec![
            subject("tokio task", move |times| {
                task_runtime.block_on(async {
                    let ((tx, rx), (acks, mut acked)) =
                        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
                    let task = tokio::spawn(receive(rx, acks));
                    send_each(&tx, &mut acked, times).await;
                    drop(tx);
                    assert_eq!(task.await.expect("no panic"), times);
                });
            }),
            subject("run, a queue", move |times| {
                let ((tx, rx), (acks, mut acked)) =
                    (mpsc::unbounded_channel(), mpsc::unbounded_channel());
                let turn = actor.run(async move |_| receive(rx, acks).await);
                queue.run_until_idle();
                for n in 0..times {
                    tx.send(n).expect("the receiver is alive");
                    queue.run_until_idle();
                    acked.try_recv().expect("it was received");
                }
                drop(tx);
                queue.run_until_idle();
                assert_eq!(turn.wait(), Ok(times));
            }),
            subject("run, tokio", move |times| {
                turn_runtime.block_on(async {
                    let ((tx, rx), (acks, mut acked)) =
                        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
                    let turn = tokio_actor.run(async move |_| receive(rx, acks).await);
                    send_each(&tx, &mut acked, times).await;
                    drop(tx);
                    assert_eq!(turn.await, Ok(times));
                });
            }),
        ],
    }
}

fn wakes_elsewhere() -> Row {
    let two = Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let pool = ThreadPool::builder().threads(1).build().expect("a thread");
    let actor = Actor::builder().executor(pool.handle()).spawn(0_u64).expect("a good one");
    Row {
        name: "the same, the receiver on a thread of its own",
        bar: "1.0",
        subjects: vec![
            subject("tokio task", move |times| {
                let ((tx, rx), (acks, mut acked)) =
                    (mpsc::unbounded_channel(), mpsc::unbounded_channel());
                let task = two.spawn(receive(rx, acks));
                for n in 0..times {
                    tx.send(n).expect("the receiver is alive");
                    acked.blocking_recv().expect("the receiver is alive");
                }
                drop(tx);
                assert_eq!(two.block_on(task).expect("no panic"), times);
            }),
            subject("run, a pool", move |times| {
                let _ = &pool;
                let ((tx, rx), (acks, mut acked)) =
                    (mpsc::unbounded_channel(), mpsc::unbounded_channel());
                let turn = actor.run(async move |_| receive(rx, acks).await);
                for n in 0..times {
                    tx.send(n).expect("the receiver is alive");
                    acked.blocking_recv().expect("the receiver is alive");
                }
                drop(tx);
                assert_eq!(turn.wait(), Ok(times));
            }),
        ],
    }
}

fn two_workers() -> Arc<Runtime> {
    Arc::new(Builder::new_multi_thread().worker_threads(2).build().expect("a runtime"))
}

/// Runs eight tasks that ask this often, together.
fn eight<F, Fut>(runtime: &Runtime, times: u64, ask: F)
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let ask = ask.clone();
                tokio::spawn(async move {
                    for _ in 0..times / 8 {
                        ask().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
}

mod kameo_peer {
    use kameo::actor::{Actor, ActorRef};
    use kameo::error::Infallible;
    use kameo::message::{Context, Message};

    pub(crate) struct Counter(u64);
    pub(crate) struct Add;

    impl Actor for Counter {
        type Args = ();
        type Error = Infallible;
        async fn on_start((): (), _: ActorRef<Self>) -> Result<Self, Infallible> {
            Ok(Counter(0))
        }
    }

    impl Message<Add> for Counter {
        type Reply = u64;
        async fn handle(&mut self, _: Add, _: &mut Context<Self, u64>) -> u64 {
            super::once_around().await;
            self.0 += 1;
            self.0
        }
    }
}

mod ractor_peer {
    use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

    pub(crate) struct Counter;
    pub(crate) struct Add(pub(crate) RpcReplyPort<u64>);

    impl Actor for Counter {
        type Msg = Add;
        type State = u64;
        type Arguments = ();
        async fn pre_start(&self, _: ActorRef<Add>, (): ()) -> Result<u64, ActorProcessingErr> {
            Ok(0)
        }
        async fn handle(
            &self,
            _: ActorRef<Add>,
            Add(port): Add,
            state: &mut u64,
        ) -> Result<(), ActorProcessingErr> {
            super::once_around().await;
            *state += 1;
            Ok(port.send(*state)?)
        }
    }
}

/// turnwise on the runtime, without an executor, and in a pool; the mutex; the actor crates.
fn askers(name: &'static str, bar: &'static str, eight_of_them: bool) -> Row {
    use kameo::actor::Spawn;
    use ractor::Actor as _;

    let runtime = two_workers();
    let pool = Arc::new(ThreadPool::builder().threads(2).build().expect("threads"));
    let mutex = Arc::new(Mutex::new(0_u64));
    let (bare, on_tokio, on_pool) = (
        Actor::new(0_u64),
        Actor::builder().executor(Tokio::new(runtime.handle().clone())).spawn(0_u64).expect("good"),
        Actor::builder().executor(pool.handle()).spawn(0_u64).expect("good"),
    );
    let kameo = runtime.block_on(async { kameo_peer::Counter::spawn(()) });
    let (ractor, _) = runtime
        .block_on(ractor_peer::Counter::spawn(None, ractor_peer::Counter, ()))
        .expect("it has no name that could be taken");
    let ours = |name, actor: Actor<u64>, runtime: Arc<Runtime>| {
        let pool = pool.clone();
        subject(name, move |times| {
            let _ = &pool;
            let actor = actor.clone();
            let ask = move || {
                let turn = actor.run(async |n| {
                    once_around().await;
                    *n += 1;
                });
                async move { turn.await.expect("it is open") }
            };
            many(&runtime, times, eight_of_them, ask);
        })
    };
    let (of_mutex, of_kameo, of_ractor) = (runtime.clone(), runtime.clone(), runtime.clone());
    Row {
        name,
        bar,
        subjects: vec![
            subject("tokio::sync::Mutex", move |times| {
                let mutex = mutex.clone();
                let ask = move || {
                    let mutex = mutex.clone();
                    async move {
                        let mut n = mutex.lock().await;
                        once_around().await;
                        *n += 1;
                    }
                };
                many(&of_mutex, times, eight_of_them, ask);
            }),
            ours("run", bare, runtime.clone()),
            ours("run, tokio", on_tokio, runtime.clone()),
            ours("run, a pool", on_pool, runtime.clone()),
            subject("kameo", move |times| {
                let kameo = kameo.clone();
                let ask = move || {
                    let kameo = kameo.clone();
                    async move {
                        kameo.ask(kameo_peer::Add).send().await.expect("it lives");
                    }
                };
                many(&of_kameo, times, eight_of_them, ask);
            }),
            subject("ractor", move |times| {
                let ractor = ractor.clone();
                let ask = move || {
                    let ractor = ractor.clone();
                    async move {
                        ractor
                            .call(ractor_peer::Add, None)
                            .await
                            .expect("it lives")
                            .expect("it answers");
                    }
                };
                many(&of_ractor, times, eight_of_them, ask);
            }),
        ],
    }
}

fn many<F, Fut>(runtime: &Runtime, times: u64, eight_of_them: bool, ask: F)
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    if eight_of_them {
        return eight(runtime, times, ask);
    }
    runtime.block_on(async {
        let task = tokio::spawn(async move {
            for _ in 0..times {
                ask().await;
            }
        });
        task.await.expect("no panic");
    });
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Nanoseconds of processor time of one operation, and of wall time.
fn trial(one: &Subject, times: u64) -> (f64, f64) {
    let (cpu, wall) = (ProcessTime::now(), std::time::Instant::now());
    (one.run)(times);
    let per = |seconds: f64| seconds * 1e9 / times as f64;
    (per(cpu.elapsed().as_secs_f64()), per(wall.elapsed().as_secs_f64()))
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (rounds, times) = match (words.next().as_deref(), words.next(), words.next()) {
        (None, None, None) => (31, 20_000),
        (Some("--quick"), None, None) => (1, 400),
        (Some("--rounds"), Some(rounds), None) => match rounds.parse() {
            Ok(rounds) if rounds > 0 => (rounds, 20_000),
            _ => {
                eprintln!("turnwise-awaiting: `{rounds}` is no number of rounds\n\n{USAGE}");
                return ExitCode::from(2);
            }
        },
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    println!("medians of {rounds} rounds; ratios within a round, to the first of its row\n");
    println!("{:<46} {:<19} {:>8} {:>6} {:>8} {:>6}", "", "", "cpu ns", "", "wall ns", "");
    let rows = [
        idle(),
        busy(),
        on_the_pool(),
        wakes(),
        wakes_elsewhere(),
        askers("one asker, an await inside", "kameo, ractor 0.5", false),
        askers("eight askers, an await inside", "the mutex 0.8", true),
    ];
    for Row { name, bar, subjects } in &rows {
        let mut took = vec![Vec::new(); subjects.len()];
        for round in 0..rounds {
            for i in 0..subjects.len() {
                let i = (i + round) % subjects.len();
                took[i].push(trial(&subjects[i], times));
            }
        }
        for (i, one) in subjects.iter().enumerate() {
            let of = |part: fn(&(f64, f64)) -> f64| {
                let ratios = took[i].iter().zip(&took[0]).map(|(a, b)| part(a) / part(b));
                (median(took[i].iter().map(part).collect()), median(ratios.collect()))
            };
            let ((cpu, cpu_ratio), (wall, wall_ratio)) = (of(|t| t.0), of(|t| t.1));
            let first = match i {
                0 => format!("{name} (bar {bar})"),
                _ => String::new(),
            };
            println!(
                "{first:<46} {:<19} {cpu:>8.0} {cpu_ratio:>6.2} {wall:>8.0} {wall_ratio:>6.2}",
                one.name
            );
        }
    }
    ExitCode::SUCCESS
}
