//! The crawl, over sockets and in virtual time, with every executor.

mod common;

use std::collections::BTreeSet;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use common::{Folder, LINKS, PAGES};
use linkcheck::book::Tally;
use linkcheck::crawl::{Rules, Watch};
use linkcheck::faults::{Faults, Origin};
use linkcheck::report::{Ended, Report};
use linkcheck::run::Plan;
use linkcheck::site::Site;
use tokio::runtime::{Builder, Handle, Runtime};
use turnwise::executor::{Rayon, Tokio};
use turnwise::time::Timers;
use turnwise::{Executor, ThreadPool};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn plan(folder: &Folder) -> Plan {
    Plan {
        root: folder.path().into(),
        hosts: 3,
        rules: Rules { pause: Duration::ZERO, backoff: MS, limit: 60 * SECOND, tries: 3 },
        faults: Faults { seed: 1, delay: Duration::ZERO, errors: 0, mute: 0 },
        plant: 0,
        within: 3600 * SECOND,
    }
}

fn nothing() -> Watch {
    Box::new(|_, _| ())
}

fn threads(count: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(count).enable_io().build().unwrap()
}

fn over(runtime: &Runtime, plan: &Plan, executor: Option<Arc<dyn Executor>>) -> Report {
    runtime.block_on(plan.over_sockets(executor, nothing(), pending())).unwrap()
}

fn over_tokio(runtime: &Runtime, plan: &Plan) -> Report {
    let executor = {
        let _inside = runtime.enter();
        Tokio::new(Handle::current())
    };
    over(runtime, plan, Some(Arc::new(executor)))
}

/// Runs the plan in all ways.
fn in_all_ways(plan: &Plan) -> Vec<(&'static str, Report)> {
    let two = threads(2);
    let one = Builder::new_current_thread().enable_io().build().unwrap();
    let rayon = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let pool = ThreadPool::builder().threads(2).build().unwrap();
    vec![
        ("virtual time", plan.in_virtual_time().unwrap()),
        ("tokio", over_tokio(&two, plan)),
        ("one thread of tokio", over_tokio(&one, plan)),
        ("rayon", over(&two, plan, Some(Arc::new(Rayon::new(rayon))))),
        ("a pool", over(&two, plan, Some(Arc::new(pool.handle())))),
        ("inline", over(&two, plan, None)),
        ("inline on one thread", over(&one, plan, None)),
    ]
}

/// Returns the page, link and reason of each dead link.
fn dead(report: &Report) -> BTreeSet<(&str, &str, &str)> {
    let dead = report.findings.troubles.iter().filter(|trouble| trouble.dead);
    dead.map(|dead| (dead.page.as_deref().unwrap_or(""), &dead.link[..], &dead.reason[..]))
        .collect()
}

#[test]
fn whoever_runs_the_actors_the_same_is_found_with_one_request_at_a_time() {
    let folder = Folder::book();
    folder.file("static/no-index/file.txt", "").file(
        "chapter-1/bad.html",
        "<a href=gone.html>1</a> <a href=../chapter-2/#part>2</a> <a href=/nothing/>3</a>
         <a href=../static/no-index>4</a> <a href='http://['>5</a> <a href=''>6</a>
         <a href=../static/style.css#a>7</a> <a href='http://host-2.test/chapter-2/'>8</a>
         <a href=mailto:a@example.com>9</a> <a href='moved.html#the%20title'>10</a>",
    );
    folder.file(
        "chapter-1/moved.html",
        "<meta http-equiv=refresh content='0;URL=../chapter-2/'><a href=../chapter-2/>here</a>",
    );
    let mut plan = plan(&folder);
    plan.faults = Faults { seed: 7, delay: MS / 10, errors: 40, mute: 0 };
    plan.plant = 12;
    let expected: BTreeSet<_> = [
        ("chapter-1/bad.html", "gone.html", "404 Not Found"),
        ("chapter-1/bad.html", "../chapter-2/#part", "the page has no #part"),
        ("chapter-1/bad.html", "/nothing/", "404 Not Found"),
        ("chapter-1/bad.html", "../static/no-index", "404 Not Found"),
        ("chapter-1/bad.html", "http://[", "no URL: invalid IPv6 address"),
    ]
    .into();
    let mut seen = None;
    for (way, report) in in_all_ways(&plan) {
        let is_planted = |page: &str, link: &str| {
            report.plants.iter().any(|(where_, what)| where_ == page && what == link)
        };
        let (planted, others): (BTreeSet<_>, BTreeSet<_>) =
            dead(&report).into_iter().partition(|(page, link, _)| is_planted(page, link));
        assert_eq!(others, expected, "{way}");
        assert_eq!((planted.len(), report.plants_found()), (12, 12), "{way}");
        assert_eq!((report.at_once, report.ended, report.code()), (1, Ended::Whole, 1), "{way}");
        let findings = &report.findings;
        assert!(findings.adds_up(), "{way}: {findings:?}");
        assert_eq!(findings.pages, 3 * PAGES + 2, "{way}");
        assert_eq!(findings.links, 3 * PAGES * LINKS + 11 + 12, "{way}");
        assert_eq!(findings.followed.elsewhere, 3 * PAGES + 1, "{way}");
        assert_eq!((findings.visited.gave_up, findings.followed.gave_up), (0, 0), "{way}");
        assert!(findings.again > 0, "{way}");
        // Including the number of requests.
        let first = seen.get_or_insert_with(|| findings.clone());
        assert_eq!(findings, first, "{way}");
    }
}

