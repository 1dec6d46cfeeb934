#!/usr/bin/env bash
# What docs/book/src/howto/jiajia.md tells a newcomer to do, done: jia-newcomer.sh [PREFIX]
#
# Installs the library in PREFIX (the folder `jia` in cargo's target folder), compiles a program by pkg-config, runs it
# by `littoral dsm run` and by `.jiahosts`, kills a rank and looks for the words that say who died. LITTORAL names the
# program `littoral`; without it the release build's is used, and built where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
prefix=${1:-$target/jia}
littoral=${LITTORAL:-$target/release/littoral}
[ -x "$littoral" ] || cargo build --release --locked --bin littoral
scripts/install-jia.sh "$prefix"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# The words of pkg-config are options, apart.
# shellcheck disable=SC2046
cc -O2 -o "$folder/sor" -I "$prefix/share/jia" "$prefix/share/jia/sor.c" $(pkg-config --cflags --libs jia) -lm
cd "$folder"

agrees() { grep -q 'sor agrees with one process' "$1" || { cat "$1"; exit 1; }; }
"$littoral" dsm run -n 2 ./sor >out 2>&1 || { cat out; exit 1; }
agrees out
printf 'localhost\nlocalhost\n' >.jiahosts
JIA_FABRIC=tcp ./sor >out 2>&1 || { cat out; exit 1; }
agrees out

# Ticks of processor time that a process has had.
ticks() { awk '{print $14 + $15}' "/proc/$1/stat" 2>/dev/null || echo 0; }
JIA_FABRIC=tcp ./sor 2046 1024 1000000 >out 2>&1 &
launcher=$!
ranks=()
while [ ${#ranks[@]} -lt 2 ] || [ "$(ticks "${ranks[0]}")" -lt 150 ] || [ "$(ticks "${ranks[1]}")" -lt 150 ]; do
    kill -0 "$launcher" || { cat out; exit 1; }
    read -ra ranks <"/proc/$launcher/task/$launcher/children" || true
    sleep 0.1
done
kill -KILL "${ranks[1]}"
code=0
wait "$launcher" || code=$?
cat out
grep -q "rank 1 (process ${ranks[1]}) died" out || { echo "no rank says who died"; exit 1; }
[ "$code" = 137 ] || { echo "the job ended with code $code, not with the killed rank's 137"; exit 1; }
echo "a program compiled, ran in two ways, and said who died"
