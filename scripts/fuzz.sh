#!/usr/bin/env bash
# Builds the fuzz targets (an excluded package) and runs each for SECONDS (default 60).
#
# On stable Rust: with coverage feedback (fuzz/.cargo/config.toml), without the sanitizers, which need
# a nightly compiler. The target is named so that build scripts are not instrumented.
# SEED chooses the inputs (0, a new seed each time, unless given). A short run on every change has a fixed
# one, so that its verdict depends on the change; what chance finds belongs to long runs.
# usage: [SEED=N] scripts/fuzz.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-60}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../target}-fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --quiet --target "$host"
for target in $(sed -n 's/^name = "\(.*\)"/\1/p' Cargo.toml | tail -n +2); do
    mkdir -p "corpus/$target" artifacts
    echo "fuzzing $target for $seconds s"
    "$CARGO_TARGET_DIR/$host/release/$target" "corpus/$target" -seed="${SEED:-0}" -max_total_time="$seconds" \
        -artifact_prefix=artifacts/ -verbosity=0 -print_final_stats=1
done
