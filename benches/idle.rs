//! What does a message to an idle object cost, on one thread?
//!
//! Names: `idle/<subject>`.

mod workloads;

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use workloads::{ParkingLot, Std, Subject, Textbook, TextbookAsk, TurnwiseAsk, TurnwiseSend, TurnwiseWith, exchange};

fn one<S: Subject>(group: &mut BenchmarkGroup<'_, WallTime>) {
    exchange::<S>(1, 1000, 3, 0);
    let subject = S::new();
    group.bench_function(S::NAME, |bench| bench.iter(|| black_box(&subject).give(0)));
}

fn idle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("idle");
    one::<TurnwiseSend>(&mut group);
    one::<TurnwiseWith>(&mut group);
    one::<TurnwiseAsk>(&mut group);
    one::<ParkingLot>(&mut group);
    one::<Std>(&mut group);
    one::<Textbook>(&mut group);
    one::<TextbookAsk>(&mut group);
    group.finish();
}

criterion_group!(benches, idle);
criterion_main!(benches);
