#!/usr/bin/env bash
# Prints cargo's arguments that choose every test of a checker of schedules, one per line:
# scheduled-tests.sh loom|shuttle
#
# The scripts that build them choose alike, since other packages mean other features and another build.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
for test in crates/*/tests/"$1"_*.rs; do
    sed -n 's/^name = "\(.*\)"/-p\n\1/p' "${test%%/tests/*}/Cargo.toml" | head -n 2
    printf -- '--test\n%s\n' "$(basename "$test" .rs)"
done
