#!/usr/bin/env bash
# Runs every test whose threads a checker schedules: schedules.sh loom|shuttle
#
# loom explores all schedules of the models tests/loom_*.rs up to LOOM_MAX_PREEMPTIONS (default 3),
# shuttle draws SCHEDULES random ones (default: the test's own) of tests/shuttle_*.rs, of any crate.
# Each checker has a target folder of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

checker=${1:-}
case $checker in
loom) seconds=300 ;;
shuttle) seconds=600 ;;
*) echo "usage: schedules.sh loom|shuttle"; exit 2 ;;
esac
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}-$checker RUSTFLAGS="--cfg $checker"
shopt -s nullglob
tests=(crates/*/tests/"$checker"_*.rs)
for test in "${tests[@]}"; do
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${test%%/tests/*}/Cargo.toml" | head -n 1)
    timeout "$seconds" cargo test --release --locked -p "$package" --test "$(basename "$test" .rs)"
done
echo "${#tests[@]} tests by $checker"
