//! Measures a message when 1 to 16 threads use the same object, by the length of the handler and of
//! the threads' own work.
//!
//! Names: `contention/<subject>/<threads> threads, handler <ns>, own <ns>`; the time of one message
//! from each thread, with all work in it. Each load is given to all subjects before the next, so
//! that those to be compared run within seconds. The whole grid is 780 benchmarks of a fifth of a
//! second: three to four minutes. A regular expression over the names selects a part of it:
//!
//! ```text
//! cargo bench --bench contention -- '/2 threads, handler 37, own 37$'                # one load, all subjects
//! cargo bench --bench contention -- '(turnwise-send|parking_lot)/.*, own 0$'          # two subjects, no own work
//! cargo bench --bench contention -- --measurement-time 2 --sample-size 50 'with/8 '   # longer and surer
//! ```

#[path = "workloads/group.rs"]
mod group;
mod workloads;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use group::{add, brief, group};
use workloads::rivals::{Channel, Handwritten, HandwrittenPool, Textbook};
use workloads::runs::exchange;
use workloads::{Asks, ParkingLot, Sends, Std, Subject, Turnwise, With, rounds_of};

/// A length in nanoseconds, and the rounds that take this long here.
type Length = (u32, u32);

fn one<S: Subject>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    threads: usize,
    (handler_ns, handler): Length,
    (own_ns, own): Length,
) {
    let parameter = format!("{threads} threads, handler {handler_ns}, own {own_ns}");
    add(group, S::NAME, parameter, |messages| exchange::<S>(threads, messages, handler, own).wall);
}

fn contention(criterion: &mut Criterion) {
    let mut group = group(criterion, "contention");
    let length = |ns: u32| (ns, rounds_of(ns.into()));
    let (handlers, owns) = ([0, 12, 37, 65].map(length), [0, 37, 250].map(length));
    for threads in [1, 2, 4, 8, 16] {
        for own in owns {
            for handler in handlers {
                one::<Sends<Turnwise>>(&mut group, threads, handler, own);
                one::<Asks<With>>(&mut group, threads, handler, own);
                one::<Asks<Turnwise>>(&mut group, threads, handler, own);
                one::<Sends<ParkingLot>>(&mut group, threads, handler, own);
                one::<Sends<Std>>(&mut group, threads, handler, own);
                one::<Sends<Textbook>>(&mut group, threads, handler, own);
                one::<Asks<Textbook>>(&mut group, threads, handler, own);
                one::<Sends<Handwritten>>(&mut group, threads, handler, own);
                one::<Asks<Handwritten>>(&mut group, threads, handler, own);
                one::<Sends<HandwrittenPool>>(&mut group, threads, handler, own);
                one::<Asks<HandwrittenPool>>(&mut group, threads, handler, own);
                one::<Sends<Channel>>(&mut group, threads, handler, own);
                one::<Asks<Channel>>(&mut group, threads, handler, own);
            }
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = brief(0.1, 10); targets = contention);
criterion_main!(benches);
