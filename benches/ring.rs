//! Measures a hop of one message in a ring of 100 objects.
//!
//! Names: `ring/<subject>/100`, per hop. Without a mutex, as in `ping_pong`.

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use workloads::actors;
use workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use workloads::{OnPool, Turnwise, Way};

fn one<W: Way>(group: &mut BenchmarkGroup<'_, WallTime>) {
    add(group, W::NAME, 100, |hops| actors::ring::<W>(100, hops).wall);
}

fn ring(criterion: &mut Criterion) {
    let mut group = group(criterion, "ring");
    one::<Turnwise>(&mut group);
    one::<OnPool>(&mut group);
    one::<Textbook>(&mut group);
    one::<Handwritten>(&mut group);
    one::<HandwrittenPool>(&mut group);
    one::<Channel>(&mut group);
    group.finish();
}

criterion_group!(name = benches; config = brief(2.0, 20); targets = ring);
criterion_main!(benches);
