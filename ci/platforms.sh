#!/usr/bin/env bash
# Builds turnwise and turnwise-locks for aarch64 Linux and for s390x Linux, whose bytes are in the
# other order, and runs tests there, in qemu.
#
#   ci/platforms.sh          aarch64: unit tests and the search over the transitions of a turn;
#                            s390x: stress programs, which take little to compile
#   ci/platforms.sh full     on both: unit tests; the searches over transitions, of which that of the
#                            locks takes minutes in qemu; and tests of behaviour, which take minutes
#                            to compile; those modules that start no program of their own and
#                            measure no time
#
# qemu runs code of either on the memory order of this machine. It shows what does not build, or is
# wrong with other instructions or another order of bytes, and no reordering: that rests on the
# models.
#
# Needs the standard library for the targets (`rustup target add aarch64-unknown-linux-gnu
# s390x-unknown-linux-gnu`, or a compiler with them in RUSTC), linkers and qemu.
set -euo pipefail
source "$(dirname "$0")/common.sh"

# on <machine> <arguments>: `cargo test` for it.
on() {
    local machine=$1 triple=$1-unknown-linux-gnu linux=$1-linux-gnu variable
    shift
    need "$linux-gcc" "gcc-$linux and libc6-dev-${machine/aarch64/arm64}-cross"
    need "qemu-$machine" qemu-user
    if [ ! -d "$("${RUSTC:-rustc}" --print target-libdir --target "$triple")" ]; then
        echo "$0: the standard library is not installed: rustup target add $triple" >&2
        exit 1
    fi
    variable=${triple^^}
    variable=CARGO_TARGET_${variable//-/_}
    env "${variable}_LINKER=$linux-gcc" "${variable}_RUNNER=qemu-$machine -L /usr/$linux" \
        cargo test --locked --target "$triple" --no-fail-fast "$@"
}

export CARGO_TARGET_DIR=$target/platforms
packages=(-p turnwise -p turnwise-locks)
searches=(--test turn_search --test machine_search)
behaviour=(order:: messages:: questions:: one_at_a_time:: nesting:: full_mailbox:: promises::
    handles:: recipients:: close:: capacity:: panics:: executors:: release_edge:: locks:: rw:: semaphore:: latch::)
case ${1:-} in
'')
    on aarch64 "${packages[@]}" --lib --test turn_search
    on s390x -p paused --test san -- shipped
    ;;
full)
    for machine in aarch64 s390x; do
        on "$machine" "${packages[@]}" --lib "${searches[@]}"
        on "$machine" "${packages[@]}" --test it -- "${behaviour[@]}"
    done
    ;;
*)
    echo "usage: $0 [full]" >&2
    exit 2
    ;;
esac
