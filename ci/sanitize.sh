#!/usr/bin/env bash
# Stress programs under ThreadSanitizer, AddressSanitizer, LeakSanitizer and Miri. Each must first
# report a planted bug. Needs a nightly toolchain; what cannot run without one is said and is no
# failure.
#
#   ci/sanitize.sh               those of the mailbox and its surroundings
#   ci/sanitize.sh hostile 600   random hostile programs instead, for that many seconds each
set -euo pipefail
source "$(dirname "$0")/common.sh"

# They build offline.
cargo fetch --locked
case ${1:-} in
'') stress-tests/sanitizers.sh ;;
hostile) fuzz/sanitize.sh all "${2:-30}" ;;
*)
    echo "usage: $0 [hostile [SECONDS]]" >&2
    exit 2
    ;;
esac
