#!/bin/sh
# loongarch-rustc.sh DIR
#
# Unpacks Debian sid's Rust compiler, which runs here, and its standard library for loong64 into DIR; nothing
# is installed (see sid-unpack.sh). Prints the path of a command that stands for `rustc` and compiles for
# x86-64 and for LoongArch: where rustup has no standard library for LoongArch.
set -eu
dir=${1:?usage: loongarch-rustc.sh DIR}
unpack=$(dirname "$0")/../crates/la64-linux/scripts/sid-unpack.sh
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
"$unpack" "$dir" amd64 rustc >&2
"$unpack" "$dir" loong64 libstd-rust-dev >&2
libraries=$dir/amd64/usr/lib/x86_64-linux-gnu
mkdir -p "$dir/sysroot/lib/rustlib"
ln -sfn "$dir/amd64/usr/lib/rustlib/x86_64-unknown-linux-gnu" "$dir/sysroot/lib/rustlib/"
ln -sfn "$dir/loong64/usr/lib/rustlib/loongarch64-unknown-linux-gnu" "$dir/sysroot/lib/rustlib/"
# The libraries that it came with: those of this machine may be older.
cat >"$dir/rustc" <<END
#!/bin/sh
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" --argv0 rustc \\
    "$dir/amd64/usr/bin/rustc" --sysroot "$dir/sysroot" "\$@"
END
chmod +x "$dir/rustc"
"$dir/rustc" --version >&2
echo "$dir/rustc"
