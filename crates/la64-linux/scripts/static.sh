#!/bin/sh
# static.sh
#
# Builds `la64` without shared libraries, as another root or a container needs it, and checks it:
# that it names no interpreter, and that it runs a program and that program's own execve in a root
# that holds nothing else, not even /proc. Needs the right to change the root: root, or user
# namespaces. Prints the path of the program.
set -eu
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-gnu
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
    cargo build --locked -p littoral-la64-linux --bin la64 --target $target >&2
folder=$(cargo metadata --locked --no-deps --format-version 1 |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
la64=$folder/$target/debug/la64
# ldd fails for a program that is not linked with shared libraries, or says so.
if ldd "$la64" 2>/dev/null | grep -q '=>'; then
    echo "$la64 asks for shared libraries" >&2
    exit 1
fi
LA64_STATIC=$la64 cargo test --locked -p littoral-la64-linux --test other_root >&2
echo "$la64"
