#!/usr/bin/env bash
# Puts each repaired defect back, one at a time, and checks that the suite notices.
#
# A defect that was repaired stays in the source behind `littoral_base::mutant!("name")`. The test
# targets of scripts/mutants.txt are built once with `--cfg mutants` (for workspace crates only, so
# that dependencies are shared with the ordinary build). Each is run once as it is and must pass, or a
# failure would show nothing; then once for each of its mutants, which must make it fail. A target
# called `loom_*` is a model, built as `scripts/schedules.sh loom` builds it. A defect in the source
# and not in the list, or the other way round, fails this script.
#
# MUTANT='NAME...' restricts the run to these. JOBS (the number of processors) mutants run at a time. With
# SECONDS_MAX no mutant is begun later than so many seconds after the builds; they are then tried in an
# order that the commit decides, and those left out are counted.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
list=$(sed 's/#.*//' scripts/mutants.txt | awk 'NF == 3')
in_source=$(grep -rhoE 'mutant!\("[a-z0-9_]+"\)' crates/*/src --include='*.rs' | grep -v '"example_' | cut -d'"' -f2 | sort -u)
if ! diff <(echo "$in_source") <(awk '{print $1}' <<<"$list" | sort -u); then
    echo "the source (<) and scripts/mutants.txt (>) name different mutants"
    exit 1
fi
if [ -n "${MUTANT:-}" ]; then
    list=$(awk -v m=" $MUTANT " 'index(m, " " $1 " ")' <<<"$list")
    [ -n "$list" ] || { echo "scripts/mutants.txt names no mutant of $MUTANT"; exit 2; }
fi

mkdir -p "$target"
if [ -n "${SECONDS_MAX:-}" ]; then
    list=$(shuf --random-source=<(yes "$(git rev-parse HEAD)") <<<"$list")
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/with-mutants.sh

# Builds test targets; a line per executable: the crate, the target (`lib` for its unit tests), the file.
build() { # CARGO'S ARGUMENTS...
    cargo test --locked --no-run --message-format=json-render-diagnostics "$@" | sed -nE \
        '/"executable":"/s@.*"manifest_path":"[^"]*/crates/([^/"]*)/Cargo.toml".*"kind":\["([a-z]*)".*"name":"([^"]*)","src_path.*"executable":"([^"]*)".*@\1 \2 \3 \4@p' |
        awk '{print $1, ($2 == "lib" ? "lib" : $3), $4}'
}

models=$(awk '$3 ~ /^loom_/ {print $3}' <<<"$list" | sort -u)
plain=$(awk '$3 !~ /^loom_/ {print $2, $3}' <<<"$list" | sort -u)
if [ -n "$plain" ]; then
    # Of the whole list all packages, as `cargo test` builds them, so that a suite built so before is used.
    chosen=(--workspace)
    if [ -n "${MUTANT:-}" ]; then
        chosen=()
        for crate in $(awk '{print $1}' <<<"$plain" | sort -u); do
            # The facade's package has the name of the workspace.
            chosen+=(-p "$([ "$crate" = littoral ] || echo littoral-)$crate")
        done
    fi
    for test in $(awk '{print $2}' <<<"$plain" | sort -u); do
        [ "$test" = lib ] && chosen+=(--lib) || chosen+=(--test "$test")
    done
    build "${chosen[@]}" >"$work/built"
fi
if [ -n "$models" ]; then
    mapfile -t chosen < <(scripts/scheduled-tests.sh loom)
    CARGO_TARGET_DIR=$target-loom RUSTFLAGS="--cfg loom" build --release "${chosen[@]}" >>"$work/built"
fi

began_at=$(date +%s)
export began_at

# One run of a test target in its crate's folder, as cargo starts it; ends as the tests do.
run() { # CRATE TEST SECONDS MUTANT
    local file
    file=$(awk -v c="$1" -v t="$2" '$1 == c && $2 == t {print $3; exit}' "$work/built")
    [ -n "$file" ] || { echo "no test target $2 of $1 was built"; return 99; }
    cd "crates/$1"
    export CARGO_MANIFEST_DIR=$PWD LOOM_MAX_PREEMPTIONS=3
    [ -z "$4" ] || export LITTORAL_MUTANT=$4
    exec timeout "$3" "$file"
}

# The first run of a test target, without any mutant: it must pass, and says how long one with a mutant may
# take. What hangs with a mutant is killed by it; nothing takes four times as long without hanging.
prove() { # CRATE TEST
    (
        flock 9
        [ ! -e "$work/limit.$1.$2" ] || exit 0
        [ ! -e "$work/fails.$1.$2" ] || exit 1
        began=$SECONDS
        if ! (run "$1" "$2" 900 '') >"$work/first.$1.$2" 2>&1 9>&-; then
            mv "$work/first.$1.$2" "$work/fails.$1.$2"
            exit 1
        fi
        echo $((30 + 4 * (SECONDS - began))) >"$work/limit.$1.$2"
    ) 9>"$work/lock.$1.$2"
}

# Tries one mutant; says by what it was killed, or that it survived.
#
# A mutant that only some schedules or random cases show gets three runs: the ordinary suite runs
# many times, and one run that missed it says nothing.
try() { # MUTANT CRATE TEST
    local log rc=0 seconds attempt when=''
    if [ -n "${SECONDS_MAX:-}" ] && [ $(($(date +%s) - began_at)) -ge "$SECONDS_MAX" ]; then
        echo "mutant $1: not begun"
        return
    fi
    if ! prove "$2" "$3"; then
        echo "mutant $1 NOT RUN: $3 of $2 fails without any mutant"
        return
    fi
    log=$work/log.$1.$2.$3
    seconds=$(cat "$work/limit.$2.$3")
    for attempt in 1 2 3; do
        # The shell's own word on a test that aborts is no news.
        { (run "$2" "$3" "$seconds" "$1") >"$log" 2>&1; } 2>/dev/null || rc=$?
        [ "$rc" = 0 ] || break
        when=" in run $((attempt + 1))"
    done
    if [ "$rc" = 99 ]; then
        echo "mutant $1 NOT RUN: $(cat "$log")"
    elif [ "$rc" = 0 ]; then
        echo "mutant $1 SURVIVED $3 of $2"
    else
        echo "mutant $1: killed$when by $(grep -m 1 -oE '^test .* FAILED|panicked at .*' "$log" || echo "a time-out")"
    fi
}
export -f run prove try
export work
xargs -P "${JOBS:-$(nproc)}" -L 1 bash -c 'try "$@"' _ <<<"$list" | tee "$work/tried"

tried=$(grep -c . <<<"$list") survivors=$(grep -cE 'SURVIVED|NOT RUN' "$work/tried" || true)
[ "$(grep -c . "$work/tried")" = "$tried" ] || { echo "some mutants were not tried"; exit 1; }
for failed in "$work"/fails.*; do
    [ ! -e "$failed" ] || { echo "${failed##*/fails.} without any mutant:"; tail -n 30 "$failed"; }
done
# Again at the end, where a reader of a long log finds them.
grep -E 'SURVIVED|NOT RUN' "$work/tried" || true
left_out=$(grep -c "not begun" "$work/tried" || true)
[ "$left_out" = 0 ] || echo "!! NOT TRIED for want of time: $left_out of $tried mutants"
echo "$((tried - left_out)) mutants, $survivors survived"
exit "$((survivors > 0))"
