#!/usr/bin/env bash
# Admitted rows per second of the three modes, interleaved: the table of README.md. Needs wrk, curl.
#
#   ./bench.sh [rounds [seconds [folder [clients]]]]      3, 8, the target directory, 64
#   MODEL=3ms ./bench.sh                                  a MODEL of a slower disk: a sleep in each commit
#
# Each round starts each server afresh, on a new file, in an order that moves on by one. All
# applicants are distinct, and there are seats for all. The folder should be on a real disk: what is
# measured is mostly its sync, so that is measured, too, before each server (500 blocks of 4 KiB,
# written one after the other into a file, each synced: what a write-ahead log does). Figures are
# medians over the rounds.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../../../target}
rounds=${1:-3} seconds=${2:-8} folder=${3:-$target} clients=${4:-64}
modes=(turnwise mutex immediate) model=${MODEL:-0ms}

cargo build --release --locked --quiet
work=$(mktemp -d "$folder/bench.XXXXXX")
pid=
trap '[ -z "$pid" ] || kill "$pid"; rm -rf "$work"' EXIT

echo "on $(df --output=fstype "$work" | tail -n 1), $(nproc) processors, $clients clients," \
    "$rounds rounds of $seconds s"
[ "$model" = 0ms ] || echo "a MODEL of a slower disk: each commit sleeps $model besides its sync"

# Microseconds of a sync.
sync_time() {
    LC_ALL=C dd if=/dev/zero of="$work/sync" bs=4096 count=500 oflag=dsync conv="$1" 2>&1 |
        awk '/copied/ { for (n = 1; n < NF; n++) if ($(n + 1) ~ /^s,/) print $n / 500 * 1e6 }'
}

for ((round = 0; round < rounds; round++)); do
    for ((n = 0; n < ${#modes[@]}; n++)); do
        mode=${modes[$(((n + round) % ${#modes[@]}))]}
        rm -f "$work"/*
        # Into a file that grows, and over blocks that are there.
        growing=$(sync_time fsync) over=$(sync_time notrunc)
        "$target/release/raffle-server" --mode "$mode" --db "$work/raffle.db" --seats 100000000 \
            --wait 60s --port 0 --model-slower-sync "$model" >"$work/said" &
        pid=$!
        for _ in $(seq 200); do
            url=$(sed -n 's/.*listening on \([^,]*\),.*/\1/p' "$work/said")
            [ -z "$url" ] || break
            sleep 0.05
        done
        line=$(wrk -t1 -c"$clients" -d"${seconds}s" --timeout 60s -s bench.lua "$url" |
            grep '^raffle ')
        metrics=$(curl -s "$url/metrics")
        of() { awk -v name="raffle_$1" '$1 == name { print $2 }' <<<"$metrics"; }
        read -r _ requests refused broken took p50 p99 worst <<<"$line"
        [ "$refused" -eq 0 ] && [ "$broken" -eq 0 ] || echo "$mode: $refused refused, $broken broken" >&2
        # Ticks of the processor, user and system.
        cpu=$(awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$pid/stat")
        echo "$mode $requests $took $(of admitted) $(of commits_total) $p50 $p99 $worst $cpu" \
            "$growing $over" >>"$work.raw"
        kill -TERM "$pid"
        wait "$pid"
        pid=
    done
    echo "round $((round + 1)) of $rounds, load $(cut -d' ' -f1 /proc/loadavg)" >&2
done
mv "$work.raw" "$work/raw"

median() { sort -n | awk '{ all[NR] = $1 } END { print NR % 2 ? all[(NR + 1) / 2] : (all[NR / 2] + all[NR / 2 + 1]) / 2 }'; }
# of <mode> <expression over the columns>
of() { awk -v mode="$1" "\$1 == mode || mode == \"all\" { print $2 }" "$work/raw" | median; }
tick=$(getconf CLK_TCK)

printf 'a sync of a block, by itself: %.0f us into a growing file, %.0f us over blocks that are there\n\n' \
    "$(of all '$10')" "$(of all '$11')"
printf '| mode | admitted rows/s | time per row | rows per commit | commits/s | answered in: median | 99 %% | processor time per row | time per row to `mutex`, median (all rounds) |\n'
printf '|---|--:|--:|--:|--:|--:|--:|--:|--:|\n'
for mode in "${modes[@]}"; do
    # Rounds are interleaved, so each is compared with that of its own time.
    ratios=$(awk -v mode="$mode" '$1 == "mutex" { base[++m] = $3 / $2 } $1 == mode { own[++n] = $3 / $2 }
        END { for (k = 1; k <= n; k++) print own[k] / base[k] }' "$work/raw" | sort -n)
    ratio=$(median <<<"$ratios")
    printf '| `%s` | %.0f | %.0f us | %.1f | %.0f | %.1f ms | %.1f ms | %.0f us | %.3f (%.3f to %.3f) |\n' "$mode" \
        "$(of "$mode" '$2 / $3 * 1e6')" "$(of "$mode" '$3 / $2')" "$(of "$mode" '$4 / $5')" \
        "$(of "$mode" '$5 / $3 * 1e6')" "$(of "$mode" '$6 / 1000')" "$(of "$mode" '$7 / 1000')" \
        "$(of "$mode" "\$9 / $tick / \$4 * 1e6")" "$ratio" "$(head -n 1 <<<"$ratios")" \
        "$(tail -n 1 <<<"$ratios")"
done