#[test]
fn two_requests_at_once_would_be_counted() {
    let folder = Folder::book();
    let site = Arc::new(Site::open(folder.path(), 1).unwrap());
    let faults = Faults { seed: 1, delay: MS, errors: 0, mute: 0 };
    let origins = Origin::all(&site, &faults, Timers::global());
    threads(1).block_on(async {
        let (one, other) = (origins[0].answer("/static/style.css"), origins[0].answer("/nothing"));
        let (one, other) = tokio::join!(one, other);
        assert_eq!((one.unwrap().status, other.unwrap().status), (200, 404));
    });
    assert_eq!(origins[0].most_at_once(), 2);
}

#[test]
fn errors_that_pass_are_tried_again_and_others_are_given_up() {
    let folder = Folder::book();
    let mut plan = plan(&folder);
    plan.faults.errors = 100;
    for report in [plan.in_virtual_time().unwrap(), over_tokio(&threads(1), &plan)] {
        assert_eq!((report.code(), report.findings.troubles.len()), (0, 0), "{report:?}");
        // Each address has failed once or twice.
        let addresses = report.findings.requests - report.findings.again;
        assert!((addresses..2 * addresses).contains(&report.findings.again), "{report:?}");
    }
    plan.rules.tries = 1;
    let report = plan.in_virtual_time().unwrap();
    assert!(report.findings.adds_up());
    assert_eq!(report.findings.visited, Tally { gave_up: 3 * PAGES, ..Tally::default() });
    assert_eq!((report.findings.links, report.findings.again, report.code()), (0, 0, 1));
}

#[test]
fn a_host_that_never_answers_ends_within_its_limit() {
    let folder = Folder::book();
    let mut plan = plan(&folder);
    plan.rules.limit = SECOND;
    plan.rules.backoff = 10 * MS;
    plan.faults.mute = 1;
    let report = plan.in_virtual_time().unwrap();
    // Three addresses, with three requests each; none after.
    assert_eq!(report.took, 3 * (3 * SECOND + 30 * MS));
    assert!(report.findings.adds_up());
    assert_eq!(report.code(), 1);
    let given_up = report.findings.visited.gave_up;
    assert_eq!((given_up, report.findings.visited.ok), (PAGES, 2 * PAGES));
    let tried = |times: &str| {
        let troubles = report.findings.troubles.iter();
        troubles.filter(|one| one.page.is_none() && one.reason == times).count()
    };
    assert_eq!(tried("no answer in 1s, 3 times"), 3);
    assert_eq!(tried("its host does not answer"), PAGES as usize - 3);

    plan.rules.limit = 20 * MS;
    plan.rules.backoff = MS;
    let report = over_tokio(&threads(2), &plan);
    assert!(report.findings.adds_up());
    assert_eq!(report.findings.visited.gave_up, given_up);
    assert!(report.took >= 9 * plan.rules.limit && report.took < 60 * SECOND, "{:?}", report.took);
}

