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
loom | shuttle) ;;
*) echo "usage: schedules.sh loom|shuttle"; exit 2 ;;
esac
# It only ends a hang: a busy machine is many times slower than an idle one.
seconds=1200
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}-$checker RUSTFLAGS="--cfg $checker"
shopt -s nullglob
tests=(crates/*/tests/"$checker"_*.rs)
for test in "${tests[@]}"; do
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${test%%/tests/*}/Cargo.toml" | head -n 1)
    run=(cargo test --release --locked -p "$package" --test "$(basename "$test" .rs)")
    "${run[@]}" --no-run
    timeout "$seconds" "${run[@]}"
done
echo "${#tests[@]} tests by $checker"
