//! Measures 1, 2 and 8 producers that send trivial messages to one object, until all have been
//! handled.
//!
//! The best case of a mutex: its holder keeps lock and state in its own cache for many rounds.
//! Names: `fan_in/<subject>/<producers>`, per message.

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use workloads::runs::exchange;
use workloads::{Asks, ParkingLot, Sends, Std, Subject, Turnwise, With};

fn one<S: Subject>(group: &mut BenchmarkGroup<'_, WallTime>, producers: usize) {
    add(group, S::NAME, producers, |messages| {
        let each = messages.div_ceil(producers as u64);
        let took = exchange::<S>(producers, each, 0, 0).wall;
        took.mul_f64(messages as f64 / (each * producers as u64) as f64)
    });
}

fn fan_in(criterion: &mut Criterion) {
    let mut group = group(criterion, "fan_in");
    for producers in [1, 2, 8] {
        one::<Sends<Turnwise>>(&mut group, producers);
        one::<Asks<With>>(&mut group, producers);
        one::<Sends<ParkingLot>>(&mut group, producers);
        one::<Sends<Std>>(&mut group, producers);
        one::<Sends<Textbook>>(&mut group, producers);
        one::<Sends<Handwritten>>(&mut group, producers);
        one::<Sends<HandwrittenPool>>(&mut group, producers);
        one::<Sends<Channel>>(&mut group, producers);
    }
    group.finish();
}

criterion_group!(name = benches; config = brief(2.0, 20); targets = fan_in);
criterion_main!(benches);
