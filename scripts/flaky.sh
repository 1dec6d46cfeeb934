#!/usr/bin/env bash
# Runs the suite again and again beside busy loops and says which tests failed how often.
#
#   scripts/flaky.sh [RUNS] [LOOPS] [TOGETHER] [-- CARGO-TEST-ARGUMENTS]
#
# RUNS (20) times `cargo test --locked --no-fail-fast`, beside LOOPS (4) processes that do nothing but
# compute. TOGETHER (1) runs go on at a time: more are a harder test, since each is load for the
# others, and keep more of the processors' time for tests. (Of nine runs, seven at a time, three found an
# ext4 file system of 65 GiB free without room for stores; one run needs 1.6 GB, and the cause is not
# known.) After each run the tree must be as it was before the first: no test writes a tracked file or
# leaves a new one. The last line is `tests.flaky N of RUNS`, N being the runs in which something failed,
# and the exit code is 0 when N is 0. Logs of failed runs stay in the target folder, under `flaky`. The
# loops are children of this script, which ends exactly those, also when interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=20 loops=4 together=1
if [[ ${1:-} =~ ^[0-9]+$ ]]; then runs=$1 && shift; fi
if [[ ${1:-} =~ ^[0-9]+$ ]]; then loops=$1 && shift; fi
if [[ ${1:-} =~ ^[0-9]+$ ]]; then together=$1 && shift; fi
if [ "${1:-}" = -- ]; then shift; fi
if [ "$runs" -lt 1 ] || [ "$together" -lt 1 ] || [[ ${1:-} == -h* || ${1:-} == --help ]]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
    exit 2
fi

export CARGO_TERM_COLOR=never
logs=${CARGO_TARGET_DIR:-$PWD/target}/flaky
mkdir -p "$logs"
rm -f "$logs"/run-*.log
cargo test --locked --no-run "$@"

children=() pending=()
end_loops() {
    [ ${#children[@]} -eq 0 ] || kill "${children[@]}" 2>/dev/null || true
    children=()
}
# A run is a process group of its own, so that an interrupted script leaves no test behind.
end_all() {
    end_loops
    for pid in "${pending[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
}
trap end_all EXIT
trap 'exit 130' INT TERM
for ((i = 0; i < loops; i++)); do
    (while :; do :; done) &
    children+=($!)
done

# Names of failed tests in a log, with the binary they are in. A binary that ends by a signal or an
# abort names no test, so cargo's own line about it counts as one.
failures() {
    awk '
        /^ *Running / { binary = $2; if (binary == "unittests") binary = $3 " " $4 }
        /^ *Doc-tests / { binary = "doc-tests of " $2 }
        /^test .* \.\.\. FAILED/ { sub(/^test /, ""); sub(/ \.\.\. FAILED.*/, ""); print binary ": " $0 }
        /process didn.t exit successfully.*signal/ { print "ended by a signal: " $0 }
    ' "$1" | sort -u
}

tree() { git status --porcelain && git diff HEAD | git hash-object --stdin; }
before=$(tree)
all=$logs/failures
: >"$all"

# One run: prints a line, and leaves `failed-RUN` and what failed in the file of all.
one() {
    local run=$1 log=$logs/run-$1.log began=$SECONDS rc=0 found after
    shift
    # What ends without a verdict has failed.
    : >"$logs/failed-$run"
    cargo test --locked --no-fail-fast "$@" >"$log" 2>&1 || rc=$?
    found=$(failures "$log")
    if [ "$rc" -ne 0 ] && [ -z "$found" ]; then
        found="cargo test ended with code $rc and named no test"
    fi
    after=$(tree)
    if [ "$after" != "$before" ]; then
        found+=${found:+$'\n'}"the tree has changed: $(diff <(echo "$before") <(echo "$after") | grep '^[<>]' | tr '\n' ' ')"
    fi
    if [ -n "$found" ]; then
        printf '%s\n' "$found" >>"$all"
        printf 'run %s of %s, %s s: FAILED, see %s\n%s\n' "$run" "$runs" "$((SECONDS - began))" "$log" "$found"
    else
        rm -f "$log" "$logs/failed-$run"
        printf 'run %s of %s, %s s: passed\n' "$run" "$runs" "$((SECONDS - began))"
    fi
}

rm -f "$logs"/failed-*
set -m
for ((run = 1; run <= runs; run++)); do
    if [ ${#pending[@]} -eq "$together" ]; then
        # The oldest; the others may end meanwhile.
        wait "${pending[0]}" || true
        pending=("${pending[@]:1}")
    fi
    one "$run" "$@" &
    pending+=($!)
done
for pid in "${pending[@]}"; do wait "$pid" || true; done
pending=()
failed=$(find "$logs" -name 'failed-*' | wc -l)
end_loops

if [ -s "$all" ]; then
    printf '\nfailed runs  what\n'
    sort "$all" | uniq -c | sort -rn
fi
echo "tests.flaky $failed of $runs"
exit "$((failed > 0))"
