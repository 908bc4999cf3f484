//! The hostile programs call every public function of `docs/public-api.txt`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of a type's values in the programs.
const NAMES: &[(&str, &[&str])] = &[
    ("AbortHandle", &["handle", "abort"]),
    ("Actor", &["actor", "first()", "other", "runner", "runner()", "same"]),
    ("ActorBuilder", &["builder", ".executor(queue.handle())"]),
    ("ActorName", &["name"]),
    ("AskError", &["error"]),
    ("Asking", &["asking"]),
    ("AsyncContext", &["cx"]),
    ("Budget", &["Budget::turns(turns)"]),
    ("Clock", &["MonotonicClock", "clock"]),
    ("Closing", &["closing", "closing.0"]),
    ("Context", &["cx"]),
    ("Cycle", &["cycle"]),
    ("Drain", &["drain"]),
    ("DrainQueue", &["queue"]),
    ("EndCause", &["cause.clone()"]),
    ("Ending", &["ending", "idle()", "ended()"]),
    ("Every", &["every", ".max(Duration::from_micros(200)))"]),
    (
        "PoolBuilder",
        &[
            "pool",
            "pool()",
            "builder()",
            ".threads(workers)",
            ".thread_name(POOL_THREAD)",
            ".stack_size(stack)",
            "pool.blocking(blocking)",
            ".thread_name(\"global\")",
        ],
    ),
    ("PoolHandle", &["pool"]),
    ("Posted", &["posted()"]),
    ("Promise", &["promise", "gift"]),
    ("Recipient", &["recipient", "other"]),
    ("Reply", &["reply"]),
    ("Restarts", &["Restarts::at_most(most,micros(within.max(1)))"]),
    ("SendError", &["error", "refused"]),
    ("Sending", &["sending"]),
    ("Shutdown", &["pool.shutdown(short(limit))"]),
    ("ShutdownReport", &["report"]),
    ("Spawner", &["spawner"]),
    ("System", &["system", "spawns(system)?"]),
    ("SystemView", &["view"]),
    ("ThreadPool", &["pool"]),
    ("Timer", &["timer"]),
    ("Timers", &["timers", "service", "service(service)?"]),
    ("TurnPanic", &["panic"]),
    ("VirtualClock", &["clock"]),
    ("Waiting", &["waiting()"]),
    ("WeakActor", &["weak", "weak()"]),
    ("Withdrawn", &["message", "order", "back"]),
];

/// The functions that they do not call, with reasons.
const NOT_CALLED: &[(&str, &str)] = &[
    ("ActorBuilder::child_spans", "as `ActorBuilder::traced`"),
    ("ActorBuilder::traced", "the feature `tracing` is off here; `tests/traced/spans.rs` has it"),
    ("Clock::identity", "hidden: clocks of the crate's own say which one they are by it"),
    ("Executor::enrolled", "hidden: executors of the crate's own are known by it"),
    ("Executor::is", "hidden: a pool knows itself by it"),
    ("Rayon::global", "as `Rayon::new`, on a pool whose threads have no name to be known by"),
    ("VirtualClock::set", "panics if another thread has moved the clock on meanwhile"),
    ("ThreadPool::new", "as its builder, with threads that have no name to be known by"),
];

/// Returns the sources without comments and blanks.
fn sources(folder: &Path) -> String {
    let files = fs::read_dir(folder).expect("there are sources");
    let mut all = String::new();
    for file in files {
        let path = file.expect("a file").path();
        if path.is_dir() {
            all += &sources(&path);
            continue;
        }
        let text = fs::read_to_string(path).expect("text");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.for_each(|line| all.extend(line.chars().filter(|char| !char.is_whitespace())));
    }
    all
}

#[test]
fn the_programs_call_every_public_function() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = sources(&root.join("fuzz/src"));
    let list = fs::read_to_string(root.join("docs/public-api.txt")).expect("the list");
    let mut functions = BTreeSet::new();
    for line in list.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| *word == "fn") else { continue };
        if words[..at].iter().all(|word| ["const", "async", "unsafe"].contains(word)) {
            let path = words[at + 1].split(['<', '(']).next().unwrap_or_default();
            let path = path.trim_start_matches("turnwise::");
            // The parts before a type, or before a free function, are modules.
            let mut parts: Vec<_> = path.split("::").collect();
            let of = parts.iter().position(|part| part.starts_with(char::is_uppercase));
            let modules = of.unwrap_or(parts.len() - 1);
            parts.drain(..modules);
            functions.insert(parts.join("::"));
        }
    }
    assert!(functions.len() > 150, "the list is shorter than it was: {}", functions.len());
    let is_called = |function: &String| {
        let Some((of, name)) = function.split_once("::") else {
            return sources.contains(&format!("{function}("));
        };
        let names = NAMES.iter().find(|(one, _)| *one == of).map_or(&[][..], |(_, names)| names);
        let by = |receiver: &&str| {
            let call = format!("{receiver}.{name}");
            sources.contains(&format!("{call}(")) || sources.contains(&format!("{call}::<"))
        };
        // A trait's own, or one that is named with its type.
        sources.contains(&format!("{of}::{name}"))
            || names.iter().any(by)
            || sources.contains(&format!("impl{of}for")) && sources.contains(&format!("fn{name}("))
            || ["Handler", "AsyncHandler"].contains(&of)
    };
    let missing: Vec<_> = functions.iter().filter(|function| !is_called(function)).collect();
    let allowed: Vec<_> = NOT_CALLED.iter().map(|(function, _)| *function).collect();
    let new: Vec<_> = missing.iter().filter(|one| !allowed.contains(&one.as_str())).collect();
    assert!(new.is_empty(), "the programs do not call {new:?}: have one of their steps call each");
    let old: Vec<_> =
        allowed.iter().filter(|one| !missing.iter().any(|missing| missing == *one)).collect();
    assert!(old.is_empty(), "{old:?} are called, or are gone: they need no reason any more");
}
