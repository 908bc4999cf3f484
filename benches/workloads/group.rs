//! Criterion groups of loads that time and check themselves.

use std::fmt::Display;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};

/// Benchmarks of `seconds` each. The command line can override this, because the groups do not set
/// it.
pub(crate) fn brief(seconds: f64, samples: usize) -> Criterion {
    let criterion = Criterion::default()
        .sample_size(samples)
        .warm_up_time(Duration::from_secs_f64(seconds / 2.0));
    // This few samples need only this many resamples, and a tenth of a second of measurement is not
    // followed by another of statistics.
    criterion.measurement_time(Duration::from_secs_f64(seconds)).nresamples(2000)
}

/// A group whose samples are equally long: a short one of many threads means little.
pub(crate) fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(1));
    group
}

/// Adds `<group>/<subject>/<parameter>`: `run` does something this many times, checks it, and
/// returns its duration. A run that is not timed comes first.
pub(crate) fn add(
    group: &mut BenchmarkGroup<'_, WallTime>,
    subject: &str,
    parameter: impl Display,
    run: impl Fn(u64) -> Duration,
) {
    let mut checked = false;
    group.bench_function(BenchmarkId::new(subject, parameter), |bench| {
        if !checked {
            run(100);
            checked = true;
        }
        bench.iter_custom(&run);
    });
}
