#!/usr/bin/env bash
# Builds JIAJIA's C interface and installs it: install-jia.sh PREFIX
#
# Puts libjia.so and .a under PREFIX/lib, jia.h under PREFIX/include, programs and the source's revision under
# PREFIX/share/jia and jia.pc under PREFIX/lib/pkgconfig, so that `pkg-config --cflags --libs jia` finds them.
set -euo pipefail
cd "$(dirname "$0")/.."

case $#:${1:-} in
1:-* | [!1]:*) echo "usage: install-jia.sh PREFIX" && exit 2 ;;
esac
mkdir -p "$1/lib/pkgconfig" "$1/include" "$1/share/jia"
prefix=$(cd "$1" && pwd)
target=${CARGO_TARGET_DIR:-$PWD/target}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

cargo build --profile release-lto --locked -p littoral-jia
install -m 644 "$target/release-lto/libjia.a" "$prefix/lib/"
install -m 755 "$target/release-lto/libjia.so" "$prefix/lib/"
install -m 644 crates/jia/include/jia.h "$prefix/include/"
install -m 644 crates/jia/programs/* "$prefix/share/jia/"
# `littoral repro jiajia` takes a library of its own revision alone.
(git describe --always --dirty --tags 2>/dev/null || echo unknown) >"$prefix/share/jia/revision"
cat >"$prefix/lib/pkgconfig/jia.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: jia
Description: JIAJIA's interface over littoral's shared memory
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -Wl,-rpath,\${libdir} -ljia
Libs.private: -lpthread -ldl -lm
PC
echo "installed jia $version in $prefix"
