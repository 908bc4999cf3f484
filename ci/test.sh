#!/usr/bin/env bash
# The tests of the crates that `cargo test` runs, in debug and release builds.
#
#   ci/test.sh              all of them
#   ci/test.sh debug        one of: debug tracing mistakes release
set -euo pipefail
source "$(dirname "$0")/common.sh"

debug() {
    cargo test --locked "${executors[@]}" --no-fail-fast
}

tracing() {
    cargo test --locked --all-features -p turnwise --no-fail-fast --lib --test traced
    cargo test --locked --all-features -p turnwise --doc guide
}

# Programs that must not compile, and the messages that their authors get.
mistakes() {
    cargo test --locked -p mistakes
}

# Tests that are larger, or others, without debug assertions; a quarter of their loads, as little is
# optimized. `cargo test --release` has all. Those of turnwise-redis need a server and run in
# ci/store.sh.
release() {
    local others='\bsize\(|debug_assertions' different
    different=$({ tests . "$others"; tests crates/turnwise-locks "$others"; } | sort -u)
    TURNWISE_PART=4 cargo test "${release[@]}" --no-fail-fast --lib $different
}

parts "debug tracing mistakes release" "$@"
