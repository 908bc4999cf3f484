#!/usr/bin/env bash
# The shipped files under model checkers.
#
#   ci/models.sh            all of them
#   ci/models.sh loom       one of: loom rc11 shuttle paused
#
# loom-tests/run.sh has options for one model, for fewer preemptions and for execution counts. With
# SHAPES_TIMES=100 shuttle runs that many times the schedules, with SHAPES_SEED=5 others.
set -euo pipefail
source "$(dirname "$0")/common.sh"
export CARGO_PROFILE_RELEASE_DEBUG=false

# Every model, every design that must fail, every planted bug.
loom() {
    loom-tests/run.sh
}

# Every execution that the axioms of RC11 allow, of the words and of the pool's protocol.
rc11() {
    cargo test --locked -p rc11-tests --release
}

# Shapes that loom cannot hold, in schedules drawn at random.
shuttle() {
    cargo test --locked -p shuttle-tests --release
}

# Threads that stop before each atomic operation, spin, and yield.
paused() {
    cargo test "${release[@]}" $(tests stress-tests/paused)
}

parts "loom rc11 shuttle paused" "$@"
