#!/usr/bin/env bash
# A JIAJIA program on two hosts, as docs/book/src/howto/jiajia.md shows it: jia-two-hosts.sh [PREFIX]
#
# Two network namespaces with a cable between them are the hosts; the second has processes of its own. `ssh` is a script
# that enters it, with a shell and without the launcher's variables, as sshd starts a command. Runs the program, then
# kills a rank and looks for the words that say who died. Without PREFIX, where the library is, it is installed in the
# folder `jia` of cargo's target folder. Needs root and `ip`; ends with code 3 without them.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${1:-${CARGO_TARGET_DIR:-$PWD/target}/jia}
[ $# -gt 0 ] || scripts/install-jia.sh "$prefix"
one=jia-one-$$ two=jia-two-$$
cannot() { echo "no network namespaces here: they need root and ip"; exit 3; }
folder=$(mktemp -d)
trap 'ip netns del "$one" 2>/dev/null; ip netns del "$two" 2>/dev/null; rm -rf "$folder"' EXIT
ip netns add "$one" 2>/dev/null && ip netns add "$two" || cannot
ip link add v1 netns "$one" type veth peer name v2 netns "$two" || cannot
ip -n "$one" addr add 10.83.1.1/24 dev v1 && ip -n "$one" link set v1 up && ip -n "$one" link set lo up
ip -n "$two" addr add 10.83.1.2/24 dev v2 && ip -n "$two" link set v2 up && ip -n "$two" link set lo up

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# The words of pkg-config are options, apart.
# shellcheck disable=SC2046
cc -O2 -o "$folder/sor" -I "$prefix/share/jia" "$prefix/share/jia/sor.c" $(pkg-config --cflags --libs jia) -lm
# ssh -o OPTION -o OPTION HOST LINE
cat >"$folder/ssh" <<SSH
#!/bin/sh
exec env -i PATH="\$PATH" ip netns exec $two unshare --pid --fork --mount-proc sh -c 'sh -c "\$1"; exit \$?' - "\$6"
SSH
chmod +x "$folder/ssh"
cd "$folder"
export PATH=$folder:$PATH JIA_LABEL=1
run() { ip netns exec "$one" "$@"; }

printf '10.83.1.1\n10.83.1.2\n' | tee .jiahosts
echo '$ ./sor'
run ./sor >out 2>&1 || { cat out; exit 1; }
cat out
grep -q 'sor agrees with one process' out

echo '$ ./sor 2046 1024 1000000 &'
run ./sor 2046 1024 1000000 >out 2>&1 &
launcher=$!
# The rank of the second host, once it computes.
rank() { ip netns pids "$two" | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != sor ] || echo "$pid"; done; }
ticks() { awk '{print $14 + $15}' "/proc/$1/stat" 2>/dev/null || echo 0; }
until killed=$(rank) && [ -n "$killed" ] && [ "$(ticks "$killed")" -gt 100 ]; do
    kill -0 "$launcher" || { cat out; exit 1; }
    sleep 0.1
done
echo "\$ kill -KILL $killed    # on the second host"
kill -KILL "$killed"
code=0
wait "$launcher" || code=$?
cat out
echo "(code $code)"
grep -qE 'rank 1 \(process [0-9]+\) died' out || { echo "no rank says who died"; exit 1; }
[ "$code" != 0 ] || exit 1
