#!/usr/bin/env bash
# Counts the instructions of the hot paths under callgrind and compares them with counts.txt.
#
#   benches/instructions/gate.sh                    fails if a path takes over 2 % more than it says
#                                                   there, or is not in both
#   benches/instructions/gate.sh --bless            writes counts.txt
#   benches/instructions/gate.sh --plain [--bless]  the same with counts-plain.txt
#
# counts.txt is of the profile `lto` (link-time optimization, one codegen unit). counts-plain.txt is
# of the profile `release` (neither of them), with which most programs are built.
#
# The counts are those of one compiler and one C library (its allocator is in some paths). With
# others the comparison is printed and fails nothing. Nothing else moves them: no path reaches a
# string function of the C library, which come in one variant per processor, and the runner clears
# the environment and switches address randomization off. Needs Linux and valgrind, and builds the
# runner into the target directory.
set -euo pipefail
cd "$(dirname "$0")/../.."

plain='' bless=''
for option in "$@"; do
    case $option in
    --plain) plain=-plain ;;
    --bless) bless=yes ;;
    *)
        echo "usage: $0 [--plain] [--bless]" >&2
        exit 2
        ;;
    esac
done

profile=lto
if [ "$plain" ]; then profile=release; fi
counts=benches/instructions/counts$plain.txt
if [ ! "$bless" ] && [ ! -e "$counts" ]; then
    echo "there is no $counts yet: --bless writes it" >&2
    exit 2
fi
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)

if ! command -v valgrind >/dev/null; then
    echo "$0: valgrind is not installed; Debian has it in valgrind and libc6-dbg" >&2
    exit 1
fi
version=$(sed -n 's/^gungraun = "=\(.*\)"$/\1/p' benches/instructions/Cargo.toml)
# Which version is installed is the name of a directory: a new one is built beside it.
runner=$target/tools/gungraun-runner-$version/bin/gungraun-runner
if [ ! -x "$runner" ]; then
    # It starts valgrind and reads what that says: that it is slow costs nothing.
    cargo install --locked --quiet --debug --root "${runner%/bin/*}" --version "=$version" gungraun-runner
fi

# What an earlier run left would be taken for counts of this one.
results=$target/instructions$plain
rm -rf "$results"
log=$(GUNGRAUN_RUNNER=$runner GUNGRAUN_HOME=$results cargo bench --locked --quiet \
    --profile "$profile" -p instructions --bench paths -- --nosummary=true 2>&1) || {
    echo "$log"
    exit 1
}

now=$(
    echo "# Instructions of each path, gone 1000 times: see paths.rs. Written by gate.sh${plain:+ --plain} --bless."
    echo "# $(rustc --version), $(uname -m), $(getconf GNU_LIBC_VERSION)"
    # callgrind.<path>.out, or one file for each thread: callgrind.<path>.t1.p1.out.
    find "$results" -name 'callgrind.*.out' -exec awk '
        /^totals:/ {
            path = FILENAME
            sub(/.*\/callgrind\./, "", path)
            sub(/(\.t[0-9]+\.p[0-9]+)?\.out$/, "", path)
            sum[path] += $2
        }
        # None at all: the function that is counted has another name than paths.rs says.
        END { for (path in sum) if (sum[path]) printf "%-28s %12d\n", path, sum[path] }
    ' {} + | LC_ALL=C sort
)
if [ "$bless" ]; then
    echo "$now" >"$counts"
    cat "$counts"
    exit 0
fi

awk '
    /^#/ { toolchain[FILENAME] = $0; next }
    FILENAME == ARGV[1] { old[$1] = $2; next }
    { new[$1] = $2; order[++paths] = $1 }
    END {
        same = toolchain[ARGV[1]] == toolchain[ARGV[2]]
        printf "%-28s %12s %12s %9s\n", "path, 1000 times", "written", "now", "change"
        for (i = 1; i <= paths; i++) {
            path = order[i]
            if (!(path in old)) { printf "%-28s %12s %12d %9s  NOT WRITTEN\n", path, "-", new[path], "-"; up++; continue }
            change = 100 * (new[path] - old[path]) / old[path]
            word = ""
            if (change > 2) { word = "  MORE"; up++ }
            if (change < -2) { word = "  less"; down++ }
            printf "%-28s %12d %12d %+8.2f%%%s\n", path, old[path], new[path], change, word
        }
        for (path in old) if (!(path in new)) { printf "%-28s %12d %12s %9s  NOT COUNTED\n", path, old[path], "-", "-"; up++ }
        if (!same) {
            print "written with:" substr(toolchain[ARGV[1]], 2)
            print "counted with:" substr(toolchain[ARGV[2]], 2)
            print "numbers of another compiler or C library: nothing is failed"
            exit 0
        }
        if (down) print down " of " paths " take over 2 % less than is written: refresh it (gate.sh --bless)"
        if (up) print up " of " paths " take over 2 % more than is written, or are not in both"
        else print paths " paths counted, none takes over 2 % more"
        exit up > 0 || paths == 0
    }
' "$counts" <(echo "$now")
