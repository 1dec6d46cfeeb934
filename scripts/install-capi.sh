#!/usr/bin/env bash
# Builds the C library and installs it: install-capi.sh PREFIX
#
# Puts liblittoral_capi.so and .a under PREFIX/lib, littoral.h under PREFIX/include and littoral.pc under
# PREFIX/lib/pkgconfig, so that `pkg-config --cflags --libs littoral` finds them.
set -euo pipefail
cd "$(dirname "$0")/.."

case $#:${1:-} in
1:-* | [!1]:*) echo "usage: install-capi.sh PREFIX" && exit 2 ;;
esac
mkdir -p "$1/lib/pkgconfig" "$1/include"
prefix=$(cd "$1" && pwd)
target=${CARGO_TARGET_DIR:-$PWD/target}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

cargo build --profile release-lto --locked -p littoral-capi
install -m 644 "$target/release-lto/liblittoral_capi.a" "$prefix/lib/"
install -m 755 "$target/release-lto/liblittoral_capi.so" "$prefix/lib/"
install -m 644 crates/capi/include/littoral.h "$prefix/include/"
cat >"$prefix/lib/pkgconfig/littoral.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: littoral
Description: Test code for memory that is not DRAM
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -Wl,-rpath,\${libdir} -llittoral_capi
Libs.private: -lpthread -ldl -lm
PC
echo "installed littoral $version in $prefix"
