#!/usr/bin/env bash
# Each feature by itself, and all targets without any.
set -euo pipefail
source "$(dirname "$0")/common.sh"

cargo check --locked --all-targets
for feature in rayon tokio tracing; do
    cargo check --locked --features "$feature"
    cargo check --locked -p turnwise-locks --features "$feature"
done
