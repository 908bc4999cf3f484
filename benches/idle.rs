//! Measures a message to an idle object, on one thread.
//!
//! Names: `idle/<subject>/1 thread`. If another thread runs the message, the object is idle only if
//! its sender waits, so those are asked.

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use workloads::runs::exchange;
use workloads::{Asks, ParkingLot, Sends, Std, Subject, Turnwise, With};

fn one<S: Subject>(group: &mut BenchmarkGroup<'_, WallTime>) {
    add(group, S::NAME, "1 thread", |messages| exchange::<S>(1, messages, 0, 0).wall);
}

fn idle(criterion: &mut Criterion) {
    let mut group = group(criterion, "idle");
    one::<Sends<Turnwise>>(&mut group);
    one::<Asks<With>>(&mut group);
    one::<Asks<Turnwise>>(&mut group);
    one::<Sends<ParkingLot>>(&mut group);
    one::<Sends<Std>>(&mut group);
    one::<Sends<Textbook>>(&mut group);
    one::<Asks<Textbook>>(&mut group);
    one::<Sends<Handwritten>>(&mut group);
    one::<Asks<Handwritten>>(&mut group);
    one::<Asks<HandwrittenPool>>(&mut group);
    one::<Asks<Channel>>(&mut group);
    group.finish();
}

criterion_group!(name = benches; config = brief(2.0, 50); targets = idle);
criterion_main!(benches);
