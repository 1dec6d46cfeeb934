#!/usr/bin/env bash
# Runs every shuttle test (tests/shuttle_*.rs of any crate) in a target folder of its own.
#
# SCHEDULES is the number of random schedules of each test (default: the test's own).
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}-shuttle RUSTFLAGS="--cfg shuttle"
shopt -s nullglob
tests=(crates/*/tests/shuttle_*.rs)
for test in "${tests[@]}"; do
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${test%%/tests/*}/Cargo.toml" | head -n 1)
    timeout 600 cargo test --release --locked -p "$package" --test "$(basename "$test" .rs)"
done
echo "${#tests[@]} shuttle tests"
