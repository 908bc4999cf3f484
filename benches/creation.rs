//! Measures the creation of an object with its first message, and its drop, among many.
//!
//! Names: `creation/<subject>/<create or drop>`, per object, 100,000 of them at a time. A thread
//! with a channel for each is left out: it takes some ten thousand nanoseconds, and no machine has
//! that many threads. Objects on a pool are timed until all first messages have been handled.

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use turnwise::{Actor, Spawner, ThreadPool};
use workloads::rivals::{Handwritten, HandwrittenPool, Textbook};
use workloads::runs::Took;
use workloads::{OnPool, ParkingLot, State, Std, Turnwise, Way, With, actors};

const AT_A_TIME: u64 = 100_000;

/// The timed one of the two that [`actors::creation`] returns.
type Part = fn((Took, Took)) -> Took;

fn create((create, _): (Took, Took)) -> Took {
    create
}

fn drop((_, drop): (Took, Took)) -> Took {
    drop
}

/// Creates `objects`, a full crowd each time, because the cost of one depends on how many there
/// are.
fn crowds(objects: u64, part: Part, crowd: impl Fn(u64) -> (Took, Took)) -> Duration {
    let each = objects.min(AT_A_TIME);
    let times = objects.div_ceil(each);
    let took: Duration = (0..times).map(|_| part(crowd(each)).wall).sum();
    took.mul_f64(objects as f64 / (times * each) as f64)
}

fn one<W: Way>(group: &mut BenchmarkGroup<'_, WallTime>, (name, part): (&str, Part)) {
    add(group, W::NAME, name, |objects| crowds(objects, part, actors::creation::<W>));
}

static POOL: LazyLock<ThreadPool> =
    LazyLock::new(|| ThreadPool::new().expect("there are threads to be had"));

static SPAWNER: LazyLock<Spawner<State>> = LazyLock::new(|| {
    let builder = Actor::builder().executor(POOL.handle());
    builder.build().expect("no limit was asked for")
});

/// Actors on a pool, each from a builder of its own or all from one spawner.
fn pooled(
    group: &mut BenchmarkGroup<'_, WallTime>,
    subject: &str,
    (name, part): (&str, Part),
    make: fn() -> Actor<State>,
) {
    let settle = |all: &[Actor<State>]| {
        for one in all {
            while !one.is_idle() {
                thread::yield_now();
            }
        }
    };
    let crowd = |many| actors::creation_by::<OnPool>(many, make, settle);
    add(group, subject, name, |objects| crowds(objects, part, crowd));
}

fn creation(criterion: &mut Criterion) {
    let mut group = group(criterion, "creation");
    for part in [("create", create as Part), ("drop", drop)] {
        one::<Turnwise>(&mut group, part);
        one::<With>(&mut group, part);
        one::<ParkingLot>(&mut group, part);
        one::<Std>(&mut group, part);
        one::<Textbook>(&mut group, part);
        one::<Handwritten>(&mut group, part);
        one::<HandwrittenPool>(&mut group, part);
        pooled(&mut group, "turnwise-pool", part, || {
            let builder = Actor::builder().executor(POOL.handle());
            builder.spawn(State::default()).expect("no limit was asked for")
        });
        pooled(&mut group, "turnwise-spawner", part, || SPAWNER.spawn(State::default()));
    }
    group.finish();
}

criterion_group!(name = benches; config = brief(2.0, 10); targets = creation);
criterion_main!(benches);
