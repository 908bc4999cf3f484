#!/usr/bin/env bash
# Weakens each memory ordering by itself: a model must fail, or loom-tests/reasons.txt says why none
# can.
set -euo pipefail
source "$(dirname "$0")/common.sh"

CARGO_PROFILE_RELEASE_DEBUG=false loom-tests/orderings.sh
