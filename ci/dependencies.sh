#!/usr/bin/env bash
# The dependencies: their licenses and sources, and whether the oldest versions that the published
# crates declare are enough for them.
#
#   ci/dependencies.sh            both
#   ci/dependencies.sh minimal    one of: deny minimal
#
# `deny` needs cargo-deny (`cargo install --locked cargo-deny`).
set -euo pipefail
source "$(dirname "$0")/common.sh"

deny() {
    if ! command -v cargo-deny >/dev/null; then
        echo "$0: cargo-deny is not installed: cargo install --locked cargo-deny" >&2
        exit 1
    fi
    cargo deny --locked --workspace check bans licenses sources
}

# In a copy of the published crates alone, without dependencies of tests.
minimal() {
    local manifest
    mkdir -p "$target"
    export CARGO_TARGET_DIR
    CARGO_TARGET_DIR=$(cd "$target" && pwd)/minimal
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    git ls-files -z Cargo.toml src docs examples crates '*.md' | xargs -0 cp --parents --target-directory "$copy"
    cd "$copy"
    for manifest in Cargo.toml crates/*/Cargo.toml; do
        awk '/^\[/ { drop = /dev-dependencies|^\[\[(test|bench)\]\]|^\[profile/ } !drop' "$manifest" >manifest
        mv manifest "$manifest"
    done
    sed -i -e '/^members = \[/,/^\]/c members = ["crates/*"]' -e '/^default-members = /d' Cargo.toml
    # The option is not stable yet; nothing is compiled with it.
    RUSTC_BOOTSTRAP=1 cargo update -Zdirect-minimal-versions
    cargo check --locked -p turnwise -p turnwise-locks -p turnwise-redis -p turnwise-top --all-features
}

parts "deny minimal" "$@"
