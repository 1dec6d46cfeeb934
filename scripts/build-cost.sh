#!/usr/bin/env bash
# What the default binary costs: build-cost.sh builds it cold (release, its own target folder, no
# incremental state) and prints
#
#   build.default.cpu_minutes   processor time of cargo and all its children (limit 6)
#   binary.bytes                the stripped binary (limit 25 MB)
#   help.raw.ms                 wall time of `littoral --help`, median of 101 runs
#   start.ms                    the same of /bin/true: the shell's own cost of starting a program
#   help.ms                     the first less the second (limit 2)
#
# Downloads are made first and do not count. build-cost.sh --no-build BINARY measures size and times
# of a binary that is there. Ends with code 1 when a limit is passed. Clock: CPU for the first, wall
# for the times.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

minutes=
if [ "${1:-}" = --no-build ]; then
    binary=$(realpath "${2:?build-cost.sh --no-build BINARY}")
else
    cargo fetch --locked -q
    cd "$work"
    # `time` counts the children that cargo waited for, and theirs.
    TIMEFORMAT='%U %S'
    spent=$({ time CARGO_TARGET_DIR=$work/target cargo build --release --locked -q \
        --manifest-path "$root/Cargo.toml" -p littoral-cli 1>&3 2>&3; } 3>/dev/stderr 2>&1)
    minutes=$(awk '{ printf "%.2f", ($1 + $2) / 60 }' <<<"$spent")
    binary=$work/target/release/littoral
fi

strip -o "$work/stripped" "$binary"
bytes=$(stat -c %s "$work/stripped")
help=$(for _ in $(seq 101); do
    begun=$(date +%s%N)
    "$work/stripped" --help >/dev/null
    echo $(($(date +%s%N) - begun))
done | sort -n | sed -n 51p)
# The shell's own cost of starting a program and reading the clock, taken off.
empty=$(for _ in $(seq 101); do
    begun=$(date +%s%N)
    /bin/true >/dev/null
    echo $(($(date +%s%N) - begun))
done | sort -n | sed -n 51p)
ms() { awk -v ns="$1" 'BEGIN { printf "%.2f", (ns > 0 ? ns : 0) / 1e6 }'; }
raw=$(ms "$help") start=$(ms "$empty") help=$(ms $((help - empty)))

[ -z "$minutes" ] || echo "build.default.cpu_minutes $minutes"
echo "binary.bytes $bytes"
echo "help.raw.ms $raw"
echo "start.ms $start"
echo "help.ms $help (beyond starting /bin/true)"
awk -v m="${minutes:-0}" -v b="$bytes" -v h="$help" \
    'BEGIN { exit !(m <= 6 && b <= 25000000 && h <= 2) }'
