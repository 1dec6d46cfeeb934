#!/usr/bin/env bash
# Puts each repaired defect back, one at a time, and checks that the suite notices.
#
# A defect that was repaired stays in the source behind `littoral_base::mutant!("name")`. The test
# targets of scripts/mutants.txt are built once with `--cfg mutants` (for workspace crates only, so
# that dependencies are shared with the ordinary build) and run once for each of their mutants, which
# must make them fail. Without a mutant they must pass, or a failure would show nothing. A target
# called `loom_*` is a model, built as `scripts/schedules.sh loom` builds it. A defect in the source
# and not in the list, or the other way round, fails this script.
#
# MUTANT=NAME restricts the run to one.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
list=$(sed 's/#.*//' scripts/mutants.txt | awk 'NF == 3')
in_source=$(grep -rhoE 'mutant!\("[a-z0-9_]+"\)' crates/*/src --include='*.rs' | grep -v '"example_' | cut -d'"' -f2 | sort -u)
if ! diff <(echo "$in_source") <(awk '{print $1}' <<<"$list" | sort -u); then
    echo "the source (<) and scripts/mutants.txt (>) name different mutants"
    exit 1
fi

mkdir -p "$target"
wrapper=$target/with-mutants
printf '#!/bin/sh\ncompiler=$1\nshift\nexec "$compiler" "$@" --cfg mutants\n' >"$wrapper"
chmod +x "$wrapper"
export RUSTC_WORKSPACE_WRAPPER=$wrapper
log=$(mktemp)
trap 'rm -f "$log"' EXIT

suite() { # CRATE TEST: cargo's arguments for one test target, and its environment
    run=(cargo test --locked -q -p "littoral-$1")
    export CARGO_TARGET_DIR=$target
    unset RUSTFLAGS LOOM_MAX_PREEMPTIONS LITTORAL_MUTANT
    case $2 in
    loom_*)
        run+=(--release --test "$2")
        export CARGO_TARGET_DIR=$target-loom RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3
        ;;
    lib) run+=(--lib) ;;
    *) run+=(--test "$2") ;;
    esac
}

declare -A limit
while read -r crate test; do
    [ -z "${MUTANT:-}" ] || grep -qE "^$MUTANT +$crate +$test\$" <<<"$list" || continue
    suite "$crate" "$test"
    "${run[@]}" --no-run
    began=$SECONDS
    if ! timeout 900 "${run[@]}" >"$log" 2>&1; then
        echo "$test of $crate fails without any mutant:"
        tail -n 30 "$log"
        exit 1
    fi
    # What hangs with a mutant is killed by it; nothing takes four times as long without hanging.
    limit[$crate/$test]=$((15 + 4 * (SECONDS - began)))
done < <(awk '{print $2, $3}' <<<"$list" | sort -u)

survivors=0 tried=0
while read -r mutant crate test; do
    [ -z "${MUTANT:-}" ] || [ "$MUTANT" = "$mutant" ] || continue
    tried=$((tried + 1))
    suite "$crate" "$test"
    if LITTORAL_MUTANT=$mutant timeout "${limit[$crate/$test]}" "${run[@]}" >"$log" 2>&1; then
        echo "mutant $mutant SURVIVED $test of $crate"
        survivors=$((survivors + 1))
    else
        echo "mutant $mutant: killed by $(grep -m 1 -oE '^test .* FAILED|panicked at .*' "$log" || echo "a time-out")"
    fi
done <<<"$list"
echo "$tried mutants, $survivors survived"
exit "$((survivors > 0))"
