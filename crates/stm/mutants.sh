#!/usr/bin/env bash
# Puts each known defect back and shows that the suite kills it; a mutant that lives fails this script.
# Each defect and its switch: docs/design/stm.md, "Mutants".
set -u
cd "$(dirname "$0")/../.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/mutants"
suite() { # name, extra cfg, test target
    RUSTFLAGS="$2 --cfg mutant=\"$1\"" cargo test -q -p littoral-stm --release --test "$3" 2>&1
}
alive=0
verdict() {
    if suite "$1" "$2" "$3" >"$CARGO_TARGET_DIR.log"; then
        echo "LIVES  $1 ($3)"; alive=1
    elif grep -q "test result: FAILED" "$CARGO_TARGET_DIR.log"; then
        echo "killed $1 by $3: $(grep -oE '^test [a-z0-9_:]+ \.\.\. FAILED|^    [a-z_0-9]+$' "$CARGO_TARGET_DIR.log" | sort -u | tr -s ' \n' ' ')"
    else
        echo "BROKEN $1: it does not build"; tail -5 "$CARGO_TARGET_DIR.log"; alive=1
    fi
}
mkdir -p "$CARGO_TARGET_DIR"
for m in ce_a ce_b ce_c row2 row10 row11 row13; do verdict "$m" "" defects; done
for m in row10 row11 row13; do verdict "$m" "" crash_pool; done
for m in row6 no_lock_check; do verdict "$m" "--cfg loom" loom_core; done
exit $alive
