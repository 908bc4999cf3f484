//! Criterion groups of loads that time and check themselves.

use std::fmt::Display;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};

/// A group whose benchmarks take `seconds` each. Their samples are equally long, because a short one of many threads means little.
pub(crate) fn group<'a>(criterion: &'a mut Criterion, name: &str, seconds: f64) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .sample_size(10)
        .sampling_mode(SamplingMode::Flat)
        // Ten samples tell no more than so many resamples show.
        .nresamples(2000)
        .warm_up_time(Duration::from_secs_f64(seconds / 5.0))
        .measurement_time(Duration::from_secs_f64(seconds))
        .throughput(Throughput::Elements(1));
    group
}

/// Adds `<group>/<subject>/<parameter>`: `run` does something so many times, checks that, and says how long it took. A run that is not timed
/// comes first.
pub(crate) fn add(group: &mut BenchmarkGroup<'_, WallTime>, subject: &str, parameter: impl Display, run: impl Fn(u64) -> Duration) {
    let mut checked = false;
    group.bench_function(BenchmarkId::new(subject, parameter), |bench| {
        if !checked {
            run(100);
            checked = true;
        }
        bench.iter_custom(&run);
    });
}
