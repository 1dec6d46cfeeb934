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
# Only a test that fails kills a mutant, or one that ends or hangs early because of it. A target that was not
# built or has no test that runs, a run that the system killed, and one that lacks room or memory without the
# mutant as well say nothing: such a mutant reads NOT RUN, which fails this script, as a survivor does.
#
# MUTANT='NAME...' restricts the run to these, each of which must be in the list. JOBS (the number of
# processors) mutants run at a time. With SECONDS_MAX no mutant is begun later than so many seconds after the
# builds; they are then tried in an order that the commit decides, and those left out are counted.
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
    for mutant in $MUTANT; do
        awk -v m="$mutant" '$1 == m {found = 1} END {exit !found}' <<<"$list" ||
            { echo "scripts/mutants.txt names no mutant $mutant"; exit 2; }
    done
    list=$(awk -v m=" $(echo $MUTANT) " 'index(m, " " $1 " ")' <<<"$list")
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

# What the end of a run says: `passed`, `killed`, or why nothing about a mutant. A failed test ends the run with
# 101, an abort or a broken access with its signal, a test that hangs with the 124 of `timeout`, and a program
# that a mutant ends early with a code of its own. The signals that others send are not the tests' word: 9 is
# what the system sends for want of memory.
verdict() { # CODE LOG
    case $1 in
    0) echo passed ;;
    101)
        if grep -qE '^test result: FAILED|panicked at ' "$2"; then
            echo killed
        else
            echo "it ended with code 101, and no test failed"
        fi
        ;;
    125 | 126 | 127) echo "it could not be started (code $1)" ;;
    129 | 130 | 137 | 143) echo "signal $(($1 - 128)) ended it, which no test sends itself: was there memory enough?" ;;
    *) echo killed ;;
    esac
}

# Whether a run speaks of a lack of room or memory. Tests of full devices do so too when they fail.
speaks_of_lack() { # LOG
    grep -qE 'No space left on device|Disk quota exceeded|Cannot allocate memory|memory allocation of [0-9]+ bytes failed|Too many open files' "$1"
}

# Whether a passing run ran a test at all.
ran_tests() { # LOG
    grep -qE '^test result: ok\. [1-9][0-9]* passed' "$1"
}

# A judge that takes everything for killed would hide what this script is for.
sample() { # EXPECTED CODE TEXT
    echo "$3" >"$work/sample"
    case $(verdict "$2" "$work/sample") in
    $1*) ;;
    *) echo "the judge takes code $2 of '$3' for '$(verdict "$2" "$work/sample")'"; exit 1 ;;
    esac
}
sample passed 0 'test result: ok. 1 passed; 0 failed'
sample killed 101 'test result: FAILED. 0 passed; 1 failed'
sample killed 124 ''
sample killed 134 'fatal runtime error: stack overflow, aborting'
sample killed 3 'a guest that ended the process'
sample 'it ended' 101 'error: could not compile'
sample 'it could not' 127 'No such file or directory'
sample 'signal 9' 137 ''
echo 'test result: ok. 0 passed; 0 failed; 2 ignored' >"$work/sample"
! ran_tests "$work/sample" || { echo "a target without tests is taken for one"; exit 1; }

# One run of a test target in its crate's folder, as cargo starts it; ends as the tests do.
run() { # CRATE TEST SECONDS MUTANT
    local file
    file=$(awk -v c="$1" -v t="$2" '$1 == c && $2 == t {print $3; exit}' "$work/built")
    cd "crates/$1"
    export CARGO_MANIFEST_DIR=$PWD LOOM_MAX_PREEMPTIONS=3
    [ -z "$4" ] || export LITTORAL_MUTANT=$4
    exec timeout "$3" "$file"
}

# The first run of a test target, without any mutant: it must pass and run tests, and says how long one with a
# mutant may take. What hangs with a mutant is killed by it; nothing takes four times as long without hanging.
prove() { # CRATE TEST
    (
        flock 9
        [ ! -e "$work/limit.$1.$2" ] || exit 0
        [ ! -e "$work/fails.$1.$2" ] || exit 1
        began=$SECONDS
        if ! grep -q "^$1 $2 " "$work/built"; then
            echo "no such test target was built" >"$work/fails.$1.$2"
            exit 1
        fi
        if ! (run "$1" "$2" 900 '') >"$work/first.$1.$2" 2>&1 9>&- || ! ran_tests "$work/first.$1.$2"; then
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
    local log rc found seconds attempt when=''
    if [ -n "${SECONDS_MAX:-}" ] && [ $(($(date +%s) - began_at)) -ge "$SECONDS_MAX" ]; then
        echo "mutant $1: not begun"
        return
    fi
    if ! prove "$2" "$3"; then
        echo "mutant $1 NOT RUN: $3 of $2 fails without any mutant, or has no test that runs"
        return
    fi
    log=$work/log.$1.$2.$3
    seconds=$(cat "$work/limit.$2.$3")
    for attempt in 1 2 3; do
        rc=0
        # The shell's own word on a test that aborts is no news.
        { (run "$2" "$3" "$seconds" "$1") >"$log" 2>&1; } 2>/dev/null || rc=$?
        found=$(verdict "$rc" "$log")
        # A lack is the mutant's doing where the next run without it has none, and one with it ends so again.
        if [ "$found" = killed ] && speaks_of_lack "$log" && [ "$attempt" = 1 ]; then
            if ! (run "$2" "$3" "$seconds" '') >"$log.without" 2>&1; then
                found="without the mutant it fails now, too: $(grep -m 1 -oE 'panicked at .*' "$log.without")"
                break
            fi
            when=" in run 2"
            continue
        fi
        [ "$found" = passed ] || break
        when=" in run $((attempt + 1))"
    done
    case $found in
    passed) echo "mutant $1 SURVIVED $3 of $2" ;;
    killed)
        echo "mutant $1: killed$when by $(grep -m 1 -oE '^test .* FAILED|panicked at .*' "$log" ||
            { [ "$rc" = 124 ] && echo "a time-out"; } || echo "an end with code $rc")"
        ;;
    *) echo "mutant $1 NOT RUN: $3 of $2: $found" ;;
    esac
}
export -f run verdict speaks_of_lack ran_tests prove try
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
