#!/bin/sh
# oracles.sh DIR
#
# Fills DIR with all that `littoral repro loongarch --peers DIR` is measured beside: QEMU and
# binutils (DIR/qemu), a C compiler for every target (DIR/zig), Debian's programs for LoongArch and
# amd64 (DIR/root), for MIPS64 and amd64 of the last release with both (DIR/bookworm), LoongArch's
# builds of QEMU and box64 (DIR/guestjit). `repro latm` and `repro latx` use the same. Nothing is installed; valgrind, which counts host instructions, is Debian's package of
# that name.
set -eu
dir=${1:?usage: oracles.sh DIR}
here=$(dirname "$0")
"$here/qemu-user.sh" "$dir/qemu" >&2
"$here/loong64-sysroot.sh" "$dir/root" >&2
SUITE=bookworm ARCH=mips64el "$here/loong64-sysroot.sh" "$dir/bookworm" >&2
"$here/sid-unpack.sh" "$dir/guestjit" loong64 qemu-user box64 >&2
python3 -m pip install -q --target "$dir/zig" ziglang >&2
command -v valgrind >/dev/null || echo "valgrind is not in PATH: its claims will be skipped" >&2