#[test]
fn hosts_have_their_pause_and_do_not_wait_for_each_other() {
    let folder = Folder::book();
    let mut plan = plan(&folder);
    plan.rules.pause = SECOND;
    plan.hosts = 1;
    let one = plan.in_virtual_time().unwrap();
    assert_eq!(one.took, SECOND * (one.findings.requests as u32 - 1));
    plan.hosts = 4;
    let four = plan.in_virtual_time().unwrap();
    assert_eq!(four.hosts, 4);
    assert!(four.took < one.took * 3 / 4, "{:?} and {:?}", four.took, one.took);
    plan.hosts = 200;
    assert_eq!(plan.in_virtual_time().unwrap().hosts, 4, "no host is without a folder");
}

#[test]
fn a_crawl_that_is_ended_says_so_and_everything_has_ended_once() {
    let folder = Folder::book();
    let mut plan = plan(&folder);
    plan.faults.delay = 100 * MS;
    plan.within = 300 * MS;
    let report = plan.in_virtual_time().unwrap();
    assert_eq!((report.ended, report.code(), report.took), (Ended::OutOfTime, 1, plan.within));
    assert!(report.findings.adds_up());
    assert!(report.findings.visited.ok > 0 && report.findings.visited.gave_up > 0);

    plan.faults.mute = 3;
    plan.rules.limit = 3600 * SECOND;
    let runtime = threads(2);
    for _ in 0..20 {
        let executor: Arc<dyn Executor> = Arc::new(Tokio::new(runtime.handle().clone()));
        let crawl = plan.over_sockets(Some(executor), nothing(), ready(()));
        let report = runtime.block_on(crawl).unwrap();
        assert_eq!((report.ended, report.code()), (Ended::Interrupted, 130));
        assert!(report.findings.adds_up());
        assert_eq!(report.findings.visited.gave_up, 3 * PAGES);
    }
    plan.within = 50 * MS;
    let report = over_tokio(&runtime, &plan);
    assert_eq!((report.ended, report.findings.visited.gave_up), (Ended::OutOfTime, 3 * PAGES));
}

#[test]
fn the_watch_sees_the_end() {
    let folder = Folder::book();
    let last = Arc::new(std::sync::Mutex::new((0, 0)));
    let seen = last.clone();
    let watch: Watch = Box::new(move |done, known| *seen.lock().unwrap() = (done, known));
    let crawl = plan(&folder);
    let report = threads(1).block_on(crawl.over_sockets(None, watch, pending())).unwrap();
    let addresses = report.findings.requests;
    assert_eq!(*last.lock().unwrap(), (addresses, addresses));
}

#[test]
#[cfg(unix)]
fn files_that_cannot_be_read_are_found_out() {
    use std::os::unix::fs::symlink;
    use std::process::Command;
    let folder = Folder::new();
    folder.file("a/index.html", "<a href=broken.html>1</a> <a href=round.html>2</a> <a href=pipe>");
    let pipe = Command::new("mkfifo").arg(folder.path().join("a/pipe")).status().unwrap();
    assert!(pipe.success());
    symlink("nowhere", folder.path().join("a/broken.html")).unwrap();
    symlink("round.html", folder.path().join("a/round.html")).unwrap();
    // Not followed: it is cyclic.
    symlink("..", folder.path().join("a/up")).unwrap();
    let report = plan(&folder).in_virtual_time().unwrap();
    assert!(report.findings.adds_up());
    assert_eq!((report.findings.pages, report.findings.visited.ok), (3, 1));
    assert_eq!(
        dead(&report),
        [
            ("", "a/broken.html", "404 Not Found"),
            ("a/index.html", "broken.html", "404 Not Found"),
            ("a/index.html", "pipe", "404 Not Found")
        ]
        .into()
    );
    assert_eq!((report.findings.visited.gave_up, report.findings.followed.gave_up), (1, 1));
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let folder = Folder::book();
    let mut plan = plan(&folder);
    plan.faults = Faults { seed: 1, delay: 5 * MS, errors: 30, mute: 0 };
    plan.plant = 5;
    let said = |plan: &Plan| {
        let report = plan.in_virtual_time().unwrap();
        report.text() + &report.json()
    };
    let first = said(&plan);
    assert_eq!(first, said(&plan));
    plan.faults.seed = 2;
    assert_ne!(first, said(&plan));
}
