#!/bin/sh
# [SUITE=NAME] [ARCH=NAME] loong64-sysroot.sh DIR [PACKAGE...]
#
# DIR/loong64 (or DIR/ARCH) gets the programs to run, DIR/amd64 the same versions to run natively,
# so that outputs can be compared byte for byte (see sid-unpack.sh for how, and for SUITE). A package whose source
# versions differ between the two architectures is named on stderr (exit code 1); a rebuild suffix
# such as +b1 is no difference.
set -eu
dir=${1:?usage: loong64-sysroot.sh DIR [PACKAGE...]}
shift
[ $# -gt 0 ] || set -- libc6 libc-bin coreutils bash dash python3-minimal python3 perl-base perl lua5.4 \
    gzip bzip2 xz-utils zstd sqlite3 openssl gawk busybox-static sed grep findutils
here=$(dirname "$0")
arch=${ARCH:-loong64}
"$here/sid-unpack.sh" "$dir" "$arch" "$@"
"$here/sid-unpack.sh" "$dir" amd64 "$@"
status=0
for package in "$@"; do
    a=$(grep "^$package " "$dir/$arch.versions" | sed 's/+b[0-9]*$//' || true)
    b=$(grep "^$package " "$dir/amd64.versions" | sed 's/+b[0-9]*$//' || true)
    [ "$a" = "$b" ] || { echo "versions differ: $arch '$a', amd64 '$b'" >&2; status=1; }
done
exit $status
