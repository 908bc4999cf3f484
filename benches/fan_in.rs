//! How fast do 1, 2 and 8 producers bring trivial messages to one object, until all have been handled?
//!
//! A mutex's home game: its holder keeps lock and state in its own cache for many rounds. Names: `fan_in/<subject>/<producers>`, per message.

mod workloads;

use std::time::Duration;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use workloads::{ParkingLot, Std, Subject, Textbook, TurnwiseSend, TurnwiseWith, exchange};

fn one<S: Subject>(group: &mut BenchmarkGroup<'_, WallTime>, producers: usize) {
    exchange::<S>(producers, 1000, 0, 0);
    group.bench_with_input(BenchmarkId::new(S::NAME, producers), &producers, |bench, &producers| {
        bench.iter_custom(|messages| {
            let each = messages.div_ceil(producers as u64);
            let took = exchange::<S>(producers, each, 0, 0).wall;
            took.mul_f64(messages as f64 / (each * producers as u64) as f64)
        });
    });
}

fn fan_in(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fan_in");
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .throughput(Throughput::Elements(1));
    for producers in [1, 2, 8] {
        one::<TurnwiseSend>(&mut group, producers);
        one::<TurnwiseWith>(&mut group, producers);
        one::<ParkingLot>(&mut group, producers);
        one::<Std>(&mut group, producers);
        one::<Textbook>(&mut group, producers);
    }
    group.finish();
}

criterion_group!(benches, fan_in);
criterion_main!(benches);
