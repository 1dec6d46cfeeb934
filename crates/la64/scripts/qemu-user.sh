#!/bin/sh
# qemu-user.sh DIR
#
# Unpacks Debian sid's static qemu-user and the LoongArch binutils into DIR/amd64 for the
# differential tests; nothing is installed (see sid-unpack.sh). Prints the directory to put in PATH.
set -eu
dir=${1:?usage: qemu-user.sh DIR}
"$(dirname "$0")/sid-unpack.sh" "$dir" amd64 qemu-user binutils-loongarch64-linux-gnu >&2
echo "$dir/amd64/usr/bin"
