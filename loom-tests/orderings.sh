#!/bin/sh
# Weakens every memory ordering of the product by itself and demands that a model notices;
# reasons.txt says why some cannot be noticed.
set -eu
cd "$(dirname "$0")/.."
exec cargo test --quiet -p loom-tests --release --test models -- orderings
