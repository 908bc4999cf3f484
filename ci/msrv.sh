#!/usr/bin/env bash
# Checks and tests turnwise and turnwise-locks with the oldest compiler that they declare.
#
#   ci/msrv.sh          checks all targets; runs the unit tests and two searches over transitions
#   ci/msrv.sh full     runs all tests; those of behaviour take minutes to compile
#
# Takes the toolchain of rustup (`rustup toolchain install 1.85`), else the compiler that RUSTC_1_85
# names.
set -euo pipefail
source "$(dirname "$0")/common.sh"

version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
variable=RUSTC_${version//./_}
if rustup toolchain list 2>/dev/null | grep -q "^$version"; then
    cargo=(cargo "+$version")
    # What the environment names is not that toolchain's.
    unset RUSTC
    "${cargo[@]}" --version
elif [ -n "${!variable:-}" ]; then
    cargo=(cargo)
    export RUSTC=${!variable}
    "$RUSTC" --version
else
    echo "$0: Rust $version is not installed: rustup toolchain install $version, or set $variable" >&2
    exit 1
fi

export CARGO_TARGET_DIR=$target/msrv
packages=(--locked -p turnwise -p turnwise-locks)
searches=(--test turn_search --test machine_search)
"${cargo[@]}" check "${packages[@]}" --all-targets --all-features
case ${1:-} in
'') "${cargo[@]}" test "${packages[@]}" --no-fail-fast --lib "${searches[@]}" ;;
full) "${cargo[@]}" test "${packages[@]}" --no-fail-fast --lib --tests --all-features ;;
*)
    echo "usage: $0 [full]" >&2
    exit 2
    ;;
esac
