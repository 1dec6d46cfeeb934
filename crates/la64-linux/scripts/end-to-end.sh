#!/bin/sh
# end-to-end.sh DIR
#
# The whole test suite with nothing left out: python3 with threads, signals and processes, bash,
# sqlite3 and the other programs of a loong64 sysroot against their amd64 builds, random
# instructions against QEMU, the disassembler against objdump. What DIR lacks is fetched first
# (loong64-sysroot.sh, qemu-user.sh); nothing is installed.
set -eu
dir=${1:?usage: end-to-end.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
programs=$dir/root
[ -x "$programs/loong64/usr/bin/python3" ] || "$here/loong64-sysroot.sh" "$programs" >&2
[ -x "$dir/qemu/bin/qemu-loongarch64" ] || "$here/qemu-user.sh" "$dir/qemu" >&2
cd "$here/.."
PATH=$dir/qemu/bin:$PATH LA64_SYSROOT=$programs/loong64 \
    cargo test -p littoral-la64 -p littoral-la64-linux --no-fail-fast
