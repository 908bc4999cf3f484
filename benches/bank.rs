//! Measures a transfer between two of 1000 accounts, each asked and waited for in turn.
//!
//! Names: `bank/<subject>/<threads>`, the time of one transfer from each thread. The mutexes are
//! locked one after the other, as the others are asked, so that all do the same. A thread with a
//! channel for each account is left out, because a thousand threads are not a realistic solution.

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use workloads::rivals::{Handwritten, HandwrittenPool, Textbook};
use workloads::{ParkingLot, Std, Turnwise, Way, With, actors};

fn one<W: Way>(group: &mut BenchmarkGroup<'_, WallTime>, threads: usize) {
    add(group, W::ASKING, threads, |transfers| actors::bank::<W>(threads, 1000, transfers).wall);
}

fn bank(criterion: &mut Criterion) {
    let mut group = group(criterion, "bank");
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

criterion_group!(name = benches; config = brief(2.0, 20); targets = bank);
criterion_main!(benches);
