#!/usr/bin/env bash
# Mutation tests by cargo-mutants: changes the source one operator or function at a time and reports the
# changes that no test notices.
#
#     scripts/cargo-mutants.sh SUITE            its fixed shard, at least 100 viable mutants
#     scripts/cargo-mutants.sh SUITE all        every mutant of the suite
#     scripts/cargo-mutants.sh SUITE K/N        shard K of N, round robin over the source
#     scripts/cargo-mutants.sh changed [BASE]   what the commits since BASE touch, in all suites
#     scripts/cargo-mutants.sh base             the BASE that `changed` takes by itself
#     scripts/cargo-mutants.sh list             checks scripts/mutants-equivalent.txt only
#
# SUITE is one of store, index, stm, pmem, dsm-core, runtime. A survivor fails the run unless
# scripts/mutants-equivalent.txt lists it with the reason why it changes nothing that a test could see.
# A run prints `mutants.SUITE.caught`: caught mutants and time-outs over viable ones, target 0.95.
# - The mutated tree is a copy under target/mutation/tree, so that the working folder can be edited
#   meanwhile; its build folder is kept, so that a second run compiles no dependency again.
# - CPU_SECONDS (60) ends a test process that a mutant makes spin; it counts as caught.
# - BASE is LITTORAL_BASE; or else where HEAD left origin/main; or else the newest commit a day older than
#   HEAD; or in a shallow clone its oldest commit. `base` ends with 4 where a shallow clone has nothing else
#   than HEAD, and with 1 where there is no base.
# - LIMIT caps the mutants that `changed` runs (40): it takes every n-th of those of all suites.
# Needs cargo-mutants (cargo install cargo-mutants --locked).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
suites=(store index stm pmem dsm-core runtime)
work=${CARGO_TARGET_DIR:-$root/target}/mutation
list=$root/scripts/mutants-equivalent.txt
target_share=0.95 viable_min=100

usage() { sed -n '2,/^# Needs/{s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

# The commit from which a change counts.
base() {
    local head found
    head=$(git rev-parse HEAD)
    if [ -n "${LITTORAL_BASE:-}" ]; then
        git rev-parse --verify --quiet "$LITTORAL_BASE^{commit}" && return
        echo "LITTORAL_BASE names no commit: $LITTORAL_BASE" >&2
        return 1
    fi
    found=$(git merge-base origin/main HEAD 2>/dev/null || true)
    if [ -z "$found" ] || [ "$found" = "$head" ]; then
        found=$(git rev-list -1 --until="$(($(git log -1 --format=%ct) - 86400))" HEAD)
    fi
    if [ -z "$found" ]; then
        found=$(git rev-list HEAD | tail -n 1)
        if [ "$found" = "$head" ]; then
            echo "$head is the only commit here: nothing to compare it with" >&2
            [ "$(git rev-parse --is-shallow-repository)" = true ] && return 4 || return 1
        fi
    fi
    echo "$found"
}

if [ "${1:-}" = base ]; then
    base
    exit
fi
cargo mutants --version >/dev/null 2>&1 || {
    echo "cargo-mutants is needed: cargo install cargo-mutants --locked" >&2
    exit 3
}
# Later versions cut shards as slices unless they are told otherwise.
sharding=()
! cargo mutants --help | grep -q -e --sharding || sharding=(--sharding round-robin)

# The package and files of a suite, its fixed shard, and the test targets that must notice.
suite() { # SUITE
    files=() tested=() share=0/1
    case $1 in
    runtime)
        package=littoral-runtime
        tests=(--lib --test ring --test prop_ring --test reader)
        ;;
    dsm-core)
        package=littoral-dsm share=0/2
        files=('crates/dsm/src/core/**')
        tests=(--lib --test model_scope --test prop_scope)
        ;;
    store)
        package=littoral-store share=0/5
        tested=(littoral-store littoral-index littoral-assure)
        tests=(--lib --test crash_collections --test promises --test hostile_log --test old_stores
            --test damage --test prop_trees --test index_power_cuts)
        ;;
    index)
        package=littoral-index share=0/11
        tested=(littoral-index littoral-assure littoral)
        tests=(--lib --test prop_trees --test index_power_cuts --test full_and_worn --test kv_files
            --test damage --test hostile --test cow_batches --test full_under_load
            --test read_only_media --test second_reader --test index_damage)
        ;;
    stm)
        package=littoral-stm share=0/12
        tested=(littoral-stm littoral-assure)
        tests=(--lib --test pool --test stm_crash --test prop_structures --test defects
            --test snapshots --test damage --test crash_recycle --test crash_hash --test stm_flip)
        ;;
    pmem)
        package=littoral-device share=0/3
        files=('crates/device/src/pmem/**')
        tested=(littoral-device littoral-stm littoral-assure)
        tests=(--lib --test pmem_files --test pool --test stm_crash)
        ;;
    *) usage ;;
    esac
    chosen=(-p "$package")
    for glob in "${files[@]}"; do chosen+=(-f "$glob"); done
    local names
    names=$(IFS=, && echo "${tested[*]:-$package}")
    # As arguments of every cargo call, so that other targets are not even built.
    judged=(--test-package "$names" "${tests[@]/#/--cargo-arg=}")
}

# The tracked files, with their times, beside a build folder that outlives the run.
copy_tree() {
    tree=$work/tree
    mkdir -p "$tree"
    find "$tree" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
    git ls-files -z | tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -C "$tree" -xf -
}

