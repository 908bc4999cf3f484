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

# The quick start over each store, twice where it is kept.
quickstart=$run/examples/quickstart
redis-server --port 0 --unixsocket "$searched/socket" --save '' --dir "$searched" >/dev/null &
server=$!
trap 'kill "$server"; rm -rf "$searched"' EXIT
until redis-cli -s "$searched/socket" ping 2>&1 | grep -q PONG; do
    kill -0 "$server"
    sleep 0.1
done
[ "$("$quickstart")" = "total: 5" ]
for store in "$searched/file" "unix://$searched/socket"; do
    [ "$("$quickstart" "$store")" = "total: 5" ]
    [ "$("$quickstart" "$store")" = "total: 10" ]
done
fails 1 "$quickstart" no/such/folder/file
fails 1 "$quickstart" redis://127.0.0.1:1/
fails 1 "$quickstart" http://127.0.0.1/

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
