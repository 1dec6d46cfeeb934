#!/usr/bin/env bash
# Runs every loom model (tests/loom_*.rs of any crate) in a target folder of its own.
#
# LOOM_MAX_PREEMPTIONS bounds the search (default 3); each model has 300 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}-loom RUSTFLAGS="--cfg loom"
shopt -s nullglob
models=(crates/*/tests/loom_*.rs)
for model in "${models[@]}"; do
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${model%%/tests/*}/Cargo.toml" | head -n 1)
    timeout 300 cargo test --release --locked -p "$package" --test "$(basename "$model" .rs)"
done
echo "${#models[@]} loom models"
