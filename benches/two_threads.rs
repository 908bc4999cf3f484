//! What does a message cost when two threads want the same object, by the length of the handler and of the threads' own work?
//!
//! Names: `two_threads/<subject>/handler <ns>, own <ns>`; the time of one message from each thread, with all work in it.

mod workloads;

use std::time::Duration;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main, measurement::WallTime};
use workloads::{ParkingLot, Std, Subject, Textbook, TurnwiseSend, TurnwiseWith, exchange, rounds_of};

fn one<S: Subject>(group: &mut BenchmarkGroup<'_, WallTime>, handler_ns: u32, own_ns: u32) {
    exchange::<S>(2, 1000, 1, 1);
    let (handler, own) = (rounds_of(handler_ns.into()), rounds_of(own_ns.into()));
    let parameter = format!("handler {handler_ns} ns, own {own_ns} ns");
    group.bench_function(BenchmarkId::new(S::NAME, parameter), |bench| {
        bench.iter_custom(|messages| exchange::<S>(2, messages, handler, own).wall);
    });
}

fn two_threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("two_threads");
    group.sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    for own_ns in [0, 37, 250] {
        for handler_ns in [0, 12, 37, 65] {
            one::<TurnwiseSend>(&mut group, handler_ns, own_ns);
            one::<TurnwiseWith>(&mut group, handler_ns, own_ns);
            one::<ParkingLot>(&mut group, handler_ns, own_ns);
            one::<Std>(&mut group, handler_ns, own_ns);
            one::<Textbook>(&mut group, handler_ns, own_ns);
        }
    }
    group.finish();
}

criterion_group!(benches, two_threads);
criterion_main!(benches);
