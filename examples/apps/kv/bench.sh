#!/usr/bin/env bash
# redis-benchmark on this server with each of its tables, and on redis-server, interleaved: the table
# of README.md. Needs redis-server and redis-tools.
#
#   ./bench.sh [rounds [requests with -P 1 [requests with -P 64]]]      5, 50000, 1000000
#
# Each round starts each server afresh, in an order that moves on by one. The processor time is the
# server's own, user and system, and the figures are medians over the rounds.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../../../target}
rounds=${1:-5} single=${2:-50000} piped=${3:-1000000}
servers=(actors dashmap sharded mutex redis)
tests=(set get incr)

cargo build --release --locked --quiet
raw=$(mktemp) said=$(mktemp) pid=
trap '[ -z "$pid" ] || kill "$pid"; rm -f "$raw" "$said"' EXIT
tick=$(getconf CLK_TCK)

# Ticks of the processor that the server has used.
used() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$pid/stat"; }

# start <server>: sets pid and port.
start() {
    if [ "$1" = redis ]; then
        port=$((20000 + RANDOM % 10000))
        redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no >"$said" &
        pid=$!
    else
        : >"$said"
        "$target/release/kv" --keys "$1" --quiet >"$said" &
        pid=$!
        for _ in $(seq 100); do
            port=$(sed -n 's/.*listening on [^:]*:\([0-9]*\),.*/\1/p' "$said")
            [ -z "$port" ] || break
            sleep 0.05
        done
    fi
    for _ in $(seq 100); do
        [ "$(redis-cli -p "$port" ping 2>/dev/null)" != PONG ] || return 0
        sleep 0.05
    done
    echo "$1 does not answer" >&2
    return 1
}

for ((round = 0; round < rounds; round++)); do
    for ((n = 0; n < ${#servers[@]}; n++)); do
        server=${servers[$(((n + round) % ${#servers[@]}))]}
        start "$server"
        for pipeline in 1 64; do
            requests=$single
            [ $pipeline -eq 1 ] || requests=$piped
            for keys in 1 100000; do
                random=()
                [ $keys -eq 1 ] || random=(-r "$keys")
                for test in "${tests[@]}"; do
                    before=$(used)
                    figures=$(redis-benchmark -p "$port" -t "$test" -n "$requests" -P $pipeline \
                        "${random[@]}" --csv 2>/dev/null | tail -n 1 | tr -d '"')
                    cpu=$(($(used) - before))
                    awk -F, -v what="$server $test $pipeline $keys" -v cpu=$cpu -v tick="$tick" \
                        -v requests="$requests" \
                        '{ print what, $2, cpu / tick / requests * 1e9, $7 }' <<<"$figures" >>"$raw"
                done
            done
        done
        kill -INT "$pid"
        wait "$pid" 2>/dev/null || true
        pid=
    done
    echo "round $((round + 1)) of $rounds, load $(cut -d' ' -f1 /proc/loadavg)" >&2
done

median() { sort -n | awk '{ all[NR] = $1 } END { print NR % 2 ? all[(NR + 1) / 2] : (all[NR / 2] + all[NR / 2 + 1]) / 2 }'; }
# of <server> <test> <pipeline> <keys> <column>
of() { awk -v s="$1" -v t="$2" -v p="$3" -v k="$4" -v c="$5" '$1 == s && $2 == t && $3 == p && $4 == k { print $c }' "$raw" | median; }

for column in 5 6; do
    [ $column -eq 5 ] && printf '\nthousand requests per second\n\n' || printf '\nprocessor time of the server, ns per request\n\n'
    printf '| work | actors | dashmap | sharded | mutex | redis-server | actors to the best of our locks |\n'
    printf '|---|--:|--:|--:|--:|--:|--:|\n'
    for pipeline in 1 64; do
        for keys in 1 100000; do
            for test in "${tests[@]}"; do
                row=()
                for server in "${servers[@]}"; do row+=("$(of "$server" "$test" $pipeline $keys $column)"); done
                awk -v what="\`$test\`, \`-P $pipeline\`, $keys key$([ $keys -eq 1 ] || echo s)" -v column=$column -v row="${row[*]}" 'BEGIN {
                    split(row, all, " ")
                    best = all[2]
                    for (n = 3; n <= 4; n++) if (column == 5 ? all[n] > best : all[n] < best) best = all[n]
                    unit = column == 5 ? 1000 : 1
                    printf "| %s |", what
                    for (n = 1; n <= 5; n++) printf " %.0f |", all[n] / unit
                    ratio = all[1] / best
                    lost = column == 5 ? ratio < 1 : ratio > 1
                    printf lost ? " **%.2f** |\n" : " %.2f |\n", ratio
                }'
            done
        done
    done
done
