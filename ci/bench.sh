#!/usr/bin/env bash
# Benchmarks: their routines run once, their answers are checked, and no time is taken. The
# instructions of the hot paths are counted.
#
#   ci/bench.sh                 all of them
#   ci/bench.sh instructions    one of: once actors peers instructions (needs valgrind)
set -euo pipefail
source "$(dirname "$0")/common.sh"

# benches <folder of a package>: its benchmarks, as arguments.
benches() {
    sed -n '/^\[\[bench\]\]/ { n; s/name = "\(.*\)"/--bench \1/p }' "$1/Cargo.toml"
}

once() {
    cargo test "${release[@]}" $(benches benches) $(benches crates/turnwise-locks)
}

# Each row of the table of actors, and an error for an unknown option.
actors() {
    local table status=0
    table=$(cargo test "${release[@]}" --quiet --bench ratios -- --bench --actors --quick --histogram)
    echo "$table"
    grep -q "rows miss what they must be" <<<"$table"
    cargo test "${release[@]}" --quiet --bench ratios -- --bench --actors --nothing || status=$?
    [ "$status" -ne 0 ]
}

# Every peer under every load.
peers() {
    programs
    "$target/release/turnwise-peers" --quick
    "$target/release/turnwise-awaiting" --quick
}

instructions() {
    need valgrind "valgrind and libc6-dbg"
    benches/instructions/gate.sh
    benches/instructions/gate.sh --plain
}

parts "once actors peers instructions" "$@"
