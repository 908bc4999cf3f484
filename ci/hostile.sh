#!/usr/bin/env bash
# Random safe programs over the public face, in which all user code may misbehave.
#
#   ci/hostile.sh                               the same programs each time, a minute
#   ci/hostile.sh --hours 8 --state FOLDER      others; `--help` prints all options
set -euo pipefail
source "$(dirname "$0")/common.sh"

programs
if [ $# -gt 0 ]; then
    exec "$target/release/hostile" "$@"
fi
"$target/release/hostile" --seed 1 --programs 400
"$target/release/hostile" --spin --seed 1 --programs 60
