#!/usr/bin/env bash
# Builds one static binary and packs it for release: release.sh [OUT], by default target/dist.
#
# OUT then holds littoral-VERSION-TARGET.tar.gz (binary, manual pages, completions for bash, zsh and
# fish, licences), its .sha256 and, where cargo-deb is installed, a Debian package with a checksum too.
# Where maturin is installed (or MATURIN names it), OUT also holds the Python package as a wheel.
# - TARGET chooses the target triple. By default it is musl where rustup has that target and a musl C
#   compiler exists, and glibc with `+crt-static` otherwise.
# - The same revision, compiler and TARGET are meant to give the same bytes: paths are remapped, files are sorted,
#   owners are numeric and every time is the commit's (SOURCE_DATE_EPOCH overrides it).
# - The archive is unpacked and its binary run before this script ends with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

out=$(mkdir -p "${1:-target/dist}" && cd "${1:-target/dist}" && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}
cpu=$(uname -m)
musl=$cpu-unknown-linux-musl
has_musl() { command -v musl-gcc >/dev/null && [ -d "$(rustc --print sysroot)/lib/rustlib/$musl/lib" ]; }
if [ -z "${TARGET:-}" ]; then
    if has_musl; then TARGET=$musl; else TARGET=$cpu-unknown-linux-gnu; fi
fi
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH=$epoch LC_ALL=C TZ=UTC
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=littoral-$version-$TARGET

echo "== build $name"
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# With an explicit --target these flags reach the product only, not build scripts or macros.
export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$root=. --remap-path-prefix=$cargo_home=cargo"
CARGO_INCREMENTAL=0 cargo build --profile release-lto --locked -p littoral-cli --bin littoral --target "$TARGET"
binary=$target_dir/$TARGET/release-lto/littoral
if readelf -lW "$binary" | grep -q INTERP; then
    echo "$binary asks for a dynamic loader: it is not static" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/$name
mkdir -p "$stage/man" "$stage/completions"
install -m 755 "$binary" "$stage/littoral"
"$binary" completions man --output "$stage/man"
"$binary" completions bash >"$stage/completions/littoral.bash"
"$binary" completions zsh >"$stage/completions/_littoral"
"$binary" completions fish >"$stage/completions/littoral.fish"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE NOTICE "$stage"
chmod -R u=rwX,go=rX "$stage"

echo "== pack"
tar -C "$work" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" \
    -cf - "$name" | gzip -n -9 >"$out/$name.tar.gz"
checksum() { (cd "$out" && sha256sum "$1" >"$1.sha256"); }
checksum "$name.tar.gz"

if cargo deb --version >/dev/null 2>&1; then
    # The manifest of crates/cli names the assets; pages and completions are the ones made above.
    assets=$root/target/deb-assets
    rm -rf "$assets"
    mkdir -p "$assets"
    cp -r "$stage/man" "$stage/completions" "$assets"
    gzip -n -9 "$assets"/man/*
    # Every file gets the commit's time, the packed manual pages too.
    find "$assets" -exec touch -d "@$epoch" {} +
    rm -f "$out"/littoral_*.deb*
    CARGO_TARGET_DIR=$target_dir cargo deb -q -p littoral-cli --no-build --no-strip --locked \
        --profile release-lto --target "$TARGET" --output "$out"
    checksum "$(basename "$out"/littoral_*.deb)"
else
    echo "!! no Debian package: cargo-deb is not installed (cargo install cargo-deb)"
fi

maturin=${MATURIN:-maturin}
if "$maturin" --version >/dev/null 2>&1; then
    echo "== wheel"
    # An extension module is linked dynamically: the flags of the static binary are left out.
    rm -f "$out"/littoral-*.whl*
    (cd crates/python && CARGO_TARGET_DIR=$target_dir/python \
        RUSTFLAGS="--remap-path-prefix=$root=. --remap-path-prefix=$cargo_home=cargo" \
        "$maturin" build --locked --quiet --release --strip --out "$out")
    checksum "$(basename "$out"/littoral-*.whl)"
else
    echo "!! no wheel: maturin is not installed (pip install 'maturin>=1.7,<2')"
fi

echo "== check what was packed"
(cd "$out" && sha256sum -c --quiet ./*.sha256)
tar -C "$work" --transform "s|^$name|unpacked|" -xzf "$out/$name.tar.gz"
said=$("$work/unpacked/littoral" --version)
[[ $said == "littoral $version"* ]] || { echo "the packed binary says: $said" >&2; exit 1; }
"$work/unpacked/littoral" machine >/dev/null
[ -s "$work/unpacked/man/littoral.1" ] || { echo "the manual's first page is missing" >&2; exit 1; }
wheel=$(find "$out" -name 'littoral-*.whl')
if [ -n "$wheel" ] && python3 -c 'import sys, numpy; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    python3 -m zipfile -e "$wheel" "$work/wheel"
    PYTHONPATH=$work/wheel python3 -c \
        'import littoral; assert littoral.Graph.from_arrays([0], [1]).levels(0).tolist() == [0, 1]'
fi
ls -l "$out"
