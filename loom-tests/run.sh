#!/bin/sh
# Runs the models: the canary, every model in every tree, the designs that must fail, the planted bugs.
# Parts of names as arguments choose some. The last line counts; the exit code is 0 only if all is well.
set -eu
cd "$(dirname "$0")/.."
exec cargo test --quiet -p loom-tests --release --test models -- "$@"
