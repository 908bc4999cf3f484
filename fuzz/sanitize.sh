#!/usr/bin/env bash
# Hostile programs under AddressSanitizer or ThreadSanitizer.
#
# Uses what is installed; what cannot run is said in one line and is no failure. ThreadSanitizer
# needs a standard library that is built for it: a nightly toolchain with rust-src, or another
# compiler with the sources of its library (RUSTC_WITH_SRC=PATH). One is in Debian's packages
# rustc-web and rust-web-src, beside whose std a librustc-stable_rt.tsan.a of rustup's belongs.
#
#   fuzz/sanitize.sh                    both, for 30 seconds each
#   fuzz/sanitize.sh address 600        one of: address thread; for this many seconds
#   fuzz/sanitize.sh address 600 --only room    more for the program
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTUP_AUTO_INSTALL=0

wanted=${1:-all}
seconds=${2:-30}
arguments=("${@:3}")
target_dir=${CARGO_TARGET_DIR:-target}
failed=0
case $wanted in all | address | thread) ;; *) echo "hostile: address or thread, not $wanted" >&2 && exit 2 ;; esac

skip() { echo "not run $*"; }

# A nightly toolchain: `cargo +nightly` of rustup, or a plain cargo that is one.
if command -v rustup >/dev/null && rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    cargo=(cargo +nightly)
    rustc=(rustc +nightly)
elif rustc --version | grep -q nightly; then
    cargo=(cargo)
    rustc=(rustc)
else
    skip "hostile programs under sanitizers: there is no nightly toolchain here"
    exit
fi
host=$("${rustc[@]}" -vV | sed -n 's/^host: //p')
sysroot=$("${rustc[@]}" --print sysroot)

# program <sanitizer> <more for cargo>: builds it, and prints its path. The target is named, so that
# build scripts are left alone.
program() {
    local sanitizer=$1
    shift
    RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer $flags" CARGO_TARGET_DIR="$target_dir/sanitizer-$sanitizer" \
        "${cargo[@]}" build --locked --release --target "$host" -p hostile --message-format=json "$@" |
        sed -n 's/.*"name":"hostile".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

rung() {
    local name=$1 runtime=$2 binary status=0 more=() flags=''
    [ "$wanted" = all ] || [ "$wanted" = "$name" ] || return 0
    if ! ls "$sysroot/lib/rustlib/$host/lib"/librustc*_rt."$runtime".a >/dev/null 2>&1; then
        skip "$name: the nightly toolchain has no runtime for it on $host"
        return 0
    fi
    if [ "$name" = thread ]; then
        # The programs use std's channels, locks and Arcs. Uninstrumented, each looks like a race.
        if [ -n "${RUSTC_WITH_SRC:-}" ]; then
            export RUSTC=$RUSTC_WITH_SRC RUSTC_BOOTSTRAP=1
        elif [ ! -d "$sysroot/lib/rustlib/src/rust/library" ]; then
            skip "thread: std has to be built for it, and the nightly toolchain has no rust-src"
            return 0
        fi
        more=(-Zbuild-std)
        flags="--cfg turnwise_tsan"
        # A program ends with threads that have ended and were not joined.
        export TSAN_OPTIONS="report_thread_leaks=0 suppressions=$PWD/stress-tests/tsan-suppressions.txt"
    else
        # What is forgotten on purpose leaks; the ledger tells what must not.
        export ASAN_OPTIONS="detect_leaks=0"
    fi
    if ! binary=$(program "$name" "${more[@]}") || [ -z "$binary" ]; then
        echo "FAILED  $name: the program was not built"
        failed=1
        return 0
    fi
    # Frames are larger, and all is slower.
    "$binary" --seconds "$seconds" --stack 2048 --patience 30 "${arguments[@]}" || status=$?
    if [ "$status" -eq 0 ]; then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        failed=1
    fi
}

rung address asan
rung thread tsan
exit "$failed"
