# shellcheck shell=bash
# Sourced by the scripts beside it: the folder that they run in, and the flags that they share.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Programs are run from there. `cargo run -p NAME` would build what they share once more, with fewer
# features.
target=${CARGO_TARGET_DIR:-target}

# The executors. Without `tracing`, with which each message is compiled twice.
executors=(--features "turnwise/rayon turnwise/tokio")

# Programs and tests of the release profile are of one build: all packages but the large programs,
# all features but `tracing`. With fewer packages or features, cargo compiles what they depend on
# once more. No time is measured there, so only what computes is optimized, and that a little:
# schedules, searches, counts of words.
profile=(--locked --release
    --config profile.release.debug=false
    --config "profile.release.lto='off'"
    --config profile.release.opt-level=0)
for package in paused pipeline proptest search-tests tokio wordcount; do
    profile+=(--config "profile.release.package.$package.opt-level=1")
done
release=("${profile[@]}" --workspace --exclude turnwise-top
    --exclude loom-tests --exclude rc11-tests --exclude shuttle-tests
    --exclude instructions --exclude mistakes
    --exclude boxes --exclude kv --exclude linkcheck --exclude migration --exclude raffle-server
    --exclude service
    "${executors[@]}" --features "turnwise-redis/sqlite turnwise-redis/tls turnwise-redis/programs")

# The programs that `release` leaves out.
apps=("${profile[@]}" -p boxes -p kv -p linkcheck -p migration -p raffle-server -p service)

# parts <names> [arguments]: runs the functions that the arguments name; without arguments, all of
# them.
parts() {
    local names=$1 part
    shift
    [ $# -gt 0 ] || set -- $names
    for part in "$@"; do
        if [[ " $names " != *" $part "* ]]; then
            echo "usage: $0 [${names// / | }]..." >&2
            exit 2
        fi
    done
    for part in "$@"; do
        [ $# -eq 1 ] || printf '\n-- %s\n' "$part"
        # In a shell of its own, for its traps and variables.
        ("$part")
    done
}

# need <program> <packages>: ends the script with a message if the program is not installed.
need() {
    command -v "$1" >/dev/null && return
    echo "$0: $1 is not installed; Debian has it in $2" >&2
    exit 1
}

# programs: builds all programs of the release profile.
programs() {
    cargo build "${release[@]}" --bins --examples
}

# tests <folder of a package> [pattern]: its integration tests, as arguments; those that contain the
# pattern.
tests() {
    local program
    for program in "$1"/tests/*.rs "$1"/tests/*/main.rs; do
        [ -e "$program" ] || continue
        program=${program%/main.rs}
        grep -rqE --include='*.rs' "${2:-}" "$program" || continue
        echo "--test $(basename "$program" .rs)"
    done
}

# full <program and arguments>: the program reports output that cannot be written, and fails.
full() {
    local said status=0
    said=$("$@" 2>&1 >/dev/full) || status=$?
    [ "$status" -eq 1 ]
    grep -q "No space left on device" <<<"$said"
}

# fails <code> <program and arguments>: the program ends with the code, and prints no results.
fails() {
    local said status=0 code=$1
    shift
    said=$("$@") || status=$?
    [ "$status" -eq "$code" ]
    [ -z "$said" ]
}

# narrow: the input fits a terminal of 80 columns.
narrow() {
    local text
    text=$(cat)
    echo "$text"
    [ -n "$text" ]
    # In columns: some programs for awk count bytes.
    [ "$(LC_ALL=C.UTF-8 wc -L <<<"$text")" -le 80 ]
}
