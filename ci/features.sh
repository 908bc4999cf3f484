#!/usr/bin/env bash
# No feature, each by itself, and each pair, of each published crate, without a warning; and all
# targets without any.
#
#   ci/features.sh              all of them
#   ci/features.sh turnwise     the packages whose names contain the word
set -euo pipefail
source "$(dirname "$0")/common.sh"

# The names in the manifest's table of features.
features() {
    awk '/^\[/ { inside = $0 == "[features]"; next } inside && /^[a-z]/ && $1 != "default" { print $1 }' "$1"
}

checks=0
# check <package> [features]
check() {
    local said status=0
    # The warnings that it shows are those of the workspace's own packages.
    said=$(cargo check --locked --no-default-features --lib --bins -p "$1" --features "${2:-}" 2>&1) || status=$?
    if [ "$status" -ne 0 ] || grep -q '^warning' <<<"$said"; then
        echo "$said" >&2
        echo "error: $1 does not build without warnings with the features [${2:-}]" >&2
        exit 1
    fi
    checks=$((checks + 1))
}

cargo check --locked --all-targets
# As `cargo test -p turnwise` builds them. Beside other packages they have more features.
cargo check --locked -p turnwise --tests
for manifest in Cargo.toml crates/*/Cargo.toml; do
    package=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$manifest" | head -n 1)
    [[ $package == *"${1:-}"* ]] || continue
    mapfile -t names < <(features "$manifest")
    check "$package"
    for ((a = 0; a < ${#names[@]}; a++)); do
        check "$package" "${names[a]}"
        for ((b = a + 1; b < ${#names[@]}; b++)); do
            check "$package" "${names[a]} ${names[b]}"
        done
    done
    echo "$package: ${names[*]:-no features}"
done
echo "$checks sets of features"
[ "$checks" -gt 0 ]
