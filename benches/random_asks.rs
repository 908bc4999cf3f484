//! Measures a request to a random one of 10,000 objects, rarely busy and rarely in the cache.
//!
//! Names: `random_asks/<subject>/<threads>`, the time of one request from each thread. Without
//! threads with channels, as in `bank`.

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use workloads::rivals::{Handwritten, HandwrittenPool, Textbook};
use workloads::{ParkingLot, Std, Turnwise, Way, With, actors};

fn one<W: Way>(group: &mut BenchmarkGroup<'_, WallTime>, threads: usize) {
    add(group, W::ASKING, threads, |asks| actors::random_asks::<W>(threads, 10_000, asks).wall);
}

fn random_asks(criterion: &mut Criterion) {
    let mut group = group(criterion, "random_asks");
    for threads in [1, 2] {
        one::<Turnwise>(&mut group, threads);
        one::<With>(&mut group, threads);
        one::<ParkingLot>(&mut group, threads);
        one::<Std>(&mut group, threads);
        one::<Textbook>(&mut group, threads);
        one::<Handwritten>(&mut group, threads);
        one::<HandwrittenPool>(&mut group, threads);
    }
    group.finish();
}

criterion_group!(name = benches; config = brief(2.0, 20); targets = random_asks);
criterion_main!(benches);
