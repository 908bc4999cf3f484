#!/usr/bin/env bash
# What talks to a Redis server, or as one does. The tests start servers of their own.
#
#   ci/store.sh             both
#   ci/store.sh redis       one of: kv redis
set -euo pipefail
source "$(dirname "$0")/common.sh"

needs_redis() {
    local program
    for program in redis-server redis-cli redis-benchmark faketime; do
        need "$program" "redis-server, redis-tools and faketime"
    done
}

# The key-value server against redis, byte for byte; hostile clients.
kv() {
    needs_redis
    # A test that does not find the server fails.
    export KV_NEEDS_REDIS=1
    cargo test "${optimized[@]}" --no-fail-fast $(tests examples/kv)
    programs
    full "$target/release/kv" --help
    full "$target/release/kv"
}

# Locks and actors over a store: in memory, in a server, through faults; the programs, from a shell.
redis() {
    local run=$target/release
    needs_redis
    cargo test "${optimized[@]}" --no-fail-fast $(tests crates/turnwise-redis)
    cargo test --locked -p turnwise-redis --features sqlite,tls --doc
    programs
    fails 2 "$run/lock" --memory --wait soon a -- true
    full "$run/lock" --help
    "$run/raffle-cluster" | narrow
    fails 2 "$run/raffle-cluster" --kill 12
    full "$run/raffle-cluster" --memory --requests 20
    full "$run/raffle-cluster" --help
    full "$run/once" --help
    "$run/leaderboard" | narrow
    fails 2 "$run/leaderboard" --budget 0
    full "$run/leaderboard" --memory --requests 20
    fails 69 "$run/leaderboard" --file no/such/folder
    full "$run/leaderboard" --help
    full "$run/queue" --help
}

parts "kv redis" "$@"
