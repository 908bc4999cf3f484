#!/usr/bin/env bash
# Locks and actors over a store: in memory, in a server, through faults; the programs, from a shell.
# The tests start servers of their own.
set -euo pipefail
source "$(dirname "$0")/common.sh"

run=$target/release status=0
for program in redis-server redis-cli faketime; do
    need "$program" "redis-server, redis-tools and faketime"
done

# Most of its tests wait, for leases and for servers that are slow or gone: many at once. Beside them
# run the searches, which compute, as far as they leave a processor free; all at once, as most of
# them use one processor at a time. Clients have fewer seeds, as little is optimized.
searches="--test client_search $(tests stress-tests/search)"
cargo test "${release[@]}" --no-run --test stores $searches
searched=$(mktemp -d)
trap 'rm -rf "$searched"' EXIT
pids=()
for search in ${searches//--test/}; do
    SEEDS=500 nice -n 19 cargo test "${release[@]}" --test "$search" >"$searched/$search" 2>&1 &
    pids+=($!)
done
RUST_TEST_THREADS=12 cargo test "${release[@]}" --test stores || status=$?
for pid in "${pids[@]}"; do
    wait "$pid" || status=$?
done
cat "$searched"/*
[ "$status" -eq 0 ]
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
