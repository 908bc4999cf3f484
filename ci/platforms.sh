#!/usr/bin/env bash
# Builds turnwise and turnwise-locks for aarch64 Linux and runs tests there, in qemu.
#
#   ci/platforms.sh          the unit tests and two searches over transitions
#   ci/platforms.sh full     also tests of behaviour, which take minutes to compile; those modules
#                            that start no program of their own and measure no time
#
# qemu runs aarch64 code on the memory order of this machine. It shows what does not build, or is
# wrong with other instructions, and no reordering: that rests on the models.
#
# Needs the standard library for the target (`rustup target add aarch64-unknown-linux-gnu`, or a
# compiler with it in RUSTC), a linker and qemu.
set -euo pipefail
source "$(dirname "$0")/common.sh"

triple=aarch64-unknown-linux-gnu
need aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"
need qemu-aarch64 qemu-user
if [ ! -d "$("${RUSTC:-rustc}" --print target-libdir --target "$triple")" ]; then
    echo "$0: the standard library is not installed: rustup target add $triple" >&2
    exit 1
fi

export CARGO_TARGET_DIR=$target/platforms
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
packages=(--locked --target "$triple" -p turnwise -p turnwise-locks)
searches=(--test turn_search --test machine_search)
behaviour=(order:: messages:: questions:: one_at_a_time:: nesting:: full_mailbox:: promises::
    handles:: recipients:: close:: capacity:: panics:: executors:: release_edge:: locks:: rw:: semaphore:: latch::)
case ${1:-} in
'') cargo test "${packages[@]}" --no-fail-fast --lib "${searches[@]}" ;;
full)
    cargo test "${packages[@]}" --no-fail-fast --lib "${searches[@]}"
    cargo test "${packages[@]}" --no-fail-fast --test it -- "${behaviour[@]}"
    ;;
*)
    echo "usage: $0 [full]" >&2
    exit 2
    ;;
esac
