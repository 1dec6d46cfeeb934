#!/usr/bin/env bash
# Puts each repaired defect back, one at a time, and checks that the suite notices.
#
# A defect that was repaired stays in the source behind `cfg(mutant = "name")`. For each name found, the
# tests of its crate are built with that switch on (for workspace crates only, so that dependencies are
# built once) and must fail; a mutant that does not build, or that no test kills, fails this script.
# A mutant named `loom_*` is one that only the crate's loom models can see, and they are what is run.
#
# MUTANT=NAME restricts the run to one.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}-mutant
wrappers=$CARGO_TARGET_DIR/wrappers
mkdir -p "$wrappers"
names=$(grep -rhoE 'mutant = "[a-z0-9_]+"' crates/*/src --include='*.rs' | sort -u | cut -d'"' -f2 || true)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
survivors=0 tried=0
for name in $names; do
    [ -z "${MUTANT:-}" ] || [ "$MUTANT" = "$name" ] || continue
    tried=$((tried + 1))
    file=$(grep -rlF "mutant = \"$name\"" crates/*/src --include='*.rs' | head -n 1)
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${file%%/src/*}/Cargo.toml" | head -n 1)
    wrapper=$wrappers/$name
    printf '#!/bin/sh\ncompiler=$1\nshift\nexec "$compiler" "$@" --cfg '"'mutant=\"%s\"'"'\n' "$name" >"$wrapper"
    chmod +x "$wrapper"
    export RUSTC_WORKSPACE_WRAPPER=$wrapper
    suite=(--lib --tests)
    unset RUSTFLAGS
    if [[ $name == loom_* ]]; then
        suite=(--release --test 'loom_*')
        export RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
    fi
    if ! cargo test --locked -q -p "$package" "${suite[@]}" --no-run >"$log" 2>&1; then
        echo "mutant $name does not build:"
        tail -n 20 "$log"
        exit 1
    fi
    if timeout 300 cargo test --locked -q -p "$package" "${suite[@]}" >"$log" 2>&1; then
        echo "mutant $name SURVIVED the tests of $package"
        survivors=$((survivors + 1))
    else
        echo "mutant $name: killed by $(grep -m 1 -oE '^test .* FAILED|panicked at .*' "$log" || echo "a time-out")"
    fi
done
echo "$tried mutants, $survivors survived"
exit "$((survivors > 0))"
