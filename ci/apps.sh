#!/usr/bin/env bash
# The programs of examples/apps that are services or large, with their tests, their results, wrong
# arguments and output that cannot be written. They are a job of their own: .ci/run only lints them.
#
#   ci/apps.sh             all of them
#   ci/apps.sh boxes       one of: boxes linkcheck raffle-server service migration kv
#
# They are built together, which takes minutes the first time. The raffle server builds SQLite and
# needs a C compiler; `kv` is compared with a Redis server.
set -euo pipefail
source "$(dirname "$0")/common.sh"

build() {
    cargo build "${apps[@]}" --bins
}

# 200 commands in numbered folders, of which some crash and some hang: no folder is shared, none is
# left dirty, and the exit code says what failed.
boxes() {
    local said status=0
    cargo test "${apps[@]}" --no-fail-fast $(tests examples/apps/boxes)
    build
    said=$("$target/release/boxes" --json --lease 2s examples/apps/boxes/jobs.txt) || status=$?
    echo "$said" | tail -n 3
    [ "$status" -eq 1 ]
    grep -q '"shared":0' <<<"$said"
    grep -q '"dirty":0' <<<"$said"
}

# Dead links are found in seven ways, with the same result; planted ones are found; a seed prints the
# same twice.
linkcheck() {
    local run=$target/release/linkcheck said status=0
    cargo test "${apps[@]}" --no-fail-fast $(tests examples/apps/linkcheck)
    build
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    mkdir "$folder/a" "$folder/b"
    echo '<h1 id=top><a href=../b/#one>b</a><a href=https://example.com/>not asked</a>' >"$folder/a/index.html"
    echo '<h1 id=one><a href=../a>a</a>' >"$folder/b/index.html"
    said=$("$run" "$folder")
    narrow <<<"$said"
    said=$("$run" "$folder" --plant 5 --errors 50) || status=$?
    [ "$status" -eq 1 ]
    narrow <<<"$said"
    said=$("$run" "$folder" --simulate --plant 5 --json) || true
    echo "$said"
    grep -q '"planted_found":5' <<<"$said"
    cmp <("$run" "$folder" --simulate --errors 50 --seed 7) <("$run" "$folder" --simulate --errors 50 --seed 7)
    # Where ci/lint.sh has written the documentation, it is crawled.
    if [ -d "$target/doc" ]; then
        status=0
        "$run" "$target/doc" --delay 0ms --json >"$folder/said" || status=$?
        [ "$status" -le 1 ]
        cut -c 1-400 "$folder/said"
        grep -q '"adds_up":true' "$folder/said"
        grep -q '"at_once":1,' "$folder/said"
    fi
    full "$run" "$folder"
    full "$run" "$folder" --simulate --json
    full "$run" --help
    fails 2 "$run" no/such/path
    fails 2 "$run" Cargo.toml
    fails 2 "$run" "$folder" --hosts 0
    fails 2 "$run" "$folder" --limit 0s
}

# The answers that applicants get, fifty times kill -9, the end, the errors of its start.
raffle-server() {
    KILLS=50 cargo test "${apps[@]}" --no-fail-fast $(tests examples/apps/raffle-server)
    build
    full "$target/release/raffle-server" --help
}

# The same answers, bounds and end with each of five backends.
service() {
    cargo test "${apps[@]}" --no-fail-fast $(tests examples/apps/service)
    build
    full "$target/release/service" --help
}

# One service with five libraries of actors: the same answers, and the differences that the guide
# names.
migration() {
    local run=$target/release/migration said
    cargo test "${apps[@]}" --no-fail-fast $(tests examples/apps/migration)
    build
    said=$("$run")
    narrow <<<"$said"
    full "$run"
    full "$run" --help
    fails 2 "$run" --json
}

# The key-value server against redis, byte for byte; hostile clients.
kv() {
    local program
    for program in redis-server redis-benchmark; do
        need "$program" "redis-server and redis-tools"
    done
    # A test that does not find the server fails.
    export KV_NEEDS_REDIS=1
    cargo test "${apps[@]}" --no-fail-fast $(tests examples/apps/kv)
    build
    full "$target/release/kv" --help
    full "$target/release/kv"
}

parts "boxes linkcheck raffle-server service migration kv" "$@"