# `FILE:LINE:COL: WHAT` as `FILE: WHAT @ SOURCE LINE`, which survives changes elsewhere in the file.
keyed() {
    while IFS=: read -r file line _ what; do
        [ -n "$file" ] || continue
        printf '%s:%s @ %s\n' "$file" "$what" "$(sed -n "${line}s/^ *//p" "$root/$file")"
    done
}

# The keys of the committed list: a line `FILE: WHAT`, a line `@ SOURCE LINE`, then the reason.
listed() { awk '/^crates\//{what = $0; next} /^@ /{print what " " $0}' "$list"; }

check_list() {
    local missing
    missing=$(comm -23 <(listed | sort -u) <(
        for name in "${suites[@]}"; do
            suite "$name"
            cargo mutants --list --colors never "${chosen[@]}"
        done | keyed | sort -u
    ))
    if [ -n "$missing" ]; then
        printf 'scripts/mutants-equivalent.txt lists mutants that no longer exist:\n%s\n' "$missing"
        return 1
    fi
    echo "scripts/mutants-equivalent.txt: $(listed | wc -l) mutants, all of them exist"
}

count() { [ -f "$1" ] && grep -c . "$1" || true; }

run() { # SUITE [cargo-mutants' choice of mutants...]
    local name=$1 rc=0 out=$work/$1
    shift
    suite "$name"
    rm -rf "$out"
    mkdir -p "$out"
    # A mutant that hangs spins, so processor seconds end it; wall-clock limits kill slow machines' tests.
    (cd "$tree" && ulimit -t "${CPU_SECONDS:-60}" && cargo mutants --in-place -o "$out" --colors never --no-times \
        "${chosen[@]}" "${sharding[@]}" "$@" "${judged[@]}") || rc=$?
    # 0: all caught; 2: some survived; 3: some timed out. Anything else is no verdict.
    case $rc in 0 | 2 | 3) ;; *) echo "$name: cargo-mutants ended with $rc"; return "$rc" ;; esac
    local results=$out/mutants.out caught late missed
    caught=$(count "$results/caught.txt")
    late=$(count "$results/timeout.txt")
    missed=$(count "$results/missed.txt")
    local viable=$((${caught:=0} + ${late:=0} + ${missed:=0})) open
    open=$(grep -vxFf <(listed) <(keyed <"$results/missed.txt") || true)
    printf '%s: %s viable, %s caught, %s timed out, %s survived, %s of these listed\n' "$name" \
        "$viable" "$caught" "$late" "$missed" "$((missed - $(grep -c . <<<"$open" || true)))"
    [ "$viable" -eq 0 ] || awk -v n="$name" -v c="$((caught + late))" -v v="$viable" -v t=$target_share \
        'BEGIN{r = c / v; printf "mutants.%s.caught = %.3f (target >= %s, count): %s\n", n, r, t, r >= t ? "holds" : "short"}'
    if [ -n "$open" ]; then
        printf 'survivors without a test or a line in scripts/mutants-equivalent.txt:\n%s\n' "$open"
        return 1
    fi
    [ "$viable" -eq 0 ] || awk -v c="$((caught + late))" -v v="$viable" -v t=$target_share 'BEGIN{exit !(c / v >= t)}'
}

changed() { # BASE
    local diff=$work/changed.diff failed=0 all=0 seen=0 shards first lines
    local -A found
    git diff "$1" -- 'crates/*.rs' >"$diff"
    for name in "${suites[@]}"; do
        suite "$name"
        # No mutants in the diff is no failure; a list that cannot be made must not read as none.
        lines=$(cargo mutants --list --colors never "${chosen[@]}" --in-diff "$diff" 2>"$work/list.log") ||
            { echo "$name: its mutants could not be listed"; tail -n 5 "$work/list.log"; failed=1; }
        found[$name]=$(grep -c : <<<"$lines" || true)
        all=$((all + ${found[$name]}))
    done
    shards=$(((all + ${LIMIT:-40} - 1) / ${LIMIT:-40}))
    echo "$all mutants in what changed since $1; one of $shards is tried"
    for name in "${suites[@]}"; do
        # Every n-th of all suites' mutants: which of this suite is the first depends on those before.
        first=$((shards > 0 ? (shards - seen % shards) % shards : 0))
        seen=$((seen + ${found[$name]}))
        [ "$first" -lt "${found[$name]}" ] || { echo "$name: none of its ${found[$name]} is drawn"; continue; }
        # A share of few mutants is not comparable with the target: survivors alone decide here.
        target_share=0 run "$name" --in-diff "$diff" --shard "$first/$shards" || failed=1
    done
    return "$failed"
}

case ${1:-} in
list) check_list ;;
changed)
    from=${2:-}
    [ -n "$from" ] || from=$(base)
    copy_tree
    changed "$from"
    ;;
'' | -*) usage ;;
*)
    suite "$1"
    copy_tree
    shard=${2:-$share}
    [ "$shard" = all ] && shard=0/1
    run "$1" --shard "$shard"
    viable=$(cat "$work/$1"/mutants.out/{caught,missed,timeout}.txt | grep -c .)
    [ -n "${2:-}" ] || [ "$viable" -ge $viable_min ] || {
        echo "$1: the fixed shard has $viable viable mutants, fewer than $viable_min"
        exit 1
    }
    ;;
esac
