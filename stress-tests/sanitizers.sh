#!/usr/bin/env bash
# ThreadSanitizer, AddressSanitizer with LeakSanitizer, and Miri on the stress scenarios of
# stress-tests/paused/tests/san.rs.
#
# Uses what is installed and fetches nothing; what cannot run is said in one line and is no failure.
# Every rung first runs a planted bug that must be reported, then the real scenarios, which must
# not.
#
#   stress-tests/sanitizers.sh              all of them
#   stress-tests/sanitizers.sh thread       one of: thread address miri; leaks are for address
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTUP_AUTO_INSTALL=0

passed=0 failed=0 skipped=0
wanted=${1:-all}
[ "$wanted" != leak ] || wanted=address
target_dir=${CARGO_TARGET_DIR:-target}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

pass() { passed=$((passed + 1)); echo "ok      $*"; }
fail() { failed=$((failed + 1)); echo "FAILED  $*"; tail -n 40 "$log"; }
skip() { skipped=$((skipped + 1)); echo "not run $*"; }
finish() {
    echo "sanitizers: $passed passed, $failed failed, $skipped not run"
    [ "$failed" -eq 0 ]
}

# A nightly toolchain: `cargo +nightly` of rustup, or a plain cargo that is one.
if command -v rustup >/dev/null && rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    cargo=(cargo +nightly)
    rustc=(rustc +nightly)
elif rustc --version | grep -q nightly; then
    cargo=(cargo)
    rustc=(rustc)
else
    skip "thread, address, leak, miri: there is no nightly toolchain here"
    finish
    exit
fi
host=$("${rustc[@]}" -vV | sed -n 's/^host: //p')
runtimes=$("${rustc[@]}" --print sysroot)/lib/rustlib/$host/lib

# program <sanitizer>: builds the stress program and prints its path. The target is named, so that
# build scripts are left alone.
program() {
    RUSTFLAGS="-Zsanitizer=$1 -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR="$target_dir/sanitizer-$1" \
        "${cargo[@]}" test --locked --offline --release --target "$host" -p paused --test san --no-run --message-format=json 2>"$log" |
        sed -n 's/.*"name":"san".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# bites <what> <text of the report> <command...>: the planted bug must be reported, and fail the
# program.
bites() {
    local what=$1 text=$2
    shift 2
    if timeout 300 "$@" >"$log" 2>&1; then
        fail "$what: the planted bug was not reported"
    elif grep -q "$text" "$log"; then
        pass "$what: the planted bug is reported"
    else
        fail "$what: failed without the report that was planted"
    fi
}

# clean <what> <command...>: the scenarios come to their end without a report.
clean() {
    local what=$1
    shift
    if timeout 900 "$@" >"$log" 2>&1 && grep -q '^san: [1-9][0-9]* scenarios run' "$log" && ! grep -q 'Sanitizer:' "$log"; then
        pass "$what: $(sed -n 's/^san: //p' "$log"), no report"
    else
        fail "$what"
    fi
}

rung() {
    local name=$1 runtime=$2 binary
    [ "$wanted" = all ] || [ "$wanted" = "$name" ] || return 0
    if ! ls "$runtimes"/librustc*_rt."$runtime".a >/dev/null 2>&1; then
        skip "$name: the nightly toolchain has no runtime for it on $host"
        return 0
    fi
    if ! binary=$(program "$name") || [ -z "$binary" ]; then
        fail "$name: the stress program was not built"
        return 0
    fi
    "rung_$name" "$binary"
}

rung_thread() {
    export TSAN_OPTIONS="suppressions=$PWD/stress-tests/tsan-suppressions.txt"
    bites "thread, two writers of one static" "ThreadSanitizer: data race" "$1" planted-race
    bites "thread, every ordering Relaxed" "ThreadSanitizer: data race" "$1" planted-relaxed
    clean "thread" "$1" floors
}

# One program for both: AddressSanitizer looks for leaks when a program ends.
rung_address() {
    export ASAN_OPTIONS=detect_leaks=1
    bites "address, memory used after its end" "AddressSanitizer: heap-use-after-free" "$1" planted-use
    bites "leak, a forgotten allocation" "LeakSanitizer: detected memory leaks" "$1" planted-leak
    clean "address and leak" "$1" long
}

rung thread tsan
rung address asan

if [ "$wanted" = all ] || [ "$wanted" = miri ]; then
    if "${cargo[@]}" miri --version >/dev/null 2>&1 && [ -d "$("${rustc[@]}" --print sysroot)/lib/rustlib/src" ]; then
        export MIRIFLAGS="-Zmiri-many-seeds=0..16 -Zmiri-preemption-rate=0.1 -Zmiri-permissive-provenance -Zmiri-address-reuse-rate=1.0 -Zmiri-address-reuse-cross-thread-rate=1.0"
        miri=("${cargo[@]}" miri test --locked --offline -p paused --test san --target-dir "$target_dir/miri" --)
        bites "miri, two writers of one static" "Data race detected" "${miri[@]}" planted-race
        clean "miri" "${miri[@]}"
    else
        skip "miri: the nightly toolchain here has no miri (or no rust-src for it)"
    fi
fi
finish
