#!/usr/bin/env bash
# What users get: the public items of each published crate, and its package.
#
#   ci/semver.sh            both
#   ci/semver.sh api        one of: api publish
set -euo pipefail
source "$(dirname "$0")/common.sh"

# The public items are those that docs/public-api.txt of each package lists. After a change that is
# meant: BLESS=1 cargo test --all-features --test sources
api() {
    cargo test --locked --test sources public_api
}

# A dry run: each package has its licenses, and builds from its own files. What they depend on is
# fetched first, so that no build depends on a connection. cargo knows a package that it has
# unpacked by its version alone, so what an earlier run unpacked of these packages is removed:
# otherwise a package builds against an older state of another.
publish() {
    local package file files published=()
    export CARGO_NET_RETRY=10
    cargo fetch --locked
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/turnwise*
    for package in turnwise turnwise-locks turnwise-redis turnwise-top; do
        published+=(-p "$package")
        files=$(cargo package --locked --allow-dirty --list -p "$package")
        for file in Cargo.toml README.md LICENSE-APACHE LICENSE-MIT src/lib.rs; do
            if ! grep -qx "$file" <<<"$files"; then
                echo "error: the package $package has no $file" >&2
                exit 1
            fi
        done
    done
    cargo package --locked --offline --allow-dirty "${published[@]}"
    cargo publish --locked --allow-dirty --dry-run --no-verify "${published[@]}"
}

parts "api publish" "$@"
