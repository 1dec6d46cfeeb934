#!/bin/sh
# qemu-user.sh DIR
#
# Unpacks Debian sid's static qemu-user and the LoongArch binutils into DIR/amd64 for the
# differential tests; nothing is installed (see sid-unpack.sh). Prints the directory to put in PATH:
# QEMU is static, and objdump there is a wrapper that runs it with the libraries it came with.
set -eu
dir=${1:?usage: qemu-user.sh DIR}
"$(dirname "$0")/sid-unpack.sh" "$dir" amd64 qemu-user binutils-loongarch64-linux-gnu >&2
dir=$(cd "$dir" && pwd)
lib=$dir/amd64/usr/lib/x86_64-linux-gnu
objdump=loongarch64-linux-gnu-objdump
mkdir -p "$dir/bin"
for name in qemu-loongarch64 qemu-mips64el; do
    ln -sf "$dir/amd64/usr/bin/$name" "$dir/bin/$name"
done
printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
    "$lib/ld-linux-x86-64.so.2" "$lib" "$dir/amd64/usr/bin/$objdump" >"$dir/bin/$objdump"
chmod +x "$dir/bin/$objdump"
echo "$dir/bin"
