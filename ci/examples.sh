#!/usr/bin/env bash
# The example programs: their tests, their results, wrong arguments, output that cannot be written.
#
#   ci/examples.sh             all of them
#   ci/examples.sh raffle      one of: build small top wordcount pipeline contention raffle
#
# Those of the release profile are built together, which takes minutes the first time. The long ones
# are in ci/apps.sh.
set -euo pipefail
source "$(dirname "$0")/common.sh"

build() {
    programs
}

# Programs of one file check themselves; the bank counts its money.
small() {
    local example run said
    cargo build --locked "${executors[@]}" --examples
    for example in examples/*.rs; do
        run=$target/debug/examples/$(basename "$example" .rs)
        "$run"
        full "$run"
    done
    run=$target/debug/examples/bank
    said=$("$run" --transfers 20000 --rounds 2 --json)
    echo "$said"
    [ "$(grep -o '"sum_is_right":true' <<<"$said" | wc -l)" -eq 2 ]
    full "$run" --transfers 100 --rounds 1
    full "$run" --transfers 100 --rounds 1 --json
    full "$run" --help
}

# The table of live actors, as text: turnwise-top without a terminal.
top() {
    local run=$target/debug/turnwise-top said
    cargo test --locked -p turnwise-top --features program --no-fail-fast
    "$run" --demo --once
    full "$run" --demo --once
    full "$run" --demo --json
    full "$run" --help
    # A reader that has seen enough is no failure.
    said=$("$run" --demo --json --every 100 | head -n 2)
    [ "$(wc -l <<<"$said")" -eq 2 ]
    fails 69 env XDG_RUNTIME_DIR=/nowhere "$run" --once
}

# Counts the words of the sources in several ways, which must agree.
wordcount() {
    local run=$target/release/wordcount counted empty
    programs
    counted=$("$run" --json --repeat 1 src)
    echo "$counted"
    grep -q '"matches":true' <<<"$counted"
    # Without a folder it counts what cargo has downloaded, or made up texts.
    "$run" --repeat 1 | narrow
    "$run" --repeat 1 --limit 2 --generate | narrow
    CARGO_HOME=/nowhere "$run" --repeat 1 --limit 2 | grep -q "made up"
    full "$run" --json --repeat 1 src
    full "$run" --repeat 1 src
    full "$run" --help
    fails 2 "$run" no/such/path
    fails 2 "$run" --threads 0
    empty=$(mktemp -d)
    fails 1 "$run" "$empty"
    rmdir "$empty"
}

# All executors give the right result.
pipeline() {
    local run=$target/release/pipeline counted executor
    programs
    cargo test "${release[@]}" --test stages
    for executor in inline pool rayon threads; do
        counted=$("$run" --json --capacity 4 --executor "$executor" src)
        grep -q '"matches":true' <<<"$counted"
        counted=$("$target/release/wordcount" --json --repeat 1 --executor "$executor" src)
        grep -q '"matches":true' <<<"$counted"
    done
    full "$run" --json src
    full "$run" src
    full "$run" --help
    fails 1 "$run" no/such/path
    fails 2 "$run" --capacity 0
}

# A round of each load, too short for its figures to mean anything: whole lines of JSON, all keys,
# whole charts.
contention() {
    local run=$target/release/contention quick=(--quick --rounds 1 --trial-ms 1)
    local rows lines key pid status=0
    programs
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    rows=$(timeout 120 "$run" "${quick[@]}" --json --out "$out")
    head -n 1 <<<"$rows"
    # Each load has six subjects, twice.
    lines=$(wc -l <<<"$rows")
    [ "$lines" -ge 48 ]
    [ $((lines % 12)) -eq 0 ]
    for key in work handler_ns own_ns threads subject ns_per_op cpu_ns_per_op p50 p99 p999 max ratio; do
        [ "$(grep -cE "^\{.*\"$key\":(\"[a-z_-]+\"|[0-9.]+)[,}]" <<<"$rows")" -eq "$lines" ]
    done
    for key in throughput latency cpu; do
        grep -q '</svg>' "$out/$key.svg"
    done
    "$run" "${quick[@]}" --out "$out" | sed "s#$out/##" | narrow
    "$run" "${quick[@]}" --wide --out "$out" | tail -n 12
    # Interrupted, it prints what it has measured by then.
    rm "$out"/*.svg
    "$run" --quick --out "$out" >"$out/said" &
    pid=$!
    sleep 5
    kill -INT "$pid"
    wait "$pid" || status=$?
    [ "$status" -eq 130 ]
    grep '^INTERRUPTED: ' "$out/said"
    grep -q '</svg>' "$out/throughput.svg"
    full "$run" "${quick[@]}" --out "$out"
    full "$run" --help
    fails 1 "$run" --out /dev/null/charts
    fails 2 "$run" --slow
}

# First come, first served, exactly to the limit, whatever the numbers; the accident without a lock
# is seen.
raffle() {
    local run=$target/release/examples/raffle entrants seats accepted said status=0
    programs
    while read -r entrants seats accepted; do
        said=$("$run" --entrants "$entrants" --seats "$seats" --json)
        echo "$said"
        grep -q "\"accepted\":$accepted," <<<"$said"
        grep -q '"in_order":true' <<<"$said"
        grep -q '"unanswered":0' <<<"$said"
    done <<<"7 4 4
100 15 15
100 100 100
2400 100 100
3 5 3
5 0 0"
    said=$("$run" --entrants 100 --seats 100 --service 66.7ms --wait 5s --json)
    grep -qE '"accepted":(74|75|76),' <<<"$said"
    "$run" --seats 20 --duplicates 30 --fail-every 3 --panic-every 7
    "$run" --mutex
    "$run" --without-lock --entrants 500 || status=$?
    [ "$status" -eq 1 ]
    full "$run" --json
    full "$run"
    full "$run" --help
    fails 2 "$run" --wait 5
}

parts "build small top wordcount pipeline contention raffle" "$@"
