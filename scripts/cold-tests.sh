#!/usr/bin/env bash
# Times the README's second command from cold: `cargo test --locked` on two processors, its build
# included, downloads not.
#
#   scripts/cold-tests.sh [MINUTES]
#
# Builds into a new folder, which is removed afterwards, and prints what the build and the run took
# by the wall clock and in processor time, the slowest test binaries, and as its last line
# `tests.cold_minutes M of MINUTES` (10 unless said otherwise). The exit code is 0 when M is not more
# and the tests passed. On a busy machine the wall clock says little; the processor time still does.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=${1:-10}
[[ $limit =~ ^[0-9]+$ ]] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
cargo fetch --locked --quiet
target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
export CARGO_TARGET_DIR=$target CARGO_BUILD_JOBS=2 CARGO_TERM_COLOR=never CARGO_NET_OFFLINE=true
two=()
if command -v taskset >/dev/null && [ "$(nproc)" -gt 2 ]; then two=(taskset -c 0,1); fi

TIMEFORMAT='%R %U %S'
timed() { # LOG COMMAND...: seconds by the wall clock and of the processors; the command's exit code
    local log=$1 rc=0
    shift
    { time "${two[@]}" "$@" >"$log" 2>&1 || rc=$?; } 2>"$target/time"
    read -r wall user system <"$target/time"
    printf '%-6s %6.0f s by the wall clock, %6.0f s of processor time\n' "$1 $2" "$wall" \
        "$(awk "BEGIN { print $user + $system }")"
    return "$rc"
}
began=$SECONDS rc=0
timed "$target/build.log" cargo test --locked --no-run || { tail -n 30 "$target/build.log"; exit 1; }
timed "$target/run.log" cargo test --locked --no-fail-fast || rc=$?
minutes=$(awk "BEGIN { printf \"%.1f\", ($SECONDS - $began) / 60 }")
echo "slowest test binaries, seconds:"
awk '/^ *(Running|Doc-tests) / { name = $0; sub(/^ *(Running )?/, "", name) } /^test result/ { sub(/s$/, "", $NF); print $NF, name }' \
    "$target/run.log" | sort -rn | head -n 8
[ "$rc" = 0 ] || { grep -E '^test .* FAILED' "$target/run.log" || tail -n 30 "$target/run.log"; }
echo "tests.cold_minutes $minutes of $limit"
awk "BEGIN { exit !($minutes <= $limit && $rc == 0) }"
