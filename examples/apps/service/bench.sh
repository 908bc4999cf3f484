#!/usr/bin/env bash
# The five backends under load, interleaved: the tables of README.md. Needs wrk, curl.
#
#   ./bench.sh [rounds [seconds [clients]]]      5, 5, 64
#   ONLY="turnwise mutex" ./bench.sh             some of them
#
# Two profiles: `spread` has 10,000 sessions and 10 us of work for a change, `hot` has 200 and 40 us,
# and a quarter of all requests are for one of them. Both draw by Zipf's law (bench.lua), and miss the
# cache now and then, which takes a millisecond. Each round starts each server afresh, in an order
# that moves on by one, and warms it up for two seconds. Figures are medians over the rounds.
set -euo pipefail
cd "$(dirname "$0")"
rounds=${1:-5} seconds=${2:-5} clients=${3:-64} idle=20000
read -ra backends <<<"${ONLY:-turnwise mutex mpsc kameo ractor}"
profiles=(spread hot)

cargo build --release --locked --quiet
program=${CARGO_TARGET_DIR:-../../../target}/release/service
raw=$(mktemp)
pid=
trap '[ -z "$pid" ] || kill "$pid"; rm -f "$raw" "$raw.said"' EXIT
echo "$(nproc) processors, $clients clients, $rounds rounds of $seconds s"

# start <arguments...>: a server at $url.
start() {
    "$program" --port 0 "$@" >"$raw.said" &
    pid=$!
    for _ in $(seq 200); do
        url=$(sed -n 's/.*listening on \([^,]*\),.*/\1/p' "$raw.said")
        [ -z "$url" ] || break
        sleep 0.05
    done
}
stop() {
    kill -TERM "$pid"
    wait "$pid"
    pid=
}
# KiB: what is resident, and what was at most.
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; }
peak() { awk '/^VmHWM/ { print $2 }' "/proc/$pid/status"; }
# Ticks of the processor, user and system.
cpu() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$pid/stat"; }
load() { wrk -t1 -c"$clients" -d"$1s" --timeout 30s -s bench.lua "$url" | grep '^service '; }

for ((round = 0; round < rounds; round++)); do
    for ((n = 0; n < ${#backends[@]}; n++)); do
        with=${backends[$(((n + round) % ${#backends[@]}))]}
        for profile in "${profiles[@]}"; do
            case $profile in
                spread) export SESSIONS=10000 SKEW=0.99 && work=500 ;;
                hot) export SESSIONS=200 SKEW=1.2 && work=2000 ;;
            esac
            start --with "$with" --work "$work"
            load 2 >/dev/null
            before=$(cpu)
            read -r _ requests refused broken took p50 p99 p999 longest < <(load "$seconds")
            [ "$broken" -eq 0 ] || echo "$with: $broken broken" >&2
            echo "$profile $with $requests $took $p50 $p99 $p999 $longest $(($(cpu) - before))" \
                "$(peak) $refused" >>"$raw"
            stop
        done
        # As many idle sessions as may be: more are refused.
        start --with "$with" --work 0 --sessions "$idle" --idle 10m
        SESSIONS=1 load 1 >/dev/null
        before=$(rss)
        until [ "$(curl -s "$url/metrics" | awk '$1 == "service_sessions" { print $2 }')" -eq "$idle" ]; do
            IN_A_ROW=1 load 1 >/dev/null
        done
        echo "idle $with $((($(rss) - before) * 1024 / idle))" >>"$raw"
        stop
    done
    echo "round $((round + 1)) of $rounds, load $(cut -d' ' -f1 /proc/loadavg)" >&2
done

median() { sort -n | awk '{ all[NR] = $1 } END { print NR % 2 ? all[(NR + 1) / 2] : (all[NR / 2] + all[NR / 2 + 1]) / 2 }'; }
# column <profile> <backend> <expression over the columns>: of all rounds.
column() { awk -v profile="$1" -v with="$2" "\$1 == profile && \$2 == with { print $3 }" "$raw"; }
of() { column "$@" | median; }
tick=$(getconf CLK_TCK)

for profile in "${profiles[@]}"; do
    printf '\n| %s | requests/s | median | 99 %% | 99.9 %% | longest (all rounds) | processor time per request | peak RSS |\n' "$profile"
    printf '|---|--:|--:|--:|--:|--:|--:|--:|\n'
    for with in "${backends[@]}"; do
        printf '| `%s` | %.0f | %.2f ms | %.2f ms | %.2f ms | %.1f ms (%.1f to %.1f) | %.0f us | %.1f MiB |\n' "$with" \
            "$(of "$profile" "$with" '$3 / $4 * 1e6')" "$(of "$profile" "$with" '$5 / 1e3')" \
            "$(of "$profile" "$with" '$6 / 1e3')" "$(of "$profile" "$with" '$7 / 1e3')" \
            "$(of "$profile" "$with" '$8 / 1e3')" \
            "$(column "$profile" "$with" '$8 / 1e3' | sort -n | head -n 1)" \
            "$(column "$profile" "$with" '$8 / 1e3' | sort -n | tail -n 1)" \
            "$(of "$profile" "$with" "\$9 / $tick / \$3 * 1e6")" "$(of "$profile" "$with" '$10 / 1024')"
    done
done
printf '\n| | bytes of an idle session | lines of its own |\n|---|--:|--:|\n'
for with in "${backends[@]}"; do
    printf '| `%s` | %.0f | %d |\n' "$with" "$(of idle "$with" '$3')" \
        "$(grep -cvE '^\s*(//|$)' "src/backend/$with.rs")"
done
