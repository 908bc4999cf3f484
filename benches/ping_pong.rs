//! Measures a hop of one message between two objects.
//!
//! Names: `ping_pong/<subject>/2`, per hop. There is no mutex here: a lock receives no messages,
//! and a thread that plays both sides of it would only nest calls.

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use workloads::actors::ring;
use workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use workloads::{OnPool, Turnwise, Way};

fn one<W: Way>(group: &mut BenchmarkGroup<'_, WallTime>) {
    add(group, W::NAME, 2, |hops| ring::<W>(2, hops).wall);
}

fn ping_pong(criterion: &mut Criterion) {
    let mut group = group(criterion, "ping_pong");
    one::<Turnwise>(&mut group);
    one::<OnPool>(&mut group);
    one::<Textbook>(&mut group);
    one::<Handwritten>(&mut group);
    one::<HandwrittenPool>(&mut group);
    one::<Channel>(&mut group);
    group.finish();
}

criterion_group!(name = benches; config = brief(2.0, 20); targets = ping_pong);
criterion_main!(benches);
