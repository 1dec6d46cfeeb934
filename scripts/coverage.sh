#!/usr/bin/env bash
# Which lines the tests of the core crates run: coverage.sh [CRATE...], by default all of them.
#
# Prints `coverage.CRATE` (lines run over lines, its unit and integration tests together, tests' own
# lines excepted) and the files least covered; target/coverage/html shows each line. Tests of other
# crates do not count, so recovery code that only an engine above exercises reads low here.
# Needs cargo-llvm-cov (cargo install cargo-llvm-cov --locked) and rustup's llvm-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo llvm-cov --version >/dev/null 2>&1 || { echo "cargo-llvm-cov is needed: cargo install cargo-llvm-cov --locked" >&2; exit 3; }
rustup component list --installed | grep -q llvm-tools || rustup component add llvm-tools >/dev/null 2>&1 ||
    { echo "rustup could not install llvm-tools" >&2; exit 3; }
crates=("$@")
[ $# -gt 0 ] || crates=(base device fabric store runtime index stm dsm)
out=${CARGO_TARGET_DIR:-$PWD/target}/coverage
mkdir -p "$out"
chosen=()
for crate in "${crates[@]}"; do chosen+=(-p "littoral-$crate"); done
cargo llvm-cov --locked --no-report -q "${chosen[@]}" --lib --tests >"$out/log" 2>&1 ||
    { tail -n 30 "$out/log"; echo "a test failed under coverage; see $out/log"; exit 1; }
cargo llvm-cov report --html --output-dir "$out" >/dev/null
cargo llvm-cov report --json --summary-only >"$out/summary.json"
# A file of a crate: path, lines, lines run.
lines=$(grep -oE '"filename":"[^"]*/crates/[^"]*"|"lines":\{"count":[0-9]+,"covered":[0-9]+' "$out/summary.json" |
    awk -F'"' '/filename/ {sub(/.*\/crates\//, "", $4); file = $4}
        /"lines"/ && file != "" {gsub(/[^0-9,]/, "", $0); split($0, n, ","); print file, n[1], n[2]; file = ""}' |
    sed -E 's/ ,/ /; s/,/ /g' | awk '$1 ~ /\/src\// {print}')
for crate in "${crates[@]}"; do
    awk -v c="$crate" '$1 ~ "^" c "/src/" {all += $2; run += $3}
        END {if (all) printf "coverage.%s = %.3f (%d of %d lines, count)\n", c, run / all, run, all}' <<<"$lines"
done
echo "least covered of files with 40 lines or more:"
awk -v wanted=" ${crates[*]} " '$2 >= 40 && index(wanted, " " substr($1, 1, index($1, "/") - 1) " ") {printf "%.3f %s (%d lines)\n", $3 / $2, $1, $2}' <<<"$lines" | sort -n | head -n 12
echo "every line: $out/html/index.html"
