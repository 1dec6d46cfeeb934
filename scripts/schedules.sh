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
seconds=3600
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}-$checker RUSTFLAGS="--cfg $checker"
# One choice of packages for all, so that what they share is built once.
mapfile -t chosen < <(scripts/scheduled-tests.sh "$checker")
[ "${#chosen[@]}" -gt 0 ] || { echo "no test by $checker"; exit 1; }
run=(cargo test --release --locked "${chosen[@]}")
"${run[@]}" --no-run
timeout "$seconds" "${run[@]}"
echo "$(printf '%s\n' "${chosen[@]}" | grep -cx -e --test) tests by $checker"
