//! The pipeline of the example, on each executor: the result is that of one thread, mailboxes keep
//! to their limits, and every loss is counted.

#[path = "../../../../tests/common/mod.rs"]
mod common;
#[path = "../../../common/executor.rs"]
mod executor;
#[path = "../src/stages.rs"]
mod stages;
#[path = "../../wordcount/src/text.rs"]
mod text;

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use common::{must_end, size};
use executor::{Choice, Place};
use stages::{Pipeline, Shape};
use turnwise::Limit;

/// The number of readers; they and the parsers wait for room inside their turns.
const READERS: usize = 2;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn sources() -> Vec<PathBuf> {
    let path = |folder| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..").join(folder);
    let mut files = text::find(&[path("src"), path("tests")], |path, error| {
        panic!("{}: {error}", path.display())
    });
    files.push(path("no/such/file"));
    files
}

fn each(test: impl Fn(Choice, usize, usize)) {
    for choice in Choice::ALL {
        for threads in [1, 3] {
            for capacity in [1, 16] {
                test(choice, threads, capacity);
            }
        }
    }
}

fn feed(place: &Place, threads: usize, capacity: usize, files: &[PathBuf]) -> Pipeline {
    let pipeline = Pipeline::new(
        place,
        Shape { readers: READERS, parsers: threads, counters: 2 * threads, capacity },
    )
    .unwrap();
    std::thread::scope(|scope| {
        for feeder in 0..threads {
            let pipeline = &pipeline;
            let mine = files.iter().enumerate().skip(feeder).step_by(threads);
            scope
                .spawn(move || mine.for_each(|(number, file)| pipeline.feed(number, file.clone())));
        }
    });
    pipeline
}

#[test]
fn it_finds_what_one_thread_finds_within_its_limits() {
    must_end(|| {
        let files = sources();
        let plain = stages::plainly(files.iter().map(PathBuf::as_path));
        assert!(plain.words > 10_000 && plain.skipped.len() == 1);
        each(|choice, threads, capacity| {
            let place = Place::new(choice, threads, READERS + threads).unwrap();
            let pipeline = feed(&place, threads, capacity, &files);
            let gauges = pipeline.gauges().to_vec();
            let (found, report) = pipeline.finish(Limit::Unlimited);
            assert!(found == plain, "{choice:?} finds something else");
            assert!(report.is_complete());
            let actors = gauges.iter().map(|gauge| gauge.actors).sum::<usize>();
            assert_eq!((report.ended, report.stopped), (actors, 0), "{report}");
            for gauge in gauges {
                assert_eq!(
                    (gauge.depth(), gauge.lost.load(Relaxed)),
                    (0, 0),
                    "{choice:?} {}",
                    gauge.name
                );
                assert!(gauge.deepest.load(Relaxed) <= capacity + 1, "{choice:?} {gauge:?}");
            }
            place.join();
        });
    });
}

#[test]
fn without_time_to_finish_each_message_is_handled_or_counted_as_lost() {
    must_end(|| {
        let files = sources();
        for _ in 0..size(1, 20) {
            each(|choice, threads, capacity| {
                let place = Place::new(choice, threads, READERS + threads).unwrap();
                let pipeline = feed(&place, threads, capacity, &files);
                let gauges = pipeline.gauges().to_vec();
                let (_, report) = pipeline.finish(Limit::Immediate);
                assert_eq!(
                    report.ended + report.stopped + report.running.len(),
                    3 + 3 * threads,
                    "{report}"
                );
                // Waits for the last turns.
                place.join();
                common::until(|| gauges.iter().all(|gauge| gauge.depth() == 0));
                for gauge in gauges {
                    let [accepted, handled, lost] = [&gauge.accepted, &gauge.handled, &gauge.lost]
                        .map(|number| number.load(Relaxed));
                    assert_eq!(accepted, handled + lost, "{choice:?} {gauge:?}");
                }
            });
        }
    });
}
