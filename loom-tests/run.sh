#!/bin/sh
# Runs the models: the canary, every model in every tree, the designs that must fail, the planted
# bugs.
#
#   loom-tests/run.sh                  all of them, at the bounds that src/models/mod.rs gives them;
#                                      in the narrow tree at one preemption, if executions.txt
#                                      has as many executions of the model there as in the real one
#   loom-tests/run.sh --quick          for while you work, seconds: every model in both trees with
#                                      two preemptions at most, without the round in which a failing
#                                      compare-and-swap is a plain load; and all planted bugs. It
#                                      finds nearly all that the full run finds, and a merge needs
#                                      the full run all the same
#   loom-tests/run.sh --check          compares the executions of each model with executions.txt; in
#                                      the quick mode, too
#   loom-tests/run.sh --bless          writes them there
#   loom-tests/run.sh [--quick] r8 room the models and planted bugs whose names contain one of these
#
# The last three lines count; the exit code is 0 only if all is well. A model is given up when it
# has used too much processor time: a loaded machine makes the run longer, never red.
set -eu
cd "$(dirname "$0")/.."
exec cargo test --quiet -p loom-tests --release --test models -- "$@"
